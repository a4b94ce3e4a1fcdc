"""Powers, roots and lengths, elementwise."""

from __future__ import annotations

import numpy as np

from ..node import TWINS, Array
from ..op import op
from ..protocols import to_array
from ._samples import PAIRS, SHAPES, away, distinct
from .elementwise import astype

__all__ = ["cbrt", "hypot", "ldexp", "power", "reciprocal", "sqrt", "square"]


# --- powers ---


@op(
    numpy=np.power,
    samples=lambda rng: [
        *((rng.uniform(0.5, 2.0, a), distinct(rng, b)[0]) for a, b in PAIRS),
        *((away(rng, (2, 3)), exponent) for exponent in (0, 1, 2, 3, -2)),
        (away(rng, (2, 3)), np.array([0, 1, 3])),
        (rng.uniform(0.5, 2.0, (2, 3)), 0.5),
        (2.5, away(rng, (3,))),
        (np.array([1, 2, 3]), away(rng, (3, 1))),
    ],
    error_samples=[((np.array([1, 2]), -1), ValueError)],
)
def power(x1: Array, x2: Array) -> Array:
    """Base to the power of an exponent, elementwise.

    At base 0 the gradient of the base is 0 for the exponent 0 and 1 for the exponent 1; the gradient of the exponent is
    0 for positive exponents. That of a constant exponent is never computed, so negative bases are fine there.

    Parameters
    ----------
    x1, x2 : array
        Base and exponent, of shapes that broadcast.

    Returns
    -------
    array of the broadcast shape
        NaN for a negative base and a fractional exponent, as in NumPy.

    Raises
    ------
    ValueError
        For an integer base with a negative integer exponent, as in NumPy.

    Examples
    --------
    >>> import autodiff as ad
    >>> import autodiff.functional as F
    >>> x = ad.Tensor([-2.0, 0.0, 3.0], requires_grad=True)
    >>> F.power(x, 3).sum().backward()
    >>> x.grad
    array([12.,  0., 27.])
    """
    return x1**x2


@power.vjp("x1")
def _(g: Array, x1: Array, x2: Array) -> Array:
    # dy = x2 x1^(x2 - 1) dx1. For x2 = 0 that is 0 times 1/x1, which at x1 = 0 would be NaN: take another power there.
    if type(x2) in _CONSTANT:
        if x2 >= 1 or not x2:
            return g * (x2 * x1 ** (x2 - 1 if x2 else 0))
        return _along(g, x2 / x1, x1**x2) if x2 < 0 else _along(g, x2 * x1 ** (x2 - 1))
    # Not where x2 = 0 alone: an exponent that is a variable has the mixed derivative 1/x1 there.
    return _along(g, x2 * x1 ** np.where((x1 == 0) & (x2 == 0), 0.0, x2 - 1.0))


_CONSTANT = (int, float, bool)
"""Types of exponents that are no variables; a NumPy scalar, though also a float, may be one."""


@power.vjp("x2")
def _(g: Array, x1: Array, x2: Array, out: Array) -> Array:
    # y = exp(x2 log x1), so dy = y log(x1) dx2. As x1 -> 0 that goes to 0 for x2 > 0, although log(x1) does not.
    base = np.where((x1 == 0) & (x2 > 0), 1, x1).astype(g.dtype)  # a Python number may not widen float32
    return _along(g, out * np.log(base))


def _along(g: Array, *slopes: Array) -> Array:
    """Multiply by the factors of a slope that may be infinite or NaN; what nothing depends on gets 0 all the same.

    Such a g of 0 is met in second derivatives: the mixed one of x1^x2 at x1 = 0 does not depend on the pure one, which
    is infinite there; nor does one element's, among several, on that of another. A recorded g stays a factor, as it
    may be 0 by chance.
    """
    unused = to_array(g) is g and not all(np.all(np.isfinite(slope)) for slope in slopes) and np.equal(g, 0)
    for slope in slopes:
        g = g * (slope if unused is False else np.where(unused, 0.0, slope))
    return g


def _numpy_power(x1: Array, x2: Array) -> Array:
    """``np.power`` of tensors: of a boolean one, a Python integer is no weak exponent, as it is of the operator."""
    strong = type(x2) is int and getattr(x1, "dtype", None) == _BOOLEAN
    return power(x1.astype(np.int64) if strong else x1, x2)


def _float_power(x1: Array, x2: Array) -> Array:
    """``np.float_power`` of tensors: a power in double precision."""
    return power(_double(x1), _double(x2))


def _double(x: Array) -> Array:
    return x if isinstance(x, (int, float, type(None))) else astype(x, dtype=np.float64)


TWINS[np.power], TWINS[np.float_power] = _numpy_power, _float_power


_BOOLEAN = np.dtype(bool)


@op(numpy=np.square, samples=lambda rng: [(away(rng, shape),) for shape in SHAPES])
def square(x: Array) -> Array:
    """Square, elementwise.

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
    >>> F.square(np.array([-2.0, 3.0]))
    array([4., 9.])
    """
    boolean = getattr(x, "dtype", None) is _BOOLEAN  # whose square is an integer, unlike their product
    return np.square(x) if boolean else x * x


@square.vjp("x")
def _(g: Array, x: Array) -> Array:
    return g * (2 * x)  # dy = 2x dx


