"""The command line: `release` for authors, `check` for students, `grade` for teachers."""

import argparse
import sys
from dataclasses import fields
from pathlib import Path

from .grading.limits import Limits


def main(arguments=None):
    """Run one command and return its exit code."""
    parser = argparse.ArgumentParser(prog="attnlearn", description="Exercises about attention.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    release = commands.add_parser("release", help="write the generated notebooks and tables")
    release.add_argument("stems", nargs="*", metavar="STEM", help="such as 03_masks; default all")
    release.add_argument("--check", action="store_true", help="only say what is stale")
    release.add_argument("--root", type=Path, default=Path.cwd(), help="folder with solutions/")
    release.set_defaults(run=_release)

    check = commands.add_parser("check", help="check the answers in notebooks")
    check.add_argument("notebooks", nargs="+", type=Path, metavar="NOTEBOOK")
    check.set_defaults(run=_check)

    _add_grade(commands)

    options = parser.parse_args(arguments)
    try:
        return options.run(options)
    except ModuleNotFoundError as error:
        needs = "grade,book" if options.command == "release" else "grade"
        print(f"error: {error}; it comes with `pip install -e '.[{needs}]'`", file=sys.stderr)
        return 1


def _add_grade(commands):
    grade = commands.add_parser("grade", help="grade submissions, with a secret seed")
    grade.add_argument("submissions", nargs="+", type=Path, help="notebooks, folders, zips")
    grade.add_argument("--assignment", required=True, metavar="STEM", help="such as 03_masks")
    grade.add_argument("--out", required=True, type=Path, metavar="DIR", help="for all results")
    grade.add_argument("--exercises", type=Path, metavar="DIR", help="exercises of your own")
    seed = grade.add_mutually_exclusive_group()
    seed.add_argument("--seed-file", type=Path, metavar="FILE", help="default: OUT/seed.txt")
    seed.add_argument("--seed", metavar="TEXT", help="the secret seed itself")
    grade.add_argument("--sandbox", choices=["L0", "L3"], help="default: the strongest here")
    grade.add_argument("--allow-weak-sandbox", action="store_true", help="grade on trust")
    grade.add_argument("--max-mb", type=float, default=64, help="of one notebook (64)")
    for limit in fields(Limits):
        name = f"--{limit.name.replace('_', '-')}"
        grade.add_argument(
            name, type=limit.type, default=limit.default, help=f"({limit.default:g})"
        )
    grade.set_defaults(run=_grade)


def _release(options):
    from .grading import release

    if not (options.root / "solutions").is_dir():
        print(f"error: there is no folder solutions/ in {options.root}", file=sys.stderr)
        return 1
    try:
        if options.check:
            lines = release.check(options.root, options.stems)
        else:
            lines = release.release(options.root, options.stems)
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    for line in lines:
        print(line)
    return int(options.check and bool(lines))


def _check(options):
    from .grading import selfcheck

    return selfcheck.check(options.notebooks)


def _grade(options):
    from .grading import assignment, grade, sandbox

    limits = Limits(**{limit.name: getattr(options, limit.name) for limit in fields(Limits)})
    box = sandbox.choose(limits, options.sandbox and int(options.sandbox[1:]))
    if box is None:
        print(f"error: sandbox {options.sandbox} does not work on this machine", file=sys.stderr)
        return 1
    if missing := [path for path in options.submissions if not path.exists()]:
        print(f"error: {missing[0]}: no such file or folder", file=sys.stderr)
        return 1
    if box.level < sandbox.ENOUGH and not options.allow_weak_sandbox:
        print(box.refusal(), file=sys.stderr)
        return 1
    try:
        seed = assignment.read_seed(options.seed, options.seed_file, options.out)
        ready = assignment.prepare(options.assignment, options.exercises, seed, box)
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    limit = int(options.max_mb * 2**20)
    done = grade.grade(ready, options.submissions, options.out, limit=limit)
    print(f"{len(done)} submissions, sandbox L{box.level}: {options.out / 'grades.csv'}")
    return int(not done or any(result["status"] == "ungraded" for result in done))


if __name__ == "__main__":
    sys.exit(main())
