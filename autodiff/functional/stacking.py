"""Arrays laid beside, below and behind each other, and taken apart again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import DTypeLike

from ..node import Array
from ._twins import operand, twin
from .arranging import atleast_1d, atleast_2d, atleast_3d
from .joining import Casting, concatenate, split

__all__ = [
    "append", "array_split", "block", "column_stack", "dsplit", "dstack", "hsplit", "hstack", "unstack", "vsplit",
    "vstack",
]  # fmt: skip

Cuts: TypeAlias = int | Sequence[int]


@twin("hstack")
def hstack(tup: Sequence[Array], *, dtype: DTypeLike | None = None, casting: Casting = "same_kind") -> Array:
    """Arrays beside each other: along the second axis, or the first of vectors. See `concatenate`.

    Examples
    --------
    >>> import autodiff as ad
    >>> import autodiff.functional as F
    >>> x = ad.Tensor([1.0, 2.0], requires_grad=True)
    >>> y = F.hstack([x, 3.0])
    >>> y.backward([1.0, 10.0, 100.0])
    >>> y.tolist(), x.grad
    ([1.0, 2.0, 3.0], array([ 1., 10.]))
    """
    arrays = [atleast_1d(array) for array in tup]
    axis = 0 if arrays and arrays[0].ndim == 1 else 1
    return concatenate(arrays, axis=axis, dtype=dtype, casting=casting)


@twin("vstack")
def vstack(tup: Sequence[Array], *, dtype: DTypeLike | None = None, casting: Casting = "same_kind") -> Array:
    """Arrays below each other: along the first axis, vectors as rows. See `concatenate`.

    Examples
    --------
    >>> import numpy as np
    >>> import autodiff.functional as F
    >>> F.vstack([np.array([1.0, 2.0]), np.array([3.0, 4.0])])
    array([[1., 2.],
           [3., 4.]])
    """
    return concatenate([atleast_2d(array) for array in tup], dtype=dtype, casting=casting)


@twin("dstack")
def dstack(tup: Sequence[Array]) -> Array:
    """Arrays behind each other: along the third axis, vectors as (1, n, 1), matrices as (m, n, 1)."""
    return np.concatenate([atleast_3d(array) for array in tup], axis=2)


@twin("column_stack")
def column_stack(tup: Sequence[Array]) -> Array:
    """Vectors as the columns of a matrix; matrices beside them.

    Examples
    --------
    >>> import numpy as np
    >>> import autodiff.functional as F
    >>> F.column_stack([np.array([1.0, 2.0]), np.array([3.0, 4.0])])
    array([[1., 3.],
           [2., 4.]])
    """
    whole = [operand(array) for array in tup]
    return np.concatenate([np.reshape(a, (-1, 1)) if a.ndim < 2 else a for a in whole], axis=1)


@twin("append")
def append(arr: Array, values: Array, axis: int | None = None) -> Array:
    """Values joined to the end of an array along an axis; without one, both are flattened first."""
    return np.concatenate([operand(arr), operand(values)], axis=axis)


@twin("block")
def block(arrays: Any) -> Array:
    """Matrix made of blocks, in nested lists: the innermost are joined along the last axis, others along one before.

    Parameters
    ----------
    arrays : nested list of arrays
        All of the same depth.

    Returns
    -------
    array

    Raises
    ------
    ValueError
        If a list is empty, or some are deeper than others.
    TypeError
        For tuples, which may be meant as arrays.

    Examples
    --------
    >>> import numpy as np
    >>> import autodiff as ad
    >>> import autodiff.functional as F
    >>> x = ad.Tensor([[1.0, 2.0]], requires_grad=True)
    >>> F.block([[x, -x], [2 * x, np.zeros((1, 2))]]).tolist()
    [[1.0, 2.0, -1.0, -2.0], [2.0, 4.0, 0.0, 0.0]]
    """
    depth = _depth(arrays)
    return _assembled(arrays, depth, max(_rank(arrays), depth))


def _depth(arrays: Any) -> int:
    """Return how deep lists are nested, everywhere the same."""
    if isinstance(arrays, tuple):
        raise TypeError("block: write the blocks in lists, not in tuples")
    if not isinstance(arrays, list):
        return 0
    depths = {_depth(part) for part in arrays}
    if len(depths) != 1:
        raise ValueError(f"block: {'some lists are deeper than others' if depths else 'a list of blocks is empty'}")
    return 1 + depths.pop()


def _rank(arrays: Any) -> int:
    return max(map(_rank, arrays)) if isinstance(arrays, list) else np.ndim(arrays)


def _assembled(arrays: Any, depth: int, rank: int) -> Array:
    if isinstance(arrays, list):
        return np.concatenate([_assembled(part, depth - 1, rank) for part in arrays], axis=-depth)
    a = operand(arrays)
    return np.reshape(a, (1,) * (rank - a.ndim) + a.shape)


# --- taken apart ---


@twin("array_split")
def array_split(ary: Array, indices_or_sections: Cuts, axis: int = 0) -> tuple[Array, ...]:
    """Pieces of an array along an axis, as equal as they can be.

    Parameters
    ----------
    ary : array
        Of at least one axis.
    indices_or_sections : int or sequence of int
        How many pieces (the first ones are longer by one where it does not divide); or the positions to cut at.
    axis : int
        Along which axis.

    Returns
    -------
    tuple of arrays

    Raises
    ------
    ValueError
        If the number is not positive, or the positions decrease.

    Examples
    --------
    >>> import numpy as np
    >>> import autodiff.functional as F
    >>> F.array_split(np.arange(5), 2)
    (array([0, 1, 2]), array([3, 4]))
    """
    if np.ndim(indices_or_sections):
        return split(ary, indices_or_sections=indices_or_sections, axis=axis)
    count = int(indices_or_sections)  # type: ignore[arg-type]  # not a sequence, as was just seen
    if count <= 0:
        raise ValueError(f"array_split: the number of pieces must be positive, got {count}")
    least, longer = divmod(np.shape(ary)[axis], count)
    cuts = [i * least + min(i, longer) for i in range(1, count)]
    return split(ary, indices_or_sections=cuts, axis=axis)


@twin("hsplit")
def hsplit(ary: Array, indices_or_sections: Cuts) -> tuple[Array, ...]:
    """Pieces side by side: along the second axis, or the first of a vector. See `split`."""
    if not np.ndim(ary):
        raise ValueError("hsplit needs at least one axis; the shape is ()")
    return split(ary, indices_or_sections=indices_or_sections, axis=1 if np.ndim(ary) > 1 else 0)


@twin("vsplit")
def vsplit(ary: Array, indices_or_sections: Cuts) -> tuple[Array, ...]:
    """Pieces of rows: along the first axis of at least two. See `split`."""
    if np.ndim(ary) < 2:
        raise ValueError(f"vsplit needs at least two axes; the shape is {np.shape(ary)}")
    return split(ary, indices_or_sections=indices_or_sections, axis=0)


@twin("dsplit")
def dsplit(ary: Array, indices_or_sections: Cuts) -> tuple[Array, ...]:
    """Pieces along the third axis. See `split`."""
    if np.ndim(ary) < 3:
        raise ValueError(f"dsplit needs at least three axes; the shape is {np.shape(ary)}")
    return split(ary, indices_or_sections=indices_or_sections, axis=2)


@twin("unstack")
def unstack(x: Array, /, *, axis: int = 0) -> tuple[Array, ...]:
    """The slices along an axis, which `stack` joins again.

    Examples
    --------
    >>> import numpy as np
    >>> import autodiff.functional as F
    >>> F.unstack(np.array([[1, 2], [3, 4]]), axis=1)
    (array([1, 3]), array([2, 4]))
    """
    if not np.ndim(x):
        raise ValueError("unstack needs at least one axis; the shape is ()")
    return tuple(np.moveaxis(operand(x), axis, 0))
