"""The checks by other calls that a call leads to: other shapes, one argument twice. Other axes are in `axes`.

What these must give follows from the call itself, exactly. So they need no samples of their own and hardly any
differences, and are made for every call that is checked.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .examination import Examination
from .numeric import STEP
from .report import Subject, join_axes
from .trial import Trial
from .value import COLUMNS_UP_TO

__all__ = ["ROUNDING", "check_broadcast", "check_reuse"]

BROADCASTS = (
    ((3, 1), (1, 3)), ((2, 1), (1, 3)), ((3,), (3, 3)), ((), (2, 3)), ((2, 3), ()), ((0, 3), (1, 3)),
)  # fmt: skip
"""Shapes for arguments by turns. A sum over the wrong axis keeps a legal shape on squares only; a forgotten one shows
where sides differ."""

ROUNDING = 1e-12
"""Two ways to compute the same numbers, relative to the largest."""


# --- broadcasting ---


def check_broadcast(e: Examination) -> None:
    """Broadcasting copies an element, so its gradient is the sum over the copies; on squares and on distinct sides.

    The gradients of the copies come from one call without broadcasting, whose rules the other checks have verified.
    """
    if e.op.elementwise:
        _check_elementwise(e)
    arrays = [i for i, value in enumerate(e.values) if isinstance(value, (np.ndarray, np.generic))]
    core = 2 if e.op.batched else 0
    reason = None
    if not (e.op.elementwise or e.op.batched) or len(arrays) < 2:
        reason = "the op does not broadcast arrays against each other"
    elif not all(np.size(e.values[i]) and np.ndim(e.values[i]) >= core for i in arrays):
        reason = "an argument has too few elements to make others of"
    if reason:
        e.report.skipped["broadcast"] = reason
        return
    calls = [_spread(e, arrays, core, shapes) for shapes in BROADCASTS]
    joined = list(e.values)
    for i in arrays:
        joined[i] = np.concatenate([call.copies[i] for call in calls])
    try:
        with np.errstate(all="ignore"):
            whole = Trial(e.op, joined, e.settings, e.wrt)
    except Exception as error:
        e.report.skipped["broadcast"] = f"the op refuses shapes made from these ({type(error).__name__}: {error})"
        return
    with np.errstate(all="ignore"):
        pulled = [call.pull(e) for call in calls]
        cotangents = [np.concatenate([given[k] for _, given, _ in pulled]) for k in range(len(whole.values))]
        reference = whole.pull(cotangents)
    ends = np.cumsum([call.count for call in calls])[:-1]
    for k, i in enumerate(e.wrt):
        for call, (gradients, _, scale), copies in zip(calls, pulled, np.split(reference[k], ends), strict=True):
            call.compare(e, i, gradients[k], copies, scale)


def _check_elementwise(e: Examination) -> None:
    """An element of the output depends on no other elements of the arguments than those at its place.

    Some elements of an argument are moved, and the outputs that belong to the rest are compared.
    """
    shape = np.broadcast_shapes(*(np.shape(value) for value in e.values))
    if any(np.shape(out) != shape for out in e.trial.values):
        return
    for i in e.wrt:
        chosen = e.generator.random(np.shape(e.values[i])) < 0.5
        chosen.flat[:1], chosen.flat[1:][-1:] = True, False
        for moved in (chosen, ~chosen):
            elsewhere = ~np.broadcast_to(moved, shape)
            if elsewhere.any() and moved.any() and _changed_at(e, i, moved, elsewhere) is not None:
                raise _not_elementwise(e, i, moved, shape)


def _changed_at(
    e: Examination, i: int, moved: NDArray[np.bool_], places: NDArray[np.bool_]
) -> tuple[int, ...] | None:
    """Move elements of an argument; return one of the given places where an output has changed, if there is any."""
    x = np.asarray(e.values[i])
    values = [np.where(moved, x * (1 + STEP) + STEP * (x == 0), x)[()] if k == i else v for k, v in enumerate(e.values)]
    with np.errstate(all="ignore"):
        try:
            outputs = Trial(e.op, values, e.settings, e.wrt).values
        except Exception:  # outside of the domain
            return None
        for out, old in zip(outputs, e.trial.values, strict=True):
            largest = float(np.max(np.abs(old), initial=0.0, where=np.isfinite(old)))
            changed = places & (np.abs(np.asarray(out) - old) > ROUNDING * largest)
            if changed.any():
                return tuple(map(int, np.argwhere(changed)[0]))
    return None


def _not_elementwise(e: Examination, i: int, moved: NDArray[np.bool_], shape: tuple[int, ...]) -> Exception:
    """Find an element of the argument, and an output that depends on it though it is at another place."""
    found = "an output", "another element"
    for index in np.argwhere(moved)[:COLUMNS_UP_TO]:
        one = np.zeros(moved.shape, bool)
        one[tuple(index)] = True
        place = _changed_at(e, i, one, ~np.broadcast_to(one, shape))
        if place is not None:
            found = f"the output at {join_axes(place)}", e.subject.element(i, tuple(map(int, index)))
            break
    return e.subject.wrong(
        "broadcast", i, f"not elementwise: {found[0]} depends on {found[1]}, which is at another place",
        suspect="the op is declared elementwise=True, but combines elements: leave the declaration out",
    )  # fmt: skip


class _Spread:
    """A call whose arguments broadcast, and the call on copies that it stands for, its batch axes flattened."""

    def __init__(self, subject: Subject, values: list[Any], copies: dict[int, Any], places: dict[int, Any]) -> None:
        self.subject, self.values, self.copies, self.places = subject, values, copies, places
        self.count = len(next(iter(copies.values())))

    def pull(self, e: Examination) -> tuple[list[Any], list[Any], float]:
        """Record it; return its gradients, its cotangents with batch axes flattened, and their size."""
        try:
            trial = Trial(e.op, self.values, e.settings, e.wrt)
            cotangents = trial.cotangents(e.generator)
            gradients = trial.pull(cotangents)
            lead = np.ndim(trial.values[0]) - (2 if e.op.batched else 0)
            return gradients, [g.reshape(self.count, *np.shape(g)[lead:]) for g in cotangents], e.reach(cotangents)
        except Exception as error:
            raise self.subject.wrong(
                "broadcast", None, f"the op or a rule of it does not broadcast: {type(error).__name__}: {error}",
                suspect="if it combines elements, leave out elementwise=True" if e.op.elementwise else None,
            ) from error

    def compare(self, e: Examination, i: int, got: NDArray[Any], copies: NDArray[Any], scale: float) -> None:
        """Compare a gradient with the sum over copies."""
        size = int(np.size(self.values[i]))
        want = np.bincount(self.places[i], weights=copies.reshape(-1), minlength=size).reshape(np.shape(got))
        if not e.close(got, want, ROUNDING, ROUNDING * scale):
            with np.errstate(invalid="ignore"):
                j = int(np.nanargmax(np.abs(got - want)))
            index = tuple(map(int, np.unravel_index(j, got.shape)))
            raise self.subject.wrong(
                "broadcast", i,
                f"the gradient at {self.subject.element(i, index)} is {got[index]:.6g}; summed over the copies that "
                f"broadcasting makes of it, it is {want[index]:.6g}",
                suspect="the sum over the broadcast axes is left to the engine: return the output's shape",
                index=index, analytic=float(got[index]), numeric=float(want[index]),
            )  # fmt: skip


def _spread(e: Examination, arrays: Sequence[int], core: int, shapes: Sequence[tuple[int, ...]]) -> _Spread:
    """Lay out a call's own numbers in other shapes; they are in the domain, whatever that is."""
    values, copies, places = list(e.values), {}, {}
    for k, i in enumerate(arrays):
        inner = np.shape(e.values[i])[np.ndim(e.values[i]) - core :]
        shape = (*shapes[k % len(shapes)], *inner)
        values[i] = np.resize(e.values[i], shape)[()]
        places[i] = _places(shape, (*np.broadcast_shapes(*shapes), *inner))
        copies[i] = np.take(values[i], places[i]).reshape(-1, *inner)
    return _Spread(e.subject.derived(values=values), values, copies, places)


