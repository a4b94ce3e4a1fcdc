"""Exponentials and logarithms, elementwise, and the functions made of exponentials."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..node import Array
from ..op import op
from ._samples import SHAPES, away, pairs

__all__ = [
    "exp",
    "exp2",
    "expm1",
    "log",
    "log1p",
    "log2",
    "log10",
    "logaddexp",
    "logaddexp2",
    "sigmoid",
    "softplus",
]  # fmt: skip


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


@op(numpy=np.exp2, samples=_anywhere)
def exp2(x: Array) -> Array:
    """Power of 2, elementwise.

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
    >>> F.exp2(np.array([0.0, 3.0]))
    array([1., 8.])
    """
    return np.exp2(x)


@exp2.vjp("x")
def _(g: Array, out: Array) -> Array:
    return g * (out * math.log(2))  # 2^x = e^(x log 2)


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


@op(numpy=np.log2, samples=_positive)
def log2(x: Array) -> Array:
    """Logarithm to base 2, elementwise.

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
    >>> F.log2(np.array([1.0, 8.0]))
    array([0., 3.])
    """
    return np.log2(x)


@log2.vjp("x")
def _(g: Array, x: Array) -> Array:
    return g / x * (1 / math.log(2))  # log2 x = log x / log 2


@op(numpy=np.log10, samples=_positive)
def log10(x: Array) -> Array:
    """Logarithm to base 10, elementwise.

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
    >>> F.log10(np.array([1.0, 1000.0]))
    array([0., 3.])
    """
    return np.log10(x)


@log10.vjp("x")
def _(g: Array, x: Array) -> Array:
    return g / x * (1 / math.log(10))  # log10 x = log x / log 10


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


# --- sums of numbers that are given by their logarithms ---


@op(numpy=np.logaddexp, samples=pairs)
def logaddexp(x1: Array, x2: Array) -> Array:
    """Logarithm of a sum of two exponentials, log(exp(x1) + exp(x2)), elementwise, of numbers of any size.

    Where both are minus infinity so is the result, and both gradients are 0; where both are plus infinity, they share
    the gradient evenly.

    Parameters
    ----------
    x1, x2 : array
        Of shapes that broadcast.

    Returns
    -------
    array of the broadcast shape

    Examples
    --------
    >>> import autodiff as ad
    >>> import autodiff.functional as F
    >>> x = ad.Tensor([0.0, 1000.0, -float("inf")], requires_grad=True)
    >>> y = F.logaddexp(x, 0.0)
    >>> y.sum().backward()
    >>> y.tolist(), x.grad
    ([0.6931471805599453, 1000.0, 0.0], array([0.5, 1. , 0. ]))
    """
    return np.logaddexp(x1, x2)


@logaddexp.vjp("x1")
def _(g: Array, x1: Array, x2: Array) -> Array:
    return g * _share(x1, x2, 1.0)


@logaddexp.vjp("x2")
def _(g: Array, x1: Array, x2: Array) -> Array:
    return g * _share(x2, x1, 1.0)


@op(numpy=np.logaddexp2, samples=pairs)
def logaddexp2(x1: Array, x2: Array) -> Array:
    """Logarithm to base 2 of a sum of two powers of 2, log2(2^x1 + 2^x2), elementwise; otherwise as `logaddexp`.

    Parameters
    ----------
    x1, x2 : array
        Of shapes that broadcast.

    Returns
    -------
    array of the broadcast shape

    Examples
    --------
    >>> import numpy as np
    >>> import autodiff.functional as F
    >>> F.logaddexp2(np.array([3.0, 2000.0]), 3.0)
    array([   4., 2000.])
    """
    return np.logaddexp2(x1, x2)


@logaddexp2.vjp("x1")
def _(g: Array, x1: Array, x2: Array) -> Array:
    return g * _share(x1, x2, math.log(2))


@logaddexp2.vjp("x2")
def _(g: Array, x1: Array, x2: Array) -> Array:
    return g * _share(x2, x1, math.log(2))


def _share(x: Array, other: Array, log_base: float) -> Array:
    # y = log(e^x + e^other), so dy/dx = e^x/(e^x + e^other) = sigmoid(x - other); to base b, both exponents are
    # multiplied by log b. Between two infinite numbers there is no difference: take 0 for it, and 0 for e^-inf.
    same = np.equal(x, other) & np.isinf(x)
    with np.errstate(invalid="ignore"):
        difference = np.where(same, 0.0, x - other)
    return np.where(same & np.less(x, 0), 0.0, sigmoid(log_base * difference))
