"""The Triton kernels: in the interpreter on a CPU, on the GPU where there is one.

The interpreter takes about 15 ms for one visit of one tile, so shapes are small.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import cases
import numpy as np
import pytest
import torch
from cases import loss, results
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

pytest.importorskip("triton", reason="Triton exists for Linux only")

from attnlearn import (
    EMPTY,
    FULL,
    PARTIAL,
    Causal,
    Dense,
    Dilated,
    Document,
    Full,
    Global,
    PerHead,
    RandomBlocks,
    Window,
    attention,
    dense,
    kernels,
    padding,
    pick,
    quant,
)
from attnlearn.kernels import launch, sizes, tiles

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
pytestmark = [pytest.mark.gpu] if DEVICE == "cuda" else []
HERE = Path(__file__).parent
SCALE = 0.3


@pytest.fixture
def small_tiles(monkeypatch):
    """Tiles so small that a short sequence has many of them."""
    monkeypatch.setattr(launch, "size", lambda *_: sizes.Size(16, 32, 4, 2))


def draw(*shape, dtype=torch.float32, seed=0):
    return [torch.from_numpy(x).to(DEVICE, dtype) for x in cases.draw(shape, seed)]


def by_pytorch(q, k, v, mask, scale):
    seen = torch.tensor(mask.dense(q.shape[-2], k.shape[-2]), device=DEVICE)
    k, v = (x.repeat_interleave(q.shape[-3] // k.shape[-3], -3) for x in (k, v))
    with sdpa_kernel(SDPBackend.MATH):
        return scaled_dot_product_attention(q, k, v, seen, scale=scale)


def check(mask, *shape, dtype=torch.float32, scale=SCALE):
    """At most twice the error of PyTorch in the same dtype, for outputs and gradients."""
    qkv = draw(*shape, dtype=dtype)
    exact = results(dense.attention, [x.double() for x in qkv], mask, scale)
    theirs = results(by_pytorch, qkv, mask, scale)
    ours = results(kernels.attention, qkv, mask, scale)
    for name, want, a, b in zip(("o", "dq", "dk", "dv"), exact, ours, theirs, strict=True):
        assert a.dtype == dtype
        assert a.shape == want.shape
        if want.numel():
            error, allowed = ((x.double() - want).abs().max() for x in (a, b))
            assert error <= max(2 * allowed, 1e-5 * want.abs().max(), 1e-30), name


@pytest.mark.parametrize("mask", cases.MASKS, ids=repr)
def test_every_mask(mask, small_tiles):
    check(mask, (1,), 2, 1, 37, 41, 16, 12)


@pytest.mark.parametrize("mask", cases.SPREAD, ids=repr)
def test_masks_per_example_and_per_head(mask):
    check(mask, (2,), 4, 2, 20, 20, 8, 8)


ODD = [
    ((1,), 1, 1, 1, 1, 1, 1),
    ((), 2, 2, 70, 20, 5, 7),  # the first queries come before every key
    ((2,), 3, 1, 1, 70, 48, 80),
    ((1,), 1, 1, 33, 65, 80, 3),
    ((1,), 1, 1, 9, 9, 96, 96),
    ((1,), 1, 1, 9, 9, 256, 200),
    ((2, 2), 2, 1, 5, 6, 8, 6),
    ((1,), 2, 1, 64, 64, 16, 16),
]


@pytest.mark.parametrize("shape", ODD, ids=str)
def test_odd_shapes(shape):
    check(Causal(), *shape)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("mask", [Full(), Causal() & Window(20)], ids=repr)
def test_half_types(mask, dtype):
    check(mask, (1,), 2, 1, 70, 90, 32, 32, dtype=dtype)


@pytest.mark.parametrize("scale", [0, 1e-46, -1.0])
def test_scale(scale):
    check(Causal(), (1,), 1, 1, 9, 20, 8, 8, scale=scale)


def test_large_logits():
    """q kᵀ = 102,400 is past float16's largest number, 65,504."""
    q = torch.full((1, 1, 4, 64), 40.0, dtype=torch.float16, device=DEVICE)
    v = torch.arange(4.0, device=DEVICE).half().view(1, 1, 4, 1)
    assert kernels.attention(q, q, v, Causal(), 1.0).flatten().tolist() == [0, 0.5, 1, 1.5]


def test_every_tile_brings_a_larger_score(small_tiles):
    """What was summed so far must shrink, each time."""
    q, k, v = (x.abs() for x in draw((1,), 1, 1, 16, 96, 8, 8))
    k = k * torch.linspace(0.1, 2, 96, device=DEVICE)[:, None]
    want = dense.attention(q.double(), k.double(), v.double(), Full(), SCALE)
    torch.testing.assert_close(
        kernels.attention(q, k, v, Full(), SCALE).double(), want, rtol=1e-5, atol=1e-5
    )


