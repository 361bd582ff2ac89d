"""The backward kernels: weights are computed again, tile by tile, from the log-sum-exp.

One kernel goes along the rows for dq, another along the columns for dk and dv, so that no two
programs add to the same place.
"""

from __future__ import annotations

import triton
import triton.language as tl

from .forward import LOG2E
from .memory import hide, place, program, visits


@triton.jit
def queries_kernel(
    q, k, v, o, do, dq, lse, delta,
    q_strides, k_strides, v_strides, o_strides, do_strides, dq_strides,
    tiles, T, S, heads, group, scale,
    D: tl.constexpr, E: tl.constexpr, BD: tl.constexpr, BE: tl.constexpr,
    BQ: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """dq of one tile of queries of one head, and delta for the other kernel."""
    a, h, b = program(tiles.lines, heads)
    i, j = tl.arange(0, BQ), tl.arange(0, BK)
    d, e = tl.arange(0, BD), tl.arange(0, BE)
    k_at = place(k, k_strides, b, h // group, j, d)
    v_at = place(v, v_strides, b, h // group, j, e)
    rows = a * BQ + i
    q_in, o_in = (rows < T)[:, None] & (d < D)[None, :], (rows < T)[:, None] & (e < E)[None, :]
    qa = tl.load(place(q, q_strides, b, h, rows, d), q_in, 0)
    oa = tl.load(place(o, o_strides, b, h, rows, e), o_in, 0).to(tl.float32)
    doa = tl.load(place(do, do_strides, b, h, rows, e), o_in, 0)
    number = (b * heads + h).to(tl.int64) * T + rows
    lse_a = tl.load(lse + number, rows < T, 0)
    delta_a = tl.sum(oa * doa.to(tl.float32), 1)  # the weighted mean of dp: weights sum to 1
    tl.store(delta + number, delta_a, rows < T)

    dqa = tl.zeros([BQ, BD], tl.float32)
    begin = visits(tiles, a, h, b)
    for PARTIAL in tl.static_range(2):
        first, last = tl.load(begin + PARTIAL), tl.load(begin + PARTIAL + 1)
        other = tl.load(tiles.other + first)
        for n in range(first, last):
            start = other.to(tl.int64) * BK
            other = tl.load(tiles.other + n + 1)
            here = (start + j < S)[:, None]
            kb = tl.load(k_at + start * k_strides[2], here & (d < D)[None, :], 0)
            vb = tl.load(v_at + start * v_strides[2], here & (e < E)[None, :], 0)
            s = tl.dot(qa, kb.T, input_precision="ieee")
            if PARTIAL:
                s = hide(s, tiles, n, i[:, None], j[None, :], BQ, BK)
            p = tl.exp2(s * (scale * LOG2E) - lse_a[:, None])
            dp = tl.dot(doa, vb.T, input_precision="ieee")
            ds = p * (dp - delta_a[:, None])
            dqa = tl.dot(ds.to(kb.dtype), kb, dqa, input_precision="ieee")
    tl.store(place(dq, dq_strides, b, h, rows, d), dqa * scale, q_in)


@triton.jit
def keys_kernel(
    q, k, v, do, dk, dv, lse, delta,
    q_strides, k_strides, v_strides, do_strides, dk_strides, dv_strides,
    tiles, T, S, heads, group, scale,
    D: tl.constexpr, E: tl.constexpr, BD: tl.constexpr, BE: tl.constexpr,
    BQ: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """dk and dv of one tile of keys of one key head, summed over its query heads.

    Scores lie on their side here, [keys, queries]: no product needs the weights turned.
    """
    c, shared, b = program(tiles.lines, heads // group)
    i, j = tl.arange(0, BQ), tl.arange(0, BK)
    d, e = tl.arange(0, BD), tl.arange(0, BE)
    cols = c * BK + j
    k_in, v_in = (cols < S)[:, None] & (d < D)[None, :], (cols < S)[:, None] & (e < E)[None, :]
    kb = tl.load(place(k, k_strides, b, shared, cols, d), k_in, 0)
    vb = tl.load(place(v, v_strides, b, shared, cols, e), v_in, 0)

    dkb = tl.zeros([BK, BD], tl.float32)
    dvb = tl.zeros([BK, BE], tl.float32)
    for g in range(group):
        h = shared * group + g
        q_at = place(q, q_strides, b, h, i, d)
        do_at = place(do, do_strides, b, h, i, e)
        number = (b * heads + h).to(tl.int64) * T + i
        begin = visits(tiles, c, h, b)
        for PARTIAL in tl.static_range(2):
            first, last = tl.load(begin + PARTIAL), tl.load(begin + PARTIAL + 1)
            other = tl.load(tiles.other + first)
            for n in range(first, last):
                start = other.to(tl.int64) * BQ
                other = tl.load(tiles.other + n + 1)
                here = start + i < T
                q_in, o_in = here[:, None] & (d < D)[None, :], here[:, None] & (e < E)[None, :]
                qa = tl.load(q_at + start * q_strides[2], q_in, 0)
                doa = tl.load(do_at + start * do_strides[2], o_in, 0)
                lse_a = tl.load(lse + number + start, here, 0)
                delta_a = tl.load(delta + number + start, here, 0)
                s = tl.dot(kb, qa.T, input_precision="ieee")
                if PARTIAL:
                    s = hide(s, tiles, n, i[None, :], j[:, None], BQ, BK)
                p = tl.exp2(s * (scale * LOG2E) - lse_a[None, :])
                dvb = tl.dot(p.to(doa.dtype), doa, dvb, input_precision="ieee")
                dp = tl.dot(vb, doa.T, input_precision="ieee")
                ds = p * (dp - delta_a[None, :])
                dkb = tl.dot(ds.to(qa.dtype), qa, dkb, input_precision="ieee")
    tl.store(place(dk, dk_strides, b, shared, cols, d), dkb * scale, k_in)
    tl.store(place(dv, dv_strides, b, shared, cols, e), dvb, v_in)
