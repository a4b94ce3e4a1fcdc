"""``python -m autodiff check``: whether the ops of a file are right, and whether their samples would tell."""

from __future__ import annotations

import shlex
import time
import traceback
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..op import Op
from ..testing.cases import Case, judge, needed, never_varied, samples
from ..testing.mutants import Mutant, survey
from ..testing.pointwise import check_pointwise
from ..testing.report import CheckError, VJPReport
from ..testing.vjp import examine
from .console import printable
from .loading import Loaded, load

__all__ = ["check"]

ONCE = "cannot be differentiated"
"""How a report says that a rule has no derivative of its own."""

UNEXPECTED = (Exception, SystemExit)
"""What an author's code may raise: an op that calls sys.exit has failed, whatever code it asks for."""

PAIR = "a call as in samples, and the exception that it must raise, or a tuple of them"
"""What each of the error samples is."""

UNVARIED = "never varied"
"""What is said of settings that have one value in all samples."""

REMARKS = {
    "once": "once: the rule has no derivative of its own; a second derivative through it raises",
    "surrogate": "surrogate: a rule is not the derivative, on purpose; its values were not compared",
    "nondiff": "nondiff: outputs depend on an argument that is declared without gradient; if it is meant, say so: "
    "f.nondiff(name, varies=True)",
    "kinks": "kinks: second derivatives were left out where the gradient itself has a kink or jump",
    "constant": "constant: no argument is differentiated, so there is no rule to check",
    UNVARIED: "never varied: a setting has one value in all samples, so a rule that is wrong for others passes",
}
"""What stands behind the verdict of an op that has passed, and what it means."""


@dataclass
class Failure:
    """What is wrong with an op, in a word and in full."""

    kind: str
    text: str
    samples: list[int] = field(default_factory=list)


@dataclass
class Outcome:
    """What became of one op."""

    op: Op[..., Any]
    cases: list[Case]
    reports: list[VJPReport]
    failures: list[Failure]
    skipped: list[str] = field(default_factory=list)
    """Why samples were not tried: they need packages that are not installed."""

    @property
    def is_skipped(self) -> bool:
        """Whether nothing was tried."""
        return bool(self.skipped) and not (self.reports or self.failures)

    @property
    def verdict(self) -> str:
        """The word in the table."""
        if self.failures:
            return ", ".join(dict.fromkeys(failure.kind for failure in self.failures))
        skipped = [f"skipped: {', '.join(dict.fromkeys(self.skipped))}"] if self.skipped else []
        if self.is_skipped:
            return skipped[0]
        full = {
            UNVARIED: f"never varied: {', '.join(self.unvaried)}",
            "nondiff": f"nondiff: {', '.join(f'{name} has slope {slope:.3g}' for name, slope in self.slopes.items())}",
            "kinks": f"kinks: {sum(report.left_out for report in self.reports)} elements",
        }
        remarks = [full.get(remark, remark) for remark in self.remarks]
        return ", ".join(["passed", *remarks, *skipped])

    @property
    def unvaried(self) -> list[str]:
        """Settings that have one value in all samples."""
        return never_varied(self.op, self.cases, self.reports)

    @property
    def slopes(self) -> dict[str, float]:
        """The largest slope in all samples by each argument that is declared without gradient."""
        found: dict[str, float] = {}
        for report in self.reports:
            found |= {name: slope for name, slope in report.slopes.items() if abs(slope) > abs(found.get(name, 0.0))}
        return found

    @property
    def remarks(self) -> list[str]:
        """What a pass does not say."""
        found = []
        if self.op.surrogate:
            found.append("surrogate")
        if any(ONCE in report.skipped.get("second-order", "") for report in self.reports):
            found.append("once")
        if self.slopes:
            found.append("nondiff")
        if any(report.left_out for report in self.reports):
            found.append("kinks")
        if not any(report.passed for report in self.reports):
            found.append("constant")
        elif self.unvaried:
            found.append(UNVARIED)
        return found


