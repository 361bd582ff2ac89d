# %% [markdown]
# # Exercises 3: masks
#
# Seven tasks on [chapter 3, *Masks: who may look at whom*](../book/03_masks.ipynb). They climb
# from reading a mask to testing one: predict, fill in, mend, build, and write a check of your own.
#
# | task | what you do | points | minutes | level |
# |---|---|---|---|---|
# | `masks-1` | predict who sees whom | 3 | 8 | 1 of 4 |
# | `masks-2` | a causal window when T and S differ | 4 | 10 | 2 of 4 |
# | `masks-3` | one mask for a padded batch | 4 | 12 | 2 of 4 |
# | `masks-4` | a softmax that survives an empty row | 5 | 15 | 3 of 4 |
# | `masks-5` | mend a widely copied attention function | 6 | 15 | 3 of 4 |
# | `masks-6` | a tile map without the matrix | 6 | 18 | 4 of 4 |
# | `masks-7` | write the check | 4 | 12 | 3 of 4 |
# | all | | 32 | 90 | |
#
# **How checking works.** Write your answer in place of the line `raise NotImplementedError`, run
# the cell, then run the check cell below it. The check calls your function and tells you which
# cases agree, where the first difference is, and, if it knows your mistake, its name and a hint.
# It calls your function as you last ran it: after every edit, **run the answer cell again** before
# the check. Some further cases run only when an instructor grades.
#
# **The letters.** `T` queries, `S` keys, `B` examples in a batch, `H` heads, `D` numbers per head.
# In every task `True` means *may look*, and the last query stands at the position of the last key.
# All you need is NumPy; please write the masks yourself instead of calling `attnlearn`.

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
# ## masks-1: Predict who sees whom
#
# *masks-1 · 3 points · 8 minutes · ●○○○ difficulty 1 of 4*
#
# Work these out with pencil and paper, then write down plain numbers. Positions count from 0.
#
# 1. `decoding`: a **causal** mask for 2 new queries and 5 keys. Write the matrix: two rows of five
#    numbers, 1 where the query may look, 0 where it may not.
# 2. `window`: **causal and a window of 3**, 6 queries and 6 keys. How many keys does each query
#    see? A window of 3 holds 3 keys, the query's own included.
# 3. `prefix`: **causal or a prefix of 3**, 6 queries and 6 keys. How many keys does each query
#    see?
# 4. `padding`: **causal and not padding**, a batch of two examples with 5 positions each. Example
#    0 has tokens at positions 0, 1, 2 and padding behind them. Example 1 has padding at positions
#    0 and 1 and tokens behind it. How many keys does each query see? Two rows of five numbers;
#    padded positions are queries, too.
#
# **A miniature.** Causal, 1 query, 3 keys: the query is the newest token, at position 2, so it
# sees keys 0, 1 and 2. The matrix is `[[1, 1, 1]]`.
#
# Half of the points are for having all four right together.
# Read first: *A mask is a question* and *Combining masks* in [chapter 3](../book/03_masks.ipynb).
#
# <details>
# <summary>Hint 1 for masks-1: where does a query stand?</summary>
#
# Write the absolute position beside every row before you fill it in. With 5 keys the last position
# is 4, and the last query stands there.
#
# </details>
#
# <details>
# <summary>Hint 2 for masks-1: and, or</summary>
#
# *And* keeps a cell that both masks allow, *or* one that at least one allows. Draw both masks,
# then combine cell by cell. Padding says something about keys, that is, about columns.
#
# </details>


# %% answer masks-1 points=3 minutes=8 difficulty=1 forbid=attnlearn
def decoding():
    """Causal, 2 queries, 5 keys: two rows of five, 1 = may look, 0 = may not."""
    # BEGIN SOLUTION
    return [[1, 1, 1, 1, 0], [1, 1, 1, 1, 1]]
    # END SOLUTION


def window():
    """Causal and a window of 3, 6 positions: six counts of visible keys."""
    # BEGIN SOLUTION
    return [1, 2, 3, 3, 3, 3]
    # END SOLUTION


def prefix():
    """Causal or a prefix of 3, 6 positions: six counts of visible keys."""
    # BEGIN SOLUTION
    return [3, 3, 3, 4, 5, 6]
    # END SOLUTION


def padding():
    """Causal and not padding, two examples of 5 positions: two rows of five counts."""
    # BEGIN SOLUTION
    return [[1, 2, 3, 3, 3], [0, 0, 1, 2, 3]]
    # END SOLUTION


# %% check masks-1
case = check("masks-1")
case("decoding", lambda: np.array(decoding(), int))
case("window", lambda: np.array(window(), int))
case("prefix", lambda: np.array(prefix(), int))
case("padding", lambda: np.array(padding(), int))


@case("all four together", weight=4)
def _():
    return np.concatenate(
        [np.ravel(np.array(f(), int)) for f in (decoding, window, prefix, padding)]
    )


# %% right masks-1 as booleans and tuples
def decoding():
    return ((True, True, True, True, False), (True,) * 5)


def window():
    return (1, 2, 3, 3, 3, 3)


def prefix():
    return (3, 3, 3, 4, 5, 6)


def padding():
    return ((1, 2, 3, 3, 3), (0, 0, 1, 2, 3))


# %% right masks-1 computed
def decoding():
    return np.tri(2, 5, 3, dtype=bool)


def window():
    return np.minimum(np.arange(1, 7), 3)


def prefix():
    return np.maximum(np.arange(1, 7), 3)


def padding():
    real = np.array([[1, 1, 1, 0, 0], [0, 0, 1, 1, 1]])
    return real.cumsum(-1)


# %% wrong masks-1 diagonal from the top left
# Your decoding diagonal starts at the top left, as if the two queries were the first two tokens.
# They are the newest ones: which absolute positions do they have among five keys?
# Seen: pytorch/pytorch#103082
def decoding():
    return [[1, 0, 0, 0, 0], [1, 1, 0, 0, 0]]


def window():
    return [1, 2, 3, 3, 3, 3]


def prefix():
    return [3, 3, 3, 4, 5, 6]


def padding():
    return [[1, 2, 3, 3, 3], [0, 0, 1, 2, 3]]


# %% wrong masks-1 one key too many in the window
# Your window holds four keys. A window of 3 counts the query's own key among its three.
# Seen: huggingface/transformers#39408
def decoding():
    return [[1, 1, 1, 1, 0], [1, 1, 1, 1, 1]]


def window():
    return [1, 2, 3, 4, 4, 4]


def prefix():
    return [3, 3, 3, 4, 5, 6]


def padding():
    return [[1, 2, 3, 3, 3], [0, 0, 1, 2, 3]]


# %% wrong masks-1 the window looks both ways
# Your window reaches into the future. "Causal and window" keeps only what both masks allow.
def decoding():
    return [[1, 1, 1, 1, 0], [1, 1, 1, 1, 1]]


def window():
    return [3, 4, 5, 5, 4, 3]


def prefix():
    return [3, 3, 3, 4, 5, 6]


def padding():
    return [[1, 2, 3, 3, 3], [0, 0, 1, 2, 3]]


# %% wrong masks-1 a token does not see itself
# You hide every query's own key. A token stands at its own position, and causal means "not after
# me", so it may look at itself.
# Seen: pbloem/former#10
def decoding():
    return [[1, 1, 1, 0, 0], [1, 1, 1, 1, 0]]


def window():
    return [0, 1, 2, 2, 2, 2]


def prefix():
    return [3, 3, 3, 3, 4, 5]


def padding():
    return [[0, 1, 2, 3, 3], [0, 0, 0, 1, 2]]


# %% wrong masks-1 and in place of or
# You joined the prefix with "and": that forbids everything behind the prefix. "Or" opens the
# prefix to everyone and leaves the causal part as it is.
def decoding():
    return [[1, 1, 1, 1, 0], [1, 1, 1, 1, 1]]


def window():
    return [1, 2, 3, 3, 3, 3]


def prefix():
    return [1, 2, 3, 3, 3, 3]


def padding():
    return [[1, 2, 3, 3, 3], [0, 0, 1, 2, 3]]


# %% wrong masks-1 the prefix ends too soon
# Your prefix is one key short. A prefix of length 3 holds positions 0, 1 and 2: ask what the
# first query sees.
# Seen: bigscience-workshop/Megatron-DeepSpeed#167
def decoding():
    return [[1, 1, 1, 1, 0], [1, 1, 1, 1, 1]]


def window():
    return [1, 2, 3, 3, 3, 3]


def prefix():
    return [2, 2, 3, 4, 5, 6]


def padding():
    return [[1, 2, 3, 3, 3], [0, 0, 1, 2, 3]]


# %% wrong masks-1 padding hides queries
# You hid the padded rows. Padding forbids *keys*: a column is closed to everyone, and the row of
# a padded query stays as it was.
# Seen: hyunwoongko/transformer#40
def decoding():
    return [[1, 1, 1, 1, 0], [1, 1, 1, 1, 1]]


def window():
    return [1, 2, 3, 3, 3, 3]


def prefix():
    return [3, 3, 3, 4, 5, 6]


def padding():
    return [[1, 2, 3, 0, 0], [0, 0, 3, 4, 5]]


# %% wrong masks-1 padding hides queries and keys
# You hid padded queries as well as padded keys. The mask is asked about keys only: a padded query
# behind three tokens still sees those three. Its output is thrown away later.
# Seen: Kyubyong/transformer#3
def decoding():
    return [[1, 1, 1, 1, 0], [1, 1, 1, 1, 1]]


def window():
    return [1, 2, 3, 3, 3, 3]


def prefix():
    return [3, 3, 3, 4, 5, 6]


def padding():
    return [[1, 2, 3, 0, 0], [0, 0, 1, 2, 3]]


# %% wrong masks-1 padding counted as keys
# You counted the padding along. A padded key is closed to every query, whichever side it lies on.
# Seen: ml-explore/mlx-lm#1906
def decoding():
    return [[1, 1, 1, 1, 0], [1, 1, 1, 1, 1]]


def window():
    return [1, 2, 3, 3, 3, 3]


def prefix():
    return [3, 3, 3, 4, 5, 6]


def padding():
    return [[1, 2, 3, 4, 5], [1, 2, 3, 4, 5]]


