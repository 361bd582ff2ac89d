# %% [markdown]
# # Exercises 1: the bookstore
#
# Seven tasks on [chapter 1, *Queries, keys and values in a bookstore*](../book/01_bookstore.ipynb).
# They climb from working out weights by hand to testing somebody else's lookup: predict, fill in,
# build, mend, and write a check of your own.
#
# | task | what you do | points | minutes | level |
# |---|---|---|---|---|
# | `bookstore-1` | predict weights and answers | 3 | 9 | 1 of 4 |
# | `bookstore-2` | a softmax for any scores | 4 | 10 | 2 of 4 |
# | `bookstore-3` | a soft lookup with a temperature | 6 | 15 | 3 of 4 |
# | `bookstore-4` | kernel regression, written as attention | 6 | 16 | 4 of 4 |
# | `bookstore-5` | mend a widely copied lookup | 4 | 12 | 2 of 4 |
# | `bookstore-6` | look up in a stream that passes once | 6 | 16 | 4 of 4 |
# | `bookstore-7` | write the check | 4 | 12 | 3 of 4 |
# | all | | 33 | 90 | |
#
# **How checking works.** Write your answer in place of the line `raise NotImplementedError`, run
# the cell, then run the check cell below it. The check calls your function and tells you which
# cases agree, where the first difference is, and, if it knows your mistake, its name and a hint.
# It calls your function as you last ran it: after every edit, **run the answer cell again** before
# the check. Some further cases run only when an instructor grades.
#
# **The letters.** `T` queries, `S` keys with one value each, `D` numbers per query and key, `E`
# numbers per value. A score is the dot product of a query and a key, without the scale of chapter
# 2; the softmax turns the scores of one query into weights; the answer is the weighted sum of the
# values. All you need is NumPy; please write the lookup yourself instead of calling `attnlearn`.

# %%
import importlib.util
import subprocess
import sys

if importlib.util.find_spec("attnlearn") is None:  # on Colab: once per session
    subprocess.run([sys.executable, "-m", "pip", "install", "-q", "attnlearn==0.1.0"], check=True)

# %% setup
import tracemalloc

import numpy as np

from attnlearn.exercise import check

# %% [markdown]
# ## bookstore-1: Predict weights and answers
#
# *bookstore-1 · 3 points · 9 minutes · ●○○○ difficulty 1 of 4*
#
# Work these out with pencil and paper, then write down plain numbers. Fractions such as `3 / 8`
# are welcome; three digits are enough.
#
# 1. `weights`: a query meets three books with the scores **0, ln 2 and ln 5**. Three weights.
# 2. `answer`: the same scores; the books cost **8, 16 and 24**. What price does the soft lookup
#    answer? One number.
# 3. `sharper`: two books with the scores **0 and ln 3**, at **temperature ½**. Two weights.
# 4. `limits`: three books with the scores **2, 5 and 5**; they cost **10, 20 and 60**. The answer
#    as the temperature goes to 0, then the answer as it grows without bound. Two numbers.
# 5. `possible`: three books cost **10, 20 and 60**; the temperature is 1 and you may choose three
#    scores as you like. Which of **−5, 12, 45 and 61** can be the answer? Four numbers, 1 for yes
#    and 0 for no.
#
# **A miniature.** Scores 0 and ln 4: the exponentials are 1 and 4, so the weights are 1/5 and 4/5.
# With the prices 10 and 20 the answer is 18.
#
# Half of the points are for having all five right together.
# Read first: *Three roles*, *A mix cannot leave the shelf* and *Temperature, and its two ends* in
# [chapter 1](../book/01_bookstore.ipynb).
#
# <details>
# <summary>Hint 1 for bookstore-1: from scores to shares</summary>
#
# The exponential undoes the logarithm. Once you have the exponentials, share out a weight of 1 in
# proportion to them.
#
# </details>
#
# <details>
# <summary>Hint 2 for bookstore-1: what a temperature does</summary>
#
# Every score is divided by it before the exponential. A low temperature stretches differences
# between scores, a high one shrinks them. What is left of a difference in the end?
#
# </details>


# %% answer bookstore-1 points=3 minutes=9 difficulty=1 forbid=attnlearn
def weights():
    """Scores 0, ln 2, ln 5: three weights."""
    # BEGIN SOLUTION
    return [1 / 8, 2 / 8, 5 / 8]
    # END SOLUTION


def answer():
    """The same scores, values 8, 16, 24: one number."""
    # BEGIN SOLUTION
    return 20
    # END SOLUTION


def sharper():
    """Scores 0, ln 3, temperature 1/2: two weights."""
    # BEGIN SOLUTION
    return [1 / 10, 9 / 10]
    # END SOLUTION


def limits():
    """Scores 2, 5, 5, values 10, 20, 60: the answers for temperature 0 and infinity."""
    # BEGIN SOLUTION
    return [40, 30]
    # END SOLUTION


def possible():
    """Values 10, 20, 60: can the answer be -5, 12, 45, 61? Four times 1 or 0."""
    # BEGIN SOLUTION
    return [0, 1, 1, 0]
    # END SOLUTION


# %% check bookstore-1
case = check("bookstore-1", rtol=2e-3, atol=6e-4)
case("weights", lambda: np.array(weights(), float))
case("answer", lambda: np.array(answer(), float))
case("sharper", lambda: np.array(sharper(), float))
case("limits", lambda: np.array(limits(), float))
case("possible", lambda: np.array(possible(), int))


@case("all five together", weight=5)
def _():
    five = (weights, answer, sharper, limits, possible)
    return np.concatenate([np.ravel(np.array(f(), float)) for f in five])


# %% right bookstore-1 computed
def _share(scores, temperature=1.0):
    shares = np.exp(np.array(scores) / temperature)
    return shares / shares.sum()


def weights():
    return _share(np.log([1, 2, 5]))


def answer():
    return weights() @ [8, 16, 24]


def sharper():
    return _share(np.log([1, 3]), 0.5)


def limits():
    return [np.mean([20, 60]), np.mean([10, 20, 60])]


def possible():
    return [10 < price < 60 for price in (-5, 12, 45, 61)]


# %% right bookstore-1 as decimals and tuples
def weights():
    return (0.125, 0.25, 0.625)


def answer():
    return (1 * 8 + 2 * 16 + 5 * 24) / 8


def sharper():
    return (0.1, 0.9)


def limits():
    return (40.0, 30.0)


def possible():
    return (False, True, True, False)


# %% wrong bookstore-1 divided by the sum of the raw scores
# You divide exponentials by the sum of the scores. The weights of a query sum to 1: check yours.
# Seen: rwitten/HighPerfLLMs2024#3
def weights():
    return np.array([1, 2, 5]) / np.log(10)


def answer():
    return 160 / np.log(10)


def sharper():
    return np.array([1, 9]) / (2 * np.log(3))


def limits():
    return [40, 30]


def possible():
    return [0, 1, 1, 0]


# %% wrong bookstore-1 not normalised
# You stopped at the exponentials. Weights share out 1: what do yours sum to?
def weights():
    return [1, 2, 5]


def answer():
    return 160


def sharper():
    return [1, 9]


def limits():
    return [40, 30]


def possible():
    return [0, 1, 1, 0]


# %% wrong bookstore-1 the scores themselves are shared out
# You share out the scores, without the exponential. Then a score of 0 never gets any weight, and a
# negative score would get a negative one.
def weights():
    return np.log([1, 2, 5]) / np.log(10)


def answer():
    return np.log([1, 2, 5]) @ [8, 16, 24] / np.log(10)


def sharper():
    return [0, 1]


def limits():
    return [40, 30]


def possible():
    return [0, 1, 1, 0]


# %% wrong bookstore-1 the best score takes all
# You give the whole weight to the book with the best score. That is a hard lookup; a soft one gives
# every book a share.
def weights():
    return [0, 0, 1]


def answer():
    return 24


def sharper():
    return [0, 1]


def limits():
    return [40, 40]


def possible():
    return [0, 0, 0, 0]


# %% wrong bookstore-1 divided by the number of values
# You divide the weighted sum by the number of books. The weights have already made a mean of it:
# what would the answer be if every book cost the same?
# Seen: cgpotts/cs224u#116
def weights():
    return [1 / 8, 2 / 8, 5 / 8]


def answer():
    return 20 / 3


def sharper():
    return [1 / 10, 9 / 10]


def limits():
    return [40, 30]


def possible():
    return [0, 1, 1, 0]


# %% wrong bookstore-1 the temperature multiplies
# Your temperature works the wrong way round: you multiply scores by it. A low temperature makes
# the choice harder, not softer.
# Seen: bowang-lab/BLEEP#5
def weights():
    return [1 / 8, 2 / 8, 5 / 8]


def answer():
    return 20


def sharper():
    return np.array([1, 3**0.5]) / (1 + 3**0.5)


def limits():
    return [30, 40]


def possible():
    return [0, 1, 1, 0]


# %% wrong bookstore-1 the temperature comes after the softmax
# You apply the temperature to finished weights. What you get no longer sums to 1: the temperature
# belongs to the scores, before the exponential.
# Seen: MoonshotAI/Kimi-Audio#161
def weights():
    return [1 / 8, 2 / 8, 5 / 8]


def answer():
    return 20


def sharper():
    return [1 / 16, 9 / 16]


def limits():
    return [40, 30]


def possible():
    return [0, 1, 1, 0]


# %% wrong bookstore-1 the temperature is left out
# Your weights for temperature ½ are those for temperature 1. Divide the scores by it first.
def weights():
    return [1 / 8, 2 / 8, 5 / 8]


def answer():
    return 20


def sharper():
    return [1 / 4, 3 / 4]


def limits():
    return [40, 30]


def possible():
    return [0, 1, 1, 0]


# %% wrong bookstore-1 temperature 0 taken for temperature 1
# Your first limit is the answer at temperature 1. Zero is a temperature, too, not a missing one:
# what happens to the differences between scores as it falls?
# Seen: promptfile/promptfile#399
def weights():
    return [1 / 8, 2 / 8, 5 / 8]


def answer():
    return 20


def sharper():
    return [1 / 10, 9 / 10]


def limits():
    return [(10 + 80 * np.exp(3)) / (1 + 2 * np.exp(3)), 30]


def possible():
    return [0, 1, 1, 0]


# %% wrong bookstore-1 the first winner takes all
# Two books share the best score, and you let the first one win. Equal scores have equal weights at
# every temperature, so also in the limit.
# Seen: mtrazzi/rl-book-challenge#3
def weights():
    return [1 / 8, 2 / 8, 5 / 8]


def answer():
    return 20


def sharper():
    return [1 / 10, 9 / 10]


def limits():
    return [20, 30]


def possible():
    return [0, 1, 1, 0]


# %% wrong bookstore-1 the winners are added up
# You give each of the two winners a weight of 1. Together they have a weight of 1 to share.
def weights():
    return [1 / 8, 2 / 8, 5 / 8]


def answer():
    return 20


def sharper():
    return [1 / 10, 9 / 10]


def limits():
    return [80, 30]


def possible():
    return [0, 1, 1, 0]


# %% wrong bookstore-1 any number can come out
# You let the answer leave the range of the values. The weights are positive and sum to 1: how dear
# can a mixture of books be?
def weights():
    return [1 / 8, 2 / 8, 5 / 8]


def answer():
    return 20


def sharper():
    return [1 / 10, 9 / 10]


def limits():
    return [40, 30]


def possible():
    return [1, 1, 1, 1]


# %% [markdown]
# ## bookstore-2: A softmax for any scores
#
# *bookstore-2 · 4 points · 10 minutes · ●●○○ difficulty 2 of 4*
#
# Write `softmax(scores)`: the weights over the **last axis** of an array with one axis or more.
# Each row of the last axis gets weights that sum to 1. Five things go wrong in real code, so they
# must go right in yours:
#
# - **any number of axes**: `[S]`, `[T, S]`, `[B, T, S]` and so on;
# - **large** scores, near 10,000 or near −10,000, don't overflow and don't vanish;
# - **whole numbers** as scores give the same weights as the same scores with a decimal point;
# - **nothing to share out**: no rows (`[0, S]`) or no keys (`[T, 0]`) give an empty array of floats
#   of the same shape;
# - the caller's `scores` stay **unchanged**.
#
# Half of the points are for a case that has several of these at once.
#
# **A miniature.** `softmax(np.array([[0, 0], [1000, 1000]]))` is `[[0.5, 0.5], [0.5, 0.5]]`.
#
# Read first: *Three roles* and *Whole numbers, and values that do not fit* in
# [chapter 1](../book/01_bookstore.ipynb).
#
# <details>
# <summary>Hint 1 for bookstore-2: what may be moved</summary>
#
# Add the same number to all scores of a row: numerator and denominator grow by the same factor.
# Which number would you subtract, so that no exponential can overflow and at least one of them
# doesn't vanish?
#
# </details>
#
# <details>
# <summary>Hint 2 for bookstore-2: nothing to share out</summary>
#
# The largest of no numbers does not exist. NumPy's reductions take an argument for what to start
# from; you can also look at the size first.
#
# </details>


# %% answer bookstore-2 points=4 minutes=10 difficulty=2 forbid=attnlearn,scipy
def softmax(scores):
    """scores [..., S], numbers of any kind -> weights, float [..., S]."""
    # BEGIN SOLUTION
    scores = np.asarray(scores, float)
    weights = np.exp(scores - scores.max(-1, keepdims=True, initial=-np.inf))
    return weights / weights.sum(-1, keepdims=True)
    # END SOLUTION


# %% check bookstore-2
case = check("bookstore-2")
_levels = np.array([[10_000], [0], [-10_000]])


case("one query", lambda rng: softmax(rng.normal(size=5)))
case("three queries, five keys", lambda rng: softmax(rng.normal(size=(3, 5))))
case("as many queries as keys", lambda rng: softmax(rng.normal(size=(4, 4))))
case("a batch of 2, 3 queries, 4 keys", lambda rng: softmax(rng.normal(size=(2, 3, 4))))
case("scores near 10,000 and near -10,000", lambda rng: softmax(_levels + rng.normal(size=(3, 4))))


