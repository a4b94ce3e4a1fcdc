"""Arithmetic, elementwise: sums and products.

The arguments broadcast, and every rule returns a cotangent of the output's shape: the sum over broadcast axes, the VJP
of broadcasting, is taken by the backward sweep for all of them. The forwards are written with operators, because those
are ten times faster than ufuncs on NumPy's scalars, and as fast on arrays.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..node import TWINS, Array
from ..op import op
from ._blocks import unboxed
from ._samples import SHAPES, away, pairs

__all__ = ["add", "astype", "divide", "multiply", "negative", "positive", "subtract"]


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


@op(numpy=np.positive, linear=True, samples=lambda rng: [(away(rng, shape),) for shape in SHAPES])
def positive(x: Array) -> Array:
    """Same numbers, in an array of their own.

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
    >>> F.positive(np.array([1.0, -2.0]))
    array([ 1., -2.])
    """
    return np.positive(x)


@positive.vjp("x")
def _(g: Array) -> Array:
    return g


def _conjugate(x: Array) -> Array:
    """``np.conjugate`` of a tensor: of booleans, NumPy makes small integers."""
    return positive(astype(x, dtype=np.int8) if x.dtype == bool else x)


def _real(val: Array) -> Array:
    """``np.real`` of a tensor."""
    return astype(val, dtype=bool) if val.dtype == bool else positive(val)


def _real_if_close(a: Array, tol: float = 100) -> Array:
    """``np.real_if_close`` of a tensor, which is real."""
    return _real(a)


TWINS[np.conjugate], TWINS[np.real], TWINS[np.real_if_close] = _conjugate, _real, _real_if_close


# --- dtype ---


def _double(rng: np.random.Generator) -> list[Any]:
    """Differences need double precision, however it is written."""
    return [(away(rng, shape), {"dtype": dtype}) for shape in SHAPES for dtype in (np.float64, "float64")]


@op(linear=True, elementwise=True, samples=_double)
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
