# %% [markdown]
# # Exercises 2: scaling
#
# Seven tasks on [chapter 2, *Why divide by the square root of d*](../book/02_scaling.ipynb).
# They climb from working out a spread by hand to testing somebody else's scale: predict, derive,
# fill in, measure, mend, build, and write a check of your own.
#
# | task | what you do | points | minutes | level |
# |---|---|---|---|---|
# | `scaling-1` | predict how scores spread | 3 | 8 | 1 of 4 |
# | `scaling-2` | derive the variance of a score | 5 | 14 | 2 of 4 |
# | `scaling-3` | scaled scores of many heads: which width? | 4 | 11 | 2 of 4 |
# | `scaling-4` | measure the gradient, not only its mean | 6 | 15 | 3 of 4 |
# | `scaling-5` | mend an attention function that is scaled wrongly | 6 | 14 | 3 of 4 |
# | `scaling-6` | find the scale that gives a wanted entropy | 6 | 16 | 4 of 4 |
# | `scaling-7` | write the check | 4 | 12 | 3 of 4 |
# | all | | 34 | 90 | |
#
# **How checking works.** Write your answer in place of the line `raise NotImplementedError`, run
# the cell, then run the check cell below it. The check calls your function and tells you which
# cases agree, where the first difference is, and, if it knows your mistake, its name and a hint.
# It calls your function as you last ran it: after every edit, **run the answer cell again** before
# the check. Some further cases run only when an instructor grades.
#
# **The letters.** `T` queries, `S` keys, `B` examples in a batch, `H` heads, `D` numbers in one
# query or key of one head (the book's d_k), `E` numbers in a value, `C = H · D` the width of the
# model. A *score* is the dot product of a query and a key; *scaled*, it is multiplied by a scale,
# usually 1/√D. All you need is NumPy; please write the formulas yourself instead of calling
# `attnlearn`.

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
# ## scaling-1: Predict how scores spread
#
# *scaling-1 · 3 points · 8 minutes · ●○○○ difficulty 1 of 4*
#
# Work these out with pencil and paper, then write down plain numbers. All components of `q` and
# `k` are independent, with mean 0. Where nothing else is said their standard deviation is 1.
#
# 1. `spread`: the **standard deviation** of the score q · k for D = 64, 256 and 1024.
# 2. `doubled`: D doubles. By which factor does the variance of the score grow, and by which the
#    standard deviation? Two numbers; three digits are enough.
# 3. `wider`: D = 10. What is the **variance** of the score if all components of `q` *and* of `k`
#    have the standard deviation 2? What is it if only those of `q` have it? Two numbers.
# 4. `left`: D = 64, and the model has 8 heads, so its width is C = 512. What **variance** is left
#    after dividing the scores by √D, by D, and by √C? Three numbers; you may write fractions.
# 5. `beyond`: D = 512, so the standard deviation of a score is 22.6. Of 100 scores, about how many
#    lie farther from 0 than 22.6, on either side? A score is nearly normal. (The check rounds your
#    count to a multiple of 4.)
#
# **A miniature.** D = 4: each product of two components has the variance 1, four of them add up
# to 4, and the standard deviation is √4 = 2.
#
# Half of the points are for having all five right together.
# Read first: *One score is a sum of d small accidents* and *"About ±22": one standard deviation,
# not a bound* in [chapter 2](../book/02_scaling.ipynb).
#
# <details>
# <summary>Hint 1 for scaling-1: two different rulers</summary>
#
# Variances of independent terms add up. Standard deviations don't: take the square root at the
# end. If a number is multiplied by c, its standard deviation is multiplied by |c|. And its
# variance?
#
# </details>
#
# <details>
# <summary>Hint 2 for scaling-1: one standard deviation</summary>
#
# "A spread of 22.6" is no fence. Remember how much of a bell curve lies within one standard
# deviation of its centre, and ask for the rest.
#
# </details>


# %% answer scaling-1 points=3 minutes=8 difficulty=1 forbid=attnlearn
def spread():
    """Standard deviation of q . k for D = 64, 256, 1024: three numbers."""
    # BEGIN SOLUTION
    return [8, 16, 32]
    # END SOLUTION


def doubled():
    """D doubles: the factor of the variance and the factor of the standard deviation."""
    # BEGIN SOLUTION
    return [2, 1.414]
    # END SOLUTION


def wider():
    """D = 10: the variance if q and k have standard deviation 2, and if only q has it."""
    # BEGIN SOLUTION
    return [160, 40]
    # END SOLUTION


def left():
    """D = 64, C = 512: the variance left after dividing by sqrt(D), by D, by sqrt(C)."""
    # BEGIN SOLUTION
    return [1, 1 / 64, 1 / 8]
    # END SOLUTION


def beyond():
    """Of 100 scores, how many lie farther from 0 than one standard deviation?"""
    # BEGIN SOLUTION
    return 32
    # END SOLUTION


# %% check scaling-1
case = check("scaling-1", rtol=5e-3)


def _about(number):
    step = 4.0 if number > 1 else 0.04  # a fraction stays one: it is no count
    return step * round(number / step)


case("spread", lambda: np.array(spread(), float))
case("doubled", lambda: np.array(doubled(), float))
case("wider", lambda: np.array(wider(), float))
case("left", lambda: np.array(left(), float))
case("beyond", lambda: _about(float(beyond())))


@case("all five together", weight=5)
def _():
    parts = [np.ravel(np.array(f(), float)) for f in (spread, doubled, wider, left)]
    return np.concatenate([*parts, [_about(float(beyond()))]])


# %% right scaling-1 with roots and fractions
def spread():
    return np.sqrt([64, 256, 1024])


def doubled():
    return 2, 2**0.5


def wider():
    return 10 * 2**2 * 2**2, 10 * 2**2


def left():
    return 64 / 64, 64 / 64**2, 64 / 512


def beyond():
    return 31.7


# %% right scaling-1 rounded to three digits, and about a third
def spread():
    variances = np.array([64, 256, 1024])
    return variances**0.5


def doubled():
    return np.array([2.0, 1.41])


def wider():
    return np.array([160.0, 40.0])


def left():
    return [1.0, 0.0156, 0.125]


def beyond():
    return 100 / 3


# %% wrong scaling-1 variances in place of standard deviations
# Your spread is a variance. Its square root has the unit of a score, and that is the standard
# deviation.
# Seen: fastai/fastai_dev#59
def spread():
    return [64, 256, 1024]


def doubled():
    return [2, 1.414]


def wider():
    return [160, 40]


def left():
    return [1, 1 / 64, 1 / 8]


def beyond():
    return 32


# %% wrong scaling-1 the standard deviation grows like D
# You let the standard deviation double with D. It is the variances of the terms that add up: what
# happens to a square root when the number under it doubles?
def spread():
    return [8, 16, 32]


def doubled():
    return [4, 2]


def wider():
    return [160, 40]


def left():
    return [1, 1 / 64, 1 / 8]


def beyond():
    return 32


# %% wrong scaling-1 a standard deviation used as a variance
# You put the standard deviation where a variance belongs. Multiply the *variances* of the two
# components, then add up D of them.
# Seen: phlippe/uvadlc_notebooks#56
# Seen: phlippe/uvadlc_notebooks#15
def spread():
    return [8, 16, 32]


def doubled():
    return [2, 1.414]


def wider():
    return [40, 20]


def left():
    return [1, 1 / 64, 1 / 8]


def beyond():
    return 32


# %% wrong scaling-1 variances added inside a product
# You added the variances of q and k. That is the rule for a sum; a product of independent numbers
# with mean 0 has another.
# Seen: frnsys/ai_notes#6
def spread():
    return [8, 16, 32]


def doubled():
    return [2, 1.414]


def wider():
    return [80, 50]


def left():
    return [1, 1 / 64, 1 / 8]


def beyond():
    return 32


# %% wrong scaling-1 the divisor counts once
# You divided the variance by the divisor itself. A variance is made of squares: a divisor of the
# scores counts twice.
def spread():
    return [8, 16, 32]


def doubled():
    return [2, 1.414]


def wider():
    return [160, 40]


def left():
    return [8, 1, 64 / 512**0.5]


def beyond():
    return 32


# %% wrong scaling-1 the model's width taken for the head's
# Your scores sum over all C numbers of the model. A score of one head sums over that head's D
# numbers only: which of the three divisors brings *its* variance to 1?
# Seen: karpathy/ng-video-lecture#6
def spread():
    return [8, 16, 32]


def doubled():
    return [2, 1.414]


def wider():
    return [160, 40]


def left():
    return [8, 512 / 64**2, 1]


def beyond():
    return 32


# %% wrong scaling-1 one standard deviation taken for a limit
# You let no score pass one standard deviation. A standard deviation is a typical size, no largest
# size; many scores lie farther out.
def spread():
    return [8, 16, 32]


def doubled():
    return [2, 1.414]


def wider():
    return [160, 40]


def left():
    return [1, 1 / 64, 1 / 8]


def beyond():
    return 0


# %% wrong scaling-1 two standard deviations
# Your count belongs to two standard deviations, the familiar 5 %. The question asks about one.
def spread():
    return [8, 16, 32]


def doubled():
    return [2, 1.414]


def wider():
    return [160, 40]


def left():
    return [1, 1 / 64, 1 / 8]


def beyond():
    return 5


# %% wrong scaling-1 counted inside
# You counted the scores that lie within one standard deviation. The question asks for the others.
def spread():
    return [8, 16, 32]


def doubled():
    return [2, 1.414]


def wider():
    return [160, 40]


def left():
    return [1, 1 / 64, 1 / 8]


def beyond():
    return 68


# %% wrong scaling-1 one side only
# You counted one end of the curve. Scores are far from 0 when they are very negative, too.
def spread():
    return [8, 16, 32]


def doubled():
    return [2, 1.414]


def wider():
    return [160, 40]


def left():
    return [1, 1 / 64, 1 / 8]


def beyond():
    return 16


# %% wrong scaling-1 a fraction in place of a count
# You give the share of all scores. The question asks how many of 100 they are.
def spread():
    return [8, 16, 32]


def doubled():
    return [2, 1.414]


def wider():
    return [160, 40]


def left():
    return [1, 1 / 64, 1 / 8]


def beyond():
    return 0.32


# %% [markdown]
# ## scaling-2: Derive the variance of a score
#
# *scaling-2 · 5 points · 14 minutes · ●●○○ difficulty 2 of 4*
#
# In a trained model, queries and keys are not what textbooks assume: their spread is not 1, they
# are correlated, and their means are not 0. Write `score_moments(d, sigma_q, sigma_k, rho, mu_q,
# mu_k)`, which returns the **mean** and the **variance** of the score q · k, in this order.
#
# The `d` pairs (qᵢ, kᵢ) are independent of each other. Within a pair, qᵢ and kᵢ are jointly
# normal: means `mu_q` and `mu_k`, standard deviations `sigma_q` and `sigma_k`, correlation `rho`.
# All arguments may be numbers or arrays that broadcast against each other; so are the results.
#
# Four facts to derive it from; x and y have mean 0, are jointly normal, with correlation ρ:
#
# - E[x y] = ρ σₓ σᵧ, by definition;
# - E[x² y²] = σₓ² σᵧ² (1 + 2ρ²), and E[x² y] = E[x y²] = 0;
# - the variance of anything is the mean of its square minus the square of its mean;
# - the variances of *independent* terms add up.
#
# Your formula is compared with the exact one, **and with a simulation**: 16,000 scores are
# drawn, and their variance is divided by the one you claim: for a right formula that comes out near
# 1, within a few percent. Half of the points are for a case with everything at once.
#
# **A miniature.** d = 4, both standard deviations 1, ρ = 0, means 0: mean 0, variance 4. With
# ρ = 1 every k equals its q, and the score is a sum of 4 squares: mean 4, variance 8.
#
# Read first: *When the assumptions fail* in [chapter 2](../book/02_scaling.ipynb). Means other than
# 0 are new here.
#
# <details>
# <summary>Hint 1 for scaling-2: one pair first</summary>
#
# Do one pair, then d of them. With means 0 the mean of x y is given and the mean of its square is
# given: which of the four facts turns them into a variance?
#
# </details>
#
# <details>
# <summary>Hint 2 for scaling-2: when the means are not 0</summary>
#
# Write q = mu_q + x and k = mu_k + y, and multiply out. The constant drops out of a variance. Of
# the three terms that are left, take each one's variance, and the covariance of every two.
#
# </details>


