# %% [markdown]
# # Exercises 11: INT8 and INT4 attention
#
# Seven tasks on [chapter 11, *INT8 and INT4 attention*](../book/11_quantization.ipynb). They climb
# from working out a step by hand to testing somebody else's quantiser: predict, fill in, mend,
# build, and write a check of your own.
#
# | task | what you do | points | minutes | level |
# |---|---|---|---|---|
# | `quant-1` | predict steps, errors, bits and sums | 3 | 11 | 1 of 4 |
# | `quant-2` | quantise with one scale per token or channel | 4 | 11 | 2 of 4 |
# | `quant-3` | pack two INT4 codes into a byte | 4 | 12 | 2 of 4 |
# | `quant-4` | mend a product of integers | 6 | 14 | 3 of 4 |
# | `quant-5` | smooth the keys, and say what the scores lost | 5 | 13 | 3 of 4 |
# | `quant-6` | build a quantised cache of keys and values | 7 | 17 | 4 of 4 |
# | `quant-7` | write the check | 4 | 12 | 3 of 4 |
# | all | | 33 | 90 | |
#
# **How checking works.** Write your answer in place of the line `raise NotImplementedError`, run
# the cell, then run the check cell below it. The check calls your function and tells you which
# cases agree, where the first difference is, and, if it knows your mistake, its name and a hint.
# It calls your function as you last ran it: after every edit, **run the answer cell again** before
# the check. Some further cases run only when an instructor grades.
#
# **The letters.** `T` queries, `S` keys, `B` examples, `H` query heads, `Hk` key heads, `D`
# numbers in a query or key, `E` numbers in a value. A *code* is the small integer that stands for
# a number, and the *scale* is the step between two neighbouring codes:
#
# - **symmetric**: x ≈ code · scale. The codes run from -127 to 127 in INT8 and from -7 to 7 in
#   INT4, so that 0 stays 0 and both sides are alike.
# - **asymmetric**: x ≈ code · scale + zero. The codes run from 0 to 255 in INT8 and from 0 to 15
#   in INT4; `zero` is the number that code 0 stands for.
#
# Numbers that share a scale form a *group*: all numbers of one token, all numbers of one channel,
# or something between. A *channel* is one of the `D` columns.
#
# All you need is NumPy; please write quantisation yourself instead of calling `attnlearn`.

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
# ## quant-1: Predict steps, errors, bits and sums
#
# *quant-1 · 3 points · 11 minutes · ●○○○ difficulty 1 of 4*
#
# Work these out with pencil and paper, then write down plain numbers.
#
# 1. `steps`: the scale of a group. In symmetric INT8 and in symmetric INT4, where the largest
#    magnitude is 6.35; and in asymmetric INT4, where the numbers run from -1 to 5. Three numbers.
# 2. `errors`: numbers lie anywhere between their two codes, and the step is 0.6. What are the
#    **largest error** and the **mean of the squared errors**? Then one number of the group grows
#    until the range is ten times as wide. By which **factor** does the mean of the squared errors
#    of the others grow?
# 3. `bits`: how many bits does one number take, its share of what the group needs included? INT8
#    with a scale of 2 bytes per token, D = 128; INT4 with a scale and a zero of 2 bytes each per
#    64 numbers; INT4 with a scale and a zero of 4 bytes each per 32 numbers.
# 4. `room`: two INT8 codes are multiplied and the products summed up. **How many products** fit
#    for sure, whatever the codes? Into int16, which ends at 32,767; into float32, which holds
#    every whole number up to 2²⁴ = 16,777,216; into int32, which ends at 2,147,483,647.
# 5. `same`: which of these leave the output of softmax attention as it is, in exact arithmetic?
#    Six times `True` or `False`: (a) the mean of all keys is subtracted from every key; (b) from
#    every key, the mean of its own D numbers; (c) the mean of all queries is subtracted from every
#    query; (d) the mean of all values is subtracted from every value, and added to the output. And
#    can the sum of q times the keys' *codes* be turned into q · k by one number that is multiplied
#    **after** the sum over D: (e) if the keys have one scale per token; (f) if they have one scale
#    per channel?
#
# **A miniature.** Symmetric INT4, numbers 1.4, -0.6 and 0.45: the step is 1.4 / 7 = 0.2 and the
# codes are 7, -3 and 2. The last number comes back as 0.4, with an error of 0.05.
#
# Half of the points are for having all five right together. Read first: *A scale is a step*, *What
# may be taken out of a sum*, *Two channels in sixty-four* and *The cache: stored is not
# multiplied* in [chapter 11](../book/11_quantization.ipynb).
#
# <details>
# <summary>Hint 1 for quant-1: count the steps, not the codes</summary>
#
# Between the smallest and the largest code there is one step less than there are codes. An error
# is spread evenly between minus and plus half a step. The mean square of a number that is spread
# evenly around 0 is the width of its interval squared, divided by twelve.
#
# </details>
#
# <details>
# <summary>Hint 2 for quant-1: what does one query see?</summary>
#
# A softmax forgets whatever is added to *all* scores of one query. Write the score with the
# changed key or query, multiply out, and ask of the extra term: does it depend on the key?
#
# </details>

# %% answer quant-1 points=3 minutes=11 difficulty=1 forbid=attnlearn
def steps():
    """The scale: INT8 symmetric, INT4 symmetric, INT4 asymmetric."""
    # BEGIN SOLUTION
    return [0.05, 6.35 / 7, 0.4]
    # END SOLUTION


def errors():
    """Largest error, mean squared error, and the factor."""
    # BEGIN SOLUTION
    return [0.3, 0.03, 100]
    # END SOLUTION


def bits():
    """Bits per number: INT8 per token, INT4 per 64, INT4 per 32."""
    # BEGIN SOLUTION
    return [8.125, 4.5, 6]
    # END SOLUTION


def room():
    """Products that fit into int16, float32, int32."""
    # BEGIN SOLUTION
    return [2, 1040, 133_144]
    # END SOLUTION


def same():
    """(a) to (d): is the output as it was? (e), (f): can it be done?"""
    # BEGIN SOLUTION
    return [True, False, False, True, True, False]
    # END SOLUTION

# %% check quant-1
case = check("quant-1", rtol=0, atol=0)


def _three_digits(numbers):
    return np.array([float(f"{x:.3g}") for x in np.ravel(numbers)])


def _exactly(numbers):
    return np.array([float(f"{x:.9g}") for x in np.ravel(numbers)])


def _flags(answer):
    return np.array([bool(x) for x in answer])


case("steps", lambda: _three_digits(steps()))
case("errors", lambda: _three_digits(errors()))
case("bits", lambda: _exactly(bits()))
case("room", lambda: _exactly(room()))
case("same", lambda: _flags(same()))


@case("all five together", weight=5)
def _():
    numbers = [_three_digits(steps()), _three_digits(errors()), _exactly(bits())]
    return np.concatenate([*numbers, _exactly(room()), _flags(same())])

# %% right quant-1 written out
def steps():
    return 6.35 / 127, 6.35 / 7, (5 - -1) / 15


def errors():
    return np.array([0.6 / 2, 0.6**2 / 12, 10**2])


def bits():
    return [8 + 16 / 128, 4 + (16 + 16) / 64, 4 + (32 + 32) / 32]


