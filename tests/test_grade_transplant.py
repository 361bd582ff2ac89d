"""Answers move into the pristine notebook; what arrives from a kernel is the word of a stranger."""

import copy
import json
import time

import pytest
from data.handed_in import GOOD_1, GOOD_2, HELPER, TOP_LEFT, code, filled

from attnlearn.exercise import MIME
from attnlearn.grading import bank, bans, notebook, records, release, source
from attnlearn.grading.handed_in import carried
from attnlearn.grading.handed_in.transplant import LONGEST, transplant

pytestmark = pytest.mark.xdist_group(__name__)  # what its tests share is made once

SCRIPT = "tests/data/exercises/solutions/90_demo.py"


@pytest.fixture(scope="module")
def exercise(request):
    return source.read(request.config.rootpath / SCRIPT)


@pytest.fixture(scope="module")
def tables(exercise):
    def table(task):
        return bank.table_of(exercise, task, {}, {cell.name: {} for cell in task.wrong})

    return {id: table(task) for id, task in exercise.tasks.items()}


@pytest.fixture
def move(exercise, tables):
    """The transplant of a student's notebook, read as it would be from a file."""

    def moved(student):
        student = notebook.parse(json.dumps(student).encode(), "x.ipynb")
        return transplant(release.exercise_notebook(exercise), student, tables)

    return moved


def both(exercise, one=GOOD_1, two=GOOD_2):
    return filled(exercise, {"demo-1": one, "demo-2": two})


def cell(content, id):
    return next(c for c in content["cells"] if c["id"] == id)


def sources(moved, task):
    return [s.removeprefix(f"# EXERCISE: {task}\n") for s in moved.answers[task].values()]


def stripped(content):
    """As Colab or a conversion leaves it: no ids, no metadata."""
    for c in content["cells"]:
        c.pop("id")
        c["metadata"] = {}
    return content


def test_answers_take_the_places_of_the_scaffolds(exercise, move):
    moved = move(both(exercise))
    assert sources(moved, "demo-1") == [GOOD_1]
    assert sources(moved, "demo-2") == [GOOD_2]
    assert moved.findings == []
    kinds = [c["id"] for c in moved.content["cells"]]
    assert kinds.index("demo-1-check") < kinds.index("demo-2-check")


def test_only_answers_are_taken(exercise, move):
    content = both(exercise)
    cell(content, "demo-1-check")["source"] = 'case = check("demo-1")\nprint("all pass")'
    content["cells"].insert(0, code("import os\nos._exit(0)"))
    content["metadata"]["kernelspec"] = {"name": "conda-env-x"}
    pristine = release.exercise_notebook(exercise)
    moved = move(content).content
    assert moved["metadata"] == pristine["metadata"]
    texts = [c["source"] for c in moved["cells"]]
    assert not any("os._exit" in text or "all pass" in text for text in texts)
    assert sum("case = check" in text for text in texts) == 2


WAYS = {
    "its line": lambda c: (c.pop("id"), c.update(metadata={})),
    "its role": lambda c: (c.pop("id"), c.update(source=GOOD_1)),
    "its id": lambda c: c.update(metadata={}, source=GOOD_1),
    "Colab's id": lambda c: c.update(metadata={"id": c.pop("id")}, source=GOOD_1),
    "what it defines": lambda c: (c.pop("id"), c.update(metadata={}, source=GOOD_1)),
}


@pytest.mark.parametrize("way", WAYS)
def test_an_answer_is_found_by(exercise, move, way):
    content = both(exercise)
    WAYS[way](cell(content, "demo-1-answer"))
    moved = move(content)
    assert sources(moved, "demo-1") == [GOOD_1]
    assert bool(moved.findings) == (way == "what it defines")


def test_the_line_beats_the_metadata_of_a_copied_cell(exercise, move):
    content = both(exercise, two="")
    own = copy.deepcopy(cell(content, "demo-1-answer"))
    own["source"] = f"# EXERCISE: demo-2\n{GOOD_2}"
    content["cells"].append(own)
    content["cells"].remove(cell(content, "demo-2-answer"))
    moved = move(content)
    assert sources(moved, "demo-1") == [GOOD_1]
    assert sources(moved, "demo-2") == [GOOD_2]


def test_a_notebook_without_ids_and_metadata(exercise, move):
    moved = move(stripped(both(exercise)))
    assert (sources(moved, "demo-1"), sources(moved, "demo-2")) == ([GOOD_1], [GOOD_2])


