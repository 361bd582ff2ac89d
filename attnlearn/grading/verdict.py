"""What the values that arrived from a kernel say about one task of a notebook."""

import functools
import re

from ..exercise import diagnose, scope
from ..exercise.report import Report, missing_name, report, visible
from . import notebook


def short(points):
    """Points for a reader: at most two decimals."""
    return f"{round(points, 2):g}"


class Verdict:
    """Points and report of one task."""

    def __init__(self, exercise, task, table, values, errors, stopped):
        self.exercise, self.task, self.table, self.values = exercise, task, table, values
        self.errors, self.stopped = errors, stopped
        self.shown = visible(values, table)
        failing = diagnose.failing(values, table)
        weights = {case["name"]: case["weight"] for case in table["cases"]}
        kept = sum(weight for name, weight in weights.items() if name not in failing)
        self.points = table["points"]
        self.earned = round(self.points * kept / sum(weights.values()), 4)
        self.solved = not failing
        answers = exercise.answer(task)
        self.answered = bool(answers)
        self.broken = [errors[at] for at in answers if at in errors]

    def properties(self):
        """For reports of pytest: JUnit, report-log."""
        mistakes = [mistake.name for mistake in diagnose.diagnose(self.values, self.table)]
        yield from {
            "task": self.task,
            "points": self.points,
            "earned": self.earned,
            "mistakes": ", ".join(mistakes),
        }.items()

    def text(self):
        verdict = self.report()
        verdict.headline += f"  {short(self.earned)} of {self.points:g} points."
        return verdict.text()

    def report(self):
        """The report on the cases, with notes on what went wrong around them."""
        answers = self.exercise.answer(self.task)
        if self.broken and not self.solved:
            return Report(f"{self.task}: the answer cell stopped with an error.", notes=self.broken)
        if not answers and self._nothing_arrived():
            note = f"No cell says `# EXERCISE: {self.task}`, and nothing answers its check."
            return Report(f"{self.task}: no answer found.", notes=[note])
        source = "\n".join(answers.values())
        kept_raise = scope.unfinished(source, self.table["blank"])
        notes = [*self._stop(), *self._undefined(), *self._outside(source), *self._elsewhere()]
        notes += [*self._rebound(), *self._commands(), *self._stopped_late()]
        return report(self.task, self.table, self.values, kept_raise=kept_raise, notes=notes)

    def _nothing_arrived(self):
        values = self.values.values()
        missed = all(value["k"] == "error" for value in values)
        return not values or (missed and missing_name(values, self.table) is not None)

    def _stopped_late(self):
        """An answer may be right although its cell did not end well."""
        if self.solved:
            yield from (f"Note: the answer cell stopped below its answer: {e}" for e in self.broken)

    def _stop(self):
        if self.stopped:
            yield f"The check stopped: {self.stopped.removeprefix('stopped: ')}"

    def _undefined(self):
        """Why a name was missing: where it is defined after all, or that it is not."""
        errors = [v for v in self.shown.values() if v["k"] == "error" and v["v"] == "NameError"]
        found = (re.search(r"name '(\w+)' is not defined", error["msg"]) for error in errors)
        for name in dict.fromkeys(match[1] for match in found if match):
            if not self._defining(name) and name not in self.table["defines"]:
                yield (
                    f"No cell that ran defines `{name}`: is it misspelled, or was its definition "
                    "left behind? Move it into the answer."
                )
            for at in self._defining(name):
                if at in self.errors:
                    why = f"it stopped with an error: {self.errors[at]}"
                elif notebook.CHECK_CALL.search(self.exercise.cells[at]["source"]):
                    why = "a check cell runs as it was released: move it out"
                else:
                    why = "it runs after this check: move it up"
                yield f"`{name}` is defined in {self.exercise.place(at)}; {why}."

    def _outside(self, source):
        """Helpers of other cells: lost where the answer cell is graded alone."""
        for name in sorted(scope.free_names(source) - set(self.table["given"])):
            others = set(self._defining(name)) - self.exercise.answer(self.task).keys()
            for at in sorted(others)[:1]:
                where = self.exercise.place(at)
                yield f"Note: the answer uses `{name}` of {where}. Better move it in."

    def _rebound(self):
        """Names that the answer takes from the checks; what they import they got back here."""
        imported = scope.module_names(self.table.get("imports", ""))
        lost = set() if self.solved else scope.builtins_read(self.table["check"])
        for at, source in self.exercise.answer(self.task).items():
            bound = scope.assigned_names(source)
            for name in sorted(bound & (imported | lost) | scope.starred(source) & lost):
                where = self.exercise.place(at)
                yield f"Note: {where} rebinds `{name}`, which the checks use. Rename it."

    def _commands(self):
        """A command for a whole cell may be the reason why nothing is defined."""
        for at, source in self.exercise.answer(self.task).items():
            if (found := notebook.CELL_COMMAND.search(source)) and not self.solved:
                where = self.exercise.place(at)
                yield (
                    f"{where[0].upper()}{where[1:]} has the command `{found[0]}`. Delete it: the "
                    "definitions of the cell may be lost by it."
                )

    def _elsewhere(self):
        """What stopped in cells that aren't graded, if the task isn't solved."""
        answers = {at for task in self.exercise.known for at in self.exercise.answer(task)}
        for at, error in self.errors.items():
            if at not in answers and not self.solved:
                where = self.exercise.place(at)
                yield f"{where[0].upper()}{where[1:]}, which isn't graded, stopped: {error}"

    def _defining(self, name):
        return self._places.get(name, [])

    @functools.cached_property
    def _places(self):
        """{name: positions of the cells that define it}"""
        found = {}
        for at, cell in self.exercise.cells.items():
            for name in scope.module_names(cell["source"]):
                found.setdefault(name, []).append(at)
        return found
