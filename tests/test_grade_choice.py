"""Of all that a student handed in, one notebook counts; however it was saved, it is read.

The numbers are those of a study of failures of other graders: 1 deleted checks, 5 Colab,
6 odd ids, 7 odd metadata, 12 encodings, 14 another kernel, 32 many kernels at once.
"""

import io
import json
import pickle
import random
import zipfile
from pathlib import PurePosixPath
from types import SimpleNamespace

import pytest
from data.handed_in import GOOD_1, GOOD_2, code, filled

from attnlearn.grading import bank, kernel, notebook, release, source
from attnlearn.grading.handed_in import inbox, students, work
from attnlearn.grading.handed_in.transplant import transplant

pytestmark = pytest.mark.xdist_group(__name__)  # what its tests share is made once

SCRIPT = "tests/data/exercises/solutions/90_demo.py"
LIMIT = 64 * 2**20
CODE = {"cell_type": "code", "metadata": {}, "outputs": []}


@pytest.fixture(scope="module")
def exercise(request):
    return source.read(request.config.rootpath / SCRIPT)


@pytest.fixture(scope="module")
def assignment(exercise):
    tables = {
        id: bank.table_of(exercise, task, {}, {cell.name: {} for cell in task.wrong})
        for id, task in exercise.tasks.items()
    }
    return SimpleNamespace(stem="90_demo", tables=tables)


@pytest.fixture(scope="module")
def right(exercise):
    return notebook.dumps(filled(exercise, {"demo-1": GOOD_1, "demo-2": GOOD_2}))


def paper(data, name="a.ipynb"):
    return inbox.Paper(PurePosixPath("class", name), 0.0, lambda: data)


def chosen(assignment, *papers):
    return work.choose(students.Student("Ana"), "Ana", papers, assignment)


def with_cells(text, cells):
    return text.replace('"cells": [', f'"cells": [{cells},', 1).encode()


def deep(depth):
    return "[" * depth + "]" * depth


def own(content):
    return next(cell for cell in content["cells"] if cell["id"] == "demo-1-answer")


def without_checks(content):
    content["cells"] = [cell for cell in content["cells"] if not cell["id"].endswith("-check")]


def colab(content):
    for cell in content["cells"]:
        cell["metadata"] = {"id": cell.pop("id"), "colab": {"base_uri": "https://localhost"}}
    content |= {"nbformat_minor": 0, "metadata": {"colab": {"provenance": []}}}


def all_ids(id):
    def change(content):
        for cell in content["cells"]:
            cell["id"] = id

    return change


def odd_metadata(content):
    content["metadata"] = []
    for cell, metadata in zip(content["cells"], [None, [], "x", 3] * 9, strict=False):
        cell["metadata"] = metadata
    own(content)["metadata"] = {"attnlearn": "x", "tags": "nbval-skip"}


def odd_cells(content):
    role = {"role": "answer", "exercise": ["demo-2"]}
    content["cells"][:0] = [
        {"source": None},
        {"cell_type": "code"},
        {"cell_type": "code", "source": [1, None, ["x"], "y = 1"]},
        {"cell_type": "code", "metadata": {"attnlearn": role}},
    ]


def two_exercises(content):
    content["cells"] += [code("# EXERCISE: masks-1\nshown = 1"), code('check("masks-1")')]


def as_text(change, encoding="utf-8"):
    return lambda content: change(notebook.dumps(content)).encode(encoding)


def same(text):
    return text


def each(change):
    return lambda content: list(map(change, content["cells"])).clear()


ALIKE = {
    "1 no checks": without_checks,
    "5 Colab": colab,
    "6 ids in 4.4": lambda content: content.update(nbformat_minor=4),
    "6 equal ids": all_ids("x"),
    "6 empty ids": all_ids(""),
    "6 numbers for ids": all_ids(7),
    "7 odd metadata": odd_metadata,
    "7 odd cells": odd_cells,
    "12 CRLF": as_text(lambda text: text.replace("\n", "\r\n")),
    "12 UTF-8 with a mark": as_text(same, "utf-8-sig"),
    "12 UTF-16": as_text(same, "utf-16"),
    "12 UTF-16 without its mark": as_text(same, "utf-16-be"),
    "12 cp1252": as_text(lambda text: text.replace("A small", "Übung:"), "cp1252"),
    "14 a kernel of R": lambda content: content.update(metadata={"kernelspec": {"name": "ir"}}),
    "12 two marks": as_text(lambda text: "\ufeff" + text, "utf-8-sig"),
    "12 cp1252 with a mark": lambda content: (
        b"\xef\xbb\xbf" + notebook.dumps(content).replace("A small", "Übung:").encode("cp1252")
    ),
    "12 UTF-16 with a byte too many": lambda content: (
        notebook.dumps(content).encode("utf-16") + b"\n"
    ),
    "zeros at the end": as_text(lambda text: text + "\0" * 99),
    "a tab in a string": as_text(lambda text: text.replace("A small", "A\tsmall")),
    "its version as text": lambda content: content.update(nbformat="4"),
    "no version at all": lambda content: content.update(nbformat=None),
    "lines without ends": lambda content: own(content).update(
        source=f"# EXERCISE: demo-1\n{GOOD_1}".split("\n")
    ),
    "a mark in a cell": lambda content: own(content).update(
        source=f"\ufeff# EXERCISE: demo-1\n{GOOD_1}"
    ),
    "NaN": as_text(lambda text: text.replace('"cells"', '"x": NaN, "cells"', 1)),
    "a key twice": as_text(lambda text: text.replace('"cells"', '"cells": 3, "cells"', 1)),
    "a huge number": as_text(lambda text: text.replace("null", "9" * 4000)),
    "kinds in capitals": each(lambda cell: cell.update(cell_type=cell["cell_type"].title())),
    "no kinds": each(lambda cell: cell.pop("cell_type")),
    "input for source": each(lambda cell: cell.update(input=cell.pop("source"))),
    "no version": lambda content: content.pop("nbformat"),
    "attachments": lambda content: own(content).update(attachments={"a.png": {"image/png": "A"}}),
    "in reverse": lambda content: content["cells"].reverse(),
    "two exercises": two_exercises,
}


