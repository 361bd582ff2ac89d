"""Caches: however the tokens arrive, the answer is that of reading them all at once.

Every cache here begins with NaN in all its memory: a slot that was never written, or is stale, must
reach no output.
"""

import copy
import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from attnlearn import (
    Causal,
    Dense,
    Document,
    Full,
    Mask,
    PerHead,
    Prefix,
    Window,
    attention,
    padding,
)
from attnlearn.cache import Blocks, KVCache, PagedCache, QuantizedCache, WindowCache
from attnlearn.nn import DropHead, MultiHeadAttention, TinyLM
from attnlearn.position import Alibi, Learned, Rotary, Sinusoidal
from attnlearn.quant import quantize

N = 24  # tokens
KINDS = {
    "kv": (KVCache, N, {}),
    "window": (WindowCache, 7, {"sinks": 2}),
    "ring": (WindowCache, 5, {}),
    "paged": (PagedCache, 24, {"block": 5}),
    "int4": (QuantizedCache, N, {"group": 8}),
    "int8": (QuantizedCache, N, {"group": 4, "bits": 8}),
}
SEES = {"window": Window(7) | Prefix(2), "ring": Window(5)}  # the others see all
EXACT = ["kv", "window", "ring", "paged"]
IDS = np.repeat([0, 1, 2], [5, 9, 10])
SCHEMES = [None, Sinusoidal(), Learned(N, 16), Rotary(), Alibi()]
CUTS = [[0, N], range(N + 1), [0, 7, 8, 20, N], [0, 0, 1, 9, 9, 17, N]]


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)
    with torch.no_grad():
        yield


def memory(cache):
    """Every float tensor that a cache holds."""
    held = [*vars(cache).values(), *getattr(cache, "new", ()), *getattr(cache, "old", ())]
    held += [x for part in held for x in (getattr(part, "scale", 0), getattr(part, "zero", 0))]
    return [x for x in held if isinstance(x, Tensor) and x.is_floating_point()]


def spoiled(cache):
    """The cache with NaN wherever nothing was written."""
    found = memory(cache)
    assert len(found) >= 2
    for x in found:
        x.fill_(torch.nan)
    return cache


def make(kind, B=2, H=2, D=8, E=6, dtype=torch.float64):
    cache, size, options = KINDS[kind]
    return spoiled(cache(B, H, size, D, E, dtype=dtype, **options))


def drawn(B=2, T=N, Hq=4, Hk=2, D=8, E=6, dtype=torch.float64):
    shapes = (B, Hq, T, D), (B, Hk, T, D), (B, Hk, T, E)
    return [torch.randn(shape, dtype=dtype) for shape in shapes]


def decoded(cache, q, k, v, cuts, mask=None, start=0):
    """Attention of the tokens in pieces; ``mask`` is one, or a function of where a piece lies."""
    mask = Causal() if mask is None else mask
    o = []
    for a, b in itertools.pairwise(cuts):
        piece = slice(a - start, b - start)
        see = mask if isinstance(mask, Mask) else mask(a, b)
        keys, values, see = cache.append(k[:, :, piece], v[:, :, piece], see)
        o.append(attention(q[:, :, piece], keys, values, see))
    return torch.cat(o, 2)


def at_once(kind, q, k, v, mask):
    """What a cache of this kind must answer, without one."""
    if kind in EXACT:
        return attention(q, k, v, mask & SEES.get(kind, Full()))
    group, bits = KINDS[kind][2]["group"], KINDS[kind][2].get("bits", 4)
    how = {"symmetric": False, "dtype": torch.float16}
    n = k.shape[2] // group * group
    k8 = quantize(k[:, :, :n], bits, per=(group, 1), **how).dequantize()
    v8 = quantize(v[:, :, :n], bits, per=(1, group), **how).dequantize()
    o = []
    for a in range(0, k.shape[2], group):  # a group sees those before it as integers
        here = slice(a, min(a + group, k.shape[2]))
        keys = torch.cat((k8[:, :, :a], k[:, :, here]), 2)
        values = torch.cat((v8[:, :, :a], v[:, :, here]), 2)
        o.append(attention(q[:, :, here], keys, values, mask))
    return torch.cat(o, 2)


def close(a, b, atol=1e-10):
    assert a.shape == b.shape
    assert not a.isnan().any()
    assert (a - b).abs().max() <= atol if a.numel() else True


# --- one after the other, in pieces, all at once


@pytest.mark.parametrize("cuts", CUTS, ids=["once", "one", "pieces", "nothing"])
@pytest.mark.parametrize("mask", [Causal(), Causal() & Window(3), Causal() & Document(IDS)])
@pytest.mark.parametrize("kind", KINDS)
def test_however_the_tokens_arrive(kind, mask, cuts):
    q, k, v = drawn()
    close(decoded(make(kind), q, k, v, list(cuts), mask), at_once(kind, q, k, v, mask))


@pytest.mark.parametrize("kind", KINDS)
def test_float32_to_rounding_and_half_types_to_theirs(kind):
    for dtype, atol in [(torch.float32, 1e-5), (torch.float16, 1e-2), (torch.bfloat16, 1e-1)]:
        q, k, v = drawn(dtype=dtype)
        one = decoded(make(kind, dtype=dtype), q, k, v, range(N + 1))
        assert one.dtype == dtype
        close(one, decoded(make(kind, dtype=dtype), q, k, v, [0, N]), atol)
        close(one, at_once(kind, q, k, v, Causal()), atol)


