"""The list of students that a learning platform exports, and who of them got which result."""

import csv
import io
import unicodedata
from pathlib import PurePosixPath

from .. import notebook
from ..handed_in.platforms import GRADESCOPE
from ..listed import some
from .stored import ExportError


class Roster:
    """A table with a heading; rows keep all that they had.

    It has to have all columns of one of the `needed` tuples.
    """

    def __init__(self, path, *needed):
        try:
            text = notebook.decode(path.read_bytes())
        except UnicodeDecodeError:
            why = "not UTF-8; export it again as CSV in UTF-8"
            raise ExportError(f"{path}: {why}") from None
        headings = {mark: _heading(text, mark) for mark in ",;\t"}
        fitting = [
            mark
            for mark, heading in headings.items()
            if any(set(names) <= set(heading) for names in needed)
        ]
        if not fitting:
            wanted = ", or ".join(" and ".join(map(repr, names)) for names in needed)
            there = max(headings.values(), key=len)
            raise ExportError(f"{path}: no column {wanted} (in English); there are {there}")
        self.delimiter = fitting[0]
        rows = csv.DictReader(io.StringIO(text, newline=""), delimiter=self.delimiter, restval="")
        self.columns, self.rows = list(rows.fieldnames), []
        for row in rows:
            if None in row:
                raise ExportError(f"{path}, line {rows.line_num}: more cells than the heading has")
            self.rows.append(row)

    def text(self):
        """The table, in the form in which it came.

        Names stay as they are, even where a spreadsheet would read them as formulas: the platform
        finds its students by them.
        """
        out = io.StringIO()
        options = {"delimiter": self.delimiter, "extrasaction": "ignore"}
        writer = csv.DictWriter(out, self.columns, **options)
        writer.writeheader()
        writer.writerows(self.rows)
        return out.getvalue()


def matched(rows, results, names, ids=None):
    """([(row, result)], remarks): by the platform's number, else by a name that only one has.

    `names(row)` and `ids(row)` are what a row may be called; nothing is guessed.
    """
    claims, remarks = {}, []
    for result in results:
        found = _called(rows, result, names, ids)
        if len(found) == 1:
            claims.setdefault(id(found[0]), (found[0], []))[1].append(result)
        else:
            why = "more than one in the roster" if found else "not in the roster"
            remarks.append(f"{_who(result)}: {why}; left out")
    pairs = []
    for row, own in claims.values():
        if len(own) > 1:
            files = ", ".join(f"{result['key']}.json" for result in own)
            why = f"{len(own)} results for one student; left out: keep one of {files}"
            remarks += [f"{_who(r)}: {why}" for r in own]
        elif own[0]["status"] == "ungraded":
            remarks.append(f"{_who(own[0])}: not graded yet; left as it was")
        else:
            pairs.append((row, own[0]))
    unclaimed = [row for row in rows if id(row) not in claims]
    without = [" ".join(next(filter(None, names(row)), "?").split()) for row in unclaimed]
    if without:
        remarks.append(f"in the roster without a result, left as they were: {some(without)}")
    return pairs, remarks


def _called(rows, result, names, ids):
    # The number that Gradescope gives is that of the submission, no student's.
    of_submission = any(map(GRADESCOPE.match, PurePosixPath(result["file"]).parts))
    if ids and result["student_id"] and not of_submission:
        return [row for row in rows if result["student_id"] == ids(row)]
    wanted = squeezed(result["student"])
    return [row for row in rows if wanted and wanted in map(squeezed, names(row))]


def _who(result):
    return f"{result['student']} ({result['file']})"


def squeezed(name):
    """A name as platforms put it into file names: letters and digits, all small."""
    name = unicodedata.normalize("NFC", name).casefold()
    return "".join(c for c in name if c.isalnum() or unicodedata.category(c)[0] == "M")


def number(score):
    """Points without a comma for thousands, and with a point before the decimals."""
    return f"{score:.4f}".rstrip("0").rstrip(".")


def _heading(text, delimiter):
    return next(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter), [])
