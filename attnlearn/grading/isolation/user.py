"""Another user for a process that begins as root, and no privilege for any.

Imports nothing of the package, for `launch.py` runs alone.
"""

import ctypes
import os
import struct

from linux import LIBC, NO_NEW_PRIVILEGES, call, prctl

DEATH_SIGNAL, ASK_DEATH_SIGNAL = 1, 2  # of prctl
CAPABILITIES_3 = 0x20080522  # how `capset` is asked
FIRST = 0x70000000  # from here on systemd gives none away: one for each number of a process
FEW, COUNT = 65000, 500  # reserved by Debian's policy, for where there are only 65536 users


def stranger():
    """A user who owns nothing, another one for each process that asks: two who are the same
    could signal each other, and share a limit on threads."""
    user = FIRST + os.getpid()
    return user if _exists(user) else FEW + os.getpid() % COUNT


def _exists(user):
    """Has this namespace such a user?"""
    with open("/proc/self/uid_map") as lines:
        ranges = [map(int, line.split()) for line in lines]
    return any(first <= user < first + count for first, _, count in ranges)


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
