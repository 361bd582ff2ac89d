"""Where things lie: what each program must know before it can compute."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def program(lines, heads):
    """Tile, head and example of this program.

    The last tile goes first: under a causal mask it has the most to do.
    """
    n = tl.program_id(0)
    return lines - 1 - n % lines, n // lines % heads, n // lines // heads


@triton.jit
def visits(tiles, a, h, b):
    """Where the tile map keeps the list of tile ``a``."""
    mask = b % tiles.examples * tiles.heads + h % tiles.heads
    return tiles.begin + 2 * (mask * tiles.lines + a)


@triton.jit
def place(x, strides, b, h, i, d):
    """Addresses of rows i and columns d of one head, in 64 bits: large tensors need them."""
    head = x + b.to(tl.int64) * strides[0] + h.to(tl.int64) * strides[1]
    return head + i.to(tl.int64)[:, None] * strides[2] + d.to(tl.int64)[None, :] * strides[3]


@triton.jit
def hide(s, tiles, n, i, j, BQ: tl.constexpr, BK: tl.constexpr):
    """Scores of a PARTIAL tile, with -inf for the keys that a query may not see."""
    pattern = tiles.seen + tl.load(tiles.pattern + n).to(tl.int64) * (BQ * BK)
    return tl.where(tl.load(pattern + i * BK + j), s, float("-inf"))
