"""The solved notebook: text, solutions, checks with their outputs, and the named mistakes."""

import tempfile
from pathlib import Path

from ..exercise import MIME, compare
from . import notebook


class SolvedError(ValueError):
    """The solution does not run in a real kernel; the message names the cell."""


def build(exercise):
    """The solved notebook, not yet run."""
    cells, prefix = [], f"{exercise.stem.replace('_', '-')}-solution"

    def add(make, source):
        number = 1 + sum(cell["id"].startswith(prefix) for cell in cells)
        cells.append(make(f"{prefix}-{number:02d}", source))

    for cell in exercise.cells:
        if cell.role == "answer":
            solution = exercise.tasks[cell.task].solved
            cells.append(notebook.code_cell(f"{cell.task}-solution", solution))
        elif cell.role == "check":
            cells.append(notebook.code_cell(f"{cell.task}-solved", cell.source))
            add(notebook.markdown_cell, _mistakes(exercise.tasks[cell.task]))
        elif cell.role in ("", "setup"):
            add(
                notebook.markdown_cell if cell.kind == "markdown" else notebook.code_cell,
                cell.source,
            )
    return notebook.new(cells, attnlearn={"solved": exercise.stem})


def run(solved, table):
    """The same notebook with the outputs of a real kernel, free of times and process ids."""
    for cell, ran in zip(solved["cells"], _execute(solved, table).cells, strict=True):
        if cell["cell_type"] == "code":
            cell["execution_count"] = ran.execution_count
            cell["outputs"] = _tidy(ran.outputs, cell["id"])
    if why := faults(solved, table["tasks"]):
        raise SolvedError(f"solved notebook {table['stem']}: {why}")
    return solved


def _execute(solved, table):
    """Run in an empty folder; the kernel judges by the new table, which is not released yet."""
    import nbclient
    import nbformat
    from traitlets.config import Config

    from .environment import environment
    from .kernel import connection

    node = nbformat.reads(notebook.dumps(solved), as_version=4)
    with tempfile.TemporaryDirectory() as folder:
        tables = Path(folder) / "tables"
        notebook.write(tables / f"{table['stem']}.json", notebook.dumps(table))
        fixed = {"ATTNLEARN_MODE": "", "ATTNLEARN_SEED": "0", "PYTHONHASHSEED": "0"}
        client = nbclient.NotebookClient(
            node,
            timeout=120,
            kernel_name="python3",
            config=Config(KernelManager=connection(folder)),
            record_timing=False,
            resources={"metadata": {"path": folder}},
        )
        try:
            return client.execute(env=environment(ATTNLEARN_TABLES=str(tables), **fixed))
        except nbclient.exceptions.CellExecutionError as error:
            what = f"{error.ename}: {error.evalue}"
            raise SolvedError(f"solved notebook {table['stem']}: {what}") from None


def faults(solved, tasks):
    """What the stored outputs of the checks lack or get wrong, or ''."""
    cells = {cell.get("id"): cell for cell in solved["cells"]}
    for id, task in tasks.items():
        outputs = cells[f"{id}-solved"].get("outputs", [])
        records = [out["data"][MIME] for out in outputs if MIME in out.get("data", {})]
        stored = {record["name"]: record["value"] for record in records}
        for case in task["cases"]:
            if why := compare.differ(stored.get(case["name"]), case["value"], case):
                return f"output of {id}, case {case['name']!r}: {why}"
    return ""


def _mistakes(task):
    lines = [f"**Mistakes that the check of {task.id} knows by name**", ""]
    for wrong in task.wrong:
        seen = f" (seen: {'; '.join(wrong.links)})" if wrong.seen else ""
        lines.append(f"- *{wrong.name}*: {wrong.hint}{seen}")
    return "\n".join(lines)


def _tidy(outputs, id):
    """Streams joined, for a kernel cuts them anywhere; text as lists of lines."""
    tidy = []
    for out in outputs:
        if out.output_type == "stream":
            if out.name == "stderr":
                raise SolvedError(f"cell {id} writes to stderr: {out.text.strip()[:200]}")
            if tidy and tidy[-1]["output_type"] == "stream":
                tidy[-1]["text"] += out.text
            else:
                tidy.append({"output_type": "stream", "name": "stdout", "text": out.text})
            continue
        if MIME in out.data:
            record = out.data[MIME]
            record["value"] = compare.settle(record["value"], record)
        data = {k: _lines(v) if isinstance(v, str) else v for k, v in out.data.items()}
        new = {"output_type": out.output_type, "metadata": {}, "data": data}
        if out.output_type == "execute_result":
            new["execution_count"] = out.execution_count
        tidy.append(new)
    for out in tidy:
        if out["output_type"] == "stream":
            out["text"] = _lines(out["text"])
    return tidy


def _lines(text):
    return text.splitlines(keepends=True)
