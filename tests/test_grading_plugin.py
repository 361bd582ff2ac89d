"""`pytest --nbval` on what students hand in: real kernels, one pytest run for all notebooks.

Each notebook holds two tasks; a row of NOTEBOOKS says what its author did, and what both get.
"""

import json
import os
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree

import nbclient
import nbformat
import pytest
from data.handed_in import ANSWERS, DAMAGED, PASS, SHAPES, code, filled

from attnlearn.__main__ import main
from attnlearn.grading import kernel, notebook, release, source, verdict
from attnlearn.grading.selfcheck import plugin_option

pytestmark = pytest.mark.xdist_group(__name__)  # what its tests share is made once

SCRIPT = "tests/data/exercises/solutions/90_demo.py"
LIMIT = 4  # seconds for one cell


@pytest.fixture(scope="module")
def exercise(request):
    return source.read(request.config.rootpath / SCRIPT)


@pytest.fixture(scope="module")
def handed_in(exercise, tmp_path_factory):
    folder = tmp_path_factory.mktemp("handed in")
    table = release.exercise_table(exercise)
    notebook.write(folder / ".attnlearn" / "90_demo.json", notebook.dumps(table))
    contents = {name: make(exercise) for name, (make, *_) in SHAPES.items()}
    for name, (one, two, *_) in ANSWERS.items():
        contents[name] = filled(exercise, {"demo-1": one, "demo-2": two})
    contents["unknown task"] = notebook.new([code("# EXERCISE: demo-9\nx = 1")])
    ordinary = notebook.new([code("print(1)")])
    ordinary["cells"][0] |= {
        "execution_count": 1,
        "outputs": [{"output_type": "stream", "name": "stdout", "text": "1\n"}],
    }
    contents["ordinary"] = ordinary
    for name, content in contents.items():
        notebook.write(folder / f"{name}.ipynb", notebook.dumps(content))
    for name, (text, _) in DAMAGED.items():
        (folder / f"{name}.ipynb").write_text(text)
    return folder


def run_pytest(folder, *options):
    command = [sys.executable, "-m", "pytest", "--nbval", f"--nbval-cell-timeout={LIMIT}", "-q"]
    command += ["--color=no", "-p", "no:cacheprovider", *plugin_option(), *options]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)


@pytest.fixture(scope="module")
def results(handed_in):
    """{(notebook, item): (failure text or None, properties)} of one pytest run, and its output."""
    start = time.monotonic()
    done = run_pytest(handed_in, "--junitxml=out.xml", ".")
    found = {}
    for item in ElementTree.parse(handed_in / "out.xml").iter("testcase"):
        failure = item.find("failure")
        properties = {p.get("name"): p.get("value") for p in item.iter("property")}
        text = None if failure is None else failure.text
        name = (item.get("classname").removesuffix(".ipynb"), item.get("name"))
        found[name] = (text, properties)
    found["output"] = done.stdout
    found["seconds"] = time.monotonic() - start
    return found


EXPECTED = [
    (name, task, row[-2 + n])
    for name, row in {**ANSWERS, **SHAPES}.items()
    for n, task in enumerate(["demo-1", "demo-2"])
]


@pytest.mark.parametrize(("name", "task", "words"), EXPECTED)
def test_each_task_gets_its_verdict(results, name, task, words):
    text, properties = results[name, task]
    points = {"demo-1": 4, "demo-2": 2}[task]
    assert float(properties["points"]) == points
    if words is PASS:
        assert text is None
        assert float(properties["earned"]) == points
    else:
        assert words in text
        assert float(properties["earned"]) < points


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_notebook_fails_alone(results, name):
    text, _ = results[name, "notebook"]
    assert f"{name}.ipynb: " in text
    assert DAMAGED[name][1] in text


def test_an_unknown_task_fails_and_an_ordinary_notebook_is_left_to_nbval(results):
    assert "no expected values" in results["unknown task", "demo-9"][0]
    assert results["ordinary", "Cell 0"] == (None, {})


def test_the_mistake_is_a_property_and_points_are_summed_up(results):
    assert results["mistakes", "demo-1"][1]["mistakes"] == "top-left diagonal"
    section = results["output"].split("points (self-check)")[1]
    assert "solved.ipynb\n  demo-1             4 of 4\n  demo-2             2 of 2\n" in section
    assert "together           6 of 6" in section


