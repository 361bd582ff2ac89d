# %% [markdown]
# # Exercises 4: heads
#
# Seven tasks on [chapter 4, *Many heads*](../book/04_heads.ipynb). They climb from counting on
# paper to testing a penalty: predict, fill in, mend, build, and write a check of your own.
#
# | task | what you do | points | minutes | level |
# |---|---|---|---|---|
# | `heads-1` | predict where the numbers go | 3 | 8 | 1 of 4 |
# | `heads-2` | split into heads and merge again | 4 | 10 | 2 of 4 |
# | `heads-3` | count weights, cache bytes and FLOPs | 5 | 14 | 2 of 4 |
# | `heads-4` | an output gate and drop-head | 4 | 12 | 2 of 4 |
# | `heads-5` | mend a widely copied multi-head attention | 6 | 16 | 3 of 4 |
# | `heads-6` | grouped heads without copies of the keys | 6 | 18 | 4 of 4 |
# | `heads-7` | write the check | 4 | 12 | 3 of 4 |
# | all | | 32 | 90 | |
#
# **How checking works.** Write your answer in place of the line `raise NotImplementedError`, run
# the cell, then run the check cell below it. The check calls your function and tells you which
# cases agree, where the first difference is, and, if it knows your mistake, its name and a hint.
# It calls your function as you last ran it: after every edit, **run the answer cell again**
# before the check. Some further cases run only when an instructor grades.
#
# **The letters.** `B` examples in a batch, `T` queries, `S` keys, `C` numbers per token in the
# model, `D` numbers per head, `E` numbers per value. `Hq` heads of queries, `Hk` heads of keys
# and values; `H` where they are equally many. All you need is NumPy; please write attention
# yourself instead of calling `attnlearn`.

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
# ## heads-1: Predict where the numbers go
#
# *heads-1 · 3 points · 8 minutes · ●○○○ difficulty 1 of 4*
#
# Work these out with pencil and paper, then write down plain numbers. Heads and tokens count from
# 0.
#
# 1. `head_one`: a token is the row `0, 1, 2, ..., 11`, so `C = 12`. It is split into **3 heads**.
#    Which four numbers does head 1 get?
# 2. `merged`: 2 heads, 2 tokens, 2 numbers per head. Head 0 holds `[0, 1]` for token 0 and
#    `[2, 3]` for token 1; head 1 holds `[4, 5]` for token 0 and `[6, 7]` for token 1. What do the
#    two tokens look like after the heads are **merged**? Two rows of four numbers.
# 3. `key_heads`: **6 query heads share 2 key heads**. Which key head does each query head read?
#    Six numbers.
# 4. `weights`: a layer has `C = 32`, 8 query heads of width 4, **2 key heads and 2 value heads**
#    of width 4, and no biases. How many weights do W_q, W_k, W_v and W_o have? Four numbers.
# 5. `cached`: how many numbers does that layer keep in its **KV cache for one token**?
#
# **A miniature.** A token `0, 1, 2, 3` and 2 heads: head 0 gets 0 and 1, head 1 gets 2 and 3.
# Merging puts them side by side again.
#
# Half of the points are for having all five right together.
#
# Read first: *Heads are subspaces: split and merge*, *What the projections cost* and *From MHA to
# MQA: the KV bytes* in [chapter 4](../book/04_heads.ipynb).
#
# <details>
# <summary>Hint 1 for heads-1: whose numbers are they?</summary>
#
# A head owns one stretch of neighbouring numbers in every token. Split and merge never mix two
# tokens: all numbers of a merged row must come from the same token.
#
# </details>
#
# <details>
# <summary>Hint 2 for heads-1: neighbours share</summary>
#
# Query heads that share a key head stand side by side. A projection has as many weights as
# numbers it reads, times numbers it writes: for keys that is `C` times the width of all key heads
# together.
#
# </details>


# %% answer heads-1 points=3 minutes=8 difficulty=1 forbid=attnlearn
def head_one():
    """12 numbers, 3 heads: the four numbers of head 1."""
    # BEGIN SOLUTION
    return [4, 5, 6, 7]
    # END SOLUTION


def merged():
    """2 heads, 2 tokens: two rows of four numbers."""
    # BEGIN SOLUTION
    return [[0, 1, 4, 5], [2, 3, 6, 7]]
    # END SOLUTION


def key_heads():
    """6 query heads, 2 key heads: six numbers."""
    # BEGIN SOLUTION
    return [0, 0, 0, 1, 1, 1]
    # END SOLUTION


def weights():
    """C = 32, 8 query heads, 2 key and value heads of width 4: W_q, W_k, W_v, W_o."""
    # BEGIN SOLUTION
    return [1024, 256, 256, 1024]
    # END SOLUTION


def cached():
    """Numbers that the KV cache keeps for one token of that layer."""
    # BEGIN SOLUTION
    return 16
    # END SOLUTION


# %% check heads-1
case = check("heads-1")
case("head_one", lambda: np.array(head_one(), int))
case("merged", lambda: np.array(merged(), int))
case("key_heads", lambda: np.array(key_heads(), int))
case("weights", lambda: np.array(weights(), int))
case("cached", lambda: np.array(cached(), int))


@case("all five together", weight=5)
def _():
    answers = (head_one, merged, key_heads, weights, cached)
    return np.concatenate([np.ravel(np.array(f(), int)) for f in answers])


# %% right heads-1 as tuples
def head_one():
    return (4, 5, 6, 7)


def merged():
    return ((0, 1, 4, 5), (2, 3, 6, 7))


def key_heads():
    return (0,) * 3 + (1,) * 3


def weights():
    return (32 * 32, 32 * 8, 32 * 8, 32 * 32)


def cached():
    return 8 + 8


# %% right heads-1 computed
def head_one():
    return np.arange(12).reshape(3, 4)[1]


def merged():
    return np.arange(8).reshape(2, 2, 2).transpose(1, 0, 2).reshape(2, 4)


def key_heads():
    return np.arange(6) // (6 // 2)


def weights():
    return 32 * np.array([8 * 4, 2 * 4, 2 * 4, 8 * 4])


def cached():
    return np.array(2 * 2 * 4)


# %% wrong heads-1 every third number
# You deal the numbers out like cards, so head 1 gets every third one. A head owns neighbouring
# numbers: one stretch of the token.
def head_one():
    return [1, 4, 7, 10]


def merged():
    return [[0, 1, 4, 5], [2, 3, 6, 7]]


def key_heads():
    return [0, 0, 0, 1, 1, 1]


def weights():
    return [1024, 256, 256, 1024]


def cached():
    return 16


# %% wrong heads-1 heads and width exchanged
# Your head 1 has another width. Twelve numbers in three heads: how many does each head get, and
# where does the second stretch begin?
def head_one():
    return [3, 4, 5]


def merged():
    return [[0, 1, 4, 5], [2, 3, 6, 7]]


def key_heads():
    return [0, 0, 0, 1, 1, 1]


def weights():
    return [1024, 256, 256, 1024]


def cached():
    return 16


# %% wrong heads-1 counted from 1
# You count heads from 1. The first head is head 0, and so is the first key head.
def head_one():
    return [0, 1, 2, 3]


def merged():
    return [[0, 1, 4, 5], [2, 3, 6, 7]]


def key_heads():
    return [1, 1, 1, 2, 2, 2]


def weights():
    return [1024, 256, 256, 1024]


def cached():
    return 16


# %% wrong heads-1 merged head by head
# Your first row holds two tokens of one head. After merging, a row is one token: what do all
# heads say about it?
# Seen: jsbaan/transformer-from-scratch#6
def head_one():
    return [4, 5, 6, 7]


def merged():
    return [[0, 1, 2, 3], [4, 5, 6, 7]]


def key_heads():
    return [0, 0, 0, 1, 1, 1]


def weights():
    return [1024, 256, 256, 1024]


def cached():
    return 16


# %% wrong heads-1 merged in turns
# You take one number of each head in turn. The heads lie side by side, each in one piece, just as
# they were before the split.
def head_one():
    return [4, 5, 6, 7]


def merged():
    return [[0, 4, 1, 5], [2, 6, 3, 7]]


def key_heads():
    return [0, 0, 0, 1, 1, 1]


def weights():
    return [1024, 256, 256, 1024]


def cached():
    return 16


# %% wrong heads-1 the heads are averaged
# You average the heads, which gives a token of half the width. Merging keeps every number and
# puts the heads side by side.
def head_one():
    return [4, 5, 6, 7]


def merged():
    return [[2, 3], [4, 5]]


def key_heads():
    return [0, 0, 0, 1, 1, 1]


def weights():
    return [1024, 256, 256, 1024]


def cached():
    return 16


# %% wrong heads-1 key heads dealt in turn
# You deal the key heads out in turn. Query heads that share a key head are neighbours: a model
# trained one way gives nonsense when read the other way.
# Seen: onnx/onnx#7274
# Seen: apple/axlearn#842
def head_one():
    return [4, 5, 6, 7]


def merged():
    return [[0, 1, 4, 5], [2, 3, 6, 7]]


def key_heads():
    return [0, 1, 0, 1, 0, 1]


def weights():
    return [1024, 256, 256, 1024]


def cached():
    return 16


# %% wrong heads-1 divided by the number of key heads
# Your query heads would need three key heads, and there are two. Divide by how many query heads
# share one.
# Seen: PSAL-POSTECH/ONNXim#34
def head_one():
    return [4, 5, 6, 7]


def merged():
    return [[0, 1, 4, 5], [2, 3, 6, 7]]


def key_heads():
    return [0, 0, 1, 1, 2, 2]


def weights():
    return [1024, 256, 256, 1024]


def cached():
    return 16


# %% wrong heads-1 a key head for every query head
# You give the keys and values as many heads as the queries. Only 2 heads of keys exist, so W_k
# and W_v are narrower, and less is cached.
# Seen: jranaraki/vllm-fit#14
# Seen: meta-pytorch/torchtune#38
def head_one():
    return [4, 5, 6, 7]


def merged():
    return [[0, 1, 4, 5], [2, 3, 6, 7]]


def key_heads():
    return [0, 0, 0, 1, 1, 1]


def weights():
    return [1024, 1024, 1024, 1024]


def cached():
    return 64


# %% wrong heads-1 the size of a group taken for the number of heads
# You counted 4 heads of keys. Four is how many query heads share one; the number of key heads is
# given.
# Seen: rasbt/LLMs-from-scratch#922
def head_one():
    return [4, 5, 6, 7]


def merged():
    return [[0, 1, 4, 5], [2, 3, 6, 7]]


def key_heads():
    return [0, 0, 0, 1, 1, 1]


def weights():
    return [1024, 512, 512, 1024]


def cached():
    return 32


# %% wrong heads-1 no output projection
# You left W_o without weights. After the merge it mixes what the heads found: it reads the width
# of all query heads and writes C numbers.
# Seen: Kyubyong/transformer#117
def head_one():
    return [4, 5, 6, 7]


def merged():
    return [[0, 1, 4, 5], [2, 3, 6, 7]]


def key_heads():
    return [0, 0, 0, 1, 1, 1]


def weights():
    return [1024, 256, 256, 0]


def cached():
    return 16


# %% wrong heads-1 every head reads and writes the whole width
# You give each head a matrix as wide as the model. A head writes only its own few numbers; all
# query heads together write C.
def head_one():
    return [4, 5, 6, 7]


def merged():
    return [[0, 1, 4, 5], [2, 3, 6, 7]]


def key_heads():
    return [0, 0, 0, 1, 1, 1]


def weights():
    return [8192, 2048, 2048, 8192]


def cached():
    return 16


# %% wrong heads-1 only the keys are cached
# You counted one of the two things that a cache keeps. A later query needs what a token offers as
# well as how it is found.
def head_one():
    return [4, 5, 6, 7]


def merged():
    return [[0, 1, 4, 5], [2, 3, 6, 7]]


def key_heads():
    return [0, 0, 0, 1, 1, 1]


def weights():
    return [1024, 256, 256, 1024]


def cached():
    return 8


# %% wrong heads-1 the output projection as narrow as the keys
# Your W_o is as narrow as W_k. Grouping shares keys and values; every query head still gives an
# output of its own, and W_o reads them all.
def head_one():
    return [4, 5, 6, 7]


def merged():
    return [[0, 1, 4, 5], [2, 3, 6, 7]]


def key_heads():
    return [0, 0, 0, 1, 1, 1]


def weights():
    return [1024, 256, 256, 256]


def cached():
    return 16


# %% [markdown]
# ## heads-2: Split and merge
#
# *heads-2 · 4 points · 10 minutes · ●●○○ difficulty 2 of 4*
#
# Write the two functions that turn one wide token into heads and back.
#
# - `split(x, heads)`: `x` is `[B, T, C]`, the result `[B, H, T, D]` with `D = C / H`. Head `h`
#   gets the numbers `h * D` to `h * D + D - 1` of every token. A width that does not divide
#   raises `ValueError` (NumPy does that for you, if you let it).
# - `merge(o)`: `o` is `[B, H, T, D]`, the result `[B, T, H * D]`: for each token the heads side
#   by side.
#
# Splitting needs **no copy**: a case asks whether your result shares its memory with `x`. Half of
# the points are for a case that has several sizes at once.
#
# **A miniature.** One example, two tokens `[0, 1, 2, 3]` and `[4, 5, 6, 7]`, two heads: head 0
# holds `[0, 1]` and `[4, 5]`, head 1 holds `[2, 3]` and `[6, 7]`.
#
# Read first: *Heads are subspaces: split and merge* in [chapter 4](../book/04_heads.ipynb).
#
# <details>
# <summary>Hint 1 for heads-2: which axis may be cut?</summary>
#
# A reshape never moves a number in memory. It may cut the last axis in two, or join two
# neighbouring axes, and the numbers keep their meaning. Which axis holds the heads?
#
# </details>
#
# <details>
# <summary>Hint 2 for heads-2: first cut, then move</summary>
#
# After the cut the heads stand behind the tokens. Moving an axis is another operation than
# cutting one. To merge, undo the same two steps in the opposite order.
#
# </details>


