"""Run attnlearn as a user without privileges, where the tests are run by root."""

import os
import subprocess
import sys
from pathlib import Path

import numpy

NOBODY = 65534
ROOT = Path(__file__).parents[2]
SYSTEM = "/usr/bin/python3"
IS_ROOT = hasattr(os, "getuid") and os.getuid() == 0


def python(folder):
    """A Python with our packages that other users can start, made in a folder if need be; or None.

    The Python of the tests may lie in a folder of root's.
    """
    if not IS_ROOT or _starts(sys.executable, NOBODY):
        return sys.executable
    if not os.path.exists(SYSTEM):
        return None
    subprocess.run([SYSTEM, "-m", "venv", "--without-pip", folder], check=True)
    packages = next(Path(folder).glob("lib/*/site-packages"))
    (packages / "ours.pth").write_text(str(Path(numpy.__file__).parents[1]))
    made = str(Path(folder) / "bin" / "python")
    return made if _starts(made, NOBODY) else None


def run(command, user=None, **options):
    """A finished process; for root that of another user, if one is named."""
    kept = {name: value for name, value in os.environ.items() if name not in ("HOME", "TMPDIR")}
    env = {**kept, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    if IS_ROOT and user is not None:
        options |= {"user": user, "group": user, "extra_groups": []}
    return subprocess.run(command, capture_output=True, text=True, env=env, cwd="/", **options)


def _starts(program, user):
    try:
        return run([program, "-c", "import numpy, zmq"], user).returncode == 0
    except OSError:
        return False
