"""Graders compared: ``python book/experiments/graders.py``.

The same submissions of three small NumPy tasks, in each grader's own format, graded one grader
after the other, several times, in environments of their own (made once, in a cache folder). Then
an all-wrong submission that tries to look right; a class of 500; and a task that imports torch.
"""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import venv
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median

import record
from comparison import course

from attnlearn.grading.kernel import environment

HERE = Path(__file__).resolve().parent
CACHE = Path.home() / ".cache" / "attnlearn-graders"
PINS = {"nbgrader": "nbgrader==0.9.6", "otter": "otter-grader==7.0.0"}
ALSO = ["numpy==2.4.6", "ipykernel==7.4.0"]
SUBMISSIONS, ROUNDS, CLASS, TORCH = 20, 3, 500, (5, 25)
TOOLS = (
    *("otter", "otter, two at once", "nbgrader", "nbgrader, two at once", "nbval"),
    *("attnlearn -j 1", "attnlearn -j 2"),
)


def measure(quick: bool) -> tuple[tuple, dict]:
    n, rounds, many = (3, 1, 6) if quick else (SUBMISSIONS, ROUNDS, CLASS)
    versions = {name: install(name) for name in PINS}
    found = {name: {"seconds": [], "cpu_seconds": []} for name in TOOLS}
    for number in range(rounds):
        for name in TOOLS if number % 2 == 0 else reversed(TOOLS):
            seconds, cpu, scores = run(name, [course.answers(i)[0] for i in range(n)])
            expected = [course.answers(i)[1] for i in range(n)]
            assert name == "nbval" or scores == expected, (name, scores, expected)
            found[name]["seconds"].append(seconds)
            found[name]["cpu_seconds"].append(cpu)
            print(number, name, round(seconds / n, 2), "s each", flush=True)
    for times in found.values():
        times["per_minute"] = 60 * n / median(times["seconds"])
    figures = {
        "submissions": n,
        "rounds": rounds,
        "graders": found,
        "times_as_many": ratios(found),
        "versions": versions,
        "fake": {name: run(name, [course.fake()])[2][0] for name in TOOLS if name in FAKED},
        "of": 6,
        "class": {"submissions": many, "seconds": whole_class(many)},
        "torch_seconds": torch_seconds((1, 3) if quick else TORCH),
    }
    print(json.dumps({k: v for k, v in figures.items() if k != "graders"}, indent=1), flush=True)
    return (), figures


FAKED = ("otter", "nbgrader", "attnlearn -j 1")


def ratios(found: dict) -> dict:
    """How many times as many submissions a minute we grade, in each round."""
    ours = {name: times["seconds"] for name, times in found.items() if "attnlearn" in name}
    return {
        f"{name} / {other}": [b / a for a, b in zip(own, found[other]["seconds"], strict=True)]
        for name, own in ours.items()
        for other in found
        if "attnlearn" not in other
    }


def install(name: str) -> str:
    """An environment of its own for another grader; returns what was installed."""
    python = CACHE / name / "bin" / "python"
    if not python.exists():
        venv.create(CACHE / name, with_pip=True)
        pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, PINS[name], *ALSO], check=True)
    listed = subprocess.run([python, "-m", "pip", "list", "--format=freeze"], **CAPTURE)
    return " ".join(line for line in listed.stdout.split() if "==" in line)


def run(name: str, submissions: list[dict]) -> tuple[float, float, list]:
    """Seconds, processor seconds and scores of one grader on these submissions."""
    tool, prepare = {
        "otte": (otter, otter_folder),
        "nbgr": (nbgrader, nbgrader_folder),
        "nbva": (nbval, nbval_folder),
        "attn": (attnlearn, attnlearn_folder),
    }[name[:4]]
    with tempfile.TemporaryDirectory(prefix="graders-") as folder:
        folder = Path(folder)
        prepare(folder, submissions)
        before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        read_scores = tool(folder, len(submissions), 2 if "two" in name or "2" in name else 1)
        seconds = time.perf_counter() - start
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        scores = read_scores()
    used = sum(getattr(after, t) - getattr(before, t) for t in ("ru_utime", "ru_stime"))
    return seconds, used, scores


CAPTURE = {"capture_output": True, "text": True, "check": True}


def call(*words, cwd: Path, tries_hard: bool = True) -> str:
    path = os.pathsep.join([str(Path(words[0]).parent), os.environ["PATH"]])
    options = {**CAPTURE, "check": tries_hard, "cwd": cwd, "env": {**os.environ, "PATH": path}}
    return subprocess.run(list(map(str, words)), **options).stdout


def otter_folder(folder: Path, submissions: list[dict]) -> None:
    course.write(folder / "source.ipynb", course.otter())
    tool = CACHE / "otter" / "bin" / "otter"
    call(tool, "assign", "--no-run-tests", "--no-pdfs", "source.ipynb", "dist", cwd=folder)
    given = json.loads((folder / "dist" / "student" / "source.ipynb").read_text())
    for number, own in enumerate(submissions):
        content = json.loads(json.dumps(given))
        for cell in content["cells"]:
            if task := re.match(r"def (\w+)", "".join(cell["source"])):
                cell["source"] = own[task[1]]
        place = folder / f"s{number}"
        place.mkdir()
        (place / "source.ipynb").write_text(json.dumps(content))


