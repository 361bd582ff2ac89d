"""`attnlearn grade`: official grades under a secret seed, for teachers."""

import sys
from dataclasses import fields
from pathlib import Path

from ..grading.isolation.limits import Limits


def add(commands):
    parser = commands.add_parser("grade", help="grade submissions, with a secret seed")
    parser.add_argument("submissions", nargs="+", type=Path, help="notebooks, folders, zips")
    parser.add_argument("--assignment", required=True, metavar="STEM", help="such as 03_masks")
    parser.add_argument("--out", required=True, type=Path, metavar="DIR", help="for all results")
    parser.add_argument("--exercises", type=Path, metavar="DIR", help="exercises of your own")
    seed = parser.add_mutually_exclusive_group()
    seed.add_argument("--seed-file", type=Path, metavar="FILE", help="default: OUT/seed.txt")
    seed.add_argument("--seed", metavar="TEXT", help="the secret seed itself")
    parser.add_argument("--sandbox", choices=["L0", "L3"], help="default: the strongest here")
    parser.add_argument("--allow-weak-sandbox", action="store_true", help="grade on trust")
    parser.add_argument("--max-mb", type=float, default=64, help="of one notebook (64)")
    for limit in fields(Limits):
        name = f"--{limit.name.replace('_', '-')}"
        parser.add_argument(
            name, type=limit.type, default=limit.default, help=f"({limit.default:g})"
        )
    return parser


def run(options):
    from ..grading import assignment, grade
    from ..grading.isolation import sandbox

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
