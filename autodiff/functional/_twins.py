"""NumPy's functions recorded by functions of ours that are composed of ops, and so need no rule."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from ..arguments import reals
from ..node import TWINS, Array
from ..protocols import NumPyProtocols, refuse_out, signature_of, to_array

__all__ = ["operand", "operands", "twin"]

Function = TypeVar("Function", bound=Callable[..., Any])


def twin(*names: str) -> Callable[[Function], Function]:
    """Let calls of NumPy's functions on tensors go to the decorated function.

    It has NumPy's parameters, by name, order and default. One that it lacks is refused, unless it has its default.

    Parameters
    ----------
    *names : str
        NumPy's functions, as in ``np.``, such as "roll" or "linalg.outer". What this version of NumPy does not have
        is passed over.
    """

    def register(function: Function) -> Function:
        for name in names:
            theirs: Any = np
            for part in name.split("."):
                theirs = getattr(theirs, part, None)
            if theirs is not None:
                TWINS[theirs] = _adapted(name, theirs, function)
        return function

    return register


def operand(x: Array) -> Array:
    """Return a tensor as it is, anything else as a real array: what has a shape, a dtype and methods."""
    if isinstance(x, NumPyProtocols):
        return x
    return np.asarray(reals("a function of tensors", x))


def operands(*values: Array) -> list[Array]:
    """Return operands that meet: Python's numbers as arrays of the type of the others, also beside each other."""
    weak = (int, float)
    arrays = [x if type(x) in weak else operand(x) for x in values]
    dtype = np.result_type(*map(to_array, arrays))
    return [np.asarray(x, dtype) if type(x) in weak else x for x in arrays]


def _adapted(name: str, theirs: Any, ours: Callable[..., Any]) -> Callable[..., Any]:
    """Bind arguments to NumPy's signature, so that those that ours lacks are told from those that it has."""
    @functools.wraps(ours)
    def call(*args: Any, **settings: Any) -> Any:
        full, own = signature_of(theirs), signature_of(ours)
        assert own is not None  # ours are not written in C
        if full is None:
            given: dict[str, Any] = settings
            defaults: dict[str, Any] = {}
        else:
            bound = full.bind(*args, **settings)
            given = bound.arguments
            for key, value in given.items():
                reals(f"np.{name}: {key}=", value)
            named = [parameter for parameter in full.parameters.values() if parameter.kind in _NAMED]
            defaults = {parameter.name: parameter.default for parameter in named}
        for other in [key for key in given if key not in own.parameters and (full is None or key in defaults)]:
            value = given.pop(other)
            if other == "out":
                refuse_out(f"np.{name}", value)
            if value is not None and value is not defaults.get(other):
                raise TypeError(f"np.{name} on a tensor does not take {other}=...; it is {ours.__name__}{own}")
        return ours(*args, **settings) if full is None else ours(*bound.args, **bound.kwargs)

    return call


_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
