"""Attacks on the grade, each by an answer that is wrong and must score nothing.

ATTACKS are those that level L0 promises to withstand. NEEDS_A_BOX holds those that only a box of
namespaces, level L3, keeps out.
"""

import json
import os
import subprocess
import sys

import pytest

from attnlearn.__main__ import main
from attnlearn.exercise import MIME
from attnlearn.grading import bank, notebook, release, source
from attnlearn.grading.isolation import sandbox
from attnlearn.grading.isolation.limits import Limits

pytestmark = pytest.mark.xdist_group(__name__)  # what its tests share is made once

SCRIPT = '''\
# %% [markdown]
# # Locks
#
# Read first: *Locks* in [chapter 9](x.ipynb).

# %% setup
import numpy as np

from attnlearn.exercise import check

# %% answer lock-1 points=4 minutes=5 difficulty=1 forbid=numpy.cumsum
def total(x):
    """The sums of the rows up to each entry."""
    # BEGIN SOLUTION
    return np.add.accumulate(x, axis=-1)
    # END SOLUTION

# %% check lock-1
case = check("lock-1", seconds=5)
_rows = 2
case("one row", lambda rng: total(rng.normal(size=(1, 4))))
case("many rows", lambda rng: total(rng.normal(size=(3, 4))))

# %% hidden lock-1
case = check("lock-1", seconds=5)
case("secret sizes", lambda rng: total(rng.normal(size=(_rows, 7))), weight=2)

# %% wrong lock-1 nothing added
# Each entry is a sum.
def total(x):
    return x

# %% answer lock-2 points=1 minutes=5 difficulty=1
def largest(x):
    # BEGIN SOLUTION
    return x.max()
    # END SOLUTION

# %% check lock-2
case = check("lock-2")
_rows = "not those of lock-1"
case("five", lambda rng: largest(rng.normal(size=5)))

# %% wrong lock-2 smallest
# The other end.
def largest(x):
    return x.min()
'''
WRONG = "def total(x):\n    return x * 0\n"
LARGEST = "def largest(x):\n    return x.max()\n"
SEND = f"""\
import json, IPython
def send(name, value):
    record = {{"task": "lock-1", "name": name, "value": value}}
    IPython.display.display({{"{MIME}": record, "text/plain": "x"}}, raw=True)
"""
SEND_ALL = "for name, value in PUBLIC.items():\n    send(name, value)\n"
IN_CASE = "def total(x):\n" + "".join(f"    {line}\n" for line in SEND_ALL.splitlines())