def test_dead_and_endless_kernels_cost_little_time(results):
    assert results["seconds"] < 120


def test_one_task_can_be_run_alone(handed_in):
    done = run_pytest(handed_in, "-k", "demo-2", "mistakes.ipynb", "solved.ipynb")
    assert "1 failed, 1 passed" in done.stdout
    assert "no maximum subtracted" in done.stdout


def test_the_plugin_is_silent_without_nbval(handed_in):
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *plugin_option(), "-p", "no:nbval", "."],
        cwd=handed_in,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert "no tests ran" in done.stdout


def check(*paths):
    done = subprocess.run(
        [sys.executable, "-m", "attnlearn", "check", *map(str, paths)],
        cwd=paths[0].parent,
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    return done.returncode, done.stdout


def test_the_command_says_the_same_and_sets_the_exit_code(handed_in):
    code, out = check(handed_in / "solved.ipynb")
    assert code == 0
    assert "demo-1: all 3 checks pass.  4 of 4 points." in out
    assert "Together 6 of 6 points." in out
    code, out = check(handed_in / "untidy.ipynb", handed_in / "truncated.ipynb")
    assert code == 1
    assert "the answer uses `helper` of cell" in out
    assert "truncated.ipynb: not JSON, or cut off" in out


def test_the_command_takes_the_notebooks_of_a_folder(handed_in, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "a.ipynb").write_bytes((handed_in / "ordinary.ipynb").read_bytes())
    (tmp_path / "none").mkdir()
    code, out = check(tmp_path / "mine", tmp_path / "none")
    assert code == 1
    assert "a.ipynb: no exercise in it" in out
    assert "none: no notebook in this folder" in out


def test_points_have_two_decimals():
    assert [verdict.short(points) for points in (4 * 3 / 11, 4.0, 0.5)] == ["1.09", "4", "0.5"]


def test_the_command_names_what_it_cannot_check(handed_in, capsys):
    missing = handed_in / "none.ipynb"
    assert main(["check", str(missing)]) == 1
    assert "none.ipynb: no such file" in capsys.readouterr().out
    code, out = check(handed_in / "ordinary.ipynb")
    assert code == 1
    assert "ordinary.ipynb: no exercise in it" in out


def live(folder, name, elsewhere):
    """Text and HTML of what a student sees who runs a notebook."""
    node = nbformat.read(folder / f"{name}.ipynb", as_version=4)
    client = nbclient.NotebookClient(
        node, kernel_name="python3", resources={"metadata": {"path": elsewhere}}
    )
    client.execute(env=kernel.environment(ATTNLEARN_TABLES=str(folder / ".attnlearn")))
    outputs = [
        o["data"] for c in node.cells if c.cell_type == "code" for o in c.outputs if "data" in o
    ]
    text = "".join(data["text/plain"] + "\n" for data in outputs)
    return text, "".join(data["text/html"] for data in outputs)


def test_an_exit_in_a_case_leaves_a_live_kernel_alive(handed_in, tmp_path):
    text, _ = live(handed_in, "exits in a case", tmp_path)
    assert "✗ decoding   causal(1, 5)\n    raised SystemExit (in causal, line 3)" in text
    assert "demo-2: all 4 checks pass." in text
    assert "from outside" not in text


def test_a_live_notebook_answers_at_once_wherever_it_lies(handed_in, tmp_path):
    text, page = live(handed_in, "mistakes", tmp_path)
    assert "✗ decoding   causal(1, 5)\n    4 of 5 entries differ, first at [0, 1]" in text
    assert "Mistake: top-left diagonal" in text
    assert "<b>wrong</b>: decoding" in page
    assert "<b>Mistake: no maximum subtracted</b>" in page


def test_the_kernel_emits_values_and_no_verdict(exercise):
    kinds = {
        case["value"]["k"] for case in release.exercise_table(exercise)["tasks"]["demo-1"]["cases"]
    }
    assert kinds == {"array"}
    assert "✓" not in json.dumps(release.exercise_notebook(exercise))
