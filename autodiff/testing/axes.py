"""The check of settings that name axes: every spelling of an axis means the same, and every axis is right.

Nobody says whose axis it is: of the first argument, of another, of the output. So a spelling from the other end is
tried for each of them, and those that the op refuses are dropped.
"""

from __future__ import annotations

import functools
import itertools
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

from .derived import ROUNDING
from .examination import Examination
from .graph import confirm
from .numeric import flat, outputs_of
from .report import CheckError, Subject
from .trial import Trial
from .value import Problem

__all__ = ["check_axis"]

SINGULAR = ("axis", "dim")
PLURAL = ("axes", "dims")
"""Here an integer may also be a number of axes."""

ONE_OF_TWO = ("axis1", "axis2", "dim0", "dim1")
"""Settings that each name one axis of two: their spelling alone is changed."""

FEW = 16
"""So many spellings of a tuple are tried."""


def check_axis(e: Examination) -> None:
    """Every spelling of an axis gives the same: negative, positive, in a tuple, with and without keepdims.

    The other axes, None and a pair of axes are held against differences along one direction. What the op refuses, it
    refuses. What is no axis of any array is left alone.
    """
    names = [name for name in e.op.signature.order if name in SINGULAR + PLURAL + ONE_OF_TWO]
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # the mean of nothing, which a sample would not ask for
        reasons = [_Setting(e, name).check() for name in names]
    if all(reasons):
        e.report.skipped["axis"] = "; ".join(filter(None, reasons)) or "the op has no setting axis"


def _attempt(e: Examination, changes: dict[str, Any], values: list[Any] | None = None) -> Trial | None:
    """Record the call with other settings; None where the op does not take them."""
    try:
        return Trial(e.op, e.values if values is None else values, {**e.settings, **changes}, e.wrt)
    except (Exception, SystemExit):  # each op refuses what it does not know in its own way
        return None


class _Turned:
    """The call along an axis, and its gradients."""

    def __init__(self, e: Examination, subject: Subject, trial: Trial, cotangents: list[Any], given: bool) -> None:
        self.subject, self.trial, self.cotangents = subject, trial, cotangents
        with e.rules("axis", subject):
            self.gradients = e.gradients[0] if given else trial.pull(cotangents)

    def confirm(self, e: Examination) -> None:
        """Hold the gradients against differences, where there are any and these settle."""
        if not e.judged or not flat(tuple(self.cotangents)).size:
            return
        if not np.isfinite(flat(tuple(self.trial.values))).all():
            return
        for function, wrt in e.sources:
            problem = Problem(
                self.subject, functools.partial(outputs_of, function, self.subject.settings), e.values,
                [np.shape(out) for out in self.trial.values], wrt, flat(tuple(self.cotangents))[None],
                e.claims([self.gradients]), max(e.rtol, 1e-6), e.atol, "central5", "error", "axis",
            )  # fmt: skip
            try:
                confirm(problem, e.generator)
            except CheckError:
                raise
            except Exception:  # of the forward, which may not take what is beside these arguments
                return


