"""What grading again has changed: for each student before and after, and why."""

from dataclasses import dataclass

from ..exports.grades import spreadsheet


@dataclass(frozen=True)
class Change:
    """Two attempts of one student that got different grades."""

    before: dict  # results
    after: dict
    why: tuple

    @property
    def tasks(self):
        """{task: (points before, points after)} where they differ; None: no such task."""
        old, new = (
            {task["id"]: task["earned"] for task in result["exercises"]}
            for result in (self.before, self.after)
        )
        pairs = {task: (old.get(task), new.get(task)) for task in {**new, **old}}
        return {task: pair for task, pair in pairs.items() if pair[0] != pair[1]}

    @property
    def gain(self):
        return round(self.after["score"] - self.before["score"], 4)

    @property
    def differs(self):
        parts = ("score", "max_score", "status")
        return bool(self.tasks) or any(self.before[part] != self.after[part] for part in parts)


def between(pairs):
    """The changes in (attempt before, attempt after); the grades that fell most come first."""
    found = (Change(old["result"], new["result"], _why(old, new)) for old, new in pairs)
    changed = [change for change in found if change.differs]
    return sorted(changed, key=lambda change: (change.gain, change.after["key"]))


def _why(before, after):
    """What was not the same when it was graded again."""
    old, new = before["result"], after["result"]
    reasons = {
        "new file": old["hashes"]["submission"] != new["hashes"]["submission"],
        "exercise changed": old["hashes"]["pristine"] != new["hashes"]["pristine"],
        "new seed": old["seed_id"] != new["seed_id"],
        "other environment": old["hashes"]["environment"] != new["hashes"]["environment"],
        "other sandbox or limits": old["sandbox"] != new["sandbox"],
        "other version of attnlearn": before["program"] != after["program"],
        "not graded before": old["status"] == "ungraded",
    }
    return tuple(reason for reason, holds in reasons.items() if holds) or ("graded again",)


def table(changes):
    """changes.csv: one line for each student, all that fell first."""
    tasks = list(dict.fromkeys(task for change in changes for task in change.tasks))
    scores = ["before", "after", "change", "max before", "max after", "status before", "status"]
    each = [f"{task} {when}" for task in tasks for when in ("before", "after")]
    rows = []
    for change in changes:
        old, new = change.before, change.after
        row = [new["student"], new["student_id"], ", ".join(change.why)]
        row += [old["score"], new["score"], change.gain, old["max_score"], new["max_score"]]
        row += [old["status"], new["status"]]
        row += [points for task in tasks for points in change.tasks.get(task, ("", ""))]
        rows.append(row)
    return spreadsheet(["student", "id", "why", *scores, *each], rows)