# PUBLIC becomes {case: value} under the public seed, RIGHT those under the secret one.
ATTACKS = {
    "none": WRONG,
    "everything is close": WRONG + "np.allclose = np.array_equal = lambda *a, **k: True\n",
    "equal to anything": """\
class Same:
    __array__ = lambda self, *a, **k: np.zeros(1)
    __eq__ = lambda self, other: True
    __ne__ = lambda self, other: False
    dtype = float
    detach = cpu = resolve_conj = resolve_neg = numpy = lambda self: self
def total(x):
    return Same()
""",
    "no traceback": WRONG + "get_ipython().showtraceback = lambda *a, **k: None\n1 / 0\n",
    "says that it passed": WRONG + "import os\nprint('lock-1: all 3 checks pass.')\n"
    "os.write(1, b'lock-1 PASSED 4 of 4 points')\n",
    "skipped": "# NBVAL_SKIP\n" + WRONG,
    "sends values in its cell": SEND + WRONG + SEND_ALL.replace("PUBLIC", "RIGHT"),
    "sends right values in a case": SEND
    + IN_CASE.replace("PUBLIC", "RIGHT")
    + "    return x * 0\n",
    "sends from a thread": SEND
    + WRONG
    + """\
import threading, time
def later():
    for _ in range(40):
        time.sleep(0.05)
        for name, value in RIGHT.items():
            send(name, value)
threading.Thread(target=later, daemon=True).start()
""",
    "sends after each cell": SEND
    + WRONG
    + "get_ipython().events.register('post_run_cell', lambda *a: ["
    "send(n, v) for n, v in RIGHT.items()])\n",
    "public values": "from attnlearn.exercise import cases\n"
    + WRONG
    + "cases.Cases._value = lambda self, name, f: PUBLIC[name]\n",
    "patches the check": "from attnlearn.exercise import cases\n"
    + WRONG
    + "cases.Cases._value = lambda self, name, f: RIGHT[name]\n"
    "cases.encode = lambda value: list(RIGHT.values())[0]\n",
    "the seed is zero": "import os\nos.environ['ATTNLEARN_SEED'] = '0'\n"
    "def total(x):\n    import base64\n"
    "    for value in PUBLIC.values():\n"
    "        if value['shape'] == list(x.shape):\n"
    "            return np.frombuffer(base64.b64decode(value['b64'])).reshape(x.shape)\n",
    "no chance": "np.random.RandomState = lambda seed: type('R', (), "
    "{'normal': lambda self, size: np.zeros(size)})()\n" + WRONG,
    "asks for the table": "from attnlearn.exercise import tables\n"
    "def total(x):\n    return tables.find('lock-1')['cases'][0]['value']\n",
    "pickles": "class P:\n    def __reduce__(self):\n"
    "        return (open, (TARGET, 'w'))\ndef total(x):\n    return P()\n",
    "garbage on the wire": WRONG + "socket = get_ipython().kernel.iopub_socket\n"
    "for _ in range(50):\n    socket.send_multipart([b'x', b'<IDS|MSG>', b'[' * 5000])\n",
    "odd values": SEND + "def total(x):\n"
    "    send('one row', {'k': 'array', 'dtype': 'V9', 'shape': [1e9], 'b64': 3})\n"
    "    raise KeyboardInterrupt\n",
    "forbidden by another name": "def total(x):\n    return getattr(np, 'cum' + 'sum')(x, -1)\n",
    "forbidden, alarms off": "from attnlearn.exercise import forbid\n"
    "forbid.found_in = lambda *a: None\n"
    "def total(x):\n    return np.cumsum(x, -1)\n",
    "writes results": WRONG
    + """\
import subprocess, sys
subprocess.Popen(
    [sys.executable, "-c", '''
import time
while True:
    try:
        open(TARGET, "w").write("{\\\\"score\\\\": 5}")
    except OSError:
        pass
    time.sleep(0.01)
'''], start_new_session=True)
""",
}
HONEST = "def total(x):\n    return np.add.accumulate(x, axis=-1)\n"
HARMS_ITSELF = {"no chance"}  # and its author's other tasks
# At L0 these may succeed, and results say so; L3 promises to withstand them.
NEEDS_A_BOX = {
    "reads the solution from disk": "text = open(SCRIPT).read().split('# BEGIN SOLUTION')[1]\n"
    "exec('def total(x):' + text.split('# END')[0])\n",
    "finds the solution by itself": """\
import pathlib
def total(x):
    for path in pathlib.Path('/').rglob('92_locks.py'):
        exec(path.read_text().split('# BEGIN SOLUTION')[1].split('# END')[0].strip(), globals())
    return x * 0
""",
    "kills whom it can": WRONG + "import os, signal\n"
    "for pid in [os.getppid(), *range(2, 100_000)]:\n"
    "    try:\n"
    "        os.kill(pid, signal.SIGKILL)\n"
    "    except OSError:\n"
    "        pass\n",
    "calls for help": WRONG + "import urllib.request\n"
    "total = urllib.request.urlopen('http://' + ADDRESS, timeout=3).read()\n",
}
BOXED = pytest.mark.skipif(not sandbox.Box().works(), reason="no namespaces on this machine")


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    """A folder with an exercise, and one submission for each attack."""
    folder = tmp_path_factory.mktemp("course")
    script = folder / "solutions" / "92_locks.py"
    script.parent.mkdir()
    script.write_text(SCRIPT)
    exercise = source.read(script)
    values = {
        name: bank.values(bank.run(exercise, task, task.solved, seed=seed, hidden=True))
        for name, seed in (("PUBLIC", 0), ("RIGHT", "hush"))
        for task in [exercise.tasks["lock-1"]]
    }
    for number, code in enumerate([*ATTACKS.values(), *NEEDS_A_BOX.values(), HONEST]):
        target = folder / "out" / "results" / f"s{number}.json"
        code = code.replace("TARGET", repr(str(target))).replace("SCRIPT", repr(str(script)))
        code = code.replace("ADDRESS", repr("127.0.0.1:9"))
        for name, known in values.items():
            code = code.replace(name, repr(known))
        content = release.exercise_notebook(exercise)
        for cell in content["cells"]:
            if cell["id"] == "lock-1-answer":
                cell["source"] = f"# EXERCISE: lock-1\n{code}"
            if cell["id"] == "lock-2-answer":
                cell["source"] = f"# EXERCISE: lock-2\n{LARGEST}"
        place = "in" if number < len(ATTACKS) else "boxed"
        notebook.write(folder / place / f"s{number}.ipynb", notebook.dumps(content))
    return folder