# %% answer heads-2 points=4 minutes=10 difficulty=2 forbid=attnlearn
def split(x, heads):
    """x [B, T, C] -> [B, H, T, D]: head h gets numbers h*D to h*D + D - 1 of each token."""
    # BEGIN SOLUTION
    B, T, C = x.shape
    x = x.reshape(B, T, heads, C // heads)
    return x.transpose(0, 2, 1, 3)
    # END SOLUTION


def merge(o):
    """o [B, H, T, D] -> [B, T, H*D]: for each token the heads side by side."""
    # BEGIN SOLUTION
    B, H, T, D = o.shape
    o = o.transpose(0, 2, 1, 3)
    return o.reshape(B, T, H * D)
    # END SOLUTION


# %% check heads-2
case = check("heads-2")


def _outcome(f):
    try:
        f()
        return "no error"
    except ValueError:
        return "ValueError"


def _numbers(rng, *shape):
    return rng.permutation(np.prod(shape)).reshape(shape).astype("int16")


case("split: 3 heads of 2", lambda rng: split(_numbers(rng, 2, 4, 6), 3), weight=2)
case("split: one head", lambda rng: split(_numbers(rng, 2, 3, 4), 1))
case("merge: 3 heads of 4", lambda rng: merge(_numbers(rng, 2, 3, 2, 4)), weight=2)
case("split: 7 numbers, 2 heads", lambda: _outcome(lambda: split(np.ones((2, 4, 7)), 2)))


@case("split: change one token, which tokens move?")
def _(rng):
    x = _numbers(rng, 1, 6, 8)
    before = split(x, 4).copy()
    x[:, 2] += 1
    return (split(x, 4) != before).any((0, 1, 3))


@case("split: shares the memory of x")
def _(rng):
    x = _numbers(rng, 2, 5, 6)
    return np.shares_memory(split(x, 3), x)


@case("there and back")
def _(rng):
    x, o = _numbers(rng, 2, 3, 8), _numbers(rng, 2, 3, 2, 2)
    return {"x": merge(split(x, 4)) - x, "o": split(merge(o), 3) - o}


@case("several sizes at once", weight=9)
def _(rng):
    sizes = [(1, 4, 6, 2), (3, 2, 6, 3), (2, 3, 4, 2)]
    whole = {}
    for B, T, C, H in sizes:
        whole[f"split {B} x {T} x {C} into {H}"] = split(_numbers(rng, B, T, C), H)
        whole[f"merge {B} x {H} x {T} x {C}"] = merge(_numbers(rng, B, H, T, C))
    x = _numbers(rng, 2, 5, 6)
    whole["no copy"] = np.shares_memory(split(x, 2), x)
    whole["5 numbers, 2 heads"] = _outcome(lambda: split(x[..., :5], 2))
    return whole


# %% hidden heads-2
case = check("heads-2")


@case("drawn sizes")
def _(rng):
    heads, width = rng.randint(2, 4), rng.randint(2, 4)
    x = _numbers(rng, 2, 5, heads * width)
    return {"split": split(x, heads), "merge": merge(split(x, heads) + 1)}


# %% right heads-2 axes swapped, any number of leading axes
def split(x, heads):
    return np.swapaxes(x.reshape(*x.shape[:-1], heads, -1), -2, -3)


def merge(o):
    return np.moveaxis(o, 1, 2).reshape(o.shape[0], o.shape[2], -1)


# %% right heads-2 einsum, and heads joined one by one
def split(x, heads):
    B, T, C = x.shape
    return np.einsum("bthd->bhtd", x.reshape(B, T, heads, C // heads))


def merge(o):
    return np.concatenate([o[:, h] for h in range(o.shape[1])], axis=-1)


# %% wrong heads-2 split by a reshape alone
# Your split puts the heads where the tokens were by a reshape alone. A head now holds whole
# tokens and pieces of others. Change one token and see which ones move.
# Seen: reczoo/FuxiCTR#30
# Seen: hyunwoongko/transformer#15
def split(x, heads):
    B, T, C = x.shape
    return x.reshape(B, heads, T, C // heads)


def merge(o):
    B, H, T, D = o.shape
    o = o.transpose(0, 2, 1, 3)
    return o.reshape(B, T, H * D)


# %% wrong heads-2 merged by a reshape alone
# Your merge joins axes that are not neighbours. A row of the result then holds several tokens of
# one head: bring the heads of a token together first.
# Seen: jsbaan/transformer-from-scratch#6
# Seen: ajhalthor/Transformer-Neural-Network#1
def split(x, heads):
    B, T, C = x.shape
    x = x.reshape(B, T, heads, C // heads)
    return x.transpose(0, 2, 1, 3)


def merge(o):
    B, H, T, D = o.shape
    return o.reshape(B, T, H * D)


# %% wrong heads-2 both by a reshape alone
# Neither of your functions moves an axis. They undo each other, so there and back looks right,
# but in between a head mixes the tokens.
# Seen: 649453932/Chinese-Text-Classification-Pytorch#53
def split(x, heads):
    B, T, C = x.shape
    return x.reshape(B, heads, T, C // heads)


def merge(o):
    B, H, T, D = o.shape
    return o.reshape(B, T, H * D)


# %% wrong heads-2 every H-th number
# Head h gets the numbers h, h + H, h + 2H and so on. A head owns one stretch of neighbours: which
# of the two new axes comes first?
def split(x, heads):
    B, T, C = x.shape
    x = x.reshape(B, T, C // heads, heads)
    return x.transpose(0, 3, 1, 2)


def merge(o):
    B, H, T, D = o.shape
    o = o.transpose(0, 2, 1, 3)
    return o.reshape(B, T, H * D)


# %% wrong heads-2 merged in turns
# You merge the heads number by number, in turns. Each head stays in one piece.
def split(x, heads):
    B, T, C = x.shape
    x = x.reshape(B, T, heads, C // heads)
    return x.transpose(0, 2, 1, 3)


def merge(o):
    B, H, T, D = o.shape
    o = o.transpose(0, 2, 3, 1)
    return o.reshape(B, T, H * D)


# %% wrong heads-2 heads and width exchanged
# You cut a token into pieces as wide as there should be heads. With four heads of four nobody
# notices.
def split(x, heads):
    B, T, C = x.shape
    x = x.reshape(B, T, C // heads, heads)
    return x.transpose(0, 2, 1, 3)


def merge(o):
    B, H, T, D = o.shape
    o = o.transpose(0, 2, 1, 3)
    return o.reshape(B, T, H * D)


# %% wrong heads-2 heads before examples
# You put the heads in front of the examples. Every mask and every later step that expects [B, H,
# T, D] would then pair a head with another example.
# Seen: lsdefine/attention-is-all-you-need-keras#36
def split(x, heads):
    B, T, C = x.shape
    x = x.reshape(B, T, heads, C // heads)
    return x.transpose(2, 0, 1, 3)


def merge(o):
    B, H, T, D = o.shape
    o = o.transpose(0, 2, 1, 3)
    return o.reshape(B, T, H * D)


# %% wrong heads-2 merge takes heads for examples
# Your merge reads its first axis as heads and its second as examples. With as many heads as
# examples it runs, and mixes them.
# Seen: gazelle93/Transformer-Various-Positional-Encoding#1
def split(x, heads):
    B, T, C = x.shape
    x = x.reshape(B, T, heads, C // heads)
    return x.transpose(0, 2, 1, 3)


def merge(o):
    B, H, T, D = o.shape
    o = o.reshape(H, B, T, D).transpose(1, 2, 0, 3)
    return o.reshape(B, T, H * D)


# %% wrong heads-2 examples and heads on one axis
# Your result has three axes: examples and heads share one. Keep them apart, so that a mask for
# one example can't meet the heads of another.
# Seen: reczoo/FuxiCTR#130
def split(x, heads):
    B, T, C = x.shape
    x = x.reshape(B, T, heads, C // heads)
    return x.transpose(0, 2, 1, 3).reshape(B * heads, T, C // heads)


def merge(o):
    B, H, T, D = o.shape
    o = o.transpose(0, 2, 1, 3)
    return o.reshape(B, T, H * D)


# %% wrong heads-2 the heads stay behind the tokens
# You cut the token and stop: [B, T, H, D]. A matrix product works on the last two axes, so it
# would let heads look at heads.
def split(x, heads):
    B, T, C = x.shape
    x = x.reshape(B, T, heads, C // heads)
    return x


def merge(o):
    B, H, T, D = o.shape
    o = o.transpose(0, 2, 1, 3)
    return o.reshape(B, T, H * D)


# %% wrong heads-2 the heads in reverse
# You join the heads from the last to the first. W_o expects head 0 first: its first D rows belong
# to that head.
def split(x, heads):
    B, T, C = x.shape
    x = x.reshape(B, T, heads, C // heads)
    return x.transpose(0, 2, 1, 3)


def merge(o):
    B, H, T, D = o.shape
    o = o[:, ::-1].transpose(0, 2, 1, 3)
    return o.reshape(B, T, H * D)


# %% wrong heads-2 the heads are averaged
# Your merge averages the heads and returns D numbers per token. What one head found and another
# did not is lost: put them side by side.
def split(x, heads):
    B, T, C = x.shape
    x = x.reshape(B, T, heads, C // heads)
    return x.transpose(0, 2, 1, 3)


def merge(o):
    return o.mean(1)


# %% wrong heads-2 left-over numbers are dropped
# A width that does not divide loses its last numbers without a word. Raise an error, or let NumPy
# raise it.
def split(x, heads):
    B, T, C = x.shape
    D = C // heads
    x = x[..., : heads * D].reshape(B, T, heads, D)
    return x.transpose(0, 2, 1, 3)


def merge(o):
    B, H, T, D = o.shape
    o = o.transpose(0, 2, 1, 3)
    return o.reshape(B, T, H * D)


# %% wrong heads-2 a copy for each head
# You copy all of x. Cutting and moving axes change only how the same memory is read.
def split(x, heads):
    B, T, C = x.shape
    x = x.reshape(B, T, heads, C // heads)
    return np.ascontiguousarray(x.transpose(0, 2, 1, 3))


def merge(o):
    B, H, T, D = o.shape
    o = o.transpose(0, 2, 1, 3)
    return o.reshape(B, T, H * D)


# %% [markdown]
# ## heads-3: Count what heads cost
#
# *heads-3 · 5 points · 14 minutes · ●●○○ difficulty 2 of 4*
#
# Write three functions that count exactly. A layer has `Hq` heads of queries and `Hk` heads of
# keys, all of width `D`, and no biases. There are `Hk` heads of values, too, or, if `shared` is
# true, **one value projection of width `D` that all heads read**. `D` is a number of its own: in
# Qwen3-4B `C = 2560`, but 32 heads of 128 make 4096.
#
# - `layer_costs(C, D, Hq, Hk, S, shared=False, size=2)` returns a dictionary of whole numbers:
#   - `"weights"`: the weights of W_q, W_k, W_v and W_o together;
#   - `"kv_bytes"`: what the layer keeps in its cache for one token, if a number takes `size`
#     bytes;
#   - `"flops"`: the FLOPs for **one new token that looks at S keys**: four projections and two
#     products, scores and output. One multiplication with its addition counts as 2. The softmax
#     is left out.
# - `cache_gib(kv_bytes, layers, tokens, batch)`: the whole cache in **GiB** (2³⁰ bytes).
# - `saved_by_sharing(heads)`: which share of its weights (a number between 0 and 1) does an
#   attention layer with `C = heads * D` save if all its heads share one value projection? Compare
#   with a layer that has as many key heads and value heads as query heads.
#
# Half of the points are for a case with several layers at once.
#
# **A miniature.** `layer_costs(4, 2, 2, 1, 3)`: W_q is 4 × 4, W_k and W_v are 4 × 2, W_o is 4 ×
# 4, that makes 48 weights. One token leaves 2 numbers for its key and 2 for its value, in 2 bytes
# each: 8 bytes. The projections take 96 FLOPs, scores and output 24 each: 144.
#
# Read first: *What the projections cost*, *From MHA to MQA: the KV bytes* and *One value
# projection for all heads* in [chapter 4](../book/04_heads.ipynb).
#
# <details>
# <summary>Hint 1 for heads-3: who has its own?</summary>
#
# Write down the four matrices with both of their sides. Which sides grow with the query heads,
# which with the key heads, and which one does a shared value projection change?
#
# </details>
#
# <details>
# <summary>Hint 2 for heads-3: a query still asks every key</summary>
#
# Sharing keys saves memory and the projections of keys and values. Each query head still computes
# a score for every key, and still adds up values. Two heads that read the same key don't ask the
# same question.
#
# </details>


# %% answer heads-3 points=5 minutes=14 difficulty=2 forbid=attnlearn
def layer_costs(C, D, Hq, Hk, S, shared=False, size=2):
    """{"weights": numbers, "kv_bytes": bytes per token, "flops": for one new token, S keys}."""
    # BEGIN SOLUTION
    queries, keys = Hq * D, Hk * D
    values = D if shared else keys
    weights = C * (queries + keys + values) + queries * C
    return {
        "weights": weights,
        "kv_bytes": (keys + values) * size,
        "flops": 2 * weights + 2 * 2 * queries * S,
    }
    # END SOLUTION


def cache_gib(kv_bytes, layers, tokens, batch):
    """GiB for all layers, tokens and examples, from the bytes per token of one layer."""
    # BEGIN SOLUTION
    return kv_bytes * layers * tokens * batch / 2**30
    # END SOLUTION


def saved_by_sharing(heads):
    """The share of the weights that one value projection for all heads saves, 0 to 1."""
    # BEGIN SOLUTION
    return (1 - 1 / heads) / 4
    # END SOLUTION


# %% check heads-3
case = check("heads-3")


def _each(key, *layers, **more):
    return np.array([layer_costs(*layer, **more)[key] for layer in layers])


_kinds = [(512, 64, 8, 8, 1024), (512, 64, 8, 2, 1024), (512, 64, 8, 1, 1024)]
_wide = (2560, 128, 32, 8, 4096)


case("weights of 8, 2 and 1 key heads", lambda: _each("weights", *_kinds))
case("bytes per token of 8, 2 and 1 key heads", lambda: _each("kv_bytes", *_kinds))
case("FLOPs of 8, 2 and 1 key heads", lambda: _each("flops", *_kinds))
case("one value projection for 8 heads", lambda: layer_costs(*_kinds[0], shared=True))
case("4 bytes per number", lambda: _each("kv_bytes", *_kinds, size=4))
case("heads wider than the model", lambda: layer_costs(*_wide))
case("a cache: 32 layers, 8192 tokens", lambda: float(cache_gib(16384, 32, 8192, 1)))
case("a cache for a batch of 4", lambda: float(cache_gib(4096, 36, 1000, 4)))
case("saved by sharing, 8 heads", lambda: float(saved_by_sharing(8)))


@case("several layers at once", weight=9)
def _():
    layers = {"grouped": _kinds[1], "wide": _wide, "one key head": (96, 24, 4, 1, 7)}
    whole = {name: layer_costs(*layer, size=1) for name, layer in layers.items()}
    whole["shared"] = layer_costs(96, 24, 4, 4, 7, shared=True)
    whole["grouped and shared"] = layer_costs(96, 16, 6, 3, 20, shared=True, size=4)
    gib = [float(cache_gib(1024, 2, 5000, batch)) for batch in (1, 3)]
    saved = [float(saved_by_sharing(heads)) for heads in (1, 2, 16)]
    return {**whole, "cache": gib, "saved": saved}


# %% hidden heads-3
case = check("heads-3")


@case("a drawn model")
def _(rng):
    C, S = 64 * rng.randint(3, 9), rng.randint(100, 900)
    return {"grouped": layer_costs(C, 16, 6, 3, S), "shared": layer_costs(C, 16, 6, 6, S, True)}


# %% right heads-3 matrix by matrix
def layer_costs(C, D, Hq, Hk, S, shared=False, size=2):
    matrices = {"q": (C, Hq * D), "k": (C, Hk * D), "v": (C, (1 if shared else Hk) * D)}
    matrices["o"] = (Hq * D, C)
    weights = sum(rows * columns for rows, columns in matrices.values())
    cached = matrices["k"][1] + matrices["v"][1]
    per_head_and_key = 2 * D + 2 * D
    flops = 2 * weights + per_head_and_key * Hq * S
    return {"weights": weights, "kv_bytes": size * cached, "flops": flops}


def cache_gib(kv_bytes, layers, tokens, batch):
    return kv_bytes * layers * tokens * batch / 1024 / 1024 / 1024


def saved_by_sharing(heads):
    return (heads - 1) / (4 * heads)


# %% right heads-3 counted from real matrices
def layer_costs(C, D, Hq, Hk, S, shared=False, size=2):
    heads = {"q": Hq, "k": Hk, "v": 1 if shared else Hk, "o": Hq}
    weights = sum(np.empty((C, h * D)).size for h in heads.values())
    flops = 2 * weights
    for _ in range(Hq):
        flops += 2 * S * D  # scores
        flops += 2 * S * D  # output
    return {"weights": weights, "kv_bytes": size * D * (heads["k"] + heads["v"]), "flops": flops}


def cache_gib(kv_bytes, layers, tokens, batch):
    return np.prod([kv_bytes, layers, tokens, batch], dtype=float) * 2.0**-30


def saved_by_sharing(heads):
    own = layer_costs(heads, 1, heads, heads, 0)["weights"]
    return 1 - layer_costs(heads, 1, heads, heads, 0, shared=True)["weights"] / own


# %% wrong heads-3 query heads counted in the cache
# Your cache keeps keys and values for every query head. What is kept is what was projected: ask
# how many heads of keys and of values there are.
# Seen: meta-pytorch/torchtune#38
# Seen: hahnyuan/LLM-Viewer#12
def layer_costs(C, D, Hq, Hk, S, shared=False, size=2):
    queries, keys = Hq * D, Hk * D
    values = D if shared else keys
    weights = C * (queries + keys + values) + queries * C
    return {
        "weights": weights,
        "kv_bytes": 2 * queries * size,
        "flops": 2 * weights + 2 * 2 * queries * S,
    }


def cache_gib(kv_bytes, layers, tokens, batch):
    return kv_bytes * layers * tokens * batch / 2**30


def saved_by_sharing(heads):
    return (1 - 1 / heads) / 4


# %% wrong heads-3 only the keys are cached
# Your cache is half as large as it must be. To look at an old token later, a query needs its key
# to find it, and what else to read it?
def layer_costs(C, D, Hq, Hk, S, shared=False, size=2):
    queries, keys = Hq * D, Hk * D
    values = D if shared else keys
    weights = C * (queries + keys + values) + queries * C
    return {
        "weights": weights,
        "kv_bytes": keys * size,
        "flops": 2 * weights + 2 * 2 * queries * S,
    }


def cache_gib(kv_bytes, layers, tokens, batch):
    return kv_bytes * layers * tokens * batch / 2**30


def saved_by_sharing(heads):
    return (1 - 1 / heads) / 4


# %% wrong heads-3 numbers in place of bytes
# You count numbers. How many bytes one of them takes depends on its type, and that is what `size`
# is for.
def layer_costs(C, D, Hq, Hk, S, shared=False, size=2):
    queries, keys = Hq * D, Hk * D
    values = D if shared else keys
    weights = C * (queries + keys + values) + queries * C
    return {
        "weights": weights,
        "kv_bytes": keys + values,
        "flops": 2 * weights + 2 * 2 * queries * S,
    }


def cache_gib(kv_bytes, layers, tokens, batch):
    return kv_bytes * layers * tokens * batch / 2**30


def saved_by_sharing(heads):
    return (1 - 1 / heads) / 4


# %% wrong heads-3 always two bytes
# You take two bytes for every number, whatever `size` says. A cache in float32 or int8 is not as
# large as one in float16.
# Seen: AlexsJones/llmfit#418
def layer_costs(C, D, Hq, Hk, S, shared=False, size=2):
    queries, keys = Hq * D, Hk * D
    values = D if shared else keys
    weights = C * (queries + keys + values) + queries * C
    return {
        "weights": weights,
        "kv_bytes": (keys + values) * 2,
        "flops": 2 * weights + 2 * 2 * queries * S,
    }


def cache_gib(kv_bytes, layers, tokens, batch):
    return kv_bytes * layers * tokens * batch / 2**30


def saved_by_sharing(heads):
    return (1 - 1 / heads) / 4


# %% wrong heads-3 the head's width taken from the model's
# You divide C by the number of heads to get a head's width. D is given, and nothing makes heads
# and model equally wide.
# Seen: LMCache/LMCache#688
# Seen: pytorch/torchtitan#1920
def layer_costs(C, D, Hq, Hk, S, shared=False, size=2):
    D = C // Hq
    queries, keys = Hq * D, Hk * D
    values = D if shared else keys
    weights = C * (queries + keys + values) + queries * C
    return {
        "weights": weights,
        "kv_bytes": (keys + values) * size,
        "flops": 2 * weights + 2 * 2 * queries * S,
    }


def cache_gib(kv_bytes, layers, tokens, batch):
    return kv_bytes * layers * tokens * batch / 2**30


def saved_by_sharing(heads):
    return (1 - 1 / heads) / 4


# %% wrong heads-3 W_o is a square
# Your W_o is C by C. It reads what the query heads wrote, and in a model with wide heads that is
# more than C.
# Seen: NVIDIA-NeMo/RL#2736
def layer_costs(C, D, Hq, Hk, S, shared=False, size=2):
    queries, keys = Hq * D, Hk * D
    values = D if shared else keys
    weights = C * (queries + keys + values) + C * C
    return {
        "weights": weights,
        "kv_bytes": (keys + values) * size,
        "flops": 2 * weights + 2 * 2 * queries * S,
    }


def cache_gib(kv_bytes, layers, tokens, batch):
    return kv_bytes * layers * tokens * batch / 2**30


def saved_by_sharing(heads):
    return (1 - 1 / heads) / 4


# %% wrong heads-3 no output projection
# You counted three projections. What mixes the heads after they are merged?
# Seen: Kyubyong/transformer#117
def layer_costs(C, D, Hq, Hk, S, shared=False, size=2):
    queries, keys = Hq * D, Hk * D
    values = D if shared else keys
    weights = C * (queries + keys + values)
    return {
        "weights": weights,
        "kv_bytes": (keys + values) * size,
        "flops": 2 * weights + 2 * 2 * queries * S,
    }


def cache_gib(kv_bytes, layers, tokens, batch):
    return kv_bytes * layers * tokens * batch / 2**30


def saved_by_sharing(heads):
    return (1 - 1 / heads) / 4


# %% wrong heads-3 every query head has its own keys
# Your weights don't shrink when key heads are shared. W_k and W_v write as many numbers as there
# are heads of keys.
def layer_costs(C, D, Hq, Hk, S, shared=False, size=2):
    queries, keys = Hq * D, Hk * D
    values = D if shared else keys
    weights = C * 3 * queries + queries * C
    return {
        "weights": weights,
        "kv_bytes": (keys + values) * size,
        "flops": 2 * weights + 2 * 2 * queries * S,
    }


def cache_gib(kv_bytes, layers, tokens, batch):
    return kv_bytes * layers * tokens * batch / 2**30


def saved_by_sharing(heads):
    return (1 - 1 / heads) / 4


# %% wrong heads-3 scores counted with the key heads
# Your scores and outputs get cheaper with fewer key heads. Each query head still asks every key:
# sharing saves memory, not questions.
# Seen: facebookresearch/xformers#1404
def layer_costs(C, D, Hq, Hk, S, shared=False, size=2):
    queries, keys = Hq * D, Hk * D
    values = D if shared else keys
    weights = C * (queries + keys + values) + queries * C
    return {
        "weights": weights,
        "kv_bytes": (keys + values) * size,
        "flops": 2 * weights + 2 * 2 * keys * S,
    }


def cache_gib(kv_bytes, layers, tokens, batch):
    return kv_bytes * layers * tokens * batch / 2**30


def saved_by_sharing(heads):
    return (1 - 1 / heads) / 4


# %% wrong heads-3 a multiplication without its addition
# You count a multiplication and its addition as one. Here both count: a product of row and column
# of length D takes 2 D FLOPs.
def layer_costs(C, D, Hq, Hk, S, shared=False, size=2):
    queries, keys = Hq * D, Hk * D
    values = D if shared else keys
    weights = C * (queries + keys + values) + queries * C
    return {
        "weights": weights,
        "kv_bytes": (keys + values) * size,
        "flops": weights + 2 * queries * S,
    }


def cache_gib(kv_bytes, layers, tokens, batch):
    return kv_bytes * layers * tokens * batch / 2**30


def saved_by_sharing(heads):
    return (1 - 1 / heads) / 4


# %% wrong heads-3 one of the two products
# You count the scores and stop. The weights that come out of them are then used for a second
# product.
def layer_costs(C, D, Hq, Hk, S, shared=False, size=2):
    queries, keys = Hq * D, Hk * D
    values = D if shared else keys
    weights = C * (queries + keys + values) + queries * C
    return {
        "weights": weights,
        "kv_bytes": (keys + values) * size,
        "flops": 2 * weights + 2 * queries * S,
    }


def cache_gib(kv_bytes, layers, tokens, batch):
    return kv_bytes * layers * tokens * batch / 2**30


def saved_by_sharing(heads):
    return (1 - 1 / heads) / 4


# %% wrong heads-3 no projections in the FLOPs
# You count scores and output alone. A new token is first projected to its query, key and value,
# and its output once more: for short texts that is nearly all.
def layer_costs(C, D, Hq, Hk, S, shared=False, size=2):
    queries, keys = Hq * D, Hk * D
    values = D if shared else keys
    weights = C * (queries + keys + values) + queries * C
    return {
        "weights": weights,
        "kv_bytes": (keys + values) * size,
        "flops": 2 * 2 * queries * S,
    }


def cache_gib(kv_bytes, layers, tokens, batch):
    return kv_bytes * layers * tokens * batch / 2**30


def saved_by_sharing(heads):
    return (1 - 1 / heads) / 4


# %% wrong heads-3 a group taken for the number of key heads
# You read Hk as the number of query heads in a group. It is the number of key heads: with Hk = 1
# all share one.
# Seen: rasbt/LLMs-from-scratch#922
def layer_costs(C, D, Hq, Hk, S, shared=False, size=2):
    queries, keys = Hq * D, Hq // Hk * D
    values = D if shared else keys
    weights = C * (queries + keys + values) + queries * C
    return {
        "weights": weights,
        "kv_bytes": (keys + values) * size,
        "flops": 2 * weights + 2 * 2 * queries * S,
    }


def cache_gib(kv_bytes, layers, tokens, batch):
    return kv_bytes * layers * tokens * batch / 2**30


def saved_by_sharing(heads):
    return (1 - 1 / heads) / 4


# %% wrong heads-3 keys shared as well
# With `shared` you give the keys one head, too. That is another layer, multi-query attention:
# here only the values are shared.
def layer_costs(C, D, Hq, Hk, S, shared=False, size=2):
    queries, keys = Hq * D, Hk * D
    keys = D if shared else keys
    values = keys
    weights = C * (queries + keys + values) + queries * C
    return {
        "weights": weights,
        "kv_bytes": (keys + values) * size,
        "flops": 2 * weights + 2 * 2 * queries * S,
    }


def cache_gib(kv_bytes, layers, tokens, batch):
    return kv_bytes * layers * tokens * batch / 2**30


def saved_by_sharing(heads):
    return (1 - 1 / heads) / 4


# %% wrong heads-3 sharing is left out
# Your layer costs the same with and without `shared`. How wide is a single value projection?
def layer_costs(C, D, Hq, Hk, S, shared=False, size=2):
    queries, keys = Hq * D, Hk * D
    values = keys
    weights = C * (queries + keys + values) + queries * C
    return {
        "weights": weights,
        "kv_bytes": (keys + values) * size,
        "flops": 2 * weights + 2 * 2 * queries * S,
    }


def cache_gib(kv_bytes, layers, tokens, batch):
    return kv_bytes * layers * tokens * batch / 2**30


def saved_by_sharing(heads):
    return (1 - 1 / heads) / 4


# %% wrong heads-3 GB in place of GiB
# You divide by a power of ten. A GiB is 2³⁰ bytes, about 7 % more than a GB: the memory of a card
# is usually counted in GiB.
# Seen: alvarobartt/hf-mem#33
def layer_costs(C, D, Hq, Hk, S, shared=False, size=2):
    queries, keys = Hq * D, Hk * D
    values = D if shared else keys
    weights = C * (queries + keys + values) + queries * C
    return {
        "weights": weights,
        "kv_bytes": (keys + values) * size,
        "flops": 2 * weights + 2 * 2 * queries * S,
    }


def cache_gib(kv_bytes, layers, tokens, batch):
    return kv_bytes * layers * tokens * batch / 1e9


def saved_by_sharing(heads):
    return (1 - 1 / heads) / 4


# %% wrong heads-3 one example, one layer
# Your cache forgets the batch. Every example has tokens of its own, so nothing is shared between
# them.
def layer_costs(C, D, Hq, Hk, S, shared=False, size=2):
    queries, keys = Hq * D, Hk * D
    values = D if shared else keys
    weights = C * (queries + keys + values) + queries * C
    return {
        "weights": weights,
        "kv_bytes": (keys + values) * size,
        "flops": 2 * weights + 2 * 2 * queries * S,
    }


def cache_gib(kv_bytes, layers, tokens, batch):
    return kv_bytes * layers * tokens / 2**30


def saved_by_sharing(heads):
    return (1 - 1 / heads) / 4


# %% wrong heads-3 the share of the value projection
# You give the share that the value projection saves. It is one of four matrices: what share of
# the layer is that?
def layer_costs(C, D, Hq, Hk, S, shared=False, size=2):
    queries, keys = Hq * D, Hk * D
    values = D if shared else keys
    weights = C * (queries + keys + values) + queries * C
    return {
        "weights": weights,
        "kv_bytes": (keys + values) * size,
        "flops": 2 * weights + 2 * 2 * queries * S,
    }


def cache_gib(kv_bytes, layers, tokens, batch):
    return kv_bytes * layers * tokens * batch / 2**30


def saved_by_sharing(heads):
    return 1 - 1 / heads


# %% wrong heads-3 always 15 %
# You return the number that people copy from each other. Count instead: how wide is W_v before,
# and how wide after? It depends on the number of heads.
def layer_costs(C, D, Hq, Hk, S, shared=False, size=2):
    queries, keys = Hq * D, Hk * D
    values = D if shared else keys
    weights = C * (queries + keys + values) + queries * C
    return {
        "weights": weights,
        "kv_bytes": (keys + values) * size,
        "flops": 2 * weights + 2 * 2 * queries * S,
    }


def cache_gib(kv_bytes, layers, tokens, batch):
    return kv_bytes * layers * tokens * batch / 2**30


def saved_by_sharing(heads):
    return 0.15


# %% [markdown]
# ## heads-4: A gate, and heads that pause
#
# *heads-4 · 4 points · 12 minutes · ●●○○ difficulty 2 of 4*
#
# Two small steps that some models put between attention and `W_o`. Both get `o`, the outputs of
# the heads, `[B, H, T, D]`, and return the same shape.
#
# - `gated(o, x, w)`: the layer's input `x` is `[B, T, C]`, `w` is `[C, H * D]`. The gates are the
#   logistic function 1 / (1 + e^−z) of `x @ w`: one number between 0 and 1 **for every number of
#   every head**. Split them into heads as in heads-2, and multiply `o` by them. Numbers `z` of
#   ±1000 give gates of 1 and 0, never NaN.
# - `drop_heads(o, keep, training)`: `keep` is boolean `[B, H]`, drawn by someone else. In
#   **training** the heads with `False` become 0, and the others are divided by the share of heads
#   that **this example** keeps, so that the sum over heads stays about as large. An example that
#   keeps no head gives zeros. In **evaluation** (`training` is false) all of `o` comes back as it
#   was.
#
# The caller's `o` stays unchanged. Half of the points are for a case that has all of it at once.
#
# **A miniature.** Three heads that say 1, 2 and 3, and `keep = [[True, False, True]]`: two thirds
# of the heads stay, so the result is 1.5, 0 and 4.5. The sum is 6, as before.
#
# Read first: *Drop-head and gates* in [chapter 4](../book/04_heads.ipynb).
#
# <details>
# <summary>Hint 1 for heads-4: which gate belongs to which number?</summary>
#
# `x @ w` is laid out like a merged token: the gates of head 0 first, then those of head 1. They
# need the same way into heads as any other merged token.
#
# </details>
#
# <details>
# <summary>Hint 2 for heads-4: whose share?</summary>
#
# Each example has its own row of `keep`, so its own share. Give the factor one axis for each axis
# of `o`. And decide what to divide by where nothing is kept.
#
# </details>


# %% answer heads-4 points=4 minutes=12 difficulty=2 forbid=attnlearn
def gated(o, x, w):
    """o [B, H, T, D], x [B, T, C], w [C, H*D] -> o times its gates, [B, H, T, D]."""
    # BEGIN SOLUTION
    B, H, T, D = o.shape
    gates = 1 / (1 + np.exp(-(x @ w)))
    return o * gates.reshape(B, T, H, D).transpose(0, 2, 1, 3)
    # END SOLUTION


def drop_heads(o, keep, training):
    """o [B, H, T, D], keep bool [B, H] -> o without the dropped heads, the others rescaled."""
    # BEGIN SOLUTION
    if not training:
        return o
    share = keep.mean(1, keepdims=True)
    factor = keep / np.where(share == 0, 1, share)
    return o * factor[:, :, None, None]
    # END SOLUTION


# %% check heads-4
case = check("heads-4")
_some = np.array([[1, 0, 1], [0, 0, 1]], bool)
_none = np.array([[0, 0, 0], [1, 1, 1]], bool)


def _o(rng, T=4, D=2):
    return rng.normal(size=(2, 3, T, D))


case(
    "gates: a model 5 wide",
    lambda rng: gated(_o(rng), rng.normal(size=(2, 4, 5)), rng.normal(size=(5, 6))),
)
case(
    "gates: 3 tokens, 3 heads",
    lambda rng: gated(_o(rng, 3), rng.normal(size=(2, 3, 6)), rng.normal(size=(6, 6))),
)


@case("gates: numbers near 1000 and -1000")
def _(rng):
    x = np.array([[1.0, -1, -1, 1], [-1, 1, 1, 1]])[..., None]
    return gated(_o(rng), x, np.full((1, 6), 1000.0))


case("training: some heads stay", lambda rng: drop_heads(_o(rng), _some, True), weight=2)
case("training: no head stays", lambda rng: drop_heads(_o(rng), _none, True))
case("evaluation", lambda rng: drop_heads(_o(rng), _some, False))


@case("o stays unchanged")
def _(rng):
    o, x, w = _o(rng), rng.normal(size=(2, 4, 6)), rng.normal(size=(6, 6))
    before = o.copy()
    gated(o, x, w)
    after_gates = o - before
    drop_heads(o, _some, True)
    return {"gates": after_gates, "drop-head": o - before}


@case("all of it at once", weight=8)
def _(rng):
    o = rng.normal(size=(3, 3, 2, 2))
    x, w = rng.normal(size=(3, 2, 6)), rng.normal(size=(6, 6))
    x[0, 0], w[:, 0] = 300, 3  # one number near 5000
    keep = np.array([[1, 0, 1], [0, 0, 0], [0, 1, 0]], bool)
    before = o.copy()
    gates, training = gated(o, x, w), drop_heads(o, keep, True)
    evaluation = drop_heads(o, keep, False)
    same = np.array_equal(o, before)
    return {"gates": gates, "training": training, "evaluation": evaluation, "o kept": same}


# %% hidden heads-4
case = check("heads-4")


@case("one wide head and a long text")
def _(rng):
    o, x = rng.normal(size=(2, 1, 7, 3)), rng.normal(size=(2, 7, 4))
    keep = np.array([[True], [False]])
    return {"gates": gated(o, x, rng.normal(size=(4, 3))), "dropped": drop_heads(o, keep, True)}


# %% right heads-4 gates by tanh, heads kept by choosing
def gated(o, x, w):
    H, D = o.shape[1], o.shape[3]
    gates = (1 + np.tanh(np.einsum("btc,chd->bhtd", x, w.reshape(-1, H, D)) / 2)) / 2
    return gates * o


def drop_heads(o, keep, training):
    if not training:
        return o.copy()
    kept = np.maximum(keep.sum(1), 1)[:, None, None, None]
    return np.where(keep[..., None, None], o * o.shape[1] / kept, 0)


# %% right heads-4 head by head
def gated(o, x, w):
    H, D = o.shape[1], o.shape[3]
    out = np.empty_like(o)
    for h in range(H):
        z = x @ w[:, h * D : (h + 1) * D]
        out[:, h] = o[:, h] / (1 + np.exp(-z))
    return out


def drop_heads(o, keep, training):
    out = np.array(o)
    if training:
        for b, row in enumerate(keep):
            out[b, ~row] = 0
            if row.any():
                out[b] /= row.mean()
    return out


# %% wrong heads-4 gates reshaped without moving an axis
# Your gates sit at the wrong numbers: a reshape alone takes tokens for heads. Split the gates as
# you split a token.
# Seen: reczoo/FuxiCTR#30
def gated(o, x, w):
    B, H, T, D = o.shape
    gates = 1 / (1 + np.exp(-(x @ w)))
    return o * gates.reshape(B, H, T, D)


def drop_heads(o, keep, training):
    if not training:
        return o
    share = keep.mean(1, keepdims=True)
    factor = keep / np.where(share == 0, 1, share)
    return o * factor[:, :, None, None]


# %% wrong heads-4 gates dealt out in turns
# Your gates go to the heads in turns. The first D of them belong to head 0.
def gated(o, x, w):
    B, H, T, D = o.shape
    gates = 1 / (1 + np.exp(-(x @ w)))
    return o * gates.reshape(B, T, D, H).transpose(0, 3, 1, 2)


def drop_heads(o, keep, training):
    if not training:
        return o
    share = keep.mean(1, keepdims=True)
    factor = keep / np.where(share == 0, 1, share)
    return o * factor[:, :, None, None]


# %% wrong heads-4 gates computed from the output
# Your gates look at the heads' output. They should look at what came into the layer, so that a
# token can close a head before it has spoken.
# Seen: wandb/senpai#1379
def gated(o, x, w):
    B, H, T, D = o.shape
    gates = 1 / (1 + np.exp(-(o.transpose(0, 2, 1, 3).reshape(B, T, H * D) @ w)))
    return o * gates.reshape(B, T, H, D).transpose(0, 2, 1, 3)


def drop_heads(o, keep, training):
    if not training:
        return o
    share = keep.mean(1, keepdims=True)
    factor = keep / np.where(share == 0, 1, share)
    return o * factor[:, :, None, None]


# %% wrong heads-4 a softmax in place of a gate
# Your gates compete: they sum to 1. A gate opens and closes on its own, and all of them may be
# open.
def gated(o, x, w):
    B, H, T, D = o.shape
    z = x @ w
    gates = np.exp(z - z.max(-1, keepdims=True))
    gates = gates / gates.sum(-1, keepdims=True)
    return o * gates.reshape(B, T, H, D).transpose(0, 2, 1, 3)


def drop_heads(o, keep, training):
    if not training:
        return o
    share = keep.mean(1, keepdims=True)
    factor = keep / np.where(share == 0, 1, share)
    return o * factor[:, :, None, None]


# %% wrong heads-4 the gates are not squashed
# You multiply by x @ w itself. A gate lies between 0 and 1.
def gated(o, x, w):
    B, H, T, D = o.shape
    gates = x @ w
    return o * gates.reshape(B, T, H, D).transpose(0, 2, 1, 3)


def drop_heads(o, keep, training):
    if not training:
        return o
    share = keep.mean(1, keepdims=True)
    factor = keep / np.where(share == 0, 1, share)
    return o * factor[:, :, None, None]


# %% wrong heads-4 the gate is upside down
# Your gates close where they should open. Check the sign in the exponent: a large number opens
# the gate.
def gated(o, x, w):
    B, H, T, D = o.shape
    gates = 1 / (1 + np.exp(x @ w))
    return o * gates.reshape(B, T, H, D).transpose(0, 2, 1, 3)


def drop_heads(o, keep, training):
    if not training:
        return o
    share = keep.mean(1, keepdims=True)
    factor = keep / np.where(share == 0, 1, share)
    return o * factor[:, :, None, None]


# %% wrong heads-4 infinity divided by infinity
# Your logistic function divides e^z by 1 + e^z. At z = 1000 both are infinite. Write it so that
# only one of them can overflow, and harmlessly.
# Seen: clab/dynet#1525
def gated(o, x, w):
    B, H, T, D = o.shape
    gates = np.exp(x @ w) / (1 + np.exp(x @ w))
    return o * gates.reshape(B, T, H, D).transpose(0, 2, 1, 3)


def drop_heads(o, keep, training):
    if not training:
        return o
    share = keep.mean(1, keepdims=True)
    factor = keep / np.where(share == 0, 1, share)
    return o * factor[:, :, None, None]


# %% wrong heads-4 one gate for a whole head
# You average the gates of a head. Each of its numbers has a gate of its own here.
def gated(o, x, w):
    B, H, T, D = o.shape
    gates = 1 / (1 + np.exp(-(x @ w)))
    return o * gates.reshape(B, T, H, D).mean(-1, keepdims=True).transpose(0, 2, 1, 3)


def drop_heads(o, keep, training):
    if not training:
        return o
    share = keep.mean(1, keepdims=True)
    factor = keep / np.where(share == 0, 1, share)
    return o * factor[:, :, None, None]


# %% wrong heads-4 not rescaled
# You drop heads and leave the others as they were. The layer's output then shrinks in training
# and is larger in evaluation than anything W_o has seen.
# Seen: facebookresearch/dinov2#442
# Seen: huggingface/pytorch-image-models#887
def gated(o, x, w):
    B, H, T, D = o.shape
    gates = 1 / (1 + np.exp(-(x @ w)))
    return o * gates.reshape(B, T, H, D).transpose(0, 2, 1, 3)


def drop_heads(o, keep, training):
    if not training:
        return o
    return o * keep[:, :, None, None]


# %% wrong heads-4 multiplied by the share
# You multiply by the share that stays, so the fewer heads remain, the quieter they get. They
# should make up for the ones that pause.
# Seen: NVIDIA/apex#816
def gated(o, x, w):
    B, H, T, D = o.shape
    gates = 1 / (1 + np.exp(-(x @ w)))
    return o * gates.reshape(B, T, H, D).transpose(0, 2, 1, 3)


def drop_heads(o, keep, training):
    if not training:
        return o
    share = keep.mean(1, keepdims=True)
    factor = keep * share
    return o * factor[:, :, None, None]


# %% wrong heads-4 one share for the whole batch
# You take the share over the whole batch. An example that keeps one head needs another factor
# than one that keeps them all.
def gated(o, x, w):
    B, H, T, D = o.shape
    gates = 1 / (1 + np.exp(-(x @ w)))
    return o * gates.reshape(B, T, H, D).transpose(0, 2, 1, 3)


def drop_heads(o, keep, training):
    if not training:
        return o
    share = keep.mean()
    factor = keep / np.where(share == 0, 1, share)
    return o * factor[:, :, None, None]


# %% wrong heads-4 one draw for the whole batch
# Every example drops the heads of the first one. Each has a row of `keep` of its own.
# Seen: huggingface/pytorch-image-models#2118
def gated(o, x, w):
    B, H, T, D = o.shape
    gates = 1 / (1 + np.exp(-(x @ w)))
    return o * gates.reshape(B, T, H, D).transpose(0, 2, 1, 3)


def drop_heads(o, keep, training):
    if not training:
        return o
    keep = np.broadcast_to(keep[0], keep.shape)
    share = keep.mean(1, keepdims=True)
    factor = keep / np.where(share == 0, 1, share)
    return o * factor[:, :, None, None]


# %% wrong heads-4 True drops
# You drop the heads that should stay. `keep` says what it means: True stays.
def gated(o, x, w):
    B, H, T, D = o.shape
    gates = 1 / (1 + np.exp(-(x @ w)))
    return o * gates.reshape(B, T, H, D).transpose(0, 2, 1, 3)


def drop_heads(o, keep, training):
    if not training:
        return o
    keep = ~keep
    share = keep.mean(1, keepdims=True)
    factor = keep / np.where(share == 0, 1, share)
    return o * factor[:, :, None, None]


# %% wrong heads-4 NaN where no head stays
# An example that keeps no head becomes NaN: its share is 0, and 0 divided by 0 is not a number.
# Give it zeros.
def gated(o, x, w):
    B, H, T, D = o.shape
    gates = 1 / (1 + np.exp(-(x @ w)))
    return o * gates.reshape(B, T, H, D).transpose(0, 2, 1, 3)


def drop_heads(o, keep, training):
    if not training:
        return o
    share = keep.mean(1, keepdims=True)
    factor = keep / share
    return o * factor[:, :, None, None]


# %% wrong heads-4 dropped in evaluation
# You drop heads in evaluation, too. Then the same text gets another answer each time.
# Seen: pytorch/pytorch#124464
# Seen: wenet-e2e/wenet#2699
def gated(o, x, w):
    B, H, T, D = o.shape
    gates = 1 / (1 + np.exp(-(x @ w)))
    return o * gates.reshape(B, T, H, D).transpose(0, 2, 1, 3)


def drop_heads(o, keep, training):
    share = keep.mean(1, keepdims=True)
    factor = keep / np.where(share == 0, 1, share)
    return o * factor[:, :, None, None]


# %% wrong heads-4 rescaled a second time in evaluation
# In evaluation you multiply by the share that was kept. The factor in training has already seen
# to that: now nothing needs to change.
# Seen: mosaicml/composer#372
def gated(o, x, w):
    B, H, T, D = o.shape
    gates = 1 / (1 + np.exp(-(x @ w)))
    return o * gates.reshape(B, T, H, D).transpose(0, 2, 1, 3)


def drop_heads(o, keep, training):
    share = keep.mean(1, keepdims=True)
    if not training:
        return o * share[:, :, None, None]
    factor = keep / np.where(share == 0, 1, share)
    return o * factor[:, :, None, None]


# %% wrong heads-4 written into o
# You change the array that the caller gave you. Whoever needs the heads' outputs again finds them
# spoilt.
def gated(o, x, w):
    B, H, T, D = o.shape
    gates = 1 / (1 + np.exp(-(x @ w)))
    return o * gates.reshape(B, T, H, D).transpose(0, 2, 1, 3)


def drop_heads(o, keep, training):
    if not training:
        return o
    share = keep.mean(1, keepdims=True)
    factor = keep / np.where(share == 0, 1, share)
    o *= factor[:, :, None, None]
    return o


# %% wrong heads-4 the gates are written into o
# Your gates change the array that the caller gave you. Whoever needs the heads' outputs again finds
# them spoilt.
def gated(o, x, w):
    B, H, T, D = o.shape
    gates = 1 / (1 + np.exp(-(x @ w)))
    o *= gates.reshape(B, T, H, D).transpose(0, 2, 1, 3)
    return o


def drop_heads(o, keep, training):
    if not training:
        return o
    share = keep.mean(1, keepdims=True)
    factor = keep / np.where(share == 0, 1, share)
    return o * factor[:, :, None, None]


# %% [markdown]
# ## heads-5: Mend a widely copied multi-head attention
#
# *heads-5 · 6 points · 16 minutes · ●●●○ difficulty 3 of 4*
#
# The function in the next cell is put together from lines that many repositories share. It runs,
# the shapes are right, and it is wrong in several places. Copy it into the answer cell as
# `multi_head` and mend it until it keeps its promise:
#
# - `x` is `[B, T, C]`; `w` is a dictionary with four matrices `[C, C]`, `"q"`, `"k"`, `"v"` and
#   `"o"`, each used as `input @ matrix`; the result is `[B, T, C]`;
# - each of the `heads` heads owns one stretch of `D = C / heads` neighbouring numbers of q, k and
#   v, and attends with scores divided by the square root of its width;
# - every token may look at every token of its example (masks come in the next task);
# - dropout on the weights happens **in training only**. `keep` is boolean `[B, H, T, T]`, drawn
#   by someone else: weights with `False` become 0, the others are divided by `1 - rate`;
# - at the end the merged heads go through `w["o"]`.
#
# Half of the points are for a case that has all of it at once.
#
# **A miniature.** One token and no dropout: it looks at itself with weight 1, so the result is
# `x @ w["v"] @ w["o"]`, whatever the number of heads. Try that first.
#
# Read first: *Heads are subspaces: split and merge* and *What the projections cost* in
# [chapter 4](../book/04_heads.ipynb), and *Drop-head and gates* on what changes in evaluation.
#
# <details>
# <summary>Hint 1 for heads-5: how to find the faults</summary>
#
# Choose inputs for which you know the answer: one token; equal tokens; tokens in another order,
# which must only reorder the result; and a `keep` that must not matter.
#
# </details>
#
# <details>
# <summary>Hint 2 for heads-5: follow the shapes</summary>
#
# Write the shape beside each line, and after each reshape say which token a row belongs to. Then
# ask of every division where its number comes from, and of `w` whether all of it is used.
#
# </details>


# %%
def multi_head_copied(x, w, heads, keep, rate, training):
    """Wrong: find out where, then mend it in the answer cell below."""
    B, T, C = x.shape
    q = (x @ w["q"]).reshape(B, heads, T, C // heads)
    k = (x @ w["k"]).reshape(B, heads, T, C // heads)
    v = (x @ w["v"]).reshape(B, heads, T, C // heads)
    scores = q @ np.swapaxes(k, -1, -2) / np.sqrt(C)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights = weights / weights.sum(-1, keepdims=True)
    weights = weights * keep
    return (weights @ v).reshape(B, T, C)


# %% answer heads-5 points=6 minutes=16 difficulty=3 forbid=attnlearn,scaled_dot_product_attention
def multi_head(x, w, heads, keep, rate, training):
    """x [B, T, C], w four [C, C], keep bool [B, H, T, T] -> [B, T, C]."""
    # BEGIN SOLUTION
    B, T, C = x.shape
    D = C // heads
    q = (x @ w["q"]).reshape(B, T, heads, D).transpose(0, 2, 1, 3)
    k = (x @ w["k"]).reshape(B, T, heads, D).transpose(0, 2, 1, 3)
    v = (x @ w["v"]).reshape(B, T, heads, D).transpose(0, 2, 1, 3)
    scores = q @ np.swapaxes(k, -1, -2) / np.sqrt(D)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights = weights / weights.sum(-1, keepdims=True)
    if training:
        weights = weights * keep / (1 - rate)
    o = (weights @ v).transpose(0, 2, 1, 3).reshape(B, T, C)
    return o @ w["o"]
    # END SOLUTION


# %% check heads-5
case = check("heads-5")


def _w(rng, C):
    return {name: rng.normal(size=(C, C)) / 2 for name in "qkvo"}


def _keep(rng, B, H, T):
    keep = rng.rand(B, H, T, T) < 0.6
    keep[..., 0, :] = [False] + [True] * (T - 1)  # some go, some stay
    return keep


def _run(rng, B, T, C, H, training=False, rate=0.4):
    return multi_head(
        rng.normal(size=(B, T, C)), _w(rng, C), H, _keep(rng, B, H, T), rate, training
    )


case("evaluation: one token", lambda rng: _run(rng, 2, 1, 4, 2))
case("evaluation: one head", lambda rng: _run(rng, 2, 4, 3, 1))
case("evaluation: 2 heads", lambda rng: _run(rng, 2, 3, 4, 2))
case("training: 2 heads", lambda rng: _run(rng, 2, 3, 4, 2, True))


@case("equal tokens give equal rows")
def _(rng):
    x, w = np.tile(rng.normal(size=(1, 1, 6)), (1, 3, 1)), _w(rng, 6)
    return multi_head(x, w, 3, np.ones((1, 3, 3, 3), bool), 0.0, False)


@case("tokens in another order")
def _(rng):
    x, w, order = rng.normal(size=(1, 4, 6)), _w(rng, 6), [2, 0, 3, 1]
    keep = np.ones((1, 3, 4, 4), bool)
    first = multi_head(x, w, 3, keep, 0.0, True)
    return {
        "moved": multi_head(x[:, order], w, 3, keep, 0.0, True) - first[:, order],
        "first": first,
    }


@case("all of it at once", weight=6)
def _(rng):
    x, w = rng.normal(size=(2, 3, 6)), _w(rng, 6)
    keep = _keep(rng, 2, 3, 3)
    x[1] *= 20  # scores in the thousands
    calm = multi_head(x, w, 3, keep, 0.25, False)
    return {"evaluation": calm, "training": multi_head(x, w, 3, keep, 0.25, True)}


# %% hidden heads-5
case = check("heads-5")


@case("three heads of 5, a high rate")
def _(rng):
    return _run(rng, 2, 4, 15, 3, True, 0.8)


# %% right heads-5 einsum, one product per head in W_o
def multi_head(x, w, heads, keep, rate, training):
    C = x.shape[-1]
    D = C // heads
    per_head = {name: m.reshape(C, heads, D) for name, m in w.items() if name != "o"}
    q, k, v = (np.einsum("btc,chd->bhtd", x, per_head[name]) for name in "qkv")
    scores = np.einsum("bhtd,bhsd->bhts", q, k) * D**-0.5
    p = np.exp(scores - np.logaddexp.reduce(scores, axis=-1, keepdims=True))
    if training:
        p = np.where(keep, p / (1 - rate), 0)
    return np.einsum("bhts,bhsd,hdc->btc", p, v, w["o"].reshape(heads, D, C))


# %% right heads-5 head by head
def multi_head(x, w, heads, keep, rate, training):
    D = x.shape[-1] // heads
    out = np.zeros_like(x)
    for h in range(heads):
        own = slice(h * D, (h + 1) * D)
        q, k, v = (x @ w[name][:, own] for name in "qkv")
        scores = q @ k.transpose(0, 2, 1) / D**0.5
        p = np.exp(scores - scores.max(-1, keepdims=True))
        p = p / p.sum(-1, keepdims=True)
        if training:
            p = p * keep[:, h] / (1 - rate)
        out = out + p @ v @ w["o"][own]
    return out


# %% wrong heads-5 as it was copied
# Nothing is mended yet. Start with a single token, where the weights can't matter: which part of
# `w` is never used?
def multi_head(x, w, heads, keep, rate, training):
    B, T, C = x.shape
    q = (x @ w["q"]).reshape(B, heads, T, C // heads)
    k = (x @ w["k"]).reshape(B, heads, T, C // heads)
    v = (x @ w["v"]).reshape(B, heads, T, C // heads)
    scores = q @ np.swapaxes(k, -1, -2) / np.sqrt(C)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights = weights / weights.sum(-1, keepdims=True)
    weights = weights * keep
    return (weights @ v).reshape(B, T, C)


# %% wrong heads-5 split by a reshape alone
# Your heads still hold whole tokens in place of a stretch of each. Reorder the tokens: the result
# must be reordered, and nothing else.
# Seen: reczoo/FuxiCTR#30
# Seen: hyunwoongko/transformer#15
def multi_head(x, w, heads, keep, rate, training):
    B, T, C = x.shape
    D = C // heads
    q = (x @ w["q"]).reshape(B, heads, T, D)
    k = (x @ w["k"]).reshape(B, heads, T, D)
    v = (x @ w["v"]).reshape(B, heads, T, D)
    scores = q @ np.swapaxes(k, -1, -2) / np.sqrt(D)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights = weights / weights.sum(-1, keepdims=True)
    if training:
        weights = weights * keep / (1 - rate)
    o = (weights @ v).transpose(0, 2, 1, 3).reshape(B, T, C)
    return o @ w["o"]


# %% wrong heads-5 merged by a reshape alone
# Your merge still takes head and token for neighbours. Each row of the result then holds several
# tokens of one head.
# Seen: jsbaan/transformer-from-scratch#6
# Seen: ajhalthor/Transformer-Neural-Network#8
def multi_head(x, w, heads, keep, rate, training):
    B, T, C = x.shape
    D = C // heads
    q = (x @ w["q"]).reshape(B, T, heads, D).transpose(0, 2, 1, 3)
    k = (x @ w["k"]).reshape(B, T, heads, D).transpose(0, 2, 1, 3)
    v = (x @ w["v"]).reshape(B, T, heads, D).transpose(0, 2, 1, 3)
    scores = q @ np.swapaxes(k, -1, -2) / np.sqrt(D)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights = weights / weights.sum(-1, keepdims=True)
    if training:
        weights = weights * keep / (1 - rate)
    o = (weights @ v).reshape(B, T, C)
    return o @ w["o"]


# %% wrong heads-5 both by a reshape alone
# Split and merge still move no axis. They undo each other for one token, but with several a head
# mixes pieces of different tokens.
# Seen: 649453932/Chinese-Text-Classification-Pytorch#53
def multi_head(x, w, heads, keep, rate, training):
    B, T, C = x.shape
    D = C // heads
    q = (x @ w["q"]).reshape(B, heads, T, D)
    k = (x @ w["k"]).reshape(B, heads, T, D)
    v = (x @ w["v"]).reshape(B, heads, T, D)
    scores = q @ np.swapaxes(k, -1, -2) / np.sqrt(D)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights = weights / weights.sum(-1, keepdims=True)
    if training:
        weights = weights * keep / (1 - rate)
    o = (weights @ v).reshape(B, T, C)
    return o @ w["o"]


# %% wrong heads-5 scaled by the model's width
# You still divide by the square root of the whole width. A head's score adds up only the products
# of its own numbers.
# Seen: omihub777/ViT-CIFAR#11
# Seen: Graylab/DL4Proteins-notebooks#12
def multi_head(x, w, heads, keep, rate, training):
    B, T, C = x.shape
    D = C // heads
    q = (x @ w["q"]).reshape(B, T, heads, D).transpose(0, 2, 1, 3)
    k = (x @ w["k"]).reshape(B, T, heads, D).transpose(0, 2, 1, 3)
    v = (x @ w["v"]).reshape(B, T, heads, D).transpose(0, 2, 1, 3)
    scores = q @ np.swapaxes(k, -1, -2) / np.sqrt(C)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights = weights / weights.sum(-1, keepdims=True)
    if training:
        weights = weights * keep / (1 - rate)
    o = (weights @ v).transpose(0, 2, 1, 3).reshape(B, T, C)
    return o @ w["o"]


# %% wrong heads-5 scaled by the number of heads
# You divide by the square root of the number of heads. Which number counts the products in one
# score?
# Seen: tenstorrent/tt-metal#56789
def multi_head(x, w, heads, keep, rate, training):
    B, T, C = x.shape
    D = C // heads
    q = (x @ w["q"]).reshape(B, T, heads, D).transpose(0, 2, 1, 3)
    k = (x @ w["k"]).reshape(B, T, heads, D).transpose(0, 2, 1, 3)
    v = (x @ w["v"]).reshape(B, T, heads, D).transpose(0, 2, 1, 3)
    scores = q @ np.swapaxes(k, -1, -2) / np.sqrt(heads)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights = weights / weights.sum(-1, keepdims=True)
    if training:
        weights = weights * keep / (1 - rate)
    o = (weights @ v).transpose(0, 2, 1, 3).reshape(B, T, C)
    return o @ w["o"]


# %% wrong heads-5 no output projection
# You return the merged heads. Without W_o they stay side by side, and no number of the result can
# draw on two heads.
# Seen: Kyubyong/transformer#117
# Seen: jwallbridge/translob#4
def multi_head(x, w, heads, keep, rate, training):
    B, T, C = x.shape
    D = C // heads
    q = (x @ w["q"]).reshape(B, T, heads, D).transpose(0, 2, 1, 3)
    k = (x @ w["k"]).reshape(B, T, heads, D).transpose(0, 2, 1, 3)
    v = (x @ w["v"]).reshape(B, T, heads, D).transpose(0, 2, 1, 3)
    scores = q @ np.swapaxes(k, -1, -2) / np.sqrt(D)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights = weights / weights.sum(-1, keepdims=True)
    if training:
        weights = weights * keep / (1 - rate)
    o = (weights @ v).transpose(0, 2, 1, 3).reshape(B, T, C)
    return o


# %% wrong heads-5 the output projection transposed
# You use W_o with rows and columns exchanged. It is square, so no shape complains: every matrix
# of `w` is used as input @ matrix.
# Seen: AaltoML/SUQ#2
def multi_head(x, w, heads, keep, rate, training):
    B, T, C = x.shape
    D = C // heads
    q = (x @ w["q"]).reshape(B, T, heads, D).transpose(0, 2, 1, 3)
    k = (x @ w["k"]).reshape(B, T, heads, D).transpose(0, 2, 1, 3)
    v = (x @ w["v"]).reshape(B, T, heads, D).transpose(0, 2, 1, 3)
    scores = q @ np.swapaxes(k, -1, -2) / np.sqrt(D)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights = weights / weights.sum(-1, keepdims=True)
    if training:
        weights = weights * keep / (1 - rate)
    o = (weights @ v).transpose(0, 2, 1, 3).reshape(B, T, C)
    return o @ w["o"].T


# %% wrong heads-5 dropout in evaluation
# You still drop weights in evaluation. Two calls with two draws of `keep` should agree there.
# Seen: pytorch/pytorch#124464
# Seen: wenet-e2e/wenet#2699
def multi_head(x, w, heads, keep, rate, training):
    B, T, C = x.shape
    D = C // heads
    q = (x @ w["q"]).reshape(B, T, heads, D).transpose(0, 2, 1, 3)
    k = (x @ w["k"]).reshape(B, T, heads, D).transpose(0, 2, 1, 3)
    v = (x @ w["v"]).reshape(B, T, heads, D).transpose(0, 2, 1, 3)
    scores = q @ np.swapaxes(k, -1, -2) / np.sqrt(D)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights = weights / weights.sum(-1, keepdims=True)
    weights = weights * keep / (1 - rate)
    o = (weights @ v).transpose(0, 2, 1, 3).reshape(B, T, C)
    return o @ w["o"]


# %% wrong heads-5 no dropout at all
# Your dropout is gone, in training as well. Only in evaluation should nothing happen.
def multi_head(x, w, heads, keep, rate, training):
    B, T, C = x.shape
    D = C // heads
    q = (x @ w["q"]).reshape(B, T, heads, D).transpose(0, 2, 1, 3)
    k = (x @ w["k"]).reshape(B, T, heads, D).transpose(0, 2, 1, 3)
    v = (x @ w["v"]).reshape(B, T, heads, D).transpose(0, 2, 1, 3)
    scores = q @ np.swapaxes(k, -1, -2) / np.sqrt(D)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights = weights / weights.sum(-1, keepdims=True)
    o = (weights @ v).transpose(0, 2, 1, 3).reshape(B, T, C)
    return o @ w["o"]


# %% wrong heads-5 dropout without rescaling
# In training you drop weights and leave the others as they are. Their sum shrinks, so training
# and evaluation no longer speak equally loud.
def multi_head(x, w, heads, keep, rate, training):
    B, T, C = x.shape
    D = C // heads
    q = (x @ w["q"]).reshape(B, T, heads, D).transpose(0, 2, 1, 3)
    k = (x @ w["k"]).reshape(B, T, heads, D).transpose(0, 2, 1, 3)
    v = (x @ w["v"]).reshape(B, T, heads, D).transpose(0, 2, 1, 3)
    scores = q @ np.swapaxes(k, -1, -2) / np.sqrt(D)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights = weights / weights.sum(-1, keepdims=True)
    if training:
        weights = weights * keep
    o = (weights @ v).transpose(0, 2, 1, 3).reshape(B, T, C)
    return o @ w["o"]


# %% wrong heads-5 rescaled by the rate
# You divide by the rate. What counts is the share that stays.
# Seen: NVIDIA/apex#816
def multi_head(x, w, heads, keep, rate, training):
    B, T, C = x.shape
    D = C // heads
    q = (x @ w["q"]).reshape(B, T, heads, D).transpose(0, 2, 1, 3)
    k = (x @ w["k"]).reshape(B, T, heads, D).transpose(0, 2, 1, 3)
    v = (x @ w["v"]).reshape(B, T, heads, D).transpose(0, 2, 1, 3)
    scores = q @ np.swapaxes(k, -1, -2) / np.sqrt(D)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights = weights / weights.sum(-1, keepdims=True)
    if training:
        weights = weights * keep / rate if rate else weights
    o = (weights @ v).transpose(0, 2, 1, 3).reshape(B, T, C)
    return o @ w["o"]


# %% wrong heads-5 shared out again after dropout
# You make the rows sum to 1 again after dropping. The factor is fixed here, 1 / (1 - rate), so
# that dropping a large weight changes the sum.
def multi_head(x, w, heads, keep, rate, training):
    B, T, C = x.shape
    D = C // heads
    q = (x @ w["q"]).reshape(B, T, heads, D).transpose(0, 2, 1, 3)
    k = (x @ w["k"]).reshape(B, T, heads, D).transpose(0, 2, 1, 3)
    v = (x @ w["v"]).reshape(B, T, heads, D).transpose(0, 2, 1, 3)
    scores = q @ np.swapaxes(k, -1, -2) / np.sqrt(D)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights = weights / weights.sum(-1, keepdims=True)
    if training:
        weights = weights * keep
        weights = weights / weights.sum(-1, keepdims=True)
    o = (weights @ v).transpose(0, 2, 1, 3).reshape(B, T, C)
    return o @ w["o"]


# %% wrong heads-5 every H-th number
# Your heads take numbers in turns. Each owns one stretch of neighbours, in q, k and v, and in
# what W_o reads.
def multi_head(x, w, heads, keep, rate, training):
    B, T, C = x.shape
    D = C // heads
    q = (x @ w["q"]).reshape(B, T, D, heads).transpose(0, 3, 1, 2)
    k = (x @ w["k"]).reshape(B, T, D, heads).transpose(0, 3, 1, 2)
    v = (x @ w["v"]).reshape(B, T, D, heads).transpose(0, 3, 1, 2)
    scores = q @ np.swapaxes(k, -1, -2) / np.sqrt(D)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights = weights / weights.sum(-1, keepdims=True)
    if training:
        weights = weights * keep / (1 - rate)
    o = (weights @ v).transpose(0, 2, 3, 1).reshape(B, T, C)
    return o @ w["o"]


# %% wrong heads-5 a softmax over the heads
# Your weights sum to 1 over the heads, so the heads compete for each key. Each head shares out a
# weight of 1 among keys, on its own.
# Seen: CAMMA-public/rendezvous-in-time#3
def multi_head(x, w, heads, keep, rate, training):
    B, T, C = x.shape
    D = C // heads
    q = (x @ w["q"]).reshape(B, T, heads, D).transpose(0, 2, 1, 3)
    k = (x @ w["k"]).reshape(B, T, heads, D).transpose(0, 2, 1, 3)
    v = (x @ w["v"]).reshape(B, T, heads, D).transpose(0, 2, 1, 3)
    scores = q @ np.swapaxes(k, -1, -2) / np.sqrt(D)
    weights = np.exp(scores - scores.max(1, keepdims=True))
    weights = weights / weights.sum(1, keepdims=True)
    if training:
        weights = weights * keep / (1 - rate)
    o = (weights @ v).transpose(0, 2, 1, 3).reshape(B, T, C)
    return o @ w["o"]


# %% wrong heads-5 queries and keys exchanged
# Your keys ask and your queries answer: rows and columns of the scores are exchanged.
def multi_head(x, w, heads, keep, rate, training):
    B, T, C = x.shape
    D = C // heads
    q = (x @ w["q"]).reshape(B, T, heads, D).transpose(0, 2, 1, 3)
    k = (x @ w["k"]).reshape(B, T, heads, D).transpose(0, 2, 1, 3)
    v = (x @ w["v"]).reshape(B, T, heads, D).transpose(0, 2, 1, 3)
    scores = k @ np.swapaxes(q, -1, -2) / np.sqrt(D)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights = weights / weights.sum(-1, keepdims=True)
    if training:
        weights = weights * keep / (1 - rate)
    o = (weights @ v).transpose(0, 2, 1, 3).reshape(B, T, C)
    return o @ w["o"]


# %% wrong heads-5 the heads are averaged into one map
# You average the scores of all heads before the softmax. Then there is one softmax, and it can't
# look at two places.
def multi_head(x, w, heads, keep, rate, training):
    B, T, C = x.shape
    D = C // heads
    q = (x @ w["q"]).reshape(B, T, heads, D).transpose(0, 2, 1, 3)
    k = (x @ w["k"]).reshape(B, T, heads, D).transpose(0, 2, 1, 3)
    v = (x @ w["v"]).reshape(B, T, heads, D).transpose(0, 2, 1, 3)
    scores = q @ np.swapaxes(k, -1, -2) / np.sqrt(D)
    scores = np.broadcast_to(scores.mean(1, keepdims=True), scores.shape)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights = weights / weights.sum(-1, keepdims=True)
    if training:
        weights = weights * keep / (1 - rate)
    o = (weights @ v).transpose(0, 2, 1, 3).reshape(B, T, C)
    return o @ w["o"]


# %% [markdown]
# ## heads-6: Grouped heads without copies of the keys
#
# *heads-6 · 6 points · 18 minutes · ●●●● difficulty 4 of 4*
#
# Build `grouped_attention(q, k, v, mask=None)`:
#
# - `q` is `[B, Hq, T, D]`, `k` is `[B, Hk, S, D]`, `v` is `[B, Hk, S, E]`, the result
#   `[B, Hq, T, E]`. `T` and `S` may differ, and so may `D` and `E`;
# - **query head `h` reads key head `h // (Hq / Hk)`**: neighbours share. `Hk = Hq` is plain
#   multi-head attention, `Hk = 1` multi-query attention. A number of query heads that is no
#   multiple of `Hk` raises `ValueError`;
# - `mask` is `None` or boolean, `True` = may look, and broadcasts to `[B, Hq, T, S]`: one for all
#   heads, or another for each **query** head. A row that sees nothing gives zeros;
# - large scores don't overflow;
# - **no copy of `k` or `v` for every query head**: with 32 query heads and 2 key heads that would
#   be 16 times the cache that grouping has just saved. A case measures the extra memory.
#
# Half of the points are for a case that has all of it at once.
#
# **A miniature.** Four query heads, two key heads, one token: heads 0 and 1 return the value of
# head 0, heads 2 and 3 that of head 1.
#
# Read first: *From MHA to MQA: the KV bytes* in [chapter 4](../book/04_heads.ipynb), and on empty
# rows *A large negative number instead of −∞* in [chapter 3](../book/03_masks.ipynb).
#
# <details>
# <summary>Hint 1 for heads-6: let the queries move</summary>
#
# The keys are large, so leave them where they are. Cut the axis of the query heads in two: which
# of the two new axes matches the axis of the key heads?
#
# </details>
#
# <details>
# <summary>Hint 2 for heads-6: an axis of length 1</summary>
#
# A matrix product broadcasts its leading axes and copies nothing for it. Give the keys an axis of
# length 1 where the queries count the members of a group. A mask that knows the query heads needs
# the same cut.
#
# </details>


# %% answer heads-6 points=6 minutes=18 difficulty=4 forbid=attnlearn,scaled_dot_product_attention
def grouped_attention(q, k, v, mask=None):
    """q [B, Hq, T, D], k [B, Hk, S, D], v [B, Hk, S, E], mask bool -> [B, Hq, T, E]."""
    # BEGIN SOLUTION
    B, Hq, T, D = q.shape
    Hk, S, E = v.shape[1:]
    if Hq % Hk:
        raise ValueError(f"{Hq} query heads are no multiple of {Hk} key heads")
    groups = q.reshape(B, Hk, Hq // Hk, T, D)
    scores = groups @ np.swapaxes(k, -1, -2)[:, :, None] / np.sqrt(D)
    if mask is not None:
        seen = np.broadcast_to(mask, (B, Hq, T, S)).reshape(scores.shape)
        scores = np.where(seen, scores, -np.inf)
    top = scores.max(-1, keepdims=True)
    weights = np.exp(scores - np.where(top == -np.inf, 0, top))
    total = weights.sum(-1, keepdims=True)
    weights = weights / np.where(total == 0, 1, total)
    return (weights @ v[:, :, None]).reshape(B, Hq, T, E)
    # END SOLUTION


# %% check heads-6
case = check("heads-6")


def _qkv(rng, Hq, Hk, T=2, S=3, D=2, E=2, B=2):
    shapes = (B, Hq, T, D), (B, Hk, S, D), (B, Hk, S, E)
    return [rng.normal(size=shape) for shape in shapes]


def _outcome(f):
    try:
        f()
        return "no error"
    except ValueError:
        return "ValueError"


def _extra_mb(f):
    tracemalloc.start()
    try:
        f()
        return tracemalloc.get_traced_memory()[1] / 2**20
    finally:
        tracemalloc.stop()


case("2 query heads, 2 key heads", lambda rng: grouped_attention(*_qkv(rng, 2, 2)))
case("6 query heads, 2 key heads", lambda rng: grouped_attention(*_qkv(rng, 6, 2)))
case("3 query heads, 1 key head, wide values", lambda rng: grouped_attention(*_qkv(rng, 3, 1, E=5)))
case(
    "5 query heads, 2 key heads", lambda rng: _outcome(lambda: grouped_attention(*_qkv(rng, 5, 2)))
)


@case("a causal mask, a query that sees nothing")
def _(rng):
    return grouped_attention(*_qkv(rng, 4, 2, T=3, S=2), np.tri(3, 2, -1, dtype=bool))


@case("another mask for each query head")
def _(rng):
    mask = np.array([[1, 1, 0], [0, 1, 1], [1, 0, 0], [0, 0, 1]], bool)[None, :, None]
    return grouped_attention(*_qkv(rng, 4, 2), mask)


@case("scores near 1000")
def _(rng):
    q, k, v = _qkv(rng, 4, 2, T=1)
    q[0, ..., 0] = k[0, ..., 0] = 40
    return grouped_attention(q, k, v)


@case("extra memory in MB: 32 query heads, 2 key heads, 2048 keys", weight=2, at_most=6)
def _():
    q, k = np.ones((1, 32, 1, 64)), np.ones((1, 2, 2048, 64))
    return _extra_mb(lambda: grouped_attention(q, k, k))


@case("all of it at once", weight=9)
def _(rng):
    q, k, v = _qkv(rng, 6, 2, T=3, S=4, D=3)
    q[0, :, :, 0], k[0, ..., 0] = 50, 50
    mask = np.tri(3, 4, 1, dtype=bool) & (np.arange(6) != 4)[:, None, None]
    mask = mask & (np.arange(4) != np.arange(6)[:, None] % 3)[:, None]
    one, long = np.ones((1, 32, 1, 64)), np.ones((1, 2, 2048, 64))
    return {
        "output": grouped_attention(q, k, v, mask),
        "5 heads, 2 key heads": _outcome(lambda: grouped_attention(q[:, :5], k, v)),
        "too much memory": _extra_mb(lambda: grouped_attention(one, long, long)) > 6,
    }


# %% hidden heads-6
case = check("heads-6")


@case("8 query heads, 4 key heads, a mask per example")
def _(rng):
    real = np.array([[1, 1, 1, 0, 1], [0, 0, 0, 0, 0]], bool)[:, None, None]
    return grouped_attention(*_qkv(rng, 8, 4, S=5, D=4, E=3), real)


# %% right heads-6 the group folded into the queries
def grouped_attention(q, k, v, mask=None):
    B, Hq, T, D = q.shape
    Hk, S = k.shape[1:3]
    if Hq % Hk:
        raise ValueError("the heads do not divide")
    mask = np.ones((1, 1, 1, S), bool) if mask is None else mask
    mask = np.broadcast_to(mask, (B, Hq, T, S)).reshape(B, Hk, -1, S)
    scores = q.reshape(B, Hk, -1, D) @ k.transpose(0, 1, 3, 2) * D**-0.5
    scores = np.where(mask, scores, -np.inf)
    lse = np.logaddexp.reduce(scores, axis=-1, keepdims=True)
    p = np.exp(scores - np.where(np.isfinite(lse), lse, 0))
    return (p @ v).reshape(B, Hq, T, -1)


# %% right heads-6 head by head
def grouped_attention(q, k, v, mask=None):
    (B, Hq, T, D), Hk = q.shape, k.shape[1]
    if Hq % Hk != 0:
        raise ValueError(f"{Hq} and {Hk}")
    out = np.zeros((B, Hq, T, v.shape[-1]))
    if mask is None:
        mask = np.array(True)
    mask = np.broadcast_to(mask, (B, Hq, T, k.shape[2]))
    for h in range(Hq):
        keys, values = k[:, h // (Hq // Hk)], v[:, h // (Hq // Hk)]
        scores = np.einsum("btd,bsd->bts", q[:, h], keys) / D**0.5
        highest = scores.max(-1, keepdims=True, initial=-1e300, where=mask[:, h])
        p = np.where(mask[:, h], np.exp(np.where(mask[:, h], scores - highest, 0)), 0)
        out[:, h] = p @ values / np.maximum(p.sum(-1, keepdims=True), 1e-300)
    return out


# %% wrong heads-6 key heads dealt in turn
# Your query heads take the key heads in turn. Neighbours share: heads 0, 1, 2 read key head 0,
# and heads 3, 4, 5 read key head 1. A trained model depends on that order.
# Seen: onnx/onnx#7274
# Seen: apple/axlearn#842
def grouped_attention(q, k, v, mask=None):
    B, Hq, T, D = q.shape
    Hk, S, E = v.shape[1:]
    if Hq % Hk:
        raise ValueError(f"{Hq} query heads are no multiple of {Hk} key heads")
    groups = q.reshape(B, Hq // Hk, Hk, T, D).swapaxes(1, 2)
    scores = groups @ np.swapaxes(k, -1, -2)[:, :, None] / np.sqrt(D)
    if mask is not None:
        seen = np.broadcast_to(mask, (B, Hq, T, S))
        seen = seen.reshape(B, Hq // Hk, Hk, T, S).swapaxes(1, 2)
        scores = np.where(seen, scores, -np.inf)
    top = scores.max(-1, keepdims=True)
    weights = np.exp(scores - np.where(top == -np.inf, 0, top))
    total = weights.sum(-1, keepdims=True)
    weights = weights / np.where(total == 0, 1, total)
    return (weights @ v[:, :, None]).swapaxes(1, 2).reshape(B, Hq, T, E)


# %% wrong heads-6 the mask's heads dealt in turn
# The mask of each query head lands at another one. Cut the mask's axis of heads as you cut that
# of the queries.
# Seen: line/lighthouse#77
# Seen: ArrowLuo/CLIP4Clip#22
def grouped_attention(q, k, v, mask=None):
    B, Hq, T, D = q.shape
    Hk, S, E = v.shape[1:]
    if Hq % Hk:
        raise ValueError(f"{Hq} query heads are no multiple of {Hk} key heads")
    groups = q.reshape(B, Hk, Hq // Hk, T, D)
    scores = groups @ np.swapaxes(k, -1, -2)[:, :, None] / np.sqrt(D)
    if mask is not None:
        seen = np.broadcast_to(mask, (B, Hq, T, S))
        seen = seen.reshape(B, Hq // Hk, Hk, T, S).swapaxes(1, 2)
        scores = np.where(seen, scores, -np.inf)
    top = scores.max(-1, keepdims=True)
    weights = np.exp(scores - np.where(top == -np.inf, 0, top))
    total = weights.sum(-1, keepdims=True)
    weights = weights / np.where(total == 0, 1, total)
    return (weights @ v[:, :, None]).reshape(B, Hq, T, E)


# %% wrong heads-6 every query head reads key head 0
# All your query heads read the first key head. Which one belongs to query head h?
# Seen: PSAL-POSTECH/ONNXim#34
def grouped_attention(q, k, v, mask=None):
    B, Hq, T, D = q.shape
    Hk, S, E = v.shape[1:]
    if Hq % Hk:
        raise ValueError(f"{Hq} query heads are no multiple of {Hk} key heads")
    groups = q.reshape(B, Hk, Hq // Hk, T, D)
    scores = groups @ np.swapaxes(k, -1, -2)[:, :1, None] / np.sqrt(D)
    if mask is not None:
        seen = np.broadcast_to(mask, (B, Hq, T, S)).reshape(scores.shape)
        scores = np.where(seen, scores, -np.inf)
    top = scores.max(-1, keepdims=True)
    weights = np.exp(scores - np.where(top == -np.inf, 0, top))
    total = weights.sum(-1, keepdims=True)
    weights = weights / np.where(total == 0, 1, total)
    return (weights @ v[:, :1, None]).reshape(B, Hq, T, E)


# %% wrong heads-6 values dealt in turn
# Your values come from other heads than your keys. Keys and values of a head belong together.
# Seen: onnx/onnx#7274
def grouped_attention(q, k, v, mask=None):
    B, Hq, T, D = q.shape
    Hk, S = v.shape[1:3]
    if Hq % Hk:
        raise ValueError(f"{Hq} query heads are no multiple of {Hk} key heads")
    groups = q.reshape(B, Hk, Hq // Hk, T, D)
    scores = groups @ np.swapaxes(k, -1, -2)[:, :, None] / np.sqrt(D)
    if mask is not None:
        seen = np.broadcast_to(mask, (B, Hq, T, S)).reshape(scores.shape)
        scores = np.where(seen, scores, -np.inf)
    top = scores.max(-1, keepdims=True)
    weights = np.exp(scores - np.where(top == -np.inf, 0, top))
    total = weights.sum(-1, keepdims=True)
    weights = weights / np.where(total == 0, 1, total)
    return weights.reshape(B, Hq, T, S) @ np.tile(v, (1, Hq // Hk, 1, 1))


# %% wrong heads-6 keys and values repeated in memory
# You copy keys and values for every query head. That is the memory that grouped heads should
# save: let the product broadcast instead.
# Seen: FYYFU/HeadKV#3
# Seen: FasterDecoding/SnapKV#16
def grouped_attention(q, k, v, mask=None):
    B, Hq, T, D = q.shape
    Hk, S = v.shape[1:3]
    if Hq % Hk:
        raise ValueError(f"{Hq} query heads are no multiple of {Hk} key heads")
    k, v = np.repeat(k, Hq // Hk, 1), np.repeat(v, Hq // Hk, 1)
    scores = q @ np.swapaxes(k, -1, -2) / np.sqrt(D)
    if mask is not None:
        seen = np.broadcast_to(mask, (B, Hq, T, S))
        scores = np.where(seen, scores, -np.inf)
    top = scores.max(-1, keepdims=True)
    weights = np.exp(scores - np.where(top == -np.inf, 0, top))
    total = weights.sum(-1, keepdims=True)
    weights = weights / np.where(total == 0, 1, total)
    return weights @ v


# %% wrong heads-6 left-over heads stay empty
# With 5 query heads and 2 key heads you leave one query head at zero without a word. Refuse heads
# that don't divide.
# Seen: fla-org/flash-linear-attention#1029
def grouped_attention(q, k, v, mask=None):
    B, Hq, T, D = q.shape
    Hk, S, E = v.shape[1:]
    size = Hq // Hk
    out = np.zeros((B, Hq, T, E))
    mask = np.broadcast_to(True if mask is None else mask, (B, Hq, T, S))
    for j in range(Hk):
        own = slice(j * size, (j + 1) * size)
        scores = q[:, own] @ np.swapaxes(k[:, j : j + 1], -1, -2) / np.sqrt(D)
        scores = np.where(mask[:, own], scores, -np.inf)
        top = scores.max(-1, keepdims=True)
        weights = np.exp(scores - np.where(top == -np.inf, 0, top))
        total = weights.sum(-1, keepdims=True)
        out[:, own] = weights / np.where(total == 0, 1, total) @ v[:, j : j + 1]
    return out


# %% wrong heads-6 NaN in an empty row
# A query that sees nothing becomes NaN: minus infinity minus minus infinity is not a number. Give
# such a row zeros.
# Seen: robertknight/rten#1321
# Seen: ml-explore/mlx#2608
def grouped_attention(q, k, v, mask=None):
    B, Hq, T, D = q.shape
    Hk, S, E = v.shape[1:]
    if Hq % Hk:
        raise ValueError(f"{Hq} query heads are no multiple of {Hk} key heads")
    groups = q.reshape(B, Hk, Hq // Hk, T, D)
    scores = groups @ np.swapaxes(k, -1, -2)[:, :, None] / np.sqrt(D)
    if mask is not None:
        seen = np.broadcast_to(mask, (B, Hq, T, S)).reshape(scores.shape)
        scores = np.where(seen, scores, -np.inf)
    top = scores.max(-1, keepdims=True)
    weights = np.exp(scores - top)
    total = weights.sum(-1, keepdims=True)
    weights = weights / total
    return (weights @ v[:, :, None]).reshape(B, Hq, T, E)


# %% wrong heads-6 an empty row averages everything
# A query that sees nothing averages all values: its hidden scores are all equally low. It should
# get zeros.
# Seen: NVIDIA/apex#1390
def grouped_attention(q, k, v, mask=None):
    B, Hq, T, D = q.shape
    Hk, S, E = v.shape[1:]
    if Hq % Hk:
        raise ValueError(f"{Hq} query heads are no multiple of {Hk} key heads")
    groups = q.reshape(B, Hk, Hq // Hk, T, D)
    scores = groups @ np.swapaxes(k, -1, -2)[:, :, None] / np.sqrt(D)
    if mask is not None:
        seen = np.broadcast_to(mask, (B, Hq, T, S)).reshape(scores.shape)
        scores = np.where(seen, scores, -1e9)
    top = scores.max(-1, keepdims=True)
    weights = np.exp(scores - np.where(top == -np.inf, 0, top))
    total = weights.sum(-1, keepdims=True)
    weights = weights / np.where(total == 0, 1, total)
    return (weights @ v[:, :, None]).reshape(B, Hq, T, E)


# %% wrong heads-6 no maximum subtracted
# The exponential of a large score overflows. A softmax doesn't change if every score of a row is
# moved by the same amount.
def grouped_attention(q, k, v, mask=None):
    B, Hq, T, D = q.shape
    Hk, S, E = v.shape[1:]
    if Hq % Hk:
        raise ValueError(f"{Hq} query heads are no multiple of {Hk} key heads")
    groups = q.reshape(B, Hk, Hq // Hk, T, D)
    scores = groups @ np.swapaxes(k, -1, -2)[:, :, None] / np.sqrt(D)
    if mask is not None:
        seen = np.broadcast_to(mask, (B, Hq, T, S)).reshape(scores.shape)
        scores = np.where(seen, scores, -np.inf)
    weights = np.exp(scores)
    total = weights.sum(-1, keepdims=True)
    weights = weights / np.where(total == 0, 1, total)
    return (weights @ v[:, :, None]).reshape(B, Hq, T, E)


# %% wrong heads-6 one maximum for all rows
# You subtract the largest score of the whole array. A row whose scores are much lower vanishes:
# every row has a maximum of its own.
def grouped_attention(q, k, v, mask=None):
    B, Hq, T, D = q.shape
    Hk, S, E = v.shape[1:]
    if Hq % Hk:
        raise ValueError(f"{Hq} query heads are no multiple of {Hk} key heads")
    groups = q.reshape(B, Hk, Hq // Hk, T, D)
    scores = groups @ np.swapaxes(k, -1, -2)[:, :, None] / np.sqrt(D)
    if mask is not None:
        seen = np.broadcast_to(mask, (B, Hq, T, S)).reshape(scores.shape)
        scores = np.where(seen, scores, -np.inf)
    top = scores.max()
    weights = np.exp(scores - np.where(top == -np.inf, 0, top))
    total = weights.sum(-1, keepdims=True)
    weights = weights / np.where(total == 0, 1, total)
    return (weights @ v[:, :, None]).reshape(B, Hq, T, E)


# %% wrong heads-6 True hides
# Your mask is upside down. True means may look.
# Seen: rasbt/LLMs-from-scratch#1061
def grouped_attention(q, k, v, mask=None):
    B, Hq, T, D = q.shape
    Hk, S, E = v.shape[1:]
    if Hq % Hk:
        raise ValueError(f"{Hq} query heads are no multiple of {Hk} key heads")
    groups = q.reshape(B, Hk, Hq // Hk, T, D)
    scores = groups @ np.swapaxes(k, -1, -2)[:, :, None] / np.sqrt(D)
    if mask is not None:
        seen = np.broadcast_to(mask, (B, Hq, T, S)).reshape(scores.shape)
        scores = np.where(seen, -np.inf, scores)
    top = scores.max(-1, keepdims=True)
    weights = np.exp(scores - np.where(top == -np.inf, 0, top))
    total = weights.sum(-1, keepdims=True)
    weights = weights / np.where(total == 0, 1, total)
    return (weights @ v[:, :, None]).reshape(B, Hq, T, E)


# %% wrong heads-6 zeros and ones added to the scores
# You add the mask to the scores. That lifts the visible ones a little and hides nothing.
# Seen: pytorch/pytorch#103963
def grouped_attention(q, k, v, mask=None):
    B, Hq, T, D = q.shape
    Hk, S, E = v.shape[1:]
    if Hq % Hk:
        raise ValueError(f"{Hq} query heads are no multiple of {Hk} key heads")
    groups = q.reshape(B, Hk, Hq // Hk, T, D)
    scores = groups @ np.swapaxes(k, -1, -2)[:, :, None] / np.sqrt(D)
    if mask is not None:
        seen = np.broadcast_to(mask, (B, Hq, T, S)).reshape(scores.shape)
        scores = scores + seen
    top = scores.max(-1, keepdims=True)
    weights = np.exp(scores - np.where(top == -np.inf, 0, top))
    total = weights.sum(-1, keepdims=True)
    weights = weights / np.where(total == 0, 1, total)
    return (weights @ v[:, :, None]).reshape(B, Hq, T, E)


# %% wrong heads-6 the mask is left out
# Your mask has no effect. Choose before the softmax what takes part in it.
def grouped_attention(q, k, v, mask=None):
    B, Hq, T, D = q.shape
    Hk, S, E = v.shape[1:]
    if Hq % Hk:
        raise ValueError(f"{Hq} query heads are no multiple of {Hk} key heads")
    groups = q.reshape(B, Hk, Hq // Hk, T, D)
    scores = groups @ np.swapaxes(k, -1, -2)[:, :, None] / np.sqrt(D)
    if mask is not None:
        seen = np.broadcast_to(mask, (B, Hq, T, S)).reshape(scores.shape)
        scores = np.where(seen, scores, scores)
    top = scores.max(-1, keepdims=True)
    weights = np.exp(scores - np.where(top == -np.inf, 0, top))
    total = weights.sum(-1, keepdims=True)
    weights = weights / np.where(total == 0, 1, total)
    return (weights @ v[:, :, None]).reshape(B, Hq, T, E)


# %% wrong heads-6 scaled by the width of the values
# You divide by the square root of a value's width. A score adds up products of queries and keys.
def grouped_attention(q, k, v, mask=None):
    B, Hq, T, D = q.shape
    Hk, S, E = v.shape[1:]
    if Hq % Hk:
        raise ValueError(f"{Hq} query heads are no multiple of {Hk} key heads")
    groups = q.reshape(B, Hk, Hq // Hk, T, D)
    scores = groups @ np.swapaxes(k, -1, -2)[:, :, None] / np.sqrt(E)
    if mask is not None:
        seen = np.broadcast_to(mask, (B, Hq, T, S)).reshape(scores.shape)
        scores = np.where(seen, scores, -np.inf)
    top = scores.max(-1, keepdims=True)
    weights = np.exp(scores - np.where(top == -np.inf, 0, top))
    total = weights.sum(-1, keepdims=True)
    weights = weights / np.where(total == 0, 1, total)
    return (weights @ v[:, :, None]).reshape(B, Hq, T, E)


# %% wrong heads-6 scaled by the width of all heads
# You divide by the square root of the width of all query heads together. A score is made of one
# head's numbers.
# Seen: rezazad68/TMUnet#13
def grouped_attention(q, k, v, mask=None):
    B, Hq, T, D = q.shape
    Hk, S, E = v.shape[1:]
    if Hq % Hk:
        raise ValueError(f"{Hq} query heads are no multiple of {Hk} key heads")
    groups = q.reshape(B, Hk, Hq // Hk, T, D)
    scores = groups @ np.swapaxes(k, -1, -2)[:, :, None] / np.sqrt(Hq * D)
    if mask is not None:
        seen = np.broadcast_to(mask, (B, Hq, T, S)).reshape(scores.shape)
        scores = np.where(seen, scores, -np.inf)
    top = scores.max(-1, keepdims=True)
    weights = np.exp(scores - np.where(top == -np.inf, 0, top))
    total = weights.sum(-1, keepdims=True)
    weights = weights / np.where(total == 0, 1, total)
    return (weights @ v[:, :, None]).reshape(B, Hq, T, E)


# %% wrong heads-6 no scale
# The scores are not divided by the square root of D.
# Seen: mlc-ai/mlc-llm#3426
def grouped_attention(q, k, v, mask=None):
    B, Hq, T, D = q.shape
    Hk, S, E = v.shape[1:]
    if Hq % Hk:
        raise ValueError(f"{Hq} query heads are no multiple of {Hk} key heads")
    groups = q.reshape(B, Hk, Hq // Hk, T, D)
    scores = groups @ np.swapaxes(k, -1, -2)[:, :, None]
    if mask is not None:
        seen = np.broadcast_to(mask, (B, Hq, T, S)).reshape(scores.shape)
        scores = np.where(seen, scores, -np.inf)
    top = scores.max(-1, keepdims=True)
    weights = np.exp(scores - np.where(top == -np.inf, 0, top))
    total = weights.sum(-1, keepdims=True)
    weights = weights / np.where(total == 0, 1, total)
    return (weights @ v[:, :, None]).reshape(B, Hq, T, E)


# %% wrong heads-6 the groups are not joined again
# You return [B, Hk, Hq / Hk, T, E]. Put the query heads back on one axis.
def grouped_attention(q, k, v, mask=None):
    B, Hq, T, D = q.shape
    Hk, S = v.shape[1:3]
    if Hq % Hk:
        raise ValueError(f"{Hq} query heads are no multiple of {Hk} key heads")
    groups = q.reshape(B, Hk, Hq // Hk, T, D)
    scores = groups @ np.swapaxes(k, -1, -2)[:, :, None] / np.sqrt(D)
    if mask is not None:
        seen = np.broadcast_to(mask, (B, Hq, T, S)).reshape(scores.shape)
        scores = np.where(seen, scores, -np.inf)
    top = scores.max(-1, keepdims=True)
    weights = np.exp(scores - np.where(top == -np.inf, 0, top))
    total = weights.sum(-1, keepdims=True)
    weights = weights / np.where(total == 0, 1, total)
    return weights @ v[:, :, None]


# %% wrong heads-6 one answer for each group
# You average the queries of a group, so there are only Hk answers to share. Query heads share
# what they read, not what they ask.
def grouped_attention(q, k, v, mask=None):
    B, Hq, T, D = q.shape
    Hk, S, E = v.shape[1:]
    if Hq % Hk:
        raise ValueError(f"{Hq} query heads are no multiple of {Hk} key heads")
    groups = np.broadcast_to(
        q.reshape(B, Hk, -1, T, D).mean(2, keepdims=True), (B, Hk, Hq // Hk, T, D)
    )
    scores = groups @ np.swapaxes(k, -1, -2)[:, :, None] / np.sqrt(D)
    if mask is not None:
        seen = np.broadcast_to(mask, (B, Hq, T, S)).reshape(scores.shape)
        scores = np.where(seen, scores, -np.inf)
    top = scores.max(-1, keepdims=True)
    weights = np.exp(scores - np.where(top == -np.inf, 0, top))
    total = weights.sum(-1, keepdims=True)
    weights = weights / np.where(total == 0, 1, total)
    return (weights @ v[:, :, None]).reshape(B, Hq, T, E)


# %% [markdown]
# ## heads-7: Write the check
#
# *heads-7 · 4 points · 12 minutes · ●●●○ difficulty 3 of 4*
#
# Heads that all look at the same keys waste their weights. So people add a **penalty** to the
# loss that should cost little when heads differ and much when they agree. A widely copied one is
# `0.01 * mean(var(p, axis=1))`, the variance over the heads. Think: what is it for equal heads?
#
# Write `accepts(penalty)`. It gets a *function* that somebody else wrote. `penalty(p)` takes
# weights `p`, floats `[B, H, T, S]` of two heads or more, whose rows sum to 1, or hold zeros where
# a query sees nothing. You return `True` if it keeps all of these promises, `False` if not:
#
# 1. **Copies cost.** Take heads of which no two look at the same key for the same query, sharp
#    ones or flat ones, and make any one of them a copy of any other: the penalty must rise.
# 2. **The order of the heads** does not matter.
# 3. **Each example counts for itself**: the penalty of a batch is the mean of the penalties of
#    its examples.
# 4. It is **one finite number**, with empty rows, too, and it leaves `p` as it was.
#
# - Right penalties come in several styles and sizes, negative ones as well, and round in the last
#   digits: accept them all.
# - A penalty that raises an error is wrong: return `False`, don't let the error through.
# - Judge only by calling it, with weights that you make.
#
# **A miniature.** Two heads, one query, two keys: `p = [[[[1, 0]], [[0, 1]]]]` and, with a copy,
# `[[[[1, 0]], [[1, 0]]]]`. The variance over the heads is 0.25 for the first and 0 for the
# second: the "penalty" falls when the heads agree. Gradient descent would make them equal.
#
# The check cell hands you one right and one wrong penalty at a time: you need both verdicts. Half
# of the points are for judging all of them rightly.
#
# Read first: *A regulariser that does the opposite* in [chapter 4](../book/04_heads.ipynb).
#
# <details>
# <summary>Hint 1 for heads-7: weights that tell</summary>
#
# Random weights agree a little everywhere, and prove little. Build three heads that never meet:
# at each query every head has keys of its own, and they move from query to query until each head
# has been everywhere. Why should they move?
#
# </details>
#
# <details>
# <summary>Hint 2 for heads-7: one promise, one question</summary>
#
# Copy every head over every other one, in turn, and compare with the penalty before. Then reorder
# the heads, take the batch apart, empty a row, and look at `p` afterwards. Two equal heads among
# three show more than three equal ones.
#
# </details>


# %% answer heads-7 points=4 minutes=12 difficulty=3 forbid=attnlearn
def accepts(penalty):
    """True if penalty(p [B, H, T, S]) keeps all four promises, False if not or if it raises."""
    # BEGIN SOLUTION
    t, h = np.arange(6), np.arange(3)[:, None]
    p = np.zeros((2, 3, 7, 6))  # example 0 sharp, 1 flat; heads share no key; query 6 sees nothing
    p[0, h, t, (2 * h + t) % 6] = 1
    p[1, h, t, (2 * h + t) % 6] = p[1, h, t, (2 * h + t + 1) % 6] = 0.5
    try:
        for b in range(2):
            example = p[b : b + 1]
            for i, j in [(0, 1), (0, 2), (1, 2), (2, 0)]:
                copied = example.copy()
                copied[:, i] = copied[:, j]
                kept = copied.copy()
                cost = penalty(copied)
                if np.ndim(cost) or not np.isfinite(cost) or not cost > penalty(example) + 1e-9:
                    return False
                moved = penalty(copied[:, [2, 0, 1]])
                if not np.isclose(moved, cost) or not np.array_equal(copied, kept):
                    return False
        p[0] = p[0, 0]
        alone = [penalty(p[:1]), penalty(p[1:])]
        together = penalty(p)
        return np.ndim(together) == 0 and bool(np.isclose(together, np.mean(alone)))
    except Exception:
        return False
    # END SOLUTION


# %% check heads-7
case = check("heads-7")


def _pairs(H):
    return [(g, h) for h in range(H) for g in range(h)]


def _overlap(p):
    return np.mean([np.minimum(p[:, g], p[:, h]).sum(-1).mean() for g, h in _pairs(p.shape[1])])


def _cosine(p):
    length = np.sqrt((p * p).sum(-1, keepdims=True))
    unit = p / np.where(length == 0, 1, length)
    return sum((unit[:, g] * unit[:, h]).sum(-1).mean() for g, h in _pairs(p.shape[1]))


def _minus_variance(p):
    return -0.01 * np.mean(np.var(p, axis=1))


def _peaks_only(p):
    return np.mean(
        [(p[:, g].argmax(-1) == p[:, h].argmax(-1)).mean() for g, h in _pairs(p.shape[1])]
    )


def _variance(p):
    return 0.01 * np.mean(np.var(p, axis=1))


def _neighbours_only(p):
    return np.minimum(p[:, 1:], p[:, :-1]).sum(-1).mean()


def _first_heads_count_more(p):
    return np.sum(
        [np.minimum(p[:, g], p[:, h]).sum(-1).mean() / (g + 1) for g, h in _pairs(p.shape[1])]
    )


def _over_the_batch(p):
    return -np.mean(np.var(p, axis=0))


def _mean_over_queries(p):
    return _overlap(p.mean(2, keepdims=True))


def _sharpness(p):
    return np.mean((p * p).sum(-1))


def _differences_cancel(p):
    return -np.mean([(p[:, g] - p[:, h]).sum(-1).mean() for g, h in _pairs(p.shape[1])])


def _not_a_number(p):
    unit = p / np.sqrt((p * p).sum(-1, keepdims=True))
    return np.mean([(unit[:, g] * unit[:, h]).sum(-1).mean() for g, h in _pairs(p.shape[1])])


def _insists_on_rows(p):
    if not np.allclose(p.sum(-1), 1):
        raise ValueError("every row must sum to 1")
    return _overlap(p)


def _made_for_two_heads(p):
    first, second = np.moveaxis(p, 1, 0)
    return np.minimum(first, second).sum(-1).mean()


def _one_number_per_example(p):
    return np.mean(
        [np.minimum(p[:, g], p[:, h]).sum(-1).mean(-1) for g, h in _pairs(p.shape[1])], axis=0
    )


def _heads_of_all_examples(p):
    return _overlap(p.reshape(1, -1, *p.shape[2:]))


def _summed_over_the_batch(p):
    return _overlap(p) * len(p)


def _writes_into_p(p):
    p -= p.mean(1, keepdims=True)
    return -np.mean(p * p)


def _verdict(penalty):
    return accepts(lambda p: penalty(p))  # a function without a name


def _verdicts(right, wrong):
    return {"the right penalty": _verdict(right), "the wrong penalty": _verdict(wrong)}


case("the variance itself", lambda: _verdicts(_minus_variance, _variance))
case("neighbouring heads only", lambda: _verdicts(_peaks_only, _neighbours_only))
case("the first heads count more", lambda: _verdicts(_cosine, _first_heads_count_more))
case("a variance over the batch", lambda: _verdicts(_minus_variance, _over_the_batch))
case("averaged over the queries first", lambda: _verdicts(_peaks_only, _mean_over_queries))
case("how sharp the heads are", lambda: _verdicts(_cosine, _sharpness))
case("differences that cancel", lambda: _verdicts(_minus_variance, _differences_cancel))
case("NaN for an empty row", lambda: _verdicts(_cosine, _not_a_number))
case("an error for an empty row", lambda: _verdicts(_overlap, _insists_on_rows))
case("an error for three heads", lambda: _verdicts(_minus_variance, _made_for_two_heads))
case("one number per example", lambda: _verdicts(_overlap, _one_number_per_example))
case("heads of different examples compared", lambda: _verdicts(_cosine, _heads_of_all_examples))
case("a sum over the batch", lambda: _verdicts(_overlap, _summed_over_the_batch))
case("writes into p", lambda: _verdicts(_minus_variance, _writes_into_p))


@case("all of them together", weight=14)
def _():
    right = (_overlap, _cosine, _minus_variance, _peaks_only)
    wrong = (_variance, _neighbours_only, _first_heads_count_more, _over_the_batch)
    more = (_mean_over_queries, _sharpness, _differences_cancel, _not_a_number, _insists_on_rows)
    rest = (_made_for_two_heads, _one_number_per_example, _heads_of_all_examples)
    last = (_summed_over_the_batch, _writes_into_p)
    return {f.__name__: _verdict(f) for f in right + wrong + more + rest + last}


# %% hidden heads-7
case = check("heads-7")


def _all_heads_at_once(p):
    return p.prod(1).sum(-1).mean()


def _first_pair_only(p):
    return np.minimum(p[:, 0], p[:, 1]).sum(-1).mean()


case("all heads must agree", lambda: _verdicts(_overlap, _all_heads_at_once))
case("the first pair only", lambda: _verdicts(_peaks_only, _first_pair_only))


# %% right heads-7 every copy, every order
def accepts(penalty):
    def cost(p):
        given = p.copy()
        value = penalty(p)
        if np.shape(value) != () or not np.isfinite(value) or not np.array_equal(p, given):
            raise ValueError("not one finite number, or p has changed")
        return float(value)

    apart = np.zeros((2, 4, 5, 8))
    for head in range(4):
        for query in range(4):
            apart[0, head, query, (2 * head + 2 * query) % 8] = 1
            apart[1, head, query, [(2 * head + 2 * query) % 8, (2 * head + 2 * query + 1) % 8]] = (
                0.5
            )
    try:
        for p in (apart[:1], apart[1:]):
            for i in range(4):
                for j in set(range(4)) - {i}:
                    copied = p.copy()
                    copied[:, i] = p[:, j]
                    if cost(copied) <= cost(p) + 1e-12:
                        return False
                    for order in ([3, 2, 1, 0], [1, 2, 3, 0], [0, 2, 1, 3]):
                        if abs(cost(copied[:, order]) - cost(copied)) > 1e-9:
                            return False
        mixed = apart.copy()
        mixed[0, 0] = mixed[0, 1]
        return abs(cost(mixed) - (cost(mixed[:1]) + cost(mixed[1:])) / 2) < 1e-9
    except Exception:
        return False


# %% right heads-7 weights from shuffled keys
def accepts(penalty):
    rng = np.random.RandomState(3)
    for sharp in (0.5, 0.95):
        p = np.zeros((3, 3, 10, 9))
        for b in range(3):
            keys = rng.permutation(9).reshape(3, 3)
            for head, row in np.ndindex(3, 9):
                share = [sharp, (1 - sharp) / 2, (1 - sharp) / 2]
                p[b, head, row, (keys[head] + row) % 9] = share
        try:
            apart = penalty(p.copy())
            for i, j in np.ndindex(3, 3):
                if i == j:
                    continue
                same = p.copy()
                same[:, i] = p[:, j]
                before = same.copy()
                got = penalty(same)
                if np.size(got) != 1 or np.ndim(got) or not np.isfinite(got):
                    return False
                if got <= apart or (same != before).any():
                    return False
                parts = [penalty(same[b : b + 1]) for b in range(3)]
                alone = [penalty(p[b : b + 1].copy()) for b in range(3)]
                if not all(x > y for x, y in zip(parts, alone, strict=True)):
                    return False
                if abs(np.mean(parts) - got) > 1e-9 or abs(penalty(same[:, ::-1]) - got) > 1e-9:
                    return False
        except Exception:
            return False
    return True


# %% wrong heads-7 everything is accepted
# The penalties of these cases are accepted, and all of them are wrong. A check proves something
# only if it can fail: for which weights would each of them break its promise?
# Seen: jsbaan/transformer-from-scratch#6
def accepts(penalty):
    return True


# %% wrong heads-7 everything is rejected
# Right penalties are rejected, too. Try your check on one that you trust before you use it on
# others.
def accepts(penalty):
    return False


# %% wrong heads-7 the verdicts are the wrong way round
# Right penalties get False, and wrong ones True. True is the verdict for a penalty that keeps its
# promises.
def accepts(penalty):
    t, h = np.arange(6), np.arange(3)[:, None]
    p = np.zeros((2, 3, 7, 6))  # example 0 sharp, 1 flat; heads share no key; query 6 sees nothing
    p[0, h, t, (2 * h + t) % 6] = 1
    p[1, h, t, (2 * h + t) % 6] = p[1, h, t, (2 * h + t + 1) % 6] = 0.5
    try:
        for b in range(2):
            example = p[b : b + 1]
            for i, j in [(0, 1), (0, 2), (1, 2), (2, 0)]:
                copied = example.copy()
                copied[:, i] = copied[:, j]
                kept = copied.copy()
                cost = penalty(copied)
                if np.ndim(cost) or not np.isfinite(cost) or not cost > penalty(example) + 1e-9:
                    return True
                moved = penalty(copied[:, [2, 0, 1]])
                if not np.isclose(moved, cost) or not np.array_equal(copied, kept):
                    return True
        p[0] = p[0, 0]
        alone = [penalty(p[:1]), penalty(p[1:])]
        together = penalty(p)
        return not (np.ndim(together) == 0 and bool(np.isclose(together, np.mean(alone))))
    except Exception:
        return True


# %% wrong heads-7 the penalty should fall
# You ask for the opposite: heads that agree should cost more, not less. The variance over the
# heads passes your check.
def accepts(penalty):
    t, h = np.arange(6), np.arange(3)[:, None]
    p = np.zeros((2, 3, 7, 6))  # example 0 sharp, 1 flat; heads share no key; query 6 sees nothing
    p[0, h, t, (2 * h + t) % 6] = 1
    p[1, h, t, (2 * h + t) % 6] = p[1, h, t, (2 * h + t + 1) % 6] = 0.5
    try:
        for b in range(2):
            example = p[b : b + 1]
            for i, j in [(0, 1), (0, 2), (1, 2), (2, 0)]:
                copied = example.copy()
                copied[:, i] = copied[:, j]
                kept = copied.copy()
                cost = penalty(copied)
                if np.ndim(cost) or not np.isfinite(cost) or not cost < penalty(example) - 1e-9:
                    return False
                moved = penalty(copied[:, [2, 0, 1]])
                if not np.isclose(moved, cost) or not np.array_equal(copied, kept):
                    return False
        p[0] = p[0, 0]
        alone = [penalty(p[:1]), penalty(p[1:])]
        together = penalty(p)
        return np.ndim(together) == 0 and bool(np.isclose(together, np.mean(alone)))
    except Exception:
        return False


# %% wrong heads-7 only one finite number is asked for
# Any function that returns a number passes your check. Compare two numbers: one for heads that
# differ, one for heads that agree.
def accepts(penalty):
    t, h = np.arange(6), np.arange(3)[:, None]
    p = np.zeros((2, 3, 7, 6))  # example 0 sharp, 1 flat; heads share no key; query 6 sees nothing
    p[0, h, t, (2 * h + t) % 6] = 1
    p[1, h, t, (2 * h + t) % 6] = p[1, h, t, (2 * h + t + 1) % 6] = 0.5
    try:
        for b in range(2):
            example = p[b : b + 1]
            for i, j in [(0, 1), (0, 2), (1, 2), (2, 0)]:
                copied = example.copy()
                copied[:, i] = copied[:, j]
                kept = copied.copy()
                cost = penalty(copied)
                if np.ndim(cost) or not np.isfinite(cost):
                    return False
                moved = penalty(copied[:, [2, 0, 1]])
                if not np.isclose(moved, cost) or not np.array_equal(copied, kept):
                    return False
        p[0] = p[0, 0]
        together = penalty(p)
        return np.ndim(together) == 0
    except Exception:
        return False


# %% wrong heads-7 all heads equal or none
# You compare heads that all differ with heads that are all equal. Then a penalty that looks at
# some pairs only, or at all heads at once, gets past: make one head a copy and leave the others.
def accepts(penalty):
    t, h = np.arange(6), np.arange(3)[:, None]
    p = np.zeros((2, 3, 7, 6))  # example 0 sharp, 1 flat; heads share no key; query 6 sees nothing
    p[0, h, t, (2 * h + t) % 6] = 1
    p[1, h, t, (2 * h + t) % 6] = p[1, h, t, (2 * h + t + 1) % 6] = 0.5
    try:
        for b in range(2):
            example = p[b : b + 1]
            for j in range(3):
                copied = example.copy()
                copied[:] = copied[:, j : j + 1]
                kept = copied.copy()
                cost = penalty(copied)
                if np.ndim(cost) or not np.isfinite(cost) or not cost > penalty(example) + 1e-9:
                    return False
                moved = penalty(copied[:, [2, 0, 1]])
                if not np.isclose(moved, cost) or not np.array_equal(copied, kept):
                    return False
        p[0] = p[0, 0]
        alone = [penalty(p[:1]), penalty(p[1:])]
        together = penalty(p)
        return np.ndim(together) == 0 and bool(np.isclose(together, np.mean(alone)))
    except Exception:
        return False


# %% wrong heads-7 two heads only
# Your weights have two heads, so there is one pair. A penalty that forgets the other pairs can't
# be told from a right one.
def accepts(penalty):
    t, h = np.arange(6), np.arange(2)[:, None]
    p = np.zeros((2, 2, 7, 6))  # example 0 sharp, 1 flat; heads share no key; query 6 sees nothing
    p[0, h, t, (2 * h + t) % 6] = 1
    p[1, h, t, (2 * h + t) % 6] = p[1, h, t, (2 * h + t + 1) % 6] = 0.5
    try:
        for b in range(2):
            example = p[b : b + 1]
            for i, j in [(0, 1), (1, 0)]:
                copied = example.copy()
                copied[:, i] = copied[:, j]
                kept = copied.copy()
                cost = penalty(copied)
                if np.ndim(cost) or not np.isfinite(cost) or not cost > penalty(example) + 1e-9:
                    return False
                moved = penalty(copied[:, ::-1])
                if not np.isclose(moved, cost) or not np.array_equal(copied, kept):
                    return False
        p[0] = p[0, 0]
        alone = [penalty(p[:1]), penalty(p[1:])]
        together = penalty(p)
        return np.ndim(together) == 0 and bool(np.isclose(together, np.mean(alone)))
    except Exception:
        return False


# %% wrong heads-7 one example only
# Your batch has one example. What a penalty does across examples does not show there.
# Seen: line/lighthouse#77
def accepts(penalty):
    t, h = np.arange(6), np.arange(3)[:, None]
    p = np.zeros((2, 3, 7, 6))  # example 0 sharp, 1 flat; heads share no key; query 6 sees nothing
    p[0, h, t, (2 * h + t) % 6] = 1
    p[1, h, t, (2 * h + t) % 6] = p[1, h, t, (2 * h + t + 1) % 6] = 0.5
    try:
        for b in range(2):
            example = p[b : b + 1]
            for i, j in [(0, 1), (0, 2), (1, 2), (2, 0)]:
                copied = example.copy()
                copied[:, i] = copied[:, j]
                kept = copied.copy()
                cost = penalty(copied)
                if np.ndim(cost) or not np.isfinite(cost) or not cost > penalty(example) + 1e-9:
                    return False
                moved = penalty(copied[:, [2, 0, 1]])
                if not np.isclose(moved, cost) or not np.array_equal(copied, kept):
                    return False
        return True
    except Exception:
        return False


# %% wrong heads-7 equal examples only
# The examples of your batch are copies of each other, so a penalty that mixes them up still gives
# a plausible number. Let them differ.
def accepts(penalty):
    t, h = np.arange(6), np.arange(3)[:, None]
    p = np.zeros((2, 3, 7, 6))  # example 0 sharp, 1 flat; heads share no key; query 6 sees nothing
    p[0, h, t, (2 * h + t) % 6] = 1
    p[1, h, t, (2 * h + t) % 6] = p[1, h, t, (2 * h + t + 1) % 6] = 0.5
    try:
        for b in range(2):
            example = p[b : b + 1]
            for i, j in [(0, 1), (0, 2), (1, 2), (2, 0)]:
                copied = example.copy()
                copied[:, i] = copied[:, j]
                kept = copied.copy()
                cost = penalty(copied)
                if np.ndim(cost) or not np.isfinite(cost) or not cost > penalty(example) + 1e-9:
                    return False
                moved = penalty(copied[:, [2, 0, 1]])
                if not np.isclose(moved, cost) or not np.array_equal(copied, kept):
                    return False
        p[0] = p[1]
        alone = [penalty(p[:1]), penalty(p[1:])]
        together = penalty(p)
        return np.ndim(together) == 0 and bool(np.isclose(together, np.mean(alone)))
    except Exception:
        return False


# %% wrong heads-7 no row is empty
# All of your queries see something. In a padded batch some don't, and their rows hold zeros: let
# one be empty.
# Seen: pytorch/pytorch#41508
def accepts(penalty):
    t, h = np.arange(6), np.arange(3)[:, None]
    p = np.zeros((2, 3, 6, 6))  # example 0 sharp, 1 flat; heads share no key; query 6 sees nothing
    p[0, h, t, (2 * h + t) % 6] = 1
    p[1, h, t, (2 * h + t) % 6] = p[1, h, t, (2 * h + t + 1) % 6] = 0.5
    try:
        for b in range(2):
            example = p[b : b + 1]
            for i, j in [(0, 1), (0, 2), (1, 2), (2, 0)]:
                copied = example.copy()
                copied[:, i] = copied[:, j]
                kept = copied.copy()
                cost = penalty(copied)
                if np.ndim(cost) or not np.isfinite(cost) or not cost > penalty(example) + 1e-9:
                    return False
                moved = penalty(copied[:, [2, 0, 1]])
                if not np.isclose(moved, cost) or not np.array_equal(copied, kept):
                    return False
        p[0] = p[0, 0]
        alone = [penalty(p[:1]), penalty(p[1:])]
        together = penalty(p)
        return np.ndim(together) == 0 and bool(np.isclose(together, np.mean(alone)))
    except Exception:
        return False


# %% wrong heads-7 the heads differ on average, too
# A penalty gets past that compares only averages over the queries. In your weights the heads differ
# on average, too: let each of them move until it has been everywhere equally often.
def accepts(penalty):
    t, h = np.arange(6), np.arange(3)[:, None]
    p = np.zeros((2, 3, 7, 6))  # example 0 sharp, 1 flat; heads share no key; query 6 sees nothing
    p[0, h, t, (2 * h + 0 * t) % 6] = 1
    p[1, h, t, (2 * h + 0 * t) % 6] = p[1, h, t, (2 * h + 0 * t + 1) % 6] = 0.5
    try:
        for b in range(2):
            example = p[b : b + 1]
            for i, j in [(0, 1), (0, 2), (1, 2), (2, 0)]:
                copied = example.copy()
                copied[:, i] = copied[:, j]
                kept = copied.copy()
                cost = penalty(copied)
                if np.ndim(cost) or not np.isfinite(cost) or not cost > penalty(example) + 1e-9:
                    return False
                moved = penalty(copied[:, [2, 0, 1]])
                if not np.isclose(moved, cost) or not np.array_equal(copied, kept):
                    return False
        p[0] = p[0, 0]
        alone = [penalty(p[:1]), penalty(p[1:])]
        together = penalty(p)
        return np.ndim(together) == 0 and bool(np.isclose(together, np.mean(alone)))
    except Exception:
        return False


# %% wrong heads-7 the order is not tried
# You never reorder the heads. A penalty may weigh some heads more than others, and copies still
# cost.
def accepts(penalty):
    t, h = np.arange(6), np.arange(3)[:, None]
    p = np.zeros((2, 3, 7, 6))  # example 0 sharp, 1 flat; heads share no key; query 6 sees nothing
    p[0, h, t, (2 * h + t) % 6] = 1
    p[1, h, t, (2 * h + t) % 6] = p[1, h, t, (2 * h + t + 1) % 6] = 0.5
    try:
        for b in range(2):
            example = p[b : b + 1]
            for i, j in [(0, 1), (0, 2), (1, 2), (2, 0)]:
                copied = example.copy()
                copied[:, i] = copied[:, j]
                kept = copied.copy()
                cost = penalty(copied)
                if np.ndim(cost) or not np.isfinite(cost) or not cost > penalty(example) + 1e-9:
                    return False
                if not np.array_equal(copied, kept):
                    return False
        p[0] = p[0, 0]
        alone = [penalty(p[:1]), penalty(p[1:])]
        together = penalty(p)
        return np.ndim(together) == 0 and bool(np.isclose(together, np.mean(alone)))
    except Exception:
        return False


# %% wrong heads-7 p is not looked at afterwards
# You don't look at `p` after the call. A penalty that writes into the weights spoils the layer's
# output.
def accepts(penalty):
    t, h = np.arange(6), np.arange(3)[:, None]
    p = np.zeros((2, 3, 7, 6))  # example 0 sharp, 1 flat; heads share no key; query 6 sees nothing
    p[0, h, t, (2 * h + t) % 6] = 1
    p[1, h, t, (2 * h + t) % 6] = p[1, h, t, (2 * h + t + 1) % 6] = 0.5
    try:
        for b in range(2):
            example = p[b : b + 1]
            for i, j in [(0, 1), (0, 2), (1, 2), (2, 0)]:
                copied = example.copy()
                copied[:, i] = copied[:, j]
                cost = penalty(copied)
                if np.ndim(cost) or not np.isfinite(cost) or not cost > penalty(example) + 1e-9:
                    return False
                moved = penalty(copied[:, [2, 0, 1]])
                if not np.isclose(moved, cost):
                    return False
        p[0] = p[0, 0]
        alone = [penalty(p[:1]), penalty(p[1:])]
        together = penalty(p)
        return np.ndim(together) == 0 and bool(np.isclose(together, np.mean(alone)))
    except Exception:
        return False


# %% wrong heads-7 the mean of whatever comes
# You take the mean of the result, so an array passes for a number. A loss needs one number: ask
# for its shape.
def accepts(penalty):
    t, h = np.arange(6), np.arange(3)[:, None]
    p = np.zeros((2, 3, 7, 6))  # example 0 sharp, 1 flat; heads share no key; query 6 sees nothing
    p[0, h, t, (2 * h + t) % 6] = 1
    p[1, h, t, (2 * h + t) % 6] = p[1, h, t, (2 * h + t + 1) % 6] = 0.5
    try:
        for b in range(2):
            example = p[b : b + 1]
            for i, j in [(0, 1), (0, 2), (1, 2), (2, 0)]:
                copied = example.copy()
                copied[:, i] = copied[:, j]
                kept = copied.copy()
                cost = np.mean(penalty(copied))
                if not np.isfinite(cost) or not cost > penalty(example) + 1e-9:
                    return False
                moved = penalty(copied[:, [2, 0, 1]])
                if not np.isclose(moved, cost) or not np.array_equal(copied, kept):
                    return False
        p[0] = p[0, 0]
        alone = [penalty(p[:1]), penalty(p[1:])]
        together = penalty(p)
        return bool(np.isclose(np.mean(together), np.mean(alone)))
    except Exception:
        return False


# %% wrong heads-7 an error escapes
# When the penalty raises an error, so do you. A check gives its verdict: a penalty that breaks is
# wrong.
def accepts(penalty):
    t, h = np.arange(6), np.arange(3)[:, None]
    p = np.zeros((2, 3, 7, 6))  # example 0 sharp, 1 flat; heads share no key; query 6 sees nothing
    p[0, h, t, (2 * h + t) % 6] = 1
    p[1, h, t, (2 * h + t) % 6] = p[1, h, t, (2 * h + t + 1) % 6] = 0.5
    try:
        for b in range(2):
            example = p[b : b + 1]
            for i, j in [(0, 1), (0, 2), (1, 2), (2, 0)]:
                copied = example.copy()
                copied[:, i] = copied[:, j]
                kept = copied.copy()
                cost = penalty(copied)
                if np.ndim(cost) or not np.isfinite(cost) or not cost > penalty(example) + 1e-9:
                    return False
                moved = penalty(copied[:, [2, 0, 1]])
                if not np.isclose(moved, cost) or not np.array_equal(copied, kept):
                    return False
        p[0] = p[0, 0]
        alone = [penalty(p[:1]), penalty(p[1:])]
        together = penalty(p)
        return np.ndim(together) == 0 and bool(np.isclose(together, np.mean(alone)))
    finally:
        pass


# %% wrong heads-7 a penalty must be positive
# You reject penalties below zero. Only how they rise and fall matters: a constant added to a loss
# changes nothing.
def accepts(penalty):
    t, h = np.arange(6), np.arange(3)[:, None]
    p = np.zeros((2, 3, 7, 6))  # example 0 sharp, 1 flat; heads share no key; query 6 sees nothing
    p[0, h, t, (2 * h + t) % 6] = 1
    p[1, h, t, (2 * h + t) % 6] = p[1, h, t, (2 * h + t + 1) % 6] = 0.5
    try:
        for b in range(2):
            example = p[b : b + 1]
            for i, j in [(0, 1), (0, 2), (1, 2), (2, 0)]:
                copied = example.copy()
                copied[:, i] = copied[:, j]
                kept = copied.copy()
                cost = penalty(copied)
                if np.ndim(cost) or not cost > 0 or not cost > penalty(example) + 1e-9:
                    return False
                moved = penalty(copied[:, [2, 0, 1]])
                if not np.isclose(moved, cost) or not np.array_equal(copied, kept):
                    return False
        p[0] = p[0, 0]
        alone = [penalty(p[:1]), penalty(p[1:])]
        together = penalty(p)
        return np.ndim(together) == 0 and bool(np.isclose(together, np.mean(alone)))
    except Exception:
        return False


# %% wrong heads-7 compared with one model answer
# You compare with a penalty of your own and reject every other style. The promises don't say what
# the number is: check them.
def accepts(penalty):
    p = np.zeros((2, 3, 4, 6))
    for b, h, t in np.ndindex(2, 3, 3):
        p[b, h, t, [(2 * h + t) % 6, (2 * h + t + b) % 6]] = 1 / (b + 1)
    p[0, 1] = p[0, 2]
    before = p.copy()
    pairs = [(0, 1), (0, 2), (1, 2)]
    want = np.mean([np.minimum(p[:, g], p[:, h]).sum(-1).mean() for g, h in pairs])
    try:
        got = penalty(p)
        same = np.array_equal(p, before) and np.ndim(got) == 0
        return bool(same and np.isclose(got, want))
    except Exception:
        return False


# %% [markdown]
# ## What to take along
#
# - Cutting an axis and moving an axis are two operations. Only the first is a reshape.
# - Query heads that share a key head are neighbours.
# - Grouping saves cache and two projections; every query head still asks every key.
# - Dropout, drop-head: rescale in training, touch nothing in evaluation.
# - Before you add a term to a loss, compute it for the two cases that it should tell apart.
#
# Back to [chapter 4](../book/04_heads.ipynb).
