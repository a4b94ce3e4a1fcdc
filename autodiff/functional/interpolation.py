"""Piecewise functions: a choice among arrays, and straight lines between given points."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..arguments import arraylike, reals
from ..node import Array
from ..protocols import to_array
from ._twins import operand, operands, twin
from .selection import clip, where

__all__ = ["interp", "select"]


@twin("select")
def select(condlist: Sequence[Any], choicelist: Sequence[Array], default: Array = 0) -> Array:
    """For each element, that of the array whose condition is the first to hold.

    The gradient goes to the element that was taken. As with `where`, an array that was not taken must have finite
    slopes there.

    Parameters
    ----------
    condlist : sequence of boolean array
        The conditions, which are constants.
    choicelist : sequence of array
        As many arrays. All shapes broadcast.
    default : array
        Where no condition holds.

    Returns
    -------
    array of the broadcast shape

    Raises
    ------
    ValueError
        If there are no conditions, or as many arrays.
    TypeError
        If a condition is not boolean.

    Examples
    --------
    >>> import autodiff as ad
    >>> import autodiff.functional as F
    >>> x = ad.Tensor([-2.0, 0.5, 3.0], requires_grad=True)
    >>> y = F.select([x < 0, x > 1], [-x, 2 * x], x**2)
    >>> y.tolist()
    [2.0, 0.25, 6.0]
    >>> y.sum().backward()
    >>> x.grad
    array([-1.,  1.,  2.])
    """
    if len(condlist) != len(choicelist) or not len(condlist):
        raise ValueError(
            f"select takes as many arrays as conditions, and at least one; got {len(choicelist)} for {len(condlist)}"
        )
    conditions = [np.asarray(arraylike("select()", to_array(condition))) for condition in condlist]
    for i, condition in enumerate(conditions):
        if condition.dtype.kind != "b":
            raise TypeError(f"select: condlist[{i}] must be boolean, not {condition.dtype}")
    *choices, result = operands(*choicelist, default)
    for condition, choice in zip(reversed(conditions), reversed(choices), strict=True):
        result = where(condition, choice, result)
    return result


@twin("interp")
def interp(
    x: Array, xp: Array, fp: Array, left: Array = None, right: Array = None, period: float | None = None
) -> Array:
    """Function of straight lines between points, evaluated elementwise.

    Parameters
    ----------
    x : array
        Where to evaluate it; of any shape.
    xp : array of shape (n,)
        Where the points are, in ascending order (in any order for a periodic function).
    fp : array of shape (n,)
        The values there.
    left, right : float or array, optional
        Value before the first point and behind the last one; by default that of the point.
    period : float, optional
        Makes the function periodic; `left` and `right` are then of no importance.

    Returns
    -------
    array of the shape of x
        In the precision of the arguments. (NumPy's result for arrays is always in double precision.)

    Raises
    ------
    ValueError
        If `xp` and `fp` are not of one axis with equal, positive lengths, or the period is 0.

    Notes
    -----
    All of `x`, `xp` and `fp` are differentiable. At a point, where the slopes on the two sides differ, the gradient of
    `x` is that of the line behind it; at the last one, of the line before it. Beyond the points it is 0.

    Examples
    --------
    >>> import autodiff as ad
    >>> import autodiff.functional as F
    >>> x = ad.Tensor([0.5, 1.0, 9.0], requires_grad=True)
    >>> fp = ad.Tensor([0.0, 2.0, 8.0], requires_grad=True)
    >>> y = F.interp(x, [0.0, 1.0, 2.0], fp)
    >>> y.tolist()
    [1.0, 2.0, 8.0]
    >>> y.sum().backward()
    >>> x.grad, fp.grad
    (array([2., 6., 0.]), array([0.5, 1.5, 1. ]))
    """
    x, xp, fp = (_floating(array) for array in (x, xp, fp))
    if xp.ndim != 1 or xp.shape != fp.shape or not xp.size:
        raise ValueError(f"interp: xp and fp must have one axis, of equal lengths n > 0, not {xp.shape} and {fp.shape}")
    if period is not None:
        x, xp, fp = _periodic(x, xp, fp, abs(float(reals("interp: period=", period))))
        left = right = None
    knots, at = to_array(xp), to_array(x)
    first = np.clip(np.searchsorted(knots, at, side="right") - 1, 0, max(len(knots) - 2, 0))
    second = np.minimum(first + 1, len(knots) - 1)
    # beyond the points the function is constant: x is held at the end
    start, width = xp[first], xp[second] - xp[first]
    empty = to_array(width) == 0  # one point, or two in one place at the end: a step
    share = np.where(empty, 1.0, (clip(x, xp[0], xp[-1]) - start) / np.where(empty, 1.0, width))
    nearer = to_array(share) >= 0.5  # start from the nearer point, so that both ends are exact
    share = np.where(nearer, share - 1, share)
    result = fp[np.where(nearer, second, first)] + share * (fp[second] - fp[first])
    if left is not None:
        result = where(at < knots[0], left, result)
    return result if right is None else where(at > knots[-1], right, result)


def _floating(x: Array) -> Array:
    x = operand(x)
    return x if x.dtype.kind == "f" else x.astype(np.float64)


def _periodic(x: Array, xp: Array, fp: Array, period: float) -> tuple[Array, Array, Array]:
    """Bring all positions into one period, in order, and repeat a point at either end."""
    if period == 0:
        raise ValueError("interp: the period must not be 0")
    x, xp = (t - (to_array(t) - to_array(t) % period) for t in (x, xp))
    order = np.argsort(to_array(xp), kind="stable")
    xp, fp = xp[order], fp[order]
    xp = np.concatenate([xp[-1:] - period, xp, xp[:1] + period])
    return x, xp, np.concatenate([fp[-1:], fp, fp[:1]])
