"""The gradebook's file: found, made, opened, and never taken for what it is not."""

import re
import sqlite3
from contextlib import closing, suppress
from importlib.resources import files

VERSION = 1
OURS = 0x6174746E
MAGIC = b"SQLite format 3\0"
PATIENCE = 60  # seconds that a second grader waits for the first


class GradebookError(ValueError):
    """A gradebook that can't be opened; the message says what was found and what to do."""


def writer(path):
    """A connection to a gradebook, which is begun where there is none."""
    known = version(path) if path.exists() else 0
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        db = _connect(path)
        db.executescript(schema() if not known else "BEGIN IMMEDIATE; ROLLBACK")  # can it?
    except sqlite3.OperationalError as error:
        raise GradebookError(f"{path}: the gradebook can't be written ({error})") from None
    with suppress(sqlite3.OperationalError):  # not every disk can; the plain journal will do
        db.execute("PRAGMA journal_mode = WAL")
    return db


def reader(path):
    """A connection that writes nothing, on a disk that can't be written, too."""
    db = _connect(path, "?mode=ro")
    try:
        db.execute("SELECT count(*) FROM sqlite_master")
    except sqlite3.OperationalError:
        db.close()
        left = path.with_name(path.name + "-wal")
        if left.exists() and left.stat().st_size:
            raise  # what it holds would be passed over
        db = _connect(path, "?immutable=1")
    return db


def version(path):
    """The schema version of a file, 0 of an empty one; GradebookError where it is not ours."""
    questions = (
        "PRAGMA application_id",
        "PRAGMA user_version",
        "SELECT count(*) FROM sqlite_master",
    )
    try:
        with path.open("rb") as file:
            if file.read(len(MAGIC)) not in (MAGIC, b""):
                raise GradebookError(f"{path}: no gradebook, no database; choose another file")
        with closing(reader(path)) as db:
            ours, found, tables = (db.execute(text).fetchone()[0] for text in questions)
    except (sqlite3.DatabaseError, OSError) as error:
        raise GradebookError(f"{path}: this gradebook can't be read ({error})") from None
    if ours != OURS and (ours or found or tables):
        raise GradebookError(f"{path}: a database, but no gradebook; choose another file")
    if found > VERSION:
        raise GradebookError(
            f"{path}: written by a newer attnlearn (gradebook version {found}, this one knows "
            f"{VERSION}); update attnlearn"
        )
    return found


def schema():
    text = files(__package__).joinpath("schema.sql").read_text("utf-8")
    old = sqlite3.sqlite_version_info < (3, 37)  # knows no strict tables
    return text.replace(") STRICT;", ");") if old else text


def names():
    """All that the schema makes: tables, views, indexes, triggers."""
    return set(re.findall(r"IF NOT EXISTS (\w+)", schema()))


def _connect(path, how=""):
    db = sqlite3.connect(f"{path.absolute().as_uri()}{how}", PATIENCE, uri=True)
    db.isolation_level = None  # transactions are written where they begin
    db.row_factory = sqlite3.Row
    db.execute("PRAGMA foreign_keys = ON")
    return db
