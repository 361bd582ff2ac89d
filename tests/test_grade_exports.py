"""Exports for platforms: who is matched, what is left empty, and names that break tables."""

import base64
import csv
import io
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from xml.etree import ElementTree

import pytest
import yaml
from data.handed_in import GOOD_1, GOOD_2, filled

from attnlearn.__main__ import main
from attnlearn.grading import notebook, source, workers
from attnlearn.grading.exports import (
    bundle,
    canvas,
    classroom,
    gradescope,
    junit,
    moodle,
    roster,
    stored,
    workflow,
)
from attnlearn.grading.isolation import sandbox

pytestmark = pytest.mark.xdist_group(__name__)  # what its tests share is made once

ODD = ['O\'Neil, "Al"', "=SUM(A1)", "山田 太郎", "a\u202eb", "Zoë <b>"]


def result(student, id="", score=2.5, status="graded", trouble=""):
    """As the grader writes them: one task with a visible and a hidden case."""
    mistake = {"mistake": "strict", "hint": "A query may look at itself."}
    wrong = {"passed": False, "weight": 1, **mistake}
    visible = {**wrong, "name": "square", "hidden": False, "says": "differs at [0, 0] <x>"}
    hidden = {**wrong, "name": "hidden case 1", "hidden": True, "says": ""}
    task = {
        "id": "demo-1",
        "points": 1234.0,
        "earned": score,
        "status": "partly",
        "mistakes": [{"name": "strict", "hint": "A query may look at itself.", "sure": True}],
        "notes": [],
        "cases": [visible, hidden],
    }
    return {
        **{"version": 1, "assignment": "90_demo", "student": student, "student_id": id},
        **{"key": student, "file": f"{student}.ipynb", "status": status, "trouble": trouble},
        **{"score": score, "max_score": 1234.0, "exercises": [task], "findings": []},
        **{"sandbox": {"level": "L3"}, "hashes": {}},
    }


def rows(text, delimiter=","):
    return list(csv.DictReader(io.StringIO(text), delimiter=delimiter))


@pytest.fixture
def grades(tmp_path):
    """What Canvas exports: a row of points, students, its test student."""
    path = tmp_path / "grades.csv"
    lines = [
        ["Student", "ID", "SIS Login ID", "Section", "Essay (7)", "Final Score"],
        ["    Points Possible", "", "", "", "10", "(read only)"],
        ["Doe, Jane", "101", "jdoe", "A", "9", "90"],
        ["Roe, Jan", "102", "jroe", "A", "", ""],
        ["Roe, Jan", "103", "jroe2", "B", "", ""],
        [ODD[0], "104", "al", "A", "", ""],
        ["Student, Test", "105", "x", "A", "", ""],
    ]
    with open(path, "w", encoding="utf-8-sig", newline="") as file:
        csv.writer(file).writerows(lines)
    return path


def test_canvas_gets_each_grade_in_its_own_row(grades):
    handed_in = [result("doejane", "101"), result("O'Neil Al", "104", 1234.0), result("x y")]
    text, remarks = canvas.table(handed_in, grades, "Masks (55)")
    table = rows(text)
    assert list(table[0]) == ["Student", "ID", "SIS Login ID", "Section", "Masks (55)"]
    assert [row["Masks (55)"] for row in table] == ["1234", "2.5", "", "", "1234", ""]
    assert table[4]["Student"] == ODD[0]
    assert remarks == ["x y (x y.ipynb): not in the roster; left out"]


def test_names_are_matched_only_where_one_student_has_them(grades):
    text, remarks = canvas.table([result("roejan"), result("Jane Doe")], grades)
    assert [row["90_demo"] for row in rows(text)] == ["1234", "2.5", "", "", "", ""]
    assert remarks == ["roejan (roejan.ipynb): more than one in the roster; left out"]


def test_a_number_of_the_platform_is_never_replaced_by_a_name(grades):
    text, remarks = canvas.table([result("doejane", "999")], grades)
    assert [row["90_demo"] for row in rows(text)] == ["1234", "", "", "", "", ""]
    assert len(remarks) == 1


def test_two_results_for_one_row_are_told(grades):
    _, remarks = canvas.table([result("doejane", "101"), result("jdoe")], grades)
    assert "a second result for one row" in remarks[0]


