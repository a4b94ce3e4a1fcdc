"""Replacing elements without writing to an array: functional assignment, and a choice that is safe to differentiate."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..arguments import arraylike
from ..node import Array
from ..op import op, save
from ..protocols import to_array, to_index
from .indexing import getitem, may_repeat, places_of

__all__ = ["safe_where", "set_at"]


@op(
    linear=True,
    samples=lambda rng: [
        (rng.normal(size=(3, 3)), rng.normal(size=3), {"index": 1}),
        (rng.normal(size=(2, 3)), rng.normal(size=2), {"index": (..., -1)}),
        (rng.normal(size=(4, 2)), rng.normal(size=(3, 2)), {"index": [3, 0, 1]}),
        (rng.normal(size=(2, 2)), rng.normal(size=3), {"index": np.array([[True, True], [False, True]])}),
        (rng.normal(size=(3, 4)), rng.normal(size=(2, 2)), {"index": ([0, 1], slice(1, 3))}),
        (rng.normal(size=()), rng.normal(size=()), {"index": ()}),
        (rng.normal(size=1), rng.normal(size=()), {"index": 0}),
        (rng.normal(size=(2, 0)), rng.normal(size=0), {"index": 1}),
        (rng.normal(size=(2, 3)), np.array([1, 2, 3]), {"index": 0}),
    ],
    error_samples=[
        ((np.ones(3), np.ones(2), {"index": [1, 1]}), ValueError),
        ((np.ones(3), np.ones(2), {"index": [0, -3]}), ValueError),
        ((np.ones(3), np.ones(2), {"index": 0}), ValueError),
        ((np.ones(3, int), np.array(0.5), {"index": 0}), TypeError),
        ((np.ones(3), np.array(0.5), {"index": 3}), IndexError),
    ],
)
def assign(x: Array, value: Array, *, index: Any) -> Array:
    """Copy of x in which x[index] is the value: the op behind `set_at`."""
    out = np.array(x)
    if np.shape(value) != (picked := _picked_shape(index, out.shape)):
        raise ValueError(f"set_at: a value of shape {np.shape(value)} does not fit x[index], of shape {picked}")
    if not np.can_cast(np.result_type(out.dtype, value), out.dtype, "same_kind"):
        raise TypeError(
            f"set_at: x of dtype {out.dtype} cannot hold a value of dtype {np.result_type(value)}; convert x first"
        )
    if may_repeat(index):
        _check_distinct(index, out.shape)
    out[index] = value
    return save(out, picked=picked)


@assign.vjp("x")
def _(g: Array, index: Any, picked: tuple[int, ...]) -> Array:
    # y = x outside of the index: what was there is overwritten, so its gradient is zero
    return assign(g, np.zeros(picked, g.dtype), index=index)


@assign.vjp("value")
def _(g: Array, index: Any) -> Array:
    # y[index] = value
    return getitem(g, index=index)


def set_at(x: Array, index: Any, value: Array) -> Array:
    """Copy of an array in which some elements are replaced: ``x[index] = value`` as a function.

    Parameters
    ----------
    x : array
        Of any shape.
    index : int, slice, None, Ellipsis, integer or boolean array, or a tuple of them
        Which elements, each at most once.
    value : array
        Broadcasts to the shape of ``x[index]``.

    Returns
    -------
    array of the shape and dtype of x
        The gradient of `x` is zero where it was overwritten; that of `value` is what arrives there.

    Raises
    ------
    ValueError
        If the value does not fit, or a position is named more than once (which value would stay is not defined).
    TypeError
        If the dtype of `x` cannot hold the value: floats in an integer array.
    IndexError
        If a position does not exist.

    Examples
    --------
    >>> import autodiff as ad
    >>> import autodiff.functional as F
    >>> x = ad.Tensor([1.0, 2.0, 3.0], requires_grad=True)
    >>> v = ad.Tensor(9.0, requires_grad=True)
    >>> y = F.set_at(x, slice(1, None), v)
    >>> y.tolist()
    [1.0, 9.0, 9.0]
    >>> y.sum().backward()
    >>> x.grad, v.grad
    (array([1., 0., 0.]), array(2.))
    """
    index, value = to_index(index), arraylike("set_at()", value)
    given, target = np.shape(value), _picked_shape(index, np.shape(x))
    if given != target and _fits(given, target):
        value = np.broadcast_to(value, target)  # recorded, so that its rule sums the gradient back
    return assign(x, value, index=index)


def safe_where(cond: Array, f: Callable[[Array], Array], x: Array, otherwise: Array) -> Array:
    """``f(x)`` where a condition holds, something else where not, with `f` never applied to the x of those places.

    In ``np.where(x > 0, np.sqrt(x), x)`` the root of negative numbers is computed too. Its value is not selected, but
    its derivative is NaN, and zero times NaN is NaN. Here `f` is given a harmless number in these places instead.

    Parameters
    ----------
    cond : boolean array
        Where to use ``f(x)``. Broadcasts with `x`.
    f : callable
        Takes an array and returns one of the same shape, element by element.
    x : array
        Its argument.
    otherwise : array
        The result where `cond` is false. Broadcasts. For another function there, nest a second `safe_where`.

    Returns
    -------
    array

    Raises
    ------
    ValueError
        If `f` changes the shape.

    Notes
    -----
    The harmless number is the first element of `x` for which the condition holds, and 1 if there is none: `f` is
    applied to it anyway. Other tensors that `f` uses meet it too.

    Examples
    --------
    >>> import numpy as np
    >>> import autodiff as ad
    >>> import autodiff.functional as F
    >>> x = ad.Tensor([-1.0, 4.0], requires_grad=True)
    >>> y = F.safe_where(x > 0, np.sqrt, x, x)
    >>> y.tolist()
    [-1.0, 2.0]
    >>> y.sum().backward()
    >>> x.grad
    array([1.  , 0.25])
    """
    cond = np.asarray(arraylike("safe_where()", to_array(cond)), bool)
    holds, values = np.broadcast_arrays(cond, to_array(x))
    harmless = values[np.unravel_index(np.argmax(holds), holds.shape)] if holds.any() else 1
    inside = np.where(cond, x, harmless)
    y = f(inside)
    if np.shape(y) != np.shape(inside):
        raise ValueError(f"safe_where: f must keep the shape; it turned {np.shape(inside)} into {np.shape(y)}")
    return np.where(cond, y, otherwise)


def _picked_shape(index: Any, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Shape of ``x[index]`` for an x of a given shape."""
    return np.shape(np.broadcast_to(False, shape)[index])


def _fits(shape: tuple[int, ...], target: tuple[int, ...]) -> bool:
    """Whether a shape broadcasts to another."""
    return len(shape) <= len(target) and all(a in (1, b) for a, b in zip(shape[::-1], target[::-1], strict=False))


def _check_distinct(index: Any, shape: tuple[int, ...]) -> None:
    """Refuse an index that names an element more than once."""
    places, lead = places_of(index, shape)
    distinct, first = np.unique(places, return_index=True)
    if distinct.size < places.size:
        again = np.ones(places.size, bool)
        again[first] = False
        position = np.unravel_index(places.ravel()[np.argmax(again)], shape[:lead])
        raise ValueError(
            f"set_at: the index names x[{', '.join(map(str, position))}] more than once, so which value stays there is "
            f"not defined; name each position once, or add values up with F.scatter_add"
        )
