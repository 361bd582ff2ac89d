"""Masks that are a rule on positions and hold nothing but numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from .algebra import Mask, verdict
from .fields import keep, whole


@dataclass(frozen=True, eq=False, repr=False)
class Full(Mask):
    """Everyone sees everyone."""

    relative: ClassVar[bool] = True

    def __call__(self, i, j):
        return (i == i) & (j == j)

    def over(self, i0, i1, j0, j1):
        return verdict((i0 == i0) & (j0 == j0), True)


@dataclass(frozen=True, eq=False, repr=False)
class Causal(Mask):
    """No looking at the future: ``j <= i``."""

    relative: ClassVar[bool] = True

    def __call__(self, i, j):
        return j <= i

    def over(self, i0, i1, j0, j1):
        return verdict(j0 <= i1, j1 <= i0)


@dataclass(frozen=True, eq=False, repr=False)
class Window(Mask):
    """Closer than ``size`` positions, on either side: ``abs(i - j) < size``.

    ``Causal() & Window(w)`` sees w keys, the query's own included (Mistral's count, arXiv
    2310.06825).
    """

    size: Any
    relative: ClassVar[bool] = True

    def __post_init__(self):
        keep(self, size=whole(self.size, "Window: size", 1))

    def __call__(self, i, j):
        return abs(i - j) < self.size

    def over(self, i0, i1, j0, j1):
        low, high = i0 - j1, i1 - j0  # the range of i - j
        some = (low < self.size) & (high > -self.size)
        return verdict(some, (high < self.size) & (low > -self.size))


@dataclass(frozen=True, eq=False, repr=False)
class Prefix(Mask):
    """Everyone sees the first ``length`` keys; a prefix mask is ``Causal() | Prefix(n)``."""

    length: Any

    def __post_init__(self):
        keep(self, length=whole(self.length, "Prefix: length", 0))

    def __call__(self, i, j):
        return (j < self.length) & (i == i)

    def over(self, i0, i1, j0, j1):
        return verdict((j0 < self.length) & (i0 == i0), j1 < self.length)


@dataclass(frozen=True, eq=False, repr=False)
class Global(Mask):
    """The first ``n`` positions see all and are seen by all.

    Longformer is ``Window(w) | Global(g)`` (arXiv 2004.05150).
    """

    n: Any

    def __post_init__(self):
        keep(self, n=whole(self.n, "Global: n", 0))

    def __call__(self, i, j):
        return (i < self.n) | (j < self.n)

    def over(self, i0, i1, j0, j1):
        return verdict((i0 < self.n) | (j0 < self.n), (i1 < self.n) | (j1 < self.n))


@dataclass(frozen=True, eq=False, repr=False)
class Dilated(Mask):
    """Every ``step``-th key, counted from the query: nearly every tile is PARTIAL, so tiles do not
    make it fast."""

    step: Any
    relative: ClassVar[bool] = True

    def __post_init__(self):
        keep(self, step=whole(self.step, "Dilated: step", 1))

    def __call__(self, i, j):
        return (i - j) % self.step == 0

    def over(self, i0, i1, j0, j1):
        low, high = i0 - j1, i1 - j0
        some = high - high % self.step >= low
        return verdict(some, some & ((low == high) | (self.step == 1)))


@dataclass(frozen=True, eq=False, repr=False)
class Chunked(Mask):
    """Keys of the query's own chunk of ``size`` positions."""

    size: Any

    def __post_init__(self):
        keep(self, size=whole(self.size, "Chunked: size", 1))

    def __call__(self, i, j):
        return i // self.size == j // self.size

    def over(self, i0, i1, j0, j1):
        i0, i1, j0, j1 = (x // self.size for x in (i0, i1, j0, j1))
        return verdict((i0 <= j1) & (j0 <= i1), (i0 == i1) & (j0 == j1) & (i0 == j0))
