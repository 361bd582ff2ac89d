"""Calls that a task forbids: found in the source, and trapped while a case runs."""

import numpy as np
import pytest

from attnlearn.exercise import forbid

SOURCES = [
    ("np.tril(x)", "numpy.tril"),
    ("import numpy\nnumpy.tril(x)", "numpy.tril"),
    ("from numpy import tril", "numpy.tril"),
    ("from numpy import tril as lower\nlower(x)", "numpy.tril"),
    ("import numpy as other\nf = other.tril", "numpy.tril"),
    ("def f(q):\n    from attnlearn.masks import Causal\n    return Causal()", "attnlearn.masks"),
    ("import attnlearn\nattnlearn.Causal()", "attnlearn.masks"),
    ("import attnlearn.masks", "attnlearn.masks"),
    ("import attnlearn as a\na.attention(1)", "attnlearn"),
    ("F.scaled_dot_product_attention(q)", "scaled_dot_product_attention"),
    (
        "from torch.nn.functional import scaled_dot_product_attention",
        "scaled_dot_product_attention",
    ),
]


@pytest.mark.parametrize(("source", "name"), SOURCES, ids=[s[0] for s in SOURCES])
def test_a_forbidden_name_is_found(source, name):
    assert forbid.found_in(source, [name], {"np": np}) == name


@pytest.mark.parametrize(
    "source",
    [
        "np.triu(x)",
        "# np.tril(x)\n'np.tril'",
        "def tril(x):\n    return x\ntril(1)",
        "tril = 3\nprint(tril)",
        "np.trilinear(x)",
        "no python",
    ],
)
def test_what_is_not_forbidden_passes(source):
    assert forbid.found_in(source, ["numpy.tril", "tril"], {"np": np}) is None


def test_the_check_itself_is_never_forbidden():
    from attnlearn.exercise import check

    for source in ("case = check('t')", "check = 3", "from attnlearn.exercise import check"):
        assert forbid.found_in(source, ["attnlearn"], {"check": check}) is None
    assert forbid.found_in("import attnlearn", ["attnlearn"], {"check": check}) == "attnlearn"


def run(source, names, namespace=None):
    """Run an answer under the trap; what it called."""
    space = {"np": np, **(namespace or {})}
    with forbid.trap(names, space, "<check>") as called:
        try:
            exec(compile(source, "<answer>", "exec"), space)
        except forbid.Forbidden:
            assert called
    return called


def test_a_call_is_trapped_however_it_is_reached():
    assert run("getattr(np, 'tr' + 'il')(np.ones((2, 2)))", ["numpy.tril"]) == ["numpy.tril"]
    assert run("__import__('numpy').tril(np.ones((2, 2)))", ["numpy.tril"]) == ["numpy.tril"]
    held = {"lower": np.tril}
    assert run("lower(np.ones((2, 2)))", ["numpy.tril"], held) == ["numpy.tril"]


def test_swallowing_the_alarm_does_not_help():
    source = "try:\n    np.tril(np.ones((2, 2)))\nexcept Exception:\n    pass"
    assert run(source, ["numpy.tril"]) == ["numpy.tril"]


def test_other_functions_of_a_library_may_call_it_inside():
    assert run("np.tril(np.ones((2, 2)))", ["numpy.tri"]) == []


def test_a_class_is_trapped_when_it_is_made_and_stays_a_class():
    import attnlearn

    space = {"attnlearn": attnlearn, "mask": attnlearn.Causal()}
    assert run("attnlearn.Causal()", ["attnlearn.masks"], space) == ["attnlearn.masks"]
    assert run("isinstance(mask, attnlearn.Causal) or 1 / 0", ["attnlearn.masks"], space) == []


def test_all_of_attnlearn_may_be_forbidden_but_not_the_check_itself():
    import attnlearn
    from attnlearn.exercise.values import encode

    q = np.ones((1, 2, 4))
    space = {"attnlearn": attnlearn, "q": q, "encode": encode}
    assert run("attnlearn.attention(q, q, q)", ["attnlearn"], space) == ["attnlearn"]
    assert run("encode(q)", ["attnlearn"], space) == []


def test_the_check_cell_itself_may_call_it_and_everything_is_put_back():
    before, space = np.tril, {"np": np}
    with forbid.trap(["numpy.tril"], space, "<check>") as called:
        assert np.tril is not before
        exec(compile("np.tril(np.ones((2, 2)))", "<check>", "exec"), space)
    assert np.tril is before
    assert called == []


def test_a_name_that_is_not_imported_is_no_trouble():
    assert run("1 + 1", ["no_such_library.attention", "numpy.no_such_name"]) == []


def test_torch_attention_is_trapped_inside_its_own_layers():
    torch = pytest.importorskip("torch")
    q = torch.ones(1, 2, 4)
    names = ["scaled_dot_product_attention"]
    space = {"F": torch.nn.functional, "q": q}
    assert run("F.scaled_dot_product_attention(q, q, q)", names, space) == names
