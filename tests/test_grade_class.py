"""A made-up class, from what lay in the inbox to results: who should have got what, and who did.

Each row of CLASS is one student: how their file was made, the points and the status of both tasks.
"""

import csv
import json
import re
import shutil
import time

import jsonschema
import pytest
from data import course, odd
from data.handed_in import GOOD_1, GOOD_2, TOP_LEFT, code, filled
from data.running import running
from nbval.kernel import CURRENT_ENV_KERNEL_NAME

from attnlearn.__main__ import main
from attnlearn.grading import notebook, release, results, run, source, workers
from attnlearn.grading.kernel import GradingKernel

pytestmark = pytest.mark.xdist_group(__name__)  # what its tests share is made once

ROOT = "tests/data/exercises"
SEED = "a secret of 2026"
LIMITS = {"cell-seconds": 3, "memory-mb": 1024, "processes": 12, "output-mb": 2, "file-mb": 1}
NO_MAXIMUM = "def softmax(x):\n    return np.exp(x) / np.exp(x).sum(-1, keepdims=True)\n"


def when_decoding(text):
    """A right answer, but for what it does in the second case of its check."""
    return GOOD_1.replace("    return", f"    if T == 1:\n        {text}\n    return")


PRINTS = 'while True:\n            print("x" * 99_999, flush=True)'
FORKS = (
    "import subprocess\n        for _ in range(30):\n"
    "            subprocess.Popen(['sleep', '99'], start_new_session=True)\n"
    "        import time; time.sleep(9)"
)
DAEMON = (
    "import subprocess\n"
    "subprocess.Popen(\"nohup sh -c 'sleep 98765 & sleep 98765' &\", shell=True,"
    " start_new_session=True)\n" + GOOD_1
)
WARNS = "import sys, warnings\n" + GOOD_2.replace(
    "    e =", "    warnings.warn('old'); print('tqdm', file=sys.stderr)\n    e ="
)
DIES_AT_FIRST = GOOD_2.replace(
    "    e =",
    "    if x.shape == (2, 4) and x.max() < 500:\n        import os; os._exit(0)\n    e =",
)
WRITES = "open('big', 'wb').write(bytes(5_000_000))"

# student: (answer of demo-1, answer of demo-2, points and status of both)
CLASS = {
    "right": (GOOD_1, GOOD_2, (4, "solved"), (2, "solved")),
    "blank": (None, None, (0, "blank"), (0, "blank")),
    "mistaken": (TOP_LEFT, NO_MAXIMUM, (0.8, "partly"), (1, "partly")),
    "syntax": ("def causal(T, S:\n", GOOD_2, (0, "stopped"), (2, "solved")),
    "dies": (when_decoding("import os; os._exit(0)"), GOOD_2, (3.2, "stopped"), (2, "solved")),
    "dies at first": (GOOD_1, DIES_AT_FIRST, (4, "solved"), (1.6667, "stopped")),
    "loops": (when_decoding("while True: pass"), GOOD_2, (1.6, "partly"), (2, "solved")),
    "loops in C": (
        when_decoding("import itertools; sum(itertools.repeat(1))"),
        GOOD_2,
        (1.6, "stopped"),
        (2, "solved"),
    ),
    "loops above": (GOOD_1 + "while True: pass\n", GOOD_2, (4, "solved"), (2, "solved")),
    "greedy": (when_decoding("[0] * 10**10"), GOOD_2, (3.2, "partly"), (2, "solved")),
    "flood": (when_decoding(PRINTS), GOOD_2, (3.2, "stopped"), (2, "solved")),
    "one big print": (
        when_decoding("print('x' * 50_000_000)"),
        GOOD_2,
        (3.2, "stopped"),
        (2, "solved"),
    ),
    "many": (when_decoding(FORKS), GOOD_2, (3.2, "stopped"), (2, "solved")),
    "big file": (when_decoding(WRITES), GOOD_2, (3.2, "partly"), (2, "solved")),
    "daemon": (DAEMON, GOOD_2, (4, "solved"), (2, "solved")),
    "warns": (GOOD_1, WARNS, (4, "solved"), (2, "solved")),
}
LOSE = {"mistake", "damage", "ends its kernel", "attack", "blank"}  # kinds of the made-up class
FORGIVEN = {  # their names, too
    "=SUM(A1),\"'": lambda data: data.decode().encode("utf-16"),
    "<b>Ana & 山田": lambda data: b"\xef\xbb\xbf" + data.replace(b'"cells"', b'"x": NaN, "cells"'),
}


def content(exercise, one, two):
    return notebook.dumps(filled(exercise, {"demo-1": one, "demo-2": two})).encode()


