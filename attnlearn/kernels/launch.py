"""From tensors to kernels: what to allocate, how many programs to start, and what cannot run."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from .backward import keys_kernel, queries_kernel
from .forward import LOWEST, forward_kernel
from .int8 import int8_kernel
from .sizes import WIDEST, size
from .tiles import tiles

# The switch counts when a function is defined: Triton's own first, and then ours.
INTERPRETED = not any(isinstance(f, triton.JITFunction) for f in (tl.max, forward_kernel))
DTYPES = torch.float16, torch.bfloat16, torch.float32


def check(q: Tensor, v: Tensor) -> None:
    """Raise unless the kernels can run on these tensors, here."""
    if v.dtype not in DTYPES:
        raise TypeError(
            f"impl='triton' takes float16, bfloat16 or float32, got {v.dtype}; "
            "use 'flash' or 'dense' for float64"
        )
    for name, x in (("q and k", q), ("v", v)):
        if x.shape[-1] > WIDEST:
            raise ValueError(
                f"impl='triton' takes heads of width up to {WIDEST}, got {x.shape[-1]} in {name}; "
                "use 'flash'"
            )
    if q.device.type == "cpu" and not INTERPRETED:
        raise ValueError(
            "impl='triton' on tensors on the CPU needs Triton's interpreter: set "
            "TRITON_INTERPRET=1 in the environment before Triton is imported, or use 'flash'"
        )


def forward(q, k, v, mask, scale: float) -> tuple[Tensor, Tensor]:
    """The output [B, Hq, T, E] and each row's log-sum-exp to the base 2, float32 [B, Hq, T]."""
    o = q.new_empty(*q.shape[:-1], v.shape[-1])
    lse = q.new_empty(q.shape[:-1], dtype=torch.float32)
    if not (o.numel() and k.numel()):
        return o.zero_(), lse.fill_(LOWEST.value)
    start(forward_kernel, "forward", q, k, v, mask, scale, (q, k, v, o), (lse,))
    return o, lse


def integers(q, k, v, q_scale, k_scale, mask, scale: float) -> Tensor:
    """The output [B, Hq, T, E] from codes q and k, each token with its scale, float32 [B, H, n]."""
    o = v.new_empty(*q.shape[:-1], v.shape[-1])
    if not (o.numel() and k.numel()):
        return o.zero_()
    scales = q_scale.contiguous(), k_scale.contiguous()
    start(int8_kernel, "int8", q, k, v, mask, scale, (q, k, v, o), scales)
    return o


def backward(q, k, v, o, lse, do, mask, scale: float) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of q, k and v."""
    dq, dk, dv = (x.new_empty(x.shape) for x in (q, k, v))
    if not (o.numel() and k.numel()):
        return dq.zero_(), dk.zero_(), dv.zero_()
    delta = torch.empty_like(lse)
    rows, cols = (q, k, v, o, do, dq), (q, k, v, do, dk, dv)
    start(queries_kernel, "queries", q, k, v, mask, scale, rows, (lse, delta))
    start(keys_kernel, "keys", q, k, v, mask, scale, cols, (lse, delta))
    return dq, dk, dv


def start(kernel, name: str, q, k, v, mask, scale: float, tensors, rows) -> None:
    """Run a kernel: one program for each line of the tile map, head and example."""
    B, H, T, D = q.shape
    Hk, S, E = *k.shape[-3:-1], v.shape[-1]
    bq, bk, warps, stages = size(name, q, v)
    by_keys = name == "keys"
    found = tiles(mask, T, S, bq, bk, q.device, by_keys)
    # Tensor cores take at least 16 numbers of a row at a time, and 32 of one byte.
    BD, BE = (max(16, 32 // x.itemsize, triton.next_power_of_2(x.shape[-1])) for x in (q, v))
    with torch.cuda.device_of(q):
        kernel[(found.lines * B * (Hk if by_keys else H),)](
            *tensors, *rows, *(x.stride() for x in tensors),
            found, T, S, H, H // Hk, scale, D, E, BD, BE, bq, bk,
            num_warps=warps, num_stages=stages,
        )  # fmt: skip