@op(numpy=np.reciprocal, samples=lambda rng: [(away(rng, shape),) for shape in SHAPES])
def reciprocal(x: Array) -> Array:
    """Reciprocal 1/x, elementwise.

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
    >>> F.reciprocal(np.array([2.0, -4.0]))
    array([ 0.5 , -0.25])
    """
    return np.reciprocal(x)


@reciprocal.vjp("x")
def _(g: Array, out: Array) -> Array:
    # dy = -1/x² dx = -y² dx. A slope of several factors may leave the range where the gradient does not. Where all of
    # them exceed 1, or none does, g is multiplied by one after another: each moves it the same way, so that what is
    # between leaves the range only if the gradient does.
    return -g * out * out


@op(
    numpy=np.ldexp,
    samples=lambda rng: [
        *((away(rng, a), rng.integers(-3, 4, b)) for a, b in PAIRS),
        (away(rng, (2, 3)), -2),
    ],
    error_samples=[((np.ones(3), 0.5), TypeError)],
)
def ldexp(x1: Array, x2: Array) -> Array:
    """Product of a number and a power of 2, ``x1 * 2**x2``, elementwise, without rounding.

    Parameters
    ----------
    x1 : array
        Of any shape.
    x2 : integer array
        Exponents, of a shape that broadcasts with `x1`.

    Returns
    -------
    array of the broadcast shape

    Raises
    ------
    TypeError
        If the exponents are not integers.

    Examples
    --------
    >>> import numpy as np
    >>> import autodiff.functional as F
    >>> F.ldexp(np.array([0.5, 3.0]), 2)
    array([ 2., 12.])
    """
    return np.ldexp(x1, x2)


ldexp.nondiff("x2")


@ldexp.vjp("x1")
def _(g: Array, x2: Array) -> Array:
    return np.ldexp(g, x2)  # dy = 2^x2 dx1


def _frexp(x: Array) -> tuple[Array, Array]:
    """``np.frexp`` of a tensor: with the exponents as plain integers the mantissas are ``x * 2**-exponent``."""
    exponents = np.frexp(to_array(x))[1]
    return ldexp(x, -exponents), exponents


TWINS[np.frexp] = _frexp


# --- roots ---


@op(numpy=np.sqrt, samples=lambda rng: [(rng.uniform(0.5, 2.0, shape),) for shape in SHAPES])
def sqrt(x: Array) -> Array:
    """Non-negative square root, elementwise. Its gradient at 0 is infinite, as the derivative is.

    Parameters
    ----------
    x : array
        Of any shape.

    Returns
    -------
    array of the same shape
        NaN where x < 0.

    Examples
    --------
    >>> import numpy as np
    >>> import autodiff.functional as F
    >>> F.sqrt(np.array([4.0, 9.0]))
    array([2., 3.])
    """
    return np.sqrt(x)


@sqrt.vjp("x")
def _(g: Array, out: Array) -> Array:
    return g / (2 * out)  # y² = x, so 2y dy = dx


@op(numpy=np.cbrt, samples=lambda rng: [(away(rng, shape),) for shape in SHAPES])
def cbrt(x: Array) -> Array:
    """Cube root, elementwise, of numbers of both signs. Its gradient at 0 is infinite, as the derivative is.

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
    >>> F.cbrt(np.array([8.0, -27.0]))
    array([ 2., -3.])
    """
    return np.cbrt(x)


@cbrt.vjp("x")
def _(g: Array, out: Array) -> Array:
    return g / (3 * (out * out))  # y³ = x, so 3y² dy = dx


@op(numpy=np.hypot, samples=lambda rng: [distinct(rng, *shapes) for shapes in PAIRS])
def hypot(x1: Array, x2: Array) -> Array:
    """Length of the hypotenuse sqrt(x1² + x2²), elementwise, of numbers of any size. Its gradient at (0, 0) is 0.

    Parameters
    ----------
    x1, x2 : array
        The two legs, of shapes that broadcast.

    Returns
    -------
    array of the broadcast shape

    Examples
    --------
    >>> import autodiff as ad
    >>> import autodiff.functional as F
    >>> x = ad.Tensor([3.0, 3e200, 0.0], requires_grad=True)
    >>> y = F.hypot(x, [4.0, 4e200, 0.0])
    >>> y.sum().backward()
    >>> y.tolist(), x.grad
    ([5.0, 5e+200, 0.0], array([0.6, 0.6, 0. ]))
    """
    return np.hypot(x1, x2)


@hypot.vjp("x1")
def _(g: Array, x1: Array, x2: Array, out: Array) -> Array:
    return g * _direction(x1, x2, out)  # y² = x1² + x2², so y dy = x1 dx1 + x2 dx2


@hypot.vjp("x2")
def _(g: Array, x1: Array, x2: Array, out: Array) -> Array:
    return g * _direction(x2, x1, out)


def _direction(leg: Array, other: Array, length: Array) -> Array:
    """Cosine between a leg and the hypotenuse. The length has a kink at the origin: slopes of both signs, 0 between."""
    if np.any(np.isinf(length) & np.isfinite(leg) & np.isfinite(other)):  # too long, but a half of it is not
        leg, other = 0.5 * leg, 0.5 * other
        length = np.hypot(leg, other)
    origin, infinite = np.equal(length, 0), np.isinf(leg)
    cosine = leg / np.where(origin | infinite, 1.0, length)
    return np.where(origin, 0.0, np.where(infinite, np.sign(leg), cosine))  # its limit where inf/inf tells nothing
