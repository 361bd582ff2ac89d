"""Notebooks as students hand them in: what was done to them, and what both tasks get for it."""

import copy

from attnlearn.grading import notebook, release

GOOD_1 = "def causal(T, S):\n    return np.arange(S)[None, :] <= np.arange(S - T, S)[:, None]\n"
GOOD_2 = """def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)
"""
TOP_LEFT = "def causal(T, S):\n    return np.arange(S)[None, :] <= np.arange(T)[:, None]\n"
HELPED = "def causal(T, S):\n    return helper(T, S)\n"
HELPER = GOOD_1.replace("causal", "helper")

# name: (answer of demo-1, answer of demo-2, words about demo-1, words about demo-2)
PASS = None
ANSWERS = {
    "solved": (GOOD_1, GOOD_2, PASS, PASS),
    "mistakes": (
        TOP_LEFT,
        GOOD_2.replace("x - x.max(-1, keepdims=True)", "x"),
        "Mistake: top-left diagonal\n    The diagonal starts at the top left",
        "Mistake: no maximum subtracted",
    ),
    "stopped": (
        "def causal(T, S:\n    pass\n",
        GOOD_2 + "\nprint(softmax(np.zeros(3)))\nundefined\n",
        "the answer cell stopped with an error.  0 of 4 points.\n  SyntaxError",
        PASS,
    ),
    "dies in a case": (
        "import os\n" + GOOD_1.replace("return", "if T == 1: os._exit(0)\n    return"),
        GOOD_2,
        "1 of 3 checks pass.  1 of 4 points.",
        PASS,
    ),
    "dies in a cell": (GOOD_1 + "import os\nos._exit(0)\n", GOOD_2, "the kernel died", PASS),
    "loops in a cell": (
        GOOD_1 + "while True:\n    pass\n",
        GOOD_2,
        PASS,
        PASS,
    ),
    "loops in a case": (
        GOOD_1.replace("return", "while T == 1: pass\n    return"),
        GOOD_2,
        "decoding   causal(1, 5)\n      no answer within 2 s: a loop that never ends",
        PASS,
    ),
    "exits in a cell": (GOOD_1 + "exit()\n", GOOD_2 + "quit\n", PASS, PASS),
    "exits in a case": (
        GOOD_1.replace("return", "if T == 1: exit()\n    return"),
        GOOD_2,
        "decoding   causal(1, 5)\n      raised SystemExit (in causal, line 3)",
        PASS,
    ),
    "takes names": (
        "np = 3\n" + TOP_LEFT + "check = print\n",
        GOOD_2,
        "rebinds `np`, which the checks use",
        PASS,
    ),
    "a third of the points": (
        GOOD_1,
        GOOD_2.replace("return", "if x.ndim == 1: return\n    return"),
        PASS,
        "3 of 4 checks pass.  1.67 of 2 points.",
    ),
    "noisy": (
        GOOD_1.replace("return", "print('x' * 99 + '\\n', end='', flush=True)\n    return")
        + "for _ in range(3000):\n    print('line', flush=True)\n",
        "import warnings\nwarnings.warn('old')\n" + GOOD_2,
        PASS,
        PASS,
    ),
    "forbidden": (
        "def causal(T, S):\n    return np.tril(np.ones((T, S), bool), k=S - T)\n",
        "def softmax(x):\n    y = x\n    raise NotImplementedError\n",
        "uses `numpy.tril`, which this task forbids",
        "`raise NotImplementedError` still runs",
    ),
}


def filled(exercise, answers):
    """The student's notebook with answers written into it."""
    content = release.exercise_notebook(exercise)
    for cell in content["cells"]:
        for task, answer in answers.items():
            if cell["id"] == f"{task}-answer" and answer is not None:
                cell["source"] = f"# EXERCISE: {task}\n{answer}".splitlines(True)
    return content


def code(text, tags=()):
    return notebook.code_cell(f"own-{len(text)}", text, {"tags": list(tags)})


