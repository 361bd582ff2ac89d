"""The mean of the keys goes first: it takes most of the range, and says nothing."""

from __future__ import annotations

import torch
from torch import Tensor

from .codes import check_rows


def smooth(k: Tensor, seen: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Keys without their mean, and the mean: a softmax gives the same for both.

    k [..., S, D] -> [..., S, D] and [..., 1, D], float32 for half types. q · (k - mean) is q · k
    less one number for all keys, and the softmax ignores such a number. ``seen``, bool [..., S]:
    the keys that count; the others become 0. Raises TypeError unless k is a float tensor, and
    ValueError for fewer than 2 axes. Source: arXiv 2410.02367.
    """
    check_rows("k", k)
    wide = torch.promote_types(k.dtype, torch.float32)
    if seen is None:
        seen = torch.ones(k.shape[:-1], dtype=torch.bool, device=k.device)
    seen = seen[..., None]
    k = torch.where(seen, k.double(), 0)
    mean = k.sum(-2, keepdim=True) / seen.sum(-2, keepdim=True).clamp(min=1)
    return torch.where(seen, k - mean, 0).to(wide), mean.to(wide)
