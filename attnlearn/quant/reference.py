"""Attention on integers in plain NumPy: the specification that ``attend`` must match.

Everything is float64 or a true integer, and every matrix is there at once.
"""

from __future__ import annotations

import numpy as np

from ..masks import Mask

Array = np.ndarray


def attention(
    q: Array,
    k: Array,
    v: Array,
    mask: Mask,
    scale: float,
    *,
    bits: int = 8,
    rows: int = 1,
    smooth: bool = True,
    values: int | None = None,
) -> Array:
    """softmax(q kᵀ · scale) v with q kᵀ in integers, and p v too if ``values`` is 8.

    q [..., H, T, D], k [..., H, S, D], v [..., H, S, E] -> [..., H, T, E]. So many ``rows`` of q
    and of k share a scale. Source: arXiv 2410.02367.
    """
    seen = mask.dense(q.shape[-2], k.shape[-2])  # [..., T, S]
    used = np.broadcast_to(seen.any(-2), k.shape[:-1])[..., None]
    if smooth:
        k = k - mean(k, used)
    q, k = np.where(seen.any(-1)[..., None], q, 0), np.where(used, k, 0)
    (q8, q_step), (k8, k_step) = integers(q, bits, rows), integers(k, bits, rows)
    s = (q8 @ k8.swapaxes(-1, -2)) * q_step * k_step.swapaxes(-1, -2) * scale
    top = np.where(seen, s, -np.inf).max(-1, keepdims=True, initial=np.finfo(float).min)
    p = np.where(seen, np.exp(np.minimum(s - top, 0)), 0)
    l = p.sum(-1, keepdims=True)
    l[l == 0] = 1
    if values is None:
        return p @ v / l
    about = mean(v, used)
    v8, v_step = integers(np.where(used, v - about, 0).swapaxes(-1, -2), 8, 1)
    p8 = np.rint(p * 127).astype(np.int64)
    o = (p8 @ v8.swapaxes(-1, -2)) * v_step.swapaxes(-1, -2) / 127 / l
    return o + about * seen.any(-1)[..., None]


def integers(x: Array, bits: int, rows: int) -> tuple[Array, Array]:
    """Codes, int64 [..., n, d], and the step between two of them for every row, [..., n, 1]."""
    last = 2 ** (bits - 1) - 1
    codes, step = np.zeros(x.shape, np.int64), np.ones((*x.shape[:-1], 1))
    for start in range(0, x.shape[-2], rows):
        group = x[..., start : start + rows, :]
        largest = np.abs(group).max((-2, -1), keepdims=True)
        size = np.where(largest == 0, 1, largest / last)
        codes[..., start : start + rows, :] = np.rint(group / size)
        step[..., start : start + rows, :] = size
    return codes, step


def mean(x: Array, used: Array) -> Array:
    """The mean of the rows that are used, [..., 1, d]; 0 if there are none."""
    return np.where(used, x, 0).sum(-2, keepdims=True) / np.maximum(used.sum(-2, keepdims=True), 1)
