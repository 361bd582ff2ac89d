"""Many machines: `attnlearn grade --dask tcp://scheduler:8786`, on Dask distributed.

Each machine prepares the assignment by itself, so expected values and answers come from the same
environment, and its own sandbox has to be strong enough. A worker of Dask that dies costs nobody
a grade: its submissions go to another one, and the caller writes each result once.

Over tcp:// the seed, the exercise with its solution, and all that was handed in travel in the
clear, and whoever reaches the scheduler can run code on its workers. That is for one machine or a
network of your own; elsewhere tls:// asks everybody for a certificate. Workers that grade do
nothing else: processes that they have not started for grading may be ended.
"""

import logging
import tempfile
import threading
from dataclasses import dataclass, field
from pathlib import Path

from . import assignment, expected, results, run
from .assignment import AssignmentError
from .isolation.limits import Limits
from .workers import Crew

PATIENCE = 20  # seconds for a scheduler to answer, and for a worker to be there
AHEAD = 2  # submissions that wait at each thread of a worker
CREWS = {}  # of a worker of Dask: {thread: (recipe, crew)}


@dataclass(frozen=True)
class Recipe:
    """All that a machine needs to prepare an assignment by itself."""

    stem: str
    script: str = field(repr=False)  # its text; Dask logs what it can't run
    seed: str = field(repr=False)
    limits: Limits
    level: int | None  # of the sandbox; None: the strongest that works
    weak: bool  # may the sandbox be too weak for official grading?

    def box(self):
        return assignment.strong_enough(self.limits, self.level, self.weak)

    def prepare(self):
        with tempfile.TemporaryDirectory(prefix="exercise-") as folder:
            script = Path(folder, f"{self.stem}.py")
            script.write_text(self.script, "utf-8")
            return assignment.prepare(script, self.seed, self.box())


class Cluster:
    """A crew whose workers are those of a Dask scheduler.

    `recipe` makes a `Recipe` of what an assignment knows of itself.
    """

    def __init__(self, address, recipe, security=None):
        self.address, self.make_recipe, self.security = address, recipe, security

    def __enter__(self):
        from distributed import Client

        logging.getLogger("distributed.client").setLevel(logging.CRITICAL)  # we say it ourselves
        try:
            self.client = Client(self.address, security=self.security, timeout=PATIENCE)
        except (OSError, TypeError, ValueError) as error:
            raise AssignmentError(f"no Dask scheduler at {self.address}: {error}") from None
        return self

    def __exit__(self, *about):
        self.client.close()

    def brief(self, ready):
        self.ready = ready
        self.recipe = self.make_recipe(
            stem=ready.stem, seed=ready.seed, limits=ready.sandbox.limits
        )

    def places(self, assignment):
        """What grades depend on of each machine; one that can't grade is named before the start."""
        self._await_worker()
        found = self.client.run(place_there, self.recipe, on_error="return")
        for worker, place in found.items():
            if isinstance(place, Exception):
                raise AssignmentError(f"the Dask worker at {worker} can't grade: {place}")
        return list(found.values())

    def results(self, works):
        """Yield (work, result) in the order of finishing."""
        works, own = iter(works), {}  # future: work
        room = AHEAD * sum(self.client.nthreads().values())
        while True:
            while len(own) < room and (work := next(works, None)):
                own[self.client.submit(grade_there, self.recipe, work, pure=False)] = work
            if not own:
                return
            for future in self._finished(own):
                work = own.pop(future)
                yield work, self._result(future, work)

    def _finished(self, own):
        from distributed import CancelledError, wait

        while True:
            try:
                return wait(list(own), timeout=PATIENCE, return_when="FIRST_COMPLETED").done
            except TimeoutError:
                self._await_worker()
            except CancelledError:
                raise self._gone() from None

    def _await_worker(self):
        try:
            self.client.wait_for_workers(1, timeout=PATIENCE)
        except TimeoutError:
            how = f"start some: dask worker {self.address}"
            raise AssignmentError(f"no worker at the scheduler {self.address}; {how}") from None

    def _result(self, future, work):
        try:
            return future.result()
        except AssignmentError:
            raise
        except Exception as error:  # such as KilledWorker, after several deaths
            if future.cancelled() or self.client.status != "running":
                raise self._gone() from None
            return run.no_grade(self.ready, work, f"{type(error).__name__}: {error}")

    def _gone(self):
        return AssignmentError(f"the Dask scheduler at {self.address} is gone")


def security(ca, certificate, key):
    """What the caller needs to speak TLS with the scheduler."""
    from distributed.security import Security

    return Security(
        tls_ca_file=str(ca),
        tls_client_cert=str(certificate),
        tls_client_key=str(key),
        require_encryption=True,
    )


def place_there(recipe):
    """On a worker of Dask: what grades depend on there."""
    return results.place(recipe.box())


def grade_there(recipe, work):
    """On a worker of Dask: the result of one submission, in a process of this thread's own."""
    ((_, result),) = _crew(recipe).results([work])
    return result


def _crew(recipe):
    """The crew of this thread; that of another assignment is sent home."""
    thread = threading.get_ident()
    known, crew = CREWS.get(thread, (None, None))
    if known != recipe:
        if crew:
            crew.__exit__()
        packages = expected.likely_packages(recipe.script)
        crew = Crew(1, packages, recipe.prepare).__enter__()
        CREWS[thread] = recipe, crew
    return crew
