"""Derivatives by finite differences, with an opinion on whether they can be trusted.

One line through the inputs is looked at from five points. They give the derivative to fourth order, and also the slopes
on either side to second order for nothing, so that a kink is seen instead of being averaged. Where the sides disagree,
or a point lies outside the function's domain, the step is made smaller until two steps agree; if none do, the answer is
that there is no answer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..arguments import arraylike

__all__ = [
    "STEP", "Derivative", "Forward", "Slopes", "Vector", "complex_slope", "differs_by_side", "element_line", "flat",
    "gap_of", "line_along", "noise_of", "numerical_jvp", "numerical_vjp", "outputs_of", "settle", "slopes_along",
    "step_for", "too_small",
]  # fmt: skip

Vector: TypeAlias = NDArray[np.float64]
Forward: TypeAlias = Callable[[Sequence[Any]], Vector]
"""A function of all arguments that gives every floating output, flattened into one fresh vector."""
Line: TypeAlias = Callable[[float], Vector]
"""The outputs at a signed distance along some direction."""

STEP = 5_057_837 * 2.0**-32
"""Relative step: close to 1e-3, where central differences of fourth order lose least to truncation and rounding
together. It has few digits, so that the points lie where they are said to lie. They are those of a prime, far from all
multiples of powers of 2 and 10: on a function that is rounded to such, or a wave of such a period, a step that is a
multiple would see a slope that is not there."""

SHRINK = 15 / 32
"""Factor from one step to the next, which shall agree: not one half, by which a number of grid cells can shrink too."""

TIMES = 36
"""Steps go down to 1e-15, where rounding has long drowned what is not next to a pole."""


class Slopes(NamedTuple):
    """The outputs' derivatives along a line: to fourth order, and from either side to second order."""

    central: Vector
    left: Vector
    right: Vector
    step: float


class Derivative(NamedTuple):
    """Slopes, and what they are worth: a derivative, two different one-sided ones, or neither."""

    slopes: Slopes
    verdict: Literal["smooth", "kink", "unsettled"]


def step_for(x: float) -> float:
    """Step at a coordinate: relative to large ones, and absolute at small ones, which may be zero."""
    return STEP * 2.0 ** math.floor(math.log2(abs(x))) if 1.0 < abs(x) < math.inf else STEP


def too_small(size: float, step: float = STEP * SHRINK**TIMES) -> str:
    """Say so where an element, or the largest, is smaller than every step that was made; by default than any step."""
    if not 0 < size < step:
        return ""
    return (
        f"steps of differences are made for numbers near one, and end at 1e-15, while this is {size:.1e}: rescale the "
        f"samples"
    )


def slopes_along(line: Line, at: Vector, h: float) -> Slopes:
    """Evaluate a line at -2h, -h, h and 2h around the point whose outputs are given."""
    a, b, c, d = line(-2 * h) - at, line(-h) - at, line(h) - at, line(2 * h) - at
    # Taylor: f(kh) - f(0) = kh f' + (kh)^2/2 f'' + ...; each combination cancels what it can
    central = (8 * (c - b) - (d - a)) / (12 * h)
    right = (4 * c - d) / (2 * h)
    left = (a - 4 * b) / (2 * h)
    return Slopes(central, left, right, h)


def noise_of(numbers: Any, h: Any) -> Any:
    """What rounding can do to a quotient of the numbers' differences: a few units in the last place, over the step."""
    eps = float(np.finfo(np.float64).eps)
    return 8 * eps * np.abs(numbers) / h