# %% answer scaling-2 points=5 minutes=14 difficulty=2 forbid=attnlearn
def score_moments(d, sigma_q, sigma_k, rho, mu_q=0.0, mu_k=0.0):
    """Mean and variance of q . k; all arguments are numbers or arrays that broadcast."""
    # BEGIN SOLUTION
    covariance = rho * sigma_q * sigma_k
    mean = d * (mu_q * mu_k + covariance)
    spread = (sigma_q * sigma_k) ** 2 + covariance**2
    shifted = (mu_q * sigma_k) ** 2 + (mu_k * sigma_q) ** 2 + 2 * mu_q * mu_k * covariance
    return mean, d * (spread + shifted)
    # END SOLUTION


# %% check scaling-2
case = check("scaling-2")


def _moments(*args):
    mean, variance = np.broadcast_arrays(*score_moments(*args))
    return {"mean": np.array(mean, float), "variance": np.array(variance, float)}


def _measured_over_claimed(rng, d, sigma_q, sigma_k, rho, mu_q=0.0, mu_k=0.0):
    x, noise = rng.normal(size=(2, 16_000, d))
    y = rho * x + np.sqrt(1 - rho**2) * noise
    scores = ((mu_q + sigma_q * x) * (mu_k + sigma_k * y)).sum(1)
    _, variance = score_moments(d, sigma_q, sigma_k, rho, mu_q, mu_k)
    return scores.var() / variance


_rhos = np.array([-0.9, -0.4, 0.3, 0.8])
case("unit variances, independent, d = 64", lambda: _moments(64, 1.0, 1.0, 0.0))
case("d = 4, 64, 512, other spreads", lambda: _moments(np.array([4, 64, 512]), 3.0, 0.5, 0.0))
case("four correlations, d = 16", lambda: _moments(16, 2.0, 3.0, _rhos))
case("means that are not 0, independent", lambda: _moments(8, 2.0, 3.0, 0.0, 1.5, -0.5))
case("measured over claimed, correlated", lambda rng: _measured_over_claimed(rng, 2, 2, 3, 0.6))


@case("all of it at once: arrays, correlations, means", weight=6)
def _(rng):
    d = np.array([1, 16, 64])[:, None]
    sigma_q, sigma_k = rng.uniform(1.5, 3, size=(2, 4))
    exact = _moments(d, sigma_q, sigma_k, _rhos, rng.uniform(1, 2, size=4), -1.2)
    return {**exact, "measured over claimed": _measured_over_claimed(rng, 2, 2, 3, 0.6, 2.0, 1.5)}


# %% hidden scaling-2
case = check("scaling-2")


@case("drawn numbers, one correlation")
def _(rng):
    sigma_q, sigma_k = rng.uniform(2, 4, size=2)
    return _moments(rng.randint(3, 99), sigma_q, sigma_k, 0.7, 0.5, rng.uniform(1, 2))


# %% right scaling-2 from the moments of one product
def score_moments(d, sigma_q, sigma_k, rho, mu_q=0.0, mu_k=0.0):
    r = rho * sigma_q * sigma_k
    first = mu_q * mu_k + r
    second = (mu_q**2 + sigma_q**2) * (mu_k**2 + sigma_k**2) + 4 * mu_q * mu_k * r + 2 * r**2
    return d * first, d * (second - first**2)


# %% right scaling-2 as a polynomial in rho
def score_moments(d, sigma_q, sigma_k, rho, mu_q=0, mu_k=0):
    d, rho = np.asarray(d), np.asarray(rho)
    a = np.square(sigma_q) * np.square(sigma_k)
    b = np.square(mu_q) * np.square(sigma_k) + np.square(mu_k) * np.square(sigma_q)
    c = 2 * mu_q * mu_k * sigma_q * sigma_k
    return [d * mu_q * mu_k + d * rho * sigma_q * sigma_k, d * (a * (1 + rho**2) + b + c * rho)]


# %% right scaling-2 through the sum and the difference
def score_moments(d, sigma_q, sigma_k, rho, mu_q=0.0, mu_k=0.0):
    # q k = ((q/a + k/b)^2 - (q/a - k/b)^2) a b / 4, and the two brackets are independent
    a, b = sigma_q, sigma_k
    plus, minus = mu_q / a + mu_k / b, mu_q / a - mu_k / b
    wide, narrow = 2 + 2 * rho, 2 - 2 * rho
    mean = (wide + plus**2 - narrow - minus**2) * a * b / 4
    variance = 2 * wide**2 + 4 * wide * plus**2 + 2 * narrow**2 + 4 * narrow * minus**2
    return d * mean, d * variance * (a * b / 4) ** 2


# %% wrong scaling-2 standard deviations not squared
# Your variance holds the product of the standard deviations. Multiply a query by 3 and every score
# is multiplied by 3: by how much does the variance grow?
# Seen: phlippe/uvadlc_notebooks#56
# Seen: phlippe/uvadlc_notebooks#15
def score_moments(d, sigma_q, sigma_k, rho, mu_q=0.0, mu_k=0.0):
    r = rho * sigma_q * sigma_k
    shifted = mu_q**2 * sigma_k + mu_k**2 * sigma_q + 2 * mu_q * mu_k * r
    return d * (mu_q * mu_k + r), d * (sigma_q * sigma_k * (1 + rho**2) + shifted)


# %% wrong scaling-2 the correlation is left out of the variance
# Your variance does not know the correlation. Compare rho = 0 with rho = 1, where the score is a
# sum of squares: which spreads more?
def score_moments(d, sigma_q, sigma_k, rho, mu_q=0.0, mu_k=0.0):
    mean = d * (mu_q * mu_k + rho * sigma_q * sigma_k)
    shifted = (mu_q * sigma_k) ** 2 + (mu_k * sigma_q) ** 2
    variance = d * ((sigma_q * sigma_k) ** 2 + shifted)
    return mean, variance


# %% wrong scaling-2 the mean of the square in place of the variance
# You stopped at the mean of the square. A variance measures from the mean, and with a correlation
# the mean of a product is not 0.
def score_moments(d, sigma_q, sigma_k, rho, mu_q=0.0, mu_k=0.0):
    r = rho * sigma_q * sigma_k
    second = (mu_q**2 + sigma_q**2) * (mu_k**2 + sigma_k**2) + 4 * mu_q * mu_k * r + 2 * r**2
    return d * (mu_q * mu_k + r), d * second


# %% wrong scaling-2 correlation narrows the spread
# A correlation of either sign makes your scores spread less. Work out rho = 1 by hand: the
# variance of a square of a standard normal number is 2.
def score_moments(d, sigma_q, sigma_k, rho, mu_q=0.0, mu_k=0.0):
    r = rho * sigma_q * sigma_k
    shifted = (mu_q * sigma_k) ** 2 + (mu_k * sigma_q) ** 2 + 2 * mu_q * mu_k * r
    return d * (mu_q * mu_k + r), d * ((sigma_q * sigma_k) ** 2 * (1 - rho**2) + shifted)


# %% wrong scaling-2 the correlation is not squared
# Your variance changes with the sign of the correlation although the means are 0. Turn every key
# round: scores change their sign, and what happens to their spread?
def score_moments(d, sigma_q, sigma_k, rho, mu_q=0.0, mu_k=0.0):
    r = rho * sigma_q * sigma_k
    shifted = (mu_q * sigma_k) ** 2 + (mu_k * sigma_q) ** 2 + 2 * mu_q * mu_k * r
    return d * (mu_q * mu_k + r), d * ((sigma_q * sigma_k) ** 2 * (1 + rho) + shifted)


# %% wrong scaling-2 d times one pair, squared
# Your variance grows like d squared. That is d copies of *one* pair; d independent pairs partly
# cancel each other.
def score_moments(d, sigma_q, sigma_k, rho, mu_q=0.0, mu_k=0.0):
    r = rho * sigma_q * sigma_k
    shifted = (mu_q * sigma_k) ** 2 + (mu_k * sigma_q) ** 2 + 2 * mu_q * mu_k * r
    return d * (mu_q * mu_k + r), d**2 * ((sigma_q * sigma_k) ** 2 + r**2 + shifted)


# %% wrong scaling-2 the standard deviation returned
# You took a square root at the end: that is the standard deviation. The variance is asked for.
# Seen: matheusfacure/python-causality-handbook#206
def score_moments(d, sigma_q, sigma_k, rho, mu_q=0.0, mu_k=0.0):
    r = rho * sigma_q * sigma_k
    shifted = (mu_q * sigma_k) ** 2 + (mu_k * sigma_q) ** 2 + 2 * mu_q * mu_k * r
    return d * (mu_q * mu_k + r), np.sqrt(d * ((sigma_q * sigma_k) ** 2 + r**2 + shifted))


# %% wrong scaling-2 variances added inside a product
# You added the variances of q and k. That is the rule for the sum q + k; a score is made of
# products.
# Seen: frnsys/ai_notes#6
def score_moments(d, sigma_q, sigma_k, rho, mu_q=0.0, mu_k=0.0):
    r = rho * sigma_q * sigma_k
    return d * (mu_q * mu_k + r), d * (sigma_q**2 + sigma_k**2 + 2 * r)


# %% wrong scaling-2 the mean is always 0
# Your mean is 0 whatever comes in. Take q = k: then the score is a sum of squares, and none of
# them is negative.
def score_moments(d, sigma_q, sigma_k, rho, mu_q=0.0, mu_k=0.0):
    r = rho * sigma_q * sigma_k
    shifted = (mu_q * sigma_k) ** 2 + (mu_k * sigma_q) ** 2 + 2 * mu_q * mu_k * r
    return 0.0, d * ((sigma_q * sigma_k) ** 2 + r**2 + shifted)


# %% wrong scaling-2 the mean forgets the correlation
# Your mean is the product of the means. It holds for independent numbers; correlated ones have a
# score to expect even when both means are 0.
def score_moments(d, sigma_q, sigma_k, rho, mu_q=0.0, mu_k=0.0):
    r = rho * sigma_q * sigma_k
    shifted = (mu_q * sigma_k) ** 2 + (mu_k * sigma_q) ** 2 + 2 * mu_q * mu_k * r
    return d * mu_q * mu_k, d * ((sigma_q * sigma_k) ** 2 + r**2 + shifted)


# %% wrong scaling-2 the rule for means of 0
# Your variance ignores the means. A long constant query multiplies every bit of noise in the keys:
# the short rule for a product holds only where both means are 0.
# Seen: cs231n/cs231n.github.io#207
def score_moments(d, sigma_q, sigma_k, rho, mu_q=0.0, mu_k=0.0):
    r = rho * sigma_q * sigma_k
    return d * (mu_q * mu_k + r), d * ((sigma_q * sigma_k) ** 2 + r**2)


# %% wrong scaling-2 a covariance is forgotten
# You added up the variances of three terms as if they were independent. Two of them, one with the
# noise of q and one with the noise of k, are correlated.
def score_moments(d, sigma_q, sigma_k, rho, mu_q=0.0, mu_k=0.0):
    r = rho * sigma_q * sigma_k
    shifted = (mu_q * sigma_k) ** 2 + (mu_k * sigma_q) ** 2
    return d * (mu_q * mu_k + r), d * ((sigma_q * sigma_k) ** 2 + r**2 + shifted)


