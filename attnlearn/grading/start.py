"""Start the sandboxed kernel of a submission."""

import tempfile
from pathlib import Path

from nbval.kernel import CURRENT_ENV_KERNEL_NAME

from . import notebook
from .kernel import GradingKernel

TABLES = "tables"  # the folder in the scratch folder


def kernel(job):
    """A kernel in a new folder, its `home`; it has yet to be waited for."""
    sandbox, limits = job.sandbox, job.sandbox.limits
    folder = Path(tempfile.mkdtemp(prefix="scratch-"))
    sandbox.make_folders(folder)
    scratch = folder / "scratch"
    notebook.write(scratch / TABLES / "tables.json", notebook.dumps(_lean(job.tables, limits)))
    started = GradingKernel(
        CURRENT_ENV_KERNEL_NAME,
        cwd=str(scratch),
        seconds=limits.cell_seconds,
        argv=sandbox.command(folder),
        env=sandbox.environment(scratch),
        output_mb=limits.output_mb,
        server=job.server,
    )
    started.home, started.tables = folder, job.tables
    return started


def _lean(tables, limits):
    """What a check must know in the kernel; no expected value, no hint."""
    tasks = {
        task: {
            "forbid": table["forbid"],
            "defines": table["defines"],
            "seconds": limits.case_seconds,
        }
        for task, table in tables.items()
    }
    return {"stem": "", "tasks": tasks}