LINES = ["demo1", "demo_1", "Demo-1", "demo-1a", "demo-2", "masks-1"]


@pytest.mark.parametrize("id", LINES)
def test_a_line_with_a_wrong_id_does_not_cost_the_answer(exercise, move, id):
    content = both(exercise)
    cell(content, "demo-1-answer")["source"] = f"# EXERCISE: {id}\n{GOOD_1}"
    moved = move(content)
    assert list(moved.answers["demo-1"].values()) == [f"# EXERCISE: {id}\n{GOOD_1}"]
    assert sources(moved, "demo-2") == [GOOD_2]
    assert "cell 5 defines what it asks for, without `# EXERCISE: demo-1`" in moved.findings[0]


@pytest.mark.parametrize("scaffold", [True, False])
def test_an_answer_in_the_cell_of_a_check_counts(exercise, move, scaffold):
    content = both(exercise, one=None)
    check = cell(content, "demo-1-check")
    check["source"] = GOOD_1 + notebook.joined(check["source"])
    if not scaffold:
        content["cells"].remove(cell(content, "demo-1-answer"))
    moved = move(content)
    assert sources(moved, "demo-1") == [GOOD_1]
    assert "defines what it asks for" in moved.findings[0]


@pytest.mark.parametrize("text", ["", TOP_LEFT], ids=["scaffold", "attempt"])
@pytest.mark.parametrize("in_check", [False, True])
def test_an_answer_below_its_cell_counts_as_the_check_saw_it(exercise, move, text, in_check):
    content = both(exercise, one=text or None)
    own = cell(content, "demo-1-answer")
    own["source"] = notebook.joined(own["source"]) + "\n# mine is below\n"
    check = cell(content, "demo-1-check")
    at = content["cells"].index(check)
    if in_check:
        check["source"] = GOOD_1 + notebook.joined(check["source"])
    else:
        content["cells"].insert(at, code(GOOD_1))
    content["cells"].append(code("def causal(T, S):\n    return 'scratch'\n"))
    moved = move(content)
    assert sources(moved, "demo-1")[-1] == GOOD_1
    assert f"cell {at + 1} defines what it asks for" in moved.findings[0]
    assert "scratch" not in json.dumps(moved.content)


ADDED = ["def f(self):\n    return 1\ncausal.f = f\n", "@add(causal)\ndef f(self):\n    return 1\n"]


@pytest.mark.parametrize("text", ADDED)
def test_a_class_may_go_on_in_the_cells_below_it(exercise, move, text):
    first = "class causal:\n    pass\n"
    content = both(exercise, one=first)
    content["cells"].insert(content["cells"].index(cell(content, "demo-1-check")), code(text))
    assert sources(move(content), "demo-1") == [first, text]


def test_two_tasks_may_ask_for_one_name(exercise, tables):
    two = "def causal(x):\n    return x\n"
    content = stripped(both(exercise, two=two))
    for c in content["cells"]:
        c["source"] = [line for line in c["source"] if "EXERCISE" not in line]
    content = notebook.parse(json.dumps(content).encode(), "x.ipynb")
    tables = tables | {"demo-2": tables["demo-2"] | {"defines": ["causal"]}}
    moved = transplant(release.exercise_notebook(exercise), content, tables)
    assert sources(moved, "demo-1") == [GOOD_1]
    assert sources(moved, "demo-2") == [two]


@pytest.mark.parametrize("answer_too", [False, True])
def test_a_helper_in_the_cell_of_a_check_comes_along(exercise, move, answer_too):
    answer = HELPED.replace("rows", "helper")
    content = both(exercise, one=None if answer_too else answer)
    check = cell(content, "demo-1-check")
    own = HELPER + (answer if answer_too else "")
    check["source"] = own + notebook.joined(check["source"])
    moved = move(content)
    assert sources(moved, "demo-1") == [HELPER, answer]
    assert "`helper` of cell 6 came along" in moved.findings[-1]


def test_a_conflict_in_a_cell_is_named(exercise, move):
    moved = move(both(exercise, one=f"<<<<<<< local\n{GOOD_1}=======\n{GOOD_1}>>>>>>> remote\n"))
    assert moved.findings == [
        "A merge conflict is left in cell 5: keep one of the two versions, and save it in Jupyter."
    ]
    assert move(both(exercise, one=f'"""\nReturns\n=======\n"""\n{GOOD_1}')).findings == []


