"""Indexing: picking elements, and its adjoint.

Picking and scattering are adjoint: ``<v, x[index]> = <scatter_add(v), x>``. Each is the VJP rule of the other, so
derivatives of any order are recorded.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..node import TWINS, Array
from ..op import op, save
from ..protocols import refuse_out, to_array
from ._scaling import narrow, wide

__all__ = ["getitem", "scatter_add", "take", "take_along_axis"]


@op(
    linear=True,
    samples=lambda rng: [
        (rng.normal(size=3), {"index": 1}),
        (rng.normal(size=(3, 4)), {"index": (slice(None, None, -2), 1)}),
        (rng.normal(size=(2, 3, 2)), {"index": (..., None, 0)}),
        (rng.normal(size=()), {"index": ()}),
        (rng.normal(size=()), {"index": (None, None)}),
        (rng.normal(size=1), {"index": -1}),
        (rng.normal(size=(0, 3)), {"index": (slice(None), [0, 0])}),
        (rng.normal(size=(3, 3)), {"index": slice(3, None)}),
        (rng.normal(size=(3, 2)), {"index": np.array([0, 2, 0, -1])}),
        (rng.normal(size=(3, 3)), {"index": (slice(None), np.array([[0, 2], [2, -3]]))}),
        (rng.normal(size=(3, 4, 3)), {"index": ([0, 0, 2], slice(1, 3), np.array([1, 1, 2]))}),
        (rng.normal(size=(3, 3)), {"index": (np.array([[True, False, True], [False] * 3, [True] * 3]),)}),
        (rng.normal(size=(3, 4)), {"index": (np.array([True, False, True]), [1, 1])}),
        (rng.normal(size=(2, 3)), {"index": (True, 0)}),
        (rng.normal(size=(2, 3)), {"index": []}),
    ],
    error_samples=[((np.ones(3), {"index": 3}), IndexError), ((np.ones(3), {"index": [0, 3]}), IndexError)],
)
def getitem(x: Array, *, index: Any) -> Array:
    """Elements of an array, ``x[index]``.

    Parameters
    ----------
    x : array
        Of any shape.
    index : int, slice, None, Ellipsis, integer or boolean array, or a tuple of them
        As in NumPy.

    Returns
    -------
    array
        A view where the index has no arrays, as in NumPy.

    Raises
    ------
    IndexError
        If a position does not exist.

    Notes
    -----
    An element that was picked several times gets the sum of the cotangents.

    Examples
    --------
    >>> import autodiff as ad
    >>> x = ad.Tensor([1.0, 2.0, 3.0], requires_grad=True)
    >>> x[[0, 0, 2]].sum().backward()
    >>> x.grad
    array([2., 0., 1.])
    """
    return save(x[index], shape=np.shape(x))


@getitem.vjp("x")
def _(g: Array, index: Any, shape: tuple[int, ...]) -> Array:
    # y_n = x_p(n), so dx_p = sum over the n with p(n) = p of g_n
    return scatter_add(g, index=index, shape=shape)


@op(
    linear=True,
    samples=lambda rng: [
        (rng.normal(size=(2, 2)), {"index": (slice(None), slice(0, 4, 2)), "shape": (2, 4)}),
        (rng.normal(size=(4, 2)), {"index": [0, 2, 0, -1], "shape": (3, 2)}),
        (rng.normal(size=(3, 3)), {"index": (slice(None), [0, 1, 1]), "shape": (3, 3)}),
        (rng.normal(size=2), {"index": np.array([True, False, True]), "shape": (3,)}),
        (rng.normal(size=()), {"index": 1, "shape": (3,)}),
        (rng.normal(size=1), {"index": 0, "shape": (2, 1)}),
        (rng.normal(size=(0, 2)), {"index": [], "shape": (3, 2)}),
    ],
    error_samples=[
        ((np.ones(3), {"index": [0, 1], "shape": (4,)}), ValueError),
        ((np.ones(1), {"index": slice(2), "shape": (4,)}), ValueError),
        ((np.ones(2), {"index": [0, 4], "shape": (4,)}), IndexError),
    ],
)
def scatter_add(values: Array, *, index: Any, shape: tuple[int, ...]) -> Array:
    """Add values into an array of zeros: the adjoint of ``x[index]`` for an x of the shape given.

    Parameters
    ----------
    values : array
        Of the shape that ``x[index]`` has.
    index : int, slice, None, Ellipsis, integer or boolean array, or a tuple of them
        Where they go.
    shape : tuple of int
        Shape of the result.

    Returns
    -------
    array of that shape
        What goes to one place is summed; the rest is zero.

    Raises
    ------
    ValueError
        If the values do not have the shape of ``x[index]``.
    IndexError
        If a position does not exist.

    Examples
    --------
    >>> import numpy as np
    >>> import autodiff.functional as F
    >>> F.scatter_add(np.array([1.0, 2.0, 3.0]), index=[0, 2, 0], shape=(4,))
    array([4., 0., 2., 0.])
    """
    values = np.asarray(values)
    dtype, values = values.dtype, wide(values)
    out = np.zeros(shape, values.dtype)
    places, lead = places_of(index, shape) if may_repeat(index) else (None, 0)
    picked = np.shape(out[index]) if places is None else (*places.shape, *shape[lead:])
    if values.shape != picked:
        raise ValueError(f"scatter_add: values of shape {values.shape}, but this index picks the shape {picked}")
    if places is None:
        out[index] = values
    else:
        # NumPy adds to the elements of a flat array several times faster than to rows, or at an index of two arrays
        side = math.prod(shape[lead:])
        np.add.at(out.reshape(-1), np.add.outer(places * side, np.arange(side)).ravel(), values.ravel())
    return narrow(out, dtype)


@scatter_add.vjp("values")
def _(g: Array, index: Any) -> Array:
    # x_p = sum over the n with p(n) = p of v_n: every v_n has the cotangent of its place
    return getitem(g, index=index)


@op(
    numpy=np.take,
    linear=True,
    samples=lambda rng: [
        (rng.normal(size=(3, 4)), np.array([0, 2, 0]), {"axis": 0}),
        (rng.normal(size=(3, 3)), np.array([[0, -1], [1, 1]]), {"axis": 1}),
        (rng.normal(size=(2, 3, 2)), np.array([2, 2]), {"axis": -2}),
        (rng.normal(size=(2, 3)), np.array([5, 0, 5])),
        (rng.normal(size=(2, 3)), 1, {"axis": -1}),
        (rng.normal(size=(2, 3)), np.array(4)),
        (rng.normal(size=()), np.array([0, 0])),
        (rng.normal(size=1), 0),
        (rng.normal(size=(3, 0)), np.array([1, 1]), {"axis": 0}),
    ],
    error_samples=[
        ((np.ones(3), 3), IndexError),
        ((np.ones(3), np.array([0.0])), TypeError),
        ((np.ones(2), np.array([True, False])), TypeError),
    ],
)
def take(a: Array, indices: Array, *, axis: int | None = None) -> Array:
    """Elements at integer positions along an axis.

    Parameters
    ----------
    a : array
        Of any shape.
    indices : integer array of any shape
        The positions; negative ones count from the end.
    axis : int, optional
        Along which axis. By default the array is flattened first.

    Returns
    -------
    array
        In place of the axis it has those of the indices.

    Raises
    ------
    IndexError
        If a position does not exist.
    TypeError
        If the indices are not integers.

    Examples
    --------
    >>> import numpy as np
    >>> import autodiff.functional as F
    >>> F.take(np.array([[1, 2, 3], [4, 5, 6]]), [2, 0], axis=1)
    array([[3, 1],
           [6, 4]])
    """
    if np.asarray(indices).dtype.kind == "b":  # NumPy would read a mask as the positions 0 and 1
        raise TypeError("take: indices must be integers, these are boolean; with a mask write x[mask]")
    return save(np.take(a, indices, axis), shape=np.shape(a))


@take.vjp("a")
def _(g: Array, indices: Array, axis: int | None, shape: tuple[int, ...]) -> Array:
    # a[:, ..., indices]: its adjoint is that of indexing
    if axis is None or not shape:
        return np.reshape(scatter_add(g, index=(indices,), shape=(math.prod(shape),)), shape)
    return scatter_add(g, index=(slice(None),) * (axis % len(shape)) + (indices,), shape=shape)


def _numpy_take(a: Array, indices: Any, axis: int | None = None, out: Any = None, mode: str = "raise") -> Array:
    """``np.take`` of a tensor, with its modes for positions that do not exist."""
    refuse_out("np.take", out)
    if isinstance(indices, (list, tuple)) and not np.size(indices):
        indices = np.asarray(indices, np.intp)  # nothing in it is a float
    if mode != "raise":
        shape = np.shape(to_array(a))
        side = math.prod(shape) if axis is None or not shape else shape[axis]
        indices = within(np.asarray(to_array(indices)), side, mode)
    return take(a, indices, axis=axis)


def within(positions: NDArray[Any], count: int, mode: str) -> NDArray[Any]:
    """Bring positions into range, counting on from the other end or stopping at the ends."""
    if mode not in ("raise", "wrap", "clip"):
        raise ValueError(f"mode {mode!r} is not one of 'raise', 'wrap', 'clip'")
    if mode == "raise" or not count or positions.dtype.kind not in "iu":
        return positions
    return positions % count if mode == "wrap" else np.clip(positions, 0, count - 1)


TWINS[np.take] = _numpy_take


@op(
    numpy=np.take_along_axis,
    linear=True,
    samples=lambda rng: [
        (rng.normal(size=(3, 4)), np.array([[1, 1], [0, 3], [2, -1]])),
        (rng.normal(size=(3, 3)), np.array([[0, 2, 1], [1, 1, 1]]), {"axis": 0}),
        (rng.normal(size=(2, 3, 2)), np.array([[[2, 0]], [[1, 1]]]), {"axis": -2}),
        (rng.normal(size=(1, 3)), np.array([[0], [0], [2]]), {"axis": 1}),
        (rng.normal(size=(3, 3)), np.array([[1, 1]]), {"axis": 1}),
        (rng.normal(size=4), np.array([3, 0, 3]), {"axis": None}),
        (rng.normal(size=(2, 3)), np.array([4, 0, 4]), {"axis": None}),
        (rng.normal(size=1), np.array([0])),
        (rng.normal(size=(0, 3)), np.zeros((0, 2), int)),
    ],
    error_samples=[
        ((np.ones((2, 3)), np.array([0, 1])), ValueError),
        ((np.ones((2, 3)), np.array([[3], [0]])), IndexError),
        ((np.ones((2, 3)), np.array([[0.0]])), IndexError),
    ],
)
def take_along_axis(arr: Array, indices: Array, *, axis: int | None = -1) -> Array:
    """Elements at positions that differ from row to row, as `argsort` gives them.

    Parameters
    ----------
    arr : array
        Of any shape.
    indices : integer array
        The positions along the axis. It has as many axes as `arr`; the others broadcast.
    axis : int or None
        Along which axis. None flattens `arr` first.

    Returns
    -------
    array of the shape of indices, broadcast

    Raises
    ------
    ValueError
        If the numbers of axes differ.
    IndexError
        If a position does not exist, or the indices are not integers.

    Examples
    --------
    >>> import autodiff as ad
    >>> import autodiff.functional as F
    >>> x = ad.Tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], requires_grad=True)
    >>> y = F.take_along_axis(x, [[2], [0]], axis=1)
    >>> y.tolist()
    [[3.0], [4.0]]
    >>> y.sum().backward()
    >>> x.grad
    array([[0., 0., 1.],
           [1., 0., 0.]])
    """
    return save(np.take_along_axis(arr, indices, axis), shape=np.shape(arr))


@take_along_axis.vjp("arr")
def _(g: Array, indices: Array, axis: int | None, shape: tuple[int, ...]) -> Array:
    # The index of axis k != axis is k itself, that of the axis is given: arr[i, indices[i, j]] in two dimensions.
    if axis is None:
        return np.reshape(scatter_add(g, index=(indices,), shape=(math.prod(shape),)), shape)
    index = list(np.indices(shape, sparse=True))
    index[axis] = indices
    return scatter_add(g, index=tuple(index), shape=shape)


# --- what an index does, without data ---


def _parts(index: Any) -> tuple[Any, ...]:
    return index if isinstance(index, tuple) else (index,)


def may_repeat(index: Any) -> bool:
    """Whether an index may name an element more than once. Numbers, slices and boolean masks never do."""
    basic = (int, slice, type(None), type(...))
    arrays = [np.asarray(part) for part in _parts(index) if not isinstance(part, basic)]
    return any(array.ndim and array.dtype.kind != "b" for array in arrays)


def places_of(index: Any, shape: tuple[int, ...]) -> tuple[NDArray[np.intp], int]:
    """Return which elements an index picks, numbered in row-major order over the leading axes, and how many those are.

    The axes that the index does not mention are left out: every place stands for a whole block along them.
    """
    mentioned = [part for part in _parts(index) if part is not None]
    lead = len(shape)
    if not any(part is Ellipsis for part in mentioned):
        lead = sum(np.ndim(part) if np.asarray(part).dtype.kind == "b" else 1 for part in mentioned)
    places: Any = 0
    for side, along in zip(shape[:lead], np.indices(shape[:lead], sparse=True), strict=True):
        places = places * side + np.broadcast_to(along, shape[:lead])[index]
    return places, lead
