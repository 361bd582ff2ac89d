"""Start a kernel under limits, and in a box: `python launch.py LIMITS BOX COMMAND...`.

It runs as a file and imports nothing of the package. LIMITS is the JSON of `limits.Limits`, BOX
that of the arguments of `namespaces.enter`, or null for no box.
"""

import json
import os
import signal
import sys


def main():
    limits, box, command = json.loads(sys.argv[1]), json.loads(sys.argv[2]), sys.argv[3:]
    meeting = os.path.dirname(command[command.index("-f") + 1]) if "-f" in command else None
    confine(limits, box, meeting)
    os.execv(command[0], command)


def confine(limits, box, meeting):
    """Returns in a process that is confined; the kernel and the grader meet in one folder."""
    if box is not None:
        import namespaces

        if meeting:
            box["write"].append(meeting)
        namespaces.enter(**box)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.environ.pop("JPY_PARENT_PID", None)  # that process can't be seen from inside
    set_limits(limits)


def set_limits(limits):
    try:
        import resource
    except ImportError:  # not on Windows
        return
    bounds = {
        resource.RLIMIT_DATA: int(limits["memory_mb"] * 2**20),
        resource.RLIMIT_FSIZE: int(limits["file_mb"] * 2**20),
        resource.RLIMIT_CORE: 0,
    }
    for what, most in bounds.items():
        hard = resource.getrlimit(what)[1]
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(what, (most, most))


if __name__ == "__main__":
    main()
