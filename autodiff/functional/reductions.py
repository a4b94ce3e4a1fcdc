"""Reductions: sum, mean, variance, standard deviation, largest and smallest element, logarithm of a sum.

A reduction of an array has one cotangent for each group of elements that was reduced together. Its rule spreads it over
the group: it puts the reduced axes back with length one, and lets broadcasting do the rest.
"""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import numpy as np

from ..node import TWINS, Array
from ..op import op, save
from ..protocols import to_array
from ._blocks import floating
from ._samples import REDUCTIONS, away, distinct
from ._scaling import exponents, is_moderate, narrow, scaled, wide

__all__ = ["amax", "amin", "logsumexp", "max", "mean", "min", "std", "sum", "var"]

Axis: TypeAlias = int | tuple[int, ...] | None


def kept_shape(shape: tuple[int, ...], axis: Axis) -> tuple[int, ...]:
    """Return the shape with the reduced axes left in, of length one."""
    if axis is None or not shape:
        return (1,) * len(shape)
    reduced = {number % len(shape) for number in (axis if isinstance(axis, tuple) else (axis,))}
    return tuple(1 if i in reduced else length for i, length in enumerate(shape))


def _count(shape: tuple[int, ...], axis: Axis) -> int:
    """Return how many elements are reduced to one."""
    kept = kept_shape(shape, axis)
    return math.prod(length for length, left in zip(shape, kept, strict=True) if left == 1)


def _spread(g: Array, shape: tuple[int, ...], axis: Axis) -> Array:
    """Give each element the cotangent of its group."""
    return np.broadcast_to(np.reshape(g, kept_shape(shape, axis)), shape)


def _away(rng: np.random.Generator) -> list[Any]:
    return [(away(rng, shape), settings) for shape, settings in REDUCTIONS]


def _distinct(rng: np.random.Generator) -> list[Any]:
    return [(*distinct(rng, shape), settings) for shape, settings in REDUCTIONS]


def _with_ddof(rng: np.random.Generator) -> list[Any]:
    several = [(shape, settings) for shape, settings in REDUCTIONS if _count(shape, settings.get("axis")) > 1]
    return [*_distinct(rng), *((*distinct(rng, shape), settings | {"ddof": 1}) for shape, settings in several)]


# --- sum and mean ---


@op(
    numpy=np.sum,
    linear=True,
    samples=lambda rng: [*_away(rng), (away(rng, (0, 3)), {"axis": 0}), (away(rng, (0, 3)), {})],
    error_samples=[((np.ones((2, 3)), {"axis": 2}), ValueError), ((np.ones((2, 3)), {"axis": (0, 0)}), ValueError)],
)
def sum(a: Array, *, axis: Axis = None, keepdims: bool = False) -> Array:
    """Sum over axes.

    Parameters
    ----------
    a : array
        Of any shape.
    axis : int, tuple of int or None
        Which axes to sum over; negative ones count from the end. None for all.
    keepdims : bool
        Leave the reduced axes in, with length one.

    Returns
    -------
    array

    Examples
    --------
    >>> import numpy as np
    >>> import autodiff.functional as F
    >>> F.sum(np.array([[1.0, 2.0], [3.0, 4.0]]), axis=0)
    array([4., 6.])
    """
    return save(np.sum(a, axis=axis, keepdims=keepdims), shape=np.shape(a))


@sum.vjp("a")
def _(g: Array, shape: tuple[int, ...], axis: Axis) -> Array:
    return _spread(g, shape, axis)  # dy = sum of the da


@op(numpy=np.mean, linear=True, samples=_away, error_samples=[((np.ones((2, 3)), {"axis": 2}), ValueError)])
def mean(a: Array, *, axis: Axis = None, keepdims: bool = False) -> Array:
    """Arithmetic mean over axes.

    Parameters
    ----------
    a : array
        Of any shape.
    axis : int, tuple of int or None
        Which axes to average over; negative ones count from the end. None for all.
    keepdims : bool
        Leave the reduced axes in, with length one.

    Returns
    -------
    array
        NaN (and NumPy's warning) for the mean of nothing.

    Examples
    --------
    >>> import autodiff as ad
    >>> import autodiff.functional as F
    >>> x = ad.Tensor([1.0, 2.0, 3.0, 6.0], requires_grad=True)
    >>> F.mean(x).backward()
    >>> x.grad
    array([0.25, 0.25, 0.25, 0.25])
    """
    return save(np.mean(a, axis=axis, keepdims=keepdims), shape=np.shape(a))


