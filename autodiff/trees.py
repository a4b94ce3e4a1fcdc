"""Nested tuples, lists and dictionaries of arrays: what functions take and return besides single arrays.

A tree is a tuple (also a named one), list or dictionary of trees, None (a tree without leaves), or anything else: a
leaf. Subclasses of the three are containers like them, and are rebuilt as what they are.
"""

from __future__ import annotations

import contextlib
import copy
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from typing import Any

__all__ = ["is_leaf", "leaves", "matching", "rebuild", "refilled"]


def _parts(tree: Any) -> dict[str, Any] | None:
    """Return the parts of a container by the way to write their places; None for a leaf."""
    if tree is None:
        return {}
    if isinstance(tree, dict):
        return {f"[{key!r}]": part for key, part in tree.items()}
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return {f".{name}": part for name, part in zip(tree._fields, tree, strict=True)}
    if isinstance(tree, (tuple, list)):
        return {f"[{i}]": part for i, part in enumerate(tree)}
    return None


def is_leaf(tree: Any) -> bool:
    """Tell whether something is no container (nor None)."""
    return _parts(tree) is None


def leaves(tree: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    """Yield each leaf with its place, such as ``"argument 0['w'][1]"``; dictionaries in their own order."""
    parts = _parts(tree)
    if parts is None:
        yield place, tree
        return
    for key, part in parts.items():
        yield from leaves(part, place + key)


def rebuild(tree: Any, values: Iterator[Any]) -> Any:
    """Make a tree of the same containers, whose leaves are the next values."""
    parts = _parts(tree)
    if parts is None:
        return next(values)
    if tree is None:
        return None
    made = [rebuild(part, values) for part in parts.values()]
    if isinstance(tree, tuple):  # of whatever subclass, whose constructor may take something else than its parts
        return tuple.__new__(type(tree), made)
    return refilled(tree, made)


def refilled(container: Any, parts: Iterable[Any]) -> Any:
    """Copy a list or dictionary, and put other parts into the places of its own.

    What a subclass does when its contents change is left out: it may add a part to the one before, or refuse it.
    """
    same = _copied(container)
    if isinstance(container, dict):
        put = (OrderedDict if isinstance(container, OrderedDict) else dict).__setitem__
        for key, part in zip(container, parts, strict=True):
            put(same, key, part)
    else:
        list.__setitem__(same, slice(None), list(parts))
    return same


def _copied(container: Any) -> Any:
    """Copy a container with what a subclass knows, such as a default; with its attributes alone where that fails."""
    with contextlib.suppress(Exception):  # whatever a subclass raises
        same = copy.copy(container)
        if type(same) is type(container) and same is not container and list(same) == list(container):
            return same
    kind: Any = type(container)
    same = kind.__new__(kind)
    if hasattr(same, "__dict__"):
        same.__dict__.update(container.__dict__)
    return same


def matching(model: Any, tree: Any, place: str) -> Iterator[tuple[str, Any]]:
    """Yield the parts of a tree that stand where another has its leaves, in the order of the other.

    Raises
    ------
    TypeError
        If the containers of the two differ.
    """
    expected = _parts(model)
    if expected is None:
        yield place, tree
        return
    given = _parts(tree)
    if given is None or given.keys() != expected.keys() or (tree is None) != (model is None):
        raise TypeError(f"{place} must be {_describe(model)}; it is {_describe(tree)}")
    for key, part in expected.items():
        yield from matching(part, given[key], place + key)


def _describe(tree: Any) -> str:
    """Name a container with the places of its parts."""
    parts = _parts(tree)
    if parts is None or tree is None:
        return "None" if tree is None else f"a {type(tree).__name__}"
    return f"a {type(tree).__name__} with {', '.join(parts) or 'nothing in it'}"
