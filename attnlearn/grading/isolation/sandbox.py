"""How far a kernel that runs students' code is kept apart: the one place where that is decided.

A level says what it promises and what it does not; both stand in every result. L3 is a box of
Linux namespaces, L2 another user behind Landlock, L1 Landlock alone, L0 nothing but limits.
"""

import json
import os
import sys
import tempfile
from dataclasses import asdict, dataclass, field
from pathlib import Path

from . import landlock, probe, view
from .limits import Limits

LAUNCH = Path(__file__).with_name("launch.py")
PASSED_ON = ("PATH", "LANG", "LC_ALL", "TZ", "LD_LIBRARY_PATH", "SYSTEMROOT", "TRITON_INTERPRET")
ENOUGH = 2  # the level that official grading asks for

ALWAYS = (
    "verdicts are computed outside the kernel, from a table that it never receives",
    "nothing printed, displayed or written to a file counts as a verdict",
    "every process is dead before a result is written (on Linux)",
    "limits on time, output, memory and number of processes, size of a file and of all files",
    "the kernel gets none of the grader's environment variables but the harmless ones",
)
NEVER = (
    "a check runs in the same interpreter as the answer: a value that the answer could have "
    "given can also be forged, and `forbid` is a flag, no proof",
    "the memory of all processes together is looked at five times a second, not bounded by Linux",
)
OPEN = (
    "files: answers can read and change whatever the user who grades can, so solutions, "
    "tables, results and other submissions",
    "network: answers can send and fetch",
    "processes: answers can signal the grader and other processes of the same user, and read "
    "their command lines: a seed is safer in a file than after `--seed`",
)
READ_ONLY = (
    "files: only Python, its packages and this package without its grading part can be read; "
    "one empty folder can be written to, and it is new for every kernel"
)
CALLS = "system calls: none that reaches into other processes, mounts, or makes namespaces"
NO_NETWORK = "network: none, and no connection to a service of this machine"
NAMES = "files: an answer can ask whether a path exists, how large and how old it is"
ON_DISK = "files: what is deleted and still mapped into memory is not counted as written"


@dataclass(frozen=True)
class Sandbox:
    """L0: the kernel runs as the user who grades, under limits, in an empty folder."""

    limits: Limits = field(default_factory=Limits)
    level = 0
    promises, missing = ALWAYS, (*OPEN, *NEVER)

    def command(self, folder):
        """The kernel's argv; `{connection_file}` is filled in by jupyter_client.

        `folder` holds two empty folders, `scratch` for the kernel and `root` for the sandbox.
        """
        kernel = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        return self.wrapped([*kernel, "--HistoryManager.enabled=False"], folder)

    def make_folders(self, folder):
        for name in ("scratch", "root"):
            Path(folder, name).mkdir()

    def wrapped(self, command, folder):
        limits = json.dumps(asdict(self.limits))
        return [sys.executable, str(LAUNCH), limits, json.dumps(self.box(Path(folder))), *command]

    def box(self, folder):
        """What `launch.confine` has to do, or None."""

    def environment(self, scratch, **variables):
        """The kernel's whole environment: nothing else of the grader's is passed on."""
        passed = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
        own = dict.fromkeys(("HOME", "TMPDIR", "IPYTHONDIR", "MPLCONFIGDIR"), str(scratch))
        fixed = {"OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1"}
        fixed |= {"PIP_RETRIES": "0", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}  # there is no network
        return {**passed, **own, **fixed, "PYTHONPATH": str(view.OURS.parent), **variables}

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
            f"official grading asks for sandbox L{ENOUGH} or L{max(KINDS)}, and this run has "
            f"L{self.level}. It does not promise:\n{missing}\n"
            "Where you trust the submissions, say --allow-weak-sandbox; every result records it."
        )

    def works(self):
        """Does it keep its promises on this machine?"""
        return not self.trouble()

    def trouble(self):
        """Why it does not work on this machine, or nothing."""
        return ""


class Confined(Sandbox):
    """A level that keeps something out, so that it has to be tried."""

    tolerated = frozenset()  # what `probe.found` may find, for it is not promised

    def trouble(self):
        if sys.platform != "linux":
            return "only Linux has what it needs"
        try:
            can = probe.found(self) - self.tolerated
        except probe.DoesNotStart as error:
            return str(error)
        return f"an answer can still {', '.join(sorted(can))}" if can else ""


class Landlocked(Confined):
    """L1: as the user who grades, behind Landlock and a filter of system calls."""

    level, other_user = 1, False
    promises = (*ALWAYS, READ_ONLY, NO_NETWORK, CALLS)

    @property
    def missing(self):
        signals = "processes: answers can signal the grader and other processes of the same user"
        kept = landlock.keeps_signals()
        user = "the same user: one fault in Landlock or in the filter, and all files are open"
        return (user, *(() if kept else (signals,)), NAMES, ON_DISK, *NEVER)

    @property
    def tolerated(self):
        kept = landlock.keeps_signals()
        return {"act as the same user"} | (set() if kept else {"signal the grader"})

    def box(self, folder):
        read, names = view.allowed()
        return {
            "kind": "landlock",
            "packages": [str(folder / "root"), str(view.OURS)],
            "show": read,
            "names": names,
            "scratch": str(folder / "scratch"),
            "other_user": self.other_user,
        }


class OtherUser(Landlocked):
    """L2: as another user who owns nothing, behind Landlock and a filter of system calls."""

    level, other_user = 2, True
    promises = (
        *Landlocked.promises,
        "processes: another user for every kernel, without capabilities; no other can be signalled",
    )
    missing, tolerated = (NAMES, ON_DISK, *NEVER), frozenset()

    def make_folders(self, folder):
        super().make_folders(folder)
        temporary = Path(tempfile.gettempdir())
        for path in (Path(folder), *Path(folder).parents):
            if path.is_relative_to(temporary) and path != temporary:
                path.chmod(path.stat().st_mode | 0o011)  # the other user passes through

    def trouble(self):
        if sys.platform == "linux" and os.getuid() != 0:
            return "only root can start a process of another user"
        return super().trouble()


class Box(Confined):
    """L3: namespaces. The kernel sees Python, the package without `grading`, and its folder."""

    level = 3
    promises = (
        *ALWAYS,
        "files: only Python, its packages and this package without its grading part are visible, "
        "read-only; one empty folder can be written to, and it is gone with the kernel",
        "network: none",
        "processes: no other can be seen or signalled; another user, no capabilities",
        CALLS,
    )
    missing, tolerated = NEVER, frozenset({"act as the same user"})  # inside it has another number

    def box(self, folder):
        return {
            "kind": "namespaces",
            "root": str(folder / "root"),
            "show": view.shown(),
            "hide": view.hidden(),
            "scratch": str(folder / "scratch"),
        }


KINDS = {kind.level: kind for kind in (Sandbox, Landlocked, OtherUser, Box)}


def choose(limits, level=None):
    """The sandbox of a level, or the strongest that works on this machine; None if it does not."""
    for n in sorted(KINDS, reverse=True) if level is None else [level]:
        sandbox = KINDS[n](limits)
        if sandbox.works():
            return sandbox
    return None
