"""Who handed in which file: by a platform's names, else by those of files and folders.

The name is that of the file, or of the folder where the file is named after the assignment.
"""

import hashlib
import re
import sys
import unicodedata
from collections import Counter
from dataclasses import dataclass

from . import copies, platforms
from .inbox import ARCHIVE, NOTEBOOK

# A word of a file's name that is no name of a student's.
VERSION = re.compile(
    r"(v|ver|version|final|draft|new|old|last|fixed|solved|solutions?|answers?|submission|mine|my"
    r"|done|copy|checkpoint|untitled|scratch|tests?|notes|try)?\d{0,2}",
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
            digest = hashlib.sha256(about).hexdigest()
            longer = (f"{key}-{digest[:n]}" for n in range(6, len(digest)))
            key = next(name for name in longer if name.casefold() not in taken)
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
    names = platforms.Names(papers, assignment)
    told, plain = {}, []
    for paper in papers:
        if who := names.student(paper.place):
            told.setdefault(Student(clean(who[0]), who[1]), []).append(paper)
        elif paper.idle or _is_work(paper):
            plain.append(paper)
    for who, own in _apart(_by_plain_name(plain, assignment)).items():
        if own[0].place.parent not in {p.place.parent for p in told.get(who, own)}:
            who = Student(who.name, "", str(own[0].place.parent))  # two people, perhaps
        told.setdefault(who, []).extend(own)

    def age(paper):
        number = copies.number(paper.place.stem)
        return names.when(paper.place), paper.time, number, str(paper.place)

    return {who: sorted(own, key=age, reverse=True) for who, own in told.items()}


def _by_plain_name(papers, assignment):
    """{student: papers} where no platform has named them."""
    tops = _tops(papers)
    notebooks = Counter(paper.place.parent for paper in papers if _is_work(paper))
    papers = [
        p for p in papers if not p.idle or p.place.parent in tops or notebooks[p.place.parent] != 1
    ]
    notebooks.update(paper.place.parent for paper in papers if paper.idle)
    works = [paper for paper in papers if _is_work(paper)]
    homes, crowds = _homes(works, assignment), _crowds(works, assignment)
    crowds -= {home for home in homes if any(one.parent == home.parent for one in homes - {home})}
    named = homes - crowds
    owners = _owners(set(notebooks), {paper.box for paper in papers})
    nameless = Counter(p.place.parent for p in papers if not _own_name(p.place.name, assignment))
    found = {}
    for paper in papers:
        file, home = paper.place.name, paper.place.parent
        several = home in crowds or (tops == {home} and nameless[home] > 1)
        if several and not _own_name(file, assignment):
            name = clean(file)  # of somebody else, perhaps
        else:
            alone = home not in tops and (notebooks[home] == 1 or home in named)
            name = _plain(file, owners.get(home, home), assignment, alone)
        found.setdefault(Student(name), []).append(paper)
    return found


def _tops(papers):
    """The folders of a class and not of a student: those given, and a zip with all files in it."""
    homes = {paper.place.parent for paper in papers}
    boxes = {paper.box for paper in papers if paper.box}
    if len(papers) > 1 and len(homes) == 1 and homes == boxes:
        return homes
    return {home for home in homes if len(home.parts) <= 1}


def _homes(papers, assignment):
    """Folders with files named after the assignment, but for those that name several students."""
    found = {}
    for paper in papers:
        if assignment.casefold() in paper.place.name.casefold():
            words = _words(_own_name(paper.place.name, assignment))
            found.setdefault(paper.place.parent, set()).add("" if _is_version(words) else words)
    return {home for home, names in found.items() if len(names) == 1 or "" in names}


def _crowds(papers, assignment):
    """Folders with files that name at least two students, whatever else lies there."""
    found = {}
    for paper in papers:
        name = _own_name(paper.place.name, assignment)
        if not _is_version(_words(name)):
            found.setdefault(paper.place.parent, set()).add(name)
    return {home for home, names in found.items() if len(names) > 1}


def _owners(homes, boxes):
    """{folder: the zip or folder of its student}, where the student has named it within.

    Such zips and folders lie side by side, with work in one folder each. Folders are taken for
    those of students only where several hold the same.
    """
    inside, beside = {}, {}
    for home in homes:
        for folder in (home, *home.parents):
            inside.setdefault(folder, set()).add(home)
    for folder in inside:
        if folder.name:
            beside.setdefault(folder.parent, []).append(folder)
    found = {}
    for place, children in beside.items():
        only = {child: next(iter(inside[child])) for child in children if len(inside[child]) == 1}
        if len(only) < len(children) or len(children) + (place in homes) < 2:
            continue
        alike = Counter(home.relative_to(child) for child, home in only.items())
        for child, home in only.items():
            if child in boxes or alike[home.relative_to(child)] > 1:
                found[home] = child
    return found


def _plain(file, folder, assignment, folder_is_student):
    """The name in the file's name, or the folder's where the file has none of its own."""
    name = _own_name(file, assignment)
    if name and not folder_is_student:
        return clean(name)
    folders = [part for part in folder.parts if part not in ("/", "exercises", assignment)]
    return clean(folders[-1] if folders else copies.stem(file))


def _own_name(name, assignment):
    """What a file's name says besides the assignment."""
    return re.sub(re.escape(assignment), "", copies.stem(name), flags=re.I).strip(" _-.")


def _words(name):
    return tuple(re.split(r"[\W_]+", name))


def _is_version(words):
    """Is no student's name among them?"""
    return all(map(VERSION.fullmatch, words))


def _apart(found):
    """One plain name in several folders may be several people: both are graded."""
    apart = {}
    for who, papers in found.items():
        folders = {str(paper.place.parent) for paper in papers}
        if len(folders) == 1:
            apart[who] = papers
            continue
        for paper in papers:
            own = Student(who.name, "", str(paper.place.parent))
            apart.setdefault(own, []).append(paper)
    return apart


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
