"""Workers that die, Ctrl-C, files of the same bytes: nobody loses a grade, nobody gets two."""

import json
import os
import signal
import subprocess
import sys
import time
import weakref
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import pytest
from data.handed_in import GOOD_1, GOOD_2, TOP_LEFT, filled
from data.running import running

from attnlearn.commands import grade as command
from attnlearn.grading import answers, assignment, grade, notebook, progress, run, source, workers
from attnlearn.grading import results as stored
from attnlearn.grading.handed_in import work
from attnlearn.grading.isolation import processes, sandbox
from attnlearn.grading.isolation.limits import Limits

pytestmark = [
    pytest.mark.xdist_group(__name__),  # what its tests share is made once
    pytest.mark.skipif(sys.platform == "win32", reason="workers need a POSIX system"),
]
EXERCISES = "tests/data/exercises"
SLEEPER = "import time; time.sleep(7654321)"


@dataclass
class Piece:
    """In place of a submission: what its grading does."""

    key: str
    does: str
    deaths: int = 0


def fragile(folder):
    """The `make` of workers whose grading does what the submission says."""
    run.grade_one = work_of
    run.no_grade = no_grade
    return folder


def work_of(folder, piece):
    tries = folder / f"{piece.key}.tries"
    with open(tries, "a") as file:
        file.write("x")
    if piece.does == "dies" or (piece.does == "dies once" and tries.read_text() == "x"):
        subprocess.Popen([sys.executable, "-c", SLEEPER], start_new_session=True)
        os.kill(os.getpid(), signal.SIGKILL)
    if piece.does == "hangs":
        subprocess.run([sys.executable, "-c", SLEEPER])
    if piece.does == "slow":
        time.sleep(1)
    return {"key": piece.key, "by": os.getpid()}


def no_grade(folder, piece, why):
    if piece.key == "doomed":
        os.kill(os.getpid(), signal.SIGKILL)
    return {"key": piece.key, "why": why}


def broken():
    raise assignment.AssignmentError("no table for this machine")


@pytest.fixture(autouse=True)
def importable(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))


def results(tmp_path, pieces, jobs=2):
    with workers.Crew(jobs, make=partial(fragile, tmp_path)) as crew:
        return [result for _, result in crew.results(pieces)]


def test_a_worker_stays_and_the_order_is_that_of_finishing(tmp_path):
    pieces = [Piece("a", "slow"), *(Piece(key, "works") for key in "bcd")]
    got = results(tmp_path, pieces)
    assert [result["key"] for result in got][-1] == "a"
    assert len({result["by"] for result in got}) == 2
    assert str(os.getpid()) not in {result["by"] for result in got}


def test_a_death_costs_no_grade(tmp_path):
    got = results(tmp_path, [Piece("a", "dies once"), *(Piece(key, "works") for key in "bcd")])
    assert sorted(result["key"] for result in got) == list("abcd")
    assert not any("why" in result for result in got)
    assert (tmp_path / "a.tries").read_text() == "xx"


@pytest.mark.skipif(sys.platform != "linux", reason="orphans are found by /proc")
def test_two_deaths_mean_no_grade_for_one_and_leave_nothing_behind(tmp_path):
    got = results(tmp_path, [Piece("a", "dies"), Piece("b", "slow"), Piece("c", "works")])
    (dead,) = [result for result in got if result["key"] == "a"]
    assert "exit code -9" in dead["why"]
    assert sorted(result["key"] for result in got) == list("abc")
    assert (tmp_path / "a.tries").read_text() == "xx"
    assert not running(SLEEPER)


def test_where_every_worker_dies_the_run_ends(tmp_path):
    with pytest.raises(workers.Died, match="exit code -9"):
        results(tmp_path, [Piece("doomed", "dies")])


def test_a_worker_that_lacks_a_package_says_so(tmp_path, monkeypatch):
    (tmp_path / "nbval.py").write_text("raise ModuleNotFoundError('no nbval here')\n")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ["PYTHONPATH"]]))
    with pytest.raises(ModuleNotFoundError, match="no nbval here"):
        results(tmp_path, [Piece("a", "works")])


@pytest.mark.skipif(sys.platform != "linux", reason="processes are looked up in /proc")
def test_nothing_writes_to_the_folder_of_a_worker_that_nobody_needed(monkeypatch):
    before, left, remove = processes.descendants(), [], workers.folders.remove

    def removed(folder):
        left.append(processes.below(before))
        remove(folder)

    monkeypatch.setattr(workers.folders, "remove", removed)
    with workers.Crew(1) as crew:
        end = time.monotonic() + 60
        while len(processes.tree(crew.first.process.pid)) < 2 and time.monotonic() < end:
            time.sleep(0.05)  # until its server of kernels runs, too
    assert left == [{}]