def unmarked(exercise):
    """No line `# EXERCISE:`; one answer keeps its id, the other only defines what is asked."""
    content = filled(exercise, {"demo-1": "def causal(T, S):\n    return T[0]\n", "demo-2": ""})
    for cell in content["cells"]:
        if cell["id"] == "demo-1-answer":
            del cell["source"][0]
        if cell["id"] == "demo-2-answer":
            cell |= {"id": "x", "metadata": {}, "source": ["softmax = np.tril\n", "softmax.x\n"]}
    return content


def unmarked_forbidden(exercise):
    content = filled(exercise, {"demo-1": "", "demo-2": GOOD_2})
    for cell in content["cells"]:
        if cell["id"] == "demo-1-answer":
            text = "from numpy import tril\ndef causal(T, S):\n    return tril(1)\n"
            cell |= {"id": "x", "metadata": {}, "source": [text]}
    return content


def tampered(exercise):
    """Edited and skipped checks, faked outputs, no ids, no metadata: a wrong answer stays wrong."""
    content = filled(exercise, {"demo-1": "# NBVAL_SKIP\n" + TOP_LEFT, "demo-2": GOOD_2})
    for cell in content["cells"]:
        if cell["id"] == "demo-1-check":
            cell["source"] = [
                "# NBVAL_SKIP\n",
                'case = check("demo-1")\n',
                'case("square", lambda: 1)',
            ]
            cell["outputs"] = [{"output_type": "stream", "name": "stdout", "text": ["all pass"]}]
    for cell in content["cells"]:
        del cell["id"]
        cell["metadata"] = {}
    return {**content, "nbformat_minor": 0, "metadata": {"colab": {}}}


def deleted(exercise):
    """The check of one task and the answer of the other are gone."""
    content = filled(exercise, {"demo-1": GOOD_1})
    gone = ("demo-1-check", "demo-2-answer", "demo-2-check")
    content["cells"] = [cell for cell in content["cells"] if cell["id"] not in gone]
    return content


def untidy(exercise):
    """A scratch cell that fails, one to skip, a helper above, and an answer that was copied."""
    content = filled(exercise, {"demo-1": HELPED, "demo-2": GOOD_2})
    at = next(n for n, c in enumerate(content["cells"]) if c["id"] == "demo-1-answer")
    content["cells"][at:at] = [code("1 / 0"), code("exit()", ["nbval-skip"]), code(HELPER)]
    again = next(c for c in content["cells"] if c["id"] == "demo-2-answer")
    content["cells"].insert(content["cells"].index(again), copy.deepcopy(again))
    return content


def out_of_order(exercise):
    """A helper below the check that needs it, and a check above its answer."""
    content = filled(exercise, {"demo-1": HELPED, "demo-2": GOOD_2})
    cells = {cell["id"]: cell for cell in content["cells"]}
    rest = [c for id, c in cells.items() if id not in ("demo-2-answer", "demo-2-check")]
    content["cells"] = [*rest, cells["demo-2-check"], cells["demo-2-answer"], code(HELPER)]
    return content


SHAPES = {
    "blank": (lambda e: filled(e, {}), "demo-1: not answered yet.", "demo-2: not answered yet."),
    "tampered": (tampered, "Mistake: top-left diagonal", PASS),
    "unmarked": (
        unmarked,
        "raised TypeError: 'int' object is not subscriptable (in causal, line 2)",
        "the answer cell stopped with an error.  0 of 2 points.\n  AttributeError",
    ),
    "unmarked and forbidden": (unmarked_forbidden, "demo-1: not allowed.", PASS),
    "deleted": (deleted, PASS, "demo-2: no answer found."),
    "untidy": (untidy, PASS, PASS),
    "out of order": (out_of_order, "it runs after this check: move it up", PASS),
}
DAMAGED = {
    "truncated": ('{"cells": [', "not JSON, or cut off"),
    "empty": ("", "the file is empty"),
    "no notebook": ("[]", "not a notebook"),
}
