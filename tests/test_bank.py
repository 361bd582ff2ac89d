"""Every exercise is tested by its own bank of answers: in this process, and in real kernels."""

import itertools
import json
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from attnlearn.grading import audit, mutants, notebook, release, source
from attnlearn.grading.selfcheck import plugin_option

ROOT = Path(__file__).parents[1]
EXERCISES = [source.read(path) for path in sorted((ROOT / "solutions").glob("[0-9]*.py"))]
TASKS = [pytest.param(e, task, id=task.id) for e in EXERCISES for task in e.tasks.values()]
KILLED = 0.95  # of the mutants that change any value


def test_there_are_exercises_and_their_ids_are_unique():
    ids = [id for exercise in EXERCISES for id in exercise.tasks]
    assert ids
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize(("exercise", "task"), TASKS)
def test_blank_fails_right_answers_pass_and_each_mistake_gets_its_hint(exercise, task):
    assert audit.audit_task(exercise, task) == []


@pytest.mark.parametrize("exercise", [pytest.param(e, id=e.stem) for e in EXERCISES])
def test_a_set_is_not_too_long(exercise):
    assert sum(task.minutes for task in exercise.tasks.values()) <= audit.LONGEST


@pytest.mark.parametrize(("exercise", "task"), TASKS)
def test_mechanical_mutants_fail(exercise, task):
    tried = mutants.trial(exercise, task)
    count = mutants.count(tried)
    survivors = [mutant.what for mutant in tried if mutant.fate == "survived"]
    assert count["changed"] > 0
    assert count["killed"] >= KILLED * count["changed"], survivors
    path = release.Project(ROOT).targets(exercise.stem)["table"]
    published = json.loads(path.read_text("utf-8"))["tasks"][task.id]["mutants"]
    assert published == count, f"{path}: stale, run `make release`"


def answers(task):
    """(kind, cell source, words that its report must hold or None) of the whole bank of a task."""
    for wrong in task.wrong:
        yield f"wrong: {wrong.name}", wrong.source, f"Mistake: {wrong.name}\n"
    for right in task.right:
        yield f"right: {right.name}", right.source, None


def hand_in(exercise, folder):
    """Notebook number k holds the k-th answer of each task; {(notebook, task): (kind, words)}."""
    expected = {}
    banks = itertools.zip_longest(*(answers(task) for task in exercise.tasks.values()))
    for k, row in enumerate(banks):
        content = release.exercise_notebook(exercise)
        cells = {cell["id"]: cell for cell in content["cells"]}
        for task, answer in zip(exercise.tasks, row, strict=True):
            kind, text, words = answer or ("blank", None, "not answered yet")
            if text is not None:
                cells[f"{task}-answer"]["source"] = f"# EXERCISE: {task}\n{text}".splitlines(True)
            expected[f"answers {k:02d}", task] = kind, words
        notebook.write(folder / f"answers {k:02d}.ipynb", notebook.dumps(content))
    for task in exercise.tasks:
        expected["blank", task] = "blank", "not answered yet"
        expected["solved", task] = "solved", None
    targets = release.Project(ROOT).targets(exercise.stem)
    (folder / "blank.ipynb").write_bytes(targets["exercise"].read_bytes())
    (folder / "solved.ipynb").write_bytes(targets["solved"].read_bytes())
    return expected


@pytest.mark.parametrize("exercise", [pytest.param(e, id=e.stem) for e in EXERCISES])
def test_the_whole_bank_through_real_kernels(exercise, tmp_path):
    expected = hand_in(exercise, tmp_path)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "--nbval",
        "--junitxml=out.xml",
        "-q",
        *plugin_option(),
    ]
    done = subprocess.run(
        [*command, "."], cwd=tmp_path, capture_output=True, text=True, timeout=600
    )
    found = {}
    for item in ElementTree.parse(tmp_path / "out.xml").iter("testcase"):
        failure = item.find("failure")
        name = item.get("classname").removesuffix(".ipynb"), item.get("name")
        found[name] = None if failure is None else failure.text
    assert found.keys() == expected.keys(), done.stdout[-2000:]
    surprises = [
        (place, kind, found[place])
        for place, (kind, words) in expected.items()
        if (found[place] is not None if words is None else words not in (found[place] or ""))
    ]
    assert not surprises
