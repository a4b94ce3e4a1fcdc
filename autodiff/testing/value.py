"""The comparison that the rest prepares: what a rule gives against what differences give."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .numeric import (
    STEP,
    Derivative,
    Forward,
    Slopes,
    Vector,
    complex_slope,
    differs_by_side,
    element_line,
    gap_of,
    line_along,
    noise_of,
    settle,
    slopes_along,
    step_for,
    too_small,
)  # fmt: skip
from .report import Subject, VJPError, VJPReport, join_axes
from .suspects import Evidence, suspect

__all__ = ["COLUMNS_UP_TO", "Problem", "agrees_along", "compare", "element_derivative", "not_finite"]

COLUMNS_UP_TO = 256
"""Up to so many input elements each is varied by itself; above, random directions stand for them."""

PROJECTIONS = 8
"""Directions per argument: signs at random, so that one wrong element cannot hide behind the others."""


class Problem(NamedTuple):
    """A function at a point, and the gradients that a rule claims for some cotangents."""

    subject: Subject
    forward: Forward
    values: Sequence[Any]
    shapes: Sequence[tuple[int, ...]]
    """Those of the floating outputs."""
    wrt: tuple[int, ...]
    cotangents: NDArray[np.float64]
    """One in each row, flattened over all floating outputs."""
    gradients: dict[int, NDArray[np.float64]]
    """For each argument, one flattened gradient in each row."""
    rtol: float
    atol: float
    scheme: Literal["central5", "complex"]
    kinks: Literal["error", "subgradient", "leave out"]
    kind: str = "value"
    """What a mismatch is called."""


def compare(problem: Problem, report: VJPReport) -> tuple[int, ...]:
    """Compare every argument; return those on which, by differences, no output depends.

    Raises
    ------
    VJPError
        With kind "value", or "kink" where the function has none to compare with.
    InconclusiveError
        Where differences do not settle.
    """
    at = problem.forward(problem.values)
    total = sum(int(np.size(problem.values[i])) for i in problem.wrt)
    by_columns = total <= COLUMNS_UP_TO
    if problem.scheme == "complex" and not by_columns:
        raise problem.subject.unclear(
            "inconclusive", None, f"the complex step takes at most {COLUMNS_UP_TO} input elements; here are {total}"
        )
    argument: type[_Columns] | type[_Projections] = _Columns if by_columns else _Projections
    if not at.size:
        return ()
    made = [argument(problem, i, at) for i in problem.wrt if np.size(problem.values[i])]
    columns = {one.argument: one for one in made}
    for one in made:
        report.note(*one.compare(columns))
        report.left_out += one.left_out
    return tuple(one.argument for one in made if one.is_vacuous)


def agrees_along(problem: Problem, rng: np.random.Generator) -> bool:
    """Whether gradients and differences agree along one random direction through all arguments together.

    Four evaluations, however many elements there are. An agreement is one; for a disagreement `compare` looks closer.
    """
    values = {i: np.asarray(problem.values[i]) for i in problem.wrt}
    # of different lengths, since sums of signs alone coincide too often
    lengths = {i: rng.uniform(0.5, 1.0, x.shape) * rng.choice([-1.0, 1.0], x.shape) for i, x in values.items()}
    directions = {i: length * np.maximum(1.0, np.abs(values[i])) for i, length in lengths.items()}

    def line(t: float) -> Vector:
        moved = list(problem.values)
        for i, direction in directions.items():
            moved[i] = (values[i] + t * direction)[()]
        return problem.forward(moved)

    v = problem.cotangents[0]
    with np.errstate(all="ignore"):
        far, near = line(2 * STEP) - line(-2 * STEP), line(STEP)
        slopes = (8 * (near - line(-STEP)) - far) / (12 * STEP)
        parts = [problem.gradients[i][0] * directions[i].reshape(-1) for i in problem.wrt]
        claimed, numeric = np.concatenate(parts), v * slopes
        scale = max(float(np.linalg.norm(claimed)), float(np.abs(numeric).sum()))
        rounding = float(np.sum(noise_of(np.abs(v) * np.maximum(1.0, np.abs(near)), STEP)))
        error = abs(float(claimed.sum()) - float(numeric.sum()))
        return error <= problem.rtol * scale + problem.atol * min(1.0, scale) + rounding


def element_derivative(problem: Problem, argument: int, j: int, at: Vector, weights: Any = 1.0) -> Derivative:
    """Differentiate with respect to one element, as carefully as it takes."""
    line = element_line(problem.forward, problem.values, argument, j)
    x = float(np.asarray(problem.values[argument]).flat[j])
    return settle(line, at, step_for(x), problem.rtol, weights)


def not_finite(problem: Problem, argument: int, row: int, j: int) -> VJPError:
    """Make the error for a gradient that is NaN or infinite where differences are not."""
    found = element_derivative(problem, argument, j, problem.forward(problem.values))
    value = np.asarray(problem.values[argument])
    index = tuple(map(int, np.unravel_index(j, value.shape)))
    analytic = float(problem.gradients[argument][row, j])
    numeric = float(problem.cotangents[row] @ found.slopes.central)
    return problem.subject.wrong(
        "nonfinite" if problem.kind == "value" else problem.kind, argument,
        f"the gradient is {analytic} at {problem.subject.element(argument, index)} = {float(value[index]):.6g}, where "
        f"the derivative is finite: numeric {numeric:.6g}",
        index=index, analytic=analytic, numeric=numeric,
    )  # fmt: skip


def _ratio(error: NDArray[np.float64], unit: NDArray[np.float64]) -> NDArray[np.float64]:
    """Divide; no error is none in any unit, and what cannot be compared counts for nothing."""
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio: NDArray[np.float64] = np.nan_to_num(error / unit, nan=0.0, posinf=np.inf)
    return ratio


class _Columns:
    """One argument, element by element: the numeric Jacobian, a column for each."""

    def __init__(self, problem: Problem, argument: int, at: Vector) -> None:
        self.problem, self.argument, self.at = problem, argument, at
        self.shape = np.shape(problem.values[argument])
        self.weights = np.sum(np.abs(problem.cotangents), axis=0)
        self.kinks: dict[int, Slopes] = {}
        self.left_out = 0
        flat_x = np.asarray(problem.values[argument]).reshape(-1)
        self.steps = np.array([step_for(x) for x in flat_x])
        self.reach = self.steps / STEP  # size of each element, at least one
        if problem.scheme == "complex":
            self._complex()
            return
        with np.errstate(all="ignore"):  # a point outside the domain gives NaN, and a smaller step later
            found = [
                slopes_along(element_line(problem.forward, problem.values, argument, j), at, self.steps[j])
                for j in range(flat_x.size)
            ]
            left, right = np.stack([s.left for s in found], 1), np.stack([s.right for s in found], 1)
            self.jacobian = np.stack([s.central for s in found], 1)
            first = Slopes(self.jacobian, left, right, 0.0)
            rounded = np.maximum(np.abs(at[:, None]), self.reach)
            differs = differs_by_side(first, noise_of(rounded, self.steps)).any(axis=0)
            gap = self.weights @ gap_of(first)
        self._measure()
        doubtful = differs & (gap > self.absolute) | ~np.isfinite(self.jacobian).all(axis=0)
        for j in np.flatnonzero(doubtful | self._misses().any(axis=0)):
            self._look_closer(int(j))
        self._measure()

    def _complex(self) -> None:
        problem, size = self.problem, int(np.prod(self.shape))
        try:
            slopes = [complex_slope(problem.forward, problem.values, self.argument, j) for j in range(size)]
        except (TypeError, np.exceptions.ComplexWarning) as error:
            raise problem.subject.unclear(
                "inconclusive", self.argument, f"the forward does not take complex numbers ({error}); use central5"
            ) from error
        self.jacobian = np.stack(slopes, 1)
        self.steps = np.full(size, np.inf)  # nothing is subtracted, so rounding is not magnified
        self._measure()

    def _look_closer(self, j: int) -> None:
        """Replace a column by one from smaller steps; refuse where there is no derivative to compare with."""
        problem, subject = self.problem, self.problem.subject
        found = element_derivative(problem, self.argument, j, self.at, self.weights)
        self.jacobian[:, j], self.steps[j] = found.slopes.central, found.slopes.step
        index = self._index(j)
        name = subject.element(self.argument, index)
        where = f"{name} = {float(np.asarray(problem.values[self.argument])[index]):.6g}"
        if found.verdict != "smooth" and problem.kinks == "leave out":
            self.jacobian[:, j] = np.nan
            self.left_out += 1
        elif found.verdict == "kink":
            o = int(np.argmax(np.abs(found.slopes.right - found.slopes.left)))
            left, right = float(found.slopes.left[o]), float(found.slopes.right[o])
            if problem.kinks == "error":
                raise subject.wrong(
                    "kink", self.argument,
                    f"not differentiable at {where}: slope {left:.6g} on the left, {right:.6g} on the right",
                    "choose inputs away from kinks and ties, or pass kinks='subgradient'; test the value at the kink "
                    "itself by a convention of its own",
                    *filter(None, [too_small(abs(float(np.asarray(problem.values[self.argument])[index])))]),
                    index=index, analytic=float(problem.gradients[self.argument][0, j]), numeric=right,
                )  # fmt: skip
            self.kinks[j] = found.slopes
        elif np.isinf(np.asarray(problem.values[self.argument])[index]):
            self.jacobian[:, j] = np.nan  # an infinite input does not vary; where no output is finite nothing is known
        elif found.verdict == "unsettled" and np.isfinite(problem.gradients[self.argument][:, j]).all():
            raise subject.unclear(
                "inconclusive", self.argument,
                f"differences at {where} do not settle (last step {found.slopes.step:.1e}, slope "
                f"{float(found.slopes.left[0]):.6g} on the left, {float(found.slopes.right[0]):.6g} on the right): "
                + (too_small(abs(float(np.asarray(problem.values[self.argument])[index])), found.slopes.step) or
                   "a jump, the edge of the domain, an ill-conditioned problem, or outputs so large that rounding "
                   "hides the derivative"),
                index=index,
            )  # fmt: skip

    def _measure(self) -> None:
        """Numeric gradients, the scale that each element's error is measured by, and the tolerance."""
        v = self.problem.cotangents
        with np.errstate(invalid="ignore", over="ignore"):
            self.numeric = v @ self.jacobian
            self.scale = np.abs(v) @ np.abs(self.jacobian)
        # What rounding of the outputs does to quotients: no rule can be held to less. It hides one unit in the last
        # place of an output that seems not to vary.
        finite = np.where(np.isfinite(self.at), np.abs(self.at), 0.0)
        self.noise = (np.abs(v) * finite) @ np.where(self.jacobian != 0, 1.0, 0.125) * noise_of(1.0, self.steps)
        # The sum of the magnitudes that make up an element is its scale, so that cancelling sums are judged by what
        # cancels. The absolute tolerance shrinks with the largest entry, so that tiny gradients do not pass by it.
        self.largest = float(np.max(self.scale, initial=0.0, where=np.isfinite(self.scale)))
        # It stands for what differences do not resolve, so a complex step does without.
        self.absolute = self.problem.atol * min(1.0, self.largest) if self.problem.scheme == "central5" else 0.0
        self.tolerance = self.problem.rtol * self.scale + self.absolute + self.noise

    def _misses(self) -> NDArray[np.bool_]:
        """Where the rule is off; an infinite scale is no excuse, and NaN never matches."""
        with np.errstate(invalid="ignore"):
            fits = np.abs(self.problem.gradients[self.argument] - self.numeric) <= self.tolerance
        off: NDArray[np.bool_] = np.logical_not(fits)
        for j, slopes in self.kinks.items():  # any convex combination of the two slopes is a subgradient
            v, analytic = self.problem.cotangents, self.problem.gradients[self.argument][:, j]
            ends = np.stack([v * slopes.left, v * slopes.right])
            low, high = ends.min(axis=0).sum(axis=1), ends.max(axis=0).sum(axis=1)
            off[:, j] = ~((low - self.tolerance[:, j] <= analytic) & (analytic <= high + self.tolerance[:, j]))
        off &= np.isfinite(self.numeric).all(axis=0)  # else check_nonfinite has passed it
        return off

    @property
    def is_vacuous(self) -> bool:
        """Whether no derivative stands out from the noise."""
        return not bool((self.scale > self.noise).any())

    def compare(self, columns: dict[int, Any]) -> tuple[float, float, int, int]:
        """Raise for a mismatch; otherwise return step, largest scaled error, and how many were compared and nonzero."""
        misses = self._misses()
        self._refuse_overflow(misses)
        hidden = np.abs(self.problem.gradients[self.argument] - self.numeric) <= self._inner_noise()
        if (misses & ~hidden).any():
            self._raise(misses, columns)
        if misses.any():
            raise self.problem.subject.unclear(
                "inconclusive", self.argument,
                f"rule and differences disagree, by less than rounding inside the forward may do to differences; the "
                f"derivatives are at most {self.largest:.1e}: "
                + (too_small(float(np.max(np.abs(self.problem.values[self.argument]))), float(self.steps.min())) or
                   "use inputs where they are larger"),
            )  # fmt: skip
        noise = float(np.max(self.noise, initial=0.0, where=np.isfinite(self.numeric)))
        if not self.is_vacuous and noise > 1e-3 * self.largest:
            raise self.problem.subject.unclear(
                "inconclusive", self.argument,
                f"the derivatives, at most {self.largest:.1e}, are near what rounding of the outputs does to "
                f"differences, {noise:.1e}: use inputs where the outputs are smaller",
            )  # fmt: skip
        nonzero = int((self.scale > self.noise).any(axis=0).sum())
        compared = int(np.isfinite(self.numeric).all(axis=0).sum())
        return float(self.steps.min()), float(self._scaled_errors().max()), compared, nonzero

    def _refuse_overflow(self, misses: NDArray[np.bool_]) -> None:
        """Say nothing of infinite gradients at numbers that are smaller than all steps, as of 1/x at 1e-300."""
        sizes = np.abs(np.asarray(self.problem.values[self.argument])).reshape(-1)
        endless = misses & ~np.isfinite(self.problem.gradients[self.argument])
        for j in np.flatnonzero(endless.any(axis=0)):
            if advice := too_small(float(sizes[j])):
                name = self.problem.subject.element(self.argument, self._index(int(j)))
                line = f"the gradient at {name} is infinite, and differences are not: {advice}"
                raise self.problem.subject.unclear("inconclusive", self.argument, line)

    def _inner_noise(self) -> NDArray[np.float64]:
        """What rounding of numbers of the input's size does to quotients, where the forward computes with such."""
        weights = np.sum(np.abs(self.problem.cotangents), axis=1, keepdims=True)
        inner: NDArray[np.float64] = weights * noise_of(self.reach, self.steps)
        return inner

    def _scaled_errors(self) -> NDArray[np.float64]:
        """Errors relative to what they are measured by: above rtol exactly where the tolerance is exceeded."""
        error = np.abs(self.problem.gradients[self.argument] - self.numeric)
        scaled = _ratio(error, self.tolerance / self.problem.rtol)
        scaled[:, list(self.kinks)] = 0.0
        return scaled

    def _raise(self, misses: NDArray[np.bool_], columns: dict[int, Any]) -> None:
        endless = np.argwhere(misses & ~np.isfinite(self.problem.gradients[self.argument]))
        if endless.size:
            raise not_finite(self.problem, self.argument, int(endless[0, 0]), int(endless[0, 1]))
        errors = np.where(misses, self._scaled_errors(), -1.0)
        row, j = np.unravel_index(int(np.argmax(errors)), errors.shape)
        analytic, numeric = self.problem.gradients[self.argument], self.numeric
        subject, index = self.problem.subject, self._index(int(j))
        wrong = misses.any(axis=0)
        order = np.argsort(-errors.max(axis=0), kind="stable")[: min(3, int(wrong.sum()))]
        places = ", ".join(join_axes(self._index(int(k))) for k in order)
        evidence = Evidence(
            analytic.reshape(-1, *self.shape), numeric.reshape(-1, *self.shape), wrong.reshape(self.shape),
            self._others(columns), [np.asarray(value) for value in self.problem.values],
            self.problem.shapes, self._from_mean_cotangent(), self._from_ones(),
        )  # fmt: skip
        raise subject.wrong(
            self.problem.kind, self.argument,
            f"worst element {subject.element(self.argument, index)}:  VJP {analytic[row, j]:.6g}   numeric "
            f"{numeric[row, j]:.6g}   scaled error {errors[row, j]:.1e} > {self.problem.rtol:.1e}",
            f"{int(wrong.sum())} of {wrong.size} elements differ; largest at {places}",
            suspect=suspect(evidence), step=float(self.steps[j]), index=index, analytic=float(analytic[row, j]),
            numeric=float(numeric[row, j]),
        )  # fmt: skip

    def _others(self, columns: dict[int, Any]) -> dict[str, NDArray[np.float64]]:
        """Numeric gradients of the other arguments, by name."""
        names = self.problem.subject.arguments
        return {
            names[i]: other.numeric.reshape(-1, *other.shape) for i, other in columns.items() if i != self.argument
        }

    def _from_mean_cotangent(self) -> NDArray[np.float64]:
        """Return what the gradients would be if a rule averaged its cotangent first."""
        v = self.problem.cotangents
        means = np.broadcast_to(v.mean(axis=1, keepdims=True), v.shape)
        averaged: NDArray[np.float64] = (means @ self.jacobian).reshape(-1, *self.shape)
        return averaged

    def _from_ones(self) -> NDArray[np.float64]:
        """Return what the gradients would be if a rule took every cotangent for ones."""
        ones = np.ones_like(self.problem.cotangents)
        ignored: NDArray[np.float64] = (ones @ self.jacobian).reshape(-1, *self.shape)
        return ignored

    def _index(self, j: int) -> tuple[int, ...]:
        return tuple(map(int, np.unravel_index(j, self.shape)))