@functools.cache
def _places(shape: tuple[int, ...], full: tuple[int, ...]) -> NDArray[np.intp]:
    """Flat indices of the elements that broadcasting to the full shape copies, in its order."""
    indices: NDArray[np.intp] = np.broadcast_to(np.arange(math.prod(shape)).reshape(shape), full).reshape(-1)
    return indices


# --- one argument twice ---


def check_reuse(e: Examination) -> None:
    """The gradient of f(x, x) is the sum of those for both arguments: the same array twice is nothing special."""
    shapes = [np.shape(e.values[i]) for i in e.wrt]
    shape = max(shapes, key=shapes.count)
    same = [i for i in e.wrt if np.shape(e.values[i]) == shape]
    if len(same) < 2:
        e.report.skipped["reuse"] = "no two differentiated arguments have the same shape"
        return
    x = np.asarray(e.values[same[0]])
    separate = [np.array(x)[()] if i in same else value for i, value in enumerate(e.values)]
    with np.errstate(all="ignore"):
        try:
            apart = Trial(e.op, separate, e.settings, e.wrt)
        except Exception as error:
            e.report.skipped["reuse"] = f"the op refuses equal arguments ({type(error).__name__}: {error})"
            return
        together = Trial(e.op, separate, e.settings, e.wrt, shared=same)
        cotangents = apart.cotangents(e.generator)
        with e.rules("reuse"):
            want = sum(g for i, g in zip(e.wrt, apart.pull(cotangents), strict=True) if i in same)
            got = together.pull(cotangents)[e.wrt.index(same[0])]
    values_agree = all(e.close(a, b, ROUNDING, 0.0) for a, b in zip(together.values, apart.values, strict=True))
    if not values_agree or not e.close(got, want, ROUNDING, ROUNDING * e.reach(cotangents)):
        names = ", ".join(e.subject.arguments[i] for i in same)
        what = "the gradient is not the sum of theirs" if values_agree else "the values differ"
        subject = e.subject.derived(values=separate)
        raise subject.wrong(
            "reuse", same[0], f"where {names} are one tensor, {what} (compared with equal, separate ones)",
            suspect="the rule or the forward asks whether two arguments are the same, or writes to one of them",
        )  # fmt: skip
