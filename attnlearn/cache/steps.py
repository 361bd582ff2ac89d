"""Where the tokens of one call stand: every row of a batch has a length of its own."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from ..masks import Mask
from ..masks.fields import plain


@dataclass(frozen=True, eq=False)
class Step:
    """T columns of tokens that follow ``lengths`` [B] tokens; ``real`` [B, T] or None: all are."""

    lengths: np.ndarray
    T: int
    real: np.ndarray | None
    first: np.ndarray = field(init=False)  # [B] position of a row's first column
    counts: np.ndarray = field(init=False)  # [B] real tokens
    totals: np.ndarray = field(init=False)  # [B] lengths afterwards

    def __post_init__(self):
        counts, before = np.full_like(self.lengths, self.T), 0
        if self.real is not None:
            counts = self.real.sum(-1)
            before = np.where(counts > 0, (self.real.cumsum(-1) == 0).sum(-1), 0)
        values = {"first": self.lengths - before, "counts": counts}
        for name, value in (values | {"totals": self.lengths + counts}).items():
            object.__setattr__(self, name, value)

    @cached_property
    def alike(self) -> bool:
        """Is the step the same for every row: no padding, and one length?"""
        return self.real is None and (self.lengths == self.lengths[:1]).all()

    @cached_property
    def columns(self) -> np.ndarray:
        """The position of each column, [B, T]; those before the first token are negative."""
        return self.first[:, None] + np.arange(self.T)

    @cached_property
    def at(self) -> np.ndarray:
        """The position of each token, [B, T]; -1 on padding."""
        return self.columns if self.real is None else np.where(self.real, self.columns, -1)

    @cached_property
    def longest(self) -> int:
        """Tokens of the longest row afterwards."""
        return int(self.totals.max(initial=0))

    @property
    def inside(self) -> np.ndarray:
        """The position of each column, [B, T]; padding stands at the nearest real token."""
        last = np.maximum(self.totals - 1, 0)
        return np.clip(self.columns, np.minimum(self.lengths, last)[:, None], last[:, None])

    @property
    def key(self) -> tuple:
        """Equal for equal steps."""
        return self.T, self.lengths.tobytes(), None if self.real is None else self.real.tobytes()

    def check(self, mask: Mask) -> None:
        """Raise ValueError if an array in ``mask`` does not cover every query and key."""
        mask.check(self.T, self.longest)
        first = self.lengths[self.counts > 0].min(initial=self.longest)
        try:
            mask.check(self.longest - first, self.longest)
        except ValueError as error:
            raise ValueError(
                f"{error}: rows have unlike lengths here, and one goes on at position {first}; "
                "Dense needs a row for each position from there"
            ) from error

    def place(self, mask: Mask, S: int) -> Mask:
        """``mask`` for queries of these positions among S keys; by itself the last meet there."""
        n = self.first - (S - self.T)
        if self.alike:
            n = int(n[0]) if len(n) else 0
            return mask.shift(n) if n else mask
        return mask.shift(n)


def checked_real(real, B: int, T: int) -> np.ndarray | None:
    """``real`` as an array [B, T], None where all tokens are; the real ones stand together."""
    if real is None:
        return None
    real = plain(real)
    if real.dtype != bool:
        raise TypeError(
            f"real must be boolean, True on real tokens, got {real.dtype}; for a mask of 0 and 1 "
            "write real == 1"
        )
    if real.shape != (B, T):
        raise ValueError(f"real must be [B, T] = [{B}, {T}], got {list(real.shape)}")
    starts = real & ~np.pad(real, ((0, 0), (1, 0)))[:, :T]
    if (torn := starts.sum(-1) > 1).any():
        raise ValueError(
            f"real: the real tokens of row {torn.argmax()} must stand together, with padding to "
            "their left or right only"
        )
    return None if real.all() else real
