"""The page of the book that shows how good the exercises' checks are."""

import json

from . import source

INTRODUCTION = """\
# How good are the checks?

A check that accepts a wrong answer teaches the wrong thing. So the checks of this book are tested
like any other program, and this page shows the result. It is written by `attnlearn release`;
`make test` fails where it no longer holds.

Three things are tried on every exercise.

- **Wrong answers.** Each is a mistake that somebody really makes. The check must reject it and
  call it by its name, under 20 different random seeds (3 for a kernel, which is slow on a CPU),
  and it must not keep more than half of the points.
- **Right answers.** Each is another correct way to solve the exercise. The check must accept it
  under the same seeds.
- **Mutants.** A program changes the solution in one small place: `<` becomes `<=`, a term is
  dropped, two arguments trade places. Some mutants crash at once; no check is needed for these.
  Some change no value that we could find. All others are wrong answers, and at least 95 % of them
  must fail.
"""

COMPARED = """\
## Compared with other graders

There are few measurements of this kind. The figures below are quoted from our own study of public
course repositories, in versions from 2022 to August 2026, and are not measured again when this
page is made. In that study wrong answers were written by hand, by us, and given to each grader:
they show holes, they are no fair sample, and our own checks were made knowing them. So the rows
are not directly comparable with the tables above.

| grader | wrong answers it rejected |
| --- | --- |
| CS336, assignments 1 and 2, attention tests (quoted) | 11 of 13 |
| TorchCode, 11 attention tasks (quoted) | 15 of 47 |
| llm-algo-leetcode, notebooks 03, 04, 08, 20 and 29 (quoted) | 0 of 12 |
"""


def page(project, tables):
    """The page as MyST, from the scripts and their tables; those not given are read."""
    parts, totals = [INTRODUCTION], [0, 0, 0, 0]
    for script in project.scripts():
        exercise = source.read(script)
        path = project.targets(exercise.stem)["table"]
        if exercise.stem not in tables and not path.exists():
            continue  # not released yet
        table = tables.get(exercise.stem) or json.loads(path.read_text("utf-8"))
        parts.append(_exercise(exercise, table["tasks"]))
        for task in exercise.tasks.values():
            mutants = table["tasks"][task.id]["mutants"]
            row = (1, len(task.wrong), mutants["changed"], mutants["killed"])
            totals = [a + b for a, b in zip(totals, row, strict=True)]
    tasks, wrong, changed, killed = totals
    score = (
        f"Together: **{tasks} tasks, {wrong} named wrong answers, all rejected by name; "
        f"{killed} of {changed} mutants rejected.**\n"
    )
    return "\n".join([parts[0], score, *parts[1:], COMPARED])


def _exercise(exercise, tables):
    lines = [
        f"## {_title(exercise)}",
        "",
        f"The exercise: [{exercise.stem}](../exercises/{exercise.stem}.ipynb).",
        "",
        "| task | right answers | wrong answers | cases | mutants | crash | change a value "
        "| rejected |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for task in exercise.tasks.values():
        table, mutants = tables[task.id], tables[task.id]["mutants"]
        answers = f"{1 + len(task.right)} | {len(task.wrong)} | {len(table['cases'])}"
        counts = " | ".join(str(mutants[k]) for k in ("made", "crashed", "changed", "killed"))
        lines.append(f"| `{task.id}` | {answers} | {counts} |")
    for task in exercise.tasks.values():
        lines += ["", f"Mistakes that the check of `{task.id}` knows by name:", ""]
        for wrong in task.wrong:
            seen = f" (seen: {'; '.join(wrong.links)})" if wrong.seen else ""
            lines.append(f"- {wrong.name}{seen}")
    return "\n".join([*lines, "", *_mutants(exercise, tables)]) + "\n"


def _mutants(exercise, tables):
    """The mutants that no case caught, for whoever wants to look for a value that they change."""
    kinds = {"survived": "changes a value and is not rejected", "equal": "changes no value so far"}
    rows = [
        f"- {task}, {what}: {words}"
        for task in exercise.tasks
        for fate, words in kinds.items()
        for what in tables[task]["mutants"][fate]
    ]
    if not rows:
        return []
    title = "Mutants that no check could tell from the solution (lines of the answer cell)"
    return [f"```{{dropdown}} {title}", *rows, "```"]


def _title(exercise):
    for cell in exercise.cells:
        if cell.kind == "markdown" and cell.source.startswith("# "):
            return cell.source.splitlines()[0].removeprefix("# ")
    return exercise.stem
