"""GitHub Classroom: the output `result` that its reporter reads, in base64."""

import base64
import json

from .gradescope import said

VERSION = 3  # of what classroom-resources/autograding-*-grader write


def output(result):
    """The line for $GITHUB_OUTPUT."""
    whole = result["score"] == result["max_score"]
    status = "error" if result["status"] != "graded" else "pass" if whole else "fail"
    document = {
        "version": VERSION,
        "status": status,
        "max_score": result["max_score"],
        "tests": [_test(result, task) for task in result["exercises"]],
    }
    return f"result={base64.b64encode(json.dumps(document).encode()).decode()}\n"


def _test(result, task):
    lines = [result["trouble"]] if result["trouble"] else list(said(task))
    return {
        "name": task["id"],
        "status": "pass" if task["status"] == "solved" else "fail",
        "score": task["earned"],
        "message": "\n".join(lines),
        "line_no": 0,
        "duration": 0,
    }
