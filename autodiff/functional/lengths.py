"""Norms: the lengths of vectors, and the sizes of matrices."""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from ..arguments import reals
from ..node import Array
from ..op import op
from ..protocols import to_array
from ._samples import REDUCTIONS, away
from ._scaling import exponents, extreme, is_moderate, narrow, scaled, wide
from ._twins import operand, twin
from .reductions import kept_shape

__all__ = ["matrix_norm", "norm", "vector_norm"]

Axis: TypeAlias = int | tuple[int, ...] | None


@op(samples=lambda rng: [(away(rng, shape), settings) for shape, settings in REDUCTIONS])
def euclidean_norm(x: Array, *, axis: Axis = None, keepdims: bool = False) -> Array:
    """Root of the sum of squares over axes: `norm` of order 2 for vectors, of order "fro" for matrices."""
    x = _floating(x)
    return narrow(_length(wide(x), 2, axis, keepdims), x.dtype)


def _length(x: Array, p: float, axis: Axis, keepdims: bool) -> Array:
    """Root of a sum of powers; of scaled numbers where that leaves the range, as f(c x) = c f(x) for c > 0."""
    with np.errstate(over="ignore", divide="ignore"):
        total = _sum_of_powers(x, p, axis, keepdims)
    if is_moderate(np.sqrt(total)):
        return _root(total, p)
    shift = exponents(x, axis, smallest=p < 0)
    x = scaled(x, -shift)
    if p == 2:
        length = _root(_sum_of_powers(x, p, axis, keepdims), p)
    else:  # a high power even of a half is 0; none of 1 is
        unit = extreme(x, axis, smallest=p < 0)
        unit = np.where((unit > 0) & np.isfinite(unit), unit, 1).astype(x.dtype)
        length = _root(_sum_of_powers(x / unit, p, axis, keepdims), p)
        length = length * np.reshape(unit, np.shape(length))
    return np.ldexp(length, np.reshape(shift, np.shape(length)))


def _sum_of_powers(x: Array, p: float, axis: Axis, keepdims: bool) -> Array:
    return np.sum(np.square(x) if p == 2 else np.abs(x) ** p, axis=axis, keepdims=keepdims)


def _root(total: Array, p: float) -> Array:
    return np.sqrt(total) if p == 2 else total ** (1 / p)


@euclidean_norm.vjp("x")
def _(g: Array, x: Array, out: Array, axis: Axis) -> Array:
    # y^2 = sum(x^2), so y dy = sum(x dx): the gradient is the direction x/y, and 0 where there is none. The direction
    # is also that of scaled numbers, which have a length where y itself is infinite or close to 0. It is taken first:
    # none of its components exceeds 1, while g/y may leave the range.
    kept, dtype = kept_shape(x.shape, axis), x.dtype
    length: Array = np.reshape(out, kept)
    g, x = np.reshape(g, kept), wide(x)
    if dtype == np.float16 or not is_moderate(length):
        g, x = wide(g), scaled(x, -exponents(x, axis))
        length = euclidean_norm(x, axis=axis, keepdims=True)
    zero = np.equal(length, 0)
    return narrow(np.where(zero & np.isfinite(g), 0.0, g) * (x / np.where(zero, 1.0, length)), dtype)


@op(
    samples=lambda rng: [
        *((away(rng, shape), settings | {"p": p}) for p in (3.0, 1.5) for shape, settings in REDUCTIONS),
        *((away(rng, shape), {"p": p, "axis": -1}) for p in (0.5, -2.0) for shape in ((3,), (3, 3), (0, 3))),
        (np.array([[0.0, 1.0, -2.0], [0.0, 0.0, 3.0]]), {"p": 4.0, "axis": 1}),
    ],
)
def p_norm(x: Array, *, p: float, axis: Axis = None, keepdims: bool = False) -> Array:
    """Sum of the p-th powers of the absolute values, to the power of 1/p: `norm` of vectors, of any order."""
    x = _floating(x)
    return narrow(_length(wide(x), p, axis, keepdims), x.dtype)


@p_norm.vjp("x")
def _(g: Array, x: Array, out: Array, axis: Axis, p: float) -> Array:
    # y^p = sum(|x|^p), so dy = sum((|x|/y)^(p-1) sign(x) dx). At an element of 0, |x|^p has a flat point (p > 1), or a
    # cusp, of whose slopes 0 is the middle; at the zero vector, y has the tip of a cone, likewise.
    kept, dtype = kept_shape(x.shape, axis), x.dtype
    length: Array = np.reshape(out, kept)
    g, x = np.reshape(g, kept), wide(x)
    if dtype == np.float16 or not is_moderate(length):
        g, x = wide(g), scaled(x, -exponents(x, axis, smallest=p < 0))
        length = p_norm(x, p=p, axis=axis, keepdims=True)
    inside = np.not_equal(to_array(x), 0) & np.not_equal(to_array(length), 0)
    ratio = np.where(inside, np.abs(x), 1.0) / np.where(inside, length, 1.0)
    return narrow(np.where(inside, g * np.sign(to_array(x)) * ratio ** (p - 1), 0.0), dtype)


def _floating(x: Array) -> Array:
    """Return an operand with floating elements: the lengths of integer vectors are float64."""
    x = operand(x)
    return x if x.dtype.kind == "f" else x.astype(np.float64)


def _extreme(sizes: Array, order: float, axis: Axis, keepdims: bool) -> Array:
    """Largest of some sizes, 0 if there are none; or the smallest, for a negative order."""
    if order < 0:
        return np.min(sizes, axis=axis, keepdims=keepdims)
    reduction = np.sum if 0 in sizes.shape else np.max  # the sum of nothing is 0
    return reduction(sizes, axis=axis, keepdims=keepdims)


