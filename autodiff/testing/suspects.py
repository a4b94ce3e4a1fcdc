"""What a wrong gradient looks like: the usual mistakes, recognised by their numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Evidence", "suspect"]

Array = NDArray[np.float64]

MATCH = 1e-3
"""How well the numbers must fit a mistake, relative to the largest of them."""


class Evidence(NamedTuple):
    """Gradients of one argument for several cotangents (the first axis), claimed and numeric."""

    analytic: Array
    numeric: Array
    wrong: NDArray[np.bool_]
    others: dict[str, Array]
    """Numeric gradients of the other arguments."""
    values: list[NDArray[Any]]
    """All arguments of the call."""
    outputs: Sequence[tuple[int, ...]]
    """Shapes of the outputs."""
    from_mean: Array | None
    """Numeric gradients for cotangents that are replaced by their mean."""
    from_ones: Array | None
    """Numeric gradients for cotangents of ones."""


def suspect(evidence: Evidence) -> str | None:
    """Return the first mistake that fits, or None. Nothing is concluded from a single number but its ratio."""
    if not np.isfinite(evidence.analytic).all() or not np.isfinite(evidence.numeric).all():
        return None
    for find in _MISTAKES:
        for found in find(evidence):
            return found
    return None


def _same(a: Array, b: Array) -> bool:
    largest = float(np.max(np.abs(b), initial=0.0))
    return a.shape == b.shape and largest > 0 and float(np.max(np.abs(a - b))) <= MATCH * largest


def _zero(e: Evidence) -> Iterator[str]:
    if not e.analytic.any():
        yield "the rule returns zeros: is this argument forgotten?"


def _ratio(e: Evidence) -> Iterator[str]:
    """A constant factor."""
    if _same(e.analytic, -e.numeric):
        yield "the sign is wrong"
    norm = float(np.vdot(e.numeric, e.numeric))
    ratio = float(np.vdot(e.numeric, e.analytic)) / norm if norm else 0.0
    if ratio and _same(e.analytic, ratio * e.numeric) and abs(ratio - 1) > 10 * MATCH:
        for factor, text in ((2.0, "a factor 2 too much"), (0.5, "a factor 2 is missing")):
            if abs(ratio / factor - 1) <= MATCH:
                yield text
        for n, of in _counts(e):
            if abs(ratio / n - 1) <= MATCH:
                yield f"VJP/numeric is {n}, the length of {of}: a sum where a mean is needed (1/n is missing)"
            if abs(ratio * n - 1) <= MATCH:
                yield f"VJP/numeric is 1/{n}, {n} being the length of {of}: a mean where a sum is needed"
        yield f"VJP/numeric is {ratio:.6g} everywhere: a constant factor"


def _counts(e: Evidence) -> Iterator[tuple[int, str]]:
    """Numbers of elements that a reduction over some axes of this argument, or another, may have counted."""
    for shape in dict.fromkeys([e.numeric.shape[1:], *e.outputs, *(value.shape for value in e.values)]):
        for count in range(1, len(shape) + 1):
            for axes in combinations(range(len(shape)), count):
                n = int(np.prod([shape[axis] for axis in axes]))
                if n > 2:
                    yield n, f"axis {axes[0]} of {shape}" if count == 1 else f"axes {axes} of {shape}"


def _moved(e: Evidence) -> Iterator[str]:
    """The right numbers in the wrong places."""
    ndim = e.numeric.ndim
    if ndim > 2 and _same(e.analytic, np.swapaxes(e.numeric, -1, -2)):
        yield "the gradient is transposed (its last two axes are exchanged)"
    for axis in range(1, ndim):
        if e.numeric.shape[axis] < 2:
            continue
        if _same(e.analytic, np.flip(e.numeric, axis)):
            yield f"the gradient is reversed along axis {axis - 1}"
        for shift in (1, -1):
            if _same(e.analytic, np.roll(e.numeric, shift, axis)):
                yield f"the gradient is shifted by {shift} along axis {axis - 1}"


def _swapped(e: Evidence) -> Iterator[str]:
    for name, other in e.others.items():
        if _same(e.analytic, other):
            yield f"this is the gradient of {name}: are the operands swapped?"


def _ignored(e: Evidence) -> Iterator[str]:
    if e.from_ones is not None and _same(e.analytic, e.from_ones):
        yield "this is the gradient for a cotangent of ones: is g ignored?"


def _averaged(e: Evidence) -> Iterator[str]:
    if e.from_mean is not None and e.analytic[0].size > 1 and _same(e.analytic, e.from_mean):
        yield "this is the gradient for the mean of the cotangent: is g reduced too early?"


def _repeated(e: Evidence) -> Iterator[str]:
    """Errors only at places that an integer argument names more than once."""
    for value in e.values:
        if value.dtype.kind not in "iu" or value.size < 2 or e.wrong.ndim == 0:
            continue
        names, counts = np.unique(value, return_counts=True)
        for axis, length in enumerate(e.wrong.shape):
            places = {int(i) % length for i in names[counts > 1]} if length else set()
            elsewhere = tuple(k for k in range(e.wrong.ndim) if k != axis)
            wrong = set(np.flatnonzero(e.wrong.any(axis=elsewhere)).tolist())
            if wrong and wrong <= places and len(wrong) < length:
                yield f"only elements that are indexed more than once differ (axis {axis}): assigned, not added?"


def _missing_mean(e: Evidence) -> Iterator[str]:
    """A difference that does not vary along an axis."""
    difference = e.analytic - e.numeric
    for axis in range(1, difference.ndim):
        if difference.shape[axis] > 1 and _same(difference, np.broadcast_to(
            difference.mean(axis=axis, keepdims=True), difference.shape
        )):  # fmt: skip
            last = axis - difference.ndim
            yield f"VJP - numeric is constant along axis {last}: a mean (or sum) term over axis {last} is missing"


_MISTAKES: tuple[Callable[[Evidence], Iterator[str]], ...] = (
    _zero, _ratio, _moved, _swapped, _ignored, _averaged, _repeated, _missing_mean,
)  # fmt: skip
