"""Functions composed of the primitives: their gradients need no rule of their own."""

from __future__ import annotations

import numpy as np

from ..node import TWINS, Array
from .indexing import getitem
from .shape import moveaxis

__all__ = ["diff", "trace"]


def diff(a: Array, n: int = 1, axis: int = -1) -> Array:
    """Differences of neighbours along an axis, n times.

    Parameters
    ----------
    a : array
        Of at least one axis.
    n : int
        How often.
    axis : int
        Along which axis.

    Returns
    -------
    array
        The axis is n shorter, but never shorter than 0.

    Raises
    ------
    ValueError
        If `n` is negative, or there is no axis.

    Examples
    --------
    >>> import autodiff as ad
    >>> import autodiff.functional as F
    >>> x = ad.Tensor([1.0, 4.0, 9.0], requires_grad=True)
    >>> y = F.diff(x)
    >>> y.sum().backward()
    >>> y.tolist(), x.grad
    ([3.0, 5.0], array([-1.,  0.,  1.]))
    """
    if n < 0 or not np.ndim(a):
        raise ValueError(f"diff takes n >= 0 differences along an axis; got n={n} and the shape {np.shape(a)}")
    before = [slice(None)] * np.ndim(a)
    after = list(before)
    before[axis], after[axis] = slice(None, -1), slice(1, None)
    for _ in range(n):
        a = getitem(a, index=tuple(after)) - getitem(a, index=tuple(before))
    return a


def trace(a: Array, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Array:
    """Sum along a diagonal of a matrix, or of every matrix in a stack.

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
    matrices = moveaxis(a, source=(axis1, axis2), destination=(-2, -1))
    rows, columns = np.shape(matrices)[-2:]
    count = max(min(rows + min(offset, 0), columns - max(offset, 0)), 0)
    first = np.arange(count)
    diagonal = getitem(matrices, index=(..., first + max(-offset, 0), first + max(offset, 0)))
    return diagonal.sum(axis=-1)


TWINS[np.diff] = diff
TWINS[np.trace] = trace
