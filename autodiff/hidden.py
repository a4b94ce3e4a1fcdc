"""What a module holds and does not find: parameters and modules in sets, functions, objects of other classes.

Nothing is run or consumed to look for it: the garbage collector tells what an object holds, of whatever class it is.
"""

from __future__ import annotations

import builtins
import functools
import gc
import os
import sys
import warnings
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from types import CodeType, FrameType, FunctionType, GeneratorType, ModuleType
from typing import Any

import numpy as np

from .modes import Switch
from .node import Node, Spec, Vertex
from .tensor import Tensor

__all__ = ["PLAIN", "inside", "is_running", "refuse_closures", "refuse_wrapped", "warn_of_lost"]

PLAIN = frozenset({
    type(None), bool, int, float, complex, str, bytes, np.dtype, np.random.Generator, np.float64, np.int64,
    Switch,
})  # fmt: skip
"""Types of values that hold no others."""

_OBJECTS = 4  # how many objects deep to look: an application can be reached from any of its parts
_ITEMS = 20_000  # how many values to look at: this is done whenever parameters are asked for

_CLOSED = (type, ModuleType, FrameType, CodeType, Spec, Node)  # not looked into: they hold what belongs to others
_BUILT_IN = frozenset({"builtins", "collections", "functools", "itertools"})  # what is in these is no object deeper


def warn_of_lost(
    modules: Sequence[Any], leaves: Collection[Tensor], others: Iterable[tuple[Any, str, Any]], module_type: Any
) -> None:
    """Warn of each parameter and module that a tree's modules hold and that is no part of the tree.

    Parameters
    ----------
    modules, leaves : collections
        What the tree consists of.
    others : iterable of (module, str, object)
        The attributes with values of other kinds, in which something may be.
    module_type : type
        The base of all modules.
    """
    known = {id(part) for part in (*modules, *leaves)}
    vertices = {tensor.node for tensor in leaves}
    classes = {type(module): module for module in modules}
    shared = [(module, *held) for kind, module in classes.items() for held in _of_class(kind, module_type)]
    contents = [(module, "[...]", _contents(module)) for module in modules if isinstance(module, _CONTAINERS)]
    for module, name, value in (*others, *shared, *contents):
        kind = type(module)
        if id(value) in known or (type(value) is FunctionType and hasattr(kind, name)):
            continue  # a function in place of a method adds no part
        known.add(id(value))
        place = f"{kind.__name__}{name}" if name == "[...]" else f"{kind.__name__}.{name}"
        for part in inside(value, (Tensor, module_type)):
            if part is not value and id(part) in known:
                continue
            if isinstance(part, module_type) and any(below is modules[0] for below in part.modules()):
                known.update(map(id, part._leaves().values()))  # it is the whole that this tree is a part of
            elif _is_lost(part, vertices, name in module._kept):
                known.add(id(part))  # say it once
                warnings.warn(_missed(place, part), stacklevel=_level())
        if _is_unmade(value):
            warnings.warn(f"{place} {_UNMADE}", stacklevel=_level())


_UNMADE = (
    "makes its values one after the other, when asked: layers and parameters among them are neither trained nor saved. "
    "Make a list of it"
)


def _is_unmade(value: Any) -> bool:
    """Tell whether a value is a generator expression or ``map(...)``: what it makes is not there yet."""
    return isinstance(value, map) or (isinstance(value, GeneratorType) and value.gi_code.co_name == "<genexpr>")


_of_classes: dict[type, list[tuple[str, Any]]] = {}


def _of_class(kind: type, module_type: type) -> list[tuple[str, Any]]:
    """Return what a user's classes hold besides methods and plain values: all their instances share it."""
    known = _of_classes.get(kind)
    if known is None:
        user = kind.__mro__[: kind.__mro__.index(module_type)]
        held = [(name, value) for base in user for name, value in vars(base).items() if not _is_method(value)]
        known = _of_classes[kind] = held
    return known


def _is_method(value: Any) -> bool:
    """Tell whether a value of a class is a method or a property, which an instance sees as something else."""
    return hasattr(type(value), "__get__") and type(value) is not functools.partial


_CONTAINERS = (list, tuple, dict, set, frozenset, deque)


def _contents(module: Any) -> list[Any]:
    """List what a module holds that is itself a container, whatever its own methods make of it."""
    attributes = vars(module)
    return [part for part in gc.get_referents(module) if part is not attributes]


