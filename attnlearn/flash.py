"""Flash attention in PyTorch: the exact answer, one tile of scores at a time.

The matrix of scores is never built. For each tile of queries the keys pass by in tiles. A softmax
needs the maximum and the sum of its whole row, so both are kept running: ``m`` is the largest
score so far, ``l`` the sum of ``exp(s - m)``, and ``acc`` the output before its division by ``l``.
When a tile brings a larger score, ``l`` and ``acc`` shrink to fit, and the sum goes on.

The backward pass keeps no scores either: it computes every tile again. One number per row turns a
score back into a weight, the log-sum-exp: ``p = exp(s - lse)``.

Tiles that the mask calls EMPTY are skipped, so this file is also block-sparse attention.

Sources: Dao et al. 2022 (arXiv 2205.14135), Dao 2023 (arXiv 2307.08691).
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from .masks import EMPTY, FULL, PARTIAL, Mask

LOG2E = math.log2(math.e)
# -inf as a whole number of the same size: the sign and the exponent set, the rest 0.
MINUS_INF = {torch.float32: (torch.int32, -(2**23)), torch.float64: (torch.int64, -(2**52))}

# Queries and keys of a tile. Large tiles lose less time between tiles, small ones follow a band
# or a document more closely, and the flat one suits a few queries over a long cache.
SIZES = (256, 512), (256, 256), (128, 128), (16, 4096)
VISIT = 2**14  # what a visit costs besides its scores, counted in scores
LARGEST = 2**21  # scores of one tile over all heads: 8 MB in float32
DIAGONALS = 8  # a window's partial tiles lie on few diagonals, and are asked about once on each


def attention(q: Tensor, k: Tensor, v: Tensor, mask: Mask, scale: float) -> Tensor:
    """Exact attention in memory that grows with T + S, not with T * S.

    See ``attnlearn.reference.attention`` for the shapes. Half types are summed in float32. The
    gradient has no gradient of its own: a second derivative raises RuntimeError. Where a softmax
    is saturated, its tiny gradients carry the rounding error of ``do · o``.
    """
    return Flash.apply(q, k, v, mask, scale)


class Flash(torch.autograd.Function):
    """The two passes, tied together for autograd."""

    @staticmethod
    def forward(ctx, q, k, v, mask, scale):
        ctx.tiles, ctx.scale = Tiles(mask, q, k), scale
        with torch.autocast(q.device.type, enabled=False):
            o, lse = forward(q, k, v, ctx.tiles, scale)
        ctx.save_for_backward(q, k, v, o, lse)  # o as it was summed: rounded, it would spoil delta
        return o.to(q.dtype)

    @staticmethod
    def backward(ctx, do):
        return *Gradients.apply(*ctx.saved_tensors, do, ctx.tiles, ctx.scale), None, None


class Gradients(torch.autograd.Function):
    """The backward pass as a function of its own, so that a second derivative is noticed."""

    @staticmethod
    def forward(ctx, q, k, v, o, lse, do, tiles, scale):
        with torch.autocast(do.device.type, enabled=False):
            return backward(q, k, v, o, lse, do, tiles, scale)

    @staticmethod
    def backward(ctx, *_):
        raise RuntimeError("impl='flash' has no second derivative; use impl='dense'")


def forward(q, k, v, tiles: Tiles, scale: float) -> tuple[Tensor, Tensor]:
    """The output [..., Hq, T, E] and the log-sum-exp of every row, [..., Hq, T, 1]."""
    o = q.new_zeros((*q.shape[:-1], v.shape[-1]), dtype=wide(q))
    lse = q.new_zeros((*q.shape[:-1], 1), dtype=wide(q))
    for rows, visits in tiles:
        qa = fold(q, rows, k) * scale
        # The lowest finite number, not -inf: a row that sees no key then keeps l = acc = 0.
        m = qa.new_full((*qa.shape[:-1], 1), torch.finfo(qa.dtype).min)
        l = torch.zeros_like(m)
        acc = qa.new_zeros(*qa.shape[:-1], v.shape[-1])
        for cols, hidden in visits:
            s = scores(qa, fold(k, cols, k), hidden, q)
            higher = torch.maximum(m, s.amax(-1, keepdim=True))
            shrink = exp_(m - higher)
            p = exp_(s.sub_(higher))
            l.mul_(shrink).add_(p.sum(-1, keepdim=True))
            acc.mul_(shrink).baddbmm_(p, fold(v, cols, k))
            m = higher
        l.clamp_(min=1)  # changes blind rows only: in all others the largest score adds exp(0)
        o[..., rows, :] = unfold(acc.div_(l), q)
        lse[..., rows, :] = unfold(m.add_(l.log_()), q)
    return o, lse


def backward(q, k, v, o, lse, do, tiles: Tiles, scale: float) -> tuple[Tensor, ...]:
    """The gradients of q, k and v, from weights computed again tile by tile."""
    dq, dk, dv = (torch.zeros(x.shape, dtype=wide(x), device=x.device) for x in (q, k, v))
    for rows, visits in tiles:
        qa = fold(q, rows, k) * scale
        oa, doa, lse_a = (fold(x, rows, k) for x in (o, do, lse))
        delta = (oa * doa).sum(-1, keepdim=True)  # the weighted mean of dp, since weights sum to 1
        dqa = torch.zeros_like(qa)
        for cols, hidden in visits:
            kb, vb = fold(k, cols, k), fold(v, cols, k)
            p = exp_(scores(qa, kb, hidden, q).sub_(lse_a))
            dp = torch.bmm(doa, vb.mT)
            ds = dp.sub_(delta).mul_(p)
            dqa.baddbmm_(ds, kb)
            dk.flatten(0, -3)[:, cols].baddbmm_(ds.mT, qa)
            dv.flatten(0, -3)[:, cols].baddbmm_(p.mT, doa)
        dq[..., rows, :] = unfold(dqa.mul_(scale), q)
    return dq.to(q.dtype), dk.to(k.dtype), dv.to(v.dtype)


def scores(qa: Tensor, kb: Tensor, hidden: tuple | None, q: Tensor) -> Tensor:
    """The scores of a tile, with -inf for the keys that a query may not see."""
    s = torch.bmm(qa, kb.mT)
    if hidden is not None:
        keep, low = hidden
        unfold(s, q).view(keep.dtype).bitwise_and_(keep).bitwise_or_(low)
    return s


def exp_(x: Tensor) -> Tensor:
    """exp in place; on a CPU 2**x takes half the time of e**x."""
    return x.mul_(LOG2E).exp2_()


def fold(x: Tensor, rows: slice, k: Tensor) -> Tensor:
    """Rows of x as [heads of k, rows of its whole group, width]: GQA without repeating keys."""
    x = x[..., rows, :]
    heads = math.prod(k.shape[:-2])
    return x.reshape(heads, math.prod(x.shape[:-1]) // heads, x.shape[-1]).to(wide(x))


def unfold(x: Tensor, q: Tensor) -> Tensor:
    """What ``fold`` did to rows of q, undone: [..., Hq, rows, width]."""
    heads = q.shape[:-2]
    return x.view(*heads, math.prod(x.shape[:-1]) // math.prod(heads), x.shape[-1])


def wide(x: Tensor) -> torch.dtype:
    """The dtype that sums are kept in."""
    return torch.promote_types(x.dtype, torch.float32)


class Tiles:
    """The tiles to visit, at the size that suits the mask.

    Iterating gives the rows of each tile of queries, with an iterator over its visits: the columns
    of a tile of keys, and what ``hidden`` says of it, or None if nothing is.
    """

    def __init__(self, mask: Mask, q: Tensor, k: Tensor):
        self.mask, self.device, self.dtype = mask, q.device, wide(q)
        self.T, self.S = q.shape[-2], k.shape[-2]
        self.heads = math.prod(q.shape[:-2])
        self.bq, self.bk, self.kind = 1, 1, np.zeros((0, 0), np.int8)
        if q.numel() and k.numel():
            sizes = {(min(bq, self.T), min(bk, self.S)) for bq, bk in SIZES}
            small = [size for size in sizes if math.prod(size) * self.heads <= LARGEST]
            options = map(self.option, small or [min(sizes, key=math.prod)])
            _, self.bq, self.bk, self.kind = min(options, key=lambda option: option[0])
        self.known, self.repeats = {}, mask.relative and self.diagonals() <= DIAGONALS

    def diagonals(self) -> int:
        """On how many diagonals the PARTIAL tiles lie."""
        a, b = np.nonzero(self.kind == PARTIAL)
        return len(np.unique(a * self.bq - b * self.bk))

    def option(self, size):
        """What the visits cost in tiles of this size; the size; the kind of each tile."""
        kind = self.mask.blocks(self.T, self.S, *size)
        # Heads and examples go together: a tile is skipped when it is EMPTY for all of them.
        axes = tuple(range(kind.ndim - 2))
        low, high = kind.min(axes), kind.max(axes)
        kind = np.where(low == high, low, PARTIAL)
        cost = np.count_nonzero(kind != EMPTY) * (math.prod(size) * self.heads + VISIT)
        return cost, *size, kind

    def __iter__(self):
        for a, kind in enumerate(self.kind):
            rows = slice(a * self.bq, min((a + 1) * self.bq, self.T))
            yield rows, self.visits(rows, kind)

    def visits(self, rows, kind):
        i = np.arange(rows.start, rows.stop)[:, None] + self.S - self.T
        for b in np.flatnonzero(kind != EMPTY):
            cols = slice(b * self.bk, min((b + 1) * self.bk, self.S))
            j = np.arange(cols.start, cols.stop)[None, :]
            yield cols, None if kind[b] == FULL else self.hidden(i, j)

    def hidden(self, i, j) -> tuple[Tensor, Tensor]:
        """What turns scores into -inf where the mask hides: bits to keep, and bits to set.

        On a CPU ``torch.where`` takes longer than the product that made the scores. A mask that
        depends on i - j alone answers alike on every tile of a diagonal, and is asked once.
        """
        tile = i[0, 0] - j[0, 0], len(i), j.size
        if tile in self.known:
            return self.known[tile]
        whole, minus_inf = MINUS_INF[self.dtype]
        keep = -torch.tensor(self.mask(i, j), device=self.device).to(whole)  # all ones, or none
        hidden = keep, ~keep & minus_inf
        if self.repeats:
            self.known[tile] = hidden
        return hidden
