"""Who handed in what, by the names that learning platforms give to files and folders.

Canvas: ``doejane_LATE_101_7001_03_masks.ipynb``, where the numbers are user and upload, or
``anon_b4Xk9_7001_03_masks.ipynb``.
Moodle: ``Jane Doe_101_assignsubmission_file_/03_masks.ipynb``, or one name without the folder.
Blackboard: ``Masks_jdoe_attempt_2026-11-03-10-30-00_03_masks.ipynb``.
Brightspace: ``101-7 - Jane Doe - Nov 3, 2026 1030 AM - 03_masks.ipynb``, or such a folder.
Sakai: ``Doe, Jane(jdoe)/Submission attachment(s)/03_masks.ipynb``.
Gradescope: ``submission_7001/03_masks.ipynb``, the names in ``submission_metadata.yml``.
"""

import re
from collections import defaultdict
from contextlib import suppress
from datetime import datetime
from itertools import takewhile

from . import copies

GRADESCOPE = re.compile(r"submission_(?P<id>\d+)(/|$)")
LIST = "submission_metadata.yml"  # Gradescope's, of names
MOST_LISTS = 20
# Names end as early as can be, and none begins after Canvas's: what follows is the student's own.
NO_CANVAS = r"(?![^_/]+_(LATE_)?\d+_\d+_)"
MOODLE = re.compile(rf"{NO_CANVAS}(?P<name>[^/]+?)_(?P<id>\d+)_assignsubmission_[a-z]+")
CANVAS = re.compile(  # a name has a letter: a date is none
    r"((?P<name>(?=[^_/]*[^\W\d_])[^_/]+?)(_LATE)?_(?P<id>\d+)|(LATE_)?(?P<anon>anon_[^\W_]{5}))"
    r"_(?P<when>\d+)_(?P<file>[^/]+)"
)
BLACKBOARD = re.compile(
    r"(?P<head>[^/]+?)_(attempt|poging|versuch|intento|tentativ[aeo])"
    r"_(?P<when>\d{4}(-\d\d){5})[_.]",
    re.I,
)
BRIGHTSPACE = re.compile(
    r"(?P<id>\d+)-\d+ - (?P<name>[^/]+?) ?- (?P<when>[^/-]*\b\d{4}\b[^/-]*?) ?(- |/)"
)
SAKAI = re.compile(
    rf"{NO_CANVAS}(?P<name>[^/]+?)\((?P<id>[^/()]+)\)[/_]Submission attachment\(s\)[/_]"
)
ANYWHERE = (GRADESCOPE, MOODLE)
BELOW = (BLACKBOARD, BRIGHTSPACE, SAKAI, CANVAS)  # the first name may be a folder of the teacher's


class Names:
    """What the names of these papers tell, seen together."""

    def __init__(self, papers, assignment):
        self.assignment = assignment.casefold()
        self.found = {paper.place: _outermost(paper.place) for paper in papers}
        self.people = _gradescope(papers, self.found)
        self.uploads, heads = defaultdict(set), []
        for match in filter(None, self.found.values()):
            if match.re is CANVAS:
                self.uploads[match["id"], match["when"]].add(copies.stem(match["file"]))
            elif match.re is BLACKBOARD:
                heads.append(match["head"].split("_")[:-1])
        # how many words the title has: there may be a _ in it and in the names of users
        self.title = len(
            [*takewhile(lambda words: len(set(words)) == 1, zip(*heads, strict=False))]
        )

    def student(self, place):
        """(name, id), or None where no platform has named a file."""
        match = self._match(place)
        if match is None:
            return None
        if match.re is GRADESCOPE:
            return self.people.get(match["id"], match[0].strip("/")), match["id"]
        if match.re is BLACKBOARD:
            return "_".join(match["head"].split("_")[self.title :]), ""
        if match.re is CANVAS and match["anon"]:
            return match["anon"], ""
        return match["name"], match["id"]

    def when(self, place):
        """The moment or number of an upload, as text in whose order they came; "": not told."""
        match = self._match(place)
        when = match.groupdict().get("when", "") if match else ""
        return _moment(when) if match and match.re is BRIGHTSPACE else when.zfill(20)

    def _match(self, place):
        match = self.found[place]
        if match and match.re is CANVAS and self._is_of_no_canvas(match):
            return None
        return match

    def _is_of_no_canvas(self, match):
        """`lab_3_03_masks_doe`, or `hw_3_1_doe` and `hw_3_1_roe`: an upload is one file."""
        about = f"{match['when']}_{match['file']}".casefold()
        files = self.uploads[match["id"], match["when"]]
        return about.startswith(self.assignment) or len(files) > 1


def _outermost(place):
    """What counts: the names within were given by the student, maybe those of another."""
    for at in range(len(place.parts)):
        text = "/".join(place.parts[at:])
        for pattern in ANYWHERE + (BELOW if at else ()):
            if match := pattern.match(text):
                return match
    return None


def _moment(text):
    """`Nov 3, 2026 1030 AM`, so that it sorts; in another language the file's own time counts."""
    text = re.sub(r"(\d\d) ([AP]M)$", r":\1 \2", text)
    with suppress(ValueError):
        return datetime.strptime(text, "%b %d, %Y %I:%M %p").isoformat()
    return ""


def _gradescope(papers, found):
    """{number of a submission: names} from the lists beside the folders.

    Somebody who hands in a zip can put thousands of lists into it: few are read.
    """
    numbers = {match["id"] for match in found.values() if match and match.re is GRADESCOPE}
    lists = {paper.place: paper for paper in papers if numbers and _is_list(paper.place)}
    people = {}
    for place in sorted(lists, key=lambda place: len(place.parts))[:MOST_LISTS]:
        with suppress(ValueError):
            own = _listed(lists[place].read().decode("utf-8", "replace"), numbers)
            people = {number: " and ".join(names) for number, names in own.items()} | people
    return people


def _is_list(place):
    return place.name == LIST and not any(map(GRADESCOPE.match, place.parts))


def _listed(text, numbers):
    """{number: names} for these numbers."""
    found, number = {}, None
    for match in re.finditer(r"^submission_(\d+):|^[ -]*:name: (.+)$", text, re.M):
        number = match[1] or number
        if match[2] and number in numbers:
            found.setdefault(number, []).append(match[2].strip().strip("'\""))
    return found
