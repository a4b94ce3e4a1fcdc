"""The error function and its kin, and logarithms of probabilities, as SciPy computes them.

SciPy is optional. It is imported by the first call, never before; and ``scipy.special.erf(t)`` of a tensor `t` finds
the op by its name, when it is called (by then SciPy is there).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..node import Array
from ..op import op
from ..protocols import LATE
from ._blocks import floating
from ._samples import PAIRS, SHAPES, away
from .exponentials import sigmoid, softplus

__all__ = ["erf", "erfc", "erfinv", "logit", "ndtr", "xlog1py", "xlogy"]


def special() -> Any:
    """Import SciPy's special functions."""
    try:
        import scipy.special
    except ImportError as error:
        raise ImportError("special functions, such as the error function, need SciPy: pip install scipy") from error
    return scipy.special


def has_scipy() -> bool:
    """Whether SciPy is there; asked when samples are made, not at import."""
    try:
        special()
    except ImportError:
        return False
    return True


def with_scipy(calls: list[Any]) -> list[Any]:
    """Give samples that only SciPy can compute; without it raise ImportError, by which the checker skips them."""
    special()
    return calls


def _anywhere(rng: np.random.Generator) -> list[Any]:
    return with_scipy([(away(rng, shape),) for shape in SHAPES])


def _between(rng: np.random.Generator) -> list[Any]:
    return with_scipy([(rng.uniform(0.1, 0.9, shape),) for shape in SHAPES])


def _pairs(rng: np.random.Generator) -> list[Any]:
    return with_scipy([(away(rng, a), rng.uniform(0.5, 2.0, b)) for a, b in PAIRS])


# --- the error function, and the normal distribution function ---
#
#   erf(x) = 2/sqrt(pi) times the integral of exp(-t²) from 0 to x, so its derivative is 2/sqrt(pi) exp(-x²)


def _bell(x: Array) -> Array:
    """exp(-x²). Far out it is 0 in any dtype, and constant: no slope is 0 times infinity there."""
    near = np.clip(x, -50.0, 50.0)
    return np.exp(-(near * near))


@op(elementwise=True, samples=_anywhere)
def erf(x: Array) -> Array:
    """Error function, elementwise: ``2/sqrt(pi)`` times the integral of ``exp(-t²)`` from 0 to x.

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
    >>> y = F.erf(x)
    >>> y.backward()
    >>> round(y.item(), 4), round(x.grad.item(), 4)
    (0.5205, 0.8788)
    """
    return special().erf(floating(x))


@erf.vjp("x")
def _(g: Array, x: Array) -> Array:
    return g * (2 / math.sqrt(math.pi) * _bell(x))


@op(elementwise=True, samples=_anywhere)
def erfc(x: Array) -> Array:
    """Complementary error function 1 - erf(x), elementwise, without the cancellation at large x.

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
    >>> y = F.erfc(x)
    >>> y.backward()
    >>> round(y.item(), 4), round(x.grad.item(), 4)
    (0.4795, -0.8788)
    """
    return special().erfc(floating(x))


@erfc.vjp("x")
def _(g: Array, x: Array) -> Array:
    return g * (-2 / math.sqrt(math.pi) * _bell(x))


@op(elementwise=True, samples=_between)
def erfinv(x: Array) -> Array:
    """Number whose error function is x, elementwise.

    Parameters
    ----------
    x : array
        Numbers in [-1, 1], of any shape.

    Returns
    -------
    array of the same shape
        NaN outside, infinite at -1 and 1, where the gradient is too.

    Raises
    ------
    ImportError
        If SciPy is not installed.

    Examples
    --------
    >>> import autodiff as ad
    >>> import autodiff.functional as F
    >>> x = ad.Tensor(0.5, requires_grad=True)
    >>> y = F.erfinv(x)
    >>> y.backward()
    >>> round(y.item(), 4), round(x.grad.item(), 4)
    (0.4769, 1.1125)
    """
    return special().erfinv(floating(x))


@erfinv.vjp("x")
def _(g: Array, out: Array) -> Array:
    return g * (math.sqrt(math.pi) / 2 * np.exp(out * out))  # erf(y) = x, so 2/sqrt(pi) exp(-y²) dy = dx


@op(elementwise=True, samples=_anywhere)
def ndtr(x: Array) -> Array:
    """Distribution function of the standard normal distribution, elementwise: (1 + erf(x/sqrt(2)))/2.

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
    >>> y = F.ndtr(x)
    >>> y.backward()
    >>> round(y.item(), 4), round(x.grad.item(), 4)
    (0.6915, 0.3521)
    """
    return special().ndtr(floating(x))


