"""An environment for each of the other graders, made once, in a cache folder.

The folder is `attnlearn-graders` in `$XDG_CACHE_HOME`, or in `~/.cache`.
"""

from __future__ import annotations

import os
import subprocess
import venv
from pathlib import Path

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "attnlearn-graders"
PINS = {
    "nbgrader": "nbgrader==0.9.6",
    "otter": "otter-grader==7.0.0",
    "nbval": "nbval==0.11.0",
}
ALSO = ["numpy==2.4.6", "ipykernel==7.4.0"]


def install(name: str) -> list[str]:
    """Make the environment where there is none; returns what is installed in it."""
    python, done = program(name, "python"), CACHE / name / "done"
    pip = [python, "-m", "pip", "--disable-pip-version-check"]
    if not done.exists():
        venv.create(CACHE / name, with_pip=True, clear=True)
        subprocess.run([*pip, "install", "--quiet", PINS[name], *ALSO], check=True)
        done.touch()
    listed = subprocess.run(
        [*pip, "list", "--format=freeze"], capture_output=True, text=True, check=True
    )
    return listed.stdout.split()


def program(name: str, tool: str) -> Path:
    return CACHE / name / "bin" / tool


def call(name: str, *words, cwd: Path, check: bool = True) -> None:
    """Run `name`'s own tool, with its environment active."""
    path = os.pathsep.join([str(CACHE / name / "bin"), os.environ["PATH"]])
    command = [program(name, str(words[0])), *map(str, words[1:])]
    run(command, cwd=cwd, env={**os.environ, "PATH": path}, check=check)


def run(command: list, *, check: bool = True, **options) -> None:
    """As `subprocess.run`, but what a failed command printed is in the error."""
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options
    )
    if check and done.returncode:
        raise RuntimeError(f"{command} ended with {done.returncode}:\n{done.stdout[-2000:]}")
