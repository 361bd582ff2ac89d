"""What students' cells do in real courses, and what each should get for it.

The numbers are those of a study of failures of other graders: 2 split cells, 4 no metadata,
20 a warning, 22 to 24 bars, late output and widgets, 25 nothing earned, 26 no points to earn.
Files as they arrive are in test_grade_choice, answers that end their kernel in test_grade_class.
"""

import json

import pytest
from data.handed_in import GOOD_1, GOOD_2, code, filled

from attnlearn.__main__ import main
from attnlearn.grading import notebook, results, source

pytestmark = pytest.mark.xdist_group(__name__)  # what its tests share is made once

SCRIPT = "tests/data/exercises/solutions/90_demo.py"
MORE = '''
# %% answer demo-3 points=1 minutes=1 difficulty=1
def bits():
    """The bits of a number of torch that nobody asked to be longer."""
    # BEGIN SOLUTION
    return 32
    # END SOLUTION

# %% check demo-3
case = check("demo-3")
case("bits", lambda: max(0, bits()))

# %% wrong demo-3 double
# That many has float64.
def bits():
    return 64

# %% answer demo-4 points=0 minutes=1 difficulty=1
def extra():
    # BEGIN SOLUTION
    return 1
    # END SOLUTION

# %% check demo-4
case = check("demo-4")
case("extra", lambda: extra())

# %% wrong demo-4 none
# One.
def extra():
    return 0
'''
GOOD = {"demo-1": GOOD_1, "demo-2": GOOD_2, "demo-3": "def bits():\n    return 32\n"}
FULL = (4, 2, 1)
HERE = "# EXERCISE: demo-1\n"
HALVES = (
    "def rows(T, S):\n    return np.arange(S - T, S)[:, None]\n",
    "def causal(T, S):\n    return np.arange(S)[None, :] <= rows(T, S)\n",
)


def own(content, task="demo-1"):
    return next(cell for cell in content["cells"] if cell.get("id") == f"{task}-answer")


def put(content, text):
    """A cell of the student's own, below the first answer."""
    content["cells"].insert(content["cells"].index(own(content)) + 1, code(text))


def split(content):
    own(content)["source"] = HERE + HALVES[0]
    put(content, HALVES[1])


def split_and_marked(content):
    own(content)["source"] = HERE + HALVES[0]
    put(content, HERE + HALVES[1])


def bare(content):
    """No line, no metadata, no id; what is left is what the cells define."""
    for cell in content["cells"]:
        cell["source"] = notebook.joined(cell["source"]).replace("# EXERCISE: ", "# ")
        cell["metadata"] = {}
        del cell["id"]


def another_exercise(content):
    text = "# EXERCISE: masks-1\nfrom attnlearn.exercise import check\nshown = 1"
    content["cells"] = [code(text)]


def from_a_file(content):
    put(content, f"%%writefile mine.py\nimport numpy as np\n{GOOD_1}")
    own(content)["source"] = f"{HERE}from mine import causal\n"


def defined_by_a_text(content):
    content["cells"].insert(0, code(f"exec({HALVES[0]!r})"))
    own(content)["source"] = HERE + HALVES[1]


def in_the_check(content):
    check = next(cell for cell in content["cells"] if cell["id"] == "demo-1-check")
    check["source"] = GOOD_1 + notebook.joined(check["source"])
    content["cells"].remove(own(content))


def filled_table(content):
    content["cells"].insert(0, code("table = {}\nfor n in range(99):\n    table[n] = n"))
    own(content)["source"] = HERE + GOOD_1.replace("(S)", "(table[S])", 1)


def cell(**changes):
    """Changes of the first answer's cell."""
    return lambda content: own(content).update(changes)


def answers(one=GOOD_1, two=GOOD_2, three=GOOD["demo-3"], four=None):
    def change(content):
        for number, answer in enumerate((one, two, three, four), 1):
            if answer is not None:
                own(content, f"demo-{number}")["source"] = f"# EXERCISE: demo-{number}\n{answer}"

    return change


def first(before="", after="", case=""):
    """A right answer of the first task, with more around it or in it."""
    lines = "".join(f"    {line}\n" for line in case.splitlines())
    return answers(before + GOOD_1.replace("    return", f"{lines}    return") + after)


