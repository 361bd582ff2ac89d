# %% [markdown]
# # Exercises 5: order
#
# Seven tasks on [chapter 5, *Order*](../book/05_order.ipynb). They climb from predicting what a
# model can know about order to testing it: predict, fill in, mend, build, and write a check of
# your own.
#
# | task | what you do | points | minutes | level |
# |---|---|---|---|---|
# | `order-1` | predict who notices the order | 3 | 8 | 1 of 4 |
# | `order-2` | positions of a padded batch, and their sines | 5 | 14 | 2 of 4 |
# | `order-3` | RoPE, in both pairings | 6 | 16 | 2 of 4 |
# | `order-4` | mend a Transformer block | 6 | 15 | 3 of 4 |
# | `order-5` | move weights from one pairing to the other | 4 | 11 | 3 of 4 |
# | `order-6` | ALiBi with one more entry in q and k | 5 | 13 | 4 of 4 |
# | `order-7` | write the check | 5 | 13 | 3 of 4 |
# | all | | 34 | 90 | |
#
# **How checking works.** Write your answer in place of the line `raise NotImplementedError`, run
# the cell, then run the check cell below it. The check calls your function and tells you which
# cases agree, where the first difference is, and, if it knows your mistake, its name and a hint.
# It calls your function as you last ran it: after every edit, **run the answer cell again** before
# the check. Some further cases run only when an instructor grades.
#
# **The letters.** `T` queries, `S` keys, `B` examples in a batch, `H` heads, `D` numbers in one
# query or key of one head, `C` the width of the model. Positions count from 0, and the last query
# stands at the position of the last key. All you need is NumPy; please write the formulas yourself
# instead of calling `attnlearn`.

# %%
import importlib.util
import subprocess
import sys

if importlib.util.find_spec("attnlearn") is None:  # on Colab: once per session
    subprocess.run([sys.executable, "-m", "pip", "install", "-q", "attnlearn==0.1.0"], check=True)

# %% setup
import numpy as np

from attnlearn.exercise import check

# %% [markdown]
# ## order-1: Predict who notices the order
#
# *order-1 · 3 points · 8 minutes · ●○○○ difficulty 1 of 4*
#
# Work these out with pencil and paper, then write down plain numbers.
#
# 1. `shuffled`: one self-attention layer, **without a mask and without positions**. For the tokens
#    A, B, C it gives the outputs 10, 20, 30 (one number for each token, to keep it short). What
#    does it give for the tokens C, A, B? Three numbers, in the order of the new text.
# 2. `unmoved`: the same layer, now with a **causal mask**. The text A B C becomes B A C. Which
#    tokens are sure to keep their output? Three numbers, for A, B and C: 1 for yes, 0 for no.
# 3. `beyond`: a model was trained on 128 positions and now meets position 500. Which of these have
#    something to compute there, be it good or bad: a learned table of 128 rows, sines, RoPE, ALiBi?
#    Four numbers, 1 or 0.
# 4. `same_score`: RoPE turns a query at position 7 and a key at position 4. The same two vectors
#    are put at other positions (query, key): (10, 7), (4, 7), (107, 104), (8, 4). Where is their
#    score the same, whatever the vectors are? Four numbers, 1 or 0.
# 5. `alibi`: ALiBi with 8 heads. The slope of the first head, the slope of the last head, and what
#    the first head **adds** to the score of the query at position 5 and the key at position 2.
#    Three numbers; fractions such as `1 / 3` are welcome.
#
# **A miniature.** RoPE turns a pair of entries by 1 radian per position. Query at 2, key at 1: one
# is turned by 2, the other by 1, and between them the angle has grown by 1.
#
# Half of the points are for having all five right together.
# Read first: *Attention without positions is a set function*, *RoPE: turn the query and the key*
# and *ALiBi is one extra dimension* in [chapter 5](../book/05_order.ipynb). How *well* a scheme
# does on long texts is another question; *Beyond the training length* measures it.
#
# <details>
# <summary>Hint 1 for order-1: ask what a token sees</summary>
#
# Without positions, an output depends on the token itself and on the collection of tokens that it
# sees. Write that collection down for each token, before and after.
#
# </details>
#
# <details>
# <summary>Hint 2 for order-1: a rule or a list</summary>
#
# Which of the four schemes is a formula in the position, and which is a list of numbers that
# somebody trained? And for ALiBi: near keys should win, so which sign must a distance have?
#
# </details>


# %% answer order-1 points=3 minutes=8 difficulty=1 forbid=attnlearn
def shuffled():
    """A, B, C give 10, 20, 30. What do C, A, B give? Three numbers."""
    # BEGIN SOLUTION
    return [30, 10, 20]
    # END SOLUTION


def unmoved():
    """Causal: who keeps its output in B A C? For A, B, C: 1 or 0."""
    # BEGIN SOLUTION
    return [0, 0, 1]
    # END SOLUTION


def beyond():
    """Who can go to 500? Table, sines, RoPE, ALiBi: 1 or 0."""
    # BEGIN SOLUTION
    return [0, 1, 1, 1]
    # END SOLUTION


def same_score():
    """As at (7, 4)? (10, 7), (4, 7), (107, 104), (8, 4): 1 or 0."""
    # BEGIN SOLUTION
    return [1, 0, 1, 0]
    # END SOLUTION


def alibi():
    """First slope, last slope, what the first head adds: three numbers."""
    # BEGIN SOLUTION
    return [1 / 2, 1 / 256, -3 / 2]
    # END SOLUTION


# %% check order-1
case = check("order-1", rtol=5e-3)
case("shuffled", lambda: np.array(shuffled(), float))
case("unmoved", lambda: np.array(unmoved(), int))
case("beyond", lambda: np.array(beyond(), int))
case("same_score", lambda: np.array(same_score(), int))
case("alibi", lambda: np.array(alibi(), float))


@case("all five together", weight=5)
def _():
    parts = (shuffled, unmoved, beyond, same_score, alibi)
    return np.concatenate([np.ravel(np.array(f(), float)) for f in parts])


# %% right order-1 as booleans and tuples
def shuffled():
    return (30, 10, 20)


def unmoved():
    return (False, False, True)


def beyond():
    return (False, True, True, True)


def same_score():
    return (True, False, True, False)


def alibi():
    return (0.5, 0.0039, -1.5)


# %% right order-1 computed
def shuffled():
    return [{"A": 10, "B": 20, "C": 30}[token] for token in "CAB"]


def unmoved():
    return [set("ABC"[: "ABC".index(t) + 1]) == set("BAC"[: "BAC".index(t) + 1]) for t in "ABC"]


def beyond():
    return [500 < 128, True, True, True]


def same_score():
    return [i - j == 7 - 4 for i, j in [(10, 7), (4, 7), (107, 104), (8, 4)]]


def alibi():
    slopes = 2.0 ** -np.arange(1, 9)
    return slopes[0], slopes[-1], -slopes[0] * (5 - 2)


# %% wrong order-1 the outputs stay in their places
# Your outputs do not move with their tokens. Nothing in the layer knows about places: the output
# of C belongs to C, wherever C stands. Invariant would mean that shuffling changes nothing at all.
# Seen: udlbook/udlbook#131
# Seen: MenghaoGuo/PCT#5
def shuffled():
    return [10, 20, 30]


def unmoved():
    return [0, 0, 1]


def beyond():
    return [0, 1, 1, 1]


def same_score():
    return [1, 0, 1, 0]


def alibi():
    return [1 / 2, 1 / 256, -3 / 2]


# %% wrong order-1 moved the wrong way
# You moved the outputs, but not as the tokens moved. Which token stands first now, and which
# output did that token have?
def shuffled():
    return [20, 30, 10]


def unmoved():
    return [0, 0, 1]


def beyond():
    return [0, 1, 1, 1]


def same_score():
    return [1, 0, 1, 0]


def alibi():
    return [1 / 2, 1 / 256, -3 / 2]


# %% wrong order-1 one output for all tokens
# You gave every token the same output. A set function still knows each token: its own query asks
# the question, and only the order is unknown.
def shuffled():
    return [20, 20, 20]


def unmoved():
    return [0, 0, 1]


def beyond():
    return [0, 1, 1, 1]


def same_score():
    return [1, 0, 1, 0]


def alibi():
    return [1 / 2, 1 / 256, -3 / 2]


# %% wrong order-1 a causal mask changes nothing
# You treat the masked layer as if it ignored order, too. A causal mask lets a token see those
# before it: whom did A see first, and whom now?
def shuffled():
    return [30, 10, 20]


def unmoved():
    return [1, 1, 1]


def beyond():
    return [0, 1, 1, 1]


def same_score():
    return [1, 0, 1, 0]


def alibi():
    return [1 / 2, 1 / 256, -3 / 2]


# %% wrong order-1 every move changes every output
# You let every output change. Look at the last token: before and after, which tokens does it see?
def shuffled():
    return [30, 10, 20]


def unmoved():
    return [0, 0, 0]


def beyond():
    return [0, 1, 1, 1]


def same_score():
    return [1, 0, 1, 0]


def alibi():
    return [1 / 2, 1 / 256, -3 / 2]


# %% wrong order-1 only the first token is safe
# You let A keep its output, since it sees nothing but itself. In the new text it stands second:
# whom does it see there? And whom does the last token see, before and after?
def shuffled():
    return [30, 10, 20]


def unmoved():
    return [1, 0, 0]


def beyond():
    return [0, 1, 1, 1]


def same_score():
    return [1, 0, 1, 0]


def alibi():
    return [1 / 2, 1 / 256, -3 / 2]


# %% wrong order-1 a learned table has a row for everything
# You expect an answer from the learned table at position 500. It is a list of trained vectors: how
# many are in it?
# Seen: bentrevett/pytorch-seq2seq#89
# Seen: facebookresearch/esm#49
def shuffled():
    return [30, 10, 20]


def unmoved():
    return [0, 0, 1]


def beyond():
    return [1, 1, 1, 1]


def same_score():
    return [1, 0, 1, 0]


def alibi():
    return [1 / 2, 1 / 256, -3 / 2]


# %% wrong order-1 sines end with the training
# You let the sines end at the training length. They are often stored in a table of fixed length,
# but nothing in it was trained: what is the sine of 500?
def shuffled():
    return [30, 10, 20]


def unmoved():
    return [0, 0, 1]


def beyond():
    return [0, 0, 1, 1]


def same_score():
    return [1, 0, 1, 0]


def alibi():
    return [1 / 2, 1 / 256, -3 / 2]


# %% wrong order-1 works well mistaken for has a rule
# You kept only ALiBi. The question is not yet who does *well* beyond the training length, only who
# has a formula for the position at all.
def shuffled():
    return [30, 10, 20]


def unmoved():
    return [0, 0, 1]


def beyond():
    return [0, 0, 0, 1]


def same_score():
    return [1, 0, 1, 0]


def alibi():
    return [1 / 2, 1 / 256, -3 / 2]


# %% wrong order-1 the distance without its sign
# You counted a key three places ahead like a key three places back. Turning one vector by the
# difference of the two angles: does the direction matter?
def shuffled():
    return [30, 10, 20]


def unmoved():
    return [0, 0, 1]


def beyond():
    return [0, 1, 1, 1]


def same_score():
    return [1, 1, 1, 0]


def alibi():
    return [1 / 2, 1 / 256, -3 / 2]


# %% wrong order-1 RoPE taken for absolute positions
# You find no equal score. Both vectors are turned; what remains between them when both are moved
# by the same number of places?
def shuffled():
    return [30, 10, 20]


def unmoved():
    return [0, 0, 1]


def beyond():
    return [0, 1, 1, 1]


def same_score():
    return [0, 0, 0, 0]


def alibi():
    return [1 / 2, 1 / 256, -3 / 2]


# %% wrong order-1 only a small shift is free
# You let a shift by 3 pass and a shift by 100 not. How far the two move together plays no part in
# the angle between them.
def shuffled():
    return [30, 10, 20]


def unmoved():
    return [0, 0, 1]


def beyond():
    return [0, 1, 1, 1]


def same_score():
    return [1, 0, 0, 0]


def alibi():
    return [1 / 2, 1 / 256, -3 / 2]


# %% wrong order-1 the slopes start at 1
# Your first head has the slope 1. The ladder of slopes starts with its own ratio: with 8 heads,
# the last one should arrive at 1/256.
# Seen: paiml/aprender#2143
def shuffled():
    return [30, 10, 20]


def unmoved():
    return [0, 0, 1]


def beyond():
    return [0, 1, 1, 1]


def same_score():
    return [1, 0, 1, 0]


def alibi():
    return [1, 1 / 128, -3]


# %% wrong order-1 far keys are rewarded
# Your number is positive, so the farther away a key is, the more weight it gets. ALiBi is a
# penalty.
# Seen: meta-pytorch/attention-gym#86
def shuffled():
    return [30, 10, 20]


def unmoved():
    return [0, 0, 1]


def beyond():
    return [0, 1, 1, 1]


def same_score():
    return [1, 0, 1, 0]


def alibi():
    return [1 / 2, 1 / 256, 3 / 2]


# %% wrong order-1 the last head is the steepest
# You start with the smallest slope. The first head has the largest one and looks at the nearest
# keys.
def shuffled():
    return [30, 10, 20]


def unmoved():
    return [0, 0, 1]


def beyond():
    return [0, 1, 1, 1]


def same_score():
    return [1, 0, 1, 0]


def alibi():
    return [1 / 256, 1 / 2, -3 / 256]


# %% [markdown]
# ## order-2: Positions of a padded batch, and their sines
#
# *order-2 · 5 points · 14 minutes · ●●○○ difficulty 2 of 4*
#
# A token must get the same position vector whether its text stands in the batch alone or behind
# padding. That takes two small functions.
#
# - `positions(real, T)`: `real` is integers `[B, S]`, 1 for a token, 0 for padding. Where does
#   each token stand **in its own text**? The first token of every row stands at 0, and padding is
#   not counted, wherever it lies; padded places themselves get 0. Return integers `[B, T]`, for the
#   newest `T` places only: in decoding, the others are in the cache already.
# - `sinusoids(at, width)`: the vectors of the original Transformer for positions `at`, an array of
#   any shape `[...]`. The result is `[..., width]`: entry 2i is the sine and entry 2i + 1 the
#   cosine of `at` divided by 10000 to the power of 2i/`width`. An **odd** width ends with a sine.
#
# **A miniature.** `positions([[0, 1, 1]], 3)` is `[[0, 0, 1]]`, and with `T = 1` it is `[[1]]`.
# `sinusoids([0, 1], 4)` has the rows `[0, 1, 0, 1]` and `[sin 1, cos 1, sin 0.01, cos 0.01]`: a
# fast hand and one that is a hundred times slower.
#
# Half of the points are for a case with everything at once.
# Read first: *Sines: a clock with many hands* in [chapter 5](../book/05_order.ipynb).
#
# <details>
# <summary>Hint 1 for order-2: count what came before</summary>
#
# The position of a token is the number of tokens of its row that stand before it. A running sum
# along the row gives you that number, nearly. When do you cut off the last `T`?
#
# </details>
#
# <details>
# <summary>Hint 2 for order-2: two columns share a hand</summary>
#
# Write the columns 0, 1, 2, 3, 4 and below each the i of its formula. Columns 0 and 1 have the
# same i. Then it does not matter whether the width is even.
#
# </details>


# %% answer order-2 points=5 minutes=14 difficulty=2 forbid=attnlearn
def positions(real, T):
    """int [B, S], 1 = token, 0 = padding -> int [B, T], the newest T."""
    # BEGIN SOLUTION
    before = np.cumsum(real, axis=1) - 1
    return np.where(real == 1, before, 0)[:, -T:]
    # END SOLUTION


def sinusoids(at, width):
    """at [...] -> float [..., width]: sine, cosine, sine, ... ever slower."""
    # BEGIN SOLUTION
    column = np.arange(width)
    slower = 10000.0 ** ((column - column % 2) / width)
    angle = at[..., None] / slower
    return np.where(column % 2 == 0, np.sin(angle), np.cos(angle))
    # END SOLUTION


# %% check order-2
case = check("order-2")
_left = np.array([[1, 1, 1, 1, 1], [0, 0, 1, 1, 1]])
_mixed = np.array([[1, 1, 1, 0, 0], [1, 0, 1, 1, 0], [0, 1, 1, 0, 1]])

