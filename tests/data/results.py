"""Results and runs of a made-up assignment, for the gradebook."""

from types import SimpleNamespace


def assignment(exercise="e1", seed="s1"):
    sandbox = SimpleNamespace(record=lambda: {"level": "L3"})
    return SimpleNamespace(stem="90_demo", hash=exercise, seed_id=seed, sandbox=sandbox)


def result(key, points, *, file="f1", exercise="e1", seed="s1", level="L3", status="graded"):
    """A result as the grader makes them; `points` of both tasks."""
    tasks = [
        {
            "id": f"demo-{number}",
            "points": 4,
            "earned": earned,
            "status": "partly",
            "cases": [{"name": "square", "passed": earned == 4, "mistake": "strict"}],
        }
        for number, earned in enumerate(points, 1)
    ]
    return {
        "assignment": "90_demo",
        "student": key,
        "student_id": "",
        "key": key,
        "file": f"{key}.ipynb",
        "status": status,
        "score": sum(points),
        "max_score": 8,
        "exercises": tasks,
        "sandbox": {"level": level},
        "seed_id": seed,
        "hashes": {"submission": f"{key} {file}", "pristine": exercise, "environment": "x"},
        "graded": "2026-01-01T00:00:00+00:00",
    }


def keep(book, *found, ended=True, **conditions):
    """One run; returns its number."""
    run = book.begin(assignment(**conditions), len(found))
    for one in found:
        book.add(run, one)
    if ended:
        book.finish(run)
    return run
