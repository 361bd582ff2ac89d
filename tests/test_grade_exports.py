"""Exports for platforms: who is matched, what is left empty, and names that break tables."""

import base64
import csv
import html
import io
import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree

import pytest
import yaml
from data.handed_in import GOOD_1, GOOD_2, TOP_LEFT, filled
from data.results import keep

from attnlearn.__main__ import main
from attnlearn.grading import notebook, source, workers
from attnlearn.grading.exports import (
    bundle,
    canvas,
    classroom,
    feedback,
    gradescope,
    junit,
    moodle,
    roster,
    stored,
    workflow,
)
from attnlearn.grading.gradebook import Gradebook
from attnlearn.grading.isolation import sandbox

pytestmark = pytest.mark.xdist_group(__name__)  # what its tests share is made once

ODD = [
    'O\'Neil, "Al"',
    "=SUM(A1)",
    "+1",
    "-1",
    "@x",
    "\ttab",
    "山田 太郎",
    "a\u202eb",
    "Zoë <b>",
    "a\nb",
]


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
        "notes": ["a\n::error::b ##[error]c"],
        "cases": [visible, hidden],
    }
    hashes = dict.fromkeys(("submission", "pristine", "environment"), "0")
    sandbox = {"level": "L3", "promises": [], "does_not_promise": [], "limits": {}}
    return {
        **{"version": 1, "assignment": "90_demo", "student": student, "student_id": id},
        **{"key": student, "file": f"{student}.ipynb", "status": status, "trouble": trouble},
        **{"score": score, "max_score": 1234.0, "exercises": [task], "findings": []},
        **{"sandbox": sandbox, "hashes": hashes, "seed_id": "0", "graded": "now"},
    }


def rows(text, delimiter=","):
    return list(csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter))


def save(path, lines, delimiter=",", encoding="utf-8-sig"):
    with open(path, "w", encoding=encoding, newline="") as file:
        csv.writer(file, delimiter=delimiter).writerows(lines)
    return path


@pytest.fixture
def grades(tmp_path):
    """What Canvas exports: a row of points, students, its test student."""
    lines = [
        ["Student", "ID", "SIS Login ID", "Section", "Masks (55)", "Essay (7)", "Final Score"],
        ["    Points Possible", "", "", "", "1234.00", "10", "(read only)"],
        ["Doe, Jane", "101", "jdoe", "A", "", "9", "90"],
        ["Roe, Jan", "102", "jroe", "A", "7", "", ""],
        ["Roe, Jan", "103", "jroe2", "B", "ex", "", ""],
        [ODD[0], "104", "al", "A", "", "", ""],
        ["Student, Test", "105", "x", "A", "", "", ""],
    ]
    return save(tmp_path / "grades.csv", lines)


def column(text, name="Masks (55)"):
    return [row[name] for row in rows(text)]


def test_canvas_gets_each_grade_in_its_own_row(grades):
    handed_in = [result("doejane", "101"), result("O'Neil Al", "104", 1234.0), result("x y")]
    text, remarks = canvas.table(handed_in, grades, "Masks (55)")
    assert list(rows(text)[0]) == ["Student", "ID", "SIS Login ID", "Section", "Masks (55)"]
    assert column(text) == ["1234", "2.5", "7", "ex", "1234", ""]
    assert rows(text)[4]["Student"] == ODD[0]
    assert remarks == [
        "x y (x y.ipynb): not in the roster; left out",
        "in the roster without a result, left as they were: Roe Jan, Roe Jan, Student Test",
    ]


def test_the_number_of_a_submission_on_gradescope_is_no_students(grades):
    own = {**result("Roe, Jan A", "101"), "file": "x/submission_101/03_masks.ipynb"}
    text, remarks = canvas.table([own], grades, "Masks (55)")
    assert column(text)[1] == ""
    assert "not in the roster" in remarks[0]


