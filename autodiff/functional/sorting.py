"""Order: sorted elements, medians and quantiles, running extremes.

The data decide which element goes where; then each result is an element picked, or a mean of two. Small changes of the
data move the elements, but not their order, so the picking is differentiated and the order is not. Of elements that
tie, the order in the array decides.
"""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..arguments import arraylike
from ..node import Array
from ..protocols import NumPyProtocols, to_array
from ._twins import operand, twin
from .indexing import take_along_axis

__all__ = ["cummax", "cummin", "median", "partition", "percentile", "quantile", "sort"]

Axis: TypeAlias = int | tuple[int, ...] | None


@twin("sort")
def sort(a: Array, axis: int | None = -1, kind: str | None = None, *, stable: bool | None = None) -> Array:
    """Elements in ascending order along an axis. What is not a number goes to the end.

    Parameters
    ----------
    a : array
        Of any shape.
    axis : int or None
        Along which axis. None flattens the array first.
    kind, stable
        As in NumPy; equal elements keep their order in any case.

    Returns
    -------
    array of the same shape, or of one axis

    Raises
    ------
    numpy.exceptions.AxisError
        If there is no such axis.
    ValueError
        If both `kind` and `stable` are given, or for another kind.

    Examples
    --------
    >>> import autodiff as ad
    >>> import autodiff.functional as F
    >>> x = ad.Tensor([3.0, 1.0, 2.0], requires_grad=True)
    >>> y = F.sort(x)
    >>> y.tolist()
    [1.0, 2.0, 3.0]
    >>> y.backward([10.0, 20.0, 30.0])
    >>> x.grad
    array([30., 10., 20.])
    """
    if kind is not None and (stable is not None or kind not in ("quicksort", "mergesort", "heapsort", "stable")):
        raise ValueError(f"sort: kind={kind!r}, stable={stable!r}: equal elements keep their order, leave both out")
    a, axis = _along(a, axis)
    return take_along_axis(a, np.argsort(to_array(a), axis, kind="stable"), axis=axis)


@twin("partition")
def partition(a: Array, kth: int | tuple[int, ...], axis: int | None = -1, kind: str = "introselect") -> Array:
    """Elements arranged so that those at some positions are as in sorted order, with no larger ones before them.

    Parameters
    ----------
    a : array
        Of any shape.
    kth : int or sequence of int
        The positions.
    axis : int or None
        Along which axis. None flattens the array first.
    kind : {"introselect"}
        The algorithm; NumPy has one.

    Returns
    -------
    array of the same shape, or of one axis

    Raises
    ------
    ValueError
        If a position does not exist.

    Examples
    --------
    >>> import autodiff as ad
    >>> import autodiff.functional as F
    >>> x = ad.Tensor([3.0, 1.0, 2.0], requires_grad=True)
    >>> F.partition(x, 1)[1].backward()
    >>> x.grad
    array([0., 0., 1.])
    """
    a, axis = _along(a, axis)
    if kind != "introselect":
        raise ValueError(f"partition: kind={kind!r} is not an algorithm of NumPy's; leave it out")
    return take_along_axis(a, np.argpartition(to_array(a), to_array(kth), axis), axis=axis)


def _along(a: Array, axis: int | None) -> tuple[Array, int]:
    """Return an operand and an axis of it; without an axis, flattened."""
    a = operand(a)
    if axis is None:
        return np.reshape(a, (a.size,)), 0
    return a, np.lib.array_utils.normalize_axis_index(axis, a.ndim)


# --- medians and quantiles ---