def otter(folder: Path, n: int, jobs: int):
    tool = CACHE / "otter" / "bin" / "otter"
    (archive,) = (folder / "dist" / "autograder").glob("*.zip")

    def one(number: int) -> None:
        place = folder / f"s{number}"
        call(tool, "run", "-a", archive, "-o", place, "--no-logo", "source.ipynb", cwd=place)

    with ThreadPoolExecutor(jobs) as pool:
        list(pool.map(one, range(n)))

    def scores() -> list[float]:
        results = (json.loads((folder / f"s{i}" / "results.json").read_text()) for i in range(n))
        return [sum(test.get("score", 0) for test in result["tests"]) for result in results]

    return scores


def nbgrader_folder(folder: Path, submissions: list[dict]) -> None:
    for half in range(2):
        base = folder / f"course{half}"
        course.write(base / "source" / "a1" / "a1.ipynb", course.nbgrader(course.RIGHT))
        call(CACHE / "nbgrader" / "bin" / "nbgrader", "generate_assignment", "a1", cwd=base)
    for number, own in enumerate(submissions):
        for base in (folder / "course0", folder / f"half{number % 2}"):
            course.write(
                base / "submitted" / f"s{number}" / "a1" / "a1.ipynb", course.nbgrader(own)
            )


def nbgrader(folder: Path, n: int, jobs: int):
    tool = CACHE / "nbgrader" / "bin" / "nbgrader"
    bases = [folder / "course0"]
    if jobs == 2:  # a course for each half of the class: its database is one file
        for half in range(2):
            shutil.rmtree(folder / f"course{half}" / "submitted", ignore_errors=True)
            shutil.move(folder / f"half{half}" / "submitted", folder / f"course{half}")
        bases.append(folder / "course1")
    with ThreadPoolExecutor(jobs) as pool:
        list(pool.map(lambda base: call(tool, "autograde", "a1", cwd=base), bases))

    def scores() -> list[float]:
        found = {}
        for base in bases:
            call(tool, "export", "--to", "grades.csv", cwd=base)
            head, *rows = (base / "grades.csv").read_text().splitlines()
            at = {name: n for n, name in enumerate(head.split(","))}
            for row in rows:
                cells = row.split(",")
                found[cells[at["student_id"]]] = float(cells[at["score"]])
        return [found[f"s{number}"] for number in range(n)]

    return scores


def nbval_folder(folder: Path, submissions: list[dict]) -> None:
    for number, own in enumerate(submissions):
        course.write(folder / f"s{number}.ipynb", course.nbval(own))


def nbval(folder: Path, n: int, jobs: int):
    words = ["-m", "pytest", "--nbval", "-q", "-p", "no:attnlearn", "-p", "no:cacheprovider", "."]
    call(sys.executable, *words, cwd=folder, tries_hard=False)
    return lambda: [None] * n


def attnlearn_folder(folder: Path, submissions: list[dict]) -> None:
    for number, own in enumerate(submissions):
        course.write(folder / "in" / f"s{number:03}.ipynb", course.ours(own))


def attnlearn(folder: Path, n: int, jobs: int, exercises: Path = HERE / "comparison"):
    words = ["-m", "attnlearn", "grade", folder / "in", "--assignment", "compare", "-j", jobs]
    words += ["--exercises", exercises, "--out", folder / "out", "--seed", "the same"]
    command = list(map(str, [sys.executable, *words, "--allow-weak-sandbox"]))
    subprocess.run(command, cwd=folder, env=environment(), **CAPTURE)

    def scores() -> list[float]:
        results = sorted((folder / "out" / "results").glob("*.json"))
        return [json.loads(path.read_text())["score"] for path in results]

    return scores


def whole_class(n: int) -> float:
    """Seconds for a class of distinct submissions, with two workers."""
    return run("attnlearn -j 2", [course.answers(number)[0] for number in range(n)])[0]


def torch_seconds(sizes: tuple[int, int]) -> float:
    """Seconds that one more submission takes where the exercise imports torch, in one worker.

    All of it: starting a kernel, the three answers and their six cases, comparing, writing.
    """
    few, more = sizes
    script = (HERE / "comparison" / "solutions" / "compare.py").read_text()
    script = re.sub(r"^import numpy as np$", "import numpy as np\nimport torch", script, flags=re.M)
    times = []
    for n in sizes:
        with tempfile.TemporaryDirectory(prefix="graders-") as folder:
            folder = Path(folder)
            (folder / "compare.py").write_text(script)
            attnlearn_folder(folder, [course.answers(5 * i)[0] for i in range(n)])
            start = time.perf_counter()
            attnlearn(folder, n, 1, folder)
            times.append(time.perf_counter() - start)
    return (times[1] - times[0]) / (more - few)


if __name__ == "__main__":
    record.main("graders", __doc__, measure)