def check(target: str, name: str | None, *, mutate: bool, rng: int) -> int:
    """Check the ops that a file registers; print a table, then what is wrong.

    Parameters
    ----------
    target : str
        A file, or the dotted name of a module.
    name : str or None
        One of its ops; None for all.
    mutate : bool
        Plant mistakes in the rules of ops that pass.
    rng : int
        Seed of the samples that are drawn, and of the cotangents.

    Returns
    -------
    int
        1 if an op is wrong, else 0.
    """
    with load(target) as loaded:
        ops = loaded.named(name)
        width = max(len("op"), *map(len, ops))
        print(f"{'op':<{width}}  {'cases':>5}  {'worst error':>11}  {'time':>8}  verdict")
        outcomes = []
        for op in ops.values():
            start = time.perf_counter()
            outcome = examined(op, rng)
            outcomes.append(outcome)
            worst = f"{max(r.worst for r in outcome.reports):.1e}" if any(r.compared for r in outcome.reports) else "-"
            spent = f"{time.perf_counter() - start:.2f} s"
            row = f"{op.name:<{width}}  {len(outcome.cases):>5}  {worst:>11}  {spent:>8}  {outcome.verdict}"
            print(printable(row), flush=True)
        _conclude(loaded, outcomes, rng)
        if mutate:
            _mutate([outcome for outcome in outcomes if outcome.reports and not outcome.failures], width)
        return int(any(outcome.failures for outcome in outcomes))


def examined(op: Op[..., Any], rng: int) -> Outcome:
    """Check one op on all its samples, and that it refuses what it should."""
    try:
        cases = [Case(op, i, sample) for i, sample in enumerate(samples(op, rng))]
        bad = op.error_samples(np.random.default_rng(rng)) if callable(op.error_samples) else op.error_samples
    except UNEXPECTED as error:
        if reason := needed(error):
            return Outcome(op, [], [], [], [reason])
        return Outcome(op, [], [], [Failure("samples", f"the samples cannot be made: {_said(error)}")])
    if not cases:
        return Outcome(op, [], [], [Failure("no samples", _how_to_sample(op))])
    outcome = Outcome(op, [], [], [])
    for case in cases:
        try:
            outcome.reports.append(examine(op, case.arguments, None, None, rng, sample=case.number)[0])
        except UNEXPECTED as error:
            if reason := needed(error.__cause__ if isinstance(error, CheckError) else error):
                outcome.skipped.append(reason)
                continue
            if isinstance(error, CheckError):
                _note(outcome, error.kind, _rerun(error, op, rng), case.number)
            else:  # the forward's, or a declaration's that is only noticed when the op is called
                _note(outcome, "raises", f"the call raises: {_said(error)}\n  sample: {case}", case.number)
        outcome.cases.append(case)
    if outcome.reports and not outcome.failures:
        try:
            check_pointwise(op, [(case.arrays, case.settings) for case in outcome.cases], rng)
            judge(op, outcome.reports)
        except CheckError as error:
            outcome.failures.append(Failure(error.kind, str(error)))
    outcome.failures += _accepted(op, bad)
    return outcome


def _note(outcome: Outcome, kind: str, text: str, number: int) -> None:
    """Keep the first failure of a kind in full, and count the others."""
    for failure in outcome.failures:
        if failure.kind == kind:
            failure.samples.append(number)
            return
    outcome.failures.append(Failure(kind, text, [number]))


