"""Beyond the length a model was trained at: ``python book/experiments/extrapolation.py``.

Small language models that differ in nothing but their scheme of positions learn from stretches of
64 bytes, and then read stretches of 512 held-out bytes.
"""

from __future__ import annotations

from itertools import pairwise

import record
import text
import torch
from torch import Tensor
from train import fit, size

from attnlearn.nn import TinyLM
from attnlearn.position import Alibi, Learned, Position, Rotary, Sinusoidal

TRAINED, LONGEST = 64, 512
EDGES = (0, 16, 32, 48, 64, 96, 128, 192, 256, 384, LONGEST)
WIDTH, LAYERS, BATCH, STEPS, RATE = 64, 3, 32, 600, 5e-3
SEEDS = 0, 1
SCHEMES = {
    "none": Position,
    "sinusoidal": Sinusoidal,
    "learned": lambda: Learned(TRAINED, WIDTH),
    "rotary": Rotary,
    "alibi": Alibi,
}


def measure(quick: bool) -> tuple[tuple, dict]:
    steps, seeds = (2, SEEDS[:1]) if quick else (STEPS, SEEDS)
    data = {part: text.tokens(found) for part, found in text.parts().items()}
    held_out = data["held_out"][: 2 * LONGEST if quick else None]
    bits = {}
    for name, scheme in SCHEMES.items():
        models = [trained(scheme, data["train"], steps, seed) for seed in seeds]
        bits[name] = [by_position(model, held_out) for model in models]
        print(name, bits[name], flush=True)
    figures = {
        "trained_length": TRAINED,
        "longest": LONGEST,
        "width": WIDTH,
        "layers": LAYERS,
        "parameters": size(TinyLM(256, WIDTH, LAYERS)),
        "tokens": steps * BATCH * TRAINED,
        "learning_rate": RATE,
        "edges": EDGES[:-1],
        "bits": bits,
        "learned_error": refusal(),
    }
    return seeds, figures


def trained(scheme, tokens: Tensor, steps: int, seed: int) -> TinyLM:
    """A model with this scheme of positions; a seed draws the same bytes for all schemes."""
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(1000 + seed)
    model = TinyLM(256, WIDTH, LAYERS, position=scheme())

    def loss():
        return model.bits(text.sample(tokens, BATCH, TRAINED + 1, generator)).mean()

    fit(model, loss, steps, RATE)
    return model


@torch.no_grad()
def by_position(model: TinyLM, tokens: Tensor) -> list[float | None]:
    """Bits per byte between the edges; None where the model has no positions for so many."""
    length = TRAINED if isinstance(model.position, Learned) else LONGEST
    stretches = text.windows(tokens, LONGEST + 1, LONGEST // 4)[:, : length + 1]
    found = torch.cat([model.bits(some) for some in stretches.split(16)]).mean(0)
    bins = pairwise(EDGES)
    return [found[a:b].mean().item() if b <= length else None for a, b in bins]


def refusal() -> str:
    """What a table of positions says to a sequence that is one token too long."""
    model = TinyLM(256, WIDTH, LAYERS, position=Learned(TRAINED, WIDTH))
    try:
        model(torch.zeros(1, TRAINED + 1, dtype=torch.long))
    except ValueError as error:
        return str(error)
    raise AssertionError("the table accepted a position that it does not have")


if __name__ == "__main__":
    record.main("extrapolation", __doc__, measure)
