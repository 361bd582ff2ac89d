"""The specification against outside oracles, then all implementations against it."""

import numpy as np
import pytest
import torch
from cases import ALL_IMPLS, MASKS, SHAPES, SPREAD, TORCH_IMPLS, draw, small_dense
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from attnlearn import (
    Causal,
    Dense,
    Full,
    PerHead,
    Prefix,
    Window,
    attention,
    attention_weights,
    padding,
    pick,
)
from attnlearn.api import IMPLS

GRADIENT_IMPLS = [name for name in TORCH_IMPLS if name != "flex"]


def tensors(arrays, dtype=torch.float64):
    return [torch.tensor(x, dtype=dtype) for x in arrays]


def fits(mask, shape):
    """Masks that hold one answer per example or head want two examples and four heads."""
    return mask not in SPREAD or (shape[0] == (2,) and shape[1] == 4)


def fitting(masks, shapes):
    return [pytest.param(m, s, id=f"{m!r}-{s}") for m in masks for s in shapes if fits(m, s)]


# The specification itself: a fault that specification and implementations share shows only here.


def test_two_keys_by_hand():
    """Scores 0 and ln 3 give weights 1/4 and 3/4."""
    q, k = np.array([[[1.0]]]), np.array([[[0.0], [np.log(3)]]])
    v = np.array([[[8.0, 0.0], [0.0, 4.0]]])
    np.testing.assert_allclose(attention_weights(q, k, scale=1), [[[0.25, 0.75]]])
    np.testing.assert_allclose(attention(q, k, v, scale=1), [[[2.0, 3.0]]])


def test_causal_rows_by_hand():
    """Equal scores: each row is the mean of the values seen so far."""
    x, v = np.zeros((1, 3, 2)), np.array([[[3.0], [9.0], [0.0]]])
    np.testing.assert_allclose(attention(x, x, v, Causal())[0, :, 0], [3, 6, 4])


def test_decoding_sees_the_whole_cache():
    q, k, v = draw(((1,), 1, 1, 1, 6, 4, 4))
    np.testing.assert_allclose(attention(q, k, v, Causal()), attention(q, k, v))


def test_chunks_of_queries_give_the_rows_of_the_whole():
    q, k, v = draw(((1,), 2, 2, 9, 9, 4, 4))
    whole = attention(q, k, v, Causal() & Window(4))
    last = attention(q[..., 6:, :], k, v, Causal() & Window(4))
    np.testing.assert_allclose(last, whole[..., 6:, :])


