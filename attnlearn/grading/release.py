"""Make all that is generated: exercise and solved notebooks, tables, chapters, bank, evidence."""

import json
from dataclasses import dataclass
from pathlib import Path

from ..exercise import compare
from . import audit, bank, chapters, mutants, notebook, page, solved, source, stored


class ReleaseError(ValueError):
    """What can't be released; the message names the place."""


@dataclass
class Project:
    """Where things lie: this repository, or a teacher's folder of the same shape."""

    root: Path

    def scripts(self, stems=()):
        found = sorted((self.root / "solutions").glob("[0-9]*.py"))
        if missing := set(stems) - {path.stem for path in found}:
            raise ReleaseError(f"{self.root / 'solutions'}: no script {sorted(missing)[0]}.py")
        return [path for path in found if not stems or path.stem in stems]

    @property
    def tables(self):
        package = self.root / "attnlearn" / "grading" / "tables"
        return package if package.is_dir() else self.root / "exercises" / ".attnlearn"

    @property
    def page(self):
        return self.root / "book" / "bank.md"

    def targets(self, stem):
        return {
            "exercise": self.root / "exercises" / f"{stem}.ipynb",
            "solved": self.root / "solutions" / f"{stem}.ipynb",
            "table": self.tables / f"{stem}.json",
        }


def release(root, stems=()):
    """Write all generated files of the given stems, or none; returns notes for the author."""
    project, notes, texts, tables = Project(Path(root)), [], {}, {}
    for script in project.scripts(stems):
        exercise = source.read(script)
        table = tables[exercise.stem] = exercise_table(exercise)
        notes += [f"{script.name}: {fault}" for fault in audit.audit(exercise)]
        for id, task in table["tasks"].items():
            alive = task["mutants"]["survived"]
            notes += [f"{script.name}: {id}: a mutant passes: {what}" for what in alive]
        targets = project.targets(exercise.stem)
        texts[targets["table"]] = table_text(table)
        texts[targets["exercise"]] = notebook.dumps(exercise_notebook(exercise))
        texts[targets["solved"]] = notebook.dumps(solved.run(solved.build(exercise), table))
    for path, chapter in chapters.build_all(project.root, stems):
        texts[path] = notebook.dumps(chapter)
    if project.page.parent.is_dir():
        texts[project.page] = page.page(project, tables)
    texts.update(stored.copies(project.root))
    for path, text in texts.items():
        notebook.write(path, text)
    return notes


def table_text(table):
    """A table as JSON with a line for each task; indented, it would be half as large again."""
    lines = (
        f"{json.dumps(task)}:{json.dumps(rows, sort_keys=True, separators=(',', ':'))}"
        for task, rows in sorted(table["tasks"].items())
    )
    return f'{{"stem":{json.dumps(table["stem"])},"tasks":{{\n' + ",\n".join(lines) + "\n}}\n"


def exercise_table(exercise):
    """The expected values of every task, and what its bank of answers looks like."""
    table = {"stem": exercise.stem, "tasks": {}}
    for task in exercise.tasks.values():
        rows = bank.make_table(exercise, task)
        for case in rows["cases"]:
            if fault := bank.fault(case["value"]):
                where = f"{task.check.where}: {task.id}, {case['name']}"
                raise ReleaseError(f"{where}: {fault}")
        rows["mutants"] = mutants.count(mutants.trial(exercise, task))
        table["tasks"][task.id] = rows
    return table


def exercise_notebook(exercise):
    """The student's notebook: text, setup, scaffolds and checks."""
    cells, prefix = [], f"{exercise.stem.replace('_', '-')}-exercise"
    for cell in exercise.cells:
        if cell.role == "answer":
            task = exercise.tasks[cell.task]
            about = {"points": task.points, "minutes": task.minutes, "difficulty": task.difficulty}
            role = {"attnlearn": {"role": "answer", "exercise": cell.task, **about}}
            cells.append(notebook.code_cell(f"{cell.task}-answer", task.blank, role))
        elif cell.role == "check":
            role = {"attnlearn": {"role": "check", "exercise": cell.task}}
            cells.append(notebook.code_cell(f"{cell.task}-check", cell.source, role))
        elif cell.role in ("", "setup"):
            make = notebook.markdown_cell if cell.kind == "markdown" else notebook.code_cell
            number = 1 + sum(c["id"].startswith(prefix) for c in cells)
            cells.append(make(f"{prefix}-{number:02d}", cell.source))
    return notebook.new(cells, attnlearn={"exercise": exercise.stem})


def check(root, stems=()):
    """What is stale, as sentences that name file and place; [] means all is up to date."""
    project, stale = Project(Path(root)), []
    scripts = project.scripts(stems)
    for script in scripts:
        stale += _check_script(project, script)
    if not stems:
        stale += _orphans(project, {script.stem for script in scripts})
    stale += chapters.check(project.root, stems) + stored.check(project.root)
    return stale or _check_page(project)


def _check_page(project):
    if not project.page.parent.is_dir():
        return []
    if not project.page.exists():
        return [f"{project.page}: missing"]
    fresh = project.page.read_text("utf-8") == page.page(project, {})
    return [] if fresh else [f"{project.page}: stale, it does not match the tables"]


def _check_script(project, script):
    exercise = source.read(script)
    targets = project.targets(exercise.stem)
    if missing := [path for path in targets.values() if not path.exists()]:
        return [f"{path}: missing" for path in missing]
    fresh = {task.id: bank.make_table(exercise, task) for task in exercise.tasks.values()}
    old_table = json.loads(targets["table"].read_text("utf-8"))
    stale = [f"{targets['table']}: stale, {why}" for why in _table_changes(old_table, fresh)]
    for name, built in (
        ("exercise", exercise_notebook(exercise)),
        ("solved", solved.build(exercise)),
    ):
        old = notebook.load(targets[name])
        why = notebook.changes(old, built) or (name == "solved" and solved.faults(old, fresh))
        if why:
            stale.append(f"{targets[name]}: stale, {why}")
    return stale


def _table_changes(table, fresh):
    """Everything but values must be equal; values within their tolerance."""
    if list(table["tasks"]) != sorted(fresh):
        yield f"its tasks are {', '.join(table['tasks'])}"
        return
    for id, new in fresh.items():
        old = table["tasks"][id]
        if _without_values(old) != _without_values(new):
            yield f"task {id} differs"
            continue
        rules = {case["name"]: case for case in new["cases"]}
        pairs = [
            (c["name"], o["value"], c["value"])
            for o, c in zip(old["cases"], new["cases"], strict=True)
        ]
        for a, b in zip(old["wrong"], new["wrong"], strict=True):
            pairs += [(n, a["values"].get(n), b["values"][n]) for n in b["values"]]
        for name, a, b in pairs:
            if not compare.agree(a, b, rules[name]):
                yield f"a value of {id}, case {name!r}, differs"
                break


def _without_values(task):
    plain = {k: v for k, v in task.items() if k not in ("cases", "wrong", "mutants")}
    plain["cases"] = [{k: v for k, v in c.items() if k != "value"} for c in task["cases"]]
    plain["wrong"] = [(w["name"], w["hint"], sorted(w["values"])) for w in task["wrong"]]
    return plain


def _orphans(project, stems):
    places = [project.root / "exercises", project.root / "solutions"]
    generated = [path for place in places for path in sorted(place.glob("*.ipynb"))]
    generated += sorted(project.tables.glob("*.json"))
    return [f"{p}: no script solutions/{p.stem}.py" for p in generated if p.stem not in stems]
