"""What a program can see and do at each level of isolation, and what is looked at from outside."""

import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest
from data import other_user

from attnlearn.grading.isolation import folders, probe, processes, sandbox
from attnlearn.grading.isolation.limits import Limits

pytestmark = pytest.mark.xdist_group(__name__)  # what its tests share is made once
linux = pytest.mark.skipif(sys.platform != "linux", reason="only on Linux")

INSIDE = """\
import ctypes, subprocess, sys, tempfile
from pathlib import Path
from attnlearn.grading.isolation import sandbox
from attnlearn.grading.isolation.limits import Limits

box = sandbox.KINDS[int(sys.argv[1])](Limits(memory_mb=512, disk_mb=32))
if why := box.trouble():
    sys.exit(f"does not work here: {why}")
with tempfile.TemporaryDirectory() as folder:
    box.make_folders(folder)
    scratch = Path(folder, "scratch")
    memory = ctypes.CDLL(None).shmget(0, 4096, 0o1666)
    command = box.wrapped([sys.executable, "-c", sys.argv[2], str(memory)], folder)
    options = {"cwd": scratch, "env": box.environment(scratch), "timeout": 60}
    try:
        print(subprocess.run(command, capture_output=True, text=True, check=True, **options).stdout)
    finally:
        ctypes.CDLL(None).shmctl(memory, 0, None)
"""
SEEN = """\
import ctypes, json, mmap, os, resource, shutil, signal, socket, subprocess, sys, tempfile
import attnlearn, numpy

LIBC = ctypes.CDLL(None, use_errno=True)

def can(f, *arguments):
    try:
        return f(*arguments) != -1
    except (OSError, MemoryError, ValueError):
        return False

def send(*address):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as own:
        own.sendto(b"x", address)

def to_service(path):
    with socket.socket(socket.AF_UNIX) as own:
        own.connect(path)

def slows(other):  # how soon its files are read and written
    number = {"x86_64": 251, "aarch64": 30}[os.uname().machine]
    before = LIBC.syscall(number + 1, 1, other)
    LIBC.syscall(number, 1, other, 3 << 13)
    return LIBC.syscall(number + 1, 1, other) != before

def send_much():
    with socket.socket(socket.AF_UNIX) as own:
        own.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 24)

def copy():
    open("one", "w").close()
    shutil.copy2("one", "two")

def talk():
    with socket.socket(socket.AF_UNIX) as own, tempfile.TemporaryDirectory() as folder:
        own.bind(folder + "/s")
        own.listen()

def fill():
    for n in range(64):
        with open(f"full{n}", "wb") as file:
            file.write(bytes(1 << 20))

def leaves():
    tell = [sys.executable, "-c", "import os; print(os.getpgrp(), os.getsid(0))"]
    told = subprocess.run(tell, start_new_session=True, stdout=subprocess.PIPE).stdout
    return told.split() != [b"%d" % os.getpgrp(), b"%d" % os.getsid(0)]

package = os.path.dirname(attnlearn.__file__)
outside = ["/x", "/usr/x", "/tmp/x", "/var/tmp/x", package + "/x"]
print(json.dumps({
    "root": os.getuid() == 0,
    "privileges": LIBC.prctl(39, 0, 0, 0, 0) == 0,
    "grading": [can(open, package + "/grading/" + name) for name in ("run.py", "__init__.py")],
    "home": can(os.listdir, os.path.expanduser("~root")),
    "shadow": can(open, "/etc/shadow"),
    "processes": [can(open, f"/proc/{os.getppid()}/{name}") for name in ("environ", "mem")],
    "sockets of others": can(lambda: open("/proc/net/unix").read().index("/")),
    "writes outside": any([can(open, path, "w") for path in outside]),
    "links": can(os.link, sys.executable, "link") or can(os.link, "/etc/passwd", "link"),
    "kernel settings": can(open, "/proc/sys/kernel/core_pattern", "w"),
    "tcp": can(socket.create_connection, ("127.0.0.1", 1), 1),
    "udp": can(send, "127.0.0.1", 9),
    "netlink": can(socket.socket, socket.AF_NETLINK, socket.SOCK_RAW),
    "a service": [can(to_service, path) for path in ("/run/dbus/system_bus_socket", "\\0x")],
    "datagrams": can(socket.socketpair, socket.AF_UNIX, socket.SOCK_DGRAM),
    "ptrace": can(LIBC.ptrace, 16, os.getppid(), 0, 0),
    "namespaces": can(LIBC.unshare, 1 << 28),
    "news of a folder": can(LIBC.inotify_add_watch, LIBC.inotify_init(), b"/tmp", 0x100),
    "memory with a number": can(LIBC.shmget, 0, 4096, 0o1600),
    "memory of a known number": can(LIBC.shmat, int(sys.argv[1]), None, 0o10000),
    "leaves its group": leaves(),
    "priority of others": os.getppid() != 0 and slows(os.getppid()),
    "io_uring": can(LIBC.syscall, 425, 8, ctypes.create_string_buffer(120)),
    "uncounted memory": can(os.memfd_create, "x") or can(open, "/dev/zero") or can(send_much),
    "memory that outlasts its mapping": can(mmap.mmap, -1, 4096),
    "more memory": can(resource.setrlimit, resource.RLIMIT_DATA, (1 << 40, 1 << 40)),
    "limits of others": can(resource.prlimit, os.getppid() or 1, resource.RLIMIT_CPU, (1, 1)),
    "a great array": can(bytearray, 1 << 30),
    "set user": can(os.setuid, 0),
    # what has to work
    "writes inside": [can(open, path, "w") for path in ("x", tempfile.gettempdir() + "/y")],
    "copies": can(copy),
    "listens": can(talk),
    "starts": subprocess.run([sys.executable, "-c", ""]).returncode,
    "fills": can(fill),
}))
"""
NOTHING = {
    "root": False,
    "privileges": False,
    "grading": [False, False],
    "home": False,
    "shadow": False,
    "processes": [False, False],
    "sockets of others": False,
    "writes outside": False,
    "links": False,
    "kernel settings": False,
    "tcp": False,
    "udp": False,
    "netlink": False,
    "a service": [False, False],
    "datagrams": False,
    "ptrace": False,
    "namespaces": False,
    "news of a folder": False,
    "memory of a known number": False,
    "memory with a number": False,
    "leaves its group": False,
    "priority of others": False,
    "io_uring": False,
    "uncounted memory": False,
    "memory that outlasts its mapping": False,
    "more memory": False,
    "limits of others": False,
    "a great array": False,
    "writes inside": [True, True],
    "copies": True,
    "listens": True,
    "starts": 0,
}
# As whom it is tried: L3 as the one who runs the tests, and without any privilege.
TRIED = [(1, other_user.NOBODY), (2, None), (3, None), (3, other_user.NOBODY)]


