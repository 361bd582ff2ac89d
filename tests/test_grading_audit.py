"""The bank is tested, too: every rule of the audit reports the defect planted for it."""

import pytest

from attnlearn.grading import audit, mutants, source

SCRIPT = """\
# %% setup
import numpy as np

from attnlearn.exercise import check

# %% answer t-1 points=4 minutes=5 difficulty=2
def above(x, low):
    # BEGIN SOLUTION
    return x > low
    # END SOLUTION

# %% check t-1
case = check("t-1")
_edge = np.array([-1.0, 0.0, 1.0])

case("edge", lambda: above(_edge, 0.0))
case("drawn", lambda rng: above(rng.normal(size=(2, 3)), 0.1))

# %% hidden t-1
case = check("t-1")
case("more", lambda rng: above(rng.normal(size=9), -0.2))

# %% right t-1 turned
def above(x, low):
    return low < x

# %% wrong t-1 below
# Hint one.
# Seen: owner/project#1
def above(x, low):
    return x < low

# %% wrong t-1 number
# Hint two.
# Seen: owner/project#2
def above(x, low):
    return (x > low).astype(float)

# %% wrong t-1 strictly zero
# Hint three.
def above(x, low):
    return ~(x > low) & (x < 9)

# %% wrong t-1 everything
# Hint four.
def above(x, low):
    return np.ones(x.shape, bool)

# %% answer t-2 points=1 minutes=5 difficulty=1
def double(x):
    # BEGIN SOLUTION
    return 2 * x
    # END SOLUTION

# %% check t-2
case = check("t-2")
case("three", lambda: double(3))
case("five", lambda: double(5))

# %% wrong t-2 squared
# Hint.
# Seen: owner/project#3
def double(x):
    return x * x

# %% wrong t-2 plus two
# Hint.
# Seen: owner/project#4
def double(x):
    return x + 2

# %% wrong t-2 unchanged
# Hint.
def double(x):
    return x

# %% wrong t-2 text
# Hint.
def double(x):
    return str(x) * 2
"""
SAME = """
# %% wrong t-1 below, again
# Another hint.
def above(x, low):
    return low > x

"""
PASSES = """
# %% wrong t-1 no mistake
# Hint.
def above(x, low):
    return np.greater(x, low)

"""
HIDDEN = """
# %% wrong t-1 small arrays only
# Hint.
def above(x, low):
    return x > low if x.size < 9 else x < low

"""
CHANCE = """
# %% wrong t-1 by chance
# Hint.
def above(x, low):
    return x < low if x.flat[0] > 0 or x.size == 3 else x > low

"""
END = "# %% answer t-2"

DEFECTS = {
    "forbids 'numpy.trill', which does not exist": (
        "difficulty=2",
        "difficulty=2 forbid=numpy.trill,numpy.triu",
    ),
    "can't be compared (it is of type object)": (
        'case("drawn"',
        'case("thing", lambda: [object()])\ncase("drawn"',
    ),
    "the solution raises NameError": ("return x > low\n    # END", "return x > nothing\n    # END"),
    "too large": ("size=(2, 3)", "size=(400, 300)"),
    "the blank passes 'blank'": ('case("drawn"', 'case("blank", lambda: 1)\ncase("drawn"'),
    "right answer 'turned' fails 'edge'": ("low < x", "low <= x"),
    "wrong answer 'no mistake' passes every case": (END, PASSES + END),
    "'small arrays only' is caught by hidden cases only": (END, HIDDEN + END),
    "'below' and 'below, again' give the same values": (END, SAME + END),
    "gets the wrong hint: 'below'": (END, SAME + END),
    "'by chance' fails different cases under different seeds": (END, CHANCE + END),
    "case 'idle' catches no wrong answer": (
        'case("drawn"',
        'case("idle", lambda: above(np.ones(3), 0.0).shape)\ncase("drawn"',
    ),
    "wrong answer 'everything' keeps 80 % of the visible points": (
        'case("drawn"',
        'case("ones", lambda: above(np.ones(2), 0.0), weight=8)\ncase("drawn"',
    ),
    "case 'drawn' is random": (
        "above(rng.normal(size=(2, 3)",
        "above(np.random.normal(size=(2, 3)",
    ),
    "leans on the answer of t-2: it needs double": (
        "return x > low\n",
        "return x > double(low) / 2\n",
    ),
    "the check cell binds 'edge'": ("_edge", "edge"),
    "two cases of t-1 are called 'edge'": ('"drawn"', '"edge"'),
    "3 wrong answers, at least 4 are needed": ("# %% wrong t-1 everything", "# %% right t-2 other"),
    "1 wrong answers say where somebody gave them": ("# Seen: owner/project#1\n", ""),
    "110 minutes are too long": ("points=4 minutes=5", "points=4 minutes=105"),
    "a cell of the task raises ZeroDivisionError": ("_edge = np", "_edge = 1 / 0\n_edge = np"),
}