WIDGETS = """\
import ipywidgets
from IPython.display import clear_output, display
ipywidgets.interact(lambda x: x, x=(0, 9))
display(ipywidgets.IntProgress())
clear_output()
"""
LATE = """\
import threading, time
def later():
    for _ in range(5):
        time.sleep(0.2)
        print("still here", flush=True)
threading.Thread(target=later).start()
"""
LOGS = """\
import logging
logging.basicConfig(level=0, force=True)
for n in range(200):
    logging.debug("line %d", n)
"""
FIGURE = "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()\n"
NAMES = "check = case = print\nnp = 3\n"
NO_CODE = "cell 5 answers it, but is no code cell"
ELSEWHERE = "defines what it asks for"
# row: (change of a right notebook, points, words in the result)
ROWS = {
    "2 split": (split, FULL, f"cell 6 {ELSEWHERE}"),
    "2 split and marked": (split_and_marked, FULL, "Those that differ ran in this order"),
    "2 below the scaffold": (lambda c: (c.update(blank()), put(c, GOOD_1)), FULL, ELSEWHERE),
    "4 bare": (bare, FULL, ELSEWHERE),
    "20 a warning": (first(case="import warnings; warnings.warn('old')"), FULL, ""),
    "22 tqdm": (first(case="from tqdm.auto import tqdm; list(tqdm(range(9)))"), FULL, ""),
    "23 late output": (first(before=LATE), FULL, ""),
    "24 widgets": (first(case=WIDGETS), FULL, ""),
    "25 nothing earned": (answers("def causal(T, S):\n    return 0\n"), (0, 2, 1), ""),
    "26 no points to earn": (answers(four="def extra():\n    return 1\n"), FULL, ""),
    "a figure": (first(before=FIGURE), FULL, ""),
    "many logs": (first(case=LOGS), FULL, ""),
    "half a character": (first(before="# \ud83d\n"), FULL, ""),
    "a null byte": (first(before="# \0\n"), FULL, ""),
    "another exercise": (another_exercise, (0, 0, 0), "demo-1: no answer cell was found."),
    "turned to text": (cell(cell_type="markdown"), (0, 2, 1), NO_CODE),
    "turned to raw": (cell(cell_type="raw"), (0, 2, 1), NO_CODE),
    "no type": (cell(cell_type=[]), (0, 2, 1), NO_CODE),
    "magic": (first(before="%matplotlib inline\n%time 1\n!true\n"), FULL, ""),
    "magic of a cell": (cell(source=f"%%time\n{HERE}{GOOD_1}"), FULL, ""),
    "autoreload": (first(before="%load_ext autoreload\n%autoreload 2\n"), FULL, ""),
    "unknown magic": (first(before="%load_ext nothing\n"), (0, 2, 1), "ModuleNotFoundError"),
    "pip": (first(before="!pip --version\n"), FULL, ""),
    "written to a file": (
        cell(source=f"%%writefile mine.py\n{HERE}{GOOD_1}"),
        (0, 2, 1),
        "name 'causal' is not defined",
    ),
    "defined by a text": (defined_by_a_text, (0, 2, 1), "No cell that ran defines `rows`"),
    "read from a file": (from_a_file, (0, 2, 1), "ModuleNotFoundError: No module named 'mine'"),
    "the checks' names": (first(before=NAMES, after="import numpy as np\n"), FULL, "rebinds"),
    "a star": (answers(three=f"from numpy import *\n{GOOD['demo-3']}"), FULL, ""),
    "a name of Python's": (answers(three=f"max = 3\n{GOOD['demo-3']}"), FULL, ""),
    "a star that is used": (
        answers(three="from numpy import *\ndef bits():\n    return int(max([32]))\n"),
        (4, 2, 0),
        "rebinds `max`, which the checks use",
    ),
    "magic below the line": (first(before="%%time\n"), (0, 2, 1), "has the command `%%time`"),
    "exit": (first(after="exit()\n"), FULL, ""),
    "an error below": (first(after="1 / 0\n"), FULL, "Note: the answer cell stopped below"),
    "in the check's cell": (in_the_check, FULL, ELSEWHERE),
    "a wrong id": (cell(source=f"# EXERCISE: demo1\n{GOOD_1}"), FULL, ELSEWHERE),
    "a filled table": (filled_table, FULL, "`table` of cell 1 came along"),
    "quit in a case": (first(case="quit()"), (0, 2, 1), "raised SystemExit"),
    "input": (first(case="input('?')"), (0, 2, 1), "raised StdinNotImplementedError"),
    "await": (first(before="import asyncio\nawait asyncio.sleep(0)\n"), FULL, ""),
}
# What a careless answer does to the whole kernel; the answers below it would mind.
CARELESS = {
    "the type of torch": "import torch\ntorch.set_default_dtype(torch.float64)\n",
    "no gradients": "import torch\ntorch.set_grad_enabled(False)\n",
    "raising floats": "np.seterr(all='raise')\n",
    "warnings as errors": "import warnings\nwarnings.simplefilter('error')\n",
    "another folder": "import os, tempfile\nos.chdir(tempfile.mkdtemp())\nos.rmdir(os.getcwd())\n",
    "little recursion": "import sys\nsys.setrecursionlimit(250)\n",
    "the sum is zero": "sum = 0\nfor n in range(3):\n    sum = sum + n\n",
    "a list called list": "list = [1, 2]\n",
    "another exp": "np.exp = lambda x: x * 0\nimport math\nmath.sqrt = None\n",
    "another max": "import builtins\nbuiltins.max = min\n",
    "its own seed": "np.random.seed(1)\n",
    "reset": "%reset -f\nimport numpy as np\n",
}
MINDS = """\
import math, warnings
warnings.warn("old")
np.ones(1) * 1e308 * 10
open("mine.txt", "w").close()
assert sum([1, 2]) == max([1, 3]) == math.sqrt(9) == 3
assert list("a") == ["a"]
def deep(n):
    return n and deep(n - 1)
deep(300)
"""
MINDS_3 = """\
import torch
def bits():
    assert torch.ones(1, requires_grad=True).exp().requires_grad
    return torch.finfo(torch.ones(1).dtype).bits
"""


