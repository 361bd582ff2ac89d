# %% [markdown]
# # Exercises 10: decoding with a KV cache
#
# Seven tasks on [chapter 10, *Decoding with a KV cache*](../book/10_kv_cache.ipynb). They climb
# from counting bytes to testing somebody else's decoder: predict, fill in, mend, build, and write a
# check of your own.
#
# | task | what you do | points | minutes | level |
# |---|---|---|---|---|
# | `cache-1` | predict what a cache saves, holds and wastes | 3 | 9 | 1 of 4 |
# | `cache-2` | append to a cache that is already there | 4 | 10 | 2 of 4 |
# | `cache-3` | mend a widely copied decoder | 6 | 14 | 3 of 4 |
# | `cache-4` | positions and mask of a padded batch | 4 | 11 | 2 of 4 |
# | `cache-5` | a window with sinks, in a ring | 6 | 16 | 4 of 4 |
# | `cache-6` | a paged cache with shared prefixes | 6 | 18 | 4 of 4 |
# | `cache-7` | write the check | 4 | 12 | 3 of 4 |
# | all | | 33 | 90 | |
#
# **How checking works.** Write your answer in place of the line `raise NotImplementedError`, run
# the cell, then run the check cell below it. The check calls your function and tells you which
# cases agree, where the first difference is, and, if it knows your mistake, its name and a hint. It
# calls your function as you last ran it: after every edit, **run the answer cell again** before the
# check. Some further cases run only when an instructor grades.
#
# **The letters.** `B` examples in a batch, `H` heads (`Hq` of queries, `Hk` of keys and values),
# `T` new tokens, `S` keys, `N` slots of a cache, `D` numbers in a query or key, `E` numbers in a
# value. *Slots* are the rows that a cache has room for; *positions* count the tokens of a text,
# from 0 on. *Causal* means that a query sees the key at its own position and all before it. *In
# place* means: the array that was handed over holds the result.
#
# A slot that holds no token may hold anything, **NaN too**: memory is not cleaned before it is
# used. All you need is NumPy; please write attention yourself instead of calling `attnlearn`.

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
# ## cache-1: Predict what a cache saves, holds and wastes
#
# *cache-1 · 3 points · 9 minutes · ●○○○ difficulty 1 of 4*
#
# Work these out with pencil and paper, then write down plain numbers.
#
# 1. `computed`: a text of 6 tokens, to which a model writes 4 more. Each pass reads tokens and
#    writes one. How many **keys** does one head of one layer compute in all four passes together:
#    without a cache, where each pass reads the whole text so far, and with a cache?
# 2. `copied`: the cache of that head grows by joining: every pass makes a new array of the old keys
#    and the new ones. How many keys that **were in the cache already** are copied, in all four
#    passes together? And how many if the array had room for the whole text from the beginning?
# 3. `kib`: a model with 32 layers and 32 query heads; every head is 128 wide, and a number takes 2
#    bytes. How many **KiB** (1,024 bytes) does the cache need for **one token**, all layers
#    together? With 32 key heads, with 8, and with 1.
# 4. `blocks`: texts of 5, 16 and 33 tokens are stored in blocks of 16 slots. A block belongs to one
#    text. How many blocks are needed, and how many of their slots stay empty? And how many slots
#    stay empty if every text gets 64 slots in advance?
# 5. `intensity`: one pass over a long cache. Every cached number takes 2 bytes and is read from
#    memory **once**; then each query of each query head that shares it needs it for one product and
#    one sum, which are two operations. How many operations does the pass do **per byte** that it
#    reads? For 1 new token with 32 query heads and 32 key heads; for 1 new token with 32 and 8; and
#    for 16 new tokens at once with 32 and 8.
#
# **A miniature.** 1 layer, 2 key heads of width 4, 1 byte a number: a token needs 2 · 4 numbers for
# its keys and as many for its values, 16 bytes.
#
# Half of the points are for having all five right together. Read first: *Why an old key never
# changes*, *What it costs: bytes per token*, *Prefill computes, decode waits* and *Blocks in place
# of one long room* in [chapter 10](../book/10_kv_cache.ipynb).
#
# <details>
# <summary>Hint 1 for cache-1: which pass reads what</summary>
#
# Write down the four passes. The first reads the 6 tokens and writes token 7. What does the last
# pass read, and what does it write?
#
# </details>
#
# <details>
# <summary>Hint 2 for cache-1: sharing</summary>
#
# What is stored depends on the key heads alone. What is computed depends on the query heads. So
# with fewer key heads the same work needs fewer bytes.
#
# </details>

# %% answer cache-1 points=3 minutes=9 difficulty=1 forbid=attnlearn
def computed():
    """Keys that one head computes: without a cache, with one."""
    # BEGIN SOLUTION
    return [30, 9]
    # END SOLUTION


def copied():
    """Old keys that are copied: joined in each pass, room from the beginning."""
    # BEGIN SOLUTION
    return [21, 0]
    # END SOLUTION


def kib():
    """KiB for one token: 32 key heads, 8 key heads, 1 key head."""
    # BEGIN SOLUTION
    return [512, 128, 16]
    # END SOLUTION


def blocks():
    """Blocks, their empty slots, and empty slots with 64 for each text."""
    # BEGIN SOLUTION
    return [5, 26, 138]
    # END SOLUTION


def intensity():
    """Operations per byte: 32 key heads; 8; 8 and 16 tokens at once."""
    # BEGIN SOLUTION
    return [1, 4, 64]
    # END SOLUTION

# %% check cache-1
case = check("cache-1", rtol=0, atol=0)


def _numbers(answer):
    return np.array(answer, float)


case("computed", lambda: _numbers(computed()))
case("copied", lambda: _numbers(copied()))
case("kib", lambda: _numbers(kib()))
case("blocks", lambda: _numbers(blocks()))
case("intensity", lambda: _numbers(intensity()))


@case("all five together", weight=5)
def _():
    return np.concatenate([_numbers(f()) for f in (computed, copied, kib, blocks, intensity)])

# %% right cache-1 worked out as sums
def computed():
    return sum(range(6, 10)), 6 + 3


def copied():
    return sum(range(6, 9)), 0


def kib():
    return [2 * 32 * heads * 128 * 2 / 2**10 for heads in (32, 8, 1)]


def blocks():
    return 1 + 1 + 3, 5 * 16 - 54, 3 * 64 - 54


def intensity():
    return [2 * 32 * T / (2 * heads) for T, heads in ((1, 32), (1, 8), (16, 8))]

# %% right cache-1 as arrays
def computed():
    return np.array([6 + 7 + 8 + 9, 9])


def copied():
    return np.array([21.0, 0.0])


def kib():
    return np.array([32, 8, 1]) * 16


def blocks():
    return (5, (16 - 5) + 0 + (48 - 33), (64 - 5) + (64 - 16) + (64 - 33))


