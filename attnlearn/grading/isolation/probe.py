"""What can a process in a sandbox really do on this machine? Tried before anything is graded."""

import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

SECONDS = 60
ATTEMPTS = """\
import ctypes, json, os, socket, struct, sys, threading
about = json.loads(sys.argv[1])
LIBC = ctypes.CDLL(None)

def can(f, *arguments):
    try:
        f(*arguments)
    except OSError:
        return False
    return True

def connect(family, kind, address):
    with socket.socket(family, kind) as own:
        own.connect(address)

def capabilities():
    sets = ctypes.create_string_buffer(24)
    LIBC.capget(struct.pack("Ii", 0x20080522, 0), sets)
    return any(sets.raw[:8] + sets.raw[12:20])  # effective and permitted

network, sees = ("127.0.0.1", about["port"]), about["grader"] != os.getpid()
print(json.dumps({
    "read a file": can(open, about["secret"]),
    "list a folder": can(os.listdir, os.path.dirname(about["secret"])),
    "write a file": can(open, about["secret"] + "2", "w"),
    "read the grading part": can(open, about["grading"]),
    "read the grader's environment": sees and can(open, f"/proc/{about['grader']}/environ"),
    "signal the grader": sees and can(os.kill, about["grader"], 0),
    "connect by TCP": can(connect, socket.AF_INET, socket.SOCK_STREAM, network),
    "send by UDP": can(connect, socket.AF_INET, socket.SOCK_DGRAM, network),
    "connect to a socket": can(connect, socket.AF_UNIX, socket.SOCK_STREAM, about["socket"]),
    "act as the same user": os.getuid() == about["user"],
    "use a capability": capabilities(),
    "gain privileges": LIBC.prctl(39, 0, 0, 0, 0) != 1,
}))
open("a file of its own", "w").close()  # from here on: what has to work
import attnlearn.exercise, numpy
threading.Thread(target=int).start()
"""


class DoesNotStart(RuntimeError):
    """No process of Python can be started in a sandbox; the message says why."""


def found(sandbox):
    """The attempts that succeed inside."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="probe-")))
        sandbox.make_folders(folder)
        (folder / "elsewhere").mkdir()
        (folder / "elsewhere" / "secret").write_text("a secret")
        listening = [socket.create_server(("127.0.0.1", 0)), socket.socket(socket.AF_UNIX)]
        for own in listening:
            stack.enter_context(own)
        listening[1].bind(f"{folder}/socket")
        listening[1].listen()
        return _attempt(
            sandbox,
            folder,
            secret=f"{folder}/elsewhere/secret",
            socket=f"{folder}/socket",
            port=listening[0].getsockname()[1],
            grading=str(Path(__file__)),
            grader=os.getpid(),
            user=os.getuid(),
        )


def _attempt(sandbox, folder, **about):
    command = sandbox.wrapped([sys.executable, "-c", ATTEMPTS, json.dumps(about)], folder)
    scratch = folder / "scratch"
    options = {"cwd": scratch, "env": sandbox.environment(scratch), "timeout": SECONDS}
    done = subprocess.run(command, capture_output=True, text=True, **options)
    if done.returncode:
        raise DoesNotStart((done.stderr.strip().splitlines() or ["no reason given"])[-1])
    return {what for what, can in json.loads(done.stdout).items() if can}