def test_no_grade_stays_empty_and_a_zero_is_written(grades):
    done = [result("doejane", "101", 0.0, "unreadable", "cut off")]
    done.append(result("Al O'Neil", "104", 0.0, "ungraded"))
    text, remarks = canvas.table(done, grades)
    assert [row["90_demo"] for row in rows(text)] == ["1234", "0", "", "", "", ""]
    assert remarks == ["Al O'Neil: not graded yet; left empty"]


SHEET = (
    "Identifier;Full name;Email address;Status;Grade;Maximum Grade;Feedback comments\r\n"
    "Participant 101;Jane Doe;jane@example.org;Submitted;;{most};\r\n"
    "Participant 102;=SUM(A1);x@example.org;Submitted;3,5;{most};old words\r\n"
)


def test_moodle_gets_grades_and_comments_and_keeps_the_rest(tmp_path):
    path = tmp_path / "sheet.csv"
    path.write_text(SHEET.format(most="1234,00"), "utf-8-sig")
    text, remarks = moodle.table([result("Jane Doe", "101")], path)
    first, second = rows(text, ";")
    assert (first["Grade"], second["Grade"]) == ("2.5", "3,5")
    assert first["Feedback comments"] == (
        "demo-1: 2.5 of 1234. strict: A query may look at itself."
    )
    assert second["Feedback comments"] == "old words"
    assert second["Full name"] == "=SUM(A1)"
    assert remarks == []


def test_moodle_is_told_of_another_maximum(tmp_path):
    path = tmp_path / "sheet.csv"
    path.write_text(SHEET.format(most="100.00"), "utf-8")
    _, remarks = moodle.table([result("Jane Doe", "101")], path)
    assert "Moodle's maximum is 100.00, that of the exercise 1234" in remarks[0]


def test_moodle_comments_are_escaped():
    told = moodle.comment(result("x", trouble="<script>\nalert(1)"))
    assert told.startswith("&lt;script&gt; alert(1)<br>")


@pytest.mark.parametrize("name", [*ODD, "bell\x07\x00"])
def test_junit_can_be_read_whatever_the_name(name):
    root = ElementTree.fromstring(junit.xml([result(name)]))
    (suite,) = root
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("2", "2", "0")
    failures = [failure.get("message") for failure in suite.iter("failure")]
    assert failures == ["strict: A query may look at itself."] * 2


def test_junit_calls_what_was_not_graded_an_error():
    (suite,) = ElementTree.fromstring(junit.xml([result("x", status="unreadable", trouble="cut")]))
    assert [error.get("message") for error in suite.iter("error")] == ["cut", "cut"]


def test_gradescope_shows_tasks_and_hides_what_was_printed():
    document = json.loads(gradescope.text(result("x")))
    assert (document["score"], document["stdout_visibility"]) == (2.5, "hidden")
    (test,) = document["tests"]
    assert (test["score"], test["max_score"], test["status"]) == (2.5, 1234, "failed")
    assert "wrong: square: differs at [0, 0] <x>" in test["output"]
    assert "wrong: hidden case 1\n" in test["output"]
    assert "Mistake: strict. A query may look at itself." in test["output"]


def test_gradescope_gets_no_score_where_there_is_no_grade():
    document = gradescope.document(result("x", status="ungraded"))
    assert "score" not in document
    assert "no grade" in document["output"]


def test_classroom_gets_one_line_that_no_text_can_break():
    line = classroom.output(result("x", trouble="a\n::set-output name=x::1"))
    assert line.startswith("result=")
    assert line.count("\n") == 1
    document = json.loads(base64.b64decode(line.removeprefix("result=")))
    assert (document["status"], document["max_score"]) == ("fail", 1234)
    assert document["tests"][0]["score"] == 2.5


@pytest.mark.parametrize(
    ("score", "text"), [(0, "0"), (10, "10"), (2.50, "2.5"), (1 / 3, "0.3333"), (1234.0, "1234")]
)
def test_numbers_have_no_commas(score, text):
    assert roster.number(score) == text