@case("scores far apart in one row")
def _(rng):
    return softmax(np.array([-3000, -1000, 0, 0]) + rng.normal(size=(2, 4)))


case("whole numbers", lambda rng: softmax(rng.permutation(12).reshape(3, 4)))
case("no rows", lambda: softmax(np.zeros((0, 4))))
case("no keys", lambda: softmax(np.zeros((3, 0))))


@case("the scores stay unchanged")
def _(rng):
    scores = rng.normal(size=(3, 4))
    before = scores.copy()
    softmax(scores)
    return scores - before


@case("several at once", weight=10)
def _(rng):
    scores = _levels + rng.permutation(24).reshape(2, 3, 4)
    scores[1, :, 2] -= 3000
    before = scores.copy()
    weights = softmax(scores)
    empty = softmax(scores[:0]), softmax(scores[..., :0])
    return {
        "weights": weights,
        "empty": [np.shape(e) for e in empty],
        "scores kept": np.array_equal(scores, before),
    }


# %% hidden bookstore-2
case = check("bookstore-2")
case("four axes", lambda rng: softmax(4 * rng.normal(size=(2, 1, 3, 5))))
case("one key", lambda rng: softmax(rng.normal(size=(3, 1))))


# %% right bookstore-2 through the logarithm of the sum
def softmax(scores):
    scores = np.array(scores, dtype=float)
    if scores.size == 0:
        return scores
    return np.exp(scores - np.logaddexp.reduce(scores, axis=-1, keepdims=True))


# %% right bookstore-2 row by row
def softmax(scores):
    weights = np.zeros(scores.shape)
    if weights.size:
        for row in np.ndindex(scores.shape[:-1]):
            shares = np.exp(1.0 * scores[row] - max(scores[row]))
            weights[row] = shares / sum(shares)
    return weights


# %% right bookstore-2 in place, on a copy
def softmax(scores):
    weights = scores.astype(float)
    weights -= np.max(weights, axis=-1, keepdims=True, initial=-1e300)
    np.exp(weights, out=weights)
    weights /= np.sum(weights, axis=-1)[..., None]
    return weights


# %% wrong bookstore-2 no maximum subtracted
# The exponential of 10,000 overflows, and that of -10,000 vanishes. Which change to all scores of a
# row leaves its weights as they are?
# Seen: pyg-team/pytorch_geometric#53
def softmax(scores):
    weights = np.exp(scores)
    return weights / weights.sum(-1, keepdims=True)


# %% wrong bookstore-2 the formula as it stands
# Two things at once: your sum runs over the whole array, not over each row, and the exponential of
# a large score overflows.
def softmax(scores):
    return np.exp(scores) / np.sum(np.exp(scores))


# %% wrong bookstore-2 one maximum for all rows
# You subtract the largest score of the whole array. A row that lies far below it vanishes: every
# row needs a maximum of its own.
# Seen: lzx1413/PytorchSSD#22
def softmax(scores):
    scores = np.asarray(scores, float)
    weights = np.exp(scores - scores.max(initial=-np.inf))
    return weights / weights.sum(-1, keepdims=True)


# %% wrong bookstore-2 the maximum starts at 0
# You never subtract less than 0. A row of very negative scores then vanishes: its largest score is
# negative, too.
# Seen: uTensor/uTensor#176
def softmax(scores):
    scores = np.asarray(scores, float)
    weights = np.exp(scores - scores.max(-1, keepdims=True, initial=0))
    return weights / weights.sum(-1, keepdims=True)


# %% wrong bookstore-2 the minimum is subtracted
# You subtract the smallest score of each row. The exponential of the largest then overflows, where
# scores lie far apart.
def softmax(scores):
    scores = np.asarray(scores, float)
    weights = np.exp(scores - scores.min(-1, keepdims=True, initial=np.inf))
    return weights / weights.sum(-1, keepdims=True)


# %% wrong bookstore-2 one weight shared by the whole array
# All your weights together sum to 1. Each query, a row of the last axis, has a weight of 1 of its
# own to share out.
# Seen: nntrainer/nntrainer#430
def softmax(scores):
    scores = np.asarray(scores, float)
    weights = np.exp(scores - scores.max(-1, keepdims=True, initial=-np.inf))
    return weights / weights.sum()


# %% wrong bookstore-2 over the first axis
# You share out along the first axis. One query on its own hides it; with several, each *key* has a
# weight of 1 to give to queries, which is the wrong way round.
# Seen: PetrochukM/PyTorch-NLP#2
def softmax(scores):
    scores = np.asarray(scores, float)
    weights = np.exp(scores - scores.max(0, keepdims=True, initial=-np.inf))
    return weights / weights.sum(0, keepdims=True)


# %% wrong bookstore-2 over axis 1
# You name axis 1. That is the last one only if there are exactly two.
# Seen: FudanNLP/fastNLP#254
def softmax(scores):
    scores = np.asarray(scores, float)
    weights = np.exp(scores - scores.max(1, keepdims=True, initial=-np.inf))
    return weights / weights.sum(1, keepdims=True)


# %% wrong bookstore-2 the sums lie along the wrong axis
# Your sums have lost an axis, so broadcasting lays them along the keys: an error, or, with as many
# queries as keys, rows divided by each other's sums.
# Seen: jacobgil/vit-explain#16
def softmax(scores):
    scores = np.asarray(scores, float)
    weights = np.exp(scores - scores.max(-1, keepdims=True, initial=-np.inf))
    return weights / weights.sum(-1)


# %% wrong bookstore-2 weights in an array of whole numbers
# Your weights are stored in an array of the scores' kind. Whole numbers as scores then give whole
# numbers as weights: nearly all 0.
# Seen: MIC-DKFZ/nnUNet#1581
def softmax(scores):
    scores = np.asarray(scores)
    weights = np.zeros_like(scores)
    if weights.size:
        for row in np.ndindex(scores.shape[:-1]):
            shares = np.exp(scores[row] - scores[row].max())
            weights[row] = shares / shares.sum()
    return weights


# %% wrong bookstore-2 writes into the scores
# You subtract inside the array that the caller gave you. Whoever uses these scores next finds them
# moved. Work on an array of your own.
# Seen: JuliaGPU/CUDA.jl#592
def softmax(scores):
    if scores.size:
        scores -= scores.max(-1, keepdims=True)
    weights = np.exp(scores)
    return weights / weights.sum(-1, keepdims=True)


# %% wrong bookstore-2 no keys, no maximum
# An array without keys breaks your softmax: the largest of no numbers does not exist.
# Seen: open-edge-platform/geti#1507
def softmax(scores):
    scores = np.asarray(scores, float)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


# %% wrong bookstore-2 the exponential is missing
# You divide the scores by their sum, without an exponential. Negative scores give negative
# weights, and moving all scores by the same amount moves the weights.
def softmax(scores):
    scores = np.asarray(scores, float)
    return scores / scores.sum(-1, keepdims=True)


# %% [markdown]
# ## bookstore-3: A soft lookup with a temperature
#
# *bookstore-3 · 6 points · 15 minutes · ●●●○ difficulty 3 of 4*
#
# Write `look_up(query, keys, values, temperature)`: one query `[D]`, keys `[S, D]` and values
# `[S, E]` give one answer `[E]`. The scores are the dot products of the query with the keys,
# divided by the temperature; the answer is the sum of the values, weighted by the softmax of the
# scores. The edges are part of the task:
#
# - **temperature 0** is the limit from above: the mean of the values whose score is the largest,
#   for there may be ties. A score that is smaller by a hair has lost;
# - **an infinite temperature** gives the mean of all values, and a **tiny** one, such as `1e-310`,
#   no NaN;
# - a temperature that is **negative or NaN** raises `ValueError`. The message names `temperature`
#   and the number that came;
# - **no keys** give an answer of zeros;
# - **another number of values than keys** raises `ValueError`. The message says `keys` and
#   `values`, and how many of each came;
# - **arrays of whole numbers**, even of 8 bits, give what the same numbers as floats give, and the
#   caller's arrays stay **unchanged**.
#
# Half of the points are for a case that has most of it at once.
#
# **A miniature.** The query `[1, 0]` meets the keys `[[0, 1], [0, 2]]`. Both scores are 0, so the
# answer is the mean of the two values, at every temperature.
#
# Read first: *Temperature, and its two ends* and *What goes wrong in real code* in
# [chapter 1](../book/01_bookstore.ipynb).
#
# <details>
# <summary>Hint 1 for bookstore-3: subtract first, then divide</summary>
#
# Before you divide, ask what each score lacks to the largest. The best books then have 0, and 0
# divided by any positive temperature is 0. How does that help at `1e-310`, and at infinity?
#
# </details>
#
# <details>
# <summary>Hint 2 for bookstore-3: NaN answers every question with no</summary>
#
# NaN is neither smaller than 0, nor equal to it, nor larger. Ask a question to which only a good
# temperature answers yes.
#
# </details>


# %% answer bookstore-3 points=6 minutes=15 difficulty=3 forbid=attnlearn,scipy
def look_up(query, keys, values, temperature=1.0):
    """query [D], keys [S, D], values [S, E] -> [E]; ValueError for a temperature below 0 or NaN."""
    # BEGIN SOLUTION
    query, keys, values = (np.asarray(x, float) for x in (query, keys, values))
    if not temperature >= 0:
        raise ValueError(f"temperature must be 0 or more, not {temperature}")
    if len(keys) != len(values):
        raise ValueError(f"every key needs one value: {len(keys)} keys, {len(values)} values")
    if len(keys) == 0:
        return np.zeros(values.shape[1])
    scores = keys @ query
    lacks = scores - scores.max()
    weights = lacks == 0 if temperature == 0 else np.exp(lacks / temperature)
    return weights @ values / weights.sum()
    # END SOLUTION


# %% check bookstore-3
case = check("bookstore-3")
_query = np.array([1.0, 2.0])
_tied = np.array([[3.0, 0.0], [1.0, 1.0], [0.0, 0.0], [-1.0, 2.0], [-2.0, 2.0]])  # 3 3 0 3 2
_hair = 1e-20 * np.array([[1.0, 0.0], [1.0 + 1e-10, 0.0], [0.0, 0.5 - 1e-10]])
_small_query = np.array([5, 5], np.int8)
_small_keys = np.array([[60, 50], [59, 50], [40, 36], [70, 40]], np.int8)  # 550 545 380 550


def _books(rng, S=5):
    return rng.normal(size=2), rng.normal(size=(S, 2)), rng.normal(size=(S, 3))


def _refusal(f, *words):
    try:
        f()
    except ValueError as error:
        named = [word for word in words if word in str(error)]
        return f"ValueError naming {', '.join(named) or 'none of what is asked'}"
    return "no ValueError"


case("temperature 1", lambda rng: look_up(*_books(rng), 1.0))
case("temperatures 0.2 and 5", lambda rng: [look_up(*_books(rng), t) for t in (0.2, 5)])
case("temperature 0, three winners", lambda rng: look_up(_query, _tied, _books(rng)[2], 0))
case("temperature 0, ahead by a hair", lambda rng: look_up(_query, _hair, _books(rng, 3)[2], 0.0))
case("temperature 1e-310", lambda rng: look_up(_query, _tied, _books(rng)[2], 1e-310))
case("infinite temperature", lambda rng: look_up(*_books(rng), np.inf))


@case("ValueError for a negative temperature")
def _(rng):
    books = _books(rng)
    return _refusal(lambda: look_up(*books, -0.5), "temperature", "-0.5")


@case("ValueError for a temperature that is NaN")
def _(rng):
    books = _books(rng)
    return _refusal(lambda: look_up(*books, np.nan), "temperature", "nan")


case("no keys", lambda: look_up(_query, np.zeros((0, 2)), np.zeros((0, 3)), 0.5))


@case("ValueError for 4 keys and 6 values")
def _():
    return _refusal(
        lambda: look_up(_query, np.zeros((4, 2)), np.ones((6, 3))), "keys", "values", "4", "6"
    )


@case("whole numbers of 8 bits")
def _(rng):
    return look_up(_small_query, _small_keys, rng.permutation(12).reshape(4, 3), 4)


@case("the caller's arrays stay unchanged")
def _(rng):
    given = _books(rng)
    before = [array.copy() for array in given]
    look_up(*given, 0.5)
    return [np.abs(now - old).max() for now, old in zip(given, before, strict=True)]


@case("most of it at once", weight=13)
def _(rng):
    order = rng.permutation(4)
    given = _small_query.copy(), _small_keys[order], rng.normal(size=(4, 3))
    before = [array.copy() for array in given]
    query, keys, values = given
    return {
        "answers": np.array([look_up(*given, t) for t in (0, 1e-310, 3, np.inf)]),
        "by a hair": look_up(_query, _hair, values[:3], 0),
        "no keys": look_up(query, keys[:0], values[:0], 0),
        "below 0": _refusal(lambda: look_up(*given, -2.5), "temperature", "-2.5"),
        "NaN": _refusal(lambda: look_up(*given, np.nan), "temperature"),
        "lengths": _refusal(lambda: look_up(query, keys[:3], values), "keys", "values", "3", "4"),
        "given kept": all(np.array_equal(a, b) for a, b in zip(given, before, strict=True)),
    }


# %% hidden bookstore-3
case = check("bookstore-3")
case("minus infinity", lambda: _refusal(lambda: look_up(_query, _tied, np.eye(5), -np.inf), "-inf"))
case("one key", lambda rng: look_up(*_books(rng, 1), 0.7))


@case("ValueError for more values than keys at temperature 0")
def _(rng):
    query, keys, values = _books(rng, 6)
    return _refusal(lambda: look_up(query, keys[:5], values, 0), "5", "6")


