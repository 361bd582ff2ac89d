"""Reading the source behind a notebook: names, bindings, what a case calls."""

import pytest

from attnlearn.exercise import scope
from attnlearn.grading import bank


def test_names_of_a_source_are_those_of_its_top_level():
    text = "import os.path as p\nx = [y for y in z]\ndef f(a):\n    b = a + c\n    return b\n"
    assert scope.module_names(text) == {"p", "x", "f"}
    assert scope.free_names(text) == {"z", "c"}
    assert scope.module_names("no python") == set()


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("a = 1\nfor b in []:\n    c = 2", {"a", "b", "c"}),
        ("[x for x in []]\nf = lambda y: y", {"f"}),
        ("import a.b, c as d\nfrom e import f as g", {"a", "d", "g"}),
        ("class A:\n    x = 1", {"A"}),
        ("with open(p) as f, g as (h, i):\n    pass", {"f", "h", "i"}),
    ],
)
def test_names_inside_functions_and_comprehensions_are_their_own(source, names):
    assert scope.module_names(source) == names


def test_bindings_are_what_a_check_prepares():
    source = """case = check("t")
_m = 1


def _helper():
    return 2


@case("a")
def _():
    return _m

case("b", lambda: _helper())
"""
    assert scope.bindings(source) == ["_m = 1", "def _helper(): return 2"]
    assert scope.bindings("no python") is None


def test_imports_and_the_names_that_something_took():
    text = "import numpy as np\nfrom math import pi, e\nx = 1\nif x:\n    import os\n"
    assert scope.imports(text) == "import numpy as np\nfrom math import pi, e"
    assert scope.assigned_names("import numpy as np\nnp = 1\nimport os\n") == {"np"}
    space = {}
    bank.execute("import numpy as np\nfrom math import e\npi = 3\n", space)
    assert scope.rebound(scope.imports(text), space) == ["pi"]


def test_names_of_python_that_a_source_reads_or_takes():
    text = "import numpy as np\nabs = 1\ndef f(x):\n    return max(x.sum(), abs)\n"
    assert scope.builtins_read(text) == {"max"}
    assert scope.read_in_functions(text) == {"max", "abs"}
    assert {"sum", "max", "zeros"} <= scope.starred("from numpy import *\nfrom nowhere import *")
    assert scope.starred("from numpy import sum") == set()


def test_what_a_case_calls_is_one_line():
    space = {}
    bank.execute("f = lambda: g(1,\n    2)\ndef h():\n    x = 1\n    return x\n", space)
    assert scope.call_text(space["f"]) == "g(1, 2)"
    assert scope.call_text(space["h"]) == "x = 1; return x"
    assert scope.call_text(len) == "len"


def test_code_beside_the_raise_line_is_unfinished_but_a_comment_is_not():
    blank = "def f():\n    raise NotImplementedError"
    assert not scope.unfinished("# mine\ndef f():\n\n    raise NotImplementedError", blank)
    assert scope.unfinished("def f():\n    x = 1\n    raise NotImplementedError", blank)
    assert not scope.unfinished("def f(:", blank)


def test_the_source_of_an_answer_may_be_a_class():
    space = {}
    text = "class Cache:\n    def get(self):\n        return table\ntable = 1\n"
    bank.execute(text, space)
    assert scope.answer_source(space, ["Cache"]) == text
    assert list(scope.outside_names(space, ["Cache"], [])) == []
    bank.execute("class Cache:\n    def get(self):\n        return table\n", space)
    assert list(scope.outside_names(space, ["Cache"], [])) == [("Cache", "table")]
