"""Checks of plain arguments: numbers and arrays that come from a user's hand, a flag or a file."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from numbers import Real
from typing import Any, TypeVar

import numpy as np

__all__ = ["PLAIN", "ForeignError", "arraylike", "flag", "generator", "is_number", "plain", "real", "reals", "whole"]


T = TypeVar("T")


class ForeignError(TypeError):
    """An operand computes by rules of its own: it decides what the result is, if it is asked."""


def arraylike(name: str, value: T) -> T:
    """Return what an array can be made of; refuse, also in lists, what would lose its meaning on the way.

    A masked array would lose its mask, a matrix the product by which it multiplies, and an array to which NumPy's own
    functions leave what they do (one with units, or of another library's graph) all that it knows besides its numbers.
    """
    if type(value) in PLAIN:
        return value
    if isinstance(value, np.matrix):
        raise TypeError(f"{name} takes arrays; a matrix multiplies by rules of its own: pass np.asarray(m)")
    if isinstance(value, np.ma.MaskedArray):
        raise TypeError(f"{name} takes arrays without a mask: pass m.filled(value), and select with np.where")
    decides = getattr(type(value), "__array_function__", np.ndarray.__array_function__)
    if decides is not np.ndarray.__array_function__:
        raise ForeignError(
            f"{name} takes arrays; what is of type {type(value).__name__} decides itself what NumPy makes of it: pass "
            f"np.asarray(...)"
        )
    if isinstance(value, (list, tuple)):
        for part in value if not PLAIN.issuperset(map(type, value)) else ():
            arraylike(name, part)
        return value
    return value if isinstance(value, (np.ndarray, np.generic, str, dict)) else _of_others(name, value)


def _of_others(name: str, value: Any) -> Any:
    """Look into what has an array, which is made but once, and into sequences of other classes."""
    kind = type(value)
    # A tensor has no mask, and says itself when it is no array. An iterator would be used up.
    if hasattr(value, "requires_grad") or hasattr(kind, "__next__"):
        return value
    try:
        if hasattr(kind, "__array__"):
            parts = [value.__array__()]
        elif hasattr(kind, "__getitem__") and hasattr(kind, "__len__") and not _is_buffer(value):
            parts = list(value)
        else:
            return value
    except Exception:  # NumPy meets the same, and says it
        return value
    for part in parts:
        arraylike(name, part)
    return parts[0] if hasattr(kind, "__array__") else value


def _is_buffer(value: Any) -> bool:
    """Tell whether a value is memory with numbers, in which no objects are."""
    try:
        memoryview(value)
    except TypeError:
        return False
    return True


PLAIN: set[type] = {np.ndarray, float, int, bool, str, type(None), np.float64, np.float32}
"""Types that need no look: the others are few. Tensors are added where they are defined."""


def reals(name: str, value: Any) -> Any:
    """Return what `arraylike` returns; refuse complex numbers, whose imaginary part would be dropped on the way."""
    if type(value) in _REAL or (type(value) is np.ndarray and value.dtype.kind != "c"):
        return value
    value = arraylike(name, value)
    if isinstance(value, Sequence):
        for part in value if not _REAL.issuperset(map(type, value)) else ():
            reals(name, part)
    elif isinstance(value, complex) or getattr(getattr(value, "dtype", None), "kind", None) == "c":
        raise TypeError(
            f"{name} works on real numbers; got a {type(value).__name__} of dtype {np.asarray(value).dtype}: pass its "
            f"real part, or its imaginary part"
        )
    return value


_REAL = (PLAIN - {np.ndarray}) | {np.int64, slice, type(...)}


def whole(name: str, value: Any, low: int) -> int:
    """Return a whole number of at least `low` as an int; refuse anything else, a bool too."""
    number = value if type(value) is int else plain(value)
    if not isinstance(number, int) or isinstance(number, bool) or number < low:
        raise ValueError(f"{name}={value!r} must be an integer of at least {low}")
    return number


def real(name: str, value: Any, below: float = math.inf, upto: float = math.inf) -> float:
    """Return a number of at least 0, less than `below`, at most `upto`, as a float; refuse all else, NaN and bools."""
    number = value if type(value) is float else plain(value)
    if not is_number(number) or not 0 <= number < below or number > upto or number > sys.float_info.max:
        bound = "at least 0" if is_number(number) and number < 0 else "a finite number of at least 0"
        if min(below, upto) < math.inf:
            bound = f"a number of at least 0 and {f'less than {below:g}' if below < math.inf else f'at most {upto:g}'}"
        raise ValueError(f"{name}={value!r} must be {bound}")
    return float(number)


def flag(name: str, value: Any) -> bool:
    """Return a flag as a bool; refuse text, which would count as true whatever it says."""
    if isinstance(value, (str, bytes)):
        raise TypeError(f"{name}={value!r:.60} must be True or False, not text")
    return bool(value)


def generator(rng: Any) -> np.random.Generator:
    """Return the source of random numbers that a seed or a Generator stands for; None draws a seed."""
    try:
        if isinstance(rng, (bool, np.bool_)):
            raise TypeError
        return np.random.default_rng(rng)
    except (TypeError, ValueError) as error:
        kind = type(error)
        raise kind(f"rng={rng!r:.60} must be an int of at least 0, as a seed, or a numpy Generator") from None


def is_number(value: Any) -> bool:
    """Tell whether a value is a real number, as arrays of shape () are too; a bool is none."""
    if type(value) is float:
        return True
    number = plain(value)
    return isinstance(number, Real) and not isinstance(number, bool)


def plain(value: Any) -> Any:
    """Make Python's number of one of NumPy's, or of an array of shape (); give anything else as it is."""
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    if isinstance(value, np.floating):
        return float(value)
    return int(value) if isinstance(value, np.integer) else value
