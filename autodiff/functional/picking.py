"""Elements chosen by conditions and positions, left out, and put in between."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from ..arguments import arraylike
from ..node import Array
from ..protocols import to_array
from ._twins import operand, operands, twin
from .arranging import broadcast_arrays
from .indexing import within

__all__ = ["choose", "compress", "delete", "extract", "insert"]


@twin("compress")
def compress(condition: Any, a: Array, axis: int | None = None) -> Array:
    """Slices along an axis for which a condition holds.

    Parameters
    ----------
    condition : boolean array of one axis
        One for each position; those that it is too short for are left out.
    a : array
        Of any shape.
    axis : int, optional
        Along which axis. By default `a` is flattened first.

    Returns
    -------
    array

    Raises
    ------
    ValueError
        If the condition does not have one axis.
    IndexError
        If it holds where there is nothing.

    Examples
    --------
    >>> import numpy as np
    >>> import autodiff.functional as F
    >>> F.compress([False, True], np.array([[1.0, 2.0], [3.0, 4.0]]), axis=1)
    array([[2.],
           [4.]])
    """
    condition = np.asarray(arraylike("compress()", to_array(condition)))
    if condition.ndim != 1:
        raise ValueError(f"compress: the condition must have one axis, its shape is {condition.shape}")
    return np.take(operand(a), np.flatnonzero(condition), axis)


@twin("extract")
def extract(condition: Any, arr: Array) -> Array:
    """All elements for which a condition holds, in row-major order.

    Examples
    --------
    >>> import autodiff as ad
    >>> import autodiff.functional as F
    >>> x = ad.Tensor([1.0, -2.0, 3.0], requires_grad=True)
    >>> F.extract(x > 0, x).sum().backward()
    >>> x.grad
    array([1., 0., 1.])
    """
    return np.take(operand(arr), np.flatnonzero(arraylike("extract()", to_array(condition))))


@twin("choose")
def choose(a: Any, choices: Sequence[Array], mode: Literal["raise", "wrap", "clip"] = "raise") -> Array:
    """Each element from one of several arrays.

    Parameters
    ----------
    a : integer array
        From which one.
    choices : sequence of arrays
        They broadcast, with `a`.
    mode : {"raise", "wrap", "clip"}
        What becomes of a number that is too large or negative.

    Returns
    -------
    array of the common shape

    Raises
    ------
    ValueError
        If there is no array of that number, or the mode is another.

    Examples
    --------
    >>> import autodiff as ad
    >>> import autodiff.functional as F
    >>> x = ad.Tensor([1.0, 2.0, 3.0], requires_grad=True)
    >>> y = F.choose([0, 1, 0], [x, 10 * x])
    >>> y.sum().backward()
    >>> y.tolist(), x.grad
    ([1.0, 20.0, 3.0], array([ 1., 10.,  1.]))
    """
    arrays = operands(*choices)
    which = np.asarray(arraylike("choose()", to_array(a)))
    which = which.astype(np.intp) if which.dtype.kind == "b" else which
    if mode == "raise" and np.any((which < 0) | (which >= len(arrays))):
        raise ValueError(f"choose: a must lie between 0 and {len(arrays) - 1}, the number of choices minus one")
    numbers, *spread = broadcast_arrays(within(which, len(arrays), mode), *arrays)
    return np.stack(spread)[(numbers, *np.indices(numbers.shape, sparse=True))]


@twin("delete")
def delete(arr: Array, obj: Any, axis: int | None = None) -> Array:
    """Array without some positions along an axis.

    Parameters
    ----------
    arr : array
        Of any shape.
    obj : int, slice, sequence of int or of bool
        The positions to leave out.
    axis : int, optional
        Along which axis. By default the array is flattened first.

    Returns
    -------
    array

    Raises
    ------
    IndexError
        If a position does not exist.

    Examples
    --------
    >>> import autodiff as ad
    >>> import autodiff.functional as F
    >>> x = ad.Tensor([1.0, 2.0, 3.0], requires_grad=True)
    >>> F.delete(x, 1).tolist()
    [1.0, 3.0]
    """
    arr = operand(arr)
    if axis is None:
        arr, axis = np.reshape(arr, -1), 0
    axis = normalize_axis_index(axis, arr.ndim)
    return np.take(arr, np.delete(np.arange(arr.shape[axis]), arraylike("delete()", to_array(obj))), axis)


@twin("insert")
def insert(arr: Array, obj: Any, values: Array, axis: int | None = None) -> Array:
    """Array with values put in before some positions along an axis.

    Parameters
    ----------
    arr : array
        Of any shape.
    obj : int, slice, sequence of int or of bool
        Before which positions (of the array as it was).
    values : array
        What to put in, one slice for each position; for one position, there may be several.
    axis : int, optional
        Along which axis. By default the array is flattened first.

    Returns
    -------
    array of the dtype of arr

    Raises
    ------
    IndexError
        If a position does not exist.
    ValueError
        If the values do not fit.

    Examples
    --------
    >>> import autodiff as ad
    >>> import autodiff.functional as F
    >>> x = ad.Tensor([1.0, 2.0, 3.0], requires_grad=True)
    >>> F.insert(x, 1, 10 * x[0]).tolist()
    [1.0, 10.0, 2.0, 3.0]
    """
    arr, obj = operand(arr), arraylike("insert()", to_array(obj))
    if axis is None:
        arr, axis = np.reshape(arr, -1), 0
    axis = normalize_axis_index(axis, arr.ndim)
    values = operand(values)
    values = np.reshape(values, (1,) * (arr.ndim - values.ndim) + values.shape)
    before = np.arange(arr.shape[axis])
    several = isinstance(obj, slice) or np.size(obj) != 1
    if not several and not np.ndim(obj) and arr.ndim > 1:
        values = np.moveaxis(values, 0, axis)  # the first axis of what goes before one position runs along the axis
    count = np.insert(before, obj, 0).size - before.size if several else values.shape[axis]
    slots = (*arr.shape[:axis], count, *arr.shape[axis + 1 :])
    joined = np.concatenate([arr, np.broadcast_to(values, slots).astype(arr.dtype)], axis=axis)
    return np.take(joined, np.insert(before, obj, before.size + np.arange(count)), axis)
