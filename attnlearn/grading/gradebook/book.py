"""Every attempt in an SQLite file, to which rows are added and in which none is changed."""

import itertools
import json
import sqlite3
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from ... import __version__
from .. import results
from . import changes, disk

RUN = [
    *("began", "assignment", "exercise", "environment"),
    *("seed_id", "sandbox", "program", "total"),
]
ATTEMPT = [
    *("run", "assignment", "student", "student_id", "key", "file", "submission"),
    *("status", "score", "max_score", "graded", "result"),
]
NAMED_ALIKE = [name for name in ATTEMPT if name not in ("run", "submission", "result")]


class Gradebook:
    """The gradebook in a file; it is begun where there is none."""

    def __init__(self, path, connect=disk.writer):
        self.path = Path(path)
        self._db = connect(self.path)

    @classmethod
    def read(cls, path):
        """Open one that is there, to look at it."""
        path = Path(path)
        if not path.is_file() or not disk.version(path):
            raise disk.GradebookError(f"{path}: no gradebook; `attnlearn grade` makes one")
        return cls(path, disk.reader)

    def close(self):
        self._db.close()

    def __enter__(self):
        return self

    def __exit__(self, *about):
        self.close()

    def begin(self, assignment, total):
        """A new run of the grader; returns its number."""
        row = [_now(), assignment.stem, assignment.hash, results.environment_hash()]
        row += [assignment.seed_id, assignment.sandbox.record()["level"], __version__, total]
        with self._writing():
            return self._insert("runs", dict(zip(RUN, row, strict=True)))

    def add(self, run, result):
        """Keep a result; returns whether it is a new attempt, or one that still holds."""
        row = {name: result[name] for name in NAMED_ALIKE} | {
            "run": run,
            "submission": result["hashes"]["submission"],
            "score": float(result["score"]),
            "max_score": float(result["max_score"]),
            "result": json.dumps(result, sort_keys=True),
        }
        latest = (
            "SELECT id, result FROM attempts WHERE assignment = ? AND key = ?"
            " ORDER BY id DESC LIMIT 1"
        )
        with self._writing():
            known = self._one(latest, row["assignment"], row["key"])
            holds = bool(known) and _but_for_time(json.loads(known["result"])) == _but_for_time(
                json.loads(row["result"])
            )
            if holds:
                self._keep(run, known["id"])
            else:
                about = self._one("SELECT * FROM runs WHERE id = ?", run)
                self._insert("attempts", {**row, "chain": link(self.mark, about, row)})
        return not holds

    def finish(self, run):
        """The run came to its end; one without this was interrupted."""
        with self._writing():
            self._insert("ended", {"run": run, "at": _now()})

    def runs(self):
        """Every run, with how many it graded, and how many of its results were kept."""
        return self._all(
            "SELECT runs.*, ended.at AS ended,"
            " (SELECT count(*) FROM attempts WHERE run = runs.id) AS graded,"
            " (SELECT count(*) FROM kept WHERE run = runs.id) AS kept"
            " FROM runs LEFT JOIN ended ON ended.run = runs.id ORDER BY runs.id"
        )

    def attempts(self):
        """Every attempt with the conditions of its run, but without the whole result."""
        columns = ", ".join(f"attempts.{name}" for name in ("id", *ATTEMPT) if name != "result")
        return self._all(
            f"SELECT {columns}, runs.exercise, runs.seed_id, runs.sandbox, runs.program"
            " FROM attempts JOIN runs ON runs.id = attempts.run ORDER BY attempts.id"
        )

    def result(self, attempt):
        """The result of an attempt, as it was graded."""
        return json.loads(self._one("SELECT result FROM attempts WHERE id = ?", attempt)["result"])

    def changes(self, run):
        """What a run changed against each student's attempt before, what fell most first.

        Runs that were interrupted before it belong to it.
        """
        this = self._one("SELECT * FROM runs WHERE id = ?", run)
        if this is None:
            raise disk.GradebookError(f"{self.path}: there is no run {run}")
        since = self._one(
            "SELECT coalesce(max(run), 0) AS run FROM ended JOIN runs ON runs.id = run"
            " WHERE assignment = ? AND run < ?",
            *(this["assignment"], run),
        )["run"]
        before, after = {}, {}
        for attempt in self.attempts():
            if attempt["assignment"] == this["assignment"] and attempt["run"] <= run:
                (before if attempt["run"] <= since else after)[attempt["key"]] = attempt
        pairs = ((before[key], after[key]) for key in after if key in before)
        return changes.between((self._whole(old), self._whole(new)) for old, new in pairs)

    @property
    def mark(self):
        """The end of the chain of hashes: it stands for every attempt so far."""
        last = self._one("SELECT chain FROM attempts ORDER BY id DESC LIMIT 1")
        return last["chain"] if last else ""

    def verify(self, mark=""):
        """Sentences on what was damaged or changed by hand; none if all is as it was written.

        With a mark that was noted before: does the gradebook still hold all that it held then?
        """
        troubles = []
        try:
            for trouble in itertools.chain(self._damage(), self._breaks(), self._lost(mark)):
                troubles.append(trouble)
        except sqlite3.DatabaseError as error:  # what was found before it counts
            troubles.append(f"the file is damaged: {error}")
        return troubles

    def _damage(self):
        for row in self._db.execute("PRAGMA integrity_check"):
            if row[0] != "ok":
                yield f"the file is damaged: {row[0]}"
        found = {row["name"] for row in self._all("SELECT name FROM sqlite_master")}
        if missing := sorted(disk.names() - found):
            yield f"its tables or triggers are not all there: {', '.join(missing)}"

    def _breaks(self):
        runs = {run["id"]: run for run in self._all("SELECT * FROM runs")}
        chain, next_id = "", 1
        for row in self._all("SELECT * FROM attempts ORDER BY id"):
            if row["id"] != next_id:
                yield f"attempt {next_id} is missing"
            if row["chain"] != link(chain, runs.get(row["run"], {}), row):
                yield f"attempt {row['id']} of {row['student']}, or its run, is not as written"
            chain, next_id = row["chain"], row["id"] + 1
        last = self._one("SELECT seq FROM sqlite_sequence WHERE name = 'attempts'")
        if last and last["seq"] >= next_id:
            yield f"the last attempts are missing: there were {last['seq']}"

    def _lost(self, mark):
        marks = (row["chain"] for row in self._all("SELECT chain FROM attempts"))
        if mark and not any(chain.startswith(mark) for chain in marks):
            yield f"no attempt has the mark {mark}: attempts were lost or rewritten"

    def _whole(self, attempt):
        return {**attempt, "result": self.result(attempt["id"])}

    def _keep(self, run, attempt):
        new = "NOT EXISTS (SELECT 1 FROM kept WHERE run = ?1 AND attempt = ?2)"
        self._db.execute(f"INSERT INTO kept SELECT ?1, ?2 WHERE {new}", (run, attempt))

    @contextmanager
    def _writing(self):
        """All or nothing; a second writer waits."""
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")

    def _insert(self, table, row):
        marks = ", ".join("?" * len(row))
        into = f"INSERT INTO {table} ({', '.join(row)}) VALUES ({marks})"
        return self._db.execute(into, list(row.values())).lastrowid

    def _all(self, query, *values):
        return [dict(row) for row in self._db.execute(query, values)]

    def _one(self, query, *values):
        return next(iter(self._all(query, *values)), None)


def link(before, run, row):
    """The hash of an attempt, which holds that of the one before."""
    parts = [before, *(run.get(name) for name in RUN), *(row[name] for name in ATTEMPT)]
    return results.digest(json.dumps(parts).encode())


def _but_for_time(result):
    return {name: part for name, part in result.items() if name != "graded"}


def _now():
    return datetime.now(UTC).isoformat(timespec="seconds")
