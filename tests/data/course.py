"""A made-up class: what each of its students hands in for an exercise, and what is due to them.

What is due is computed without a kernel: from the exercise's own bank of answers.
"""

from dataclasses import dataclass, field

from attnlearn.exercise import diagnose
from attnlearn.grading import bank, notebook, release

from . import odd

NAMES = ["Ana Nuñez", "山田太郎", "=SUM(A1)", 'Pat "P" Lee, Jr', "O'Neil", "Владимир", "<b>Bo"]


@dataclass
class Submission:
    """`points` are due for its tasks; without any it can't be read, and `words` say why."""

    kind: str
    about: str
    files: dict  # path: bytes
    points: dict = field(default_factory=dict)
    mistakes: dict = field(default_factory=dict)  # task: the name that must be told
    words: str = ""  # that its result must hold
    student: str = ""
    counts: str = ""  # the one of two files that is graded


class Course:
    """The submissions to one exercise, under one secret seed."""

    def __init__(self, exercise, seed, level=3):
        self.exercise, self.seed, self.level = exercise, seed, level
        tasks = exercise.tasks
        self.solved = {id: task.solved for id, task in tasks.items()}
        self.full = {id: task.points for id, task in tasks.items()}
        asked = {id: bank.make_table(exercise, task)["defines"] for id, task in tasks.items()}
        self.first = next(id for id, names in asked.items() if len(names) == 1)
        self.name = asked[self.first][0]
        self.count = 0

    def submissions(self, number):
        """One of everything, then blank and right ones until the class is full."""
        parts = (self.right, self.mistakes, self.careless, self.damage, self.ends, self.attacks)
        for part in (*parts, self.twice):
            yield from part()
        for _ in range(10):
            yield self.one("blank", "the scaffold", {}, dict.fromkeys(self.full, 0))
        while self.count < number:
            yield self.one("right", "the solution", self.solved, self.full)

    def right(self):
        for id, task in self.exercise.tasks.items():
            for cell in task.right:
                yield self.one("right", cell.name, {**self.solved, id: cell.source}, self.full)

    def mistakes(self):
        for id, task in self.exercise.tasks.items():
            for cell in task.wrong:
                points = {**self.full, id: self._kept(task, cell.source)}
                assert points[id] <= task.points / 2, cell.name
                answers = {**self.solved, id: cell.source}
                yield self.one("mistake", cell.name, answers, points, mistakes={id: cell.name})

    def careless(self):
        for about, change in odd.FORGIVEN.items():
            data = change(self._content(self.solved))
            yield self._made("careless", about, data, points=self.full)
        for about, code in odd.GLOBALS.items():
            answers = {**self.solved, self.first: code + self.solved[self.first]}
            yield self.one("careless", about, answers, self.full)

    def damage(self):
        for about, (_, words) in odd.DAMAGE.items():
            data, ending = odd.damaged(about, self._data(self.solved))
            yield self._made("damage", about, data, ending, words=words)

    def ends(self):
        for about, (code, words) in odd.ENDS.items():
            due = {**self.full, self.first: 0}
            yield self.one("ends its kernel", about, self._instead(code), due, words=words)

    def attacks(self):
        """An attack may harm its author's other tasks, so nothing is said on them."""
        for about, code in odd.attacks(self.level).items():
            yield self.one("attack", about, self._instead(code), {self.first: 0})

    def twice(self):
        """Two files by one student, one that is late, one that another handed in, too."""
        good, blank = (self._data(answers) for answers in (self.solved, {}))
        for about, data, latest in (
            ("the second is right", (blank, good), 1),
            ("the second is damaged", (good, blank[:99]), 0),
        ):
            number = self._number()
            paths = [f"roe{number}_{number}_700{n}_{self.exercise.stem}-{n}.ipynb" for n in (0, 1)]
            own = {"words": "2 files were handed in", "counts": paths[latest]}
            files = dict(zip(paths, data, strict=True))
            student = f"roe{number}"
            yield Submission("two files", about, files, self.full, student=student, **own)
        number = self._number()
        path = f"roe{number}_LATE_{number}_7000_{self.exercise.stem}.ipynb"
        yield Submission("late", "", {path: good}, self.full, student=f"roe{number}")
        for _ in range(2):
            yield self._made("a copy", "of another's file", good, points=self.full)

    def one(self, kind, about, answers, points, **more):
        return self._made(kind, about, self._content(answers), points=points, **more)

    def _made(self, kind, about, data, ending=".ipynb", **more):
        """A submission under a name as a learning platform would give it."""
        number = self._number()
        data = data if isinstance(data, bytes) else notebook.dumps(data).encode()
        student = f"{NAMES[number % len(NAMES)]} {number}"
        file = f"{self.exercise.stem}{ending}"
        path = (
            f"{student}_{number}_assignsubmission_file_/{file}",
            f"{student}/{file}",
            f"{student}{ending}",
        )[number % 3 if ending == ".ipynb" else 0]
        return Submission(kind, about, {path: data}, student=student, **more)

    def _number(self):
        self.count += 1
        return self.count

    def _instead(self, code):
        code = code.replace("NAME", self.name).replace("STEM", self.exercise.stem)
        return {**self.solved, self.first: code.replace("FIRST", self.first)}

    def _content(self, answers):
        """The exercise's notebook with these answers, unlike any other by a note."""
        content = release.exercise_notebook(self.exercise)
        for cell in content["cells"]:
            task = cell["id"].removesuffix("-answer")
            if task != cell["id"] and task in answers:
                cell["source"] = f"# EXERCISE: {task}\n{answers[task]}"
        content["cells"].append(notebook.code_cell("note", f"# {self.count}"))
        return content

    def _data(self, answers):
        return notebook.dumps(self._content(answers)).encode()

    def _kept(self, task, answer):
        """The points of an answer: the weight of the cases in which it gives what is due."""
        options = {"seed": self.seed, "hidden": True}
        table = bank.make_table(self.exercise, task, **options)
        values = bank.values(bank.run(self.exercise, task, answer, **options))
        failing = diagnose.failing(values, table)
        weights = {case["name"]: case["weight"] for case in table["cases"]}
        good = sum(weight for name, weight in weights.items() if name not in failing)
        return round(task.points * good / sum(weights.values()), 4)


def write(submissions, folder):
    for own in submissions:
        for path, data in own.files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(data)


def faults(own, got):
    """What a student should have got and did not."""
    where = f"{own.kind}, {own.about}"
    if got is None:
        yield f"{where}: no result for {own.student}"
        return
    if own.counts not in got["file"]:
        yield f"{where}: {own.counts} should count, not {got['file']}"
    text = " ".join([got["trouble"], *got["findings"]])
    text += " ".join(note for task in got["exercises"] for note in task["notes"])
    text += " ".join(case["says"] for task in got["exercises"] for case in task["cases"])
    if own.words not in text:
        yield f"{where}: {own.words!r} is not said: {text}"
    if not own.points and (got["status"], got["score"]) != ("unreadable", 0):
        yield f"{where}: should be unreadable, is {got['status']}"
    for task in got["exercises"]:
        due = own.points.get(task["id"], task["earned"])
        if abs(task["earned"] - due) > 0.001:
            yield f"{where}: {task['id']} should get {due:g}, got {task['earned']:g}"
        named = own.mistakes.get(task["id"])
        if named and not any(m["name"] == named and m["hint"] for m in task["mistakes"]):
            yield f"{where}: {task['id']} does not name the mistake: {task['mistakes']}"
