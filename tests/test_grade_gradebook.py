"""The gradebook keeps every attempt, whatever happens to it, and says if anything did."""

import multiprocessing
import os
import sqlite3

import pytest
from data.results import keep, result

from attnlearn.__main__ import main
from attnlearn.grading.gradebook import Gradebook, GradebookError, disk
from attnlearn.grading.gradebook.book import link


@pytest.fixture
def book(tmp_path):
    with Gradebook(tmp_path / "gradebook.sqlite") as book:
        yield book


@pytest.fixture
def by_hand(book):
    """A connection of somebody with other tools."""
    keep(book, result("ana", (4, 4)), result("bo", (2, 4)), result("eve", (1, 1)))
    db = sqlite3.connect(book.path)
    yield db
    db.close()


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE attempts SET score = 8",
        "DELETE FROM attempts WHERE id = 3",
        "INSERT OR REPLACE INTO attempts SELECT * FROM attempts",
        "UPDATE runs SET total = 0",
        "DELETE FROM ended",
        "INSERT OR REPLACE INTO ended SELECT run, 'never' FROM ended",
        "UPDATE cases SET passed = 1",
        "DELETE FROM tasks",
    ],
)
def test_a_row_is_never_changed(by_hand, change):
    with pytest.raises(sqlite3.DatabaseError, match=r"append-only|it is a view"):
        by_hand.execute(change)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("UPDATE attempts SET score = 8 WHERE id = 2", "attempt 2 of bo, or its run, is not as"),
        ("UPDATE runs SET seed_id = 'other'", "attempt 1 of ana, or its run, is not as written"),
        ("DELETE FROM attempts WHERE id = 2", "attempt 2 is missing"),
        ("DELETE FROM attempts WHERE id = 3", "the last attempts are missing: there were 3"),
    ],
)
def test_an_edit_by_hand_is_noticed(book, by_hand, change, words):
    assert book.verify() == []
    triggers = by_hand.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'")
    triggers = triggers.fetchall()
    for name, _ in triggers:
        by_hand.execute(f"DROP TRIGGER {name}")
    by_hand.execute(change)
    assert any("attempts_no_update" in trouble for trouble in book_of(by_hand).verify())
    for _, text in triggers:
        by_hand.execute(text)
    by_hand.commit()
    assert words in " ".join(book.verify())


def test_damage_is_said_and_stops_no_command(book, capsys):
    keep(book, *(result(f"ana{number}", (4, 4)) for number in range(30)))
    book.close()
    data = bytearray(book.path.read_bytes())
    data[4096 * 12 :] = b"\xff" * (len(data) - 4096 * 12)
    book.path.write_bytes(data)
    for what in ("--verify", "--student=ana1", "--changes"):
        assert main(["gradebook", str(book.path), what]) == 1
    shown = capsys.readouterr().err
    assert "the file is damaged" in shown
    assert "error: database disk image is malformed" in shown


def test_an_edit_with_a_hash_of_its_own_is_noticed_at_the_next_row(book, by_hand):
    by_hand.execute("DROP TRIGGER attempts_no_update")
    rows = book._all("SELECT * FROM attempts")
    run, edited = book._one("SELECT * FROM runs"), rows[1] | {"score": 8.0}
    own = link(rows[0]["chain"], run, edited)
    by_hand.execute("UPDATE attempts SET score = 8, chain = ? WHERE id = 2", [own])
    by_hand.commit()
    assert "attempt 3 of eve, or its run, is not as written" in book.verify()


def book_of(db):
    """The gradebook as one connection sees it before it commits."""
    db.row_factory = sqlite3.Row
    return Gradebook("a path", lambda path: db)


def test_a_mark_tells_whether_all_was_written_anew(book, capsys):
    keep(book, result("ana", (4, 4)))
    mark = book.mark[:16]
    keep(book, result("bo", (4, 4)))
    assert book.verify(mark) == []
    book.close()
    book.path.unlink()
    with Gradebook(book.path) as other:
        keep(other, result("ana", (0, 4)))
    assert main(["gradebook", str(book.path), "--verify"]) == 0
    assert main(["gradebook", str(book.path), "--verify", mark]) == 1
    assert f"no attempt has the mark {mark}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"x", "no gradebook, no database"),
        (b"SQLite format 3\0" + b"x" * 600, "this gradebook can't be read"),
        ("CREATE TABLE notes (text)", "a database, but no gradebook"),
        (f"PRAGMA application_id = {disk.OURS}; PRAGMA user_version = 2", "a newer attnlearn"),
    ],
)
def test_what_is_no_gradebook_is_left_as_it_is(tmp_path, capsys, data, words):
    path = tmp_path / "gradebook.sqlite"
    if isinstance(data, str):
        with sqlite3.connect(path) as db:
            db.executescript(data)
        db.close()
    else:
        path.write_bytes(data)
    before = path.read_bytes()
    with pytest.raises(GradebookError, match=words):
        Gradebook(path)
    assert main(["gradebook", str(tmp_path)]) == 1
    assert words in capsys.readouterr().err
    assert path.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["gradebook.sqlite"]


def test_a_missing_gradebook_is_not_made_by_looking(tmp_path, capsys):
    assert main(["gradebook", str(tmp_path)]) == 1
    assert "no gradebook; `attnlearn grade` makes one" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def write_many(path, name, start):
    start.wait()
    with Gradebook(path) as book:
        keep(book, *(result(f"{name}{number}", (number, 1)) for number in range(400)))


def test_two_graders_at_once_lose_nothing(tmp_path):
    path, context = tmp_path / "gradebook.sqlite", multiprocessing.get_context("spawn")
    start = context.Barrier(2)
    both = [context.Process(target=write_many, args=(path, name, start)) for name in "ab"]
    for process in both:
        process.start()
    for process in both:
        process.join()
    assert [process.exitcode for process in both] == [0, 0]
    with Gradebook.read(path) as book:
        keys = {attempt["key"] for attempt in book.attempts()}
        assert keys == {f"{name}{number}" for name in "ab" for number in range(400)}
        assert book.verify() == []


def write_and_die(path):
    book = Gradebook(path)
    keep(book, result("ana", (1, 1)), result("bo", (2, 2)), ended=False)
    with book._writing():
        book._insert("ended", {"run": 1, "at": "never"})
        os._exit(9)


def test_a_run_that_is_killed_leaves_what_it_kept(tmp_path):
    path = tmp_path / "gradebook.sqlite"
    process = multiprocessing.get_context("spawn").Process(target=write_and_die, args=(path,))
    process.start()
    process.join()
    assert process.exitcode == 9
    with Gradebook(path) as book:
        assert [attempt["key"] for attempt in book.attempts()] == ["ana", "bo"]
        assert book.runs()[0]["ended"] is None
        assert book.verify() == []
