"""System calls that a submission's process may not make, refused by the kernel (seccomp).

Imports nothing of the package, for `launch.py` runs alone. A list of what is refused, not of what
is allowed: libraries differ too much. It is short, and holds what other means leave open.
"""

import ctypes
import errno
import platform
import struct

from linux import LIBC, NO_NEW_PRIVILEGES, call, prctl

SET_SECCOMP, FILTER = 22, 2  # of prctl
LOAD, EQUAL, AT_LEAST, ANY_OF, AND, RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
ALLOW, KILL, FAIL = 0x7FFF0000, 0x80000000, 0x00050000
NUMBER, ARCHITECTURE, ARGUMENTS = 0, 4, 16  # where they lie in `struct seccomp_data`
MACHINES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}  # code, column in the lists
X32 = 0x40000000  # numbers from here on are another set of calls on x86_64
NAMESPACES = 0x7E020000  # cgroup, uts, ipc, user, pid, network; mount
NO_SUCH = errno.EOPNOTSUPP  # of a socket; ZeroMQ ends the process on any other refusal
LOCAL, STREAM, DATAGRAM, KIND = 1, 1, 2, 0xF  # of a socket; the mask leaves out its options

# name: (number on x86_64, on aarch64). Refused wherever students' code is confined.
ALWAYS = {
    # what lets one process reach into another
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "pidfd_getfd": (438, 438),
    # rooms of its own would come with capabilities; without them these fail anyway
    "unshare": (272, 97),
    "setns": (308, 268),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "mount_setattr": (442, 442),
    "open_by_handle_at": (304, 265),
    # large parts of the kernel that no exercise needs, and where faults were found
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    # it makes calls that no filter sees
    "io_uring_setup": (425, 425),
    # keys of the user who grades
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    # memory that no process is charged with
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    # nor with this; where there are no namespaces, the next submission would find it, too
    "shmget": (29, 194),
    "semget": (64, 190),
    "msgget": (68, 186),
    "mq_open": (240, 180),
    # few for each user of the machine, namespaces or not
    "inotify_init": (253, None),
    "inotify_init1": (294, 26),
}
# Refused, too, where the machine's files, users and sockets are in sight.
IN_SIGHT = {
    "connect": (42, 203),  # to a socket of the machine, or of another kernel
    "truncate": (76, 45),  # an old Landlock does not handle it
    # whose they are is asked of the user alone, and their numbers can be guessed
    "shmat": (30, 196),
    "shmctl": (31, 195),
    "semop": (65, 193),
    "semtimedop": (220, 192),
    "semctl": (66, 191),
    "msgsnd": (69, 189),
    "msgrcv": (70, 188),
    "msgctl": (71, 187),
    # they tell the names of what others make in a folder that can't be listed
    "inotify_add_watch": (254, 27),
    "fanotify_init": (300, 262),
}
# Linux shares a machine between sessions: in many, an answer would slow those of others.
SESSION = {"setsid": (112, 157)}
# These do nothing and say that all is well, for libraries insist: a copy of a file ends with the
# first of them, a thread of ZeroMQ begins with the last.
QUIET = {
    # Landlock does not handle them, and other files of the same user are in reach
    "chmod": (90, None),
    "fchmod": (91, 52),
    "fchmodat": (268, 53),
    "fchmodat2": (452, 452),
    "chown": (92, None),
    "lchown": (94, None),
    "fchown": (93, 55),
    "fchownat": (260, 54),
    "setxattr": (188, 5),
    "lsetxattr": (189, 6),
    "fsetxattr": (190, 7),
    "removexattr": (197, 14),
    "lremovexattr": (198, 15),
    "fremovexattr": (199, 16),
    "setxattrat": (463, 463),
    "removexattrat": (466, 466),
    "utime": (132, None),
    "utimes": (235, None),
    "futimesat": (261, None),
    "utimensat": (280, 88),
    # who leaves the group of its kernel can hand over to a child faster than anybody can kill
    **SESSION,
    "setpgid": (109, 154),
    # other processes of the same user would run slower
    "setpriority": (141, 140),
    "sched_setaffinity": (203, 122),
    "sched_setscheduler": (144, 119),
    "sched_setparam": (142, 118),
    "sched_setattr": (314, 274),
    "ioprio_set": (251, 30),
}
SOCKET, SOCKETPAIR = (41, 198), (53, 199)
CLONE, CLONE3, PRLIMIT = (56, 220), (435, 435), (302, 261)
MMAP, SHARED_ANONYMOUS = (9, 222), 0x21
SETSOCKOPT, SEND_BUFFER = (54, 208), 7


def refuse(calls, quiet):
    """For ever: these calls fail, and those whose arguments ask for too much; some do nothing."""
    code, column = MACHINES[platform.machine()]
    program = _program(code, column, calls, quiet)
    array = ctypes.create_string_buffer(b"".join(program))
    head = struct.pack("HxxxxxxP", len(program), ctypes.addressof(array))
    prctl(NO_NEW_PRIVILEGES, 1)
    call(LIBC.prctl(SET_SECCOMP, FILTER, head, 0, 0), "seccomp")


def _program(code, column, calls, quiet):
    lines = [_step(LOAD, ARCHITECTURE), _step(EQUAL, code, 1, 0), _step(RETURN, KILL)]
    lines += [_step(LOAD, NUMBER), _step(AT_LEAST, X32, 0, 1), _step(RETURN, KILL)]
    for names, error in ((calls, errno.EPERM), (quiet, 0)):
        for number in {names[name][column] for name in names} - {None}:
            lines += _where(number, [], error)
    kind = [_argument(1), _step(AND, KIND)]
    # No network: what is left are sockets of this machine, and of those only connections.
    lines += _where(SOCKET[column], [_argument(0), _step(EQUAL, LOCAL, 1, 0)], NO_SUCH)
    lines += _where(SOCKET[column], [*kind, _step(EQUAL, STREAM, 1, 0)], NO_SUCH)
    lines += _where(SOCKETPAIR[column], [*kind, _step(EQUAL, DATAGRAM, 0, 1)], NO_SUCH)
    lines += _where(CLONE[column], [_argument(0), _step(ANY_OF, NAMESPACES, 0, 1)], errno.EPERM)
    lines += _where(CLONE3[column], [], errno.ENOSYS)  # its flags can't be seen; libc uses clone
    lines += _where(PRLIMIT[column], [_argument(0), _step(EQUAL, 0, 1, 0)], errno.EPERM)
    # What is mapped no longer, or waits in a socket, is memory that no process is charged with.
    shared = [_step(AND, SHARED_ANONYMOUS), _step(EQUAL, SHARED_ANONYMOUS, 0, 1)]
    lines += _where(MMAP[column], [_argument(3), *shared], errno.EPERM)
    send_buffer = [_argument(2), _step(EQUAL, SEND_BUFFER, 0, 1)]
    lines += _where(SETSOCKOPT[column], send_buffer, errno.EPERM)
    return [*lines, _step(RETURN, ALLOW)]


def _where(number, conditions, error):
    """Fail in a call of this number; the last condition jumps over the failure, or does not."""
    body = [*conditions, _step(RETURN, FAIL | error), _step(LOAD, NUMBER)]
    over = [_step(RETURN, FAIL | error)]
    if not conditions:
        return [_step(EQUAL, number, 0, 1), *over]
    return [_step(EQUAL, number, 0, len(body)), *body]


def _argument(n):
    """The lower half of an argument: flags and small numbers."""
    return _step(LOAD, ARGUMENTS + 8 * n)


def _step(what, value, if_true=0, if_false=0):
    return struct.pack("HBBI", what, if_true, if_false, value)
