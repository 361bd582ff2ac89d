"""Gradescope's results.json: one test for each task, and what to read about it."""

from ...exercise import diagnose
from .. import results

STATUS = {True: "passed", False: "failed"}
SHARED = {"output_format": "text", "visibility": "visible", "stdout_visibility": "hidden"}
FAILED = "The grader failed, so this is no grade. Please tell your teacher."


def document(result):
    """What Gradescope shows of one result; hidden cases tell their mistake and no more."""
    if result["status"] == "ungraded":
        return failed(" ".join(result["findings"]))
    lines = [result["trouble"] and f"Not graded: {result['trouble']}.", *result["findings"]]
    return {
        **SHARED,
        "score": result["score"],
        "output": "\n".join(filter(None, lines)),
        "tests": [_test(n, task) for n, task in enumerate(result["exercises"], 1)],
        "extra_data": {
            "student": result["student"],
            "hashes": result["hashes"],
            "sandbox": result["sandbox"]["level"],
        },
    }


def failed(why):
    """No score, which Gradescope takes as a failure; the reason is for teachers' eyes."""
    told = {"name": "The grader failed", "status": "failed", "output": why}
    return {**SHARED, "output": FAILED, "tests": [{**told, "visibility": "hidden"}]}


def text(result):
    return results.dumps(document(result))


def _test(number, task):
    return {
        "number": str(number),
        "name": f"{task['id']}: {task['status']}",
        "score": task["earned"],
        "max_score": task["points"],
        "status": STATUS[task["status"] == "solved"],
        "output": "\n".join(said(task)),
        "visibility": "visible",
    }


def said(task):
    """A task in lines of plain text."""
    for case in task["cases"]:
        mark = "right" if case["passed"] else "wrong"
        yield ": ".join(filter(None, [mark, case["name"], case["says"]]))
    for mistake in task["mistakes"]:
        title = diagnose.title(mistake["sure"])
        yield f"{title}: {mistake['name']}. {mistake['hint']}"
    yield from task["notes"]
