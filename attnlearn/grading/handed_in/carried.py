"""The definitions that an answer reaches in other cells: they come along when it is moved."""

import ast
import io
import re

from ...exercise import scope
from .. import notebook
from ..source import without_commands

DEEPEST = 300  # levels of a syntax tree: what walks it recursively stays far from Python's limit
STAR = "*"  # stands for the names of `from x import *`, which nobody knows
CHANGES = {"add", "append", "appendleft", "clear", "discard", "extend", "insert", "pop", "remove"}
CHANGES |= {"fill", "put", "resize", "reverse", "setdefault", "sort", "update"}
FILLS = {"at", "copyto", "fill_diagonal", "heapify", "heappush", "place", "put", "put_along_axis"}
FILLS |= {"putmask", "setattr", "shuffle"}  # they change their first argument


def statements(cells, answer, known):
    """[(position, source)] of the statements that `answer` needs, in the order of the notebook.

    `cells` are {position: source} of the student's other code cells, `answer` maps the positions
    of the answer's own cells to their sources, `known` holds the names that need no definition.
    The nearest definition above the answer counts, else the first one below it. Along with it
    come the statements between it and the answer that change its value.
    """
    own = [without_commands(source) for source in answer.values()]
    known = set(known).union(*map(scope.module_names, own))
    wanted = set().union(*map(scope.free_names, own)) - known
    if not wanted:
        return []
    first, taken = min(answer), {}
    homes, binding, changing = {}, {}, {}  # {name: its cell}, {name: [(cell, line, text)]}
    for at in sorted(cells, key=lambda at: (at > first, -at if at < first else at)):
        for line, names, changed, text in _statements(cells[at]):
            for name in names:
                if homes.setdefault(name, at) == at or name == STAR:
                    binding.setdefault(name, []).append((at, line, text))
            for name in changed:
                changing.setdefault(name, []).append((at, line, text))
    while wanted:
        name = wanted.pop()
        known.add(name)
        if name not in homes and STAR not in known:
            wanted.add(STAR)
        home = homes.get(name, first)
        changes = [own for own in changing.get(name, ()) if own[0] == home or home < own[0] < first]
        for at, line, text in (*binding.get(name, ()), *changes):
            if (at, line) not in taken:
                taken[at, line] = text
                wanted |= scope.free_names(text) - known
    return [(at, taken[at, line]) for at, line in sorted(taken)]


def definitions(source, names):
    """The statements of a cell that define some of these names, as text."""
    return _text(text for _, bound, _, text in _statements(source) if bound & names)


def changed(source):
    """Names whose values a cell changes in place: a method is added to a class."""
    return set().union(*(names for _, _, names, _ in _statements(source)))


def beside_checks(source):
    """The statements of a check's cell that define anything, as text; the check aside."""
    found = ((bound, text) for _, bound, _, text in _statements(source))
    return _text(text for bound, text in found if bound and not notebook.CHECK_CALL.search(text))


def _text(statements):
    return "".join(text.rstrip("\n") + "\n" for text in statements)


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
    """(line, names it binds, names whose values it changes, text) of each top-level statement."""
    source = without_commands(source)
    try:
        body = ast.parse(source).body
    except SyntaxError:
        return
    sets = {f.name: _globals(f) for f in body if isinstance(f, ast.FunctionDef)}
    lines = list(io.StringIO(source, newline=None))  # as Python counts them: no form feeds
    for first, last, nodes in _by_line(body):
        text = "".join(lines[first - 1 : last])
        names, changed = scope.module_names(text), set().union(*map(_changed, nodes))
        for node in nodes:
            if isinstance(node, ast.ImportFrom) and node.names[0].name == STAR:
                names.add(STAR)
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
                names |= sets.get(getattr(node.value.func, "id", ""), set())
        if names or changed:
            yield first, names, changed, text


def _by_line(body):
    """(first line, last line, statements): those that share a line stay together."""
    groups = []
    for node in body:
        first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", []))])
        if groups and first <= groups[-1][1]:
            groups[-1][1] = node.end_lineno
            groups[-1][2].append(node)
        else:
            groups.append([first, node.end_lineno, [node]])
    return groups


def _globals(function):
    """The names that a function may bind outside."""
    return {x for node in ast.walk(function) if isinstance(node, ast.Global) for x in node.names}


def _changed(statement):
    """Names whose values a statement changes in place: `x[0] = 1`, `x.append(1)`, `put(x, 1)`."""
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        calls = [call for call in statement.decorator_list if isinstance(call, ast.Call)]
        return {x.id for call in calls for x in call.args if isinstance(x, ast.Name)}
    found = set()
    for node in ast.walk(statement):
        target = node.func if isinstance(node, ast.Call) else node
        called = getattr(target, "attr", getattr(target, "id", "")) if target is not node else ""
        if called in FILLS and node.args and isinstance(node.args[0], ast.Name):
            found.add(node.args[0].id)
        if not isinstance(target, (ast.Attribute, ast.Subscript)):
            continue
        is_call = called in CHANGES or re.fullmatch(r"[a-z]\w*[a-z\d]_", called)  # torch's
        if is_call or not isinstance(target.ctx, ast.Load):
            while isinstance(target, (ast.Attribute, ast.Subscript)):
                target = target.value
            found |= {target.id} if isinstance(target, ast.Name) else set()
    return found