@mean.vjp("a")
def _(g: Array, shape: tuple[int, ...], axis: Axis) -> Array:
    # dy = 1/n times the sum of the da. (The count itself may be too large for float16.)
    return _spread(g * (1 / (_count(shape, axis) or 1)), shape, axis)


# --- variance and standard deviation ---


@op(numpy=np.var, samples=_with_ddof, error_samples=[((np.ones((2, 3)), {"axis": 2}), ValueError)])
def var(a: Array, *, axis: Axis = None, ddof: int = 0, keepdims: bool = False) -> Array:
    """Variance over axes: the mean square of the deviations from the mean.

    Parameters
    ----------
    a : array
        Of any shape.
    axis : int, tuple of int or None
        Over which axes; negative ones count from the end. None for all.
    ddof : int
        The sum of squares is divided by the number of elements minus this: 0 for the population's variance, 1 for the
        unbiased estimate from a sample.
    keepdims : bool
        Leave the reduced axes in, with length one.

    Returns
    -------
    array
        NaN or infinite (with NumPy's warning) where the divisor is not positive.

    Examples
    --------
    >>> import autodiff as ad
    >>> import autodiff.functional as F
    >>> x = ad.Tensor([1.0, 2.0, 6.0], requires_grad=True)
    >>> F.var(x, ddof=1).backward()
    >>> x.grad
    array([-2., -1.,  3.])
    """
    return _scaled_back(np.var, 2, a, axis, ddof, keepdims)


@var.vjp("a")
def _(g: Array, a: Array, axis: Axis, ddof: int) -> Array:
    # With the deviations d = a - mean(a), y = sum(d²)/(n - ddof), so dy = 2/(n - ddof) sum(d (da - mean(da))), where
    # mean(da) drops out, because sum(d) = 0.
    if a.size == 0:
        return 0 * a
    slope = _spread(wide(g) * (2 * _per_degree_of_freedom(a.shape, axis, ddof)), a.shape, axis)
    return narrow(slope * _deviations(wide(a), axis), a.dtype)


@op(numpy=np.std, samples=_with_ddof, error_samples=[((np.ones((2, 3)), {"axis": 2}), ValueError)])
def std(a: Array, *, axis: Axis = None, ddof: int = 0, keepdims: bool = False) -> Array:
    """Standard deviation over axes: the square root of the variance. Of equal numbers, its gradient is 0.

    Parameters
    ----------
    a : array
        Of any shape.
    axis : int, tuple of int or None
        Over which axes; negative ones count from the end. None for all.
    ddof : int
        The sum of squares is divided by the number of elements minus this.
    keepdims : bool
        Leave the reduced axes in, with length one.

    Returns
    -------
    array
        NaN or infinite (with NumPy's warning) where the divisor is not positive.

    Examples
    --------
    >>> import autodiff as ad
    >>> import autodiff.functional as F
    >>> x = ad.Tensor([[1.0, 3.0], [2.0, 2.0]], requires_grad=True)
    >>> F.std(x, axis=1).sum().backward()
    >>> x.grad
    array([[-0.5,  0.5],
           [ 0. ,  0. ]])
    """
    return _scaled_back(np.std, 1, a, axis, ddof, keepdims)


