"""Worker processes: each grades one submission at a time, and its death costs nobody a grade.

`python -m attnlearn.grading.workers DESCRIPTOR FOLDER PACKAGE...` is such a worker; all that it
writes is in its folder, and its kernels have these packages at once.
"""

import contextlib
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
import time
from functools import partial
from multiprocessing import Pipe, connection

from . import results, run
from .environment import environment
from .isolation import folders, processes, warm
from .isolation.sandbox import Sandbox

FAREWELL = 10  # seconds for a worker to end by itself
DEATHS = 4  # of workers with one submission: then none can live here
OWN = {}  # {pid: start time} of all workers of this process: they are nobody's orphans
KNOWN = threading.Lock()  # held while a worker is not yet in OWN, or orphans are looked for


class Died(ChildProcessError):
    """A worker is gone before it answered."""


class Worker:
    """A process that prepares an assignment once and then grades what it is given."""

    def __init__(self, packages=()):
        self.line, far = Pipe()
        self.folder = tempfile.mkdtemp(prefix="worker-")
        os.chmod(self.folder, 0o711)  # a kernel of another user passes through
        command = [sys.executable, "-m", "attnlearn.grading.workers"]
        with KNOWN:
            self.process = subprocess.Popen(
                [*command, str(far.fileno()), self.folder, *packages],
                pass_fds=[far.fileno()],
                stdin=subprocess.DEVNULL,
                env=environment(TMPDIR=self.folder),
                process_group=0,  # Ctrl-C is for its parent
            )
            OWN[self.process.pid] = processes.children().get(self.process.pid)
        far.close()

    def prepare(self, make):
        """`make()`, called in the worker, returns the assignment."""
        self.ask(pickle.dumps(make))

    def ask(self, *question):
        """Send (function, arguments...) that the worker calls with its assignment."""
        with contextlib.suppress(OSError):  # `answer` finds out
            self.line.send(question)

    def answer(self):
        try:
            answer = self.line.recv()
        except (EOFError, OSError):
            self.process.wait()
            raise Died(f"its worker ended with exit code {self.process.returncode}") from None
        if isinstance(answer, Exception):
            raise answer
        return answer

    def end(self):
        self.line.close()  # an idle worker ends then
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(FAREWELL)
        self.process.kill()
        self.process.wait()
        OWN.pop(self.process.pid)
        folders.remove(self.folder)


class Crew:
    """Up to `jobs` workers, and an eye on what a dead one leaves.

    The first one starts at once, for that takes a while: what it grades may be told to the crew
    later. The others start as they are needed.
    """

    def __init__(self, jobs, packages=(), make=None):
        self.jobs, self.packages, self.make = jobs, packages, make
        self.free, self.busy = [], {}  # worker: work

    def __enter__(self):
        if sys.platform == "win32":
            raise ValueError("Windows itself starts no workers: grade in WSL 2")
        processes.adopt_orphans()
        self.others = processes.children()
        self.first = Worker(self.packages)
        return self

    def brief(self, assignment):
        self.make, self.packages = partial(_ready, assignment), assignment.packages

    def __exit__(self, *about):
        for worker in self.free:
            worker.line.close()
        for worker in self.free:
            worker.end()
        rest = [*self.busy, *filter(None, [self.first])]
        for worker in rest:
            worker.process.kill()
            worker.process.wait()
        self._clean()  # nothing writes any more to what is removed next
        for worker in rest:
            worker.end()

    def places(self, assignment):
        """What grades depend on of this machine."""
        return [results.place(assignment.sandbox)]

    def results(self, works):
        """Yield (work, result) in the order of finishing; `works` is read as workers get free.

        Whoever is free gets the next before a result is passed on: writing it takes time, too.
        """
        works, finished = iter(works), []
        while True:
            while (self.free or len(self.busy) < self.jobs) and (work := next(works, None)):
                worker = self.free.pop() if self.free else self._new()
                self._give(worker, work, run.grade_one, work)
            yield from finished
            if not self.busy:
                return
            finished = list(self._finished())

    def _new(self):
        worker, self.first = self.first or Worker(self.packages), None
        worker.prepare(self.make)
        return worker

    def _give(self, worker, work, *question):
        self.busy[worker] = work
        worker.ask(*question)

    def _finished(self):
        ready = connection.wait([worker.line for worker in self.busy])
        for worker in [worker for worker in self.busy if worker.line in ready]:
            work = self.busy.pop(worker)
            try:
                result = worker.answer()
            except Died as death:
                self._clean()
                worker.end()
                self._once_more(work, str(death))
            except Exception:  # the assignment could not be prepared
                worker.end()
                raise
            else:
                self.free.append(worker)
                yield work, result

    def _once_more(self, work, why):
        """One death may be somebody else's fault; a second one means no grade."""
        work.deaths += 1
        if work.deaths == DEATHS:
            raise Died(f"no worker lives long enough to say that there is no grade: {why}")
        question = (run.grade_one, work) if work.deaths == 1 else (run.no_grade, work, why)
        self._give(self._new(), work, *question)

    def _clean(self):
        with KNOWN:
            processes.end_orphans(self.others | OWN)


def _ready(assignment):
    return assignment


def serve(line, folder, packages):
    """The life of a worker: it ends with its parent, and leaves Ctrl-C to it."""
    signal.signal(signal.SIGINT, lambda *about: None)
    threading.Thread(target=_end_with_parent, args=(os.getppid(), folder), daemon=True).start()
    warm.server(Sandbox(), packages)  # it gets ready while this process does
    with contextlib.suppress(EOFError, OSError):  # nobody is there any more
        try:
            from . import ahead  # with pytest and nbval, which may be missing

            (make,) = line.recv()
            assignment = pickle.loads(make)()
        except Exception as error:
            line.recv()
            line.send(error)
            return
        ahead.on = True
        try:
            while True:
                function, *arguments = line.recv()
                line.send(function(assignment, *arguments))
        finally:
            ahead.end()


def _end_with_parent(parent, folder):
    while os.getppid() == parent:
        time.sleep(1)
    processes.end_all({})
    folders.remove(folder)
    os._exit(1)


if __name__ == "__main__":
    try:
        serve(connection.Connection(int(sys.argv[1])), sys.argv[2], tuple(sys.argv[3:]))
    finally:
        folders.remove(sys.argv[2])
