"""Grading on Dask: a real scheduler and two workers on this machine, one of them killed."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
from data.handed_in import GOOD_1, GOOD_2, TOP_LEFT, filled

from attnlearn.__main__ import main
from attnlearn.grading import notebook, source, workers
from attnlearn.grading.gradebook import Gradebook

pytest.importorskip("distributed")
pytestmark = [
    pytest.mark.xdist_group(__name__),  # what its tests share is made once
    pytest.mark.skipif(sys.platform == "win32", reason="workers need a POSIX system"),
]
EXERCISES = "tests/data/exercises"
PLAIN = ["--sandbox", "L0", "--allow-weak-sandbox", "--seed", "hush", "--exercises", EXERCISES]
DASK = [sys.executable, "-m", "dask"]


@pytest.fixture(scope="module")
def inbox(request, tmp_path_factory):
    """Eight students, every second one with a mistake in one task."""
    folder = tmp_path_factory.mktemp("inbox")
    exercise = source.read(request.config.rootpath / EXERCISES / "solutions" / "90_demo.py")
    for number in range(8):
        answer = (GOOD_1, TOP_LEFT)[number % 2] + f"# {number}\n"
        content = filled(exercise, {"demo-1": answer, "demo-2": GOOD_2})
        notebook.write(folder / f"s{number}.ipynb", notebook.dumps(content))
    return folder


@pytest.fixture(scope="module")
def cluster(request, tmp_path_factory):
    """Address of a scheduler, and its two workers."""
    folder = tmp_path_factory.mktemp("dask")
    meeting = folder / "scheduler.json"
    common = ["--scheduler-file", str(meeting), "--no-dashboard", "--host", "127.0.0.1"]
    options = {"cwd": request.config.rootpath, "env": workers.environment()}
    options |= {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    scheduler = subprocess.Popen([*DASK, "scheduler", *common, "--port", "0"], **options)
    own = ["--nthreads", "1", "--local-directory", str(folder), "--no-nanny"]
    both = [subprocess.Popen([*DASK, "worker", *common, *own], **options) for _ in range(2)]
    end = time.monotonic() + 60
    while not meeting.exists() and time.monotonic() < end:
        time.sleep(0.1)
    yield json.loads(meeting.read_text())["address"], scheduler, both
    for process in [*both, scheduler]:
        process.kill()
    for process in [*both, scheduler]:
        process.wait(30)


def call(inbox, out, address):
    words = ["grade", str(inbox), "--assignment", "90_demo", *PLAIN, "--out", str(out)]
    return [*words, "--dask", address]


def started(request, words):
    options = {"cwd": request.config.rootpath, "env": workers.environment(), "text": True}
    options |= {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen([sys.executable, "-m", "attnlearn", *words], **options)


def test_a_worker_that_is_killed_costs_no_grade_and_doubles_none(request, inbox, cluster, tmp_path):
    address, _, (victim, _) = cluster
    words = call(inbox, tmp_path, address)
    grading = started(request, words)
    lines = [grading.stdout.readline() for _ in range(2)]
    os.kill(victim.pid, signal.SIGKILL)
    out, err = grading.communicate(timeout=120)
    assert grading.returncode == 0, err
    lines = [line for line in [*lines, *out.splitlines()] if line.startswith("[")]
    assert sorted(line.split()[1] for line in lines) == [f"s{n}:" for n in range(8)]
    results = [json.loads(path.read_text()) for path in (tmp_path / "results").iterdir()]
    assert {result["student"]: result["score"] for result in results} == {
        f"s{number}": (6, 2.8)[number % 2] for number in range(8)
    }
    rows = (tmp_path / "grades.csv").read_text().splitlines()
    assert len(rows) == 9
    assert main(words) == 0
    with Gradebook.read(tmp_path / "gradebook.sqlite") as book:
        assert [(run["graded"], run["kept"]) for run in book.runs()] == [(8, 0), (0, 8)]


def test_a_scheduler_that_is_lost_costs_nothing_that_is_graded(request, inbox, cluster, tmp_path):
    address, scheduler, _ = cluster
    grading = started(request, call(inbox, tmp_path, address))
    grading.stdout.readline()
    scheduler.kill()
    _, said = grading.communicate(timeout=120)
    assert (grading.returncode, said) == (1, f"error: the Dask scheduler at {address} is gone\n")
    kept = list((tmp_path / "results").iterdir())
    assert 1 <= len(kept) < 8
    assert len((tmp_path / "grades.csv").read_text().splitlines()) == 1 + len(kept)


def test_without_a_scheduler_there_is_one_plain_line(inbox, tmp_path, capsys, monkeypatch):
    from attnlearn.grading import cluster

    monkeypatch.setattr(cluster, "PATIENCE", 1)
    assert main(call(inbox, tmp_path, "tcp://127.0.0.1:9")) == 1
    said = capsys.readouterr().err
    assert said.startswith("error: no Dask scheduler at tcp://127.0.0.1:9")
    assert len(said.splitlines()) == 1


def test_half_of_tls_is_refused(inbox, tmp_path, capsys):
    words = call(inbox, tmp_path, "tls://127.0.0.1:9")
    assert main([*words, "--tls-ca", str(inbox)]) == 1
    assert "give all three" in capsys.readouterr().err
