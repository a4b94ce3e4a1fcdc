"""The samples that ops are registered with, as test cases."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..node import OPS
from ..op import Op, zeros
from .pointwise import check_pointwise
from .report import VacuousCheckError, VJPError, VJPReport
from .vjp import examine, find_op

__all__ = [
    "Case", "check_op", "judge", "missing_samples", "missing_settings", "needed", "never_varied", "op_cases",
    "samples",
]  # fmt: skip


@dataclass(frozen=True, eq=False)
class Case:
    """One registered sample of an op.

    Attributes
    ----------
    op : Op
        The op.
    number : int
        Its place among the samples.
    arguments : tuple
        The positional arguments; a dict of settings at the end, if there are any.
    """

    op: Op[..., Any]
    number: int
    arguments: tuple[Any, ...]

    def __str__(self) -> str:
        """Write an id for a test: name, number, shapes and settings."""
        shapes = "-".join("None" if x is None else "x".join(map(str, np.shape(x))) or "scalar" for x in self.arrays)
        settings = "".join(f"-{name}={_word(value)}" for name, value in self.settings.items())
        return f"{self.op.name}#{self.number}-{shapes}{settings}"

    @property
    def arrays(self) -> tuple[Any, ...]:
        """The positional arguments of the call, without the settings."""
        return self.arguments[:-1] if self.arguments and isinstance(self.arguments[-1], dict) else self.arguments

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of the call."""
        last = self.arguments[-1] if self.arguments else None
        return last if isinstance(last, dict) else {}

    def check(self) -> VJPReport:
        """Check the op's rules on this sample.

        What one sample alone does not decide is only reported: that an argument has no influence here, or that a saved
        value is not needed here. `check_op` judges it over all samples.
        """
        report, _ = examine(self.op, self.arguments, None, None, 0, sample=self.number)
        return report


def _word(value: Any) -> str:
    """Write a setting in a test's id."""
    text = repr(value)
    return text.replace(" ", "") if len(text) <= 24 else type(value).__name__


def samples(name: Op[..., Any] | str, rng: int | np.random.Generator = 0) -> list[tuple[Any, ...]]:
    """Return the sample calls that an op is registered with.

    Parameters
    ----------
    name : str or Op
        The op.
    rng : int or Generator
        For samples that are drawn.

    Returns
    -------
    list of tuple
        The positional arguments of each call, a dict of settings at the end where there are any: what
        ``check_vjp(name, *sample)`` takes.

    Examples
    --------
    >>> from autodiff.testing import samples
    >>> [x.shape for x in samples("linear")[0]]
    [(3, 4), (4, 2), (2,)]
    """
    declared = find_op(name).samples
    drawn = declared(np.random.default_rng(rng)) if callable(declared) else declared
    return [sample if isinstance(sample, tuple) else (sample,) for sample in drawn]


def op_cases() -> list[Case]:
    """Return every sample of every registered op, those apart that need a package which is not installed.

    Returns
    -------
    list of Case
        For ``@pytest.mark.parametrize("case", op_cases(), ids=str)``; a test calls ``case.check()``.

    Examples
    --------
    >>> from autodiff.testing import op_cases
    >>> case = next(case for case in op_cases() if case.op.name == "linear")
    >>> str(case)
    'linear#0-3x4-4x2-2'
    >>> case.check().compared
    22
    """
    return [Case(op, i, sample) for op in OPS.values() for i, sample in enumerate(_here(op) or [])]


def needed(error: BaseException | None) -> str | None:
    """Write which package samples need, where an ImportError says how it is installed; None for any other error."""
    if not isinstance(error, ImportError) or "pip install" not in str(error):
        return None
    plain = re.search(r"needs? (\S+): (pip install \S+)$", str(error))
    return f"needs {plain[1]} ({plain[2]})" if plain else str(error)


def _here(op: Op[..., Any]) -> list[tuple[Any, ...]] | None:
    """Return the samples of an op; None if they need a package that is not installed."""
    try:
        return samples(op)
    except ImportError as error:
        if needed(error) is None:
            raise
        return None


