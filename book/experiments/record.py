"""What every stored experiment says about itself, and how it is run.

A script ends with ``record.main("heads", __doc__, measure)``. ``measure(quick)`` prints its
progress and returns the seeds and the figures. Run in full it writes ``book/evidence/heads.json``;
with ``--quick`` it takes seconds, and writes only where ``--out`` says, marked as preliminary.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from time import process_time

import torch

from attnlearn.bench import host
from attnlearn.evidence import commit

ROOT = Path(__file__).resolve().parents[2]
EVIDENCE = ROOT / "book" / "evidence"


def main(name: str, about: str, measure: Callable, argv: list[str] | None = None) -> dict:
    """Run an experiment on one thread, store its record, and return it."""
    parser = argparse.ArgumentParser(prog=f"python book/experiments/{name}.py", description=about)
    parser.add_argument("--quick", action="store_true", help="tiny sizes, to see that it runs")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the record here")
    options = parser.parse_args(argv)
    torch.set_num_threads(1)
    start = process_time()
    seeds, figures = measure(options.quick)
    record = {
        "name": name,
        "command": " ".join(["python", f"book/experiments/{name}.py", *(argv or sys.argv[1:])]),
        **commit("attnlearn/*.py", "book/experiments"),
        "date": host()["date"],
        "host": host(),
        "seeds": list(seeds),
        "seconds": round(process_time() - start, 1),  # of processor time
        **({"preliminary": True} if options.quick else {}),
        "figures": rounded(figures),
    }
    target = options.out or (None if options.quick else EVIDENCE / f"{name}.json")
    if target:
        target.parent.mkdir(exist_ok=True)
        target.write_text(json.dumps(record, indent=1) + "\n")
    return record


def rounded(x):
    """Numbers to 5 digits: the rest would only look exact."""
    if isinstance(x, dict):
        return {key: rounded(value) for key, value in x.items()}
    if isinstance(x, list | tuple):
        return [rounded(value) for value in x]
    return float(f"{x:.5g}") if isinstance(x, float) else x
