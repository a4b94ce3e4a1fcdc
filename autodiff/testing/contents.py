"""What a value holds, however deep, and whether that has changed since it was looked at."""

from __future__ import annotations

import functools
import operator
import random
from array import array
from collections import deque
from collections.abc import Iterator, Mapping
from types import FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..binding import attributes_of
from ..node import Leaf, Node

__all__ = ["Picture", "arrays_in", "reached"]

MOST = 10_000
"""So many parts of a value are looked at: an object may lead to all of a program."""

_PLAIN = (bool, int, float, complex, str, bytes, np.generic, type(None))
_CLOSED = (type, ModuleType, Node, Leaf)
"""What is not looked into: it belongs to the program, or to the graph."""


def reached(value: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    """Find the arrays, numbers and texts in a value, and how long its containers are, each with its place.

    Containers, the attributes of objects, and what a function has closed over or has as defaults are looked into. So
    are buffers, the state of random generators, and how much is left of an iterator over a sequence. Not seen is what
    belongs to a class, and what a generator function or a file goes on with: it cannot be read without being used up.
    """
    if _is_whole(value):
        yield place, value
        return
    rest: list[tuple[str, Any]] = [(place, value)]
    seen: dict[int, Any] = {}  # by identity; kept alive, so that no identity is given again
    while rest and len(seen) < MOST:
        place, value = rest.pop()
        if isinstance(value, _CLOSED):
            continue
        if _is_whole(value):
            yield place, value
        elif id(value) not in seen:
            seen[id(value)] = value
            if isinstance(value, (dict, list, set, deque)):
                yield f"len({place})", len(value)
            yield from ((place + step, state) for step, state in _state(value))
            rest += reversed([(place + step, part) for step, part in _parts(value)])


def _is_whole(value: Any) -> bool:
    """Whether nothing is held that could change by itself: a number, a text, an array of numbers."""
    return isinstance(value, _PLAIN) or (isinstance(value, np.ndarray) and not value.dtype.hasobject)


def _state(value: Any) -> Iterator[tuple[str, Any]]:
    """Read what a value holds that is neither an attribute nor an item, as bytes, a text or a number."""
    if isinstance(value, (bytearray, array)):
        yield "", bytes(value)  # a copy: a view would keep it from growing
    elif isinstance(value, memoryview):
        try:
            yield "", np.asarray(value)
        except ValueError:  # a format that NumPy does not know
            yield "", value.tobytes()
    elif isinstance(value, np.random.Generator):
        yield ", its state", repr(value.bit_generator.state)
    elif isinstance(value, np.random.BitGenerator):
        yield ", its state", repr(value.state)
    elif isinstance(value, np.random.RandomState):
        yield ", its state", repr(value.get_state(legacy=False))
    elif isinstance(value, random.Random):
        yield ", its state", repr(value.getstate())
    elif isinstance(value, Iterator):
        yield ", what is left of it", operator.length_hint(value)


def _parts(value: Any) -> list[tuple[str, Any]]:
    """Take a value apart by one step."""
    if isinstance(value, Mapping):
        keys = [(f".keys()[{i}]", key) for i, key in enumerate(value)]  # they have an order, and may be objects
        return [*keys, *((f"[{key!r}]", part) for key, part in value.items())]
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, (tuple, list, set, frozenset, deque)):
        return [(f"[{i}]", part) for i, part in enumerate(value)]
    if isinstance(value, functools.partial):
        return [(".func", value.func), (".args", value.args), (".keywords", value.keywords)]
    if isinstance(value, MethodType):
        return [(".__self__", value.__self__), ("", value.__func__)]
    if isinstance(value, FunctionType):
        cells = zip(value.__code__.co_freevars, value.__closure__ or (), strict=True)
        inside = [(f", its variable {name}", cell.cell_contents) for name, cell in cells if _is_filled(cell)]
        defaults = [(".__defaults__", value.__defaults__), (".__kwdefaults__", value.__kwdefaults__)]
        return [*inside, *defaults, *_attributes(value)]
    return _attributes(value)


def _attributes(value: Any) -> list[tuple[str, Any]]:
    return [(f".{name}", part) for name, part in attributes_of(value).items()]


def _is_filled(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:  # of a variable that has no value yet
        return False
    return True


def arrays_in(value: Any) -> Iterator[NDArray[Any]]:
    """Find the arrays in a value, however deep."""
    return (part for _, part in reached(value) if isinstance(part, np.ndarray))


class Picture:
    """What some values, by name, hold now: to tell later which of them hold something else.

    A part that is new is no change, such as another entry of a cache; what was there must be there still.
    """

    def __init__(self, named: dict[str, Any], arrays_only: bool = False) -> None:
        self.named, self.arrays_only = named, arrays_only
        self.before = {name: list(self._look(value)) for name, value in named.items()}
        self.fixed = {name for name, value in named.items() if _is_whole(value)}

    def _look(self, value: Any) -> Iterator[tuple[str, Any, Any]]:
        for place, part in reached(value):
            if isinstance(part, np.ndarray):
                yield place, part, (part.shape, part.dtype, part.tobytes())
            elif not self.arrays_only:
                yield place, None, repr(part)

    def written(self) -> str | None:
        """Name the first array that has been written into, whether it is still where it was or not."""
        for name, parts in self.before.items():
            for place, part, was in parts:
                if part is not None and part.tobytes() != was[2]:
                    return f"{name}, at {place}" if place else name
        return None

    def changed(self) -> str | None:
        """Name the first value that has changed, and where in it."""
        written = self.written()
        if written is not None:
            return written
        for name, value in self.named.items():
            if name not in self.fixed:  # nothing else can stand in the place of an array or a number
                now = {place: held for place, _, held in self._look(value)}
                for place, _, was in self.before[name]:
                    if now.get(place) != was:
                        return f"{name}, at {place}" if place else name
        return None
