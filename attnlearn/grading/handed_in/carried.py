"""The definitions that an answer reaches in other cells: they come along when it is moved."""

import ast

from ...exercise import scope
from ..source import without_commands

DEEPEST = 300  # levels of a syntax tree: what walks it recursively stays far from Python's limit


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
    homes, binding = {}, {}  # {name: its cell}, {name: [(line, text)] there}
    for at in sorted(cells, key=lambda at: (at > first, -at if at < first else at)):
        for line, names, text in _statements(cells[at]):
            for name in names:
                if homes.setdefault(name, at) == at:
                    binding.setdefault(name, []).append((line, text))
    while wanted:
        name = wanted.pop()
        known.add(name)
        for line, text in binding.get(name, ()):
            if (homes[name], line) not in taken:
                taken[homes[name], line] = text
                wanted |= scope.free_names(text) - known
    return [(at, taken[at, line]) for at, line in sorted(taken)]


def readable(source):
    """Can this be analysed? No limit of Python's parser is reached, nor of our own."""
    source = without_commands(source)
    try:
        tree = ast.parse(source)
        scope.free_names(source)
    except SyntaxError:
        return True  # the kernel will say what is wrong with it
    except (ValueError, RecursionError, MemoryError):
        return False
    return _depth(tree) <= DEEPEST


def _depth(tree):
    level, depth = [tree], 0
    while level:
        level = [child for node in level for child in ast.iter_child_nodes(node)]
        depth += 1
    return depth


def _statements(source):
    """(line, names that it binds, text) of each statement at the top level of a cell.

    Those that share their lines come as one.
    """
    source = without_commands(source)
    try:
        body = ast.parse(source).body
    except SyntaxError:
        return
    lines, places = source.splitlines(keepends=True), {}
    for node in body:
        first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", []))])
        places[first, node.end_lineno] = None
    for first, last in places:
        text = "".join(lines[first - 1 : last])
        if names := scope.module_names(text):
            yield first, names, text
