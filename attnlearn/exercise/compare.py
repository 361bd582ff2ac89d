"""Compare two encoded values and say in one sentence, for a student, how they differ.

A rule is ``{"rtol": ..., "atol": ...}`` (both 0 for an exact comparison) or
``{"at_most": limit}``. The kind of a dtype counts, its width doesn't, as long as the digits do.
"""

import numpy as np

from .values import KIND, decode

BLANK = "write your answer here"  # the message of the line that a scaffold raises
NUMBERS = ("bool", "int", "float", "complex")


def differ(got, want, rule):
    """None where `got` is as good as `want`, else one sentence."""
    if got is None:
        return "no value arrived"
    if got["k"] == "error" or want["k"] == "error":
        return _differ_errors(got, want)
    if got == want and "big" not in got and "at_most" not in rule:
        return None
    if "big" in got or "big" in want:
        size = got.get("big") or want.get("big")
        return f"the value is too large to send: {describe(got)}, {size} bytes"
    if "at_most" in rule:
        return _differ_limit(got, rule["at_most"])
    if want["k"] in NUMBERS:
        return _differ_numbers(got, want, rule)
    if want["k"] in ("list", "tuple"):
        return _differ_items(got, want, rule)
    if got["k"] != want["k"]:
        return _differ_kinds(got, want)
    if want["k"] == "array":
        return _differ_arrays(got, want, rule)
    if want["k"] == "dict":
        return _differ_dicts(got, want, rule)
    if got.get("v") == want.get("v"):
        return None
    return f"got {_text(got)}, expected {_text(want)}"


def agree(got, other, rule):
    """Is `got` the same mistake as `other`? Two values above a limit are."""
    if got is None or other is None:
        return False
    if "at_most" in rule and "error" not in (got["k"], other["k"]):
        return settle(got, rule) == settle(other, rule)
    return differ(got, other, rule) is None


def settle(value, rule):
    """A measured amount never repeats exactly: keep only on which side of its limit it is."""
    if "at_most" not in rule or value["k"] not in ("int", "float"):
        return value
    inside = float(value["v"]) <= rule["at_most"]
    return {"k": "float", "v": repr(float(rule["at_most"])) if inside else "inf"}


def describe(value):
    """What an encoded value is: 'an array float64 (2, 3)', 'None', 'a dict'."""
    if value["k"] == "array":
        return f"an array {value['dtype']} {tuple(value['shape'])}"
    if value["k"] == "none":
        return "None"
    name = value["v"] if value["k"] == "other" else value["k"]
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


def is_blank(value):
    """Did the scaffold's own line raise this? An answer may raise NotImplementedError, too."""
    return value["v"] == "NotImplementedError" and (not value["msg"] or BLANK in value["msg"])


def _differ_errors(got, want):
    if got["k"] != "error":
        return f"should raise {want['v']}, but returned {describe(got)}"
    if want["k"] == "error" and _same_error(got, want):
        return None
    if want["k"] != "error" and is_blank(got):
        return "not answered yet"
    if got["v"] in ("Forbidden", "NotRun"):
        return got["msg"]
    if got["v"] == "TimeUp":
        return f"{got['msg']}: a loop that never ends, or much more work than needed?"
    message = f": {got['msg']}" if got["msg"] else ""
    where = f" (in {got['at']})" if "at" in got else ""
    return f"raised {got['v']}{message}{where}"


def _same_error(got, want):
    """Equal type and message; a time limit may be another one."""
    return got["v"] == want["v"] and (got["v"] == "TimeUp" or got["msg"] == want["msg"])


def _differ_limit(got, limit):
    if got["k"] not in ("int", "float"):
        return f"returned {describe(got)}, expected a number of at most {limit:g}"
    number = float(got["v"])
    return None if number <= limit else f"got {number:g}, at most {limit:g} is allowed"


def _differ_kinds(got, want):
    if got["k"] == "none":
        return "returned None (is there a `return`?)"
    return f"returned {describe(got)}, expected {describe(want)}"