def carelessly(text):
    return answers(text + GOOD_1, MINDS + GOOD_2, MINDS_3)


def blank():
    return filled(EXERCISE, GOOD | {"demo-1": None})


def write_exercise(folder, root):
    """The small exercise with two tasks more; the tests read it as EXERCISE."""
    global EXERCISE
    script = folder / "solutions" / "90_demo.py"
    script.parent.mkdir()
    script.write_text((root / SCRIPT).read_text("utf-8") + MORE, "utf-8")
    EXERCISE = source.read(script)


def handed_in(change):
    content = filled(EXERCISE, GOOD)
    change(content)
    return json.dumps(content).encode()


@pytest.fixture(scope="module")
def graded(request, tmp_path_factory):
    """{row: result} of one run."""
    folder = tmp_path_factory.mktemp("failures")
    write_exercise(folder, request.config.rootpath)
    (folder / "in").mkdir()
    changes = [change for change, *_ in ROWS.values()] + [*map(carelessly, CARELESS.values())]
    for number, change in enumerate(changes):
        (folder / "in" / f"s{number:02}.ipynb").write_bytes(handed_in(change))
    words = ["grade", folder / "in", "--assignment", "90_demo", "--out", folder / "out"]
    words += ["--exercises", folder, "--sandbox", "L0", "--allow-weak-sandbox"]
    assert main([*map(str, words), "--seed", "of the failures"]) == 0
    paths = sorted((folder / "out" / "results").iterdir())
    results = [json.loads(path.read_text("utf-8")) for path in paths]
    return dict(zip([*ROWS, *CARELESS], results, strict=True))


def points(result):
    *earned, extra = (task["earned"] for task in result["exercises"])
    assert extra == 0
    return tuple(earned)


@pytest.mark.parametrize("row", ROWS)
def test_everybody_gets_what_is_right(graded, row):
    _, due, words = ROWS[row]
    assert points(graded[row]) == due, graded[row]
    assert graded[row]["max_score"] == sum(FULL)
    assert words in json.dumps(graded[row], ensure_ascii=False)


@pytest.mark.parametrize("row", CARELESS)
def test_a_careless_answer_costs_nobody_else_anything(graded, row):
    assert points(graded[row]) == FULL, graded[row]


def test_remarks_fit_into_a_table():
    said = results._short([str(n) for n in range(5000)])
    assert said[-2:] == ["59", "And 4940 remarks more."]


def test_a_task_without_points_is_solved_or_not(graded):
    status = {row: graded[row]["exercises"][3]["status"] for row in ROWS}
    assert status.pop("26 no points to earn") == "solved"
    assert set(status.values()) == {"blank", "missing"}