def intensity():
    return np.array([1, 32 // 8, 32 // 8 * 16])

# %% wrong cache-1 one pass too many
# You count a pass that reads the last token. It is written by the fourth pass, and nobody reads it:
# four tokens need four passes.
def computed():
    return [40, 10]


def copied():
    return [21, 0]


def kib():
    return [512, 128, 16]


def blocks():
    return [5, 26, 138]


def intensity():
    return [1, 4, 64]

# %% wrong cache-1 the prompt comes for free
# With a cache you count the written tokens alone. The first pass has to compute the keys of the
# whole prompt, too.
def computed():
    return [30, 3]


def copied():
    return [21, 0]


def kib():
    return [512, 128, 16]


def blocks():
    return [5, 26, 138]


def intensity():
    return [1, 4, 64]

# %% wrong cache-1 every pass reads the prompt alone
# Without a cache all your passes read 6 tokens. What a pass writes belongs to the text that the
# next one reads.
def computed():
    return [24, 9]


def copied():
    return [21, 0]


def kib():
    return [512, 128, 16]


def blocks():
    return [5, 26, 138]


def intensity():
    return [1, 4, 64]

# %% wrong cache-1 a cache computes as much
# Your cache saves nothing. The keys of old tokens don't change, so a pass needs to compute those of
# its new tokens only.
def computed():
    return [30, 30]


def copied():
    return [21, 0]


def kib():
    return [512, 128, 16]


def blocks():
    return [5, 26, 138]


def intensity():
    return [1, 4, 64]

# %% wrong cache-1 new keys counted as copies
# You count every key that is written into a new array. Only those that were in the cache already
# are copied: what is in it before the first pass?
def computed():
    return [30, 9]


def copied():
    return [24, 3]


def kib():
    return [512, 128, 16]


def blocks():
    return [5, 26, 138]


def intensity():
    return [1, 4, 64]

# %% wrong cache-1 joining copies nothing
# You take joining for free. An array lies in one piece of memory, so a longer one is a new one:
# where do its first rows come from?
# Seen: https://github.com/foundation-model-stack/foundation-model-stack/pull/84
def computed():
    return [30, 9]


def copied():
    return [0, 0]


def kib():
    return [512, 128, 16]


def blocks():
    return [5, 26, 138]


def intensity():
    return [1, 4, 64]

# %% wrong cache-1 an array with room is copied, too
# With room from the beginning you copy as much as by joining. What was written stays where it is:
# only new keys move.
def computed():
    return [30, 9]


def copied():
    return [21, 21]


def kib():
    return [512, 128, 16]


def blocks():
    return [5, 26, 138]


def intensity():
    return [1, 4, 64]

# %% wrong cache-1 values are not stored
# You count the keys alone. A query needs the values of old tokens as well.
def computed():
    return [30, 9]


def copied():
    return [21, 0]


def kib():
    return [256, 64, 8]


def blocks():
    return [5, 26, 138]


def intensity():
    return [1, 4, 64]

# %% wrong cache-1 query heads are stored
# Your cache has as much for 8 key heads as for 32. Queries are used once and thrown away: which
# heads does a cache keep?
# Seen: jranaraki/vllm-fit#14
# Seen: meta-pytorch/torchtune#38
def computed():
    return [30, 9]


def copied():
    return [21, 0]


def kib():
    return [512, 512, 512]


def blocks():
    return [5, 26, 138]


def intensity():
    return [1, 4, 64]

# %% wrong cache-1 heads taken for the size of a group
# You divide the query heads by the number of key heads. The number given *is* the number of heads
# that are stored.
# Seen: rasbt/LLMs-from-scratch#922
def computed():
    return [30, 9]


def copied():
    return [21, 0]


def kib():
    return [16, 64, 512]


def blocks():
    return [5, 26, 138]


def intensity():
    return [1, 4, 64]

# %% wrong cache-1 one layer only
# You count the cache of a single layer. Each layer has keys and values of its own: 32 times as
# much.
def computed():
    return [30, 9]


def copied():
    return [21, 0]


def kib():
    return [16, 4, 0.5]


def blocks():
    return [5, 26, 138]


def intensity():
    return [1, 4, 64]

# %% wrong cache-1 a number takes four bytes
# Do your numbers take four bytes each? Here they are half precision: 2 bytes, in the cache and in
# what is read. Or do you count a product and a sum as one operation? They are two.
def computed():
    return [30, 9]


def copied():
    return [21, 0]


def kib():
    return [1024, 256, 32]


def blocks():
    return [5, 26, 138]


def intensity():
    return [0.5, 2, 32]

# %% wrong cache-1 the width of the model for that of a head
# You count the width of the whole model for every head. A head is 128 wide; all 32 together are
# 4,096.
# Seen: KolosalAI/model-memory-calculator#2
def computed():
    return [30, 9]


def copied():
    return [21, 0]


def kib():
    return [16384, 4096, 512]


def blocks():
    return [5, 26, 138]


def intensity():
    return [1, 4, 64]

# %% wrong cache-1 always a block more
# A text of 16 tokens gets two blocks from you. One block of 16 is just full then; the next is
# needed with the next token.
def computed():
    return [30, 9]


def copied():
    return [21, 0]


def kib():
    return [512, 128, 16]


def blocks():
    return [6, 42, 138]


def intensity():
    return [1, 4, 64]

# %% wrong cache-1 texts share a block
# You divide the sum of all tokens by 16, as if the end of one text and the beginning of another
# shared a block. A block belongs to one text.
def computed():
    return [30, 9]


def copied():
    return [21, 0]


def kib():
    return [512, 128, 16]


def blocks():
    return [4, 10, 138]


def intensity():
    return [1, 4, 64]

# %% wrong cache-1 64 slots for all together
# Your third number has 64 slots for all texts together. Every text gets 64 in advance, however
# short it is.
def computed():
    return [30, 9]


def copied():
    return [21, 0]


def kib():
    return [512, 128, 16]


def blocks():
    return [5, 26, 10]


def intensity():
    return [1, 4, 64]

# %% wrong cache-1 every query head reads for itself
# You let every query head read the cache for itself. Heads that share a key head use what was read
# once.
# Seen: hahnyuan/LLM-Viewer#12
def computed():
    return [30, 9]


def copied():
    return [21, 0]


def kib():
    return [512, 128, 16]


def blocks():
    return [5, 26, 138]


def intensity():
    return [1, 1, 16]

# %% wrong cache-1 every new token reads for itself
# You let 16 new tokens read the cache 16 times. In one pass it is read once, for all of them: that
# is why a long prompt is cheap per token.
def computed():
    return [30, 9]


def copied():
    return [21, 0]


def kib():
    return [512, 128, 16]


def blocks():
    return [5, 26, 138]


def intensity():
    return [1, 4, 4]

# %% [markdown]
# ## cache-2: Append to a cache that is already there
#
# *cache-2 · 4 points · 10 minutes · ●●○○ difficulty 2 of 4*
#
# A cache has room for `N` tokens from the beginning. Write `append(keys, values, lengths, k, v)`,
# which stores `T` new tokens of every example and returns what attention needs next.
#
# - `keys` is `[B, Hk, N, D]` and `values` is `[B, Hk, N, E]`. Example `b` holds `lengths[b]`
#   tokens, in its first slots. Examples may differ in length.
# - `k` is `[B, Hk, T, D]` and `v` is `[B, Hk, T, E]`: the next `T` tokens of every example, `T` at
#   least 1. They go behind the tokens that the example already holds.
# - `keys`, `values` and `lengths` change **in place**. Nothing that was in the cache is copied.
# - Return two **views**: the keys and the values up to the end of the **longest** example,
#   `[B, Hk, S, D]` and `[B, Hk, S, E]`. (Slots past the end of a shorter example are hidden by a
#   mask later.)
# - If the tokens of **any** example don't fit, raise `ValueError` and leave everything as it was. A
#   cache may become full to the last slot.
#
# Half of the points are for a case with all of it at once.
#
# **A miniature.** One head, D = 1, N = 4. `lengths = [2, 0]`, and one new token each: example 0
# stores it in slot 2, example 1 in slot 0. `lengths` is then `[3, 1]`, and the views have S = 3.
#
# Read first: *The cache in twelve lines* in [chapter 10](../book/10_kv_cache.ipynb).
#
# <details>
# <summary>Hint 1 for cache-2: one example at a time</summary>
#
# Slices of NumPy arrays are views, and assigning to a slice changes the array itself. Every example
# begins at a place of its own, so a loop over the examples is a good start.
#
# </details>
#
# <details>
# <summary>Hint 2 for cache-2: in place or not</summary>
#
# `a += b` changes the array; `a = a + b` makes a new one and leaves the caller's array alone. And
# what must be known before the first token is written?
#
# </details>

# %% answer cache-2 points=4 minutes=10 difficulty=2 forbid=attnlearn
def append(keys, values, lengths, k, v):
    """Store k [B, Hk, T, D], v [B, Hk, T, E] in place -> views of keys, values."""
    # BEGIN SOLUTION
    T = k.shape[2]
    if lengths.max() + T > keys.shape[2]:
        raise ValueError("the new tokens don't fit into the cache")
    for b, n in enumerate(lengths):
        keys[b, :, n : n + T] = k[b]
        values[b, :, n : n + T] = v[b]
    lengths += T
    S = lengths.max()
    return keys[:, :, :S], values[:, :, :S]
    # END SOLUTION

# %% check cache-2
case = check("cache-2")


def _cache(rng, lengths, N=8, Hk=2, D=2, E=1):
    keys, values = (rng.normal(size=(len(lengths), Hk, N, size)) for size in (D, E))
    for b, n in enumerate(lengths):
        keys[b, :, n:] = values[b, :, n:] = np.nan
    return keys, values, np.array(lengths)


def _new(rng, cache, T):
    return [rng.normal(size=(*array.shape[:2], T, array.shape[3])) for array in cache[:2]]


def _same(a, b):
    return bool(np.array_equal(a, b, equal_nan=True))


def _appended(cache, new):
    views = append(*cache, *new)
    pairs = list(zip(views, cache[:2], strict=True))
    behind = [array[:, :, view.shape[2] :] for view, array in pairs]
    return {
        "keys": views[0].copy(),
        "values": views[1].copy(),
        "lengths": cache[2].copy(),
        "views of the cache": np.array([np.shares_memory(*pair) for pair in pairs]),
        "in the cache": np.array([_same(v, array[:, :, : v.shape[2]]) for v, array in pairs]),
        "nothing behind": np.array([np.isnan(array).all() for array in behind]),
    }


def _refused(cache, new):
    before = [x.copy() for x in cache]
    try:
        append(*cache, *new)
        error = "none"
    except Exception as problem:
        error = type(problem).__name__
    return {"error": error, "kept": np.array(list(map(_same, before, cache))), "values": cache[1]}


def _extra_mb():
    cache = np.zeros((2, 1, 1024, 64)), np.zeros((2, 1, 1024, 64)), np.array([900, 700])
    new = np.ones((2, 1, 1, 64))
    tracemalloc.start()
    try:
        append(*cache, new, new)
        return tracemalloc.get_traced_memory()[1] / 1e6
    finally:
        tracemalloc.stop()


@case("a new cache, 3 tokens")
def _(rng):
    cache = _cache(rng, [0, 0])
    return _appended(cache, _new(rng, cache, 3))


@case("one token, examples of unlike length")
def _(rng):
    cache = _cache(rng, [2, 5, 0])
    return _appended(cache, _new(rng, cache, 1))


@case("3 tokens, the last example is the longest", weight=2)
def _(rng):
    cache = _cache(rng, [1, 0, 4], Hk=1)
    return _appended(cache, _new(rng, cache, 3))


@case("full to the last slot")
def _(rng):
    cache = _cache(rng, [3, 6])
    return _appended(cache, _new(rng, cache, 2))


@case("one example doesn't fit", weight=2)
def _(rng):
    cache = _cache(rng, [1, 6])
    return _refused(cache, _new(rng, cache, 3))


@case("the new arrays may change later")
def _(rng):
    cache = _cache(rng, [1, 2])
    new = _new(rng, cache, 2)
    keys, values = append(*cache, *new)
    new[0][:] = new[1][:] = 0
    return {"keys": keys, "values": values}


case("extra memory in MB, a cache of 2 MB", _extra_mb, at_most=0.1)


@case("all of it at once", weight=9)
def _(rng):
    cache = _cache(rng, [4, 0, 2], N=9)
    steps = [_appended(cache, _new(rng, cache, T)) for T in (1, 3, 1)]
    full = _refused(cache, _new(rng, cache, 1))
    return {"steps": steps, "full": full, "too much memory": _extra_mb() > 0.1}

# %% hidden cache-2
case = check("cache-2")


@case("drawn lengths, 5 examples")
def _(rng):
    cache = _cache(rng, rng.permutation([0, 1, 3, 5, 6]), N=9)
    return [_appended(cache, _new(rng, cache, T)) for T in (1, 2)]

# %% right cache-2 a grid of slots
def append(keys, values, lengths, k, v):
    slots = lengths[:, None] + np.arange(k.shape[-2])
    if (slots >= keys.shape[-2]).any():
        raise ValueError(f"{keys.shape[-2]} slots, the last token needs slot {slots.max()}")
    rows = np.arange(len(keys))[:, None]
    keys[rows, :, slots] = np.swapaxes(k, 1, 2)
    values[rows, :, slots] = np.swapaxes(v, 1, 2)
    lengths[:] = slots[:, -1] + 1
    end = max(lengths)
    return keys[..., :end, :], values[..., :end, :]

# %% right cache-2 token by token
def append(keys, values, lengths, k, v):
    B, Hk, T, _ = k.shape
    if any(n + T > values.shape[2] for n in lengths):
        raise ValueError("no room")
    for b in range(B):
        for t in range(T):
            for h in range(Hk):
                np.copyto(keys[b, h, lengths[b]], k[b, h, t])
                np.copyto(values[b, h, lengths[b]], v[b, h, t])
            lengths[b] += 1
    S = lengths.max()
    return [x[:, :, :S] for x in (keys, values)]

# %% wrong cache-2 the new tokens are counted twice
# The lengths hold the new tokens already when you add T to the longest.
def append(keys, values, lengths, k, v):
    """Store k [B, Hk, T, D], v [B, Hk, T, E] in place -> views of keys, values."""
    T, N = k.shape[2], keys.shape[2]
    if (lengths + T > N).any():
        raise ValueError("full")
    for b, n in enumerate(lengths):
        keys[b, :, n:n + T] = k[b]
        values[b, :, n:n + T] = v[b]
    lengths += T
    S = lengths.max() + T
    return keys[:, :, :S], values[:, :, :S]

# %% wrong cache-2 the views end before the new tokens
# You look for the longest example before the new tokens are counted. What you return ends before
# them.
def append(keys, values, lengths, k, v):
    """Store k [B, Hk, T, D], v [B, Hk, T, E] in place -> views of keys, values."""
    T, N = k.shape[2], keys.shape[2]
    if (lengths + T > N).any():
        raise ValueError("full")
    for b, n in enumerate(lengths):
        keys[b, :, n:n + T] = k[b]
        values[b, :, n:n + T] = v[b]
    S = lengths.max()
    lengths += T
    return keys[:, :, :S], values[:, :, :S]

# %% wrong cache-2 joined into new arrays
# You make new arrays of the old tokens and the new ones. That copies all that was there, and the
# cache itself stays as it was.
# Seen: kornia/kornia-rs#903
# Seen: https://github.com/huggingface/transformers/pull/24115
def append(keys, values, lengths, k, v):
    T = k.shape[2]
    if lengths.max() + T > keys.shape[2]:
        raise ValueError("the new tokens don't fit into the cache")
    lengths += T
    S = lengths.max()
    joined = [np.full((*x.shape[:2], S, x.shape[3]), np.nan) for x in (keys, values)]
    for b, n in enumerate(lengths):
        for new, old, last in zip(joined, (keys, values), (k, v), strict=True):
            new[b, :, :n] = np.concatenate([old[b, :, : n - T], last[b]], axis=1)
    return tuple(joined)

# %% wrong cache-2 the lengths don't move
# You store the tokens and forget how many there are now. The next ones would take the same slots,
# and what you return ends before them.
# Seen: https://github.com/ekryski/mlx-swift-lm/pull/90
def append(keys, values, lengths, k, v):
    T = k.shape[2]
    if lengths.max() + T > keys.shape[2]:
        raise ValueError("the new tokens don't fit into the cache")
    for b, n in enumerate(lengths):
        keys[b, :, n : n + T] = k[b]
        values[b, :, n : n + T] = v[b]
    S = lengths.max()
    return keys[:, :, :S], values[:, :, :S]

# %% wrong cache-2 the lengths of the caller don't move
# You give the name `lengths` to a new array. The caller's array still holds the old numbers: change
# that one.
def append(keys, values, lengths, k, v):
    T = k.shape[2]
    if lengths.max() + T > keys.shape[2]:
        raise ValueError("the new tokens don't fit into the cache")
    for b, n in enumerate(lengths):
        keys[b, :, n : n + T] = k[b]
        values[b, :, n : n + T] = v[b]
    lengths = lengths + T
    S = lengths.max()
    return keys[:, :, :S], values[:, :, :S]

# %% wrong cache-2 the lengths move by one
# You add 1 to the lengths. A prompt, or a chunk of it, brings several tokens at once.
def append(keys, values, lengths, k, v):
    T = k.shape[2]
    if lengths.max() + T > keys.shape[2]:
        raise ValueError("the new tokens don't fit into the cache")
    for b, n in enumerate(lengths):
        keys[b, :, n : n + T] = k[b]
        values[b, :, n : n + T] = v[b]
    lengths += 1
    S = lengths.max()
    return keys[:, :, :S], values[:, :, :S]

# %% wrong cache-2 the lengths move too soon
# You count the new tokens before you store them, so they leave T slots empty. The first one belongs
# right behind the last old one.
# Seen: https://github.com/skyzh/tiny-llm/pull/46
def append(keys, values, lengths, k, v):
    T = k.shape[2]
    if lengths.max() + T > keys.shape[2]:
        raise ValueError("the new tokens don't fit into the cache")
    lengths += T
    for b, n in enumerate(lengths):
        keys[b, :, n : n + T] = k[b][:, : keys.shape[2] - n]
        values[b, :, n : n + T] = v[b][:, : keys.shape[2] - n]
    S = lengths.max()
    return keys[:, :, :S], values[:, :, :S]

# %% wrong cache-2 the first example decides for all
# All examples store where the first one ends. Every example has a length of its own.
# Seen: https://github.com/karpathy/nanochat/pull/485
# Seen: https://github.com/google-research/timesfm/pull/492
def append(keys, values, lengths, k, v):
    T = k.shape[2]
    if lengths.max() + T > keys.shape[2]:
        raise ValueError("the new tokens don't fit into the cache")
    for b, n in enumerate(lengths):
        n = lengths[0]
        keys[b, :, n : n + T] = k[b]
        values[b, :, n : n + T] = v[b]
    lengths += T
    S = lengths.max()
    return keys[:, :, :S], values[:, :, :S]

# %% wrong cache-2 everybody stores behind the longest
# Shorter examples leave a gap before their new tokens. The slots of an example hold its tokens
# without a gap.
def append(keys, values, lengths, k, v):
    T = k.shape[2]
    if lengths.max() + T > keys.shape[2]:
        raise ValueError("the new tokens don't fit into the cache")
    for b, n in enumerate(lengths):
        n = lengths.max()
        keys[b, :, n : n + T] = k[b]
        values[b, :, n : n + T] = v[b]
    lengths += T
    S = lengths.max()
    return keys[:, :, :S], values[:, :, :S]

# %% wrong cache-2 the whole cache is returned
# You return all N slots. Those behind the longest example hold no token, and nobody should compute
# with them.
# Seen: https://github.com/huggingface/transformers/pull/30414
def append(keys, values, lengths, k, v):
    T = k.shape[2]
    if lengths.max() + T > keys.shape[2]:
        raise ValueError("the new tokens don't fit into the cache")
    for b, n in enumerate(lengths):
        keys[b, :, n : n + T] = k[b]
        values[b, :, n : n + T] = v[b]
    lengths += T
    S = keys.shape[2]
    return keys[:, :, :S], values[:, :, :S]

# %% wrong cache-2 up to the shortest example
# What you return ends with the shortest example, so that longer ones lose their newest tokens.
def append(keys, values, lengths, k, v):
    T = k.shape[2]
    if lengths.max() + T > keys.shape[2]:
        raise ValueError("the new tokens don't fit into the cache")
    for b, n in enumerate(lengths):
        keys[b, :, n : n + T] = k[b]
        values[b, :, n : n + T] = v[b]
    lengths += T
    S = lengths.min()
    return keys[:, :, :S], values[:, :, :S]

# %% wrong cache-2 a copy is returned
# What you return is a copy: every token would copy the whole cache again. A slice shows the same
# numbers without.
def append(keys, values, lengths, k, v):
    T = k.shape[2]
    if lengths.max() + T > keys.shape[2]:
        raise ValueError("the new tokens don't fit into the cache")
    for b, n in enumerate(lengths):
        keys[b, :, n : n + T] = k[b]
        values[b, :, n : n + T] = v[b]
    lengths += T
    S = lengths.max()
    return keys[:, :, :S].copy(), values[:, :, :S].copy()

# %% wrong cache-2 a full cache is refused
# You refuse tokens that would have fitted exactly. With N slots an example may hold N tokens.
# Seen: https://github.com/pytorch/executorch/pull/5227
def append(keys, values, lengths, k, v):
    T = k.shape[2]
    if lengths.max() + T >= keys.shape[2]:
        raise ValueError("the new tokens don't fit into the cache")
    for b, n in enumerate(lengths):
        keys[b, :, n : n + T] = k[b]
        values[b, :, n : n + T] = v[b]
    lengths += T
    S = lengths.max()
    return keys[:, :, :S], values[:, :, :S]

# %% wrong cache-2 the error comes too late
# You raise an error when some examples are stored already. Look at all of them before you write
# anything: an error must leave no half-made state.
# Seen: inference-sim/inference-sim#200
def append(keys, values, lengths, k, v):
    T = k.shape[2]
    for b, n in enumerate(lengths):
        keys[b, :, n : n + T] = k[b]
        values[b, :, n : n + T] = v[b]
    lengths += T
    S = lengths.max()
    return keys[:, :, :S], values[:, :, :S]

# %% wrong cache-2 what doesn't fit is dropped
# Tokens past the end vanish without a word. The model would go on writing, and answer from a text
# with a hole.
# Seen: https://github.com/karpathy/nanochat/pull/627
def append(keys, values, lengths, k, v):
    T = k.shape[2]
    for b, n in enumerate(lengths):
        keys[b, :, n : n + T] = k[b, :, : keys.shape[2] - n]
        values[b, :, n : n + T] = v[b, :, : keys.shape[2] - n]
    lengths += T
    S = lengths.max()
    return keys[:, :, :S], values[:, :, :S]

# %% wrong cache-2 the oldest tokens are overwritten
# When the cache is full you begin again at slot 0. That makes a window of it, which hides old
# tokens: here an error is asked for.
def append(keys, values, lengths, k, v):
    T = k.shape[2]
    for b, n in enumerate(lengths):
        at = np.arange(n, n + T) % keys.shape[2]
        keys[b][:, at], values[b][:, at] = k[b], v[b]
    lengths += T
    S = lengths.max()
    return keys[:, :, :S], values[:, :, :S]

# %% wrong cache-2 an assertion in place of an error
# You use `assert`. It raises AssertionError, and with `python -O` nothing at all: for bad input
# ValueError is asked for.
def append(keys, values, lengths, k, v):
    T = k.shape[2]
    assert lengths.max() + T <= keys.shape[2]
    for b, n in enumerate(lengths):
        keys[b, :, n : n + T] = k[b]
        values[b, :, n : n + T] = v[b]
    lengths += T
    S = lengths.max()
    return keys[:, :, :S], values[:, :, :S]

# %% wrong cache-2 the values are forgotten
# You store the keys alone. What a query takes from the tokens it looks at are their values.
def append(keys, values, lengths, k, v):
    T = k.shape[2]
    if lengths.max() + T > keys.shape[2]:
        raise ValueError("the new tokens don't fit into the cache")
    for b, n in enumerate(lengths):
        keys[b, :, n : n + T] = k[b]
    lengths += T
    S = lengths.max()
    return keys[:, :, :S], values[:, :, :S]

# %% wrong cache-2 the newest token only
# Of T new tokens you store the last one. Every one of them is a key for those that come later.
def append(keys, values, lengths, k, v):
    T = k.shape[2]
    if lengths.max() + T > keys.shape[2]:
        raise ValueError("the new tokens don't fit into the cache")
    for b, n in enumerate(lengths):
        keys[b, :, n + T - 1] = k[b, :, -1]
        values[b, :, n + T - 1] = v[b, :, -1]
    lengths += T
    S = lengths.max()
    return keys[:, :, :S], values[:, :, :S]

# %% [markdown]
# ## cache-3: Mend a widely copied decoder
#
# *cache-3 · 6 points · 14 minutes · ●●●○ difficulty 3 of 4*
#
# The class in the next cell is put together from lines that many articles share. It runs, and it is
# wrong. Copy it into the answer cell as `Decoder` and mend it until it keeps its promise:
#
# - `step(x)` reads the next `T` tokens, `x` of shape `[T, C]`, and returns their outputs `[T, E]`:
#   **causal attention over all tokens read so far**, the new ones included. Scores are q · k / √D,
#   where D is the width of a key.
# - Tokens may come one at a time, in chunks, or all at once: the outputs are the same.
# - Each token is multiplied with `w_k` and `w_v` **once**, when it comes.
# - `Decoder(w_q, w_k, w_v, length)` makes room for `length` tokens. **No step copies old keys or
#   values.**
# - The cache holds what comes, float64, and rounds nothing. Keys and scores may be large.
# - Every decoder reads a text of its own.
#
# Half of the points are for a case that has all of it at once.
#
# **A miniature** of one fault. w_q, w_k and w_v are the matrix `[[1]]`. The tokens 1 and 2 come one
# after the other. Token 2 has the scores 2 · 1 and 2 · 2, so its output lies between 1 and 2; a
# cache that forgot token 1 answers 2.
#
# Read first: *What goes wrong in real code* in [chapter 10](../book/10_kv_cache.ipynb).
#
# <details>
# <summary>Hint 1 for cache-3: how to find the faults</summary>
#
# Write causal attention over a whole text in a few lines, as in chapter 3, and compare: one token;
# two tokens at once; the same two one by one. Then weights that are very large. Then look at how
# much memory one step takes after many tokens. There are five faults.
#
# </details>
#
# <details>
# <summary>Hint 2 for cache-3: where a query stands</summary>
#
# If `start` tokens were there before, new token number t stands at position start + t. Which slots
# of the cache may it see?
#
# </details>

# %%
class CopiedDecoder:
    """Wrong: find out where, then mend it in the answer cell below."""

    def __init__(self, w_q, w_k, w_v, length):
        self.w_q, self.w_k, self.w_v, self.length = w_q, w_k, w_v, length
        self.keys = np.zeros((0, w_k.shape[1]), np.float16)
        self.values = np.zeros((0, w_v.shape[1]), np.float16)

    def step(self, x):
        q, k, v = x @ self.w_q, x @ self.w_k, x @ self.w_v
        keys = np.concatenate([self.keys, k.astype(np.float16)])
        values = np.concatenate([self.values, v.astype(np.float16)])
        s = q @ keys.T
        p = np.exp(s - s.max(1, keepdims=True))
        return p / p.sum(1, keepdims=True) @ values

# %% answer cache-3 points=6 minutes=14 difficulty=3 forbid=attnlearn,scaled_dot_product_attention
class Decoder:
    """One head that reads a text piece by piece and keeps its keys and values."""

    def __init__(self, w_q, w_k, w_v, length):
        """w_q, w_k [C, D], w_v [C, E]; room for `length` tokens."""
        # BEGIN SOLUTION
        self.w_q, self.w_k, self.w_v, self.n = w_q, w_k, w_v, 0
        self.keys = np.empty((length, w_k.shape[1]))
        self.values = np.empty((length, w_v.shape[1]))
        # END SOLUTION

    def step(self, x):
        """x [T, C], the next T tokens -> their outputs [T, E]."""
        # BEGIN SOLUTION
        start, self.n = self.n, self.n + len(x)
        self.keys[start : self.n] = x @ self.w_k
        self.values[start : self.n] = x @ self.w_v
        k, v = self.keys[: self.n], self.values[: self.n]
        s = x @ self.w_q @ k.T / np.sqrt(k.shape[1])
        i = np.arange(start, self.n)[:, None]
        s = np.where(np.arange(self.n) <= i, s, -np.inf)
        p = np.exp(s - s.max(1, keepdims=True))
        return p / p.sum(1, keepdims=True) @ v
        # END SOLUTION

# %% check cache-3
case = check("cache-3", atol=1e-6)


class _Counted(np.ndarray):
    """A matrix that counts the tokens it is multiplied with."""

    rows = 0

    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        if ufunc is np.matmul:
            tokens = [x for x in inputs if not isinstance(x, _Counted)]
            _Counted.rows += sum(np.size(x) for x in tokens) // 4  # a token has 4 numbers
        plain = [np.asarray(x) if isinstance(x, _Counted) else x for x in inputs]
        return getattr(ufunc, method)(*plain, **kwargs)


def _weights(rng, C=4, D=3, E=2):
    return [rng.normal(size=(C, n)) / np.sqrt(C) for n in (D, D, E)]


def _lifted(rng, T, D=3):
    """Weights and a text whose scores are all near 1,000."""
    (w_q, w_k, w_v), x = _weights(rng, D=D), rng.normal(size=(T, 4))
    x[:, 0], w_q[:, 0], w_k[:, 0] = 1, 0, 0
    w_q[0, 0], w_k[0, 0] = np.sqrt(D), 1000
    return [w_q, w_k, w_v], x


def _read(weights, x, sizes, length=12):
    decoder = Decoder(*weights, length)
    pieces = np.split(x, np.cumsum(sizes)[:-1])
    return np.concatenate([decoder.step(piece) for piece in pieces])


def _rows(rng, sizes):
    w_q, w_k, w_v = _weights(rng)
    _Counted.rows = 0
    _read([w_q, w_k.view(_Counted), w_v.view(_Counted)], rng.normal(size=(sum(sizes), 4)), sizes)
    return _Counted.rows


def _extra_mb(rng, tokens=280, D=320):
    decoder, most = Decoder(*_weights(rng, D=D, E=D), tokens), 0
    text = rng.normal(size=(tokens, 4))
    decoder.step(text[:240])
    tracemalloc.start()
    try:
        for t in range(240, tokens):
            tracemalloc.reset_peak()
            before = tracemalloc.get_traced_memory()[0]
            decoder.step(text[t : t + 1])
            most = max(most, tracemalloc.get_traced_memory()[1] - before)
        return most / 1e6
    finally:
        tracemalloc.stop()


case("one token", lambda rng: _read(_weights(rng), rng.normal(size=(1, 4)), [1]))
case("6 tokens, one by one", lambda rng: _read(_weights(rng), rng.normal(size=(6, 4)), 6 * [1]))
case("6 tokens at once", lambda rng: _read(_weights(rng), rng.normal(size=(6, 4)), [6]))
case("chunks of 2, 3 and 1", lambda rng: _read(_weights(rng), rng.normal(size=(6, 4)), [2, 3, 1]))


@case("values wider than keys")
def _(rng):
    return _read(_weights(rng, C=5, D=2, E=6), rng.normal(size=(5, 5)), [1, 4], length=5)


case("scores near 1,000", lambda rng: _read(*_lifted(rng, 4), [2, 1, 1]))


@case("keys near 10 to the power of 60")
def _(rng):
    w_q, w_k, w_v = _weights(rng)
    return _read([w_q / 1e60, w_k * 1e60, w_v], rng.normal(size=(4, 4)), [2, 1, 1])


@case("two texts at the same time")
def _(rng):
    weights, texts = _weights(rng), rng.normal(size=(2, 3, 4))
    decoders = [Decoder(*weights, 5) for _ in texts]
    return [[d.step(x[t : t + 1]) for d, x in zip(decoders, texts, strict=True)] for t in range(3)]


case("multiplied with w_k and w_v, 8 tokens", lambda rng: _rows(rng, 8 * [1]), at_most=16)
case("extra memory in MB, a cache of 1.4 MB", _extra_mb, at_most=0.3)


@case("all of it at once", weight=10)
def _(rng):
    w_q, w_k, w_v = _weights(rng, C=4, D=5, E=3)
    high, text = _lifted(rng, 9, D=6)
    first, second = Decoder(w_q / 1e60, w_k * 1e60, w_v, 9), Decoder(*high, 9)
    pairs = (first, rng.normal(size=(9, 4))), (second, text)
    pieces = (0, 2), (2, 3), (3, 7), (7, 9)
    steps = [decoder.step(x[a:b]) for a, b in pieces for decoder, x in pairs]
    return {
        "outputs": steps,
        "too many products": _rows(rng, [1, 3, 1, 1]) > 12,
        "too much memory": _extra_mb(rng) > 0.3,
    }

# %% hidden cache-3
case = check("cache-3", atol=1e-6)


@case("drawn chunks")
def _(rng):
    return _read(_weights(rng, D=7), rng.normal(size=(12, 4)), rng.permutation([1, 2, 4, 5]))

# %% right cache-3 one query after the other
class Decoder:
    def __init__(self, w_q, w_k, w_v, length):
        self.w = w_q, w_k, w_v
        self.cache = np.zeros((length, w_k.shape[1])), np.zeros((length, w_v.shape[1]))
        self.count = 0

    def step(self, x):
        out = []
        for row in x:
            q, k, v = (row[None] @ w for w in self.w)
            self.cache[0][self.count], self.cache[1][self.count] = k[0], v[0]
            self.count += 1
            keys, values = (part[: self.count] for part in self.cache)
            s = (keys @ q[0]) / len(q[0]) ** 0.5
            p = np.exp(s - s.max())
            out.append(p @ values / p.sum())
        return np.array(out)

# %% right cache-3 keys kept as columns
class Decoder:
    def __init__(self, w_q, w_k, w_v, length):
        self.w_q, self.w_kv, self.D = w_q / np.sqrt(w_k.shape[1]), (w_k, w_v), w_k.shape[1]
        self.cache = np.full((w_k.shape[1] + w_v.shape[1], length), np.nan)
        self.seen = 0

    def step(self, x):
        old, new = self.seen, len(x)
        here = self.cache[:, : old + new]
        here[: self.D, old:] = (x @ self.w_kv[0]).T
        here[self.D :, old:] = (x @ self.w_kv[1]).T
        self.seen += new
        s = np.einsum("td,ds->ts", x @ self.w_q, here[: self.D])
        s[~np.tri(new, old + new, old, dtype=bool)] = -np.inf
        p = np.exp(s - np.logaddexp.reduce(s, axis=1, keepdims=True))
        return np.einsum("ts,es->te", p, here[self.D :])

# %% wrong cache-3 a cache in single precision
# Your cache rounds to seven digits, and what lies beyond 3.4 · 10³⁸ becomes infinite there. And
# float32 times float64 turns the whole cache into float64 in every step.
class Decoder:
    """One head that reads a text piece by piece and keeps its keys and values."""

    def __init__(self, w_q, w_k, w_v, length):
        """w_q, w_k [C, D], w_v [C, E]; room for `length` tokens."""
        self.w_q, self.w_k, self.w_v = w_q, w_k, w_v
        self.keys = np.zeros((length, w_k.shape[1]), np.float32)
        self.values = np.zeros((length, w_v.shape[1]), np.float32)
        self.n = 0

    def step(self, x):
        """x [T, C], the next T tokens -> their outputs [T, E]."""
        start, end = self.n, self.n + len(x)
        q = x @ self.w_q
        self.keys[start:end] = x @ self.w_k
        self.values[start:end] = x @ self.w_v
        self.n = end
        keys, values = self.keys[:end], self.values[:end]
        s = q @ keys.T / np.sqrt(q.shape[1])
        i = np.arange(start, end)[:, None]
        s = np.where(np.arange(end) <= i, s, -np.inf)
        p = np.exp(s - s.max(1, keepdims=True))
        return p / p.sum(1, keepdims=True) @ values

# %% wrong cache-3 as it was copied
# Nothing is mended yet. Begin with two tokens, one after the other: what does the second step know
# of the first?
class Decoder:
    def __init__(self, w_q, w_k, w_v, length):
        self.w_q, self.w_k, self.w_v, self.length = w_q, w_k, w_v, length
        self.keys = np.zeros((0, w_k.shape[1]), np.float16)
        self.values = np.zeros((0, w_v.shape[1]), np.float16)

    def step(self, x):
        q, k, v = x @ self.w_q, x @ self.w_k, x @ self.w_v
        keys = np.concatenate([self.keys, k.astype(np.float16)])
        values = np.concatenate([self.values, v.astype(np.float16)])
        s = q @ keys.T
        p = np.exp(s - s.max(1, keepdims=True))
        return p / p.sum(1, keepdims=True) @ values

# %% wrong cache-3 not scaled
# Your scores are not divided by √D. The larger D is, the larger they grow, until one key takes
# nearly all the weight.
# Seen: https://github.com/huggingface/blog/pull/2893
class Decoder:

    def __init__(self, w_q, w_k, w_v, length):
        self.w_q, self.w_k, self.w_v, self.n = w_q, w_k, w_v, 0
        self.keys = np.empty((length, w_k.shape[1]))
        self.values = np.empty((length, w_v.shape[1]))

    def step(self, x):
        start, self.n = self.n, self.n + len(x)
        self.keys[start : self.n] = x @ self.w_k
        self.values[start : self.n] = x @ self.w_v
        k, v = self.keys[: self.n], self.values[: self.n]
        s = x @ self.w_q @ k.T
        i = np.arange(start, self.n)[:, None]
        s = np.where(np.arange(self.n) <= i, s, -np.inf)
        p = np.exp(s - s.max(1, keepdims=True))
        return p / p.sum(1, keepdims=True) @ v

# %% wrong cache-3 scaled by the width of the input
# You divide by √C, the width of what comes in. What grows with the number of terms is q · k: how
# many terms has that sum?
# Seen: Graylab/DL4Proteins-notebooks#12
class Decoder:

    def __init__(self, w_q, w_k, w_v, length):
        self.w_q, self.w_k, self.w_v, self.n = w_q, w_k, w_v, 0
        self.keys = np.empty((length, w_k.shape[1]))
        self.values = np.empty((length, w_v.shape[1]))

    def step(self, x):
        start, self.n = self.n, self.n + len(x)
        self.keys[start : self.n] = x @ self.w_k
        self.values[start : self.n] = x @ self.w_v
        k, v = self.keys[: self.n], self.values[: self.n]
        s = x @ self.w_q @ k.T / np.sqrt(x.shape[1])
        i = np.arange(start, self.n)[:, None]
        s = np.where(np.arange(self.n) <= i, s, -np.inf)
        p = np.exp(s - s.max(1, keepdims=True))
        return p / p.sum(1, keepdims=True) @ v

# %% wrong cache-3 scaled by the width of a value
# You divide by √E. A value takes no part in the score, only queries and keys do.
class Decoder:

    def __init__(self, w_q, w_k, w_v, length):
        self.w_q, self.w_k, self.w_v, self.n = w_q, w_k, w_v, 0
        self.keys = np.empty((length, w_k.shape[1]))
        self.values = np.empty((length, w_v.shape[1]))

    def step(self, x):
        start, self.n = self.n, self.n + len(x)
        self.keys[start : self.n] = x @ self.w_k
        self.values[start : self.n] = x @ self.w_v
        k, v = self.keys[: self.n], self.values[: self.n]
        s = x @ self.w_q @ k.T / np.sqrt(v.shape[1])
        i = np.arange(start, self.n)[:, None]
        s = np.where(np.arange(self.n) <= i, s, -np.inf)
        p = np.exp(s - s.max(1, keepdims=True))
        return p / p.sum(1, keepdims=True) @ v

# %% wrong cache-3 the cache never learns
# Every step stores its tokens in the same slots, or nowhere. Write down where the next token goes.
# Seen: https://github.com/ekryski/mlx-swift-lm/pull/90
class Decoder:

    def __init__(self, w_q, w_k, w_v, length):
        self.w_q, self.w_k, self.w_v, self.n = w_q, w_k, w_v, 0
        self.keys = np.empty((length, w_k.shape[1]))
        self.values = np.empty((length, w_v.shape[1]))

    def step(self, x):
        start, self.n = 0, len(x)
        self.keys[start : self.n] = x @ self.w_k
        self.values[start : self.n] = x @ self.w_v
        k, v = self.keys[: self.n], self.values[: self.n]
        s = x @ self.w_q @ k.T / np.sqrt(k.shape[1])
        i = np.arange(start, self.n)[:, None]
        s = np.where(np.arange(self.n) <= i, s, -np.inf)
        p = np.exp(s - s.max(1, keepdims=True))
        return p / p.sum(1, keepdims=True) @ v

# %% wrong cache-3 a step copies the whole cache
# A step of yours makes an array as large as the cache: it joins, copies, or multiplies every value
# before it sums up. Room that is there from the beginning is filled once, and `@` needs no copy.
# Seen: kornia/kornia-rs#903
class Decoder:

    def __init__(self, w_q, w_k, w_v, length):
        self.w_q, self.w_k, self.w_v, self.n = w_q, w_k, w_v, 0
        self.keys = np.empty((0, w_k.shape[1]))
        self.values = np.empty((0, w_v.shape[1]))

    def step(self, x):
        start, self.n = self.n, self.n + len(x)
        self.keys = np.concatenate([self.keys, x @ self.w_k])
        self.values = np.concatenate([self.values, x @ self.w_v])
        k, v = self.keys[: self.n], self.values[: self.n]
        s = x @ self.w_q @ k.T / np.sqrt(k.shape[1])
        i = np.arange(start, self.n)[:, None]
        s = np.where(np.arange(self.n) <= i, s, -np.inf)
        p = np.exp(s - s.max(1, keepdims=True))
        return p / p.sum(1, keepdims=True) @ v

# %% wrong cache-3 new tokens see each other's future
# In a chunk every new token sees those after it. One token needs no mask; several do, with a cache
# just as without.
# Seen: Mikyx-1/TinyLLM#17
class Decoder:

    def __init__(self, w_q, w_k, w_v, length):
        self.w_q, self.w_k, self.w_v, self.n = w_q, w_k, w_v, 0
        self.keys = np.empty((length, w_k.shape[1]))
        self.values = np.empty((length, w_v.shape[1]))

    def step(self, x):
        start, self.n = self.n, self.n + len(x)
        self.keys[start : self.n] = x @ self.w_k
        self.values[start : self.n] = x @ self.w_v
        k, v = self.keys[: self.n], self.values[: self.n]
        s = x @ self.w_q @ k.T / np.sqrt(k.shape[1])
        p = np.exp(s - s.max(1, keepdims=True))
        return p / p.sum(1, keepdims=True) @ v

# %% wrong cache-3 diagonal from the top left
# Your first new token sees slot 0 only. It stands behind all old tokens: which position has it?
# Seen: https://github.com/hyprstream/hyprstream/pull/1521
# Seen: gittensor-ai-lab/sparkinfer#3
class Decoder:

    def __init__(self, w_q, w_k, w_v, length):
        self.w_q, self.w_k, self.w_v, self.n = w_q, w_k, w_v, 0
        self.keys = np.empty((length, w_k.shape[1]))
        self.values = np.empty((length, w_v.shape[1]))

    def step(self, x):
        start, self.n = self.n, self.n + len(x)
        self.keys[start : self.n] = x @ self.w_k
        self.values[start : self.n] = x @ self.w_v
        k, v = self.keys[: self.n], self.values[: self.n]
        s = x @ self.w_q @ k.T / np.sqrt(k.shape[1])
        i = np.arange(len(x))[:, None]
        s = np.where(np.arange(self.n) <= i, s, -np.inf)
        p = np.exp(s - s.max(1, keepdims=True))
        return p / p.sum(1, keepdims=True) @ v

# %% wrong cache-3 a token does not see itself
# The newest key is missing for its own query. A token looks at itself, too, and at the very first
# step there is nothing else.
# Seen: https://github.com/harvard-edge/cs249r_book/pull/1953
class Decoder:

    def __init__(self, w_q, w_k, w_v, length):
        self.w_q, self.w_k, self.w_v, self.n = w_q, w_k, w_v, 0
        self.keys = np.empty((length, w_k.shape[1]))
        self.values = np.empty((length, w_v.shape[1]))

    def step(self, x):
        start, self.n = self.n, self.n + len(x)
        self.keys[start : self.n] = x @ self.w_k
        self.values[start : self.n] = x @ self.w_v
        k, v = self.keys[: self.n], self.values[: self.n]
        s = x @ self.w_q @ k.T / np.sqrt(k.shape[1])
        i = np.arange(start, self.n)[:, None]
        s = np.where(np.arange(self.n) < i, s, -np.inf)
        p = np.exp(s - s.max(1, keepdims=True))
        return p / p.sum(1, keepdims=True) @ v

# %% wrong cache-3 one key too many
# Every new token sees the one behind it. Positions count from 0: where does the first new token
# stand?
# Seen: flashinfer-ai/flashinfer#348
class Decoder:

    def __init__(self, w_q, w_k, w_v, length):
        self.w_q, self.w_k, self.w_v, self.n = w_q, w_k, w_v, 0
        self.keys = np.empty((length, w_k.shape[1]))
        self.values = np.empty((length, w_v.shape[1]))

    def step(self, x):
        start, self.n = self.n, self.n + len(x)
        self.keys[start : self.n] = x @ self.w_k
        self.values[start : self.n] = x @ self.w_v
        k, v = self.keys[: self.n], self.values[: self.n]
        s = x @ self.w_q @ k.T / np.sqrt(k.shape[1])
        i = np.arange(start + 1, self.n + 1)[:, None]
        s = np.where(np.arange(self.n) <= i, s, -np.inf)
        p = np.exp(s - s.max(1, keepdims=True))
        return p / p.sum(1, keepdims=True) @ v

# %% wrong cache-3 a single token needs no mask
# For a single token you leave the mask out and hand over all slots, also those where nothing was
# stored yet. A key of zeros has a weight, too.
# Seen: https://github.com/huggingface/transformers/pull/30437
class Decoder:

    def __init__(self, w_q, w_k, w_v, length):
        self.w_q, self.w_k, self.w_v, self.n = w_q, w_k, w_v, 0
        self.keys = np.zeros((length, w_k.shape[1]))
        self.values = np.zeros((length, w_v.shape[1]))

    def step(self, x):
        start, self.n = self.n, self.n + len(x)
        self.keys[start : self.n] = x @ self.w_k
        self.values[start : self.n] = x @ self.w_v
        k, v = self.keys, self.values
        s = x @ self.w_q @ k.T / np.sqrt(k.shape[1])
        i = np.arange(start, self.n)[:, None]
        if len(x) > 1:
            s = np.where(np.arange(len(k)) <= i, s, -np.inf)
        p = np.exp(s - s.max(1, keepdims=True))
        return p / p.sum(1, keepdims=True) @ v

# %% wrong cache-3 a cache in half precision
# Your cache rounds to three digits, and what lies beyond 65,504 becomes infinite there. Then the
# score is infinite, and the weights are NaN.
# Seen: NVIDIA/kvpress#250
class Decoder:

    def __init__(self, w_q, w_k, w_v, length):
        self.w_q, self.w_k, self.w_v, self.n = w_q, w_k, w_v, 0
        self.keys = np.empty((length, w_k.shape[1]), np.float16)
        self.values = np.empty((length, w_v.shape[1]), np.float16)

    def step(self, x):
        start, self.n = self.n, self.n + len(x)
        self.keys[start : self.n] = x @ self.w_k
        self.values[start : self.n] = x @ self.w_v
        k, v = self.keys[: self.n], self.values[: self.n]
        s = x @ self.w_q @ k.T / np.sqrt(k.shape[1])
        i = np.arange(start, self.n)[:, None]
        s = np.where(np.arange(self.n) <= i, s, -np.inf)
        p = np.exp(s - s.max(1, keepdims=True))
        return p / p.sum(1, keepdims=True) @ v

# %% wrong cache-3 everything is computed again
# You keep the tokens and multiply all of them again in every step. What saves the work is to keep
# their keys and values.
# Seen: https://github.com/karpathy/nanoGPT/pull/76
class Decoder:

    def __init__(self, w_q, w_k, w_v, length):
        self.w_q, self.w_k, self.w_v, self.n = w_q, w_k, w_v, 0
        self.x = np.empty((length, len(w_k)))

    def step(self, x):
        start, self.n = self.n, self.n + len(x)
        self.x[start : self.n] = x
        k, v = self.x[: self.n] @ self.w_k, self.x[: self.n] @ self.w_v
        s = x @ self.w_q @ k.T / np.sqrt(k.shape[1])
        i = np.arange(start, self.n)[:, None]
        s = np.where(np.arange(self.n) <= i, s, -np.inf)
        p = np.exp(s - s.max(1, keepdims=True))
        return p / p.sum(1, keepdims=True) @ v

# %% wrong cache-3 one cache for all decoders
# Your arrays belong to the class, so that all decoders write into the same ones. A second text
# would read the first.
# Seen: awslabs/keys_values#45
class Decoder:
    keys, values, n = np.empty((2000, 0)), np.empty((2000, 0)), 0

    def __init__(self, w_q, w_k, w_v, length):
        self.w_q, self.w_k, self.w_v = w_q, w_k, w_v
        if Decoder.keys.shape[1] != w_k.shape[1] or Decoder.values.shape[1] != w_v.shape[1]:
            Decoder.keys = np.empty((2000, w_k.shape[1]))
            Decoder.values = np.empty((2000, w_v.shape[1]))
            Decoder.n = 0

    def step(self, x):
        start, Decoder.n = Decoder.n, Decoder.n + len(x)
        self.keys[start : self.n] = x @ self.w_k
        self.values[start : self.n] = x @ self.w_v
        k, v = self.keys[: self.n], self.values[: self.n]
        s = x @ self.w_q @ k.T / np.sqrt(k.shape[1])
        i = np.arange(start, self.n)[:, None]
        s = np.where(np.arange(self.n) <= i, s, -np.inf)
        p = np.exp(s - s.max(1, keepdims=True))
        return p / p.sum(1, keepdims=True) @ v

# %% wrong cache-3 normalised over the queries
# Your columns sum to 1. Each query, a row, shares out a weight of 1 among its keys.
class Decoder:

    def __init__(self, w_q, w_k, w_v, length):
        self.w_q, self.w_k, self.w_v, self.n = w_q, w_k, w_v, 0
        self.keys = np.empty((length, w_k.shape[1]))
        self.values = np.empty((length, w_v.shape[1]))

    def step(self, x):
        start, self.n = self.n, self.n + len(x)
        self.keys[start : self.n] = x @ self.w_k
        self.values[start : self.n] = x @ self.w_v
        k, v = self.keys[: self.n], self.values[: self.n]
        s = x @ self.w_q @ k.T / np.sqrt(k.shape[1])
        i = np.arange(start, self.n)[:, None]
        s = np.where(np.arange(self.n) <= i, s, -np.inf)
        p = np.exp(s - s.max(1, keepdims=True))
        return p / p.sum(0, keepdims=True) @ v

# %% wrong cache-3 no maximum subtracted
# Your exponentials overflow where scores are large. Weights don't change if every score of a row is
# moved by the same amount.
class Decoder:

    def __init__(self, w_q, w_k, w_v, length):
        self.w_q, self.w_k, self.w_v, self.n = w_q, w_k, w_v, 0
        self.keys = np.empty((length, w_k.shape[1]))
        self.values = np.empty((length, w_v.shape[1]))

    def step(self, x):
        start, self.n = self.n, self.n + len(x)
        self.keys[start : self.n] = x @ self.w_k
        self.values[start : self.n] = x @ self.w_v
        k, v = self.keys[: self.n], self.values[: self.n]
        s = x @ self.w_q @ k.T / np.sqrt(k.shape[1])
        i = np.arange(start, self.n)[:, None]
        s = np.where(np.arange(self.n) <= i, s, -np.inf)
        p = np.exp(s)
        return p / p.sum(1, keepdims=True) @ v

# %% [markdown]
# ## cache-4: Positions and mask of a padded batch
#
# *cache-4 · 4 points · 11 minutes · ●●○○ difficulty 2 of 4*
#
# The next tokens of a batch come as one array with padding on the left or on the right: `real` is
# boolean `[B, T]`, True for a token, False for padding; the tokens of an example stand together.
# Example `b` holds `held[b]` tokens in its cache already. **Padding is not stored**, so the token
# at position p of an example lies in slot p of its cache. Write `place(real, held)`, which returns
# three arrays:
#
# 1. `positions`, integers `[B, T]`: the position of every new token in its text, and −1 for
#    padding;
# 2. `mask`, boolean `[B, T, S]`: which slots may each query see, once the new tokens are stored?
#    Causal. `S` is the length of the longest example then. A query of padding sees nothing;
# 3. `last`, integers `[B]`: the **column** of each example's last new token. Its output predicts
#    the next one. An example that got no token at all (its text is finished) has −1.
#
# Half of the points are for a case with all of it at once.
#
# **A miniature.** `real = [[False, True]]`, `held = [3]`: the token stands at position 3. S = 4,
# the mask is `[[[False] * 4, [True] * 4]]`, the positions are `[[-1, 3]]`, and `last` is `[1]`.
#
# Read first: *Prompts of unlike length* in [chapter 10](../book/10_kv_cache.ipynb).
#
# <details>
# <summary>Hint 1 for cache-4: count tokens, not columns</summary>
#
# How many tokens of the same example stand before this one? Count those in the cache and those in
# the array. Padding doesn't count.
#
# </details>
#
# <details>
# <summary>Hint 2 for cache-4: a mask from positions</summary>
#
# Slot s holds the token at position s. So the mask compares two numbers, and needs no other rule:
# who stands at −1 sees nothing by itself.
#
# </details>

# %% answer cache-4 points=4 minutes=11 difficulty=2 forbid=attnlearn
def place(real, held):
    """real bool [B, T], held int [B] -> positions [B, T], mask [B, T, S], last [B]."""
    # BEGIN SOLUTION
    T = real.shape[1]
    positions = np.where(real, held[:, None] + np.cumsum(real, 1) - 1, -1)
    S = (held + real.sum(1)).max()
    mask = np.arange(S) <= positions[:, :, None]
    last = np.where(real, np.arange(T), -1).max(1)
    return positions, mask, last
    # END SOLUTION

# %% check cache-4
case = check("cache-4")
_left = [[0, 0, 1, 1], [1, 1, 1, 1], [0, 0, 0, 1]]
_right = [[1, 1, 1, 0, 0], [1, 0, 0, 0, 0], [1, 1, 1, 1, 1]]


def _placed(real, held):
    real, held = np.array(real, bool), np.array(held)
    before = real.copy(), held.copy()
    positions, mask, last = place(real, held)
    return {
        "positions": np.asarray(positions),
        "mask": np.asarray(mask),
        "last": np.asarray(last),
        "untouched": bool((real == before[0]).all() and (held == before[1]).all()),
    }


case("a prompt without padding", lambda: _placed([[1, 1, 1]] * 2, [0, 0]))
case("prompts padded on the left", lambda: _placed(_left, [0, 0, 0]))
case("prompts padded on the right", lambda: _placed(_right, [0, 0, 0]))
case("one new token each", lambda: _placed([[1], [1], [1]], [4, 1, 6]))
case("a second chunk, padded on the left", lambda: _placed(_left, [2, 3, 1]))
case("a second chunk, padded on the right", lambda: _placed(_right, [3, 0, 5]))
case("a text that is finished", lambda: _placed([[1, 1, 0], [0, 0, 0], [0, 0, 1]], [2, 7, 4]))


@case("all of it at once", weight=9)
def _():
    real = [[0, 1, 1, 0], [1, 0, 0, 0], [0, 0, 1, 1], [0, 0, 0, 0], [1, 1, 1, 1]]
    return [_placed(real, held) for held in ([0, 0, 0, 0, 0], [3, 1, 0, 7, 2])]

# %% hidden cache-4
case = check("cache-4")


@case("drawn lengths")
def _(rng):
    sizes, held = rng.permutation([1, 2, 4, 6]), rng.permutation([0, 1, 3, 8])
    column = np.arange(6)
    return [_placed(column < sizes[:, None], held), _placed(column >= 6 - sizes[:, None], held)]

# %% right cache-4 one example after the other
def place(real, held):
    B, T = real.shape
    positions, last = np.full((B, T), -1), np.full(B, -1)
    for b in range(B):
        n = held[b]
        for t in range(T):
            if real[b, t]:
                positions[b, t], last[b], n = n, t, n + 1
    S = max(h + r.sum() for h, r in zip(held, real, strict=True))
    mask = np.zeros((B, T, S), bool)
    for b, t in np.argwhere(positions >= 0):
        mask[b, t, : positions[b, t] + 1] = True
    return positions, mask, last

# %% right cache-4 from the first token of each row
def place(real, held):
    T, count = real.shape[1], real.sum(1)
    first = np.where(count > 0, real.argmax(1), 0)
    positions = held[:, None] + np.arange(T) - first[:, None]
    positions[~real] = -1
    slots = np.arange((held + count).max())
    mask = real[..., None] & (slots[None, None] <= positions[..., None])
    return positions, mask, np.where(count > 0, first + count - 1, -1)

# %% wrong cache-4 a finished text points at column 0
# The largest of equal numbers is found in column 0. An example without any new token has no output
# to read: −1.
def place(real, held):
    """real bool [B, T], held int [B] -> positions [B, T], mask [B, T, S], last [B]."""
    count = real.sum(1)
    positions = np.where(real, held[:, None] + np.cumsum(real, 1) - 1, -1)
    S = (held + count).max()
    mask = np.arange(S) <= positions[:, :, None]
    last = positions.argmax(1)
    return positions, mask, last

# %% wrong cache-4 padding goes on counting
# Padding gets a position from you: that of the token before it. It stands nowhere: −1.
def place(real, held):
    """real bool [B, T], held int [B] -> positions [B, T], mask [B, T, S], last [B]."""
    count = real.sum(1)
    positions = held[:, None] + np.cumsum(real, 1) - 1
    S = (held + count).max()
    mask = np.arange(S) <= positions[:, :, None]
    T = real.shape[1]
    last = np.where(count > 0, np.where(real, np.arange(T), -1).max(1), -1)
    return positions, mask, last

# %% wrong cache-4 only texts that go on are counted
# Your S leaves out the examples that got no token. A finished text may be the longest, and its
# slots are there.
def place(real, held):
    """real bool [B, T], held int [B] -> positions [B, T], mask [B, T, S], last [B]."""
    count = real.sum(1)
    positions = np.where(real, held[:, None] + np.cumsum(real, 1) - 1, -1)
    S = positions.max() + 1
    mask = np.arange(S) <= positions[:, :, None]
    T = real.shape[1]
    last = np.where(count > 0, np.where(real, np.arange(T), -1).max(1), -1)
    return positions, mask, last

# %% wrong cache-4 columns in place of positions
# You number the columns. Padding on the left then pushes the tokens behind it away from the
# beginning of their text.
# Seen: unslothai/unsloth#3699
# Seen: https://github.com/unslothai/unsloth/pull/3803
# Seen: https://github.com/ndif-team/nnsight/pull/673
def place(real, held):
    T = real.shape[1]
    positions = np.where(real, held[:, None] + np.arange(T), -1)
    S = (held + real.sum(1)).max()
    mask = np.arange(S) <= positions[:, :, None]
    last = np.where(real, np.arange(T), -1).max(1)
    return positions, mask, last

# %% wrong cache-4 positions begin at 1
# Your first token stands at position 1. Positions count from 0: a token has as many tokens before
# it as its position says.
def place(real, held):
    T = real.shape[1]
    positions = np.where(real, held[:, None] + np.cumsum(real, 1), -1)
    S = (held + real.sum(1)).max()
    mask = np.arange(S) <= positions[:, :, None]
    last = np.where(real, np.arange(T), -1).max(1)
    return positions, mask, last

# %% wrong cache-4 the cache is forgotten
# Your positions begin anew with every chunk. The tokens in the cache come before the new ones.
# Seen: https://github.com/TransformerLensOrg/TransformerLens/pull/1610
def place(real, held):
    T = real.shape[1]
    positions = np.where(real, np.cumsum(real, 1) - 1, -1)
    S = (held + real.sum(1)).max()
    mask = np.arange(S) <= positions[:, :, None]
    last = np.where(real, np.arange(T), -1).max(1)
    return positions, mask, last

# %% wrong cache-4 the new tokens are counted twice
# You add the number of new tokens before you place them. The first of them stands right behind the
# last one in the cache.
# Seen: https://github.com/skyzh/tiny-llm/pull/46
def place(real, held):
    T = real.shape[1]
    positions = np.where(real, (held + real.sum(1))[:, None] + np.cumsum(real, 1) - 1, -1)
    S = (held + real.sum(1)).max()
    mask = np.arange(S) <= positions[:, :, None]
    last = np.where(real, np.arange(T), -1).max(1)
    return positions, mask, last

# %% wrong cache-4 one cache length for all
# You use the same number of held tokens for every example. Each has a cache of its own length.
# Seen: rasbt/reasoning-from-scratch#33
def place(real, held):
    T = real.shape[1]
    positions = np.where(real, held.max() + np.cumsum(real, 1) - 1, -1)
    S = (held + real.sum(1)).max()
    mask = np.arange(S) <= positions[:, :, None]
    last = np.where(real, np.arange(T), -1).max(1)
    return positions, mask, last

# %% wrong cache-4 counted down the batch
# You count tokens down the examples. The tokens before a token stand in its own row.
def place(real, held):
    T = real.shape[1]
    positions = np.where(real, held[:, None] + np.cumsum(real, 0) - 1, -1)
    S = (held + real.sum(1)).max()
    mask = np.arange(S) <= positions[:, :, None]
    last = np.where(real, np.arange(T), -1).max(1)
    return positions, mask, last

# %% wrong cache-4 padding stands at position 0
# You give padding the position 0, as if it were the first token. Its query then sees slot 0; and
# whoever stores by position overwrites a token.
def place(real, held):
    T = real.shape[1]
    positions = np.where(real, held[:, None] + np.cumsum(real, 1) - 1, 0)
    S = (held + real.sum(1)).max()
    mask = np.arange(S) <= positions[:, :, None]
    last = np.where(real, np.arange(T), -1).max(1)
    return positions, mask, last

# %% wrong cache-4 padding looks around
# Your queries of padding see the slots before them. A query that stands nowhere sees nothing.
def place(real, held):
    T = real.shape[1]
    positions = np.where(real, held[:, None] + np.cumsum(real, 1) - 1, -1)
    S = (held + real.sum(1)).max()
    at = held[:, None] + np.cumsum(real, 1) - 1
    mask = np.arange(S) <= at[:, :, None]
    last = np.where(real, np.arange(T), -1).max(1)
    return positions, mask, last

# %% wrong cache-4 True marks the padding
# You take the padding for tokens and the tokens for padding. True stands for a token.
# Seen: InseeFrLab/torchTextClassifiers#92
def place(real, held):
    T, real = real.shape[1], ~real
    positions = np.where(real, held[:, None] + np.cumsum(real, 1) - 1, -1)
    S = (held + real.sum(1)).max()
    mask = np.arange(S) <= positions[:, :, None]
    last = np.where(real, np.arange(T), -1).max(1)
    return positions, mask, last

# %% wrong cache-4 a token does not see itself
# Your queries miss their own slot. A token is stored before it looks, and may look at itself.
# Seen: https://github.com/harvard-edge/cs249r_book/pull/1953
def place(real, held):
    T = real.shape[1]
    positions = np.where(real, held[:, None] + np.cumsum(real, 1) - 1, -1)
    S = (held + real.sum(1)).max()
    mask = np.arange(S) < positions[:, :, None]
    last = np.where(real, np.arange(T), -1).max(1)
    return positions, mask, last

# %% wrong cache-4 a chunk looks into its own future
# Your queries see all tokens of their example, also those after them. In a chunk the causal rule
# holds as everywhere.
# Seen: Mikyx-1/TinyLLM#17
def place(real, held):
    T = real.shape[1]
    positions = np.where(real, held[:, None] + np.cumsum(real, 1) - 1, -1)
    S = (held + real.sum(1)).max()
    n = (held + real.sum(1))[:, None, None]
    mask = (np.arange(S) < n) & real[:, :, None]
    last = np.where(real, np.arange(T), -1).max(1)
    return positions, mask, last

# %% wrong cache-4 diagonal from the top left
# Your mask starts at the top left: new token 0 sees slot 0 alone. Compare slots with positions, not
# with columns.
# Seen: https://github.com/hyprstream/hyprstream/pull/1521
# Seen: https://github.com/meta-llama/llama/pull/900
def place(real, held):
    T = real.shape[1]
    positions = np.where(real, held[:, None] + np.cumsum(real, 1) - 1, -1)
    S = (held + real.sum(1)).max()
    mask = np.tri(T, S, dtype=bool) & real[:, :, None]
    last = np.where(real, np.arange(T), -1).max(1)
    return positions, mask, last

# %% wrong cache-4 room for padding in the cache
# Your mask has slots for the padding, too. It is not stored: how many tokens does the longest
# example hold?
def place(real, held):
    T = real.shape[1]
    positions = np.where(real, held[:, None] + np.cumsum(real, 1) - 1, -1)
    S = (held + T).max()
    mask = np.arange(S) <= positions[:, :, None]
    last = np.where(real, np.arange(T), -1).max(1)
    return positions, mask, last

# %% wrong cache-4 the longest cache and the longest chunk
# You add the longest cache and the longest chunk. They may belong to two examples: add first, then
# take the largest.
def place(real, held):
    T = real.shape[1]
    positions = np.where(real, held[:, None] + np.cumsum(real, 1) - 1, -1)
    S = held.max() + real.sum(1).max()
    mask = np.arange(S) <= positions[:, :, None]
    last = np.where(real, np.arange(T), -1).max(1)
    return positions, mask, last

# %% wrong cache-4 the last column for all
# You predict from the last column. With padding on the right that is the output of padding.
# Seen: huggingface/transformers#14521
# Seen: unslothai/unsloth#772
def place(real, held):
    T = real.shape[1]
    positions = np.where(real, held[:, None] + np.cumsum(real, 1) - 1, -1)
    S = (held + real.sum(1)).max()
    mask = np.arange(S) <= positions[:, :, None]
    last = np.full(len(real), T - 1)
    return positions, mask, last

# %% wrong cache-4 the number of tokens for a column
# You take the number of tokens minus 1 for the column. That is right for padding on the right only.
# Seen: zankner/CLoud#5
def place(real, held):
    positions = np.where(real, held[:, None] + np.cumsum(real, 1) - 1, -1)
    S = (held + real.sum(1)).max()
    mask = np.arange(S) <= positions[:, :, None]
    last = real.sum(1) - 1
    return positions, mask, last

# %% wrong cache-4 the last position for a column
# You return the position of the last token. What is asked for is its column in the new array, where
# its output stands.
def place(real, held):
    positions = np.where(real, held[:, None] + np.cumsum(real, 1) - 1, -1)
    S = (held + real.sum(1)).max()
    mask = np.arange(S) <= positions[:, :, None]
    last = positions.max(1)
    return positions, mask, last

# %% wrong cache-4 a finished text points at padding
# An example without any new token gets a column from you. There is no output to read: −1.
def place(real, held):
    T = real.shape[1]
    positions = np.where(real, held[:, None] + np.cumsum(real, 1) - 1, -1)
    S = (held + real.sum(1)).max()
    mask = np.arange(S) <= positions[:, :, None]
    last = T - 1 - real[:, ::-1].argmax(1)
    return positions, mask, last

# %% [markdown]
# ## cache-5: A window with sinks, in a ring
#
# *cache-5 · 6 points · 16 minutes · ●●●● difficulty 4 of 4*
#
# A cache that never grows: it keeps the first `sinks` tokens of a text for ever (many large models
# lean on them), and of the others the newest `W`. Write `step(q, k, v, keys, values, n, sinks)`,
# which takes in the next `T` tokens and returns their outputs `[T, E]`.
#
# - `keys` is `[sinks + W, D]` and `values` is `[sinks + W, E]`. `n` tokens have come before, at
#   positions 0 … n − 1. Position p lies in **slot p** if p < sinks, and else in **slot sinks + (p −
#   sinks) mod W**, until a later token takes that slot. Slots that nobody has used yet may hold
#   anything, NaN too.
# - The new tokens stand at positions n … n + T − 1; `q` and `k` are `[T, D]`, `v` is `[T, E]`. `T`
#   may be larger than `W`.
# - The query at position i sees the key at position j if **j ≤ i** and (**i − j < W** or **j <
#   sinks**): its own key and the W − 1 before it, and the sinks. Scores are q · k / √D.
# - Afterwards `keys` and `values` hold the new tokens, too, **in place**. `q`, `k` and `v` stay as
#   they are. Tokens give the same outputs one by one, in chunks, and all at once.
#
# Half of the points are for a case with all of it at once.
#
# **A miniature.** `sinks = 1`, W = 2: three slots. Positions 0, 1, 2 take slots 0, 1, 2; position 3
# takes slot 1. The query at position 3 sees the positions 3, 2 and 0. If the tokens at 3 and 4 come
# together, the query at 3 still needs position 2, whose slot the token at 4 will take.
#
# Read first: *Windows and sinks* in [chapter 10](../book/10_kv_cache.ipynb).
#
# <details>
# <summary>Hint 1 for cache-5: which positions are at hand?</summary>
#
# Before the new tokens come, which positions does the ring hold? List them: some sinks, and the
# newest of the others. With a rule from position to slot you can read them in any order.
#
# </details>
#
# <details>
# <summary>Hint 2 for cache-5: look first, then store</summary>
#
# A new token may take the slot of an old one that an earlier query of the same chunk still needs.
# Put the old keys that are at hand and the new ones side by side, and compare their positions.
#
# </details>

# %% answer cache-5 points=6 minutes=16 difficulty=4 forbid=attnlearn,scaled_dot_product_attention
def step(q, k, v, keys, values, n, sinks):
    """q, k [T, D], v [T, E]; keys [sinks + W, D], values [sinks + W, E] -> [T, E]."""
    # BEGIN SOLUTION
    W = len(keys) - sinks

    def slot(p):
        return np.where(p < sinks, p, sinks + (p - sinks) % W)

    old = np.r_[0 : min(n, sinks), max(n - W, sinks) : n]
    new = np.arange(n, n + len(q))
    at = np.r_[old, new]
    back = new[:, None] - at
    seen = (back >= 0) & ((back < W) | (at < sinks))
    s = q @ np.concatenate([keys[slot(old)], k]).T / np.sqrt(k.shape[1])
    s = np.where(seen, s, -np.inf)
    p = np.exp(s - s.max(1, keepdims=True))
    o = p / p.sum(1, keepdims=True) @ np.concatenate([values[slot(old)], v])
    keys[slot(new)], values[slot(new)] = k, v
    return o
    # END SOLUTION

# %% check cache-5
case = check("cache-5")


def _text(rng, T, D=2, E=1):
    return [rng.normal(size=(T, size)) for size in (D, D, E)]


def _ring(text, n, W, sinks):
    """A ring as n tokens of a text have left it."""
    rings = [np.full((sinks + W, x.shape[1]), np.nan) for x in text[1:]]
    for p in range(n):
        at = p if p < sinks else sinks + (p - sinks) % W
        for ring, x in zip(rings, text[1:], strict=True):
            ring[at] = x[p]
    return rings


def _stepped(text, sizes, W, sinks, n=0):
    """The outputs of the tokens from n on, in pieces, and the ring that they leave."""
    keys, values = _ring(text, n, W, sinks)
    out = []
    for T in sizes:
        piece = [x[n : n + T].copy() for x in text]
        out.append(step(*piece, keys, values, n, sinks))
        n += T
    return {"outputs": np.concatenate(out), "keys": keys, "values": values}


case("the ring is not yet full", lambda rng: _stepped(_text(rng, 3), [1, 1, 1], 4, 0))
case("the ring turns, one by one", lambda rng: _stepped(_text(rng, 9), 9 * [1], 3, 0))
case("2 sinks, one by one", lambda rng: _stepped(_text(rng, 9), 9 * [1], 3, 2))
case("a chunk of 3, the ring has turned", lambda rng: _stepped(_text(rng, 11), [3], 4, 0, n=8))
case("a chunk of 3, with a sink", lambda rng: _stepped(_text(rng, 12), [3], 4, 1, n=9))
case("a chunk longer than the window", lambda rng: _stepped(_text(rng, 12), [7], 3, 1, n=5))
case("a whole text at once", lambda rng: _stepped(_text(rng, 8), [8], 3, 2))
case("the sinks come in two chunks", lambda rng: _stepped(_text(rng, 7), [2, 4, 1], 3, 3))
case("a window of 1", lambda rng: _stepped(_text(rng, 6), [1, 3, 2], 1, 1))


@case("what comes in stays as it is")
def _(rng):
    text = _text(rng, 9)
    before = [x.copy() for x in text]
    step(*(x[4:] for x in text), *_ring(text, 4, 3, 1), 4, 1)
    return [bool(np.array_equal(x, y)) for x, y in zip(text, before, strict=True)]


@case("all of it at once", weight=10)
def _(rng):
    text = _text(rng, 16, D=3, E=2)
    before = text[0].copy()
    ways = [_stepped(text, sizes, 4, 2) for sizes in ([5, 6, 1, 4], 16 * [1], [16])]
    late, ring = _stepped(text, [4], 3, 1, n=13), _ring(text, 2, 3, 1)
    step(*(x[2:] for x in text), *ring, 2, 1)
    return [*ways, late, ring, bool(np.array_equal(text[0], before))]

# %% hidden cache-5
case = check("cache-5")


@case("drawn pieces")
def _(rng):
    return _stepped(_text(rng, 16), rng.permutation([1, 2, 3, 4, 6]), 4, 3)


case("no sinks, a long chunk first", lambda rng: _stepped(_text(rng, 11), [9, 1, 1], 4, 0))

# %% right cache-5 one token after the other
def step(q, k, v, keys, values, n, sinks):
    size, out = len(keys) - sinks, np.zeros((len(q), v.shape[1]))
    for t in range(len(q)):
        here = n + t
        target = here if here < sinks else sinks + (here - sinks) % size
        keys[target], values[target] = k[t], v[t]
        used = slice(0, min(here + 1, len(keys)))
        scores = keys[used] @ q[t] / len(q[t]) ** 0.5
        weights = np.exp(scores - scores.max())
        out[t] = weights @ values[used] / weights.sum()
    return out

# %% right cache-5 the position of every slot
def step(q, k, v, keys, values, n, sinks):
    T, W = len(q), len(keys) - sinks
    held = np.full(len(keys), -1)
    for p in range(n + T):
        target = p if p < sinks else sinks + (p - sinks) % W
        if p < n:
            held[target] = p
    used = held >= 0
    all_keys = np.vstack([np.where(used[:, None], keys, 0), k])
    all_values = np.vstack([np.where(used[:, None], values, 0), v])
    at = np.append(held, range(n, n + T))
    i = np.arange(n, n + T)[:, None]
    open_ = (at >= 0) & (at <= i) & ((at > i - W) | (at < sinks))
    s = np.where(open_, np.einsum("td,sd->ts", q, all_keys) * q.shape[1] ** -0.5, -np.inf)
    p = np.exp(s - np.logaddexp.reduce(s, axis=1, keepdims=True))
    for t in range(T):
        target = n + t if n + t < sinks else sinks + (n + t - sinks) % W
        keys[target], values[target] = k[t], v[t]
    return np.einsum("ts,se->te", p, all_values)

# %% wrong cache-5 stored before it is looked at
# You store the whole chunk first. Its last tokens take the slots of old ones that its first queries
# still need: try a chunk of 3 by hand.
# Seen: https://github.com/Lightning-AI/litgpt/pull/2215
# Seen: https://github.com/pytorch/executorch/pull/20346
def step(q, k, v, keys, values, n, sinks):
    W = len(keys) - sinks

    def slot(p):
        return np.where(p < sinks, p, sinks + (p - sinks) % W)

    old = np.r_[0 : min(n, sinks), max(n - W, sinks) : n]
    new = np.arange(n, n + len(q))
    at = np.r_[old, new]
    keys[slot(new)], values[slot(new)] = k, v
    back = new[:, None] - at
    seen = (back >= 0) & ((back < W) | (at < sinks))
    s = q @ np.concatenate([keys[slot(old)], k]).T / np.sqrt(k.shape[1])
    s = np.where(seen, s, -np.inf)
    p = np.exp(s - s.max(1, keepdims=True))
    o = p / p.sum(1, keepdims=True) @ np.concatenate([values[slot(old)], v])
    return o

# %% wrong cache-5 one window for the whole chunk
# All queries of a chunk see the same old keys. A window moves along: each query counts back from
# its own position.
# Seen: https://github.com/pytorch/executorch/pull/22285
def step(q, k, v, keys, values, n, sinks):
    W = len(keys) - sinks

    def slot(p):
        return np.where(p < sinks, p, sinks + (p - sinks) % W)

    old = np.r_[0 : min(n, sinks), max(n - W, sinks) : n]
    new = np.arange(n, n + len(q))
    at = np.r_[old, new]
    back = new[:, None] - at
    seen = (back >= 0) & ((at > n - W) | (at < sinks))
    s = q @ np.concatenate([keys[slot(old)], k]).T / np.sqrt(k.shape[1])
    s = np.where(seen, s, -np.inf)
    p = np.exp(s - s.max(1, keepdims=True))
    o = p / p.sum(1, keepdims=True) @ np.concatenate([values[slot(old)], v])
    keys[slot(new)], values[slot(new)] = k, v
    return o

# %% wrong cache-5 no window within the chunk
# New tokens see all new ones before them, however many. A chunk may be longer than the window: the
# window bounds it, too.
# Seen: ml-explore/mlx-lm#1914
def step(q, k, v, keys, values, n, sinks):
    W = len(keys) - sinks

    def slot(p):
        return np.where(p < sinks, p, sinks + (p - sinks) % W)

    old = np.r_[0 : min(n, sinks), max(n - W, sinks) : n]
    new = np.arange(n, n + len(q))
    at = np.r_[old, new]
    back = new[:, None] - at
    seen = (back >= 0) & ((back < W) | (at >= n) | (at < sinks))
    s = q @ np.concatenate([keys[slot(old)], k]).T / np.sqrt(k.shape[1])
    s = np.where(seen, s, -np.inf)
    p = np.exp(s - s.max(1, keepdims=True))
    o = p / p.sum(1, keepdims=True) @ np.concatenate([values[slot(old)], v])
    keys[slot(new)], values[slot(new)] = k, v
    return o

# %% wrong cache-5 one key too many in the window
# Your window holds W + 1 keys. The query's own key, at distance 0, is one of the W.
# Seen: huggingface/transformers#39408
# Seen: vllm-project/vllm#3385
def step(q, k, v, keys, values, n, sinks):
    W = len(keys) - sinks

    def slot(p):
        return np.where(p < sinks, p, sinks + (p - sinks) % W)

    old = np.r_[0 : min(n, sinks), max(n - W, sinks) : n]
    new = np.arange(n, n + len(q))
    at = np.r_[old, new]
    back = new[:, None] - at
    seen = (back >= 0) & ((back <= W) | (at < sinks))
    s = q @ np.concatenate([keys[slot(old)], k]).T / np.sqrt(k.shape[1])
    s = np.where(seen, s, -np.inf)
    p = np.exp(s - s.max(1, keepdims=True))
    o = p / p.sum(1, keepdims=True) @ np.concatenate([values[slot(old)], v])
    keys[slot(new)], values[slot(new)] = k, v
    return o

# %% wrong cache-5 one key too few in the window
# Your window holds one key less than W. The distances that lie inside are 0, 1 and so on: which is
# the W-th of them?
def step(q, k, v, keys, values, n, sinks):
    W = len(keys) - sinks

    def slot(p):
        return np.where(p < sinks, p, sinks + (p - sinks) % W)

    old = np.r_[0 : min(n, sinks), max(n - W, sinks) : n]
    new = np.arange(n, n + len(q))
    at = np.r_[old, new]
    back = new[:, None] - at
    seen = (back == 0) | (back >= 0) & ((back < W - 1) | (at < sinks))
    s = q @ np.concatenate([keys[slot(old)], k]).T / np.sqrt(k.shape[1])
    s = np.where(seen, s, -np.inf)
    p = np.exp(s - s.max(1, keepdims=True))
    o = p / p.sum(1, keepdims=True) @ np.concatenate([values[slot(old)], v])
    keys[slot(new)], values[slot(new)] = k, v
    return o

# %% wrong cache-5 the sinks are part of the window
# Your window reaches back over all slots, sinks included. It holds W tokens; the sinks come on top.
def step(q, k, v, keys, values, n, sinks):
    W = len(keys) - sinks

    def slot(p):
        return np.where(p < sinks, p, sinks + (p - sinks) % W)

    old = np.r_[0 : min(n, sinks), max(n - W, sinks) : n]
    new = np.arange(n, n + len(q))
    at = np.r_[old, new]
    back = new[:, None] - at
    seen = (back >= 0) & ((back < len(keys)) | (at < sinks))
    s = q @ np.concatenate([keys[slot(old)], k]).T / np.sqrt(k.shape[1])
    s = np.where(seen, s, -np.inf)
    p = np.exp(s - s.max(1, keepdims=True))
    o = p / p.sum(1, keepdims=True) @ np.concatenate([values[slot(old)], v])
    keys[slot(new)], values[slot(new)] = k, v
    return o

# %% wrong cache-5 the sinks are not seen
# Your sinks are kept and nobody looks at them. Who sees a sink, however far away it is?
def step(q, k, v, keys, values, n, sinks):
    W = len(keys) - sinks

    def slot(p):
        return np.where(p < sinks, p, sinks + (p - sinks) % W)

    old = np.r_[0 : min(n, sinks), max(n - W, sinks) : n]
    new = np.arange(n, n + len(q))
    at = np.r_[old, new]
    back = new[:, None] - at
    seen = (back >= 0) & (back < W)
    s = q @ np.concatenate([keys[slot(old)], k]).T / np.sqrt(k.shape[1])
    s = np.where(seen, s, -np.inf)
    p = np.exp(s - s.max(1, keepdims=True))
    o = p / p.sum(1, keepdims=True) @ np.concatenate([values[slot(old)], v])
    keys[slot(new)], values[slot(new)] = k, v
    return o

# %% wrong cache-5 the sinks are overwritten
# Your ring goes over all slots, so that new tokens take those of the sinks. Only the slots behind
# the sinks turn.
def step(q, k, v, keys, values, n, sinks):
    W = len(keys) - sinks

    def slot(p):
        return p % len(keys)

    old = np.r_[0 : min(n, sinks), max(n - W, sinks) : n]
    new = np.arange(n, n + len(q))
    at = np.r_[old, new]
    back = new[:, None] - at
    seen = (back >= 0) & ((back < W) | (at < sinks))
    s = q @ np.concatenate([keys[slot(old)], k]).T / np.sqrt(k.shape[1])
    s = np.where(seen, s, -np.inf)
    p = np.exp(s - s.max(1, keepdims=True))
    o = p / p.sum(1, keepdims=True) @ np.concatenate([values[slot(old)], v])
    keys[slot(new)], values[slot(new)] = k, v
    return o

# %% wrong cache-5 the ring begins in the wrong slot
# You take p mod W for the place in the ring. The first token behind the sinks belongs in the first
# slot behind them: count from there.
def step(q, k, v, keys, values, n, sinks):
    W = len(keys) - sinks

    def slot(p):
        return np.where(p < sinks, p, sinks + p % W)

    old = np.r_[0 : min(n, sinks), max(n - W, sinks) : n]
    new = np.arange(n, n + len(q))
    at = np.r_[old, new]
    back = new[:, None] - at
    seen = (back >= 0) & ((back < W) | (at < sinks))
    s = q @ np.concatenate([keys[slot(old)], k]).T / np.sqrt(k.shape[1])
    s = np.where(seen, s, -np.inf)
    p = np.exp(s - s.max(1, keepdims=True))
    o = p / p.sum(1, keepdims=True) @ np.concatenate([values[slot(old)], v])
    keys[slot(new)], values[slot(new)] = k, v
    return o

# %% wrong cache-5 the newest is overwritten
# When the ring is full every new token takes the last slot. The oldest one has to make room, not
# the newest.
# Seen: JaydenLyh/Reward-Forcing#5
def step(q, k, v, keys, values, n, sinks):
    W = len(keys) - sinks

    def slot(p):
        return np.where(p < sinks, p, np.minimum(p, len(keys) - 1))

    old = np.r_[0 : min(n, sinks), max(n - W, sinks) : n]
    new = np.arange(n, n + len(q))
    at = np.r_[old, new]
    back = new[:, None] - at
    seen = (back >= 0) & ((back < W) | (at < sinks))
    s = q @ np.concatenate([keys[slot(old)], k]).T / np.sqrt(k.shape[1])
    s = np.where(seen, s, -np.inf)
    p = np.exp(s - s.max(1, keepdims=True))
    o = p / p.sum(1, keepdims=True) @ np.concatenate([values[slot(old)], v])
    keys[slot(new)], values[slot(new)] = k, v
    return o

# %% wrong cache-5 slots taken for positions
# You compare slots with positions. After the first turn of the ring slot and position are no longer
# the same.
# Seen: https://github.com/quic/efficient-transformers/pull/1235
def step(q, k, v, keys, values, n, sinks):
    W = len(keys) - sinks

    def slot(p):
        return np.where(p < sinks, p, sinks + (p - sinks) % W)

    old = np.r_[0 : min(n, sinks), max(n - W, sinks) : n]
    new = np.arange(n, n + len(q))
    at = np.r_[slot(old), new]
    back = new[:, None] - at
    seen = (back >= 0) & ((back < W) | (at < sinks))
    s = q @ np.concatenate([keys[slot(old)], k]).T / np.sqrt(k.shape[1])
    s = np.where(seen, s, -np.inf)
    p = np.exp(s - s.max(1, keepdims=True))
    o = p / p.sum(1, keepdims=True) @ np.concatenate([values[slot(old)], v])
    keys[slot(new)], values[slot(new)] = k, v
    return o

# %% wrong cache-5 empty slots are read
# You read every slot, also those that nobody has used yet. What lies there is no token: it may be
# NaN, and NaN times 0 is NaN.
# Seen: https://github.com/huggingface/transformers/pull/45940
def step(q, k, v, keys, values, n, sinks):
    W = len(keys) - sinks

    def slot(p):
        return np.where(p < sinks, p, sinks + (p - sinks) % W)

    old = np.r_[0:sinks, max(n - W, sinks) : max(n, len(keys))]
    new = np.arange(n, n + len(q))
    at = np.r_[np.where(old < n, old, 10**9), new]
    back = new[:, None] - at
    seen = (back >= 0) & ((back < W) | (at < sinks))
    s = q @ np.concatenate([keys[slot(old)], k]).T / np.sqrt(k.shape[1])
    s = np.where(seen, s, -np.inf)
    p = np.exp(s - s.max(1, keepdims=True))
    o = p / p.sum(1, keepdims=True) @ np.concatenate([values[slot(old)], v])
    keys[slot(new)], values[slot(new)] = k, v
    return o

# %% wrong cache-5 new tokens see each other's future
# In a chunk a query sees tokens behind its own. A window bounds how far back it looks; the causal
# rule holds as well.
# Seen: Mikyx-1/TinyLLM#17
def step(q, k, v, keys, values, n, sinks):
    W = len(keys) - sinks

    def slot(p):
        return np.where(p < sinks, p, sinks + (p - sinks) % W)

    old = np.r_[0 : min(n, sinks), max(n - W, sinks) : n]
    new = np.arange(n, n + len(q))
    at = np.r_[old, new]
    back = new[:, None] - at
    seen = ((back < W) | (at < sinks))
    s = q @ np.concatenate([keys[slot(old)], k]).T / np.sqrt(k.shape[1])
    s = np.where(seen, s, -np.inf)
    p = np.exp(s - s.max(1, keepdims=True))
    o = p / p.sum(1, keepdims=True) @ np.concatenate([values[slot(old)], v])
    keys[slot(new)], values[slot(new)] = k, v
    return o

# %% wrong cache-5 a new array in place of the ring
# The new tokens go into an array of your own, and the caller's ring stays as it was. The next step
# will be given that one.
def step(q, k, v, keys, values, n, sinks):
    W = len(keys) - sinks

    def slot(p):
        return np.where(p < sinks, p, sinks + (p - sinks) % W)

    old = np.r_[0 : min(n, sinks), max(n - W, sinks) : n]
    new = np.arange(n, n + len(q))
    at = np.r_[old, new]
    back = new[:, None] - at
    seen = (back >= 0) & ((back < W) | (at < sinks))
    s = q @ np.concatenate([keys[slot(old)], k]).T / np.sqrt(k.shape[1])
    s = np.where(seen, s, -np.inf)
    p = np.exp(s - s.max(1, keepdims=True))
    o = p / p.sum(1, keepdims=True) @ np.concatenate([values[slot(old)], v])
    keys, values = keys.copy(), values.copy()
    keys[slot(new)], values[slot(new)] = k, v
    return o

# %% wrong cache-5 only the last token is stored
# Of a chunk you store its last token. All of them must be found later, as far as the window
# reaches.
def step(q, k, v, keys, values, n, sinks):
    W = len(keys) - sinks

    def slot(p):
        return np.where(p < sinks, p, sinks + (p - sinks) % W)

    old = np.r_[0 : min(n, sinks), max(n - W, sinks) : n]
    new = np.arange(n, n + len(q))
    at = np.r_[old, new]
    back = new[:, None] - at
    seen = (back >= 0) & ((back < W) | (at < sinks))
    s = q @ np.concatenate([keys[slot(old)], k]).T / np.sqrt(k.shape[1])
    s = np.where(seen, s, -np.inf)
    p = np.exp(s - s.max(1, keepdims=True))
    o = p / p.sum(1, keepdims=True) @ np.concatenate([values[slot(old)], v])
    keys[slot(new[-1])], values[slot(new[-1])] = k[-1], v[-1]
    return o

# %% wrong cache-5 a long chunk keeps its beginning
# Of a chunk that is longer than the window you keep the first W tokens. The newest ones are needed
# later.
def step(q, k, v, keys, values, n, sinks):
    W = len(keys) - sinks

    def slot(p):
        return np.where(p < sinks, p, sinks + (p - sinks) % W)

    old = np.r_[0 : min(n, sinks), max(n - W, sinks) : n]
    new = np.arange(n, n + len(q))
    at = np.r_[old, new]
    back = new[:, None] - at
    seen = (back >= 0) & ((back < W) | (at < sinks))
    s = q @ np.concatenate([keys[slot(old)], k]).T / np.sqrt(k.shape[1])
    s = np.where(seen, s, -np.inf)
    p = np.exp(s - s.max(1, keepdims=True))
    o = p / p.sum(1, keepdims=True) @ np.concatenate([values[slot(old)], v])
    keys[slot(new[::-1])], values[slot(new[::-1])] = k[::-1], v[::-1]
    return o

# %% wrong cache-5 sinks of every chunk
# You keep the first tokens of every chunk. Sinks are the first tokens of the text: they are chosen
# once.
def step(q, k, v, keys, values, n, sinks):
    W = len(keys) - sinks

    def slot(p):
        return np.where(p < sinks, p, sinks + (p - sinks) % W)

    old = np.r_[0 : min(n, sinks), max(n - W, sinks) : n]
    new = np.arange(n, n + len(q))
    at = np.r_[old, new]
    back = new[:, None] - at
    seen = (back >= 0) & ((back < W) | (at < sinks) | (at - n < sinks) & (at >= n))
    s = q @ np.concatenate([keys[slot(old)], k]).T / np.sqrt(k.shape[1])
    s = np.where(seen, s, -np.inf)
    p = np.exp(s - s.max(1, keepdims=True))
    o = p / p.sum(1, keepdims=True) @ np.concatenate([values[slot(old)], v])
    keys[slot(new)], values[slot(new)] = k, v
    return o

# %% wrong cache-5 not scaled
# Your scores are not divided by √D. A sum of D products grows with D: what keeps the weights from
# falling to a single key?
# Seen: https://github.com/huggingface/blog/pull/2893
def step(q, k, v, keys, values, n, sinks):
    W = len(keys) - sinks

    def slot(p):
        return np.where(p < sinks, p, sinks + (p - sinks) % W)

    old = np.r_[0 : min(n, sinks), max(n - W, sinks) : n]
    new = np.arange(n, n + len(q))
    at = np.r_[old, new]
    back = new[:, None] - at
    seen = (back >= 0) & ((back < W) | (at < sinks))
    s = q @ np.concatenate([keys[slot(old)], k]).T
    s = np.where(seen, s, -np.inf)
    p = np.exp(s - s.max(1, keepdims=True))
    o = p / p.sum(1, keepdims=True) @ np.concatenate([values[slot(old)], v])
    keys[slot(new)], values[slot(new)] = k, v
    return o

# %% wrong cache-5 the queries are scaled in place
# You divide the caller's queries themselves. Whoever uses them again finds them too small: make a
# new array.
def step(q, k, v, keys, values, n, sinks):
    W = len(keys) - sinks

    def slot(p):
        return np.where(p < sinks, p, sinks + (p - sinks) % W)

    old = np.r_[0 : min(n, sinks), max(n - W, sinks) : n]
    new = np.arange(n, n + len(q))
    at = np.r_[old, new]
    back = new[:, None] - at
    seen = (back >= 0) & ((back < W) | (at < sinks))
    q /= np.sqrt(k.shape[1])
    s = q @ np.concatenate([keys[slot(old)], k]).T
    s = np.where(seen, s, -np.inf)
    p = np.exp(s - s.max(1, keepdims=True))
    o = p / p.sum(1, keepdims=True) @ np.concatenate([values[slot(old)], v])
    keys[slot(new)], values[slot(new)] = k, v
    return o

# %% [markdown]
# ## cache-6: A paged cache with shared prefixes
#
# *cache-6 · 6 points · 18 minutes · ●●●● difficulty 4 of 4*
#
# Nobody knows how long a text will get. So a paged cache hands out small blocks when they are
# needed, and several texts may use the same block. Complete the class `Paged`. `pool` holds the
# blocks, `users` counts how many texts use each of them (0: the block is free), `tables` names the
# blocks of a text in order, `lengths` its number of tokens.
#
# - `append(text, x)` stores `x` `[D]` as the next token of a text; an unknown text begins with it.
#   A text takes a new block only when it has no slot left. **Copy on write**: if the block to be
#   written to has other users, the text first takes a free block, copies what is there, and gives
#   up its use of the old one; the other texts notice nothing. If no block is free, raise
#   `MemoryError`.
# - `read(text)` returns the tokens of a text in order, `[n, D]`.
# - `share(text, other, n)` begins a new text with the first `n` tokens of another, `n` at least 1,
#   **without copying**. It uses the blocks that hold these tokens and no others. Raise `ValueError`
#   if `text` is known already, or if `other` has fewer than `n` tokens.
# - `free(text)` gives up all blocks of a text and forgets it.
# - An unknown text (in `read`, in `free`, as `other`) raises `KeyError`: so does freeing a text
#   twice.
# - **An error leaves everything as it was.**
#
# Half of the points are for a case with all of it at once.
#
# **A miniature.** Blocks of 2. Text "a" has 3 tokens, in 2 blocks. `share("b", "a", 3)`: still 2
# blocks in use. `append("b", x)` must write into the second one, which "a" uses as well: copied, 3
# blocks in use. Then `append("a", y)` writes into the second block itself: nobody else uses it any
# more.
#
# Read first: *Blocks in place of one long room* in [chapter 10](../book/10_kv_cache.ipynb).
#
# <details>
# <summary>Hint 1 for cache-6: which block is written to?</summary>
#
# The number of tokens tells you which slot of its block is next. If it is the first one, a new
# block is needed, and no old block is touched. If not, the last block of the table is the one.
#
# </details>
#
# <details>
# <summary>Hint 2 for cache-6: first ask, then act</summary>
#
# Whatever may raise an error comes before anything that changes. And every entry of a table is one
# user of that block: where entries come and go, the counts go along.
#
# </details>

# %% answer cache-6 points=6 minutes=18 difficulty=4 forbid=attnlearn
class Paged:
    """Texts stored in blocks of `size` slots for D numbers, out of one pool."""

    def __init__(self, blocks, size, D):
        self.pool = np.full((blocks, size, D), np.nan)
        self.users = np.zeros(blocks, int)
        self.tables, self.lengths = {}, {}

    @property
    def used(self):
        """How many blocks are in use."""
        return int((self.users > 0).sum())

    def append(self, text, x):
        """Store x [D] as the next token of a text."""
        # BEGIN SOLUTION
        table, n = self.tables.get(text, []), self.lengths.get(text, 0)
        slot = n % self.pool.shape[1]
        if slot == 0 or self.users[table[-1]] > 1:
            free = np.flatnonzero(self.users == 0)
            if len(free) == 0:
                raise MemoryError("no block is free")
            if slot > 0:
                self.pool[free[0]] = self.pool[table[-1]]
                self.users[table[-1]] -= 1
                table = table[:-1]
            self.users[free[0]] = 1
            table = [*table, free[0]]
        self.pool[table[-1], slot] = x
        self.tables[text], self.lengths[text] = table, n + 1
        # END SOLUTION

    def read(self, text):
        """The tokens of a text in order [n, D]."""
        # BEGIN SOLUTION
        rows = self.pool[self.tables[text]].reshape(-1, self.pool.shape[2])
        return rows[: self.lengths[text]]
        # END SOLUTION

    def share(self, text, other, n):
        """Begin a new text with the first n tokens of another, without copying."""
        # BEGIN SOLUTION
        if text in self.tables or n > self.lengths[other]:
            raise ValueError("a known text, or more tokens than there are")
        blocks = -(-n // self.pool.shape[1])
        self.tables[text], self.lengths[text] = self.tables[other][:blocks], n
        self.users[self.tables[text]] += 1
        # END SOLUTION

    def free(self, text):
        """Give up the blocks of a text and forget it."""
        # BEGIN SOLUTION
        self.users[self.tables.pop(text)] -= 1
        del self.lengths[text]
        # END SOLUTION

# %% check cache-6
case = check("cache-6")


def _state(cache, *texts):
    return {"used": cache.used, **{text: np.array(cache.read(text)) for text in texts}}


def _write(cache, rng, text, tokens):
    for x in rng.normal(size=(tokens, cache.pool.shape[2])):
        cache.append(text, x)


def _error(f, *arguments):
    try:
        f(*arguments)
        return "none"
    except Exception as problem:
        return type(problem).__name__


@case("one text grows")
def _(rng):
    cache, states = Paged(4, 3, 2), []
    for _ in range(7):
        _write(cache, rng, "a", 1)
        states.append(_state(cache, "a"))
    return states


@case("two texts take turns")
def _(rng):
    cache = Paged(6, 2, 2)
    for text in "abbaabab":
        _write(cache, rng, text, 1)
    return _state(cache, "a", "b")


@case("shared and not written to")
def _(rng):
    cache = Paged(6, 2, 2)
    _write(cache, rng, "a", 7)
    cache.share("b", "a", 4)
    cache.share("c", "a", 3)
    before = _state(cache, *"abc")
    cache.free("a")
    return [before, _state(cache, *"bc")]


@case("shared, then both go on", weight=2)
def _(rng):
    cache = Paged(8, 3, 2)
    _write(cache, rng, "a", 5)
    cache.share("b", "a", 4)
    _write(cache, rng, "b", 1)
    halfway = _state(cache, "a", "b")
    _write(cache, rng, "a", 2)
    _write(cache, rng, "b", 3)
    return [halfway, _state(cache, "a", "b")]


@case("shared up to the end of a block")
def _(rng):
    cache = Paged(8, 2, 2)
    _write(cache, rng, "a", 4)
    cache.share("b", "a", 4)
    _write(cache, rng, "b", 1)
    return _state(cache, "a", "b")


@case("freed blocks are used again")
def _(rng):
    cache = Paged(3, 2, 2)
    _write(cache, rng, "a", 3)
    _write(cache, rng, "b", 1)
    cache.free("a")
    between = cache.used
    _write(cache, rng, "b", 2)
    _write(cache, rng, "a", 2)
    return {"between": between, **_state(cache, "b", "a")}


@case("one of two users is freed", weight=2)
def _(rng):
    cache = Paged(4, 2, 2)
    _write(cache, rng, "a", 3)
    cache.share("b", "a", 3)
    cache.free("a")
    between = _state(cache, "b")
    _write(cache, rng, "c", 3)
    _write(cache, rng, "b", 1)
    return [between, _state(cache, "b", "c")]


@case("errors change nothing", weight=2)
def _(rng):
    cache = Paged(3, 2, 2)
    _write(cache, rng, "a", 3)
    cache.share("b", "a", 3)
    _write(cache, rng, "c", 1)
    x = np.zeros(2)
    errors = [
        _error(cache.append, "b", x), _error(cache.append, "d", x), _error(cache.read, "d"),
        _error(cache.free, "d"), _error(cache.share, "d", "e", 1), _error(cache.share, "b", "c", 1),
        _error(cache.share, "d", "c", 2), _error(cache.free, "c"), _error(cache.free, "c"),
    ]
    after = _state(cache, "a", "b")
    _write(cache, rng, "b", 1)
    return [errors, after, _error(cache.read, "d"), _state(cache, "a", "b")]


@case("all of it at once", weight=12)
def _(rng):
    cache, states = Paged(6, 3, 2), []
    _write(cache, rng, "a", 5)
    for text, n in (("b", 5), ("c", 4), ("d", 3)):
        cache.share(text, "a", n)
    for text, tokens in (("b", 2), ("a", 1), ("c", 1), ("d", 1)):
        _write(cache, rng, text, tokens)
        states.append(_state(cache, *"abcd"))
    cache.share("f", "c", 5)
    full = [_error(cache.append, text, np.zeros(2)) for text in "cfe"]
    full.append(_error(cache.read, "e"))
    cache.free("f")
    _write(cache, rng, "c", 1)
    states.append(_state(cache, *"abcd"))
    for text in "ab":
        cache.free(text)
        states.append(cache.used)
    _write(cache, rng, "d", 3)
    _write(cache, rng, "b", 5)
    errors = [_error(cache.free, "a"), _error(cache.share, "b", "c", 1), _error(cache.read, "a")]
    errors += [_error(cache.share, "f", "d", 8), _error(cache.share, "f", "a", 1)]
    return {"states": states, "full": full, "errors": errors, "end": _state(cache, *"bcd")}

# %% hidden cache-6
case = check("cache-6")


@case("a prefix for many")
def _(rng):
    cache = Paged(16, 4, 3)
    _write(cache, rng, "prompt", 10)
    for text, n in zip("abc", rng.permutation([10, 8, 5]), strict=True):
        cache.share(text, "prompt", int(n))
    cache.free("prompt")
    for text in rng.permutation(list("abcabc")):
        _write(cache, rng, str(text), 3)
    return _state(cache, *"abc")

# %% right cache-6 with a list of free blocks
class Paged:
    def __init__(self, blocks, size, D):
        self.data = {}
        self.tables, self.lengths, self.size, self.D = {}, {}, size, D
        self.unused, self.count = list(range(blocks))[::-1], [0] * blocks
        self.pool = np.zeros((blocks, size, D))

    @property
    def used(self):
        return len(self.count) - len(self.unused)

    def take(self):
        if not self.unused:
            raise MemoryError
        block = self.unused.pop()
        self.count[block] = 1
        return block

    def drop(self, block):
        self.count[block] -= 1
        if self.count[block] == 0:
            self.unused.append(block)

    def append(self, text, x):
        place, slot = divmod(self.lengths.get(text, 0), self.size)
        if slot == 0:
            block = self.take()
            self.tables.setdefault(text, []).append(block)
        else:
            block = self.tables[text][place]
            if self.count[block] != 1:
                fresh = self.take()
                self.pool[fresh, :slot] = self.pool[block, :slot]
                self.drop(block)
                self.tables[text][place] = block = fresh
        self.pool[block, slot] = x
        self.lengths[text] = place * self.size + slot + 1

    def read(self, text):
        table = self.tables[text]
        at = range(self.lengths[text])
        return np.array([self.pool[table[p // self.size], p % self.size] for p in at])

    def share(self, text, other, n):
        if self.lengths[other] < n:
            raise ValueError(f"{other!r} has {self.lengths[other]} tokens")
        if text in self.lengths:
            raise ValueError(f"{text!r} is known")
        blocks = [b for i, b in enumerate(self.tables[other]) if i * self.size < n]
        for block in blocks:
            self.count[block] += 1
        self.tables[text], self.lengths[text] = blocks, n

    def free(self, text):
        for block in self.tables[text]:
            self.drop(block)
        del self.tables[text], self.lengths[text]

# %% right cache-6 one record for each block
class Paged:
    def __init__(self, blocks, size, D):
        self.pool = np.empty((blocks, size, D))
        self.holders = [set() for _ in range(blocks)]
        self.texts = {}

    @property
    def used(self):
        return sum(map(bool, self.holders))

    def place(self, text):
        empty = next((b for b, names in enumerate(self.holders) if not names), None)
        if empty is None:
            raise MemoryError("every block has a holder")
        self.holders[empty].add(text)
        return empty

    def append(self, text, x):
        blocks, n = self.texts.get(text, ([], 0))
        slot = n % len(self.pool[0])
        if not slot:
            blocks = blocks + [self.place(text)]
        elif self.holders[blocks[-1]] != {text}:
            fresh = self.place(text)
            np.copyto(self.pool[fresh], self.pool[blocks[-1]])
            self.holders[blocks[-1]].remove(text)
            blocks = blocks[:-1] + [fresh]
        self.pool[blocks[-1]][slot] = x
        self.texts[text] = blocks, n + 1

    def read(self, text):
        blocks, n = self.texts[text]
        return np.vstack([self.pool[b] for b in blocks])[:n]

    def share(self, text, other, n):
        blocks, most = self.texts[other]
        if n > most or text in self.texts:
            raise ValueError
        blocks = blocks[: (n + len(self.pool[0]) - 1) // len(self.pool[0])]
        for b in blocks:
            self.holders[b].add(text)
        self.texts[text] = blocks, n

    def free(self, text):
        for b in self.texts.pop(text)[0]:
            self.holders[b].discard(text)

# %% wrong cache-6 a freed text keeps its length
# You give up the blocks of a text and keep the number of its tokens. A text that is begun again
# under the same name then starts in the middle.
class Paged:
    """Texts stored in blocks of `size` slots for D numbers, out of one pool."""

    def __init__(self, blocks, size, D):
        self.pool = np.full((blocks, size, D), np.nan)
        self.users = np.zeros(blocks, int)
        self.tables, self.lengths = {}, {}

    @property
    def used(self):
        """How many blocks are in use."""
        return int((self.users > 0).sum())

    def _take(self):
        free = np.flatnonzero(self.users == 0)
        if len(free) == 0:
            raise MemoryError("no free block")
        self.users[free[0]] = 1
        return free[0]

    def append(self, text, x):
        """Store x [D] as the next token of a text."""
        n = self.lengths.get(text, 0)
        size = self.pool.shape[1]
        slot = n % size
        if slot == 0:
            block = self._take()
            self.tables.setdefault(text, []).append(block)
        else:
            block = self.tables[text][-1]
            if self.users[block] > 1:
                new = self._take()
                self.pool[new, :slot] = self.pool[block, :slot]
                self.users[block] -= 1
                self.tables[text][-1] = block = new
        self.pool[block, slot] = x
        self.lengths[text] = n + 1

    def read(self, text):
        """The tokens of a text in order [n, D]."""
        return np.concatenate([self.pool[b] for b in self.tables[text]])[:self.lengths[text]]

    def share(self, text, other, n):
        """Begin a new text with the first n tokens of another, without copying."""
        if self.lengths[other] < n or text in self.tables:
            raise ValueError("no")
        size = self.pool.shape[1]
        self.tables[text] = self.tables[other][: -(-n // size)]
        self.lengths[text] = n
        self.users[self.tables[text]] += 1

    def free(self, text):
        """Give up the blocks of a text and forget it."""
        for block in self.tables.pop(text):
            self.users[block] -= 1

# %% wrong cache-6 no copy on write
# You write into a block that another text uses as well, and change its words. Look at the number of
# users before you write.
# Seen: Avarok-Cybersecurity/atlas#1193
class Paged:

    def __init__(self, blocks, size, D):
        self.pool = np.full((blocks, size, D), np.nan)
        self.users = np.zeros(blocks, int)
        self.tables, self.lengths = {}, {}

    @property
    def used(self):
        return int((self.users > 0).sum())

    def append(self, text, x):
        table, n = self.tables.get(text, []), self.lengths.get(text, 0)
        slot = n % self.pool.shape[1]
        if slot == 0:
            free = np.flatnonzero(self.users == 0)
            if len(free) == 0:
                raise MemoryError("no block is free")
            if slot > 0:
                self.pool[free[0]] = self.pool[table[-1]]
                self.users[table[-1]] -= 1
                table = table[:-1]
            self.users[free[0]] = 1
            table = [*table, free[0]]
        self.pool[table[-1], slot] = x
        self.tables[text], self.lengths[text] = table, n + 1

    def read(self, text):
        rows = self.pool[self.tables[text]].reshape(-1, self.pool.shape[2])
        return rows[: self.lengths[text]]

    def share(self, text, other, n):
        if text in self.tables or n > self.lengths[other]:
            raise ValueError("a known text, or more tokens than there are")
        blocks = -(-n // self.pool.shape[1])
        self.tables[text], self.lengths[text] = self.tables[other][:blocks], n
        self.users[self.tables[text]] += 1

    def free(self, text):
        self.users[self.tables.pop(text)] -= 1
        del self.lengths[text]

# %% wrong cache-6 a shared block is always copied
# You copy the last block also when it is full. Nothing will be written into it: a new block is
# needed, no copy.
class Paged:

    def __init__(self, blocks, size, D):
        self.pool = np.full((blocks, size, D), np.nan)
        self.users = np.zeros(blocks, int)
        self.tables, self.lengths = {}, {}

    @property
    def used(self):
        return int((self.users > 0).sum())

    def append(self, text, x):
        table, n = self.tables.get(text, []), self.lengths.get(text, 0)
        slot = n % self.pool.shape[1]
        if slot == 0 or self.users[table[-1]] > 1:
            free = np.flatnonzero(self.users == 0)
            if len(free) == 0:
                raise MemoryError("no block is free")
            if slot > 0 or (table and self.users[table[-1]] > 1):
                self.pool[free[0]] = self.pool[table[-1]]
                self.users[table[-1]] -= 1
                table = table[:-1]
            self.users[free[0]] = 1
            table = [*table, free[0]]
        self.pool[table[-1], slot] = x
        self.tables[text], self.lengths[text] = table, n + 1

    def read(self, text):
        rows = self.pool[self.tables[text]].reshape(-1, self.pool.shape[2])
        return rows[: self.lengths[text]]

    def share(self, text, other, n):
        if text in self.tables or n > self.lengths[other]:
            raise ValueError("a known text, or more tokens than there are")
        blocks = -(-n // self.pool.shape[1])
        self.tables[text], self.lengths[text] = self.tables[other][:blocks], n
        self.users[self.tables[text]] += 1

    def free(self, text):
        self.users[self.tables.pop(text)] -= 1
        del self.lengths[text]

# %% wrong cache-6 the old block keeps its user
# After copying, the text still counts as a user of the block that it left. That block will never be
# free again.
# Seen: xLLM-AI/xllm#828
class Paged:

    def __init__(self, blocks, size, D):
        self.pool = np.full((blocks, size, D), np.nan)
        self.users = np.zeros(blocks, int)
        self.tables, self.lengths = {}, {}

    @property
    def used(self):
        return int((self.users > 0).sum())

    def append(self, text, x):
        table, n = self.tables.get(text, []), self.lengths.get(text, 0)
        slot = n % self.pool.shape[1]
        if slot == 0 or self.users[table[-1]] > 1:
            free = np.flatnonzero(self.users == 0)
            if len(free) == 0:
                raise MemoryError("no block is free")
            if slot > 0:
                self.pool[free[0]] = self.pool[table[-1]]
                table = table[:-1]
            self.users[free[0]] = 1
            table = [*table, free[0]]
        self.pool[table[-1], slot] = x
        self.tables[text], self.lengths[text] = table, n + 1

    def read(self, text):
        rows = self.pool[self.tables[text]].reshape(-1, self.pool.shape[2])
        return rows[: self.lengths[text]]

    def share(self, text, other, n):
        if text in self.tables or n > self.lengths[other]:
            raise ValueError("a known text, or more tokens than there are")
        blocks = -(-n // self.pool.shape[1])
        self.tables[text], self.lengths[text] = self.tables[other][:blocks], n
        self.users[self.tables[text]] += 1

    def free(self, text):
        self.users[self.tables.pop(text)] -= 1
        del self.lengths[text]

# %% wrong cache-6 the old block is set free
# After copying you free the old block, though others use it. It has one user less, not none.
class Paged:

    def __init__(self, blocks, size, D):
        self.pool = np.full((blocks, size, D), np.nan)
        self.users = np.zeros(blocks, int)
        self.tables, self.lengths = {}, {}

    @property
    def used(self):
        return int((self.users > 0).sum())

    def append(self, text, x):
        table, n = self.tables.get(text, []), self.lengths.get(text, 0)
        slot = n % self.pool.shape[1]
        if slot == 0 or self.users[table[-1]] > 1:
            free = np.flatnonzero(self.users == 0)
            if len(free) == 0:
                raise MemoryError("no block is free")
            if slot > 0:
                self.pool[free[0]] = self.pool[table[-1]]
                self.users[table[-1]] = 0
                table = table[:-1]
            self.users[free[0]] = 1
            table = [*table, free[0]]
        self.pool[table[-1], slot] = x
        self.tables[text], self.lengths[text] = table, n + 1

    def read(self, text):
        rows = self.pool[self.tables[text]].reshape(-1, self.pool.shape[2])
        return rows[: self.lengths[text]]

    def share(self, text, other, n):
        if text in self.tables or n > self.lengths[other]:
            raise ValueError("a known text, or more tokens than there are")
        blocks = -(-n // self.pool.shape[1])
        self.tables[text], self.lengths[text] = self.tables[other][:blocks], n
        self.users[self.tables[text]] += 1

    def free(self, text):
        self.users[self.tables.pop(text)] -= 1
        del self.lengths[text]

# %% wrong cache-6 the copy is empty
# The text takes a new block and forgets to copy. The tokens that stood in the old one belong to it,
# too.
class Paged:

    def __init__(self, blocks, size, D):
        self.pool = np.full((blocks, size, D), np.nan)
        self.users = np.zeros(blocks, int)
        self.tables, self.lengths = {}, {}

    @property
    def used(self):
        return int((self.users > 0).sum())

    def append(self, text, x):
        table, n = self.tables.get(text, []), self.lengths.get(text, 0)
        slot = n % self.pool.shape[1]
        if slot == 0 or self.users[table[-1]] > 1:
            free = np.flatnonzero(self.users == 0)
            if len(free) == 0:
                raise MemoryError("no block is free")
            if slot > 0:
                self.users[table[-1]] -= 1
                table = table[:-1]
            self.users[free[0]] = 1
            table = [*table, free[0]]
        self.pool[table[-1], slot] = x
        self.tables[text], self.lengths[text] = table, n + 1

    def read(self, text):
        rows = self.pool[self.tables[text]].reshape(-1, self.pool.shape[2])
        return rows[: self.lengths[text]]

    def share(self, text, other, n):
        if text in self.tables or n > self.lengths[other]:
            raise ValueError("a known text, or more tokens than there are")
        blocks = -(-n // self.pool.shape[1])
        self.tables[text], self.lengths[text] = self.tables[other][:blocks], n
        self.users[self.tables[text]] += 1

    def free(self, text):
        self.users[self.tables.pop(text)] -= 1
        del self.lengths[text]

# %% wrong cache-6 shared tokens are not counted
# You share blocks without counting the new user. When one text is freed, its blocks go to somebody
# else, and the other text reads foreign words.
class Paged:

    def __init__(self, blocks, size, D):
        self.pool = np.full((blocks, size, D), np.nan)
        self.users = np.zeros(blocks, int)
        self.tables, self.lengths = {}, {}

    @property
    def used(self):
        return int((self.users > 0).sum())

    def append(self, text, x):
        table, n = self.tables.get(text, []), self.lengths.get(text, 0)
        slot = n % self.pool.shape[1]
        if slot == 0 or self.users[table[-1]] > 1:
            free = np.flatnonzero(self.users == 0)
            if len(free) == 0:
                raise MemoryError("no block is free")
            if slot > 0:
                self.pool[free[0]] = self.pool[table[-1]]
                self.users[table[-1]] -= 1
                table = table[:-1]
            self.users[free[0]] = 1
            table = [*table, free[0]]
        self.pool[table[-1], slot] = x
        self.tables[text], self.lengths[text] = table, n + 1

    def read(self, text):
        rows = self.pool[self.tables[text]].reshape(-1, self.pool.shape[2])
        return rows[: self.lengths[text]]

    def share(self, text, other, n):
        if text in self.tables or n > self.lengths[other]:
            raise ValueError("a known text, or more tokens than there are")
        blocks = -(-n // self.pool.shape[1])
        self.tables[text], self.lengths[text] = self.tables[other][:blocks], n

    def free(self, text):
        self.users[self.tables.pop(text)] -= 1
        del self.lengths[text]

# %% wrong cache-6 two texts, one table
# Both texts hold the same list. What one of them appends to its table appears in the other's: a
# table of its own costs next to nothing.
# Seen: raullenchai/Rapid-MLX#196
class Paged:

    def __init__(self, blocks, size, D):
        self.pool = np.full((blocks, size, D), np.nan)
        self.users = np.zeros(blocks, int)
        self.tables, self.lengths = {}, {}

    @property
    def used(self):
        return int((self.users > 0).sum())

    def append(self, text, x):
        table, n = self.tables.get(text, []), self.lengths.get(text, 0)
        slot = n % self.pool.shape[1]
        if slot == 0 or self.users[table[-1]] > 1:
            free = np.flatnonzero(self.users == 0)
            if len(free) == 0:
                raise MemoryError("no block is free")
            if slot > 0:
                self.pool[free[0]] = self.pool[table[-1]]
                self.users[table[-1]] -= 1
                table.pop()
            self.users[free[0]] = 1
            table.append(free[0])
        self.pool[table[-1], slot] = x
        self.tables[text], self.lengths[text] = table, n + 1

    def read(self, text):
        rows = self.pool[self.tables[text]].reshape(-1, self.pool.shape[2])
        return rows[: self.lengths[text]]

    def share(self, text, other, n):
        if text in self.tables or n > self.lengths[other]:
            raise ValueError("a known text, or more tokens than there are")
        self.tables[text], self.lengths[text] = self.tables[other], n
        self.users[self.tables[text]] += 1

    def free(self, text):
        self.users[self.tables.pop(text)] -= 1
        del self.lengths[text]

# %% wrong cache-6 sharing copies
# Your shared text has blocks of its own, filled with copies. Sharing costs no memory: the same
# blocks, one user more.
class Paged:

    def __init__(self, blocks, size, D):
        self.pool = np.full((blocks, size, D), np.nan)
        self.users = np.zeros(blocks, int)
        self.tables, self.lengths = {}, {}

    @property
    def used(self):
        return int((self.users > 0).sum())

    def append(self, text, x):
        table, n = self.tables.get(text, []), self.lengths.get(text, 0)
        slot = n % self.pool.shape[1]
        if slot == 0 or self.users[table[-1]] > 1:
            free = np.flatnonzero(self.users == 0)
            if len(free) == 0:
                raise MemoryError("no block is free")
            if slot > 0:
                self.pool[free[0]] = self.pool[table[-1]]
                self.users[table[-1]] -= 1
                table = table[:-1]
            self.users[free[0]] = 1
            table = [*table, free[0]]
        self.pool[table[-1], slot] = x
        self.tables[text], self.lengths[text] = table, n + 1

    def read(self, text):
        rows = self.pool[self.tables[text]].reshape(-1, self.pool.shape[2])
        return rows[: self.lengths[text]]

    def share(self, text, other, n):
        if text in self.tables or n > self.lengths[other]:
            raise ValueError("a known text, or more tokens than there are")
        for x in self.read(other)[:n]:
            self.append(text, x)

    def free(self, text):
        self.users[self.tables.pop(text)] -= 1
        del self.lengths[text]

# %% wrong cache-6 all blocks are shared
# You share all blocks of the other text, also those behind the first n tokens. They are held for
# nothing, and a new block lands behind them.
class Paged:

    def __init__(self, blocks, size, D):
        self.pool = np.full((blocks, size, D), np.nan)
        self.users = np.zeros(blocks, int)
        self.tables, self.lengths = {}, {}

    @property
    def used(self):
        return int((self.users > 0).sum())

    def append(self, text, x):
        table, n = self.tables.get(text, []), self.lengths.get(text, 0)
        slot = n % self.pool.shape[1]
        if slot == 0 or self.users[table[-1]] > 1:
            free = np.flatnonzero(self.users == 0)
            if len(free) == 0:
                raise MemoryError("no block is free")
            if slot > 0:
                self.pool[free[0]] = self.pool[table[-1]]
                self.users[table[-1]] -= 1
                table = table[:-1]
            self.users[free[0]] = 1
            table = [*table, free[0]]
        self.pool[table[-1], slot] = x
        self.tables[text], self.lengths[text] = table, n + 1

    def read(self, text):
        rows = self.pool[self.tables[text]].reshape(-1, self.pool.shape[2])
        return rows[: self.lengths[text]]

    def share(self, text, other, n):
        if text in self.tables or n > self.lengths[other]:
            raise ValueError("a known text, or more tokens than there are")
        self.tables[text], self.lengths[text] = self.tables[other][:], n
        self.users[self.tables[text]] += 1

    def free(self, text):
        self.users[self.tables.pop(text)] -= 1
        del self.lengths[text]

# %% wrong cache-6 a block too many is shared
# If n tokens fill their last block exactly, you share the next one as well. How many blocks hold n
# tokens?
class Paged:

    def __init__(self, blocks, size, D):
        self.pool = np.full((blocks, size, D), np.nan)
        self.users = np.zeros(blocks, int)
        self.tables, self.lengths = {}, {}

    @property
    def used(self):
        return int((self.users > 0).sum())

    def append(self, text, x):
        table, n = self.tables.get(text, []), self.lengths.get(text, 0)
        slot = n % self.pool.shape[1]
        if slot == 0 or self.users[table[-1]] > 1:
            free = np.flatnonzero(self.users == 0)
            if len(free) == 0:
                raise MemoryError("no block is free")
            if slot > 0:
                self.pool[free[0]] = self.pool[table[-1]]
                self.users[table[-1]] -= 1
                table = table[:-1]
            self.users[free[0]] = 1
            table = [*table, free[0]]
        self.pool[table[-1], slot] = x
        self.tables[text], self.lengths[text] = table, n + 1

    def read(self, text):
        rows = self.pool[self.tables[text]].reshape(-1, self.pool.shape[2])
        return rows[: self.lengths[text]]

    def share(self, text, other, n):
        if text in self.tables or n > self.lengths[other]:
            raise ValueError("a known text, or more tokens than there are")
        blocks = n // self.pool.shape[1] + 1
        self.tables[text], self.lengths[text] = self.tables[other][:blocks], n
        self.users[self.tables[text]] += 1

    def free(self, text):
        self.users[self.tables.pop(text)] -= 1
        del self.lengths[text]

# %% wrong cache-6 half-filled blocks are not shared
# You share full blocks only. The last of the n tokens may stand in the middle of a block.
class Paged:

    def __init__(self, blocks, size, D):
        self.pool = np.full((blocks, size, D), np.nan)
        self.users = np.zeros(blocks, int)
        self.tables, self.lengths = {}, {}

    @property
    def used(self):
        return int((self.users > 0).sum())

    def append(self, text, x):
        table, n = self.tables.get(text, []), self.lengths.get(text, 0)
        slot = n % self.pool.shape[1]
        if slot == 0 or self.users[table[-1]] > 1:
            free = np.flatnonzero(self.users == 0)
            if len(free) == 0:
                raise MemoryError("no block is free")
            if slot > 0:
                self.pool[free[0]] = self.pool[table[-1]]
                self.users[table[-1]] -= 1
                table = table[:-1]
            self.users[free[0]] = 1
            table = [*table, free[0]]
        self.pool[table[-1], slot] = x
        self.tables[text], self.lengths[text] = table, n + 1

    def read(self, text):
        rows = self.pool[self.tables[text]].reshape(-1, self.pool.shape[2])
        return rows[: self.lengths[text]]

    def share(self, text, other, n):
        if text in self.tables or n > self.lengths[other]:
            raise ValueError("a known text, or more tokens than there are")
        blocks = n // self.pool.shape[1]
        self.tables[text], self.lengths[text] = self.tables[other][:blocks], n
        self.users[self.tables[text]] += 1

    def free(self, text):
        self.users[self.tables.pop(text)] -= 1
        del self.lengths[text]

# %% wrong cache-6 freed blocks never come back
# You forget the text and keep its blocks in use. After enough texts the pool is empty, and nobody
# holds anything.
# Seen: https://github.com/jjang-ai/vmlx/pull/68
class Paged:

    def __init__(self, blocks, size, D):
        self.pool = np.full((blocks, size, D), np.nan)
        self.users = np.zeros(blocks, int)
        self.tables, self.lengths = {}, {}

    @property
    def used(self):
        return int((self.users > 0).sum())

    def append(self, text, x):
        table, n = self.tables.get(text, []), self.lengths.get(text, 0)
        slot = n % self.pool.shape[1]
        if slot == 0 or self.users[table[-1]] > 1:
            free = np.flatnonzero(self.users == 0)
            if len(free) == 0:
                raise MemoryError("no block is free")
            if slot > 0:
                self.pool[free[0]] = self.pool[table[-1]]
                self.users[table[-1]] -= 1
                table = table[:-1]
            self.users[free[0]] = 1
            table = [*table, free[0]]
        self.pool[table[-1], slot] = x
        self.tables[text], self.lengths[text] = table, n + 1

    def read(self, text):
        rows = self.pool[self.tables[text]].reshape(-1, self.pool.shape[2])
        return rows[: self.lengths[text]]

    def share(self, text, other, n):
        if text in self.tables or n > self.lengths[other]:
            raise ValueError("a known text, or more tokens than there are")
        blocks = -(-n // self.pool.shape[1])
        self.tables[text], self.lengths[text] = self.tables[other][:blocks], n
        self.users[self.tables[text]] += 1

    def free(self, text):
        del self.tables[text]
        del self.lengths[text]

# %% wrong cache-6 freed for everybody
# You free blocks that other texts still use. Giving up a block makes one user less; it is free when
# none is left.
class Paged:

    def __init__(self, blocks, size, D):
        self.pool = np.full((blocks, size, D), np.nan)
        self.users = np.zeros(blocks, int)
        self.tables, self.lengths = {}, {}

    @property
    def used(self):
        return int((self.users > 0).sum())

    def append(self, text, x):
        table, n = self.tables.get(text, []), self.lengths.get(text, 0)
        slot = n % self.pool.shape[1]
        if slot == 0 or self.users[table[-1]] > 1:
            free = np.flatnonzero(self.users == 0)
            if len(free) == 0:
                raise MemoryError("no block is free")
            if slot > 0:
                self.pool[free[0]] = self.pool[table[-1]]
                self.users[table[-1]] -= 1
                table = table[:-1]
            self.users[free[0]] = 1
            table = [*table, free[0]]
        self.pool[table[-1], slot] = x
        self.tables[text], self.lengths[text] = table, n + 1

    def read(self, text):
        rows = self.pool[self.tables[text]].reshape(-1, self.pool.shape[2])
        return rows[: self.lengths[text]]

    def share(self, text, other, n):
        if text in self.tables or n > self.lengths[other]:
            raise ValueError("a known text, or more tokens than there are")
        blocks = -(-n // self.pool.shape[1])
        self.tables[text], self.lengths[text] = self.tables[other][:blocks], n
        self.users[self.tables[text]] += 1

    def free(self, text):
        self.users[self.tables.pop(text)] = 0
        del self.lengths[text]

# %% wrong cache-6 freeing twice goes unnoticed
# You say nothing when a text is freed that isn't there. Who frees twice has lost count: the next
# time it may hit somebody else's blocks.
# Seen: vllm-project/vllm#1584
class Paged:

    def __init__(self, blocks, size, D):
        self.pool = np.full((blocks, size, D), np.nan)
        self.users = np.zeros(blocks, int)
        self.tables, self.lengths = {}, {}

    @property
    def used(self):
        return int((self.users > 0).sum())

    def append(self, text, x):
        table, n = self.tables.get(text, []), self.lengths.get(text, 0)
        slot = n % self.pool.shape[1]
        if slot == 0 or self.users[table[-1]] > 1:
            free = np.flatnonzero(self.users == 0)
            if len(free) == 0:
                raise MemoryError("no block is free")
            if slot > 0:
                self.pool[free[0]] = self.pool[table[-1]]
                self.users[table[-1]] -= 1
                table = table[:-1]
            self.users[free[0]] = 1
            table = [*table, free[0]]
        self.pool[table[-1], slot] = x
        self.tables[text], self.lengths[text] = table, n + 1

    def read(self, text):
        rows = self.pool[self.tables[text]].reshape(-1, self.pool.shape[2])
        return rows[: self.lengths[text]]

    def share(self, text, other, n):
        if text in self.tables or n > self.lengths[other]:
            raise ValueError("a known text, or more tokens than there are")
        blocks = -(-n // self.pool.shape[1])
        self.tables[text], self.lengths[text] = self.tables[other][:blocks], n
        self.users[self.tables[text]] += 1

    def free(self, text):
        self.users[self.tables.pop(text, [])] -= 1
        self.lengths.pop(text, None)

# %% wrong cache-6 empty slots are read
# You return whole blocks. Behind the last token its block has slots that hold no token.
# Seen: flashinfer-ai/flashinfer#941
class Paged:

    def __init__(self, blocks, size, D):
        self.pool = np.full((blocks, size, D), np.nan)
        self.users = np.zeros(blocks, int)
        self.tables, self.lengths = {}, {}

    @property
    def used(self):
        return int((self.users > 0).sum())

    def append(self, text, x):
        table, n = self.tables.get(text, []), self.lengths.get(text, 0)
        slot = n % self.pool.shape[1]
        if slot == 0 or self.users[table[-1]] > 1:
            free = np.flatnonzero(self.users == 0)
            if len(free) == 0:
                raise MemoryError("no block is free")
            if slot > 0:
                self.pool[free[0]] = self.pool[table[-1]]
                self.users[table[-1]] -= 1
                table = table[:-1]
            self.users[free[0]] = 1
            table = [*table, free[0]]
        self.pool[table[-1], slot] = x
        self.tables[text], self.lengths[text] = table, n + 1

    def read(self, text):
        rows = self.pool[self.tables[text]].reshape(-1, self.pool.shape[2])
        return rows

    def share(self, text, other, n):
        if text in self.tables or n > self.lengths[other]:
            raise ValueError("a known text, or more tokens than there are")
        blocks = -(-n // self.pool.shape[1])
        self.tables[text], self.lengths[text] = self.tables[other][:blocks], n
        self.users[self.tables[text]] += 1

    def free(self, text):
        self.users[self.tables.pop(text)] -= 1
        del self.lengths[text]

# %% wrong cache-6 blocks in the order of the pool
# You read blocks in the order in which they lie in the pool. A text's order stands in its table.
class Paged:

    def __init__(self, blocks, size, D):
        self.pool = np.full((blocks, size, D), np.nan)
        self.users = np.zeros(blocks, int)
        self.tables, self.lengths = {}, {}

    @property
    def used(self):
        return int((self.users > 0).sum())

    def append(self, text, x):
        table, n = self.tables.get(text, []), self.lengths.get(text, 0)
        slot = n % self.pool.shape[1]
        if slot == 0 or self.users[table[-1]] > 1:
            free = np.flatnonzero(self.users == 0)
            if len(free) == 0:
                raise MemoryError("no block is free")
            if slot > 0:
                self.pool[free[0]] = self.pool[table[-1]]
                self.users[table[-1]] -= 1
                table = table[:-1]
            self.users[free[0]] = 1
            table = [*table, free[0]]
        self.pool[table[-1], slot] = x
        self.tables[text], self.lengths[text] = table, n + 1

    def read(self, text):
        rows = self.pool[sorted(self.tables[text])].reshape(-1, self.pool.shape[2])
        return rows[: self.lengths[text]]

    def share(self, text, other, n):
        if text in self.tables or n > self.lengths[other]:
            raise ValueError("a known text, or more tokens than there are")
        blocks = -(-n // self.pool.shape[1])
        self.tables[text], self.lengths[text] = self.tables[other][:blocks], n
        self.users[self.tables[text]] += 1

    def free(self, text):
        self.users[self.tables.pop(text)] -= 1
        del self.lengths[text]

# %% wrong cache-6 a full pool leaves a trace
# Your error comes after the first change: a count is lower, or an empty text has begun. Whoever
# catches it finds another cache than before.
# Seen: inference-sim/inference-sim#200
class Paged:

    def __init__(self, blocks, size, D):
        self.pool = np.full((blocks, size, D), np.nan)
        self.users = np.zeros(blocks, int)
        self.tables, self.lengths = {}, {}

    @property
    def used(self):
        return int((self.users > 0).sum())

    def append(self, text, x):
        table, n = self.tables.get(text, []), self.lengths.get(text, 0)
        slot = n % self.pool.shape[1]
        if slot == 0 or self.users[table[-1]] > 1:
            self.tables[text], self.lengths[text] = table, n
            if slot > 0:
                self.users[table[-1]] -= 1
            free = np.flatnonzero(self.users == 0)
            if len(free) == 0:
                raise MemoryError("no block is free")
            if slot > 0:
                self.pool[free[0]] = self.pool[table[-1]]
                table = table[:-1]
            self.users[free[0]] = 1
            table = [*table, free[0]]
        self.pool[table[-1], slot] = x
        self.tables[text], self.lengths[text] = table, n + 1

    def read(self, text):
        rows = self.pool[self.tables[text]].reshape(-1, self.pool.shape[2])
        return rows[: self.lengths[text]]

    def share(self, text, other, n):
        if text in self.tables or n > self.lengths[other]:
            raise ValueError("a known text, or more tokens than there are")
        blocks = -(-n // self.pool.shape[1])
        self.tables[text], self.lengths[text] = self.tables[other][:blocks], n
        self.users[self.tables[text]] += 1

    def free(self, text):
        self.users[self.tables.pop(text)] -= 1
        del self.lengths[text]

# %% wrong cache-6 a full pool gives any error
# When no block is free, an error comes by accident, and of another kind. Whoever calls you waits
# for MemoryError.
class Paged:

    def __init__(self, blocks, size, D):
        self.pool = np.full((blocks, size, D), np.nan)
        self.users = np.zeros(blocks, int)
        self.tables, self.lengths = {}, {}

    @property
    def used(self):
        return int((self.users > 0).sum())

    def append(self, text, x):
        table, n = self.tables.get(text, []), self.lengths.get(text, 0)
        slot = n % self.pool.shape[1]
        if slot == 0 or self.users[table[-1]] > 1:
            free = np.flatnonzero(self.users == 0)
            if slot > 0:
                self.pool[free[0]] = self.pool[table[-1]]
                self.users[table[-1]] -= 1
                table = table[:-1]
            self.users[free[0]] = 1
            table = [*table, free[0]]
        self.pool[table[-1], slot] = x
        self.tables[text], self.lengths[text] = table, n + 1

    def read(self, text):
        rows = self.pool[self.tables[text]].reshape(-1, self.pool.shape[2])
        return rows[: self.lengths[text]]

    def share(self, text, other, n):
        if text in self.tables or n > self.lengths[other]:
            raise ValueError("a known text, or more tokens than there are")
        blocks = -(-n // self.pool.shape[1])
        self.tables[text], self.lengths[text] = self.tables[other][:blocks], n
        self.users[self.tables[text]] += 1

    def free(self, text):
        self.users[self.tables.pop(text)] -= 1
        del self.lengths[text]

# %% wrong cache-6 a known text begins anew
# You let a new text take the name of one that is there. The blocks of the old one are then in use
# for ever.
class Paged:

    def __init__(self, blocks, size, D):
        self.pool = np.full((blocks, size, D), np.nan)
        self.users = np.zeros(blocks, int)
        self.tables, self.lengths = {}, {}

    @property
    def used(self):
        return int((self.users > 0).sum())

    def append(self, text, x):
        table, n = self.tables.get(text, []), self.lengths.get(text, 0)
        slot = n % self.pool.shape[1]
        if slot == 0 or self.users[table[-1]] > 1:
            free = np.flatnonzero(self.users == 0)
            if len(free) == 0:
                raise MemoryError("no block is free")
            if slot > 0:
                self.pool[free[0]] = self.pool[table[-1]]
                self.users[table[-1]] -= 1
                table = table[:-1]
            self.users[free[0]] = 1
            table = [*table, free[0]]
        self.pool[table[-1], slot] = x
        self.tables[text], self.lengths[text] = table, n + 1

    def read(self, text):
        rows = self.pool[self.tables[text]].reshape(-1, self.pool.shape[2])
        return rows[: self.lengths[text]]

    def share(self, text, other, n):
        if n > self.lengths[other]:
            raise ValueError("a known text, or more tokens than there are")
        blocks = -(-n // self.pool.shape[1])
        self.tables[text], self.lengths[text] = self.tables[other][:blocks], n
        self.users[self.tables[text]] += 1

    def free(self, text):
        self.users[self.tables.pop(text)] -= 1
        del self.lengths[text]

# %% wrong cache-6 more is shared than there is
# You share more tokens than the other text has. The rest would be whatever lies in its last block.
class Paged:

    def __init__(self, blocks, size, D):
        self.pool = np.full((blocks, size, D), np.nan)
        self.users = np.zeros(blocks, int)
        self.tables, self.lengths = {}, {}

    @property
    def used(self):
        return int((self.users > 0).sum())

    def append(self, text, x):
        table, n = self.tables.get(text, []), self.lengths.get(text, 0)
        slot = n % self.pool.shape[1]
        if slot == 0 or self.users[table[-1]] > 1:
            free = np.flatnonzero(self.users == 0)
            if len(free) == 0:
                raise MemoryError("no block is free")
            if slot > 0:
                self.pool[free[0]] = self.pool[table[-1]]
                self.users[table[-1]] -= 1
                table = table[:-1]
            self.users[free[0]] = 1
            table = [*table, free[0]]
        self.pool[table[-1], slot] = x
        self.tables[text], self.lengths[text] = table, n + 1

    def read(self, text):
        rows = self.pool[self.tables[text]].reshape(-1, self.pool.shape[2])
        return rows[: self.lengths[text]]

    def share(self, text, other, n):
        if text in self.tables or not self.tables[other]:
            raise ValueError("a known text, or more tokens than there are")
        blocks = -(-n // self.pool.shape[1])
        self.tables[text], self.lengths[text] = self.tables[other][:blocks], n
        self.users[self.tables[text]] += 1

    def free(self, text):
        self.users[self.tables.pop(text)] -= 1
        del self.lengths[text]

# %% wrong cache-6 blocks taken for neighbours
# You read the blocks that follow a text's first one. Between them other texts may have taken some:
# the table names the right ones.
class Paged:

    def __init__(self, blocks, size, D):
        self.pool = np.full((blocks, size, D), np.nan)
        self.users = np.zeros(blocks, int)
        self.tables, self.lengths = {}, {}

    @property
    def used(self):
        return int((self.users > 0).sum())

    def append(self, text, x):
        table, n = self.tables.get(text, []), self.lengths.get(text, 0)
        slot = n % self.pool.shape[1]
        if slot == 0 or self.users[table[-1]] > 1:
            free = np.flatnonzero(self.users == 0)
            if len(free) == 0:
                raise MemoryError("no block is free")
            if slot > 0:
                self.pool[free[0]] = self.pool[table[-1]]
                self.users[table[-1]] -= 1
                table = table[:-1]
            self.users[free[0]] = 1
            table = [*table, free[0]]
        self.pool[table[-1], slot] = x
        self.tables[text], self.lengths[text] = table, n + 1

    def read(self, text):
        rows = self.pool[self.tables[text][0] :].reshape(-1, self.pool.shape[2])
        return rows[: self.lengths[text]]

    def share(self, text, other, n):
        if text in self.tables or n > self.lengths[other]:
            raise ValueError("a known text, or more tokens than there are")
        blocks = -(-n // self.pool.shape[1])
        self.tables[text], self.lengths[text] = self.tables[other][:blocks], n
        self.users[self.tables[text]] += 1

    def free(self, text):
        self.users[self.tables.pop(text)] -= 1
        del self.lengths[text]

# %% [markdown]
# ## cache-7: Write the check
#
# *cache-7 · 4 points · 12 minutes · ●●●○ difficulty 3 of 4*
#
# Now you are the one who checks. Decoding is right if it gives what attention over the text alone
# would give, **whatever lies in the rest of the cache**. Write `accepts(attend)`. It gets a
# *function* that somebody else wrote, `attend(q, keys, values, lengths)`; you return `True` if it
# keeps these promises, `False` if not.
#
# - `q` is `[B, Hq, T, D]`, `keys` is `[B, Hk, N, D]`, `values` is `[B, Hk, N, E]`. Example `b`
#   holds `lengths[b]` tokens, the `T` newest included; slots behind them may hold anything, NaN
#   too.
# - The queries are the last `T` tokens of their example; `T` may be 1 or more. Each sees the keys
#   up to its own position. If an example has fewer than `T` tokens, its first queries stand before
#   the text, see nothing, and get zeros.
# - Query head h reads key head h // (Hq / Hk). Scores are q · k / √D, near 1,000 perhaps.
# - It returns `[B, Hq, T, E]`, and leaves its four inputs as they are, NaN included.
#
# A function that raises an error on such input is wrong: return `False`. Judge only by calling it,
# with NumPy arrays that you make (`lengths` too). Right functions may differ in the last digits.
#
# The check cell hands you one right and one wrong function at a time: you need both verdicts. Half
# of the points are for judging all of them rightly. Read first: *What several tokens at once are
# good for* in [chapter 10](../book/10_kv_cache.ipynb).
#
# <details>
# <summary>Hint 1 for cache-7: one cache that has everything</summary>
#
# For every promise, ask which input would show that it is broken. Examples of unlike length, one of
# them shorter than T; fewer key heads than query heads; D and E that differ; NaN behind the texts.
#
# </details>
#
# <details>
# <summary>Hint 2 for cache-7: a model answer that cannot see the rest</summary>
#
# Four loops, over examples, heads, queries: cut out the keys that this one query sees, and take a
# plain softmax. Slow, and hard to get wrong. Then compare for one new token, and for several.
#
# </details>

# %% answer cache-7 points=4 minutes=12 difficulty=3 forbid=attnlearn
def accepts(attend):
    """True if attend(q, keys, values, lengths) keeps its promises, False if not."""
    # BEGIN SOLUTION
    rng, lengths = np.random.default_rng(0), np.array([7, 2, 5])
    for T in (1, 3):
        q, keys = rng.normal(size=(3, 4, T, 5)), rng.normal(size=(3, 2, 8, 5))
        values, want = rng.normal(size=(3, 2, 8, 6)), np.zeros((3, 4, T, 6))
        q[0, ..., 0], keys[0, ..., 0] = 45, 50
        for b, h, t in np.ndindex(want.shape[:3]):
            n = lengths[b] - T + t + 1
            keys[b, :, lengths[b] :] = values[b, :, lengths[b] :] = np.nan
            if n > 0:
                s = keys[b, h // 2, :n] @ q[b, h, t] / np.sqrt(5)
                p = np.exp(s - s.max())
                want[b, h, t] = p @ values[b, h // 2, :n] / p.sum()
        given = q, keys, values, lengths
        copies = [x.copy() for x in given]
        try:
            got = np.asarray(attend(*copies))
            if got.shape != want.shape or not np.allclose(got, want):
                return False
        except Exception:
            return False
        if not all(np.array_equal(x, y, True) for x, y in zip(given, copies, strict=True)):
            return False
    return True
    # END SOLUTION

# %% check cache-7
case = check("cache-7")


def _mask(q, keys, lengths):
    T, slots = q.shape[2], np.arange(keys.shape[2])
    at = lengths[:, None] - T + np.arange(T)
    return (slots <= at[:, :, None])[:, None]  # [B, 1, T, N]


def _softmax(s):
    top = s.max(-1, keepdims=True)
    p = np.exp(s - np.where(top == -np.inf, 0, top))
    l = p.sum(-1, keepdims=True)
    return p / np.where(l == 0, 1, l)


def _repeat(x, Hq):
    return np.repeat(x, Hq // x.shape[1], 1)


def _with(q, keys, values, seen, scale=None, repeat=_repeat, softmax=_softmax):
    """Attention with a mask; what nobody sees of the values is left out."""
    k, v = repeat(keys, q.shape[1]), repeat(values, q.shape[1])
    s = q @ k.swapaxes(-1, -2) * (q.shape[-1] ** -0.5 if scale is None else scale)
    used = seen.any(2)[..., None]
    return softmax(np.where(seen, s, -np.inf)) @ np.where(used, v, 0)


def _right(q, keys, values, lengths):
    return _with(q, keys, values, _mask(q, keys, lengths))


def _right_too(q, keys, values, lengths):
    _, Hq, T, D = q.shape
    group, out = Hq // keys.shape[1], np.zeros((*q.shape[:3], values.shape[-1]))
    for b, n in enumerate(lengths):
        first = max(0, T - n)  # queries before the text
        rows = q[b, :, first:].reshape(-1, group, T - first, D)
        s = np.einsum("kgtd,ksd->kgts", rows / D**0.5, keys[b, :, :n])
        s = np.where(np.tri(T - first, n, n - T + first, dtype=bool), s, -np.inf)
        p = np.exp(s - np.logaddexp.reduce(s, axis=-1, keepdims=True))
        o = np.einsum("kgts,kse->kgte", p, values[b, :, :n])
        out[b, :, first:] = o.reshape(Hq, T - first, -1)
    return out


def _empty_slots_counted(q, keys, values, lengths):
    T, N = q.shape[2], keys.shape[2]
    seen = np.arange(N) <= np.maximum(lengths[:, None], N) - T + np.arange(T)[:, None, None]
    clean = np.nan_to_num(keys), np.nan_to_num(values)
    return _with(q, *clean, np.broadcast_to(seen.swapaxes(0, 1)[:, None], (len(q), 1, T, N)))


def _nan_times_zero(q, keys, values, lengths):
    k, v = _repeat(keys, q.shape[1]), _repeat(values, q.shape[1])
    s = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    return _softmax(np.where(_mask(q, keys, lengths), s, -np.inf)) @ v


def _one_length(q, keys, values, lengths):
    clean = np.nan_to_num(keys), np.nan_to_num(values)
    return _with(q, *clean, _mask(q, keys, np.full_like(lengths, lengths.max())))


def _top_left(q, keys, values, lengths):
    behind = np.arange(keys.shape[2]) < lengths[:, None, None, None]
    T = q.shape[2]
    return _with(q, keys, values, behind & np.tri(T, keys.shape[2], dtype=bool) if T > 1 else
                 _mask(q, keys, lengths))


def _not_causal(q, keys, values, lengths):
    seen = _mask(q, keys, lengths)
    return _with(q, keys, values, np.where(seen.any(-1, keepdims=True), seen[:, :, -1:], False))


def _not_itself(q, keys, values, lengths):
    return _with(q, keys, values, _mask(q, keys, lengths - 1))


def _tiled(q, keys, values, lengths):
    def repeat(x, Hq):
        return np.tile(x, (1, Hq // x.shape[1], 1, 1))

    return _with(q, keys, values, _mask(q, keys, lengths), repeat=repeat)


def _not_scaled(q, keys, values, lengths):
    return _with(q, keys, values, _mask(q, keys, lengths), scale=1)


def _scaled_by_values(q, keys, values, lengths):
    return _with(q, keys, values, _mask(q, keys, lengths), scale=values.shape[-1] ** -0.5)


def _scales_q(q, keys, values, lengths):
    q /= q.shape[-1] ** 0.5
    return _with(q, keys, values, _mask(q, keys, lengths), scale=1)


def _overflow(q, keys, values, lengths):
    def softmax(s):
        p = np.exp(s)
        l = p.sum(-1, keepdims=True)
        return p / np.where(l == 0, 1, l)

    return _with(q, keys, values, _mask(q, keys, lengths), softmax=softmax)


def _nan_for_nothing(q, keys, values, lengths):
    seen = _mask(q, keys, lengths)
    return np.where(seen.any(-1, keepdims=True), _right(q, keys, values, lengths), np.nan)


def _mean_for_nothing(q, keys, values, lengths):
    nothing = ~_mask(q, keys, lengths).any(-1, keepdims=True)
    mean = np.nanmean(_repeat(values, q.shape[1]), axis=2, keepdims=True)
    return np.where(nothing, mean, _right(q, keys, values, lengths))


def _cleans_the_cache(q, keys, values, lengths):
    out = _right(q, keys, values, lengths)
    np.nan_to_num(keys, copy=False)
    np.nan_to_num(values, copy=False)
    return out


def _one_token_without_mask(q, keys, values, lengths):
    if q.shape[2] > 1:
        return _right(q, keys, values, lengths)
    clean = np.nan_to_num(keys), np.nan_to_num(values)
    return _with(q, *clean, np.ones((len(q), 1, 1, keys.shape[2]), bool))


def _one_token_only(q, keys, values, lengths):
    if q.shape[2] > 1:
        raise ValueError("one token at a time")
    return _right(q, keys, values, lengths)


def _verdicts(right, wrong):
    return {"the right function": accepts(right), "the wrong function": accepts(wrong)}


case("empty slots counted", lambda: _verdicts(_right, _empty_slots_counted))
case("0 times NaN", lambda: _verdicts(_right_too, _nan_times_zero))
case("one length for all", lambda: _verdicts(_right, _one_length))
case("diagonal from the top left", lambda: _verdicts(_right_too, _top_left))
case("no causality in a chunk", lambda: _verdicts(_right, _not_causal))
case("a token does not see itself", lambda: _verdicts(_right_too, _not_itself))
case("heads in the wrong order", lambda: _verdicts(_right, _tiled))
case("not scaled", lambda: _verdicts(_right_too, _not_scaled))
case("scaled by the width of a value", lambda: _verdicts(_right, _scaled_by_values))
case("the queries are scaled in place", lambda: _verdicts(_right_too, _scales_q))
case("no maximum subtracted", lambda: _verdicts(_right, _overflow))
case("NaN for a query before the text", lambda: _verdicts(_right_too, _nan_for_nothing))
case("an average for a query before the text", lambda: _verdicts(_right, _mean_for_nothing))
case("the cache is cleaned", lambda: _verdicts(_right, _cleans_the_cache))
case("no mask for one token", lambda: _verdicts(_right_too, _one_token_without_mask))
case("an error for a chunk", lambda: _verdicts(_right, _one_token_only))


@case("all of them together", weight=15)
def _():
    wrong = (_empty_slots_counted, _nan_times_zero, _one_length, _top_left, _not_causal)
    rest = (_not_itself, _tiled, _not_scaled, _overflow, _nan_for_nothing, _mean_for_nothing)
    special = (_scaled_by_values, _scales_q, _cleans_the_cache)
    special += (_one_token_without_mask, _one_token_only)
    functions = (_right, _right_too, *wrong, *rest, *special)
    return {function.__name__: accepts(function) for function in functions}

# %% hidden cache-7
case = check("cache-7")


def _lengths_moved(q, keys, values, lengths):
    out = _right(q, keys, values, lengths)
    lengths += q.shape[2]
    return out


case("the lengths are changed", lambda: _verdicts(_right_too, _lengths_moved))

# %% right cache-7 the text alone, without a cache
def accepts(attend):
    rng = np.random.RandomState(4)
    for T, lengths in ((1, [9, 4]), (4, [9, 3]), (2, [1, 6])):
        B, N = len(lengths), 9
        q, keys, values = rng.randn(B, 6, T, 3), rng.randn(B, 3, N, 3), rng.randn(B, 3, N, 4)
        q[0, ..., 0], keys[0, ..., 0] = 40, 50 + rng.rand(N)
        lengths = np.array(lengths)
        spoilt = keys.copy(), values.copy()
        for b, n in enumerate(lengths):
            spoilt[0][b, :, n:], spoilt[1][b, :, n:] = np.nan, np.inf
        before = [x.copy() for x in (q, *spoilt, lengths)]
        try:
            got = attend(q, *spoilt, lengths)
        except Exception:
            return False
        kept = zip(before, (q, *spoilt, lengths), strict=True)
        if not all(np.array_equal(x, y, equal_nan=True) for x, y in kept):
            return False
        for b, n in enumerate(lengths):
            k, v = keys[b, :, :n].repeat(2, 0), values[b, :, :n].repeat(2, 0)
            at = np.arange(n - T, n)[:, None]
            s = np.where(np.arange(n) <= at, before[0][b] @ k.swapaxes(1, 2) * 3**-0.5, -np.inf)
            p = np.exp(s - np.maximum(s.max(-1, keepdims=True), -1e300))
            p = np.where(at >= 0, p / np.maximum(p.sum(-1, keepdims=True), 1e-300), 0)
            if np.shape(got[b]) != (6, T, 4) or not np.allclose(got[b], p @ v):
                return False
    return True

# %% right cache-7 one query at a time, many random caches
def accepts(attend):
    for seed in range(8):
        rng = np.random.RandomState(seed)
        B, Hk, N, T, D, E = 3, 2, 7, seed % 4 + 1, 4, 3
        lengths = rng.permutation([1, 4, 7])
        inputs = [rng.normal(size=s) for s in ((B, 4, T, D), (B, Hk, N, D), (B, Hk, N, E))]
        if seed % 3 == 0:
            inputs[0][..., -1], inputs[1][..., -1] = 30, 50
        texts = [[x[b, :, :n].copy() for x in inputs[1:]] for b, n in enumerate(lengths)]
        for b, n in enumerate(lengths):
            for x in inputs[1:]:
                x[b, :, n:] = np.nan
        handed = [x.copy() for x in (*inputs, lengths)]
        try:
            out = attend(*handed)
            assert out.shape == (B, 4, T, E)
            for a, b in zip(handed, (*inputs, lengths), strict=True):
                np.testing.assert_array_equal(a, b)
            for b, h, t in np.ndindex(B, 4, T):
                k, v = (x[h // 2, : max(0, lengths[b] - T + t + 1)] for x in texts[b])
                s = k @ inputs[0][b, h, t] / 2
                p = np.exp(s - s.max()) if len(s) else s
                o = p @ v / p.sum() if len(s) else np.zeros(E)
                np.testing.assert_allclose(out[b, h, t], o, rtol=1e-6, atol=1e-9)
        except Exception:
            return False
    return True

# %% wrong cache-7 the queries are not looked at afterwards
# A function passes your check that writes into `q`. There are four inputs.
def _truth(q, keys, values, lengths):
    B, Hq, T, D = q.shape
    Hk = keys.shape[1]
    out = np.zeros((B, Hq, T, values.shape[-1]))
    for b in range(B):
        for h in range(Hq):
            g = h // (Hq // Hk)
            for t in range(T):
                n = lengths[b] - T + t + 1
                if n <= 0:
                    continue
                s = keys[b, g, :n] @ q[b, h, t] / np.sqrt(D)
                p = np.exp(s - s.max())
                out[b, h, t] = p / p.sum() @ values[b, g, :n]
    return out


def accepts(attend):
    """True if attend(q, keys, values, lengths) keeps its promises, False if not."""
    rng = np.random.default_rng(0)
    lengths = np.array([5, 2, 7])
    for T in (1, 3):
        for size in (1, 30):
            q = rng.normal(size=(3, 4, T, 3)) * size
            keys = rng.normal(size=(3, 2, 9, 3)) * size
            values = rng.normal(size=(3, 2, 9, 5))
            for b, n in enumerate(lengths):
                keys[b, :, n:] = values[b, :, n:] = np.nan
            given = [q, keys, values, lengths.copy()]
            before = [x.copy() for x in given]
            try:
                out = attend(*given)
            except Exception:
                return False
            want = _truth(*before)
            if out.shape != want.shape or not np.allclose(out, want):
                return False
            pairs = zip(given[1:], before[1:], strict=True)
            if not all(np.array_equal(a, b, equal_nan=True) for a, b in pairs):
                return False
    return True

# %% wrong cache-7 D and E alike
# A function passes your check that divides by the root of the width of a value. Let D and E differ.
def _truth(q, keys, values, lengths):
    B, Hq, T, D = q.shape
    Hk = keys.shape[1]
    out = np.zeros((B, Hq, T, values.shape[-1]))
    for b in range(B):
        for h in range(Hq):
            g = h // (Hq // Hk)
            for t in range(T):
                n = lengths[b] - T + t + 1
                if n <= 0:
                    continue
                s = keys[b, g, :n] @ q[b, h, t] / np.sqrt(D)
                p = np.exp(s - s.max())
                out[b, h, t] = p / p.sum() @ values[b, g, :n]
    return out


def accepts(attend):
    """True if attend(q, keys, values, lengths) keeps its promises, False if not."""
    rng = np.random.default_rng(0)
    lengths = np.array([5, 2, 7])
    for T in (1, 3):
        for size in (1, 30):
            q = rng.normal(size=(3, 4, T, 3)) * size
            keys = rng.normal(size=(3, 2, 9, 3)) * size
            values = rng.normal(size=(3, 2, 9, 3))
            for b, n in enumerate(lengths):
                keys[b, :, n:] = values[b, :, n:] = np.nan
            given = [q, keys, values, lengths.copy()]
            before = [x.copy() for x in given]
            try:
                out = attend(*given)
            except Exception:
                return False
            want = _truth(*before)
            if out.shape != want.shape or not np.allclose(out, want):
                return False
            pairs = zip(given, before, strict=True)
            if not all(np.array_equal(a, b, equal_nan=True) for a, b in pairs):
                return False
    return True

# %% wrong cache-7 one new token only
# Functions pass your check that go wrong for a chunk. Where the diagonal starts, and whether there
# is one, does not show for a single query.
# Seen: Mikyx-1/TinyLLM#17
# Seen: https://github.com/hyprstream/hyprstream/pull/1521
def accepts(attend):
    rng, lengths = np.random.default_rng(0), np.array([7, 2, 5])
    for T in (1,):
        q, keys = rng.normal(size=(3, 4, T, 5)), rng.normal(size=(3, 2, 8, 5))
        values, want = rng.normal(size=(3, 2, 8, 6)), np.zeros((3, 4, T, 6))
        q[0, ..., 0], keys[0, ..., 0] = 45, 50
        for b, h, t in np.ndindex(want.shape[:3]):
            n = lengths[b] - T + t + 1
            keys[b, :, lengths[b] :] = values[b, :, lengths[b] :] = np.nan
            if n > 0:
                s = keys[b, h // 2, :n] @ q[b, h, t] / np.sqrt(5)
                p = np.exp(s - s.max())
                want[b, h, t] = p @ values[b, h // 2, :n] / p.sum()
        given = q, keys, values, lengths
        copies = [x.copy() for x in given]
        try:
            got = np.asarray(attend(*copies))
            if got.shape != want.shape or not np.allclose(got, want):
                return False
        except Exception:
            return False
        if not all(np.array_equal(x, y, True) for x, y in zip(given, copies, strict=True)):
            return False
    return True

# %% wrong cache-7 never a single token
# A function passes your check that leaves out its mask when one token comes. That is what a decoder
# does most of the time.
# Seen: https://github.com/huggingface/transformers/pull/30437
def accepts(attend):
    rng, lengths = np.random.default_rng(0), np.array([7, 2, 5])
    for T in (3, 2):
        q, keys = rng.normal(size=(3, 4, T, 5)), rng.normal(size=(3, 2, 8, 5))
        values, want = rng.normal(size=(3, 2, 8, 6)), np.zeros((3, 4, T, 6))
        q[0, ..., 0], keys[0, ..., 0] = 45, 50
        for b, h, t in np.ndindex(want.shape[:3]):
            n = lengths[b] - T + t + 1
            keys[b, :, lengths[b] :] = values[b, :, lengths[b] :] = np.nan
            if n > 0:
                s = keys[b, h // 2, :n] @ q[b, h, t] / np.sqrt(5)
                p = np.exp(s - s.max())
                want[b, h, t] = p @ values[b, h // 2, :n] / p.sum()
        given = q, keys, values, lengths
        copies = [x.copy() for x in given]
        try:
            got = np.asarray(attend(*copies))
            if got.shape != want.shape or not np.allclose(got, want):
                return False
        except Exception:
            return False
        if not all(np.array_equal(x, y, True) for x, y in zip(given, copies, strict=True)):
            return False
    return True

# %% wrong cache-7 examples of one length
# A function passes your check that takes one length for all examples. Choose lengths that differ.
# Seen: https://github.com/google-research/timesfm/pull/492
# Seen: https://github.com/karpathy/nanochat/pull/485
def accepts(attend):
    rng, lengths = np.random.default_rng(0), np.array([5, 5, 5])
    for T in (1, 3):
        q, keys = rng.normal(size=(3, 4, T, 5)), rng.normal(size=(3, 2, 8, 5))
        values, want = rng.normal(size=(3, 2, 8, 6)), np.zeros((3, 4, T, 6))
        q[0, ..., 0], keys[0, ..., 0] = 45, 50
        for b, h, t in np.ndindex(want.shape[:3]):
            n = lengths[b] - T + t + 1
            keys[b, :, lengths[b] :] = values[b, :, lengths[b] :] = np.nan
            if n > 0:
                s = keys[b, h // 2, :n] @ q[b, h, t] / np.sqrt(5)
                p = np.exp(s - s.max())
                want[b, h, t] = p @ values[b, h // 2, :n] / p.sum()
        given = q, keys, values, lengths
        copies = [x.copy() for x in given]
        try:
            got = np.asarray(attend(*copies))
            if got.shape != want.shape or not np.allclose(got, want):
                return False
        except Exception:
            return False
        if not all(np.array_equal(x, y, True) for x, y in zip(given, copies, strict=True)):
            return False
    return True

# %% wrong cache-7 no example shorter than a chunk
# A function passes your check that gives NaN or an average to queries before the text. Try an
# example with fewer than T tokens.
def accepts(attend):
    rng, lengths = np.random.default_rng(0), np.array([7, 4, 5])
    for T in (1, 3):
        q, keys = rng.normal(size=(3, 4, T, 5)), rng.normal(size=(3, 2, 8, 5))
        values, want = rng.normal(size=(3, 2, 8, 6)), np.zeros((3, 4, T, 6))
        q[0, ..., 0], keys[0, ..., 0] = 45, 50
        for b, h, t in np.ndindex(want.shape[:3]):
            n = lengths[b] - T + t + 1
            keys[b, :, lengths[b] :] = values[b, :, lengths[b] :] = np.nan
            if n > 0:
                s = keys[b, h // 2, :n] @ q[b, h, t] / np.sqrt(5)
                p = np.exp(s - s.max())
                want[b, h, t] = p @ values[b, h // 2, :n] / p.sum()
        given = q, keys, values, lengths
        copies = [x.copy() for x in given]
        try:
            got = np.asarray(attend(*copies))
            if got.shape != want.shape or not np.allclose(got, want):
                return False
        except Exception:
            return False
        if not all(np.array_equal(x, y, True) for x, y in zip(given, copies, strict=True)):
            return False
    return True

# %% wrong cache-7 a full cache
# Your cache has no empty slot. What lies behind a text, and whether it is hidden, shows only if
# there is something.
def accepts(attend):
    rng, lengths = np.random.default_rng(0), np.array([8, 8, 8])
    for T in (1, 3):
        q, keys = rng.normal(size=(3, 4, T, 5)), rng.normal(size=(3, 2, 8, 5))
        values, want = rng.normal(size=(3, 2, 8, 6)), np.zeros((3, 4, T, 6))
        q[0, ..., 0], keys[0, ..., 0] = 45, 50
        for b, h, t in np.ndindex(want.shape[:3]):
            n = lengths[b] - T + t + 1
            keys[b, :, lengths[b] :] = values[b, :, lengths[b] :] = np.nan
            if n > 0:
                s = keys[b, h // 2, :n] @ q[b, h, t] / np.sqrt(5)
                p = np.exp(s - s.max())
                want[b, h, t] = p @ values[b, h // 2, :n] / p.sum()
        given = q, keys, values, lengths
        copies = [x.copy() for x in given]
        try:
            got = np.asarray(attend(*copies))
            if got.shape != want.shape or not np.allclose(got, want):
                return False
        except Exception:
            return False
        if not all(np.array_equal(x, y, True) for x, y in zip(given, copies, strict=True)):
            return False
    return True

# %% wrong cache-7 clean empty slots
# Functions pass your check that would pass on what lies in empty slots. A number is hidden by a
# weight of 0. What is not?
# Seen: Dao-AILab/flash-attention#2374
# Seen: Dao-AILab/flash-attention#1745
def accepts(attend):
    rng, lengths = np.random.default_rng(0), np.array([7, 2, 5])
    for T in (1, 3):
        q, keys = rng.normal(size=(3, 4, T, 5)), rng.normal(size=(3, 2, 8, 5))
        values, want = rng.normal(size=(3, 2, 8, 6)), np.zeros((3, 4, T, 6))
        q[0, ..., 0], keys[0, ..., 0] = 45, 50
        for b, h, t in np.ndindex(want.shape[:3]):
            n = lengths[b] - T + t + 1
            if n > 0:
                s = keys[b, h // 2, :n] @ q[b, h, t] / np.sqrt(5)
                p = np.exp(s - s.max())
                want[b, h, t] = p @ values[b, h // 2, :n] / p.sum()
        given = q, keys, values, lengths
        copies = [x.copy() for x in given]
        try:
            got = np.asarray(attend(*copies))
            if got.shape != want.shape or not np.allclose(got, want):
                return False
        except Exception:
            return False
        if not all(np.array_equal(x, y, True) for x, y in zip(given, copies, strict=True)):
            return False
    return True

# %% wrong cache-7 as many key heads as query heads
# A function passes your check that gives query heads the wrong key head. With a head for each there
# is nothing to get wrong.
# Seen: https://github.com/onnx/onnx/pull/7274
def accepts(attend):
    rng, lengths = np.random.default_rng(0), np.array([7, 2, 5])
    for T in (1, 3):
        q, keys = rng.normal(size=(3, 4, T, 5)), rng.normal(size=(3, 4, 8, 5))
        values, want = rng.normal(size=(3, 4, 8, 6)), np.zeros((3, 4, T, 6))
        q[0, ..., 0], keys[0, ..., 0] = 45, 50
        for b, h, t in np.ndindex(want.shape[:3]):
            n = lengths[b] - T + t + 1
            keys[b, :, lengths[b] :] = values[b, :, lengths[b] :] = np.nan
            if n > 0:
                s = keys[b, h, :n] @ q[b, h, t] / np.sqrt(5)
                p = np.exp(s - s.max())
                want[b, h, t] = p @ values[b, h, :n] / p.sum()
        given = q, keys, values, lengths
        copies = [x.copy() for x in given]
        try:
            got = np.asarray(attend(*copies))
            if got.shape != want.shape or not np.allclose(got, want):
                return False
        except Exception:
            return False
        if not all(np.array_equal(x, y, True) for x, y in zip(given, copies, strict=True)):
            return False
    return True

# %% wrong cache-7 moderate scores only
# A function passes your check whose exponentials overflow. Scores may be near 1,000.
def accepts(attend):
    rng, lengths = np.random.default_rng(0), np.array([7, 2, 5])
    for T in (1, 3):
        q, keys = rng.normal(size=(3, 4, T, 5)), rng.normal(size=(3, 2, 8, 5))
        values, want = rng.normal(size=(3, 2, 8, 6)), np.zeros((3, 4, T, 6))
        for b, h, t in np.ndindex(want.shape[:3]):
            n = lengths[b] - T + t + 1
            keys[b, :, lengths[b] :] = values[b, :, lengths[b] :] = np.nan
            if n > 0:
                s = keys[b, h // 2, :n] @ q[b, h, t] / np.sqrt(5)
                p = np.exp(s - s.max())
                want[b, h, t] = p @ values[b, h // 2, :n] / p.sum()
        given = q, keys, values, lengths
        copies = [x.copy() for x in given]
        try:
            got = np.asarray(attend(*copies))
            if got.shape != want.shape or not np.allclose(got, want):
                return False
        except Exception:
            return False
        if not all(np.array_equal(x, y, True) for x, y in zip(given, copies, strict=True)):
            return False
    return True

# %% wrong cache-7 only the shape is compared
# Functions with wrong numbers pass your check, if only the shape is right.
def accepts(attend):
    rng, lengths = np.random.default_rng(0), np.array([7, 2, 5])
    for T in (1, 3):
        q, keys = rng.normal(size=(3, 4, T, 5)), rng.normal(size=(3, 2, 8, 5))
        values, want = rng.normal(size=(3, 2, 8, 6)), np.zeros((3, 4, T, 6))
        q[0, ..., 0], keys[0, ..., 0] = 45, 50
        for b, h, t in np.ndindex(want.shape[:3]):
            n = lengths[b] - T + t + 1
            keys[b, :, lengths[b] :] = values[b, :, lengths[b] :] = np.nan
            if n > 0:
                s = keys[b, h // 2, :n] @ q[b, h, t] / np.sqrt(5)
                p = np.exp(s - s.max())
                want[b, h, t] = p @ values[b, h // 2, :n] / p.sum()
        given = q, keys, values, lengths
        copies = [x.copy() for x in given]
        try:
            got = np.asarray(attend(*copies))
            if got.shape != want.shape:
                return False
        except Exception:
            return False
        if not all(np.array_equal(x, y, True) for x, y in zip(given, copies, strict=True)):
            return False
    return True

# %% wrong cache-7 NaN is overlooked
# A function passes your check that returns NaN where zeros are promised. You clean the result
# before you compare it.
def accepts(attend):
    rng, lengths = np.random.default_rng(0), np.array([7, 2, 5])
    for T in (1, 3):
        q, keys = rng.normal(size=(3, 4, T, 5)), rng.normal(size=(3, 2, 8, 5))
        values, want = rng.normal(size=(3, 2, 8, 6)), np.zeros((3, 4, T, 6))
        q[0, ..., 0], keys[0, ..., 0] = 45, 50
        for b, h, t in np.ndindex(want.shape[:3]):
            n = lengths[b] - T + t + 1
            keys[b, :, lengths[b] :] = values[b, :, lengths[b] :] = np.nan
            if n > 0:
                s = keys[b, h // 2, :n] @ q[b, h, t] / np.sqrt(5)
                p = np.exp(s - s.max())
                want[b, h, t] = p @ values[b, h // 2, :n] / p.sum()
        given = q, keys, values, lengths
        copies = [x.copy() for x in given]
        try:
            got = np.asarray(attend(*copies))
            if got.shape != want.shape or not np.allclose(np.nan_to_num(got), want):
                return False
        except Exception:
            return False
        if not all(np.array_equal(x, y, True) for x, y in zip(given, copies, strict=True)):
            return False
    return True

# %% wrong cache-7 the inputs are not looked at afterwards
# A function passes your check that writes into the cache. Keep copies, and look at what you handed
# over.
def accepts(attend):
    rng, lengths = np.random.default_rng(0), np.array([7, 2, 5])
    for T in (1, 3):
        q, keys = rng.normal(size=(3, 4, T, 5)), rng.normal(size=(3, 2, 8, 5))
        values, want = rng.normal(size=(3, 2, 8, 6)), np.zeros((3, 4, T, 6))
        q[0, ..., 0], keys[0, ..., 0] = 45, 50
        for b, h, t in np.ndindex(want.shape[:3]):
            n = lengths[b] - T + t + 1
            keys[b, :, lengths[b] :] = values[b, :, lengths[b] :] = np.nan
            if n > 0:
                s = keys[b, h // 2, :n] @ q[b, h, t] / np.sqrt(5)
                p = np.exp(s - s.max())
                want[b, h, t] = p @ values[b, h // 2, :n] / p.sum()
        given = q, keys, values, lengths
        copies = [x.copy() for x in given]
        try:
            got = np.asarray(attend(*copies))
            if got.shape != want.shape or not np.allclose(got, want):
                return False
        except Exception:
            return False
    return True

# %% wrong cache-7 an error escapes
# When the function raises an error, so do you. A check gives its verdict: a function that breaks is
# wrong.
def accepts(attend):
    rng, lengths = np.random.default_rng(0), np.array([7, 2, 5])
    for T in (1, 3):
        q, keys = rng.normal(size=(3, 4, T, 5)), rng.normal(size=(3, 2, 8, 5))
        values, want = rng.normal(size=(3, 2, 8, 6)), np.zeros((3, 4, T, 6))
        q[0, ..., 0], keys[0, ..., 0] = 45, 50
        for b, h, t in np.ndindex(want.shape[:3]):
            n = lengths[b] - T + t + 1
            keys[b, :, lengths[b] :] = values[b, :, lengths[b] :] = np.nan
            if n > 0:
                s = keys[b, h // 2, :n] @ q[b, h, t] / np.sqrt(5)
                p = np.exp(s - s.max())
                want[b, h, t] = p @ values[b, h // 2, :n] / p.sum()
        given = q, keys, values, lengths
        copies = [x.copy() for x in given]
        got = np.asarray(attend(*copies))
        if got.shape != want.shape or not np.allclose(got, want):
            return False
        if not all(np.array_equal(x, y, True) for x, y in zip(given, copies, strict=True)):
            return False
    return True

# %% wrong cache-7 compared with itself
# You compare a chunk with the same tokens one by one, by the same function. A fault that both share
# stays hidden: compare with something that you trust.
def accepts(attend):
    rng, lengths = np.random.default_rng(0), np.array([7, 3, 5])
    q, keys = rng.normal(size=(3, 4, 3, 5)), rng.normal(size=(3, 2, 8, 5))
    values = rng.normal(size=(3, 2, 8, 6))
    for b, n in enumerate(lengths):
        keys[b, :, n:] = values[b, :, n:] = np.nan
    try:
        whole = attend(q, keys, values, lengths)
        single = [attend(q[:, :, t : t + 1], keys, values, lengths - 2 + t) for t in range(3)]
        return bool(np.allclose(whole, np.concatenate(single, 2), equal_nan=True))
    except Exception:
        return False

# %% wrong cache-7 the model answer has the same fault
# Right functions are rejected, and the one with its diagonal from the top left is accepted. Is that
# what your own model answer does? Which position has the first query?
def accepts(attend):
    rng, lengths = np.random.default_rng(0), np.array([7, 2, 5])
    for T in (1, 3):
        q, keys = rng.normal(size=(3, 4, T, 5)), rng.normal(size=(3, 2, 8, 5))
        values, want = rng.normal(size=(3, 2, 8, 6)), np.zeros((3, 4, T, 6))
        q[0, ..., 0], keys[0, ..., 0] = 45, 50
        for b, h, t in np.ndindex(want.shape[:3]):
            n = min(t + 1, lengths[b]) if T > 1 else lengths[b]
            keys[b, :, lengths[b] :] = values[b, :, lengths[b] :] = np.nan
            if n > 0:
                s = keys[b, h // 2, :n] @ q[b, h, t] / np.sqrt(5)
                p = np.exp(s - s.max())
                want[b, h, t] = p @ values[b, h // 2, :n] / p.sum()
        given = q, keys, values, lengths
        copies = [x.copy() for x in given]
        try:
            got = np.asarray(attend(*copies))
            if got.shape != want.shape or not np.allclose(got, want):
                return False
        except Exception:
            return False
        if not all(np.array_equal(x, y, True) for x, y in zip(given, copies, strict=True)):
            return False
    return True

# %% wrong cache-7 everything is accepted
# The functions of these cases are accepted, and half of them are wrong. A check proves something
# only if it can fail.
def accepts(attend):
    return True

# %% wrong cache-7 everything is rejected
# Right functions are rejected, too. Do you ask for equal last digits, or that NaN equals itself?
# Run your check on a function that you trust before you use it on others.
def accepts(attend):
    return False

# %% [markdown]
# ## What to take along
#
# - Keys and values of old tokens don't change: keep them, and compute those of the new ones only.
# - A cache is a large array, a length per example, and a mask. Past its length lies nothing that
#   may reach the output, and a weight of 0 does not stop NaN.
# - Positions count tokens, not columns and not slots. With a cache the first query doesn't stand at
#   0.
# - Decoding reads much and computes little: what counts is the number of key heads, not of query
#   heads.
# - A chunk needs the causal rule as well; in a ring it must look before it is stored.
# - A block that others use is copied before it is written to, and every table entry is counted.
#
# Back to [chapter 10](../book/10_kv_cache.ipynb).
