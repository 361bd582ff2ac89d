"""Reading what people send: forgiving where it can be, clear where it can't."""

import json

import pytest

from attnlearn.grading import notebook

ANSWER = "# EXERCISE: demo-1\ndef causal(T, S):\n    return 1"
CHECK = 'case = check("demo-1")\ncase("square", lambda: causal(4, 4))'
PLAIN = {
    "cells": [
        {"cell_type": "markdown", "metadata": {}, "source": ["text"]},
        {"cell_type": "code", "metadata": {}, "source": ANSWER, "outputs": []},
        {"cell_type": "code", "metadata": {}, "source": CHECK.splitlines(True), "outputs": []},
    ],
    "metadata": {},
    "nbformat": 4,
    "nbformat_minor": 5,
}


def changed(**parts):
    return json.dumps({**PLAIN, **parts}).encode()


def careless(**parts):
    cells = [{**cell, **parts} for cell in PLAIN["cells"]]
    return changed(cells=cells)


FORGIVEN = {
    "plain": json.dumps(PLAIN).encode(),
    "byte order mark": b"\xef\xbb\xbf" + json.dumps(PLAIN).encode(),
    "UTF-16": json.dumps(PLAIN).encode("utf-16"),
    "Windows line ends": json.dumps(PLAIN, indent=1).replace("\n", "\r\n").encode(),
    "line ends in a cell": json.dumps(PLAIN).replace("\\n", "\\r\\n").encode(),
    "equal ids": careless(id="same"),
    "bad ids": careless(id="not an id!"),
    "no metadata": careless(metadata=None),
    "Colab": changed(
        nbformat_minor=0,
        metadata={"colab": {"provenance": []}, "kernelspec": {"name": "python3"}},
        cells=[{**cell, "metadata": {"id": "x1", "colab": {}}} for cell in PLAIN["cells"]],
    ),
    "a foreign kernel": changed(metadata={"kernelspec": {"name": "conda-env-x"}}),
    "no version": json.dumps({"cells": PLAIN["cells"]}).encode(),
    "a raw cell": changed(cells=[{"cell_type": "raw", "source": "x"}, *PLAIN["cells"]]),
}
DAMAGED = {
    "an empty file": (b"", "the file is empty"),
    "spaces": (b" \n", "the file is empty"),
    "truncated": (json.dumps(PLAIN).encode()[:200], "not JSON, or cut off"),
    "binary": (b"\x89PNG\r\n\x1a\n\x00\xff", "this is no text"),
    "a list": (b"[1, 2]", "JSON, but not a notebook"),
    "a number": (b"3", "JSON, but not a notebook"),
    "other JSON": (b'{"a": 1}', "it has no list of cells"),
    "cells of text": (b'{"cells": ["a"], "nbformat": 4}', "it has no list of cells"),
    "nbformat 9": (changed(nbformat=9), "nbformat 9 is unknown"),
    "nbformat long": (changed(nbformat="x" * 10**6), f"nbformat '{'x' * 19} is unknown"),
    "nbformat text": (changed(nbformat="four"), "nbformat 'four' is unknown"),
    "nbformat 3": (b'{"nbformat": 3, "worksheets": []}', "this is nbformat 3: open it in Jupyter"),
    "a merge conflict": (b'{"cells": [\n<<<<<<< HEAD\n', "a merge conflict is left"),
    "deep": (b"[" * 100_000, "not JSON, or cut off"),
}


@pytest.mark.parametrize("kind", FORGIVEN)
def test_a_careless_notebook_is_read(tmp_path, kind):
    path = tmp_path / "student.ipynb"
    path.write_bytes(FORGIVEN[kind])
    content = notebook.load(path)
    assert notebook.task_ids(content) == ["demo-1"]
    sources = [cell["source"] for _, cell in notebook.code_cells(content)]
    assert sources == [ANSWER, CHECK]


@pytest.mark.parametrize("kind", DAMAGED)
def test_a_damaged_notebook_is_named_with_its_trouble(tmp_path, kind):
    data, words = DAMAGED[kind]
    path = tmp_path / "student.ipynb"
    path.write_bytes(data)
    with pytest.raises(notebook.NotebookError) as error:
        notebook.load(path)
    assert str(path) in str(error.value)
    assert words in str(error.value)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(notebook.NotebookError, match="No such file"):
        notebook.load(tmp_path / "none.ipynb")


LINE, ROLE = "# EXERCISE: a-1\n", {"attnlearn": {"role": "answer", "exercise": "a-1"}}


@pytest.mark.parametrize(
    "cell",
    [
        {"source": LINE, "metadata": {}},
        {"source": "", "metadata": ROLE, "id": "x"},
        {"source": "", "metadata": {"attnlearn": "odd"}, "id": "a-1-answer"},
    ],
)
def test_an_answer_is_known_by_its_line_its_role_or_its_id(cell):
    assert notebook.answers(cell) == {"a-1"}


def test_other_cells_are_no_answers():
    check = {"attnlearn": {"role": "check", "exercise": "a-1"}}
    assert notebook.answers({"source": "", "metadata": check, "id": 7}) == set()


def test_an_ordinary_notebook_has_no_tasks():
    cells = [{"cell_type": "code", "source": 'check("x")', "metadata": {}}]
    assert notebook.task_ids({"cells": cells}) == []


def test_a_file_is_replaced_as_a_whole(tmp_path):
    path = tmp_path / "new" / "file.json"
    notebook.write(path, "one\n")
    with pytest.raises(UnicodeEncodeError):
        notebook.write(path, "\ud800")
    assert path.read_text() == "one\n"
    assert [p.name for p in path.parent.iterdir()] == ["file.json"]


def test_the_first_change_is_named():
    new = notebook.new([notebook.code_cell("a-1", "x = 1")])
    assert notebook.changes(new, new) == ""
    other = notebook.new([notebook.code_cell("a-1", "x = 2")])
    assert notebook.changes(other, new) == "source of cell 1 (a-1) differs"
    assert notebook.changes(notebook.new([]), new) == "0 cells instead of 1"