def test_log_sum_exp(small_tiles):
    q, k, v = draw((2,), 2, 1, 20, 40, 8, 8)
    mask = Causal() & padding([40, 25])
    _, lse = launch.forward(q, k, v, mask, SCALE)
    s = q.double() @ k.double().mT * SCALE
    s = s.masked_fill(~torch.tensor(mask.dense(20, 40), device=DEVICE), -torch.inf)
    torch.testing.assert_close(lse.double(), s.logsumexp(-1) / np.log(2), rtol=1e-5, atol=1e-5)


def test_a_row_that_sees_nothing(small_tiles):
    seen = np.ones((20, 40), bool)
    seen[3], seen[:, 5], seen[16:] = False, False, False  # 16: a whole tile of queries
    q, k, v = draw((1,), 2, 1, 20, 40, 8, 8)
    o, dq, dk, dv = results(kernels.attention, (q, k, v), Dense(seen), SCALE)
    for x in (o, dq):
        assert (x[..., [3, *range(16, 20)], :] == 0).all()
        assert (x[..., 4, :] != 0).all()
    for x in (dk, dv):
        assert (x[..., 5, :] == 0).all()
        assert x.isfinite().all()


@pytest.mark.parametrize("garbage", [np.nan, np.inf])
def test_what_nobody_sees_reaches_nothing(garbage):
    mask = padding([9, 5]) & Causal()
    clean = draw((2,), 2, 1, 9, 9, 8, 8)
    dirty = [x.clone() for x in clean]
    for x in dirty[1:]:
        x[1, :, 5:] = garbage

    def run(*qkv):
        return attention(*qkv, mask, impl="triton")

    for a, b in zip(results(run, dirty), results(run, clean), strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize(
    "shape",
    [((0,), 2, 1, 4, 4, 3, 3), ((2,), 2, 1, 0, 4, 3, 3), ((2,), 2, 1, 4, 0, 3, 3)],
    ids=["B=0", "T=0", "S=0"],
)
def test_empty_inputs(shape):
    qkv = draw(*shape)
    got = results(kernels.attention, qkv, Causal(), SCALE)
    assert [x.shape for x in got] == [(*qkv[0].shape[:-1], 3), *(x.shape for x in qkv)]
    assert all((x == 0).all() for x in got)


def test_a_window_wider_than_the_sequence():
    q, k, v = draw((1,), 1, 1, 9, 9, 8, 8)
    wide = kernels.attention(q, k, v, Causal() & Window(10**9), SCALE)
    assert torch.equal(wide, kernels.attention(q, k, v, Causal(), SCALE))


def test_strides():
    """Views: heads after tokens, every second column, keys and values interleaved, turned."""
    base = torch.randn(2, 9, 3, 2, 16, generator=torch.Generator().manual_seed(0)).to(DEVICE)
    q, k, v = (base[:, :, n].transpose(1, 2)[..., ::2] for n in range(3))
    pairs = torch.stack([k, v], -1)
    want = results(kernels.attention, [x.contiguous() for x in (q, k, v)], Causal(), SCALE)
    for views in ((q, k, v), (q.mT.contiguous().mT, pairs[..., 0], pairs[..., 1])):
        x = [t.detach().requires_grad_() for t in views]
        o = kernels.attention(*x, Causal(), SCALE)
        gradients = torch.autograd.grad(loss(o), x)
        for a, b in zip((o, *gradients), want, strict=True):
            torch.testing.assert_close(a, b)


def test_expanded_keys_and_an_expanded_gradient():
    """Stride 0: one key head for all, one row for all, and the gradient of a sum."""
    q, k, v = draw((2,), 2, 2, 9, 9, 8, 8)
    for one in (k[:, :1, :1], k[:1]):
        wide = one.expand_as(k)
        a, b = (
            torch.autograd.grad(kernels.attention(q, x, v, Causal(), SCALE).sum(), x)[0]
            for x in (wide.detach().requires_grad_(), wide.contiguous().requires_grad_())
        )
        torch.testing.assert_close(a, b)


def test_addresses_are_counted_in_64_bits():
    """Keys 2**28 numbers apart end beyond 2**31; memory that nobody touches costs nothing."""
    step = 2**28
    storage = torch.empty(9 * step, dtype=torch.float16, device=DEVICE)
    q, k, v = draw((1,), 1, 1, 9, 9, 8, 8, dtype=torch.float16)
    far = storage.as_strided((1, 1, 9, 8), (0, 0, step, 1))
    far.copy_(k)
    assert far.storage_offset() + 8 * far.stride(-2) >= 2**31
    got = kernels.attention(q, far, v, Causal(), SCALE)
    torch.testing.assert_close(got, kernels.attention(q, k, v, Causal(), SCALE))


def test_gradients_only_where_needed():
    q, k, v = draw((1,), 2, 1, 9, 9, 4, 4)
    want = results(kernels.attention, (q, k, v), Causal(), SCALE)[2]
    k.requires_grad_()
    loss(kernels.attention(q, k, v, Causal(), SCALE)).backward()
    assert torch.equal(k.grad, want)
    assert q.grad is None is v.grad


def test_a_second_derivative_raises():
    q, k, v = (x.requires_grad_() for x in draw((1,), 1, 1, 5, 5, 3, 3))
    (dq,) = torch.autograd.grad(kernels.attention(q, k, v, Causal(), 1.0).sum(), q, create_graph=1)
    with pytest.raises(RuntimeError, match="no second derivative"):
        dq.sum().backward()


def test_inputs_are_not_changed():
    qkv = draw((1,), 1, 1, 9, 9, 8, 8)
    before = [x.clone() for x in qkv]
    results(kernels.attention, qkv, Causal(), -1.0)
    assert all(torch.equal(a, b) for a, b in zip(qkv, before, strict=True))


# Queries and keys in integers.

# What the weights and the answer may lose in the dtype of the values.
CLOSE = {torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 1e-2}


def check_integers(mask, *shape, dtype=torch.float32, scale=SCALE, **how):
    """The same integers as ``quant.attention`` multiplies, so nearly the same answer."""
    qkv = draw(*shape, dtype=dtype)
    how = {"scale": scale} | how
    got = quant.attention(*qkv, mask, impl="triton", **how)
    want = quant.attention(*(x.float() for x in qkv), mask, **how)
    assert got.dtype == dtype
    torch.testing.assert_close(got.float(), want, rtol=CLOSE[dtype], atol=CLOSE[dtype])
    if want.numel():
        assert torch.equal((got == 0).all(-1), (want == 0).all(-1))  # rows that see nothing


@pytest.mark.parametrize("mask", cases.MASKS, ids=repr)
def test_integers_under_every_mask(mask, small_tiles):
    check_integers(mask, (1,), 2, 1, 37, 41, 16, 12)


@pytest.mark.parametrize("mask", cases.SPREAD, ids=repr)
def test_integers_under_masks_per_example_and_per_head(mask):
    check_integers(mask, (2,), 4, 2, 20, 20, 8, 8)


@pytest.mark.parametrize("shape", ODD, ids=str)
def test_integers_in_odd_shapes(shape):
    check_integers(Causal(), *shape)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_integers_and_values_of_half_types(dtype):
    check_integers(Causal() & Window(20), (1,), 2, 1, 70, 90, 32, 32, dtype=dtype)


@pytest.mark.parametrize(
    "how", [{"bits": 4}, {"per": "block", "block": 16}, {"per": "tensor", "smooth": False}], ids=str
)
def test_integers_with_other_scales(how):
    check_integers(Causal(), (2,), 2, 1, 40, 70, 16, 16, **how)


@pytest.mark.parametrize("scale", [0, 1e-46, -1.0])
def test_integers_times_a_scale(scale):
    check_integers(Causal(), (1,), 1, 1, 9, 20, 8, 8, scale=scale)


def test_integers_of_tiny_queries():
    """A step so small that times the scale it is 0, and 0 times -inf is NaN."""
    q, k, v = draw((1,), 1, 1, 9, 20, 8, 8)
    got = quant.attention(q * 1e-38, k, v, Causal(), scale=1e-8, impl="triton")
    torch.testing.assert_close(got, attention(q * 0, k, v, Causal()))


def test_integers_that_do_not_fit_16_bits(small_tiles):
    """The sum of 255 products of 127 by 127."""
    q = torch.ones(1, 1, 3, 256, device=DEVICE)
    k = torch.ones(1, 1, 40, 256, device=DEVICE)
    q[..., 1], k[..., 1] = 0, 0  # all the same would be the code 1
    k[..., 17, 0] = -1
    v = torch.arange(40.0, device=DEVICE).view(1, 1, 40, 1)
    for scale, want in ((1.0, (780 - 17) / 39), (-1.0, 17.0)):
        got = quant.attention(q, k, v, scale=10 * scale, smooth=False, impl="triton")
        torch.testing.assert_close(got, torch.full_like(got, want), rtol=1e-5, atol=0)


def test_integers_in_views_and_of_nothing():
    q, k, v = draw((2,), 2, 1, 9, 9, 8, 8)
    pairs = torch.stack([k, v], -1)
    views = q.mT.contiguous().mT, pairs[..., 0], pairs[..., 1]
    want = quant.attention(q, k, v, Causal(), impl="triton")
    assert torch.equal(quant.attention(*views, Causal(), impl="triton"), want)
    codes = (x.to(torch.int8) for x in (q, k))
    scales = torch.ones(2, 2, 9, device=DEVICE), torch.ones(2, 1, 9, device=DEVICE)
    none = [x[:0] for x in (*codes, v, *scales)]
    assert kernels.integers(*none, Causal(), SCALE).shape == (0, 2, 9, 8)


@pytest.mark.parametrize("garbage", [np.nan, np.inf])
def test_what_nobody_sees_reaches_no_integer(garbage):
    mask = padding([9, 5]) & Causal()
    q, k, v = draw((2,), 2, 1, 9, 9, 8, 8)
    want = quant.attention(q, k, v, mask, impl="triton")
    for x in (k, v):
        x[1, :, 5:] = garbage
    assert torch.equal(quant.attention(q, k, v, mask, impl="triton"), want)


# The tile map: the work of the kernels, which can be counted.

COUNTED = [
    *cases.MASKS,
    *cases.SPREAD,
    PerHead([Window(9) | Global(2) | RandomBlocks(8, 1, seed=h, length=300) for h in range(4)]),
]


@pytest.mark.parametrize("by_keys", [False, True])
@pytest.mark.parametrize("mask", COUNTED, ids=repr)
def test_the_map_lists_what_the_mask_keeps_and_nothing_else(mask, by_keys):
    T, S, bq, bk = 130, 150, 16, 32
    kind = mask.blocks(T, S, bq, bk)
    seen = np.broadcast_to(mask.dense(T, S), (*kind.shape[:-2], T, S))
    found = tiles.tiles(mask, T, S, bq, bk, "cpu", by_keys)
    assert len(found.pattern) == len(found.other) - 1 == np.count_nonzero(kind != EMPTY)
    assert found.begin[-1] == len(found.pattern)
    drawn = np.zeros((found.examples * found.heads, 144, 160), bool)
    for line, (full, part, end) in enumerate(
        zip(found.begin[:-1:2], found.begin[1::2], found.begin[2::2], strict=True)
    ):
        z, a = divmod(line, found.lines)
        for n in range(full, end):
            b = int(found.other[n])
            rows, cols = (b, a) if by_keys else (a, b)
            tile = True if n < part else found.seen[found.pattern[n]].numpy()
            drawn[z, rows * bq : (rows + 1) * bq, cols * bk : (cols + 1) * bk] |= tile
    assert not drawn[:, T:].any()
    assert not drawn[..., S:].any()
    np.testing.assert_array_equal(drawn[:, :T, :S], seen.reshape(-1, T, S))


def test_equal_tiles_are_stored_once():
    for mask, patterns in ((Causal(), 1), (Causal() & Window(96), 3), (Dilated(4), 1)):
        assert len(tiles.tiles(mask, 1024, 1024, 64, 64, "cpu").seen) == patterns


def test_a_mask_of_distances_is_asked_once_for_each_diagonal():
    class Noted(Dilated):
        relative = True
        asked = 0

        def __call__(self, i, j):
            Noted.asked += np.size(i) > 1
            return super().__call__(i, j)

    found = tiles.tiles(Noted(3), 1024, 1024, 64, 64, "cpu")
    assert len(found.pattern) == 16 * 16
    assert Noted.asked == 31


def test_the_map_costs_no_matrix():
    class Noted(Window):
        largest = 0

        def __call__(self, i, j):
            seen = super().__call__(i, j)
            Noted.largest = max(Noted.largest, seen.size)
            return seen

    mask = Noted(70)
    found = tiles.tiles(mask, 4096, 4096, 64, 64, "cpu")
    assert Noted.largest == 64 * 64
    assert len(found.pattern) < 5 * 64
    assert tiles.tiles(mask, 4096, 4096, 64, 64, "cpu") is found  # remembered
    for S in range(1, 50):
        tiles.tiles(mask, 1, S, 64, 64, "cpu")
    assert len(vars(mask)["_tiles"]) == tiles.KEPT


def test_hidden_tiles_are_not_read(small_tiles):
    """A kernel that visited an EMPTY tile would meet NaN, and NaN spreads."""
    q, k, v = draw((1,), 1, 1, 64, 96, 8, 8)
    mask = Document(np.repeat([0, 1], [32, 64])) & ~Full() | Window(10)
    empty = mask.blocks(64, 96, 16, 32)[0] == EMPTY
    want = kernels.attention(q, k, v, mask, SCALE)[..., :16, :]
    for b in np.flatnonzero(empty):
        k[..., b * 32 : (b + 1) * 32, :] = np.nan
    assert empty.any()
    assert torch.equal(kernels.attention(q, k, v, mask, SCALE)[..., :16, :], want)


def test_full_tiles_need_no_bounds():
    kind = tiles.kinds(Full(), 40, 70, 16, 32)
    assert (kind[0, 0] == [[FULL, FULL, PARTIAL]] * 2 + [[PARTIAL] * 3]).all()


# What cannot run says so.


def test_auto_takes_triton_on_a_gpu(monkeypatch):
    from torch._subclasses.fake_tensor import FakeTensorMode

    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (9, 0))
    band = Causal() & Window(64)

    def chosen(mask=band, T=512, D=64, E=64, dtype=torch.bfloat16):
        with FakeTensorMode():
            q = torch.empty(1, 1, T, D, dtype=dtype, device="cuda")
            return pick(q, mask, v=q.new_empty(1, 1, T, E))

    assert chosen() == "triton"
    assert chosen(None) == chosen(Causal()) == chosen(T=256) == "sdpa"
    assert chosen(D=257) == chosen(E=257) == chosen(dtype=torch.float32) == "flash"
    monkeypatch.setattr("attnlearn.api.find_spec", lambda name: None)
    assert chosen() == "flash"