case("positions, padding on the left", lambda: positions(_left, 5))
case("positions, right and in between", lambda: positions(_mixed, 5))
case("positions of the newest token", lambda: positions(_left, 1))
case("positions of the newest three", lambda: positions(_mixed, 3))
case("sines, width 4", lambda: sinusoids(np.arange(3), 4))
case("sines, an odd width", lambda: sinusoids(np.arange(3), 5))


@case("sines, drawn positions of a batch")
def _(rng):
    return sinusoids(rng.randint(2, 400, size=(2, 1)), 6)


@case("products know the distance only")
def _(rng):
    i, j, shift = rng.randint(5, 50, size=3)
    x = sinusoids(np.array([i, j, i + shift, j + shift]), 8)
    return np.array([x[0] @ x[1] - x[2] @ x[3]])


@case("a padded text gets the vectors of the text alone")
def _():
    padded = sinusoids(positions(_left, 5), 6)
    alone = sinusoids(np.arange(3), 6)
    return padded[1, 2:] - alone


@case("all of it at once", weight=9)
def _(rng):
    far = sinusoids(rng.randint(2, 400, size=2), 5)
    new = positions(_mixed, 3)
    last = sinusoids(positions(_left, 2), 6)
    return {"far, odd width": far, "new": new, "vectors of the new": last}


# %% hidden order-2
case = check("order-2")


@case("drawn padding, two new places")
def _(rng):
    real = rng.randint(0, 2, (3, 7))
    real[:, [0, 1, 5, 6]] = [[0, 1, 1, 1], [1, 0, 1, 1], [1, 1, 0, 1]]
    return positions(real, 2)


case("a width of 1", lambda: sinusoids(np.arange(4), 1))


# %% right order-2 row by row
def positions(real, T):
    out = np.zeros_like(real)
    for row, places in zip(real, out, strict=True):
        places[row != 0] = np.arange(np.count_nonzero(row))
    return out[:, real.shape[1] - T :]