# %% wrong masks-1 True hides
# You counted what is hidden. In this book 1 and True mean "may look"; PyTorch's own modules
# disagree among themselves about it.
# Seen: rasbt/LLMs-from-scratch#1061
def decoding():
    return [[0, 0, 0, 0, 1], [0, 0, 0, 0, 0]]


def window():
    return [5, 4, 3, 3, 3, 3]


def prefix():
    return [3, 3, 3, 2, 1, 0]


def padding():
    return [[4, 3, 2, 2, 2], [5, 5, 4, 3, 2]]


# %% [markdown]
# ## masks-2: The last query sees the last key
#
# *masks-2 · 4 points · 10 minutes · ●●○○ difficulty 2 of 4*
#
# A model decodes with a cache: there are `S` keys, but only the newest `T` of them come with
# queries. Write `causal_window(T, S, w)`: a boolean matrix `[T, S]`, `True` where query `t` may
# look at key `s`. The mask is causal, and each query sees at most the `w` newest keys, its own
# included (the count Mistral uses). Query `T - 1` stands at position `S - 1`. With more queries
# than keys the first queries stand before the first key and see nothing. Half of the points are for
# a case with several sizes at once.
#
# **A miniature.** `causal_window(2, 4, 2)`: the queries stand at positions 2 and 3.
#
# | query | key 0 | key 1 | key 2 | key 3 |
# |---|---|---|---|---|
# | 0 | False | True | True | False |
# | 1 | False | False | True | True |
#
# Read first: *Where the diagonal starts* in [chapter 3](../book/03_masks.ipynb).
#
# <details>
# <summary>Hint 1 for masks-2: positions, not indices</summary>
#
# Make an array with the absolute position of every query and one with the position of every key.
# Which position has query 0 if the last of `T` queries stands at `S - 1`?
#
# </details>
#
# <details>
# <summary>Hint 2 for masks-2: how far back</summary>
#
# The distance from a query back to its own key is 0, to the key before it 1. Which distances does
# a window of `w` keys hold?
#
# </details>


# %% answer masks-2 points=4 minutes=10 difficulty=2 forbid=attnlearn
def causal_window(T, S, w):
    """bool [T, S]: causal, at most the w newest keys; the last query stands at the last key."""
    # BEGIN SOLUTION
    i = np.arange(S - T, S)[:, None]
    j = np.arange(S)
    return (j <= i) & (i - j < w)
    # END SOLUTION


# %% check masks-2
case = check("masks-2")
case("5 queries, 5 keys, window 3", lambda: causal_window(5, 5, 3))
case("a window wider than the text", lambda: causal_window(3, 3, 9))
case("decoding: 1 query, 6 keys, window 4", lambda: causal_window(1, 6, 4), weight=2)
case("a chunk: 3 queries, 7 keys, window 3", lambda: causal_window(3, 7, 3), weight=3)
case("a chunk, no window in the way", lambda: causal_window(2, 5, 5))
case("more queries than keys", lambda: causal_window(5, 2, 2), weight=2)
case("a window of 1", lambda: causal_window(2, 4, 1), weight=2)


@case("several sizes at once", weight=14)
def _():
    sizes = [(6, 6, 2), (3, 8, 4), (1, 7, 3), (6, 3, 2), (4, 6, 1)]
    return {f"T={T}, S={S}, w={w}": causal_window(T, S, w) for T, S, w in sizes}


# %% hidden masks-2
case = check("masks-2")


@case("drawn sizes: a longer cache", weight=2)
def _(rng):
    T = rng.randint(2, 6)
    return causal_window(T, T + rng.randint(3, 7), rng.randint(2, 4))


# %% right masks-2 two triangles
def causal_window(T, S, w):
    seen = np.tri(T, S, S - T, dtype=bool)
    too_old = np.tri(T, S, S - T - w, dtype=bool)
    return seen & ~too_old


# %% right masks-2 one row at a time
def causal_window(T, S, w):
    mask = np.zeros((T, S), bool)
    for t in range(T):
        end = S - T + t + 1
        mask[t, max(0, end - w) : max(0, end)] = True
    return mask


# %% right masks-2 the last rows of a square
def causal_window(T, S, w):
    n = max(T, S)
    back = np.subtract.outer(np.arange(n), np.arange(n))
    return ((back >= 0) & (back < w))[n - T :, n - S :]


# %% wrong masks-2 diagonal from the top left
# Your diagonal starts at the top left. Query 0 is not at position 0 when old keys lie in the
# cache: a single new query must still see its whole window.
# Seen: pytorch/pytorch#103082
def causal_window(T, S, w):
    i = np.arange(T)[:, None]
    j = np.arange(S)
    return (j <= i) & (i - j < w)


# %% wrong masks-2 one key too many in the window
# Your window holds one key more than w. The query's own key, at distance 0, counts as one of them.
# Seen: huggingface/transformers#39408
def causal_window(T, S, w):
    i = np.arange(S - T, S)[:, None]
    j = np.arange(S)
    return (j <= i) & (i - j <= w)


# %% wrong masks-2 the window looks both ways
# Your window also opens keys of the future. It bounds how far back a query looks; the causal rule
# must still hold beside it.
def causal_window(T, S, w):
    i = np.arange(S - T, S)[:, None]
    j = np.arange(S)
    return abs(i - j) < w


# %% wrong masks-2 the window is left out
# Your queries see their whole past. Each may look at no more than the w newest keys: try a window
# of 1 by hand.
# Seen: ROCm/aiter#3158
def causal_window(T, S, w):
    i = np.arange(S - T, S)[:, None]
    j = np.arange(S)
    return j <= i


# %% wrong masks-2 a token does not see itself
# A query may look at its own key, which stands at its own position. With a window of 1 that is the
# only key it sees.
# Seen: pbloem/former#10
def causal_window(T, S, w):
    i = np.arange(S - T, S)[:, None]
    j = np.arange(S)
    return (j < i) & (i - j < w)


# %% wrong masks-2 the next token is visible
# Every query stands one position too far and sees the token it should predict. At which position
# does the last query stand?
# Seen: flashinfer-ai/flashinfer#348
def causal_window(T, S, w):
    i = np.arange(S - T + 1, S + 1)[:, None]
    j = np.arange(S)
    return (j <= i) & (i - j < w)


# %% wrong masks-2 True hides
# Your mask is upside down: you marked what must stay hidden. Here True means "may look".
# Seen: rasbt/LLMs-from-scratch#1061
def causal_window(T, S, w):
    i = np.arange(S - T, S)[:, None]
    j = np.arange(S)
    return (j > i) | (i - j >= w)


# %% wrong masks-2 queries and keys swapped
# You put the keys into rows. The shape is [T, S]: one row per query, one column per key.
def causal_window(T, S, w):
    i = np.arange(S - T, S)
    j = np.arange(S)[:, None]
    return (j <= i) & (i - j < w)


# %% wrong masks-2 numbers in place of booleans
# You return 0.0 and 1.0. PyTorch *adds* a mask of numbers to the scores, and nothing is hidden.
# A mask answers yes or no.
# Seen: pytorch/pytorch#103963
def causal_window(T, S, w):
    i = np.arange(S - T, S)[:, None]
    j = np.arange(S)
    return ((j <= i) & (i - j < w)).astype(float)


# %% wrong masks-2 zero and minus infinity
# You return what would be added to the scores. Keep the question and the arithmetic apart: a mask
# is True or False.
def causal_window(T, S, w):
    i = np.arange(S - T, S)[:, None]
    j = np.arange(S)
    return np.where((j <= i) & (i - j < w), 0.0, -np.inf)


# %% wrong masks-2 shifted the wrong way
# You move the queries in the wrong direction: with more keys than queries they stand later than
# position 0, not earlier.
def causal_window(T, S, w):
    i = np.arange(T)[:, None] + T - S
    j = np.arange(S)
    return (j <= i) & (i - j < w)


# %% wrong masks-2 the first query never stands before the first key
# You let the first query begin at position 0 at the earliest. With more queries than keys it stands
# before the first key: S - T is negative then, and that is right.
def causal_window(T, S, w):
    i = max(S - T, 0) + np.arange(T)[:, None]
    j = np.arange(S)
    return (j <= i) & (i - j < w)


# %% wrong masks-2 one window for all queries
# All your queries share the window of the last one. A window moves along: each query counts back
# from its own position.
def causal_window(T, S, w):
    i = np.arange(S - T, S)[:, None]
    j = np.arange(S)
    return (j <= i) & (j >= S - w)


# %% wrong masks-2 as many rows as keys
# You return [S, S], a row for every key. Only the newest T positions come with a query.
def causal_window(T, S, w):
    i = np.arange(S)[:, None]
    j = np.arange(S)
    return (j <= i) & (i - j < w)


# %% [markdown]
# ## masks-3: One mask for a padded batch
#
# *masks-3 · 4 points · 12 minutes · ●●○○ difficulty 2 of 4*
#
# A tokenizer pads the examples of a batch to one length and hands you `real`, integers `[B, S]`:
# 1 for a token, 0 for padding. Padding may lie on the right, on the left, or in between. Write
# `batch_mask(real, T)`: which keys may the last `T` positions look at, if the mask is causal
# **and** padded keys are hidden? The result is boolean `[B, 1, T, S]`, so that it fits scores `[B,
# H, T, S]`: one mask per example, the same for all heads.
#
# Leave the rows of padded *queries* alone: nobody reads their output, and a row without a single
# key makes trouble in the softmax (that is the next task).
#
# **A miniature.** `real = [[0, 1, 1]]`, `T = 2`: the queries stand at positions 1 and 2, key 0 is
# padding. The mask is `[[[[False, True, False], [False, True, True]]]]`, of shape `(1, 1, 2, 3)`.
#
# Read first: *A mask is a question* (the shape of a padding mask) and *Combining masks* in
# [chapter 3](../book/03_masks.ipynb).
#
# <details>
# <summary>Hint 1 for masks-3: which axis?</summary>
#
# Padding is a fact about keys. In `[B, 1, T, S]`, which axis counts the keys? Put `real` there and
# give it length 1 along the axes it knows nothing about.
#
# </details>
#
# <details>
# <summary>Hint 2 for masks-3: combine yes-or-no answers</summary>
#
# Turn both masks into booleans before you combine them. The causal one is the same for every
# example, so broadcasting can do the rest.
#
# </details>