def test_canvas_refuses_a_column_that_is_not_there(grades):
    with pytest.raises(stored.ExportError, match=r"no column 'Masks'; there are Masks \(55\)"):
        canvas.table([result("doejane", "101")], grades, "Masks")


def test_canvas_keeps_who_is_excused(grades):
    text, remarks = canvas.table([result("roejan", "103")], grades, "Masks (55)")
    assert column(text) == ["1234", "", "7", "ex", "", ""]
    assert "roejan: excused in Canvas; left so" in remarks


def test_canvas_headings_are_found_or_told(grades, tmp_path):
    renamed = tmp_path / "renamed.csv"
    renamed.write_text(grades.read_text("utf-8-sig").replace("Masks (55)", "90_demo (55)"), "utf-8")
    text, remarks = canvas.table([result("x", "101")], renamed)
    assert column(text, "90_demo (55)")[1] == "2.5"
    assert len(remarks) == 1
    text, remarks = canvas.table([result("x", "101")], grades)
    assert column(text, "90_demo") == ["1234", "2.5", "", "", "", ""]
    assert "the roster has no column '90_demo': Canvas will make a new" in remarks[-1]
    text, remarks = canvas.table([result("x", "101")], grades, "Essay (7)")
    assert column(text, "Essay (7)")[:2] == ["10", "2.5"]
    assert remarks[-1] == "Essay (7) offers 10 points in Canvas, and 1234 here"


def test_canvas_with_first_and_last_names_and_semicolons(tmp_path):
    lines = [["LastName", "FirstName", "ID", "Section"], ["Doe, Roe", "Jane", "101", "A"]]
    path = save(tmp_path / "grades.csv", lines, ";", "utf-16")
    text, _ = canvas.table([result("Jane Doe Roe"), result("doeroejane2")], path)
    assert text.splitlines()[1:] == ["    Points Possible;;;;1234", "Doe, Roe;Jane;101;A;2.5"]


def test_names_are_matched_only_where_one_student_has_them(grades):
    text, remarks = canvas.table([result("roejan"), result("Jane Doe")], grades, "Masks (55)")
    assert column(text) == ["1234", "2.5", "7", "ex", "", ""]
    assert remarks[0] == "roejan (roejan.ipynb): more than one in the roster; left out"


@pytest.mark.parametrize("who", [("doejane", "999"), ("☃", ""), ("", "")])
def test_a_result_is_never_guessed_to_be_somebody_s(grades, who):
    """Not by a name where the platform's number is another, and not by a name without letters."""
    text, remarks = canvas.table([result(*who)], grades, "Masks (55)")
    assert column(text) == ["1234", "", "7", "ex", "", ""]
    assert "not in the roster" in remarks[0]


def test_marks_of_other_scripts_tell_names_apart():
    assert roster.squeezed("कि") != roster.squeezed("का")
    assert roster.squeezed("Zoe\u0308 B") == roster.squeezed("zoë-b")


def test_two_results_for_one_student_are_both_left_out(grades):
    handed_in = [result("doejane", "101"), result("jdoe")]
    text, remarks = canvas.table(handed_in, grades, "Masks (55)")
    assert column(text)[1] == ""
    assert [remark.partition(": ")[2] for remark in remarks[:2]] == (
        ["2 results for one student; left out: keep one of doejane.json, jdoe.json"] * 2
    )


def test_no_grade_stays_empty_and_a_zero_is_written(grades):
    done = [result("doejane", "101", 0.0, "unreadable", "cut off")]
    done.append(result("Al O'Neil", "104", 0.0, "ungraded"))
    text, remarks = canvas.table(done, grades, "Masks (55)")
    assert column(text) == ["1234", "0", "7", "ex", "", ""]
    assert remarks[0] == "Al O'Neil (Al O'Neil.ipynb): not graded yet; left as it was"


