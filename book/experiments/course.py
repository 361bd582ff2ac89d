"""Who should have got what, and who did: ``python book/experiments/course.py``.

A made-up class of 200 hands in the exercise on masks: right answers, blank ones, each named
mistake, each kind of damage, answers that end their kernel, attacks. What they should get is
computed without a kernel. The real command grades them; any difference fails.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import record

from attnlearn.exercise import diagnose
from attnlearn.grading import bank, notebook, release, source
from attnlearn.grading.kernel import environment

STEM, SEED, STUDENTS = "03_masks", "a seed for a made-up class", 200
FIRST = "masks-1"  # the task in which a kernel ends or an attack is tried
DAMAGE = {
    "empty": lambda data: b"",
    "cut off": lambda data: data[: len(data) // 2],
    "merge conflict": lambda data: b"<<<<<<< HEAD\n" + data,
    "old format": lambda data: b'{"nbformat": 3, "worksheets": []}',
    "a picture": lambda data: b"\x89PNG\r\n\x1a\n\0\xff",
    "deep": lambda data: b"[" * 100_000,
    "binary zeros": lambda data: bytes(5000),
    "not a notebook": lambda data: b'{"a": 1}',
}
CARELESS = {
    "UTF-16": lambda data: data.decode().encode("utf-16"),
    "byte order mark": lambda data: b"\xef\xbb\xbf" + data,
    "Windows lines": lambda data: data.replace(b"\n", b"\r\n"),
    "outputs that lie": lambda data: data.replace(
        b'"outputs": []', b'"outputs": [{"output_type": "stream", "name": "stdout", "text": "ok"}]'
    ),
}
# NAME is the function that the first task asks for; the answer itself is wrong or never ends.
ENDS = {
    "dies": "def NAME(*a, **k):\n    import os\n    os._exit(0)\n",
    "loops": "def NAME(*a, **k):\n    while True:\n        pass\n",
    "floods": "def NAME(*a, **k):\n    while True:\n        print('x' * 9999, flush=True)\n",
    "takes memory": "def NAME(*a, **k):\n    return [0] * 10**11\n",
    "syntax": "def NAME(:\n",
    "exit": "def NAME(*a, **k):\n    exit()\n",
}
WRONG = "def NAME(*a, **k):\n    return -1\n"
ATTACKS = {
    "all is close": WRONG + "np.allclose = np.array_equal = lambda *a, **k: True\n",
    "no traceback": WRONG + "get_ipython().showtraceback = lambda *a, **k: None\n1 / 0\n",
    "prints passed": WRONG + "import os\nprint('PASSED')\nos.write(1, b'4 of 4 points')\n",
    "skipped": "# NBVAL_SKIP\n" + WRONG,
    "equal to anything": "class Same:\n    __eq__ = lambda self, other: True\n"
    "    __array__ = lambda self, *a, **k: np.zeros(1)\ndef NAME(*a, **k):\n    return Same()\n",
    "asks for the table": "from attnlearn.exercise import tables\ndef NAME(*a, **k):\n"
    "    return tables.find('FIRST')['cases'][0]['value']\n",
    "reads the solution": "import pathlib\ndef NAME(*a, **k):\n"
    "    for path in pathlib.Path('/').rglob('03_masks.py'):\n"
    "        exec(path.read_text().split('# BEGIN SOLUTION')[1].split('# END')[0])\n",
    "kills whom it can": WRONG + "import os, signal\nfor pid in [os.getppid(), *range(2, 9999)]:\n"
    "    try:\n        os.kill(pid, signal.SIGKILL)\n    except OSError:\n        pass\n",
}


@dataclass
class Submission:
    kind: str
    about: str
    data: bytes
    points: dict = field(default_factory=dict)  # task: points; empty: unreadable
    mistakes: dict = field(default_factory=dict)  # task: the name that must be told


def measure(quick: bool) -> tuple[tuple, dict]:
    exercise = source.read(record.ROOT / "solutions" / f"{STEM}.py")
    made = list(submissions(exercise))
    made = made[::12] if quick else made
    with tempfile.TemporaryDirectory(prefix="course-") as folder:
        folder = Path(folder)
        (folder / "in").mkdir()
        for number, own in enumerate(made):
            (folder / "in" / f"s{number:03}.ipynb").write_bytes(own.data)
        start = time.perf_counter()
        graded(folder)
        seconds = time.perf_counter() - start
        paths = [folder / "out" / "results" / f"s{n:03}.json" for n in range(len(made))]
        results = [json.loads(path.read_text("utf-8")) for path in paths]
    wrong = [fault for own, got in zip(made, results, strict=True) for fault in faults(own, got)]
    print("\n".join(wrong) or "no wrong cell", flush=True)
    figures = {
        "assignment": STEM,
        "students": len(made),
        "kinds": kinds(made, results),
        "wrong_cells": wrong,
        "cells": sum(max(1, len(own.points)) for own in made),
        "sandbox": results[0]["sandbox"]["level"],
        "seconds": seconds,
        "per_minute": 60 * len(made) / seconds,
    }
    if wrong:
        sys.exit(f"{len(wrong)} wrong cells")
    return (SEED,), figures


def submissions(exercise):
    """The class: first one of everything, then right and blank ones until it is full."""
    tasks = exercise.tasks
    solved = {id: task.solved for id, task in tasks.items()}
    full = {id: task.points for id, task in tasks.items()}
    name = next(iter(bank.make_table(exercise, tasks[FIRST])["defines"]))
    count = 0

    def content(answers):
        nonlocal count
        count += 1
        return notebook.dumps(filled(exercise, answers, f"# {count}")).encode()

    for id, task in tasks.items():
        for cell in task.right:
            yield Submission("right", "another way", content({**solved, id: cell.source}), full)
        for cell in task.wrong:
            data = content({**solved, id: cell.source})
            points = {**full, id: kept(exercise, task, cell.source)}
            yield Submission("mistake", cell.name, data, points, {id: cell.name})
    for kind, change in DAMAGE.items():
        yield Submission("damage", kind, change(content(solved)))
    for kind, change in CARELESS.items():
        yield Submission("careless", kind, change(content(solved)), full)
    for kind, answers in (("ends its kernel", ENDS), ("attack", ATTACKS)):
        due = {FIRST: 0} if kind == "attack" else {**full, FIRST: 0}  # it may harm its own tasks
        for about, code in answers.items():
            code = code.replace("NAME", name).replace("FIRST", FIRST)
            yield Submission(kind, about, content({**solved, FIRST: code}), due)
    for _ in range(10):
        yield Submission("blank", "the scaffold", content({}), dict.fromkeys(full, 0))
    while count < STUDENTS:
        yield Submission("right", "the solution", content(solved), full)


def filled(exercise, answers, note):
    """An exercise's notebook with these answers, unlike any other by a note."""
    content = release.exercise_notebook(exercise)
    for cell in content["cells"]:
        if cell["id"].endswith("-answer"):
            task = cell["id"].removesuffix("-answer")
            own = answers.get(task)
            cell["source"] = f"# EXERCISE: {task}\n{own}" if own else cell["source"]
    content["cells"].append(notebook.code_cell("note", note, {}))
    return content


