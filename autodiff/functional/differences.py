"""Differences of neighbours: finite differences, slopes, and the area below points."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from ..node import Array
from ._twins import operand, twin

__all__ = ["diff", "ediff1d", "gradient", "trapezoid"]

Axes: TypeAlias = int | tuple[int, ...] | None


@twin("diff")
def diff(a: Array, n: int = 1, axis: int = -1, prepend: Array = None, append: Array = None) -> Array:
    """Differences of neighbours along an axis, n times.

    Parameters
    ----------
    a : array
        Of at least one axis.
    n : int
        How often.
    axis : int
        Along which axis.
    prepend, append : array, optional
        What to put before and behind `a` first: one number, or an array like `a` of any length along the axis.

    Returns
    -------
    array
        The axis is n shorter, but never shorter than 0.

    Raises
    ------
    ValueError
        If `n` is negative, or there is no axis.

    Examples
    --------
    >>> import autodiff as ad
    >>> import autodiff.functional as F
    >>> x = ad.Tensor([1.0, 4.0, 9.0], requires_grad=True)
    >>> y = F.diff(x)
    >>> y.sum().backward()
    >>> y.tolist(), x.grad
    ([3.0, 5.0], array([-1.,  0.,  1.]))
    """
    a = operand(a)
    if n < 0 or (n and not a.ndim):
        raise ValueError(f"diff takes n >= 0 differences along an axis; got n={n} and the shape {a.shape}")
    if n == 0:
        return a
    ends = [None if end is None else _like(operand(end), a, axis) for end in (prepend, append)]
    parts = [part for part in (ends[0], a, ends[1]) if part is not None]
    if len(parts) > 1:
        a = np.concatenate(parts, axis=axis)
    truths = a.dtype == bool  # whose difference is whether they differ
    a = a.astype(np.int8) if truths else a
    for _ in range(n):
        a = _cut(a, axis, 1, None) - _cut(a, axis, None, -1)
        a = np.abs(a) if truths else a
    return a.astype(bool) if truths else a


def _like(end: Array, a: Array, axis: int) -> Array:
    """Give one number the shape of `a`, but of length 1 along the axis."""
    if end.ndim:
        return end
    shape = list(a.shape)
    shape[normalize_axis_index(axis, a.ndim)] = 1
    return np.broadcast_to(end, tuple(shape))


def _cut(a: Array, axis: int, start: int | None, stop: int | None) -> Array:
    """Return the slice start:stop along an axis."""
    return a[(slice(None),) * normalize_axis_index(axis, a.ndim) + (slice(start, stop),)]


@twin("ediff1d")
def ediff1d(ary: Array, to_end: Array = None, to_begin: Array = None) -> Array:
    """Differences of neighbours among all elements in row-major order, with something put before and behind them.

    Examples
    --------
    >>> import numpy as np
    >>> import autodiff.functional as F
    >>> F.ediff1d(np.array([1.0, 4.0, 9.0]), to_end=0.0)
    array([3., 5., 0.])
    """
    inner = diff(np.ravel(operand(ary)))
    ends = [None if end is None else np.ravel(operand(end)).astype(inner.dtype) for end in (to_begin, to_end)]
    parts = [part for part in (ends[0], inner, ends[1]) if part is not None]
    return np.concatenate(parts) if len(parts) > 1 else inner


@twin("trapezoid")
def trapezoid(y: Array, x: Array = None, dx: Array = 1.0, axis: int = -1) -> Array:
    """Area below points joined by straight lines.

    Parameters
    ----------
    y : array
        The heights.
    x : array, optional
        Where they stand: one place for each along the axis, or an array of the shape of `y`.
    dx : float
        The distance from one to the next, without `x`.
    axis : int
        Along which axis.

    Returns
    -------
    array
        Without that axis.

    Examples
    --------
    >>> import autodiff as ad
    >>> import autodiff.functional as F
    >>> y = ad.Tensor([1.0, 2.0, 4.0], requires_grad=True)
    >>> F.trapezoid(y).backward()
    >>> y.grad
    array([0.5, 1. , 0.5])
    """
    y = operand(y)
    if x is None:
        width = dx
    elif (x := operand(x)).ndim == 1:
        width = np.reshape(diff(x), (-1,) + (1,) * (y.ndim - 1 - normalize_axis_index(axis, y.ndim)))
    else:
        width = diff(x, axis=axis)
    return np.sum(width * (_cut(y, axis, 1, None) + _cut(y, axis, None, -1)) / 2.0, axis=axis)


@twin("gradient")
def gradient(f: Array, *varargs: Array, axis: Axes = None, edge_order: int = 1) -> Array:
    """Slopes of a function that is known at points: differences of second order inside, one-sided ones at the edges.

    Parameters
    ----------
    f : array
        The values. (Its slopes are a linear map of it, which is what is differentiated.)
    *varargs : float or array
        The distances of the points: nothing for 1, one number for all axes, or for each axis a number or the positions
        along it.
    axis : int, tuple of int or None
        Along which axes; None for all.
    edge_order : {1, 2}
        How accurate the differences at the edges are.

    Returns
    -------
    array of the shape of f, or a tuple of one for each axis

    Raises
    ------
    ValueError
        If there are fewer than ``edge_order + 1`` points, the positions do not fit, or `edge_order` is another.
    TypeError
        If the number of distances is neither 0, 1, nor that of the axes.

    Examples
    --------
    >>> import autodiff as ad
    >>> import autodiff.functional as F
    >>> f = ad.Tensor([1.0, 2.0, 4.0, 7.0], requires_grad=True)
    >>> slopes = F.gradient(f)
    >>> slopes.tolist()
    [1.0, 1.5, 2.5, 3.0]
    >>> slopes[1].backward()
    >>> f.grad
    array([-0.5,  0. ,  0.5,  0. ])
    """
    f = operand(f)
    if f.dtype.kind != "f":
        f = f.astype(np.float64)
    axes = tuple(range(f.ndim)) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    if edge_order not in (1, 2):
        raise ValueError(f"gradient: edge_order must be 1 or 2, got {edge_order}")
    spacings = varargs * len(axes) if len(varargs) == 1 else varargs or (1.0,) * len(axes)
    if len(spacings) != len(axes) or (len(varargs) == 1 != len(axes) and np.ndim(varargs[0])):
        raise TypeError(f"gradient: distances for {len(varargs)} axes were given, but there are {len(axes)}")
    slopes = tuple(_slopes(f, spacing, along, edge_order) for spacing, along in zip(spacings, axes, strict=True))
    return slopes[0] if len(slopes) == 1 else slopes


def _slopes(f: Array, spacing: Array, axis: int, edge_order: int) -> Array:
    """Slopes along one axis: those of the parabola through three points, at the left, in the middle, at the right."""
    f = np.moveaxis(f, axis, -1)
    count = f.shape[-1]
    if count < edge_order + 1:
        raise ValueError(f"gradient: axis {axis} has {count} points, edge_order={edge_order} needs {edge_order + 1}")
    if np.ndim(spacing) > 1 or (np.ndim(spacing) and len(spacing) != count):
        raise ValueError(f"gradient: positions of shape {np.shape(spacing)} for the {count} points of axis {axis}")
    if np.ndim(spacing):
        places = operand(spacing)
        h = diff(places.astype(np.float64) if places.dtype.kind in "iu" else places)  # unsigned ones would wrap around
        h = h.astype(f.dtype) if h.dtype == bool else h
        left, right, ends = h[:-1], h[1:], (h[:1], h[-1:])
    else:
        h = left = right = spacing
        ends = (h, h)
    rise = (f[..., 1:] - f[..., :-1]) / h  # the slopes between neighbours, of which all others are made
    first, last = rise[..., :1], rise[..., -1:]
    parts: list[Any] = [first, last]
    if count > 2:
        bend = (rise[..., 1:] - rise[..., :-1]) / (left + right)
        if edge_order == 2:
            parts = [first - ends[0] * bend[..., :1], last + ends[1] * bend[..., -1:]]
        parts.insert(1, (right * rise[..., :-1] + left * rise[..., 1:]) / (left + right))
    slopes = np.moveaxis(np.concatenate(parts, axis=-1), -1, axis)
    return slopes if slopes.dtype == f.dtype else slopes.astype(f.dtype)
