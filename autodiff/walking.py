"""What a value holds, however deep: items, attributes, and what a function has closed over."""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Iterator, Mapping
from types import BuiltinMethodType, FunctionType, MethodType, MethodWrapperType, ModuleType
from typing import Any

import numpy as np

from .binding import attributes_of
from .node import Leaf, Node

__all__ = ["is_whole", "walk"]

MOST = 10_000
"""So many parts of a value are looked at: an object may lead to all of a program."""

_PLAIN = (bool, int, float, complex, str, bytes, np.generic, type(None))
_CLOSED = (type, ModuleType, Node, Leaf)
"""What is not looked into: it belongs to the program, or to the graph."""


def walk(value: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    """Find a value and all that it holds, each with its place; what is held in two places once.

    Containers, the attributes of objects, and what a function has closed over or has as defaults are looked into. Not
    seen is what belongs to a class, what iterators and generators go on with, which cannot be read without being used
    up, and what objects hold that are not written in Python.
    """
    if is_whole(value):
        yield place, value
        return
    rest: list[tuple[str, Any]] = [(place, value)]
    seen: dict[int, Any] = {}  # by identity; kept alive, so that no identity is given again
    while rest and len(seen) < MOST:
        place, value = rest.pop()
        if is_whole(value):
            yield place, value
        elif id(value) not in seen and not isinstance(value, _CLOSED):
            seen[id(value)] = value
            yield place, value
            rest += reversed([(place + step, part) for step, part in _parts(value)])


def is_whole(value: Any) -> bool:
    """Whether a value holds no others: a number, a text, an array of numbers."""
    if isinstance(value, np.ndarray):
        return not value.dtype.hasobject
    return isinstance(value, _PLAIN)


def _parts(value: Any) -> list[tuple[str, Any]]:
    """Take a value apart by one step."""
    if isinstance(value, Mapping):
        keys = [(f".keys()[{i}]", key) for i, key in enumerate(value)]  # they have an order, and may be objects
        return [*keys, *((f"[{key!r}]", part) for key, part in value.items())]
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, (tuple, list, set, frozenset, deque)):
        return [(f"[{i}]", part) for i, part in enumerate(value)]
    if isinstance(value, memoryview):
        return _viewed(value)
    if isinstance(value, np.flatiter):
        return [(".base", value.base)]
    if isinstance(value, functools.partial):
        return [(".func", value.func), (".args", value.args), (".keywords", value.keywords)]
    if isinstance(value, (BuiltinMethodType, MethodWrapperType)):
        return [(".__self__", value.__self__)]
    if isinstance(value, MethodType):
        return [(".__self__", value.__self__), ("", value.__func__)]
    if isinstance(value, FunctionType):
        cells = zip(value.__code__.co_freevars, value.__closure__ or (), strict=True)
        inside = [(f", its variable {name}", cell.cell_contents) for name, cell in cells if _is_filled(cell)]
        defaults = [(".__defaults__", value.__defaults__), (".__kwdefaults__", value.__kwdefaults__)]
        return [*inside, *defaults, *_attributes(value)]
    return _attributes(value)


def _viewed(value: memoryview) -> list[tuple[str, Any]]:
    """Make an array of the memory that is viewed; where NumPy does not know the format, the bytes."""
    try:
        return [("", np.asarray(value))]
    except ValueError:
        return [("", value.tobytes())]


def _attributes(value: Any) -> list[tuple[str, Any]]:
    return [(f".{name}", part) for name, part in attributes_of(value).items()]


def _is_filled(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:  # of a variable that has no value yet
        return False
    return True