@pytest.mark.skipif(sys.platform != "linux", reason="processes are looked up in /proc")
def test_a_worker_whose_parent_is_killed_ends_and_leaves_nothing(tmp_path):
    code = f"""if True:
        from functools import partial
        from pathlib import Path
        from test_grade_workers import Piece, fragile, workers
        worker = workers.Worker()
        worker.prepare(partial(fragile, Path({str(tmp_path)!r})))
        worker.ask(workers.run.grade_one, Piece("a", "hangs"))
        print(worker.folder, flush=True)
        worker.answer()
    """
    words, env = [sys.executable, "-c", code], workers.environment()
    parent = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=env)
    folder = parent.stdout.readline().strip()
    end = time.monotonic() + 60
    while not running(SLEEPER) and time.monotonic() < end:
        time.sleep(0.1)
    assert running(SLEEPER)
    parent.kill()
    parent.communicate()
    while Path(folder).exists() and time.monotonic() < end:
        time.sleep(0.1)
    assert not Path(folder).exists()
    assert not running(SLEEPER)


def test_what_is_handed_out_is_read_when_its_turn_comes(tmp_path):
    read = []

    def pieces():
        for number in range(12):
            read.append(number)
            yield Piece(str(number), "works")

    with workers.Crew(2, make=partial(fragile, tmp_path)) as crew:
        for done, _ in enumerate(crew.results(pieces()), 1):
            assert len(read) <= done + 3  # two at work, and one that ended with this one


def test_a_worker_that_can_not_prepare_says_why():
    with (
        workers.Crew(1, make=broken) as crew,
        pytest.raises(assignment.AssignmentError, match="no table for this machine"),
    ):
        list(crew.results([Piece("a", "works")]))


# From here on with the real command, or all of it but the kernels.


@pytest.fixture(scope="module")
def exercise(request):
    return source.read(request.config.rootpath / EXERCISES / "solutions" / "90_demo.py")


@pytest.fixture(scope="module")
def ready(request):
    script = request.config.rootpath / EXERCISES / "solutions" / "90_demo.py"
    return assignment.prepare(script, "a seed", sandbox.Sandbox())


@dataclass
class Pretended:
    """A crew that grades nothing: everybody gets one point."""

    ready: object
    statuses: list = field(default_factory=list)  # of the next results; then "graded"
    seen: list = field(default_factory=list)
    held: list = field(default_factory=list)
    most: int = 0  # works in memory at once

    def places(self, assignment):
        return [stored.place(assignment.sandbox)]

    def results(self, works):
        for own in works:
            self.seen.append(own.key)
            self.held = [ref for ref in [*self.held, weakref.ref(own)] if ref()]
            self.most = max(self.most, len(self.held))
            status = self.statuses.pop(0) if self.statuses else "graded"
            result = run.no_grade(self.ready, own, "pretended")
            yield own, {**result, "status": status, "score": 1.0}


def inbox(exercise, folder, names, answer=GOOD_1):
    for name in names:
        content = filled(exercise, {"demo-1": answer, "demo-2": GOOD_2})
        notebook.write(folder / f"{name}.ipynb", notebook.dumps(content))
    return folder


def written(out):
    return {path.stem: json.loads(path.read_text()) for path in (out / "results").iterdir()}


def grade_all(assignment, folder, out, crew):
    return grade.grade(assignment, work.collect([folder], assignment, 10**6), out, crew=crew)


def test_the_same_bytes_are_graded_once(exercise, ready, tmp_path):
    folder = inbox(exercise, tmp_path / "in", ["ana", "bob", "cleo_101_7_90_demo"])
    inbox(exercise, folder, ["dan"], TOP_LEFT)
    crew = Pretended(ready)
    grade_all(ready, folder, tmp_path / "out", crew)
    assert sorted(crew.seen) == ["ana", "dan"]
    got = written(tmp_path / "out")
    assert {key: (r["student"], r["score"]) for key, r in got.items()} == {
        "ana": ("ana", 1),
        "bob": ("bob", 1),
        "cleo-101": ("cleo", 1),
        "dan": ("dan", 1),
    }
    assert got["cleo-101"]["student_id"] == "101"
    assert got["bob"]["file"].endswith("bob.ipynb")


def test_answers_that_cannot_be_written_stop_no_class(
    exercise, ready, tmp_path, monkeypatch, capsys
):
    def broken(*about):
        raise LookupError("a fault of ours")

    monkeypatch.setattr(answers, "extract", broken)
    folder = inbox(exercise, tmp_path / "in", ["ana", "bob"])
    inbox(exercise, folder, ["bob (1)"], TOP_LEFT)
    grade_all(ready, folder, tmp_path / "out", Pretended(ready))
    assert written(tmp_path / "out").keys() == {"ana", "bob"}
    said = capsys.readouterr().out
    assert said.count("its answers are not written: LookupError('a fault of ours')") == 2
    assert said.count("(2 files, one counts)") == 1


def test_no_grade_is_not_shared(exercise, ready, tmp_path):
    folder = inbox(exercise, tmp_path / "in", ["ana", "bob"])
    crew = Pretended(ready, ["ungraded"])
    grade_all(ready, folder, tmp_path / "out", crew)
    assert crew.seen == ["ana", "bob"]
    got = written(tmp_path / "out")
    assert (got["ana"]["status"], got["bob"]["status"]) == ("ungraded", "graded")


