"""What chapter 7 is too short for: ``python book/experiments/sparse.py``.

Time and memory as the sequence grows, and against the density of a pattern; the length and the
block at which sparsity begins to pay; and two tasks, in ``needle.py``. Times are processor time,
the least of a few tries; where two are compared, they take turns. float32, one head of width 64.
Memory is that of a fresh process, above what it held before.
"""

from __future__ import annotations

import ctypes
import shutil
from functools import partial
from pathlib import Path

import needle
import numpy as np
import record
import torch
from torch.nn.attention.flex_attention import flex_attention
from torch.nn.functional import scaled_dot_product_attention as sdpa

from attnlearn import (
    Chunked,
    Dilated,
    Full,
    Global,
    RandomBlocks,
    Window,
    bench,
    dense,
    flash,
    native,
)

SEEDS = 0, 1, 2


def measure(quick: bool) -> tuple[tuple, dict]:
    n, rounds, seeds = (256, 1, SEEDS[:1]) if quick else (8192, 2, SEEDS)
    figures = {
        "growth": growth(256 if quick else 32768),
        "density": {"n": n, "rows": density(n, rounds)},
        "matrices": {"n": n} | matrices(n, rounds),
        "break_even": break_even(n, rounds),
        "by_distance": needle.by_distance(*(2, seeds, 2, 3) if quick else (300, seeds, 128)),
        "by_pairs": needle.by_pairs(*(2, seeds, 20) if quick else (500, seeds, 2000)),
    }
    if quick or shutil.which("c++"):  # inductor writes C++
        backend = "eager" if quick else "inductor"
        figures["compiled"] = {"n": n, "rows": compiled(n, rounds, backend)}
    return seeds, figures


def growth(longest: int) -> list[dict]:
    """Seconds and extra memory of dense, flash and PyTorch as n doubles, up to ``longest``."""
    lengths = [longest >> a for a in range(8, -1, -1)]
    reach = {"dense": 8, "flash": 4, "sdpa": 4, "window": 1}
    jobs = [(name, n) for n in lengths for name in METHODS if n * reach[name] <= longest]
    rows = []
    for (name, n), mb in zip(jobs, bench.in_child(peaks, METHODS, jobs), strict=True):
        run = METHODS[name](n)
        run()
        rows.append({"name": name, "n": n, "seconds": bench.best(run), "mb": mb})
        print(rows[-1], flush=True)
    return rows


def by_flash(n: int, mask):
    return bench.by_flash(bench.inputs(n), mask)


def by_dense(n: int):
    return partial(dense.attention, *bench.inputs(n), Full(), bench.SCALE)


def by_sdpa(n: int):
    return partial(sdpa, *bench.inputs(n))


METHODS = {
    "dense": by_dense,
    "flash": partial(by_flash, mask=Full()),
    "sdpa": by_sdpa,
    "window": partial(by_flash, mask=Window(256)),
}


def peaks(methods: dict, jobs) -> list[float]:
    """By how many MB each call raises the memory of this process, which must be a fresh one."""
    torch.set_num_threads(1)
    for call in (by_flash(600, Window(8)), by_dense(600), by_sdpa(600)):
        call()  # libraries load what they need the first time
    found = []
    for name, n in jobs:
        run = methods[name](n)
        ctypes.CDLL(None).malloc_trim(0)  # give back what earlier calls freed, or it is used again
        Path("/proc/self/clear_refs").write_text("5")  # the peak begins again at what is held now
        found.append(bench.measured(run)[1])
    return found


def patterns(n: int) -> list[tuple[str, object]]:
    """(name, mask) for each pattern, from sparse to dense; sizes scale with n."""
    small, big = n // 128, n // 32
    return [
        *(("window", Window(small * p)) for p in (1, 2, 4, 8, 16, 32)),
        *(("Longformer", Window(small * p) | Global(small)) for p in (1, 4, 16, 32)),
        *(("big blocks", RandomBlocks(big, p, 0, n)) for p in (1, 2, 4, 8, 16, 24)),
        *(("small blocks", RandomBlocks(small, p, 0, n)) for p in (1, 2, 4, 16, 64)),
        *(("BigBird", bigbird(small, p, n)) for p in (3, 8, 32)),
        *(("dilated", Dilated(p)) for p in (32, 8, 2)),
    ]


