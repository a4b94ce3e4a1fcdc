"""What a value holds, however deep, and whether that has changed since it was looked at."""

from __future__ import annotations

import operator
import random
from array import array
from collections import deque
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..walking import is_whole, walk

__all__ = ["Picture", "arrays_in", "reached"]


def reached(value: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    """Find the arrays, numbers and texts in a value, and how long its containers are, each with its place.

    So are the bytes of buffers, the state of random generators, and how much is left of an iterator over a sequence.
    """
    for where, part in walk(value, place):
        if is_whole(part):
            yield where, part
        else:
            yield from ((where + step, state) for step, state in _state(part))
            if isinstance(part, (dict, list, set, deque)):
                yield f"len({where})", len(part)


def _state(value: Any) -> Iterator[tuple[str, Any]]:
    """Read what a value holds that is neither an attribute nor an item, as bytes, a text or a number."""
    if isinstance(value, (bytearray, array)):
        yield "", bytes(value)  # a copy: a view would keep it from growing
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
        self.fixed = {name for name, value in named.items() if is_whole(value)}

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
