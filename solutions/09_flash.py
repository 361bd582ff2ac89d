# %% [markdown]
# # Exercises 9: flash attention
#
# Seven tasks on [chapter 9, *Flash attention: exact, tiled, fused*](../book/09_flash.ipynb). They
# climb from following one row by hand to testing somebody else's merge: predict, fill in, mend,
# build, write a GPU kernel, and write a check of your own.
#
# | task | what you do | points | minutes | level |
# |---|---|---|---|---|
# | `flash-1` | predict a running softmax, its traffic and its products | 3 | 11 | 1 of 4 |
# | `flash-2` | merge two partial results | 4 | 10 | 2 of 4 |
# | `flash-3` | mend an online softmax | 6 | 14 | 3 of 4 |
# | `flash-4` | build the forward pass, tile by tile | 6 | 16 | 4 of 4 |
# | `flash-5` | build the backward pass without the matrix | 6 | 14 | 4 of 4 |
# | `flash-6` | write the inner loop of a Triton kernel | 6 | 15 | 3 of 4 |
# | `flash-7` | write the check | 4 | 10 | 3 of 4 |
# | all | | 35 | 90 | |
#
# **How checking works.** Write your answer in place of the line `raise NotImplementedError`, run
# the cell, then run the check cell below it. The check calls your function and tells you which
# cases agree, where the first difference is, and, if it knows your mistake, its name and a hint.
# It calls your function as you last ran it: after every edit, **run the answer cell again** before
# the check. Some further cases run only when an instructor grades.
#
# **The letters.** `T` queries, `S` keys, `D` numbers in a query or key, `E` numbers in a value, `H`
# heads. For one row of scores, `m` is the largest score so far, `l` the sum of exp(score - m) so
# far, and `acc` the same sum with each term times its value; the output is `acc / l`. The
# *log-sum-exp* of a row, `lse`, is log Σ exp(score), a natural logarithm: it equals `m + log l`
# when the row is done. A row that sees no key has the output 0 and the lse -∞. *Causal* means that
# the last query sees the last key, and each query before it one key less.
#
# All you need is NumPy; please write attention yourself instead of calling `attnlearn`. The one
# exception is flash-6: it needs Triton, which exists for Linux and so on Colab. **No GPU is needed:
# the next cell asks for Triton's interpreter**, which runs kernels on the CPU.

# %%
import importlib.util
import subprocess
import sys

if importlib.util.find_spec("attnlearn") is None:  # on Colab: once per session
    subprocess.run([sys.executable, "-m", "pip", "install", "-q", "attnlearn==0.1.0"], check=True)

# %% setup
import os
import tracemalloc
import types

import numpy as np

from attnlearn.exercise import check

os.environ["TRITON_INTERPRET"] = "1"  # kernels run on the CPU; Triton reads it on import

# %% [markdown]
# ## flash-1: Predict a running softmax
#
# *flash-1 · 3 points · 11 minutes · ●○○○ difficulty 1 of 4*
#
# Work these out with pencil and paper, then write down plain numbers.
#
# 1. `running`: one row, its keys pass by in three tiles of two. The scores are chosen so that
#    every exponential is a simple number.
#
#    | tile | scores | values |
#    |---|---|---|
#    | 1 | log 1, log 2 | 4, 2 |
#    | 2 | log 8, log 4 | 1, 2 |
#    | 3 | log 2, log 1 | 8, 0 |
#
#    After each tile, what are **e^m** (not m, so that no logarithm is left), **l** and **acc**?
#    Three rows of three numbers.
# 2. `exponentials`: how many times is `exp` called for **one row** of 1,024 scores? In a softmax
#    over the whole row; in a running softmax with tiles of 128 keys; and with tiles of a single
#    key. Count one call for each score, and one for each tile, whose factor exp(old m - new m)
#    shrinks what was summed before. (For the first tile the factor is exp(-∞) = 0; count it, too.)
# 3. `traffic`: one head, 4,096 queries and keys, D = E = 64, numbers of 2 bytes. How many **MiB**
#    (2²⁰ bytes) pass between the chip and its memory? Say that q, k and v are read and o is written
#    once; in addition the textbook way writes the scores, reads them, writes the weights, and reads
#    them. Then flash attention: it reads q and writes o once, and each tile of queries reads all of
#    k and v. Take tiles of 128 queries, then tiles of 64. Three numbers.
# 4. `products`: multiplying two matrices so that every query meets every key counts as one product.
#    How many are needed in the forward pass; in a backward pass that kept the weights p; and in one
#    that kept only the log-sum-exp? Three numbers.
# 5. `exact`: in exact arithmetic, which of these equal softmax attention? Five times `True` or
#    `False`: (a) flash attention with tiles of 128 keys; (b) the same with the tiles of keys in
#    reverse order; (c) with 10 in place of the running maximum, where no score exceeds 5; (d) a
#    softmax in each tile of keys, and the mean of the tiles' outputs; (e) a running softmax that
#    never shrinks `l`.
#
# **A miniature.** Scores log 1, log 2 and values 3, 3 in one tile: e^m = 2, l = 1/2 + 1 = 1.5,
# acc = 1.5 + 3 = 4.5, and the output is 4.5 / 1.5 = 3.
#
# Half of the points are for having all five right together. Read first: *One row, one tile at a
# time*, *Exact, not approximate*, *What moves through memory* and *Backward without a matrix* in
# [chapter 9](../book/09_flash.ipynb).
#
# <details>
# <summary>Hint 1 for flash-1: two kinds of tiles</summary>
#
# A tile either brings a new maximum or it doesn't. In the first case everything summed so far was
# measured against a smaller maximum. In the second the new terms are small instead.
#
# </details>
#
# <details>
# <summary>Hint 2 for flash-1: what travels</summary>
#
# Write every size as a power of two. 4,096 rows of 64 numbers of 2 bytes are half a MiB. How many
# tiles of queries are there, and what does each of them read?
#
# </details>

# %% answer flash-1 points=3 minutes=11 difficulty=1 forbid=attnlearn
def running():
    """After each tile: e^m, l, acc. Three rows of three numbers."""
    # BEGIN SOLUTION
    return [[2, 1.5, 4], [8, 1.875, 3], [8, 2.25, 5]]
    # END SOLUTION


def exponentials():
    """Calls of exp for 1,024 scores: whole row, tiles of 128, tiles of 1."""
    # BEGIN SOLUTION
    return [1024, 1032, 2048]
    # END SOLUTION


def traffic():
    """MiB moved: with the matrix, flash with 128 queries a tile, with 64."""
    # BEGIN SOLUTION
    return [130, 33, 65]
    # END SOLUTION


def products():
    """Products: forward, backward with p kept, backward from the lse."""
    # BEGIN SOLUTION
    return [2, 4, 5]
    # END SOLUTION


def exact():
    """Which of (a) to (e) equal softmax attention in exact arithmetic?"""
    # BEGIN SOLUTION
    return [True, True, True, False, False]
    # END SOLUTION

# %% check flash-1
case = check("flash-1", rtol=0, atol=0)


def _three_digits(numbers):
    return np.array([float(f"{x:.3g}") for x in np.ravel(numbers)])


def _flags(answer):
    return np.array([bool(x) for x in answer])


case("running", lambda: _three_digits(running()))
case("exponentials", lambda: np.array(exponentials(), float))
case("traffic", lambda: np.array(traffic(), float))
case("products", lambda: np.array(products(), float))
case("exact", lambda: _flags(exact()))


@case("all five together", weight=5)
def _():
    numbers = [np.array(f(), float) for f in (exponentials, traffic, products)]
    return np.concatenate([_three_digits(running()), *numbers, _flags(exact())])

# %% right flash-1 worked out as sums
def running():
    w, v = np.array([1, 2, 8, 4, 2, 1]), np.array([4, 2, 1, 2, 8, 0])
    tops = [w[:n].max() for n in (2, 4, 6)]
    return [
        [top, w[:n].sum() / top, (w * v)[:n].sum() / top]
        for n, top in zip((2, 4, 6), tops, strict=True)
    ]


def exponentials():
    return 1024, 1024 + 1024 // 128, 1024 + 1024


def traffic():
    once = 4096 * 64 * 2
    return (
        np.array([4 * once + 4 * 4096**2 * 2, 2 * once + 32 * 2 * once, 2 * once + 64 * 2 * once])
        / 2**20
    )


def products():
    return 2, 2 * 2, 2 * 2 + 1


def exact():
    return 1, 1, 1, 0, 0

# %% right flash-1 tile after tile
def running():
    rows, m, l, acc = [], 1e-9, 0, 0
    for a, b, x, y in [(1, 2, 4, 2), (8, 4, 1, 2), (2, 1, 8, 0)]:
        top = max(m, a, b)
        l, acc = l * m / top + (a + b) / top, acc * m / top + (a * x + b * y) / top
        rows.append((top, l, acc))
        m = top
    return np.array(rows)


def exponentials():
    return [1024, 8 * (128 + 1), 1024 * 2]


def traffic():
    return [2 + 4 * 32, 1 + 32 * 1, 1 + 64 * 1]


def products():
    return np.array([2.0, 4.0, 5.0])


def exact():
    return np.arange(5) < 3

# %% wrong flash-1 the old sum is not rescaled
# Your l keeps what it summed against the old maximum. Tile 2 raises the maximum: by which factor
# are the old terms too large now?
def running():
    return [[2, 1.5, 4], [8, 3, 3], [8, 3.375, 5]]


def exponentials():
    return [1024, 1032, 2048]


def traffic():
    return [130, 33, 65]


def products():
    return [2, 4, 5]


def exact():
    return [True, True, True, False, False]

# %% wrong flash-1 the old output is not rescaled
# Your acc keeps what it summed against the old maximum. What happens to l when the maximum rises
# must happen to acc, too.
def running():
    return [[2, 1.5, 4], [8, 1.875, 6], [8, 2.25, 8]]


def exponentials():
    return [1024, 1032, 2048]


def traffic():
    return [130, 33, 65]


def products():
    return [2, 4, 5]


def exact():
    return [True, True, True, False, False]

# %% wrong flash-1 rescaled the wrong way
# You made the old sums larger when the maximum rose. The factor is exp(old m - new m): is that more
# than 1, or less?
# Seen: Dao-AILab/flash-attention#2342
def running():
    return [[2, 1.5, 4], [8, 7.5, 18], [8, 7.875, 20]]


def exponentials():
    return [1024, 1032, 2048]


def traffic():
    return [130, 33, 65]


def products():
    return [2, 4, 5]


def exact():
    return [True, True, True, False, False]

# %% wrong flash-1 the maximum of the tile alone
# Your m is the largest score of each tile. It should be the largest score so far, so that it never
# falls again.
def running():
    return [[2, 1.5, 4], [8, 1.875, 3], [2, 9, 20]]


def exponentials():
    return [1024, 1032, 2048]


def traffic():
    return [130, 33, 65]


def products():
    return [2, 4, 5]


def exact():
    return [True, True, True, False, False]

# %% wrong flash-1 every tile begins anew
# You worked out each tile by itself. Tiles 2 and 3 go on with what the tiles before them left.
def running():
    return [[2, 1.5, 4], [8, 1.5, 2], [2, 1.5, 8]]


def exponentials():
    return [1024, 1032, 2048]


def traffic():
    return [130, 33, 65]


def products():
    return [2, 4, 5]


def exact():
    return [True, True, True, False, False]

# %% wrong flash-1 the output in place of acc
# You divided by l after every tile. acc is the output *before* that division, which happens once,
# at the end.
def running():
    return [[2, 1.5, 2.667], [8, 1.875, 1.6], [8, 2.25, 2.222]]


def exponentials():
    return [1024, 1032, 2048]


def traffic():
    return [130, 33, 65]


def products():
    return [2, 4, 5]


def exact():
    return [True, True, True, False, False]

# %% wrong flash-1 the rescaling costs nothing
# You counted one exponential for each score. When a tile ends, the sums of the tiles before must
# fit its maximum: that takes one more.
def running():
    return [[2, 1.5, 4], [8, 1.875, 3], [8, 2.25, 5]]


def exponentials():
    return [1024, 1024, 1024]


def traffic():
    return [130, 33, 65]


def products():
    return [2, 4, 5]


def exact():
    return [True, True, True, False, False]

# %% wrong flash-1 a factor for every score
# You counted a factor for every score of a tile. All that was summed before is rescaled at once:
# one factor serves a row for a whole tile.
def running():
    return [[2, 1.5, 4], [8, 1.875, 3], [8, 2.25, 5]]


def exponentials():
    return [1024, 2048, 2048]


def traffic():
    return [130, 33, 65]


def products():
    return [2, 4, 5]


def exact():
    return [True, True, True, False, False]

# %% wrong flash-1 k and v are read once
# Your flash attention reads k and v a single time. A chip holds one tile of queries; the next tile
# needs all keys again.
def running():
    return [[2, 1.5, 4], [8, 1.875, 3], [8, 2.25, 5]]


def exponentials():
    return [1024, 1032, 2048]


def traffic():
    return [130, 2, 2]


def products():
    return [2, 4, 5]


def exact():
    return [True, True, True, False, False]

# %% wrong flash-1 a number takes four bytes
# Your numbers take four bytes each. Here they are half precision: 2 bytes.
def running():
    return [[2, 1.5, 4], [8, 1.875, 3], [8, 2.25, 5]]


def exponentials():
    return [1024, 1032, 2048]


def traffic():
    return [260, 66, 130]


def products():
    return [2, 4, 5]


def exact():
    return [True, True, True, False, False]

# %% wrong flash-1 inputs and output cost nothing
# You left out what every way must move: q, k and v are read, o is written. They are small beside
# the matrix, but not beside flash attention.
def running():
    return [[2, 1.5, 4], [8, 1.875, 3], [8, 2.25, 5]]


def exponentials():
    return [1024, 1032, 2048]


def traffic():
    return [128, 32, 64]


def products():
    return [2, 4, 5]


def exact():
    return [True, True, True, False, False]

# %% wrong flash-1 smaller tiles move less
# Your smaller tiles of queries move less. Each tile reads all of k and v once: do more tiles read
# more, or less?
def running():
    return [[2, 1.5, 4], [8, 1.875, 3], [8, 2.25, 5]]


def exponentials():
    return [1024, 1032, 2048]


def traffic():
    return [130, 33, 17]


def products():
    return [2, 4, 5]


def exact():
    return [True, True, True, False, False]

# %% wrong flash-1 nothing is computed again
# Your backward pass from the lse needs no more products than the one that kept the weights. Where
# does it get the weights from?
def running():
    return [[2, 1.5, 4], [8, 1.875, 3], [8, 2.25, 5]]


def exponentials():
    return [1024, 1032, 2048]


def traffic():
    return [130, 33, 65]


def products():
    return [2, 4, 4]


def exact():
    return [True, True, True, False, False]

# %% wrong flash-1 approximate because it is called fast
# You take tiles for an approximation. Both numbers that a softmax needs of its row, the maximum and
# the sum, are known exactly once the last tile has passed.
# Seen: Dao-AILab/flash-attention#211
# Seen: Dao-AILab/flash-attention#1445
def running():
    return [[2, 1.5, 4], [8, 1.875, 3], [8, 2.25, 5]]


def exponentials():
    return [1024, 1032, 2048]


def traffic():
    return [130, 33, 65]


def products():
    return [2, 4, 5]


def exact():
    return [False, False, False, False, False]

# %% wrong flash-1 only the true maximum will do
# You think that the number subtracted must be the row's maximum. Any number cancels between acc and
# l; the maximum only keeps the exponentials from overflowing.
# Seen: Dao-AILab/flash-attention#99
def running():
    return [[2, 1.5, 4], [8, 1.875, 3], [8, 2.25, 5]]


def exponentials():
    return [1024, 1032, 2048]


def traffic():
    return [130, 33, 65]


def products():
    return [2, 4, 5]


def exact():
    return [True, True, False, False, False]

# %% wrong flash-1 a mean of softmaxes
# The mean of the tiles' outputs gives each tile the same weight. In a softmax a tile with large
# scores weighs more: what says how much?
def running():
    return [[2, 1.5, 4], [8, 1.875, 3], [8, 2.25, 5]]


def exponentials():
    return [1024, 1032, 2048]


def traffic():
    return [130, 33, 65]


def products():
    return [2, 4, 5]


def exact():
    return [True, True, True, True, False]

# %% wrong flash-1 nothing is rescaled
# Neither your l nor your acc shrinks when the maximum rises. What was summed before was measured
# against the old maximum.
def running():
    return [[2, 1.5, 4], [8, 3, 6], [8, 3.375, 8]]


def exponentials():
    return [1024, 1032, 2048]


def traffic():
    return [130, 33, 65]


def products():
    return [2, 4, 5]


def exact():
    return [True, True, True, False, False]


# %% [markdown]
# ## flash-2: Merge two partial results
#
# *flash-2 · 4 points · 10 minutes · ●●○○ difficulty 2 of 4*
#
# Long texts are split: one processor attends to some of the keys, another to the rest. Each returns
# its output `o` and the log-sum-exp `lse` of its scores, and nothing else. Write `merge(o1, lse1,
# o2, lse2)`, which returns `o` and `lse` as one attention over all of these keys would have given
# them.
#
# - `o1` and `o2` are `[..., T, E]`, `lse1` and `lse2` are `[..., T]`. So are the results.
# - A part in which a query saw nothing has the output 0 and the lse -∞ in that row. The other part
#   then decides alone. If both saw nothing, the result is 0 and -∞ again.
# - An lse may be anything from -10,000 to 10,000, and parts are merged in any order.
# - The four arrays that you get stay as they are.
#
# Half of the points are for a case with all of it at once.
#
# **A miniature.** One query. Part 1 saw one key with the score log 2 and the value 5; part 2 saw
# one with the score log 6 and the value 1. So `o1` = 5, `lse1` = log 2, `o2` = 1, `lse2` = log 6.
# The weights of the two keys are 2/8 and 6/8: `o` = 2, `lse` = log 8.
#
# Read first: *The merge rule* in [chapter 9](../book/09_flash.ipynb).
#
# <details>
# <summary>Hint 1 for flash-2: what an lse says</summary>
#
# exp(lse) is the sum of the exponentials that a part divided by. Which sum would one softmax over
# all keys have divided by? What must each output be multiplied with to get from one to the other?
#
# </details>
#
# <details>
# <summary>Hint 2 for flash-2: exponentials that do not overflow</summary>
#
# Only the difference of the two lse matters for the weights. Subtract the same number from both
# before you take the exponential. Which number makes neither of them overflow, and what takes its
# place if it is -∞?
#
# </details>

# %% answer flash-2 points=4 minutes=10 difficulty=2 forbid=attnlearn
def merge(o1, lse1, o2, lse2):
    """o1, o2 [..., T, E], lse1, lse2 [..., T] -> o, lse of all keys together."""
    # BEGIN SOLUTION
    m = np.maximum(lse1, lse2)
    m = np.where(m == -np.inf, 0, m)
    w1, w2 = np.exp(lse1 - m), np.exp(lse2 - m)
    l = w1 + w2
    o = w1[..., None] * o1 + w2[..., None] * o2
    return o / np.where(l == 0, 1, l)[..., None], m + np.log(l)
    # END SOLUTION

# %% check flash-2
case = check("flash-2")


def _part(s, v):
    m = s.max(-1, keepdims=True)
    m = np.where(m == -np.inf, 0, m)
    p = np.exp(s - m)
    l = p.sum(-1, keepdims=True)
    return p @ v / np.where(l == 0, 1, l), (m + np.log(l))[..., 0]


def _parts(rng, shape, sizes, height=2):
    s, v = height * rng.normal(size=(*shape, sum(sizes))), rng.normal(size=(sum(sizes), 2))
    cuts = np.cumsum(sizes)[:-1]
    return [_part(*piece) for piece in zip(np.split(s, cuts, -1), np.split(v, cuts), strict=True)]


def _merged(a, b):
    o, lse = merge(*a, *b)
    return {"o": np.asarray(o), "lse": np.asarray(lse)}


def _blind(part, rows):
    o, lse = part
    o[..., rows, :], lse[..., rows] = 0, -np.inf


@case("the inputs stay as they are")
def _(rng):
    given = [x for part in _parts(rng, (4,), [3, 5]) for x in part]
    before = [x.copy() for x in given]
    merge(*given)
    return bool(all(map(np.array_equal, given, before)))


case("two parts of 3 and 5 keys", lambda rng: _merged(*_parts(rng, (4,), [3, 5])))
case("as many queries as columns", lambda rng: _merged(*_parts(rng, (2,), [2, 6])))
case("examples and heads", lambda rng: _merged(*_parts(rng, (2, 2, 3), [4, 1])))


@case("three parts, the last two first")
def _(rng):
    a, b, c = _parts(rng, (4,), [1, 7, 2])
    return _merged(a, merge(*b, *c))


@case("lse near 9,000 and near -9,000")
def _(rng):
    (o1, lse1), (o2, lse2) = _parts(rng, (4,), [3, 3])
    far = np.array([9000, -9000, 9000, -9000])
    return _merged((o1, lse1 + far), (o2, lse2 + far * [1, 1, -1, -1]))


@case("one part saw nothing")
def _(rng):
    a, b = _parts(rng, (4,), [3, 4])
    _blind(a, [0, 2])
    _blind(b, [1])
    return _merged(a, b)


@case("both parts saw nothing")
def _(rng):
    a, b = _parts(rng, (4,), [3, 4])
    _blind(a, [1, 2])
    _blind(b, [1, 3])
    return _merged(a, b)


@case("all of it at once", weight=9)
def _(rng):
    a, b, c = _parts(rng, (2, 3), [2, 5, 3])
    _blind(a, [0, 1])
    _blind(b, [0, 2])
    _blind(c, [0])
    for part in (a, b, c):
        part[1][..., 1:] += [-9000, 9000]
    before = [x.copy() for x in (*a, *b, *c)]
    forth, back = _merged(merge(*a, *b), c), _merged(c, merge(*b, *a))
    stayed = [bool(np.array_equal(x, y)) for x, y in zip(before, (*a, *b, *c), strict=True)]
    return {"in order": forth["o"], "lse": forth["lse"], "back": back["o"], "untouched": stayed}

