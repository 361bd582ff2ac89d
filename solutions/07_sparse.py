# %% [markdown]
# # Exercises 7: sparse attention
#
# Seven tasks on [chapter 7, *The n² wall and sparse attention*](../book/07_sparse.ipynb). They
# climb from counting bytes to testing somebody else's kernel: predict, fill in, mend, build, and
# write a check of your own.
#
# | task | what you do | points | minutes | level |
# |---|---|---|---|---|
# | `sparse-1` | predict bytes, pairs, tiles and reach | 3 | 10 | 1 of 4 |
# | `sparse-2` | count the pairs of a window exactly | 4 | 11 | 2 of 4 |
# | `sparse-3` | build Longformer's and BigBird's mask | 5 | 12 | 2 of 4 |
# | `sparse-4` | cut a mask into tiles, and sort positions so that it pays | 5 | 14 | 3 of 4 |
# | `sparse-5` | mend a block-sparse attention | 6 | 16 | 3 of 4 |
# | `sparse-6` | attend to a band without an n × n array | 6 | 15 | 4 of 4 |
# | `sparse-7` | write the check | 4 | 12 | 3 of 4 |
# | all | | 33 | 90 | |
#
# **How checking works.** Write your answer in place of the line `raise NotImplementedError`, run
# the cell, then run the check cell below it. The check calls your function and tells you which
# cases agree, where the first difference is, and, if it knows your mistake, its name and a hint.
# It calls your function as you last ran it: after every edit, **run the answer cell again** before
# the check. Some further cases run only when an instructor grades.
#
# **The letters.** `T` queries, `S` keys, `n` where both are the same positions, `w` the window,
# `H` heads, `D` numbers in a query or key, `E` numbers in a value. `True` means *may look*. A
# window of `w` is `|i - j| < w`, so a token stands in its own window; with the causal rule it
# holds the `w` newest keys. A *tile* is a rectangle of scores that a kernel computes in one go.
# All you need is NumPy; please write masks and attention yourself instead of calling `attnlearn`.

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
# ## sparse-1: Predict bytes, pairs, tiles and reach
#
# *sparse-1 · 3 points · 10 minutes · ●○○○ difficulty 1 of 4*
#
# Work these out with pencil and paper, then write down plain numbers. A GiB is 2³⁰ bytes, 131,072
# is 2¹⁷, a float32 takes 4 bytes and a float16 takes 2.
#
# 1. `matrix`: a text of 131,072 tokens, heads of width 128. How many **GiB** do the scores take,
#    one number for each pair of tokens, for one head in float32? For one head in float16? For
#    all 32 heads of one layer in float32? Three numbers.
# 2. `longest`: what is the longest text, a power of two, whose float32 scores in one layer fit into
#    1 GiB: with one head, and with 32 heads? Two numbers of tokens.
# 3. `window`: 12 tokens and a window of 4. How many pairs are visible if the window is causal? How
#    many if it looks both ways? Which share of all 144 pairs is the second? Three numbers.
# 4. `tiles`: 8 tokens, a causal window of 4, tiles of 2 by 2. Write the map: four rows of four
#    numbers, 0 where the tile is EMPTY, 1 where it is PARTIAL, 2 where it is FULL.
# 5. `reach`: every layer has a causal window of 4, and there are 3 layers. How many input positions
#    can change the output at position 100, its own included? And with a window of 4096 and 32
#    layers, at a position far enough from the start? Two numbers.
#
# **A miniature.** 4 tokens, a causal window of 2: the tokens see 1, 2, 2 and 2 keys, 7 pairs. In
# tiles of 2 by 2 the map is `[[1, 0], [1, 1]]`. After two layers a token far from the start is
# reached by 3 positions: itself and the two before it.
#
# Half of the points are for having all five right together.
# Read first: *The wall, in bytes*, *The code: compute the tiles that are not empty* and *Whom can a
# token hear?* in [chapter 7](../book/07_sparse.ipynb).
#
# <details>
# <summary>Hint 1 for sparse-1: powers of two</summary>
#
# Write everything as a power of two: squaring doubles the exponent, multiplying adds them. A score
# is one number, however wide the two vectors were that made it.
#
# </details>
#
# <details>
# <summary>Hint 2 for sparse-1: edges</summary>
#
# At the ends of a text a window is cut short: count those rows one by one. For the reach, follow
# one path: how many positions back can one layer carry something?
#
# </details>


# %% answer sparse-1 points=3 minutes=10 difficulty=1 forbid=attnlearn
def matrix():
    """GiB of 131,072² scores: one head float32, one head float16, 32 heads float32."""
    # BEGIN SOLUTION
    return [64, 32, 2048]
    # END SOLUTION


def longest():
    """Most tokens, a power of two, whose float32 scores fit 1 GiB: 1 head, 32 heads."""
    # BEGIN SOLUTION
    return [16384, 2048]
    # END SOLUTION


def window():
    """12 tokens, window 4: causal pairs, pairs both ways, share of the latter."""
    # BEGIN SOLUTION
    return [42, 72, 0.5]
    # END SOLUTION


def tiles():
    """8 tokens, causal window of 4, tiles of 2: four rows of 0 EMPTY, 1 PARTIAL, 2 FULL."""
    # BEGIN SOLUTION
    return [[1, 0, 0, 0], [2, 1, 0, 0], [1, 2, 1, 0], [0, 1, 2, 1]]
    # END SOLUTION


def reach():
    """Positions that reach one output: window 4 in 3 layers, window 4096 in 32 layers."""
    # BEGIN SOLUTION
    return [10, 131041]
    # END SOLUTION


# %% check sparse-1
case = check("sparse-1", rtol=0, atol=0)


def _three_digits(numbers):
    return np.array([float(f"{x:.3g}") for x in np.ravel(numbers)])


case("matrix", lambda: _three_digits(matrix()))
case("longest", lambda: np.array(longest(), float))
case("window", lambda: _three_digits(window()))
case("tiles", lambda: np.array(tiles(), float))
case("reach", lambda: np.array(reach(), float))


@case("all five together", weight=5)
def _():
    rest = [np.ravel(np.array(f(), float)) for f in (longest, tiles, reach)]
    return np.concatenate([_three_digits(matrix()), _three_digits(window()), *rest])


# %% right sparse-1 as powers of two
def matrix():
    return 2**34 * 4 / 2**30, 2**34 * 2 / 2**30, 2**34 * 4 * 2**5 / 2**30


def longest():
    return 2**14, 2**11


def window():
    causal = 12 * 4 - (1 + 2 + 3)
    both = 2 * causal - 12
    return causal, both, both / 12**2


def tiles():
    return ((1, 0, 0, 0), (2, 1, 0, 0), (1, 2, 1, 0), (0, 1, 2, 1))


def reach():
    return 1 + 3 * (4 - 1), 1 + 32 * (4096 - 1)


# %% right sparse-1 counted with arrays
def matrix():
    return np.array([4, 2, 4 * 32]) * 131_072**2 / 1024**3


def longest():
    n = 2 ** np.arange(20)
    return [n[n * n * 4 * heads <= 2**30].max() for heads in (1, 32)]


def window():
    back = np.subtract.outer(np.arange(12), np.arange(12))
    both = abs(back) < 4
    return [(both & (back >= 0)).sum(), both.sum(), both.mean()]


def tiles():
    return np.eye(4) + 2 * np.eye(4, k=-1) + np.eye(4, k=-2)


def reach():
    return [len(range(100 - 3 * 3, 101)), 32 * 4095 + 1]


# %% wrong sparse-1 gigabytes for gibibytes
# You divided by a thousand million. A GiB is 2³⁰ bytes, 7 % more than a GB: a matrix of powers of
# two then gives round numbers.
# Seen: meta-pytorch/torchtune#1346
def matrix():
    return [68.7, 34.4, 2199]


def longest():
    return [16384, 2048]


def window():
    return [42, 72, 0.5]


def tiles():
    return [[1, 0, 0, 0], [2, 1, 0, 0], [1, 2, 1, 0], [0, 1, 2, 1]]


def reach():
    return [10, 131041]


# %% wrong sparse-1 every number takes four bytes
# Your float16 scores take as much as the float32 ones. How many bytes does one of them have?
def matrix():
    return [64, 64, 2048]


def longest():
    return [16384, 2048]


def window():
    return [42, 72, 0.5]


def tiles():
    return [[1, 0, 0, 0], [2, 1, 0, 0], [1, 2, 1, 0], [0, 1, 2, 1]]


def reach():
    return [10, 131041]


# %% wrong sparse-1 numbers counted in place of bytes
# You counted scores, not bytes. Each score takes more than one byte: how many in float32?
def matrix():
    return [16, 16, 512]


def longest():
    return [32768, 4096]


def window():
    return [42, 72, 0.5]


def tiles():
    return [[1, 0, 0, 0], [2, 1, 0, 0], [1, 2, 1, 0], [0, 1, 2, 1]]


def reach():
    return [10, 131041]


# %% wrong sparse-1 one matrix for all heads
# All your heads share one matrix of scores. Every head has a softmax of its own, so each needs its
# own n² scores.
def matrix():
    return [64, 32, 64]


def longest():
    return [16384, 16384]


def window():
    return [42, 72, 0.5]


def tiles():
    return [[1, 0, 0, 0], [2, 1, 0, 0], [1, 2, 1, 0], [0, 1, 2, 1]]


def reach():
    return [10, 131041]


# %% wrong sparse-1 the width of a head multiplied in
# You multiplied by the width of a head. It counts in the *time*, n² · D; a score is the result of a
# dot product, one number, so the *space* is n².
def matrix():
    return [8192, 4096, 262144]


def longest():
    return [16384, 2048]


def window():
    return [42, 72, 0.5]


def tiles():
    return [[1, 0, 0, 0], [2, 1, 0, 0], [1, 2, 1, 0], [0, 1, 2, 1]]


def reach():
    return [10, 131041]


# %% wrong sparse-1 length and heads trade one for one
# You divided the length by the number of heads. The bytes grow like the square of the length: 32
# times less memory per head is not 32 times less text.
def matrix():
    return [64, 32, 2048]


def longest():
    return [16384, 512]


def window():
    return [42, 72, 0.5]


def tiles():
    return [[1, 0, 0, 0], [2, 1, 0, 0], [1, 2, 1, 0], [0, 1, 2, 1]]


def reach():
    return [10, 131041]


# %% wrong sparse-1 the ends of the text are forgotten
# You gave every token a whole window. The first tokens have fewer keys before them, and looking
# both ways the last ones have fewer behind them.
def matrix():
    return [64, 32, 2048]


def longest():
    return [16384, 2048]


def window():
    return [48, 84, 0.583]


def tiles():
    return [[1, 0, 0, 0], [2, 1, 0, 0], [1, 2, 1, 0], [0, 1, 2, 1]]


def reach():
    return [10, 131041]


# %% wrong sparse-1 one key too many in the window
# Your window holds the token itself and w keys before it. A window of 4 is |i - j| < 4: the token's
# own key is one of the four.
# Seen: huggingface/transformers#39408
# Seen: huggingface/transformers#29623
def matrix():
    return [64, 32, 2048]


def longest():
    return [16384, 2048]


def window():
    return [50, 88, 0.611]


def tiles():
    return [[1, 0, 0, 0], [2, 1, 0, 0], [1, 2, 1, 0], [0, 1, 2, 1]]


def reach():
    return [10, 131041]


# %% wrong sparse-1 the diagonal counted twice
# You doubled the causal pairs. Looking both ways adds the keys behind each token, but its own key
# was counted already.
def matrix():
    return [64, 32, 2048]


def longest():
    return [16384, 2048]


def window():
    return [42, 84, 0.583]


def tiles():
    return [[1, 0, 0, 0], [2, 1, 0, 0], [1, 2, 1, 0], [0, 1, 2, 1]]


def reach():
    return [10, 131041]


# %% wrong sparse-1 the window looks one way only
# You counted the causal pairs in both places. |i - j| < 4 is true for keys on either side of the
# token.
# Seen: https://github.com/vllm-project/vllm/pull/31406
def matrix():
    return [64, 32, 2048]


def longest():
    return [16384, 2048]


def window():
    return [42, 42, 0.292]


def tiles():
    return [[1, 0, 0, 0], [2, 1, 0, 0], [1, 2, 1, 0], [0, 1, 2, 1]]


def reach():
    return [10, 131041]


# %% wrong sparse-1 PARTIAL and FULL exchanged
# You call mixed tiles FULL and whole ones PARTIAL. The number says how much of a tile may be seen:
# 1 is some of it, 2 is all of it.
def matrix():
    return [64, 32, 2048]


def longest():
    return [16384, 2048]


def window():
    return [42, 72, 0.5]


def tiles():
    return [[2, 0, 0, 0], [1, 2, 0, 0], [2, 1, 2, 0], [0, 2, 1, 2]]


def reach():
    return [10, 131041]


# %% wrong sparse-1 no tile is ever FULL
# You mark every tile that the window touches as PARTIAL. Look for a tile in which each query may
# see both keys: there a kernel needs no mask.
# Seen: vllm-project/vllm-xpu-kernels#383
def matrix():
    return [64, 32, 2048]


def longest():
    return [16384, 2048]


def window():
    return [42, 72, 0.5]


def tiles():
    return [[1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0], [0, 1, 1, 1]]


def reach():
    return [10, 131041]


# %% wrong sparse-1 the oldest tile is dropped
# You keep two tiles per row, as if the window began at a border of tiles. It begins at another key
# for each query: whose window reaches farthest back?
def matrix():
    return [64, 32, 2048]


def longest():
    return [16384, 2048]


def window():
    return [42, 72, 0.5]


def tiles():
    return [[1, 0, 0, 0], [2, 1, 0, 0], [0, 2, 1, 0], [0, 0, 2, 1]]


def reach():
    return [10, 131041]


# %% wrong sparse-1 each layer adds a whole window
# You multiplied the window by the number of layers. A window of w reaches w - 1 positions back,
# since one of its keys is the token's own.
# Seen: mistralai/mistral-inference#40
def matrix():
    return [64, 32, 2048]


def longest():
    return [16384, 2048]


def window():
    return [42, 72, 0.5]


def tiles():
    return [[1, 0, 0, 0], [2, 1, 0, 0], [1, 2, 1, 0], [0, 1, 2, 1]]


def reach():
    return [12, 131072]


# %% wrong sparse-1 one layer only
# Your reach is that of a single layer. What a token saw in the first layer is part of it in the
# second, where others see it.
# Seen: mistralai/mistral-inference#40
def matrix():
    return [64, 32, 2048]


def longest():
    return [16384, 2048]


def window():
    return [42, 72, 0.5]


def tiles():
    return [[1, 0, 0, 0], [2, 1, 0, 0], [1, 2, 1, 0], [0, 1, 2, 1]]


def reach():
    return [4, 4096]


# %% wrong sparse-1 its own position left out
# You counted how far back it goes, not how many positions that makes: the token's own position
# belongs to them, too.
def matrix():
    return [64, 32, 2048]


def longest():
    return [16384, 2048]


def window():
    return [42, 72, 0.5]


def tiles():
    return [[1, 0, 0, 0], [2, 1, 0, 0], [1, 2, 1, 0], [0, 1, 2, 1]]


def reach():
    return [9, 131040]


# %% [markdown]
# ## sparse-2: Count the pairs of a window exactly
#
# *sparse-2 · 4 points · 11 minutes · ●●○○ difficulty 2 of 4*
#
# You may read that a window of 256 and 32 global tokens save 68 % at 1,200 tokens. Few such
# sentences say what was counted. Write two functions that leave no doubt:
#
# - `window_pairs(n, w, g, causal)`: how many of the n² pairs (query i, key j) are visible? A pair
#   is visible if `|i - j| < w`, or if one of the two is among the first `g` positions, the *global*
#   ones: `i < g` or `j < g`. With `causal=True` it must also have `j <= i`. A whole number.
# - `saved(n, w, g, causal)`: the share of pairs that **dense attention of the same kind** computes
#   and this one does not. Dense causal attention computes only pairs with `j <= i`.
#
# `n` may be 131,072, so **don't build the matrix**: a formula is enough. `1 <= w`, `0 <= g <= n`,
# and `w` may be larger than `n`. Half of the points are for a case with long texts.
#
# **A miniature.** n = 4, w = 2, g = 1, both ways: only the pairs (1, 3) and (3, 1) are hidden, so
# 14 are visible, and 2/16 = 0.125 is saved. Causal: of the 10 pairs with `j <= i`, (3, 1) is
# hidden: 9 are visible, and 0.1 is saved.
#
# Read first: *What a pattern saves: pairs, tiles, time* in [chapter 7](../book/07_sparse.ipynb).
#
# <details>
# <summary>Hint 1 for sparse-2: count what is hidden</summary>
#
# The hidden pairs are two triangles in the corners, so count those. Only positions that are not
# global can hide from each other. How many are there, and which distances are hidden?
#
# </details>
#
# <details>
# <summary>Hint 2 for sparse-2: half of a symmetric pattern</summary>
#
# The pattern is symmetric: every visible pair below the diagonal has a twin above it. The diagonal
# itself is always visible, and has no twin.
#
# </details>


# %% answer sparse-2 points=4 minutes=11 difficulty=2 forbid=attnlearn
def window_pairs(n, w, g, causal):
    """Visible pairs of n positions: |i - j| < w or one of the first g; causal: and j <= i."""
    # BEGIN SOLUTION
    far = max(n - g - w, 0)
    pairs = n * n - far * (far + 1)
    return (pairs + n) // 2 if causal else pairs
    # END SOLUTION


def saved(n, w, g, causal):
    """Share of the pairs of dense attention, causal or not, that are hidden here."""
    # BEGIN SOLUTION
    dense = n * (n + 1) // 2 if causal else n * n
    return 1 - window_pairs(n, w, g, causal) / dense
    # END SOLUTION


# %% check sparse-2
case = check("sparse-2")


def _extra_mb(f):
    tracemalloc.start()
    try:
        f()
        return tracemalloc.get_traced_memory()[1] / 2**20
    finally:
        tracemalloc.stop()


def _pairs(*sizes):
    return [float(window_pairs(*size)) for size in sizes]


case("12 positions, window 4, both ways", lambda: _pairs((12, 4, 0, False)), exact=True)
case("12 positions, window 4, causal", lambda: _pairs((12, 4, 0, True)), exact=True)
case("with 3 globals", lambda: _pairs((12, 4, 3, False), (12, 4, 3, True)), exact=True)
case("a window wider than the text", lambda: _pairs((5, 9, 0, False), (5, 9, 0, True)), exact=True)
case("window meets globals", lambda: _pairs((10, 4, 8, False), (10, 4, 8, True)), exact=True)
case("saved, both ways", lambda: float(saved(12, 4, 3, False)))
case("saved, causal", lambda: float(saved(12, 4, 3, True)))


@case("extra memory in MB, 1024 positions", at_most=0.5)
def _():
    return _extra_mb(lambda: saved(1024, 9, 2, True))


@case("long texts, all of it at once", weight=9)
def _():
    if _extra_mb(lambda: saved(1024, 9, 2, True)) > 0.5:
        raise MemoryError("not tried, because the matrix would need more than 16 GB")
    return {
        "1,200 tokens, 128 on each side, 32 globals": float(saved(1200, 129, 32, False)),
        "1,200 tokens, causal window of 256": float(saved(1200, 256, 0, True)),
        "131,072 tokens, window 32,768": _pairs((131_072, 32_768, 16, False)),
        "131,072 tokens, causal": _pairs((131_072, 32_768, 16, True)),
        "1,000 tokens, a window of 2,000": _pairs((1000, 2000, 10, False), (1000, 2000, 10, True)),
    }


# %% hidden sparse-2
case = check("sparse-2")
case("every position is global", lambda: _pairs((7, 2, 7, False), (7, 2, 7, True)), exact=True)


# %% right sparse-2 row by row
def window_pairs(n, w, g, causal):
    pairs = 0
    for i in range(n):
        first, last = max(0, i - w + 1), i if causal else min(n - 1, i + w - 1)
        if i < g:
            first, last = 0, i if causal else n - 1
        pairs += last - first + 1 + min(g, first)
    return pairs


def saved(n, w, g, causal):
    every = sum(range(n + 1)) if causal else n**2
    return (every - window_pairs(n, w, g, causal)) / every