def test_no_class_is_held_in_memory(exercise, ready, tmp_path):
    for number in range(6):
        inbox(exercise, tmp_path / "in", [f"s{number}"], f"{GOOD_1}# {number}\n")
    inbox(exercise, tmp_path / "in", [f"twin{number}" for number in range(4)], TOP_LEFT)
    crew = Pretended(ready, ["ungraded"] * 11)
    grade_all(ready, tmp_path / "in", tmp_path / "out", crew)
    assert len(crew.seen) == 10
    assert crew.most <= 2


def test_what_an_earlier_run_found_holds_for_the_same_bytes_and_conditions(
    exercise, ready, tmp_path
):
    def graded(assignment, names):
        crew, folder = Pretended(assignment), inbox(exercise, tmp_path / "in", names)
        grade_all(assignment, folder, tmp_path / "out", crew)
        return crew.seen

    assert graded(ready, ["ana"]) == ["ana"]
    assert graded(ready, ["bob"]) == []
    assert written(tmp_path / "out")["bob"]["student"] == "bob"
    patient = replace(ready, sandbox=sandbox.Sandbox(Limits(case_seconds=99)))
    assert graded(patient, ["ana"]) == ["ana"]
    assert graded(replace(patient, seed="another"), []) == ["ana"]


def test_the_number_of_workers_changes_no_verdict(exercise, ready, tmp_path):
    for name, answer in (("a", GOOD_1), ("b", TOP_LEFT), ("c", "import os\nos._exit(3)\n")):
        inbox(exercise, tmp_path / "in", [name], answer)
    got = []
    for jobs in (1, 4):
        with workers.Crew(jobs) as crew:
            crew.brief(ready)
            done = grade_all(ready, tmp_path / "in", tmp_path / str(jobs), crew)
        got.append([{**result, "graded": ""} for result in done.results])
    assert got[0] == got[1]
    assert [result["score"] for result in got[0]][:2] == [6, 2.8]
    tables = [(tmp_path / jobs / "grades.csv").read_text() for jobs in "14"]
    assert tables[0] == tables[1]


def test_lines_tell_the_time_left(capsys, monkeypatch):
    clock = iter([0, 100, 150])
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock))
    lines = progress.Lines(3)
    lines.say("ana: 3 of 6")
    lines.say("bob: 0 of 6")
    out = capsys.readouterr().out.splitlines()
    assert out == ["[1/3] ana: 3 of 6", "about 03:20 left", "[2/3] bob: 0 of 6", "about 00:50 left"]


def call(folder, out, jobs):
    words = [sys.executable, "-m", "attnlearn", "grade", str(folder), "--assignment", "90_demo"]
    words += ["--exercises", EXERCISES, "--out", str(out), "--seed", "hush", "-j", str(jobs)]
    return [*words, "--sandbox", "L0", "--allow-weak-sandbox"]


def hears_ctrl_c():
    """Programs that a shell has put into the background do not."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.skipif(sys.platform != "linux", reason="processes are looked up in /proc")
def test_a_run_that_is_stopped_goes_on_where_it_was(request, exercise, tmp_path):
    folder = tmp_path / "in"
    for number in range(8):
        answer = (GOOD_1, TOP_LEFT)[number % 2] + f"# {number}\n"
        inbox(exercise, folder, [f"s{number}"], answer)
    options = {"cwd": request.config.rootpath, "env": workers.environment()}
    options |= {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    first = subprocess.Popen(
        call(folder, tmp_path / "out", 2),
        start_new_session=True,
        preexec_fn=hears_ctrl_c,
        **options,
    )
    first.stdout.readline()
    os.killpg(first.pid, signal.SIGINT)
    _, said = first.communicate(timeout=60)
    assert (first.returncode, said) == (130, "stopped; the same command goes on from here\n")
    assert not running(str(tmp_path))
    before = written(tmp_path / "out")
    assert 1 <= len(before) < 8
    rows = (tmp_path / "out" / "grades.csv").read_text().splitlines()
    assert len(rows) == 1 + len(before)
    again = subprocess.run(call(folder, tmp_path / "out", 1), timeout=120, **options)
    assert again.returncode == 0, again.stderr
    after = written(tmp_path / "out")
    assert {key: after[key] for key in before} == before
    scores = {key: result["score"] for key, result in after.items()}
    assert scores == {f"s{number}": (6, 2.8)[number % 2] for number in range(8)}


@pytest.mark.parametrize("words", ["0", "-1"])
def test_no_workers_are_refused(words, capsys):
    import argparse

    parser = command.add(argparse.ArgumentParser().add_subparsers())
    with pytest.raises(SystemExit):
        parser.parse_args(["x.ipynb", "--assignment", "a", "--out", "o", "-j", words])
    assert "1 or more" in capsys.readouterr().err
