"""What a check says: the errors, their message, and the report of a pass."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

__all__ = [
    "CheckError", "InconclusiveError", "Subject", "VJPError", "VJPReport", "VacuousCheckError", "join_axes",
    "one_of", "options_of",
]  # fmt: skip


LARGE = 16
"""Arrays with more elements are not written out."""


class CheckError(AssertionError):
    """A check that did not pass, with what it found as attributes.

    Parameters
    ----------
    message : str
        For people.
    kind : str
        Which check it was.
    arg : str, optional
        Name of the argument whose gradient it is about.
    index : tuple of int, optional
        The worst element of it.
    analytic, numeric : float, optional
        What the VJP rule and the differences give there.
    suspect : str, optional
        The likely mistake, where the numbers fit one.
    """

    def __init__(
        self, message: str, *, kind: str, arg: str | None = None, index: tuple[int, ...] | None = None,
        analytic: float | None = None, numeric: float | None = None, suspect: str | None = None,
    ) -> None:  # fmt: skip
        super().__init__(message)
        self.kind, self.arg, self.index, self.suspect = kind, arg, index, suspect
        self.analytic, self.numeric = analytic, numeric


class VJPError(CheckError):
    """A VJP rule, or the op around it, is wrong; `kind` says in which way."""


class InconclusiveError(CheckError):
    """Nothing can be said about the rule at this point. Not a pass: choose other inputs."""


class VacuousCheckError(CheckError):
    """Every derivative that was compared is zero, so any rule that returns zeros would pass. Not a pass."""


for _error in (VJPError, InconclusiveError, VacuousCheckError):
    _error.__module__ = "autodiff.testing"  # where users find them, and what a traceback shall say


@dataclass(repr=False)
class VJPReport:
    """What a check looked at when it passed. Printed, it says so in a few lines.

    Attributes
    ----------
    op : str
        Name of the op.
    rng : int
        Seed of the cotangents.
    compared, nonzero : int
        How many derivatives were compared with differences, and how many of those are not zero.
    worst : float
        Largest error of one, relative to its scale (the sum of the magnitudes that it is made of).
    step : float
        Smallest step of the differences; 0 if none were needed.
    passed : tuple of str
        Checks that were made.
    skipped : dict of str to str
        Checks that were not, with the reason.
    vacuous : tuple of str
        Arguments that no output depends on, here.
    saved_in_vain : tuple of str
        Saved values that do not matter for the gradient, here.
    varied : tuple of str
        Arguments that were varied: floating, not empty, and not declared to have the derivative zero.
    saved : tuple of str
        Saved floating values that were tried for `saved_in_vain`.
    slopes : dict of str to float
        Floating arguments that are declared without gradient, but on which an output depends, and its derivative: the
        largest for an element.
    left_out : int
        Elements at which the gradient itself has a kink or jump, so that their second derivatives were left out.
    turned : tuple of str
        Settings to which a check gave other values than the call's: axes.
    never_varied : tuple of str
        Settings that nobody gave another value than their default, here; from `check_op`, those that have the same
        value in all samples. A rule that is wrong for other values passes.
    """

    op: str
    rng: int
    compared: int = 0
    nonzero: int = 0
    worst: float = 0.0
    step: float = 0.0
    passed: tuple[str, ...] = ()
    skipped: dict[str, str] = field(default_factory=dict)
    vacuous: tuple[str, ...] = ()
    saved_in_vain: tuple[str, ...] = ()
    varied: tuple[str, ...] = ()
    saved: tuple[str, ...] = ()
    slopes: dict[str, float] = field(default_factory=dict)
    left_out: int = 0
    turned: tuple[str, ...] = ()
    never_varied: tuple[str, ...] = ()

    def __repr__(self) -> str:
        """Write the verdict with its figures, the checks made, and the reasons for those that were not."""
        if not self.passed:
            verdict = "nothing checked"
        elif self.vacuous:
            verdict = f"passed, but nothing depends on {', '.join(self.vacuous)} here"
        else:
            verdict = "passed"
        figures = f"{self.compared} derivatives compared, {self.nonzero} of them not zero"
        if self.compared:
            figures += f"; worst scaled error {self.worst:.1e}, smallest step {self.step:.1e}"
        lines = [f"{self.op}: {verdict}", f"{figures}   rng={self.rng}"]
        if self.passed:
            checks = f"checks: {', '.join(self.passed)}"
            lines += textwrap.wrap(checks, 110, subsequent_indent="  ", break_on_hyphens=False)
        lines += [f"skipped: {kind} ({reason})" for kind, reason in self.skipped.items()]
        lines += [f"declared without gradient: {name}, with slope {slope:.6g}" for name, slope in self.slopes.items()]
        if self.left_out:
            lines.append(f"second-order: left out {self.left_out} elements, at kinks or jumps of the gradient")
        if self.saved_in_vain:
            lines.append(f"saved, but not needed here: {', '.join(self.saved_in_vain)}")
        if self.never_varied:
            lines.append(f"never varied: {', '.join(self.never_varied)}")
        return "\n  ".join(lines)

    def note(self, step: float, worst: float, compared: int, nonzero: int) -> None:
        """Add the figures of one comparison."""
        self.step = min(self.step, step) if self.step else step
        self.worst = max(self.worst, worst)
        self.compared += compared
        self.nonzero += nonzero


@dataclass(frozen=True)
class Subject:
    """What is checked, as messages name it: a function, its arguments, and how to run the check again."""

    name: str
    arguments: tuple[str, ...]
    values: Sequence[Any]
    settings: Mapping[str, Any]
    seed: int
    sample: int | None = None  # its number among the registered samples of the op
    check: str = "check_vjp"
    options: Mapping[str, Any] = field(default_factory=dict)  # those of the check that are not the default
    origin: Subject | None = None  # the call that this one is made of
    hint: str = ""  # what to do if such a call was never meant

    def message(
        self, kind: str, argument: int | None, lines: Sequence[str], suspect: str | None = None, how: str = ""
    ) -> str:
        """Write a failure: what, the evidence, a suspicion, and how it was found and can be seen again."""
        head = self.name if argument is None else f"d {self.name} / d {self._described(argument)}"
        return "\n  ".join([
            f"VJPError[{kind}]: {head}",
            *lines,
            *([f"suspect: {suspect}"] if suspect else []),
            *([self.hint] if self.hint else []),
            self._sample() + how,
            f"rerun:  {self._rerun()}",
        ])

    def wrong(
        self, kind: str, argument: int | None, *lines: str, suspect: str | None = None, step: float | None = None,
        **found: Any,
    ) -> VJPError:  # fmt: skip
        """Make the error for a rule that is wrong; found with a cotangent in C order where a step is given."""
        name = None if argument is None else self.arguments[argument]
        how = "" if step is None else f"   cotangent layout=C   h={step:.1e}"
        message = self.message(kind, argument, lines, suspect, how)
        return VJPError(message, kind=kind, arg=name, suspect=suspect, **found)

    def unclear(self, kind: str, argument: int | None, *lines: str, **found: Any) -> CheckError:
        """Make the error for a check that says nothing: kind is "inconclusive" or "vacuous"."""
        error = VacuousCheckError if kind == "vacuous" else InconclusiveError
        name = None if argument is None else self.arguments[argument]
        message = self.message(kind, argument, lines).replace("VJPError[", f"{error.__name__}[", 1)
        return error(message, kind=kind, arg=name, **found)

    def element(self, argument: int, index: tuple[int, ...]) -> str:
        """Write an element as it is indexed: x[1, 3]."""
        return f"{self.arguments[argument]}{join_axes(index)}"

    def _described(self, i: int) -> str:
        value = np.asarray(self.values[i])
        count = len(self.arguments)
        return f"{self.arguments[i]} (argument {i} of {count}, shape {value.shape}, {value.dtype})"

    def _sample(self) -> str:
        number = "" if self.sample is None else f"#{self.sample}"
        shapes = " x ".join("None" if value is None else str(np.shape(value)) for value in self.values)
        settings = "".join(f"   {name}={_short(value)}" for name, value in self.settings.items())
        return f"sample: {self.name}{number} {shapes}{settings}   rng={self.seed}"

    def derived(self, **changes: Any) -> Subject:
        """Name a call that is made of this one, with other values or settings."""
        return replace(self, sample=None, origin=self.origin or self, **changes)

    def _rerun(self) -> str:
        if self.sample is not None:
            given = [f'*samples("{self.name}")[{self.sample}]']
        elif self.origin is not None and (self.origin.sample is not None or not self._can_be_written(self.origin)):
            return self.origin._rerun()  # the check derives this call of it again
        else:
            given = [_literal(name, value) for name, value in zip(self.arguments, self.values, strict=True)]
            given += [f"kwargs={_literal('kwargs', dict(self.settings))}"] if self.settings else []
        options = [f"{name}={_literal(name, value)}" for name, value in self.options.items()]
        return f"{self.check}({', '.join([self.name, *given, *options, f'rng={self.seed}'])})"

    def _can_be_written(self, origin: Subject) -> bool:
        """Whether no array that is too large for a line is another one than in the call that this is made of."""
        pairs = zip(self.values, origin.values, strict=True)
        return all(mine is theirs or np.size(mine) <= LARGE for mine, theirs in pairs)


def join_axes(index: tuple[int, ...]) -> str:
    """Write an index: [1, 3], and [()] for the element of a 0-d array."""
    return f"[{', '.join(map(str, index))}]" if index else "[()]"


def options_of(check: Callable[..., Any], **given: Any) -> dict[str, Any]:
    """Choose the options of a check that are not the default."""
    defaults = inspect.signature(check).parameters
    return {
        name: value
        for name, value in given.items()
        if type(value) is not type(defaults[name].default) or value != defaults[name].default
    }


def one_of(name: str, value: Any, allowed: Sequence[str]) -> None:
    """Refuse an option that is none of those that there are."""
    if not isinstance(value, str) or value not in allowed:
        raise ValueError(f"{name}={value!r} must be {' or '.join(map(repr, allowed))}")


def _literal(name: str, value: Any) -> str:
    """Write a value so that it can be pasted; what no line can hold by a name, it is the caller's own."""
    if isinstance(value, np.generic):
        return f"np.{type(value).__name__}({_literal(name, value.item())})"
    if isinstance(value, np.ndarray):
        return _array(value) if value.size <= LARGE else name
    if isinstance(value, float) and not np.isfinite(value):
        return f"{'-' if value < 0 else ''}np.{'nan' if np.isnan(value) else 'inf'}"
    if type(value) is dict:
        return f"{{{', '.join(f'{key!r}: {_literal(str(key), one)}' for key, one in value.items())}}}"
    if type(value) in (list, tuple):
        inside = ", ".join(_literal(f"{name}[{i}]", one) for i, one in enumerate(value))
        end = "," if type(value) is tuple and len(value) == 1 else ""
        return f"[{inside}]" if type(value) is list else f"({inside}{end})"
    if value is None or isinstance(value, (bool, int, float, complex, str, bytes, slice, range)):
        return repr(value)
    own = getattr(value, "__name__", "")
    if own and getattr(np, own, None) is value:
        return f"np.{own}"
    return own if own.isidentifier() else name


def _array(value: Any) -> str:
    kind = "" if value.dtype in (np.float64, np.int64, np.bool_) else f", dtype={str(value.dtype)!r}"
    return f"np.array({_literal('', value.tolist())}{kind})" if value.size else f"np.empty({value.shape}{kind})"


def _short(value: Any) -> str:
    if isinstance(value, np.ndarray) and value.size > LARGE:
        return f"<array of shape {value.shape}>"
    return repr(value) if len(repr(value)) <= 80 else f"<{type(value).__name__}>"
