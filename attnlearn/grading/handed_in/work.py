"""The notebook that counts of each student, out of everything that was handed in."""

from dataclasses import dataclass, field

from .. import notebook, results
from . import inbox, platforms, students

MOST_FILES = 50  # of one student, looked at from the latest on
MOST_CELLS = 5000
MOST_CODE = 500_000  # characters
MOST_PARTS = 2_000_000  # lists and dictionaries of a file: each takes much more memory than disk


@dataclass
class Work:
    """What one student handed in: the notebook that counts, or why there is none."""

    student: students.Student
    key: str
    shown: str = ""  # where it lay
    files: int = 1  # of the student, of which this one counts
    hash: str = ""
    content: dict | None = None
    trouble: str = ""
    findings: list = field(default_factory=list)
    deaths: int = 0  # of workers that graded it


@dataclass
class HandedIn:
    """All that was handed in, listed and not yet read."""

    students: list  # (student, name for files, papers with the latest first), in the order of names
    left_out: list  # names of files that are nobody's: no notebooks, and not named by a platform


def collect(paths, assignment, limit):
    papers = list(inbox.papers(paths, limit))
    owned = students.by_student(papers, assignment.stem)
    order = sorted(owned, key=lambda who: (who.name, who.id, who.place))
    found = [(who, key, owned[who]) for who, key in students.keys(order).items()]
    return HandedIn(found, _left_out(papers, owned.values()))


def _left_out(papers, owned):
    taken = {str(paper.place) for own in owned for paper in own}
    homes = {paper.place.parent for own in owned for paper in own if len(paper.place.parts) > 2}
    rest = (p for p in papers if p.idle or p.place.parent not in homes)  # an archive may be work
    names = (str(p.place) for p in rest if p.place.name != platforms.LIST)
    return [students.clean(name) for name in names if name not in taken]


def choose(student, key, papers, assignment):
    """The latest notebook that can be read and holds one of the tasks counts."""
    work = Work(student, key)
    notebooks = [paper for paper in papers if paper.is_notebook] or papers
    chosen, troubles = 0, {}
    for at, paper in enumerate(notebooks[:MOST_FILES]):
        try:
            hash, content = _read(paper)
        except ValueError as error:
            troubles[at] = str(error)
            continue
        fits = not assignment.tables.keys().isdisjoint(notebook.task_ids(content))
        if fits or work.content is None:
            chosen, work.hash, work.content = at, hash, content
        if fits:
            break
    work.shown = students.clean(str(notebooks[chosen].place), longest=300)
    work.trouble = "" if work.content else troubles[chosen]
    others = notebook.task_ids(work.content) if work.content else []
    if others and assignment.tables.keys().isdisjoint(others):
        work.findings.append(
            f"This is the notebook of another exercise: it holds {', '.join(others[:9])}. "
            f"Hand in that of {assignment.stem}."
        )
    work.files = len(notebooks)
    if work.files > 1:
        work.findings.append(
            f"{work.files} files were handed in. {_name(notebooks[chosen])} counts, the latest "
            f"that can be graded; not graded: {', '.join(_others(notebooks, chosen, troubles))}."
        )
    if student.place:
        work.findings.append(
            f"The name {student.name!r} stands in several folders. Each was graded by itself: "
            "if it is one student, choose the grade that counts."
        )
    return work


def _read(paper):
    """The hash of a file, and what grading needs of the notebook in it."""
    data = paper.read()
    if not paper.is_notebook:
        raise inbox.Unreadable("no notebook: hand in the .ipynb file")
    if data.count(b"[") + data.count(b"{") > MOST_PARTS:
        raise inbox.Unreadable("far too many parts: clear all outputs, save, and hand it in again")
    try:
        content = notebook.parse(data, _name(paper))
        cells = [_lean(cell) for cell in content["cells"]]
    except RecursionError:
        raise inbox.Unreadable("too deeply nested: hand in the exercise's notebook") from None
    if len(cells) > MOST_CELLS or sum(len(cell["source"]) for cell in cells) > MOST_CODE:
        raise inbox.Unreadable("far too much code: hand in the exercise's notebook")
    return results.digest(data), {"cells": cells}


def _lean(cell):
    """No outputs, nothing nested: a cell travels to the process that grades it."""
    is_code = cell["cell_type"] == "code"
    role = [{"role": "answer", "exercise": task} for task in sorted(notebook.answers(cell))[:1]]
    return {
        "cell_type": "code" if is_code else "text",
        "source": cell["source"] if is_code else "",
        "metadata": {"attnlearn": role[0]} if role else {},
    }


def _others(notebooks, chosen, troubles):
    for at, paper in enumerate(notebooks):
        if at != chosen:
            yield _name(paper) + (f" ({troubles[at]})" if at in troubles else "")


def _name(paper):
    return students.clean(paper.place.name)
