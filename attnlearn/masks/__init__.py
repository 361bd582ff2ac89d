"""Masks: who may look at whom.

A mask is a question, not a matrix. ``mask(i, j)`` answers "may the query at position ``i`` see the
key at position ``j``?", with operators only, so one definition serves NumPy, PyTorch and
FlexAttention. ``True`` means *may see*. Masks combine with ``&``, ``|`` and ``~``:

    >>> recent = Causal() & Window(2)
    >>> recent.dense(4, 4).astype(int)
    array([[1, 0, 0, 0],
           [1, 1, 0, 0],
           [0, 1, 1, 0],
           [0, 0, 1, 1]])

Kernels ask about whole tiles: ``recent.blocks(T, S, bq, bk)`` says EMPTY, PARTIAL or FULL for each,
without building the matrix. A new mask needs ``__call__``; ``over`` makes it fast.

A number in a mask may be one for all, or a list with one per example: ``Prefix([5, 2])``. Such a
mask answers with leading axes ``[B, 1]``, and one per head (``PerHead``) with ``[1, H]``.
``mask.shift(n)`` places the queries elsewhere, ``mask.gather(at)`` the keys: a cache needs both.
A mask that holds arrays takes NumPy's positions, and ``mask.convert(torch.tensor)`` torch's.
"""

from .algebra import EMPTY, FULL, PARTIAL, And, Mask, Not, Or, Shift
from .arrays import Dense, Document, Gather, RandomBlocks
from .each import PerExample, PerHead, padding
from .rules import Causal, Chunked, Dilated, Full, Global, Prefix, Window

__all__ = [
    "EMPTY",
    "FULL",
    "PARTIAL",
    "And",
    "Causal",
    "Chunked",
    "Dense",
    "Dilated",
    "Document",
    "Full",
    "Gather",
    "Global",
    "Mask",
    "Not",
    "Or",
    "PerExample",
    "PerHead",
    "Prefix",
    "RandomBlocks",
    "Shift",
    "Window",
    "padding",
]
