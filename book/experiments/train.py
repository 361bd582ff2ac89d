"""One way to train for all experiments, and what a model costs."""

from __future__ import annotations

import math
from bisect import bisect
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn

from attnlearn.nn import TinyLM
from attnlearn.nn.model import bits


def fit(model: nn.Module, loss: Callable[[], Tensor], steps: int, lr: float, watch=None) -> None:
    """Minimise ``loss()``, which draws its own batch: AdamW, warm-up over a tenth, then a cosine.

    Matrices decay by 0.1, gradients are cut at a norm of 1; ``watch(step)`` is called before each
    step, and once after the last.
    """
    matrices = [p for p in model.parameters() if p.ndim > 1]
    others = [p for p in model.parameters() if p.ndim < 2]
    groups = [{"params": matrices, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
    adam = torch.optim.AdamW(groups, lr=lr, betas=(0.9, 0.98), fused=True)
    falling = torch.optim.lr_scheduler.LambdaLR(adam, lambda step: rate(step, steps))
    watch = watch or (lambda step: None)
    model.train()
    for step in range(steps):
        watch(step)
        loss().backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        adam.step()
        adam.zero_grad()
        falling.step()
    watch(steps)
    model.eval()


def rate(step: int, steps: int, warm_up: float = 0.1, least: float = 0.02) -> float:
    """The share of the learning rate at a step: up a line, then down half a cosine."""
    done = (step + 1) / steps
    if done < warm_up:
        return done / warm_up
    return least + (1 - least) * (1 + math.cos(math.pi * (done - warm_up) / (1 - warm_up))) / 2


class LSTM(nn.Module):
    """The rival: tokens [B, T] -> logits [B, T, vocab], the embedding used again at the end."""

    def __init__(self, vocab: int, width: int, layers: int = 2):
        super().__init__()
        self.embedding = nn.Embedding(vocab, width)
        self.cells = nn.LSTM(width, width, layers, batch_first=True)
        for name, bias in self.cells.named_parameters():
            if name.startswith("bias_ih"):
                bias.data[width : 2 * width] = 1.0  # forget gates start open

    def forward(self, tokens: Tensor) -> Tensor:
        return self.cells(self.embedding(tokens))[0] @ self.embedding.weight.T

    def bits(self, tokens: Tensor) -> Tensor:
        return bits(self(tokens[:, :-1]), tokens[:, 1:])


def size(model: nn.Module) -> int:
    """How many numbers are trained."""
    return sum(p.numel() for p in model.parameters())


def multiply_adds(model: TinyLM | LSTM, length: int) -> float:
    """Multiply-adds for each token of a sequence of this length, the reading of the answer too.

    A matrix [n, m] takes n · m. A causal query sees (length + 1) / 2 keys on average, and takes
    C for each in the scores and C in the sum of values, in every layer.
    """
    matrices = sum(p.numel() for p in model.parameters() if p.ndim > 1)
    if isinstance(model, LSTM):
        return matrices
    layers, width = len(model.blocks), model.embedding.embedding_dim
    return matrices + layers * 2 * width * (length + 1) / 2


def contest(transformer: Callable, vocab: int, length: int) -> dict[str, Callable]:
    """What makes each side: the Transformer, LSTMs of as many parameters and multiply-adds."""
    ours, operations = transformer(), partial(multiply_adds, length=length)
    return {
        "transformer": transformer,
        "lstm_equal_parameters": partial(LSTM, vocab, rival(size, size(ours), vocab)),
        "lstm_equal_compute": partial(LSTM, vocab, rival(operations, operations(ours), vocab)),
    }


def rival(cost: Callable[[LSTM], float], target: float, vocab: int) -> int:
    """The width of the largest LSTM that costs no more than ``target``."""
    with torch.device("meta"):  # shapes alone: nothing is filled
        return bisect(range(1, 1025), target, key=lambda width: cost(LSTM(vocab, width)))
