"""Functions with a kink or a step at 0, elementwise: absolute values, signs, Heaviside's step.

At 0 there is no derivative, but a gradient must be chosen; each docstring says which. A function that is constant
wherever it is differentiable has the gradient 0, at its jumps too.
"""

from __future__ import annotations

import numpy as np

from ..node import Array
from ..op import op
from ._samples import PAIRS, SHAPES, away, distinct

__all__ = ["abs", "copysign", "fabs", "heaviside", "sign"]


@op(numpy=np.absolute, samples=lambda rng: [(away(rng, shape),) for shape in SHAPES])
def abs(x: Array) -> Array:
    """Absolute value, elementwise. Its gradient at 0 is 0.

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
    >>> x = ad.Tensor([-2.0, 0.0, 3.0], requires_grad=True)
    >>> F.abs(x).sum().backward()
    >>> x.grad
    array([-1.,  0.,  1.])
    """
    return np.absolute(x)


@abs.vjp("x")
def _(g: Array, x: Array) -> Array:
    # d|x|/dx = sign(x). At 0 the slopes on the two sides are -1 and 1; sign(0) = 0 lies in the middle.
    return g * np.sign(x)


@op(numpy=np.fabs, samples=lambda rng: [(away(rng, shape),) for shape in SHAPES])
def fabs(x: Array) -> Array:
    """Absolute value, elementwise, of integers as floating numbers. Its gradient at 0 is 0.

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
    >>> F.fabs(np.array([-2, 3]))
    array([2., 3.])
    """
    return np.fabs(x)


@fabs.vjp("x")
def _(g: Array, x: Array) -> Array:
    return g * np.sign(x)  # as that of `abs`


@op(numpy=np.sign, samples=lambda rng: [(away(rng, shape),) for shape in SHAPES])
def sign(x: Array) -> Array:
    """Sign, elementwise: -1, 0 or 1.

    It is constant wherever it is differentiable. So its gradient is 0, at 0 too.

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
    >>> F.sign(np.array([-2.0, 0.0, 3.0]))
    array([-1.,  0.,  1.])
    """
    return np.sign(x)


sign.zero("x")


@op(numpy=np.copysign, samples=lambda rng: [distinct(rng, *shapes) for shapes in PAIRS])
def copysign(x1: Array, x2: Array) -> Array:
    """Size of x1 with the sign of x2, elementwise. The gradient of x1 at 0 is 0, as that of its absolute value.

    Parameters
    ----------
    x1, x2 : array
        Of shapes that broadcast. The result does not change with the size of x2, whose gradient is 0.

    Returns
    -------
    array of the broadcast shape

    Examples
    --------
    >>> import autodiff as ad
    >>> import autodiff.functional as F
    >>> x = ad.Tensor([2.0, -3.0], requires_grad=True)
    >>> y = F.copysign(x, -1.0)
    >>> y.sum().backward()
    >>> y.tolist(), x.grad
    ([-2.0, -3.0], array([-1.,  1.]))
    """
    return np.copysign(x1, x2)


copysign.zero("x2")


@copysign.vjp("x1")
def _(g: Array, x1: Array, x2: Array) -> Array:
    # y is x1 where the signs agree, else -x1; at 0 the slopes on the two sides are -1 and 1, as those of |x1|.
    return np.where(np.equal(x1, 0), 0.0, np.where(np.signbit(x1) == np.signbit(x2), g, -g))


@op(
    numpy=np.heaviside,
    samples=lambda rng: [
        *(distinct(rng, *shapes) for shapes in PAIRS),
        (np.array([-1, 0, 2]), away(rng, (2, 1))),
        (0.0, away(rng, (3, 3))),
    ],
)
def heaviside(x1: Array, x2: Array) -> Array:
    """Heaviside's step, elementwise: 0 where x1 < 0, 1 where x1 > 0, and x2 between the two.

    Parameters
    ----------
    x1 : array
        Where the step is looked at. Its gradient is 0: the step is flat on both sides.
    x2 : array
        The value at 0, which gets the gradient there.

    Returns
    -------
    array of the broadcast shape

    Examples
    --------
    >>> import numpy as np
    >>> import autodiff.functional as F
    >>> F.heaviside(np.array([-2.0, 0.0, 3.0]), 0.5)
    array([0. , 0.5, 1. ])
    """
    return np.heaviside(x1, x2)


heaviside.zero("x1")


@heaviside.vjp("x2")
def _(g: Array, x1: Array) -> Array:
    return np.where(np.equal(x1, 0), g, 0.0)