def test_a_missing_answer_is_reported_and_the_others_are_kept(exercise, move):
    content = both(exercise)
    content["cells"].remove(cell(content, "demo-2-answer"))
    moved = move(content)
    assert moved.answers["demo-2"] == {}
    assert moved.findings == ["demo-2: no answer cell was found."]
    assert sources(moved, "demo-1") == [GOOD_1]


def copies(exercise, *texts):
    content = both(exercise, one=texts[0])
    at = content["cells"].index(cell(content, "demo-1-answer"))
    for n, text in enumerate(texts[1:], 1):
        twin = copy.deepcopy(content["cells"][at])
        twin["source"] = text if "EXERCISE" in text else f"# EXERCISE: demo-1\n{text}"
        content["cells"].insert(at + n, twin)
    return content


def test_copies_that_differ_run_in_order_and_it_is_said(exercise, move):
    moved = move(copies(exercise, TOP_LEFT, GOOD_1, TOP_LEFT))
    assert sources(moved, "demo-1") == [GOOD_1, TOP_LEFT]
    assert "cells 5, 6, 7 answer it. Those that differ ran in this order" in moved.findings[0]


def test_equal_copies_run_once(exercise, move):
    moved = move(copies(exercise, GOOD_1, GOOD_1))
    assert sources(moved, "demo-1") == [GOOD_1]
    assert "They hold the same and ran once." in moved.findings[0]


def test_a_blank_copy_below_does_not_undo_an_answer(exercise, move, tables):
    moved = move(copies(exercise, GOOD_1, tables["demo-1"]["blank"]))
    assert sources(moved, "demo-1") == [GOOD_1]


HELPED = "def causal(T, S):\n    return rows(T, S)\n"
HELPERS = {
    "a function": ("def rows(T, S):\n    return 1\n", "def rows(T, S):\n    return 1\n"),
    "beside other things": ("print(1)\nrows = max\n1 / 0", "rows = max\n"),
    "and what it needs": ("from math import pi\ndef rows(T, S):\n    return pi\n", None),
    "decorated": ("import functools\n@functools.cache\ndef rows(T, S):\n    return 1\n", None),
    "in a cell with magic": ("%matplotlib inline\nrows = min", "rows = min\n"),
    "with commands": ("np.tril?\nfiles = !ls\n?max\nrows = min\n", "rows = min\n"),
    "that divides below a command": ("%time 1\nrows = (7\n  % 5)\n", "rows = (7\n  % 5)\n"),
    "set by a function": ("def f():\n    global rows\n    rows = min\nf()\n", None),
    "that divides": ("rows = (7\n  % 5)\n", None),
    "after a form feed": ("# a\x0cb\u2028c\nx = 1\nrows = min\n", "rows = min\n"),
    "of a star": ("print(1)\nfrom math import *\n", "from math import *\n"),
    "filled": ("rows = {}\nfor n in range(3):\n    rows[n] = n\nprint(rows)\n", "FILLED"),
    "appended": ("rows = []\nrows.append(1)\nmax(rows)\n", "rows = []\nrows.append(1)\n"),
    "filled by a call": ("rows = np.ones(3)\nnp.fill_diagonal(rows, 2)\nrows.fill(1)\n", None),
    "set by a call": ("rows = max.__class__\nprint(rows)\nsetattr(rows, 'x', 1)\n", "FILLED"),
    "changed as torch does": ("rows = np.ones(3)\nrows.mul_(2)\n", None),
    "after a long command": ("!pip install -q \\\n  a b\nrows = min\n", "rows = min\n"),
    "filled by its own function": (
        "rows = {}\ndef fill(t):\n    t[1] = 2\nfor _ in range(2):\n    fill(rows)\nprint(rows)\n",
        "FILLED",
    ),
    "filled behind its back": ("rows = []\ndef fill():\n    rows.append(1)\nfill()\n", None),
    "a register": (
        "rows = {}\ndef named(n):\n    def add(f):\n        rows[n] = f\n    return add\n"
        "@named('x')\ndef g(): pass\nprint(rows)\n",
        "FILLED",
    ),
    "read by a function": (
        "rows = [1]\ndef show(x):\n    y = []\n    y.append(x)\nshow(rows)\n",
        "rows = [1]\n",
    ),
    "made in steps": ("rows = [1]\nx = 2\nrows += [2]\n", "rows = [1]\nrows += [2]\n"),
}


