"""Serving: decoding with a cache, what caches hold, and what integers cost in exactness."""

from __future__ import annotations

from functools import partial

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from ..cache import KVCache, PagedCache, QuantizedCache
from ..nn import TinyLM
from ..position import Rotary
from ..quant import trial
from .measure import Figure, ratios

CONTEXT, NEW = 2048, 512
HEADS, WIDTH = 4, 64


def steps(shrink: int, rounds: int) -> list[partial]:
    """Calls that measure, each for a list of figures; sizes are divided by ``shrink``."""
    return [
        partial(decoding, CONTEXT // shrink, NEW // shrink, rounds),
        partial(appending, CONTEXT // shrink),
        partial(paging, CONTEXT // shrink),
        partial(kept_bytes, CONTEXT),
        partial(integers, 20 if shrink == 1 else 2),
    ]


@torch.no_grad()
def decoding(context: int, new: int, rounds: int) -> list[Figure]:
    """The same tokens, one by one, with a cache and without. What is before them is free."""
    model = TinyLM(position=Rotary()).eval()
    tokens = torch.randint(256, (1, context + new), generator=torch.Generator().manual_seed(0))
    caches = model.caches(1, context + new)
    model(tokens[:, :context], cache=caches)

    def cached():
        for cache in caches:
            cache.truncate(context)
        for t in range(context, context + new):
            model(tokens[:, t : t + 1], cache=caches)

    # Recomputing all would take a minute: some lengths stand for those between them.
    sample = np.linspace(context + 1, context + new, 5).astype(int)

    def recomputed():
        for length in sample:
            model(tokens[:, :length])

    runs = [run * len(sample) / new for run in ratios(cached, recomputed, rounds)]
    what = f"{new} tokens after {context} with a cache / each by recomputing (5 lengths timed)"
    return [Figure("decode", what, "x", runs, 0.1)]


def appending(length: int) -> list[Figure]:
    """Numbers written when one token is stored, for each number that is new."""
    new = torch.ones(1, HEADS, 1, WIDTH)
    cache = KVCache(1, HEADS, length + 1, WIDTH)
    cache.append(*(torch.ones(1, HEADS, length, WIDTH) for _ in "kv"))
    with Written() as by_cache:
        k, v, _ = cache.append(new, new)
    with Written() as by_cat:
        torch.cat([k[..., :-1, :], new], -2), torch.cat([v[..., :-1, :], new], -2)
    share = 2 * new.numel()
    return [
        Figure("append", f"numbers written per new one, {length} tokens kept", "x", [n / share], g)
        for n, g in ((by_cache.count, 1), (by_cat.count, None))
    ]


class Written(TorchDispatchMode):
    """Counts the numbers that operations write; views write none."""

    count = 0

    def __torch_dispatch__(self, f, types, args=(), kwargs=None):
        result = f(*args, **(kwargs or {}))
        if isinstance(result, torch.Tensor) and not f.is_view:
            self.count += result.numel()
        return result


def paging(length: int) -> list[Figure]:
    """Slots held and not filled, per sequence, while sequences come, grow and go."""
    rows, block, chunk = 8, 16, 48
    random = np.random.RandomState(0)
    cache = PagedCache(rows, 1, rows * -(-length // block), 1, block=block)
    wanted = random.randint(1, length + 1, rows)
    new = torch.ones(rows, 1, chunk, 1)
    waste, taken = [], []
    for _ in range(400):
        for row in np.flatnonzero(cache.lengths == wanted):
            cache.free(row)
            wanted[row] = random.randint(1, length + 1)
        counts = np.minimum(random.randint(1, chunk + 1, rows), wanted - cache.lengths)
        cache.append(new, new, real=np.arange(chunk) < counts[:, None])
        waste.append(cache.waste / rows)
        taken.append(cache.used * block / (rows * length))
    kept = f"{rows} sequences of 1 to {length} tokens, blocks of {block}"
    return [
        Figure(
            "paged waste",
            f"slots without a token per sequence, the most: {kept}",
            "",
            [max(waste)],
            block - 1,
        ),
        Figure("paged memory", f"slots held / reserving {length} for each: {kept}", "x", taken),
    ]


def kept_bytes(length: int) -> list[Figure]:
    """INT4 keys and values with their scales, zeros and the newest group, against float16."""
    shape, half = (1, HEADS, length, WIDTH), torch.float16
    new = torch.ones(1, HEADS, length, WIDTH, dtype=half)
    whole, small = KVCache(*shape, dtype=half), QuantizedCache(*shape, bits=4, dtype=half)
    for cache in (whole, small):
        cache.append(new, new)
    what = f"bytes of {length} tokens in INT4, a scale and a zero per 64 / in float16"
    return [Figure("int4 bytes", what, "x", [small.nbytes / whole.nbytes], 0.30)]


def integers(seeds: int) -> list[Figure]:
    """1 - the least cosine to exact attention, where two channels of the keys are biased."""
    goals = {8: 1e-4, 4: 0.02}
    found = []
    for bits in (8, 4):
        for per in ("token", "block"):
            for values in (None, 8):
                how = {"bits": bits, "per": per, "values": values}
                miss = 1 - trial.worst(seeds, **how)
                goal = goals[bits] if (per, values) == ("token", None) else None
                what = f"INT{bits} q kᵀ per {per}, values {'INT8' if values else 'float'}"
                what = f"1 - cosine to float64, worst of {seeds} seeds: {what}"
                found.append(Figure(f"int{bits}", what, "", [miss], goal))
    return found
