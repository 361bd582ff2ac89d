"""Values as JSON: numbers, text, arrays and containers of them; never pickle.

A value becomes a small dictionary whose ``k`` says what it is. Tensors are read without
importing torch. What is larger than ``LIMIT`` bytes is sent as shape and size only.
"""

import base64
import json
import os
import re

import numpy as np

LIMIT = 64 * 1024
KIND = {"b": "bool", "i": "integer", "u": "integer", "f": "float", "c": "complex"}


def encode(value, depth=0):
    """A value as a JSON-ready dictionary; what has no such form is named by its type."""
    if value is None:
        return {"k": "none"}
    if isinstance(value, str):
        return _limited({"k": "str", "v": value}, len(value), len(value.encode()))
    if _is_tensor(value):
        value = _to_numpy(value)
    if isinstance(value, (bool, int, float, complex, np.generic)):
        return _encode_number(value)
    if isinstance(value, np.ndarray) and not isinstance(value, np.ma.MaskedArray):
        return _encode_array(value)
    if isinstance(value, (list, tuple)) and depth < 8:
        return _encode_items(value, {"k": type(value).__name__}, value, depth)
    if isinstance(value, dict) and depth < 8 and all(isinstance(key, str) for key in value):
        return _encode_items(value, {"k": "dict", "keys": list(value)}, value.values(), depth)
    return {"k": "other", "v": type(value).__name__}


def encode_error(error, check_file=None):
    """An exception as a value: its type and message, and the line of the answer it left."""
    try:
        message = re.sub(r"0x[0-9a-f]+", "0x...", str(error))[:200]
    except Exception:
        message = "(its message can't be shown)"
    return {"k": "error", "v": type(error).__name__, "msg": message, **_place(error, check_file)}


def decode(value):
    """The array behind an encoded number or array."""
    if value["k"] == "array":
        dtype = np.dtype(value["dtype"]).newbyteorder("<")
        return np.frombuffer(base64.b64decode(value["b64"]), dtype).reshape(value["shape"])
    if value["k"] == "complex":
        return np.array(complex(*map(float, value["v"])))
    return np.array({"bool": bool, "int": int, "float": float}[value["k"]](value["v"]))


def is_array(value):
    return value is not None and value["k"] == "array" and "b64" in value


def _is_tensor(value):
    return hasattr(value, "detach") and hasattr(value, "cpu") and hasattr(value, "dtype")


def _to_numpy(tensor):
    try:
        tensor = tensor.detach().cpu().resolve_conj().resolve_neg()
        try:
            return tensor.numpy()
        except TypeError:  # bfloat16 and the 8-bit floats have no NumPy twin
            return tensor.float().numpy()
    except Exception:
        return tensor  # sparse, quantised, meta: named by their type


def _encode_number(value):
    array = np.asarray(value)
    kind = KIND.get(array.dtype.kind)
    if kind == "bool":
        return {"k": "bool", "v": bool(value)}
    if kind == "integer":
        return {"k": "int", "v": int(value) if abs(int(value)) < 2**53 else str(int(value))}
    if kind == "float":
        return {"k": "float", "v": repr(float(value))}
    if kind == "complex":
        return {"k": "complex", "v": [repr(float(value.real)), repr(float(value.imag))]}
    if isinstance(value, int):  # too long for any NumPy type
        return {"k": "int", "v": str(value)} if value.bit_length() < 4096 else _other(value)
    return _other(value)


def _encode_array(array):
    if array.dtype.kind not in KIND:
        return {"k": "other", "v": f"array of {array.dtype.name}"}
    if array.ndim == 0:
        return _encode_number(array[()])
    if array.dtype.char in "gG":  # long double has no portable bytes
        array = array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)
    head = {"k": "array", "dtype": array.dtype.name, "shape": list(array.shape)}
    if array.nbytes > LIMIT:
        return {**head, "big": array.nbytes}
    data = np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<")).tobytes()
    return {**head, "b64": base64.b64encode(data).decode()}


def _encode_items(container, head, items, depth):
    if len(container) > 10_000:
        return {**head, "keys": [], "len": len(container), "big": len(container) * 8}
    encoded = {**head, "v": [encode(item, depth + 1) for item in items]}
    if depth > 0:
        return encoded
    size = len(json.dumps(encoded)) * 3 // 4  # base64 is a third longer than its bytes
    return _limited(encoded, len(container), size)


def _limited(value, length, size):
    return value if size <= LIMIT else {"k": value["k"], "len": length, "big": size}


def _other(value):
    return {"k": "other", "v": type(value).__name__}


def _place(error, check_file):
    """Function and line where the answer raised: code that lies in no file nor in the check."""
    place, step = {}, error.__traceback__
    while step is not None:
        code = step.tb_frame.f_code
        inside = code.co_filename != check_file and not os.path.exists(code.co_filename)
        if inside and not code.co_name.startswith("<"):
            place = {"at": f"{code.co_name}, line {step.tb_lineno}"}
        step = step.tb_next
    return place
