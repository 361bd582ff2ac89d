"""A check cell as a learner runs it: values, verdicts, limits, and what is not judged."""

import json
import signal
import time

import numpy as np
import pytest

from attnlearn.exercise import cases
from attnlearn.grading import bank, notebook, release, source

SCRIPT = "tests/data/exercises/solutions/90_demo.py"


@pytest.fixture(scope="module")
def exercise(request):
    return source.read(request.config.rootpath / SCRIPT)


@pytest.fixture
def learner(exercise, tmp_path, monkeypatch):
    """A folder with the table of the demo; returns a function that runs cells in order."""
    table = release.exercise_table(exercise)
    notebook.write(tmp_path / ".attnlearn" / "90_demo.json", notebook.dumps(table))
    monkeypatch.chdir(tmp_path)

    def run(*sources, namespace=None):
        space = namespace if namespace is not None else {"__name__": "__main__"}
        for text in (exercise.setup[0].source, *sources):
            bank.execute(text, space)

    return run


def test_every_right_value_gets_its_tick(learner, exercise, capsys):
    task = exercise.tasks["demo-1"]
    learner(task.solved, task.check.source)
    out = capsys.readouterr().out
    assert "✓ square\n✓ decoding\n✓ chunk\n" in out
    assert "demo-1: all 3 checks pass." in out
    assert "Some further cases run only when an instructor grades." in out


@pytest.mark.parametrize("task", ["demo-1", "demo-2"])
def test_every_mistake_is_called_by_its_name(learner, exercise, capsys, task):
    task = exercise.tasks[task]
    for wrong in task.wrong:
        learner(wrong.source, task.check.source)
        out = capsys.readouterr().out
        assert f"Mistake: {wrong.name}\n" in out
        assert wrong.hint in " ".join(out.split())


def test_a_rerun_after_mending_says_all_is_well(learner, exercise, capsys):
    task, space = exercise.tasks["demo-1"], {"__name__": "__main__"}
    learner(task.wrong[0].source, task.check.source, namespace=space)
    learner(task.solved, task.check.source, namespace=space)
    assert "demo-1: all 3 checks pass." in capsys.readouterr().out


def test_the_blank_is_not_answered(learner, exercise, capsys):
    task = exercise.tasks["demo-1"]
    learner(task.blank, task.check.source)
    out = capsys.readouterr().out
    assert "demo-1: not answered yet." in out
    assert out.count("    not answered yet") == 1
    assert "still runs" not in out
    learner("def causal(T, S):\n    m = T\n    raise NotImplementedError\n", task.check.source)
    assert "still runs: delete it" in capsys.readouterr().out


def test_a_check_without_its_answer(learner, exercise, capsys):
    learner(exercise.tasks["demo-1"].check.source)
    assert "`causal` is not defined" in capsys.readouterr().out


def test_an_edited_case_is_not_judged(learner, exercise, capsys):
    task = exercise.tasks["demo-1"]
    learner(task.solved, task.check.source.replace("causal(4, 4)", "causal(5, 4)"))
    out = capsys.readouterr().out
    assert "· square\n    not judged" in out
    assert "✗" not in out
    assert "demo-1: 2 of 3 checks pass." in out


def test_an_edited_function_or_preparation_is_not_judged(learner, exercise, capsys):
    task = exercise.tasks["demo-2"]
    learner(task.solved, task.check.source.replace("_big = 1000.0", "_big = 0.1"))
    out = capsys.readouterr().out
    assert "not judged" in out
    assert "✗" not in out
    learner(task.solved, task.check.source.replace(".sum(-1)", ".sum(0)"))
    out = capsys.readouterr().out
    assert "· the sum of each row" in out
    assert "✗" not in out


def test_lines_added_to_a_check_do_no_harm(learner, exercise, capsys):
    task = exercise.tasks["demo-1"]
    learner(task.solved, task.check.source + "\nprint('my own line', causal(1, 2))\n")
    assert "all 3 checks pass" in capsys.readouterr().out


def test_without_a_table_the_value_is_recorded(learner, capsys):
    learner('case = check("unknown-1")\ncase("one", lambda: 1)')
    out = capsys.readouterr().out
    assert "· one\n    recorded" in out


def test_a_case_of_another_version_is_not_judged(learner, exercise, capsys):
    task = exercise.tasks["demo-1"]
    learner(task.solved, task.check.source + '\ncase("new in version 9", lambda: causal(1, 1))')
    assert "another version of attnlearn" in capsys.readouterr().out


def test_a_helper_from_another_cell_is_noted(learner, exercise, capsys):
    task = exercise.tasks["demo-1"]
    helper = "def positions(T, S):\n    return np.arange(S - T, S)[:, None]\n"
    answer = "def causal(T, S):\n    return np.arange(S)[None, :] <= positions(T, S)\n"
    learner(helper, answer, task.check.source)
    assert "`causal` uses `positions` from outside" in " ".join(capsys.readouterr().out.split())
    learner(helper + answer, task.check.source)
    assert "from outside" not in capsys.readouterr().out


def test_a_forbidden_call_is_named(learner, exercise, capsys):
    task = exercise.tasks["demo-1"]
    learner(
        "def causal(T, S):\n    return np.tril(np.ones((T, S), bool), k=S - T)\n",
        task.check.source,
    )
    out = " ".join(capsys.readouterr().out.split())
    assert "demo-1: not allowed." in out
    assert "uses `numpy.tril`, which this task forbids" in out
    hidden = "def causal(T, S):\n    return getattr(np, 'tril')(np.ones((T, S), bool), k=S - T)\n"
    learner(hidden, task.check.source)
    assert "not allowed" in capsys.readouterr().out


