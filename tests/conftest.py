"""One torch thread in each process: pytest-xdist runs several side by side."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
