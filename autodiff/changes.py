"""Data that were written to after a rule had saved them, however they are reached.

The library writes to arrays that it hands out: to a leaf's data, where some are assigned or an optimiser steps, and to
gradients that are clipped. Each such write is noted with its time. The backward pass looks for it where a node that
saved something is older than the last one; so recording a call costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from threading import Lock
from typing import Any
from weakref import ref

import numpy as np

from .node import Leaf, Node, Vertex, clock
from .walking import walk

__all__ = ["check_unchanged", "note_writes"]

_writes: dict[int, list[Any]] = {}
"""Weak references to the arrays that were written to, as long as they live, and the times; by id."""

_writing = Lock()


def note_writes(written: Iterable[tuple[Any, Vertex | None]]) -> None:
    """Note that arrays were written to, which others may have saved; each with its tensor's place in the graph."""
    with _writing:  # between the clock and the note of one thread no other may write: the latest time must stay
        now = Leaf.written = clock()
        for array, vertex in written:
            if type(vertex) is Leaf:
                (vertex.source or vertex).number = now
            if type(array) is np.ndarray:  # NumPy's scalars cannot be written to
                key = id(array)
                if key in _writes:
                    _writes[key][1] = now
                else:
                    _writes[key] = [ref(array, partial(_forget, key)), now]


def _forget(key: int, _: Any) -> None:
    """Take an array off the list: it is no more."""
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
            if type(parent) is not Node and not compared and _is_written(value, node.number):
                raise _changed(node, f"argument {node.op.argument_name(i)!r}")
    for name, saved in {"out": node.out, **(node.extra or {})}.items():
        if not compared and any(_is_written(value, node.number) for _, value in walk(saved)):
            raise _changed(node, f"the saved value {name!r}")


def _is_written(value: Any, since: int) -> bool:
    """Tell whether an array shares memory with one that was written to after some time."""
    if not isinstance(value, np.ndarray):
        return False
    younger = [weak() for weak, number in list(_writes.values()) if number > since]
    return any(array is not None and np.shares_memory(value, array) for array in younger)


def _changed(node: Node, what: str) -> RuntimeError:
    return RuntimeError(
        f"the data of {what} of {node.op.name!r} (node {node.number}) were changed after they had been saved for the "
        f"backward pass. Run backward before that, or compute with a copy: Tensor(x.data)"
    )
