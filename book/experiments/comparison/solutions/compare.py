# %% [markdown]
# # Three small tasks

# %% setup
import numpy as np

from attnlearn.exercise import check

# %% [markdown]
# ## softmax

# %% answer softmax points=2 minutes=3 difficulty=1
def softmax(x):
    """Softmax along the last axis."""
    # BEGIN SOLUTION
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)
    # END SOLUTION

# %% check softmax
case = check("softmax")
case("a row", lambda: softmax(np.array([0.0, 1.0, 2.0])))
case("large", lambda rng: softmax(1000 * rng.normal(size=(2, 3))))

# %% wrong softmax not divided
# Weights add up to 1.
def softmax(x):
    return np.exp(x - x.max(-1, keepdims=True))

# %% [markdown]
# ## causal

# %% answer causal points=2 minutes=3 difficulty=1
def causal(T, S):
    """bool [T, S]; the last query sees every key."""
    # BEGIN SOLUTION
    return np.arange(S) <= np.arange(S - T, S)[:, None]
    # END SOLUTION

# %% check causal
case = check("causal")
case("square", lambda: causal(3, 3))
case("decoding", lambda: causal(1, 4))

# %% wrong causal everything
# A query sees no later key.
def causal(T, S):
    return np.arange(S) < np.arange(S - T, S)[:, None]

# %% [markdown]
# ## scores

# %% answer scores points=2 minutes=3 difficulty=1
def scores(q, k):
    """q [T, D], k [S, D] -> q k^T / sqrt(D)."""
    # BEGIN SOLUTION
    return q @ k.T / np.sqrt(q.shape[-1])
    # END SOLUTION

# %% check scores
case = check("scores")
case("one", lambda: scores(np.ones((1, 4)), np.ones((1, 4))))
case("drawn", lambda rng: scores(rng.normal(size=(2, 3)), rng.normal(size=(4, 3))))

# %% wrong scores not scaled
# Divide by the root of the width.
def scores(q, k):
    return q @ k.T
