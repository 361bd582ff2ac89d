"""What a task forbids, looked for where no answer can interfere: in the grader's process."""

import ast
import types

from ..exercise import forbid
from .source import without_commands


def broken(sources, table):
    """The first forbidden name that one of these cells mentions, or None."""
    known = _imported(table["imports"])
    for source in sources:
        if name := forbid.found_in(without_commands(source), table["forbid"], known):
            return name
    return None


def _imported(source):
    """{name: a stand-in for the module behind it} of import statements, without importing."""
    origins = {}
    for node in ast.parse(source).body:
        for alias in getattr(node, "names", []):
            if isinstance(node, ast.ImportFrom):
                origins[alias.asname or alias.name] = f"{node.module}.{alias.name}"
            else:
                name = alias.asname or alias.name.partition(".")[0]
                origins[name] = alias.name if alias.asname else name
    return {name: types.ModuleType(origin) for name, origin in origins.items()}
