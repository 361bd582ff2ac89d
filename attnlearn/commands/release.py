"""`attnlearn release`: the generated notebooks and tables, for authors."""

from pathlib import Path


def add(commands):
    parser = commands.add_parser("release", help="write the generated notebooks and tables")
    parser.add_argument("stems", nargs="*", metavar="STEM", help="such as 03_masks; default all")
    parser.add_argument("--check", action="store_true", help="only say what is stale")
    parser.add_argument("--root", type=Path, default=Path.cwd(), help="folder with solutions/")
    return parser


def run(options):
    from ..grading import release

    if not (options.root / "solutions").is_dir():
        raise ValueError(f"there is no folder solutions/ in {options.root}")
    make = release.check if options.check else release.release
    lines = make(options.root, options.stems)
    for line in lines:
        print(line)
    return int(options.check and bool(lines))
