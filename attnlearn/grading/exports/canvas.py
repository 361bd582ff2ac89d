"""A table that Canvas imports: Grades, Import. The roster is the one that Canvas exports.

Names and numbers are written as Canvas wrote them: it finds the students by them.
"""

from . import roster

KEPT = ("Student", "ID", "SIS User ID", "SIS Login ID", "Section")
POSSIBLE = "points possible"


def table(results, path, column=None):
    """(CSV, remarks). `column` is the assignment's heading in Canvas, such as "Masks (1234)"."""
    course = roster.Roster(path, ("Student", "ID"))
    column = column or results[0]["assignment"]
    course.columns = [name for name in course.columns if name in KEPT] + [column]
    for row in course.rows:
        row[column] = ""
    students = [row for row in course.rows if (row["ID"] or "").strip()]
    pairs, remarks = roster.matched(students, results, _ids, _names)
    for row, result in pairs:
        row[column] = roster.number(result["score"])
    heads = [row for row in course.rows if (row["Student"] or "").strip().lower() == POSSIBLE]
    if not heads:
        heads = [dict.fromkeys(course.columns, "") | {"Student": "    Points Possible"}]
    heads[0][column] = roster.number(results[0]["max_score"])
    course.rows = [heads[0], *students]
    return course.text(), remarks


def _ids(row):
    return {row["ID"].strip()}


def _names(row):
    """Canvas writes "Doe, Jane" and names files doejane."""
    last, _, first = (row["Student"] or "").partition(",")
    login = row.get("SIS Login ID") or ""
    return [row["Student"] or "", f"{first} {last}", *([login] if login else [])]
