"""A submission as a whole: how long it may take."""

import pytest
from data.handed_in import GOOD_2, filled

from attnlearn.grading import assignment, notebook, official, run, source
from attnlearn.grading.handed_in.students import Student
from attnlearn.grading.handed_in.work import Work
from attnlearn.grading.isolation import sandbox
from attnlearn.grading.isolation.limits import Limits

pytestmark = pytest.mark.xdist_group(__name__)


def test_all_cells_together_have_a_limit(request, monkeypatch):
    """Thousands of cells, each below its own limit, would keep a worker for days."""
    monkeypatch.setattr(official, "SHARE", 0.05)
    folder = request.config.rootpath / "tests" / "data" / "exercises"
    script = folder / "solutions" / "90_demo.py"
    prepared = assignment.prepare(script, "a secret", sandbox.Sandbox(Limits(cell_seconds=10)))
    answers = {"demo-1": "import time\ntime.sleep(1.5)\n", "demo-2": GOOD_2}
    content = filled(source.read(script), answers)
    work = Work(Student("a"), "a", content=notebook.parse(notebook.dumps(content).encode(), "a"))
    result = run.grade_one(prepared, work)
    assert result["status"] == "graded"
    assert result["score"] == 0
    assert all("used up their time" in str(task["notes"]) for task in result["exercises"])
