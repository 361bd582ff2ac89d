"""What students' code may read: Python, its packages, and this package without its grading part."""

import functools
import os
import sys
from pathlib import Path

OURS = Path(__file__).resolve().parents[2]
SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt/intel")
ETC = ("ld.so.cache", "localtime", "fonts", "passwd", "nsswitch.conf", "alternatives")
HARDWARE = ("/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/sys/devices/system/cpu")


def shown():
    pythons = {sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix}
    outside = [path for path in sorted(pythons) if not path.startswith("/usr")]
    etc = [f"/etc/{name}" for name in ETC]
    return [*SYSTEM, *etc, *outside, *_packages(), str(OURS)]


def hidden():
    return [f"{path}/grading" for path in (OURS, *(f"{p}/attnlearn" for p in _packages()))]


@functools.cache
def allowed():
    """The same for rules that only allow: (paths to read, folders of which names are listed)."""
    read, listed = [*HARDWARE], []
    secret = {os.path.realpath(path) for path in hidden()}
    for path in shown():
        _around(os.path.realpath(path), secret, read, listed)
    return list(dict.fromkeys(read)), list(dict.fromkeys(listed))


def _around(path, secret, read, listed):
    """All below a path but what is secret: where something is, its neighbours one by one."""
    if path in secret:
        return
    if not any(other.startswith(path + os.sep) for other in secret if os.path.exists(other)):
        read.append(path)
        return
    listed.append(path)
    for entry in os.scandir(path):
        _around(os.path.realpath(entry.path), secret, read, listed)


def _packages():
    return [str(Path(path).resolve()) for path in sys.path if path.endswith("-packages")]