@std.vjp("a")
def _(g: Array, a: Array, out: Array, axis: Axis, ddof: int) -> Array:
    # y² = var, so dy = dvar/(2y) = 1/((n - ddof) y) sum(d da). At equal numbers y has the tip of a cone, with slopes of
    # both signs in every direction, of which 0 is the middle. Rounding may leave a y > 0 there: compare the numbers.
    # Without a degree of freedom there is no y. Scaling the numbers scales y and leaves dy/da the same: so is the slope
    # taken where their squares leave the range.
    if a.size == 0:
        return 0 * a
    kept, dtype, factor = kept_shape(a.shape, axis), a.dtype, _per_degree_of_freedom(a.shape, axis, ddof)
    if math.isnan(factor):
        return np.reshape(g, kept) * (math.nan * a)
    y: Array = np.reshape(out, kept)
    g, a = np.reshape(g, kept), wide(a)
    if dtype == np.float16 or not is_moderate(y):
        g, a = wide(g), scaled(a, -exponents(a, axis))
        y = std(a, axis=axis, ddof=ddof, keepdims=True)
    values = to_array(a)
    flat = np.max(values, axis=axis, keepdims=True) == np.min(values, axis=axis, keepdims=True)
    flat = flat | (y == 0)
    direction = _deviations(a, axis) / np.where(flat, 1.0, y)  # of moderate size, unlike g/y
    return narrow(g * (np.where(flat, 0.0, factor).astype(g.dtype) * direction), dtype)


def _scaled_back(measure: Any, degree: int, a: Array, axis: Axis, ddof: int, keepdims: bool) -> Array:
    """Take np.var (of degree 2) or np.std (1), again from scaled numbers where their squares leave the range."""
    a = np.asarray(a)
    if a.dtype.kind != "f" or _count(a.shape, axis) <= ddof:
        return measure(a, axis=axis, ddof=ddof, keepdims=keepdims)
    with np.errstate(over="ignore", invalid="ignore"):
        y = measure(wide(a), axis=axis, ddof=ddof, keepdims=keepdims)
    if not is_moderate(np.sqrt(y) if degree == 2 else y):
        shift = exponents(a, axis)
        y = measure(scaled(wide(a), -shift), axis=axis, ddof=ddof, keepdims=keepdims)
        y = np.ldexp(y, degree * np.reshape(shift, np.shape(y)))
    return narrow(y, a.dtype)


def _deviations(a: Array, axis: Axis) -> Array:
    return a - np.mean(a, axis=axis, keepdims=True)


def _per_degree_of_freedom(shape: tuple[int, ...], axis: Axis, ddof: int) -> float:
    degrees = _count(shape, axis) - ddof
    return 1 / degrees if degrees > 0 else math.nan


# --- largest and smallest ---


@op(numpy=np.max, samples=_distinct, error_samples=[((np.ones((0, 3)), {"axis": 0}), ValueError)])
def max(a: Array, *, axis: Axis = None, keepdims: bool = False) -> Array:
    """Largest element over axes. Elements that tie for it share the gradient evenly.

    Parameters
    ----------
    a : array
        Of any shape.
    axis : int, tuple of int or None
        Over which axes; negative ones count from the end. None for all.
    keepdims : bool
        Leave the reduced axes in, with length one.

    Returns
    -------
    array

    Raises
    ------
    ValueError
        If there is no element.

    Examples
    --------
    >>> import autodiff as ad
    >>> import autodiff.functional as F
    >>> x = ad.Tensor([1.0, 3.0, 3.0], requires_grad=True)
    >>> F.max(x).backward()
    >>> x.grad
    array([0. , 0.5, 0.5])
    """
    return np.max(a, axis=axis, keepdims=keepdims)


@max.vjp("a")
def _(g: Array, a: Array, out: Array, axis: Axis) -> Array:
    return _to_extreme(g, a, out, axis)


@op(numpy=np.min, samples=_distinct, error_samples=[((np.ones((0, 3)), {"axis": 0}), ValueError)])
def min(a: Array, *, axis: Axis = None, keepdims: bool = False) -> Array:
    """Smallest element over axes. Elements that tie for it share the gradient evenly.

    Parameters
    ----------
    a : array
        Of any shape.
    axis : int, tuple of int or None
        Over which axes; negative ones count from the end. None for all.
    keepdims : bool
        Leave the reduced axes in, with length one.

    Returns
    -------
    array

    Raises
    ------
    ValueError
        If there is no element.

    Examples
    --------
    >>> import numpy as np
    >>> import autodiff.functional as F
    >>> F.min(np.array([[1.0, 2.0], [4.0, 3.0]]), axis=1, keepdims=True)
    array([[1.],
           [3.]])
    """
    return np.min(a, axis=axis, keepdims=keepdims)


