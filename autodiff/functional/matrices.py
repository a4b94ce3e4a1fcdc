"""Determinants and powers of the square matrices in the last two axes, and chains of products.

The determinant is a polynomial, so it has derivatives of every order at singular matrices too. Its gradient is written
with cofactors, not with the inverse.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..node import Array
from ..op import op
from ..protocols import to_array
from ._matrices import named, regular, transposed
from ._twins import operand, twin
from .solving import inv

__all__ = ["det", "matrix_power", "multi_dot", "slogdet"]

SHAPES = ((3, 3), (2, 2), (1, 1), (2, 3, 3), (0, 0), (0, 2, 2))


def _singular(rng: np.random.Generator) -> list[NDArray[Any]]:
    """Matrices of 3 x 3 whose ranks are 2, 1 and 0."""
    return [regular(rng, 3, 3) * (1.0, 1.0, 0.0) @ regular(rng, 3, 3), np.diag([2.0, 0.0, 0.0]), np.zeros((3, 3))]


@op(
    numpy=np.linalg.det,
    samples=lambda rng: [*((regular(rng, *shape),) for shape in SHAPES), *((a,) for a in _singular(rng))],
    error_samples=[((np.ones((2, 3)),), np.linalg.LinAlgError), ((np.ones(2),), np.linalg.LinAlgError)],
)
def det(a: Array) -> Array:
    """Determinant of square matrices. The gradient is exact at singular matrices too.

    Parameters
    ----------
    a : array of shape (..., n, n)
        The matrices.

    Returns
    -------
    array of shape (...)
        The gradient is NaN for matrices with elements that are not finite.

    Raises
    ------
    numpy.linalg.LinAlgError
        If the matrices are not square.

    Examples
    --------
    >>> import autodiff as ad
    >>> import autodiff.functional as F
    >>> a = ad.Tensor([[1.0, 2.0], [2.0, 4.0]], requires_grad=True)
    >>> y = F.det(a)
    >>> y.backward()
    >>> y.item(), a.grad
    (0.0, array([[ 4., -2.],
           [-2.,  1.]]))
    """
    with named("det"):
        return np.linalg.det(a)


@det.vjp("a")
def _(g: Array, a: Array) -> Array:
    # Expanded along row i, det A = sum_j a_ij c_ij, and the cofactors c_ij of that row do not depend on it: the
    # derivative by a_ij is c_ij (Jacobi's formula).
    return np.expand_dims(g, (-2, -1)) * cofactors(a)


@op(samples=lambda rng: [(regular(rng, *shape),) for shape in SHAPES])
def cofactors(a: Array) -> Array:
    """Cofactors of matrices of any rank: the gradient of the determinant."""
    # Cofactors of a product are the product of cofactors. Those of orthogonal matrices are +-U, those of a diagonal one
    # the products of the other elements: with A = U S V^T, C = det(U) det(V) U diag(prod of the other s_j) V^T.
    u, s, v, sign = _signed_svd(a)
    products, excess = _in_range(*_products_of_others(s), axes=-1)
    return np.ldexp((u * (sign[..., None] * products)[..., None, :]) @ v, excess[..., None])


@cofactors.vjp("a")
def _(g: Array, a: Array) -> Array:
    # The Jacobian of a gradient is symmetric: its product with a cotangent is the cofactors' change along it.
    return cofactor_change(a, g)


@op(
    samples=lambda rng: [
        *((regular(rng, *shape), rng.normal(size=shape)) for shape in SHAPES if shape != (1, 1)),
        (regular(rng, 3, 3), np.diag([2.0, 0.0, 0.0])),  # only the matrix must be regular
        (1e-6 * regular(rng, 3, 3), rng.normal(size=(3, 3))),
    ]
)
def cofactor_change(a: Array, direction: Array) -> Array:
    """Derivative of the cofactors along a direction, at matrices of any rank: the second derivative of `det`."""
    # In the bases of the singular vectors, where H stands for the direction and m_ij for the product of all singular
    # values but s_i and s_j, the terms of second order of det(S + H) are
    #   sum_{i<j} m_ij (h_ii h_jj - h_ij h_ji),
    # so the gradient by h_ii has the change sum_j m_ij h_jj, and that by h_ij the change -m_ij h_ji.
    u, s, v, sign = _signed_svd(a)
    m, excess = _in_range(*_products_of_all_but_two(s), axes=(-2, -1))
    m = sign[..., None, None] * m
    h = np.swapaxes(u, -1, -2) @ direction @ np.swapaxes(v, -1, -2)
    diagonal = np.einsum("...ij,...jj->...i", m, h)
    inner = diagonal[..., None] * np.eye(s.shape[-1], dtype=s.dtype) - m * np.swapaxes(h, -1, -2)
    return np.ldexp(u @ inner @ v, excess)


@cofactor_change.vjp("direction")
def _(g: Array, a: Array) -> Array:
    # linear in the direction, by the symmetric Hessian of the determinant
    return cofactor_change(a, g)


@cofactor_change.vjp("a")
def _(g: Array, a: Array, direction: Array) -> Array:
    # With W = A^-T and <X, Y> = sum(X Y), C = det(A) W, dW = -W dA^T W and d det(A) = det(A) <W, dA>. So the change
    # of C along H is det(A) (<W, H> W - W H^T W), and with
    #   f = <G, change> = det(A) (<W, H> <W, G> - <W H^T W, G>)
    # every W is to be varied. From <W, H> that gives -W H^T W, from <W H^T W, G> minus W H^T W G^T W and its mirror.
    # Near singular matrices the terms cancel: they lose the square of the condition number.
    values = np.asarray(to_array(a))
    s = np.linalg.svd(np.where(np.isfinite(values), values, 0.0), compute_uv=False)
    if np.any(s[..., -1:] <= np.finfo(s.dtype).eps ** (1 / 3) * s[..., :1]):
        raise np.linalg.LinAlgError(
            "det: its third derivatives are not supported where a matrix is singular, or nearly so; only the first two"
        )
    h, w = direction, transposed(inv(a))
    wh, wg = w @ transposed(h) @ w, w @ transposed(g) @ w
    scale = np.expand_dims(det(a), (-2, -1))
    along_h, along_g = _inner(w, h), _inner(w, g)
    both = wh @ transposed(g) @ w + wg @ transposed(h) @ w
    return scale * ((along_h * along_g - _inner(wh, g)) * w - along_g * wh - along_h * wg + both)


def _inner(x: Array, y: Array) -> Array:
    return np.sum(x * y, axis=(-2, -1), keepdims=True)


def _signed_svd(a: Array) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return U, s, V^T and det(U) det(V), which is 1 or -1; NaN for matrices with elements that are not finite."""
    finite = np.all(np.isfinite(a), axis=(-2, -1))
    if not np.all(finite):  # of them no singular values exist, and the iteration for them may not end
        a = np.where(finite[..., None, None], a, np.eye(a.shape[-1], dtype=a.dtype))
    with named("det"):
        u, s, v = np.linalg.svd(a)
        return u, s, v, np.where(finite, np.sign(np.linalg.det(u) * np.linalg.det(v)), s.dtype.type(np.nan))


