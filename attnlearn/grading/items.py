"""nbval's file and cell, made to grade: one pytest item for each task of an exercise.

An item runs whatever lies above its check once, then the check as it was released. What the
notebook stores as outputs is never looked at: it may be the student's own.
"""

import os
import re
from collections import defaultdict

import pytest
from nbformat import NotebookNode
from nbval import plugin as nbval
from nbval.kernel import CURRENT_ENV_KERNEL_NAME

from ..exercise import scope, tables
from . import notebook, records
from .kernel import GradingKernel
from .verdict import Verdict

NBVAL_SECONDS = 2000  # nbval's default for one cell; a student should not wait so long
CELL_SECONDS = 120
IMPORT = "from attnlearn.exercise import check"
FAULTS = {
    "died": "the kernel died while it ran this",
    "output": "stopped: far too much was printed or shown",
    "time": "stopped after {seconds:g} s: a loop that never ends, or much more work than needed?",
    "processes": "stopped: it started too many processes",
    "memory": "stopped: its processes took too much memory together",
    "disk": "stopped: it wrote too much to disk",
}


class WrongAnswer(Exception):
    """A task that is not solved."""


def choose(node, parent):
    """An exercise or a damaged file in place of nbval's node; others stay as they are."""
    if type(node) is not nbval.IPyNbFile:
        return node
    try:
        content = notebook.load(node.path)
    except notebook.NotebookError as error:
        return DamagedFile.from_parent(parent, path=node.path, trouble=str(error))
    ids = notebook.task_ids(content)
    if not ids:
        return node
    known = {}
    for table in tables.tables(node.path.parent):
        if set(ids) & table["tasks"].keys():
            known = table["tasks"] | known  # the package's own table comes first
    known |= {id: None for id in ids if id not in known}
    return ExerciseFile.from_parent(parent, path=node.path, content=content, known=known)


class DamagedFile(pytest.File):
    """A file that is no notebook: one failing item, and nothing else is lost."""

    def __init__(self, *, trouble, **options):
        super().__init__(**options)
        self.trouble = trouble

    def collect(self):
        yield DamagedItem.from_parent(self, name="notebook")


class DamagedItem(pytest.Item):
    def runtest(self):
        raise notebook.NotebookError(self.parent.trouble)

    def repr_failure(self, excinfo):
        return str(excinfo.value)

    def reportinfo(self):
        return self.path, 0, f"{self.path.name}: damaged"