def room():
    return [most // 127**2 for most in (2**15 - 1, 2**24, 2**31 - 1)]


def same():
    return 1, 0, 0, 1, 1, 0

# %% right quant-1 rounded to three digits
def steps():
    return [0.05, 0.907, 0.4]


def errors():
    return 0.3, 0.03, 100.0


def bits():
    return np.array([1040, 36 * 16, 24 * 32]) / [128, 128, 128]


def room():
    return np.floor(np.array([32767, 16777216, 2147483647]) / 16129)


def same():
    return np.array([1, 0, 0, 1, 1, 0], bool)

# %% wrong quant-1 one step too many
# You divided by the number of codes, or by one more than the largest code. From the smallest to
# the largest code there is one step less than there are codes.
# Seen: https://github.com/mlc-ai/mlc-llm/pull/1321
# Seen: https://github.com/onnx/tensorflow-onnx/pull/189
def steps():
    return [6.35 / 128, 6.35 / 8, 6 / 16]


def errors():
    return [0.3, 0.03, 100]


def bits():
    return [8.125, 4.5, 6]


def room():
    return [2, 1040, 133_144]


def same():
    return [True, False, False, True, True, False]

# %% wrong quant-1 the codes of one side for the whole range
# Your symmetric steps are twice as wide as needed. The largest code stands for the largest
# magnitude; the other side has codes of its own.
def steps():
    return [12.7 / 127, 12.7 / 7, 0.4]


def errors():
    return [0.3, 0.03, 100]


def bits():
    return [8.125, 4.5, 6]


def room():
    return [2, 1040, 133_144]


def same():
    return [True, False, False, True, True, False]

# %% wrong quant-1 an asymmetric group treated as symmetric
# Your step for -1 to 5 leaves codes unused. Codes that begin at the smallest number share out the
# range from there to the largest.
def steps():
    return [0.05, 6.35 / 7, 5 / 7]


def errors():
    return [0.3, 0.03, 100]


def bits():
    return [8.125, 4.5, 6]


def room():
    return [2, 1040, 133_144]


def same():
    return [True, False, False, True, True, False]

# %% wrong quant-1 a range that has to hold 0
# You stretched the range from -1 to 5 to both sides alike. An asymmetric code may begin anywhere:
# only the two ends of the range count.
# Seen: pytorch/pytorch#173075
def steps():
    return [0.05, 6.35 / 7, 10 / 15]


def errors():
    return [0.3, 0.03, 100]


def bits():
    return [8.125, 4.5, 6]


def room():
    return [2, 1040, 133_144]


def same():
    return [True, False, False, True, True, False]

# %% wrong quant-1 a whole step of error
# Your largest error is a whole step. That is what cutting digits off costs; rounding goes to the
# nearer of the two codes.
# Seen: https://github.com/sgl-project/sglang-jax/pull/1598
def steps():
    return [0.05, 6.35 / 7, 0.4]


def errors():
    return [0.6, 0.03, 100]


def bits():
    return [8.125, 4.5, 6]


def room():
    return [2, 1040, 133_144]


def same():
    return [True, False, False, True, True, False]

# %% wrong quant-1 the largest error squared
# You squared the largest error. Most errors are smaller: average the square over the whole
# interval from minus to plus half a step.
def steps():
    return [0.05, 6.35 / 7, 0.4]


def errors():
    return [0.3, 0.09, 100]


def bits():
    return [8.125, 4.5, 6]


def room():
    return [2, 1040, 133_144]


def same():
    return [True, False, False, True, True, False]

# %% wrong quant-1 the root of the mean square
# Your second number is a root-mean-square error. The mean of the squares is asked for, so leave
# out the root.
def steps():
    return [0.05, 6.35 / 7, 0.4]


def errors():
    return [0.3, 0.6 / 12**0.5, 100]


def bits():
    return [8.125, 4.5, 6]


def room():
    return [2, 1040, 133_144]


def same():
    return [True, False, False, True, True, False]

# %% wrong quant-1 a third of the step squared
# You divided the square of the step by three. That holds for errors between 0 and a whole step;
# here they run from minus to plus half a step.
def steps():
    return [0.05, 6.35 / 7, 0.4]


def errors():
    return [0.3, 0.12, 100]


def bits():
    return [8.125, 4.5, 6]


def room():
    return [2, 1040, 133_144]


def same():
    return [True, False, False, True, True, False]

# %% wrong quant-1 the factor is not squared
# The step grows tenfold, and so does each error. What happens to their squares?
def steps():
    return [0.05, 6.35 / 7, 0.4]


def errors():
    return [0.3, 0.03, 10]


def bits():
    return [8.125, 4.5, 6]


def room():
    return [2, 1040, 133_144]


def same():
    return [True, False, False, True, True, False]

# %% wrong quant-1 an outlier hurts itself alone
# You let the others keep their error. They share a scale with the outlier: what does its step do
# to them?
def steps():
    return [0.05, 6.35 / 7, 0.4]


def errors():
    return [0.3, 0.03, 1]


def bits():
    return [8.125, 4.5, 6]


def room():
    return [2, 1040, 133_144]


def same():
    return [True, False, False, True, True, False]

# %% wrong quant-1 scales cost nothing
# You counted the codes alone. Every group also keeps a scale, and in the asymmetric case a zero;
# its numbers share that cost.
# Seen: rajveer43/VeloxQuant-MLX#162
def steps():
    return [0.05, 6.35 / 7, 0.4]


def errors():
    return [0.3, 0.03, 100]


def bits():
    return [8, 4, 4]


def room():
    return [2, 1040, 133_144]


def same():
    return [True, False, False, True, True, False]

# %% wrong quant-1 the zero is forgotten
# You counted a scale for each group of INT4 but no zero. Without it nobody knows what code 0
# stands for.
def steps():
    return [0.05, 6.35 / 7, 0.4]


def errors():
    return [0.3, 0.03, 100]


def bits():
    return [8.125, 4.25, 5]


def room():
    return [2, 1040, 133_144]


def same():
    return [True, False, False, True, True, False]

# %% wrong quant-1 bytes in place of bits
# You divided the bytes of scale and zero by the size of the group. Bits are asked for: a byte has
# eight.
def steps():
    return [0.05, 6.35 / 7, 0.4]


def errors():
    return [0.3, 0.03, 100]


def bits():
    return [8 + 2 / 128, 4 + 4 / 64, 4 + 8 / 32]


def room():
    return [2, 1040, 133_144]


def same():
    return [True, False, False, True, True, False]

# %% wrong quant-1 products of 128 times 128
# You let a code reach 128 in size. Symmetric INT8 codes end at 127, which leaves room for a few
# more products.
def steps():
    return [0.05, 6.35 / 7, 0.4]


def errors():
    return [0.3, 0.03, 100]


def bits():
    return [8.125, 4.5, 6]


def room():
    return [1, 1024, 131_071]


def same():
    return [True, False, False, True, True, False]

# %% wrong quant-1 codes counted, not products
# You divided by 127, the size of one code. What is summed are products of two codes.
def steps():
    return [0.05, 6.35 / 7, 0.4]


def errors():
    return [0.3, 0.03, 100]


def bits():
    return [8.125, 4.5, 6]


def room():
    return [258, 132_104, 16_909_320]


def same():
    return [True, False, False, True, True, False]

# %% wrong quant-1 float32 as roomy as int32
# You gave float32 as much room as int32. It has 32 bits, too, but spends 8 of them on the
# exponent: above 2²⁴ it skips whole numbers.
# Seen: https://github.com/Comfy-Org/comfy-kitchen/pull/133
# Seen: ROCm/triton#958
def steps():
    return [0.05, 6.35 / 7, 0.4]


def errors():
    return [0.3, 0.03, 100]


def bits():
    return [8.125, 4.5, 6]


def room():
    return [2, 133_144, 133_144]


def same():
    return [True, False, False, True, True, False]

# %% wrong quant-1 smoothing changes the output
# You expect another output when the mean key is subtracted. What does it take away from the scores
# of one query: the same for every key, or not?
# Seen: thu-ml/SageAttention#269
def steps():
    return [0.05, 6.35 / 7, 0.4]


def errors():
    return [0.3, 0.03, 100]


def bits():
    return [8.125, 4.5, 6]


def room():
    return [2, 1040, 133_144]


def same():
    return [False, False, False, True, True, False]

# %% wrong quant-1 the mean of each key for itself
# A key's own mean differs from key to key. Work out how much each score of a query loses: is that
# the same for all keys?
def steps():
    return [0.05, 6.35 / 7, 0.4]


def errors():
    return [0.3, 0.03, 100]


def bits():
    return [8.125, 4.5, 6]


def room():
    return [2, 1040, 133_144]


def same():
    return [True, True, False, True, True, False]

# %% wrong quant-1 queries smoothed like keys
# Subtracting the mean query takes (mean query) · k from every score. That depends on the key, and
# a softmax notices.
def steps():
    return [0.05, 6.35 / 7, 0.4]


def errors():
    return [0.3, 0.03, 100]


def bits():
    return [8.125, 4.5, 6]


def room():
    return [2, 1040, 133_144]


def same():
    return [True, False, True, True, True, False]

# %% wrong quant-1 the mean value does not come back
# The weights of a row sum to 1. What is the weighted mean of values that were all moved by the
# same vector?
def steps():
    return [0.05, 6.35 / 7, 0.4]


def errors():
    return [0.3, 0.03, 100]


def bits():
    return [8.125, 4.5, 6]


def room():
    return [2, 1040, 133_144]


def same():
    return [True, False, False, False, True, False]

# %% wrong quant-1 a scale per channel pulled out
# You pulled one number per channel out of the sum over channels. Only what all terms of a sum
# share can be pulled out of it.
# Seen: thu-ml/SageAttention#45
def steps():
    return [0.05, 6.35 / 7, 0.4]


def errors():
    return [0.3, 0.03, 100]


def bits():
    return [8.125, 4.5, 6]


def room():
    return [2, 1040, 133_144]


def same():
    return [True, False, False, True, True, True]

# %% wrong quant-1 no scale can be pulled out
# One number per token is shared by all terms of the sum over D. What may be done with such a
# factor?
def steps():
    return [0.05, 6.35 / 7, 0.4]


def errors():
    return [0.3, 0.03, 100]


def bits():
    return [8.125, 4.5, 6]


def room():
    return [2, 1040, 133_144]


def same():
    return [True, False, False, True, False, False]

# %% [markdown]
# ## quant-2: One scale per token, or per channel
#
# *quant-2 · 4 points · 11 minutes · ●●○○ difficulty 2 of 4*
#
# Write `quantize(x, axis, bits)`: symmetric codes for an array of any shape, with one scale for
# each slice along `axis`. For `[tokens, channels]`, axis -1 gives one scale per token and axis -2
# one scale per channel. It returns `codes` and `scale`.
#
# - `codes` has the shape of `x` and the type **int8**, for all `bits` from 2 to 8. The codes run
#   from -127 to 127 for 8 bits and from -7 to 7 for 4: as far on one side as on the other.
# - `scale` is a float array with as many axes as `x`; `axis` has the length 1. It is as small as
#   can be: the largest magnitude of a slice gets the largest code.
# - `codes * scale` is as near to `x` as a code can be: no error is above half a step. (Exactly
#   between two codes either will do; no case asks for it.)
# - A slice of zeros has the scale 1.
# - `x` may be of any real type: float16, or int8 with a -128 in it. Work in a type that holds it
#   all. `x` stays as it is.
#
# Half of the points are for a case that has all of it at once.
#
# **A miniature.** x = `[[2.54, -1.0], [0, 0]]`, axis -1, 8 bits: the scales are 0.02 and 1, the
# codes `[[127, -50], [0, 0]]`.
#
# Read first: *A scale is a step* and *A channel without a range* in [chapter
# 11](../book/11_quantization.ipynb).
#
# <details>
# <summary>Hint 1 for quant-2: which axis disappears?</summary>
#
# A scale per token is shared by all channels of the token: the largest magnitude is taken *over
# the channels*. For the division the array of scales must line up with `x` again; NumPy can leave
# an axis of length 1 where it took the maximum.
#
# </details>
#
# <details>
# <summary>Hint 2 for quant-2: three small traps</summary>
#
# Turning a float into an integer cuts digits off. The magnitude of -128 has no place in int8. And
# what is 0 divided by 0?
#
# </details>

# %% answer quant-2 points=4 minutes=11 difficulty=2 forbid=attnlearn
def quantize(x, axis, bits=8):
    """x of any shape -> int8 codes, float scale (length 1 along axis)."""
    # BEGIN SOLUTION
    x = x.astype(float)
    top = 2 ** (bits - 1) - 1
    scale = np.abs(x).max(axis, keepdims=True) / top
    scale = np.where(scale == 0, 1, scale)
    return np.rint(x / scale).astype(np.int8), scale
    # END SOLUTION

# %% check quant-2
case = check("quant-2", atol=1e-15)


def _numbers(rng, shape, axis, bits=8, sign=1):
    """Random numbers, none of them near the middle between two codes."""
    top = 2 ** (bits - 1) - 1
    x = rng.randint(1 - top, top, shape) + rng.uniform(-0.3, 0.3, shape)
    first = np.moveaxis(x, axis, 0)
    first[0] = np.where(np.arange(first[0].size) % 2, -top, sign * top).reshape(first[0].shape)
    steps = 0.02 + rng.permutation(first[0].size).reshape(first[0].shape) % 7 / 50
    return x * np.expand_dims(steps, axis)


def _quantized(x, axis, bits=8):
    codes, scale = quantize(x, axis, bits)
    return {"codes": np.asarray(codes), "type": str(codes.dtype), "scale": np.asarray(scale)}


def _zeros(rng):
    x = _numbers(rng, (3, 4), -1)
    x[1] = 0
    return x


def _tiny(rng):
    x = rng.randint(-150, 150, (3, 5)) * 2.0**-24  # whole multiples of the least float16
    x[:, 2] = 318 * 2.0**-24
    return x.astype(np.float16)


def _bytes(rng):
    x = rng.randint(-60, 60, (2, 5)).astype(np.int8)
    x[:, 1] = -128
    return x


case("one scale per token", lambda rng: _quantized(_numbers(rng, (3, 5), -1), -1))
case("one scale per channel", lambda rng: _quantized(_numbers(rng, (4, 4), -2), -2))
case("three axes", lambda rng: _quantized(_numbers(rng, (2, 3, 4), -2), -2))
case("INT4", lambda rng: _quantized(_numbers(rng, (3, 6), -1, 4), -1, 4))
case("negative numbers", lambda rng: _quantized(-np.abs(_numbers(rng, (3, 5), -1)), -1))
case("a token of zeros", lambda rng: _quantized(_zeros(rng), -1))
case("very small float16", lambda rng: _quantized(_tiny(rng), -1))
case("int8 with a -128", lambda rng: _quantized(_bytes(rng), -1))


@case("all of it at once", weight=10)
def _(rng):
    x, heads = _zeros(rng), _numbers(rng, (2, 4, 4), -2, 4, sign=-1)
    before = x.copy()
    return {
        "zeros": _quantized(x, -1),
        "untouched": bool(np.array_equal(x, before)),
        "INT4 per channel": _quantized(heads, -2, 4),
        "tiny": _quantized(_tiny(rng), -1),
        "bytes": _quantized(_bytes(rng), -1),
    }

# %% hidden quant-2
case = check("quant-2", atol=1e-15)


@case("6 bits, the first of three axes")
def _(rng):
    return _quantized(_numbers(rng, (5, 2, 3), 0, 6), 0, 6)


@case("2 bits, an outlier")
def _(rng):
    x = np.array([[40.0, 0.3, -0.2, 19.0], [1.0, -0.9, 0.4, 0.0]]) * rng.uniform(1, 2)
    return _quantized(x, -1, 2)

# %% right quant-2 slice by slice
def quantize(x, axis, bits=8):
    top = 2 ** (bits - 1) - 1
    slices = np.moveaxis(np.asarray(x, np.float64), axis, -1)
    codes, scale = np.empty(slices.shape, np.int8), np.empty((*slices.shape[:-1], 1))
    for at in np.ndindex(slices.shape[:-1]):
        largest = max(abs(float(number)) for number in slices[at])
        scale[at] = largest / top if largest else 1
        codes[at] = [round(number / scale[at][0]) for number in slices[at]]
    return np.moveaxis(codes, -1, axis), np.moveaxis(scale, -1, axis)

# %% right quant-2 in float32, clipped, half away from zero
def quantize(x, axis, bits=8):
    top = 2 ** (bits - 1) - 1
    x = np.array(x, np.float32)
    high, low = x.max(axis=axis, keepdims=True), x.min(axis=axis, keepdims=True)
    scale = np.maximum(high, -low) / np.float32(top)
    scale[scale == 0] = 1
    codes = np.sign(x) * np.floor(np.abs(x) / scale + np.float32(0.5))
    return np.clip(codes, -top, top).astype("int8"), scale

# %% wrong quant-2 cut off in place of rounded
# Turning a float into an integer cuts its digits off. Errors are then up to a whole step, and all
# of them towards 0: round first.
# Seen: https://github.com/sgl-project/sglang-jax/pull/1598
# Seen: https://github.com/astramind-ai/BitMat/pull/13
def quantize(x, axis, bits=8):
    x = x.astype(float)
    top = 2 ** (bits - 1) - 1
    scale = np.abs(x).max(axis, keepdims=True) / top
    scale = np.where(scale == 0, 1, scale)
    return (x / scale).astype(np.int8), scale

# %% wrong quant-2 always rounded down
# You take the code below. The nearer one is asked for, and half of the time it is the one above.
def quantize(x, axis, bits=8):
    x = x.astype(float)
    top = 2 ** (bits - 1) - 1
    scale = np.abs(x).max(axis, keepdims=True) / top
    scale = np.where(scale == 0, 1, scale)
    return np.floor(x / scale).astype(np.int8), scale

# %% wrong quant-2 one code too many
# Your largest magnitude would need the code 128, or 8: on the positive side there is no such code.
# It wraps round to the other sign, or steals a bit of the neighbour.
# Seen: https://github.com/uxlfoundation/oneDNN/pull/5879
# Seen: https://github.com/microsoft/onnxruntime/pull/10170
def quantize(x, axis, bits=8):
    x = x.astype(float)
    top = 2 ** (bits - 1)
    scale = np.abs(x).max(axis, keepdims=True) / top
    scale = np.where(scale == 0, 1, scale)
    return np.rint(x / scale).astype(int).astype(np.int8), scale

# %% wrong quant-2 255 steps for both sides
# You share 255 steps, or 15, out over both sides. One side then ends in the middle between two
# codes: as many steps must lie on the left of 0 as on the right.
# Seen: https://github.com/pytorch/ao/pull/644
def quantize(x, axis, bits=8):
    x = x.astype(float)
    top = (2**bits - 1) / 2
    scale = np.abs(x).max(axis, keepdims=True) / top
    scale = np.where(scale == 0, 1, scale)
    return np.clip(np.rint(x / scale), -(top + 0.5), top - 0.5).astype(np.int8), scale

# %% wrong quant-2 all codes on one side
# You divided by the largest *unsigned* code. With a sign, half of the codes are below 0.
def quantize(x, axis, bits=8):
    x = x.astype(float)
    top = 2**bits - 1
    scale = np.abs(x).max(axis, keepdims=True) / top
    scale = np.where(scale == 0, 1, scale)
    return np.rint(x / scale).astype(int).astype(np.int8), scale

# %% wrong quant-2 always 127
# You ignore `bits`. Four bits have no code 127.
def quantize(x, axis, bits=8):
    x = x.astype(float)
    top = 127
    scale = np.abs(x).max(axis, keepdims=True) / top
    scale = np.where(scale == 0, 1, scale)
    return np.rint(x / scale).astype(np.int8), scale

# %% wrong quant-2 the largest number, not the largest magnitude
# Your scale comes from the largest number. Where the largest magnitude is negative, its code runs
# out of range.
# Seen: siliconflow/onediff#893
# Seen: https://github.com/kit-cel/lecture-examples/pull/15
def quantize(x, axis, bits=8):
    x = x.astype(float)
    top = 2 ** (bits - 1) - 1
    scale = x.max(axis, keepdims=True) / top
    scale = np.where(scale == 0, 1, scale)
    return np.rint(x / scale).astype(int).astype(np.int8), scale

# %% wrong quant-2 one scale for everything
# You have a single scale for the whole array. Small tokens then share the coarse step of the
# largest one: each slice along `axis` has its own.
def quantize(x, axis, bits=8):
    x = x.astype(float)
    top = 2 ** (bits - 1) - 1
    scale = np.abs(x).max(keepdims=True) / top
    scale = np.where(scale == 0, 1, scale)
    return np.rint(x / scale).astype(np.int8), scale

# %% wrong quant-2 the other axis
# Your scales are per channel where per token is asked for, and the other way round. `axis` is the
# axis that the maximum is taken over.
def quantize(x, axis, bits=8):
    x = x.astype(float)
    top = 2 ** (bits - 1) - 1
    scale = np.abs(x).max(-3 - axis if axis else 1, keepdims=True) / top
    scale = np.where(scale == 0, 1, scale)
    return np.rint(x / scale).astype(np.int8), scale

# %% wrong quant-2 the axis is gone
# The axis that you took the maximum over is gone, so the scales no longer line up with `x`. Where
# the shapes happen to fit, they multiply the wrong slices.
def quantize(x, axis, bits=8):
    x = x.astype(float)
    top = 2 ** (bits - 1) - 1
    scale = np.abs(x).max(axis) / top
    scale = np.where(scale == 0, 1, scale)
    return np.rint(x / scale).astype(np.int8), scale

# %% wrong quant-2 0 divided by 0
# A slice of zeros has the scale 0, and 0 divided by 0 is NaN. Give it a scale that divides.
# Seen: ROCm/aiter#4289
# Seen: https://github.com/OpenNMT/CTranslate2/pull/450
def quantize(x, axis, bits=8):
    x = x.astype(float)
    top = 2 ** (bits - 1) - 1
    scale = np.abs(x).max(axis, keepdims=True) / top
    return np.rint(x / scale).astype(np.int8), scale

# %% wrong quant-2 a floor under every scale
# You let no scale fall below a small number. Slices of small numbers then lose their digits, or
# vanish: only a scale of exactly 0 needs help.
# Seen: https://github.com/pytorch/ao/pull/4534
def quantize(x, axis, bits=8):
    x = x.astype(float)
    top = 2 ** (bits - 1) - 1
    scale = np.abs(x).max(axis, keepdims=True) / top
    scale = np.maximum(scale, 1e-5)
    return np.rint(x / scale).astype(np.int8), scale

# %% wrong quant-2 the magnitude of -128 in int8
# The magnitude of -128 is 128, and int8 ends at 127: it stays -128. Leave int8 before you take
# magnitudes.
# Seen: numpy/numpy#21289
# Seen: pytorch/pytorch#49224
def quantize(x, axis, bits=8):
    raw, x = x, x.astype(float)
    top = 2 ** (bits - 1) - 1
    scale = np.abs(raw).astype(float).max(axis, keepdims=True) / top
    scale = np.where(scale == 0, 1, scale)
    return np.rint(x / scale).astype(np.int8), scale

# %% wrong quant-2 the scale in half precision
# You keep the scale in float16. The step of small numbers is smaller than float16 can tell apart,
# so the codes come out wrong.
# Seen: https://github.com/Comfy-Org/comfy-kitchen/pull/60
def quantize(x, axis, bits=8):
    raw, x = x, x.astype(float)
    top = 2 ** (bits - 1) - 1
    scale = np.abs(x).max(axis, keepdims=True) / top
    if raw.dtype == np.float16:
        scale = scale.astype(np.float16)
    scale = np.where(scale == 0, 1, scale)
    return np.rint(x / scale).astype(np.int8), scale

# %% wrong quant-2 codes that are floats
# Your codes are whole numbers, but of a float type. They take eight times the bytes of int8, and
# nothing was saved.
def quantize(x, axis, bits=8):
    x = x.astype(float)
    top = 2 ** (bits - 1) - 1
    scale = np.abs(x).max(axis, keepdims=True) / top
    scale = np.where(scale == 0, 1, scale)
    return np.rint(x / scale), scale

# %% wrong quant-2 codes without a sign
# You moved the codes so that none is negative. Symmetric codes have a sign, and 0 stays 0.
def quantize(x, axis, bits=8):
    x = x.astype(float)
    top = 2 ** (bits - 1) - 1
    scale = np.abs(x).max(axis, keepdims=True) / top
    scale = np.where(scale == 0, 1, scale)
    return (np.rint(x / scale) + top).astype(np.uint8), scale

# %% wrong quant-2 the scale upside down
# You return codes per unit. The scale is the step: what one code is worth.
def quantize(x, axis, bits=8):
    x = x.astype(float)
    top = 2 ** (bits - 1) - 1
    scale = np.abs(x).max(axis, keepdims=True) / top
    scale = np.where(scale == 0, 1, scale)
    return np.rint(x / scale).astype(np.int8), 1 / scale

# %% wrong quant-2 the caller's array is overwritten
# You divide in place, so the caller's numbers are gone. Changing the type makes a copy only where
# the type is another one.
def quantize(x, axis, bits=8):
    x = np.asarray(x, float)
    top = 2 ** (bits - 1) - 1
    scale = np.abs(x).max(axis, keepdims=True) / top
    scale = np.where(scale == 0, 1, scale)
    x /= scale
    return np.rint(x).astype(np.int8), scale

# %% [markdown]
# ## quant-3: Two codes in one byte
#
# *quant-3 · 4 points · 12 minutes · ●●○○ difficulty 2 of 4*
#
# No computer counts in half bytes, so INT4 saves bytes only when it is packed. Write the way there
# and back:
#
# - `pack(codes)`: `codes` is int8 `[..., d]` with numbers from -8 to 7. The result is **uint8**
#   `[..., (d + 1) // 2]`: column 0 in the **low** half of byte 0, column 1 in its high half,
#   column 2 in the low half of byte 1, and so on. If `d` is odd, the last high half is 0.
# - `unpack(packed, d)`: the codes again, **int8** `[..., d]`. What lies in an unused last half may
#   be anything, and reaches nobody.
# - A half byte holds a negative number as **two's complement**: -1 is the bits `1111`, -8 is
#   `1000`, 7 is `0111`. So a number below 0 is stored as itself plus 16.
# - Rows are packed by themselves: no byte belongs to two rows. The inputs stay as they are.
#
# The bytes are compared, not only the way there and back. Half of the points are for a case that
# has all of it at once.
#
# **A miniature.** The codes `[3, -1, -8]` become the bytes `[0xF3, 0x08]`, in decimal 243 and 8:
# 3 + 16 · 15, and 8 + 16 · 0.
#
# Read first: *The cache: stored is not multiplied* in [chapter 11](../book/11_quantization.ipynb).
# How two codes share a byte is new here.
#
# <details>
# <summary>Hint 1 for quant-3: only four bits may travel</summary>
#
# In int8, -1 has *eight* bits that are 1. Keep the four lowest bits of a code before you put it
# beside another one: `&` with which number does that?
#
# </details>
#
# <details>
# <summary>Hint 2 for quant-3: where is the sign?</summary>
#
# After unpacking, a half byte is a number from 0 to 15. Which of these numbers stand for something
# negative, and what is it? Both halves need the same treatment.
#
# </details>

# %% answer quant-3 points=4 minutes=12 difficulty=2 forbid=attnlearn
def pack(codes):
    """codes int8 [..., d] of -8..7 -> uint8 [..., (d + 1) // 2]."""
    # BEGIN SOLUTION
    halves = codes.astype(np.uint8) & 15
    packed = halves[..., ::2].copy()
    packed[..., : codes.shape[-1] // 2] |= halves[..., 1::2] << 4
    return packed
    # END SOLUTION


def unpack(packed, d):
    """packed uint8 [..., (d + 1) // 2] -> int8 [..., d] of -8..7."""
    # BEGIN SOLUTION
    halves = np.stack([packed & 15, packed >> 4], -1)
    codes = halves.reshape(*packed.shape[:-1], -1)[..., :d].astype(np.int8)
    return np.where(codes > 7, codes - 16, codes)
    # END SOLUTION

# %% check quant-3
case = check("quant-3", rtol=0, atol=0)


def _packed(codes):
    packed = pack(np.array(codes, np.int8))
    return {"bytes": np.asarray(packed), "type": str(packed.dtype)}


def _unpacked(packed, d):
    codes = unpack(np.array(packed, np.uint8), d)
    return {"codes": np.asarray(codes), "type": str(codes.dtype)}


def _codes(rng, *shape):
    codes = rng.randint(-8, 8, shape)
    codes[..., :4] = [-8, 7, -1, 3]
    return codes


def _bytes(rng, *shape):
    packed = rng.randint(0, 256, shape)
    packed[..., :2] = [0x8F, 0x71]
    packed[..., -1] = 0xF5
    return packed


case("pack the miniature", lambda: _packed([3, -1, -8]))
case("pack numbers from 0 to 7", lambda: _packed([[1, 2, 3, 4], [7, 0, 5, 6]]))
case("pack negative numbers", lambda: _packed([[-1, 2, -3, -4], [5, -6, -7, -8]]))
case("pack two rows of 5", lambda rng: _packed(_codes(rng, 2, 5)))
case("unpack numbers from 0 to 7", lambda: _unpacked([[0x21, 0x43], [0x70, 0x65]], 4))
case("unpack negative numbers", lambda: _unpacked([[0x2F, 0xCD], [0xA5, 0x89]], 4))
case("unpack two rows of 5", lambda rng: _unpacked(_bytes(rng, 2, 3), 5))


@case("all of it at once", weight=10)
def _(rng):
    codes = _codes(rng, 2, 3, 7).astype(np.int8)
    packed = _bytes(rng, 2, 3, 4).astype(np.uint8)
    kept = codes.copy(), packed.copy()
    got = {
        "packed": _packed(codes),
        "unpacked": _unpacked(packed, 7),
        "every byte": _unpacked(np.arange(256).reshape(4, 64), 128),
        "there and back": unpack(pack(codes), 7),
    }
    pack(codes), unpack(packed, 7)
    pairs = zip(kept, (codes, packed), strict=True)
    return {**got, "untouched": [bool(np.array_equal(x, y)) for x, y in pairs]}

# %% hidden quant-3
case = check("quant-3", rtol=0, atol=0)


@case("drawn widths")
def _(rng):
    d = rng.randint(5, 9)
    return {"packed": _packed(_codes(rng, 3, d)), "unpacked": _unpacked(_bytes(rng, 3, 4), 7)}


case("one column", lambda: {"packed": _packed([[-3], [5]]), "unpacked": _unpacked([[0x4D]], 1)})

# %% right quant-3 with multiplication and division
def pack(codes):
    d = codes.shape[-1]
    whole = np.zeros((*codes.shape[:-1], d + d % 2), int)
    whole[..., :d] = codes % 16
    return (whole[..., ::2] + 16 * whole[..., 1::2]).astype("uint8")


def unpack(packed, d):
    codes = np.empty((*packed.shape[:-1], 2 * packed.shape[-1]), np.int8)
    codes[..., ::2], codes[..., 1::2] = packed % 16, packed // 16
    return ((codes + 8) % 16 - 8)[..., :d]

# %% right quant-3 signs by shifting in int8
def pack(codes):
    if codes.shape[-1] % 2:
        codes = np.concatenate([codes, np.zeros_like(codes[..., :1])], -1)
    return ((codes[..., 0::2] & 0xF) | (codes[..., 1::2] << 4)).view(np.uint8)


def unpack(packed, d):
    low, high = (packed << 4).view(np.int8) >> 4, packed.view(np.int8) >> 4
    return np.stack([low, high], axis=-1).reshape(packed.shape[:-1] + (-1,))[..., :d]

# %% right quant-3 code by code
def pack(codes):
    *rows, d = codes.shape
    packed = np.zeros((*rows, -(-d // 2)), np.uint8)
    for *at, column in np.ndindex(codes.shape):
        packed[*at, column // 2] |= (int(codes[*at, column]) & 15) << (4 * (column % 2))
    return packed


def unpack(packed, d):
    codes = np.zeros((*packed.shape[:-1], d), np.int8)
    for *at, column in np.ndindex(codes.shape):
        half = (int(packed[*at, column // 2]) >> (4 * (column % 2))) & 15
        codes[*at, column] = (half ^ 8) - 8
    return codes

# %% wrong quant-3 halves exchanged
# Your column 0 lies in the high half. There and back is right, but anybody else reads every pair
# in the wrong order: column 0 belongs into the low half.
# Seen: pytorch/ao#2939
# Seen: https://github.com/openvinotoolkit/openvino/pull/25827
def pack(codes):
    halves = codes.astype(np.uint8) & 15
    packed = halves[..., ::2] << 4
    packed[..., : codes.shape[-1] // 2] |= halves[..., 1::2]
    return packed


def unpack(packed, d):
    halves = np.stack([packed >> 4, packed & 15], -1)
    codes = halves.reshape(*packed.shape[:-1], -1)[..., :d].astype(np.int8)
    return np.where(codes > 7, codes - 16, codes)

# %% wrong quant-3 the first half of the row in the low halves
# You put the first half of a row into the low halves and the second half into the high ones. Some
# formats do that; here neighbouring columns share a byte.
# Seen: https://github.com/kekzl/imp/pull/567
# Seen: https://github.com/1bit-MONSTER/1bit-MONSTER/pull/572
# Seen: https://github.com/chrishayuk/larql/pull/178
def pack(codes):
    halves = codes.astype(np.uint8) & 15
    n = (codes.shape[-1] + 1) // 2
    packed = halves[..., :n].copy()
    packed[..., : codes.shape[-1] - n] |= halves[..., n:] << 4
    return packed


def unpack(packed, d):
    codes = np.concatenate([packed & 15, packed >> 4], -1)[..., :d].astype(np.int8)
    return np.where(codes > 7, codes - 16, codes)

# %% wrong quant-3 unpacked all low halves first
# You unpack all low halves and append all high ones. Columns 0 and 1 came from the same byte, so
# they stand beside each other.
def pack(codes):
    halves = codes.astype(np.uint8) & 15
    packed = halves[..., ::2].copy()
    packed[..., : codes.shape[-1] // 2] |= halves[..., 1::2] << 4
    return packed


def unpack(packed, d):
    halves = np.concatenate([packed & 15, packed >> 4], -1)
    codes = halves.reshape(*packed.shape[:-1], -1)[..., :d].astype(np.int8)
    return np.where(codes > 7, codes - 16, codes)

# %% wrong quant-3 the sign spills into the other half
# A negative number in the low half brings more than four bits along, and they overwrite the high
# half. Keep four bits of each code before you join them.
def pack(codes):
    halves = codes.astype(np.uint8)
    packed = halves[..., ::2].copy()
    packed[..., : codes.shape[-1] // 2] |= halves[..., 1::2] << 4
    return packed


def unpack(packed, d):
    halves = np.stack([packed & 15, packed >> 4], -1)
    codes = halves.reshape(*packed.shape[:-1], -1)[..., :d].astype(np.int8)
    return np.where(codes > 7, codes - 16, codes)

# %% wrong quant-3 joined by adding signed numbers
# You add 16 times the high number to the low one. A negative low number then borrows one from the
# high half: bring both into 0 to 15 first.
def pack(codes):
    halves = codes
    packed = halves[..., ::2].astype(int)
    packed[..., : codes.shape[-1] // 2] += halves[..., 1::2].astype(int) * 16
    return packed.astype(np.uint8)


def unpack(packed, d):
    halves = np.stack([packed & 15, packed >> 4], -1)
    codes = halves.reshape(*packed.shape[:-1], -1)[..., :d].astype(np.int8)
    return np.where(codes > 7, codes - 16, codes)

# %% wrong quant-3 negative numbers come out positive
# What you unpack runs from 0 to 15. The upper half of these numbers stands for negative ones.
# Seen: tile-ai/tilelang#2482
def pack(codes):
    halves = codes.astype(np.uint8) & 15
    packed = halves[..., ::2].copy()
    packed[..., : codes.shape[-1] // 2] |= halves[..., 1::2] << 4
    return packed


def unpack(packed, d):
    halves = np.stack([packed & 15, packed >> 4], -1)
    codes = halves.reshape(*packed.shape[:-1], -1)[..., :d].astype(np.int8)
    return codes

# %% wrong quant-3 the sign of the high half only
# Shifting a signed byte to the right gives the high half its sign. The low half has a sign bit,
# too, and it is not at the top of the byte.
def pack(codes):
    halves = codes.astype(np.uint8) & 15
    packed = halves[..., ::2].copy()
    packed[..., : codes.shape[-1] // 2] |= halves[..., 1::2] << 4
    return packed


def unpack(packed, d):
    halves = np.stack([(packed & 15).astype(np.int8), packed.view(np.int8) >> 4], -1)
    codes = halves.reshape(*packed.shape[:-1], -1)[..., :d].astype(np.int8)
    return codes

# %% wrong quant-3 8 in place of -8
# The bits 1000 come out as 8. Four bits with a sign end at 7: look at your comparison.
def pack(codes):
    halves = codes.astype(np.uint8) & 15
    packed = halves[..., ::2].copy()
    packed[..., : codes.shape[-1] // 2] |= halves[..., 1::2] << 4
    return packed


def unpack(packed, d):
    halves = np.stack([packed & 15, packed >> 4], -1)
    codes = halves.reshape(*packed.shape[:-1], -1)[..., :d].astype(np.int8)
    return np.where(codes > 8, codes - 16, codes)

# %% wrong quant-3 shifted by 8
# You store the code plus 8. That is another way to hold a sign; two's complement leaves 0 to 7 as
# they are.
# Seen: https://github.com/pytorch/torchchat/pull/188
def pack(codes):
    halves = (codes + 8).astype(np.uint8)
    packed = halves[..., ::2].copy()
    packed[..., : codes.shape[-1] // 2] |= halves[..., 1::2] << 4
    return packed


def unpack(packed, d):
    halves = np.stack([packed & 15, packed >> 4], -1)
    codes = halves.reshape(*packed.shape[:-1], -1)[..., :d].astype(np.int8)
    return codes - 8

# %% wrong quant-3 the upper end is negative
# You subtract 15 from what is above 7. There is no second zero: 1111 is -1.
def pack(codes):
    halves = codes.astype(np.uint8) & 15
    packed = halves[..., ::2].copy()
    packed[..., : codes.shape[-1] // 2] |= halves[..., 1::2] << 4
    return packed


def unpack(packed, d):
    halves = np.stack([packed & 15, packed >> 4], -1)
    codes = halves.reshape(*packed.shape[:-1], -1)[..., :d].astype(np.int8)
    return np.where(codes > 7, codes - 15, codes)

# %% wrong quant-3 sign and magnitude
# You keep the magnitude and one bit for the sign. In two's complement -1 is 1111, and there is a
# -8, which your bits can't hold.
def pack(codes):
    halves = (np.abs(codes) & 7 | 8 * (codes < 0)).astype(np.uint8)
    packed = halves[..., ::2].copy()
    packed[..., : codes.shape[-1] // 2] |= halves[..., 1::2] << 4
    return packed


def unpack(packed, d):
    halves = np.stack([packed & 15, packed >> 4], -1)
    codes = halves.reshape(*packed.shape[:-1], -1)[..., :d].astype(np.int8)
    return np.where(codes > 7, 8 - codes, codes)

# %% wrong quant-3 the odd column is lost
# Your rows lose their last column where the width is odd. How many bytes does it take to hold d
# halves?
def pack(codes):
    halves = codes.astype(np.uint8) & 15
    packed = halves[..., : codes.shape[-1] // 2 * 2 : 2].copy()
    packed[..., : codes.shape[-1] // 2] |= halves[..., 1::2] << 4
    return packed


def unpack(packed, d):
    halves = np.stack([packed & 15, packed >> 4], -1)
    codes = halves.reshape(*packed.shape[:-1], -1)[..., :d].astype(np.int8)
    return np.where(codes > 7, codes - 16, codes)

# %% wrong quant-3 even widths only
# You join two pieces of unequal length. Where the width is odd, the last high half is 0.
# Seen: https://github.com/vllm-project/compressed-tensors/pull/518
def pack(codes):
    halves = codes.astype(np.uint8) & 15
    packed = halves[..., ::2] | halves[..., 1::2] << 4
    return packed


def unpack(packed, d):
    halves = np.stack([packed & 15, packed >> 4], -1)
    codes = halves.reshape(*packed.shape[:-1], -1)[..., :d].astype(np.int8)
    return np.where(codes > 7, codes - 16, codes)

# %% wrong quant-3 rows share a byte
# You pack the whole array as one long row. Where the width is odd, a byte then belongs to two
# rows.
# Seen: vllm-project/compressed-tensors#401
def pack(codes):
    shape, codes = codes.shape, codes.reshape(-1)
    halves = codes.astype(np.uint8) & 15
    packed = halves[..., ::2].copy()
    packed[..., : codes.shape[-1] // 2] |= halves[..., 1::2] << 4
    return packed.reshape(*shape[:-1], -1) if packed.size % shape[0] == 0 else packed


def unpack(packed, d):
    halves = np.stack([packed & 15, packed >> 4], -1)
    codes = halves.reshape(*packed.shape[:-1], -1)[..., :d].astype(np.int8)
    return np.where(codes > 7, codes - 16, codes)

# %% wrong quant-3 packed along the tokens
# You join two rows. Two *columns* of one row share a byte, so that a token can be read alone.
def pack(codes):
    halves = np.atleast_2d(codes).swapaxes(-1, -2).astype(np.uint8) & 15
    packed = halves[..., ::2].copy()
    packed[..., : halves.shape[-1] // 2] |= halves[..., 1::2] << 4
    return packed.swapaxes(-1, -2)


def unpack(packed, d):
    halves = np.stack([packed & 15, packed >> 4], -1)
    codes = halves.reshape(*packed.shape[:-1], -1)[..., :d].astype(np.int8)
    return np.where(codes > 7, codes - 16, codes)

# %% wrong quant-3 the unused half is returned
# You return the unused last half, too. `d` says how many codes there are.
def pack(codes):
    halves = codes.astype(np.uint8) & 15
    packed = halves[..., ::2].copy()
    packed[..., : codes.shape[-1] // 2] |= halves[..., 1::2] << 4
    return packed


def unpack(packed, d):
    halves = np.stack([packed & 15, packed >> 4], -1)
    codes = halves.reshape(*packed.shape[:-1], -1).astype(np.int8)
    return np.where(codes > 7, codes - 16, codes)

# %% wrong quant-3 signed bytes
# Your bytes are of the type int8, so a file or another program sees negative numbers. A packed
# byte has no sign of its own.
# Seen: onnx/onnx#6160
def pack(codes):
    halves = codes.astype(np.uint8) & 15
    packed = halves[..., ::2].copy()
    packed[..., : codes.shape[-1] // 2] |= halves[..., 1::2] << 4
    return packed.view(np.int8)


def unpack(packed, d):
    halves = np.stack([packed & 15, packed >> 4], -1)
    codes = halves.reshape(*packed.shape[:-1], -1)[..., :d].astype(np.int8)
    return np.where(codes > 7, codes - 16, codes)

# %% wrong quant-3 codes in a wide type
# Your unpacked codes take eight bytes each. They fit into int8.
def pack(codes):
    halves = codes.astype(np.uint8) & 15
    packed = halves[..., ::2].copy()
    packed[..., : codes.shape[-1] // 2] |= halves[..., 1::2] << 4
    return packed


def unpack(packed, d):
    halves = np.stack([packed & 15, packed >> 4], -1)
    codes = halves.reshape(*packed.shape[:-1], -1)[..., :d].astype(int)
    return np.where(codes > 7, codes - 16, codes)

# %% wrong quant-3 the caller's codes are changed
# You write into the array that you were given. The caller's codes are not negative any more.
def pack(codes):
    codes[codes < 0] += 16
    halves = codes.astype(np.uint8)
    packed = halves[..., ::2].copy()
    packed[..., : codes.shape[-1] // 2] |= halves[..., 1::2] << 4
    return packed


def unpack(packed, d):
    halves = np.stack([packed & 15, packed >> 4], -1)
    codes = halves.reshape(*packed.shape[:-1], -1)[..., :d].astype(np.int8)
    return np.where(codes > 7, codes - 16, codes)

# %% [markdown]
# ## quant-4: Mend a product of integers
#
# *quant-4 · 6 points · 14 minutes · ●●●○ difficulty 3 of 4*
#
# `scores_copied` below looks like many on the net, and **six things are wrong with it**. It should
# quantise queries and keys to INT8, multiply the *integers*, and turn the sums back into scores.
# Copy it into the answer cell as `scores` and mend it until it keeps its promise:
#
# - `q` is `[..., T, D]` and `k` is `[..., S, D]`, with any number of axes before; any float type,
#   float16 too. A scale is computed in a type that holds it well.
# - Symmetric INT8, one scale per query and one per key: codes from -127 to 127, no error above
#   half a step. (A row of zeros is handled rightly already.)
# - It returns `products` `[..., T, S]`, the exact sums of products of codes, of an integer type,
#   and `scores` `[..., T, S]`, floats: what the products stand for, divided by √D.
# - D may be anything up to 512: no sum may overflow.
#
# Half of the points are for a case that has all of it at once.
#
# **A miniature** of one fault. The codes 100 and 100 multiply to 10,000. In int8 that is 16: the
# sum went 39 times round.
#
# Read first: *What may be taken out of a sum* and *Integers that wrap around* in [chapter
# 11](../book/11_quantization.ipynb).
#
# <details>
# <summary>Hint 1 for quant-4: how to find the faults</summary>
#
# Begin with one query and one key of three numbers, and print the codes. Is the largest magnitude
# 127, with the right sign? Is every code the nearest one? Then look at the products, then at the
# shapes of the scales. One fault shows in float16 only.
#
# </details>
#
# <details>
# <summary>Hint 2 for quant-4: rows and columns</summary>
#
# In `[..., T, S]`, query t owns row t and key s owns column s. The scales of the keys are `[...,
# S, 1]`: which axis must the S be on? If T = S, NumPy multiplies whatever you give it.
#
# </details>

# %%
def scores_copied(q, k):
    """Wrong: find out where, then mend it in the answer cell below."""

    def quantize(x):
        scale = x.max(-1, keepdims=True) / 128
        scale = np.where(scale == 0, 1, scale)
        return (x / scale).astype(np.int8), scale

    (q8, q_scale), (k8, k_scale) = quantize(q), quantize(k)
    products = q8 @ k8.swapaxes(-1, -2)
    return products, products * q_scale * k_scale / np.sqrt(q.shape[-1])

# %% answer quant-4 points=6 minutes=14 difficulty=3 forbid=attnlearn
def scores(q, k):
    """q [..., T, D], k [..., S, D] -> int products and float scores [..., T, S]."""
    # BEGIN SOLUTION
    def quantize(x):
        x = x.astype(float)
        scale = np.abs(x).max(-1, keepdims=True) / 127
        scale = np.where(scale == 0, 1, scale)
        return np.rint(x / scale).astype(np.int8), scale

    (q8, q_scale), (k8, k_scale) = quantize(q), quantize(k)
    products = q8.astype(int) @ k8.astype(int).swapaxes(-1, -2)
    scales = q_scale * k_scale.swapaxes(-1, -2)
    return products, products * scales / np.sqrt(q.shape[-1])
    # END SOLUTION

# %% check quant-4
case = check("quant-4")


def _rows(rng, *shape):
    """Random rows, no number near the middle between two codes; each with a step of its own."""
    x = rng.randint(-50, 51, shape) + rng.uniform(-0.3, 0.3, shape)
    x[..., 0] = np.where(np.arange(x[..., 0].size) % 2, -127, 127).reshape(x[..., 0].shape)
    steps = np.arange(1, 1 + x[..., 0].size).reshape(*shape[:-1], 1) / 50
    return x * steps


def _alike(rng, D):
    """Every key is nearly every query, so that the sums of products are large."""
    base = rng.randint(90, 126, D) * rng.choice([-1, 1], D)
    rows = base + rng.uniform(-0.3, 0.3, (5, D))
    rows[:, 0] = -127
    return rows[:2] / 30, rows[2:] / 40


def _scores(q, k):
    products, scored = scores(q, k)
    return {"products": np.asarray(products), "scores": np.asarray(scored)}


def _half(rng, *shape):
    return (_rows(rng, *shape) / 1e4).astype(np.float16)


case("one query, one key", lambda: _scores(np.array([[4.0, 2.1, 1]]), np.array([[1.0, 3, 2]])))
case("3 queries, 5 keys", lambda rng: _scores(_rows(rng, 3, 4), _rows(rng, 5, 4)))
case("as many queries as keys", lambda rng: _scores(_rows(rng, 4, 3), _rows(rng, 4, 3)))
case("two heads", lambda rng: _scores(_rows(rng, 2, 2, 4), _rows(rng, 2, 3, 4)))
case("D = 512, large sums", lambda rng: _scores(*_alike(rng, 512)))
case("float16", lambda rng: _scores(_half(rng, 2, 6), _half(rng, 3, 6)))


@case("all of it at once", weight=9)
def _(rng):
    q, k = _rows(rng, 3, 2, 4), _rows(rng, 3, 2, 4)
    k[1, 1] = 0
    kept = q.copy(), k.copy()
    got = {"three heads": _scores(q, k), "large sums": _scores(*_alike(rng, 512))}
    half = _scores(_half(rng, 3, 6), _half(rng, 3, 6))
    same = [bool(np.array_equal(kept[0], q)), bool(np.array_equal(kept[1], k))]
    return {**got, "float16": half, "untouched": same}

# %% hidden quant-4
case = check("quant-4")


@case("one query, drawn keys, D = 200")
def _(rng):
    q, k = _alike(rng, 200)
    return _scores(q[:1], np.concatenate([k, _rows(rng, rng.randint(2, 5), 200)]))

# %% right quant-4 float32 products of integers
def scores(q, k):
    def quantize(x):
        largest = np.abs(x.astype(np.float64)).max(axis=-1)[..., None]
        step = np.where(largest > 0, largest, 127) / 127
        return np.round(x / step).astype(np.float32), step

    q8, q_step = quantize(q)
    k8, k_step = quantize(k)
    products = np.einsum("...td,...sd->...ts", q8, k8)  # exact: 512 * 127**2 < 2**24
    steps = q_step * k_step.swapaxes(-1, -2)
    return products.astype(np.int32), products * steps * q.shape[-1] ** -0.5

# %% right quant-4 dequantised by hand
def scores(q, k):
    def codes(x):
        x = np.float64(x)
        scale = np.maximum(x.max(-1), -x.min(-1)) / 127
        scale[scale == 0] = 1
        return np.floor(x / scale[..., None] + 0.5).astype(np.int64), scale

    q8, a = codes(q)
    k8, b = codes(k)
    products = (q8[..., :, None, :] * k8[..., None, :, :]).sum(-1)
    exact = (q8 * a[..., None]) @ np.swapaxes(k8 * b[..., None], -1, -2)
    return products, exact / np.sqrt(q.shape[-1])

# %% wrong quant-4 the scale in half precision, in wide codes
# Your scale is float16 like the rows. Its steps are coarse there, so the largest magnitude may get
# the code 128.
def scores(q, k):
    """q [..., T, D], k [..., S, D] -> int products and float scores [..., T, S]."""

    def quantize(x):
        x = x + 0
        scale = np.abs(x).max(-1, keepdims=True) / 127
        scale = np.where(scale == 0, 1, scale)
        return np.rint(x / scale).astype(np.int64), scale

    (q8, q_scale), (k8, k_scale) = quantize(q), quantize(k)
    products = q8 @ k8.swapaxes(-1, -2)
    s = products * q_scale * k_scale.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    return products, s

# %% wrong quant-4 divided by 128, in wide codes
# The largest magnitude gets the code 128 from you. It has no place in INT8: count the steps on one
# side of 0.
def scores(q, k):
    """q [..., T, D], k [..., S, D] -> int products and float scores [..., T, S]."""

    def quantize(x):
        x = x.astype(np.float64)
        scale = np.abs(x).max(-1, keepdims=True) / 128
        scale = np.where(scale == 0, 1, scale)
        return np.rint(x / scale).astype(np.int64), scale

    (q8, q_scale), (k8, k_scale) = quantize(q), quantize(k)
    products = q8 @ k8.swapaxes(-1, -2)
    s = products * q_scale * k_scale.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    return products, s

# %% wrong quant-4 the largest number, in wide codes
# Your scale comes from the largest number, not from the largest magnitude. In a wide type nothing
# wraps round, and your codes leave the range from -127 to 127.
def scores(q, k):
    """q [..., T, D], k [..., S, D] -> int products and float scores [..., T, S]."""

    def quantize(x):
        x = x.astype(np.float64)
        scale = x.max(-1, keepdims=True) / 127
        scale = np.where(scale == 0, 1, scale)
        return np.rint(x / scale).astype(np.int64), scale

    (q8, q_scale), (k8, k_scale) = quantize(q), quantize(k)
    products = q8 @ k8.swapaxes(-1, -2)
    s = products * q_scale * k_scale.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    return products, s

# %% wrong quant-4 the largest number, not the largest magnitude
# Your scale comes from the largest number. Where the largest magnitude is negative, codes run out
# of range.
# Seen: siliconflow/onediff#893
def scores(q, k):
    def quantize(x):
        x = x.astype(float)
        scale = x.max(-1, keepdims=True) / 127
        scale = np.where(scale == 0, 1, scale)
        return np.rint(x / scale).astype(int).astype(np.int8), scale

    (q8, q_scale), (k8, k_scale) = quantize(q), quantize(k)
    products = q8.astype(int) @ k8.astype(int).swapaxes(-1, -2)
    scales = q_scale * k_scale.swapaxes(-1, -2)
    return products, products * scales / np.sqrt(q.shape[-1])

# %% wrong quant-4 a code of 128
# The largest magnitude gets the code 128, which int8 doesn't have: it wraps round to -128.
# Seen: https://github.com/uxlfoundation/oneDNN/pull/5879
def scores(q, k):
    def quantize(x):
        x = x.astype(float)
        scale = np.abs(x).max(-1, keepdims=True) / 128
        scale = np.where(scale == 0, 1, scale)
        return np.rint(x / scale).astype(int).astype(np.int8), scale

    (q8, q_scale), (k8, k_scale) = quantize(q), quantize(k)
    products = q8.astype(int) @ k8.astype(int).swapaxes(-1, -2)
    scales = q_scale * k_scale.swapaxes(-1, -2)
    return products, products * scales / np.sqrt(q.shape[-1])

# %% wrong quant-4 divided by 128 and clipped
# You clip the code 128 to 127. The largest number of every row then comes back too small, and a
# step that fits costs nothing.
# Seen: https://github.com/mlc-ai/mlc-llm/pull/1321
def scores(q, k):
    def quantize(x):
        x = x.astype(float)
        scale = np.abs(x).max(-1, keepdims=True) / 128
        scale = np.where(scale == 0, 1, scale)
        return np.clip(np.rint(x / scale), -127, 127).astype(np.int8), scale

    (q8, q_scale), (k8, k_scale) = quantize(q), quantize(k)
    products = q8.astype(int) @ k8.astype(int).swapaxes(-1, -2)
    scales = q_scale * k_scale.swapaxes(-1, -2)
    return products, products * scales / np.sqrt(q.shape[-1])

# %% wrong quant-4 cut off in place of rounded
# Your codes are cut off, not rounded: every one of them is too near to 0.
# Seen: https://github.com/sgl-project/sglang-jax/pull/1598
def scores(q, k):
    def quantize(x):
        x = x.astype(float)
        scale = np.abs(x).max(-1, keepdims=True) / 127
        scale = np.where(scale == 0, 1, scale)
        return (x / scale).astype(np.int8), scale

    (q8, q_scale), (k8, k_scale) = quantize(q), quantize(k)
    products = q8.astype(int) @ k8.astype(int).swapaxes(-1, -2)
    scales = q_scale * k_scale.swapaxes(-1, -2)
    return products, products * scales / np.sqrt(q.shape[-1])

# %% wrong quant-4 the sums in int8
# Your products of int8 are int8 again, and so are their sums. They need a type with room for all D
# products, and before they are multiplied: afterwards is too late.
# Seen: triton-lang/triton#2296
# Seen: iree-org/iree#8491
# Seen: https://github.com/ggml-org/llama.cpp/pull/986
def scores(q, k):
    def quantize(x):
        x = x.astype(float)
        scale = np.abs(x).max(-1, keepdims=True) / 127
        scale = np.where(scale == 0, 1, scale)
        return np.rint(x / scale).astype(np.int8), scale

    (q8, q_scale), (k8, k_scale) = quantize(q), quantize(k)
    products = q8 @ k8.swapaxes(-1, -2)
    scales = q_scale * k_scale.swapaxes(-1, -2)
    return products, products * scales / np.sqrt(q.shape[-1])

# %% wrong quant-4 the sums in int16
# Your sums are in int16, which ends at 32,767. One product of two codes may be 16,129: how many of
# them fit?
# Seen: microsoft/onnxruntime#31573
# Seen: microsoft/BitNet#629
def scores(q, k):
    def quantize(x):
        x = x.astype(float)
        scale = np.abs(x).max(-1, keepdims=True) / 127
        scale = np.where(scale == 0, 1, scale)
        return np.rint(x / scale).astype(np.int8), scale

    (q8, q_scale), (k8, k_scale) = quantize(q), quantize(k)
    products = q8.astype(np.int16) @ k8.astype(np.int16).swapaxes(-1, -2)
    scales = q_scale * k_scale.swapaxes(-1, -2)
    return products, products * scales / np.sqrt(q.shape[-1])

# %% wrong quant-4 products that are floats
# Your products are of a float type. Their sums may be exact, but whole numbers are promised: turn
# them back.
def scores(q, k):
    def quantize(x):
        x = x.astype(float)
        scale = np.abs(x).max(-1, keepdims=True) / 127
        scale = np.where(scale == 0, 1, scale)
        return np.rint(x / scale).astype(np.int8), scale

    (q8, q_scale), (k8, k_scale) = quantize(q), quantize(k)
    products = q8.astype(float) @ k8.astype(float).swapaxes(-1, -2)
    scales = q_scale * k_scale.swapaxes(-1, -2)
    return products, products * scales / np.sqrt(q.shape[-1])

# %% wrong quant-4 codes without a sign
# Your codes lost their sign: a negative number has become a large positive one.
def scores(q, k):
    def quantize(x):
        x = x.astype(float)
        scale = np.abs(x).max(-1, keepdims=True) / 127
        scale = np.where(scale == 0, 1, scale)
        return np.rint(x / scale).astype(int).astype(np.uint8), scale

    (q8, q_scale), (k8, k_scale) = quantize(q), quantize(k)
    products = q8.astype(int) @ k8.astype(int).swapaxes(-1, -2)
    scales = q_scale * k_scale.swapaxes(-1, -2)
    return products, products * scales / np.sqrt(q.shape[-1])

# %% wrong quant-4 the scales of the keys on the rows
# The scales of the keys multiply the rows. Key s owns column s: turn its scales before you
# multiply.
# Seen: https://github.com/Comfy-Org/comfy-kitchen/pull/37
# Seen: https://github.com/pytorch/ao/pull/2253
def scores(q, k):
    def quantize(x):
        x = x.astype(float)
        scale = np.abs(x).max(-1, keepdims=True) / 127
        scale = np.where(scale == 0, 1, scale)
        return np.rint(x / scale).astype(np.int8), scale

    (q8, q_scale), (k8, k_scale) = quantize(q), quantize(k)
    products = q8.astype(int) @ k8.astype(int).swapaxes(-1, -2)
    return products, products * q_scale * k_scale / np.sqrt(q.shape[-1])

# %% wrong quant-4 right for a single head
# Your scales of the keys line up for one head. With more axes in front, dropping the last axis
# moves the others under the wrong ones.
def scores(q, k):
    def quantize(x):
        x = x.astype(float)
        scale = np.abs(x).max(-1, keepdims=True) / 127
        scale = np.where(scale == 0, 1, scale)
        return np.rint(x / scale).astype(np.int8), scale

    (q8, q_scale), (k8, k_scale) = quantize(q), quantize(k)
    products = q8.astype(int) @ k8.astype(int).swapaxes(-1, -2)
    scales = q_scale * k_scale[..., 0]
    return products, products * scales / np.sqrt(q.shape[-1])

# %% wrong quant-4 both scales turned
# Both kinds of scales are on the wrong axis. Query t owns row t, and that is how its scales come.
def scores(q, k):
    def quantize(x):
        x = x.astype(float)
        scale = np.abs(x).max(-1, keepdims=True) / 127
        scale = np.where(scale == 0, 1, scale)
        return np.rint(x / scale).astype(np.int8), scale

    (q8, q_scale), (k8, k_scale) = quantize(q), quantize(k)
    products = q8.astype(int) @ k8.astype(int).swapaxes(-1, -2)
    scales = q_scale.swapaxes(-1, -2) * k_scale
    return products, products * scales / np.sqrt(q.shape[-1])

# %% wrong quant-4 the scales of the keys are lost
# You multiply with the scales of the queries alone. A product of two codes stands for both steps.
def scores(q, k):
    def quantize(x):
        x = x.astype(float)
        scale = np.abs(x).max(-1, keepdims=True) / 127
        scale = np.where(scale == 0, 1, scale)
        return np.rint(x / scale).astype(np.int8), scale

    (q8, q_scale), (k8, _) = quantize(q), quantize(k)
    products = q8.astype(int) @ k8.astype(int).swapaxes(-1, -2)
    scales = q_scale
    return products, products * scales / np.sqrt(q.shape[-1])

# %% wrong quant-4 divided by the scales
# You divide by the scales. A code is how many steps: what gives the number back?
def scores(q, k):
    def quantize(x):
        x = x.astype(float)
        scale = np.abs(x).max(-1, keepdims=True) / 127
        scale = np.where(scale == 0, 1, scale)
        return np.rint(x / scale).astype(np.int8), scale

    (q8, q_scale), (k8, k_scale) = quantize(q), quantize(k)
    products = q8.astype(int) @ k8.astype(int).swapaxes(-1, -2)
    scales = q_scale * k_scale.swapaxes(-1, -2)
    return products, products / scales / np.sqrt(q.shape[-1])

# %% wrong quant-4 one scale for all rows
# You take one scale for a whole array. Each query and each key has its own; the small ones need a
# small step.
def scores(q, k):
    def quantize(x):
        x = x.astype(float)
        scale = np.abs(x).max(keepdims=True) / 127
        scale = np.where(scale == 0, 1, scale)
        return np.rint(x / scale).astype(np.int8), scale

    (q8, q_scale), (k8, k_scale) = quantize(q), quantize(k)
    products = q8.astype(int) @ k8.astype(int).swapaxes(-1, -2)
    scales = q_scale * k_scale
    return products, products * scales / np.sqrt(q.shape[-1])

# %% wrong quant-4 the scale in half precision
# In float16 your scale has three digits. The codes and what they are multiplied with later must
# come from a better one.
# Seen: https://github.com/Comfy-Org/comfy-kitchen/pull/60
def scores(q, k):
    def quantize(x):
        scale = np.abs(x).max(-1, keepdims=True) / 127
        scale = np.where(scale == 0, 1, scale).astype(x.dtype)
        return np.rint(x / scale).astype(np.int8), scale

    (q8, q_scale), (k8, k_scale) = quantize(q), quantize(k)
    products = q8.astype(int) @ k8.astype(int).swapaxes(-1, -2)
    scales = q_scale * k_scale.swapaxes(-1, -2)
    return products, products * scales / np.sqrt(q.shape[-1])

# %% wrong quant-4 not divided by the root of D
# The scores should be divided by √D, as the copy did.
def scores(q, k):
    def quantize(x):
        x = x.astype(float)
        scale = np.abs(x).max(-1, keepdims=True) / 127
        scale = np.where(scale == 0, 1, scale)
        return np.rint(x / scale).astype(np.int8), scale

    (q8, q_scale), (k8, k_scale) = quantize(q), quantize(k)
    products = q8.astype(int) @ k8.astype(int).swapaxes(-1, -2)
    scales = q_scale * k_scale.swapaxes(-1, -2)
    return products, products * scales

# %% wrong quant-4 the caller's rows are overwritten
# You divide in place, so the caller's queries and keys are gone.
def scores(q, k):
    def quantize(x):
        x = np.asarray(x, float)
        scale = np.abs(x).max(-1, keepdims=True) / 127
        scale = np.where(scale == 0, 1, scale)
        x /= scale
        return np.rint(x).astype(np.int8), scale

    (q8, q_scale), (k8, k_scale) = quantize(q), quantize(k)
    products = q8.astype(int) @ k8.astype(int).swapaxes(-1, -2)
    scales = q_scale * k_scale.swapaxes(-1, -2)
    return products, products * scales / np.sqrt(q.shape[-1])

# %% wrong quant-4 as it was copied
# Nothing is mended yet. Take one query and one key, and print the codes: which code has the
# largest magnitude?
def scores(q, k):
    def quantize(x):
        scale = x.max(-1, keepdims=True) / 128
        scale = np.where(scale == 0, 1, scale)
        return (x / scale).astype(np.int8), scale

    (q8, q_scale), (k8, k_scale) = quantize(q), quantize(k)
    products = q8 @ k8.swapaxes(-1, -2)
    return products, products * q_scale * k_scale / np.sqrt(q.shape[-1])

# %% [markdown]
# ## quant-5: Smooth the keys, and say what the scores lost
#
# *quant-5 · 5 points · 13 minutes · ●●●○ difficulty 3 of 4*
#
# Keys often have a few channels with a large value in *every* token. Their mean over the tokens
# carries nothing that a softmax can see, but it makes the scale of every token large. So it is
# subtracted before the keys are quantised. The log-sum-exp of the scores changes, though, and
# whoever merges this part of the keys with another one needs to know by how much.
#
# Write `smooth(q, k, seen)`. It returns `smoothed` and `lost`.
#
# - `q` is `[B, H, T, D]`, `k` is `[B, Hk, S, D]`, and H is a multiple of Hk: query head h reads
#   key head **h // (H / Hk)**.
# - `seen` is a boolean array `[B, S]`: False on padding. **What lies in a key that is not seen may
#   be anything**, infinities and NaN too. It counts in no mean, and comes out as zeros.
# - `smoothed` `[B, Hk, S, D]`: the keys minus their mean over the seen *tokens*. Every example,
#   every key head and every channel has its own mean. If an example has no seen key, its mean is
#   0.
# - `lost` `[B, H, T]`: how much every score of a query lost: q · mean, divided by √D like the
#   scores. So `lse` of the old scores = `lse` of the new ones + `lost`.
# - Inputs may be float16, where a sum of many keys would overflow: work in float64. Both results
#   are float64. The inputs stay as they are.
#
# Half of the points are for a case that has all of it at once.
#
# **A miniature.** One query `[2]`, two keys `[5]` and `[7]`, D = 1: the mean is 6, the smoothed
# keys are -1 and 1, the scores -2 and 2 in place of 10 and 14. They lost 12.
#
# Read first: *Two channels in sixty-four*, *Exact for the output, not for its log-sum-exp* and
# *What lies behind the last token* in [chapter 11](../book/11_quantization.ipynb).
#
# <details>
# <summary>Hint 1 for quant-5: which numbers share a mean?</summary>
#
# Write down the shape of the mean with a length of 1 where it was averaged. Only one of the four
# axes of k disappears. For a mean of the seen keys you need a sum without the others, and how many
# there are.
#
# </details>
#
# <details>
# <summary>Hint 2 for quant-5: NaN times 0 is NaN</summary>
#
# Multiplying with `seen` doesn't clean a key that holds NaN. Choose between the key and 0 instead,
# before the sum and once more at the end.
#
# </details>

# %% answer quant-5 points=5 minutes=13 difficulty=3 forbid=attnlearn
def smooth(q, k, seen):
    """q [B, H, T, D], k [B, Hk, S, D], seen [B, S] -> smoothed k, lost [B, H, T]."""
    # BEGIN SOLUTION
    keep = seen[:, None, :, None]
    k = np.where(keep, k, 0).astype(float)
    count = np.maximum(keep.sum(2, keepdims=True), 1)
    mean = k.sum(2, keepdims=True) / count
    shared = mean.repeat(q.shape[1] // k.shape[1], 1)
    lost = (q * shared).sum(-1) / np.sqrt(q.shape[-1])
    return np.where(keep, k - mean, 0), lost
    # END SOLUTION

# %% check quant-5
case = check("quant-5")


def _heads(rng, B, H, Hk, T, S, D):
    """Keys with a mean of its own for each example, head and channel."""
    q, k = rng.normal(size=(B, H, T, D)), rng.normal(size=(B, Hk, S, D))
    bias = 3 + np.arange(B * Hk * D).reshape(B, Hk, 1, D)
    return q + 1, k + bias


def _smooth(q, k, seen=None):
    seen = np.ones((len(k), k.shape[2]), bool) if seen is None else seen
    smoothed, lost = smooth(q, k, seen)
    return {"smoothed": np.asarray(smoothed), "lost": np.asarray(lost)}


def _padded(rng, lengths, *sizes, stale=(99.0, np.nan, -np.inf)):
    q, k = _heads(rng, len(lengths), *sizes)
    seen = np.arange(k.shape[2]) < np.array(lengths)[:, None]
    stale = np.resize(stale, k.shape[2])[:, None]
    return q, np.where(seen[:, None, :, None], k, stale), seen


def _long(rng):
    """512 keys near 200 in float16: their sum is above 65,504."""
    q, k = (60 * x for x in _heads(rng, 1, 2, 1, 2, 512, 3))
    got = _smooth((q / 60).astype(np.float16), k.astype(np.float16))
    return {"first keys": got["smoothed"][..., :4, :], "lost": got["lost"]}


def _lse_error(rng, *sizes):
    q, k = _heads(rng, *sizes)
    smoothed, lost = smooth(q, k, np.ones((len(k), k.shape[2]), bool))
    old, new = (
        np.logaddexp.reduce(
            q @ x.repeat(q.shape[1] // x.shape[1], 1).swapaxes(-1, -2) / np.sqrt(q.shape[-1]), -1
        )
        for x in (k, smoothed)
    )
    return np.round(old - new - lost, 6) + 0.0


case("one example, one head", lambda rng: _smooth(*_heads(rng, 1, 1, 1, 3, 5, 4)))
case("two key heads", lambda rng: _smooth(*_heads(rng, 1, 2, 2, 3, 5, 4)))
case("two examples", lambda rng: _smooth(*_heads(rng, 2, 1, 1, 2, 4, 3)))
case("4 query heads, 2 key heads", lambda rng: _smooth(*_heads(rng, 1, 4, 2, 3, 5, 2)))
case("padding", lambda rng: _smooth(*_padded(rng, [5, 2], 1, 1, 2, 5, 3, stale=[99.0])))
case("padding that holds NaN", lambda rng: _smooth(*_padded(rng, [5, 2], 1, 1, 2, 5, 3)))
case("an example without keys", lambda rng: _smooth(*_padded(rng, [0, 3], 1, 1, 2, 3, 2)))
case("float16, large sums", _long)
case("error of the log-sum-exp", lambda rng: _lse_error(rng, 1, 2, 2, 3, 5, 4))


@case("all of it at once", weight=12)
def _(rng):
    given = _padded(rng, [6, 3, 0], 4, 2, 3, 6, 4)
    kept = [x.copy() for x in given]
    got = _smooth(*given)
    pairs = zip(kept, given, strict=True)
    same = [bool(np.array_equal(x, y, equal_nan=True)) for x, y in pairs]
    return {**got, "untouched": same, "float16": _long(rng)}

# %% hidden quant-5
case = check("quant-5")


@case("padding on the left, 6 query heads, 3 key heads")
def _(rng):
    q, k, seen = _padded(rng, [5, rng.randint(2, 5)], 6, 3, 2, 5, 2)
    return _smooth(q, k[:, :, ::-1], seen[:, ::-1])

# %% right quant-5 example by example
def smooth(q, k, seen):
    smoothed, lost = np.zeros(k.shape), np.zeros(q.shape[:3])
    group = q.shape[1] // k.shape[1]
    for b, h in np.ndindex(q.shape[:2]):
        keys = k[b, h // group, seen[b]].astype(np.float64)
        if len(keys):
            mean = keys.mean(0)
            smoothed[b, h // group, seen[b]] = keys - mean
            lost[b, h] = q[b, h].astype(np.float64) @ mean / q.shape[-1] ** 0.5
    return smoothed, lost

# %% right quant-5 means as weights, heads in groups
def smooth(q, k, seen):
    (B, H, T, D), Hk = q.shape, k.shape[1]
    share = seen / np.maximum(seen.sum(1, keepdims=True), 1)
    k = np.array(k, np.float64)
    k[~np.broadcast_to(seen[:, None], k.shape[:3])] = 0
    mean = np.einsum("bs,bgsd->bgd", share, k)
    k -= mean[:, :, None] * seen[:, None, :, None]
    q = q.reshape(B, Hk, H // Hk, T, D) / np.sqrt(np.float64(D))
    return k, np.einsum("bghtd,bgd->bght", q, mean).reshape(B, H, T)

# %% wrong quant-5 the mean over the channels
# You took each key's mean over its own channels. It differs from key to key, and what differs
# between keys a softmax can see: average over the tokens.
def smooth(q, k, seen):
    keep = seen[:, None, :, None]
    k = np.where(keep, k, 0).astype(float)
    mean = k.mean(-1, keepdims=True)
    shared = mean.repeat(q.shape[1] // k.shape[1], 1)
    lost = (q * shared.mean(2, keepdims=True)).sum(-1) / np.sqrt(q.shape[-1])
    return np.where(keep, k - mean, 0), lost

# %% wrong quant-5 one mean for all channels
# You have one number per head. The large values sit in a few channels: each channel has its own
# mean.
def smooth(q, k, seen):
    keep = seen[:, None, :, None]
    k = np.where(keep, k, 0).astype(float)
    count = np.maximum(keep.sum(2, keepdims=True), 1)
    mean = k.sum((2, 3), keepdims=True) / count / k.shape[-1]
    mean = np.broadcast_to(mean, (*mean.shape[:3], k.shape[-1]))
    shared = mean.repeat(q.shape[1] // k.shape[1], 1)
    lost = (q * shared).sum(-1) / np.sqrt(q.shape[-1])
    return np.where(keep, k - mean, 0), lost

# %% wrong quant-5 one mean for all heads
# You averaged over the key heads as well. A head meets its own queries only, and has its own mean.
def smooth(q, k, seen):
    keep = seen[:, None, :, None]
    k = np.where(keep, k, 0).astype(float)
    count = np.maximum(keep.sum(2, keepdims=True), 1)
    mean = k.sum(2, keepdims=True) / count
    mean = np.broadcast_to(mean.mean(1, keepdims=True), mean.shape)
    shared = mean.repeat(q.shape[1] // k.shape[1], 1)
    lost = (q * shared).sum(-1) / np.sqrt(q.shape[-1])
    return np.where(keep, k - mean, 0), lost

# %% wrong quant-5 one mean for all examples
# You averaged over the examples as well. Two texts in a batch know nothing of each other.
def smooth(q, k, seen):
    keep = seen[:, None, :, None]
    k = np.where(keep, k, 0).astype(float)
    count = np.maximum(keep.sum(2, keepdims=True), 1)
    mean = k.sum(2, keepdims=True) / count
    mean = np.broadcast_to(mean.mean(0, keepdims=True), mean.shape)
    shared = mean.repeat(q.shape[1] // k.shape[1], 1)
    lost = (q * shared).sum(-1) / np.sqrt(q.shape[-1])
    return np.where(keep, k - mean, 0), lost

# %% wrong quant-5 padding in the count
# You divide by the length of the padded row. The mean is taken over the keys that are seen: count
# those.
def smooth(q, k, seen):
    keep = seen[:, None, :, None]
    k = np.where(keep, k, 0).astype(float)
    count = k.shape[2]
    mean = k.sum(2, keepdims=True) / count
    shared = mean.repeat(q.shape[1] // k.shape[1], 1)
    lost = (q * shared).sum(-1) / np.sqrt(q.shape[-1])
    return np.where(keep, k - mean, 0), lost

# %% wrong quant-5 padding in the mean
# What lies in the padding reaches your mean, be it 99 or NaN. Leave out the keys that nobody sees.
# Seen: https://github.com/ModelCloud/GPTQModel/pull/1968
# Seen: intel/auto-round#1167
def smooth(q, k, seen):
    keep = seen[:, None, :, None]
    k = k.astype(float)
    count = k.shape[2]
    mean = k.sum(2, keepdims=True) / count
    shared = mean.repeat(q.shape[1] // k.shape[1], 1)
    lost = (q * shared).sum(-1) / np.sqrt(q.shape[-1])
    return np.where(keep, k - mean, 0), lost

# %% wrong quant-5 padding multiplied by 0
# You multiply the padding by 0. NaN and infinity times 0 are NaN: choose, don't multiply.
def smooth(q, k, seen):
    keep = seen[:, None, :, None]
    k = (k * keep).astype(float)
    count = np.maximum(keep.sum(2, keepdims=True), 1)
    mean = k.sum(2, keepdims=True) / count
    shared = mean.repeat(q.shape[1] // k.shape[1], 1)
    lost = (q * shared).sum(-1) / np.sqrt(q.shape[-1])
    return np.where(keep, k - mean, 0), lost

# %% wrong quant-5 NaN taken for padding
# You leave out what is NaN. Padding may hold ordinary numbers, too; `seen` says which keys count.
def smooth(q, k, seen):
    keep = ~np.isnan(k).any((1, 3), keepdims=True)
    k = np.where(keep, k, 0).astype(float)
    count = np.maximum(keep.sum(2, keepdims=True), 1)
    mean = k.sum(2, keepdims=True) / count
    shared = mean.repeat(q.shape[1] // k.shape[1], 1)
    lost = (q * shared).sum(-1) / np.sqrt(q.shape[-1])
    return np.where(keep, k - mean, 0), lost

# %% wrong quant-5 padding becomes minus the mean
# The keys in the padding come out as minus the mean. Choose once more at the end, so that they are
# zeros.
def smooth(q, k, seen):
    keep = seen[:, None, :, None]
    k = np.where(keep, k, 0).astype(float)
    count = np.maximum(keep.sum(2, keepdims=True), 1)
    mean = k.sum(2, keepdims=True) / count
    shared = mean.repeat(q.shape[1] // k.shape[1], 1)
    lost = (q * shared).sum(-1) / np.sqrt(q.shape[-1])
    return k - mean, lost

# %% wrong quant-5 a mean of nothing
# An example without a seen key divides 0 by 0. Its mean is 0.
def smooth(q, k, seen):
    keep = seen[:, None, :, None]
    k = np.where(keep, k, 0).astype(float)
    count = keep.sum(2, keepdims=True)
    mean = k.sum(2, keepdims=True) / count
    shared = mean.repeat(q.shape[1] // k.shape[1], 1)
    lost = (q * shared).sum(-1) / np.sqrt(q.shape[-1])
    return np.where(keep, k - mean, 0), lost

# %% wrong quant-5 divided by the spread
# You also divide by the standard deviation. Subtracting a vector from all keys changes nothing
# that a softmax sees; dividing channels does.
def smooth(q, k, seen):
    keep = seen[:, None, :, None]
    k = np.where(keep, k, 0).astype(float)
    count = np.maximum(keep.sum(2, keepdims=True), 1)
    mean = k.sum(2, keepdims=True) / count
    shared = mean.repeat(q.shape[1] // k.shape[1], 1)
    lost = (q * shared).sum(-1) / np.sqrt(q.shape[-1])
    centred = np.where(keep, k - mean, 0)
    spread = np.sqrt((centred**2).sum(2, keepdims=True) / count)
    return centred / np.maximum(spread, 1e-9), lost

# %% wrong quant-5 nothing is said to be lost
# The scores did lose something: the same for every key, so the weights stay, but the log-sum-exp
# is smaller now.
# Seen: https://github.com/ROCm/aiter/pull/3334
def smooth(q, k, seen):
    keep = seen[:, None, :, None]
    k = np.where(keep, k, 0).astype(float)
    count = np.maximum(keep.sum(2, keepdims=True), 1)
    mean = k.sum(2, keepdims=True) / count
    shared = mean.repeat(q.shape[1] // k.shape[1], 1)
    lost = (q * shared).sum(-1) * 0
    return np.where(keep, k - mean, 0), lost

# %% wrong quant-5 what was lost is not scaled
# Scores are divided by √D. So is what they lost.
def smooth(q, k, seen):
    keep = seen[:, None, :, None]
    k = np.where(keep, k, 0).astype(float)
    count = np.maximum(keep.sum(2, keepdims=True), 1)
    mean = k.sum(2, keepdims=True) / count
    shared = mean.repeat(q.shape[1] // k.shape[1], 1)
    lost = (q * shared).sum(-1)
    return np.where(keep, k - mean, 0), lost

# %% wrong quant-5 gained in place of lost
# Your sign is turned. The old log-sum-exp is the new one *plus* what was lost.
def smooth(q, k, seen):
    keep = seen[:, None, :, None]
    k = np.where(keep, k, 0).astype(float)
    count = np.maximum(keep.sum(2, keepdims=True), 1)
    mean = k.sum(2, keepdims=True) / count
    shared = mean.repeat(q.shape[1] // k.shape[1], 1)
    lost = -(q * shared).sum(-1) / np.sqrt(q.shape[-1])
    return np.where(keep, k - mean, 0), lost

# %% wrong quant-5 heads by the remainder
# Your query head h reads the mean of key head h mod Hk. Neighbouring query heads share a key head.
# Seen: https://github.com/onnx/onnx/pull/7274
def smooth(q, k, seen):
    keep = seen[:, None, :, None]
    k = np.where(keep, k, 0).astype(float)
    count = np.maximum(keep.sum(2, keepdims=True), 1)
    mean = k.sum(2, keepdims=True) / count
    shared = np.tile(mean, (1, q.shape[1] // k.shape[1], 1, 1))
    lost = (q * shared).sum(-1) / np.sqrt(q.shape[-1])
    return np.where(keep, k - mean, 0), lost

# %% wrong quant-5 as many heads for keys as for queries
# With grouped heads your shapes don't fit: there are fewer key heads than query heads.
# Seen: https://github.com/sgl-project/sglang/pull/16335
def smooth(q, k, seen):
    keep = seen[:, None, :, None]
    k = np.where(keep, k, 0).astype(float)
    count = np.maximum(keep.sum(2, keepdims=True), 1)
    mean = k.sum(2, keepdims=True) / count
    shared = mean
    lost = (q * shared).sum(-1) / np.sqrt(q.shape[-1])
    return np.where(keep, k - mean, 0), lost

# %% wrong quant-5 the queries smoothed, too
# You took their mean away from the queries, too. That changes the weights: a score then lacks mean
# query · key, which is another one for every key.
def smooth(q, k, seen):
    keep = seen[:, None, :, None]
    k = np.where(keep, k, 0).astype(float)
    count = np.maximum(keep.sum(2, keepdims=True), 1)
    mean = k.sum(2, keepdims=True) / count
    shared = mean.repeat(q.shape[1] // k.shape[1], 1)
    lost = ((q - q.mean(2, keepdims=True)) * shared).sum(-1) / np.sqrt(q.shape[-1])
    return np.where(keep, k - mean, 0), lost

# %% wrong quant-5 summed in half precision
# Your sum of float16 keys overflows to infinity. Widen the keys before you add them up, not after.
# Seen: numpy/numpy#7930
# Seen: pytorch/pytorch#91597
# Seen: tracel-ai/burn#4770
def smooth(q, k, seen):
    keep = seen[:, None, :, None]
    given = k.dtype
    k = np.where(keep, k, 0).astype(float)
    count = np.maximum(keep.sum(2, keepdims=True), 1)
    mean = k.astype(given).sum(2, keepdims=True) / count
    shared = mean.repeat(q.shape[1] // k.shape[1], 1)
    lost = (q * shared).sum(-1) / np.sqrt(q.shape[-1])
    return np.where(keep, k - mean, 0), lost

# %% wrong quant-5 a mean rounded to half precision
# Your mean is rounded to float16, which has three digits. Near 200 its steps are 1/8: large beside
# a smoothed key.
def smooth(q, k, seen):
    keep = seen[:, None, :, None]
    given = k.dtype
    k = np.where(keep, k, 0).astype(float)
    count = np.maximum(keep.sum(2, keepdims=True), 1)
    mean = (k.sum(2, keepdims=True) / count).astype(given)
    shared = mean.repeat(q.shape[1] // k.shape[1], 1)
    lost = (q * shared).sum(-1) / np.sqrt(q.shape[-1])
    return np.where(keep, k - mean, 0), lost

# %% wrong quant-5 the caller's keys are smoothed
# You subtract in place. Whoever keeps these keys in a cache has them smoothed twice at the next
# call.
# Seen: https://github.com/Comfy-Org/ComfyUI/pull/16035
# Seen: https://github.com/thu-ml/SageAttention/pull/401
def smooth(q, k, seen):
    keep = seen[:, None, :, None]
    raw, k = k, np.where(keep, k, 0).astype(float)
    count = np.maximum(keep.sum(2, keepdims=True), 1)
    mean = k.sum(2, keepdims=True) / count
    shared = mean.repeat(q.shape[1] // k.shape[1], 1)
    lost = (q * shared).sum(-1) / np.sqrt(q.shape[-1])
    np.copyto(raw, np.where(keep, k - mean, 0), where=keep)
    return np.where(keep, k - mean, 0), lost

# %% [markdown]
# ## quant-6: A quantised cache of keys and values
#
# *quant-6 · 7 points · 17 minutes · ●●●● difficulty 4 of 4*
#
# A few channels of the keys are large in every token, so keys do best with one scale per
# **channel**, over a group of tokens. Values have no such channels: they get one scale per
# **token**. A group of tokens can be quantised only when it is full. Build the cache that does
# this, in two parts.
#
# `encode(x, axis, bits)` quantises **asymmetrically**: it returns `codes` (uint8, from 0 to
# `2**bits - 1`), `scale` and `zero`, so that `codes * scale + zero` is within half a step of `x`.
# `zero` is the smallest number of a slice along `axis`, and the largest one gets the largest code.
# Both have the length 1 along `axis`. A slice whose numbers are all equal has the scale 1.
#
# `Cache(group, bits)` holds the tokens of one text:
#
# - `append(k, v)` adds the next t tokens: `k` is `[H, t, D]`, `v` is `[H, t, E]`, t ≥ 1.
# - Tokens 0 … group - 1 are the first group, and so on, **however they arrive**: one by one, all
#   at once, or in chunks that end within a group. As soon as a group is full it is quantised: its
#   keys with one scale per head and channel, its values with one scale per head and token.
# - The newest tokens, whose group is not full, stay as floats.
# - `read()` returns `k` `[H, n, D]` and `v` `[H, n, E]`, floats, all n tokens in order: what the
#   codes of full groups stand for, then the newest tokens as they came.
# - **Bytes.** A full group is kept as codes, scales and zeros, one byte to a code (or packed), and
#   not as floats; scales and zeros may be floats of 4 or 8 bytes. The caller may use the memory of
#   `k` and `v` again after `append`.
# - `read` is called only after the first `append`.
#
# Half of the points are for a case that has all of it at once.
#
# **A miniature.** Groups of 3, 2 bits, one head, D = 1. The keys 1, 2 and 5 fill a group: the step
# is 4/3, `zero` is 1, and the codes are 0, 1 and 3. The key 9 follows and waits. `read` gives 1,
# 2.33, 5 and 9.
#
# Read first: *The cache: stored is not multiplied* in [chapter 11](../book/11_quantization.ipynb).
# The idea is that of [KIVI](https://arxiv.org/abs/2402.02750).
#
# <details>
# <summary>Hint 1 for quant-6: which axis shares a scale?</summary>
#
# A scale per channel is shared by all tokens of the group: the smallest and largest number are
# taken over the tokens. A scale per token is shared by its channels.
#
# </details>
#
# <details>
# <summary>Hint 2 for quant-6: a buffer that overflows</summary>
#
# Put new tokens behind those that are waiting. While enough of them are there, cut off one group
# from the front and quantise it. What is left waits. A slice of an array is a view: it keeps the
# whole array alive, and sees what others write into it.
#
# </details>

# %% answer quant-6 points=7 minutes=17 difficulty=4 forbid=attnlearn
def encode(x, axis, bits):
    """-> codes uint8, scale, zero with x close to codes * scale + zero."""
    # BEGIN SOLUTION
    zero, most = x.min(axis, keepdims=True), x.max(axis, keepdims=True)
    scale = (most - zero) / (2**bits - 1)
    scale = np.where(scale == 0, 1, scale)
    return np.rint((x - zero) / scale).astype(np.uint8), scale, zero
    # END SOLUTION


class Cache:
    """Keys per channel and values per token; the newest tokens in float."""

    def __init__(self, group, bits):
        # BEGIN SOLUTION
        self.group, self.bits = group, bits
        self.full, self.k, self.v = [], [], []
        # END SOLUTION

    def append(self, k, v):
        """k [H, t, D], v [H, t, E]: the next t tokens."""
        # BEGIN SOLUTION
        k, v = np.concatenate([*self.k, k], 1), np.concatenate([*self.v, v], 1)
        full = k.shape[1] // self.group * self.group
        for start in range(0, full, self.group):
            now = np.s_[:, start : start + self.group]
            keys = encode(k[now], 1, self.bits)
            values = encode(v[now], 2, self.bits)
            self.full.append((keys, values))
        self.k, self.v = [k[:, full:].copy()], [v[:, full:].copy()]
        # END SOLUTION

    def read(self):
        """All tokens so far: k [H, n, D], v [H, n, E]."""
        # BEGIN SOLUTION
        k = [codes * scale + zero for (codes, scale, zero), _ in self.full]
        v = [codes * scale + zero for _, (codes, scale, zero) in self.full]
        return np.concatenate(k + self.k, 1), np.concatenate(v + self.v, 1)
        # END SOLUTION

# %% check quant-6
case = check("quant-6", rtol=1e-5, atol=1e-6)


def _grid(rng, shape, axis, bits):
    """Random numbers, none near the middle between two codes, every slice on its own grid."""
    top = 2**bits - 1
    sign = np.resize([1, -1], shape)  # some above their code, some below
    x = rng.randint(1, top, shape) + sign * rng.uniform(0.1, 0.3, shape)
    slices = np.moveaxis(x, axis, 0)
    slices[0], slices[-1] = 0, top
    many = slices[0].size
    places = np.arange(many).reshape(slices[0].shape)
    flip = places % 2 == 1
    slices[0][flip], slices[-1][flip] = top, 0
    step, zero = 0.1 + places % 5 / 7, places % 11 - 8.0
    return x * np.expand_dims(step, axis) + np.expand_dims(zero, axis)


def _tokens(rng, H, n, D, E, group, bits):
    k = [_grid(rng, (H, group, D), 1, bits) for _ in range(-(-n // group))]
    return np.concatenate(k, 1)[:, :n], _grid(rng, (H, n, E), 2, bits)


def _filled(k, v, group, bits, *arrivals):
    cache, start = Cache(group, bits), 0
    for t in arrivals:
        cache.append(k[:, start : start + t].copy(), v[:, start : start + t].copy())
        start += t
    return cache


def _read(cache):
    k, v = cache.read()
    return {"k": np.asarray(k), "v": np.asarray(v)}


def _run(rng, H, n, D, E, group, bits, *arrivals):
    return _read(_filled(*_tokens(rng, H, n, D, E, group, bits), group, bits, *arrivals))


def _codes(x, axis, bits):
    codes, scale, zero = encode(x, axis, bits)
    found = {"codes": codes, "type": str(codes.dtype), "scale": scale, "zero": zero}
    return {name: x if name == "type" else np.asarray(x) for name, x in found.items()}


def _flat(rng):
    """A key channel that is the same in every token of a group, and a value that is constant."""
    k, v = _tokens(rng, 1, 6, 3, 2, 4, 4)
    k[:, :4, 1], v[:, 2] = -2.5, 7.25
    return {**_read(_filled(k, v, 4, 4, 6)), "keys": _codes(k[:, :4], 1, 4)}


def _reused(rng):
    k, v = _tokens(rng, 1, 5, 3, 2, 4, 4)
    cache = Cache(4, 4)
    cache.append(k, v)
    k[:], v[:] = 99, 99  # the caller's buffer is filled with the next tokens
    return _read(cache)


def _arrays(x):
    if isinstance(x, np.ndarray):
        while isinstance(x.base, np.ndarray):
            x = x.base
        return {id(x): x.nbytes}
    parts = x.values() if isinstance(x, dict) else x if isinstance(x, (list, tuple)) else ()
    if type(x).__module__ == Cache.__module__:  # a class of the notebook
        parts = getattr(x, "__dict__", {}).values()
    return {at: size for part in parts for at, size in _arrays(part).items()}


def _kilobytes(rng):
    k, v = _tokens(rng, 2, 256, 16, 16, 16, 8)
    return sum(_arrays(_filled(k, v, 16, 8, 124, 132)).values()) / 1000


case("encode along axis 1", lambda rng: _codes(_grid(rng, (2, 4, 3), 1, 4), 1, 4))
case("encode along axis 2", lambda rng: _codes(_grid(rng, (2, 3, 4), 2, 8), 2, 8))
case("a group that is not full", lambda rng: _run(rng, 1, 3, 3, 2, 4, 4, 3))
case("one full group", lambda rng: _run(rng, 2, 4, 3, 5, 4, 4, 4))
case("10 tokens at once, groups of 4", lambda rng: _run(rng, 1, 10, 3, 2, 4, 4, 10))
case("10 tokens one by one", lambda rng: _run(rng, 1, 10, 3, 2, 4, 4, *10 * [1]))
case("chunks of 3, 6 and 2", lambda rng: _run(rng, 1, 11, 3, 2, 4, 8, 3, 6, 2))
case("constant channels", _flat)
case("the buffer is used again", _reused)
case("kilobytes of 256 tokens", _kilobytes, at_most=44)


@case("all of it at once", weight=12)
def _(rng):
    big = _kilobytes(rng)
    return {
        "INT4": _run(rng, 2, 11, 3, 4, 4, 4, 2, 7, 1, 1),
        "2 bits": _run(rng, 2, 9, 3, 4, 3, 2, 8, 1),
        "INT8": _run(rng, 1, 5, 2, 3, 2, 8, 1, 1, 1, 2),
        "constant": _flat(rng),
        "buffer": _reused(rng),
        "codes": _codes(_grid(rng, (2, 4, 3), 1, 8), 1, 8),
        "too many bytes": big > 44,
    }

# %% hidden quant-6
case = check("quant-6", rtol=1e-5, atol=1e-6)


@case("groups of 5, drawn chunks")
def _(rng):
    chunks = rng.randint(1, 5, 4)
    return _run(rng, 2, 21, 4, 3, 5, 3, *chunks, 20 - chunks.sum(), 1)

# %% right quant-6 two buffers and a loop over tokens
def encode(x, axis, bits):
    x = np.asarray(x, np.float64)
    low, high = np.min(x, axis=axis, keepdims=True), np.max(x, axis=axis, keepdims=True)
    step = (high - low) / (2.0**bits - 1)
    step[high == low] = 1.0
    codes = np.floor((x - low) / step + 0.5)
    return np.clip(codes, 0, 2**bits - 1).astype("uint8"), step, low


class Cache:
    def __init__(self, group, bits):
        self.group, self.bits, self.keys, self.values = group, bits, [], []
        self.wait_k, self.wait_v = [], []

    def append(self, k, v):
        for at in range(k.shape[1]):
            self.wait_k.append(np.array(k[:, at : at + 1]))
            self.wait_v.append(np.array(v[:, at : at + 1]))
            if len(self.wait_k) == self.group:
                keys, values = np.concatenate(self.wait_k, 1), np.concatenate(self.wait_v, 1)
                self.keys.append(encode(keys, 1, self.bits))
                self.values.append(encode(values, -1, self.bits))
                self.wait_k, self.wait_v = [], []

    def read(self):
        def whole(parts, newest):
            return np.concatenate([c * s + z for c, s, z in parts] + newest, axis=1)

        return whole(self.keys, self.wait_k), whole(self.values, self.wait_v)

# %% right quant-6 all groups of a call at once
def encode(x, axis, bits):
    zero = x.min(axis=axis, keepdims=True)
    span = np.ptp(x, axis=axis, keepdims=True)
    scale = np.where(span > 0, span, 2**bits - 1) / (2**bits - 1)
    return ((x - zero) / scale + 0.5).astype(np.uint8), scale, zero


class Cache:
    def __init__(self, group, bits):
        self.group, self.bits, self.full, self.rest = group, bits, [], None

    def append(self, k, v):
        if self.rest is not None:
            k = np.concatenate((self.rest[0], k), axis=1)
            v = np.concatenate((self.rest[1], v), axis=1)
        n = k.shape[1] // self.group * self.group
        H, D = k.shape[0], k.shape[2]
        if n:
            grouped = k[:, :n].reshape(H, n // self.group, self.group, D)
            codes = encode(grouped, 2, self.bits), encode(v[:, :n], 2, self.bits)
            self.full.append([[x.copy() for x in part] for part in codes])
        self.rest = np.array(k[:, n:]), np.array(v[:, n:])

    def read(self):
        k, v = self.rest
        keys = [(c * s + z).reshape(len(k), -1, k.shape[2]) for (c, s, z), _ in self.full]
        values = [c * s + z for _, (c, s, z) in self.full]
        return np.concatenate([*keys, k], 1), np.concatenate([*values, v], 1)

# %% wrong quant-6 keys per token
# Your keys have one scale per token. The large channels then make the step coarse for all the
# others: share a scale over the tokens of a channel.
# Seen: https://github.com/huggingface/blog/pull/2045
# Seen: https://github.com/ahb-sjsu/turboquant-pro/pull/98
def encode(x, axis, bits):
    zero, most = x.min(axis, keepdims=True), x.max(axis, keepdims=True)
    scale = (most - zero) / (2**bits - 1)
    scale = np.where(scale == 0, 1, scale)
    return np.rint((x - zero) / scale).astype(np.uint8), scale, zero


class Cache:
    def __init__(self, group, bits):
        self.group, self.bits = group, bits
        self.full, self.k, self.v = [], [], []

    def append(self, k, v):
        k, v = np.concatenate([*self.k, k], 1), np.concatenate([*self.v, v], 1)
        full = k.shape[1] // self.group * self.group
        for start in range(0, full, self.group):
            now = np.s_[:, start : start + self.group]
            keys = encode(k[now], 2, self.bits)
            values = encode(v[now], 2, self.bits)
            self.full.append((keys, values))
        self.k, self.v = [k[:, full:].copy()], [v[:, full:].copy()]

    def read(self):
        k = [codes * scale + zero for (codes, scale, zero), _ in self.full]
        v = [codes * scale + zero for _, (codes, scale, zero) in self.full]
        return np.concatenate(k + self.k, 1), np.concatenate(v + self.v, 1)

# %% wrong quant-6 values per channel
# Your values have one scale per channel. Each token has its own here.
def encode(x, axis, bits):
    zero, most = x.min(axis, keepdims=True), x.max(axis, keepdims=True)
    scale = (most - zero) / (2**bits - 1)
    scale = np.where(scale == 0, 1, scale)
    return np.rint((x - zero) / scale).astype(np.uint8), scale, zero


class Cache:
    def __init__(self, group, bits):
        self.group, self.bits = group, bits
        self.full, self.k, self.v = [], [], []

    def append(self, k, v):
        k, v = np.concatenate([*self.k, k], 1), np.concatenate([*self.v, v], 1)
        full = k.shape[1] // self.group * self.group
        for start in range(0, full, self.group):
            now = np.s_[:, start : start + self.group]
            keys = encode(k[now], 1, self.bits)
            values = encode(v[now], 1, self.bits)
            self.full.append((keys, values))
        self.k, self.v = [k[:, full:].copy()], [v[:, full:].copy()]

    def read(self):
        k = [codes * scale + zero for (codes, scale, zero), _ in self.full]
        v = [codes * scale + zero for _, (codes, scale, zero) in self.full]
        return np.concatenate(k + self.k, 1), np.concatenate(v + self.v, 1)

# %% wrong quant-6 keys and values exchanged
# Your keys are quantised per token and your values per channel. It should be the other way round.
def encode(x, axis, bits):
    zero, most = x.min(axis, keepdims=True), x.max(axis, keepdims=True)
    scale = (most - zero) / (2**bits - 1)
    scale = np.where(scale == 0, 1, scale)
    return np.rint((x - zero) / scale).astype(np.uint8), scale, zero


class Cache:
    def __init__(self, group, bits):
        self.group, self.bits = group, bits
        self.full, self.k, self.v = [], [], []

    def append(self, k, v):
        k, v = np.concatenate([*self.k, k], 1), np.concatenate([*self.v, v], 1)
        full = k.shape[1] // self.group * self.group
        for start in range(0, full, self.group):
            now = np.s_[:, start : start + self.group]
            keys = encode(k[now], 2, self.bits)
            values = encode(v[now], 1, self.bits)
            self.full.append((keys, values))
        self.k, self.v = [k[:, full:].copy()], [v[:, full:].copy()]

    def read(self):
        k = [codes * scale + zero for (codes, scale, zero), _ in self.full]
        v = [codes * scale + zero for _, (codes, scale, zero) in self.full]
        return np.concatenate(k + self.k, 1), np.concatenate(v + self.v, 1)

# %% wrong quant-6 heads share a scale
# You let all heads share a scale. Each head has its own channels and its own tokens.
def encode(x, axis, bits):
    zero, most = x.min(axis, keepdims=True), x.max(axis, keepdims=True)
    scale = (most - zero) / (2**bits - 1)
    scale = np.where(scale == 0, 1, scale)
    return np.rint((x - zero) / scale).astype(np.uint8), scale, zero


class Cache:
    def __init__(self, group, bits):
        self.group, self.bits = group, bits
        self.full, self.k, self.v = [], [], []

    def append(self, k, v):
        k, v = np.concatenate([*self.k, k], 1), np.concatenate([*self.v, v], 1)
        full = k.shape[1] // self.group * self.group
        for start in range(0, full, self.group):
            now = np.s_[:, start : start + self.group]
            keys = encode(k[now], (0, 1), self.bits)
            values = encode(v[now], (0, 2), self.bits)
            self.full.append((keys, values))
        self.k, self.v = [k[:, full:].copy()], [v[:, full:].copy()]

    def read(self):
        k = [codes * scale + zero for (codes, scale, zero), _ in self.full]
        v = [codes * scale + zero for _, (codes, scale, zero) in self.full]
        return np.concatenate(k + self.k, 1), np.concatenate(v + self.v, 1)

# %% wrong quant-6 the newest tokens are quantised, too
# You quantise a group that is not full. Its range isn't known yet: the newest tokens stay as they
# came.
# Seen: huggingface/transformers#34189
def encode(x, axis, bits):
    zero, most = x.min(axis, keepdims=True), x.max(axis, keepdims=True)
    scale = (most - zero) / (2**bits - 1)
    scale = np.where(scale == 0, 1, scale)
    return np.rint((x - zero) / scale).astype(np.uint8), scale, zero


class Cache:
    def __init__(self, group, bits):
        self.group, self.bits = group, bits
        self.full, self.k, self.v = [], [], []

    def append(self, k, v):
        k, v = np.concatenate([*self.k, k], 1), np.concatenate([*self.v, v], 1)
        full = k.shape[1] // self.group * self.group
        for start in range(0, full, self.group):
            now = np.s_[:, start : start + self.group]
            keys = encode(k[now], 1, self.bits)
            values = encode(v[now], 2, self.bits)
            self.full.append((keys, values))
        self.k, self.v = [k[:, full:].copy()], [v[:, full:].copy()]

    def read(self):
        k = [codes * scale + zero for (codes, scale, zero), _ in self.full]
        v = [codes * scale + zero for _, (codes, scale, zero) in self.full]
        for old, new, axis in ((k, self.k[0], 1), (v, self.v[0], 2)):
            if new.size:
                codes, scale, zero = encode(new, axis, self.bits)
                old.append(codes * scale + zero)
        return np.concatenate(k, 1), np.concatenate(v, 1)

# %% wrong quant-6 every chunk is a group
# You quantise what arrives as a group of its own. One by one, each key is then the smallest and
# the largest of its group, and nothing is saved.
# Seen: rajveer43/VeloxQuant-MLX#162
def encode(x, axis, bits):
    zero, most = x.min(axis, keepdims=True), x.max(axis, keepdims=True)
    scale = (most - zero) / (2**bits - 1)
    scale = np.where(scale == 0, 1, scale)
    return np.rint((x - zero) / scale).astype(np.uint8), scale, zero


class Cache:
    def __init__(self, group, bits):
        self.group, self.bits = group, bits
        self.full, self.k, self.v = [], [], []

    def append(self, k, v):
        full = k.shape[1]
        for start in range(0, full, self.group):
            now = np.s_[:, start : start + self.group]
            keys = encode(k[now], 1, self.bits)
            values = encode(v[now], 2, self.bits)
            self.full.append((keys, values))
        self.k, self.v = [k[:, full:].copy()], [v[:, full:].copy()]

    def read(self):
        k = [codes * scale + zero for (codes, scale, zero), _ in self.full]
        v = [codes * scale + zero for _, (codes, scale, zero) in self.full]
        return np.concatenate(k + self.k, 1), np.concatenate(v + self.v, 1)

# %% wrong quant-6 the waiting tokens are not counted
# You look at what arrives now, not at what is waiting already. One by one, no group ever gets
# full.
# Seen: rajveer43/VeloxQuant-MLX#86
def encode(x, axis, bits):
    zero, most = x.min(axis, keepdims=True), x.max(axis, keepdims=True)
    scale = (most - zero) / (2**bits - 1)
    scale = np.where(scale == 0, 1, scale)
    return np.rint((x - zero) / scale).astype(np.uint8), scale, zero


class Cache:
    def __init__(self, group, bits):
        self.group, self.bits = group, bits
        self.full, self.k, self.v = [], [], []

    def append(self, k, v):
        full = k.shape[1] // self.group * self.group
        k, v = np.concatenate([*self.k, k], 1), np.concatenate([*self.v, v], 1)
        for start in range(0, full, self.group):
            now = np.s_[:, start : start + self.group]
            keys = encode(k[now], 1, self.bits)
            values = encode(v[now], 2, self.bits)
            self.full.append((keys, values))
        self.k, self.v = [k[:, full:].copy()], [v[:, full:].copy()]

    def read(self):
        k = [codes * scale + zero for (codes, scale, zero), _ in self.full]
        v = [codes * scale + zero for _, (codes, scale, zero) in self.full]
        return np.concatenate(k + self.k, 1), np.concatenate(v + self.v, 1)

# %% wrong quant-6 one group per call
# You quantise one group at most in each call. Many tokens at once may fill several.
def encode(x, axis, bits):
    zero, most = x.min(axis, keepdims=True), x.max(axis, keepdims=True)
    scale = (most - zero) / (2**bits - 1)
    scale = np.where(scale == 0, 1, scale)
    return np.rint((x - zero) / scale).astype(np.uint8), scale, zero


class Cache:
    def __init__(self, group, bits):
        self.group, self.bits = group, bits
        self.full, self.k, self.v = [], [], []

    def append(self, k, v):
        k, v = np.concatenate([*self.k, k], 1), np.concatenate([*self.v, v], 1)
        full = min(k.shape[1] // self.group, 1) * self.group
        for start in range(0, full, self.group):
            now = np.s_[:, start : start + self.group]
            keys = encode(k[now], 1, self.bits)
            values = encode(v[now], 2, self.bits)
            self.full.append((keys, values))
        self.k, self.v = [k[:, full:].copy()], [v[:, full:].copy()]

    def read(self):
        k = [codes * scale + zero for (codes, scale, zero), _ in self.full]
        v = [codes * scale + zero for _, (codes, scale, zero) in self.full]
        return np.concatenate(k + self.k, 1), np.concatenate(v + self.v, 1)

# %% wrong quant-6 only if exactly one group waits
# You quantise if exactly one group waits. A chunk may bring more than the rest of a group, and
# then it never happens.
# Seen: jy-yuan/KIVI#40
def encode(x, axis, bits):
    zero, most = x.min(axis, keepdims=True), x.max(axis, keepdims=True)
    scale = (most - zero) / (2**bits - 1)
    scale = np.where(scale == 0, 1, scale)
    return np.rint((x - zero) / scale).astype(np.uint8), scale, zero


class Cache:
    def __init__(self, group, bits):
        self.group, self.bits = group, bits
        self.full, self.k, self.v = [], [], []

    def append(self, k, v):
        k, v = np.concatenate([*self.k, k], 1), np.concatenate([*self.v, v], 1)
        full = self.group if k.shape[1] == self.group else 0
        for start in range(0, full, self.group):
            now = np.s_[:, start : start + self.group]
            keys = encode(k[now], 1, self.bits)
            values = encode(v[now], 2, self.bits)
            self.full.append((keys, values))
        self.k, self.v = [k[:, full:].copy()], [v[:, full:].copy()]

    def read(self):
        k = [codes * scale + zero for (codes, scale, zero), _ in self.full]
        v = [codes * scale + zero for _, (codes, scale, zero) in self.full]
        return np.concatenate(k + self.k, 1), np.concatenate(v + self.v, 1)

# %% wrong quant-6 one group too late
# A group that has just become full still waits. It is complete: quantise it now.
def encode(x, axis, bits):
    zero, most = x.min(axis, keepdims=True), x.max(axis, keepdims=True)
    scale = (most - zero) / (2**bits - 1)
    scale = np.where(scale == 0, 1, scale)
    return np.rint((x - zero) / scale).astype(np.uint8), scale, zero


class Cache:
    def __init__(self, group, bits):
        self.group, self.bits = group, bits
        self.full, self.k, self.v = [], [], []

    def append(self, k, v):
        k, v = np.concatenate([*self.k, k], 1), np.concatenate([*self.v, v], 1)
        full = (k.shape[1] - 1) // self.group * self.group
        for start in range(0, full, self.group):
            now = np.s_[:, start : start + self.group]
            keys = encode(k[now], 1, self.bits)
            values = encode(v[now], 2, self.bits)
            self.full.append((keys, values))
        self.k, self.v = [k[:, full:].copy()], [v[:, full:].copy()]

    def read(self):
        k = [codes * scale + zero for (codes, scale, zero), _ in self.full]
        v = [codes * scale + zero for _, (codes, scale, zero) in self.full]
        return np.concatenate(k + self.k, 1), np.concatenate(v + self.v, 1)

# %% wrong quant-6 all that waits as one group
# You quantise everything that waits as a single group. A group has `group` tokens; the range of
# more tokens is wider.
def encode(x, axis, bits):
    zero, most = x.min(axis, keepdims=True), x.max(axis, keepdims=True)
    scale = (most - zero) / (2**bits - 1)
    scale = np.where(scale == 0, 1, scale)
    return np.rint((x - zero) / scale).astype(np.uint8), scale, zero


class Cache:
    def __init__(self, group, bits):
        self.group, self.bits = group, bits
        self.full, self.k, self.v = [], [], []

    def append(self, k, v):
        k, v = np.concatenate([*self.k, k], 1), np.concatenate([*self.v, v], 1)
        full = k.shape[1] if k.shape[1] >= self.group else 0
        for start in [0] if full else []:
            now = np.s_[:, start : start + full]
            keys = encode(k[now], 1, self.bits)
            values = encode(v[now], 2, self.bits)
            self.full.append((keys, values))
        self.k, self.v = [k[:, full:].copy()], [v[:, full:].copy()]

    def read(self):
        k = [codes * scale + zero for (codes, scale, zero), _ in self.full]
        v = [codes * scale + zero for _, (codes, scale, zero) in self.full]
        return np.concatenate(k + self.k, 1), np.concatenate(v + self.v, 1)

# %% wrong quant-6 one step too many
# You divided the range by the number of codes. With 8 bits the largest number then needs the code
# 256, which is 0 again.
# Seen: https://github.com/onnx/tensorflow-onnx/pull/189
def encode(x, axis, bits):
    zero, most = x.min(axis, keepdims=True), x.max(axis, keepdims=True)
    scale = (most - zero) / 2**bits
    scale = np.where(scale == 0, 1, scale)
    return np.rint((x - zero) / scale).astype(int).astype(np.uint8), scale, zero


class Cache:
    def __init__(self, group, bits):
        self.group, self.bits = group, bits
        self.full, self.k, self.v = [], [], []

    def append(self, k, v):
        k, v = np.concatenate([*self.k, k], 1), np.concatenate([*self.v, v], 1)
        full = k.shape[1] // self.group * self.group
        for start in range(0, full, self.group):
            now = np.s_[:, start : start + self.group]
            keys = encode(k[now], 1, self.bits)
            values = encode(v[now], 2, self.bits)
            self.full.append((keys, values))
        self.k, self.v = [k[:, full:].copy()], [v[:, full:].copy()]

    def read(self):
        k = [codes * scale + zero for (codes, scale, zero), _ in self.full]
        v = [codes * scale + zero for _, (codes, scale, zero) in self.full]
        return np.concatenate(k + self.k, 1), np.concatenate(v + self.v, 1)

# %% wrong quant-6 cut off in place of rounded
# Your codes are cut off. Every number comes back too small, by up to a whole step.
def encode(x, axis, bits):
    zero, most = x.min(axis, keepdims=True), x.max(axis, keepdims=True)
    scale = (most - zero) / (2**bits - 1)
    scale = np.where(scale == 0, 1, scale)
    return ((x - zero) / scale).astype(np.uint8), scale, zero


class Cache:
    def __init__(self, group, bits):
        self.group, self.bits = group, bits
        self.full, self.k, self.v = [], [], []

    def append(self, k, v):
        k, v = np.concatenate([*self.k, k], 1), np.concatenate([*self.v, v], 1)
        full = k.shape[1] // self.group * self.group
        for start in range(0, full, self.group):
            now = np.s_[:, start : start + self.group]
            keys = encode(k[now], 1, self.bits)
            values = encode(v[now], 2, self.bits)
            self.full.append((keys, values))
        self.k, self.v = [k[:, full:].copy()], [v[:, full:].copy()]

    def read(self):
        k = [codes * scale + zero for (codes, scale, zero), _ in self.full]
        v = [codes * scale + zero for _, (codes, scale, zero) in self.full]
        return np.concatenate(k + self.k, 1), np.concatenate(v + self.v, 1)

# %% wrong quant-6 always 15
# Your codes run from 0 to 15 whatever `bits` says.
def encode(x, axis, bits):
    zero, most = x.min(axis, keepdims=True), x.max(axis, keepdims=True)
    scale = (most - zero) / 15
    scale = np.where(scale == 0, 1, scale)
    return np.rint((x - zero) / scale).astype(np.uint8), scale, zero


class Cache:
    def __init__(self, group, bits):
        self.group, self.bits = group, bits
        self.full, self.k, self.v = [], [], []

    def append(self, k, v):
        k, v = np.concatenate([*self.k, k], 1), np.concatenate([*self.v, v], 1)
        full = k.shape[1] // self.group * self.group
        for start in range(0, full, self.group):
            now = np.s_[:, start : start + self.group]
            keys = encode(k[now], 1, self.bits)
            values = encode(v[now], 2, self.bits)
            self.full.append((keys, values))
        self.k, self.v = [k[:, full:].copy()], [v[:, full:].copy()]

    def read(self):
        k = [codes * scale + zero for (codes, scale, zero), _ in self.full]
        v = [codes * scale + zero for _, (codes, scale, zero) in self.full]
        return np.concatenate(k + self.k, 1), np.concatenate(v + self.v, 1)

# %% wrong quant-6 a range that holds 0
# You widen the range until it holds 0. Numbers that lie far from 0 on one side then share a few
# codes.
# Seen: pytorch/pytorch#173075
def encode(x, axis, bits):
    zero, most = x.min(axis, keepdims=True), x.max(axis, keepdims=True)
    zero, most = np.minimum(zero, 0), np.maximum(most, 0)
    scale = (most - zero) / (2**bits - 1)
    scale = np.where(scale == 0, 1, scale)
    return np.rint((x - zero) / scale).astype(np.uint8), scale, zero


class Cache:
    def __init__(self, group, bits):
        self.group, self.bits = group, bits
        self.full, self.k, self.v = [], [], []

    def append(self, k, v):
        k, v = np.concatenate([*self.k, k], 1), np.concatenate([*self.v, v], 1)
        full = k.shape[1] // self.group * self.group
        for start in range(0, full, self.group):
            now = np.s_[:, start : start + self.group]
            keys = encode(k[now], 1, self.bits)
            values = encode(v[now], 2, self.bits)
            self.full.append((keys, values))
        self.k, self.v = [k[:, full:].copy()], [v[:, full:].copy()]

    def read(self):
        k = [codes * scale + zero for (codes, scale, zero), _ in self.full]
        v = [codes * scale + zero for _, (codes, scale, zero) in self.full]
        return np.concatenate(k + self.k, 1), np.concatenate(v + self.v, 1)

# %% wrong quant-6 zero as a code
# You round `zero` to a whole number of steps. It may be any number here, so that the smallest one
# comes back as it was.
def encode(x, axis, bits):
    zero, most = x.min(axis, keepdims=True), x.max(axis, keepdims=True)
    scale = (most - zero) / (2**bits - 1)
    scale = np.where(scale == 0, 1, scale)
    zero, top = np.rint(zero / scale) * scale, 2**bits - 1
    return np.clip(np.rint((x - zero) / scale), 0, top).astype(np.uint8), scale, zero


class Cache:
    def __init__(self, group, bits):
        self.group, self.bits = group, bits
        self.full, self.k, self.v = [], [], []

    def append(self, k, v):
        k, v = np.concatenate([*self.k, k], 1), np.concatenate([*self.v, v], 1)
        full = k.shape[1] // self.group * self.group
        for start in range(0, full, self.group):
            now = np.s_[:, start : start + self.group]
            keys = encode(k[now], 1, self.bits)
            values = encode(v[now], 2, self.bits)
            self.full.append((keys, values))
        self.k, self.v = [k[:, full:].copy()], [v[:, full:].copy()]

    def read(self):
        k = [codes * scale + zero for (codes, scale, zero), _ in self.full]
        v = [codes * scale + zero for _, (codes, scale, zero) in self.full]
        return np.concatenate(k + self.k, 1), np.concatenate(v + self.v, 1)

# %% wrong quant-6 symmetric codes
# You have no zero: your codes lie around 0. Numbers on one side of 0 then use half of the codes,
# or fewer.
def encode(x, axis, bits):
    zero, most = x.min(axis, keepdims=True), x.max(axis, keepdims=True)
    top = 2 ** (bits - 1) - 1
    scale = np.maximum(most, -zero) / top
    zero = -scale * top
    scale = np.where(scale == 0, 1, scale)
    return np.rint((x - zero) / scale).astype(np.uint8), scale, zero


class Cache:
    def __init__(self, group, bits):
        self.group, self.bits = group, bits
        self.full, self.k, self.v = [], [], []

    def append(self, k, v):
        k, v = np.concatenate([*self.k, k], 1), np.concatenate([*self.v, v], 1)
        full = k.shape[1] // self.group * self.group
        for start in range(0, full, self.group):
            now = np.s_[:, start : start + self.group]
            keys = encode(k[now], 1, self.bits)
            values = encode(v[now], 2, self.bits)
            self.full.append((keys, values))
        self.k, self.v = [k[:, full:].copy()], [v[:, full:].copy()]

    def read(self):
        k = [codes * scale + zero for (codes, scale, zero), _ in self.full]
        v = [codes * scale + zero for _, (codes, scale, zero) in self.full]
        return np.concatenate(k + self.k, 1), np.concatenate(v + self.v, 1)

# %% wrong quant-6 0 divided by 0
# Where all numbers of a slice are equal, your scale is 0, and 0 divided by 0 is NaN.
# Seen: https://github.com/openvinotoolkit/openvino/pull/28326
# Seen: https://github.com/openvinotoolkit/openvino/pull/34105
def encode(x, axis, bits):
    zero, most = x.min(axis, keepdims=True), x.max(axis, keepdims=True)
    scale = (most - zero) / (2**bits - 1)
    return np.rint((x - zero) / scale).astype(np.uint8), scale, zero


class Cache:
    def __init__(self, group, bits):
        self.group, self.bits = group, bits
        self.full, self.k, self.v = [], [], []

    def append(self, k, v):
        k, v = np.concatenate([*self.k, k], 1), np.concatenate([*self.v, v], 1)
        full = k.shape[1] // self.group * self.group
        for start in range(0, full, self.group):
            now = np.s_[:, start : start + self.group]
            keys = encode(k[now], 1, self.bits)
            values = encode(v[now], 2, self.bits)
            self.full.append((keys, values))
        self.k, self.v = [k[:, full:].copy()], [v[:, full:].copy()]

    def read(self):
        k = [codes * scale + zero for (codes, scale, zero), _ in self.full]
        v = [codes * scale + zero for _, (codes, scale, zero) in self.full]
        return np.concatenate(k + self.k, 1), np.concatenate(v + self.v, 1)

# %% wrong quant-6 full groups kept as floats
# You quantise and at once turn the codes back into floats. The numbers are as coarse as INT4, and
# no byte is saved.
# Seen: https://github.com/sgl-project/sglang/pull/22777
def encode(x, axis, bits):
    zero, most = x.min(axis, keepdims=True), x.max(axis, keepdims=True)
    scale = (most - zero) / (2**bits - 1)
    scale = np.where(scale == 0, 1, scale)
    return np.rint((x - zero) / scale).astype(np.uint8), scale, zero


class Cache:
    def __init__(self, group, bits):
        self.group, self.bits = group, bits
        self.full, self.k, self.v = [], [], []

    def append(self, k, v):
        k, v = np.concatenate([*self.k, k], 1), np.concatenate([*self.v, v], 1)
        full = k.shape[1] // self.group * self.group
        for start in range(0, full, self.group):
            now = np.s_[:, start : start + self.group]
            keys = encode(k[now], 1, self.bits)
            values = encode(v[now], 2, self.bits)
            keys, values = (c * scale + zero for c, scale, zero in (keys, values))
            self.full.append((keys, values))
        self.k, self.v = [k[:, full:].copy()], [v[:, full:].copy()]

    def read(self):
        k = [keys for keys, _ in self.full]
        v = [values for _, values in self.full]
        return np.concatenate(k + self.k, 1), np.concatenate(v + self.v, 1)

# %% wrong quant-6 codes in a wide type
# Each of your codes takes eight bytes, as many as the number it stands for.
def encode(x, axis, bits):
    zero, most = x.min(axis, keepdims=True), x.max(axis, keepdims=True)
    scale = (most - zero) / (2**bits - 1)
    scale = np.where(scale == 0, 1, scale)
    return np.rint((x - zero) / scale).astype(int), scale, zero


class Cache:
    def __init__(self, group, bits):
        self.group, self.bits = group, bits
        self.full, self.k, self.v = [], [], []

    def append(self, k, v):
        k, v = np.concatenate([*self.k, k], 1), np.concatenate([*self.v, v], 1)
        full = k.shape[1] // self.group * self.group
        for start in range(0, full, self.group):
            now = np.s_[:, start : start + self.group]
            keys = encode(k[now], 1, self.bits)
            values = encode(v[now], 2, self.bits)
            self.full.append((keys, values))
        self.k, self.v = [k[:, full:].copy()], [v[:, full:].copy()]

    def read(self):
        k = [codes * scale + zero for (codes, scale, zero), _ in self.full]
        v = [codes * scale + zero for _, (codes, scale, zero) in self.full]
        return np.concatenate(k + self.k, 1), np.concatenate(v + self.v, 1)

# %% wrong quant-6 a view of the caller's memory
# You keep a view of what you were given. When the caller writes the next tokens there, your newest
# ones change; a view also keeps the whole array alive.
def encode(x, axis, bits):
    zero, most = x.min(axis, keepdims=True), x.max(axis, keepdims=True)
    scale = (most - zero) / (2**bits - 1)
    scale = np.where(scale == 0, 1, scale)
    return np.rint((x - zero) / scale).astype(np.uint8), scale, zero


class Cache:
    def __init__(self, group, bits):
        self.group, self.bits = group, bits
        self.full, self.k, self.v = [], [], []

    def append(self, k, v):
        if self.k and self.k[0].size:
            k, v = np.concatenate([*self.k, k], 1), np.concatenate([*self.v, v], 1)
        full = k.shape[1] // self.group * self.group
        for start in range(0, full, self.group):
            now = np.s_[:, start : start + self.group]
            keys = encode(k[now], 1, self.bits)
            values = encode(v[now], 2, self.bits)
            self.full.append((keys, values))
        self.k, self.v = [k[:, full:]], [v[:, full:]]

    def read(self):
        k = [codes * scale + zero for (codes, scale, zero), _ in self.full]
        v = [codes * scale + zero for _, (codes, scale, zero) in self.full]
        return np.concatenate(k + self.k, 1), np.concatenate(v + self.v, 1)

# %% wrong quant-6 the newest tokens come first
# Your newest tokens stand before the full groups. They are the last ones of the text.
def encode(x, axis, bits):
    zero, most = x.min(axis, keepdims=True), x.max(axis, keepdims=True)
    scale = (most - zero) / (2**bits - 1)
    scale = np.where(scale == 0, 1, scale)
    return np.rint((x - zero) / scale).astype(np.uint8), scale, zero


class Cache:
    def __init__(self, group, bits):
        self.group, self.bits = group, bits
        self.full, self.k, self.v = [], [], []

    def append(self, k, v):
        k, v = np.concatenate([*self.k, k], 1), np.concatenate([*self.v, v], 1)
        full = k.shape[1] // self.group * self.group
        for start in range(0, full, self.group):
            now = np.s_[:, start : start + self.group]
            keys = encode(k[now], 1, self.bits)
            values = encode(v[now], 2, self.bits)
            self.full.append((keys, values))
        self.k, self.v = [k[:, full:].copy()], [v[:, full:].copy()]

    def read(self):
        k = [codes * scale + zero for (codes, scale, zero), _ in self.full]
        v = [codes * scale + zero for _, (codes, scale, zero) in self.full]
        return np.concatenate(self.k + k, 1), np.concatenate(self.v + v, 1)

# %% wrong quant-6 the newest tokens are lost
# What doesn't fill a group is not returned. `read` gives all tokens.
def encode(x, axis, bits):
    zero, most = x.min(axis, keepdims=True), x.max(axis, keepdims=True)
    scale = (most - zero) / (2**bits - 1)
    scale = np.where(scale == 0, 1, scale)
    return np.rint((x - zero) / scale).astype(np.uint8), scale, zero


class Cache:
    def __init__(self, group, bits):
        self.group, self.bits = group, bits
        self.full, self.k, self.v = [], [], []

    def append(self, k, v):
        k, v = np.concatenate([*self.k, k], 1), np.concatenate([*self.v, v], 1)
        full = k.shape[1] // self.group * self.group
        for start in range(0, full, self.group):
            now = np.s_[:, start : start + self.group]
            keys = encode(k[now], 1, self.bits)
            values = encode(v[now], 2, self.bits)
            self.full.append((keys, values))
        self.k, self.v = [k[:, full:].copy()], [v[:, full:].copy()]

    def read(self):
        k = [codes * scale + zero for (codes, scale, zero), _ in self.full]
        v = [codes * scale + zero for _, (codes, scale, zero) in self.full]
        return np.concatenate([*k, self.k[0][:, :0]], 1), np.concatenate([*v, self.v[0][:, :0]], 1)

# %% [markdown]
# ## quant-7: Write the check
#
# *quant-7 · 4 points · 12 minutes · ●●●○ difficulty 3 of 4*
#
# A quantiser that is wrong still gives a model that talks, only a little worse. So it needs a
# check that can fail. Write `accepts(quantize)`. It gets a *function* that somebody else wrote,
# `quantize(x, bits)` for a float64 array `x` `[n, d]`, and returns `True` if it keeps the promise,
# `False` if not:
#
# - It returns `codes` `[n, d]`, **int8**, and `scale` `[n, 1]`, floats: symmetric, one scale per
#   row. The codes end at 2^(bits - 1) - 1 on either side. `bits` is from 2 to 8.
# - No error of `codes * scale` is above half a step, and the step is as small as can be: the row's
#   **largest magnitude divided by the largest code**. Rows of zeros come back as zeros.
# - The numbers are finite, between -10⁶ and 10⁶ and as small as 10⁻⁶, in rows of any width; their
#   signs may be what they like. `x` stays as it is.
#
# Right functions differ: in what they do exactly between two codes, in the scale of a row of
# zeros, and in the last digits, because some compute in float32 (allow a ten-thousandth of a
# step). **Accept them all.** A function that raises an error is wrong: return `False`, don't let
# the error through. Judge only by calling it, with arrays that you choose.
#
# **A miniature.** `lambda x, bits: (np.zeros(x.shape, np.int8), np.abs(x).max(1, keepdims=True))`
# has the right shapes and types. Its errors are far above half a step.
#
# The check cell hands you one right and one wrong function at a time: you need both verdicts. Half
# of the points are for judging all of them rightly. Read first: *A scale is a step* and *A channel
# without a range* in [chapter 11](../book/11_quantization.ipynb).
#
# <details>
# <summary>Hint 1 for quant-7: a property, not an answer</summary>
#
# Don't compare codes with codes of your own: exactly between two codes both are right. Work out
# from `x` how large an error may be, and compare the error.
#
# </details>
#
# <details>
# <summary>Hint 2 for quant-7: choose rows that hurt</summary>
#
# Which row makes a scale of 0? Which one shows that a magnitude was forgotten, that the rows share
# a scale, that small numbers vanish, that `bits` is ignored? And what does a comparison with NaN
# give?
#
# </details>

# %% answer quant-7 points=4 minutes=12 difficulty=3 forbid=attnlearn
def accepts(quantize):
    """True if quantize(x, bits) -> codes, scale keeps its promise."""
    # BEGIN SOLUTION
    rng = np.random.default_rng(0)
    for bits in (2, 4, 5, 8):
        x = rng.normal(size=(7, 5)) * 10.0 ** np.arange(-6, 8, 2)[:, None] / 10
        x[1], x[2], x[4] = -np.abs(x[1]), 0, np.abs(x[4])
        top, given = 2 ** (bits - 1) - 1, x.copy()
        step = np.abs(x).max(1, keepdims=True) / top
        try:
            codes, scale = quantize(given, bits)
            right = (
                (codes.shape, codes.dtype, scale.shape) == (x.shape, np.int8, (7, 1))
                and np.abs(codes.astype(int)).max() <= top
                and (np.abs(codes * scale - x) <= 0.5001 * step).all()
                and np.array_equal(given, x)
            )
        except Exception:
            return False
        if not right:
            return False
    return True
    # END SOLUTION

# %% check quant-7
case = check("quant-7")


def _right(x, bits):
    step = np.abs(x).max(1, keepdims=True) / (2 ** (bits - 1) - 1)
    step = np.where(step == 0, 1, step)
    return np.rint(x / step).astype(np.int8), step


def _tiny_for_zeros(x, bits):  # a row of zeros may have any scale
    codes, step = _right(x, bits)
    return codes, np.where(x.any(1, keepdims=True), step, 1e-30)


def _right_too(x, bits):  # float32, halves away from 0, a tiny scale for zeros
    top = np.float32(2 ** (bits - 1) - 1)
    x = x.astype(np.float32)
    step = np.maximum(np.abs(x).max(1, keepdims=True), np.float32(1e-30)) / top
    codes = np.sign(x) * np.floor(np.abs(x) / step + np.float32(0.5))
    return np.clip(codes, -top, top).astype(np.int8), step


def _int8(codes):  # what a cast does to codes that int8 doesn't have: it wraps round
    return np.rint(codes).astype(np.int64).astype(np.int8)


def _truncates(x, bits):
    _, step = _right(x, bits)
    return (x / step).astype(np.int8), step


def _wraps(x, bits):
    step = np.abs(x).max(1, keepdims=True) / 2 ** (bits - 1)
    step = np.where(step == 0, 1, step)
    codes = np.rint(x / step)
    top = 2 ** (bits - 1)
    return np.where(codes == top, -top, codes).astype(np.int8), step


def _no_magnitude(x, bits):
    step = np.maximum(x.max(1, keepdims=True), 1e-9) / (2 ** (bits - 1) - 1)
    return _int8(np.clip(x / step, -1e9, 1e9)), step


def _one_scale(x, bits):
    codes, step = _right(x.reshape(1, -1), bits)
    return codes.reshape(x.shape), np.full((len(x), 1), step.item())


def _zeros_give_nan(x, bits):
    step = np.abs(x).max(1, keepdims=True) / (2 ** (bits - 1) - 1)
    return np.nan_to_num(np.rint(x / step)).astype(np.int8), np.where(step == 0, np.nan, step)


def _small_rows_vanish(x, bits):
    step = np.abs(x).max(1, keepdims=True) / (2 ** (bits - 1) - 1)
    step = np.maximum(step, 1e-5)
    return np.rint(x / step).astype(np.int8), step


def _clips_outliers(x, bits):  # the scale comes from the second largest magnitude
    top = 2 ** (bits - 1) - 1
    step = np.maximum(np.sort(np.abs(x), 1)[:, -2:-1], 1e-30) / top
    return np.clip(np.rint(x / step), -top, top).astype(np.int8), step


def _always_8_bits(x, bits):
    return _right(x, 8)


def _too_coarse(x, bits):
    return _right(x, bits - 1 if 2 < bits < 8 else bits)


def _floats(x, bits):
    codes, step = _right(x, bits)
    return codes.astype(float), step


def _overwrites(x, bits):
    codes, step = _right(x, bits)
    x -= codes * step
    return codes, step


def _refuses_zeros(x, bits):
    if (x == 0).all(1).any():
        raise ZeroDivisionError("a row of zeros has no scale")
    return _right(x, bits)


def _even_widths(x, bits):
    if x.shape[1] % 2:
        raise ValueError("the width must be even")
    return _right(x, bits)


def _verdicts(right, wrong):
    return {"the right function": accepts(right), "the wrong function": accepts(wrong)}


case("codes cut off", lambda: _verdicts(_right, _truncates))
case("a code that wraps round", lambda: _verdicts(_tiny_for_zeros, _wraps))
case("the largest number", lambda: _verdicts(_right, _no_magnitude))
case("one scale for all rows", lambda: _verdicts(_right_too, _one_scale))
case("NaN for rows of zeros", lambda: _verdicts(_right, _zeros_give_nan))
case("small rows vanish", lambda: _verdicts(_right_too, _small_rows_vanish))
case("outliers are clipped", lambda: _verdicts(_right_too, _clips_outliers))
case("bits are ignored", lambda: _verdicts(_right, _always_8_bits))
case("one bit wasted below 8", lambda: _verdicts(_right_too, _too_coarse))
case("codes that are floats", lambda: _verdicts(_right, _floats))
case("x is overwritten", lambda: _verdicts(_tiny_for_zeros, _overwrites))
case("an error for rows of zeros", lambda: _verdicts(_right, _refuses_zeros))
case("an error for odd widths", lambda: _verdicts(_right, _even_widths))


@case("all of them together", weight=15)
def _():
    right = (_right, _right_too, _tiny_for_zeros)
    wrong = (_truncates, _wraps, _no_magnitude, _one_scale, _zeros_give_nan, _floats)
    rest = (_small_rows_vanish, _always_8_bits, _too_coarse, _overwrites, _even_widths)
    rest += (_refuses_zeros, _clips_outliers)
    return {function.__name__: accepts(function) for function in right + wrong + rest}

# %% hidden quant-7
case = check("quant-7")


def _per_channel(x, bits):
    codes, step = _right(x.T.copy(), bits)
    return codes.T.copy(), step.mean() * np.ones((len(x), 1))


def _upside_down(x, bits):
    codes, step = _right(x, bits)
    return codes, 1 / step


case("a scale per channel", lambda: _verdicts(_right, _per_channel))
case("the scale upside down", lambda: _verdicts(_right, _upside_down))

# %% right quant-7 row by row
def accepts(quantize):
    rng = np.random.RandomState(5)
    rows = [[-8e5, 3, 1, 9e4, -5], [0] * 5, [2e-6, 1e-6, -3e-7, 5e-7, 9e-7], [1, 2, 3, 4, 4.4]]
    x = np.concatenate([rows, [[-3.3, -1, -2, -2.5, -0.1]], rng.randn(20, 5)])
    for bits in range(2, 9):
        top = 2 ** (bits - 1) - 1
        given = np.array(x)
        try:
            codes, scale = quantize(given, bits)
            if codes.dtype != np.int8 or codes.shape != x.shape or scale.shape != (len(x), 1):
                return False
            for row, c, s in zip(x, codes.tolist(), scale[:, 0].tolist(), strict=True):
                limit = 0.5 * max(abs(row)) / top * (1 + 2e-4)
                if max(map(abs, c)) > top:
                    return False
                if not all(abs(a * s - b) <= limit for a, b in zip(c, row, strict=True)):
                    return False
        except Exception:
            return False
        if not np.array_equal(given, x):
            return False
    return True

# %% right quant-7 step and error apart
def accepts(quantize):
    def keeps(x, bits):
        top, before = 2 ** (bits - 1) - 1, x.copy()
        codes, scale = quantize(x, bits)
        alive = np.abs(before).max(1) > 0
        needed = np.abs(before).max(1)[alive] / top
        back = codes * scale
        return bool(
            np.array_equal(x, before)
            and codes.dtype == np.int8
            and codes.shape == x.shape
            and scale.shape == (len(x), 1)
            and np.all(codes >= -top)
            and np.all(codes <= top)
            and np.allclose(scale[alive, 0], needed, rtol=1e-5, atol=0)
            and np.all(back[~alive] == 0)
            and np.all(np.abs(back - before)[alive] <= 0.5002 * needed[:, None])
        )

    rng = np.random.default_rng(3)
    try:
        for bits in (8, 4, 3, 2):
            for d in (1, 7, 64):
                x = rng.uniform(-1, 1, (9, d)) * 10.0 ** rng.integers(-5, 6, (9, 1))
                x[0], x[1], x[2] = 0, -np.abs(x[1]), np.abs(x[2]) / 1e5
                if not keeps(x, bits):
                    return False
    except Exception:
        return False
    return True

# %% wrong quant-7 a scale of 1 for rows of zeros
# Right functions are rejected. A row of zeros may have any scale that is a number: all its codes
# are 0.
def accepts(quantize):
    """True if quantize(x, bits) -> codes, scale keeps its promise."""
    rng = np.random.default_rng(0)
    for bits in range(2, 9):
        top = 2 ** (bits - 1) - 1
        for d in (1, 2, 5, 8):
            x = rng.normal(size=(9, d))
            x[1] *= 1e5
            x[2] *= 1e-6
            x[3] = 0
            x[4] = -np.abs(x[4])
            x[5] = np.abs(x[5])
            x[6, 0] = 50
            x[7, 0] = -50
            kept = x.copy()
            try:
                codes, scale = quantize(x, bits)
            except Exception:
                return False
            if not np.array_equal(x, kept):
                return False
            if codes.dtype != np.int8 or codes.shape != x.shape or scale.shape != (9, 1):
                return False
            c = codes.astype(int)
            if np.abs(c).max() > top:
                return False
            step = np.abs(x).max(1, keepdims=True) / top
            error = np.abs(c * scale.astype(float) - x)
            if not (error <= step * 0.5001).all():
                return False
            zero = step[:, 0] == 0
            if not (scale[zero] == 1).all():
                return False
            if not np.allclose(scale[~zero], step[~zero], rtol=1e-4, atol=0):
                return False
    return True

# %% wrong quant-7 a whole step is forgiven
# Functions pass your check that cut their codes off. An error may be half a step, not a whole one.
def accepts(quantize):
    rng = np.random.default_rng(0)
    for bits in (2, 4, 5, 8):
        x = rng.normal(size=(7, 5)) * 10.0 ** np.arange(-6, 8, 2)[:, None] / 10
        x[1], x[2], x[4] = -np.abs(x[1]), 0, np.abs(x[4])
        top, given = 2 ** (bits - 1) - 1, x.copy()
        step = np.abs(x).max(1, keepdims=True) / top
        try:
            codes, scale = quantize(given, bits)
            right = (
                (codes.shape, codes.dtype, scale.shape) == (x.shape, np.int8, (7, 1))
                and np.abs(codes.astype(int)).max() <= top
                and (np.abs(codes * scale - x) <= 1.0001 * step).all()
                and np.array_equal(given, x)
            )
        except Exception:
            return False
        if not right:
            return False
    return True

# %% wrong quant-7 the function's own scale is believed
# A function passes your check whose step is twice as wide as needed. Its errors are within half of
# *its* step: work out from x which step would do.
def accepts(quantize):
    rng = np.random.default_rng(0)
    for bits in (2, 4, 5, 8):
        x = rng.normal(size=(7, 5)) * 10.0 ** np.arange(-6, 8, 2)[:, None] / 10
        x[1], x[2], x[4] = -np.abs(x[1]), 0, np.abs(x[4])
        top, given = 2 ** (bits - 1) - 1, x.copy()
        try:
            codes, scale = quantize(given, bits)
            right = (
                (codes.shape, codes.dtype, scale.shape) == (x.shape, np.int8, (7, 1))
                and np.abs(codes.astype(int)).max() <= top
                and (np.abs(codes * scale - x) <= 0.5001 * scale).all()
                and np.array_equal(given, x)
            )
        except Exception:
            return False
        if not right:
            return False
    return True

# %% wrong quant-7 the typical error
# Functions pass your check that are far off in one place of every row. Half a step holds for every
# number: look at the largest error, not at the middle one.
def accepts(quantize):
    rng = np.random.default_rng(0)
    for bits in (2, 4, 5, 8):
        x = rng.normal(size=(7, 5)) * 10.0 ** np.arange(-6, 8, 2)[:, None] / 10
        x[1], x[2], x[4] = -np.abs(x[1]), 0, np.abs(x[4])
        top, given = 2 ** (bits - 1) - 1, x.copy()
        step = np.abs(x).max(1, keepdims=True) / top
        try:
            codes, scale = quantize(given, bits)
            right = (
                (codes.shape, codes.dtype, scale.shape) == (x.shape, np.int8, (7, 1))
                and np.abs(codes.astype(int)).max() <= top
                and (np.median(np.abs(codes * scale - x), 1, keepdims=True) <= 0.5001 * step).all()
                and np.array_equal(given, x)
            )
        except Exception:
            return False
        if not right:
            return False
    return True

# %% wrong quant-7 codes of my own
# Right functions are rejected. Exactly between two codes, both are right; your rows hold such
# numbers, and you compare codes.
# Seen: tenstorrent/tt-metal#56525
# Seen: https://github.com/llvm/torch-mlir/pull/3569
def accepts(quantize):
    rng = np.random.default_rng(0)
    for bits in (2, 4, 5, 8):
        x = rng.normal(size=(7, 5)) * 10.0 ** np.arange(-6, 8, 2)[:, None] / 10
        x = np.array([[3.0, 1.5, -1.5, 0.5, 2.5]] * 7)
        x[1], x[2] = -np.abs(x[1]), 0
        x[3], x[4] = x[3] * 1e-6, x[4] * 1e5
        top, given = 2 ** (bits - 1) - 1, x.copy()
        step = np.abs(x).max(1, keepdims=True) / top
        try:
            codes, scale = quantize(given, bits)
            right = (
                (codes.shape, codes.dtype, scale.shape) == (x.shape, np.int8, (7, 1))
                and np.abs(codes.astype(int)).max() <= top
                and np.array_equal(codes, np.rint(x / np.where(step == 0, 1, step)))
                and np.array_equal(given, x)
            )
        except Exception:
            return False
        if not right:
            return False
    return True

# %% wrong quant-7 no room for the last digits
# Right functions are rejected that compute in float32. Their last digits differ, an error may be a
# hair above half a step, and the scale is float32, too.
# Seen: https://github.com/ml-explore/mlx/pull/295
def accepts(quantize):
    rng = np.random.default_rng(0)
    for bits in (2, 4, 5, 8):
        x = rng.normal(size=(7, 5)) * 10.0 ** np.arange(-6, 8, 2)[:, None] / 10
        x[1], x[2], x[4] = -np.abs(x[1]), 0, np.abs(x[4])
        top, given = 2 ** (bits - 1) - 1, x.copy()
        step = np.abs(x).max(1, keepdims=True) / top
        try:
            codes, scale = quantize(given, bits)
            right = (
                (codes.shape, codes.dtype, scale.shape) == (x.shape, np.int8, (7, 1))
                and np.abs(codes.astype(int)).max() <= top
                and (np.abs(codes * scale - x) <= 0.5 * step).all()
                and np.array_equal(scale[step > 0], step[step > 0])
                and np.array_equal(given, x)
            )
        except Exception:
            return False
        if not right:
            return False
    return True

# %% wrong quant-7 NaN passes
# A function passes your check that gives NaN. You look for errors that are too large, and NaN is
# larger than nothing: ask that every error is small.
# Seen: https://github.com/Integral2u/SharpMind/pull/19
def accepts(quantize):
    rng = np.random.default_rng(0)
    for bits in (2, 4, 5, 8):
        x = rng.normal(size=(7, 5)) * 10.0 ** np.arange(-6, 8, 2)[:, None] / 10
        x[1], x[2], x[4] = -np.abs(x[1]), 0, np.abs(x[4])
        top, given = 2 ** (bits - 1) - 1, x.copy()
        step = np.abs(x).max(1, keepdims=True) / top
        try:
            codes, scale = quantize(given, bits)
            right = (
                (codes.shape, codes.dtype, scale.shape) == (x.shape, np.int8, (7, 1))
                and np.abs(codes.astype(int)).max() <= top
                and not (np.abs(codes * scale - x) > 0.5001 * step).any()
                and np.array_equal(given, x)
            )
        except Exception:
            return False
        if not right:
            return False
    return True

# %% wrong quant-7 no row of zeros
# A function passes your check that divides 0 by 0. Rows of zeros are promised, too.
# Seen: https://github.com/pytorch/ao/pull/4762
def accepts(quantize):
    rng = np.random.default_rng(0)
    for bits in (2, 4, 5, 8):
        x = rng.normal(size=(7, 5)) * 10.0 ** np.arange(-6, 8, 2)[:, None] / 10
        x[1], x[4] = -np.abs(x[1]), np.abs(x[4])
        top, given = 2 ** (bits - 1) - 1, x.copy()
        step = np.abs(x).max(1, keepdims=True) / top
        try:
            codes, scale = quantize(given, bits)
            right = (
                (codes.shape, codes.dtype, scale.shape) == (x.shape, np.int8, (7, 1))
                and np.abs(codes.astype(int)).max() <= top
                and (np.abs(codes * scale - x) <= 0.5001 * step).all()
                and np.array_equal(given, x)
            )
        except Exception:
            return False
        if not right:
            return False
    return True

# %% wrong quant-7 only numbers above 0
# A function passes your check that takes the largest number for the largest magnitude. Choose rows
# in which they differ.
def accepts(quantize):
    rng = np.random.default_rng(0)
    for bits in (2, 4, 5, 8):
        x = rng.normal(size=(7, 5)) * 10.0 ** np.arange(-6, 8, 2)[:, None] / 10
        x[2] = 0
        x = np.abs(x)
        top, given = 2 ** (bits - 1) - 1, x.copy()
        step = np.abs(x).max(1, keepdims=True) / top
        try:
            codes, scale = quantize(given, bits)
            right = (
                (codes.shape, codes.dtype, scale.shape) == (x.shape, np.int8, (7, 1))
                and np.abs(codes.astype(int)).max() <= top
                and (np.abs(codes * scale - x) <= 0.5001 * step).all()
                and np.array_equal(given, x)
            )
        except Exception:
            return False
        if not right:
            return False
    return True

# %% wrong quant-7 all rows of one size
# Functions pass your check that share a scale between rows, or lose small ones. Where all rows are
# of the same size, nobody notices.
# Seen: https://github.com/pytorch/ao/pull/2253
def accepts(quantize):
    rng = np.random.default_rng(0)
    for bits in (2, 4, 5, 8):
        sizes = rng.permuted(np.tile([1, 0.6, 0.3, 0.2, 0.05], (7, 1)), axis=1)
        x = sizes * rng.choice([-1.0, 1], (7, 5))
        x[1], x[2], x[4] = -np.abs(x[1]), 0, np.abs(x[4])
        top, given = 2 ** (bits - 1) - 1, x.copy()
        step = np.abs(x).max(1, keepdims=True) / top
        try:
            codes, scale = quantize(given, bits)
            right = (
                (codes.shape, codes.dtype, scale.shape) == (x.shape, np.int8, (7, 1))
                and np.abs(codes.astype(int)).max() <= top
                and (np.abs(codes * scale - x) <= 0.5001 * step).all()
                and np.array_equal(given, x)
            )
        except Exception:
            return False
        if not right:
            return False
    return True

# %% wrong quant-7 no small rows
# A function passes your check that loses rows of small numbers. Numbers as small as 10⁻⁶ are
# promised.
def accepts(quantize):
    rng = np.random.default_rng(0)
    for bits in (2, 4, 5, 8):
        x = rng.normal(size=(7, 5)) * 10.0 ** np.arange(0, 7)[:, None] / 10
        x[1], x[2], x[4] = -np.abs(x[1]), 0, np.abs(x[4])
        top, given = 2 ** (bits - 1) - 1, x.copy()
        step = np.abs(x).max(1, keepdims=True) / top
        try:
            codes, scale = quantize(given, bits)
            right = (
                (codes.shape, codes.dtype, scale.shape) == (x.shape, np.int8, (7, 1))
                and np.abs(codes.astype(int)).max() <= top
                and (np.abs(codes * scale - x) <= 0.5001 * step).all()
                and np.array_equal(given, x)
            )
        except Exception:
            return False
        if not right:
            return False
    return True

# %% wrong quant-7 8 bits only
# A function passes your check that knows 8 bits only. Try several widths of a code.
def accepts(quantize):
    rng = np.random.default_rng(0)
    for bits in (8,):
        x = rng.normal(size=(7, 5)) * 10.0 ** np.arange(-6, 8, 2)[:, None] / 10
        x[1], x[2], x[4] = -np.abs(x[1]), 0, np.abs(x[4])
        top, given = 2 ** (bits - 1) - 1, x.copy()
        step = np.abs(x).max(1, keepdims=True) / top
        try:
            codes, scale = quantize(given, bits)
            right = (
                (codes.shape, codes.dtype, scale.shape) == (x.shape, np.int8, (7, 1))
                and np.abs(codes.astype(int)).max() <= top
                and (np.abs(codes * scale - x) <= 0.5001 * step).all()
                and np.array_equal(given, x)
            )
        except Exception:
            return False
        if not right:
            return False
    return True

# %% wrong quant-7 even widths only
# A function passes your check that stops at odd widths. Rows may have any width.
def accepts(quantize):
    rng = np.random.default_rng(0)
    for bits in (2, 4, 5, 8):
        x = rng.normal(size=(7, 6)) * 10.0 ** np.arange(-6, 8, 2)[:, None] / 10
        x[1], x[2], x[4] = -np.abs(x[1]), 0, np.abs(x[4])
        top, given = 2 ** (bits - 1) - 1, x.copy()
        step = np.abs(x).max(1, keepdims=True) / top
        try:
            codes, scale = quantize(given, bits)
            right = (
                (codes.shape, codes.dtype, scale.shape) == (x.shape, np.int8, (7, 1))
                and np.abs(codes.astype(int)).max() <= top
                and (np.abs(codes * scale - x) <= 0.5001 * step).all()
                and np.array_equal(given, x)
            )
        except Exception:
            return False
        if not right:
            return False
    return True

# %% wrong quant-7 the type of the codes is not looked at
# A function passes your check whose codes are floats. They are whole numbers and right ones, but
# they take eight bytes each.
def accepts(quantize):
    rng = np.random.default_rng(0)
    for bits in (2, 4, 5, 8):
        x = rng.normal(size=(7, 5)) * 10.0 ** np.arange(-6, 8, 2)[:, None] / 10
        x[1], x[2], x[4] = -np.abs(x[1]), 0, np.abs(x[4])
        top, given = 2 ** (bits - 1) - 1, x.copy()
        step = np.abs(x).max(1, keepdims=True) / top
        try:
            codes, scale = quantize(given, bits)
            right = (
                (codes.shape, scale.shape) == (x.shape, (7, 1))
                and np.abs(codes.astype(int)).max() <= top
                and (np.abs(codes * scale - x) <= 0.5001 * step).all()
                and np.array_equal(given, x)
            )
        except Exception:
            return False
        if not right:
            return False
    return True

# %% wrong quant-7 the range of the codes is not looked at
# A function passes your check that uses more codes than `bits` allows. Its errors are small, but
# four bits can't hold it.
def accepts(quantize):
    rng = np.random.default_rng(0)
    for bits in (2, 4, 5, 8):
        x = rng.normal(size=(7, 5)) * 10.0 ** np.arange(-6, 8, 2)[:, None] / 10
        x[1], x[2], x[4] = -np.abs(x[1]), 0, np.abs(x[4])
        top, given = 2 ** (bits - 1) - 1, x.copy()
        step = np.abs(x).max(1, keepdims=True) / top
        try:
            codes, scale = quantize(given, bits)
            right = (
                (codes.shape, codes.dtype, scale.shape) == (x.shape, np.int8, (7, 1))
                and (np.abs(codes * scale - x) <= 0.5001 * step).all()
                and np.array_equal(given, x)
            )
        except Exception:
            return False
        if not right:
            return False
    return True

# %% wrong quant-7 x is not looked at afterwards
# A function passes your check that writes over x. Keep a copy, and look at what you handed over.
def accepts(quantize):
    rng = np.random.default_rng(0)
    for bits in (2, 4, 5, 8):
        x = rng.normal(size=(7, 5)) * 10.0 ** np.arange(-6, 8, 2)[:, None] / 10
        x[1], x[2], x[4] = -np.abs(x[1]), 0, np.abs(x[4])
        top, given = 2 ** (bits - 1) - 1, x.copy()
        step = np.abs(x).max(1, keepdims=True) / top
        try:
            codes, scale = quantize(given, bits)
            right = (
                (codes.shape, codes.dtype, scale.shape) == (x.shape, np.int8, (7, 1))
                and np.abs(codes.astype(int)).max() <= top
                and (np.abs(codes * scale - x) <= 0.5001 * step).all()
            )
        except Exception:
            return False
        if not right:
            return False
    return True

# %% wrong quant-7 only shapes and types
# Functions with wrong numbers pass your check, if only shapes and types are right.
def accepts(quantize):
    rng = np.random.default_rng(0)
    for bits in (2, 4, 5, 8):
        x = rng.normal(size=(7, 5)) * 10.0 ** np.arange(-6, 8, 2)[:, None] / 10
        x[1], x[2], x[4] = -np.abs(x[1]), 0, np.abs(x[4])
        given = x.copy()
        try:
            codes, scale = quantize(given, bits)
            right = (
                (codes.shape, codes.dtype, scale.shape) == (x.shape, np.int8, (7, 1))
            )
        except Exception:
            return False
        if not right:
            return False
    return True

# %% wrong quant-7 an error escapes
# When the function raises an error, so do you. A check gives its verdict: a function that breaks
# is wrong.
def accepts(quantize):
    rng = np.random.default_rng(0)
    for bits in (2, 4, 5, 8):
        x = rng.normal(size=(7, 5)) * 10.0 ** np.arange(-6, 8, 2)[:, None] / 10
        x[1], x[2], x[4] = -np.abs(x[1]), 0, np.abs(x[4])
        top, given = 2 ** (bits - 1) - 1, x.copy()
        step = np.abs(x).max(1, keepdims=True) / top
        if True:
            codes, scale = quantize(given, bits)
            right = (
                (codes.shape, codes.dtype, scale.shape) == (x.shape, np.int8, (7, 1))
                and np.abs(codes.astype(int)).max() <= top
                and (np.abs(codes * scale - x) <= 0.5001 * step).all()
                and np.array_equal(given, x)
            )
        if not right:
            return False
    return True

# %% wrong quant-7 everything is accepted
# The functions of these cases are accepted, and half of them are wrong. A check proves something
# only if it can fail.
def accepts(quantize):
    return True

# %% wrong quant-7 everything is rejected
# Right functions are rejected, too: two right ones may differ in the last digit. Run your check on
# a function that you trust before you use it on others.
def accepts(quantize):
    return False

# %% [markdown]
# ## What to take along
#
# - A scale is a step. The error is at most half of it, and its mean square is step² / 12.
# - One large number makes the step of its whole group coarse. So the questions are which numbers
#   share a scale, and whether the large part carries anything: the mean key does not.
# - Only what all terms of a sum share can be pulled out of it: a scale per token, not per channel.
# - Integers overflow in silence. Widen the factors before you multiply, and count how many
#   products fit.
# - Scales and zeros cost bytes, too. A quantised cache that keeps floats saves none.
# - A check of a quantiser looks at the largest error, in steps that it worked out itself, and at
#   rows of zeros, of one sign, and of small numbers.
#
# Back to [chapter 11](../book/11_quantization.ipynb).