@twin("linalg.vector_norm")
def vector_norm(x: Array, /, *, axis: Axis = None, keepdims: bool = False, ord: float = 2) -> Array:
    """Lengths of vectors: ``sum(abs(x)**ord)**(1/ord)`` over axes.

    Parameters
    ----------
    x : array
        Of any shape.
    axis : int, tuple of int or None
        The axes of one vector; None for all.
    keepdims : bool
        Leave the axes in, of length one.
    ord : float
        The order. ``inf`` and ``-inf`` give the largest and the smallest absolute value, 0 the number of elements that
        are not 0 (a constant).

    Returns
    -------
    array

    Raises
    ------
    ValueError
        If the order is not a number.

    Notes
    -----
    The length has a kink at the zero vector; its gradient there is 0. Elements that tie for the largest share
    it evenly.

    Examples
    --------
    >>> import autodiff as ad
    >>> import autodiff.functional as F
    >>> x = ad.Tensor([3.0, -4.0], requires_grad=True)
    >>> F.vector_norm(x, ord=1).backward()
    >>> x.grad
    array([ 1., -1.])
    """
    if isinstance(ord, str):
        raise ValueError(f"a vector has no norm of order {ord!r}: ord must be a number, or inf or -inf")
    x, order = _floating(x), float(reals("norm: ord=", ord))
    if order == 2:
        return euclidean_norm(x, axis=axis, keepdims=keepdims)
    if math.isinf(order):
        return _extreme(np.abs(x), order, axis, keepdims)
    if order == 0:
        return np.sum(np.abs(np.sign(x)), axis=axis, keepdims=keepdims)
    if order == 1:
        return np.sum(np.abs(x), axis=axis, keepdims=keepdims)
    return p_norm(x, p=order, axis=axis, keepdims=keepdims)


@twin("linalg.matrix_norm")
def matrix_norm(x: Array, /, *, keepdims: bool = False, ord: float | str = "fro") -> Array:
    """Sizes of the matrices in the last two axes; for the orders see `norm`.

    Examples
    --------
    >>> import numpy as np
    >>> import autodiff.functional as F
    >>> F.matrix_norm(np.array([[1.0, -2.0], [3.0, 4.0]]), ord=1).item()
    6.0
    """
    return _matrices(operand(x), ord, (-2, -1), keepdims)


@twin("linalg.norm")
def norm(x: Array, ord: Any = None, axis: Axis = None, keepdims: bool = False) -> Array:
    """Length of a vector, or size of a matrix.

    Parameters
    ----------
    x : array
        A vector, a matrix, or with `axis` a stack of them. Without `axis` and `ord`, of any shape: all its elements are
        one vector.
    ord : float or str, optional
        The order. Of a vector, see `vector_norm`; 2 by default. Of a matrix: "fro" (the default) for the root of the
        sum of squares, 1 or ``inf`` for the largest sum of absolute values in a column or a row, 2 for the largest
        singular value and "nuc" for their sum; -1, ``-inf`` and -2 for the smallest in place of the largest.
    axis : int or pair of int, optional
        The axis of vectors, or rows and columns of matrices.
    keepdims : bool
        Leave the axes in, of length one.

    Returns
    -------
    array

    Raises
    ------
    ValueError
        If there is no norm of that order, or for that many axes.

    Notes
    -----
    A norm has a kink at zero; its gradient there is 0.

    Examples
    --------
    >>> import autodiff as ad
    >>> import autodiff.functional as F
    >>> x = ad.Tensor([3.0, 4.0], requires_grad=True)
    >>> y = F.norm(x)
    >>> y.backward()
    >>> y.item(), x.grad
    (5.0, array([0.6, 0.8]))
    """
    x = operand(x)
    if axis is None and ord is None:
        return euclidean_norm(x, keepdims=keepdims)
    axes = tuple(range(x.ndim)) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    if len(axes) == 1:
        return vector_norm(x, axis=axes, keepdims=keepdims, ord=2 if ord is None else ord)
    if len(axes) == 2:
        return _matrices(x, "fro" if ord is None else ord, axes, keepdims)
    raise ValueError(f"norm is of vectors or matrices, along one axis or two; got ord={ord!r}, axis={axis}, {x.shape}")


def _matrices(x: Array, ord: Any, axes: tuple[int, ...], keepdims: bool) -> Array:
    """Norm of the matrices with their rows and columns along these two axes."""
    if ord == "fro":
        return euclidean_norm(x, axis=axes, keepdims=keepdims)
    rows, columns = (normalize_axis_index(axis, x.ndim) for axis in axes)
    if ord in (2, -2, "nuc"):
        values = np.linalg.svd(np.moveaxis(x, (rows, columns), (-2, -1)), compute_uv=False)
        reduced = np.sum(values, axis=-1) if ord == "nuc" else _extreme(values, ord, -1, False)
        return np.expand_dims(reduced, (rows, columns)) if keepdims else reduced
    if ord not in (1, -1, math.inf, -math.inf):
        raise ValueError(f"a matrix has no norm of order {ord!r}; ord may be 'fro', 'nuc', 1, 2, inf, -1, -2, -inf")
    inner, outer = (rows, columns) if abs(ord) == 1 else (columns, rows)
    sums = np.sum(np.abs(_floating(x)), axis=inner, keepdims=True)
    largest = _extreme(sums, ord, outer, True)
    return largest if keepdims else np.squeeze(largest, axes)
