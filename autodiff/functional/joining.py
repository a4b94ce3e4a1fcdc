"""Joining arrays, and taking them apart again."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import DTypeLike

from ..node import TWINS, Array
from ..op import op, save

__all__ = ["concatenate", "split", "stack"]

Casting: TypeAlias = Literal["no", "equiv", "safe", "same_kind", "unsafe"]


@op(
    numpy=np.concatenate,
    linear=True,
    samples=lambda rng: [
        (rng.normal(size=(2, 3)), rng.normal(size=(1, 3)), rng.normal(size=(2, 3))),
        (rng.normal(size=(3, 3)), rng.normal(size=(3, 3)), {"axis": 1}),
        (rng.normal(size=(2, 1)), rng.normal(size=(2, 3)), {"axis": -1}),
        (rng.normal(size=(2, 2, 2)), rng.normal(size=(2, 1, 2)), {"axis": -2}),
        (rng.normal(size=(2, 3)), rng.normal(size=()), rng.normal(size=2), {"axis": None}),
        (rng.normal(size=(2, 0)), rng.normal(size=(2, 3)), {"axis": 1}),
        (rng.normal(size=1),),
        (rng.normal(size=2), np.array([1, 2])),
        (rng.normal(size=2), rng.normal(size=1), {"dtype": "float64", "casting": "safe"}),
    ],
    error_samples=[
        ((np.ones(2), {"dtype": "int64"}), TypeError),
        ((np.ones(2), np.array([1, 2]), {"casting": "no"}), TypeError),
        ((np.ones((2, 3)), np.ones((2, 2))), ValueError),
        ((np.array(1.0), np.array(2.0)), ValueError),
        ((np.ones(2), np.ones(2), {"axis": 1}), ValueError),
    ],
)
def concatenate(
    *arrays: Array, axis: int | None = 0, dtype: DTypeLike | None = None, casting: Casting = "same_kind"
) -> Array:
    """Arrays one after the other along an axis that they have.

    Parameters
    ----------
    *arrays : array
        Equal in shape, except along the axis. May be given as one list.
    axis : int or None
        Negative ones count from the end. None flattens the arrays first.
    dtype : dtype, optional
        That of the result.
    casting : {"no", "equiv", "safe", "same_kind", "unsafe"}
        What NumPy may do to get there. A dtype of integers takes "unsafe", and has no gradient.

    Returns
    -------
    array

    Raises
    ------
    ValueError
        If the shapes do not fit.
    TypeError
        If the casting is not allowed.

    Examples
    --------
    >>> import autodiff as ad
    >>> import autodiff.functional as F
    >>> x, y = ad.Tensor([1.0, 2.0], requires_grad=True), ad.Tensor([3.0], requires_grad=True)
    >>> z = F.concatenate(x, y)
    >>> z.tolist()
    [1.0, 2.0, 3.0]
    >>> z.backward([10.0, 20.0, 30.0])
    >>> x.grad, y.grad
    (array([10., 20.]), array([30.]))
    """
    out = np.concatenate(arrays, axis=axis, dtype=dtype, casting=casting)
    return save(out, shapes=[np.shape(array) for array in arrays])


@concatenate.vjp("arrays")
def _(g: Array, needs: tuple[bool, ...], axis: int | None, shapes: list[tuple[int, ...]]) -> tuple[Array, ...]:
    # every array gets back the piece of g that stands where it stood
    along = 0 if axis is None else axis % g.ndim
    lengths = [math.prod(shape) if axis is None else shape[along] for shape in shapes]
    ends = itertools.accumulate(lengths)
    return tuple(
        np.reshape(g[(slice(None),) * along + (slice(end - length, end),)], shape) if needed else None
        for needed, shape, length, end in zip(needs, shapes, lengths, ends, strict=True)
    )


@op(
    numpy=np.stack,
    linear=True,
    samples=lambda rng: [
        (rng.normal(size=(2, 3)), rng.normal(size=(2, 3))),
        (rng.normal(size=(3, 3)), rng.normal(size=(3, 3)), rng.normal(size=(3, 3)), {"axis": 1}),
        (rng.normal(size=(2, 3)), rng.normal(size=(2, 3)), {"axis": -1}),
        (rng.normal(size=()), rng.normal(size=())),
        (rng.normal(size=1),),
        (rng.normal(size=(0, 3)), rng.normal(size=(0, 3)), {"axis": -2}),
        (rng.normal(size=2), np.array([1, 2])),
        (rng.normal(size=2), rng.normal(size=2), {"dtype": "float64", "casting": "safe"}),
    ],
    error_samples=[
        ((np.ones(2), np.ones(3)), ValueError),
        ((np.ones(2), np.ones(2), {"axis": 2}), ValueError),
        ((np.ones(2), {"dtype": "int64"}), TypeError),
        ((np.ones(2), np.array([1, 2]), {"casting": "no"}), TypeError),
    ],
)
def stack(*arrays: Array, axis: int = 0, dtype: DTypeLike | None = None, casting: Casting = "same_kind") -> Array:
    """Arrays of one shape side by side, along a new axis.

    Parameters
    ----------
    *arrays : array
        All of the same shape. May be given as one list.
    axis : int
        Where the new axis is in the result; negative ones count from its end.
    dtype, casting
        As in `concatenate`.

    Returns
    -------
    array

    Raises
    ------
    ValueError
        If the shapes differ.
    TypeError
        If the casting is not allowed.

    Examples
    --------
    >>> import autodiff as ad
    >>> import autodiff.functional as F
    >>> x = ad.Tensor([1.0, 2.0], requires_grad=True)
    >>> F.stack([x, x * x], axis=1).tolist()
    [[1.0, 1.0], [2.0, 4.0]]
    """
    return np.stack(arrays, axis=axis, dtype=dtype, casting=casting)


@stack.vjp("arrays")
def _(g: Array, needs: tuple[bool, ...], axis: int) -> tuple[Array, ...]:
    # array i is slice i along the new axis
    before = (slice(None),) * (axis % g.ndim)
    return tuple(g[(*before, i)] if needed else None for i, needed in enumerate(needs))


def _listed(twin: Callable[..., Any]) -> Callable[..., Any]:
    """Let NumPy's function take one array for the list of its rows, and its settings in NumPy's order."""

    def call(arrays: Any, axis: Any = 0, out: Any = None, **settings: Any) -> Any:
        return twin(list(arrays), axis=axis, out=out, **settings)

    return call


TWINS[np.concatenate], TWINS[np.stack] = _listed(TWINS[np.concatenate]), _listed(TWINS[np.stack])


@op(
    numpy=np.split,
    linear=True,
    samples=lambda rng: [
        (rng.normal(size=(6, 2)), {"indices_or_sections": 3}),
        (rng.normal(size=(3, 3)), {"indices_or_sections": 3, "axis": 1}),
        (rng.normal(size=(2, 5)), {"indices_or_sections": [1, 3], "axis": -1}),
        (rng.normal(size=5), {"indices_or_sections": (2, 2, -1, 9)}),
        (rng.normal(size=(2, 3)), {"indices_or_sections": []}),
        (rng.normal(size=1), {"indices_or_sections": 1}),
        (rng.normal(size=(0, 2)), {"indices_or_sections": 2}),
    ],
    error_samples=[
        ((np.ones(5), {"indices_or_sections": 2}), ValueError),
        ((np.ones(5), {"indices_or_sections": [3, 1]}), ValueError),
    ],
)
def split(ary: Array, *, indices_or_sections: int | Sequence[int], axis: int = 0) -> tuple[Array, ...]:
    """Pieces of an array along an axis.

    Parameters
    ----------
    ary : array
        Of at least one axis.
    indices_or_sections : int or sequence of int
        How many pieces of equal length; or, in increasing order, the positions to cut at.
    axis : int
        Negative ones count from the end.

    Returns
    -------
    tuple of arrays, views of ary

    Raises
    ------
    ValueError
        If the axis cannot be divided into so many equal pieces, or the positions decrease.

    Examples
    --------
    >>> import autodiff as ad
    >>> import autodiff.functional as F
    >>> x = ad.Tensor([1.0, 2.0, 3.0, 4.0, 5.0], requires_grad=True)
    >>> head, middle, tail = F.split(x, indices_or_sections=[1, 3])
    >>> middle.tolist()
    [2.0, 3.0]
    >>> middle.sum().backward()
    >>> x.grad
    array([0., 1., 1., 0., 0.])
    """
    pieces = tuple(np.split(ary, indices_or_sections, axis))
    if sum(piece.shape[axis] for piece in pieces) != ary.shape[axis]:
        raise ValueError(f"split: the positions to cut at must not decrease, got {indices_or_sections}")
    return pieces


@split.vjp("ary")
def _(g: list[Array], axis: int) -> Array:
    # the pieces' cotangents, side by side again; one that was not used is zeros
    return np.concatenate(g, axis=axis)