# %% wrong scaling-2 mean and variance exchanged
# You return the variance first. The mean comes first, the variance second.
def score_moments(d, sigma_q, sigma_k, rho, mu_q=0.0, mu_k=0.0):
    r = rho * sigma_q * sigma_k
    shifted = (mu_q * sigma_k) ** 2 + (mu_k * sigma_q) ** 2 + 2 * mu_q * mu_k * r
    return d * ((sigma_q * sigma_k) ** 2 + r**2 + shifted), d * (mu_q * mu_k + r)


# %% wrong scaling-2 one number at a time
# Your function asks an array a yes-or-no question. It should work on arrays of any shape: one
# formula for all cases does.
def score_moments(d, sigma_q, sigma_k, rho, mu_q=0.0, mu_k=0.0):
    r = rho * sigma_q * sigma_k
    if rho == 0 and mu_q == 0 and mu_k == 0:
        return 0.0, d * (sigma_q * sigma_k) ** 2
    shifted = (mu_q * sigma_k) ** 2 + (mu_k * sigma_q) ** 2 + 2 * mu_q * mu_k * r
    return d * (mu_q * mu_k + r), d * ((sigma_q * sigma_k) ** 2 + r**2 + shifted)


# %% [markdown]
# ## scaling-3: Scaled scores of many heads
#
# *scaling-3 · 4 points · 11 minutes · ●●○○ difficulty 2 of 4*
#
# A layer hands you its queries `[B, T, C]` and keys `[B, S, C]` as they leave the projections:
# the numbers of head 0 come first in every row, then those of head 1, and so on. Write
# `head_scores(q, k, heads)`: the scaled scores `[B, H, T, S]`, where head `h` of the queries meets
# head `h` of the keys. The scale makes the variance of a score 1 when the components are
# independent with variance 1.
#
# - Any real dtype may come in. Scores are floats, whatever came.
# - **float16** holds nothing above 65,504. Raw scores may be larger, scaled ones fit: the result
#   must be finite.
# - If `heads` does not divide the width, raise a `ValueError`.
# - The caller's arrays stay unchanged.
#
# Half of the points are for a case that has all of it at once.
#
# **A miniature.** One query `[2, 0, 0, 0, 1, 1, 1, 1]` and one key full of ones, 2 heads of 4: the
# raw scores of the two heads are 2 and 4, the scaled ones 1 and 2.
#
# Read first: *The wrong d* and *Dividing too late* in [chapter 2](../book/02_scaling.ipynb).
#
# <details>
# <summary>Hint 1 for scaling-3: which numbers does one score sum up?</summary>
#
# Count the products behind a single entry of the result. The scale follows from that number and
# from nothing else.
#
# </details>
#
# <details>
# <summary>Hint 2 for scaling-3: first split, then move</summary>
#
# A reshape never moves numbers about. Split the last axis into two, so that each head's numbers
# stay together, and only then bring the axis of the heads to the front.
#
# </details>


# %% answer scaling-3 points=4 minutes=11 difficulty=2 forbid=attnlearn,scaled_dot_product_attention
def head_scores(q, k, heads):
    """q [B, T, C], k [B, S, C], any real dtype -> scaled float scores [B, heads, T, S]."""
    # BEGIN SOLUTION
    width = q.shape[-1] // heads
    q = q.astype(float).reshape(*q.shape[:2], heads, width)
    k = k.astype(float).reshape(*k.shape[:2], heads, width)
    return np.einsum("bthd,bshd->bhts", q, k) / np.sqrt(width)
    # END SOLUTION


# %% check scaling-3
case = check("scaling-3", rtol=2e-3)


def _qk(rng, T, S, C):
    return rng.normal(size=(2, T, C)), rng.normal(size=(2, S, C))


def _half(rng, T, S, C):
    return [(60 + x).astype(np.float16) for x in _qk(rng, T, S, C)]


def _refused(q, k, heads):
    try:
        return f"an array of shape {np.shape(head_scores(q, k, heads))}"
    except ValueError:
        return "ValueError"


def _change(q, k, heads):
    before = q.copy(), k.copy()
    head_scores(q, k, heads)
    return [np.abs(x - y).max() for x, y in zip((q, k), before, strict=True)]


case("one head of 5", lambda rng: head_scores(*_qk(rng, 3, 4, 5), 1))
case("3 heads of 5", lambda rng: head_scores(*_qk(rng, 3, 4, 15), 3), weight=2)
case("integers", lambda rng: head_scores(*rng.randint(-9, 10, (2, 2, 3, 12)), 2))
case("float16, raw scores beyond 65,504", lambda rng: head_scores(*_half(rng, 2, 3, 64), 2))
case("the caller's arrays stay unchanged", lambda rng: _change(*_qk(rng, 3, 4, 12), 2))
case("14 numbers for 4 heads", lambda rng: _refused(*_qk(rng, 3, 4, 14), 4))


@case("all of it at once", weight=8)
def _(rng):
    half, kept = _half(rng, 2, 3, 90), _qk(rng, 4, 3, 24)
    return {
        "4 heads of 6": head_scores(*kept, 4),
        "3 heads of 30, float16": head_scores(*half, 3),
        "2 heads of 7, integers": head_scores(*rng.randint(-9, 10, (2, 2, 3, 14)), 2),
        "changed by": _change(*kept, 4),
        "9 heads for 24 numbers": _refused(*kept, 9),
    }


# %% hidden scaling-3
case = check("scaling-3", rtol=2e-3)


@case("drawn lengths, 6 heads of 7")
def _(rng):
    T = rng.randint(2, 5)
    return head_scores(*_qk(rng, T, T + 2, 42), 6)


# %% right scaling-3 head by head
def head_scores(q, k, heads):
    B, T, C = q.shape
    S = k.shape[1]
    if C % heads:
        raise ValueError(f"{heads} heads do not divide a width of {C}")
    D = C // heads
    scores = np.empty((B, heads, T, S))
    for b in range(B):
        for h in range(heads):
            part = slice(h * D, (h + 1) * D)
            scores[b, h] = q[b, :, part].astype(float) @ k[b, :, part].astype(float).T
    return scores * D**-0.5


# %% right scaling-3 the fourth root on both sides
def head_scores(q, k, heads):
    D = q.shape[-1] // heads
    q, k = (x.reshape(*x.shape[:-1], heads, D).swapaxes(1, 2) for x in (q, k))
    return (q * np.float32(D**-0.25)) @ (k * D**-0.25).astype(np.float64).swapaxes(-1, -2)


# %% right scaling-3 the query scaled first
def head_scores(q, k, heads):
    q, k = (np.stack(np.split(x, heads, axis=-1), axis=1) for x in (q, k))
    return np.einsum("...td,...sd->...ts", q / np.sqrt(q.shape[-1]), k)


