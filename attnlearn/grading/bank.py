"""Run answers without notebooks, in this process, and make the table of what they give."""

import ast
import contextlib
import functools
import io
import linecache
import os
import random
import sys
import warnings

import numpy as np

from ..exercise import cases, compare, scope
from ..exercise.limit import TimeUp, time_limit
from ..exercise.values import encode_error
from .source import without_commands

CELL = "(the cell itself)"  # the name under which a crash outside every case is recorded


def run(exercise, task, answer, *, seed=0, hidden=False, noise=0, seconds=None):
    """{case: record} of one answer, in a fresh namespace that holds the setup cells only.

    `noise` seeds the global generators: an answer that uses them gives itself away.
    """
    checks = [task.check, *(task.hidden if hidden else [])]
    known = {"forbid": task.forbid, "defines": task.defines, "seconds": seconds}
    namespace = {"__name__": "__main__"}
    _seed_everything(noise)
    with cases.recording(known) as records, environment(ATTNLEARN_SEED=str(seed)):
        try:
            with contextlib.redirect_stdout(io.StringIO()), time_limit(60):
                for cell in exercise.setup:
                    execute(without_commands(cell.source), namespace)
                execute(answer, namespace)
                for cell in checks:
                    execute(cell.source, namespace)
        except KeyboardInterrupt:
            raise
        except (Exception, SystemExit, TimeUp) as error:
            records.append({"name": CELL, "value": encode_error(error)})
    return _by_name(records, task)


def _by_name(records, task):
    named = {}
    for record in records:
        if record["name"] in named:  # a visible and a hidden case
            error = ValueError(f"two cases of {task.id} are called {record['name']!r}")
            record = {"name": CELL, "value": encode_error(error)}
        named[record["name"]] = record
    return named


def values(records):
    return {name: record["value"] for name, record in records.items()}


def make_table(exercise, task, *, seed=0, hidden=False):
    """What a task's cases should give, and what each wrong answer gives where it differs."""
    expected = run(exercise, task, task.solved, seed=seed, hidden=hidden)
    wrong = {
        cell.name: values(run(exercise, task, cell.source, seed=seed, hidden=hidden))
        for cell in task.wrong
    }
    table = table_of(exercise, task, expected, wrong)
    for cell, row in zip(task.wrong, list(table["wrong"]), strict=True):
        for answer in _in_one_function(task, cell):
            got = values(run(exercise, task, answer, seed=seed, hidden=hidden))
            alone = _differing(got, table["cases"])
            if alone and alone != row["values"]:
                table["wrong"].append({**row, "values": alone})
    return table


def _in_one_function(task, cell):
    """Answers that make a mistake of several functions in one of them only."""
    if len(task.defines) < 2:
        return
    parts = {node.name: ast.unparse(node) for node in ast.parse(cell.source).body if _named(node)}
    helpers = [text for name, text in parts.items() if name not in task.defines]
    for name in task.defines:
        if name in parts:
            yield "\n\n".join([task.solved, *helpers, parts[name]])


def _named(node):
    return isinstance(node, (ast.FunctionDef, ast.ClassDef))


def _differing(got, rows):
    """The values that are wrong, by the names of their cases."""
    return {
        row["name"]: compare.settle(got[row["name"]], row)
        for row in rows
        if row["name"] in got and compare.differ(got[row["name"]], row["value"], row)
    }


def table_of(exercise, task, expected, wrong):
    """The same from the records of the solution and the values of each wrong answer."""
    rows = [{k: v for k, v in record.items() if k != "task"} for record in expected.values()]
    for row in rows:
        row["value"] = compare.settle(row["value"], row)
    table = {
        "points": task.points,
        "minutes": task.minutes,
        "difficulty": task.difficulty,
        "forbid": task.forbid,
        "defines": task.defines,
        "given": given_names(exercise),
        "imports": imports(exercise),
        "blank": task.blank,
        "check": task.check.source,
        "hidden": len(task.hidden),
        "cases": rows,
        "wrong": [],
    }
    for cell in task.wrong:
        differing = _differing(wrong[cell.name], rows)
        table["wrong"].append({"name": cell.name, "hint": cell.hint, "values": differing})
    return table


def given_names(exercise):
    """The names that the exercise itself defines, in its setup and other plain code cells."""
    given = [c for c in exercise.cells if c.kind == "code" and c.role in ("", "setup")]
    names = (scope.module_names(without_commands(cell.source)) for cell in given)
    return sorted(set().union(*names))


def imports(exercise):
    """What the setup cells import: the checks need it, whatever an answer makes of the names."""
    return "\n".join(scope.imports(without_commands(cell.source)) for cell in exercise.setup)


def fault(value):
    """Why a solution's value can't be an expected value, or ''."""
    if value["k"] == "error":
        return f"the solution raises {value['v']}: {value['msg']}"
    if "big" in value:
        return f"the value is too large ({value['big']} bytes): give a summary"
    if value["k"] == "other":
        return f"the value can't be compared (it is of type {value['v']}): give numbers or text"
    if value["k"] in ("list", "tuple", "dict"):
        return next((why for item in value["v"] if (why := fault(item))), "")
    return ""


def execute(source, namespace):
    exec(_compiled(source), namespace)


@functools.lru_cache(maxsize=4096)
def _compiled(source):
    """Compile once, and let linecache know the source, as a notebook does."""
    filename = f"<cell {abs(hash(source)):x}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(True), filename)
    with warnings.catch_warnings(action="ignore"):  # of mutants such as `1[0]`
        return compile(source, filename, "exec")


def _seed_everything(noise):
    random.seed(noise)
    np.random.seed(noise)
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(noise)


@contextlib.contextmanager
def environment(**variables):
    """Environment variables for a while."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.__setitem__(name, value)