def test_query_heads_share_key_heads_in_order():
    """Query heads 0 and 1 read key head 0, heads 2 and 3 key head 1."""
    q, k, v = draw(((), 4, 2, 5, 5, 4, 4))
    grouped = attention(q, k, v)
    for h in range(4):
        alone = attention(q[[h]], k[[h // 2]], v[[h // 2]])
        np.testing.assert_allclose(grouped[[h]], alone)


@pytest.mark.parametrize(("mask", "shape"), fitting([*MASKS, *SPREAD], SHAPES))
def test_specification_equals_pytorch_math(mask, shape):
    arrays = draw(shape)
    q, k, v = tensors(arrays)
    T, S = q.shape[-2], k.shape[-2]
    seen = torch.tensor(mask.dense(T, S))
    with sdpa_kernel(SDPBackend.MATH):
        k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
        want = scaled_dot_product_attention(q, k, v, attn_mask=seen)
    np.testing.assert_allclose(attention(*arrays, mask), want, atol=1e-12)


# Every implementation.


@pytest.mark.parametrize("impl", [n for n in ALL_IMPLS if n != "flex"])
@pytest.mark.parametrize(("mask", "shape"), fitting([*MASKS, *SPREAD], SHAPES))
def test_matches_the_specification(impl, mask, shape):
    arrays = draw(shape)
    got = attention(*tensors(arrays, torch.float32), mask, impl=impl)
    assert got.dtype == torch.float32
    np.testing.assert_allclose(got, attention(*arrays, mask), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("mask", [*MASKS, *SPREAD], ids=repr)
def test_flex_matches_the_specification(mask):
    """One shape: FlexAttention traces anew for every mask and shape."""
    arrays = draw(((2,), 4, 2, 37, 40, 16, 16))
    got = attention(*tensors(arrays, torch.float32), mask, impl="flex")
    np.testing.assert_allclose(got, attention(*arrays, mask), rtol=1e-4, atol=1e-5)


def test_flex_reads_tiles_of_both_kinds():
    arrays = draw(((1,), 1, 1, 300, 300, 8, 8))
    mask = Causal() & Window(140)
    got = attention(*tensors(arrays, torch.float32), mask, impl="flex")
    np.testing.assert_allclose(got, attention(*arrays, mask), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("impl", ALL_IMPLS)
@pytest.mark.parametrize("batch", [(), (3,), (3, 2)])
def test_any_number_of_batch_axes(impl, batch):
    arrays = draw((batch, 2, 1, 6, 7, 4, 5))
    got = attention(*tensors(arrays), Causal(), impl=impl)
    np.testing.assert_allclose(got, attention(*arrays, Causal()), atol=1e-10)


@pytest.mark.parametrize("impl", ALL_IMPLS)
def test_two_batch_axes_with_padding(impl):
    arrays = draw(((3, 2), 2, 2, 5, 5, 4, 4))
    got = attention(*tensors(arrays), padding([5, 2]), impl=impl)
    for b in range(3):
        want = attention(*(x[b] for x in arrays), padding([5, 2]))
        np.testing.assert_allclose(got[b], want, atol=1e-10)


def gradients(f, arrays, dtype=torch.float64):
    x = [t.requires_grad_() for t in tensors(arrays, dtype)]
    o = f(*x)
    (o * torch.cos(torch.arange(o.numel(), dtype=o.dtype)).view_as(o)).sum().backward()
    return o.detach(), [t.grad for t in x]


@pytest.mark.parametrize("impl", GRADIENT_IMPLS)
@pytest.mark.parametrize(("mask", "shape"), fitting([*MASKS, *SPREAD], SHAPES[:3]))
def test_gradients_match_pytorch_math(impl, mask, shape):
    arrays = draw(shape)
    T, S = arrays[0].shape[-2], arrays[1].shape[-2]
    seen = torch.tensor(mask.dense(T, S))

    def oracle(q, k, v):
        k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
        with sdpa_kernel(SDPBackend.MATH):
            return scaled_dot_product_attention(q, k, v, attn_mask=seen)

    got = gradients(lambda *x: attention(*x, mask, impl=impl), arrays)[1]
    want = gradients(oracle, arrays)[1]
    for a, b in zip(got, want, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-8, atol=1e-10)


# Rows that see nothing, and what hides behind a mask.


@pytest.mark.parametrize("impl", ALL_IMPLS)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_a_row_that_sees_nothing_is_zero(impl, dtype):
    if impl == "flex" and dtype == torch.float64:
        dtype = torch.float32  # the same trace again would only cost time
    q, k, v = tensors(draw(((2,), 2, 2, 5, 5, 8, 8)), dtype)
    o = attention(q, k, v, padding([0, 3]), impl=impl)
    assert o.dtype == dtype
    assert (o[0] == 0).all()
    assert (o[1] != 0).all()


@pytest.mark.parametrize("impl", GRADIENT_IMPLS)
def test_a_row_that_sees_nothing_has_zero_gradients(impl):
    mask = small_dense(6, 6)
    o, (dq, dk, dv) = gradients(
        lambda *x: attention(*x, mask, impl=impl), draw(((2,), 2, 2, 6, 6, 8, 8))
    )
    assert (o[..., 3, :] == 0).all()
    assert (dq[..., 3, :] == 0).all()
    assert (dk[..., 3, :] == 0).all()  # the key that nobody sees
    assert (dv[..., 3, :] == 0).all()
    assert all(torch.isfinite(g).all() for g in (dq, dk, dv))


HIDDEN = [
    padding([3, 5]),
    padding([3, 5]) & Causal(),
    small_dense(8, 8),
    Causal().shift(-3),
    PerHead((Prefix(3), Prefix(6), Prefix(5), Prefix(5))),
]


@pytest.mark.parametrize("garbage", [np.nan, np.inf, -np.inf, 1e300])
@pytest.mark.parametrize("mask", HIDDEN, ids=repr)
@pytest.mark.parametrize("impl", ALL_IMPLS)
def test_what_nobody_sees_reaches_nothing(impl, mask, garbage):
    """Keys, values and queries behind the mask may hold anything: padding, unwritten slots."""
    if impl == "flex" and garbage != np.nan and garbage != np.inf:
        garbage = np.nan
    clean = draw(((2,), 4, 2, 8, 8, 8, 8))
    dirty = [x.copy() for x in clean]
    seen = np.broadcast_to(mask.dense(8, 8), (2, 4, 8, 8))
    dirty[0][~seen.any(-1)] = garbage
    unseen = ~seen.any(-2).reshape(2, 2, 2, 8).any(2)
    dirty[1][unseen] = garbage
    dirty[2][unseen] = garbage
    if impl in GRADIENT_IMPLS:
        want, wants = gradients(lambda *x: attention(*x, mask, impl=impl), clean)
        got, gots = gradients(lambda *x: attention(*x, mask, impl=impl), dirty)
        for a, b in zip(gots, wants, strict=True):
            torch.testing.assert_close(a, b)
    else:
        want, got = (attention(*tensors(x), mask, impl=impl) for x in (clean, dirty))
    torch.testing.assert_close(got, want)


def test_weights_hide_what_nobody_sees_too():
    q, k, _ = draw(((2,), 2, 2, 4, 4, 4, 4))
    k[0, :, 2:] = np.nan
    p = attention_weights(q, k, padding([2, 4]))
    assert (p[0, ..., 2:] == 0).all()
    np.testing.assert_allclose(p.sum(-1), 1)


# Numbers.


@pytest.mark.parametrize("impl", TORCH_IMPLS)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("mask", [Full(), Causal() & Window(20)], ids=repr)
def test_error_is_at_most_twice_that_of_pytorch(impl, dtype, mask):
    """The rule of the FlashAttention tests: against float64, twice PyTorch's error in the dtype."""
    x = tensors(draw(((1,), 2, 2, 130, 130, 64, 64)), dtype)
    exact = attention(*(t.double().numpy() for t in x), mask)
    with sdpa_kernel(SDPBackend.MATH):
        seen = torch.tensor(mask.dense(130, 130))
        theirs = scaled_dot_product_attention(*x, attn_mask=seen).double().numpy()
    ours = attention(*x, mask, impl=impl).double().numpy()
    floor = 1e-5 * np.abs(exact).max()
    assert np.abs(ours - exact).max() <= max(2 * np.abs(theirs - exact).max(), floor)


@pytest.mark.parametrize("impl", [n for n in ALL_IMPLS if n != "flex"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_large_logits_do_not_overflow(impl, dtype):
    """q kᵀ = 102,400 is past float16's largest number, 65,504."""
    q = torch.full((1, 1, 4, 64), 40.0, dtype=dtype)
    v = tensors(draw(((1,), 1, 1, 4, 4, 64, 64)), dtype)[2]
    o = attention(q, q, v, impl=impl)
    torch.testing.assert_close(o, v.mean(-2, keepdim=True).expand_as(v), rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("impl", ALL_IMPLS)
@pytest.mark.parametrize("scale", [0, 1e-46, 0.5, -1.0, np.float32(0.25)])
@pytest.mark.parametrize("mask", [Full(), Causal()], ids=repr)
def test_scale(impl, scale, mask):
    arrays = draw(((1,), 1, 1, 5, 5, 8, 8))
    s = arrays[0] @ arrays[1].swapaxes(-1, -2) * float(scale)
    e = np.exp(s) * mask.dense(5, 5)
    want = e / e.sum(-1, keepdims=True) @ arrays[2]
    for x in (tensors(arrays), tensors(arrays, torch.float32)):
        np.testing.assert_allclose(attention(*x, mask, scale=scale, impl=impl), want, atol=1e-5)


@pytest.mark.parametrize("impl", ALL_IMPLS)
@pytest.mark.parametrize(("B", "T", "S"), [(0, 3, 3), (2, 0, 3), (2, 3, 0), (2, 0, 0)])
def test_empty_sequences(impl, B, T, S):
    x = [torch.randn(B, 2, n, 4) for n in (T, S, S)]
    o = attention(*x, Causal(), impl=impl)
    assert o.shape == (B, 2, T, 4)
    assert (o == 0).all()


def test_empty_sequences_have_gradients():
    x = [torch.randn(2, 2, n, 4, requires_grad=True) for n in (3, 0, 0)]
    for impl in GRADIENT_IMPLS:
        attention(*x, impl=impl).sum().backward()
        assert (x[0].grad == 0).all()


@pytest.mark.parametrize("impl", ALL_IMPLS)
@pytest.mark.parametrize(("T", "S"), [(0, 3), (3, 0), (0, 0)])
def test_empty_sequences_under_an_empty_matrix(impl, T, S):
    x = [torch.randn(2, 2, n, 4) for n in (T, S, S)]
    assert attention(*x, torch.ones(T, S) > 0, impl=impl).shape == (2, 2, T, 4)


@pytest.mark.parametrize("impl", GRADIENT_IMPLS)
def test_autocast_changes_nothing(impl):
    x = [t.requires_grad_() for t in tensors(draw(((1,), 2, 2, 9, 9, 8, 8)), torch.float32)]
    want = attention(*x, Causal(), impl=impl)
    with torch.autocast("cpu", torch.bfloat16):
        got = attention(*x, Causal(), impl=impl)
    assert torch.equal(got, want)


@pytest.mark.parametrize("impl", TORCH_IMPLS)
def test_arrays_that_run_backwards(impl):
    arrays = [x[..., ::-1, :] for x in draw(((1,), 1, 1, 5, 5, 4, 4))]
    np.testing.assert_allclose(attention(*arrays, impl=impl), attention(*arrays), atol=1e-6)


@pytest.mark.parametrize("impl", ALL_IMPLS)
def test_views_of_any_stride(impl):
    base = torch.randn(2, 9, 3, 2, 16)  # one projection for q, k and v, heads after tokens
    q, k, v = (base[:, :, n].transpose(1, 2)[..., ::2] for n in range(3))
    want = attention(*(x.contiguous() for x in (q, k, v)), Causal(), impl="dense")
    torch.testing.assert_close(attention(q, k, v, Causal(), impl=impl), want)


@pytest.mark.parametrize("impl", ALL_IMPLS)
def test_inputs_are_left_alone(impl):
    x = tensors(draw(((2,), 2, 1, 6, 6, 4, 4)))
    before = [t.clone() for t in x]
    attention(*x, padding([2, 6]) & Causal(), impl=impl)
    assert all(torch.equal(a, b) for a, b in zip(x, before, strict=True))


@pytest.mark.parametrize("impl", ALL_IMPLS)
def test_the_past_never_moves(impl):
    x = tensors(draw(((1,), 2, 2, 12, 12, 4, 4)))
    before = attention(*x, Causal(), impl=impl)
    for t in x:
        t[..., 7:, :] += 3
    torch.testing.assert_close(attention(*x, Causal(), impl=impl)[..., :7, :], before[..., :7, :])


def test_dropout_is_for_dense():
    x = tensors(draw(((1,), 1, 1, 50, 50, 8, 8)))
    torch.manual_seed(0)
    a, b = (attention(*x, dropout=0.5, impl=impl) for impl in ("auto", "dense"))
    assert not torch.equal(a, b)
    mean = torch.stack([attention(*x, dropout=0.5) for _ in range(2000)]).mean(0)
    torch.testing.assert_close(mean, attention(*x), rtol=0, atol=0.1)
    assert torch.equal(attention(*x, dropout=0.0), attention(*x))


# Choosing.


def test_numpy_in_numpy_out_and_tensors_likewise():
    arrays = draw(((1,), 1, 1, 3, 3, 4, 4), dtype=np.float32)
    for impl in ALL_IMPLS:
        assert isinstance(attention(*arrays, impl=impl), np.ndarray)
        assert isinstance(attention(*tensors(arrays), impl=impl), torch.Tensor)
    half = attention(*(x.astype(np.float16) for x in arrays))
    assert half.dtype == np.float16


def test_a_boolean_matrix_is_a_mask():
    arrays = draw(((1,), 1, 1, 4, 4, 4, 4))
    want = attention(*arrays, Causal())
    tril = np.tril(np.ones((4, 4), bool))
    np.testing.assert_array_equal(attention(*arrays, tril), want)
    np.testing.assert_array_equal(attention(*arrays, torch.tensor(tril)), want)
    np.testing.assert_array_equal(attention(*arrays, tril[None, None]), want)


@pytest.mark.parametrize(
    ("T", "S", "mask", "want"),
    [
        (1024, 1024, None, "sdpa"),
        (1024, 1024, Full(), "sdpa"),
        (1024, 1024, Causal(), "sdpa"),
        (1024, 2048, Causal(), "flash"),
        (1024, 1024, Causal() & Window(8), "flash"),
        (256, 9999, Causal() & Window(8), "sdpa"),
        (1, 9999, Causal(), "sdpa"),
        (300, 300, Dense(np.ones((300, 300), bool)), "sdpa"),
    ],
)
def test_pick_says_what_auto_does(T, S, mask, want, monkeypatch):
    q, k = torch.zeros(1, 1, T, 1), torch.zeros(1, 1, S, 1)
    assert pick(q, mask, k) == want
    assert pick(q.numpy(), mask, k.numpy()) == "reference"
    ran = []
    monkeypatch.setattr("attnlearn.native.sdpa", lambda *a: ran.append("sdpa") or q)
    monkeypatch.setattr("attnlearn.flash.attention", lambda *a: ran.append("flash") or q)
    attention(q, k, k, mask)
    assert ran == [want]


def test_half_types_on_the_cpu_are_summed_in_float32():
    q = torch.zeros(1, 1, 4, 8, dtype=torch.bfloat16)
    assert pick(q) == "flash"
    with pytest.raises(TypeError, match="q must be a NumPy array"):
        pick([1])


@pytest.mark.parametrize("impl", TORCH_IMPLS)
def test_a_named_implementation_never_falls_back(impl, monkeypatch):
    def broken(*args, **how):
        raise RuntimeError("no luck")

    module, function = IMPLS[impl]
    __import__(f"attnlearn.{module}")
    monkeypatch.setattr(f"attnlearn.{module}.{function}", broken)
    with pytest.raises(RuntimeError, match="no luck"):
        attention(*tensors(draw(((1,), 1, 1, 3, 3, 4, 4))), impl=impl)


# Bad input.

GOOD = tensors(draw(((2,), 4, 2, 5, 6, 8, 3)))


def replaced(**new):
    x = dict(zip("qkv", GOOD, strict=True))
    return {name: new.get(name, value) for name, value in x.items()}


@pytest.mark.parametrize(
    ("new", "error", "words"),
    [
        ({"q": GOOD[0].tolist()}, TypeError, "q must be a NumPy array or a torch tensor, got list"),
        ({"k": GOOD[1].numpy()}, TypeError, "one library"),
        ({"q": GOOD[0].int()}, TypeError, "q must be one of float16.*got torch.int32"),
        ({"k": GOOD[1].float()}, TypeError, "k must have the dtype of q, torch.float64"),
        ({"v": GOOD[2].half()}, TypeError, "v must have the dtype of q"),
        ({"v": GOOD[2].to("meta")}, ValueError, "v must be on the device of q, cpu, got meta"),
        (
            {n: torch.zeros(2, 2, 3, 4, device="meta") for n in "qkv"},
            TypeError,
            "q must be a dense",
        ),
        ({"v": GOOD[2].to_sparse()}, TypeError, "v must be a dense tensor with data"),
        ({"q": np.ma.masked_array(np.ones((1, 2, 3)))}, TypeError, "got MaskedArray"),
        ({"q": GOOD[0][0, 0]}, ValueError, r"q must have at least the axes \[H, T, D\].*q\[None\]"),
        ({"k": GOOD[1][..., :7]}, ValueError, r"k must be .* = \[2, 2, 6, 8\].*got \[2, 2, 6, 7\]"),
        ({"k": GOOD[1][:1]}, ValueError, "k must be"),
        ({"k": GOOD[1][0]}, ValueError, "k must be"),
        ({"v": GOOD[2][..., :5, :]}, ValueError, r"v must be .* = \[2, 2, 6, 3\]"),
        ({"v": GOOD[2][:, :1]}, ValueError, "v must be"),
        ({"q": GOOD[0][:, :3]}, ValueError, "q has 3 heads and k has 2"),
        ({"k": GOOD[1][:, :0], "v": GOOD[2][:, :0]}, ValueError, "q has 4 heads and k has 0"),
        ({"q": GOOD[0][..., :0], "k": GOOD[1][..., :0]}, ValueError, "width D of at least 1"),
    ],
)
def test_bad_arrays_are_named(new, error, words):
    with pytest.raises(error, match=words):
        attention(**replaced(**new))


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"mask": np.ones((5, 6))}, TypeError, "add numbers to the scores"),
        ({"mask": torch.ones(5, 6)}, TypeError, "must be boolean"),
        ({"mask": np.ones((5, 6), int)}, TypeError, "0 and 1 hide nothing"),
        ({"mask": np.ones((2, 5, 6), bool)}, ValueError, "examples or heads"),
        ({"mask": np.ones((5, 7), bool)}, ValueError, r"\[5, 7\] matrix, got 5 queries, 6 keys"),
        ({"mask": np.ones((3, 1, 5, 6), bool)}, ValueError, r"\[3, 1\].*has \[2, 4\]"),
        ({"mask": padding([1, 2, 3])}, ValueError, r"answers for \[B, H\] = \[3, 1\]"),
        ({"mask": PerHead((Full(),) * 2)}, ValueError, r"\[1, 2\]"),
        ({"mask": torch.zeros(5, 6, dtype=torch.bfloat16)}, TypeError, "got torch.bfloat16"),
        ({"mask": Prefix([1, 2]) & Prefix([1, 2, 3])}, ValueError, "do not fit together"),
        ({"scale": 10**400}, ValueError, "scale must be finite"),
        ({"impl": ["flash"]}, ValueError, "impl must be"),
        ({"dropout": None}, ValueError, "dropout must be a number"),
        ({"mask": "causal"}, TypeError, "mask must be a Mask or a boolean array, got str"),
        ({"mask": True}, TypeError, "got bool"),
        ({"mask": Causal}, TypeError, "got type"),
        ({"scale": float("nan")}, ValueError, "scale must be finite, got nan"),
        ({"scale": float("inf")}, ValueError, "scale must be finite"),
        ({"scale": "1"}, TypeError, "scale must be a number, got str"),
        ({"scale": torch.tensor(1.0)}, TypeError, "to learn it, multiply q by it"),
        ({"scale": True}, TypeError, "scale must be a number"),
        ({"impl": "fast"}, ValueError, "impl must be 'auto' or one of reference, dense, flash"),
        ({"impl": None}, ValueError, "impl must be"),
        ({"dropout": 0.1, "impl": "flash"}, ValueError, "'dense' alone has it"),
        ({"dropout": 0.1, "impl": "sdpa"}, ValueError, "no dropout"),
        ({"dropout": 1.0}, ValueError, "dropout must be a number from 0"),
        ({"dropout": float("nan")}, ValueError, "dropout must be"),
    ],
)
def test_bad_options_are_named(options, error, words):
    with pytest.raises(error, match=words):
        attention(**replaced(), **options)


def test_flex_refuses_gradients_on_the_cpu():
    x = [t.clone().requires_grad_() for t in GOOD]
    with pytest.raises(NotImplementedError, match="no gradients on the CPU"):
        attention(*x, impl="flex")
    with torch.no_grad():
        assert attention(*x, impl="flex").shape == (2, 4, 5, 3)


def test_the_specification_refuses_to_lose_gradients():
    x = [t.clone().requires_grad_() for t in GOOD]
    with pytest.raises(ValueError, match="no gradients"):
        attention(*x, impl="reference")


def test_a_mask_that_no_array_can_mean():
    with pytest.raises(TypeError):
        attention(*GOOD, Dense([[0, 1]]))
