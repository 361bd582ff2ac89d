"""The results in OUT/results, read again: for exports, which must not pass on what was edited."""

import json
from pathlib import Path

from ..results import VERSION


class ExportError(ValueError):
    """What can't be exported; the message names the file and says why."""


def results(out):
    """The results of a run, in the order of their names."""
    folder = Path(out) / "results"
    paths = sorted(folder.glob("*.json"))
    if not paths:
        raise ExportError(f"{folder}: no results; `attnlearn grade --out {out}` makes them")
    found = [_read(path) for path in paths]
    if len(stems := sorted({result["assignment"] for result in found})) > 1:
        raise ExportError(f"{folder}: results of several assignments: {', '.join(stems)}")
    return sorted(found, key=lambda result: (result["student"], result["key"]))


def _read(path):
    try:
        result = json.loads(path.read_text("utf-8"))
        if result["version"] != VERSION:
            raise ExportError(f"{path}: version {result['version']}; this program reads {VERSION}")
        points = sum(task["earned"] for task in result["exercises"])
        whole = all(isinstance(result[name], str) for name in ("student", "key", "status"))
    except ExportError:
        raise
    except (ValueError, KeyError, TypeError) as error:
        raise ExportError(f"{path}: no result of `attnlearn grade` ({error!r})") from None
    if not whole or abs(points - result["score"]) > 0.001:
        raise ExportError(f"{path}: edited: the tasks' points are {points:g}, not the score")
    return result
