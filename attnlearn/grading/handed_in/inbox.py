"""What was handed in: every file of the given files, folders and zips, read with suspicion.

Nothing is unpacked to disk, no symbolic link is followed, no more than a limit is read.
"""

import io
import os
import re
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from . import zips

JUNK = {"__MACOSX", ".DS_Store", ".ipynb_checkpoints", "__pycache__", ".git", "Thumbs.db"}
NOTEBOOK = re.compile(r"\.ipynb(\.(txt|json))?$", re.I)  # some browsers add an ending
ARCHIVE = re.compile(r"\.zip$", re.I)


class Unreadable(ValueError):
    """A file that can't be read; the message says why, and how to mend it."""


@dataclass
class Paper:
    """One file that was handed in. `place` holds the names on the way to it, the given one first;
    `read()` gives its bytes or raises Unreadable."""

    place: PurePosixPath
    time: float
    read: Callable[[], bytes]

    @property
    def is_notebook(self):
        return bool(NOTEBOOK.search(self.place.name))


def papers(paths, limit):
    """Every file below the given paths, none of them larger than `limit` bytes when read."""
    for path in paths:
        if path.is_dir():
            yield from _folder(path, limit)
        else:
            yield from _file(path, PurePosixPath(*path.absolute().parts[-2:]), limit)


def _folder(folder, limit):
    root = PurePosixPath(folder.resolve().name)
    for at, folders, files in os.walk(folder, followlinks=False):
        links = [name for name in folders if os.path.islink(os.path.join(at, name))]
        folders[:] = sorted(name for name in folders if not _is_junk(name) and name not in links)
        for name in sorted([*files, *links]):
            path = Path(at, name)
            if not _is_junk(name):
                yield from _file(path, root / path.relative_to(folder).as_posix(), limit)


def _file(path, place, limit):
    time = path.lstat().st_mtime
    if ARCHIVE.search(path.name):
        yield from _archive(lambda: _open(path), place, time, limit)
    else:
        yield Paper(place, time, lambda: _read(path, limit))


def _archive(opened, place, time, limit, depth=0):
    """The files in a zip, or the zip itself as one file that can't be read."""
    try:
        with opened() as file:
            members = zips.members(file)
    except (Unreadable, zips.ZipError) as error:
        yield _unreadable(place, time, str(error))
        return
    members = [member for member in members if not any(map(_is_junk, member.names))]
    for member in members:
        inside = place.with_suffix("").joinpath(*member.names)
        read = _of_zip(opened, member, limit)
        if ARCHIVE.search(member.names[-1]) and depth == 0:
            yield from _archive(_in_memory(read), inside, member.time, limit, 1)
        else:
            yield Paper(inside, member.time, read)
    if not members:
        yield _unreadable(place, time, "an empty archive: hand in the notebook itself")


def _of_zip(opened, member, limit):
    """The archive is opened again when its file is read: no class is held in memory."""

    def read():
        try:
            with opened() as file:
                return zips.read(file, member, limit)
        except zips.ZipError as error:
            raise Unreadable(str(error)) from None

    return read


def _in_memory(read):
    return lambda: io.BytesIO(read())


def _unreadable(place, time, why):
    def read():
        raise Unreadable(why)

    return Paper(place, time, read)


def _read(path, limit):
    with _open(path) as file:
        data = file.read(limit + 1)
    if len(data) > limit:
        raise Unreadable(too_large(limit))
    return data


def _open(path):
    """A plain file, opened to read: no link, no pipe, no device."""
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    try:
        if path.is_symlink():
            raise Unreadable("a symbolic link: hand in the file itself")
        file = os.fdopen(os.open(path, flags | getattr(os, "O_BINARY", 0)), "rb")
    except OSError as error:
        raise Unreadable(f"{error.strerror}: hand it in again") from None
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise Unreadable("no plain file: hand in the notebook itself")
    return file


def too_large(limit):
    return f"larger than {limit / 2**20:g} MB: clear all outputs, save, and hand it in again"


def _is_junk(name):
    return name in JUNK or name.startswith("._")
