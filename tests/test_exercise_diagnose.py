"""Naming a mistake by the values that it gives."""

import numpy as np

from attnlearn.exercise.diagnose import diagnose, failing
from attnlearn.exercise.report import judge, report
from attnlearn.exercise.values import encode, encode_error

RULE = {"rtol": 1e-6, "atol": 1e-8, "weight": 1, "call": "f(x)"}
WANT = {
    "square": np.tril(np.ones((3, 3), bool)),
    "chunk": np.tril(np.ones((2, 4), bool), 2),
    "one": np.ones((1, 4), bool),
}
TOP_LEFT = {name: np.tril(array) for name, array in WANT.items()}
STRICT = {
    "square": np.tril(np.ones((3, 3), bool), -1),
    "chunk": np.tril(np.ones((2, 4), bool), 1),
    "one": np.tril(np.ones((1, 4), bool), 2),
}
FLOAT = {name: array.astype(float) for name, array in WANT.items()}


def encoded(values):
    return {name: encode(value) for name, value in values.items()}


def wrong(name, values):
    differing = {n: encode(v) for n, v in values.items() if encode(v) != encode(WANT[n])}
    return {"name": name, "hint": f"the hint of {name}", "values": differing}


TABLE = {
    "points": 1,
    "defines": ["f"],
    "cases": [{"name": n, "value": encode(v), **RULE} for n, v in WANT.items()],
    "wrong": [wrong("top-left", TOP_LEFT), wrong("strict", STRICT), wrong("float", FLOAT)],
}


def names(values):
    return [(d.name, d.sure) for d in diagnose(encoded(values), TABLE)]


def test_a_right_answer_has_no_mistake():
    assert failing(encoded(WANT), TABLE) == []
    assert names(WANT) == []


def test_all_cases_agree_means_it_is_this_mistake():
    assert names(TOP_LEFT) == [("top-left", True)]
    assert names(FLOAT) == [("float", True)]


def test_some_cases_agree_means_it_looks_like_it():
    mixed = {**TOP_LEFT, "one": np.zeros((1, 4), bool)}
    assert names(mixed) == [("top-left", False)]


def test_a_mistake_that_fails_where_the_student_passes_is_not_named():
    mixed = {**WANT, "chunk": STRICT["chunk"]}
    assert names(mixed) == []
    assert names({**WANT, "one": WANT["one"].astype(float)[None]}) == []


def test_two_mistakes_in_different_cases_are_both_found():
    mixed = {**TOP_LEFT, "square": STRICT["square"], "one": STRICT["one"]}
    assert set(names(mixed)) == {("top-left", False), ("strict", False)}


def test_two_mistakes_at_once_are_found_at_the_second_look():
    both = {name: array.astype(float)[None] for name, array in TOP_LEFT.items()}
    assert ("top-left", False) in names(both)


def test_an_unknown_mistake_gets_no_name():
    assert names({name: ~array for name, array in WANT.items()}) == []


def test_a_missing_value_counts_as_failing():
    assert failing(encoded({"square": WANT["square"]}), TABLE) == ["chunk", "one"]


def test_the_report_names_the_mistake_in_text_and_html():
    verdict = report("masks-1", TABLE, encoded(TOP_LEFT))
    assert verdict.headline == "masks-1: 1 of 3 checks pass."
    assert "Mistake: top-left" in verdict.text()
    assert "the hint of top-left" in verdict.text()
    html = verdict.html()
    assert "<b>Mistake: top-left</b><br>the hint of top-left" in html
    assert "color:" not in html.replace("currentColor", "")


def test_a_line_says_right_or_wrong_in_words_too():
    case = TABLE["cases"][0]
    assert "<b>right</b>: square" in judge(case, encode(WANT["square"])).html()
    line = judge(case, encode(STRICT["square"]))
    assert "<b>wrong</b>: square <code>f(x)</code><br>3 of 9 entries differ" in line.html()
    assert line.text().startswith("✗ square   f(x)\n    3 of 9")


def test_a_line_escapes_what_a_student_wrote():
    line = judge(TABLE["cases"][0], encode_error(ValueError("<script>")))
    assert "&lt;script&gt;" in line.html()


def test_not_answered_and_a_raise_line_that_was_kept():
    values = {
        name: encode_error(NotImplementedError("masks-1: write your answer here")) for name in WANT
    }
    assert report("masks-1", TABLE, values).text() == "masks-1: not answered yet."
    kept = report("masks-1", TABLE, values, kept_raise=True).text()
    assert "`raise NotImplementedError` still runs" in kept


def test_an_answer_cell_that_never_ran():
    values = {name: encode_error(NameError("name 'f' is not defined")) for name in WANT}
    assert "`f` is not defined" in report("masks-1", TABLE, values).text()
