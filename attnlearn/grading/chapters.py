"""Pages with code: book/NAME.md, written by hand, becomes book/NAME.ipynb without outputs."""

from pathlib import Path

from . import notebook


def build_all(root, stems=()):
    """(path, notebook) of each chapter."""
    for source in _sources(root, stems):
        yield source.with_suffix(".ipynb"), build(source)


def build(source):
    """The notebook of one chapter; ids are given in order: 03-masks-01, 03-masks-02, ..."""
    import jupytext

    try:
        read, cells = jupytext.read(source), []
    except Exception as error:  # whatever its parser meets, the author needs the file's name
        raise ValueError(f"{source}: {error}; copy the header of another chapter") from error
    prefix = source.stem.replace("_", "-")
    for number, cell in enumerate(read.cells, 1):
        id = f"{prefix}-{number:02d}"
        if cell.cell_type == "code":
            cells.append(notebook.code_cell(id, cell.source, dict(cell.metadata)))
        else:
            cells.append({**notebook.markdown_cell(id, cell.source), "cell_type": cell.cell_type})
            cells[-1]["metadata"] = dict(cell.metadata)
    return notebook.new(cells)


def check(root, stems=()):
    """What is wrong with the notebooks of the book, as sentences that name file and place."""
    faults = []
    for source in _sources(root, stems):
        target = source.with_suffix(".ipynb")
        if not target.exists():
            faults.append(f"{target}: missing")
        elif why := notebook.changes(notebook.load(target), build(source)):
            faults.append(f"{target}: stale, {why}")
    return faults + strays(root) + outputs(root) + duplicate_ids(root)


def strays(root):
    """Notebooks in book/ that no text made."""
    return [
        f"{path}: there is no {path.stem}.md beside it, from which it would be made"
        for path in _notebooks(root)
        if not path.with_suffix(".md").exists()
    ]


def outputs(root):
    """Notebooks in book/ that hold outputs: they are made when the book is built."""
    faults = []
    for path in _notebooks(root):
        for position, cell in notebook.code_cells(notebook.load(path)):
            if cell.get("outputs") or cell.get("execution_count") is not None:
                faults.append(f"{path}: cell {position + 1} ({cell.get('id')}) has outputs")
    return faults


def duplicate_ids(root):
    """Cell ids that are missing, or used twice anywhere in the book and its exercises."""
    faults, first = [], {}
    for folder in ("book", "exercises", "solutions"):
        for path in sorted((Path(root) / folder).glob("*.ipynb")):
            for position, cell in enumerate(notebook.load(path)["cells"], 1):
                id, place = cell.get("id"), f"{path}: cell {position}"
                if id is None:
                    faults.append(f"{place} has no id")
                elif id in first:
                    faults.append(f"{place} has the id {id!r} of {first[id]}")
                else:
                    first[id] = place
    return faults


def _notebooks(root):
    found = sorted((Path(root) / "book").glob("**/*.ipynb"))
    return [path for path in found if ".ipynb_checkpoints" not in path.parts]


def _sources(root, stems):
    """Texts that begin with a header hold code; the others are pages as they stand."""
    found = sorted((Path(root) / "book").glob("*.md"))
    wanted = (path for path in found if not stems or path.stem in stems)
    return [path for path in wanted if path.read_text("utf-8").startswith("---\n")]
