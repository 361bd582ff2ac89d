"""Mechanical mutants of a solution: which small faults would a task's cases let through?

A mutant counts where it changes a value in any case, visible or hidden, under any of the task's
seeds; it is killed if the visible cases fail under the public seed, the ones that a learner runs.
One that changes nothing is listed as "equal so far". One that raises in every case is not counted:
no check is needed to catch it.
"""

import ast
import copy
import warnings
from dataclasses import dataclass

from ..exercise import compare
from . import bank
from .mutations import mutations
from .task import SOLUTION


@dataclass
class Mutant:
    what: str  # "line 4: < becomes <="
    source: str
    fate: str = ""  # killed, survived, equal or crashed


def mutants(task):
    """Every mutant of a solution, each with one small change."""
    tree = ast.parse(task.answer.source)
    first, last = _solution_lines(task.answer.source)
    original, found = ast.unparse(tree), {}
    for index, node in enumerate(ast.walk(tree)):
        if not first <= getattr(node, "lineno", 0) <= last:
            continue
        for number, (what, _) in enumerate(mutations(node, copy.deepcopy(node))):
            changed = copy.deepcopy(tree)
            target = list(ast.walk(changed))[index]
            _, new = mutations(target, copy.deepcopy(target))[number]
            source = _unparse(_Swap(target, new).visit(changed))
            if source and source != original:
                found.setdefault(source, Mutant(f"line {node.lineno}: {what}", source))
    return list(found.values())


def trial(exercise, task):
    """The mutants of a task with their fate."""
    want = {}  # seed -> cases of the solution
    for mutant in (tried := mutants(task)):
        mutant.fate = _fate(exercise, task, mutant, want)
    return tried


def count(tried):
    """How many were made, crashed, changed a value and were killed; and which were not."""
    by_fate = {fate: [] for fate in ("killed", "survived", "equal", "crashed")}
    for mutant in tried:
        by_fate[mutant.fate].append(mutant.what)
    return {
        "made": len(tried),
        "crashed": len(by_fate["crashed"]),
        "changed": len(by_fate["killed"]) + len(by_fate["survived"]),
        "killed": len(by_fate["killed"]),
        "survived": by_fate["survived"],
        "equal": by_fate["equal"],
    }


def _fate(exercise, task, mutant, want):
    seconds = 10 if task.slow else 1  # for each case: some mutants never end
    for seed in range(task.seeds):
        if seed not in want:
            want[seed] = bank.run(exercise, task, task.solved, seed=seed, hidden=True)
        got = bank.run(exercise, task, mutant.source, seed=seed, hidden=True, seconds=seconds)
        if seed == 0 and all(record["value"]["k"] == "error" for record in got.values()):
            return "crashed"
        wrong = _differing(got, want[seed])
        if seed == 0 and wrong - _hidden_names(exercise, task, want):
            return "killed"
        if wrong:
            return "survived"
    return "equal"


def _differing(got, want):
    return {
        name
        for name, case in want.items()
        if compare.differ(got.get(name, {}).get("value"), case["value"], case)
    }


def _hidden_names(exercise, task, want):
    if "visible" not in want:
        want["visible"] = set(bank.run(exercise, task, task.solved))
    return set(want[0]) - want["visible"]


def _solution_lines(source):
    """First and last line that lie between the marks of the first and the last solution."""
    blocks = list(SOLUTION.finditer(source + "\n"))
    first = source[: blocks[0].start()].count("\n") + 1
    return first, source[: blocks[-1].end()].count("\n") + 1


def _unparse(tree):
    try:
        source = ast.unparse(ast.fix_missing_locations(tree))
        with warnings.catch_warnings(action="ignore"):
            compile(source, "mutant", "exec")
    except (SyntaxError, ValueError, TypeError, AttributeError):
        return None
    return source


class _Swap(ast.NodeTransformer):
    def __init__(self, old, new):
        self.old, self.new = old, new

    def visit(self, node):
        return self.new if node is self.old else self.generic_visit(node)
