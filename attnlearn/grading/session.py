"""One pytest session for one submission, from its notebook to its verdicts."""

import tempfile
from pathlib import Path

import pytest

from . import bank, notebook
from .isolation import processes, warm
from .official import OfficialFile

# pytest without the plugins and options that happen to lie around.
ALONE = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": ""}
# pytest's own that a notebook does not need: to start them takes longer than a small kernel.
UNUSED = (
    "cacheprovider",
    "doctest",
    "faulthandler",
    "junitxml",
    "logging",
    "monkeypatch",
    "pastebin",
    "setuponly",
    "setupplan",
    "stepwise",
    "subtests",
    "threadexception",
    "tmpdir",
    "unittest",
    "unraisableexception",
    "warnings",
)


class Job:
    """What one submission needs to run, and what came of it."""

    def __init__(self, transplant, tables, sandbox, seed):
        self.transplant, self.tables = transplant, tables
        self.sandbox, self.seed = sandbox, seed
        self.values = {task: {} for task in tables}
        self.stopped, self.errors, self.findings = {}, {}, []
        self.verdicts, self.server = {}, None


def run(job):
    """Run a job to its verdicts; when this returns, every process of the kernel is dead."""
    processes.adopt_orphans()
    job.server = warm.server(job.sandbox)
    spared = processes.descendants()
    with tempfile.TemporaryDirectory(prefix="grade-") as folder:
        path = Path(folder) / "submission.ipynb"
        notebook.write(path, notebook.dumps(job.transplant.content))
        (Path(folder) / "pytest.ini").touch()
        options = ["-q", "--nbval", "--color=no", f"--rootdir={folder}", f"--confcutdir={folder}"]
        options += ["-c", str(Path(folder) / "pytest.ini"), "-p", "nbval.plugin"]
        options += [word for name in UNUSED for word in ("-p", f"no:{name}")]
        try:
            with bank.environment(**ALONE):
                code = pytest.main([*options, str(path)], plugins=[_Plugin(job)])
        finally:
            processes.end_all(spared)
    if code == pytest.ExitCode.INTERRUPTED:
        raise KeyboardInterrupt
    return job


class _Plugin:
    """Puts our file in the place of nbval's, and keeps pytest quiet."""

    def __init__(self, job):
        self.job = job

    @pytest.hookimpl(trylast=True)
    def pytest_configure(self, config):
        config.pluginmanager.unregister(name="terminalreporter")

    @pytest.hookimpl(wrapper=True)
    def pytest_collect_file(self, file_path, parent):
        yield
        return [OfficialFile.from_parent(parent, path=file_path, job=self.job)]

    def pytest_runtest_logreport(self, report):
        if report.failed:
            self.job.findings.append(f"The grader failed. {report.longreprtext}")