def differs_by_side(slopes: Slopes, noise: Any) -> NDArray[np.bool_]:
    """Tell for each output whether its slopes on the two sides differ so much that a closer look is needed.

    For a smooth function the two agree up to h^3/2 times the fourth derivative, since their terms of second order are
    equal; a thousandth is far above that, except where the first derivative vanishes. A millionth of the steepest one
    counts as nothing. Rounding weighs three times as much as in the central slope: its coefficients add up to 5 here,
    to 3/2 there.
    """
    size = np.maximum(np.abs(slopes.left), np.abs(slopes.right))
    steepest = np.max(size, axis=0, initial=0.0, where=np.isfinite(size))
    differs: NDArray[np.bool_] = gap_of(slopes) > 1e-3 * size + 1e-6 * steepest + 3 * noise
    return differs


def settle(line: Line, at: Vector, h: float, rtol: float, weights: Any = 1.0) -> Derivative:
    """Make the step smaller, from h on, until two steps agree, and the two sides with each other.

    Weights say what each output matters: the sum of them is what has to agree, to a tenth of the tolerance that the
    derivative will be used with.

    The forward is taken to round numbers of the size of its outputs, of the input, and of one: 1 + erf(-6) is a small
    difference of large numbers, and has steps.
    """

    def total(values: Vector) -> float:
        return float(np.sum(weights * np.abs(values)))

    size = np.maximum(np.where(np.isfinite(at), np.abs(at), 0.0), h / STEP)
    first, apart = h, False
    with np.errstate(all="ignore"):  # points outside the domain are expected, and give NaN
        before = slopes_along(line, at, h)
        seen = [before]
        for _ in range(TIMES):
            h *= SHRINK
            now = slopes_along(line, at, h)
            seen.append(now)
            noise = np.where(now.central != 0, noise_of(size, h), 0.0)
            agree = total(now.central - before.central) <= 0.1 * rtol * total(now.central) + total(noise)
            if agree and _sides_meet(before, now, noise):
                return Derivative(now, "smooth")
            # A kink at the point is there at every step; one beside it, or a bend, only at larger ones.
            apart = _sides_stay_apart(before, now, noise)
            drowned = total(noise_of(size, h)) > 1e-4 * total(gap_of(now))
            if drowned if apart else total(noise) > 1e-3 * total(now.central):
                break  # smaller steps show nothing but rounding
            before = now
        if _vanish(seen):
            none = np.zeros_like(at)
            return Derivative(Slopes(none, none, none, first), "smooth")
        beside = [np.abs(line(2 * side) - line(side)) / first for side in (-first, first)]
        nearby = total(np.nan_to_num(np.maximum(*beside), posinf=0.0))
        if apart:  # x |x| at 1e-9 looks like a kink where rounding ends the search; the slope beside it says otherwise
            apart = total(gap_of(now)) > 1e-4 * nearby
        # x |x| at 0 is as smooth as a derivative needs: its one-sided slopes are equal, and the central one, to which
        # the second derivative's jump adds a share in proportion to the step, tends to them.
        middle = (now.left + now.right) / 2
        if total(gap_of(now)) <= 1e-6 * nearby and total(now.central - middle) <= 2 * now.step / first * nearby:
            return Derivative(Slopes(middle, now.left, now.right, now.step), "smooth")
    return Derivative(now, "kink" if apart else "unsettled")


def gap_of(slopes: Slopes) -> Vector:
    """How far the slopes on the two sides are apart, for each output."""
    return np.abs(slopes.right - slopes.left)


def _sides_meet(before: Slopes, now: Slopes, noise: Vector) -> bool:
    """Whether the slopes on both sides are one, or become one: the next step leaves a tenth of curvature's share."""
    return bool(np.all(~differs_by_side(now, noise) | (gap_of(now) <= 0.3 * gap_of(before))))


def _sides_stay_apart(before: Slopes, now: Slopes, noise: Vector) -> bool:
    """Whether each side has a slope of its own.

    The next step changes neither of them, while it would shrink what curvature puts between them, and enlarge what
    rounding does.
    """
    change = np.maximum(np.abs(now.left - before.left), np.abs(now.right - before.right))
    return bool((differs_by_side(now, noise) & (change <= 0.02 * gap_of(now))).any())


