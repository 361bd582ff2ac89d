"""What all caches share: lengths, positions, and checks before anything is written."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
import torch
from torch import Tensor

from ..api import as_mask
from ..masks import Mask, Prefix
from ..masks.fields import frozen, plain, single, whole
from .steps import Step, checked_real

DTYPES = torch.float16, torch.bfloat16, torch.float32, torch.float64


class Cache(ABC):
    """Keys and values of the tokens so far, for one layer and inference.

    ``lengths`` [B]: tokens of each row, in NumPy, so that asking does not wait for the device.
    What a row does not hold reaches no output, whatever lies in its memory.
    """

    rule: tuple = ()  # numbers that decide, beside the lengths, what a query sees

    def __init__(self, batch, heads, width, value_width, dtype, device):
        self.batch = single(batch, "batch", 0)
        self.heads = single(heads, "heads", 1)
        self.width = single(width, "width", 1)
        value_width = width if value_width is None else value_width
        self.value_width = single(value_width, "value_width", 1)
        if dtype not in DTYPES:
            raise TypeError(f"dtype must be one of {', '.join(map(str, DTYPES))}, got {dtype}")
        self.dtype = dtype
        self.device = torch.empty(0, device=device).device
        self.lengths = frozen(np.zeros(self.batch, np.int64))

    def room(self, *shape: int) -> tuple[Tensor, Tensor]:
        """Memory for keys [*shape, D] and values [*shape, E]."""
        with torch.inference_mode(False):  # a cache may outlive the mode that it was made in
            how = {"dtype": self.dtype, "device": self.device}
            return tuple(torch.zeros(*shape, n, **how) for n in (self.width, self.value_width))

    def append(
        self, k: Tensor, v: Tensor, mask: Mask | None = None, real=None
    ) -> tuple[Tensor, Tensor, Mask]:
        """Store the coming tokens; what their queries attend to, and the mask for it.

        k [B, Hk, T, D], v [B, Hk, T, E] -> k [B, Hk, S, D], v [B, Hk, S, E], mask. ``mask`` speaks
        of positions in the row, as if nothing were cached. ``real``: bool [B, T], False on padding,
        which is not stored; the real tokens of a row stand together, and may be none.

        Raises TypeError and ValueError, before anything is stored, for what does not fit.
        """
        mask = as_mask(mask)
        T = self.check_tokens(k, v)
        step = self.step(T, real)
        mask = self.placed(mask, step)
        k, v = self.store(k, v, step)
        self.lengths = frozen(step.totals)
        return k, v, mask

    def positions(self, T: int, real=None) -> Tensor:
        """Positions of the coming tokens: [T], or [B, T] where rows differ.

        Padding gets the position of the nearest real token, so that a table has a row for it.
        """
        step = self.step(single(T, "T", 0), real)
        at = step.columns[0] if self.batch and step.alike else step.inside
        return torch.from_numpy(at if self.batch else np.arange(T)).to(self.device)

    def step(self, T: int, real=None) -> Step:
        """Where T coming tokens stand, once there is room for them."""
        step = Step(self.lengths, T, checked_real(real, self.batch, T))
        self.check_room(step)
        return step

    def truncate(self, lengths) -> None:
        """Forget all but the first tokens of each row, such as rejected drafts.

        ``lengths``: one number, or [B].
        """
        lengths = whole(lengths, "truncate: lengths", 0)
        if isinstance(lengths, int):
            lengths = np.full(self.batch, lengths)
        lengths = lengths.reshape(-1)
        if len(lengths) != self.batch:
            raise ValueError(
                f"truncate: lengths must be one number or [{self.batch}], got {len(lengths)}"
            )
        if (more := lengths > self.lengths).any():
            b = more.argmax()
            raise ValueError(
                f"truncate: row {b} holds {self.lengths[b]} tokens, cannot keep {lengths[b]}"
            )
        self.forget(lengths)
        self.lengths = frozen(lengths)

    def reset(self, rows=None) -> None:
        """Empty all rows, or those listed, for other sequences."""
        lengths = self.lengths.copy()
        lengths[slice(None) if rows is None else self.checked_rows(rows, "reset")] = 0
        self.truncate(lengths)

    def reorder(self, rows) -> None:
        """Row b goes on from where row ``rows[b]`` is: the step of a beam search."""
        rows = self.checked_rows(rows, "reorder")
        if rows.shape != (self.batch,):
            raise ValueError(
                f"reorder: rows must name a row for each of {self.batch}, got {list(rows.shape)}"
            )
        self.move(rows)
        self.lengths = frozen(self.lengths[rows])

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """Bytes that the tokens so far take; memory kept ready for more does not count."""

    def placed(self, mask: Mask, step: Step) -> Mask:
        """What the step's queries see, remembered on the mask: every layer of a model asks this.

        Attention would raise for a mask that does not fit, but after the tokens were stored.
        """
        key = type(self), self.rule, step.key
        asked, answer = vars(mask).get("_placed", (None, None))
        if asked != key:
            step.check(mask)
            answer = self.sees(mask, step)
            lead = answer.spread()
            if len(lead) == 2 and lead[0] not in (1, self.batch):
                raise ValueError(f"mask is for {lead[0]} examples, and the cache for {self.batch}")
            vars(mask)["_placed"] = key, answer
        return answer

    @abstractmethod
    def check_room(self, step: Step) -> None:
        """Raise ValueError if the tokens of the step do not fit."""

    def sees(self, mask: Mask, step: Step) -> Mask:
        """The mask for the step's queries and the keys that ``store`` returns."""
        mask = step.place(mask, step.longest)
        return mask if step.alike else mask & Prefix(step.totals)

    @abstractmethod
    def store(self, k: Tensor, v: Tensor, step: Step) -> tuple[Tensor, Tensor]:
        """Write the step's tokens; the keys and values that its queries attend to."""

    def forget(self, lengths: np.ndarray) -> None:  # noqa: B027
        """Prepare for rows of these lengths; raise ValueError if something they need is gone."""

    @abstractmethod
    def move(self, rows: np.ndarray) -> None:
        """Row b takes over what row rows[b] holds."""

    def bytes_of(self, tokens) -> int:
        """Bytes of so many tokens, one number or one per row, in float."""
        numbers = self.heads * (self.width + self.value_width)
        return int(np.sum(tokens)) * numbers * self.dtype.itemsize

    def check_tokens(self, k: Tensor, v: Tensor) -> int:
        """How many tokens come, once they are known to be of this cache's kind."""
        T = k.shape[-2] if isinstance(k, Tensor) and k.ndim == 4 else "T"
        for name, x, width in (("k", k, self.width), ("v", v, self.value_width)):
            want = [self.batch, self.heads, T, width]
            if not isinstance(x, Tensor):
                raise TypeError(f"{name} must be a torch tensor, got {type(x).__name__}")
            if list(x.shape) != want:
                raise ValueError(
                    f"{name} must be [B, Hk, T, {'D' if name == 'k' else 'E'}] = {want} to fit "
                    f"the cache, got {list(x.shape)}"
                )
            if x.dtype != self.dtype:
                raise TypeError(
                    f"{name} is {x.dtype}, but the cache is for {self.dtype}: make it with "
                    f"dtype={x.dtype}"
                )
            if x.device != self.device:
                raise ValueError(f"{name} is on {x.device}, but the cache is on {self.device}")
            if torch.is_grad_enabled() and x.requires_grad:
                raise ValueError(
                    f"{name} requires grad, but a cache keeps none: decode under torch.no_grad()"
                )
        return T

    def checked_rows(self, rows, name: str) -> np.ndarray:
        rows = plain(rows)
        if rows.size == 0:
            return np.zeros(0, np.int64)
        if rows.dtype.kind not in "iu":
            raise TypeError(f"{name}: rows must be whole numbers, got {rows.dtype}")
        if ((rows < 0) | (rows >= self.batch)).any():
            raise ValueError(
                f"{name}: rows must be from 0 to {self.batch - 1}, got {rows.tolist()}"
            )
        return rows.astype(np.int64)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(lengths={self.lengths.tolist()}, dtype={self.dtype})"


def check_length(length: int, step: Step) -> None:
    if (step.totals > length).any():
        b = step.totals.argmax()
        raise ValueError(
            f"row {b} holds {step.lengths[b]} tokens, and {step.counts[b]} more do not fit into "
            f"length={length}: make a longer cache, or truncate or reset this one"
        )


def move(rows: np.ndarray, *memories: Tensor) -> None:
    """Row b of each memory [B, ...] becomes what row rows[b] was."""
    for memory in memories:
        memory.copy_(memory[torch.from_numpy(rows).to(memory.device)])


def write(memory: Tensor, x: Tensor, slots: np.ndarray) -> None:
    """Put x [B, H, T, D] into the slots [B, T] of memory [B, H, N, D]; -1 is left out."""
    if slots.size == 0:
        return
    first, T = slots[0, 0], slots.shape[1]
    if first >= 0 and (slots == first + np.arange(T)).all():  # one run, the same in every row
        memory[:, :, first : first + T] = x
        return
    rows, columns = (torch.from_numpy(n).to(x.device) for n in np.nonzero(slots >= 0))
    kept = torch.from_numpy(slots[slots >= 0]).to(x.device)
    memory[rows, :, kept] = x[rows, :, columns]