# %% right bookstore-3 pair by pair
def look_up(query, keys, values, temperature=1.0):
    if temperature < 0 or temperature != temperature:
        raise ValueError(f"the temperature is {temperature}; it can't be negative")
    if len(keys) != len(values):
        raise ValueError(f"got {len(values)} values for {len(keys)} keys")
    scores = [sum(float(a) * float(b) for a, b in zip(query, k, strict=True)) for k in keys]
    answer, total = np.zeros(np.shape(values)[1]), 0.0
    for score, value in zip(scores, values, strict=True):
        if temperature == 0:
            share = float(score == max(scores))
        else:
            share = np.exp((score - max(scores)) / temperature)
        answer += share * value
        total += share
    return answer / total if total else answer


# %% right bookstore-3 the winners first
def look_up(query, keys, values, temperature=1.0):
    if not (temperature >= 0):
        raise ValueError(f"{temperature=}: choose 0 or a positive number")
    S, (N, E) = len(keys), np.shape(values)
    if S != N:
        raise ValueError(f"keys and values differ in length: {S} and {N}")
    if not S:
        return np.zeros(E)
    scores = np.asarray(keys, float).dot(np.asarray(query, float))
    best = scores.max()
    if temperature == 0:
        return values[scores == best].mean(axis=0)
    if np.isinf(temperature):
        return values.mean(axis=0)
    return np.average(values, axis=0, weights=np.exp((scores - best) / temperature))


# %% wrong bookstore-3 the temperature multiplies
# You multiply the scores by the temperature. A low temperature should favour the best book, and
# yours treats all alike.
# Seen: bowang-lab/BLEEP#5
def look_up(query, keys, values, temperature=1.0):
    query, keys, values = (np.asarray(x, float) for x in (query, keys, values))
    if not temperature >= 0:
        raise ValueError(f"temperature must be 0 or more, not {temperature}")
    if len(keys) != len(values):
        raise ValueError(f"every key needs one value: {len(keys)} keys, {len(values)} values")
    if len(keys) == 0:
        return np.zeros(values.shape[1])
    scores = keys @ query
    weights = np.exp((scores - scores.max()) * temperature)
    return weights @ values / weights.sum()


# %% wrong bookstore-3 the temperature comes after the softmax
# You apply the temperature to weights that are already shared out. What comes out no longer sums
# to 1: divide the scores, then share out.
# Seen: MoonshotAI/Kimi-Audio#161
def look_up(query, keys, values, temperature=1.0):
    query, keys, values = (np.asarray(x, float) for x in (query, keys, values))
    if not temperature >= 0:
        raise ValueError(f"temperature must be 0 or more, not {temperature}")
    if len(keys) != len(values):
        raise ValueError(f"every key needs one value: {len(keys)} keys, {len(values)} values")
    if len(keys) == 0:
        return np.zeros(values.shape[1])
    scores = keys @ query
    lacks = scores - scores.max()
    if temperature == 0:
        return values[lacks == 0].mean(0)
    weights = np.exp(lacks)
    return (weights / weights.sum()) ** (1 / temperature) @ values


# %% wrong bookstore-3 the temperature is applied twice
# You divide by the temperature twice. At temperature 1 nobody notices: try another one by hand.
# Seen: RL-Align/RL-Kernel#81
def look_up(query, keys, values, temperature=1.0):
    query, keys, values = (np.asarray(x, float) for x in (query, keys, values))
    if not temperature >= 0:
        raise ValueError(f"temperature must be 0 or more, not {temperature}")
    if len(keys) != len(values):
        raise ValueError(f"every key needs one value: {len(keys)} keys, {len(values)} values")
    if len(keys) == 0:
        return np.zeros(values.shape[1])
    scores = keys @ query
    lacks = scores - scores.max()
    weights = lacks == 0 if temperature == 0 else np.exp(lacks / temperature / temperature)
    return weights @ values / weights.sum()


# %% wrong bookstore-3 divided by a temperature of 0
# At temperature 0 you divide by it, and the best book, which lacks 0, becomes 0 / 0: not a number.
# That limit needs a line of its own.
# Seen: google-deepmind/gemma#562
def look_up(query, keys, values, temperature=1.0):
    query, keys, values = (np.asarray(x, float) for x in (query, keys, values))
    if not temperature >= 0:
        raise ValueError(f"temperature must be 0 or more, not {temperature}")
    if len(keys) != len(values):
        raise ValueError(f"every key needs one value: {len(keys)} keys, {len(values)} values")
    if len(keys) == 0:
        return np.zeros(values.shape[1])
    scores = keys @ query
    weights = np.exp((scores - scores.max()) / np.float64(temperature))
    return weights @ values / weights.sum()


# %% wrong bookstore-3 NaN covered with zeros
# At temperature 0 you divide 0 by 0, and then replace NaN with zeros. That answer has nothing to do
# with the values: the limit needs a line of its own.
def look_up(query, keys, values, temperature=1.0):
    query, keys, values = (np.asarray(x, float) for x in (query, keys, values))
    if not temperature >= 0:
        raise ValueError(f"temperature must be 0 or more, not {temperature}")
    if len(keys) != len(values):
        raise ValueError(f"every key needs one value: {len(keys)} keys, {len(values)} values")
    if len(keys) == 0:
        return np.zeros(values.shape[1])
    scores = keys @ query
    weights = np.exp((scores - scores.max()) / np.float64(temperature))
    return np.nan_to_num(weights @ values / weights.sum())


# %% wrong bookstore-3 a hair makes a tie
# Scores that differ by a hair share the weight, though one of them has won. A small number added to
# the temperature does that, or a floor below it, or scores compared with a tolerance.
# Seen: suno-ai/bark#270
def look_up(query, keys, values, temperature=1.0):
    query, keys, values = (np.asarray(x, float) for x in (query, keys, values))
    if not temperature >= 0:
        raise ValueError(f"temperature must be 0 or more, not {temperature}")
    if len(keys) != len(values):
        raise ValueError(f"every key needs one value: {len(keys)} keys, {len(values)} values")
    if len(keys) == 0:
        return np.zeros(values.shape[1])
    scores = keys @ query
    weights = np.exp((scores - scores.max()) / (temperature + 1e-9))
    return weights @ values / weights.sum()


# %% wrong bookstore-3 temperature 0 taken for not given
# Your temperature 0 works like temperature 1: Python takes 0 for "no", so `or` and `if temperature`
# replace it or step over it.
# Seen: SaFo-Lab/AgentDyn#2
def look_up(query, keys, values, temperature=1.0):
    query, keys, values = (np.asarray(x, float) for x in (query, keys, values))
    temperature = temperature or 1.0
    if not temperature >= 0:
        raise ValueError(f"temperature must be 0 or more, not {temperature}")
    if len(keys) != len(values):
        raise ValueError(f"every key needs one value: {len(keys)} keys, {len(values)} values")
    if len(keys) == 0:
        return np.zeros(values.shape[1])
    scores = keys @ query
    weights = np.exp((scores - scores.max()) / temperature)
    return weights @ values / weights.sum()


# %% wrong bookstore-3 temperature 0 is refused
# You refuse a temperature of 0. It has a meaning, the limit from above: only the best books count.
# Seen: microsoft/onnxruntime-genai#1211
def look_up(query, keys, values, temperature=1.0):
    query, keys, values = (np.asarray(x, float) for x in (query, keys, values))
    if not temperature > 0:
        raise ValueError(f"temperature must be positive, not {temperature}")
    if len(keys) != len(values):
        raise ValueError(f"every key needs one value: {len(keys)} keys, {len(values)} values")
    if len(keys) == 0:
        return np.zeros(values.shape[1])
    scores = keys @ query
    weights = np.exp((scores - scores.max()) / temperature)
    return weights @ values / weights.sum()


# %% wrong bookstore-3 the first winner takes all
# Several keys share the best score, and you let the first one win. The weights of equal scores are
# equal at every temperature, so also in the limit.
# Seen: mtrazzi/rl-book-challenge#3
def look_up(query, keys, values, temperature=1.0):
    query, keys, values = (np.asarray(x, float) for x in (query, keys, values))
    if not temperature >= 0:
        raise ValueError(f"temperature must be 0 or more, not {temperature}")
    if len(keys) != len(values):
        raise ValueError(f"every key needs one value: {len(keys)} keys, {len(values)} values")
    if len(keys) == 0:
        return np.zeros(values.shape[1])
    scores = keys @ query
    if temperature == 0:
        return values[scores.argmax()]
    weights = np.exp((scores - scores.max()) / temperature)
    return weights @ values / weights.sum()


# %% wrong bookstore-3 divided before subtracting
# You divide by the temperature before you subtract the largest score. A tiny temperature sends the
# scores to infinity, and infinity minus infinity is not a number.
# Seen: SlopDotCash/asi#2888
def look_up(query, keys, values, temperature=1.0):
    query, keys, values = (np.asarray(x, float) for x in (query, keys, values))
    if not temperature >= 0:
        raise ValueError(f"temperature must be 0 or more, not {temperature}")
    if len(keys) != len(values):
        raise ValueError(f"every key needs one value: {len(keys)} keys, {len(values)} values")
    if len(keys) == 0:
        return np.zeros(values.shape[1])
    scores = keys @ query
    if temperature == 0:
        return values[scores == scores.max()].mean(0)
    scores = scores / temperature
    weights = np.exp(scores - scores.max())
    return weights @ values / weights.sum()


# %% wrong bookstore-3 an infinite temperature is refused
# You refuse an infinite temperature. It has a meaning, too: no score matters any more, and every
# value counts alike.
# Seen: sgl-project/sglang#28153
def look_up(query, keys, values, temperature=1.0):
    query, keys, values = (np.asarray(x, float) for x in (query, keys, values))
    if not 0 <= temperature < np.inf:
        raise ValueError(f"temperature must be 0 or more and finite, not {temperature}")
    if len(keys) != len(values):
        raise ValueError(f"every key needs one value: {len(keys)} keys, {len(values)} values")
    if len(keys) == 0:
        return np.zeros(values.shape[1])
    scores = keys @ query
    lacks = scores - scores.max()
    weights = lacks == 0 if temperature == 0 else np.exp(lacks / temperature)
    return weights @ values / weights.sum()


# %% wrong bookstore-3 a negative temperature is accepted
# You accept a negative temperature. It turns the order round, and the worst book wins without a
# word.
# Seen: google-research/tabfm#102
def look_up(query, keys, values, temperature=1.0):
    query, keys, values = (np.asarray(x, float) for x in (query, keys, values))
    if np.isnan(temperature):
        raise ValueError(f"temperature must be a number, not {temperature}")
    if len(keys) != len(values):
        raise ValueError(f"every key needs one value: {len(keys)} keys, {len(values)} values")
    if len(keys) == 0:
        return np.zeros(values.shape[1])
    scores = keys @ query
    lacks = scores - scores.max()
    weights = lacks == 0 if temperature == 0 else np.exp(lacks / temperature)
    return weights @ values / weights.sum()


# %% wrong bookstore-3 NaN slips through
# Your question lets NaN through: it is not smaller than 0, nor is any other comparison with it
# true. Ask for what is allowed, not for what isn't.
# Seen: NVIDIA/TensorRT-LLM#17158
def look_up(query, keys, values, temperature=1.0):
    query, keys, values = (np.asarray(x, float) for x in (query, keys, values))
    if temperature < 0:
        raise ValueError(f"temperature must be 0 or more, not {temperature}")
    if len(keys) != len(values):
        raise ValueError(f"every key needs one value: {len(keys)} keys, {len(values)} values")
    if len(keys) == 0:
        return np.zeros(values.shape[1])
    scores = keys @ query
    lacks = scores - scores.max()
    weights = lacks == 0 if temperature == 0 else np.exp(lacks / temperature)
    return weights @ values / weights.sum()


# %% wrong bookstore-3 keys in place of values
# You mix the keys. The keys say where to look; what you bring home are the values.
# Seen: ruvnet/agentic-flow#191
def look_up(query, keys, values, temperature=1.0):
    query, keys, values = (np.asarray(x, float) for x in (query, keys, values))
    if not temperature >= 0:
        raise ValueError(f"temperature must be 0 or more, not {temperature}")
    if len(keys) != len(values):
        raise ValueError(f"every key needs one value: {len(keys)} keys, {len(values)} values")
    if len(keys) == 0:
        return np.zeros(keys.shape[1])
    scores = keys @ query
    lacks = scores - scores.max()
    weights = lacks == 0 if temperature == 0 else np.exp(lacks / temperature)
    return weights @ keys / weights.sum()


# %% wrong bookstore-3 surplus values are dropped in silence
# With more values than keys you drop the rest without a word. Somebody has mixed up two lists
# there: say so.
# Seen: microsoft/Qcodes#8450
def look_up(query, keys, values, temperature=1.0):
    query, keys = np.asarray(query, float), np.asarray(keys, float)
    if not temperature >= 0:
        raise ValueError(f"temperature must be 0 or more, not {temperature}")
    if len(keys) == 0:
        return np.zeros(np.shape(values)[1])
    scores = keys @ query
    lacks = scores - scores.max()
    weights = lacks == 0 if temperature == 0 else np.exp(lacks / temperature)
    return sum(w * v for w, v in zip(weights, values, strict=False)) / weights.sum()


# %% wrong bookstore-3 NumPy's message for another length
# You leave it to NumPy to find that the lengths differ. Its message speaks of a core dimension:
# the reader needs to hear about keys and values, and how many of each there are.
def look_up(query, keys, values, temperature=1.0):
    query, keys, values = (np.asarray(x, float) for x in (query, keys, values))
    if not temperature >= 0:
        raise ValueError(f"temperature must be 0 or more, not {temperature}")
    if len(keys) == 0:
        return np.zeros(values.shape[1])
    scores = keys @ query
    lacks = scores - scores.max()
    weights = (lacks == 0) * 1.0 if temperature == 0 else np.exp(lacks / temperature)
    return weights @ values / weights.sum()


# %% wrong bookstore-3 no keys are not handled
# Without keys you fail: there is no largest score. Nothing to find gives an answer of zeros here.
def look_up(query, keys, values, temperature=1.0):
    query, keys, values = (np.asarray(x, float) for x in (query, keys, values))
    if not temperature >= 0:
        raise ValueError(f"temperature must be 0 or more, not {temperature}")
    if len(keys) != len(values):
        raise ValueError(f"every key needs one value: {len(keys)} keys, {len(values)} values")
    scores = keys @ query
    lacks = scores - scores.max()
    weights = lacks == 0 if temperature == 0 else np.exp(lacks / temperature)
    return weights @ values / weights.sum()


