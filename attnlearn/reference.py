"""Attention in plain NumPy: the specification that every other implementation must match."""

from __future__ import annotations

import numpy as np

from .masks import Mask


def softmax(x: np.ndarray) -> np.ndarray:
    """Softmax over the last axis; a row of -inf gives a row of zeros, not NaN.

    x [..., S] -> [..., S].
    """
    top = x.max(axis=-1, keepdims=True, initial=-np.inf)
    e = np.exp(x - np.where(np.isneginf(top), 0, top))
    total = e.sum(axis=-1, keepdims=True)
    return e / np.where(total == 0, 1, total)


def weights(q: np.ndarray, k: np.ndarray, mask: Mask, scale: float) -> np.ndarray:
    """How much each query takes from each key; hidden keys get 0.

    q [..., Hq, T, D], k [..., Hk, S, D] -> [..., Hq, T, S].
    """
    (Hq, T), (Hk, S) = q.shape[-3:-1], k.shape[-3:-1]
    wide = np.promote_types(q.dtype, np.float32)  # half types overflow in q kᵀ
    k = np.repeat(k, Hq // Hk, axis=-3).astype(wide)  # query head h reads key head h // (Hq / Hk)
    s = (q.astype(wide) * wide.type(scale)) @ k.swapaxes(-1, -2)  # [..., Hq, T, S]
    return softmax(np.where(mask.dense(T, S), s, -np.inf))


def attention(q: np.ndarray, k: np.ndarray, v: np.ndarray, mask: Mask, scale: float) -> np.ndarray:
    """softmax(q kᵀ · scale) v, with keys hidden where ``mask`` is False (arXiv 1706.03762).

    q [..., Hq, T, D], k [..., Hk, S, D], v [..., Hk, S, E] -> [..., Hq, T, E]. Hq is a multiple of
    Hk: grouped-query attention (arXiv 2305.13245). A query that sees nothing gets zeros.
    """
    p = weights(q, k, mask, scale)
    v = np.repeat(v, q.shape[-3] // v.shape[-3], axis=-3)
    return (p @ v.astype(p.dtype)).astype(q.dtype)
