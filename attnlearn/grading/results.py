"""The result of one submission, as JSON: version 1, described by `results.schema.json`.

A visible case says what was wrong with its value. Of a hidden case only a number, whether it
passed, and the named mistake are told: no input, no source, no value, no name.
"""

import functools
import hashlib
import json
import platform
from datetime import UTC, datetime
from importlib.metadata import distributions

from ..exercise import diagnose
from ..exercise.compare import is_blank
from ..exercise.report import judge

VERSION = 1
LONGEST = 400  # characters of a sentence
MOST = 60  # remarks on one submission: a cell of a table has to hold them


def result(assignment, work, job=None, findings=()):
    """The result of one submission; without a job that of one that could not be read."""
    tasks = [_exercise(job, task, table) for task, table in assignment.tables.items()]
    about = _head(assignment)
    about["hashes"]["submission"] = work.hash
    return {
        **about,
        **_whose(work),
        "status": _overall(work, tasks),
        "trouble": work.trouble[:LONGEST],
        "score": round(sum(task["earned"] for task in tasks), 4),
        "max_score": sum(task["points"] for task in tasks),
        "exercises": tasks,
        "findings": _short(findings),
        "graded": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def of_twin(result, work, twin):
    """The result of one who handed in the same bytes as another."""
    own = _short(work.findings)
    of_file = [text for text in result["findings"] if text not in own]
    return {**result, **_whose(twin), "findings": _short([*twin.findings, *of_file])}


def _whose(work):
    return {
        "student": work.student.name,
        "student_id": work.student.id,
        "key": work.key,
        "file": work.shown,
    }


def _short(findings):
    short = [text[:LONGEST] for text in dict.fromkeys(findings)]
    more = len(short) - MOST
    return [*short[:MOST], f"And {more} remarks more."] if more > 0 else short


def _head(assignment):
    """What all results of a run have in common."""
    return {
        "version": VERSION,
        "assignment": assignment.stem,
        "sandbox": assignment.sandbox.record(),
        "seed_id": assignment.seed_id,
        "hashes": {"pristine": assignment.hash, "environment": environment_hash()},
    }


def place(sandbox):
    """All that a grade depends on of the machine that gives it."""
    return {"sandbox": sandbox.record(), "environment": environment_hash()}


def earlier(folder, assignment, places):
    """{(key, file, hash of the submission): result} of grades that still hold.

    They hold where one of the places that grade now could have given them.
    """
    found, conditions = {}, _conditions(_head(assignment))
    for path in sorted(folder.glob("*.json")):
        try:
            old = json.loads(path.read_text("utf-8"))
            where = {"sandbox": old["sandbox"], "environment": old["hashes"]["environment"]}
            same = where in places and _conditions(old) == conditions
            if same and old["status"] == "graded":
                found[old["key"], old["file"], old["hashes"]["submission"]] = old
        except (ValueError, KeyError, TypeError):
            continue  # no result of ours, or of another version
    return found


def _conditions(result):
    """All that a grade depends on, but for the place and the submission."""
    names = ("version", "assignment", "seed_id")
    return [*(result[name] for name in names), result["hashes"]["pristine"]]


def _overall(work, tasks):
    if work.trouble:
        return "unreadable"
    return "ungraded" if any(task["status"] == "ungraded" for task in tasks) else "graded"


def _exercise(job, task, table):
    """Points, status, cases and notes of one task."""
    verdict = job and job.verdicts.get(task)
    base = {"id": task, "points": table["points"], "earned": 0.0, "mistakes": [], "notes": []}
    if verdict is None:
        cases = [_case(case, number, None, []) | {"says": ""} for number, case in _numbered(table)]
        return {**base, "status": "ungraded" if job else "unreadable", "cases": cases}
    report = verdict.report()
    found = diagnose.diagnose(verdict.values, table)
    return {
        **base,
        "earned": verdict.earned,
        "status": status(verdict),
        "mistakes": [{"name": m.name, "hint": m.hint, "sure": m.sure} for m in found],
        "notes": _short(report.notes),
        "cases": [
            _case(case, number, verdict.values.get(case["name"]), found)
            for number, case in _numbered(table)
        ],
    }


def status(verdict):
    """One word on a task: solved, partly, wrong, blank, missing, stopped or forbidden."""
    errors = [value for value in verdict.values.values() if value["k"] == "error"]
    only_errors = bool(errors) and len(errors) == len(verdict.values)
    if verdict.solved:
        return "solved"
    if only_errors and all(error["v"] == "Forbidden" for error in errors):
        return "forbidden"
    if not verdict.answered:
        return "missing"
    if verdict.broken or verdict.stopped:
        return "stopped"
    if only_errors and all(map(is_blank, errors)):
        return "blank"
    return "partly" if verdict.earned else "wrong"


def _numbered(table):
    """(number among the hidden or None, case) of each case."""
    number = 0
    for case in table["cases"]:
        number += case["hidden"]
        yield (number if case["hidden"] else None), case


def _case(case, number, value, found):
    line = judge(case, value)
    mistake = next((m for m in found if case["name"] in m.cases), None)
    return {
        "name": case["name"] if number is None else f"hidden case {number}",
        "hidden": number is not None,
        "weight": case["weight"],
        "passed": not line.sentence,
        "says": line.sentence[:LONGEST] if number is None else "",
        "mistake": mistake and mistake.name,
        "hint": mistake and mistake.hint,
    }


@functools.cache
def environment_hash():
    """Python, platform and every installed package with its version."""
    packages = sorted(f"{d['Name']}=={d['Version']}" for d in (d.metadata for d in distributions()))
    about = [platform.python_version(), platform.platform(), *packages]
    return digest("\n".join(about).encode())


def digest(data):
    return hashlib.sha256(data).hexdigest()


def dumps(result):
    return json.dumps(result, indent=1, ensure_ascii=False) + "\n"
