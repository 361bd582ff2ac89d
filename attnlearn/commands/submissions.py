"""What `grade` and `answers` are both told: the files that were handed in, and for what."""

import sys
from pathlib import Path


def add(parser, out):
    """`out` says what the folder DIR is for."""
    parser.add_argument("submissions", nargs="+", type=Path, help="notebooks, folders, zips")
    parser.add_argument("--assignment", required=True, metavar="STEM", help="such as 03_masks")
    parser.add_argument("--out", required=True, type=Path, metavar="DIR", help=out)
    parser.add_argument("--exercises", type=Path, metavar="DIR", help="exercises of your own")
    parser.add_argument("--max-mb", type=float, default=64, help="of one notebook (64)")


def paths(options):
    """Those that were handed in; ValueError names one that is not there."""
    for path in options.submissions:
        if not path.exists():
            raise ValueError(f"{path}: no such file or folder")
    return options.submissions


def limit(options):
    """The most bytes of one notebook."""
    return int(options.max_mb * 2**20)


def tell_left_out(handed_in):
    from ..grading.listed import some

    if handed_in.left_out:
        print(f"left out, no notebooks: {some(handed_in.left_out)}", file=sys.stderr)
