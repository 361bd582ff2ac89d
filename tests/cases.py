"""What every implementation is run on: a new mask or shape is one more line here."""

import numpy as np
import torch

from attnlearn import (
    Causal,
    Chunked,
    Dense,
    Dilated,
    Document,
    Full,
    Global,
    PerExample,
    PerHead,
    Prefix,
    RandomBlocks,
    Window,
    padding,
)
from attnlearn.api import IMPLS

LENGTH = 300  # masks that hold arrays are made for so many positions

IDS = np.repeat(np.arange(6), [1, 40, 59, 100, 30, 70])
TORN = np.arange(LENGTH) // 7 % 3
# A ring of 40 slots, turned by 11: the last ones are empty.
RING = np.where(np.arange(LENGTH) < 40, (np.arange(LENGTH) + 11) % 40, -1)
MIXED = np.random.RandomState(0).permutation(LENGTH)

# Masks that are the same for every example and head.
MASKS = [
    Full(),
    Causal(),
    Window(5),
    Causal() & Window(5),
    Causal() | Prefix(7),
    ~Causal(),
    Causal() & Dilated(3),
    Causal() & Chunked(16),
    Window(4) | Global(2),
    Document(IDS) & Causal(),
    Document(TORN) | Window(2),
    Causal() & (Window(3) | Global(1) | RandomBlocks(8, 1, seed=0, length=LENGTH)),
    Causal().shift(-3),
    (Causal() & Window(30)).gather(RING),
    ~Full(),
]

# Masks for two examples, or for four heads.
SPREAD = [
    padding([5, 2]),
    padding([0, 300]) & Causal(),
    Causal().shift([-2, 1]) & padding([4, 6]),
    Document(np.stack([IDS, TORN])),
    (Causal() & Document(IDS)).gather(np.stack([RING, MIXED])),
    PerExample((Causal(), Window(3))),
    PerHead((Causal(), Full(), Window(2), Causal() | Prefix(3))),
    RandomBlocks(4, 1, seed=[0, 1, 2, 3], length=LENGTH) | Window(2),
]

# batch, Hq, Hk, T, S, D, E
SHAPES = [
    ((2,), 4, 4, 8, 8, 16, 16),
    ((2,), 4, 2, 37, 37, 16, 16),
    ((2,), 4, 1, 5, 100, 8, 12),
    ((2,), 4, 4, 1, 9, 8, 8),
    ((2,), 4, 2, 9, 4, 8, 8),
]

# Triton has no float64, and on the CPU an interpreter that takes a tenth of a second for what takes
# the others a millisecond: test_kernels.py runs it on cases of its own.
ALL_IMPLS = [name for name in IMPLS if name != "triton"]
TORCH_IMPLS = [name for name in ALL_IMPLS if name != "reference"]


def draw(shape, seed=0, dtype=np.float64):
    """q, k, v of one shape of SHAPES."""
    batch, Hq, Hk, T, S, D, E = shape
    rng = np.random.RandomState(seed)
    sizes = ((*batch, Hq, T, D), (*batch, Hk, S, D), (*batch, Hk, S, E))
    return [rng.standard_normal(size).astype(dtype) for size in sizes]


def small_dense(T, S, seed=0):
    """A random matrix as a mask, with one row that sees nothing and one key that nobody sees."""
    seen = np.random.RandomState(seed).rand(T, S) < 0.5
    seen[T // 2], seen[:, S // 2] = False, False
    return Dense(seen)


def loss(o):
    """Weighs every number of a tensor differently."""
    weights = torch.linspace(-1, 2, o.numel(), dtype=torch.float64, device=o.device)
    return (o.double() * weights.view(o.shape)).sum()


def results(f, inputs, *args):
    """The output of f, and the gradients of its tensors."""
    inputs = [x.detach().clone().requires_grad_() for x in inputs]
    o = f(*inputs, *args)
    return [o.detach(), *torch.autograd.grad(loss(o), inputs)]
