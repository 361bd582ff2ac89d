"""What a mask holds: whole numbers, arrays, other masks. Checking, freezing, comparing, showing."""

from __future__ import annotations

from dataclasses import fields

import numpy as np


def positions(T: int, S: int) -> tuple[np.ndarray, np.ndarray]:
    """Positions of the queries [T, 1] and keys [1, S]; the last query stands at the last key."""
    T, S = whole(T, "T", 0), whole(S, "S", 0)
    return np.arange(S - T, S)[:, None], np.arange(S)[None, :]


def whole(value, name: str, least: int | None):
    """A whole number as int, or one per example as an array [B, 1, 1, 1] that broadcasts."""
    array = plain(value)
    if array.dtype.kind not in "iu":
        raise TypeError(f"{name} must be a whole number, or one per example, got {value!r}")
    if array.ndim == 4:  # what this function itself made
        array = array.reshape(-1)
    if array.ndim > 1:
        raise ValueError(f"{name} must be one number, or one per example [B], got {array.shape}")
    if least is not None and (array < least).any():
        raise ValueError(f"{name} must be at least {least}, got {array.tolist()}")
    if array.ndim == 0:
        return int(array)
    return frozen(array.astype(np.int64).reshape(-1, 1, 1, 1))


def plain(value) -> np.ndarray:
    """NumPy's view of a number, list, array or tensor."""
    return value.detach().cpu().numpy() if hasattr(value, "detach") else np.asarray(value)


def frozen(array: np.ndarray) -> np.ndarray:
    """A copy that nobody can write to: a mask never changes after it is made."""
    array = np.array(array)
    array.setflags(write=False)
    return array


def keep(mask, **values) -> None:
    """Set checked fields of a frozen dataclass, from its ``__post_init__``."""
    for name, value in values.items():
        object.__setattr__(mask, name, value)


def contents(mask) -> list[tuple[str, object]]:
    """The fields of a mask, by name."""
    return [(f.name, getattr(mask, f.name)) for f in fields(mask)]


def parts(mask):
    """The masks that a mask is made of."""
    for _, value in contents(mask):
        yield from (m for m in (value if isinstance(value, tuple) else (value,)) if is_mask(m))


def is_mask(value) -> bool:
    return hasattr(value, "convert")


def converted(value, f):
    """``value`` with ``f`` applied to the arrays in it."""
    if isinstance(value, int):
        return value
    if hasattr(value, "dtype"):
        return f(value)
    if isinstance(value, tuple):
        return tuple(converted(x, f) for x in value)
    return value.convert(f) if is_mask(value) else value


def identity(value):
    """Something hashable that is equal for equal masks."""
    if isinstance(value, np.ndarray):
        return value.shape, value.dtype.str, value.tobytes()
    if isinstance(value, tuple):
        return tuple(map(identity, value))
    if is_mask(value):
        return type(value), *(identity(getattr(value, f.name)) for f in fields(value) if f.init)
    return value


def brief(value) -> str:
    """A field as its owner wrote it; a long array as dtype and shape."""
    if not isinstance(value, np.ndarray):
        return repr(value)
    if value.size <= 8:
        return repr(value.reshape(-1).tolist() if value.ndim == 4 else value.tolist())
    return f"<{value.dtype} {list(value.shape)}>"
