"""Read a hand-written exercise: a percent script whose cell headers say what each cell is.

``# %% [markdown]``, ``# %%``
    Text and plain code, for the student's notebook as they are.
``# %% setup``
    The same, and run before every answer of the bank: imports, what the checks need.
``# %% answer masks-1 points=4 minutes=10 difficulty=2 forbid=numpy.tril,attnlearn``
    Scaffold and solution, which lies between ``# BEGIN SOLUTION`` and ``# END SOLUTION``. A slow
    task may say ``seeds=3``: its bank is then tested under 3 seeds, not 20.
``# %% check masks-1``, ``# %% hidden masks-1``
    ``case = check("masks-1")`` and its cases; hidden ones run only at grading.
``# %% right masks-1 a name``
    Another correct answer.
``# %% wrong masks-1 a name``
    A mistake. The comment under it is its hint; lines that begin with ``# Seen: `` say where
    somebody made it. It may keep half of the points, not more.
"""

import ast
import re
from pathlib import Path

from .task import SOLUTION, Cell, Exercise, Task

OPTIONS = {
    "answer": {"points", "minutes", "difficulty", "forbid", "seeds"},
    "check": set(),
    "hidden": set(),
    "right": set(),
    "wrong": set(),
    "setup": set(),
}
REST = r"(?:.*\\\n)*.*"  # of a command's line, and of those that go on with it


class SourceError(ValueError):
    """A fault in a percent script; its message begins with file and line."""


def read(path):
    """The exercise in a percent script; SourceError names file and line of a fault."""
    path = Path(path)
    cells = _split(path)
    for cell in cells:
        _finish(cell)
    return Exercise(path, cells, _tasks(cells))


def imported(script):
    """The packages that the text of a script imports."""
    return set(re.findall(r"^\s*(?:import|from) (\w+)", script, re.M))


def without_commands(source):
    """The source with `pass` in place of notebook commands such as `%pip`, `x?` and `x = !ls`."""
    if _is_python(source):  # a line of it may begin with `%` all the same
        return source
    likely = _without(source, r"[%!?]+\w" + REST)  # with a space it may be a sum that goes on
    return likely if _is_python(likely) else _without(source, r"[%!?]" + REST)


def _without(source, command):
    source = re.sub(rf"^([ \t]*)(?:{command}|[\w.%]+\?+[ \t]*)$", r"\1pass", source, flags=re.M)
    return re.sub(rf"^([ \t]*\w[\w, ]*=)[ \t]*[%!]{REST}$", r"\1 None", source, flags=re.M)


def _is_python(source):
    try:
        ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def _split(path):
    cells, lines = [], path.read_text("utf-8").splitlines()
    for number, line in enumerate(lines, 1):
        where = f"{path}:{number}"
        if match := re.match(r"# %%(?: *(\[markdown\]))?(?: +(.*?))? *$", line):
            cells.append(_header(match[2] or "", bool(match[1]), where))
        elif cells:
            cells[-1].source += line + "\n"
        elif line.strip() and not line.startswith("#"):
            raise SourceError(f"{where}: code before the first '# %%' cell")
    return cells


def _header(words, markdown, where):
    if markdown or not words:
        return Cell("markdown" if markdown else "code", "", where)
    role, *words = words.split()
    if role not in OPTIONS:
        raise SourceError(f"{where}: unknown kind of cell {role!r}, known: {', '.join(OPTIONS)}")
    options = dict(word.split("=", 1) for word in words if re.fullmatch(r"\w+=\S+", word))
    if unknown := set(options) - OPTIONS[role]:
        raise SourceError(f"{where}: {role} has no option {sorted(unknown)[0]!r}")
    words = [word for word in words if not re.fullmatch(r"\w+=\S+", word)]
    if role == "setup":
        return Cell("code", "", where, role)
    if not words:
        raise SourceError(f"{where}: {role} needs the id of its task")
    if role in ("right", "wrong") and len(words) < 2:
        raise SourceError(f"{where}: a {role} answer needs a name after its task's id")
    if not re.fullmatch(r"[a-zA-Z][\w-]*", words[0]):
        raise SourceError(f"{where}: {words[0]!r} is no id: use letters, digits, '-' and '_'")
    return Cell("code", "", where, role, words[0], " ".join(words[1:]), options)


