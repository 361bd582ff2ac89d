"""The table of an exercise: what its answers give, and mistakes made in one function of several."""

from attnlearn.exercise import diagnose
from attnlearn.grading import bank, source

SCRIPT = """\
# %% setup
from attnlearn.exercise import check

# %% answer t-1 points=2 minutes=5 difficulty=1
def double(x):
    # BEGIN SOLUTION
    return 2 * x
    # END SOLUTION


def triple(x):
    # BEGIN SOLUTION
    return 3 * x
    # END SOLUTION

# %% check t-1
case = check("t-1")
case("twice five", lambda: double(5))
case("three times five", lambda: triple(5))
case("both", lambda: double(triple(7)))

# %% wrong t-1 one less
# One is missing.
def _less(x, n):
    return n * x - 1

def double(x):
    return _less(x, 2)


def triple(x):
    return _less(x, 3)
"""

ONE = "def double(x):\n    return 2 * x\n\ndef triple(x):\n    return x + x + x - 1\n"
OTHER = "def double(x):\n    return 2 * x\n\ndef triple(x):\n    return x\n"


def named(tmp_path, answer):
    path = tmp_path / "01_t.py"
    path.write_text(SCRIPT)
    exercise = source.read(path)
    task = exercise.tasks["t-1"]
    table = bank.make_table(exercise, task)
    found = diagnose.diagnose(bank.values(bank.run(exercise, task, answer)), table)
    return [(d.title, d.name) for d in found]


def test_a_mistake_in_one_function_of_several_has_its_name(tmp_path):
    both = SCRIPT.split("# One is missing.\n")[1]
    assert named(tmp_path, both) == [("Mistake", "one less")]
    assert named(tmp_path, ONE) == [("Mistake", "one less")]


def test_another_mistake_in_that_function_has_not(tmp_path):
    assert named(tmp_path, OTHER) == []
