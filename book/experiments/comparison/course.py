"""The same three tasks, submissions and checks in the format of each grader."""

from __future__ import annotations

import json
from pathlib import Path

RIGHT = {
    "softmax": """\
def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)
""",
    "causal": """\
def causal(T, S):
    return np.arange(S) <= np.arange(S - T, S)[:, None]
""",
    "scores": """\
def scores(q, k):
    return q @ k.T / np.sqrt(q.shape[-1])
""",
}
WRONG = {
    "softmax": "def softmax(x):\n    return np.exp(x - x.max(-1, keepdims=True))\n",
    "causal": "def causal(T, S):\n    return np.arange(S) < np.arange(S - T, S)[:, None]\n",
    "scores": "def scores(q, k):\n    return q @ k.T\n",
}
POINTS = 6
LOST = {"softmax": 1, "causal": 2, "scores": 2}  # of two points, by the wrong ones
BLANK = {
    "softmax": "def softmax(x):\n    raise NotImplementedError\n",
    "causal": "def causal(T, S):\n    raise NotImplementedError\n",
    "scores": "def scores(q, k):\n    raise NotImplementedError\n",
}
# Two checks a task, one point each.
CHECKS = {
    "softmax": (
        "assert np.allclose(softmax(np.array([0.0, 1.0, 2.0])), [0.09003057, 0.24472847, "
        "0.66524096])",
        "assert np.allclose(softmax(np.array([[1000.0, 0.0], [0.0, -1000.0]])), [[1, 0], [1, 0]])",
    ),
    "causal": (
        "assert np.array_equal(causal(3, 3), np.tril(np.ones((3, 3), bool)))",
        "assert np.array_equal(causal(1, 4), np.ones((1, 4), bool))",
    ),
    "scores": (
        "assert np.allclose(scores(np.ones((1, 4)), np.ones((1, 4))), [[2.0]])",
        "assert np.allclose(scores(np.eye(2), np.eye(2)), np.eye(2) / 2**0.5)",
    ),
}
KINDS = 5  # right, right, one wrong, one wrong, blank
# Wrong in every task; the checks of other graders run where it can change them.
FAKE = """\
class Same(np.ndarray):
    __eq__ = __ne__ = lambda self, other: True
np.allclose = np.array_equal = lambda *a, **k: True
def softmax(x):
    return np.zeros(1).view(Same)
causal = scores = lambda a, b: np.zeros(1).view(Same)
"""


def answers(number: int) -> tuple[dict[str, str], int]:
    """The answers of one student, all different, and the points that they are worth."""
    kind = number % KINDS
    note = f"# student {number}\n"
    if kind < 2:
        return {task: note + text for task, text in RIGHT.items()}, POINTS
    if kind < 4:
        task = list(RIGHT)[number % 3]
        own = {**{t: note + text for t, text in RIGHT.items()}, task: note + WRONG[task]}
        return own, POINTS - LOST[task]
    return {task: note + text for task, text in BLANK.items()}, 0


def fake() -> dict[str, str]:
    return {"softmax": FAKE, "causal": "# above\n", "scores": "# above\n"}


def code(source: str, **metadata) -> dict:
    about = {"cell_type": "code", "source": source, "outputs": [], "execution_count": None}
    return {**about, "metadata": metadata}


def raw(source: str) -> dict:
    return {"cell_type": "raw", "source": source, "metadata": {}}


def write(path: Path, cells: list[dict]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    for number, cell in enumerate(cells):
        cell["id"] = f"cell-{number}"
    about = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    content = {"cells": cells, "metadata": about, "nbformat": 4, "nbformat_minor": 5}
    path.write_text(json.dumps(content))


def nbgrader(own: dict[str, str]) -> list[dict]:
    """A notebook of nbgrader's: an answer cell and two locked cells with checks for each task."""
    cells = [code("import numpy as np")]
    for task, checks in CHECKS.items():
        base = {"schema_version": 3, "task": False}
        answer = {"grade_id": task, "grade": False, "solution": True, "locked": False}
        text = own[task] if own is not RIGHT else f"### BEGIN SOLUTION\n{own[task]}### END SOLUTION"
        cells.append(code(text, nbgrader={**base, **answer}))
        for number, text in enumerate(checks):
            locked = {"grade_id": f"{task}-{number}", "grade": True, "solution": False}
            cells.append(code(text, nbgrader={**base, **locked, "locked": True, "points": 1}))
    return cells


def otter() -> list[dict]:
    """The source from which `otter assign` makes a student's notebook and its tests."""
    cells = [
        raw("# ASSIGNMENT CONFIG\ninit_cell: true\nexport_cell: false\ngenerate:\n  pdf: false")
    ]
    cells.append(code("import numpy as np"))
    for task, checks in CHECKS.items():
        cells.append(raw(f"# BEGIN QUESTION\nname: {task}\npoints: 2"))
        cells += [{"cell_type": "markdown", "source": f"Write {task}.", "metadata": {}}]
        cells += [raw("# BEGIN SOLUTION"), code(RIGHT[task]), raw("# END SOLUTION")]
        cells += [raw("# BEGIN TESTS"), *map(code, checks), raw("# END TESTS")]
        cells.append(raw("# END QUESTION"))
    return cells


def nbval(own: dict[str, str]) -> list[dict]:
    """For plain nbval: cells that print True where a check holds, with that output stored."""
    cells = [code("import numpy as np"), *(code(own[task]) for task in CHECKS)]
    for checks in CHECKS.values():
        for text in checks:
            cell = code(text.removeprefix("assert "))
            cell["execution_count"] = 1
            data = {"text/plain": "True"}
            out = {"output_type": "execute_result", "data": data, "metadata": {}}
            cell["outputs"] = [{**out, "execution_count": 1}]
            cells.append(cell)
    return cells


def ours(own: dict[str, str]) -> list[dict]:
    return [
        code("import numpy as np\n\nfrom attnlearn.exercise import check"),
        *(code(f"# EXERCISE: {task}\n{own[task]}") for task in CHECKS),
    ]
