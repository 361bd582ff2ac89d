"""Copies of the evidence inside the package: a notebook on Colab sees no other file."""

from pathlib import Path


def copies(root: Path):
    """(path, text) of each copy in the package; a teacher's folder has none."""
    package = root / "attnlearn"
    if package.is_dir():
        for path in sorted((root / "book" / "evidence").glob("*.json")):
            yield package / "stored" / path.name, path.read_text("utf-8")


def check(root: Path) -> list[str]:
    """What is stale, missing or left over, as sentences."""
    wanted = dict(copies(root))
    there = set((root / "attnlearn" / "stored").glob("*.json"))
    stale = [f"{path}: no such file in book/evidence" for path in sorted(there - set(wanted))]
    for path, text in wanted.items():
        if not path.exists():
            stale.append(f"{path}: missing")
        elif path.read_text("utf-8") != text:
            stale.append(f"{path}: stale, it is not the file in book/evidence")
    return stale