# %% wrong scaling-3 the model's width
# You divide by the root of the width of the whole model. A score of one head sums over that head's
# numbers only.
# Seen: karpathy/ng-video-lecture#6
# Seen: lucidrains/vit-pytorch#65
def head_scores(q, k, heads):
    B, _, C = q.shape
    q, k = (x.reshape(B, -1, heads, C // heads).astype(float) for x in (q, k))
    return np.einsum("bthd,bshd->bhts", q, k) / np.sqrt(C)


# %% wrong scaling-3 no square root
# You divide by D itself. The variance of the scores then ends at 1/D: which power of D has the
# unit of a standard deviation?
# Seen: delzac/cntkx#10
def head_scores(q, k, heads):
    B, _, C = q.shape
    q, k = (x.reshape(B, -1, heads, C // heads).astype(float) for x in (q, k))
    return np.einsum("bthd,bshd->bhts", q, k) / (C // heads)


# %% wrong scaling-3 no scale
# Your scores are not scaled. Their standard deviation still grows with the width of a head.
# Seen: PAIR-code/tiny-transformers#71
# Seen: huggingface/blog#2893
def head_scores(q, k, heads):
    B, _, C = q.shape
    q, k = (x.reshape(B, -1, heads, C // heads).astype(float) for x in (q, k))
    return np.einsum("bthd,bshd->bhts", q, k)


# %% wrong scaling-3 multiplied by the root
# You multiply where you should divide, and the scores spread D times too far. A name like `scale`
# hides which of the two it is meant for.
# Seen: huggingface/transformers#39043
# Seen: esceptico/perceiver-io#9
def head_scores(q, k, heads):
    B, _, C = q.shape
    q, k = (x.reshape(B, -1, heads, C // heads).astype(float) for x in (q, k))
    return np.einsum("bthd,bshd->bhts", q, k) * np.sqrt(C // heads)


# %% wrong scaling-3 the number of keys
# Your scale changes with the number of keys. After a transpose the last axis of k counts keys, not
# components.
def head_scores(q, k, heads):
    B, _, C = q.shape
    q, k = (x.reshape(B, -1, heads, C // heads).astype(float).swapaxes(1, 2) for x in (q, k))
    k = k.swapaxes(-1, -2)
    return q @ k / np.sqrt(k.shape[-1])


# %% wrong scaling-3 the number of heads
# Your scale depends on how many heads there are. What counts is how many numbers one head has.
def head_scores(q, k, heads):
    B, _, C = q.shape
    q, k = (x.reshape(B, -1, heads, C // heads).astype(float) for x in (q, k))
    return np.einsum("bthd,bshd->bhts", q, k) / np.sqrt(heads)


# %% wrong scaling-3 one score for all heads
# You have one score for a query and a key, taken over the whole width. Every head compares its own
# numbers and has its own score.
def head_scores(q, k, heads):
    return q.astype(float) @ k.astype(float).swapaxes(-1, -2) / np.sqrt(q.shape[-1] // heads)


# %% wrong scaling-3 a reshape in place of a transpose
# Your heads hold pieces of several tokens. A reshape alone keeps the order in memory: it cuts a
# text into heads where it should cut each token.
# Seen: reczoo/FuxiCTR#30
# Seen: hyunwoongko/transformer#15
def head_scores(q, k, heads):
    B, _, C = q.shape
    q, k = (x.astype(float).reshape(B, heads, -1, C // heads) for x in (q, k))
    return q @ k.swapaxes(-1, -2) / np.sqrt(C // heads)


# %% wrong scaling-3 every H-th number
# Your head 0 holds every H-th number of a row. The numbers of one head lie side by side: which of
# the two new axes must come last?
def head_scores(q, k, heads):
    B, _, C = q.shape
    q, k = (x.astype(float).reshape(B, -1, C // heads, heads) for x in (q, k))
    return np.einsum("btdh,bsdh->bhts", q, k) / np.sqrt(C // heads)


# %% wrong scaling-3 scaled after the product in half precision
# Your float16 scores overflow: the product is larger than 65,504 before it is divided. Either the
# factors must be made smaller first or the product needs a wider type.
# Seen: ultralytics/ultralytics#24990
# Seen: pytorch/pytorch#119131
def head_scores(q, k, heads):
    B, _, C = q.shape
    q, k = (x.reshape(B, -1, heads, C // heads).swapaxes(1, 2) for x in (q, k))
    return q @ k.swapaxes(-1, -2) / np.sqrt(C // heads)


# %% wrong scaling-3 the root cut to a whole number
# You cut the square root to a whole number. It is one only if D is a square, such as 16 or 64.
def head_scores(q, k, heads):
    B, _, C = q.shape
    q, k = (x.reshape(B, -1, heads, C // heads).astype(float) for x in (q, k))
    return np.einsum("bthd,bshd->bhts", q, k) / int(np.sqrt(C // heads))


# %% wrong scaling-3 the scale in the type of the query
# With integers all your scores are 0: you brought the scale into the type of the query, and a
# number between 0 and 1 has no place there.
def head_scores(q, k, heads):
    B, _, C = q.shape
    D = C // heads
    q, k = (x.reshape(B, -1, heads, D).swapaxes(1, 2) for x in (q, k))
    return (q * q.dtype.type(D**-0.5)) @ k.swapaxes(-1, -2)


# %% wrong scaling-3 the caller's queries are scaled
# You divide the caller's own array. Called twice with the same queries, your function gives two
# answers; with integers it stops.
# Seen: pytorch/pytorch#73249
def head_scores(q, k, heads):
    B, _, C = q.shape
    q /= np.sqrt(C // heads)
    q, k = (x.reshape(B, -1, heads, C // heads).astype(float) for x in (q, k))
    return np.einsum("bthd,bshd->bhts", q, k)


# %% wrong scaling-3 left-over numbers are dropped
# Numbers that fill no whole head fall off the end, and nobody is told. A width that the heads do
# not divide is a mistake of the caller: say so.
def head_scores(q, k, heads):
    D = q.shape[-1] // heads
    q, k = (x[..., : heads * D].reshape(*x.shape[:2], heads, D).astype(float) for x in (q, k))
    return np.einsum("bthd,bshd->bhts", q, k) / np.sqrt(D)


# %% [markdown]
# ## scaling-4: Measure the gradient, not only its mean
#
# *scaling-4 · 6 points · 15 minutes · ●●●○ difficulty 3 of 4*
#
# "Without the scale, gradients vanish" is half of the truth. Write two functions and see the
# other half:
#
# - `gradient_norms(q, k, scale)`: `q` is `[T, D]`, `k` is `[S, D]`, and each query has weights
#   p = softmax(scale · k q). For each query give the **Frobenius norm of ∂p/∂q**, an `[S, D]`
#   matrix: the root of the sum of its squares. The result is `[T]`.
# - `summary(norms)`: the **mean**, the **median** and the **10th percentile** of the norms (the
#   value that a tenth of them lies below), as three numbers in this order.
#
# The derivative of a softmax p with respect to the numbers it is taken of is the matrix
# diag(p) − p pᵀ. Scores may be large (1000 and more): nothing may overflow. Half of the points are
# for a case with everything at once. When it passes, call both functions on 60 drawn queries and 24
# drawn keys of width 64, with scale 1 and with scale 1/8, and compare the three numbers.
#
# **A miniature.** One query 0, keys 1 and −1, scale 1: both weights are ½. ∂p/∂q is ½ · (1 − 0)
# for the first key and ½ · (−1 − 0) for the second, because the mean key is 0. The norm is
# √(¼ + ¼) ≈ 0.707. With scale ½ it is half of that.
#
# Read first: *What a large score does to the gradient* in [chapter 2](../book/02_scaling.ipynb).
#
# <details>
# <summary>Hint 1 for scaling-4: a chain of two links</summary>
#
# The query moves the numbers that go into the softmax, and those move the weights. Write down both
# derivatives for one query, with their shapes, and multiply them. Where does the scale stand?
#
# </details>
#
# <details>
# <summary>Hint 2 for scaling-4: one row of the product</summary>
#
# Multiply (diag(p) − p pᵀ) by the keys and look at row j: it is a weight times the difference of
# two vectors. One of them is an average that you know well. That saves the `[S, S]` matrix, but
# you may also build it.
#
# </details>


# %% answer scaling-4 points=6 minutes=15 difficulty=3 forbid=attnlearn
def gradient_norms(q, k, scale):
    """q [T, D], k [S, D] -> [T]: Frobenius norm of d softmax(scale * k q) / d q per query."""
    # BEGIN SOLUTION
    scores = scale * (q @ k.T)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights = weights / weights.sum(-1, keepdims=True)
    from_mean_key = k - (weights @ k)[:, None]
    gradient = scale * weights[..., None] * from_mean_key
    return np.sqrt((gradient**2).sum((1, 2)))
    # END SOLUTION


def summary(norms):
    """norms [T] -> mean, median and 10th percentile."""
    # BEGIN SOLUTION
    return np.mean(norms), np.median(norms), np.percentile(norms, 10)
    # END SOLUTION


# %% check scaling-4
case = check("scaling-4")


def _drawn(rng, T, S, D):
    return rng.normal(size=(T, D)), rng.normal(size=(S, D))


def _large(rng):
    q, k = _drawn(rng, 4, 4, 5)
    return 5000 * q, np.concatenate([k, k + 2e-4 * rng.normal(size=k.shape)])


def _three(norms):
    return np.array(summary(norms), float)


case("two keys, by hand", lambda: gradient_norms(np.zeros((1, 1)), np.array([[1.0], [-1.0]]), 0.5))
case("3 queries, 4 keys, scale 1", lambda rng: gradient_norms(*_drawn(rng, 3, 4, 5), 1))
case("3 queries, 6 keys, scale 0.3", lambda rng: gradient_norms(*_drawn(rng, 3, 6, 5), 0.3))
case("scores in the thousands", lambda rng: gradient_norms(*_large(rng), 0.5))
case("a summary", lambda rng: _three(rng.gamma(1, size=50)), weight=2)


@case("all of it at once: D = 64, 60 queries, 24 keys", weight=6)
def _(rng):
    q, k = _drawn(rng, 60, 24, 64)
    return {
        "no scale": _three(gradient_norms(q, k, 1)),
        "scale 1/8": _three(gradient_norms(q, k, 1 / 8)),
        "scores in the thousands": gradient_norms(*_large(rng), 0.5),
    }


# %% hidden scaling-4
case = check("scaling-4")


@case("more queries than keys, a small scale")
def _(rng):
    return gradient_norms(*_drawn(rng, 7, 3, 4), rng.uniform(0.1, 0.4))


# %% right scaling-4 with the whole Jacobian
def gradient_norms(q, k, scale):
    norms = []
    for row in q:
        scores = scale * (k @ row)
        p = np.exp(scores - scores.max())
        p /= p.sum()
        jacobian = np.diag(p) - np.outer(p, p)
        norms.append(np.linalg.norm(jacobian @ k * scale))
    return np.array(norms)


def summary(norms):
    low, middle = np.quantile(norms, [0.1, 0.5])
    return [norms.mean(), middle, low]


# %% right scaling-4 through logarithms
def gradient_norms(q, k, scale):
    scores = np.einsum("td,sd->ts", q, k) * scale
    p = np.exp(scores - np.logaddexp.reduce(scores, axis=1, keepdims=True))
    mean_key = np.einsum("ts,sd->td", p, k)
    square = (k[None] - mean_key[:, None]) ** 2
    return abs(scale) * np.sqrt(np.einsum("ts,tsd->t", p**2, square))


def summary(norms):
    return np.array([np.average(norms), np.percentile(norms, 50), np.percentile(norms, 10)])


# %% wrong scaling-4 only the diagonal of the softmax
# You used p (1 − p), the diagonal. Raising one score lowers all other weights, so every score
# moves every weight.
# Seen: deeplearning4j/libnd4j#440
# Seen: zhuozhiyongde/Fundamentals-of-Artificial-Intelligence-2024Spring-PKU#1
def gradient_norms(q, k, scale):
    scores = scale * (q @ k.T)
    p = np.exp(scores - scores.max(-1, keepdims=True))
    p = p / p.sum(-1, keepdims=True)
    gradient = scale * (p * (1 - p))[..., None] * k
    return np.sqrt((gradient**2).sum((1, 2)))


def summary(norms):
    return np.mean(norms), np.median(norms), np.percentile(norms, 10)


# %% wrong scaling-4 the scale is missing from the chain
# You scale inside the softmax and stop there. The scale is also a link of the chain: half the
# scale, half of what a step of the query does to the scores.
def gradient_norms(q, k, scale):
    scores = scale * (q @ k.T)
    p = np.exp(scores - scores.max(-1, keepdims=True))
    p = p / p.sum(-1, keepdims=True)
    gradient = p[..., None] * (k - (p @ k)[:, None])
    return np.sqrt((gradient**2).sum((1, 2)))


def summary(norms):
    return np.mean(norms), np.median(norms), np.percentile(norms, 10)


# %% wrong scaling-4 the scale is missing from the softmax
# Your weights come from unscaled scores. The scale belongs inside the softmax, where it keeps the
# weights from saturating.
# Seen: huggingface/blog#2893
def gradient_norms(q, k, scale):
    scores = q @ k.T
    p = np.exp(scores - scores.max(-1, keepdims=True))
    p = p / p.sum(-1, keepdims=True)
    gradient = scale * p[..., None] * (k - (p @ k)[:, None])
    return np.sqrt((gradient**2).sum((1, 2)))


def summary(norms):
    return np.mean(norms), np.median(norms), np.percentile(norms, 10)


# %% wrong scaling-4 the gradient stops at the scores
# You measured how the weights move with the scores. One link is missing: how the scores move with
# the query.
def gradient_norms(q, k, scale):
    scores = scale * (q @ k.T)
    p = np.exp(scores - scores.max(-1, keepdims=True))
    p = p / p.sum(-1, keepdims=True)
    jacobian = p[:, :, None] * (np.eye(len(k)) - p[:, None, :])
    return np.sqrt((jacobian**2).sum((1, 2)))


def summary(norms):
    return np.mean(norms), np.median(norms), np.percentile(norms, 10)


# %% wrong scaling-4 a sign in the Jacobian
# You added the mean key. Move all keys by the same vector and no weight changes, so your result
# must not change either: try it.
def gradient_norms(q, k, scale):
    scores = scale * (q @ k.T)
    p = np.exp(scores - scores.max(-1, keepdims=True))
    p = p / p.sum(-1, keepdims=True)
    gradient = scale * p[..., None] * (k + (p @ k)[:, None])
    return np.sqrt((gradient**2).sum((1, 2)))


def summary(norms):
    return np.mean(norms), np.median(norms), np.percentile(norms, 10)


# %% wrong scaling-4 a plain mean of the keys
# You subtract the plain mean of all keys. The softmax weighs them: the mean that belongs here is
# the one that attention takes.
def gradient_norms(q, k, scale):
    scores = scale * (q @ k.T)
    p = np.exp(scores - scores.max(-1, keepdims=True))
    p = p / p.sum(-1, keepdims=True)
    gradient = scale * p[..., None] * (k - k.mean(0))
    return np.sqrt((gradient**2).sum((1, 2)))


def summary(norms):
    return np.mean(norms), np.median(norms), np.percentile(norms, 10)


# %% wrong scaling-4 normalised over the queries
# Your softmax runs over the queries. Each query shares out a weight of 1 among the keys, whatever
# the other queries do.
# Seen: labmlai/annotated_deep_learning_paper_implementations#146
def gradient_norms(q, k, scale):
    scores = scale * (q @ k.T)
    p = np.exp(scores - scores.max(0))
    p = p / p.sum(0)
    gradient = scale * p[..., None] * (k - (p @ k)[:, None])
    return np.sqrt((gradient**2).sum((1, 2)))


def summary(norms):
    return np.mean(norms), np.median(norms), np.percentile(norms, 10)


# %% wrong scaling-4 no maximum subtracted
# The exponential of a large score overflows, and infinity over infinity is not a number. A softmax
# stays the same if all scores of a row are moved by one amount.
def gradient_norms(q, k, scale):
    p = np.exp(scale * (q @ k.T))
    p = p / p.sum(-1, keepdims=True)
    gradient = scale * p[..., None] * (k - (p @ k)[:, None])
    return np.sqrt((gradient**2).sum((1, 2)))


def summary(norms):
    return np.mean(norms), np.median(norms), np.percentile(norms, 10)


# %% wrong scaling-4 the largest singular value
# You took a matrix norm that looks at one direction only. The Frobenius norm sums the squares of
# all entries.
def gradient_norms(q, k, scale):
    scores = scale * (q @ k.T)
    p = np.exp(scores - scores.max(-1, keepdims=True))
    p = p / p.sum(-1, keepdims=True)
    gradient = scale * p[..., None] * (k - (p @ k)[:, None])
    return np.linalg.norm(gradient, 2, axis=(1, 2))


def summary(norms):
    return np.mean(norms), np.median(norms), np.percentile(norms, 10)


# %% wrong scaling-4 one norm for all queries
# You give one number for all queries together. The point is how the norm differs from query to
# query.
def gradient_norms(q, k, scale):
    scores = scale * (q @ k.T)
    p = np.exp(scores - scores.max(-1, keepdims=True))
    p = p / p.sum(-1, keepdims=True)
    gradient = scale * p[..., None] * (k - (p @ k)[:, None])
    return np.sqrt((gradient**2).sum())


def summary(norms):
    return np.mean(norms), np.median(norms), np.percentile(norms, 10)


# %% wrong scaling-4 the tenth of a percent
# Your percentile is the 0.1th, nearly the smallest norm of all. NumPy's `percentile` counts from 0
# to 100, its `quantile` from 0 to 1.
# Seen: byu-dml/metalearn#67
# Seen: swolock/scrublet#45
def gradient_norms(q, k, scale):
    scores = scale * (q @ k.T)
    p = np.exp(scores - scores.max(-1, keepdims=True))
    p = p / p.sum(-1, keepdims=True)
    gradient = scale * p[..., None] * (k - (p @ k)[:, None])
    return np.sqrt((gradient**2).sum((1, 2)))


def summary(norms):
    return np.mean(norms), np.median(norms), np.percentile(norms, 0.1)


# %% wrong scaling-4 the largest tenth
# You give the value that a tenth of the norms lies *above*. Vanishing gradients are at the other
# end.
# Seen: Project-MONAI/MONAI#2152
def gradient_norms(q, k, scale):
    scores = scale * (q @ k.T)
    p = np.exp(scores - scores.max(-1, keepdims=True))
    p = p / p.sum(-1, keepdims=True)
    gradient = scale * p[..., None] * (k - (p @ k)[:, None])
    return np.sqrt((gradient**2).sum((1, 2)))


def summary(norms):
    return np.mean(norms), np.median(norms), np.percentile(norms, 90)


# %% wrong scaling-4 the three numbers in another order
# Your median and your percentile have changed places. The order is mean, median, 10th percentile.
def gradient_norms(q, k, scale):
    scores = scale * (q @ k.T)
    p = np.exp(scores - scores.max(-1, keepdims=True))
    p = p / p.sum(-1, keepdims=True)
    gradient = scale * p[..., None] * (k - (p @ k)[:, None])
    return np.sqrt((gradient**2).sum((1, 2)))


def summary(norms):
    return np.mean(norms), np.percentile(norms, 10), np.median(norms)


# %% [markdown]
# ## scaling-5: Mend an attention function that is scaled wrongly
#
# *scaling-5 · 6 points · 14 minutes · ●●●○ difficulty 3 of 4*
#
# The function in the next cell is put together from lines that many repositories share. It runs,
# and at least five things about its scale are wrong. Copy it into the answer cell as `attend` and
# mend it until it keeps its promise:
#
# - `q` is `[B, H, T, D]`, `k` is `[B, H, S, D]`, `v` is `[B, H, S, E]`, and the result is
#   `[B, H, T, E]`; `E` may differ from `D`;
# - scores are scaled once, by 1/√D, before the softmax;
# - with `scale=` the caller chooses the scale in its place; **any** number counts, 0 too;
# - float16 arrays may come in whose raw scores are beyond 65,504 and whose scaled scores lie close
#   together: the result is right to three digits;
# - the caller's arrays stay unchanged.
#
# Half of the points are for a case that has all of it at once.
#
# **A miniature** of one fault: `None or 0.5` is 0.5, and so is `0 or 0.5`. Whoever asks for a
# scale of 0, equal weights for all keys, gets the default.
#
# Read first: *What goes wrong in real code* in [chapter 2](../book/02_scaling.ipynb).
#
# <details>
# <summary>Hint 1 for scaling-5: how to find the faults</summary>
#
# Change one thing that must not matter, the number of heads or the width of the values, and see
# whether the weights move. Take values that are all 1: what must come out? Call it twice with the
# same arrays.
#
# </details>
#
# <details>
# <summary>Hint 2 for scaling-5: how to mend them</summary>
#
# Settle the scale first, in one place, and use it in one place. Around 9,000, float16 knows every
# eighth whole number only: scaling early enough keeps scores finite, but does not keep them apart.
#
# </details>


# %%
def attend_copied(q, k, v, scale=None):
    """Wrong: find out where, then mend it in the answer cell below."""
    H, D = q.shape[1], v.shape[-1]
    scale = scale or (H * D) ** -0.5
    q *= scale
    scores = q @ np.swapaxes(k, -1, -2)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights = weights / weights.sum(-1, keepdims=True)
    return weights / np.sqrt(D) @ v


# %% answer scaling-5 points=6 minutes=14 difficulty=3 forbid=attnlearn,scaled_dot_product_attention
def attend(q, k, v, scale=None):
    """q [B, H, T, D], k [B, H, S, D], v [B, H, S, E], any float dtype -> [B, H, T, E]."""
    # BEGIN SOLUTION
    if scale is None:
        scale = q.shape[-1] ** -0.5
    scores = scale * q.astype(float) @ np.swapaxes(k, -1, -2)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ v
    # END SOLUTION


# %% check scaling-5
case = check("scaling-5", rtol=1e-3, atol=1e-4)


def _qkv(rng, H, D, E):
    return [rng.normal(size=(2, H, n, w)) for n, w in ((3, D), (5, D), (5, E))]


def _half(rng):
    q = 34 + rng.randint(-4, 5, (1, 2, 3, 64)) / 8  # raw scores near 74,000, exact in float32
    k = np.full((1, 2, 5, 64), 34.0)
    k[..., :16] += rng.randint(-1, 2, (1, 2, 5, 16)) / 16
    return [x.astype(np.float16) for x in (q, k, rng.normal(size=(1, 2, 5, 4)))]


def _change(q, k, v):
    before = [x.copy() for x in (q, k, v)]
    attend(q, k, v)
    return [np.abs(x - y).max() for x, y in zip((q, k, v), before, strict=True)]


case("one head of 5, values of 5", lambda rng: attend(*_qkv(rng, 1, 5, 5)))
case("4 heads of 6, values of 3", lambda rng: attend(*_qkv(rng, 4, 6, 3)))
case("values of 1 stay 1", lambda rng: attend(*_qkv(rng, 2, 6, 4)[:2], np.ones((2, 2, 5, 1))))
case("the caller's scale", lambda rng: attend(*_qkv(rng, 2, 6, 3), scale=0.8))
case("a scale of 0", lambda rng: attend(*_qkv(rng, 2, 6, 3), scale=0))
case("float16, raw scores beyond 65,504", lambda rng: attend(*_half(rng)))
case("the caller's arrays stay unchanged", lambda rng: _change(*_qkv(rng, 2, 6, 3)))


@case("all of it at once", weight=8)
def _(rng):
    return {
        "3 heads of 7, values of 2": attend(*_qkv(rng, 3, 7, 2)),
        "scale 0.9": attend(*_qkv(rng, 3, 7, 2), scale=0.9),
        "scale 0": attend(*_qkv(rng, 3, 7, 2), scale=0),
        "float16": attend(*_half(rng)),
        "changed by": _change(*_qkv(rng, 3, 7, 2)),
    }


# %% hidden scaling-5
case = check("scaling-5", rtol=1e-3, atol=1e-4)


@case("8 heads of 3, wide values, float32")
def _(rng):
    return attend(*(x.astype(np.float32) for x in _qkv(rng, 8, 3, 12)))


# %% right scaling-5 float32 is enough
def attend(q, k, v, scale=None):
    scale = 1 / np.sqrt(k.shape[-1]) if scale is None else scale
    q, k, v = (x.astype(np.float32) for x in (q, k, v))
    scores = np.einsum("bhtd,bhsd->bhts", q * np.float32(scale), k)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    return np.einsum("bhts,bhse->bhte", weights, v)


# %% right scaling-5 one query at a time
def attend(q, k, v, scale=None):
    B, H, T, D = q.shape
    if scale is None:
        scale = D**-0.5
    out = np.zeros((B, H, T, v.shape[-1]))
    for at in np.ndindex(B, H, T):
        scores = scale * (k[at[:2]].astype(float) @ q[at].astype(float))
        weights = np.exp(scores - np.logaddexp.reduce(scores))
        out[at] = weights @ v[at[:2]]
    return out


# %% wrong scaling-5 as it was copied
# Nothing is mended yet. Start with values that are all 1: an average of ones is 1, and yours is
# not.
def attend(q, k, v, scale=None):
    H, D = q.shape[1], v.shape[-1]
    scale = scale or (H * D) ** -0.5
    q *= scale
    scores = q @ np.swapaxes(k, -1, -2)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights = weights / weights.sum(-1, keepdims=True)
    return weights / np.sqrt(D) @ v


# %% wrong scaling-5 the model's width
# Your scale still counts the numbers of all heads together. A score sums over the numbers of one
# head.
# Seen: Graylab/DL4Proteins-notebooks#12
# Seen: aladdinpersson/Machine-Learning-Collection#65
def attend(q, k, v, scale=None):
    if scale is None:
        scale = (q.shape[1] * q.shape[-1]) ** -0.5
    scores = scale * q.astype(float) @ np.swapaxes(k, -1, -2)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ v


# %% wrong scaling-5 the width of the values
# Your scale comes from the width of the values. They have no part in a score; it is a coincidence
# of many models that their width is the same.
# Seen: openai/gpt-2#49
def attend(q, k, v, scale=None):
    if scale is None:
        scale = v.shape[-1] ** -0.5
    scores = scale * q.astype(float) @ np.swapaxes(k, -1, -2)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ v


# %% wrong scaling-5 no square root
# You divide by D where its square root is asked for, so the weights come out too even.
# Seen: delzac/cntkx#10
def attend(q, k, v, scale=None):
    if scale is None:
        scale = 1 / q.shape[-1]
    scores = scale * q.astype(float) @ np.swapaxes(k, -1, -2)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ v


# %% wrong scaling-5 scaled twice
# You scale the query, and then the scores again. Look for every place where a scale enters; there
# must be one.
# Seen: huggingface/transformers#38290
# Seen: AI-Hypercomputer/maxtext#1349
def attend(q, k, v, scale=None):
    D = q.shape[-1]
    if scale is None:
        scale = D**-0.5
    scores = (scale * q.astype(float)) @ np.swapaxes(k, -1, -2) / np.sqrt(D)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ v


# %% wrong scaling-5 the default on top of the caller's scale
# A caller's scale is multiplied by your default. It is meant to stand in its place.
# Seen: lucidrains/x-transformers#190
def attend(q, k, v, scale=None):
    if scale is None:
        scale = 1
    scores = scale * q.astype(float) @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1])
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ v


# %% wrong scaling-5 scaled after the softmax
# You scale the weights, not the scores. The softmax has saturated by then, and the weights no
# longer sum to 1.
# Seen: FrancescoSaverioZuppichini/ViT#2
def attend(q, k, v, scale=None):
    if scale is None:
        scale = q.shape[-1] ** -0.5
    scores = q.astype(float) @ np.swapaxes(k, -1, -2)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return scale * weights / weights.sum(-1, keepdims=True) @ v


# %% wrong scaling-5 a division left behind the softmax
# Your weights sum to less than 1: a division is left behind the softmax.
def attend(q, k, v, scale=None):
    D = q.shape[-1]
    if scale is None:
        scale = D**-0.5
    scores = scale * q.astype(float) @ np.swapaxes(k, -1, -2)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) / np.sqrt(D) @ v


# %% wrong scaling-5 normalised over the queries
# Your softmax runs over the queries. Each query shares out a weight of 1 among its keys, and the
# keys are the last axis of the scores.
# Seen: labmlai/annotated_deep_learning_paper_implementations#146
def attend(q, k, v, scale=None):
    if scale is None:
        scale = q.shape[-1] ** -0.5
    scores = scale * q.astype(float) @ np.swapaxes(k, -1, -2)
    weights = np.exp(scores - scores.max(-2, keepdims=True))
    return weights / weights.sum(-2, keepdims=True) @ v


# %% wrong scaling-5 no scale
# While mending you lost the default scale: without `scale=` your scores are raw.
# Seen: PAIR-code/tiny-transformers#71
# Seen: flexflow/flexflow-train#467
def attend(q, k, v, scale=None):
    if scale is None:
        scale = 1
    scores = scale * q.astype(float) @ np.swapaxes(k, -1, -2)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ v


# %% wrong scaling-5 scaled after the product in half precision
# Raw float16 scores become infinite before you scale them, and infinity minus infinity is not a
# number.
# Seen: ultralytics/ultralytics#24990
# Seen: pytorch/pytorch#119131
def attend(q, k, v, scale=None):
    if scale is None:
        scale = q.shape[-1] ** -0.5
    scores = scale * (q @ np.swapaxes(k, -1, -2))
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ v


# %% wrong scaling-5 half precision all the way
# Your float16 scores stay finite, but they are rounded to multiples of 8: keys that differ a
# little look equal or far apart. Where must the wider type begin?
# Seen: stanford-crfm/mistral#66
def attend(q, k, v, scale=None):
    if scale is None:
        scale = q.shape[-1] ** -0.5
    scores = (q * q.dtype.type(scale)) @ np.swapaxes(k, -1, -2)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ v


# %% wrong scaling-5 the caller's queries are scaled
# You scale the caller's own queries. The next layer, or the next call, finds them spoilt.
# Seen: pytorch/pytorch#73249
def attend(q, k, v, scale=None):
    if scale is None:
        scale = q.shape[-1] ** -0.5
    q *= q.dtype.type(scale)
    scores = q.astype(float) @ np.swapaxes(k, -1, -2)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ v


# %% wrong scaling-5 a scale of 0 is overlooked
# You take a scale of 0 for no scale at all. Python finds 0 and None equally false; ask for the one
# you mean.
# Seen: ml-explore/mlx#4097
def attend(q, k, v, scale=None):
    scale = scale or q.shape[-1] ** -0.5
    scores = scale * q.astype(float) @ np.swapaxes(k, -1, -2)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ v


# %% wrong scaling-5 the caller's scale is ignored
# You never look at the caller's scale: whoever asks for a softer or a sharper softmax gets the
# default.
# Seen: ROCm/composable_kernel#526
def attend(q, k, v, scale=None):
    scores = q.astype(float) @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1])
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ v


# %% [markdown]
# ## scaling-6: Find the scale that gives a wanted entropy
#
# *scaling-6 · 6 points · 16 minutes · ●●●● difficulty 4 of 4*
#
# 1/√D is right if components are independent with variance 1. Trained heads rarely are; how sharp
# their weights are is better said by an **entropy**: −Σ p log p over the keys, natural logarithm.
# It is log S for equal weights and 0 if one key takes all. Write `match_entropy(scores, target)`:
# the scale ≥ 0 for which the **mean over the rows** of the entropy of softmax(scale · scores) is
# `target`. One scale for all rows.
#
# - `scores` is `[T, S]`. They may be of any size, from a ten-millionth to millions, and may share
#   a large offset. The scale must be right to four digits.
# - The mean entropy falls as the scale grows, so halving an interval finds it (bisection).
# - **The limits.** At scale 0 the entropy is largest; if `target` is that large or larger, return
#   0. As the scale grows without end, only the keys that share the top score are left; if `target`
#   is no larger than what is left then, return `np.inf`.
#
# Half of the points are for a case that has all of it at once.
#
# **A miniature.** Scores `[[0, 1]]`, target 0.5: at scale 1 the weights are 0.27 and 0.73 with
# entropy 0.58, too much; at scale 2 they are 0.12 and 0.88 with 0.37, too little. The scale 1.4
# gives 0.4974, and the answer is 1.3881. With `[[1, 1]]` the entropy is log 2 ≈ 0.69 at every
# scale, so a target of 0.5 needs an infinite one.
#
# Read first: *Other ways to the same end* in [chapter 2](../book/02_scaling.ipynb).
#
# <details>
# <summary>Hint 1 for scaling-6: an entropy that never breaks</summary>
#
# Take the largest score of a row away first. Then log p = scale · gap − log(Σ exp(scale · gap)),
# and you need no logarithm of a weight that has become 0.
#
# </details>
#
# <details>
# <summary>Hint 2 for scaling-6: first catch it, then halve</summary>
#
# Nobody tells you how large the scale may be. Double an upper end until the entropy there is small
# enough, or halve an interval of *logarithms* of the scale. Either way, go on until the scale is
# right relative to its own size.
#
# </details>


# %% answer scaling-6 points=6 minutes=16 difficulty=4 forbid=attnlearn
def match_entropy(scores, target):
    """scores [T, S] -> the scale >= 0 at which the mean entropy of the rows is target (nats)."""
    # BEGIN SOLUTION
    gaps = scores - scores.max(-1, keepdims=True)

    def entropy(scale):
        weights = np.exp(scale * gaps)
        total = weights.sum(-1)
        return np.mean(np.log(total) - scale * (weights * gaps).sum(-1) / total)

    if target >= entropy(0):
        return 0.0
    if target <= np.mean(np.log((gaps == 0).sum(-1))):
        return np.inf
    low, high = -50.0, 50.0  # of the logarithm of the scale
    for _ in range(32):
        middle = (low + high) / 2
        if entropy(np.exp(middle)) > target:
            low = middle
        else:
            high = middle
    return np.exp(middle)
    # END SOLUTION


# %% check scaling-6
case = check("scaling-6", rtol=1e-4, atol=0, seconds=3)
_ties = np.array([[3, 3, 1, 0], [5, 2, 5, 4], [0, 1, 2, 2]])


def _drawn(rng, size=1.0, offset=0.0):
    return offset + size * rng.normal(size=(5, 8))


case("5 rows of 8 keys, half of log 8", lambda rng: match_entropy(_drawn(rng), np.log(8) / 2))
case("a sharp target: 0.2", lambda rng: match_entropy(_drawn(rng), 0.2))
case("scores in the millions", lambda rng: match_entropy(_drawn(rng, 1e6), 1.2))
case("scores of a ten-millionth", lambda rng: match_entropy(_drawn(rng, 1e-7), 1.2))
case("all scores near 1000", lambda rng: match_entropy(_drawn(rng, 1, 1000), 1.2))
case("more than log 8", lambda rng: match_entropy(_drawn(rng), 2.1))
case("no entropy at all", lambda rng: match_entropy(_drawn(rng), 0))
case("two top scores in every row, target 0.9", lambda: match_entropy(_ties, 0.9))
case("two top scores in every row, target 0.6", lambda: match_entropy(_ties, 0.6))


@case("all of it at once", weight=10)
def _(rng):
    return [
        match_entropy(_drawn(rng), 0.9),
        match_entropy(_drawn(rng, 2e6), 0.9),
        match_entropy(_drawn(rng, 1e-6), 0.9),
        match_entropy(_drawn(rng, 1, -2000), 0.9),
        match_entropy(_drawn(rng), 0),
        match_entropy(_drawn(rng), 2.2),
        match_entropy(_ties, 0.5),
    ]


# %% hidden scaling-6
case = check("scaling-6", rtol=1e-4, atol=0, seconds=3)


@case("drawn size and target")
def _(rng):
    return match_entropy(_drawn(rng, rng.uniform(5, 20)), rng.uniform(0.5, 1.5))


# %% right scaling-6 doubling, then halving
def match_entropy(scores, target):
    s = (scores - scores.max(-1, keepdims=True)).astype(float)

    def entropy(scale):
        logits = scale * s
        logp = logits - np.logaddexp.reduce(logits, axis=-1, keepdims=True)
        return -(np.exp(logp) * logp).sum(-1).mean()

    if target >= np.log(s.shape[1]):
        return 0.0
    if target <= np.log((s == 0).sum(1)).mean():
        return float("inf")
    high = 1.0
    while entropy(high) > target:
        high *= 2
    low = 0.0
    while high - low > 1e-7 * high:
        middle = (low + high) / 2
        if entropy(middle) > target:
            low = middle
        else:
            high = middle
    return high


# %% right scaling-6 with the convention that 0 log 0 is 0
def match_entropy(scores, target):
    top = np.max(scores, axis=1, keepdims=True)

    def entropy(scale):
        p = np.exp(scale * (scores - top))
        p /= p.sum(1, keepdims=True)
        return -np.mean(np.sum(p * np.log(np.where(p > 0, p, 1)), axis=1))

    if target >= np.log(scores.shape[1]):
        return 0.0
    if target <= np.mean(np.log(np.sum(scores == top, axis=1))):
        return np.inf
    step = 1.0
    while entropy(step) > target:
        step *= 2
    scale = 0.0
    for _ in range(60):
        step /= 2
        if entropy(scale + step) > target:
            scale += step
    return scale


# %% wrong scaling-6 a temperature in place of a scale
# You return a temperature: scores are *divided* by it. Here they are multiplied by the scale.
# Seen: bowang-lab/BLEEP#5
def match_entropy(scores, target):
    gaps = scores - scores.max(-1, keepdims=True)

    def entropy(scale):
        weights = np.exp(scale * gaps)
        total = weights.sum(-1)
        return np.mean(np.log(total) - scale * (weights * gaps).sum(-1) / total)

    if target >= entropy(0):
        return np.inf
    if target <= np.mean(np.log((gaps == 0).sum(-1))):
        return 0.0
    low, high = 0.0, 1.0
    while entropy(high) > target:
        high = 2 * high
    for _ in range(60):
        middle = (low + high) / 2
        if entropy(middle) > target:
            low = middle
        else:
            high = middle
    return 1 / high


# %% wrong scaling-6 entropy in bits
# Your entropy counts in bits, the target in nats: which logarithm does the task name?
# Seen: paiml/aprender#2142
# Seen: davehull/Kansa#71
def match_entropy(scores, target):
    gaps = scores - scores.max(-1, keepdims=True)

    def entropy(scale):
        weights = np.exp(scale * gaps)
        total = weights.sum(-1)
        nats = np.log(total) - scale * (weights * gaps).sum(-1) / total
        return np.mean(nats) / np.log(2)

    if target >= entropy(0):
        return 0.0
    if target <= np.mean(np.log2((gaps == 0).sum(-1))):
        return np.inf
    low, high = 0.0, 1.0
    while entropy(high) > target:
        high = 2 * high
    for _ in range(60):
        middle = (low + high) / 2
        if entropy(middle) > target:
            low = middle
        else:
            high = middle
    return high


# %% wrong scaling-6 entropies added up
# You compare the *sum* over the rows with the target. Every further row then makes the weights
# sharper.
def match_entropy(scores, target):
    gaps = scores - scores.max(-1, keepdims=True)

    def entropy(scale):
        weights = np.exp(scale * gaps)
        total = weights.sum(-1)
        return np.sum(np.log(total) - scale * (weights * gaps).sum(-1) / total)

    if target >= entropy(0):
        return 0.0
    if target <= np.sum(np.log((gaps == 0).sum(-1))):
        return np.inf
    low, high = 0.0, 1.0
    while entropy(high) > target:
        high = 2 * high
    for _ in range(60):
        middle = (low + high) / 2
        if entropy(middle) > target:
            low = middle
        else:
            high = middle
    return high


# %% wrong scaling-6 the entropy of the mean row
# You average the weights of all rows and take the entropy of that. Rows that are sharp at
# different keys then look even: take each row's entropy first.
def match_entropy(scores, target):
    gaps = scores - scores.max(-1, keepdims=True)

    def entropy(scale):
        weights = np.exp(scale * gaps)
        mean = (weights / weights.sum(-1, keepdims=True)).mean(0)
        return -(mean * np.log(np.where(mean > 0, mean, 1))).sum()

    if target >= entropy(0):
        return 0.0
    if target <= entropy(1e12):
        return np.inf
    low, high = 0.0, 1.0
    while entropy(high) > target:
        high = 2 * high
    for _ in range(60):
        middle = (low + high) / 2
        if entropy(middle) > target:
            low = middle
        else:
            high = middle
    return high


# %% wrong scaling-6 one scale for each row, averaged
# You find a scale for each row and average those. One scale for all rows is asked for, at which
# the *entropies* average to the target.
def match_entropy(scores, target):
    found = []
    for row in scores:
        gaps = row - row.max()

        def entropy(scale, gaps=gaps):
            weights = np.exp(scale * gaps)
            return np.log(weights.sum()) - scale * (weights * gaps).sum() / weights.sum()

        if target >= entropy(0):
            return 0.0
        if target <= np.log((gaps == 0).sum()):
            return np.inf
        low, high = 0.0, 1.0
        while entropy(high) > target:
            high = 2 * high
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (middle, high) if entropy(middle) > target else (low, middle)
        found.append(high)
    return np.mean(found)


# %% wrong scaling-6 0 times log 0
# Weights that have become 0 turn your entropy into NaN, and every comparison with NaN says no.
# Their share is 0: keep the logarithm away from them, or work with log p.
# Seen: huggingface/trl#7221
def match_entropy(scores, target):
    gaps = scores - scores.max(-1, keepdims=True)

    def entropy(scale):
        p = np.exp(scale * gaps)
        p = p / p.sum(-1, keepdims=True)
        return -np.mean((p * np.log(p)).sum(-1))

    if target >= entropy(0):
        return 0.0
    if target <= np.mean(np.log((gaps == 0).sum(-1))):
        return np.inf
    low, high = 0.0, 1.0
    while entropy(high) > target:
        high = 2 * high
    for _ in range(60):
        middle = (low + high) / 2
        if entropy(middle) < target:
            high = middle
        else:
            low = middle
    return high


# %% wrong scaling-6 no maximum subtracted
# Scores with a large offset overflow, or all vanish, in the exponential. Move every row so that
# its largest score is 0: the weights stay the same.
def match_entropy(scores, target):
    def entropy(scale):
        weights = np.exp(scale * scores)
        total = weights.sum(-1)
        return np.mean(np.log(total) - scale * (weights * scores).sum(-1) / total)

    if target >= entropy(0):
        return 0.0
    if target <= np.mean(np.log((scores == scores.max(-1, keepdims=True)).sum(-1))):
        return np.inf
    low, high = 0.0, 1.0
    while entropy(high) > target:
        high = 2 * high
    for _ in range(60):
        middle = (low + high) / 2
        if entropy(middle) < target:
            high = middle
        else:
            low = middle
    return high


# %% wrong scaling-6 a fixed upper end
# Your search never leaves its first interval. For small scores the scale lies far above it: how do
# you notice that it does?
# Seen: lvdmaaten/bhtsne#85
def match_entropy(scores, target):
    gaps = scores - scores.max(-1, keepdims=True)

    def entropy(scale):
        weights = np.exp(scale * gaps)
        total = weights.sum(-1)
        return np.mean(np.log(total) - scale * (weights * gaps).sum(-1) / total)

    if target >= entropy(0):
        return 0.0
    if target <= np.mean(np.log((gaps == 0).sum(-1))):
        return np.inf
    low, high = 0.0, 1000.0
    for _ in range(60):
        middle = (low + high) / 2
        if entropy(middle) > target:
            low = middle
        else:
            high = middle
    return high


# %% wrong scaling-6 stops at an absolute width
# You stop when the interval is narrower than a fixed number. For large scores the scale itself is
# no larger than that: measure the width against the scale.
def match_entropy(scores, target):
    gaps = scores - scores.max(-1, keepdims=True)

    def entropy(scale):
        weights = np.exp(scale * gaps)
        total = weights.sum(-1)
        return np.mean(np.log(total) - scale * (weights * gaps).sum(-1) / total)

    if target >= entropy(0):
        return 0.0
    if target <= np.mean(np.log((gaps == 0).sum(-1))):
        return np.inf
    low, high = 0.0, 1.0
    while entropy(high) > target:
        high = 2 * high
    while high - low > 1e-6:
        middle = (low + high) / 2
        if entropy(middle) > target:
            low = middle
        else:
            high = middle
    return high


# %% wrong scaling-6 the search runs the wrong way
# You keep the wrong half. If the entropy in the middle is still too large, must the scale grow or
# shrink?
# Seen: frjnn/bhtsne#16
def match_entropy(scores, target):
    gaps = scores - scores.max(-1, keepdims=True)

    def entropy(scale):
        weights = np.exp(scale * gaps)
        total = weights.sum(-1)
        return np.mean(np.log(total) - scale * (weights * gaps).sum(-1) / total)

    if target >= entropy(0):
        return 0.0
    if target <= np.mean(np.log((gaps == 0).sum(-1))):
        return np.inf
    low, high = 0.0, 1.0
    while entropy(high) > target:
        high = 2 * high
    for _ in range(60):
        middle = (low + high) / 2
        if entropy(middle) > target:
            high = middle
        else:
            low = middle
    return high


# %% wrong scaling-6 doubled and never halved
# You double the scale until the entropy is small enough, and return that. The scale you look for
# lies somewhere between the last two that you tried.
def match_entropy(scores, target):
    gaps = scores - scores.max(-1, keepdims=True)

    def entropy(scale):
        weights = np.exp(scale * gaps)
        total = weights.sum(-1)
        return np.mean(np.log(total) - scale * (weights * gaps).sum(-1) / total)

    if target >= entropy(0):
        return 0.0
    if target <= np.mean(np.log((gaps == 0).sum(-1))):
        return np.inf
    high = 1.0
    while entropy(high) > target:
        high = 2 * high
    return high


# %% wrong scaling-6 no infinite scale
# You always return a finite scale. Some targets are out of reach for every finite one: an entropy
# of 0, or less than tied top scores leave.
def match_entropy(scores, target):
    gaps = scores - scores.max(-1, keepdims=True)

    def entropy(scale):
        weights = np.exp(scale * gaps)
        total = weights.sum(-1)
        return np.mean(np.log(total) - scale * (weights * gaps).sum(-1) / total)

    if target >= entropy(0):
        return 0.0
    low, high = 0.0, 1.0
    while entropy(high) > target and high < 1e9:
        high = 2 * high
    for _ in range(60):
        middle = (low + high) / 2
        if entropy(middle) > target:
            low = middle
        else:
            high = middle
    return high


# %% wrong scaling-6 infinite only for 0
# You think of an infinite scale for the target 0 only. Two equal top scores share the weight at
# every scale: how much entropy do they keep?
def match_entropy(scores, target):
    gaps = scores - scores.max(-1, keepdims=True)

    def entropy(scale):
        weights = np.exp(scale * gaps)
        total = weights.sum(-1)
        return np.mean(np.log(total) - scale * (weights * gaps).sum(-1) / total)

    if target >= entropy(0):
        return 0.0
    if target <= 0:
        return np.inf
    low, high = 0.0, 1.0
    while entropy(high) > target and high < 1e9:
        high = 2 * high
    for _ in range(60):
        middle = (low + high) / 2
        if entropy(middle) > target:
            low = middle
        else:
            high = middle
    return high


# %% wrong scaling-6 unit variance in place of the entropy
# You scale the scores to a standard deviation of 1 and never look at the target. That is the
# thought behind 1/√D; the entropy it gives is what it happens to be.
def match_entropy(scores, target):
    return 1 / np.std(scores)


# %% wrong scaling-6 normalised over the rows
# Your softmax runs down the columns. Each row, one query, shares out its own weight of 1.
# Seen: labmlai/annotated_deep_learning_paper_implementations#146
def match_entropy(scores, target):
    gaps = scores - scores.max(0)

    def entropy(scale):
        weights = np.exp(scale * gaps)
        total = weights.sum(0)
        return np.mean(np.log(total) - scale * (weights * gaps).sum(0) / total)

    if target >= entropy(0):
        return 0.0
    if target <= np.mean(np.log((gaps == 0).sum(0))):
        return np.inf
    low, high = 0.0, 1.0
    while entropy(high) > target:
        high = 2 * high
    for _ in range(60):
        middle = (low + high) / 2
        if entropy(middle) > target:
            low = middle
        else:
            high = middle
    return high


# %% [markdown]
# ## scaling-7: Write the check
#
# *scaling-7 · 4 points · 12 minutes · ●●●○ difficulty 3 of 4*
#
# A published exercise checks attention with queries and keys like 88 and 99. The raw scores are in
# the thousands, the softmax is saturated with the scale and without it, and every answer is
# "correctly implemented". Do better: write `accepts(attend)`. It gets a *function* that somebody
# else wrote, `attend(q, k, v)` for float arrays `q [T, D]`, `k [S, D]`, `v [S, E]`, supposed to
# return softmax(q kᵀ / √D) v; you return `True` if it does, `False` if not.
#
# - Right functions differ in the last digits: accept them all.
# - A function that raises an error is wrong: return `False`, don't let the error through.
# - Judge only by calling it, with arrays that you choose. It should be right for every D from 1 to
#   128.
#
# **A miniature.** `lambda q, k, v: v[(q @ k.T).argmax(-1)]` takes the best key alone. With
# saturated scores no check can tell it from attention; yours should.
#
# The check cell hands you one right and one wrong function at a time: you need both verdicts. Half
# of the points are for judging all of them rightly.
# Read first: *What goes wrong in real code* in [chapter 2](../book/02_scaling.ipynb).
#
# <details>
# <summary>Hint 1 for scaling-7: where do two scales differ?</summary>
#
# Any two of 1/√D, 1/D and 1/8 agree at some width. Sizes that are equal hide which of them was
# used. And if scores are very large or very small, the weights hardly feel a scale: look at them.
#
# </details>
#
# <details>
# <summary>Hint 2 for scaling-7: what to compare with</summary>
#
# Four plain lines that follow the formula are enough to compare with. Then a case that you can
# work out by hand keeps your own four lines honest.
#
# </details>


# %% answer scaling-7 points=4 minutes=12 difficulty=3 forbid=attnlearn,scaled_dot_product_attention
def accepts(attend):
    """True if attend(q, k, v) is softmax(q k^T / sqrt(D)) v, False if it is not, or raises."""
    # BEGIN SOLUTION
    rng = np.random.default_rng(0)
    for T, S, D, E in [(2, 3, 5, 4), (3, 6, 2, 1), (4, 7, 101, 3)]:
        q, k, v = (rng.normal(size=shape) for shape in ((T, D), (S, D), (S, E)))
        weights = np.exp(q @ k.T / np.sqrt(D))
        want = weights / weights.sum(1, keepdims=True) @ v
        try:
            got = attend(q, k, v)
        except Exception:
            return False
        if np.shape(got) != (T, E) or not np.allclose(got, want):
            return False
    return True
    # END SOLUTION


# %% check scaling-7
case = check("scaling-7")


def _softmax(scores):
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


def _right(q, k, v):
    return _softmax(q @ k.T / np.sqrt(q.shape[-1])) @ v


def _right_too(q, k, v):
    return np.array([_softmax(k @ (row * len(row) ** -0.5)) @ v for row in q])


def _no_scale(q, k, v):
    return _softmax(q @ k.T) @ v


def _no_root(q, k, v):
    return _softmax(q @ k.T / q.shape[-1]) @ v


def _times_the_root(q, k, v):
    return _softmax(q @ k.T * np.sqrt(q.shape[-1])) @ v


def _width_of_the_values(q, k, v):
    return _softmax(q @ k.T / np.sqrt(v.shape[-1])) @ v


def _number_of_keys(q, k, v):
    return _softmax(q @ k.T / np.sqrt(len(k))) @ v


def _always_an_eighth(q, k, v):
    return _softmax(q @ k.T / 8) @ v


def _whole_root(q, k, v):
    return _softmax(q @ k.T / int(np.sqrt(q.shape[-1]))) @ v


def _scale_of_zero(q, k, v):
    return _softmax(0 * q @ k.T) @ v


def _after_the_softmax(q, k, v):
    return _softmax(q @ k.T) / np.sqrt(q.shape[-1]) @ v


def _raises(q, k, v):
    D = q.shape[-1]
    if D & (D - 1):
        raise ValueError(f"a width of {D} is no power of 2")
    return _right(q, k, v)


def _verdicts(right, wrong):
    return {"the right function": accepts(right), "the wrong function": accepts(wrong)}


case("no scale", lambda: _verdicts(_right, _no_scale))
case("no square root", lambda: _verdicts(_right_too, _no_root))
case("multiplied by the root", lambda: _verdicts(_right, _times_the_root))
case("the width of the values", lambda: _verdicts(_right_too, _width_of_the_values))
case("the number of keys", lambda: _verdicts(_right, _number_of_keys))
case("always an eighth", lambda: _verdicts(_right_too, _always_an_eighth))
case("the root cut to a whole number", lambda: _verdicts(_right, _whole_root))
case("a scale of 0", lambda: _verdicts(_right_too, _scale_of_zero))
case("scaled after the softmax", lambda: _verdicts(_right, _after_the_softmax))
case("an error for some widths", lambda: _verdicts(_right_too, _raises))


@case("all of them together", weight=12)
def _():
    right = (_right, _right_too)
    wrong = (_no_scale, _no_root, _times_the_root, _width_of_the_values, _number_of_keys)
    rest = (_always_an_eighth, _whole_root, _scale_of_zero, _after_the_softmax, _raises)
    return {function.__name__: accepts(function) for function in right + wrong + rest}


# %% hidden scaling-7
case = check("scaling-7")


def _capped(q, k, v):
    return _softmax(q @ k.T / min(8, np.sqrt(q.shape[-1]))) @ v


def _best_key(q, k, v):
    return v[(q @ k.T).argmax(-1)]


def _softmax_over_queries(q, k, v):
    return _softmax((q @ k.T / np.sqrt(q.shape[-1])).T).T @ v


case("wrong only for wide heads", lambda: _verdicts(_right, _capped))
case("normalised over the queries", lambda: _verdicts(_right_too, _softmax_over_queries))
case("the best key alone", lambda: _verdicts(_right, _best_key))


# %% right scaling-7 many small sizes
def accepts(attend):
    rng = np.random.RandomState(1)
    for D in (1, 2, 3, 8, 64, 65, 128):
        for T, S, E in ((1, 4, 2), (5, 3, 6)):
            q, k, v = rng.randn(T, D), rng.randn(S, D), rng.randn(S, E)
            scores = np.einsum("td,sd->ts", q, k) / D**0.5
            want = np.exp(scores - np.logaddexp.reduce(scores, axis=1, keepdims=True)) @ v
            try:
                if not np.allclose(attend(q, k, v), want, rtol=1e-5, atol=1e-7):
                    return False
            except Exception:
                return False
    return True


# %% right scaling-7 by hand: two keys whose odds are known
def accepts(attend):
    try:
        for D in (1, 3, 16, 50, 128):
            # scores 2 log 3 and 0 after scaling: the weights are 9/10 and 1/10
            q = np.zeros((3, D))
            q[:, 0] = 2 * np.log(3) * np.sqrt(D)
            k = np.zeros((2, D))
            k[0, 0] = 1
            out = np.asarray(attend(q, k, np.array([[0.0, 5], [10, 5]])))
            if out.shape != (3, 2) or not np.allclose(out, [1, 5]):
                return False
    except Exception:
        return False
    return True


# %% wrong scaling-7 saturated scores
# Wrong scales pass your check. Where one key takes all the weight, it does so at every scale but 0:
# look at the weights that your arrays give.
# Seen: https://github.com/NeuromatchAcademy/course-content-dl/blob/main/tutorials/W2D5_AttentionAndTransformers/student/W2D5_Tutorial1.ipynb
def accepts(attend):
    rng = np.random.default_rng(0)
    for T, S, D, E in [(2, 3, 5, 4), (3, 6, 2, 1), (4, 7, 101, 3)]:
        q, k, v = (rng.normal(size=shape) for shape in ((T, D), (S, D), (S, E)))
        q = 1e6 * q
        want = v[(q @ k.T).argmax(1)]
        try:
            got = attend(q, k, v)
        except Exception:
            return False
        if np.shape(got) != (T, E) or not np.allclose(got, want):
            return False
    return True


# %% wrong scaling-7 scores near 0
# Wrong scales pass your check, even a scale of 0. Where all keys weigh nearly the same, the scale
# hardly matters: look at the weights that your arrays give.
def accepts(attend):
    rng = np.random.default_rng(0)
    for T, S, D, E in [(2, 3, 5, 4), (3, 6, 2, 1), (4, 7, 101, 3)]:
        q, k, v = (rng.normal(size=shape) for shape in ((T, D), (S, D), (S, E)))
        q = 1e-9 * q
        want = np.tile(v.mean(0), (T, 1))
        try:
            got = attend(q, k, v)
        except Exception:
            return False
        if np.shape(got) != (T, E) or not np.allclose(got, want):
            return False
    return True


# %% wrong scaling-7 one width only
# A scale that was written down as a number passes your check. It is right at one width and wrong
# everywhere else: how many widths do you try?
# Seen: triton-lang/triton#621
def accepts(attend):
    rng = np.random.default_rng(0)
    for T, S, D, E in [(2, 3, 64, 4), (3, 6, 64, 5)]:
        q, k, v = (rng.normal(size=shape) for shape in ((T, D), (S, D), (S, E)))
        weights = np.exp(q @ k.T / np.sqrt(D))
        want = weights / weights.sum(1, keepdims=True) @ v
        try:
            got = attend(q, k, v)
        except Exception:
            return False
        if np.shape(got) != (T, E) or not np.allclose(got, want):
            return False
    return True


# %% wrong scaling-7 all sizes are equal
# A scale passes your check that comes from the width of the values, or from the number of keys.
# Nobody can tell equal sizes apart: give every axis a size of its own.
# Seen: openai/gpt-2#49
def accepts(attend):
    rng = np.random.default_rng(0)
    for n in (5, 3, 101):
        q, k, v = rng.normal(size=(3, n, n))
        weights = np.exp(q @ k.T / np.sqrt(n))
        want = weights / weights.sum(1, keepdims=True) @ v
        try:
            got = attend(q, k, v)
        except Exception:
            return False
        if np.shape(got) != (n, n) or not np.allclose(got, want):
            return False
    return True


# %% wrong scaling-7 one size for everything
# A scale passes your check that comes from another axis, and one whose root was cut. Give every
# axis a size of its own, and try several widths.
def accepts(attend):
    q, k, v = np.random.default_rng(0).normal(size=(3, 4, 4))
    weights = np.exp(q @ k.T / 2)
    try:
        got = attend(q, k, v)
    except Exception:
        return False
    return np.allclose(got, weights / weights.sum(1, keepdims=True) @ v)


# %% wrong scaling-7 square widths only
# A root that was cut to a whole number passes your check. At some widths it is right: which widths
# do you try?
def accepts(attend):
    rng = np.random.default_rng(0)
    for T, S, D, E in [(2, 3, 4, 5), (3, 5, 16, 2), (4, 7, 64, 3)]:
        q, k, v = (rng.normal(size=shape) for shape in ((T, D), (S, D), (S, E)))
        weights = np.exp(q @ k.T / np.sqrt(D))
        want = weights / weights.sum(1, keepdims=True) @ v
        try:
            got = attend(q, k, v)
        except Exception:
            return False
        if np.shape(got) != (T, E) or not np.allclose(got, want):
            return False
    return True


# %% wrong scaling-7 a width of 1 only
# Scales of 1, 1/D and √D pass your check. There is a width at which all of them equal 1/√D.
def accepts(attend):
    q, k, v = np.array([[0.5], [2.0]]), np.array([[1.0], [-1.0], [0.3]]), np.eye(3)[:, :2]
    weights = np.exp(q @ k.T)
    try:
        got = attend(q, k, v)
    except Exception:
        return False
    want = weights / weights.sum(1, keepdims=True) @ v
    return np.shape(got) == (2, 2) and np.allclose(got, want)


# %% wrong scaling-7 only the sum of the weights is checked
# Wrong scales pass your check. Weights of every scale sum to 1, so values that are all 1 show
# nothing of it: which values do you take?
def accepts(attend):
    rng = np.random.default_rng(0)
    for T, S, D, E in [(2, 3, 8, 4), (3, 6, 2, 1)]:
        q, k = rng.normal(size=(T, D)), rng.normal(size=(S, D))
        try:
            got = attend(q, k, np.ones((S, E)))
        except Exception:
            return False
        if np.shape(got) != (T, E) or not np.allclose(got, 1):
            return False
    return True


# %% wrong scaling-7 only the shape is checked
# Functions with wrong numbers pass your check, if only the shape is right. A scale never changes a
# shape.
def accepts(attend):
    rng = np.random.default_rng(0)
    for T, S, D, E in [(2, 3, 5, 4), (3, 6, 2, 1), (4, 7, 101, 3)]:
        try:
            got = attend(*(rng.normal(size=shape) for shape in ((T, D), (S, D), (S, E))))
        except Exception:
            return False
        if np.shape(got) != (T, E):
            return False
    return True


# %% wrong scaling-7 too wide a tolerance
# Faults of the scale pass your check that change the second digit. Right functions agree to ten
# digits or more: how much does your comparison forgive?
def accepts(attend):
    rng = np.random.default_rng(0)
    for T, S, D, E in [(2, 3, 5, 4), (3, 6, 2, 1), (4, 7, 101, 3)]:
        q, k, v = (rng.normal(size=shape) for shape in ((T, D), (S, D), (S, E)))
        weights = np.exp(q @ k.T / np.sqrt(D))
        want = weights / weights.sum(1, keepdims=True) @ v
        try:
            got = attend(q, k, v)
        except Exception:
            return False
        if np.shape(got) != (T, E) or not np.allclose(got, want, atol=0.5):
            return False
    return True


# %% wrong scaling-7 an error escapes
# When the function raises an error, so do you. A check gives its verdict: a function that breaks
# is wrong.
def accepts(attend):
    rng = np.random.default_rng(0)
    for T, S, D, E in [(2, 3, 5, 4), (3, 6, 2, 1), (4, 7, 101, 3)]:
        q, k, v = (rng.normal(size=shape) for shape in ((T, D), (S, D), (S, E)))
        weights = np.exp(q @ k.T / np.sqrt(D))
        want = weights / weights.sum(1, keepdims=True) @ v
        got = attend(q, k, v)
        if np.shape(got) != (T, E) or not np.allclose(got, want):
            return False
    return True


# %% wrong scaling-7 the model answer has the same fault
# Right functions are rejected, and one that divides by D is accepted. Is that what your own formula
# does? Work out a small case by hand.
def accepts(attend):
    rng = np.random.default_rng(0)
    for T, S, D, E in [(2, 3, 5, 4), (3, 6, 2, 1), (4, 7, 101, 3)]:
        q, k, v = (rng.normal(size=shape) for shape in ((T, D), (S, D), (S, E)))
        weights = np.exp(q @ k.T / D)
        want = weights / weights.sum(1, keepdims=True) @ v
        try:
            got = attend(q, k, v)
        except Exception:
            return False
        if np.shape(got) != (T, E) or not np.allclose(got, want):
            return False
    return True


# %% wrong scaling-7 everything is accepted
# The functions of these cases are accepted, and all of them are wrong. A check proves something
# only if it can fail: what would each of them get wrong?
def accepts(attend):
    return True


# %% wrong scaling-7 everything is rejected
# Right functions are rejected, too: two right ones may differ in the last digit. Run your check on
# a function that you trust before you use it on others.
def accepts(attend):
    return False


# %% [markdown]
# ## What to take along
#
# - A score is a sum of D products: its variance is D σ_q² σ_k² (1 + ρ²) for means of 0, and its
#   spread grows like √D.
# - D is the number of products in one score: the width of one head, of queries and keys.
# - Scale once, before the softmax, in a type that holds the scores.
# - Without a scale most gradients are nearly 0 and a few are large. A mean hides that.
# - A check that looks at saturated scores, or at one width, cannot see the scale.
#
# Back to [chapter 2](../book/02_scaling.ipynb).
