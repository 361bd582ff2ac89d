"""The forward kernel on integers: queries and keys are INT8 codes, each token with a scale.

It is ``forward`` with three differences. The product of a tile is one of int8, summed in int32,
exact, and at twice the speed of half types on tensor cores. The scale of a key multiplies its
column of scores; that of a query is the same for a whole row, so it joins ``scale``, which costs
nothing. And nothing is kept for a backward pass, as rounding has no gradient.

Weights and values stay floats. Source: arXiv 2410.02367.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from .forward import LOG2E, LOWEST
from .memory import hide, place, program, visits

TINY = tl.constexpr(torch.finfo(torch.float32).tiny)


@triton.jit
def int8_kernel(
    q, k, v, o, q_scale, k_scale, q_strides, k_strides, v_strides, o_strides,
    tiles, T, S, heads, group, scale,
    D: tl.constexpr, E: tl.constexpr, BD: tl.constexpr, BE: tl.constexpr,
    BQ: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """The output of one tile of queries of one head."""
    a, h, b = program(tiles.lines, heads)
    i, j = tl.arange(0, BQ), tl.arange(0, BK)
    d, e = tl.arange(0, BD), tl.arange(0, BE)
    k_at = place(k, k_strides, b, h // group, j, d)  # of the first tile
    v_at = place(v, v_strides, b, h // group, j, e)
    scale_at = k_scale + (b * (heads // group) + h // group).to(tl.int64) * S + j
    rows = a * BQ + i
    q_in, o_in = (rows < T)[:, None] & (d < D)[None, :], (rows < T)[:, None] & (e < E)[None, :]
    qa = tl.load(place(q, q_strides, b, h, rows, d), q_in, 0)
    scale_a = tl.load(q_scale + (b * heads + h).to(tl.int64) * T + rows, rows < T, 1)
    scale_a = tl.maximum(scale_a * (scale * LOG2E), TINY)  # 0 times -inf would be NaN

    m = tl.full([BQ], LOWEST, tl.float32)
    l = tl.zeros([BQ], tl.float32)
    acc = tl.zeros([BQ, BE], tl.float32)
    begin = visits(tiles, a, h, b)
    for PARTIAL in tl.static_range(2):  # the tiles seen whole, then those seen in part
        first, last = tl.load(begin + PARTIAL), tl.load(begin + PARTIAL + 1)
        other = tl.load(tiles.other + first)
        for n in range(first, last):
            start = other.to(tl.int64) * BK
            other = tl.load(tiles.other + n + 1)
            here = start + j < S
            kb = tl.load(k_at + start * k_strides[2], here[:, None] & (d < D)[None, :], 0)
            vb = tl.load(v_at + start * v_strides[2], here[:, None] & (e < E)[None, :], 0)
            scale_b = tl.load(scale_at + start, here, 0)
            s = tl.dot(qa, kb.T).to(tl.float32) * scale_b[None, :]
            if PARTIAL:
                s = hide(s, tiles, n, i[:, None], j[None, :], BQ, BK)
            higher = tl.maximum(m, tl.max(s, 1) * scale_a)
            shrink = tl.exp2(m - higher)
            p = tl.exp2(s * scale_a[:, None] - higher[:, None])
            l = l * shrink + tl.sum(p, 1)
            acc = tl.dot(p.to(vb.dtype), vb, acc * shrink[:, None], input_precision="ieee")
            m = higher

    l = tl.where(l == 0, 1, l)
    tl.store(place(o, o_strides, b, h, rows, e), acc / l[:, None], o_in)
