"""The cache of a sliding window: a ring for the newest tokens, and room for the first ones."""

from __future__ import annotations

import numpy as np
import torch

from ..masks import Prefix, Window
from ..masks.fields import single
from .base import Cache, move, write


class WindowCache(Cache):
    """Memory for the last ``window`` tokens of each row and its first ``sinks``, however long it
    gets.

    It answers like ``mask & (Window(window) | Prefix(sinks))``, and positions are those in the row.
    One token overwrites the slot of the token that leaves the window, and nothing else moves.
    ``spare``: how many tokens ``truncate`` can take back, at the price of so many more slots.
    Sources: arXiv 2310.06825 (rolling buffer), 2309.17453 (sinks).
    """

    def __init__(
        self,
        batch: int,
        heads: int,
        window: int,
        width: int,
        value_width: int | None = None,
        *,
        sinks: int = 0,
        spare: int = 0,
        dtype: torch.dtype = torch.float32,
        device=None,
    ):
        super().__init__(batch, heads, width, value_width, dtype, device)
        self.window, self.sinks = single(window, "window", 1), single(sinks, "sinks", 0)
        self.ring = self.window + single(spare, "spare", 0)
        self.rule = self.window, self.sinks, self.ring
        self.k, self.v = self.room(self.batch, self.heads, self.sinks + self.ring)
        self.lost = np.zeros(self.batch, np.int64)  # the ring has lost positions below this one

    @property
    def nbytes(self):
        return self.bytes_of(np.minimum(self.lengths, self.sinks + self.ring))

    def check_room(self, step):
        """There always is."""

    def sees(self, mask, step):
        at = self.held(self.looked_at(step))
        at = at if step.T == 1 else np.concatenate([at, step.at], -1)
        mask = mask & (Window(self.window) | Prefix(self.sinks))
        mask = mask.gather(at[0] if self.batch and step.alike else at)
        return step.place(mask, at.shape[-1])

    def store(self, k, v, step):
        n = self.filled(self.looked_at(step))
        seen = self.k[:, :, :n], self.v[:, :, :n]
        if step.T != 1:
            seen = tuple(torch.cat(pair, 2) for pair in zip(seen, (k, v), strict=True))
        at = step.at
        kept = (at >= 0) & ((at < self.sinks) | (at >= step.totals[:, None] - self.ring))
        slots = np.where(kept, self.slot(at), -1)
        write(self.k, k, slots)
        write(self.v, v, slots)
        self.lost = np.maximum(self.lost, step.totals - self.ring)
        return seen

    def looked_at(self, step) -> np.ndarray:
        """Lengths of the rows in memory when the step's queries look: one token is stored first,
        but several would push out what the first of them sees."""
        return step.totals if step.T == 1 else step.lengths

    def filled(self, lengths: np.ndarray) -> int:
        """How many slots rows of these lengths use."""
        return min(int(lengths.max(initial=0)), self.sinks + self.ring)

    def slot(self, at: np.ndarray) -> np.ndarray:
        """Where the token of each position lies: sinks first, then the ring."""
        return np.where(at < self.sinks, at, self.sinks + (at - self.sinks) % self.ring)

    def held(self, lengths: np.ndarray) -> np.ndarray:
        """The position in each slot in use, [B, slots]; -1 in an empty one."""
        slots = np.arange(self.filled(lengths))
        behind = lengths[:, None] - 1 - slots  # tokens after the first one of each slot
        turns = np.where(slots < self.sinks, 0, behind // self.ring)
        return np.where(behind >= 0, slots + turns * self.ring, -1)

    def forget(self, lengths):
        """Exact, or an error: a token in the ring is gone once a later one took its slot."""
        needed = np.maximum(lengths - self.window + 1, self.sinks)
        if (short := (self.lost > needed) & (lengths > self.sinks)).any():
            b = short.argmax()
            raise ValueError(
                f"truncate: row {b} cannot go back to {lengths[b]} tokens, as later ones have "
                f"overwritten position {self.lost[b] - 1}: to take back n tokens, make it with "
                "spare=n"
            )
        self.lost = np.minimum(self.lost, lengths)

    def move(self, rows):
        move(rows, self.k, self.v)
        self.lost = self.lost[rows]