def _finish(cell):
    cell.source = cell.source.strip("\n")
    if cell.kind == "markdown":
        cell.source = _markdown(cell)
        return
    if cell.role == "wrong":
        _take_hint(cell)
    plain = without_commands(cell.source)
    if plain != cell.source and cell.role not in ("", "setup"):
        raise SourceError(f"{cell.where}: a {cell.role} cell may not hold notebook commands")
    try:
        ast.parse(plain)
    except SyntaxError as error:
        raise SourceError(f"{cell.where}: {error.msg} (line {error.lineno} of the cell)") from None


def _markdown(cell):
    lines = cell.source.splitlines()
    if bad := [line for line in lines if not line.startswith("#")]:
        raise SourceError(f"{cell.where}: a text line must begin with '#': {bad[0]!r}")
    return "\n".join(re.sub(r"^# ?", "", line) for line in lines)


def _take_hint(cell):
    """The comment under the header: the hint, and where somebody made this mistake."""
    lines, hint = cell.source.splitlines(), []
    while lines and lines[0].startswith("#"):
        text = lines.pop(0).lstrip("# ").rstrip()
        if text.startswith("Seen: "):
            cell.seen.append(text.removeprefix("Seen: "))
        elif cell.seen:  # a long reference may go on in the next line
            cell.seen[-1] += " " + text
        else:
            hint.append(text)
    cell.hint, cell.source = " ".join(hint), "\n".join(lines).strip("\n")
    if not cell.hint:
        raise SourceError(f"{cell.where}: a wrong answer needs a hint in the comment under it")


def _tasks(cells):
    tasks = {}
    for cell in (cell for cell in cells if cell.task):
        task = tasks.setdefault(cell.task, Task(cell.task))
        if cell.role in ("answer", "check"):
            if getattr(task, cell.role):
                raise SourceError(f"{cell.where}: a second {cell.role} cell of {cell.task}")
            setattr(task, cell.role, cell)
        else:
            others = getattr(task, cell.role)
            if cell.name and cell.name in {other.name for other in others}:
                raise SourceError(f"{cell.where}: a second {cell.role} answer {cell.name!r}")
            others.append(cell)
    for task in tasks.values():
        _validate(task, next(cell for cell in cells if cell.task == task.id).where)
    return tasks


def _validate(task, where):
    for role in ("answer", "check"):
        if getattr(task, role) is None:
            raise SourceError(f"{where}: {task.id} has no {role} cell")
    where, options = task.answer.where, task.answer.options
    if not SOLUTION.search(task.answer.source + "\n"):
        raise SourceError(f"{where}: no '# BEGIN SOLUTION' and '# END SOLUTION' in {task.id}")
    for name in ("points", "minutes", "difficulty"):
        if not re.fullmatch(r"\d+(\.\d+)?", options.get(name, "")):
            raise SourceError(f"{where}: {task.id} needs {name}=NUMBER in its header")
    if not re.fullmatch(r"[1-9]\d*", options.get("seeds", "1")):
        raise SourceError(f"{where}: seeds is a whole number above 0, not {options['seeds']}")
    if task.difficulty not in (1, 2, 3, 4):
        raise SourceError(f"{where}: difficulty is 1, 2, 3 or 4, not {task.difficulty}")
    for cell in (task.check, *task.hidden):
        if not re.search(rf"""\bcheck\(["']{re.escape(task.id)}["']""", cell.source):
            raise SourceError(f'{cell.where}: this cell must call check("{task.id}")')
