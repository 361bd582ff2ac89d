"""What people write as text is read as they meant it."""

import re
from pathlib import Path

import jupytext
import pytest

ROOT = Path(__file__).parent.parent
SOURCES = sorted(
    [*ROOT.glob("solutions/[0-9]*.py"), *ROOT.glob("book/[0-9]*.md"), ROOT / "book/teachers.md"]
)
ITEM = re.compile(r"(?:[-+*]|\d+[.)]) ")


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.name)
def test_no_line_of_a_paragraph_is_taken_for_an_item_of_a_list(path):
    """A line that is wrapped before a minus or plus begins a list: "8: 3" and then "+ 16"."""
    cells = [c.source for c in jupytext.read(path).cells if c.cell_type == "markdown"]
    assert cells
    for text in cells:
        text = re.sub(r"^(```|:::)[\s\S]*?^\1", "", text, flags=re.M)
        for block in re.split(r"\n\s*\n", text):
            lines = block.strip("\n").splitlines()
            items = [n for n, line in enumerate(lines) if ITEM.match(line)]
            if items and items[0] > 0 and not lines[0].startswith(" "):  # else an item goes on
                assert lines[items[0] - 1].rstrip().endswith(":"), lines[items[0]]
