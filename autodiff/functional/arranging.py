"""The same elements in another arrangement: flattened, shifted, turned, copied, spread over a grid."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from ..arguments import reals
from ..node import Array
from ..op import op
from ._samples import SHAPES
from ._twins import operand, twin
from .elementwise import astype

__all__ = [
    "atleast_1d", "atleast_2d", "atleast_3d", "broadcast_arrays", "copy", "fftshift", "fliplr", "flipud", "ifftshift",
    "matrix_transpose", "meshgrid", "ravel", "resize", "roll", "rollaxis", "rot90",
]  # fmt: skip

Numbers: TypeAlias = int | Sequence[int]


@op(linear=True, samples=lambda rng: [(rng.normal(size=shape),) for shape in SHAPES])
def copy(a: Array) -> Array:
    """Copy of an array, recorded: the gradient passes.

    Examples
    --------
    >>> import autodiff as ad
    >>> import autodiff.functional as F
    >>> x = ad.Tensor([1.0, 2.0], requires_grad=True)
    >>> F.copy(x).sum().backward()
    >>> x.grad
    array([1., 1.])
    """
    return np.array(a)


@copy.vjp("a")
def _(g: Array) -> Array:
    # y = a
    return g


@twin("copy")
def _copy(a: Array, order: str = "K", subok: bool = False) -> Array:
    """``np.copy`` of a tensor; the order is one in memory, where results are laid out as NumPy does."""
    return copy(a)


@twin("astype")
def _astype(x: Array, dtype: Any, /, *, copy: bool = True, device: Any = None) -> Array:
    """``np.astype`` of a tensor; results are never written to, so they may share memory."""
    return astype(x, dtype=np.dtype(dtype))


@twin("ravel")
def ravel(a: Array, order: Literal["C", "F"] = "C") -> Array:
    """All elements along one axis.

    Parameters
    ----------
    a : array
        Of any shape.
    order : {"C", "F"}
        Whether the last index runs fastest, or the first. (NumPy's "A" and "K" depend on the layout in memory.)

    Returns
    -------
    array of one axis

    Raises
    ------
    ValueError
        For another order.

    Examples
    --------
    >>> import numpy as np
    >>> import autodiff.functional as F
    >>> F.ravel(np.array([[1.0, 2.0], [3.0, 4.0]]), order="F")
    array([1., 3., 2., 4.])
    """
    return np.reshape(operand(a), -1, order=order)


@twin("matrix_transpose", "linalg.matrix_transpose")
def matrix_transpose(x: Array, /) -> Array:
    """Every matrix transposed: the last two axes swapped.

    Examples
    --------
    >>> import numpy as np
    >>> import autodiff.functional as F
    >>> F.matrix_transpose(np.zeros((2, 3, 4))).shape
    (2, 4, 3)
    """
    if np.ndim(x) < 2:
        raise ValueError(f"matrix_transpose needs at least two axes, the shape is {np.shape(x)}")
    return np.swapaxes(operand(x), -1, -2)


@twin("rollaxis")
def rollaxis(a: Array, axis: int, start: int = 0) -> Array:
    """One axis moved to before the one that was at `start`. `moveaxis` is easier to read."""
    a = operand(a)
    axis = normalize_axis_index(axis, a.ndim)
    if not -a.ndim <= start <= a.ndim:
        raise ValueError(f"rollaxis: start must lie between {-a.ndim} and {a.ndim}, got {start}")
    start += a.ndim if start < 0 else 0
    return np.moveaxis(a, axis, start - (axis < start))


# --- at least so many axes ---


def _each(arrays: tuple[Array, ...], least: int, places: Any) -> Any:
    """Give each array the axes it lacks; return one alone."""
    whole = [operand(array) for array in arrays]
    made = tuple([np.expand_dims(a, places[a.ndim]) if a.ndim < least else a for a in whole])
    return made[0] if len(made) == 1 else made


@twin("atleast_1d")
def atleast_1d(*arys: Array) -> Any:
    """A number as an array of one element; other arrays as they are. Of several, a tuple."""
    return _each(arys, 1, {0: 0})


@twin("atleast_2d")
def atleast_2d(*arys: Array) -> Any:
    """A number or a vector as a matrix of one row; other arrays as they are. Of several, a tuple.

    Examples
    --------
    >>> import numpy as np
    >>> import autodiff.functional as F
    >>> F.atleast_2d(np.ones(3)).shape
    (1, 3)
    """
    return _each(arys, 2, {0: (0, 1), 1: 0})


@twin("atleast_3d")
def atleast_3d(*arys: Array) -> Any:
    """A vector as an array of shape (1, n, 1), a matrix as one of shape (m, n, 1). Of several, a tuple."""
    return _each(arys, 3, {0: (0, 1, 2), 1: (0, 2), 2: 2})


# --- shifted and turned ---


@twin("roll")
def roll(a: Array, shift: Numbers, axis: Numbers | None = None) -> Array:
    """Elements shifted along axes; those that leave at the end come in at the beginning.

    Parameters
    ----------
    a : array
        Of any shape.
    shift : int or tuple of int
        By how much, for each axis.
    axis : int or tuple of int, optional
        Along which axes; one that is named twice is shifted twice. By default, all elements are one row.

    Returns
    -------
    array of the shape of a

    Raises
    ------
    ValueError
        If there is no such axis.

    Examples
    --------
    >>> import autodiff as ad
    >>> import autodiff.functional as F
    >>> x = ad.Tensor([1.0, 2.0, 3.0], requires_grad=True)
    >>> y = F.roll(x, 1)
    >>> y.backward([10.0, 20.0, 30.0])
    >>> y.tolist(), x.grad
    ([3.0, 1.0, 2.0], array([20., 30., 10.]))
    """
    a = operand(a)
    if axis is None:
        return np.reshape(roll(np.reshape(a, -1), shift, 0), a.shape)
    for by, along in np.broadcast(reals("roll: shift=", shift), axis):
        number = normalize_axis_index(int(along), a.ndim)
        cut = -int(by) % (a.shape[number] or 1)
        if cut:
            before = (slice(None),) * number
            a = np.concatenate([a[(*before, slice(cut, None))], a[(*before, slice(cut))]], axis=number)
    return a


@twin("fft.fftshift")
def fftshift(x: Array, axes: Numbers | None = None) -> Array:
    """Elements shifted by half of each length, as the zero frequency comes into the middle of a spectrum.

    Parameters
    ----------
    x : array
        Of any shape.
    axes : int or tuple of int, optional
        Along which axes; by default, along all.

    Returns
    -------
    array of the shape of x

    Examples
    --------
    >>> import numpy as np
    >>> import autodiff.functional as F
    >>> F.fftshift(np.array([0.0, 1.0, 2.0, -2.0, -1.0]))
    array([-2., -1.,  0.,  1.,  2.])
    """
    x = operand(x)
    along = _numbers(range(x.ndim) if axes is None else axes)
    return roll(x, tuple(x.shape[axis] // 2 for axis in along), along)


@twin("fft.ifftshift")
def ifftshift(x: Array, axes: Numbers | None = None) -> Array:
    """Inverse of `fftshift`, from which it differs where a length is odd."""
    x = operand(x)
    along = _numbers(range(x.ndim) if axes is None else axes)
    return roll(x, tuple(-(x.shape[axis] // 2) for axis in along), along)


def _numbers(axes: Any) -> tuple[int, ...]:
    return tuple(np.atleast_1d(axes).tolist())


@twin("flipud")
def flipud(m: Array) -> Array:
    """Rows (positions along the first axis) in reverse order."""
    return np.flip(operand(m), 0)


@twin("fliplr")
def fliplr(m: Array) -> Array:
    """Columns (positions along the second axis) in reverse order."""
    if np.ndim(m) < 2:
        raise ValueError(f"fliplr reverses the second axis; the shape is {np.shape(m)}")
    return np.flip(operand(m), 1)


@twin("rot90")
def rot90(m: Array, k: int = 1, axes: tuple[int, int] = (0, 1)) -> Array:
    """Turned by right angles, k times, from the first of two axes towards the second.

    Raises
    ------
    ValueError
        If these are not two different axes.

    Examples
    --------
    >>> import numpy as np
    >>> import autodiff.functional as F
    >>> F.rot90(np.array([[1, 2], [3, 4]]))
    array([[2, 4],
           [1, 3]])
    """
    m = operand(m)
    first, second = axes
    if not all(-m.ndim <= axis < m.ndim for axis in axes) or first % m.ndim == second % m.ndim:
        raise ValueError(f"rot90: axes={axes} are not two different axes of an array with {m.ndim}")
    if k % 4 == 2:
        return np.flip(m, (first, second))
    if k % 4 == 1:
        return np.swapaxes(np.flip(m, second), first, second)
    return np.flip(np.swapaxes(m, first, second), second) if k % 4 else m


# --- repeated ---


@twin("resize")
def resize(a: Array, new_shape: Numbers) -> Array:
    """Elements in row-major order, from the beginning again when they run out, until a new shape is full.

    Examples
    --------
    >>> import numpy as np
    >>> import autodiff.functional as F
    >>> F.resize(np.array([1.0, 2.0, 3.0]), (2, 2))
    array([[1., 2.],
           [3., 1.]])
    """
    shape = (new_shape,) if isinstance(new_shape, (int, np.integer)) else tuple(new_shape)
    if any(side < 0 for side in shape):
        raise ValueError(f"resize: no length of new_shape may be negative, got {new_shape}")
    a, size = operand(a), math.prod(shape)
    if not a.size:  # there is nothing to repeat, so NumPy fills with zeros
        return np.reshape(np.concatenate([np.reshape(a, -1), np.zeros(size, a.dtype)]), shape)
    return np.take(a, np.arange(size).reshape(shape) % a.size)


@twin("broadcast_arrays")
def broadcast_arrays(*args: Array, subok: bool = False) -> tuple[Array, ...]:
    """All arrays repeated to their common shape.

    Examples
    --------
    >>> import numpy as np
    >>> import autodiff.functional as F
    >>> [a.shape for a in F.broadcast_arrays(np.ones((3, 1)), np.ones(4))]
    [(3, 4), (3, 4)]
    """
    arrays = [operand(arg) for arg in args]
    shape = np.broadcast_shapes(*[array.shape for array in arrays])
    return tuple([np.broadcast_to(array, shape) for array in arrays])


@twin("meshgrid")
def meshgrid(
    *xi: Array, copy: bool = True, sparse: bool = False, indexing: Literal["xy", "ij"] = "xy"
) -> tuple[Array, ...]:
    """Coordinates of all points of a grid, from those along each axis.

    Parameters
    ----------
    *xi : array of one axis, or number
        The coordinates along each axis.
    copy : bool
        Accepted as in NumPy: results are never written to.
    sparse : bool
        Leave out the repetition along the other axes: they have length one.
    indexing : {"xy", "ij"}
        Whether the first two axes are exchanged, so that x runs along rows.

    Returns
    -------
    tuple of arrays, one for each axis

    Raises
    ------
    ValueError
        For another indexing.

    Examples
    --------
    >>> import numpy as np
    >>> import autodiff.functional as F
    >>> [a.shape for a in F.meshgrid(np.arange(2.0), np.arange(3.0))]
    [(3, 2), (3, 2)]
    """
    if indexing not in ("xy", "ij"):
        raise ValueError(f"meshgrid: indexing must be 'xy' or 'ij', got {indexing!r}")
    order = list(range(len(xi)))
    if indexing == "xy" and len(xi) > 1:
        order[:2] = [1, 0]
    grid = []
    for along, x in zip(order, xi, strict=True):
        grid.append(np.reshape(operand(x), [-1 if i == along else 1 for i in range(len(xi))]))
    return tuple(grid) if sparse else broadcast_arrays(*grid)
