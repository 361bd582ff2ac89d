"""Attention in plain NumPy: the specification that all others must match."""

from __future__ import annotations

import numpy as np

from .masks import Mask

Array = np.ndarray


def softmax(x: Array) -> Array:
    """Softmax over the last axis; a row of -inf gives a row of zeros, not NaN.

    x [..., S] -> [..., S].
    """
    top = x.max(axis=-1, keepdims=True, initial=-np.inf)
    e = np.exp(x - np.where(np.isneginf(top), 0, top))
    total = e.sum(axis=-1, keepdims=True)
    return e / np.where(total == 0, 1, total)


def weights(q: Array, k: Array, mask: Mask, scale: float) -> Array:
    """How much each query takes from each key; hidden keys get 0.

    q [..., Hq, T, D], k [..., Hk, S, D] -> [..., Hq, T, S].
    """
    (Hq, T), (Hk, S) = q.shape[-3:-1], k.shape[-3:-1]
    wide = np.promote_types(q.dtype, np.float32)  # half types overflow
    q = q.astype(wide) * wide.type(scale)
    # Query head h reads key head h // (Hq / Hk).
    k = np.repeat(k.astype(wide), Hq // Hk, axis=-3)
    s = q @ k.swapaxes(-1, -2)  # [..., Hq, T, S]
    return softmax(np.where(mask.dense(T, S), s, -np.inf))


def attention(q: Array, k: Array, v: Array, mask: Mask, scale: float) -> Array:
    """softmax(q kᵀ · scale) v, keys hidden where ``mask`` is False.

    q [..., Hq, T, D], k [..., Hk, S, D], v [..., Hk, S, E] -> [..., Hq, T, E].
    Hq is a multiple of Hk: grouped-query attention (arXiv 2305.13245).
    A query that sees nothing gets zeros. Source: arXiv 1706.03762.
    """
    p = weights(q, k, mask, scale)
    v = np.repeat(v.astype(p.dtype), q.shape[-3] // v.shape[-3], axis=-3)
    return (p @ v).astype(q.dtype)
