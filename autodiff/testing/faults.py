"""The mistakes that authors of VJP rules make, as changes of a rule's syntax tree.

What cannot change the result is not proposed: a sign under a square, the order of commuting operands, an allocation's
dtype, the shape of g in place of that of out, a gradient that is computed though nobody needs it.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeAlias

__all__ = ["ADVICE", "Bound", "Fault", "Site", "faults", "place"]

ADVICE = {
    "sign": "a sample in which this term is not zero",
    "factor": "a sample in which this factor is neither 0 nor 1",
    "constant": "a sample with more elements, longer sides or more axes",
    "swapped": "a sample whose operands differ in value and in shape",
    "dropped": "a sample in which this changes the result: not zero, not one, not empty",
    "sum": "a sample with more than one element along the summed axes, of unequal numbers",
    "axis": "a sample with three axes of unequal sides, and one with this axis negative, in a tuple, or absent",
    "keepdims": "samples with keepdims both ways, reducing an axis that is not the first",
    "condition": "samples on both sides of this condition, whose results differ",
    "name": "a sample in which these two differ in value and in shape",
    "transposition": "a sample with two unequal sides, or an unsymmetric square",
    "function": "a sample in which the two functions differ",
}
"""For each kind of mistake, the sample that is likely to show it."""

EXCHANGED = {
    "sin": "cos", "cos": "sin", "sinh": "cosh", "cosh": "sinh", "maximum": "minimum", "minimum": "maximum",
    "max": "min", "min": "max", "sum": "mean", "mean": "sum", "any": "all", "all": "any", "floor": "ceil",
    "ceil": "floor", "zeros_like": "ones_like", "ones_like": "zeros_like", "zeros": "ones", "ones": "zeros",
    "add": "subtract", "subtract": "add", "multiply": "divide", "divide": "multiply", "triu": "tril", "tril": "triu",
    "argmax": "argmin", "argmin": "argmax", "greater": "less", "less": "greater",
}  # fmt: skip
"""Functions that are taken for each other."""

TRANSPOSING = {"flip", "matrix_transpose", "moveaxis", "rollaxis", "swapaxes", "transpose"}
SUMMING = {"amax", "amin", "max", "mean", "min", "prod", "sum"}
OPTIONAL = {
    "abs", "broadcast_to", "clip", "copy", "cos", "cosh", "cumsum", "exp", "expand_dims", "log", "ravel", "repeat",
    "reshape", "sign", "sin", "sinh", "sqrt", "square", "squeeze", "tan", "tanh", "tril", "triu",
}  # fmt: skip
"""Functions that may be forgotten, of one array (and settings)."""

ORDERED = {"divide", "matmul", "power", "subtract", "where"}
"""Functions whose last two arguments do not commute."""

EVEN = {"abs", "absolute", "cos", "cosh", "fabs", "square"}
"""Functions that do not see a sign."""

UNSEEN = {"casting", "copy", "dtype", "like", "optimize", "order", "out", "strict", "subok"}
"""Keywords that say how, not what."""

ALLOCATING = {"empty", "empty_like", "errstate", "finfo", "result_type"}
"""Functions whose arguments decide how results are kept, and what is warned of."""

PYTHON = {"errstate", "isinstance", "len", "print", "range", "tuple", "list", "type", "warn", "zip", "enumerate"}
"""Functions of no mathematics: dropped they raise."""

Replacement: TypeAlias = tuple[str, ast.AST]


class Site(NamedTuple):
    """A place in a syntax tree: what stands there, where its parent holds it, and whether it is what is returned."""

    node: ast.AST
    parent: ast.AST
    field: str
    place: int | None
    returned: bool

    def put(self, node: ast.AST) -> None:
        """Put something else there."""
        if self.place is None:
            setattr(self.parent, self.field, node)
        else:
            getattr(self.parent, self.field)[self.place] = node


class Fault(NamedTuple):
    """A mistake: its kind, its place, and what would stand there."""

    kind: str
    site: Site
    replacement: ast.AST


def faults(definition: ast.AST, exchangeable: tuple[str, ...] = ()) -> Iterator[Fault]:
    """Find the mistakes that a function's body invites.

    Parameters
    ----------
    definition : FunctionDef or Lambda
        The function; its tree is not changed.
    exchangeable : tuple of str
        Parameters of the function that may be taken for each other.

    Yields
    ------
    Fault
        Each is another one: no two give the same text.
    """
    seen: set[tuple[int, str]] = set()
    for site in _sites(definition):
        for kind, replacement in _replacements(site, exchangeable):
            place(replacement, site.node)
            text = (id(site.node), ast.dump(replacement))
            if text not in seen and ast.dump(replacement) != ast.dump(site.node):
                seen.add(text)
                yield Fault(kind, site, replacement)


def place(made: ast.AST, old: ast.AST) -> None:
    """Give a made node the place of an old one; a part of the old one keeps its own."""
    if not hasattr(made, "lineno"):
        ast.copy_location(made, old)
        ast.fix_missing_locations(made)


class Bound(ast.NodeTransformer):
    """Rewrites each ``while`` as a ``for`` that raises after so many rounds: with a changed step it might never end."""

    def __init__(self, rounds: int) -> None:
        self.rounds = rounds

    def visit_While(self, loop: ast.While) -> ast.For:
        """Rewrite one, and those inside it."""
        self.generic_visit(loop)
        leave = ast.If(loop.test, [ast.Pass()], [ast.Break()])
        rounds = ast.Call(ast.Name("range", ast.Load()), [ast.Constant(self.rounds)], [])
        endless = ast.Raise(ast.Name("RuntimeError", ast.Load()), None)
        made = ast.For(ast.Name("_round", ast.Store()), rounds, [leave, *loop.body], [*loop.orelse, endless])
        place(made, loop)
        return made


def _is_bound(parent: ast.AST, field: str) -> bool:
    return field == "iter" and isinstance(parent, ast.For) and getattr(parent.target, "id", "") == "_round"


def _sites(node: ast.AST, returned: bool = False) -> Iterator[Site]:
    """Walk the places where something is computed: no decorators, annotations, defaults, messages or docstrings."""
    inside = isinstance(node, (ast.Return, ast.Lambda)) or (returned and isinstance(node, ast.Tuple))
    for field, value in ast.iter_fields(node):
        if isinstance(node, (ast.FunctionDef, ast.Lambda)) and field != "body":
            continue
        for index, child in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if isinstance(child, (ast.keyword, ast.comprehension, ast.withitem)):
                yield from _sites(child) if getattr(child, "arg", None) not in UNSEEN else ()
            elif isinstance(child, (ast.expr, ast.stmt)) and not _is_aside(node, field, child):
                yield Site(child, node, field, index, inside)
                yield from _sites(child, inside)


def _is_aside(parent: ast.AST, field: str, child: ast.AST) -> bool:
    """Whether a part of the tree has no say in the result."""
    if isinstance(child, (ast.Raise, ast.Assert, ast.JoinedStr, ast.Import, ast.ImportFrom)):
        return True
    if _is_bound(parent, field):
        return True
    if isinstance(parent, ast.Call) and (_called(parent) in ALLOCATING or _infers_a_side(parent, child)):
        return True
    if field == "annotation" or isinstance(getattr(child, "ctx", None), (ast.Store, ast.Del)):
        return isinstance(child, ast.Name) or field == "annotation"
    return isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant)


def _infers_a_side(call: ast.Call, child: ast.AST) -> bool:
    """Whether it is the -1 of a reshape; any negative number means the same there."""
    sides = child.elts if isinstance(child, ast.Tuple) else [child]
    return _called(call) == "reshape" and any(isinstance(side, ast.UnaryOp) for side in sides)


def _replacements(site: Site, exchangeable: tuple[str, ...]) -> Iterator[Replacement]:
    node = site.node
    even = _is_even(site)
    if isinstance(node, ast.Name):
        if isinstance(node.ctx, ast.Load) and node.id in exchangeable:
            yield from _names(site, node.id, exchangeable)
    else:
        for kind, of in _BY_TYPE:
            if isinstance(node, kind):
                found = of(node)
                yield from (one for one in found if not (even and _is_sign(one)))
    if site.field in ("lower", "upper") and not isinstance(node, (ast.Constant, ast.UnaryOp)):
        yield "constant", _binary(node, ast.Add(), ast.Constant(1))
    if isinstance(site.parent, (ast.If, ast.IfExp)) and site.field == "test":
        if isinstance(node, (ast.Name, ast.Attribute, ast.Subscript, ast.Call)):
            yield "condition", ast.UnaryOp(ast.Not(), node)
    if site.returned and isinstance(
        node, (ast.Name, ast.BinOp, ast.Call, ast.Subscript, ast.Attribute, ast.IfExp)
    ) and not (isinstance(node, ast.Call) and _called(node) in PYTHON):  # fmt: skip
        yield "sign", ast.UnaryOp(ast.USub(), node)
        yield "factor", _binary(ast.Constant(2), ast.Mult(), node)


def _is_even(site: Site) -> bool:
    """Whether its sign has no influence: directly under a square, an absolute value or a cosine."""
    parent = site.parent
    if isinstance(parent, ast.BinOp) and isinstance(parent.op, ast.Pow):
        exponent = parent.right
        return site.field == "left" and isinstance(exponent, ast.Constant) and exponent.value in (2, 4)
    return isinstance(parent, ast.Call) and _called(parent) in EVEN


def _is_sign(replacement: Replacement) -> bool:
    kind, node = replacement
    swapped = kind == "swapped" and isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub)
    return swapped or (kind == "sign" and not isinstance(node, ast.BinOp))


# --- the mistakes, by what they are made in ---


def _binary(left: Any, op: ast.operator, right: Any) -> ast.BinOp:
    return ast.BinOp(left, op, right)


def _is_sequence(node: ast.AST) -> bool:
    """Whether it is written as a tuple or list, whose + and * are not arithmetic."""
    return isinstance(node, (ast.Tuple, ast.List)) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def _binary_operation(node: ast.BinOp) -> Iterator[Replacement]:
    left, right = node.left, node.right
    if _is_sequence(left) or _is_sequence(right):
        return
    match node.op:
        case ast.Add():
            yield "sign", _binary(left, ast.Sub(), right)
            yield "dropped", left
            yield "dropped", right
        case ast.Sub():
            yield "sign", _binary(left, ast.Add(), right)
            yield "swapped", _binary(right, ast.Sub(), left)
            yield "dropped", left
            yield "dropped", ast.UnaryOp(ast.USub(), right)
        case ast.Mult():
            yield "factor", _binary(left, ast.Div(), right)
            yield "dropped", left
            yield "dropped", right
        case ast.Div() | ast.FloorDiv():
            yield "factor", _binary(left, ast.Mult(), right)
            yield "swapped", _binary(right, node.op, left)
            yield "dropped", left
        case ast.MatMult() | ast.Pow():
            yield "swapped", _binary(right, node.op, left)
            yield "dropped", left
        case ast.Mod():
            yield "dropped", left
        case ast.BitAnd() | ast.BitOr():
            yield "condition", _binary(left, ast.BitOr() if isinstance(node.op, ast.BitAnd) else ast.BitAnd(), right)
            yield "dropped", left
            yield "dropped", right


def _unary_operation(node: ast.UnaryOp) -> Iterator[Replacement]:
    yield ("sign" if isinstance(node.op, ast.USub) else "condition"), node.operand


def _constant(node: ast.Constant) -> Iterator[Replacement]:
    value = node.value
    if isinstance(value, bool):
        yield "condition", ast.Constant(not value)
    elif isinstance(value, int):
        yield "constant", ast.Constant(value + 1)
        yield "constant", ast.Constant(value - 1) if value else ast.UnaryOp(ast.USub(), ast.Constant(1))
    elif isinstance(value, float):
        yield "factor", ast.Constant(2 * value if value else 1.0)
        yield "constant", ast.Constant(value + 1)


NEGATED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.GtE, ast.GtE: ast.Lt, ast.Gt: ast.LtE, ast.LtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
"""Not `<` to `<=`: at the one point where these differ is a kink, where no sample may lie."""


def _comparison(node: ast.Compare) -> Iterator[Replacement]:
    if len(node.ops) == 1:
        yield "condition", ast.Compare(node.left, [NEGATED[type(node.ops[0])]()], node.comparators)


def _boolean_operation(node: ast.BoolOp) -> Iterator[Replacement]:
    yield "condition", ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values)
    for i in range(len(node.values)):
        rest = [value for k, value in enumerate(node.values) if k != i]
        yield "condition", ast.BoolOp(node.op, rest) if len(rest) > 1 else rest[0]


def _choice(node: ast.IfExp) -> Iterator[Replacement]:
    needed = any(getattr(part, "id", None) == "needs" for part in ast.walk(node.test))
    for chosen, other in ((node.body, node.orelse), (node.orelse, node.body)):
        if not (needed and isinstance(other, ast.Constant) and other.value is None):
            yield "condition", chosen


def _attribute(node: ast.Attribute) -> Iterator[Replacement]:
    if node.attr in ("T", "mT") and isinstance(node.ctx, ast.Load):
        yield "transposition", node.value


def _statement(node: ast.stmt) -> Iterator[Replacement]:
    """Something done in place is forgotten, or another thing is done."""
    if isinstance(node, ast.AugAssign):
        others: dict[type[ast.operator], tuple[str, ast.operator]] = {
            ast.Add: ("sign", ast.Sub()), ast.Sub: ("sign", ast.Add()), ast.Mult: ("factor", ast.Div()),
            ast.Div: ("factor", ast.Mult()),
        }  # fmt: skip
        if type(node.op) in others:
            kind, other = others[type(node.op)]
            yield kind, ast.AugAssign(node.target, other, node.value)
        yield "dropped", ast.Pass()
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        yield "dropped", ast.Pass()


def _called(node: ast.Call) -> str:
    """Last part of the name of what is called."""
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def _call(node: ast.Call) -> Iterator[Replacement]:
    name = _called(node)
    is_method = isinstance(node.func, ast.Attribute) and not (
        isinstance(node.func.value, ast.Name) and node.func.value.id in ("np", "numpy", "F")
    )
    of: list[ast.expr] = [node.func.value] if is_method and isinstance(node.func, ast.Attribute) else node.args[:1]
    for operand in of if not any(isinstance(one, ast.Starred) for one in of) else []:
        for kind, names in (("transposition", TRANSPOSING), ("sum", SUMMING), ("dropped", OPTIONAL)):
            if name in names:
                yield kind, operand
    if name in EXCHANGED and isinstance(node.func, ast.Attribute):
        function = ast.Attribute(node.func.value, EXCHANGED[name], ast.Load())
        yield "sum" if name in SUMMING else "function", ast.Call(function, node.args, node.keywords)
    if name in ORDERED and not is_method and len(node.args) >= 2 and not any(
        isinstance(argument, ast.Starred) for argument in node.args
    ):  # fmt: skip
        start = 1 if name == "where" else 0
        arguments = [*node.args[:start], *node.args[start : start + 2][::-1], *node.args[start + 2 :]]
        yield "swapped", ast.Call(node.func, arguments, node.keywords)
    for i, keyword in enumerate(node.keywords):
        if keyword.arg in ("axis", "keepdims") and not isinstance(keyword.value, ast.Constant):
            without = [*node.keywords[:i], *node.keywords[i + 1 :]]
            yield keyword.arg, ast.Call(node.func, node.args, without)
            if keyword.arg == "axis":
                first = ast.keyword("axis", ast.Constant(0))
                yield "axis", ast.Call(node.func, node.args, [*without, first])


def _names(site: Site, name: str, exchangeable: tuple[str, ...]) -> Iterator[Replacement]:
    """The next parameter is written in place of this one."""
    other = exchangeable[(exchangeable.index(name) + 1) % len(exchangeable)]
    of = site.parent.attr if isinstance(site.parent, ast.Attribute) else ""
    same_shape = {name, other} <= {"g", "out"} and of in ("shape", "ndim", "size")
    if other != name and of != "dtype" and not same_shape:
        yield "name", ast.Name(other, ast.Load())


_BY_TYPE: tuple[tuple[type[ast.AST], Callable[[Any], Iterator[Replacement]]], ...] = (
    (ast.BinOp, _binary_operation),
    (ast.UnaryOp, _unary_operation),
    (ast.Constant, _constant),
    (ast.Compare, _comparison),
    (ast.BoolOp, _boolean_operation),
    (ast.IfExp, _choice),
    (ast.Attribute, _attribute),
    (ast.Call, _call),
    (ast.stmt, _statement),
)
