"""Activations: ReLU, and those that multiply their argument by a gate between 0 and 1.

GELU and SiLU are both ``y = x phi(x)`` with a smooth step phi, so they share one derivation::

    dy/dx = phi(x) + x phi'(x)

and differ in phi only: the logistic function for SiLU, the normal distribution function for GELU, and an approximation
of that by tanh for GPT-2's GELU. The derivative is taken in the forward pass, while x and phi are in the cache, and is
all that is saved: neither x nor phi outlives the call, and the backward pass is one product.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..node import Array
from ..op import op, save
from ..protocols import to_array
from ._blocks import aligned, floating, pieces, unboxed
from ._scaling import narrow, wide
from .exponentials import sigmoid
from .special import erf, has_scipy, special

__all__ = ["gelu", "relu", "silu", "swiglu"]

Block: TypeAlias = NDArray[Any]
Gate: TypeAlias = Callable[[Block], Block]  # returns phi(x)
Slope: TypeAlias = Callable[[Block, Block, Block, Block], object]  # (x, phi, y, out): writes x phi'(x) to out

_SHAPES: tuple[tuple[int, ...], ...] = ((), (1,), (3,), (2, 3), (0, 3))


def _away_from_zero(rng: np.random.Generator) -> list[Any]:
    return [(rng.uniform(0.1, 3.0, size) * rng.choice([-1.0, 1.0], size),) for size in _SHAPES]


def _normal(rng: np.random.Generator, **settings: Any) -> list[Any]:
    return [(2 * rng.normal(size=size), *([settings] if settings else [])) for size in _SHAPES]


# --- ReLU ---


@op(elementwise=True, samples=_away_from_zero)
def relu(x: Array) -> Array:
    """Rectified linear unit, elementwise: ``max(x, 0)``.

    Parameters
    ----------
    x : array of any shape

    Returns
    -------
    array of the same shape
        NaN stays NaN.

    Notes
    -----
    The derivative at the kink is a convention: relu'(0) = 0.

    Examples
    --------
    >>> import autodiff as ad
    >>> import autodiff.functional as F
    >>> x = ad.Tensor([-1.0, 0.0, 2.0], requires_grad=True)
    >>> y = F.relu(x)
    >>> y.tolist()
    [0.0, 0.0, 2.0]
    >>> y.sum().backward()
    >>> x.grad
    array([0., 0., 1.])
    """
    return np.maximum(x, 0)


@relu.vjp("x")
def _(g: Array, out: Array) -> Array:
    # d max(x, 0) / dx = 1 where x > 0, else 0; and x > 0 where the output is not 0. A NaN is passed on, both ways.
    return g * (out != 0)


@relu.decomposition
def _(x: Array) -> Array:
    return np.where(x <= 0, 0.0, x)  # maximum(x, 0) would split the gradient at x = 0


# --- y = x phi(x) ---


def _gated(x: Array, gate: Gate, slope: Slope) -> Array:
    """Compute y = x phi, and save dy/dx = phi + x phi'."""
    x = floating(x)
    y, dydx = _through_gate(np.asarray(x, np.result_type(x), order="C"), gate, slope)
    return save(unboxed(y), dydx=unboxed(dydx))


def _through_gate(x: Block, gate: Gate, slope: Slope, *factor: Block) -> tuple[Block, Block]:
    """Return x phi, and phi + x phi' times the factor, if there is one."""
    y, dydx = np.empty_like(x), np.empty_like(x)
    try:
        with np.errstate(over="ignore", invalid="raise"):  # overflow leads a gate to its limit, 0 or 1
            _fill(pieces(x, y, dydx, *factor), gate, slope)
    except FloatingPointError:
        # At an infinite x, 0 meets infinity. The largest finite one has the same gate and slope.
        with np.errstate(over="ignore", invalid="ignore"):
            _fill(pieces(_finite(x), y, dydx, *factor), gate, slope)
        y[x == np.inf] = np.inf
    return y, dydx


def _fill(parts: Iterable[tuple[Block, ...]], gate: Gate, slope: Slope) -> None:
    for x, y, dydx, *factor in parts:
        phi = gate(x)
        np.multiply(x, phi, out=y)
        slope(x, phi, y, dydx)
        dydx += phi
        for v in factor:
            dydx *= v


def _finite(x: Block) -> Block:
    """Put the largest finite number in the place of infinity."""
    largest = np.finfo(x.dtype).max
    return np.clip(x, -largest, largest)


def _decomposed(f: Callable[[Array], Array], x: Array, far: float) -> Array:
    """Compute a decomposition in single precision for half: a cotangent of its factors may exceed 65504."""
    return narrow(_with_limits(f, wide(x), far), getattr(x, "dtype", None))


