"""One entry: ``attention(q, k, v, mask)``. ``impl`` names the algorithm, never the mathematics."""

from __future__ import annotations

import math
import sys
from importlib import import_module
from importlib.util import find_spec
from numbers import Real

import numpy as np

from . import reference
from .masks import Causal, Dense, Full, Mask

# name: (module, function). Loaded when first used, so that NumPy alone is enough for the first.
IMPLS = {
    "reference": ("reference", "attention"),
    "dense": ("dense", "attention"),
    "flash": ("flash", "attention"),
    "sdpa": ("native", "sdpa"),
    "flex": ("native", "flex"),
    "triton": ("kernels", "attention"),
}
DTYPES = ("float16", "bfloat16", "float32", "float64")


def attention(q, k, v, mask=None, *, scale=None, dropout=0.0, impl="auto"):
    """Scaled dot-product attention (arXiv 1706.03762): softmax(q kᵀ · scale) v under a mask.

    q [..., Hq, T, D], k [..., Hk, S, D], v [..., Hk, S, E] -> [..., Hq, T, E], all NumPy arrays or
    all torch tensors. Hq is a multiple of Hk. ``mask``: a Mask, a boolean matrix (True: may see)
    or None. ``scale``: 1/√D unless given. ``impl``: reference, dense, flash, sdpa, flex or triton;
    "auto" is what ``pick`` says. A named implementation works or raises; it never falls back.
    ``dropout`` on the weights is for training, and ``dense`` alone has it.

    The last query stands at the last key. A query that sees nothing gets zeros. What is hidden
    from every query, NaN included, reaches neither output nor gradient.

    Raises TypeError for wrong types and ValueError for wrong shapes, saying which and why.
    """
    mask, scale = checked(q, k, v, mask, scale)
    name = chosen(impl, dropout, q, k, v, mask)
    module, function = IMPLS[name]
    run = getattr(import_module(f".{module}", __package__), function)
    how = {"dropout": dropout} if dropout else {}
    q, k, v = without_unseen(q, k, v, mask)
    if is_numpy(q) and name == "reference":
        return run(q, k, v, mask, scale)
    if is_numpy(q):
        torch = import_module("torch")
        tensors = (torch.tensor(np.ascontiguousarray(x)) for x in (q, k, v))
        return run(*tensors, mask, scale, **how).numpy()
    if name == "reference":
        return on_numpy(run, q, k, v, mask, scale)
    with import_module("torch").autocast(q.device.type, enabled=False):  # the dtype is q's own
        return run(q, k, v, mask, scale, **how)


def attention_weights(q, k, mask=None, *, scale=None):
    """The matrix of weights, for looking at.

    q [..., Hq, T, D], k [..., Hk, S, D] -> [..., Hq, T, S]. Arguments and errors: ``attention``'s.
    """
    mask, scale = checked(q, k, k, mask, scale)
    q, k, _ = without_unseen(q, k, k, mask)
    module = reference if is_numpy(q) else import_module(".dense", __package__)
    return module.weights(q, k, mask, scale)


def pick(q, mask=None, k=None, v=None) -> str:
    """The implementation that "auto" means; ``k`` and ``v`` matter where they differ from ``q``.

    1. NumPy arrays: ``reference``.
    2. Half types on the CPU: ``flash``, as PyTorch sums their gradients in half there.
    3. No mask, Full(), or Causal() with T = S: ``sdpa``, which needs no matrix for them.
    4. Dense, or at most 256 queries: ``sdpa``, as the matrix is there, or small.
    5. Half types on an NVIDIA GPU from Ampere on, heads at most 256 wide, with Triton installed:
       ``triton``, one kernel that visits the tiles that the mask keeps.
    6. Otherwise ``flash``, which skips hidden tiles too, and never builds the matrix either.
    """
    check_array("q", q, q)
    if is_numpy(q):
        return "reference"
    if q.dtype.itemsize == 2 and q.device.type == "cpu":
        return "flash"
    T = q.shape[-2]
    square = mask == Causal() and (k is None or k.shape[-2] == T)
    small = T <= 256 or not isinstance(mask, Mask) or isinstance(mask, Dense)
    if mask is None or mask == Full() or square or small:
        return "sdpa"
    return "triton" if fits_triton(q, v) else "flash"


