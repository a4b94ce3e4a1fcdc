"""Heads of attention: features split into them, and joined again.

The features of a position lie side by side, head after head. Splitting views them as an axis of their own and moves it
before that of the positions; no number moves in memory::

    (..., T, N d)  ->  (..., T, N, d)  ->  (..., N, T, d)

Reshaping to the last shape at once would fit too, but mix positions with heads.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..node import Array
from ..op import op, save
from ._blocks import shape_of

__all__ = ["merge_heads", "split_heads"]


@op(
    linear=True,
    samples=lambda rng: [
        (rng.normal(size=(3, 4)), {"counts": [2]}),
        (rng.normal(size=(2, 3, 8)), {"counts": (2, 1, 1)}),
        (rng.normal(size=(2, 1, 3, 3)), {"counts": (1, 2)}),
        (rng.normal(size=(1, 5)), {"counts": (1,)}),
        (rng.normal(size=(0, 4)), {"counts": (2, 2)}),
        (rng.normal(size=(3, 0)), {"counts": (2, 1)}),
    ],
    error_samples=[
        ((np.ones(4), {"counts": (2,)}), ValueError),
        ((np.ones((3, 4)), {"counts": (3,)}), ValueError),
        ((np.ones((3, 4)), {"counts": ()}), ValueError),
        ((np.ones((3, 4)), {"counts": (4, -2)}), ValueError),
        ((np.ones((3, 4)), {"counts": 2}), TypeError),
    ],
)
def split_heads(x: Array, *, counts: Sequence[int]) -> tuple[Array, ...]:
    """Split features into heads: some for the queries, say, and some each for keys and values.

    Parameters
    ----------
    x : array of shape (..., T, N d)
        T positions; N heads of d features each, side by side.
    counts : list or tuple of int
        How many heads each result gets, in their order; N together.

    Returns
    -------
    tuple of arrays of shape (..., count, T, d), views of x

    Raises
    ------
    ValueError
        If x has no axis of positions, or its features cannot be divided into so many heads.
    TypeError
        If `counts` is not a list or tuple of integers.

    References
    ----------
    Vaswani et al., "Attention is all you need", 2017, section 3.2.2.

    Examples
    --------
    >>> import numpy as np
    >>> import autodiff.functional as F
    >>> x = np.arange(12.0).reshape(2, 6)  # two positions; two heads for queries, one for keys
    >>> q, k = F.split_heads(x, counts=(2, 1))
    >>> q.tolist()
    [[[0.0, 1.0], [6.0, 7.0]], [[2.0, 3.0], [8.0, 9.0]]]
    >>> k.tolist()
    [[[4.0, 5.0], [10.0, 11.0]]]
    """
    counts, number, width = _heads(shape_of(x), counts)
    apart = x.reshape((*x.shape[:-1], number, width)).swapaxes(-3, -2)
    parts, start = [], 0
    for count in counts:
        parts.append(apart[..., start : start + count, :, :])
        start += count
    return save(tuple(parts), heads=(number, width))


@split_heads.vjp("x")
def _(g: list[Array], heads: tuple[int, int]) -> Array:
    # each entry of x is one of one result: the cotangents, side by side again; one that was not used is zeros
    first = g[0].swapaxes(-3, -2)
    dx = np.empty(first.shape[:-2] + heads, first.dtype)
    start = 0
    for part in g:
        stop = start + part.shape[-3]
        dx[..., start:stop, :] = part.swapaxes(-3, -2)
        start = stop
    return dx.reshape((*dx.shape[:-2], heads[0] * heads[1]))


@split_heads.decomposition
def _(x: Array, *, counts: Sequence[int]) -> tuple[Array, ...]:
    counts, number, width = _heads(shape_of(x), counts)
    apart = np.swapaxes(np.reshape(x, (*x.shape[:-1], number, width)), -3, -2)
    parts: tuple[Array, ...] = tuple(np.split(apart, np.cumsum(counts)[:-1].tolist(), axis=-3))
    return parts


def _heads(shape: tuple[int, ...], given: Sequence[int]) -> tuple[list[int], int, int]:
    """Check the counts; return them, the number of all heads, and their width."""
    if not isinstance(given, (list, tuple)) or not all([hasattr(count, "__index__") for count in given]):
        raise TypeError(f"split_heads: counts must be a list or tuple of integers, got {given!r}")
    counts = [int(count) for count in given]  # NumPy's narrow integers would wrap
    number = sum(counts)
    if len(shape) < 2 or not counts or min(counts) < 0 or not number or shape[-1] % number:
        raise ValueError(
            f"split_heads takes x of shape (..., T, N d) and counts of heads, N together; got {shape} and {given!r}"
        )
    return counts, number, shape[-1] // number


@op(
    linear=True,
    samples=lambda rng: [
        (rng.normal(size=(2, 3, 2)),),
        (rng.normal(size=(2, 3, 2, 4)),),
        (rng.normal(size=(2, 1, 2, 3, 1)),),
        (rng.normal(size=(1, 1, 1)),),
        (rng.normal(size=(2, 0, 3)),),
        (rng.normal(size=(0, 2, 3)),),
    ],
    error_samples=[((np.ones((2, 3)),), ValueError)],
)
def merge_heads(x: Array) -> Array:
    """Join the features of all heads side by side: "Concat" in the formula of several heads.

    What `split_heads` has split with a single count it puts together again.

    Parameters
    ----------
    x : array of shape (..., N, T, d)

    Returns
    -------
    array of shape (..., T, N d)
        A view of x where its memory allows it.

    Raises
    ------
    ValueError
        If x has fewer than three axes.

    Examples
    --------
    >>> import numpy as np
    >>> import autodiff.functional as F
    >>> x = np.arange(12.0).reshape(2, 6)
    >>> (heads,) = F.split_heads(x, counts=[3])
    >>> bool((F.merge_heads(heads) == x).all())
    True
    """
    *lead, number, length, width = _read(shape_of(x))
    return save(x.swapaxes(-3, -2).reshape((*lead, length, number * width)), heads=(number, width))


@merge_heads.vjp("x")
def _(g: Array, heads: tuple[int, int]) -> Array:
    # y_t,(n d) = x_n,t,d: the cotangent split into heads
    return g.reshape(g.shape[:-1] + heads).swapaxes(-3, -2)


@merge_heads.decomposition
def _(x: Array) -> Array:
    *lead, number, length, width = _read(shape_of(x))
    return np.reshape(np.swapaxes(x, -3, -2), (*lead, length, number * width))


def _read(shape: tuple[int, ...]) -> tuple[int, ...]:
    if len(shape) < 3:
        raise ValueError(f"merge_heads takes x of shape (..., N, T, d), got {shape}")
    return shape
