"""The less common forms of a call: arrays by keyword, settings by position, lists, and what must be refused."""

from __future__ import annotations

import copy
import itertools
import operator
from collections.abc import Iterator, Sequence
from types import EllipsisType, FunctionType, MemberDescriptorType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .arguments import ForeignError, arraylike, flag, reals
from .hints import refuse_settings
from .node import Plan, Spec, Vertex
from .protocols import NumPyProtocols, is_foreign
from .trees import refilled

__all__ = [
    "arrange", "attributes_of", "bind", "convert", "first_plan", "named_arguments", "output", "outputs", "own",
    "repeatable", "result", "settle", "slots",
]  # fmt: skip


def arrange(op: Spec, args: tuple[Any, ...], settings: dict[str, Any]) -> tuple[Any, ...]:
    """Bring arrays given by keyword or left out into their places; settings given by position go into `settings`."""
    signature = op.signature
    if signature.variadic:
        if args and isinstance(args[0], (list, tuple)):  # a list of arrays, then settings, as in NumPy
            given = dict(zip(signature.order, args[1:], strict=False))
            if len(given) < len(args) - 1 or given.keys() & settings.keys():
                raise TypeError(f"{op.name}() takes a list of arrays, then, once, {', '.join(signature.order)}")
            settings.update(given)
            args = tuple(args[0])
        if not args:
            raise TypeError(f"{op.name}() needs at least one array")
        return args
    count = len(signature.arguments)
    named = {name: settings.pop(name) for name in signature.arguments if name in settings}
    missing = count - len(args)
    if not named and 0 < missing <= signature.optional:
        return args + (None,) * missing
    for name, value in zip(signature.order, args[count:], strict=False):
        if name not in settings:
            settings[name] = value
            args = (*args[:count], *args[count + 1 :])
    bind(op, settings)
    try:
        bound = signature.full.bind(*args, **named, **settings)
    except TypeError as error:
        raise TypeError(f"{op.name}{signature}: {error}") from None
    return tuple([bound.arguments.get(name) for name in signature.arguments])


def named_arguments(op: Spec, declaration: str, names: Any) -> tuple[str, ...]:
    """Return the arguments that a declaration names; refuse a flag, a single name, and what is no argument."""
    if names is False or names is None:
        return ()
    if not isinstance(names, (tuple, list)) or not all(isinstance(name, str) for name in names):
        first = names if isinstance(names, str) else op.signature.arguments[0]
        example = f"{declaration}=({first!r},)"
        raise TypeError(f"op {op.name!r}: {declaration}={names!r} must name arguments: write {example}")
    for name in names:
        op.argument(name)  # refuses others
    return tuple(names)


def bind(op: Spec, settings: dict[str, Any]) -> dict[str, Any]:
    """Bind the defaults; refuse unknown settings, missing ones, and tensors, which could lose a gradient here.

    What can change is copied, so that a rule will read what the forward has read. An iterator can be gone through only
    once, so `settings` get a tuple in its place.
    """
    signature = op.signature
    if not signature.names.issuperset(settings):
        unknown = [name for name in settings if name not in signature.names]
        refuse_settings(f"{op.name}()", unknown, list(signature.full.parameters), f"; it is {op.name}{signature}")
    bound = {**signature.settings, **settings}
    if not _USUAL.issuperset(map(type, settings.values())):
        for name, value in settings.items():
            kind = type(value)
            if kind in _UNCHANGING:
                if kind is str and isinstance(signature.settings.get(name), bool) and _is_ours(op):
                    flag(f"{op.name}(): {name}", value)
                continue
            if (kind is slice and _is_plain(value)) or (kind is tuple and _is_fixed(value)):
                continue
            ours = _is_ours(op)
            if isinstance(value, NumPyProtocols):
                raise TypeError(f"{op.name}(): the setting {name!r} is not differentiable; pass its .data or .item()")
            if not isinstance(value, _NUMBERS):
                settings[name] = value = repeatable(f"{op.name}(): {name}=", value)
            if ours and name in _AXES:
                settings[name] = value = _as_indices(value)
            if isinstance(value, _NUMBERS) or hasattr(type(value), "__array__"):  # a sequence may be anything else
                (reals if ours else arraylike)(f"{op.name}(): {name}=", value)
            bound[name] = own(value)
    if len(bound) < len(signature.order):
        missing = signature.required - settings.keys()
        raise TypeError(f"{op.name}() needs the setting {', '.join(sorted(missing))}")
    return bound


def _is_ours(op: Spec) -> bool:
    """Tell whether an op is of this package. What other people's settings mean, they know themselves."""
    return str(getattr(op.forward, "__module__", "")).startswith("autodiff.")


_AXES = frozenset({"axis", "axes", "axis1", "axis2", "offset"})


