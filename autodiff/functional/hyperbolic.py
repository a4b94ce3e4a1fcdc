"""Hyperbolic functions and their inverses, elementwise."""

from __future__ import annotations

import numpy as np

from ..node import Array
from ..op import op
from ._samples import SHAPES, away
from .trigonometric import one_minus_square

__all__ = ["arccosh", "arcsinh", "arctanh", "cosh", "sinh", "tanh"]


# --- hyperbolic sine, cosine, tangent ---


@op(numpy=np.sinh, samples=lambda rng: [(away(rng, shape),) for shape in SHAPES])
def sinh(x: Array) -> Array:
    """Hyperbolic sine, elementwise.

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
    >>> F.sinh(np.array([0.0, 1.0]))
    array([0.        , 1.17520119])
    """
    return np.sinh(x)


@sinh.vjp("x")
def _(g: Array, x: Array) -> Array:
    return g * np.cosh(x)  # y = (e^x - e^-x)/2


@op(numpy=np.cosh, samples=lambda rng: [(away(rng, shape),) for shape in SHAPES])
def cosh(x: Array) -> Array:
    """Hyperbolic cosine, elementwise.

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
    >>> F.cosh(np.array([0.0, 1.0]))
    array([1.        , 1.54308063])
    """
    return np.cosh(x)


@cosh.vjp("x")
def _(g: Array, x: Array) -> Array:
    return g * np.sinh(x)  # y = (e^x + e^-x)/2


@op(numpy=np.tanh, samples=lambda rng: [(away(rng, shape),) for shape in SHAPES])
def tanh(x: Array) -> Array:
    """Hyperbolic tangent, elementwise.

    Parameters
    ----------
    x : array
        Of any shape.

    Returns
    -------
    array of the same shape

    Examples
    --------
    >>> import autodiff as ad
    >>> import autodiff.functional as F
    >>> x = ad.Tensor([0.0, 1000.0], requires_grad=True)
    >>> F.tanh(x).sum().backward()
    >>> x.grad
    array([1., 0.])
    """
    return np.tanh(x)


@tanh.vjp("x")
def _(g: Array, out: Array) -> Array:
    # dy = dx/cosh² x. As cosh² - sinh² = 1, that is 1 - tanh² x: the output suffices, and nothing overflows.
    return g * (1 - out * out)


# --- inverses ---


@op(numpy=np.arcsinh, samples=lambda rng: [(away(rng, shape),) for shape in SHAPES])
def arcsinh(x: Array) -> Array:
    """Number whose hyperbolic sine is x, elementwise.

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
    >>> F.arcsinh(np.array([0.0, 1.0]))
    array([0.        , 0.88137359])
    """
    return np.arcsinh(x)


@arcsinh.vjp("x")
def _(g: Array, x: Array) -> Array:
    # sinh y = x, so cosh y dy = dx, where cosh² y = 1 + x², whose root does not overflow although x² may.
    return g / np.hypot(1, x)


@op(numpy=np.arccosh, samples=lambda rng: [(rng.uniform(1.2, 3.0, shape),) for shape in SHAPES])
def arccosh(x: Array) -> Array:
    """Non-negative number whose hyperbolic cosine is x, elementwise.

    Parameters
    ----------
    x : array
        Numbers from 1 up, of any shape.

    Returns
    -------
    array of the same shape
        NaN below 1. At 1 the gradient is infinite, as the derivative is.

    Examples
    --------
    >>> import numpy as np
    >>> import autodiff.functional as F
    >>> F.arccosh(np.array([1.0, 2.0]))
    array([0.       , 1.3169579])
    """
    return np.arccosh(x)


@arccosh.vjp("x")
def _(g: Array, x: Array) -> Array:
    # cosh y = x, so sinh y dy = dx, where sinh² y = x² - 1. A root of each factor overflows for no x, and as divisors
    # none of them is 0 times infinity in the second derivative.
    return g / np.sqrt(x - 1) / np.sqrt(x + 1)


@op(numpy=np.arctanh, samples=lambda rng: [(away(rng, shape, 0.1, 0.7),) for shape in SHAPES])
def arctanh(x: Array) -> Array:
    """Number whose hyperbolic tangent is x, elementwise.

    Parameters
    ----------
    x : array
        Numbers in [-1, 1], of any shape.

    Returns
    -------
    array of the same shape
        NaN outside, infinite at -1 and 1, where the gradient is too.

    Examples
    --------
    >>> import numpy as np
    >>> import autodiff.functional as F
    >>> F.arctanh(np.array([0.0, 0.5]))
    array([0.        , 0.54930614])
    """
    return np.arctanh(x)


@arctanh.vjp("x")
def _(g: Array, x: Array) -> Array:
    return g / one_minus_square(x)  # tanh y = x, so (1 - tanh² y) dy = dx