def collect(text, **space):
    with cases.recording({}) as records:
        bank.execute(text, {"np": np, "check": cases.check, **space})
    return {record["name"]: record["value"] for record in records}


def test_each_case_has_its_own_numbers_and_they_never_change():
    text = """case = check("t")
case("a", lambda rng: rng.normal())
case("b", lambda rng: rng.normal())
"""
    both = collect(text)
    alone = collect('case = check("t")\ncase("b", lambda rng: rng.normal())')
    assert both["a"] != both["b"]
    assert both["b"] == alone["b"]
    assert float(both["a"]["v"]) == pytest.approx(0.0478150851, abs=1e-9)


def test_the_seed_of_the_grader_changes_the_numbers(monkeypatch):
    text = 'case = check("t")\ncase("a", lambda rng: rng.normal())'
    public = collect(text)
    monkeypatch.setenv("ATTNLEARN_SEED", "secret")
    assert collect(text) != public


def test_a_crash_or_an_exit_loses_one_case_only():
    values = collect("""case = check("t")
case("crash", lambda: 1 / 0)
case("exit", lambda: exit(3))
case("fine", lambda: 1)
""")
    assert [values[name]["k"] for name in ("crash", "exit", "fine")] == ["error", "error", "int"]


def test_an_endless_loop_ends_even_where_it_catches_everything_and_the_rest_is_not_run():
    start = time.monotonic()
    values = collect("""
def loop():
    while True:
        try:
            while True:
                pass
        except Exception:
            pass
case = check("t", seconds=0.3)
case("before", lambda: 1)
case("loop", loop)
case("after", loop)
case = check("t", seconds=0.3)
case("another check", lambda: 1)
""")
    assert values["loop"]["v"] == "TimeUp"
    assert values["after"]["v"] == "NotRun"
    assert values["before"] == values["another check"] == {"k": "int", "v": 1}
    assert time.monotonic() - start < 5
    assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)


def test_the_interrupt_button_works():
    def stop():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        collect('case = check("t")\ncase("stop", stop)', stop=stop)


def test_warnings_are_silent_and_prints_do_no_harm(recwarn, capsys):
    values = collect("""
def noisy():
    print("debugging")
    return np.log(np.zeros(1)) + np.array([1]) / 0
case = check("t")
case("noisy", noisy)
""")
    assert values["noisy"]["k"] == "array"
    assert not recwarn.list


def test_two_cases_of_one_name_are_refused():
    with pytest.raises(ValueError, match="two cases of t are called 'a'"):
        collect('case = check("t")\ncase("a", lambda: 1)\ncase("a", lambda: 2)')


def test_an_answer_that_spoils_its_input_spoils_one_case_only():
    values = collect("""
def spoil(x):
    x[:] = 0
    return x
case = check("t")
case("a", lambda rng: spoil(rng.normal(size=2)))
case("b", lambda rng: rng.normal(size=2))
""")
    assert (
        values["b"] == collect('case = check("t")\ncase("b", lambda rng: rng.normal(size=2))')["b"]
    )


def test_the_place_of_an_error_is_named():
    space = {}
    bank.execute("def answer(x):\n    y = 1\n    return y / x\n", space)
    values = collect('case = check("t")\ncase("a", lambda: answer(0))', **space)
    assert values["a"]["at"] == "answer, line 3"


def test_the_place_of_an_error_is_never_inside_the_check():
    values = collect("""
def _summary(x):
    return x.sum(5)
case = check("t")
case("a", lambda: _summary(np.ones(2)))
""")
    assert values["a"]["v"] == "AxisError"
    assert "at" not in values["a"]


def test_an_endless_loop_costs_one_time_limit(learner, exercise, capsys):
    check = exercise.tasks["demo-1"].check.source.replace("seconds=2", "seconds=0.2")
    learner("def causal(T, S):\n    while True:\n        pass\n", check)
    out = capsys.readouterr().out
    assert "no answer within 0.2 s: a loop that never ends, or much more work than needed?" in out
    assert "✗ decoding   causal(1, 5)\n    not run: an earlier case ran out of time" in out


def test_an_own_not_implemented_error_is_no_blank(learner, exercise, capsys):
    task = exercise.tasks["demo-1"]
    own = "def causal(T, S):\n    raise NotImplementedError('T > S')\n"
    learner(own, task.check.source)
    out = capsys.readouterr().out
    assert "raised NotImplementedError: T > S (in causal, line 2)" in out
    assert "not answered yet" not in out


def test_names_of_the_shell_are_not_noted(learner, exercise, capsys):
    task = exercise.tasks["demo-1"]
    answer = "def causal(T, S):\n    display(exit, quit, get_ipython, In, Out)\n"
    shell = dict.fromkeys(("exit", "quit", "get_ipython", "display", "In", "Out"))
    learner(answer, task.check.source, namespace=shell)
    assert "from outside" not in capsys.readouterr().out


def test_a_name_that_an_answer_took_is_noted(learner, exercise, capsys):
    task = exercise.tasks["demo-1"]
    learner("np = 3\n" + task.solved, task.check.source)
    assert "`np` is no longer what the setup cell imported" in capsys.readouterr().out
    learner(task.solved, task.check.source)
    assert "no longer" not in capsys.readouterr().out


def test_the_record_is_json():
    with cases.recording({}) as records:
        bank.execute(
            'case = check("t")\ncase("a", lambda: np.ones(2))', {"np": np, "check": cases.check}
        )
    assert json.loads(json.dumps(records))[0]["call"] == "np.ones(2)"
