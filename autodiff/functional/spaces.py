"""Numbers between two ends: in even steps, in even steps of the logarithm."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from ..node import Array
from ..protocols import to_array
from ._twins import operand, twin

__all__ = ["geomspace", "linspace", "logspace"]


@twin("linspace")
def linspace(
    start: Array, stop: Array, num: int = 50, endpoint: bool = True, retstep: bool = False,
    dtype: DTypeLike | None = None, axis: int = 0,
) -> Any:  # fmt: skip
    """Numbers in even steps from one end to the other; both are differentiated.

    Parameters
    ----------
    start, stop : array
        The ends, of shapes that broadcast.
    num : int
        How many numbers.
    endpoint : bool
        Whether the last one is `stop`; otherwise that is one step behind it.
    retstep : bool
        Return the step too.
    dtype : dtype, optional
        Of the result; by default that of the ends, floating.
    axis : int
        Along which axis of the result they lie.

    Returns
    -------
    array with a new axis, or a pair of it and the step

    Raises
    ------
    ValueError
        If the number is negative.

    Examples
    --------
    >>> import autodiff as ad
    >>> import autodiff.functional as F
    >>> stop = ad.Tensor(2.0, requires_grad=True)
    >>> y = F.linspace(0.0, stop, 5)
    >>> y.sum().backward()
    >>> y.tolist(), stop.grad
    ([0.0, 0.5, 1.0, 1.5, 2.0], array(2.5))
    """
    num = operator.index(num)
    if num < 0:
        raise ValueError(f"linspace: the number of samples must be at least 0, got {num}")
    kind = np.result_type(*_weak(start, stop), 1.0)
    first, last = (operand(end).astype(kind) for end in (start, stop))
    delta, count = last - first, num - 1 if endpoint else num
    places = np.arange(num, dtype=kind).reshape((-1,) + (1,) * delta.ndim)
    step = delta / count if count > 0 else np.nan
    if count > 0 and not np.any(to_array(step) == 0):
        numbers = places * step + first
    else:  # a step may be too small to be written, and of one number there is none
        numbers = places / max(count, 1) * delta + first
    if endpoint and num > 1:
        numbers = np.where(places == count, last, numbers)  # exact, whatever rounding has made of it
    if dtype is not None:
        numbers = (np.floor(numbers) if np.dtype(dtype).kind in "iu" else numbers).astype(np.dtype(dtype))
    numbers = np.moveaxis(numbers, 0, axis)
    return (numbers, step) if retstep else numbers


@twin("logspace")
def logspace(
    start: Array, stop: Array, num: int = 50, endpoint: bool = True, base: Array = 10.0,
    dtype: DTypeLike | None = None, axis: int = 0,
) -> Array:  # fmt: skip
    """Powers of a base whose exponents run in even steps from one end to the other; see `linspace`.

    Examples
    --------
    >>> import numpy as np
    >>> import autodiff.functional as F
    >>> F.logspace(np.array(0.0), 2.0, 3)
    array([  1.,  10., 100.])
    """
    if np.ndim(base):
        start, stop, base = np.broadcast_arrays(operand(start), operand(stop), operand(base))
        base = np.expand_dims(base, axis)
    powers = np.power(base, linspace(start, stop, num, endpoint, axis=axis))
    return powers if dtype is None else powers.astype(np.dtype(dtype))


@twin("geomspace")
def geomspace(
    start: Array, stop: Array, num: int = 50, endpoint: bool = True, dtype: DTypeLike | None = None, axis: int = 0
) -> Array:
    """Numbers each of which is the same multiple of the one before, from one end to the other; see `linspace`.

    Parameters
    ----------
    start, stop : array
        The ends, both positive or both negative; of shapes that broadcast.
    num, endpoint, dtype, axis
        As of `linspace`.

    Returns
    -------
    array with a new axis
        In double precision, unless a dtype is given.

    Raises
    ------
    ValueError
        If an end is 0, or the two have different signs.

    Examples
    --------
    >>> import numpy as np
    >>> import autodiff.functional as F
    >>> F.geomspace(np.array(1.0), 8.0, 4)
    array([1., 2., 4., 8.])
    """
    kind = np.result_type(*_weak(start, stop), np.dtype(dtype), 1.0)  # of None, double precision
    first, last = np.broadcast_arrays(*(operand(end).astype(kind) for end in (start, stop)))
    sign = np.sign(to_array(first))
    if np.any(sign * np.sign(to_array(last)) <= 0):
        raise ValueError("geomspace: both ends must be positive, or both negative: no tensor is complex")
    numbers = sign * logspace(np.log10(sign * first), np.log10(sign * last), num, endpoint, 10.0)
    places = np.arange(len(numbers)).reshape((-1,) + (1,) * (numbers.ndim - 1))
    numbers = np.where(places == 0, first, numbers)  # the ends are exact
    if endpoint and len(numbers) > 1:
        numbers = np.where(places == len(numbers) - 1, last, numbers)
    numbers = np.moveaxis(numbers, 0, axis)
    return numbers if dtype is None else numbers.astype(np.dtype(dtype))


def _weak(*ends: Any) -> list[Any]:
    """Return what the ends say about the dtype of the result: of Python's numbers, little."""
    return [end if type(end) in (int, float) else operand(end).dtype for end in ends]
