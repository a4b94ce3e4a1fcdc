"""Data that were written to after a rule had saved them, however they are reached.

The library writes to arrays that it hands out: to a leaf's data, where some are assigned or an optimiser steps, and to
gradients that are clipped. Each such write is noted with its time. The backward pass looks for it where a node that
saved something is older than the last one; so recording a call costs nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from functools import partial
from threading import Lock
from typing import Any
from weakref import ref

import numpy as np
from numpy.lib.array_utils import byte_bounds
from numpy.typing import NDArray

from .node import Leaf, Node, Vertex, clock
from .walking import walk

__all__ = ["check_unchanged", "note_writes"]

_writes: dict[int, list[Any]] = {}
"""Of each owner of memory that was written to, by its id, as long as it lives: a weak reference to it, when all of it
was written to, when parts of it were, and from where to where it reaches."""

_PARTS = 4096  # how many parts of one owner to tell apart

_writing = Lock()


def note_writes(written: Iterable[tuple[Any, Vertex | None]]) -> None:
    """Note that arrays were written to, which others may have saved; each with its tensor's place in the graph."""
    with _writing:  # between the clock and the note of one thread no other may write: the latest time must stay
        now = Leaf.written = clock()
        for array, vertex in written:
            if type(vertex) is Leaf:
                (vertex.source or vertex).number = now
            if type(array) is np.ndarray:  # NumPy's scalars cannot be written to
                if array.base is None:
                    (_writes.get(id(array)) or _new_note(array))[1] = now
                else:
                    _note_part(array, now)


def _new_note(owner: Any) -> list[Any]:
    """Begin to note the writes to some memory, by its owner."""
    key = id(owner)
    reach = byte_bounds(owner) if isinstance(owner, np.ndarray) else _ANYWHERE
    note = _writes[key] = [ref(owner, partial(_forget, key)), 0, {}, reach]
    return note


_ANYWHERE = (0, sys.maxsize)


def _note_part(array: NDArray[Any], now: int) -> None:
    """Note a write to a view by the place in memory: the view may be gone before the memory is."""
    owner: Any = array
    link: Any = array
    while link is not None:
        if type(link).__weakrefoffset__:
            owner = link
        link = link.base if isinstance(link, np.ndarray) else link.obj if isinstance(link, memoryview) else None
    parts = (_writes.get(id(owner)) or _new_note(owner))[2]
    interface = array.__array_interface__
    place = interface["data"][0], interface["shape"], interface["strides"], interface["typestr"]
    known = parts.get(place)
    if known is not None:
        known[0] = now
        return
    parts[place] = [now, *byte_bounds(array)]
    if len(parts) > _PARTS:  # all between the lowest and the highest, from here on
        _, low, high = map(list, zip(*parts.values(), strict=True))
        parts.clear()
        parts[min(low), (max(high) - min(low),), None, "|u1"] = [now, min(low), max(high)]


class _Place:
    """A place in memory. It keeps nothing alive, and nothing is read through it."""

    def __init__(self, interface: dict[str, Any]) -> None:
        self.__array_interface__ = interface


def _at(part: tuple[Any, ...]) -> NDArray[Any]:
    """Return an array at a noted place, to be compared with others."""
    address, shape, strides, kind = part
    return np.asarray(
        _Place({"data": (address, False), "shape": shape, "strides": strides, "typestr": kind, "version": 3})
    )


def _forget(key: int, _: Any) -> None:
    """Take memory off the list: it is no more."""
    _writes.pop(key, None)


def check_unchanged(node: Node, compared: bool) -> None:
    """Refuse a node whose saved values were written to after it was made.

    Integers and booleans among its arguments are copies of what was given, so they are what they were. In anomaly mode
    arrays are compared with what they held, which tells more; only the times of leaves are then looked at here.
    """
    for i, kept in enumerate(node.plan.keep or ()):
        parent, value = node.parents[i], None if node.inputs is None else node.inputs[i]
        if kept and not (type(value) is np.ndarray and value.dtype.kind != "f"):
            root = None if parent is None else parent.root
            if root is not None and root.number > node.number:
                raise _changed(node, f"argument {node.op.argument_name(i)!r}")
            fresh = type(parent) is Node and getattr(value, "base", None) is None  # what an op has computed
            if not fresh and not compared and _is_written(value, node.number):
                raise _changed(node, f"argument {node.op.argument_name(i)!r}")
    for name, saved in {"out": node.out, **(node.extra or {})}.items():
        if not compared and any(_is_written(value, node.number) for _, value in walk(saved)):
            raise _changed(node, f"the saved value {name!r}")


def _is_written(value: Any, since: int) -> bool:
    """Tell whether an array shares memory with what was written to after some time."""
    if not isinstance(value, np.ndarray):
        return False
    low, high = byte_bounds(value)
    for weak, number, parts, (start, end) in list(_writes.values()):
        if low >= end or start >= high:
            continue
        owner = weak()  # held, so that its memory is still there
        if owner is None:
            continue
        near = [
            part for part, (time, first, last) in list(parts.items()) if time > since and low < last and first < high
        ]
        written = [*map(_at, near), *([owner] if number > since else [])]
        if any(np.shares_memory(value, array) for array in written):
            return True
    return False


def _changed(node: Node, what: str) -> RuntimeError:
    return RuntimeError(
        f"the data of {what} of {node.op.name!r} (node {node.number}) were changed after they had been saved for the "
        f"backward pass. Run backward before that, or compute with a copy: Tensor(x.data)"
    )
