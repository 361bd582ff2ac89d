"""Attention whose scores are products of integers: what is checked, made small, and multiplied."""

from __future__ import annotations

from importlib import import_module

import numpy as np
import torch
from torch import Tensor

from ..api import checked, in_sight, is_numpy, without_unseen
from . import dense
from .codes import check_finite, check_no_gradient, quantize
from .mean import smooth as without_mean

PER = "token", "block", "tensor"
IMPLS = "dense", "triton"


def attention(
    q,
    k,
    v,
    mask=None,
    *,
    scale: float | None = None,
    bits: int = 8,
    per: str = "token",
    block: int = 64,
    smooth: bool = True,
    values: int | None = None,
    impl: str = "dense",
):
    """Attention with q kᵀ in integers (arXiv 2410.02367), for inference: it has no gradient.

    Shapes, mask and errors: ``attnlearn.attention``. ``bits``: 8 or 4, of queries and keys.
    ``per``: what shares a scale, "token", "block" (of ``block`` tokens) or "tensor" (a whole head).
    ``smooth``: take the mean of the keys away first. ``values=8``: weights and values are integers
    too, in steps of 1/127, and with a scale per channel. ``impl``: "dense" holds the scores of a
    few queries at a time, with all their keys; "triton" is the kernel, with values in floats.

    Means, and scales that tokens share, are taken over all keys that some query sees: a later key
    moves the rounding of an earlier answer, unless ``per="token"``, ``smooth=False`` and
    ``values=None``. Positions that are channels of k, as ``Alibi``'s, are rounded too.

    NaN and infinities that some query sees raise ValueError in q and k, and in v with ``values=8``;
    so does an input that requires grad.
    """
    mask, scale = checked(q, k, v, mask, scale)
    check_choices(per, values, impl)
    how = {"scale": scale, "bits": bits, "per": per, "block": block}
    how |= {"smooth": smooth, "values": values, "impl": impl}
    if is_numpy(q):
        tensors = (torch.tensor(np.ascontiguousarray(x)) for x in (q, k, v))
        return run(*tensors, mask, **how).numpy()
    for name, x in (("q", q), ("k", k), ("v", v)):
        check_no_gradient(name, x)
    with torch.autocast(q.device.type, enabled=False):  # half types do not hold these integers
        return run(q, k, v, mask, **how)


def run(q, k, v, mask, *, scale, bits, per, block, smooth, values, impl) -> Tensor:
    """The answer for tensors whose shapes and mask are sound."""
    q, k, v = without_unseen(q, k, v, mask)
    for name, x in (("q", q), ("k", k), *([("v", v)] if values else ())):
        check_finite(name, x)
    seen = torch.tensor(in_sight(q, k, mask)[1], device=k.device).expand(k.shape[:-1])
    k = without_mean(k.double(), seen)[0] if smooth else k  # what is left may need a wider range
    wide = torch.promote_types(q.dtype, torch.float32)
    q8, k8 = (quantize(x, bits, per=per, block=block, dtype=wide) for x in (q, k))
    if impl == "triton":
        triton = import_module("..kernels", __package__)
        codes, steps = (q8.integers(), k8.integers()), (q8.by_token(), k8.by_token())
        return triton.integers(*codes, v, *steps, mask, scale)
    if not (q.numel() and k.numel()):
        return q.new_zeros(*q.shape[:-1], v.shape[-1])
    group = q.shape[-3] // k.shape[-3]
    v, seen = v.repeat_interleave(group, -3), seen.repeat_interleave(group, -2)
    weigh = dense.in_integers(v, seen) if values else dense.in_floats(v.to(wide))
    return dense.attention(q8, k8, weigh, mask, scale).to(q.dtype)


def check_choices(per, values, impl) -> None:
    """Raise for what there is no product of integers for."""
    if per == "channel":
        raise ValueError(
            "per='channel' cannot be used in q kᵀ: a score is a sum over channels, and only a "
            "scale that all of them share can be taken out of it; use 'token', 'block' or 'tensor'"
        )
    for name, got, allowed in (
        ("per", per, PER),
        ("values", values, (None, 8)),
        ("impl", impl, IMPLS),
    ):
        if got not in allowed:
            raise ValueError(f"{name} must be one of {', '.join(map(repr, allowed))}, got {got!r}")
    if impl == "triton" and values:
        raise ValueError("impl='triton' has float values only: values=8 needs impl='dense'")
