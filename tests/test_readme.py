"""The README, the docstrings and the map of files say what is there.

`python tests/test_readme.py` draws the README's picture again.
"""

import doctest
import inspect
import re
from importlib.metadata import requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import attnlearn
from attnlearn import Causal, Window, masks
from attnlearn.viz import mask_svg

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text("utf-8")
PICTURE = ROOT / "book/_static/tiles.svg"


def picture() -> str:
    """A causal window by tiles, on a white card: a README is read on dark pages too."""
    svg = mask_svg(Causal() & Window(12), 32, 32, block=(8, 8))
    return svg.replace("</desc>", '</desc><rect width="100%" height="100%" fill="#fff"/>', 1) + "\n"


def test_picture_is_what_the_package_draws():
    assert PICTURE.read_text("utf-8") == picture(), "run: python tests/test_readme.py"
    assert re.search(r"!\[[^]]{40,}\]\(book/_static/tiles.svg\)", README)


def test_eight_lines_run_and_print_what_they_promise(capsys):
    code = re.search(r"```python\n(.*?)```", README, re.S)[1]
    assert len([line for line in code.splitlines() if line.strip()]) <= 8
    exec(code, {})
    printed = capsys.readouterr().out
    assert "[0 0 0 1 1 1]" in printed
    assert "(1, 2, 6, 8)" in printed


def test_every_file_on_the_map_is_there_and_none_is_missing():
    named = set(re.findall(r"`(attnlearn/[\w/]+(?:\.py)?/?)`", README))
    assert all((ROOT / name).exists() for name in named)
    there = {
        p.name.removesuffix(".py") for p in (ROOT / "attnlearn").iterdir() if p.name[0] not in "._"
    }
    on_map = {Path(name).name.removesuffix(".py") for name in named}
    assert there - on_map == set(), "not on the map of README.md"
    assert on_map - there == set(), "on the map of README.md, but not there"


def test_commands_named_are_targets():
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text("utf-8"), re.M))
    for page in ("README.md", "CONTRIBUTING.md"):
        text = (ROOT / page).read_text("utf-8")
        assert set(re.findall(r"`make (\w+)`", text)) <= targets
    assert {"book", "serve", "test", "lint", "release", "experiments", "bench", "clean"} <= targets


def test_every_page_is_in_the_table_of_contents():
    contents = (ROOT / "_toc.yml").read_text("utf-8")
    for folder in ("book", "exercises"):
        for page in sorted((ROOT / folder).glob("*.ipynb")):
            line = f"file: {folder}/{page.stem}\n"
            assert line in contents, f"{page.relative_to(ROOT)} is not in _toc.yml"


def test_everything_is_pinned():
    """Each line pins one package, and what a pinned package needs is pinned as well."""
    lines = (ROOT / "requirements.txt").read_text("utf-8").splitlines()
    pins = [Requirement(line) for line in lines if line and line[0] != "#"]
    assert [str(p) for p in pins if [s.operator for s in p.specifier] != ["=="]] == []
    pinned = {plain_name(p.name) for p in pins}
    here = (p for p in pins if p.marker is None or p.marker.evaluate())
    needed = (Requirement(text) for p in here for text in requires(p.name) or [])
    names = {plain_name(n.name) for n in needed if n.marker is None or n.marker.evaluate()}
    cuda = {name for name in names if name.startswith(("nvidia-", "cuda-"))}  # PyPI's torch
    assert names - pinned - cuda == set()


def plain_name(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def test_examples_in_docstrings_run():
    assert doctest.testmod(masks).attempted == 2
    assert doctest.testmod(masks).failed == 0


@pytest.mark.parametrize("name", attnlearn.__all__)
def test_public_names_are_documented(name):
    thing = getattr(attnlearn, name)
    if callable(thing):
        text = inspect.getdoc(thing)
        assert text, name
        assert text.split("\n\n")[0].rstrip().endswith((".", "``", ":", "``.")), text
        if inspect.isfunction(thing) and name.startswith("attention"):
            assert "[..., Hq, T, D]" in text


if __name__ == "__main__":
    PICTURE.write_text(picture(), "utf-8")
