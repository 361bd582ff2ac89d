"""`attnlearn gradescope`: an autograder for Gradescope, ready to be uploaded."""

from pathlib import Path


def add(commands):
    parser = commands.add_parser("gradescope", help="make an autograder for Gradescope")
    parser.add_argument("assignment", metavar="STEM", help="such as 03_masks")
    parser.add_argument("--exercises", type=Path, metavar="DIR", help="exercises of your own")
    parser.add_argument("--out", type=Path, metavar="ZIP", help="default: STEM.zip")
    about = "the secret seed; default: ZIP with the ending .seed.txt, drawn if it is not there"
    parser.add_argument("--seed-file", type=Path, metavar="FILE", help=about)
    about = "grade on trust where the container offers no other user and no Landlock"
    parser.add_argument("--allow-weak-sandbox", action="store_true", help=about)
    return parser


def run(options):
    from ..grading import assignment
    from ..grading.exports import bundle

    target = options.out or Path(f"{options.assignment}.zip")
    seed_file = options.seed_file or target.with_suffix(".seed.txt")
    script = assignment.find(options.assignment, options.exercises)
    if options.seed_file is None and not seed_file.exists():
        assignment.draw_seed(seed_file)
    seed = assignment.read_seed(None, seed_file, None)
    data = bundle.archive(script, seed, options.allow_weak_sandbox)
    target.touch(0o600)  # it holds the seed
    target.write_bytes(data)
    print(f"{target}: upload it as the autograder. Keep {seed_file} secret and safe.")
    return 0