@min.vjp("a")
def _(g: Array, a: Array, out: Array, axis: Axis) -> Array:
    return _to_extreme(g, a, out, axis)


amax, amin = max, min  # NumPy's older names, for functions of their own
TWINS[np.amax], TWINS[np.amin] = TWINS[np.max], TWINS[np.min]


def _to_extreme(g: Array, a: Array, out: Array, axis: Axis) -> Array:
    # y is one of the elements, so dy = da_i. Where k of them tie, each weight 1/k is a subgradient, and no order among
    # equals decides.
    # If y is NaN, then because some are.
    kept = kept_shape(a.shape, axis)
    extreme = np.reshape(to_array(out), kept)
    chosen = to_array(a) == extreme
    if np.any(np.isnan(extreme)):
        chosen = chosen | (np.isnan(a) & np.isnan(extreme))
    return np.where(chosen, np.reshape(g, kept) * _even_share(chosen, axis, g.dtype), 0.0)


def _even_share(chosen: Any, axis: Axis, dtype: Any) -> Any:
    """Return 1/k for the k elements chosen of a group. They are counted as integers: float16 stops at 2048."""
    count = np.sum(chosen, axis=axis, keepdims=True)
    return (1 / np.maximum(count, 1)).astype(dtype)


# --- logarithm of a sum of exponentials ---


@op(samples=_away, error_samples=[((np.ones((2, 3)), {"axis": 2}), ValueError)])
def logsumexp(a: Array, *, axis: Axis = None, keepdims: bool = False) -> Array:
    """Logarithm of the sum of exponentials over axes, log(sum(exp(a))), of numbers of any size.

    The gradient is ``softmax(a)``. Where all elements are minus infinity, it is 0; where some are plus infinity, those
    share it evenly.

    Parameters
    ----------
    a : array
        Of any shape.
    axis : int, tuple of int or None
        Over which axes; negative ones count from the end. None for all.
    keepdims : bool
        Leave the reduced axes in, with length one.

    Returns
    -------
    array
        Minus infinity for a sum of nothing.

    Examples
    --------
    >>> import numpy as np
    >>> import autodiff as ad
    >>> import autodiff.functional as F
    >>> x = ad.Tensor([-np.inf, 1000.0, 1000.0], requires_grad=True)
    >>> y = F.logsumexp(x)
    >>> y.item()
    1000.69314718
    >>> y.backward()
    >>> x.grad
    array([0. , 0.5, 0.5])
    """
    # log(sum(exp(a))) = m + log(sum(exp(a - m))): with the largest element as m, no exponential exceeds 1.
    a = floating(a)
    m = np.max(a, axis=axis, keepdims=keepdims, initial=-np.inf)
    total = np.sum(_exponentials(wide(a), axis), axis=axis, keepdims=keepdims)
    with np.errstate(divide="ignore"):  # of a sum of nothing
        return narrow(np.log(total) + m, a.dtype)


@logsumexp.vjp("a")
def _(g: Array, a: Array, axis: Axis) -> Array:
    # dy = sum(exp(a) da)/sum(exp(a)): the weights are the softmax of a. (As exp(a - y) they would inherit the rounding
    # error of y, which is large where y is.) Where all exponentials are 0, so is every weight.
    e = _exponentials(wide(a), axis)
    total = np.sum(e, axis=axis, keepdims=True)
    return narrow(np.reshape(g, total.shape) * (e / np.where(total == 0, 1.0, total)), a.dtype)


def _exponentials(a: Array, axis: Axis) -> Array:
    """Return exp(a - m), m the largest element of each group: a constant for the derivative, since it cancels."""
    m = np.max(to_array(a), axis=axis, keepdims=True, initial=-np.inf)
    infinite = np.isinf(m)
    if np.any(infinite):  # inf - inf is NaN; the limit is 1 for the elements at plus infinity, and 0 for all others
        a = np.where(to_array(a) == np.inf, 0.0, np.where(infinite, -np.inf, a))
        m = np.where(infinite, 0.0, m)
    with np.errstate(over="ignore"):  # of a difference, to minus infinity
        return np.exp(a - m)
