"""Flash attention against answers worked out in other ways: row by row, and by PyTorch."""

import cases
import numpy as np
import pytest
import torch
from cases import loss, results
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention
from torch.utils._python_dispatch import TorchDispatchMode

from attnlearn import (
    EMPTY,
    FULL,
    PARTIAL,
    Causal,
    Chunked,
    Dilated,
    Full,
    Global,
    PerHead,
    Prefix,
    Window,
    flash,
    padding,
)

SCALE = 0.3
ODD_SHAPES = [  # batch, Hq, Hk, T, S, D, E
    ((1,), 1, 1, 1, 1, 1, 1),
    ((2,), 3, 3, 70, 20, 5, 7),
    ((2,), 6, 2, 1, 45, 8, 8),
    ((1,), 2, 2, 33, 64, 80, 3),
    ((1,), 2, 1, 9, 9, 4, 0),
    ((), 4, 2, 19, 23, 8, 6),
    ((3, 2), 4, 1, 19, 23, 8, 6),
]


@pytest.fixture
def small_tiles(monkeypatch):
    """Tiles so small that a short sequence has many of them."""
    monkeypatch.setattr(flash, "SIZES", ((16, 32), (8, 8)))


def draw(*shape, dtype=torch.float64):
    return [torch.from_numpy(x).to(dtype) for x in cases.draw(shape)]


def everywhere(mask, q, k):
    """bool [..., Hq, T, S]"""
    return np.broadcast_to(mask.dense(q.shape[-2], k.shape[-2]), (*q.shape[:-1], k.shape[-2]))