class _Projections:
    """One argument of many elements, along random directions; a mismatch is then traced to an element by halving."""

    def __init__(self, problem: Problem, argument: int, at: Vector) -> None:
        self.problem, self.argument, self.at = problem, argument, at
        value = np.asarray(problem.values[argument])
        self.shape = value.shape
        reach = np.maximum(1.0, np.abs(np.where(np.isfinite(value), value, 1.0))).reshape(-1)
        rng = np.random.default_rng(problem.subject.seed)
        self.directions = rng.choice([-1.0, 1.0], size=(PROJECTIONS, value.size)) * reach
        self.rows = np.arange(PROJECTIONS) % len(problem.cotangents)
        self.left_out = 0  # a direction moves all elements
        self.steps = np.zeros(PROJECTIONS)
        self.numeric = np.zeros(PROJECTIONS)
        self.noise = np.zeros(PROJECTIONS)
        finite = np.where(np.isfinite(at), at, 0.0)
        for k, row in enumerate(self.rows):
            found = self._slope(self.directions[k], int(row))
            if found.verdict != "smooth" and problem.kinks != "subgradient":
                raise problem.subject.unclear(
                    "inconclusive", self.argument,
                    f"differences along a random direction do not settle ({found.verdict}, last step "
                    f"{found.slopes.step:.1e}): move inputs away from kinks, or check fewer of them, up to "
                    f"{COLUMNS_UP_TO} elements are varied one by one",
                )  # fmt: skip
            v, self.steps[k] = problem.cotangents[row], found.slopes.step
            self.numeric[k] = v @ found.slopes.central
            self.noise[k] = np.sum(noise_of(v * finite, self.steps[k]))

    def _slope(self, direction: Vector, row: int) -> Derivative:
        """Differentiate along a direction."""
        problem = self.problem
        line = line_along(problem.forward, problem.values, self.argument, direction.reshape(self.shape))
        return settle(line, self.at, STEP, problem.rtol, np.abs(problem.cotangents[row]))

    def _claimed(self, direction: Vector, row: int) -> float:
        return float(self.problem.gradients[self.argument][row] @ direction)

    @property
    def is_vacuous(self) -> bool:
        """Whether no derivative stands out from the noise."""
        return not bool((np.abs(self.numeric) > self.noise).any())

    def compare(self, columns: dict[int, Any]) -> tuple[float, float, int, int]:
        """Raise for a mismatch; otherwise return step, largest scaled error, and how many were compared and nonzero."""
        gradients = self.problem.gradients[self.argument][self.rows]
        # The scale of a sum with random signs is the root of the sum of squares: the sum of magnitudes grows faster
        # than the differences' own error, and one wrong element among thousands would pass by it.
        scale = np.maximum(np.linalg.norm(gradients * self.directions, axis=1), np.abs(self.numeric))
        claimed = np.sum(gradients * self.directions, axis=1)
        error = np.abs(claimed - self.numeric)
        tolerance = self.problem.rtol * scale + self.problem.atol * min(1.0, float(scale.max())) + self.noise
        scaled = _ratio(error, tolerance / self.problem.rtol)
        misses = ~(error <= tolerance)
        if misses.any():
            self._raise(int(np.argmax(np.where(misses, scaled, -1.0))), claimed, misses, scaled)
        nonzero = int((np.abs(self.numeric) > self.noise).sum())
        return float(self.steps.min()), float(scaled.max()), PROJECTIONS, nonzero

    def _raise(self, k: int, claimed: Vector, misses: NDArray[np.bool_], scaled: Vector) -> None:
        endless = np.argwhere(~np.isfinite(self.problem.gradients[self.argument]))
        if endless.size:
            raise not_finite(self.problem, self.argument, int(endless[0, 0]), int(endless[0, 1]))
        subject, row = self.problem.subject, int(self.rows[k])
        j = self._trace(self.directions[k], row)
        found = element_derivative(self.problem, self.argument, j, self.at, np.abs(self.problem.cotangents[row]))
        analytic = float(self.problem.gradients[self.argument][row, j])
        numeric = float(self.problem.cotangents[row] @ found.slopes.central)
        index = tuple(map(int, np.unravel_index(j, self.shape)))
        evidence = Evidence(claimed[misses][None], self.numeric[misses][None], misses[misses], {}, [], (), None, None)
        raise subject.wrong(
            self.problem.kind, self.argument,
            f"element {subject.element(self.argument, index)}, found by halving:  VJP {analytic:.6g}   numeric "
            f"{numeric:.6g}",
            f"{int(misses.sum())} of {PROJECTIONS} random directions differ; the worst by {scaled[k]:.1e} > "
            f"{self.problem.rtol:.1e} of its scale",
            suspect=suspect(evidence), step=float(self.steps[k]), index=index, analytic=analytic, numeric=numeric,
        )  # fmt: skip

    def _trace(self, direction: Vector, row: int) -> int:
        """Halve the set of moving elements, keeping the half with the larger mismatch, down to one."""
        among = np.arange(direction.size)
        while among.size > 1:
            misses = []
            for half in np.array_split(among, 2):
                part = np.zeros_like(direction)
                part[half] = direction[half]
                numeric = self.problem.cotangents[row] @ self._slope(part, row).slopes.central
                misses.append((abs(self._claimed(part, row) - float(numeric)), half))
            among = max(misses, key=lambda pair: pair[0])[1]
        return int(among[0])