@pytest.mark.parametrize("kind", HELPERS)
@pytest.mark.parametrize("below", [False, True])
def test_a_definition_in_another_cell_comes_along(exercise, move, kind, below):
    text, taken = HELPERS[kind]
    taken = text.replace("print(rows)\n", "") if taken == "FILLED" else taken
    content = both(exercise, one=HELPED)
    content["cells"].insert(len(content["cells"]) if below else 0, code(text))
    moved = move(content)
    assert sources(moved, "demo-1") == [taken or text, HELPED]
    assert "came along with the answer" in moved.findings[0]
    assert "1 / 0" not in json.dumps(moved.content)


def test_a_global_that_is_counted_up_comes_along(exercise, move):
    text = "def causal(T, S):\n    global count\n    count += 1\n    return count\n"
    content = both(exercise, one=text)
    content["cells"].insert(0, code("count = 0"))
    assert sources(move(content), "demo-1") == ["count = 0\n", text]


def test_functions_that_register_in_another_cell_come_along(exercise, move):
    content = both(exercise, one=HELPED)
    register = "rows = {}\ndef register(f):\n    rows[f.__name__] = f\n    return f\n"
    content["cells"][:0] = [code(register), code("@register\ndef g():\n    pass\n")]
    own = sources(move(content), "demo-1")
    assert own == [register, "@register\ndef g():\n    pass\n", HELPED]


def test_of_two_functions_of_one_name_the_nearest_counts(exercise, move):
    content = both(exercise, one=HELPED)
    filled_there = "rows = []\ndef fill(x):\n    x.append(1)\nfill(rows)\n"
    content["cells"][:0] = [code("def fill(x):\n    return x\n"), code(filled_there)]
    content["cells"].append(code("def fill(x):\n    return [x]\n"))
    assert sources(move(content), "demo-1") == [filled_there, HELPED]


def test_a_long_chain_of_definitions_is_read_once_for_all_tasks(exercise, move):
    chain = "a0 = 1\n" + "".join(f"a{n} = a{n - 1}\n" for n in range(1, 2000))
    content = both(exercise, one="def causal(T, S):\n    return a1999\n")
    content["cells"].insert(0, code(chain))
    for _ in range(2):  # what is known of one submission is forgotten with the next
        assert sources(move(content), "demo-1")[0] == chain
        kept = carried._parsed.cache_info()
        assert kept.misses == kept.currsize <= len(content["cells"]) * 2


def test_a_line_of_many_statements_takes_no_longer_than_it_should(exercise, move):
    content = both(exercise, one=HELPED)
    content["cells"].insert(0, code("rows=0;" * 20_000))
    start = time.process_time()
    assert sources(move(content), "demo-1")[0] == "rows=0;" * 20_000 + "\n"
    assert time.process_time() - start < 20


@pytest.mark.parametrize("names", ["*", "exp, max"])
def test_names_of_python_come_along_if_they_are_imported(exercise, move, names):
    text = "def causal(T, S):\n    return max([[T]], axis=1) + len(S)\n"
    content = both(exercise, one=text)
    content["cells"][:0] = [code(f"from numpy import {names}"), code("len = 3")]
    content["cells"].append(code("from math import *"))
    assert f"from numpy import {names}\n" in sources(move(content), "demo-1")
    assert "len = 3" not in json.dumps(move(content).content)


def test_what_lies_below_takes_no_name_of_python(exercise, move):
    content = both(exercise, one="def causal(T, S):\n    return max(T, S)\n")
    own = sources(move(content), "demo-1")
    content["cells"].append(code("from numpy import *"))
    assert sources(move(content), "demo-1") == own


def test_the_nearest_definition_above_counts(exercise, move):
    content = both(exercise, one=HELPED)
    content["cells"][:0] = [code("rows = 1"), code("rows = 22")]
    content["cells"].append(code("rows = 333"))
    assert sources(move(content), "demo-1")[0] == "rows = 22\n"


def test_a_helper_may_lie_in_the_answer_of_another_task(exercise, move):
    content = both(exercise, two="def softmax(x):\n    return causal(1, 1) + x\n")
    assert sources(move(content), "demo-2")[0] == GOOD_1


def test_what_the_exercise_gives_is_not_carried(exercise, move):
    content = both(exercise)
    content["cells"].insert(0, code("np = 3"))
    moved = move(content)
    assert sources(moved, "demo-1") == [GOOD_1]