@pytest.mark.parametrize("name", ODD)
@pytest.mark.parametrize("form", ["canvas", "worksheet", "users"])
def test_platforms_get_names_back_as_they_wrote_them(tmp_path, form, name):
    """Formulas, too: the platform finds its students by them."""
    headings = {
        "canvas": ["Student", "ID", "Section"],
        "worksheet": ["Full name", "Identifier", "Grade"],
        "users": ["Full name", "ID number", "Email address"],
    }
    path = save(tmp_path / "roster.csv", [headings[form], [name, "7", ""]])
    table = canvas.table if form == "canvas" else moodle.table
    text, _ = table([result(name)], path)
    row = rows(text)[-1]
    assert "2.5" in row.values()
    assert form == "users" or row[headings[form][0]] == name


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
    assert remarks == ["in the roster without a result, left as they were: =SUM(A1)"]


def test_moodle_gets_no_comment_without_a_grade(tmp_path):
    """It would wipe the grade that stands there."""
    path = tmp_path / "sheet.csv"
    path.write_text(SHEET.format(most="1234"), "utf-8")
    text, _ = moodle.table([result("Jane Doe", "101", 0.0, "ungraded")], path)
    assert [row["Feedback comments"] for row in rows(text, ";")] == ["", "old words"]


def test_moodle_is_told_of_another_maximum_once(tmp_path):
    path = tmp_path / "sheet.csv"
    path.write_text(SHEET.format(most="100.00"), "utf-8")
    _, remarks = moodle.table([result("Jane Doe", "101"), result("b", "102")], path)
    (remark,) = remarks
    assert "Moodle's maximum is 100.00, that of the exercise 1234" in remark


def test_moodle_s_list_of_participants_becomes_one_of_grades(tmp_path):
    lines = [
        ["First name", "Last name", "ID number", "Email address", "Groups"],
        ["Jane", "Doe", "0012", "Jane@example.org", "A"],
        ["Jan", "Roe", "13", "jan@example.org", "A"],
        ["Al", "Poe", "14", "al@example.org", "A"],
    ]
    path = save(tmp_path / "participants.csv", lines)
    done = [result("Jane Doe", "9"), result("jan@example.org", "", 0.0, "ungraded")]
    text, _ = moodle.table(done, path)
    assert rows(text) == [
        {
            "Email address": "Jane@example.org",
            "ID number": "0012",
            "90_demo": "2.5",
            "90_demo feedback": "demo-1: 2.5 of 1234. strict: A query may look at itself.",
        }
    ]


def test_moodle_comments_are_escaped_and_begin_with_no_formula():
    told = moodle.comment(result("x", trouble="=<script>\nalert(1)"))
    assert told.startswith("Not graded: =&lt;script&gt; alert(1)<br>")


@pytest.mark.parametrize("name", [*ODD, "bell\x07\x00"])
def test_junit_can_be_read_whatever_the_name(name):
    root = ElementTree.fromstring(junit.xml([result(name)]))
    (suite,) = root
    assert suite.get("name") == name.replace("\x07\x00", "")
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("2", "2", "0")
    failures = [failure.get("message") for failure in suite.iter("failure")]
    assert failures == ["strict: A query may look at itself."] * 2
    points = {each.get("name"): each.get("value") for each in suite.iter("property")}
    assert points["earned"] == points["demo-1 earned"] == "2.5"
    assert points["points"] == points["demo-1 points"] == "1234"


def test_junit_calls_what_was_not_graded_an_error():
    (suite,) = ElementTree.fromstring(junit.xml([result("x", status="unreadable", trouble="cut")]))
    assert [error.get("message") for error in suite.iter("error")] == ["cut", "cut"]
    (suite,) = ElementTree.fromstring(junit.xml([result("x", status="ungraded")]))
    assert "earned" not in {each.get("name") for each in suite.iter("property")}


def test_gradescope_shows_tasks_and_hides_what_was_printed():
    document = json.loads(gradescope.text(result("x")))
    assert (document["score"], document["stdout_visibility"]) == (2.5, "hidden")
    (test,) = document["tests"]
    assert (test["score"], test["max_score"], test["status"]) == (2.5, 1234, "failed")
    assert "wrong: square: differs at [0, 0] <x>" in test["output"]
    assert "wrong: hidden case 1\n" in test["output"]
    assert "Mistake: strict. A query may look at itself." in test["output"]


