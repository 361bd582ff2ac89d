"""Landlock: from here on a process and its children open only the files that they are allowed to.

Imports nothing of the package and no neighbour, for `launch.py` runs alone, and the package asks
for its version, too. It needs no privilege. What is handled
grows with the kernel's version of Landlock; all that is handled is forbidden unless allowed here.
"""

import ctypes
import os
import struct
import sys

LIBC = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None
CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446  # the same on every architecture
ASK_VERSION, PATH_BENEATH, NO_NEW_PRIVILEGES = 1, 1, 38

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR, REMOVE_DIR, REMOVE_FILE = (1 << n for n in range(6))
MAKE_CHAR, MAKE_DIR, MAKE_REG, MAKE_SOCK, MAKE_FIFO, MAKE_BLOCK = (1 << n for n in range(6, 12))
MAKE_SYM, REFER, TRUNCATE, IOCTL_DEV = (1 << n for n in range(12, 16))
OF_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV  # others are of folders only
KNOWN = {1: 13, 2: 14, 3: 15, 4: 15}  # version: how many of these rights it knows; later ones: 16
ALL_TCP = 3  # bind and connect, from version 4
ALL_SCOPES = 3  # abstract sockets and signals, from version 6

LIST = READ_DIR
READ = EXECUTE | READ_FILE | READ_DIR
WRITE = (1 << 16) - 1 & ~(MAKE_CHAR | MAKE_BLOCK | IOCTL_DEV)
USE = READ_FILE | WRITE_FILE  # /dev/null
MEET = READ_FILE | READ_DIR | REMOVE_FILE | MAKE_SOCK  # sockets, but no bytes on the disk


def version():
    """The kernel's version of Landlock, 0 without it."""
    if LIBC is None:
        return 0
    return max(0, LIBC.syscall(CREATE_RULESET, None, ctypes.c_size_t(0), ASK_VERSION))


def keeps_signals():
    """Can processes outside be saved from signals? Some kernels of version 6 can't, too."""
    if version() < 6:
        return False
    rules = _ruleset(READ_FILE, 0, ALL_SCOPES)
    if rules >= 0:
        os.close(rules)
    return rules >= 0


def restrict(allowed):
    """For ever: only what [(rights, path)] allows, each for all that lies below the path."""
    here = version()
    handled = (1 << KNOWN.get(here, 16)) - 1
    tcp, scopes = ALL_TCP if here >= 4 else 0, ALL_SCOPES if keeps_signals() else 0
    rules = _call(_ruleset(handled, tcp, scopes), "landlock_create_ruleset")
    for rights, path in allowed:
        _allow(rules, rights & handled, path)
    _call(LIBC.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0), "prctl")
    _call(LIBC.syscall(RESTRICT_SELF, rules, 0), "landlock_restrict_self")
    os.close(rules)


def _ruleset(files, tcp, scopes):
    wanted = [files, *([tcp] if tcp or scopes else []), *([scopes] if scopes else [])]
    packed = struct.pack(f"{len(wanted)}Q", *wanted)
    return LIBC.syscall(CREATE_RULESET, packed, ctypes.c_size_t(len(packed)), 0)


def _allow(rules, rights, path):
    try:
        place = os.open(path, os.O_PATH)
    except FileNotFoundError:
        return
    rights &= -1 if os.path.isdir(path) else OF_FILES
    rule = struct.pack("=Qi", rights, place)
    _call(LIBC.syscall(ADD_RULE, rules, PATH_BENEATH, rule, 0), f"landlock_add_rule {path}")
    os.close(place)


def _call(result, what):
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result
