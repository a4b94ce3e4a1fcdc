"""Polynomials by their coefficients, the highest power first: values, sums, products, derivatives, integrals.

Coefficients and places are differentiated alike.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..node import Array
from ..protocols import to_array
from ._twins import operand, twin

__all__ = ["poly", "polyadd", "polyder", "polyint", "polymul", "polysub", "polyval"]


@twin("polyval")
def polyval(p: Array, x: Array) -> Array:
    """Values of a polynomial, by Horner's rule.

    Parameters
    ----------
    p : array of one axis
        The coefficients, that of the highest power first.
    x : array
        Where to evaluate it; of any shape.

    Returns
    -------
    array of the shape of x

    Examples
    --------
    >>> import autodiff as ad
    >>> import autodiff.functional as F
    >>> x = ad.Tensor([1.0, 2.0], requires_grad=True)
    >>> y = F.polyval([3.0, 0.0, 1.0], x)
    >>> y.sum().backward()
    >>> y.tolist(), x.grad
    ([4.0, 13.0], array([ 6., 12.]))
    """
    x = _array("polyval", x)
    y: Any = np.zeros_like(to_array(x))
    for coefficient in _array("polyval", p):
        y = y * x + coefficient
    return y


@twin("poly")
def poly(seq_of_zeros: Array) -> Array:
    """Coefficients of the polynomial that is zero at some places, and has the leading coefficient 1.

    Parameters
    ----------
    seq_of_zeros : array of one axis
        The places.

    Returns
    -------
    array of one axis, longer by one

    Raises
    ------
    ValueError
        For a matrix: its eigenvalues, of which NumPy would make the polynomial, may be complex.

    Examples
    --------
    >>> import numpy as np
    >>> import autodiff.functional as F
    >>> F.poly(np.array([1.0, -2.0]))
    array([ 1.,  1., -2.])
    """
    zeros = np.atleast_1d(_array("poly", seq_of_zeros))
    if zeros.ndim != 1:
        raise ValueError(f"poly takes the zeros in one axis; of a matrix, pass its eigenvalues; got {zeros.shape}")
    kind = np.dtype(np.mintypecode(zeros.dtype.char))
    zeros = zeros if zeros.dtype == kind else zeros.astype(kind)
    one = np.ones(1, zeros.dtype)
    coefficients: Any = one
    for zero in zeros:
        coefficients = np.convolve(coefficients, np.append(one, -zero))
    return coefficients


@twin("polyadd")
def polyadd(a1: Array, a2: Array) -> Array:
    """Sum of two polynomials."""
    a1, a2 = _of_one_length("polyadd", a1, a2)
    return a1 + a2


@twin("polysub")
def polysub(a1: Array, a2: Array) -> Array:
    """Difference of two polynomials."""
    a1, a2 = _of_one_length("polysub", a1, a2)
    return a1 - a2


@twin("polymul")
def polymul(a1: Array, a2: Array) -> Array:
    """Product of two polynomials. Zeros in front are left out of it.

    Examples
    --------
    >>> import numpy as np
    >>> import autodiff.functional as F
    >>> F.polymul(np.array([1.0, 1.0]), np.array([1.0, -1.0]))
    array([ 1.,  0., -1.])
    """
    return np.convolve(_trimmed("polymul", a1), _trimmed("polymul", a2))


@twin("polyder")
def polyder(p: Array, m: int = 1) -> Array:
    """Derivative of a polynomial, of any order m.

    Examples
    --------
    >>> import numpy as np
    >>> import autodiff.functional as F
    >>> F.polyder(np.array([1.0, 2.0, 3.0]))
    array([2., 2.])
    """
    p = _array("polyder", p)
    for _ in range(_order("polyder", m)):
        p = p[:-1] * np.arange(len(p) - 1, 0, -1)
    return p


@twin("polyint")
def polyint(p: Array, m: int = 1, k: ArrayLike | None = None) -> Array:
    """Integral of a polynomial, m times.

    Parameters
    ----------
    p : array of one axis
        The coefficients, that of the highest power first.
    m : int
        How often.
    k : float or array of m elements, optional
        The constants, in the order in which they are added; by default 0.

    Returns
    -------
    array of one axis

    Raises
    ------
    ValueError
        If m is negative, or there are less than m constants.
    """
    m = _order("polyint", m)
    constants: Any = np.zeros(m) if k is None else np.atleast_1d(operand(k))
    if k is not None and len(constants) == 1:
        constants = constants[0] * np.ones(m)
    if len(constants) < m:
        raise ValueError(f"polyint: k must be a number or {m} of them, got {len(constants)}")
    p = _array("polyint", p)
    for i in range(m):
        p = np.concatenate([p / np.arange(len(p), 0, -1), constants[i : i + 1]])
    return p


# --- what they share ---


def _array(name: str, p: Any) -> Array:
    if isinstance(p, np.poly1d):
        raise TypeError(f"{name} of a tensor takes arrays: of a poly1d p, pass p.coeffs")
    return operand(p)


def _order(name: str, m: int) -> int:
    m = operator.index(m)
    if m < 0:
        raise ValueError(f"{name}: the order must be at least 0, got {m}")
    return m


def _of_one_length(name: str, *polynomials: Array) -> list[Array]:
    """Put zeros in front of the shorter one."""
    whole = [np.atleast_1d(_array(name, p)) for p in polynomials]
    longest = max(len(p) for p in whole)
    return [np.concatenate([np.zeros(longest - len(p), p.dtype), p]) if len(p) < longest else p for p in whole]


def _trimmed(name: str, p: Array) -> Array:
    """Leave out the zeros in front; of zeros alone, all but one."""
    p = np.atleast_1d(_array(name, p))
    filled = np.flatnonzero(to_array(p))
    return p[min(filled[0] if filled.size else len(p) - 1, len(p) - 1) :]
