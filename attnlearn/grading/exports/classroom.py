"""GitHub: the output `result`, which Classroom's reporter reads, and the summary of a job."""

import base64
import json
from html import escape

from ..verdict import short
from .gradescope import FAILED, said

VERSION = 3  # of what classroom-resources/autograding-*-grader write


def append(result, output, summary=None):
    """Add to the files that a runner names in $GITHUB_OUTPUT and $GITHUB_STEP_SUMMARY."""
    for path, text in ((output, line(result)), (summary, page(result))):
        if path:
            with open(path, "a", encoding="utf-8", newline="\n") as file:
                file.write(text)


def line(result):
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


def page(result):
    """The summary in Markdown; what students wrote stands in <pre>, where nothing is markup."""
    if result["status"] == "ungraded":
        return f"# {result['assignment']}\n\n{FAILED}\n"
    points = f"{short(result['score'])} of {short(result['max_score'])} points"
    rows = [f"# {result['assignment']}: {points}\n", "| task | | points |", "|---|---|---|"]
    for task in result["exercises"]:
        earned = f"{short(task['earned'])} of {short(task['points'])}"
        rows.append(f"| {task['id']} | {task['status']} | {earned} |")
    told = [result["trouble"], *result["findings"]]
    for task in result["exercises"]:
        told += ["", task["id"], *said(task)]
    return "\n".join(rows) + f"\n\n<pre>{escape(chr(10).join(told).strip())}</pre>\n"


def _test(result, task):
    lines = [result["trouble"]] if result["trouble"] else list(said(task))
    return {
        "name": task["id"],
        "status": "pass" if task["status"] == "solved" else "fail",
        "score": task["earned"],
        "message": _harmless("\n".join(lines)),
        "line_no": 0,
        "duration": 0,
    }


def _harmless(text):
    """The reporter prints it, and a runner obeys lines that begin with :: or hold ##[."""
    return "\n".join(f"- {line}" for line in text.replace("##[", "## [").splitlines())
