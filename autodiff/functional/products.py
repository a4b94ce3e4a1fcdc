"""Products of vectors, matrices and tensors, composed of `matmul` and the elementwise product."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from ..node import Array
from ._twins import operand, twin

__all__ = ["cross", "dot", "inner", "kron", "matvec", "outer", "tensordot", "vdot", "vecdot", "vecmat"]

Axes: TypeAlias = int | Sequence[Any]


@twin("dot")
def dot(a: Array, b: Array) -> Array:
    """Dot product: sums over the last axis of `a` and the last but one of `b` (the last, if it is a vector).

    Parameters
    ----------
    a, b : array
        Of any shapes; for two matrices, it is their product. Numbers just multiply.

    Returns
    -------
    array
        With the other axes of `a`, then those of `b`: unlike in `matmul`, they do not broadcast.

    Raises
    ------
    ValueError
        If the lengths differ.

    Examples
    --------
    >>> import autodiff as ad
    >>> import autodiff.functional as F
    >>> x = ad.Tensor([1.0, 2.0], requires_grad=True)
    >>> F.dot(x, x).backward()
    >>> x.grad
    array([2., 4.])
    """
    a, b = operand(a), operand(b)
    if not a.ndim or not b.ndim:
        return a * b
    return np.matmul(a, b) if b.ndim <= 2 else tensordot(a, b, axes=((-1,), (-2,)))


@twin("inner")
def inner(a: Array, b: Array, /) -> Array:
    """Inner product: sums over the last axes of both. Numbers just multiply.

    Examples
    --------
    >>> import numpy as np
    >>> import autodiff.functional as F
    >>> F.inner(np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([10.0, 1.0]))
    array([12., 34.])
    """
    a, b = operand(a), operand(b)
    return tensordot(a, b, axes=((-1,), (-1,))) if a.ndim and b.ndim else a * b


@twin("vdot")
def vdot(a: Array, b: Array, /) -> Array:
    """Sum of the products of all elements, in row-major order whatever the shapes.

    Examples
    --------
    >>> import numpy as np
    >>> import autodiff.functional as F
    >>> F.vdot(np.ones((2, 2)), np.arange(4.0)).item()
    6.0
    """
    return np.matmul(_flat(a), _flat(b))


@twin("outer")
def outer(a: Array, b: Array) -> Array:
    """Outer product: the product of every element of `a`, a row each, with every element of `b`.

    Examples
    --------
    >>> import numpy as np
    >>> import autodiff.functional as F
    >>> F.outer(np.array([1.0, 2.0]), np.array([1.0, 10.0]))
    array([[ 1., 10.],
           [ 2., 20.]])
    """
    return np.expand_dims(_flat(a), 1) * _flat(b)


def _flat(a: Array) -> Array:
    return np.reshape(operand(a), -1)


@twin("tensordot", "linalg.tensordot")
def tensordot(a: Array, b: Array, axes: Axes = 2) -> Array:
    """Sum of products over pairs of axes.

    Parameters
    ----------
    a, b : array
        Of any shapes.
    axes : int, or pair of int or of sequences of int
        Which axes of `a` and of `b` run together; a number n for the last n of `a` and the first n of `b`.

    Returns
    -------
    array
        With the other axes of `a`, then those of `b`.

    Raises
    ------
    ValueError
        If the axes do not pair, or differ in length.

    Examples
    --------
    >>> import numpy as np
    >>> import autodiff.functional as F
    >>> F.tensordot(np.ones((2, 3, 4)), np.ones((4, 3, 5)), axes=([1, 2], [1, 0])).shape
    (2, 5)
    """
    a, b = operand(a), operand(b)
    if isinstance(axes, (int, np.integer)):
        if not 0 <= axes <= min(a.ndim, b.ndim):
            raise ValueError(f"tensordot: axes={axes} is not between 0 and {min(a.ndim, b.ndim)}, the axes there are")
        pairs: list[list[int]] = [list(range(a.ndim - int(axes), a.ndim)), list(range(int(axes)))]
    else:
        pairs = [np.atleast_1d(np.asarray(one, int)).tolist() for one in axes]
    own, other = pairs
    if len(own) != len(other) or any(a.shape[i] != b.shape[j] for i, j in zip(own, other, strict=True)):
        raise ValueError(f"tensordot: shapes {a.shape} and {b.shape} do not fit with axes={axes}")
    own, other = [i % a.ndim for i in own], [j % b.ndim for j in other]
    rows, columns = [i for i in range(a.ndim) if i not in own], [j for j in range(b.ndim) if j not in other]
    count = math.prod(a.shape[i] for i in own)
    kept = [a.shape[i] for i in rows], [b.shape[j] for j in columns]
    left = np.reshape(np.transpose(a, rows + own), (math.prod(kept[0]), count))
    right = np.reshape(np.transpose(b, other + columns), (count, math.prod(kept[1])))
    return np.reshape(np.matmul(left, right), (*kept[0], *kept[1]))


@twin("kron")
def kron(a: Array, b: Array) -> Array:
    """Kronecker product: a copy of `b` in place of every element of `a`, multiplied by it.

    Parameters
    ----------
    a, b : array
        Of any shapes; the one with fewer axes gets axes of length one in front.

    Returns
    -------
    array
        Its lengths are the products of theirs.

    Examples
    --------
    >>> import numpy as np
    >>> import autodiff.functional as F
    >>> F.kron(np.array([1.0, 10.0]), np.array([1.0, 2.0, 3.0]))
    array([ 1.,  2.,  3., 10., 20., 30.])
    """
    a, b = operand(a), operand(b)
    rank = max(a.ndim, b.ndim)
    sides = [(1,) * (rank - x.ndim) + x.shape for x in (a, b)]
    a = np.reshape(a, [length for side in sides[0] for length in (side, 1)])
    b = np.reshape(b, [length for side in sides[1] for length in (1, side)])
    return np.reshape(a * b, [one * other for one, other in zip(*sides, strict=True)])


@twin("cross")
def cross(a: Array, b: Array, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None) -> Array:
    """Cross product of vectors of three components; one that has only two lies in the plane.

    Parameters
    ----------
    a, b : array
        Vectors; their other axes broadcast.
    axisa, axisb, axisc : int
        The axis of the components in `a`, in `b`, and in the result.
    axis : int, optional
        In place of these three.

    Returns
    -------
    array
        If both have two components, only the third one of the result, without an axis for it.

    Raises
    ------
    ValueError
        If there are neither two nor three components.

    Examples
    --------
    >>> import autodiff as ad
    >>> import autodiff.functional as F
    >>> x = ad.Tensor([1.0, 0.0, 0.0], requires_grad=True)
    >>> y = F.cross(x, [0.0, 1.0, 0.0])
    >>> y.backward([1.0, 2.0, 3.0])
    >>> y.tolist(), x.grad
    ([0.0, 0.0, 1.0], array([ 3.,  0., -1.]))
    """
    a, b = operand(a), operand(b)
    if axis is not None:
        axisa = axisb = axisc = axis
    a, b = np.moveaxis(a, axisa, -1), np.moveaxis(b, axisb, -1)
    if a.shape[-1] not in (2, 3) or b.shape[-1] not in (2, 3):
        raise ValueError(f"cross: vectors have two components or three, not {a.shape[-1]} and {b.shape[-1]}")
    plane = a.shape[-1] == b.shape[-1] == 2
    a0, a1, a2 = _components(a)
    b0, b1, b2 = _components(b)
    third = a0 * b1 - a1 * b0
    if plane:
        return third
    return np.stack([a1 * b2 - a2 * b1, a2 * b0 - a0 * b2, third], axis=axisc)


def _components(a: Array) -> tuple[Array, Array, Array]:
    return a[..., 0], a[..., 1], a[..., 2] if a.shape[-1] == 3 else 0 * a[..., 0]


# --- one vector, or matrix, for each position of the other axes ---


@twin("vecdot", "linalg.vecdot")
def vecdot(x1: Array, x2: Array, /, *, axis: int = -1, keepdims: bool = False) -> Array:
    """Dot products of vectors along an axis; the other axes broadcast.

    Examples
    --------
    >>> import numpy as np
    >>> import autodiff.functional as F
    >>> F.vecdot(np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([10.0, 1.0]))
    array([12., 34.])
    """
    x1, x2 = np.moveaxis(operand(x1), axis, -1), np.moveaxis(operand(x2), axis, -1)
    if x1.shape[-1] != x2.shape[-1]:
        raise ValueError(f"vecdot: vectors of {x1.shape[-1]} and of {x2.shape[-1]} components")
    result = np.matmul(np.expand_dims(x1, -2), np.expand_dims(x2, -1))[..., 0, 0]
    return np.expand_dims(result, axis) if keepdims else result


@twin("matvec")
def matvec(x1: Array, x2: Array, /) -> Array:
    """Products of matrices, in the last two axes of `x1`, with vectors, in the last of `x2`; other axes broadcast.

    Examples
    --------
    >>> import numpy as np
    >>> import autodiff.functional as F
    >>> F.matvec(np.ones((2, 3)), np.ones((4, 3))).shape
    (4, 2)
    """
    x1, x2 = operand(x1), operand(x2)
    if x1.ndim < 2:
        raise ValueError(f"matvec takes matrices first, of at least two axes; the shape is {x1.shape}")
    return np.squeeze(np.matmul(x1, np.expand_dims(x2, -1)), -1)


@twin("vecmat")
def vecmat(x1: Array, x2: Array, /) -> Array:
    """Products of vectors, in the last axis of `x1`, with matrices, in the last two of `x2`; other axes broadcast.

    Examples
    --------
    >>> import numpy as np
    >>> import autodiff.functional as F
    >>> F.vecmat(np.ones((4, 2)), np.ones((2, 3))).shape
    (4, 3)
    """
    x1, x2 = operand(x1), operand(x2)
    if x2.ndim < 2:
        raise ValueError(f"vecmat takes matrices second, of at least two axes; the shape is {x2.shape}")
    return np.squeeze(np.matmul(np.expand_dims(x1, -2), x2), -2)


# --- under the names of np.linalg, which asks more of the shapes ---


@twin("linalg.matmul")
def _matmul(x1: Array, x2: Array, /) -> Array:
    return np.matmul(operand(x1), operand(x2))


@twin("linalg.outer")
def _outer(x1: Array, x2: Array, /) -> Array:
    if np.ndim(x1) != 1 or np.ndim(x2) != 1:
        raise ValueError(f"np.linalg.outer is of two vectors, not of shapes {np.shape(x1)} and {np.shape(x2)}")
    return outer(x1, x2)


@twin("linalg.cross")
def _cross(x1: Array, x2: Array, /, *, axis: int = -1) -> Array:
    if np.shape(x1)[axis] != 3 or np.shape(x2)[axis] != 3:
        raise ValueError(f"np.linalg.cross is of vectors of three components, not {np.shape(x1)} and {np.shape(x2)}")
    return cross(x1, x2, axis=axis)
