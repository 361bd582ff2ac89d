"""Moodle's grading worksheet, filled in (Assignment, Upload grading worksheet), or a list of users
with their grades (Grades, Import), depending on the roster.

A comment without a grade would wipe the grade that stands there, so none is written.
"""

import re
from html import escape

from . import roster

NUMBER, GRADE, COMMENT = "Identifier", "Grade", "Feedback comments"
USERS = ("Email address", "ID number", "Username")  # what Moodle can find a user by


def table(results, path):
    """(CSV, remarks). `path` is the worksheet as Moodle gives it, or its list of participants."""
    sheet = roster.Roster(path, (NUMBER, GRADE), *((name,) for name in USERS))
    return _worksheet(sheet, results) if NUMBER in sheet.columns else _users(sheet, results)


def _worksheet(sheet, results):
    pairs, remarks = roster.matched(sheet.rows, results, _names, _number)
    for row, result in pairs:
        row[GRADE] = roster.number(result["score"])
        if COMMENT in sheet.columns:
            row[COMMENT] = comment(result)
    most = {row.get("Maximum Grade") or row.get("Maximum grade") or "" for row, _ in pairs}
    return sheet.text(), [*remarks, *_other_maximum(most, results[0]["max_score"])]


def _users(sheet, results):
    """Only those who have a grade: what is not there, Moodle leaves alone."""
    pairs, remarks = roster.matched(sheet.rows, results, _names)
    stem = results[0]["assignment"]
    for row, result in pairs:
        row |= {stem: roster.number(result["score"]), f"{stem} feedback": comment(result)}
    sheet.rows = [row for row, _ in pairs]
    sheet.columns = [name for name in USERS if name in sheet.columns] + [stem, f"{stem} feedback"]
    return sheet.text(), remarks


def comment(result):
    """What a student reads in Moodle, as HTML."""
    lines = [f"Not graded: {result['trouble']}"] if result["trouble"] else []
    for task in result["exercises"]:
        points = f"{roster.number(task['earned'])} of {roster.number(task['points'])}"
        said = [f"{mistake['name']}: {mistake['hint']}" for mistake in task["mistakes"]]
        lines.append(" ".join([f"{task['id']}: {points}.", *said]))
    return "<br>".join(escape(" ".join(line.split())) for line in lines)


def _other_maximum(texts, ours):
    for text in sorted(filter(None, texts)):
        if re.fullmatch(r"\d+([.,]\d+)?", text) and float(text.replace(",", ".")) == ours:
            continue
        yield (
            f"Moodle's maximum is {text}, that of the exercise {roster.number(ours)}: change it in "
            "Moodle first, for it takes no grade above its maximum"
        )


def _number(row):
    """`Participant 101`, in whatever language."""
    return re.sub(r"\D", "", row[NUMBER])


def _names(row):
    last = row.get("Last name") or row.get("Surname") or ""
    both = f"{row.get('First name', '')} {last}"
    return [row.get("Full name", ""), both, *(row.get(name, "") for name in USERS)]
