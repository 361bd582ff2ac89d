"""Find and end every process that a kernel has started, daemons included (Linux, by /proc).

The grader adopts orphans: a process that leaves its session and whose parent is gone becomes a
child of the grader, so it stays in the tree. Elsewhere only the kernel's process group is ended.
"""

import contextlib
import ctypes
import errno
import os
import signal
import sys
import time
from pathlib import Path
from typing import NamedTuple

from .launch import THREADS

PROC = Path("/proc")
CHILD_SUBREAPER = 36  # of prctl
SMALLEST = 4096  # bytes that the shortest file counts, for a million of them fill a disk, too
SENT = PROC / "sys/net/core/wmem_default"  # bytes that may wait in a socket
TABLES = "VmPTE"  # of pages: a process that only reads empty memory can make gigabytes of them
PATIENCE = 5  # seconds until what was killed must be gone


class Alive(RuntimeError):
    """Processes that can't be ended: no result may be written while they run."""


def adopt_orphans():
    """From now on orphans below this process become its own children."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(CHILD_SUBREAPER, 1, 0, 0, 0)


def descendants(root=None, table=None):
    """{pid: start time} of all processes below this one, the dead that wait for us included."""
    table, found, parents = table or _table(), {}, {root or os.getpid()}
    while parents:
        children = {pid for pid, process in table.items() if process.parent in parents}
        parents = children - found.keys()
        found |= {pid: table[pid].start for pid in parents}
    return found


def children(table=None):
    """{pid: start time} of the processes that have this one as their parent."""
    table = table or _table()
    return {pid: own.start for pid, own in table.items() if own.parent == os.getpid()}


def tree(root, table=None):
    """{pid: start time} of a process and all below it; nothing of None."""
    table = table or _table()
    return {root: table[root].start, **descendants(root, table)} if root in table else {}


def below(spared, waiting=None, table=None):
    """What is below this process, but for those in `spared` and the tree of one that waits."""
    table = table or _table()
    left_alone = spared.items() | tree(waiting, table).items()
    return dict(descendants(table=table).items() - left_alone)


def end_all(spared, waiting=None):
    """Kill whatever is `below`, until nothing is left."""
    _end(lambda table: below(spared, waiting, table))


def end_orphans(own):
    """Kill the children that are not in `own`, and all that is below them."""

    def orphans(table):
        strange = dict(children(table).items() - own.items())
        return set(strange).union(*(descendants(pid, table) for pid in strange))

    _end(orphans)


def excess(own, folders, limits):
    """Which limit these processes break together, and with what they wrote: or None."""
    if len(own) > limits.processes or sum(map(_threads, own)) > limits.processes * THREADS:
        return "processes"
    most = limits.total_memory_mb * 2**20 - _waiting(own)
    if sum(map(_resident, own)) > most and sum(map(_share, own)) > most:
        return "memory"
    return "disk" if _written(own, folders) > limits.disk_mb * 2**20 else None


def _threads(pid):
    try:
        return os.stat(PROC / str(pid) / "task").st_nlink - 2
    except OSError:
        return 0


def _waiting(own):
    """Bytes that may wait in the sockets of these processes: Linux tells nobody how many do."""
    sockets = set()
    for pid in own:
        with contextlib.suppress(OSError):
            for handle in os.scandir(PROC / str(pid) / "fd"):
                with contextlib.suppress(OSError):
                    sockets.add(os.readlink(handle.path))
    number = sum(name.startswith("socket:") for name in sockets)
    return number * int(SENT.read_text()) if number else 0


def own_memory():
    """Bytes of memory that this process has written to; 0 where nobody can tell."""
    return _resident("self")


def _resident(pid):
    """Bytes of memory that a process has written to, pages that it shares with others included."""
    return _sum(PROC / str(pid) / "status", "RssAnon", "RssShmem", "VmSwap", TABLES)


def _share(pid):
    """The same, but each page divided by the number of processes that have it: slow to ask for.

    A process of another user shows it to nobody without that privilege.
    """
    share = _sum(PROC / str(pid) / "smaps_rollup", "Pss_Anon", "Pss_Shmem", "SwapPss")
    return share + _sum(PROC / str(pid) / "status", TABLES) if share else _resident(pid)


def _sum(path, *names):
    try:
        lines = [line.partition(":") for line in path.read_text("utf-8", "replace").splitlines()]
    except OSError:
        return 0
    return sum(int(value.split()[0]) * 1024 for name, _, value in lines if name in names)


def _written(own, folders):
    """Bytes on the disk below folders, and in files there that are deleted but still open."""
    return sum(sum(_below(at)) + sum(_deleted(own, at).values()) for at in folders)


def _below(folder):
    """Bytes of each file. A folder that nobody can look into, or too deep, may hold any number."""
    waiting = [folder]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    about = entry.stat(follow_symlinks=False)
                    yield max(about.st_blocks * 512, SMALLEST)
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
        except OSError as error:
            if error.errno in (errno.EACCES, errno.ENAMETOOLONG):
                yield float("inf")


def _deleted(own, folder):
    """{file: bytes}"""
    found = {}
    for pid in own:
        with contextlib.suppress(OSError):
            for handle in os.scandir(PROC / str(pid) / "fd"):
                with contextlib.suppress(OSError):
                    about = os.stat(handle.path)
                    if about.st_nlink == 0 and os.readlink(handle.path).startswith(str(folder)):
                        found[about.st_dev, about.st_ino] = about.st_blocks * 512
    return found


def _end(find):
    end = time.monotonic() + PATIENCE
    while left := find(table := _table()):
        groups = _groups(left, table)
        for number in (signal.SIGSTOP, signal.SIGKILL):  # the stopped can't fork meanwhile
            for pid in (*(-group for group in groups), *left):
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, number)
        for pid in left:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        if time.monotonic() > end:
            raise Alive(f"processes {sorted(left)} can't be ended")
        time.sleep(0.01)


def _groups(left, table):
    """The process groups that these have to themselves.

    A signal to a group also reaches the child of one that forks meanwhile: processes that hand
    over faster than anybody can look have no other end.
    """
    groups = {table[pid].group for pid in left} - {os.getpgrp()}
    return {group for group in groups if group in left or group not in table}


class _Process(NamedTuple):
    parent: int
    group: int
    start: int


def _table():
    """{pid: process} of all (Linux)."""
    table = {}
    for name in os.listdir(PROC) if sys.platform == "linux" else []:
        with contextlib.suppress(OSError, ValueError, IndexError):
            with open(f"{PROC}/{name}/stat", "rb") as file:
                fields = file.read().rpartition(b")")[2].split()
            table[int(name)] = _Process(*(int(fields[i]) for i in (1, 2, 19)))
    return table
