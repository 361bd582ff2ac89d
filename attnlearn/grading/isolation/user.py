"""Another user for a process that begins as root, and no privilege for any.

Imports nothing of the package, for `launch.py` runs alone.
"""

import ctypes
import os
import struct

from linux import LIBC, NO_NEW_PRIVILEGES, call, prctl

DEATH_SIGNAL, ASK_DEATH_SIGNAL = 1, 2  # of prctl
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
    call(LIBC.prctl(ASK_DEATH_SIGNAL, ctypes.byref(asked), 0, 0, 0), "prctl")
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)
    prctl(DEATH_SIGNAL, asked.value)


def drop_privileges():
    """No capability, and none by a program that is started."""
    head = struct.pack("Ii", CAPABILITIES_3, 0)
    call(LIBC.capset(head, bytes(24)), "capset")
    prctl(NO_NEW_PRIVILEGES, 1)
