"""Reading a percent script: what is in it, and an error with file and line for every fault."""

import ast

import pytest

from attnlearn.grading import source
from attnlearn.grading.task import Cell, Task

SCRIPT = "tests/data/exercises/solutions/90_demo.py"
GOOD = """\
# %% setup
from attnlearn.exercise import check

# %% answer t-1 points=1 minutes=2 difficulty=3
def f():
    # BEGIN SOLUTION
    return 1
    # END SOLUTION

# %% check t-1
case = check("t-1")
case("one", lambda: f())

# %% wrong t-1 it isn't two
# The hint, which
# has two lines.
# Seen: https://example.org/a
# Seen: owner/project#12
def f():
    # a comment of the code
    return 2
"""


def read(tmp_path, text):
    path = tmp_path / "91_small.py"
    path.write_text(text, "utf-8")
    return source.read(path)


def test_everything_in_a_script_is_found(request):
    exercise = source.read(request.config.rootpath / SCRIPT)
    assert list(exercise.tasks) == ["demo-1", "demo-2"]
    task = exercise.tasks["demo-1"]
    assert (task.points, task.minutes, task.difficulty) == (4, 5, 2)
    assert task.forbid == ["numpy.tril"]
    assert task.defines == ["causal"]
    assert [cell.name for cell in task.right] == ["loops"]
    assert task.wrong[0].name == "top-left diagonal"


def test_a_hint_ends_where_the_references_begin(tmp_path):
    wrong = read(tmp_path, GOOD).tasks["t-1"].wrong[0]
    assert wrong.name == "it isn't two"
    assert wrong.hint == "The hint, which has two lines."
    assert wrong.seen == ["https://example.org/a", "owner/project#12"]
    assert list(wrong.links)[1] == "[owner/project#12](https://github.com/owner/project/issues/12)"
    assert wrong.source.startswith("def f():\n    # a comment")


def test_the_blank_keeps_the_scaffold_and_the_solved_cell_has_no_marks(tmp_path):
    task = read(tmp_path, GOOD).tasks["t-1"]
    assert task.blank == (
        "# EXERCISE: t-1\n# 1 point, about 2 minutes, difficulty 3 of 4\n"
        'def f():\n    raise NotImplementedError("t-1: write your answer here")'
    )
    assert task.solved.endswith("def f():\n    return 1")
    ast.parse(task.blank)


def test_notebook_commands_are_allowed_in_setup(tmp_path):
    text = GOOD.replace("# %% setup\n", "# %% setup\nif True:\n    %pip install attnlearn\n")
    assert "%pip" in read(tmp_path, text).setup[0].source


FAULTS = [
    ("# %% answr t-1", "# %% answer t-1", ":4: unknown kind of cell 'answr'"),
    ("points=1 ", "points=1 ", ":4: t-1 needs points=NUMBER"),
    ("points=one", "points=1", ":4: t-1 needs points=NUMBER"),
    ("difficulty=7", "difficulty=3", ":4: difficulty is 1, 2, 3 or 4, not 7"),
    ("color=red difficulty=3", "difficulty=3", ":4: answer has no option 'color'"),
    ("difficulty=3 seeds=0", "difficulty=3", ":4: seeds is a whole number above 0, not 0"),
    ("# START SOLUTION", "# BEGIN SOLUTION", ":4: no '# BEGIN SOLUTION'"),
    ("    return = 1", "    return 1", ":4: invalid syntax (line 3 of the cell)"),
    ('check("t-2")', 'check("t-1")', ':10: this cell must call check("t-1")'),
    ("# %% wrong t-1\n", "# %% wrong t-1 it isn't two\n", ":14: a wrong answer needs a name"),
    ("# %% wrong\n", "# %% wrong t-1 it isn't two\n", ":14: wrong needs the id of its task"),
    ("\n", "# The hint, which\n# has two lines.\n", ":14: a wrong answer needs a hint"),
    ("# %% check t_1\n", "# %% check t-1\n", ":4: t-1 has no check cell"),
    ("# %% check 1:2\n", "# %% check t-1\n", ":10: '1:2' is no id"),
    ("x = 1\n# %% setup", "# %% setup", ":1: code before the first '# %%' cell"),
    ("# %% [markdown]\ntext", "# %% setup", ":1: a text line must begin with '#'"),
    ("%time\ncase = ", "case = ", ":10: a check cell may not hold notebook commands"),
]


@pytest.mark.parametrize(("bad", "good", "words"), FAULTS, ids=[f[2] for f in FAULTS])
def test_a_fault_is_named_with_file_and_line(tmp_path, bad, good, words):
    text = GOOD.replace(good, "" if bad == good else bad, 1)
    with pytest.raises(source.SourceError) as error:
        read(tmp_path, text)
    assert f"91_small.py{words}" in str(error.value)


def test_a_second_cell_of_a_kind_is_refused(tmp_path):
    with pytest.raises(source.SourceError, match=r":22: a second check cell of t-1"):
        read(tmp_path, GOOD + '# %% check t-1\ncase = check("t-1")\n')
    with pytest.raises(source.SourceError, match="a second wrong answer"):
        read(tmp_path, GOOD + "# %% wrong t-1 it isn't two\n# Hint.\nf = 1\n")


@pytest.mark.parametrize(
    ("case", "drawn"),
    [
        ('case("a", lambda: f(1))', False),
        ('def _g(x):\n    return f(x)\ncase("a", lambda: _g(1))', False),
        ('@case("a")\ndef _():\n    return f(1)', False),
        ('case("a", lambda rng: f(rng))', True),
        ('@case("a")\ndef _(rng):\n    return f(rng)', True),
        ('case("a", f)', True),
    ],
)
def test_a_task_knows_whether_its_cases_are_drawn(case, drawn):
    check = Cell("code", f'case = check("t")\n{case}\n', "here", "check", "t")
    assert Task("t", check=check).drawn is drawn


def test_a_slow_task_asks_for_fewer_seeds(tmp_path):
    drawn = GOOD.replace("lambda: f()", "lambda rng: f()")
    slow = drawn.replace("difficulty=3", "difficulty=3 seeds=3")
    seeds = [read(tmp_path, text).tasks["t-1"].seeds for text in (drawn, slow, GOOD)]
    assert seeds == [20, 3, 1]  # where nothing is drawn one seed says it all