# %% right sparse-2 one diagonal after the other
def window_pairs(n, w, g, causal):
    m = n - g
    back = np.arange(min(w, m))
    below = int((m - back).sum()) if m else 0
    below += g * (g + 1) // 2 + g * m
    return below if causal else 2 * below - n


def saved(n, w, g, causal):
    return 1 - window_pairs(n, w, g, causal) / window_pairs(n, n, 0, causal)


# %% wrong sparse-2 the ends of the text are forgotten
# You gave every token a whole window of 2w - 1 keys, or w if causal. Near the ends part of it lies
# outside the text: your count is too large.
def window_pairs(n, w, g, causal):
    m = n - g
    band = m * (w if causal else 2 * w - 1)
    return band + (g * (g + 1) // 2 + g * m if causal else g * g + 2 * g * m)


def saved(n, w, g, causal):
    dense = n * (n + 1) // 2 if causal else n * n
    return 1 - window_pairs(n, w, g, causal) / dense


# %% wrong sparse-2 one key too many in the window
# Your window holds distances up to w. |i - j| < w stops at w - 1, on each side.
# Seen: huggingface/transformers#39408
# Seen: vllm-project/vllm#3385
def window_pairs(n, w, g, causal):
    far = max(n - g - w - 1, 0)
    pairs = n * n - far * (far + 1)
    return (pairs + n) // 2 if causal else pairs


def saved(n, w, g, causal):
    dense = n * (n + 1) // 2 if causal else n * n
    return 1 - window_pairs(n, w, g, causal) / dense


# %% wrong sparse-2 one key too few in the window
# Your window stops at a distance of w - 2. |i - j| < w holds the distance w - 1, too.
# Seen: https://github.com/lightseekorg/tokenspeed/pull/578
def window_pairs(n, w, g, causal):
    far = max(n - g - w + 1, 0)
    pairs = n * n - far * (far + 1)
    return (pairs + n) // 2 if causal else pairs


def saved(n, w, g, causal):
    dense = n * (n + 1) // 2 if causal else n * n
    return 1 - window_pairs(n, w, g, causal) / dense


# %% wrong sparse-2 w is the whole window
# You took w for the width of the whole window, half of it on each side. Here |i - j| < w: it
# reaches w - 1 positions in each direction.
# Seen: allenai/longformer#194
def window_pairs(n, w, g, causal):
    far = max(n - g - (w // 2 + 1), 0)
    pairs = n * n - far * (far + 1)
    return (pairs + n) // 2 if causal else pairs


def saved(n, w, g, causal):
    dense = n * (n + 1) // 2 if causal else n * n
    return 1 - window_pairs(n, w, g, causal) / dense


# %% wrong sparse-2 globals on top of the window
# You added the rows and columns of the globals to the pairs of the window. Where they overlap, a
# pair is counted twice.
def window_pairs(n, w, g, causal):
    far = max(n - w, 0)
    pairs = n * n - far * (far + 1) + 2 * g * n - g * g
    return (pairs + n) // 2 if causal else pairs


def saved(n, w, g, causal):
    dense = n * (n + 1) // 2 if causal else n * n
    return 1 - window_pairs(n, w, g, causal) / dense


# %% wrong sparse-2 the corner of the globals counted twice
# You added g rows and g columns. The pairs of two globals lie in both: count them once.
def window_pairs(n, w, g, causal):
    far = max(n - g - w, 0)
    pairs = n * n - far * (far + 1) + g * g
    return (pairs + n) // 2 if causal else pairs


def saved(n, w, g, causal):
    dense = n * (n + 1) // 2 if causal else n * n
    return 1 - window_pairs(n, w, g, causal) / dense


# %% wrong sparse-2 globals are seen but do not see
# Only the columns of the globals are open. A global token also sees everyone: its row is open, too.
def window_pairs(n, w, g, causal):
    rows = np.arange(n)
    first = np.maximum(rows - w + 1, 0)
    last = np.minimum(rows + w - 1, n - 1)
    pairs = int((last - first + 1 + np.minimum(first, g)
                 + np.maximum(g - 1 - last, 0)).sum())
    return (pairs + n) // 2 if causal else pairs


def saved(n, w, g, causal):
    dense = n * (n + 1) // 2 if causal else n * n
    return 1 - window_pairs(n, w, g, causal) / dense


# %% wrong sparse-2 the globals are left out
# Your globals make no difference. They are the first g positions, and they see all and are seen by
# all.
# Seen: allenai/longformer#254
def window_pairs(n, w, g, causal):
    far = max(n - w, 0)
    pairs = n * n - far * (far + 1)
    return (pairs + n) // 2 if causal else pairs


def saved(n, w, g, causal):
    dense = n * (n + 1) // 2 if causal else n * n
    return 1 - window_pairs(n, w, g, causal) / dense


# %% wrong sparse-2 a short text has a negative rest
# For a window wider than the text you subtract pairs that do not exist. How many positions are
# farther away than the window reaches, at the least?
def window_pairs(n, w, g, causal):
    far = n - g - w
    pairs = n * n - far * (far + 1)
    return (pairs + n) // 2 if causal else pairs


def saved(n, w, g, causal):
    dense = n * (n + 1) // 2 if causal else n * n
    return 1 - window_pairs(n, w, g, causal) / dense


# %% wrong sparse-2 the diagonal is halved, too
# You halved all pairs to make the count causal. The pairs on the diagonal have no twin above it:
# causal attention keeps every one of them.
def window_pairs(n, w, g, causal):
    far = max(n - g - w, 0)
    pairs = n * n - far * (far + 1)
    return pairs // 2 if causal else pairs


def saved(n, w, g, causal):
    dense = n * (n + 1) // 2 if causal else n * n
    return 1 - window_pairs(n, w, g, causal) / dense


# %% wrong sparse-2 the diagonal is thrown away
# Your causal count leaves out the diagonal. A token may see itself: j <= i.
# Seen: pbloem/former#10
def window_pairs(n, w, g, causal):
    far = max(n - g - w, 0)
    pairs = n * n - far * (far + 1)
    return (pairs - n) // 2 if causal else pairs


def saved(n, w, g, causal):
    dense = n * (n + 1) // 2 if causal else n * n
    return 1 - window_pairs(n, w, g, causal) / dense


# %% wrong sparse-2 causal is ignored
# Your causal count is the count both ways. With causal=True the pairs above the diagonal do not
# count.
# Seen: AI-Hypercomputer/maxtext#1972
def window_pairs(n, w, g, causal):
    far = max(n - g - w, 0)
    pairs = n * n - far * (far + 1)
    return pairs


def saved(n, w, g, causal):
    dense = n * (n + 1) // 2 if causal else n * n
    return 1 - window_pairs(n, w, g, causal) / dense


# %% wrong sparse-2 compared with dense attention both ways
# You compare a causal pattern with attention that is not causal. Half of what you call saved was
# saved by the causal rule: what does dense *causal* attention compute?
# Seen: mit-han-lab/x-attention#16
def window_pairs(n, w, g, causal):
    far = max(n - g - w, 0)
    pairs = n * n - far * (far + 1)
    return (pairs + n) // 2 if causal else pairs


def saved(n, w, g, causal):
    dense = n * n
    return 1 - window_pairs(n, w, g, causal) / dense


# %% wrong sparse-2 half of n² for causal
# Your dense causal attention computes n²/2 pairs. The triangle holds the diagonal as well, so it is
# a little more.
# Seen: Dao-AILab/flash-attention#594
def window_pairs(n, w, g, causal):
    far = max(n - g - w, 0)
    pairs = n * n - far * (far + 1)
    return (pairs + n) // 2 if causal else pairs


def saved(n, w, g, causal):
    dense = n * n / 2 if causal else n * n
    return 1 - window_pairs(n, w, g, causal) / dense


# %% wrong sparse-2 what is kept, not what is saved
# You return the share of pairs that stays. The question asks for the share that is saved.
def window_pairs(n, w, g, causal):
    far = max(n - g - w, 0)
    pairs = n * n - far * (far + 1)
    return (pairs + n) // 2 if causal else pairs


def saved(n, w, g, causal):
    dense = n * (n + 1) // 2 if causal else n * n
    return window_pairs(n, w, g, causal) / dense


# %% wrong sparse-2 percent in place of a share
# You return percent. A share lies between 0 and 1.
def window_pairs(n, w, g, causal):
    far = max(n - g - w, 0)
    pairs = n * n - far * (far + 1)
    return (pairs + n) // 2 if causal else pairs


def saved(n, w, g, causal):
    dense = n * (n + 1) // 2 if causal else n * n
    return 100 * (1 - window_pairs(n, w, g, causal) / dense)


# %% wrong sparse-2 32 bits are too few
# Your count overflows for long texts. 131,072² is more than 2³²: 32 bits cannot hold it.
# Seen: tile-ai/tilelang#330
# Seen: https://github.com/NVIDIA/FasterTransformer/pull/524
def window_pairs(n, w, g, causal):
    n, w, g = np.int32(n), np.int32(w), np.int32(g)
    far = max(n - g - w, np.int32(0))
    pairs = n * n - far * (far + 1)
    return (pairs + n) // 2 if causal else pairs


def saved(n, w, g, causal):
    dense = n * (n + 1) // 2 if causal else n * n
    return 1 - window_pairs(n, w, g, causal) / dense


# %% wrong sparse-2 the matrix is built
# You build the n × n matrix to count in it. That is what sparse attention should spare us, and at
# 131,072 positions it does not fit: count the hidden corners by a formula.
# Seen: https://github.com/NVIDIA/cudnn-frontend/pull/347
def window_pairs(n, w, g, causal):
    i, j = np.arange(n)[:, None], np.arange(n)
    seen = (abs(i - j) < w) | (i < g) | (j < g)
    return int((seen & (j <= i)).sum() if causal else seen.sum())


def saved(n, w, g, causal):
    dense = n * (n + 1) // 2 if causal else n * n
    return 1 - window_pairs(n, w, g, causal) / dense


# %% [markdown]
# ## sparse-3: Longformer's and BigBird's mask
#
# *sparse-3 · 5 points · 12 minutes · ●●○○ difficulty 2 of 4*
#
# Two masks, both put together from simple parts with *or*:
#
# - `longformer(w, is_global)`: boolean `[n, n]`. A token sees the keys with `|i - j| < w`. In
#   addition the tokens marked in `is_global`, boolean `[n]`, see all and are seen by all.
# - `bigbird(n, block, side, g, drawn)`: boolean `[H, n, n]`, one mask per head. The `n` positions
#   are cut into `N = ceil(n / block)` blocks; the last one may be shorter. A block of queries sees
#   - the blocks at most `side` away from it, its own included (`side = 1` makes the usual three),
#   - every block, if it is one of the first `g`; and those first `g` are seen by every block,
#   - the blocks `drawn[h, I]`: whole numbers `[H, N, r]`, `r` block numbers for each head `h` and
#     each block of queries `I`. Every head draws its own. What was drawn holds in this direction
#     only.
#
# If a block sees a block, each of its queries sees each of its keys. `r` may be 0.
#
# **A miniature.** `bigbird(3, 2, 0, 0, drawn)` with `drawn = [[[1], [1]]]`: blocks 0 = {0, 1} and 1
# = {2}. Block 0 sees itself and, drawn, block 1. Block 1 sees itself alone.
#
# | query | key 0 | key 1 | key 2 |
# |---|---|---|---|
# | 0 | True | True | True |
# | 1 | True | True | True |
# | 2 | False | False | True |
#
# Half of the points are for a case with all parts at once.
# Read first: the beginning of [chapter 7](../book/07_sparse.ipynb), with its figure of patterns.
#
# <details>
# <summary>Hint 1 for sparse-3: two axes for one fact</summary>
#
# `is_global` says something about a token. A token is a query in one place and a key in another:
# lay the same array along the rows and along the columns.
#
# </details>
#
# <details>
# <summary>Hint 2 for sparse-3: blocks first</summary>
#
# Make the small mask `[H, N, N]` of blocks first. Then ask, for every position, which block it lies
# in, and look it up.
#
# </details>


# %% answer sparse-3 points=5 minutes=12 difficulty=2 forbid=attnlearn
def longformer(w, is_global):
    """is_global bool [n] -> bool [n, n]: |i - j| < w, or one of the two is global."""
    # BEGIN SOLUTION
    i = np.arange(len(is_global))
    near = abs(i[:, None] - i) < w
    return near | is_global[:, None] | is_global
    # END SOLUTION


def bigbird(n, block, side, g, drawn):
    """drawn int [H, N, r], N = ceil(n / block) -> bool [H, n, n]."""
    # BEGIN SOLUTION
    I = np.arange(drawn.shape[1])
    kept = (abs(I[:, None] - I) <= side) | (I[:, None] < g) | (I < g)
    kept = np.tile(kept, (len(drawn), 1, 1))
    np.put_along_axis(kept, drawn, True, axis=-1)
    at = np.arange(n) // block
    return kept[:, at[:, None], at]
    # END SOLUTION


# %% check sparse-3
case = check("sparse-3")


def _marked(n, *positions):
    return np.isin(np.arange(n), positions)


_none = np.zeros((1, 4, 0), int)
_two = np.array([[[3], [4], [0], [0], [1]], [[2], [3], [4], [1], [0]]])
_many = np.array([[[3, 5], [4, 5], [0, 5], [0, 1], [1, 2], [3, 0]]])
case("Longformer, no global token", lambda: longformer(3, _marked(7)))
case("Longformer, tokens 0 and 5 are global", lambda: longformer(2, _marked(8, 0, 5)), weight=2)
case("BigBird, window alone", lambda: bigbird(8, 2, 1, 0, _none))
case("BigBird, window 0, one global block", lambda: bigbird(8, 2, 0, 1, _none))
case("BigBird, two heads draw one block each", lambda: bigbird(10, 2, 0, 0, _two))
case("BigBird, two drawn, short last block", lambda: bigbird(16, 3, 1, 1, _many), weight=2)


@case("all parts at once", weight=9)
def _():
    drawn = np.concatenate([_many, _many[:, :, ::-1], _many[:, ::-1] * 0 + 4])
    return {
        "longformer": longformer(3, _marked(11, 2, 3, 9)),
        "bigbird, blocks of 2": bigbird(11, 2, 1, 2, drawn),
        "bigbird, blocks of 3": bigbird(17, 3, 0, 1, drawn[:2]),
        "bigbird, nothing drawn": bigbird(13, 4, 1, 1, _none),
        "bigbird, no globals": bigbird(10, 2, 1, 0, _two),
    }


# %% hidden sparse-3
case = check("sparse-3")


@case("drawn anew: 3 heads")
def _(rng):
    return bigbird(19, 4, 1, 1, rng.randint(0, 5, (3, 5, 2)))


# %% right sparse-3 loops over heads and blocks
def longformer(w, is_global):
    n = len(is_global)
    mask = np.zeros((n, n), bool)
    for i in range(n):
        mask[i, max(0, i - w + 1) : i + w] = True
    mask[is_global] = True
    mask[:, is_global] = True
    return mask


def bigbird(n, block, side, g, drawn):
    H, N, _ = drawn.shape
    mask = np.zeros((H, n, n), bool)
    for h in range(H):
        for I in range(N):
            rows = slice(I * block, (I + 1) * block)
            for J in range(N):
                if abs(I - J) <= side or min(I, J) < g or J in drawn[h, I]:
                    mask[h, rows, J * block : (J + 1) * block] = True
    return mask


# %% right sparse-3 repeated and cut
def longformer(w, is_global):
    n = len(is_global)
    band = np.tri(n, n, w - 1, dtype=bool) & ~np.tri(n, n, -w, dtype=bool)
    return np.logical_or.outer(is_global, is_global) | band | is_global[None] | is_global[:, None]


def bigbird(n, block, side, g, drawn):
    N = -(-n // block)
    kept = (drawn[..., None] == np.arange(N)).any(2)
    kept |= np.tri(N, N, side, dtype=bool) & np.tri(N, N, side, dtype=bool).T
    kept[:, :g] = True
    kept[:, :, :g] = True
    return kept.repeat(block, 1).repeat(block, 2)[:, :n, :n]


# %% wrong sparse-3 globals are seen but do not see
# Your global tokens and blocks are seen by all and do not see all themselves. Their rows are open
# as well as their columns.
def longformer(w, is_global):
    i = np.arange(len(is_global))
    near = abs(i[:, None] - i) < w
    return near | is_global


def bigbird(n, block, side, g, drawn):
    I = np.arange(drawn.shape[1])
    kept = (abs(I[:, None] - I) <= side) | (I < g)
    kept = np.tile(kept, (len(drawn), 1, 1))
    np.put_along_axis(kept, drawn, True, axis=-1)
    at = np.arange(n) // block
    return kept[:, at[:, None], at]


# %% wrong sparse-3 globals see but are not seen
# Your global tokens and blocks look at everyone, and nobody looks at them. What they gather would
# never get back to the text: open their columns, too.
def longformer(w, is_global):
    i = np.arange(len(is_global))
    near = abs(i[:, None] - i) < w
    return near | is_global[:, None]


def bigbird(n, block, side, g, drawn):
    I = np.arange(drawn.shape[1])
    kept = (abs(I[:, None] - I) <= side) | (I[:, None] < g)
    kept = np.tile(kept, (len(drawn), 1, 1))
    np.put_along_axis(kept, drawn, True, axis=-1)
    at = np.arange(n) // block
    return kept[:, at[:, None], at]


# %% wrong sparse-3 globals see each other only
# You open a pair only if *both* are global. One of the two is enough.
def longformer(w, is_global):
    i = np.arange(len(is_global))
    near = abs(i[:, None] - i) < w
    return near | is_global[:, None] & is_global


def bigbird(n, block, side, g, drawn):
    I = np.arange(drawn.shape[1])
    kept = (abs(I[:, None] - I) <= side) | (I[:, None] < g) & (I < g)
    kept = np.tile(kept, (len(drawn), 1, 1))
    np.put_along_axis(kept, drawn, True, axis=-1)
    at = np.arange(n) // block
    return kept[:, at[:, None], at]


# %% wrong sparse-3 the globals are left out
# Your global tokens and blocks are like all others. Their rows and columns are open.
# Seen: allenai/longformer#254
def longformer(w, is_global):
    i = np.arange(len(is_global))
    near = abs(i[:, None] - i) < w
    return near


def bigbird(n, block, side, g, drawn):
    I = np.arange(drawn.shape[1])
    kept = (abs(I[:, None] - I) <= side)
    kept = np.tile(kept, (len(drawn), 1, 1))
    np.put_along_axis(kept, drawn, True, axis=-1)
    at = np.arange(n) // block
    return kept[:, at[:, None], at]


# %% wrong sparse-3 one key too many in the window
# Your window of tokens reaches one position too far on each side. |i - j| < w stops at w - 1.
# Seen: huggingface/transformers#39408
def longformer(w, is_global):
    i = np.arange(len(is_global))
    near = abs(i[:, None] - i) <= w
    return near | is_global[:, None] | is_global


def bigbird(n, block, side, g, drawn):
    I = np.arange(drawn.shape[1])
    kept = (abs(I[:, None] - I) <= side) | (I[:, None] < g) | (I < g)
    kept = np.tile(kept, (len(drawn), 1, 1))
    np.put_along_axis(kept, drawn, True, axis=-1)
    at = np.arange(n) // block
    return kept[:, at[:, None], at]


# %% wrong sparse-3 w is the whole window
# You took w for the width of the whole window. Here it bounds the distance: |i - j| < w on either
# side.
# Seen: allenai/longformer#194
def longformer(w, is_global):
    i = np.arange(len(is_global))
    near = abs(i[:, None] - i) <= w // 2
    return near | is_global[:, None] | is_global


def bigbird(n, block, side, g, drawn):
    I = np.arange(drawn.shape[1])
    kept = (abs(I[:, None] - I) <= side) | (I[:, None] < g) | (I < g)
    kept = np.tile(kept, (len(drawn), 1, 1))
    np.put_along_axis(kept, drawn, True, axis=-1)
    at = np.arange(n) // block
    return kept[:, at[:, None], at]


# %% wrong sparse-3 the window looks back only
# Your window of tokens ends at the query. Neither of these masks is causal: a token sees the keys
# after it, too.
def longformer(w, is_global):
    i = np.arange(len(is_global))
    near = (i <= i[:, None]) & (i[:, None] - i < w)
    return near | is_global[:, None] | is_global


def bigbird(n, block, side, g, drawn):
    I = np.arange(drawn.shape[1])
    kept = (abs(I[:, None] - I) <= side) | (I[:, None] < g) | (I < g)
    kept = np.tile(kept, (len(drawn), 1, 1))
    np.put_along_axis(kept, drawn, True, axis=-1)
    at = np.arange(n) // block
    return kept[:, at[:, None], at]


# %% wrong sparse-3 the window of blocks is one too narrow
# Your blocks see `side - 1` neighbours. `side = 1` means: itself and one block on each side.
# Seen: https://github.com/huggingface/transformers/pull/47010
def longformer(w, is_global):
    i = np.arange(len(is_global))
    near = abs(i[:, None] - i) < w
    return near | is_global[:, None] | is_global


def bigbird(n, block, side, g, drawn):
    I = np.arange(drawn.shape[1])
    kept = (abs(I[:, None] - I) < side) | (I[:, None] < g) | (I < g)
    kept = np.tile(kept, (len(drawn), 1, 1))
    np.put_along_axis(kept, drawn, True, axis=-1)
    at = np.arange(n) // block
    return kept[:, at[:, None], at]


# %% wrong sparse-3 the window of blocks is counted in positions
# You compare distances of positions with `side`. In BigBird `side` counts blocks: ask in which
# block each position lies.
def longformer(w, is_global):
    i = np.arange(len(is_global))
    near = abs(i[:, None] - i) < w
    return near | is_global[:, None] | is_global


def bigbird(n, block, side, g, drawn):
    I = np.arange(drawn.shape[1])
    kept = (I[:, None] < g) | (I < g)
    kept = np.tile(kept, (len(drawn), 1, 1))
    np.put_along_axis(kept, drawn, True, axis=-1)
    at = np.arange(n) // block
    i = np.arange(n)
    return kept[:, at[:, None], at] | (abs(i[:, None] - i) <= side)


# %% wrong sparse-3 every head draws the same blocks
# All your heads use the blocks of the first. Different heads should reach different places: `drawn`
# has one part for each head.
# Seen: Dao-AILab/flash-attention#64
# Seen: flashinfer-ai/flashinfer#886
def longformer(w, is_global):
    i = np.arange(len(is_global))
    near = abs(i[:, None] - i) < w
    return near | is_global[:, None] | is_global


def bigbird(n, block, side, g, drawn):
    I = np.arange(drawn.shape[1])
    kept = (abs(I[:, None] - I) <= side) | (I[:, None] < g) | (I < g)
    kept = np.tile(kept, (len(drawn), 1, 1))
    np.put_along_axis(kept, drawn[:1].repeat(len(drawn), 0), True, axis=-1)
    at = np.arange(n) // block
    return kept[:, at[:, None], at]


# %% wrong sparse-3 all heads share what each has drawn
# Your heads are all alike: each sees what any of them has drawn. Keep the axis of the heads apart
# until the end.
def longformer(w, is_global):
    i = np.arange(len(is_global))
    near = abs(i[:, None] - i) < w
    return near | is_global[:, None] | is_global


def bigbird(n, block, side, g, drawn):
    I = np.arange(drawn.shape[1])
    kept = (abs(I[:, None] - I) <= side) | (I[:, None] < g) | (I < g)
    kept = np.tile(kept, (len(drawn), 1, 1))
    np.put_along_axis(kept, drawn, True, axis=-1)
    kept[:] = kept.any(0)
    at = np.arange(n) // block
    return kept[:, at[:, None], at]


# %% wrong sparse-3 one head has lost its axis
# Your mask is [n, n]. The first axis counts heads: [H, n, n].
# Seen: facebookresearch/xformers#205
def longformer(w, is_global):
    i = np.arange(len(is_global))
    near = abs(i[:, None] - i) < w
    return near | is_global[:, None] | is_global


def bigbird(n, block, side, g, drawn):
    I = np.arange(drawn.shape[1])
    kept = (abs(I[:, None] - I) <= side) | (I[:, None] < g) | (I < g)
    kept = np.tile(kept, (len(drawn), 1, 1))
    np.put_along_axis(kept, drawn, True, axis=-1)
    at = np.arange(n) // block
    return kept[0][at[:, None], at]


# %% wrong sparse-3 rows and columns of the draw exchanged
# You let the drawn blocks look at the drawing one. `drawn[h, I]` are the keys that the queries of
# block I see.
def longformer(w, is_global):
    i = np.arange(len(is_global))
    near = abs(i[:, None] - i) < w
    return near | is_global[:, None] | is_global


def bigbird(n, block, side, g, drawn):
    I = np.arange(drawn.shape[1])
    kept = (abs(I[:, None] - I) <= side) | (I[:, None] < g) | (I < g)
    kept = np.tile(kept, (len(drawn), 1, 1))
    np.put_along_axis(kept.transpose(0, 2, 1), drawn, True, axis=-1)
    at = np.arange(n) // block
    return kept[:, at[:, None], at]


# %% wrong sparse-3 the draw is made symmetric
# You open every drawn pair in both directions. What a block has drawn says what *it* sees, nothing
# about who sees it.
def longformer(w, is_global):
    i = np.arange(len(is_global))
    near = abs(i[:, None] - i) < w
    return near | is_global[:, None] | is_global


def bigbird(n, block, side, g, drawn):
    I = np.arange(drawn.shape[1])
    kept = (abs(I[:, None] - I) <= side) | (I[:, None] < g) | (I < g)
    kept = np.tile(kept, (len(drawn), 1, 1))
    np.put_along_axis(kept, drawn, True, axis=-1)
    np.put_along_axis(kept.transpose(0, 2, 1), drawn, True, axis=-1)
    at = np.arange(n) // block
    return kept[:, at[:, None], at]


# %% wrong sparse-3 one block of the draw only
# You use the first number of each draw. There are r of them for each block of queries.
def longformer(w, is_global):
    i = np.arange(len(is_global))
    near = abs(i[:, None] - i) < w
    return near | is_global[:, None] | is_global


def bigbird(n, block, side, g, drawn):
    I = np.arange(drawn.shape[1])
    kept = (abs(I[:, None] - I) <= side) | (I[:, None] < g) | (I < g)
    kept = np.tile(kept, (len(drawn), 1, 1))
    np.put_along_axis(kept, drawn[..., :1], True, axis=-1)
    at = np.arange(n) // block
    return kept[:, at[:, None], at]


# %% wrong sparse-3 positions for block numbers
# You took the drawn numbers for positions of keys. They count blocks: number 1 stands for all the
# keys of block 1.
def longformer(w, is_global):
    i = np.arange(len(is_global))
    near = abs(i[:, None] - i) < w
    return near | is_global[:, None] | is_global


def bigbird(n, block, side, g, drawn):
    I = np.arange(drawn.shape[1])
    kept = (abs(I[:, None] - I) <= side) | (I[:, None] < g) | (I < g)
    kept = np.tile(kept, (len(drawn), 1, 1))
    at = np.arange(n) // block
    mask = kept[:, at[:, None], at]
    np.put_along_axis(mask, drawn[:, at], True, axis=-1)
    return mask


# %% wrong sparse-3 tiled in place of repeated
# You laid copies of the block mask side by side. Every cell of it must be blown up to a block:
# neighbouring positions lie in the same block.
def longformer(w, is_global):
    i = np.arange(len(is_global))
    near = abs(i[:, None] - i) < w
    return near | is_global[:, None] | is_global


def bigbird(n, block, side, g, drawn):
    I = np.arange(drawn.shape[1])
    kept = (abs(I[:, None] - I) <= side) | (I[:, None] < g) | (I < g)
    kept = np.tile(kept, (len(drawn), 1, 1))
    np.put_along_axis(kept, drawn, True, axis=-1)
    at = np.arange(n) % drawn.shape[1]
    return kept[:, at[:, None], at]


# %% wrong sparse-3 the short last block is lost
# The last positions see nothing and are seen by nobody. A block that is not full still is a block:
# round the number of blocks up.
# Seen: https://github.com/huggingface/transformers/pull/37959
def longformer(w, is_global):
    i = np.arange(len(is_global))
    near = abs(i[:, None] - i) < w
    return near | is_global[:, None] | is_global


def bigbird(n, block, side, g, drawn):
    I = np.arange(drawn.shape[1])
    kept = (abs(I[:, None] - I) <= side) | (I[:, None] < g) | (I < g)
    kept = np.tile(kept, (len(drawn), 1, 1))
    np.put_along_axis(kept, drawn, True, axis=-1)
    at = np.arange(n) // block
    mask = kept[:, at[:, None], at]
    whole = n // block * block
    mask[:, whole:] = False
    mask[:, :, whole:] = False
    return mask


# %% wrong sparse-3 the last block is filled up
# Your mask is larger than n: the last block was filled up to a whole one. Cut it off where the text
# ends.
# Seen: mit-han-lab/radial-attention#34
def longformer(w, is_global):
    i = np.arange(len(is_global))
    near = abs(i[:, None] - i) < w
    return near | is_global[:, None] | is_global


def bigbird(n, block, side, g, drawn):
    I = np.arange(drawn.shape[1])
    kept = (abs(I[:, None] - I) <= side) | (I[:, None] < g) | (I < g)
    kept = np.tile(kept, (len(drawn), 1, 1))
    np.put_along_axis(kept, drawn, True, axis=-1)
    at = np.arange(-(-n // block) * block) // block
    return kept[:, at[:, None], at]


# %% wrong sparse-3 the window of blocks is a circle
# Your first block sees the last one, and the last the first. The window ends where the text ends;
# in NumPy an index of -1 is the last place, and no error tells you so.
def longformer(w, is_global):
    i = np.arange(len(is_global))
    near = abs(i[:, None] - i) < w
    return near | is_global[:, None] | is_global


def bigbird(n, block, side, g, drawn):
    I = np.arange(drawn.shape[1])
    back = (I[:, None] - I) % len(I)
    kept = (np.minimum(back, len(I) - back) <= side) | (I[:, None] < g) | (I < g)
    kept = np.tile(kept, (len(drawn), 1, 1))
    np.put_along_axis(kept, drawn, True, axis=-1)
    at = np.arange(n) // block
    return kept[:, at[:, None], at]


# %% [markdown]
# ## sparse-4: Cut a mask into tiles, and sort positions so that it pays
#
# *sparse-4 · 5 points · 14 minutes · ●●●○ difficulty 3 of 4*
#
# A kernel computes tiles of `bq` queries by `bk` keys, skips those that the mask hides completely,
# and computes all the others **in full**. Write four short functions.
#
# - `tile_map(mask, bq, bk)`: `mask` boolean `[T, S]`; whole numbers `[ceil(T / bq), ceil(S / bk)]`:
#   0 EMPTY if no pair of the tile is visible, 2 FULL if every pair is, 1 PARTIAL otherwise. The
#   last tiles may be smaller than the others; what lies outside the mask does not count.
# - `wasted(mask, bq, bk)`: of the scores in tiles that are not EMPTY, the share that the mask
#   hides: work that is done for nothing. 0.0 if all tiles are EMPTY.
# - `order(n, step)`: the positions 0 … n − 1 sorted by their remainder modulo `step`, and in rising
#   order within each remainder: whole numbers `[n]`. In this order the mask `(i - j) % step == 0`
#   becomes a few solid blocks, so that tiles can gain from it.
# - `back(p)`: the way back, for any order `p` of n positions: `x[p][back(p)]` is `x` again, row by
#   row.
#
# **A miniature.** `order(5, 2)` is `[0, 2, 4, 1, 3]`, and `back` of it is `[0, 3, 1, 4, 2]`. The
# mask `[[True, True, False]]` in tiles of 1 by 2 has the map `[[2, 0]]`, and nothing is wasted. In
# tiles of 1 by 3 the map is `[[1]]`, and a third is wasted.
#
# Half of the points are for a case with all of it at once. Read first: *What a pattern saves:
# pairs, tiles, time* and *Why dilated patterns don't gain, and how to mend it* in [chapter
# 7](../book/07_sparse.ipynb).
#
# <details>
# <summary>Hint 1 for sparse-4: count in each tile</summary>
#
# Two numbers tell everything about a tile: how many pairs it has, and how many of them are visible.
# At the edge the first number is smaller.
#
# </details>
#
# <details>
# <summary>Hint 2 for sparse-4: the way back</summary>
#
# `p[a] = b` says that the row at place `a` came from place `b`. The way back sends `b` to `a`. It
# is another order, unless you are lucky with the numbers.
#
# </details>


# %% answer sparse-4 points=5 minutes=14 difficulty=3 forbid=attnlearn
def tile_map(mask, bq, bk):
    """mask bool [T, S] -> int [ceil(T/bq), ceil(S/bk)]: 0 EMPTY, 1 PARTIAL, 2 FULL."""
    # BEGIN SOLUTION
    rows, columns = range(0, len(mask), bq), range(0, mask.shape[1], bk)
    tiles = [[mask[r : r + bq, c : c + bk] for c in columns] for r in rows]
    return np.array([[int(tile.any()) + int(tile.all()) for tile in row] for row in tiles])
    # END SOLUTION


def wasted(mask, bq, bk):
    """Share of the scores in tiles that are not EMPTY which the mask hides; 0.0 if none are."""
    # BEGIN SOLUTION
    touched = np.array(tile_map(mask, bq, bk)) > 0
    computed = touched.repeat(bq, 0).repeat(bk, 1)[: len(mask), : mask.shape[1]].sum()
    return 1 - mask.sum() / computed if computed else 0.0
    # END SOLUTION


def order(n, step):
    """int [n]: positions sorted by remainder modulo step, rising within a remainder."""
    # BEGIN SOLUTION
    return np.concatenate([np.arange(r, n, step) for r in range(step)])
    # END SOLUTION


def back(p):
    """int [n]: the order that undoes p, so that x[p][back(p)] is x."""
    # BEGIN SOLUTION
    return np.argsort(p)
    # END SOLUTION


# %% check sparse-4
case = check("sparse-4")


def _band(T, S, w):
    i, j = np.arange(S - T, S)[:, None], np.arange(S)
    return (j <= i) & (i - j < w)


def _dilated(n, step):
    i = np.arange(n)
    return (i[:, None] - i) % step == 0


def _there_and_back(n, step):
    p = np.array(order(n, step))
    return np.arange(n)[p][back(p)]


def _map(mask, bq, bk):
    return np.array(tile_map(mask, bq, bk))


case("the map of a window, 12 positions", lambda: _map(_band(12, 12, 5), 2, 3))
case("7 queries, 11 keys, tiles of 3 by 2", lambda: _map(_band(7, 11, 8), 3, 2))
case("a map of everything", lambda: _map(np.ones((5, 4), bool), 2, 4))
case("wasted by a window", lambda: float(wasted(_band(12, 12, 5), 3, 2)))
case("wasted, short last tiles", lambda: float(wasted(_band(7, 11, 4), 3, 4)))
case("wasted, nothing is visible", lambda: float(wasted(np.zeros((4, 4), bool), 2, 2)))
case("the order of 12 by 3", lambda: np.array(order(12, 3)))
case("the order of 11 by 4", lambda: np.array(order(11, 4)))
case("there and back, 10 by 3", lambda: _there_and_back(10, 3))
case("back of another order", lambda: np.array(back(np.array([2, 0, 3, 1, 4]))))


@case("a dilated mask of 12, sorted", weight=2)
def _():
    p = np.array(order(12, 3))
    return _map(_dilated(12, 3)[np.ix_(p, p)], 4, 4)


@case("all of it at once", weight=12)
def _():
    mask, p = _dilated(14, 3), np.array(order(14, 3))
    inside = mask[np.ix_(p, p)]
    return {
        "map before": _map(mask, 4, 4),
        "map after": _map(inside, 4, 4),
        "wasted": [float(wasted(mask, 4, 4)), float(wasted(inside, 4, 4))],
        "flat tiles": _map(_band(10, 13, 7), 2, 5),
        "wasted in flat tiles": float(wasted(_band(10, 13, 7), 2, 5)),
        "wasted by nothing": float(wasted(np.zeros((4, 6), bool), 2, 4)),
        "order": p,
        "there and back": np.arange(14)[p][back(p)],
    }


# %% hidden sparse-4
case = check("sparse-4")


@case("back of a drawn order")
def _(rng):
    p = rng.permutation(9)
    return np.array(back(np.concatenate([[10, 9], p])))


# %% right sparse-4 sums over rectangles
def tile_map(mask, bq, bk):
    visible, size = counts(mask, bq, bk)
    return np.where(visible == size, 2, np.where(visible > 0, 1, 0))


def wasted(mask, bq, bk):
    visible, size = counts(mask, bq, bk)
    computed = size[visible > 0].sum()
    return (computed - visible.sum()) / computed if computed else 0.0


def counts(mask, bq, bk):
    rows, columns = np.arange(0, len(mask), bq), np.arange(0, mask.shape[1], bk)
    sums = [
        np.add.reduceat(np.add.reduceat(m.astype(int), rows, 0), columns, 1)
        for m in (mask, np.ones_like(mask))
    ]
    return sums


def order(n, step):
    return np.argsort(np.arange(n) % step, kind="stable")


def back(p):
    way = np.empty_like(p)
    way[p] = np.arange(len(p))
    return way


# %% right sparse-4 plain loops
def tile_map(mask, bq, bk):
    T, S = mask.shape
    tiles = np.zeros((-(-T // bq), -(-S // bk)), int)
    for r in range(len(tiles)):
        for c in range(tiles.shape[1]):
            tile = mask[r * bq : (r + 1) * bq, c * bk : (c + 1) * bk]
            tiles[r, c] = 2 if tile.all() else 1 if tile.any() else 0
    return tiles


def wasted(mask, bq, bk):
    T, S = mask.shape
    done = 0
    for (r, c), kind in np.ndenumerate(tile_map(mask, bq, bk)):
        if kind:
            done += min(bq, T - r * bq) * min(bk, S - c * bk)
    return float(done and (done - np.count_nonzero(mask)) / done)


def order(n, step):
    return np.array(sorted(range(n), key=lambda i: (i % step, i)))


def back(p):
    return np.array([list(p).index(i) for i in range(len(p))])


# %% wrong sparse-4 short tiles are dropped
# Your map has too few rows or columns. The last tile may be short, but its queries and keys are
# there: round the number of tiles up.
# Seen: jax-ml/jax#27224
def tile_map(mask, bq, bk):
    rows, columns = range(0, len(mask) - bq + 1, bq), range(0, mask.shape[1] - bk + 1, bk)
    tiles = [[mask[r : r + bq, c : c + bk] for c in columns] for r in rows]
    return np.array([[int(tile.any()) + int(tile.all()) for tile in row] for row in tiles])


def wasted(mask, bq, bk):
    touched = np.array(tile_map(mask, bq, bk)) > 0
    computed = touched.repeat(bq, 0).repeat(bk, 1).sum()
    return 1 - mask.sum() / computed if computed else 0.0


def order(n, step):
    return np.concatenate([np.arange(r, n, step) for r in range(step)])


def back(p):
    return np.argsort(p)


# %% wrong sparse-4 short tiles are filled up with hidden pairs
# You filled the last tiles up to full size. The filling is hidden, so a tile at the edge is never
# FULL, and scores that do not exist count as wasted.
def tile_map(mask, bq, bk):
    T, S = mask.shape
    mask = np.pad(mask, ((0, -T % bq), (0, -S % bk)))
    rows, columns = range(0, len(mask), bq), range(0, mask.shape[1], bk)
    tiles = [[mask[r : r + bq, c : c + bk] for c in columns] for r in rows]
    return np.array([[int(tile.any()) + int(tile.all()) for tile in row] for row in tiles])


def wasted(mask, bq, bk):
    touched = np.array(tile_map(mask, bq, bk)) > 0
    computed = touched.repeat(bq, 0).repeat(bk, 1).sum()
    return 1 - mask.sum() / computed if computed else 0.0


def order(n, step):
    return np.concatenate([np.arange(r, n, step) for r in range(step)])


def back(p):
    return np.argsort(p)


# %% wrong sparse-4 a short tile is wasted at full size
# You count bq × bk scores for every tile. At the edge of the mask a tile is smaller, and a kernel
# that checks its bounds computes fewer.
# Seen: Dao-AILab/flash-attention#1256
def tile_map(mask, bq, bk):
    rows, columns = range(0, len(mask), bq), range(0, mask.shape[1], bk)
    tiles = [[mask[r : r + bq, c : c + bk] for c in columns] for r in rows]
    return np.array([[int(tile.any()) + int(tile.all()) for tile in row] for row in tiles])


def wasted(mask, bq, bk):
    touched = np.array(tile_map(mask, bq, bk)) > 0
    computed = touched.repeat(bq, 0).repeat(bk, 1).sum()
    return 1 - mask.sum() / computed if computed else 0.0


def order(n, step):
    return np.concatenate([np.arange(r, n, step) for r in range(step)])


def back(p):
    return np.argsort(p)


# %% wrong sparse-4 EMPTY and FULL exchanged
# You call hidden tiles FULL and open ones EMPTY. The number says how much is visible: 0 is nothing,
# 2 is everything.
def tile_map(mask, bq, bk):
    rows, columns = range(0, len(mask), bq), range(0, mask.shape[1], bk)
    tiles = [[mask[r : r + bq, c : c + bk] for c in columns] for r in rows]
    return np.array([[2 - int(tile.any()) - int(tile.all()) for tile in row] for row in tiles])


def wasted(mask, bq, bk):
    touched = np.array(tile_map(mask, bq, bk)) < 2
    computed = touched.repeat(bq, 0).repeat(bk, 1)[: len(mask), : mask.shape[1]].sum()
    return 1 - mask.sum() / computed if computed else 0.0


def order(n, step):
    return np.concatenate([np.arange(r, n, step) for r in range(step)])


def back(p):
    return np.argsort(p)


# %% wrong sparse-4 PARTIAL and FULL exchanged
# You call mixed tiles FULL. A kernel skips the mask in FULL tiles, so everything would be visible
# there.
def tile_map(mask, bq, bk):
    rows, columns = range(0, len(mask), bq), range(0, mask.shape[1], bk)
    tiles = [[mask[r : r + bq, c : c + bk] for c in columns] for r in rows]
    return np.array([[2 * int(tile.any()) - int(tile.all()) for tile in row] for row in tiles])


def wasted(mask, bq, bk):
    touched = np.array(tile_map(mask, bq, bk)) > 0
    computed = touched.repeat(bq, 0).repeat(bk, 1)[: len(mask), : mask.shape[1]].sum()
    return 1 - mask.sum() / computed if computed else 0.0


def order(n, step):
    return np.concatenate([np.arange(r, n, step) for r in range(step)])


def back(p):
    return np.argsort(p)


# %% wrong sparse-4 no tile is ever FULL
# You mark every visible tile PARTIAL. In a tile without a hidden pair the kernel needs no mask: say
# so.
# Seen: vllm-project/vllm-xpu-kernels#383
def tile_map(mask, bq, bk):
    rows, columns = range(0, len(mask), bq), range(0, mask.shape[1], bk)
    tiles = [[mask[r : r + bq, c : c + bk] for c in columns] for r in rows]
    return np.array([[int(tile.any()) for tile in row] for row in tiles])


def wasted(mask, bq, bk):
    touched = np.array(tile_map(mask, bq, bk)) > 0
    computed = touched.repeat(bq, 0).repeat(bk, 1)[: len(mask), : mask.shape[1]].sum()
    return 1 - mask.sum() / computed if computed else 0.0


def order(n, step):
    return np.concatenate([np.arange(r, n, step) for r in range(step)])


def back(p):
    return np.argsort(p)


# %% wrong sparse-4 only whole tiles are kept
# You call a mixed tile EMPTY. The kernel would skip pairs that the mask wants: one visible pair is
# enough to compute a tile.
def tile_map(mask, bq, bk):
    rows, columns = range(0, len(mask), bq), range(0, mask.shape[1], bk)
    tiles = [[mask[r : r + bq, c : c + bk] for c in columns] for r in rows]
    return np.array([[2 * int(tile.all()) for tile in row] for row in tiles])


def wasted(mask, bq, bk):
    touched = np.array(tile_map(mask, bq, bk)) > 0
    computed = touched.repeat(bq, 0).repeat(bk, 1)[: len(mask), : mask.shape[1]].sum()
    return 1 - mask.sum() / computed if computed else 0.0


def order(n, step):
    return np.concatenate([np.arange(r, n, step) for r in range(step)])


def back(p):
    return np.argsort(p)


# %% wrong sparse-4 the two tile sizes exchanged
# You cut the queries into pieces of bk and the keys into pieces of bq. With square tiles nobody
# notices: bq belongs to the rows.
def tile_map(mask, bk, bq):
    rows, columns = range(0, len(mask), bq), range(0, mask.shape[1], bk)
    tiles = [[mask[r : r + bq, c : c + bk] for c in columns] for r in rows]
    return np.array([[int(tile.any()) + int(tile.all()) for tile in row] for row in tiles])


def wasted(mask, bq, bk):
    bq, bk = bk, bq
    touched = np.array(tile_map(mask, bk, bq)) > 0
    computed = touched.repeat(bq, 0).repeat(bk, 1)[: len(mask), : mask.shape[1]].sum()
    return 1 - mask.sum() / computed if computed else 0.0


def order(n, step):
    return np.concatenate([np.arange(r, n, step) for r in range(step)])


def back(p):
    return np.argsort(p)


# %% wrong sparse-4 judged by the first pair
# You judge a tile by its top left pair. A visible pair may lie anywhere in the tile.
def tile_map(mask, bq, bk):
    rows, columns = range(0, len(mask), bq), range(0, mask.shape[1], bk)
    tiles = [[mask[r : r + bq, c : c + bk] for c in columns] for r in rows]
    return np.array([[int(tile[0, 0]) + int(tile.all()) for tile in row] for row in tiles])


def wasted(mask, bq, bk):
    touched = np.array(tile_map(mask, bq, bk)) > 0
    computed = touched.repeat(bq, 0).repeat(bk, 1)[: len(mask), : mask.shape[1]].sum()
    return 1 - mask.sum() / computed if computed else 0.0


def order(n, step):
    return np.concatenate([np.arange(r, n, step) for r in range(step)])


def back(p):
    return np.argsort(p)


# %% wrong sparse-4 hidden in the whole mask, not in the tiles
# You return the share of the mask that is hidden. Skipped tiles cost nothing: divide by the scores
# that are computed.
def tile_map(mask, bq, bk):
    rows, columns = range(0, len(mask), bq), range(0, mask.shape[1], bk)
    tiles = [[mask[r : r + bq, c : c + bk] for c in columns] for r in rows]
    return np.array([[int(tile.any()) + int(tile.all()) for tile in row] for row in tiles])


def wasted(mask, bq, bk):
    return 1 - mask.mean()


def order(n, step):
    return np.concatenate([np.arange(r, n, step) for r in range(step)])


def back(p):
    return np.argsort(p)


# %% wrong sparse-4 skipped, not wasted
# You return the share of scores that the map saves. The question asks for those that are computed
# and hidden all the same.
def tile_map(mask, bq, bk):
    rows, columns = range(0, len(mask), bq), range(0, mask.shape[1], bk)
    tiles = [[mask[r : r + bq, c : c + bk] for c in columns] for r in rows]
    return np.array([[int(tile.any()) + int(tile.all()) for tile in row] for row in tiles])


def wasted(mask, bq, bk):
    touched = np.array(tile_map(mask, bq, bk)) > 0
    computed = touched.repeat(bq, 0).repeat(bk, 1)[: len(mask), : mask.shape[1]].sum()
    return 1 - computed / mask.size


def order(n, step):
    return np.concatenate([np.arange(r, n, step) for r in range(step)])


def back(p):
    return np.argsort(p)


# %% wrong sparse-4 useful, not wasted
# You return the share that is used. What is wasted is the rest.
def tile_map(mask, bq, bk):
    rows, columns = range(0, len(mask), bq), range(0, mask.shape[1], bk)
    tiles = [[mask[r : r + bq, c : c + bk] for c in columns] for r in rows]
    return np.array([[int(tile.any()) + int(tile.all()) for tile in row] for row in tiles])


def wasted(mask, bq, bk):
    touched = np.array(tile_map(mask, bq, bk)) > 0
    computed = touched.repeat(bq, 0).repeat(bk, 1)[: len(mask), : mask.shape[1]].sum()
    return mask.sum() / computed if computed else 0.0


def order(n, step):
    return np.concatenate([np.arange(r, n, step) for r in range(step)])


def back(p):
    return np.argsort(p)


# %% wrong sparse-4 FULL tiles are left out of the account
# You divide by the PARTIAL tiles alone. FULL tiles are computed, too; nothing in them is wasted.
def tile_map(mask, bq, bk):
    rows, columns = range(0, len(mask), bq), range(0, mask.shape[1], bk)
    tiles = [[mask[r : r + bq, c : c + bk] for c in columns] for r in rows]
    return np.array([[int(tile.any()) + int(tile.all()) for tile in row] for row in tiles])


def wasted(mask, bq, bk):
    touched = np.array(tile_map(mask, bq, bk)) == 1
    computed = touched.repeat(bq, 0).repeat(bk, 1)[: len(mask), : mask.shape[1]].sum()
    blown_up = touched.repeat(bq, 0).repeat(bk, 1)[: len(mask), : mask.shape[1]]
    hidden = (blown_up & ~mask).sum()
    return hidden / computed if computed else 0.0


def order(n, step):
    return np.concatenate([np.arange(r, n, step) for r in range(step)])


def back(p):
    return np.argsort(p)


# %% wrong sparse-4 nothing divided by nothing
# A mask that hides everything gives NaN or an error. If no tile is computed nothing is wasted: 0.0.
def tile_map(mask, bq, bk):
    rows, columns = range(0, len(mask), bq), range(0, mask.shape[1], bk)
    tiles = [[mask[r : r + bq, c : c + bk] for c in columns] for r in rows]
    return np.array([[int(tile.any()) + int(tile.all()) for tile in row] for row in tiles])


def wasted(mask, bq, bk):
    touched = np.array(tile_map(mask, bq, bk)) > 0
    computed = touched.repeat(bq, 0).repeat(bk, 1)[: len(mask), : mask.shape[1]].sum()
    return 1 - mask.sum() / computed


def order(n, step):
    return np.concatenate([np.arange(r, n, step) for r in range(step)])


def back(p):
    return np.argsort(p)


# %% wrong sparse-4 chunks in place of remainders
# Your order leaves neighbours beside each other. Positions that see each other are `step` apart:
# bring *those* together.
def tile_map(mask, bq, bk):
    rows, columns = range(0, len(mask), bq), range(0, mask.shape[1], bk)
    tiles = [[mask[r : r + bq, c : c + bk] for c in columns] for r in rows]
    return np.array([[int(tile.any()) + int(tile.all()) for tile in row] for row in tiles])


def wasted(mask, bq, bk):
    touched = np.array(tile_map(mask, bq, bk)) > 0
    computed = touched.repeat(bq, 0).repeat(bk, 1)[: len(mask), : mask.shape[1]].sum()
    return 1 - mask.sum() / computed if computed else 0.0


def order(n, step):
    return np.concatenate(np.array_split(np.arange(n), step))


def back(p):
    return np.argsort(p)


# %% wrong sparse-4 the rest of the division is lost
# Your order is shorter than n. Where `step` does not divide n, some remainders have one position
# more.
def tile_map(mask, bq, bk):
    rows, columns = range(0, len(mask), bq), range(0, mask.shape[1], bk)
    tiles = [[mask[r : r + bq, c : c + bk] for c in columns] for r in rows]
    return np.array([[int(tile.any()) + int(tile.all()) for tile in row] for row in tiles])


def wasted(mask, bq, bk):
    touched = np.array(tile_map(mask, bq, bk)) > 0
    computed = touched.repeat(bq, 0).repeat(bk, 1)[: len(mask), : mask.shape[1]].sum()
    return 1 - mask.sum() / computed if computed else 0.0


def order(n, step):
    return np.arange(n // step * step).reshape(-1, step).T.ravel()


def back(p):
    return np.argsort(p)


# %% wrong sparse-4 falling within a remainder
# Your positions fall within each remainder. A causal mask stays causal in the sorted order only if
# they rise.
def tile_map(mask, bq, bk):
    rows, columns = range(0, len(mask), bq), range(0, mask.shape[1], bk)
    tiles = [[mask[r : r + bq, c : c + bk] for c in columns] for r in rows]
    return np.array([[int(tile.any()) + int(tile.all()) for tile in row] for row in tiles])


def wasted(mask, bq, bk):
    touched = np.array(tile_map(mask, bq, bk)) > 0
    computed = touched.repeat(bq, 0).repeat(bk, 1)[: len(mask), : mask.shape[1]].sum()
    return 1 - mask.sum() / computed if computed else 0.0


def order(n, step):
    return np.concatenate([np.arange(r, n, step)[::-1] for r in range(step)])


def back(p):
    return np.argsort(p)


# %% wrong sparse-4 the same order again
# You go back by taking the same order once more. That works for a swap; in general the way back is
# another order.
# Seen: lablup/mlxcel#1600
def tile_map(mask, bq, bk):
    rows, columns = range(0, len(mask), bq), range(0, mask.shape[1], bk)
    tiles = [[mask[r : r + bq, c : c + bk] for c in columns] for r in rows]
    return np.array([[int(tile.any()) + int(tile.all()) for tile in row] for row in tiles])


def wasted(mask, bq, bk):
    touched = np.array(tile_map(mask, bq, bk)) > 0
    computed = touched.repeat(bq, 0).repeat(bk, 1)[: len(mask), : mask.shape[1]].sum()
    return 1 - mask.sum() / computed if computed else 0.0


def order(n, step):
    return np.concatenate([np.arange(r, n, step) for r in range(step)])


def back(p):
    return p


# %% wrong sparse-4 the order is reversed
# You read the order from its end. Undoing is not reversing: the row at place a must go back to
# place p[a].
def tile_map(mask, bq, bk):
    rows, columns = range(0, len(mask), bq), range(0, mask.shape[1], bk)
    tiles = [[mask[r : r + bq, c : c + bk] for c in columns] for r in rows]
    return np.array([[int(tile.any()) + int(tile.all()) for tile in row] for row in tiles])


def wasted(mask, bq, bk):
    touched = np.array(tile_map(mask, bq, bk)) > 0
    computed = touched.repeat(bq, 0).repeat(bk, 1)[: len(mask), : mask.shape[1]].sum()
    return 1 - mask.sum() / computed if computed else 0.0


def order(n, step):
    return np.concatenate([np.arange(r, n, step) for r in range(step)])


def back(p):
    return p[::-1]


# %% [markdown]
# ## sparse-5: Mend a block-sparse attention
#
# *sparse-5 · 6 points · 16 minutes · ●●●○ difficulty 3 of 4*
#
# The function in the next cell is put together from lines that many kernels share. It reads the
# keys tile by tile and keeps, for every query, a running maximum `m`, a running sum `l` and a
# running output `acc`. With one tile per row it is often right. Copy it into the answer cell as
# `block_attend` and mend it until it keeps its promise:
#
# - `q` is `[T, D]`, `k` is `[S, D]`, `v` is `[S, E]`, and tiles have `size` queries and `size`
#   keys;
# - `tiles` is a map, whole numbers `[ceil(T / size), ceil(S / size)]`: EMPTY tiles (0) are not
#   touched, in FULL tiles (2) everything is visible, and in PARTIAL tiles (1) `may_look(i, j)` says
#   what is: it takes arrays of query and key **numbers** that broadcast, and answers with booleans;
# - `may_look` is asked about PARTIAL tiles only, and never about a query or key that does not
#   exist;
# - lengths need not be multiples of `size`;
# - a query may see no key in some of its tiles, and a query that sees nothing at all gets zeros;
# - every other row is a softmax over all that the query sees, however large the scores.
#
# Half of the points are for a case that has all of it at once.
#
# **A miniature** of one fault. Two tiles of one key each, scores 0 and 2, values 1 and 3. After the
# first tile `m` = 0, `l` = 1 and `acc` = 1. The second raises `m` to 2: everything that was added
# up so far was measured against the old maximum and is e² times too large.
#
# Read first: *The code: compute the tiles that are not empty* in
# [chapter 7](../book/07_sparse.ipynb).
#
# <details>
# <summary>Hint 1 for sparse-5: how to find the faults</summary>
#
# Take a small mask and compare with a softmax over the whole row. First all tiles FULL and lengths
# that divide; then one more query; then one more key; then a PARTIAL tile in which one query sees
# nothing. There are five faults.
#
# </details>
#
# <details>
# <summary>Hint 2 for sparse-5: minus infinity minus itself</summary>
#
# Before a query has seen its first key, its maximum is minus infinity, and so are its scores. Which
# harmless number may stand in for such a maximum, so that every weight comes out as 0?
#
# </details>


# %%
def block_attend_copied(q, k, v, tiles, may_look, size):
    """Wrong: find out where, then mend it in the answer cell below."""
    T, D = q.shape
    o = np.zeros((T, v.shape[1]))
    for r in range(T // size):
        rows = np.arange(r * size, (r + 1) * size)
        m, l, acc = np.full(size, -np.inf), np.zeros(size), np.zeros((size, v.shape[1]))
        for c in np.flatnonzero(tiles[r]):
            columns = np.arange(c * size, (c + 1) * size)
            s = q[rows] @ k[columns].T / np.sqrt(D)
            if tiles[r, c] == 1:
                s = np.where(may_look(rows[:, None], columns), s, -np.inf)
            top = np.maximum(m, s.max(1))
            p = np.exp(s - top[:, None])
            l = l * np.exp(m - top) + p.sum(1)
            acc = acc + p @ v[columns]
            m = top
        o[rows] = acc / l[:, None]
    return o


# %% answer sparse-5 points=6 minutes=16 difficulty=3 forbid=attnlearn
def block_attend(q, k, v, tiles, may_look, size):
    """q [T, D], k [S, D], v [S, E], tiles int [ceil(T/size), ceil(S/size)] -> [T, E]."""
    # BEGIN SOLUTION
    (T, D), S = q.shape, len(k)
    o = np.zeros((T, v.shape[1]))
    for r in range(len(tiles)):
        rows = np.arange(r * size, min((r + 1) * size, T))
        m, l, acc = np.full(len(rows), -np.inf), np.zeros(len(rows)), np.zeros(o[rows].shape)
        for c in np.flatnonzero(tiles[r]):
            columns = np.arange(c * size, min((c + 1) * size, S))
            s = q[rows] @ k[columns].T / np.sqrt(D)
            if tiles[r, c] == 1:
                s = np.where(may_look(rows[:, None], columns), s, -np.inf)
            top = np.maximum(m, s.max(1))
            safe = np.where(top == -np.inf, 0, top)
            old, p = np.exp(m - safe), np.exp(s - safe[:, None])
            l = l * old + p.sum(1)
            acc = acc * old[:, None] + p @ v[columns]
            m = top
        o[rows] = acc / np.where(l == 0, 1, l)[:, None]
    return o
    # END SOLUTION


# %% check sparse-5
case = check("sparse-5")


def _mask(*rows):
    return np.array([list(row) for row in rows]) == "1"


def _qkv(rng, T, S, height=1):
    q, k, v = rng.normal(size=(T, 4)), rng.normal(size=(S, 4)), rng.normal(size=(S, 3))
    q[:, 0], k[:, 0] = 2 * height, np.arange(S)  # later keys have larger scores
    return q, k, v


def _attend(q, k, v, tiles, mask, size=3, asked=None):
    def may_look(i, j):
        if mask is None:
            raise ValueError("may_look is asked about a FULL tile")
        if np.min(i) < 0 or np.min(j) < 0:
            raise IndexError("may_look is asked about a negative number")
        if asked is not None:
            asked.append(np.size(mask[i, j]))
        return mask[i, j]

    return block_attend(q, k, v, np.array(tiles), may_look, size)


_square = _mask("111000", "111000", "111000", "111111", "111111", "111111")
_ragged = _mask(
    "0001100000",
    "1101110000",
    "1110110000",
    "0000001111",
    "0000001110",
    "0000001111",
    "1010000001",
)
_ragged_tiles = [[1, 1, 0, 0], [0, 0, 2, 1], [1, 0, 0, 1]]
_blind = _mask("110000", "000000", "100000", "000011", "000000", "000010")
_blind_tiles = [[1, 0], [1, 1]]


@case("whole tiles, lengths divide")
def _(rng):
    return _attend(*_qkv(rng, 6, 6), [[2, 0], [2, 2]], _square)


@case("7 queries, the last row of tiles is short")
def _(rng):
    return _attend(*_qkv(rng, 7, 6), [[2, 0], [2, 2], [0, 2]], None)


@case("7 keys, the last column of tiles is short")
def _(rng):
    return _attend(*_qkv(rng, 6, 7), [[2, 0, 2], [0, 2, 2]], None)


@case("a tile in which one query sees nothing")
def _(rng):
    return _attend(*_qkv(rng, 3, 6), [[1, 1]], _ragged[:3])


@case("queries that see nothing at all")
def _(rng):
    return _attend(*_qkv(rng, 6, 6), _blind_tiles, _blind)


@case("a row of EMPTY tiles")
def _(rng):
    return _attend(*_qkv(rng, 6, 6), [[0, 0], [2, 0]], None)


@case("scores near 1000 and near -1000")
def _(rng):
    q, k, v = _qkv(rng, 6, 6)
    q[:, 0], k[:, 0] = 2 * [1000, -1000, 500], [2, 2, 2, -2, -2, -2]
    return _attend(q, k, v, [[2, 0], [2, 2]], None)


@case("NaN in keys that nobody looks at")
def _(rng):
    q, k, v = _qkv(rng, 6, 9)
    k[3:6] = v[3:6] = np.nan
    return _attend(q, k, v, [[2, 0, 0], [2, 0, 2]], None)


@case("pairs that may_look is asked about", at_most=18)
def _(rng):
    asked = []
    _attend(*_qkv(rng, 6, 9), [[1, 1, 0], [0, 0, 2]], _ragged[:6, :9], asked=asked)
    return sum(asked)


@case("all of it at once", weight=10)
def _(rng):
    q, k, v = _qkv(rng, 7, 10)
    q[3:, 0] = [500, -500, 2, 2]
    mask, tiles, asked = _ragged.copy(), np.array(_ragged_tiles), []
    mask[0] = mask[1, :3] = False
    tiles[2, 1] = 1  # a map may say PARTIAL where it is not sure
    output = _attend(q, k, v, tiles, mask, asked=asked)
    k[3:6] = v[3:6] = np.nan
    unseen = _attend(q[:3], k[:9], v[:9], [[2, 0, 2]], None)
    return {"output": output, "unseen NaN": unseen, "asked more than needed": sum(asked) > 28}


# %% hidden sparse-5
case = check("sparse-5")


@case("tiles of 2, drawn scores")
def _(rng):
    return _attend(*_qkv(rng, 5, 4, 2), [[2, 1], [1, 2], [2, 0]], _blind[:, ::-1] | _square, 2)


# %% right sparse-5 one softmax per row of tiles
def block_attend(q, k, v, tiles, may_look, size):
    T, S = len(q), len(k)
    o = np.zeros((T, v.shape[1]))
    for r, kinds in enumerate(tiles):
        i = np.arange(T)[r * size : (r + 1) * size]
        kinds = np.repeat(kinds, size)[:S]
        j = np.flatnonzero(kinds)
        if not j.size:
            continue
        seen = np.ones((i.size, j.size), bool)
        some = kinds[j] == 1
        if some.any():
            seen[:, some] = may_look(i[:, None], j[some])
        s = np.where(seen, q[i] @ k[j].T * q.shape[1] ** -0.5, -np.inf)
        lse = np.logaddexp.reduce(s, axis=1, keepdims=True)
        o[i] = np.exp(s - np.where(np.isfinite(lse), lse, 0)) @ v[j]
    return o


# %% right sparse-5 partial results merged by their log-sum-exp
def block_attend(q, k, v, tiles, may_look, size):
    o, lse = np.zeros((len(q), v.shape[1])), np.full(len(q), -np.inf)
    for (r, c), kind in np.ndenumerate(tiles):
        if kind == 0:
            continue
        i = np.arange(r * size, len(q))[:size]
        j = np.arange(c * size, len(k))[:size]
        seen = may_look(i[:, None], j) if kind == 1 else np.ones((len(i), len(j)), bool)
        for n, row in enumerate(seen):
            if row.any():
                s = k[j[row]] @ q[i[n]] / np.sqrt(q.shape[1])
                part = np.logaddexp.reduce(s)
                both = np.logaddexp(lse[i[n]], part)
                o[i[n]] = np.exp(lse[i[n]] - both) * o[i[n]] + np.exp(s - both) @ v[j[row]]
                lse[i[n]] = both
    return o


# %% wrong sparse-5 as it was copied
# Nothing is mended yet. Begin with two FULL tiles: what happens to `l` when the maximum rises, and
# what to `acc`?
def block_attend(q, k, v, tiles, may_look, size):
    T, D = q.shape
    o = np.zeros((T, v.shape[1]))
    for r in range(T // size):
        rows = np.arange(r * size, (r + 1) * size)
        m, l, acc = np.full(len(rows), -np.inf), np.zeros(len(rows)), np.zeros(o[rows].shape)
        for c in np.flatnonzero(tiles[r]):
            columns = np.arange(c * size, (c + 1) * size)
            s = q[rows] @ k[columns].T / np.sqrt(D)
            if tiles[r, c] == 1:
                s = np.where(may_look(rows[:, None], columns), s, -np.inf)
            top = np.maximum(m, s.max(1))
            old, p = np.exp(m - top), np.exp(s - top[:, None])
            l = l * old + p.sum(1)
            acc = acc + p @ v[columns]
            m = top
        o[rows] = acc / l[:, None]
    return o


# %% wrong sparse-5 NaN from a hidden tile
# A query that sees nothing in its first tile becomes NaN: its maximum is minus infinity, and minus
# infinity minus itself is not a number. Tiles that come later cannot mend it.
# Seen: https://github.com/pytorch/executorch/pull/17832
# Seen: https://github.com/flashinfer-ai/flashinfer/pull/4401
def block_attend(q, k, v, tiles, may_look, size):
    (T, D), S = q.shape, len(k)
    o = np.zeros((T, v.shape[1]))
    for r in range(len(tiles)):
        rows = np.arange(r * size, min((r + 1) * size, T))
        m, l, acc = np.full(len(rows), -np.inf), np.zeros(len(rows)), np.zeros(o[rows].shape)
        for c in np.flatnonzero(tiles[r]):
            columns = np.arange(c * size, min((c + 1) * size, S))
            s = q[rows] @ k[columns].T / np.sqrt(D)
            if tiles[r, c] == 1:
                s = np.where(may_look(rows[:, None], columns), s, -np.inf)
            top = np.maximum(m, s.max(1))
            old, p = np.exp(m - top), np.exp(s - top[:, None])
            l = l * old + p.sum(1)
            acc = acc * old[:, None] + p @ v[columns]
            m = top
        o[rows] = acc / np.where(l == 0, 1, l)[:, None]
    return o


# %% wrong sparse-5 NaN replaced at the end
# You turn NaN into zeros at the end. A query that sees nothing in its first tile, and something
# later, then gets zeros as well: its row must never become NaN.
# Seen: flagos-ai/FlagAttention#25
def block_attend(q, k, v, tiles, may_look, size):
    (T, D), S = q.shape, len(k)
    o = np.zeros((T, v.shape[1]))
    for r in range(len(tiles)):
        rows = np.arange(r * size, min((r + 1) * size, T))
        m, l, acc = np.full(len(rows), -np.inf), np.zeros(len(rows)), np.zeros(o[rows].shape)
        for c in np.flatnonzero(tiles[r]):
            columns = np.arange(c * size, min((c + 1) * size, S))
            s = q[rows] @ k[columns].T / np.sqrt(D)
            if tiles[r, c] == 1:
                s = np.where(may_look(rows[:, None], columns), s, -np.inf)
            top = np.maximum(m, s.max(1))
            old, p = np.exp(m - top), np.exp(s - top[:, None])
            l = l * old + p.sum(1)
            acc = acc * old[:, None] + p @ v[columns]
            m = top
        o[rows] = acc / l[:, None]
    return np.nan_to_num(o)


# %% wrong sparse-5 the old output is not rescaled
# When a new tile raises the maximum, you correct the sum and not the output. Both were measured
# against the old maximum.
# Seen: Dao-AILab/flash-attention#991
def block_attend(q, k, v, tiles, may_look, size):
    (T, D), S = q.shape, len(k)
    o = np.zeros((T, v.shape[1]))
    for r in range(len(tiles)):
        rows = np.arange(r * size, min((r + 1) * size, T))
        m, l, acc = np.full(len(rows), -np.inf), np.zeros(len(rows)), np.zeros(o[rows].shape)
        for c in np.flatnonzero(tiles[r]):
            columns = np.arange(c * size, min((c + 1) * size, S))
            s = q[rows] @ k[columns].T / np.sqrt(D)
            if tiles[r, c] == 1:
                s = np.where(may_look(rows[:, None], columns), s, -np.inf)
            top = np.maximum(m, s.max(1))
            safe = np.where(top == -np.inf, 0, top)
            old, p = np.exp(m - safe), np.exp(s - safe[:, None])
            l = l * old + p.sum(1)
            acc = acc + p @ v[columns]
            m = top
        o[rows] = acc / np.where(l == 0, 1, l)[:, None]
    return o


# %% wrong sparse-5 the old sum is not rescaled
# When a new tile raises the maximum, you correct the output and not the sum. Weights of a row then
# no longer add up to 1.
# Seen: PaddleJitLab/CUDATutorial#69
def block_attend(q, k, v, tiles, may_look, size):
    (T, D), S = q.shape, len(k)
    o = np.zeros((T, v.shape[1]))
    for r in range(len(tiles)):
        rows = np.arange(r * size, min((r + 1) * size, T))
        m, l, acc = np.full(len(rows), -np.inf), np.zeros(len(rows)), np.zeros(o[rows].shape)
        for c in np.flatnonzero(tiles[r]):
            columns = np.arange(c * size, min((c + 1) * size, S))
            s = q[rows] @ k[columns].T / np.sqrt(D)
            if tiles[r, c] == 1:
                s = np.where(may_look(rows[:, None], columns), s, -np.inf)
            top = np.maximum(m, s.max(1))
            safe = np.where(top == -np.inf, 0, top)
            old, p = np.exp(m - safe), np.exp(s - safe[:, None])
            l = l + p.sum(1)
            acc = acc * old[:, None] + p @ v[columns]
            m = top
        o[rows] = acc / np.where(l == 0, 1, l)[:, None]
    return o


# %% wrong sparse-5 rescaled the wrong way
# You divide by the factor that you should multiply with. A maximum that rises makes what came
# before smaller, not larger.
# Seen: Dao-AILab/flash-attention#991
def block_attend(q, k, v, tiles, may_look, size):
    (T, D), S = q.shape, len(k)
    o = np.zeros((T, v.shape[1]))
    for r in range(len(tiles)):
        rows = np.arange(r * size, min((r + 1) * size, T))
        m, l, acc = np.full(len(rows), -np.inf), np.zeros(len(rows)), np.zeros(o[rows].shape)
        for c in np.flatnonzero(tiles[r]):
            columns = np.arange(c * size, min((c + 1) * size, S))
            s = q[rows] @ k[columns].T / np.sqrt(D)
            if tiles[r, c] == 1:
                s = np.where(may_look(rows[:, None], columns), s, -np.inf)
            top = np.maximum(m, s.max(1))
            safe = np.where(top == -np.inf, 0, top)
            old, p = np.exp(np.where(m == -np.inf, -np.inf, safe - m)), np.exp(s - safe[:, None])
            l = l * old + p.sum(1)
            acc = acc * old[:, None] + p @ v[columns]
            m = top
        o[rows] = acc / np.where(l == 0, 1, l)[:, None]
    return o


# %% wrong sparse-5 the maximum is forgotten
# Your maximum is that of the last tile alone: it may fall. Then factors larger than 1 pile up, and
# large scores overflow.
# Seen: https://github.com/Dao-AILab/flash-attention/pull/2083
def block_attend(q, k, v, tiles, may_look, size):
    (T, D), S = q.shape, len(k)
    o = np.zeros((T, v.shape[1]))
    for r in range(len(tiles)):
        rows = np.arange(r * size, min((r + 1) * size, T))
        m, l, acc = np.full(len(rows), -np.inf), np.zeros(len(rows)), np.zeros(o[rows].shape)
        for c in np.flatnonzero(tiles[r]):
            columns = np.arange(c * size, min((c + 1) * size, S))
            s = q[rows] @ k[columns].T / np.sqrt(D)
            if tiles[r, c] == 1:
                s = np.where(may_look(rows[:, None], columns), s, -np.inf)
            top = s.max(1)
            safe = np.where(top == -np.inf, 0, top)
            old, p = np.exp(m - safe), np.exp(s - safe[:, None])
            l = l * old + p.sum(1)
            acc = acc * old[:, None] + p @ v[columns]
            m = top
        o[rows] = acc / np.where(l == 0, 1, l)[:, None]
    return o


# %% wrong sparse-5 no maximum subtracted
# You take the exponential of the raw scores. It overflows at 710 and vanishes at -750.
def block_attend(q, k, v, tiles, may_look, size):
    (T, D), S = q.shape, len(k)
    o = np.zeros((T, v.shape[1]))
    for r in range(len(tiles)):
        rows = np.arange(r * size, min((r + 1) * size, T))
        m, l, acc = np.full(len(rows), -np.inf), np.zeros(len(rows)), np.zeros(o[rows].shape)
        for c in np.flatnonzero(tiles[r]):
            columns = np.arange(c * size, min((c + 1) * size, S))
            s = q[rows] @ k[columns].T / np.sqrt(D)
            if tiles[r, c] == 1:
                s = np.where(may_look(rows[:, None], columns), s, -np.inf)
            top = np.maximum(m, s.max(1))
            safe = np.zeros(len(rows))
            old, p = np.exp(0 * safe), np.exp(s - safe[:, None])
            l = l * old + p.sum(1)
            acc = acc * old[:, None] + p @ v[columns]
            m = top
        o[rows] = acc / np.where(l == 0, 1, l)[:, None]
    return o


# %% wrong sparse-5 each tile is a softmax of its own
# You average over the outputs of the tiles. A tile with high scores must weigh more: one softmax
# runs over all that the query sees.
def block_attend(q, k, v, tiles, may_look, size):
    (T, D), S = q.shape, len(k)
    o = np.zeros((T, v.shape[1]))
    for r in range(len(tiles)):
        rows = np.arange(r * size, min((r + 1) * size, T))
        l, acc = np.zeros(len(rows)), np.zeros(o[rows].shape)
        for c in np.flatnonzero(tiles[r]):
            columns = np.arange(c * size, min((c + 1) * size, S))
            s = q[rows] @ k[columns].T / np.sqrt(D)
            if tiles[r, c] == 1:
                s = np.where(may_look(rows[:, None], columns), s, -np.inf)
            top = s.max(1)
            safe = np.where(top == -np.inf, 0, top)
            p = np.exp(s - safe[:, None])
            l = l + (p.sum(1) > 0)
            acc = acc + p @ v[columns] / np.maximum(p.sum(1), 1e-300)[:, None]
        o[rows] = acc / np.where(l == 0, 1, l)[:, None]
    return o


# %% wrong sparse-5 the last queries are forgotten
# The last queries come out as zeros if the length is no multiple of `size`: their tile is short,
# but it is there.
# Seen: jax-ml/jax#27224
def block_attend(q, k, v, tiles, may_look, size):
    (T, D), S = q.shape, len(k)
    o = np.zeros((T, v.shape[1]))
    for r in range(T // size):
        rows = np.arange(r * size, min((r + 1) * size, T))
        m, l, acc = np.full(len(rows), -np.inf), np.zeros(len(rows)), np.zeros(o[rows].shape)
        for c in np.flatnonzero(tiles[r]):
            columns = np.arange(c * size, min((c + 1) * size, S))
            s = q[rows] @ k[columns].T / np.sqrt(D)
            if tiles[r, c] == 1:
                s = np.where(may_look(rows[:, None], columns), s, -np.inf)
            top = np.maximum(m, s.max(1))
            safe = np.where(top == -np.inf, 0, top)
            old, p = np.exp(m - safe), np.exp(s - safe[:, None])
            l = l * old + p.sum(1)
            acc = acc * old[:, None] + p @ v[columns]
            m = top
        o[rows] = acc / np.where(l == 0, 1, l)[:, None]
    return o


# %% wrong sparse-5 the last keys are forgotten
# The last column of tiles is never read if it is short. Cut it where the text ends.
# Seen: jax-ml/jax#27224
def block_attend(q, k, v, tiles, may_look, size):
    (T, D), S = q.shape, len(k)
    o = np.zeros((T, v.shape[1]))
    for r in range(len(tiles)):
        rows = np.arange(r * size, min((r + 1) * size, T))
        m, l, acc = np.full(len(rows), -np.inf), np.zeros(len(rows)), np.zeros(o[rows].shape)
        for c in np.flatnonzero(tiles[r, : S // size]):
            columns = np.arange(c * size, min((c + 1) * size, S))
            s = q[rows] @ k[columns].T / np.sqrt(D)
            if tiles[r, c] == 1:
                s = np.where(may_look(rows[:, None], columns), s, -np.inf)
            top = np.maximum(m, s.max(1))
            safe = np.where(top == -np.inf, 0, top)
            old, p = np.exp(m - safe), np.exp(s - safe[:, None])
            l = l * old + p.sum(1)
            acc = acc * old[:, None] + p @ v[columns]
            m = top
        o[rows] = acc / np.where(l == 0, 1, l)[:, None]
    return o


# %% wrong sparse-5 short tiles are filled with zeros
# You filled the last tile of keys up with zeros. A key of zeros has the score 0, and its
# exponential is 1: it takes weight from the real ones.
# Seen: https://github.com/flashinfer-ai/flashinfer/pull/5090
# Seen: mit-han-lab/radial-attention#34
def block_attend(q, k, v, tiles, may_look, size):
    (T, D), S = q.shape, len(k)
    fill = ((0, -S % size), (0, 0))
    k, v = np.pad(k, fill), np.pad(v, fill)
    o = np.zeros((T, v.shape[1]))
    for r in range(len(tiles)):
        rows = np.arange(r * size, min((r + 1) * size, T))
        m, l, acc = np.full(len(rows), -np.inf), np.zeros(len(rows)), np.zeros(o[rows].shape)
        for c in np.flatnonzero(tiles[r]):
            columns = np.arange(c * size, (c + 1) * size)
            s = q[rows] @ k[columns].T / np.sqrt(D)
            if tiles[r, c] == 1:
                real = columns[columns < S]
                hidden = ~may_look(rows[:, None], real)
                s[:, : len(real)][hidden] = -np.inf
            top = np.maximum(m, s.max(1))
            safe = np.where(top == -np.inf, 0, top)
            old, p = np.exp(m - safe), np.exp(s - safe[:, None])
            l = l * old + p.sum(1)
            acc = acc * old[:, None] + p @ v[columns]
            m = top
        o[rows] = acc / np.where(l == 0, 1, l)[:, None]
    return o


# %% wrong sparse-5 NaN in an empty row
# A query that sees nothing at all becomes NaN: its sum is 0, and so is its output. Zeros are asked
# for.
# Seen: https://github.com/tracel-ai/cubecl/pull/1070
def block_attend(q, k, v, tiles, may_look, size):
    (T, D), S = q.shape, len(k)
    o = np.zeros((T, v.shape[1]))
    for r in range(len(tiles)):
        rows = np.arange(r * size, min((r + 1) * size, T))
        m, l, acc = np.full(len(rows), -np.inf), np.zeros(len(rows)), np.zeros(o[rows].shape)
        for c in np.flatnonzero(tiles[r]):
            columns = np.arange(c * size, min((c + 1) * size, S))
            s = q[rows] @ k[columns].T / np.sqrt(D)
            if tiles[r, c] == 1:
                s = np.where(may_look(rows[:, None], columns), s, -np.inf)
            top = np.maximum(m, s.max(1))
            safe = np.where(top == -np.inf, 0, top)
            old, p = np.exp(m - safe), np.exp(s - safe[:, None])
            l = l * old + p.sum(1)
            acc = acc * old[:, None] + p @ v[columns]
            m = top
        o[rows] = acc / l[:, None]
    return o


# %% wrong sparse-5 a large negative number
# You hide pairs with a large negative number. A query that sees nothing in its tiles then averages
# the hidden values, and scores lower than your number lose to it.
# Seen: https://github.com/ohdearquant/lattice/pull/373
# Seen: flashinfer-ai/flashinfer#4267
def block_attend(q, k, v, tiles, may_look, size):
    (T, D), S = q.shape, len(k)
    o = np.zeros((T, v.shape[1]))
    for r in range(len(tiles)):
        rows = np.arange(r * size, min((r + 1) * size, T))
        m, l, acc = np.full(len(rows), -np.inf), np.zeros(len(rows)), np.zeros(o[rows].shape)
        for c in np.flatnonzero(tiles[r]):
            columns = np.arange(c * size, min((c + 1) * size, S))
            s = q[rows] @ k[columns].T / np.sqrt(D)
            if tiles[r, c] == 1:
                s = np.where(may_look(rows[:, None], columns), s, -1e3)
            top = np.maximum(m, s.max(1))
            safe = np.where(top == -np.inf, 0, top)
            old, p = np.exp(m - safe), np.exp(s - safe[:, None])
            l = l * old + p.sum(1)
            acc = acc * old[:, None] + p @ v[columns]
            m = top
        o[rows] = acc / np.where(l == 0, 1, l)[:, None]
    return o


# %% wrong sparse-5 a small number in the denominator
# You add a small number to the sum, so that an empty row does not divide by 0. All other rows pay
# for it: their weights add up to less than 1.
def block_attend(q, k, v, tiles, may_look, size):
    (T, D), S = q.shape, len(k)
    o = np.zeros((T, v.shape[1]))
    for r in range(len(tiles)):
        rows = np.arange(r * size, min((r + 1) * size, T))
        m, l, acc = np.full(len(rows), -np.inf), np.zeros(len(rows)), np.zeros(o[rows].shape)
        for c in np.flatnonzero(tiles[r]):
            columns = np.arange(c * size, min((c + 1) * size, S))
            s = q[rows] @ k[columns].T / np.sqrt(D)
            if tiles[r, c] == 1:
                s = np.where(may_look(rows[:, None], columns), s, -np.inf)
            top = np.maximum(m, s.max(1))
            safe = np.where(top == -np.inf, 0, top)
            old, p = np.exp(m - safe), np.exp(s - safe[:, None])
            l = l * old + p.sum(1)
            acc = acc * old[:, None] + p @ v[columns]
            m = top
        o[rows] = acc / (l + 1e-3)[:, None]
    return o


# %% wrong sparse-5 PARTIAL tiles are taken for FULL
# You never ask `may_look`: in a PARTIAL tile some pairs are hidden.
def block_attend(q, k, v, tiles, may_look, size):
    (T, D), S = q.shape, len(k)
    o = np.zeros((T, v.shape[1]))
    for r in range(len(tiles)):
        rows = np.arange(r * size, min((r + 1) * size, T))
        m, l, acc = np.full(len(rows), -np.inf), np.zeros(len(rows)), np.zeros(o[rows].shape)
        for c in np.flatnonzero(tiles[r]):
            columns = np.arange(c * size, min((c + 1) * size, S))
            s = q[rows] @ k[columns].T / np.sqrt(D)
            if tiles[r, c] > 2:
                s = np.where(may_look(rows[:, None], columns), s, -np.inf)
            top = np.maximum(m, s.max(1))
            safe = np.where(top == -np.inf, 0, top)
            old, p = np.exp(m - safe), np.exp(s - safe[:, None])
            l = l * old + p.sum(1)
            acc = acc * old[:, None] + p @ v[columns]
            m = top
        o[rows] = acc / np.where(l == 0, 1, l)[:, None]
    return o


# %% wrong sparse-5 FULL tiles are skipped
# You visit PARTIAL tiles alone. FULL ones need no mask, but they must be computed.
def block_attend(q, k, v, tiles, may_look, size):
    (T, D), S = q.shape, len(k)
    o = np.zeros((T, v.shape[1]))
    for r in range(len(tiles)):
        rows = np.arange(r * size, min((r + 1) * size, T))
        m, l, acc = np.full(len(rows), -np.inf), np.zeros(len(rows)), np.zeros(o[rows].shape)
        for c in np.flatnonzero(tiles[r] == 1):
            columns = np.arange(c * size, min((c + 1) * size, S))
            s = q[rows] @ k[columns].T / np.sqrt(D)
            if tiles[r, c] == 1:
                s = np.where(may_look(rows[:, None], columns), s, -np.inf)
            top = np.maximum(m, s.max(1))
            safe = np.where(top == -np.inf, 0, top)
            old, p = np.exp(m - safe), np.exp(s - safe[:, None])
            l = l * old + p.sum(1)
            acc = acc * old[:, None] + p @ v[columns]
            m = top
        o[rows] = acc / np.where(l == 0, 1, l)[:, None]
    return o


# %% wrong sparse-5 EMPTY tiles are computed
# You visit EMPTY tiles. Nothing in them is visible: they cost time and let hidden keys in.
# Seen: https://github.com/sgl-project/sglang/pull/39769
def block_attend(q, k, v, tiles, may_look, size):
    (T, D), S = q.shape, len(k)
    o = np.zeros((T, v.shape[1]))
    for r in range(len(tiles)):
        rows = np.arange(r * size, min((r + 1) * size, T))
        m, l, acc = np.full(len(rows), -np.inf), np.zeros(len(rows)), np.zeros(o[rows].shape)
        for c in range(tiles.shape[1]):
            columns = np.arange(c * size, min((c + 1) * size, S))
            s = q[rows] @ k[columns].T / np.sqrt(D)
            if tiles[r, c] == 1:
                s = np.where(may_look(rows[:, None], columns), s, -np.inf)
            top = np.maximum(m, s.max(1))
            safe = np.where(top == -np.inf, 0, top)
            old, p = np.exp(m - safe), np.exp(s - safe[:, None])
            l = l * old + p.sum(1)
            acc = acc * old[:, None] + p @ v[columns]
            m = top
        o[rows] = acc / np.where(l == 0, 1, l)[:, None]
    return o


# %% wrong sparse-5 the mask counts from the corner of the tile
# You ask `may_look` about the place within the tile. It wants to know the numbers of query and key
# in the whole text.
# Seen: meta-pytorch/attention-gym#60
def block_attend(q, k, v, tiles, may_look, size):
    (T, D), S = q.shape, len(k)
    o = np.zeros((T, v.shape[1]))
    for r in range(len(tiles)):
        rows = np.arange(r * size, min((r + 1) * size, T))
        m, l, acc = np.full(len(rows), -np.inf), np.zeros(len(rows)), np.zeros(o[rows].shape)
        for c in np.flatnonzero(tiles[r]):
            columns = np.arange(c * size, min((c + 1) * size, S))
            s = q[rows] @ k[columns].T / np.sqrt(D)
            if tiles[r, c] == 1:
                s = np.where(may_look(rows[:, None] - r * size, columns - c * size), s, -np.inf)
            top = np.maximum(m, s.max(1))
            safe = np.where(top == -np.inf, 0, top)
            old, p = np.exp(m - safe), np.exp(s - safe[:, None])
            l = l * old + p.sum(1)
            acc = acc * old[:, None] + p @ v[columns]
            m = top
        o[rows] = acc / np.where(l == 0, 1, l)[:, None]
    return o


# %% wrong sparse-5 the mask is asked everywhere
# You ask `may_look` about FULL tiles, too. The map says that nothing is hidden there: a kernel
# saves that work.
# Seen: vllm-project/vllm-xpu-kernels#383
def block_attend(q, k, v, tiles, may_look, size):
    (T, D), S = q.shape, len(k)
    o = np.zeros((T, v.shape[1]))
    for r in range(len(tiles)):
        rows = np.arange(r * size, min((r + 1) * size, T))
        m, l, acc = np.full(len(rows), -np.inf), np.zeros(len(rows)), np.zeros(o[rows].shape)
        for c in np.flatnonzero(tiles[r]):
            columns = np.arange(c * size, min((c + 1) * size, S))
            s = q[rows] @ k[columns].T / np.sqrt(D)
            if True:
                s = np.where(may_look(rows[:, None], columns), s, -np.inf)
            top = np.maximum(m, s.max(1))
            safe = np.where(top == -np.inf, 0, top)
            old, p = np.exp(m - safe), np.exp(s - safe[:, None])
            l = l * old + p.sum(1)
            acc = acc * old[:, None] + p @ v[columns]
            m = top
        o[rows] = acc / np.where(l == 0, 1, l)[:, None]
    return o


# %% wrong sparse-5 the maximum begins at 0
# Your running maximum begins at 0. A row whose scores are all far below 0 then loses all of its
# weights: before the first key there is no maximum yet.
def block_attend(q, k, v, tiles, may_look, size):
    (T, D), S = q.shape, len(k)
    o = np.zeros((T, v.shape[1]))
    for r in range(len(tiles)):
        rows = np.arange(r * size, min((r + 1) * size, T))
        m, l, acc = np.zeros(len(rows)), np.zeros(len(rows)), np.zeros(o[rows].shape)
        for c in np.flatnonzero(tiles[r]):
            columns = np.arange(c * size, min((c + 1) * size, S))
            s = q[rows] @ k[columns].T / np.sqrt(D)
            if tiles[r, c] == 1:
                s = np.where(may_look(rows[:, None], columns), s, -np.inf)
            top = np.maximum(m, s.max(1))
            safe = np.where(top == -np.inf, 0, top)
            old, p = np.exp(m - safe), np.exp(s - safe[:, None])
            l = l * old + p.sum(1)
            acc = acc * old[:, None] + p @ v[columns]
            m = top
        o[rows] = acc / np.where(l == 0, 1, l)[:, None]
    return o


# %% wrong sparse-5 EMPTY tiles are computed and hidden
# You compute EMPTY tiles and hide their scores. Besides the work, what lies in their keys and
# values reaches the output: 0 times NaN is NaN. They are not to be touched.
def block_attend(q, k, v, tiles, may_look, size):
    (T, D), S = q.shape, len(k)
    o = np.zeros((T, v.shape[1]))
    for r in range(len(tiles)):
        rows = np.arange(r * size, min((r + 1) * size, T))
        m, l, acc = np.full(len(rows), -np.inf), np.zeros(len(rows)), np.zeros(o[rows].shape)
        for c in range(len(tiles[r])):
            columns = np.arange(c * size, min((c + 1) * size, S))
            s = q[rows] @ k[columns].T / np.sqrt(D)
            if tiles[r, c] == 1:
                s = np.where(may_look(rows[:, None], columns), s, -np.inf)
            elif tiles[r, c] == 0:
                s = np.full_like(s, -np.inf)
            top = np.maximum(m, s.max(1))
            safe = np.where(top == -np.inf, 0, top)
            old, p = np.exp(m - safe), np.exp(s - safe[:, None])
            l = l * old + p.sum(1)
            acc = acc * old[:, None] + p @ v[columns]
            m = top
        o[rows] = acc / np.where(l == 0, 1, l)[:, None]
    return o


# %% [markdown]
# ## sparse-6: A band without an n × n array
#
# *sparse-6 · 6 points · 15 minutes · ●●●● difficulty 4 of 4*
#
# A window saves nothing if you compute all scores and hide most of them. Write `band_attend(q,
# load, S, w)`: causal attention in which each query sees the `w` newest keys, its own included.
#
# - `q` is `[T, D]`: the queries are the **last** `T` of `S` positions, `1 <= T <= S`. The result is
#   `[T, E]`.
# - Keys and values lie in a slow memory. `load(a, b)` fetches the positions a … b − 1: a pair `k`
#   `[b - a, D]` and `v` `[b - a, E]`. It needs `0 <= a < b <= S`.
# - **Traffic.** All calls together may fetch at most `3 * (T + w)` positions, and one call at most
#   `3 * w`. So neither the whole text at once, nor each window anew for each query.
# - **Memory.** No array with anything like T × S numbers, not even of booleans.
#
# Half of the points are for a case that has all of it at once.
#
# **A miniature.** `T = 1`, `S = 6`, `w = 2`: the query stands at position 5 and sees keys 4 and 5.
# One call, `load(4, 6)`, is enough.
#
# Read first: *The code: compute the tiles that are not empty* and *A matrix that hides everything
# and saves nothing* in [chapter 7](../book/07_sparse.ipynb).
#
# <details>
# <summary>Hint 1 for sparse-6: neighbours share keys</summary>
#
# Queries that stand beside each other see almost the same keys. Take a few of them together: which
# is the oldest key that the first of them sees, and which the newest key of the last?
#
# </details>
#
# <details>
# <summary>Hint 2 for sparse-6: how many together?</summary>
#
# With b queries at a time you load b + w - 1 positions for every b queries. For which b is that
# about twice the text? In what you have loaded, each query still needs its own window.
#
# </details>


# %% answer sparse-6 points=6 minutes=15 difficulty=4 forbid=attnlearn,scaled_dot_product_attention
def band_attend(q, load, S, w):
    """q [T, D]; load(a, b) -> k [b - a, D], v [b - a, E]; the w newest keys -> [T, E]."""
    # BEGIN SOLUTION
    T, D = q.shape
    o = []
    for t in range(0, T, w):
        i = np.arange(S - T + t, min(S - T + t + w, S))
        j = np.arange(max(i[0] - w + 1, 0), i[-1] + 1)
        k, v = load(j[0], j[-1] + 1)
        back = i[:, None] - j
        s = q[t : t + w] @ k.T / np.sqrt(D)
        s = np.where((back >= 0) & (back < w), s, -np.inf)
        p = np.exp(s - s.max(1, keepdims=True))
        o.append(p @ v / p.sum(1, keepdims=True))
    return np.concatenate(o)
    # END SOLUTION


# %% check sparse-6
case = check("sparse-6")


def _text(rng, T, S):
    return rng.normal(size=(T, 4)), rng.normal(size=(S, 4)), rng.normal(size=(S, 3))


def _attend(q, k, v, w, fetched=None):
    def load(a, b):
        if not 0 <= a < b <= len(k):
            raise IndexError(f"load({a}, {b}), but there are positions 0 to {len(k) - 1}")
        if fetched is not None:
            fetched.append(b - a)
        return k[a:b].copy(), v[a:b].copy()

    return band_attend(q, load, len(k), w)


def _fetched(rng, T, S, w):
    fetched = []
    _attend(*_text(rng, T, S), w, fetched)
    return fetched


def _extra_mb(f):
    tracemalloc.start()
    try:
        f()
        return tracemalloc.get_traced_memory()[1] / 2**20
    finally:
        tracemalloc.stop()


case("7 positions, window 3", lambda rng: _attend(*_text(rng, 7, 7), 3))
case("8 positions, window 4", lambda rng: _attend(*_text(rng, 8, 8), 4))
case("decoding: 1 query, 9 keys, window 4", lambda rng: _attend(*_text(rng, 1, 9), 4))
case("a chunk: 5 queries, 12 keys, window 2", lambda rng: _attend(*_text(rng, 5, 12), 2))
case("a window wider than the text", lambda rng: _attend(*_text(rng, 4, 5), 9))
case("a window of 1", lambda rng: _attend(*_text(rng, 3, 4), 1))


@case("scores near 1000 and near -1000")
def _(rng):
    q, k, v = _text(rng, 6, 6)
    q[:, 0], k[:, 0] = 3 * [1000, -1000], 2
    return _attend(q, k, v, 3)


@case("change the future, the past stays")
def _(rng):
    q, k, v = _text(rng, 8, 8)
    before = _attend(q, k, v, 3)
    k[5:] += 1
    v[5:] += 1
    return (_attend(q, k, v, 3) - before)[:5]


case("fetched in all: 24 queries, window 8", lambda rng: sum(_fetched(rng, 24, 64, 8)), at_most=96)
case("fetched at once: 24 queries, window 4", lambda rng: max(_fetched(rng, 24, 40, 4)), at_most=12)


@case("extra memory in MB, 512 positions, window 16", at_most=0.2, weight=2)
def _(rng):
    text = _text(rng, 512, 512)
    return _extra_mb(lambda: _attend(*text, 16))


@case("all of it at once", weight=13)
def _(rng):
    q, k, v = _text(rng, 21, 50)
    q[:, 0], k[:, 0] = 7 * [1000, -1000, 1], 2
    fetched, one, narrow, long = [], [], [], _text(rng, 512, 512)
    return {
        "21 queries, 50 keys, window 8": _attend(q, k, v, 8, fetched),
        "1 query, 50 keys, window 8": _attend(q[:1], k, v, 8, one),
        "20 queries, window 90": _attend(q[1:], k, v, 90),
        "21 queries, window 3": _attend(q, k, v, 3, narrow),
        "fetched too much in all": sum(fetched) > 3 * (21 + 8) or sum(one) > 3 * (1 + 8),
        "fetched too much at once": max(fetched + one) > 24 or max(narrow) > 9,
        "too much memory": _extra_mb(lambda: _attend(*long, 16)) > 0.2,
    }


# %% hidden sparse-6
case = check("sparse-6")
case("drawn: 17 queries, window 5", lambda rng: _attend(*_text(rng, 17, 17 + rng.randint(2, 9)), 5))


# %% right sparse-6 every key fetched once
def band_attend(q, load, S, w):
    T, D = q.shape
    first = max(S - T - w + 1, 0)
    k, v = load(first, S - T + 1)
    o = []
    for t in range(T):
        if t > 0:
            new_k, new_v = load(S - T + t, S - T + t + 1)
            k, v = np.append(k, new_k, 0)[-w:], np.append(v, new_v, 0)[-w:]
        s = k @ q[t] / D**0.5
        p = np.exp(s - s.max())
        o.append(p @ v / p.sum())
    return np.stack(o)


# %% right sparse-6 two tiles for each block of queries
def band_attend(q, load, S, w):
    T, D = q.shape
    o = []
    for b in range((S - T) // w, -(-S // w)):
        i = np.arange(max(b * w, S - T), min((b + 1) * w, S))
        rows = q[i - (S - T)]
        total, lse = 0, np.full((len(i), 1), -np.inf)
        for c in (b, b - 1):
            if c < 0:
                continue
            j = np.arange(c * w, min((c + 1) * w, S))
            k, v = load(j[0], j[-1] + 1)
            seen = (j <= i[:, None]) & (j > i[:, None] - w)
            s = np.where(seen, np.einsum("td,sd->ts", rows, k) / np.sqrt(D), -np.inf)
            both = np.logaddexp(lse, np.logaddexp.reduce(s, 1, keepdims=True))
            total = total * np.exp(lse - both) + np.exp(s - both) @ v
            lse = both
        o.append(total)
    return np.concatenate(o)


# %% wrong sparse-6 all scores, then the mask
# You load everything and compute all T × S scores, then hide most of them. Nothing is saved:
# neither memory, nor work, nor traffic.
# Seen: karpathy/nanochat#825
# Seen: QwenLM/Qwen3-VL#1049
def band_attend(q, load, S, w):
    T, D = q.shape
    o = []
    for t in range(0, T, T):
        i = np.arange(S - T + t, min(S - T + t + T, S))
        j = np.arange(0, i[-1] + 1)
        k, v = load(j[0], j[-1] + 1)
        back = i[:, None] - j
        s = q @ k.T / np.sqrt(D)
        s = np.where((back >= 0) & (back < w), s, -np.inf)
        p = np.exp(s - s.max(1, keepdims=True))
        o.append(p @ v / p.sum(1, keepdims=True))
    return np.concatenate(o)


# %% wrong sparse-6 every key for every block
# You compute a few queries at a time, and load the whole text for each of them. No array is large,
# but the work is still n²: where does the window of a block begin?
# Seen: https://github.com/sgl-project/sglang/pull/39769
# Seen: https://github.com/vllm-project/vllm/pull/24089
def band_attend(q, load, S, w):
    T, D = q.shape
    o = []
    for t in range(0, T, w):
        i = np.arange(S - T + t, min(S - T + t + w, S))
        j = np.arange(0, i[-1] + 1)
        k, v = load(j[0], j[-1] + 1)
        back = i[:, None] - j
        s = q[t : t + w] @ k.T / np.sqrt(D)
        s = np.where((back >= 0) & (back < w), s, -np.inf)
        p = np.exp(s - s.max(1, keepdims=True))
        o.append(p @ v / p.sum(1, keepdims=True))
    return np.concatenate(o)


# %% wrong sparse-6 each query loads its own window
# You load w positions for every query, so most keys travel w times. Neighbours see almost the same
# keys: serve several queries with one load.
def band_attend(q, load, S, w):
    T, D = q.shape
    o = []
    for t in range(T):
        i = np.arange(S - T + t, min(S - T + t + 1, S))
        j = np.arange(max(i[0] - w + 1, 0), i[-1] + 1)
        k, v = load(j[0], j[-1] + 1)
        back = i[:, None] - j
        s = q[t : t + 1] @ k.T / np.sqrt(D)
        s = np.where((back >= 0) & (back < w), s, -np.inf)
        p = np.exp(s - s.max(1, keepdims=True))
        o.append(p @ v / p.sum(1, keepdims=True))
    return np.concatenate(o)


# %% wrong sparse-6 loaded in pieces, kept in one matrix
# You load small pieces and put their scores into one T × S array. That array is what a band should
# spare us: finish a block before you begin the next.
# Seen: huggingface/transformers#29777
def band_attend(q, load, S, w):
    T, D = q.shape
    every = np.full((T, S), -np.inf)
    values = [None] * S
    for t in range(0, T, w):
        i = np.arange(S - T + t, min(S - T + t + w, S))
        j = np.arange(max(i[0] - w + 1, 0), i[-1] + 1)
        k, v = load(j[0], j[-1] + 1)
        back = i[:, None] - j
        s = q[t : t + w] @ k.T / np.sqrt(D)
        s = np.where((back >= 0) & (back < w), s, -np.inf)
        every[t : t + w, j[0] : j[-1] + 1] = s
        values[j[0] : j[-1] + 1] = v
    p = np.exp(every - every.max(1, keepdims=True))
    first = max(S - T - w + 1, 0)
    return p[:, first:] @ np.array(values[first:]) / p.sum(1, keepdims=True)


# %% wrong sparse-6 one key too many in the window
# Your window holds w keys besides the query's own. It has w keys, the own one included: distances 0
# to w - 1.
# Seen: huggingface/transformers#39408
# Seen: https://github.com/zml/zml/pull/763
def band_attend(q, load, S, w):
    T, D = q.shape
    o = []
    for t in range(0, T, w):
        i = np.arange(S - T + t, min(S - T + t + w, S))
        j = np.arange(max(i[0] - w, 0), i[-1] + 1)
        k, v = load(j[0], j[-1] + 1)
        back = i[:, None] - j
        s = q[t : t + w] @ k.T / np.sqrt(D)
        s = np.where((back >= 0) & (back <= w), s, -np.inf)
        p = np.exp(s - s.max(1, keepdims=True))
        o.append(p @ v / p.sum(1, keepdims=True))
    return np.concatenate(o)


# %% wrong sparse-6 one key too few in the window
# Your window holds w - 1 keys. The distance w - 1 still belongs to it; with a window of 1 a query
# sees its own key.
# Seen: https://github.com/lightseekorg/tokenspeed/pull/578
def band_attend(q, load, S, w):
    T, D = q.shape
    o = []
    for t in range(0, T, w):
        i = np.arange(S - T + t, min(S - T + t + w, S))
        j = np.arange(max(i[0] - w + 1, 0), i[-1] + 1)
        k, v = load(j[0], j[-1] + 1)
        back = i[:, None] - j
        s = q[t : t + w] @ k.T / np.sqrt(D)
        s = np.where((back >= 0) & (back < max(w - 1, 1)), s, -np.inf)
        p = np.exp(s - s.max(1, keepdims=True))
        o.append(p @ v / p.sum(1, keepdims=True))
    return np.concatenate(o)


# %% wrong sparse-6 the oldest key is not loaded
# You load one position too few at the old end. The first query of a block sees w - 1 positions
# before its own.
# Seen: https://github.com/lightseekorg/tokenspeed/pull/578
def band_attend(q, load, S, w):
    T, D = q.shape
    o = []
    for t in range(0, T, w):
        i = np.arange(S - T + t, min(S - T + t + w, S))
        j = np.arange(max(i[0] - max(w - 2, 0), 0), i[-1] + 1)
        k, v = load(j[0], j[-1] + 1)
        back = i[:, None] - j
        s = q[t : t + w] @ k.T / np.sqrt(D)
        s = np.where((back >= 0) & (back < w), s, -np.inf)
        p = np.exp(s - s.max(1, keepdims=True))
        o.append(p @ v / p.sum(1, keepdims=True))
    return np.concatenate(o)


# %% wrong sparse-6 a block sees all that was loaded
# You use everything you loaded for every query of the block. So queries see the future of their
# block and keys older than their window: each needs a mask of its own.
# Seen: allenai/longformer#157
# Seen: lucidrains/local-attention#11
def band_attend(q, load, S, w):
    T, D = q.shape
    o = []
    for t in range(0, T, w):
        i = np.arange(S - T + t, min(S - T + t + w, S))
        j = np.arange(max(i[0] - w + 1, 0), i[-1] + 1)
        k, v = load(j[0], j[-1] + 1)
        back = i[:, None] - j
        s = q[t : t + w] @ k.T / np.sqrt(D)
        s = np.where(back == back, s, -np.inf)
        p = np.exp(s - s.max(1, keepdims=True))
        o.append(p @ v / p.sum(1, keepdims=True))
    return np.concatenate(o)


# %% wrong sparse-6 the future is visible
# Within a block your queries see the keys that come after them. The window bounds one side, the
# causal rule the other.
# Seen: huggingface/transformers#39408
def band_attend(q, load, S, w):
    T, D = q.shape
    o = []
    for t in range(0, T, w):
        i = np.arange(S - T + t, min(S - T + t + w, S))
        j = np.arange(max(i[0] - w + 1, 0), i[-1] + 1)
        k, v = load(j[0], j[-1] + 1)
        back = i[:, None] - j
        s = q[t : t + w] @ k.T / np.sqrt(D)
        s = np.where(back < w, s, -np.inf)
        p = np.exp(s - s.max(1, keepdims=True))
        o.append(p @ v / p.sum(1, keepdims=True))
    return np.concatenate(o)


# %% wrong sparse-6 the window is left out in a block
# Within what was loaded your queries see keys older than their window. What was loaded fits the
# first query of the block; the last has moved on.
# Seen: allenai/longformer#157
def band_attend(q, load, S, w):
    T, D = q.shape
    o = []
    for t in range(0, T, w):
        i = np.arange(S - T + t, min(S - T + t + w, S))
        j = np.arange(max(i[0] - w + 1, 0), i[-1] + 1)
        k, v = load(j[0], j[-1] + 1)
        back = i[:, None] - j
        s = q[t : t + w] @ k.T / np.sqrt(D)
        s = np.where(back >= 0, s, -np.inf)
        p = np.exp(s - s.max(1, keepdims=True))
        o.append(p @ v / p.sum(1, keepdims=True))
    return np.concatenate(o)


# %% wrong sparse-6 the neighbour is forgotten
# Each block sees only itself. The first query of a block has its whole window in the block before.
# Seen: lucidrains/local-attention#11
def band_attend(q, load, S, w):
    T, D = q.shape
    o = []
    for t in range(0, T, w):
        i = np.arange(S - T + t, min(S - T + t + w, S))
        j = np.arange(i[0], i[-1] + 1)
        k, v = load(j[0], j[-1] + 1)
        back = i[:, None] - j
        s = q[t : t + w] @ k.T / np.sqrt(D)
        s = np.where((back >= 0) & (back < w), s, -np.inf)
        p = np.exp(s - s.max(1, keepdims=True))
        o.append(p @ v / p.sum(1, keepdims=True))
    return np.concatenate(o)


# %% wrong sparse-6 queries counted from 0
# Your first query stands at position 0. The queries are the last T of S positions: with a cache
# they stand later.
# Seen: https://github.com/huggingface/transformers/pull/41228
def band_attend(q, load, S, w):
    T, D = q.shape
    o = []
    for t in range(0, T, w):
        i = np.arange(t, min(t + w, T))
        j = np.arange(max(i[0] - w + 1, 0), i[-1] + 1)
        k, v = load(j[0], j[-1] + 1)
        back = i[:, None] - j
        s = q[t : t + w] @ k.T / np.sqrt(D)
        s = np.where((back >= 0) & (back < w), s, -np.inf)
        p = np.exp(s - s.max(1, keepdims=True))
        o.append(p @ v / p.sum(1, keepdims=True))
    return np.concatenate(o)


# %% wrong sparse-6 zeros before the text
# At the start you fill the window up with keys of zeros. Their score is 0 and its exponential 1, so
# they take weight: a window at the start is shorter.
# Seen: mit-han-lab/radial-attention#34
# Seen: https://github.com/flashinfer-ai/flashinfer/pull/5090
def band_attend(q, load, S, w):
    T, D = q.shape
    o = []
    for t in range(0, T, w):
        i = np.arange(S - T + t, min(S - T + t + w, S))
        j = np.arange(max(i[0] - w + 1, 0), i[-1] + 1)
        k, v = load(j[0], j[-1] + 1)
        back = i[:, None] - j
        s = q[t : t + w] @ k.T / np.sqrt(D)
        s = np.where((back >= 0) & (back < w), s, -np.inf)
        fill = np.where(np.maximum(w - 1 - i, 0) > 0, 0, -np.inf)[:, None]
        top = np.maximum(s.max(1, keepdims=True), fill)
        p = np.exp(s - top)
        none = np.maximum(w - 1 - i, 0)[:, None] * np.exp(fill - top)
        o.append(p @ v / (p.sum(1, keepdims=True) + none))
    return np.concatenate(o)


# %% wrong sparse-6 the last block is lost
# The last queries come out as zeros if w does not divide T. A short block still is a block.
# Seen: jax-ml/jax#27224
def band_attend(q, load, S, w):
    T, D = q.shape
    o = []
    for t in range(0, T - T % w, w):
        i = np.arange(S - T + t, min(S - T + t + w, S))
        j = np.arange(max(i[0] - w + 1, 0), i[-1] + 1)
        k, v = load(j[0], j[-1] + 1)
        back = i[:, None] - j
        s = q[t : t + w] @ k.T / np.sqrt(D)
        s = np.where((back >= 0) & (back < w), s, -np.inf)
        p = np.exp(s - s.max(1, keepdims=True))
        o.append(p @ v / p.sum(1, keepdims=True))
    o.append(np.zeros((T % w, load(S - 1, S)[1].shape[1])))
    return np.concatenate(o)


# %% wrong sparse-6 no maximum subtracted
# You take the exponential of the raw scores. It overflows at 710 and vanishes at -750: subtract the
# largest score of each row.
# Seen: HabanaAI/vllm-fork#275
def band_attend(q, load, S, w):
    T, D = q.shape
    o = []
    for t in range(0, T, w):
        i = np.arange(S - T + t, min(S - T + t + w, S))
        j = np.arange(max(i[0] - w + 1, 0), i[-1] + 1)
        k, v = load(j[0], j[-1] + 1)
        back = i[:, None] - j
        s = q[t : t + w] @ k.T / np.sqrt(D)
        s = np.where((back >= 0) & (back < w), s, -np.inf)
        p = np.exp(s)
        o.append(p @ v / p.sum(1, keepdims=True))
    return np.concatenate(o)


# %% wrong sparse-6 one maximum for the whole block
# You subtract the largest score of the block. A query whose scores are all much lower loses them:
# every row needs a maximum of its own.
# Seen: HabanaAI/vllm-fork#275
def band_attend(q, load, S, w):
    T, D = q.shape
    o = []
    for t in range(0, T, w):
        i = np.arange(S - T + t, min(S - T + t + w, S))
        j = np.arange(max(i[0] - w + 1, 0), i[-1] + 1)
        k, v = load(j[0], j[-1] + 1)
        back = i[:, None] - j
        s = q[t : t + w] @ k.T / np.sqrt(D)
        s = np.where((back >= 0) & (back < w), s, -np.inf)
        p = np.exp(s - s.max())
        o.append(p @ v / p.sum(1, keepdims=True))
    return np.concatenate(o)


# %% wrong sparse-6 the scale is lost
# You lost the division by the square root of D.
def band_attend(q, load, S, w):
    T = len(q)
    o = []
    for t in range(0, T, w):
        i = np.arange(S - T + t, min(S - T + t + w, S))
        j = np.arange(max(i[0] - w + 1, 0), i[-1] + 1)
        k, v = load(j[0], j[-1] + 1)
        back = i[:, None] - j
        s = q[t : t + w] @ k.T
        s = np.where((back >= 0) & (back < w), s, -np.inf)
        p = np.exp(s - s.max(1, keepdims=True))
        o.append(p @ v / p.sum(1, keepdims=True))
    return np.concatenate(o)


# %% wrong sparse-6 16 queries at a time, whatever the window
# You take the same number of queries together for every window. With a small window one call then
# fetches too much, with a large one all calls together do: let the number depend on `w`.
def band_attend(q, load, S, w):
    T, D = q.shape
    o = []
    for t in range(0, T, 16):
        i = np.arange(S - T + t, min(S - T + t + 16, S))
        j = np.arange(max(i[0] - w + 1, 0), i[-1] + 1)
        k, v = load(j[0], j[-1] + 1)
        back = i[:, None] - j
        s = q[t : t + 16] @ k.T / np.sqrt(D)
        s = np.where((back >= 0) & (back < w), s, -np.inf)
        p = np.exp(s - s.max(1, keepdims=True))
        o.append(p @ v / p.sum(1, keepdims=True))
    return np.concatenate(o)


# %% [markdown]
# ## sparse-7: Write the check
#
# *sparse-7 · 4 points · 12 minutes · ●●●○ difficulty 3 of 4*
#
# Now you are the one who checks. Faults in windows live long, because a test with a short text
# never meets the window, and a test of the output never sees the work. Write `accepts(attend)`. It
# gets a *function* that somebody else wrote, `attend(q, load, S, w)`, supposed to do what
# `band_attend` of sparse-6 does. Return `True` if it does, `False` if not.
#
# - Right functions differ in how they load, and in the last digits: accept them all.
# - Wrong are: a wrong output, and **too much traffic**: more than `3 * (T + w)` positions in all,
#   or more than `3 * w` in one call. You write the `load` that you hand over, so you can count.
# - A function that raises an error is wrong: return `False`, don't let the error through.
# - Judge only by calling it. Texts of up to 40 positions are enough. You need not measure memory,
#   nor try huge scores.
#
# **A miniature.** A function that loads the whole text and hides most of it has the right output.
# On 10 positions with a window of 2 it fetches 10 at once, where 6 are allowed.
#
# The check cell hands you one right and one wrong function at a time: you need both verdicts. Half
# of the points are for judging all of them rightly. Read first: *What goes wrong in real code* in
# [chapter 7](../book/07_sparse.ipynb).
#
# <details>
# <summary>Hint 1 for sparse-7: what to compare with</summary>
#
# All scores, a mask, a softmax: slow, and hard to get wrong. You may build the whole matrix, since
# your texts are short. Have the result ready before you call the other function.
#
# </details>
#
# <details>
# <summary>Hint 2 for sparse-7: sizes that disagree</summary>
#
# When does an extra key at the end of the window show? When does a query that stands in the wrong
# place, when a lost last block, when a window loaded anew for each query? No one size shows all.
#
# </details>


# %% answer sparse-7 points=4 minutes=12 difficulty=3 forbid=attnlearn
def accepts(attend):
    """True if attend(q, load, S, w) is right and fetches no more than allowed, otherwise False."""
    # BEGIN SOLUTION
    rng = np.random.default_rng(0)

    def right_at(T, S, w):
        q, k, v = (rng.normal(size=shape) for shape in ((T, 4), (S, 4), (S, 3)))
        fetched = []

        def load(a, b):
            fetched.append(b - a)
            return k[a:b], v[a:b]

        back = np.arange(S - T, S)[:, None] - np.arange(S)
        p = np.exp(q @ k.T / 2) * ((back >= 0) & (back < w))
        want = p / p.sum(1, keepdims=True) @ v
        got = attend(q, load, S, w)
        if np.shape(got) != want.shape or not np.allclose(got, want):
            return False
        return sum(fetched) <= 3 * (T + w) and max(fetched) <= 3 * w

    sizes = [(7, 7, 3), (1, 9, 4), (5, 12, 2), (24, 24, 8), (20, 30, 4), (4, 5, 9), (3, 4, 1)]
    try:
        return all(right_at(*size) for size in sizes)
    except Exception:
        return False
    # END SOLUTION


# %% check sparse-7
case = check("sparse-7")


def _banded(sees=lambda back, w: (back >= 0) & (back < w), past=None, ahead=0, together=None):
    def attend(q, load, S, w):
        b, T, out = together or w, len(q), []
        for t in range(0, T, b):
            i = np.arange(t, min(t + b, T))[:, None] + S - T
            start = max(0, i[0, 0] - (w - 1 if past is None else past(w)))
            stop = min(S, i[-1, 0] + 1 + ahead)
            k, v = load(start, stop)
            seen = sees(i - np.arange(start, stop), w)
            p = np.exp(q[t : t + b] @ k.T * q.shape[1] ** -0.5) * seen
            out.extend(p @ v / p.sum(1, keepdims=True))
        return np.array(out)

    return attend


_right = _banded()


def _right_too(q, load, S, w):
    first = max(0, S - len(q) - w + 1)
    rows = [load(j, j + 1) for j in range(first, S)]
    out = []
    for t, query in enumerate(q):
        here = S - len(q) + t
        seen = rows[max(0, here - w + 1) - first : here + 1 - first]
        s = np.array([k[0] @ query for k, _ in seen]) / len(query) ** 0.5
        p = np.exp(s - np.logaddexp.reduce(s))
        out.append(sum(weight * v[0] for weight, (_, v) in zip(p, seen, strict=True)))
    return np.array(out)


_one_too_many = _banded(lambda back, w: (back >= 0) & (back <= w), lambda w: w)
_one_too_few = _banded(lambda back, w: (back >= 0) & (back < max(w - 1, 1)))
_next_is_visible = _banded(lambda back, w: (back >= -1) & (back < w), ahead=1)
_whole_block = _banded(lambda back, w: back < 2 * w)
_no_window = _banded(lambda back, w: back >= 0)
_loads_the_past = _banded(past=lambda w: 10**6)
_loads_for_each_query = _banded(together=1)


def _loads_all_at_once(q, load, S, w):
    k, v = load(0, S)
    return _right(q, lambda a, b: (k[a:b], v[a:b]), S, w)


def _from_zero(q, load, S, w):
    return _right(q, load, len(q), w)


def _zeros_before(q, load, S, w):
    def padded(a, b):
        k, v = load(max(a - w, 0), b - w)
        none = np.zeros((b - a - len(k), 1))
        return np.vstack([none * k[:1], k]), np.vstack([none * v[:1], v])

    return _right(q, padded, S + w, w)


def _last_block_lost(q, load, S, w):
    out = _right(q, load, S, w)
    out[len(q) - len(q) % w :] = 0
    return out


def _raises(q, load, S, w):
    if w > S:
        raise ValueError("the window is wider than the text")
    return _right(q, load, S, w)


def _verdict(attend):
    return accepts(lambda *given: attend(*given))  # a function without a name


def _verdicts(right, wrong):
    return {"the right function": _verdict(right), "the wrong function": _verdict(wrong)}


case("one key too many", lambda: _verdicts(_right, _one_too_many))
case("one key too few", lambda: _verdicts(_right_too, _one_too_few))
case("the next token is visible", lambda: _verdicts(_right, _next_is_visible))
case("a block sees all that was loaded", lambda: _verdicts(_right_too, _whole_block))
case("no window within a block", lambda: _verdicts(_right, _no_window))
case("queries counted from 0", lambda: _verdicts(_right_too, _from_zero))
case("zeros before the text", lambda: _verdicts(_right, _zeros_before))
case("the last block is lost", lambda: _verdicts(_right_too, _last_block_lost))
case("an error for a wide window", lambda: _verdicts(_right, _raises))
case("all the past is loaded", lambda: _verdicts(_right_too, _loads_the_past))
case("everything is loaded at once", lambda: _verdicts(_right, _loads_all_at_once))
case("a window is loaded for each query", lambda: _verdicts(_right_too, _loads_for_each_query))


@case("all of them together", weight=13)
def _():
    right = (_right, _right_too)
    window = (_one_too_many, _one_too_few, _next_is_visible, _whole_block, _no_window)
    place = (_from_zero, _zeros_before, _last_block_lost, _raises)
    traffic = (_loads_the_past, _loads_all_at_once, _loads_for_each_query)
    kinds = {"right": right, "window": window, "place": place, "traffic": traffic}
    return {kind: [_verdict(attend) for attend in some] for kind, some in kinds.items()}


# %% hidden sparse-7
case = check("sparse-7")
_unscaled = lambda q, load, S, w: _right(2 * q, load, S, w)  # noqa: E731
_both_ways = _banded(lambda back, w: abs(back) < w, ahead=1)
case("the scale is lost", lambda: _verdicts(_right, _unscaled))
case("a little of the future", lambda: _verdicts(_right_too, _both_ways))


# %% right sparse-7 many sizes, one row at a time
class Memory:
    def __init__(self, S, rng):
        self.k, self.v, self.total, self.most = rng.randn(S, 4), rng.randn(S, 2), 0, 0

    def __call__(self, a, b):
        self.total, self.most = self.total + b - a, max(self.most, b - a)
        return self.k[a:b], self.v[a:b]


def accepts(attend):
    rng = np.random.RandomState(1)
    for S in (1, 5, 20, 33):
        for T in {1, S // 2 + 1, S}:
            for w in (1, 2, 5, 7, 40):
                memory, q = Memory(S, rng), rng.randn(T, 4)
                try:
                    got = np.asarray(attend(q, memory, S, w))
                except Exception:
                    return False
                if got.shape != (T, 2) or memory.total > 3 * (T + w) or memory.most > 3 * w:
                    return False
                for i, row in enumerate(got, S - T):
                    seen = slice(max(0, i - w + 1), i + 1)
                    s = memory.k[seen] @ q[i - S + T] / 2
                    p = np.exp(s - s.max())
                    if not np.allclose(row, p @ memory.v[seen] / p.sum(), atol=1e-7):
                        return False
    return True


# %% right sparse-7 by properties: values that name their position
def accepts(attend):
    rng = np.random.default_rng(3)
    for T, S, w in [(9, 9, 4), (1, 7, 3), (16, 23, 2), (30, 31, 9), (3, 5, 8), (4, 4, 1)]:
        q, k, log = rng.normal(size=(T, 5)), rng.normal(size=(S, 5)), []

        def load(a, b, k=k, S=S, log=log):
            log.append(b - a)
            return k[a:b], np.eye(S)[a:b]

        try:
            weights = np.array(attend(q, load, S, w))  # values are unit vectors
        except Exception:
            return False
        if weights.shape != (T, S) or sum(log) > 3 * (T + w) or max(log) > 3 * w:
            return False
        for t, row in enumerate(weights):
            here = S - T + t
            seen = np.flatnonzero(row)
            if seen.tolist() != list(range(max(0, here - w + 1), here + 1)):
                return False
            ratio = np.log(row[seen]) - k[seen] @ q[t] / np.sqrt(5)
            if ratio.max() - ratio.min() > 1e-6 or abs(row.sum() - 1) > 1e-6:
                return False
    return True


# %% wrong sparse-7 only the output is checked
# Functions pass your check that load the whole text, or every window anew. Their output is right:
# count what they fetch.
# Seen: karpathy/nanochat#825
def accepts(attend):
    rng = np.random.default_rng(0)

    def right_at(T, S, w):
        q, k, v = (rng.normal(size=shape) for shape in ((T, 4), (S, 4), (S, 3)))
        fetched = []

        def load(a, b):
            fetched.append(b - a)
            return k[a:b], v[a:b]

        back = np.arange(S - T, S)[:, None] - np.arange(S)
        p = np.exp(q @ k.T / 2) * ((back >= 0) & (back < w))
        want = p / p.sum(1, keepdims=True) @ v
        got = attend(q, load, S, w)
        return np.shape(got) == want.shape and np.allclose(got, want)

    sizes = [(7, 7, 3), (1, 9, 4), (5, 12, 2), (24, 24, 8), (20, 30, 4), (4, 5, 9), (3, 4, 1)]
    try:
        return all(right_at(*size) for size in sizes)
    except Exception:
        return False


# %% wrong sparse-7 only the traffic is checked
# Functions with a wrong output pass your check, if only they fetch little. Compare the numbers.
# Seen: Xilinx/mlir-air#1450
def accepts(attend):
    rng = np.random.default_rng(0)

    def right_at(T, S, w):
        q, k, v = (rng.normal(size=shape) for shape in ((T, 4), (S, 4), (S, 3)))
        fetched = []

        def load(a, b):
            fetched.append(b - a)
            return k[a:b], v[a:b]

        attend(q, load, S, w)
        return sum(fetched) <= 3 * (T + w) and max(fetched) <= 3 * w

    sizes = [(7, 7, 3), (1, 9, 4), (5, 12, 2), (24, 24, 8), (20, 30, 4), (4, 5, 9), (3, 4, 1)]
    try:
        return all(right_at(*size) for size in sizes)
    except Exception:
        return False


# %% wrong sparse-7 only the shape is checked
# Functions with wrong numbers pass your check, if only the shape is right.
# Seen: Xilinx/mlir-air#1427
def accepts(attend):
    rng = np.random.default_rng(0)

    def right_at(T, S, w):
        q, k, v = (rng.normal(size=shape) for shape in ((T, 4), (S, 4), (S, 3)))
        fetched = []

        def load(a, b):
            fetched.append(b - a)
            return k[a:b], v[a:b]

        got = attend(q, load, S, w)
        return np.shape(got) == (T, 3)

    sizes = [(7, 7, 3), (1, 9, 4), (5, 12, 2), (24, 24, 8), (20, 30, 4), (4, 5, 9), (3, 4, 1)]
    try:
        return all(right_at(*size) for size in sizes)
    except Exception:
        return False


# %% wrong sparse-7 only the sum is counted
# A function passes your check that fetches the whole text in one call. On a short text the sum does
# not show it: look at the single calls, too.
def accepts(attend):
    rng = np.random.default_rng(0)

    def right_at(T, S, w):
        q, k, v = (rng.normal(size=shape) for shape in ((T, 4), (S, 4), (S, 3)))
        fetched = []

        def load(a, b):
            fetched.append(b - a)
            return k[a:b], v[a:b]

        back = np.arange(S - T, S)[:, None] - np.arange(S)
        p = np.exp(q @ k.T / 2) * ((back >= 0) & (back < w))
        want = p / p.sum(1, keepdims=True) @ v
        got = attend(q, load, S, w)
        if np.shape(got) != want.shape or not np.allclose(got, want):
            return False
        return sum(fetched) <= 3 * (T + w)

    sizes = [(7, 7, 3), (1, 9, 4), (5, 12, 2), (24, 24, 8), (20, 30, 4), (4, 5, 9), (3, 4, 1)]
    try:
        return all(right_at(*size) for size in sizes)
    except Exception:
        return False


# %% wrong sparse-7 only the single calls are counted
# A function passes your check that fetches a window for every query. Each call is small: add them
# up.
def accepts(attend):
    rng = np.random.default_rng(0)

    def right_at(T, S, w):
        q, k, v = (rng.normal(size=shape) for shape in ((T, 4), (S, 4), (S, 3)))
        fetched = []

        def load(a, b):
            fetched.append(b - a)
            return k[a:b], v[a:b]

        back = np.arange(S - T, S)[:, None] - np.arange(S)
        p = np.exp(q @ k.T / 2) * ((back >= 0) & (back < w))
        want = p / p.sum(1, keepdims=True) @ v
        got = attend(q, load, S, w)
        if np.shape(got) != want.shape or not np.allclose(got, want):
            return False
        return max(fetched) <= 3 * w

    sizes = [(7, 7, 3), (1, 9, 4), (5, 12, 2), (24, 24, 8), (20, 30, 4), (4, 5, 9), (3, 4, 1)]
    try:
        return all(right_at(*size) for size in sizes)
    except Exception:
        return False


# %% wrong sparse-7 the text is shorter than the window
# Functions pass your check whose window is too wide, too narrow or missing. In a text shorter than
# the window nobody can see that.
# Seen: https://github.com/Lightning-AI/litgpt/pull/1741
# Seen: https://github.com/vllm-project/vllm-metal/pull/282
def accepts(attend):
    rng = np.random.default_rng(0)

    def right_at(T, S, w):
        q, k, v = (rng.normal(size=shape) for shape in ((T, 4), (S, 4), (S, 3)))
        fetched = []

        def load(a, b):
            fetched.append(b - a)
            return k[a:b], v[a:b]

        back = np.arange(S - T, S)[:, None] - np.arange(S)
        p = np.exp(q @ k.T / 2) * ((back >= 0) & (back < w))
        want = p / p.sum(1, keepdims=True) @ v
        got = attend(q, load, S, w)
        if np.shape(got) != want.shape or not np.allclose(got, want):
            return False
        return sum(fetched) <= 3 * (T + w) and max(fetched) <= 3 * w

    sizes = [(4, 4, 9), (3, 5, 7), (1, 3, 3), (5, 5, 6)]
    try:
        return all(right_at(*size) for size in sizes)
    except Exception:
        return False


# %% wrong sparse-7 as many queries as keys
# A function passes your check that counts its queries from 0. With as many queries as keys it is
# right: try a few queries behind a longer text.
# Seen: keras-team/keras#21595
def accepts(attend):
    rng = np.random.default_rng(0)

    def right_at(T, S, w):
        q, k, v = (rng.normal(size=shape) for shape in ((T, 4), (S, 4), (S, 3)))
        fetched = []

        def load(a, b):
            fetched.append(b - a)
            return k[a:b], v[a:b]

        back = np.arange(S - T, S)[:, None] - np.arange(S)
        p = np.exp(q @ k.T / 2) * ((back >= 0) & (back < w))
        want = p / p.sum(1, keepdims=True) @ v
        got = attend(q, load, S, w)
        if np.shape(got) != want.shape or not np.allclose(got, want):
            return False
        return sum(fetched) <= 3 * (T + w) and max(fetched) <= 3 * w

    sizes = [(7, 7, 3), (24, 24, 8), (30, 30, 4), (5, 5, 9), (4, 4, 1)]
    try:
        return all(right_at(*size) for size in sizes)
    except Exception:
        return False


# %% wrong sparse-7 one query only
# Functions pass your check that go wrong in blocks. With a single query there is one block: try
# more.
def accepts(attend):
    rng = np.random.default_rng(0)

    def right_at(T, S, w):
        q, k, v = (rng.normal(size=shape) for shape in ((T, 4), (S, 4), (S, 3)))
        fetched = []

        def load(a, b):
            fetched.append(b - a)
            return k[a:b], v[a:b]

        back = np.arange(S - T, S)[:, None] - np.arange(S)
        p = np.exp(q @ k.T / 2) * ((back >= 0) & (back < w))
        want = p / p.sum(1, keepdims=True) @ v
        got = attend(q, load, S, w)
        if np.shape(got) != want.shape or not np.allclose(got, want):
            return False
        return sum(fetched) <= 3 * (T + w) and max(fetched) <= 3 * w

    sizes = [(1, 9, 4), (1, 12, 2), (1, 5, 9), (1, 4, 1), (1, 3, 3), (1, 30, 4)]
    try:
        return all(right_at(*size) for size in sizes)
    except Exception:
        return False


# %% wrong sparse-7 the window divides the text
# A function passes your check that loses the last block. It is short only if the window does not
# divide the number of queries.
# Seen: jax-ml/jax#27224
def accepts(attend):
    rng = np.random.default_rng(0)

    def right_at(T, S, w):
        q, k, v = (rng.normal(size=shape) for shape in ((T, 4), (S, 4), (S, 3)))
        fetched = []

        def load(a, b):
            fetched.append(b - a)
            return k[a:b], v[a:b]

        back = np.arange(S - T, S)[:, None] - np.arange(S)
        p = np.exp(q @ k.T / 2) * ((back >= 0) & (back < w))
        want = p / p.sum(1, keepdims=True) @ v
        got = attend(q, load, S, w)
        if np.shape(got) != want.shape or not np.allclose(got, want):
            return False
        return sum(fetched) <= 3 * (T + w) and max(fetched) <= 3 * w

    sizes = [(6, 6, 3), (4, 9, 2), (24, 24, 8), (20, 30, 4), (9, 9, 9), (3, 4, 1)]
    try:
        return all(right_at(*size) for size in sizes)
    except Exception:
        return False


# %% wrong sparse-7 far from the start only
# A function passes your check that lets queries at the start see keys before the text. Try a text
# that begins with its first query.
def accepts(attend):
    rng = np.random.default_rng(0)

    def right_at(T, S, w):
        q, k, v = (rng.normal(size=shape) for shape in ((T, 4), (S, 4), (S, 3)))
        fetched = []

        def load(a, b):
            fetched.append(b - a)
            return k[a:b], v[a:b]

        back = np.arange(S - T, S)[:, None] - np.arange(S)
        p = np.exp(q @ k.T / 2) * ((back >= 0) & (back < w))
        want = p / p.sum(1, keepdims=True) @ v
        got = attend(q, load, S, w)
        if np.shape(got) != want.shape or not np.allclose(got, want):
            return False
        return sum(fetched) <= 3 * (T + w) and max(fetched) <= 3 * w

    sizes = [(7, 14, 3), (1, 9, 4), (5, 12, 2), (24, 40, 8), (20, 30, 4), (3, 4, 1)]
    try:
        return all(right_at(*size) for size in sizes)
    except Exception:
        return False


# %% wrong sparse-7 never a window wider than the text
# A function passes your check that breaks if the window is wider than the text. That is no error:
# try it.
def accepts(attend):
    rng = np.random.default_rng(0)

    def right_at(T, S, w):
        q, k, v = (rng.normal(size=shape) for shape in ((T, 4), (S, 4), (S, 3)))
        fetched = []

        def load(a, b):
            fetched.append(b - a)
            return k[a:b], v[a:b]

        back = np.arange(S - T, S)[:, None] - np.arange(S)
        p = np.exp(q @ k.T / 2) * ((back >= 0) & (back < w))
        want = p / p.sum(1, keepdims=True) @ v
        got = attend(q, load, S, w)
        if np.shape(got) != want.shape or not np.allclose(got, want):
            return False
        return sum(fetched) <= 3 * (T + w) and max(fetched) <= 3 * w

    sizes = [(7, 7, 3), (1, 9, 4), (5, 12, 2), (24, 24, 8), (20, 30, 4), (3, 4, 1)]
    try:
        return all(right_at(*size) for size in sizes)
    except Exception:
        return False


# %% wrong sparse-7 values that are all alike
# Faults of the window pass your check. Weights add up to 1, whatever they are: with equal values
# the output is always the same.
# Seen: https://github.com/aqlaboratory/openfold-3/pull/258
def accepts(attend):
    rng = np.random.default_rng(0)

    def right_at(T, S, w):
        q, k = rng.normal(size=(T, 4)), rng.normal(size=(S, 4))
        v, fetched = np.ones((S, 3)), []

        def load(a, b):
            fetched.append(b - a)
            return k[a:b], v[a:b]

        back = np.arange(S - T, S)[:, None] - np.arange(S)
        p = np.exp(q @ k.T / 2) * ((back >= 0) & (back < w))
        want = p / p.sum(1, keepdims=True) @ v
        got = attend(q, load, S, w)
        if np.shape(got) != want.shape or not np.allclose(got, want):
            return False
        return sum(fetched) <= 3 * (T + w) and max(fetched) <= 3 * w

    sizes = [(7, 7, 3), (1, 9, 4), (5, 12, 2), (24, 24, 8), (20, 30, 4), (4, 5, 9), (3, 4, 1)]
    try:
        return all(right_at(*size) for size in sizes)
    except Exception:
        return False


# %% wrong sparse-7 too wide a tolerance
# Faults of the window pass your check that change the output a little. Right functions agree to ten
# digits or more: how much does your comparison forgive?
# Seen: Xilinx/mlir-air#1427
def accepts(attend):
    rng = np.random.default_rng(0)

    def right_at(T, S, w):
        q, k, v = (rng.normal(size=shape) for shape in ((T, 4), (S, 4), (S, 3)))
        fetched = []

        def load(a, b):
            fetched.append(b - a)
            return k[a:b], v[a:b]

        back = np.arange(S - T, S)[:, None] - np.arange(S)
        p = np.exp(q @ k.T / 2) * ((back >= 0) & (back < w))
        want = p / p.sum(1, keepdims=True) @ v
        got = attend(q, load, S, w)
        if np.shape(got) != want.shape or not np.allclose(got, want, atol=1.5):
            return False
        return sum(fetched) <= 3 * (T + w) and max(fetched) <= 3 * w

    sizes = [(7, 7, 3), (1, 9, 4), (5, 12, 2), (24, 24, 8), (20, 30, 4), (4, 5, 9), (3, 4, 1)]
    try:
        return all(right_at(*size) for size in sizes)
    except Exception:
        return False


# %% wrong sparse-7 only causality is checked
# You change the future and look whether the past moves. That finds leaks, and nothing else: compare
# the numbers, too.
def accepts(attend):
    rng = np.random.default_rng(0)

    def right_at(T, S, w):
        q, k, v = (rng.normal(size=shape) for shape in ((T, 4), (S, 4), (S, 3)))
        fetched = []

        def load(a, b):
            fetched.append(b - a)
            return k[a:b], v[a:b]

        got = attend(q, load, S, w)
        k[-1] += 1
        v[-1] += 1
        if np.abs(np.subtract(got, attend(q, load, S, w))[:-1]).sum() > 1e-9:
            return False
        fetched = fetched[: len(fetched) // 2]
        return sum(fetched) <= 3 * (T + w) and max(fetched) <= 3 * w

    sizes = [(7, 7, 3), (1, 9, 4), (5, 12, 2), (24, 24, 8), (20, 30, 4), (4, 5, 9), (3, 4, 1)]
    try:
        return all(right_at(*size) for size in sizes)
    except Exception:
        return False


# %% wrong sparse-7 the model answer has the same fault
# Right functions are rejected, and the one with a key too many is accepted. Is that what your own
# mask does? Work out a small case by hand.
# Seen: https://github.com/huggingface/transformers/pull/47010
def accepts(attend):
    rng = np.random.default_rng(0)

    def right_at(T, S, w):
        q, k, v = (rng.normal(size=shape) for shape in ((T, 4), (S, 4), (S, 3)))
        fetched = []

        def load(a, b):
            fetched.append(b - a)
            return k[a:b], v[a:b]

        back = np.arange(S - T, S)[:, None] - np.arange(S)
        p = np.exp(q @ k.T / 2) * ((back >= 0) & (back <= w))
        want = p / p.sum(1, keepdims=True) @ v
        got = attend(q, load, S, w)
        if np.shape(got) != want.shape or not np.allclose(got, want):
            return False
        return sum(fetched) <= 3 * (T + w) and max(fetched) <= 3 * w

    sizes = [(7, 7, 3), (1, 9, 4), (5, 12, 2), (24, 24, 8), (20, 30, 4), (4, 5, 9), (3, 4, 1)]
    try:
        return all(right_at(*size) for size in sizes)
    except Exception:
        return False


# %% wrong sparse-7 an error escapes
# When the function raises an error, so do you. A check gives its verdict: a function that breaks is
# wrong.
def accepts(attend):
    rng = np.random.default_rng(0)

    def right_at(T, S, w):
        q, k, v = (rng.normal(size=shape) for shape in ((T, 4), (S, 4), (S, 3)))
        fetched = []

        def load(a, b):
            fetched.append(b - a)
            return k[a:b], v[a:b]

        back = np.arange(S - T, S)[:, None] - np.arange(S)
        p = np.exp(q @ k.T / 2) * ((back >= 0) & (back < w))
        want = p / p.sum(1, keepdims=True) @ v
        got = attend(q, load, S, w)
        if np.shape(got) != want.shape or not np.allclose(got, want):
            return False
        return sum(fetched) <= 3 * (T + w) and max(fetched) <= 3 * w

    sizes = [(7, 7, 3), (1, 9, 4), (5, 12, 2), (24, 24, 8), (20, 30, 4), (4, 5, 9), (3, 4, 1)]
    return all(right_at(*size) for size in sizes)


# %% wrong sparse-7 everything is accepted
# All these functions are accepted, and most of them are wrong. A check proves something only if it
# can fail.
def accepts(attend):
    return True


# %% wrong sparse-7 everything is rejected
# Right functions are rejected, too. They may differ in the last digits, and fetch as they like
# within the two limits. Run your check on a function that you trust before you use it on others.
def accepts(attend):
    return False


# %% [markdown]
# ## What to take along
#
# - Scores cost n² numbers for each head and layer. At 131,072 tokens that is 64 GiB in float32.
# - Say what a percentage counts: both ends of the text, the globals once, and dense attention of
#   the same kind to compare with.
# - Hardware saves whole tiles. A pattern pays if its tiles are EMPTY, not if its cells are.
# - A query may see nothing in a tile. Minus infinity minus itself waits there.
# - A right output says nothing about the work: count it.
#
# Back to [chapter 7](../book/07_sparse.ipynb).
