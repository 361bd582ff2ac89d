"""Real numbers as small integers: a group of numbers shares one scale.

A scale is the step between two neighbouring codes, so what comes back is at most half a step off:

    symmetric     x ≈ code · scale             codes -127..127 or -7..7, 0 stays 0
    asymmetric    x ≈ code · scale + zero      codes 0..255 or 0..15, zero is what code 0 means

All of this is as if done in float64, as neither the range of a group nor a code times a step need
fit the dtype of x.
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral

import torch
from torch import Tensor

from .nibbles import pack, unpack

FLOATS = torch.float16, torch.bfloat16, torch.float32, torch.float64
# What the rows and columns of a group are, for x of n rows and d columns.
GROUPS = {
    "tensor": lambda n, d, block: (n, d),
    "token": lambda n, d, block: (1, d),
    "channel": lambda n, d, block: (n, 1),
    "block": lambda n, d, block: (block, d),
}


@dataclass(frozen=True, eq=False)
class Quantized:
    """Integers [..., n, d] and what they stand for; INT4 lies packed, two codes to a byte."""

    codes: Tensor  # int8, or uint8 where there is a zero: [..., n, d], INT4 [..., n, ceil(d / 2)]
    scale: Tensor  # [..., groups of rows, groups of columns]
    zero: Tensor | None  # like scale; None where the codes are symmetric
    bits: int
    group: tuple[int, int]  # rows and columns that share a scale
    width: int  # d
    dtype: torch.dtype  # what dequantize gives

    @property
    def shape(self) -> torch.Size:
        return torch.Size((*self.codes.shape[:-1], self.width))

    @property
    def nbytes(self) -> int:
        """Bytes of codes, scales and zeros."""
        return sum(x.nbytes for x in (self.codes, self.scale, self.zero) if x is not None)

    def integers(self) -> Tensor:
        """The codes, one to a byte: int8, or uint8 where there is a zero, [..., n, d]."""
        return self.codes if self.bits == 8 else unpack(self.codes, self.width)

    def by_token(self) -> Tensor:
        """The scale of every row, [..., n]; ValueError where a row has several."""
        if self.group[1] < self.width:
            raise ValueError(f"a row has a scale for every {self.group[1]} of its numbers")
        return spread(self.scale, self.group, self.shape)[..., 0].expand(self.shape[:-1])

    def dequantize(self) -> Tensor:
        """What the codes stand for, [..., n, d]."""
        # A code times a float16 has 19 bits, so float32 rounds once, in the sum, as float64 does.
        narrow = self.scale.dtype == torch.float16 and self.dtype == torch.float32
        wide = torch.float32 if narrow else torch.float64
        x = self.integers().to(wide) * spread(self.scale.to(wide), self.group, self.shape)
        if self.zero is not None:
            x += spread(self.zero.to(wide), self.group, self.shape)
        return within(x, self.dtype)


def quantize(
    x: Tensor,
    bits: int = 8,
    *,
    per: str | tuple[int, int] = "token",
    block: int = 64,
    symmetric: bool = True,
    dtype: torch.dtype = torch.float32,
) -> Quantized:
    """x as integers of 8 or 4 bits with one scale per group, at most half a step off.

    x [..., n, d], a float tensor. ``per``: "tensor" (one scale for n x d), "token" (per row),
    "channel" (per column), "block" (per ``block`` rows), or the (rows, columns) of a group; the
    last group of a row or column may be smaller. ``dtype``: of scales and zeros, which are rounded
    so that no number is clipped. A constant group comes back exactly if ``dtype`` holds it.

    Raises ValueError for NaN and infinities, for a group whose scale does not fit ``dtype``, and
    for what has a gradient: rounding has none. Sources: arXiv 1712.05877, 2402.02750.
    """
    check(x, bits, dtype)
    group = checked_group(per, block, *x.shape[-2:])
    low, high = ranges(x, group)
    if symmetric:
        zero, first, last = None, 1 - 2 ** (bits - 1), 2 ** (bits - 1) - 1
        reach = torch.maximum(high, -low)
        # A constant c is 1 or -1 times itself; c / 127 times 127 may be rounded.
        whole = (low == high) & (reach.to(dtype).double() == reach)
        scale = up(reach, dtype, torch.where(whole, 1, last))
    else:
        first, last = 0, 2**bits - 1
        zero = -up(-low, dtype)
        scale = up(high - zero.double(), dtype, last)
    scale = torch.where(scale == 0, 1, scale)
    check_scale(x, scale, zero)
    codes = x.double()
    if zero is not None:
        codes = codes - spread(zero.double(), group, x.shape)
    codes = codes / spread(scale.double(), group, x.shape)
    codes = codes.round_().clamp_(first, last).to(torch.int8 if symmetric else torch.uint8)
    codes = codes if bits == 8 else pack(codes)
    return Quantized(codes, scale, zero, bits, group, x.shape[-1], x.dtype)


def ranges(x: Tensor, group: tuple[int, int]) -> tuple[Tensor, Tensor]:
    """The least and the largest number of every group, float64."""
    (rows, cols), lead, (n, d) = group, x.shape[:-2], x.shape[-2:]
    down, across = -(-n // rows), -(-d // cols)
    # A smaller last group repeats its last row or column, which leaves its range as it is.
    i = torch.arange(down * rows, device=x.device).clamp_(max=n - 1)
    j = torch.arange(across * cols, device=x.device).clamp_(max=d - 1)
    x = x if len(i) == n else x[..., i, :]
    x = x if len(j) == d else x[..., j]
    x = x.reshape(*lead, down, rows, across, cols)
    return x.amin((-3, -1)).double(), x.amax((-3, -1)).double()


def spread(x: Tensor, group: tuple[int, int], shape: torch.Size) -> Tensor:
    """One number per group as one number per element, or as what broadcasts to that."""
    for axis, size in zip((-2, -1), group, strict=True):
        if x.shape[axis] != 1 and size != 1:
            x = x.repeat_interleave(size, axis).narrow(axis, 0, shape[axis])
    return x


def up(x: Tensor, dtype: torch.dtype, steps: int | Tensor = 1) -> Tensor:
    """The size of so many steps that reach x, float64, in a dtype: too small a step would clip."""
    y = (x / steps).to(dtype)
    return torch.where(y.double() * steps < x, y.nextafter(torch.full_like(y, torch.inf)), y)


def within(x: Tensor, dtype: torch.dtype) -> Tensor:
    """Float64 as another dtype, whose largest number stays one: rounding makes no infinity."""
    largest = torch.finfo(dtype).max
    return x.clamp(-largest, largest).to(dtype)


def check(x: Tensor, bits: int, dtype: torch.dtype) -> None:
    """Raise unless x can be quantised."""
    check_rows("x", x)
    if bits not in (4, 8):
        raise ValueError(f"bits must be 8 or 4, got {bits!r}")
    if dtype not in FLOATS:
        raise TypeError(f"dtype, of the scales, must be a float dtype, got {dtype}")
    check_no_gradient("x", x)
    check_finite("x", x)


def check_rows(name: str, x: Tensor) -> None:
    if not isinstance(x, Tensor) or x.dtype not in FLOATS:
        kind = x.dtype if isinstance(x, Tensor) else type(x).__name__
        raise TypeError(f"{name} must be a float tensor, got {kind}")
    if x.ndim < 2:
        raise ValueError(f"{name} must have the axes [..., n, d], got shape {list(x.shape)}")


def check_no_gradient(name: str, x: Tensor) -> None:
    if torch.is_grad_enabled() and x.requires_grad:
        raise ValueError(
            f"{name} requires grad, and rounding has no gradient: quantise under torch.no_grad(), "
            f"or pass {name}.detach()"
        )


def check_finite(name: str, x: Tensor) -> None:
    finite = x.isfinite()
    if not finite.all():
        bad = (~finite).nonzero()
        raise ValueError(
            f"{name} holds {len(bad)} numbers that are NaN or infinite, the first at "
            f"{bad[0].tolist()}: they have no code, and would spoil the scale of their group"
        )


def check_scale(x: Tensor, scale: Tensor, zero: Tensor | None) -> None:
    if not all(part.isfinite().all() for part in (scale, zero) if part is not None):
        raise ValueError(
            f"the scale of numbers up to {x.abs().max().item():g} does not fit {scale.dtype}, "
            f"whose largest is {torch.finfo(scale.dtype).max:g}: give a wider dtype, or smaller "
            "numbers"
        )


def checked_group(per, block: int, n: int, d: int) -> tuple[int, int]:
    """Rows and columns of a group: whole numbers, and no more than there are."""
    if isinstance(per, str) and per in GROUPS:
        wanted = GROUPS[per](max(n, 1), max(d, 1), block)
    elif isinstance(per, tuple) and len(per) == 2:
        wanted = per
    else:
        raise ValueError(
            f"per must be one of {', '.join(GROUPS)}, or a tuple (rows, columns), got {per!r}"
        )
    if not all(isinstance(size, Integral) and size >= 1 for size in wanted):
        raise ValueError(
            "a group must be whole numbers, at least 1 row and 1 column, "
            f"got {wanted} (per={per!r})"
        )
    return min(int(wanted[0]), max(n, 1)), min(int(wanted[1]), max(d, 1))
