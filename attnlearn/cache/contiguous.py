"""The plain cache: room for the longest sequence, and a token's slot is its position."""

from __future__ import annotations

import torch

from ..masks.fields import single
from .base import Cache, check_length, move, write


class KVCache(Cache):
    """Memory for ``length`` tokens in each row, taken at once: [B, Hk, length, D] and [..., E].

    ``append`` writes the new tokens and returns views: it copies nothing that was there.
    """

    def __init__(
        self,
        batch: int,
        heads: int,
        length: int,
        width: int,
        value_width: int | None = None,
        *,
        dtype: torch.dtype = torch.float32,
        device=None,
    ):
        super().__init__(batch, heads, width, value_width, dtype, device)
        self.length = single(length, "length", 0)
        self.k, self.v = self.room(self.batch, self.heads, self.length)

    @property
    def nbytes(self):
        return self.bytes_of(self.lengths)

    def check_room(self, step):
        check_length(self.length, step)

    def store(self, k, v, step):
        S = step.longest
        write(self.k, k, step.at)
        write(self.v, v, step.at)
        return self.k[:, :, :S], self.v[:, :, :S]

    def move(self, rows):
        S = int(self.lengths.max(initial=0))
        move(rows, self.k[:, :, :S], self.v[:, :, :S])
