"""Start a kernel under limits, and confined: `python launch.py LIMITS BOX COMMAND...`.

It runs as a file and imports nothing of the package but its neighbours. LIMITS is the JSON of
`limits.Limits`; BOX that of `Sandbox.box`: the keyword arguments of one of the functions below
and its name as "kind", or null.
"""

import contextlib
import json
import os
import signal
import sys

FILES_OPEN = 1024
THREADS = 16  # for each process that is allowed, before no new one starts


def main():
    limits, box, command = json.loads(sys.argv[1]), json.loads(sys.argv[2]), sys.argv[3:]
    meeting = os.path.dirname(command[command.index("-f") + 1]) if "-f" in command else None
    confine(limits, box, meeting)
    os.execv(command[0], command)


def confine(limits, box, meeting):
    """Returns in a process that is confined; the kernel and the grader meet in one folder."""
    set_limits(limits)
    if box is not None:
        kind, options = box["kind"], {name: box[name] for name in box if name != "kind"}
        CONFINE[kind](limits, [meeting] if meeting else [], **options)


def in_namespaces(limits, meeting, root, show, hide, scratch):
    import landlock
    import namespaces
    import seccomp

    namespaces.enter(root, show, hide, meeting, scratch, limits["disk_mb"])
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.pop("JPY_PARENT_PID", None)  # that process can't be seen from inside
    if landlock.version():
        writable = [(landlock.WRITE, path) for path in (scratch, namespaces.SHARED_MEMORY)]
        rest = [(landlock.READ, "/"), (landlock.USE, "/dev")]
        landlock.restrict([*rest, *writable, *((landlock.MEET, path) for path in meeting)])
    seccomp.refuse(seccomp.ALWAYS, seccomp.SESSION)


def by_landlock(limits, meeting, packages, show, names, scratch, other_user):
    """`packages` is an empty folder for a way to ours; only names are seen in `names`."""
    import landlock
    import seccomp
    import user

    path, ours = packages
    os.symlink(ours, os.path.join(path, os.path.basename(ours)))
    sys.path.insert(0, path)
    os.environ["PYTHONPATH"] = path
    if other_user:
        stranger = user.stranger()
        user.give([scratch, *meeting], stranger)
        _limit("RLIMIT_NPROC", limits["processes"] * THREADS)
        user.become(stranger)
    user.drop_privileges()
    landlock.restrict(
        [
            *((landlock.READ, path) for path in (*show, path)),
            *((landlock.LIST, path) for path in names),
            *((landlock.USE, f"/dev/{name}") for name in ("null", "full")),
            *((landlock.READ, f"/dev/{name}") for name in ("random", "urandom")),
            (landlock.WRITE, scratch),
            *((landlock.MEET, path) for path in meeting),
        ]
    )
    seccomp.refuse(seccomp.ALWAYS | seccomp.IN_SIGHT, seccomp.QUIET)


CONFINE = {"namespaces": in_namespaces, "landlock": by_landlock}


def set_limits(limits):
    _limit("RLIMIT_DATA", limits["memory_mb"] * 2**20)
    _limit("RLIMIT_FSIZE", limits["file_mb"] * 2**20)
    _limit("RLIMIT_NOFILE", FILES_OPEN)
    _limit("RLIMIT_CORE", 0)
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")  # where memory is short, this process is the first to go


def _limit(name, most):
    try:
        import resource
    except ImportError:  # not on Windows
        return
    what, most = getattr(resource, name), int(most)
    hard = resource.getrlimit(what)[1]
    most = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(what, (most, most))


if __name__ == "__main__":
    main()
