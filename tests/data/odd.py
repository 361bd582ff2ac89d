"""What the students of a made-up class do to their notebooks, kernels and graders."""

import io
import zipfile

from attnlearn.grading import notebook

WRONG = "def NAME(*a, **k):\n    return -1\n"
TAKE = """\
def take(text):
    if "# BEGIN SOLUTION" in text and "check FIRST" in text:
        own = text.split("answer FIRST")[1].split("\\n", 1)[1].split("# %%")[0]
        exec(own, globals())
"""


def _text(change, encoding="utf-8"):
    return lambda content: change(notebook.dumps(content)).encode(encoding, "replace")


def _same(text):
    return text


def _each(change):
    def changed(content):
        for cell in content["cells"]:
            change(cell)
        return content

    return changed


def _colab(content):
    for cell in content["cells"]:
        cell["metadata"] = {"id": cell.pop("id")}
    return content | {"nbformat_minor": 0}


def _lies(cell):
    if cell["cell_type"] == "code":
        cell["outputs"] = [{"output_type": "stream", "name": "stdout", "text": "all pass"}]


def _without(ending):
    def changed(content):
        cells = [cell for cell in content["cells"] if not cell["id"].endswith(ending)]
        return content | {"cells": cells}

    return changed


def _copied(content):
    return content | {"cells": [c for cell in content["cells"] for c in (cell, dict(cell))]}


def _below(content):
    """Each answer in a cell without its line, below a scaffold."""
    cells = []
    for cell in content["cells"]:
        cells.append(cell)
        if cell["id"].endswith("-answer"):
            task, _, answer = notebook.joined(cell["source"]).partition("\n")
            cell["source"] = f"{task}\n"
            cells.append(notebook.code_cell(f"{cell['id']}-mine", answer))
    return content | {"cells": cells}


def _zip(name, data, members=1):
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for _ in range(members):
            archive.writestr(name, data)
    return target.getvalue(), ".zip"