def _with_limits(f: Callable[[Array], Array], x: Array, far: float) -> Array:
    """Compute a decomposition; it is x from far on upwards, and 0 downwards, where its terms are 0 times infinity."""
    beyond = np.abs(to_array(x)) >= far
    if not np.any(beyond):
        return f(x)
    return np.where(beyond, np.where(np.less(x, 0), -0.0, x), f(np.where(beyond, 0.0, x)))


# --- SiLU: phi is the logistic function sigma(x) = 1 / (1 + exp(-x)) ---
#
#   sigma' = exp(-x) / (1 + exp(-x))^2 = sigma (1 - sigma)


def _logistic(x: Block) -> Block:
    return _from_exponent(-x)


def _from_exponent(z: Block) -> Block:
    """Compute 1 / (1 + exp(z)) in place."""
    np.exp(z, out=z)
    z += 1
    return np.reciprocal(z, out=z)


def _logistic_slope(x: Block, phi: Block, y: Block, out: Block) -> None:
    np.subtract(1, phi, out=out)
    out *= y


@op(elementwise=True, samples=_normal)
def silu(x: Array) -> Array:
    """Sigmoid linear unit, elementwise: ``x sigma(x)``, also known as swish.

    Parameters
    ----------
    x : array of any shape

    Returns
    -------
    array of the same shape

    References
    ----------
    Elfwing, Uchibe, Doya, "Sigmoid-weighted linear units", 2017, arXiv:1702.03118, equation 4.

    Examples
    --------
    >>> import autodiff as ad
    >>> import autodiff.functional as F
    >>> x = ad.Tensor([-1.0, 0.0, 2.0], requires_grad=True)
    >>> y = F.silu(x)
    >>> y.data.round(4)
    array([-0.2689,  0.    ,  1.7616])
    >>> y.sum().backward()
    >>> x.grad.round(4)
    array([0.0723, 0.5   , 1.0908])
    """
    return _gated(x, _logistic, _logistic_slope)


@silu.vjp("x")
def _(g: Array, dydx: Array) -> Array:
    # d (x sigma) / dx = sigma + x sigma (1 - sigma)
    return g * dydx


@silu.decomposition
def _(x: Array) -> Array:
    return _decomposed(_silu, x, math.inf)


def _silu(x: Array) -> Array:
    return x * sigmoid(x)


@op(
    elementwise=True,
    samples=lambda rng: [
        *((2 * rng.normal(size=size), 2 * rng.normal(size=size)) for size in _SHAPES),
        (2 * rng.normal(size=(3, 1)), 2 * rng.normal(size=(1, 4))),
        (2 * rng.normal(size=(3, 1)), 2 * rng.normal(size=(3, 3))),
        (2 * rng.normal(size=(3, 3)), 2 * rng.normal(size=3)),
        (2 * rng.normal(size=()), 2 * rng.normal(size=(2, 3))),
    ],
    error_samples=[((np.ones((2, 3)), np.ones(4)), ValueError)],
)
def swiglu(u: Array, v: Array) -> Array:
    """Gated linear unit with the SiLU, elementwise: ``silu(u) * v``.

    Parameters
    ----------
    u, v : arrays of shapes that broadcast
        In a Transformer two projections of the same input, ``u = x W1`` and ``v = x W3``.

    Returns
    -------
    array of the broadcast shape

    References
    ----------
    Shazeer, "GLU variants improve Transformer", 2020, arXiv:2002.05202, equation 5.

    Examples
    --------
    >>> import autodiff as ad
    >>> import autodiff.functional as F
    >>> u, v = ad.Tensor([0.0, 2.0], requires_grad=True), ad.Tensor([3.0, 0.5], requires_grad=True)
    >>> y = F.swiglu(u, v)
    >>> y.data.round(4)
    array([0.    , 0.8808])
    >>> y.sum().backward()
    >>> u.grad.round(4), v.grad.round(4)
    (array([1.5   , 0.5454]), array([0.    , 1.7616]))
    """
    u, v = aligned(u, v)
    dydv, dydu = _through_gate(u, _logistic, _logistic_slope, v)
    y = dydv * v  # out here, where an overflow is news
    return save(unboxed(y), dydu=unboxed(dydu), dydv=unboxed(dydv))


@swiglu.vjp("u")
def _(g: Array, dydu: Array) -> Array:
    # y = u sigma(u) v, so dy/du = v (sigma + u sigma (1 - sigma))
    return g * dydu


@swiglu.vjp("v")
def _(g: Array, dydv: Array) -> Array:
    # dy/dv = u sigma(u)
    return g * dydv


