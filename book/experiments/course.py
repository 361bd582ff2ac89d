"""Who should have got what, and who did: ``python book/experiments/course.py``.

A made-up class of 200 hands in the exercise on masks: right answers, blank ones, each named
mistake, each kind of damage, answers that end their kernel, attacks. What is due to them is
computed without a kernel. The real command grades them; any difference fails.
"""

from __future__ import annotations

import csv
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import record

from attnlearn.grading import source
from attnlearn.grading.environment import environment

sys.path.insert(0, str(record.ROOT / "tests"))
from data import course

STEM, SEED, STUDENTS = "03_masks", "a seed for a made-up class", 200
QUICK = 14  # every which one of them
LIMITS = {"cell-seconds": 20, "case-seconds": 5}


def measure(quick: bool) -> tuple[tuple, dict]:
    figures = confusion(QUICK if quick else 1)
    print("\n".join(figures["wrong_cells"]) or "no wrong cell", flush=True)
    if figures["wrong_cells"]:
        sys.exit(f"{len(figures['wrong_cells'])} wrong cells")
    return (SEED,), figures


def confusion(step: int = 1, *options: str) -> dict:
    """Grade every ``step``-th of the class by the command, and compare."""
    exercise = source.read(record.ROOT / "solutions" / f"{STEM}.py")
    made = list(course.Course(exercise, SEED).submissions(STUDENTS))[::step]
    with tempfile.TemporaryDirectory(prefix="course-") as folder:
        inbox, out = Path(folder, "in"), Path(folder, "out")
        course.write(made, inbox)
        start = time.perf_counter()
        grade(inbox, out, *options)
        seconds = time.perf_counter() - start
        read = (json.loads(path.read_text("utf-8")) for path in (out / "results").glob("*.json"))
        results = {result["student"]: result for result in read}
        unsafe = list(formulas(out / "grades.csv", len(made)))
    graded = [(own, results.get(own.student)) for own in made]
    return {
        "assignment": STEM,
        "students": len(made),
        "kinds": kinds(graded),
        "wrong_cells": [fault for own, got in graded for fault in course.faults(own, got)] + unsafe,
        "cells": sum(cells(own) for own in made),
        "sandbox": next(iter(results.values()))["sandbox"]["level"],
        "seconds": seconds,
        "per_minute": 60 * len(made) / seconds,
    }


def grade(inbox: Path, out: Path, *options: str) -> None:
    words = ["grade", inbox, "--assignment", STEM, "--out", out, "--seed", SEED]
    words += ["--exercises", record.ROOT, *(f"--{name}={most}" for name, most in LIMITS.items())]
    command = [sys.executable, "-m", "attnlearn", *map(str, words), *options]
    done = subprocess.run(command, env=environment())
    if done.returncode:
        sys.exit("the command failed")


def formulas(path: Path, students: int):
    """What is wrong with the table of grades: a row too few, a cell that a program would run."""
    with open(path, encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))[1:]
    if len(rows) != students:
        yield f"{path.name}: {len(rows)} rows for {students} students"
    for row in rows:
        if any(cell.startswith(("=", "+", "-", "@")) for cell in row):
            yield f"{path.name}: a formula in {row}"


def cells(own: course.Submission) -> int:
    return max(1, len(own.points))


def kinds(graded) -> dict:
    """{kind: how many, the points that were due, those that were given, and right cells}."""
    found = {}
    for own, got in graded:
        row = found.setdefault(own.kind, Counter())
        row["students"] += 1
        row["points_due"] += sum(own.points.values())
        row["points_given"] += sum(
            task["earned"] for task in (got or {}).get("exercises", []) if task["id"] in own.points
        )
        row["right_cells"] += cells(own) - len(list(course.faults(own, got)))
        row["cells"] += cells(own)
    return {kind: dict(row) for kind, row in found.items()}


if __name__ == "__main__":
    record.main("course", __doc__, measure)
