"""The list of students that a learning platform exports, and who of them got which result."""

import csv
import io
import unicodedata

from .. import notebook
from .stored import ExportError


class Roster:
    """A table with a heading; rows keep all that they had."""

    def __init__(self, path, needed):
        try:
            text = notebook.decode(path.read_bytes())
        except UnicodeDecodeError:
            why = "not UTF-8; export it again as CSV in UTF-8"
            raise ExportError(f"{path}: {why}") from None
        heading = text.splitlines()[0] if text.strip() else ""
        self.delimiter = max(",;\t", key=heading.count)
        rows = csv.DictReader(io.StringIO(text, newline=""), delimiter=self.delimiter)
        self.columns = list(rows.fieldnames or [])
        self.rows = list(rows)
        if missing := [name for name in needed if name not in self.columns]:
            raise ExportError(f"{path}: no column {missing[0]!r}; there are {self.columns}")

    def text(self):
        """The table, in the form in which it came."""
        out = io.StringIO()
        options = {"delimiter": self.delimiter, "extrasaction": "ignore"}
        writer = csv.DictWriter(out, self.columns, **options)
        writer.writeheader()
        writer.writerows(self.rows)
        return out.getvalue()


def matched(rows, results, ids, names):
    """([(row, result)], remarks): by the platform's number, else by a name that only one has.

    `ids(row)` and `names(row)` are what a row may be called; nothing is guessed.
    """
    pairs, remarks, taken = [], [], set()
    for result in results:
        found = [row for row in rows if result["student_id"] and result["student_id"] in ids(row)]
        if not found and not result["student_id"]:
            wanted = squeezed(result["student"])
            found = [row for row in rows if wanted in map(squeezed, names(row))]
        if len(found) != 1 or id(found[0]) in taken:
            why = "not in the roster" if not found else "more than one in the roster"
            why = "a second result for one row" if len(found) == 1 else why
            remarks.append(f"{result['student']} ({result['file']}): {why}; left out")
            continue
        taken.add(id(found[0]))
        if result["status"] == "ungraded":
            remarks.append(f"{result['student']}: not graded yet; left empty")
            continue
        pairs.append((found[0], result))
    return pairs, remarks


def squeezed(name):
    """A name as platforms put it into file names: letters and digits, all small."""
    return "".join(c for c in unicodedata.normalize("NFC", name).casefold() if c.isalnum())


def number(score):
    """Points without a comma for thousands, and with a point before the decimals."""
    return f"{score:.4f}".rstrip("0").rstrip(".")
