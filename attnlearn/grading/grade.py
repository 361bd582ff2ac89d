"""`attnlearn grade`: from what was handed in to results, a table of grades, and feedback."""

import csv
import io
import traceback
from dataclasses import dataclass, field

from . import feedback, inbox, notebook, results, session, students
from .assignment import Assignment
from .transplant import transplant

MOST_CELLS = 5000
FORMULA = ("=", "+", "-", "@", "\t", "\r")


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


def grade(assignment: Assignment, paths, out, *, limit, say=print):
    """Grade every submission and write all results; returns the results.

    A result of an earlier run is kept where nothing has changed: file, exercise, seed, machine.
    """
    handed_in, done = collect(paths, assignment, limit), []
    earlier = results.earlier(out / "results", assignment)  # before any answer has run
    try:
        for number, (who, key, papers) in enumerate(handed_in, 1):
            work = choose(Work(who, key), papers, assignment)
            result = earlier.get((key, work.shown, work.hash)) or grade_one(assignment, work)
            notebook.write(out / "results" / f"{key}.json", results.dumps(result))
            notebook.write(out / "feedback" / f"{key}.html", feedback.page(result, assignment))
            done.append(result)
            say(f"[{number}/{len(handed_in)}] {_line(result)}")
    finally:  # of a run that was interrupted, too
        notebook.write(out / "grades.csv", table(done))
    return done


def collect(paths, assignment, limit):
    """(student, name for files, papers with the latest first), in the order of names."""
    papers = students.by_student(inbox.papers(paths, limit), assignment.stem)
    order = sorted(papers, key=lambda who: (who.name, who.id, who.place))
    return [(who, key, papers[who]) for who, key in students.keys(order).items()]


def grade_one(assignment, work):
    """The result of one submission; whatever happens, it is only this one's."""
    if work.trouble:
        return results.result(assignment, work, findings=work.findings)
    try:
        return _graded(assignment, work)
    except Exception as error:  # a fault of the grader: no grade, and the others go on
        where = traceback.extract_tb(error.__traceback__)[-1].name
        what = f"The grader failed, so this is no grade: {type(error).__name__}: {error} ({where})"
        job = session.Job(None, assignment.tables, assignment.sandbox, assignment.seed)
        return results.result(assignment, work, job, [*work.findings, what])


def _graded(assignment, work):
    moved = transplant(assignment.pristine, work.content, assignment.tables)
    job = session.Job(moved, assignment.tables, assignment.sandbox, assignment.seed)
    session.run(job)
    return results.result(assignment, work, job, [*work.findings, *moved.findings, *job.findings])


def table(done):
    """grades.csv: one line for each student; no cell can be taken for a formula."""
    tasks = [task["id"] for task in done[0]["exercises"]] if done else []
    text = io.StringIO()
    writer = csv.writer(text)
    header = ["student", "id", "score", "max_score", *tasks, "status", "file", "remarks"]
    writer.writerow(header)
    for result in done:
        remarks = " ".join(filter(None, [result["trouble"], *result["findings"]]))
        row = [result["student"], result["student_id"], result["score"], result["max_score"]]
        row += [task["earned"] for task in result["exercises"]]
        writer.writerow(map(safe, [*row, result["status"], result["file"], remarks]))
    return text.getvalue()


def safe(value):
    """Text that a spreadsheet shows and does not run."""
    if isinstance(value, str) and value.startswith(FORMULA):
        return "'" + value
    return value


def choose(work, papers, assignment):
    """The latest notebook that can be read and holds one of the tasks counts."""
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
    if work.student.place:
        work.findings.append(
            f"The name {work.student.name!r} stands in several folders. Each was graded by itself: "
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


def _line(result):
    if result["status"] == "unreadable":
        return f"{result['student']}: 0, {result['trouble']}"
    score = f"{result['score']:g} of {result['max_score']:g}"
    return f"{result['student']}: {score}"
