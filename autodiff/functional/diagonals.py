"""Diagonals of matrices: taken out, added up, put in."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from ..node import Array
from ._twins import operand, twin
from .indexing import getitem, scatter_add

__all__ = ["diag", "diagflat", "diagonal", "trace", "vander"]


def _places(rows: int, columns: int, offset: int) -> tuple[Any, Any]:
    """Row and column numbers of a diagonal."""
    offset = operator.index(offset)
    first = np.arange(max(min(rows + min(offset, 0), columns - max(offset, 0)), 0))
    return first + max(-offset, 0), first + max(offset, 0)


@twin("diagonal")
def diagonal(a: Array, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Array:
    """Diagonal of a matrix, or of every matrix in a stack.

    Parameters
    ----------
    a : array
        Of at least two axes; the matrices need not be square.
    offset : int
        Which diagonal: 0 is the main one, positive ones lie above it.
    axis1, axis2 : int
        Rows and columns.

    Returns
    -------
    array
        Without these two axes, and with one for the diagonal at the end.

    Raises
    ------
    ValueError
        If there are no two axes.

    Examples
    --------
    >>> import numpy as np
    >>> import autodiff.functional as F
    >>> F.diagonal(np.array([[1.0, 2.0], [3.0, 4.0]]))
    array([1., 4.])
    """
    if np.ndim(a) < 2:
        raise ValueError(f"a diagonal needs two axes; the shape is {np.shape(a)}")
    matrices = np.moveaxis(operand(a), (axis1, axis2), (-2, -1))
    rows, columns = matrices.shape[-2:]
    return getitem(matrices, index=(..., *_places(rows, columns, offset)))


@twin("trace")
def trace(a: Array, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None) -> Array:
    """Sum along a diagonal of a matrix, or of every matrix in a stack.

    Parameters
    ----------
    a : array
        Of at least two axes; the matrices need not be square.
    offset : int
        Which diagonal: 0 is the main one, positive ones lie above it.
    axis1, axis2 : int
        Rows and columns.
    dtype : dtype, optional
        In which to add.

    Returns
    -------
    array

    Examples
    --------
    >>> import numpy as np
    >>> import autodiff as ad
    >>> import autodiff.functional as F
    >>> x = ad.Tensor(np.arange(6.0).reshape(3, 2), requires_grad=True)
    >>> F.trace(x).backward()
    >>> x.grad
    array([[1., 0.],
           [0., 1.],
           [0., 0.]])
    """
    along = diagonal(a, offset, axis1, axis2)
    return np.sum(along, axis=-1, dtype=dtype)


@twin("diag")
def diag(v: Array, k: int = 0) -> Array:
    """Matrix with a vector on its diagonal, and zeros elsewhere; of a matrix, its diagonal.

    Parameters
    ----------
    v : array of one axis or two
    k : int
        Which diagonal: 0 is the main one, positive ones lie above it.

    Returns
    -------
    array of two axes or one

    Raises
    ------
    ValueError
        If `v` is neither a vector nor a matrix.

    Examples
    --------
    >>> import autodiff as ad
    >>> import autodiff.functional as F
    >>> x = ad.Tensor([1.0, 2.0], requires_grad=True)
    >>> y = F.diag(x)
    >>> y.tolist()
    [[1.0, 0.0], [0.0, 2.0]]
    >>> y.backward([[1.0, 2.0], [3.0, 4.0]])
    >>> x.grad
    array([1., 4.])
    """
    if np.ndim(v) not in (1, 2):
        raise ValueError(f"diag is of a vector or a matrix, not of shape {np.shape(v)}")
    if np.ndim(v) == 2:
        return diagonal(v, k)
    v, k = operand(v), operator.index(k)
    side = len(v) + abs(k)
    return scatter_add(v, index=_places(side, side, k), shape=(side, side))


@twin("diagflat")
def diagflat(v: Array, k: int = 0) -> Array:
    """Matrix with all elements, in row-major order, on its diagonal, and zeros elsewhere.

    Examples
    --------
    >>> import autodiff.functional as F
    >>> F.diagflat([[1.0, 2.0]])
    array([[1., 0.],
           [0., 2.]])
    """
    return diag(np.reshape(operand(v), -1), k)


@twin("vander")
def vander(x: Array, N: int | None = None, increasing: bool = False) -> Array:
    """Vandermonde matrix: the powers of an element in each row, from the highest to the 0th.

    Parameters
    ----------
    x : array of one axis
    N : int, optional
        How many powers; by default as many as elements.
    increasing : bool
        From the 0th to the highest instead.

    Returns
    -------
    array of shape (len(x), N)

    Raises
    ------
    ValueError
        If `x` is not a vector.

    Examples
    --------
    >>> import numpy as np
    >>> import autodiff.functional as F
    >>> F.vander(np.array([2.0, 3.0]), 3)
    array([[4., 2., 1.],
           [9., 3., 1.]])
    """
    if np.ndim(x) != 1:
        raise ValueError(f"vander is of a vector, not of shape {np.shape(x)}")
    x = operand(x)
    powers = np.arange(len(x) if N is None else N)
    return np.expand_dims(x, 1) ** (powers if increasing else powers[::-1])


# --- under the names of np.linalg, of the matrices in the last two axes ---


@twin("linalg.diagonal")
def _diagonal(x: Array, /, *, offset: int = 0) -> Array:
    return diagonal(x, offset, -2, -1)


@twin("linalg.trace")
def _trace(x: Array, /, *, offset: int = 0, dtype: Any = None) -> Array:
    return trace(x, offset, -2, -1, dtype)