@ndtr.vjp("x")
def _(g: Array, x: Array) -> Array:
    return g * (_bell(math.sqrt(0.5) * x) * (1 / math.sqrt(2 * math.pi)))  # dy = exp(-x²/2)/sqrt(2 pi) dx


# --- logarithms ---


@op(elementwise=True, samples=_between)
def logit(x: Array) -> Array:
    """Logarithm of the odds, log(x/(1 - x)), elementwise: the inverse of the logistic sigmoid.

    Parameters
    ----------
    x : array
        Probabilities in [0, 1], of any shape.

    Returns
    -------
    array of the same shape
        NaN outside, infinite at 0 and 1, where the gradient is too.

    Raises
    ------
    ImportError
        If SciPy is not installed.

    Examples
    --------
    >>> import autodiff as ad
    >>> import autodiff.functional as F
    >>> x = ad.Tensor(0.5, requires_grad=True)
    >>> y = F.logit(x)
    >>> y.backward()
    >>> round(y.item(), 4), round(x.grad.item(), 4)
    (0.0, 4.0)
    """
    return special().logit(floating(x))


@logit.vjp("x")
def _(g: Array, x: Array) -> Array:
    return g * (1 / x + 1 / (1 - x))  # y = log x - log(1 - x)


@op(elementwise=True, samples=_pairs)
def xlogy(x: Array, y: Array) -> Array:
    """Product x log(y), elementwise, and 0 where x = 0.

    Parameters
    ----------
    x, y : array
        Of shapes that broadcast.

    Returns
    -------
    array of the broadcast shape
        0 where x = 0, unless y is NaN. At x = y = 0 that leaves y the gradient 0; for x it is minus infinity, as the
        derivative is.

    Raises
    ------
    ImportError
        If SciPy is not installed.

    Examples
    --------
    >>> import autodiff as ad
    >>> import autodiff.functional as F
    >>> x, y = ad.Tensor([0.0, 2.0], requires_grad=True), ad.Tensor([0.0, 1.0], requires_grad=True)
    >>> z = F.xlogy(x, y)
    >>> z.sum().backward()
    >>> z.tolist(), y.grad
    ([0.0, 0.0], array([0., 2.]))
    """
    return special().xlogy(*_floats(x, y))


@xlogy.vjp("x")
def _(g: Array, y: Array) -> Array:
    return xlogy(g, y)  # dz = log(y) dx


@xlogy.vjp("y")
def _(g: Array, x: Array, y: Array) -> Array:
    nothing = np.equal(x, 0) & np.equal(y, 0)
    return g * (x / np.where(nothing, 1.0, y))  # dz = x/y dy


@op(elementwise=True, samples=_pairs)
def xlog1py(x: Array, y: Array) -> Array:
    """Product x log(1 + y), elementwise, and 0 where x = 0.

    Parameters
    ----------
    x, y : array
        Of shapes that broadcast.

    Returns
    -------
    array of the broadcast shape
        0 where x = 0, unless y is NaN. At x = 0, y = -1 that leaves y the gradient 0; for x it is minus infinity, as
        the derivative is.

    Raises
    ------
    ImportError
        If SciPy is not installed.

    Examples
    --------
    >>> import autodiff as ad
    >>> import autodiff.functional as F
    >>> x, y = ad.Tensor([0.0, 2.0], requires_grad=True), ad.Tensor([-1.0, 0.0], requires_grad=True)
    >>> z = F.xlog1py(x, y)
    >>> z.sum().backward()
    >>> z.tolist(), y.grad
    ([0.0, 0.0], array([0., 2.]))
    """
    return special().xlog1py(*_floats(x, y))


@xlog1py.vjp("x")
def _(g: Array, y: Array) -> Array:
    return xlog1py(g, y)  # dz = log(1 + y) dx


@xlog1py.vjp("y")
def _(g: Array, x: Array, y: Array) -> Array:
    nothing = np.equal(x, 0) & np.equal(y, -1)
    return g * (x / np.where(nothing, 1.0, 1 + y))  # dz = x/(1 + y) dy


def _floats(*arrays: Array) -> list[Array]:
    """Promote as NumPy does, for which Python's numbers are weak; SciPy would take them for float64."""
    dtype = np.result_type(*arrays)
    return [np.asarray(x, dtype if dtype.kind == "f" else np.float64) for x in arrays]


def _log_expit(x: Array) -> Array:
    """``scipy.special.log_expit`` of a tensor: log(1/(1 + exp(-x))) = -log(1 + exp(-x))."""
    return -softplus(-x)


# --- SciPy's names ---

LATE.update({f"scipy.special.{made.name}": made for made in (erf, erfc, erfinv, logit, ndtr, xlog1py, xlogy)})
LATE.update({"scipy.special.expit": sigmoid, "scipy.special.log_expit": _log_expit})
