"""How each grader grades a folder of submissions: made ready, timed, and asked for its scores."""

from __future__ import annotations

import json
import re
import shutil
import sys
import xml.etree.ElementTree as ElementTree
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from attnlearn.grading.environment import environment

from . import course
from .environments import call, run

HERE = Path(__file__).resolve().parent


class Otter:
    """`otter run`, a process for each submission; `otter grade` would need docker."""

    def ready(self, folder: Path, submissions: list[dict]) -> None:
        course.write(folder / "source.ipynb", course.otter())
        words = ["assign", "--no-run-tests", "--no-pdfs", "source.ipynb", "dist"]
        call("otter", "otter", *words, cwd=folder)
        given = json.loads((folder / "dist" / "student" / "source.ipynb").read_text())
        for number, own in enumerate(submissions):
            content = json.loads(json.dumps(given))
            for cell in content["cells"]:
                if task := re.match(r"def (\w+)", "".join(cell["source"])):
                    cell["source"] = own[task[1]]
            place = folder / f"s{number}"
            place.mkdir()
            (place / "source.ipynb").write_text(json.dumps(content))

    def grade(self, folder: Path, n: int, jobs: int) -> None:
        (archive,) = (folder / "dist" / "autograder").glob("*.zip")

        def one(place: Path) -> None:
            words = ["run", "-a", archive, "-o", place, "--no-logo", "source.ipynb"]
            call("otter", "otter", *words, cwd=place)

        with ThreadPoolExecutor(jobs) as pool:
            list(pool.map(one, (folder / f"s{number}" for number in range(n))))

    def scores(self, folder: Path, n: int) -> list[float]:
        results = [json.loads((folder / f"s{i}" / "results.json").read_text()) for i in range(n)]
        return [sum(test.get("score", 0) for test in result["tests"]) for result in results]


class Nbgrader:
    """`nbgrader autograde`, a command for all; for two at once, a course for each half.

    It has no option for workers, and its database is one file.
    """

    def ready(self, folder: Path, submissions: list[dict]) -> None:
        course.write(folder / "all" / "source/a1/a1.ipynb", course.nbgrader(course.RIGHT))
        call("nbgrader", "nbgrader", "generate_assignment", "a1", cwd=folder / "all")
        for name in ("half0", "half1"):
            shutil.copytree(folder / "all", folder / name)
        for number, own in enumerate(submissions):
            for name in ("all", f"half{number % 2}"):
                paper = folder / name / "submitted" / f"s{number}" / "a1" / "a1.ipynb"
                course.write(paper, course.nbgrader(own))

    def grade(self, folder: Path, n: int, jobs: int) -> None:
        courses = [folder / "all"] if jobs == 1 else [folder / "half0", folder / "half1"]
        for left in {"all", "half0", "half1"} - {place.name for place in courses}:
            shutil.rmtree(folder / left)
        with ThreadPoolExecutor(jobs) as pool:
            list(
                pool.map(lambda p: call("nbgrader", "nbgrader", "autograde", "a1", cwd=p), courses)
            )

    def scores(self, folder: Path, n: int) -> list[float]:
        found = {}
        for place in folder.iterdir():
            call("nbgrader", "nbgrader", "export", "--to", "grades.csv", cwd=place)
            head, *rows = (place / "grades.csv").read_text().splitlines()
            for row in rows:
                cells = dict(zip(head.split(","), row.split(","), strict=True))
                found[cells["student_id"]] = float(cells["score"])
        return [found[f"s{number}"] for number in range(n)]


class Nbval:
    """Plain `pytest --nbval` on the files as they are: it trusts their stored outputs."""

    def ready(self, folder: Path, submissions: list[dict]) -> None:
        for number, own in enumerate(submissions):
            course.write(folder / f"s{number}.ipynb", course.nbval(own))

    def grade(self, folder: Path, n: int, jobs: int) -> None:
        words = ["--nbval", "-q", "-p", "no:cacheprovider", "--junitxml=report.xml", "."]
        call("nbval", "pytest", *words, cwd=folder, check=False)  # it fails where an answer does

    def scores(self, folder: Path, n: int) -> list[float]:
        """The check cells that passed: all cells but the import and the answers."""
        passed = Counter()
        for case in ElementTree.parse(folder / "report.xml").iter("testcase"):
            number, cell = case.get("classname").split(".")[-2], case.get("name")
            passed[number] += not len(case) and int(cell.split()[-1]) > len(course.CHECKS)
        return [passed[f"s{number}"] for number in range(n)]


class Attnlearn:
    """`attnlearn grade`, in the strongest sandbox that there is here."""

    def __init__(self, exercises: Path = HERE):
        self.exercises = exercises

    def ready(self, folder: Path, submissions: list[dict]) -> None:
        for number, own in enumerate(submissions):
            course.write(folder / "in" / f"s{number:03}.ipynb", course.ours(own))

    def grade(self, folder: Path, n: int, jobs: int) -> None:
        words = ["grade", "in", "--assignment", "compare", "--out", "out", "-j", str(jobs)]
        words += ["--exercises", str(self.exercises), "--seed", "the same", "--allow-weak-sandbox"]
        run([sys.executable, "-m", "attnlearn", *words], cwd=folder, env=environment())

    def results(self, folder: Path) -> list[dict]:
        paths = sorted((folder / "out" / "results").glob("*.json"))
        return [json.loads(path.read_text()) for path in paths]

    def scores(self, folder: Path, n: int) -> list[float]:
        return [result["score"] for result in self.results(folder)]
