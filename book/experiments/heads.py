"""What more heads buy, at equal width: ``python book/experiments/heads.py``.

The task. 24 tokens, in any order; each carries a name, one of 16 values, and four of the names,
now and then its own. Each must say the four values, in the order asked. One layer of attention and
a small MLP must do it; nothing is added around the attention, so all that it answers came through
a head.
"""

from __future__ import annotations

from functools import partial

import record
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from train import fit, size

from attnlearn.nn import DropHead, MultiHeadAttention

PLACES, VALUES, ASKED, WIDTH = 24, 16, 4, 64
BATCH, STEPS, RATE = 32, 700, 5e-3
SEEDS, FEW = (0, 1, 2, 3, 4), (0, 1, 2)


def measure(quick: bool) -> tuple[tuple, dict]:
    steps, seeds, few = (2, SEEDS[:1], FEW[:1]) if quick else (STEPS, SEEDS, FEW)
    plain = [[trained(steps, seed, heads) for seed in seeds] for heads in (1, 2, 4, 8, 16)]
    dropped = [trained(steps, seed, 8, attend=DropHead(0.2)) for seed in seeds]
    eight = plain[3]
    figures = {
        "task": {"places": PLACES, "values": VALUES, "asked": ASKED, "width": WIDTH,
                 "steps": steps, "batch": BATCH, "chance": 1 / VALUES},
        "by_heads": {str(runs[0].attention.n_heads): summary(runs) for runs in plain},
        "shared": {name: summary([trained(steps, seed, 8, **options) for seed in few])
                   for name, options in SHARING.items()},
        "looks": {str(runs[0].attention.n_heads): [looks(model) for model in runs]
                  for runs in plain},
        "pruning": {"plain": [pruned(model) for model in eight],
                    "drop_head_0.2": [pruned(model) for model in dropped]},
        "regularisers": regularised(steps, few, eight),
    }  # fmt: skip
    return seeds, figures


SHARING = {
    "gqa_4_kv_heads": {"n_kv_heads": 4},
    "gqa_2_kv_heads": {"n_kv_heads": 2},
    "mqa_1_kv_head": {"n_kv_heads": 1},
    "share_values": {"share_values": True},
}


class Looker(nn.Module):
    """Names, values [B, T] and asked names [B, T, ASKED] -> logits [B, T, ASKED, VALUES]."""

    def __init__(self, heads: int, **options):
        super().__init__()
        self.name, self.value = nn.Embedding(PLACES, WIDTH), nn.Embedding(VALUES, WIDTH)
        self.asked = nn.Embedding(ASKED * PLACES, WIDTH)
        self.attention = MultiHeadAttention(WIDTH, heads, **options)
        self.read = nn.Sequential(
            nn.RMSNorm(WIDTH),
            nn.Linear(WIDTH, 2 * WIDTH),
            nn.GELU(),
            nn.Linear(2 * WIDTH, ASKED * VALUES),
        )

    def embed(self, names: Tensor, values: Tensor, asked: Tensor) -> Tensor:
        first_second = asked + PLACES * torch.arange(ASKED)
        return self.name(names) + self.value(values) + self.asked(first_second).sum(-2)

    def forward(self, *example: Tensor) -> Tensor:
        return self.read(self.attention(self.embed(*example))).unflatten(-1, (ASKED, VALUES))


def draw(batch: int, generator: torch.Generator) -> tuple[tuple, Tensor, Tensor]:
    """Examples, where the answers stand [B, T, ASKED], and the answers [B, T, ASKED]."""
    names = torch.rand(batch, PLACES, generator=generator).argsort(-1)
    values = torch.randint(VALUES, (batch, PLACES), generator=generator)
    asked = torch.rand(batch, PLACES, PLACES, generator=generator).argsort(-1)[..., :ASKED]
    where = names.argsort(-1).gather(-1, asked.flatten(1)).view_as(asked)
    answers = values.gather(-1, where.flatten(1)).view_as(asked)
    return (names, values, asked), where, answers


def trained(steps: int, seed: int, heads: int, extra=None, **options) -> Looker:
    """A model after so many steps; ``extra(model, example)`` is added to its loss."""
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(1000 + seed)
    model = Looker(heads, **options)

    def loss():
        example, _, answers = draw(BATCH, generator)
        error = cross_entropy(model(*example).flatten(0, 2), answers.flatten())
        return error + extra(model, example) if extra else error

    fit(model, loss, steps, RATE)
    print(heads, options, "seed", seed, "accuracy", round(accuracy(model), 3), flush=True)
    return model


