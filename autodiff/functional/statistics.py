"""Averages and spreads, and reductions that leave out what is not a number.

The gradient of an element that was left out is 0.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from ..node import Array
from ..protocols import to_array
from ._scaling import narrow, wide
from ._twins import operand, twin
from .lengths import euclidean_norm

__all__ = [
    "average", "nancumprod", "nancumsum", "nanmax", "nanmean", "nanmin", "nanprod", "nanstd", "nansum", "nanvar", "ptp",
]  # fmt: skip

Axis: TypeAlias = int | tuple[int, ...] | None


@twin("ptp")
def ptp(a: Array, axis: Axis = None, keepdims: bool = False) -> Array:
    """Range, from peak to peak: the largest element minus the smallest. Tied elements share the gradient evenly.

    Examples
    --------
    >>> import autodiff as ad
    >>> import autodiff.functional as F
    >>> x = ad.Tensor([1.0, 5.0, 3.0], requires_grad=True)
    >>> F.ptp(x).backward()
    >>> x.grad
    array([-1.,  1.,  0.])
    """
    a = operand(a)
    return np.max(a, axis=axis, keepdims=bool(keepdims)) - np.min(a, axis=axis, keepdims=bool(keepdims))


@twin("average")
def average(
    a: Array, axis: Axis | list[int] = None, weights: Array = None, returned: bool = False, *, keepdims: bool = False
) -> Array:
    """Weighted mean, ``sum(weights * a) / sum(weights)``; differentiable by the weights too.

    Parameters
    ----------
    a : array
        Of any shape.
    axis : int, tuple of int, list of int or None
        Over which axes; None for all.
    weights : array, optional
        Of the shape of `a`, or of its lengths along the axes. All are equal by default.
    returned : bool
        Whether to return the sum of the weights too.
    keepdims : bool
        Leave the reduced axes in, of length one.

    Returns
    -------
    array, or a pair of arrays

    Raises
    ------
    ValueError
        If the weights do not fit.
    ZeroDivisionError
        If they add up to 0.

    Examples
    --------
    >>> import autodiff as ad
    >>> import autodiff.functional as F
    >>> w = ad.Tensor([1.0, 3.0], requires_grad=True)
    >>> y = F.average([2.0, 6.0], weights=w)
    >>> y.backward()
    >>> y.item(), w.grad
    (5.0, array([-0.75,  0.25]))
    """
    a = operand(a)
    axis = tuple(axis) if isinstance(axis, list) else axis
    if weights is None:
        mean = np.mean(a, axis=axis, keepdims=bool(keepdims))
        total: Any = np.full(mean.shape, a.size / max(mean.size, 1), mean.dtype)
        return (mean, total) if returned else mean
    weights = operand(weights)
    dtype = np.result_type(a.dtype, weights.dtype, *([] if a.dtype.kind == "f" else [np.float64]))
    weights = _fitted(wide(weights if weights.dtype == dtype else weights.astype(dtype)), a.shape, axis)
    total = np.sum(weights, axis=axis, keepdims=bool(keepdims))
    if np.any(to_array(total) == 0):
        raise ZeroDivisionError("average: the weights add up to 0")
    mean = narrow(np.sum(a * weights, axis=axis, keepdims=bool(keepdims)) / total, dtype)
    return (mean, narrow(np.broadcast_to(total, mean.shape), dtype)) if returned else mean


def _fitted(weights: Array, shape: tuple[int, ...], axis: Axis) -> Array:
    """Bring weights for some of the axes into their places."""
    if weights.shape == shape:
        return weights
    given = () if axis is None else axis if isinstance(axis, tuple) else (axis,)
    axes = [normalize_axis_index(i, len(shape)) for i in given]
    lengths = tuple(shape[i] for i in axes)
    if axis is None or weights.shape != lengths:
        allowed = f"{shape}" if axis is None else f"{shape} or {lengths}"
        raise ValueError(f"average: weights of shape {weights.shape}, for axis={axis} they must be of shape {allowed}")
    order = sorted(range(len(axes)), key=axes.__getitem__)
    return np.reshape(np.transpose(weights, order), [side if i in axes else 1 for i, side in enumerate(shape)])


# --- leaving out what is not a number ---


def _filled(a: Array, value: float, dtype: Any = None) -> tuple[Array, Any]:
    """Replace what is not a number by a value; also tell where that was."""
    a = operand(a)
    a = a if dtype is None else a.astype(dtype)
    absent = np.isnan(to_array(a))
    return (np.where(absent, value, a) if np.any(absent) else a), absent


@twin("nansum")
def nansum(a: Array, axis: Axis = None, dtype: Any = None, *, keepdims: bool = False) -> Array:
    """Sum over axes, in which NaN counts as 0.

    Examples
    --------
    >>> import numpy as np
    >>> import autodiff as ad
    >>> import autodiff.functional as F
    >>> x = ad.Tensor([1.0, np.nan, 3.0], requires_grad=True)
    >>> y = F.nansum(x)
    >>> y.backward()
    >>> y.item(), x.grad
    (4.0, array([1., 0., 1.]))
    """
    return np.sum(_filled(a, 0.0)[0], axis=axis, dtype=dtype, keepdims=bool(keepdims))


@twin("nanprod")
def nanprod(a: Array, axis: Axis = None, dtype: Any = None, *, keepdims: bool = False) -> Array:
    """Product over axes, in which NaN counts as 1."""
    return np.prod(_filled(a, 1.0)[0], axis=axis, dtype=dtype, keepdims=bool(keepdims))


@twin("nancumsum")
def nancumsum(a: Array, axis: int | None = None, dtype: Any = None) -> Array:
    """Running sum along an axis, or over all elements in order, in which NaN counts as 0."""
    return np.cumsum(_filled(a, 0.0)[0], axis=axis, dtype=dtype)


@twin("nancumprod")
def nancumprod(a: Array, axis: int | None = None, dtype: Any = None) -> Array:
    """Running product along an axis, or over all elements in order, in which NaN counts as 1."""
    return np.cumprod(_filled(a, 1.0)[0], axis=axis, dtype=dtype)


@twin("nanmax")
def nanmax(a: Array, axis: Axis = None, *, keepdims: bool = False) -> Array:
    """Largest element over axes that is a number; NaN where there is none. Tied elements share the gradient evenly."""
    return _extreme(np.max, *_filled(a, -np.inf), axis, bool(keepdims))


@twin("nanmin")
def nanmin(a: Array, axis: Axis = None, *, keepdims: bool = False) -> Array:
    """Smallest element over axes that is a number; NaN where there is none. Tied elements share the gradient evenly."""
    return _extreme(np.min, *_filled(a, np.inf), axis, bool(keepdims))


def _extreme(reduction: Any, filled: Array, absent: Any, axis: Axis, keepdims: bool) -> Array:
    none = np.all(absent, axis=axis, keepdims=keepdims)
    result = reduction(filled, axis=axis, keepdims=keepdims)
    return np.where(none, np.nan, result) if np.any(none) else result


def _present(absent: Any, axis: Axis, keepdims: bool, dtype: Any, ddof: float = 0) -> Any:
    """Return by how much sums are divided; NaN for nothing, so that the quotient is NaN too."""
    count = np.sum(~absent, axis=axis, keepdims=keepdims) - ddof
    return np.where(count > 0, count, np.nan).astype(dtype)[()]


@twin("nanmean")
def nanmean(a: Array, axis: Axis = None, dtype: Any = None, *, keepdims: bool = False) -> Array:
    """Mean over axes of the elements that are numbers; NaN where there are none.

    Examples
    --------
    >>> import numpy as np
    >>> import autodiff as ad
    >>> import autodiff.functional as F
    >>> x = ad.Tensor([1.0, np.nan, 3.0], requires_grad=True)
    >>> F.nanmean(x).backward()
    >>> x.grad
    array([0.5, 0. , 0.5])
    """
    filled, absent = _filled(a, 0.0, dtype)
    total = np.sum(wide(filled), axis=axis, keepdims=bool(keepdims))
    mean = total / _present(absent, axis, bool(keepdims), total.dtype if total.dtype.kind == "f" else np.float64)
    return narrow(mean, filled.dtype)


@twin("nanvar")
def nanvar(a: Array, axis: Axis = None, dtype: Any = None, *, ddof: float = 0, keepdims: bool = False) -> Array:
    """Variance over axes of the elements that are numbers; NaN where there are not more than `ddof`.

    The sum of squares is divided by their number minus `ddof`.
    """
    deviations, absent, dtype = _deviations(a, axis, dtype, ddof)
    squares = np.sum(np.square(deviations), axis=axis, keepdims=bool(keepdims))
    return narrow(squares / _present(absent, axis, bool(keepdims), squares.dtype, ddof), dtype)


@twin("nanstd")
def nanstd(a: Array, axis: Axis = None, dtype: Any = None, *, ddof: float = 0, keepdims: bool = False) -> Array:
    """Standard deviation over axes of the elements that are numbers: the root of `nanvar`.

    Of equal numbers, its gradient is 0.
    """
    deviations, absent, dtype = _deviations(a, axis, dtype, ddof)
    length = euclidean_norm(deviations, axis=axis, keepdims=bool(keepdims))
    return narrow(length / np.sqrt(_present(absent, axis, bool(keepdims), length.dtype, ddof)), dtype)


def _deviations(a: Array, axis: Axis, dtype: Any, ddof: float) -> tuple[Array, Any, Any]:
    """Distances from the mean in a wide dtype, where a number is missing, and the dtype of the result.

    They are 0 for what is not a number, and exactly 0 for equal numbers, whose mean may be rounded.
    """
    filled, absent = _filled(a, 0.0, dtype)
    narrow_dtype, filled = filled.dtype, wide(filled)
    if filled.dtype.kind != "f":
        filled = filled.astype(np.float64)
    values = to_array(filled)
    high = np.max(values, axis=axis, keepdims=True, initial=-np.inf, where=~absent)
    flat = high == np.min(values, axis=axis, keepdims=True, initial=np.inf, where=~absent)
    flat = flat & (np.sum(~absent, axis=axis, keepdims=True) > ddof)  # else the result is NaN, and its gradient is
    total = np.sum(filled, axis=axis, keepdims=True)
    deviations = filled - total / _present(absent, axis, True, filled.dtype)
    return np.where(absent | flat, 0.0, deviations), absent, narrow_dtype
