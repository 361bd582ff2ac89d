"""Folders that strangers wrote to: removed however deep they are, and whatever they forbid."""

import contextlib
import os
import tempfile


@contextlib.contextmanager
def temporary(prefix):
    """A folder that is gone in the end. `shutil` fails below a thousand others."""
    folder = tempfile.mkdtemp(prefix=prefix)
    try:
        yield folder
    finally:
        remove(folder)


def remove(top):
    """What lies in a folder of a folder is moved up, so no path is long; errors are passed over."""
    number, left = 0, None
    while left != (left := _entries(top)):  # until nothing is gained any more
        for path in left:
            if not os.path.isdir(path) or os.path.islink(path):
                with contextlib.suppress(OSError):
                    os.unlink(path)
                continue
            for inner in _entries(path):
                number += 1
                with contextlib.suppress(OSError):
                    _open(inner)
                    os.rename(inner, os.path.join(top, f".{number}"))
            with contextlib.suppress(OSError):
                os.rmdir(path)
    with contextlib.suppress(OSError):
        os.rmdir(top)


def _entries(folder):
    with contextlib.suppress(OSError):
        _open(folder)
        return [os.path.join(folder, name) for name in sorted(os.listdir(folder))]
    return []


def _open(path):
    """For us: who has made a folder may have closed it, or put a link into its place by now."""
    if not os.path.isdir(path) or os.path.islink(path):
        return
    try:
        os.chmod(path, 0o700, follow_symlinks=False)
    except NotImplementedError:  # it is a link, or the C library is older than glibc 2.32
        if hasattr(os, "O_PATH"):
            with contextlib.suppress(OSError):
                _open_by_handle(path)


def _open_by_handle(path):
    handle = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        os.chmod(f"/proc/self/fd/{handle}", 0o700)
    finally:
        os.close(handle)