def exam() -> tuple[tuple, Tensor, Tensor]:
    """The same unseen examples for all: 12288 questions."""
    return draw(128, torch.Generator().manual_seed(7))


@torch.no_grad()
def accuracy(model: Looker) -> float:
    """The share of right answers."""
    example, _, answers = exam()
    return (model(*example).argmax(-1) == answers).float().mean().item()


def summary(models: list[Looker]) -> dict:
    """Accuracy of each seed, and what the attention layer costs."""
    layer = models[0].attention
    return {
        "head_width": layer.d_head,
        "attention_parameters": size(layer),
        "accuracy": [accuracy(model) for model in models],
        "cosine_between_heads": [cosine(model) for model in models] if layer.n_heads > 1 else None,
    }


@torch.no_grad()
def looks(model: Looker) -> list[list[float]]:
    """The weight that each head gives to the first, second, ... place asked: [heads, ASKED]."""
    example, where, _ = exam()
    weights = model.attention.weights(model.embed(*example))
    index = where[:, None].expand(-1, weights.shape[1], -1, -1)
    return weights.gather(-1, index).mean((0, 2)).tolist()


@torch.no_grad()
def cosine(model: Looker) -> float:
    """The mean cosine between the weights of two heads, over all pairs and queries."""
    weights = model.attention.weights(model.embed(*exam()[0]))
    return between_heads(weights / weights.norm(dim=-1, keepdim=True)).item()


def pruned(model: Looker) -> dict:
    """Accuracy without each head in turn, and as the least useful goes first, one by one."""
    heads = model.attention.n_heads
    every = frozenset(range(heads))
    without = {kept: accuracy_with(model, kept) for kept in (every - {h} for h in range(heads))}
    kept, curve = every, [accuracy_with(model, every)]
    while len(kept) > 1:
        kept = max((kept - {h} for h in sorted(kept)), key=partial(accuracy_with, model))
        curve.append(accuracy_with(model, kept))
    return {"without_head": list(without.values()), "greedy": curve}


def accuracy_with(model: Looker, kept: frozenset) -> float:
    """Accuracy when the output projection reads some heads only."""
    o, layer = model.attention.o.weight, model.attention
    whole = o.data
    keep = torch.tensor([float(h in kept) for h in range(layer.n_heads)])
    o.data = whole * keep.repeat_interleave(layer.d_head)
    found = accuracy(model)
    o.data = whole
    return found


def variance(model: Looker, example: tuple) -> Tensor:
    """The popular "regulariser": mean(var(attn, dim=1)), the variance between heads."""
    return model.attention.weights(model.embed(*example)).var(1).mean()


def agreement(model: Looker, example: tuple) -> Tensor:
    """How much two heads look at the same places (arXiv 1810.10183, on positions)."""
    return between_heads(model.attention.weights(model.embed(*example)))


def between_heads(weights: Tensor) -> Tensor:
    """The mean product of two heads' rows, over all pairs of heads and all queries."""
    same = torch.einsum("bhts,bgts->hg", weights, weights) / (len(weights) * PLACES)
    return (same.sum() - same.trace()) / (len(same) * (len(same) - 1))


def regularised(steps: int, seeds: tuple, plain: list[Looker]) -> list[dict]:
    """Cosine between heads and accuracy, under both terms, at several weights."""
    rows = [{"term": "none", "weight": 0.0, "models": plain[: len(seeds)]}]
    for term, weights in ((variance, (0.01, 10.0, 1000.0)), (agreement, (0.01, 1.0, 10.0))):
        for weight in weights:
            extra = partial(weighted, term, weight)
            models = [trained(steps, seed, 8, extra) for seed in seeds]
            rows.append({"term": term.__name__, "weight": weight, "models": models})
    for row in rows:
        models = row.pop("models")
        row["cosine_between_heads"] = [cosine(model) for model in models]
        row["accuracy"] = [accuracy(model) for model in models]
    return rows


def weighted(term, weight: float, model: Looker, example: tuple) -> Tensor:
    return weight * term(model, example)


if __name__ == "__main__":
    record.main("heads", __doc__, measure)