# %% wrong bookstore-3 whole numbers run over
# Your scores are computed in the 8 bits of the keys. There 5 · 60 does not fit, and the sum starts
# again from below: a good book gets a bad score.
# Seen: ggml-org/llama.cpp#986
def look_up(query, keys, values, temperature=1.0):
    if not temperature >= 0:
        raise ValueError(f"temperature must be 0 or more, not {temperature}")
    if len(keys) != len(values):
        raise ValueError(f"every key needs one value: {len(keys)} keys, {len(values)} values")
    if len(keys) == 0:
        return np.zeros(values.shape[1])
    scores = (keys @ query).astype(float)
    lacks = scores - scores.max()
    weights = lacks == 0 if temperature == 0 else np.exp(lacks / temperature)
    return weights @ values / weights.sum()


# %% wrong bookstore-3 the caller's values are weighted
# You multiply inside the caller's own values. Whoever looks something up next finds them shrunk.
# Work on an array of your own.
def look_up(query, keys, values, temperature=1.0):
    if not temperature >= 0:
        raise ValueError(f"temperature must be 0 or more, not {temperature}")
    if len(keys) != len(values):
        raise ValueError(f"every key needs one value: {len(keys)} keys, {len(values)} values")
    if len(keys) == 0:
        return np.zeros(values.shape[1])
    scores = keys.astype(float) @ query
    lacks = scores - scores.max()
    weights = lacks == 0 if temperature == 0 else np.exp(lacks / temperature)
    values *= (weights / weights.sum())[:, None]
    return values.sum(0)


# %% wrong bookstore-3 errors that tell too little
# Your errors don't say what came. A message that names the number, or both lengths, shows the
# caller at once where to look.
def look_up(query, keys, values, temperature=1.0):
    query, keys, values = (np.asarray(x, float) for x in (query, keys, values))
    if not temperature >= 0:
        raise ValueError("temperature must not be negative")
    if len(keys) != len(values):
        raise ValueError("keys and values must have the same length")
    if len(keys) == 0:
        return np.zeros(values.shape[1])
    scores = keys @ query
    lacks = scores - scores.max()
    weights = lacks == 0 if temperature == 0 else np.exp(lacks / temperature)
    return weights @ values / weights.sum()


# %% [markdown]
# ## bookstore-4: Kernel regression, written as attention
#
# *bookstore-4 · 6 points · 16 minutes · ●●●● difficulty 4 of 4*
#
# Nadaraya and Watson guess the value at a place `q` from places `k` with known values `v`: a mean
# of the values, where nearer places count more. With a Gaussian kernel of bandwidth `h`, place `k`
# counts with exp(−‖q − k‖² / (2h²)). That is a softmax over scores, and with **one more number per
# vector** the score is a plain dot product. Write two functions:
#
# - `augment(queries, keys, bandwidth)`: queries `[T, D]` and keys `[S, D]` become queries
#   `[T, D + 1]` and keys `[S, D + 1]`, so that their dot product is −‖q − k‖² / (2h²), up to a
#   number that is the same for all keys of a query;
# - `smooth(queries, keys, values, bandwidth)`: the estimates `[T, E]`, from values `[S, E]`.
#
# Five things are asked of them: any `D`; a sensible estimate **far from all data**, where every
# exponential vanishes; coordinates **far from the origin**, as on a map in metres, where squares
# of a million swallow differences of one; **no array of `T · S · D` numbers**; and the caller's
# arrays stay **unchanged**. Half of the points are for a case that has all of it at once.
#
# **A miniature.** Places 0 and 2 have the values 10 and 20. Halfway, at 1, both count alike, and
# the estimate is 15 for every bandwidth.
#
# Read first: *Half a century older: the same formula on a map* in
# [chapter 1](../book/01_bookstore.ipynb).
#
# <details>
# <summary>Hint 1 for bookstore-4: multiply the square out</summary>
#
# Of the three terms, one depends on the query alone. What does a softmax over the keys do with it?
# Another depends on the key alone: the additional number of the key can hold it. What must the
# additional number of the query be?
#
# </details>
#
# <details>
# <summary>Hint 2 for bookstore-4: far from the origin</summary>
#
# Distances don't change if everything is moved by the same vector. Where would you move the origin
# before you multiply?
#
# </details>


# %% answer bookstore-4 points=6 minutes=16 difficulty=4 forbid=attnlearn,scipy
def augment(queries, keys, bandwidth):
    """queries [T, D], keys [S, D] -> [T, D + 1], [S, D + 1]: a dot product is a kernel's score."""
    # BEGIN SOLUTION
    origin = keys.mean(0)
    q, k = (queries - origin) / bandwidth, (keys - origin) / bandwidth
    norms = (k**2).sum(1, keepdims=True)
    return np.hstack([q, np.ones((len(q), 1))]), np.hstack([k, -norms / 2])
    # END SOLUTION


def smooth(queries, keys, values, bandwidth):
    """queries [T, D], keys [S, D], values [S, E] -> estimates [T, E], with a Gaussian kernel."""
    # BEGIN SOLUTION
    q, k = augment(queries, keys, bandwidth)
    scores = q @ k.T
    weights = np.exp(scores - scores.max(1, keepdims=True))
    return weights @ values / weights.sum(1, keepdims=True)
    # END SOLUTION


# %% check bookstore-4
case = check("bookstore-4")


def _places(rng, T=3, S=5, D=2, E=2):
    return rng.normal(size=(T, D)), rng.normal(size=(S, D)), rng.normal(size=(S, E))


def _relative(queries, keys):
    scores = queries @ keys.T
    return scores - scores.max(1, keepdims=True)


def _extra_mb(f):
    tracemalloc.start()
    try:
        f()
        return tracemalloc.get_traced_memory()[1] / 2**20
    finally:
        tracemalloc.stop()


@case("augment: scores, each query's largest at 0")
def _(rng):
    return _relative(*augment(*_places(rng)[:2], 0.7))


@case("augment: one more number")
def _(rng):
    return [np.shape(array) for array in augment(*_places(rng, D=4)[:2], 1.0)]


case("one dimension, bandwidth 0.4", lambda rng: smooth(*_places(rng, D=1, E=1), 0.4))
case("three dimensions, bandwidth 2", lambda rng: smooth(*_places(rng, D=3), 2))


@case("far from all data")
def _(rng):
    queries, keys, values = _places(rng)
    return smooth(queries + np.array([[90.0], [0.0], [-70.0]]), keys, values, 0.5)


@case("far from the origin")
def _(rng):
    queries, keys, values = _places(rng)
    return smooth(queries + 4e6, keys + 4e6, values, 0.5)


@case("the caller's arrays stay unchanged")
def _(rng):
    given = _places(rng)
    before = [array.copy() for array in given]
    smooth(*given, 0.7)
    augment(*given[:2], 0.7)
    moved = [np.abs(now - old).max() for now, old in zip(given, before, strict=True)]
    return dict(zip(("queries moved by", "keys moved by", "values moved by"), moved, strict=True))


@case("extra memory in MB, 64 queries, 64 keys, 64 dimensions", weight=2, at_most=1)
def _(rng):
    places = _places(rng, 64, 64, 64)
    return _extra_mb(lambda: smooth(*places, 8.0))


@case("all of it at once", weight=9)
def _(rng):
    queries, keys, values = _places(rng, 4, 6, 3)
    queries = queries + np.array([[0.0], [0.0], [60.0], [-50.0]])
    before = queries + 4e6, keys + 4e6, values
    given = [array.copy() for array in before]
    estimates = smooth(*given, 0.8)
    many = _places(rng, 64, 64, 64)
    return {
        "estimates": estimates,
        "shapes": [np.shape(array) for array in augment(*given[:2], 0.8)],
        "scores": _relative(*augment(*given[:2], 0.8)),
        "small": _extra_mb(lambda: smooth(*many, 8.0)) < 1,
        "given kept": all(np.array_equal(a, b) for a, b in zip(given, before, strict=True)),
    }


# %% hidden bookstore-4
case = check("bookstore-4")
case("whole numbers", lambda rng: smooth(*(rng.permutation(20).reshape(10, 2) for _ in "qkv"), 3))
case("one place", lambda rng: smooth(*_places(rng, S=1), 1.0))


# %% right bookstore-4 the scale in the queries
def augment(queries, keys, bandwidth):
    middle = np.median(keys, axis=0)
    q, k = queries - middle, keys - middle
    norms = np.einsum("sd,sd->s", k, k)
    q = np.concatenate([q, np.full((len(q), 1), -0.5)], axis=1) / bandwidth**2
    return q, np.c_[k, norms]


def smooth(queries, keys, values, bandwidth):
    q, k = augment(queries, keys, bandwidth)
    estimates = []
    for query in q:
        scores = k @ query
        weights = np.exp(scores - np.logaddexp.reduce(scores))
        estimates.append(weights @ values)
    return np.array(estimates)


# %% right bookstore-4 one query's distances at a time
def augment(queries, keys, bandwidth):
    first = keys[:1]
    q = np.ones((queries.shape[0], queries.shape[1] + 1))
    k = np.empty((keys.shape[0], keys.shape[1] + 1))
    q[:, :-1] = (queries - first) / bandwidth
    k[:, :-1] = (keys - first) / bandwidth
    k[:, -1] = -0.5 * np.sum(k[:, :-1] ** 2, axis=1)
    return q, k


def smooth(queries, keys, values, bandwidth):
    estimates = np.zeros((len(queries), values.shape[1]))
    for t, query in enumerate(queries):
        scores = -np.sum((query - keys) ** 2, axis=1) / (2 * bandwidth**2)
        weights = np.exp(scores - scores.max())
        estimates[t] = weights @ values / weights.sum()
    return estimates


# %% wrong bookstore-4 the bandwidth is not squared
# You divide the squared distance by the bandwidth, not by its square. Double all distances and the
# bandwidth, and the estimates must stay: do yours?
# Seen: d2l-ai/d2l-en#2665
def augment(queries, keys, bandwidth):
    origin = keys.mean(0)
    q, k = queries - origin, keys - origin
    norms = (k**2).sum(1, keepdims=True)
    return np.hstack([q, np.ones((len(q), 1))]) / bandwidth, np.hstack([k, -norms / 2])


def smooth(queries, keys, values, bandwidth):
    q, k = augment(queries, keys, bandwidth)
    scores = q @ k.T
    weights = np.exp(scores - scores.max(1, keepdims=True))
    return weights @ values / weights.sum(1, keepdims=True)


# %% wrong bookstore-4 the 2 is lost
# Your kernel lacks the 2 below the squared distance, so it is narrower than asked for: the
# bandwidth is the standard deviation of the Gaussian.
def augment(queries, keys, bandwidth):
    origin = keys.mean(0)
    q, k = (queries - origin) / bandwidth, (keys - origin) / bandwidth
    norms = (k**2).sum(1, keepdims=True)
    return np.hstack([2 * q, np.ones((len(q), 1))]), np.hstack([k, -norms])


def smooth(queries, keys, values, bandwidth):
    q, k = augment(queries, keys, bandwidth)
    scores = q @ k.T
    weights = np.exp(scores - scores.max(1, keepdims=True))
    return weights @ values / weights.sum(1, keepdims=True)


# %% wrong bookstore-4 neither squared nor doubled
# You divide the squared distance by the plain bandwidth. Compare the formula in the task, letter by
# letter.
# Seen: mattnedrich/MeanShift_cpp#4
def augment(queries, keys, bandwidth):
    origin = keys.mean(0)
    q, k = queries - origin, keys - origin
    norms = (k**2).sum(1, keepdims=True)
    return np.hstack([2 * q, np.ones((len(q), 1))]) / bandwidth, np.hstack([k, -norms])


def smooth(queries, keys, values, bandwidth):
    q, k = augment(queries, keys, bandwidth)
    scores = q @ k.T
    weights = np.exp(scores - scores.max(1, keepdims=True))
    return weights @ values / weights.sum(1, keepdims=True)


# %% wrong bookstore-4 multiplied by the squared bandwidth
# Your bandwidth works the wrong way round: a wide kernel should let far places count, and yours
# shuts them out. A division has become a multiplication; look at the parentheses.
# Seen: mdbartos/graph-signals#1
def augment(queries, keys, bandwidth):
    origin = keys.mean(0)
    q, k = (queries - origin) * bandwidth, (keys - origin) * bandwidth
    norms = (k**2).sum(1, keepdims=True)
    return np.hstack([q, np.ones((len(q), 1))]), np.hstack([k, -norms / 2])


def smooth(queries, keys, values, bandwidth):
    q, k = augment(queries, keys, bandwidth)
    scores = q @ k.T
    weights = np.exp(scores - scores.max(1, keepdims=True))
    return weights @ values / weights.sum(1, keepdims=True)


# %% wrong bookstore-4 the distance is not squared
# In `smooth` you use the distance, not its square. Gauss's bell needs the square.
# Seen: hoxo-m/densratio#6
def augment(queries, keys, bandwidth):
    origin = keys.mean(0)
    q, k = (queries - origin) / bandwidth, (keys - origin) / bandwidth
    norms = (k**2).sum(1, keepdims=True)
    return np.hstack([q, np.ones((len(q), 1))]), np.hstack([k, -norms / 2])


def smooth(queries, keys, values, bandwidth):
    scores = [-np.sqrt(((query - keys) ** 2).sum(1)) / (2 * bandwidth**2) for query in queries]
    weights = np.exp(np.array(scores) - np.max(scores, 1, keepdims=True))
    return weights @ values / weights.sum(1, keepdims=True)


