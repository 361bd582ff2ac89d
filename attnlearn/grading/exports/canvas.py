"""A table that Canvas imports: Grades, Import. The roster is the one that Canvas exports.

A cell that gets no grade keeps what the roster has there: Canvas takes an empty one for "no grade".
"""

import re

from . import roster

KEPT = (
    *("Student", "LastName", "FirstName", "ID", "SIS User ID", "SIS Login ID"),
    *("Integration ID", "Root Account", "Section"),
)
POSSIBLE = "points possible"
EXCUSED = "EX"


def table(results, path, column=None):
    """(CSV, remarks). `column` is the assignment's heading in Canvas, such as "Masks (1234)"."""
    course = roster.Roster(path, ("Student", "ID"), ("LastName", "ID"))
    if column and column not in course.columns:
        there = ", ".join(name for name in course.columns if name not in KEPT)
        raise roster.ExportError(f"{path}: no column {column!r}; there are {there or 'none'}")
    column = column or _heading(course, results[0]["assignment"])
    known = column in course.columns
    students = [row for row in course.rows if row["ID"].strip()]
    pairs, remarks = roster.matched(students, results, _names, lambda row: row["ID"].strip())
    for row, result in pairs:
        if row.get(column, "").strip().upper() == EXCUSED:
            remarks.append(f"{result['student']}: excused in Canvas; left so")
        else:
            row[column] = roster.number(result["score"])
    points = _points(course, column, results[0]["max_score"])
    if not known:
        remarks.append(
            f"the roster has no column {column!r}: Canvas will make a new assignment. "
            "For one that is there give its heading: --column NAME"
        )
    elif points[column] != roster.number(results[0]["max_score"]):
        possible = roster.number(results[0]["max_score"])
        remarks.append(f"{column} offers {points[column]} points in Canvas, and {possible} here")
    course.columns = [name for name in course.columns if name in KEPT] + [column]
    course.rows = [points, *students]
    return course.text(), remarks


def _heading(course, assignment):
    """That of the assignment in Canvas, where just one is called like it."""
    named = re.compile(re.escape(assignment) + r"( \(\d+\))?")
    fitting = [name for name in course.columns if named.fullmatch(name)]
    return fitting[0] if len(fitting) == 1 else assignment


def _points(course, column, most):
    """The row that tells how many points there are."""
    first = course.columns[0]
    found = [row for row in course.rows if row[first].strip().lower() == POSSIBLE]
    row = found[0] if found else {first: "    Points Possible"}
    row[column] = _plain(row.get(column, "")) or roster.number(most)
    return row


def _plain(text):
    """A number as Canvas shows it, in our way."""
    try:
        return roster.number(float(text.replace(",", ".")))
    except ValueError:
        return text.strip()


def _names(row):
    """Canvas writes "Doe, Jane" and names files doejane."""
    if "Student" in row:
        last, _, first = row["Student"].partition(",")
    else:
        last, first = row["LastName"], row.get("FirstName", "")
    logins = [row.get("SIS Login ID", ""), row.get("SIS User ID", "")]
    return [f"{last} {first}", f"{first} {last}", *logins]