@pytest.fixture(scope="module")
def python():
    with tempfile.TemporaryDirectory(prefix="python-") as folder:
        os.chmod(folder, 0o755)
        yield other_user.python(folder) or pytest.skip("no Python that other users can start")


@linux
@pytest.mark.parametrize(("level", "user"), TRIED)
def test_what_can_be_seen_and_done(python, level, user):
    done = other_user.run([python, "-c", INSIDE, str(level), SEEN], user)
    if "does not work here" in done.stderr:
        pytest.skip(done.stderr)
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert seen.pop("set user") is False
    assert seen.pop("fills") is (level < 3)  # from outside that is seen; here Linux stops it
    assert seen == NOTHING


@linux
@pytest.mark.skipif(not other_user.IS_ROOT, reason="only root can look as the others do")
def test_l0_promises_none_of_this():
    can = probe.found(sandbox.Sandbox())
    assert {"read a file", "write a file", "connect by TCP", "signal the grader"} <= can


@linux
def test_a_level_that_does_not_keep_a_promise_does_not_work(monkeypatch):
    monkeypatch.setattr(probe, "found", lambda box: {"connect by TCP"})
    assert sandbox.Landlocked().trouble() == "an answer can still connect by TCP"
    monkeypatch.setattr(sandbox.Box, "works", lambda self: False)
    monkeypatch.setattr(sandbox.OtherUser, "works", lambda self: False)
    assert sandbox.choose(Limits()).level == 0


@linux
def test_a_python_that_does_not_start_is_no_sandbox(monkeypatch):
    monkeypatch.setattr(sandbox.sys, "executable", "/no/python")
    monkeypatch.setattr(sandbox.Landlocked, "wrapped", lambda *a: ["/bin/sh", "-c", "exit 1"])
    assert sandbox.Landlocked().trouble() == "no reason given"


CHILDREN = """\
import os, sys, time
block = b"x" * (64 << 20)
for _ in range(3):
    if not os.fork():
        own = b"y" * int(float(sys.argv[1]) * 2**20)
        print("ready", flush=True)
        time.sleep(60)
print("ready", flush=True)
time.sleep(60)
"""


