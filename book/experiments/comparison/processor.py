"""Processor time of all that a command starts, as counted by a control group of Linux.

The usual count leaves out processes that nobody waits for, such as kernels that a server forks.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

ROOTS = Path("/sys/fs/cgroup/unified"), Path("/sys/fs/cgroup")


@contextlib.contextmanager
def counting() -> Iterator[Callable[[], float | None]]:
    """Gives a function that tells the seconds used so far, or None where they can't be counted."""
    root = next((root for root in ROOTS if (root / "cgroup.procs").exists()), None)
    group = root and root / f"graders-{os.getpid()}"
    try:
        group.mkdir()
        (group / "cgroup.procs").write_text(str(os.getpid()))
    except (AttributeError, OSError):  # another system, or no right to
        yield lambda: None
        return
    try:
        yield lambda: _seconds(group)
    finally:
        (root / "cgroup.procs").write_text(str(os.getpid()))
        with contextlib.suppress(OSError):  # something in it still ends
            group.rmdir()


def _seconds(group: Path) -> float:
    found = dict(line.split() for line in (group / "cpu.stat").read_text().splitlines())
    return int(found["usage_usec"]) / 1e6
