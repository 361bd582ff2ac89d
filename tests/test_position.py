"""Positions: rotations keep lengths and know distances; sines, tables and slopes as published."""

import math

import numpy as np
import pytest
import torch

from attnlearn import Causal, attention_weights
from attnlearn.position import (
    PAIRINGS,
    Alibi,
    Learned,
    Position,
    Rotary,
    Sinusoidal,
    repair,
    rotate,
    sinusoids,
    slopes,
)

FREE = [Position(), Sinusoidal(), Rotary(), Rotary(pairing="neighbours"), Alibi()]


def heads(B=2, H=4, T=7, D=8, seed=0):
    return torch.randn(B, H, T, D, generator=torch.Generator().manual_seed(seed)).double()


# --- sines


def test_sinusoids_are_the_papers():
    at, width = torch.tensor([0, 1, 5]), 6
    want = [
        [
            math.sin(p / 10000 ** (i / 6)) if i % 2 == 0 else math.cos(p / 10000 ** ((i - 1) / 6))
            for i in range(width)
        ]
        for p in at.tolist()
    ]
    np.testing.assert_allclose(sinusoids(at, width), want, rtol=1e-6)


def test_an_odd_width_ends_with_a_sine():
    at = torch.arange(4)
    odd = sinusoids(at, 5)
    assert odd.shape == (4, 5)
    np.testing.assert_allclose(odd[:, 4], torch.sin(at * 10000.0 ** (-4 / 5)), rtol=1e-6)


def test_shifting_sinusoids_is_one_linear_map():
    """A step of 3 turns each (sin, cos) pair by the same angle, wherever it starts."""
    here, there = sinusoids(torch.arange(50), 8), sinusoids(torch.arange(50) + 3, 8)
    step = torch.linalg.lstsq(here, there).solution
    assert (here @ step - there).abs().max() < 1e-4


def test_sinusoids_want_a_width():
    with pytest.raises(ValueError, match="width must be at least 1, got 0"):
        sinusoids(torch.arange(3), 0)


# --- rotations


def by_hand(x, at, base, pairs):
    """A rotation written as complex numbers, pair by pair."""
    out, D = x.clone(), x.shape[-1]
    for n, (a, b) in enumerate(pairs):
        turn = torch.exp(1j * at.double() * base ** (-2 * n / D))
        z = torch.complex(x[..., a], x[..., b]) * turn
        out[..., a], out[..., b] = z.real, z.imag
    return out


@pytest.mark.parametrize("pairing", PAIRINGS)
def test_rotation_by_complex_numbers(pairing):
    x, at = heads(), torch.tensor([0, 1, 2, 3, 10, 1000, 9])
    pairs = [(n, n + 4) if pairing == "halves" else (2 * n, 2 * n + 1) for n in range(4)]
    assert torch.allclose(rotate(x, at, 500.0, pairing), by_hand(x, at, 500.0, pairs))


@pytest.mark.parametrize("pairing", PAIRINGS)
def test_rotation_keeps_lengths_and_position_zero(pairing):
    x = heads()
    y = rotate(x, torch.arange(7), pairing=pairing)
    assert torch.allclose(y.norm(dim=-1), x.norm(dim=-1))
    assert torch.equal(y[..., 0, :], x[..., 0, :])
    assert not torch.allclose(y[..., 1:, :], x[..., 1:, :])


@pytest.mark.parametrize("pairing", PAIRINGS)
def test_scores_know_the_distance_only(pairing):
    q, k, at = heads(seed=1), heads(seed=2), torch.arange(7)
    near = rotate(q, at, pairing=pairing) @ rotate(k, at, pairing=pairing).mT
    far = rotate(q, at + 90_000, pairing=pairing) @ rotate(k, at + 90_000, pairing=pairing).mT
    assert torch.allclose(near, far, atol=1e-8)