def missing_samples() -> list[str]:
    """Return the names of registered ops without a sample, which nothing checks.

    Examples
    --------
    >>> from autodiff.testing import missing_samples
    >>> "linear" in missing_samples()
    False
    """
    return [name for name, op in OPS.items() if _here(op) == []]


def missing_settings(name: Op[..., Any] | str) -> list[str]:
    """Return the settings of an op that have the same value in all samples, so that nothing checks others.

    Parameters
    ----------
    name : str or Op
        The op.

    Examples
    --------
    >>> from autodiff.testing import missing_settings
    >>> missing_settings("softmax")
    []
    """
    op = find_op(name)
    return never_varied(op, [Case(op, i, sample) for i, sample in enumerate(samples(op))])


def never_varied(op: Op[..., Any], cases: Sequence[Case], reports: Sequence[VJPReport] = ()) -> list[str]:
    """Return the settings that have one value in all samples, and that no check gives others.

    Parameters
    ----------
    op : Op
        The op.
    cases : sequence of Case
        Its samples.
    reports : sequence of VJPReport
        What was found on them: some checks vary settings themselves.
    """
    turned = {setting for report in reports for setting in report.turned}
    settings = [{**op.signature.settings, **case.settings} for case in cases]
    values = {name: {repr(given.get(name)) for given in settings} for name in op.signature.order}
    return [name for name, seen in values.items() if len(seen) < 2 and name not in turned]


def check_op(name: Op[..., Any] | str) -> list[VJPReport]:
    """Check an op on all samples that it is registered with.

    Parameters
    ----------
    name : str or Op
        The op.

    Returns
    -------
    list of VJPReport
        One for each sample.

    Raises
    ------
    VJPError
        If a rule is wrong on one of them, or saves something that none of them needs. Of an elementwise op also if it
        is wrong for the same numbers in more axes or among more than a thousand, for no numbers, or at 0, 1e-5, 4 and
        30 of either sign; and if the op is not elementwise.
    VacuousCheckError
        If none of them depends on some differentiable argument.
    ValueError
        If there are no samples.

    Examples
    --------
    >>> from autodiff.testing import check_op
    >>> len(check_op("linear"))
    9
    """
    op = find_op(name)
    cases = [Case(op, i, sample) for i, sample in enumerate(samples(op))]
    if not cases:
        raise ValueError(f"the op {op.name!r} has no samples to check it with: give it some with @op(samples=...)")
    reports = [case.check() for case in cases]
    check_pointwise(op, [(case.arrays, case.settings) for case in cases])
    judge(op, reports)
    for report in reports:
        report.never_varied = tuple(never_varied(op, cases, reports))
    return reports


def judge(op: Op[..., Any], reports: list[VJPReport]) -> None:
    """Raise for what holds wherever it could show: an argument without influence, a value saved in vain.

    A sample without the argument, or with no element of it, says nothing about it, for or against.
    """
    where = f"{op.name}, all {len(reports)} samples\n  "
    rerun = f"\n  rerun:  check_op({op.name!r})"
    needed = {name for report in reports for name in set(report.saved) - set(report.saved_in_vain)}
    in_vain = {name for report in reports for name in report.saved} - needed
    if in_vain:
        what = f"no gradient depends on what is saved: {', '.join(sorted(in_vain))}"
        raise VJPError(f"VJPError[saved-in-vain]: {where}{what}{rerun}", kind="saved-in-vain")
    ruled = {i for rule in op.rules if rule.function is not zeros for i in rule.arguments} - op.nondifferentiable
    ruled -= set(map(op.argument, op.surrogate))  # whose values are not compared
    effective = {name for report in reports for name in set(report.varied) - set(report.vacuous)}
    if op.signature.variadic:  # its arrays are one argument
        effective = set(op.signature.arguments) if effective else set()
    vacuous = [name for i, name in enumerate(op.signature.arguments) if i in ruled and name not in effective]
    if vacuous:
        tried = {name for report in reports for name in report.varied}
        what = f"no output depends on {', '.join(vacuous)}" if tried else "there is no floating array with elements"
        raise VacuousCheckError(f"VacuousCheckError[vacuous]: {where}{what}{rerun}", kind="vacuous")