def fits_triton(q, v) -> bool:
    """Can the Triton kernels run on ``q`` and ``v``, and be expected to beat ``flash``?"""
    if q.device.type != "cuda" or q.dtype.itemsize != 2 or find_spec("triton") is None:
        return False
    torch = import_module("torch")
    nvidia = torch.version.hip is None and torch.cuda.get_device_capability(q.device) >= (8, 0)
    return nvidia and max(q.shape[-1], 0 if v is None else v.shape[-1]) <= 256


def checked(q, k, v, mask, scale) -> tuple[Mask, float]:
    """The mask as a Mask and the scale as a float, once every argument has been checked."""
    for name, x in (("q", q), ("k", k), ("v", v)):
        check_array(name, x, q)
    (*batch, Hq, T, D), (Hk, S) = q.shape, k.shape[-3:-1]
    for name, x, want in (("k", k, (*batch, Hk, S, D)), ("v", v, (*batch, Hk, S, v.shape[-1]))):
        if tuple(x.shape) != want:
            raise ValueError(
                f"{name} must be [..., Hk, S, {'D' if name == 'k' else 'E'}] = {list(want)} to fit "
                f"q {list(q.shape)}"
                + (f" and k {list(k.shape)}" if name == "v" else "")
                + f", got {list(x.shape)}"
            )
    if Hk == 0 or Hq % Hk:
        raise ValueError(
            f"q has {Hq} heads and k has {Hk}: the number of query heads must be a multiple of the "
            "number of key heads"
        )
    if D == 0:
        raise ValueError(f"q must have a width D of at least 1, got shape {list(q.shape)}")
    return checked_mask(mask, q, T, S), checked_scale(scale, D)


def check_array(name: str, x, q) -> None:
    """Raise unless ``x`` is an array of the library, dtype and device of ``q``."""
    if not (is_numpy(x) or is_torch(x)):
        raise TypeError(f"{name} must be a NumPy array or a torch tensor, got {type(x).__name__}")
    if is_numpy(x) != is_numpy(q):
        raise TypeError(
            f"q, k and v must be of one library, got {type(q)} as q, {type(x)} as {name}"
        )
    if str(x.dtype).removeprefix("torch.") not in DTYPES:
        raise TypeError(f"{name} must be one of {', '.join(DTYPES)}, got {x.dtype}")
    if x.dtype != q.dtype:
        raise TypeError(f"{name} must have the dtype of q, {q.dtype}, got {x.dtype}")
    if is_torch(x) and x.device != q.device:
        raise ValueError(f"{name} must be on the device of q, {q.device}, got {x.device}")
    if is_torch(x) and (x.is_meta or x.is_sparse or x.layout != q.layout):
        raise TypeError(f"{name} must be a dense tensor with data, got {x.layout} on {x.device}")
    if x.ndim < 3:
        raise ValueError(
            f"{name} must have at least the axes [H, T, D], got shape {list(x.shape)}; "
            f"for a single head write {name}[None]"
        )


def checked_mask(mask, q, T: int, S: int) -> Mask:
    """None and boolean matrices as a Mask that fits; numbers raise."""
    mask = as_mask(mask)
    mask.check(T, S)
    lead = mask.spread()
    heads = q.shape[:-2]
    fits = len(lead) <= len(heads) and all(
        n in (1, m) for n, m in zip(lead[::-1], heads[::-1], strict=False)
    )
    if not fits:
        raise ValueError(
            f"mask answers for [B, H] = {list(lead)}, but q {list(q.shape)} has {list(heads)}"
            + ("; give q a batch axis, q[None]" if len(heads) == 1 else "")
        )
    return mask


def as_mask(mask) -> Mask:
    """None as Full(), a boolean matrix as Dense; numbers raise."""
    if mask is None:
        return Full()
    if isinstance(mask, Mask):
        return mask
    if not (is_numpy(mask) or is_torch(mask)):
        raise TypeError(f"mask must be a Mask or a boolean array, got {type(mask).__name__}")
    return Dense(mask)


