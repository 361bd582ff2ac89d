"""Name the mistake: which known wrong answers give the values that a student got?"""

import numpy as np

from .compare import agree, differ
from .values import decode, encode, is_array


class Diagnosis:
    """One named wrong answer that explains cases of a student's answer."""

    def __init__(self, wrong, cases, sure):
        self.name, self.hint = wrong["name"], wrong["hint"]
        self.cases, self.sure = cases, sure

    @property
    def title(self):
        return title(self.sure)


def title(sure):
    return "Mistake" if sure else "Looks like"


def failing(values, table):
    """Names of the cases whose value is wrong or missing, in order."""
    cases = table["cases"]
    return [c["name"] for c in cases if differ(values.get(c["name"]), c["value"], c)]


def diagnose(values, table):
    """The named mistakes behind the failing cases, best first; [] where none fits.

    All cases agree with one wrong answer: it is that mistake. Only some do: it looks like it. One
    that fails a case which the student passes is not named: it would be another mistake.
    """
    bad = failing(values, table)
    found = _explain(values, table, bad)
    if bad and not (found and found[0].sure):
        found += _second_look(values, table, bad, {d.name for d in found})
    return found


def _possible(table, bad):
    """Wrong answers that fail only where the student fails, too."""
    return [wrong for wrong in table["wrong"] if set(wrong["values"]) <= set(bad)]


def _explain(values, table, bad):
    rules = {c["name"]: c for c in table["cases"]}
    matches, named = [], set()
    for wrong in _possible(table, bad):
        theirs = wrong["values"]
        alike = [n for n in bad if n in theirs and agree(values.get(n), theirs[n], rules[n])]
        matches.append((wrong, alike))
    found, left = [], set(bad)
    while left:
        matches = [match for match in matches if match[0]["name"] not in named]
        matches.sort(key=lambda match: -len(left.intersection(match[1])))
        if not matches or not left.intersection(matches[0][1]):
            break
        wrong, alike = matches.pop(0)
        named.add(wrong["name"])  # it may be listed once for each of its functions
        found.append(Diagnosis(wrong, [n for n in alike if n in left], sure=alike == bad))
        left.difference_update(alike)
    return found


def _second_look(values, table, bad, named):
    """Two mistakes at once: compare again without the kind of dtype and axes of length 1."""
    found = []
    for wrong in _possible(table, bad):
        cases = [c for c in table["cases"] if _both_arrays(values, wrong, c)]
        if wrong["name"] in named or not cases:
            continue
        theirs = {c["name"]: _loosen(wrong["values"][c["name"]]) for c in cases}
        alike = all(agree(_loosen(values[c["name"]]), theirs[c["name"]], c) for c in cases)
        telling = any(not agree(_loosen(c["value"]), theirs[c["name"]], c) for c in cases)
        if alike and telling:
            found.append(Diagnosis(wrong, list(theirs), sure=False))
    return found


def _both_arrays(values, wrong, case):
    name = case["name"]
    return is_array(values.get(name)) and is_array(wrong["values"].get(name))


def _loosen(value):
    """Only the pattern: zeros, ones and infinities as booleans, no axis of length 1."""
    if not is_array(value):
        return value
    array = np.squeeze(decode(value))
    if array.dtype.kind in "biuf":
        known = array[~np.isinf(array)]  # NaN is neither open nor hidden
        if np.isin(known, (0, 1)).all():
            array = _as_pattern(array)
    return encode(array if array.dtype.kind == "b" else array.astype(complex))


def _as_pattern(array):
    if np.isinf(array).any():  # an additive mask: 0 keeps, -inf hides
        return np.isfinite(array)
    return array != 0
