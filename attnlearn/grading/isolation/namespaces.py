"""A room of its own for a process: Linux namespaces, entered without any privilege.

Imports nothing of the package, for `launch.py` runs alone. Inside there is no network, no other
process, no capability and another user; of the disk only what is named, read-only but for the
folders to write in.
"""

import contextlib
import ctypes
import os
import platform
import shutil
import signal
import struct

import user
from linux import LIBC, call, prctl

NEW = {"mount": 0x20000, "uts": 1 << 26, "ipc": 1 << 27, "user": 1 << 28, "pid": 1 << 29}
NEW_NETWORK = 1 << 30
READ_ONLY, NO_SUID, NO_DEVICES, BIND, RECURSIVE, PRIVATE = 1, 2, 4, 1 << 12, 1 << 14, 1 << 18
DETACH, AT_RECURSIVE, MOUNT_SETATTR = 2, 0x8000, 442
PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
DEATH_SIGNAL = 1  # of prctl
NOBODY = 65534
# Without zero: memory that is mapped from it is charged to nobody.
DEVICES = ("null", "full", "random", "urandom")
SHARED_MEMORY = "/dev/shm"


def enter(root, show, hide, meeting, scratch, disk_mb):
    """Returns in a child that sees only this; the parent waits and ends as the child does.

    `root` is an empty folder that becomes the new `/`. What is written to `scratch` is kept in
    memory, up to a bound, and is gone with the namespaces. Who begins as root ends as another user.
    """
    privileged, here = os.getuid() == 0, os.getcwd()
    if privileged:
        user.give(meeting, NOBODY)
    _new_namespaces(privileged)
    _mount(None, "/", None, RECURSIVE | PRIVATE)
    _furnish(root, show, hide)
    _room_to_write(root, scratch, disk_mb)
    for path in meeting:
        _bind(path, root)
    prctl(DEATH_SIGNAL, signal.SIGKILL)  # the one who asked may be killed
    child = os.fork()
    if child:
        _mirror(child)
    prctl(DEATH_SIGNAL, signal.SIGKILL)  # a child does not inherit it
    _mount("proc", f"{root}/proc", "proc", NO_SUID | NO_DEVICES)
    with contextlib.suppress(OSError), open(f"{root}/proc/sys/user/max_user_namespaces", "w") as f:
        f.write("0")  # no namespaces inside: they come with capabilities of their own
    _attributes(f"{root}/proc", READ_ONLY, 0)
    os.chdir(root)
    number = PIVOT_ROOT[platform.machine()]
    call(LIBC.syscall(number, b".", b"."), "pivot_root")
    call(LIBC.umount2(b".", DETACH), "umount")  # the old root lies on top of the new one
    _attributes("/", READ_ONLY, 0)
    os.chdir(here)
    if privileged:
        user.become(NOBODY)
    user.drop_privileges()


def _new_namespaces(privileged):
    """Users: root and nobody stay what they are; anyone else becomes nobody."""
    flags = sum(NEW.values()) | NEW_NETWORK
    if not privileged:
        uid, gid = os.getuid(), os.getgid()
        call(LIBC.unshare(flags), "unshare")
        _write("self", "setgroups", "deny")
        _write("self", "uid_map", f"{NOBODY} {uid} 1")
        _write("self", "gid_map", f"{NOBODY} {gid} 1")
        return
    own, (ready, go) = os.getpid(), os.pipe()
    outside = os.fork()  # only a process outside may map more than one user
    if outside == 0:
        os.close(go)
        os.read(ready, 1)
        for name in ("uid_map", "gid_map"):
            _write(own, name, f"0 0 1\n{NOBODY} {NOBODY} 1\n")
        os._exit(0)
    call(LIBC.unshare(flags), "unshare")
    os.close(go)
    if os.waitpid(outside, 0)[1]:
        raise OSError("uid_map: refused")


def _furnish(root, show, hide):
    _mount("tmpfs", root, "tmpfs", NO_SUID | NO_DEVICES, "size=64m,mode=755")
    for name in ("tmp", "proc", "dev"):
        os.mkdir(f"{root}/{name}")
    for name in DEVICES:
        _bind(f"/dev/{name}", root)
    for path in show:
        if _bind(path, root):
            _attributes(root + path, READ_ONLY | NO_SUID, AT_RECURSIVE)
    for path in hide:
        if os.path.isdir(root + path):
            _mount("tmpfs", root + path, "tmpfs", READ_ONLY, "size=4k")


def _room_to_write(root, scratch, disk_mb):
    """One bounded room for shared memory and the scratch folder, with what is in it already."""
    memory, own = root + SHARED_MEMORY, root + SHARED_MEMORY + "/scratch"
    os.mkdir(memory)
    _mount("tmpfs", memory, "tmpfs", NO_SUID | NO_DEVICES, f"size={int(disk_mb * 2**20)}")
    shutil.copytree(scratch, own, symlinks=True)
    user.give([own], NOBODY)
    os.makedirs(root + scratch)
    _mount(own, root + scratch, None, BIND)


def _bind(path, root):
    """Show a path at its own place below `root`; False for links and what does not exist."""
    target = root + path
    if os.path.lexists(target) and not os.path.isdir(target):
        return False
    os.makedirs(os.path.dirname(target), exist_ok=True)
    if os.path.islink(path):
        os.symlink(os.readlink(path), target)
        return False
    if not os.path.exists(path):
        return False
    if os.path.isdir(path):
        os.makedirs(target, exist_ok=True)
    else:
        open(target, "w").close()
    _mount(path, target, None, BIND | RECURSIVE)
    return True


def _mirror(child):
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    os._exit(status if status >= 0 else 128 - status)


def _mount(source, target, kind, flags, options=None):
    texts = [text and os.fsencode(text) for text in (source, target, kind, options)]
    flags = ctypes.c_ulong(flags)
    call(LIBC.mount(*texts[:3], flags, texts[3]), f"mount {target}")


def _attributes(path, flags, how):
    wanted = struct.pack("QQQQ", flags, 0, 0, 0)
    done = LIBC.syscall(MOUNT_SETATTR, -100, os.fsencode(path), how, wanted, len(wanted))
    call(done, f"mount_setattr {path}")


def _write(process, name, text):
    with open(f"/proc/{process}/{name}", "w") as file:
        file.write(text)