Scaled: TypeAlias = tuple[NDArray[Any], NDArray[np.intc]]
"""Numbers x 2**e that may exceed the range of their dtype: x, of a size from 1/2 to 1 or zero, and e."""


def _times(x: Scaled, y: Scaled) -> Scaled:
    mantissas, exponents = np.frexp(x[0] * y[0])
    return mantissas, exponents + x[1] + y[1]


def _in_range(products: NDArray[Any], exponents: NDArray[np.intc], axes: Any) -> Scaled:
    """Return numbers in range, and the power of two that they lack: infinite ones must not meet the zeros of U or V."""
    most = np.max(exponents, axis=axes, keepdims=True, initial=0)
    excess: NDArray[np.intc] = np.maximum(most - np.finfo(products.dtype).maxexp, 0)
    return np.ldexp(products, exponents - excess), excess


def _products_before(s: NDArray[Any]) -> Scaled:
    """For each number along the last axis the product of all that stand before it."""
    # A product may be in range where those on the way to it are not: no factor is lost if its exponent is counted.
    mantissas, exponents = np.frexp(s)
    products, powers = np.empty_like(mantissas), np.empty_like(exponents)
    product: Scaled = np.frexp(np.ones(s.shape[:-1], s.dtype))
    for i in range(s.shape[-1]):
        products[..., i], powers[..., i] = product
        product = _times(product, (mantissas[..., i], exponents[..., i]))
    return products, powers