# %% answer masks-3 points=4 minutes=12 difficulty=2 forbid=attnlearn
def batch_mask(real, T):
    """real int [B, S], 1 = token, 0 = padding -> bool [B, 1, T, S]: causal and no padded key."""
    # BEGIN SOLUTION
    S = real.shape[1]
    i = np.arange(S - T, S)[:, None]
    causal = np.arange(S) <= i
    return causal & (real != 0)[:, None, None, :]
    # END SOLUTION


# %% check masks-3
case = check("masks-3")
_right = [[1, 1, 1, 1], [1, 1, 0, 0], [1, 1, 1, 0]]
_left = [[1, 1, 1, 1, 1], [0, 0, 1, 1, 1]]
_gaps = [[1, 0, 1, 1, 0, 1], [0, 1, 1, 0, 0, 1], [1, 1, 0, 0, 1, 0], [0, 0, 0, 1, 0, 1]]
case("padding on the right", lambda: batch_mask(np.array(_right), 4), weight=2)
case("padding on the left", lambda: batch_mask(np.array(_left), 5), weight=2)
case("gaps, as many queries as examples", lambda: batch_mask(np.array(_gaps), 4), weight=2)
case("decoding: one query, padding on the left", lambda: batch_mask(np.array(_left), 1))
case("an example that is all padding", lambda: batch_mask(np.array([[0, 0, 0], [1, 1, 0]]), 2))


@case("applied to scores of 2 heads")
def _(rng):
    scores = rng.normal(size=(3, 2, 3, 4))
    return np.where(batch_mask(np.array(_right), 3), scores, -99.0)


# %% hidden masks-3
case = check("masks-3")


@case("drawn gaps, a longer cache", weight=3)
def _(rng):
    real = rng.randint(0, 2, (3, 7))
    real[:, [0, 3]] = [[1, 0], [0, 1], [0, 0]]
    real[:, -1] = 1
    return batch_mask(real, 5)


# %% right masks-3 loops
def batch_mask(real, T):
    B, S = real.shape
    mask = np.zeros((B, 1, T, S), bool)
    for b in range(B):
        for t in range(T):
            for s in range(S):
                mask[b, 0, t, s] = real[b, s] == 1 and s <= S - T + t
    return mask


# %% right masks-3 a triangle of padded rows
def batch_mask(real, T):
    S = real.shape[1]
    rows = np.repeat(real.astype(bool)[:, None, :], T, axis=1)
    return np.tril(rows, S - T)[:, None]


# %% right masks-3 as an outer product
def batch_mask(real, T):
    S = real.shape[1]
    return np.einsum("bs,ts->bts", real, np.tri(T, S, S - T)).astype(bool)[:, None]


# %% wrong masks-3 padding hides queries
# You laid the padding along the queries, so whole rows are hidden and padded keys stay open.
# Padding closes keys: the last axis.
# Seen: hyunwoongko/transformer#40
def batch_mask(real, T):
    S = real.shape[1]
    i = np.arange(S - T, S)[:, None]
    causal = np.arange(S) <= i
    return causal & (real != 0)[:, None, -T:, None]


# %% wrong masks-3 padding hides queries and keys
# You hide padded queries as well as padded keys. A padded query may keep its row; hiding it only
# makes rows that see nothing.
# Seen: Kyubyong/transformer#3
def batch_mask(real, T):
    S = real.shape[1]
    i = np.arange(S - T, S)[:, None]
    causal = np.arange(S) <= i
    token = real != 0
    return causal & token[:, None, None, :] & token[:, None, -T:, None]


# %% wrong masks-3 True marks the padding
# You let queries look at the padding and hide the tokens. Some PyTorch arguments mark padding with
# True; here True means "may look".
# Seen: InseeFrLab/torchTextClassifiers#92
def batch_mask(real, T):
    S = real.shape[1]
    i = np.arange(S - T, S)[:, None]
    causal = np.arange(S) <= i
    return causal & (real == 0)[:, None, None, :]


# %% wrong masks-3 the padding is left out
# Every example has the same causal mask: the padding never reached it. A causal mask hides what
# comes later, but padding on the left comes earlier.
# Seen: ml-explore/mlx-lm#1906
def batch_mask(real, T):
    B, S = real.shape
    i = np.arange(S - T, S)[:, None]
    causal = np.arange(S) <= i
    return np.broadcast_to(causal, (B, 1, T, S))


# %% wrong masks-3 the future is visible
# Only the padding is hidden, so queries see the tokens that come after them. Both masks must
# agree before a query may look.
# Seen: huggingface/transformers#48745
def batch_mask(real, T):
    B, S = real.shape
    return np.broadcast_to((real != 0)[:, None, None, :], (B, 1, T, S))


# %% wrong masks-3 or in place of and
# You let a query look where *either* mask agrees. A cell is open only if both agree.
def batch_mask(real, T):
    S = real.shape[1]
    i = np.arange(S - T, S)[:, None]
    causal = np.arange(S) <= i
    return causal | (real != 0)[:, None, None, :]


# %% wrong masks-3 no axis for the heads
# Your mask is [B, T, S]. Beside scores [B, H, T, S] its first axis is read as heads: an error if B
# and H differ, a silent mix-up if they are equal.
# Seen: pytorch/pytorch#177482
def batch_mask(real, T):
    S = real.shape[1]
    i = np.arange(S - T, S)[:, None]
    causal = np.arange(S) <= i
    return causal & (real != 0)[:, None, :]


# %% wrong masks-3 the example axis is in the wrong place
# You put the heads' axis before the examples: [1, B, T, S]. Broadcasting lines axes up from the
# right, so examples would be taken for heads.
def batch_mask(real, T):
    S = real.shape[1]
    i = np.arange(S - T, S)[:, None]
    causal = np.arange(S) <= i
    return (causal & (real != 0)[:, None, :])[None]


# %% wrong masks-3 numbers in place of booleans
# You multiplied numbers and return 0 and 1. Many libraries add a mask of numbers to the scores:
# return True and False.
# Seen: huggingface/transformers#24897
def batch_mask(real, T):
    S = real.shape[1]
    i = np.arange(S - T, S)[:, None]
    causal = np.arange(S) <= i
    return causal * real[:, None, None, :]


# %% wrong masks-3 tokens counted, not located
# You count the tokens and take that many keys from the left. That is the mask of an example padded
# on the right only. Look at where the tokens lie.
# Seen: Blaizzy/mlx-vlm#1946
def batch_mask(real, T):
    S = real.shape[1]
    i = np.arange(S - T, S)[:, None]
    j = np.arange(S)
    return (j <= i) & (j < real.sum(-1)[:, None, None, None])


# %% wrong masks-3 diagonal from the top left
# Your causal part starts at the top left, as if the queries were the first T positions. They are
# the last T.
# Seen: pytorch/pytorch#115111
def batch_mask(real, T):
    S = real.shape[1]
    causal = np.arange(S) <= np.arange(T)[:, None]
    return causal & (real != 0)[:, None, None, :]


# %% wrong masks-3 one padding for the whole batch
# Every example got the padding of the first one. The batch axis of the mask must follow `real`.
def batch_mask(real, T):
    B, S = real.shape
    i = np.arange(S - T, S)[:, None]
    causal = np.arange(S) <= i
    return np.broadcast_to(causal & (real[0] != 0), (B, 1, T, S))


# %% [markdown]
# ## masks-4: A softmax that survives an empty row
#
# *masks-4 · 5 points · 15 minutes · ●●●○ difficulty 3 of 4*
#
# Write `masked_softmax(scores, mask)`: attention weights over the last axis, where hidden keys get
# exactly 0 and the visible ones share a weight of 1. Four things go wrong in real code, so they
# must go right in yours:
#
# - a row that sees **nothing** gets zeros, neither NaN nor an average;
# - **large** scores, near 1000 or near −1000, don't overflow and don't vanish;
# - what lies **behind the mask** has no influence, even if it is huge, infinite or NaN;
# - the caller's `scores` stay **unchanged**.
#
# `mask` is boolean and may have fewer axes than `scores`: `[T, S]` beside `[B, H, T, S]`. Half of
# the points are for a case that has all of it at once.
#
# **A miniature.** Scores `[[5, 5, 99]]` with mask `[[True, True, False]]` give `[[0.5, 0.5, 0]]`.
# With the mask `[[False, False, False]]` they give `[[0, 0, 0]]`.
#
# Read first: *Hiding is a softmax over what is left*, *A large negative number instead of −∞* and
# *Hidden is not absent* in [chapter 3](../book/03_masks.ipynb).
#
# <details>
# <summary>Hint 1 for masks-4: choose, don't add</summary>
#
# Adding minus infinity to NaN or to plus infinity gives NaN. Choosing between two numbers does not
# look at the one you don't take.
#
# </details>
#
# <details>
# <summary>Hint 2 for masks-4: two divisions by nothing</summary>
#
# In an empty row the largest score is minus infinity, and minus infinity minus itself is NaN. The
# sum of the weights is 0, and 0 divided by 0 is NaN. Both need a harmless number in their place.
#
# </details>


# %% answer masks-4 points=5 minutes=15 difficulty=3 forbid=attnlearn
def masked_softmax(scores, mask):
    """scores float [..., T, S], mask bool, broadcastable to it -> weights [..., T, S]."""
    # BEGIN SOLUTION
    seen = np.where(mask, scores, -np.inf)
    top = seen.max(-1, keepdims=True)
    weights = np.exp(seen - np.where(top == -np.inf, 0, top))
    total = weights.sum(-1, keepdims=True)
    return weights / np.where(total == 0, 1, total)
    # END SOLUTION


# %% check masks-4
case = check("masks-4")
_mask = np.array([[1, 1, 0, 0, 0], [1, 0, 1, 1, 0], [1, 1, 1, 1, 1], [0, 0, 0, 0, 0]], bool)
_some = _mask[:3]


case("three rows", lambda rng: masked_softmax(rng.normal(size=(3, 5)), _some))


case("a row that sees nothing", lambda rng: masked_softmax(rng.normal(size=(4, 5)), _mask))


