"""Masks that hold arrays. Positions outside the array see nothing and are seen by nobody."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .algebra import PARTIAL, Mask, verdict
from .fields import FARTHEST, frozen, keep, plain, single


@dataclass(frozen=True, eq=False, repr=False)
class Dense(Mask):
    """One boolean matrix, [T, S] or [B or 1, H or 1, T, S]; its last row is the last query."""

    array: Any
    lead: Any = field(init=False, repr=False)  # indices of examples and heads, to look up with

    def __post_init__(self):
        array = plain(self.array)
        if array.dtype.kind != "b":
            kind = getattr(self.array, "dtype", array.dtype)
            raise TypeError(
                f"a mask array must be boolean (True: may see), got {kind}: PyTorch would "
                "add numbers to the scores, so 0 and 1 hide nothing. Write array == 1 if 1 means "
                "see, array == 0 if it holds 0 and -inf"
            )
        if array.ndim not in (2, 4):
            raise ValueError(
                f"Dense: array must be [T, S] or [B or 1, H or 1, T, S], got shape {array.shape}; "
                "a third axis could mean examples or heads"
            )
        keep(self, array=frozen(array), lead=leading(array.shape[:-2]))

    def __call__(self, i, j):
        T, S = self.array.shape[-2:]
        i = i + (T - S)
        inside = (i >= 0) & (i < T) & (j >= 0) & (j < S)
        return self.array[(*self.lead, i * inside, j * inside)] & inside

    def over(self, i0, i1, j0, j1):
        """Exact: the sums over rectangles come from one table of running sums."""
        T, S = self.array.shape[-2:]
        sums = self.sums()
        top, bottom = np.clip(i0 + (T - S), 0, T), np.clip(i1 + (T - S) + 1, 0, T)
        left, right = np.clip(j0, 0, S), np.clip(j1 + 1, 0, S)

        def at(i, j):
            return sums[(*self.lead, i, j)]

        seen = at(bottom, right) - at(top, right) - at(bottom, left) + at(top, left)
        return verdict(seen > 0, seen == (i1 - i0 + 1) * (j1 - j0 + 1))

    def sums(self):
        """How many are seen above and to the left of each corner; made once, and remembered."""
        if "_sums" not in vars(self):
            T, S = self.array.shape[-2:]
            sums = np.zeros((*self.array.shape[:-2], T + 1, S + 1), np.int64)
            np.cumsum(self.array, axis=-2, out=sums[..., 1:, 1:])
            np.cumsum(sums, axis=-1, out=sums)
            vars(self)["_sums"] = sums
        return vars(self)["_sums"]

    def reach(self, T, S):
        seen = self.dense(T, S)
        return seen.any(-1), seen.any(-2)

    def check(self, T, S):
        rows, cols = self.array.shape[-2:]
        if T > rows or S != cols:
            raise ValueError(
                f"mask Dense holds a [{rows}, {cols}] matrix, got {T} queries, {S} keys"
            )


@dataclass(frozen=True, eq=False, repr=False)
class Document(Mask):
    """Keys of the query's own document: ``ids[i] == ids[j]``, ids [S] or, per example, [B, S]."""

    ids: Any
    lead: Any = field(init=False, repr=False)

    def __post_init__(self):
        ids = plain(self.ids)
        if ids.dtype.kind not in "iub":
            raise TypeError(f"Document: ids must be whole numbers, got {ids.dtype}")
        if ids.ndim not in (1, 2):
            raise ValueError(f"Document: ids must be [S], or [B, S], got shape {ids.shape}")
        if ids.shape[-1] == 0:
            raise ValueError("Document: ids must name the document of at least one position")
        keep(self, ids=frozen(ids.astype(np.int64)), lead=leading(ids.shape[:-1]))

    def __call__(self, i, j):
        here, there = self.inside(i), self.inside(j)
        query, key = self.ids[(*self.lead, i * here)], self.ids[(*self.lead, j * there)]
        return (query == key) & here & there

    def inside(self, p):
        return (p >= 0) & (p < self.ids.shape[-1])

    def over(self, i0, i1, j0, j1):
        """By runs of equal ids: exact when no document is torn apart, unsure when one is."""
        change = np.diff(self.ids, axis=-1, prepend=self.ids[..., :1]) != 0
        run = change.cumsum(-1)
        last = run.shape[-1] - 1
        a, b, c, d = (run[(*self.lead, np.clip(p, 0, last))] for p in (i0, i1, j0, j1))
        some = ((a <= d) & (c <= b) | torn(self.ids, run)) & (i1 >= 0) & (i0 <= last)
        every = (a == b) & (c == d) & (a == c) & self.inside(i0) & self.inside(i1)
        return verdict(some, every)

    def check(self, T, S):
        if S > self.ids.shape[-1]:
            raise ValueError(f"mask Document holds {self.ids.shape[-1]} ids, got {S} keys")


