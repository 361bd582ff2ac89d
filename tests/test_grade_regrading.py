"""Graded again: what is no new attempt, what changed and why, and which attempt counts."""

import csv
import io
import json
import shutil

import pytest
from data.handed_in import GOOD_1, GOOD_2, filled
from data.results import keep, result

from attnlearn.__main__ import main
from attnlearn.grading import notebook, source
from attnlearn.grading.gradebook import Gradebook, changes, counting

SCRIPT = "tests/data/exercises/solutions/90_demo.py"


@pytest.fixture
def book(tmp_path):
    with Gradebook(tmp_path / "gradebook.sqlite") as book:
        yield book


def test_a_result_that_still_holds_is_no_new_attempt(book):
    first, later = result("ana", (4, 4)), result("ana", (4, 4)) | {"graded": "later"}
    run = keep(book, first)
    again = keep(book, json.loads(json.dumps(first)), later, result("bo", (1, 1)))
    assert [(r["graded"], r["kept"]) for r in book.runs()] == [(1, 0), (1, 1)]
    assert [attempt["run"] for attempt in book.attempts()] == [run, again]
    assert book.changes(again) == []


def test_a_run_that_is_interrupted_belongs_to_the_next(book):
    keep(book, result("ana", (4, 4)), result("bo", (4, 4)))
    keep(book, result("ana", (1, 4), seed="s2"), seed="s2", ended=False)
    with pytest.raises(KeyError):
        keep(book, {"assignment": "90_demo"}, seed="s2")
    kept, new = result("ana", (1, 4), seed="s2"), result("bo", (3, 4), seed="s2")
    last = keep(book, kept, new, seed="s2")
    assert [c.after["key"] for c in book.changes(last)] == ["ana", "bo"]
    assert [bool(run["ended"]) for run in book.runs()] == [True, False, False, True]
    assert book.verify() == []


def test_what_was_graded_again_and_why(book):
    keep(book, *(result(key, (2, 4)) for key in ("fell", "rose", "same", "renewed", "failed")))
    run = keep(
        book,
        result("rose", (4, 4), exercise="e2"),
        result("fell", (2, 1), exercise="e2", seed="s2"),
        result("same", (2, 4), exercise="e2"),
        result("renewed", (4, 3), exercise="e1", file="f2", level="L2"),
        result("new", (4, 4), exercise="e2"),
        result("failed", (2, 4), status="ungraded"),
        exercise="e2",
    )
    found = {change.after["key"]: change for change in book.changes(run)}
    assert list(found) == ["fell", "failed", "renewed", "rose"]
    assert found["fell"].why == ("exercise changed", "new seed")
    assert found["fell"].tasks == {"demo-2": (4, 1)}
    assert found["renewed"].why == ("new file", "other sandbox or limits")
    assert found["renewed"].tasks == {"demo-1": (2, 4), "demo-2": (4, 3)}
    rows = list(csv.DictReader(io.StringIO(changes.table(book.changes(run)))))
    assert rows[0]["student"] == "fell"
    assert rows[0]["change"] == "-3"
    assert (rows[0]["demo-2 before"], rows[0]["demo-2 after"]) == ("4", "1")
    assert rows[1]["status"] == "ungraded"


def test_the_best_attempt_is_no_grade_that_was_corrected(book):
    keep(book, result("ana", (4, 4)), result("bo", (2, 2)))
    keep(book, result("ana", (1, 1), exercise="e2"), result("bo", (1, 1), file="f2"))
    keep(book, result("bo", (3, 4), file="f3", status="ungraded"), exercise="e2")
    for policy, scores in (("latest", {"ana": 2, "bo": 7}), ("best", {"ana": 2, "bo": 4})):
        found = counting.counting(book.attempts(), policy)
        assert {attempt["key"]: attempt["score"] for attempt in found} == scores
    rows = list(csv.DictReader(io.StringIO(counting.table(book, "best"))))
    assert rows[1]["remarks"] == "the exercise has changed since"


def test_the_command_tells_all_of_it(book, capsys):
    wide = result("山田", (4, 4)) | {"student": "山田\x1b[2J太郎"}
    keep(book, wide, result("bo", (2, 2)), result("=1+1", (0, 0)))
    keep(book, wide, result("bo", (1, 2), exercise="e2"), exercise="e2")
    where = str(book.path.parent)
    assert main(["gradebook", where, "--changes"]) == 0
    shown = capsys.readouterr().out
    assert "run 2: grades that changed: 1, of them fell: 1" in shown
    assert "bo       4 of 8  3 of 8  -1  demo-1 2 -> 1  exercise changed" in shown
    assert main(["gradebook", where, "--student", "BO"]) == 0
    assert main(["gradebook", where, "--student", "山"]) == 1
    shown = capsys.readouterr()
    assert shown.out.count("bo.ipynb") == 2
    assert "there are 山田[2J太郎" in shown.err
    assert main(["gradebook", where, "--changes", "3"]) == 1
    assert "no run '3': there are 1 to 2" in capsys.readouterr().err
    table = book.path.with_name("best.csv")
    assert main(["gradebook", where, "--csv", str(table), "--policy", "best"]) == 0
    assert "'=1+1" in table.read_text("utf-8")


def test_an_exercise_is_corrected_between_two_runs(request, tmp_path, capsys):
    """End to end: the check took a mask of numbers for right, until somebody noticed."""
    script = tmp_path / "exercises" / "90_demo.py"
    script.parent.mkdir()
    shutil.copy(request.config.rootpath / SCRIPT, script)
    exercise = source.read(script)
    numbers = GOOD_1.rstrip().replace("return ", "return 1.0 * (") + ")\n"
    for name, answer in (("ana", GOOD_1), ("bo", numbers)):
        content = filled(exercise, {"demo-1": answer, "demo-2": GOOD_2})
        notebook.write(tmp_path / "inbox" / f"{name}.ipynb", notebook.dumps(content))
    right = script.read_text("utf-8")
    lenient = right.replace("lambda: causal(3, 5)", "lambda: np.array(causal(3, 5), bool)")
    assert lenient != right
    command = ["grade", str(tmp_path / "inbox"), "--assignment", "90_demo", "--seed", "a secret"]
    command += ["--out", str(tmp_path / "out"), "--exercises", str(script.parent)]
    for text in (lenient, right, right):
        script.write_text(text, "utf-8")
        assert main([*command, "--allow-weak-sandbox", "--sandbox", "L0"]) == 0
    with Gradebook.read(tmp_path / "out" / "gradebook.sqlite") as book:
        (change,) = book.changes(2)
        assert (change.after["student"], change.why) == ("bo", ("exercise changed",))
        assert change.tasks == {"demo-1": (1.6, 0.0)}
        assert [(run["graded"], run["kept"]) for run in book.runs()] == [(2, 0), (2, 0), (0, 2)]
        assert book.verify() == []
