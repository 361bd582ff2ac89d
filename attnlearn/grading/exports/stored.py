"""The results in OUT/results, read again: for exports, which must not pass on what was edited."""

import json
from pathlib import Path

from jsonschema import Draft202012Validator, exceptions

from .. import results as written

SCHEMA = json.loads(Path(written.__file__).with_name("results.schema.json").read_text("utf-8"))


class ExportError(ValueError):
    """What can't be exported; the message names the file and says why."""


def results(out):
    """The results of a run, in the order of their names."""
    folder = Path(out) / "results"
    found = {path: _read(path) for path in sorted(folder.glob("*.json"))}
    if not found:
        raise ExportError(f"{folder}: no results; `attnlearn grade --out {out}` makes them")
    first, *others = found
    for path in others:
        if _exercise(found[path]) != _exercise(found[first]):
            raise ExportError(
                f"{path}: of another exercise than {first.name}, or of another version of it; "
                "grade all again, or take away what no longer counts"
            )
    return sorted(found.values(), key=lambda result: (result["student"], result["key"]))


def _exercise(result):
    return result["assignment"], result["hashes"]["pristine"]


def _read(path):
    try:
        result = json.loads(path.read_text("utf-8"), parse_constant=_refuse)
    except ValueError as error:
        raise ExportError(f"{path}: no result of `attnlearn grade`: {error}") from None
    version = result.get("version") if isinstance(result, dict) else None
    if isinstance(version, int) and version != written.VERSION:
        raise ExportError(f"{path}: version {version}; this program reads {written.VERSION}")
    if fault := exceptions.best_match(Draft202012Validator(SCHEMA).iter_errors(result)):
        where = f"{fault.json_path}: {fault.message[:200]}"
        raise ExportError(f"{path}: no result of `attnlearn grade`: {where}")
    if why := _edited(result, path.stem):
        raise ExportError(f"{path}: edited: {why}")
    return result


def _refuse(name):
    raise ValueError(f"{name} is no number of points")


def _edited(result, name):
    """What does not add up, or nothing."""
    tasks = result["exercises"]
    earned, points = (sum(task[of] for task in tasks) for of in ("earned", "points"))
    if abs(earned - result["score"]) > 0.001:
        return f"the tasks' points are {earned:g}, not {result['score']:g}"
    if abs(points - result["max_score"]) > 0.001:
        return f"the tasks offer {points:g} points, not {result['max_score']:g}"
    if over := [task["id"] for task in tasks if task["earned"] > task["points"]]:
        return f"{over[0]} has more points than it offers"
    return "" if name == result["key"] else f"it is the result of {result['key']!r}"
