"""`attnlearn gradebook`: every attempt so far, and what grading again changed."""

import sys
from pathlib import Path

from .table import clean, show

LAST = "the last"
HEAD_OF_MARK = 16


def add(commands):
    parser = commands.add_parser("gradebook", help="every attempt, and what a new run changed")
    parser.add_argument("out", type=Path, metavar="OUT", help="the folder of `grade --out`")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--student", metavar="NAME", help="the attempts of one student")
    what.add_argument(
        "--changes",
        nargs="?",
        const=LAST,
        metavar="RUN",
        help="what a run changed against the attempts before (the last run)",
    )
    what.add_argument(
        "--verify",
        nargs="?",
        const="",
        metavar="MARK",
        help="was it edited or damaged? and does it hold all up to a mark noted before?",
    )
    what.add_argument("--csv", type=Path, metavar="FILE", help="one attempt for each student")
    parser.add_argument(
        "--policy",
        choices=["latest", "best"],
        help="which attempt counts in --csv (latest)",
    )
    return parser


def run(options):
    import sqlite3

    from ..grading import notebook
    from ..grading.gradebook import Gradebook, counting

    if options.policy and not options.csv:
        raise ValueError("--policy says which attempt counts in a table: give --csv FILE, too")
    policy = options.policy or "latest"
    path = options.out / "gradebook.sqlite" if options.out.is_dir() else options.out
    try:
        with Gradebook.read(path) as book:
            if options.verify is not None:
                return _verify(book, options.verify)
            if options.csv:
                notebook.write(options.csv, counting.table(book, policy))
                print(f"the {policy} attempt of each student: {options.csv}")
            elif options.student:
                return _student(book, options.student)
            elif options.changes:
                return _changes(book, options.changes)
            else:
                _runs(book)
    except sqlite3.Error as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def _runs(book):
    rows = [
        [
            *(run["id"], _when(run["began"]), run["assignment"], run["exercise"][:8]),
            *(run["seed_id"][:8], run["sandbox"], run["total"], run["graded"], run["kept"]),
            "" if run["ended"] else "did not end",
        ]
        for run in book.runs()
    ]
    head = ["run", "began (UTC)", "assignment", "exercise", "seed", "sandbox"]
    show([*head, "files", "graded", "kept", ""], rows)


def _student(book, name):
    attempts = book.attempts()
    wanted = name.casefold()
    found = [
        attempt
        for attempt in attempts
        if wanted in {attempt[part].casefold() for part in ("student", "student_id", "key")}
    ]
    if not found:
        alike = sorted({a["student"] for a in attempts if wanted in a["student"].casefold()})
        hint = f"; there are {', '.join(map(clean, alike))}" if alike else ""
        print(f"error: no attempt of {name!r}{hint}", file=sys.stderr)
        return 1
    rows = [
        [
            *(attempt["run"], _when(attempt["graded"]), attempt["student"], attempt["assignment"]),
            *(attempt["exercise"][:8], attempt["seed_id"][:8], attempt["status"]),
            *(f"{attempt['score']:g} of {attempt['max_score']:g}", attempt["file"]),
        ]
        for attempt in found
    ]
    head = ["run", "graded (UTC)", "student", "assignment", "exercise", "seed", "status"]
    show([*head, "score", "file"], rows)
    return 0


def _changes(book, run):
    numbers = [str(run["id"]) for run in book.runs()]
    number = numbers[-1] if run == LAST and numbers else run
    if number not in numbers:
        there = f"there are {numbers[0]} to {numbers[-1]}" if numbers else "there is none yet"
        raise ValueError(f"no run {run!r}: {there}")
    changes = book.changes(int(number))
    fell = sum(change.gain < 0 for change in changes)
    print(f"run {number}: grades that changed: {len(changes)}, of them fell: {fell}")
    rows = [
        [
            *(change.after["student"], _points(change.before), _points(change.after)),
            *(f"{change.gain:+g}", _tasks(change), ", ".join(change.why)),
        ]
        for change in changes
    ]
    if rows:
        show(["student", "before", "after", "", "tasks", "why it was graded again"], rows)
    return 0


def _verify(book, mark):
    troubles = book.verify(mark)
    for trouble in troubles:
        print(clean(trouble), file=sys.stderr)
    if troubles:
        return 1
    print(f"{len(book.attempts())} attempts in {len(book.runs())} runs, all as they were written")
    if book.mark:
        print(
            f"mark: {book.mark[:HEAD_OF_MARK]}\nWhoever may write this file could write all of it "
            "anew. Note the mark elsewhere;\n`--verify MARK` tells later whether it still holds "
            "all that it held."
        )
    return 0


def _points(result):
    points = f"{result['score']:g} of {result['max_score']:g}"
    return points if result["status"] == "graded" else f"{points}, {result['status']}"


def _tasks(change):
    said = {
        task: ["-" if points is None else f"{points:g}" for points in pair]
        for task, pair in change.tasks.items()
    }
    return "; ".join(f"{task} {before} -> {after}" for task, (before, after) in said.items())


def _when(time):
    return time[:16].replace("T", " ")
