"""A small language model, beside compressors and LSTMs: ``python book/experiments/language.py``.

All models read the same bytes in the same order, and each gets the same number of tries at its
learning rate, judged on validation text. What is reported is measured on held-out text that no
choice has seen. One model is trained for longer; its weights go to ``attnlearn/weights``.
"""

from __future__ import annotations

import gzip
import json
import lzma
from collections.abc import Callable
from functools import partial
from time import process_time

import numpy as np
import record
import text
import torch
from torch import Tensor
from train import LSTM, contest, fit, multiply_adds, size

from attnlearn.nn import TinyLM
from attnlearn.position import Rotary

WEIGHTS = record.ROOT / "attnlearn" / "weights" / "tinylm.npz"
CONTEXT, BATCH, VOCAB = 256, 8, 256
SHAPE = {"vocab": VOCAB, "d_model": 96, "n_layers": 4, "n_heads": 4}
RATES = 2e-3, 5e-3, 12e-3
SEEDS = 0, 1
BINS = (1, 2), (2, 4), (4, 8), (8, 16), (16, 32), (32, 64), (64, 128), (128, 257)


def measure(quick: bool) -> tuple[tuple, dict]:
    data = {part: text.tokens(found) for part, found in text.parts().items()}
    steps, longer, seeds = (2, 2, SEEDS[:1]) if quick else (300, 1500, SEEDS)
    if quick:
        data = {part: found[:800] for part, found in data.items()}
    models = {name: compare(name, make, data, steps, seeds) for name, make in makers().items()}
    rates = {name: model["learning_rate"] / 2 for name, model in models.items()}
    figures = {
        "text": text.about(),
        "compressors": compressors(),
        "context_bytes": CONTEXT,
        "context_from": [first for first, _ in BINS],
        "tokens": steps * BATCH * CONTEXT,
        "tokens_per_try": steps // 2 * BATCH * CONTEXT,
        "models": models,
        "shipped": longer_run("transformer", data, longer, rates, None if quick else WEIGHTS),
        "rival": longer_run("lstm_equal_compute", data, longer, rates),
    }
    return seeds, figures


def makers() -> dict[str, Callable]:
    return contest(transformer, VOCAB, CONTEXT)


def transformer() -> TinyLM:
    return TinyLM(**SHAPE, position=Rotary())


