"""Two codes of 4 bits in one byte."""

from __future__ import annotations

import torch
from torch import Tensor

INTEGERS = torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64


def pack(codes: Tensor) -> Tensor:
    """Two neighbouring codes to a byte, the even column in the low half.

    codes [..., d], uint8 of 0..15 or a signed integer type of -8..7 -> [..., ceil(d / 2)], uint8 or
    int8: the type tells ``unpack`` whether there are signs. An odd width leaves half a byte at 0.
    (``quantize`` never makes -8.) Raises ValueError for codes that need more than 4 bits, and
    TypeError for other types.
    """
    if not isinstance(codes, Tensor) or codes.dtype not in INTEGERS:
        kind = codes.dtype if isinstance(codes, Tensor) else type(codes).__name__
        raise TypeError(f"codes must be a tensor of uint8 or signed integers, got {kind}")
    if codes.ndim < 1:
        raise ValueError("codes must have a last axis of columns, got a single number")
    least, most = (0, 15) if codes.dtype == torch.uint8 else (-8, 7)
    outside = (codes < least) | (codes > most)
    if outside.any():
        raise ValueError(
            f"codes of {codes.dtype} must be {least}..{most} to fit 4 bits, "
            f"got {codes[outside][0].item()}"
        )
    kept = torch.uint8 if least == 0 else torch.int8
    codes = torch.nn.functional.pad(codes.to(kept).view(torch.uint8), (0, codes.shape[-1] % 2))
    return (codes[..., ::2] & 15 | codes[..., 1::2] << 4).view(kept)


def unpack(packed: Tensor, width: int) -> Tensor:
    """The codes again, [..., ceil(width / 2)] -> [..., width], of the type of ``packed``."""
    if not isinstance(packed, Tensor) or packed.dtype not in (torch.int8, torch.uint8):
        kind = packed.dtype if isinstance(packed, Tensor) else type(packed).__name__
        raise TypeError(f"packed must be an int8 or uint8 tensor, got {kind}")
    if width < 0 or packed.ndim < 1 or packed.shape[-1] != (width + 1) // 2:
        raise ValueError(
            f"width {width} needs {(width + 1) // 2} bytes in a row, got shape {list(packed.shape)}"
        )
    # Shifting right again copies the sign of int8, and zeros into uint8.
    pairs = torch.stack([packed << 4 >> 4, packed >> 4], -1)
    return pairs.flatten(-2)[..., :width]
