"""Exponentials and logarithms, elementwise, and the functions made of exponentials."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..node import Array
from ..op import op
from ._samples import SHAPES, away

__all__ = ["exp", "expm1", "log", "log1p", "sigmoid", "softplus"]


def _anywhere(rng: np.random.Generator) -> list[Any]:
    return [(away(rng, shape, low=0.1),) for shape in SHAPES]


def _positive(rng: np.random.Generator) -> list[Any]:
    return [(rng.uniform(0.5, 2.0, shape),) for shape in SHAPES]


# --- exponentials and logarithms ---


@op(numpy=np.exp, samples=_anywhere)
def exp(x: Array) -> Array:
    """Exponential, elementwise.

    Parameters
    ----------
    x : array
        Of any shape.

    Returns
    -------
    array of the same shape

    Examples
    --------
    >>> import numpy as np
    >>> import autodiff.functional as F
    >>> F.exp(np.array([0.0, 1.0]))
    array([1.        , 2.71828183])
    """
    return np.exp(x)


@exp.vjp("x")
def _(g: Array, out: Array) -> Array:
    return g * out  # dy = e^x dx = y dx


@op(numpy=np.expm1, samples=_anywhere)
def expm1(x: Array) -> Array:
    """Exponential minus 1, elementwise, accurate near 0.

    Parameters
    ----------
    x : array
        Of any shape.

    Returns
    -------
    array of the same shape

    Examples
    --------
    >>> import numpy as np
    >>> import autodiff.functional as F
    >>> F.expm1(np.array([0.0, 1e-20]))
    array([0.e+00, 1.e-20])
    """
    return np.expm1(x)


@expm1.vjp("x")
def _(g: Array, x: Array) -> Array:
    # dy = e^x dx. As y + 1 it would cancel: at x = -40 that is 0, and e^x is 4e-18.
    return g * np.exp(x)


@op(numpy=np.log, samples=_positive)
def log(x: Array) -> Array:
    """Natural logarithm, elementwise.

    Parameters
    ----------
    x : array
        Of any shape.

    Returns
    -------
    array of the same shape
        Minus infinity at 0, NaN below.

    Examples
    --------
    >>> import numpy as np
    >>> import autodiff.functional as F
    >>> F.log(np.array([1.0, 10.0]))
    array([0.        , 2.30258509])
    """
    return np.log(x)


@log.vjp("x")
def _(g: Array, x: Array) -> Array:
    return g / x  # dy = dx/x


@op(numpy=np.log1p, samples=_positive)
def log1p(x: Array) -> Array:
    """Natural logarithm of 1 + x, elementwise, accurate near 0.

    Parameters
    ----------
    x : array
        Of any shape.

    Returns
    -------
    array of the same shape
        Minus infinity at -1, NaN below.

    Examples
    --------
    >>> import numpy as np
    >>> import autodiff.functional as F
    >>> F.log1p(np.array([0.0, 1e-20]))
    array([0.e+00, 1.e-20])
    """
    return np.log1p(x)


@log1p.vjp("x")
def _(g: Array, x: Array) -> Array:
    return g / (1 + x)  # dy = dx/(1 + x)


# --- what is made of exponentials ---


@op(elementwise=True, samples=_anywhere)
def sigmoid(x: Array) -> Array:
    """Logistic sigmoid 1/(1 + exp(-x)), elementwise, of numbers of any size.

    Parameters
    ----------
    x : array
        Of any shape.

    Returns
    -------
    array of the same shape

    Examples
    --------
    >>> import numpy as np
    >>> import autodiff.functional as F
    >>> F.sigmoid(np.array([-800.0, 0.0, 800.0]))
    array([0. , 0.5, 1. ])
    """
    # With e = exp(-|x|), which cannot overflow: 1/(1 + e) for x >= 0, and e/(1 + e) = exp(x)/(exp(x) + 1) below.
    e = np.exp(-1.0 * np.absolute(x))
    return np.where(x >= 0, 1.0, e) / (1 + e)


@sigmoid.vjp("x")
def _(g: Array, out: Array) -> Array:
    # y = 1/(1 + e^-x), so dy = e^-x/(1 + e^-x)² dx = y · e^-x/(1 + e^-x) dx = y (1 - y) dx.
    return g * (out * (1 - out))


@op(elementwise=True, samples=_anywhere)
def softplus(x: Array) -> Array:
    """Softplus log(1 + exp(x)), elementwise, of numbers of any size: a smooth form of maximum(x, 0).

    Parameters
    ----------
    x : array
        Of any shape.

    Returns
    -------
    array of the same shape

    Examples
    --------
    >>> import numpy as np
    >>> import autodiff.functional as F
    >>> F.softplus(np.array([-800.0, 0.0, 800.0])).tolist()
    [0.0, 0.6931471805599453, 800.0]
    """
    # log(1 + e^x) = x + log(1 + e^-x): with the larger of 0 and x taken out, the exponential cannot overflow.
    return np.maximum(x, 0) + np.log1p(np.exp(-1.0 * np.absolute(x)))


@softplus.vjp("x")
def _(g: Array, x: Array) -> Array:
    return g * sigmoid(x)  # dy = e^x/(1 + e^x) dx
