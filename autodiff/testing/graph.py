"""The checks of what a call leaves in the graph: derivatives of its rules, and memory."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np

from .contents import arrays_in
from .examination import Examination
from .numeric import Vector, flat
from .report import CheckError, VJPReport
from .trial import Trial
from .value import Problem, agrees_along, compare

__all__ = ["check_memory", "check_second_order", "check_transposition", "confirm"]


def check_transposition(e: Examination) -> None:
    """The derivative of the rule by its cotangent is the Jacobian itself: <v, jvp(u)> = <vjp(v), u>, to rounding.

    The rule g -> vjp(g) is linear, so its own VJP, which is the product with the Jacobian, needs no differences.
    """
    recording = "the op is fused: rounding in its decomposition is another" if e.op.decomposed else e.recording
    if isinstance(recording, str):
        e.report.skipped["transposition"] = recording
        return
    u = _directions(e)
    with np.errstate(all="ignore"), e.rules("transposition"):
        _, jvp = recording.pull(u)
        left = np.concatenate([np.ravel(g * y) for g, y in zip(e.cotangents[0], jvp, strict=True)])
        right = np.concatenate([np.ravel(g * x) for g, x in zip(e.gradients[0], u, strict=True)])
        error, scale = abs(left.sum() - right.sum()), float(np.abs(left).sum() + np.abs(right).sum())
        # where a rule subtracts numbers as large as those that it is given, little is left but their rounding
        sizes = [np.linalg.norm(np.concatenate([np.ravel(part) for part in parts])) for parts in (e.cotangents[0], u)]
    if not np.isfinite(scale):
        e.report.skipped["transposition"] = "a gradient is not finite here"
    elif error > 1e-12 * scale + 1e-14 * float(sizes[0] * sizes[1]):
        found = (
            f"<v, jvp(u)> = {left.sum():.12g}, where jvp is the VJP of the recorded rule, but <vjp(v), u> = "
            f"{right.sum():.12g}"
        )
        if error <= 1e-6 * scale:  # what breaks the graph is missing as a whole
            raise e.subject.unclear(
                "inconclusive", None, found, "the two differ by what roundings may do where a problem is "
                "ill-conditioned: use samples that are better conditioned, whose inverse is smaller",
            )  # fmt: skip
        raise e.subject.wrong(
            "transposition", None, found,
            suspect="part of g does not reach the result as a tensor: g.data, or a copy of it, breaks the graph",
        )  # fmt: skip


def check_second_order(e: Examination) -> None:
    """The VJP of the VJP, through the graph, agrees with differences of the VJP; a rule that has none raises.

    For a fused op the graph is that of its decomposition, and the differences are those of its own rules.
    """
    recording = e.recording
    if isinstance(recording, str):
        e.report.skipped["second-order"] = recording
        return
    for i, got, want in zip(e.wrt, recording.gradients, e.gradients[0], strict=True):
        if e.op.decomposed is None and not e.close(got.data, want, 1e-12, 1e-14 * e.reach(e.cotangents[0])):
            raise e.subject.wrong("second-order", i, "the rule gives another gradient when it is recorded, on tensors")
    if not all(np.isfinite(gradient).all() for gradient in e.gradients[0]):
        e.report.skipped["second-order"] = "a gradient is not finite here"
        return
    rows = [_directions(e), _directions(e)]
    with np.errstate(all="ignore"), e.rules("second-order"):
        claimed = e.claims([recording.pull(u)[0] for u in rows])

    def rule(values: Any) -> Vector:
        return flat(tuple(Trial(e.op, values, e.settings, e.wrt).pull(e.cotangents[0])))

    problem = Problem(
        e.subject, rule, e.values, [np.shape(e.values[i]) for i in e.wrt], e.wrt,
        np.stack([flat(tuple(u)) for u in rows]), claimed, max(e.rtol, 1e-6), e.atol, "central5", "leave out",
        "second-order",
    )  # fmt: skip
    reason, left_out = confirm(problem, e.generator)
    e.report.left_out += left_out
    if reason:
        e.report.skipped["second-order"] = reason


def confirm(problem: Problem, rng: np.random.Generator) -> tuple[str | None, int]:
    """Raise if gradients are wrong for certain: along one direction, and looked at closely.

    Return a doubt if there is one, and how many elements were left out, since they lie at kinks.
    """
    if agrees_along(problem, rng):
        return None, 0
    report = VJPReport("", 0)
    try:
        with np.errstate(all="ignore"):
            compare(problem, report)
    except CheckError as error:
        if error.kind in (problem.kind, "nonfinite"):
            raise
        return f"differences do not settle here ({error.kind})", 0
    if report.left_out and not report.compared:
        return "every element lies at a kink", report.left_out
    return None, report.left_out


def _directions(e: Examination) -> list[Any]:
    """Draw a direction for each argument."""
    return [np.asarray(e.generator.normal(0.0, 3.0, np.shape(e.values[i])))[()] for i in e.wrt]


def check_memory(e: Examination) -> None:
    """After a call's result is gone, so is everything that it kept: by reference count alone, without the collector.

    Not counted is what the call before kept too, such as a table that is computed once.
    """
    known = {id(array) for value in (e.trial.originals or e.trial.saved()).values() for array in arrays_in(value)}
    enabled = gc.isenabled()
    gc.disable()
    try:
        watched = _watched(e, known)
        alive = [what for what, array in watched if array() is not None]
    finally:
        if enabled:
            gc.enable()
    if not watched:
        e.report.skipped["memory"] = "nothing is kept but scalars"
    if alive:
        gc.collect()
        cycle = not any(array() is not None for _, array in watched)
        raise e.subject.wrong(
            "memory", None, f"after the result is gone, this is still alive: {', '.join(dict.fromkeys(alive))}",
            suspect="a saved value leads back to itself: such a cycle waits for the garbage collector" if cycle
            else "the forward or a rule put it somewhere else, in a global or a cache",
        )  # fmt: skip


def _watched(e: Examination, known: set[int]) -> list[tuple[str, weakref.ref[Any]]]:
    """Make and forget a call, its rules having run; return weak references to its arrays."""
    trial = e.record([np.array(value, order="K") if isinstance(value, np.ndarray) else value for value in e.values])
    trial.pull(e.cotangents[0])
    saved = {f"the saved value {e.readable(name)!r}": arrays_in(value) for name, value in trial.saved().items()}
    kept = [(what, array) for what, arrays in saved.items() for array in arrays]
    kept += [("the output", out) for out in trial.values if isinstance(out, np.ndarray)]
    return [(what, weakref.ref(array)) for what, array in kept if id(array) not in known]
