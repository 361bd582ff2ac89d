"""Figures of long experiments, stored with how they were made."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

HERE = Path(__file__).parent
FOLDERS = HERE.parent / "book" / "evidence", HERE / "stored"  # in the repository; in a wheel


def evidence(name: str) -> dict:
    """The stored results of an experiment: its command, commit, date, host, seeds and figures.

    Raises FileNotFoundError, with the names that there are.
    """
    for folder in FOLDERS:
        path = folder / f"{name}.json"
        if path.exists():
            return json.loads(path.read_text())
    names = sorted({path.stem for folder in FOLDERS for path in folder.glob("*.json")})
    raise FileNotFoundError(f"no evidence {name!r}; there is {', '.join(names) or 'none yet'}")


def commit(*paths: str) -> dict:
    """The commit of the code, and whether anything under ``paths`` differs from it."""
    head, changed = git("rev-parse", "HEAD"), git("status", "--porcelain", "--", *paths)
    return {"commit": head or None, "changed": bool(changed or not head)}


def git(*arguments: str) -> str:
    """What git says of the repository, or nothing: outside of one, or where there is no git."""
    call = ["git", "-C", HERE.parent, *arguments]
    try:
        return subprocess.run(call, capture_output=True, text=True).stdout.strip()
    except FileNotFoundError:
        return ""
