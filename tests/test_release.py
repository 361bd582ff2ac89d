"""`attnlearn release`: the same bytes each time, nothing half written, and stale files named."""

import json
import shutil

import pytest

from attnlearn.__main__ import main
from attnlearn.grading import notebook, release, solved, source

pytestmark = pytest.mark.xdist_group(__name__)  # what its tests share is made once

DATA = "tests/data/exercises"


@pytest.fixture(scope="module")
def released(request, tmp_path_factory):
    """A copy of the demo with everything that is generated."""
    root = tmp_path_factory.mktemp("project") / "demo"
    shutil.copytree(request.config.rootpath / DATA, root)
    assert release.release(root) == []
    return root


@pytest.fixture
def project(released, tmp_path):
    root = tmp_path / "demo"
    shutil.copytree(released, root)
    return root


def files(root):
    return {p.relative_to(root): p.read_bytes() for p in root.rglob("*") if p.is_file()}


def edit(path, old, new):
    text = path.read_text("utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), "utf-8")


def test_the_repository_is_up_to_date(request):
    assert release.check(request.config.rootpath) == []


def test_a_second_release_gives_the_same_bytes(project):
    before = files(project)
    release.release(project)
    assert files(project) == before
    assert release.check(project) == []


def test_the_student_sees_neither_solutions_nor_hidden_cases(released):
    text = (released / "exercises/90_demo.ipynb").read_text("utf-8")
    assert "keepdims" not in text
    assert "drawn sizes" not in text
    assert "top-left" not in text
    cells = json.loads(text)["cells"]
    ids = [cell["id"] for cell in cells]
    assert ids[:3] == ["90-demo-exercise-01", "90-demo-exercise-02", "90-demo-exercise-03"]
    assert "demo-1-answer" in ids
    assert "demo-1-check" in ids
    assert not any(cell.get("outputs") for cell in cells)


def test_the_solved_notebook_has_outputs_and_names_the_mistakes(released):
    text = (released / "solutions/90_demo.ipynb").read_text("utf-8")
    assert "BEGIN SOLUTION" not in text
    assert "demo-1: all 3 checks pass." in text
    assert "*top-left diagonal*: The diagonal starts" in text
    assert "github.com/pytorch/pytorch/issues/103082" in text
    for secret in ("iopub", 'execution":', "ipykernel", str(released)):
        assert secret not in text


def test_a_check_that_was_not_released_is_stale(project):
    edit(project / "solutions/90_demo.py", "causal(4, 4)", "causal(6, 6)")
    stale = "\n".join(release.check(project))
    assert "90_demo.json: stale, task demo-1 differs" in stale
    assert "exercises/90_demo.ipynb: stale, source of cell" in stale
    assert "(demo-1-check) differs" in stale
    assert "solutions/90_demo.ipynb: stale" in stale


STALE = [
    ("exercises/90_demo.ipynb", "Softmax", "Softmin", "source of cell"),
    ("exercises/90_demo.ipynb", '"demo-2-answer"', '"x"', "id of cell"),
    ("solutions/90_demo.ipynb", "Softmax", "Softmin", "source of cell"),
    ("exercises/.attnlearn/90_demo.json", '"points":4.0', '"points":5.0', "task demo-1 differs"),
    ("book/90_demo.ipynb", "The end", "The beginning", "source of cell"),
    ("book/bank.md", "`demo-1` | 2", "demo-1 | 5", "does not match the tables"),
]


@pytest.mark.parametrize(
    ("file", "old", "new", "words"), STALE, ids=[f"{s[0]} {s[3]}" for s in STALE]
)
def test_a_file_edited_by_hand_is_stale(project, file, old, new, words):
    edit(project / file, old, new)
    stale = release.check(project)
    assert any(str(project / file) in line and words in line for line in stale), stale


def values(table):
    return table["tasks"]["demo-2"]["cases"][0]["value"]


@pytest.mark.parametrize(("change", "stale"), [(1e-9, False), (1e-3, True)])
def test_values_are_compared_within_tolerance(project, change, stale):
    from attnlearn.exercise.values import decode, encode

    path = project / "exercises/.attnlearn/90_demo.json"
    table = json.loads(path.read_text("utf-8"))
    values(table).update(encode(decode(values(table)) + change))
    path.write_text(notebook.dumps(table), "utf-8")
    lines = release.check(project)
    assert [f"{path}: stale, a value of demo-2, case 'two rows', differs"] * stale == lines


def test_stored_outputs_of_a_solved_notebook_are_compared(project):
    path = project / "solutions/90_demo.ipynb"
    content = json.loads(path.read_text("utf-8"))
    for cell in content["cells"]:
        if cell["id"] == "demo-1-solved":
            cell["outputs"] = cell["outputs"][1:]
    path.write_text(notebook.dumps(content), "utf-8")
    assert release.check(project) == [
        f"{path}: stale, output of demo-1, case 'square': no value arrived"
    ]


def test_missing_and_orphaned_files_are_named(project):
    (project / "exercises/90_demo.ipynb").unlink()
    (project / "exercises/91_gone.ipynb").write_text('{"cells": [], "nbformat": 4}')
    stale = "\n".join(release.check(project))
    assert "exercises/90_demo.ipynb: missing" in stale
    assert "91_gone.ipynb: no script solutions/91_gone.py" in stale


BAD = {
    "a syntax error": ("keepdims=True))", "keepdims=True)"),
    "a failing solution": ("return np.arange(S)[None, :] <= i\n", "return nothing\n"),
    "a value that is too large": ("causal(4, 4)", "causal(400, 400)"),
    "a crash in a check": ("_big = 1000.0", "_big = 1 / 0"),
    "a warning": ('print("a plain cell")', 'import sys; print("hm", file=sys.stderr)'),
    "a crash in a plain cell": ('print("a plain cell")', "1 / 0"),
}


@pytest.mark.parametrize("kind", BAD)
def test_a_script_that_fails_writes_nothing(project, kind, capsys):
    edit(project / "solutions/90_demo.py", "A small exercise", "Another exercise")
    edit(project / "solutions/90_demo.py", *BAD[kind])
    before = files(project)
    assert main(["release", "--root", str(project)]) == 1
    assert "error: " in capsys.readouterr().err
    assert files(project) == before


def test_an_unknown_stem_is_named(project):
    with pytest.raises(release.ReleaseError, match=r"no script 55_none\.py"):
        release.release(project, ["55_none"])


def test_the_command_line_says_what_is_stale(project, capsys):
    assert main(["release", "--check", "--root", str(project)]) == 0
    edit(project / "book/90_demo.ipynb", "The end", "The start")
    assert main(["release", "--check", "--root", str(project)]) == 1
    assert "90_demo.ipynb: stale" in capsys.readouterr().out


def test_a_chapter_has_stable_ids_no_outputs_and_keeps_its_tags(released):
    content = json.loads((released / "book/90_demo.ipynb").read_text("utf-8"))
    assert [cell["id"] for cell in content["cells"]] == ["90-demo-01", "90-demo-02", "90-demo-03"]
    assert content["metadata"]["kernelspec"]["name"] == "python3"
    code = content["cells"][1]
    assert code["metadata"] == {"tags": ["hide-input"]}
    assert code["outputs"] == []


def test_outputs_in_the_book_are_refused(project):
    path = project / "book/90_demo.ipynb"
    content = json.loads(path.read_text("utf-8"))
    content["cells"][1]["outputs"] = [{"output_type": "stream", "name": "stdout", "text": ["2"]}]
    path.write_text(notebook.dumps(content), "utf-8")
    assert release.check(project) == [f"{path}: cell 2 (90-demo-02) has outputs"]


def test_a_notebook_without_its_text_is_named_and_checkpoints_are_not(project):
    cell = notebook.markdown_cell("scratch-01", "text")
    stray, saved = project / "book/scratch.ipynb", project / "book/.ipynb_checkpoints/a.ipynb"
    saved.parent.mkdir()
    for path in (stray, saved):
        path.write_text(notebook.dumps(notebook.new([cell])), "utf-8")
    assert release.check(project) == [
        f"{stray}: there is no scratch.md beside it, from which it would be made"
    ]


def test_a_chapter_that_cannot_be_read_is_named(project):
    (project / "book/90_demo.md").write_text("---\nkernelspec: [\n---\n\ntext\n", "utf-8")
    with pytest.raises(ValueError, match=r"(?s)90_demo\.md: .*copy the header"):
        release.check(project)


def test_nothing_to_release_is_an_error(tmp_path, capsys):
    assert main(["release", "--check", "--root", str(tmp_path)]) == 1
    assert "no folder solutions/" in capsys.readouterr().err


def test_an_id_that_is_used_twice_is_refused(project):
    path = project / "exercises/99_other.ipynb"
    cells = [notebook.markdown_cell("90-demo-01", "text")]
    path.write_text(notebook.dumps(notebook.new(cells)), "utf-8")
    (line,) = (fault for fault in release.check(project) if "has the id" in fault)
    assert "has the id '90-demo-01' of" in line
    assert str(path) in line


def test_a_solution_that_fails_in_a_kernel_is_refused(released):
    exercise = source.read(released / "solutions/90_demo.py")
    table = release.exercise_table(exercise)
    table["tasks"]["demo-1"]["cases"][0]["value"]["b64"] = "AA" * 8 + "AAAAAA=="
    with pytest.raises(solved.SolvedError, match="output of demo-1, case 'square'"):
        solved.run(solved.build(exercise), table)
