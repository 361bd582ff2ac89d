"""Many machines: `attnlearn grade --dask tcp://scheduler:8786`, on Dask distributed.

Each machine prepares the assignment by itself, so expected values and answers come from the same
environment, and its own sandbox has to be strong enough. A worker of Dask that dies costs nobody
a grade: its submissions go to another one, and the caller writes each result once.
"""

import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path

from . import assignment, run
from .assignment import AssignmentError
from .isolation.limits import Limits
from .workers import Crew

PATIENCE = "20s"  # for the scheduler to answer
AHEAD = 2  # submissions that wait at each thread of a worker
CREWS = {}  # of a worker of Dask: {(thread, recipe): crew}


@dataclass(frozen=True)
class Recipe:
    """All that a machine needs to prepare an assignment by itself."""

    stem: str
    script: str  # its text
    seed: str
    limits: Limits
    level: int | None  # of the sandbox; None: the strongest that works
    weak: bool  # may the sandbox be too weak for official grading?

    def prepare(self):
        box = assignment.strong_enough(self.limits, self.level, self.weak)
        with tempfile.TemporaryDirectory(prefix="exercise-") as folder:
            script = Path(folder, f"{self.stem}.py")
            script.write_text(self.script, "utf-8")
            return assignment.prepare(script, self.seed, box)


class Cluster:
    """A crew whose workers are those of a Dask scheduler."""

    def __init__(self, address, recipe, ready, security=None):
        self.address, self.recipe, self.ready = address, recipe, ready
        self.security = security

    def __enter__(self):
        from distributed import Client

        try:
            self.client = Client(
                self.address, security=self.security, timeout=PATIENCE, set_as_default=False
            )
        except (OSError, ValueError) as error:
            raise AssignmentError(f"no Dask scheduler at {self.address}: {error}") from None
        return self

    def __exit__(self, *about):
        self.client.close()

    def results(self, works):
        """Yield (work, result) in the order of finishing."""
        from distributed import as_completed

        works, waiting, own = iter(works), as_completed(loop=self.client.loop), {}
        room = AHEAD * max(1, sum(self.client.nthreads().values()))
        while True:
            while len(own) < room and (work := next(works, None)):
                future = self.client.submit(grade_there, self.recipe, work, pure=False)
                own[future] = work
                waiting.add(future)
            if not own:
                return
            future = next(waiting)
            work = own.pop(future)
            yield work, self._result(future, work)

    def _result(self, future, work):
        try:
            return future.result()
        except AssignmentError:
            raise
        except Exception as error:  # such as KilledWorker, after several deaths
            if future.cancelled() or self.client.status != "running":
                raise AssignmentError(f"the Dask scheduler at {self.address} is gone") from None
            return run.no_grade(self.ready, work, f"{type(error).__name__}: {error}")


def security(ca, certificate, key):
    """What the caller needs to speak TLS with the scheduler."""
    from distributed.security import Security

    return Security(
        tls_ca_file=str(ca),
        tls_client_cert=str(certificate),
        tls_client_key=str(key),
        require_encryption=True,
    )


def grade_there(recipe, work):
    """On a worker of Dask: the result of one submission, in a process of this thread's own."""
    key = threading.get_ident(), recipe
    if key not in CREWS:
        CREWS[key] = Crew(recipe.prepare, 1).__enter__()
    ((_, result),) = CREWS[key].results([work])
    return result
