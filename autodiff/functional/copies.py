"""Copies of elements: along new axes, side by side, in a row, and around the edges.

An element that appears several times in the result gets the sum of the cotangents of its copies, one that does not
appear gets zero.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..broadcasting import sum_to
from ..node import TWINS, Array
from ..op import op, save
from .indexing import scatter_add

__all__ = ["broadcast_to", "pad", "repeat", "tile"]

Lengths: TypeAlias = int | Sequence[int]

MODES = ("constant", "edge", "reflect", "symmetric", "wrap")


@op(
    numpy=np.broadcast_to,
    linear=True,
    samples=lambda rng: [
        (rng.normal(size=3), {"shape": (4, 3)}),
        (rng.normal(size=(3, 1)), {"shape": (3, 4)}),
        (rng.normal(size=(1, 3)), {"shape": (3, 3)}),
        (rng.normal(size=(3, 1)), {"shape": (3, 3)}),
        (rng.normal(size=(2, 1, 3)), {"shape": (2, 2, 2, 3)}),
        (rng.normal(size=(2, 3)), {"shape": (2, 3)}),
        (rng.normal(size=()), {"shape": (2, 3)}),
        (rng.normal(size=1), {"shape": 2}),
        (rng.normal(size=(4, 1)), {"shape": (4, 0)}),
    ],
    error_samples=[((np.ones(3), {"shape": (3, 4)}), ValueError), ((np.ones((1, 3)), {"shape": (3,)}), ValueError)],
)
def broadcast_to(array: Array, *, shape: Lengths) -> Array:
    """Repeat along new axes, and along those of length one, until the array has a given shape.

    Parameters
    ----------
    array : array
        Of a shape that broadcasts to the other.
    shape : int or tuple of int
        The shape of the result.

    Returns
    -------
    array of that shape, a view of the array: nothing is copied

    Raises
    ------
    ValueError
        If the array's shape does not broadcast to it.

    Examples
    --------
    >>> import autodiff as ad
    >>> import autodiff.functional as F
    >>> x = ad.Tensor([1.0, 2.0, 3.0], requires_grad=True)
    >>> F.broadcast_to(x, shape=(4, 3)).sum().backward()
    >>> x.grad
    array([4., 4., 4.])
    """
    return save(np.broadcast_to(array, shape), original=np.shape(array))


@broadcast_to.vjp("array")
def _(g: Array, original: tuple[int, ...]) -> Array:
    # Every copy contributes: the sum over the repeated axes.
    return sum_to(g, original)


@op(
    numpy=np.tile,
    linear=True,
    samples=lambda rng: [
        (rng.normal(size=3), {"reps": 2}),
        (rng.normal(size=(2, 3)), {"reps": (2, 1)}),
        (rng.normal(size=(3, 3)), {"reps": (3, 3)}),
        (rng.normal(size=(2, 3)), {"reps": 3}),
        (rng.normal(size=(2, 3)), {"reps": (2, 1, 2)}),
        (rng.normal(size=(1, 2, 3)), {"reps": 2}),
        (rng.normal(size=()), {"reps": (2, 3)}),
        (rng.normal(size=1), {"reps": ()}),
        (rng.normal(size=(2, 0)), {"reps": 2}),
        (rng.normal(size=2), {"reps": 0}),
    ],
    error_samples=[((np.ones(3), {"reps": -1}), ValueError)],
)
def tile(A: Array, *, reps: Lengths) -> Array:
    """Copies of an array, laid side by side like tiles.

    Parameters
    ----------
    A : array
        Of any shape.
    reps : int or tuple of int
        How many copies along each axis; the shorter of `reps` and the shape is filled up with ones on the left.

    Returns
    -------
    array

    Raises
    ------
    ValueError
        If a number of copies is negative.

    Examples
    --------
    >>> import autodiff as ad
    >>> import autodiff.functional as F
    >>> x = ad.Tensor([1.0, 2.0], requires_grad=True)
    >>> y = F.tile(x, reps=3)
    >>> y.tolist()
    [1.0, 2.0, 1.0, 2.0, 1.0, 2.0]
    >>> y.sum().backward()
    >>> x.grad
    array([3., 3.])
    """
    return save(np.tile(A, reps), original=np.shape(A))


@tile.vjp("A")
def _(g: Array, reps: Lengths, original: tuple[int, ...]) -> Array:
    # Position p along an axis is element p mod side of copy p div side: with the axis reshaped to (copies, side), the
    # copies are an axis of their own, to be summed over.
    copies = tuple(np.atleast_1d(np.asarray(reps, int)).tolist())
    rank = max(len(copies), len(original))
    copies, sides = ((1,) * (rank - len(lengths)) + lengths for lengths in (copies, original))
    apart, once = (list(itertools.chain(*zip(lengths, sides, strict=True))) for lengths in (copies, (1,) * rank))
    return np.reshape(sum_to(np.reshape(g, apart), tuple(once)), original)


@op(
    numpy=np.repeat,
    linear=True,
    samples=lambda rng: [
        (rng.normal(size=(2, 3)), {"repeats": 2, "axis": 1}),
        (rng.normal(size=(3, 3)), {"repeats": np.array([2, 0, 1]), "axis": 0}),
        (rng.normal(size=(2, 3)), {"repeats": [1, 3, 2], "axis": -1}),
        (rng.normal(size=(2, 2, 2)), {"repeats": [3], "axis": -2}),
        (rng.normal(size=(2, 3)), {"repeats": 2}),
        (rng.normal(size=()), {"repeats": 3}),
        (rng.normal(size=1), {"repeats": 1}),
        (rng.normal(size=(0, 2)), {"repeats": 2, "axis": 0}),
        (rng.normal(size=2), {"repeats": 0}),
    ],
    error_samples=[
        ((np.ones(3), {"repeats": [1, 2]}), ValueError),
        ((np.ones(3), {"repeats": -1}), ValueError),
        ((np.ones(3), {"repeats": 1.5}), TypeError),
    ],
)
def repeat(a: Array, *, repeats: Lengths, axis: int | None = None) -> Array:
    """Each element several times in a row.

    Parameters
    ----------
    a : array
        Of any shape.
    repeats : int or sequence of int
        How often; one number for all, or one for each position along the axis.
    axis : int, optional
        Along which axis; negative ones count from the end. By default the array is flattened first.

    Returns
    -------
    array

    Raises
    ------
    ValueError
        If a number is negative, or there are not as many as positions.
    TypeError
        If they are not integers.

    Examples
    --------
    >>> import autodiff as ad
    >>> import autodiff.functional as F
    >>> x = ad.Tensor([1.0, 2.0, 3.0], requires_grad=True)
    >>> y = F.repeat(x, repeats=[2, 0, 1])
    >>> y.tolist()
    [1.0, 1.0, 3.0]
    >>> y.sum().backward()
    >>> x.grad
    array([2., 0., 1.])
    """
    if np.asarray(repeats).dtype.kind not in "iu" and np.size(repeats):  # NumPy would cut 1.5 down to 1
        raise TypeError(f"repeat: repeats must be integers, got {repeats!r}")
    return save(np.repeat(a, repeats, axis), original=np.shape(a))


@repeat.vjp("a")
def _(g: Array, repeats: Lengths, axis: int | None, original: tuple[int, ...]) -> Array:
    # repeating the positions in the same way tells of which element each is a copy
    flat = axis is None or not original
    along = 0 if flat else axis % g.ndim
    side = math.prod(original) if flat else original[along]
    return np.reshape(_sum_copies(g, np.repeat(np.arange(side), repeats), along, side), original)


@op(
    samples=lambda rng: [
        (rng.normal(size=(2, 3)), {"pad_width": 1}),
        (rng.normal(size=(3, 3)), {"pad_width": (1, 2)}),
        (rng.normal(size=(2, 3)), {"pad_width": ((0, 1), (2, 0)), "constant_values": 5.0}),
        (rng.normal(size=()), {"pad_width": 1}),
        (rng.normal(size=1), {"pad_width": 2, "mode": "edge"}),
        (rng.normal(size=(0, 2)), {"pad_width": ((1, 0), (0, 0))}),
        (rng.normal(size=(2, 3)), {"pad_width": ((1, 1), (0, 2)), "mode": "edge"}),
        (rng.normal(size=(3, 3)), {"pad_width": ((2, 5), (1, 0)), "mode": "reflect"}),
        (rng.normal(size=(3, 2)), {"pad_width": 3, "mode": "symmetric"}),
        (rng.normal(size=(3, 2)), {"pad_width": (4, 1), "mode": "wrap"}),
    ],
    error_samples=[
        ((np.ones(3), {"pad_width": 1, "mode": "mean"}), ValueError),
        ((np.ones(3), {"pad_width": -1}), ValueError),
        ((np.ones(3), {"pad_width": 1.5}), TypeError),
        ((np.ones(3), {"pad_width": 1, "mode": "edge", "constant_values": 1.0}), ValueError),
    ],
)
def pad(
    array: Array, *, pad_width: int | Sequence[Any], mode: str = "constant", constant_values: ArrayLike | None = None
) -> Array:
    """Make an array larger at its edges.

    Parameters
    ----------
    array : array
        Of any shape.
    pad_width : int, (before, after), or one such pair for every axis
        How many elements to add.
    mode : {"constant", "edge", "reflect", "symmetric", "wrap"}
        What they are: constants, copies of the edge, of the mirror image without or with the edge, of the other end.
    constant_values : number, (before, after), or one such pair for every axis, optional
        For the mode "constant"; 0 by default. Fixed numbers, without a gradient.

    Returns
    -------
    array

    Raises
    ------
    ValueError
        For another mode, a negative width, or constants in another mode than "constant".
    TypeError
        If the widths are not integers.

    Examples
    --------
    >>> import autodiff as ad
    >>> import autodiff.functional as F
    >>> x = ad.Tensor([1.0, 2.0, 3.0], requires_grad=True)
    >>> y = F.pad(x, pad_width=(0, 2), mode="reflect")
    >>> y.tolist()
    [1.0, 2.0, 3.0, 2.0, 1.0]
    >>> y.sum().backward()
    >>> x.grad
    array([2., 2., 1.])
    """
    if mode not in MODES:
        raise ValueError(f"pad: mode {mode!r} is not one of {', '.join(MODES)}")
    if np.asarray(pad_width).dtype.kind not in "iu":
        raise TypeError(f"pad: pad_width must be integers, one or in pairs (before, after); got {pad_width!r}")
    constants = {} if constant_values is None else {"constant_values": constant_values}
    out = np.pad(array, pad_width, mode, **constants)  # type: ignore[call-overload]  # it accepts any of the modes
    return save(out, original=np.shape(array))


@pad.vjp("array")
def _(g: Array, pad_width: int | Sequence[Any], mode: str, original: tuple[int, ...]) -> Array:
    # Constants pass nothing on: what is left is the middle of g. In the other modes every element of the result is a
    # copy of one in the array, and padding the positions in the same way tells of which, one axis at a time.
    widths = np.broadcast_to(pad_width, (len(original), 2)).tolist()
    if mode == "constant":
        return g[tuple(slice(before, before + side) for (before, _), side in zip(widths, original, strict=True))]
    for axis, (width, side) in enumerate(zip(widths, original, strict=True)):
        if any(width):
            positions = np.pad(np.arange(side), width, mode)  # type: ignore[call-overload]
            g = _sum_copies(g, positions, axis, side)
    return g


def _numpy_pad(array: Array, pad_width: Any, mode: str = "constant", **constants: ArrayLike) -> Array:
    """``np.pad`` of a tensor: NumPy's own signature does not name the constants."""
    return pad(array, pad_width=pad_width, mode=mode, **constants)


TWINS[np.pad] = _numpy_pad


def _sum_copies(g: Array, positions: NDArray[np.intp], axis: int, side: int) -> Array:
    """Sum what stands along an axis to the positions given, of which there are `side`."""
    shape = (*g.shape[:axis], side, *g.shape[axis + 1 :])
    return scatter_add(g, index=(slice(None),) * axis + (positions,), shape=shape)