def _said(error: BaseException) -> str:
    """Write an unexpected error, and where it arose."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    notes = "".join(f"\n  {note}" for note in getattr(error, "__notes__", ()))
    return f"{type(error).__name__}: {error}{notes}\n  at {frame.filename}:{frame.lineno}: {frame.line}"


def _rerun(error: CheckError, op: Op[..., Any], rng: int) -> str:
    """Write a failure so that its rerun line draws the same samples."""
    drawn = f'samples("{op.name}", rng={rng})'
    return str(error).replace(f'samples("{op.name}")', drawn) if rng else str(error)


def _accepted(op: Op[..., Any], bad: Any) -> Iterator[Failure]:
    """Find calls that should raise, but do not, or otherwise."""
    if not isinstance(bad, (list, tuple)):
        yield Failure("error sample", f"error_samples gives {bad!r}, but shall be a list of pairs: {PAIR}")
        return
    for i, pair in enumerate(bad):
        if not (isinstance(pair, (list, tuple)) and len(pair) == 2 and (expected := _exceptions(pair[1]))):
            yield Failure("error sample", f"error_samples[{i}] is {pair!r}, but shall be a pair: {PAIR}")
            continue
        given = pair[0] if isinstance(pair[0], tuple) else (pair[0],)
        *args, settings = given if given and isinstance(given[-1], dict) else (*given, {})
        said = "nothing was raised"
        try:
            op(*args, **settings)
        except expected:
            continue
        except UNEXPECTED as error:
            if needed(error):
                continue
            said = _said(error)
        names = " or ".join(one.__name__ for one in expected)
        yield Failure("error sample", f"error_samples[{i}] should raise {names}: {said}")


def _exceptions(expected: Any) -> tuple[type[BaseException], ...]:
    """Return the exceptions that a call may raise, given as ``pytest.raises`` takes them; empty if there is none."""
    several = expected if isinstance(expected, tuple) else (expected,)
    return several if all(isinstance(one, type) and issubclass(one, BaseException) for one in several) else ()


def _how_to_sample(op: Op[..., Any]) -> str:
    """Write samples for an op that has none, as its author might."""
    arguments = 2 if op.signature.variadic else len(op.signature.arguments)
    setting = f", {{{op.signature.order[0]!r}: ...}}" if op.signature.order else ""
    calls = [
        ", ".join([f"rng.normal(size={shape})"] * arguments) + ("," if arguments == 1 else "") for shape in
        ("()", "(2, 3)", "(0, 3)")
    ]  # fmt: skip
    listed = "".join(f"\n        ({call.rstrip(',') + setting if setting else call})," for call in calls)
    return (
        "there are no samples, so nothing was checked. Give it calls to try, away from kinks and poles: tuples of "
        f"arguments, with\n  settings as a dict at the end\n\n    @op(samples=lambda rng: [{listed}\n    ])"
    )


def _conclude(loaded: Loaded, outcomes: list[Outcome], rng: int) -> None:
    """Say what the words mean, and each failure in full with the way to see it again."""
    wrong = [outcome for outcome in outcomes if outcome.failures]
    right = [outcome for outcome in outcomes if outcome.reports and not outcome.failures]
    remarks = dict.fromkeys(remark for outcome in right for remark in outcome.remarks)
    for remark in remarks:
        print(REMARKS[remark])
    for outcome in wrong:
        for failure in outcome.failures:
            count = len(failure.samples)
            more = f"\n  the same on {count} of {len(outcome.cases)} samples: {failure.samples}" if count > 1 else ""
            print(printable(f"\n{outcome.op.name}: {failure.text}{more}"))
        words = [loaded.target, outcome.op.name]
        seed = f" --rng {rng}" if rng else ""
        print(printable(f"  again:  python -m autodiff check {shlex.join(words)}{seed}"))
        print(printable(f"  in Python, first:  {loaded.preamble(outcome.op)}"))
    skipped = sum(outcome.is_skipped for outcome in outcomes)
    passed = len(outcomes) - len(wrong) - skipped
    print(f"\n{passed} of {len(outcomes)} ops passed{f', {skipped} skipped' if skipped else ''}", flush=True)


# --- mutants ---


def _mutate(outcomes: list[Outcome], width: int) -> None:
    """Plant mistakes in the rules of ops that have passed; print which ones their samples do not notice."""
    if not outcomes:
        print("\nno mistakes were planted: no op has passed")
        return
    print("\nmistakes planted in the rules, one at a time, and whether the samples notice them")
    print(f"{'op':<{width}}  {'planted':>7}  {'refused':>7}  {'survive':>7}  {'time':>8}")
    planted = refused = left_out = 0
    survivors: list[tuple[str, Mutant]] = []
    unplanted: list[tuple[str, str]] = []
    forms: list[tuple[str, str]] = []
    start = time.perf_counter()
    for found in survey(case for outcome in outcomes for case in outcome.cases):
        spent = f"{time.perf_counter() - start:.2f} s"
        counts = f"{found.planted:>7}  {found.refused:>7}  {len(found.survivors):>7}"
        print(f"{found.op.name:<{width}}  {counts}  {spent:>8}", flush=True)
        planted, refused, left_out = planted + found.planted, refused + found.refused, left_out + found.left_out
        survivors += [(found.op.name, mutant) for mutant in found.survivors]
        unplanted += [(found.op.name, reason) for reason in found.unplanted]
        forms += [(found.op.name, found.forms)] if found.forms else []
        start = time.perf_counter()
    for name, mutant in survivors:
        print(printable(
            f"\n{name}, {mutant.file}:{mutant.line}: not noticed ({mutant.kind})\n  - {mutant.before}\n"
            f"  + {mutant.after}\n  would notice: {mutant.advice}"
        ))  # fmt: skip
    for name, reason in unplanted:
        print(printable(f"\n{name}: {reason}"))
    for name, missing in forms:
        print(printable(f"\n{name} broadcasts; its samples have\n  {missing}"))
    share = f", {100 * refused / planted:.1f} %" if planted else ""
    print(f"\n{refused} of {planted} planted mistakes refused{share}")
    if left_out:
        print(
            f"{left_out} more were left out: they matter only where floats are equal, infinite or NaN, and no sample\n"
            f"lies on such a point. What the rules give there is a decision, and needs tests of its own."
        )
    if survivors:
        print("A survivor either makes no difference, ever, or asks for a sample.")
