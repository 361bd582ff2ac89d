"""`attnlearn classroom`: a workflow that grades on GitHub Classroom."""

from pathlib import Path


def add(commands):
    parser = commands.add_parser("classroom", help="make a workflow for GitHub Classroom")
    parser.add_argument("assignment", metavar="STEM", help="such as 03_masks")
    parser.add_argument("--exercises", type=Path, metavar="DIR", help="exercises of your own")
    about = "the template repository that students copy; default: here"
    parser.add_argument("--out", type=Path, default=Path(), metavar="DIR", help=about)
    about = "where its notebook lies there; default: STEM.ipynb"
    parser.add_argument("--notebook", metavar="PATH", help=about)
    about = "the repository with your own exercises, such as owner/name"
    parser.add_argument("--repository", metavar="NAME", help=about)
    parser.add_argument("--ref", help="its tag or branch; default: this version's tag, or main")
    return parser


def run(options):
    from ..grading import assignment, notebook
    from ..grading.exports import workflow

    assignment.find(options.assignment, options.exercises)
    given = {"repository": options.repository, "ref": options.ref}
    if options.repository and not options.ref:
        given["ref"] = "main"
    path = options.notebook or f"{options.assignment}.ipynb"
    text = workflow.text(options.assignment, path, **{k: v for k, v in given.items() if v})
    target = options.out / workflow.PATH
    notebook.write(target, text)
    print(f"{target}: commit it to the template repository, and set the secret ATTNLEARN_SEED.")
    return 0