# %% hidden flash-2
case = check("flash-2")


@case("five parts, drawn sizes")
def _(rng):
    first, *rest = _parts(rng, (3,), rng.randint(1, 5, size=5), height=9)
    for part in rest:
        first = merge(*first, *part)
    return _merged(first, first)

# %% right flash-2 with logaddexp
def merge(o1, lse1, o2, lse2):
    lse = np.logaddexp(lse1, lse2)
    finite = np.where(np.isneginf(lse), 0, lse)
    return sum(
        o * np.exp(part - finite)[..., np.newaxis] for o, part in ((o1, lse1), (o2, lse2))
    ), lse

# %% right flash-2 as one part's share
def merge(o1, lse1, o2, lse2):
    both = np.isneginf(lse1) & np.isneginf(lse2)
    gap = np.where(both, 0, lse2) - np.where(both, 0, lse1)
    share = 1 / (1 + np.exp(gap))[..., None]
    o = np.where(both[..., None], 0, share * o1 + (1 - share) * o2)
    large, small = np.maximum(lse1, lse2), np.minimum(lse1, lse2)
    return o, np.where(both, -np.inf, large + np.log1p(np.exp(np.where(both, 0, small - large))))

# %% wrong flash-2 the plain mean
# You take the mean of the two outputs. A part with larger scores, or with more keys, weighs more:
# what says how much?
def merge(o1, lse1, o2, lse2):
    m = np.maximum(lse1, lse2)
    m = np.where(m == -np.inf, 0, m)
    w1, w2 = np.exp(lse1 - m), np.exp(lse2 - m)
    l = w1 + w2
    return (o1 + o2) / 2, m + np.log(l)

# %% wrong flash-2 the outputs are added
# You add the two outputs. Each of them is an average already; the sum of two averages is as large
# as both.
def merge(o1, lse1, o2, lse2):
    m = np.maximum(lse1, lse2)
    m = np.where(m == -np.inf, 0, m)
    w1, w2 = np.exp(lse1 - m), np.exp(lse2 - m)
    l = w1 + w2
    return o1 + o2, m + np.log(l)

# %% wrong flash-2 weighted but not divided
# You weigh the outputs and stop there. The weights must add up to 1: divide by their sum.
def merge(o1, lse1, o2, lse2):
    m = np.maximum(lse1, lse2)
    m = np.where(m == -np.inf, 0, m)
    w1, w2 = np.exp(lse1 - m), np.exp(lse2 - m)
    l = w1 + w2
    o = w1[..., None] * o1 + w2[..., None] * o2
    return o, m + np.log(l)

# %% wrong flash-2 weights from the lse, not from exp
# You weigh the parts with their lse. An lse is a logarithm, and may be negative: what is it the
# logarithm of?
def merge(o1, lse1, o2, lse2):
    m = np.maximum(lse1, lse2)
    m = np.where(m == -np.inf, 0, m)
    w1, w2 = np.exp(lse1 - m), np.exp(lse2 - m)
    l = w1 + w2
    o = lse1[..., None] * o1 + lse2[..., None] * o2
    return o / (lse1 + lse2)[..., None], m + np.log(l)

# %% wrong flash-2 the weights are exchanged
# Each output is weighed with the other part's share. Try a part that saw nothing: whose output
# should come out?
def merge(o1, lse1, o2, lse2):
    m = np.maximum(lse1, lse2)
    m = np.where(m == -np.inf, 0, m)
    w1, w2 = np.exp(lse1 - m), np.exp(lse2 - m)
    l = w1 + w2
    o = w2[..., None] * o1 + w1[..., None] * o2
    return o / np.where(l == 0, 1, l)[..., None], m + np.log(l)

# %% wrong flash-2 the two lse are added
# You add the two lse. Adding logarithms multiplies what they stand for; the two sums of
# exponentials should be added.
# Seen: zhuzilin/ring-flash-attention#20
def merge(o1, lse1, o2, lse2):
    m = np.maximum(lse1, lse2)
    m = np.where(m == -np.inf, 0, m)
    w1, w2 = np.exp(lse1 - m), np.exp(lse2 - m)
    l = w1 + w2
    o = w1[..., None] * o1 + w2[..., None] * o2
    return o / np.where(l == 0, 1, l)[..., None], lse1 + lse2

# %% wrong flash-2 the larger lse
# Your lse is the larger of the two. Both parts add to the sum of exponentials, so it grows, if only
# a little.
def merge(o1, lse1, o2, lse2):
    m = np.maximum(lse1, lse2)
    m = np.where(m == -np.inf, 0, m)
    w1, w2 = np.exp(lse1 - m), np.exp(lse2 - m)
    l = w1 + w2
    o = w1[..., None] * o1 + w2[..., None] * o2
    return o / np.where(l == 0, 1, l)[..., None], np.maximum(lse1, lse2)

# %% wrong flash-2 the maximum is not added back
# Your lse is measured against a maximum that nobody else knows. What was subtracted before the
# exponential belongs back.
# Seen: Dao-AILab/flash-attention#404
def merge(o1, lse1, o2, lse2):
    m = np.maximum(lse1, lse2)
    m = np.where(m == -np.inf, 0, m)
    w1, w2 = np.exp(lse1 - m), np.exp(lse2 - m)
    l = w1 + w2
    o = w1[..., None] * o1 + w2[..., None] * o2
    return o / np.where(l == 0, 1, l)[..., None], np.log(l)

# %% wrong flash-2 powers of two
# You treat the lse as a logarithm to the base 2. Kernels often do, inside; here it is a natural
# logarithm.
# Seen: sgl-project/sglang#40903
# Seen: flashinfer-ai/flashinfer#2113
def merge(o1, lse1, o2, lse2):
    m = np.maximum(lse1, lse2)
    m = np.where(m == -np.inf, 0, m)
    w1, w2 = np.exp2(lse1 - m), np.exp2(lse2 - m)
    l = w1 + w2
    o = w1[..., None] * o1 + w2[..., None] * o2
    return o / np.where(l == 0, 1, l)[..., None], m + np.log2(l)

# %% wrong flash-2 no maximum subtracted
# Your exponentials overflow, or all of them vanish. An lse may be in the thousands: subtract
# something first.
# Seen: https://github.com/zhuzilin/ring-flash-attention/pull/30
def merge(o1, lse1, o2, lse2):
    m = 0
    w1, w2 = np.exp(lse1 - m), np.exp(lse2 - m)
    l = w1 + w2
    o = w1[..., None] * o1 + w2[..., None] * o2
    return o / np.where(l == 0, 1, l)[..., None], m + np.log(l)

# %% wrong flash-2 NaN where both saw nothing
# Where both parts saw nothing you get NaN. -∞ minus -∞ has no value: what may stand in for such a
# maximum?
# Seen: flashinfer-ai/flashinfer#4051
# Seen: https://github.com/vllm-project/vllm/pull/39148
def merge(o1, lse1, o2, lse2):
    m = np.maximum(lse1, lse2)
    w1, w2 = np.exp(lse1 - m), np.exp(lse2 - m)
    l = w1 + w2
    o = w1[..., None] * o1 + w2[..., None] * o2
    return o / np.where(l == 0, 1, l)[..., None], m + np.log(l)

# %% wrong flash-2 nothing divided by nothing
# Where both parts saw nothing you divide 0 by 0. Such a row has the output 0.
def merge(o1, lse1, o2, lse2):
    m = np.maximum(lse1, lse2)
    m = np.where(m == -np.inf, 0, m)
    w1, w2 = np.exp(lse1 - m), np.exp(lse2 - m)
    l = w1 + w2
    o = w1[..., None] * o1 + w2[..., None] * o2
    return o / l[..., None], m + np.log(l)

# %% wrong flash-2 an lse of 0 for nothing
# Where both parts saw nothing your lse is 0. That says: the exponentials sum to 1. The next merge
# would give this empty row a weight.
# Seen: https://github.com/Dao-AILab/flash-attention/pull/978
# Seen: https://github.com/deepseek-ai/FlashMLA/pull/77
def merge(o1, lse1, o2, lse2):
    m = np.maximum(lse1, lse2)
    m = np.where(m == -np.inf, 0, m)
    w1, w2 = np.exp(lse1 - m), np.exp(lse2 - m)
    l = w1 + w2
    o = w1[..., None] * o1 + w2[..., None] * o2
    return o / np.where(l == 0, 1, l)[..., None], m + np.log(np.where(l == 0, 1, l))

# %% wrong flash-2 written into the first part
# You write into the arrays that you were given. Whoever merges the same part again gets another
# result.
def merge(o1, lse1, o2, lse2):
    m = np.maximum(lse1, lse2)
    m = np.where(m == -np.inf, 0, m)
    w1, w2 = np.exp(lse1 - m), np.exp(lse2 - m)
    l = w1 + w2
    o = o1
    o *= w1[..., None]
    o += w2[..., None] * o2
    return o / np.where(l == 0, 1, l)[..., None], m + np.log(l)

# %% [markdown]
# ## flash-3: Mend an online softmax
#
# *flash-3 · 6 points · 14 minutes · ●●●○ difficulty 3 of 4*
#
# The function in the next cell reads a cache of keys and values, newest tile first, as some fast
# kernels do. Copy it into the answer cell as `attend` and mend it until it keeps its promise:
#
# - `k` is `[n, D]` and `v` is `[n, E]`: a cache with `n` slots, a multiple of `size`. Only the
#   first `length` slots hold a token. **What lies in the others may be anything, NaN too.**
# - `q` is `[T, D]`: the queries are the last `T` positions of the text, so the last query has the
#   position `length - 1`. A query sees the keys at its own position and before. If `T` is larger
#   than `length`, the first queries stand before the text and see nothing.
# - Scores are q · k / √D.
# - It returns the output `[T, E]` and the log-sum-exp `[T]`. A query that sees nothing gets zeros
#   and -∞. Scores may be far above or far below 0.
#
# Half of the points are for a case that has all of it at once.
#
# **A miniature** of one fault. The newest tile comes first, and an old query sees none of its keys.
# Its scores are all -∞, so its maximum is -∞, and exp(-∞ - (-∞)) is NaN, which never goes away.
#
# Read first: *One row, one tile at a time* and *Exact, not approximate* in
# [chapter 9](../book/09_flash.ipynb).
#
# <details>
# <summary>Hint 1 for flash-3: how to find the faults</summary>
#
# Begin with one tile and one query, and compare with a softmax over the whole row. Then two tiles;
# then more queries; then a cache that is not full. There are six faults, and one of them spoils
# the lse alone.
#
# </details>
#
# <details>
# <summary>Hint 2 for flash-3: a stand-in must not stay</summary>
#
# Where a maximum is still -∞ some harmless number may stand in for it, so that all weights come out
# as 0. But look what happens next, if a later tile of that row has only scores below your number.
#
# </details>

# %%
def attend_copied(q, k, v, length, size):
    """Wrong: find out where, then mend it in the answer cell below."""
    T, D = q.shape
    q = q / np.sqrt(D)
    m, l, acc = np.full(T, -np.inf), np.zeros(T), np.zeros((T, v.shape[1]))
    i = np.arange(length - T, length)[:, None]
    for start in reversed(range(0, length, size)):
        j = np.arange(start, start + size)
        s = q @ k[j].T / np.sqrt(D)
        s = np.where(j <= i, s, -np.inf)
        top = np.maximum(m, s.max(1))
        old, p = np.exp(m - top), np.exp(s - top[:, None])
        l = l + p.sum(1)
        acc = acc * old[:, None] + p @ v[j]
        m = top
    return acc / l[:, None], m + l

# %% answer flash-3 points=6 minutes=14 difficulty=3 forbid=attnlearn
def attend(q, k, v, length, size):
    """q [T, D]; k [n, D], v [n, E], `length` slots filled -> o [T, E], lse [T]."""
    # BEGIN SOLUTION
    T, D = q.shape
    m, l, acc = np.full(T, -np.inf), np.zeros(T), np.zeros((T, v.shape[1]))
    i = np.arange(length - T, length)[:, None]
    for start in reversed(range(0, length, size)):
        j = np.arange(start, min(start + size, length))
        s = q @ k[j].T / np.sqrt(D)
        s = np.where(j <= i, s, -np.inf)
        top = np.maximum(m, s.max(1))
        safe = np.where(top == -np.inf, 0, top)
        old, p = np.exp(m - safe), np.exp(s - safe[:, None])
        l = l * old + p.sum(1)
        acc = acc * old[:, None] + p @ v[j]
        m = top
    return acc / np.where(l == 0, 1, l)[:, None], m + np.log(np.where(l == 0, 1, l))
    # END SOLUTION

# %% check flash-3
case = check("flash-3")


def _cache(rng, T, length, slots, height=1.5):
    q = rng.normal(size=(T, 4))
    k, v = np.full((slots, 4), np.nan), np.full((slots, 2), np.nan)
    k[:length], v[:length] = rng.normal(size=(length, 4)), rng.normal(size=(length, 2))
    q[:, 0], k[:length, 0] = 2, -height * np.arange(length)  # older keys have larger scores
    return q, k, v


def _attend(q, k, v, length, size=3):
    o, lse = attend(q, k, v, length, size)
    return {"o": np.asarray(o), "lse": np.asarray(lse)}


case("one tile, one query", lambda rng: _attend(*_cache(rng, 1, 3, 3), 3))
case("three tiles, one query", lambda rng: _attend(*_cache(rng, 1, 9, 9), 9))
case("as many queries as keys", lambda rng: _attend(*_cache(rng, 6, 6, 6), 6))
case("a chunk: 4 queries, 9 keys", lambda rng: _attend(*_cache(rng, 4, 9, 9), 9))
case("8 of 12 slots are filled", lambda rng: _attend(*_cache(rng, 1, 8, 12), 8))
case("queries before the text", lambda rng: _attend(*_cache(rng, 5, 3, 3), 3))


@case("scores near 2,000 and near -2,000")
def _(rng):
    q, k, v = _cache(rng, 6, 6, 6)
    q[:, 0], k[:, 0] = 3 * [1000, -1000], 4
    return _attend(q, k, v, 6, 2)


@case("all of it at once", weight=8)
def _(rng):
    q, k, v = _cache(rng, 10, 8, 12)
    q[4:, 0], k[:8, 0] = 2 * [-1000, 1000, 2], 4
    before = [x.copy() for x in (q, k, v)]
    got = _attend(q, k, v, 8)
    same = [
        bool(np.array_equal(x, y, equal_nan=True)) for x, y in zip(before, (q, k, v), strict=True)
    ]
    return {**got, "inputs untouched": same}

# %% hidden flash-3
case = check("flash-3")


@case("tiles of 4, drawn lengths")
def _(rng):
    length = rng.randint(5, 8)
    return _attend(*_cache(rng, 6, length, 12, 9), length, 4)

# %% right flash-3 the whole row at once
def attend(q, k, v, length, size):
    s = q @ k[:length].T * q.shape[1] ** -0.5
    hidden = np.arange(length) > np.arange(length - len(q), length)[:, None]
    s[hidden] = -np.inf
    lse = np.logaddexp.reduce(s, axis=1)
    return np.exp(s - np.where(lse > -np.inf, lse, 0)[:, None]) @ v[:length], lse

# %% right flash-3 the lowest finite number as a start
def attend(q, k, v, length, size):
    T, D = q.shape
    m = np.full((T, 1), np.finfo(float).min)
    l, acc = np.zeros((T, 1)), np.zeros((T, v.shape[1]))
    for start in range(0, length, size):
        k_tile, v_tile = k[start:length][:size], v[start:length][:size]
        s = np.einsum("td,sd->ts", q, k_tile) / D**0.5
        late = start + np.arange(len(k_tile)) > length - T + np.arange(T)[:, None]
        s = np.where(late, -np.inf, s)
        top = np.maximum(m, s.max(1, keepdims=True))
        shrink, p = np.exp(m - top), np.exp(s - top)
        m, l, acc = top, shrink * l + p.sum(1, keepdims=True), shrink * acc + p @ v_tile
    return acc / np.maximum(l, 1e-300), np.where(l > 0, m + np.log(l), -np.inf)[:, 0]

# %% wrong flash-3 as it was copied
# Nothing is mended yet. Begin with one query and one tile: what are its scores divided by, and what
# is added to m in the end?
def attend(q, k, v, length, size):
    T, D = q.shape
    q = q / np.sqrt(D)
    m, l, acc = np.full(T, -np.inf), np.zeros(T), np.zeros((T, v.shape[1]))
    i = np.arange(length - T, length)[:, None]
    for start in reversed(range(0, length, size)):
        j = np.arange(start, start + size)
        s = q @ k[j].T / np.sqrt(D)
        s = np.where(j <= i, s, -np.inf)
        top = np.maximum(m, s.max(1))
        old, p = np.exp(m - top), np.exp(s - top[:, None])
        l = l + p.sum(1)
        acc = acc * old[:, None] + p @ v[j]
        m = top
    return acc / l[:, None], m + l

# %% wrong flash-3 scaled twice
# Your scores are divided by √D twice, once in the queries and once in the scores. Once is enough.
def attend(q, k, v, length, size):
    T, D = q.shape
    q = q / np.sqrt(D)
    m, l, acc = np.full(T, -np.inf), np.zeros(T), np.zeros((T, v.shape[1]))
    i = np.arange(length - T, length)[:, None]
    for start in reversed(range(0, length, size)):
        j = np.arange(start, min(start + size, length))
        s = q @ k[j].T / np.sqrt(D)
        s = np.where(j <= i, s, -np.inf)
        top = np.maximum(m, s.max(1))
        safe = np.where(top == -np.inf, 0, top)
        old, p = np.exp(m - safe), np.exp(s - safe[:, None])
        l = l * old + p.sum(1)
        acc = acc * old[:, None] + p @ v[j]
        m = top
    return acc / np.where(l == 0, 1, l)[:, None], m + np.log(np.where(l == 0, 1, l))

# %% wrong flash-3 the scale is lost
# Your scores are not divided by √D any more. Of the two divisions one must stay.
def attend(q, k, v, length, size):
    T = len(q)
    m, l, acc = np.full(T, -np.inf), np.zeros(T), np.zeros((T, v.shape[1]))
    i = np.arange(length - T, length)[:, None]
    for start in reversed(range(0, length, size)):
        j = np.arange(start, min(start + size, length))
        s = q @ k[j].T
        s = np.where(j <= i, s, -np.inf)
        top = np.maximum(m, s.max(1))
        safe = np.where(top == -np.inf, 0, top)
        old, p = np.exp(m - safe), np.exp(s - safe[:, None])
        l = l * old + p.sum(1)
        acc = acc * old[:, None] + p @ v[j]
        m = top
    return acc / np.where(l == 0, 1, l)[:, None], m + np.log(np.where(l == 0, 1, l))

# %% wrong flash-3 the old sum is not rescaled
# Your l keeps its old sum when the maximum rises. The factor that shrinks acc belongs to l, too.
def attend(q, k, v, length, size):
    T, D = q.shape
    m, l, acc = np.full(T, -np.inf), np.zeros(T), np.zeros((T, v.shape[1]))
    i = np.arange(length - T, length)[:, None]
    for start in reversed(range(0, length, size)):
        j = np.arange(start, min(start + size, length))
        s = q @ k[j].T / np.sqrt(D)
        s = np.where(j <= i, s, -np.inf)
        top = np.maximum(m, s.max(1))
        safe = np.where(top == -np.inf, 0, top)
        old, p = np.exp(m - safe), np.exp(s - safe[:, None])
        l = l + p.sum(1)
        acc = acc * old[:, None] + p @ v[j]
        m = top
    return acc / np.where(l == 0, 1, l)[:, None], m + np.log(np.where(l == 0, 1, l))

# %% wrong flash-3 the old output is not rescaled
# Your acc keeps its old sum when the maximum rises. The factor that shrinks l belongs to acc, too.
def attend(q, k, v, length, size):
    T, D = q.shape
    m, l, acc = np.full(T, -np.inf), np.zeros(T), np.zeros((T, v.shape[1]))
    i = np.arange(length - T, length)[:, None]
    for start in reversed(range(0, length, size)):
        j = np.arange(start, min(start + size, length))
        s = q @ k[j].T / np.sqrt(D)
        s = np.where(j <= i, s, -np.inf)
        top = np.maximum(m, s.max(1))
        safe = np.where(top == -np.inf, 0, top)
        old, p = np.exp(m - safe), np.exp(s - safe[:, None])
        l = l * old + p.sum(1)
        acc = acc + p @ v[j]
        m = top
    return acc / np.where(l == 0, 1, l)[:, None], m + np.log(np.where(l == 0, 1, l))

# %% wrong flash-3 NaN from a hidden tile
# A query that sees nothing in the newest tile gets NaN, and keeps it. Its maximum is still -∞
# there, and -∞ minus -∞ has no value.
# Seen: https://github.com/flashinfer-ai/flashinfer/pull/4401
# Seen: https://github.com/tracel-ai/burn/pull/4697
def attend(q, k, v, length, size):
    T, D = q.shape
    m, l, acc = np.full(T, -np.inf), np.zeros(T), np.zeros((T, v.shape[1]))
    i = np.arange(length - T, length)[:, None]
    for start in reversed(range(0, length, size)):
        j = np.arange(start, min(start + size, length))
        s = q @ k[j].T / np.sqrt(D)
        s = np.where(j <= i, s, -np.inf)
        top = np.maximum(m, s.max(1))
        old, p = np.exp(m - top), np.exp(s - top[:, None])
        l = l * old + p.sum(1)
        acc = acc * old[:, None] + p @ v[j]
        m = top
    return acc / np.where(l == 0, 1, l)[:, None], m + np.log(np.where(l == 0, 1, l))

