"""`attnlearn classroom`: a workflow that grades on GitHub."""

from pathlib import Path


def add(commands):
    parser = commands.add_parser("classroom", help="make a workflow for GitHub Classroom")
    parser.add_argument("assignment", metavar="STEM", help="such as 03_masks")
    parser.add_argument("--exercises", type=Path, metavar="DIR", help="exercises of your own")
    about = "the template repository that students copy; default: here"
    parser.add_argument("--out", type=Path, default=Path(), metavar="DIR", help=about)
    about = "where its notebook lies there; default: STEM.ipynb"
    parser.add_argument("--notebook", metavar="PATH", help=about)
    about = "the private repository with your own exercises, such as owner/name"
    parser.add_argument("--repository", metavar="NAME", help=about)
    parser.add_argument("--ref", default="main", help="its tag or branch (main)")
    return parser


def run(options):
    from ..grading import assignment, notebook, source
    from ..grading.exports import workflow

    if bool(options.exercises) != bool(options.repository):
        raise ValueError("exercises of your own need both: --exercises and --repository")
    script = assignment.find(options.assignment, options.exercises)
    torch = "torch" in source.imported(script.read_text("utf-8"))
    text = workflow.text(
        options.assignment,
        options.notebook or f"{options.assignment}.ipynb",
        ("grade", "torch") if torch else ("grade",),
        options.repository and (options.repository, options.ref),
    )
    target = options.out / workflow.PATH
    notebook.write(target, text)
    needed = "secrets ATTNLEARN_SEED and ATTNLEARN_TOKEN"
    needed = needed if options.repository else "secret ATTNLEARN_SEED"
    print(f"{target}: commit it to the template repository, and set the {needed}.")
    return 0
