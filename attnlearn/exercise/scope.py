"""Read the source behind a running notebook: what a case calls, what an answer leans on."""

import ast
import builtins
import dis
import functools
import inspect
import linecache
import re
import symtable
import sys

BUILTINS = frozenset(dir(builtins))
SHELL = {"In", "Out", "exit", "quit", "get_ipython", "display"}  # IPython's, no student's


def cell_source(filename):
    """The source of the cell that a code object came from; '' where it is unknown."""
    return "".join(linecache.getlines(filename))


def call_text(f):
    """The expression in the lambda, or the body of the function, on one line."""
    code = getattr(f, "__code__", None)
    if code is None:
        return getattr(f, "__name__", "")
    return _bodies(cell_source(code.co_filename)).get((code.co_name, code.co_firstlineno), "")


def bindings(source):
    """What a check cell prepares for its cases: its lines that bind `_names`, as text."""
    try:
        body = ast.parse(source).body
    except SyntaxError:
        return None
    kept = [n for n in body if not (isinstance(n, ast.FunctionDef) and n.decorator_list)]
    kinds = (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.FunctionDef)
    lines = [_one_line(source, node) for node in kept if isinstance(node, kinds)]
    return [line for line in lines if not line.startswith("case =")]


def answer_source(namespace, names):
    """The source of the cell that defines the answer's functions and classes."""
    for name in names:
        if code := _code(namespace.get(name)):
            return cell_source(code.co_filename)
    return ""


def unfinished(source, blank):
    """Did the student write code and keep the line that raises NotImplementedError?"""
    try:
        return ast.dump(ast.parse(source)) != ast.dump(ast.parse(blank))
    except SyntaxError:
        return False


def outside_names(namespace, names, given):
    """Pairs (function, name): names an answer reads that neither it nor the exercise defines."""
    own = module_names(answer_source(namespace, names))
    known = own | set(given) | BUILTINS | SHELL
    for function in names:
        if code := _code(namespace.get(function)):
            for name in sorted(set(_globals_read(code)) - known):
                if name in namespace:
                    yield function, name


def module_names(source):
    """Names that the source binds at its top level."""
    return {s.get_name() for s in _symbols(source)[0] if _is_bound(s)}


def assigned_names(source):
    """Names that the source binds at its top level, imports aside."""
    return {s.get_name() for s in _symbols(source)[0] if s.is_assigned()}


def builtins_read(source):
    """The names of Python's own functions that the source reads, anywhere."""
    read = {s.get_name() for table in _symbols(source) for s in table if s.is_referenced()}
    return (read & BUILTINS) - module_names(source)


def starred(source):
    """The names that `from x import *` binds, where x has been imported here, too."""
    modules = re.findall(r"^from ([\w.]+) import \*", source, re.M)
    return {name for m in modules for name in getattr(sys.modules.get(m), "__all__", ())}


def imports(source):
    """The import statements at the top level of a source, as text."""
    kept = [n for n in ast.parse(source).body if isinstance(n, (ast.Import, ast.ImportFrom))]
    return "\n".join(map(ast.unparse, kept))


def rebound(imports, namespace):
    """Names that mean something else than these import statements made of them."""
    fresh = {}
    exec(imports, fresh)
    del fresh["__builtins__"]
    return [name for name in fresh if name in namespace and namespace[name] is not fresh[name]]


def free_names(source):
    """Names that the source reads, anywhere, and doesn't bind at its top level; those that a
    function declares `global` count as read, for `x += 1` does read."""
    read = {s.get_name() for s in _symbols(source)[0] if s.is_referenced()}
    return (read | read_in_functions(source)) - module_names(source) - BUILTINS


def read_in_functions(source):
    """The names that functions and classes of the source read, or may bind, at its top level."""
    symbols = (s for table in _symbols(source)[1:] for s in table if s.is_global())
    return {s.get_name() for s in symbols if s.is_referenced() or s.is_declared_global()}


def takes_argument(f):
    try:
        return len(inspect.signature(f).parameters) > 0
    except (TypeError, ValueError):
        return False


@functools.cache
def _bodies(source):
    """{(name, line): text} of every lambda and function in a cell."""
    try:
        nodes = list(ast.walk(ast.parse(source)))
    except SyntaxError:
        return {}
    texts = {}
    for node in nodes:
        if isinstance(node, ast.Lambda):
            texts["<lambda>", node.lineno] = _one_line(source, node.body)
        if isinstance(node, ast.FunctionDef):
            first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            body = "; ".join(_one_line(source, statement) for statement in node.body)
            texts[node.name, first] = body
    return texts


@functools.lru_cache(maxsize=8)  # one question after another is about the same source
def _symbols(source):
    """The symbols of each scope, the top level first; none where the source is no Python."""
    try:
        tables = [symtable.symtable(source, "cell", "exec")]
    except SyntaxError:
        return [[]]
    for table in tables:
        tables += table.get_children()
    return [table.get_symbols() for table in tables]


def _is_bound(symbol):
    return symbol.is_assigned() or symbol.is_imported() or symbol.is_namespace()


def _one_line(source, node):
    return " ".join((ast.get_source_segment(source, node) or "").split())


def _code(value):
    """The code of a function, or of the first method of a class."""
    if inspect.isclass(value):
        methods = [m for m in vars(value).values() if inspect.isfunction(m)]
        value = methods[0] if methods else None
    try:
        return getattr(inspect.unwrap(value), "__code__", None)
    except ValueError:
        return None


def _globals_read(code):
    for step in dis.get_instructions(code):
        if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            yield step.argval
    for constant in code.co_consts:
        if inspect.iscode(constant):
            yield from _globals_read(constant)
