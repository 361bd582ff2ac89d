"""What a mask holds: whole numbers, arrays, other masks. Checking, freezing, comparing, showing."""

from __future__ import annotations

import numpy as np

FARTHEST = 2**62


def positions(T: int, S: int) -> tuple[np.ndarray, np.ndarray]:
    """Positions of the queries [T, 1] and keys [1, S]; the last query stands at the last key."""
    T, S = single(T, "T", 0), single(S, "S", 0)
    return np.arange(S - T, S)[:, None], np.arange(S)[None, :]


def whole(value, name: str, least: int | None):
    """A whole number as int, or one per example as an array [B, 1, 1, 1] that broadcasts."""
    array = plain(value)
    if array.dtype.kind not in "iu" and not (isinstance(value, int) and array.dtype == object):
        raise TypeError(f"{name} must be a whole number, or one per example, got {value!r}")
    if (array > FARTHEST).any() or (array < -FARTHEST).any():
        raise ValueError(
            f"{name} must be below 2**62, or sums of positions overflow, got {value!r}"
        )
    if array.ndim == 4:  # what this function itself made
        array = array.reshape(-1)
    if array.ndim > 1:
        raise ValueError(f"{name} must be one number, or one per example [B], got {array.shape}")
    if least is not None and (array < least).any():
        raise ValueError(f"{name} must be at least {least}, got {array.tolist()}")
    if array.ndim == 0:
        return int(array)
    return frozen(array.astype(np.int64).reshape(-1, 1, 1, 1))


def single(value, name: str, least: int) -> int:
    """One whole number, the same for every example."""
    number = whole(value, name, least)
    if not isinstance(number, int):
        raise TypeError(f"{name} must be one whole number, got {value!r}")
    return number


def plain(value) -> np.ndarray:
    """NumPy's view of a number, list, array or tensor."""
    if not hasattr(value, "detach"):
        return np.asarray(value)
    if value.is_meta:
        raise ValueError("a mask needs data, got a tensor on the device meta")
    value = value.detach().cpu()
    return (value.float() if value.is_floating_point() else value).numpy()  # bfloat16 has no twin


def frozen(array: np.ndarray) -> np.ndarray:
    """A copy that nobody can write to: a mask never changes after it is made."""
    array = np.array(array)
    array.setflags(write=False)
    return array


def keep(mask, **values) -> None:
    """Set checked fields of a frozen dataclass, from its ``__post_init__``."""
    for name, value in values.items():
        object.__setattr__(mask, name, value)


def contents(mask) -> dict[str, object]:
    """What a mask holds, by name; names with an underscore are only remembered, see ``api``."""
    return {name: value for name, value in vars(mask).items() if not name.startswith("_")}


def parts(mask):
    """The masks that a mask is made of."""
    for value in contents(mask).values():
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
        return type(value), *map(identity, contents(value).values())
    return value


def brief(value) -> str:
    """A field as its owner wrote it; a long array as dtype and shape."""
    if not isinstance(value, np.ndarray):
        return repr(value)
    if value.size <= 8:
        return repr(value.reshape(-1).tolist() if value.ndim == 4 else value.tolist())
    return f"<{value.dtype} {list(value.shape)}>"
