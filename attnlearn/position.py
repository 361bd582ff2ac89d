"""Where a token stands: attention itself treats its keys as a set, and order must be told to it.

A scheme may act at three places: on the embeddings, on the queries, on the keys. What it does not
touch, it hands back. ``at`` holds positions, whole numbers [T] for all examples or [B, T].
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

# Which two entries of a head turn together: how to cut the axis D, and which part is the pair.
PAIRINGS = {
    "halves": ((2, -1), -2),  # (i, i + D/2): GPT-NeoX, Llama in the library transformers
    "neighbours": ((-1, 2), -1),  # (2i, 2i + 1): the paper, GPT-J, Meta's own Llama
}


class Position(nn.Module):
    """No position: a model learns of order from its mask alone."""

    in_layers = False  # does it act on queries and keys, or on the embeddings alone?

    def embed(self, x: Tensor, at: Tensor) -> Tensor:
        """Embeddings x [B, T, C] -> [B, T, C]; called once, below the first block."""
        return x

    def queries(self, q: Tensor, at: Tensor) -> Tensor:
        """q [B, Hq, T, D] -> [B, Hq, T, D or more]; called in every layer."""
        return q

    def keys(self, k: Tensor, at: Tensor) -> Tensor:
        """k [B, Hk, S, D] -> [B, Hk, S, D or more]; called in every layer."""
        return k

    def kept(self, k: Tensor, at: Tensor) -> Tensor:
        """``keys`` for a cache: later queries will see them, so only their own positions count."""
        return self.keys(k, at)

    def extra(self, dtype: torch.dtype) -> int:
        """How many entries queries and keys of this type gain."""
        return 0

    def get_extra_state(self) -> Tensor:
        return note(repr(self))

    def set_extra_state(self, state: Tensor) -> None:
        check_note(state, repr(self))


class Sinusoidal(Position):
    """Adds sines and cosines to the embeddings (arXiv 1706.03762).

    As in the paper, embeddings are multiplied by √C first: both are then of one size.
    """

    def embed(self, x, at):
        return x * x.shape[-1] ** 0.5 + sinusoids(at, x.shape[-1]).to(x.dtype)


class Learned(Position):
    """Adds a row of a trained table; there is none for positions from ``length`` on."""

    def __init__(self, length: int, width: int):
        super().__init__()
        if min(length, width) < 1:
            raise ValueError(f"length and width must be at least 1, got {length} and {width}")
        self.table = nn.Parameter(torch.randn(length, width) * width**-0.5)

    def embed(self, x, at):
        length, width = self.table.shape
        at = at.long()
        if x.shape[-1] != width:
            raise ValueError(f"x must have the table's width {width}, got {list(x.shape)}")
        if at.numel() and not 0 <= at.min() <= at.max() < length:
            raise ValueError(
                f"the table has positions 0 to {length - 1}, but the sequence needs "
                f"{at.min()} to {at.max()}; make a longer table, or use another scheme"
            )
        return x + self.table[at]

    def extra_repr(self) -> str:
        return "length={}, width={}".format(*self.table.shape)


class Rotary(Position):
    """Turns queries and keys by their positions, so that scores know i - j only.

    RoPE (arXiv 2104.09864). Weights trained with one pairing are wrong for the other: ``repair``.
    """

    in_layers = True

    def __init__(self, base: float = 10000.0, pairing: str = "halves"):
        super().__init__()
        check_pairing("pairing", pairing)
        self.base, self.pairing = checked_base(base), pairing

    def queries(self, q, at):
        return rotate(q, at, self.base, self.pairing)

    keys = queries

    def extra_repr(self) -> str:
        return f"base={self.base}, pairing={self.pairing!r}"


class Alibi(Position):
    """Scores fall linearly with distance, by one more entry in q and in k (arXiv 2108.12409).

    The penalty slope · (i - j) is slope · i, which the softmax ignores, being the same for all
    keys, less slope · j, which is a product of a number of q and a number of k. For causal masks:
    a key in the future would be rewarded. Half types, in which bfloat16 holds whole numbers up to
    256 only, take two entries: steps of 256, and the rest.

    Positions count back from the last key, so that numbers are small. Keys in a cache count from
    the first, as the last is not known yet: at a position p float32 scores are rounded in steps of
    about slope · p / 10⁷, and half types end at 65,535.
    """

    in_layers = True

    def queries(self, q, at):
        heads, T, D = q.shape[-3:]
        slope = slopes(heads).to(q)[:, None, None] * D**0.5  # undoes the scale 1/√D
        return torch.cat((q, slope.expand(*q.shape[:-3], heads, T, self.extra(q.dtype))), -1)

    def keys(self, k, at):
        at = at.long()
        return self.told(k, at - at.amax(-1, keepdim=True) if at.numel() else at)

    def kept(self, k, at):
        if k.dtype.itemsize == 2 and at.numel() and at.max() >= 2**16:
            raise ValueError(f"{k.dtype} holds positions to 65,535, got {at.max()}: use float32")
        return self.told(k, at.long())

    def told(self, k, at):
        """Keys with their positions as further entries."""
        at = over_heads(at, k)
        rest = at.fmod(256)
        entries = (at - rest, rest) if self.extra(k.dtype) == 2 else (at,)
        columns = torch.stack(entries, -1).to(k)
        return torch.cat((k, columns.expand(*k.shape[:-1], len(entries))), -1)

    def extra(self, dtype):
        return 2 if dtype.itemsize == 2 else 1


def sinusoids(at: Tensor, width: int, base: float = 10000.0) -> Tensor:
    """sin and cos of a position at ever lower frequencies, in turns.

    at [..., T] -> float32 [..., T, width]; entry 2i is sin(at / base^(2i / width)), entry 2i + 1
    the cosine. An odd width ends with a sine. Source: arXiv 1706.03762.
    """
    if width < 1:
        raise ValueError(f"width must be at least 1, got {width}")
    angle = angles(at, width + width % 2, checked_base(base), width)
    return torch.stack((angle.sin(), angle.cos()), -1).flatten(-2)[..., :width].float()


def rotate(x: Tensor, at: Tensor, base: float = 10000.0, pairing: str = "halves") -> Tensor:
    """Turn each pair of entries of x by its position times its frequency.

    x [..., H, T, D], at [T] or [B, T] -> [..., H, T, D]. Lengths stay, and products of two
    rotated vectors depend on the difference of their positions. ``pairing``: "halves" pairs entry
    i with i + D/2, "neighbours" pairs 2i with 2i + 1. Raises ValueError for an odd D, an unknown
    pairing, or positions that do not fit. Source: arXiv 2104.09864.
    """
    check_pairing("pairing", pairing)
    D = x.shape[-1]
    if D % 2 or D == 0:
        raise ValueError(f"x must have an even width D to be cut into pairs, got {list(x.shape)}")
    wide = torch.promote_types(x.dtype, torch.float32)
    angle = angles(over_heads(at, x), D, checked_base(base), D)
    cos, sin = angle.cos().to(wide), angle.sin().to(wide)
    cut, pair = PAIRINGS[pairing]
    a, b = x.to(wide).unflatten(-1, cut).unbind(pair)
    return torch.stack((a * cos - b * sin, a * sin + b * cos), pair).flatten(-2).to(x.dtype)


def repair(weight: Tensor, heads: int, to: str) -> Tensor:
    """A query or key projection, moved from the other pairing to the pairing ``to``.

    weight [heads · D, ...] -> the same shape, its rows in another order: the model's scores stay
    as they were. Biases [heads · D] move in the same way. For keys of grouped heads ``heads`` is
    the number of key heads.
    """
    check_pairing("to", to)
    if heads < 1 or weight.shape[0] % (2 * heads):
        raise ValueError(f"weight has {weight.shape[0]} rows: not {heads} heads of an even width")
    cut, _ = PAIRINGS["halves" if to == "neighbours" else "neighbours"]
    return weight.unflatten(0, (heads, *cut)).transpose(1, 2).flatten(0, 2)


def slopes(heads: int) -> Tensor:
    """ALiBi's slope of each head, float32 [heads]: 2^(-8/heads), its square, its cube, ...

    For a number that is no power of two: those of the next lower power, then every other one of
    the next higher. Source: arXiv 2108.12409 and its code.
    """
    if heads < 1:
        raise ValueError(f"heads must be at least 1, got {heads}")
    lower = 2 ** math.floor(math.log2(heads))

    def powers(n):
        return 2.0 ** (-8 / n * torch.arange(1, n + 1))

    return torch.cat((powers(lower), powers(2 * lower)[::2][: heads - lower]))


def angles(at: Tensor, entries: int, base: float, width: int) -> Tensor:
    """at [..., T] -> [..., T, entries / 2] in float64; float32 is 0.02 off at a million."""
    wide = torch.float32 if at.device.type == "mps" else torch.float64  # Apple's GPUs have no more
    step = torch.arange(0, entries, 2, dtype=wide, device=at.device)
    return at[..., None].to(wide) * base ** (-step / width)


def over_heads(at: Tensor, x: Tensor) -> Tensor:
    """Positions with an axis for the heads of x [..., H, T, D], once they are known to fit."""
    fits = at.shape == x.shape[-2:-1] or (at.ndim == 2 and at.shape == (*x.shape[:-3], x.shape[-2]))
    if not fits:
        raise ValueError(
            f"at must be [T] = [{x.shape[-2]}] or [B, T] to fit {list(x.shape)}, "
            f"got {list(at.shape)}"
        )
    return at if at.ndim == 1 else at[:, None]


def check_pairing(name: str, pairing: str) -> None:
    if pairing not in PAIRINGS:
        raise ValueError(f"{name} must be one of {', '.join(PAIRINGS)}, got {pairing!r}")


def checked_base(base: float) -> float:
    if not (math.isfinite(base) and base > 0):
        raise ValueError(f"base must be a positive number, got {base}")
    return float(base)


def note(text: str) -> Tensor:
    """A text to be stored beside weights: a state dict is best made of tensors alone."""
    return torch.tensor(list(text.encode()), dtype=torch.uint8)


def check_note(state: Tensor, here: str) -> None:
    """Raise if weights were made for something else: the same numbers would fit, in silence."""
    there = bytes(state.tolist()).decode()
    if there != here:
        raise ValueError(f"these weights are for {there}, and do not fit {here}")
