"""The forward kernel: each program takes one tile of queries past the keys that it may see.

It is the inner loop of ``attnlearn.flash.forward``. What a program holds, its queries, m, l and
acc, stays on the chip; keys and values pass by.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from .memory import hide, place, program, visits

LOG2E = tl.constexpr(1.4426950408889634)
LOWEST = tl.constexpr(torch.finfo(torch.float32).min)


@triton.jit
def forward_kernel(
    q, k, v, o, lse, q_strides, k_strides, v_strides, o_strides,
    tiles, T, S, heads, group, scale,
    D: tl.constexpr, E: tl.constexpr, BD: tl.constexpr, BE: tl.constexpr,
    BQ: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """The output and log-sum-exp of one tile of queries of one head."""
    a, h, b = program(tiles.lines, heads)
    i, j = tl.arange(0, BQ), tl.arange(0, BK)
    d, e = tl.arange(0, BD), tl.arange(0, BE)
    k_at = place(k, k_strides, b, h // group, j, d)  # of the first tile
    v_at = place(v, v_strides, b, h // group, j, e)
    rows = a * BQ + i
    q_in, o_in = (rows < T)[:, None] & (d < D)[None, :], (rows < T)[:, None] & (e < E)[None, :]
    qa = tl.load(place(q, q_strides, b, h, rows, d), q_in, 0)
    scale *= LOG2E  # scores as powers of 2: 2**x is the exponential that hardware has

    # The lowest finite number, not -inf: a row that sees no key then keeps l = acc = 0.
    m = tl.full([BQ], LOWEST, tl.float32)
    l = tl.zeros([BQ], tl.float32)
    acc = tl.zeros([BQ, BE], tl.float32)
    begin = visits(tiles, a, h, b)
    for PARTIAL in tl.static_range(2):  # the tiles seen whole, then those seen in part
        first, last = tl.load(begin + PARTIAL), tl.load(begin + PARTIAL + 1)
        other = tl.load(tiles.other + first)
        for n in range(first, last):
            start = other.to(tl.int64) * BK
            other = tl.load(tiles.other + n + 1)  # ahead of time: addresses wait for it
            here = (start + j < S)[:, None]
            kb = tl.load(k_at + start * k_strides[2], here & (d < D)[None, :], 0)
            vb = tl.load(v_at + start * v_strides[2], here & (e < E)[None, :], 0)
            s = tl.dot(qa, kb.T, input_precision="ieee")
            if PARTIAL:
                s = hide(s, tiles, n, i[:, None], j[None, :], BQ, BK)
            higher = tl.maximum(m, tl.max(s, 1) * scale)
            shrink = tl.exp2(m - higher)
            p = tl.exp2(s * scale - higher[:, None])
            l = l * shrink + tl.sum(p, 1)
            acc = tl.dot(p.to(vb.dtype), vb, acc * shrink[:, None], input_precision="ieee")
            m = higher

    l = tl.where(l == 0, 1, l)
    tl.store(place(o, o_strides, b, h, rows, e), acc / l[:, None], o_in)
    tl.store(lse + (b * heads + h).to(tl.int64) * T + rows, m + tl.log2(l), rows < T)
