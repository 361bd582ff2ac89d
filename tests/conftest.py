"""One torch thread in each process: pytest-xdist runs several side by side.

Without a GPU the Triton kernels run in Triton's interpreter. Triton asks for it when it is
imported, so that is settled here, once for the process.
"""

import functools
import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest
import torch

if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Modules that mark themselves with `xdist_group(__name__)` run in one process each.

    `--dist loadgroup` alone forgets that under pytest 9.2 (pytest-xdist issue 1386).
    """
    if config.getvalue("dist") != "loadgroup":
        return None
    from xdist.scheduler import LoadScopeScheduling

    @functools.cache
    def together(path):
        return "xdist_group(__name__)" in (config.rootpath / path).read_text("utf-8")

    class Scheduler(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            path = nodeid.partition("::")[0]
            return path if together(path) else nodeid

    return Scheduler(config, log)