def _vanish(seen: Sequence[Slopes]) -> bool:
    """Whether the slopes on either side shrink by one factor from step to step, as those of |x|^1.2 at 0 do: to none.

    A slope that is left would show in the factors.
    """
    sides = np.abs([[slopes.left, slopes.right] for slopes in seen[-6:]])
    factors = sides[1:] / sides[:-1]
    steady = (factors < 0.99) & (np.abs(factors - factors[-1]) <= 1e-3 * factors[-1])
    return len(sides) == 6 and bool((steady.all(axis=0) | ~sides.any(axis=0)).all())


# --- lines through the inputs ---


def element_line(forward: Forward, values: Sequence[Any], argument: int, j: int) -> Line:
    """Vary one element of one argument, by its flat index; each point is a fresh copy, in the original's layout."""
    base, moved = np.asarray(values[argument]), list(values)
    index = np.unravel_index(j, base.shape)
    x = base[index]

    def line(t: float) -> Vector:
        fresh = np.array(base, order="K")
        fresh[index] = x + t
        moved[argument] = fresh[()]
        return forward(moved)

    return line


def line_along(forward: Forward, values: Sequence[Any], argument: int, direction: Any) -> Line:
    """Vary one argument along a direction of its shape."""

    def line(t: float) -> Vector:
        moved = list(values)
        moved[argument] = (np.asarray(values[argument]) + t * direction)[()]
        return forward(moved)

    return line


def complex_slope(
    forward: Callable[[Sequence[Any]], NDArray[Any]], values: Sequence[Any], argument: int, j: int
) -> Vector:
    """Derivative with respect to one element from one evaluation off the real axis, exact to rounding.

    For an analytic function f(x + ih) = f(x) + ih f'(x) + O(h^2): nothing is subtracted, so h can be tiny.
    """
    h = 1e-20
    moved = list(values)
    point = np.array(values[argument], dtype=np.complex128)
    point[np.unravel_index(j, point.shape)] += 1j * h
    moved[argument] = point
    outputs = forward(moved)
    if outputs.dtype.kind != "c":
        raise TypeError("it gives real numbers for complex ones")
    return np.imag(outputs) / h


# --- by hand ---


def flat(outputs: Any) -> NDArray[Any]:
    """Join the floating outputs of a call into one fresh vector; a copy, since an output may be a view of an input."""
    if type(outputs) is not tuple and type(outputs) is not list:
        return np.array(outputs).reshape(-1)
    parts = [np.asarray(part).reshape(-1) for part in outputs if np.asarray(part).dtype.kind in "fc"]
    return np.concatenate(parts) if parts else np.zeros(0)


def outputs_of(function: Callable[..., Any], settings: Mapping[str, Any], values: Sequence[Any]) -> NDArray[Any]:
    """Call a function; return its floating outputs as one vector."""
    return flat(function(*values, **settings))


def _flat_cotangent(cotangent: Any, outputs: Any) -> Vector:
    """Flatten a cotangent, or a sequence of them for several outputs, and check it against the outputs."""
    several = type(outputs) is tuple or type(outputs) is list
    cotangent = arraylike("the cotangent", cotangent)
    outs = [np.shape(out) for out in (outputs if several else [outputs])]
    given = [np.shape(part) for part in (cotangent if several else [cotangent])]
    if outs != given:
        raise ValueError(f"the cotangent has the shape {given}, the output {outs}; they must be equal")
    parts = zip(cotangent, outputs, strict=True) if several else [(cotangent, outputs)]
    floating = [np.asarray(g, float) for g, out in parts if not several or np.asarray(out).dtype.kind in "fc"]
    return np.asarray(flat(tuple(floating)), float)