def by_row(q, k, v, seen, scale):
    """One softmax per query over the keys it sees: slow, and easy to check by eye."""
    q, k, v = (x.double().numpy() for x in (q, k, v))
    o = np.zeros((*q.shape[:-1], v.shape[-1]))
    group = q.shape[-3] // k.shape[-3]
    for *batch, h, t in np.ndindex(q.shape[:-1]):
        query, head = (*batch, h, t), (*batch, h // group)
        keys = np.flatnonzero(seen[query])
        if len(keys):
            s = k[head][keys] @ q[query] * scale
            p = np.exp(s - s.max())
            o[query] = p / p.sum() @ v[head][keys]
    return o


def by_formula(q, k, v, seen, scale):
    """The whole matrix in plain PyTorch, so that autograd gives the gradients."""
    k, v = (x.repeat_interleave(q.shape[-3] // k.shape[-3], -3) for x in (k, v))
    e = torch.exp(q @ k.mT * scale) * torch.tensor(seen)
    return e / e.sum(-1, keepdim=True).clamp(min=1e-300) @ v


def by_pytorch(q, k, v, seen, scale):
    with sdpa_kernel(SDPBackend.MATH):
        return scaled_dot_product_attention(
            q, k, v, torch.tensor(seen), scale=scale, enable_gqa=True
        )


def check(mask, shape):
    qkv = draw(*shape)
    seen = everywhere(mask, *qkv[:2])
    got = results(flash.attention, qkv, mask, SCALE)
    np.testing.assert_allclose(got[0], by_row(*qkv, seen, SCALE), rtol=1e-9, atol=1e-12)
    for mine, theirs in zip(got, results(by_formula, qkv, seen, SCALE), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("shape", cases.SHAPES, ids=str)
@pytest.mark.parametrize("mask", cases.MASKS + cases.SPREAD, ids=repr)
def test_every_mask(mask, shape, small_tiles):
    check(mask, shape)


@pytest.mark.parametrize("shape", ODD_SHAPES, ids=str)
@pytest.mark.parametrize("mask", [Full(), Causal(), ~Causal(), Causal() & Window(5)], ids=repr)
def test_odd_shapes(mask, shape, small_tiles):
    check(mask, shape)


@pytest.mark.parametrize(
    "shape", [((1,), 2, 1, 300, 1100, 16, 24), ((1,), 1, 1, 3, 9000, 8, 8)], ids=str
)
@pytest.mark.parametrize("mask", [Full(), Causal(), Causal() & Window(90)], ids=repr)
def test_tiles_of_the_usual_sizes(mask, shape):
    check(mask, shape)


@pytest.mark.parametrize("mask", [Full(), Causal() & Window(2), ~Causal(), padding([3, 0])])
def test_gradcheck(mask, monkeypatch):
    monkeypatch.setattr(flash, "SIZES", ((2, 3),))
    qkv = [x.requires_grad_() for x in draw((2,), 2, 1, 4, 5, 3, 2)]
    assert torch.autograd.gradcheck(lambda *x: flash.attention(*x, mask, 0.7), qkv)


@pytest.mark.parametrize("size", [1, 4])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("mask", [Full(), Causal(), Causal() & Window(40)], ids=repr)
def test_error_at_most_twice_that_of_pytorch(mask, dtype, size, small_tiles):
    q, k, v = draw((2,), 4, 2, 130, 150, 64, 64, dtype=dtype)
    qkv = q * size, k * size, v
    seen = everywhere(mask, q, k)
    exact = results(by_pytorch, [x.double() for x in qkv], seen, 0.125)
    theirs = results(by_pytorch, qkv, seen, 0.125)
    mine = results(flash.attention, qkv, mask, 0.125)
    for name, want, a, b in zip(("o", "dq", "dk", "dv"), exact, mine, theirs, strict=True):
        assert a.dtype == dtype
        error, allowed = ((x.double() - want).abs().max() / want.abs().max() for x in (a, b))
        assert error <= max(2 * allowed, 1e-5), name


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_large_scores(dtype, small_tiles):
    q, k, v = draw((1,), 1, 1, 50, 70, 16, 16, dtype=dtype)
    q, k = q * 50, k * 50
    assert (q @ k.mT).max() > 1e4
    got = results(flash.attention, [q, k, v], Causal(), 1.0)
    exact = [x.double() for x in (q, k, v)]
    want = results(by_pytorch, exact, everywhere(Causal(), q, k), 1.0)
    # A float32 score of 1e4 is good to 1e-3, and so are the weights. The gradients of q and k are
    # differences of numbers as large as k and q, so that is what their error is held against.
    close = 1e-2 if dtype == torch.float32 else 1e-9
    for mine, theirs, unit in zip(got, want, (v, k, q, v), strict=True):
        assert (mine.double() - theirs).abs().max() <= close * unit.abs().max()


def test_half_precision_scores_do_not_overflow():
    q = torch.full((1, 1, 4, 64), 40.0, dtype=torch.float16)  # q @ k is 102400; fp16 ends at 65504
    v = torch.arange(4.0, dtype=torch.float16).view(1, 1, 4, 1)
    assert flash.attention(q, q, v, Causal(), 1.0).flatten().tolist() == [0, 0.5, 1, 1.5]


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64], ids=str)
def test_a_row_that_sees_nothing(dtype, small_tiles):
    got = results(
        flash.attention, draw((2,), 2, 1, 20, 20, 4, 4, dtype=dtype), padding([0, 3]), 0.5
    )
    for x in got:
        assert x.isfinite().all()
        assert (x[0] == 0).all()
        assert (x[1] != 0).any()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_the_output_has_the_dtype_of_q(dtype):
    assert flash.attention(*draw((1,), 2, 1, 9, 9, 4, 5, dtype=dtype), Causal(), 0.5).dtype == dtype


def test_strided_inputs(small_tiles):
    q, k, v = draw((2,), 4, 2, 30, 30, 8, 8)
    pairs = torch.stack([k, v], -1)  # k and v interleaved: no axis has stride 1
    turned = q.transpose(1, 2).contiguous().transpose(1, 2)
    args = Causal(), SCALE
    want = torch.autograd.functional.vjp(
        lambda *x: flash.attention(*x, *args), (q, k, v), torch.ones_like(q)
    )
    got = torch.autograd.functional.vjp(
        lambda *x: flash.attention(*x, *args),
        (turned, pairs[..., 0], pairs[..., 1]),
        torch.ones(1, dtype=q.dtype).expand_as(q),  # stride 0, as from o.sum().backward()
    )
    torch.testing.assert_close(got, want)
    one = k[:, :1, :1].expand_as(k)
    torch.testing.assert_close(
        flash.attention(q, one, v, *args), flash.attention(q, one.contiguous(), v, *args)
    )


@pytest.mark.parametrize(
    "shape",
    [((0,), 2, 1, 4, 4, 3, 3), ((2,), 2, 1, 0, 4, 3, 3), ((2,), 2, 1, 4, 0, 3, 3)],
    ids=["B=0", "T=0", "S=0"],
)
@pytest.mark.parametrize("mask", [Full(), Causal()], ids=repr)
def test_empty_inputs(mask, shape):
    q, k, v = draw(*shape)
    got = results(flash.attention, (q, k, v), mask, 0.5)
    assert [x.shape for x in got] == [(*q.shape[:-1], 3), q.shape, k.shape, v.shape]
    assert all((x == 0).all() for x in got)


@pytest.mark.parametrize("needs", [(1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 0, 1)], ids=str)
def test_gradients_only_where_needed(needs):
    qkv = draw((1,), 2, 1, 9, 9, 4, 4)
    every = results(flash.attention, qkv, Causal(), 0.5)[1:]
    for x, need in zip(qkv, needs, strict=True):
        x.requires_grad_(bool(need))
    loss(flash.attention(*qkv, Causal(), 0.5)).backward()
    for x, need, want in zip(qkv, needs, every, strict=True):
        assert torch.equal(x.grad, want) if need else x.grad is None


def test_inputs_are_not_changed():
    qkv = draw((1,), 2, 1, 40, 40, 8, 8, dtype=torch.float32)
    before = [x.clone() for x in qkv]
    o = flash.attention(*(x.requires_grad_() for x in qkv), Causal(), 1.0)
    after, upstream = o.detach().clone(), torch.ones_like(o)
    o.backward(upstream)
    assert all(torch.equal(x, y) for x, y in zip([*qkv, o], [*before, after], strict=True))
    assert (upstream == 1).all()


def test_the_past_does_not_depend_on_the_future(small_tiles):
    q, k, v = draw((1,), 2, 1, 40, 40, 8, 8)
    before = flash.attention(q, k, v, Causal(), SCALE)
    k[..., 25:, :], v[..., 25:, :] = 1e3, -1e3
    after = flash.attention(q, k, v, Causal(), SCALE)
    assert torch.equal(before[..., :25, :], after[..., :25, :])
    assert not torch.equal(before[..., 25:, :], after[..., 25:, :])


def test_a_second_derivative_raises():
    q, k, v = (x.requires_grad_() for x in draw((1,), 1, 1, 5, 5, 3, 3))
    o = flash.attention(q, k, v, Causal(), 1.0)
    for total in (o.square().sum(), o.sum()):  # the gradient of a sum depends on q as well
        (dq,) = torch.autograd.grad(total, q, create_graph=True)
        assert dq.requires_grad
        with pytest.raises(RuntimeError, match="no second derivative"):
            dq.sum().backward()


def test_autocast_leaves_the_sums_alone():
    qkv = draw((1,), 2, 2, 40, 40, 16, 16, dtype=torch.float32)
    want = results(flash.attention, qkv, Causal(), 0.25)
    with torch.autocast("cpu", torch.bfloat16):
        got = results(flash.attention, qkv, Causal(), 0.25)
    assert all(torch.equal(x, y) for x, y in zip(got, want, strict=True))


class Largest(TorchDispatchMode):
    """Counts the numbers in the largest storage behind what any operation returns."""

    numel = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for x in out if isinstance(out, tuple | list) else [out]:
            if isinstance(x, torch.Tensor):
                self.numel = max(self.numel, x.untyped_storage().nbytes() // x.element_size())
        return out


@pytest.mark.parametrize(
    "mask",
    [
        Full(),
        Causal() & Window(100),
        Causal() & Dilated(2),
        padding([1200, 1]),
        PerHead((Causal(), Full())),
    ],
    ids=repr,
)
def test_no_matrix_in_either_pass(mask):
    qkv = [x.requires_grad_() for x in draw((2,), 2, 1, 1200, 1200, 8, 8, dtype=torch.float32)]
    largest = []
    for f, how in ((flash.attention, mask), (by_pytorch, everywhere(mask, *qkv[:2]))):
        with Largest() as forward:
            o = f(*qkv, how, 1.0)
        with Largest() as backward:
            o.sum().backward()
        largest += [forward.numel, backward.numel]
    tile, matrix = 4 * 256 * 512, 4 * 1200 * 1200  # over all heads
    assert max(largest[:2]) <= tile < matrix <= min(largest[2:])


def test_what_is_saved_for_the_backward_pass():
    q, k, v = (x.requires_grad_() for x in draw((1,), 4, 2, 50, 60, 8, 5))
    saved = flash.attention(q, k, v, Full(), 1.0).grad_fn.saved_tensors
    assert [x.shape for x in saved] == [q.shape, k.shape, v.shape, (1, 4, 50, 5), (1, 4, 50, 1)]


def test_groups_share_their_keys_without_a_copy(small_tiles):
    q, k, v = draw((1,), 8, 1, 16, 4000, 32, 32, dtype=torch.float32)
    with Largest() as largest:
        flash.attention(q, k, v, Full(), 1.0)
    assert largest.numel == k.numel()  # that is k itself, seen through a view


class Noted(Window):
    """A window that notes the tiles it is asked about."""

    asked = []  # noqa: RUF012

    def __call__(self, i, j):
        answer = super().__call__(i, j)
        if answer.size > 1:
            self.asked.append((i[0, 0], j[0, 0], answer.any(), answer.all()))
        return answer


def test_only_partial_tiles_are_evaluated(small_tiles):
    q, k, v = draw((1,), 2, 2, 160, 160, 4, 4)
    kind = flash.Tiles(Noted(60), q, k).kind
    assert set(kind.flat) == {EMPTY, PARTIAL, FULL}
    Noted.asked.clear()
    flash.attention(q, k, v, Noted(60), 1.0)
    assert len(Noted.asked) == len(set(Noted.asked)) == np.count_nonzero(kind == PARTIAL)
    assert all(some and not every for _, _, some, every in Noted.asked)


@pytest.mark.parametrize(
    ("mask", "relative"),
    [
        (Full(), True),
        (Causal() & Window(5), True),
        (~(Causal() | Dilated(3)).shift(2), True),
        (PerHead([Causal(), Window(3)]), True),
        (Window([3, 9]), True),
        (Causal() | Prefix(3), False),
        (Window(4) | Global(2), False),
        (Chunked(4), False),
        (Noted(60), False),
    ],
    ids=repr,
)
def test_masks_know_whether_they_depend_on_the_distance_alone(mask, relative):
    assert mask.relative is relative
    if relative:
        i, j = np.arange(6)[:, None], np.arange(9)[None, :]
        np.testing.assert_array_equal(mask(i, j), mask(i + 40, j + 40))


def test_a_mask_of_distances_is_asked_once_for_each_diagonal(small_tiles, monkeypatch):
    monkeypatch.setattr(Noted, "relative", True)
    q, k, v = draw((1,), 2, 2, 160, 160, 4, 4)
    Noted.asked.clear()
    o = flash.attention(q, k, v, Noted(60), 1.0)
    first = [(i, j) for i, j, *_ in Noted.asked]
    assert len({i - j for i, j in first}) == len(first)
    torch.testing.assert_close(o, flash.attention(q, k, v, Window(60), 1.0))
    assert flash.Tiles(Window(60), q, k).repeats
    assert not flash.Tiles(Dilated(3), q, k).repeats  # too many diagonals to remember


def test_tiles_fit_the_mask_and_the_heads():
    def size(mask, *shape):
        tiles = flash.Tiles(mask, *draw(*shape)[:2])
        return tiles.bq, tiles.bk

    assert size(Full(), (1,), 1, 1, 2048, 2048, 1, 1) == (256, 512)
    assert size(Causal() & Window(64), (1,), 1, 1, 2048, 2048, 1, 1) != (256, 512)
    assert size(Full(), (8,), 16, 16, 2048, 2048, 1, 1) == (128, 128)
    assert size(Full(), (8,), 8, 8, 1, 20000, 1, 1) == (1, 4096)