def _products_behind(s: NDArray[Any]) -> Scaled:
    """Likewise the product of all that stand behind it."""
    products, powers = _products_before(s[..., ::-1])
    return products[..., ::-1], powers[..., ::-1]


def _products_of_others(s: NDArray[Any]) -> Scaled:
    """Products of all numbers along the last axis but one."""
    return _times(_products_before(s), _products_behind(s))


def _products_of_all_but_two(s: NDArray[Any]) -> Scaled:
    """Products of all numbers along the last axis but i and j; zero for i = j."""
    # for i < j: those before i, times those between the two, times those behind j
    behind_i = np.tri(s.shape[-1], k=-1, dtype=bool).T
    between = _products_before(np.where(behind_i, s[..., None, :], s.dtype.type(1)))
    (before, p), (behind, q) = _products_before(s), _products_behind(s)
    outer = _times((before[..., :, None], p[..., :, None]), (behind[..., None, :], q[..., None, :]))
    products, exponents = (np.where(behind_i, part, part.dtype.type(0)) for part in _times(outer, between))
    return products + np.swapaxes(products, -1, -2), exponents + np.swapaxes(exponents, -1, -2)


# --- its logarithm ---


@op(
    samples=lambda rng: [*((regular(rng, *shape),) for shape in SHAPES), (-regular(rng, 3, 3),)],
    error_samples=[((np.ones((2, 3)),), np.linalg.LinAlgError)],
)
def logabsdet(a: Array) -> Array:
    """Logarithm of the absolute determinant, which neither overflows nor underflows."""
    with named("slogdet"):
        out: Array = np.linalg.slogdet(a).logabsdet
    return out


@logabsdet.vjp("a")
def _(g: Array, a: Array, out: Array) -> Array:
    # d log|det A| = <C, dA>/det A, and the cofactors are C = det(A) A^-T. A singular matrix is refused only if its
    # logarithm is used, so that np.where and masks can leave it out.
    unused = np.expand_dims((to_array(out) == -np.inf) & (to_array(g) == 0), (-2, -1))
    if np.any(unused):
        a = np.where(unused, np.eye(a.shape[-1], dtype=a.dtype), a)
    with named("slogdet: log|det| is minus infinity, and has no gradient"):
        da = np.expand_dims(g, (-2, -1)) * transposed(inv(a))
    return np.where(unused, 0.0, da) if np.any(unused) else da


@op(samples=lambda rng: [(regular(rng, *shape),) for shape in SHAPES])
def signdet(a: Array) -> Array:
    """Sign of the determinant: constant wherever it is differentiable, so it has no gradient."""
    with named("slogdet"):
        out: Array = np.linalg.slogdet(a).sign
    return out


signdet.nondiff("a")

SlogdetResult: Any = type(np.linalg.slogdet(np.eye(1)))
"""NumPy's named pair of results."""


@twin("linalg.slogdet")
def slogdet(a: Array) -> Any:
    """Sign and logarithm of the absolute value of the determinant.

    Parameters
    ----------
    a : array of shape (..., n, n)
        The matrices.

    Returns
    -------
    sign : array of shape (...)
        -1, 0 or 1. It is constant wherever it is differentiable, so no gradient flows through it.
    logabsdet : array of shape (...)
        Minus infinity for singular matrices, where a gradient of it that is not zero raises.

    Raises
    ------
    numpy.linalg.LinAlgError
        If the matrices are not square; in the backward pass, if one is singular whose logarithm is used.

    Examples
    --------
    >>> import autodiff as ad
    >>> import autodiff.functional as F
    >>> a = ad.Tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    >>> sign, logabsdet = F.slogdet(a)
    >>> sign.item(), logabsdet.item()
    (-1.0, 0.69314718)
    >>> logabsdet.backward()
    >>> a.grad
    array([[-2. ,  1.5],
           [ 1. , -0.5]])
    """
    return SlogdetResult(signdet(a), logabsdet(a))


# --- powers and chains ---