def test_gradescope_gets_no_score_where_there_is_no_grade():
    document = gradescope.document({**result("x", status="ungraded"), "findings": ["why"]})
    (test,) = document["tests"]
    assert "score" not in {**document, **test}
    assert "no grade" in document["output"]
    assert (test["output"], test["visibility"]) == ("why", "hidden")


def decoded(line):
    assert line.startswith("result=")
    assert line.count("\n") == 1
    return json.loads(base64.b64decode(line.removeprefix("result=")))


@pytest.mark.parametrize("trouble", ["", "a\n::set-output name=x::1\r::stop"])
def test_classroom_gets_one_line_and_its_log_no_command(trouble):
    document = decoded(classroom.line(result("x", trouble=trouble)))
    assert (document["status"], document["max_score"]) == ("fail", 1234)
    (test,) = document["tests"]
    assert test["score"] == 2.5
    assert all(line.startswith("- ") for line in test["message"].splitlines())
    assert "##[" not in test["message"]


def test_a_job_s_summary_shows_points_and_no_markup_of_others():
    told = {**result("x"), "findings": ["</pre><img src=x>"]}
    page = classroom.page(told)
    assert page.startswith("# 90_demo: 2.5 of 1234 points\n")
    assert "| demo-1 | partly | 2.5 of 1234 |" in page
    assert page.count("</pre>") == 1
    assert "<img" not in page
    assert "points" not in classroom.page(result("x", status="ungraded"))


@pytest.mark.parametrize(
    ("score", "text"), [(0, "0"), (10, "10"), (2.50, "2.5"), (1 / 3, "0.3333"), (1234.0, "1234")]
)
def test_numbers_have_no_commas(score, text):
    assert roster.number(score) == text


READING = SimpleNamespace(title="<Demo>", reading={"demo-1": "Rows in https://x.org/a?b=1&c=2."})


@pytest.mark.parametrize("name", [*ODD, "<script>"])
def test_a_page_shows_words_of_others_as_words(name):
    page = feedback.page({**result(name), "findings": ["<script>"]}, READING)
    assert f"<bdi>{html.escape(name)}</bdi>" in page
    assert "<script" not in page
    assert "2.5 of 1234 points" in page
    assert "hidden cases: 0 of 1 right" in page
    assert '<a href="https://x.org/a?b=1&amp;c=2">' in page
    assert set(re.findall(r'(?:src|href)="([^"]*)"', page)) == {
        "#demo-1",
        "https://x.org/a?b=1&amp;c=2",
    }


def test_a_page_shows_no_points_where_there_is_no_grade():
    page = feedback.page(result("x", status="ungraded"), READING)
    assert '<p class="score">not graded yet</p>' in page
    assert "<progress" not in page


@pytest.fixture
def out(tmp_path):
    for name, about in (("ana", {}), ("bob", {"status": "ungraded"})):
        text = json.dumps(result(name, **about))
        notebook.write(tmp_path / "out" / "results" / f"{name}.json", text)
    return tmp_path / "out"


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('"score": 2.5', '"score": 1234', "edited: the tasks' points are 2.5, not 1234"),
        ('"max_score": 1234', '"max_score": 10', "edited: the tasks offer 1234 points, not 10"),
        ("2.5", "2000", "edited: demo-1 has more points than it offers"),
        ("2.5", "NaN", "NaN is no number"),
        ("2.5", "-1", "-1 is less than the minimum"),
        ('"key": "ana"', '"key": "bob"', "edited: it is the result of 'bob'"),
        ('"version": 1', '"version": 2', "version 2; this program reads 1"),
        ('"passed": false', '"passed": "yes"', "no result of `attnlearn grade`: .*passed"),
        ('"pristine": "0"', '"pristine": "1"', "of another version"),
        ('"assignment": "90_demo"', '"assignment": "91_b"', "of another exercise"),
        ('{"version"', '"version"', "no result"),
    ],
)
def test_what_is_no_result_stops_the_export_and_is_named(out, old, new, words):
    path = out / "results" / "ana.json"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    with pytest.raises(stored.ExportError, match=words) as caught:
        stored.results(out)
    assert str(out / "results") in str(caught.value)
    assert "ana.json" in str(caught.value)


