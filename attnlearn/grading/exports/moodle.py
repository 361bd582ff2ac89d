"""Moodle's grading worksheet, filled in: Assignment, Upload grading worksheet.

A comment without a grade would wipe the grade that stands there, so none is written.
"""

import re
from html import escape

from . import roster

NAME, NUMBER, GRADE, COMMENT = "Full name", "Identifier", "Grade", "Feedback comments"


def table(results, path):
    """(CSV, remarks). `path` is the worksheet as Moodle gives it."""
    sheet = roster.Roster(path, (NUMBER, GRADE))
    pairs, remarks = roster.matched(sheet.rows, results, _ids, _names)
    for row, result in pairs:
        most = re.sub(",", ".", row.get("Maximum Grade") or row.get("Maximum grade") or "")
        if most and float(most) != result["max_score"]:
            remarks.append(
                f"{result['student']}: Moodle's maximum is {most}, that of the exercise "
                f"{roster.number(result['max_score'])}; change it in Moodle first"
            )
        row[GRADE] = roster.number(result["score"])
        if COMMENT in sheet.columns:
            row[COMMENT] = comment(result)
    return sheet.text(), list(dict.fromkeys(remarks))


def comment(result):
    """What a student reads in Moodle, as HTML."""
    lines = [result["trouble"]] if result["trouble"] else []
    for task in result["exercises"]:
        points = f"{roster.number(task['earned'])} of {roster.number(task['points'])}"
        said = [f"{mistake['name']}: {mistake['hint']}" for mistake in task["mistakes"]]
        lines.append(" ".join([f"{task['id']}: {points}.", *said]))
    return "<br>".join(escape(" ".join(line.split())) for line in lines)


def _ids(row):
    return {re.sub(r"\D", "", row[NUMBER] or "")}


def _names(row):
    return [row.get(NAME) or ""]