def checked_scale(scale, D: int) -> float:
    """1/√D unless given; a finite number."""
    if scale is None:
        return D**-0.5
    if not isinstance(scale, Real) or isinstance(scale, bool):
        raise TypeError(
            f"scale must be a number, got {type(scale).__name__}; to learn it, multiply q by it"
        )
    try:
        number = float(scale)
    except OverflowError:  # a whole number of many digits
        number = math.inf
    if not math.isfinite(number):
        raise ValueError(f"scale must be finite, got {scale}")
    return number


def chosen(impl, dropout, q, k, v, mask: Mask) -> str:
    """The implementation to run, once its name and the dropout are known to be sound."""
    if not isinstance(dropout, Real) or not 0 <= dropout < 1:
        raise ValueError(f"dropout must be a number from 0 to below 1, got {dropout!r}")
    if impl == "auto":
        return "dense" if dropout else pick(q, mask, k, v)
    if not isinstance(impl, str) or impl not in IMPLS:
        raise ValueError(f"impl must be 'auto' or one of {', '.join(IMPLS)}, got {impl!r}")
    if dropout and impl != "dense":
        raise ValueError(f"impl={impl!r} has no dropout on its weights; 'dense' alone has it")
    return impl


def without_unseen(q, k, v, mask: Mask):
    """Zeros in place of keys that no query sees and queries that see no key.

    A weight of 0 does not hide NaN, as 0 · NaN is NaN; an adapter would pass it on.
    """
    queries, keys = in_sight(q, k, mask)
    return blanked(q, queries), blanked(k, keys), blanked(v, keys)


def in_sight(q, k, mask: Mask) -> tuple[np.ndarray, np.ndarray]:
    """Which queries see some key, and which keys some query sees: bool [..., T], [..., S]."""
    queries, keys = reach(mask, q.shape[-2], k.shape[-2])
    if keys.ndim > 1 and keys.shape[-2] > 1:  # a key head is seen if a query head of its group sees
        groups = (*keys.shape[:-2], k.shape[-3], q.shape[-3] // k.shape[-3], keys.shape[-1])
        keys = keys.reshape(groups).any(-2)
    return queries, keys


def reach(mask: Mask, T: int, S: int) -> tuple[np.ndarray, np.ndarray]:
    """``mask.reach``, remembered on the mask: a model asks the same again in every layer."""
    asked, answer = vars(mask).get("_reach", (None, None))
    if asked != (T, S):
        answer = mask.reach(T, S)
        vars(mask)["_reach"] = (T, S), answer
    return answer


def blanked(x, seen: np.ndarray):
    """``x`` [..., n, d] with zeros in the rows that are not ``seen`` [..., n]."""
    if seen.all():
        return x
    if is_numpy(x):
        return np.where(seen[..., None], x, x.dtype.type(0))
    torch = import_module("torch")
    return torch.where(torch.tensor(seen[..., None], device=x.device), x, 0)


def on_numpy(run, q, k, v, mask, scale):
    """Run the NumPy specification on tensors; it has no gradients, so it refuses to lose them."""
    torch = import_module("torch")
    if torch.is_grad_enabled() and any(x.requires_grad for x in (q, k, v)):
        raise ValueError("impl='reference' has no gradients; use 'dense', or detach q, k and v")
    wide = torch.promote_types(q.dtype, torch.float32)  # NumPy has no bfloat16
    arrays = (x.detach().to("cpu", wide).numpy() for x in (q, k, v))
    return torch.from_numpy(run(*arrays, mask, scale)).to(q.device, q.dtype)


def is_numpy(x) -> bool:
    """A plain array: one with a mask of its own would lose it on the way."""
    return isinstance(x, np.ndarray) and not isinstance(x, np.ma.MaskedArray)


def is_torch(x) -> bool:
    """Is ``x`` a tensor, asked without importing torch?"""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(x, torch.Tensor)