@pytest.fixture(scope="module")
def folder(request, tmp_path_factory):
    """The inbox, as it lies on a teacher's disk."""
    exercise = source.read(request.config.rootpath / ROOT / "solutions" / "90_demo.py")
    folder = tmp_path_factory.mktemp("course") / "inbox"
    folder.mkdir()
    for name, (one, two, *_) in CLASS.items():
        (folder / f"{name}.ipynb").write_bytes(content(exercise, one, two))
    right = content(exercise, GOOD_1, GOOD_2)
    for number, name in enumerate(odd.DAMAGE):
        data, ending = odd.damaged(name, right)
        (folder / f"{name}_{number}_assignsubmission_file_90_demo{ending}").write_bytes(data)
    for name, change in FORGIVEN.items():
        (folder / f"{name}.ipynb").write_bytes(change(right))
    (folder / "doejane_101_7001_90_demo.ipynb").write_bytes(content(exercise, TOP_LEFT, None))
    (folder / "doejane_101_7002_90_demo-1.ipynb").write_bytes(right)
    (folder / "linked.ipynb").symlink_to("right.ipynb")
    (folder / "roejan_102_7003_essay.pdf").write_bytes(b"%PDF")
    helped = filled(exercise, {"demo-1": GOOD_1.replace("causal", "helper"), "demo-2": GOOD_2})
    helped["cells"].insert(
        0, code("# EXERCISE: demo-1\ndef causal(T, S):\n    return helper(T, S)")
    )
    helped["cells"].append(code(GOOD_1.replace("causal", "helper").replace("def", "\n\ndef")))
    (folder / "helped.ipynb").write_text(notebook.dumps(helped))
    return folder


@pytest.fixture(scope="module")
def graded(request, folder):
    """{student: result} of one run of the command, and how long it took."""
    out = folder.parent / "out"
    assert main(call(request, folder, out)) == 0
    results = [json.loads(path.read_text("utf-8")) for path in (out / "results").iterdir()]
    return {result["student"]: result for result in results}


def call(request, folder, out):
    words = ["grade", str(folder), "--assignment", "90_demo", "--out", str(out), "--seed", SEED]
    words += ["--exercises", str(request.config.rootpath / ROOT)]
    words += ["--sandbox", "L0", "--allow-weak-sandbox"]
    return words + [f"--{name}={value}" for name, value in LIMITS.items()]


def task(result, id):
    return next(task for task in result["exercises"] if task["id"] == id)


CONFUSION = [
    (name, id, *row[2 + n])
    for name, row in CLASS.items()
    for n, id in enumerate(["demo-1", "demo-2"])
]


@pytest.mark.parametrize(("name", "id", "points", "status"), CONFUSION)
def test_everybody_gets_what_they_should(graded, name, id, points, status):
    got = task(graded[name], id)
    assert (got["earned"], got["status"]) == (points, status), got


@pytest.mark.parametrize("name", FORGIVEN)
def test_what_is_careless_is_forgiven(graded, name):
    assert graded[name]["score"] == graded[name]["max_score"] == 6


@pytest.mark.parametrize("name", odd.DAMAGE)
def test_what_cannot_be_read_gets_zero_and_a_reason(graded, name):
    result = graded[name]
    assert (result["score"], result["status"]) == (0, "unreadable")
    assert odd.DAMAGE[name][1] in result["trouble"]


def test_a_link_and_a_file_of_another_kind_get_a_reason(graded):
    assert "a symbolic link: hand in the file itself" in graded["linked"]["trouble"]
    assert "no notebook: hand in the .ipynb file" in graded["roejan"]["trouble"]


