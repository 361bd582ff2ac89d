"""`attnlearn check`: a self-check of answers, for students."""

from pathlib import Path


def add(commands):
    parser = commands.add_parser("check", help="check the answers in notebooks")
    parser.add_argument("notebooks", nargs="+", type=Path, metavar="NOTEBOOK")
    return parser


def run(options):
    from ..grading import selfcheck

    return selfcheck.check(options.notebooks)