def bigbird(block: int, per_row: int, n: int):
    """Three blocks of window, two of global, and some at random; published: 64 and 3."""
    near = Window(3 * block // 2)
    return near | Global(2 * block) | RandomBlocks(block, per_row, 0, n)


def density(n: int, rounds: int) -> list[dict]:
    """Each pattern: the share of pairs and of visited tiles, time in units of SDPA's, memory."""
    qkv = bench.inputs(n)
    chosen = patterns(n)
    methods = {str(a): partial(by_flash, mask=mask) for a, (_, mask) in enumerate(chosen)}
    memory = bench.in_child(peaks, methods, [(a, n) for a in methods])
    rows = []
    for (name, mask), mb in zip(chosen, memory, strict=True):
        rows.append(against_sdpa(name, mask, qkv, bench.by_flash(qkv, mask), rounds) | {"mb": mb})
        print(rows[-1], flush=True)
        if name == "dilated":  # the same pairs, after the tokens of a residue moved together
            twin = Chunked(n // mask.step)
            run = partial(permuted, qkv, mask.step, twin)
            rows.append(against_sdpa("dilated, permuted", twin, qkv, run, rounds))
            print(rows[-1], flush=True)
    return rows


def against_sdpa(name, mask, qkv, run, rounds) -> dict:
    """What a mask leaves open, and the time of ``run`` in units of SDPA's without a mask."""
    n = qkv[0].shape[-2]
    tiles = flash.Tiles(mask, *qkv[:2])
    kinds = np.bincount(tiles.kind.ravel(), minlength=3) / tiles.kind.size
    return {
        "name": name,
        "mask": repr(mask),
        "pairs": float(mask.dense(n, n).mean()),
        "tile": [tiles.bq, tiles.bk],
        "partial": float(kinds[1]),
        "full": float(kinds[2]),
        "time": bench.ratios(run, partial(sdpa, *qkv), rounds),
    }


def permuted(qkv, step: int, mask):
    """Bring the tokens of a residue together, attend, and put the outputs back."""
    order = torch.arange(qkv[0].shape[-2]).view(-1, step).T.flatten()
    o = flash.attention(*(x[..., order, :] for x in qkv), mask, bench.SCALE)
    back = torch.empty_like(o)
    back[..., order, :] = o
    return back


def matrices(n: int, rounds: int) -> dict:
    """What SDPA does with the same window as a matrix, boolean and float, beside flash."""
    qkv, mask = bench.inputs(n), Window(n // 32)
    seen = torch.tensor(mask.dense(n, n))
    added = torch.zeros(n, n).masked_fill(~seen, -torch.inf)
    plain = partial(sdpa, *qkv)
    return {
        "mask": repr(mask),
        "bool": bench.ratios(partial(sdpa, *qkv, seen), plain, rounds),
        "float": bench.ratios(partial(sdpa, *qkv, added), plain, rounds),
        "flash": bench.ratios(bench.by_flash(qkv, mask), plain, rounds),
    }


def break_even(longest: int, rounds: int) -> list[dict]:
    """An eighth of all pairs, as blocks of several sizes and as a window, at several lengths."""
    rows = []
    for n in (longest >> a for a in range(4, -1, -1)):
        qkv = bench.inputs(n)
        sizes = [b for b in (32, 128, 512) if n >= 8 * b]
        masks = {f"blocks of {b}": RandomBlocks(b, n // b // 8, 0, n) for b in sizes}
        masks["window"] = Window(n // 16)
        masks["no mask"] = Full()
        for name, mask in masks.items():
            time = bench.ratios(bench.by_flash(qkv, mask), partial(sdpa, *qkv), rounds)
            rows.append({"n": n, "name": name, "mask": repr(mask), "time": time})
            print(rows[-1], flush=True)
    return rows


def compiled(n: int, rounds: int, backend: str) -> list[dict]:
    """Block-sparse flash beside compiled FlexAttention, in units of SDPA's time."""
    rows = []
    qkv = bench.inputs(n)
    for mask in (RandomBlocks(n // 32, 5, 0, n), Window(n // 32)):
        tiles = native.tiles(*qkv[:2], mask)
        flex = partial(torch.compile(flex_attention, backend=backend), *qkv, block_mask=tiles)
        row = {"mask": repr(mask), "pairs": float(mask.dense(n, n).mean())}
        for name, run in (("flash", bench.by_flash(qkv, mask)), ("flex", flex)):
            row[name] = bench.ratios(run, partial(sdpa, *qkv), rounds)
        rows.append(row)
        print(row, flush=True)
    return rows


if __name__ == "__main__":
    record.main("sparse", __doc__, measure)
