"""Normalisation of the last axis: layer normalisation, and by the root mean square alone."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ..node import Array
from ..op import op, save
from ..protocols import to_array
from ._blocks import floating, rows, shape_of
from ._scaling import exponents, is_moderate, narrow, scaled, wide

__all__ = ["layer_norm", "rms_norm"]


@op(
    samples=lambda rng: [
        *((rng.normal(size=size),) for size in ((1,), (4,), (3, 3), (0, 3), (2, 1, 3))),
        (rng.normal(size=(2, 3)), rng.normal(size=3)),
        (rng.normal(size=(2, 3)), None, rng.normal(size=3)),
        (rng.normal(size=(3, 3)), rng.normal(size=3), rng.normal(size=3)),
        (rng.normal(size=(2, 2, 3)), rng.normal(size=3), rng.normal(size=3), {"eps": 0.1}),
        (rng.normal(size=4), rng.normal(size=4), rng.normal(size=4)),
        (rng.normal(size=(0, 3)), rng.normal(size=3), rng.normal(size=3)),
        (rng.normal(size=(2, 1)), rng.normal(size=1), rng.normal(size=1)),
    ],
    error_samples=[
        ((1.0,), ValueError),
        ((np.ones((2, 0)),), ValueError),
        ((np.ones((2, 3)), np.ones(2)), ValueError),
        ((np.ones((2, 3)), np.ones((1, 3))), ValueError),
        ((np.ones((2, 3)), np.ones(3), np.ones(())), ValueError),
    ],
)
def layer_norm(x: Array, gamma: Array = None, beta: Array = None, *, eps: float = 1e-5) -> Array:
    """Layer normalisation: each row to mean 0 and variance 1, then scaled and shifted.

    ``y = gamma * (x - mean) / sqrt(variance + eps) + beta``, with mean and population variance (divided by d) over the
    last axis.

    Parameters
    ----------
    x : array of shape (..., d)
    gamma : array of shape (d,), optional
        The gain; without it there is none.
    beta : array of shape (d,), optional
        The bias.
    eps : float
        Added to the variance. A constant row gives ``beta``.

    Returns
    -------
    array of shape (..., d)

    Raises
    ------
    ValueError
        If x has no last axis or an empty one, or the gain or bias is not of shape (d,).

    References
    ----------
    Ba, Kiros, Hinton, "Layer normalization", 2016, arXiv:1607.06450, equation 4.

    Examples
    --------
    >>> import autodiff as ad
    >>> import autodiff.functional as F
    >>> x = ad.Tensor([1.0, 2.0, 3.0, 4.0], requires_grad=True)
    >>> y = F.layer_norm(x)
    >>> y.data.round(4)
    array([-1.3416, -0.4472,  0.4472,  1.3416])
    >>> y.backward([1.0, 0.0, 0.0, 0.0])
    >>> x.grad.round(4)
    array([ 0.2683, -0.3578, -0.0894,  0.1789])
    """
    _check_width("layer_norm", x, gamma=gamma, beta=beta)
    x, y, dtype = _read(x, gamma, beta)
    scratch = rows(y)
    xhat, rstd = _unit_rows(x, float(eps), scratch, centred=True)
    _scale(xhat, gamma, out=scratch)
    if beta is not None:
        scratch += beta
    return save(y.astype(dtype, copy=False), xhat=xhat, rstd=rstd)


@layer_norm.vjp("x", "gamma", "beta")
def _(g: Array, gamma: Array, xhat: Array, rstd: Array, needs: tuple[bool, ...]) -> tuple[Array, ...]:
    # y = gamma xhat + beta, so with one sum over all rows
    #
    #   dgamma = sum g xhat     dbeta = sum g     dxhat = g gamma
    #
    # xhat = c rstd, c = x - mean, rstd = 1 / sqrt(mean(c^2) + eps); for one row of width d
    #
    #   d mean / dx_j   = 1/d
    #   d rstd / dx_j   = -rstd^3 c_j / d            = -rstd^2 xhat_j / d
    #   d xhat_i / dx_j = rstd (delta_ij - 1/d) + c_i d rstd / dx_j
    #                   = rstd (delta_ij - 1/d - xhat_i xhat_j / d)
    #
    # and therefore, summed against dxhat_i,
    #
    #   dx = rstd (dxhat - mean(dxhat) - xhat mean(dxhat xhat))
    #
    # the direct term less its parts along 1 and along xhat: shifting or scaling x does not change y. With p = g xhat
    # all sums are products of a matrix and a vector: dgamma = 1^T p, and the means are g gamma / d and p gamma / d.
    shape, dtype, g = g.shape, g.dtype, wide(rows(g))
    p = g * xhat
    dx = dgamma = dbeta = None
    if needs[1]:
        dgamma = _total(p)
    if needs[2]:
        dbeta = _total(g)
    if needs[0]:
        weights = _weights(gamma, g)
        along_xhat = np.matmul(p, weights)
        np.multiply(xhat, along_xhat, out=p)
        p += np.matmul(g, weights)
        dx = _scale(g, gamma)
        dx -= p
        dx *= rstd
        dx = narrow(dx.reshape(shape), dtype)
    return dx, dgamma, dbeta


@layer_norm.decomposition
def _(x: Array, gamma: Array = None, beta: Array = None, *, eps: float = 1e-5) -> Array:
    _check_width("layer_norm", x, gamma=gamma, beta=beta)
    x, eps = _into_range(x, float(eps))
    centred = x - np.mean(x, axis=-1, keepdims=True)
    variance = np.mean(centred * centred, axis=-1, keepdims=True)
    return _affine(centred / np.sqrt(variance + eps), gamma, beta)


@op(
    samples=lambda rng: [
        *((rng.normal(size=size),) for size in ((1,), (4,), (3, 3), (0, 3), (2, 1, 3))),
        (rng.normal(size=(2, 3)), rng.normal(size=3)),
        (rng.normal(size=(3, 3)), rng.normal(size=3)),
        (rng.normal(size=(2, 2, 3)), rng.normal(size=3), {"eps": 0.1}),
        (rng.normal(size=4), rng.normal(size=4)),
        (rng.normal(size=(0, 3)), rng.normal(size=3)),
        (rng.normal(size=(2, 1)), rng.normal(size=1)),
    ],
    error_samples=[
        ((1.0,), ValueError),
        ((np.ones((2, 0)),), ValueError),
        ((np.ones((2, 3)), np.ones(2)), ValueError),
        ((np.ones((2, 3)), np.ones((1, 3))), ValueError),
    ],
)
def rms_norm(x: Array, gamma: Array = None, *, eps: float = 1e-5) -> Array:
    """Root-mean-square normalisation: each row to mean square 1, then scaled.

    ``y = gamma * x / sqrt(mean(x^2) + eps)``, with the mean over the last axis.

    Parameters
    ----------
    x : array of shape (..., d)
    gamma : array of shape (d,), optional
        The gain; without it there is none.
    eps : float
        Added to the mean square; a row of zeros gives zeros.

    Returns
    -------
    array of shape (..., d)

    Raises
    ------
    ValueError
        If x has no last axis or an empty one, or the gain is not of shape (d,).

    References
    ----------
    Zhang, Sennrich, "Root mean square layer normalization", 2019, arXiv:1910.07467, equation 4.

    Examples
    --------
    >>> import autodiff as ad
    >>> import autodiff.functional as F
    >>> x = ad.Tensor([1.0, 2.0, 3.0, 4.0], requires_grad=True)
    >>> y = F.rms_norm(x)
    >>> y.data.round(4)
    array([0.3651, 0.7303, 1.0954, 1.4606])
    >>> y.backward([1.0, 0.0, 0.0, 0.0])
    >>> x.grad.round(4)
    array([ 0.353 , -0.0243, -0.0365, -0.0487])
    """
    _check_width("rms_norm", x, gamma=gamma)
    x, y, dtype = _read(x, gamma)
    scratch = rows(y)
    xhat, rrms = _unit_rows(x, float(eps), scratch, centred=False)
    _scale(xhat, gamma, out=scratch)
    return save(y.astype(dtype, copy=False), xhat=xhat, rrms=rrms)


@rms_norm.vjp("x", "gamma")
def _(g: Array, gamma: Array, xhat: Array, rrms: Array, needs: tuple[bool, ...]) -> tuple[Array, ...]:
    # y = gamma xhat with xhat = x rrms, rrms = 1 / sqrt(mean(x^2) + eps): dgamma = sum g xhat over all rows,
    # dxhat = g gamma, and for one row of width d
    #
    #   d rrms / dx_j   = -rrms^3 x_j / d = -rrms^2 xhat_j / d
    #   d xhat_i / dx_j = rrms delta_ij + x_i d rrms / dx_j = rrms (delta_ij - xhat_i xhat_j / d)
    #
    #   dx = rrms (dxhat - xhat mean(dxhat xhat))
    #
    # which is layer normalisation's without the mean's term; and the sums are taken as there.
    shape, dtype, g = g.shape, g.dtype, wide(rows(g))
    p = g * xhat
    dx = dgamma = None
    if needs[1]:
        dgamma = _total(p)
    if needs[0]:
        along_xhat = np.matmul(p, _weights(gamma, g))
        np.multiply(xhat, along_xhat, out=p)
        dx = _scale(g, gamma)
        dx -= p
        dx *= rrms
        dx = narrow(dx.reshape(shape), dtype)
    return dx, dgamma


@rms_norm.decomposition
def _(x: Array, gamma: Array = None, *, eps: float = 1e-5) -> Array:
    _check_width("rms_norm", x, gamma=gamma)
    x, eps = _into_range(x, float(eps))
    return _affine(x / np.sqrt(np.mean(np.square(x), axis=-1, keepdims=True) + eps), gamma, None)


def _affine(xhat: Array, gamma: Array, beta: Array) -> Array:
    """Gain and bias, where there are any."""
    y = xhat if gamma is None else xhat * gamma
    return y if beta is None else y + beta


def _read(x: Array, *parameters: Array) -> tuple[Array, Array, np.dtype[Any]]:
    """Return the rows of x, room for the result, and the result's dtype.

    Rows and room are of a type whose range holds sums of squares: float32 where the result is float16.
    """
    x = floating(x)
    dtype = np.result_type(x, *[p for p in parameters if p is not None])
    wide = np.dtype(np.float32) if dtype == np.float16 else dtype
    room = np.empty_like(x, wide) if x.ndim == 2 else np.empty(x.shape, wide)  # so that `rows` of it is a view
    return rows(x).astype(wide, copy=False), room, dtype


@functools.lru_cache(maxsize=16)
def _ones(length: int, dtype: np.dtype[Any]) -> Array:
    """Return a vector of ones: a product with it takes a fifth of the time of a sum over a short row."""
    ones = np.ones(length, dtype)
    ones.flags.writeable = False
    return ones


def _unit_rows(x: Array, eps: float, scratch: Array, centred: bool) -> tuple[Array, Array]:
    """Return rows divided by the roots of their mean squares, and by what they were multiplied.

    If the squares leave the range, the rows are scaled first, and eps with their squares.
    """
    largest = _LARGE if x.dtype.char == "f" else _LARGE_DOUBLE
    if np.vdot(x, x) < largest:  # one number that bounds all squares, and no warning if it overflows
        deviations = x - _mean(x) if centred else x
        mean_square = _mean(np.multiply(deviations, deviations, out=scratch))
        if eps > _SMALL_EPS or is_moderate(np.sqrt(mean_square)):
            factor = _reciprocal_root(mean_square, eps)
            return np.multiply(deviations, factor, out=deviations if centred else None), factor
    shift = exponents(x, -1)
    x = scaled(x, -shift)
    deviations = x - _mean(x) if centred else x
    mean_square = _mean(np.multiply(deviations, deviations, out=scratch))
    constant = mean_square == 0  # of any size: eps alone counts, and would vanish beside it
    factor = _reciprocal_root(mean_square, np.where(constant, eps, np.ldexp(eps, -2 * shift)))
    return deviations * factor, np.where(constant, factor, np.ldexp(factor, -shift))


_LARGE, _LARGE_DOUBLE = 1e38, 1e307
"""Sums of squares below it do not overflow, in single precision and in double."""

_SMALL_EPS = 1e-24
"""Smaller ones do not hide that small squares are lost."""


def _into_range(x: Array, eps: float) -> tuple[Array, Any]:
    """Return rows and eps, scaled where squares leave the range; what comes of them is the same."""
    largest = np.max(np.abs(floating(to_array(x))), axis=-1, keepdims=True)
    if is_moderate(np.maximum(largest, 1) if eps > _SMALL_EPS else largest):
        return x, eps
    shift = exponents(x, -1)
    return scaled(x, -shift), np.ldexp(eps, -2 * shift).astype(x.dtype)


def _mean(x: Array) -> Array:
    """Means of rows, as a column; summed first, so that the mean of equal numbers is theirs."""
    mean = np.matmul(x, _ones(x.shape[-1], x.dtype))[:, None]
    return np.divide(mean, x.shape[-1], out=mean)


def _reciprocal_root(mean_square: Array, eps: Any) -> Array:
    """Compute ``1 / sqrt(mean_square + eps)`` in place."""
    mean_square += eps
    np.sqrt(mean_square, out=mean_square)
    return np.divide(1, mean_square, out=mean_square)


def _scale(x: Array, gamma: Array, out: Array = None) -> Array:
    """Gain, where there is one; never x itself, so that it can be written to."""
    return np.multiply(x, 1 if gamma is None else gamma, out=out)


def _weights(gamma: Array, g: Array) -> Array:
    """Return the column whose product with rows g is the mean of each row of g gamma."""
    width = g.shape[-1]
    return (_ones(width, g.dtype) if gamma is None else gamma)[:, None] / width


def _total(p: Array) -> Array:
    """Sum of the rows of a matrix, for the same reason as a product."""
    return np.matmul(_ones(len(p), p.dtype), p)


def _check_width(name: str, x: Array, **parameters: Array) -> None:
    """Refuse an empty last axis, and a gain or bias of another length."""
    shape = shape_of(x)
    if not shape or not shape[-1]:
        raise ValueError(f"{name} normalises the last axis, of at least one element; x has the shape {shape}")
    for parameter, value in parameters.items():
        if value is not None and shape_of(value) != shape[-1:]:
            raise ValueError(
                f"{name}: {parameter} must have the shape {shape[-1:]}, that of a row of x; got {shape_of(value)}"
            )
