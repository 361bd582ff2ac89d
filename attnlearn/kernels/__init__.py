"""Flash attention as Triton kernels, forward and backward, under any mask.

The mathematics is that of ``attnlearn.flash``. A kernel knows no mask: it reads a list of the
tiles to visit (``tiles``), and a pattern for those seen in part. So all masks are equally exact,
and the work grows with the tiles kept.

Runs on NVIDIA GPUs, and on a CPU in Triton's interpreter, which is slow and there for learning:
set TRITON_INTERPRET=1 before Triton is imported.

Sources: Dao et al. 2022 (arXiv 2205.14135), Dao 2023 (arXiv 2307.08691).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

try:
    import triton  # noqa: F401
except ImportError as error:
    raise ImportError(
        "impl='triton' needs the package triton, which exists for Linux: "
        "pip install triton; or use impl='flash'"
    ) from error

from . import launch
from .launch import INTERPRETED, backward, check, forward

TINY = torch.finfo(torch.float32).tiny


def attention(q: Tensor, k: Tensor, v: Tensor, mask, scale: float) -> Tensor:
    """Exact attention by Triton kernels that visit only the tiles that the mask keeps.

    See ``attnlearn.reference.attention`` for the shapes. float16, bfloat16 or float32, widths D
    and E up to 256; sums are kept in float32. The gradient has no gradient of its own: a second
    derivative raises RuntimeError. Scores are summed before they are scaled: q · k must fit
    float32. Where a softmax is saturated, its tiny gradients carry the rounding error of
    ``do · o``. Raises TypeError for float64, and ValueError for wider heads
    and for tensors on the CPU outside Triton's interpreter.
    """
    check(q, v)
    if INTERPRETED and q.dtype == torch.bfloat16:  # its products of bfloat16 are garbage there
        return attention(q.float(), k.float(), v.float(), mask, scale).to(q.dtype)
    if scale < 0:  # the kernels take a row's maximum before they scale it
        q, scale = -q, -scale
    o = Flash.apply(*(flat(x) for x in (q, k, v)), mask, max(scale, TINY))
    return o.view(*q.shape[:-1], v.shape[-1])


def integers(
    q: Tensor, k: Tensor, v: Tensor, q_scale: Tensor, k_scale: Tensor, mask, scale: float
) -> Tensor:
    """Attention on INT8 codes of queries and keys, each token with a scale; it has no gradient.

    q int8 [..., Hq, T, D], k int8 [..., Hk, S, D], v [..., Hk, S, E], scales float32 [..., Hq, T]
    and [..., Hk, S] -> [..., Hq, T, E] in the dtype of v. Codes are -127..127, as ``quantize``
    makes them: -128 has no negative. Errors: ``attention``'s.
    """
    check(q, v)
    if INTERPRETED and v.dtype == torch.bfloat16:
        return integers(q, k, v.float(), q_scale, k_scale, mask, scale).to(v.dtype)
    if scale < 0:
        q, scale = -q, -scale
    scales = (flat(x[..., None]).float() for x in (q_scale, k_scale))
    o = launch.integers(*(flat(x) for x in (q, k, v)), *scales, mask, max(scale, TINY))
    return o.view(*q.shape[:-1], v.shape[-1])


def flat(x: Tensor) -> Tensor:
    """All batch axes as one: [B, H, n, d]."""
    return x.reshape(math.prod(x.shape[:-3]), *x.shape[-3:])


class Flash(torch.autograd.Function):
    """The two passes, tied together for autograd."""

    @staticmethod
    def forward(ctx, q, k, v, mask, scale):
        o, lse = forward(q, k, v, mask, scale)
        ctx.save_for_backward(q, k, v, o, lse)
        ctx.mask, ctx.scale = mask, scale
        return o

    @staticmethod
    def backward(ctx, do):
        return *Gradients.apply(*ctx.saved_tensors, do, ctx.mask, ctx.scale), None, None


class Gradients(torch.autograd.Function):
    """The backward pass as a function of its own, so that a second derivative is noticed."""

    @staticmethod
    def forward(ctx, q, k, v, o, lse, do, mask, scale):
        return backward(q, k, v, o, lse, do, mask, scale)

    @staticmethod
    def backward(ctx, *_):
        raise RuntimeError("impl='triton' has no second derivative; use impl='dense'")
