"""Reductions with the rest of NumPy's settings: ``where=``, ``initial=`` and ``dtype=``, and as methods of ufuncs.

All are compositions. What a mask leaves out is replaced by what changes nothing (0 in a sum, 1 in a product, minus
infinity under a maximum); `np.where` passes no gradient to what it replaces, so whatever stands there, NaN or infinity
too, reaches neither the result nor any gradient.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from ..node import TWINS, Array
from ..protocols import METHODS, refuse_out, to_array, to_mask
from ._scaling import narrow, wide
from .elementwise import astype
from .exponentials import logaddexp
from .lengths import euclidean_norm
from .reductions import logsumexp, max, mean, min, std, sum, var
from .scans import cumprod, cumsum, prod
from .selection import maximum, minimum
from .sorting import cummax, cummin

__all__: list[str] = []

Axis: TypeAlias = int | tuple[int, ...] | None
NOT_GIVEN: Any = np._NoValue


def _given(value: Any) -> bool:
    return value is not None and value is not NOT_GIVEN


def _kept(keepdims: Any) -> bool:
    return _given(keepdims) and bool(keepdims)


def _mask(where: Any, a: Array) -> Any:
    """Return ``where=`` as booleans of the array's shape, or None where it leaves nothing out."""
    if where is True or not _given(where):
        return None
    mask = to_mask(where)
    shape = np.shape(to_array(a))
    if mask.ndim > len(shape) or np.broadcast_shapes(mask.shape, shape) != shape:
        raise ValueError(f"where= of shape {mask.shape} does not broadcast to the array's shape {shape}")
    return np.broadcast_to(mask, shape)


def _filled(a: Array, mask: Any, value: Any) -> Array:
    """Replace what a mask leaves out."""
    return a if mask is None else np.where(mask, a, value)


def _as(a: Array, dtype: Any) -> Array:
    """Cast, where another dtype is given."""
    a = a if hasattr(a, "dtype") else np.asarray(a)
    return astype(a, dtype=np.dtype(dtype)) if _given(dtype) and a.dtype != dtype else a


def _like(value: Any, result: Array) -> Any:
    """Cast an initial value to the dtype of the result that it starts, as NumPy does."""
    initial = astype(value, dtype=result.dtype)
    if np.ndim(initial):
        raise ValueError(f"initial must be one number; got an array of shape {np.shape(initial)}")
    return initial


# --- sum and product, largest and smallest ---


def _accumulating(name: str, reduction: Any, join: Callable[[Array, Any], Array], neutral: int) -> Callable[..., Array]:
    """Make np.sum or np.prod."""

    def call(
        a: Array, axis: Axis = None, dtype: Any = None, out: Any = None, keepdims: Any = False,
        initial: Any = NOT_GIVEN, where: Any = True,
    ) -> Array:  # fmt: skip
        refuse_out(name, out)
        a = _as(a, dtype)
        result = reduction(_filled(a, _mask(where, a), neutral), axis=axis, keepdims=_kept(keepdims))
        result = _as(result, dtype)  # integers are added in wide ones, but stay narrow if that is asked for
        return join(result, _like(initial, result)) if _given(initial) else result

    return call


def _extreme(name: str, reduction: Any, join: Callable[[Array, Any], Array], worst: float) -> Callable[..., Array]:
    """Make np.max or np.min."""

    def call(
        a: Array, axis: Axis = None, out: Any = None, keepdims: Any = False, initial: Any = NOT_GIVEN,
        where: Any = True, dtype: Any = None,
    ) -> Array:  # fmt: skip
        refuse_out(name, out)
        a = _as(a, dtype)
        mask = _mask(where, a)
        if not _given(initial):
            if mask is not None:
                raise ValueError(f"{name} with where=... needs initial=..., for where nothing is left; see NumPy's")
            return reduction(a, axis=axis, keepdims=_kept(keepdims))
        initial = _like(initial, a)
        if 0 in np.shape(to_array(a)):
            nothing = sum(a, axis=axis, keepdims=_kept(keepdims))
            return astype(nothing + initial, dtype=a.dtype)
        fill = worst if a.dtype.kind == "f" else to_array(initial)
        return join(reduction(_filled(a, mask, fill), axis=axis, keepdims=_kept(keepdims)), initial)

    return call


