"""Test the test: every fault of a task's bank of answers, as a sentence for its author."""

import itertools
import pkgutil
import re
from dataclasses import dataclass

from ..exercise import compare, diagnose, scope
from . import bank

SEEDS = range(20)
LONGEST = 90  # minutes for one notebook


@dataclass
class Trial:
    """Everything a task's answers gave under one seed, with visible and hidden cases."""

    seed: int
    table: dict
    blank: dict
    right: dict
    wrong: dict
    visible: set

    def failing(self, values, hidden=True):
        names = diagnose.failing(values, self.table)
        return [name for name in names if hidden or name in self.visible]

    def visible_table(self):
        cases = [c for c in self.table["cases"] if c["name"] in self.visible]
        wrong = [
            {**w, "values": {n: v for n, v in w["values"].items() if n in self.visible}}
            for w in self.table["wrong"]
        ]
        return {**self.table, "cases": cases, "wrong": wrong}


def audit(exercise, seeds=SEEDS):
    """The faults of all tasks; [] means that the bank is sound."""
    faults = []
    minutes = sum(task.minutes for task in exercise.tasks.values())
    if minutes > LONGEST:
        faults.append(f"{exercise.stem}: {minutes} minutes are too long, {LONGEST} is the limit")
    for task in exercise.tasks.values():
        faults += [f"{task.id}: {fault}" for fault in audit_task(exercise, task, seeds)]
    return faults


def audit_task(exercise, task, seeds=SEEDS):
    """The faults of one task, under no more seeds than it asks for."""
    if crash := _cell_crash(exercise, task):
        return [crash]
    trials = [_try(exercise, task, seed) for seed in seeds[: task.seeds]]
    faults = _unseeded(exercise, task)
    for rule in (_solution, _blank, _right, _wrong, _same_values, _keeps, _coverage):
        faults = [*faults, *rule(task, trials)]
    return _together([*faults, *_written(task)])


def _together(faults):
    """Each fault once, however many seeds show it."""
    seeds = {}
    for fault in faults:
        what, seed = re.fullmatch(r"(.*?)(, seed \d+)?", fault, re.S).groups()
        seeds.setdefault(what, {})[seed or ""] = None
    return [
        f"{what}{next(iter(own))}" + (f" and {len(own) - 1} more" if len(own) > 1 else "")
        for what, own in seeds.items()
    ]


def _try(exercise, task, seed):
    def values(source):
        return bank.values(bank.run(exercise, task, source, seed=seed, hidden=True))

    expected = bank.run(exercise, task, task.solved, seed=seed, hidden=True)
    wrong = {cell.name: values(cell.source) for cell in task.wrong}
    table = bank.table_of(exercise, task, expected, wrong)
    right = {cell.name: values(cell.source) for cell in task.right}
    visible = set(bank.run(exercise, task, task.solved, seed=seed))
    return Trial(seed, table, values(task.blank), right, wrong, visible)


def _cell_crash(exercise, task):
    """The check crashed outside its cases, or the solution leans on another task's answer."""
    records = bank.run(exercise, task, task.solved, hidden=True)
    others = {n: t.id for t in exercise.tasks.values() if t is not task for n in t.defines}
    for name, value in bank.values(records).items():
        if value["k"] == "error" and value["v"] == "NameError":
            for other, owner in others.items():
                if f"'{other}'" in value["msg"]:
                    return f"leans on the answer of {owner}: it needs {other}"
        if name == bank.CELL:
            return f"a cell of the task raises {value['v']}: {value['msg']}"
    return "" if records else "the check has no case"


def _written(task):
    """What can be seen without running: names that a check binds, number of wrong answers."""
    for cell in (task.check, *task.hidden):
        names = scope.module_names(cell.source)
        for name in sorted(n for n in names if n != "case" and not n.startswith("_")):
            yield f"the {cell.role} cell binds {name!r}: bind only `case` and `_names`"
    if len(task.wrong) < 4:
        yield f"{len(task.wrong)} wrong answers, at least 4 are needed"
    for name in task.forbid:
        if "." in name and not _exists(name):
            yield f"forbids {name!r}, which does not exist"
    seen = sum(bool(cell.seen) for cell in task.wrong)
    if seen < 2:
        yield f"{seen} wrong answers say where somebody gave them ('# Seen: ...'), 2 are needed"


