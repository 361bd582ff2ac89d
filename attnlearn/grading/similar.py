"""Answers that are alike, found by copydetect: pairs to look at, and never a verdict.

Names, comments and layout play no part. Every run of RUN characters that is left counts, but for
those of the scaffold; a shorter run is found by chance everywhere. Measured on the known answers of
this book, 1 of 216 pairs of right answers that are independent is above LOOK, and so are 85 % of
the 1049 answers that hold one mistake, beside their solution.
"""

import itertools
import re
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from . import notebook
from .exports.grades import spreadsheet

RUN = 15
LOOK = 0.6
SHORT = 150  # characters of an answer's own: below it honest answers are often the same
MOST = 100  # pairs in a report
LONGEST = 200_000  # bytes of one answer: no answer is a book
STYLE = "button { display: none } .row { display: flex; gap: 2em } td { border-top: 1px solid }"


@dataclass
class Likeness:
    """How alike the answers to one task are."""

    task: str
    size: int  # characters of the solution's own, names counted as one
    known: float  # the two known right answers that are most alike
    answers: int = 0
    typical: float = 0.0  # the pair in the middle
    too_long: list = field(default_factory=list)  # keys of students
    pairs: list = field(default_factory=list)  # (one, other, share of each, same text, same code)


def compare(out, exercise, names):
    """Compare the answers in OUT/answers of the students {key: name}; returns a Likeness a task."""
    found = [_task(out, task, names) for task in exercise.tasks.values()]
    notebook.write(out / "similar.csv", _table(found, names))
    return found


def _task(out, task, names):
    folder = out / "answers" / task.id
    there = sorted(path for path in folder.glob("*.py") if path.stem in names)
    paths = [path for path in there if path.stat().st_size <= LONGEST]
    likeness = _yardstick(task)
    likeness.answers = len(paths)
    likeness.too_long = [path.stem for path in there if path not in paths]
    report = out / "similar" / f"{task.id}.html"
    report.unlink(missing_ok=True)
    if len(paths) > 1:
        detector = _detector(paths, folder / "boilerplate" / "scaffold.py")
        everything = list(_pairs(detector))
        likeness.typical = median(min(pair[2:4]) for pair in everything)
        likeness.pairs = [pair for pair in everything if max(pair[2:4]) > LOOK or pair[5]]
        likeness.pairs.sort(key=lambda pair: (-min(pair[2:4]), -max(pair[2:4]), *pair[:2]))
        page = _without_web(detector.generate_html_report("return"))
        notebook.write(report, page.replace("</h1>", f"</h1>\n<p>{_in_words(likeness)}</p>", 1))
    return likeness


def _yardstick(task):
    """The same measure on the solution and the other right answers that the exercise knows."""
    with tempfile.TemporaryDirectory(prefix="known-") as folder:
        paths = []
        for number, text in enumerate([task.blank, task.solved, *(c.source for c in task.right)]):
            paths.append(Path(folder) / f"{number}.py")
            paths[-1].write_text(text, "utf-8")
        detector = _detector(paths[1:], paths[0])
        alike = [min(pair[2:4]) for pair in _pairs(detector) if not pair[5]]
        size = int(detector.file_data[str(paths[1])].token_coverage)
    return Likeness(task.id, size, max(alike, default=0.0))


def _detector(paths, scaffold):
    """copydetect's own detector after its run; every run of RUN characters is found."""
    import matplotlib

    matplotlib.use("agg")
    import copydetect

    class Detector(copydetect.CopyDetector):
        def get_copied_code_list(self):
            return super().get_copied_code_list()[:MOST]

    detector = Detector(
        noise_t=RUN, guarantee_t=RUN, display_t=LOOK, autoopen=False, silent=True, truncate=False
    )
    for path in paths:
        detector.add_file(str(path))
    detector.add_file(str(scaffold), "boilerplate")
    detector.run()
    return detector


def _pairs(detector):
    """(key, key, share of the one found in the other, and back, same text, same but for names)."""
    for (a, one), (b, other) in itertools.combinations(enumerate(detector.test_files), 2):
        first, second = detector.file_data[one], detector.file_data[other]
        shares = (min(1.0, max(0.0, float(share))) for share in detector.similarity_matrix[a, b])
        same = first.raw_code == second.raw_code
        alike = first.filtered_code == second.filtered_code
        yield (Path(one).stem, Path(other).stem, *shares, same, alike)


def _without_web(page):
    """copydetect's page without what it would load from the web."""
    page = re.sub(r"<(link|script)\b[^>]*https?://[^>]*>(</script>)?", "", page)
    return page.replace("<style>", f"<style>{STYLE}", 1)


def _in_words(likeness):
    return (
        f"A usual pair of answers to {likeness.task} is {likeness.typical:.0%} alike: where that "
        "is a lot, likeness tells nothing. The closest two right answers that were written to "
        f"differ are {likeness.known:.0%} alike. Likeness is no proof of copying."
    )


def together(found):
    """{(one, other): number of tasks in which they are alike}, the most first."""
    pairs = (pair[:2] for likeness in found for pair in likeness.pairs)
    return dict(Counter(pairs).most_common())


def _table(found, names):
    shares = ["part of the one in the other", "part of the other in the one"]
    head = ["one", "other", "tasks alike", "task", *shares, "same text", "same but for names"]
    usual = ["length", "known answers", "a usual pair"]
    number = together(found)
    pairs = [(likeness, *pair) for likeness in found for pair in likeness.pairs]
    pairs.sort(key=lambda row: (-number[row[1:3]], row[1:3]))
    rows = []
    for likeness, one, other, *shares, same, alike in pairs:
        row = [names[one], names[other], number[one, other], likeness.task]
        row += [
            *(f"{share:.2f}" for share in shares),
            "yes" if same else "",
            "yes" if alike else "",
        ]
        row += ["short" if likeness.size < SHORT else ""]
        rows.append([*row, f"{likeness.known:.2f}", f"{likeness.typical:.2f}"])
    return spreadsheet([*head, *usual], rows)
