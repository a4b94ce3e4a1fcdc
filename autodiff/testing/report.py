"""What a check says: the errors, their message, and the report of a pass."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

__all__ = ["CheckError", "InconclusiveError", "Subject", "VJPError", "VJPReport", "VacuousCheckError", "join_axes"]


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
        if self.saved_in_vain:
            lines.append(f"saved, but not needed here: {', '.join(self.saved_in_vain)}")
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

    def message(
        self, kind: str, argument: int | None, lines: Sequence[str], suspect: str | None = None, how: str = ""
    ) -> str:
        """Write a failure: what, the evidence, a suspicion, and how it was found and can be seen again."""
        head = self.name if argument is None else f"d {self.name} / d {self._described(argument)}"
        return "\n  ".join([
            f"VJPError[{kind}]: {head}",
            *lines,
            *([f"suspect: {suspect}"] if suspect else []),
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

    def _rerun(self) -> str:
        if self.sample is not None:
            return f'{self.check}({self.name}, *samples("{self.name}")[{self.sample}], rng={self.seed})'
        arguments = [_literal(name, value) for name, value in zip(self.arguments, self.values, strict=True)]
        settings = ", ".join(f"{name!r}: {_short(value)}" for name, value in self.settings.items())
        given = [self.name, *arguments, *([f"kwargs={{{settings}}}"] if settings else []), f"rng={self.seed}"]
        return f"{self.check}({', '.join(given)})"


def join_axes(index: tuple[int, ...]) -> str:
    """Write an index: [1, 3], and [()] for the element of a 0-d array."""
    return f"[{', '.join(map(str, index))}]" if index else "[()]"


def _literal(name: str, value: Any) -> str:
    """Write an argument so that it can be pasted; a large one by name, it is the caller's own."""
    if not isinstance(value, (np.ndarray, np.generic)):
        return repr(value)
    if value.size > 16:
        return name
    if value.size == 0:
        return f"np.empty({value.shape})"
    return f"np.array({value.tolist()})".replace("nan", "np.nan").replace("inf", "np.inf")


def _short(value: Any) -> str:
    if isinstance(value, np.ndarray) and value.size > 16:
        return f"<array of shape {value.shape}>"
    return repr(value) if len(repr(value)) <= 80 else f"<{type(value).__name__}>"