@swiglu.decomposition
def _(u: Array, v: Array) -> Array:
    return narrow(_with_limits(_silu, wide(u), math.inf) * wide(v), np.result_type(to_array(u), to_array(v)))


# --- GELU: phi is the normal distribution function Phi(x) = (1 + erf(x / sqrt 2)) / 2, or close to it ---
#
#   Phi'(x) = exp(-x^2 / 2) / sqrt(2 pi)
#
# GPT-2's approximation is phi = (1 + tanh w) / 2 with w = C (x + A x^3). That is 1 / (1 + exp(-2 w)), the logistic
# function of z = 2 w, so
#
#   phi' = phi (1 - phi) z',   z' = 2 C (1 + 3 A x^2)

_A = 0.044715
_C = math.sqrt(2 / math.pi)


def _tanh_gate(x: Block) -> Block:
    z = x * x
    z *= -2 * _C * _A
    z -= 2 * _C
    z *= x
    return _from_exponent(z)


def _tanh_slope(x: Block, phi: Block, y: Block, out: Block) -> None:
    np.subtract(1, phi, out=out)
    out *= y  # from here on 0 where phi is 0 or 1, so that no power of a large x makes it 0 inf
    cubic = out * x
    cubic *= x
    cubic *= 3 * _A
    out += cubic
    out *= 2 * _C


def _normal_gate(x: Block) -> Block:
    phi: Block = special().ndtr(x)  # (1 + erf(x / sqrt 2)) / 2, without the cancellation at negative x
    return phi


def _normal_slope(x: Block, phi: Block, y: Block, out: Block) -> None:
    np.multiply(x, x, out=out)
    out *= -0.5
    np.exp(out, out=out)
    out *= x
    out *= 1 / math.sqrt(2 * math.pi)


_FORMS: dict[str, tuple[Gate, Slope]] = {
    "tanh": (_tanh_gate, _tanh_slope),
    "none": (_normal_gate, _normal_slope),
}


@op(
    elementwise=True,
    samples=lambda rng: [
        *_normal(rng),
        *_normal(rng, approximate="tanh"),
        *(_normal(rng, approximate="none") if has_scipy() else []),
    ],
    error_samples=[((1.0, {"approximate": "erf"}), ValueError), ((1.0, {"approximate": None}), ValueError)],
)
def gelu(x: Array, *, approximate: str = "tanh") -> Array:
    """Gaussian error linear unit, elementwise: ``x Phi(x)`` with the normal distribution function Phi.

    Parameters
    ----------
    x : array of any shape
    approximate : {"tanh", "none"}
        "tanh", the default, is GPT-2's form ``x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))``, within 4.8e-4 of the
        exact one. "none" is exact, ``x/2 (1 + erf(x / sqrt 2))``, and needs SciPy. (The names are PyTorch's, whose
        default is "none".)

    Returns
    -------
    array of the same shape

    Raises
    ------
    ImportError
        If the exact form is asked for and SciPy is not installed.
    ValueError
        For another value of `approximate`.

    References
    ----------
    Hendrycks, Gimpel, "Gaussian error linear units (GELUs)", 2016, arXiv:1606.08415, section 2.

    Examples
    --------
    >>> import autodiff as ad
    >>> import autodiff.functional as F
    >>> x = ad.Tensor([-1.0, 0.0, 1.0], requires_grad=True)
    >>> y = F.gelu(x)
    >>> y.data.round(4)
    array([-0.1588,  0.    ,  0.8412])
    >>> y.sum().backward()
    >>> x.grad.round(4)
    array([-0.083,  0.5  ,  1.083])
    """
    return _gated(x, *_form(approximate))


@gelu.vjp("x")
def _(g: Array, dydx: Array) -> Array:
    # d (x phi) / dx = phi + x phi', with the slope phi' of the form that was asked for
    return g * dydx


@gelu.decomposition
def _(x: Array, *, approximate: str = "tanh") -> Array:
    _form(approximate)
    if approximate == "none":
        return _decomposed(lambda x: 0.5 * x * (1 + erf(x * math.sqrt(0.5))), x, _FAR)
    return _decomposed(lambda x: 0.5 * x * (1 + np.tanh(_C * (x + _A * x * x * x))), x, _FAR)


_FAR = 100.0
"""Where either form of phi is 0 or 1 in any dtype, with a slope of 0."""


def _form(approximate: str) -> tuple[Gate, Slope]:
    if approximate not in _FORMS:
        raise ValueError(f"gelu: approximate must be 'tanh' (GPT-2's form) or 'none' (exact), got {approximate!r}")
    return _FORMS[approximate]
