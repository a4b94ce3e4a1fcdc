"""The check of an elementwise op beyond its author's samples: more axes, many elements, and points that few think of.

What an elementwise op does to a number depends neither on the others nor on how many there are. So the numbers of a
sample can be taken one by one, laid out in other shapes, and exchanged for others, and it is known what must come out:
the same values and gradients, and those that differences give. Points that say nothing, being outside of the domain or
at a kink, are passed over.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..binding import ShapeError
from ..op import Op, zeros
from .examination import Examination, declared_of
from .report import Subject, VJPError, VJPReport
from .structure import check_elementwise, check_shape
from .value import compare

__all__ = ["POINTS", "check_pointwise"]

POINTS = (-30.0, -4.0, -1e-5, 0.0, 1e-5, 4.0, 30.0)
"""Where formulas overflow, cancel, or divide by zero; and between what samples usually are and the first of these."""

NUMBERS = 8
"""So many numbers of a sample are looked at one by one."""

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
        With kind "pointwise" for a gradient that depends on shape or place, and for an op that is not elementwise;
        with kind "value" for a wrong gradient at a point.
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
    except ShapeError as error:
        raise subject.wrong("shape", None, str(error)) from error
    except Exception:  # the op refuses the call
        return None
    return e if finite and e.trial.recorded else None


# --- shapes ---


def _check_shapes(op: Op[..., Any], arrays: Sequence[Any], settings: dict[str, Any], seed: int) -> None:
    """Values and gradients are those of each number alone: in more axes, among many elements, and without any."""
    wrt = _ruled(op, arrays)
    found = (_examination(op, numbers, settings, wrt, seed, "an array of one element") for numbers in _alone(arrays))
    alone = [e for e in itertools.islice((e for e in found if e is not None), NUMBERS) if wrt]
    if not alone:
        return
    rng = np.random.default_rng(seed)
    cotangents = [rng.normal(0.0, 3.0, len(alone)).astype(out.dtype) for out in alone[0].trial.values]
    with np.errstate(all="ignore"):
        pulled = [e.pull(e.trial, [g[j : j + 1] for g in cotangents]) for j, e in enumerate(alone)]
    outputs, gradients = _joined([e.trial.values for e in alone]), _joined(pulled)
    numbers = _joined([e.values for e in alone])
    count = len(alone)
    for shape in ((1, count, 1), (2, 3, count), (MANY,)):
        # in no order, so that neighbours differ along every axis
        order = rng.permuted(np.resize(np.arange(count), shape).reshape(-1)).reshape(shape)
        e = _laid(op, numbers, order, settings, wrt, seed)
        if e is None:
            continue
        if not _same(e, e.trial.values, outputs, order, 1e-7):
            _check_places(e, numbers, order, rng)
        elif _same(e, e.trial.values, outputs, order, 1e-9):
            with np.errstate(all="ignore"):
                laid = e.pull(e.trial, [g[order] for g in cotangents])
            for i, got, want in zip(wrt, laid, gradients, strict=True):
                if not e.close(got, want[order], 1e-9, 1e-14 * e.reach(cotangents)):
                    raise e.subject.wrong(
                        "pointwise", i,
                        f"the gradient in an array of shape {shape} is another one than for the same numbers alone",
                        suspect="the rule looks at the number of axes or of elements, or at all of them together",
                    )  # fmt: skip
    for empty in ((0,), (2, 0)):
        e = _laid(op, numbers, np.zeros(empty, int), settings, wrt, seed)
        if e is not None:
            with warnings.catch_warnings(action="ignore"), np.errstate(all="ignore"):
                check_elementwise(e)
                check_shape(e)


def _alone(arrays: Sequence[Any]) -> Iterator[list[Any]]:
    """Yield calls of one element: different ones of the sample, and some beside the first."""
    whole = np.broadcast_shapes(*(np.shape(x) for x in arrays if isinstance(x, (np.ndarray, np.generic))))
    flat = [np.broadcast_to(x, whole).reshape(-1) if isinstance(x, (np.ndarray, np.generic)) else x for x in arrays]
    calls: dict[str, list[Any]] = {}
    for j in range(int(np.prod(whole))):
        one = [_in_double(x[j : j + 1]) if isinstance(x, np.ndarray) else x for x in flat]
        calls.setdefault(repr(one), one)
        if len(calls) == NUMBERS:
            break
    yield from calls.values()
    first = next(iter(calls.values()))
    for part in (0.125, -0.125, 0.25, -0.25, 0.0625, -0.0625, 0.5, 1.0):
        yield [x + part * np.where(x == 0, 1.0, x) if _floats(x) else x for x in first]


def _in_double(x: NDArray[Any]) -> NDArray[Any]:
    return np.array(x, np.float64 if x.dtype.kind == "f" else None)


def _joined(rows: Sequence[Sequence[Any]]) -> list[Any]:
    """Make one array of the one-element arrays in each column; what is no array is the same in all rows."""
    return [np.concatenate(parts) if isinstance(parts[0], np.ndarray) else parts[0] for parts in zip(*rows)]  # noqa: B905


def _laid(
    op: Op[..., Any], numbers: Sequence[Any], order: NDArray[Any], settings: dict[str, Any], wrt: tuple[int, ...],
    seed: int,
) -> Examination | None:  # fmt: skip
    """Make the call on arrays that hold the numbers in some order."""
    values = [x[order] if isinstance(x, np.ndarray) else x for x in numbers]
    return _examination(op, values, settings, wrt, seed, f"an array of shape {order.shape}")


def _same(e: Examination, got: Sequence[Any], want: Sequence[Any], order: Any, relative: float) -> bool:
    return all(e.close(a, b[order], relative, 0.0) for a, b in zip(got, want, strict=True))


def _check_places(e: Examination, numbers: Sequence[Any], order: NDArray[Any], rng: np.random.Generator) -> None:
    """Refuse values that are not those of each number alone, unless they depend on the place: a random mask may.

    Then differences tell what the gradient is in such an array.
    """
    shape, size = order.shape, order.size

    def again(order: NDArray[Any]) -> list[Any] | None:
        other = _laid(e.op, numbers, order, e.settings, e.wrt, e.subject.seed)
        return None if other is None else other.trial.values

    half = rng.random(shape) < 0.5
    for changed in (half, ~half):
        values = again(np.where(changed, (order + 1) % (order.max() + 1), order))
        if values is not None and not _same(e, [out[~changed] for out in values], e.trial.values, ~changed, 1e-7):
            raise e.subject.wrong("pointwise", None, _MISDECLARED.format(
                f"an element of its output depends on other elements of its arguments, in an array of shape {shape}"
            ))  # fmt: skip
    moved = rng.permutation(size)
    values = again(order.reshape(-1)[moved].reshape(shape))
    if values is not None and _same(
        e, [out.reshape(-1) for out in values], [out.reshape(-1) for out in e.trial.values], moved, 1e-7
    ):  # fmt: skip
        raise e.subject.wrong("pointwise", None, _MISDECLARED.format(
            f"what it makes of a number in an array of shape {shape} is not what it makes of the number alone: it "
            f"depends on how many elements or axes there are"
        ))  # fmt: skip
    _compare(e)


_MISDECLARED = "the op is declared elementwise, but {}. If it is not elementwise, leave out elementwise=True"


# --- points ---


def _check_points(op: Op[..., Any], arrays: Sequence[Any], settings: dict[str, Any], seed: int) -> None:
    """Gradients at points that no sample has are those that differences give, wherever there are any."""
    wrt = _ruled(op, arrays)
    for i in [i for i, x in enumerate(arrays) if _floats(x)] if wrt else []:
        for values in _at_points(arrays, i):
            e = _examination(op, values, settings, wrt, seed, f"{op.argument_name(i)} = {float(values[i][0]):g}")
            if e is not None:
                _compare(e)


def _compare(e: Examination) -> None:
    """Compare gradients with differences, wherever these say something."""
    try:
        with np.errstate(all="ignore"):
            compare(e.problem, e.report)
    except VJPError:
        raise
    except Exception:  # differences do not settle, or the op refuses a number beside the point
        return


def _at_points(arrays: Sequence[Any], i: int) -> Iterator[list[Any]]:
    """Yield calls of one element: the points for an argument, the first of its numbers for every other."""
    first = [np.asarray(x).reshape(-1)[:1].copy() if isinstance(x, (np.ndarray, np.generic)) else x for x in arrays]
    for point in POINTS:
        values: list[NDArray[Any] | Any] = [x.copy() if isinstance(x, np.ndarray) else x for x in first]
        values[i] = np.array([point])
        yield values
