"""The answers as files, and pairs of them that are alike."""

import csv
import sys

import pytest
from data.handed_in import GOOD_1, HELPED, HELPER, TOP_LEFT, code, filled

from attnlearn.__main__ import main
from attnlearn.grading import notebook, release, source
from attnlearn.grading.handed_in import transplant

pytestmark = pytest.mark.xdist_group(__name__)

ROOT = "tests/data/exercises"
LONG = '''def softmax(x):
    """Over the last axis."""
    largest = np.max(x, axis=-1, keepdims=True)
    powers = np.exp(x - largest)
    total = np.sum(powers, axis=-1, keepdims=True)
    if not np.isfinite(total).all():
        raise ValueError("not finite")
    return powers / total
'''
RENAMED = '''def softmax(scores):
    """What I wrote."""
    m = np.max(scores, axis=-1, keepdims=True)  # for numerical reasons

    e = np.exp(scores - m)
    s = np.sum(e, axis=-1,
               keepdims=True)
    if not np.isfinite(s).all():
        raise ValueError("a number is missing")
    return e / s
'''
OTHER = """def softmax(x):
    rows = x.reshape(-1, x.shape[-1])
    out = [[np.e ** (one - max(row)) for one in row] for row in rows]
    out = [np.array(row) / sum(row) for row in out]
    return np.stack(out).reshape(x.shape)
"""
HALF_ALIKE = """def softmax(x):
    largest = np.max(x, axis=-1, keepdims=True)
    out = np.empty(x.shape)
    for place in np.ndindex(*x.shape[:-1]):
        row = np.exp(x[place] - largest[place])
        out[place] = row / sum(row)
    return out
"""
LOOPS = """def causal(T, S):
    allowed = np.zeros((T, S), dtype=bool)
    for row in range(T):
        for column in range(S):
            allowed[row, column] = column - row <= S - T
    return allowed
"""
CLASS = {
    "ana": (GOOD_1, LONG),
    "bo": (TOP_LEFT, RENAMED),
    "=eve": (LOOPS, OTHER),
    "half": (None, HALF_ALIKE),
    "blank": (None, None),
}


@pytest.fixture(scope="module")
def compared(request, tmp_path_factory):
    """OUT of `attnlearn answers --compare`."""
    folder = tmp_path_factory.mktemp("answers")
    exercise = source.read(request.config.rootpath / ROOT / "solutions" / "90_demo.py")
    contents = {
        name: filled(exercise, {"demo-1": one, "demo-2": two}) for name, (one, two) in CLASS.items()
    }
    contents["helped"] = filled(exercise, {"demo-1": HELPED, "demo-2": None})
    contents["helped"]["cells"].append(code(HELPER))
    for name, content in contents.items():
        notebook.write(folder / "inbox" / f"{name}.ipynb", notebook.dumps(content))
    (folder / "inbox" / "cut.ipynb").write_text('{"cells": [')
    (folder / "inbox" / "notes.txt").write_text("nobody's")
    assert main(call(request, folder, "--compare")) == 0
    return folder / "out"


def call(request, folder, *more):
    root = str(request.config.rootpath / ROOT)
    out = ["--assignment", "90_demo", "--out", str(folder / "out"), "--exercises", root]
    return ["answers", str(folder / "inbox"), *out, *more]


def pairs(out):
    rows = csv.DictReader((out / "similar.csv").read_text("utf-8").splitlines())
    return {(row["task"], row["one"], row["other"]): row for row in rows}


def test_answers_lie_as_files_without_the_blank_ones(compared):
    found = {
        task: {path.stem for path in (compared / "answers" / task).glob("*.py")}
        for task in ("demo-1", "demo-2")
    }
    eve = next(stem for stem in found["demo-1"] if stem.startswith("eve-"))
    assert found["demo-1"] == {"ana", "bo", eve, "helped"}
    assert found["demo-2"] == {"ana", "bo", "half", eve}
    scaffold = (compared / "answers" / "demo-2" / "boilerplate" / "scaffold.py").read_text()
    assert "def softmax(x)" in scaffold
    assert "raise NotImplementedError" in scaffold


def test_a_helper_defined_elsewhere_is_part_of_the_answer(compared):
    text = (compared / "answers" / "demo-1" / "helped.py").read_text("utf-8")
    assert "def helper(T, S)" in text
    assert "def causal(T, S)" in text


