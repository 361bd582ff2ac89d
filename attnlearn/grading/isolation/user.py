"""Another user for a process that begins as root, and no privilege for any.

Imports nothing of the package, for `launch.py` runs alone.
"""

import ctypes
import os
import struct
import sys

LIBC = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None
DEATH_SIGNAL, ASK_DEATH_SIGNAL, NO_NEW_PRIVILEGES = 1, 2, 38  # of prctl
CAPABILITIES_3 = 0x20080522  # how `capset` is asked
FIRST, COUNT = 65000, 500  # reserved by Debian's policy: nothing is theirs


def stranger():
    """A user who owns nothing, another one for each process that asks."""
    return FIRST + os.getpid() % COUNT


def give(folders, user):
    for folder in folders:
        for at, _, files in os.walk(folder):
            for path in (at, *(os.path.join(at, name) for name in files)):
                os.chown(path, user, user, follow_symlinks=False)


def become(user):
    """For ever; the signal at the parent's death, which a new user forgets, is kept."""
    asked = ctypes.c_int()
    _call(LIBC.prctl(ASK_DEATH_SIGNAL, ctypes.byref(asked), 0, 0, 0), "prctl")
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)
    _call(LIBC.prctl(DEATH_SIGNAL, asked.value, 0, 0, 0), "prctl")


def drop_privileges():
    """No capability, and none by a program that is started."""
    head = struct.pack("Ii", CAPABILITIES_3, 0)
    _call(LIBC.capset(head, bytes(24)), "capset")
    _call(LIBC.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0), "prctl")


def _call(result, what):
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
