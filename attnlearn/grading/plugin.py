"""pytest plugin: `pytest --nbval NOTEBOOK` grades an exercise, task by task.

Does nothing without nbval or without its options.
"""

import pytest


def _wanted(config):
    option = config.option
    return getattr(option, "nbval", False) or getattr(option, "nbval_lax", False)


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path, parent):
    """Take over from nbval what is an exercise, and what can't be read at all."""
    collected = yield
    if file_path.suffix != ".ipynb" or not _wanted(parent.config):
        return collected
    from . import items

    return [items.choose(node, parent) for node in collected]


def pytest_terminal_summary(terminalreporter):
    """The points of each task and their sum."""
    reports = [
        report
        for outcome in ("passed", "failed")
        for report in terminalreporter.stats.get(outcome, [])
        if getattr(report, "when", "") == "call"
    ]
    scores = [dict(report.user_properties) for report in reports]
    scores = [score for score in scores if "earned" in score]
    if not scores:
        return
    from .verdict import short

    terminalreporter.section("points (self-check)")
    for notebook in dict.fromkeys(score["notebook"] for score in scores):
        own = [score for score in scores if score["notebook"] == notebook]
        terminalreporter.line(notebook)
        for score in own:
            line = f"  {score['task']:<14}{short(score['earned']):>6} of {score['points']:g}"
            terminalreporter.line(line)
        earned, points = (sum(score[key] for score in own) for key in ("earned", "points"))
        terminalreporter.line(f"  {'together':<14}{short(earned):>6} of {points:g}")