def test_the_command_writes_and_says_where(out, grades, capsys, monkeypatch):
    monkeypatch.delenv("GITHUB_OUTPUT", raising=False)
    assert main(["export", str(out), "--to", "canvas", "--roster", str(grades)]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[-1] == str(out / "canvas.csv")
    assert said[0] == "ana (ana.ipynb): not in the roster; left out"
    for form, ending in (("junit", "xml"), ("gradescope", "json"), ("classroom", "txt")):
        words = ["export", str(out), "--to", form, "--student", "ana"]
        assert main(words) == 0
        assert (out / f"{form}.{ending}").exists()


def attempt(file, score, exercise="0"):
    made = result("doejane", "101", score)
    return {**made, "hashes": {**made["hashes"], "submission": file, "pristine": exercise}}


def test_the_best_attempt_can_be_exported(tmp_path, grades, capsys):
    """A grade that was corrected is gone, and one of another version of the exercise is named."""
    latest = attempt("fourth", 2.5)
    runs = [("1", attempt("first", 20.0, "1")), ("0", attempt("second", 9.0))]
    runs += [("0", attempt("second", 4.0)), ("0", attempt("third", 8.5)), ("0", latest)]
    with Gradebook(tmp_path / "gradebook.sqlite") as book:
        for exercise, one in runs:
            keep(book, one, exercise=exercise)
    notebook.write(tmp_path / "results" / "doejane.json", json.dumps(latest))
    words = ["export", str(tmp_path), "--to", "canvas", "--roster", str(grades)]
    for policy, score in (("latest", "2.5"), ("best", "8.5")):
        assert main([*words, "--policy", policy]) == 0
        assert column((tmp_path / "canvas.csv").read_text(), "90_demo")[1] == score
    assert "20 of 1234 in run 1 are for another version" in capsys.readouterr().out
    with sqlite3.connect(tmp_path / "gradebook.sqlite") as db:
        db.execute("DROP TRIGGER attempts_no_update")
        db.execute("UPDATE attempts SET score = 1000 WHERE id = 2")
    db.close()
    assert main([*words, "--policy", "best"]) == 1
    assert "attempt 2 of doejane, or its run, is not as written" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--to", "moodle"], "needs --roster"),
        (["--to", "junit", "--policy", "best"], "no gradebook"),
        (["--to", "gradescope"], "say --student, one of ana, bob"),
        (["--to", "canvas", "--roster", "none.csv"], "none.csv"),
    ],
)
def test_a_call_that_can_not_work_says_why(out, words, said, capsys):
    assert main(["export", str(out), *words]) == 1
    err = capsys.readouterr().err
    assert err.startswith("error: ")
    assert said in err


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"Student,ID\na,1\n", "no column 'Identifier' and 'Grade', or 'Email address'"),
        (b"", "there are \\[\\]"),
        (b"Identifier,Grade\n1,2,3\n", "line 2: more cells"),
        (b"Identifier,Grade\n\xe4,2\n", "not UTF-8"),
    ],
)
def test_a_roster_of_another_kind_is_refused(tmp_path, data, words):
    (tmp_path / "roster.csv").write_bytes(data)
    with pytest.raises(stored.ExportError, match=words):
        moodle.table([result("x")], tmp_path / "roster.csv")