# --- mean, variance, standard deviation ---


def _mean(
    a: Array, axis: Axis = None, dtype: Any = None, out: Any = None, keepdims: Any = NOT_GIVEN, *,
    where: Any = NOT_GIVEN,
) -> Array:  # fmt: skip
    """``np.mean`` of a tensor."""
    refuse_out("np.mean", out)
    a = _as(a, dtype)
    mask = _mask(where, a)
    if mask is None:
        result = mean(a, axis=axis, keepdims=_kept(keepdims))
    else:
        result = narrow(_masked_mean(_summable(a), mask, axis, _kept(keepdims)), a.dtype)
    return _as(result, dtype)  # integers stay integers if they are asked for


def _summable(a: Array) -> Array:
    """Return numbers in a floating dtype in which they can be counted and summed."""
    return wide(a) if a.dtype.kind == "f" else astype(a, dtype=np.float64)


def _count(mask: Any, a: Array, axis: Axis, keepdims: bool) -> Any:
    """Count what is left, in integers: floating counts stop where adding 1 changes nothing. As the array's dtype."""
    return np.sum(mask, axis=axis, keepdims=keepdims, dtype=np.intp).astype(a.dtype)


def _masked_mean(a: Array, mask: Any, axis: Axis, keepdims: bool) -> Array:
    return sum(_filled(a, mask, 0), axis=axis, keepdims=keepdims) / _count(mask, a, axis, keepdims)


def _masked_deviations(
    a: Array, axis: Axis, ddof: float, keepdims: bool, mask: Any, center: Any
) -> tuple[Array, Any]:  # fmt: skip
    """Return the deviations from the mean, or from a center that is given, and the degrees of freedom."""
    a = _summable(a)
    mask = np.broadcast_to(True, a.shape) if mask is None else mask
    if not _given(center):
        # A constant taken off all numbers changes nothing, but leaves exact zeros of equal ones.
        level = np.max(np.where(mask, to_array(a), -np.inf), axis=axis, keepdims=True, initial=-np.inf)
        a = np.where(mask, a, 0) - np.where(np.isfinite(level), level, 0).astype(a.dtype)
        center = _masked_mean(a, mask, axis, True)
    return _filled(a - center, mask, 0), np.maximum(_count(mask, a, axis, keepdims) - ddof, 0)


def _variance(deviations: Array, degrees: Any, axis: Axis, keepdims: bool) -> Array:
    return sum(deviations * deviations, axis=axis, keepdims=keepdims) / degrees


def _deviation(deviations: Array, degrees: Any, axis: Axis, keepdims: bool) -> Array:
    """Root of the variance. It has a kink at 0, as the length of the deviations has."""
    length = euclidean_norm(deviations, axis=axis, keepdims=keepdims)
    undefined = np.equal(degrees, 0) & np.equal(length, 0)
    return length / np.where(undefined, np.nan, np.sqrt(degrees)).astype(length.dtype)


def _spread(name: str, reduction: Any, finish: Callable[..., Array]) -> Callable[..., Array]:
    """Make np.var or np.std."""

    def call(
        a: Array, axis: Axis = None, dtype: Any = None, out: Any = None, ddof: Any = 0, keepdims: Any = NOT_GIVEN, *,
        where: Any = NOT_GIVEN, mean: Any = NOT_GIVEN, correction: Any = NOT_GIVEN,
    ) -> Array:  # fmt: skip
        refuse_out(name, out)
        if _given(correction):
            if ddof != 0:
                raise ValueError(f"{name} takes ddof or correction, two names of one thing, not both")
            ddof = correction
        if _given(dtype) and np.dtype(dtype).kind != "f":
            raise TypeError(f"{name} on a tensor takes a floating dtype=..., got {dtype!r}; cast the result instead")
        a = _as(a, dtype)
        mask = _mask(where, a)
        if mask is None and not _given(mean):
            return reduction(a, axis=axis, ddof=ddof, keepdims=_kept(keepdims))
        deviations, degrees = _masked_deviations(a, axis, ddof, _kept(keepdims), mask, mean)
        return narrow(finish(deviations, degrees, axis, _kept(keepdims)), a.dtype)

    return call


