"""Find and end every process that a kernel has started, daemons included (Linux, by /proc).

The grader adopts orphans: a process that leaves its session and whose parent is gone becomes a
child of the grader, so it stays in the tree. Elsewhere only the kernel's process group is ended.
"""

import contextlib
import ctypes
import os
import signal
import sys
import time
from pathlib import Path

PROC = Path("/proc")
CHILD_SUBREAPER = 36  # of prctl
PATIENCE = 5  # seconds until what was killed must be gone


class Alive(RuntimeError):
    """Processes that can't be ended: no result may be written while they run."""


def adopt_orphans():
    """From now on orphans below this process become its own children."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(CHILD_SUBREAPER, 1, 0, 0, 0)


def descendants(root=None):
    """{pid: start time} of all processes below this one, the dead that wait for us included."""
    table, found, parents = _table(), {}, {root or os.getpid()}
    while parents:
        children = {pid for pid, (parent, _) in table.items() if parent in parents}
        parents = children - found.keys()
        found |= {pid: table[pid][1] for pid in parents}
    return found


def children():
    """{pid: start time} of the processes that have this one as their parent."""
    return {pid: start for pid, (parent, start) in _table().items() if parent == os.getpid()}


def end_all(spared):
    """Kill whatever is below this process and not in `spared`, until nothing is left."""
    _end(lambda: descendants().items() - spared.items())


def end_orphans(own):
    """Kill the children that are not in `own`, and all that is below them."""

    def orphans():
        strange = children().items() - own.items()
        return strange.union(*(descendants(pid).items() for pid, _ in strange))

    _end(orphans)


def _end(find):
    end = time.monotonic() + PATIENCE
    while left := find():
        for number in (signal.SIGSTOP, signal.SIGKILL):  # the stopped can't fork meanwhile
            for pid, _ in left:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, number)
        for pid, _ in left:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        if time.monotonic() > end:
            raise Alive(f"processes {sorted(pid for pid, _ in left)} can't be ended")
        time.sleep(0.01)


def _table():
    """{pid: (parent, start time)} of every process (Linux)."""
    table = {}
    for path in PROC.glob("[0-9]*/stat") if sys.platform == "linux" else []:
        with contextlib.suppress(OSError, ValueError, IndexError):
            fields = path.read_text("utf-8", "replace").rpartition(")")[2].split()
            table[int(path.parent.name)] = (int(fields[1]), int(fields[19]))
    return table
