"""How fast, and in how much memory: ``python -m attnlearn.bench [--json FILE] [--quick]``.

Times are compared as ratios: the two sides take turns in one process, on one thread, and count
processor time, so that other programs disturb little. Memory is that of a fresh process, above
what it held before the call. float32, one head of width 64, unless a line says otherwise.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import platform
import shutil
import statistics
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from time import perf_counter, thread_time

import torch
from torch.nn.attention.flex_attention import flex_attention
from torch.nn.functional import scaled_dot_product_attention as sdpa

from . import dense, flash, native
from .masks import Causal, Full, Mask, Window

WIDTH = 64
SCALE = WIDTH**-0.5
BAND = Causal() & Window(256)


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


def steps(shrink: int, rounds: int) -> list[partial]:
    """Calls that measure, each for a list of figures; lengths are divided by ``shrink``."""
    short, middle, long = (N // shrink for N in (2048, 4096, 8192))
    compiles = shrink == 1 and shutil.which("c++")
    return [
        *(partial(versus_sdpa, N, rounds) for N in (short, middle, long)),
        *(partial(versus_dense, N, rounds) for N in (middle, long)),
        partial(causal_skips, long, rounds),
        partial(band_versus_matrix, long, rounds),
        partial(band_is_linear, long, rounds),
        partial(sparse_versus_sdpa, long, rounds),
        *([partial(sparse_versus_flex, long, rounds)] if compiles else []),
        partial(memory, 32768 // shrink, False, 200),
        partial(memory, 32768 // shrink, True, 400),
        partial(long_causal, 131072 // shrink),
        partial(tile_map, 131072 // shrink),
    ]


def versus_sdpa(N: int, rounds: int) -> list[Figure]:
    qkv = inputs(N)
    runs = ratios(by_flash(qkv, Full()), partial(sdpa, *qkv), rounds)
    return [Figure(f"sdpa N={N}", "flash / F.scaled_dot_product_attention", "x", runs, 2.0)]


def versus_dense(N: int, rounds: int) -> list[Figure]:
    qkv = inputs(N)
    runs = ratios(by_flash(qkv, Full()), partial(dense.attention, *qkv, Full(), SCALE), rounds)
    return [Figure(f"dense N={N}", "flash / dense", "x", runs, 0.6)]


def causal_skips(N: int, rounds: int) -> list[Figure]:
    qkv = inputs(N)
    runs = ratios(by_flash(qkv, Causal()), by_flash(qkv, Full()), rounds)
    return [Figure(f"causal N={N}", "flash with Causal() / without a mask", "x", runs, 0.75)]


def band_versus_matrix(N: int, rounds: int) -> list[Figure]:
    qkv = inputs(N)
    matrix = torch.tensor(BAND.dense(N, N))
    runs = ratios(by_flash(qkv, BAND), partial(sdpa, *qkv, matrix), rounds)
    what = f"flash / F.scaled_dot_product_attention with a matrix, {BAND}"
    return [Figure(f"band N={N}", what, "x", runs, 0.2)]


def band_is_linear(N: int, rounds: int) -> list[Figure]:
    runs = ratios(by_flash(inputs(4 * N), BAND), by_flash(inputs(N), BAND), rounds)
    what = f"flash on {4 * N} tokens / on {N}, {BAND}; linear is 4"
    return [Figure(f"growth N={4 * N}", what, "x", runs, 5.0)]


def sparse_versus_sdpa(N: int, rounds: int) -> list[Figure]:
    qkv, mask = inputs(N), sparse(N)
    runs = ratios(by_flash(qkv, mask), partial(sdpa, *qkv), rounds)
    what = f"flash with {mask} / F.scaled_dot_product_attention without a mask"
    return [Figure(f"sparse N={N}", what, "x", runs, 1 / 3)]


def sparse_versus_flex(N: int, rounds: int) -> list[Figure]:
    qkv, mask = inputs(N), sparse(N)
    tiles = native.tiles(*qkv[:2], mask)
    compiled = partial(torch.compile(flex_attention), *qkv, block_mask=tiles)
    runs = ratios(by_flash(qkv, mask), compiled, rounds)
    return [Figure(f"flex N={N}", f"flash / flex_attention compiled, {mask}", "x", runs)]


def sparse(N: int) -> Mask:
    """A band that hides 85 % of all tiles of 256, at N = 8192."""
    return Window(N // 16)


def memory(N: int, backward: bool, goal: float) -> list[Figure]:
    _, extra = in_child(one_call, N, Full(), backward, 1)
    what = f"extra memory of flash, {'forward and backward' if backward else 'forward'}"
    return [Figure(f"memory N={N}", what, "MB", [extra], goal)]


def long_causal(N: int) -> list[Figure]:
    took, extra = in_child(one_call, N, Causal(), False, 2)
    what = "flash with Causal(), two threads"
    return [
        Figure(f"long N={N}", f"time of {what}", "s", [took], 60),
        Figure(f"long N={N}", f"extra memory of {what}", "MB", [extra], 300),
    ]


def tile_map(N: int) -> list[Figure]:
    mask = Causal() & Window(4096)
    took, extra = in_child(measured, partial(mask.blocks, N, N, 128, 128))
    what = f"({mask}).blocks({N}, {N}, 128, 128)"
    return [
        Figure(f"map N={N}", f"time of {what}", "s", [took], 1),
        Figure(f"map N={N}", f"extra memory of {what}", "MB", [extra], 100),
    ]


def inputs(N: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(1, 1, N, WIDTH, generator=generator) for _ in range(3)]


def by_flash(qkv: list[torch.Tensor], mask: Mask) -> Callable:
    return partial(flash.attention, *qkv, mask, SCALE)


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


def one_call(N: int, mask: Mask, backward: bool, threads: int) -> tuple[float, float]:
    """Seconds and extra MB of one call of flash."""
    torch.set_num_threads(threads)

    def call(n: int) -> Callable:
        qkv = [x.requires_grad_(backward) for x in inputs(n)]

        def run():
            o = flash.attention(*qkv, mask, SCALE)
            if backward:
                o.backward(torch.ones_like(o))

        return run

    call(600)()  # libraries load what they need at the first call
    return measured(call(N))


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


def main(argv: list[str] | None = None) -> None:
    """Print the table as it is measured, and write it to a file if asked."""
    parser = argparse.ArgumentParser(prog="python -m attnlearn.bench", description=__doc__)
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures here")
    parser.add_argument("--quick", action="store_true", help="short lengths, no goals, no flex")
    options = parser.parse_args(argv)
    if options.json and not options.json.absolute().parent.is_dir():
        parser.error(f"--json: there is no folder {options.json.absolute().parent}")
    torch.set_num_threads(1)
    found = []
    print(f"{'name':16}{'median':>8}     {'range':16} {'goal':12} {'':8} what")
    for step in steps(*((32, 2) if options.quick else (1, 5))):
        print(f"measuring {step.func.__name__}{step.args} ...", file=sys.stderr, flush=True)
        for figure in step():
            found.append(replace(figure, goal=None) if options.quick else figure)
            print(found[-1], flush=True)
    if not options.quick and not shutil.which("c++"):
        print("flex_attention: not measured, as compiling it needs a C++ compiler")
    if options.json:
        figures = [asdict(f) | {"median": f.median, "met": f.met} for f in found]
        report = {"host": host(), "quick": options.quick, "figures": figures}
        options.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
