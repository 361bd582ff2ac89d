"""An exercise in memory: its cells, and its tasks with the answers that test them."""

import ast
import re
from dataclasses import dataclass, field
from pathlib import Path

from ..exercise.compare import BLANK

SOLUTION = re.compile(
    r"^([ \t]*)# BEGIN SOLUTION[ \t]*\n(.*?)^[ \t]*# END SOLUTION[ \t]*(?:\n|\Z)", re.S | re.M
)


@dataclass
class Cell:
    kind: str  # "code" or "markdown"
    source: str
    where: str
    role: str = ""  # "" for a plain code cell
    task: str = ""
    name: str = ""
    options: dict = field(default_factory=dict)
    hint: str = ""
    seen: list = field(default_factory=list)

    @property
    def links(self):
        """Where somebody made this mistake, as Markdown: a URL or `owner/project#123`."""
        for place in self.seen:
            pull = re.fullmatch(r"https://github.com/([\w.-]+/[\w.-]+)/pull/(\d+)", place)
            issue = re.fullmatch(r"([\w.-]+/[\w.-]+)#(\d+)", place)
            if issue:
                yield f"[{place}](https://github.com/{issue[1]}/issues/{issue[2]})"
            elif pull:
                yield f"[{pull[1]}#{pull[2]}]({place})"
            else:
                yield f"<{place}>" if re.fullmatch(r"https?://\S+", place) else place


@dataclass
class Task:
    """One task: its answer and check, and the answers that test them."""

    id: str
    answer: Cell = None
    check: Cell = None
    hidden: list = field(default_factory=list)
    right: list = field(default_factory=list)
    wrong: list = field(default_factory=list)

    @property
    def points(self):
        return float(self.answer.options["points"])

    @property
    def minutes(self):
        return int(self.answer.options["minutes"])

    @property
    def difficulty(self):
        return int(self.answer.options["difficulty"])

    @property
    def forbid(self):
        return [name for name in self.answer.options.get("forbid", "").split(",") if name]

    @property
    def defines(self):
        nodes = ast.parse(self.answer.source).body
        return [n.name for n in nodes if isinstance(n, (ast.FunctionDef, ast.ClassDef))]

    @property
    def drawn(self):
        """Is any case given an `rng`? If not, every seed gives the same values."""
        nodes = [n for cell in (self.check, *self.hidden) for n in ast.walk(ast.parse(cell.source))]
        calls = [n for n in nodes if isinstance(n, ast.Call) and ast.unparse(n.func) == "case"]
        run = [argument for call in calls for argument in call.args[1:]]
        run += [n for n in nodes if isinstance(n, ast.FunctionDef) and n.decorator_list]
        # What is given by its name may take one.
        return any(f.args.args if hasattr(f, "args") else True for f in run)

    @property
    def slow(self):
        return "seeds" in self.answer.options

    @property
    def seeds(self):
        """How many seeds test its bank: 20, or what the header says where a run is slow."""
        return int(self.answer.options.get("seeds", 20)) if self.drawn else 1

    @property
    def blank(self):
        """The answer cell as the student gets it."""
        stub = rf'\1raise NotImplementedError("{self.id}: {BLANK}")\n'
        scaffold = SOLUTION.sub(stub, self.answer.source + "\n").rstrip("\n")
        return f"{self._heading()}\n{scaffold}"

    @property
    def solved(self):
        """The answer cell with its solution and without the marks around it."""
        whole = SOLUTION.sub(r"\2", self.answer.source + "\n").rstrip("\n")
        return f"{self._heading()}\n{whole}"

    def _heading(self):
        points = "1 point" if self.points == 1 else f"{self.points:g} points"
        effort = f"{points}, about {self.minutes} minutes"
        return f"# EXERCISE: {self.id}\n# {effort}, difficulty {self.difficulty} of 4"


@dataclass
class Exercise:
    """A whole script: its cells in order and its tasks by id."""

    path: Path
    cells: list
    tasks: dict

    @property
    def stem(self):
        return self.path.stem

    @property
    def setup(self):
        return [cell for cell in self.cells if cell.role == "setup"]
