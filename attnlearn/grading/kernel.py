"""A kernel that grading can rely on: it tells at once when its process is gone.

nbval's own waits for the whole time limit of a cell, and loses messages while it waits.
"""

import collections
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from queue import Empty

from jupyter_client.manager import KernelManager
from nbval.kernel import NbvalKernelspecManager, RunningKernel

PACKAGE_PARENT = Path(__file__).parents[2]
POLL = 0.2  # seconds between two looks at the process
# IPython's `exit()` ends the kernel a moment later, and the next cell would take the blame.
EXIT_RAISES = "get_ipython().ask_exit = __import__('sys').exit"


class KernelDied(RuntimeError):
    """The kernel's process ended while it ran a cell."""


def environment(**variables):
    """The environment of a kernel that imports this very package."""
    path = os.pathsep.join(filter(None, [str(PACKAGE_PARENT), os.environ.get("PYTHONPATH")]))
    return {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", **variables}


def connection(folder):
    """How to reach a kernel: by files in a folder, where the platform has such sockets."""
    transport = "tcp" if sys.platform == "win32" else "ipc"
    return {"transport": transport, "connection_file": os.path.join(folder, "k.json")}


class GradingKernel(RunningKernel):
    """nbval's RunningKernel, listening on both channels and to the process."""

    def __init__(self, kernel_name, cwd, startup_timeout, seconds):
        self.seconds = seconds  # the most that one cell may take
        self._messages = collections.deque()
        self._folder = tempfile.mkdtemp(prefix="k")
        self.km = KernelManager(
            kernel_name=kernel_name,
            kernel_spec_manager=NbvalKernelspecManager(),
            **connection(self._folder),
        )
        self.km.start_kernel(
            cwd=cwd,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=environment(ATTNLEARN_MODE="grade"),
        )
        self.kc = self.km.client()
        self.kc.start_channels()
        try:
            self.kc.wait_for_ready(timeout=startup_timeout)
            self._ensure_iopub_up()
            self.await_reply(self.kc.execute(EXIT_RAISES, silent=True))
        except (RuntimeError, Empty):
            self.stop()
            raise

    def await_reply(self, msg_id, timeout=None):
        """Wait for the reply to a cell; return, too, when the process is dead."""
        end = time.monotonic() + min(timeout or self.seconds, self.seconds)
        while time.monotonic() < end:
            self._collect()
            try:
                message = self.kc.get_shell_msg(timeout=POLL)
            except Empty:
                if not self.is_alive():
                    return
                continue
            if message["parent_header"].get("msg_id") == msg_id:
                return
        raise Empty

    def get_message(self, stream, timeout=None):
        if stream != "iopub":
            return super().get_message(stream, timeout)
        end = time.monotonic() + (timeout or self.seconds)
        while True:
            self._collect()
            if self._messages:
                return self._messages.popleft()
            if not self.is_alive():
                raise KernelDied("the kernel died while it ran this")
            if time.monotonic() > end:
                raise Empty
            self._collect(POLL)

    def stop(self):
        super().stop()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _collect(self, wait=0):
        """Take what has been published, so that nothing is dropped in a flood."""
        while True:
            try:
                self._messages.append(self.kc.get_iopub_msg(timeout=wait))
            except Empty:
                return
            wait = 0
