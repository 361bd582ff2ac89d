"""The tasks of one submission: nbval's classes in a sandboxed kernel with the secret seed.

The notebook runs twice from the top: once with the visible checks, then with the hidden ones. So
nothing that an answer has seen of a hidden case can show up in the report on a visible one.
"""

import time
from pathlib import Path

from ..exercise import forbid
from . import ahead, bans, careless, records, start
from .isolation import processes
from .items import ExerciseFile, TaskItem
from .verdict import Verdict

START_SECONDS = 120
DEATHS = 3  # of one task: then its other cases are not run
# Limits of a cell that all of a task may take: its answer and its check, in both passes.
SHARE = 4
TOO_LONG = "stopped: all cells of this notebook together have used up their time"
# At the top and before each check: patches that an answer made to it are undone, chance is the same
# in every run, and the seed is the secret one.
FRESH = """\
def _():
    import os, random, sys
    import numpy
    os.environ.update({told!r})
    for name in [n for n in sys.modules if f"{{n}}.".startswith("attnlearn.exercise.")]:
        del sys.modules[name]
    random.seed(0)
    numpy.random.seed(0)
    if torch := sys.modules.get("torch"):
        torch.default_generator.manual_seed(0)
        if torch.cuda.is_initialized():
            torch.cuda.manual_seed_all(0)
_()
del _
"""
# Only these cases run. The second pass needs the visible check, too: hidden cases use its names.
ONLY = """\
def _():
    from attnlearn.exercise.cases import Cases
    call = Cases.__call__
    def chosen(self, name, f=None, **options):
        if f is None:
            return lambda g: self(name, g, **options)
        if name in {names!r}:
            call(self, name, f, **options)
    Cases.__call__ = chosen
_()
del _
"""


class OfficialFile(ExerciseFile):
    """The pristine notebook with a student's answers."""

    def __init__(self, *, job, **options):
        super().__init__(content=job.transplant.content, known=job.tables, **options)
        self.job = job
        self.endless = set()  # cells that ran out of time: once is enough
        self.second_pass = False
        self.end = None  # no cell starts after it: there may be thousands, each below its limit
        self.first = min((at for task in self.known for at in self.answer(task)), default=None)
        given = {name for table in self.known.values() for name in table["given"]}
        self.undo = careless.undo(sorted(given))

    def collect(self):
        tasks = sorted(self.known, key=self.position)
        yield from (VisibleItem.of(self, task) for task in tasks)
        yield from (HiddenItem.of(self, task) for task in tasks if self.hidden(task))

    def answer(self, task):
        return self.job.transplant.answers.get(task, {})

    def place(self, at):
        return self.job.transplant.place(at)

    def hidden(self, task):
        return self.known[task]["hidden_checks"]

    def setup(self):
        first, self.job.first = self.job.first, None
        self.kernel = first or self.job.keep(start.kernel(self.job))
        self.kernel.watch = self._too_much
        tables = str(Path(self.kernel.cwd, start.TABLES))
        told = {"SEED": self.job.seed, "MODE": "grade", "TABLES": tables}
        self.fresh = FRESH.format(told={f"ATTNLEARN_{key}": told[key] for key in told})
        self.kernel.await_ready(START_SECONDS)
        if first:
            ahead.prepare(self.job)
        self.end = self.end or time.monotonic() + SHARE * len(self.known) * self.kernel.seconds
        self._begin()

    def _begin(self):
        self.run(self.fresh + careless.BEGIN, 0)

    def teardown(self):
        if hasattr(self, "kernel"):
            super().teardown()
        self.job.end_all()

    def revive(self):
        if not self.kernel.is_alive():
            self.job.end_all()  # what the dead kernel has left behind
        super().revive()

    def run(self, source, at):
        if time.monotonic() > self.end:
            return [], TOO_LONG
        is_cell = at in self.cells and source == self.cells[at]["source"]
        if is_cell and at in self.endless:
            return [], self.fatal.get(at)
        if is_cell and at == self.first:
            super().run(self.undo, at)
        outputs, error = super().run(source, at)
        if is_cell and self.kernel.fault == "time":
            self.endless.add(at)
        return outputs, error

    def again(self):
        """From the top once more, in the same kernel: the second pass."""
        self.second_pass, self.done, self.errors = True, 0, {}
        self._begin()

    def what_went_wrong(self, outputs, problem):
        """In the second pass only why the kernel was ended: other words might tell a secret."""
        if self.second_pass:
            outputs, problem = [], "an error stopped this"
        return super().what_went_wrong(outputs, problem)

    def cases(self, task, sources, wanted):
        """{case: value} of the cases that these check cells hold, and why they stopped or None."""
        values, stopped = self._checks(task, sources, wanted)
        missing = [name for name in wanted if name not in values]
        if not missing or stopped is None:
            return values, stopped
        why = records.refusal(stopped)
        if self.kernel.is_alive() or self.kernel.fault == "time":
            return values | dict.fromkeys(missing, why), stopped
        return values | self._one_by_one(task, sources, missing, why), stopped

    def _one_by_one(self, task, sources, names, why):
        """After a death: what was sent just before may be lost with it, so each runs alone."""
        values, deaths = {}, 0
        for name in names:
            if deaths < DEATHS:
                self.revive()
                self.run_above(self.position(task))
                values |= self._checks(task, sources, [name])[0]
                deaths += not self.kernel.is_alive()
            values.setdefault(name, why)
        return values

    def _checks(self, task, sources, names):
        outputs, at = [], self.position(task)
        before = f"{self.fresh}{self.known[task]['imports']}\n{ONLY.format(names=names)}"
        *above, last = sources
        for source in (*above, f"{last}\n{self.undo}"):
            out, stopped = self.run(before + source, at)
            outputs += out
            if stopped:
                break
        if stopped and self.kernel.is_alive():
            self.run(self.undo, at)
        return records.values(outputs, task, self.job.findings), stopped

    def _too_much(self):
        own = processes.below(self.job.spared, ahead.process()).keys()
        written = [Path(self.kernel.cwd), Path(self.kernel.meeting)]
        return processes.excess(own, written, self.job.sandbox.limits)