# --- running sums and products ---


def _running(name: str, scan: Any) -> Callable[..., Array]:
    """Make np.cumsum, np.cumprod, or a running extreme."""

    def call(a: Array, axis: int | None = None, dtype: Any = None, out: Any = None) -> Array:
        refuse_out(name, out)
        return _as(scan(_as(a, dtype), axis=axis), dtype)

    return call


TWINS[np.sum] = _accumulating("np.sum", sum, lambda result, initial: result + initial, 0)
TWINS[np.prod] = _accumulating("np.prod", prod, lambda result, initial: result * initial, 1)
TWINS[np.max] = TWINS[np.amax] = _extreme("np.max", max, maximum, -np.inf)
TWINS[np.min] = TWINS[np.amin] = _extreme("np.min", min, minimum, np.inf)
TWINS[np.mean] = _mean
TWINS[np.var] = _spread("np.var", var, _variance)
TWINS[np.std] = _spread("np.std", std, _deviation)
TWINS[np.cumsum], TWINS[np.cumprod] = _running("np.cumsum", cumsum), _running("np.cumprod", cumprod)


# --- methods of ufuncs ---


def _logsumexp(
    a: Array, axis: Axis = None, dtype: Any = None, keepdims: Any = False, initial: Any = NOT_GIVEN, where: Any = True
) -> Array:
    """``np.logaddexp.reduce`` of a tensor."""
    a = _as(a, dtype)
    a = _as(a, np.logaddexp.resolve_dtypes((a.dtype, a.dtype, None))[2])  # the ufunc's floating dtype of integers
    result = logsumexp(_filled(a, _mask(where, a), -np.inf), axis=axis, keepdims=_kept(keepdims))
    return logaddexp(result, _like(initial, result)) if _given(initial) else result


def _reduce(reduction: Callable[..., Array]) -> Callable[..., Array]:
    """Let a reduction be called as a ufunc's method, whose axis is the first unless another is given."""

    def reduce(array: Array, axis: Axis = 0, **settings: Any) -> Array:
        result = reduction(array, axis=axis, **settings)
        if settings.get("initial", 0) is None and not np.size(to_array(array)) and result.size:
            raise ValueError("initial=None leaves the reduction of no elements without a value: give a number")
        return result

    return reduce


def _accumulate(scan: Callable[..., Array]) -> Callable[..., Array]:
    """Likewise a running sum or product."""

    def accumulate(array: Array, axis: Axis = 0, **settings: Any) -> Array:
        if np.ndim(to_array(array)) == 0:
            raise TypeError("cannot accumulate on a scalar")
        if axis is None or isinstance(axis, tuple):
            raise ValueError(f"accumulate runs along one axis, got {axis=}")
        return scan(array, axis=axis, **settings)

    return accumulate


METHODS.update({
    (np.add, "reduce"): _reduce(TWINS[np.sum]),
    (np.multiply, "reduce"): _reduce(TWINS[np.prod]),
    (np.maximum, "reduce"): _reduce(TWINS[np.max]),
    (np.minimum, "reduce"): _reduce(TWINS[np.min]),
    (np.logaddexp, "reduce"): _reduce(_logsumexp),
    (np.add, "accumulate"): _accumulate(TWINS[np.cumsum]),
    (np.multiply, "accumulate"): _accumulate(TWINS[np.cumprod]),
    (np.maximum, "accumulate"): _accumulate(_running("np.maximum.accumulate", cummax)),
    (np.minimum, "accumulate"): _accumulate(_running("np.minimum.accumulate", cummin)),
})  # fmt: skip
