"""Notebooks as plain dictionaries: read what people send, write what Git can compare."""

import codecs
import json
import os
import re
import tempfile

KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}
EXERCISE_LINE = re.compile(r"^[ \t]*# EXERCISE: ([\w-]+)", re.M)
CHECK_CALL = re.compile(r"""\bcheck\(\s*["']([\w-]+)["']""")
CELL_COMMAND = re.compile(r"^%%\w+", re.M)

CONFLICT = re.compile(r"^[ \t]*(?:<{7}|>{7}) ", re.M)
PADDING = "\ufeff\ufffd\0\x1a \t\r\n"  # what may lie around the text of a file
KINDS = {
    b"PK\3\4": "a zip",
    b"\x1f\x8b": "an archive of gzip",
    b"Rar!": "an archive of RAR",
    b"7z\xbc\xaf": "an archive of 7-Zip",
    b"%PDF": "a PDF",
    b"version https://git-lfs": "a stand-in of Git LFS",
}
PAGE = re.compile(r"\s*<(!doctype|html|\?xml)\b", re.I)

CHOOSE = "keep one of the two versions, and save it in Jupyter"
SAVE = "open it in Jupyter and save it again, or go back to an earlier copy"


class NotebookError(ValueError):
    """A notebook that can't be read; the message names the file and the trouble."""


def load(path):
    """A notebook of nbformat 4, however carelessly it was saved, or NotebookError.

    Missing or equal ids, missing metadata and a byte order mark are all forgiven.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise NotebookError(f"{path}: {error.strerror}") from None
    return parse(data, path)


def parse(data, path):
    """The same from its bytes; `path` is only named in messages."""
    if kind := next((kind for head, kind in KINDS.items() if data.startswith(head)), None):
        raise NotebookError(f"{path}: this is {kind}, no notebook; hand in the .ipynb file itself")
    try:
        text = decode(data)
    except UnicodeDecodeError:
        raise NotebookError(
            f"{path}: this is no text, so no notebook; hand in the .ipynb file"
        ) from None
    if not text.strip():
        raise NotebookError(f"{path}: the file is empty; save the notebook again")
    if PAGE.match(text):
        raise NotebookError(f"{path}: this is a web page, no notebook; download the .ipynb file")
    if CONFLICT.search(text):
        raise NotebookError(f"{path}: a merge conflict is left in the file ('<<<<<<<'); {CHOOSE}")
    try:
        notebook = json.loads(text.strip(PADDING), strict=False)  # a tab in a string is forgiven
    except (ValueError, RecursionError) as error:  # ValueError: a number of 5000 digits, too
        raise NotebookError(f"{path}: not JSON, or cut off ({error}); {SAVE}") from None
    return _normal(notebook, path)


def code_cells(notebook):
    """(position, cell) of each code cell."""
    return [(n, c) for n, c in enumerate(notebook["cells"]) if c["cell_type"] == "code"]


def task_ids(notebook):
    """Ids of the tasks that the code names; metadata and cell ids do not survive Colab."""
    sources = [cell["source"] for _, cell in code_cells(notebook)]
    if not any(EXERCISE_LINE.search(s) or "attnlearn.exercise" in s for s in sources):
        return []
    return list(dict.fromkeys(id for source in sources for id in named_tasks(source)))


def answers(cell):
    """Ids of the tasks that a cell answers, by its line, its metadata or its own id.

    Its line comes first: a student sees it, and a copied cell takes the others along.
    """
    if ids := set(EXERCISE_LINE.findall(cell["source"])):
        return ids
    role = cell["metadata"].get("attnlearn")
    if isinstance(role, dict) and role.get("role") == "answer":
        task = role.get("exercise")
        return {task} if isinstance(task, str) else set()
    ids = (cell.get("id"), cell["metadata"].get("id"))  # Colab keeps it in the metadata
    own = (re.fullmatch(r"(.+)-answer", id) for id in ids if isinstance(id, str))
    return {match[1] for match in own if match}


def named_tasks(source):
    """Ids in `# EXERCISE: id` and `check("id")`."""
    return EXERCISE_LINE.findall(source) + CHECK_CALL.findall(source)


def markdown_cell(id, source):
    return {"cell_type": "markdown", "id": id, "metadata": {}, "source": _lines(source)}


def code_cell(id, source, metadata=None):
    return {
        "cell_type": "code",
        "id": id,
        "metadata": metadata or {},
        "source": _lines(source),
        "execution_count": None,
        "outputs": [],
    }


def new(cells, **metadata):
    info = {"kernelspec": KERNEL, "language_info": {"name": "python"}, **metadata}
    return {"cells": cells, "metadata": info, "nbformat": 4, "nbformat_minor": 5}


def dumps(data):
    """JSON as Jupyter writes it, so that saving a notebook changes nothing else."""
    return json.dumps(data, indent=1, ensure_ascii=False, sort_keys=True) + "\n"


def write(path, text):
    """Replace a file as a whole: a stop half-way leaves the old one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def joined(source):
    """The source of a cell as one string, however the file stores it."""
    lines = source if isinstance(source, list) else [source]
    lines = [line for line in lines if isinstance(line, str)]
    bare = max(map(len, lines), default=0) > 1 and not any("\n" in line for line in lines)
    source = ("\n" if bare else "").join(lines).removeprefix("\ufeff")
    source = source.replace("\r\n", "\n").replace("\0", "\ufffd")
    return source.encode("utf-8", "replace").decode("utf-8")  # half of a surrogate pair


