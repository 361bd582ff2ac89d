"""A kernel that grading can rely on: it tells at once when its process is gone.

nbval's own waits for the whole time limit of a cell, and loses messages while it waits.
"""

import collections
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from queue import Empty

import zmq
from jupyter_client.kernelspec import KernelSpec
from jupyter_client.manager import KernelManager
from nbval.kernel import NbvalKernelspecManager, RunningKernel
from zmq.utils.monitor import recv_monitor_message

from .environment import environment
from .isolation import processes
from .isolation.provisioner import Provisioner

RETRY = 0.01  # seconds until another try, while the kernel begins to listen
POLL = 0.2  # seconds between two looks at the process
GRACE = 10  # seconds after the most that a cell may take, for what it has published to arrive
GROWTH_MB = 1024  # of our own memory: a message of many parts is never seen before it is whole
OUTPUT_MB = 8  # what one cell may print and show
MESSAGE = 2048  # bytes that a message counts at least: a million small ones are a flood, too
# IPython's `exit()` ends the kernel a moment later, and the next cell would take the blame; for a
# command such as `!pip` it asks for a terminal, and a box has none.
PREPARE = """\
get_ipython().ask_exit = __import__('sys').exit
get_ipython().system = get_ipython().system_raw
"""
# What nbval reads in a message; answers can send others.
NEEDED = {
    "status": {"execution_state": str},
    "stream": {"name": str, "text": str},
    "display_data": {"data": dict, "metadata": dict},
    "execute_result": {"data": dict, "metadata": dict, "execution_count": int},
    "error": {"ename": str, "evalue": str, "traceback": list},
}


class KernelDied(RuntimeError):
    """The kernel's process ended while it ran a cell; `kernel.fault` says why."""


def connection(folder):
    """How to reach a kernel: by files in a folder, where the platform has such sockets."""
    transport = "tcp" if sys.platform == "win32" else "ipc"
    return {"transport": transport, "connection_file": os.path.join(folder, "k.json")}


