"""An exercise made ready for grading: its pristine notebook, and its values under a secret seed."""

import hashlib
import os
import re
import secrets
import tempfile
from dataclasses import dataclass
from pathlib import Path

from . import expected, notebook, release, source
from .environment import PACKAGE_PARENT
from .isolation import sandbox


class AssignmentError(ValueError):
    """An exercise that isn't there or can't be graded; the message says what to do."""


@dataclass
class Assignment:
    """What every submission is held against."""

    stem: str
    title: str
    pristine: dict
    tables: dict  # task: table with visible and hidden cases
    packages: tuple  # that the exercise imports and that take long: kernels have them at once
    reading: dict  # task: where to read
    sandbox: sandbox.Sandbox
    seed: str
    hash: str

    @property
    def seed_id(self):
        """Tells seeds apart without giving them away."""
        return hashlib.sha256(f"attnlearn {self.seed}".encode()).hexdigest()[:12]


def strong_enough(limits, level, weak):
    """The sandbox of a level, or the strongest that works here, if official grading may use it."""
    box = sandbox.choose(limits, level)
    if box is None:
        why = sandbox.KINDS[level](limits).trouble()
        raise AssignmentError(f"sandbox L{level} does not work on this machine: {why}")
    if box.level < sandbox.ENOUGH and not weak:
        raise AssignmentError(box.refusal())
    return box


def prepare(script, seed, box):
    """The assignment of a script, with its values under a seed, made in this sandbox."""
    stem = script.stem
    exercise = source.read(script)
    pristine = release.exercise_notebook(exercise)
    with tempfile.TemporaryDirectory(prefix="expected-") as scratch:
        environment = box.environment(scratch, ATTNLEARN_SEED=seed)
        tables, packages = expected.make(script.resolve(), environment, scratch)
    about = notebook.dumps(pristine) + script.read_text("utf-8")
    return Assignment(
        stem=stem,
        title=_title(exercise),
        pristine=pristine,
        tables=tables,
        packages=packages,
        reading=_reading(exercise),
        sandbox=box,
        seed=seed,
        hash=hashlib.sha256(about.encode()).hexdigest(),
    )


def find(stem, folder=None):
    """The script of an exercise; a folder holds scripts, or a folder `solutions` of them."""
    folder = folder or PACKAGE_PARENT
    places = [folder / "solutions", folder]
    for place in places:
        if (place / f"{stem}.py").is_file():
            return place / f"{stem}.py"
    known = sorted({path.stem for place in places for path in place.glob("[0-9]*.py")})
    there = f"there are {', '.join(known)}" if known else "there are no exercises at all"
    raise AssignmentError(f"no exercise {stem!r} in {folder}: {there}. Use --exercises FOLDER")


def _title(exercise):
    texts = [cell.source for cell in exercise.cells if cell.kind == "markdown"]
    return next((t.splitlines()[0][2:] for t in texts if t.startswith("# ")), exercise.stem)


def _reading(exercise):
    """{task: what its text says after 'Read first:'}, as plain text."""
    found, text = {}, ""
    for cell in exercise.cells:
        if cell.kind == "markdown":
            text = cell.source
        if cell.role == "answer":
            match = re.search(r"^Read first: (.+?)(?:\n\n|\Z)", text, re.S | re.M)
            words = match[1] if match else ""
            words = re.sub(r"\[([^\]]*)\]\((https?://[^)]*)\)", r"\1 (\2)", words)
            plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", words)
            found[cell.task] = " ".join(re.sub(r"\*([^*]+)\*", r"\1", plain).split())
            text = ""
    return found


def read_seed(text, file, out):
    """The secret seed: as given, from a file, or drawn once and kept beside the results."""
    if text:
        return text
    path = file or out / "seed.txt"
    if file is None and not path.exists():
        draw_seed(path)
    if not Path(path).is_file():
        raise AssignmentError(f"{path}: no file with a seed; write any text into it")
    seed = Path(path).read_text("utf-8").strip()
    if not seed:
        raise AssignmentError(f"{path}: the seed is empty; write any text into it")
    return seed


def draw_seed(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(secrets.token_hex(16) + "\n")