class ExerciseFile(nbval.IPyNbFile):
    """A notebook with tasks; its kernel runs each of the other cells once, from the top."""

    def __init__(self, *, content, known, **options):
        super().__init__(**options)
        self.cells = dict(notebook.code_cells(content))
        self.known = known
        self.done = 0  # cells before this position have run
        self.errors = {}  # position: what the cell raised
        self.fatal = {}  # the same for cells that killed the kernel: never run again

    def collect(self):
        for task in sorted(self.known, key=self.position):
            table = self.known[task]
            cell = _cell(table["check"] if table else "")
            yield TaskItem.from_parent(
                self, name=task, cell_num=self.position(task), cell=cell, options=_options()
            )

    def position(self, task):
        """Just below the task's answer and check: its check runs when all above has run."""
        own = [n for n, cell in self.cells.items() if task in notebook.named_tasks(cell["source"])]
        return max([*own, *self.answer(task)], default=max(self.cells)) + 1

    def answer(self, task):
        """{position: source} of the answer cells of a task; copies of a cell are all run.

        Where no cell says that it is the answer, those that define what the task asks for.
        """
        cells = {at: c for at, c in self.cells.items() if task in notebook.answers(c)}
        asked = set(self.known[task]["defines"]) if self.known[task] else set()
        cells = cells or {
            at: cell
            for at, cell in self.cells.items()
            if asked & scope.module_names(cell["source"]) and not _is_check(cell)
        }
        return {at: cell["source"] for at, cell in cells.items()}

    def setup(self):
        option = self.config.option
        seconds = option.nbval_cell_timeout
        self.kernel = GradingKernel(
            option.nbval_kernel_name or CURRENT_ENV_KERNEL_NAME,
            cwd=str(self.path.parent),
            seconds=CELL_SECONDS if seconds == NBVAL_SECONDS else seconds,
        )
        self.kernel.await_ready(option.nbval_kernel_startup_timeout)

    def run_above(self, position):
        """Run the cells above a position that have not run yet; checks are left out."""
        self.revive()
        while self.done < position:
            at, self.done = self.done, self.done + 1
            cell = self.cells.get(at)
            if cell is None or at in self.fatal or _left_out(cell):
                continue
            if error := self.run(cell["source"], at)[1]:
                self.errors[at] = error
            if not self.kernel.is_alive():
                self.fatal[at] = self.errors.get(at, "the kernel died")
                self.revive()

    def run(self, source, at):
        """Run one cell in the kernel: its outputs, and what went wrong or None."""
        item = nbval.IPyNbCell.from_parent(
            self, name=self.place(at), cell_num=at, cell=_cell(source), options=_options()
        )
        try:
            item.runtest()
        except Exception as problem:  # nbval's own errors, and its stumbling over odd messages
            return item.test_outputs or [], self.what_went_wrong(item.test_outputs or [], problem)
        return item.test_outputs, None

    def what_went_wrong(self, outputs, problem):
        """One line on why a cell stopped: the error it raised, or why it was ended."""
        interrupted = self.kernel.fault == "time"
        for out in reversed(outputs):
            ours = interrupted and out.get("ename") == "KeyboardInterrupt"
            if out["output_type"] == "error" and not ours:
                said = re.sub(r"\(\d+\.py, line", "(line", f"{out['ename']}: {out['evalue']}")
                return (said.splitlines() or ["an error"])[0][:200]
        if self.kernel.fault in FAULTS:
            return FAULTS[self.kernel.fault].format(seconds=self.kernel.seconds)
        return (str(problem).splitlines() or ["stopped"])[0][:200]

    def place(self, at):
        """What a reader would call the cell at a position."""
        return f"cell {at + 1}"

    def check(self, task):
        """The values of a task's check, and why it stopped or None."""
        table = self.known[task]
        at = self.position(task)
        self.run(table.get("imports", IMPORT), at)  # an answer may rebind a name
        outputs, stopped = self.run(table["check"], at)
        return records.values(outputs, task), stopped

    def revive(self):
        """After its death: a new kernel, which runs all cells again but those that kill."""
        if not self.kernel.is_alive():
            if hasattr(self.kernel, "km"):
                self.kernel.stop()
            self.setup()
            self.done, self.errors = 0, dict(self.fatal)
        self.timed_out = False

    def teardown(self):
        if hasattr(self.kernel, "km"):
            self.kernel.stop()


class TaskItem(nbval.IPyNbCell):
    """One task: the cells above it, its check, and the verdict on the values that arrive."""

    verdict = None

    def setup(self):
        """nbval would expect a failure here after a timeout above."""

    def runtest(self):
        exercise, table = self.parent, self.parent.known[self.name]
        if table is None:
            raise WrongAnswer(
                f"{self.name}: there are no expected values. Put the folder `.attnlearn` that came "
                "with the notebook beside it; authors make it by `attnlearn release`."
            )
        exercise.run_above(self.cell_num)
        errors = dict(exercise.errors)
        values, stopped = exercise.check(self.name)
        self.verdict = Verdict(exercise, self.name, table, values, errors, stopped)
        place = os.path.relpath(self.path, self.config.rootpath)
        self.user_properties += [("notebook", place), *self.verdict.properties()]
        if not self.verdict.solved:
            raise WrongAnswer(self.verdict.text())

    def repr_failure(self, excinfo):
        if isinstance(excinfo.value, WrongAnswer):
            return str(excinfo.value)
        return f"{self.name}: {type(excinfo.value).__name__}: {excinfo.value}"

    def reportinfo(self):
        return self.path, 0, f"{self.path.name}: {self.name}"


def _left_out(cell):
    """Checks run as released; other cells may ask to be skipped, an answer may not."""
    source = cell["source"]
    if notebook.answers(cell):
        return False
    if _is_check(cell):
        return True
    tags = cell["metadata"].get("tags")
    skipped = isinstance(tags, list) and "nbval-skip" in tags
    return skipped or bool(re.search(r"^\s*# NBVAL_SKIP", source, re.M))


def _is_check(cell):
    return bool(notebook.CHECK_CALL.search(cell["source"]))


def _cell(source):
    return NotebookNode(source=source, outputs=[], execution_count=None, metadata={})


def _options():
    return defaultdict(bool)
