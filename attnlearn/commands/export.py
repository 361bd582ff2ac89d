"""`attnlearn export`: results in the form of a learning platform."""

import os
from pathlib import Path

ROSTERS = ("canvas", "moodle")
SINGLE = ("gradescope", "classroom")


def add(commands):
    parser = commands.add_parser("export", help="results for Canvas, Moodle, Gradescope, CI")
    parser.add_argument("out", type=Path, metavar="OUT", help="the folder of `grade --out`")
    forms = [*ROSTERS, "junit", *SINGLE]
    parser.add_argument("--to", required=True, choices=forms)
    about = "what the platform exports: Canvas's grades, Moodle's grading worksheet or participants"
    parser.add_argument("--roster", type=Path, metavar="FILE", help=about)
    about = 'the assignment\'s heading in Canvas, such as "Masks (1234)"'
    parser.add_argument("--column", metavar="NAME", help=about)
    about = "which attempt of each student counts (latest)"
    parser.add_argument("--policy", choices=["latest", "best"], default="latest", help=about)
    parser.add_argument("--student", metavar="KEY", help="one result, for gradescope, classroom")
    about = "where to write; default: OUT/FORM.csv, .xml or .json, in a job on GitHub its outputs"
    parser.add_argument("--file", type=Path, metavar="FILE", help=about)
    return parser


def run(options):
    from ..grading import notebook

    results, told = _results(options)
    if options.to == "classroom" and not options.file and "GITHUB_OUTPUT" in os.environ:
        return _tell_github(_one(options, results))
    text, remarks, ending = _made(options, results)
    target = options.file or options.out / f"{options.to}.{ending}"
    notebook.write(target, text)
    for remark in [*told, *remarks]:
        print(remark)
    print(target)
    return 0


def _results(options):
    """(results, remarks): of the last run, or the best that the gradebook knows."""
    from ..grading.exports import stored
    from ..grading.gradebook import Gradebook, counting

    results = stored.results(options.out)
    if options.policy == "latest":
        return results, []
    with Gradebook.read(options.out / "gradebook.sqlite") as book:
        return counting.best(book, results)


def _tell_github(result):
    from ..grading.exports import classroom

    classroom.append(result, os.environ["GITHUB_OUTPUT"], os.environ.get("GITHUB_STEP_SUMMARY"))
    return 0


def _made(options, results):
    """(text, remarks, ending of its file)."""
    from ..grading.exports import canvas, classroom, gradescope, junit, moodle

    if options.to in ROSTERS and options.roster is None:
        raise ValueError(f"--to {options.to} needs --roster: the list that the platform exports")
    if options.to == "canvas":
        return *canvas.table(results, options.roster, options.column), "csv"
    if options.to == "moodle":
        return *moodle.table(results, options.roster), "csv"
    if options.to == "junit":
        return junit.xml(results), [], "xml"
    one = _one(options, results)
    if options.to == "gradescope":
        return gradescope.text(one), [], "json"
    return classroom.line(one), [], "txt"


def _one(options, results):
    wanted = (options.student or "").casefold()
    chosen = [r for r in results if wanted in ("", r["key"].casefold(), r["student"].casefold())]
    if len(chosen) == 1:
        return chosen[0]
    names = ", ".join(result["key"] for result in results[:5]) + (", …" if len(results) > 5 else "")
    if options.student and not chosen:
        raise ValueError(f"no student {options.student!r}; there are {names}")
    raise ValueError(f"--to {options.to} is for one result: say --student, one of {names}")
