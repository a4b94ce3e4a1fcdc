"""A vector-Jacobian product (VJP) rule: for which arguments of its op it is, and what its parameter names ask for."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from operator import getitem
from typing import Any, TypeAlias

from .signature import RESERVED, Signature, parameters_of

__all__ = ["Rule"]

Source: TypeAlias = tuple[str, Any]
"""Where a parameter of a rule comes from: a part of the node and the key in it, or None for all of it."""


class Rule:
    """One VJP rule of an op.

    Attributes
    ----------
    function : callable
        What the op's author wrote.
    arguments : tuple of int
        Positions of the arguments that it is for.
    first : int
        The first of them.
    only : int or None
        Position of the one argument that it asks for, after g; -1 if it asks for g alone; None if it is more than that.
    several : bool
        Whether it was declared for several arguments, or for a variadic one: it returns a tuple, one cotangent each.
    inputs : frozenset of int
        Positions of the arguments that it asks for.
    out : bool
        Whether it asks for the output.
    values : tuple of str
        Names that it asks for and that only `save` can give.
    run : callable
        Calls it: (node or its lifted view, g, needs) -> cotangents.
    """

    __slots__ = ("arguments", "first", "function", "inputs", "only", "out", "run", "several", "values")

    def __init__(
        self, op: str, signature: Signature, names: Sequence[str], arguments: tuple[int, ...],
        function: Callable[..., Any],
    ) -> None:  # fmt: skip
        sources: list[Source] = []
        for name in _parameters(op, function):
            if name in RESERVED:
                sources.append((name, None))
            elif name in signature.arguments:
                sources.append(("inputs", None if signature.variadic else signature.arguments.index(name)))
            else:
                sources.append(("settings" if name in signature.order else "extra", name))
        if ("g", None) not in sources:
            raise TypeError(f"op {op!r}: the rule for {tuple(names)} does not take the cotangent 'g'")
        self.function, self.arguments, self.first = function, arguments, arguments[0]
        self.several = len(arguments) > 1 or signature.variadic
        every = range(len(signature.arguments)) if ("inputs", None) in sources else ()
        self.inputs = frozenset(every) | {i for part, i in sources if part == "inputs" and i is not None}
        self.out = ("out", None) in sources
        self.only = _only(sources)
        self.values = tuple(name for part, name in sources if part == "extra")
        self.run = _runner(function, sources)


def _parameters(op: str, function: Callable[..., Any]) -> list[str]:
    """Return the names of a rule's parameters; refuse those of other kinds."""
    parameters = parameters_of(function)
    for parameter in parameters:
        if parameter.kind is not inspect.Parameter.POSITIONAL_OR_KEYWORD:
            stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
            name = stars.get(parameter.kind, "") + parameter.name
            raise TypeError(f"op {op!r}: a rule takes plain parameters, {name} is not one")
    return [parameter.name for parameter in parameters]


def _only(sources: list[Source]) -> int | None:
    match sources:
        case [("g", _)]:
            return -1
        case [("g", _), ("inputs", int(i))]:
            return i
    return None


def _runner(function: Callable[..., Any], sources: list[Source]) -> Callable[[Any, Any, tuple[bool, ...]], Any]:
    """Make the call of a rule from a node: fetch each parameter from where it is kept."""
    if [part for part, _ in sources] == ["g", "out"]:
        return lambda node, g, needs: function(g, node.out)

    parts, wholes = ("inputs", "settings", "extra"), ("g", "out", "needs", "inputs")
    places = [parts.index(part) if key is not None else len(parts) for part, key in sources]
    keys = [key if key is not None else wholes.index(part) for part, key in sources]

    def run(node: Any, g: Any, needs: tuple[bool, ...]) -> Any:
        found = (node.inputs, node.settings, node.extra, (g, node.out, needs, node.inputs))
        return function(*map(getitem, map(found.__getitem__, places), keys))

    return run
