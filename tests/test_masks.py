"""Masks: hand-worked matrices first, then laws that hold for every mask and every tree of masks."""

import copy
import itertools
import pickle

import numpy as np
import pytest
import torch
from cases import IDS, LENGTH, MASKS, SPREAD, TORN, small_dense

import attnlearn
from attnlearn import (
    EMPTY,
    FULL,
    PARTIAL,
    Causal,
    Chunked,
    Dense,
    Dilated,
    Document,
    Full,
    Global,
    Mask,
    PerExample,
    PerHead,
    Prefix,
    RandomBlocks,
    Window,
    padding,
)
from attnlearn.masks import arrays, each, rules

ALL = [*MASKS, *SPREAD]


def rows(mask, T, S):
    """The matrix as text: one string per query, x where it may see."""
    return ["".join("x" if seen else "." for seen in row) for row in mask.dense(T, S)]


@pytest.mark.parametrize(
    ("mask", "T", "S", "want"),
    [
        (Full(), 2, 3, ["xxx", "xxx"]),
        (Causal(), 3, 3, ["x..", "xx.", "xxx"]),
        (Causal(), 2, 5, ["xxxx.", "xxxxx"]),  # the last query sees every key
        (Causal(), 1, 4, ["xxxx"]),  # decoding
        (Causal(), 4, 2, ["..", "..", "x.", "xx"]),  # positions -2, -1, 0, 1
        (~Causal(), 3, 3, [".xx", "..x", "..."]),
        (Window(1), 3, 3, ["x..", ".x.", "..x"]),
        (Window(2), 4, 4, ["xx..", "xxx.", ".xxx", "..xx"]),
        (Causal() & Window(3), 5, 5, ["x....", "xx...", "xxx..", ".xxx.", "..xxx"]),
        (Causal() | Prefix(2), 4, 4, ["xx..", "xx..", "xxx.", "xxxx"]),
        (Prefix(0), 2, 2, ["..", ".."]),
        (Global(1), 3, 3, ["xxx", "x..", "x.."]),
        (Global(1) | Window(2), 4, 4, ["xxxx", "xxx.", "xxxx", "x.xx"]),
        (Dilated(2), 4, 4, ["x.x.", ".x.x", "x.x.", ".x.x"]),
        (Chunked(2), 4, 4, ["xx..", "xx..", "..xx", "..xx"]),
        (Chunked(2), 3, 4, ["xx..", "..xx", "..xx"]),
        (Document([0, 0, 1]), 3, 3, ["xx.", "xx.", "..x"]),
        (Document([0, 0, 1]), 5, 3, ["...", "...", "xx.", "xx.", "..x"]),  # negative positions
        (Document([0, 0, 1, 1]), 2, 3, ["xx.", "..x"]),
        (Dense(np.eye(3, dtype=bool)), 3, 3, ["x..", ".x.", "..x"]),
        (Dense(np.eye(3, dtype=bool)), 1, 3, ["..x"]),  # its last row is the last query
        (Causal().gather([2, -1, 0]), 3, 3, ["..x", "..x", "x.x"]),
        (Causal().gather([4, 5, 2, 3]).shift(2), 1, 4, ["xxxx"]),  # a ring of the last four
        (Document([0, 0, 1]).gather([2, 1, 0]), 3, 3, [".xx", ".xx", "x.."]),
        (Causal().shift(1), 3, 3, ["xx.", "xxx", "xxx"]),
        (Causal().shift(-1), 3, 3, ["...", "x..", "xx."]),
    ],
    ids=str,
)
def test_worked_by_hand(mask, T, S, want):
    assert rows(mask, T, S) == want


def test_padding_hides_keys_of_each_example():
    seen = padding([2, 0]).dense(2, 3)
    assert seen.shape == (2, 1, 2, 3)
    assert seen[:, 0].astype(int).tolist() == [[[1, 1, 0]] * 2, [[0, 0, 0]] * 2]