# %% wrong bookstore-4 the keys' lengths are left out
# Your score is the dot product of places. That prefers long keys to near ones: the term that
# depends on the key alone is missing.
# Seen: nfmcclure/tensorflow_cookbook#103
def augment(queries, keys, bandwidth):
    origin = keys.mean(0)
    q, k = (queries - origin) / bandwidth, (keys - origin) / bandwidth
    return np.hstack([q, np.zeros((len(q), 1))]), np.hstack([k, np.zeros((len(k), 1))])


def smooth(queries, keys, values, bandwidth):
    q, k = augment(queries, keys, bandwidth)
    scores = q @ k.T
    weights = np.exp(scores - scores.max(1, keepdims=True))
    return weights @ values / weights.sum(1, keepdims=True)


# %% wrong bookstore-4 the keys' lengths are not halved
# Your term for the key is twice as large as it should be. Multiply the square out, and divide
# everything by 2h².
def augment(queries, keys, bandwidth):
    origin = keys.mean(0)
    q, k = (queries - origin) / bandwidth, (keys - origin) / bandwidth
    norms = (k**2).sum(1, keepdims=True)
    return np.hstack([q, np.ones((len(q), 1))]), np.hstack([k, -norms])


def smooth(queries, keys, values, bandwidth):
    q, k = augment(queries, keys, bandwidth)
    scores = q @ k.T
    weights = np.exp(scores - scores.max(1, keepdims=True))
    return weights @ values / weights.sum(1, keepdims=True)


# %% wrong bookstore-4 the keys' lengths are added
# Your term for the key has the wrong sign: a key far from the origin should lose, not win.
def augment(queries, keys, bandwidth):
    origin = keys.mean(0)
    q, k = (queries - origin) / bandwidth, (keys - origin) / bandwidth
    norms = (k**2).sum(1, keepdims=True)
    return np.hstack([q, np.ones((len(q), 1))]), np.hstack([k, norms / 2])


def smooth(queries, keys, values, bandwidth):
    q, k = augment(queries, keys, bandwidth)
    scores = q @ k.T
    weights = np.exp(scores - scores.max(1, keepdims=True))
    return weights @ values / weights.sum(1, keepdims=True)


# %% wrong bookstore-4 every difference is stored
# You store the difference of every query and every key, all T · S · D numbers. With the square
# multiplied out, T · S scores are enough.
# Seen: Maghoumi/pytorch-softdtw-cuda#23
def augment(queries, keys, bandwidth):
    origin = keys.mean(0)
    q, k = (queries - origin) / bandwidth, (keys - origin) / bandwidth
    norms = (k**2).sum(1, keepdims=True)
    return np.hstack([q, np.ones((len(q), 1))]), np.hstack([k, -norms / 2])


def smooth(queries, keys, values, bandwidth):
    scores = -((queries[:, None] - keys) ** 2).sum(-1) / (2 * bandwidth**2)
    weights = np.exp(scores - scores.max(1, keepdims=True))
    return weights @ values / weights.sum(1, keepdims=True)


# %% wrong bookstore-4 not a number far from the data
# Far from all data every exponential vanishes, and you divide 0 by 0. The nearest place still
# counts more than the others: what made large scores harmless in bookstore-2?
def augment(queries, keys, bandwidth):
    origin = keys.mean(0)
    q, k = (queries - origin) / bandwidth, (keys - origin) / bandwidth
    norms = (k**2).sum(1, keepdims=True)
    return np.hstack([q, np.ones((len(q), 1))]), np.hstack([k, -norms / 2])


def smooth(queries, keys, values, bandwidth):
    q, k = augment(queries, keys, bandwidth)
    lengths = (q[:, :-1] ** 2).sum(1, keepdims=True)
    weights = np.exp(q @ k.T - lengths / 2)
    return weights @ values / weights.sum(1, keepdims=True)


# %% wrong bookstore-4 the plain mean far from the data
# Where every exponential vanishes you fall back on the mean of all values. The nearest place still
# counts more than the others, however far it is.
# Seen: sktime/skpro#772
def augment(queries, keys, bandwidth):
    origin = keys.mean(0)
    q, k = (queries - origin) / bandwidth, (keys - origin) / bandwidth
    norms = (k**2).sum(1, keepdims=True)
    return np.hstack([q, np.ones((len(q), 1))]), np.hstack([k, -norms / 2])


def smooth(queries, keys, values, bandwidth):
    q, k = augment(queries, keys, bandwidth)
    lengths = (q[:, :-1] ** 2).sum(1, keepdims=True)
    weights = np.exp(q @ k.T - lengths / 2)
    weights[weights.sum(1) == 0] = 1
    return weights @ values / weights.sum(1, keepdims=True)


# %% wrong bookstore-4 the query's own length, too
# You carry two more numbers per vector. One of the three terms is the same for all keys of a query:
# a softmax over the keys does not see it.
def augment(queries, keys, bandwidth):
    origin = keys.mean(0)
    q, k = (queries - origin) / bandwidth, (keys - origin) / bandwidth
    mine, theirs = (-(x**2).sum(1, keepdims=True) / 2 for x in (q, k))
    return np.hstack([q, np.ones_like(mine), mine]), np.hstack([k, theirs, np.ones_like(theirs)])


def smooth(queries, keys, values, bandwidth):
    q, k = augment(queries, keys, bandwidth)
    scores = q @ k.T
    weights = np.exp(scores - scores.max(1, keepdims=True))
    return weights @ values / weights.sum(1, keepdims=True)


# %% wrong bookstore-4 squares of a million
# Far from the origin your scores are differences of huge squares, and the digits that matter are
# lost. Move the origin first.
# Seen: scikit-learn/scikit-learn#9354
def augment(queries, keys, bandwidth):
    q, k = queries / bandwidth, keys / bandwidth
    norms = (k**2).sum(1, keepdims=True)
    return np.hstack([q, np.ones((len(q), 1))]), np.hstack([k, -norms / 2])


def smooth(queries, keys, values, bandwidth):
    q, k = augment(queries, keys, bandwidth)
    scores = q @ k.T
    weights = np.exp(scores - scores.max(1, keepdims=True))
    return weights @ values / weights.sum(1, keepdims=True)


# %% wrong bookstore-4 centres the caller's arrays in place
# You move the origin inside the arrays that the caller gave you. Whoever draws the map next finds
# every place somewhere else. Work on arrays of your own.
def augment(queries, keys, bandwidth):
    origin = keys.mean(0)
    queries -= origin
    keys -= origin
    q, k = queries / bandwidth, keys / bandwidth
    norms = (k**2).sum(1, keepdims=True)
    return np.hstack([q, np.ones((len(q), 1))]), np.hstack([k, -norms / 2])


def smooth(queries, keys, values, bandwidth):
    q, k = augment(queries, keys, bandwidth)
    scores = q @ k.T
    weights = np.exp(scores - scores.max(1, keepdims=True))
    return weights @ values / weights.sum(1, keepdims=True)


# %% wrong bookstore-4 each place shares itself out
# You let every known place share out a weight of 1 among the queries. An estimate is a mean: the
# weights of one query sum to 1.
# Seen: labmlai/annotated_deep_learning_paper_implementations#146
def augment(queries, keys, bandwidth):
    origin = keys.mean(0)
    q, k = (queries - origin) / bandwidth, (keys - origin) / bandwidth
    norms = (k**2).sum(1, keepdims=True)
    return np.hstack([q, np.ones((len(q), 1))]), np.hstack([k, -norms / 2])


def smooth(queries, keys, values, bandwidth):
    q, k = augment(queries, keys, bandwidth)
    scores = q @ k.T
    weights = np.exp(scores - scores.max(0, keepdims=True))
    return weights / weights.sum(0, keepdims=True) @ values


# %% [markdown]
# ## bookstore-5: Mend a widely copied lookup
#
# *bookstore-5 · 4 points · 12 minutes · ●●○○ difficulty 2 of 4*
#
# The function in the next cell is put together from lines that many repositories share. It runs,
# and what it returns looks like an answer. Copy it into the answer cell as `ask` and mend it until
# it keeps its promise:
#
# - `queries` is `[T, D]`, `keys` is `[S, D]` and `values` is `[S, E]`; the answer is `[T, E]`;
# - each query gets **its own answer**, the same as if it had asked alone;
# - the temperature **divides** the scores, and scores of a few thousand do no harm;
# - a batch works as well: `[B, T, D]`, `[B, S, D]` and `[B, S, E]` give `[B, T, E]`.
#
# Half of the points are for a case that has all of it at once.
#
# **A miniature** of one fault: with a single query there is one row of weights, and with a single
# row a sum down the columns is each weight itself. Divided by it, all weights are 1.
#
# Read first: *Softmax over the wrong axis* in [chapter 1](../book/01_bookstore.ipynb).
#
# <details>
# <summary>Hint 1 for bookstore-5: how to find the faults</summary>
#
# Ask with constant values: what must come out? Ask one query alone, then among others. Give the
# values another width than the keys. Write the shape beside every line.
#
# </details>
#
# <details>
# <summary>Hint 2 for bookstore-5: axes counted from the end</summary>
#
# The axes that matter are the last two. Name them from the end, and any number of axes in front
# takes care of itself.
#
# </details>


# %%
def ask_copied(queries, keys, values, temperature=1.0):
    """Wrong: find out where, then mend it in the answer cell below."""
    scores = queries @ keys.T * temperature
    weights = np.exp(scores)
    weights = weights / weights.sum(0)
    answers = weights @ keys
    return answers.mean(0)


# %% answer bookstore-5 points=4 minutes=12 difficulty=2 forbid=attnlearn,scipy
def ask(queries, keys, values, temperature=1.0):
    """queries [..., T, D], keys [..., S, D], values [..., S, E] -> [..., T, E]."""
    # BEGIN SOLUTION
    scores = queries @ np.swapaxes(keys, -1, -2) / temperature
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ values
    # END SOLUTION


# %% check bookstore-5
case = check("bookstore-5")


def _books(rng, T=3, S=4, D=2, E=2, batch=()):
    return [rng.normal(size=(*batch, *shape)) for shape in ((T, D), (S, D), (S, E))]


def _far_apart(rng, **sizes):
    queries, keys, values = _books(rng, T=3, S=4, D=2, **sizes)
    queries[..., 0] = [1, -1, 0]
    keys[..., 0] = [2500, 2500, 0, 0]
    return queries, keys, values


case("one query, four keys", lambda rng: ask(*_books(rng, T=1)))
case("three queries, four keys", lambda rng: ask(*_books(rng)))
case("values wider than keys", lambda rng: ask(*_books(rng, E=5)))
case("as many queries as keys", lambda rng: ask(*_books(rng, T=4)))
case("temperature 0.3", lambda rng: ask(*_books(rng), 0.3))
case("scores near 2500 and -2500", lambda rng: ask(*_far_apart(rng)))
case("a batch of 2", lambda rng: ask(*_books(rng, batch=(2,))))


@case("a query among others, minus the same query alone")
def _(rng):
    queries, keys, values = _books(rng)
    return ask(queries, keys, values)[:1] - ask(queries[:1], keys, values)


@case("all of it at once", weight=8)
def _(rng):
    return ask(*_far_apart(rng, E=4, batch=(2,)), 2.5)


# %% hidden bookstore-5
case = check("bookstore-5")
case("two axes in front", lambda rng: ask(*_books(rng, batch=(2, 3)), 0.5))
case("one key", lambda rng: ask(*_books(rng, S=1)))


# %% right bookstore-5 einsum
def ask(queries, keys, values, temperature=1.0):
    scores = np.einsum("...td,...sd->...ts", queries, keys) / temperature
    weights = np.exp(scores - np.logaddexp.reduce(scores, axis=-1, keepdims=True))
    return np.einsum("...ts,...se->...te", weights, values)


# %% right bookstore-5 one query at a time
def ask(queries, keys, values, temperature=1.0):
    answers = np.zeros((*queries.shape[:-1], values.shape[-1]))
    for place in np.ndindex(queries.shape[:-1]):
        scores = keys[place[:-1]] @ queries[place] / temperature
        shares = np.exp(scores - scores.max())
        answers[place] = shares @ values[place[:-1]] / shares.sum()
    return answers


# %% wrong bookstore-5 as it was copied
# Nothing is mended yet. Start with the shapes: how many answers come out for three queries?
def ask(queries, keys, values, temperature=1.0):
    scores = queries @ keys.T * temperature
    weights = np.exp(scores)
    weights = weights / weights.sum(0)
    answers = weights @ keys
    return answers.mean(0)


# %% wrong bookstore-5 normalised over the queries
# Your columns sum to 1: each key shares itself out among the queries. It is the query, a row, that
# has a weight of 1 to give.
# Seen: labmlai/annotated_deep_learning_paper_implementations#146
def ask(queries, keys, values, temperature=1.0):
    scores = queries @ np.swapaxes(keys, -1, -2) / temperature
    weights = np.exp(scores - scores.max(-2, keepdims=True))
    return weights / weights.sum(-2, keepdims=True) @ values


# %% wrong bookstore-5 over axis 1
# You name axis 1. With a batch in front, that axis counts the queries.
# Seen: FudanNLP/fastNLP#254
def ask(queries, keys, values, temperature=1.0):
    scores = queries @ np.swapaxes(keys, -1, -2) / temperature
    weights = np.exp(scores - scores.max(1, keepdims=True))
    return weights / weights.sum(1, keepdims=True) @ values


# %% wrong bookstore-5 keys in place of values
# You mix the keys and never look at the values. Where both are the same array, nobody notices.
# Seen: ruvnet/agentic-flow#191
def ask(queries, keys, values, temperature=1.0):
    scores = queries @ np.swapaxes(keys, -1, -2) / temperature
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ keys


# %% wrong bookstore-5 the values are searched
# You compare the queries with the values. They are compared with the keys; values may not even
# have as many numbers.
# Seen: Genentech/ARGMINN#1
def ask(queries, keys, values, temperature=1.0):
    scores = queries @ np.swapaxes(values, -1, -2) / temperature
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ values


# %% wrong bookstore-5 one answer for all queries
# You take the mean over the queries, and all of them get one answer. Each asked for itself.
def ask(queries, keys, values, temperature=1.0):
    scores = queries @ np.swapaxes(keys, -1, -2) / temperature
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return (weights / weights.sum(-1, keepdims=True) @ values).mean(-2)


