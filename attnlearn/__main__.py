"""The command line of authors, students and teachers."""

import argparse
import sys

from .commands import answers, check, classroom, export, grade, gradebook, gradescope, release

COMMANDS = [release, check, grade, export, gradescope, classroom, gradebook, answers]


def main(arguments=None):
    """Run one command and return its exit code."""
    parser = argparse.ArgumentParser(prog="attnlearn", description="Exercises about attention.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for command in COMMANDS:
        command.add(commands).set_defaults(run=command.run)
    options = parser.parse_args(arguments)
    for stream in (sys.stdout, sys.stderr):  # no name should end a run, wherever its lines go
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        return options.run(options)
    except ModuleNotFoundError as error:
        needs = "grade,book" if options.command == "release" else "grade"
        print(f"error: {error}; it comes with `pip install -e '.[{needs}]'`", file=sys.stderr)
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
