"""Put a student's answers into the pristine notebook: all else in theirs is left behind.

So checks that were edited, deleted or skipped, stored outputs, metadata and kernel names of the
student's file play no part.
"""

import ast
import functools
from dataclasses import dataclass, field

from ...exercise import scope
from .. import notebook
from ..source import without_commands
from . import carried

LONGEST = 200_000  # characters of one cell: no answer is a book


@dataclass
class Transplant:
    """The notebook that is run, and where its parts came from."""

    content: dict
    answers: dict = field(default_factory=dict)  # task: {position in content: source}
    origin: dict = field(default_factory=dict)  # position in content: cell number of the student
    findings: list = field(default_factory=list)

    def place(self, at):
        """What a student would call the cell at a position."""
        return f"cell {self.origin[at]}" if at in self.origin else "a cell of the exercise"


def transplant(pristine, student, tasks):
    """`tasks` maps each task's id to its table: blank, given, defines, check."""
    carried.forget()
    result = Transplant({**pristine, "cells": []})
    cells = _code_of(student, tasks, result.findings)
    own = {task: _answers(task, tasks, cells, result.findings) for task in tasks}
    result.findings += _no_code(student, own)
    for cell in pristine["cells"]:
        task = _answered(cell)
        if task is None:
            result.content["cells"].append(_normal(cell))
            continue
        result.answers[task] = {}
        if own[task]:
            _carry(result, task, cells, own, tasks[task])
        for at in own[task]:
            _add(result, task, cells[at], at)
        _give_back(result, task, tasks[task])
    return result


def _code_of(student, tasks, findings):
    """{position: source} of the code cells, without those that can't be analysed safely."""
    cells, asked = {}, {name for table in tasks.values() for name in table["defines"]}
    for at, cell in notebook.code_cells(student):
        source = cell["source"]
        if notebook.CONFLICT.search(source):
            findings.append(f"A merge conflict is left in cell {at + 1}: {notebook.CHOOSE}.")
        if len(source) > LONGEST or not carried.readable(source):
            findings.append(f"Cell {at + 1} is too long or too deeply nested to be read.")
            line = notebook.EXERCISE_LINE.search(source)
            source = (
                f"{line[0] if line else ''}\nraise SyntaxError('too long or too deeply nested')"
            )
        checks = notebook.CHECK_CALL.findall(source)
        beside = carried.beside_checks(source) if checks else source
        if checks and not notebook.answers(cell):
            source = carried.definitions(source, asked) or source  # an answer in a check's cell
        cells[at] = {**cell, "source": source, "beside": beside, "checks": checks}
    return cells


def _no_code(student, own):
    """Answers in cells that do not run."""
    for at, cell in enumerate(student["cells"]):
        for task in notebook.answers(cell) & {task for task, places in own.items() if not places}:
            yield f"{task}: cell {at + 1} answers it, but is no code cell: make it one."


def _answers(task, tasks, cells, findings):
    """Positions of the cells that answer a task, in their order."""
    table = tasks[task]
    marked = [at for at, cell in cells.items() if task in _claimed(cell, tasks)]
    unlike = list({_text(cells[at]): at for at in marked}.values())  # the last of equals
    blank = _code(table["blank"])
    written = [at for at in unlike if _code(cells[at]["source"]) != blank]
    bound = set().union(*(_names(cells[at]) for at in written))
    lacking = {*table["defines"]} - bound
    places = [_nearest(task, _defining({name}, cells, tasks), cells) for name in lacking]
    elsewhere = sorted({*_below(task, written, cells, tasks)}.union(*places))
    findings += _about(task, marked, len(unlike), elsewhere)
    return sorted([*written, *elsewhere]) or unlike


def _about(task, marked, unlike, elsewhere):
    """What a student should know of the cells that were taken for an answer."""
    if elsewhere:
        numbers = ", ".join(str(at + 1) for at in elsewhere)
        yield f"{task}: cell {numbers} defines what it asks for, without `# EXERCISE: {task}`."
    elif not marked:
        yield f"{task}: no answer cell was found."
    if len(marked) > 1:
        numbers = ", ".join(str(at + 1) for at in marked)
        ran = "They hold the same and ran once."
        if unlike > 1:
            ran = "Those that differ ran in this order, so the last definition counts."
        yield f"{task}: cells {numbers} answer it. {ran}"


