"""Which attempt of each student counts: the latest, or the best."""

from collections import defaultdict

from ..exports.grades import spreadsheet
from .disk import GradebookError

POLICIES = ("latest", "best")


def counting(attempts, policy):
    """One attempt for each student and assignment.

    The best is sought among the latest grades of each file: a grade that was corrected is gone.
    """
    latest = {}
    for attempt in attempts:
        one = attempt["submission"] if policy == "best" else ""
        latest[attempt["assignment"], attempt["key"], one] = attempt
    chosen = {}
    for (*who, _), attempt in sorted(latest.items(), key=lambda item: _worth(item[1])):
        chosen[tuple(who)] = attempt
    return [chosen[who] for who in sorted(chosen)]


def _worth(attempt):
    """An attempt that the grader failed at counts only where there is no other."""
    return attempt["status"] != "ungraded", attempt["score"], attempt["id"]


def best(book, results):
    """(results, remarks): in place of each the student's best, of the same exercise."""
    if troubles := book.verify():
        raise GradebookError(f"{book.path}: {'; '.join(troubles)}")
    found, remarks, attempts = [], [], defaultdict(list)
    for attempt in book.attempts():
        attempts[attempt["key"]].append(attempt)
    for result in results:
        own = attempts[result["key"]]
        same = [a for a in own if a["exercise"] == result["hashes"]["pristine"]]
        chosen = [book.result(attempt["id"]) for attempt in counting(same, "best")] or [result]
        found += chosen
        for other in counting(own, "best"):
            if other not in same and other["score"] > chosen[0]["score"]:
                points = f"{other['score']:g} of {other['max_score']:g} in run {other['run']}"
                why = f"{points} are for another version of the exercise, and do not count"
                remarks.append(f"{result['student']} ({other['file']}): {why}")
    return found, remarks


def table(book, policy):
    """The attempts that count as CSV, and what was different when they were graded."""
    attempts = book.attempts()
    chosen = counting(attempts, policy)
    newest = {attempt["assignment"]: attempt["exercise"] for attempt in attempts}
    earned = [
        {task["id"]: task["earned"] for task in book.result(attempt["id"])["exercises"]}
        for attempt in chosen
    ]
    tasks = list(dict.fromkeys(task for points in earned for task in points))
    head = ["student", "id", "assignment", "score", "max_score", *tasks]
    rows = []
    for attempt, points in zip(chosen, earned, strict=True):
        old = attempt["exercise"] != newest[attempt["assignment"]]
        names = ("student", "student_id", "assignment", "score", "max_score")
        row = [attempt[name] for name in names] + [points.get(task, "") for task in tasks]
        row += [attempt[name] for name in ("status", "file", "run", "graded")]
        rows.append([*row, "the exercise has changed since" if old else ""])
    return spreadsheet([*head, "status", "file", "run", "graded", "remarks"], rows)
