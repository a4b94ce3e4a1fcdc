"""The parameters of an op: positional ones are arrays, keyword-only ones settings."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from functools import cached_property
from types import FunctionType
from typing import Any, Final, NamedTuple

__all__ = ["RESERVED", "Signature", "nearest", "parameters_of"]

RESERVED: Final = ("g", "out", "needs")
"""Names with a meaning of their own among a rule's parameters: the cotangent, the output, which arguments need it."""


def nearest(name: str, names: Iterable[str], cutoff: float = 0.5) -> str:
    """Return " Did you mean 'x'?" for the name closest to a wrong one, or nothing."""
    import difflib  # only for messages, so it need not take its time when the package is imported

    found = difflib.get_close_matches(name, list(names), n=1, cutoff=cutoff)
    return f" Did you mean {found[0]!r}?" if found else ""


class Parameter(NamedTuple):
    """One parameter of a function; kinds and the mark of a missing default are those of `inspect`."""

    name: str
    kind: Any
    default: Any


def parameters_of(function: Callable[..., Any]) -> list[Parameter]:
    """List a function's parameters, in the order of its signature.

    A plain function is read directly: importing the ops asks for hundreds, and `inspect` takes ten times as long.
    """
    if type(function) is not FunctionType or function.__dict__:  # it may have been wrapped
        return [Parameter(p.name, p.kind, p.default) for p in inspect.signature(function).parameters.values()]
    code = function.__code__
    count, end = code.co_argcount, code.co_argcount + code.co_kwonlyargcount
    names, defaults, by_name = code.co_varnames, function.__defaults__ or (), function.__kwdefaults__ or {}
    extra = iter(names[end:])  # the names of *arguments and **settings stand behind all others
    found = [
        Parameter(
            names[i], _ONLY if i < code.co_posonlyargcount else _PLAIN,
            defaults[i - count] if count - i <= len(defaults) else _MISSING,
        )
        for i in range(count)
    ]  # fmt: skip
    if code.co_flags & inspect.CO_VARARGS:
        found.append(Parameter(next(extra), inspect.Parameter.VAR_POSITIONAL, _MISSING))
    found += [Parameter(name, inspect.Parameter.KEYWORD_ONLY, by_name.get(name, _MISSING)) for name in names[count:end]]
    if code.co_flags & inspect.CO_VARKEYWORDS:
        found.append(Parameter(next(extra), inspect.Parameter.VAR_KEYWORD, _MISSING))
    return found


_ONLY, _PLAIN = inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD
_MISSING = inspect.Parameter.empty


class Signature:
    """An op's parameters: positional ones are arrays, keyword-only ones settings. Refuses what an op cannot have.

    Attributes
    ----------
    arguments : tuple of str
    optional : int
        How many of them, at the end, default to None.
    variadic : bool
    order : tuple of str
        The settings, in order.
    names : frozenset of str
        Likewise.
    settings : dict
        Those that have a default, with it.
    required : frozenset of str
        The others.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        name = getattr(function, "__name__", "op")
        arguments: list[str] = []
        order: list[str] = []
        self.settings: dict[str, Any] = {}
        self.optional, self.variadic = 0, False
        for parameter in parameters_of(function):
            if parameter.name in RESERVED:
                raise TypeError(f"op {name!r}: {parameter.name!r} is reserved, rename that parameter ({RESERVED})")
            if parameter.kind is inspect.Parameter.VAR_KEYWORD:
                raise TypeError(f"op {name!r}: write each setting out instead of **{parameter.name}")
            if parameter.kind is inspect.Parameter.KEYWORD_ONLY:
                order.append(parameter.name)
                if parameter.default is not _MISSING:
                    self.settings[parameter.name] = parameter.default
                continue
            if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
                self.variadic = True
                if arguments:
                    raise TypeError(f"op {name!r}: *{parameter.name} must be its only positional parameter")
            elif parameter.default is None:
                self.optional += 1
            elif parameter.default is not _MISSING:
                raise TypeError(
                    f"op {name!r}: the argument {parameter.name!r} has the default {parameter.default!r}; an array may "
                    f"only default to None, a setting goes behind the *"
                )
            arguments.append(parameter.name)
        if not arguments:
            raise TypeError(f"op {name!r} has no positional parameter: an op needs an array to act on")
        self.arguments, self.order, self.names = tuple(arguments), tuple(order), frozenset(order)
        self.required = self.names - self.settings.keys()

    @cached_property
    def full(self) -> inspect.Signature:
        """The signature as `inspect` has it."""
        return inspect.signature(self._function)

    def __str__(self) -> str:
        """Write the parameters as a call does, without their types."""
        bare = [parameter.replace(annotation=parameter.empty) for parameter in self.full.parameters.values()]
        return str(inspect.Signature(bare))