EXERCISES = "tests/data/exercises"
NOSY = """
import pathlib
def causal(T, S):
    for path in (BASE / "results" / "results.json", BASE / "source" / "x"):
        try:
            path.write_text('{"score": 99}')
        except OSError:
            pass
    text = (BASE / "source" / "90_demo.py").read_text()
    exec(text.split("# BEGIN SOLUTION")[1].split("# END")[0])
"""
POSIX = pytest.mark.skipif(sys.platform == "win32", reason="for Linux")


INSTALLERS = {  # in place of those that would download
    "apt-get": "exit 0",
    "python3": 'test "$1" = -c && exit; mkdir -p "$3/bin"; ln -s "$(command -v pip)" "$3/bin/pip"',
    "pip": 'test "$1 $2" = "install --quiet" && test "$3" = --requirement && test -s "$4"',
}


@pytest.fixture(scope="module")
def container(request):
    """What Gradescope's container holds before a submission comes; others may pass through."""
    with tempfile.TemporaryDirectory(prefix="gradescope-") as folder:
        folder = Path(folder)
        folder.chmod(0o755)
        words = ["gradescope", "90_demo", "--exercises", str(request.config.rootpath / EXERCISES)]
        assert main([*words, "--out", str(folder / "demo.zip"), "--allow-weak-sandbox"]) == 0
        for name in ("demo.zip", "demo.seed.txt"):
            assert (folder / name).stat().st_mode & 0o077 == 0
        base = folder / "autograder"
        with zipfile.ZipFile(folder / "demo.zip") as archive:
            archive.extractall(base / "source")
        for name, script in INSTALLERS.items():
            (folder / name).write_text(f"#!/bin/sh\n{script}\n")
            (folder / name).chmod(0o755)
        environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}
        command = ["bash", str(base / "source" / "setup.sh")]
        subprocess.run(command, env={**environment, "AUTOGRADER": str(base)}, check=True)
        (base / "submission").mkdir()
        about = {"users": [{"name": "Ana"}, {"name": "Bob"}]}
        (base / "submission_metadata.json").write_text(json.dumps(about))
        yield base


def autograde(base, *papers, python=sys.executable):
    """Run the bundle on files of these bytes; returns what Gradescope would read."""
    shutil.rmtree(base / "results", ignore_errors=True)
    for path in (base / "submission").iterdir():
        path.unlink()
    for number, data in enumerate(papers):
        path = base / "submission" / f"hw{number}.ipynb"
        path.write_bytes(data)
        os.utime(path, (number, number))
    environment = {**os.environ, "AUTOGRADER": str(base), "PYTHON": str(python)}
    script = base / "source" / "run_autograder"
    subprocess.run(["bash", str(script)], env=environment, capture_output=True, timeout=120)
    return json.loads((base / "results" / "results.json").read_text())


@pytest.fixture
def python_at(tmp_path):
    """A Python for which only some levels of sandbox exist, as in a container."""

    def make(*levels):
        code = f"""
import sys
from pathlib import Path
from attnlearn.grading.isolation import sandbox
sandbox.KINDS = {{n: sandbox.KINDS[n] for n in {levels}}}
from attnlearn.grading.exports import autograder
sys.exit(autograder.main(Path(sys.argv[-1])))
"""
        path = tmp_path / "python"
        path.write_text(f"#!/bin/sh\nexec {sys.executable} - \"$@\" <<'END'{code}END\n")
        path.chmod(0o755)
        return path

    return make


@pytest.fixture(scope="module")
def handed_in(request):
    """A notebook's bytes with an answer to the first task, and a right one to the second."""
    exercise = source.read(request.config.rootpath / EXERCISES / "solutions" / "90_demo.py")

    def make(answer, second=GOOD_2):
        return notebook.dumps(filled(exercise, {"demo-1": answer, "demo-2": second})).encode()

    return make