class OfficialItem(TaskItem):
    """One task in one of the two passes."""

    @classmethod
    def of(cls, file, task):
        return cls.from_parent(file, name=task, cell_num=file.position(task), cell=None, options={})

    def runtest(self):
        exercise, job, task = self.parent, self.parent.job, self.name
        exercise.run_above(self.cell_num)
        if task not in job.errors:
            job.errors[task] = dict(exercise.errors)
        table = job.tables[task]
        wanted = [c["name"] for c in table["cases"] if c["hidden"] == self.is_hidden]
        values, stopped = exercise.cases(task, self.sources(table), wanted)
        job.values[task] |= {name: values[name] for name in wanted if name in values}
        if stopped:
            job.stopped[task] = stopped
        job.verdicts[task] = self.judge()

    def judge(self):
        """The verdict on what has arrived so far; what is forbidden is looked for here as well."""
        exercise, job, task = self.parent, self.parent.job, self.name
        table, values = job.tables[task], job.values[task]
        if name := bans.broken(exercise.answer(task).values(), table):
            said = {"k": "error", "v": "Forbidden", "msg": forbid.message(name)}
            values = {case["name"]: said for case in table["cases"]}
        stopped = job.stopped.get(task)
        return Verdict(exercise, task, table, values, job.errors[task], stopped)

    def repr_failure(self, excinfo):
        return f"{self.name}: {type(excinfo.value).__name__}: {excinfo.value}"


class VisibleItem(OfficialItem):
    is_hidden = False

    def sources(self, table):
        return [table["check"]]


class HiddenItem(OfficialItem):
    is_hidden = True

    def setup(self):
        if not self.parent.second_pass:
            self.parent.again()

    def sources(self, table):
        return [table["check"], *table["hidden_checks"]]
