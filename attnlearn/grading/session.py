"""One pytest session for one submission, from its notebook to its verdicts."""

from pathlib import Path

import pytest

from . import ahead, bank, notebook
from .handed_in.transplant import transplant
from .isolation import folders, processes, warm
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

    def __init__(self, content, assignment):
        self.content, self.transplant = content, None
        self.pristine, self.tables = assignment.pristine, assignment.tables
        self.sandbox, self.seed = assignment.sandbox, assignment.seed
        self.packages = assignment.packages
        self.values = {task: {} for task in self.tables}
        self.stopped, self.errors, self.findings = {}, {}, []
        self.verdicts = {}
        self.server, self.first = None, None  # of warm kernels, and the first of them
        self.spared, self.homes = {}, []  # processes that are not ours, and folders of our kernels

    def keep(self, kernel):
        """The kernel; its folder is removed with the job."""
        self.homes.append(kernel.home)
        return kernel

    def end_all(self):
        """Kill what our kernels have started, but not the one that waits for the next job."""
        processes.end_all(self.spared, ahead.process())


def run(job):
    """Run a job to its verdicts; when this returns, every process of the kernel is dead."""
    processes.adopt_orphans()
    job.server = warm.server(job.sandbox, job.packages)
    job.spared = processes.below({}, ahead.process())
    with folders.temporary("grade-") as folder:
        try:
            job.first = job.keep(ahead.take(job))
            job.transplant = transplant(job.pristine, job.content, job.tables)
            _pytest(job, Path(folder))
        finally:
            if job.first:
                job.first.stop()
            job.end_all()
            for home in job.homes:
                folders.remove(home)
    return job


def _pytest(job, folder):
    notebook.write(folder / "submission.ipynb", notebook.dumps(job.transplant.content))
    (folder / "pytest.ini").touch()
    options = ["-q", "--nbval", "--color=no", f"--rootdir={folder}", f"--confcutdir={folder}"]
    options += ["-c", str(folder / "pytest.ini"), "-p", "nbval.plugin"]
    options += [word for name in UNUSED for word in ("-p", f"no:{name}")]
    plugin = _Plugin(job)
    with bank.environment(**ALONE):
        pytest.main([*options, str(folder / "submission.ipynb")], plugins=[plugin])
    if plugin.interrupted:
        raise KeyboardInterrupt


class _Plugin:
    """Puts our file in the place of nbval's, and keeps pytest quiet."""

    def __init__(self, job):
        self.job, self.interrupted = job, False

    def pytest_keyboard_interrupt(self, excinfo):
        self.interrupted = excinfo.type is KeyboardInterrupt  # others are pytest's own

    @pytest.hookimpl(trylast=True)
    def pytest_configure(self, config):
        config.pluginmanager.unregister(name="terminalreporter")

    @pytest.hookimpl(wrapper=True)
    def pytest_collect_file(self, file_path, parent):
        yield
        return [OfficialFile.from_parent(parent, path=file_path, job=self.job)]

    def pytest_runtest_logreport(self, report):
        if report.failed:
            crash = getattr(report.longrepr, "reprcrash", None)
            why = crash.message if crash else report.longreprtext
            self.job.findings.append(f"The grader failed. {why}")

    pytest_collectreport = pytest_runtest_logreport