def _exists(path):
    try:
        pkgutil.resolve_name(path)
    except (ImportError, AttributeError):
        return False
    return True


def _unseeded(exercise, task):
    runs = [bank.run(exercise, task, task.solved, hidden=True, noise=noise) for noise in (1, 2)]
    for name, record in runs[0].items():
        if compare.differ(runs[1][name]["value"], record["value"], record):
            yield f"case {name!r} is random: draw from the `rng` that the case is given"


def _solution(task, trials):
    for trial in trials:
        for case in trial.table["cases"]:
            if fault := bank.fault(case["value"]):
                yield f"case {case['name']!r}, seed {trial.seed}: {fault}"


def _blank(task, trials):
    for trial in trials:
        passed = {c["name"] for c in trial.table["cases"]} - set(trial.failing(trial.blank))
        for name in sorted(passed):
            yield f"the blank passes {name!r}"


def _right(task, trials):
    for trial in trials:
        for name, values in trial.right.items():
            if failing := trial.failing(values):
                yield f"right answer {name!r} fails {failing[0]!r}, seed {trial.seed}"


def _wrong(task, trials):
    """Each wrong answer is caught by what a learner runs, and gets its own hint."""
    for trial in trials:
        for name, values in trial.wrong.items():
            if not trial.failing(values):
                yield f"wrong answer {name!r} passes every case, seed {trial.seed}"
                continue
            if not trial.failing(values, hidden=False):
                yield f"wrong answer {name!r} is caught by hidden cases only, seed {trial.seed}"
                continue
            for table in (trial.table, trial.visible_table()):
                found = diagnose.diagnose(values, table)
                if not found or found[0].name != name or not found[0].sure:
                    hint = repr(found[0].name) if found else "none"
                    yield f"wrong answer {name!r} gets the wrong hint: {hint}, seed {trial.seed}"
                    break


def _same_values(task, trials):
    rules = {case["name"]: case for case in trials[0].table["cases"]}
    for trial in trials:
        for a, b in itertools.combinations(trial.table["wrong"], 2):
            shared = a["values"].keys() == b["values"].keys() and a["values"]
            if shared and all(
                compare.agree(a["values"][name], b["values"][name], rules[name]) for name in shared
            ):
                pair = f"wrong answers {a['name']!r} and {b['name']!r}"
                yield f"{pair} give the same values: merge them or add a case"


def _keeps(task, trials):
    """A named mistake keeps at most half of the points."""
    for trial in trials:
        for cell in task.wrong:
            failing = set(trial.failing(trial.wrong[cell.name]))
            for kind, table in (("", trial.table), (" visible", trial.visible_table())):
                weights = {case["name"]: case["weight"] for case in table["cases"]}
                kept = sum(w for n, w in weights.items() if n not in failing)
                if failing and kept > sum(weights.values()) / 2 + 1e-9:
                    share = f"{100 * kept / sum(weights.values()):.0f} %"
                    yield f"wrong answer {cell.name!r} keeps {share} of the{kind} points"


def _coverage(task, trials):
    """Cases that catch nothing, and mistakes that show by chance only."""
    fails = {cell.name: [set(t.failing(t.wrong[cell.name])) for t in trials] for cell in task.wrong}
    for case in trials[0].table["cases"]:
        if all(case["name"] not in failing for runs in fails.values() for failing in runs):
            yield f"case {case['name']!r} catches no wrong answer"
    for name, runs in fails.items():
        seen = {frozenset(failing & trials[0].visible) for failing in runs}
        if len(seen) > 1:
            yield f"wrong answer {name!r} fails different cases under different seeds"