@dataclass(frozen=True, eq=False, repr=False)
class RandomBlocks(Mask):
    """Each block of queries sees ``per_row`` blocks of keys, drawn at random: BigBird's third part
    (arXiv 2007.14062). ``seed`` is one number, or one per head."""

    block: int
    per_row: int
    seed: Any
    length: int
    table: Dense = field(init=False, repr=False)

    def __post_init__(self):
        block, length = (
            single(getattr(self, name), f"RandomBlocks: {name}", 1) for name in ("block", "length")
        )
        per_row = single(self.per_row, "RandomBlocks: per_row", 0)
        n = -(-length // block)
        if per_row > n:
            raise ValueError(f"RandomBlocks: per_row must be at most {n} blocks, got {per_row}")
        seeds = plain(self.seed)
        if seeds.dtype.kind not in "iu" or seeds.ndim > 1:
            raise TypeError(
                f"RandomBlocks: seed must be one number or one per head, got {self.seed!r}"
            )
        if ((seeds < 0) | (seeds >= 2**32)).any():
            raise ValueError(f"RandomBlocks: seed must be from 0 to 2**32 - 1, got {self.seed!r}")
        drawn = np.stack([draw(n, per_row, seed) for seed in seeds.reshape(-1)])
        table = Dense(drawn[None] if seeds.ndim else drawn[0])
        seed = tuple(seeds.tolist()) if seeds.ndim else int(seeds)
        keep(self, block=block, per_row=per_row, length=length, seed=seed, table=table)

    def __call__(self, i, j):
        inside = (i < self.length) & (j < self.length)
        return self.table(i // self.block, j // self.block) & inside

    def over(self, i0, i1, j0, j1):
        kind = self.table.over(*(x // self.block for x in (i0, i1, j0, j1)))
        inside = (i1 < self.length) & (j1 < self.length)
        return np.where(inside, kind, np.minimum(kind, PARTIAL))

    def check(self, T, S):
        if S > self.length:
            raise ValueError(f"mask RandomBlocks covers {self.length} positions, got {S} keys")


@dataclass(frozen=True, eq=False, repr=False)
class Gather(Mask):
    """``a`` asked about keys out of order: slot j holds the key of position ``at[j]``.

    at [S] or, per example, [B, S]; -1 is an empty slot, which nobody sees.
    """

    a: Mask
    at: Any
    lead: Any = field(init=False, repr=False)

    def __post_init__(self):
        at = plain(self.at)
        if at.dtype.kind not in "iu":
            raise TypeError(f"gather: at must be whole numbers, got {at.dtype}")
        if at.ndim not in (1, 2):
            raise ValueError(f"gather: at must be [S], or [B, S], got shape {at.shape}")
        if ((at < -1) | (at > FARTHEST)).any():
            raise ValueError("gather: at must hold positions, or -1 where there is no key")
        keep(self, at=frozen(at.astype(np.int64)), lead=leading(at.shape[:-1]))

    def __call__(self, i, j):
        inside = (j >= 0) & (j < self.at.shape[-1])
        p = self.at[(*self.lead, j * inside)]
        return self.a(i, p) & (p >= 0) & inside

    def over(self, i0, i1, j0, j1):
        """From the first to the last position in the slots of a tile."""
        if np.ndim(j0) > 2:  # gathered twice: other slots for each example
            return super().over(i0, i1, j0, j1)
        first, last, gaps = self.span(j0, j1 + 1)
        kind = self.a.over(i0, i1, np.minimum(first, last), last)
        return np.where(gaps, np.minimum(kind, PARTIAL), kind) * (last >= 0)

    def span(self, start, stop):
        """The least and the largest position in slots start..stop - 1, and if some have none."""
        n = self.at.shape[-1]
        at = np.concatenate([self.at, np.full((*self.at.shape[:-1], 1), -1)], -1)
        ends = np.stack(np.broadcast_arrays(start, stop), -1)
        lead = (len(self.at), 1) if self.lead else ()

        def reduced(f, at):
            found = f.reduceat(at, np.clip(ends, 0, n).ravel(), axis=-1)[..., ::2]
            return found.reshape(*lead, *ends.shape[:-1])

        first = reduced(np.minimum, np.where(at < 0, FARTHEST, at))
        gaps = (reduced(np.minimum, at) < 0) | (start < 0) | (stop > n)
        return first, reduced(np.maximum, at), gaps

    def check(self, T, S):
        if S > self.at.shape[-1]:
            raise ValueError(f"mask Gather holds {self.at.shape[-1]} positions, got {S} keys")
        self.a.check(T, int(self.at[..., :S].max(initial=-1)) + 1)


def leading(shape: tuple[int, ...]) -> tuple[np.ndarray, ...]:
    """Index arrays [B, 1, 1, 1] and [1, H, 1, 1] that pick every example and head."""
    grid = ((1,) * axis + (-1,) + (1,) * (3 - axis) for axis in range(len(shape)))
    return tuple(frozen(np.arange(n).reshape(view)) for n, view in zip(shape, grid, strict=True))


def torn(ids: np.ndarray, run: np.ndarray) -> np.ndarray:
    """Does some id come back after another: bool, with one entry per example [B, 1, 1, 1]."""
    rows = zip(ids.reshape(-1, ids.shape[-1]), run.reshape(-1, run.shape[-1]), strict=True)
    answer = np.array([len(np.unique(i)) <= r.max(initial=-1) for i, r in rows])
    return answer.reshape(-1, 1, 1, 1) if ids.ndim == 2 else answer[0]


def draw(n: int, per_row: int, seed: int) -> np.ndarray:
    """Bool [n, n] with ``per_row`` True in each row; RandomState's stream never changes."""
    order = np.random.RandomState(seed).rand(n, n).argsort(-1)
    table = np.zeros((n, n), bool)
    np.put_along_axis(table, order[:, :per_row], True, axis=-1)
    return table
