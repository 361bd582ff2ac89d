"""Graders compared: ``python book/experiments/graders.py``.

The same submissions of three small NumPy tasks, in each grader's own format, graded one grader
after the other, several times. Then an all-wrong submission that tries to look right; a class of
500; and the same tasks where the exercise imports torch.
"""

from __future__ import annotations

import json
import re
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import record
from comparison import course, environments, processor, tools

OURS = {1: "attnlearn -j 1", 2: "attnlearn -j 2"}
GRADERS = {  # name: grader, how many at once
    "otter": (tools.Otter(), 1),
    "otter, two at once": (tools.Otter(), 2),
    "nbgrader": (tools.Nbgrader(), 1),
    "nbgrader, two at once": (tools.Nbgrader(), 2),
    "nbval": (tools.Nbval(), 1),
    OURS[1]: (tools.Attnlearn(), 1),
    OURS[2]: (tools.Attnlearn(), 2),
}
FAKED = "otter", "nbgrader", "nbval", OURS[1]
SUBMISSIONS, ROUNDS, CLASS, TORCH = 20, 3, 500, (5, 25)


def measure(quick: bool) -> tuple[tuple, dict]:
    n, rounds, many = (5, 1, 6) if quick else (SUBMISSIONS, ROUNDS, CLASS)
    installed = {name: environments.install(name) for name in environments.PINS}
    with processor.counting() as used:
        found = compare(n, rounds, used)
    fakes = {name: time_of(*GRADERS[name], [course.fake()])[2][0] for name in FAKED}
    print("an all-wrong submission scores", fakes, flush=True)
    figures = {
        "submissions": n,
        "rounds": rounds,
        "graders": found,
        "times_as_many": times_as_many(found),
        "points": course.POINTS,
        "fake": fakes,
        "class": {"submissions": many, "jobs": 2, "seconds": whole_class(many)},
        "torch_seconds": [torch_seconds(*((1, 3) if quick else TORCH)) for _ in range(rounds)],
    }
    figures["goals"] = goals(figures)
    print(json.dumps(figures["goals"], indent=1), flush=True)
    return (), {**figures, "installed": installed}


def compare(n: int, rounds: int, used: Callable) -> dict:
    """What each grader takes in each round; every other round in the opposite order."""
    submissions, expected = zip(*map(course.answers, range(n)), strict=True)
    found = {name: {"seconds": [], "processor_seconds": []} for name in GRADERS}
    for number in range(rounds):
        for name in list(GRADERS)[:: -1 if number % 2 else 1]:
            seconds, processor_seconds, scores = time_of(*GRADERS[name], submissions, used)
            if scores != list(expected):
                raise ValueError(f"{name} gave {scores}, not {list(expected)}")
            found[name]["seconds"].append(seconds)
            found[name]["processor_seconds"].append(processor_seconds)
            print(f"{number} {name}: {seconds / n:.2f} s each", flush=True)
    for times in found.values():
        times["per_minute"] = 60 * n / median(times["seconds"])
    return found


def time_of(grader, jobs: int, submissions: list[dict], used: Callable = lambda: None) -> tuple:
    """Seconds and processor seconds (or None) for grading these submissions, and the scores."""
    with tempfile.TemporaryDirectory(prefix="graders-") as folder:
        folder = Path(folder)
        grader.ready(folder, submissions)
        start, before = time.perf_counter(), used()
        grader.grade(folder, len(submissions), jobs)
        seconds, after = time.perf_counter() - start, used()
        spent = None if before is None else after - before
        return seconds, spent, grader.scores(folder, len(submissions))


def times_as_many(found: dict) -> dict:
    """How many times another's submissions a minute ours are, in each round."""
    return {
        own: {
            other: [b / a for a, b in zip(found[own]["seconds"], times["seconds"], strict=True)]
            for other, times in found.items()
            if other not in OURS.values()
        }
        for own in OURS.values()
    }


def whole_class(n: int) -> float:
    """Seconds for a class of distinct submissions, with two workers."""
    submissions, expected = zip(*map(course.answers, range(n)), strict=True)
    seconds, _, scores = time_of(tools.Attnlearn(), 2, submissions)
    if scores != list(expected):
        raise ValueError(f"wrong scores in a class of {n}")
    return seconds


def torch_seconds(few: int, more: int) -> float:
    """Seconds that one more submission takes where the exercise imports torch, in one worker.

    All of it: starting a kernel, three answers, their six cases, comparing and writing.
    """
    script = (tools.HERE / "solutions" / "compare.py").read_text()
    script = re.sub(r"^import numpy as np$", "import numpy as np\nimport torch", script, flags=re.M)
    with tempfile.TemporaryDirectory(prefix="graders-") as folder:
        (Path(folder) / "compare.py").write_text(script)
        grader = tools.Attnlearn(Path(folder))
        a, b = (time_of(grader, 1, right_answers(n))[0] for n in (few, more))
    return (b - a) / (more - few)


def right_answers(n: int) -> list[dict]:
    return [course.answers(course.KINDS * number)[0] for number in range(n)]


def goals(figures: dict) -> list[dict]:
    """What was to be reached, and what was."""
    ratios = {
        (own, other): median(each)
        for own, others in figures["times_as_many"].items()
        for other, each in others.items()
    }
    floors = [("nbgrader", 3), ("otter", 8)]
    wanted = [(OURS[1], other, least) for other, least in floors]
    wanted += [(OURS[2], f"{other}, two at once", least) for other, least in floors]
    found = [
        {
            "goal": f"{own}: at least {least} times the submissions a minute of {other}",
            "found": ratios[own, other],
            "met": ratios[own, other] >= least,
        }
        for own, other, least in wanted
    ]
    each, whole = median(figures["torch_seconds"]), figures["class"]["seconds"]
    return [
        *found,
        {"goal": "at most 0.4 s for one more, with torch", "found": each, "met": each <= 0.4},
        {
            "goal": f"{figures['class']['submissions']} submissions in 600 s, two workers",
            "found": whole,
            "met": whole <= 600,
        },
    ]


if __name__ == "__main__":
    record.main("graders", __doc__, measure)
