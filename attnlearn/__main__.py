"""The command line: `attnlearn release` for authors, `attnlearn check` for students."""

import argparse
import sys
from pathlib import Path


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

    options = parser.parse_args(arguments)
    try:
        return options.run(options)
    except ModuleNotFoundError as error:
        needs = "grade" if options.command == "check" else "grade,book"
        print(f"error: {error}; it comes with `pip install -e '.[{needs}]'`", file=sys.stderr)
        return 1


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


if __name__ == "__main__":
    sys.exit(main())