@case("scores near 1000 and near -1000")
def _(rng):
    return masked_softmax(np.array([[1000.0], [0.0], [-1000.0]]) + rng.normal(size=(3, 5)), _some)


@case("a huge score behind the mask")
def _(rng):
    return masked_softmax(np.array([0, 0, 0, 0, 2000]) + rng.normal(size=(2, 5)), _some[:2])


@case("NaN and infinity behind the mask")
def _(rng):
    scores = rng.normal(size=(2, 5))
    scores[0, 2:] = np.nan, np.inf, -np.inf
    scores[1, [1, 4]] = np.inf, np.nan
    return masked_softmax(scores, _some[:2])


@case("the scores stay unchanged")
def _(rng):
    scores = rng.normal(size=(3, 5))
    before = scores.copy()
    masked_softmax(scores, _some)
    return scores - before


@case("all of it at once", weight=8)
def _(rng):
    scores = np.array([[1000.0], [-1000.0], [0.0], [0.0]]) + rng.normal(size=(2, 4, 5))
    scores[0, :2, 4] = np.nan, np.inf
    scores[1, :2, 4] = 2000
    before = scores.copy()
    weights = masked_softmax(scores, _mask)
    return {"weights": weights, "scores kept": np.array_equal(scores, before, equal_nan=True)}


# %% hidden masks-4
case = check("masks-4")


@case("a causal mask for 2 examples and 3 heads")
def _(rng):
    return masked_softmax(3 * rng.normal(size=(2, 3, 4, 5)), np.tri(4, 5, -1, dtype=bool))


@case("one mask per example, an empty example")
def _(rng):
    real = np.array([[1, 1, 0, 1], [0, 0, 0, 0]], bool)[:, None, None, :]
    return masked_softmax(rng.normal(size=(2, 2, 3, 4)), real)


# %% right masks-4 the where argument of NumPy
def masked_softmax(scores, mask):
    mask = np.broadcast_to(mask, scores.shape)
    top = scores.max(-1, keepdims=True, where=mask, initial=-1e300)
    weights = np.zeros_like(scores)
    np.exp(scores - top, where=mask, out=weights)
    total = weights.sum(-1, keepdims=True)
    return np.divide(weights, total, where=total > 0, out=np.zeros_like(weights))


# %% right masks-4 row by row
def masked_softmax(scores, mask):
    mask = np.broadcast_to(mask, scores.shape)
    weights = np.zeros_like(scores)
    for row in np.ndindex(scores.shape[:-1]):
        seen = scores[row][mask[row]]
        if seen.size:
            share = np.exp(seen - seen.max())
            weights[row][mask[row]] = share / share.sum()
    return weights


# %% right masks-4 through the logarithm of the sum
def masked_softmax(scores, mask):
    seen = np.where(mask, scores, -np.inf)
    lse = np.logaddexp.reduce(seen, axis=-1, keepdims=True)
    return np.exp(seen - np.where(np.isfinite(lse), lse, 0))