@pytest.mark.parametrize("impl", ["reference", "dense", "flash"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_implementation_reads_the_masks_of_caches(kind, impl):
    q, k, v = drawn(T=12)
    cache = make(kind)
    cache.append(k[:, :, :9], v[:, :, :9], None, np.arange(9) < [[9], [4]])
    keys, values, mask = cache.append(k[:, :, 9:], v[:, :, 9:], Causal())
    new = q[:, :, 9:]
    close(attention(new, keys, values, mask, impl=impl), attention(new, keys, values, mask))


@pytest.mark.parametrize("kind", EXACT)
def test_a_matrix_for_each_piece(kind):
    """Boolean matrices [T, S], as a Mask and as they are: S counts all tokens so far."""
    q, k, v = drawn()
    seen = np.tril(np.random.RandomState(0).rand(N, N) < 0.7)
    want = at_once(kind, q, k, v, Dense(seen))
    for wrap in (Dense, torch.tensor):
        got = decoded(make(kind), q, k, v, [0, 6, 7, N], lambda a, b, w=wrap: w(seen[a:b, :b]))
        close(got, want)


@pytest.mark.parametrize("kind", EXACT)
def test_a_matrix_has_a_row_for_every_query_of_rows_of_unlike_length(kind):
    """The query of the shorter row stands at 4: a matrix that begins later would hide all of it."""
    q, k, v = drawn(T=7)
    cache, seen = make(kind), np.tril(np.ones((7, 7), bool))
    cache.append(k[:, :, :6], v[:, :, :6], None, np.arange(6) < [[6], [4]])
    with pytest.raises(ValueError, match=r"3 queries, 7 keys: rows have unlike .* position 4;"):
        cache.append(k[:, :, 6:], v[:, :, 6:], seen[6:])
    assert cache.lengths.tolist() == [6, 4]
    q[1, :, 4], k[1, :, 4], v[1, :, 4] = q[1, :, 6], k[1, :, 6], v[1, :, 6]
    o = attention(q[:, :, 6:], *cache.append(k[:, :, 6:], v[:, :, 6:], seen[4:]))
    want = at_once(kind, q, k, v, Causal())
    close(o, torch.stack((want[0, :, 6:], want[1, :, 4:5])))


@pytest.mark.parametrize("kind", KINDS)
def test_masks_per_example_and_per_head(kind):
    q, k, v = drawn()
    mask = Causal() & PerHead((Full(), Window(3), Full(), Window(1))) & Window([4, 9])
    close(decoded(make(kind), q, k, v, [0, 9, 10, N], mask), at_once(kind, q, k, v, mask))


@pytest.mark.parametrize("kind", ["kv", "paged", "int8"])
def test_a_prefix_is_read_from_both_sides(kind):
    """A mask that lets queries see later keys of the same call: they are there, and in float."""
    q, k, v = drawn(T=7)
    keys, values, seen = make(kind).append(k, v, Causal() | Prefix(7))
    o = attention(q, keys, values, seen)
    close(o[:, :, :4], attention(q, k, v)[:, :, :4])  # the first group of four


@pytest.mark.parametrize("kind", KINDS)
def test_without_a_mask_all_that_is_held_is_seen(kind):
    q, k, v = drawn(T=4)
    cache = make(kind)
    cache.append(k[:, :, :3], v[:, :, :3])
    keys, values, mask = cache.append(k[:, :, 3:], v[:, :, 3:])
    o = attention(q[:, :, 3:], keys, values, mask)
    close(o, at_once(kind, q, k, v, Causal())[:, :, 3:])


def test_layers_share_what_a_mask_becomes_and_other_caches_do_not():
    mask = Causal()
    _, k, v = drawn(T=8)
    made = [make(kind).append(k, v, mask)[2] for kind in ("ring", "ring", "window", "int4", "int8")]
    assert made[0] is made[1]
    assert len({id(one) for one in made}) == 4
    q, k, v = drawn(T=8)
    for kind in KINDS:
        close(decoded(make(kind), q, k, v, [0, 8], mask), at_once(kind, q, k, v, Causal()))


# --- rows of unlike length, and padding


def ragged(cache, rows, steps, seed=0):
    """Feed rows at their own pace, padding of NaN on either side; their outputs, one by one."""
    rng = np.random.RandomState(seed)
    fed, o = [0] * len(rows), [[] for _ in rows]
    for step in range(steps):
        last = step == steps - 1
        left = [row[1].shape[1] - n for row, n in zip(rows, fed, strict=True)]
        counts = [n if last else min(rng.randint(0, 6), n) for n in left]
        T = max(counts) + rng.randint(0, 3)
        starts = [rng.randint(0, T - n + 1) for n in counts]
        real = np.zeros((len(rows), T), bool)
        padded = [torch.full((len(rows), len(x), T, x.shape[-1]), torch.nan) for x in rows[0]]
        padded = [x.double() for x in padded]
        for b, (row, a, n) in enumerate(zip(rows, starts, counts, strict=True)):
            real[b, a : a + n] = True
            for x, mine in zip(padded, row, strict=True):
                x[b, :, a : a + n] = mine[:, fed[b] : fed[b] + n]
            fed[b] += n
        k, v, mask = cache.append(*padded[1:], Causal(), torch.tensor(real))
        answer = attention(padded[0], k, v, mask)
        for b in range(len(rows)):
            o[b].append(answer[b][:, real[b]])
    return [torch.cat(x, 1)[None] for x in o]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", KINDS)
def test_rows_at_their_own_pace_are_each_as_if_alone(kind, seed):
    rows = [[x[0] for x in drawn(1, n)] for n in (N, 3, 15)]
    cache = make(kind, B=3)
    for row, o in zip(rows, ragged(cache, rows, 5, seed), strict=True):
        close(o, at_once(kind, *(x[None] for x in row), Causal()))
    assert cache.lengths.tolist() == [N, 3, 15]


def test_left_padding_sees_nothing_and_right_padding_is_not_kept():
    q, k, v = drawn(T=5)
    real = torch.tensor([[0, 0, 1, 1, 1], [1, 1, 1, 1, 0]]) == 1
    cache = make("kv")
    keys, values, mask = cache.append(k, v, Causal(), real)
    assert mask.dense(5, 4)[0, 0].astype(int).tolist() == [
        *([0, 0, 0, 0], [0, 0, 0, 0]),
        *([1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0]),
    ]
    o = attention(q, keys, values, mask)
    assert (o[0, :, :2] == 0).all()
    assert torch.equal(keys[0, :, :3], k[0, :, 2:])
    assert torch.equal(keys[1], k[1, :, :4])


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_padding_in_every_row(kind):
    q, k, v = drawn()
    cache = make(kind)
    keys, values, mask = cache.append(k, v, Causal(), np.arange(N) > [[0], [0]])
    o = attention(q, keys, values, mask)[:, :, 1:]
    close(o, at_once(kind, *(x[:, :, 1:] for x in (q, k, v)), Causal()))


@pytest.mark.parametrize("kind", KINDS)
def test_positions_count_real_tokens_and_padding_stays_in_range(kind):
    """A table of positions has no row for a padding query: its position is the nearest real one."""
    cache = make(kind)
    real = torch.tensor([[0, 0, 1, 1, 1], [1, 1, 1, 1, 0]]) == 1
    assert cache.positions(5).tolist() == [0, 1, 2, 3, 4]
    assert cache.positions(5, real).tolist() == [[0, 0, 0, 1, 2], [0, 1, 2, 3, 3]]
    cache.append(*drawn(T=5)[1:], Causal(), real)
    assert cache.positions(2).tolist() == [[3, 4], [4, 5]]
    done = torch.tensor([[True, True], [False, False]])  # row 1 has come to its end
    assert cache.positions(2, done).tolist() == [[3, 4], [3, 3]]
    assert cache.positions(0).shape == (2, 0)
    assert cache.positions(1).dtype == torch.int64


@pytest.mark.parametrize("kind", KINDS)
def test_a_full_row_may_wait_for_the_others(kind):
    q, k, v = drawn()
    cache = make(kind)
    real = np.ones((2, N), bool)
    real[1, 10:] = False
    cache.append(k, v, Causal(), real)
    more = torch.tensor([[False], [True]])
    for t in range(10, N):
        assert cache.positions(1, more).max() < N
        keys, values, mask = cache.append(*(x[:, :, t : t + 1] for x in (k, v)), Causal(), more)
        o = attention(q[:, :, t : t + 1], keys, values, mask)
        close(o[1:], at_once(kind, q, k, v, Causal())[1:, :, t : t + 1])
    assert cache.lengths.tolist() == [N, N]


@pytest.mark.parametrize("kind", KINDS)
def test_no_rows_and_no_tokens(kind):
    q, k, v = drawn(B=0, T=3)
    cache = make(kind, B=0)
    keys, values, mask = cache.append(k, v, Causal())
    assert attention(q, keys, values, mask).shape == (0, 4, 3, 6)
    assert cache.positions(2).tolist() == [0, 1]
    cache.truncate(0), cache.reset(), cache.reorder([])
    assert cache.nbytes == 0
    q, k, v = drawn(T=0)
    cache = make(kind)
    keys, values, mask = cache.append(k, v, Causal())
    assert attention(q, keys, values, mask).shape == (2, 4, 0, 6)
    assert cache.append(k, v, None, torch.zeros(2, 0) > 0)[0].shape[2] == 0


# --- taking back, going on elsewhere, beginning again


@pytest.mark.parametrize("kind", ["kv", "paged", "int4", "int8"])
def test_rejected_drafts_leave_nothing_behind(kind):
    q, k, v = drawn()
    cache = make(kind)
    cuts = [0, 9, 11, 17, N]
    o = []
    for a, b in itertools.pairwise(cuts):
        n = min(8 - a % 8, 4) - 1 if a else 4  # drafts that finish no group
        draft = torch.full((2, 2, n, 8), 9.0).double(), torch.full((2, 2, n, 6), 9.0).double()
        if 0 < n <= N - a and kind != "int8":
            cache.append(*draft, Causal())
            cache.truncate(a)
        o.append(decoded(cache, q[:, :, a:b], k[:, :, a:b], v[:, :, a:b], [a, b], start=a))
    close(torch.cat(o, 2), at_once(kind, q, k, v, Causal()))


@pytest.mark.parametrize("kind", KINDS)
def test_truncate_rows_to_lengths_of_their_own(kind):
    q, k, v = drawn()
    cache = make(kind)
    cache.append(k[:, :, :7], v[:, :, :7])
    cache.truncate([7, 4] if kind != "ring" else [7, 6])
    start = cache.lengths
    rows = [[x[b, :, n:] for x in (q, k, v)] for b, n in enumerate(start)]
    for b, o in enumerate(ragged(cache, rows, 4)):
        close(o, at_once(kind, q, k, v, Causal())[b : b + 1, :, start[b] :])


@pytest.mark.parametrize("kind", KINDS)
def test_reorder_goes_on_from_other_rows(kind):
    """Beam search: both beams go on from row 1, then they part."""
    q, k, v = drawn(B=3)
    cache = make(kind, B=3)
    real = np.arange(12) < [[12], [11], [4]]
    cache.append(k[:, :, :12], v[:, :, :12], Causal(), real)
    cache.reorder([1, 1, 0])
    assert cache.lengths.tolist() == [11, 11, 12]
    for x in (q, k, v):
        x[[0, 1, 2], :, :12] = x[[1, 1, 0], :, :12]
    rows = [[x[b, :, n:] for x in (q, k, v)] for b, n in enumerate(cache.lengths)]
    for b, o in enumerate(ragged(cache, rows, 4)):
        n = q.shape[2] - o.shape[2]
        close(o, at_once(kind, q, k, v, Causal())[b : b + 1, :, n:])


@pytest.mark.parametrize("kind", KINDS)
def test_reset_rows_begin_again(kind):
    q, k, v = drawn()
    cache = make(kind)
    cache.append(k * torch.inf if kind[:3] != "int" else k, v, Causal())
    cache.reset([1])
    assert cache.lengths.tolist() == [N, 0]
    cache.reset()
    assert cache.lengths.tolist() == [0, 0]
    assert cache.nbytes == 0
    close(decoded(cache, q, k, v, [0, 3, 4, N]), at_once(kind, q, k, v, Causal()))


def test_a_copy_goes_its_own_way():
    q, k, v = drawn()
    cache = make("paged")
    cache.append(k[:, :, :7], v[:, :, :7])
    other = copy.deepcopy(cache)
    other.append(-k[:, :, 7:], v[:, :, 7:])
    got = decoded(cache, q[:, :, 7:], k[:, :, 7:], v[:, :, 7:], [7, N], start=7)
    close(got, attention(q, k, v, Causal())[:, :, 7:])


# --- the plain cache


def test_append_moves_nothing_that_was_there():
    """The answer is a view of the same memory, and no stored bit changes."""
    _, k, v = drawn(dtype=torch.float32)
    cache = make("kv", dtype=torch.float32)
    places = cache.k.data_ptr(), cache.v.data_ptr()
    for a, b in [(0, 5), (5, 6), (6, 9)]:
        before = cache.k.view(torch.int32).clone(), cache.v.view(torch.int32).clone()
        keys, values, _ = cache.append(k[:, :, a:b], v[:, :, a:b])
        assert (keys.data_ptr(), values.data_ptr()) == places
        assert keys.shape[2] == values.shape[2] == b
        for x, old in zip((cache.k, cache.v), before, strict=True):
            same = x.view(torch.int32) == old
            assert same[:, :, :a].all()
            assert same[:, :, b:].all()
        assert torch.equal(keys, k[:, :, :b])


def test_equal_rows_need_no_other_mask():
    """Causal() stays Causal(), so that an implementation may know it."""
    _, k, v = drawn()
    cache = make("kv")
    mask = Causal()
    for a, b in [(0, 5), (5, 6)]:
        assert cache.append(k[:, :, a:b], v[:, :, a:b], mask)[2] is mask


def test_slots_that_hold_no_token_are_hidden():
    """A static cache without a length mask (transformers#30437): zeros in 58 of 64 slots would
    take weight from the 6 keys that are there."""
    q, k, v = drawn(T=6)
    cache = KVCache(2, 2, 64, 8, 6, dtype=torch.float64)
    keys, values, mask = cache.append(k, v, Causal())
    want = attention(q[:, :, -1:], k, v)
    close(attention(q[:, :, -1:], keys, values, mask), want)
    diluted = attention(q[:, :, -1:], cache.k, cache.v)
    assert (diluted.norm() / want.norm()) < 0.5


def test_nbytes_are_those_of_the_tokens():
    _, k, v = drawn()
    a_token = 2 * (8 + 6) * 8  # heads, widths, float64
    for kind, tokens in [("kv", 10), ("window", 9), ("ring", 5), ("paged", 10)]:
        cache = make(kind)
        assert cache.nbytes == 0
        cache.append(k[:, :, :10], v[:, :, :10])
        assert cache.nbytes == 2 * tokens * a_token
    assert "lengths=[10, 10]" in repr(cache)


# --- windows


@pytest.mark.parametrize("sinks", [0, 1, 5])
@pytest.mark.parametrize("window", [1, 3, 30])
def test_windows_and_sinks_are_their_mask(window, sinks):
    """W keys with the query's own: Mistral's count (transformers#39408, vllm#3385)."""
    q, k, v = drawn()
    want = attention(q, k, v, Causal() & (Window(window) | Prefix(sinks)))
    for cuts in ([0, N], range(N + 1), [0, 2, 11, 12, N]):
        cache = spoiled(WindowCache(2, 2, window, 8, 6, sinks=sinks, dtype=torch.float64))
        close(decoded(cache, q, k, v, list(cuts)), want)
        assert cache.k.shape[2] == window + sinks


def test_one_token_overwrites_one_slot():
    _, k, v = drawn()
    cache = make("window")
    cache.append(k[:, :, :N], v[:, :, :N])
    before = cache.k.clone()
    keys, _, mask = cache.append(k[:, :, :1], v[:, :, :1], Causal())
    changed = (cache.k != before).any((0, 1, 3))
    assert changed.sum() == 1
    assert changed[:2].sum() == 0  # sinks stay
    assert keys.data_ptr() == cache.k.data_ptr()
    assert mask.dense(1, 9).all()


def test_a_window_goes_back_as_far_as_it_can():
    q, k, v = drawn()
    cache = make("ring")
    cache.append(k[:, :, :10], v[:, :, :10])
    cache.append(k[:, :, :1] * 9, v[:, :, :1] * 9)
    cache.truncate(10)  # the slot that was lost is outside of the next window
    o = [decoded(cache, *(x[:, :, 10:12] for x in (q, k, v)), [10, 11, 12], start=10)]
    close(o[0], at_once("ring", q, k, v, Causal())[:, :, 10:12])
    with pytest.raises(
        ValueError, match=r"row 0 cannot go back to 9 tokens.*position 6: .* spare=n"
    ):
        cache.truncate([9, 12])
    assert cache.lengths.tolist() == [12, 12]
    cache.reset([0])
    cache.truncate([0, 12])


def test_spare_slots_let_a_window_go_back():
    q, k, v = drawn()
    cache = spoiled(WindowCache(2, 2, 5, 8, 6, sinks=1, spare=3, dtype=torch.float64))
    want, o = attention(q, k, v, Causal() & (Window(5) | Prefix(1))), []
    for a, b in itertools.pairwise([0, 10, 12, 13, 14, N]):
        o.append(decoded(cache, *(x[:, :, a:b] for x in (q, k, v)), [a, b], start=a))
        for n in (1, 3):
            cache.append(k[:, :, :n] * 9, v[:, :, :n] * 9)
            cache.truncate(b)
    close(torch.cat(o, 2), want)
    cache.reset()
    cache.append(k[:, :, :14], v[:, :, :14])
    with pytest.raises(ValueError, match="cannot go back to 9 tokens"):
        cache.truncate(9)
    cache.truncate(11)
    rest = (x[:, :, 11:] for x in (q, k, v))
    close(decoded(cache, *rest, [11, 12, N], start=11), want[:, :, 11:])


def test_a_window_that_begins_again_or_elsewhere_has_lost_nothing():
    _, k, v = drawn()
    cache = make("ring")
    cache.append(k, v, None, np.arange(N) < [[N], [4]])
    cache.reorder([1, 1])
    cache.truncate([2, 1])
    cache.reset()
    cache.append(k[:, :, :N], v[:, :, :N])
    cache.reset()
    cache.append(k[:, :, :3], v[:, :, :3])
    cache.truncate(1)


# --- pages


def test_blocks_are_taken_shared_and_given_back():
    blocks = Blocks(2)
    a, b = blocks.take(), blocks.take()
    assert {a, b} == {0, 1}
    with pytest.raises(ValueError, match="all 2 blocks are in use"):
        blocks.take()
    blocks.share(a)
    blocks.free(a)
    assert blocks.used == 2
    blocks.free(a)
    assert blocks.used == 1
    for use in (blocks.free, blocks.share):
        with pytest.raises(ValueError, match=f"block {a} is free already"):
            use(a)
        with pytest.raises(ValueError, match="block 2 is unknown: there are 2"):
            use(2)
        with pytest.raises(ValueError, match="block must be at least 0"):
            use(-1)
        with pytest.raises(TypeError, match="block must be a whole number"):
            use(1.0)
    assert blocks.take() == a


def test_waste_is_less_than_a_block_for_each_row():
    cache = spoiled(PagedCache(3, 2, 30, 8, 6, block=4))
    rng = np.random.RandomState(0)
    for _ in range(12):
        real = np.arange(3) < rng.randint(0, 4, (3, 1))
        cache.append(torch.randn(3, 2, 3, 8), torch.randn(3, 2, 3, 6), None, real)
        held = -(-cache.lengths // 4)
        assert cache.used == held.sum()
        assert cache.waste == (held * 4 - cache.lengths).sum() <= 3 * 3
        assert cache.nbytes == cache.used * 4 * 2 * 14 * 4
    cache.free(1)
    assert cache.used == held[[0, 2]].sum()


@pytest.mark.parametrize("length", [None, 0, 4, 5, 6, 8])
def test_a_shared_beginning_is_held_once(length):
    q, k, v = drawn(B=3)
    cache = spoiled(PagedCache(3, 2, 30, 8, 6, block=4, dtype=torch.float64))
    only = np.zeros((3, 10), bool)
    only[0] = True
    cache.append(k[:, :, :10], v[:, :, :10], Causal(), only)
    for row in (1, 2):
        cache.share(row, 0, length)
    n = 10 if length is None else length
    assert cache.lengths.tolist() == [10, n, n]
    assert cache.used == 3
    assert cache.waste == 2
    for x in (q, k, v):
        x[1:, :, :n] = x[0, :, :n]
    rows = [[x[b, :, m:] for x in (q, k, v)] for b, m in enumerate(cache.lengths)]
    for b, o in enumerate(ragged(cache, rows, 5)):
        close(o, attention(q, k, v, Causal())[b : b + 1, :, q.shape[2] - o.shape[2] :])
    for row in range(3):
        cache.free(row)
    assert cache.used == cache.waste == 0


def test_who_writes_into_a_shared_block_copies_it_first():
    """Only a block that is part full is copied, and the last one to write keeps the old one."""
    _, k, v = drawn(B=3)
    cache = spoiled(PagedCache(3, 2, 4, 8, 6, block=4, dtype=torch.float64))
    only = np.zeros((3, 6), bool)
    only[0] = True
    cache.append(k[:, :, :6], v[:, :, :6], None, only)
    cache.share(1, 0)
    cache.share(2, 0)
    assert cache.tables == [cache.tables[0]] * 3
    before = cache.k[cache.tables[0][1], :2].clone()
    keys, _, _ = cache.append(k[:, :, 6:7], v[:, :, 6:7])
    first, second = zip(*cache.tables, strict=True)
    assert len(set(first)) == 1
    assert len(set(second)) == 3
    assert cache.used == 4
    for b in range(3):
        assert torch.equal(cache.k[second[b], :2], before)
        assert torch.equal(keys[b, :, 6], k[b, :, 6])


def test_beams_share_their_beginning_without_copies():
    _, k, v = drawn(B=3)
    cache = spoiled(PagedCache(3, 2, 9, 8, 6, block=4, dtype=torch.float64))
    cache.append(k[:, :, :8], v[:, :, :8])
    stored = cache.k.clone()
    cache.reorder([2, 2, 0])
    assert torch.equal(cache.k.nan_to_num(), stored.nan_to_num())
    assert cache.used == 4  # row 1's are free again
    cache.reorder([0, 0, 0])
    assert cache.used == 2


def test_a_pool_that_is_used_up_says_so_and_stays_as_it_was():
    q, k, v = drawn(B=3)
    cache = spoiled(PagedCache(3, 2, 7, 8, 6, block=4, dtype=torch.float64))
    cache.append(k[:, :, :8], v[:, :, :8])
    tables, stored = copy.deepcopy(cache.tables), cache.k.clone()
    with pytest.raises(ValueError, match="3 more blocks are needed, and 1 of 7 are left: free"):
        cache.append(k[:, :, 8:9], v[:, :, 8:9])
    assert cache.tables == tables
    assert cache.used == 6
    assert torch.equal(cache.k.nan_to_num(), stored.nan_to_num())
    cache.free(1)
    real = torch.tensor([[True], [False], [True]])
    keys, values, mask = cache.append(k[:, :, 8:9], v[:, :, 8:9], Causal(), real)
    o = attention(q[:, :, 8:9], keys, values, mask)
    close(o[::2], attention(q, k, v, Causal())[::2, :, 8:9])


# --- integers


def test_int4_takes_less_than_a_third_of_fp16():
    """With a scale and a zero in float16 for each 64 values: 4.5 bits, and the unfinished group."""
    k = torch.randn(1, 4, 512, 64, dtype=torch.float16)
    cache = QuantizedCache(1, 4, 600, 64, dtype=torch.float16)
    cache.append(k, k)
    whole = 2 * k.nbytes
    assert cache.nbytes == whole * 4.5 / 16
    assert cache.nbytes <= 0.30 * whole
    cache.append(k[:, :, :3], k[:, :, :3])
    assert cache.nbytes == whole * 4.5 / 16 + 2 * k[:, :, :3].nbytes


@pytest.mark.parametrize("per", [(64, 1), (1, 64)])
@pytest.mark.parametrize("bits", [4, 8])
def test_float32_reads_float16_scales_as_float64_would(bits, per):
    """Bit for bit, from the least scales to the largest: it is nine times faster."""
    sizes = torch.logspace(-7, 4, 24)
    for x in (torch.randn(2, 64, 24) * sizes, torch.rand(2, 64, 24) * sizes + 20000):
        for symmetric in (True, False):
            codes = quantize(x, bits, per=per, symmetric=symmetric, dtype=torch.float16)
            exact = replace(codes, dtype=torch.float64).dequantize()
            assert torch.equal(codes.dequantize(), exact.float())


@pytest.mark.parametrize(("D", "E"), [(7, 5), (32, 70), (1, 1)])
@pytest.mark.parametrize("bits", [4, 8])
def test_odd_widths_and_values_wider_than_a_group(D, E, bits):
    q, k, v = drawn(D=D, E=E)
    cache = [
        spoiled(QuantizedCache(2, 2, N, D, E, group=8, bits=bits, dtype=torch.float64))
        for _ in range(2)
    ]
    once, one = decoded(cache[0], q, k, v, [0, N]), decoded(cache[1], q, k, v, range(N + 1))
    close(one, once)
    close(once, attention(q, k, v, Causal()), 1.0 if bits == 4 else 0.1)


def test_integers_cannot_be_taken_back_but_groups_can():
    q, k, v = drawn()
    cache = make("int4")
    cache.append(k[:, :, :19], v[:, :, :19])
    with pytest.raises(ValueError, match="row 1 cannot keep 15 tokens, as its first 16 are int"):
        cache.truncate([19, 15])
    assert cache.lengths.tolist() == [19, 19]
    cache.truncate([17, 8])
    rows = [[x[b, :, n:] for x in (q, k, v)] for b, n in enumerate(cache.lengths)]
    for b, o in enumerate(ragged(cache, rows, 3)):
        close(o, at_once("int4", q, k, v, Causal())[b : b + 1, :, cache.lengths[b] - o.shape[2] :])


@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_what_no_integer_stands_for_is_refused_at_once(bad):
    _, k, v = drawn()
    for name in "kv":
        cache = make("int4")
        cache.append(k[:, :, :9], v[:, :, :9])
        x = {"k": k[:, :, 9:12].clone(), "v": v[:, :, 9:12].clone()}
        x[name][1, 0, 2, 3] = bad
        with pytest.raises(ValueError, match=f"{name} holds NaN or infinities"):
            cache.append(*x.values())
        assert cache.lengths.tolist() == [9, 9]
        cache.append(*x.values(), None, np.array([[1, 1, 1], [1, 1, 0]]) == 1)


def test_a_group_too_far_apart_for_float16_is_refused_before_anything_is_kept():
    _, k, v = drawn()
    cache = make("int4")
    cache.append(k[:, :, :7], v[:, :, :7])
    with pytest.raises(ValueError, match=r"does not fit torch\.float16"):
        cache.append(k[:, :, 7:8] * 1e7, v[:, :, 7:8])
    assert cache.lengths.tolist() == [7, 7]


# --- layers and models

LAYOUTS = [{"n_kv_heads": 2, "share_values": True, "gate": True}, {"n_kv_heads": 1}]


def model(position=None, **options):
    net = TinyLM(50, 16, 2, 4, position=position, **options).double().eval()
    if isinstance(position, Learned):
        position.double()
    return net


def read(net, tokens, caches, cuts, **how):
    pieces = itertools.pairwise(cuts)
    return torch.cat([net(tokens[:, a:b], cache=caches, **how) for a, b in pieces], 1)


def caches(net, kind, B=2):
    cache, size, options = KINDS[kind]
    return [spoiled(one) for one in net.caches(B, size, cache, **options)]


def whole(net, kind, tokens):
    """The logits without a cache, or with one and all at once where integers change them."""
    if kind in EXACT:
        return net(tokens, SEES.get(kind))
    return net(tokens, cache=caches(net, kind, len(tokens)))


@pytest.mark.parametrize(
    ("position", "layout"),
    [*((position, {}) for position in SCHEMES), *((Rotary(), layout) for layout in LAYOUTS)],
    ids=repr,
)
@pytest.mark.parametrize("kind", KINDS)
def test_a_model_reads_the_same_with_a_cache(kind, position, layout):
    net = model(position, **layout)
    tokens = torch.randint(0, 50, (2, N))
    want = whole(net, kind, tokens)
    close(read(net, tokens, caches(net, kind), [0, 9, *range(10, 14), 20, N]), want)
    if kind == "int8":
        assert (want - net(tokens)).abs().max() < 0.1


@pytest.mark.parametrize("position", SCHEMES, ids=repr)
@pytest.mark.parametrize("kind", KINDS)
def test_padded_prompts_answer_as_each_alone(kind, position):
    """A row's own positions and lengths: tiny-llm#46 counted the prompt twice, unsloth#3699 counted
    padding, and transformers#30437 saw slots that held nothing."""
    net = model(position)
    tokens, lengths = torch.randint(0, 50, (3, N)), [9, 4, 11]
    want = whole(net, kind, tokens)
    for side in ("left", "right"):
        prompt, real = torch.zeros(3, 11, dtype=torch.int64), torch.zeros(3, 11) > 0
        for b, n in enumerate(lengths):
            here = slice(11 - n, 11) if side == "left" else slice(n)
            prompt[b, here], real[b, here] = tokens[b, :n], True
        kept = caches(net, kind, 3)
        logits = net(prompt, cache=kept, real=real)
        for b, n in enumerate(lengths):
            close(logits[b, real[b]], want[b, :n])
        for t in range(3):  # decoding goes on, each row from its own length
            coming = torch.stack([tokens[b, n + t] for b, n in enumerate(lengths)])
            logits = net(coming[:, None], cache=kept)
            for b, n in enumerate(lengths):
                close(logits[b, 0], want[b, n + t])


@pytest.mark.parametrize("kind", EXACT)
def test_a_model_takes_back_drafts(kind):
    net = model(Rotary())
    tokens, draft = torch.randint(0, 50, (2, N)), torch.randint(0, 50, (2, 1))
    kept, want = caches(net, kind), whole(net, kind, tokens)
    close(net(tokens[:, :9], cache=kept), want[:, :9])
    net(draft, cache=kept)
    for one in kept:
        one.truncate(9)
    close(read(net, tokens, kept, [9, 12, N]), want[:, 9:])


def test_a_model_with_a_window_of_its_own_mask():
    net, tokens = model(Rotary()), torch.randint(0, 50, (2, N))
    kept = net.caches(2, N)
    close(read(net, tokens, kept, [0, 9, 10, N], mask=Window(4)), net(tokens, Window(4)))


def test_a_layer_with_dropped_heads_and_a_cache_in_evaluation():
    layer = MultiHeadAttention(16, 4, 2, gate=True, attend=DropHead(0.5), dropout=0.1).eval()
    x = torch.randn(2, 6, 16)
    cache = layer.cache(2, 6)
    o = [layer(x[:, t : t + 1], Causal(), cache=cache) for t in range(6)]
    close(torch.cat(o, 1), layer(x, Causal()), 1e-6)


def test_a_cache_is_no_part_of_the_weights():
    layer = MultiHeadAttention(16, 4)
    names = set(layer.state_dict())
    layer(torch.randn(2, 3, 16), Causal(), cache=layer.cache(2, 3))
    assert set(layer.state_dict()) == names


def test_a_cache_knows_its_layer():
    layer = MultiHeadAttention(16, 4, 2, position=Alibi()).double()
    cache = layer.cache(3, 9)
    assert (cache.batch, cache.heads, cache.length) == (3, 2, 9)
    assert (cache.width, cache.value_width, cache.dtype) == (5, 4, torch.float64)
    half = layer.bfloat16().cache(3, 9, PagedCache, block=2)
    assert (half.width, half.block, half.dtype) == (6, 2, torch.bfloat16)
    assert layer.cache(3, 9, QuantizedCache).exact == 2


def test_alibi_in_a_cache_counts_from_the_first_token():
    """A key's entry must not depend on the call that it came in."""
    at, k = torch.arange(9), torch.zeros(1, 1, 9, 4)
    whole = Alibi().kept(k, at)
    assert torch.equal(Alibi().kept(k[:, :, 3:5], at[3:5]), whole[:, :, 3:5])
    assert whole[0, 0, :, 4].tolist() == list(range(9))
    for dtype in (torch.float16, torch.bfloat16):
        far = torch.tensor([0, 255, 256, 4097, 65535])
        columns = Alibi().kept(k[:, :, :5].to(dtype), far)[..., 4:]
        assert torch.equal(columns.double().sum(-1)[0, 0], far.double())
        with pytest.raises(ValueError, match=r"to 65,535, got 65536: use float32"):
            Alibi().kept(k[:, :, :1].to(dtype), torch.tensor([65536]))


def test_integers_leave_alibis_positions_alone():
    """Steps of a fifteenth of the range of a group would put keys two positions away."""
    net, tokens = model(Alibi()), torch.randint(0, 50, (1, 200))
    kept = net.caches(1, 200, QuantizedCache, bits=8)
    close(read(net, tokens, kept, [0, 150, 200]), net(tokens), 0.05)
    cache = kept[0]
    keys, _, _ = cache.append(torch.zeros(1, 4, 0, 5).double(), torch.zeros(1, 4, 0, 4).double())
    assert keys[0, 0, :192, 4].tolist() == list(range(192))


def test_a_cache_that_would_round_alibis_positions_is_refused():
    layer = MultiHeadAttention(16, 4, position=Alibi())
    for cache in (QuantizedCache(2, 4, 9, 5, 4), layer.cache(2, 9, QuantizedCache, exact=0)):
        with pytest.raises(ValueError, match=r"would round the positions .* needs exact=1"):
            layer(torch.randn(2, 3, 16), Causal(), cache=cache)


# --- what is wrong is named, and nothing is stored


def state(cache):
    return cache.lengths.tolist(), [x.clone().nan_to_num(77) for x in memory(cache)]


def unchanged(cache, before):
    lengths, tensors = state(cache)
    assert lengths == before[0]
    assert all(torch.equal(a, b) for a, b in zip(tensors, before[1], strict=True))


K, V = torch.zeros(2, 2, 3, 8).double(), torch.zeros(2, 2, 3, 6).double()
REAL = torch.ones(2, 3) > 0


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ((K[:1], V), ValueError, r"k must be \[B, Hk, T, D\] = \[2, 2, 3, 8\].*got \[1, 2, 3, 8\]"),
        ((K, V[:, :1]), ValueError, r"v must be \[B, Hk, T, E\] = \[2, 2, 3, 6\].*\[2, 1, 3, 6\]"),
        ((K, V[:, :, :2]), ValueError, "v must be"),
        ((K[..., :7], V), ValueError, "k must be"),
        ((K[0], V), ValueError, "k must be"),
        ((K.float(), V), TypeError, "k is torch.float32, but the cache is for torch.float64: make"),
        ((K, V.half()), TypeError, "v is torch.float16"),
        ((K.numpy(), V), TypeError, "k must be a torch tensor, got ndarray"),
        ((K.to("meta"), V), ValueError, "k is on meta, but the cache is on cpu"),
        ((K, V, torch.ones(3, 12)), TypeError, "must be boolean"),
        ((K, V, Dense(np.ones((3, 3), bool))), ValueError, r"holds a \[3, 3\] matrix"),
        ((K, V, Causal() & Document([0] * 5)), ValueError, "holds 5 ids, got 12 keys"),
        ((K, V, padding([1, 2, 3])), ValueError, "mask"),
        ((K, V, None, REAL.int()), TypeError, r"real must be boolean.*int32.*write real == 1"),
        ((K, V, None, REAL.float()), TypeError, "write real == 1"),
        ((K, V, None, REAL[:, :2]), ValueError, r"real must be \[B, T\] = \[2, 3\], got \[2, 2\]"),
        ((K, V, None, np.array([[1, 1, 1], [1, 0, 1]]) == 1), ValueError, "row 1 must stand toge"),
        ((K.clone().requires_grad_(), V), ValueError, "k requires grad.*torch.no_grad"),
        ((K, V.clone().requires_grad_()), ValueError, "v requires grad"),
    ],
)
def test_bad_appends_are_named_and_store_nothing(kind, arguments, error, words):
    cache = make(kind)
    cache.append(*drawn(T=9)[1:])
    before = state(cache)
    with torch.enable_grad(), pytest.raises(error, match=words):
        cache.append(*arguments)
    unchanged(cache, before)


@pytest.mark.parametrize("kind", ["kv", "int4"])
def test_appending_past_the_end(kind):
    cache = make(kind)
    cache.append(*drawn(T=22)[1:], None, np.arange(22) < [[22], [5]])
    before = state(cache)
    message = r"row 0 holds 22 tokens, and 3 more do not fit into length=24: make a longer cache"
    for call in (lambda: cache.append(K, V), lambda: cache.positions(3)):
        with pytest.raises(ValueError, match=message):
            call()
        unchanged(cache, before)
    cache.append(K, V, None, np.array([[1, 1, 0], [1, 1, 1]]) == 1)
    assert cache.lengths.tolist() == [24, 8]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda c: c.truncate(10), ValueError, "row 0 holds 9 tokens, cannot keep 10"),
        (lambda c: c.truncate([9, -1]), ValueError, "truncate: lengths must be at least 0"),
        (lambda c: c.truncate([9]), ValueError, r"one number or \[2\], got 1"),
        (lambda c: c.truncate(2.0), TypeError, "whole number"),
        (lambda c: c.reset([2]), ValueError, r"reset: rows must be from 0 to 1, got \[2\]"),
        (lambda c: c.reset(-1), ValueError, "reset: rows must be"),
        (lambda c: c.reset([True, False]), TypeError, "reset: rows must be whole numbers"),
        (lambda c: c.reorder([0]), ValueError, r"a row for each of 2, got \[1\]"),
        (lambda c: c.reorder([0, 2]), ValueError, "reorder: rows must be from 0 to 1"),
        (lambda c: c.reorder([0.0, 1.0]), TypeError, "whole numbers"),
        (lambda c: c.positions(-1), ValueError, "T must be at least 0"),
        (lambda c: c.positions(3, REAL[:1]), ValueError, r"real must be \[B, T\]"),
    ],
)
def test_bad_calls_are_named_and_change_nothing(kind, call, error, words):
    cache = make(kind)
    cache.append(*drawn(T=9)[1:])
    before = state(cache)
    with pytest.raises(error, match=words):
        call(cache)
    unchanged(cache, before)
    with pytest.raises(ValueError, match="read-only"):
        cache.lengths[0] = 0


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: KVCache(-1, 2, 4, 8), ValueError, "batch must be at least 0"),
        (lambda: KVCache(2, 0, 4, 8), ValueError, "heads must be at least 1"),
        (lambda: KVCache(2, 2, 4.5, 8), TypeError, "length must be a whole number"),
        (lambda: KVCache(2, 2, 4, 8, dtype=torch.int8), TypeError, "dtype must be one of"),
        (lambda: WindowCache(2, 2, 0, 8), ValueError, "window must be at least 1"),
        (lambda: WindowCache(2, 2, 3, 8, sinks=-1), ValueError, "sinks must be at least 0"),
        (lambda: PagedCache(2, 2, 3, 8, block=0), ValueError, "block must be at least 1"),
        (lambda: PagedCache(2, 2, -3, 8), ValueError, "blocks must be at least 0"),
        (lambda: QuantizedCache(2, 2, 3, 8, bits=5), ValueError, "bits must be 8 or 4"),
        (lambda: QuantizedCache(2, 2, 3, 8, group=0), ValueError, "group must be at least 1"),
        (lambda: QuantizedCache(2, 2, 3, 8, exact=8), ValueError, "exact must be below the width"),
        (lambda: PagedCache(2, 2, 3, 8).free(0), ValueError, "row 0 holds no blocks"),
        (lambda: PagedCache(2, 2, 3, 8).free(2), ValueError, "free: row must be from 0 to 1"),
        (lambda: PagedCache(2, 2, 3, 8).share(0, 5), ValueError, "share: source must be from 0"),
        (lambda: PagedCache(2, 2, 3, 8).share(0, 1, 2), ValueError, "holds 0 tokens, cannot share"),
    ],
)
def test_bad_caches_are_named(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_sharing_needs_an_empty_row_and_freeing_a_full_one():
    cache = make("paged")
    cache.append(K, V)
    with pytest.raises(ValueError, match="row 0 holds 3 tokens: free it first"):
        cache.share(0, 1)
    cache.free(0)
    with pytest.raises(ValueError, match="row 0 holds no blocks: it is empty, or was freed before"):
        cache.free(0)
    cache.share(0, 1)
    assert cache.lengths.tolist() == [3, 3]


NET = TinyLM(50, 16, 2, 4).eval()
LAYER = NET.blocks[0].attention
X, TOKENS = torch.zeros(2, 3, 16), torch.zeros(2, 3, dtype=torch.int64)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda c: LAYER(X, cache=c[0], at=torch.arange(3)), ValueError, "at must not be given"),
        (lambda c: LAYER(X, cache=c[0], context=X), ValueError, "context must not be given"),
        (lambda c: LAYER(X, cache=c), TypeError, "cache must be a Cache"),
        (lambda c: LAYER(X, real=REAL), ValueError, r"mask=padding\(lengths\), and pass at="),
        (
            lambda c: LAYER(X[:1], cache=c[0]),
            ValueError,
            "x has 1 examples, and the cache is for 2",
        ),
        (lambda c: LAYER(X, PerHead((Full(),) * 3), cache=c[0]), ValueError, "mask is for 3 heads"),
        (
            lambda c: LAYER(X, cache=KVCache(2, 4, 9, 5)),
            ValueError,
            r"\(4, 5, 5\).*needs \(4, 4, 4",
        ),
        (lambda c: LAYER(X, cache=LAYER.cache(2, 9, dtype=torch.float64)), TypeError, "float64"),
        (lambda c: NET(TOKENS, real=REAL), ValueError, "real is for a cache"),
        (lambda c: NET(TOKENS, cache=c, at=torch.arange(3)), ValueError, "at must not be given"),
        (lambda c: NET(TOKENS, cache=c[0]), TypeError, "a Cache per block"),
        (lambda c: NET(TOKENS, cache=c[:1]), ValueError, "cache has 1 for 2 blocks"),
        (lambda c: NET(TOKENS, cache=[c[0], c[0]]), ValueError, "one object is there twice"),
        (lambda c: NET(TOKENS, cache=[c[0], NET.caches(2, 9)[0]]), ValueError, "unlike numbers"),
        (lambda c: NET(TOKENS[:1], cache=c), ValueError, "x has 1 examples"),
        (lambda c: NET(TOKENS, cache=c, real=REAL.int()), TypeError, "write real == 1"),
        (lambda c: NET(TOKENS.expand(2, -1).repeat(1, 4), cache=c), ValueError, "more do not fit"),
        (lambda c: NET(TOKENS, padding([1, 2, 3]), cache=c), ValueError, "mask"),
        (lambda c: NET(TOKENS, PerHead((Full(),) * 3), cache=c), ValueError, "mask is for 3 heads"),
    ],
)
def test_a_call_that_fails_leaves_every_layers_cache_as_it_was(call, error, words):
    kept = NET.caches(2, 9)
    NET(TOKENS[:, :1], cache=kept)
    before = [state(one) for one in kept]
    with pytest.raises(error, match=words):
        call(kept)
    for one, was in zip(kept, before, strict=True):
        unchanged(one, was)


