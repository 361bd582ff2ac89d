"""What the tasks of an exercise should give under a secret seed, made afresh where it is graded.

`python -m attnlearn.grading.expected SCRIPT TARGET` runs the solution and every wrong answer in a
process with the environment of a kernel, and writes the tables to the file TARGET. The seed comes
by the environment, as it does in a kernel.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

from . import bank, notebook, source

SLOW = ("torch",)  # packages that take seconds to import


class ExpectedError(ValueError):
    """An exercise that can't be graded under this seed; the message names the task."""


def make(script, environment, scratch):
    """{task: table with visible and hidden cases} under the seed in `environment`.

    And those slow packages that the exercise imports.
    """
    target = Path(scratch) / "expected.json"
    command = [sys.executable, "-m", "attnlearn.grading.expected", str(script), str(target)]
    done = subprocess.run(command, env=environment, cwd=scratch, capture_output=True, text=True)
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["no reason given"]
        raise ExpectedError(f"{script}: no expected values: {lines[-1]}")
    made = json.loads(target.read_text("utf-8"))
    target.unlink()
    return made["tables"], tuple(made["packages"])


def likely_packages(script):
    """The slow packages that the text of a script imports: known before it has run."""
    return tuple(name for name in SLOW if name in source.imported(script))


def tables(script, seed):
    exercise = source.read(script)
    return {task.id: _table(exercise, task, seed) for task in exercise.tasks.values()}


def _table(exercise, task, seed):
    table = bank.make_table(exercise, task, seed=seed, hidden=True)
    visible = bank.run(exercise, task, task.solved, seed=seed)
    for case in table["cases"]:
        if fault := bank.fault(case["value"]):
            raise ExpectedError(f"{task.id}, case {case['name']!r}: {fault}")
        case["hidden"] = case["name"] not in visible
    # The reports of a self-check say that hidden cases are still to come: here they have run.
    return {**table, "hidden": 0, "hidden_checks": [cell.source for cell in task.hidden]}


def main(arguments):
    script, target = map(Path, arguments)
    made = tables(script, os.environ["ATTNLEARN_SEED"])
    packages = [name for name in SLOW if name in sys.modules]
    notebook.write(target, json.dumps({"tables": made, "packages": packages}))


if __name__ == "__main__":
    main(sys.argv[1:])
