"""A submission as a whole: how long it may take, what ends with it, and what is removed then."""

import contextlib
import os
import signal
import subprocess
import sys
import time

import pytest
from data.handed_in import GOOD_1, GOOD_2, filled
from data.running import running

from attnlearn.grading import ahead, assignment, notebook, official, run, source, start
from attnlearn.grading.handed_in.students import Student
from attnlearn.grading.handed_in.work import Work
from attnlearn.grading.isolation import folders, sandbox
from attnlearn.grading.isolation.limits import Limits

pytestmark = pytest.mark.xdist_group(__name__)
INSIDE = "print('ready', flush=True); input()  # in a box"
CALLER = "import subprocess, sys; subprocess.Popen(sys.argv[1:]).wait()"


@pytest.fixture(scope="module")
def demo(request):
    folder = request.config.rootpath / "tests" / "data" / "exercises"
    script = folder / "solutions" / "90_demo.py"
    box = sandbox.Sandbox(Limits(cell_seconds=10))
    return source.read(script), assignment.prepare(script, "a secret", box)


def graded(demo, answer):
    exercise, prepared = demo
    content = filled(exercise, {"demo-1": answer, "demo-2": GOOD_2})
    work = Work(Student("a"), "a", content=notebook.parse(notebook.dumps(content).encode(), "a"))
    return run.grade_one(prepared, work)


def test_all_cells_together_have_a_limit(demo, monkeypatch):
    """Thousands of cells, each below its own limit, would keep a worker for days."""
    monkeypatch.setattr(official, "SHARE", 0.05)
    result = graded(demo, "import time\ntime.sleep(1.5)\n")
    assert result["status"] == "graded"
    assert result["score"] == 0
    assert all("used up their time" in str(task["notes"]) for task in result["exercises"])


def test_a_next_kernel_that_does_not_start_costs_this_submission_nothing(demo, monkeypatch):
    begun, kernel = [], start.kernel

    def only_the_first(job):
        begun.append(job)
        if len(begun) > 1:
            raise OSError("no space left")
        return kernel(job)

    monkeypatch.setattr(start, "kernel", only_the_first)
    monkeypatch.setattr(ahead, "on", True)
    assert graded(demo, GOOD_1)["score"] == 6
    assert len(begun) == 2
    assert ahead.process() is None
    result = graded(demo, GOOD_1)
    assert result["status"] == "ungraded"
    assert "no space left" in result["findings"][-1]


def test_the_next_kernel_waits_and_is_taken(demo, monkeypatch):
    monkeypatch.setattr(ahead, "on", True)
    try:
        assert graded(demo, GOOD_1)["score"] == 6
        waits, kernels = ahead.process(), []
        assert waits
        monkeypatch.setattr(official.OfficialFile, "teardown", spying(kernels))
        assert graded(demo, GOOD_1)["score"] == 6
        assert kernels == [waits]
        assert ahead.process() not in (None, waits)
    finally:
        home = ahead._waiting.home
        ahead.end()
    assert ahead.process() is None
    assert not home.exists()


def spying(kernels):
    teardown = official.OfficialFile.teardown

    def spy(file):
        kernels.append(file.kernel.km.provisioner.pid)
        teardown(file)

    return spy


def test_a_fault_of_ours_stops_no_class(demo, monkeypatch):
    """pytest gives the same exit code to an error while it collects and to Ctrl-C."""

    def collect(file):
        raise LookupError("a fault of ours")

    monkeypatch.setattr(official.OfficialFile, "collect", collect)
    result = graded(demo, GOOD_1)
    assert result["status"] == "ungraded"
    assert "The grader failed. LookupError: a fault of ours" in result["findings"]


def test_ctrl_c_stops_the_run(demo, monkeypatch):
    def interrupted(item):
        raise KeyboardInterrupt

    monkeypatch.setattr(official.OfficialItem, "runtest", interrupted)
    with pytest.raises(KeyboardInterrupt):
        graded(demo, GOOD_1)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has namespaces")
def test_a_box_ends_with_the_process_that_started_it(tmp_path):
    box = sandbox.Box(Limits())
    if why := box.trouble():
        pytest.skip(why)
    box.make_folders(tmp_path)
    command = box.wrapped([sys.executable, "-c", INSIDE], tmp_path)
    caller = subprocess.Popen(
        [sys.executable, "-c", CALLER, *command],
        cwd=tmp_path / "scratch",
        env=box.environment(tmp_path / "scratch"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        assert caller.stdout.readline() == b"ready\n"
        caller.kill()
        caller.wait()
        end = time.monotonic() + 5
        while (left := running(INSIDE)) and time.monotonic() < end:
            time.sleep(0.05)
        assert not left
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(caller.pid, signal.SIGKILL)


@pytest.mark.skipif(sys.platform == "win32", reason="rights of POSIX")
def test_a_link_that_takes_the_place_of_a_folder_opens_nothing(tmp_path, monkeypatch):
    own, other = tmp_path / "own", tmp_path / "other"
    own.mkdir()
    other.mkdir()
    other.chmod(0o755)
    (own / "link").symlink_to(other)
    monkeypatch.setattr(os.path, "islink", lambda path: False)  # it was none a moment ago
    folders.remove(own)
    assert other.stat().st_mode & 0o777 == 0o755


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere there is no glibc")
def test_an_old_glibc_opens_a_closed_folder_and_no_link(tmp_path, monkeypatch):
    """Before 2.32 it refuses to look whether a path is a link when it changes rights."""
    closed, other, chmod = tmp_path / "closed", tmp_path / "other", os.chmod

    def of_an_old_glibc(path, mode, *, follow_symlinks=True):
        if not follow_symlinks:
            raise NotImplementedError
        chmod(path, mode)

    closed.mkdir(0o000)
    other.mkdir(0o755)
    (tmp_path / "link").symlink_to(other)
    monkeypatch.setattr(os, "chmod", of_an_old_glibc)
    monkeypatch.setattr(os.path, "islink", lambda path: False)
    for name in ("closed", "link"):
        folders._open(tmp_path / name)
    assert closed.stat().st_mode & 0o777 == 0o700
    assert other.stat().st_mode & 0o777 == 0o755