def faults(tmp_path, text, seeds=range(6)):
    path = tmp_path / "92_audit.py"
    path.write_text(text, "utf-8")
    return audit.audit(source.read(path), seeds)


def test_a_sound_bank_has_no_fault(tmp_path):
    assert faults(tmp_path, SCRIPT, audit.SEEDS) == []


def test_a_task_is_tried_under_as_many_seeds_as_it_asks_for(tmp_path):
    text, words = SCRIPT.replace(END, CHANCE + END), "fails different cases under different seeds"
    assert any(words in fault for fault in faults(tmp_path, text))
    slow = text.replace("difficulty=2", "difficulty=2 seeds=1", 1)
    assert not any(words in fault for fault in faults(tmp_path, slow))


@pytest.mark.parametrize("words", DEFECTS)
def test_a_planted_defect_is_reported(tmp_path, words):
    good, bad = DEFECTS[words]
    assert good in SCRIPT
    found = faults(tmp_path, SCRIPT.replace(good, bad))
    assert any(words in fault for fault in found), found


def test_a_fault_is_said_once_for_all_seeds(tmp_path):
    found = faults(tmp_path, SCRIPT.replace(END, PASSES + END))
    assert found[0] == "t-1: wrong answer 'no mistake' passes every case, seed 0 and 5 more"
    assert sum("no mistake" in fault for fault in found) == 1, found


def test_a_hidden_case_may_not_repeat_a_name(tmp_path):
    found = faults(tmp_path, SCRIPT.replace('case("more"', 'case("edge"'))
    assert any("two cases of t-1 are called 'edge'" in fault for fault in found), found


def tried(tmp_path, text):
    path = tmp_path / "93_mutants.py"
    path.write_text(text, "utf-8")
    exercise = source.read(path)
    return {m.what: m.fate for m in mutants.trial(exercise, exercise.tasks["t-1"])}


def test_mutants_are_killed_by_good_cases(tmp_path):
    fates = tried(tmp_path, SCRIPT)
    assert fates["line 3: Gt becomes GtE"] == "killed"
    assert fates["line 3: Gt becomes Lt"] == "killed"


def test_a_mutant_that_only_hidden_cases_see_survives(tmp_path):
    text = SCRIPT.replace('case("edge", lambda: above(_edge, 0.0))', "")
    text = text.replace('case("more"', 'case("edge", lambda: above(np.zeros(2), 0.0))\ncase("more"')
    assert tried(tmp_path, text)["line 3: Gt becomes GtE"] == "survived"


def test_a_mutant_that_changes_nothing_is_equal_so_far(tmp_path):
    text = SCRIPT.replace("return x > low\n    # END", "return np.asarray(x) > low\n    # END")
    assert tried(tmp_path, text)["line 3: call dropped"] == "equal"


def test_a_mutant_that_raises_everywhere_is_not_counted(tmp_path):
    text = SCRIPT.replace("return x > low\n    # END", "return x.reshape(x.shape) > low\n    # END")
    fates = tried(tmp_path, text)
    assert "crashed" in fates.values()
    path = tmp_path / "93_mutants.py"
    exercise = source.read(path)
    count = mutants.count(mutants.trial(exercise, exercise.tasks["t-1"]))
    assert count["made"] == count["crashed"] + count["changed"] + list(fates.values()).count(
        "equal"
    )


MUTATIONS = {
    "x[1:]": ["x[1 + 1:]", "x[1 - 1:]", "x[2:]", "x[0:]", "x[:]", "x"],
    "x[:, None]": ["x[None, :]", "x"],
    "x.sum(-1, keepdims=True)": [
        "x.sum(-2, keepdims=True)",
        "x.sum(0, keepdims=True)",
        "x.sum(-1)",
    ],
    "f(a, b)": ["f(b, a)", "a"],
    "a - b": ["a + b", "b - a", "a", "b"],
    "a and not b": ["a or not b", "a and b", "a", "not b"],
    "y if a else z": ["z if a else y", "y", "z"],
    "np.zeros(3)": ["np.ones(3)", "np.zeros(4)", "np.zeros(2)", "3"],
    "a @ b.T": ["b.T @ a", "a @ b"],
}


@pytest.mark.parametrize("expression", MUTATIONS)
def test_every_kind_of_small_change_is_made(tmp_path, expression):
    text = SCRIPT.replace("return x > low\n    # END", f"return {expression}\n    # END")
    path = tmp_path / "94_mutants.py"
    path.write_text(text, "utf-8")
    made = [
        m.source.rpartition("return ")[2] for m in mutants.mutants(source.read(path).tasks["t-1"])
    ]
    assert not set(MUTATIONS[expression]) - set(made), made
    assert expression not in made
