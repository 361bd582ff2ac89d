"""`attnlearn grade`: from what was handed in to results, a table of grades, and feedback."""

from . import notebook, results, run
from .assignment import Assignment
from .exports import feedback, grades
from .handed_in import work


def grade(assignment: Assignment, paths, out, *, limit, say=print):
    """Grade every submission and write all results; returns the results.

    A result of an earlier run is kept where nothing has changed: file, exercise, seed, machine.
    """
    handed_in, done = work.collect(paths, assignment, limit), []
    earlier = results.earlier(out / "results", assignment)  # before any answer has run
    try:
        for number, (who, key, papers) in enumerate(handed_in, 1):
            own = work.choose(who, key, papers, assignment)
            known = earlier.get((key, own.shown, own.hash))
            result = known or run.grade_one(assignment, own)
            notebook.write(out / "results" / f"{key}.json", results.dumps(result))
            notebook.write(out / "feedback" / f"{key}.html", feedback.page(result, assignment))
            done.append(result)
            say(f"[{number}/{len(handed_in)}] {_line(result)}")
    finally:  # of a run that was interrupted, too
        notebook.write(out / "grades.csv", grades.table(done))
    return done


def _line(result):
    if result["status"] == "unreadable":
        return f"{result['student']}: 0, {result['trouble']}"
    score = f"{result['score']:g} of {result['max_score']:g}"
    return f"{result['student']}: {score}"
