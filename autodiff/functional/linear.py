"""The affine map Y = X W + b: a layer's projection, and a Transformer's head."""

from __future__ import annotations

import numpy as np

from ..broadcasting import SUMMED_IN
from ..node import Array
from ..op import op, save
from ._blocks import rows, shape_of

__all__ = ["linear"]


@op(
    samples=lambda rng: [
        (rng.normal(size=(3, 4)), rng.normal(size=(4, 2)), rng.normal(size=2)),
        (rng.normal(size=(2, 3, 3)), rng.normal(size=(3, 3)), rng.normal(size=3)),
        (rng.normal(size=(2, 2, 2, 3)), rng.normal(size=(3, 4))),
        (rng.normal(size=(3, 4)), rng.normal(size=(2, 4)).T, rng.normal(size=2)),
        (rng.normal(size=4), rng.normal(size=(4, 3)), rng.normal(size=3)),
        (rng.normal(size=(1, 1)), rng.normal(size=(1, 1)), rng.normal(size=1)),
        (rng.normal(size=(0, 3)), rng.normal(size=(3, 2)), rng.normal(size=2)),
        (rng.normal(size=(2, 0)), rng.normal(size=(0, 3)), rng.normal(size=3)),
        (rng.normal(size=(2, 3)), rng.normal(size=(3, 0)), rng.normal(size=0)),
    ],
    error_samples=[
        ((np.ones((2, 3)), np.ones((4, 5))), ValueError),
        ((np.ones((2, 3)), np.ones(3)), ValueError),
        ((np.array(1.0), np.ones((1, 2))), ValueError),
        ((np.ones((2, 3)), np.ones((3, 4)), np.ones(3)), ValueError),
        ((np.ones((2, 3)), np.ones((3, 4)), np.ones((1, 4))), ValueError),
    ],
)
def linear(x: Array, weight: Array, bias: Array = None) -> Array:
    """Affine map of the last axis, ``x @ weight + bias``.

    Parameters
    ----------
    x : array of shape (..., in)
        The rows to map.
    weight : array of shape (in, out)
        Stored as the derivations write it: Y = X W. (PyTorch stores the transpose.) A transposed view is as good as a
        contiguous array, so ``linear(h, E.T)`` is the head tied to an embedding E, without a copy.
    bias : array of shape (out,), optional
        Added to every row.

    Returns
    -------
    array of shape (..., out)

    Raises
    ------
    ValueError
        If the widths do not match.

    Examples
    --------
    >>> import autodiff as ad
    >>> import autodiff.functional as F
    >>> x = ad.Tensor([[1.0, 2.0]], requires_grad=True)
    >>> w = ad.Tensor([[1.0, 0.0, 1.0], [0.0, 1.0, 1.0]])
    >>> y = F.linear(x, w, [0.5, 0.5, 0.5])
    >>> y.tolist()
    [[1.5, 2.5, 3.5]]
    >>> y.sum().backward()
    >>> x.grad
    array([[2., 2.]])
    """
    _check(x, weight, bias)
    y = np.empty(x.shape[:-1] + weight.shape[1:], np.result_type(x, weight))
    np.matmul(rows(x), weight, out=rows(y))
    if bias is not None:
        y = np.add(y, bias, out=y) if bias.dtype == y.dtype else y + bias
    flags = weight.flags
    return save(y, by_columns=flags.f_contiguous and not flags.c_contiguous)


# With n rows of X flattened to a matrix, y_ro = sum_i x_ri w_io + b_o. For a scalar L with g_ro = dL/dy_ro:
#
#   dL/dx_ri = sum_o g_ro w_io     dX = g W^T
#   dL/dw_io = sum_r x_ri g_ro     dW = X^T g      (each sums over the index that the argument does not have,
#   dL/db_o  = sum_r g_ro          db = 1^T g       so the shapes alone fix the order of the factors)


@linear.vjp("x")
def _(g: Array, weight: Array) -> Array:
    return np.matmul(rows(g), weight.T).reshape(g.shape[:-1] + weight.shape[:1])


@linear.vjp("weight")
def _(g: Array, x: Array, by_columns: bool) -> Array:
    # One product of two matrices, also for a batch. The gradient of a transposed view is computed transposed, so that
    # it lies in memory as the array does that it goes back to.
    x, g = rows(x), rows(g)
    return np.matmul(g.T, x).T if by_columns else np.matmul(x.T, g)


@linear.vjp("bias")
def _(g: Array) -> Array:
    return np.add.reduce(rows(g), axis=0, dtype=SUMMED_IN.get(g.dtype))


@linear.decomposition
def _(x: Array, weight: Array, bias: Array = None) -> Array:
    _check(x, weight, bias)
    y = np.matmul(x, weight)
    return y if bias is None else y + bias


def _check(x: Array, weight: Array, bias: Array) -> None:
    shape, matrix = shape_of(x), shape_of(weight)
    if not shape or len(matrix) != 2 or shape[-1] != matrix[0]:
        raise ValueError(f"linear maps x of shape (..., in) by weight of shape (in, out); got {shape} and {matrix}")
    if bias is not None and shape_of(bias) != matrix[1:]:
        raise ValueError(f"linear: bias must have the shape {matrix[1:]}, one for each output; got {shape_of(bias)}")
