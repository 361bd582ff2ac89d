"""A server that forks kernels with packages imported: `python zygote.py SOCKET PACKAGE...`.

It runs as a file and imports nothing of the package but its neighbours. A request is the JSON of
`launch.py`'s arguments, a folder and an environment; the answer is the process, as a number and
as a descriptor. Only the child goes on with a request: the server never runs a submission's code.
"""

import contextlib
import ctypes
import gc
import importlib.util
import json
import os
import random
import signal
import socket
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
NEIGHBOURS = ("launch", "linux", "namespaces", "landlock", "seccomp", "user")  # all that confines
PACKAGES = (
    "ipykernel.kernelapp",  # and what a kernel imports later, while it starts
    "ipykernel.debugger",
    "IPython.core.completerlib",
    "IPython.core.debugger",
    "IPython.core.logger",
    "IPython.extensions.storemagic",
    "tornado.platform.asyncio",
    "tornado.queues",
    "faulthandler",
    "numpy",
    "numpy.ma",
    "numpy.random",
    "attnlearn.exercise",
)
BEFORE = (HERE, *os.environ.get("PYTHONPATH", "").split(os.pathsep))  # of sys.path
DEATH_SIGNAL = 1  # of prctl
LARGEST = 2**17  # bytes of a request
PATIENCE = 2e-4  # seconds until a thread gives way: those of a kernel pass each message on


def main():
    channel = socket.socket(fileno=int(sys.argv[1]))
    begun_with = dict(os.environ)
    import_all(sys.argv[2:])
    set_by_imports = {k: v for k, v in os.environ.items() if k not in begun_with}
    channel.send(b"ready")
    request = serve(channel)
    run_kernel(request["arguments"], request["folder"], set_by_imports | request["environment"])


def import_all(packages):
    sys.dont_write_bytecode = False  # what is compiled here is not compiled again in each kernel
    for name in (*NEIGHBOURS, *packages, *PACKAGES):
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    sys.dont_write_bytecode = True
    for name in [name for name in sys.modules if f"{name}.".startswith("attnlearn.")]:
        del sys.modules[name]  # what it needs stays; kernels import the package themselves
    if len(os.listdir("/proc/self/task")) > 1:
        sys.exit("a package has started a thread: a fork would lack it")
    gc.collect()
    gc.freeze()  # so that collecting garbage does not copy these pages in every kernel


def serve(channel):
    """Returns a request, in a child; ends when nobody asks any more."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # no dead child waits for us
    while request := channel.recv(LARGEST):
        child = os.fork()
        if child == 0:
            channel.close()
            return json.loads(request)
        answer(channel, child)
    sys.exit()


def answer(channel, child):
    try:
        process = os.pidfd_open(child)
    except ProcessLookupError:  # dead already
        channel.send(b"none")
        return
    socket.send_fds(channel, [str(child).encode()], [process])
    os.close(process)


def run_kernel(arguments, folder, environment):
    """What `launch.py` and `python -m ipykernel_launcher` do in a new process."""
    import launch

    limits, box, *command = arguments
    connection_file = command[command.index("-f") + 1]
    os.setsid()
    sys.setswitchinterval(PATIENCE)
    leave_files()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    launch.confine(json.loads(limits), json.loads(box), os.path.dirname(connection_file))
    ctypes.CDLL(None).prctl(DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)  # another user forgets it
    forget()
    from ipykernel.kernelapp import IPKernelApp

    sys.argv = [importlib.util.find_spec(command[2]).origin, *command[3:]]
    IPKernelApp.launch_instance(argv=command[3:])


def leave_files():
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(nothing, number)
    os.close(nothing)


def forget():
    """What a new process would not know: our modules, and what importing has drawn or looked up."""
    stay = os.environ["PYTHONPATH"].split(os.pathsep)
    sys.path[:] = [path for path in sys.path if path in stay or path not in BEFORE]
    for name in NEIGHBOURS:
        sys.modules.pop(name, None)
    tempfile.tempdir = None
    random.seed()
    if numpy := sys.modules.get("numpy"):
        numpy.random.seed()
    if torch := sys.modules.get("torch"):
        torch.default_generator.seed()


if __name__ == "__main__":
    main()
