"""Covariances and correlations of variables that were observed together."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from ..node import Array
from ..protocols import to_array
from ._scaling import exponents, scaled
from ._twins import operand, twin
from .statistics import average

__all__ = ["corrcoef", "cov"]


@twin("cov")
def cov(
    m: Array, y: Array = None, rowvar: bool = True, bias: bool = False, ddof: int | None = None,
    fweights: ArrayLike | None = None, aweights: Array = None, *, dtype: DTypeLike | None = None,
) -> Array:  # fmt: skip
    """Covariance matrix of some variables.

    Parameters
    ----------
    m : array of one axis or two
        A row for each variable, with all its observations.
    y : array, optional
        More variables, in the same form.
    rowvar : bool
        Whether the variables are the rows; otherwise they are the columns.
    bias : bool
        Whether to divide by the number of observations; otherwise by one less.
    ddof : int, optional
        To divide by the number minus this, whatever `bias` says.
    fweights : array of int, optional
        How often each observation was made.
    aweights : array, optional
        How important each is; differentiable too.
    dtype : dtype, optional
        Of the result; by default double precision at least.

    Returns
    -------
    array of two axes, or of none for one variable

    Raises
    ------
    ValueError, TypeError
        For more than two axes, and for weights that do not fit.

    Warns
    -----
    RuntimeWarning
        If there are not more observations than `ddof`: the result is not finite.

    Examples
    --------
    >>> import autodiff as ad
    >>> import autodiff.functional as F
    >>> x = ad.Tensor([[0.0, 1.0, 2.0], [2.0, 1.0, 0.0]], requires_grad=True)
    >>> y = F.cov(x)
    >>> y.tolist()
    [[1.0, -1.0], [-1.0, 1.0]]
    >>> y[0, 1].backward()
    >>> x.grad
    array([[ 0.5,  0. , -0.5],
           [-0.5,  0. ,  0.5]])
    """
    if ddof is not None and ddof != int(ddof):
        raise ValueError(f"cov: ddof must be an integer, got {ddof!r}")
    given = [operand(part) for part in (m, y) if part is not None]
    if any(part.ndim > 2 for part in given):
        raise ValueError(f"cov takes arrays of at most two axes, got {', '.join(str(part.shape) for part in given)}")
    kind = np.dtype(np.result_type(*(part.dtype for part in given), np.float64) if dtype is None else dtype)
    x = _rows(given[0], rowvar).astype(kind)
    if not len(x):
        return x.reshape((0, 0))
    if y is not None:
        x = np.concatenate([x, _rows(given[1], rowvar).astype(kind)], axis=0)
    weights, reduced = _weights(x.shape[1], fweights, aweights)
    less = (0 if bias else 1) if ddof is None else int(ddof)
    total: Any = x.shape[1] if weights is None else np.sum(weights)
    degrees = total - (less if reduced is None else less * np.sum(weights * reduced) / total)
    if to_array(degrees) <= 0:
        warnings.warn("cov: degrees of freedom <= 0", RuntimeWarning, stacklevel=2)
        degrees = 0.0
    x = x - average(x, axis=1, weights=weights, keepdims=True)
    product = x @ (x if weights is None else x * weights).T
    return np.squeeze(product * np.true_divide(1, degrees).astype(product.dtype))


@twin("corrcoef")
def corrcoef(x: Array, y: Array = None, rowvar: bool = True, *, dtype: DTypeLike | None = None) -> Array:
    """Correlation coefficients of some variables: their covariances, divided by both standard deviations.

    Parameters
    ----------
    x, y, rowvar, dtype
        As of `cov`.

    Returns
    -------
    array of two axes, or of none for one variable
        Between -1 and 1.

    Examples
    --------
    >>> import numpy as np
    >>> import autodiff.functional as F
    >>> F.corrcoef(np.array([0.0, 1.0, 2.0]), np.array([1.0, 1.0, 4.0])).round(3)
    array([[1.   , 0.866],
           [0.866, 1.   ]])
    """
    c = cov(_without_unit(x, rowvar), None if y is None else _without_unit(y, rowvar), rowvar, dtype=dtype)
    if not c.ndim:
        return c / c
    deviations = np.sqrt(np.diagonal(c))
    return np.clip(c / deviations[:, None] / deviations, -1, 1)


def _without_unit(m: Array, rowvar: bool) -> Array:
    """Bring variables to sizes of about 1, so that no square leaves the range. No correlation depends on units."""
    m = operand(m)
    if m.dtype.kind != "f" or m.dtype == np.float16:  # of which `cov` makes double precision
        return m
    return scaled(m, -exponents(m, 0 if m.ndim == 2 and not rowvar else -1)) if m.ndim else m


def _rows(m: Array, rowvar: bool) -> Array:
    """Arrange variables as rows; a vector is one variable either way."""
    return m.T if m.ndim == 2 and not rowvar else np.atleast_2d(m)


def _weights(count: int, fweights: Any, aweights: Any) -> tuple[Array, Array]:
    """Check the weights; return all of them, and those that are no counts."""
    weights = reduced = None
    if fweights is not None:
        weights = np.asarray(operand(fweights), float)
        if not np.all(weights == np.around(weights)):
            raise TypeError("cov: fweights must be integers")
    if aweights is not None:
        reduced = operand(aweights).astype(np.float64)
        weights = reduced if weights is None else weights * reduced
    for name, given in (("fweights", fweights), ("aweights", aweights)):
        shape = np.shape(given)
        if given is not None and (len(shape) != 1 or shape[0] != count):
            raise (RuntimeError if shape else ValueError)(
                f"cov: {name} must have the shape ({count},), one for each observation, not {shape}"
            )
        if given is not None and np.any(to_array(operand(given)) < 0):
            raise ValueError(f"cov: {name} must not be negative")
    return weights, reduced
