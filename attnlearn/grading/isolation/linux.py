"""The C library of Linux, and its errors as Python's.

Imports nothing of the package, for `launch.py` runs alone.
"""

import ctypes
import os
import sys

LIBC = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None
NO_NEW_PRIVILEGES = 38


def call(result, what):
    """What a function of the C library returned, or the OSError that it means."""
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def prctl(what, value):
    """Set a property of this process."""
    call(LIBC.prctl(what, value, 0, 0, 0), "prctl")
