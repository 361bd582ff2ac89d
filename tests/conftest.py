"""One torch thread in each process: pytest-xdist runs several side by side.

Without a GPU the Triton kernels run in Triton's interpreter. Triton asks for it when it is
imported, so that is settled here, once for the process.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch

if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")