class _Setting:
    """A setting that is called as if it named axes."""

    def __init__(self, e: Examination, name: str) -> None:
        self.e, self.name = e, name
        self.given = e.settings_or_defaults.get(name)
        self.elements = _elements(self.given)
        arrays = [x for x in e.values if isinstance(x, (np.ndarray, np.generic))]
        ndims = [np.ndim(x) for x in (*(e.values[i] for i in e.wrt), *arrays, *e.trial.values)]
        self.counts = [n for n in dict.fromkeys(ndims) if n]
        """How many axes the arrays have, one of which it is an axis of."""
        self.count = 0
        """From how many a negative axis is counted; 0 where that is not known."""

    def check(self) -> str | None:
        """Check it; return why it is not."""
        if self.elements is None:
            return f"{self.name} is no integer and no tuple of integers, but of type {type(self.given).__name__}"
        if not self.counts or not all(any(-n <= a < n for n in self.counts) for a in self.elements):
            return f"{self.name} is out of range for the axes of every array"
        refuses = self._refuses_others()
        if not refuses and not self._counts_from_the_end():
            return f"{self.name} may be what is no axis of any array, and is not counted from the end of one"
        e = self.e
        self._compare_spellings(_Turned(e, e.subject, e.trial, e.cotangents[0], given=True), self.given, refuses)
        for axis in self._choices() if self.name not in ONE_OF_TWO else ():
            trial = _attempt(e, {self.name: axis})
            if trial is not None:
                subject = self._subject({self.name: axis})
                turned = _Turned(e, subject, trial, trial.cotangents(e.generator), given=False)
                turned.confirm(e)
                self._compare_spellings(turned, axis, refuses)
                self._note({self.name: axis})
        return None

    # --- whether it names axes ---

    @property
    def _first(self) -> Any:
        """The axes that are given, or the first where there are none."""
        return self.given if self.elements else (0,) if self.name in PLURAL else 0

    def _refuses_others(self) -> bool:
        """Whether the op raises for an axis that no array has.

        A number of axes is refused on one side alone: those of tensordot may be as few as you like.
        """
        n = max(self.counts)
        outside = [n, -n - 1] if self.name in PLURAL else [n]
        rest = list(self._first[1:]) if type(self._first) in (tuple, list) else []
        given = [_like(self._first, [beyond, *rest]) for beyond in outside]
        return all(_attempt(self.e, {self.name: axis}) is None for axis in given)

    def _takes_the_last(self) -> bool:
        """Whether the op takes the last axis of the array with most of them; where not, it names something shorter."""
        rest = self._first[1:] if type(self._first) in (tuple, list) else []
        return _attempt(self.e, {self.name: _like(self._first, [max(self.counts) - 1, *rest])}) is not None

    def _counts_from_the_end(self) -> bool:
        """Whether every axis from the end is one from the start, at these arguments and beside them."""
        e = self.e
        beside = [
            x * (1 + 1e-3 * e.generator.normal(size=np.shape(x))) if i in e.wrt else x for i, x in enumerate(e.values)
        ]

        def alike(axis: Any, spelt: Any) -> bool:
            calls = [[_attempt(e, {self.name: one}, at) for one in (axis, spelt)] for at in (e.values, beside)]
            return all(self._same(*both) for both in calls)

        if type(self._first) in (tuple, list):
            return any(alike(self._first, spelt) for spelt in self._spellings(self._first))
        return any(all(alike(axis, axis - n) for axis in range(n)) for n in self.counts)

    def _same(self, a: Trial | None, b: Trial | None) -> bool:
        """Whether two calls give the same, axes of length one apart."""
        if a is None or b is None or len(a.values) != len(b.values):
            return False
        return all(
            np.size(x) == np.size(y) and self.e.close(np.reshape(x, np.shape(y)), y, ROUNDING, 0.0)
            for x, y in zip(a.values, b.values, strict=True)
        )

    # --- other axes, and other ways to write them ---

    def _choices(self) -> Iterator[Any]:
        """Give other axes to try."""
        few, elements = min(max(self.counts), 3), self.elements or []
        several = type(self.given) in (tuple, list)
        known = [a % self.count if self.count else a for a in elements]
        orders = [elements[::-1], [*elements[1:], *elements[:1]], [*elements[:-2], *elements[:-3:-1]]]
        if several:  # one of them is a permutation that is not its own inverse
            new = [order for k, order in enumerate(orders) if order not in [elements, *orders[:k]]]
            yield from (_like(self.given, order) for order in new)
        if self.name in SINGULAR or (elements and not several):
            yield from (axis for axis in range(few) if several or axis not in known)
        if self.name in SINGULAR and self.given is not None:
            yield None
        if few > 1 and (self.name in SINGULAR or self.given is None) and sorted(known) != [0, 1]:
            yield 0, 1

    def _spellings(self, axis: Any) -> Iterator[Any]:
        """Write axes from the other end: all of them as one array's first, then as of different ones."""
        elements = _elements(axis) or []
        together = [(n,) * len(elements) for n in self.counts]
        mixed = itertools.islice(itertools.product(self.counts, repeat=len(elements)), FEW)
        for way in dict.fromkeys([*together, *mixed]) if elements else ():
            if all(-n <= a < n for a, n in zip(elements, way, strict=True)):
                yield _like(axis, [a - n if a >= 0 else a + n for a, n in zip(elements, way, strict=True)])

    def _subject(self, changes: dict[str, Any]) -> Subject:
        """Name a call with other settings; say how to refuse axes that are given in another form than in the sample."""
        axis = changes[self.name]
        hint = ""
        if type(axis) is not type(self.given) and (_is_integer(axis), _is_integer(self.given)) != (True, True):
            arguments = "".join(f"{name}, " for name in self.e.subject.arguments)
            hint = (
                f"if the op is not meant to take {self.name}={axis!r}: let the forward raise TypeError, and add to the "
                f"op error_samples=[(({arguments}{{{self.name!r}: {axis!r}}}), TypeError)]"
            )
        return self.e.subject.derived(settings={**self.e.settings, **changes}, hint=hint)

    # --- the comparison ---

    def _compare_spellings(self, turned: _Turned, axis: Any, refuses: bool) -> None:
        """Compare a call with the others that mean the same."""
        self._compare_ends(turned, axis, refuses)
        others: list[dict[str, Any]] = [{self.name: (axis,)}] if self.name in SINGULAR and _is_integer(axis) else []
        kept = [flag for flag in ("keepdims", "keepdim") if flag in self.e.op.signature.order]
        others += [{self.name: axis, flag: not self.e.settings_or_defaults.get(flag)} for flag in kept]
        for changes in others:
            trial = _attempt(self.e, changes)
            if trial is None:
                continue
            if not self._same(trial, turned.trial):
                raise self._unlike(changes, axis)
            wrong = self._wrong_gradient(turned, trial, changes, axis)
            if wrong is not None:
                raise wrong
            self._note(changes)

    def _note(self, changes: dict[str, Any]) -> None:
        """Tell that settings had other values."""
        old = self.e.settings_or_defaults
        new = {name for name, value in changes.items() if repr(value) != repr(old.get(name))}
        self.e.report.turned = tuple(sorted({*self.e.report.turned, *new}))

    def _compare_ends(self, turned: _Turned, axis: Any, refuses: bool) -> None:
        """Compare with the axis counted from the other end of its array: one of those that the op takes."""
        wrong: list[tuple[Trial, dict[str, Any], CheckError]] = []
        spellings = [{self.name: spelt} for spelt in self._spellings(axis)]
        trials = []
        for changes in spellings:
            trial = _attempt(self.e, changes)
            trials.append(trial)
            if trial is None or not self._same(trial, turned.trial):
                continue
            error = self._wrong_gradient(turned, trial, changes, axis)
            if error is None:
                self.count = abs((_elements(changes[self.name]) or [0])[0] - (_elements(axis) or [0])[0])
                return
            wrong.append((trial, changes, error))
        for trial, changes, _ in wrong:
            given = self._cotangents(turned, trial)
            _Turned(self.e, self._subject(changes), trial, given, given=False).confirm(self.e)
        if None in trials or len(spellings) >= FEW:
            return  # what agreed did so by chance, and whose axis it is refuses to be counted so
        if wrong:
            raise wrong[0][2]
        if refuses and spellings and self._takes_the_last():
            raise self._unlike(spellings[0], axis)

    def _cotangents(self, turned: _Turned, trial: Trial) -> list[Any]:
        pairs = zip(turned.cotangents, trial.values, strict=True)
        return [np.reshape(g, np.shape(out))[()] for g, out in pairs]

    def _wrong_gradient(
        self, turned: _Turned, trial: Trial, changes: dict[str, Any], axis: Any
    ) -> CheckError | None:
        """Return an error if another spelling gives another gradient."""
        e, given, subject = self.e, self._cotangents(turned, trial), self._subject(changes)
        with e.rules("axis", subject):
            gradients = trial.pull(given)
        for i, got, want in zip(e.wrt, gradients, turned.gradients, strict=True):
            if not e.close(got, want, ROUNDING, 1e-14 * e.reach(given)):
                return subject.wrong(
                    "axis", i, f"with {_written(changes)} the gradient is another one than with {self.name}={axis!r}, "
                    f"by up to {float(np.nanmax(np.abs(got - want))):.3g}",
                )  # fmt: skip
        return None

    def _unlike(self, changes: dict[str, Any], axis: Any) -> CheckError:
        what = f"with {_written(changes)} the op gives something else than with {self.name}={axis!r}"
        return self._subject(changes).wrong("axis", None, what)


def _is_integer(axis: Any) -> bool:
    return isinstance(axis, (int, np.integer)) and not isinstance(axis, bool)


def _elements(axis: Any) -> list[int] | None:
    """List the axes that are named; None where something else is."""
    parts = list(axis) if type(axis) in (tuple, list) else [] if axis is None else [axis]
    return [int(a) for a in parts] if all(map(_is_integer, parts)) else None


def _like(axis: Any, elements: list[int]) -> Any:
    """Write axes in the form of others."""
    return type(axis)(elements) if type(axis) in (tuple, list) else elements[0]


def _written(changes: dict[str, Any]) -> str:
    return ", ".join(f"{setting}={value!r}" for setting, value in changes.items())
