"""Look-up of rows in a table."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..node import Array
from ..op import op, save
from ..protocols import to_array
from ._blocks import any_outside, shape_of

__all__ = ["embedding"]


@op(
    linear=True,
    samples=lambda rng: [
        (rng.normal(size=(5, 3)), np.array([0, 2, 0, 4, 2, 0])),
        (rng.normal(size=(3, 3)), np.array([[2, 1, 2], [1, 1, 2]])),
        (rng.normal(size=(4, 2)), np.array([[[3], [0]]], np.int32)),
        (rng.normal(size=(4, 3)), np.array(2)),
        (rng.normal(size=(4, 3)), 1),
        (rng.normal(size=(1, 1)), np.array([0, 0])),
        (rng.normal(size=(3, 2)), np.zeros((2, 0), int)),
        (rng.normal(size=(3, 0)), np.array([1, 2])),
    ],
    error_samples=[
        ((np.ones((3, 2)), np.array([0, 3])), ValueError),
        ((np.ones((3, 2)), np.array([-1])), ValueError),
        ((np.ones((0, 2)), np.array([0])), ValueError),
        ((np.ones(3), np.array([0])), ValueError),
        ((np.ones((3, 2)), np.array([0.0])), TypeError),
        ((np.ones((3, 2)), np.array([True])), TypeError),
    ],
)
def embedding(table: Array, ids: Array) -> Array:
    """Rows of a table.

    Parameters
    ----------
    table : array of shape (V, d)
        One row for each of V tokens.
    ids : integer array of any shape
        Row numbers from 0 to V - 1.

    Returns
    -------
    array of shape (*ids.shape, d)

    Raises
    ------
    ValueError
        If an id is negative or not less than V. (Counting from the end, as NumPy's indexing does, would hide mistakes.)
    TypeError
        If the ids are not integers.

    Notes
    -----
    The gradient of a row is the sum over the places where it was used, and exactly zero for one that was not.

    Examples
    --------
    >>> import autodiff as ad
    >>> import autodiff.functional as F
    >>> table = ad.Tensor([[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]], requires_grad=True)
    >>> rows = F.embedding(table, [0, 2, 0])
    >>> rows.tolist()
    [[0.0, 1.0], [4.0, 5.0], [0.0, 1.0]]
    >>> rows.sum().backward()
    >>> table.grad
    array([[2., 2.],
           [0., 0.],
           [1., 1.]])
    """
    return save(table.take(_row_numbers(table, ids), axis=0), count=len(table))


@embedding.vjp("table")
def _(g: Array, ids: Array, count: int) -> Array:
    # y_n = E[ids_n], so dE[v] = sum over the n with ids_n = v of g_n: a scatter-add, the transpose of the look-up.
    # Sorting brings equal ids together, and each run of them is then one sum (np.add.at takes seven times as long).
    ids = np.ravel(ids).astype(np.intp, copy=False)
    result = np.zeros((count, g.shape[-1]), g.dtype)
    if ids.size:
        order = ids.argsort(kind="stable")
        ranked = ids.take(order)
        first = np.ones(ids.size, bool)
        np.not_equal(ranked[1:], ranked[:-1], out=first[1:])
        (starts,) = first.nonzero()
        result[ranked.take(starts)] = np.add.reduceat(g.reshape(ids.size, -1).take(order, axis=0), starts, axis=0)
    return result


@embedding.decomposition
def _(table: Array, ids: Array) -> Array:
    return np.take(table, _row_numbers(table, ids), axis=0)


def _row_numbers(table: Array, ids: Array) -> NDArray[np.intp]:
    """Check the ids, and return them as an array."""
    numbers: NDArray[Any] = np.asarray(to_array(ids))
    shape = shape_of(table)
    if len(shape) != 2:
        raise ValueError(f"the table must have the shape (V, d), got {shape}")
    if numbers.dtype.kind not in "iu" and numbers.size:
        raise TypeError(f"ids must be integers, got dtype {numbers.dtype}; convert them, ids.astype(int)")
    if any_outside(numbers, shape[0]):
        wrong = np.argwhere((numbers < 0) | (numbers >= shape[0]))[0]
        where = f" at position {tuple(wrong.tolist())}" if numbers.ndim else ""
        raise ValueError(
            f"the id {numbers[tuple(wrong)]}{where} is outside the table of V = {shape[0]} rows: ids go from 0 to V - 1"
        )
    return numbers.astype(np.intp, copy=False)
