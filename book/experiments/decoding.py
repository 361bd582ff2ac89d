"""Forgetting while reading: ``python book/experiments/decoding.py``.

The small model of chapter 5, trained on stretches of 256 bytes, reads stretches of 1,024 held-out
bytes. It keeps all keys, or a window of the last ones, or the first few besides (attention sinks,
arXiv 2309.17453), whose positions stay as they were or are counted inside the cache.
"""

from __future__ import annotations

import record
import text
import torch
from torch import Tensor

from attnlearn import Causal, Mask, Prefix, Window, attention
from attnlearn.nn import TinyLM
from attnlearn.position import rotate

LENGTH, TRAINED, BUCKET = 1024, 256, 64
WINDOWS = 16, 64, 128, 252
SINKS = 4


def measure(quick: bool) -> tuple[tuple, dict]:
    length, windows = (128, (16,)) if quick else (LENGTH, WINDOWS)
    model = TinyLM.trained()
    held_out = text.tokens(text.parts()["held_out"])
    stretches = text.windows(held_out, length + 1, length // 2)[: 2 if quick else None]
    bits = {"all": [by_position(model, stretches, None, attention)]}
    for size in windows:
        both = Window(size) | Prefix(SINKS)
        runs = {
            "window": (Window(size), attention),
            "sinks": (both, attention),
            "renumbered": (both, Renumbered(size, SINKS)),
        }
        for name, (mask, attend) in runs.items():
            bits.setdefault(name, []).append(by_position(model, stretches, mask, attend))
        print(size, {name: found[-1] for name, found in bits.items()}, flush=True)
    figures = {
        "length": length,
        "trained_length": TRAINED,
        "stretches": len(stretches),
        "bucket": BUCKET,
        "windows": windows,
        "sinks": SINKS,
        "bits": bits,  # a list for each window
        "weight_on_first": on_first(model, stretches[:8, :TRAINED]),
    }
    return (), figures


@torch.no_grad()
def by_position(model: TinyLM, stretches: Tensor, mask: Mask | None, attend) -> list[float]:
    """Bits per byte in each bucket of positions."""
    for block in model.blocks:
        block.attention.attend = attend
    found = torch.cat([model.bits(some, mask) for some in stretches.split(8)]).mean(0)
    return found.unflatten(0, (-1, BUCKET)).mean(1).tolist()


class Renumbered:
    """Attention to a window and sinks, as if the tokens between them had never been.

    Only distances count to ``Rotary``, and those inside the window stay. So it is enough to turn a
    query back, before it meets the sinks, to the last place of a full cache.
    """

    def __init__(self, window: int, sinks: int):
        self.last, self.sinks = sinks + window - 1, sinks

    def __call__(self, q: Tensor, k: Tensor, v: Tensor, mask: Mask, *, scale: float) -> Tensor:
        at = torch.arange(q.shape[-2])
        s = q @ k.mT  # [B, H, T, S]
        turned = rotate(q, at.clamp(max=self.last) - at)
        s[..., : self.sinks] = turned @ k[..., : self.sinks, :].mT
        seen = torch.tensor(mask.dense(*s.shape[-2:]))
        return (s * scale).masked_fill(~seen, -torch.inf).softmax(-1) @ v


@torch.no_grad()
def on_first(model: TinyLM, tokens: Tensor) -> dict:
    """The weight of token 0 in each layer, and its equal share, for the later half of queries."""
    x, found, half = model.embedding(tokens), [], tokens.shape[1] // 2
    for block in model.blocks:
        block.attention.attend = attention
        p = block.attention.weights(block.attention_norm(x), Causal())
        found.append(p[:, :, half:, 0].mean().item())
        x = block(x, Causal())
    equal = torch.arange(half + 1, tokens.shape[1] + 1).reciprocal().mean().item()
    return {"layers": found, "equal_share": equal}


if __name__ == "__main__":
    record.main("decoding", __doc__, measure)