@POSIX
def test_the_bundle_grades_the_latest_that_can_be_read(container, handed_in):
    document = autograde(container, handed_in(None, None), handed_in(TOP_LEFT), b"{")
    first, second = document["tests"]
    assert document["output"].startswith("3 files were handed in. hw1.ipynb counts")
    assert "Mistake: top-left diagonal" in first["output"]
    assert (first["status"], second["status"], second["score"]) == ("failed", "passed", 2)
    assert document["score"] == first["score"] + second["score"] < 4
    for name in ("source", "results", "submission"):
        assert (container / name).stat().st_mode & 0o077 == 0


@POSIX
def test_an_answer_reaches_neither_the_exercise_nor_the_results(container, handed_in, python_at):
    """At the level that Gradescope's container offers, where it works here."""
    kinds = [sandbox.OtherUser, sandbox.Box]
    level = next((kind.level for kind in kinds if kind().works()), None)
    if level is None:
        pytest.skip("neither another user behind Landlock nor namespaces work on this machine")
    nosy = f"import pathlib\nBASE = pathlib.Path({str(container)!r})\n{NOSY}"
    document = autograde(container, handed_in(nosy, None), python=python_at(level))
    assert document["extra_data"]["sandbox"] == f"L{level}"
    assert document["extra_data"]["student"] == "Ana and Bob"
    assert [test["score"] for test in document["tests"]] == [0, 0]
    assert document["tests"][1]["name"] == "demo-2: blank"
    assert not (container / "source" / "x").exists()


@POSIX
def test_a_container_too_weak_gives_no_grade(container, handed_in, python_at):
    settings = container / "source" / "settings.json"
    before = settings.read_text()
    settings.write_text(before.replace("true", "false"))
    document = autograde(container, handed_in(GOOD_1), python=python_at(0))
    settings.write_text(before)
    (test,) = document["tests"]
    assert "score" not in {**document, **test}
    assert "asks for sandbox L2" in test["output"]
    assert "--allow-weak-sandbox" in test["output"]


@POSIX
@pytest.mark.parametrize(
    ("papers", "words"), [([], "No file was handed in"), ([b"{"], "Not graded: ")]
)
def test_there_are_results_whatever_is_handed_in(container, papers, words):
    document = autograde(container, *papers)
    assert (document["score"], document["output"].startswith(words)) == (0, True), document


@POSIX
@pytest.mark.parametrize("python", ["/bin/false", "/nowhere/python"])
def test_there_are_results_without_python(container, python):
    document = autograde(container, b"{", python=python)
    assert "score" not in document
    assert "no grade" in document["output"]


def test_the_bundle_holds_pins_and_what_the_exercise_imports():
    lines = bundle.requirements("import numpy as np\nimport torch\n").splitlines()
    names = {line.partition("==")[0].lower() for line in lines}
    assert all("==" in line and "+" not in line for line in lines)
    assert {"torch", "nbval", "ipykernel", "pyzmq", "pexpect"} <= names
    assert not {"sphinx", "playwright", "dask", "colorama"} & names
    assert "torch==" not in bundle.requirements("import numpy as np\n")


def test_the_same_bundle_is_the_same_file(request):
    script = request.config.rootpath / EXERCISES / "solutions" / "90_demo.py"
    data = bundle.archive(script, "seed", False)
    assert data == bundle.archive(script, "seed", False)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        names = archive.namelist()
        modes = {name: archive.getinfo(name).external_attr >> 16 for name in names}
    assert modes["setup.sh"] == modes["run_autograder"] == 0o755
    assert modes["seed.txt"] == 0o644
    assert not [name for name in names if "__pycache__" in name or "/." in name]
    for text in (bundle.SETUP, bundle.RUN):
        subprocess.run(["bash", "-n"], input=text, text=True, check=True)


def steps_of(text):
    """The steps of the one job, whose name Classroom asks for."""
    document = yaml.safe_load(text)
    assert document["name"] == "Autograding Tests"
    assert document["permissions"] == {"contents": "read"}
    return document["jobs"]["run-autograding-tests"]["steps"]


