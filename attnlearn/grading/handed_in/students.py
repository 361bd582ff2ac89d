"""Who handed in which file: the names that learning platforms give to files and folders.

Canvas: ``doejane_LATE_101_7001_03_masks.ipynb``, where the numbers are user and upload.
Moodle: ``Jane Doe_101_assignsubmission_file_/03_masks.ipynb``, or one name without the folder.
Gradescope: ``submission_7001/03_masks.ipynb``, the names in ``submission_metadata.yml``.
Others: the name of the file, or of the folder where the file is named after the assignment.
"""

import hashlib
import re
import sys
import unicodedata
from collections import Counter
from dataclasses import dataclass

from .inbox import ARCHIVE, NOTEBOOK, OTHERS

MOODLE = re.compile(r"(?P<name>.+)_(?P<id>\d+)_assignsubmission_(file|onlinetext)")
CANVAS = re.compile(  # a name has a letter: a date is none
    r"(?P<name>(?=[^_]*[^\W\d_])[^_]+?)(_LATE)?_(?P<id>\d+)_(?P<upload>\d+)_."
)
GRADESCOPE = re.compile(r"submission_(?P<id>\d+)$")
LIST = "submission_metadata.yml"  # Gradescope's, of names
COPY = re.compile(r"([ _-]*\((\d+)\)|[ -]+Copy ?(\d*))+$", re.I)
COPY_OF = re.compile(r"^(Copy of )+", re.I)  # Colab's and Google Drive's
# A word of a file's name that is no name of a student's.
VERSION = re.compile(
    r"(v|ver|version|final|draft|new|old|last|fixed|solved|solutions?|answers?|submission|mine|my"
    r"|done|copy|checkpoint)?\d{0,2}",
    re.I,
)


@dataclass(frozen=True)
class Student:
    """A student; two of one name differ by the platform's id, or by where their files lay."""

    name: str
    id: str = ""
    place: str = ""


def keys(students):
    """{student: a name for files}, unique on every file system; other scripts stay as they are."""
    found, taken = {}, set()
    for who in students:
        text = "-".join(filter(None, (who.name, who.id)))
        key = _cut(re.sub(r"[^\w.-]+", "-", text).strip("-._")) or "student"
        if key != text or who.place or key.casefold() in taken:
            about = f"{who.name}/{who.id}/{who.place}".encode("utf-8", "surrogatepass")
            key = f"{key}-{hashlib.sha256(about).hexdigest()[:6]}"
        found[who] = key
        taken.add(key.casefold())
    return found


def _cut(text, longest=120):
    """No file system takes more than 255 bytes, and endings are to come; some take no 山."""
    system = sys.getfilesystemencoding()
    text = text.encode(system, "ignore").decode(system)
    return text[:60].encode()[:longest].decode(errors="ignore")


def by_student(papers, assignment):
    """{student: papers, the latest first}; files of no student's own are left out."""
    papers = list(papers)
    people = _gradescope(papers)
    notebooks = Counter(paper.place.parent for paper in papers if _is_work(paper))
    papers = [p for p in papers if not p.idle or _is_top(p) or notebooks[p.place.parent] != 1]
    notebooks.update(paper.place.parent for paper in papers if paper.idle)
    named = _homes(filter(_is_work, papers), assignment)
    found = {}
    for paper in papers:
        who = _platform(paper.place, people, assignment)
        if who is None and (paper.idle or _is_work(paper)):
            alone = not _is_top(paper) and (
                notebooks[paper.place.parent] == 1 or paper.place.parent in named
            )
            who = Student(_plain(paper.place, assignment, alone))
        if who:
            found.setdefault(who, []).append(paper)
    return {who: sorted(own, key=_age, reverse=True) for who, own in _apart(found).items()}


def _is_top(paper):
    return len(paper.place.parts) <= 2


def _homes(papers, assignment):
    """Folders with files named after the assignment, but for those that name several students."""
    found = {}
    for paper in papers:
        if assignment.casefold() in paper.place.name.casefold():
            words = re.split(r"[\W_]+", _own_name(paper.place.name, assignment))
            is_version = all(map(VERSION.fullmatch, words))
            found.setdefault(paper.place.parent, set()).add("" if is_version else tuple(words))
    return {home for home, names in found.items() if len(names) == 1 or "" in names}


