"""How fast, how large, how exact: ``python -m attnlearn.bench [--json FILE] [--quick]``."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

import torch

from . import exact, serving
from .measure import host


def steps(shrink: int, rounds: int) -> list[partial]:
    """Calls that measure, each for a list of figures; sizes are divided by ``shrink``."""
    return exact.steps(shrink, rounds) + serving.steps(shrink, rounds)


def main(argv: list[str] | None = None) -> None:
    """Print the table as it is measured, and write it to a file if asked."""
    parser = argparse.ArgumentParser(prog="python -m attnlearn.bench", description=__doc__)
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures here")
    parser.add_argument("--quick", action="store_true", help="short lengths, no goals, no flex")
    options = parser.parse_args(argv)
    if options.json and not options.json.absolute().parent.is_dir():
        parser.error(f"--json: there is no folder {options.json.absolute().parent}")
    torch.set_num_threads(1)
    found = []
    print(f"{'name':16}{'median':>8}     {'range':16} {'goal':12} {'':8} what")
    for step in steps(*((32, 2) if options.quick else (1, 5))):
        print(f"measuring {step.func.__name__}{step.args} ...", file=sys.stderr, flush=True)
        for figure in step():
            found.append(replace(figure, goal=None) if options.quick else figure)
            print(found[-1], flush=True)
    if not options.quick and not shutil.which("c++"):
        print("flex_attention: not measured, as compiling it needs a C++ compiler")
    if options.json:
        figures = [asdict(f) | {"median": f.median, "met": f.met} for f in found]
        report = {"host": host(), "quick": options.quick, "figures": figures}
        options.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
