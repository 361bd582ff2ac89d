"""`attnlearn check NOTEBOOK`: what `pytest --nbval` says, without the rest of pytest."""

import os
from importlib.metadata import entry_points

import pytest

from .verdict import short


def check(notebooks):
    """Print the report of every notebook, in folders too; 0 if all is solved, else 1."""
    notebooks = [path for given in notebooks for path in _expanded(given)]
    missing = [path for path in notebooks if not path.is_file()]
    for path in missing:
        print(f"{path}: {'no notebook in this folder' if path.is_dir() else 'no such file'}")
    found = [str(path) for path in notebooks if path not in missing]
    printer = Printer()
    if found:
        options = ["--nbval", "--color=no", "-p", "no:cacheprovider", *plugin_option()]
        pytest.main([*options, *found], plugins=[printer])
    for path in notebooks:
        if path not in missing and path.resolve() not in printer.judged:
            print(f"{path}: no exercise in it")
            printer.failed = True
    return int(bool(missing) or printer.failed)


def _expanded(path):
    """The notebooks of a folder, or the path itself."""
    found = sorted(path.glob("*.ipynb")) if path.is_dir() else []
    return found or [path]


def plugin_option():
    """Name the plugin where the package was not installed, so that pytest can't know it."""
    installed = entry_points(group="pytest11", name="attnlearn")
    return [] if installed else ["-p", "attnlearn.grading.plugin"]


class Printer:
    """A pytest plugin that prints verdicts instead of pytest's own report."""

    def __init__(self):
        self.judged, self.failed, self.items = set(), False, {}
        self.points = {}

    @pytest.hookimpl(trylast=True)
    def pytest_configure(self, config):
        config.pluginmanager.unregister(name="terminalreporter")

    def pytest_collection_modifyitems(self, items):
        from .items import DamagedItem, TaskItem

        items[:] = [item for item in items if isinstance(item, (TaskItem, DamagedItem))]
        self.items = {item.nodeid: item for item in items}

    def pytest_runtest_logreport(self, report):
        item = self.items[report.nodeid]
        if report.when == "setup" and item.path not in self.judged:
            self._finish()
            self.judged.add(item.path)
            print(f"{os.path.relpath(item.path)}\n")
        if report.failed:
            self.failed = True
            print(f"{report.longreprtext}\n")
        elif report.when == "call":
            print(f"{item.verdict.text()}\n")
        if report.when == "call" and getattr(item, "verdict", None):
            earned, points = self.points.get("sum", (0, 0))
            self.points["sum"] = (earned + item.verdict.earned, points + item.verdict.points)

    def pytest_sessionfinish(self):
        self._finish()

    def _finish(self):
        if "sum" in self.points:
            earned, points = self.points.pop("sum")
            print(f"Together {short(earned)} of {points:g} points.\n")