# {about: change of a right notebook}; each is forgiven
FORGIVEN = {
    "UTF-16": _text(_same, "utf-16"),
    "a byte order mark": _text(_same, "utf-8-sig"),
    "lines of Windows": _text(lambda text: text.replace("\n", "\r\n")),
    "an encoding of Windows": _text(lambda text: text.replace('"# ', '"# Übung ', 1), "cp1252"),
    "outputs that lie": _each(_lies),
    "no metadata": _each(lambda cell: cell.update(metadata={})),
    "equal ids": _each(lambda cell: cell.update(id="x")),
    "Colab": _colab,
    "another kernel": lambda content: content | {"metadata": {"kernelspec": {"name": "ir"}}},
    "checks deleted": _without("-check"),
    "text deleted": lambda content: (
        content | {"cells": [cell for cell in content["cells"] if cell["cell_type"] == "code"]}
    ),
    "each cell twice": _copied,
    "answers below the scaffolds": _below,
    "in reverse": lambda content: content | {"cells": content["cells"][::-1]},
    "NaN": _text(lambda text: text.replace('"cells"', '"x": NaN, "cells"', 1)),
    "a large output": _text(lambda text: text.replace("[]", '["%s"]' % ("x" * 20_000_000), 1)),
}
# {about: code above a right answer}; it costs nobody anything
GLOBALS = {
    "numbers of torch": "import torch\ntorch.set_default_dtype(torch.float64)\n",
    "raising floats": "np.seterr(all='raise')\n",
    "warnings as errors": "import warnings\nwarnings.simplefilter('error')\n",
    "another folder": "import os, tempfile\nos.chdir(tempfile.mkdtemp())\n",
    "sum is a number": "sum = 0\nfor n in range(3):\n    sum = sum + n\n",
    "its own seed": "np.random.seed(0)\n",
    "another exp": "_exp = np.exp\nnp.exp = lambda *a, **k: 0 * _exp(*a, **k)\n",
    "a warning": "import sys, warnings\nwarnings.warn('old')\nprint('tqdm', file=sys.stderr)\n",
    "magic": "%matplotlib inline\n%time 1\n",
    "a thread": "import threading, time\n"
    "threading.Thread(target=lambda: [time.sleep(1), print('late')], daemon=True).start()\n",
}
# {about: (change of the bytes, words of the reason)}
DAMAGE = {
    "empty": (lambda data: b"", "the file is empty"),
    "cut off": (lambda data: data[: len(data) // 2], "not JSON, or cut off"),
    "a merge conflict": (lambda data: b"<<<<<<< HEAD\n" + data, "a merge conflict is left"),
    "an old format": (lambda data: b'{"nbformat": 3, "worksheets": []}', "this is nbformat 3"),
    "a new format": (lambda data: b'{"nbformat": 5, "cells": []}', "nbformat 5 is unknown"),
    "a picture": (lambda data: b"\x89PNG\r\n\x1a\n\0\xff", "this is no text"),
    "deep": (lambda data: b"[" * 100_000, "not JSON, or cut off"),
    "zeros": (lambda data: bytes(5000), "not JSON, or cut off"),
    "not a notebook": (lambda data: b'{"a": 1}', "it has no list of cells"),
    "a long number": (lambda data: b'{"nbformat": ' + b"4" * 9999 + b"}", "not JSON, or cut off"),
    "too large": (lambda data: data + b" " * (65 << 20), "larger than 64 MB"),
    "too many parts": (lambda data: b'{"cells":[' + b"{}," * 2_100_000, "far too many parts"),
    "a report": (lambda data: (b"%PDF", ".pdf"), "no notebook: hand in the .ipynb file"),
    "no archive": (lambda data: (b"PK", ".zip"), "no archive, or a damaged one"),
    "an empty archive": (lambda data: _zip("", b"", 0), "an empty archive"),
    "a bomb": (lambda data: _zip("x.ipynb", bytes(65 << 20)), "larger than 64 MB when unpacked"),
    "a path that climbs": (lambda data: _zip("../../x.ipynb", data), "leads out of it"),
}
# {about: (code of the first answer, words of the reason)}; NAME is the function it asks for
ENDS = {
    "dies": ("import os\ndef NAME(*a, **k):\n    os._exit(0)\n", "the kernel died"),
    "is killed": ("import os\ndef NAME(*a, **k):\n    os.kill(os.getpid(), 9)\n", ""),
    "crashes": ("import ctypes\ndef NAME(*a, **k):\n    ctypes.string_at(0)\n", "the kernel died"),
    "loops": ("def NAME(*a, **k):\n    while True:\n        pass\n", "no answer within"),
    "floods": (
        "def NAME(*a, **k):\n    while True:\n        print('x' * 9999, flush=True)\n",
        "far too much was printed",
    ),
    "takes memory": ("def NAME(*a, **k):\n    return [0] * 10**11\n", "MemoryError"),
    "recurs": ("def NAME(*a, **k):\n    return NAME(*a, **k)\n", "RecursionError"),
    "syntax": ("def NAME(:\n", "SyntaxError"),
    "exits": ("def NAME(*a, **k):\n    exit()\n", "raised SystemExit"),
    "asks": ("def NAME(*a, **k):\n    return input()\n", "raised StdinNotImplementedError"),
}
# {about: code of the first answer}, which is wrong
ATTACKS = {
    "all is close": WRONG + "np.allclose = np.array_equal = lambda *a, **k: True\n",
    "no traceback": WRONG + "get_ipython().showtraceback = lambda *a, **k: None\n1 / 0\n",
    "prints passed": WRONG + "import os\nprint('PASSED')\nos.write(1, b'4 of 4 points')\n",
    "skipped": "# NBVAL_SKIP\n" + WRONG,
    "equal to anything": "class Same:\n    __eq__ = lambda self, other: True\n"
    "    __array__ = lambda self, *a, **k: np.zeros(1)\ndef NAME(*a, **k):\n    return Same()\n",
    "asks for the table": "from attnlearn.exercise import tables\ndef NAME(*a, **k):\n"
    "    return tables.find('FIRST')['cases'][0]['value']\n",
    "patches the check": WRONG
    + "from attnlearn.exercise import cases\ncases.Cases._value = lambda *a: {'k': 'none'}\n",
    "sends after each cell": WRONG
    + "from IPython.display import display\nfrom attnlearn.exercise import MIME\n"
    "record = {'task': 'FIRST', 'name': 'x', 'value': {'k': 'none'}}\n"
    "def send(*a):\n    display({MIME: record}, raw=True)\n"
    "get_ipython().events.register('post_run_cell', send)\n",
    "pickles": "class P:\n    def __reduce__(self):\n        return (open, ('x', 'w'))\n"
    "def NAME(*a, **k):\n    return P()\n",
    "garbage on the wire": WRONG
    + "for _ in range(50):\n    get_ipython().kernel.iopub_socket.send_multipart("
    "[b'x', b'<IDS|MSG>', b'[' * 5000])\n",
    "forbidden by another name": "import importlib\ndef NAME(*a, **k):\n"
    "    return getattr(importlib.import_module('attn' + 'learn'), 'causal')(*a, **k)\n",
}
# The same for what takes another user, Landlock or namespaces.
CONFINED = {
    "reads the solution": WRONG
    + TAKE
    + "import pathlib\nfor top in ('/work', '/home', '/root', '/tmp', '/opt', '/srv'):\n"
    "    try:\n        for path in pathlib.Path(top).rglob('STEM.py'):\n"
    "            take(path.read_text())\n    except OSError:\n        pass\n",
    "reads the grader": WRONG + "import os\nfor pid in range(2, 40_000):\n    try:\n"
    "        if b'SEED' in open(f'/proc/{pid}/cmdline', 'rb').read() and pid != os.getpid():\n"
    "            raise SystemExit\n        open(f'/proc/{pid}/mem', 'rb')\n"
    "    except OSError:\n        pass\n",
    "kills whom it can": WRONG
    + "import os, signal\nfor pid in [os.getppid(), *range(2, 40_000)]:\n"
    "    try:\n        os.kill(pid, signal.SIGKILL)\n    except OSError:\n        pass\n",
    "many processes": WRONG + "import os, time\nwhile True:\n    try:\n"
    "        os.fork() or time.sleep(60) or os._exit(0)\n    except OSError:\n        pass\n",
    "leaves the solution": WRONG
    + "for folder in ('/tmp', '/var/tmp', '/dev/shm', '.', '..'):\n    try:\n"
    "        open(folder + '/left.txt', 'w').write('x')\n    except OSError:\n        pass\n",
    "finds what was left": WRONG
    + "import pathlib\nif any((pathlib.Path(folder) / 'left.txt').exists() for folder in "
    "('/tmp', '/var/tmp', '/dev/shm', '.', '..')):\n    raise SystemExit('found')\n",
}


def damaged(about, data):
    """The bytes of a damaged notebook, and the ending of the file's name."""
    changed = DAMAGE[about][0](data)
    return changed if isinstance(changed, tuple) else (changed, ".ipynb")


def attacks(level):
    """What a level promises to withstand."""
    return ATTACKS | CONFINED if level >= 2 else ATTACKS