@twin("linalg.matrix_power")
def matrix_power(a: Array, n: int) -> Array:
    """Product of n equal square matrices; of the inverse for negative n.

    Parameters
    ----------
    a : array of shape (..., m, m)
        The matrices.
    n : int
        How many factors. For 0 the result is the identity, and the gradient 0.

    Returns
    -------
    array of shape (..., m, m)

    Raises
    ------
    TypeError
        If `n` is not an integer.
    numpy.linalg.LinAlgError
        If the matrices are not square; for negative n, if one is singular.

    Examples
    --------
    >>> import autodiff as ad
    >>> import autodiff.functional as F
    >>> a = ad.Tensor([[1.0, 1.0], [0.0, 1.0]], requires_grad=True)
    >>> y = F.matrix_power(a, 3)
    >>> y.tolist()
    [[1.0, 3.0], [0.0, 1.0]]
    >>> y[0, 1].backward()
    >>> a.grad
    array([[3., 3.],
           [1., 3.]])
    """
    a, n = operand(a), operator.index(n)
    if a.ndim < 2 or a.shape[-1] != a.shape[-2]:
        raise np.linalg.LinAlgError(f"matrix_power: the matrices must be square, a has the shape {a.shape}")
    if n == 0:
        return (a**0).astype(a.dtype) * np.eye(a.shape[-1], dtype=a.dtype)
    square, n = (inv(a), -n) if n < 0 else (a, n)
    result = None
    while n:  # the squares that the binary digits of n select
        if n & 1:
            result = square if result is None else result @ square
        n >>= 1
        square = square @ square if n else square
    return result


@twin("linalg.multi_dot")
def multi_dot(arrays: Sequence[Array]) -> Array:
    """Product of several matrices, in the order that takes the fewest multiplications.

    Parameters
    ----------
    arrays : sequence of array
        Two or more matrices. The first may be a row vector of one axis, the last a column vector of one axis.

    Returns
    -------
    array

    Raises
    ------
    ValueError
        If there are fewer than two arrays, or the shapes do not fit.
    numpy.linalg.LinAlgError
        If one has another number of axes.

    Examples
    --------
    >>> import numpy as np
    >>> import autodiff as ad
    >>> import autodiff.functional as F
    >>> x = ad.Tensor([1.0, 2.0], requires_grad=True)
    >>> y = F.multi_dot([x, np.eye(2), x])
    >>> y.backward()
    >>> y.item(), x.grad
    (5.0, array([2., 4.]))
    """
    factors = [operand(x) for x in arrays]
    if len(factors) < 2:
        raise ValueError(f"multi_dot takes at least two arrays, got {len(factors)}")
    last = len(factors) - 1
    for i, x in enumerate(factors):
        if x.ndim != 2 and not (x.ndim == 1 and i in (0, last)):
            raise np.linalg.LinAlgError(
                f"multi_dot: arrays[{i}] has {x.ndim} axes; it takes matrices, and vectors at the two ends"
            )
    rows = factors[0].shape[0] if factors[0].ndim == 2 else 1
    inner = [x.shape[0] for x in factors[1:]]
    columns = factors[last].shape[1] if factors[last].ndim == 2 else 1
    return _chain(factors, _best_splits((rows, *inner, columns)), 0, last)


def _chain(factors: list[Array], splits: dict[tuple[int, int], int], i: int, j: int) -> Array:
    """Product of the factors from i to j."""
    if i == j:
        return factors[i]
    k = splits[i, j]
    return _chain(factors, splits, i, k) @ _chain(factors, splits, k + 1, j)


def _best_splits(sides: tuple[int, ...]) -> dict[tuple[int, int], int]:
    """Behind which factor to split the product of those from i to j, where factor i is sides[i] by sides[i + 1]."""
    # The last product of the best order joins two parts, each in its own best order: shorter chains come first.
    n = len(sides) - 1
    cost = {(i, i): 0 for i in range(n)}
    splits: dict[tuple[int, int], int] = {}
    for length in range(1, n):
        for i in range(n - length):
            j = i + length
            cost[i, j], splits[i, j] = min(
                (cost[i, k] + cost[k + 1, j] + sides[i] * sides[k + 1] * sides[j + 1], k) for k in range(i, j)
            )
    return splits
