"""Inside Gradescope's container: `python -m attnlearn.grading.exports.autograder BASE`.

BASE holds `submission`, `source` with the exercise and its seed, and `results`. There is a
results.json whatever happens; it is written at the end, when all processes of the submission are
dead.
"""

import json
import sys
import traceback
from pathlib import Path

from .. import assignment, notebook, results, workers
from ..handed_in import inbox, students, work
from ..isolation.limits import Limits
from . import gradescope

LARGEST = 64 * 2**20
NOTHING = "No file was handed in: hand in the notebook, an .ipynb file."


def main(base):
    """The exit code; what is printed Gradescope shows to instructors alone."""
    failed = False
    try:
        document = _graded(base)
    except Exception as error:
        traceback.print_exc()
        document, failed = gradescope.failed(f"{type(error).__name__}: {error}"), True
    notebook.write(base / "results" / "results.json", results.dumps(document))
    return int(failed)


def _graded(base):
    papers = sorted(inbox.papers([base / "submission"], LARGEST), key=lambda p: p.time)[::-1]
    if not papers:
        return {**gradescope.SHARED, "score": 0, "output": NOTHING, "tests": []}
    ready = _prepared(base / "source")
    own = work.choose(students.Student(_names(base)), "submission", papers, ready)
    with workers.Crew(1, ready.packages) as crew:
        crew.brief(ready)
        ((_, result),) = crew.results([own])
    return gradescope.document(result)


def _prepared(source):
    settings = json.loads((source / "settings.json").read_text("utf-8"))
    box = assignment.strong_enough(Limits(), None, settings["weak"])
    seed = (source / "seed.txt").read_text("utf-8").strip()
    return assignment.prepare(source / f"{settings['stem']}.py", seed, box)


def _names(base):
    """Those who handed in, as Gradescope knows them."""
    try:
        about = json.loads((base / "submission_metadata.json").read_text("utf-8"))
        return students.clean(" and ".join(user["name"] for user in about["users"]))
    except (OSError, ValueError, KeyError, TypeError):
        return "submission"


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve()))
