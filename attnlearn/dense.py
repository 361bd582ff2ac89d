"""Attention in PyTorch with the whole matrix of scores: the specification, plus gradients."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import dropout as drop

from .masks import Mask


def weights(q: Tensor, k: Tensor, mask: Mask, scale: float) -> Tensor:
    """q [..., Hq, T, D], k [..., Hk, S, D] -> [..., Hq, T, S], float32 for half types."""
    (Hq, T), (Hk, S) = q.shape[-3:-1], k.shape[-3:-1]
    wide = torch.promote_types(q.dtype, torch.float32)
    k = k.to(wide).repeat_interleave(Hq // Hk, dim=-3)
    s = (q.to(wide) * scale) @ k.mT  # [..., Hq, T, S]
    seen = torch.tensor(mask.dense(T, S), device=q.device)
    # Softmax over nothing but -inf is NaN, and so is its gradient. A row that sees nothing is
    # left as it is, and hidden after the softmax.
    some = seen.any(-1, keepdim=True)
    return s.masked_fill(~seen & some, -torch.inf).softmax(-1).masked_fill(~seen, 0)


def attention(
    q: Tensor, k: Tensor, v: Tensor, mask: Mask, scale: float, dropout: float = 0.0
) -> Tensor:
    """See ``attnlearn.reference.attention``; ``dropout`` is the share of weights set to 0."""
    p = drop(weights(q, k, mask, scale), dropout)
    v = v.to(p.dtype).repeat_interleave(q.shape[-3] // v.shape[-3], dim=-3)
    return (p @ v).to(q.dtype)
