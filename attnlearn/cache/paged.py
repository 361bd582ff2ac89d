"""The paged cache: memory in blocks, handed out as rows grow, and shared by equal beginnings."""

from __future__ import annotations

from collections import Counter

import numpy as np
import torch

from ..masks.fields import frozen, single
from .base import Cache


class Blocks:
    """Which blocks of a pool of ``n`` are free, and how many hold each of the others."""

    def __init__(self, n: int):
        self.holders = [0] * single(n, "blocks", 0)
        self.unused = list(reversed(range(len(self.holders))))

    @property
    def used(self) -> int:
        return len(self.holders) - len(self.unused)

    def take(self) -> int:
        """A free block, held once."""
        if not self.unused:
            raise ValueError(f"all {len(self.holders)} blocks are in use: free some, or make more")
        block = self.unused.pop()
        self.holders[block] = 1
        return block

    def share(self, block: int) -> int:
        """One more holds the block."""
        self.check(block)
        self.holders[block] += 1
        return block

    def free(self, block: int) -> None:
        """One fewer holds the block; the last one gives it back."""
        self.check(block)
        self.holders[block] -= 1
        if self.holders[block] == 0:
            self.unused.append(block)

    def check(self, block: int) -> None:
        n = single(block, "block", 0)
        if n >= len(self.holders):
            raise ValueError(f"block {n} is unknown: there are {len(self.holders)}, from 0")
        if self.holders[n] == 0:
            raise ValueError(f"block {n} is free already")


class PagedCache(Cache):
    """A pool of ``blocks`` blocks of ``block`` tokens, and for each row a table of those it holds.

    A row wastes less than one block. Rows with a common beginning share its blocks (``share``);
    who writes into a shared block gets a copy of it first. ``append`` gathers keys and values
    through the table, which copies them: a serving kernel reads through the table instead.
    Source: arXiv 2309.06180.
    """

    def __init__(
        self,
        batch: int,
        heads: int,
        blocks: int,
        width: int,
        value_width: int | None = None,
        *,
        block: int = 16,
        dtype: torch.dtype = torch.float32,
        device=None,
    ):
        super().__init__(batch, heads, width, value_width, dtype, device)
        self.blocks, self.block = Blocks(blocks), single(block, "block", 1)
        self.tables: list[list[int]] = [[] for _ in range(self.batch)]
        self.k, self.v = self.room(len(self.blocks.holders), self.block, self.heads)

    @property
    def used(self) -> int:
        """Blocks in use; a shared one counts once."""
        return self.blocks.used

    @property
    def waste(self) -> int:
        """Slots in blocks in use that hold no token."""
        filled = Counter()
        for table, length in zip(self.tables, self.lengths.tolist(), strict=True):
            for n, block in enumerate(table):
                filled[block] = max(filled[block], min(length - n * self.block, self.block))
        return self.used * self.block - filled.total()

    @property
    def nbytes(self):
        """Bytes of the blocks in use."""
        return self.bytes_of(self.used * self.block)

    def share(self, row: int, source: int, length: int | None = None) -> None:
        """Give an empty row the first ``length`` tokens of another, or all, without copying."""
        row, source = self.one_row(row, "share: row"), self.one_row(source, "share: source")
        if self.lengths[row]:
            raise ValueError(f"share: row {row} holds {self.lengths[row]} tokens: free it first")
        held = int(self.lengths[source])
        length = held if length is None else single(length, "share: length", 0)
        if length > held:
            raise ValueError(f"share: row {source} holds {held} tokens, cannot share {length}")
        self.tables[row] = [self.blocks.share(b) for b in self.tables[source][: self.need(length)]]
        self.set_length(row, length)

    def free(self, row: int) -> None:
        """Give back the blocks of a finished row. Raises ValueError if it holds none."""
        row = self.one_row(row, "free: row")
        if not self.tables[row]:
            raise ValueError(f"free: row {row} holds no blocks: it is empty, or was freed before")
        self.reset([row])

    def check_room(self, step):
        need = self.new_blocks(step)
        if need > (left := len(self.blocks.unused)):
            raise ValueError(
                f"{need} more blocks are needed, and {left} of {len(self.blocks.holders)} are "
                "left: free finished rows, or make the cache with more blocks"
            )

    def store(self, k, v, step):
        for b in np.flatnonzero(step.counts):
            self.grow(b, int(step.totals[b]))
        longest = max(map(len, self.tables), default=0)
        table = np.array([t + [0] * (longest - len(t)) for t in self.tables], np.int64)
        table = table.reshape(self.batch, longest)
        rows, columns = np.nonzero(step.at >= 0)
        at = step.at[rows, columns]
        block, slot = table[rows, at // self.block], at % self.block
        table, block, slot, rows, columns = (
            torch.from_numpy(n).to(self.device) for n in (table, block, slot, rows, columns)
        )
        for pool, x in ((self.k, k), (self.v, v)):
            pool[block, slot] = x[rows, :, columns]
        S = step.longest
        return tuple(x[table].flatten(1, 2)[:, :S].transpose(1, 2) for x in (self.k, self.v))

    def forget(self, lengths):
        for table, length in zip(self.tables, lengths.tolist(), strict=True):
            while len(table) > self.need(length):
                self.blocks.free(table.pop())

    def move(self, rows):
        """By tables alone: no key or value is copied."""
        tables = [[self.blocks.share(b) for b in self.tables[row]] for row in rows]
        self.forget(np.zeros_like(self.lengths))
        self.tables = tables

    def need(self, length: int) -> int:
        """Blocks for so many tokens."""
        return -(-length // self.block)

    def new_blocks(self, step) -> int:
        """How many blocks the step will take from the pool."""
        growing = np.flatnonzero(step.counts)
        more = sum(self.need(int(step.totals[b])) - len(self.tables[b]) for b in growing)
        written = Counter(self.tables[b][-1] for b in growing if self.lengths[b] % self.block)
        holders = self.blocks.holders  # of n holders that write, the last one keeps the block
        return more + sum(min(n, holders[block] - 1) for block, n in written.items())

    def grow(self, b: int, length: int) -> None:
        """Make row b ready for ``length`` tokens: a block of its own to go on in, and more."""
        table = self.tables[b]
        if self.lengths[b] % self.block and self.blocks.holders[table[-1]] > 1:
            shared, table[-1] = table[-1], self.blocks.take()
            for pool in (self.k, self.v):
                pool[table[-1]] = pool[shared]
            self.blocks.free(shared)
        table += [self.blocks.take() for _ in range(self.need(length) - len(table))]

    def set_length(self, row: int, length: int) -> None:
        lengths = self.lengths.copy()
        lengths[row] = length
        self.lengths = frozen(lengths)

    def one_row(self, row: int, name: str) -> int:
        n = single(row, name, 0)
        if n >= self.batch:
            raise ValueError(f"{name} must be from 0 to {self.batch - 1}, got {n}")
        return n