def _defining(names, cells, tasks, and_change=False):
    """Cells that define some of these names, or change their values; checks and answers of other
    tasks aside."""
    return [
        at
        for at, cell in cells.items()
        if names & (_names(cell) | (carried.changed(cell["source"]) if and_change else set()))
        and not _claimed(cell, tasks)
        and not notebook.CHECK_CALL.search(cell["source"])
        and not cell["source"].startswith("%%writefile")  # its text defines nothing
    ]


def _nearest(task, places, cells):
    """Those of some cells between the check before and the task's own, else those above its own,
    else all: another task may ask for the same name, and below may lie a scratch copy."""
    checks = [at for at in cells if cells[at]["checks"]]
    own = [at for at in checks if task in cells[at]["checks"]]
    end = max(own or places, default=0)
    start = max((at for at in checks if at < end and at not in own), default=-1)
    above = [at for at in places if at <= end]
    return [at for at in above if at > start] or above or places


def _below(task, written, cells, tasks):
    """Cells without the line between an answer and its check that define the answer once more,
    or go on with its class: the check that the student ran was one of the last of them."""
    start = max(written, default=len(cells))
    check = next((at for at in cells if at > start and task in cells[at]["checks"]), start)
    between = {at: cell for at, cell in cells.items() if start < at <= check}
    return _defining({*tasks[task]["defines"]}, between, tasks, and_change=True)


def _claimed(cell, tasks):
    """The tasks that a cell says it answers; but one that defines only what others ask for does
    not: its line, which somebody copied, is wrong."""
    said = notebook.answers(cell) & tasks.keys()
    names = _names(cell)
    made = {task for task, table in tasks.items() if names & {*table["defines"]}}
    return said & made if made else said


def _names(cell):
    return _bound(cell["source"])


@functools.lru_cache(maxsize=8192)  # each task asks for those of each cell
def _bound(source):
    return scope.module_names(without_commands(source))


def _code(source):
    """What a cell does, its comments aside; where that can't be told, its text."""
    try:
        return ast.dump(ast.parse(without_commands(source)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return source.strip()


def _text(cell):
    return cell["source"].strip()


def _carry(result, task, cells, own, table):
    """The helper definitions that an answer reaches, in a cell above it for each of theirs."""
    others = {
        at: cell["beside"]
        for at, cell in cells.items()
        if at not in own[task] or cell["checks"]  # a helper beside an answer in a check's cell
    }
    answer = {at: cells[at]["source"] for at in own[task]}
    known = {*table["given"], *scope.BUILTINS, *scope.SHELL}
    texts = {}
    for at, text in carried.statements(others, answer, known):
        texts[at] = texts.get(at, "") + text.rstrip("\n") + "\n"
    for at, text in texts.items():
        names = ", ".join(f"`{name}`" for name in sorted(scope.module_names(text))) or "code"
        result.findings.append(f"{task}: {names} of cell {at + 1} came along with the answer.")
        _add(result, task, {"source": text}, at)


def _add(result, task, cell, at):
    place = len(result.content["cells"])
    role = {"attnlearn": {"role": "answer", "exercise": task}}
    _append(result, f"{task}-answer-{place}", cell["source"], role)
    result.answers[task][place] = cell["source"]
    result.origin[place] = at + 1


def _give_back(result, task, table):
    """A cell below an answer such as `sum = 0` that deletes those names of Python's own that the
    checks read, if no function of the answer reads them."""
    source = "\n".join(map(without_commands, result.answers[task].values()))
    bound = scope.assigned_names(source) | scope.starred(source)
    checks = "\n".join([table["check"], *table.get("hidden_checks", ())])
    names = bound & scope.builtins_read(checks) - scope.read_in_functions(source)
    if names := sorted(names - {*table["defines"]}):
        text = f"for _ in {names}:\n    globals().pop(_, None)"
        _append(result, f"{task}-names", text)


def _append(result, id, source, metadata=None):
    """A cell whose source stays one text, as those of a submission do."""
    cell = notebook.code_cell(id, "", metadata)
    result.content["cells"].append({**cell, "source": source})


def _answered(cell):
    """The task that a pristine cell has the place for, or None."""
    role = cell["metadata"].get("attnlearn", {})
    return role["exercise"] if role.get("role") == "answer" else None


def _normal(cell):
    return {**cell, "source": notebook.joined(cell["source"])}
