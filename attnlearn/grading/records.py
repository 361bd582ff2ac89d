"""The values that a check has sent, read as what they are: the word of a stranger."""

import numpy as np

from ..exercise import MIME
from ..exercise.values import KIND, decode

NUMBERS = ("bool", "int", "float", "complex")


def values(outputs, task, findings=None):
    """{case: value} of one run of a check; what can't be from a check is no value.

    A check sends each case once. Where two values arrive for one case, an answer has sent
    one of them, so neither counts.
    """
    found, findings = {}, [] if findings is None else findings
    for record in _records(outputs):
        name, value = record.get("name"), record.get("value")
        if record.get("task") != task or not isinstance(name, str):
            findings.append(f"{task}: a record arrived that its check does not send.")
        elif name in found:
            findings.append(f"{task}: two values arrived for one case. Only the check may send.")
            found[name] = refusal("two values arrived for this case, and only the check may send")
        else:
            found[name] = value if sound(value) else refusal("the value can't be compared")
    return found


def refusal(why):
    """In place of a value: why there is none."""
    return {"k": "error", "v": "NotRun", "msg": why}


def sound(value, depth=0):
    """Is this the code of a value, so that comparing it can't fail?"""
    if not isinstance(value, dict) or depth > 10:
        return False
    kind = value.get("k")
    try:
        if kind == "error":
            return isinstance(value["v"], str) and isinstance(value["msg"], str)
        if kind in ("list", "tuple", "dict") and "big" not in value:
            keys = value.get("keys", []) if kind == "dict" else []
            fits = kind != "dict" or len(keys) == len(value["v"])
            texts = all(isinstance(key, str) for key in keys)
            return fits and texts and all(sound(item, depth + 1) for item in value["v"])
        if kind == "array":
            return _sound_array(value)
        if kind in NUMBERS:
            return decode(value).dtype.kind in KIND
        if "big" in value:
            return kind in ("str", "list", "tuple", "dict") and isinstance(value["big"], int)
        if kind == "other":
            return isinstance(value["v"], str) and value["v"] != ""
        return kind == "none" or (kind == "str" and isinstance(value["v"], str))
    except Exception:  # whatever a made-up value makes of NumPy
        return False


def _sound_array(value):
    shape = value["shape"]
    if not all(type(n) is int and 0 <= n < 2**40 for n in shape):
        return False
    if "big" in value:
        return isinstance(value["big"], int) and isinstance(value["dtype"], str)
    one = np.dtype(value["dtype"])  # not "(2,)f8", which adds an axis
    return one.kind in KIND and decode(value).ndim > 0


def _records(outputs):
    for out in outputs:
        data = out.get("data")
        if isinstance(data, dict) and isinstance(data.get(MIME), dict):
            yield data[MIME]
