"""The bench runs from end to end and writes what it promises; no time is judged here."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from attnlearn import EMPTY, bench
from attnlearn.bench import __main__ as every
from attnlearn.bench import exact, serving

pytestmark = pytest.mark.xdist_group(__name__)  # what its tests share is made once

FIGURE = {
    "name": str,
    "what": str,
    "unit": str,
    "runs": list,
    "median": float,
    "goal": (float, int, type(None)),
    "met": (bool, type(None)),
}


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    path = tmp_path_factory.mktemp("bench") / "figures.json"
    done = subprocess.run(
        [sys.executable, "-m", "attnlearn.bench", "--quick", "--json", path],
        check=True,
        capture_output=True,
        text=True,
        cwd=Path(__file__).parent.parent,
    )
    return done.stdout, done.stderr, json.loads(path.read_text())


def test_the_file_has_every_figure(quick):
    _, _, report = quick
    assert set(report) == {"host", "quick", "figures"}
    assert report["quick"] is True
    names = [f["name"].split()[0] for f in report["figures"]]
    assert names == ["sdpa"] * 3 + ["dense"] * 2 + ["causal", "band", "growth"] + [
        *["sparse"] * 2,
        *["memory"] * 2,
        *["long"] * 2,
        *["map"] * 2,
        *["decode", "append", "append", "paged", "paged", "int4"],
        *["int8"] * 4,
        *["int4"] * 4,
    ]
    for f in report["figures"]:
        assert set(f) == set(FIGURE)
        assert all(isinstance(f[key], kind) for key, kind in FIGURE.items())
        assert f["unit"] in ("x", "s", "MB", "")
        assert min(f["runs"]) <= f["median"] <= max(f["runs"])
        assert min(f["runs"]) > 0 or f["unit"] == "MB"


def test_the_host_is_named(quick):
    host = quick[2]["host"]
    assert set(host) == {"cpu", "system", "python", "torch", "threads", "dtype", "date"}
    assert host["threads"] == 1
    assert all(host.values())


def test_the_table_has_a_line_for_each_figure(quick):
    table, progress, report = quick
    lines = table.splitlines()[1:]
    assert len(lines) == len(report["figures"])
    for text, f in zip(lines, report["figures"], strict=True):
        assert text.startswith(f["name"])
        assert text.endswith(f["what"])
    assert progress.count("measuring") == 19


def test_a_goal_is_met_by_the_median():
    figure = bench.Figure("band N=8", "flash / other", "x", [0.1, 9.0, 0.3], 0.5)
    assert (figure.median, figure.met) == (0.3, True)
    assert " met " in str(figure)
    assert "0.1 to 9" in str(figure)
    missed = bench.Figure("band N=8", "flash / other", "x", [0.6], 0.5)
    assert missed.met is False
    assert "NOT MET" in str(missed)
    assert bench.Figure("band N=8", "flash / other", "x", [0.6]).met is None


def allocate(megabytes):
    return bench.measured(lambda: bytearray(b"x") * (megabytes * 10**6))


def test_memory_is_that_of_the_call():
    took, extra = bench.in_child(allocate, 300)
    assert took > 0
    assert 290 < extra < 320


def test_the_full_run_has_the_goals():
    steps = every.steps(1, 5)
    assert steps[0].args == (2048, 5)
    assert sum(step.func is exact.sparse_versus_flex for step in steps) in (0, 2)
    assert steps[len(exact.steps(1, 5)) - 1].args == (131072,)
    assert {step.func for step in steps} >= {serving.decoding, serving.integers}


@pytest.mark.parametrize("mask", exact.sparse(8192), ids=repr)
def test_sparse_masks_hide_85_percent_of_the_tiles(mask):
    kept = mask.blocks(8192, 8192, 256, 256) != EMPTY
    assert 0.84 < 1 - kept.mean() < 0.855
