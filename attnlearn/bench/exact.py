"""Exact attention: flash against PyTorch's own, against dense, and its memory.

float32, one head of width 64, unless a line says otherwise.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial

import torch
from torch.nn.attention.flex_attention import flex_attention
from torch.nn.functional import scaled_dot_product_attention as sdpa

from .. import dense, flash, native
from ..masks import Causal, Full, Mask, RandomBlocks, Window
from .measure import Figure, in_child, measured, ratios

WIDTH = 64
SCALE = WIDTH**-0.5
BAND = Causal() & Window(256)


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
        *(partial(sparse_versus_sdpa, mask, long, rounds) for mask in sparse(long)),
        *(partial(sparse_versus_flex, mask, long, rounds) for mask in sparse(long) if compiles),
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


def sparse_versus_sdpa(mask: Mask, N: int, rounds: int) -> list[Figure]:
    qkv = inputs(N)
    runs = ratios(by_flash(qkv, mask), partial(sdpa, *qkv), rounds)
    what = f"flash with {mask} / F.scaled_dot_product_attention without a mask"
    return [Figure(f"sparse N={N}", what, "x", runs, 1 / 3)]


def sparse_versus_flex(mask: Mask, N: int, rounds: int) -> list[Figure]:
    qkv = inputs(N)
    tiles = native.tiles(*qkv[:2], mask)
    compiled = partial(torch.compile(flex_attention), *qkv, block_mask=tiles)
    runs = ratios(by_flash(qkv, mask), compiled, rounds)
    return [Figure(f"flex N={N}", f"flash / flex_attention compiled, {mask}", "x", runs)]


def sparse(N: int) -> tuple[Mask, Mask]:
    """A band and whole blocks that hide 84 to 85 % of all tiles of 256, at N = 8192."""
    return Window(N // 16), RandomBlocks(N // 32, 5, 0, N)


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