def test_the_workflow_is_valid_and_keeps_secrets_off_command_lines(tmp_path):
    assert main(["classroom", "03_masks", "--out", str(tmp_path)]) == 0
    steps = steps_of((tmp_path / ".github" / "workflows" / "classroom.yml").read_text())
    assert all(re.search(r"@v\d", step["uses"]) for step in steps if "uses" in step)
    (grading,) = [step for step in steps if step.get("id") == "grade"]
    assert grading["env"] == {"ATTNLEARN_SEED": "${{ secrets.ATTNLEARN_SEED }}"}
    for step in steps:
        if "run" in step:
            assert "${{" not in step["run"]
            assert step["working-directory"] == "${{ runner.temp }}"
            subprocess.run(["bash", "-n"], input=step["run"], text=True, check=True)


def test_own_exercises_are_fetched_by_a_token(request, tmp_path, capsys):
    own = ["classroom", "90_demo", "--exercises", str(request.config.rootpath / EXERCISES)]
    assert main([*own, "--out", str(tmp_path)]) == 1
    assert "need both" in capsys.readouterr().err
    own += ["--repository", "me/course", "--notebook", "my work/$HOME.ipynb"]
    assert main([*own, "--out", str(tmp_path)]) == 0
    text = (tmp_path / workflow.PATH).read_text()
    steps = steps_of(text)
    (fetching,) = [step for step in steps if "token" in step.get("with", {})]
    assert fetching["with"]["repository"] == "me/course"
    assert fetching["with"]["token"] == "${{ secrets.ATTNLEARN_TOKEN || github.token }}"
    (script,) = [step["run"] for step in steps if step.get("id") == "grade"]
    assert "\"$GITHUB_WORKSPACE\"/'my work/$HOME.ipynb' " in script
    assert "it can also fetch the exercises with their solutions" in text


@pytest.fixture
def runner(request, tmp_path):
    """Runs the step that grades, with the runner's folders in places of our own."""
    text = workflow.text("90_demo", "hw.ipynb")
    (script,) = [step["run"] for step in steps_of(text) if step.get("id") == "grade"]
    script = script.replace("--out", "--allow-weak-sandbox --out")
    (tmp_path / "work").mkdir()
    (tmp_path / "temp").mkdir()
    (tmp_path / "work" / ".attnlearn").symlink_to(request.config.rootpath / EXERCISES)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    (tmp_path / "bin" / "python").chmod(0o755)
    variables = {
        **{"ATTNLEARN_SEED": "hush", "GITHUB_WORKSPACE": str(tmp_path / "work")},
        **{"GITHUB_OUTPUT": str(tmp_path / "output"), "RUNNER_TEMP": str(tmp_path / "temp")},
        **{"GITHUB_STEP_SUMMARY": str(tmp_path / "summary")},
        **{"PATH": f"{tmp_path}/bin:{os.environ['PATH']}"},
    }

    def run(data):
        (tmp_path / "work" / "hw.ipynb").write_bytes(data)
        options = {"env": workers.environment(**variables), "cwd": tmp_path / "temp"}
        command = ["bash", "-e", "-c", script]
        return subprocess.run(command, capture_output=True, text=True, timeout=120, **options)

    return run


@POSIX
def test_the_workflows_step_grades_and_reports(handed_in, runner, tmp_path):
    for name in ("json.py", "attnlearn.py"):  # what a student might leave beside the notebook
        (tmp_path / "work" / name).write_text("raise SystemExit('theirs')\n")
    done = runner(handed_in(GOOD_1))
    assert done.returncode == 0, done.stderr
    first, *_, last = done.stdout.splitlines()
    assert first.removeprefix("::stop-commands::") == last.strip(":")
    assert len(last) > 32
    document = decoded((tmp_path / "output").read_text())
    assert [test["score"] for test in document["tests"]] == [4, 2]
    assert (tmp_path / "summary").read_text().startswith("# 90_demo: 6 of 6 points")
    assert (tmp_path / "temp" / "graded" / "feedback").exists()
    assert not (tmp_path / "temp" / "seed").exists()
