"""The gamma function, its logarithm, and the derivatives of that: each is the next one's slope. SciPy computes them."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..node import Array
from ..op import op
from ..protocols import LATE
from ._blocks import floating
from ._samples import SHAPES
from .special import special, with_scipy

__all__ = ["gamma", "gammaln", "polygamma", "psi"]


def _positive(rng: np.random.Generator) -> list[Any]:
    return with_scipy([(rng.uniform(0.5, 3.0, shape),) for shape in SHAPES])


def _orders(rng: np.random.Generator) -> list[Any]:
    return [*((1, *sample) for sample in _positive(rng)), (np.array([[0], [1], [2]]), rng.uniform(1.5, 3.0, 3))]


@op(elementwise=True, samples=_positive)
def gamma(x: Array) -> Array:
    """Gamma function, elementwise: the factorial of x - 1, continued to real numbers.

    Parameters
    ----------
    x : array
        Of any shape.

    Returns
    -------
    array of the same shape

    Raises
    ------
    ImportError
        If SciPy is not installed.

    Examples
    --------
    >>> import autodiff as ad
    >>> import autodiff.functional as F
    >>> x = ad.Tensor(0.5, requires_grad=True)
    >>> y = F.gamma(x)
    >>> y.backward()
    >>> round(y.item(), 4), round(x.grad.item(), 4)
    (1.7725, -3.4802)
    """
    return special().gamma(floating(x))


@gamma.vjp("x")
def _(g: Array, x: Array, out: Array) -> Array:
    return g * (out * psi(x))  # psi is the derivative of log Gamma, so Gamma' = Gamma psi


@op(elementwise=True, samples=_positive)
def gammaln(x: Array) -> Array:
    """Logarithm of the size of the gamma function, elementwise.

    Parameters
    ----------
    x : array
        Of any shape.

    Returns
    -------
    array of the same shape

    Raises
    ------
    ImportError
        If SciPy is not installed.

    Examples
    --------
    >>> import autodiff as ad
    >>> import autodiff.functional as F
    >>> x = ad.Tensor(0.5, requires_grad=True)
    >>> y = F.gammaln(x)
    >>> y.backward()
    >>> round(y.item(), 4), round(x.grad.item(), 4)
    (0.5724, -1.9635)
    """
    return special().gammaln(floating(x))


@gammaln.vjp("x")
def _(g: Array, x: Array) -> Array:
    return g * psi(x)


@op(elementwise=True, samples=_positive)
def psi(x: Array) -> Array:
    """Digamma function, elementwise: the derivative of log Gamma. SciPy also calls it `digamma`.

    Parameters
    ----------
    x : array
        Of any shape.

    Returns
    -------
    array of the same shape

    Raises
    ------
    ImportError
        If SciPy is not installed.

    Examples
    --------
    >>> import autodiff as ad
    >>> import autodiff.functional as F
    >>> x = ad.Tensor(0.5, requires_grad=True)
    >>> y = F.psi(x)
    >>> y.backward()
    >>> round(y.item(), 4), round(x.grad.item(), 4)
    (-1.9635, 4.9348)
    """
    return special().psi(floating(x))


@psi.vjp("x")
def _(g: Array, x: Array) -> Array:
    return g * polygamma(1, x)


@op(elementwise=True, samples=_orders)
def polygamma(n: Array, x: Array) -> Array:
    """Derivative of order n of the digamma function, elementwise.

    Parameters
    ----------
    n : integer array
        From 0 up. It has no gradient.
    x : array
        Of a shape that broadcasts with `n`.

    Returns
    -------
    array of the broadcast shape

    Raises
    ------
    ImportError
        If SciPy is not installed.

    Examples
    --------
    >>> import autodiff.functional as F
    >>> round(float(F.polygamma(1, 1.0)), 8)  # pi²/6
    1.64493407
    """
    x = floating(x)
    return special().polygamma(n, x).astype(x.dtype)[()]


polygamma.nondiff("n")


@polygamma.vjp("x")
def _(g: Array, n: Array, x: Array) -> Array:
    return g * polygamma(n + 1, x)


LATE.update({f"scipy.special.{made.name}": made for made in (gamma, gammaln, psi)})
