"""Arithmetic, elementwise: sums, products, powers and roots.

The arguments broadcast, and every rule returns a cotangent of the output's shape: the sum over broadcast axes, the VJP
of broadcasting, is taken by the backward sweep for all of them. The forwards are written with operators, because those
are ten times faster than ufuncs on NumPy's scalars, and as fast on arrays.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..node import Array
from ..op import op
from ._blocks import unboxed
from ._samples import PAIRS, SHAPES, away, distinct, pairs

__all__ = [
    "add", "astype", "divide", "multiply", "negative", "power", "reciprocal", "sqrt", "square", "subtract",
]  # fmt: skip


# --- sums and products ---


@op(numpy=np.add, linear=True, samples=lambda rng: [*pairs(rng), (away(rng, (2, 3)), np.array([1, 2, 3]))])
def add(x1: Array, x2: Array) -> Array:
    """Sum of two arrays, elementwise.

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
    >>> F.add(np.array([1.0, 2.0]), 3.0)
    array([4., 5.])
    """
    return x1 + x2


@add.vjp("x1")
def _(g: Array) -> Array:
    return g  # dy = dx1 + dx2


@add.vjp("x2")
def _(g: Array) -> Array:
    return g


@op(numpy=np.subtract, linear=True, samples=lambda rng: [*pairs(rng), (np.array([1, 2, 3]), away(rng, (2, 3)))])
def subtract(x1: Array, x2: Array) -> Array:
    """Difference of two arrays, elementwise.

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
    >>> F.subtract(np.array([1.0, 2.0]), 3.0)
    array([-2., -1.])
    """
    return x1 - x2


@subtract.vjp("x1")
def _(g: Array) -> Array:
    return g  # dy = dx1 - dx2


@subtract.vjp("x2")
def _(g: Array) -> Array:
    return -g


@op(numpy=np.multiply, samples=lambda rng: [*pairs(rng), (away(rng, (2, 3)), np.array([1, 2, 3]))])
def multiply(x1: Array, x2: Array) -> Array:
    """Product of two arrays, elementwise.

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
    >>> x, y = ad.Tensor([1.0, 2.0], requires_grad=True), ad.Tensor(3.0, requires_grad=True)
    >>> F.multiply(x, y).backward([1.0, 1.0])
    >>> x.grad, y.grad
    (array([3., 3.]), array(3.))
    """
    return x1 * x2


@multiply.vjp("x1")
def _(g: Array, x2: Array) -> Array:
    return g * x2  # dy = x2 dx1 + x1 dx2


@multiply.vjp("x2")
def _(g: Array, x1: Array) -> Array:
    return g * x1


@op(numpy=np.divide, samples=lambda rng: [*pairs(rng), (np.array([1, 2, 3]), away(rng, (2, 3)))])
def divide(x1: Array, x2: Array) -> Array:
    """Quotient of two arrays, elementwise.

    Parameters
    ----------
    x1, x2 : array
        Numerator and denominator, of shapes that broadcast.

    Returns
    -------
    array of the broadcast shape

    Examples
    --------
    >>> import numpy as np
    >>> import autodiff.functional as F
    >>> F.divide(np.array([1.0, 2.0]), 4.0)
    array([0.25, 0.5 ])
    """
    return x1 / x2


@divide.vjp("x1")
def _(g: Array, x2: Array) -> Array:
    return g / x2  # dy = dx1/x2 - (x1/x2²) dx2


@divide.vjp("x2")
def _(g: Array, x2: Array, out: Array) -> Array:
    # x1/x2² = y/x2, which neither overflows nor underflows where x2² would.
    return -(g / x2) * out


@op(numpy=np.negative, linear=True, samples=lambda rng: [(away(rng, shape),) for shape in SHAPES])
def negative(x: Array) -> Array:
    """Negative of an array, elementwise.

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
    >>> F.negative(np.array([1.0, -2.0]))
    array([-1.,  2.])
    """
    return -x


@negative.vjp("x")
def _(g: Array) -> Array:
    return -g


# --- powers and roots ---


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
    if isinstance(x2, (int, float)):
        return g * (x2 * x1 ** (x2 - 1 if x2 else 0))
    # Not where x2 = 0 alone: an exponent that is a variable has the mixed derivative 1/x1 there.
    return g * (x2 * x1 ** np.where((x1 == 0) & (x2 == 0), 0.0, x2 - 1.0))


@power.vjp("x2")
def _(g: Array, x1: Array, x2: Array, out: Array) -> Array:
    # y = exp(x2 log x1), so dy = y log(x1) dx2. As x1 -> 0 that goes to 0 for x2 > 0, although log(x1) does not.
    base = np.where((x1 == 0) & (x2 > 0), 1, x1).astype(g.dtype)  # a Python number may not widen float32
    return g * (out * np.log(base))


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
    return x * x


@square.vjp("x")
def _(g: Array, x: Array) -> Array:
    return g * (2 * x)  # dy = 2x dx


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
    return -g * (out * out)  # dy = -1/x² dx = -y² dx


# --- dtype ---


@op(linear=True, elementwise=True, samples=lambda rng: [(away(rng, shape), {"dtype": np.float64}) for shape in SHAPES])
def astype(a: Array, *, dtype: Any) -> Array:
    """Same numbers in another dtype. The gradient comes back in the dtype of the argument.

    Parameters
    ----------
    a : array
        Of any shape.
    dtype : dtype
        A floating one; integers and booleans carry no gradient.

    Returns
    -------
    array of the same shape, a copy

    Examples
    --------
    >>> import numpy as np
    >>> import autodiff.functional as F
    >>> F.astype(np.array([0.1, 0.2]), dtype=np.float32)
    array([0.1, 0.2], dtype=float32)
    """
    return unboxed(np.array(a, dtype))


@astype.vjp("a")
def _(g: Array) -> Array:
    # Rounding apart, y = a; the sweep casts the cotangent to the argument's dtype, as it does for every op.
    return g
