"""Places in a rule that matter only at exact points: where a float equals another, is infinite, or is no number.

No sample may lie there, since a function seldom has a derivative at such a point, so samples cannot tell whether the
value chosen for it is right. It is a decision, and has a test of its own.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..source import Source
from .faults import place

__all__ = ["Values", "exact_nodes"]

EXACT = {"equal", "isfinite", "isinf", "isnan", "isneginf", "isposinf", "not_equal"}
"""Functions that ask for exact points."""

Run = Callable[[Source, dict[str, Any]], None]
"""Runs the rules on all samples, with a changed function of which the source is given, and some more global names."""


class Values:
    """What the expressions of a function came to, over all samples."""

    def __init__(self, source: Source, run: Run) -> None:
        body = source.definition.body
        statements = body if isinstance(body, list) else [body]
        nodes = [part for one in statements for part in ast.walk(one) if _has_value(part)]
        self.numbers = {id(node): number for number, node in enumerate(nodes)}
        self.seen: dict[int, list[Any]] = {}
        twins: dict[int, Any] = {}
        module = copy.deepcopy(source.module, twins)
        definition = twins[id(source.definition)]
        _Wrap({id(twins[id(node)]): number for number, node in enumerate(nodes)}).visit(definition)
        run(source._replace(module=module, definition=definition), {"_seen": self._note})

    def _note(self, number: int, value: Any) -> Any:
        self.seen.setdefault(number, []).append(value)
        return value

    def of(self, node: ast.AST) -> list[Any]:
        """Return all values that an expression had."""
        return self.seen.get(self.numbers.get(id(node), -1), [])

    def is_empty(self, node: ast.AST) -> bool:
        """Whether it was always an array without elements, in which no number can be wrong."""
        values = self.of(node)
        return bool(values) and all(isinstance(value, np.ndarray) and not value.size for value in values)

    def never(self, node: ast.AST) -> bool | None:
        """Return the truth value that no element of a condition had; None where both occurred, or it was no array."""
        found = [np.asarray(value) for value in self.of(node) if isinstance(value, (np.ndarray, np.bool_))]
        if len(found) < len(self.of(node)) or not found or any(value.dtype != bool for value in found):
            return None
        flat = np.concatenate([value.reshape(-1) for value in found])
        return None if not flat.size or (flat.any() and not flat.all()) else not flat[0]


def _has_value(node: ast.AST) -> bool:
    if not isinstance(node, ast.expr) or isinstance(node, (ast.Starred, ast.Slice, ast.FormattedValue)):
        return False
    return isinstance(getattr(node, "ctx", ast.Load()), ast.Load)


class _Wrap(ast.NodeTransformer):
    """Lets expressions pass through a function that notes their values."""

    def __init__(self, numbers: dict[int, int]) -> None:
        self.numbers = numbers

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.JoinedStr:
        """Leave a formatted text as it is."""
        return node

    def generic_visit(self, node: ast.AST) -> ast.AST:
        number = self.numbers.get(id(node))
        super().generic_visit(node)
        if number is None:
            return node
        value: Any = node
        made = ast.Call(ast.Name("_seen", ast.Load()), [ast.Constant(number), value], [])
        place(made, node)
        return made


def exact_nodes(definition: ast.AST, values: Values) -> set[int]:
    """Find the parts of a function that matter only at exact points that no sample lies on, by their identity."""
    found: set[int] = set()
    names: set[str] = set()
    for node in ast.walk(definition):  # statements before what is in them, in their order
        for name, value in _assigned(node):
            if _asks(value, names, values) and values.never(value) is not None:
                names.add(name)
                found |= _inside(value)
        for condition, branches in _choices(node):
            if _asks(condition, names, values) and (never := values.never(condition)) is not None:
                found |= _inside(condition).union(*map(_inside, branches[0 if never else 1]))
        if _is_question(node) and values.never(node) is _expected(node) and _is_floating(node, values):
            found |= _inside(node)
    return found | _combined(definition, found)


def _combined(definition: ast.AST, found: set[int]) -> set[int]:
    """Find the operations by which such places are combined with others: to forget one is to forget an exact point."""
    more: set[int] = set()
    for node in [*ast.walk(definition)][::-1]:  # from the inside out
        if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.BitAnd, ast.BitOr)):
            if {id(node.left), id(node.right)} & (found | more):
                more.add(id(node))
    return more


def _assigned(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """Give the names that a statement assigns to, each with its value."""
    if isinstance(node, ast.Assign):
        target, value = node.targets[0], node.value
        several = isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple)
        pairs = zip(target.elts, value.elts, strict=False) if several else [(target, value)]  # type: ignore[attr-defined]
        yield from ((name.id, one) for name, one in pairs if isinstance(name, ast.Name))


def _is_question(node: ast.AST) -> bool:
    """Whether it may ask for exact points."""
    if isinstance(node, ast.Compare):
        return len(node.ops) == 1 and isinstance(node.ops[0], (ast.Eq, ast.NotEq))
    return isinstance(node, ast.Call) and getattr(node.func, "attr", "") in EXACT


def _expected(question: Any) -> bool:
    """The answer at an exact point."""
    if isinstance(question, ast.Compare):
        return isinstance(question.ops[0], ast.Eq)
    return question.func.attr not in ("isfinite", "not_equal")


def _is_floating(question: Any, values: Values) -> bool:
    """Whether it is asked of floats; integers can be sampled."""
    operands = [question.left, *question.comparators] if isinstance(question, ast.Compare) else question.args
    return any(np.asarray(value).dtype.kind == "f" for operand in operands for value in values.of(operand))


def _asks(condition: ast.AST, names: set[str], values: Values) -> bool:
    """Whether a condition is made of such questions, or of variables that are."""
    parts = list(ast.walk(condition))
    return any(getattr(part, "id", None) in names for part in parts) or any(
        _is_question(part) and _is_floating(part, values) for part in parts
    )


def _choices(node: ast.AST) -> Iterator[tuple[ast.AST, tuple[list[Any], list[Any]]]]:
    """Give a condition with what it chooses when true, and when false."""
    if isinstance(node, ast.If):
        yield node.test, (list(node.body), list(node.orelse))
    elif isinstance(node, ast.IfExp):
        yield node.test, ([node.body], [node.orelse])
    elif isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "where" and len(node.args) == 3:
        yield node.args[0], ([node.args[1]], [node.args[2]])


def _inside(node: ast.AST) -> set[int]:
    return {id(part) for part in ast.walk(node)}

