"""Warm kernels: the server of this process that forks them."""

import contextlib
import json
import logging
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

ZYGOTE = Path(__file__).with_name("zygote.py")
START_SECONDS = 120
ANSWER_SECONDS = 10
ENDED = -1  # nobody but its parent learns how a process ended
log = logging.getLogger(__name__)
_server = None


def server(sandbox, packages=()):
    """The server of this process, whose kernels have these packages at once.

    It is new where the last one is dead or has others; None where there is no fork.
    """
    global _server
    if _server and _server.works() and _server.packages != packages:
        _server.end()
    if _server is None or not _server.works():
        _server = Server(sandbox, packages) if hasattr(os, "pidfd_open") else None
    return _server


class Server:
    """Forks kernels on request, once it is ready, and ends when this process does.

    Nobody else can ask it.
    """

    def __init__(self, sandbox, packages=()):
        self.owner, self.packages = os.getpid(), packages
        self.channel, its_own = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.folder = tempfile.TemporaryDirectory(  # for what imports write
            prefix="warm-", ignore_cleanup_errors=True
        )
        self.ready = False
        with its_own:
            self.process = subprocess.Popen(
                [sys.executable, str(ZYGOTE), str(its_own.fileno()), *packages],
                pass_fds=[its_own.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                env=sandbox.environment(self.folder.name),
                start_new_session=True,
            )

    def works(self):
        return self.owner == os.getpid() and self.process.poll() is None

    def await_ready(self):
        """Is it ready now? Waits while it starts."""
        if not self.ready and self.works():
            self.channel.settimeout(START_SECONDS)
            self._receive()
            self.folder.cleanup()
            if self.works():
                self.channel.settimeout(ANSWER_SECONDS)
                self.ready = True
        return self.ready

    def fork(self, command, folder, environment):
        """A kernel for the command line of a cold one, or None."""
        if not self.await_ready():
            return None
        request = {"arguments": command[2:], "folder": folder, "environment": environment}
        try:
            self.channel.send(json.dumps(request).encode())
        except OSError as error:
            return self._failed(error)
        return self._receive()

    def end(self):
        self.channel.close()
        self.process.kill()
        self.process.wait()
        self.folder.cleanup()

    def _receive(self):
        try:
            words, handles, *_ = socket.recv_fds(self.channel, 64, 1)
        except OSError as error:
            return self._failed(error)
        if not words:
            return self._failed("the server has ended")
        return Fork(int(words), handles[0]) if handles else None

    def _failed(self, why):
        log.warning("Kernels start slowly: %s", why)
        self.end()


class Fork:
    """A kernel of the server, with what jupyter_client uses of a `Popen`."""

    stdin = stdout = stderr = None

    def __init__(self, pid, handle):
        self.pid, self._handle = pid, handle
        self._end = select.poll()  # a handle can be read when its process has ended
        self._end.register(handle, select.POLLIN)

    def __del__(self):
        os.close(self._handle)

    def poll(self):
        return ENDED if self._end.poll(0) else None

    def wait(self, timeout=None):
        if not self._end.poll(None if timeout is None else timeout * 1000):
            raise subprocess.TimeoutExpired("the kernel", timeout)
        return ENDED

    def send_signal(self, number):
        """To all of its process group, while it lives: a number may be given away again."""
        if self.poll() is None:
            try:
                os.killpg(self.pid, number)
            except ProcessLookupError:  # it has no group yet
                with contextlib.suppress(ProcessLookupError):
                    signal.pidfd_send_signal(self._handle, number)
