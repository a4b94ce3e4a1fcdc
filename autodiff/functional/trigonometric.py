"""Sine, cosine, tangent, their inverses, and the two units of angles, elementwise."""

from __future__ import annotations

import math

import numpy as np

from ..node import TWINS, Array
from ..op import op
from ._samples import PAIRS, SHAPES, away, distinct

__all__ = [
    "arccos", "arcsin", "arctan", "arctan2", "cos", "deg2rad", "rad2deg", "sin", "sinc", "tan",
]  # fmt: skip


# --- sine, cosine, tangent ---


@op(numpy=np.sin, samples=lambda rng: [(away(rng, shape),) for shape in SHAPES])
def sin(x: Array) -> Array:
    """Sine, elementwise.

    Parameters
    ----------
    x : array
        Angles in radians, of any shape.

    Returns
    -------
    array of the same shape

    Examples
    --------
    >>> import numpy as np
    >>> import autodiff.functional as F
    >>> F.sin(np.array([0.0, np.pi / 2]))
    array([0., 1.])
    """
    return np.sin(x)


@sin.vjp("x")
def _(g: Array, x: Array) -> Array:
    return g * np.cos(x)


@op(numpy=np.cos, samples=lambda rng: [(away(rng, shape),) for shape in SHAPES])
def cos(x: Array) -> Array:
    """Cosine, elementwise.

    Parameters
    ----------
    x : array
        Angles in radians, of any shape.

    Returns
    -------
    array of the same shape

    Examples
    --------
    >>> import numpy as np
    >>> import autodiff.functional as F
    >>> F.cos(np.array([0.0, np.pi]))
    array([ 1., -1.])
    """
    return np.cos(x)


@cos.vjp("x")
def _(g: Array, x: Array) -> Array:
    return -g * np.sin(x)


@op(numpy=np.tan, samples=lambda rng: [(away(rng, shape, 0.3, 1.0),) for shape in SHAPES])
def tan(x: Array) -> Array:
    """Tangent, elementwise.

    Parameters
    ----------
    x : array
        Angles in radians, of any shape.

    Returns
    -------
    array of the same shape

    Examples
    --------
    >>> import numpy as np
    >>> import autodiff.functional as F
    >>> F.tan(np.array([0.0, np.pi / 4]))
    array([0., 1.])
    """
    return np.tan(x)


@tan.vjp("x")
def _(g: Array, out: Array) -> Array:
    return g * (1 + out * out)  # dy = dx/cos² x, and 1/cos² = 1 + sin²/cos²


@op(numpy=np.sinc, samples=lambda rng: [*((away(rng, shape),) for shape in SHAPES), (np.array([0.0, 0.01, -0.03]),)])
def sinc(x: Array) -> Array:
    """Cardinal sine, elementwise: ``sin(pi x) / (pi x)``, and 1 at 0.

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
    >>> x = ad.Tensor(0.5, requires_grad=True)
    >>> y = F.sinc(x)
    >>> y.backward()
    >>> round(y.item(), 4), round(x.grad.item(), 4)
    (0.6366, -1.2732)
    """
    return np.sinc(x)


@sinc.vjp("x")
def _(g: Array, x: Array) -> Array:
    # dy/dx = (cos(pi x) - sinc(x)) / x. Near 0 the difference cancels; there its Taylor series takes over, which can
    # also be differentiated at 0: -pi^2 x/3 + pi^4 x^3/30 - pi^6 x^5/840 + pi^8 x^7/45360 (to 1e-12 for |x| < 0.05).
    near = np.less(abs(x), 0.05)
    small, far = np.where(near, x, 0.0), np.where(near, 1.0, x)
    q = math.pi**2 * small * small
    series = -(math.pi**2) * small * (1 / 3 - q * (1 / 30 - q * (1 / 840 - q / 45360)))
    angle = math.pi * far
    return g * np.where(near, series, (np.cos(angle) - np.sin(angle) / angle) / far)


# --- inverses ---


@op(numpy=np.arcsin, samples=lambda rng: [(away(rng, shape, 0.1, 0.9),) for shape in SHAPES])
def arcsin(x: Array) -> Array:
    """Angle in [-pi/2, pi/2] whose sine is x, elementwise.

    Parameters
    ----------
    x : array
        Numbers in [-1, 1], of any shape.

    Returns
    -------
    array of the same shape
        NaN outside. At -1 and 1 the gradient is infinite, as the derivative is.

    Examples
    --------
    >>> import numpy as np
    >>> import autodiff.functional as F
    >>> F.arcsin(np.array([0.0, 1.0]))
    array([0.        , 1.57079633])
    """
    return np.arcsin(x)


@arcsin.vjp("x")
def _(g: Array, x: Array) -> Array:
    return g / np.sqrt(one_minus_square(x))  # sin y = x, so cos y dy = dx, where cos² y = 1 - x²


def one_minus_square(x: Array) -> Array:
    """Return 1 - x²: as a product, which keeps its digits near 1.

    At 1 and -1 it is the difference, whose derivative -2x is no product with a 0, which an infinite factor makes NaN.
    """
    product, end = (1 - x) * (1 + x), np.equal(abs(x), 1)
    return np.where(end, 1 - x * x, product) if np.any(end) else product


