"""How far a kernel that runs students' code is kept apart: the one place where that is decided.

A level says what it promises and what it does not; both stand in every result. L3 is a box of
Linux namespaces, L0 is nothing but limits. L2 and L1, another user and Landlock, are still to come.
"""

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass, field
from pathlib import Path

from ..kernel import PACKAGE_PARENT
from .limits import Limits

LAUNCH = Path(__file__).with_name("launch.py")
PASSED_ON = ("PATH", "LANG", "LC_ALL", "TZ", "LD_LIBRARY_PATH", "SYSTEMROOT", "TRITON_INTERPRET")
ENOUGH = 2  # the level that official grading asks for
PROBE = "import os, numpy; os.listdir('/proc/self/task'); open('probe', 'w').close()"

ALWAYS = (
    "verdicts are computed outside the kernel, from a table that it never receives",
    "nothing printed, displayed or written to a file counts as a verdict",
    "every process is dead before a result is written (on Linux)",
    "limits on time, output, memory of a process, number of processes, size of a file",
    "the kernel gets none of the grader's environment variables but the harmless ones",
)
NEVER = (
    "a check runs in the same interpreter as the answer: a value that the answer could have "
    "given can also be forged, and `forbid` is a flag, no proof",
    "the memory of all processes together is not limited",
)
BOXED = (
    "files: only Python, its packages and this package without its grading part are visible, "
    "read-only; one empty folder can be written to",
    "network: none",
    "processes: no other can be seen or signalled; another user, no capabilities",
)
UNBOXED = (
    "files: answers can read and change whatever the user who grades can, so solutions, "
    "tables, results and other submissions",
    "network: answers can send and fetch",
    "processes: answers can signal the grader and other processes of the same user",
)


@dataclass(frozen=True)
class Sandbox:
    """L0: the kernel runs as the user who grades, under limits, in an empty folder."""

    limits: Limits = field(default_factory=Limits)
    level = 0
    promises, missing = ALWAYS, (*UNBOXED, *NEVER)

    def command(self, folder):
        """The kernel's argv; `{connection_file}` is filled in by jupyter_client.

        `folder` holds two empty folders, `scratch` for the kernel and `root` for the box.
        """
        kernel = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        return self.wrapped([*kernel, "--HistoryManager.enabled=False"], folder)

    def wrapped(self, command, folder):
        limits = json.dumps(asdict(self.limits))
        return [sys.executable, str(LAUNCH), limits, json.dumps(self.box(Path(folder))), *command]

    def box(self, folder):
        """The arguments of `namespaces.enter`, or None."""

    def environment(self, scratch, **variables):
        """The kernel's whole environment: nothing else of the grader's is passed on."""
        passed = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
        own = dict.fromkeys(("HOME", "TMPDIR", "IPYTHONDIR", "MPLCONFIGDIR"), str(scratch))
        fixed = {"OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1"}
        return {**passed, **own, **fixed, "PYTHONPATH": str(PACKAGE_PARENT), **variables}

    def record(self):
        """For results: what this run promised, and what it did not."""
        return {
            "level": f"L{self.level}",
            "promises": list(self.promises),
            "does_not_promise": list(self.missing),
            "limits": asdict(self.limits),
        }

    def refusal(self):
        """Why official grading stops here."""
        missing = "\n".join(f"  - {line}" for line in self.missing)
        return (
            f"official grading asks for sandbox L{ENOUGH}, and this machine offers "
            f"L{self.level}. It does not promise:\n{missing}\n"
            "Where you trust the submissions, say --allow-weak-sandbox; every result records it."
        )

    def works(self):
        """Can a process be started in it on this machine?"""
        with tempfile.TemporaryDirectory(prefix="probe-") as folder:
            make_folders(folder)
            command = self.wrapped([sys.executable, "-c", PROBE], folder)
            options = {"cwd": f"{folder}/scratch", "env": self.environment(f"{folder}/scratch")}
            done = subprocess.run(command, capture_output=True, timeout=60, **options)
        return done.returncode == 0


@dataclass(frozen=True)
class Box(Sandbox):
    """L3: namespaces. The kernel sees Python, the package without `grading`, and its folder."""

    level = 3
    promises, missing = (*ALWAYS, *BOXED), NEVER

    SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt/intel")
    ETC = ("ld.so.cache", "localtime", "fonts", "passwd", "nsswitch.conf", "alternatives")

    def works(self):
        return sys.platform == "linux" and super().works()

    def box(self, folder):
        pythons = {sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix}
        outside = [path for path in sorted(pythons) if not path.startswith("/usr")]
        packages = [str(Path(path).resolve()) for path in sys.path if path.endswith("-packages")]
        etc = [f"/etc/{name}" for name in self.ETC]
        ours = str(PACKAGE_PARENT / "attnlearn")
        return {
            "root": str(folder / "root"),
            "show": [*self.SYSTEM, *etc, *outside, *packages, ours],
            "hide": [f"{path}/grading" for path in (ours, *(f"{p}/attnlearn" for p in packages))],
            "write": [str(folder / "scratch")],
        }


def make_folders(folder):
    for name in ("scratch", "root"):
        Path(folder, name).mkdir()


KINDS = {0: Sandbox, 3: Box}


def choose(limits, level=None):
    """The sandbox of a level, or the strongest that works on this machine; None if it does not."""
    for n in sorted(KINDS, reverse=True) if level is None else [level]:
        sandbox = KINDS[n](limits)
        if sandbox.works():
            return sandbox
    return None
