"""Rotary position embedding: positions as rotations of pairs of features."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..node import Array
from ..op import op

__all__ = ["rope"]


@op(
    linear=True,
    samples=lambda rng: [
        (rng.normal(size=(3, 4)),),
        (rng.normal(size=(2, 3, 2, 6)), {"offset": 5}),
        (rng.normal(size=(2, 4, 4)), {"inverse": True, "offset": 1}),
        (rng.normal(size=(4, 2)), {"theta": 100.0, "inverse": True}),
        (rng.normal(size=(1, 2)), {"offset": 3}),
        (rng.normal(size=(0, 4)),),
        (rng.normal(size=(3, 0)),),
    ],
    error_samples=[
        ((np.ones((2, 3)),), ValueError),
        ((np.ones(4),), ValueError),
        ((np.ones((2, 4)), {"theta": 0.0}), ValueError),
    ],
)
def rope(x: Array, *, theta: float = 10000.0, offset: int = 0, inverse: bool = False) -> Array:
    """Rotary position embedding: rotate each pair of features by an angle proportional to the position.

    The features (2r, 2r + 1) of the row at position m are turned by the angle ``m * theta ** (-2 r / d)``. Dot products
    of a rotated query and a rotated key then depend on their positions only through the difference.

    Parameters
    ----------
    x : array of shape (..., T, d)
        Queries or keys, for one head; d must be even.
    theta : float
        Base of the angular frequencies, which go from 1 down to ``theta ** (2 / d - 1)`` radians per position.
    offset : int
        Position of the first row: how many keys a cache holds already.
    inverse : bool
        Rotate back.

    Returns
    -------
    array of the shape of x

    Raises
    ------
    ValueError
        If d is odd, or `theta` is not positive.

    Notes
    -----
    Su et al., "RoFormer: enhanced transformer with rotary position embedding", 2021, equation 34, with the pairs
    adjacent as there. (Some libraries pair feature r with r + d/2; their weights must be permuted.) Angles are computed
    in float64, whatever the dtype of x.

    Examples
    --------
    >>> import numpy as np
    >>> import autodiff.functional as F
    >>> F.rope(np.array([[1.0, 2.0, 3.0, 4.0]]), offset=1).round(6)
    array([[-1.14264 ,  1.922076,  2.959851,  4.0298  ]])
    """
    turns = _turns(x, theta, offset, inverse)
    # A pair (a, b) is the complex number a + ib, and turning it by an angle the product with cos + i sin. Seen so, a
    # pair is one element in memory, which is much faster than picking out even and odd features.
    real = turns.real.dtype
    adjacent = x.strides[-1] == x.itemsize and x.dtype == real
    pairs = (x if adjacent else np.ascontiguousarray(x, real)).view(turns.dtype)
    turned = (pairs * turns).view(real)
    return turned.astype(x.dtype, copy=False) if x.dtype.kind == "f" else turned


@rope.vjp("x")
def _(g: Array, theta: float, offset: int, inverse: bool) -> Array:
    # y = R x, row by row, with the rotation R = [[cos, -sin], [sin, cos]] on every pair: dx = R^T g. A rotation is
    # orthogonal, so R^T is the rotation back.
    return rope.forward(g, theta=theta, offset=offset, inverse=not inverse)


@rope.decomposition
def _(x: Array, *, theta: float = 10000.0, offset: int = 0, inverse: bool = False) -> Array:
    turns = _turns(x, theta, offset, inverse)
    dtype = x.dtype if x.dtype.kind == "f" else turns.real.dtype
    cos, sin = turns.real.astype(dtype), turns.imag.astype(dtype)
    even, odd = x[..., 0::2], x[..., 1::2]
    return np.reshape(np.stack([even * cos - odd * sin, even * sin + odd * cos], axis=-1), x.shape)


def _turns(x: Array, theta: float, offset: int, inverse: bool) -> NDArray[Any]:
    """Check the shape, and return cos + i sin of every angle, (T, d/2)."""
    if len(x.shape) < 2 or x.shape[-1] % 2:
        raise ValueError(f"rope rotates pairs of features, so x must be (..., T, d) with an even d; got {x.shape}")
    if not 0 < theta < math.inf:
        raise ValueError(f"theta must be positive and finite, got {theta}")
    return _table(*x.shape[-2:], theta, offset, inverse, np.result_type(x.dtype, np.complex64))


@functools.lru_cache(maxsize=8)  # queries and keys of all layers share one entry
def _table(
    length: int, width: int, theta: float, offset: int, inverse: bool, dtype: np.dtype[Any]
) -> NDArray[Any]:
    positions = np.arange(offset, offset + length, dtype=np.float64)
    frequencies = theta ** (-np.arange(0, width, 2) / max(width, 1))
    angles = positions[:, None] * frequencies
    table: NDArray[Any] = np.exp((-1j if inverse else 1j) * angles).astype(dtype)
    table.flags.writeable = False
    return table
