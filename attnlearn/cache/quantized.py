"""The quantised cache: finished groups of tokens as small integers, the newest one in float."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from ..masks import Chunked, Prefix
from ..masks.fields import single
from ..quant import Quantized, quantize
from .base import Cache, check_length, move, write


class QuantizedCache(Cache):
    """Keys and values of ``bits`` bits, with a scale and a zero in float16 for ``group`` of them.

    Keys share a scale over the tokens of a group, each channel its own, as some channels are far
    larger than others; values share one over channels, each token its own (KIVI, arXiv
    2402.02750). Groups begin at multiples of ``group``. A query sees its own group, and the one
    that is unfinished, in float and the others as integers, however the tokens arrive. ``exact``:
    how many of a key's last channels are kept as they are, such as ALiBi's positions.

    ``append`` returns floats: a serving kernel reads the integers instead. NaN and infinities
    raise ValueError, as no integer stands for them.
    """

    def __init__(
        self,
        batch: int,
        heads: int,
        length: int,
        width: int,
        value_width: int | None = None,
        *,
        bits: int = 4,
        group: int = 64,
        exact: int = 0,
        dtype: torch.dtype = torch.float32,
        device=None,
    ):
        super().__init__(batch, heads, width, value_width, dtype, device)
        self.length, self.group = single(length, "length", 0), single(group, "group", 1)
        self.bits, self.exact = bits, single(exact, "exact", 0)
        self.rule = (self.group,)
        if self.exact >= self.width:
            raise ValueError(f"exact must be below the width {width}, got {exact}")

        self.new = self.room(self.batch, self.heads, self.group)
        with torch.inference_mode(False):
            self.old = [stretched(x, self.finished(self.length)) for x in self.stored(*self.new)]

    @property
    def nbytes(self):
        done = self.finished(self.lengths)
        slots = max(self.batch * self.finished(self.length), 1)
        integers = sum(t.nbytes for x in self.old for t in tensors(x))
        return integers * int(done.sum()) // slots + self.bytes_of(self.lengths - done)

    def finished(self, length):
        """How many of the first ``length`` tokens are in whole groups."""
        return length // self.group * self.group

    def stored(self, k: Tensor, v: Tensor) -> tuple[Quantized, Quantized, Tensor]:
        """Whole groups as they are kept: keys by channel, values by token, exact channels."""
        how = {"symmetric": False, "dtype": torch.float16}
        k, exact = k.split((self.width - self.exact, self.exact), -1)
        by_channel = quantize(k, self.bits, per=(self.group, 1), **how)
        return by_channel, quantize(v, self.bits, per=(1, self.group), **how), exact

    def check_room(self, step):
        check_length(self.length, step)

    def held(self, step) -> tuple[np.ndarray, int, int]:
        """Positions [B, S] of what ``store`` returns: integers, floats kept, and the new tokens.

        -1 is an empty slot. And how many there are of the first two.
        """
        before, after = self.finished(step.lengths), self.finished(step.totals)
        kept = step.lengths - before
        old, new = np.arange(after.max(initial=0)), np.arange(kept.max(initial=0))
        at = (
            np.where(old < after[:, None], old, -1),
            np.where(new < kept[:, None], before[:, None] + new, -1),
            step.at,
        )
        return np.concatenate(at, -1), len(old), len(new)

    def sees(self, mask, step):
        at, old, _ = self.held(step)
        S, done = at.shape[-1], self.finished(step.totals)
        if self.batch and step.alike:
            at, done = at[0], done[0]
        in_float = (Chunked(self.group) | ~Prefix(done)).gather(at)
        integers = Prefix(old)
        mask = mask.gather(at) & (integers & ~in_float | ~integers & in_float)
        return step.place(mask, S)

    def store(self, k, v, step):
        at, old, kept = self.held(step)
        new, done = at[:, old + kept :], self.finished(step.totals)
        for name, x in (("k", k), ("v", v)):
            check_finite(name, x, new >= 0)
        k, v = (torch.cat((x[:, :, :kept], y), 2) for x, y in zip(self.new, (k, v), strict=True))
        self.finish(k, v, at[:, old:], step)
        slots = np.where(new >= done[:, None], new % self.group, -1)
        for memory, x in zip(self.new, (k, v), strict=True):
            write(memory, x[:, :, kept:], slots)
        keys, values, exact = (part(x, slice(None), 0, old) for x in self.old)
        keys = torch.cat((keys.dequantize(), exact), -1)
        return torch.cat((keys, k), 2), torch.cat((values.dequantize(), v), 2)

    def finish(self, k: Tensor, v: Tensor, at: np.ndarray, step) -> None:
        """Make integers of the groups that the step finishes, and keep them once all are made."""
        before, after = self.finished(step.lengths), self.finished(step.totals)
        rows = [slice(b, b + 1) for b in np.flatnonzero(after > before)]
        if rows and step.alike:
            rows = [slice(0, self.batch)]
        made = []
        for row in rows:
            start, stop = before[row.start], after[row.start]
            columns = np.flatnonzero((at[row.start] >= start) & (at[row.start] < stop))
            made.append(self.stored(k[row][:, :, columns], v[row][:, :, columns]))
        for row, parts in zip(rows, made, strict=True):
            here = row, before[row.start], after[row.start]
            for memory, x in zip(self.old, parts, strict=True):
                for mine, new in zip(tensors(part(memory, *here)), tensors(x), strict=True):
                    mine.copy_(new)

    def forget(self, lengths):
        done = self.finished(self.lengths)
        if (torn := (lengths < done) & (lengths % self.group > 0)).any():
            b = torn.argmax()
            raise ValueError(
                f"truncate: row {b} cannot keep {lengths[b]} tokens, as its first {done[b]} are "
                f"integers by now: keep at least those, or a multiple of {self.group}. Drafts that "
                "may be taken back should not finish a group"
            )

    def move(self, rows):
        move(rows, *self.new, *(x for memory in self.old for x in tensors(memory)))


def changed(x: Quantized | Tensor, f) -> Quantized | Tensor:
    """x with f(tensor, tokens that share a row of it) in place of its tensors."""
    if isinstance(x, Tensor):
        return f(x, 1)
    n = x.group[0]
    return replace(x, codes=f(x.codes, 1), scale=f(x.scale, n), zero=f(x.zero, n))


def stretched(x: Quantized | Tensor, tokens: int) -> Quantized | Tensor:
    """Empty memory like x [B, Hk, ...], for so many tokens."""
    return changed(x, lambda t, n: t.new_zeros(*t.shape[:2], tokens // n, t.shape[3]))


def part(x: Quantized | Tensor, rows: slice, start: int, stop: int) -> Quantized | Tensor:
    """Views of some tokens in some rows: whole groups."""
    return changed(x, lambda t, n: t[rows, :, start // n : stop // n])


def tensors(x: Quantized | Tensor) -> list[Tensor]:
    return [x] if isinstance(x, Tensor) else [x.codes, x.scale, x.zero]


def check_finite(name: str, x: Tensor, real: np.ndarray) -> None:
    """Raise ValueError for NaN and infinities in the real tokens [B, T] of x."""
    hidden = torch.from_numpy(~real).to(x.device)[:, None, :, None]
    if not (x.isfinite() | hidden).all():
        raise ValueError(f"{name} holds NaN or infinities, and no integer stands for them")
