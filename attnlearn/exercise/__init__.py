"""Check the answers of an exercise notebook, case by case.

A check cell reads ``case = check("masks-1")`` and then ``case("name", lambda: f(...))``. A case
emits its value, never a verdict: the verdict is computed by whoever holds the expected values.
"""

from .cases import MIME, check

__all__ = ["MIME", "check"]
