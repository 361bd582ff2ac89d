"""One mask for each example of a batch, or for each head."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import reduce
from typing import Any, ClassVar

import numpy as np

from .algebra import Mask, made_of_relative
from .fields import frozen, keep, plain
from .rules import Prefix


@dataclass(frozen=True, eq=False, repr=False)
class PerExample(Mask):
    """``masks[b]`` for example b."""

    masks: tuple[Mask, ...]
    which: Any = field(init=False, repr=False)
    axes: ClassVar[tuple[int, ...]] = (-1, 1, 1, 1)
    relative = property(made_of_relative)

    def __post_init__(self):
        masks = self.masks
        some = isinstance(masks, list | tuple) and len(masks)
        if not some or not all(isinstance(m, Mask) for m in masks):
            raise TypeError(f"{type(self).__name__}: masks must be a list of masks, got {masks!r}")
        keep(self, masks=tuple(masks), which=frozen(np.arange(len(masks)).reshape(self.axes)))

    def __call__(self, i, j):
        mine = ((self.which == n) & m(i, j) for n, m in enumerate(self.masks))
        return reduce(lambda a, b: a | b, mine)

    def over(self, *tile):
        mine = ((self.which == n) * m.over(*tile) for n, m in enumerate(self.masks))
        return reduce(np.maximum, mine).astype(np.int8)


@dataclass(frozen=True, eq=False, repr=False)
class PerHead(PerExample):
    """``masks[h]`` for query head h."""

    axes: ClassVar[tuple[int, ...]] = (1, -1, 1, 1)


def padding(lengths) -> Prefix:
    """Example b holds ``lengths[b]`` real tokens, then padding: hides the padding as keys.

    lengths [B] -> a mask that answers [B, 1, T, S]. Padded queries are left alone: they read
    garbage that nobody reads, and a loss must skip them anyway.
    """
    if np.ndim(plain(lengths)) != 1:
        raise ValueError(f"padding: lengths must hold one number per example [B], got {lengths!r}")
    return Prefix(lengths)