def test_float32_angles_hold_far_out():
    """A product of float32 numbers would be off by 0.02 at a million."""
    q, k, at = heads(seed=1).float(), heads(seed=2).float(), torch.arange(7)
    near = rotate(q, at) @ rotate(k, at).mT
    far = rotate(q, at + 10**6) @ rotate(k, at + 10**6).mT
    assert (near - far).abs().max() < 1e-5


def test_half_types_are_turned_in_float32():
    x, at = heads().bfloat16(), torch.arange(7) + 4000
    want = rotate(x.double(), at).bfloat16()
    assert rotate(x, at).dtype == torch.bfloat16
    assert torch.equal(rotate(x, at), want)


def test_the_two_pairings_differ():
    x, at = heads(), torch.arange(7)
    assert not torch.allclose(rotate(x, at), rotate(x, at, pairing="neighbours"))


def test_positions_of_their_own_for_each_example():
    x, at = heads(), torch.stack((torch.arange(7), torch.arange(7) + 30))
    y = rotate(x, at)
    for b in range(2):
        assert torch.allclose(y[b], rotate(x[b : b + 1], at[b])[0])


@pytest.mark.parametrize("to", PAIRINGS)
def test_repaired_weights_give_the_same_scores(to):
    other = next(name for name in PAIRINGS if name != to)
    generator = torch.Generator().manual_seed(0)
    wq, wk = (torch.randn(4 * 8, 16, generator=generator).double() for _ in "qk")
    x, at = torch.randn(7, 16, generator=generator).double(), torch.arange(7)

    def scores(wq, wk, pairing):
        q, k = ((x @ w.T).unflatten(-1, (4, 8)).transpose(0, 1)[None] for w in (wq, wk))
        return rotate(q, at, pairing=pairing) @ rotate(k, at, pairing=pairing).mT

    want = scores(wq, wk, other)
    assert torch.allclose(scores(repair(wq, 4, to), repair(wk, 4, to), to), want)
    assert not torch.allclose(scores(wq, wk, to), want)
    assert torch.equal(repair(repair(wq, 4, to), 4, other), wq)
    assert torch.equal(repair(wq[:, 0], 4, to), repair(wq, 4, to)[:, 0])  # a bias


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: rotate(x[..., :7], torch.arange(7)), r"even width D .* got \[2, 4, 7, 7\]"),
        (lambda x: rotate(x, torch.arange(6)), r"at must be \[T\] = \[7\] .* got \[6\]"),
        (lambda x: rotate(x, torch.zeros(3, 7)), r"got \[3, 7\]"),
        (lambda x: rotate(x, torch.arange(7), pairing="llama"), "one of halves, neighbours"),
        (lambda x: rotate(x, torch.arange(7), base=0), "base must be a positive number, got 0"),
        (lambda x: rotate(x, torch.arange(7), base=float("nan")), "positive number, got nan"),
        (lambda x: Rotary(pairing="both"), "pairing must be one of"),
        (lambda x: repair(x[0, 0], 2, "halves"), "7 rows: not 2 heads of an even width"),
        (lambda x: repair(x[0, 0], 2, "thirds"), "to must be one of"),
        (lambda x: slopes(0), "at least 1, got 0"),
        (lambda x: sinusoids(torch.arange(3), 4, -1.0), "base must be a positive number"),
        (lambda x: repair(x[0, 0], 0, "halves"), "7 rows: not 0 heads"),
        (lambda x: Learned(0, 4), "at least 1, got 0 and 4"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call(heads())


# --- tables and slopes


def test_a_learned_table_ends():
    table = Learned(10, 4)
    x = torch.zeros(2, 3, 4)
    assert torch.equal(table.embed(x, torch.tensor([0, 9, 9]))[0], table.table[[0, 9, 9]])
    with pytest.raises(ValueError, match="positions 0 to 9, but the sequence needs 9 to 11"):
        table.embed(x, torch.tensor([9, 10, 11]))
    with pytest.raises(ValueError, match="needs -1 to 1"):  # it would wrap around in silence
        table.embed(x, torch.tensor([-1, 0, 1]))
    with pytest.raises(ValueError, match="width 4"):
        table.embed(torch.zeros(2, 3, 5), torch.arange(3))
    assert table.embed(torch.zeros(2, 0, 4), torch.arange(0)).shape == (2, 0, 4)


@pytest.mark.parametrize(
    ("n", "want"),
    [
        (1, [2**-8]),
        (8, [1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 32, 1 / 64, 1 / 128, 1 / 256]),
        (3, [2**-4, 2**-8, 2**-2]),
        (12, [2 ** -(i + 1) for i in range(8)] + [2**-0.5, 2**-1.5, 2**-2.5, 2**-3.5]),
    ],
)
def test_slopes_are_the_published_ones(n, want):
    np.testing.assert_allclose(slopes(n), want, rtol=1e-6)


@pytest.mark.parametrize("Hk", [4, 2, 1])
def test_one_more_dimension_is_the_bias(Hk):
    q, k, at = heads(seed=1), heads(H=Hk, seed=2), torch.arange(7)
    s = q @ k.repeat_interleave(4 // Hk, 1).mT / math.sqrt(8)
    s = s - slopes(4).double()[:, None, None] * (at[:, None] - at)
    want = s.masked_fill(at[:, None] < at, -torch.inf).softmax(-1)
    alibi = Alibi()
    wide = alibi.queries(q, at), alibi.keys(k, at)
    assert wide[0].shape[-1] == wide[1].shape[-1] == 9
    assert torch.allclose(attention_weights(*wide, Causal(), scale=8**-0.5), want)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_alibi_keeps_far_keys_apart_in_half_types(dtype):
    """bfloat16 holds whole numbers up to 256: beyond, neighbours would share one position."""
    at = torch.arange(3000) + 100_000
    k = torch.zeros(1, 1, 3000, 8, dtype=dtype)
    columns = Alibi().keys(k, at)[..., 8:]
    assert columns.shape[-1] == 2
    assert torch.equal(columns.double().sum(-1)[0, 0], (at - at[-1]).double())
    q, k = heads(T=600, seed=1).to(dtype), heads(T=600, seed=2).to(dtype)
    alibi, at = Alibi(), torch.arange(600)
    half, full = (
        attention_weights(
            alibi.queries(q.to(d), at), alibi.keys(k.to(d), at), Causal(), scale=8**-0.5
        )
        for d in (dtype, torch.float64)
    )
    assert (half - full).abs().max() < 0.01


@pytest.mark.parametrize("scheme", FREE, ids=str)
def test_a_scheme_keeps_dtype_and_takes_empty_sequences(scheme):
    for dtype in (torch.float16, torch.float32):
        x = torch.zeros(2, 0, 8, dtype=dtype)
        at = torch.arange(0)
        assert scheme.embed(x, at).dtype == dtype
        assert scheme.keys(x[:, None], at).dtype == scheme.queries(x[:, None], at).dtype == dtype


def test_sines_and_embeddings_are_of_one_size():
    """The paper multiplies embeddings of variance 1/C by √C before it adds the sines."""
    x = torch.randn(1, 50, 64) * 64**-0.5
    at = torch.arange(50)
    assert torch.allclose(Sinusoidal().embed(x, at), 8 * x + sinusoids(at, 64))


def test_small_whole_dtypes_are_positions_too():
    k, at = heads(), torch.arange(7)
    table = Learned(7, 8)
    for dtype in (torch.uint8, torch.int8, torch.int32):
        assert torch.equal(Alibi().keys(k, at.to(dtype)), Alibi().keys(k, at))
        assert torch.equal(table.embed(k[0], at.to(dtype)), table.embed(k[0], at))


def test_no_position_hands_back_what_it_got():
    x, at = heads(), torch.arange(7)
    assert all(hook(x, at) is x for hook in (Position().embed, Position().keys, Position().queries))
