"""Rounding, and division with remainder, elementwise.

A rounded number is constant wherever it is differentiable. So its gradient is 0, at the jumps too. (For a gradient that
passes rounding as if it were not there, declare an op with ``surrogate=("x",)``.)
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..node import TWINS, Array
from ..op import op
from ..protocols import as_numpy, to_array
from ._samples import PAIRS, SHAPES
from ._twins import operand

__all__ = ["ceil", "floor", "floor_divide", "fmod", "remainder", "rint", "round", "trunc"]


# --- to integers ---


def _between(rng: np.random.Generator) -> list[Any]:
    """Numbers away from integers and from halves."""
    return [(rng.integers(-3, 4, shape) + rng.choice([0.2, 0.3, 0.7, 0.8], shape),) for shape in SHAPES]


@op(numpy=np.floor, samples=_between)
def floor(x: Array) -> Array:
    """Largest integer that is not above x, elementwise.

    Parameters
    ----------
    x : array
        Of any shape.

    Returns
    -------
    array of the same shape, with the gradient 0

    Examples
    --------
    >>> import numpy as np
    >>> import autodiff.functional as F
    >>> F.floor(np.array([-1.5, 0.5, 2.7]))
    array([-2.,  0.,  2.])
    """
    return np.floor(x)


floor.zero("x")


@op(numpy=np.ceil, samples=_between)
def ceil(x: Array) -> Array:
    """Smallest integer that is not below x, elementwise.

    Parameters
    ----------
    x : array
        Of any shape.

    Returns
    -------
    array of the same shape, with the gradient 0

    Examples
    --------
    >>> import numpy as np
    >>> import autodiff.functional as F
    >>> F.ceil(np.array([-1.5, 0.5, 2.7]))
    array([-1.,  1.,  3.])
    """
    return np.ceil(x)


ceil.zero("x")


@op(numpy=np.trunc, samples=_between)
def trunc(x: Array) -> Array:
    """Integer part: what is left without the digits behind the point, elementwise.

    Parameters
    ----------
    x : array
        Of any shape.

    Returns
    -------
    array of the same shape, with the gradient 0

    Examples
    --------
    >>> import numpy as np
    >>> import autodiff.functional as F
    >>> F.trunc(np.array([-1.5, 0.5, 2.7]))
    array([-1.,  0.,  2.])
    """
    return np.trunc(x)


trunc.zero("x")


@op(numpy=np.rint, samples=_between)
def rint(x: Array) -> Array:
    """Nearest integer, halves to the even one, elementwise.

    Parameters
    ----------
    x : array
        Of any shape.

    Returns
    -------
    array of the same shape, with the gradient 0

    Examples
    --------
    >>> import numpy as np
    >>> import autodiff.functional as F
    >>> F.rint(np.array([-1.5, 0.5, 2.7]))
    array([-2.,  0.,  3.])
    """
    return np.rint(x)


rint.zero("x")


@op(
    numpy=np.round,
    elementwise=True,
    samples=lambda rng: [
        *_between(rng),
        (np.array([-47.3, 12.9, 8.1]), {"decimals": -1}),
        (np.array([0.123, -0.456]), {"decimals": 2}),
    ],
)
def round(a: Array, *, decimals: int = 0) -> Array:
    """Nearest number with so many decimals, halves to the even one, elementwise.

    Parameters
    ----------
    a : array
        Of any shape.
    decimals : int
        How many digits to keep behind the point; negative ones round to tens, hundreds and so on.

    Returns
    -------
    array of the same shape, with the gradient 0

    Examples
    --------
    >>> import numpy as np
    >>> import autodiff.functional as F
    >>> F.round(np.array([3.14159, 2.5]), decimals=2)
    array([3.14, 2.5 ])
    """
    return np.round(a, decimals)


round.zero("a")

TWINS[np.fix] = as_numpy(np.fix, trunc)
TWINS[np.around] = TWINS[np.round]  # an older name, a function of its own


# --- division with remainder ---
#
# y = x1 - q x2 with an integer q = floor(x1/x2), or trunc(x1/x2). Between its jumps q is constant, so dy = dx1 - q dx2.
# At a jump (x1 a multiple of x2) q is that of the piece to which the result belongs: the gradient is one-sided there.


def _divisions(rng: np.random.Generator) -> list[Any]:
    """Pairs of numbers whose quotients lie between integers."""
    return [
        (rng.integers(-4, 4, a) + rng.uniform(0.2, 0.3, a), rng.choice([-1.0, -0.5, 0.5, 1.0], b)) for a, b in PAIRS
    ]


@op(numpy=np.floor_divide, samples=_divisions)
def floor_divide(x1: Array, x2: Array) -> Array:
    """Largest integer that is not above the quotient x1/x2, elementwise.

    Parameters
    ----------
    x1, x2 : array
        Of shapes that broadcast.

    Returns
    -------
    array of the broadcast shape, with the gradient 0

    Examples
    --------
    >>> import numpy as np
    >>> import autodiff.functional as F
    >>> F.floor_divide(np.array([-7.0, 7.0]), 2.0)
    array([-4.,  3.])
    """
    return np.floor_divide(x1, x2)


floor_divide.zero("x1", "x2")


@op(numpy=np.remainder, samples=_divisions)
def remainder(x1: Array, x2: Array) -> Array:
    """Remainder x1 - floor(x1/x2) x2, elementwise, with the sign of the divisor. NumPy also calls it `mod`.

    It jumps where x1 is a multiple of x2; the gradient there is that of the piece on which the result lies.

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
    >>> x, d = ad.Tensor([-7.0, 7.0], requires_grad=True), ad.Tensor(2.0, requires_grad=True)
    >>> y = F.remainder(x, d)
    >>> y.sum().backward()
    >>> y.tolist(), x.grad, d.grad
    ([1.0, 1.0], array([1., 1.]), array(1.))
    """
    return np.remainder(x1, x2)


@remainder.vjp("x1")
def _(g: Array) -> Array:
    return g


@remainder.vjp("x2")
def _(g: Array, x1: Array, x2: Array) -> Array:
    return -g * np.floor_divide(x1, x2)


@op(numpy=np.fmod, samples=_divisions)
def fmod(x1: Array, x2: Array) -> Array:
    """Remainder x1 - trunc(x1/x2) x2, elementwise, with the sign of the dividend. It jumps as `remainder` does.

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
    >>> F.fmod(np.array([-7.0, 7.0]), 2.0)
    array([-1.,  1.])
    """
    return np.fmod(x1, x2)


@fmod.vjp("x1")
def _(g: Array) -> Array:
    return g


@fmod.vjp("x2")
def _(g: Array, x1: Array, x2: Array, out: Array) -> Array:
    # The remainder is exact, so the quotient is the integer next to this. trunc(x1/x2) would be off by one where the
    # division rounds up: 1/0.1 is 10, although 0.1 is a little more than a tenth and goes into 1 only 9 times.
    return -g * np.rint((x1 - out) / x2)


def _divmod(x1: Array, x2: Array) -> tuple[Array, Array]:
    """``np.divmod`` of tensors."""
    return floor_divide(x1, x2), remainder(x1, x2)


def _modf(x: Array) -> tuple[Array, Array]:
    """``np.modf`` of a tensor: fractional and integer part. An infinite number has the fraction 0."""
    x = operand(x)
    if x.dtype.kind != "f":
        x = x.astype(np.modf.resolve_dtypes((x.dtype, None, None))[1])
    values = to_array(x)
    return fmod(np.where(np.isinf(values), np.copysign(0, values), x), 1), trunc(x)


TWINS[np.divmod], TWINS[np.modf] = _divmod, _modf
