"""The tile map: which tiles of scores a kernel visits, so that no kernel knows any mask."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..masks import EMPTY, PARTIAL, Mask

KEPT = 12  # maps; a length takes three, one for each kernel


class Tiles(NamedTuple):
    """For each tile of queries the tiles of keys to visit; with ``by_keys`` the other way round.

    Line n is the list of one tile, for one example and head. Its FULL tiles are the visits from
    ``begin[2 n]`` to ``begin[2 n + 1]``, its PARTIAL ones go on to ``begin[2 n + 2]``. What a
    PARTIAL tile shows is ``seen[pattern]``; equal patterns are stored once, so Causal() needs only
    a few.
    """

    begin: Tensor  # int32 [2 * lines in all + 1]
    other: Tensor  # int32 [visits + 1]: the tile to visit; one more, as kernels look ahead
    pattern: Tensor  # int32 [visits]
    seen: Tensor  # bool [patterns, bq, bk]
    examples: int  # the mask differs for so many examples and heads, or for none: 1
    heads: int
    lines: int  # for each of them


def tiles(mask: Mask, T: int, S: int, bq: int, bk: int, device, by_keys=False) -> Tiles:
    """The tile map of a mask, remembered on the mask: a model asks again in every layer."""
    known = vars(mask).get("_tiles", {})
    asked = T, S, bq, bk, str(device), by_keys
    if asked not in known:
        found = Tiles(*(onto(x, device) for x in build(mask, T, S, bq, bk, by_keys)))
        # Decoding asks for another length at every step: the oldest go. A new dictionary each
        # time, as threads may ask together.
        known = {**dict(list(known.items())[1 - KEPT :]), asked: found}
        vars(mask)["_tiles"] = known
    return known[asked]


def onto(x, device):
    return torch.from_numpy(x).to(device) if isinstance(x, np.ndarray) else x


def build(mask: Mask, T: int, S: int, bq: int, bk: int, by_keys: bool) -> Tiles:
    """The tile map in NumPy."""
    kind = kinds(mask, T, S, bq, bk)
    pattern, seen = patterns(mask, kind, T, S, bq, bk)
    if by_keys:
        kind, pattern = kind.swapaxes(-1, -2), pattern.swapaxes(-1, -2)
    examples, heads, lines, others = kind.shape
    kind, pattern = kind.reshape(-1, others), pattern.reshape(-1, others)
    line, other = np.nonzero(kind != EMPTY)
    part = 2 * line + (kind[line, other] == PARTIAL)
    order = np.argsort(part, kind="stable")
    ends = np.cumsum(np.bincount(part, minlength=2 * len(kind)))
    return Tiles(
        np.append(0, ends).astype(np.int32),
        np.append(other[order], 0).astype(np.int32),
        pattern[line, other][order],
        seen,
        examples,
        heads,
        lines,
    )


def kinds(mask: Mask, T: int, S: int, bq: int, bk: int) -> np.ndarray:
    """``mask.blocks`` [examples, heads, ...], where FULL tiles don't stick out: no bounds there."""
    kind = mask.blocks(T, S, bq, bk)
    kind = kind.reshape((1,) * (4 - kind.ndim) + kind.shape)
    whole = (np.arange(kind.shape[2]) < T // bq)[:, None] & (np.arange(kind.shape[3]) < S // bk)
    return np.where(whole, kind, np.minimum(kind, PARTIAL))


def patterns(mask, kind, T, S, bq, bk) -> tuple[np.ndarray, np.ndarray]:
    """The number of each PARTIAL tile's pattern, and the patterns: never the T x S matrix."""
    number = np.full(kind.shape, -1, np.int32)
    known: dict[bytes, int] = {}
    for a, b in asked(mask, kind, T, S, bq, bk):
        i = np.arange(a[0] * bq, min((a[0] + 1) * bq, T))[:, None] + S - T
        j = np.arange(b[0] * bk, min((b[0] + 1) * bk, S))[None, :]
        seen = np.zeros((*kind.shape[:2], bq, bk), bool)
        seen[..., : i.size, : j.size] = mask(i, j)
        for z in np.argwhere(kind[:, :, a[0], b[0]] == PARTIAL):
            bits = np.packbits(seen[tuple(z)]).tobytes()
            number[(*z, a, b)] = known.setdefault(bits, len(known))
    packed = np.frombuffer(b"".join(known), np.uint8)
    return number, np.unpackbits(packed).astype(bool).reshape(-1, bq, bk)


def asked(mask, kind, T, S, bq, bk):
    """The PARTIAL tiles (a, b), together where the mask answers alike, so that one stands for all.

    A mask that depends on i - j alone does so along a diagonal, on tiles of one size.
    """
    a, b = np.nonzero((kind == PARTIAL).any((0, 1)))
    if not mask.relative:
        return zip(a[:, None], b[:, None], strict=True)
    rows, cols = np.minimum(bq, T - a * bq), np.minimum(bk, S - b * bk)
    alike = np.lexsort((cols, rows, a * bq - b * bk))
    keys = np.stack((a * bq - b * bk, rows, cols), -1)[alike]
    cuts = np.flatnonzero((keys[1:] != keys[:-1]).any(-1)) + 1
    return zip(np.split(a[alike], cuts), np.split(b[alike], cuts), strict=True) if len(a) else ()
