"""Keys as trained models have them, and how close an answer comes to the exact one."""

from __future__ import annotations

import torch
from torch import Tensor

from .. import api
from .attend import attention

BIAS = {3: 30.0, 11: -20.0}  # channels of k that are far from 0 in every token


def biased(seed: int, n: int = 512, d: int = 64) -> tuple[Tensor, Tensor, Tensor]:
    """q, k and v of one head, standard normal but for two channels of k; float64 [1, n, d]."""
    generator = torch.Generator().manual_seed(seed)
    q, k, v = (torch.randn(1, n, d, generator=generator, dtype=torch.float64) for _ in range(3))
    for channel, shift in BIAS.items():
        k[..., channel] += shift
    return q, k, v


def cosine(a: Tensor, b: Tensor) -> float:
    """The cosine of the angle between two answers, all their numbers taken as one vector."""
    a, b = a.double().flatten(), b.double().flatten()
    return (a @ b / (a.norm() * b.norm())).item()


def worst(seeds: int = 20, n: int = 512, d: int = 64, **how) -> float:
    """The least cosine over draws of ``biased``, against exact attention in float64.

    ``how``: options of ``attnlearn.quant.attention``, which gets float32.
    """
    found = []
    for seed in range(seeds):
        qkv = biased(seed, n, d)
        exact = api.attention(*qkv, impl="dense")
        found.append(cosine(attention(*(x.float() for x in qkv), **how), exact))
    return min(found)