def numerical_vjp(f: Callable[..., Any], args: Sequence[ArrayLike], cotangent: Any, argnum: int = 0) -> NDArray[Any]:
    """Compute the vector-Jacobian product of a function of plain arrays by central differences.

    Parameters
    ----------
    f : callable
        Takes arrays (an op does), returns an array or a tuple of them. Settings can be bound with `functools.partial`.
    args : sequence of array_like
        Where to differentiate.
    cotangent : array_like, or sequence of them
        What flows in, of the output's shape.
    argnum : int
        With respect to which argument.

    Returns
    -------
    ndarray
        Float64, of that argument's shape. An element whose derivative does not exist (a kink, a point outside the
        domain next to it) is NaN.

    Examples
    --------
    >>> import numpy as np
    >>> from autodiff.testing import numerical_vjp
    >>> numerical_vjp(np.multiply, [[1.0, 2.0], [3.0, 4.0]], [1.0, 10.0]).round(6)
    array([ 3., 40.])
    """
    values = _floats(args, argnum)
    v = _flat_cotangent(cotangent, f(*values))
    x = np.asarray(values[argnum])

    def forward(moved: Sequence[Any]) -> Vector:
        return flat(f(*moved))

    at = forward(values)
    gradient = np.empty(x.size)
    for j in range(x.size):
        line = element_line(forward, values, argnum, j)
        found = settle(line, at, step_for(float(x.flat[j])), 1e-9)
        gradient[j] = v @ found.slopes.central if found.verdict == "smooth" else np.nan
    return gradient.reshape(x.shape)


def numerical_jvp(
    f: Callable[..., Any], args: Sequence[ArrayLike], tangent: ArrayLike, argnum: int = 0
) -> NDArray[Any]:
    """Compute the Jacobian-vector product of a function of plain arrays by central differences.

    Parameters
    ----------
    f : callable
        Takes arrays (an op does), returns one array.
    args : sequence of array_like
        Where to differentiate.
    tangent : array_like
        The direction in which the argument moves, of its shape.
    argnum : int
        Which argument moves.

    Returns
    -------
    ndarray
        Float64, of the output's shape; NaN throughout if the derivative does not exist.

    Examples
    --------
    >>> import numpy as np
    >>> from autodiff.testing import numerical_jvp
    >>> numerical_jvp(np.multiply, [[1.0, 2.0], [3.0, 4.0]], [1.0, 10.0]).round(6)
    array([ 3., 40.])
    """
    values = _floats(args, argnum)
    direction = np.asarray(arraylike("the tangent", tangent), float)
    if direction.shape != np.shape(values[argnum]):
        raise ValueError(
            f"the tangent has the shape {direction.shape}, argument {argnum} has {np.shape(values[argnum])}"
        )

    def forward(moved: Sequence[Any]) -> Vector:
        return flat(f(*moved))

    at = forward(values)
    # A step that is small for 1e150 is not for 1: elements of different size move one group after the other.
    steps = np.vectorize(step_for, otypes=[float])(values[argnum])
    groups = np.where(direction != 0, np.floor(np.log2(steps / STEP) / 10), -1)
    slope = np.zeros(at.shape)
    for group in np.unique(groups[groups >= 0]):
        moving = np.where(groups == group, direction, 0.0)
        step = float(np.min(steps[groups == group])) / float(np.max(np.abs(moving)))
        found = settle(line_along(forward, values, argnum, moving), at, step, 1e-9)
        slope += found.slopes.central if found.verdict == "smooth" else np.nan
    return slope.reshape(np.shape(f(*values)))


def _floats(args: Sequence[ArrayLike], argnum: int) -> list[Any]:
    """Copy the arguments; floating ones, and the one to differentiate, in double precision."""
    arrays = [np.array(arraylike(f"argument {i}", arg)) for i, arg in enumerate(args)]
    floating = [array.dtype.kind == "f" or i == argnum % len(arrays) for i, array in enumerate(arrays)]
    return [(x.astype(float) if is_float else x)[()] for x, is_float in zip(arrays, floating, strict=True)]