def _platform(place, people, assignment):
    """The student that a platform's name tells, or None.

    The outermost name counts: what lies within has been named by the student, maybe as another.
    """
    for at, part in enumerate(place.parts):
        if match := GRADESCOPE.match(part):
            return people.get(match["id"]) or Student(part, match["id"])
        if match := MOODLE.match(part):
            return Student(clean(match["name"]), match["id"])
        match = CANVAS.match(part) if at else None  # the first may be a folder of the teacher's
        if match and not _begins(part[match.start("upload") :], assignment):
            return Student(clean(match["name"]), match["id"])
    return None


def _begins(text, assignment):
    """`lab_3_03_masks_doe` is no name of Canvas, where it is about `03_masks`."""
    return text.casefold().startswith(assignment.casefold())


def _plain(place, assignment, folder_is_student):
    """The name in the file's name, or the folder's where the file has none of its own."""
    stem = _stem(place.name)
    name = _own_name(place.name, assignment)
    if name and not folder_is_student:
        return clean(name)
    folders = [part for part in place.parts[:-1] if part not in ("/", "exercises", assignment)]
    return clean(folders[-1] if folders else stem)


def _own_name(name, assignment):
    """What a file's name says besides the assignment."""
    return re.sub(re.escape(assignment), "", _stem(name), flags=re.I).strip(" _-.")


def _stem(name):
    for ending in (NOTEBOOK, ARCHIVE, OTHERS, NOTEBOOK, OTHERS):  # x.ipynb.zip, x.tar.gz
        name = ending.sub("", name)
    return COPY_OF.sub("", COPY.sub("", name))


def _apart(found):
    """One plain name in several folders may be several people: both are graded."""
    apart = {}
    for who, papers in found.items():
        folders = {str(paper.place.parent) for paper in papers}
        if who.id or len(folders) == 1:
            apart[who] = papers
            continue
        for paper in papers:
            own = Student(who.name, "", str(paper.place.parent))
            apart.setdefault(own, []).append(paper)
    return apart


def _age(paper):
    """Sorts from the oldest file to the latest."""
    canvas = [int(m["upload"]) for part in paper.place.parts if (m := CANVAS.match(part))]
    copy = COPY.search(paper.place.stem)
    number = next((int(n) for n in (copy.groups()[1:] if copy else ()) if n), 0)
    return (canvas[0] if canvas else 0, paper.time, number, str(paper.place))


def _gradescope(papers):
    """{number of a submission: student} from the list beside the folders."""
    people = {}
    for paper in papers:
        if paper.place.name != LIST or any(map(GRADESCOPE.match, paper.place.parts)):
            continue
        try:
            text = paper.read().decode("utf-8", "replace")
        except ValueError:
            continue
        for block in re.split(r"^(?=submission_\d+:)", text, flags=re.M):
            if number := re.match(r"submission_(\d+):", block):
                names = re.findall(r"^[ -]*:name: (.+)$", block, re.M)
                if names:
                    names = [clean(name.strip().strip("'\"")) for name in names]
                    people[number[1]] = Student(" and ".join(names), number[1])
    return people


def _is_work(paper):
    return bool(NOTEBOOK.search(paper.place.name) or ARCHIVE.search(paper.place.name))


def _readable(name):
    """A name whose bytes the file system could not read as text: most are of old Windows."""
    try:
        name.encode()
        return name
    except UnicodeEncodeError:
        data = name.encode("utf-8", "surrogateescape" if _is_escaped(name) else "replace")
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data.decode("cp1252", "replace")


def _is_escaped(name):
    return all("\udc80" <= c <= "\udcff" for c in name if unicodedata.category(c) == "Cs")


def clean(name, longest=120):
    """A name without control characters, which no table and no terminal should meet."""
    name = " ".join(unicodedata.normalize("NFC", _readable(name)).split())
    kept = (c for c in name if unicodedata.category(c) not in ("Cc", "Cf", "Cs"))
    return "".join(kept)[:longest].strip() or "nameless"