DEEP = ["-" * 100_000 + "1", "a" + ".b" * 100_000, "(" * 5000, "x = 1\0", "#" * (LONGEST + 1)]


@pytest.mark.parametrize("text", DEEP, ids=["signs", "dots", "brackets", "null", "long"])
def test_text_that_breaks_parsers_costs_its_own_task_only(exercise, move, text):
    moved = move(both(exercise, one=text))
    assert sources(moved, "demo-2") == [GOOD_2]
    (answer,) = sources(moved, "demo-1")
    assert len(answer) < 20_000
    assert carried.readable(answer)


def test_a_cell_of_thousands_of_functions_takes_no_minutes():
    source = "".join(f"def a{n}(): 0\n" for n in range(13_000))
    start = time.process_time()
    assert len(source) < LONGEST
    assert not carried.readable(source)
    assert time.process_time() - start < 10
    assert carried.readable(source[:3000])


BANS = [
    ("import numpy as xp\nxp.tril(1)", True),
    ("from numpy import tril as t", True),
    ("np.tril(1)", True),
    ("%time np.tril(1)\nnp.tril(2)", True),
    ("def tril(x): return x\ntril(1)", False),
    ("np.triu(1)", False),
    ("def f(:", False),
]


@pytest.mark.parametrize(("text", "found"), BANS)
def test_what_is_forbidden_is_found_outside_the_kernel(text, found):
    table = {"forbid": ["numpy.tril"], "imports": "import numpy as np\nimport os.path"}
    assert bans.broken([text], table) == ("numpy.tril" if found else None)


def sent(name="a", value=None, task="t"):
    record = {"task": task, "name": name, "value": value or {"k": "int", "v": 1}}
    return {"output_type": "display_data", "data": {MIME: record}}


def test_a_value_counts_once():
    assert records.values([sent("a"), sent("b")], "t") == {
        "a": {"k": "int", "v": 1},
        "b": {"k": "int", "v": 1},
    }


def test_two_values_for_one_case_count_as_none():
    findings = []
    found = records.values([sent(), sent()], "t", findings)
    assert found["a"]["v"] == "NotRun"
    assert findings == ["t: two values arrived for one case. Only the check may send."]


def test_records_of_another_task_are_reported():
    findings = []
    assert records.values([sent(task="u"), sent(name=["a"])], "t", findings) == {}
    assert len(findings) == 2


HOSTILE = [
    {},
    {"k": "array"},
    {"k": "array", "dtype": "float64", "shape": [2], "b64": "AA=="},
    {"k": "array", "dtype": "object", "shape": [1], "b64": "AAAAAAAAAAA="},
    {"k": "array", "dtype": "V8", "shape": [1], "b64": "AAAAAAAAAAA="},
    {"k": "array", "dtype": "(2,)f4", "shape": [2], "b64": "AAAAAAAAAAA="},
    {"k": "array", "dtype": "float64", "shape": [-1], "b64": "AAAAAAAAAAA="},
    {"k": "array", "dtype": "float64", "shape": [1.0], "b64": "AAAAAAAAAAA="},
    {"k": "array", "dtype": "float64", "shape": [True], "b64": "AAAAAAAAAAA="},
    {"k": "array", "dtype": "float64", "shape": 3, "big": 1},
    {"k": "int", "v": "9" * 5000},
    {"k": "int", "v": "9" * 100},
    {"k": "float", "v": [1]},
    {"k": "complex", "v": "x"},
    {"k": "dict", "keys": ["a"], "v": []},
    {"k": "dict", "keys": [1], "v": [{"k": "none"}]},
    {"k": "list", "v": 3},
    {"k": "list", "v": [{"k": "?"}]},
    {"k": "other", "v": ""},
    {"k": "error", "v": 1, "msg": ""},
    {"k": "str", "v": None},
    {"k": ["list"], "v": []},
    [],
    "text",
]


@pytest.mark.parametrize("value", HOSTILE)
def test_a_made_up_value_is_no_value(value):
    assert not records.sound(value)


def test_a_deep_value_is_no_value():
    value = {"k": "none"}
    for _ in range(5000):
        value = {"k": "list", "v": [value]}
    assert not records.sound(value)


def test_every_value_of_the_bank_is_sound(exercise):
    for task in exercise.tasks.values():
        for answer in [task.solved, task.blank, *(w.source for w in task.wrong)]:
            for value in bank.values(bank.run(exercise, task, answer, hidden=True)).values():
                assert records.sound(json.loads(json.dumps(value)))