@pytest.fixture
def family(request):
    """Four processes: one with 64 MB that the others share, each of these with more of its own."""
    processes.adopt_orphans()
    spared = processes.descendants()
    command = [sys.executable, "-c", CHILDREN, str(request.param)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as parent:
        for _ in range(4):
            parent.stdout.readline()
        yield processes.descendants().keys() - spared.keys()
        processes.end_all(spared)


# Each of these processes lives for less time than a look at all of them takes.
CHAIN = """\
import os, time
end = time.monotonic() + 8
while time.monotonic() < end:
    if os.fork():
        os._exit(0)
"""


@linux
def test_processes_that_hand_over_to_a_child_are_ended():
    processes.adopt_orphans()
    spared = processes.descendants()
    command = [sys.executable, "-S", "-E", "-c", CHAIN]
    with subprocess.Popen(command, start_new_session=True):
        time.sleep(0.3)
        processes.end_all(spared)
    assert not processes.descendants().keys() - spared.keys()


@linux
def test_a_group_with_one_who_stays_is_left_alone():
    processes.adopt_orphans()
    code = "import os, signal, time; signal.signal(signal.SIGCHLD, signal.SIG_IGN); "
    code += "os.fork(); print('ready', flush=True); time.sleep(60)"
    options = {"stdout": subprocess.PIPE, "start_new_session": True}
    with subprocess.Popen([sys.executable, "-c", code], **options) as leader:
        leader.stdout.readline(), leader.stdout.readline()
        processes.end_all({leader.pid: processes.descendants()[leader.pid]})
        assert len(processes.tree(leader.pid)) == 1
        assert leader.poll() is None
        leader.kill()


@linux
@pytest.mark.parametrize("family", [64], indirect=True)
def test_the_memory_of_all_processes_is_counted_once(family, tmp_path):
    assert len(family) == 4
    assert processes.excess(family, [tmp_path], Limits(total_memory_mb=200)) == "memory"
    assert processes.excess(family, [tmp_path], Limits(total_memory_mb=400)) is None
    assert processes.excess(family, [tmp_path], Limits(processes=3)) == "processes"


@linux
@pytest.mark.parametrize("family", [1], indirect=True)
def test_pages_that_are_shared_count_once(family, tmp_path):
    assert sum(map(processes._resident, family)) > 200 * 2**20
    assert processes.excess(family, [tmp_path], Limits(total_memory_mb=200)) is None


@linux
def test_what_is_written_is_counted_though_it_is_deleted(tmp_path):
    limits, below = Limits(disk_mb=3), tmp_path / "a" / "b"
    below.mkdir(parents=True)
    (below / "file").write_bytes(os.urandom(2**21))
    (below / "link").symlink_to("/")  # not followed
    (below / "holes").touch()
    os.truncate(below / "holes", 2**40)  # takes no room
    assert processes.excess({os.getpid()}, [tmp_path], limits) is None
    with open(below / "gone", "wb") as file:
        file.write(os.urandom(2**21))
        file.flush()
        (below / "gone").unlink()
        assert processes.excess({os.getpid()}, [tmp_path], limits) == "disk"
    assert processes.excess({os.getpid()}, [tmp_path], limits) is None
    for n in range(800):
        (below / f"empty{n}").touch()
    assert processes.excess({os.getpid()}, [tmp_path], limits) == "disk"


@linux
def test_a_folder_that_nobody_can_look_into_counts_as_full(tmp_path, monkeypatch):
    deep = tmp_path
    for _ in range(20):
        deep.mkdir(exist_ok=True)
        monkeypatch.chdir(deep)
        deep = Path("x" * 250)
    assert processes.excess((), [tmp_path], Limits()) == "disk"
    folders.remove(tmp_path / ("x" * 250))
    (tmp_path / "shut").mkdir(0o300)
    seen = processes.excess((), [tmp_path], Limits())
    assert seen == (None if other_user.IS_ROOT else "disk")


@pytest.mark.skipif(sys.platform == "win32", reason="paths are short there")
def test_a_folder_is_removed_however_deep_it_is(tmp_path, monkeypatch):
    (tmp_path / "kept").touch()
    with folders.temporary("scratch-") as folder:
        monkeypatch.chdir(folder)
        Path("link").symlink_to(tmp_path)
        for _ in range(2000):
            os.mkdir("d", 0o300)
            Path("file").touch()
            os.chdir("d")
        os.chdir("/")
    assert not Path(folder).exists()
    assert (tmp_path / "kept").exists()


@linux
def test_threads_and_sockets_count(tmp_path):
    limits, end = Limits(processes=2), threading.Event()
    assert processes.excess({os.getpid()}, [tmp_path], limits) is None
    many = [threading.Thread(target=end.wait) for _ in range(33)]
    for thread in many:
        thread.start()
    assert processes.excess({os.getpid()}, [tmp_path], limits) == "processes"
    end.set()
    for thread in many:
        thread.join()
    before = processes._waiting({os.getpid()})
    pairs = [socket.socketpair() for _ in range(50)]
    more = processes._waiting({os.getpid()}) - before
    assert more == 100 * int(processes.SENT.read_text())
    for pair in pairs:
        for one in pair:
            one.close()


def test_every_level_says_what_it_promises_and_what_not():
    for level, kind in sandbox.KINDS.items():
        record = kind().record()
        assert record["level"] == f"L{level}"
        assert record["promises"]
        assert record["does_not_promise"]
        assert record["limits"]["disk_mb"] == Limits().disk_mb