def test_shift_per_example_places_each_row_of_queries():
    mask = Causal().shift([0, -2])
    assert (mask.dense(3, 5)[0, 0] == Causal().dense(3, 5)).all()
    assert (mask.dense(3, 5)[1, 0] == Causal().shift(-2).dense(3, 5)).all()


def test_one_mask_per_example_and_per_head():
    masks = Causal(), Window(2), Full()
    assert PerExample(masks).dense(4, 4).shape == (3, 1, 4, 4)
    assert PerHead(masks).dense(4, 4).shape == (1, 3, 4, 4)
    for n, mask in enumerate(masks):
        assert (PerExample(masks).dense(4, 4)[n, 0] == mask.dense(4, 4)).all()
        assert (PerHead(masks).dense(4, 4)[0, n] == mask.dense(4, 4)).all()


def test_random_blocks_draw_per_row_blocks_and_repeat_by_seed():
    mask = RandomBlocks(4, 2, seed=7, length=18)
    blocks = mask.dense(18, 18)[::4, ::4]
    assert blocks.shape == (5, 5)
    assert (blocks.sum(1) == 2).all()
    assert (mask.dense(18, 18) == RandomBlocks(4, 2, seed=7, length=18).dense(18, 18)).all()
    assert (mask.dense(18, 18) != RandomBlocks(4, 2, seed=8, length=18).dense(18, 18)).any()
    heads = RandomBlocks(4, 2, seed=[7, 8], length=18).dense(18, 18)
    assert heads.shape == (1, 2, 18, 18)
    assert (heads[0, 0] == mask.dense(18, 18)).all()


def test_every_mask_is_exported_and_has_its_cases():
    """A class forgotten in a list would be tested by nobody."""
    defined = {
        name
        for module in (rules, arrays, each)
        for name, value in vars(module).items()
        if isinstance(value, type)
        and issubclass(value, Mask)
        and value.__module__ == module.__name__
    }
    assert defined <= set(attnlearn.masks.__all__), "missing in attnlearn/masks/__init__.py"
    assert defined <= set(attnlearn.__all__), "missing in attnlearn/__init__.py"
    tried = repr([*ALL, small_dense(4, 4)])
    assert {name for name in defined if f"{name}(" not in tried} == set(), "add to tests/cases.py"


@pytest.mark.parametrize("mask", ALL, ids=repr)
@pytest.mark.parametrize(("T", "S"), [(8, 8), (5, 11), (11, 5), (1, 7), (0, 4), (4, 0)])
def test_the_predicate_is_the_matrix_and_knows_torch(mask, T, S):
    want = mask.dense(T, S)
    held = mask.convert(torch.tensor)
    i, j = torch.arange(S - T, S)[:, None], torch.arange(S)[None]
    assert (held(i, j).expand(want.shape).numpy() == want).all()


@pytest.mark.parametrize("mask", MASKS, ids=repr)
def test_the_predicate_answers_for_two_numbers(mask):
    want = mask.dense(6, 6)
    for i, j in itertools.product(range(6), range(6)):
        assert bool(mask(i, j)) == want[i, j]


@pytest.mark.parametrize("mask", [m for m in ALL if "<" not in repr(m)], ids=repr)
def test_repr_makes_the_mask_again(mask):
    assert eval(repr(mask)) == mask


def tree(rng, depth, leaves):
    """A random expression of masks."""
    if depth == 0:
        return leaves[rng.randint(len(leaves))]
    kind = rng.randint(3)
    a = tree(rng, depth - 1, leaves)
    if kind == 0:
        return ~a
    b = tree(rng, depth - 1, leaves)
    return a & b if kind == 1 else a | b


