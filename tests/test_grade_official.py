"""A submission as a whole: how long it may take, what ends with it, and what is removed then."""

import contextlib
import os
import signal
import subprocess
import sys
import time

import pytest
from data.handed_in import GOOD_2, filled

from attnlearn.grading import assignment, notebook, official, run, source
from attnlearn.grading.handed_in.students import Student
from attnlearn.grading.handed_in.work import Work
from attnlearn.grading.isolation import folders, sandbox
from attnlearn.grading.isolation.limits import Limits

pytestmark = pytest.mark.xdist_group(__name__)
CALLER = "import subprocess, sys; subprocess.Popen(sys.argv[1:]).wait()"


def group(leader):
    """The processes of a group that still run."""
    shown = subprocess.run(["ps", "-eo", "pgid=,stat="], capture_output=True, text=True).stdout
    rows = [line.split() for line in shown.splitlines()]
    return [stat for pgid, stat in rows if int(pgid) == leader and stat[0] != "Z"]


def test_all_cells_together_have_a_limit(request, monkeypatch):
    """Thousands of cells, each below its own limit, would keep a worker for days."""
    monkeypatch.setattr(official, "SHARE", 0.05)
    folder = request.config.rootpath / "tests" / "data" / "exercises"
    script = folder / "solutions" / "90_demo.py"
    prepared = assignment.prepare(script, "a secret", sandbox.Sandbox(Limits(cell_seconds=10)))
    answers = {"demo-1": "import time\ntime.sleep(1.5)\n", "demo-2": GOOD_2}
    content = filled(source.read(script), answers)
    work = Work(Student("a"), "a", content=notebook.parse(notebook.dumps(content).encode(), "a"))
    result = run.grade_one(prepared, work)
    assert result["status"] == "graded"
    assert result["score"] == 0
    assert all("used up their time" in str(task["notes"]) for task in result["exercises"])


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has namespaces")
def test_a_box_ends_with_the_process_that_started_it(tmp_path):
    box = sandbox.Box(Limits())
    if why := box.trouble():
        pytest.skip(why)
    box.make_folders(tmp_path)
    command = box.wrapped([sys.executable, "-c", "print('ready', flush=True); input()"], tmp_path)
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
        while (left := group(caller.pid)) and time.monotonic() < end:
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
