"""What a figure is, and how it is measured.

Times are compared as ratios: the two sides take turns in one process, on one thread, and count
processor time, so that other programs disturb little. Memory is that of a fresh process, above
what it held before the call.
"""

from __future__ import annotations

import multiprocessing
import platform
import statistics
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter, thread_time

import torch


@dataclass(frozen=True)
class Figure:
    """One line of the table; the median should be at most ``goal``, where there is one."""

    name: str
    what: str
    unit: str
    runs: list[float]
    goal: float | None = None

    @property
    def median(self) -> float:
        return statistics.median(self.runs)

    @property
    def met(self) -> bool | None:
        return None if self.goal is None else self.median <= self.goal

    def __str__(self) -> str:
        spread = f"{min(self.runs):.3g} to {max(self.runs):.3g}" if len(self.runs) > 1 else ""
        goal = "" if self.goal is None else f"at most {self.goal:.3g}"
        met = {True: "met", False: "NOT MET", None: ""}[self.met]
        return (
            f"{self.name:16}{self.median:8.3g} {self.unit:3} {spread:16} {goal:12} {met:8} "
            f"{self.what}"
        )


def ratios(f: Callable, g: Callable, rounds: int) -> list[float]:
    """Time of f over time of g, in each of several rounds in which they take turns."""
    f(), g()
    return [best(f) / best(g) for _ in range(rounds)]


def best(f: Callable, tries: int = 2) -> float:
    """Seconds of processor time, the least of a few tries: disturbance only ever adds."""
    took = []
    for _ in range(tries):
        start = thread_time()
        f()
        took.append(thread_time() - start)
    return min(took)


def in_child(job: Callable, *args):
    """``job(*args)`` in a fresh process, so that nobody else's memory is counted."""
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=spawn) as pool:
        return pool.submit(job, *args).result()


def measured(f: Callable) -> tuple[float, float]:
    """Seconds of one call of f, and by how many MB the process peaked above where it stood.

    The peak is the one since the process began, so the figure may be too high, never too low.
    """
    before, start = status("VmRSS"), perf_counter()
    f()
    return perf_counter() - start, status("VmHWM") - before


def status(field: str) -> float:
    """A line of Linux's /proc/self/status, in MB."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) * 1024 / 1e6
    raise RuntimeError(f"/proc/self/status has no line {field}: memory needs Linux")


def host() -> dict:
    """What the figures depend on, besides the code."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    models = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
    return {
        "cpu": models[0] if models else platform.processor(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "dtype": "float32",
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }
