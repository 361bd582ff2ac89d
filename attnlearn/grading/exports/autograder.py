"""Inside Gradescope's container: `python -m attnlearn.grading.exports.autograder BASE`.

BASE holds `submission`, `source` with the exercise and its seed, and `results`. There is a
results.json whatever happens: one that names a failure is written first, and replaced at the end,
when all processes of the submission are dead.
"""

import json
import sys
import traceback
from functools import partial
from pathlib import Path

from .. import assignment, notebook, results, workers
from ..handed_in import inbox, students, work
from ..isolation.limits import Limits
from . import gradescope

LARGEST = 64 * 2**20
NOTHING = "No file was handed in: hand in the notebook, an .ipynb file."


def run(base):
    target = base / "results" / "results.json"
    for folder in (base / "source", target.parent):
        folder.chmod(0o700)  # not for a student's answers
    _write(target, {"output": gradescope.FAILED, "stdout_visibility": "hidden", "tests": []})
    settings = json.loads((base / "source" / "settings.json").read_text("utf-8"))
    box = assignment.strong_enough(Limits(), None, settings["weak"])
    seed = (base / "source" / "seed.txt").read_text("utf-8").strip()
    ready = assignment.prepare(base / "source" / f"{settings['stem']}.py", seed, box)
    _write(target, _graded(ready, base))


def _graded(ready, base):
    papers = sorted(inbox.papers([base / "submission"], LARGEST), key=lambda p: p.time)[::-1]
    if not papers:
        return {"score": 0, "output": NOTHING, "stdout_visibility": "hidden", "tests": []}
    own = work.choose(students.Student(_names(base)), "submission", papers, ready)
    with workers.Crew(partial(workers.ready, ready), 1) as crew:
        ((_, result),) = crew.results([own])
    return gradescope.document(result)


def _names(base):
    """Those who handed in, as Gradescope knows them."""
    try:
        about = json.loads((base / "submission_metadata.json").read_text("utf-8"))
        return students.clean(" and ".join(user["name"] for user in about["users"]))
    except (OSError, ValueError, KeyError, TypeError):
        return "submission"


def _write(path, document):
    notebook.write(path, results.dumps(document))


def main(arguments):
    base = Path(arguments[0]).resolve()
    try:
        run(base)
    except Exception:
        traceback.print_exc()  # Gradescope shows this to instructors alone
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