def _as_indices(value: Any) -> Any:
    """Make Python's numbers of whatever stands for an axis, as NumPy does, also in a tuple or list."""
    if type(value) in (list, tuple):
        return value if _UNCHANGING.issuperset(map(type, value)) else type(value)(map(_as_indices, value))
    try:
        return value if isinstance(value, bool) else operator.index(value)
    except TypeError:
        return value


def repeatable(name: str, value: Any) -> Any:
    """Return what an iterator gives, which must have an end, as a tuple; anything else as it is."""
    if not isinstance(value, Iterator) or hasattr(value, "read"):  # a file has a place to return to
        return value
    values = tuple(itertools.islice(value, _MANY))
    if len(values) == _MANY:
        raise TypeError(f"{name} takes no iterator that goes on without end; this one gave {_MANY} values: pass a list")
    return values


_MANY = 1_000_000
_NUMBERS = (np.ndarray, np.generic, complex, list, tuple)


def result(op: Spec, out: Any) -> tuple[Any, Any, Any]:
    """Make arrays or NumPy scalars of what a forward has returned; with their shapes and dtypes, lists for several."""
    if isinstance(out, (tuple, list)):
        parts = outputs(op, out)
        return parts, [part.shape for part in parts], [part.dtype for part in parts]
    array = output(op, out)
    return array[()], array.shape, array.dtype


def outputs(op: Spec, out: Any) -> tuple[NDArray[Any], ...]:
    """Make arrays of several outputs; refuse what is no plain tuple or list of arrays."""
    if type(out) not in (tuple, list):
        raise TypeError(
            f"the forward of {op.name!r} returned a {type(out).__name__}: to return several outputs, make it a plain "
            f"tuple of arrays, tuple(...)"
        )
    if all([type(part) is np.ndarray and part.dtype.kind in "fiub" for part in out]):  # as a rule
        return tuple(out)
    return tuple([output(op, part, f" as output {i}") for i, part in enumerate(out)])


def output(op: Spec, out: Any, place: str = "") -> NDArray[Any]:
    """Make an array of one output; refuse what is none, and names the op."""
    array: NDArray[Any] = out
    if type(out) is not np.ndarray:
        array = np.asarray(None if isinstance(out, (tuple, list)) else arraylike(f"as a result, {op.name}()", out))
    if array.dtype.kind not in "fiub":
        if isinstance(out, np.generic):
            raise TypeError(f"{op.name}() gave dtype {array.dtype}{place}; tensors hold real numbers")
        what = f"{type(out).__name__} of dtype {array.dtype}{place}; it must be an array"
        if out is None:
            what = f"None{place}" + ("; several outputs are all arrays" if place else ": does it lack a return?")
        raise TypeError(f"the forward of {op.name!r} returned {what}")
    return array


_UNCHANGING = frozenset({int, float, bool, str, type(None), EllipsisType, type, FunctionType, np.int64})
_USUAL = _UNCHANGING - {str}  # of settings; text may stand for a flag


def own(value: Any) -> Any:
    """Copy the arrays in a value, and whatever holds them: containers, slices, and objects with attributes."""
    kind = type(value)
    if kind in _UNCHANGING:
        return value
    if kind is slice:
        return value if _is_plain(value) else slice(*map(_bound, (value.start, value.stop, value.step)))
    if isinstance(value, np.ndarray):
        return value.copy()
    if kind in (list, tuple):
        return kind(value if _UNCHANGING.issuperset(map(type, value)) else map(own, value))
    return _own_rare(value, {})


def _is_plain(value: slice) -> bool:
    """Tell whether nothing can change what a slice selects: not the bounds of most."""
    return type(value.start) in _BOUNDS and type(value.stop) in _BOUNDS and type(value.step) in _BOUNDS


_BOUNDS = frozenset({int, type(None)})


def _is_fixed(value: tuple[Any, ...]) -> bool:
    """Tell whether a tuple has nothing in it that can change, as a shape, axes, and most indices."""
    if _UNCHANGING.issuperset(map(type, value)):
        return True
    for part in value:
        kind = type(part)
        if kind not in _UNCHANGING and not (kind is slice and _is_plain(part)):
            return False
    return True


def _bound(value: Any) -> Any:
    """Return the number that an array, a tensor or another object stands for as a bound of a slice."""
    try:
        return operator.index(value)
    except TypeError:  # of a slice that is no index of an array
        return own(value)


def _own_rare(value: Any, made: dict[int, tuple[Any, Any]]) -> Any:
    """Copy as `own` does, what is held in two places once."""
    if type(value) in _UNCHANGING or type(value) is slice:
        return own(value)
    if id(value) in made:
        return made[id(value)][1]
    made[id(value)] = value, value  # for those that lead back to it
    copied = _copied(value, made)
    made[id(value)] = value, copied
    return copied