# %% wrong masks-4 NaN in an empty row
# A row that sees nothing becomes NaN: its maximum is minus infinity, and minus infinity minus
# itself is not a number. Such a row needs zeros.
# Seen: pytorch/pytorch#103963
def masked_softmax(scores, mask):
    seen = np.where(mask, scores, -np.inf)
    weights = np.exp(seen - seen.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


# %% wrong masks-4 a large negative number
# A row that sees nothing comes out uniform: its hidden scores are all equally low, so it averages
# everything, padding included. A large negative number is no substitute for "hidden".
# Seen: NVIDIA/apex#1390
def masked_softmax(scores, mask):
    seen = np.where(mask, scores, -1e9)
    weights = np.exp(seen - seen.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


# %% wrong masks-4 a tiny number in place of a hugely negative one
# You hide keys with a number close to zero. A score near 0 still earns a weight: its exponential
# is about 1.
# Seen: awslabs/gluonts#1401
def masked_softmax(scores, mask):
    seen = np.where(mask, scores, 1e-9)
    weights = np.exp(seen - seen.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


# %% wrong masks-4 a small number in the denominator
# You add a small number to the sum, so that an empty row does not divide by 0. Every other row pays
# for it: what do its weights sum to?
def masked_softmax(scores, mask):
    seen = np.where(mask, scores, -np.inf)
    top = seen.max(-1, keepdims=True)
    weights = np.exp(seen - np.where(top == -np.inf, 0, top))
    return weights / (weights.sum(-1, keepdims=True) + 1e-3)


# %% wrong masks-4 masked after the softmax
# You hide keys after sharing out the weights. The hidden ones took their part with them: look at
# the sum of a row.
# Seen: huggingface/pytorch-image-models#2236
def masked_softmax(scores, mask):
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) * mask


# %% wrong masks-4 the masked scores are thrown away
# You compute the masked scores and then use the old ones. The mask has no effect at all.
# Seen: huggingface/transformers#35162
def masked_softmax(scores, mask):
    np.where(mask, scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


# %% wrong masks-4 True hides
# Your mask is upside down: you hide what may be seen. Some fill functions fill where the mask is
# True; here True means "may look".
# Seen: lucidrains/halonet-pytorch#4
def masked_softmax(scores, mask):
    seen = np.where(mask, -np.inf, scores)
    top = seen.max(-1, keepdims=True)
    weights = np.exp(seen - np.where(top == -np.inf, 0, top))
    total = weights.sum(-1, keepdims=True)
    return weights / np.where(total == 0, 1, total)


# %% wrong masks-4 scores multiplied by the mask
# You multiply scores by the mask, which makes hidden scores 0. A score of 0 is an ordinary score:
# its exponential is 1.
# Seen: georg-wolflein/good-features#1
def masked_softmax(scores, mask):
    seen = scores * mask
    weights = np.exp(seen - seen.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


# %% wrong masks-4 NaN slips through the mask
# What lies behind the mask reaches your weights. NaN plus minus infinity is NaN, NaN times 0 is
# NaN, and infinity does no better: hidden scores must not enter any arithmetic.
# Seen: pytorch/pytorch#101967
def masked_softmax(scores, mask):
    seen = scores + np.where(mask, 0.0, -np.inf)
    top = seen.max(-1, keepdims=True)
    weights = np.exp(seen - np.where(top == -np.inf, 0, top))
    total = weights.sum(-1, keepdims=True)
    return weights / np.where(total == 0, 1, total)


# %% wrong masks-4 no maximum subtracted
# The exponential of 1000 overflows, and that of -1000 vanishes. A softmax does not change if every
# visible score of a row is moved by the same amount.
def masked_softmax(scores, mask):
    weights = np.where(mask, np.exp(np.where(mask, scores, 0)), 0)
    total = weights.sum(-1, keepdims=True)
    return weights / np.where(total == 0, 1, total)


# %% wrong masks-4 one maximum for all rows
# You subtract the largest score of the whole array. A row whose scores are all much lower
# vanishes: every row needs a maximum of its own.
def masked_softmax(scores, mask):
    seen = np.where(mask, scores, -np.inf)
    weights = np.exp(seen - seen.max())
    total = weights.sum(-1, keepdims=True)
    return weights / np.where(total == 0, 1, total)


# %% wrong masks-4 hidden keys set the maximum
# You take the maximum before hiding keys. One huge hidden score makes every visible weight of its
# row vanish.
def masked_softmax(scores, mask):
    weights = np.where(mask, np.exp(scores - scores.max(-1, keepdims=True)), 0)
    total = weights.sum(-1, keepdims=True)
    return weights / np.where(total == 0, 1, total)


# %% wrong masks-4 normalised over the queries
# Your columns sum to 1. Each query, a row, shares out a weight of 1 among its keys.
# Seen: labmlai/annotated_deep_learning_paper_implementations#146
def masked_softmax(scores, mask):
    seen = np.where(mask, scores, -np.inf)
    top = seen.max(-2, keepdims=True)
    weights = np.exp(seen - np.where(top == -np.inf, 0, top))
    total = weights.sum(-2, keepdims=True)
    return weights / np.where(total == 0, 1, total)


# %% wrong masks-4 writes into the scores
# You write minus infinity into the array that the caller gave you. Whoever uses these scores next
# finds them spoilt. Work on an array of your own.
def masked_softmax(scores, mask):
    scores[~np.broadcast_to(mask, scores.shape)] = -np.inf
    top = scores.max(-1, keepdims=True)
    weights = np.exp(scores - np.where(top == -np.inf, 0, top))
    total = weights.sum(-1, keepdims=True)
    return weights / np.where(total == 0, 1, total)


# %% [markdown]
# ## masks-5: Mend a widely copied attention function
#
# *masks-5 · 6 points · 15 minutes · ●●●○ difficulty 3 of 4*
#
# The function in the next cell is put together from lines that many repositories share. It runs,
# and it is wrong. Copy it into the answer cell as `attend` and mend it until it keeps
# its promise:
#
# - `q` is `[B, H, T, D]`, `k` and `v` are `[B, H, S, D]`, `real` is `[B, S]` with 1 for a token
#   and 0 for padding; the queries are the last `T` of the `S` positions;
# - a query sees the tokens up to its own position and no padding;
# - a query that sees nothing gets zeros;
# - whatever lies in padded rows of `k` and `v`, even NaN, does not reach the output;
# - the caller's arrays stay unchanged.
#
# Half of the points are for a case that has all of it at once.
#
# **A miniature** of one fault: two float masks that each hold the lowest number there is. Their
# sum is minus infinity, but a cell hidden by *one* of them holds only the lowest number. In a row
# where every cell is hidden, the softmax then sees a difference, and picks its favourites among
# cells that are all forbidden.
#
# Read first: all of *What goes wrong in real code* in [chapter 3](../book/03_masks.ipynb).
#
# <details>
# <summary>Hint 1 for masks-5: how to find the faults</summary>
#
# Change one thing that must not matter, and see whether the output moves: the padding on the left,
# the padding on the right, a later token. Then call it with fewer queries than keys.
#
# </details>
#
# <details>
# <summary>Hint 2 for masks-5: how to mend them</summary>
#
# Build one boolean mask first. Only then touch the scores, once. And remember that a weight of 0
# times NaN is NaN, so a weight of 0 alone does not protect you.
#
# </details>


# %%
def attend_copied(q, k, v, real):
    """Wrong: find out where, then mend it in the answer cell below."""
    T, D = q.shape[-2:]
    scores = q @ np.swapaxes(k, -1, -2) / np.sqrt(D)
    low = np.finfo(scores.dtype).min
    future = np.where(np.tril(np.ones((T, T))) == 1, 0.0, low)
    padding = np.where(real[:, None, :, None] == 1, 0.0, low)
    scores = scores + future + padding
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights = weights / weights.sum(-1, keepdims=True)
    return weights @ v


# %% answer masks-5 points=6 minutes=15 difficulty=3 forbid=attnlearn,scaled_dot_product_attention
def attend(q, k, v, real):
    """q [B, H, T, D], k and v [B, H, S, D], real int [B, S] -> [B, H, T, D]; causal, no padding."""
    # BEGIN SOLUTION
    T, S, D = q.shape[-2], k.shape[-2], q.shape[-1]
    token = (real != 0)[:, None, None, :]
    mask = token & (np.arange(S) <= np.arange(S - T, S)[:, None])
    scores = np.where(mask, q @ np.swapaxes(k, -1, -2) / np.sqrt(D), -np.inf)
    top = scores.max(-1, keepdims=True)
    weights = np.exp(scores - np.where(top == -np.inf, 0, top))
    total = weights.sum(-1, keepdims=True)
    values = np.where(np.swapaxes(token, -1, -2), v, 0)
    return weights / np.where(total == 0, 1, total) @ values
    # END SOLUTION


# %% check masks-5
case = check("masks-5")
_right = np.array([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]])
_left = np.array([[1, 1, 1, 1, 1], [0, 0, 1, 1, 1]])


def _qkv(rng, T=5, S=5):
    return [rng.normal(size=(2, 2, n, 3)) for n in (T, S, S)]


case("no padding", lambda rng: attend(*_qkv(rng), np.ones((2, 5), int)))


case("padding on the right", lambda rng: attend(*_qkv(rng), _right))


case("padding on the left", lambda rng: attend(*_qkv(rng), _left))


case("queries that see nothing", lambda rng: attend(*_qkv(rng), _left)[1, :, :2])


case("a chunk: 2 queries, 5 keys", lambda rng: attend(*_qkv(rng, T=2), _left))


@case("change the future, the past stays")
def _(rng):
    q, k, v = _qkv(rng)
    before = attend(q, k, v, _left)
    k[:, :, 3:] += 1
    v[:, :, 3:] += 1
    return (attend(q, k, v, _left) - before)[:, :, :3]


@case("NaN in the padding")
def _(rng):
    q, k, v = _qkv(rng)
    k[1, :, 3:] = np.nan
    v[1, :, 3:] = np.nan
    return attend(q, k, v, _right)


@case("the caller's arrays stay unchanged")
def _(rng):
    given = dict(zip("qkv", _qkv(rng), strict=True), real=_left.copy())
    before = {name: array.copy() for name, array in given.items()}
    attend(**given)
    return {name: np.abs(given[name] - before[name]).max() for name in given}


@case("all of it at once", weight=9)
def _(rng):
    q, k, v = _qkv(rng, T=3)
    q[..., 0] = k[..., 0] = 40  # scores near 1000
    real = np.array([[1, 0, 1, 1, 1], [0, 0, 0, 1, 1]])
    k[1, :, :3] = v[1, :, :3] = np.nan
    before = v.copy()
    output = attend(q, k, v, real)
    return {"output": output, "v kept": np.array_equal(v, before, equal_nan=True)}


# %% hidden masks-5
case = check("masks-5")


@case("another width: 4 heads of 8, a gap in the text")
def _(rng):
    q, k, v = (rng.normal(size=(2, 4, n, 8)) for n in (3, 5, 5))
    return attend(q, k, v, np.array([[0, 1, 0, 1, 1], [1, 1, 1, 1, 0]]))


# %% right masks-5 einsum, zeros by multiplication
def attend(q, k, v, real):
    T, S = q.shape[2], k.shape[2]
    token = real.astype(bool)[:, None, :, None]
    k, v = np.where(token, k, 0), np.where(token, v, 0)
    mask = np.tri(T, S, S - T, dtype=bool) & token[:, :, None, :, 0]
    scores = np.einsum("bhtd,bhsd->bhts", q, k) / np.sqrt(q.shape[3])
    seen = np.where(mask, scores, -np.inf)
    lse = np.logaddexp.reduce(seen, axis=-1, keepdims=True)
    weights = np.exp(seen - np.where(np.isfinite(lse), lse, 0))
    return np.einsum("bhts,bhsd->bhtd", weights, v)


# %% right masks-5 one query at a time
def attend(q, k, v, real):
    B, H, T, D = q.shape
    S = k.shape[2]
    out = np.zeros((B, H, T, v.shape[-1]))
    for b in range(B):
        for t in range(T):
            keys = np.flatnonzero(real[b, : S - T + t + 1])
            if keys.size == 0:
                continue
            for h in range(H):
                scores = k[b, h, keys] @ q[b, h, t] / D**0.5
                weights = np.exp(scores - scores.max())
                out[b, h, t] = weights @ v[b, h, keys] / weights.sum()
    return out


# %% wrong masks-5 as it was copied
# Nothing is mended yet. Start with the padding: which axis does it close, and which should it?
def attend(q, k, v, real):
    T, D = q.shape[-2:]
    scores = q @ np.swapaxes(k, -1, -2) / np.sqrt(D)
    low = np.finfo(scores.dtype).min
    future = np.where(np.tril(np.ones((T, T))) == 1, 0.0, low)
    padding = np.where(real[:, None, :, None] == 1, 0.0, low)
    scores = scores + future + padding
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights = weights / weights.sum(-1, keepdims=True)
    return weights @ v


# %% wrong masks-5 two float masks added
# You still add two float masks. Where both hide a key the sum is minus infinity, where one does it
# is the lowest number: in a row that should see nothing, the softmax averages over forbidden keys.
# Seen: huggingface/transformers#27114
def attend(q, k, v, real):
    T, S, D = q.shape[-2], k.shape[-2], q.shape[-1]
    scores = q @ np.swapaxes(k, -1, -2) / np.sqrt(D)
    low = np.finfo(scores.dtype).min
    future = np.where(np.tri(T, S, S - T) == 1, 0.0, low)
    padding = np.where(real[:, None, None, :] == 1, 0.0, low)
    scores = scores + future + padding
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights = weights / weights.sum(-1, keepdims=True)
    return weights @ v


# %% wrong masks-5 minus infinity and nothing else
# Minus infinity hides keys, but a query that sees nothing now has NaN in its whole row. Zeros are
# asked for.
# Seen: pytorch/pytorch#103749
def attend(q, k, v, real):
    T, S, D = q.shape[-2], k.shape[-2], q.shape[-1]
    token = (real != 0)[:, None, None, :]
    mask = token & np.tri(T, S, S - T, dtype=bool)
    scores = np.where(mask, q @ np.swapaxes(k, -1, -2) / np.sqrt(D), -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights = weights / weights.sum(-1, keepdims=True)
    return weights @ np.where(np.swapaxes(token, -1, -2), v, 0)


# %% wrong masks-5 an empty row averages everything
# A query that sees nothing averages all values, because its hidden scores are all equally low.
# What should come out of a row that has no key left?
# Seen: NVIDIA/apex#1390
def attend(q, k, v, real):
    T, S, D = q.shape[-2], k.shape[-2], q.shape[-1]
    token = (real != 0)[:, None, None, :]
    mask = token & np.tri(T, S, S - T, dtype=bool)
    scores = np.where(mask, q @ np.swapaxes(k, -1, -2) / np.sqrt(D), -1e9)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights = weights / weights.sum(-1, keepdims=True)
    return weights @ np.where(np.swapaxes(token, -1, -2), v, 0)


# %% wrong masks-5 padding hides queries
# Your padding still closes rows, the queries. Padded keys stay open to everyone, and padded
# queries see nothing.
# Seen: hyunwoongko/transformer#40
def attend(q, k, v, real):
    T, S, D = q.shape[-2], k.shape[-2], q.shape[-1]
    token = (real != 0)[:, None, -T:, None]
    mask = token & np.tri(T, S, S - T, dtype=bool)
    scores = np.where(mask, q @ np.swapaxes(k, -1, -2) / np.sqrt(D), -np.inf)
    top = scores.max(-1, keepdims=True)
    weights = np.exp(scores - np.where(top == -np.inf, 0, top))
    total = weights.sum(-1, keepdims=True)
    return weights / np.where(total == 0, 1, total) @ v


# %% wrong masks-5 NaN reaches the output
# A NaN in the padding still spoils rows that give it a weight of 0, because 0 times NaN is NaN.
# The weights are not the only road from the padding to the output.
# Seen: pytorch/pytorch#101967
def attend(q, k, v, real):
    T, S, D = q.shape[-2], k.shape[-2], q.shape[-1]
    token = (real != 0)[:, None, None, :]
    mask = token & np.tri(T, S, S - T, dtype=bool)
    scores = np.where(mask, q @ np.swapaxes(k, -1, -2) / np.sqrt(D), -np.inf)
    top = scores.max(-1, keepdims=True)
    weights = np.exp(scores - np.where(top == -np.inf, 0, top))
    total = weights.sum(-1, keepdims=True)
    return weights / np.where(total == 0, 1, total) @ v


# %% wrong masks-5 zeros and ones added to the scores
# You add a mask of 0 and 1 to the scores. That raises the visible ones a little and hides nothing.
# Seen: pytorch/pytorch#103963
def attend(q, k, v, real):
    T, S, D = q.shape[-2], k.shape[-2], q.shape[-1]
    mask = np.tri(T, S, S - T) * real[:, None, None, :]
    scores = q @ np.swapaxes(k, -1, -2) / np.sqrt(D) + mask
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ v


# %% wrong masks-5 True hides
# Your boolean mask says what to hide, and you read it as what to keep. Name it after its True:
# `may_look`, or `hidden`.
# Seen: huggingface/transformers#38094
def attend(q, k, v, real):
    T, S, D = q.shape[-2], k.shape[-2], q.shape[-1]
    hidden = (real == 0)[:, None, None, :] | ~np.tri(T, S, S - T, dtype=bool)
    scores = np.where(hidden, q @ np.swapaxes(k, -1, -2) / np.sqrt(D), -np.inf)
    top = scores.max(-1, keepdims=True)
    weights = np.exp(scores - np.where(top == -np.inf, 0, top))
    total = weights.sum(-1, keepdims=True)
    return weights / np.where(total == 0, 1, total) @ v


# %% wrong masks-5 diagonal from the top left
# Your queries stand at the first T positions. They are the last T: with a cache, query 0 has a
# past.
# Seen: pytorch/pytorch#108108
def attend(q, k, v, real):
    T, S, D = q.shape[-2], k.shape[-2], q.shape[-1]
    token = (real != 0)[:, None, None, :]
    mask = token & np.tri(T, S, dtype=bool)
    scores = np.where(mask, q @ np.swapaxes(k, -1, -2) / np.sqrt(D), -np.inf)
    top = scores.max(-1, keepdims=True)
    weights = np.exp(scores - np.where(top == -np.inf, 0, top))
    total = weights.sum(-1, keepdims=True)
    values = np.where(np.swapaxes(token, -1, -2), v, 0)
    return weights / np.where(total == 0, 1, total) @ values


# %% wrong masks-5 zeros written into the caller's values
# You clean the padding in the caller's own array. A cache belongs to the caller: work on a copy.
def attend(q, k, v, real):
    T, S, D = q.shape[-2], k.shape[-2], q.shape[-1]
    token = (real != 0)[:, None, None, :]
    v *= np.swapaxes(token, -1, -2)
    np.nan_to_num(v, copy=False)
    mask = token & np.tri(T, S, S - T, dtype=bool)
    scores = np.where(mask, q @ np.swapaxes(k, -1, -2) / np.sqrt(D), -np.inf)
    top = scores.max(-1, keepdims=True)
    weights = np.exp(scores - np.where(top == -np.inf, 0, top))
    total = weights.sum(-1, keepdims=True)
    return weights / np.where(total == 0, 1, total) @ v


# %% wrong masks-5 the scale is lost
# While mending the mask you lost the division by the square root of D.
def attend(q, k, v, real):
    T, S = q.shape[-2], k.shape[-2]
    token = (real != 0)[:, None, None, :]
    mask = token & np.tri(T, S, S - T, dtype=bool)
    scores = np.where(mask, q @ np.swapaxes(k, -1, -2), -np.inf)
    top = scores.max(-1, keepdims=True)
    weights = np.exp(scores - np.where(top == -np.inf, 0, top))
    total = weights.sum(-1, keepdims=True)
    values = np.where(np.swapaxes(token, -1, -2), v, 0)
    return weights / np.where(total == 0, 1, total) @ values


# %% [markdown]
# ## masks-6: A tile map without the matrix
#
# *masks-6 · 6 points · 18 minutes · ●●●● difficulty 4 of 4*
#
# A fast kernel reads keys in tiles and asks one question about each tile before it starts: does
# the mask hide all of it, part of it, or none of it? Write `tile_map(T, S, w, bq, bk)` for the
# mask of masks-2 (causal, and the `w` newest keys): an integer array `[ceil(T / bq), ceil(S /
# bk)]` with
#
# - `0`, EMPTY: no query of the tile may look at any of its keys, so the kernel skips it;
# - `1`, PARTIAL: some may and some may not, so the kernel applies the mask;
# - `2`, FULL: every query may look at every key, so the kernel needs no mask.
#
# Tile `(r, c)` begins at query `r * bq` and key `c * bk`; the last tile of a row or a column may
# be smaller than the others. **Don't build the `[T, S]` matrix**, not even tile by tile: at
# 131,072 positions it has 17 billion cells. A map of tiles of 1024 has 16,384. Half of the points
# are for long texts and tiles that are not square.
#
# **A miniature.** `tile_map(4, 4, 4, 2, 2)`: plain causal, since the window is as wide as the
# text. Tile (0, 1) holds queries 0, 1 and keys 2, 3, all in the future: EMPTY. Tile (1, 0) holds
# queries 2, 3 and keys 0, 1, all in the past: FULL. The map is `[[1, 0], [2, 1]]`.
#
# Read first: *The tile map* in [chapter 3](../book/03_masks.ipynb).
#
# <details>
# <summary>Hint 1 for masks-6: think of distances</summary>
#
# The mask depends on one number only: the distance from a key to the query. Within one tile that
# distance runs from a smallest to a largest value and takes every value between. From which corner
# of the tile comes the smallest, from which the largest?
#
# </details>
#
# <details>
# <summary>Hint 2 for masks-6: two intervals</summary>
#
# The mask allows distances 0 to `w - 1`. A tile is FULL if its interval of distances lies inside
# that one, EMPTY if the two have nothing in common, and PARTIAL otherwise.
#
# </details>


# %% answer masks-6 points=6 minutes=18 difficulty=4 forbid=attnlearn
def tile_map(T, S, w, bq, bk):
    """int [ceil(T/bq), ceil(S/bk)]: 0 EMPTY, 1 PARTIAL, 2 FULL; causal, the w newest keys."""
    # BEGIN SOLUTION
    first_query = np.arange(0, T, bq)[:, None] + S - T
    last_query = np.minimum(first_query + bq, S) - 1
    first_key = np.arange(0, S, bk)
    last_key = np.minimum(first_key + bk, S) - 1
    nearest = first_query - last_key
    farthest = last_query - first_key
    touched = (farthest >= 0) & (nearest < w)
    full = (nearest >= 0) & (farthest < w)
    return touched.astype(int) + full
    # END SOLUTION


# %% check masks-6
case = check("masks-6")


def _extra_mb(f):
    tracemalloc.start()
    try:
        f()
        return tracemalloc.get_traced_memory()[1] / 2**20
    finally:
        tracemalloc.stop()


def _summary(tiles):
    kinds = {"EMPTY": 0, "PARTIAL": 1, "FULL": 2}
    per_row = {f"{name} per row": np.sum(tiles == kind, 1) for name, kind in kinds.items()}
    return {"shape": np.shape(tiles), **per_row}


case("plain causal, 8 positions", lambda: tile_map(8, 8, 8, 2, 2))
case("a window of 5, 12 positions", lambda: tile_map(12, 12, 5, 2, 2))
case("wide tiles, a window inside one tile", lambda: tile_map(12, 12, 2, 4, 4))
case("tiles wider than the window, a chunk", lambda: tile_map(8, 14, 2, 4, 4))
case("flat tiles, window of 7", lambda: tile_map(12, 12, 7, 2, 3))
case("a chunk: 4 queries, 12 keys", lambda: tile_map(4, 12, 6, 2, 2))
case("lengths that do not divide", lambda: tile_map(7, 11, 6, 3, 4))
case("more queries than keys", lambda: tile_map(7, 4, 3, 2, 2))


@case("extra memory in MB, 1024 positions", weight=2, at_most=0.75)
def _():
    return _extra_mb(lambda: tile_map(1024, 1024, 256, 32, 32))


@case("all of it at once: 100,000 queries, 131,000 keys", weight=11)
def _():
    if _extra_mb(lambda: tile_map(1024, 1024, 256, 32, 32)) > 0.75:
        raise MemoryError("not tried, because the matrix would need more than 12 GB")
    return {
        "window 4375, tiles of 512 by 1024": _summary(tile_map(100_000, 131_000, 4375, 512, 1024)),
        "window 200, tiles of 1024 by 2048": _summary(tile_map(100_000, 131_000, 200, 1024, 2048)),
    }


# %% hidden masks-6
case = check("masks-6")


@case("drawn sizes, one query in the last row")
def _(rng):
    T = 3 * rng.randint(3, 6) + 1
    return tile_map(T, T + rng.randint(5, 9), rng.randint(5, 8), 3, 2)


# %% right masks-6 tile by tile
def tile_map(T, S, w, bq, bk):
    rows, columns = -(-T // bq), -(-S // bk)
    tiles = np.zeros((rows, columns), int)
    for r in range(rows):
        low = r * bq + S - T
        high = min((r + 1) * bq, T) - 1 + S - T
        for c in range(columns):
            left, right = c * bk, min((c + 1) * bk, S) - 1
            if left > high or right <= low - w:
                continue
            tiles[r, c] = 2 if right <= low and left > high - w else 1
    return tiles


# %% right masks-6 a stretch of tiles for each row
def tile_map(T, S, w, bq, bk):
    tiles = np.zeros((-(-T // bq), -(-S // bk)), np.int8)
    for r, row in enumerate(tiles):
        low = r * bq + S - T
        high = min(low + bq, S) - 1
        if high < 0:
            continue
        row[max(0, low - w + 1) // bk : high // bk + 1] = 1
        end = len(row) if low == S - 1 else max(0, low + 1) // bk
        row[-(-max(0, high - w + 1) // bk) : end] = 2
    return tiles


# %% right masks-6 the corners of each tile
def tile_map(T, S, w, bq, bk):
    query, key = np.arange(0, T, bq) + S - T, np.arange(0, S, bk)
    near = np.subtract.outer(query, np.minimum(key + bk, S) - 1)
    far = np.subtract.outer(np.minimum(query + bq, S) - 1, key)
    tiles = np.where((near >= 0) & (far <= w - 1), 2, 1)
    tiles[(far < 0) | (near > w - 1)] = 0
    return tiles


# %% wrong masks-6 the matrix is built
# You build the whole [T, S] matrix and look at it tile by tile. That is what the map should spare
# us: the smallest and the largest distance in a tile tell everything about it.
def tile_map(T, S, w, bq, bk):
    i = np.arange(S - T, S)[:, None]
    j = np.arange(S)
    mask = (j <= i) & (i - j < w)
    some = np.logical_or.reduceat(
        np.logical_or.reduceat(mask, np.arange(0, T, bq), 0), np.arange(0, S, bk), 1
    )
    every = np.logical_and.reduceat(
        np.logical_and.reduceat(mask, np.arange(0, T, bq), 0), np.arange(0, S, bk), 1
    )
    return some.astype(int) + every


# %% wrong masks-6 the window is left out of the map
# Old tiles are never EMPTY in your map: the window is missing. The kernel would visit the whole
# past, and skip the mask where it is needed.
# Seen: vllm-project/vllm#24089
def tile_map(T, S, w, bq, bk):
    first_query = np.arange(0, T, bq)[:, None] + S - T
    last_query = np.minimum(first_query + bq, S) - 1
    first_key = np.arange(0, S, bk)
    last_key = np.minimum(first_key + bk, S) - 1
    return (last_query >= first_key).astype(int) + (first_query >= last_key)


# %% wrong masks-6 FULL is judged at the first query
# Your FULL tiles reach out of the window. Within a tile the window moves on from query to query:
# the last query has lost keys that the first still sees.
# Seen: ROCm/aiter#5741
def tile_map(T, S, w, bq, bk):
    first_query = np.arange(0, T, bq)[:, None] + S - T
    last_query = np.minimum(first_query + bq, S) - 1
    first_key = np.arange(0, S, bk)
    last_key = np.minimum(first_key + bk, S) - 1
    touched = (last_query >= first_key) & (first_query - last_key < w)
    full = (first_query >= last_key) & (first_query - first_key < w)
    return touched.astype(int) + full


# %% wrong masks-6 judged by the corner on the diagonal
# You judge a tile by its first query and its first key. One visible cell makes a tile PARTIAL at
# least, but it does not have to be that one.
def tile_map(T, S, w, bq, bk):
    first_query = np.arange(0, T, bq)[:, None] + S - T
    last_query = np.minimum(first_query + bq, S) - 1
    first_key = np.arange(0, S, bk)
    last_key = np.minimum(first_key + bk, S) - 1
    back = first_query - first_key
    touched = (back >= 0) & (back < w)
    full = (first_query >= last_key) & (last_query - first_key < w)
    return np.maximum(touched.astype(int), 2 * full)


# %% wrong masks-6 the four corners alone
# You ask the four corners of a tile, and call it EMPTY if all are hidden. Where a tile is wider
# than the window, the visible stripe can pass between its corners.
def tile_map(T, S, w, bq, bk):
    first_query = np.arange(0, T, bq)[:, None] + S - T
    last_query = np.minimum(first_query + bq, S) - 1
    first_key = np.arange(0, S, bk)
    last_key = np.minimum(first_key + bk, S) - 1
    corners = [i - j for i in (first_query, last_query) for j in (first_key, last_key)]
    seen = np.array([(back >= 0) & (back < w) for back in corners])
    return seen.any(0).astype(int) + seen.all(0)


# %% wrong masks-6 no tile is ever FULL
# You mark every touched tile PARTIAL. The kernel then pays for a mask in tiles that have nothing
# to hide.
# Seen: vllm-project/vllm-xpu-kernels#383
def tile_map(T, S, w, bq, bk):
    first_query = np.arange(0, T, bq)[:, None] + S - T
    last_query = np.minimum(first_query + bq, S) - 1
    first_key = np.arange(0, S, bk)
    last_key = np.minimum(first_key + bk, S) - 1
    return ((last_query >= first_key) & (first_query - last_key < w)).astype(int)


# %% wrong masks-6 one key too many in the window
# Your window holds one key more than w. A window of w keys allows the distances 0 to w - 1.
# Seen: zml/zml#763
def tile_map(T, S, w, bq, bk):
    first_query = np.arange(0, T, bq)[:, None] + S - T
    last_query = np.minimum(first_query + bq, S) - 1
    first_key = np.arange(0, S, bk)
    last_key = np.minimum(first_key + bk, S) - 1
    nearest, farthest = first_query - last_key, last_query - first_key
    touched = (farthest >= 0) & (nearest <= w)
    return touched.astype(int) + ((nearest >= 0) & (farthest <= w))


# %% wrong masks-6 queries counted from 0
# You place query 0 at position 0. With more keys than queries it stands later: the last query is
# at the last key.
# Seen: meta-pytorch/attention-gym#60
def tile_map(T, S, w, bq, bk):
    first_query = np.arange(0, T, bq)[:, None]
    last_query = np.minimum(first_query + bq, T) - 1
    first_key = np.arange(0, S, bk)
    last_key = np.minimum(first_key + bk, S) - 1
    nearest, farthest = first_query - last_key, last_query - first_key
    touched = (farthest >= 0) & (nearest < w)
    return touched.astype(int) + ((nearest >= 0) & (farthest < w))


# %% wrong masks-6 the last tile is cut off
# Your map has too few rows or columns: a tile that is not filled to the brim still counts. Round
# up, not down.
# Seen: ELS-RD/kernl#73
def tile_map(T, S, w, bq, bk):
    first_query = np.arange(T // bq)[:, None] * bq + S - T
    first_key = np.arange(S // bk) * bk
    nearest, farthest = first_query - first_key - bk + 1, first_query + bq - 1 - first_key
    touched = (farthest >= 0) & (nearest < w)
    return touched.astype(int) + ((nearest >= 0) & (farthest < w))


# %% wrong masks-6 the last tile counts as whole
# You treat the last tile as if it were whole. Its missing queries and keys are nobody's business:
# the tile ends where the text ends.
# Seen: openxla/tokamax#316
def tile_map(T, S, w, bq, bk):
    first_query = np.arange(0, T, bq)[:, None] + S - T
    first_key = np.arange(0, S, bk)
    nearest, farthest = first_query - first_key - bk + 1, first_query + bq - 1 - first_key
    touched = (farthest >= 0) & (nearest < w)
    return touched.astype(int) + ((nearest >= 0) & (farthest < w))


# %% wrong masks-6 EMPTY and FULL exchanged
# You call hidden tiles FULL and open ones EMPTY. The number says how much may be *seen*: 0 for
# nothing, 2 for everything.
def tile_map(T, S, w, bq, bk):
    first_query = np.arange(0, T, bq)[:, None] + S - T
    last_query = np.minimum(first_query + bq, S) - 1
    first_key = np.arange(0, S, bk)
    last_key = np.minimum(first_key + bk, S) - 1
    nearest, farthest = first_query - last_key, last_query - first_key
    touched = (farthest >= 0) & (nearest < w)
    return 2 - touched - ((nearest >= 0) & (farthest < w)).astype(int)


# %% wrong masks-6 PARTIAL and FULL exchanged
# You call mixed tiles FULL and whole ones PARTIAL. The kernel would skip the mask exactly where it
# is needed: 1 is for some, 2 for everything.
def tile_map(T, S, w, bq, bk):
    first_query = np.arange(0, T, bq)[:, None] + S - T
    last_query = np.minimum(first_query + bq, S) - 1
    first_key = np.arange(0, S, bk)
    last_key = np.minimum(first_key + bk, S) - 1
    nearest, farthest = first_query - last_key, last_query - first_key
    touched = (farthest >= 0) & (nearest < w)
    return 2 * touched - ((nearest >= 0) & (farthest < w)).astype(int)


# %% wrong masks-6 the two tile sizes exchanged
# You cut the queries into pieces of bk and the keys into pieces of bq. With square tiles nobody
# notices: the rows of the map are tiles of queries, bq of them in each.
def tile_map(T, S, w, bq, bk):
    first_query = np.arange(0, T, bk)[:, None] + S - T
    last_query = np.minimum(first_query + bk, S) - 1
    first_key = np.arange(0, S, bq)
    last_key = np.minimum(first_key + bq, S) - 1
    nearest, farthest = first_query - last_key, last_query - first_key
    touched = (farthest >= 0) & (nearest < w)
    return touched.astype(int) + ((nearest >= 0) & (farthest < w))


# %% [markdown]
# ## masks-7: Write the check
#
# *masks-7 · 4 points · 12 minutes · ●●●○ difficulty 3 of 4*
#
# Now you are the one who checks. Many of the faults above got past a test that could not see them:
# it looked at square sizes only, or at a text shorter than the window. Write `accepts(mask)`. It
# gets a *function* that somebody else wrote, `mask(T, S, w)`, supposed to do what `causal_window`
# of masks-2 does; you return `True` if it does, `False` if not.
#
# - Right masks come in several styles: accept them all.
# - A mask that raises an error is wrong: return `False`, don't let the error through.
# - Judge only by calling it, with sizes that you choose. Texts of up to 12 positions are enough.
#
# **A miniature.** `lambda T, S, w: np.ones((T, S), bool)` lets every query see the future. A check
# that only looked at the shape would accept it; yours should not.
#
# The check cell hands you one right and one wrong mask at a time: you need both verdicts. Half of
# the points are for judging all of them rightly.
# Read first: *What goes wrong in real code* in [chapter 3](../book/03_masks.ipynb).
#
# <details>
# <summary>Hint 1 for masks-7: choose sizes that disagree</summary>
#
# For every mistake in masks-2, ask: at which `T`, `S` and `w` does it give another matrix than the
# right mask? If all the sizes you try are square, or the window never bites, you won't see it.
#
# </details>
#
# <details>
# <summary>Hint 2 for masks-7: what to compare</summary>
#
# A plain double loop that follows the rule word for word is slow and hard to get wrong: compare
# with that. Values are not all that can differ: 1.0 equals True, but it is no boolean.
#
# </details>


# %% answer masks-7 points=4 minutes=12 difficulty=3 forbid=attnlearn
def accepts(mask):
    """True if mask(T, S, w) is right for all sizes, False if it is wrong or raises."""
    # BEGIN SOLUTION
    for T, S, w in [(4, 4, 9), (7, 7, 3), (1, 5, 2), (3, 12, 4), (5, 2, 2), (12, 12, 11)]:
        try:
            got = np.asarray(mask(T, S, w))
        except Exception:
            return False
        want = [[0 <= t + S - T - s < w for s in range(S)] for t in range(T)]
        if got.dtype != bool or not np.array_equal(got, want):
            return False
    return True
    # END SOLUTION


# %% check masks-7
case = check("masks-7")


def _right(T, S, w):
    return np.tri(T, S, S - T, dtype=bool) & ~np.tri(T, S, S - T - w, dtype=bool)


def _right_too(T, S, w):
    back = np.subtract.outer(np.arange(S - T, S), np.arange(S))
    return np.asfortranarray((back >= 0) & (back < w))


def _top_left(T, S, w):
    return np.tri(T, S, dtype=bool) & ~np.tri(T, S, -w, dtype=bool)


def _no_window(T, S, w):
    return np.tri(T, S, S - T, dtype=bool)


def _one_too_many(T, S, w):
    return _right(T, S, w + 1)


def _not_itself(T, S, w):
    return _right(T, S, w) & ~np.eye(T, S, S - T, dtype=bool)


def _both_ways(T, S, w):
    return np.tri(T, S, S - T + w - 1, dtype=bool) & ~np.tri(T, S, S - T - w, dtype=bool)


def _swapped(T, S, w):
    return _right(T, S, w).T


def _numbers(T, S, w):
    return _right(T, S, w).astype(float)


def _sees_all_before_the_text(T, S, w):
    return _right(T, S, w) if T <= S else _right(S, S, w)[np.arange(T) % S]


def _raises(T, S, w):
    if T > S:
        raise ValueError("more queries than keys")
    return _right(T, S, w)


def _verdicts(right, wrong):
    return {"the right mask": accepts(right), "the wrong mask": accepts(wrong)}


case("diagonal from the top left", lambda: _verdicts(_right, _top_left))
case("the window is left out", lambda: _verdicts(_right_too, _no_window))
case("one key too many in the window", lambda: _verdicts(_right, _one_too_many))
case("a token does not see itself", lambda: _verdicts(_right_too, _not_itself))
case("the window looks both ways", lambda: _verdicts(_right, _both_ways))
case("queries and keys swapped", lambda: _verdicts(_right_too, _swapped))
case("numbers in place of booleans", lambda: _verdicts(_right, _numbers))
case("wrong only for more queries than keys", lambda: _verdicts(_right, _sees_all_before_the_text))
case("an error for more queries than keys", lambda: _verdicts(_right_too, _raises))


@case("all of them together", weight=11)
def _():
    right = (_right, _right_too)
    wrong = (_top_left, _no_window, _one_too_many, _not_itself, _both_ways)
    rest = (_swapped, _numbers, _sees_all_before_the_text, _raises)
    return {mask.__name__: accepts(mask) for mask in right + wrong + rest}


# %% hidden masks-7
case = check("masks-7")


def _forgets_the_first_key(T, S, w):
    mask = _right(T, S, w)
    mask[-1, max(0, S - w)] = False
    return mask


def _one_leak(T, S, w):
    mask = _right(T, S, w)
    mask[0, -1] = True
    return mask


case("the last query loses its oldest key", lambda: _verdicts(_right, _forgets_the_first_key))
case("the first query sees the last key", lambda: _verdicts(_right_too, _one_leak))


# %% right masks-7 every small size
def accepts(mask):
    for T in range(1, 5):
        for S in range(1, 5):
            for w in range(1, 6):
                try:
                    got = np.asarray(mask(T, S, w))
                except Exception:
                    return False
                back = np.arange(S - T, S)[:, None] - np.arange(S)
                want = (back >= 0) & (back < w)
                if got.dtype != want.dtype or got.shape != want.shape or (got != want).any():
                    return False
    return True


# %% right masks-7 by properties, without a model answer
def accepts(mask):
    try:
        for T, S, w in [(5, 5, 2), (2, 6, 3), (1, 4, 9), (6, 3, 2), (4, 4, 4)]:
            got = mask(T, S, w)
            if got.shape != (T, S) or got.dtype != bool:
                return False
            for t, row in enumerate(got):
                here = S - T + t
                if here < 0:
                    if row.any():
                        return False
                    continue
                if row[here + 1 :].any() or row[: max(0, here - w + 1)].any():
                    return False
                if not row[max(0, here - w + 1) : here + 1].all():
                    return False
    except Exception:
        return False
    return True


# %% wrong masks-7 square sizes only
# Masks pass your check that go wrong only where T and S differ: where the diagonal starts does not
# show when there are as many queries as keys.
# Seen: keras-team/keras#21595
def accepts(mask):
    for T, S, w in [(1, 1, 1), (4, 4, 2), (6, 6, 3)]:
        try:
            got = mask(T, S, w)
        except Exception:
            return False
        want = [[0 <= t + S - T - s < w for s in range(S)] for t in range(T)]
        if got.dtype != bool or not np.array_equal(got, want):
            return False
    return True


# %% wrong masks-7 the window never bites
# Masks pass your check that have no window, or one that is too wide. Choose a text that is longer
# than the window.
# Seen: Lightning-AI/litgpt#1552
def accepts(mask):
    for T, S, w in [(4, 4, 9), (2, 6, 9), (5, 2, 9), (12, 12, 12)]:
        try:
            got = mask(T, S, w)
        except Exception:
            return False
        want = [[0 <= t + S - T - s < w for s in range(S)] for t in range(T)]
        if got.dtype != bool or not np.array_equal(got, want):
            return False
    return True


# %% wrong masks-7 only the shape is checked
# Masks with wrong values pass your check, if only the shape and the dtype are right. A mask full of
# True would pass, too.
def accepts(mask):
    for T, S, w in [(4, 4, 9), (7, 7, 3), (1, 5, 2), (3, 12, 4), (5, 2, 2)]:
        try:
            got = mask(T, S, w)
        except Exception:
            return False
        if got.shape != (T, S) or got.dtype != bool:
            return False
    return True


# %% wrong masks-7 only the number of cells is checked
# A mask with queries and keys swapped passes your check. It opens equally many cells, in other
# places: compare where they are.
def accepts(mask):
    for T, S, w in [(4, 4, 9), (7, 7, 3), (1, 5, 2), (3, 12, 4), (5, 2, 2)]:
        try:
            got = mask(T, S, w)
        except Exception:
            return False
        want = [[0 <= t + S - T - s < w for s in range(S)] for t in range(T)]
        if got.dtype != bool or np.sum(got) != np.sum(want):
            return False
    return True


# %% wrong masks-7 only leaks are looked for
# A mask that hides too much passes your check. Nothing forbidden is visible in it: ask for what
# must be visible, too.
def accepts(mask):
    for T, S, w in [(4, 4, 9), (7, 7, 3), (1, 5, 2), (3, 12, 4), (5, 2, 2)]:
        try:
            got = mask(T, S, w)
            back = np.arange(S - T, S)[:, None] - np.arange(S)
            if got.dtype != bool or got[(back < 0) | (back >= w)].any():
                return False
        except Exception:
            return False
    return True


# %% wrong masks-7 1.0 taken for True
# A mask of numbers passes your check. 1.0 and True compare as equal, but added to scores a mask of
# numbers hides nothing: look at the dtype as well.
# Seen: pytorch/pytorch#103963
def accepts(mask):
    for T, S, w in [(4, 4, 9), (7, 7, 3), (1, 5, 2), (3, 12, 4), (5, 2, 2)]:
        try:
            got = mask(T, S, w)
        except Exception:
            return False
        want = [[0 <= t + S - T - s < w for s in range(S)] for t in range(T)]
        if not np.array_equal(got, want):
            return False
    return True


# %% wrong masks-7 never more queries than keys
# Masks pass your check that go wrong, or break, for more queries than keys. There the first queries
# stand before the first key: try it.
def accepts(mask):
    for T, S, w in [(4, 4, 9), (7, 7, 3), (1, 5, 2), (3, 12, 4), (2, 5, 1)]:
        try:
            got = mask(T, S, w)
        except Exception:
            return False
        want = [[0 <= t + S - T - s < w for s in range(S)] for t in range(T)]
        if got.dtype != bool or not np.array_equal(got, want):
            return False
    return True


# %% wrong masks-7 an error escapes
# When the mask raises an error, so do you. A check gives its verdict: a mask that breaks is wrong.
def accepts(mask):
    for T, S, w in [(4, 4, 9), (7, 7, 3), (1, 5, 2), (3, 12, 4), (5, 2, 2)]:
        got = mask(T, S, w)
        want = [[0 <= t + S - T - s < w for s in range(S)] for t in range(T)]
        if got.dtype != bool or got.shape != (T, S) or (got != want).any():
            return False
    return True


# %% wrong masks-7 one size only
# Masks pass your check that are right at some sizes and wrong at others. Collect sizes that
# disagree with each other.
def accepts(mask):
    try:
        got = mask(1, 6, 3)
    except Exception:
        return False
    return got.dtype == bool and np.array_equal(got, [[False, False, False, True, True, True]])


# %% wrong masks-7 everything is accepted
# The masks of these cases are accepted, and all of them are wrong. A check proves something only if
# it can fail: at which sizes would each of them differ from a right mask?
def accepts(mask):
    return True


# %% wrong masks-7 everything is rejected
# Right masks are rejected, too. Run your check on a mask that you trust before you use it on
# others.
def accepts(mask):
    return False


# %% wrong masks-7 the verdicts are the wrong way round
# Right masks get False, and wrong ones True. True is the verdict for a mask that is right.
def accepts(mask):
    for T, S, w in [(4, 4, 9), (7, 7, 3), (1, 5, 2), (3, 12, 4), (5, 2, 2)]:
        try:
            got = mask(T, S, w)
        except Exception:
            return True
        want = [[0 <= t + S - T - s < w for s in range(S)] for t in range(T)]
        if got.dtype != bool or not np.array_equal(got, want):
            return True
    return False


# %% wrong masks-7 the model answer has the same fault
# Right masks are rejected, and the one with its diagonal from the top left is accepted. Is that
# what your own model answer does? Work out a small case by hand.
# Seen: ml-explore/mlx#2836
def accepts(mask):
    for T, S, w in [(4, 4, 9), (7, 7, 3), (1, 5, 2), (3, 12, 4), (5, 2, 2)]:
        try:
            got = mask(T, S, w)
        except Exception:
            return False
        want = [[0 <= t - s < w for s in range(S)] for t in range(T)]
        if got.dtype != bool or not np.array_equal(got, want):
            return False
    return True


# %% [markdown]
# ## What to take along
#
# - A mask is a question about positions. Write down the position of every query first.
# - Combine masks as booleans, and touch the scores once.
# - Choose, don't add: minus infinity, −1e9 and the lowest number each fail in their own way.
# - A row that sees nothing gets zeros.
# - A test that never leaves square sizes sees nothing of all this.
#
# Back to [chapter 3](../book/03_masks.ipynb).