class GradingKernel(RunningKernel):
    """nbval's RunningKernel, listening on both channels and to the process.

    It has been started, and `await_ready` waits until it answers. `fault` is None, or why the last
    cell did not end by itself: died, output, time, or what `watch()` answered. `argv` starts
    another program than the kernel of `kernel_name`.
    """

    def __init__(
        self,
        kernel_name,
        cwd,
        seconds,
        *,
        argv=None,
        env=None,
        output_mb=OUTPUT_MB,
        server=None,
    ):
        self.cwd, self.seconds = cwd, seconds  # the most that one cell may take
        self.fault, self.watch = None, lambda: None
        self._limit, self._shown, self._next_look = int(output_mb * 2**20), 0, 0
        self._messages, self._until = collections.deque(), float("inf")
        self._before = processes.own_memory()
        self.meeting = tempfile.mkdtemp(prefix="k")
        self.km = KernelManager(
            kernel_name=kernel_name,
            kernel_spec_manager=_Specs(argv),
            **connection(self.meeting),
        )
        self.km.provisioner = Provisioner(
            server, parent=self.km, kernel_spec=self.km.kernel_spec, kernel_id=self.km.kernel_id
        )
        self.km.context.setsockopt(zmq.MAXMSGSIZE, self._limit + 2**20)
        self.km.context.setsockopt(zmq.RECONNECT_IVL, int(RETRY * 1000))
        self.km.start_kernel(
            cwd=cwd,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=env or environment(ATTNLEARN_MODE="grade"),
        )
        self.kc = self.km.client()
        self.kc.start_channels(stdin=False, hb=False)
        # ZeroMQ closes the connection on a message that is too large.
        self._lost = self.kc.iopub_channel.socket.get_monitor_socket(zmq.EVENT_DISCONNECTED)

    def await_ready(self, seconds):
        """Until the kernel answers on both channels: the second may connect after the first."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            asked = self.kc.execute(PREPARE, silent=True)
            with contextlib.suppress(Empty):
                self.await_reply(asked, end - time.monotonic())
                self.await_idle(asked, RETRY)
                return
        self.stop()
        raise RuntimeError(f"the kernel did not start within {seconds:g} s")

    def execute_cell_input(self, cell_input, allow_stdin=None):
        self.fault, self._shown = None, 0
        self._before, self._until = processes.own_memory(), time.monotonic() + self.seconds + GRACE
        self._next_look = time.monotonic() + POLL
        return super().execute_cell_input(cell_input, allow_stdin)

    def await_reply(self, msg_id, timeout=None):
        """Wait for the reply to a cell; return, too, when the process is dead."""
        end = time.monotonic() + min(timeout or self.seconds, self.seconds)
        sockets = [self.kc.shell_channel.socket, self.kc.iopub_channel.socket]
        while time.monotonic() < end:
            zmq.select(sockets, [], [], POLL)
            self._collect()
            if self._stopped():
                return
            with contextlib.suppress(Empty):
                parent = self._receive(self.kc.shell_channel).get("parent_header")
                if isinstance(parent, dict) and parent.get("msg_id") == msg_id:
                    return
        self.fault = "time"
        raise Empty

    def is_alive(self):
        """What the manager would say, without an event loop for each look."""
        process = hasattr(self, "km") and self.km.provisioner.process
        return bool(process) and process.poll() is None

    def get_message(self, stream, timeout=None):
        if stream != "iopub":
            return super().get_message(stream, timeout)
        end = time.monotonic() + (timeout or self.seconds)
        while True:
            self._collect()
            if time.monotonic() > self._until and self.is_alive():  # an answer keeps us waiting
                self._end("time")
            elif self._messages:
                return self._messages.popleft()
            if self._stopped():
                raise KernelDied("the kernel died while it ran this")
            if (left := end - time.monotonic()) <= 0:
                raise Empty
            self._collect(min(left, POLL))

    def stop(self):
        if hasattr(self, "_lost"):
            self.kc.iopub_channel.socket.disable_monitor()
            self._lost.close()
            del self._lost
        super().stop()
        shutil.rmtree(self.meeting, ignore_errors=True)

    def _stopped(self):
        """Is the process gone, or has it been ended for a fault? Looked at now and then only."""
        if self.fault and not self.is_alive():
            return True
        if time.monotonic() < self._next_look:
            return False
        self._next_look = time.monotonic() + POLL
        if not self.is_alive():
            self.fault = "died"
        elif self._lost.poll(0):
            recv_monitor_message(self._lost)
            time.sleep(POLL)  # a process that dies closes its connection a moment before
            self._end("output" if self.is_alive() else "died")
        elif processes.own_memory() > self._before + GROWTH_MB * 2**20:
            self._end("output")
        elif fault := self.watch():
            self._end(fault)
        return not self.is_alive()

    def _end(self, fault):
        self.fault = fault
        self.km.shutdown_kernel(now=True)

    def _collect(self, wait=0):
        """Take what has been published, so that nothing is dropped in a flood."""
        while self._shown <= self._limit:
            try:
                message = self._receive(self.kc.iopub_channel, wait)
            except Empty:
                return
            wait = 0
            if _well_formed(message) and _is_text(message["content"]):
                self._messages.append(message)
        if self.is_alive():
            self._end("output")

    def _receive(self, channel, wait=0):
        """A message, {} if it is none of a kernel: an answer wrote to the socket; or Empty.

        All of its parts count as shown, for all of them take memory and time.
        """
        if not channel.socket.poll(int(wait * 1000)):
            raise Empty
        parts = channel.socket.recv_multipart(zmq.NOBLOCK)
        self._shown += max(MESSAGE, sum(map(len, parts)))
        try:
            return channel.session.deserialize(channel.session.feed_identities(parts)[1])
        except Exception:
            return {}


class _Specs(NbvalKernelspecManager):
    """Kernels by name, or one that `argv` starts."""

    def __init__(self, argv):
        super().__init__()
        self._argv = argv

    def get_kernel_spec(self, kernel_name):
        if self._argv is None:
            return super().get_kernel_spec(kernel_name)
        return KernelSpec(argv=list(self._argv), display_name="Python 3", language="python")


def _well_formed(message):
    content, parent, of = (message.get(key) for key in ("content", "parent_header", "msg_type"))
    if not (isinstance(content, dict) and isinstance(parent, dict) and isinstance(of, str)):
        return False
    if not all(isinstance(content.get(key), kind) for key, kind in NEEDED.get(of, {}).items()):
        return False
    return of != "error" or all(isinstance(line, str) for line in content["traceback"])


def _is_text(content):
    """Can it be written to a file? Half of a surrogate pair can't, and no kernel sends one."""
    try:
        json.dumps(content, ensure_ascii=False, default=str).encode()
    except (ValueError, RecursionError):
        return False
    return True