@op(numpy=np.arccos, samples=lambda rng: [(away(rng, shape, 0.1, 0.9),) for shape in SHAPES])
def arccos(x: Array) -> Array:
    """Angle in [0, pi] whose cosine is x, elementwise.

    Parameters
    ----------
    x : array
        Numbers in [-1, 1], of any shape.

    Returns
    -------
    array of the same shape
        NaN outside. At -1 and 1 the gradient is infinite, as the derivative is.

    Examples
    --------
    >>> import numpy as np
    >>> import autodiff.functional as F
    >>> F.arccos(np.array([1.0, 0.0]))
    array([0.        , 1.57079633])
    """
    return np.arccos(x)


@arccos.vjp("x")
def _(g: Array, x: Array) -> Array:
    return -g / np.sqrt(one_minus_square(x))  # arccos x = pi/2 - arcsin x


@op(numpy=np.arctan, samples=lambda rng: [(away(rng, shape),) for shape in SHAPES])
def arctan(x: Array) -> Array:
    """Angle in [-pi/2, pi/2] whose tangent is x, elementwise.

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
    >>> F.arctan(np.array([0.0, 1.0, np.inf]))
    array([0.        , 0.78539816, 1.57079633])
    """
    return np.arctan(x)


@arctan.vjp("x")
def _(g: Array, x: Array) -> Array:
    # tan y = x, so (1 + tan² y) dy = dx and dy = dx/(1 + x²). x² overflows where h = sqrt(1 + x²) does not.
    h = np.hypot(1, x)
    return g / h / h


@op(numpy=np.arctan2, samples=lambda rng: [distinct(rng, *shapes) for shapes in PAIRS])
def arctan2(x1: Array, x2: Array) -> Array:
    """Angle of the point with ordinate x1 and abscissa x2, elementwise, in [-pi, pi].

    At the origin there is no angle (NumPy says 0), and both gradients are 0. Along the negative abscissa the angle
    jumps from pi to -pi; the gradient is that of either side.

    Parameters
    ----------
    x1, x2 : array
        Ordinates and abscissas (y comes first), of shapes that broadcast.

    Returns
    -------
    array of the broadcast shape

    Examples
    --------
    >>> import autodiff as ad
    >>> import autodiff.functional as F
    >>> y, x = ad.Tensor(1.0, requires_grad=True), ad.Tensor(-1.0, requires_grad=True)
    >>> angle = F.arctan2(y, x)
    >>> angle.backward()
    >>> round(angle.item(), 4), y.grad, x.grad
    (2.3562, array(-0.5), array(-0.5))
    """
    return np.arctan2(x1, x2)


# With r² = x1² + x2², tan y = x1/x2 gives dy = (x2 dx1 - x1 dx2)/r². As two divisions by r, nothing overflows.
# The leg is divided by r first, and not made larger than 1 by that. A division by an r > 1 comes after g, which it may
# bring back into the range; one by an r < 1 comes before.


@arctan2.vjp("x1")
def _(g: Array, x1: Array, x2: Array) -> Array:
    return _turned(g, x2, x1, x2)


@arctan2.vjp("x2")
def _(g: Array, x1: Array, x2: Array) -> Array:
    return -_turned(g, x1, x1, x2)


def _turned(g: Array, leg: Array, x1: Array, x2: Array) -> Array:
    """Return g times a leg over the squared distance from the origin; 0 at the origin and infinitely far from it."""
    r = np.hypot(x1, x2)
    nowhere = np.equal(r, 0) | np.isinf(r)
    r = np.where(nowhere, 1.0, r)
    return g * np.where(nowhere, 0.0, leg / r / np.minimum(r, 1.0)) / np.maximum(r, 1.0)


# --- units ---


@op(numpy=np.deg2rad, linear=True, samples=lambda rng: [(away(rng, shape),) for shape in SHAPES])
def deg2rad(x: Array) -> Array:
    """Degrees as radians, elementwise.

    Parameters
    ----------
    x : array
        Angles in degrees, of any shape.

    Returns
    -------
    array of the same shape

    Examples
    --------
    >>> import numpy as np
    >>> import autodiff.functional as F
    >>> F.deg2rad(np.array([0.0, 180.0]))
    array([0.        , 3.14159265])
    """
    return np.deg2rad(x)


@deg2rad.vjp("x")
def _(g: Array) -> Array:
    return g * (math.pi / 180)


@op(numpy=np.rad2deg, linear=True, samples=lambda rng: [(away(rng, shape),) for shape in SHAPES])
def rad2deg(x: Array) -> Array:
    """Radians as degrees, elementwise.

    Parameters
    ----------
    x : array
        Angles in radians, of any shape.

    Returns
    -------
    array of the same shape

    Examples
    --------
    >>> import numpy as np
    >>> import autodiff.functional as F
    >>> F.rad2deg(np.array([0.0, np.pi]))
    array([  0., 180.])
    """
    return np.rad2deg(x)


@rad2deg.vjp("x")
def _(g: Array) -> Array:
    return g * (180 / math.pi)


TWINS[np.radians], TWINS[np.degrees] = deg2rad, rad2deg  # the same functions, as ufuncs of their own