@pytest.mark.parametrize("seed", range(120))
def test_tiles_are_sound_and_reach_is_exact(seed):
    """EMPTY and FULL are never wrong, for random trees, sizes and tiles: flash trusts them."""
    rng = np.random.RandomState(seed)
    T, S = rng.randint(0, 70), rng.randint(1, 60)
    leaves = [*ALL, small_dense(T, S, seed)] if T else ALL
    mask = tree(rng, rng.randint(4), [m for m in leaves if lead(m) in ((), (2, 1), (1, 4))])
    bq, bk = rng.randint(1, 20, 2)
    seen, kind = mask.dense(T, S), mask.blocks(T, S, bq, bk)
    assert kind.shape == (*seen.shape[:-2], -(-T // bq), -(-S // bk))
    for a, b in itertools.product(range(kind.shape[-2]), range(kind.shape[-1])):
        tile = seen[..., a * bq : (a + 1) * bq, b * bk : (b + 1) * bk]
        assert tile.all((-1, -2))[kind[..., a, b] == FULL].all()
        assert not tile.any((-1, -2))[kind[..., a, b] == EMPTY].any()
    queries, keys = mask.reach(T, S)
    assert (queries == seen.any(-1)).all()
    assert (keys == seen.any(-2)).all()


def lead(mask):
    return mask.dense(1, 1).shape[:-2] if not isinstance(mask, Dense) else ()


@pytest.mark.parametrize(
    "mask",
    [
        *(Full(), ~Full(), Causal(), ~Causal(), Window(5), Causal() & Window(5)),
        *(Causal() | Prefix(7), Prefix(20), Global(3), Chunked(16), Document(IDS)),
        *(RandomBlocks(8, 2, seed=0, length=96), Window(50)),
    ],
    ids=repr,
)
def test_single_rules_know_their_tiles_exactly(mask):
    """No lazy PARTIAL: a mask of one rule, or of one diagonal band, says exactly what a tile is."""
    seen, kind = mask.dense(96, 96), mask.blocks(96, 96, 8, 16)
    tiles = seen.reshape(12, 8, 6, 16).swapaxes(1, 2)
    assert (kind == tiles.any((2, 3)).astype(int) + tiles.all((2, 3))).all()


def test_empty_slots_make_no_tile_full():
    """By hand: nobody there, all there, one of two."""
    slots = [-1, -1, 0, 1, 2, -1]
    assert Full().gather(slots).blocks(2, 6, 2, 2).tolist() == [[EMPTY, FULL, PARTIAL]]
    assert Prefix(2).gather(slots).blocks(2, 6, 2, 2).tolist() == [[EMPTY, FULL, EMPTY]]
    two = Full().gather([slots, slots[::-1]]).blocks(2, 6, 2, 2)
    assert two[:, 0, 0].tolist() == [[EMPTY, FULL, PARTIAL], [PARTIAL, FULL, EMPTY]]


def test_tiles_of_a_long_window_are_few():
    kind = (Causal() & Window(4096)).blocks(131072, 131072, 128, 128)
    assert kind.shape == (1024, 1024)
    assert kind.dtype == np.int8
    assert (kind != EMPTY).sum() == sum(min(a, 32) + 1 for a in range(1024))


def test_blocks_never_build_the_matrix():
    class Wary(Causal):
        def __call__(self, i, j):
            assert np.broadcast(i, j).size <= 1, "evaluated on more than one pair"
            return super().__call__(i, j)

    assert (Wary() & Window(9)).blocks(4096, 4096, 64, 64).shape == (64, 64)


def test_a_new_mask_needs_only_its_question():
    class Even(Mask):
        def __call__(self, i, j):
            return (j % 2 == 0) & (i == i)

    assert rows(Causal() & Even(), 3, 3) == ["x..", "x..", "x.x"]
    assert (Even().blocks(8, 8, 4, 4) == PARTIAL).all()
    assert (Even().reach(4, 4)[1] == [True, False, True, False]).all()


def test_masks_are_values():
    assert Causal() & Window(3) == Causal() & Window(3)
    assert Causal() & Window(3) != Causal() & Window(4)
    assert Document(IDS) == Document(IDS.copy())
    assert Document(IDS) != Document(TORN)
    assert padding([1, 2]) == padding([1, 2])
    assert len({Causal(), Causal(), Full(), Document(IDS), Document(IDS)}) == 3
    assert Causal() != "Causal()"


def test_a_mask_of_ones_own_is_a_value_too():
    class Every(Mask):
        def __init__(self, step):
            vars(self)["step"] = step

        def __call__(self, i, j):
            return (i - j) % self.step == 0

    assert Every(2) == Every(2) != Every(3)
    assert repr(Every(2)) == "Every(2)"
    assert (Every(2).convert(torch.tensor).dense(4, 4) == Dilated(2).dense(4, 4)).all()


@pytest.mark.parametrize("answer", [lambda i, j: (i - j) % 2, lambda i, j: True])
def test_a_mask_must_answer_with_booleans(answer):
    class Odd(Mask):
        def __call__(self, i, j):
            return answer(i, j)

    with pytest.raises(TypeError, match=r"Odd\(\) must answer with a boolean array"):
        Odd().blocks(4, 4, 2, 2)


@pytest.mark.parametrize("mask", ALL, ids=repr)
@pytest.mark.parametrize("twin", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_copies_are_equal_and_as_frozen(mask, twin):
    mask.reach(8, 8)
    other = twin(mask)
    assert other == mask
    assert hash(other) == hash(mask)
    assert (other.dense(9, 9) == mask.dense(9, 9)).all()
    arrays = [x for x in vars(other).values() if isinstance(x, np.ndarray)]
    assert not any(x.flags.writeable for x in arrays)


def test_masks_never_change():
    ids = np.array([0, 0, 1])
    mask = Document(ids)
    ids[:] = 0
    assert rows(mask, 3, 3) == ["xx.", "xx.", "..x"]
    with pytest.raises(ValueError, match="read-only"):
        mask.ids[0] = 5
    with pytest.raises(AttributeError):
        Window(3).size = 4


def test_lists_arrays_and_tensors_make_the_same_mask():
    assert padding([3, 1]) == padding(np.array([3, 1])) == padding(torch.tensor([3, 1]))
    assert Document([0, 1]) == Document(torch.tensor([0, 1]))
    assert Window(np.int64(3)) == Window(3)


@pytest.mark.parametrize("use", [lambda m: m and m, lambda m: not m, bool])
def test_and_or_not_raise(use):
    with pytest.raises(TypeError, match=r"combine with & \| ~"):
        use(Causal())


@pytest.mark.parametrize("other", [np.ones((2, 2), bool), torch.ones(2, 2) > 0, True, None])
def test_masks_combine_with_masks_only(other):
    with pytest.raises(TypeError):
        Causal() & other
    with pytest.raises(TypeError):
        other | Causal()


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: Window(0), ValueError, "Window: size must be at least 1, got 0"),
        (lambda: Window(-3), ValueError, "at least 1, got -3"),
        (lambda: Window(2.5), TypeError, "Window: size must be a whole number"),
        (lambda: Window("3"), TypeError, "whole number"),
        (lambda: Window(True), TypeError, "whole number"),
        (lambda: Window(None), TypeError, "whole number"),
        (lambda: Causal().gather([0.5]), TypeError, "gather: at must be whole numbers"),
        (lambda: Causal().gather(3), ValueError, r"gather: at must be \[S\], or \[B, S\]"),
        (lambda: Causal().gather([0, -2]), ValueError, "-1 where there is no key"),
        (lambda: Causal().gather([0, 1]).dense(3, 3), ValueError, "holds 2 positions, got 3 keys"),
        (lambda: Document([0, 1]).gather([2, 0]).dense(1, 2), ValueError, "2 ids, got 3 keys"),
        (lambda: Prefix(-1), ValueError, "Prefix: length must be at least 0"),
        (lambda: Global(-1), ValueError, "Global: n"),
        (lambda: Dilated(0), ValueError, "Dilated: step"),
        (lambda: Chunked(0), ValueError, "Chunked: size"),
        (lambda: Causal().shift(1.0), TypeError, "shift: n must be a whole number"),
        (lambda: padding(3), ValueError, "one number per example"),
        (lambda: padding([[1, 2]]), ValueError, "one number per example"),
        (lambda: padding([1.5]), TypeError, "whole number"),
        (lambda: padding([-1]), ValueError, "at least 0"),
        (lambda: Document([0.5]), TypeError, "ids must be whole numbers"),
        (lambda: Document(np.zeros((1, 1, 1), int)), ValueError, r"\[S\], or \[B, S\]"),
        (lambda: Document(np.zeros(0, int)), ValueError, "at least one position"),
        (lambda: Dense(np.tril(np.ones((2, 2)))), TypeError, "0 and 1 hide nothing"),
        (lambda: Dense(np.ones((2, 2), int)), TypeError, "must be boolean"),
        (lambda: Dense(np.ones((2, 2, 2), bool)), ValueError, "examples or heads"),
        (lambda: RandomBlocks(4, 5, 0, 16), ValueError, "at most 4 blocks"),
        (lambda: RandomBlocks(0, 1, 0, 16), ValueError, "block must be at least 1"),
        (lambda: RandomBlocks(4, 1, 0.5, 16), TypeError, "seed"),
        (lambda: RandomBlocks(4, 1, -1, 16), ValueError, "seed must be from 0"),
        (lambda: PerHead(()), TypeError, "list of masks"),
        (lambda: PerExample(Causal()), TypeError, "list of masks"),
        (lambda: Window(2**63), ValueError, "below 2"),
        (lambda: Window(2**70), ValueError, "below 2"),
        (lambda: Prefix([2**63]), ValueError, "below 2"),
        (lambda: Causal().shift(-(2**63)), ValueError, "below 2"),
        (lambda: Window(torch.tensor(2.0, dtype=torch.bfloat16)), TypeError, "whole number"),
        (lambda: Dense(torch.zeros(2, 2, dtype=torch.bfloat16)), TypeError, "got torch.bfloat16"),
        (lambda: Dense(torch.zeros(2, 2, device="meta") > 0), ValueError, "needs data"),
        (lambda: (Prefix([1, 2]) & Prefix([1, 2, 3])).blocks(3, 3, 2, 2), ValueError, "fit toge"),
        (lambda: Causal().dense([1, 2], 2), TypeError, "T must be one whole number"),
        (lambda: Causal().dense(2.0, 2), TypeError, "T must be a whole number"),
        (lambda: Causal().blocks(4, 4, [2, 3], 2), TypeError, "bq must be one whole number"),
        (lambda: PerHead((1, 2)), TypeError, "list of masks"),
        (lambda: Document([0, 1]).dense(3, 3), ValueError, "holds 2 ids, got 3 keys"),
        (lambda: Dense(np.eye(3, dtype=bool)).blocks(3, 4, 2, 2), ValueError, r"\[3, 3\] matrix"),
        (lambda: Dense(np.eye(3, dtype=bool)).dense(4, 3), ValueError, "4 queries"),
        (lambda: RandomBlocks(4, 1, 0, 16).dense(17, 17), ValueError, "16 positions, got 17"),
        (lambda: (~(Causal() & Document([0]))).dense(2, 2), ValueError, "holds 1 ids"),
        (lambda: Causal().dense(-1, 2), ValueError, "T must be at least 0"),
        (lambda: Causal().blocks(4, 4, 0, 2), ValueError, "bq must be at least 1"),
        (lambda: Mask()(0, 0), NotImplementedError, "does not define __call__"),
    ],
)
def test_bad_input_is_named(make, error, words):
    with pytest.raises(error, match=words):
        make()


def test_arrays_reach_no_further_than_they_go():
    """Queries shifted past the ids belong to no document."""
    assert rows(Document([0, 0, 1]).shift(2), 3, 3) == ["..x", "...", "..."]
    assert LENGTH == len(IDS)
