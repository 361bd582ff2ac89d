# %% [markdown]
# # A small exercise that tests the machinery
# Two tasks, and everything that a script may hold.

# %%
print("a plain cell")

# %% setup
import numpy as np

from attnlearn.exercise import check

# %% [markdown]
# ## Task 1. A causal mask

# %% answer demo-1 points=4 minutes=5 difficulty=2 forbid=numpy.tril
def causal(T, S):
    """bool [T, S]; the last query sees every key."""
    # BEGIN SOLUTION
    i = np.arange(S - T, S)[:, None]
    return np.arange(S)[None, :] <= i
    # END SOLUTION

# %% check demo-1
case = check("demo-1", seconds=2)
case("square", lambda: causal(4, 4))
case("decoding", lambda: causal(1, 5))
case("chunk", lambda: causal(3, 5), weight=2)

# %% hidden demo-1
case = check("demo-1")
case("drawn sizes", lambda rng: causal(*np.sort(rng.randint(2, 9, 2)) + [0, 1]))

# %% right demo-1 loops
def causal(T, S):
    m = np.zeros((T, S), bool)
    for t in range(T):
        m[t, : max(0, S - T + t + 1)] = True
    return m

# %% wrong demo-1 top-left diagonal
# The diagonal starts at the top left: which position has query 0?
# Seen: pytorch/pytorch#103082
def causal(T, S):
    return np.arange(S)[None, :] <= np.arange(T)[:, None]

# %% wrong demo-1 strict
# A query may look at itself.
# Seen: https://example.org/strict
def causal(T, S):
    return np.arange(S)[None, :] < np.arange(S - T, S)[:, None]

# %% wrong demo-1 numbers
# The values are 0.0 and 1.0. A float mask is added to the scores.
def causal(T, S):
    return (np.arange(S)[None, :] <= np.arange(S - T, S)[:, None]).astype(float)

# %% wrong demo-1 True hides
# True means "may look" here.
def causal(T, S):
    return np.arange(S)[None, :] > np.arange(S - T, S)[:, None]

# %% [markdown]
# ## Task 2. Softmax

# %% answer demo-2 points=2 minutes=5 difficulty=3
def softmax(x):
    """float [..., n] -> float [..., n], each row sums to 1."""
    # BEGIN SOLUTION
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)
    # END SOLUTION

# %% check demo-2
case = check("demo-2")
_big = 1000.0

case("two rows", lambda rng: softmax(rng.normal(size=(2, 4))))
case("large numbers", lambda rng: softmax(_big + rng.normal(size=(2, 4))), weight=3)


@case("the sum of each row")
def _(rng):
    return softmax(rng.normal(size=(3, 5))).sum(-1)

case("steps for 10 numbers", lambda: softmax(np.zeros(10)).size, at_most=12)

# %% right demo-2 one row at a time
def softmax(x):
    out = np.empty_like(x)
    for i in np.ndindex(x.shape[:-1]):
        e = np.exp(x[i] - max(x[i]))
        out[i] = e / sum(e)
    return out

# %% wrong demo-2 no maximum subtracted
# Large numbers overflow: subtract the largest of each row.
# Seen: pytorch/pytorch#1
def softmax(x):
    return np.exp(x) / np.exp(x).sum(-1, keepdims=True)

# %% wrong demo-2 over the columns
# Each row should sum to 1, not each column.
# Seen: pytorch/pytorch#2
def softmax(x):
    e = np.exp(x - x.max(0))
    return e / e.sum(0)

# %% wrong demo-2 not normalised
# The weights of a row should sum to 1.
def softmax(x):
    return np.exp(x - x.max(-1, keepdims=True))

# %% wrong demo-2 twice as long
# The result has as many numbers as the input.
def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return np.concatenate([e, e], -1) / e.sum(-1, keepdims=True)
