"""`attnlearn answers`: the answers as files of Python, and those that are alike."""

import sys
from dataclasses import dataclass

from . import submissions
from .table import show

FEW = 10  # pairs on the screen


@dataclass
class Exercise:
    """What finding answers needs of an exercise; nothing of it is run."""

    stem: str
    pristine: dict
    tables: dict


def add(commands):
    parser = commands.add_parser("answers", help="the answers as files, and those that are alike")
    submissions.add(parser, out="for DIR/answers")
    parser.add_argument("--compare", action="store_true", help="compare them with copydetect")
    return parser


def run(options):
    from ..grading import answers, assignment, bank, release, source
    from ..grading.handed_in import work

    paths, limit = submissions.paths(options), submissions.limit(options)
    exercise = source.read(assignment.find(options.assignment, options.exercises))
    given = bank.given_names(exercise)
    tables = {
        task.id: {
            "blank": task.blank,
            "defines": task.defines,
            "given": given,
            "check": task.check.source,
        }
        for task in exercise.tasks.values()
    }
    ready = Exercise(options.assignment, release.exercise_notebook(exercise), tables)
    names = {}
    handed_in = work.collect(paths, ready, limit)
    submissions.tell_left_out(handed_in)
    for who, key, papers in handed_in.students:
        own = work.choose(who, key, papers, ready)
        names[key] = f"{who.name} ({who.id})" if who.id else who.name
        try:
            answers.write(options.out, ready, own)
        except Exception as error:  # a fault of ours; the others go on
            own.trouble = f"{type(error).__name__}: {error}"
        if own.trouble:
            print(f"{names[key]}: no answers, {own.trouble}", file=sys.stderr)
    print(f"answers of {len(names)} students: {options.out / 'answers'}")
    return _compare(options.out, exercise, names) if options.compare else int(not names)


def _compare(out, exercise, names):
    from ..grading import similar

    try:
        found = similar.compare(out, exercise, names)
    except ModuleNotFoundError as error:
        print(f"error: {error}; it comes with `pip install copydetect`", file=sys.stderr)
        return 1
    head = ["task", "answers", "length", "known answers", "a usual pair", "pairs to look at"]
    show(head, [_row(likeness) for likeness in found])
    for likeness in found:
        for key in likeness.too_long:
            print(f"{likeness.task}: the answer of {names[key]} is too long to compare")
    most = [pair for pair in similar.together(found).items() if pair[1] > 1]
    if most:
        print("\nAlike in several tasks, which says more than one task does:")
        show(
            ["tasks", "one", "other"],
            [[number, names[a], names[b]] for (a, b), number in most[:FEW]],
        )
        if len(most) > FEW:
            print(f"and {len(most) - FEW} pairs more")
    print(
        "\nlength: characters of the solution that are not in the scaffold, each name counted as "
        "one.\nknown answers: how alike the closest two right answers are that were written to "
        f"differ.\npairs to look at: at least {similar.LOOK:.0%} of one answer is in the other, "
        "whatever its names.\n\n"
        "Likeness is no proof of copying. A short answer says little: two honest students often "
        "write\nthe same three lines, and the same mistake makes answers alike. Look at these "
        "pairs, and where\na usual pair is that alike, at no pair of that task.\n\n"
        f"{out / 'similar.csv'} lists the pairs, {out / 'similar'} shows them side by side."
    )
    return 0


def _row(likeness):
    from ..grading import similar

    short = ", short" if likeness.size < similar.SHORT else ""
    usual = f"{likeness.typical:.0%}" if likeness.answers > 1 else "-"
    row = [likeness.task, likeness.answers, f"{likeness.size}{short}", f"{likeness.known:.0%}"]
    return [*row, usual, len(likeness.pairs)]