# %% wrong bookstore-5 divided by the number of values
# You take the mean over the weighted values. The weights have already made a mean of them: what
# comes out when all values are 1?
# Seen: cgpotts/cs224u#116
def ask(queries, keys, values, temperature=1.0):
    scores = queries @ np.swapaxes(keys, -1, -2) / temperature
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ values / values.shape[-2]


# %% wrong bookstore-5 the temperature multiplies
# Your temperature works the wrong way round: you multiply scores by it.
# Seen: bowang-lab/BLEEP#5
def ask(queries, keys, values, temperature=1.0):
    scores = queries @ np.swapaxes(keys, -1, -2) * temperature
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ values


# %% wrong bookstore-5 no maximum subtracted
# The exponential of a large score overflows, that of a very negative one vanishes. You know the
# remedy from bookstore-2.
# Seen: uTensor/uTensor#175
def ask(queries, keys, values, temperature=1.0):
    weights = np.exp(queries @ np.swapaxes(keys, -1, -2) / temperature)
    return weights / weights.sum(-1, keepdims=True) @ values


# %% wrong bookstore-5 one maximum for all queries
# You subtract the largest score of all queries. One query with low scores then vanishes: each needs
# its own maximum.
# Seen: lzx1413/PytorchSSD#22
def ask(queries, keys, values, temperature=1.0):
    scores = queries @ np.swapaxes(keys, -1, -2) / temperature
    weights = np.exp(scores - scores.max())
    return weights / weights.sum(-1, keepdims=True) @ values


# %% wrong bookstore-5 a batch turned inside out
# `.T` turns all axes round. A batch of keys is [B, S, D], and only its last two axes should change
# places.
# Seen: flrngel/Self-Attentive-tensorflow#3
def ask(queries, keys, values, temperature=1.0):
    scores = queries @ keys.T / temperature
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ values


# %% [markdown]
# ## bookstore-6: Look up in a stream that passes once
#
# *bookstore-6 · 6 points · 16 minutes · ●●●● difficulty 4 of 4*
#
# The bookstore has become too large to lay out at once. Its books arrive in chunks, and each chunk
# passes by **once**: you can't go back, and you can't keep them. Write
# `look_up_stream(queries, chunks, E)`: `queries` is `[T, D]`, and `chunks` yields pairs of keys
# `[n, D]` and values `[n, E]`, with any `n`, also 0. The answers `[T, E]` are those of a soft
# lookup at temperature 1 in all chunks together:
#
# - **large** scores, near 1000 or −1000, rising or falling along the stream, do no harm;
# - **empty chunks** change nothing, and if nothing comes at all, the answers are zeros;
# - the memory needed is that of one chunk, not of the stream.
#
# Half of the points are for a case that has most of it at once.
#
# **A miniature.** The query `[1]` meets a chunk with key `[0]` and value `[10]`, then a chunk with
# keys `[0]`, `[0]` and values `[40]`, `[40]`. All three scores are 0, so the answer is 30, not 25.
#
# Read first: *Three roles* in [chapter 1](../book/01_bookstore.ipynb).
#
# <details>
# <summary>Hint 1 for bookstore-6: what to keep</summary>
#
# A weighted mean is a weighted sum, divided by the sum of the weights. Both sums can grow chunk by
# chunk. When do you divide?
#
# </details>
#
# <details>
# <summary>Hint 2 for bookstore-6: a maximum that is overtaken</summary>
#
# Keep the largest score so far as well, for each query. All you have summed is relative to it.
# When a larger one comes, by which factor must the old sums shrink?
#
# </details>


# %% answer bookstore-6 points=6 minutes=16 difficulty=4 forbid=attnlearn,scipy
def look_up_stream(queries, chunks, E):
    """queries [T, D], chunks yields keys [n, D] and values [n, E], once -> answers [T, E]."""
    # BEGIN SOLUTION
    top = np.full((len(queries), 1), -np.inf)
    total = np.zeros((len(queries), 1))
    summed = np.zeros((len(queries), E))
    for keys, values in chunks:
        if len(keys) == 0:
            continue
        scores = queries @ keys.T
        higher = np.maximum(top, scores.max(1, keepdims=True))
        shrink, weights = np.exp(top - higher), np.exp(scores - higher)
        total = total * shrink + weights.sum(1, keepdims=True)
        summed = summed * shrink + weights @ values
        top = higher
    return summed / np.where(total == 0, 1, total)
    # END SOLUTION


# %% check bookstore-6
case = check("bookstore-6")


def _stream(rng, sizes, heights=(0, 8), D=3):
    """Chunks of books; the first query likes a chunk's height, the second one dislikes it."""
    for n, height in zip(sizes, np.resize(heights, len(sizes)), strict=True):
        keys, values = rng.normal(size=(n, D)), rng.normal(size=(n, 2))
        keys[:, 0] = height
        yield keys, values


def _queries(rng, D=3):
    queries = rng.normal(size=(3, D)) / np.sqrt(D)
    queries[:, 0] = [1, -1, 0]
    return queries


def _extra_mb(f):
    tracemalloc.start()
    try:
        f()
        return tracemalloc.get_traced_memory()[1] / 2**20
    finally:
        tracemalloc.stop()


case("one chunk", lambda rng: look_up_stream(_queries(rng), _stream(rng, [4]), 2))


@case("three chunks of different length")
def _(rng):
    return look_up_stream(_queries(rng), _stream(rng, [3, 1, 4]), 2)


case("one book at a time", lambda rng: look_up_stream(_queries(rng), _stream(rng, [1] * 5), 2))


@case("each chunk 1000 higher or lower than the one before")
def _(rng):
    return look_up_stream(_queries(rng), _stream(rng, [2, 3, 2], (-1000, 0, 1000)), 2)


@case("scores near 1000 and -1000")
def _(rng):
    return look_up_stream(_queries(rng), _stream(rng, [2, 3], (1000, 1008)), 2)


@case("books far apart in one chunk")
def _(rng):
    keys, values = next(_stream(rng, [4]))
    keys[:, 0] = [0, 900, -900, 0]
    return look_up_stream(_queries(rng), iter([(keys, values)]), 2)


@case("empty chunks between the others")
def _(rng):
    return look_up_stream(_queries(rng), _stream(rng, [2, 0, 0, 3]), 2)


case("an empty chunk first", lambda rng: look_up_stream(_queries(rng), _stream(rng, [0, 3]), 2))
case("nothing comes", lambda rng: look_up_stream(_queries(rng), iter([]), 2))


@case("extra memory in MB, 12 chunks of 0.01 MB", weight=2, at_most=0.08)
def _(rng):
    queries = _queries(rng, 300)
    return _extra_mb(lambda: look_up_stream(queries, _stream(rng, [4] * 12, D=300), 2))


@case("most of it at once", weight=11)
def _(rng):
    queries, answers = _queries(rng, 300), []
    sizes, heights = [0, 4, 1, 0] + [4] * 10, (1200, 1000, 1001, 1500, 2000, 1100)
    peak = _extra_mb(
        lambda: answers.append(look_up_stream(queries, _stream(rng, sizes, heights, 300), 2))
    )
    return {
        "answers": answers[0],
        "nothing": look_up_stream(queries, iter([]), 2),
        "small": peak < 0.08,
    }


# %% hidden bookstore-6
case = check("bookstore-6")


@case("a low chunk, then a high one, then none")
def _(rng):
    return look_up_stream(_queries(rng), _stream(rng, [3, 2, 0], (-800, 800, 0)), 2)


# %% right bookstore-6 with the logarithm of the sum
def look_up_stream(queries, chunks, E):
    lse = np.full(len(queries), -np.inf)
    answers = np.zeros((len(queries), E))
    for keys, values in chunks:
        if len(keys):
            scores = queries @ keys.T
            new = np.logaddexp(lse, np.logaddexp.reduce(scores, axis=1))
            answers = np.exp(lse - new)[:, None] * answers + np.exp(scores - new[:, None]) @ values
            lse = new
    return answers


# %% right bookstore-6 query by query, book by book
def look_up_stream(queries, chunks, E):
    tops, totals = [-np.inf] * len(queries), [0.0] * len(queries)
    answers = np.zeros((len(queries), E))
    for keys, values in chunks:
        for key, value in zip(keys, values, strict=True):
            for t, query in enumerate(queries):
                score = query @ key
                if score > tops[t]:
                    totals[t] *= np.exp(tops[t] - score)
                    tops[t] = score
                weight = np.exp(score - tops[t])
                totals[t] += weight
                answers[t] += weight / totals[t] * (value - answers[t])
    return answers


# %% wrong bookstore-6 the mean of the chunks' answers
# You take the mean of one answer per chunk. A chunk with many books, or with better ones, must
# count for more: try the miniature.
# Seen: chainer/chainer#1739
# Seen: Lightning-AI/pytorch-lightning#2924
def look_up_stream(queries, chunks, E):
    answers = []
    for keys, values in chunks:
        if len(keys):
            scores = queries @ keys.T
            weights = np.exp(scores - scores.max(1, keepdims=True))
            answers.append(weights / weights.sum(1, keepdims=True) @ values)
    return np.mean(answers, 0) if answers else np.zeros((len(queries), E))


# %% wrong bookstore-6 chunks weighted by their length
# You weight the answer of a chunk by the number of its books. That is the right mean only if all
# books score alike: a chunk counts with the sum of its weights.
def look_up_stream(queries, chunks, E):
    summed, books = np.zeros((len(queries), E)), 0
    for keys, values in chunks:
        if len(keys):
            scores = queries @ keys.T
            weights = np.exp(scores - scores.max(1, keepdims=True))
            summed += len(keys) * (weights / weights.sum(1, keepdims=True) @ values)
            books += len(keys)
    return summed / max(books, 1)


# %% wrong bookstore-6 every chunk counts from its own maximum
# You subtract a different maximum in every chunk and add the results up. They are measured from
# different heights: bring the old sums to the new height first.
def look_up_stream(queries, chunks, E):
    total, summed = np.zeros((len(queries), 1)), np.zeros((len(queries), E))
    for keys, values in chunks:
        if len(keys):
            scores = queries @ keys.T
            weights = np.exp(scores - scores.max(1, keepdims=True))
            total += weights.sum(1, keepdims=True)
            summed += weights @ values
    return summed / np.where(total == 0, 1, total)


# %% wrong bookstore-6 the old sums don't shrink
# You keep the largest score so far, but leave the old sums as they are when it is overtaken. They
# were measured from the old maximum.
def look_up_stream(queries, chunks, E):
    top = np.full((len(queries), 1), -np.inf)
    total, summed = np.zeros((len(queries), 1)), np.zeros((len(queries), E))
    for keys, values in chunks:
        if len(keys):
            scores = queries @ keys.T
            top = np.maximum(top, scores.max(1, keepdims=True))
            weights = np.exp(scores - top)
            total += weights.sum(1, keepdims=True)
            summed += weights @ values
    return summed / np.where(total == 0, 1, total)


# %% wrong bookstore-6 only one of the two sums shrinks
# You shrink the weighted sum of the values and forget the sum of the weights. Numerator and
# denominator must be measured from the same maximum.
def look_up_stream(queries, chunks, E):
    top = np.full((len(queries), 1), -np.inf)
    total, summed = np.zeros((len(queries), 1)), np.zeros((len(queries), E))
    for keys, values in chunks:
        if len(keys):
            scores = queries @ keys.T
            higher = np.maximum(top, scores.max(1, keepdims=True))
            weights = np.exp(scores - higher)
            total = total + weights.sum(1, keepdims=True)
            summed = summed * np.exp(top - higher) + weights @ values
            top = higher
    return summed / np.where(total == 0, 1, total)


# %% wrong bookstore-6 the sum of the values doesn't shrink
# You shrink the sum of the weights and forget the weighted sum of the values. Numerator and
# denominator must be measured from the same maximum.
def look_up_stream(queries, chunks, E):
    top = np.full((len(queries), 1), -np.inf)
    total, summed = np.zeros((len(queries), 1)), np.zeros((len(queries), E))
    for keys, values in chunks:
        if len(keys):
            scores = queries @ keys.T
            higher = np.maximum(top, scores.max(1, keepdims=True))
            weights = np.exp(scores - higher)
            total = total * np.exp(top - higher) + weights.sum(1, keepdims=True)
            summed = summed + weights @ values
            top = higher
    return summed / np.where(total == 0, 1, total)


# %% wrong bookstore-6 the factor is upside down
# Your old sums grow when a larger score comes. They should shrink: exponentials measured from a
# higher maximum are smaller.
# Seen: deepseek-ai/FlashMLA#177
def look_up_stream(queries, chunks, E):
    top, total, summed = None, np.zeros((len(queries), 1)), np.zeros((len(queries), E))
    for keys, values in chunks:
        if len(keys):
            scores = queries @ keys.T
            highest = scores.max(1, keepdims=True)
            higher = highest if top is None else np.maximum(top, highest)
            grow = 1 if top is None else np.exp(higher - top)
            weights = np.exp(scores - higher)
            total = total * grow + weights.sum(1, keepdims=True)
            summed = summed * grow + weights @ values
            top = higher
    return summed / np.where(total == 0, 1, total)


# %% wrong bookstore-6 the maximum of the last chunk only
# You forget the maximum of earlier chunks. If a much lower chunk follows, the factor for the old
# sums overflows: the maximum may rise, never fall.
# Seen: tile-ai/tilelang#1148
def look_up_stream(queries, chunks, E):
    top = np.full((len(queries), 1), -np.inf)
    total, summed = np.zeros((len(queries), 1)), np.zeros((len(queries), E))
    for keys, values in chunks:
        if len(keys):
            scores = queries @ keys.T
            latest = scores.max(1, keepdims=True)
            shrink, weights = np.exp(top - latest), np.exp(scores - latest)
            total = total * shrink + weights.sum(1, keepdims=True)
            summed = summed * shrink + weights @ values
            top = latest
    return summed / np.where(total == 0, 1, total)