def test_a_copy_with_other_names_is_found_and_an_independent_answer_is_not(compared):
    found = pairs(compared)
    copied = found["demo-2", "ana", "bo"]
    assert copied["same but for names"] == "yes"
    assert copied["same text"] == ""
    assert float(copied["part of the one in the other"]) == 1
    assert [names for task, *names in found if task == "demo-2"] == [["ana", "bo"]]
    assert not any("'=eve" in names for _, *names in found)


def test_the_report_shows_the_pair_and_loads_nothing(compared):
    page = (compared / "similar" / "demo-2.html").read_text("utf-8")
    assert "ana.py" in page
    assert "bo.py" in page
    assert "numerical reasons" in page
    assert "http" not in page.replace("data:image", "")[:400]
    assert "<script" not in page


def test_files_say_how_alike_a_usual_pair_is(compared):
    row = pairs(compared)["demo-2", "ana", "bo"]
    usual, known = (float(row[name]) for name in ("a usual pair", "known answers"))
    assert 0 < usual < 1
    page = (compared / "similar" / "demo-2.html").read_text("utf-8")
    assert f"A usual pair of answers to demo-2 is {usual:.0%} alike" in page
    assert f"are {known:.0%} alike. Likeness is no proof of copying." in page


def test_an_answer_that_was_taken_back_is_no_longer_there(request, tmp_path, capsys):
    exercise = source.read(request.config.rootpath / ROOT / "solutions" / "90_demo.py")
    for answer in (LONG, None):
        content = filled(exercise, {"demo-1": GOOD_1, "demo-2": answer})
        notebook.write(tmp_path / "inbox" / "ana.ipynb", notebook.dumps(content))
        assert main(call(request, tmp_path)) == 0
        assert (tmp_path / "out" / "answers" / "demo-1" / "ana.py").exists()
        there = (tmp_path / "out" / "answers" / "demo-2" / "ana.py").exists()
        assert there == bool(answer)


def test_without_copydetect_the_message_says_what_to_install(
    request, tmp_path, monkeypatch, capsys
):
    exercise = source.read(request.config.rootpath / ROOT / "solutions" / "90_demo.py")
    text = notebook.dumps(release.exercise_notebook(exercise))
    notebook.write(tmp_path / "inbox" / "ana.ipynb", text)
    monkeypatch.setitem(sys.modules, "copydetect", None)
    assert main(call(request, tmp_path, "--compare")) == 1
    assert "pip install copydetect" in capsys.readouterr().err


def test_what_the_screen_says_is_no_accusation(request, compared, capsys):
    assert main(call(request, compared.parent, "--compare")) == 0
    shown, about = capsys.readouterr()
    assert "left out, no notebooks: inbox/notes.txt" in about
    assert "demo-2  4" in shown
    assert "no proof of copying" in shown
    assert "a short answer says little" in shown.lower()


def test_a_fault_of_ours_costs_one_student_and_is_told(request, tmp_path, monkeypatch, capsys):
    def fails(*about):
        raise RecursionError("too deep")

    exercise = source.read(request.config.rootpath / ROOT / "solutions" / "90_demo.py")
    for name in ("ana", "bo"):
        content = filled(exercise, {"demo-1": GOOD_1, "demo-2": LONG})
        notebook.write(tmp_path / "inbox" / f"{name}.ipynb", notebook.dumps(content))
    monkeypatch.setattr(transplant, "transplant", fails)
    assert main(call(request, tmp_path)) == 0
    assert capsys.readouterr().err.count("no answers, RecursionError: too deep") == 2


def test_a_huge_answer_is_left_out_and_named(request, tmp_path, capsys):
    exercise = source.read(request.config.rootpath / ROOT / "solutions" / "90_demo.py")
    for name, answer in (("ana", LONG), ("bo", LONG), ("eve", LONG + "#" * 150_000)):
        content = filled(exercise, {"demo-1": None, "demo-2": answer})
        content["cells"].append(code("# EXERCISE: demo-2\n# again\n" + answer))
        notebook.write(tmp_path / "inbox" / f"{name}.ipynb", notebook.dumps(content))
    assert main(call(request, tmp_path, "--compare")) == 0
    assert "demo-2: the answer of eve is too long to compare" in capsys.readouterr().out
    assert list(pairs(tmp_path / "out")) == [("demo-2", "ana", "bo")]