# %% wrong flash-3 NaN replaced at the end
# You put 0 where NaN came out. Queries that see nothing in the newest tile do see older keys: their
# rows are not 0.
def attend(q, k, v, length, size):
    T, D = q.shape
    m, l, acc = np.full(T, -np.inf), np.zeros(T), np.zeros((T, v.shape[1]))
    i = np.arange(length - T, length)[:, None]
    for start in reversed(range(0, length, size)):
        j = np.arange(start, min(start + size, length))
        s = q @ k[j].T / np.sqrt(D)
        s = np.where(j <= i, s, -np.inf)
        top = np.maximum(m, s.max(1))
        old, p = np.exp(m - top), np.exp(s - top[:, None])
        l = l * old + p.sum(1)
        acc = acc * old[:, None] + p @ v[j]
        m = top
    o, lse = np.nan_to_num(acc / l[:, None]), m + np.log(l)
    return o, np.where(np.isnan(lse), -np.inf, lse)

# %% wrong flash-3 the stand-in stays as the maximum
# Where the first tile is hidden you keep your stand-in as the maximum. If all later scores are far
# below it, every weight becomes 0, though the row sees keys.
# Seen: Dao-AILab/flash-attention#2082
def attend(q, k, v, length, size):
    T, D = q.shape
    m, l, acc = np.full(T, -np.inf), np.zeros(T), np.zeros((T, v.shape[1]))
    i = np.arange(length - T, length)[:, None]
    for start in reversed(range(0, length, size)):
        j = np.arange(start, min(start + size, length))
        s = q @ k[j].T / np.sqrt(D)
        s = np.where(j <= i, s, -np.inf)
        top = np.maximum(m, s.max(1))
        safe = np.where(top == -np.inf, 0, top)
        old, p = np.exp(m - safe), np.exp(s - safe[:, None])
        l = l * old + p.sum(1)
        acc = acc * old[:, None] + p @ v[j]
        m = safe
    return acc / np.where(l == 0, 1, l)[:, None], np.where(
        l == 0, -np.inf, m + np.log(np.where(l == 0, 1, l))
    )

# %% wrong flash-3 a large negative number in place of -∞
# You begin with a large negative number as maximum. Real scores may lie below it; then their
# weights all become 0.
# Seen: flashinfer-ai/flashinfer#4267
# Seen: flashinfer-ai/flashinfer#4450
def attend(q, k, v, length, size):
    T, D = q.shape
    m, l, acc = np.full(T, -1e3), np.zeros(T), np.zeros((T, v.shape[1]))
    i = np.arange(length - T, length)[:, None]
    for start in reversed(range(0, length, size)):
        j = np.arange(start, min(start + size, length))
        s = q @ k[j].T / np.sqrt(D)
        s = np.where(j <= i, s, -np.inf)
        top = np.maximum(m, s.max(1))
        old, p = np.exp(m - top), np.exp(s - top[:, None])
        l = l * old + p.sum(1)
        acc = acc * old[:, None] + p @ v[j]
        m = top
    return acc / np.where(l == 0, 1, l)[:, None], np.where(
        l == 0, -np.inf, m + np.log(np.where(l == 0, 1, l))
    )

# %% wrong flash-3 empty slots spoil the output
# What lies in the empty slots reaches your output: their weight is 0, but 0 times NaN is NaN.
# Hiding a score is not enough, the value must not be read.
# Seen: Dao-AILab/flash-attention#2374
# Seen: flashinfer-ai/flashinfer#941
def attend(q, k, v, length, size):
    T, D = q.shape
    m, l, acc = np.full(T, -np.inf), np.zeros(T), np.zeros((T, v.shape[1]))
    i = np.arange(length - T, length)[:, None]
    for start in reversed(range(0, length, size)):
        j = np.arange(start, start + size)
        s = q @ k[j].T / np.sqrt(D)
        s = np.where(j <= i, s, -np.inf)
        top = np.maximum(m, s.max(1))
        safe = np.where(top == -np.inf, 0, top)
        old, p = np.exp(m - safe), np.exp(s - safe[:, None])
        l = l * old + p.sum(1)
        acc = acc * old[:, None] + p @ v[j]
        m = top
    return acc / np.where(l == 0, 1, l)[:, None], m + np.log(np.where(l == 0, 1, l))

# %% wrong flash-3 empty slots count as keys
# You clean the empty slots and then count them: a key of zeros has the score 0, and exp(0) is 1.
# Slots after the text are hidden like the future.
# Seen: https://github.com/zml/zml/pull/563
def attend(q, k, v, length, size):
    T, D = q.shape
    m, l, acc = np.full(T, -np.inf), np.zeros(T), np.zeros((T, v.shape[1]))
    i = np.arange(length - T, length)[:, None]
    for start in reversed(range(0, length, size)):
        j = np.arange(start, start + size)
        s = q @ np.nan_to_num(k[j]).T / np.sqrt(D)
        s = np.where((j <= i) | (j >= length), s, -np.inf)
        top = np.maximum(m, s.max(1))
        safe = np.where(top == -np.inf, 0, top)
        old, p = np.exp(m - safe), np.exp(s - safe[:, None])
        l = l * old + p.sum(1)
        acc = acc * old[:, None] + p @ np.nan_to_num(v[j])
        m = top
    return acc / np.where(l == 0, 1, l)[:, None], m + np.log(np.where(l == 0, 1, l))