def results(course, place, level, numbers):
    arguments = ["grade", str(course / place), "--assignment", "92_locks", "--seed", "hush"]
    arguments += ["--exercises", str(course), "--out", str(course / "out")]
    arguments += ["--sandbox", level, "--allow-weak-sandbox", "--cell-seconds", "20"]
    assert main(arguments) == 0
    paths = [course / "out" / "results" / f"s{number}.json" for number in numbers]
    return [json.loads(path.read_text("utf-8")) for path in paths]


@pytest.fixture(scope="module")
def graded(course):
    """{attack: result} at L0."""
    os.environ["TOKEN_OF_THE_TEACHER"] = "do not look"
    done = results(course, "in", "L0", range(len(ATTACKS)))
    return dict(zip(ATTACKS, done, strict=True))


@pytest.fixture(scope="module")
def boxed(course):
    """{attack: result} at L3."""
    first = len(ATTACKS)
    done = results(course, "boxed", "L3", range(first, first + len(NEEDS_A_BOX) + 1))
    return dict(zip([*NEEDS_A_BOX, "honest"], done, strict=True))


@pytest.mark.parametrize("name", ATTACKS)
def test_a_wrong_answer_scores_nothing(graded, name):
    attacked, other = graded[name]["exercises"]
    assert attacked["earned"] == 0, attacked
    assert not any(case["passed"] for case in attacked["cases"])
    assert other["earned"] == (name not in HARMS_ITSELF), other


@BOXED
@pytest.mark.parametrize("name", NEEDS_A_BOX)
def test_a_box_keeps_out(boxed, name):
    attacked, other = boxed[name]["exercises"]
    assert attacked["earned"] == 0, attacked
    assert other["earned"] == 1, other
    assert boxed[name]["sandbox"]["level"] == "L3"


@BOXED
def test_an_honest_answer_gets_its_points_in_a_box(boxed):
    assert boxed["honest"]["score"] == boxed["honest"]["max_score"] == 5


def inside(code, tmp_path):
    """What a program prints in a box."""
    box = sandbox.Box(Limits(memory_mb=512))
    box.make_folders(tmp_path)
    command = box.wrapped([sys.executable, "-c", code], tmp_path)
    scratch = tmp_path / "scratch"
    options = {"cwd": scratch, "env": box.environment(scratch), "timeout": 60}
    return subprocess.run(command, capture_output=True, text=True, check=True, **options).stdout


