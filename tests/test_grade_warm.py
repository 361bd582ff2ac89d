"""Kernels forked from a warm server: quick, and in nothing else different from cold ones."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from queue import Empty

import pytest
from data.handed_in import GOOD_1, GOOD_2, filled
from nbval.kernel import CURRENT_ENV_KERNEL_NAME

from attnlearn.grading import assignment, notebook, run, source
from attnlearn.grading.environment import PACKAGE_PARENT
from attnlearn.grading.handed_in.students import Student
from attnlearn.grading.handed_in.work import Work
from attnlearn.grading.isolation import processes, sandbox, warm
from attnlearn.grading.kernel import GradingKernel

pytestmark = [
    pytest.mark.xdist_group(__name__),  # what its tests share is made once
    pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="no handles of processes here"),
]
LEVELS = ["L0", "L1", "L2", "L3"]


@pytest.fixture(scope="module", params=LEVELS)
def box(request):
    found = sandbox.KINDS[int(request.param[1])]()
    if not found.works():
        pytest.skip(f"{request.param} does not work on this machine")
    return found


@pytest.fixture(scope="module")
def unboxed():
    return sandbox.Sandbox()


@contextlib.contextmanager
def kernel(box, folder, server, seconds=60):
    folder.mkdir()
    box.make_folders(folder)
    processes.adopt_orphans()
    spared = processes.descendants()
    started = GradingKernel(
        CURRENT_ENV_KERNEL_NAME,
        str(folder / "scratch"),
        seconds,
        argv=box.command(folder),
        env=box.environment(folder / "scratch"),
        server=server,
    )
    try:
        started.await_ready(60)
        yield started
    finally:
        if hasattr(started, "km"):
            started.stop()
        processes.end_all(spared)


@pytest.fixture
def warm_kernel(box, tmp_path):
    with kernel(box, tmp_path / "k", warm.server(box), seconds=2) as started:
        assert isinstance(started.km.provisioner.process, warm.Fork)
        yield started


def printed(kernel, code):
    """What a cell prints, or the name of its error."""
    asked, text = kernel.execute_cell_input(code), ""
    kernel.await_reply(asked)
    while True:
        message = kernel.get_message("iopub", timeout=5)
        content = message["content"]
        text += content.get("text", "") + content.get("ename", "")
        if content.get("execution_state") == "idle" and message["parent_header"]["msg_id"] == asked:
            return text


FACTS = """\
import json, os, random, signal, sys, tempfile
import numpy
print(json.dumps({
    "path": sys.path,
    "program": sys.argv[0],
    "environment": {k: v for k, v in os.environ.items() if not k.startswith("JPY_")},
    "folder": os.getcwd(),
    "temporary": tempfile.gettempdir(),
    "hash": hash("a word"),
    "flags": str(sys.flags),
    "signals": [str(signal.getsignal(n)) for n in (signal.SIGINT, signal.SIGCHLD, signal.SIGTERM)],
    "own modules": sorted(n for n in sys.modules if n.split(".")[0] in ("attnlearn", "launch")),
    "session": os.getsid(0) == os.getpgid(0),
}))
print(random.random(), numpy.random.rand())
"""


def about(text):
    """The facts, but for where an editable install puts this package on the path."""
    facts = json.loads(text)
    return {**facts, "path": [path for path in facts["path"] if path != str(PACKAGE_PARENT)]}


def test_a_warm_kernel_is_like_a_cold_one(box, tmp_path):
    said = []
    for server in (None, warm.server(box)):
        with kernel(box, tmp_path / "k", server) as started:
            said.append(printed(started, FACTS).splitlines())
        (tmp_path / "k").rename(tmp_path / str(len(said)))
    (cold, cold_chance), (warmed, warm_chance) = said
    assert about(warmed) == about(cold)
    assert warm_chance != cold_chance


LEAVES = """\
import os, random, sys, numpy
os.environ["LEFT"] = "yes"
numpy.left = sys.left = 1
random.seed(5)
numpy.random.seed(5)
open("left", "w").close()
sys.path.append("left")
"""
SEES = """\
import os, random, sys, numpy
import torch
print("LEFT" in os.environ, hasattr(numpy, "left"), hasattr(sys, "left"), os.path.exists("left"),
      "left" in sys.path, random.random(), numpy.random.rand(), torch.rand(1).item())
