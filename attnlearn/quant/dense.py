"""The products of integers, as products of floats that hold integers.

On a CPU those are fast, and products of int8 are not: ``torch._int_mm`` is many times slower.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from ..masks import Mask
from .codes import Quantized, quantize, within
from .mean import smooth

LARGEST = 2**22  # scores in memory at once, over all heads: 16 MB in float32
# From powers [..., Hq, T, S] and their sums [..., Hq, T, 1] to the answer [..., Hq, T, E].
Weigh = Callable[[Tensor, Tensor], Tensor]


def attention(q8: Quantized, k8: Quantized, weigh: Weigh, mask: Mask, scale: float) -> Tensor:
    """The answer [..., Hq, T, E], a few queries at a time."""
    heads, T, D, S = q8.shape[:-2], *q8.shape[-2:], k8.shape[-2]
    group = heads[-1] // k8.shape[-3]
    number = exact(q8.bits, D)
    q, k = q8.integers().to(number), k8.integers().to(number).repeat_interleave(group, -3)
    rows = q8.by_token()[..., None] * scale
    columns = k8.by_token().repeat_interleave(group, -2)[..., None, :]
    few = max(1, LARGEST // (heads.numel() * S))
    answers = []
    for first in range(0, T, few):
        a = slice(first, min(first + few, T))
        # The sizes of two steps first: one may be huge where the other is tiny.
        steps = rows[..., a, :] * columns  # [..., Hq, few, S]
        s = (q[..., a, :] @ k.mT).to(steps.dtype).mul_(steps)
        i = np.arange(a.start, a.stop)[:, None] + S - T
        seen = torch.tensor(mask(i, np.arange(S)[None, :]), device=s.device)
        answers.append(weigh(*powers(s, seen)))
    return torch.cat(answers, -2)


def powers(s: Tensor, seen: Tensor) -> tuple[Tensor, Tensor]:
    """exp(s - the largest of the row), 0 where hidden, and its sum: 0 where nothing is seen."""
    s = s.masked_fill(~seen, -torch.inf)
    # Where nothing is seen, -inf less -inf would be NaN.
    top = s.amax(-1, keepdim=True).clamp(min=torch.finfo(s.dtype).min)
    p = (s - top).exp_()
    return p, p.sum(-1, keepdim=True)


def in_floats(v: Tensor) -> Weigh:
    """Weights and values as they are."""
    # Weights of sum 1, as a sum of values need not fit their dtype where a mean does.
    return lambda p, l: p / l.clamp(min=1) @ v


def in_integers(v: Tensor, seen: Tensor) -> Weigh:
    """Weights in steps of 1/127, values with a scale per channel.

    Small weights become 0. The sum to divide by stays that of all weights: dividing by what is
    left would enlarge the others, which is the larger error. So what is lost is missing from the
    answer, a share of the values' mean above all: it is taken away before, and added at the end.
    """
    around, mean = smooth(v.double(), seen)
    v8 = quantize(around, per="channel", dtype=torch.float64)
    number = exact(8, v.shape[-2])
    codes = v8.integers().to(number)

    def weigh(p, l):
        sums = (p * 127).round_().to(number) @ codes
        return within(sums * (v8.scale / 127) / l.clamp(min=1) + mean * (l > 0), v.dtype)

    return weigh


def exact(bits: int, terms: int) -> torch.dtype:
    """The dtype that adds up so many products of two codes without rounding.

    Codes of 8 bits are at most 127, and float32 counts to 2**24: enough for 1040 products.
    """
    return torch.float32 if (2 ** (bits - 1) - 1) ** 2 * terms < 2**24 else torch.float64