@pytest.fixture
def out(tmp_path):
    for name, about in (("ana", {}), ("bob", {"status": "ungraded"})):
        text = json.dumps(result(name, **about))
        notebook.write(tmp_path / "out" / "results" / f"{name}.json", text)
    return tmp_path / "out"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda text: text.replace('"score": 2.5', '"score": 1234'), "edited"),
        (lambda text: text.replace('"version": 1', '"version": 2'), "version 2"),
        (lambda text: text[:50], "no result"),
        (lambda text: "[]", "no result"),
    ],
)
def test_what_is_no_result_stops_the_export_and_is_named(out, change, words):
    path = out / "results" / "ana.json"
    path.write_text(change(path.read_text()))
    with pytest.raises(stored.ExportError, match=words) as caught:
        stored.results(out)
    assert str(path) in str(caught.value)


def test_the_command_writes_and_says_where(out, grades, capsys):
    assert main(["export", str(out), "--to", "canvas", "--roster", str(grades)]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[-1] == str(out / "canvas.csv")
    assert said[0] == "ana (ana.ipynb): not in the roster; left out"
    for form, ending in (("junit", "xml"), ("gradescope", "json"), ("classroom", "txt")):
        words = ["export", str(out), "--to", form, "--student", "ana"]
        assert main(words) == 0
        assert (out / f"{form}.{ending}").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--to", "moodle"], "needs --roster"),
        (["--to", "gradescope"], "say --student, one of ana, bob"),
        (["--to", "canvas", "--roster", "none.csv"], "none.csv"),
    ],
)
def test_a_call_that_can_not_work_says_why(out, words, said, capsys):
    assert main(["export", str(out), *words]) == 1
    err = capsys.readouterr().err
    assert err.startswith("error: ")
    assert said in err


def test_a_roster_of_another_kind_is_refused(tmp_path, grades):
    with pytest.raises(stored.ExportError, match="no column 'Identifier'"):
        moodle.table([result("x")], grades)


EXERCISES = "tests/data/exercises"
NOSY = (
    "import pathlib\n"
    "def causal(T, S):\n"
    "    for path in (BASE + '/results/results.json', BASE + '/source/x'):\n"
    "        try:\n"
    "            pathlib.Path(path).write_text('{\"score\": 99}')\n"
    "        except OSError:\n"
    "            pass\n"
    "    text = pathlib.Path(BASE + '/source/90_demo.py').read_text()\n"
    "    exec(text.split('# BEGIN SOLUTION')[1].split('# END')[0])\n"
)


@pytest.fixture(scope="module")
def container(request, tmp_path_factory):
    """What Gradescope's container holds before a submission comes."""
    folder = tmp_path_factory.mktemp("gradescope")
    words = ["gradescope", "90_demo", "--exercises", str(request.config.rootpath / EXERCISES)]
    assert main([*words, "--out", str(folder / "demo.zip"), "--allow-weak-sandbox"]) == 0
    base = folder / "autograder"
    with zipfile.ZipFile(folder / "demo.zip") as archive:
        archive.extractall(base / "source")
    shutil.move(base / "source" / "attnlearn", base / "package" / "attnlearn")
    for name in ("submission", "results"):
        (base / name).mkdir()
    about = {"users": [{"name": "Ana"}, {"name": "Bob"}]}
    (base / "submission_metadata.json").write_text(json.dumps(about))
    return base


def autograde(base, data=None):
    """Run the bundle on a file of these bytes; returns what Gradescope would read."""
    for path in (base / "submission").iterdir():
        path.unlink()
    if data is not None:
        (base / "submission" / "hw.ipynb").write_bytes(data)
    environment = {**os.environ, "AUTOGRADER": str(base), "PYTHON": sys.executable}
    script = base / "source" / "run_autograder"
    subprocess.run(["bash", str(script)], env=environment, capture_output=True, timeout=120)
    return json.loads((base / "results" / "results.json").read_text())


@pytest.fixture(scope="module")
def handed_in(request):
    """A notebook's bytes with an answer to the first task, and a right one to the second."""
    exercise = source.read(request.config.rootpath / EXERCISES / "solutions" / "90_demo.py")
    return lambda answer: notebook.dumps(
        filled(exercise, {"demo-1": answer, "demo-2": GOOD_2})
    ).encode()


POSIX = pytest.mark.skipif(sys.platform == "win32", reason="the bundle is for Linux")


