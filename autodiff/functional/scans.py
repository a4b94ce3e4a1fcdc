"""Running sums and products, and the product over axes, whose derivation is one of running products."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from ..node import Array
from ..op import op, save
from ..protocols import to_array
from ._samples import REDUCTIONS, away
from ._scaling import narrow, wide
from ._twins import operand, twin

__all__ = ["cumprod", "cumsum", "cumulative_prod", "cumulative_sum", "prod"]


def _running(rng: np.random.Generator) -> list[Any]:
    return [
        (away(rng, (4,)),),
        (away(rng, ()),),
        (away(rng, (1,)), {"axis": 0}),
        (away(rng, (2, 3)),),
        (away(rng, (3, 3)), {"axis": 0}),
        (away(rng, (3, 3)), {"axis": -1}),
        (away(rng, (2, 5, 2)), {"axis": -2}),
        (away(rng, (2, 0)), {"axis": 0}),
        (away(rng, (2, 0)), {"axis": 1}),
    ]


def _running_with_zeros(rng: np.random.Generator) -> list[Any]:
    zeros = away(rng, (3, 5)) * [[0, 1, 1, 1, 1], [1, 0, 1, 0, 1], [1, 1, 1, 1, 0]]
    return [*_running(rng), (zeros, {"axis": 1}), (zeros, {"axis": 0})]


@op(
    numpy=np.cumsum,
    linear=True,
    samples=_running,
    error_samples=[((np.ones((2, 3)), {"axis": 2}), ValueError)],
)
def cumsum(a: Array, *, axis: int | None = None) -> Array:
    """Running sum along an axis.

    Parameters
    ----------
    a : array
        Of any shape.
    axis : int or None
        Negative ones count from the end. None for all elements in row-major order, as one axis.

    Returns
    -------
    array of the same shape, or of one axis

    Examples
    --------
    >>> import autodiff as ad
    >>> import autodiff.functional as F
    >>> x = ad.Tensor([1.0, 2.0, 4.0], requires_grad=True)
    >>> y = F.cumsum(x)
    >>> y.tolist()
    [1.0, 3.0, 7.0]
    >>> y.sum().backward()
    >>> x.grad
    array([3., 2., 1.])
    """
    return save(np.cumsum(a, axis=axis), shape=np.shape(a))


@cumsum.vjp("a")
def _(g: Array, shape: tuple[int, ...], axis: int | None) -> Array:
    # a_j is part of every y_i with i >= j: its cotangent is the running sum of g from the end.
    along = 0 if axis is None else axis
    total = np.flip(np.cumsum(np.flip(wide(g), along), along), along)
    return narrow(np.reshape(total, shape), g.dtype)


@op(numpy=np.cumprod, samples=_running_with_zeros, error_samples=[((np.ones((2, 3)), {"axis": 2}), ValueError)])
def cumprod(a: Array, *, axis: int | None = None) -> Array:
    """Running product along an axis. The gradient is exact at zeros too.

    Parameters
    ----------
    a : array
        Of any shape.
    axis : int or None
        Negative ones count from the end. None for all elements in row-major order, as one axis.

    Returns
    -------
    array of the same shape, or of one axis

    Examples
    --------
    >>> import autodiff as ad
    >>> import autodiff.functional as F
    >>> x = ad.Tensor([2.0, 0.0, 3.0], requires_grad=True)
    >>> F.cumprod(x).sum().backward()
    >>> x.grad
    array([1., 8., 0.])
    """
    return np.cumprod(a, axis=axis)


@cumprod.vjp("a")
def _(g: Array, a: Array, axis: int | None) -> Array:
    # y_i = a_0 ... a_i, so for j <= i its derivative by a_j is (a_0 ... a_{j-1}) (a_{j+1} ... a_i). The first factor
    # does not depend on i. No factor is divided out again, so zeros need no care.
    if a.size == 0:
        return 0 * a
    along = 0 if axis is None else axis
    x, g = np.reshape(wide(a), g.shape), wide(g)
    x, g = np.swapaxes(x, along, -1), np.swapaxes(g, along, -1)
    if np.all(np.isfinite(x)):
        da = _before(x) * _weighed(x, g)
    else:  # factors behind the last product that is used must not spoil the others: 0 times infinity is NaN
        used = np.flip(np.logical_or.accumulate(np.flip(to_array(g) != 0, -1), -1), -1)
        x = np.where(used, x, 1.0)
        da = np.where(used, _before(x) * _weighed(x, g), 0.0)
    return narrow(np.reshape(np.swapaxes(da, along, -1), a.shape), a.dtype)


def _before(x: Array) -> Array:
    """Product of all elements before each one, along the last axis."""
    one = np.ones((*x.shape[:-1], 1), x.dtype)
    return np.concatenate([one, np.cumprod(x[..., :-1], axis=-1)], axis=-1)


def _weighed(x: Array, g: Array) -> Array:
    """Sum over i >= j of g_i x_{j+1} ... x_i, for each j along the last axis."""
    # Let s_j be the first d terms of the sum, and p_j = x_{j+1} ... x_{j+d}. The next d terms are p_j s_{j+d}, and the
    # next d factors p_{j+d}: so d doubles, and after log2(n) steps s is complete.
    n, d = x.shape[-1], 1
    s, p = g, x[..., 1:]
    while d < n:
        s = np.concatenate([s[..., :-d] + p * s[..., d:], s[..., -d:]], axis=-1)
        p = p[..., :-d] * p[..., d:]
        d *= 2
    return s


@op(
    numpy=np.prod,
    samples=lambda rng: [
        *((away(rng, shape, 0.5, 1.5), settings) for shape, settings in REDUCTIONS),
        (away(rng, (0, 3)), {"axis": 0}),
        (np.array([0.0, 2.0, 3.0]),),
        (np.array([[0.0, 0.0, 3.0], [2.0, 0.0, 4.0]]), {"axis": 1}),
        (np.array([0.0]),),
    ],
    error_samples=[((np.ones((2, 3)), {"axis": 2}), ValueError)],
)
def prod(a: Array, *, axis: int | tuple[int, ...] | None = None, keepdims: bool = False) -> Array:
    """Product over axes. The gradient of an element is the product of the others, exactly, at zeros too.

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

    Examples
    --------
    >>> import autodiff as ad
    >>> import autodiff.functional as F
    >>> x = ad.Tensor([0.0, 2.0, 3.0], requires_grad=True)
    >>> F.prod(x).backward()
    >>> x.grad
    array([6., 0., 0.])
    """
    return np.prod(a, axis=axis, keepdims=keepdims)


@prod.vjp("a")
def _(g: Array, a: Array, axis: int | tuple[int, ...] | None) -> Array:
    # dy/da_j is the product of the elements before j and of those after it. (y/a_j would be 0/0 at zeros.) The reduced
    # axes go to the end, and become one there.
    if a.size == 0:
        return 0 * a
    rank = len(a.shape)
    axes = range(rank) if axis is None else (axis if isinstance(axis, tuple) else (axis,))
    reduced = [number % rank for number in axes] if rank else []
    order = [i for i in range(rank) if i not in reduced] + reduced
    moved = np.transpose(wide(a), order)
    x = np.reshape(moved, (*moved.shape[: rank - len(reduced)], -1))
    others = _before(x) * _before(x[..., ::-1])[..., ::-1]
    result = np.reshape(np.reshape(g, (*x.shape[:-1], 1)) * others, moved.shape)
    return narrow(np.transpose(result, tuple(sorted(range(rank), key=order.__getitem__))), a.dtype)


# --- under their newer names, with the neutral element before the first if so wished ---


@twin("cumulative_sum")
def cumulative_sum(
    x: Array, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Array:
    """Running sum along an axis, which only a vector may leave out.

    Parameters
    ----------
    x : array
        Of at least one axis.
    axis : int, optional
        Along which axis; needed if there are several.
    dtype : dtype, optional
        In which to add.
    include_initial : bool
        Begin with 0: the result is longer by one.

    Returns
    -------
    array

    Raises
    ------
    ValueError
        If there are several axes, or none, and `axis` is not given.

    Examples
    --------
    >>> import numpy as np
    >>> import autodiff.functional as F
    >>> F.cumulative_sum(np.array([1.0, 2.0, 4.0]), include_initial=True)
    array([0., 1., 3., 7.])
    """
    return _cumulative(cumsum, x, axis, dtype, 0 if include_initial else None)


@twin("cumulative_prod")
def cumulative_prod(
    x: Array, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Array:
    """Running product along an axis, which only a vector may leave out; as `cumulative_sum`, and beginning with 1."""
    return _cumulative(cumprod, x, axis, dtype, 1 if include_initial else None)


def _cumulative(scan: Any, x: Array, axis: int | None, dtype: Any, initial: int | None) -> Array:
    x = np.atleast_1d(operand(x))
    if axis is None and x.ndim > 1:
        raise ValueError(f"the axis of a running sum or product must be given unless there is one; shape {x.shape}")
    along = 0 if axis is None else normalize_axis_index(axis, x.ndim)
    result = scan(x if dtype is None else x.astype(dtype), axis=along)
    if dtype is not None:  # integers are added in wide ones, but stay narrow if that is asked for
        result = result.astype(dtype)
    if initial is None:
        return result
    first = np.full((*x.shape[:along], 1, *x.shape[along + 1 :]), initial, result.dtype)
    return np.concatenate([first, result], axis=along)
