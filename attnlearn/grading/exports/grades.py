"""grades.csv: one line for each student; no cell can be taken for a formula."""

import csv
import io

FORMULA = ("=", "+", "-", "@", "\t", "\r")


def table(results):
    """The results of one assignment as CSV."""
    tasks = [task["id"] for task in results[0]["exercises"]] if results else []
    head = ["student", "id", "score", "max_score", *tasks, "status", "file", "remarks"]
    return spreadsheet(head, map(_row, results))


def _row(result):
    remarks = " ".join(filter(None, [result["trouble"], *result["findings"]]))
    row = [result["student"], result["student_id"], result["score"], result["max_score"]]
    row += [task["earned"] for task in result["exercises"]]
    return [*row, result["status"], result["file"], remarks]


def spreadsheet(head, rows):
    """A table as CSV, safe to be opened."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(head)
    writer.writerows(map(safe, row) for row in rows)
    return text.getvalue()


def safe(value):
    """Text that a spreadsheet shows and does not run."""
    if isinstance(value, str) and value.startswith(FORMULA):
        return "'" + value
    return value
