"""What was handed in: every file of the given files, folders and zips, read with suspicion.

Nothing is unpacked to disk, no symbolic link is followed, no more than a limit is read.
"""

import functools
import io
import itertools
import os
import re
import stat
import weakref
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from . import zips

JUNK = {"__MACOSX", ".DS_Store", ".ipynb_checkpoints", "__pycache__", ".git", "Thumbs.db"}
NOTEBOOK = re.compile(r"\.ipynb(\W.*)?$", re.I)  # browsers and people add endings
ARCHIVE = re.compile(r"\.zip$", re.I)
OTHERS = re.compile(r"\.(7z|rar|tar|tgz|gz|bz2|xz)$", re.I)
ZIP = b"PK\3\4"  # how one begins, whatever its name


class Unreadable(ValueError):
    """A file that can't be read; the message says why, and how to mend it."""


@dataclass
class Paper:
    """One file that was handed in. `place` holds the names on the way to it, the given one first;
    `read()` gives its bytes or raises Unreadable. An idle one is handed in, but holds no notebook:
    it counts where nothing beside it does. `box` is the place of the zip that it lies in."""

    place: PurePosixPath
    time: float
    read: Callable[[], bytes]
    idle: bool = False
    box: PurePosixPath | None = None

    @property
    def is_notebook(self):
        return bool(NOTEBOOK.search(self.place.name))


def papers(paths, limit):
    """Every file below the given paths, none of them larger than `limit` bytes when read."""
    for path, root in _roots(paths):
        if path.is_dir():
            yield from _folder(path, root, limit)
        else:
            yield from _file(path, root / path.name, limit)


def _roots(paths):
    """(path, the name of its folder), with as many folders around it as tell it from others."""
    folders = [path.resolve() if path.is_dir() else path.absolute().parent for path in paths]
    names, left, depth = {}, set(folders), 1
    while left:
        often = Counter(folder.parts[-depth:] for folder in left)
        alone = [folder for folder in left if often[folder.parts[-depth:]] == 1]
        names |= {folder: PurePosixPath(" ".join(folder.parts[-depth:])) for folder in alone}
        left, depth = left.difference(alone), depth + 1
    return zip(paths, map(names.get, folders), strict=True)


def _folder(folder, root, limit):
    troubles = []
    for at, folders, files in os.walk(folder, onerror=troubles.append, followlinks=False):
        links = [name for name in folders if os.path.islink(os.path.join(at, name))]
        folders[:] = sorted(name for name in folders if not _is_junk(name) and name not in links)
        here = root / Path(at).relative_to(folder).as_posix()
        names = sorted(name for name in [*files, *links] if not _is_junk(name))
        if NOTEBOOK.search(here.name) and not names and not folders:
            yield _unreadable(here, 0.0, "an empty folder: hand in the notebook itself")
        for name in names:
            yield from _file(Path(at, name), here / name, limit)
    for trouble in troubles:
        place = root / Path(trouble.filename).relative_to(folder).as_posix()
        yield _unreadable(place, 0.0, f"{trouble.strerror}: hand it in again", idle=True)


def _file(path, place, limit):
    try:
        time = path.lstat().st_mtime
    except OSError as error:  # it was there a moment ago
        yield _unreadable(place, 0.0, f"{error.strerror}: hand it in again")
        return
    if ARCHIVE.search(path.name) or (NOTEBOOK.search(path.name) and _begins_as_zip(path)):
        yield from _archive(lambda: _open(path), place, time, limit)
    elif OTHERS.search(path.name):
        yield _of_another_kind(place, time)
    else:
        yield Paper(place, time, lambda: _read(path, limit))


def _of_another_kind(place, time):
    return _unreadable(place, time, "an archive, but no zip: hand in the .ipynb file", idle=True)


def _begins_as_zip(path):
    try:
        with _open(path) as file:
            return file.read(len(ZIP)) == ZIP
    except (Unreadable, OSError):
        return False


def _archive(opened, place, time, limit):
    """The files in a zip, or the zip itself as one file that can't be read."""
    found = list(itertools.islice(_inside(opened, place, time, limit), zips.MOST + 1))
    if len(found) > zips.MOST:  # with those of the zips in it
        found = [_unreadable(place, time, zips.too_many())]
    yield from found


def _inside(opened, place, time, limit, depth=0):
    try:
        with opened() as file:
            members = zips.members(file)
    except (Unreadable, zips.ZipError) as error:
        yield _unreadable(place, time, str(error))
        return
    members = [member for member in members if not any(map(_is_junk, member.names))]
    box = place.with_suffix("") if place.stem.strip(".") else place
    for member in members:
        inside = box.joinpath(*member.names)
        read = _of_zip(opened, member, limit)
        if ARCHIVE.search(member.names[-1]) and depth == 0:
            yield from _inside(_in_memory(read), inside, member.time, limit, 1)
        elif OTHERS.search(member.names[-1]):
            yield _of_another_kind(inside, member.time)
        else:
            yield Paper(inside, member.time, read, box=box)
    if not members:
        yield _unreadable(place, time, "an empty archive: hand in the notebook itself")
    elif not any(_may_hold_work(member.names[-1]) for member in members):
        why = "an archive without a notebook: hand in the .ipynb file"
        yield _unreadable(place, time, why, idle=True)


def _may_hold_work(name):
    return bool(NOTEBOOK.search(name) or ARCHIVE.search(name) or OTHERS.search(name))


def _of_zip(opened, member, limit):
    """The archive is opened again when its file is read: no class is held in memory."""

    def read():
        try:
            return zips.read(_kept_open(opened), member, limit)
        except zips.ZipError as error:
            raise Unreadable(str(error)) from None

    return read


@functools.lru_cache(maxsize=2)
def _kept_open(opened):
    """The last archives, one in the other: to open one for each file in it would take too long."""
    file = opened()
    archive = zips.opened(file)
    weakref.finalize(archive, file.close)
    return archive


def _in_memory(read):
    return lambda: io.BytesIO(read())


def _unreadable(place, time, why, idle=False):
    def read():
        raise Unreadable(why)

    return Paper(place, time, read, idle)


def _read(path, limit):
    try:
        with _open(path) as file:
            data = file.read(limit + 1)
    except OSError as error:  # a disk or a network that fails
        raise Unreadable(f"{error.strerror}: hand it in again") from None
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
