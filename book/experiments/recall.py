"""Recall as distance grows, Transformer and LSTM: ``python book/experiments/recall.py``.

Tokens that each tell a key and its value; then filler; then the keys alone, in another order, and
after each the model must say its value. Distance: 4 pairs, and 4 to 128 tokens of filler. Load:
more pairs, and no filler. One model of each kind learns all of it, from the same examples.
"""

from __future__ import annotations

from collections.abc import Callable
from time import process_time

import record
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from train import contest, fit, multiply_adds, size

from attnlearn.nn import TinyLM
from attnlearn.position import Rotary

KEYS, VALUES, FILLERS = 16, 8, 16
QUESTION = KEYS * VALUES  # tokens: first the pairs, then the keys alone, the answers, the filler
ANSWER = QUESTION + KEYS
VOCAB = ANSWER + VALUES + FILLERS
PAIRS, DISTANCES, LOADS = 4, (4, 8, 16, 32, 64, 128), (2, 4, 8, 16)
SETTINGS = [*((PAIRS, filler) for filler in DISTANCES), *((pairs, 0) for pairs in LOADS)]
LONGEST = 2 * PAIRS + DISTANCES[-1]
BATCH, STEPS, RATES = 32, 1200, (2e-3, 4e-3, 8e-3)
SEEDS = 0, 1, 2


def measure(quick: bool) -> tuple[tuple, dict]:
    steps, seeds = (2, SEEDS[:1]) if quick else (STEPS, SEEDS)
    sides = contest(transformer, VOCAB, LONGEST)
    figures = {
        "task": {
            "keys": KEYS,
            "values": VALUES,
            "fillers": FILLERS,
            "chance": 1 / VALUES,
            "pairs": PAIRS,
            "distances": DISTANCES,
            "loads": LOADS,
            "steps": steps,
            "steps_per_try": max(1, steps // 3),
            "batch": BATCH,
            "checkpoints": checkpoints(steps),
        },
        "models": {name: compare(name, make, steps, seeds) for name, make in sides.items()},
    }
    return seeds, figures


def transformer() -> TinyLM:
    return TinyLM(VOCAB, d_model=64, n_layers=2, n_heads=4, position=Rotary())


def compare(name: str, make: Callable, steps: int, seeds) -> dict:
    """Choose a learning rate on a seed of its own, train for each seed, and measure."""
    tried = {}
    for lr in RATES:
        model, *_ = trained(make, max(1, steps // 3), lr, seed=99, checkpoints=())
        tried[f"{lr:g}"] = loss_of(model, torch.Generator().manual_seed(8))
        print(f"{name}: learning rate {lr:g}: loss {tried[f'{lr:g}']:.3f}", flush=True)
    lr = float(min(tried, key=tried.get))
    by_distance, by_load, by_step, seconds = [], [], [], []
    for seed in seeds:
        model, took, curve = trained(make, steps, lr, seed, checkpoints(steps))
        by_distance.append([accuracy(model, PAIRS, filler) for filler in DISTANCES])
        by_load.append([accuracy(model, pairs, 0) for pairs in LOADS])
        by_step.append(curve)
        seconds.append(took)
        print(name, by_distance[-1], by_load[-1], round(took), "s", flush=True)
    return {
        "width": model.embedding.embedding_dim,
        "parameters": size(model),
        "multiply_adds_per_token": multiply_adds(model, LONGEST),
        "learning_rate": lr,
        "loss_by_learning_rate": tried,
        "by_distance": by_distance,
        "by_load": by_load,
        "by_step": by_step,
        "training_seconds": seconds,
    }


def trained(make: Callable, steps: int, lr: float, seed: int, checkpoints) -> tuple:
    """A model after so many steps, each at one setting drawn by lot; its seconds; its curve."""
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(1000 + seed)
    model, start, curve = make(), process_time(), []

    def loss():
        at = torch.randint(len(SETTINGS), (), generator=generator).item()
        return error(model, *draw(BATCH, *SETTINGS[at], generator))

    def watch(step):
        if step in checkpoints:
            found = [accuracy(model, PAIRS, filler, 256) for filler in DISTANCES]
            curve.append(sum(found) / len(found))

    fit(model, loss, steps, lr, watch)
    return model, process_time() - start, curve


def checkpoints(steps: int) -> list[int]:
    """After how many steps the accuracy, as a mean over all distances, is written down."""
    return [*range(0, steps, max(1, steps // 8)), steps]


def draw(batch: int, pairs: int, filler: int, generator) -> tuple[Tensor, Tensor]:
    """Tokens [batch, pairs + filler + pairs], and the answers to the last ``pairs`` of them."""
    keys = torch.rand(batch, KEYS, generator=generator).argsort(-1)[:, :pairs]
    values = torch.randint(VALUES, (batch, pairs), generator=generator)
    noise = torch.randint(ANSWER + VALUES, VOCAB, (batch, filler), generator=generator)
    order = torch.rand(batch, pairs, generator=generator).argsort(-1)
    tokens = torch.cat((keys * VALUES + values, noise, QUESTION + keys.gather(1, order)), 1)
    return tokens, ANSWER + values.gather(1, order)


def error(model, tokens: Tensor, answers: Tensor) -> Tensor:
    return cross_entropy(model(tokens)[:, -answers.shape[1] :].mT, answers)


@torch.no_grad()
def loss_of(model, generator) -> float:
    """The mean error over all settings."""
    errors = [error(model, *draw(64, *setting, generator)) for setting in SETTINGS]
    return torch.stack(errors).mean().item()


@torch.no_grad()
def accuracy(model, pairs: int, filler: int, questions: int = 1024) -> float:
    """The share of right values."""
    generator = torch.Generator().manual_seed(7)
    tokens, answers = draw(questions // pairs, pairs, filler, generator)
    said = model(tokens)[:, -pairs:].argmax(-1)
    return (said == answers).float().mean().item()


if __name__ == "__main__":
    record.main("recall", __doc__, measure)
