"""What an answer can send and write to cost the grader time or memory without end."""

import time
import types

import pytest
from nbval.kernel import CURRENT_ENV_KERNEL_NAME

from attnlearn.exercise import forbid
from attnlearn.grading import kernel
from attnlearn.grading.handed_in import carried
from attnlearn.grading.isolation import processes
from attnlearn.grading.verdict import Verdict

DRIP = """\
import threading, time
own = get_ipython().kernel
session, parent, send = own.session, own.get_parent("shell"), own.session.send
def drip():
    while True:
        time.sleep(0.3)
        send(own.iopub_socket, "stream", {"name": "stdout", "text": "."}, parent=parent)
threading.Thread(target=drip, daemon=True).start()
session.send = lambda stream, kind, *a, **k: kind == "status" or send(stream, kind, *a, **k)
"""
IN_METADATA = """\
from IPython.display import display
for _ in range(60):
    display({"text/plain": ""}, raw=True, metadata={"x": "A" * (7 << 20)})
"""
MANY_PARTS = """\
import time
own = get_ipython().kernel.iopub_thread
parts = [b"x"] + [bytes(8 << 20)] * 60
own.schedule(lambda: own.socket.send_multipart(parts, copy=False))
time.sleep(9)
"""
NO_LINES = """\
own = get_ipython().kernel
own.session.send(own.iopub_socket, "x", {"traceback": 3}, parent=own.get_parent("shell"))
"""


@pytest.fixture
def own(monkeypatch, tmp_path):
    monkeypatch.setattr(kernel, "GRACE", 1)
    monkeypatch.setattr(kernel, "GROWTH_MB", 100)
    made = kernel.GradingKernel(CURRENT_ENV_KERNEL_NAME, cwd=str(tmp_path), seconds=9)
    made.await_ready(60)
    yield made
    made.stop()


def run(own, source):
    """Read all that comes of a cell, as nbval does."""
    asked = own.execute_cell_input(source)
    own.await_reply(asked)
    while True:
        message = own.get_message("iopub", timeout=5)
        mine = message["parent_header"].get("msg_id") == asked
        if mine and message["content"].get("execution_state") == "idle":
            return


def test_a_cell_that_never_says_that_it_is_idle_ends(own):
    own.seconds, begin = 2, time.monotonic()
    with pytest.raises(kernel.KernelDied):
        run(own, DRIP)
    assert own.fault == "time"
    assert time.monotonic() - begin < 60


@pytest.mark.parametrize("source", [IN_METADATA, MANY_PARTS], ids=["metadata", "parts"])
def test_all_parts_of_a_message_count(own, source):
    before = processes.own_memory()
    with pytest.raises(kernel.KernelDied):
        run(own, source)
    assert own.fault == "output"
    assert processes.own_memory() - before < 600 << 20


def test_an_odd_message_is_left_out(own):
    run(own, NO_LINES)
    assert own.fault is None


CELLS = {
    "one line": "x = 1;" * 9000,
    "a chain": "".join(f"x{n} = x{n + 1}\n" for n in range(9000)),
}


@pytest.mark.parametrize("kind", CELLS)
def test_other_cells_are_searched_once(kind):
    begin = time.process_time()
    carried.statements({0: CELLS[kind]}, {1: "def f():\n    return x0"}, set())
    assert time.process_time() - begin < 9


def test_a_report_reads_each_cell_once():
    source = "def f():\n    " + ";".join(f"x{n}" for n in range(4000))
    exercise = types.SimpleNamespace(
        answer=lambda task: {0: source}, cells={0: {"source": source}}, known=["a"], place=str
    )
    case = {"name": "c", "weight": 1, "value": {"k": "none"}, "call": "", "rtol": 0, "atol": 0}
    table = {"cases": [case], "wrong": [], "points": 1, "blank": "", "given": [], "defines": []}
    begin = time.process_time()
    Verdict(exercise, "a", table, {"c": {"k": "none"}}, {}, None).report()
    assert time.process_time() - begin < 9


def test_a_long_path_is_no_name():
    source = "\n".join(["a" + ".b" * 290] * 300) + "\nnumpy.tril(numpy.x.x.x.x)"
    begin = time.process_time()
    assert forbid.found_in(source, ["numpy.tril"]) == "numpy.tril"
    assert time.process_time() - begin < 9


@pytest.mark.parametrize("code", ["x = {}1", "x = 1{}", "def f():\n    a{}"])
def test_what_is_almost_too_deep_for_python_is_too_deep(code):
    part = {"x = {}1": "-", "x = 1{}": "+1"}.get(code, ".b")
    assert carried.readable(code.format(part * 200))
    assert not any(carried.readable(code.format(part * n)) for n in range(400, 3100, 300))
