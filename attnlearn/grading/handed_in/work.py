"""The notebook that counts of each student, out of everything that was handed in."""

from dataclasses import dataclass, field

from .. import notebook, results
from . import inbox, students

MOST_CELLS = 5000


@dataclass
class Work:
    """What one student handed in: the notebook that counts, or why there is none."""

    student: students.Student
    key: str
    shown: str = ""  # where it lay
    hash: str = ""
    content: dict | None = None
    trouble: str = ""
    findings: list = field(default_factory=list)
    deaths: int = 0  # of workers that graded it


def collect(paths, assignment, limit):
    """(student, name for files, papers with the latest first), in the order of names."""
    papers = students.by_student(inbox.papers(paths, limit), assignment.stem)
    order = sorted(papers, key=lambda who: (who.name, who.id, who.place))
    return [(who, key, papers[who]) for who, key in students.keys(order).items()]


def choose(student, key, papers, assignment):
    """The latest notebook that can be read and holds one of the tasks counts."""
    work = Work(student, key)
    notebooks = [paper for paper in papers if paper.is_notebook] or papers
    read, troubles = {}, {}
    for at, paper in enumerate(notebooks):
        try:
            data = paper.read()
            read[at] = (data, _parse(paper, data))
        except ValueError as error:
            troubles[at] = str(error)
    fitting = [
        at for at, (_, c) in read.items() if set(notebook.task_ids(c)) & {*assignment.tables}
    ]
    chosen = next(iter([*fitting, *read]), 0)
    work.shown = students.clean(str(notebooks[chosen].place), longest=300)
    work.trouble = troubles.get(chosen, "")
    if chosen in read:
        data, work.content = read[chosen]
        work.hash = results.digest(data)
    if len(notebooks) > 1:
        work.findings.append(
            f"{len(notebooks)} files were handed in. {_name(notebooks[chosen])} counts, the latest "
            f"that can be graded; not graded: {', '.join(_others(notebooks, chosen, troubles))}."
        )
    if student.place:
        work.findings.append(
            f"The name {student.name!r} stands in several folders. Each was graded by itself: "
            "if it is one student, choose the grade that counts."
        )
    return work


def _parse(paper, data):
    if not paper.is_notebook:
        raise inbox.Unreadable("no notebook: hand in the .ipynb file")
    content = notebook.parse(data, _name(paper))
    if len(content["cells"]) > MOST_CELLS:
        raise inbox.Unreadable(f"more than {MOST_CELLS} cells: hand in the exercise's notebook")
    return content


def _others(notebooks, chosen, troubles):
    for at, paper in enumerate(notebooks):
        if at != chosen:
            yield _name(paper) + (f" ({troubles[at]})" if at in troubles else "")


def _name(paper):
    return students.clean(paper.place.name)
