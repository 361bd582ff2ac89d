"""Zips as learning platforms export them: names are checked, sizes are bounded."""

import stat
import time
import zipfile
from dataclasses import dataclass

MOST = 20_000  # members of one archive
LONGEST, DEEPEST = 255, 30  # of a name, and of folders around it


class ZipError(ValueError):
    """An archive or a member that can't be read; the message says why, and how to mend it."""


@dataclass
class Member:
    names: tuple  # folders and file
    time: float
    at: int  # its number: two members may have one name
    trouble: str = ""


def members(file):
    """The files of an archive; those of a suspicious name or kind carry their trouble."""
    with opened(file) as archive:
        infos = archive.infolist()
    if len(infos) > MOST:
        raise ZipError(too_many())
    files = ((at, info) for at, info in enumerate(infos) if not info.filename.endswith("/"))
    return [_member(info, at) for at, info in files]  # is_dir() fails on an empty name


def read(archive, member, limit):
    """The bytes of a member; whatever its header promises, never more than `limit`."""
    if member.trouble:
        raise ZipError(member.trouble)
    infos = archive.infolist()
    if member.at >= len(infos):
        raise ZipError("its archive has changed: grade again")
    info = infos[member.at]
    if info.flag_bits & 1:
        raise ZipError("an encrypted archive: hand it in without a password")
    try:
        with archive.open(info) as inside:
            data = inside.read(limit + 1)
    except NotImplementedError:
        raise ZipError("packed in a way that is not known: make an ordinary zip") from None
    except Exception as error:  # zipfile and zlib raise much on what was made up
        raise ZipError(f"damaged inside its archive ({error}): hand it in again") from None
    if len(data) > limit:
        size = f"{limit / 2**20:g} MB"
        raise ZipError(f"larger than {size} when unpacked: clear all outputs and save it again")
    return data


def too_many():
    return f"an archive of more than {MOST} files: hand in the notebook itself"


def opened(file):
    try:
        return zipfile.ZipFile(file)
    except Exception as error:
        raise ZipError(f"no archive, or a damaged one ({error}): hand it in again") from None


def _name(info):
    """macOS writes UTF-8 without saying so, and zipfile then reads the letters of old DOS."""
    if info.flag_bits & 0x800:
        return info.filename
    try:
        return info.filename.encode("cp437").decode("utf-8")
    except UnicodeError:
        return info.filename


def _member(info, at):
    raw = _name(info).replace("\\", "/")
    parts = raw.split("/")
    names = tuple(part[-LONGEST:] for part in parts if part not in ("", ".", ".."))[-DEEPEST:]
    trouble = ""
    if ".." in parts or raw.startswith("/") or raw[1:2] == ":":
        trouble = f"its name in the archive leads out of it ({raw[:80]!r}): make a new archive"
    if stat.S_ISLNK(info.external_attr >> 16):
        trouble = "a symbolic link in an archive: hand in the file itself"
    try:
        moment = time.mktime((*info.date_time, 0, 0, -1))
    except (ValueError, OverflowError):
        moment = 0.0
    return Member(names or ("nameless",), moment, at, trouble)