@twin("median")
def median(a: Array, axis: Axis = None, keepdims: bool = False) -> Array:
    """Middle of the sorted elements; of an even number of them, the mean of the middle two.

    Parameters
    ----------
    a : array
        Of any shape.
    axis : int, tuple of int or None
        Over which axes; None for all.
    keepdims : bool
        Leave the reduced axes in, of length one.

    Returns
    -------
    array
        NaN where there is a NaN, and (with NumPy's warning) where there are no elements.

    Notes
    -----
    The gradient goes to the element in the middle, or in halves to the two. Of elements that tie for the place, it goes
    to the one that a sort which keeps the order of equal elements puts there.

    Examples
    --------
    >>> import autodiff as ad
    >>> import autodiff.functional as F
    >>> x = ad.Tensor([4.0, 1.0, 8.0, 2.0], requires_grad=True)
    >>> y = F.median(x)
    >>> y.backward()
    >>> y.item(), x.grad
    (3.0, array([0.5, 0. , 0. , 0.5]))
    """
    a = operand(a)
    rows, kept = _sorted_rows(a if a.dtype.kind == "f" else a.astype(np.float64), axis)
    n = rows.shape[-1]
    if n == 0:
        result = np.mean(rows, axis=-1)
    elif n % 2:
        result = _or_nan(rows[..., n // 2], rows)
    else:
        result = _or_nan(np.mean(rows[..., n // 2 - 1 : n // 2 + 1], axis=-1), rows)
    return np.reshape(result, kept) if keepdims else result


@twin("quantile")
def quantile(a: Array, q: ArrayLike, axis: Axis = None, method: str = "linear", keepdims: bool = False) -> Array:
    """Quantiles: the numbers below which a fraction q of the elements lies, interpolated between neighbours.

    Parameters
    ----------
    a : array
        Of any shape.
    q : float or array_like of float
        The fractions, from 0 to 1: constants.
    axis : int, tuple of int or None
        Over which axes; None for all.
    method : {"linear"}
        The n sorted elements stand at the fractions 0, 1/(n-1), ..., 1, with straight lines between them.
    keepdims : bool
        Leave the reduced axes in, of length one.

    Returns
    -------
    array
        The axes of `q` come first. NaN where there is a NaN.

    Raises
    ------
    ValueError
        If a fraction lies outside of [0, 1], for another method, or if there are no elements.
    TypeError
        If `q` is a tensor that requires a gradient.

    Notes
    -----
    Where the quantile is an element, the gradient is that element's. For ties see `median`.

    Examples
    --------
    >>> import autodiff as ad
    >>> import autodiff.functional as F
    >>> x = ad.Tensor([5.0, 1.0, 2.0], requires_grad=True)
    >>> y = F.quantile(x, 0.75)
    >>> y.backward()
    >>> y.item(), x.grad
    (3.5, array([0.5, 0. , 0.5]))
    """
    if method != "linear":
        raise ValueError(f"quantile: the method {method!r} is not supported on tensors, only 'linear' is")
    a, fractions = operand(a), np.asarray(_constant("q", q))
    whole = fractions.dtype.kind in "biu"  # of the smallest and the largest element there is nothing in between
    weak = type(q) in (int, float) and a.dtype.kind == "f"
    dtype = a.dtype if whole or weak else np.result_type(a.dtype, fractions.dtype)
    if not np.all((fractions >= 0) & (fractions <= 1)):
        raise ValueError(f"quantile: q must lie in the range [0, 1] (of a percentile, [0, 100]); got {q!r}")
    rows, kept = _sorted_rows(a if a.dtype == dtype else a.astype(dtype), axis)
    n = rows.shape[-1]
    if n == 0:
        raise ValueError(f"quantile: there are no elements over axis={axis} of an array of shape {np.shape(a)}")
    positions = np.asarray(fractions, float) * (n - 1)
    left = np.minimum(np.floor(positions).astype(int), max(n - 2, 0))
    share = positions - left
    # as NumPy does, start from the nearer neighbour, so that both ends are exact
    start = np.where(share >= 0.5, np.minimum(left + 1, n - 1), left)
    nearer = result = _at(rows, start)
    if not whole:
        share = np.where(share >= 0.5, share - 1, share).astype(dtype)
        share = np.reshape(share, (*share.shape, *(1,) * (rows.ndim - 1)))
        result = nearer + (_at(rows, np.minimum(left + 1, n - 1)) - _at(rows, left)) * share
    result = _or_nan(result, rows)
    return np.reshape(result, (*fractions.shape, *kept)) if keepdims else result


@twin("percentile")
def percentile(a: Array, q: ArrayLike, axis: Axis = None, method: str = "linear", keepdims: bool = False) -> Array:
    """Quantiles, with the fractions in percent: see `quantile`.

    Examples
    --------
    >>> import numpy as np
    >>> import autodiff.functional as F
    >>> F.percentile(np.array([1.0, 2.0, 5.0]), [0, 75, 100])
    array([1. , 3.5, 5. ])
    """
    fractions = np.true_divide(_constant("q", q), 100)
    return quantile(a, float(fractions) if type(q) in (int, float) else fractions, axis, method, keepdims)


def _constant(name: str, value: Any) -> Any:
    """Return the data of an argument that has no gradient here."""
    if isinstance(value, NumPyProtocols) and value.requires_grad:
        raise TypeError(f"{name} is not differentiable: pass its .data")
    return arraylike(name, to_array(value))


def _sorted_rows(a: Array, axis: Axis) -> tuple[Array, tuple[int, ...]]:
    """Return what is reduced, sorted along the last axis; and the shape with reduced axes of length one."""
    axes = np.lib.array_utils.normalize_axis_tuple(range(a.ndim) if axis is None else axis, a.ndim)
    rest = [i for i in range(a.ndim) if i not in axes]
    shape = [a.shape[i] for i in rest]
    rows = np.reshape(np.transpose(a, (*rest, *axes)), (*shape, math.prod(a.shape[i] for i in axes)))
    return sort(rows), tuple(1 if i in axes else side for i, side in enumerate(a.shape))


def _at(rows: Array, positions: NDArray[np.intp]) -> Array:
    """Elements of all rows at some positions, whose axes come first."""
    picked = np.take(rows, positions, axis=-1)
    count = np.ndim(positions)
    return np.moveaxis(picked, tuple(range(-count, 0)), tuple(range(count))) if count else picked


def _or_nan(result: Array, rows: Array) -> Array:
    """Put NaN where a row has one, which gets the gradient: sorted, it stands at the end."""
    absent = np.isnan(to_array(rows)[..., -1])
    return np.where(absent, rows[..., -1], result) if np.any(absent) else result


# --- running extremes ---


def cummax(a: Array, axis: int | None = None) -> Array:
    """Largest element so far, along an axis. Of elements that tie, the last one gets the gradient.

    Parameters
    ----------
    a : array
        Of any shape.
    axis : int or None
        Negative ones count from the end. None for all elements in row-major order, as one axis.

    Returns
    -------
    array of the same shape, or of one axis
        NaN from the first NaN on.

    Examples
    --------
    >>> import autodiff as ad
    >>> import autodiff.functional as F
    >>> x = ad.Tensor([1.0, 3.0, 2.0, 4.0], requires_grad=True)
    >>> y = F.cummax(x)
    >>> y.tolist()
    [1.0, 3.0, 3.0, 4.0]
    >>> y.sum().backward()
    >>> x.grad
    array([1., 2., 0., 1.])
    """
    return _running(np.maximum, a, axis)


def cummin(a: Array, axis: int | None = None) -> Array:
    """Smallest element so far, along an axis: see `cummax`.

    Examples
    --------
    >>> import numpy as np
    >>> import autodiff.functional as F
    >>> F.cummin(np.array([3.0, 1.0, 2.0]))
    array([3., 1., 1.])
    """
    return _running(np.minimum, a, axis)


def _running(extreme: np.ufunc, a: Array, axis: int | None) -> Array:
    """Pick the running extremes from their positions."""
    a, axis = _along(a, axis)
    data = to_array(a)
    reached = (data == extreme.accumulate(data, axis)) | np.isnan(data)
    positions = np.arange(data.shape[axis]).reshape(-1, *(1,) * (data.ndim - 1 - axis))
    return take_along_axis(a, np.maximum.accumulate(np.where(reached, positions, 0), axis), axis=axis)
