"""The check of an elementwise op beyond its author's samples: more axes, many elements, and points that few think of.

What an elementwise op does to a number depends neither on its place nor on how many there are. So samples can be laid
out in other shapes, and single elements exchanged for others, and it is known what must come out: the same gradients,
and those that differences give. Points that say nothing, being outside of the domain or at a kink, are passed over.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..op import Op, zeros
from .examination import Examination, declared_of
from .report import Subject, VJPError, VJPReport
from .value import compare

__all__ = ["POINTS", "check_pointwise"]

POINTS = (-30.0, -1e-5, 0.0, 1e-5, 30.0)
"""Where formulas overflow, cancel, or divide by zero."""

MANY = 1031
"""A prime number of elements, more than fit a small block."""

HINT = (
    "no sample has {}: if the op is not meant for it, let the forward raise ValueError, or give NaN, and add it to "
    "error_samples"
)


def check_pointwise(op: Op[..., Any], calls: Iterable[tuple[Sequence[Any], dict[str, Any]]], seed: int = 0) -> None:
    """Check an op that is declared elementwise on calls made of its samples.

    Parameters
    ----------
    op : Op
        The op; of one that is not elementwise nothing is asked.
    calls : iterable of (sequence, dict)
        Arguments and settings of its samples.
    seed : int
        Of the cotangents.

    Raises
    ------
    VJPError
        With kind "pointwise" for a gradient that depends on shape or place, "value" for a wrong one at a point.
    """
    if not op.elementwise:
        return
    largest: dict[str, tuple[Sequence[Any], dict[str, Any]]] = {}  # with each choice of settings
    for arrays, settings in calls:
        size = min((np.size(x) for x in arrays if _floats(x)), default=0)
        best = largest.get(repr(settings))
        if size and (best is None or size > min(np.size(x) for x in best[0] if _floats(x))):
            largest[repr(settings)] = (arrays, settings)
    for arrays, settings in largest.values():
        _check_shapes(op, arrays, settings, seed)
        _check_points(op, arrays, settings, seed)


def _floats(value: Any) -> bool:
    return isinstance(value, (np.ndarray, np.floating)) and np.asarray(value).dtype.kind == "f"


def _ruled(op: Op[..., Any], arrays: Sequence[Any]) -> tuple[int, ...]:
    """Positions of the arguments to differentiate."""
    constant = {i for rule in op.rules if rule.function is zeros for i in rule.arguments} | op.nondifferentiable
    constant |= set(map(op.argument, op.surrogate))
    return tuple(i for i, x in enumerate(arrays) if _floats(x) and declared_of(op, i) not in constant)


def _examination(
    op: Op[..., Any], values: Sequence[Any], settings: dict[str, Any], wrt: tuple[int, ...], seed: int, what: str
) -> Examination | None:
    """Make the call; None where the op does not take it, or gives what is not finite."""
    for value in values:
        if isinstance(value, np.ndarray):
            value.flags.writeable = False
    names = tuple(op.argument_name(i) for i in range(len(values)))
    subject = Subject(op.name, names, values, settings, seed, hint=HINT.format(what))
    e = Examination(op, subject, list(values), settings, wrt, VJPReport(op.name, seed), kinks="leave out")
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("error")
            finite = all(np.isfinite(out).all() for out in e.trial.values)
    except Exception:  # the op refuses the call
        return None
    return e if finite and e.trial.recorded else None


# --- shapes ---


def _check_shapes(op: Op[..., Any], arrays: Sequence[Any], settings: dict[str, Any], seed: int) -> None:
    """Gradients are the same in more axes, and among many elements."""
    wrt = _ruled(op, arrays)
    whole = np.broadcast_shapes(*(np.shape(x) for x in arrays if isinstance(x, (np.ndarray, np.generic))))
    flat = [np.broadcast_to(x, whole).reshape(-1) if isinstance(x, (np.ndarray, np.generic)) else x for x in arrays]
    base = _examination(op, [np.array(x) if isinstance(x, np.ndarray) else x for x in flat], settings, wrt, seed, "")
    if base is None or not wrt:
        return
    count = int(np.prod(whole))
    for shape in ((1, count, 1), (2, 3, count), (MANY,)):

        def laid(x: Any, shape: tuple[int, ...] = shape) -> Any:
            return np.resize(x, shape) if isinstance(x, np.ndarray) else x  # repeats the numbers in turn

        e = _examination(op, [laid(x) for x in flat], settings, wrt, seed, f"an array of shape {shape}")
        pairs = () if e is None else zip(e.trial.values, base.trial.values, strict=True)
        if e is None or not all(e.close(out, laid(old), 1e-9, 0.0) for out, old in pairs):
            continue  # what it computes depends on the place, such as a random mask
        with np.errstate(all="ignore"):
            gradients = e.pull(e.trial, [laid(np.asarray(g)) for g in base.cotangents[0]])
        for i, got, want in zip(wrt, gradients, base.gradients[0], strict=True):
            if not e.close(got, laid(want), 1e-9, 1e-14 * e.reach(base.cotangents[0])):
                raise e.subject.wrong(
                    "pointwise", i,
                    f"the gradient in an array of shape {shape} is another one than for the same numbers in shape "
                    f"{(count,)}",
                    suspect="the rule looks at the number of axes or of elements",
                )  # fmt: skip


# --- points ---


def _check_points(op: Op[..., Any], arrays: Sequence[Any], settings: dict[str, Any], seed: int) -> None:
    """Gradients at points that no sample has are those that differences give, wherever there are any."""
    wrt = _ruled(op, arrays)
    for i in [i for i, x in enumerate(arrays) if _floats(x)] if wrt else []:
        for values in _at_points(arrays, i):
            e = _examination(op, values, settings, wrt, seed, f"{op.argument_name(i)} = {float(values[i][0]):g}")
            if e is None:
                continue
            try:
                with np.errstate(all="ignore"):
                    compare(e.problem, e.report)
            except VJPError:
                raise
            except Exception:  # differences do not settle, or the op refuses a number beside the point
                continue


def _at_points(arrays: Sequence[Any], i: int) -> Iterator[list[Any]]:
    """Yield calls of one element: the points for an argument, the first of its numbers for every other."""
    first = [np.asarray(x).reshape(-1)[:1].copy() if isinstance(x, (np.ndarray, np.generic)) else x for x in arrays]
    for point in POINTS:
        values: list[NDArray[Any] | Any] = [x.copy() if isinstance(x, np.ndarray) else x for x in first]
        values[i] = np.array([point])
        yield values
