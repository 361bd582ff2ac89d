"""`attnlearn grade`: from what was handed in to results, a table of grades, and feedback."""

from dataclasses import replace

from . import answers, notebook, progress, results, run
from .exports import feedback, grades
from .gradebook import Gradebook, changes
from .handed_in import work


def grade(assignment, handed_in, out, *, crew):
    """Grade every submission and write all results; returns the run.

    `crew.results(works)` yields (work, result) in the order of finishing, `crew.places(assignment)`
    tells what grades depend on of the machines.
    """
    known = results.earlier(out / "results", assignment, crew.places(assignment))
    with Run(assignment, out, handed_in.students, known) as this:
        for works in (this.to_grade(), this.twins()):
            for own, result in crew.results(works):
                this.keep(own, result)
    return this


class Run:
    """What is known already, what has come of the rest, and where it is written.

    A result of an earlier run is kept where nothing has changed: file, exercise, seed, machine.
    Files of the same bytes are graded once. A file is read when its turn comes, and only then.
    """

    def __init__(self, assignment, out, handed_in, earlier):
        self.assignment, self.out, self.handed_in = assignment, out, handed_in
        self.earlier = earlier
        self.found = {}  # key: result
        self.first = {}  # hash: who is graded for all that handed in the same bytes
        self.alike = []  # the others, as they were handed in
        self.changes = []

    def __enter__(self):
        self.book = Gradebook(self.out / "gradebook.sqlite")
        before = self.book.runs()
        self.number = self.book.begin(self.assignment, len(self.handed_in))
        if before and before[-1]["seed_id"] != self.assignment.seed_id:
            print("another seed than in the run before: all is graded anew", flush=True)
        self.progress = progress.show(len(self.handed_in))
        return self

    def __exit__(self, trouble, *about):
        self.progress.close()
        notebook.write(self.out / "grades.csv", grades.table(self.results))
        if trouble is None:
            self.book.finish(self.number)
            self.changes = self.book.changes(self.number)
            notebook.write(self.out / "changes.csv", changes.table(self.changes))
        self.book.close()

    @property
    def results(self):
        """Those found so far, in the order of names."""
        return [self.found[key] for _, key, _ in self.handed_in if key in self.found]

    def to_grade(self):
        """The submissions that have to run; what is known without is kept at once."""
        for of_one in self.handed_in:
            own = work.choose(*of_one, self.assignment)
            known = self.earlier.get((own.key, own.shown, own.hash))
            if own.trouble:
                self.keep(own, run.grade_one(self.assignment, own))
            elif known:
                self.first.setdefault(own.hash, replace(own, content=None))
                self.keep(own, known)
            elif own.hash in self.first:
                self.alike.append(of_one)
            else:
                self.first[own.hash] = replace(own, content=None)
                yield own

    def twins(self):
        """Those of the same bytes get the same result; if that is none, they have to run, too."""
        for of_one in self.alike:
            own = work.choose(*of_one, self.assignment)
            first = self.first.get(own.hash)  # None: the file has changed since
            result = first and self.found[first.key]
            if result and result["status"] == "graded":
                self.keep(own, results.of_twin(result, first, own))
            else:
                yield own

    def keep(self, own, result):
        self.book.add(self.number, result)
        notebook.write(self.out / "results" / f"{own.key}.json", results.dumps(result))
        self.found[own.key] = result  # when it is written, for Ctrl-C may come between
        page = feedback.page(result, self.assignment)
        notebook.write(self.out / "feedback" / f"{own.key}.html", page)
        graded = own if result["status"] == "graded" else replace(own, content=None)
        line = _line(result)
        if own.files > 1:
            line += f" ({own.files} files, one counts)"
        try:
            answers.write(self.out, self.assignment, graded)
        except Exception as error:  # a fault of ours; the grade holds, and the others go on
            line += f"; its answers are not written: {error!r}"
        self.progress.say(line)


def _line(result):
    if result["status"] == "unreadable":
        return f"{result['student']}: 0, {result['trouble']}"
    if result["status"] == "ungraded":
        return f"{result['student']}: not graded, {result['findings'][-1]}"
    return f"{result['student']}: {result['score']:g} of {result['max_score']:g}"
