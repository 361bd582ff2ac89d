"""`attnlearn grade`: official grades under a secret seed, for teachers."""

import argparse
import os
import re
import sys
from dataclasses import fields
from functools import partial
from pathlib import Path

from ..grading.isolation.limits import Limits
from . import submissions


def add(commands):
    parser = commands.add_parser("grade", help="grade submissions, with a secret seed")
    submissions.add(parser, out="for all results")
    seed = parser.add_mutually_exclusive_group()
    seed.add_argument("--seed-file", type=Path, metavar="FILE", help="default: OUT/seed.txt")
    seed.add_argument("--seed", metavar="TEXT", help="the secret seed itself")
    parser.add_argument(
        "-j", "--jobs", type=jobs, default=cores(), metavar="N", help="workers (one for each core)"
    )
    about = "workers of a Dask scheduler; tcp://… sends seed and submissions in the clear, tls://…"
    parser.add_argument("--dask", metavar="ADDRESS", help=f"{about} does not")
    for name in ("ca", "cert", "key"):
        parser.add_argument(f"--tls-{name}", type=Path, metavar="FILE", help="for tls://")
    parser.add_argument(
        "--sandbox", choices=["L0", "L1", "L2", "L3"], help="default: the strongest here"
    )
    parser.add_argument("--allow-weak-sandbox", action="store_true", help="grade on trust")
    for limit in fields(Limits):
        name = f"--{limit.name.replace('_', '-')}"
        about = f"limit on {limit.metadata['about']} ({limit.default:g})"
        parser.add_argument(name, type=limit.type, default=limit.default, metavar="N", help=about)
    return parser


def run(options):
    from ..grading import assignment, grade
    from ..grading.handed_in import work

    limits = Limits(**{limit.name: getattr(options, limit.name) for limit in fields(Limits)})
    paths, limit = submissions.paths(options), submissions.limit(options)
    _look_at_tls(options)
    _look_at_results(options)
    try:
        script = assignment.find(options.assignment, options.exercises)
        with _crew(options, script.read_text("utf-8")) as crew:
            box = _box(options, limits)
            seed = assignment.read_seed(options.seed, options.seed_file, options.out)
            ready = assignment.prepare(script, seed, box)
            handed_in = work.collect(paths, ready, limit)
            submissions.tell_left_out(handed_in)
            crew.brief(ready)
            done = grade.grade(ready, handed_in, options.out, crew=crew)
    except KeyboardInterrupt:
        print("stopped; the same command goes on from here", file=sys.stderr)
        return 130
    _report(done, options.out)
    return int(not done.results or any(r["status"] == "ungraded" for r in done.results))


def _look_at_tls(options):
    for path in filter(None, _tls(options)):
        if not path.exists():
            raise ValueError(f"{path}: no such file or folder")
    if sum(map(bool, _tls(options))) not in (0, 3):
        raise ValueError("for TLS give all three: --tls-ca, --tls-cert and --tls-key")
    if options.tls_ca and not (options.dask or "").startswith("tls://"):
        raise ValueError("certificates are for a scheduler at tls://…: say --dask tls://…")


def _look_at_results(options):
    """A folder is for one exercise: exports and the table of grades take all that lies there."""
    for path in (options.out / "results").glob("*.json"):
        found = re.search(r'"assignment": "([^"]*)"', path.read_text("utf-8", "replace"))
        if found and found[1] != options.assignment:
            why = f"it holds results of {found[1]}; give each exercise a folder of its own"
            raise ValueError(f"--out {options.out}: {why}")


def _box(options, limits):
    from ..grading import assignment
    from ..grading.isolation import sandbox

    if options.dask:  # no answer runs here: the machines that grade look at their own
        return sandbox.choose(limits)
    return assignment.strong_enough(limits, _level(options), options.allow_weak_sandbox)


def _level(options):
    return options.sandbox and int(options.sandbox[1:])


def _tls(options):
    return options.tls_ca, options.tls_cert, options.tls_key


def _crew(options, script):
    from ..grading import cluster, expected, workers

    if not options.dask:
        return workers.Crew(options.jobs, expected.likely_packages(script))
    recipe = partial(
        cluster.Recipe,
        script=script,
        level=_level(options),
        weak=options.allow_weak_sandbox,
    )
    security = cluster.security(*_tls(options)) if options.tls_ca else None
    return cluster.Cluster(options.dask, recipe, security)


def _report(done, out):
    fallen = sum(change.gain < 0 for change in done.changes)
    if done.changes:
        changed = f"{_many(done.changes, 'grade')} changed, {fallen} of them fell"
        print(f"{changed}: {out / 'changes.csv'}")
    keys = {result["key"] for result in done.results}
    if stale := sorted(p.stem for p in (out / "results").glob("*.json") if p.stem not in keys):
        some = ", ".join(stale[:10]) + (", …" if len(stale) > 10 else "")
        print(f"not handed in this time, but in {out / 'results'}, and so in exports: {some}")
    levels = sorted({result["sandbox"]["level"] for result in done.results})
    where = f"sandbox {', '.join(levels) or 'unused'}"
    print(f"{_many(done.results, 'submission')}, {where}: {out / 'grades.csv'}")


def _many(things, name):
    return f"{len(things)} {name}{'' if len(things) == 1 else 's'}"


def cores():
    """How many this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def jobs(text):
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} workers can't grade; 1 or more can")
    return number
