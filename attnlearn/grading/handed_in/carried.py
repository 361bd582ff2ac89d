"""The definitions that an answer reaches in other cells: they come along when it is moved."""

import ast
import functools
import io
import itertools
import re

from ...exercise import scope
from .. import notebook
from ..source import without_commands

DEEPEST = 300  # levels of a syntax tree: what walks it recursively stays far from Python's limit
MOST_SCOPES = 400  # of a cell: Python compares each name with each function around it
STAR = "*"  # stands for the names of `from x import *`, which nobody knows
CHANGES = {"add", "append", "appendleft", "clear", "discard", "extend", "insert", "pop", "remove"}
CHANGES |= {"fill", "put", "resize", "reverse", "setdefault", "sort", "update"}
FILLS = {"at", "copyto", "fill_diagonal", "heapify", "heappush", "place", "put", "put_along_axis"}
FILLS |= {"putmask", "setattr", "shuffle"}  # they change their first argument
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
SCOPES = (*DEFINITIONS, ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def statements(cells, answer, known):
    """[(position, source)] of the statements that `answer` needs, in the order of the notebook.

    `cells` are {position: source} of the student's other code cells, `answer` maps the positions
    of the answer's own cells to their sources, `known` holds the names that need no definition.
    The nearest definition above the answer counts, else the first one below it. Along with it
    come the statements between it and the answer that change its value.
    """
    first, taken = min(answer), {}
    own = [without_commands(source) for source in answer.values()]
    known = known - _imported([cells[at] for at in cells if at < first])
    known = known.union(*map(scope.module_names, own))
    wanted = set().union(*map(_read, own)) - known
    if not wanted:
        return []
    order = sorted(cells, key=lambda at: (at > first, -at if at < first else at))
    homes, binding, changing = _index(cells, order)
    while wanted:
        name = wanted.pop()
        known.add(name)
        if name not in homes and STAR not in known:
            wanted.add(STAR)
        home = homes.get(name, first)
        changes = [own for own in changing.get(name, ()) if own[0] == home or home < own[0] < first]
        for at, line, text, reads in (*binding.get(name, ()), *changes):
            if (at, line) not in taken:
                taken[at, line] = text
                wanted |= reads - known
    return [(at, taken[at, line]) for at, line in sorted(taken)]


def forget():
    """What is known of the last submission: that of a hostile one fills much memory."""
    _parsed.cache_clear()


def _index(cells, order):
    """{name: its cell}, and {name: [(cell, line, text, names it reads)]} of the statements that
    bind it, and of those that change it.

    In `order` the nearest cell comes first; of functions with one name, too, its own counts.
    """
    homes, binding, changing = {}, {}, {}
    acts = {name: act for at in reversed(order) for name, act in _parsed(cells[at])[1].items()}
    for at in order:
        for line, names, changed, *text in _statements(cells[at], acts):
            for name in names:
                if homes.setdefault(name, at) == at or name == STAR:
                    binding.setdefault(name, []).append((at, line, *text))
            for name in changed:
                changing.setdefault(name, []).append((at, line, *text))
    return homes, binding, changing


def _imported(sources):
    """Names of Python's own that some cells import over: `from numpy import max`, or all of it."""
    found = set()
    for _, names, _, text, _ in itertools.chain(*map(_statements, sources)):
        if text.startswith(("from ", "import ")):
            found |= names | scope.starred(text)
    return found & scope.BUILTINS


def _read(source):
    """The names that a source reads and doesn't bind, those of Python's own with them."""
    return scope.free_names(source) | scope.builtins_read(source)


def definitions(source, names):
    """The statements of a cell that define some of these names, as text."""
    return _text(text for _, bound, _, text, _ in _statements(source) if bound & names)


def changed(source):
    """Names whose values a cell changes in place: a method is added to a class."""
    return set().union(*(names for _, _, names, *_ in _statements(source)))


def beside_checks(source):
    """The statements of a check's cell that define anything, as text; the check aside."""
    found = ((bound, text) for _, bound, _, text, _ in _statements(source))
    return _text(text for bound, text in found if bound and not notebook.CHECK_CALL.search(text))


def _text(statements):
    return "".join(text.rstrip("\n") + "\n" for text in statements)


def readable(source):
    """Can this be analysed? No limit of Python's parser is reached, nor of our own."""
    source = without_commands(source)
    try:
        tree = ast.parse(source)
        if sum(isinstance(node, SCOPES) for node in ast.walk(tree)) > MOST_SCOPES:
            return False
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


def _statements(source, acts=None):
    """(line, names it binds, names whose values it changes, text, names it reads) of each
    top-level statement.

    `acts` says what the functions do that it calls; else those of the same cell are known.
    """
    statements, own = _parsed(source)
    acts = own if acts is None else acts
    for line, names, changed, calls, *text in statements:
        for function, given in calls:
            binds, changes, changes_given = acts.get(function, ((), (), False))
            names, changed = names.union(binds), changed.union(changes)
            changed |= given if changes_given else set()
        if names or changed:
            yield line, names, changed, *text


@functools.lru_cache(maxsize=1024)  # each task asks for those of each cell
def _parsed(source):
    """The statements of a cell, not yet with what their calls do, and what its functions do."""
    source = without_commands(source)
    try:
        body = ast.parse(source).body
    except SyntaxError:
        return [], {}
    lines = list(io.StringIO(source, newline=None))  # as Python counts them: no form feeds
    statements = []
    for first, last, nodes in _by_line(body):
        text = "".join(lines[first - 1 : last])
        names, changed = scope.module_names(text), set().union(*map(_changed, nodes))
        if any(isinstance(n, ast.ImportFrom) and n.names[0].name == STAR for n in nodes):
            names.add(STAR)
        calls = [call for node in nodes for call in _calls(node)]
        statements.append((first, names, changed, calls, text, _read(text)))
    return statements, {f.name: _act(f) for f in body if isinstance(f, ast.FunctionDef)}


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


def _act(function):
    """What a call of it does: names it binds outside, names whose values it changes there, and
    whether it changes what it is given."""
    nodes = list(ast.walk(function))
    outside = {x for node in nodes if isinstance(node, ast.Global) for x in node.names}
    given = {node.arg for node in nodes if isinstance(node, ast.arg)}
    stored = {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    changed = _changed_in(nodes)
    return outside, changed - given - (stored - outside), bool(changed & given)


def _calls(statement):
    """(function, names it is given) of what a statement calls for its effect or as a decorator."""
    if isinstance(statement, DEFINITIONS):
        called = statement.decorator_list
    else:
        called = [node.value for node in ast.walk(statement) if isinstance(node, ast.Expr)]
    for node in called:
        function = getattr(node, "func", node)
        if isinstance(function, ast.Name):
            given = getattr(node, "args", ())
            yield function.id, {x.id for x in given if isinstance(x, ast.Name)}


def _changed(statement):
    """Names whose values a statement changes in place: `x[0] = 1`, `x.append(1)`, `put(x, 1)`."""
    if isinstance(statement, DEFINITIONS):
        calls = [call for call in statement.decorator_list if isinstance(call, ast.Call)]
        return {x.id for call in calls for x in call.args if isinstance(x, ast.Name)}
    return _changed_in(ast.walk(statement))


def _changed_in(nodes):
    found = set()
    for node in nodes:
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