def test_a_call_that_broke_off_is_noticed():
    """Layers out of step would answer, and wrongly."""
    kept, whole = NET.caches(2, 9), NET(TOKENS)
    LAYER.attend = lambda *_, **__: 1 / 0
    with pytest.raises(ZeroDivisionError):
        NET(TOKENS, cache=kept)
    LAYER.attend = attention
    with pytest.raises(ValueError, match="as after a call that broke off: truncate or reset"):
        NET(TOKENS, cache=kept)
    kept[0].reset()
    close(NET(TOKENS, cache=kept), whole, 1e-6)


def test_one_layer_without_room_stops_the_model_before_the_first():
    kept = [LAYER.cache(2, 9), LAYER.cache(2, 2)]
    with pytest.raises(ValueError, match="length=2"):
        NET(TOKENS, cache=kept)
    kept[1] = LAYER.cache(2, 9, dtype=torch.float64)
    with pytest.raises(TypeError, match=r"cache is for torch\.float64"):
        NET(TOKENS, cache=kept)
    kept[1] = LAYER.cache(2, 9)
    with torch.enable_grad(), pytest.raises(ValueError, match=r"torch\.no_grad"):
        NET(TOKENS, cache=kept)
    assert [one.lengths.tolist() for one in kept] == [[0, 0], [0, 0]]
