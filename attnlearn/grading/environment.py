"""The environment of a process that imports this very package."""

import os

from .isolation import view

PACKAGE_PARENT = view.OURS.parent


def environment(**variables):
    """That of this process, with this package found first and one thread for each kernel."""
    path = os.pathsep.join(filter(None, [str(PACKAGE_PARENT), os.environ.get("PYTHONPATH")]))
    return {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", **variables}