@pytest.mark.parametrize("row", ALIKE)
def test_the_answers_are_found_however_it_was_saved(exercise, assignment, right, row):
    content = json.loads(right)
    data = ALIKE[row](content)
    data = data if isinstance(data, bytes) else json.dumps(content).encode()
    pristine = release.exercise_notebook(exercise)
    moved = transplant(pristine, chosen(assignment, paper(data)).content, assignment.tables)
    found = {task: list(cells.values()) for task, cells in moved.answers.items()}
    assert found == {
        "demo-1": [f"# EXERCISE: demo-1\n{GOOD_1}"],
        "demo-2": [f"# EXERCISE: demo-2\n{GOOD_2}"],
    }
    assert moved.findings == []


def test_a_broken_byte_leaves_all_other_letters_as_they_are():
    text = '{"a": "α→β"}'
    assert notebook.decode(text.encode().replace(b"a", b"\xff")) == text.replace("a", "\ufffd")


NO_NOTEBOOKS = {
    b"<!DOCTYPE html><html>": "this is a web page, no notebook",
    b"\n<html>": "this is a web page, no notebook",
    b"\x1f\x8b\x08\x00": "this is an archive of gzip, no notebook",
    b"PK\3\4 ": "this is a zip, no notebook",
    b"%PDF-1.7": "this is a PDF, no notebook",
    b"version https://git-lfs.github.com/spec/v1\n": "this is a stand-in of Git LFS",
    b'{"cells": [{"cell_type": "code", "source": {"0": "x"}}]}': "no cell's code can be read",
    b'{"a": 1,\n=======\n"b": 1\n>>>>>>> mine\n}': "a merge conflict is left",
}


@pytest.mark.parametrize("data", NO_NOTEBOOKS)
def test_what_it_is_instead_is_named(data):
    with pytest.raises(notebook.NotebookError, match=NO_NOTEBOOKS[data]):
        notebook.parse(data, "x.ipynb")


TOO_MUCH = {
    "lists": lambda text: with_cells(text, deep(2) + ", []" * 2_000_000),
    "cells": lambda text: with_cells(text, ",".join([json.dumps(CODE)] * 5000)),
    "code": lambda text: with_cells(text, json.dumps({**CODE, "source": "x = 1\n" * 90_000})),
    "depth": lambda text: with_cells(text, json.dumps(CODE).replace("[]", deep(5000))),
}
WORDS = {
    "lists": "far too many parts: clear all outputs",
    "cells": "far too much code: hand in the exercise's notebook",
    "code": "far too much code: hand in the exercise's notebook",
    "depth": "not JSON, or cut off",
}


@pytest.mark.parametrize("kind", TOO_MUCH)
def test_too_much_of_anything_has_a_reason(assignment, right, kind):
    found = chosen(assignment, paper(TOO_MUCH[kind](right)))
    assert WORDS[kind] in found.trouble
    assert found.content is None


def test_only_what_is_graded_is_kept_of_a_large_notebook(assignment, right):
    output = '"outputs": [{"output_type": "stream", "text": "%s"}]' % ("x" * 50_000_000)
    data = right.replace('"outputs": []', output, 1).encode()
    found = chosen(assignment, paper(data))
    assert len(data) > 50_000_000
    assert len(pickle.dumps(found)) < 10_000


@pytest.mark.parametrize("depth", [10, 300, 600, 900])
@pytest.mark.parametrize("part", ["id", "source", "cell_type", "metadata", "outputs"])
def test_nothing_deep_travels_to_the_workers(assignment, right, part, depth):
    cell = json.dumps({**CODE, part: "HERE"}).replace('"HERE"', deep(depth))
    found = chosen(assignment, paper(with_cells(right, cell)))
    assert found.content or found.trouble
    assert pickle.loads(pickle.dumps(found)).key == "Ana"


