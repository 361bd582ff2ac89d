"""The definitions that an answer reaches in other cells: they come along when it is moved."""

import ast

from ...exercise import scope
from ..source import without_commands


def statements(cells, answer, known):
    """[(position, source)] of the statements that `answer` needs, in the order of the notebook.

    `cells` are {position: source} of the student's other code cells, `answer` maps the positions
    of the answer's own cells to their sources, `known` holds the names that need no definition.
    The nearest definition above the answer counts, else the first one below it.
    """
    own = [without_commands(source) for source in answer.values()]
    known = set(known).union(*map(scope.module_names, own))
    wanted = set().union(*map(scope.free_names, own)) - known
    if not wanted:
        return []
    first, taken = min(answer), {}
    order = sorted(cells, key=lambda at: (at > first, -at if at < first else at))
    binding = [(at, *statement) for at in order for statement in _statements(cells[at])]
    while wanted:
        name = wanted.pop()
        known.add(name)
        home = next((at for at, _, names, _ in binding if name in names), None)
        for at, line, names, text in binding:
            if at == home and name in names and (at, line) not in taken:
                taken[at, line] = text
                wanted |= scope.free_names(text) - known
    return [(at, taken[at, line]) for at, line in sorted(taken)]


def readable(source):
    """Can this be analysed? No limit of Python's parser is reached."""
    source = without_commands(source)
    try:
        ast.parse(source)
        scope.free_names(source)
    except SyntaxError:
        return True  # the kernel will say what is wrong with it
    except (ValueError, RecursionError, MemoryError):
        return False
    return True


def _statements(source):
    """(line, names that it binds, text) of each statement at the top level of a cell."""
    source = without_commands(source)
    try:
        body = ast.parse(source).body
    except SyntaxError:
        return
    lines = source.splitlines(keepends=True)
    for node in body:
        first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", []))])
        text = "".join(lines[first - 1 : node.end_lineno])
        if names := scope.module_names(text):
            yield first, names, text