def sinusoids(at, width):
    out = np.zeros((*at.shape, width))
    for i in range(width):
        angle = at / 10000 ** (2 * (i // 2) / width)
        out[..., i] = np.cos(angle) if i % 2 else np.sin(angle)
    return out


# %% right order-2 every second column
def positions(real, T):
    return ((real.cumsum(-1) - 1) * real)[:, -T:]


def sinusoids(at, width):
    angle = np.multiply.outer(at, np.exp(-np.log(10000) * np.arange(0, width, 2) / width))
    out = np.empty((*at.shape, width))
    out[..., ::2] = np.sin(angle)
    out[..., 1::2] = np.cos(angle[..., : width // 2])
    return out


# %% wrong order-2 padding is counted
# You counted the places, padding and all. A text that is padded on the left then starts late:
# which position should its first token have?
# Seen: unslothai/unsloth#3803
# Seen: tloen/alpaca-lora#315
# Seen: rasbt/reasoning-from-scratch#33
def positions(real, T):
    B, S = real.shape
    return np.broadcast_to(np.arange(S), (B, S))[:, -T:]


def sinusoids(at, width):
    column = np.arange(width)
    slower = 10000.0 ** ((column - column % 2) / width)
    angle = at[..., None] / slower
    return np.where(column % 2 == 0, np.sin(angle), np.cos(angle))


# %% wrong order-2 new tokens start at 0 again
# You cut off the newest places before you counted. The tokens in the cache come before them and
# must be counted, too.
# Seen: Blaizzy/mlx-vlm#1983
# Seen: RobertCsordas/moeut#6
def positions(real, T):
    real = real[:, -T:]
    before = np.cumsum(real, axis=1) - 1
    return np.where(real == 1, before, 0)


def sinusoids(at, width):
    column = np.arange(width)
    slower = 10000.0 ** ((column - column % 2) / width)
    angle = at[..., None] / slower
    return np.where(column % 2 == 0, np.sin(angle), np.cos(angle))


# %% wrong order-2 positions start at 1
# Your first token stands at 1. The running sum counts a token along with itself; the position is
# the number of tokens *before* it.
def positions(real, T):
    before = np.cumsum(real, axis=1)
    return np.where(real == 1, before, 0)[:, -T:]


def sinusoids(at, width):
    column = np.arange(width)
    slower = 10000.0 ** ((column - column % 2) / width)
    angle = at[..., None] / slower
    return np.where(column % 2 == 0, np.sin(angle), np.cos(angle))


# %% wrong order-2 padding stands at -1
# Padding in front of a text gets the position -1. In a table, -1 is the last row, and no error
# tells you so.
def positions(real, T):
    before = np.cumsum(real, axis=1) - 1
    return before[:, -T:]


def sinusoids(at, width):
    column = np.arange(width)
    slower = 10000.0 ** ((column - column % 2) / width)
    angle = at[..., None] / slower
    return np.where(column % 2 == 0, np.sin(angle), np.cos(angle))


# %% wrong order-2 one row of positions for the whole batch
# All rows got the positions of the first one. Every text has its own padding, so its own
# positions.
# Seen: unslothai/unsloth#3699
# Seen: Comfy-Org/ComfyUI#15698
def positions(real, T):
    before = np.cumsum(real[:1], axis=1) - 1
    first = np.where(real[:1] == 1, before, 0)
    return np.repeat(first, len(real), axis=0)[:, -T:]


def sinusoids(at, width):
    column = np.arange(width)
    slower = 10000.0 ** ((column - column % 2) / width)
    angle = at[..., None] / slower
    return np.where(column % 2 == 0, np.sin(angle), np.cos(angle))


# %% wrong order-2 counted down the batch
# You added up along the batch. A position counts tokens of the same text: along which axis does a
# text run?
def positions(real, T):
    before = np.cumsum(real, axis=0) - 1
    return np.where(real == 1, before, 0)[:, -T:]


def sinusoids(at, width):
    column = np.arange(width)
    slower = 10000.0 ** ((column - column % 2) / width)
    angle = at[..., None] / slower
    return np.where(column % 2 == 0, np.sin(angle), np.cos(angle))


# %% wrong order-2 the oldest in place of the newest
# You kept the first T places. In decoding the new tokens are the last ones.
def positions(real, T):
    before = np.cumsum(real, axis=1) - 1
    return np.where(real == 1, before, 0)[:, :T]


def sinusoids(at, width):
    column = np.arange(width)
    slower = 10000.0 ** ((column - column % 2) / width)
    angle = at[..., None] / slower
    return np.where(column % 2 == 0, np.sin(angle), np.cos(angle))


# %% wrong order-2 every column has a hand of its own
# Sine and cosine of a pair turn at different speeds. Two neighbouring columns share their i; only
# so can a pair tell an angle.
# Seen: SamLynnEvans/Transformer#25
# Seen: maxjcohen/transformer#62
def positions(real, T):
    before = np.cumsum(real, axis=1) - 1
    return np.where(real == 1, before, 0)[:, -T:]


def sinusoids(at, width):
    column = np.arange(width)
    slower = 10000.0 ** (column / width)
    angle = at[..., None] / slower
    return np.where(column % 2 == 0, np.sin(angle), np.cos(angle))


# %% wrong order-2 every column doubled
# You put the number of the column where i belongs, so the ladder falls twice as fast and no two
# columns share a hand. Column 2 belongs to i = 1.
# Seen: jadore801120/attention-is-all-you-need-pytorch#32
# Seen: Kyubyong/transformer#38
def positions(real, T):
    before = np.cumsum(real, axis=1) - 1
    return np.where(real == 1, before, 0)[:, -T:]


def sinusoids(at, width):
    column = np.arange(width)
    slower = 10000.0 ** (2 * column / width)
    angle = at[..., None] / slower
    return np.where(column % 2 == 0, np.sin(angle), np.cos(angle))


# %% wrong order-2 the ladder is half as steep
# Your slowest hand is still fast: you used i/width where the formula has 2i/width.
def positions(real, T):
    before = np.cumsum(real, axis=1) - 1
    return np.where(real == 1, before, 0)[:, -T:]


def sinusoids(at, width):
    column = np.arange(width)
    slower = 10000.0 ** ((column // 2) / width)
    angle = at[..., None] / slower
    return np.where(column % 2 == 0, np.sin(angle), np.cos(angle))


# %% wrong order-2 sines first, then cosines
# You put all sines first and all cosines behind them. Some libraries do; a model trained with one
# order cannot use the other. Here they take turns.
# Seen: allenai/allennlp#2993
# Seen: kimiyoung/transformer-xl#119
# Seen: tensorflow/tensor2tensor#1925
def positions(real, T):
    before = np.cumsum(real, axis=1) - 1
    return np.where(real == 1, before, 0)[:, -T:]


def sinusoids(at, width):
    column = np.arange(width)
    half = (width + 1) // 2
    column = np.where(column < half, 2 * column, 2 * (column - half) + 1)
    slower = 10000.0 ** ((column - column % 2) / width)
    angle = at[..., None] / slower
    return np.where(column % 2 == 0, np.sin(angle), np.cos(angle))


# %% wrong order-2 sine and cosine exchanged
# Your first column is a cosine. At position 0 the first row should be 0, 1, 0, 1.
def positions(real, T):
    before = np.cumsum(real, axis=1) - 1
    return np.where(real == 1, before, 0)[:, -T:]


def sinusoids(at, width):
    column = np.arange(width)
    slower = 10000.0 ** ((column - column % 2) / width)
    angle = at[..., None] / slower
    return np.where(column % 2 == 0, np.cos(angle), np.sin(angle))


# %% wrong order-2 multiplied in place of divided
# Your hands turn faster and faster. The power of 10000 divides the position: the last columns are
# the slow ones.
# Seen: hkproj/pytorch-transformer#2
def positions(real, T):
    before = np.cumsum(real, axis=1) - 1
    return np.where(real == 1, before, 0)[:, -T:]


def sinusoids(at, width):
    column = np.arange(width)
    slower = 10000.0 ** ((column - column % 2) / width)
    angle = at[..., None] * slower
    return np.where(column % 2 == 0, np.sin(angle), np.cos(angle))


# %% wrong order-2 base and exponent exchanged
# You raised the fraction to a power of 10000. The base is 10000, and the fraction is the exponent.
# Seen: ivanvovk/WaveGrad#12
def positions(real, T):
    before = np.cumsum(real, axis=1) - 1
    return np.where(real == 1, before, 0)[:, -T:]


def sinusoids(at, width):
    column = np.arange(width)
    slower = 1 + ((column - column % 2) / width) ** 1e4
    angle = at[..., None] / slower
    return np.where(column % 2 == 0, np.sin(angle), np.cos(angle))


# %% wrong order-2 base 1000
# One zero is missing: the base is ten thousand.
# Seen: maxjcohen/transformer#62
def positions(real, T):
    before = np.cumsum(real, axis=1) - 1
    return np.where(real == 1, before, 0)[:, -T:]


def sinusoids(at, width):
    column = np.arange(width)
    slower = 1000.0 ** ((column - column % 2) / width)
    angle = at[..., None] / slower
    return np.where(column % 2 == 0, np.sin(angle), np.cos(angle))


# %% wrong order-2 odd widths break
# For an odd width there is one cosine fewer than there are sines, and your assignment does not
# fit. How many cosine columns are there?
# Seen: codertimo/BERT-pytorch#78
# Seen: gc-os-ai/pyaptamer#526
# Seen: zhouhaoyi/Informer2020#224
def positions(real, T):
    before = np.cumsum(real, axis=1) - 1
    return np.where(real == 1, before, 0)[:, -T:]


def sinusoids(at, width):
    angle = at[..., None] / 10000.0 ** (np.arange(0, width, 2) / width)
    out = np.zeros((*at.shape, width))
    out[..., 0::2] = np.sin(angle)
    out[..., 1::2] = np.cos(angle)
    return out


# %% wrong order-2 padding keeps the position before it
# Padding behind or between tokens has the position of the token before it. Padded places get 0,
# wherever they lie.
def positions(real, T):
    before = np.cumsum(real, axis=1) - 1
    return np.maximum(before, 0)[:, -T:]


def sinusoids(at, width):
    column = np.arange(width)
    slower = 10000.0 ** ((column - column % 2) / width)
    angle = at[..., None] / slower
    return np.where(column % 2 == 0, np.sin(angle), np.cos(angle))


# %% wrong order-2 gaps are counted
# You count places from the first token on. Padding in between is counted, too: a position is the
# number of *tokens* before it.
def positions(real, T):
    before = np.arange(real.shape[1]) - real.argmax(1)[:, None]
    return np.where(real == 1, before, 0)[:, -T:]


def sinusoids(at, width):
    column = np.arange(width)
    slower = 10000.0 ** ((column - column % 2) / width)
    angle = at[..., None] / slower
    return np.where(column % 2 == 0, np.sin(angle), np.cos(angle))


# %% wrong order-2 an odd width cut from an even one
# Your odd widths are computed one wider and cut. Then the width in the exponent is another, and
# all hands but the first turn at another speed.
def positions(real, T):
    before = np.cumsum(real, axis=1) - 1
    return np.where(real == 1, before, 0)[:, -T:]


def sinusoids(at, width):
    column = np.arange(width)
    slower = 10000.0 ** ((column - column % 2) / (width + width % 2))
    angle = at[..., None] / slower
    return np.where(column % 2 == 0, np.sin(angle), np.cos(angle))


# %% [markdown]
# ## order-3: RoPE, in both pairings
#
# *order-3 · 6 points · 16 minutes · ●●○○ difficulty 2 of 4*
#
# RoPE cuts a vector of even width `D` into `D/2` pairs (a, b) and turns pair number i by the angle
# φ = position · base^(−2i/D), counter-clockwise:
#
# | new a | new b |
# |---|---|
# | a cos φ − b sin φ | a sin φ + b cos φ |
#
# Two conventions say which entries make a pair, and a model trained with one is wrong with the
# other: `"halves"` pairs entry i with entry i + D/2, `"neighbours"` pairs entry 2i with entry
# 2i + 1. Write
#
# - `rotate(x, at, pairing, base)`: `x` is `[..., T, D]`, `at` holds `T` positions; returns a new
#   array of the same shape;
# - `rope(q, k, v, pairing)`: returns the three arrays that attention should be given. `q` is `[...,
#   T, D]`, `k` and `v` are `[..., S, D]`, **before** any turning. The keys stand at positions 0 to
#   S − 1, the queries are the newest `T`.
#
# **A miniature.** D = 4, base 10000: pair 0 turns by 1 radian per position, pair 1 by 0.01. In
# `"halves"`, pair 0 is made of entries 0 and 2; in `"neighbours"`, of entries 0 and 1. At position
# 1, the vector `[1, 0, 0, 0]` becomes `[cos 1, 0, sin 1, 0]` or `[cos 1, sin 1, 0, 0]`.
#
# Half of the points are for a case with everything at once.
# Read first: *RoPE: turn the query and the key* and *Two pairings that do not mix* in
# [chapter 5](../book/05_order.ipynb).
#
# <details>
# <summary>Hint 1 for order-3: take the pairs apart first</summary>
#
# Take out two arrays of width D/2, the first and the second members of all pairs. Turn them with
# one array of angles, `[T, D/2]`. Only then put them back to where they came from.
#
# </details>
#
# <details>
# <summary>Hint 2 for order-3: who needs a position?</summary>
#
# Positions should be felt where a query meets a key. Ask for each of q, k and v whether it takes
# part in that, and where in the text the newest `T` stand.
#
# </details>


# %% answer order-3 points=6 minutes=16 difficulty=2 forbid=attnlearn
def rotate(x, at, pairing, base=10000.0):
    """x [..., T, D], at int [T] -> [..., T, D]; "halves" or "neighbours"."""
    # BEGIN SOLUTION
    D = x.shape[-1]
    angle = at[:, None] * base ** (-np.arange(0, D, 2) / D)
    cos, sin = np.cos(angle), np.sin(angle)
    if pairing == "halves":
        first, second = slice(0, D // 2), slice(D // 2, D)
    else:
        first, second = slice(0, D, 2), slice(1, D, 2)
    a, b = x[..., first], x[..., second]
    out = np.zeros_like(x)
    out[..., first] = a * cos - b * sin
    out[..., second] = a * sin + b * cos
    return out
    # END SOLUTION


def rope(q, k, v, pairing):
    """q [..., T, D], k, v [..., S, D] -> q, k, v as attention needs them."""
    # BEGIN SOLUTION
    T, S = q.shape[-2], k.shape[-2]
    q = rotate(q, np.arange(S - T, S), pairing)
    k = rotate(k, np.arange(S), pairing)
    return q, k, v
    # END SOLUTION


# %% check order-3
case = check("order-3")
_at = np.array([5, 2, 40])


def _qkv(rng, T, S, *heads):
    return [rng.normal(size=(*heads, n, 4)) for n in (T, S, S)]


@case("halves, width 6")
def _(rng):
    return rotate(rng.normal(size=(3, 6)), np.arange(3), "halves")


@case("neighbours, width 6")
def _(rng):
    return rotate(rng.normal(size=(3, 6)), np.arange(3), "neighbours")


@case("3 heads, positions 5, 2 and 40")
def _(rng):
    return rotate(rng.normal(size=(3, 3, 4)), _at, "neighbours")


@case("another base")
def _(rng):
    return rotate(rng.normal(size=(3, 6)), _at, "halves", 100.0)


@case("lengths stay as they are")
def _(rng):
    x = rng.normal(size=(3, 8))
    both = [rotate(x, _at, pairing) for pairing in ("halves", "neighbours")]
    return np.linalg.norm(both, axis=-1) / np.linalg.norm(x, axis=-1)


@case("scores know the distance only")
def _(rng):
    q, k = rng.normal(size=(2, 1, 8))

    def score(i, j, pairing):
        turned = rotate(q, np.array([i]), pairing)
        return (turned @ rotate(k, np.array([j]), pairing).T).item()

    kinds = ("halves", "neighbours")
    return np.array([score(7, 4, x) - score(107, 104, x) for x in kinds])


@case("decoding: 1 query, 4 keys")
def _(rng):
    return dict(zip("qkv", rope(*_qkv(rng, 1, 4), "halves"), strict=True))


@case("a chunk: 2 queries, 3 keys")
def _(rng):
    q, k, _ = rope(*_qkv(rng, 2, 3), "neighbours")
    return {"q": q, "k": k}


@case("what was handed in stays as it was")
def _(rng):
    given = _qkv(rng, 2, 3)
    before = [x.copy() for x in given]
    rope(*given, "halves")
    return [np.array_equal(x, y) for x, y in zip(given, before, strict=True)]


@case("all of it at once", weight=9)
def _(rng):
    out = {}
    for pairing in ("halves", "neighbours"):
        given = _qkv(rng, 2, 4, 2)
        before = [x.copy() for x in given]
        q, k, v = rope(*given, pairing)
        pairs = zip(given, before, strict=True)
        kept = all(np.array_equal(x, y) for x, y in pairs)
        moved = bool(np.any(v != before[2]))
        turned = rotate(before[0][1], _at[:2], pairing, 100.0)
        out[pairing] = {"q": q[1], "k": k[1], "v moved": moved, "kept": kept, "base": turned}
    return out


# %% hidden order-3
case = check("order-3")


@case("a width of 2, a base of 500, positions before 0")
def _(rng):
    x = rng.normal(size=(3, 2))
    kinds = ("halves", "neighbours")
    return [rotate(x, np.array([-3, 0, 9]), kind, 500.0) for kind in kinds]


# %% right order-3 with a rotated half
def rotate(x, at, pairing, base=10000.0):
    D = x.shape[-1]
    angle = np.outer(at, 1 / base ** (np.arange(D // 2) * 2 / D))
    if pairing == "halves":
        angle = np.tile(angle, 2)
        other = np.concatenate([-x[..., D // 2 :], x[..., : D // 2]], -1)
    else:
        angle = np.repeat(angle, 2, axis=-1)
        other = np.stack([-x[..., 1::2], x[..., ::2]], -1).reshape(x.shape)
    return x * np.cos(angle) + other * np.sin(angle)


def rope(q, k, v, pairing):
    at = np.arange(k.shape[-2])
    return rotate(q, at[-q.shape[-2] :], pairing), rotate(k, at, pairing), v


# %% right order-3 with complex numbers
def rotate(x, at, pairing, base=10000.0):
    *front, D = x.shape
    cut = x.reshape(*front, 2, D // 2) if pairing == "halves" else x.reshape(*front, D // 2, 2)
    axis = -2 if pairing == "halves" else -1
    a, b = np.moveaxis(cut, axis, 0)
    turn = np.exp(1j * np.multiply.outer(at, base ** -(np.arange(D // 2) / (D // 2))))
    z = (a + 1j * b) * turn
    return np.stack([z.real, z.imag], axis).reshape(x.shape)


def rope(q, k, v, pairing):
    S = k.shape[-2]
    old = S - q.shape[-2]
    return rotate(q, np.arange(old, S), pairing), rotate(k, np.arange(S), pairing), v


# %% wrong order-3 nothing is turned
# Your vectors come out as they went in. That keeps lengths and passes many tests of RoPE, but then
# a model knows nothing about order.
def rotate(x, at, pairing, base=10000.0):
    return x.copy()


def rope(q, k, v, pairing):
    T, S = q.shape[-2], k.shape[-2]
    q = rotate(q, np.arange(S - T, S), pairing)
    k = rotate(k, np.arange(S), pairing)
    return q, k, v


# %% wrong order-3 the two pairings exchanged
# You do neighbours when asked for halves, and halves when asked for neighbours. Lengths and
# distances come out right in both, so only weights from a trained model notice.
# Seen: huggingface/transformers#25199
# Seen: EleutherAI/gpt-neox#834
def rotate(x, at, pairing, base=10000.0):
    D = x.shape[-1]
    angle = at[:, None] * base ** (-np.arange(0, D, 2) / D)
    cos, sin = np.cos(angle), np.sin(angle)
    if pairing != "halves":
        first, second = slice(0, D // 2), slice(D // 2, D)
    else:
        first, second = slice(0, D, 2), slice(1, D, 2)
    a, b = x[..., first], x[..., second]
    out = np.zeros_like(x)
    out[..., first] = a * cos - b * sin
    out[..., second] = a * sin + b * cos
    return out


def rope(q, k, v, pairing):
    T, S = q.shape[-2], k.shape[-2]
    q = rotate(q, np.arange(S - T, S), pairing)
    k = rotate(k, np.arange(S), pairing)
    return q, k, v


# %% wrong order-3 halves, whatever is asked
# You always pair entry i with entry i + D/2. Look at the argument `pairing`: Meta's own weights,
# for one, were trained with neighbours.
# Seen: rasbt/LLMs-from-scratch#747
# Seen: Dao-AILab/flash-attention#288
def rotate(x, at, pairing, base=10000.0):
    D = x.shape[-1]
    angle = at[:, None] * base ** (-np.arange(0, D, 2) / D)
    cos, sin = np.cos(angle), np.sin(angle)
    first, second = slice(0, D // 2), slice(D // 2, D)
    a, b = x[..., first], x[..., second]
    out = np.zeros_like(x)
    out[..., first] = a * cos - b * sin
    out[..., second] = a * sin + b * cos
    return out


def rope(q, k, v, pairing):
    T, S = q.shape[-2], k.shape[-2]
    q = rotate(q, np.arange(S - T, S), pairing)
    k = rotate(k, np.arange(S), pairing)
    return q, k, v


# %% wrong order-3 neighbours, whatever is asked
# You always pair entry 2i with entry 2i + 1. Look at the argument `pairing`: weights in the format
# of the library transformers need the other one.
# Seen: NVIDIA-NeMo/Speech#6923
def rotate(x, at, pairing, base=10000.0):
    D = x.shape[-1]
    angle = at[:, None] * base ** (-np.arange(0, D, 2) / D)
    cos, sin = np.cos(angle), np.sin(angle)
    first, second = slice(0, D, 2), slice(1, D, 2)
    a, b = x[..., first], x[..., second]
    out = np.zeros_like(x)
    out[..., first] = a * cos - b * sin
    out[..., second] = a * sin + b * cos
    return out


def rope(q, k, v, pairing):
    T, S = q.shape[-2], k.shape[-2]
    q = rotate(q, np.arange(S - T, S), pairing)
    k = rotate(k, np.arange(S), pairing)
    return q, k, v


# %% wrong order-3 angles laid out for the other pairing: halves
# In halves your angles lie in the order 0, 0, 1, 1, which belongs to neighbours. The two members
# of a pair then turn by different angles, and lengths change. Where are entries i and i + D/2?
# Seen: raiyanyahya/how-to-train-your-gpt#6
def rotate(x, at, pairing, base=10000.0):
    D = x.shape[-1]
    angle = at[:, None] * base ** (-np.arange(0, D, 2) / D)
    if pairing == "halves":
        angle = np.repeat(angle, 2, axis=-1)
        other = np.concatenate([-x[..., D // 2 :], x[..., : D // 2]], -1)
    else:
        angle = np.repeat(angle, 2, axis=-1)
        other = np.stack([-x[..., 1::2], x[..., ::2]], -1).reshape(x.shape)
    return x * np.cos(angle) + other * np.sin(angle)


def rope(q, k, v, pairing):
    T, S = q.shape[-2], k.shape[-2]
    q = rotate(q, np.arange(S - T, S), pairing)
    k = rotate(k, np.arange(S), pairing)
    return q, k, v


# %% wrong order-3 angles laid out for the other pairing: neighbours
# With neighbours your angles lie in the order 0, 1, 0, 1, which belongs to halves. The two members
# of a pair then turn by different angles, and lengths change.
# Seen: facebookresearch/vjepa2#15
# Seen: Tongjilibo/bert4torch#1
def rotate(x, at, pairing, base=10000.0):
    D = x.shape[-1]
    angle = at[:, None] * base ** (-np.arange(0, D, 2) / D)
    if pairing == "halves":
        angle = np.tile(angle, 2)
        other = np.concatenate([-x[..., D // 2 :], x[..., : D // 2]], -1)
    else:
        angle = np.tile(angle, 2)
        other = np.stack([-x[..., 1::2], x[..., ::2]], -1).reshape(x.shape)
    return x * np.cos(angle) + other * np.sin(angle)


def rope(q, k, v, pairing):
    T, S = q.shape[-2], k.shape[-2]
    q = rotate(q, np.arange(S - T, S), pairing)
    k = rotate(k, np.arange(S), pairing)
    return q, k, v


# %% wrong order-3 clockwise
# You turn the other way round. As long as queries and keys agree, scores are consistent, but
# weights that were trained counter-clockwise will not fit.
# Seen: karpathy/nanochat#489
def rotate(x, at, pairing, base=10000.0):
    D = x.shape[-1]
    angle = at[:, None] * base ** (-np.arange(0, D, 2) / D)
    cos, sin = np.cos(angle), np.sin(angle)
    if pairing == "halves":
        first, second = slice(0, D // 2), slice(D // 2, D)
    else:
        first, second = slice(0, D, 2), slice(1, D, 2)
    a, b = x[..., first], x[..., second]
    out = np.zeros_like(x)
    out[..., first] = a * cos + b * sin
    out[..., second] = b * cos - a * sin
    return out


def rope(q, k, v, pairing):
    T, S = q.shape[-2], k.shape[-2]
    q = rotate(q, np.arange(S - T, S), pairing)
    k = rotate(k, np.arange(S), pairing)
    return q, k, v


# %% wrong order-3 the minus sign is lost
# Both of your rows have a plus, and lengths change: that is no turn. Draw the vector (0, 1) and
# turn it a little counter-clockwise.
def rotate(x, at, pairing, base=10000.0):
    D = x.shape[-1]
    angle = at[:, None] * base ** (-np.arange(0, D, 2) / D)
    cos, sin = np.cos(angle), np.sin(angle)
    if pairing == "halves":
        first, second = slice(0, D // 2), slice(D // 2, D)
    else:
        first, second = slice(0, D, 2), slice(1, D, 2)
    a, b = x[..., first], x[..., second]
    out = np.zeros_like(x)
    out[..., first] = a * cos + b * sin
    out[..., second] = a * sin + b * cos
    return out


def rope(q, k, v, pairing):
    T, S = q.shape[-2], k.shape[-2]
    q = rotate(q, np.arange(S - T, S), pairing)
    k = rotate(k, np.arange(S), pairing)
    return q, k, v


# %% wrong order-3 degrees
# You took the angles for degrees. NumPy's sine wants radians, and so does the formula; your
# vectors hardly move.
def rotate(x, at, pairing, base=10000.0):
    D = x.shape[-1]
    angle = at[:, None] * base ** (-np.arange(0, D, 2) / D)
    angle = np.deg2rad(angle)
    cos, sin = np.cos(angle), np.sin(angle)
    if pairing == "halves":
        first, second = slice(0, D // 2), slice(D // 2, D)
    else:
        first, second = slice(0, D, 2), slice(1, D, 2)
    a, b = x[..., first], x[..., second]
    out = np.zeros_like(x)
    out[..., first] = a * cos - b * sin
    out[..., second] = a * sin + b * cos
    return out


def rope(q, k, v, pairing):
    T, S = q.shape[-2], k.shape[-2]
    q = rotate(q, np.arange(S - T, S), pairing)
    k = rotate(k, np.arange(S), pairing)
    return q, k, v


# %% wrong order-3 i in place of 2i
# Your pairs slow down half as fast as they should: the exponent of pair i has 2i over D. How slow
# is the last pair?
# Seen: rasbt/LLMs-from-scratch#410
def rotate(x, at, pairing, base=10000.0):
    D = x.shape[-1]
    angle = at[:, None] * base ** (-np.arange(D // 2) / D)
    cos, sin = np.cos(angle), np.sin(angle)
    if pairing == "halves":
        first, second = slice(0, D // 2), slice(D // 2, D)
    else:
        first, second = slice(0, D, 2), slice(1, D, 2)
    a, b = x[..., first], x[..., second]
    out = np.zeros_like(x)
    out[..., first] = a * cos - b * sin
    out[..., second] = a * sin + b * cos
    return out


def rope(q, k, v, pairing):
    T, S = q.shape[-2], k.shape[-2]
    q = rotate(q, np.arange(S - T, S), pairing)
    k = rotate(k, np.arange(S), pairing)
    return q, k, v


# %% wrong order-3 the exponents start too late
# Your first pair does not turn by 1 radian per position. Count the pairs from 0, as the formula
# here does.
# Seen: stanford-cs336/assignment1-basics#22
def rotate(x, at, pairing, base=10000.0):
    D = x.shape[-1]
    angle = at[:, None] * base ** (-np.arange(1, D, 2) / D)
    cos, sin = np.cos(angle), np.sin(angle)
    if pairing == "halves":
        first, second = slice(0, D // 2), slice(D // 2, D)
    else:
        first, second = slice(0, D, 2), slice(1, D, 2)
    a, b = x[..., first], x[..., second]
    out = np.zeros_like(x)
    out[..., first] = a * cos - b * sin
    out[..., second] = a * sin + b * cos
    return out


def rope(q, k, v, pairing):
    T, S = q.shape[-2], k.shape[-2]
    q = rotate(q, np.arange(S - T, S), pairing)
    k = rotate(k, np.arange(S), pairing)
    return q, k, v


# %% wrong order-3 pairs turn ever faster
# Your last pair is the fastest. The exponent is negative: pair 0 turns by 1 radian, and every
# other one by less.
# Seen: labmlai/annotated_deep_learning_paper_implementations#313
def rotate(x, at, pairing, base=10000.0):
    D = x.shape[-1]
    angle = at[:, None] * base ** (np.arange(0, D, 2) / D)
    cos, sin = np.cos(angle), np.sin(angle)
    if pairing == "halves":
        first, second = slice(0, D // 2), slice(D // 2, D)
    else:
        first, second = slice(0, D, 2), slice(1, D, 2)
    a, b = x[..., first], x[..., second]
    out = np.zeros_like(x)
    out[..., first] = a * cos - b * sin
    out[..., second] = a * sin + b * cos
    return out


def rope(q, k, v, pairing):
    T, S = q.shape[-2], k.shape[-2]
    q = rotate(q, np.arange(S - T, S), pairing)
    k = rotate(k, np.arange(S), pairing)
    return q, k, v


# %% wrong order-3 all pairs turn equally fast
# All your pairs turn by 1 radian per position. After about six positions everything looks as at
# the start: where is the base?
def rotate(x, at, pairing, base=10000.0):
    D = x.shape[-1]
    angle = at[:, None] * np.ones(D // 2)
    cos, sin = np.cos(angle), np.sin(angle)
    if pairing == "halves":
        first, second = slice(0, D // 2), slice(D // 2, D)
    else:
        first, second = slice(0, D, 2), slice(1, D, 2)
    a, b = x[..., first], x[..., second]
    out = np.zeros_like(x)
    out[..., first] = a * cos - b * sin
    out[..., second] = a * sin + b * cos
    return out


def rope(q, k, v, pairing):
    T, S = q.shape[-2], k.shape[-2]
    q = rotate(q, np.arange(S - T, S), pairing)
    k = rotate(k, np.arange(S), pairing)
    return q, k, v


# %% wrong order-3 the values are turned, too
# You turned the values. They are what a query takes home; turned, the output depends on where the
# text stands, and not on distances alone.
# Seen: lucidrains/x-transformers#182
# Seen: labmlai/annotated_deep_learning_paper_implementations#251
def rotate(x, at, pairing, base=10000.0):
    D = x.shape[-1]
    angle = at[:, None] * base ** (-np.arange(0, D, 2) / D)
    cos, sin = np.cos(angle), np.sin(angle)
    if pairing == "halves":
        first, second = slice(0, D // 2), slice(D // 2, D)
    else:
        first, second = slice(0, D, 2), slice(1, D, 2)
    a, b = x[..., first], x[..., second]
    out = np.zeros_like(x)
    out[..., first] = a * cos - b * sin
    out[..., second] = a * sin + b * cos
    return out


def rope(q, k, v, pairing):
    T, S = q.shape[-2], k.shape[-2]
    q = rotate(q, np.arange(S - T, S), pairing)
    k = rotate(k, np.arange(S), pairing)
    return q, k, rotate(v, np.arange(S), pairing)


# %% wrong order-3 the keys are not turned
# Only the queries are turned. The score should know the difference of two positions: the key has
# to bring its own.
# Seen: kvcache-ai/sglang#66
def rotate(x, at, pairing, base=10000.0):
    D = x.shape[-1]
    angle = at[:, None] * base ** (-np.arange(0, D, 2) / D)
    cos, sin = np.cos(angle), np.sin(angle)
    if pairing == "halves":
        first, second = slice(0, D // 2), slice(D // 2, D)
    else:
        first, second = slice(0, D, 2), slice(1, D, 2)
    a, b = x[..., first], x[..., second]
    out = np.zeros_like(x)
    out[..., first] = a * cos - b * sin
    out[..., second] = a * sin + b * cos
    return out


def rope(q, k, v, pairing):
    T, S = q.shape[-2], k.shape[-2]
    q = rotate(q, np.arange(S - T, S), pairing)
    return q, k, v


# %% wrong order-3 new queries start at 0
# Your queries stand at positions 0 and up. With keys in a cache they are the newest tokens: decode
# one query by hand.
# Seen: Blaizzy/mlx-vlm#1983
# Seen: RobertCsordas/moeut#6
def rotate(x, at, pairing, base=10000.0):
    D = x.shape[-1]
    angle = at[:, None] * base ** (-np.arange(0, D, 2) / D)
    cos, sin = np.cos(angle), np.sin(angle)
    if pairing == "halves":
        first, second = slice(0, D // 2), slice(D // 2, D)
    else:
        first, second = slice(0, D, 2), slice(1, D, 2)
    a, b = x[..., first], x[..., second]
    out = np.zeros_like(x)
    out[..., first] = a * cos - b * sin
    out[..., second] = a * sin + b * cos
    return out


def rope(q, k, v, pairing):
    T, S = q.shape[-2], k.shape[-2]
    q = rotate(q, np.arange(T), pairing)
    k = rotate(k, np.arange(S), pairing)
    return q, k, v


# %% wrong order-3 new queries one place too far
# Your queries stand one place too far: they were counted before they came in, or once too often.
# The last query stands at the last key.
# Seen: fla-org/flash-linear-attention#766
def rotate(x, at, pairing, base=10000.0):
    D = x.shape[-1]
    angle = at[:, None] * base ** (-np.arange(0, D, 2) / D)
    cos, sin = np.cos(angle), np.sin(angle)
    if pairing == "halves":
        first, second = slice(0, D // 2), slice(D // 2, D)
    else:
        first, second = slice(0, D, 2), slice(1, D, 2)
    a, b = x[..., first], x[..., second]
    out = np.zeros_like(x)
    out[..., first] = a * cos - b * sin
    out[..., second] = a * sin + b * cos
    return out


def rope(q, k, v, pairing):
    T, S = q.shape[-2], k.shape[-2]
    q = rotate(q, np.arange(S - T, S) + 1, pairing)
    k = rotate(k, np.arange(S), pairing)
    return q, k, v


# %% wrong order-3 new queries share one position
# All your new queries stand at the first new position. A chunk of several tokens moves on from one
# to the next.
# Seen: jundot/omlx#2363
def rotate(x, at, pairing, base=10000.0):
    D = x.shape[-1]
    angle = at[:, None] * base ** (-np.arange(0, D, 2) / D)
    cos, sin = np.cos(angle), np.sin(angle)
    if pairing == "halves":
        first, second = slice(0, D // 2), slice(D // 2, D)
    else:
        first, second = slice(0, D, 2), slice(1, D, 2)
    a, b = x[..., first], x[..., second]
    out = np.zeros_like(x)
    out[..., first] = a * cos - b * sin
    out[..., second] = a * sin + b * cos
    return out


def rope(q, k, v, pairing):
    T, S = q.shape[-2], k.shape[-2]
    q = rotate(q, np.full(T, S - T), pairing)
    k = rotate(k, np.arange(S), pairing)
    return q, k, v


# %% wrong order-3 heads taken for positions
# You count positions along the first axis. With heads in front, that turns head number h and not
# token number t; the tokens lie on the last axis but one.
# Seen: tensorgi/TPA#4
# Seen: zhenye234/X-Codec-2.0#36
def rotate(x, at, pairing, base=10000.0):
    D = x.shape[-1]
    angle = at.reshape(-1, *[1] * (x.ndim - 1)) * base ** (-np.arange(0, D, 2) / D)
    cos, sin = np.cos(angle), np.sin(angle)
    if pairing == "halves":
        first, second = slice(0, D // 2), slice(D // 2, D)
    else:
        first, second = slice(0, D, 2), slice(1, D, 2)
    a, b = x[..., first], x[..., second]
    out = np.zeros_like(x)
    out[..., first] = a * cos - b * sin
    out[..., second] = a * sin + b * cos
    return out


def rope(q, k, v, pairing):
    T, S = q.shape[-2], k.shape[-2]
    q = rotate(q, np.arange(S - T, S), pairing)
    k = rotate(k, np.arange(S), pairing)
    return q, k, v


# %% wrong order-3 the second line reads what the first has written
# You overwrite the first members of the pairs and then use them for the second. Both lines need
# the values from before.
def rotate(x, at, pairing, base=10000.0):
    D = x.shape[-1]
    angle = at[:, None] * base ** (-np.arange(0, D, 2) / D)
    cos, sin = np.cos(angle), np.sin(angle)
    if pairing == "halves":
        first, second = slice(0, D // 2), slice(D // 2, D)
    else:
        first, second = slice(0, D, 2), slice(1, D, 2)
    out = x.copy()
    out[..., first] = out[..., first] * cos - out[..., second] * sin
    out[..., second] = out[..., first] * sin + out[..., second] * cos
    return out


def rope(q, k, v, pairing):
    T, S = q.shape[-2], k.shape[-2]
    q = rotate(q, np.arange(S - T, S), pairing)
    k = rotate(k, np.arange(S), pairing)
    return q, k, v


# %% wrong order-3 written into what was handed in
# The numbers are turned in the caller's own arrays. If those lie in a cache, they are turned again
# at the next call: return new ones.
# Seen: NeuraLegion/shainet#110
def rotate(x, at, pairing, base=10000.0):
    D = x.shape[-1]
    angle = at[:, None] * base ** (-np.arange(0, D, 2) / D)
    cos, sin = np.cos(angle), np.sin(angle)
    if pairing == "halves":
        first, second = slice(0, D // 2), slice(D // 2, D)
    else:
        first, second = slice(0, D, 2), slice(1, D, 2)
    a, b = x[..., first].copy(), x[..., second].copy()
    out = x
    out[..., first] = a * cos - b * sin
    out[..., second] = a * sin + b * cos
    return out


def rope(q, k, v, pairing):
    T, S = q.shape[-2], k.shape[-2]
    q = rotate(q, np.arange(S - T, S), pairing)
    k = rotate(k, np.arange(S), pairing)
    return q, k, v


# %% wrong order-3 always the same base
# Your angles don't change with `base`. Long-context models use bases up to a million, so use the
# argument.
def rotate(x, at, pairing, base=10000.0):
    D = x.shape[-1]
    angle = at[:, None] * 10000.0 ** (-np.arange(0, D, 2) / D)
    cos, sin = np.cos(angle), np.sin(angle)
    if pairing == "halves":
        first, second = slice(0, D // 2), slice(D // 2, D)
    else:
        first, second = slice(0, D, 2), slice(1, D, 2)
    a, b = x[..., first], x[..., second]
    out = np.zeros_like(x)
    out[..., first] = a * cos - b * sin
    out[..., second] = a * sin + b * cos
    return out


def rope(q, k, v, pairing):
    T, S = q.shape[-2], k.shape[-2]
    q = rotate(q, np.arange(S - T, S), pairing)
    k = rotate(k, np.arange(S), pairing)
    return q, k, v


# %% [markdown]
# ## order-4: Mend a Transformer block
#
# *order-4 · 6 points · 15 minutes · ●●●○ difficulty 3 of 4*
#
# The next two cells hold two helpers that are right, `attend` and `gelu`, and a pre-norm block put
# together from faults that were found in real repositories. It runs, and it is wrong in six
# ways. Copy it into the answer cell, as `norm` and `block`, and mend it until it keeps its promise:
#
# - `x` is `[B, T, C]`, `mask` is boolean `[T, T]`, `w` holds the weights;
# - `norm` is RMSNorm: it divides **each token** by the root of the mean of its squares (10⁻⁶ is
#   added to that mean), and multiplies by a gain;
# - `x` itself is a stream that is only ever **added to**. The block adds two things: first the
#   attention of the normalised stream; then, of the stream so far, normalised with gains of its
#   own, the MLP: up, GELU, down;
# - the caller's arrays stay unchanged.
#
# Half of the points are for a case that has all of it at once.
#
# **A miniature.** If the weights `o` and `down` are all 0, both parts add nothing. What must come
# out of the block then, and what does the faulty one give?
#
# Read first: *The Transformer block* in [chapter 5](../book/05_order.ipynb).
#
# <details>
# <summary>Hint 1 for order-4: switch off what you don't test</summary>
#
# With `o` at 0 you see the MLP alone, with `down` at 0 attention alone. Then change the last token
# and see whether an earlier one notices: through how many doors could it?
#
# </details>
#
# <details>
# <summary>Hint 2 for order-4: read every line for one question</summary>
#
# For each name in the copied code ask: is this still the stream, or already a normalised copy of
# it? And for each key of `w`: is it used, and used once?
#
# </details>

# %% setup
def attend(x, w, mask):
    """Right: one head of attention, x [B, T, C], mask bool [T, T]."""
    q, k, v = x @ w["q"], x @ w["k"], x @ w["v"]
    scores = q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1])
    scores = np.where(mask, scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ v @ w["o"]


def gelu(x):
    """Right: the smooth step between two linear layers."""
    return x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


# %%
def norm_copied(x, gain):
    """Wrong: find out where, then mend it in the answer cell below."""
    mean = (x * x).mean((-2, -1), keepdims=True)
    return gain * x / np.sqrt(mean + 1e-6)


def block_copied(x, w, mask):
    """Wrong: find out where, then mend it in the answer cell below."""
    x = norm_copied(x, w["norm_1"])
    x = x + attend(x, w, np.ones_like(mask))
    x = norm_copied(x, w["norm_1"]) @ w["up"]
    return x @ w["down"]


# %% answer order-4 points=6 minutes=15 difficulty=3 forbid=attnlearn
def norm(x, gain):
    """RMSNorm: x [B, T, C], gain [C] -> [B, T, C]."""
    # BEGIN SOLUTION
    mean = (x * x).mean(-1, keepdims=True)
    return gain * x / np.sqrt(mean + 1e-6)
    # END SOLUTION


def block(x, w, mask):
    """Pre-norm block: x [B, T, C], mask bool [T, T] -> [B, T, C].

    w: norm_1, norm_2 [C], q, k, v, o [C, C], up [C, 2C], down [2C, C].
    """
    # BEGIN SOLUTION
    x = x + attend(norm(x, w["norm_1"]), w, mask)
    hidden = gelu(norm(x, w["norm_2"]) @ w["up"])
    return x + hidden @ w["down"]
    # END SOLUTION


# %% check order-4
case = check("order-4")
_causal = np.tri(4, dtype=bool)


def _weights(rng, *off):
    w = {name: rng.normal(size=(3, 3)) for name in "qkvo"}
    w |= {"norm_1": rng.uniform(0.5, 1, 3), "norm_2": rng.uniform(1.5, 2, 3)}
    w |= {"up": rng.normal(size=(3, 6)), "down": rng.normal(size=(6, 3))}
    return w | {name: 0 * w[name] for name in off}


def _x(rng):
    return np.array([1, 3, 0.003, 2])[:, None] * rng.normal(size=(1, 4, 3))


case("norm", lambda rng: norm(_x(rng), rng.uniform(1, 2, 3)))


@case("both parts switched off: x passes through")
def _(rng):
    x, w = _x(rng), _weights(rng, "o", "down")
    return block(x, w, _causal) - x


@case("the MLP switched off")
def _(rng):
    return block(_x(rng), _weights(rng, "down"), _causal)


@case("attention switched off")
def _(rng):
    return block(_x(rng), _weights(rng, "o"), _causal)


@case("every token for itself")
def _(rng):
    return block(_x(rng), _weights(rng), np.eye(4, dtype=bool))


@case("change the future, the past stays")
def _(rng):
    x, w = _x(rng), _weights(rng)
    before = block(x.copy(), w, _causal)
    x[:, 2:] += 1
    return (block(x.copy(), w, _causal) - before)[:, :2]


@case("x stays as it was")
def _(rng):
    x, w = _x(rng), _weights(rng)
    before = x.copy()
    block(x, w, _causal)
    return np.array_equal(x, before)


@case("all of it at once", weight=7)
def _(rng):
    x, w = _x(rng), _weights(rng)
    before = x.copy()
    out = block(x, w, _causal & (np.arange(4) != 1))
    return {"out": out, "x kept": np.array_equal(x, before)}


# %% hidden order-4
case = check("order-4")


@case("two examples, tiny numbers in one of them")
def _(rng):
    x = np.array([1, 1e-4])[:, None, None] * rng.normal(size=(2, 4, 3))
    return block(x, _weights(rng), _causal)


# %% right order-4 with a stream by name
def norm(x, gain):
    return x / np.sqrt(np.mean(x**2, axis=-1, keepdims=True) + 1e-6) * gain


def block(x, w, mask):
    stream = x.copy()
    stream += attend(norm(stream, w["norm_1"]), w, mask)
    stream += gelu(norm(stream, w["norm_2"]) @ w["up"]) @ w["down"]
    return stream


# %% right order-4 einsum
def norm(x, gain):
    square = np.einsum("btc,btc->bt", x, x) / x.shape[-1]
    return np.einsum("btc,bt,c->btc", x, (square + 1e-6) ** -0.5, gain)


def block(x, w, mask):
    after = x + attend(norm(x, w["norm_1"]), w, mask)
    up = np.einsum("btc,cd->btd", norm(after, w["norm_2"]), w["up"])
    return after + np.einsum("btd,dc->btc", gelu(up), w["down"])


# %% wrong order-4 as it was copied
# Nothing is mended yet. Start with the miniature: if both parts add nothing, what comes out?
def norm(x, gain):
    mean = (x * x).mean((-2, -1), keepdims=True)
    return gain * x / np.sqrt(mean + 1e-6)


def block(x, w, mask):
    x = norm(x, w["norm_1"])
    x = x + attend(x, w, np.ones_like(mask))
    x = norm(x, w["norm_1"]) @ w["up"]
    return x @ w["down"]


# %% wrong order-4 one norm over the whole text
# Your norm divides by a mean over all tokens. The size of a later token then changes an earlier
# one: a door for the future that no mask closes.
# Seen: bkitano/llama-from-scratch#4
# Seen: karpathy/minGPT#113
def norm(x, gain):
    mean = (x * x).mean((-2, -1), keepdims=True)
    return gain * x / np.sqrt(mean + 1e-6)


def block(x, w, mask):
    x = x + attend(norm(x, w["norm_1"]), w, mask)
    hidden = gelu(norm(x, w["norm_2"]) @ w["up"])
    return x + hidden @ w["down"]


# %% wrong order-4 the stream itself is normalised
# You add to a normalised copy, and the stream is lost. Pre-norm means that the copy goes into the
# part, and the part's result is added to what was there before.
# Seen: Howuhh/faster-trajectory-transformer#3
# Seen: tracel-ai/burn#1054
# Seen: SHI-Labs/Compact-Transformers#25
def norm(x, gain):
    mean = (x * x).mean(-1, keepdims=True)
    return gain * x / np.sqrt(mean + 1e-6)


def block(x, w, mask):
    x = norm(x, w["norm_1"])
    x = x + attend(x, w, mask)
    x = norm(x, w["norm_2"])
    return x + gelu(x @ w["up"]) @ w["down"]


# %% wrong order-4 the mask is forgotten
# Attention sees the whole text. A mask that is made and not handed on does nothing, and a training
# loss only looks wonderfully low.
# Seen: huggingface/transformers#48745
def norm(x, gain):
    mean = (x * x).mean(-1, keepdims=True)
    return gain * x / np.sqrt(mean + 1e-6)


def block(x, w, mask):
    x = x + attend(norm(x, w["norm_1"]), w, np.ones_like(mask))
    hidden = gelu(norm(x, w["norm_2"]) @ w["up"])
    return x + hidden @ w["down"]


# %% wrong order-4 one norm for both parts
# Both parts are normalised with the same gains. Each part has its own: look for the key of `w`
# that is never used.
# Seen: allenai/OLMo#222
# Seen: lucidrains/mmdit#4
# Seen: bentrevett/pytorch-seq2seq#100
def norm(x, gain):
    mean = (x * x).mean(-1, keepdims=True)
    return gain * x / np.sqrt(mean + 1e-6)


def block(x, w, mask):
    x = x + attend(norm(x, w["norm_1"]), w, mask)
    hidden = gelu(norm(x, w["norm_1"]) @ w["up"])
    return x + hidden @ w["down"]


# %% wrong order-4 nothing between the two linear layers
# Up and down follow each other directly. Two linear layers in a row are one linear layer: what
# belongs between them?
# Seen: nutonomy/nuscenes-devkit#728
# Seen: YujiaBao/ls#1
def norm(x, gain):
    mean = (x * x).mean(-1, keepdims=True)
    return gain * x / np.sqrt(mean + 1e-6)


def block(x, w, mask):
    x = x + attend(norm(x, w["norm_1"]), w, mask)
    hidden = norm(x, w["norm_2"]) @ w["up"]
    return x + hidden @ w["down"]


# %% wrong order-4 the MLP replaces the stream
# The MLP's result takes the place of the stream. It should be added, like that of attention.
# Seen: znxlwm/UGATIT-pytorch#32
def norm(x, gain):
    mean = (x * x).mean(-1, keepdims=True)
    return gain * x / np.sqrt(mean + 1e-6)


def block(x, w, mask):
    x = x + attend(norm(x, w["norm_1"]), w, mask)
    hidden = gelu(norm(x, w["norm_2"]) @ w["up"])
    return hidden @ w["down"]


# %% wrong order-4 attention replaces the stream
# The result of attention takes the place of the stream. It should be added to what was there.
# Seen: patverga/bran#5
def norm(x, gain):
    mean = (x * x).mean(-1, keepdims=True)
    return gain * x / np.sqrt(mean + 1e-6)


def block(x, w, mask):
    x = attend(norm(x, w["norm_1"]), w, mask)
    hidden = gelu(norm(x, w["norm_2"]) @ w["up"])
    return x + hidden @ w["down"]


# %% wrong order-4 added to itself
# You overwrite the stream with attention's result and then add that to itself. A sum needs the
# value from before.
# Seen: kyegomez/BitNet#32
def norm(x, gain):
    mean = (x * x).mean(-1, keepdims=True)
    return gain * x / np.sqrt(mean + 1e-6)


def block(x, w, mask):
    x = attend(norm(x, w["norm_1"]), w, mask)
    x = x + x
    hidden = gelu(norm(x, w["norm_2"]) @ w["up"])
    return x + hidden @ w["down"]


# %% wrong order-4 the MLP is added to the input
# You add the MLP's result to the block's input, and what attention added is lost. The stream grows
# from part to part.
# Seen: strutive07/transformer-tensorflow2.0#14
# Seen: JanSchm/CapMarket#8
def norm(x, gain):
    mean = (x * x).mean(-1, keepdims=True)
    return gain * x / np.sqrt(mean + 1e-6)


def block(x, w, mask):
    y = x + attend(norm(x, w["norm_1"]), w, mask)
    hidden = gelu(norm(y, w["norm_2"]) @ w["up"])
    return x + hidden @ w["down"]


# %% wrong order-4 both parts read the input
# Your MLP reads the block's input, not the stream after attention. Some models do it in parallel,
# but this one takes one step after the other.
# Seen: TransformerLensOrg/TransformerLens#1644
def norm(x, gain):
    mean = (x * x).mean(-1, keepdims=True)
    return gain * x / np.sqrt(mean + 1e-6)


def block(x, w, mask):
    hidden = gelu(norm(x, w["norm_2"]) @ w["up"])
    return x + attend(norm(x, w["norm_1"]), w, mask) + hidden @ w["down"]


# %% wrong order-4 norm after the sum
# You normalise the stream after each sum: that is post-norm, as in the first Transformer. Here the
# stream is never normalised, only the copy that a part reads.
# Seen: karpathy/minGPT#33
# Seen: karpathy/nanoGPT#278
def norm(x, gain):
    mean = (x * x).mean(-1, keepdims=True)
    return gain * x / np.sqrt(mean + 1e-6)


def block(x, w, mask):
    x = norm(x + attend(x, w, mask), w["norm_1"])
    return norm(x + gelu(x @ w["up"]) @ w["down"], w["norm_2"])


# %% wrong order-4 the norm comes after the part
# You normalise what a part gives, not what it reads. Large tokens then go into attention as they
# are.
# Seen: harvardnlp/annotated-transformer#110
def norm(x, gain):
    mean = (x * x).mean(-1, keepdims=True)
    return gain * x / np.sqrt(mean + 1e-6)


def block(x, w, mask):
    x = x + norm(attend(x, w, mask), w["norm_1"])
    return x + norm(gelu(x @ w["up"]) @ w["down"], w["norm_2"])


# %% wrong order-4 GELU behind the second layer
# Your GELU comes after the second linear layer. It belongs between the two, where there are 2C
# numbers.
# Seen: goruck/nilm#1
def norm(x, gain):
    mean = (x * x).mean(-1, keepdims=True)
    return gain * x / np.sqrt(mean + 1e-6)


def block(x, w, mask):
    x = x + attend(norm(x, w["norm_1"]), w, mask)
    hidden = norm(x, w["norm_2"]) @ w["up"]
    return x + gelu(hidden @ w["down"])


# %% wrong order-4 multiplied by the root
# Your norm makes large tokens larger: you multiply by the root instead of dividing. Try a token
# and its double; both should come out the same.
# Seen: mosaicml/llm-foundry#371
def norm(x, gain):
    mean = (x * x).mean(-1, keepdims=True)
    return gain * x * np.sqrt(mean + 1e-6)


def block(x, w, mask):
    x = x + attend(norm(x, w["norm_1"]), w, mask)
    hidden = gelu(norm(x, w["norm_2"]) @ w["up"])
    return x + hidden @ w["down"]


# %% wrong order-4 the small number outside the root
# You add the small number to the root. For a token of tiny entries that is not the same: it
# belongs to the mean, inside.
# Seen: allenai/OLMo#281
# Seen: NVIDIA/TransformerEngine#364
def norm(x, gain):
    mean = (x * x).mean(-1, keepdims=True)
    return gain * x / (np.sqrt(mean) + 1e-6)


def block(x, w, mask):
    x = x + attend(norm(x, w["norm_1"]), w, mask)
    hidden = gelu(norm(x, w["norm_2"]) @ w["up"])
    return x + hidden @ w["down"]


# %% wrong order-4 the small number is left out
# You left out the number that is added to the mean. A token of zeros would be divided by 0, and
# tiny tokens are blown up.
def norm(x, gain):
    mean = (x * x).mean(-1, keepdims=True)
    return gain * x / np.sqrt(mean)


def block(x, w, mask):
    x = x + attend(norm(x, w["norm_1"]), w, mask)
    hidden = gelu(norm(x, w["norm_2"]) @ w["up"])
    return x + hidden @ w["down"]


# %% wrong order-4 no root
# You divide by the mean of the squares itself. Double a token: does its norm come out the same?
def norm(x, gain):
    mean = (x * x).mean(-1, keepdims=True)
    return gain * x / (mean + 1e-6)


def block(x, w, mask):
    x = x + attend(norm(x, w["norm_1"]), w, mask)
    hidden = gelu(norm(x, w["norm_2"]) @ w["up"])
    return x + hidden @ w["down"]


# %% wrong order-4 the mean is subtracted
# You subtract the mean first, as LayerNorm does. RMSNorm leaves it in.
def norm(x, gain):
    x = x - x.mean(-1, keepdims=True)
    mean = (x * x).mean(-1, keepdims=True)
    return gain * x / np.sqrt(mean + 1e-6)


def block(x, w, mask):
    x = x + attend(norm(x, w["norm_1"]), w, mask)
    hidden = gelu(norm(x, w["norm_2"]) @ w["up"])
    return x + hidden @ w["down"]


# %% wrong order-4 written into the caller's x
# You add into the caller's own array. `x += ...` changes what the caller holds; make a new array.
def norm(x, gain):
    mean = (x * x).mean(-1, keepdims=True)
    return gain * x / np.sqrt(mean + 1e-6)


def block(x, w, mask):
    x += attend(norm(x, w["norm_1"]), w, mask)
    hidden = gelu(norm(x, w["norm_2"]) @ w["up"])
    return x + hidden @ w["down"]


# %% wrong order-4 causal, whatever the mask
# Your block makes a causal mask of its own. The caller's mask says who may look: hand it on.
def norm(x, gain):
    mean = (x * x).mean(-1, keepdims=True)
    return gain * x / np.sqrt(mean + 1e-6)


def block(x, w, mask):
    x = x + attend(norm(x, w["norm_1"]), w, np.tri(x.shape[1], dtype=bool))
    hidden = gelu(norm(x, w["norm_2"]) @ w["up"])
    return x + hidden @ w["down"]


# %% wrong order-4 the MLP reads the raw stream
# Your MLP reads the stream as it is. It has a norm of its own, and `w` has the gains for it.
def norm(x, gain):
    mean = (x * x).mean(-1, keepdims=True)
    return gain * x / np.sqrt(mean + 1e-6)


def block(x, w, mask):
    x = x + attend(norm(x, w["norm_1"]), w, mask)
    hidden = gelu(x @ w["up"])
    return x + hidden @ w["down"]


# %% wrong order-4 divided by the length
# You divide by the root of the *sum* of squares. RMSNorm takes the mean: a wider token is not
# smaller.
def norm(x, gain):
    mean = (x * x).sum(-1, keepdims=True)
    return gain * x / np.sqrt(mean + 1e-6)


def block(x, w, mask):
    x = x + attend(norm(x, w["norm_1"]), w, mask)
    hidden = gelu(norm(x, w["norm_2"]) @ w["up"])
    return x + hidden @ w["down"]


# %% [markdown]
# ## order-5: Move weights from one pairing to the other
#
# *order-5 · 4 points · 11 minutes · ●●●○ difficulty 3 of 4*
#
# Meta published Llama's weights for RoPE with neighbours; the library transformers turns halves.
# The two fit together because a script re-orders **rows of the weights**, once, so that every
# score stays as it was. Write that step.
#
# `convert(layer, heads, kv_heads)` gets a dictionary of arrays, made for `"neighbours"`:
#
# | key | shape | what it is |
# |---|---|---|
# | `q`, `q_bias` | `[heads · D, C]`, `[heads · D]` | `heads` query heads, one after the other |
# | `k`, `k_bias` | `[kv_heads · D, C]`, `[kv_heads · D]` | `kv_heads` key heads, likewise |
# | `v` | `[kv_heads · D, C]` | the values |
# | `o` | `[C, heads · D]` | the output projection |
#
# A query is `x @ q.T + q_bias`, so row r of `q` makes entry r. Return a **new** dictionary with the
# same keys whose scores with `"halves"` equal the old scores with `"neighbours"`. The dictionary
# and the arrays that were handed in stay as they are.
#
# **A miniature.** One head, D = 4: rows a, b, c, d make the pairs (a, b) and (c, d). In halves,
# pairs are entries (0, 2) and (1, 3), so the new order is a, c, b, d.
#
# Half of the points are for a case with everything at once.
# Read first: *Two pairings that do not mix* in [chapter 5](../book/05_order.ipynb).
#
# <details>
# <summary>Hint 1 for order-5: don't test with D = 4</summary>
#
# With four rows, doing and undoing the move look the same. Write down the new order for D = 6, with
# pairs (a, b), (c, d), (e, f), before you write code.
#
# </details>
#
# <details>
# <summary>Hint 2 for order-5: who feels it?</summary>
#
# Entries of q meet entries of k, one by one. Whatever takes part in that product has to move, and
# nothing else. How many heads does each of the two have?
#
# </details>


# %% answer order-5 points=4 minutes=11 difficulty=3 forbid=attnlearn
def convert(layer, heads, kv_heads):
    """Weights for "neighbours" -> a new dict, same keys, for "halves"."""
    # BEGIN SOLUTION
    def move(rows, heads):
        pairs = rows.reshape(heads, len(rows) // heads // 2, 2, -1)
        return pairs.swapaxes(1, 2).reshape(rows.shape)

    new = dict(layer)
    for name in ("q", "q_bias"):
        new[name] = move(layer[name], heads)
    for name in ("k", "k_bias"):
        new[name] = move(layer[name], kv_heads)
    return new
    # END SOLUTION


# %% check order-5
case = check("order-5")


def _layer(rng, heads, kv_heads, D=8, C=2):
    q, k = heads * D, kv_heads * D
    shapes = {"q": (q, C), "k": (k, C), "v": (k, C), "o": (C, q)}
    shapes |= {"q_bias": (q,), "k_bias": (k,)}
    return {name: rng.normal(size=shape) for name, shape in shapes.items()}


def _turn(x, pairing):  # [H, T, D]
    D = x.shape[-1]
    angle = np.arange(x.shape[1])[:, None] * 100.0 ** (-np.arange(0, D, 2) / D)
    cut = (2, D // 2) if pairing == "halves" else (D // 2, 2)
    axis = -2 if pairing == "halves" else -1
    a, b = np.moveaxis(x.reshape(*x.shape[:2], *cut), axis, 0)
    z = (a + 1j * b) * np.exp(1j * angle)
    return np.stack([z.real, z.imag], axis).reshape(x.shape)


def _scores(layer, x, heads, kv_heads, pairing):
    q = (x @ layer["q"].T + layer["q_bias"]).reshape(len(x), heads, -1)
    k = (x @ layer["k"].T + layer["k_bias"]).reshape(len(x), kv_heads, -1)
    q, k = (_turn(y.swapaxes(0, 1), pairing) for y in (q, k))
    return q @ np.repeat(k, heads // kv_heads, 0).swapaxes(1, 2)


def _same_scores(rng, heads, kv_heads, D=8):
    layer, x = _layer(rng, heads, kv_heads, D), rng.normal(size=(3, 2))
    new = convert(layer, heads, kv_heads)
    after = _scores(new, x, heads, kv_heads, "halves")
    return after - _scores(layer, x, heads, kv_heads, "neighbours")


case("q of one head", lambda rng: convert(_layer(rng, 1, 1), 1, 1)["q"])


@case("q of two heads, k of one")
def _(rng):
    new = convert(_layer(rng, 2, 1, C=1), 2, 1)
    return {name: new[name] for name in "qk"}


@case("the biases")
def _(rng):
    new = convert(_layer(rng, 2, 1, D=6), 2, 1)
    return {name: new[name] for name in ("q_bias", "k_bias")}


@case("values and output projection")
def _(rng):
    new = convert(_layer(rng, 1, 1, D=6), 1, 1)
    return {name: new[name] for name in ("v", "o")}


case("equal scores, 2 heads", lambda rng: _same_scores(rng, 2, 2))
case("equal scores, 4 and 2 heads", lambda rng: _same_scores(rng, 4, 2))


@case("what was handed in stays as it was")
def _(rng):
    layer = _layer(rng, 2, 1)
    before = {name: array.copy() for name, array in layer.items()}
    convert(layer, 2, 1)
    return {name: np.array_equal(layer[name], before[name]) for name in before}


@case("all of it at once", weight=7)
def _(rng):
    layer = _layer(rng, 2, 1, C=1)
    before = {name: array.copy() for name, array in layer.items()}
    new = convert(layer, 2, 1)
    kept = all(np.array_equal(layer[name], before[name]) for name in before)
    return {"kept": kept, **{name: new[name] for name in sorted(before)}}


# %% hidden order-5
case = check("order-5")
case("equal scores, width 10", lambda rng: _same_scores(rng, 3, 1, D=10))


# %% right order-5 even rows, then odd rows
def convert(layer, heads, kv_heads):
    new = {name: array.copy() for name, array in layer.items()}
    for name, n in {"q": heads, "q_bias": heads, "k": kv_heads, "k_bias": kv_heads}.items():
        split = np.split(layer[name], n)
        new[name] = np.concatenate([half for h in split for half in (h[0::2], h[1::2])])
    return new


# %% right order-5 with a list of row numbers
def convert(layer, heads, kv_heads):
    D = len(layer["q"]) // heads
    order = [*range(0, D, 2), *range(1, D, 2)]
    rows_q = [h * D + i for h in range(heads) for i in order]
    rows_k = [h * D + i for h in range(kv_heads) for i in order]
    moved = {"q": rows_q, "q_bias": rows_q, "k": rows_k, "k_bias": rows_k}
    return {n: a[moved[n]] if n in moved else a for n, a in layer.items()}


# %% right order-5 einsum
def convert(layer, heads, kv_heads):
    def move(rows, heads):
        pairs = rows.reshape(heads, len(rows) // heads // 2, 2, -1)
        return np.einsum("hdpc->hpdc", pairs).reshape(rows.shape)

    new = layer.copy()
    new["q"], new["q_bias"] = move(layer["q"], heads), move(layer["q_bias"], heads)
    new["k"], new["k_bias"] = move(layer["k"], kv_heads), move(layer["k_bias"], kv_heads)
    return new


# %% wrong order-5 nothing is moved
# All weights come out as they went in, so the model turns other pairs than it was trained with. No
# error will tell you.
# Seen: huggingface/nanotron#427
def convert(layer, heads, kv_heads):
    def move(rows, heads):
        return rows.copy()

    new = dict(layer)
    for name in ("q", "q_bias"):
        new[name] = move(layer[name], heads)
    for name in ("k", "k_bias"):
        new[name] = move(layer[name], kv_heads)
    return new


# %% wrong order-5 the move undone
# You moved the rows from halves to neighbours: the opposite. With D = 4 the two are the same, so a
# test with four rows can't see it.
# Seen: onnxruntime/mobius#396
def convert(layer, heads, kv_heads):
    def move(rows, heads):
        pairs = rows.reshape(heads, 2, len(rows) // heads // 2, -1)
        return pairs.swapaxes(1, 2).reshape(rows.shape)

    new = dict(layer)
    for name in ("q", "q_bias"):
        new[name] = move(layer[name], heads)
    for name in ("k", "k_bias"):
        new[name] = move(layer[name], kv_heads)
    return new


# %% wrong order-5 keys moved as if they had the queries' heads
# You cut the keys into as many heads as the queries have. With grouped heads there are fewer, so
# your heads of keys are too narrow.
# Seen: huggingface/transformers#31788
# Seen: Dao-AILab/flash-attention#546
def convert(layer, heads, kv_heads):
    def move(rows, heads):
        pairs = rows.reshape(heads, len(rows) // heads // 2, 2, -1)
        return pairs.swapaxes(1, 2).reshape(rows.shape)

    new = dict(layer)
    for name in ("q", "q_bias"):
        new[name] = move(layer[name], heads)
    for name in ("k", "k_bias"):
        new[name] = move(layer[name], heads)
    return new


# %% wrong order-5 all heads moved as one
# You moved the rows as if there were one wide head, and rows of different heads got mixed. Every
# head is moved for itself.
def convert(layer, heads, kv_heads):
    def move(rows, heads):
        pairs = rows.reshape(heads, len(rows) // heads // 2, 2, -1)
        return pairs.swapaxes(1, 2).reshape(rows.shape)

    new = dict(layer)
    for name in ("q", "q_bias"):
        new[name] = move(layer[name], 1)
    for name in ("k", "k_bias"):
        new[name] = move(layer[name], 1)
    return new


# %% wrong order-5 head numbers change fastest
# You read the rows as if neighbouring rows belonged to different heads. The heads lie one after
# the other: first all rows of head 0.
def convert(layer, heads, kv_heads):
    def move(rows, heads):
        pairs = rows.reshape(len(rows) // heads // 2, 2, heads, -1)
        return pairs.swapaxes(0, 1).reshape(rows.shape)

    new = dict(layer)
    for name in ("q", "q_bias"):
        new[name] = move(layer[name], heads)
    for name in ("k", "k_bias"):
        new[name] = move(layer[name], kv_heads)
    return new


# %% wrong order-5 the values are moved, too
# You moved the values as well. RoPE never turns them, and the output projection expects them where
# they were.
def convert(layer, heads, kv_heads):
    def move(rows, heads):
        pairs = rows.reshape(heads, len(rows) // heads // 2, 2, -1)
        return pairs.swapaxes(1, 2).reshape(rows.shape)

    new = dict(layer)
    for name in ("q", "q_bias"):
        new[name] = move(layer[name], heads)
    for name in ("k", "k_bias"):
        new[name] = move(layer[name], kv_heads)
    new["v"] = move(layer["v"], kv_heads)
    return new


# %% wrong order-5 the output projection is moved, too
# You moved the output projection as well. It reads values, and those stay where they are.
def convert(layer, heads, kv_heads):
    def move(rows, heads):
        pairs = rows.reshape(heads, len(rows) // heads // 2, 2, -1)
        return pairs.swapaxes(1, 2).reshape(rows.shape)

    new = dict(layer)
    for name in ("q", "q_bias"):
        new[name] = move(layer[name], heads)
    for name in ("k", "k_bias"):
        new[name] = move(layer[name], kv_heads)
    new["o"] = move(layer["o"].T, heads).T
    return new


# %% wrong order-5 the biases stay behind
# The rows moved and the biases did not. A bias belongs to its row: Llama has none, but Qwen has.
# Seen: vllm-project/vllm#55335
def convert(layer, heads, kv_heads):
    def move(rows, heads):
        pairs = rows.reshape(heads, len(rows) // heads // 2, 2, -1)
        return pairs.swapaxes(1, 2).reshape(rows.shape)

    new = dict(layer)
    for name in ("q",):
        new[name] = move(layer[name], heads)
    for name in ("k",):
        new[name] = move(layer[name], kv_heads)
    return new


# %% wrong order-5 only the queries are moved
# You moved the queries alone. Entry by entry they are multiplied with the keys, which still lie in
# the old order.
def convert(layer, heads, kv_heads):
    def move(rows, heads):
        pairs = rows.reshape(heads, len(rows) // heads // 2, 2, -1)
        return pairs.swapaxes(1, 2).reshape(rows.shape)

    new = dict(layer)
    for name in ("q", "q_bias"):
        new[name] = move(layer[name], heads)
    return new


# %% wrong order-5 the second members come first
# Each of your pairs stands the wrong way round: the second members come first. Then every pair
# turns backwards.
def convert(layer, heads, kv_heads):
    def move(rows, heads):
        pairs = rows.reshape(heads, len(rows) // heads // 2, 2, -1)
        return pairs[:, :, ::-1].swapaxes(1, 2).reshape(rows.shape)

    new = dict(layer)
    for name in ("q", "q_bias"):
        new[name] = move(layer[name], heads)
    for name in ("k", "k_bias"):
        new[name] = move(layer[name], kv_heads)
    return new


# %% wrong order-5 moved twice
# You moved the rows twice. If a file was converted already, converting it again spoils it; here
# once is right.
def convert(layer, heads, kv_heads):
    def move(rows, heads):
        for _ in range(2):
            pairs = rows.reshape(heads, len(rows) // heads // 2, 2, -1)
            rows = pairs.swapaxes(1, 2).reshape(rows.shape)
        return rows

    new = dict(layer)
    for name in ("q", "q_bias"):
        new[name] = move(layer[name], heads)
    for name in ("k", "k_bias"):
        new[name] = move(layer[name], kv_heads)
    return new


# %% wrong order-5 the halves exchanged
# You exchanged the two halves of every head. That is no change of pairing: which two rows made a
# pair before?
def convert(layer, heads, kv_heads):
    def move(rows, heads):
        cut = rows.reshape(heads, 2, len(rows) // heads // 2, -1)
        return cut[:, ::-1].reshape(rows.shape)

    new = dict(layer)
    for name in ("q", "q_bias"):
        new[name] = move(layer[name], heads)
    for name in ("k", "k_bias"):
        new[name] = move(layer[name], kv_heads)
    return new


# %% wrong order-5 the other weights get lost
# Your dictionary holds only what you moved. The rest of the layer has to come along unchanged.
def convert(layer, heads, kv_heads):
    def move(rows, heads):
        pairs = rows.reshape(heads, len(rows) // heads // 2, 2, -1)
        return pairs.swapaxes(1, 2).reshape(rows.shape)

    new = {}
    for name in ("q", "q_bias"):
        new[name] = move(layer[name], heads)
    for name in ("k", "k_bias"):
        new[name] = move(layer[name], kv_heads)
    return new


# %% wrong order-5 written into what was handed in
# You put the new weights into the caller's own dictionary. Converting once more would then move
# them a second time: return a new one.
def convert(layer, heads, kv_heads):
    def move(rows, heads):
        pairs = rows.reshape(heads, len(rows) // heads // 2, 2, -1)
        return pairs.swapaxes(1, 2).reshape(rows.shape)

    new = layer
    for name in ("q", "q_bias"):
        new[name] = move(layer[name], heads)
    for name in ("k", "k_bias"):
        new[name] = move(layer[name], kv_heads)
    return new


# %% [markdown]
# ## order-6: ALiBi with one more entry in q and k
#
# *order-6 · 5 points · 13 minutes · ●●●● difficulty 4 of 4*
#
# ALiBi has no position vectors: from the scaled score of the query at i and the key at j, head h
# takes away its slope times the distance, mₕ · (i − j). A fused kernel often has no place for
# such a term. It needs none: **one more entry** in every query and every key does the same. Write
#
# - `slopes(heads)`: the slopes of all heads, float `[heads]`, for a number of heads that is a power
#   of two. They form a geometric ladder: the first is 2^(−8/heads), and that is also the ratio from
#   each to the next, so the last is 1/256;
# - `alibi(q, k)`: `q` is `[B, H, T, D]`, `k` is `[B, Hk, S, D]`, with `Hk` equal to `H` or less
#   (grouped heads). Return a longer `q` `[B, H, T, D + 1]` and a longer `k` `[B, Hk, S, D + 1]`,
#   the new entry last.
#
# The check then runs causal attention on them, with keys at positions 0 to S − 1 and the queries
# the newest `T`. Its **scale stays 1/√D**, with the old D, and multiplies your new entries, too.
# The weights must be those of ALiBi.
#
# **A miniature.** For one query, scores 3, 4, 5 and scores 13, 14, 15 give the same softmax.
#
# Half of the points are for a case with everything at once.
# Read first: *ALiBi is one extra dimension* in [chapter 5](../book/05_order.ipynb).
#
# <details>
# <summary>Hint 1 for order-6: split the distance</summary>
#
# −m (i − j) has two parts. One is the same for all keys of a query: what does a softmax do with it?
# The other part is a product of something that the head knows and something that the key knows.
#
# </details>
#
# <details>
# <summary>Hint 2 for order-6: the scale reaches everything</summary>
#
# The product of your two new entries is multiplied by the scale together with the rest. What must
# it be so that exactly m · j is left? And when four heads share a key, which side has to carry the
# slope?
#
# </details>


# %% answer order-6 points=5 minutes=13 difficulty=4 forbid=attnlearn
def slopes(heads):
    """ALiBi's slopes for a power of two: float [heads], the steepest first."""
    # BEGIN SOLUTION
    return 2.0 ** (-8 / heads * np.arange(1, heads + 1))
    # END SOLUTION


def alibi(q, k):
    """q [B, H, T, D], k [B, Hk, S, D] -> the same, both with one more entry."""
    # BEGIN SOLUTION
    heads, D = q.shape[1], q.shape[3]
    slope = slopes(heads)[:, None, None] * np.sqrt(D)
    slope = np.broadcast_to(slope, (*q.shape[:3], 1))
    at = np.arange(k.shape[2])[:, None]
    at = np.broadcast_to(at, (*k.shape[:3], 1))
    return np.concatenate([q, slope], -1), np.concatenate([k, at], -1)
    # END SOLUTION


# %% check order-6
case = check("order-6")


def _qk(rng, H=2, Hk=2, T=3, S=3, D=4):
    return rng.normal(size=(1, H, T, D)), rng.normal(size=(1, Hk, S, D))


def _weights(q, k):
    """Causal attention weights after alibi, with the scale of the old width."""
    (H, T, D), (Hk, S, _) = q.shape[1:], k.shape[1:]
    q, k = alibi(q, k)
    k = np.repeat(k, H // Hk, 1)
    scores = q @ np.swapaxes(k, -1, -2) / np.sqrt(D)
    scores = np.where(np.tri(T, S, S - T, dtype=bool), scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


case("slopes of 8 heads", lambda: slopes(8))
case("slopes of 2 and 16 heads", lambda: [slopes(2), slopes(16)])


@case("one more entry, the others as they were")
def _(rng):
    q, k = _qk(rng, S=5)
    new_q, new_k = alibi(q, k)
    pairs = (new_q[..., :4], q), (new_k[..., :4], k)
    kept = [np.array_equal(new, old) for new, old in pairs]
    return {"q": new_q.shape, "k": new_k.shape, "kept": kept}


case("weights, 2 heads", lambda rng: _weights(*_qk(rng)))
case("decoding: 1 query, 6 keys", lambda rng: _weights(*_qk(rng, T=1, S=6)))
case("another width", lambda rng: _weights(*_qk(rng, D=9)))


@case("4 heads share 2 heads of keys")
def _(rng):
    return _weights(*_qk(rng, H=4, Hk=2, T=2, S=4))


@case("all of it at once", weight=7)
def _(rng):
    q, k = _qk(rng, H=4, Hk=2, T=2, S=5, D=6)
    widths = [x.shape[-1] for x in alibi(q, k)]
    return {"slopes": slopes(4), "widths": widths, "weights": _weights(q, k)}


# %% hidden order-6
case = check("order-6")


@case("a chunk, 8 heads share one head of keys")
def _(rng):
    return _weights(*_qk(rng, H=8, Hk=1, T=2, S=4, D=3))


# %% right order-6 positions counted back from the last key
def slopes(heads):
    ratio = 2 ** (-8 / heads)
    return np.array([ratio * ratio**h for h in range(heads)])


def alibi(q, k):
    B, H, T, D = q.shape
    S = k.shape[2]
    longer_q = np.zeros((B, H, T, D + 1))
    longer_q[..., :D] = q
    for h, slope in enumerate(slopes(H)):
        longer_q[:, h, :, D] = slope * D**0.5
    longer_k = np.zeros((*k.shape[:3], D + 1))
    longer_k[..., :D] = k
    longer_k[..., D] = np.arange(S) - (S - 1)
    return longer_q, longer_k


# %% right order-6 the scale on the side of the keys
def slopes(heads):
    return np.geomspace(2 ** (-8 / heads), 1 / 256, heads)


def alibi(q, k):
    slope = np.zeros_like(q[..., :1]) + slopes(q.shape[1])[:, None, None]
    at = np.zeros_like(k[..., :1]) + np.arange(k.shape[2])[:, None]
    return np.append(q, slope, axis=-1), np.append(k, at * np.sqrt(q.shape[-1]), axis=-1)


# %% wrong order-6 the slopes start at 1
# Your ladder starts at 1. Its first rung is already the ratio, and its last is 1/256: count the
# heads from 1.
# Seen: paiml/aprender#2143
def slopes(heads):
    return 2.0 ** (-8 / heads * np.arange(heads))


def alibi(q, k):
    heads, D = q.shape[1], q.shape[3]
    slope = slopes(heads)[:, None, None] * np.sqrt(D)
    slope = np.broadcast_to(slope, (*q.shape[:3], 1))
    at = np.arange(k.shape[2])[:, None]
    at = np.broadcast_to(at, (*k.shape[:3], 1))
    return np.concatenate([q, slope], -1), np.concatenate([k, at], -1)


# %% wrong order-6 far keys are rewarded
# Your weights prefer far keys: the sign is turned. Which of two keys should the new entry favour,
# the one with the larger position or the one with the smaller?
# Seen: meta-pytorch/attention-gym#86
def slopes(heads):
    return 2.0 ** (-8 / heads * np.arange(1, heads + 1))


def alibi(q, k):
    heads, D = q.shape[1], q.shape[3]
    slope = slopes(heads)[:, None, None] * np.sqrt(D)
    slope = np.broadcast_to(slope, (*q.shape[:3], 1))
    at = -np.arange(k.shape[2])[:, None]
    at = np.broadcast_to(at, (*k.shape[:3], 1))
    return np.concatenate([q, slope], -1), np.concatenate([k, at], -1)


# %% wrong order-6 the scale is forgotten
# Your penalty comes out too small, by the root of D. Attention multiplies the whole product by its
# scale, the new entry included.
# Seen: NVIDIA/TensorRT-Model-Connect#32
def slopes(heads):
    return 2.0 ** (-8 / heads * np.arange(1, heads + 1))


def alibi(q, k):
    heads = q.shape[1]
    slope = slopes(heads)[:, None, None]
    slope = np.broadcast_to(slope, (*q.shape[:3], 1))
    at = np.arange(k.shape[2])[:, None]
    at = np.broadcast_to(at, (*k.shape[:3], 1))
    return np.concatenate([q, slope], -1), np.concatenate([k, at], -1)


# %% wrong order-6 scaled a second time
# Your penalty comes out too small, by D. The scale divides by the root of D anyway: your entry has
# to make up for it, not add to it.
def slopes(heads):
    return 2.0 ** (-8 / heads * np.arange(1, heads + 1))


def alibi(q, k):
    heads, D = q.shape[1], q.shape[3]
    slope = slopes(heads)[:, None, None] / np.sqrt(D)
    slope = np.broadcast_to(slope, (*q.shape[:3], 1))
    at = np.arange(k.shape[2])[:, None]
    at = np.broadcast_to(at, (*k.shape[:3], 1))
    return np.concatenate([q, slope], -1), np.concatenate([k, at], -1)


# %% wrong order-6 the root of the new width
# You made up for the root of D + 1. Attention keeps the scale of the old width.
def slopes(heads):
    return 2.0 ** (-8 / heads * np.arange(1, heads + 1))


def alibi(q, k):
    heads, D = q.shape[1], q.shape[3]
    slope = slopes(heads)[:, None, None] * np.sqrt(D + 1)
    slope = np.broadcast_to(slope, (*q.shape[:3], 1))
    at = np.arange(k.shape[2])[:, None]
    at = np.broadcast_to(at, (*k.shape[:3], 1))
    return np.concatenate([q, slope], -1), np.concatenate([k, at], -1)


# %% wrong order-6 the slopes of 8 heads for any number
# Your ratio is always a half. That is right for 8 heads; with fewer the ladder is steeper, with
# more it is flatter, and it always ends at 1/256.
def slopes(heads):
    return 2.0 ** -np.arange(1, heads + 1)


def alibi(q, k):
    heads, D = q.shape[1], q.shape[3]
    slope = slopes(heads)[:, None, None] * np.sqrt(D)
    slope = np.broadcast_to(slope, (*q.shape[:3], 1))
    at = np.arange(k.shape[2])[:, None]
    at = np.broadcast_to(at, (*k.shape[:3], 1))
    return np.concatenate([q, slope], -1), np.concatenate([k, at], -1)


# %% wrong order-6 evenly spaced slopes
# Your slopes are evenly spaced. They should form a geometric ladder, each a fixed fraction of the
# one before.
def slopes(heads):
    return np.arange(heads, 0, -1) / heads / 2


def alibi(q, k):
    heads, D = q.shape[1], q.shape[3]
    slope = slopes(heads)[:, None, None] * np.sqrt(D)
    slope = np.broadcast_to(slope, (*q.shape[:3], 1))
    at = np.arange(k.shape[2])[:, None]
    at = np.broadcast_to(at, (*k.shape[:3], 1))
    return np.concatenate([q, slope], -1), np.concatenate([k, at], -1)


# %% wrong order-6 one slope for all heads
# All your heads have the same slope. It is the variety that lets one head look near and another
# far.
def slopes(heads):
    return np.full(heads, 2.0 ** (-8 / heads))


def alibi(q, k):
    heads, D = q.shape[1], q.shape[3]
    slope = slopes(heads)[:, None, None] * np.sqrt(D)
    slope = np.broadcast_to(slope, (*q.shape[:3], 1))
    at = np.arange(k.shape[2])[:, None]
    at = np.broadcast_to(at, (*k.shape[:3], 1))
    return np.concatenate([q, slope], -1), np.concatenate([k, at], -1)


# %% wrong order-6 the last head is the steepest
# Your slopes come in the reverse order. The first head has the steepest slope.
def slopes(heads):
    return 2.0 ** (-8 / heads * np.arange(heads, 0, -1))


def alibi(q, k):
    heads, D = q.shape[1], q.shape[3]
    slope = slopes(heads)[:, None, None] * np.sqrt(D)
    slope = np.broadcast_to(slope, (*q.shape[:3], 1))
    at = np.arange(k.shape[2])[:, None]
    at = np.broadcast_to(at, (*k.shape[:3], 1))
    return np.concatenate([q, slope], -1), np.concatenate([k, at], -1)


# %% wrong order-6 the slope on the side of the keys
# You put the slopes into the keys. With grouped heads several query heads share one key, and then
# it can't hold all their slopes.
def slopes(heads):
    return 2.0 ** (-8 / heads * np.arange(1, heads + 1))


def alibi(q, k):
    heads, D = k.shape[1], q.shape[3]
    at = np.arange(k.shape[2])[:, None] * slopes(heads)[:, None, None]
    at = np.broadcast_to(at, (*k.shape[:3], 1))
    root = np.full((*q.shape[:3], 1), np.sqrt(D))
    return np.concatenate([q, root], -1), np.concatenate([k, at], -1)


# %% wrong order-6 two more entries
# Your weights are right with two more entries. One of the two is the same for all keys of a query:
# what does the softmax do with it?
# Seen: NVIDIA-NeMo/Speech#7105
def slopes(heads):
    return 2.0 ** (-8 / heads * np.arange(1, heads + 1))


def alibi(q, k):
    heads, T, D = q.shape[1:]
    S = k.shape[2]
    slope = slopes(heads)[:, None, None] * np.sqrt(D)
    i = np.arange(S - T, S)[:, None]
    pair = np.concatenate([slope + 0 * i, -slope * i], -1)
    pair = np.broadcast_to(pair, (*q.shape[:3], 2))
    at = np.stack([np.arange(S), np.ones(S)], -1)
    at = np.broadcast_to(at, (*k.shape[:3], 2))
    return np.concatenate([q, pair], -1), np.concatenate([k, at], -1)


# %% wrong order-6 positions multiplied
# You put positions on both sides, and they were multiplied: slope · i · j. A distance is a
# difference; which of its two parts does the softmax need?
def slopes(heads):
    return 2.0 ** (-8 / heads * np.arange(1, heads + 1))


def alibi(q, k):
    heads, D = q.shape[1], q.shape[3]
    slope = slopes(heads)[:, None, None] * np.sqrt(D)
    S, T = k.shape[2], q.shape[2]
    slope = slope * np.arange(S - T, S)[:, None]
    slope = np.broadcast_to(slope, (*q.shape[:3], 1))
    at = np.arange(k.shape[2])[:, None]
    at = np.broadcast_to(at, (*k.shape[:3], 1))
    return np.concatenate([q, slope], -1), np.concatenate([k, at], -1)


# %% wrong order-6 an entry is overwritten
# The last entry of q and k is gone: you wrote over it. There must be one more entry than before.
def slopes(heads):
    return 2.0 ** (-8 / heads * np.arange(1, heads + 1))


def alibi(q, k):
    heads, D = q.shape[1], q.shape[3]
    slope = slopes(heads)[:, None, None] * np.sqrt(D)
    slope = np.broadcast_to(slope, (*q.shape[:3], 1))
    at = np.arange(k.shape[2])[:, None]
    at = np.broadcast_to(at, (*k.shape[:3], 1))
    return np.append(q[..., :-1], slope, -1), np.append(k[..., :-1], at, -1)


# %% wrong order-6 the slopes laid along the queries
# You gave every query a slope and not every head. In `[B, H, T, D]`, which axis counts the heads?
def slopes(heads):
    return 2.0 ** (-8 / heads * np.arange(1, heads + 1))


def alibi(q, k):
    T, D = q.shape[2:]
    slope = slopes(T)[:, None] * np.sqrt(D)
    slope = np.broadcast_to(slope, (*q.shape[:3], 1))
    at = np.arange(k.shape[2])[:, None]
    at = np.broadcast_to(at, (*k.shape[:3], 1))
    return np.concatenate([q, slope], -1), np.concatenate([k, at], -1)


# %% [markdown]
# ## order-7: Write the check
#
# *order-7 · 5 points · 13 minutes · ●●●○ difficulty 3 of 4*
#
# Now you are the one who checks, without a right answer to compare with. Two **properties** are
# enough to find many faults. You get a *function* that somebody else wrote, `layer(x)`: `x` is
# `[T, C]`, one row per token, for any `T`, and the result is of the same shape. Write
#
# - `is_causal(layer)`: change the future, and the past must not move. `True` if no output ever
#   depends on a **later** token;
# - `ignores_order(layer)`: shuffle the tokens, and the outputs are shuffled in the same way, with
#   no other change. `True` if that holds for every order (the layer is *equivariant*).
#
# Rules of the game:
#
# - Right layers may round differently from call to call, by about 10⁻¹⁵. Wrong ones may leak only
#   a little: a thousandth, say.
# - A layer that raises an error has neither property: return `False`, don't let the error through.
# - Judge only by calling, with texts that you choose. Up to 12 tokens of width 4 are enough,
#   drawn at random.
#
# **A miniature.** `lambda x: x[::-1]` hands the first token the last one: not causal. It doesn't
# ignore the order either, although reversing the text does reverse its output.
#
# The check cell hands you one right and one wrong layer at a time: you need both verdicts. Half of
# the points are for judging all of them rightly.
# Read first: *Attention without positions is a set function* and *The Transformer block* in
# [chapter 5](../book/05_order.ipynb).
#
# <details>
# <summary>Hint 1 for order-7: where does the future begin?</summary>
#
# A leak may sit anywhere: only at the start, only at the end, only from five tokens ahead. How many
# places are there at which a text can be cut into past and future?
#
# </details>
#
# <details>
# <summary>Hint 2 for order-7: which orders give nothing away?</summary>
#
# Some layers survive being reversed, some survive being moved round in a circle. A random order is
# neither. And take care which of the two outputs you put into the new order.
#
# </details>


# %% answer order-7 points=5 minutes=13 difficulty=3 forbid=attnlearn
def is_causal(layer):
    """layer [T, C] -> [T, C]: does no output depend on a later token?"""
    # BEGIN SOLUTION
    rng = np.random.default_rng(0)
    x = rng.normal(size=(12, 4))
    try:
        before = layer(x.copy())
        for t in range(1, 12):
            changed = x.copy()
            changed[t:] = rng.normal(size=(12 - t, 4))
            if not np.allclose(layer(changed)[:t], before[:t]):
                return False
    except Exception:
        return False
    return True
    # END SOLUTION


def ignores_order(layer):
    """layer [T, C] -> [T, C]: are the outputs shuffled with the tokens?"""
    # BEGIN SOLUTION
    rng = np.random.default_rng(0)
    x = rng.normal(size=(12, 4))
    try:
        for _ in range(5):
            order = rng.permutation(12)
            if not np.allclose(layer(x[order]), layer(x.copy())[order]):
                return False
    except Exception:
        return False
    return True
    # END SOLUTION


# %% check order-7
case = check("order-7")


def _attend(x, bias=0.0):
    scores = x @ x.T / 2 + bias
    top = scores.max(1, keepdims=True) + np.sin(scores.max())  # cancels, but for its rounding
    weights = np.exp(scores - top)
    return weights / weights.sum(1, keepdims=True) @ x


def _back(x):
    return np.subtract.outer(np.arange(len(x)), np.arange(len(x)))


def _causal(x, far=0):
    return _attend(x, np.where(_back(x) >= far, 0, -np.inf))


def _causal_too(x):
    counts = np.arange(1, len(x) + 1)[:, None]
    return x + x.cumsum(0) / counts + np.sin(counts)


def _no_mask(x):
    return _attend(x)


def _one_ahead(x):
    return _causal(x, -1)


def _blocks_of_4(x):
    block = np.arange(len(x)) // 4
    return _attend(x, np.where(block[:, None] >= block, 0, -np.inf))


def _norm_of_the_text(x):
    return _causal(x / np.sqrt((x * x).mean()))


def _five_ahead(x):
    out = _causal(x)
    out[:-5] += x[5:] / 4
    return out


def _first_sees_second(x):
    out = _causal(x)
    out[:1] += x[1:2]
    return out


def _last_but_one_sees_last(x):
    out = _causal(x)
    out[-2:-1] += x[-1:]
    return out


def _leaks_a_thousandth(x):
    return _causal(x) + x.mean(0) / 1000


def _set(x):
    return _attend(x)


def _set_too(x):
    return np.tanh(x - x.mean(0)) + x.max(0)


def _sines(x):
    angle = np.arange(len(x))[:, None] / np.array([1, 1, 100, 100])
    return _attend(x + np.sin(angle))


def _distances(x):
    return _attend(x, -abs(_back(x)) / 2)


def _circle(x):
    return x + np.roll(x, 1, 0) / 2


def _sorted(x):
    return x[np.argsort(x[:, 0])]


def _last_is_special(x):
    out = _attend(x)
    out[-1] *= 2
    return out


def _place_a_thousandth(x):
    return _attend(x) + np.arange(len(x))[:, None] / 1000


def _breaks(x):
    raise ValueError("no such layer")


def _verdict(accepts, f):
    return accepts(lambda x: f(x))  # a function without a name


def _verdicts(accepts, right, wrong):
    return {"the right one": _verdict(accepts, right), "the wrong one": _verdict(accepts, wrong)}


_leaky = (_no_mask, _one_ahead, _blocks_of_4, _norm_of_the_text, _five_ahead)
_leaky += (_first_sees_second, _last_but_one_sees_last, _leaks_a_thousandth)
_ordered = (_causal, _sines, _distances, _circle, _sorted, _last_is_special)
_ordered += (_place_a_thousandth,)

case("causal: no mask", lambda: _verdicts(is_causal, _causal, _no_mask))
case("causal: one ahead", lambda: _verdicts(is_causal, _causal_too, _one_ahead))
case("causal: blocks of 4", lambda: _verdicts(is_causal, _causal, _blocks_of_4))


@case("causal: a norm over the whole text")
def _():
    return _verdicts(is_causal, _causal_too, _norm_of_the_text)


case("causal: five ahead", lambda: _verdicts(is_causal, _causal, _five_ahead))


@case("causal: only the first token sees one more")
def _():
    return _verdicts(is_causal, _causal_too, _first_sees_second)


@case("causal: only the last but one sees the last")
def _():
    return _verdicts(is_causal, _causal, _last_but_one_sees_last)


@case("causal: a thousandth leaks")
def _():
    return _verdicts(is_causal, _causal_too, _leaks_a_thousandth)


case("order: a causal mask", lambda: _verdicts(ignores_order, _set, _causal))
case("order: sines", lambda: _verdicts(ignores_order, _set_too, _sines))
case("order: distances", lambda: _verdicts(ignores_order, _set, _distances))
case("order: a circle", lambda: _verdicts(ignores_order, _set_too, _circle))
case("order: outputs sorted", lambda: _verdicts(ignores_order, _set, _sorted))


@case("order: the last place is special")
def _():
    return _verdicts(ignores_order, _set_too, _last_is_special)


@case("order: a thousandth of the place")
def _():
    return _verdicts(ignores_order, _set, _place_a_thousandth)


case("an error", lambda: [is_causal(_breaks), ignores_order(_breaks)])


@case("all of them together", weight=16)
def _():
    causal = (_causal, _causal_too, *_leaky, _breaks)
    blind = (_set, _set_too, *_ordered, _breaks)
    return {
        "is_causal": {f.__name__: _verdict(is_causal, f) for f in causal},
        "ignores_order": {f.__name__: _verdict(ignores_order, f) for f in blind},
    }


# %% hidden order-7
case = check("order-7")


def _middle_leak(x):
    out = _causal(x)
    out[4:5] += x[5:6]
    return out


def _first_is_special(x):
    out = _attend(x)
    out[0] += 1
    return out


case("causal: one leak", lambda: _verdicts(is_causal, _causal_too, _middle_leak))


@case("order: the first place is special")
def _():
    return _verdicts(ignores_order, _set_too, _first_is_special)


# %% right order-7 one token at a time, all exchanges of two
def is_causal(layer):
    x = np.random.RandomState(1).normal(size=(12, 4))
    try:
        before = layer(x.copy())
        for t in range(12):
            changed = x.copy()
            changed[t] += 3
            if abs(layer(changed)[:t] - before[:t]).max(initial=0) > 1e-9:
                return False
    except Exception:
        return False
    return True


def ignores_order(layer):
    x = np.random.RandomState(1).normal(size=(9, 4))
    try:
        before = layer(x.copy())
        for i in range(9):
            for j in range(i):
                order = np.arange(9)
                order[[i, j]] = j, i
                if abs(layer(x[order]) - before[order]).max() > 1e-9:
                    return False
    except Exception:
        return False
    return True


# %% right order-7 cut off the future, undo the shuffling
def is_causal(layer):
    x = np.random.RandomState(2).normal(size=(11, 4))
    try:
        whole = layer(x.copy())
        return all(np.allclose(layer(x[:t].copy()), whole[:t]) for t in range(6, 12)) and all(
            np.allclose(layer(np.r_[x[:t], -x[t:]])[:t], whole[:t]) for t in range(1, 11)
        )
    except Exception:
        return False


def ignores_order(layer):
    x = np.random.RandomState(2).normal(size=(11, 4))
    try:
        for seed in range(4):
            order = np.random.RandomState(seed).permutation(11)
            back = np.argsort(order)
            if not np.allclose(layer(x[order])[back], layer(x.copy()), rtol=1e-8, atol=1e-10):
                return False
    except Exception:
        return False
    return True


# %% wrong order-7 only the last token is changed
# Leaks pass your check that sit at the start of a text. If only the last token changes, all you
# learn is who sees the last token.
def is_causal(layer):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(12, 4))
    try:
        before = layer(x.copy())
        for t in [11]:
            changed = x.copy()
            changed[t:] = rng.normal(size=(12 - t, 4))
            if not np.allclose(layer(changed)[:t], before[:t]):
                return False
    except Exception:
        return False
    return True


def ignores_order(layer):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(12, 4))
    try:
        for _ in range(5):
            order = rng.permutation(12)
            if not np.allclose(layer(x[order]), layer(x.copy())[order]):
                return False
    except Exception:
        return False
    return True


# %% wrong order-7 one cut in the middle
# Leaks pass your check that do not cross the middle. A text can be cut into past and future at
# every token.
def is_causal(layer):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(12, 4))
    try:
        before = layer(x.copy())
        for t in [6]:
            changed = x.copy()
            changed[t:] = rng.normal(size=(12 - t, 4))
            if not np.allclose(layer(changed)[:t], before[:t]):
                return False
    except Exception:
        return False
    return True


def ignores_order(layer):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(12, 4))
    try:
        for _ in range(5):
            order = rng.permutation(12)
            if not np.allclose(layer(x[order]), layer(x.copy())[order]):
                return False
    except Exception:
        return False
    return True


# %% wrong order-7 texts that are too short
# A layer that looks five tokens ahead passes your check. In a text of four tokens there is no such
# token: how long are your texts?
def is_causal(layer):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(4, 4))
    try:
        before = layer(x.copy())
        for t in range(1, 4):
            changed = x.copy()
            changed[t:] = rng.normal(size=(4 - t, 4))
            if not np.allclose(layer(changed)[:t], before[:t]):
                return False
    except Exception:
        return False
    return True


def ignores_order(layer):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(12, 4))
    try:
        for _ in range(5):
            order = rng.permutation(12)
            if not np.allclose(layer(x[order]), layer(x.copy())[order]):
                return False
    except Exception:
        return False
    return True


# %% wrong order-7 no copy
# Everything passes your check for causality. Your two texts are one array under two names: by the
# time you compare, both have changed.
# Seen: Lightning-AI/lightning-thunder#2773
def is_causal(layer):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(12, 4))
    try:
        for t in range(1, 12):
            changed = x
            changed[t:] = rng.normal(size=(12 - t, 4))
            if not np.allclose(layer(changed)[:t], layer(x)[:t]):
                return False
    except Exception:
        return False
    return True


def ignores_order(layer):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(12, 4))
    try:
        for _ in range(5):
            order = rng.permutation(12)
            if not np.allclose(layer(x[order]), layer(x.copy())[order]):
                return False
    except Exception:
        return False
    return True


# %% wrong order-7 the present and the future are compared, too
# Right causal layers are rejected. A changed token may change its own output and all later ones:
# which rows have to stay?
def is_causal(layer):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(12, 4))
    try:
        before = layer(x.copy())
        for t in range(1, 12):
            changed = x.copy()
            changed[t:] = rng.normal(size=(12 - t, 4))
            if not np.allclose(layer(changed), before):
                return False
    except Exception:
        return False
    return True


def ignores_order(layer):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(12, 4))
    try:
        for _ in range(5):
            order = rng.permutation(12)
            if not np.allclose(layer(x[order]), layer(x.copy())[order]):
                return False
    except Exception:
        return False
    return True


# %% wrong order-7 bits must be equal
# Right layers are rejected that round differently. Compare with a tolerance: one that is far above
# rounding and far below a leak.
def is_causal(layer):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(12, 4))
    try:
        before = layer(x.copy())
        for t in range(1, 12):
            changed = x.copy()
            changed[t:] = rng.normal(size=(12 - t, 4))
            if not np.array_equal(layer(changed)[:t], before[:t]):
                return False
    except Exception:
        return False
    return True


def ignores_order(layer):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(12, 4))
    try:
        for _ in range(5):
            order = rng.permutation(12)
            if not np.array_equal(layer(x[order]), layer(x.copy())[order]):
                return False
    except Exception:
        return False
    return True


# %% wrong order-7 too wide a tolerance
# Layers pass your check that leak a thousandth. A model in training finds such a leak: how much
# does your comparison forgive?
# Seen: flashinfer-ai/flashinfer#3717
def is_causal(layer):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(12, 4))
    try:
        before = layer(x.copy())
        for t in range(1, 12):
            changed = x.copy()
            changed[t:] = rng.normal(size=(12 - t, 4))
            if not np.allclose(layer(changed)[:t], before[:t], atol=0.01):
                return False
    except Exception:
        return False
    return True


def ignores_order(layer):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(12, 4))
    try:
        for _ in range(5):
            order = rng.permutation(12)
            if not np.allclose(layer(x[order], atol=0.01), layer(x.copy())[order], atol=0.01):
                return False
    except Exception:
        return False
    return True


# %% wrong order-7 reversing only
# A layer passes your check that looks at distances. Distances are the same from both ends, so
# reversing proves little: which order treats no two places alike?
def is_causal(layer):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(12, 4))
    try:
        before = layer(x.copy())
        for t in range(1, 12):
            changed = x.copy()
            changed[t:] = rng.normal(size=(12 - t, 4))
            if not np.allclose(layer(changed)[:t], before[:t]):
                return False
    except Exception:
        return False
    return True


def ignores_order(layer):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(12, 4))
    try:
        for _ in range(5):
            order = np.arange(12)[::-1]
            if not np.allclose(layer(x[order]), layer(x.copy())[order]):
                return False
    except Exception:
        return False
    return True


# %% wrong order-7 moving in a circle only
# A layer passes your check that mixes each token with the one before it. In a circle, neighbours
# stay neighbours.
def is_causal(layer):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(12, 4))
    try:
        before = layer(x.copy())
        for t in range(1, 12):
            changed = x.copy()
            changed[t:] = rng.normal(size=(12 - t, 4))
            if not np.allclose(layer(changed)[:t], before[:t]):
                return False
    except Exception:
        return False
    return True


def ignores_order(layer):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(12, 4))
    try:
        for _ in range(5):
            order = np.roll(np.arange(12), rng.integers(1, 12))
            if not np.allclose(layer(x[order]), layer(x.copy())[order]):
                return False
    except Exception:
        return False
    return True


# %% wrong order-7 the first two exchanged only
# A layer passes your check that treats the last place in its own way. You never move the last
# token.
def is_causal(layer):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(12, 4))
    try:
        before = layer(x.copy())
        for t in range(1, 12):
            changed = x.copy()
            changed[t:] = rng.normal(size=(12 - t, 4))
            if not np.allclose(layer(changed)[:t], before[:t]):
                return False
    except Exception:
        return False
    return True


def ignores_order(layer):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(12, 4))
    try:
        for _ in range(5):
            order = np.array([1, 0, *range(2, 12)])
            if not np.allclose(layer(x[order]), layer(x.copy())[order]):
                return False
    except Exception:
        return False
    return True


# %% wrong order-7 invariant in place of equivariant
# Layers are rejected that ignore order, and one that sorts its outputs is accepted. Outputs belong
# to tokens: when a token moves, its output moves along.
# Seen: MenghaoGuo/PCT#5
# Seen: udlbook/udlbook#131
def is_causal(layer):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(12, 4))
    try:
        before = layer(x.copy())
        for t in range(1, 12):
            changed = x.copy()
            changed[t:] = rng.normal(size=(12 - t, 4))
            if not np.allclose(layer(changed)[:t], before[:t]):
                return False
    except Exception:
        return False
    return True


def ignores_order(layer):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(12, 4))
    try:
        for _ in range(5):
            order = rng.permutation(12)
            if not np.allclose(layer(x[order]), layer(x.copy())):
                return False
    except Exception:
        return False
    return True


# %% wrong order-7 shuffled back the wrong way
# Layers are rejected that ignore order. You undo the order where you should repeat it: what stands
# at place 0 after `x[order]`?
def is_causal(layer):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(12, 4))
    try:
        before = layer(x.copy())
        for t in range(1, 12):
            changed = x.copy()
            changed[t:] = rng.normal(size=(12 - t, 4))
            if not np.allclose(layer(changed)[:t], before[:t]):
                return False
    except Exception:
        return False
    return True


def ignores_order(layer):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(12, 4))
    try:
        for _ in range(5):
            order = rng.permutation(12)
            if not np.allclose(layer(x[order]), layer(x.copy())[np.argsort(order)]):
                return False
    except Exception:
        return False
    return True


# %% wrong order-7 only sums are compared
# Layers pass your check that hand outputs to the wrong tokens. A sum over the text is the same in
# every order.
def is_causal(layer):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(12, 4))
    try:
        before = layer(x.copy())
        for t in range(1, 12):
            changed = x.copy()
            changed[t:] = rng.normal(size=(12 - t, 4))
            if not np.allclose(layer(changed)[:t], before[:t]):
                return False
    except Exception:
        return False
    return True


def ignores_order(layer):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(12, 4))
    try:
        for _ in range(5):
            order = rng.permutation(12)
            if not np.allclose(layer(x[order]).sum(0), layer(x.copy()).sum(0)):
                return False
    except Exception:
        return False
    return True


# %% wrong order-7 entries are shuffled, not tokens
# You shuffle the entries of every token. Order is a matter of rows.
def is_causal(layer):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(12, 4))
    try:
        before = layer(x.copy())
        for t in range(1, 12):
            changed = x.copy()
            changed[t:] = rng.normal(size=(12 - t, 4))
            if not np.allclose(layer(changed)[:t], before[:t]):
                return False
    except Exception:
        return False
    return True


def ignores_order(layer):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(12, 4))
    try:
        for _ in range(5):
            order = rng.permutation(4)
            if not np.allclose(layer(x[:, order]), layer(x.copy())[:, order]):
                return False
    except Exception:
        return False
    return True


# %% wrong order-7 all tokens are equal
# Layers pass your check that know the order. You shuffle tokens that are all alike: nobody can see
# a difference.
def is_causal(layer):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(12, 4))
    try:
        before = layer(x.copy())
        for t in range(1, 12):
            changed = x.copy()
            changed[t:] = rng.normal(size=(12 - t, 4))
            if not np.allclose(layer(changed)[:t], before[:t]):
                return False
    except Exception:
        return False
    return True


def ignores_order(layer):
    rng = np.random.default_rng(0)
    x = np.ones((12, 4))
    try:
        for _ in range(5):
            order = rng.permutation(12)
            if not np.allclose(layer(x[order]), layer(x.copy())[order]):
                return False
    except Exception:
        return False
    return True


# %% wrong order-7 an error escapes
# When the layer raises an error, so do you. A check gives its verdict: a layer that breaks has
# neither property.
def is_causal(layer):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(12, 4))
    try:
        before = layer(x.copy())
        for t in range(1, 12):
            changed = x.copy()
            changed[t:] = rng.normal(size=(12 - t, 4))
            if not np.allclose(layer(changed)[:t], before[:t]):
                return False
    except ZeroDivisionError:
        return False
    return True


def ignores_order(layer):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(12, 4))
    try:
        for _ in range(5):
            order = rng.permutation(12)
            if not np.allclose(layer(x[order]), layer(x.copy())[order]):
                return False
    except ZeroDivisionError:
        return False
    return True


# %% wrong order-7 everything is accepted
# The wrong layers of these cases are accepted. A check proves something only if it can fail.
def is_causal(layer):
    return True


def ignores_order(layer):
    return True


# %% wrong order-7 everything is rejected
# Right layers are rejected, too. Run your check on a layer that you trust before you use it on
# others.
def is_causal(layer):
    return False


def ignores_order(layer):
    return False


# %% [markdown]
# ## What to take along
#
# - Without positions, attention is a set function: outputs follow their tokens. A causal mask alone
#   tells something about order, but not much.
# - A position counts tokens of one's own text. Padding and caches are where it goes wrong.
# - RoPE turns q and k, never v. The score knows i − j, and the pairing belongs to the weights.
# - ALiBi is one more entry in q and k. Mind the scale.
# - A block only ever adds to its stream, and every token is normalised for itself.
# - Properties need no right answer: change the future, shuffle the tokens, and look at what moves.
#
# Back to [chapter 5](../book/05_order.ipynb).
