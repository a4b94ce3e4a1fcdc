"""Linear systems: solving them, and the inverse, Cholesky factor and pseudoinverse of matrices in the last two axes.

All derivations start from an equation that the result satisfies, such as A X = B, and differentiate both sides. The
rules are written with operations of this package, so they can be differentiated again, as often as one likes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..node import TWINS, Array
from ..op import op
from ..protocols import to_array
from ._matrices import named, regular, symmetric, transposed, with_gaps
from ._twins import operand, twin

__all__ = ["cholesky", "inv", "pinv", "solve"]

SINGULAR = ". Use np.linalg.pinv, or add a small multiple of the identity"


@op(
    numpy=np.linalg.inv,
    samples=lambda rng: [(regular(rng, *shape),) for shape in ((3, 3), (2, 2, 2), (1, 1), (2, 1, 3, 3))]
    + [(np.zeros((0, 0)),), (np.zeros((0, 2, 2)),)],
    error_samples=[
        ((np.ones((2, 2)),), np.linalg.LinAlgError),
        ((np.ones((2, 3)),), np.linalg.LinAlgError),
        ((np.ones(2),), np.linalg.LinAlgError),
    ],
)
def inv(a: Array) -> Array:
    """Inverse of square matrices.

    Parameters
    ----------
    a : array of shape (..., n, n)
        The matrices.

    Returns
    -------
    array of shape (..., n, n)

    Raises
    ------
    numpy.linalg.LinAlgError
        If a matrix is singular, or not square.

    Examples
    --------
    >>> import autodiff as ad
    >>> import autodiff.functional as F
    >>> a = ad.Tensor([[2.0, 0.0], [0.0, 4.0]], requires_grad=True)
    >>> F.inv(a).sum().backward()
    >>> a.grad
    array([[-0.25  , -0.125 ],
           [-0.125 , -0.0625]])
    """
    with named("inv", SINGULAR):
        return np.linalg.inv(a)


@inv.vjp("a")
def _(g: Array, out: Array) -> Array:
    # A Y = 1, so dA Y + A dY = 0 and dY = -Y dA Y. Then <G, dY> = -tr(G^T Y dA Y) = <-Y^T G Y^T, dA>.
    y = transposed(out)
    return -(y @ g @ y)


# --- linear systems ---


@op(
    samples=lambda rng: [
        (regular(rng, 3, 3), rng.normal(size=(3, 2))),
        (regular(rng, 2, 2), rng.normal(size=(2, 2))),
        (regular(rng, 1, 1), rng.normal(size=(1, 1))),
        (regular(rng, 2, 3, 3), rng.normal(size=(2, 3, 1))),
        (np.zeros((0, 0)), np.zeros((0, 2))),
        (regular(rng, 2, 2), np.zeros((2, 0))),
        (np.zeros((0, 2, 2)), np.zeros((0, 2, 1))),
        (np.array([[2, 1], [1, 1]]), rng.normal(size=(2, 1))),
        (regular(rng, 2, 2), np.array([[1, 2], [3, 4]])),
    ],
    error_samples=[
        ((np.ones((2, 2)), np.ones((2, 1))), np.linalg.LinAlgError),
        ((np.eye(2), np.ones((3, 1))), ValueError),
    ],
)
def solve_columns(a: Array, b: Array) -> Array:
    """Solutions of A X = B for matrices with equal batch axes: `solve` after broadcasting."""
    with named("solve", SINGULAR):
        return np.linalg.solve(a, b)


@solve_columns.vjp("a", "b")
def _(g: Array, a: Array, out: Array, needs: tuple[bool, bool]) -> tuple[Array, Array]:
    # A X = B, so A dX = dB - dA X. With S = A^-T G, <G, dX> = <S, A dX> = <S, dB> - <S X^T, dA>.
    s = solve_columns(transposed(a), g)
    return -(s @ transposed(out)) if needs[0] else None, s if needs[1] else None


@twin("linalg.solve")
def solve(a: Array, b: Array) -> Array:
    """Solution x of the linear system A x = b.

    Parameters
    ----------
    a : array of shape (..., n, n)
        The matrices.
    b : array of shape (n,) or (..., n, k)
        One vector, or a right side in each column. Batch axes broadcast with those of `a`. As in NumPy 2, only an
        array of one axis is a vector.

    Returns
    -------
    array of shape (..., n) or (..., n, k)

    Raises
    ------
    numpy.linalg.LinAlgError
        If a matrix is singular, or not square.
    ValueError
        If the shapes do not fit.

    Examples
    --------
    >>> import autodiff as ad
    >>> import autodiff.functional as F
    >>> b = ad.Tensor([1.0, 2.0], requires_grad=True)
    >>> x = F.solve([[2.0, 0.0], [0.0, 4.0]], b)
    >>> x.tolist()
    [0.5, 0.5]
    >>> x.sum().backward()
    >>> b.grad
    array([0.5 , 0.25])
    """
    a, b = operand(a), operand(b)
    vector = b.ndim == 1
    if vector:
        b = np.expand_dims(b, -1)
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    a, b = (x if x.shape[:-2] == batch else np.broadcast_to(x, (*batch, *x.shape[-2:])) for x in (a, b))
    x = solve_columns(a, b)
    return np.squeeze(x, -1) if vector else x


# --- symmetric positive definite matrices ---


def _definite(rng: np.random.Generator) -> list[Any]:
    shapes = ((3, 3), (2, 2, 2), (1, 3, 2, 2), (1, 1), (0, 0), (0, 2, 2))
    matrices = [with_gaps(rng, *shape, symmetric=True) for shape in shapes]
    return [*((a, settings) for a in matrices for settings in ({}, {"upper": True}))]


@op(
    numpy=np.linalg.cholesky,
    samples=_definite,
    error_samples=[
        ((np.diag([1.0, -1.0]),), np.linalg.LinAlgError),
        ((np.ones((2, 3)),), np.linalg.LinAlgError),
        ((np.array([[2.0, 0.0], [1.0, 2.0]]),), ValueError),
    ],
)
def cholesky(a: Array, *, upper: bool = False) -> Array:
    """Cholesky factor: the lower triangular L of positive diagonal with A = L L^T.

    Parameters
    ----------
    a : array of shape (..., n, n)
        Symmetric positive definite matrices. The factor is that of (A + A^T)/2, so the gradient is symmetric.
    upper : bool
        Return the upper triangular L^T instead.

    Returns
    -------
    array of shape (..., n, n)

    Raises
    ------
    numpy.linalg.LinAlgError
        If a matrix is not positive definite, or not square.
    ValueError
        If a matrix is far from symmetric. (NumPy would read one triangle only.)

    References
    ----------
    I. Murray, "Differentiation of the Cholesky decomposition", 2016, equation (10): https://arxiv.org/abs/1602.07527

    Examples
    --------
    >>> import autodiff as ad
    >>> import autodiff.functional as F
    >>> a = ad.Tensor([[4.0, 2.0], [2.0, 5.0]], requires_grad=True)
    >>> y = F.cholesky(a)
    >>> y.tolist()
    [[2.0, 0.0], [1.0, 2.0]]
    >>> y.sum().backward()
    >>> a.grad
    array([[0.1875, 0.125 ],
           [0.125 , 0.25  ]])
    """
    with named("cholesky", ". Its eigenvalues must be positive: add a small multiple of the identity"):
        factor = np.linalg.cholesky(symmetric("cholesky", a))
    return np.swapaxes(factor, -1, -2).copy() if upper else factor


@cholesky.vjp("a")
def _(g: Array, out: Array, upper: bool) -> Array:
    # A = L L^T. With the lower triangular X = L^-1 dL, dA = L X L^T + L X^T L^T, so L^-1 dA L^-T = X + X^T and X is the
    # lower triangle of that with half the diagonal: dL = L Phi(L^-1 dA L^-T). Phi is a mask, so it is its own adjoint,
    # and <G, dL> = <Phi(L^T G), L^-1 dA L^-T> = <L^-T Phi(L^T G) L^-1, dA>, of which the symmetric part counts.
    lower, g = (transposed(out), transposed(g)) if upper else (out, g)
    left = transposed(lower)
    n = g.shape[-1]
    p = (left @ g) * (np.tri(n, dtype=g.dtype) - np.eye(n, dtype=g.dtype) / 2)
    s = solve_columns(left, transposed(solve_columns(left, p)))
    return (s + transposed(s)) / 2


# --- pseudoinverse ---


@op(
    samples=lambda rng: [
        *((with_gaps(rng, *shape),) for shape in ((3, 3), (4, 2), (2, 3), (2, 3, 2), (1, 1), (3, 1))),
        (with_gaps(rng, 2, 2), {"rcond": 0.01}),
        (with_gaps(rng, 2, 2, 3), {"rcond": np.array([0.01, 0.02])}),
        *((with_gaps(rng, *shape), {"rcond": 0.45}) for shape in ((3, 3), (5, 3), (3, 4))),
        (with_gaps(rng, 2, 2, 3), {"rcond": np.array([0.01, 0.7])}),
        (np.zeros((0, 3)),),
        (np.zeros((3, 0)),),
        (np.zeros((0, 2, 3)),),
    ],
    error_samples=[((np.ones(3),), np.linalg.LinAlgError)],
)
def pinv(a: Array, *, rcond: Any = 1e-15) -> Array:
    """Moore-Penrose pseudoinverse.

    Parameters
    ----------
    a : array of shape (..., m, n)
        The matrices.
    rcond : float or array
        Singular values up to this multiple of the largest one count as zero.

    Returns
    -------
    array of shape (..., n, m)

    Raises
    ------
    numpy.linalg.LinAlgError
        If there are no matrices, or the singular values do not converge.

    Notes
    -----
    The pseudoinverse jumps where the rank changes, or a singular value crosses the cutoff. The gradient of a matrix
    without full rank is that along matrices of the same rank.

    References
    ----------
    G. Golub and V. Pereyra, "The differentiation of pseudo-inverses and nonlinear least squares problems whose
    variables separate", SIAM Journal on Numerical Analysis 10 (1973), equation (4.12).

    Examples
    --------
    >>> import autodiff as ad
    >>> import autodiff.functional as F
    >>> a = ad.Tensor([[1.0], [1.0]], requires_grad=True)
    >>> F.pinv(a).sum().backward()
    >>> a.grad
    array([[-0.5],
           [-0.5]])
    """
    with named("pinv"):
        return np.linalg.pinv(a, rcond)


@pinv.vjp("a")
def _(g: Array, a: Array, out: Array, rcond: Any) -> Array:
    if np.max(rcond, initial=0) > _ROUNDING:
        return _with_cutoff(g, a, rcond)
    # Where the rank stays, dP = -P dA P + P P^T dA^T (1 - A P) + (1 - P A) dA^T P^T P (Golub and Pereyra). In each term
    # <G, X dA Y> = <X^T G Y^T, dA>, and <G, X dA^T Y> = <Y G^T X, dA>.
    p, t, h = out, transposed(out), transposed(g)
    from_left = (h - a @ (p @ h)) @ (p @ t)
    from_right = (t @ p) @ (h - (h @ p) @ a)
    return from_left + from_right - t @ g @ t


_ROUNDING = 1e-10
"""Singular values below this multiple of the largest one are taken for rounding errors of 0."""


def _with_cutoff(g: Array, a: Array, rcond: Any) -> Array:
    """Pull a cotangent back to matrices of which more is cut off than rounding errors.

    With A = U S V^T, the pseudoinverse is V f(S) U^T, where f(s) = 1/s for what is kept, and 0 for the rest. Let H be
    U^T G^T V, and E the same of dA. As for functions of the symmetric matrix [[0, A], [A^T, 0]], whose eigenvalues are
    s and -s, the change of f(A) in this basis is

      (alpha (E_ij + E_ji) + beta (E_ij - E_ji)) / 2
      alpha = (f_i - f_j) / (s_i - s_j)
      beta = (f_i + f_j) / (s_i + s_j)

    which is its own transpose as a map. Of two that are kept, alpha is -f_i f_j and beta f_i f_j; of two that are cut
    off, both are 0. So nothing is divided by a gap but those between what is kept and what is not. Outside of U or V,
    where s and f are 0, both are f / s.
    """
    u, s, vt = np.linalg.svd(a, full_matrices=False)
    kept = to_array(s) > np.asarray(rcond)[..., None] * np.max(to_array(s), axis=-1, keepdims=True, initial=0)
    f = np.where(kept, 1 / np.where(kept, s, 1.0), 0.0)
    v, h = transposed(vt), transposed(g)
    f_i, f_j, s_i, s_j = f[..., :, None], f[..., None, :], s[..., :, None], s[..., None, :]
    one = kept[..., :, None] != kept[..., None, :]
    alpha = np.where(one, (f_i - f_j) / np.where(one, s_i - s_j, 1.0), -f_i * f_j)
    beta = np.where(one, (f_i + f_j) / np.where(one, s_i + s_j, 1.0), f_i * f_j)
    left, right = h @ v, transposed(u) @ h
    inside = right @ v
    core = ((alpha + beta) * inside + (alpha - beta) * transposed(inside)) / 2
    outside_u, outside_v = left - u @ inside, right - inside @ vt
    squared = f * f
    return u @ core @ vt + (outside_u * squared[..., None, :]) @ vt + u @ (squared[..., :, None] * outside_v)


def _numpy_pinv(a: Array, rcond: Any = None, hermitian: bool = False, **tolerance: Any) -> Array:
    """``np.linalg.pinv`` of a tensor: the cutoff has two names, of which one has a default of its own."""
    if hermitian:
        raise TypeError("np.linalg.pinv on a tensor takes hermitian=False: the result is the same")
    if tolerance.keys() - {"rtol"} or (rcond is not None and tolerance):
        raise TypeError("np.linalg.pinv takes the cutoff of small singular values once, as rcond or rtol")
    if tolerance:
        rcond = tolerance["rtol"]
        if rcond is None:
            rcond = max(np.shape(a)[-2:]) * float(np.finfo(np.result_type(a, np.float32)).eps)
    return pinv(a) if rcond is None else pinv(a, rcond=rcond)


TWINS[np.linalg.pinv] = _numpy_pinv
