"""Thin adapters to PyTorch's own attention: what you would call in production."""

from __future__ import annotations

import math
import warnings

import torch
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask, flex_attention
from torch.nn.functional import scaled_dot_product_attention

from .masks import FULL, PARTIAL, Causal, Full, Mask

TILE = 128  # what FlexAttention's kernels expect
TINY = torch.finfo(torch.float32).tiny  # is_causal hides by -inf before scaling: -inf · 0 is NaN


def sdpa(q: Tensor, k: Tensor, v: Tensor, mask: Mask, scale: float) -> Tensor:
    """``F.scaled_dot_product_attention``; see ``attnlearn.reference.attention``.

    Builds the boolean matrix [..., T, S], unless the mask is ``Full()``, or ``Causal()`` with as
    many queries as keys. On the CPU gradients of half types are summed in half, by PyTorch.
    """
    T, S = q.shape[-2], k.shape[-2]
    how = {}
    if mask == Causal() and T == S and scale >= TINY:
        how["is_causal"] = True
    elif mask != Full() and not (seen := mask.dense(T, S)).all():
        how["attn_mask"] = flat(torch.tensor(seen, device=q.device), q)
    o = scaled_dot_product_attention(
        *(flat(x, q) for x in (q, k, v)), scale=scale, enable_gqa=grouped(q, k), **how
    )
    return o.reshape(*q.shape[:-1], v.shape[-1])


def flex(q: Tensor, k: Tensor, v: Tensor, mask: Mask, scale: float) -> Tensor:
    """``flex_attention`` (arXiv 2412.05496) on the mask's tiles; on the CPU for inference only.

    See ``attnlearn.reference.attention``. Raises NotImplementedError for gradients on the CPU.
    """
    if q.device.type == "cpu" and wants_gradient(q, k, v):
        raise NotImplementedError(
            "impl='flex' has no gradients on the CPU; use 'flash', or torch.no_grad()"
        )
    if not torch.is_grad_enabled():
        q, k, v = q.detach(), k.detach(), v.detach()  # flex refuses even to ask, on the CPU
    o = q.new_zeros(*q.shape[:-1], v.shape[-1])
    if o.numel() == 0 or k.numel() == 0:
        return o
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "flex_attention called without torch.compile")
        o = flex_attention(
            *(flat(x, q) for x in (q, k, v)),
            block_mask=tiles(q, k, mask),
            scale=scale,
            enable_gqa=grouped(q, k),
        )
    return o.reshape(*q.shape[:-1], v.shape[-1])


def tiles(q: Tensor, k: Tensor, mask: Mask) -> BlockMask:
    """The mask as FlexAttention wants it: lists of FULL and PARTIAL tiles, and the predicate."""
    T, S = q.shape[-2], k.shape[-2]
    held = mask.convert(lambda array: torch.tensor(array, device=q.device))
    kind = flat(torch.tensor(mask.blocks(T, S, TILE, TILE), device=q.device), q)

    def may_see(b, h, i, j):
        def mine(array):  # whole numbers with four axes are one per example, or one per head
            if array.ndim < 4 or array.dtype == torch.bool:
                return array
            B, H = array.shape[:2]
            return array[b % B if B > 1 else 0, h if H > 1 else 0, 0, 0]

        return held.convert(mine)(i + (S - T), j)

    return BlockMask.from_kv_blocks(
        *listed(kind == PARTIAL),
        *listed(kind == FULL),
        BLOCK_SIZE=TILE,
        mask_mod=may_see,
        seq_lengths=(T, S),
    )


def listed(chosen: Tensor) -> tuple[Tensor, Tensor]:
    """bool [B, H, rows, cols] -> how many in each row, and their columns, the chosen ones first."""
    order = (~chosen).int().argsort(dim=-1, stable=True)
    return chosen.sum(-1, dtype=torch.int32), order.to(torch.int32)


def flat(x: Tensor, q: Tensor) -> Tensor:
    """``x`` [..., H, n, m] with the batch axes of ``q`` as one: what PyTorch wants, four axes."""
    if x.ndim == 2:
        return x[None, None]
    batch = q.shape[:-3]
    return x.expand(*batch, *x.shape[-3:]).reshape(math.prod(batch), *x.shape[-3:])


def grouped(q: Tensor, k: Tensor) -> bool:
    return q.shape[-3] != k.shape[-3]


def wants_gradient(*tensors: Tensor) -> bool:
    return torch.is_grad_enabled() and any(x.requires_grad for x in tensors)