def test_no_more_is_read_than_it_takes(assignment, right):
    def never():
        raise AssertionError("this file is older")

    older = inbox.Paper(PurePosixPath("class/old.ipynb"), 0.0, never)
    found = chosen(assignment, paper(b"{", "cut.ipynb"), paper(right.encode()), older)
    assert found.content
    assert "3 files were handed in. a.ipynb counts" in found.findings[0]
    assert "cut.ipynb (cut.ipynb: not JSON, or cut off" in found.findings[0]
    many = chosen(assignment, *[paper(b"{")] * work.MOST_FILES, older)
    assert "not JSON" in many.trouble


def test_a_notebook_of_the_exercise_comes_before_others(assignment, right):
    other = b'{"cells": [], "nbformat": 4}'
    found = chosen(assignment, paper(other, "other.ipynb"), paper(right.encode()))
    assert found.shown == "class/a.ipynb"
    assert chosen(assignment, paper(other, "other.ipynb")).content == {"cells": []}


def test_the_notebook_of_another_exercise_is_named(assignment):
    other = json.dumps({"cells": [code("# EXERCISE: masks-1\nshown = 1")]}).encode()
    (said,) = chosen(assignment, paper(other)).findings
    assert said == (
        "This is the notebook of another exercise: it holds masks-1. Hand in that of 90_demo."
    )


def zipped(files):
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return target.getvalue()


def test_a_zip_in_a_zip_in_a_zip_is_not_opened(assignment, tmp_path, right):
    inner = zipped({"x.zip": zipped({"a.ipynb": right.encode()})})
    (tmp_path / "class.zip").write_bytes(zipped({"ana.zip": inner}))
    ((_, _, papers),) = work.collect([tmp_path], assignment, LIMIT).students
    assert chosen(assignment, *papers).trouble == "no notebook: hand in the .ipynb file"


@pytest.mark.parametrize(
    "name", ["\U00020000" * 60, "山" * 60, "a\udcff", "A" * 5000, " " * 60_000 + "x", "_1" * 30_000]
)
def test_any_name_makes_a_name_for_files(assignment, tmp_path, name):
    (tmp_path / "class.zip").write_bytes(
        zipped({f"{folder}/{name.replace(chr(0xDCFF), 'b')}.ipynb": b"" for folder in "xy"})
    )
    places = [PurePosixPath("class", folder, f"{name[:200]}.ipynb") for folder in "xy"]
    papers = [inbox.Paper(place, 0.0, bytes) for place in places]
    keys = [*students.keys(students.by_student(papers, "90_demo")).values()]
    keys += [key for _, key, _ in work.collect([tmp_path], assignment, LIMIT).students]
    assert len(keys) >= 3
    for key in keys:
        assert len(f".feedback-{key}.json.12345678".encode()) < 200


def test_what_is_nobodys_is_named(assignment, tmp_path):
    folder = tmp_path / "class"
    names = [
        "ana.ipynb",
        "jane.pdf",
        "list.csv",
        "kim/hw.ipynb",
        "kim/own.csv",
        "lee/hw.docx",
        "kim/more.7z",
    ]
    for name in [*names, "roe_1_2_essay.pdf", "submission_metadata.yml", ".DS_Store"]:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    found = work.collect([folder], assignment, LIMIT).left_out
    lost = ["class/jane.pdf", "class/kim/more.7z", "class/lee/hw.docx", "class/list.csv"]
    assert sorted(found) == lost


STRANGE = ["null", "[]", "{}", "3", "true", '"\\ud800"', '"\\u0000"', "NaN", "1e999", deep(40)]
STRANGE += ['"# EXERCISE: demo-1"', '"def causal(:"', '"markdown"', '"code"']


@pytest.mark.parametrize("seed", range(40))
def test_made_up_notebooks_break_nothing(exercise, assignment, right, seed):
    """Parts of a notebook are exchanged for others at random."""
    draw = random.Random(seed)
    tokens = json.dumps(json.loads(right)).split(", ")
    for _ in range(draw.randint(1, 30)):
        at = draw.randrange(len(tokens))
        head, colon, _ = tokens[at].rpartition(": ")
        tokens[at] = f"{head}{colon}{draw.choice(STRANGE)}"
    found = chosen(assignment, paper(", ".join(tokens).encode()))
    assert bool(found.trouble) == (found.content is None)
    if found.content:
        pickle.dumps(
            transplant(release.exercise_notebook(exercise), found.content, assignment.tables)
        )


def test_kernels_that_start_at_once_share_no_port(tmp_path):
    """32: a free port that is looked for may be another's a moment later."""
    assert kernel.connection(tmp_path)["transport"] == "ipc"
