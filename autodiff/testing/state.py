"""The checks of what one call does to another: between a forward and its backward pass the op may be called again.

An op that keeps a buffer, a list or a table from call to call gives right gradients as long as each call is followed
by its own backward pass. So it is called again in between, with other values of the same shapes.
"""

from __future__ import annotations

import functools
import itertools
import warnings
from collections.abc import Collection, Iterator
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .contents import Picture
from .examination import Examination
from .graph import confirm
from .numeric import flat, outputs_of
from .report import VJPError
from .trial import Trial
from .value import Problem

__all__ = ["check_elsewhere", "check_state", "check_until_the_end", "flatten"]

CALLS = 16
"""Calls in between: more than the buffers that an op is likely to take in turn."""


def check_state(e: Examination) -> None:
    """Another call changes nothing that this one has saved, returned or will read: its arrays are its own."""
    kept = e.record(e.values)
    first = _outcome(e, kept)
    answers = dict(_arrays(_answers(e, kept)))
    steady = first is not None and first == _outcome(e, kept)  # else it is not the other calls that make it another
    named = {f"the saved value {name!r}": value for name, value in _extra(kept).items()}
    named |= {_nth("the output", i, len(kept.values)): out for i, out in enumerate(kept.values)}
    picture = Picture(named, arrays_only=True)
    given = Picture(answers if steady else {})
    numbers = Picture(named)
    e.pictures.append((picture, "state", _AGAIN))
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # other values may be out of the domain
        others = _others(e)
        for i, (values, settings) in enumerate(itertools.islice(itertools.cycle(others), CALLS)):
            with suppress(Exception, SystemExit):  # what it has written until then is written
                e.op(*values, **settings)
            changed = picture.changed() or given.changed()
            if changed:
                raise e.subject.wrong("state", None, f"{changed} {_AGAIN}", suspect=_SUSPECT)
            if steady and i < len(others) and _outcome(e, kept) != first:
                moved = numbers.changed()
                reads = f"such as {moved}" if moved else "such as a list, a dictionary or a variable outside of it"
                raise e.subject.wrong(
                    "state", None, "after another call of the op, the rules give another gradient for the same call "
                    f"and cotangent: they read what each call changes, {reads}",
                    suspect="hand to the rules by ad.save(out, name=...) what they need, computed in the call",
                )  # fmt: skip


_AGAIN = "is overwritten when the op is called again before this call's backward pass"
_SUSPECT = (
    "memory is used again from call to call: a buffer in a global, a cache, a closure or a default argument, or an "
    "object that each call changes. Make a new array in each call"
)


def check_until_the_end(e: Examination, without: Collection[str]) -> None:
    """What was looked at in the beginning is still as it was, after all other calls."""
    for picture, kind, what in e.pictures:
        changed = picture.changed() if kind not in without else None
        if changed:
            raise e.subject.wrong(kind, None, f"{changed} {what}", suspect=_SUSPECT)


def check_elsewhere(e: Examination) -> None:
    """The gradient is right for the same numbers in another order too: nothing is left over from the first call."""
    values = [_reversed(value) for value in e.values]
    if not e.judged or all(a is b or np.array_equal(a, b) for a, b in zip(values, e.values, strict=True)):
        return
    try:
        with np.errstate(all="ignore"):
            trial = Trial(e.op, values, e.settings, e.wrt)
            cotangents = trial.cotangents(e.generator)
            gradients = trial.pull(cotangents)
    except Exception:  # out of the domain
        return
    if not np.isfinite(flat(tuple(trial.values))).all():
        return
    subject, shapes = e.subject.derived(values=values), [np.shape(out) for out in trial.values]
    for function, wrt in e.sources:
        problem = Problem(
            subject, functools.partial(outputs_of, function, e.settings), values, shapes, wrt,
            flat(tuple(cotangents))[None], e.claims([gradients]), max(e.rtol, 1e-6), e.atol, "central5", "error",
        )  # fmt: skip
        _confirm(e, problem)


def _confirm(e: Examination, problem: Problem) -> None:
    try:
        confirm(problem, e.generator)
    except VJPError as error:
        i = None if error.arg is None else e.subject.arguments.index(error.arg)
        raise problem.subject.wrong(
            "value", i, "right for the values given, and then wrong for the same numbers in another order:",
            str(error).splitlines()[1].strip(), index=error.index, analytic=error.analytic, numeric=error.numeric,
            suspect="something is left over from the first call, in a cache or a global; or the rule is for such "
            "numbers only",
        ) from error  # fmt: skip


# --- other calls ---


def _others(e: Examination) -> list[tuple[list[Any], dict[str, Any]]]:
    """Make calls with other values of the same shapes: elsewhere, of the other sign, and under other settings."""
    moves = (
        _reversed, lambda x: _moved(x, -1.0, 0.0), lambda x: _moved(_reversed(x), -1.0, 0.5),
        lambda x: _moved(x, 1.0, -2.3), lambda x: _moved(x, -0.5, 0.3),
    )  # fmt: skip
    calls = [([move(value) for value in e.values], e.settings) for move in moves]
    for name, value in e.bound.items():
        if isinstance(value, (int, float, np.number)) and not isinstance(value, bool):
            calls.append((calls[0][0], {**e.settings, name: value + 1}))
    return calls


def _reversed(value: Any) -> Any:
    """Put an array's elements in the opposite order."""
    if not isinstance(value, np.ndarray):
        return value if not isinstance(value, np.floating) else value * 1.25
    return _read_only(np.ascontiguousarray(value.reshape(-1)[::-1]).reshape(value.shape))


def _moved(value: Any, factor: float, shift: float) -> Any:
    """Move floating numbers, and turn truth values around."""
    if not isinstance(value, (np.ndarray, np.generic)):
        return value
    array = np.asarray(value)
    if array.dtype.kind == "b":
        return _read_only(np.array(~array if factor < 0 else array))
    return _read_only(np.asarray(factor * array + shift)) if array.dtype.kind == "f" else value


def _read_only(array: NDArray[Any]) -> Any:
    array.flags.writeable = False
    return array[()]


# --- what a call keeps, and what its rules return ---


def _extra(trial: Trial) -> dict[str, Any]:
    return {name: value for name, value in trial.saved().items() if not name.startswith("input ")}


def _nth(what: str, i: int, count: int) -> str:
    return what if count == 1 else f"{what} {i}"


def _answers(e: Examination, trial: Trial) -> list[Any]:
    try:
        with np.errstate(all="ignore"):
            return [answer for _, _, answer in trial.raw(e.cotangents[0])]
    except Exception:  # what it is will be said by the check of it
        return []


def _outcome(e: Examination, trial: Trial) -> tuple[bytes, ...] | None:
    """Run the rules; return the bits that they give, None where they raise."""
    return tuple(array.tobytes() for array in flatten(_answers(e, trial))) or None


def _arrays(answers: list[Any]) -> Iterator[tuple[str, Any]]:
    arrays = (array for array in flatten(answers) if array.ndim)
    return ((f"what a VJP rule has returned ({i})", array) for i, array in enumerate(arrays))


def flatten(answers: Any) -> Iterator[NDArray[Any]]:
    """Find the arrays that rules have returned, in tuples or not."""
    for answer in answers:
        if isinstance(answer, (tuple, list)):
            yield from flatten(answer)
        elif answer is not None:
            yield np.asarray(answer)