def _copied(value: Any, made: dict[int, tuple[Any, Any]]) -> Any:
    if isinstance(value, np.ndarray):
        return value.copy()
    if isinstance(value, (dict, list)):
        parts = value.values() if isinstance(value, dict) else value
        return refilled(value, [_own_rare(part, made) for part in parts])
    if isinstance(value, tuple):  # a named one keeps its names
        return tuple.__new__(type(value), [_own_rare(part, made) for part in value])
    if isinstance(value, (set, frozenset)):
        return type(value)([_own_rare(part, made) for part in value])
    held = attributes_of(value)
    mine = {name: _own_rare(part, made) for name, part in held.items()}
    if all(mine[name] is part for name, part in held.items()):
        return value
    try:
        same = copy.copy(value)
    except Exception:  # a lock, say: there is one of it
        return value
    if same is not value:
        for name, part in mine.items():
            object.__setattr__(same, name, part)  # also of a frozen dataclass
    return same


def attributes_of(value: Any) -> dict[str, Any]:
    """Return what an object holds by name, in its dictionary and in slots; nothing of a class."""
    if isinstance(value, (type, NumPyProtocols)):
        return {}
    held = {name: getattr(value, name) for name in slots(type(value)) if hasattr(value, name)}
    return {**held, **getattr(value, "__dict__", {})}


_slots: dict[type, tuple[str, ...]] = {}


def slots(kind: type) -> tuple[str, ...]:
    """Name the slots of a class and of those that it inherits from, in the order of definition; remembered."""
    known = _slots.get(kind)
    if known is None:
        members = [name for base in reversed(kind.__mro__) for name, member in vars(base).items() if _is_slot(member)]
        known = _slots[kind] = tuple(dict.fromkeys(members))
    return known


def _is_slot(member: Any) -> bool:
    return type(member) is MemberDescriptorType and hasattr(member.__objclass__, "__slots__")


def convert(op: Spec, arg: Any, args: tuple[Any, ...]) -> Any:
    """Make an array of an argument that is neither a tensor nor a common number, among the others."""
    if type(arg) is np.ndarray and arg.dtype.kind in "fiub":
        return arg
    made = arraylike(f"{op.name}()", arg)
    if isinstance(getattr(op, "twin", None), np.ufunc) and is_foreign(arg):
        if any(isinstance(other, NumPyProtocols) for other in args):
            raise ForeignError(
                f"{op.name}() takes arrays; a {type(arg).__name__} computes by rules of its own: use the operator, and "
                f"it decides, or pass np.asarray(...)"
            )
    array = arg if isinstance(arg, np.generic) else np.asarray(made)
    if array.dtype.kind not in "fiub":
        raise TypeError(f"{op.name}() works on real numbers; got a {type(arg).__name__} of dtype {array.dtype}")
    return array


def first_plan(op: Spec, mask: int, values: list[Any], out: Any) -> Plan:
    """Plan what a call records that is the first of its kind; refuse an output that the op's declaration rules out."""
    if op.elementwise:
        check_broadcast(op, values, out)
    return op.plan(mask, len(values))


class ShapeError(ValueError):
    """An op is declared elementwise and is not."""


def check_broadcast(op: Spec, values: Sequence[Any], out: Any) -> None:
    """Refuse an output of an elementwise op that has not the broadcast shape of its arguments."""
    shapes = [np.shape(value) for value in values if value is not None]
    for part in out if isinstance(out, (tuple, list)) else (out,):
        if part is not None and not _is_broadcast(np.shape(part), shapes):
            raise ShapeError(
                f"op {op.name!r} is declared elementwise, but its forward returned the shape {np.shape(part)}, "
                f"which is not the broadcast shape of its arguments, {', '.join(map(str, shapes))}. If it is not "
                f"elementwise, leave out elementwise=True, or the ufunc that says so"
            )


def _is_broadcast(shape: tuple[int, ...], shapes: list[tuple[int, ...]]) -> bool:
    """Tell whether a shape is what others broadcast to."""
    try:
        return shape == np.broadcast_shapes(*shapes)
    except ValueError:
        return False


def settle(plan: Plan, args: Sequence[Any], values: list[Any], parents: list[Vertex | None]) -> None:
    """Make what is constant in a call ready to be kept: integers and booleans copied, and tensors at their places.

    Positions, conditions and classes are a few bytes beside the numbers that they choose, and are often written anew
    for the next call. The place of a constant is drawn, and by it a later write to its data is noticed.
    """
    for i in plan.kept:
        value = values[i]
        if type(value) is np.ndarray and value.dtype.kind != "f":
            values[i] = np.array(value)  # in its own layout
    for i, parent in enumerate(parents):
        if parent is None and isinstance(args[i], NumPyProtocols):
            parents[i] = args[i].vertex()