def _differ_numbers(got, want, rule):
    if got["k"] != want["k"] and (got["k"], want["k"]) != ("int", "float"):
        return _differ_kinds(got, want)
    got, want = decode(got)[None], decode(want)[None]
    if not _wrong_entries(got, want, rule).any():
        return None
    return _pair(got[0], want[0])


def _differ_items(got, want, rule):
    if got["k"] not in ("list", "tuple"):
        return _differ_kinds(got, want)
    if len(got["v"]) != len(want["v"]):
        return f"{len(got['v'])} items, expected {len(want['v'])}"
    for n, (mine, theirs) in enumerate(zip(got["v"], want["v"], strict=True)):
        if sentence := differ(mine, theirs, rule):
            return f"item {n}: {sentence}"
    return None


def _differ_dicts(got, want, rule):
    mine, theirs = (dict(zip(d["keys"], d["v"], strict=True)) for d in (got, want))
    for title, names in (("missing", theirs.keys() - mine), ("unexpected", mine.keys() - theirs)):
        if names:
            return f"{title} key {sorted(names)[0]!r}"
    for key in theirs:
        if sentence := differ(mine[key], theirs[key], rule):
            return f"entry {key!r}: {sentence}"
    return None


def _differ_arrays(got, want, rule):
    if got["shape"] != want["shape"]:
        return f"shape {tuple(got['shape'])}, expected {tuple(want['shape'])}"
    mine, theirs = (KIND[np.dtype(a["dtype"]).kind] for a in (got, want))
    if mine != theirs:
        return f"values are {got['dtype']}, expected {want['dtype']}"
    got, want = decode(got), decode(want)
    wrong = _wrong_entries(got, want, rule)
    if not wrong.any():
        return None
    nan = wrong & np.isnan(got) if got.dtype.kind in "fc" else np.zeros_like(wrong)
    if nan.any():
        at = tuple(map(int, np.argwhere(nan)[0]))
        many = f"NaN in {int(nan.sum())} of {got.size} entries"
        return f"{many}, first at {list(at)}, where {_show(want[at])} is expected"
    at = tuple(map(int, np.argwhere(wrong)[0]))
    many = f"{int(wrong.sum())} of {got.size} entries differ"
    halves = " (yours are float16)" if got.dtype == np.float16 != want.dtype else ""
    return f"{many}, first at {list(at)}: {_pair(got[at], want[at])}{halves}"


def _wrong_entries(got, want, rule):
    if got.dtype.kind not in "fc" and want.dtype.kind not in "fc":
        return got != want
    rtol, atol = _tolerance(got, want, rule)
    with np.errstate(all="ignore"):
        near = np.abs(got - want) <= atol + rtol * np.abs(want)
        near &= np.isfinite(want)
        return ~(near | (got == want) | (np.isnan(got) & np.isnan(want)))


def _tolerance(got, want, rule):
    """The rule's tolerance, but never finer than the coarser of the two dtypes resolves.

    Half precision counts as single, unless it is expected: who stores halves has lost digits.
    """
    rtol, atol = rule["rtol"], rule["atol"]
    if rtol == atol == 0:
        return 0, 0
    eps = max(_eps(want), min(_eps(got), _eps(np.float32(0))))
    return max(rtol, 16 * eps), max(atol, 4 * eps)


def _eps(array):
    return np.finfo(array.dtype).eps if array.dtype.kind in "fc" else 0


def _pair(got, want):
    """Both numbers with as few digits as tell them apart."""
    for digits in (4, 6, 9, 17):
        mine, theirs = _show(got, digits), _show(want, digits)
        if mine != theirs:
            break
    return f"got {mine}, expected {theirs}"


def _show(number, digits=4):
    if isinstance(number, (bool, np.bool_)):
        return str(bool(number))
    if isinstance(number, (int, np.integer)):
        return str(int(number))
    return f"{number:.{digits}g}"


def _text(value):
    return repr(value["v"]) if value["k"] == "str" and len(value["v"]) < 80 else describe(value)
