"""Functions with kinks, elementwise: larger and smaller of two numbers, selection, limits.

Where two branches meet there is no derivative, but a gradient must be chosen; each docstring says which. It always lies
between the slopes on the two sides.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..node import TWINS, Array
from ..op import op
from ..protocols import refuse_out, to_array
from ._blocks import unboxed
from ._samples import PAIRS, SHAPES, away, distinct

__all__ = ["clip", "fmax", "fmin", "maximum", "minimum", "nan_to_num", "where"]


# --- selection ---


@op(
    numpy=np.maximum,
    samples=lambda rng: [*(distinct(rng, *shapes) for shapes in PAIRS), (*distinct(rng, (2, 3)), np.array([0, 1, 0]))],
)
def maximum(x1: Array, x2: Array) -> Array:
    """Larger of two numbers, elementwise. Where they are equal, each gets half of the gradient.

    Parameters
    ----------
    x1, x2 : array
        Of shapes that broadcast.

    Returns
    -------
    array of the broadcast shape
        NaN where one of the two is NaN, as in NumPy. That one gets the gradient.

    Examples
    --------
    >>> import autodiff as ad
    >>> import autodiff.functional as F
    >>> x = ad.Tensor([-1.0, 0.0, 1.0], requires_grad=True)
    >>> F.maximum(x, 0.0).sum().backward()
    >>> x.grad
    array([0. , 0.5, 1. ])
    """
    return np.maximum(x1, x2)


@maximum.vjp("x1")
def _(g: Array, x1: Array, x2: Array) -> Array:
    return _share(g, (x1 > x2) | np.isnan(x1), _tied(x1, x2))


@maximum.vjp("x2")
def _(g: Array, x1: Array, x2: Array) -> Array:
    return _share(g, (x2 > x1) | np.isnan(x2), _tied(x1, x2))


@op(
    numpy=np.minimum,
    samples=lambda rng: [*(distinct(rng, *shapes) for shapes in PAIRS), (np.array([0, 1, 0]), *distinct(rng, (2, 3)))],
)
def minimum(x1: Array, x2: Array) -> Array:
    """Smaller of two numbers, elementwise. Where they are equal, each gets half of the gradient.

    Parameters
    ----------
    x1, x2 : array
        Of shapes that broadcast.

    Returns
    -------
    array of the broadcast shape
        NaN where one of the two is NaN, as in NumPy. That one gets the gradient.

    Examples
    --------
    >>> import numpy as np
    >>> import autodiff.functional as F
    >>> F.minimum(np.array([-1.0, 0.5, 1.0]), 0.5)
    array([-1. ,  0.5,  0.5])
    """
    return np.minimum(x1, x2)


@minimum.vjp("x1")
def _(g: Array, x1: Array, x2: Array) -> Array:
    return _share(g, (x1 < x2) | np.isnan(x1), _tied(x1, x2))


@minimum.vjp("x2")
def _(g: Array, x1: Array, x2: Array) -> Array:
    return _share(g, (x2 < x1) | np.isnan(x2), _tied(x1, x2))


@op(numpy=np.fmax, samples=lambda rng: [distinct(rng, *shapes) for shapes in PAIRS])
def fmax(x1: Array, x2: Array) -> Array:
    """Larger of two numbers, elementwise, where NaN counts as missing. Equal numbers get half of the gradient each.

    Parameters
    ----------
    x1, x2 : array
        Of shapes that broadcast.

    Returns
    -------
    array of the broadcast shape
        NaN only where both are NaN. Next to a NaN the other number is the result and gets the gradient.

    Examples
    --------
    >>> import numpy as np
    >>> import autodiff.functional as F
    >>> F.fmax(np.array([-1.0, np.nan, 1.0]), 0.5)
    array([0.5, 0.5, 1. ])
    """
    return np.fmax(x1, x2)


@fmax.vjp("x1")
def _(g: Array, x1: Array, x2: Array) -> Array:
    return _share(g, (x1 > x2) | np.isnan(x2), _tied(x1, x2))


@fmax.vjp("x2")
def _(g: Array, x1: Array, x2: Array) -> Array:
    return _share(g, (x2 > x1) | np.isnan(x1), _tied(x1, x2))


@op(numpy=np.fmin, samples=lambda rng: [distinct(rng, *shapes) for shapes in PAIRS])
def fmin(x1: Array, x2: Array) -> Array:
    """Smaller of two numbers, elementwise, where NaN counts as missing. Equal numbers get half of the gradient each.

    Parameters
    ----------
    x1, x2 : array
        Of shapes that broadcast.

    Returns
    -------
    array of the broadcast shape
        NaN only where both are NaN. Next to a NaN the other number is the result and gets the gradient.

    Examples
    --------
    >>> import numpy as np
    >>> import autodiff.functional as F
    >>> F.fmin(np.array([-1.0, np.nan, 1.0]), 0.5)
    array([-1. ,  0.5,  0.5])
    """
    return np.fmin(x1, x2)


@fmin.vjp("x1")
def _(g: Array, x1: Array, x2: Array) -> Array:
    return _share(g, (x1 < x2) | np.isnan(x2), _tied(x1, x2))


@fmin.vjp("x2")
def _(g: Array, x1: Array, x2: Array) -> Array:
    return _share(g, (x2 < x1) | np.isnan(x1), _tied(x1, x2))


def _tied(x1: Array, x2: Array) -> Any:
    """Where neither is to be preferred: they are equal, or both missing."""
    return (x1 == x2) | (np.isnan(x1) & np.isnan(x2))


def _share(g: Array, chosen: Any, tied: Any) -> Array:
    """All of g where the argument was chosen, half where the two are equal (their slopes are 0 and 1), else 0."""
    return np.where(tied, 0.5 * g, np.where(chosen, g, 0.0))


@op(
    numpy=np.where,
    elementwise=True,
    linear=True,
    samples=lambda rng: [
        *((rng.random(a) < 0.5, away(rng, a), away(rng, b)) for a, b in PAIRS),
        *((rng.random(b) < 0.5, away(rng, a), away(rng, b)) for a, b in PAIRS),
        (rng.random((3, 3)) < 0.5, away(rng, (3,)), away(rng, (1, 3))),
        (np.array([1, 0, 2]), away(rng, (3,)), np.array([1, 2, 3])),
    ],
)
def where(condition: Array, x: Array, y: Array) -> Array:
    """Elements of x where a condition holds, elements of y elsewhere.

    The gradient goes to the element that was taken, and exactly zero to the other one. But both were computed, and
    behind the other one zero times an infinite slope is NaN: ``where(x > 0, sqrt(x), x)`` has the gradient NaN at
    x < 0. `safe_where` has the right one.

    Parameters
    ----------
    condition : boolean array
        Other numbers count as true if they are not 0. It has no gradient.
    x, y : array
        The three shapes broadcast.

    Returns
    -------
    array of the broadcast shape

    Examples
    --------
    >>> import autodiff as ad
    >>> import autodiff.functional as F
    >>> x = ad.Tensor([-2.0, 3.0], requires_grad=True)
    >>> F.where(x > 0, x, 0.1 * x).sum().backward()
    >>> x.grad
    array([0.1, 1. ])
    """
    if x is None or y is None:
        raise TypeError("where() takes an array or a number for both x and y, not None")
    return unboxed(np.asarray(np.where(condition, x, y)))


where.nondiff("condition")


@where.vjp("x")
def _(g: Array, condition: Array) -> Array:
    return np.where(condition, g, 0.0)


@where.vjp("y")
def _(g: Array, condition: Array) -> Array:
    return np.where(condition, 0.0, g)


@op(
    elementwise=True,
    samples=lambda rng: [
        *((distinct(rng, shape)[0], -0.5, 0.7) for shape in SHAPES),
        *(distinct(rng, *shapes) for shapes in PAIRS),
        *((x, None, limit) for x, limit in (distinct(rng, *shapes) for shapes in PAIRS)),
        (*distinct(rng, (3, 3), (3, 1)), 0.7),
        (*distinct(rng, (2, 3), (3,), (2, 1)),),
        (np.array([-1.0, 0.4, 2.0, 0.4]), np.array([-0.5, -0.5, -0.5, 1.5]), np.array([1.0, 1.0, 1.0, 0.8])),
        (distinct(rng, (2, 3))[0], np.array([-1, 0, 1]), 1),
        (distinct(rng, (2, 3))[0],),
    ],
)
def clip(a: Array, min: Array = None, max: Array = None) -> Array:
    """Numbers limited to an interval, elementwise: ``minimum(maximum(a, min), max)``.

    At the limits themselves the gradient passes to `a`. Outside it goes to the limit that took its place, if that is
    a tensor; where the limits cross (min > max) the result is max, which gets it.

    Parameters
    ----------
    a : array
        Of any shape.
    min, max : array, optional
        Smallest and largest value, of shapes that broadcast with `a`; None for no limit.

    Returns
    -------
    array of the broadcast shape

    Examples
    --------
    >>> import numpy as np
    >>> import autodiff as ad
    >>> import autodiff.functional as F
    >>> x = ad.Tensor(np.arange(6.0), requires_grad=True)
    >>> F.clip(x, 1, 4).sum().backward()
    >>> x.grad
    array([0., 1., 1., 1., 1., 0.])
    """
    if min is not None:
        a = np.maximum(a, min)
    if max is not None:
        return np.minimum(a, max)
    return np.positive(a) if min is None else a


# y is one of the three arguments, so dy is da, dmin or dmax. Which one, follows from the definition: max where it is
# passed or lies below min, else min where that is passed, else a. The cases exclude each other, so the weights add up
# to 1.


@clip.vjp("a")
def _(g: Array, a: Array, min: Array, max: Array) -> Array:
    inside: Any = True
    if min is not None:
        inside = ~(a < min)  # or NaN, which no limit replaces
    if max is not None:
        inside = inside & ~(a > max)
    return np.where(inside, g, 0.0)


@clip.vjp("min")
def _(g: Array, a: Array, min: Array, max: Array) -> Array:
    taken = a < min
    if max is not None:
        taken = taken & (min <= max)
    return np.where(taken, g, 0.0)


@clip.vjp("max")
def _(g: Array, a: Array, min: Array, max: Array) -> Array:
    taken = a > max
    if min is not None:
        taken = taken | (min > max)
    return np.where(taken, g, 0.0)


@op(
    numpy=np.nan_to_num,
    elementwise=True,
    samples=lambda rng: [
        *((away(rng, shape),) for shape in SHAPES),
        (away(rng, (2, 3)), {"nan": 1.0, "posinf": 2.0, "neginf": -2.0}),
    ],
)
def nan_to_num(x: Array, *, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None) -> Array:
    """Finite numbers as they are, others replaced, elementwise. What is replaced gets no gradient.

    Parameters
    ----------
    x : array
        Of any shape.
    nan : float
        What NaN becomes.
    posinf, neginf : float, optional
        What plus and minus infinity become: by default the largest and the smallest number of the dtype.

    Returns
    -------
    array of the same shape

    Examples
    --------
    >>> import numpy as np
    >>> import autodiff as ad
    >>> import autodiff.functional as F
    >>> x = ad.Tensor([1.0, np.nan, np.inf], requires_grad=True)
    >>> y = F.nan_to_num(x, posinf=9.0)
    >>> y.sum().backward()
    >>> y.tolist(), x.grad
    ([1.0, 0.0, 9.0], array([1., 0., 0.]))
    """
    return unboxed(np.asarray(np.nan_to_num(x, nan=nan, posinf=posinf, neginf=neginf)))


@nan_to_num.vjp("x")
def _(g: Array, x: Array) -> Array:
    return np.where(np.isfinite(x), g, 0.0)  # y = x, or a constant


def _numpy_clip(
    a: Array, a_min: Any = np._NoValue, a_max: Any = np._NoValue, out: Any = None, *, min: Array = None,
    max: Array = None, **settings: Any,
) -> Array:  # fmt: skip
    """``np.clip`` of a tensor, whose limits have two names each."""
    refuse_out("np.clip", out)
    if settings:
        raise TypeError(f"np.clip on a tensor takes its two limits, and no {next(iter(settings))}=...")
    if a_min is np._NoValue and a_max is np._NoValue:
        return clip(a, min, max)
    if min is not None or max is not None:
        raise TypeError("np.clip takes each limit once: as a_min or min, and as a_max or max")
    if a_min is np._NoValue or a_max is np._NoValue:
        raise TypeError("np.clip takes a_min and a_max together; of one limit alone, the other is None")
    return clip(a, a_min, a_max)


def _numpy_where(condition: Array, *branches: Array) -> Any:
    """``np.where`` of tensors: of a condition alone, the places where it holds."""
    if not branches:
        return np.where(to_array(condition))
    if len(branches) == 1:
        raise ValueError("np.where takes both x and y, or the condition alone")
    return where(condition, *branches)


TWINS[np.clip], TWINS[np.where] = _numpy_clip, _numpy_where