def kept(exercise, task, answer):
    """The points of an answer: the weight of the cases in which it agrees with the solution."""
    options = {"seed": SEED, "hidden": True}
    table = bank.make_table(exercise, task, **options)
    values = bank.values(bank.run(exercise, task, answer, **options))
    failing = diagnose.failing(values, table)
    weights = {case["name"]: case["weight"] for case in table["cases"]}
    good = sum(weight for name, weight in weights.items() if name not in failing)
    return round(task.points * good / sum(weights.values()), 4)


def graded(folder):
    words = ["grade", folder / "in", "--assignment", STEM, "--out", folder / "out"]
    words += ["--seed", SEED, "--exercises", record.ROOT, "--cell-seconds", 20]
    command = [sys.executable, "-m", "attnlearn", *words, "--case-seconds", 5]
    done = subprocess.run(list(map(str, command)), env=environment())
    assert done.returncode == 0, "the command failed"


def faults(own, got):
    """What a student should have got and did not."""
    where = f"{own.kind}, {own.about}"
    if not own.points:
        if (got["status"], got["score"]) != ("unreadable", 0) or not got["trouble"]:
            yield f"{where}: should be unreadable, is {got['status']}"
        return
    for task in got["exercises"]:
        wanted = own.points.get(task["id"], task["earned"])
        if abs(task["earned"] - wanted) > 0.001:
            yield f"{where}: {task['id']} should get {wanted:g}, got {task['earned']:g}"
        named = own.mistakes.get(task["id"])
        if named and named not in [mistake["name"] for mistake in task["mistakes"]]:
            yield f"{where}: {task['id']} does not name the mistake: {task['mistakes']}"


def kinds(made, results):
    """{kind: how many, how many tasks they should have solved, and how many they did}."""
    found = {}
    for own, got in zip(made, results, strict=True):
        row = found.setdefault(own.kind, Counter())
        row["students"] += 1
        row["points_due"] += sum(own.points.values())
        row["points_given"] += sum(
            task["earned"] for task in got["exercises"] if task["id"] in own.points
        )
        row["right_cells"] += max(1, len(own.points)) - len(list(faults(own, got)))
        row["cells"] += max(1, len(own.points))
    return {kind: dict(row) for kind, row in found.items()}


if __name__ == "__main__":
    record.main("course", __doc__, measure)
