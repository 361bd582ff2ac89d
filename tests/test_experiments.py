"""The long experiments run from end to end, and what is stored of them is complete."""

import importlib
import json
import sys
from pathlib import Path

import pytest
import torch

from attnlearn.evidence import evidence
from attnlearn.nn import TinyLM

ROOT = Path(__file__).parent.parent
STORED = sorted(path.stem for path in (ROOT / "book" / "evidence").glob("*.json"))
FIELDS = {"name", "command", "commit", "date", "host", "seeds", "seconds", "figures"}
NAMES = "extrapolation", "heads", "language", "quantization", "recall", "sparse"
LONG = "course", "graders"  # their quick runs take minutes, too


@pytest.fixture
def quick(monkeypatch, tmp_path):
    """``quick(name)`` runs an experiment at its smallest, and returns what it writes."""
    monkeypatch.syspath_prepend(ROOT / "book" / "experiments")

    def run(name):
        experiment, record = (importlib.import_module(module) for module in (name, "record"))
        out = tmp_path / f"{name}.json"
        arguments = ["--quick", "--out", str(out)]
        record.main(name, experiment.__doc__, experiment.measure, arguments)
        return json.loads(out.read_text())

    threads = torch.get_num_threads()
    yield run
    torch.set_num_threads(threads)
    for name in (*NAMES, "needle", "record", "text", "train"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize("name", NAMES)
def test_a_quick_run_has_the_shape_of_the_stored_one(name, quick):
    first = quick(name)
    assert set(first) >= FIELDS
    assert first["name"] == name
    assert first["preliminary"] is True
    assert first["command"].startswith(f"python book/experiments/{name}.py --quick --out ")
    assert shape(first["figures"]) == shape(evidence(name)["figures"])


@pytest.mark.parametrize("name", ["heads", "extrapolation"])
def test_the_same_seeds_give_the_same_figures(name, quick):
    assert quick(name)["figures"] == quick(name)["figures"]


@pytest.mark.parametrize("name", [*NAMES, *LONG])
def test_what_is_stored_says_how_it_was_made(name):
    record = evidence(name)
    assert set(record) >= FIELDS
    assert "preliminary" not in record
    assert record["name"] == name
    assert len(record["commit"]) == 40
    assert record["host"]["threads"] == 1


def test_every_experiment_is_stored():
    assert {*NAMES, *LONG} <= set(STORED)


def test_the_stored_model_is_the_one_that_was_measured(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "book" / "experiments")
    language, text = importlib.import_module("language"), importlib.import_module("text")
    stored = evidence("language")["figures"]
    assert language.WEIGHTS.stat().st_size < 1e6
    if text.about()["sha256"] != stored["text"]["sha256"]:
        pytest.skip("another version of Python, and so another text")
    held_out = text.tokens(text.parts()["held_out"])
    found = language.bits_per_byte(TinyLM.trained(), held_out)
    assert found == pytest.approx(stored["shipped"]["bits_per_byte"], abs=0.001)


def test_parts_of_the_text_share_no_paragraph(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "book" / "experiments")
    parts = importlib.import_module("text").parts()
    paragraphs = [
        {" ".join(p.split()) for p in part.decode().split("\n\n")} - {""} for part in parts.values()
    ]
    assert sum(map(len, paragraphs)) == len(set.union(*paragraphs))


def shape(figures):
    """The names, and how deep lists are; not how many seeds or steps there were."""
    if isinstance(figures, dict):
        return {name: shape(value) for name, value in figures.items()}
    if isinstance(figures, list):
        return [shape(figures[0])] if figures else []
    return "number or none" if isinstance(figures, int | float | None) else "text"