# %% wrong bookstore-6 the maximum starts at 0
# Your maximum starts at 0, as if a book with that score had already passed. Where all scores are
# very negative, every weight vanishes.
# Seen: uTensor/uTensor#176
def look_up_stream(queries, chunks, E):
    top = np.zeros((len(queries), 1))
    total, summed = np.zeros((len(queries), 1)), np.zeros((len(queries), E))
    for keys, values in chunks:
        if len(keys):
            scores = queries @ keys.T
            higher = np.maximum(top, scores.max(1, keepdims=True))
            shrink, weights = np.exp(top - higher), np.exp(scores - higher)
            total = total * shrink + weights.sum(1, keepdims=True)
            summed = summed * shrink + weights @ values
            top = higher
    return summed / np.where(total == 0, 1, total)


# %% wrong bookstore-6 no maximum at all
# You add up plain exponentials. At a score of 1000 they overflow, at -1000 they vanish.
# Seen: pyg-team/pytorch_geometric#53
def look_up_stream(queries, chunks, E):
    total, summed = np.zeros((len(queries), 1)), np.zeros((len(queries), E))
    for keys, values in chunks:
        weights = np.exp(queries @ keys.T)
        total += weights.sum(1, keepdims=True)
        summed += weights @ values
    return summed / np.where(total == 0, 1, total)


# %% wrong bookstore-6 one maximum for all queries
# All your queries share one maximum. A query whose scores are much lower then loses all its
# weights: keep one maximum per query.
# Seen: lzx1413/PytorchSSD#22
def look_up_stream(queries, chunks, E):
    top = -np.inf
    total, summed = np.zeros((len(queries), 1)), np.zeros((len(queries), E))
    for keys, values in chunks:
        if len(keys):
            scores = queries @ keys.T
            higher = max(top, scores.max())
            shrink, weights = np.exp(top - higher), np.exp(scores - higher)
            total = total * shrink + weights.sum(1, keepdims=True)
            summed = summed * shrink + weights @ values
            top = higher
    return summed / np.where(total == 0, 1, total)


# %% wrong bookstore-6 an empty chunk first gives NaN
# An empty chunk at the start leaves your maximum at minus infinity, and minus infinity minus itself
# is not a number. What is there to do for an empty chunk?
# Seen: gabrieldemarmiesse/torch-mojo-backend#319
def look_up_stream(queries, chunks, E):
    top = np.full((len(queries), 1), -np.inf)
    total, summed = np.zeros((len(queries), 1)), np.zeros((len(queries), E))
    for keys, values in chunks:
        scores = queries @ keys.T
        higher = np.maximum(top, scores.max(1, keepdims=True, initial=-np.inf))
        shrink, weights = np.exp(top - higher), np.exp(scores - higher)
        total = total * shrink + weights.sum(1, keepdims=True)
        summed = summed * shrink + weights @ values
        top = higher
    return summed / np.where(total == 0, 1, total)


# %% wrong bookstore-6 an empty chunk breaks the stream
# An empty chunk stops you with an error: it has no largest score. What is there to do for it?
def look_up_stream(queries, chunks, E):
    top = np.full((len(queries), 1), -np.inf)
    total, summed = np.zeros((len(queries), 1)), np.zeros((len(queries), E))
    for keys, values in chunks:
        scores = queries @ keys.T
        higher = np.maximum(top, scores.max(1, keepdims=True))
        shrink, weights = np.exp(top - higher), np.exp(scores - higher)
        total = total * shrink + weights.sum(1, keepdims=True)
        summed = summed * shrink + weights @ values
        top = higher
    return summed / np.where(total == 0, 1, total)


# %% wrong bookstore-6 an empty chunk ends the stream
# You stop at an empty chunk. It changes nothing, but others may come behind it.
def look_up_stream(queries, chunks, E):
    top = np.full((len(queries), 1), -np.inf)
    total, summed = np.zeros((len(queries), 1)), np.zeros((len(queries), E))
    for keys, values in chunks:
        if len(keys) == 0:
            break
        scores = queries @ keys.T
        higher = np.maximum(top, scores.max(1, keepdims=True))
        shrink, weights = np.exp(top - higher), np.exp(scores - higher)
        total = total * shrink + weights.sum(1, keepdims=True)
        summed = summed * shrink + weights @ values
        top = higher
    return summed / np.where(total == 0, 1, total)


# %% wrong bookstore-6 nothing comes, and 0 is divided by 0
# If nothing comes, you divide 0 by 0. Then the answers are zeros.
def look_up_stream(queries, chunks, E):
    top = np.full((len(queries), 1), -np.inf)
    total, summed = np.zeros((len(queries), 1)), np.zeros((len(queries), E))
    for keys, values in chunks:
        if len(keys):
            scores = queries @ keys.T
            higher = np.maximum(top, scores.max(1, keepdims=True))
            shrink, weights = np.exp(top - higher), np.exp(scores - higher)
            total = total * shrink + weights.sum(1, keepdims=True)
            summed = summed * shrink + weights @ values
            top = higher
    return summed / total


# %% wrong bookstore-6 everything is kept
# You keep all chunks and look up at the end. The store is too large for that: three things per
# query are enough to remember.
def look_up_stream(queries, chunks, E):
    chunks = [chunk for chunk in chunks if len(chunk[0])]
    if not chunks:
        return np.zeros((len(queries), E))
    keys, values = (np.concatenate(part) for part in zip(*chunks, strict=True))
    scores = queries @ keys.T
    weights = np.exp(scores - scores.max(1, keepdims=True))
    return weights @ values / weights.sum(1, keepdims=True)


# %% wrong bookstore-6 the stream is read twice
# You read the stream twice, first for the maximum. It passes once: the second time nothing comes.
def look_up_stream(queries, chunks, E):
    top = np.full((len(queries), 1), -np.inf)
    for keys, _ in chunks:
        top = np.maximum(top, (queries @ keys.T).max(1, keepdims=True, initial=-np.inf))
    total, summed = np.zeros((len(queries), 1)), np.zeros((len(queries), E))
    for keys, values in chunks:
        weights = np.exp(queries @ keys.T - top)
        total += weights.sum(1, keepdims=True)
        summed += weights @ values
    return summed / np.where(total == 0, 1, total)


# %% [markdown]
# ## bookstore-7: Write the check
#
# *bookstore-7 · 4 points · 12 minutes · ●●●○ difficulty 3 of 4*
#
# Now you are the one who checks. Some of the faults above got past tests that could not see them:
# the keys were also the values, or the scores were small. Write `accepts(ask)`. It gets a
# *function* that somebody else wrote, `ask(queries, keys, values)`, supposed to give the answers
# `[T, E]` of a soft lookup at temperature 1; you return `True` if it does, `False` if not.
#
# - Right lookups come in several styles, and rounding is no mistake: accept answers that are off
#   by a millionth.
# - A lookup must work for one query and for several, for one key and for several, and for scores
#   of a few thousand.
# - A lookup that raises an error, or changes the arrays it was given, is wrong: return `False`,
#   and don't let the error through.
# - Judge only by calling it, with arrays that you choose. Up to 8 queries and 8 keys are enough.
#
# **A miniature.** `lambda queries, keys, values: values[:1]` gives the first value, whatever was
# asked. If you ask for one book in a store of one, you can't tell.
#
# The check cell hands you one right and one wrong lookup at a time: you need both verdicts. Half
# of the points are for judging all of them rightly.
# Read first: *What goes wrong in real code* in [chapter 1](../book/01_bookstore.ipynb).
#
# <details>
# <summary>Hint 1 for bookstore-7: what to compare</summary>
#
# A loop over queries and keys that follows the rule word for word is slow and hard to get wrong:
# compare with that. And what does your comparison say when an answer is NaN?
#
# </details>
#
# <details>
# <summary>Hint 2 for bookstore-7: what must not matter</summary>
#
# For every mistake in the tasks above, ask: with which sizes and numbers does it give the right
# answer all the same? Stay away from those.
#
# </details>


# %% answer bookstore-7 points=4 minutes=12 difficulty=3 forbid=attnlearn,scipy
def accepts(ask):
    """True if ask(queries, keys, values) is a soft lookup, False if it is wrong or raises."""
    # BEGIN SOLUTION
    rng = np.random.RandomState(1)
    for T in (1, 4):
        for size in (1, 40):
            queries, keys, values = given = [size * rng.normal(size=(n, 2)) for n in (T, 3, 3)]
            before = [array.copy() for array in given]
            want = []
            for query in queries:
                scores = keys @ query
                weights = np.exp(scores - scores.max())
                want.append(weights @ values / weights.sum())
            try:
                got = np.asarray(ask(*given))
            except Exception:
                return False
            if got.shape != (T, 2) or not np.allclose(got, want):
                return False
            if not all(map(np.array_equal, before, given)):
                return False
    return True
    # END SOLUTION


# %% check bookstore-7
case = check("bookstore-7")


def _weights(queries, keys):
    scores = queries @ keys.T
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


def _right(queries, keys, values):
    return _weights(queries, keys) @ values


def _right_too(queries, keys, values):  # in another order, and rounded to 32 bits
    scores = keys[::-1] @ queries.T
    shares = np.exp(scores - np.logaddexp.reduce(scores, axis=0))
    return (shares.T @ values[::-1]).astype(np.float32)


def _over_queries(queries, keys, values):
    return _weights(keys, queries).T @ values


def _keys_for_values(queries, keys, values):
    return _weights(queries, keys) @ keys


def _one_answer_for_all(queries, keys, values):
    return np.broadcast_to(_right(queries, keys, values).mean(0), (len(queries), values.shape[1]))


def _not_normalised(queries, keys, values):
    scores = queries @ keys.T
    return np.exp(scores - scores.max(-1, keepdims=True)) @ values


def _too_warm(queries, keys, values):
    return _right(queries / 2, keys, values)


def _best_takes_all(queries, keys, values):
    return values[(queries @ keys.T).argmax(-1)]


def _overflows(queries, keys, values):
    weights = np.exp(queries @ keys.T)
    return weights @ values / weights.sum(-1, keepdims=True)


def _overflows_to_zero(queries, keys, values):
    return np.nan_to_num(_overflows(queries, keys, values), posinf=0.0, neginf=0.0)


def _weights_below_0(queries, keys, values):
    return 2 * _right(queries, keys, values) - values.mean(0)


def _prefers_the_first(queries, keys, values):
    weights = _weights(queries, keys) + np.eye(1, len(keys))
    return weights @ values / 2


def _moves_the_keys(queries, keys, values):
    keys -= keys.mean(0)
    return _right(queries, keys, values)


def _no_single_query(queries, keys, values):
    if len(queries) == 1:
        raise IndexError("too few queries")
    return _right(queries, keys, values)


def _squeezed(queries, keys, values):
    return np.squeeze(_right(queries, keys, values))


def _verdicts(right, wrong):
    return {"the right lookup": accepts(right), "the wrong lookup": accepts(wrong)}


case("each key shares itself out", lambda: _verdicts(_right, _over_queries))
case("keys in place of values", lambda: _verdicts(_right_too, _keys_for_values))
case("one answer for all queries", lambda: _verdicts(_right, _one_answer_for_all))
case("weights that don't sum to 1", lambda: _verdicts(_right_too, _not_normalised))
case("temperature 2", lambda: _verdicts(_right, _too_warm))
case("the best book takes all", lambda: _verdicts(_right_too, _best_takes_all))
case("large scores overflow", lambda: _verdicts(_right, _overflows))
case("overflow covered up with zeros", lambda: _verdicts(_right_too, _overflows_to_zero))
case("weights below 0", lambda: _verdicts(_right, _weights_below_0))
case("the first book is preferred", lambda: _verdicts(_right_too, _prefers_the_first))
case("the caller's keys are moved", lambda: _verdicts(_right, _moves_the_keys))
case("an error for a single query", lambda: _verdicts(_right_too, _no_single_query))
case("axes of length 1 are lost", lambda: _verdicts(_right, _squeezed))


@case("all of them together", weight=13)
def _():
    asks = (_right, _right_too, _over_queries, _keys_for_values, _one_answer_for_all)
    asks += (_not_normalised, _too_warm, _best_takes_all, _overflows, _prefers_the_first)
    asks += (_overflows_to_zero, _weights_below_0, _moves_the_keys, _no_single_query, _squeezed)
    return {ask.__name__: accepts(ask) for ask in asks}


# %% hidden bookstore-7
case = check("bookstore-7")


def _forgets_the_last(queries, keys, values):
    return _right(queries, keys[: max(1, len(keys) - 1)], values[: max(1, len(keys) - 1)])


def _answers_reversed(queries, keys, values):
    return _right(queries, keys, values)[::-1]


case("the last book is forgotten", lambda: _verdicts(_right, _forgets_the_last))
case("answers in reverse order", lambda: _verdicts(_right_too, _answers_reversed))


# %% right bookstore-7 by properties, without a model answer
def accepts(ask):
    rng = np.random.RandomState(5)

    def same(a, b):
        return np.shape(a) == np.shape(b) and np.allclose(a, b, rtol=1e-5, atol=1e-6)

    try:
        for T, S in [(1, 1), (4, 3)]:
            q, k, v = rng.normal(size=(T, 2)), rng.normal(size=(S, 2)), rng.normal(size=(S, 3))
            copies = q.copy(), k.copy(), v.copy()
            got = np.array(ask(q, k, v))
            if not all(map(same, copies, (q, k, v))) or got.shape != (T, 3):
                return False
            order = rng.permutation(S)
            if not same(ask(q, k[order], v[order]), got):
                return False
            if not same(ask(q, k, np.ones((S, 1))), np.ones((T, 1))):
                return False
            if not all(same(ask(q[t : t + 1], k, v), got[t : t + 1]) for t in range(T)):
                return False
        pair = np.array([[0.0], [1.0]])
        for score in (0.3, 1000.0):
            share = 1 / (1 + np.exp(-score))
            if not same(ask(np.array([[score]]), pair, pair + 1), [[1 + share]]):
                return False
            if not same(ask(np.array([[score]]), pair, 5 * pair), [[5 * share]]):
                return False
    except Exception:
        return False
    return True


