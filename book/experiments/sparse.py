"""What chapter 7 is too short for: ``python book/experiments/sparse.py [--quick] [--json FILE]``.

Time and memory as the sequence grows, and against the density of a pattern; the length and the
block at which sparsity begins to pay; and a retrieval task, learned under each pattern. Times are
processor time on one thread, the least of a few tries; where two are compared, they take turns.
float32, one head of width 64. Memory is that of a fresh process, above what it held before.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import shutil
import subprocess
import sys
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from time import perf_counter

import numpy as np
import torch
from torch import nn
from torch.nn.attention.flex_attention import flex_attention
from torch.nn.functional import cross_entropy, one_hot
from torch.nn.functional import scaled_dot_product_attention as sdpa

from attnlearn import (
    Causal,
    Chunked,
    Dilated,
    Full,
    Global,
    RandomBlocks,
    Window,
    attention,
    bench,
    dense,
    flash,
    native,
)
from attnlearn.nn import Block

HERE = Path(__file__).resolve().parents[1]
SEEDS = (0, 1, 2)


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


def compiled(n: int, rounds: int) -> list[dict]:
    """Block-sparse flash beside compiled FlexAttention, in units of SDPA's time."""
    rows = []
    qkv = bench.inputs(n)
    for mask in (RandomBlocks(n // 32, 5, 0, n), Window(n // 32)):
        tiles = native.tiles(*qkv[:2], mask)
        flex = partial(torch.compile(flex_attention), *qkv, block_mask=tiles)
        row = {"mask": repr(mask), "pairs": float(mask.dense(n, n).mean())}
        for name, run in (("flash", bench.by_flash(qkv, mask)), ("flex", flex)):
            row[name] = bench.ratios(run, partial(sdpa, *qkv), rounds)
        rows.append(row)
        print(row, flush=True)
    return rows


N, VALUES, NOISE = 64, 8, 8  # tokens; what may be said; words that say nothing
NAMES, FAR = 8, 40  # what a pair may be called; pairs stand at positions 1 to FAR
WIDTH, HEADS, BATCH = 32, 2, 32

STACKS = {  # name: the mask of each layer
    "Full()": [Full()] * 2,
    "Window(8)": [Window(8)] * 2,
    "Chunked(16)": [Chunked(16)] * 2,
    "Dilated(8)": [Dilated(8)] * 2,
    "Window(8), then Dilated(8)": [Window(8), Dilated(8)],
    "Window(8) | RandomBlocks(8, 1)": [Window(8) | RandomBlocks(8, 1, 2, N)] * 2,
    "Window(8) | Global(1)": [Window(8) | Global(1)] * 2,
    "Causal() & (Window(8) | Global(1))": [Causal() & (Window(8) | Global(1))] * 2,
    "Window(8) | Global(1) | RandomBlocks(8, 1)": [
        Window(8) | Global(1) | RandomBlocks(8, 1, 2, N)
    ] * 2,
}  # fmt: skip


class Reader(nn.Module):
    """Features of tokens in, one token's answer out: x [B, N, F] -> [B, VALUES]."""

    def __init__(self, features: int, masks, answer: int = -1):
        super().__init__()
        self.masks, self.answer = masks, answer
        self.embed, self.out = nn.Linear(features, WIDTH), nn.Linear(WIDTH, VALUES)
        attend = partial(attention, impl="sdpa")
        self.blocks = nn.ModuleList(Block(WIDTH, HEADS, attend=attend) for _ in masks)

    def forward(self, x):
        x = self.embed(x)
        for block, mask in zip(self.blocks, self.masks, strict=True):
            x = block(x, mask)
        return self.out(x[:, self.answer])


def needles(batch: int, generator, distance=None):
    """Noise, one needle at a distance from the last token, and a question mark at the end."""
    x = torch.randint(VALUES, VALUES + NOISE, (batch, N), generator=generator)
    x[:, -1] = VALUES + NOISE
    said = torch.randint(VALUES, (batch,), generator=generator)
    if distance is None:
        distance = torch.randint(1, N, (batch,), generator=generator)
    x[torch.arange(batch), N - 1 - distance] = said
    return one_hot(x, VALUES + NOISE + 1).float(), said


def lookups(batch: int, generator, pairs=None, asked: int = -1):
    """``pairs`` tokens that hold a name and a value, far from the end; one name is asked for."""
    pairs = pairs or int(torch.randint(1, NAMES + 1, (1,), generator=generator))
    names = torch.rand(batch, NAMES, generator=generator).argsort(-1)[:, :pairs]
    place = 1 + torch.rand(batch, FAR, generator=generator).argsort(-1)[:, :pairs]
    says = torch.randint(VALUES, (batch, pairs), generator=generator)
    x = torch.zeros(batch, N, NAMES + VALUES + 1)
    x[torch.arange(batch)[:, None], place, :-1] = torch.cat(
        [one_hot(names, NAMES), one_hot(says, VALUES)], -1
    ).float()
    x[:, asked, :NAMES] = one_hot(names[:, 0], NAMES).float()
    x[:, asked, -1] = 1
    return x, says[:, 0]


def trained(masks, task, steps: int, seed: int, answer: int = -1):
    """A model that met ``steps`` batches of fresh examples, and the generator to go on with."""
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(1000 + seed)
    model = Reader(task(1, generator)[0].shape[-1], masks, answer)
    adam = torch.optim.Adam(model.parameters(), lr=3e-3)
    falling = torch.optim.lr_scheduler.LinearLR(adam, 1.0, 0.0, steps)
    for _ in range(steps):
        x, said = task(BATCH, generator)
        loss = cross_entropy(model(x), said)
        adam.zero_grad()
        loss.backward()
        adam.step()
        falling.step()
    return model, generator


@torch.no_grad()
def score(model, x, said) -> float:
    """The share of right answers."""
    return round((model(x).argmax(-1) == said).float().mean().item(), 4)


def by_distance(steps: int, seeds, each: int) -> dict:
    """Right answers for needles 1 to N - 1 tokens before the end, a list for each seed."""
    found = {name: [] for name in STACKS}
    for name, masks in STACKS.items():
        for seed in seeds:
            model, generator = trained(masks, needles, steps, seed)
            examples = (needles(each, generator, torch.full((each,), d)) for d in range(1, N))
            found[name].append([score(model, *example) for example in examples])
        print(name, np.mean(found[name], 0).round(2).tolist(), flush=True)
    return found


def by_pairs(steps: int, seeds) -> dict:
    """Right answers when one of 1, 2, 4 or 8 pairs is asked for, a list for each seed."""
    longformer = Window(8) | Global(1)
    cases = {
        "Full()": (Full(), -1),
        "Longformer, question last": (longformer, -1),
        "Longformer, question global": (longformer, 0),
    }
    found = {name: [] for name in cases}
    for name, (mask, at) in cases.items():
        for seed in seeds:
            model, generator = trained([mask] * 2, partial(lookups, asked=at), steps, seed, at)
            examples = (lookups(2000, generator, pairs, at) for pairs in (1, 2, 4, 8))
            found[name].append([score(model, *example) for example in examples])
        print(name, found[name], flush=True)
    return found


def main(argv: list[str] | None = None) -> None:
    """Measure everything, and write book/evidence/sparse.json (``--quick`` writes nothing)."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="tiny sizes, to see that it runs")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures here")
    options = parser.parse_args(argv)
    quick, start = options.quick, perf_counter()
    torch.set_num_threads(1)
    n, rounds, seeds = (512, 1, SEEDS[:1]) if quick else (8192, 2, SEEDS)
    figures = {
        "growth": growth(4096 if quick else 32768),
        "density": {"n": n, "rows": density(n, rounds)},
        "matrices": {"n": n} | matrices(n, rounds),
        "break_even": break_even(n, rounds),
        "by_distance": by_distance(*(10, seeds, 8) if quick else (300, seeds, 128)),
        "by_pairs": by_pairs(10 if quick else 500, seeds),
    }
    if shutil.which("c++") and not quick:
        figures["compiled"] = {"n": n, "rows": compiled(n, rounds)}
    target = options.json or (None if quick else HERE / "evidence" / "sparse.json")
    if target:
        target.write_text(json.dumps(report(figures, seeds, perf_counter() - start)) + "\n")


def report(figures: dict, seeds, seconds: float) -> dict:
    """The figures with what they depend on."""
    git = subprocess.run(["git", "rev-parse", "HEAD"], cwd=HERE, capture_output=True, text=True)
    return {
        "name": "sparse",
        "command": " ".join(["python", "book/experiments/sparse.py", *sys.argv[1:]]),
        "commit": git.stdout.strip(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "host": bench.host(),
        "seeds": list(seeds),
        "seconds": round(seconds, 1),
        "figures": figures,
    }


if __name__ == "__main__":
    main()