def _is_lost(part: Any, known: set[Vertex | None], kept: bool) -> bool:
    """Tell whether something that is no part of a tree was meant as one.

    A leaf that requires a gradient was, and a module unless it is frozen, such as a running mean of weights. Of results
    it is those that no leaf of the tree is behind, and that no call of a module has made: a leaf was scaled or
    reshaped, and nobody but the graph holds it now.
    """
    if type(part) is not Tensor:
        leaves = part._leaves().values()
        return not leaves or any(leaf.requires_grad for leaf in leaves)
    if type(part.node) is not Node:
        return part.requires_grad
    if kept or part.node.scope:
        return False
    seen: set[Vertex | None] = {part.node}
    stack: list[Vertex | None] = [part.node]
    while stack:
        vertex = stack.pop()
        if vertex in known:
            return False
        if type(vertex) is Node:
            fresh = set(vertex.parents) - seen - {None}
            seen |= fresh
            stack.extend(fresh)
    return True


def _missed(place: str, part: Any) -> str:
    """Say which attribute holds something that is not found, and what to write."""
    if type(part) is Tensor and type(part.node) is Node:
        return (
            f"{place} holds a result (of {part.node.op.name!r}) and no leaf, so it is no parameter: neither trained "
            f"nor saved. Compute with the data first: Tensor(0.1 * data, requires_grad=True)"
        )
    held = "a tensor that requires a gradient" if type(part) is Tensor else f"a {type(part).__name__}"
    return (
        f"{place} holds {held} where it is not found, so it is neither trained nor saved: parameters and modules are "
        f"looked for in the attributes of an instance, and in lists, tuples and values of dictionaries there"
    )


def refuse_wrapped(name: str, value: Any, module_type: type) -> None:
    """Refuse a function that wraps a module: that module's parameters would silently not be found."""
    if (
        callable(value)
        and not isinstance(value, module_type)
        and isinstance(getattr(value, "__wrapped__", None), module_type)
    ):
        raise TypeError(
            f"{name} is a function around a module, which hides the module's parameters. Keep the module, and wrap its "
            f"forward: block.forward = ad.recompute(block.forward)"
        )


def refuse_closures(modules: Sequence[Any], leaves: Collection[Tensor], module_type: type) -> None:
    """Refuse to copy a tree in which a function closes over a part of it: the copy would call the original's."""
    known = {id(part) for part in (*modules, *leaves)}
    wanted = (Tensor, module_type)
    for module in modules:
        for name, value in module._attributes():
            if type(value) in PLAIN or isinstance(value, wanted):
                continue
            for function in inside(value, (FunctionType, *wanted)):
                if type(function) is FunctionType and any(id(part) in known for part in inside(function, wanted)):
                    raise TypeError(
                        f"{type(module).__name__}.{name} is or holds the function {function.__qualname__!r}, which "
                        f"refers to a part of this model: in a copy it would still call that one, and train its "
                        f"weights. Make it a method, or functools.partial of one, or ad.recompute(module.forward)"
                    )


def is_running(module: Any, module_type: Any) -> bool:
    """Tell whether a call of a module is in progress in this thread: what it assigns then is a result to look at."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_code is module_type.__call__.__code__ and frame.f_locals.get("self") is module:
            return True
        frame = frame.f_back
    return False


_HERE = f"{Path(__file__).parent}{os.sep}"


def _level() -> int:
    """Count the frames up to the one outside of this package, where a warning is to point."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_HERE):
        frame, level = frame.f_back, level + 1
    return level


# --- looking into values ---


def inside(value: Any, wanted: type | tuple[type, ...]) -> Iterator[Any]:
    """Yield the instances of some types that a value holds, at any depth, and that are not inside of each other."""
    seen = {id(value): value}  # kept, so that no other gets its id
    queue = deque([(value, 0)])
    while queue and len(seen) < _ITEMS:
        outer, depth = queue.popleft()
        if isinstance(outer, wanted):
            yield outer
        elif depth <= _OBJECTS:
            further = depth + (type(outer).__module__ not in _BUILT_IN)
            for part in _held(outer):
                if type(part) not in PLAIN and id(part) not in seen:
                    seen[id(part)] = part
                    queue.append((part, further))


def _held(value: Any) -> Iterable[Any]:
    """List what an object refers to: elements, attributes (in slots too), arguments, a closure, local variables."""
    if isinstance(value, np.ndarray):
        return value.ravel().tolist() if value.dtype.hasobject else ()
    if isinstance(value, _CLOSED):
        return ()
    held = gc.get_referents(value)
    if type(value) is FunctionType:  # the names of its module are nobody's
        held = [part for part in held if part is not value.__globals__ and part is not vars(builtins)]
    return () if PLAIN.issuperset(map(type, held)) else held