# %% right bookstore-7 with plain loops
def accepts(ask):
    rng = np.random.RandomState(2)
    for T in (1, 4):
        for S in (1, 3):
            for size in (0.5, 15):
                q, k, v = (size * rng.uniform(-1, 1, (n, 3)) for n in (T, S, S))
                q[0] = k[0] = 2 * size
                kept = [array.tobytes() for array in (q, k, v)]
                want = []
                for query in q:
                    scores = [float(query @ key) for key in k]
                    shares = [np.exp(score - max(scores)) for score in scores]
                    want.append(np.array(shares) @ v / sum(shares))
                try:
                    got = ask(q, k, v)
                    error = np.abs(np.array(got) - want).max()
                except Exception:
                    return False
                if np.shape(got) != (T, 3) or not error < 1e-5 * size:
                    return False
                if kept != [array.tobytes() for array in (q, k, v)]:
                    return False
    return True


# %% wrong bookstore-7 the keys are also the values
# A lookup that mixes the keys passes your check. Where keys and values are the same array, nobody
# can tell which of the two was mixed.
# Seen: ruvnet/agentic-flow#191
def accepts(ask):
    rng = np.random.RandomState(1)
    for T, S, D, size in [(1, 1, 2, 1), (1, 5, 1, 1), (4, 3, 2, 1), (3, 6, 3, 40)]:
        q, k = size * rng.normal(size=(T, D)), size * rng.normal(size=(S, D))
        given = [q, k, k.copy()]
        before = [array.copy() for array in given]
        try:
            got = np.asarray(ask(*given))
        except Exception:
            return False
        if got.shape != (T, D) or not np.allclose(got, _model(*before)):
            return False
        if not all(np.array_equal(a, b) for a, b in zip(given, before, strict=True)):
            return False
    return True


def _model(queries, keys, values):
    scores = queries @ keys.T
    weights = np.exp(scores - scores.max(1, keepdims=True))
    return weights @ values / weights.sum(1, keepdims=True)


# %% wrong bookstore-7 small scores only
# A lookup that overflows passes your check. Its weights are right until somebody brings larger
# scores.
def accepts(ask):
    rng = np.random.RandomState(1)
    for T, S, D, E in [(1, 1, 2, 1), (4, 3, 2, 3), (3, 6, 3, 3)]:
        given = [rng.normal(size=shape) for shape in ((T, D), (S, D), (S, E))]
        before = [array.copy() for array in given]
        try:
            got = np.asarray(ask(*given))
        except Exception:
            return False
        if got.shape != (T, E) or not np.allclose(got, _model(*before)):
            return False
        if not all(np.array_equal(a, b) for a, b in zip(given, before, strict=True)):
            return False
    return True


def _model(queries, keys, values):
    scores = queries @ keys.T
    weights = np.exp(scores - scores.max(1, keepdims=True))
    return weights @ values / weights.sum(1, keepdims=True)


# %% wrong bookstore-7 large scores only
# A hard lookup, or one at another temperature, passes your check. Where scores are far apart, the
# best book has all the weight in any case.
def accepts(ask):
    rng = np.random.RandomState(1)
    for T, S, D, E in [(1, 1, 2, 1), (4, 3, 2, 3), (3, 6, 3, 3)]:
        given = [300 * rng.normal(size=shape) for shape in ((T, D), (S, D), (S, E))]
        before = [array.copy() for array in given]
        try:
            got = np.asarray(ask(*given))
        except Exception:
            return False
        if got.shape != (T, E) or not np.allclose(got, _model(*before)):
            return False
        if not all(np.array_equal(a, b) for a, b in zip(given, before, strict=True)):
            return False
    return True


def _model(queries, keys, values):
    scores = queries @ keys.T
    weights = np.exp(scores - scores.max(1, keepdims=True))
    return weights @ values / weights.sum(1, keepdims=True)


# %% wrong bookstore-7 NaN passes the comparison
# A lookup that answers NaN passes your check. NaN is never larger than anything, so no error looks
# too *large*: ask whether it is small enough.
# Seen: stretchr/testify#162
def accepts(ask):
    rng = np.random.RandomState(1)
    for T, S, D, E, size in [(1, 1, 2, 1, 1), (4, 3, 2, 3, 1), (3, 6, 3, 3, 40)]:
        given = [size * rng.normal(size=shape) for shape in ((T, D), (S, D), (S, E))]
        before = [array.copy() for array in given]
        try:
            got = np.asarray(ask(*given))
        except Exception:
            return False
        if got.shape != (T, E) or np.abs(got - _model(*before)).max() > 1e-5 * size:
            return False
        if not all(np.array_equal(a, b) for a, b in zip(given, before, strict=True)):
            return False
    return True


def _model(queries, keys, values):
    scores = queries @ keys.T
    weights = np.exp(scores - scores.max(1, keepdims=True))
    return weights @ values / weights.sum(1, keepdims=True)


# %% wrong bookstore-7 the last digit counts
# A right lookup is rejected that adds in another order and rounds to 32 bits. How far may two right
# answers be apart?
def accepts(ask):
    rng = np.random.RandomState(1)
    for T, S, D, E, size in [(1, 1, 2, 1, 1), (4, 3, 2, 3, 1), (3, 6, 3, 3, 40)]:
        given = [size * rng.normal(size=shape) for shape in ((T, D), (S, D), (S, E))]
        before = [array.copy() for array in given]
        try:
            got = np.asarray(ask(*given))
        except Exception:
            return False
        if got.shape != (T, E) or not np.allclose(got, _model(*before), rtol=0, atol=1e-13):
            return False
        if not all(np.array_equal(a, b) for a, b in zip(given, before, strict=True)):
            return False
    return True


def _model(queries, keys, values):
    scores = queries @ keys.T
    weights = np.exp(scores - scores.max(1, keepdims=True))
    return weights @ values / weights.sum(1, keepdims=True)


# %% wrong bookstore-7 the model answer has a fault of its own
# Right lookups are rejected, and one that shares out over the queries is accepted. Is that what
# your own model answer does? Work out a small case by hand.
# Seen: openvinotoolkit/openvino#5778
def accepts(ask):
    rng = np.random.RandomState(1)
    for T, S, D, E, size in [(1, 1, 2, 1, 1), (4, 3, 2, 3, 1), (3, 6, 3, 3, 40)]:
        given = [size * rng.normal(size=shape) for shape in ((T, D), (S, D), (S, E))]
        before = [array.copy() for array in given]
        try:
            got = np.asarray(ask(*given))
        except Exception:
            return False
        if got.shape != (T, E) or not np.allclose(got, _model(*before)):
            return False
        if not all(np.array_equal(a, b) for a, b in zip(given, before, strict=True)):
            return False
    return True


def _model(queries, keys, values):
    scores = queries @ keys.T
    weights = np.exp(scores - scores.max(0, keepdims=True))
    return weights / weights.sum(0, keepdims=True) @ values


# %% wrong bookstore-7 only constant values
# Lookups with wrong weights pass your check, if only the weights sum to 1. Constant values show
# that sum and nothing else: which book got how much?
def accepts(ask):
    rng = np.random.RandomState(1)
    for T, S, D, size in [(1, 1, 2, 1), (1, 5, 2, 1), (4, 3, 2, 1), (3, 6, 3, 40)]:
        given = [size * rng.normal(size=shape) for shape in ((T, D), (S, D))] + [np.ones((S, 4))]
        before = [array.copy() for array in given]
        try:
            got = np.asarray(ask(*given))
        except Exception:
            return False
        if got.shape != (T, 4) or not np.allclose(got, 1):
            return False
        if not all(np.array_equal(a, b) for a, b in zip(given, before, strict=True)):
            return False
    return True


# %% wrong bookstore-7 only the range of the values
# Lookups pass your check whose answers are some mean of the values. Every mean stays between the
# smallest and the largest value, with whatever weights.
def accepts(ask):
    rng = np.random.RandomState(1)
    for T, S, D, E, size in [(1, 1, 2, 1, 1), (4, 3, 2, 3, 1), (3, 6, 3, 3, 40)]:
        given = [size * rng.normal(size=shape) for shape in ((T, D), (S, D), (S, E))]
        before = [array.copy() for array in given]
        try:
            got = np.asarray(ask(*given))
        except Exception:
            return False
        low, high = before[2].min(0) - 1e-5 * size, before[2].max(0) + 1e-5 * size
        if got.shape != (T, E) or not np.all((low <= got) & (got <= high)):
            return False
        if not all(np.array_equal(a, b) for a, b in zip(given, before, strict=True)):
            return False
    return True


# %% wrong bookstore-7 only the shape is checked
# Lookups with wrong answers pass your check, if only the shape is right. Do you look at the
# answers, too?
def accepts(ask):
    for T, S, D, E in [(1, 1, 2, 1), (4, 3, 2, 3), (3, 6, 3, 3)]:
        try:
            got = np.asarray(ask(np.ones((T, D)), np.ones((S, D)), np.ones((S, E))))
        except Exception:
            return False
        if got.shape != (T, E):
            return False
    return True


# %% wrong bookstore-7 never a single query
# Lookups pass your check that lose an axis, or break, for a single query. Ask a single query, and
# for values of a single number.
def accepts(ask):
    rng = np.random.RandomState(1)
    for T, S, D, E, size in [(4, 3, 2, 3, 1), (3, 6, 3, 3, 40)]:
        given = [size * rng.normal(size=shape) for shape in ((T, D), (S, D), (S, E))]
        before = [array.copy() for array in given]
        try:
            got = np.asarray(ask(*given))
        except Exception:
            return False
        if got.shape != (T, E) or not np.allclose(got, _model(*before)):
            return False
        if not all(np.array_equal(a, b) for a, b in zip(given, before, strict=True)):
            return False
    return True


def _model(queries, keys, values):
    scores = queries @ keys.T
    weights = np.exp(scores - scores.max(1, keepdims=True))
    return weights @ values / weights.sum(1, keepdims=True)


# %% wrong bookstore-7 only a single query
# Lookups pass your check where several queries get in each other's way. Ask several at once.
def accepts(ask):
    rng = np.random.RandomState(1)
    for S, D, E, size in [(1, 2, 2, 1), (5, 2, 1, 1), (3, 2, 3, 1), (6, 3, 3, 40)]:
        given = [size * rng.normal(size=shape) for shape in ((1, D), (S, D), (S, E))]
        before = [array.copy() for array in given]
        try:
            got = np.asarray(ask(*given))
        except Exception:
            return False
        if got.shape != (1, E) or not np.allclose(got, _model(*before)):
            return False
        if not all(np.array_equal(a, b) for a, b in zip(given, before, strict=True)):
            return False
    return True


def _model(queries, keys, values):
    scores = queries @ keys.T
    weights = np.exp(scores - scores.max(1, keepdims=True))
    return weights @ values / weights.sum(1, keepdims=True)


# %% wrong bookstore-7 the given arrays are not looked at
# A lookup passes your check that changes the arrays it was given. Keep copies, and compare with
# those.
def accepts(ask):
    rng = np.random.RandomState(1)
    for T, S, D, E, size in [(1, 1, 2, 1, 1), (4, 3, 2, 3, 1), (3, 6, 3, 3, 40)]:
        given = [size * rng.normal(size=shape) for shape in ((T, D), (S, D), (S, E))]
        want = _model(*given)
        try:
            got = np.asarray(ask(*given))
        except Exception:
            return False
        if got.shape != (T, E) or not np.allclose(got, want):
            return False
    return True


def _model(queries, keys, values):
    scores = queries @ keys.T
    weights = np.exp(scores - scores.max(1, keepdims=True))
    return weights @ values / weights.sum(1, keepdims=True)


# %% wrong bookstore-7 one question only
# Lookups pass your check that go wrong at some sizes or scores only. Ask for few and for many, with
# small scores and with large ones, and look what became of the arrays you gave.
def accepts(ask):
    queries, keys, values = np.random.RandomState(1).normal(size=(3, 4, 4))
    try:
        got = ask(queries, keys, values)
    except Exception:
        return False
    return np.allclose(got, _model(queries, keys, values))


def _model(queries, keys, values):
    scores = queries @ keys.T
    weights = np.exp(scores - scores.max(1, keepdims=True))
    return weights @ values / weights.sum(1, keepdims=True)


# %% wrong bookstore-7 an error escapes
# When the lookup raises an error, so do you. A check gives its verdict: a lookup that breaks is
# wrong.
def accepts(ask):
    rng = np.random.RandomState(1)
    for T, S, D, E, size in [(1, 1, 2, 1, 1), (4, 3, 2, 3, 1), (3, 6, 3, 3, 40)]:
        given = [size * rng.normal(size=shape) for shape in ((T, D), (S, D), (S, E))]
        before = [array.copy() for array in given]
        got = np.asarray(ask(*given))
        if got.shape != (T, E) or not np.allclose(got, _model(*before)):
            return False
        if not all(np.array_equal(a, b) for a, b in zip(given, before, strict=True)):
            return False
    return True


def _model(queries, keys, values):
    scores = queries @ keys.T
    weights = np.exp(scores - scores.max(1, keepdims=True))
    return weights @ values / weights.sum(1, keepdims=True)


# %% wrong bookstore-7 everything is accepted
# The lookups of these cases are accepted, and all of them are wrong. A check proves something only
# if it can fail: what would each of them get wrong?
def accepts(ask):
    return True


# %% wrong bookstore-7 everything is rejected
# Right lookups are rejected, too. Run your check on a lookup that you trust before you use it on
# others.
def accepts(ask):
    return False


# %% [markdown]
# ## What to take along
#
# - Weights are a distribution: positive, with sum 1, so the answer stays among the values.
# - Subtract each query's largest score first; then divide by the temperature.
# - A temperature has two limits, 0 and infinity, and ties make the first one a mean.
# - A mean can be taken in passing: three things per query are enough to remember.
# - Test with values that are not the keys, with queries that disagree, and with large scores.
#
# Back to [chapter 1](../book/01_bookstore.ipynb).