def test_nobody_is_missing_and_nobody_is_there_twice(graded, folder):
    with open(folder.parent / "out" / "grades.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(graded) == len(CLASS) + len(odd.DAMAGE) + len(FORGIVEN) + 4
    for row in rows:
        result = graded[row["student"].removeprefix("'")]
        assert float(row["score"]) == result["score"]
        assert not any(cell.startswith(("=", "+", "-", "@")) for cell in row.values())


def test_the_latest_of_two_files_counts_and_it_is_said(graded):
    assert graded["doejane"]["score"] == 6
    (remark,) = graded["doejane"]["findings"]
    assert "doejane_101_7002_90_demo-1.ipynb counts" in remark
    assert "not graded: doejane_101_7001_90_demo.ipynb" in remark


REASONS = {
    "dies": "the kernel died",
    "loops": "no answer within 2 s",
    "loops in C": "stopped after 3 s: a loop that never ends",
    "greedy": "raised MemoryError",
    "flood": "far too much was printed",
    "one big print": "far too much was printed",
    "many": "too many processes",
    "big file": "raised OSError",
}


@pytest.mark.parametrize("name", REASONS)
def test_the_task_says_what_happened(graded, name):
    got = task(graded[name], "demo-1")
    assert REASONS[name] in json.dumps([got["notes"], got["cases"]])


def test_every_result_keeps_the_schema(request, graded):
    path = request.config.rootpath / "attnlearn" / "grading" / "results.schema.json"
    schema = jsonschema.Draft202012Validator(json.loads(path.read_text()))
    for result in graded.values():
        schema.validate(result)
        assert result["max_score"] == 6
        assert sum(t["earned"] for t in result["exercises"]) == pytest.approx(result["score"])
        assert result["sandbox"]["level"] == "L0"
        assert any("files" in line for line in result["sandbox"]["does_not_promise"])


def test_mistakes_are_named_in_hidden_cases_and_nothing_else_is_told(graded, folder):
    got = task(graded["mistaken"], "demo-1")
    assert [mistake["name"] for mistake in got["mistakes"]] == ["top-left diagonal"]
    hidden = [case for case in got["cases"] if case["hidden"]]
    assert [case["name"] for case in hidden] == ["hidden case 1"]
    assert hidden[0] | {"says": ""} == hidden[0]
    for path in [
        *(folder.parent / "out").rglob("*.json"),
        *(folder.parent / "out").rglob("*.html"),
    ]:
        text = path.read_text("utf-8")
        assert "drawn sizes" not in text
        assert "randint" not in text
        assert SEED not in text


def test_feedback_is_readable_and_escapes_everything(graded, folder):
    feedback = folder.parent / "out" / "feedback"
    page = (feedback / f"{graded['mistaken']['key']}.html").read_text("utf-8")
    assert "Mistake: top-left diagonal</b><br>The diagonal starts at the top left" in page
    assert "1.8 of 6 points" in page
    page = (feedback / f"{graded['<b>Ana & 山田']['key']}.html").read_text("utf-8")
    assert "&lt;b&gt;Ana &amp; 山田" in page
    assert "<b>Ana" not in page
    page = (feedback / f"{graded['cut off']['key']}.html").read_text("utf-8")
    assert re.search("could not be graded: .*cut off.*save it again", page)


def test_nothing_that_was_started_is_left(graded):
    assert not running("98765")


def test_hashes_tell_the_files_apart(graded):
    hashes = {name: graded[name]["hashes"] for name in ("right", "blank")}
    assert hashes["right"]["pristine"] == hashes["blank"]["pristine"]
    assert hashes["right"]["submission"] != hashes["blank"]["submission"]


class RunsAgain:
    """A crew that grades nobody."""

    def __init__(self, jobs, packages):
        pass

    def brief(self, assignment):
        self.ready = assignment

    def __enter__(self):
        return self

    def __exit__(self, *about):
        pass

    def places(self, assignment):
        return [results.place(assignment.sandbox)]

    def results(self, works):
        for work in works:
            yield work, run.no_grade(self.ready, work, "it was to run again")


def test_a_second_run_keeps_what_still_holds(request, graded, folder, monkeypatch, tmp_path):
    monkeypatch.setattr(workers, "Crew", RunsAgain)
    shutil.copytree(folder.parent / "out", tmp_path / "out")
    path = tmp_path / "out" / "results" / f"{graded['mistaken']['key']}.json"
    before = path.read_text()
    assert main(call(request, folder, tmp_path / "out")) == 0
    assert path.read_text() == before
    path.write_text(before.replace('"status": "graded"', '"status": "ungraded"'))
    assert main(call(request, folder, tmp_path / "out")) == 1
    assert "it was to run again" in path.read_text()


def test_official_grading_refuses_a_weak_sandbox(folder, tmp_path, capsys):
    out = tmp_path / "out"
    arguments = ["grade", str(folder), "--assignment", "03_masks", "--out", str(out)]
    assert main([*arguments, "--sandbox", "L0"]) == 1
    said = capsys.readouterr().err
    assert "--allow-weak-sandbox" in said
    assert "network" in said
    assert not out.exists()


USAGE = [
    (["none.ipynb", "--assignment", "90_demo"], "none.ipynb: no such file"),
    ([".", "--assignment", "91_none"], "no exercise '91_none' in"),
    ([".", "--assignment", "90_demo", "--seed-file", "none"], "none: no file with a seed"),
]


@pytest.mark.parametrize(("arguments", "words"), USAGE)
def test_a_wrong_call_says_what_is_wrong(request, tmp_path, capsys, arguments, words):
    exercises = ["--exercises", str(request.config.rootpath / ROOT)]
    rest = ["--out", str(tmp_path / "out"), "--allow-weak-sandbox"]
    assert main(["grade", *arguments, *exercises, *rest]) == 1
    assert words in capsys.readouterr().err


ENDS = {"died": "import os; os._exit(0)", "output": "while True: print('x' * 99, flush=True)"}


@pytest.mark.parametrize("fault", ENDS)
def test_a_dead_kernel_and_a_flood_do_not_use_up_the_time(tmp_path, fault):
    kernel = GradingKernel(CURRENT_ENV_KERNEL_NAME, str(tmp_path), seconds=100)
    kernel.await_ready(60)
    start = time.monotonic()
    kernel.await_reply(kernel.execute_cell_input(ENDS[fault]))
    assert time.monotonic() - start < 50
    assert kernel.fault == fault
    assert not kernel.is_alive()
    kernel.stop()


def test_a_made_up_class_tells_right_from_wrong(request):
    """That of the experiment: who is given everything has faults where less was due."""
    exercise = source.read(request.config.rootpath / ROOT / "solutions" / "90_demo.py")
    made = list(course.Course(exercise, SEED).submissions(100))
    assert len(made) == len({own.student for own in made}) == 100
    for own in made:
        tasks = [{"id": id, "earned": t.points} for id, t in exercise.tasks.items()]
        tasks = [task | {"mistakes": [], "notes": [own.words], "cases": []} for task in tasks]
        everything = {"student": own.student, "file": own.counts, "trouble": "", "findings": []}
        everything |= {"status": "graded", "score": 6, "exercises": tasks}
        assert bool(list(course.faults(own, everything))) == (own.kind in LOSE), own.about
        assert list(course.faults(own, None))


@pytest.fixture(scope="module")
def masks(request, tmp_path_factory):
    """Chapter 3: one student gives every solution, another a mistake in each task."""
    folder = tmp_path_factory.mktemp("masks")
    exercise = source.read(request.config.rootpath / "solutions" / "03_masks.py")
    for name in ("right", "wrong"):
        content = release.exercise_notebook(exercise)
        for cell in content["cells"]:
            if cell["id"].endswith("-answer"):
                task = exercise.tasks[cell["id"].removesuffix("-answer")]
                own = task.solved if name == "right" else task.wrong[0].source
                cell["source"] = f"# EXERCISE: {task.id}\n{own}"
        notebook.write(folder / "in" / f"{name}.ipynb", notebook.dumps(content))
    arguments = ["grade", str(folder / "in"), "--assignment", "03_masks", "--allow-weak-sandbox"]
    assert main([*arguments, "--out", str(folder / "out")]) == 0
    read = (folder / "out" / "results" / f"{name}.json" for name in ("right", "wrong"))
    return exercise, [json.loads(path.read_text("utf-8")) for path in read], folder / "out"


def test_chapter_3_right_and_wrong(masks):
    exercise, (right, wrong), out = masks
    assert right["score"] == right["max_score"] == sum(t.points for t in exercise.tasks.values())
    for got in wrong["exercises"]:
        (mistake,) = got["mistakes"]
        assert (mistake["name"], mistake["sure"]) == (exercise.tasks[got["id"]].wrong[0].name, True)
        assert got["earned"] <= got["points"] / 2
    page = (out / "feedback" / "wrong.html").read_text("utf-8")
    assert "Read: A mask is a question and Combining masks in chapter 3." in page
    assert (out / "seed.txt").stat().st_mode & 0o077 == 0


def test_a_folder_is_for_one_exercise_and_what_is_left_in_it_is_named(request, tmp_path, capsys):
    (tmp_path / "out" / "results").mkdir(parents=True)
    old = tmp_path / "out" / "results" / "old.json"
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "jane.ipynb").write_text("no notebook")
    for assignment, ending, words in [
        ("03_masks", 1, "it holds results of 03_masks; give each exercise a folder of its own"),
        ("90_demo", 0, "not handed in this time, but in"),
    ]:
        old.write_text(json.dumps({"version": 1, "assignment": assignment}))
        assert main(call(request, tmp_path / "in", tmp_path / "out")) == ending
        said = capsys.readouterr()
        assert words in said.out + said.err


def test_another_seed_is_said(request, tmp_path, capsys):
    (tmp_path / "jane.ipynb").write_text("no notebook")
    words = call(request, tmp_path / "jane.ipynb", tmp_path / "out")
    for seed in (SEED, "another"):
        words[words.index("--seed") + 1] = seed
        assert main(words) == 0
        said = capsys.readouterr().out
        assert ("another seed than in the run before" in said) == (seed != SEED)
