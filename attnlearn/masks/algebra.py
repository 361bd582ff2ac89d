"""The base class, ``& | ~`` and ``shift``: everything about masks but the masks themselves."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np

from .fields import (
    brief,
    contents,
    converted,
    frozen,
    identity,
    keep,
    parts,
    positions,
    single,
    whole,
)

EMPTY, PARTIAL, FULL = 0, 1, 2


@dataclass(frozen=True, eq=False, repr=False)
class Mask:
    """A predicate on positions; subclasses are frozen dataclasses that define ``__call__``."""

    __array_ufunc__ = None  # an array to the left of & or | must not try to combine elementwise
    relative: ClassVar[bool] = False  # does the answer depend on i - j alone?

    def __init_subclass__(cls, **options):
        super().__init_subclass__(**options)
        if "__call__" in vars(cls) and "relative" not in vars(cls):
            cls.relative = False  # another rule: what its parent says of itself need not hold

    def __call__(self, i: Any, j: Any) -> Any:
        """May the query at ``i`` see the key at ``j``? Numbers, or arrays [T, 1] and [1, S]."""
        raise NotImplementedError(f"{type(self).__name__} does not define __call__(i, j)")

    def over(self, i0, i1, j0, j1) -> np.ndarray:
        """EMPTY, PARTIAL or FULL over queries i0..i1 and keys j0..j1, ends included, per tile.

        PARTIAL means "unsure", so it is always a sound answer, and the one given here.
        """
        return np.full(np.broadcast_shapes(np.shape(i0), np.shape(j0)), PARTIAL, np.int8)

    def dense(self, T: int, S: int) -> np.ndarray:
        """The matrix, bool [..., T, S]; the last query stands at the last key."""
        i, j, lead = self._asked(T, S)
        return np.broadcast_to(self(i, j), (*lead, T, S))

    def blocks(self, T: int, S: int, bq: int, bk: int) -> np.ndarray:
        """EMPTY, PARTIAL or FULL for each tile of bq x bk: int8 [..., ceil(T/bq), ceil(S/bk)]."""
        i, j, lead = self._asked(T, S)
        bq, bk = single(bq, "bq", 1), single(bk, "bk", 1)
        i0, j0 = i[::bq], j[:, ::bk]
        kind = self.over(i0, np.minimum(i0 + bq, S) - 1, j0, np.minimum(j0 + bk, S) - 1)
        return np.broadcast_to(kind, (*lead, len(i0), j0.shape[1])).astype(np.int8)

    def _asked(self, T: int, S: int) -> tuple[np.ndarray, np.ndarray, tuple[int, ...]]:
        """Positions [T, 1] and [1, S] and leading axes, once all is known to fit together."""
        i, j = positions(T, S)
        self.check(T, S)
        return i, j, self.spread()

    def spread(self) -> tuple[int, ...]:
        """[B or 1, H or 1] for a mask that differs per example or head, otherwise nothing."""
        i, j = np.zeros((0, 1), int), np.zeros((1, 0), int)
        try:
            seen = self(i, j)
        except ValueError as error:
            raise ValueError(f"the parts of {self!r} do not fit together: {error}") from error
        if not isinstance(seen, np.ndarray) or seen.dtype.kind != "b" or seen.ndim < 2:
            raise TypeError(f"{self!r} must answer with a boolean array, got {seen!r}")
        return seen.shape[:-2]

    def reach(self, T: int, S: int) -> tuple[np.ndarray, np.ndarray]:
        """Which queries see some key, and which keys some query sees: bool [..., T], [..., S]."""
        i, j = positions(T, S)
        size = 128
        kind = self.blocks(T, S, size, size)
        queries = np.repeat((kind == FULL).any(-1), size, axis=-1)[..., :T]
        keys = np.repeat((kind == FULL).any(-2), size, axis=-1)[..., :S]
        unsure = (kind == PARTIAL).any(tuple(range(kind.ndim - 2)))
        for a, b in np.argwhere(unsure) * size:
            rows, cols = slice(a, a + size), slice(b, b + size)
            if queries[..., rows].all() and keys[..., cols].all():
                continue
            seen = self(i[rows], j[:, cols])
            queries[..., rows] |= seen.any(-1)
            keys[..., cols] |= seen.any(-2)
        return queries, keys

    def shift(self, n) -> Mask:
        """For queries that stand ``n`` positions later; n is one number, or one per example."""
        return Shift(self, n)

    def gather(self, at) -> Mask:
        """For keys out of order: slot j holds the key of position at[j]; -1 is an empty slot."""
        from .arrays import Gather  # it needs this module

        return Gather(self, at)

    def check(self, T: int, S: int) -> None:
        """Raise ValueError when an array that the mask holds does not fit T queries and S keys."""
        for part in parts(self):
            part.check(T, S)

    def convert(self, f) -> Mask:
        """The same mask with ``f`` applied to every array it holds (to move them to torch)."""
        twin = object.__new__(type(self))
        keep(twin, **{name: converted(value, f) for name, value in contents(self).items()})
        return twin

    def __and__(self, other: Mask) -> Mask:
        return And(self, a_mask(other, "&"))

    def __or__(self, other: Mask) -> Mask:
        return Or(self, a_mask(other, "|"))

    def __invert__(self) -> Mask:
        return Not(self)

    def __bool__(self) -> bool:
        raise TypeError(
            "a mask is neither true nor false: combine with & | ~, not with and, or, not"
        )

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and identity(self) == identity(other)

    def __hash__(self) -> int:
        return hash(identity(self))

    def __repr__(self) -> str:
        derived = {f.name for f in fields(self) if not f.repr}
        shown = (brief(value) for name, value in contents(self).items() if name not in derived)
        return f"{type(self).__name__}({', '.join(shown)})"

    def __getstate__(self):
        return contents(self)

    def __setstate__(self, state):
        keep(self, **{name: converted(value, frozen) for name, value in state.items()})


def made_of_relative(mask: Mask) -> bool:
    """Does the answer of every part depend on i - j alone?"""
    return all(part.relative for part in parts(mask))


@dataclass(frozen=True, eq=False, repr=False)
class And(Mask):
    """Both."""

    a: Mask
    b: Mask
    relative = property(made_of_relative)

    def __call__(self, i, j):
        return self.a(i, j) & self.b(i, j)

    def over(self, *tile):
        return np.minimum(self.a.over(*tile), self.b.over(*tile))

    def __repr__(self):
        return " & ".join(f"({m!r})" if isinstance(m, Or) else repr(m) for m in (self.a, self.b))


@dataclass(frozen=True, eq=False, repr=False)
class Or(Mask):
    """Either, or both."""

    a: Mask
    b: Mask
    relative = property(made_of_relative)

    def __call__(self, i, j):
        return self.a(i, j) | self.b(i, j)

    def over(self, *tile):
        return np.maximum(self.a.over(*tile), self.b.over(*tile))

    def __repr__(self):
        return f"{self.a!r} | {self.b!r}"


@dataclass(frozen=True, eq=False, repr=False)
class Not(Mask):
    """The opposite."""

    a: Mask
    relative = property(made_of_relative)

    def __call__(self, i, j):
        return self.a(i, j) ^ True  # ~True is -2 when i and j are plain integers

    def over(self, *tile):
        return FULL - self.a.over(*tile)

    def __repr__(self):
        return f"~({self.a!r})" if isinstance(self.a, And | Or) else f"~{self.a!r}"


@dataclass(frozen=True, eq=False, repr=False)
class Shift(Mask):
    """``a`` asked for queries that stand ``n`` positions later."""

    a: Mask
    n: Any
    relative = property(made_of_relative)

    def __post_init__(self):
        keep(self, n=whole(self.n, "shift: n", None))

    def __call__(self, i, j):
        return self.a(i + self.n, j)

    def over(self, i0, i1, j0, j1):
        return self.a.over(i0 + self.n, i1 + self.n, j0, j1)

    def __repr__(self):
        inner = f"({self.a!r})" if isinstance(self.a, And | Or | Not) else repr(self.a)
        return f"{inner}.shift({brief(self.n)})"


def verdict(some, every) -> np.ndarray:
    """EMPTY where not even some pair is seen, FULL where every pair is, PARTIAL between."""
    return np.add(some, every, dtype=np.int8)


def a_mask(value, operator: str) -> Mask:
    """``value`` itself if it is a mask; otherwise say what to do."""
    if not isinstance(value, Mask):
        raise TypeError(
            f"a mask {operator} {type(value).__name__}: both sides must be masks; "
            "put a boolean matrix into Dense(array)"
        )
    return value
