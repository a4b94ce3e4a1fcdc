"""The parameters of an op: positional ones are arrays, keyword-only ones settings."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

__all__ = ["RESERVED", "Signature", "nearest"]

RESERVED: Final = ("g", "out", "needs")
"""Names with a meaning of their own among a rule's parameters: the cotangent, the output, which arguments need it."""


def nearest(name: str, names: Iterable[str], cutoff: float = 0.5) -> str:
    """Return " Did you mean 'x'?" for the name closest to a wrong one, or nothing."""
    import difflib  # only for messages, so it need not take its time when the package is imported

    found = difflib.get_close_matches(name, list(names), n=1, cutoff=cutoff)
    return f" Did you mean {found[0]!r}?" if found else ""


class Signature(NamedTuple):
    """An op's parameters: positional ones are arrays, keyword-only ones settings."""

    arguments: tuple[str, ...]
    optional: int  # how many of them, at the end, default to None
    variadic: bool
    order: tuple[str, ...]  # of the settings
    names: frozenset[str]  # likewise
    settings: dict[str, Any]  # with their defaults
    required: frozenset[str]  # settings without a default
    full: inspect.Signature

    def __str__(self) -> str:
        """Write the parameters as a call does, without their types."""
        bare = [parameter.replace(annotation=parameter.empty) for parameter in self.full.parameters.values()]
        return str(inspect.Signature(bare))

    @classmethod
    def of(cls, function: Callable[..., Any]) -> Signature:
        """Read the parameters of a forward; refuse what an op cannot have."""
        full = inspect.signature(function)
        name = getattr(function, "__name__", "op")
        arguments: list[str] = []
        order: list[str] = []
        settings: dict[str, Any] = {}
        optional, variadic = 0, False
        for parameter in full.parameters.values():
            if parameter.name in RESERVED:
                raise TypeError(f"op {name!r}: {parameter.name!r} is reserved, rename that parameter ({RESERVED})")
            if parameter.kind is parameter.VAR_KEYWORD:
                raise TypeError(f"op {name!r}: write each setting out instead of **{parameter.name}")
            if parameter.kind is parameter.KEYWORD_ONLY:
                order.append(parameter.name)
                if parameter.default is not parameter.empty:
                    settings[parameter.name] = parameter.default
                continue
            if parameter.kind is parameter.VAR_POSITIONAL:
                variadic = True
                if arguments:
                    raise TypeError(f"op {name!r}: *{parameter.name} must be its only positional parameter")
            elif parameter.default is None:
                optional += 1
            elif parameter.default is not parameter.empty:
                raise TypeError(
                    f"op {name!r}: the argument {parameter.name!r} has the default {parameter.default!r}; an array may "
                    f"only default to None, a setting goes behind the *"
                )
            arguments.append(parameter.name)
        if not arguments:
            raise TypeError(f"op {name!r} has no positional parameter: an op needs an array to act on")
        names = frozenset(order)
        return cls(tuple(arguments), optional, variadic, tuple(order), names, settings, names - settings.keys(), full)