def compare(name: str, make: Callable, data: dict, steps: int, seeds) -> dict:
    """Choose a learning rate, train once for each seed, and measure on held-out text."""
    tried = {}
    for lr in RATES:
        model, _ = trained(make, data, steps // 2, lr, seed=99)
        tried[f"{lr:g}"] = bits_per_byte(model, data["validation"])
        print(f"{name}: learning rate {lr:g}: {tried[f'{lr:g}']:.3f} bits", flush=True)
    lr = float(min(tried, key=tried.get))
    runs = [trained(make, data, steps, lr, seed) for seed in seeds]
    models = [model for model, _ in runs]
    found = {
        "width": models[0].embedding.embedding_dim,
        "parameters": size(models[0]),
        "multiply_adds_per_token": multiply_adds(models[0], CONTEXT),
        "learning_rate": lr,
        "validation_bits_by_learning_rate": tried,
        "bits_per_byte": [bits_per_byte(model, data["held_out"]) for model in models],
        "bits_by_context": [bits_by_context(model, data["held_out"]) for model in models],
        "training_seconds": [seconds for _, seconds in runs],
    }
    if isinstance(models[0], LSTM):
        found["bits_per_byte_carried"] = [carried(model, data["held_out"]) for model in models]
    print(name, found["bits_per_byte"], flush=True)
    return found


def trained(make, data, steps: int, lr: float, seed: int, watch=None) -> tuple:
    """A model after so many steps, and the seconds of processor time that it took."""
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(1000 + seed)
    model, start = make(), process_time()

    def loss():
        return model.bits(text.sample(data["train"], BATCH, CONTEXT + 1, generator)).mean()

    fit(model, loss, steps, lr, watch and partial(watch, model))
    return model, process_time() - start


@torch.no_grad()
def bits_per_byte(model, tokens: Tensor, stride: int = CONTEXT // 2) -> float:
    """Over the whole text: each byte with 128 to 256 bytes of context, or all there are before it.

    The first byte has none and is charged 8 bits.
    """
    cost = torch.full((len(tokens),), torch.nan)
    cost[0] = 8.0
    places = text.windows(torch.arange(len(tokens)), CONTEXT + 1, stride)[:, 1:]
    for where, found in zip(places, every_bit(model, tokens, stride), strict=True):
        new = cost[where].isnan()
        cost[where[new]] = found[new]
    return cost.mean().item()


@torch.no_grad()
def bits_by_context(model, tokens: Tensor) -> list[float]:
    """Bits of bytes that have 1, 2 to 3, 4 to 7, ... bytes before them, and nothing else."""
    found = every_bit(model, tokens, CONTEXT // 8).mean(0)
    return [found[first - 1 : last - 1].mean().item() for first, last in BINS]


def every_bit(model, tokens: Tensor, stride: int) -> Tensor:
    """Bits of windows [n, CONTEXT], each read from a clean start."""
    stretches = text.windows(tokens, CONTEXT + 1, stride)
    return torch.cat([model.bits(some) for some in stretches.split(32)])


@torch.no_grad()
def carried(model: LSTM, tokens: Tensor) -> float:
    """Bits per byte of an LSTM that reads the whole text and never forgets its state."""
    return (8.0 + model.bits(tokens[None]).sum().item()) / len(tokens)


def compressors() -> dict[str, float]:
    """Bits per byte of the held-out text: alone, and what it adds to the training text's file."""
    found = text.parts()
    train, held_out = found["train"], found["held_out"]
    share = torch.bincount(text.tokens(held_out), minlength=256) / len(held_out)
    bits = {"order_0_entropy": -share.xlogy(share).sum().item() / torch.tensor(2.0).log().item()}
    tools = {
        "gzip_9": partial(gzip.compress, compresslevel=9, mtime=0),  # looks back 32 KB
        "xz_9": partial(lzma.compress, preset=9),
    }
    for name, tool in tools.items():
        alone, both = len(tool(held_out)), len(tool(train + held_out))
        bits[f"{name}_alone"] = 8 * alone / len(held_out)
        bits[f"{name}_after_training_text"] = 8 * (both - len(tool(train))) / len(held_out)
    return bits


def longer_run(name: str, data: dict, steps: int, rates: dict, path=None) -> dict:
    """Train longer, at half the rate that was best in short runs; round to half precision."""
    curve = []

    @torch.no_grad()
    def watch(model, step):
        if step % max(1, steps // 15) == 0:
            row = {"tokens": step * BATCH * CONTEXT}
            for part in ("train", "validation"):
                some = data[part][: len(data["validation"])]
                row[part] = every_bit(model, some, CONTEXT)[:, CONTEXT // 4 :].mean().item()
            curve.append(row)
            print(name, row, flush=True)

    model, seconds = trained(makers()[name], data, steps, rates[name], SEEDS[0], watch)
    exact = bits_per_byte(model, data["held_out"])
    model = model.half().float()
    if path:
        path.parent.mkdir(exist_ok=True)
        save(model, path)
    return {
        "model": name,
        "tokens": steps * BATCH * CONTEXT,
        "learning_rate": rates[name],
        "seed": SEEDS[0],
        "training_seconds": seconds,
        "curve": curve,
        "bits_per_byte_before_rounding": exact,
        "bits_per_byte": bits_per_byte(model, data["held_out"]),
        "bits_by_context": bits_by_context(model, data["held_out"]),
        "file_bytes": path.stat().st_size if path else None,
    }


def save(model: TinyLM, path) -> None:
    """The weights in half precision, what they are for, and the arguments that made the model."""
    state = {
        name: (x.half() if x.is_floating_point() else x).numpy()
        for name, x in model.state_dict().items()
    }
    np.savez_compressed(path, settings=np.frombuffer(json.dumps(SHAPE).encode(), np.uint8), **state)


if __name__ == "__main__":
    record.main("language", __doc__, measure)
