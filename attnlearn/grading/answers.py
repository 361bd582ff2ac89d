"""The answers as files of Python, one for each task and student, for tools that read code."""

from . import notebook
from .handed_in import transplant


def write(out, assignment, work):
    """Write a student's answers that are more than the scaffold: OUT/answers/TASK/KEY.py."""
    answers = extract(assignment, work)
    for task, table in assignment.tables.items():
        folder = out / "answers" / task
        _write(folder / "boilerplate" / "scaffold.py", table["blank"] + "\n")
        path = folder / f"{work.key}.py"
        if task in answers:
            _write(path, answers[task])
        else:
            path.unlink(missing_ok=True)  # of a file that was handed in before


def extract(assignment, work):
    """{task: code}: the cells that answer it, and the definitions elsewhere that they need."""
    if work.content is None:
        return {}
    moved = transplant.transplant(assignment.pristine, work.content, assignment.tables)
    found = {}
    for task, table in assignment.tables.items():
        own = moved.answers[task].values()
        if any(source.strip() != table["blank"].strip() for source in own):
            found[task] = "\n\n".join(_cells(moved.content, task)) + "\n"
    return found


def _cells(content, task):
    for cell in content["cells"]:
        role = cell["metadata"].get("attnlearn", {})
        if role.get("role") == "answer" and role.get("exercise") == task:
            yield cell["source"].rstrip()


def _write(path, text):
    if not path.exists() or path.read_bytes() != text.encode():
        notebook.write(path, text)