@POSIX
def test_the_bundle_grades_what_was_handed_in(container, handed_in):
    document = autograde(container, handed_in(GOOD_1))
    assert document["score"] == 6
    assert [test["status"] for test in document["tests"]] == ["passed", "passed"]
    assert (container / "source").stat().st_mode & 0o077 == 0


@POSIX
@pytest.mark.skipif(not sandbox.Box().works(), reason="no namespaces on this machine")
def test_an_answer_reaches_neither_the_exercise_nor_the_results(container, handed_in):
    document = autograde(container, handed_in(f"BASE = {str(container)!r}\n{NOSY}"))
    assert (document["score"], document["tests"][0]["score"]) == (2, 0)
    assert not (container / "source" / "x").exists()


@POSIX
@pytest.mark.parametrize(
    ("data", "words"),
    [(None, "No file was handed in"), (b"{", "Not graded: "), (b"PK\x03\x04", "Not graded: ")],
)
def test_there_are_results_whatever_is_handed_in(container, data, words):
    document = autograde(container, data)
    assert (document["score"], document["output"].startswith(words)) == (0, True), document


@POSIX
def test_a_grader_that_fails_gives_no_grade_and_says_so(container, handed_in):
    settings = container / "source" / "settings.json"
    before = settings.read_text()
    settings.write_text(before.replace("90_demo", "gone"))
    document = autograde(container, handed_in(GOOD_1))
    settings.write_text(before)
    assert "score" not in document
    assert "no grade" in document["output"]


def test_the_bundle_holds_pins_and_what_the_exercise_imports(request):
    lines = bundle.requirements("import numpy as np\nimport torch\n").splitlines()
    names = {line.partition("==")[0].lower() for line in lines}
    assert all("==" in line and "+" not in line for line in lines)
    assert {"torch", "nbval", "ipykernel", "pyzmq"} <= names
    assert not {"sphinx", "playwright", "dask"} & names


def test_the_workflow_is_valid_and_keeps_the_seed_off_command_lines(tmp_path):
    assert main(["classroom", "03_masks", "--out", str(tmp_path)]) == 0
    text = (tmp_path / ".github" / "workflows" / "classroom.yml").read_text()
    document = yaml.safe_load(text)
    steps = document["jobs"]["grade"]["steps"]
    assert all(re.search(r"@v\d", step["uses"]) for step in steps if "uses" in step)
    (grading,) = [step for step in steps if step.get("id") == "grade"]
    assert grading["env"] == {"ATTNLEARN_SEED": "${{ secrets.ATTNLEARN_SEED }}"}
    assert "${{" not in grading["run"]
    for step in steps:
        if "run" in step:
            subprocess.run(["bash", "-n"], input=step["run"], text=True, check=True)


@pytest.mark.skipif(sys.platform == "win32", reason="the steps are for Linux")
def test_the_workflows_step_grades_and_reports(request, handed_in, tmp_path):
    """Its shell lines, with the runner's folders in places of our own."""
    rest = {"repository": "me/course", "ref": "main"}
    text = workflow.text("90_demo", "hw.ipynb", **rest)
    steps = yaml.safe_load(text)["jobs"]["grade"]["steps"]
    (script,) = [step["run"] for step in steps if step.get("id") == "grade"]
    (tmp_path / "hw.ipynb").write_bytes(handed_in(GOOD_1))
    (tmp_path / ".attnlearn").symlink_to(request.config.rootpath / EXERCISES)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    (tmp_path / "bin" / "python").chmod(0o755)
    variables = {"ATTNLEARN_SEED": "hush", "GITHUB_OUTPUT": str(tmp_path / "output")}
    variables |= {"RUNNER_TEMP": str(tmp_path), "PATH": f"{tmp_path}/bin:{os.environ['PATH']}"}
    script = script.replace("--out", "--allow-weak-sandbox --out")
    options = {"env": workers.environment(**variables), "cwd": tmp_path, "timeout": 120}
    subprocess.run(["bash", "-e", "-c", script], check=True, **options)
    line = (tmp_path / "output").read_text()
    document = json.loads(base64.b64decode(line.removeprefix("result=")))
    assert [test["score"] for test in document["tests"]] == [4, 2]
    assert not (tmp_path / "seed").exists()
