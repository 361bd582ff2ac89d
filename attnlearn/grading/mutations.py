"""The small changes that make a mutant: one function for each kind of node."""

import ast
import copy

COMPARISONS = {
    ast.Lt: (ast.LtE, ast.Gt),
    ast.LtE: (ast.Lt, ast.GtE),
    ast.Gt: (ast.GtE, ast.Lt),
    ast.GtE: (ast.Gt, ast.LtE),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
OPERATORS = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Div,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.BitXor: ast.BitOr,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}
TWINS = {
    "max": "min",
    "amax": "amin",
    "maximum": "minimum",
    "argmax": "argmin",
    "any": "all",
    "zeros": "ones",
    "zeros_like": "ones_like",
    "tril": "triu",
    "floor": "ceil",
    "sum": "mean",
    "cumsum": "cumprod",
    "isnan": "isinf",
    "logical_and": "logical_or",
    "greater": "greater_equal",
    "less": "less_equal",
}
TWINS |= {twin: name for name, twin in TWINS.items()}


def mutations(node, again):
    """[(what changes, new node)]; `again` is a copy of the node to build from."""
    make = MAKERS.get(type(node))
    return list(make(again)) if make else []


def _compare(node):
    for at, operator in enumerate(node.ops):
        for other in COMPARISONS.get(type(operator), ()):
            new = copy.deepcopy(node)
            new.ops[at] = other()
            yield f"{type(operator).__name__} becomes {other.__name__}", new


def _operation(node):
    name = type(node.op).__name__
    if other := OPERATORS.get(type(node.op)):
        yield f"{name} becomes {other.__name__}", ast.BinOp(node.left, other(), node.right)
    if isinstance(node.op, (ast.Sub, ast.Div, ast.MatMult, ast.FloorDiv, ast.Mod, ast.Pow)):
        yield f"{name} turned round", ast.BinOp(node.right, node.op, node.left)
    yield f"{name}: right term dropped", node.left
    yield f"{name}: left term dropped", node.right


def _augmented(node):
    if other := OPERATORS.get(type(node.op)):
        name = type(node.op).__name__
        yield f"{name} becomes {other.__name__}", ast.AugAssign(node.target, other(), node.value)
    yield "update dropped", ast.Pass()


def _unary(node):
    if isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
        number = node.operand.value
        if isinstance(number, int):  # an axis, a last position
            for other in (-number - 1, -number + 1):
                yield f"-{number} becomes {other}", _constant_node(other)
    yield f"{type(node.op).__name__} dropped", node.operand


def _constant(node):
    value = node.value
    if isinstance(value, bool):
        yield f"{value} becomes {not value}", ast.Constant(not value)
    elif isinstance(value, int):
        for other in (value + 1, value - 1):
            yield f"{value} becomes {other}", _constant_node(other)
    elif isinstance(value, float):
        for other in (value + 1.0, value * 2.0):
            yield f"{value} becomes {other}", ast.Constant(other)


def _constant_node(number):
    constant = ast.Constant(abs(number))
    return constant if number >= 0 else ast.UnaryOp(ast.USub(), constant)


def _boolean(node):
    other = ast.Or if isinstance(node.op, ast.And) else ast.And
    yield f"{type(node.op).__name__} becomes {other.__name__}", ast.BoolOp(other(), node.values)
    for at in range(len(node.values)):
        left = node.values[:at] + node.values[at + 1 :]
        kept = left[0] if len(left) == 1 else ast.BoolOp(node.op, left)
        yield f"condition {at + 1} dropped", kept


def _branch(node):
    """The test of an `if` or of a conditional expression turned; of the latter each side kept."""
    if isinstance(node, ast.If):
        node.test = ast.UnaryOp(ast.Not(), node.test)
        yield "condition turned", node
    else:
        yield "condition turned", ast.IfExp(node.test, node.orelse, node.body)
        yield "always the first", node.body
        yield "always the second", node.orelse


def _call(node):
    for at in range(len(node.args) - 1):
        new = copy.deepcopy(node)
        new.args[at], new.args[at + 1] = new.args[at + 1], new.args[at]
        yield f"arguments {at + 1} and {at + 2} swapped", new
    for at, keyword in enumerate(node.keywords):
        new = copy.deepcopy(node)
        del new.keywords[at]
        yield f"argument {keyword.arg} dropped", new
    if node.args and not isinstance(node.args[0], ast.Starred):
        yield "call dropped", node.args[0]
    if isinstance(node.func, ast.Attribute) and node.func.attr in TWINS:
        new = copy.deepcopy(node)
        new.func.attr = TWINS[node.func.attr]
        yield f"{node.func.attr} becomes {new.func.attr}", new
    if isinstance(node.func, ast.Name) and node.func.id in TWINS:
        new = copy.deepcopy(node)
        new.func.id = TWINS[node.func.id]
        yield f"{node.func.id} becomes {new.func.id}", new


def _subscript(node):
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else []
    for at in range(len(parts) - 1):
        new = copy.deepcopy(node)
        new.slice.elts[at], new.slice.elts[at + 1] = parts[at + 1], parts[at]
        yield f"axes {at} and {at + 1} swapped", new
    if isinstance(node.ctx, ast.Load):
        yield "subscript dropped", node.value


def _slice(node):
    for side in ("lower", "upper"):
        bound = getattr(node, side)
        if bound is None:
            continue
        for sign, operator in (("+", ast.Add), ("-", ast.Sub)):
            new = copy.deepcopy(node)
            setattr(new, side, ast.BinOp(copy.deepcopy(bound), operator(), ast.Constant(1)))
            yield f"{side} bound {sign} 1", new
        new = copy.deepcopy(node)
        setattr(new, side, None)
        yield f"{side} bound dropped", new


def _assignment(node):
    if isinstance(node.targets[0], ast.Subscript):
        yield "assignment dropped", ast.Pass()


def _statement(node):
    if isinstance(node.value, ast.Call):
        yield "call dropped", ast.Pass()


def _attribute(node):
    if node.attr == "T" and isinstance(node.ctx, ast.Load):
        yield "transpose dropped", node.value


MAKERS = {
    ast.Compare: _compare,
    ast.BinOp: _operation,
    ast.AugAssign: _augmented,
    ast.UnaryOp: _unary,
    ast.Constant: _constant,
    ast.BoolOp: _boolean,
    ast.If: _branch,
    ast.IfExp: _branch,
    ast.Call: _call,
    ast.Subscript: _subscript,
    ast.Slice: _slice,
    ast.Assign: _assignment,
    ast.Expr: _statement,
    ast.Attribute: _attribute,
}