def changes(old, new):
    """The first place where two notebooks differ, outputs aside, or ''."""
    for position, (a, b) in enumerate(zip(old["cells"], new["cells"], strict=False)):
        for part in ("id", "cell_type", "metadata", "source"):
            a_part, b_part = a.get(part), b[part]
            if part == "source":
                a_part, b_part = joined(a_part), joined(b_part)
            if a_part != b_part:
                return f"{part} of cell {position + 1} ({b['id']}) differs"
    if len(old["cells"]) != len(new["cells"]):
        return f"{len(old['cells'])} cells instead of {len(new['cells'])}"
    return "" if old["metadata"] == new["metadata"] else "its metadata differ"


def decode(data):
    """UTF-8, UTF-16 or UTF-32, with some broken bytes even, else what old editors write."""
    encoding = json.detect_encoding(data)
    try:
        return data.decode(encoding)
    except UnicodeDecodeError:
        text = data.decode(encoding, "replace")
        if not text.lstrip(PADDING).startswith("{"):
            raise
    broken = text.count("\ufffd")
    unlike_ascii = len(text) - len(text.encode("ascii", "ignore"))
    if encoding.startswith("utf-8") and 2 * broken >= unlike_ascii:
        return data.removeprefix(codecs.BOM_UTF8).decode("cp1252", "replace")
    return text


def _normal(notebook, path):
    if not isinstance(notebook, dict):
        raise NotebookError(f"{path}: JSON, but not a notebook; hand in the .ipynb file")
    version = notebook.get("nbformat", 4)
    version = 4 if version in (None, "4") else version
    if isinstance(version, int) and 0 < version < 4:
        how = "open it in Jupyter and save it (nbformat 4)"
        raise NotebookError(f"{path}: this is nbformat {version}: {how}")
    if version != 4:
        raise NotebookError(
            f"{path}: nbformat {repr(version)[:20]} is unknown; save it as nbformat 4"
        )
    cells = notebook.get("cells")
    if not isinstance(cells, list) or not all(isinstance(cell, dict) for cell in cells):
        raise NotebookError(f"{path}: JSON, but not a notebook: it has no list of cells; {SAVE}")
    for cell in cells:
        if not isinstance(cell.get("metadata"), dict):
            cell["metadata"] = {}
        kind = "code" if "outputs" in cell or "execution_count" in cell else "raw"
        cell["cell_type"] = str(cell.get("cell_type", kind)).lower()
    codes = [cell for cell in cells if cell["cell_type"] == "code"]
    if codes and not any(isinstance(_source(cell), (str, list)) for cell in codes):
        raise NotebookError(f"{path}: no cell's code can be read; {SAVE}")
    for cell in cells:
        cell["source"] = joined(_source(cell))
    if not isinstance(notebook.get("metadata"), dict):
        notebook["metadata"] = {}
    return notebook


def _source(cell):
    return cell.get("source", cell.get("input"))  # as nbformat 3 called it


def _lines(source):
    return source.splitlines(keepends=True)