# %% wrong flash-3 the last tile is lost
# A tile that is not quite full is never read. How many tiles hold `length` tokens?
def attend(q, k, v, length, size):
    T, D = q.shape
    m, l, acc = np.full(T, -np.inf), np.zeros(T), np.zeros((T, v.shape[1]))
    i = np.arange(length - T, length)[:, None]
    for start in reversed(range(0, length // size * size, size)):
        j = np.arange(start, min(start + size, length))
        s = q @ k[j].T / np.sqrt(D)
        s = np.where(j <= i, s, -np.inf)
        top = np.maximum(m, s.max(1))
        safe = np.where(top == -np.inf, 0, top)
        old, p = np.exp(m - safe), np.exp(s - safe[:, None])
        l = l * old + p.sum(1)
        acc = acc * old[:, None] + p @ v[j]
        m = top
    return acc / np.where(l == 0, 1, l)[:, None], m + np.log(np.where(l == 0, 1, l))

# %% wrong flash-3 queries counted from 0
# Your queries stand at the beginning of the text. They are its last T positions.
# Seen: NVIDIA/cutlass#2336
def attend(q, k, v, length, size):
    T, D = q.shape
    m, l, acc = np.full(T, -np.inf), np.zeros(T), np.zeros((T, v.shape[1]))
    i = np.arange(T)[:, None]
    for start in reversed(range(0, length, size)):
        j = np.arange(start, min(start + size, length))
        s = q @ k[j].T / np.sqrt(D)
        s = np.where(j <= i, s, -np.inf)
        top = np.maximum(m, s.max(1))
        safe = np.where(top == -np.inf, 0, top)
        old, p = np.exp(m - safe), np.exp(s - safe[:, None])
        l = l * old + p.sum(1)
        acc = acc * old[:, None] + p @ v[j]
        m = top
    return acc / np.where(l == 0, 1, l)[:, None], m + np.log(np.where(l == 0, 1, l))

# %% wrong flash-3 the sum added without its logarithm
# Your lse is m + l. What was summed are exponentials: bring the sum back to the size of a score
# first.
def attend(q, k, v, length, size):
    T, D = q.shape
    m, l, acc = np.full(T, -np.inf), np.zeros(T), np.zeros((T, v.shape[1]))
    i = np.arange(length - T, length)[:, None]
    for start in reversed(range(0, length, size)):
        j = np.arange(start, min(start + size, length))
        s = q @ k[j].T / np.sqrt(D)
        s = np.where(j <= i, s, -np.inf)
        top = np.maximum(m, s.max(1))
        safe = np.where(top == -np.inf, 0, top)
        old, p = np.exp(m - safe), np.exp(s - safe[:, None])
        l = l * old + p.sum(1)
        acc = acc * old[:, None] + p @ v[j]
        m = top
    return acc / np.where(l == 0, 1, l)[:, None], m + l

# %% wrong flash-3 the maximum in place of the lse
# You return the maximum of each row. The lse is larger: every key adds to the sum of the
# exponentials.
def attend(q, k, v, length, size):
    T, D = q.shape
    m, l, acc = np.full(T, -np.inf), np.zeros(T), np.zeros((T, v.shape[1]))
    i = np.arange(length - T, length)[:, None]
    for start in reversed(range(0, length, size)):
        j = np.arange(start, min(start + size, length))
        s = q @ k[j].T / np.sqrt(D)
        s = np.where(j <= i, s, -np.inf)
        top = np.maximum(m, s.max(1))
        safe = np.where(top == -np.inf, 0, top)
        old, p = np.exp(m - safe), np.exp(s - safe[:, None])
        l = l * old + p.sum(1)
        acc = acc * old[:, None] + p @ v[j]
        m = top
    return acc / np.where(l == 0, 1, l)[:, None], m

# %% wrong flash-3 NaN in a row that sees nothing
# A query that sees no key at all has l = 0, and 0 divided by 0 is NaN. It gets zeros.
# Seen: https://github.com/robertknight/rten/pull/1321
def attend(q, k, v, length, size):
    T, D = q.shape
    m, l, acc = np.full(T, -np.inf), np.zeros(T), np.zeros((T, v.shape[1]))
    i = np.arange(length - T, length)[:, None]
    for start in reversed(range(0, length, size)):
        j = np.arange(start, min(start + size, length))
        s = q @ k[j].T / np.sqrt(D)
        s = np.where(j <= i, s, -np.inf)
        top = np.maximum(m, s.max(1))
        safe = np.where(top == -np.inf, 0, top)
        old, p = np.exp(m - safe), np.exp(s - safe[:, None])
        l = l * old + p.sum(1)
        acc = acc * old[:, None] + p @ v[j]
        m = top
    return acc / l[:, None], m + np.log(np.where(l == 0, 1, l))

# %% wrong flash-3 nothing is rescaled
# Neither your l nor your acc shrinks when the maximum rises. What was summed before was measured
# against the old maximum.
def attend(q, k, v, length, size):
    T, D = q.shape
    m, l, acc = np.full(T, -np.inf), np.zeros(T), np.zeros((T, v.shape[1]))
    i = np.arange(length - T, length)[:, None]
    for start in reversed(range(0, length, size)):
        j = np.arange(start, min(start + size, length))
        s = q @ k[j].T / np.sqrt(D)
        s = np.where(j <= i, s, -np.inf)
        top = np.maximum(m, s.max(1))
        safe = np.where(top == -np.inf, 0, top)
        p = np.exp(s - safe[:, None])
        l = l + p.sum(1)
        acc = acc + p @ v[j]
        m = top
    return acc / np.where(l == 0, 1, l)[:, None], m + np.log(np.where(l == 0, 1, l))


# %% [markdown]
# ## flash-4: The forward pass, tile by tile
#
# *flash-4 · 6 points · 16 minutes · ●●●● difficulty 4 of 4*
#
# Write `flash(q, load, S, Hk, size)`: causal attention of all heads that never holds the matrix of
# scores, reads only the tiles of keys that somebody may see, and reads them once for all heads that
# share them. It returns the output `[H, T, D]` and the log-sum-exp `[H, T]`.
#
# - `q` is `[H, T, D]`: the queries are the last `T` of `S` positions. If `T` is larger than `S`,
#   the first ones see nothing: zeros and -∞.
# - Keys and values lie in a slow memory with `Hk` heads, and `H` is a multiple of `Hk`. **Query
#   head h reads key head h // (H / Hk).** `load(g, a, b)` fetches the positions a … b − 1 of key
#   head `g`: a pair `k` and `v`, both `[b - a, D]`. It needs `0 <= a < b <= S` and `b - a <= size`.
#   There is room for one tile: each call **overwrites** what the one before it returned.
# - **Work.** Take tiles of `size` queries and `size` keys, the first ones from 0 on; the last ones
#   may be shorter. For each tile of queries and each *key* head, fetch every tile of keys at most
#   once, and none that lies wholly in the future of the tile.
# - **Memory.** No array with anything like T × S numbers.
# - Scores are q · k / √D, and may be large.
#
# Half of the points are for a case that has all of it at once.
#
# **A miniature.** 4 queries, 4 keys, tiles of 2, 1 head. The first tile of queries fetches keys 0
# and 1; the second fetches keys 0 and 1, then 2 and 3: `load` is called 3 times for 6 positions.
#
# Read first: *One row, one tile at a time* and *A Triton kernel, line by line* in
# [chapter 9](../book/09_flash.ipynb).
#
# <details>
# <summary>Hint 1 for flash-4: three loops</summary>
#
# Key heads outside, tiles of queries inside that, tiles of keys innermost. `m`, `l` and `acc` begin
# anew with each tile of queries; they have an axis for the query heads that share the keys.
#
# </details>
#
# <details>
# <summary>Hint 2 for flash-4: where to stop</summary>
#
# Which position has the last query of the tile? Keys up to there may be seen by somebody, and the
# tile in which that key lies is the last one to fetch. It holds keys that the other queries of the
# tile may not see.
#
# </details>

# %% answer flash-4 points=6 minutes=16 difficulty=4 forbid=attnlearn,scaled_dot_product_attention
def flash(q, load, S, Hk, size):
    """q [H, T, D]; load(g, a, b) -> k, v [b - a, D] of key head g -> o [H, T, D], lse [H, T]."""
    # BEGIN SOLUTION
    (H, T, D), group = q.shape, len(q) // Hk
    o, lse = np.zeros((H, T, D)), np.full((H, T), -np.inf)
    for g in range(Hk):
        for t in range(0, T, size):
            at = slice(g * group, (g + 1) * group), slice(t, t + size)
            i = np.arange(S - T, S)[t : t + size, None]
            m = np.full((*lse[at].shape, 1), -np.inf)
            l, acc = np.zeros(m.shape), np.zeros(o[at].shape)
            for a in range(0, i[-1, 0] + 1, size):
                j = np.arange(a, min(a + size, S))
                k, v = load(g, a, a + len(j))
                s = np.where(j <= i, q[at] @ k.T / np.sqrt(D), -np.inf)
                top = np.maximum(m, s.max(-1, keepdims=True))
                safe = np.where(top == -np.inf, 0, top)
                old, p = np.exp(m - safe), np.exp(s - safe)
                l, acc = l * old + p.sum(-1, keepdims=True), acc * old + p @ v
                m = top
            l = np.where(l == 0, 1, l)
            o[at], lse[at] = acc / l, (m + np.log(l))[..., 0]
    return o, lse
    # END SOLUTION

# %% check flash-4
case = check("flash-4")


def _heads(rng, H, Hk, T, S, D=3):
    q = rng.normal(size=(H, T, D))
    k, v = rng.normal(size=(2, Hk, S, D))
    q[..., 0], k[..., 0] = 2, np.arange(S)  # newer keys have larger scores
    return q, k, v


def _flash(q, k, v, size=3, fetched=None):
    tile = []

    def load(g, a, b):
        if not 0 <= a < b <= k.shape[1]:
            raise IndexError(f"load({g}, {a}, {b}), but there are positions 0 to {k.shape[1] - 1}")
        if b - a > size:
            raise ValueError(f"load({g}, {a}, {b}) fetches more than {size} positions")
        if fetched is not None:
            fetched.append(b - a)
        for x in tile:
            x[...] = np.nan  # there is room for one tile
        tile[:] = k[g, a:b].copy(), v[g, a:b].copy()
        return tuple(tile)

    o, lse = flash(q, load, k.shape[1], len(k), size)
    return {"o": np.asarray(o), "lse": np.asarray(lse)}


def _fetched(rng, *sizes):
    fetched = []
    _flash(*_heads(rng, *sizes), fetched=fetched)
    return sum(fetched)


def _extra_mb(f):
    tracemalloc.start()
    try:
        f()
        return tracemalloc.get_traced_memory()[1] / 2**20
    finally:
        tracemalloc.stop()


case("one head, one tile", lambda rng: _flash(*_heads(rng, 1, 1, 3, 3)))
case("one head, three tiles", lambda rng: _flash(*_heads(rng, 1, 1, 9, 9)))
case("short last tiles: 7 positions", lambda rng: _flash(*_heads(rng, 1, 1, 7, 7)))
case("a chunk: 4 queries, 11 keys", lambda rng: _flash(*_heads(rng, 1, 1, 4, 11)))
case("4 query heads, 2 key heads", lambda rng: _flash(*_heads(rng, 4, 2, 2, 3)))
case("queries before the text", lambda rng: _flash(*_heads(rng, 2, 1, 5, 3)))


@case("scores near 2,000 and near -2,000")
def _(rng):
    q, k, v = _heads(rng, 1, 1, 6, 6)
    q[..., 0], k[..., 0] = 3 * [1000, -1000], 3 * [4] + 3 * [5]
    return _flash(q, k, v)


case("fetched: 12 positions, 1 head", lambda rng: _fetched(rng, 1, 1, 12, 12), at_most=30)
case("fetched: 6 query heads, 2 key heads", lambda rng: _fetched(rng, 6, 2, 4, 9), at_most=36)


@case("extra memory in MB, 256 positions", at_most=0.4, weight=2)
def _(rng):
    heads = _heads(rng, 2, 1, 256, 256)
    return _extra_mb(lambda: _flash(*heads, size=64))


@case("all of it at once", weight=12)
def _(rng):
    q, k, v = _heads(rng, 4, 2, 8, 7)
    q[:, 4:6, 0] = [900, -900]
    late, fetched, long = _heads(rng, 2, 1, 4, 11), [], _heads(rng, 2, 1, 256, 256)
    return {
        "8 queries, 7 keys": _flash(q, k, v, 3, fetched),
        "4 queries, 11 keys": _flash(*late, 3, fetched),
        "fetched too much": sum(fetched) > 2 * (3 + 6 + 7) + (11 + 11),
        "too much memory": _extra_mb(lambda: _flash(*long, size=64)) > 0.4,
    }

# %% hidden flash-4
case = check("flash-4")
case("tiles of 4, drawn", lambda rng: _flash(*_heads(rng, 4, 2, rng.randint(5, 8), 10), size=4))

# %% right flash-4 partial results merged
def flash(q, load, S, Hk, size):
    H, T, D = q.shape
    o, lse = np.zeros(q.shape), np.full((H, T, 1), -np.inf)
    shared = [range(g * (H // Hk), (g + 1) * (H // Hk)) for g in range(Hk)]
    for first in range(0, T, size):
        rows = np.arange(T)[first : first + size]
        for g, heads in enumerate(shared):
            for a in range(0, rows[-1] + S - T + 1, size):
                k, v = load(g, a, min(a + size, S))
                hidden = a + np.arange(len(k)) > rows[:, None] + S - T
                for h in heads:
                    s = np.where(hidden, -np.inf, np.einsum("td,sd->ts", q[h, rows], k) * D**-0.5)
                    part = np.logaddexp.reduce(s, axis=1, keepdims=True)
                    both = np.logaddexp(lse[h, rows], part)
                    safe = np.where(np.isinf(both), 0, both)
                    o[h, rows] = o[h, rows] * np.exp(lse[h, rows] - safe) + np.exp(s - safe) @ v
                    lse[h, rows] = both
    return o, lse[..., 0]

# %% right flash-4 newest tile first, from the lowest number
def flash(q, load, S, Hk, size):
    H, T, D = q.shape
    q = q.reshape(Hk, H // Hk, T, D)
    o, lse = np.empty(q.shape), np.empty(q.shape[:3])
    for g, t in np.ndindex(Hk, -(-T // size)):
        rows = slice(t * size, min((t + 1) * size, T))
        i = np.arange(rows.start, rows.stop) + S - T
        m, l, acc = np.finfo(float).min, 0.0, 0.0
        for a in range((i[-1] // size) * size, -1, -size):
            k, v = load(g, a, min(a + size, i[-1] + 1))
            s = q[g, :, rows] @ k.T / D**0.5
            s[:, a + np.arange(len(k)) > i[:, None]] = -np.inf
            top = np.maximum(m, s.max(-1, keepdims=True))
            shrink, p = np.exp(m - top), np.exp(s - top)
            m, l, acc = top, l * shrink + p.sum(-1, keepdims=True), acc * shrink + p @ v
        blind = np.broadcast_to(l == 0, (len(q[0]), len(i), 1))
        o[g, :, rows] = np.where(blind, 0, acc / np.where(blind, 1, l))
        lse[g, :, rows] = np.where(blind, -np.inf, m + np.log(np.where(blind, 1, l)))[..., 0]
    return o.reshape(H, T, D), lse.reshape(H, T)

# %% wrong flash-4 heads by the remainder
# Your query head h reads key head h mod Hk. Neighbouring query heads share a key head: divide,
# don't take the remainder.
# Seen: https://github.com/onnx/onnx/pull/7274
# Seen: https://github.com/apple/axlearn/pull/842
def flash(q, load, S, Hk, size):
    H, T, D = q.shape
    o, lse = np.zeros((H, T, D)), np.full((H, T), -np.inf)
    for g in range(Hk):
        for t in range(0, T, size):
            at = slice(g, None, Hk), slice(t, t + size)
            i = np.arange(S - T, S)[t : t + size, None]
            m = np.full((*lse[at].shape, 1), -np.inf)
            l, acc = np.zeros(m.shape), np.zeros(o[at].shape)
            for a in range(0, i[-1, 0] + 1, size):
                j = np.arange(a, min(a + size, S))
                k, v = load(g, a, a + len(j))
                s = np.where(j <= i, q[at] @ k.T / np.sqrt(D), -np.inf)
                top = np.maximum(m, s.max(-1, keepdims=True))
                safe = np.where(top == -np.inf, 0, top)
                old, p = np.exp(m - safe), np.exp(s - safe)
                l, acc = l * old + p.sum(-1, keepdims=True), acc * old + p @ v
                m = top
            l = np.where(l == 0, 1, l)
            o[at], lse[at] = acc / l, (m + np.log(l))[..., 0]
    return o, lse

# %% wrong flash-4 every query head fetches for itself
# You fetch the keys again for every query head. Query heads that share keys can share what was
# fetched: give m, l and acc an axis for them.
# Seen: https://github.com/ROCm/rocm-libraries/pull/11279
def flash(q, load, S, Hk, size):
    (H, T, D), group = q.shape, len(q) // Hk
    o, lse = np.zeros((H, T, D)), np.full((H, T), -np.inf)
    for h in range(H):
        g = h // group
        for t in range(0, T, size):
            at = slice(h, h + 1), slice(t, t + size)
            i = np.arange(S - T, S)[t : t + size, None]
            m = np.full((*lse[at].shape, 1), -np.inf)
            l, acc = np.zeros(m.shape), np.zeros(o[at].shape)
            for a in range(0, i[-1, 0] + 1, size):
                j = np.arange(a, min(a + size, S))
                k, v = load(g, a, a + len(j))
                s = np.where(j <= i, q[at] @ k.T / np.sqrt(D), -np.inf)
                top = np.maximum(m, s.max(-1, keepdims=True))
                safe = np.where(top == -np.inf, 0, top)
                old, p = np.exp(m - safe), np.exp(s - safe)
                l, acc = l * old + p.sum(-1, keepdims=True), acc * old + p @ v
                m = top
            l = np.where(l == 0, 1, l)
            o[at], lse[at] = acc / l, (m + np.log(l))[..., 0]
    return o, lse

# %% wrong flash-4 tiles of the future are fetched
# You fetch every tile of keys and hide the future ones. A tile that no query of yours may see need
# not be fetched at all.
# Seen: https://github.com/Xilinx/mlir-air/pull/1749
def flash(q, load, S, Hk, size):
    (H, T, D), group = q.shape, len(q) // Hk
    o, lse = np.zeros((H, T, D)), np.full((H, T), -np.inf)
    for g in range(Hk):
        for t in range(0, T, size):
            at = slice(g * group, (g + 1) * group), slice(t, t + size)
            i = np.arange(S - T, S)[t : t + size, None]
            m = np.full((*lse[at].shape, 1), -np.inf)
            l, acc = np.zeros(m.shape), np.zeros(o[at].shape)
            for a in range(0, S, size):
                j = np.arange(a, min(a + size, S))
                k, v = load(g, a, a + len(j))
                s = np.where(j <= i, q[at] @ k.T / np.sqrt(D), -np.inf)
                top = np.maximum(m, s.max(-1, keepdims=True))
                safe = np.where(top == -np.inf, 0, top)
                old, p = np.exp(m - safe), np.exp(s - safe)
                l, acc = l * old + p.sum(-1, keepdims=True), acc * old + p @ v
                m = top
            l = np.where(l == 0, 1, l)
            o[at], lse[at] = acc / l, (m + np.log(l))[..., 0]
    return o, lse

# %% wrong flash-4 stopped one key too early
# You stop before the last query's own key. If that key is the first of a tile, the whole tile is
# missing.
def flash(q, load, S, Hk, size):
    (H, T, D), group = q.shape, len(q) // Hk
    o, lse = np.zeros((H, T, D)), np.full((H, T), -np.inf)
    for g in range(Hk):
        for t in range(0, T, size):
            at = slice(g * group, (g + 1) * group), slice(t, t + size)
            i = np.arange(S - T, S)[t : t + size, None]
            m = np.full((*lse[at].shape, 1), -np.inf)
            l, acc = np.zeros(m.shape), np.zeros(o[at].shape)
            for a in range(0, i[-1, 0], size):
                j = np.arange(a, min(a + size, S))
                k, v = load(g, a, a + len(j))
                s = np.where(j <= i, q[at] @ k.T / np.sqrt(D), -np.inf)
                top = np.maximum(m, s.max(-1, keepdims=True))
                safe = np.where(top == -np.inf, 0, top)
                old, p = np.exp(m - safe), np.exp(s - safe)
                l, acc = l * old + p.sum(-1, keepdims=True), acc * old + p @ v
                m = top
            l = np.where(l == 0, 1, l)
            o[at], lse[at] = acc / l, (m + np.log(l))[..., 0]
    return o, lse

# %% wrong flash-4 all scores of all queries at once
# You fetch tile by tile and then hold all scores in one matrix. A tile of queries is done before
# the next one begins.
def flash(q, load, S, Hk, size):
    (H, T, D), group = q.shape, len(q) // Hk
    o, lse = np.zeros((H, T, D)), np.full((H, T), -np.inf)
    if T > S:
        o[:, T - S :], lse[:, T - S :] = flash(q[:, T - S :], load, S, Hk, size)
        return o, lse
    for g in range(Hk):
        heads = slice(g * group, (g + 1) * group)
        parts = [load(g, a, min(a + size, S)) for a in range(0, S, size)]
        k, v = (np.concatenate(part) for part in zip(*parts, strict=True))
        s = np.where(
            np.arange(S) <= np.arange(S - T, S)[:, None], q[heads] @ k.T / np.sqrt(D), -np.inf
        )
        m = s.max(-1, keepdims=True)
        p = np.exp(s - m)
        l = p.sum(-1, keepdims=True)
        o[heads], lse[heads] = p @ v / l, (m + np.log(l))[..., 0]
    return o, lse

# %% wrong flash-4 queries counted from 0
# Your queries stand at the beginning of the text. They are its last T positions: with fewer queries
# than keys each of them sees more.
# Seen: NVIDIA/cutlass#2336
# Seen: gittensor-ai-lab/sparkinfer#3
def flash(q, load, S, Hk, size):
    (H, T, D), group = q.shape, len(q) // Hk
    o, lse = np.zeros((H, T, D)), np.full((H, T), -np.inf)
    for g in range(Hk):
        for t in range(0, T, size):
            at = slice(g * group, (g + 1) * group), slice(t, t + size)
            i = np.arange(T)[t : t + size, None]
            m = np.full((*lse[at].shape, 1), -np.inf)
            l, acc = np.zeros(m.shape), np.zeros(o[at].shape)
            for a in range(0, min(i[-1, 0] + 1, S), size):
                j = np.arange(a, min(a + size, S))
                k, v = load(g, a, a + len(j))
                s = np.where(j <= i, q[at] @ k.T / np.sqrt(D), -np.inf)
                top = np.maximum(m, s.max(-1, keepdims=True))
                safe = np.where(top == -np.inf, 0, top)
                old, p = np.exp(m - safe), np.exp(s - safe)
                l, acc = l * old + p.sum(-1, keepdims=True), acc * old + p @ v
                m = top
            l = np.where(l == 0, 1, l)
            o[at], lse[at] = acc / l, (m + np.log(l))[..., 0]
    return o, lse

# %% wrong flash-4 the future is visible within a tile
# You stop at the right tile, but within it you hide nothing. The last tile holds keys that some of
# its queries may not see.
def flash(q, load, S, Hk, size):
    (H, T, D), group = q.shape, len(q) // Hk
    o, lse = np.zeros((H, T, D)), np.full((H, T), -np.inf)
    for g in range(Hk):
        for t in range(0, T, size):
            at = slice(g * group, (g + 1) * group), slice(t, t + size)
            i = np.arange(S - T, S)[t : t + size, None]
            m = np.full((*lse[at].shape, 1), -np.inf)
            l, acc = np.zeros(m.shape), np.zeros(o[at].shape)
            for a in range(0, i[-1, 0] + 1, size):
                j = np.arange(a, min(a + size, S))
                k, v = load(g, a, a + len(j))
                s = q[at] @ k.T / np.sqrt(D)
                top = np.maximum(m, s.max(-1, keepdims=True))
                safe = np.where(top == -np.inf, 0, top)
                old, p = np.exp(m - safe), np.exp(s - safe)
                l, acc = l * old + p.sum(-1, keepdims=True), acc * old + p @ v
                m = top
            l = np.where(l == 0, 1, l)
            o[at], lse[at] = acc / l, (m + np.log(l))[..., 0]
    return o, lse

# %% wrong flash-4 the last queries are lost
# Queries that do not fill a tile get no output. How many tiles does it take to hold all T of them?
def flash(q, load, S, Hk, size):
    (H, T, D), group = q.shape, len(q) // Hk
    o, lse = np.zeros((H, T, D)), np.full((H, T), -np.inf)
    for g in range(Hk):
        for t in range(0, T // size * size, size):
            at = slice(g * group, (g + 1) * group), slice(t, t + size)
            i = np.arange(S - T, S)[t : t + size, None]
            m = np.full((*lse[at].shape, 1), -np.inf)
            l, acc = np.zeros(m.shape), np.zeros(o[at].shape)
            for a in range(0, i[-1, 0] + 1, size):
                j = np.arange(a, min(a + size, S))
                k, v = load(g, a, a + len(j))
                s = np.where(j <= i, q[at] @ k.T / np.sqrt(D), -np.inf)
                top = np.maximum(m, s.max(-1, keepdims=True))
                safe = np.where(top == -np.inf, 0, top)
                old, p = np.exp(m - safe), np.exp(s - safe)
                l, acc = l * old + p.sum(-1, keepdims=True), acc * old + p @ v
                m = top
            l = np.where(l == 0, 1, l)
            o[at], lse[at] = acc / l, (m + np.log(l))[..., 0]
    return o, lse

# %% wrong flash-4 the scale is lost
# Your scores are q · k. They should be divided by √D.
def flash(q, load, S, Hk, size):
    (H, T, D), group = q.shape, len(q) // Hk
    o, lse = np.zeros((H, T, D)), np.full((H, T), -np.inf)
    for g in range(Hk):
        for t in range(0, T, size):
            at = slice(g * group, (g + 1) * group), slice(t, t + size)
            i = np.arange(S - T, S)[t : t + size, None]
            m = np.full((*lse[at].shape, 1), -np.inf)
            l, acc = np.zeros(m.shape), np.zeros(o[at].shape)
            for a in range(0, i[-1, 0] + 1, size):
                j = np.arange(a, min(a + size, S))
                k, v = load(g, a, a + len(j))
                s = np.where(j <= i, q[at] @ k.T, -np.inf)
                top = np.maximum(m, s.max(-1, keepdims=True))
                safe = np.where(top == -np.inf, 0, top)
                old, p = np.exp(m - safe), np.exp(s - safe)
                l, acc = l * old + p.sum(-1, keepdims=True), acc * old + p @ v
                m = top
            l = np.where(l == 0, 1, l)
            o[at], lse[at] = acc / l, (m + np.log(l))[..., 0]
    return o, lse

# %% wrong flash-4 no maximum subtracted
# Your exponentials overflow or vanish. Subtract the largest score seen so far before you take them.
def flash(q, load, S, Hk, size):
    (H, T, D), group = q.shape, len(q) // Hk
    o, lse = np.zeros((H, T, D)), np.full((H, T), -np.inf)
    for g in range(Hk):
        for t in range(0, T, size):
            at = slice(g * group, (g + 1) * group), slice(t, t + size)
            i = np.arange(S - T, S)[t : t + size, None]
            m = np.zeros((*lse[at].shape, 1))
            l, acc = np.zeros(m.shape), np.zeros(o[at].shape)
            for a in range(0, i[-1, 0] + 1, size):
                j = np.arange(a, min(a + size, S))
                k, v = load(g, a, a + len(j))
                s = np.where(j <= i, q[at] @ k.T / np.sqrt(D), -np.inf)
                top = m
                old, p = np.ones(m.shape), np.exp(s)
                l, acc = l * old + p.sum(-1, keepdims=True), acc * old + p @ v
                m = top
            lse[at] = np.log(l)[..., 0]
            o[at] = acc / np.where(l == 0, 1, l)
    return o, lse

# %% wrong flash-4 the old sums are not rescaled
# You never shrink what was summed before. When a tile brings a larger score, l and acc were
# measured against a smaller one.
def flash(q, load, S, Hk, size):
    (H, T, D), group = q.shape, len(q) // Hk
    o, lse = np.zeros((H, T, D)), np.full((H, T), -np.inf)
    for g in range(Hk):
        for t in range(0, T, size):
            at = slice(g * group, (g + 1) * group), slice(t, t + size)
            i = np.arange(S - T, S)[t : t + size, None]
            m = np.full((*lse[at].shape, 1), -np.inf)
            l, acc = np.zeros(m.shape), np.zeros(o[at].shape)
            for a in range(0, i[-1, 0] + 1, size):
                j = np.arange(a, min(a + size, S))
                k, v = load(g, a, a + len(j))
                s = np.where(j <= i, q[at] @ k.T / np.sqrt(D), -np.inf)
                top = np.maximum(m, s.max(-1, keepdims=True))
                safe = np.where(top == -np.inf, 0, top)
                p = np.exp(s - safe)
                l, acc = l + p.sum(-1, keepdims=True), acc + p @ v
                m = top
            l = np.where(l == 0, 1, l)
            o[at], lse[at] = acc / l, (m + np.log(l))[..., 0]
    return o, lse

# %% wrong flash-4 each tile is a softmax of its own
# You divide in every tile and add up the outputs. A softmax divides once, by the sum over the whole
# row.
def flash(q, load, S, Hk, size):
    (H, T, D), group = q.shape, len(q) // Hk
    o, lse = np.zeros((H, T, D)), np.full((H, T), -np.inf)
    for g in range(Hk):
        for t in range(0, T, size):
            at = slice(g * group, (g + 1) * group), slice(t, t + size)
            i = np.arange(S - T, S)[t : t + size, None]
            m = np.full((*lse[at].shape, 1), -np.inf)
            l, acc = np.zeros(m.shape), np.zeros(o[at].shape)
            for a in range(0, i[-1, 0] + 1, size):
                j = np.arange(a, min(a + size, S))
                k, v = load(g, a, a + len(j))
                s = np.where(j <= i, q[at] @ k.T / np.sqrt(D), -np.inf)
                top = np.maximum(m, s.max(-1, keepdims=True))
                safe = np.where(top == -np.inf, 0, top)
                old, p = np.exp(m - safe), np.exp(s - safe)
                l, acc = (
                    l * old + p.sum(-1, keepdims=True),
                    acc + p @ v / np.maximum(p.sum(-1, keepdims=True), 1e-300),
                )
                m = top
            l = np.where(l == 0, 1, l)
            o[at], lse[at] = acc, (m + np.log(l))[..., 0]
    return o, lse

# %% wrong flash-4 the maximum is not added back
# Your lse is log l. The exponentials in l were measured against m: add it back.
# Seen: Dao-AILab/flash-attention#404
def flash(q, load, S, Hk, size):
    (H, T, D), group = q.shape, len(q) // Hk
    o, lse = np.zeros((H, T, D)), np.full((H, T), -np.inf)
    for g in range(Hk):
        for t in range(0, T, size):
            at = slice(g * group, (g + 1) * group), slice(t, t + size)
            i = np.arange(S - T, S)[t : t + size, None]
            m = np.full((*lse[at].shape, 1), -np.inf)
            l, acc = np.zeros(m.shape), np.zeros(o[at].shape)
            for a in range(0, i[-1, 0] + 1, size):
                j = np.arange(a, min(a + size, S))
                k, v = load(g, a, a + len(j))
                s = np.where(j <= i, q[at] @ k.T / np.sqrt(D), -np.inf)
                top = np.maximum(m, s.max(-1, keepdims=True))
                safe = np.where(top == -np.inf, 0, top)
                old, p = np.exp(m - safe), np.exp(s - safe)
                l, acc = l * old + p.sum(-1, keepdims=True), acc * old + p @ v
                m = top
            l = np.where(l == 0, 1, l)
            o[at], lse[at] = acc / l, np.log(l)[..., 0]
    return o, lse

# %% wrong flash-4 NaN before the text
# Queries that see nothing get NaN. Their maximum is still -∞, and -∞ minus -∞ has no value.
# Seen: https://github.com/flashinfer-ai/flashinfer/pull/4401
def flash(q, load, S, Hk, size):
    (H, T, D), group = q.shape, len(q) // Hk
    o, lse = np.zeros((H, T, D)), np.full((H, T), -np.inf)
    for g in range(Hk):
        for t in range(0, T, size):
            at = slice(g * group, (g + 1) * group), slice(t, t + size)
            i = np.arange(S - T, S)[t : t + size, None]
            m = np.full((*lse[at].shape, 1), -np.inf)
            l, acc = np.zeros(m.shape), np.zeros(o[at].shape)
            for a in range(0, i[-1, 0] + 1, size):
                j = np.arange(a, min(a + size, S))
                k, v = load(g, a, a + len(j))
                s = np.where(j <= i, q[at] @ k.T / np.sqrt(D), -np.inf)
                top = np.maximum(m, s.max(-1, keepdims=True))
                safe = top
                old, p = np.exp(m - safe), np.exp(s - safe)
                l, acc = l * old + p.sum(-1, keepdims=True), acc * old + p @ v
                m = top
            l = np.where(l == 0, 1, l)
            o[at], lse[at] = acc / l, (m + np.log(l))[..., 0]
    return o, lse

# %% wrong flash-4 tiles are kept
# You fetch all tiles first and use them later. There is room for one: what `load` returned is
# overwritten by the next call, so let m, l and acc take in each tile as it comes.
def flash(q, load, S, Hk, size):
    H, T, D = q.shape
    o, lse = np.zeros(q.shape), np.full((H, T), -np.inf)
    for g in range(Hk):
        tiles = [load(g, a, min(a + size, S)) for a in range(0, S, size)]
        k, v = (np.concatenate(x) for x in zip(*tiles, strict=True))
        for h in range(g * (H // Hk), (g + 1) * (H // Hk)):
            for t in range(max(T - S, 0), T):
                s = k[: S - T + t + 1] @ q[h, t] / np.sqrt(D)
                p = np.exp(s - s.max())
                o[h, t] = p @ v[: len(s)] / p.sum()
                lse[h, t] = s.max() + np.log(p.sum())
    return o, lse


# %% [markdown]
# ## flash-5: The backward pass without the matrix
#
# *flash-5 · 6 points · 14 minutes · ●●●● difficulty 4 of 4*
#
# The forward pass threw its weights away. It kept the output `o` and the log-sum-exp `lse` of every
# row, and that is enough. Write `backward(q, k, v, o, lse, do, size)`, which returns the gradients
# `dq`, `dk` and `dv` of causal attention.
#
# - `q` is `[T, D]`, `k` is `[S, D]`, `v` is `[S, E]`; the last query sees the last key. `o` is `[T,
#   E]`, `lse` is `[T]`, and `do` `[T, E]` is the gradient of the loss for `o`.
# - Scores were s = q · k / √D, and weights are p = exp(s - lse).
# - With dp = do · v, the gradient for the scores is ds = p (dp - delta). Here `delta` is **one
#   number per row**: the weighted mean Σ p dp over all keys, which equals the dot product of `do`
#   and `o`.
# - A query that saw nothing (lse = -∞) has and gives the gradient 0. Never NaN.
# - Work in tiles of at most `size` queries and `size` keys. Memory: no array with anything like T ×
#   S numbers.
# - The inputs stay as they are.
#
# Your gradients are compared with the exact ones. Half of the points are for a case that has all of
# it at once.
#
# **A miniature.** One query, two keys with equal scores, values 0 and 2: p = 1/2 and 1/2, o = 1.
# With do = 1 the dp are 0 and 2, delta is 1, so ds = -1/2 and 1/2: the second key should score
# higher.
#
# Read first: *Backward without a matrix* in [chapter 9](../book/09_flash.ipynb).
#
# <details>
# <summary>Hint 1 for flash-5: one tile</summary>
#
# Write the five products for a single tile that holds everything, and look at their shapes. Then
# cut: which of dq, dk and dv gets a part from every tile of keys, and which from every tile of
# queries?
#
# </details>
#
# <details>
# <summary>Hint 2 for flash-5: why delta is known at once</summary>
#
# Σ p dp = Σ p (do · v) = do · Σ p v. What is Σ p v? So delta needs no tile at all. Hidden pairs
# have p = 0: decide that after the exponential, not before.
#
# </details>

# %% answer flash-5 points=6 minutes=14 difficulty=4 forbid=attnlearn,torch.tensor,torch.from_numpy
def backward(q, k, v, o, lse, do, size):
    """q, k, v, o [T, E], lse [T], do [T, E] -> dq, dk, dv; causal, no T x S array."""
    # BEGIN SOLUTION
    (T, D), S = q.shape, len(k)
    dq, dk, dv = np.zeros(q.shape), np.zeros(k.shape), np.zeros(v.shape)
    delta = (do * o).sum(1)
    for t in range(0, T, size):
        rows = slice(t, t + size)
        i = np.arange(S - T, S)[rows, None]
        for a in range(0, S, size):
            cols = slice(a, a + size)
            s = q[rows] @ k[cols].T / np.sqrt(D)
            p = np.where(np.arange(S)[cols] <= i, np.exp(s - lse[rows, None]), 0)
            ds = p * (do[rows] @ v[cols].T - delta[rows, None]) / np.sqrt(D)
            dq[rows] += ds @ k[cols]
            dk[cols] += ds.T @ q[rows]
            dv[cols] += p.T @ do[rows]
    return dq, dk, dv
    # END SOLUTION

# %% check flash-5
case = check("flash-5")


def _problem(rng, T, S, far=0):
    q, k, v = (rng.normal(size=(n, 2)) for n in (T, S, S))
    q[:, 0], k[:, 0] = far * (-1.0) ** np.arange(T), 1  # a row's scores are far from 0 together
    s = np.where(np.arange(S) <= np.arange(S - T, S)[:, None], q @ k.T / np.sqrt(2), -np.inf)
    lse = np.logaddexp.reduce(s, axis=1)
    o = np.exp(s - np.where(lse == -np.inf, 0, lse)[:, None]) @ v
    return q, k, v, o, lse, rng.normal(size=(T, 2))


def _gradients(*problem, size=3):
    return dict(zip(("dq", "dk", "dv"), map(np.asarray, backward(*problem, size)), strict=True))


def _extra_mb(f):
    tracemalloc.start()
    try:
        f()
        return tracemalloc.get_traced_memory()[1] / 2**20
    finally:
        tracemalloc.stop()


case("everything in one tile", lambda rng: _gradients(*_problem(rng, 3, 3)))
case("four tiles", lambda rng: _gradients(*_problem(rng, 6, 6)))
case("one query, 6 keys", lambda rng: _gradients(*_problem(rng, 1, 6)))
case("4 queries, 8 keys: short tiles", lambda rng: _gradients(*_problem(rng, 4, 8)))
case("queries before the text", lambda rng: _gradients(*_problem(rng, 5, 3)))
case("scores near 2,000 and near -2,000", lambda rng: _gradients(*_problem(rng, 6, 6, 3500)))


@case("extra memory in MB, 256 positions", at_most=0.3, weight=2)
def _(rng):
    problem = _problem(rng, 256, 256)
    return _extra_mb(lambda: _gradients(*problem, size=64))


@case("all of it at once", weight=8)
def _(rng):
    problem, long = _problem(rng, 10, 7, 3500), _problem(rng, 256, 256)
    before = [x.copy() for x in problem]
    got = _gradients(*problem)
    got["inputs untouched"] = [
        bool(np.array_equal(x, y)) for x, y in zip(before, problem, strict=True)
    ]
    got["too much memory"] = _extra_mb(lambda: _gradients(*long, size=64)) > 0.3
    return got

# %% hidden flash-5
case = check("flash-5")
case(
    "tiles of 4, drawn lengths",
    lambda rng: _gradients(*_problem(rng, 5, rng.randint(6, 12)), size=4),
)

# %% right flash-5 keys outside, as a kernel for dk and dv
def backward(q, k, v, o, lse, do, size):
    (T, D), S = q.shape, len(k)
    blind = np.isinf(lse)
    dq, dk, dv = (np.zeros_like(x) for x in (q, k, v))
    delta = np.einsum("te,te->t", do, o)
    for a in range(0, S, size):
        j = np.arange(a, min(a + size, S))
        for t in range(max(a + T - S, 0), T, size):
            n = np.arange(t, min(t + size, T))
            s = np.einsum("td,sd->ts", q[n], k[j]) * D**-0.5
            seen = (j <= n[:, None] + S - T) & ~blind[n, None]
            p = np.exp(np.where(seen, s - np.where(blind, 0, lse)[n, None], -np.inf))
            ds = p * (do[n] @ v[j].T - delta[n, None]) * D**-0.5
            dq[n], dk[j], dv[j] = dq[n] + ds @ k[j], dk[j] + ds.T @ q[n], dv[j] + p.T @ do[n]
    return dq, dk, dv

# %% right flash-5 one row at a time
def backward(q, k, v, o, lse, do, size):
    scale = q.shape[1] ** -0.5
    dq, dk, dv = np.zeros(q.shape), np.zeros(k.shape), np.zeros(v.shape)
    for t in range(len(q)):
        n = len(k) - len(q) + t + 1
        if n > 0:
            p = np.exp(k[:n] @ q[t] * scale - lse[t])
            dp = v[:n] @ do[t]
            ds = p * (dp - p @ dp) * scale
            dq[t] = ds @ k[:n]
            dk[:n] += np.outer(ds, q[t])
            dv[:n] += np.outer(p, do[t])
    return dq, dk, dv

# %% wrong flash-5 delta is forgotten
# Your scores' gradient is p dp. Weights compete: raising one score lowers all other weights of the
# row, and that takes something away.
def backward(q, k, v, o, lse, do, size):
    (T, D), S = q.shape, len(k)
    dq, dk, dv = np.zeros(q.shape), np.zeros(k.shape), np.zeros(v.shape)
    for t in range(0, T, size):
        rows = slice(t, t + size)
        i = np.arange(S - T, S)[rows, None]
        for a in range(0, S, size):
            cols = slice(a, a + size)
            s = q[rows] @ k[cols].T / np.sqrt(D)
            p = np.where(np.arange(S)[cols] <= i, np.exp(s - lse[rows, None]), 0)
            ds = p * (do[rows] @ v[cols].T) / np.sqrt(D)
            dq[rows] += ds @ k[cols]
            dk[cols] += ds.T @ q[rows]
            dv[cols] += p.T @ do[rows]
    return dq, dk, dv

# %% wrong flash-5 delta of each tile
# You take the weighted mean of dp over one tile. It belongs to the whole row; in one tile the
# weights don't even sum to 1.
def backward(q, k, v, o, lse, do, size):
    (T, D), S = q.shape, len(k)
    dq, dk, dv = np.zeros(q.shape), np.zeros(k.shape), np.zeros(v.shape)
    for t in range(0, T, size):
        rows = slice(t, t + size)
        i = np.arange(S - T, S)[rows, None]
        for a in range(0, S, size):
            cols = slice(a, a + size)
            s = q[rows] @ k[cols].T / np.sqrt(D)
            p = np.where(np.arange(S)[cols] <= i, np.exp(s - lse[rows, None]), 0)
            dp = do[rows] @ v[cols].T
            ds = p * (dp - (p * dp).sum(1, keepdims=True)) / np.sqrt(D)
            dq[rows] += ds @ k[cols]
            dk[cols] += ds.T @ q[rows]
            dv[cols] += p.T @ do[rows]
    return dq, dk, dv

# %% wrong flash-5 each weight by itself
# You differentiate each weight alone: p (1 - p). In a softmax a score moves the other weights of
# its row, too.
def backward(q, k, v, o, lse, do, size):
    (T, D), S = q.shape, len(k)
    dq, dk, dv = np.zeros(q.shape), np.zeros(k.shape), np.zeros(v.shape)
    for t in range(0, T, size):
        rows = slice(t, t + size)
        i = np.arange(S - T, S)[rows, None]
        for a in range(0, S, size):
            cols = slice(a, a + size)
            s = q[rows] @ k[cols].T / np.sqrt(D)
            p = np.where(np.arange(S)[cols] <= i, np.exp(s - lse[rows, None]), 0)
            ds = p * (1 - p) * (do[rows] @ v[cols].T) / np.sqrt(D)
            dq[rows] += ds @ k[cols]
            dk[cols] += ds.T @ q[rows]
            dv[cols] += p.T @ do[rows]
    return dq, dk, dv

# %% wrong flash-5 the scale is lost on the way back
# Your gradients lack the scale. The scores were divided by √D on the way forward; the chain rule
# divides once more.
# Seen: fla-org/flash-linear-attention#47
def backward(q, k, v, o, lse, do, size):
    (T, D), S = q.shape, len(k)
    dq, dk, dv = np.zeros(q.shape), np.zeros(k.shape), np.zeros(v.shape)
    delta = (do * o).sum(1)
    for t in range(0, T, size):
        rows = slice(t, t + size)
        i = np.arange(S - T, S)[rows, None]
        for a in range(0, S, size):
            cols = slice(a, a + size)
            s = q[rows] @ k[cols].T / np.sqrt(D)
            p = np.where(np.arange(S)[cols] <= i, np.exp(s - lse[rows, None]), 0)
            ds = p * (do[rows] @ v[cols].T - delta[rows, None])
            dq[rows] += ds @ k[cols]
            dk[cols] += ds.T @ q[rows]
            dv[cols] += p.T @ do[rows]
    return dq, dk, dv

# %% wrong flash-5 dk is not scaled
# dq has its scale, dk has not. Both pass through the same scores.
# Seen: Dao-AILab/flash-attention#2651
def backward(q, k, v, o, lse, do, size):
    (T, D), S = q.shape, len(k)
    dq, dk, dv = np.zeros(q.shape), np.zeros(k.shape), np.zeros(v.shape)
    delta = (do * o).sum(1)
    for t in range(0, T, size):
        rows = slice(t, t + size)
        i = np.arange(S - T, S)[rows, None]
        for a in range(0, S, size):
            cols = slice(a, a + size)
            s = q[rows] @ k[cols].T / np.sqrt(D)
            p = np.where(np.arange(S)[cols] <= i, np.exp(s - lse[rows, None]), 0)
            ds = p * (do[rows] @ v[cols].T - delta[rows, None]) / np.sqrt(D)
            dq[rows] += ds @ k[cols]
            dk[cols] += ds.T @ q[rows] * np.sqrt(D)
            dv[cols] += p.T @ do[rows]
    return dq, dk, dv

# %% wrong flash-5 the mask is forgotten on the way back
# Future keys get a gradient. What was hidden on the way forward has the weight 0 on the way back,
# too.
# Seen: triton-lang/triton#4541
# Seen: triton-lang/triton#7216
def backward(q, k, v, o, lse, do, size):
    (T, D), S = q.shape, len(k)
    dq, dk, dv = np.zeros(q.shape), np.zeros(k.shape), np.zeros(v.shape)
    delta = (do * o).sum(1)
    for t in range(0, T, size):
        rows = slice(t, t + size)
        for a in range(0, S, size):
            cols = slice(a, a + size)
            s = q[rows] @ k[cols].T / np.sqrt(D)
            p = np.exp(s - lse[rows, None])
            ds = p * (do[rows] @ v[cols].T - delta[rows, None]) / np.sqrt(D)
            dq[rows] += ds @ k[cols]
            dk[cols] += ds.T @ q[rows]
            dv[cols] += p.T @ do[rows]
    return dq, dk, dv

# %% wrong flash-5 queries counted from 0
# Your queries stand at the beginning of the text. They are its last T positions, as they were on
# the way forward.
# Seen: NVIDIA/cutlass#2336
def backward(q, k, v, o, lse, do, size):
    (T, D), S = q.shape, len(k)
    dq, dk, dv = np.zeros(q.shape), np.zeros(k.shape), np.zeros(v.shape)
    delta = (do * o).sum(1)
    for t in range(0, T, size):
        rows = slice(t, t + size)
        i = np.arange(T)[rows, None]
        for a in range(0, S, size):
            cols = slice(a, a + size)
            s = q[rows] @ k[cols].T / np.sqrt(D)
            p = np.where(np.arange(S)[cols] <= i, np.exp(s - lse[rows, None]), 0)
            ds = p * (do[rows] @ v[cols].T - delta[rows, None]) / np.sqrt(D)
            dq[rows] += ds @ k[cols]
            dk[cols] += ds.T @ q[rows]
            dv[cols] += p.T @ do[rows]
    return dq, dk, dv

# %% wrong flash-5 a softmax in each tile
# You normalise the weights anew in every tile. The lse belongs to the whole row: with it a score
# becomes its weight at once.
def backward(q, k, v, o, lse, do, size):
    (T, D), S = q.shape, len(k)
    dq, dk, dv = np.zeros(q.shape), np.zeros(k.shape), np.zeros(v.shape)
    delta = (do * o).sum(1)
    for t in range(0, T, size):
        rows = slice(t, t + size)
        i = np.arange(S - T, S)[rows, None]
        for a in range(0, S, size):
            cols = slice(a, a + size)
            s = q[rows] @ k[cols].T / np.sqrt(D)
            s = np.where(np.arange(S)[cols] <= i, s, -np.inf)
            p = np.exp(s - np.maximum(s.max(1, keepdims=True), -1e300))
            p /= np.maximum(p.sum(1, keepdims=True), 1e-300)
            ds = p * (do[rows] @ v[cols].T - delta[rows, None]) / np.sqrt(D)
            dq[rows] += ds @ k[cols]
            dk[cols] += ds.T @ q[rows]
            dv[cols] += p.T @ do[rows]
    return dq, dk, dv

# %% wrong flash-5 weights that are not normalised
# You forgot the lse: exp(s) is no weight yet, and it overflows. What must be subtracted from a
# score so that the row sums to 1?
def backward(q, k, v, o, lse, do, size):
    (T, D), S = q.shape, len(k)
    dq, dk, dv = np.zeros(q.shape), np.zeros(k.shape), np.zeros(v.shape)
    delta = (do * o).sum(1)
    for t in range(0, T, size):
        rows = slice(t, t + size)
        i = np.arange(S - T, S)[rows, None]
        for a in range(0, S, size):
            cols = slice(a, a + size)
            s = q[rows] @ k[cols].T / np.sqrt(D)
            p = np.where(np.arange(S)[cols] <= i, np.exp(s), 0)
            ds = p * (do[rows] @ v[cols].T - delta[rows, None]) / np.sqrt(D)
            dq[rows] += ds @ k[cols]
            dk[cols] += ds.T @ q[rows]
            dv[cols] += p.T @ do[rows]
    return dq, dk, dv

# %% wrong flash-5 NaN from rows that saw nothing
# Rows that saw nothing spread NaN: their scores are -∞ and so is their lse. Decide after the
# exponential that their weights are 0.
# Seen: Dao-AILab/flash-attention#1947
# Seen: https://github.com/Dao-AILab/flash-attention/pull/978
def backward(q, k, v, o, lse, do, size):
    (T, D), S = q.shape, len(k)
    dq, dk, dv = np.zeros(q.shape), np.zeros(k.shape), np.zeros(v.shape)
    delta = (do * o).sum(1)
    for t in range(0, T, size):
        rows = slice(t, t + size)
        i = np.arange(S - T, S)[rows, None]
        for a in range(0, S, size):
            cols = slice(a, a + size)
            s = q[rows] @ k[cols].T / np.sqrt(D)
            p = np.exp(np.where(np.arange(S)[cols] <= i, s, -np.inf) - lse[rows, None])
            ds = p * (do[rows] @ v[cols].T - delta[rows, None]) / np.sqrt(D)
            dq[rows] += ds @ k[cols]
            dk[cols] += ds.T @ q[rows]
            dv[cols] += p.T @ do[rows]
    return dq, dk, dv

# %% wrong flash-5 the last tile of keys wins
# dq holds what the last tile of keys gave. Every tile of keys adds its part.
def backward(q, k, v, o, lse, do, size):
    (T, D), S = q.shape, len(k)
    dq, dk, dv = np.zeros(q.shape), np.zeros(k.shape), np.zeros(v.shape)
    delta = (do * o).sum(1)
    for t in range(0, T, size):
        rows = slice(t, t + size)
        i = np.arange(S - T, S)[rows, None]
        for a in range(0, S, size):
            cols = slice(a, a + size)
            s = q[rows] @ k[cols].T / np.sqrt(D)
            p = np.where(np.arange(S)[cols] <= i, np.exp(s - lse[rows, None]), 0)
            ds = p * (do[rows] @ v[cols].T - delta[rows, None]) / np.sqrt(D)
            dq[rows] = ds @ k[cols]
            dk[cols] += ds.T @ q[rows]
            dv[cols] += p.T @ do[rows]
    return dq, dk, dv

# %% wrong flash-5 the last tile of queries wins
# dk and dv hold what the last tile of queries gave. Every tile of queries adds its part.
def backward(q, k, v, o, lse, do, size):
    (T, D), S = q.shape, len(k)
    dq, dk, dv = np.zeros(q.shape), np.zeros(k.shape), np.zeros(v.shape)
    delta = (do * o).sum(1)
    for t in range(0, T, size):
        rows = slice(t, t + size)
        i = np.arange(S - T, S)[rows, None]
        for a in range(0, S, size):
            cols = slice(a, a + size)
            s = q[rows] @ k[cols].T / np.sqrt(D)
            p = np.where(np.arange(S)[cols] <= i, np.exp(s - lse[rows, None]), 0)
            ds = p * (do[rows] @ v[cols].T - delta[rows, None]) / np.sqrt(D)
            dq[rows] += ds @ k[cols]
            dk[cols] = ds.T @ q[rows]
            dv[cols] = p.T @ do[rows]
    return dq, dk, dv

# %% wrong flash-5 the last queries are lost
# Queries that do not fill a tile give no gradient. How many tiles hold all T of them?
def backward(q, k, v, o, lse, do, size):
    (T, D), S = q.shape, len(k)
    dq, dk, dv = np.zeros(q.shape), np.zeros(k.shape), np.zeros(v.shape)
    delta = (do * o).sum(1)
    for t in range(0, T // size * size, size):
        rows = slice(t, t + size)
        i = np.arange(S - T, S)[rows, None]
        for a in range(0, S, size):
            cols = slice(a, a + size)
            s = q[rows] @ k[cols].T / np.sqrt(D)
            p = np.where(np.arange(S)[cols] <= i, np.exp(s - lse[rows, None]), 0)
            ds = p * (do[rows] @ v[cols].T - delta[rows, None]) / np.sqrt(D)
            dq[rows] += ds @ k[cols]
            dk[cols] += ds.T @ q[rows]
            dv[cols] += p.T @ do[rows]
    return dq, dk, dv

# %% wrong flash-5 the whole matrix again
# You build all T × S weights at once: that is what the forward pass saved.
def backward(q, k, v, o, lse, do, size):
    (T, D), S = q.shape, len(k)
    seen = np.arange(S) <= np.arange(S - T, S)[:, None]
    p = np.where(seen, np.exp(q @ k.T / np.sqrt(D) - lse[:, None]), 0)
    ds = p * (do @ v.T - (do * o).sum(1, keepdims=True)) / np.sqrt(D)
    return ds @ k, ds.T @ q, p.T @ do

# %% [markdown]
# ## flash-6: The inner loop of a Triton kernel
#
# *flash-6 · 6 points · 15 minutes · ●●●○ difficulty 3 of 4*
#
# The same algorithm as a GPU would run it. Each *program* of the kernel below takes one tile of
# queries of one head past all keys: no mask this time, every query sees every key. The beginning
# and the end are given; **write the body of the loop**, which reads one tile of keys and values and
# updates `m`, `l` and `acc`.
#
# - Arrays lie in memory row after row: number `d` of row `n` of head `g` of the keys is at `k + (g
#   * S + n) * D + d`. Query head `h` reads key head `h // group`.
# - `size` and `width` are powers of 2, because Triton wants that. `D` numbers of a row are real,
#   the other `width - D` columns are not; nor are rows from `S` on. Load with a mask and `other=0`:
#   what lies outside belongs to somebody else. A key that isn't there needs more than that: its
#   score must be -∞, for exp(0) is 1.
# - `tl.dot(x, y, input_precision="ieee")` multiplies matrices as float32 should be; without the
#   last part a GPU rounds the inputs to 10 bits.
# - You need `tl.arange`, `tl.load`, `tl.trans`, `tl.dot`, `tl.where`, `tl.maximum`, `tl.max`,
#   `tl.exp` and `tl.sum`. They work as in NumPy; the axis is the second argument, and `x[:, None]`
#   adds an axis.
#
# The next cell runs a kernel in the interpreter, on the CPU. It puts NaN before and behind every
# array, so that a read out of bounds shows. (On a GPU it would give some number, or a crash.) Half
# of the points are for a case with all of it at once.
#
# Read first: *A Triton kernel, line by line* in [chapter 9](../book/09_flash.ipynb).
#
# <details>
# <summary>Hint 1 for flash-6: addresses are arrays</summary>
#
# Look how the queries are loaded: numbers of rows `[:, None]`, numbers of columns `[None, :]`, and
# a mask of the same shape. For the keys the rows begin at `start`. Which of the letters in their
# address differ from those of the queries?
#
# </details>
#
# <details>
# <summary>Hint 2 for flash-6: six lines of mathematics</summary>
#
# Scores; hide what isn't there; the new maximum; the factor that shrinks the old sums; the
# exponentials; then l and acc. All of them are rows of `size` numbers or tiles: see where an axis
# is missing.
#
# </details>

# %% setup
try:
    import torch
    import triton
    import triton.language as tl
    from triton.runtime.errors import InterpreterError
except ImportError:  # the other tasks don't need it
    triton = types.SimpleNamespace(jit=lambda kernel: kernel, missing=True)
    tl = types.SimpleNamespace(constexpr=None)


def run_kernel(kernel, q, k, v, size=16):
    """q [H, T, D], k and v [Hk, S, D] -> o [H, T, D], lse [H, T], as NumPy arrays."""
    if hasattr(triton, "missing"):
        raise RuntimeError(
            "flash-6 needs the packages torch and triton; Triton exists for Linux: "
            "do this task on Linux or on Colab, the others work without it"
        )
    (H, T, D), (Hk, S, _) = q.shape, k.shape
    q, k, v = (fenced(x) for x in (q, k, v))
    o, lse = (fenced(np.full(shape, np.nan)) for shape in ((H, T, D), (H, T)))
    width = triton.next_power_of_2(D)
    programs = triton.cdiv(T, size), H
    try:
        kernel[programs](q, k, v, o, lse, T, S, H // Hk, D**-0.5, D, width, size)
    except InterpreterError as error:
        raise error.__cause__ from None
    return o.numpy(), lse.numpy()


def fenced(x):
    """A float32 tensor of the numbers in x, with NaN before and behind it in memory."""
    memory = torch.full((x.size + 2**18,), torch.nan)
    memory[2**17 : 2**17 + x.size] = torch.from_numpy(x.ravel())
    return memory[2**17 : 2**17 + x.size].view(x.shape)

# %% answer flash-6 points=6 minutes=15 difficulty=3 seeds=3 forbid=attnlearn
@triton.jit
def kernel(
    q, k, v, o, lse, T, S, group, scale,
    D: tl.constexpr, width: tl.constexpr, size: tl.constexpr,
):
    """`size` queries of one head: their o [T, D] and lse [T]."""
    h = tl.program_id(1)
    rows = tl.program_id(0) * size + tl.arange(0, size)
    d = tl.arange(0, width)
    q_at = (h * T + rows)[:, None] * D + d[None, :]
    q_in = (rows < T)[:, None] & (d < D)[None, :]
    q_tile = tl.load(q + q_at, mask=q_in, other=0)
    m = tl.full([size], float("-inf"), tl.float32)
    l = tl.zeros([size], tl.float32)
    acc = tl.zeros([size, width], tl.float32)
    for start in range(0, S, size):
        # BEGIN SOLUTION
        cols = start + tl.arange(0, size)
        at = (h // group * S + cols)[:, None] * D + d[None, :]
        here = (cols < S)[:, None] & (d < D)[None, :]
        k_tile = tl.load(k + at, mask=here, other=0)
        v_tile = tl.load(v + at, mask=here, other=0)
        s = tl.dot(q_tile, tl.trans(k_tile), input_precision="ieee") * scale
        s = tl.where((cols < S)[None, :], s, float("-inf"))
        top = tl.maximum(m, tl.max(s, 1))
        old, p = tl.exp(m - top), tl.exp(s - top[:, None])
        l = l * old + tl.sum(p, 1)
        acc = acc * old[:, None] + tl.dot(p, v_tile, input_precision="ieee")
        m = top
        # END SOLUTION
    # All keys have passed by.
    tl.store(o + q_at, acc / l[:, None], mask=q_in)
    tl.store(lse + h * T + rows, m + tl.log(l), mask=rows < T)

# %% check flash-6
case = check("flash-6", rtol=1e-4, atol=1e-5)


def _heads(rng, H, Hk, T, S, D=16):
    q = rng.normal(size=(H, T, D))
    k, v = rng.normal(size=(2, Hk, S, D))
    q[..., 0], k[..., 0] = 4, np.arange(S) / 4  # newer keys have larger scores
    return q, k, v


def _run(q, k, v):
    o, lse = run_kernel(kernel, q, k, v)
    return {"o": o, "lse": lse}


case("one head, one whole tile", lambda rng: _run(*_heads(rng, 1, 1, 2, 16)))
case("two tiles of keys", lambda rng: _run(*_heads(rng, 1, 1, 2, 32)))
case("9 keys of 16", lambda rng: _run(*_heads(rng, 1, 1, 2, 9)))
case("heads of width 24", lambda rng: _run(*_heads(rng, 2, 2, 1, 16, 24)))
case("4 query heads, 2 key heads", lambda rng: _run(*_heads(rng, 4, 2, 1, 16)))


@case("scores near 300 and near -300")
def _(rng):
    q, k, v = _heads(rng, 1, 1, 2, 32)
    q[..., 0], k[..., 0] = [300, -300], 4
    return _run(q, k, v)


@case("all of it at once", weight=7)
def _(rng):
    q, k, v = _heads(rng, 4, 2, 2, 21, 24)
    q[:, :2, 0] = [300, -300]
    return _run(q, k, v)

# %% hidden flash-6
case = check("flash-6", rtol=1e-4, atol=1e-5)
case(
    "drawn lengths",
    lambda rng: _run(*_heads(rng, 1, 1, rng.randint(17, 20), rng.randint(3, 8), 24)),
)

# %% right flash-6 keys turned while they are loaded
@triton.jit
def kernel(
    q,
    k,
    v,
    o,
    lse,
    T,
    S,
    group,
    scale,
    D: tl.constexpr,
    width: tl.constexpr,
    size: tl.constexpr,
):
    h = tl.program_id(1)
    rows = tl.program_id(0) * size + tl.arange(0, size)
    d = tl.arange(0, width)
    q_at = (h * T + rows)[:, None] * D + d[None, :]
    q_in = (rows < T)[:, None] & (d < D)[None, :]
    q_tile = tl.load(q + q_at, mask=q_in, other=0)
    m = tl.full([size], float("-inf"), tl.float32)
    l = tl.zeros([size], tl.float32)
    acc = tl.zeros([size, width], tl.float32)
    for start in range(0, S, size):
        cols = start + tl.arange(0, size)
        n = (h // group) * S + cols
        there = cols < S
        k_turned = tl.load(k + n[None, :] * D + d[:, None], there[None, :] & (d < D)[:, None], 0.0)
        v_tile = tl.load(v + n[:, None] * D + d[None, :], there[:, None] & (d < D)[None, :], 0.0)
        s = tl.dot(q_tile * scale, k_turned, input_precision="ieee")
        s = tl.where((cols < S)[None, :], s, float("-inf"))
        top = tl.maximum(m, tl.max(s, 1))
        old, p = tl.exp(m - top), tl.exp(s - top[:, None])
        l = l * old + tl.sum(p, 1)
        acc = acc * old[:, None] + tl.dot(p, v_tile, input_precision="ieee")
        m = top
    # All keys have passed by.
    tl.store(o + q_at, acc / l[:, None], mask=q_in)
    tl.store(lse + h * T + rows, m + tl.log(l), mask=rows < T)

# %% right flash-6 powers of two inside, acc in the product
@triton.jit
def kernel(
    q,
    k,
    v,
    o,
    lse,
    T,
    S,
    group,
    scale,
    D: tl.constexpr,
    width: tl.constexpr,
    size: tl.constexpr,
):
    h = tl.program_id(1)
    rows = tl.program_id(0) * size + tl.arange(0, size)
    d = tl.arange(0, width)
    q_at = (h * T + rows)[:, None] * D + d[None, :]
    q_in = (rows < T)[:, None] & (d < D)[None, :]
    q_tile = tl.load(q + q_at, mask=q_in, other=0)
    m = tl.full([size], float("-inf"), tl.float32)
    l = tl.zeros([size], tl.float32)
    acc = tl.zeros([size, width], tl.float32)
    for start in range(0, S, size):
        cols = start + tl.arange(0, size)
        at = (h // group * S + cols)[:, None] * D + d[None, :]
        here = (cols < S)[:, None] & (d < D)[None, :]
        k_tile = tl.load(k + at, mask=here, other=0)
        v_tile = tl.load(v + at, mask=here, other=0)
        s = tl.dot(q_tile, tl.trans(k_tile), input_precision="ieee") * scale
        s += tl.where(cols < S, 0.0, float("-inf"))[None, :]
        top = tl.maximum(tl.max(s, axis=1), m)
        old = tl.exp2((m - top) * 1.4426950408889634)
        p = tl.exp2((s - top[:, None]) * 1.4426950408889634)
        l = tl.sum(p, axis=1) + l * old
        acc = tl.dot(p, v_tile, acc * old[:, None], input_precision="ieee")
        m = top
    # All keys have passed by.
    tl.store(o + q_at, acc / l[:, None], mask=q_in)
    tl.store(lse + h * T + rows, m + tl.log(l), mask=rows < T)

# %% wrong flash-6 every query head has keys of its own
# Your query head h reads key head h. There are fewer key heads than query heads, so you read what
# lies behind the keys: `group` query heads share one.
# Seen: https://github.com/NVIDIA/TensorRT-LLM/pull/6538
@triton.jit
def kernel(
    q,
    k,
    v,
    o,
    lse,
    T,
    S,
    group,
    scale,
    D: tl.constexpr,
    width: tl.constexpr,
    size: tl.constexpr,
):
    h = tl.program_id(1)
    rows = tl.program_id(0) * size + tl.arange(0, size)
    d = tl.arange(0, width)
    q_at = (h * T + rows)[:, None] * D + d[None, :]
    q_in = (rows < T)[:, None] & (d < D)[None, :]
    q_tile = tl.load(q + q_at, mask=q_in, other=0)
    m = tl.full([size], float("-inf"), tl.float32)
    l = tl.zeros([size], tl.float32)
    acc = tl.zeros([size, width], tl.float32)
    for start in range(0, S, size):
        cols = start + tl.arange(0, size)
        at = (h * S + cols)[:, None] * D + d[None, :]
        here = (cols < S)[:, None] & (d < D)[None, :]
        k_tile = tl.load(k + at, mask=here, other=0)
        v_tile = tl.load(v + at, mask=here, other=0)
        s = tl.dot(q_tile, tl.trans(k_tile), input_precision="ieee") * scale
        s = tl.where((cols < S)[None, :], s, float("-inf"))
        top = tl.maximum(m, tl.max(s, 1))
        old, p = tl.exp(m - top), tl.exp(s - top[:, None])
        l = l * old + tl.sum(p, 1)
        acc = acc * old[:, None] + tl.dot(p, v_tile, input_precision="ieee")
        m = top
    # All keys have passed by.
    tl.store(o + q_at, acc / l[:, None], mask=q_in)
    tl.store(lse + h * T + rows, m + tl.log(l), mask=rows < T)

# %% wrong flash-6 heads by the remainder
# You take the remainder of h. Neighbouring query heads share a key head: 0, 0, 1, 1.
# Seen: https://github.com/HazyResearch/HipKittens/pull/22
@triton.jit
def kernel(
    q,
    k,
    v,
    o,
    lse,
    T,
    S,
    group,
    scale,
    D: tl.constexpr,
    width: tl.constexpr,
    size: tl.constexpr,
):
    h = tl.program_id(1)
    rows = tl.program_id(0) * size + tl.arange(0, size)
    d = tl.arange(0, width)
    q_at = (h * T + rows)[:, None] * D + d[None, :]
    q_in = (rows < T)[:, None] & (d < D)[None, :]
    q_tile = tl.load(q + q_at, mask=q_in, other=0)
    m = tl.full([size], float("-inf"), tl.float32)
    l = tl.zeros([size], tl.float32)
    acc = tl.zeros([size, width], tl.float32)
    for start in range(0, S, size):
        cols = start + tl.arange(0, size)
        at = (h % group * S + cols)[:, None] * D + d[None, :]
        here = (cols < S)[:, None] & (d < D)[None, :]
        k_tile = tl.load(k + at, mask=here, other=0)
        v_tile = tl.load(v + at, mask=here, other=0)
        s = tl.dot(q_tile, tl.trans(k_tile), input_precision="ieee") * scale
        s = tl.where((cols < S)[None, :], s, float("-inf"))
        top = tl.maximum(m, tl.max(s, 1))
        old, p = tl.exp(m - top), tl.exp(s - top[:, None])
        l = l * old + tl.sum(p, 1)
        acc = acc * old[:, None] + tl.dot(p, v_tile, input_precision="ieee")
        m = top
    # All keys have passed by.
    tl.store(o + q_at, acc / l[:, None], mask=q_in)
    tl.store(lse + h * T + rows, m + tl.log(l), mask=rows < T)

# %% wrong flash-6 keys that are not there count
# A key that isn't there was loaded as zeros, and a score of 0 has the weight exp(0) = 1 before the
# division. Its score must be -∞.
# Seen: https://github.com/zml/zml/pull/563
@triton.jit
def kernel(
    q,
    k,
    v,
    o,
    lse,
    T,
    S,
    group,
    scale,
    D: tl.constexpr,
    width: tl.constexpr,
    size: tl.constexpr,
):
    h = tl.program_id(1)
    rows = tl.program_id(0) * size + tl.arange(0, size)
    d = tl.arange(0, width)
    q_at = (h * T + rows)[:, None] * D + d[None, :]
    q_in = (rows < T)[:, None] & (d < D)[None, :]
    q_tile = tl.load(q + q_at, mask=q_in, other=0)
    m = tl.full([size], float("-inf"), tl.float32)
    l = tl.zeros([size], tl.float32)
    acc = tl.zeros([size, width], tl.float32)
    for start in range(0, S, size):
        cols = start + tl.arange(0, size)
        at = (h // group * S + cols)[:, None] * D + d[None, :]
        here = (cols < S)[:, None] & (d < D)[None, :]
        k_tile = tl.load(k + at, mask=here, other=0)
        v_tile = tl.load(v + at, mask=here, other=0)
        s = tl.dot(q_tile, tl.trans(k_tile), input_precision="ieee") * scale
        top = tl.maximum(m, tl.max(s, 1))
        old, p = tl.exp(m - top), tl.exp(s - top[:, None])
        l = l * old + tl.sum(p, 1)
        acc = acc * old[:, None] + tl.dot(p, v_tile, input_precision="ieee")
        m = top
    # All keys have passed by.
    tl.store(o + q_at, acc / l[:, None], mask=q_in)
    tl.store(lse + h * T + rows, m + tl.log(l), mask=rows < T)

# %% wrong flash-6 values behind the array
# You hide the scores of keys that aren't there, but you load their values: 0 times NaN is NaN.
# Loads need a mask, too.
# Seen: Dao-AILab/flash-attention#1745
# Seen: flashinfer-ai/flashinfer#941
@triton.jit
def kernel(
    q,
    k,
    v,
    o,
    lse,
    T,
    S,
    group,
    scale,
    D: tl.constexpr,
    width: tl.constexpr,
    size: tl.constexpr,
):
    h = tl.program_id(1)
    rows = tl.program_id(0) * size + tl.arange(0, size)
    d = tl.arange(0, width)
    q_at = (h * T + rows)[:, None] * D + d[None, :]
    q_in = (rows < T)[:, None] & (d < D)[None, :]
    q_tile = tl.load(q + q_at, mask=q_in, other=0)
    m = tl.full([size], float("-inf"), tl.float32)
    l = tl.zeros([size], tl.float32)
    acc = tl.zeros([size, width], tl.float32)
    for start in range(0, S, size):
        cols = start + tl.arange(0, size)
        at = (h // group * S + cols)[:, None] * D + d[None, :]
        here = (cols < S)[:, None] & (d < D)[None, :]
        k_tile = tl.load(k + at, mask=here, other=0)
        v_tile = tl.load(v + at)
        s = tl.dot(q_tile, tl.trans(k_tile), input_precision="ieee") * scale
        s = tl.where((cols < S)[None, :], s, float("-inf"))
        top = tl.maximum(m, tl.max(s, 1))
        old, p = tl.exp(m - top), tl.exp(s - top[:, None])
        l = l * old + tl.sum(p, 1)
        acc = acc * old[:, None] + tl.dot(p, v_tile, input_precision="ieee")
        m = top
    # All keys have passed by.
    tl.store(o + q_at, acc / l[:, None], mask=q_in)
    tl.store(lse + h * T + rows, m + tl.log(l), mask=rows < T)

# %% wrong flash-6 columns behind the row
# You load `width` numbers of each row; only D belong to it. The last row reads what lies behind the
# array.
# Seen: https://github.com/fla-org/flash-linear-attention/pull/1165
# Seen: triton-lang/triton#621
@triton.jit
def kernel(
    q,
    k,
    v,
    o,
    lse,
    T,
    S,
    group,
    scale,
    D: tl.constexpr,
    width: tl.constexpr,
    size: tl.constexpr,
):
    h = tl.program_id(1)
    rows = tl.program_id(0) * size + tl.arange(0, size)
    d = tl.arange(0, width)
    q_at = (h * T + rows)[:, None] * D + d[None, :]
    q_in = (rows < T)[:, None] & (d < D)[None, :]
    q_tile = tl.load(q + q_at, mask=q_in, other=0)
    m = tl.full([size], float("-inf"), tl.float32)
    l = tl.zeros([size], tl.float32)
    acc = tl.zeros([size, width], tl.float32)
    for start in range(0, S, size):
        cols = start + tl.arange(0, size)
        at = (h // group * S + cols)[:, None] * D + d[None, :]
        here = (cols < S)[:, None] & (d < width)[None, :]
        k_tile = tl.load(k + at, mask=here, other=0)
        v_tile = tl.load(v + at, mask=here, other=0)
        s = tl.dot(q_tile, tl.trans(k_tile), input_precision="ieee") * scale
        s = tl.where((cols < S)[None, :], s, float("-inf"))
        top = tl.maximum(m, tl.max(s, 1))
        old, p = tl.exp(m - top), tl.exp(s - top[:, None])
        l = l * old + tl.sum(p, 1)
        acc = acc * old[:, None] + tl.dot(p, v_tile, input_precision="ieee")
        m = top
    # All keys have passed by.
    tl.store(o + q_at, acc / l[:, None], mask=q_in)
    tl.store(lse + h * T + rows, m + tl.log(l), mask=rows < T)

# %% wrong flash-6 rows as wide as the tile
# Your rows lie `width` numbers apart. In memory they have D numbers each; width is only what Triton
# computes with.
@triton.jit
def kernel(
    q,
    k,
    v,
    o,
    lse,
    T,
    S,
    group,
    scale,
    D: tl.constexpr,
    width: tl.constexpr,
    size: tl.constexpr,
):
    h = tl.program_id(1)
    rows = tl.program_id(0) * size + tl.arange(0, size)
    d = tl.arange(0, width)
    q_at = (h * T + rows)[:, None] * D + d[None, :]
    q_in = (rows < T)[:, None] & (d < D)[None, :]
    q_tile = tl.load(q + q_at, mask=q_in, other=0)
    m = tl.full([size], float("-inf"), tl.float32)
    l = tl.zeros([size], tl.float32)
    acc = tl.zeros([size, width], tl.float32)
    for start in range(0, S, size):
        cols = start + tl.arange(0, size)
        at = (h // group * S + cols)[:, None] * width + d[None, :]
        here = (cols < S)[:, None] & (d < D)[None, :]
        k_tile = tl.load(k + at, mask=here, other=0)
        v_tile = tl.load(v + at, mask=here, other=0)
        s = tl.dot(q_tile, tl.trans(k_tile), input_precision="ieee") * scale
        s = tl.where((cols < S)[None, :], s, float("-inf"))
        top = tl.maximum(m, tl.max(s, 1))
        old, p = tl.exp(m - top), tl.exp(s - top[:, None])
        l = l * old + tl.sum(p, 1)
        acc = acc * old[:, None] + tl.dot(p, v_tile, input_precision="ieee")
        m = top
    # All keys have passed by.
    tl.store(o + q_at, acc / l[:, None], mask=q_in)
    tl.store(lse + h * T + rows, m + tl.log(l), mask=rows < T)

# %% wrong flash-6 the same tile again and again
# You read the first tile of keys in every round. Where does the tile of this round begin?
@triton.jit
def kernel(
    q,
    k,
    v,
    o,
    lse,
    T,
    S,
    group,
    scale,
    D: tl.constexpr,
    width: tl.constexpr,
    size: tl.constexpr,
):
    h = tl.program_id(1)
    rows = tl.program_id(0) * size + tl.arange(0, size)
    d = tl.arange(0, width)
    q_at = (h * T + rows)[:, None] * D + d[None, :]
    q_in = (rows < T)[:, None] & (d < D)[None, :]
    q_tile = tl.load(q + q_at, mask=q_in, other=0)
    m = tl.full([size], float("-inf"), tl.float32)
    l = tl.zeros([size], tl.float32)
    acc = tl.zeros([size, width], tl.float32)
    for _ in range(0, S, size):
        cols = tl.arange(0, size)
        at = (h // group * S + cols)[:, None] * D + d[None, :]
        here = (cols < S)[:, None] & (d < D)[None, :]
        k_tile = tl.load(k + at, mask=here, other=0)
        v_tile = tl.load(v + at, mask=here, other=0)
        s = tl.dot(q_tile, tl.trans(k_tile), input_precision="ieee") * scale
        s = tl.where((cols < S)[None, :], s, float("-inf"))
        top = tl.maximum(m, tl.max(s, 1))
        old, p = tl.exp(m - top), tl.exp(s - top[:, None])
        l = l * old + tl.sum(p, 1)
        acc = acc * old[:, None] + tl.dot(p, v_tile, input_precision="ieee")
        m = top
    # All keys have passed by.
    tl.store(o + q_at, acc / l[:, None], mask=q_in)
    tl.store(lse + h * T + rows, m + tl.log(l), mask=rows < T)

# %% wrong flash-6 the old output is not rescaled
# Your acc keeps its old sum when the maximum rises. The factor that shrinks l belongs to acc, too.
@triton.jit
def kernel(
    q,
    k,
    v,
    o,
    lse,
    T,
    S,
    group,
    scale,
    D: tl.constexpr,
    width: tl.constexpr,
    size: tl.constexpr,
):
    h = tl.program_id(1)
    rows = tl.program_id(0) * size + tl.arange(0, size)
    d = tl.arange(0, width)
    q_at = (h * T + rows)[:, None] * D + d[None, :]
    q_in = (rows < T)[:, None] & (d < D)[None, :]
    q_tile = tl.load(q + q_at, mask=q_in, other=0)
    m = tl.full([size], float("-inf"), tl.float32)
    l = tl.zeros([size], tl.float32)
    acc = tl.zeros([size, width], tl.float32)
    for start in range(0, S, size):
        cols = start + tl.arange(0, size)
        at = (h // group * S + cols)[:, None] * D + d[None, :]
        here = (cols < S)[:, None] & (d < D)[None, :]
        k_tile = tl.load(k + at, mask=here, other=0)
        v_tile = tl.load(v + at, mask=here, other=0)
        s = tl.dot(q_tile, tl.trans(k_tile), input_precision="ieee") * scale
        s = tl.where((cols < S)[None, :], s, float("-inf"))
        top = tl.maximum(m, tl.max(s, 1))
        old, p = tl.exp(m - top), tl.exp(s - top[:, None])
        l = l * old + tl.sum(p, 1)
        acc = acc + tl.dot(p, v_tile, input_precision="ieee")
        m = top
    # All keys have passed by.
    tl.store(o + q_at, acc / l[:, None], mask=q_in)
    tl.store(lse + h * T + rows, m + tl.log(l), mask=rows < T)

# %% wrong flash-6 the old sum is not rescaled
# Your l keeps its old sum when the maximum rises. The factor that shrinks acc belongs to l, too.
@triton.jit
def kernel(
    q,
    k,
    v,
    o,
    lse,
    T,
    S,
    group,
    scale,
    D: tl.constexpr,
    width: tl.constexpr,
    size: tl.constexpr,
):
    h = tl.program_id(1)
    rows = tl.program_id(0) * size + tl.arange(0, size)
    d = tl.arange(0, width)
    q_at = (h * T + rows)[:, None] * D + d[None, :]
    q_in = (rows < T)[:, None] & (d < D)[None, :]
    q_tile = tl.load(q + q_at, mask=q_in, other=0)
    m = tl.full([size], float("-inf"), tl.float32)
    l = tl.zeros([size], tl.float32)
    acc = tl.zeros([size, width], tl.float32)
    for start in range(0, S, size):
        cols = start + tl.arange(0, size)
        at = (h // group * S + cols)[:, None] * D + d[None, :]
        here = (cols < S)[:, None] & (d < D)[None, :]
        k_tile = tl.load(k + at, mask=here, other=0)
        v_tile = tl.load(v + at, mask=here, other=0)
        s = tl.dot(q_tile, tl.trans(k_tile), input_precision="ieee") * scale
        s = tl.where((cols < S)[None, :], s, float("-inf"))
        top = tl.maximum(m, tl.max(s, 1))
        old, p = tl.exp(m - top), tl.exp(s - top[:, None])
        l = l + tl.sum(p, 1)
        acc = acc * old[:, None] + tl.dot(p, v_tile, input_precision="ieee")
        m = top
    # All keys have passed by.
    tl.store(o + q_at, acc / l[:, None], mask=q_in)
    tl.store(lse + h * T + rows, m + tl.log(l), mask=rows < T)

# %% wrong flash-6 the new maximum is not kept
# Your m never moves on from where it began, so each tile forgets the ones before it. The next round
# needs this round's maximum.
@triton.jit
def kernel(
    q,
    k,
    v,
    o,
    lse,
    T,
    S,
    group,
    scale,
    D: tl.constexpr,
    width: tl.constexpr,
    size: tl.constexpr,
):
    h = tl.program_id(1)
    rows = tl.program_id(0) * size + tl.arange(0, size)
    d = tl.arange(0, width)
    q_at = (h * T + rows)[:, None] * D + d[None, :]
    q_in = (rows < T)[:, None] & (d < D)[None, :]
    q_tile = tl.load(q + q_at, mask=q_in, other=0)
    m = tl.full([size], float("-inf"), tl.float32)
    l = tl.zeros([size], tl.float32)
    acc = tl.zeros([size, width], tl.float32)
    for start in range(0, S, size):
        cols = start + tl.arange(0, size)
        at = (h // group * S + cols)[:, None] * D + d[None, :]
        here = (cols < S)[:, None] & (d < D)[None, :]
        k_tile = tl.load(k + at, mask=here, other=0)
        v_tile = tl.load(v + at, mask=here, other=0)
        s = tl.dot(q_tile, tl.trans(k_tile), input_precision="ieee") * scale
        s = tl.where((cols < S)[None, :], s, float("-inf"))
        top = tl.maximum(m, tl.max(s, 1))
        old, p = tl.exp(m - top), tl.exp(s - top[:, None])
        l = l * old + tl.sum(p, 1)
        acc = acc * old[:, None] + tl.dot(p, v_tile, input_precision="ieee")
    # All keys have passed by.
    tl.store(o + q_at, acc / l[:, None], mask=q_in)
    tl.store(lse + h * T + rows, m + tl.log(l), mask=rows < T)

# %% wrong flash-6 the maximum of the tile alone
# Your maximum is that of the tile. If an earlier tile had a larger one, its factor is larger than
# 1, and may overflow.
@triton.jit
def kernel(
    q,
    k,
    v,
    o,
    lse,
    T,
    S,
    group,
    scale,
    D: tl.constexpr,
    width: tl.constexpr,
    size: tl.constexpr,
):
    h = tl.program_id(1)
    rows = tl.program_id(0) * size + tl.arange(0, size)
    d = tl.arange(0, width)
    q_at = (h * T + rows)[:, None] * D + d[None, :]
    q_in = (rows < T)[:, None] & (d < D)[None, :]
    q_tile = tl.load(q + q_at, mask=q_in, other=0)
    m = tl.full([size], float("-inf"), tl.float32)
    l = tl.zeros([size], tl.float32)
    acc = tl.zeros([size, width], tl.float32)
    for start in range(0, S, size):
        cols = start + tl.arange(0, size)
        at = (h // group * S + cols)[:, None] * D + d[None, :]
        here = (cols < S)[:, None] & (d < D)[None, :]
        k_tile = tl.load(k + at, mask=here, other=0)
        v_tile = tl.load(v + at, mask=here, other=0)
        s = tl.dot(q_tile, tl.trans(k_tile), input_precision="ieee") * scale
        s = tl.where((cols < S)[None, :], s, float("-inf"))
        top = tl.max(s, 1)
        old, p = tl.exp(m - top), tl.exp(s - top[:, None])
        l = l * old + tl.sum(p, 1)
        acc = acc * old[:, None] + tl.dot(p, v_tile, input_precision="ieee")
        m = top
    # All keys have passed by.
    tl.store(o + q_at, acc / l[:, None], mask=q_in)
    tl.store(lse + h * T + rows, m + tl.log(l), mask=rows < T)

# %% wrong flash-6 no maximum subtracted
# Your exponentials overflow or vanish. Subtract the largest score so far.
@triton.jit
def kernel(
    q,
    k,
    v,
    o,
    lse,
    T,
    S,
    group,
    scale,
    D: tl.constexpr,
    width: tl.constexpr,
    size: tl.constexpr,
):
    h = tl.program_id(1)
    rows = tl.program_id(0) * size + tl.arange(0, size)
    d = tl.arange(0, width)
    q_at = (h * T + rows)[:, None] * D + d[None, :]
    q_in = (rows < T)[:, None] & (d < D)[None, :]
    q_tile = tl.load(q + q_at, mask=q_in, other=0)
    m = tl.full([size], float("-inf"), tl.float32)
    l = tl.zeros([size], tl.float32)
    acc = tl.zeros([size, width], tl.float32)
    for start in range(0, S, size):
        cols = start + tl.arange(0, size)
        at = (h // group * S + cols)[:, None] * D + d[None, :]
        here = (cols < S)[:, None] & (d < D)[None, :]
        k_tile = tl.load(k + at, mask=here, other=0)
        v_tile = tl.load(v + at, mask=here, other=0)
        s = tl.dot(q_tile, tl.trans(k_tile), input_precision="ieee") * scale
        s = tl.where((cols < S)[None, :], s, float("-inf"))
        top = tl.zeros([size], tl.float32)
        old, p = top + 1, tl.exp(s)
        l = l * old + tl.sum(p, 1)
        acc = acc * old[:, None] + tl.dot(p, v_tile, input_precision="ieee")
        m = top
    # All keys have passed by.
    tl.store(o + q_at, acc / l[:, None], mask=q_in)
    tl.store(lse + h * T + rows, m + tl.log(l), mask=rows < T)

# %% wrong flash-6 the scale is lost
# Your scores are q · k. They should be multiplied by `scale`.
@triton.jit
def kernel(
    q,
    k,
    v,
    o,
    lse,
    T,
    S,
    group,
    scale,
    D: tl.constexpr,
    width: tl.constexpr,
    size: tl.constexpr,
):
    h = tl.program_id(1)
    rows = tl.program_id(0) * size + tl.arange(0, size)
    d = tl.arange(0, width)
    q_at = (h * T + rows)[:, None] * D + d[None, :]
    q_in = (rows < T)[:, None] & (d < D)[None, :]
    q_tile = tl.load(q + q_at, mask=q_in, other=0)
    m = tl.full([size], float("-inf"), tl.float32)
    l = tl.zeros([size], tl.float32)
    acc = tl.zeros([size, width], tl.float32)
    for start in range(0, S, size):
        cols = start + tl.arange(0, size)
        at = (h // group * S + cols)[:, None] * D + d[None, :]
        here = (cols < S)[:, None] & (d < D)[None, :]
        k_tile = tl.load(k + at, mask=here, other=0)
        v_tile = tl.load(v + at, mask=here, other=0)
        s = tl.dot(q_tile, tl.trans(k_tile), input_precision="ieee")
        s = tl.where((cols < S)[None, :], s, float("-inf"))
        top = tl.maximum(m, tl.max(s, 1))
        old, p = tl.exp(m - top), tl.exp(s - top[:, None])
        l = l * old + tl.sum(p, 1)
        acc = acc * old[:, None] + tl.dot(p, v_tile, input_precision="ieee")
        m = top
    # All keys have passed by.
    tl.store(o + q_at, acc / l[:, None], mask=q_in)
    tl.store(lse + h * T + rows, m + tl.log(l), mask=rows < T)

# %% wrong flash-6 powers of two in place of exponentials
# You take 2ˣ for eˣ. Kernels do so because hardware has a fast 2ˣ, but then they multiply the
# scores by log₂ e first.
@triton.jit
def kernel(
    q,
    k,
    v,
    o,
    lse,
    T,
    S,
    group,
    scale,
    D: tl.constexpr,
    width: tl.constexpr,
    size: tl.constexpr,
):
    h = tl.program_id(1)
    rows = tl.program_id(0) * size + tl.arange(0, size)
    d = tl.arange(0, width)
    q_at = (h * T + rows)[:, None] * D + d[None, :]
    q_in = (rows < T)[:, None] & (d < D)[None, :]
    q_tile = tl.load(q + q_at, mask=q_in, other=0)
    m = tl.full([size], float("-inf"), tl.float32)
    l = tl.zeros([size], tl.float32)
    acc = tl.zeros([size, width], tl.float32)
    for start in range(0, S, size):
        cols = start + tl.arange(0, size)
        at = (h // group * S + cols)[:, None] * D + d[None, :]
        here = (cols < S)[:, None] & (d < D)[None, :]
        k_tile = tl.load(k + at, mask=here, other=0)
        v_tile = tl.load(v + at, mask=here, other=0)
        s = tl.dot(q_tile, tl.trans(k_tile), input_precision="ieee") * scale
        s = tl.where((cols < S)[None, :], s, float("-inf"))
        top = tl.maximum(m, tl.max(s, 1))
        old, p = tl.exp2(m - top), tl.exp2(s - top[:, None])
        l = l * old + tl.sum(p, 1)
        acc = acc * old[:, None] + tl.dot(p, v_tile, input_precision="ieee")
        m = top
    # All keys have passed by.
    tl.store(o + q_at, acc / l[:, None], mask=q_in)
    tl.store(lse + h * T + rows, m + tl.log(l), mask=rows < T)

# %% wrong flash-6 nothing is rescaled
# Neither your l nor your acc shrinks when the maximum rises. What was summed before was measured
# against the old maximum.
@triton.jit
def kernel(
    q, k, v, o, lse, T, S, group, scale,
    D: tl.constexpr, width: tl.constexpr, size: tl.constexpr,
):
    h = tl.program_id(1)
    rows = tl.program_id(0) * size + tl.arange(0, size)
    d = tl.arange(0, width)
    q_at = (h * T + rows)[:, None] * D + d[None, :]
    q_in = (rows < T)[:, None] & (d < D)[None, :]
    q_tile = tl.load(q + q_at, mask=q_in, other=0)
    m = tl.full([size], float("-inf"), tl.float32)
    l = tl.zeros([size], tl.float32)
    acc = tl.zeros([size, width], tl.float32)
    for start in range(0, S, size):
        cols = start + tl.arange(0, size)
        at = (h // group * S + cols)[:, None] * D + d[None, :]
        here = (cols < S)[:, None] & (d < D)[None, :]
        k_tile = tl.load(k + at, mask=here, other=0)
        v_tile = tl.load(v + at, mask=here, other=0)
        s = tl.dot(q_tile, tl.trans(k_tile), input_precision="ieee") * scale
        s = tl.where((cols < S)[None, :], s, float("-inf"))
        top = tl.maximum(m, tl.max(s, 1))
        p = tl.exp(s - top[:, None])
        l = l + tl.sum(p, 1)
        acc = acc + tl.dot(p, v_tile, input_precision="ieee")
        m = top
    # All keys have passed by.
    tl.store(o + q_at, acc / l[:, None], mask=q_in)
    tl.store(lse + h * T + rows, m + tl.log(l), mask=rows < T)


# %% wrong flash-6 the maximum over the queries
# Your maximum runs over the queries of the tile, not over its keys. With a square tile nothing
# breaks: which axis of the scores belongs to the keys?
@triton.jit
def kernel(
    q, k, v, o, lse, T, S, group, scale,
    D: tl.constexpr, width: tl.constexpr, size: tl.constexpr,
):
    h = tl.program_id(1)
    rows = tl.program_id(0) * size + tl.arange(0, size)
    d = tl.arange(0, width)
    q_at = (h * T + rows)[:, None] * D + d[None, :]
    q_in = (rows < T)[:, None] & (d < D)[None, :]
    q_tile = tl.load(q + q_at, mask=q_in, other=0)
    m = tl.full([size], float("-inf"), tl.float32)
    l = tl.zeros([size], tl.float32)
    acc = tl.zeros([size, width], tl.float32)
    for start in range(0, S, size):
        cols = start + tl.arange(0, size)
        at = (h // group * S + cols)[:, None] * D + d[None, :]
        here = (cols < S)[:, None] & (d < D)[None, :]
        k_tile = tl.load(k + at, mask=here, other=0)
        v_tile = tl.load(v + at, mask=here, other=0)
        s = tl.dot(q_tile, tl.trans(k_tile), input_precision="ieee") * scale
        s = tl.where((cols < S)[None, :], s, float("-inf"))
        top = tl.maximum(m, tl.max(s, 0))
        old, p = tl.exp(m - top), tl.exp(s - top[:, None])
        l = l * old + tl.sum(p, 1)
        acc = acc * old[:, None] + tl.dot(p, v_tile, input_precision="ieee")
        m = top
    # All keys have passed by.
    tl.store(o + q_at, acc / l[:, None], mask=q_in)
    tl.store(lse + h * T + rows, m + tl.log(l), mask=rows < T)


# %% wrong flash-6 the sum over the queries
# Your sum runs over the queries of the tile, not over its keys. With a square tile nothing breaks:
# which axis of the weights belongs to the keys?
@triton.jit
def kernel(
    q, k, v, o, lse, T, S, group, scale,
    D: tl.constexpr, width: tl.constexpr, size: tl.constexpr,
):
    h = tl.program_id(1)
    rows = tl.program_id(0) * size + tl.arange(0, size)
    d = tl.arange(0, width)
    q_at = (h * T + rows)[:, None] * D + d[None, :]
    q_in = (rows < T)[:, None] & (d < D)[None, :]
    q_tile = tl.load(q + q_at, mask=q_in, other=0)
    m = tl.full([size], float("-inf"), tl.float32)
    l = tl.zeros([size], tl.float32)
    acc = tl.zeros([size, width], tl.float32)
    for start in range(0, S, size):
        cols = start + tl.arange(0, size)
        at = (h // group * S + cols)[:, None] * D + d[None, :]
        here = (cols < S)[:, None] & (d < D)[None, :]
        k_tile = tl.load(k + at, mask=here, other=0)
        v_tile = tl.load(v + at, mask=here, other=0)
        s = tl.dot(q_tile, tl.trans(k_tile), input_precision="ieee") * scale
        s = tl.where((cols < S)[None, :], s, float("-inf"))
        top = tl.maximum(m, tl.max(s, 1))
        old, p = tl.exp(m - top), tl.exp(s - top[:, None])
        l = l * old + tl.sum(p, 0)
        acc = acc * old[:, None] + tl.dot(p, v_tile, input_precision="ieee")
        m = top
    # All keys have passed by.
    tl.store(o + q_at, acc / l[:, None], mask=q_in)
    tl.store(lse + h * T + rows, m + tl.log(l), mask=rows < T)


# %% wrong flash-6 heads as long as the queries
# Your key heads lie T rows apart. A head of the keys has S rows.
@triton.jit
def kernel(
    q, k, v, o, lse, T, S, group, scale,
    D: tl.constexpr, width: tl.constexpr, size: tl.constexpr,
):
    h = tl.program_id(1)
    rows = tl.program_id(0) * size + tl.arange(0, size)
    d = tl.arange(0, width)
    q_at = (h * T + rows)[:, None] * D + d[None, :]
    q_in = (rows < T)[:, None] & (d < D)[None, :]
    q_tile = tl.load(q + q_at, mask=q_in, other=0)
    m = tl.full([size], float("-inf"), tl.float32)
    l = tl.zeros([size], tl.float32)
    acc = tl.zeros([size, width], tl.float32)
    for start in range(0, S, size):
        cols = start + tl.arange(0, size)
        at = (h // group * T + cols)[:, None] * D + d[None, :]
        here = (cols < S)[:, None] & (d < D)[None, :]
        k_tile = tl.load(k + at, mask=here, other=0)
        v_tile = tl.load(v + at, mask=here, other=0)
        s = tl.dot(q_tile, tl.trans(k_tile), input_precision="ieee") * scale
        s = tl.where((cols < S)[None, :], s, float("-inf"))
        top = tl.maximum(m, tl.max(s, 1))
        old, p = tl.exp(m - top), tl.exp(s - top[:, None])
        l = l * old + tl.sum(p, 1)
        acc = acc * old[:, None] + tl.dot(p, v_tile, input_precision="ieee")
        m = top
    # All keys have passed by.
    tl.store(o + q_at, acc / l[:, None], mask=q_in)
    tl.store(lse + h * T + rows, m + tl.log(l), mask=rows < T)


# %% wrong flash-6 scaled twice
# Your scores are multiplied by `scale` twice. Once is enough.
@triton.jit
def kernel(
    q, k, v, o, lse, T, S, group, scale,
    D: tl.constexpr, width: tl.constexpr, size: tl.constexpr,
):
    h = tl.program_id(1)
    rows = tl.program_id(0) * size + tl.arange(0, size)
    d = tl.arange(0, width)
    q_at = (h * T + rows)[:, None] * D + d[None, :]
    q_in = (rows < T)[:, None] & (d < D)[None, :]
    q_tile = tl.load(q + q_at, mask=q_in, other=0)
    m = tl.full([size], float("-inf"), tl.float32)
    l = tl.zeros([size], tl.float32)
    acc = tl.zeros([size, width], tl.float32)
    for start in range(0, S, size):
        cols = start + tl.arange(0, size)
        at = (h // group * S + cols)[:, None] * D + d[None, :]
        here = (cols < S)[:, None] & (d < D)[None, :]
        k_tile = tl.load(k + at, mask=here, other=0)
        v_tile = tl.load(v + at, mask=here, other=0)
        s = tl.dot(q_tile, tl.trans(k_tile), input_precision="ieee") * scale * scale
        s = tl.where((cols < S)[None, :], s, float("-inf"))
        top = tl.maximum(m, tl.max(s, 1))
        old, p = tl.exp(m - top), tl.exp(s - top[:, None])
        l = l * old + tl.sum(p, 1)
        acc = acc * old[:, None] + tl.dot(p, v_tile, input_precision="ieee")
        m = top
    # All keys have passed by.
    tl.store(o + q_at, acc / l[:, None], mask=q_in)
    tl.store(lse + h * T + rows, m + tl.log(l), mask=rows < T)


# %% [markdown]
# ## flash-7: Write the check
#
# *flash-7 · 4 points · 10 minutes · ●●●○ difficulty 3 of 4*
#
# Now the other side: write `accepts(merge)`. It gets a *function* that somebody else wrote for
# flash-2, `merge(o1, lse1, o2, lse2)` for float arrays `o1`, `o2` `[..., T, E]` and `lse1`, `lse2`
# `[..., T]`. Return `True` if it keeps all promises of flash-2, `False` if not.
#
# - Right functions differ in the last digits: accept them all.
# - A function that raises an error is wrong: return `False`, don't let the error through.
# - Judge only by calling it, with arrays that you choose.
#
# Remember what was promised: any number of axes, parts that saw nothing, an lse from -10,000 to
# 10,000, and inputs that stay as they are.
#
# **A miniature.** A function that returns the mean of the two outputs is right whenever both parts
# have the same lse. A check that splits a row into equal halves of equal keys can't see it.
#
# The check cell hands you one right and one wrong function at a time: you need both verdicts. Half
# of the points are for judging all of them rightly.
#
# Read first: *The merge rule* in [chapter 9](../book/09_flash.ipynb).
#
# <details>
# <summary>Hint 1 for flash-7: what to compare with</summary>
#
# You need no merge of your own. Attend to a row of scores in one piece, then to its two parts, each
# with a plain softmax: what must the merge of the parts be?
#
# </details>
#
# <details>
# <summary>Hint 2 for flash-7: choose your rows</summary>
#
# One row for each promise: scores that are moderate; the same plus 9,000 and minus 9,000; a left
# part, a right part, and both parts that saw nothing. Sizes that are equal hide a wrong axis.
#
# </details>

# %% answer flash-7 points=4 minutes=10 difficulty=3 forbid=attnlearn
def accepts(merge):
    """True if merge(o1, lse1, o2, lse2) keeps its promises, False if not, or if it raises."""
    # BEGIN SOLUTION
    rng = np.random.default_rng(0)
    s, v = rng.normal(size=(2, 6, 7)), rng.normal(size=(7, 4))
    s[:, 1] += 9000
    s[:, 2] -= 9000
    s[:, 3:5, :3], s[:, 4:, 3:] = -np.inf, -np.inf

    def attend(s, v):
        m = np.maximum(s.max(-1, keepdims=True), -1e9)
        l = np.exp(s - m).sum(-1, keepdims=True)
        return np.exp(s - m) @ v / np.where(l == 0, 1, l), (m + np.log(l))[..., 0]

    parts = *attend(s[..., :3], v[:3]), *attend(s[..., 3:], v[3:])
    given = [part.copy() for part in parts]
    try:
        got = merge(*given)
        pairs = zip(got, attend(s, v), strict=True)
        right = [np.shape(x) == y.shape and np.allclose(x, y) for x, y in pairs]
    except Exception:
        return False
    return all(right) and all(map(np.array_equal, given, parts))
    # END SOLUTION

# %% check flash-7
case = check("flash-7")


def _right(o1, lse1, o2, lse2):
    lse = np.logaddexp(lse1, lse2)
    safe = np.where(lse == -np.inf, 0, lse)
    return o1 * np.exp(lse1 - safe)[..., None] + o2 * np.exp(lse2 - safe)[..., None], lse


def _right_too(o1, lse1, o2, lse2):
    m = np.maximum(np.maximum(lse1, lse2), -1e300)
    w1, w2 = np.exp(lse1 - m)[..., None], np.exp(lse2 - m)[..., None]
    return (o1 * w1 + o2 * w2) / np.maximum(w1 + w2, 1e-300), m + np.log((w1 + w2)[..., 0])


def _mean(o1, lse1, o2, lse2):
    return (o1 + o2) / 2, _right(o1, lse1, o2, lse2)[1]


def _lse_added(o1, lse1, o2, lse2):
    return _right(o1, lse1, o2, lse2)[0], lse1 + lse2


def _exchanged(o1, lse1, o2, lse2):
    return _right(o2, lse1, o1, lse2)


def _base_two(o1, lse1, o2, lse2):
    o, lse = _right(o1, lse1 * np.log(2), o2, lse2 * np.log(2))
    return o, lse / np.log(2)


def _overflow(o1, lse1, o2, lse2):
    w1, w2 = np.exp(lse1)[..., None], np.exp(lse2)[..., None]
    return (o1 * w1 + o2 * w2) / np.where(w1 + w2, w1 + w2, 1), np.log((w1 + w2)[..., 0])


def _at_least_0(o1, lse1, o2, lse2):
    m = np.maximum(np.maximum(lse1, lse2), 0)
    w1, w2 = np.exp(lse1 - m)[..., None], np.exp(lse2 - m)[..., None]
    return (o1 * w1 + o2 * w2) / np.where(w1 + w2, w1 + w2, 1), m + np.log((w1 + w2)[..., 0])


def _nan_for_nothing(o1, lse1, o2, lse2):
    m = np.maximum(lse1, lse2)
    return _right(o1, lse1 - m, o2, lse2 - m)[0], m + _right(o1, lse1 - m, o2, lse2 - m)[1]


def _zero_for_nothing(o1, lse1, o2, lse2):
    o, lse = _right(o1, lse1, o2, lse2)
    return o, np.where(lse == -np.inf, 0, lse)


def _needs_both(o1, lse1, o2, lse2):
    o, lse = _right(o1, lse1, o2, lse2)
    both = np.isfinite(lse1) & np.isfinite(lse2)
    return np.where(both[..., None], o, 0), np.where(both, lse, -np.inf)


def _written_over(o1, lse1, o2, lse2):
    o, lse = _right(o1, lse1, o2, lse2)
    o1[...], lse1[...] = o, lse
    return o1, lse1


def _two_axes_only(o1, lse1, o2, lse2):
    if o1.ndim != 2:
        raise ValueError(f"o1 has {o1.ndim} axes")
    return _right(o1, lse1, o2, lse2)


def _verdict(merge):
    return accepts(lambda *parts: merge(*parts))  # a function without a name


def _verdicts(right, wrong):
    return {"the right function": _verdict(right), "the wrong function": _verdict(wrong)}


case("the mean", lambda: _verdicts(_right, _mean))
case("the two lse added", lambda: _verdicts(_right_too, _lse_added))
case("the weights exchanged", lambda: _verdicts(_right, _exchanged))
case("powers of two", lambda: _verdicts(_right_too, _base_two))
case("no maximum subtracted", lambda: _verdicts(_right, _overflow))
case("a maximum of at least 0", lambda: _verdicts(_right_too, _at_least_0))
case("NaN where both saw nothing", lambda: _verdicts(_right_too, _nan_for_nothing))
case("an lse of 0 for nothing", lambda: _verdicts(_right, _zero_for_nothing))
case("nothing where one saw nothing", lambda: _verdicts(_right_too, _needs_both))
case("written over its inputs", lambda: _verdicts(_right, _written_over))
case("an error for more axes", lambda: _verdicts(_right_too, _two_axes_only))


@case("all of them together", weight=12)
def _():
    wrong = (_mean, _lse_added, _exchanged, _base_two, _overflow, _at_least_0)
    rest = (_nan_for_nothing, _zero_for_nothing, _needs_both, _written_over, _two_axes_only)
    functions = (_right, _right_too, *wrong, *rest)
    return {function.__name__: _verdict(function) for function in functions}

# %% hidden flash-7
case = check("flash-7")


def _larger_lse(o1, lse1, o2, lse2):
    return _right(o1, lse1, o2, lse2)[0], np.maximum(lse1, lse2)


def _winner(o1, lse1, o2, lse2):
    _, lse = _right(o1, lse1, o2, lse2)
    return np.where((lse1 > lse2)[..., None], o1, o2), lse


case("the larger lse", lambda: _verdicts(_right, _larger_lse))
case("the winner takes it all", lambda: _verdicts(_right_too, _winner))

# %% right flash-7 one promise after the other
def accepts(merge):
    def agree(a, b):
        kept = [x.copy() for x in (*a, *b)]
        o, lse = merge(*a, *b)
        w = np.exp([a[1] - np.logaddexp(a[1], b[1]), b[1] - np.logaddexp(a[1], b[1])])
        w = np.where(np.isnan(w), 0, w)[..., None]
        want = w[0] * kept[0] + w[1] * kept[2], np.logaddexp(kept[1], kept[3])
        return (
            all(np.array_equal(x, y) for x, y in zip(kept, (*a, *b), strict=True))
            and o.shape == want[0].shape
            and np.allclose(o, want[0])
            and np.allclose(lse, want[1])
        )

    nothing = np.zeros((3, 2)), np.full(3, -np.inf)
    rng = np.random.RandomState(3)
    some = [(rng.randn(*n, 2), rng.randn(*n)) for n in [(3,), (3,), (2, 1, 3), (2, 1, 3)]]
    far = [
        (o, lse + x) for (o, lse), x in zip(some[:2] * 2, [8000, 8000, -8000, -8000], strict=True)
    ]
    pairs = [
        some[:2],
        some[2:],
        far[:2],
        far[2:],
        (some[0], nothing),
        (nothing, some[1]),
        2 * (nothing,),
    ]
    try:
        return all(agree([x.copy() for x in a], [x.copy() for x in b]) for a, b in pairs)
    except Exception:
        return False

# %% right flash-7 by hand: weights 1/4 and 3/4
def accepts(merge):
    o1, o2 = np.array([[[4.0, 0]] * 5]), np.array([[[0, 8.0]] * 5])
    lse1 = np.array([[0, 9000, -9000, -np.inf, -np.inf]])
    lse2 = np.array([[0, 9000, -9000, 0, -np.inf]]) + np.log(3)
    o1[0, 3:] = o2[0, 4] = 0
    before = [x.copy() for x in (o1, lse1, o2, lse2)]
    try:
        o, lse = merge(o1, lse1, o2, lse2)
        back, _ = merge(o2.copy(), lse2.copy(), o1.copy(), lse1.copy())
    except Exception:
        return False
    want = [[[1, 6]] * 3 + [[0, 8], [0, 0]]]
    sums = [[np.log(4), 9000 + np.log(4), -9000 + np.log(4), np.log(3), -np.inf]]
    same = all(np.array_equal(x, y) for x, y in zip(before, (o1, lse1, o2, lse2), strict=True))
    return bool(
        same
        and np.allclose(o, want)
        and np.allclose(back, want)
        and np.allclose(lse, sums, rtol=1e-9)
    )

# %% wrong flash-7 parts that always saw something
# A function passes your check that breaks where a part saw nothing. Rows with an lse of -∞ are
# promised, too: in one part, and in both.
# Seen: https://github.com/vllm-project/vllm/pull/28181
# Seen: flashinfer-ai/flashinfer#4051
def accepts(merge):
    rng = np.random.default_rng(0)
    s, v = rng.normal(size=(2, 6, 7)), rng.normal(size=(7, 4))
    s[:, 1] += 9000
    s[:, 2] -= 9000

    def attend(s, v):
        m = np.maximum(s.max(-1, keepdims=True), -1e9)
        l = np.exp(s - m).sum(-1, keepdims=True)
        return np.exp(s - m) @ v / np.where(l == 0, 1, l), (m + np.log(l))[..., 0]

    parts = *attend(s[..., :3], v[:3]), *attend(s[..., 3:], v[3:])
    given = [part.copy() for part in parts]
    try:
        got = merge(*given)
        pairs = zip(got, attend(s, v), strict=True)
        right = [np.shape(x) == y.shape and np.allclose(x, y) for x, y in pairs]
    except Exception:
        return False
    return all(right) and all(map(np.array_equal, given, parts))

# %% wrong flash-7 never nothing in both parts
# A function passes your check that breaks where *both* parts saw nothing. One empty part is not the
# hardest case.
# Seen: https://github.com/vllm-project/vllm/pull/39148
def accepts(merge):
    rng = np.random.default_rng(0)
    s, v = rng.normal(size=(2, 6, 7)), rng.normal(size=(7, 4))
    s[:, 1] += 9000
    s[:, 2] -= 9000
    s[:, 3:4, :3], s[:, 4:, 3:] = -np.inf, -np.inf

    def attend(s, v):
        m = np.maximum(s.max(-1, keepdims=True), -1e9)
        l = np.exp(s - m).sum(-1, keepdims=True)
        return np.exp(s - m) @ v / np.where(l == 0, 1, l), (m + np.log(l))[..., 0]

    parts = *attend(s[..., :3], v[:3]), *attend(s[..., 3:], v[3:])
    given = [part.copy() for part in parts]
    try:
        got = merge(*given)
        pairs = zip(got, attend(s, v), strict=True)
        right = [np.shape(x) == y.shape and np.allclose(x, y) for x, y in pairs]
    except Exception:
        return False
    return all(right) and all(map(np.array_equal, given, parts))

# %% wrong flash-7 moderate scores only
# A function passes your check whose exponentials overflow. An lse may be anything from -10,000 to
# 10,000.
# Seen: https://github.com/zhuzilin/ring-flash-attention/pull/30
def accepts(merge):
    rng = np.random.default_rng(0)
    s, v = rng.normal(size=(2, 6, 7)), rng.normal(size=(7, 4))
    s[:, 3:5, :3], s[:, 4:, 3:] = -np.inf, -np.inf

    def attend(s, v):
        m = np.maximum(s.max(-1, keepdims=True), -1e9)
        l = np.exp(s - m).sum(-1, keepdims=True)
        return np.exp(s - m) @ v / np.where(l == 0, 1, l), (m + np.log(l))[..., 0]

    parts = *attend(s[..., :3], v[:3]), *attend(s[..., 3:], v[3:])
    given = [part.copy() for part in parts]
    try:
        got = merge(*given)
        pairs = zip(got, attend(s, v), strict=True)
        right = [np.shape(x) == y.shape and np.allclose(x, y) for x, y in pairs]
    except Exception:
        return False
    return all(right) and all(map(np.array_equal, given, parts))

# %% wrong flash-7 large scores, never small ones
# A function passes your check that subtracts at least 0. For an lse far below 0 all its weights
# vanish: large is not the only way to be far away.
# Seen: Dao-AILab/flash-attention#2082
# Seen: flashinfer-ai/flashinfer#4267
def accepts(merge):
    rng = np.random.default_rng(0)
    s, v = rng.normal(size=(2, 6, 7)), rng.normal(size=(7, 4))
    s[:, 1] += 9000
    s[:, 3:5, :3], s[:, 4:, 3:] = -np.inf, -np.inf

    def attend(s, v):
        m = np.maximum(s.max(-1, keepdims=True), -1e9)
        l = np.exp(s - m).sum(-1, keepdims=True)
        return np.exp(s - m) @ v / np.where(l == 0, 1, l), (m + np.log(l))[..., 0]

    parts = *attend(s[..., :3], v[:3]), *attend(s[..., 3:], v[3:])
    given = [part.copy() for part in parts]
    try:
        got = merge(*given)
        pairs = zip(got, attend(s, v), strict=True)
        right = [np.shape(x) == y.shape and np.allclose(x, y) for x, y in pairs]
    except Exception:
        return False
    return all(right) and all(map(np.array_equal, given, parts))

# %% wrong flash-7 equal parts
# A mean passes your check, and so do exchanged weights. Two parts with the same lse have equal
# weights: nobody can see then how they were made.
def accepts(merge):
    v = np.random.default_rng(0).normal(size=(2, 6, 4))
    lse = np.array([0, 9000, -9000, -np.inf, 1, 2]) * np.ones((2, 1))
    o1, o2 = np.where((lse == -np.inf)[..., None], 0, [v, v[::-1]])
    parts = o1, lse, o2, lse
    given = [part.copy() for part in parts]
    try:
        o, new = merge(*given)
    except Exception:
        return False
    right = np.allclose(o, (o1 + o2) / 2) and np.allclose(new, lse + np.log(2))
    return right and all(map(np.array_equal, given, parts))

# %% wrong flash-7 only the output is compared
# Functions pass your check that return a wrong lse. The next merge depends on it: compare both
# results.
def accepts(merge):
    rng = np.random.default_rng(0)
    s, v = rng.normal(size=(2, 6, 7)), rng.normal(size=(7, 4))
    s[:, 1] += 9000
    s[:, 2] -= 9000
    s[:, 3:5, :3], s[:, 4:, 3:] = -np.inf, -np.inf

    def attend(s, v):
        m = np.maximum(s.max(-1, keepdims=True), -1e9)
        l = np.exp(s - m).sum(-1, keepdims=True)
        return np.exp(s - m) @ v / np.where(l == 0, 1, l), (m + np.log(l))[..., 0]

    parts = *attend(s[..., :3], v[:3]), *attend(s[..., 3:], v[3:])
    given = [part.copy() for part in parts]
    try:
        got = merge(*given)
        pairs = [(got[0], attend(s, v)[0])]
        right = [np.shape(x) == y.shape and np.allclose(x, y) for x, y in pairs]
    except Exception:
        return False
    return all(right) and all(map(np.array_equal, given, parts))

# %% wrong flash-7 only the lse is compared
# Functions pass your check that return a wrong output. The lse alone doesn't say how the outputs
# were weighed.
def accepts(merge):
    rng = np.random.default_rng(0)
    s, v = rng.normal(size=(2, 6, 7)), rng.normal(size=(7, 4))
    s[:, 1] += 9000
    s[:, 2] -= 9000
    s[:, 3:5, :3], s[:, 4:, 3:] = -np.inf, -np.inf

    def attend(s, v):
        m = np.maximum(s.max(-1, keepdims=True), -1e9)
        l = np.exp(s - m).sum(-1, keepdims=True)
        return np.exp(s - m) @ v / np.where(l == 0, 1, l), (m + np.log(l))[..., 0]

    parts = *attend(s[..., :3], v[:3]), *attend(s[..., 3:], v[3:])
    given = [part.copy() for part in parts]
    try:
        got = merge(*given)
        pairs = [(got[1], attend(s, v)[1])]
        right = [np.shape(x) == y.shape and np.allclose(x, y) for x, y in pairs]
    except Exception:
        return False
    return all(right) and all(map(np.array_equal, given, parts))

# %% wrong flash-7 only the shapes are compared
# Functions with wrong numbers pass your check, if only the shapes are right.
def accepts(merge):
    rng = np.random.default_rng(0)
    s, v = rng.normal(size=(2, 6, 7)), rng.normal(size=(7, 4))
    s[:, 1] += 9000
    s[:, 2] -= 9000
    s[:, 3:5, :3], s[:, 4:, 3:] = -np.inf, -np.inf

    def attend(s, v):
        m = np.maximum(s.max(-1, keepdims=True), -1e9)
        l = np.exp(s - m).sum(-1, keepdims=True)
        return np.exp(s - m) @ v / np.where(l == 0, 1, l), (m + np.log(l))[..., 0]

    parts = *attend(s[..., :3], v[:3]), *attend(s[..., 3:], v[3:])
    given = [part.copy() for part in parts]
    try:
        got = merge(*given)
        pairs = zip(got, attend(s, v), strict=True)
        right = [np.shape(x) == y.shape for x, y in pairs]
    except Exception:
        return False
    return all(right) and all(map(np.array_equal, given, parts))

# %% wrong flash-7 the inputs are not looked at afterwards
# A function passes your check that writes over its inputs. Keep copies, and look at what you handed
# over.
def accepts(merge):
    rng = np.random.default_rng(0)
    s, v = rng.normal(size=(2, 6, 7)), rng.normal(size=(7, 4))
    s[:, 1] += 9000
    s[:, 2] -= 9000
    s[:, 3:5, :3], s[:, 4:, 3:] = -np.inf, -np.inf

    def attend(s, v):
        m = np.maximum(s.max(-1, keepdims=True), -1e9)
        l = np.exp(s - m).sum(-1, keepdims=True)
        return np.exp(s - m) @ v / np.where(l == 0, 1, l), (m + np.log(l))[..., 0]

    parts = *attend(s[..., :3], v[:3]), *attend(s[..., 3:], v[3:])
    given = [part.copy() for part in parts]
    try:
        got = merge(*given)
        pairs = zip(got, attend(s, v), strict=True)
        right = [np.shape(x) == y.shape and np.allclose(x, y) for x, y in pairs]
    except Exception:
        return False
    return all(right)

# %% wrong flash-7 two axes only
# A function passes your check that knows no heads and no examples. `[..., T, E]` stands for any
# number of axes before T.
def accepts(merge):
    rng = np.random.default_rng(0)
    s, v = rng.normal(size=(6, 7)), rng.normal(size=(7, 4))
    s[1] += 9000
    s[2] -= 9000
    s[3:5, :3], s[4:, 3:] = -np.inf, -np.inf

    def attend(s, v):
        m = np.maximum(s.max(-1, keepdims=True), -1e9)
        l = np.exp(s - m).sum(-1, keepdims=True)
        return np.exp(s - m) @ v / np.where(l == 0, 1, l), (m + np.log(l))[..., 0]

    parts = *attend(s[..., :3], v[:3]), *attend(s[..., 3:], v[3:])
    given = [part.copy() for part in parts]
    try:
        got = merge(*given)
        pairs = zip(got, attend(s, v), strict=True)
        right = [np.shape(x) == y.shape and np.allclose(x, y) for x, y in pairs]
    except Exception:
        return False
    return all(right) and all(map(np.array_equal, given, parts))

# %% wrong flash-7 only the order is checked
# You check that both orders give the same. A mean does that, too: a property that wrong functions
# share proves little.
def accepts(merge):
    rng = np.random.default_rng(0)
    o1, o2, lse1, lse2 = *rng.normal(size=(2, 2, 5, 3)), *rng.normal(size=(2, 2, 5))
    try:
        forth = merge(*(x.copy() for x in (o1, lse1, o2, lse2)))
        back = merge(o2, lse2, o1, lse1)
        return bool(np.allclose(forth[0], back[0]) and np.allclose(forth[1], back[1]))
    except Exception:
        return False

# %% wrong flash-7 too wide a tolerance
# Functions pass your check whose first digit is wrong. Right functions agree to ten digits or more:
# how much does your comparison forgive?
def accepts(merge):
    rng = np.random.default_rng(0)
    s, v = rng.normal(size=(2, 6, 7)), rng.normal(size=(7, 4))
    s[:, 1] += 9000
    s[:, 2] -= 9000
    s[:, 3:5, :3], s[:, 4:, 3:] = -np.inf, -np.inf

    def attend(s, v):
        m = np.maximum(s.max(-1, keepdims=True), -1e9)
        l = np.exp(s - m).sum(-1, keepdims=True)
        return np.exp(s - m) @ v / np.where(l == 0, 1, l), (m + np.log(l))[..., 0]

    parts = *attend(s[..., :3], v[:3]), *attend(s[..., 3:], v[3:])
    given = [part.copy() for part in parts]
    try:
        got = merge(*given)
        pairs = zip(got, attend(s, v), strict=True)
        right = [np.shape(x) == y.shape and np.allclose(x, y, atol=0.8) for x, y in pairs]
    except Exception:
        return False
    return all(right) and all(map(np.array_equal, given, parts))

# %% wrong flash-7 the model answer has the same fault
# Right functions are rejected, and one that counts in powers of two is accepted. Is that what your
# own lse does?
# Seen: https://github.com/AMD-Ecosystem/flashinfer/pull/46
def accepts(merge):
    rng = np.random.default_rng(0)
    s, v = rng.normal(size=(2, 6, 7)), rng.normal(size=(7, 4))
    s[:, 1] += 9000
    s[:, 2] -= 9000
    s[:, 3:5, :3], s[:, 4:, 3:] = -np.inf, -np.inf

    def attend(s, v):
        m = np.maximum(s.max(-1, keepdims=True), -1e9)
        l = np.exp2(s - m).sum(-1, keepdims=True)
        return np.exp2(s - m) @ v / np.where(l == 0, 1, l), (m + np.log2(l))[..., 0]

    parts = *attend(s[..., :3], v[:3]), *attend(s[..., 3:], v[3:])
    given = [part.copy() for part in parts]
    try:
        got = merge(*given)
        pairs = zip(got, attend(s, v), strict=True)
        right = [np.shape(x) == y.shape and np.allclose(x, y) for x, y in pairs]
    except Exception:
        return False
    return all(right) and all(map(np.array_equal, given, parts))

# %% wrong flash-7 an error escapes
# When the function raises an error, so do you. A check gives its verdict: a function that breaks is
# wrong.
def accepts(merge):
    rng = np.random.default_rng(0)
    s, v = rng.normal(size=(2, 6, 7)), rng.normal(size=(7, 4))
    s[:, 1] += 9000
    s[:, 2] -= 9000
    s[:, 3:5, :3], s[:, 4:, 3:] = -np.inf, -np.inf

    def attend(s, v):
        m = np.maximum(s.max(-1, keepdims=True), -1e9)
        l = np.exp(s - m).sum(-1, keepdims=True)
        return np.exp(s - m) @ v / np.where(l == 0, 1, l), (m + np.log(l))[..., 0]

    parts = *attend(s[..., :3], v[:3]), *attend(s[..., 3:], v[3:])
    given = [part.copy() for part in parts]
    got = merge(*given)
    pairs = zip(got, attend(s, v), strict=True)
    right = [np.shape(x) == y.shape and np.allclose(x, y) for x, y in pairs]
    return all(right) and all(map(np.array_equal, given, parts))

# %% wrong flash-7 everything is accepted
# The functions of these cases are accepted, and half of them are wrong. A check proves something
# only if it can fail.
def accepts(merge):
    return True

# %% wrong flash-7 everything is rejected
# Right functions are rejected, too: two right ones may differ in the last digit. Run your check on
# a function that you trust before you use it on others.
def accepts(merge):
    return False

# %% [markdown]
# ## What to take along
#
# - A softmax needs two numbers of its row, the maximum and the sum. Both can be kept while keys
#   pass by, if what was summed shrinks whenever the maximum rises.
# - So flash attention is exact. It saves traffic and memory, not arithmetic.
# - Output and log-sum-exp are all that a part of the keys needs to tell the others.
# - The backward pass computes every weight again: p = exp(s - lse).
# - -∞ minus -∞ waits wherever a query may see nothing. A stand-in for it must not stay.
# - What lies outside an array must be neither counted nor multiplied, not even by 0.
#
# Back to [chapter 9](../book/09_flash.ipynb).
