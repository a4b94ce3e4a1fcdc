"""Shape: the same elements in another arrangement.

These ops only give every element another position, so their derivations are one sentence each: the cotangent takes the
way back. The results are views where NumPy gives views, and read-only then.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from ..node import TWINS, Array
from ..op import op, save

__all__ = ["expand_dims", "flip", "moveaxis", "reshape", "squeeze", "swapaxes", "transpose"]

Axes: TypeAlias = int | Sequence[int]


@op(
    linear=True,
    samples=lambda rng: [
        (rng.normal(size=(2, 6)), {"shape": (3, 4)}),
        (rng.normal(size=(3, 3)), {"shape": (9,)}),
        (rng.normal(size=(2, 3, 2)), {"shape": (2, -1)}),
        (rng.normal(size=(4, 3)).T, {"shape": 12}),
        (rng.normal(size=()), {"shape": (1, 1)}),
        (rng.normal(size=(1, 1)), {"shape": ()}),
        (rng.normal(size=(0, 3)), {"shape": (3, 0, 2)}),
    ],
    error_samples=[((np.ones((2, 3)), {"shape": (4, 2)}), ValueError), ((np.ones(3), {"shape": (-1, -1)}), ValueError)],
)
def reshape(a: Array, *, shape: Axes) -> Array:
    """Same elements, in row-major order, in a new shape.

    Parameters
    ----------
    a : array
        Of any shape.
    shape : int or tuple of int
        The new shape, of as many elements. One length may be -1: it follows from the others.

    Returns
    -------
    array of that shape

    Raises
    ------
    ValueError
        If the number of elements differs.

    Examples
    --------
    >>> import autodiff as ad
    >>> import autodiff.functional as F
    >>> x = ad.Tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    >>> F.reshape(x, shape=-1).backward([1.0, 2.0, 3.0, 4.0])
    >>> x.grad
    array([[1., 2.],
           [3., 4.]])
    """
    a = np.asarray(a)
    return save(a.reshape(shape), original=a.shape)


@reshape.vjp("a")
def _(g: Array, original: tuple[int, ...]) -> Array:
    # y_n = a_n in row-major order: the same numbering leads back
    return g.reshape(original)


def _numpy_reshape(a: Array, shape: Axes, order: str | None = "C", *, copy: bool | None = None) -> Array:
    """``np.reshape`` of a tensor: NumPy 2.0 has another name for the shape, so it cannot be matched by name.

    `copy` makes no difference: nothing is written into a result.
    """
    if order == "F":  # column-major order is the row-major one of the transposed arrays
        lengths = [shape] if isinstance(shape, int) else list(shape)
        return transpose(reshape(transpose(a), shape=tuple(lengths[::-1])))
    if order not in ("C", None):
        raise ValueError(f"np.reshape on a tensor takes order='C' or 'F': {order!r} depends on the layout in memory")
    return reshape(a, shape=shape)


TWINS[np.reshape] = _numpy_reshape


@op(
    numpy=np.transpose,
    linear=True,
    samples=lambda rng: [
        (rng.normal(size=(2, 3)),),
        (rng.normal(size=(3, 3)),),
        (rng.normal(size=(2, 3, 4)), {"axes": (1, 2, 0)}),
        (rng.normal(size=(3, 3, 3)), {"axes": (2, 0, 1)}),
        (rng.normal(size=(2, 3, 4)), {"axes": (0, -1, 1)}),
        (rng.normal(size=(2, 3)), {"axes": (-1, -2)}),
        (rng.normal(size=()),),
        (rng.normal(size=3), {"axes": 0}),
        (rng.normal(size=(1, 1)), {"axes": (1, 0)}),
        (rng.normal(size=(0, 3)), {"axes": (1, 0)}),
    ],
    error_samples=[((np.ones((2, 3)), {"axes": (0, 0)}), ValueError), ((np.ones((2, 3)), {"axes": (0,)}), ValueError)],
)
def transpose(a: Array, *, axes: Axes | None = None) -> Array:
    """Axes in a new order.

    Parameters
    ----------
    a : array
        Of any shape.
    axes : tuple of int, optional
        Axis k of the result is axis ``axes[k]`` of `a`; negative ones count from the end. By default the order is
        reversed.

    Returns
    -------
    array, a view of a

    Raises
    ------
    ValueError
        If `axes` is not a permutation.

    Examples
    --------
    >>> import numpy as np
    >>> import autodiff.functional as F
    >>> F.transpose(np.zeros((2, 3, 4)), axes=(1, 2, 0)).shape
    (3, 4, 2)
    """
    return np.transpose(a, axes)


@transpose.vjp("a")
def _(g: Array, axes: Axes | None) -> Array:
    # y has axis axes[k] of a in place k, so axis i of a is found in y at the place k with axes[k] = i: the inverse
    # permutation. It exists only between numbers from 0 up, so negative axes are counted from the front first.
    if axes is None:
        return np.transpose(g)
    order = [axis % g.ndim for axis in ([axes] if isinstance(axes, int) else axes)]
    return np.transpose(g, tuple(sorted(range(g.ndim), key=order.__getitem__)))


@op(
    numpy=np.swapaxes,
    linear=True,
    samples=lambda rng: [
        (rng.normal(size=(2, 3, 4)), {"axis1": 0, "axis2": 2}),
        (rng.normal(size=(3, 3, 3)), {"axis1": -1, "axis2": -2}),
        (rng.normal(size=(2, 3)), {"axis1": 1, "axis2": 1}),
        (rng.normal(size=1), {"axis1": 0, "axis2": -1}),
        (rng.normal(size=(2, 0)), {"axis1": 0, "axis2": 1}),
    ],
    error_samples=[((np.ones((2, 3)), {"axis1": 0, "axis2": 2}), ValueError)],
)
def swapaxes(a: Array, *, axis1: int, axis2: int) -> Array:
    """Two axes exchanged.

    Parameters
    ----------
    a : array
        Of any shape.
    axis1, axis2 : int
        The axes; negative ones count from the end.

    Returns
    -------
    array, a view of a

    Raises
    ------
    ValueError
        If there is no such axis.

    Examples
    --------
    >>> import numpy as np
    >>> import autodiff.functional as F
    >>> F.swapaxes(np.zeros((2, 3, 4)), axis1=-1, axis2=-2).shape
    (2, 4, 3)
    """
    return np.swapaxes(a, axis1, axis2)


@swapaxes.vjp("a")
def _(g: Array, axis1: int, axis2: int) -> Array:
    # an exchange is its own inverse
    return np.swapaxes(g, axis1, axis2)


@op(
    numpy=np.moveaxis,
    linear=True,
    samples=lambda rng: [
        (rng.normal(size=(2, 3, 4)), {"source": 0, "destination": -1}),
        (rng.normal(size=(2, 3, 4)), {"source": (0, 1), "destination": (-1, 0)}),
        (rng.normal(size=(3, 3, 3)), {"source": [2, 0], "destination": [0, 1]}),
        (rng.normal(size=1), {"source": 0, "destination": 0}),
        (rng.normal(size=(0, 2)), {"source": 1, "destination": 0}),
    ],
    error_samples=[
        ((np.ones((2, 3)), {"source": 2, "destination": 0}), ValueError),
        ((np.ones((2, 3)), {"source": (0, 0), "destination": (0, 1)}), ValueError),
        ((np.ones((2, 3)), {"source": (0, 1), "destination": 0}), ValueError),
    ],
)
def moveaxis(a: Array, *, source: Axes, destination: Axes) -> Array:
    """Some axes moved to new places, the others in their order.

    Parameters
    ----------
    a : array
        Of any shape.
    source, destination : int or sequence of int
        Where the axes are and where they go; negative ones count from the end.

    Returns
    -------
    array, a view of a

    Raises
    ------
    ValueError
        If there is no such axis, one is named twice, or the two differ in number.

    Examples
    --------
    >>> import numpy as np
    >>> import autodiff.functional as F
    >>> F.moveaxis(np.zeros((2, 3, 4)), source=0, destination=-1).shape
    (3, 4, 2)
    """
    return np.moveaxis(a, source, destination)


@moveaxis.vjp("a")
def _(g: Array, source: Axes, destination: Axes) -> Array:
    # the axes go back to where they came from, and the others kept their order both ways
    return np.moveaxis(g, destination, source)


@op(
    numpy=np.expand_dims,
    linear=True,
    samples=lambda rng: [
        (rng.normal(size=(2, 3)), {"axis": 0}),
        (rng.normal(size=(3, 3)), {"axis": -1}),
        (rng.normal(size=(2, 3)), {"axis": (0, -2)}),
        (rng.normal(size=2), {"axis": [0, 2]}),
        (rng.normal(size=()), {"axis": 0}),
        (rng.normal(size=0), {"axis": (1, 2)}),
        (rng.normal(size=1), {"axis": ()}),
    ],
    error_samples=[((np.ones(3), {"axis": 2}), ValueError), ((np.ones(3), {"axis": (0, 0)}), ValueError)],
)
def expand_dims(a: Array, *, axis: Axes) -> Array:
    """New axes of length one.

    Parameters
    ----------
    a : array
        Of any shape.
    axis : int or tuple of int
        Where they are in the result; negative ones count from its end.

    Returns
    -------
    array, a view of a

    Raises
    ------
    ValueError
        If the result has no such axis, or one is named twice.

    Examples
    --------
    >>> import numpy as np
    >>> import autodiff.functional as F
    >>> F.expand_dims(np.zeros((2, 3)), axis=(0, -1)).shape
    (1, 2, 3, 1)
    """
    return np.expand_dims(a, axis)


@expand_dims.vjp("a")
def _(g: Array, axis: Axes) -> Array:
    # an axis of length one adds no elements: it is taken out again
    return np.squeeze(g, tuple(axis) if isinstance(axis, list) else axis)


@op(
    numpy=np.squeeze,
    linear=True,
    samples=lambda rng: [
        (rng.normal(size=(1, 3, 1)),),
        (rng.normal(size=(1, 3, 1)), {"axis": 0}),
        (rng.normal(size=(1, 3, 1)), {"axis": (0, -1)}),
        (rng.normal(size=(3, 3)),),
        (rng.normal(size=()),),
        (rng.normal(size=(1, 1)),),
        (rng.normal(size=(1, 0)), {"axis": -2}),
    ],
    error_samples=[((np.ones((2, 1)), {"axis": 0}), ValueError)],
)
def squeeze(a: Array, *, axis: Axes | None = None) -> Array:
    """Axes of length one removed.

    Parameters
    ----------
    a : array
        Of any shape.
    axis : int or tuple of int, optional
        Which ones; by default all.

    Returns
    -------
    array, a view of a

    Raises
    ------
    ValueError
        If one of the axes given is longer than one.

    Examples
    --------
    >>> import numpy as np
    >>> import autodiff.functional as F
    >>> F.squeeze(np.zeros((1, 3, 1)), axis=0).shape
    (3, 1)
    """
    return save(np.squeeze(a, axis), original=np.shape(a))


@squeeze.vjp("a")
def _(g: Array, original: tuple[int, ...]) -> Array:
    # the axes come back where they were
    return g.reshape(original)


@op(
    numpy=np.flip,
    linear=True,
    samples=lambda rng: [
        (rng.normal(size=(2, 3)),),
        (rng.normal(size=(3, 3)), {"axis": 0}),
        (rng.normal(size=(2, 3, 2)), {"axis": (0, -1)}),
        (rng.normal(size=()),),
        (rng.normal(size=1), {"axis": -1}),
        (rng.normal(size=(0, 2)), {"axis": 1}),
    ],
    error_samples=[((np.ones(3), {"axis": 1}), ValueError)],
)
def flip(m: Array, *, axis: int | tuple[int, ...] | None = None) -> Array:
    """Elements in reverse order along some axes.

    Parameters
    ----------
    m : array
        Of any shape.
    axis : int or tuple of int, optional
        Along which axes; by default all.

    Returns
    -------
    array of the shape of m, a view of it

    Raises
    ------
    ValueError
        If there is no such axis.

    Examples
    --------
    >>> import numpy as np
    >>> import autodiff.functional as F
    >>> F.flip(np.array([[1, 2], [3, 4]]), axis=1)
    array([[2, 1],
           [4, 3]])
    """
    return np.flip(m, axis)


@flip.vjp("m")
def _(g: Array, axis: int | tuple[int, ...] | None) -> Array:
    # a reversal is its own inverse
    return np.flip(g, axis)
