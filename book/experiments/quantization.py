"""What small integers cost a trained model: ``python book/experiments/quantization.py``.

The language model of chapter 5 reads its held-out text, and the Transformer of the recall task
answers its questions, with attention in INT8 and INT4, and with keys and values stored in them.
Then two channels of each head's keys are made 32 times as large, and those of its queries as much
smaller. In floats nothing changes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import language
import recall
import record
import text
import torch
from torch import Tensor

from attnlearn import attention, quant
from attnlearn.cache import QuantizedCache
from attnlearn.nn import TinyLM
from attnlearn.nn.model import bits

SEEDS, RATE = (0, 1, 2), 4e-3  # the rate that the recall experiment chose
LARGER = 32
GROUP = 64  # numbers of a cache that share a scale and a zero


def measure(quick: bool) -> tuple[tuple, dict]:
    held_out = text.tokens(text.parts()["held_out"])
    steps, questions, seeds = (2, 32, SEEDS[:1]) if quick else (recall.STEPS, 2048, SEEDS)
    figures = {
        "text": text.about(),
        "group": GROUP,
        "larger": LARGER,
        "bits_per_byte": language_model(held_out[:800] if quick else held_out),
        "keys_of_the_language_model": keys(held_out[: language.CONTEXT]),
        "recall": {
            "chance": 1 / recall.VALUES,
            "settings": SETTINGS,
            "questions": questions,
            "steps": steps,
            "models": [retrieval(steps, questions, seed) for seed in seeds],
        },
    }
    return seeds, figures


def in_integers(bits: int, per: str = "token", **options) -> Callable:
    return partial(quant.attention, bits=bits, per=per, **options)


def stored(q, k, v, mask=None, *, scale=None, bits=4, keys=(GROUP, 1), values=(1, GROUP)):
    """Attention to keys and values that come back from integers; ``keys``: a group's shape."""
    k, v = (
        quant.quantize(x, bits, per=per, symmetric=False, dtype=torch.float16).dequantize()
        for x, per in ((k, keys), (v, values))
    )
    return attention(q, k, v, mask, scale=scale)


STORED = {
    "INT4 stored": stored,
    "INT4 stored, other way round": partial(stored, keys=(1, GROUP), values=(GROUP, 1)),
}
PRODUCTS = {
    "INT8": in_integers(8),
    "INT8, values too": in_integers(8, values=8),
    "INT8 per tensor, not smoothed": in_integers(8, "tensor", smooth=False),
    "INT4, values INT8": in_integers(4, values=8),
    **{f"INT4 per {per}": in_integers(4, per) for per in ("token", "block", "tensor")},
    **{
        f"INT4 per {per}, not smoothed": in_integers(4, per, smooth=False)
        for per in ("token", "block", "tensor")
    },
}
SETTINGS = [(4, 4), (4, 128), (16, 0)]  # pairs, and tokens of filler
IN_RECALL = {
    "float32": attention,
    "INT8": in_integers(8),
    "INT4": in_integers(4),
    "INT4, not smoothed": in_integers(4, smooth=False),
    **STORED,
}


def language_model(held_out: Tensor) -> dict[str, float]:
    """Bits per byte of held-out text, however attention is computed or stored."""
    found = {"float32": language.bits_per_byte(TinyLM.trained(), held_out)}
    for name, attend in {**PRODUCTS, **STORED}.items():
        model = TinyLM.trained()
        attending(model, attend)
        found[name] = language.bits_per_byte(model, held_out)
        print(name, round(found[name], 4), flush=True)
    for size in (8, 4):
        name = f"INT{size} cache"
        found[name] = language.bits_per_byte(Caching(TinyLM.trained(), size), held_out)
        print(name, round(found[name], 4), flush=True)
    return found


class Caching:
    """A language model whose keys and values go through a cache of small integers."""

    def __init__(self, model: TinyLM, size: int):
        self.model, self.size = model, size

    def bits(self, tokens: Tensor) -> Tensor:
        read = tokens[:, :-1]
        caches = self.model.caches(*read.shape, kind=QuantizedCache, bits=self.size, group=GROUP)
        logits = self.model(read, cache=caches)
        return bits(logits, tokens[:, 1:])


def attending(model: TinyLM, attend: Callable) -> None:
    for block in model.blocks:
        block.attention.attend = attend


@torch.no_grad()
def keys(tokens: Tensor) -> dict[str, list[float]]:
    """Of each layer: the largest |mean| / deviation of a channel of its keys, over all heads."""
    found = []

    def look(q, k, v, mask=None, **how):
        found.append((k.mean(-2).abs() / k.std(-2)).amax().item())
        return attention(q, k, v, mask, **how)

    model = TinyLM.trained()
    attending(model, look)
    model(tokens[None])
    return {"largest_mean_over_deviation": found}


def retrieval(steps: int, questions: int, seed: int) -> dict:
    """Train on the recall task as that experiment does; the share of right answers, each way.

    Also the margins of the answers in floats, and how far each way moves them.
    """
    model, *_ = recall.trained(recall.transformer, steps, RATE, seed, checkpoints=())
    whole = margins(model, attention, questions)
    found = {"margin": {"median": whole.median().item(), "least": whole.min().item()}}
    for name, factor in (("as trained", 1), ("two channels larger", LARGER)):
        enlarge(model, factor)
        right, moved = {}, {}
        for way, attend in IN_RECALL.items():
            moved[way] = (margins(model, attend, questions) - whole).std().item()
            right[way] = [recall.accuracy(model, *at, questions) for at in SETTINGS]
            print(seed, name, way, right[way], round(moved[way], 2), flush=True)
        found[name] = {"right": right, "margin_moved_by": moved}
    return found


@torch.no_grad()
def margins(model: TinyLM, attend: Callable, questions: int, pairs: int = 16) -> Tensor:
    """The logit of the right value less the largest other, [questions]."""
    tokens, answers = recall.draw(questions // pairs, pairs, 0, torch.Generator().manual_seed(7))
    attending(model, attend)
    logits, answers = model(tokens)[:, -pairs:], answers[..., None]
    others = logits.scatter(-1, answers, -torch.inf).amax(-1)
    return (logits.gather(-1, answers)[..., 0] - others).flatten()


@torch.no_grad()
def enlarge(model: TinyLM, factor: float) -> None:
    """Scores stay what they are: a pair of channels that RoPE turns, up in k and down in q."""
    for block in model.blocks:
        layer = block.attention
        first = torch.arange(layer.n_heads) * layer.d_head
        for channel in (first, first + layer.d_head // 2):
            for part in (layer.k.weight, layer.k.bias):
                part[channel] *= factor
            for part in (layer.q.weight, layer.q.bias):
                part[channel] /= factor


if __name__ == "__main__":
    record.main("quantization", __doc__, measure)