"""


def test_one_kernel_leaves_nothing_to_the_next(unboxed, tmp_path):
    server, seen = warm.server(unboxed), []
    for name in ("a", "b"):
        with kernel(unboxed, tmp_path / name, server) as started:
            seen.append(printed(started, SEES).split())
            assert printed(started, LEAVES) == ""
    assert seen[0][:5] == seen[1][:5] == ["False"] * 5
    assert not set(seen[0][5:]) & set(seen[1][5:])
    assert warm.server(unboxed) is server


@pytest.mark.parametrize("packages", [("torch",), ()])
def test_kernels_have_the_packages_that_were_asked_for(unboxed, tmp_path, packages):
    server = warm.server(unboxed, packages)
    with kernel(unboxed, tmp_path / "k", server) as started:
        there = printed(started, "import sys; print('torch' in sys.modules)")
    assert there == f"{'torch' in packages}\n"
    assert warm.server(unboxed, packages) is server


def test_a_dead_server_is_replaced_and_a_kernel_starts_without_one(unboxed, tmp_path):
    server = warm.server(unboxed)
    assert server.await_ready()
    os.kill(server.process.pid, signal.SIGKILL)
    server.process.wait()
    with kernel(unboxed, tmp_path / "k", server) as started:
        assert not isinstance(started.km.provisioner.process, warm.Fork)
        assert printed(started, "print(1)") == "1\n"
    assert warm.server(unboxed) is not server
    assert warm.server(unboxed).works()


def test_a_server_that_does_not_answer_is_ended(unboxed, tmp_path, monkeypatch):
    monkeypatch.setattr(warm, "ANSWER_SECONDS", 0.5)
    server = warm.Server(unboxed)
    assert server.await_ready()
    os.kill(server.process.pid, signal.SIGSTOP)
    with kernel(unboxed, tmp_path / "k", server) as started:
        assert printed(started, "print(1)") == "1\n"
    assert not server.works()


GRADER = """\
import sys, time
from attnlearn.grading.isolation import sandbox, warm
print(warm.Server(sandbox.Sandbox()).process.pid, flush=True)
time.sleep(60)
"""


def test_the_server_ends_when_the_grader_is_killed():
    with subprocess.Popen([sys.executable, "-c", GRADER], stdout=subprocess.PIPE) as grader:
        pid = int(grader.stdout.readline())
        os.kill(pid, 0)
        grader.kill()
    end = time.monotonic() + 10
    while processes.PROC.joinpath(str(pid), "exe").exists() and time.monotonic() < end:
        time.sleep(0.02)
    assert not processes.PROC.joinpath(str(pid), "exe").exists()


def test_a_command_of_the_shell_asks_for_no_terminal(warm_kernel):
    assert printed(warm_kernel, "!exit 3\nprint(_exit_code)") == "3\n"


def test_an_endless_loop_is_interrupted(warm_kernel):
    with pytest.raises(Empty):
        warm_kernel.await_reply(warm_kernel.execute_cell_input("while True: pass"))
    warm_kernel.interrupt()
    assert printed(warm_kernel, "print(1)").endswith("1\n")


def test_a_loop_in_c_is_killed(warm_kernel):
    asked = warm_kernel.execute_cell_input("import itertools; sum(itertools.repeat(1))")
    with pytest.raises(Empty):
        warm_kernel.await_reply(asked)
    process = warm_kernel.km.provisioner.process
    warm_kernel.stop()
    assert process.poll() is not None


def test_a_death_is_noticed_at_once(warm_kernel):
    start = time.monotonic()
    warm_kernel.await_reply(warm_kernel.execute_cell_input("import os; os._exit(0)"))
    assert time.monotonic() - start < 1.5  # of the two seconds that the cell may take
    assert warm_kernel.fault == "died"


DAEMON = """\
import subprocess, sys, time
code = "import os, time; os.setsid(); os.fork() and os._exit(0); time.sleep(98764)"
subprocess.run([sys.executable, "-c", code])
"""


def test_a_daemon_goes_with_its_kernel_and_the_server_stays(box, tmp_path):
    server = warm.server(box)
    with kernel(box, tmp_path / "k", server) as started:
        assert printed(started, DAEMON) == ""
        below = processes.descendants().keys()
    left = processes.descendants()
    assert server.works()
    assert len(below) > len(left)
    for path in processes.PROC.glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            assert b"sleep(98764)" not in path.read_bytes()


CHANCE = "DRAWN = np.random.rand(), __import__('random').random()\n"
WORKS = {
    "right": (GOOD_1, GOOD_2),
    "chance": (
        CHANCE + GOOD_1.replace("    return", "    if T == 1: raise ValueError(DRAWN)\n    return"),
        CHANCE + GOOD_2.replace("    e =", "    x = x + DRAWN[0]\n    e ="),
    ),
}


@pytest.fixture(scope="module")
def demo(request):
    folder = request.config.rootpath / "tests" / "data" / "exercises"
    script = folder / "solutions" / "90_demo.py"
    return source.read(script), assignment.prepare(script, "a secret", sandbox.Sandbox())


@pytest.mark.parametrize("name", WORKS)
def test_results_are_the_same(demo, box, monkeypatch, name):
    exercise, prepared = demo
    prepared.sandbox = box
    content = filled(exercise, dict(zip(["demo-1", "demo-2"], WORKS[name], strict=True)))
    work = Work(Student("a"), "a", content=notebook.parse(notebook.dumps(content).encode(), "a"))
    got = [run.grade_one(prepared, work) for _ in range(2)]
    monkeypatch.setattr(warm, "server", lambda *about: None)
    got.append(run.grade_one(prepared, work))
    assert got[0]["exercises"] == got[1]["exercises"] == got[2]["exercises"]
    assert got[0]["findings"] == []
    assert (got[0]["score"] == 6) == (name == "right")


def test_a_slow_package_of_jsonschema_is_not_imported():
    code = "import sys, attnlearn.grading.session; sys.exit('rfc3987_syntax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
