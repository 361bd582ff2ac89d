"""Names an answer may not call: found in its source, and trapped while a case runs.

A flag for the teacher, not a proof. `numpy.tril` forbids that function, `attnlearn.masks` all
of that module, and a name without a dot any function of that name.
"""

import ast
import contextlib
import functools
import inspect
import sys
import types

LONGEST = 20  # parts of a dotted path; all that can be forbidden are shorter
OURS = "attnlearn.exercise"  # the check itself must run, even where all of attnlearn is forbidden


class Forbidden(Exception):
    """An answer called what its task forbids."""


def message(name):
    return f"this answer uses `{name}`, which this task forbids: write that part yourself"


def found_in(source, forbid, namespace=None):
    """The first forbidden name that the source mentions, or None."""
    for path in _mentions(source, frozenset(_roots(namespace or {}).items())):
        if _inside(path, OURS):
            continue
        for name in forbid:
            if _matches(path, name) or _matches(_origin(path), name):
                return name
    return None


@functools.lru_cache(maxsize=256)
def _mentions(source, roots):
    """Dotted paths of everything that a source imports or names."""
    try:
        nodes = list(ast.walk(ast.parse(source)))
    except SyntaxError:
        return []
    aliases = dict(roots) | dict.fromkeys(_own_names(nodes))
    paths = []
    for node in nodes:
        if isinstance(node, ast.Import):
            paths += [alias.name for alias in node.names]
            aliases |= {a.asname: a.name for a in node.names if a.asname}
        if isinstance(node, ast.ImportFrom) and node.module:
            origins = {a.asname or a.name: f"{node.module}.{a.name}" for a in node.names}
            paths += origins.values()
            aliases |= origins
    return paths + [path for node in nodes if (path := _dotted(node, aliases))]


@contextlib.contextmanager
def trap(forbid, namespace, check_file):
    """Put alarms wherever a forbidden name is imported; yields the list of names called.

    The check cell itself may call them.
    """
    global _watch
    before, _watch = _watch, Watch(check_file)
    alarms, places = _alarms(tuple(forbid), len(sys.modules)) if forbid else ({}, [])
    own = {key: value for key, value in namespace.items() if id(value) in alarms}
    try:
        namespace.update({key: alarms[id(value)] for key, value in own.items()})
        for owner, key, original in places:
            setattr(owner, key, alarms[id(original)])
        yield _watch.called
    finally:
        namespace.update(own)
        for owner, key, original in places:
            setattr(owner, key, original)
        _watch = before


class Watch:
    """Which check is running, and which forbidden names its case has called."""

    def __init__(self, check_file):
        self.check_file, self.called = check_file, []


_watch = None


def _roots(namespace):
    """Dotted origin of the modules, functions and classes that a notebook has imported."""
    roots = {}
    for name, value in namespace.items():
        if isinstance(value, types.ModuleType):
            roots[name] = value.__name__
        elif callable(value) and getattr(value, "__module__", None) not in (None, "__main__"):
            roots[name] = f"{value.__module__}.{getattr(value, '__qualname__', name)}"
    return roots


def _own_names(nodes):
    """What the source defines itself: a function of its own may have a forbidden name."""
    stored = {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    defined = {n.name for n in nodes if isinstance(n, (ast.FunctionDef, ast.ClassDef))}
    return stored | defined | {n.arg for n in nodes if isinstance(n, ast.arg)}


def _dotted(node, aliases, longest=LONGEST):
    """`F.softmax` as 'torch.nn.functional.softmax'; None for other expressions."""
    if isinstance(node, ast.Name):
        return aliases.get(node.id, node.id)
    if isinstance(node, ast.Attribute) and longest:
        head = _dotted(node.value, aliases, longest - 1)
        return f"{head}.{node.attr}" if head else None
    return None


def _matches(path, name):
    if path is None:
        return False
    if "." not in name and path.rpartition(".")[2] == name:
        return True
    return _inside(path, name)


def _origin(path):
    """Where a re-exported function or class was defined: attnlearn.Causal is of attnlearn.masks."""
    value = _look_up(path)
    if isinstance(value, (types.FunctionType, type)):
        return f"{value.__module__}.{value.__qualname__}"
    return None


def _look_up(path):
    """The object behind a dotted path, if its module is imported already."""
    parts = path.split(".")
    for cut in range(len(parts), 0, -1):
        module = sys.modules.get(".".join(parts[:cut]))
        if module is not None:
            for attribute in parts[cut:]:
                module = getattr(module, attribute, None)
            return module
    return None


@functools.lru_cache(maxsize=16)
def _alarms(forbid, modules):
    """({id of a function: its alarm}, [(module, name, function)]); anew when more is imported."""
    alarms, places = {}, []
    targets = [(name, target) for name in forbid for target in _targets(name)]
    index = _index({id(target) for _, target in targets})
    for name, target in targets:
        if inspect.isclass(target):  # a class stays a class: only making one is trapped
            original = target.__init__
            if _settable(target, "__init__", original):
                alarms[id(original)] = _alarm(original, name)
                places.append((target, "__init__", original))
        else:
            alarms[id(target)] = _alarm(target, name)
            places += [(module, key, target) for module, key in index.get(id(target), [])]
    return alarms, places


def _targets(name):
    """The functions and classes that a forbidden name stands for."""
    value = _look_up(name)
    if isinstance(value, types.ModuleType):
        return _members(name)
    if "." in name:
        return [value] if callable(value) else []
    values = [vars(module).get(name) for module in _public_modules()]
    return list({id(v): v for v in values if callable(v) and _is_library(v)}.values())


def _members(package):
    """What a module and its submodules define."""
    found = {}
    for module in _public_modules():
        if _inside(module.__name__, package):
            for key, value in list(vars(module).items()):
                home = getattr(value, "__module__", None) or ""
                if callable(value) and _inside(home, package) and not key.startswith("_"):
                    found[id(value)] = value
    return [v for v in found.values() if not _inside(v.__module__, OURS)]


def _alarm(original, name):
    def alarm(*args, **kwargs):
        if _watch is None or sys._getframe(1).f_code.co_filename == _watch.check_file:
            return original(*args, **kwargs)
        _watch.called.append(name)
        raise Forbidden(message(name))

    return alarm


def _index(wanted):
    """{id of a value: [(module, name)]} of where public modules hold one that is wanted."""
    index = {}
    for module in _public_modules():
        for key, value in list(vars(module).items()):
            if id(value) in wanted:
                index.setdefault(id(value), []).append((module, key))
    return index


def _public_modules():
    """Imported modules without a private part: a library may call itself inside."""
    for name, module in list(sys.modules.items()):
        if isinstance(module, types.ModuleType) and "._" not in f".{name}":
            yield module


def _settable(owner, attribute, value):
    try:
        setattr(owner, attribute, value)
    except (AttributeError, TypeError):
        return False  # a class written in C
    return True


def _is_library(value):
    return getattr(value, "__module__", None) != "__main__"


def _inside(name, package):
    return name == package or name.startswith(package + ".")