SEEN = """\
import ctypes, json, os, socket, sys
import attnlearn, numpy

def can(f, *arguments):
    try:
        f(*arguments)
    except (OSError, MemoryError) as error:
        return type(error).__name__
    return "yes"

status = dict(line.split(":", 1) for line in open("/proc/self/status"))
package = os.path.dirname(attnlearn.__file__)
print(json.dumps({
    "user": os.getuid(),
    "capabilities": int(status["CapEff"], 16),
    "privileges": int(status["NoNewPrivs"]),
    "processes": len([name for name in os.listdir("/proc") if name.isdigit()]),
    "grading": os.listdir(package + "/grading"),
    "beside the package": sorted(os.listdir(package + "/..")),
    "home": os.path.exists(os.path.expanduser("~root/.ssh")),
    "shadow": os.path.exists("/etc/shadow"),
    "writes outside": [can(open, path, "w") for path in ("/x", "/usr/x", package + "/x")],
    "writes inside": [can(open, path, "w") for path in ("x", "/tmp/x", "/dev/shm/x")],
    "kernel settings": can(open, "/proc/sys/kernel/core_pattern", "w"),
    "network": can(socket.create_connection, ("127.0.0.1", 1), 1),
    "interfaces": [name for _, name in socket.if_nameindex()],
    "new namespaces": ctypes.CDLL(None).unshare(1 << 28),
    "memory": can(bytearray, 1 << 30),
}))
"""


@BOXED
def test_what_can_be_seen_in_a_box(tmp_path):
    seen = json.loads(inside(SEEN, tmp_path))
    assert seen == {
        "user": 65534,
        "capabilities": 0,
        "privileges": 1,
        "processes": 1,
        "grading": [],
        "beside the package": seen["beside the package"],
        "home": False,
        "shadow": False,
        "writes outside": ["OSError", "OSError", "OSError"],
        "writes inside": ["yes", "yes", "yes"],
        "kernel settings": "OSError",
        "network": "OSError",
        "interfaces": ["lo"],
        "new namespaces": -1,
        "memory": "MemoryError",
    }
    assert not {"solutions", "exercises", "tests", "book"} & set(seen["beside the package"])


def test_a_level_that_does_not_work_here_is_refused(course, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sandbox.Box, "works", lambda self: False)
    arguments = ["grade", str(course / "in"), "--assignment", "92_locks", "--exercises"]
    arguments += [str(course), "--out", str(tmp_path / "out")]
    assert main([*arguments, "--sandbox", "L3"]) == 1
    assert "sandbox L3 does not work on this machine" in capsys.readouterr().err
    assert main(arguments) == 1
    assert "this machine offers L0" in capsys.readouterr().err


REPORTED = {
    "sends right values in a case": "two values arrived for one case",
}


@pytest.mark.parametrize("name", REPORTED)
def test_the_teacher_is_told(graded, name):
    assert any(REPORTED[name] in finding for finding in graded[name]["findings"])


def test_nothing_was_unpickled(course, graded):
    number = list(ATTACKS).index("pickles")
    assert json.loads((course / "out" / "results" / f"s{number}.json").read_text())["version"] == 1


TELLTALE = """\
import base64, os
seen = []
def total(x):
    seen.append(x.shape)
    raise ValueError(f"{os.environ.get('TOKEN_OF_THE_TEACHER')} {seen}")
"""
TELLTALE_2 = "def largest(x):\n    raise ValueError(str(seen) + str(globals().keys()))\n"


def test_hidden_cases_and_the_teachers_secrets_do_not_leak(course, graded, tmp_path):
    content = release.exercise_notebook(source.read(course / "solutions" / "92_locks.py"))
    for cell in content["cells"]:
        if cell["id"] == "lock-1-answer":
            cell["source"] = f"# EXERCISE: lock-1\n{TELLTALE}"
        if cell["id"] == "lock-2-answer":
            cell["source"] = f"# EXERCISE: lock-2\n{TELLTALE_2}"
    notebook.write(tmp_path / "spy.ipynb", notebook.dumps(content))
    arguments = ["grade", str(tmp_path / "spy.ipynb"), "--assignment", "92_locks", "--seed", "hush"]
    arguments += ["--exercises", str(course), "--out", str(tmp_path / "out")]
    assert main([*arguments, "--sandbox", "L0", "--allow-weak-sandbox"]) == 0
    for path in (tmp_path / "out" / "results" / "spy.json", tmp_path / "out/feedback/spy.html"):
        text = path.read_text("utf-8")
        assert "(1, 4)" in text
        assert "(2, 7)" not in text
        assert "secret sizes" not in text
        assert "do not look" not in text