def test_a_named_implementation_never_falls_back(monkeypatch):
    monkeypatch.setattr(kernels, "attention", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        attention(*draw((1,), 1, 1, 3, 3, 4, 4), impl="triton")


@pytest.mark.parametrize(
    ("D", "E", "dtype", "error", "words"),
    [
        (4, 4, torch.float64, TypeError, "float16, bfloat16 or float32, got torch.float64"),
        (257, 4, torch.float32, ValueError, "width up to 256, got 257 in q and k"),
        (4, 300, torch.float32, ValueError, "width up to 256, got 300 in v"),
    ],
)
def test_what_does_not_fit_is_named(D, E, dtype, error, words):
    for run in (attention, quant.attention):
        with pytest.raises(error, match=words):
            run(*draw((1,), 1, 1, 3, 3, D, E, dtype=dtype), impl="triton")


def python(code, **env):
    env = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"} | env
    return subprocess.run(
        [sys.executable, *code], env=env, cwd=HERE.parent, capture_output=True, text=True
    )


CALL = "import torch, attnlearn; x = torch.ones(1, 1, 3, 4); attnlearn.attention(x, x, x, impl="


@pytest.mark.parametrize(
    ("before", "words"),
    [
        ("", "set TRITON_INTERPRET=1 in the environment before Triton is imported"),
        (
            "import os, triton.language; os.environ['TRITON_INTERPRET'] = '1'; ",
            "before Triton is imported",
        ),
        ("import sys; sys.modules['triton'] = None; ", "needs the package triton"),
    ],
)
def test_without_gpu_interpreter_or_triton(before, words):
    done = python(["-c", f"{before}{CALL}'triton')"])
    assert done.returncode == 1
    assert words in done.stderr


# Compiling needs no GPU.

COMPILED = ["bf16-64-90", "fp16-256-90", "bf16-80-80", "fp32-16-80"]  # dtype, width, GPU
SHARED = {80: 99 * 1024, 90: 227 * 1024}  # bytes a program may have; 99 KiB on consumer cards


def test_every_kernel_compiles():
    """To machine code, with tensor cores; tiles fit, and are fetched ahead of their use."""
    done = python([str(HERE / "compile_kernels.py"), *COMPILED], PYTHONPATH=str(HERE.parent))
    assert done.returncode == 0, done.stderr
    compiled = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(compiled) == 4 * len(COMPILED)
    for made in compiled:
        assert made["cubin"] > 0
        assert made["shared"] <= SHARED[made["capability"]], made
        instruction = {80: "mma", 90: "wgmma"}[made["capability"]]
        # float32 takes no tensor cores; codes do, whatever the values are.
        assert (made[instruction] > made["int8"]) == (made["dtype"] != "fp32"), made
        assert (made["int8"] > 0) == (made["kernel"] == "int8_kernel"), made
        # The addresses come from a list; Triton's pipeline must take the loads all the same.
        assert made["prefetched"] > 0, made
