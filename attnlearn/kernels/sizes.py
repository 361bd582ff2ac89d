"""How large a tile each kernel takes: a table, no search.

Large tiles read less memory, and must fit the chip: its shared memory and its registers. The
half types on Hopper follow what FlexAttention takes there; the others, INT8 among them, are the
largest that compile with few or no spilled registers. None has been tuned by measurement here.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

WIDEST = 256


class Size(NamedTuple):
    """A tile of bq queries and bk keys; how many warps share it, how many loads are under way."""

    bq: int
    bk: int
    warps: int
    stages: int


# For heads up to this wide.
HOPPER = {
    "forward": {64: Size(128, 128, 4, 3), 128: Size(128, 64, 8, 3), 256: Size(64, 32, 4, 3)},
    "int8": {64: Size(128, 128, 4, 3), 128: Size(128, 64, 8, 3), 256: Size(128, 64, 8, 3)},
    "queries": {64: Size(128, 64, 8, 3), 128: Size(128, 64, 8, 3), 256: Size(64, 64, 8, 2)},
    "keys": {64: Size(64, 128, 8, 3), 128: Size(32, 128, 8, 3), 256: Size(32, 64, 8, 2)},
}
OTHERS = {  # these fit the 99 KiB of consumer cards
    "forward": {64: Size(128, 64, 4, 3), 128: Size(128, 32, 4, 3), 256: Size(64, 32, 4, 2)},
    "int8": {64: Size(128, 64, 4, 3), 128: Size(128, 64, 8, 3), 256: Size(64, 32, 4, 2)},
    "queries": {64: Size(128, 64, 8, 2), 128: Size(64, 64, 4, 2), 256: Size(64, 32, 4, 1)},
    "keys": {64: Size(64, 64, 8, 2), 128: Size(64, 64, 8, 2), 256: Size(16, 64, 8, 1)},
}
SINGLE = {  # products of float32 take no tensor cores, and many registers
    "forward": {64: Size(32, 32, 4, 2), 128: Size(32, 32, 4, 2), 256: Size(16, 16, 4, 2)},
    "int8": {64: Size(32, 32, 4, 2), 128: Size(32, 32, 4, 2), 256: Size(16, 16, 4, 2)},
    "queries": {64: Size(32, 32, 4, 2), 128: Size(32, 32, 4, 2), 256: Size(16, 16, 4, 1)},
    "keys": {64: Size(32, 32, 4, 2), 128: Size(32, 32, 4, 2), 256: Size(16, 16, 4, 1)},
}
INTERPRETER = Size(64, 64, 1, 1)


def size(kernel: str, q: Tensor, v: Tensor) -> Size:
    """The tile of a kernel, "forward", "int8", "queries" or "keys", for these tensors."""
    if q.device.type == "cpu":
        return INTERPRETER
    if v.dtype == torch.float32:
        table = SINGLE
    else:
        roomy = torch.cuda.get_device_capability(q.device)[0] in (9, 10)  # 227 KiB on the chip
        table = HOPPER if roomy else OTHERS
    width = max(q.shape[-1], v.shape[-1])
    return next(size for widest, size in table[kernel].items() if width <= widest)
