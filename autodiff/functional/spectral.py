"""Eigenvalues of symmetric matrices, singular values, and orthogonal factors, of matrices in the last two axes.

Each of these decompositions has several results. The op behind it returns them in one array, below each other, because
the rule is a formula in the results, which makes derivatives of every order.

Singular vectors and eigenvectors of a repeated value are any basis of a space. They have no derivative, and the
backward pass raises where a gradient reaches them; gradients of the values alone remain right.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ..node import Array
from ..op import op, save
from ..protocols import NumPyProtocols, to_array
from ._matrices import named, symmetric, transposed, with_gaps
from ._twins import operand, twin
from .solving import solve_columns

__all__ = ["eigh", "eigvalsh", "qr", "svd", "svdvals"]

SHAPES = ((3, 3), (2, 2), (1, 1), (2, 2, 2), (3, 2, 2, 2), (0, 0), (0, 2, 2))


# --- eigenvalues ---


def _symmetric_ones(rng: np.random.Generator) -> list[Any]:
    matrices = [with_gaps(rng, *shape, symmetric=True) for shape in SHAPES]
    return [(a, settings) for a in matrices for settings in ({}, {"UPLO": "U"})]


@op(samples=_symmetric_ones)
def eigensystem(a: Array, *, UPLO: Literal["L", "U"] = "L") -> Array:
    """Eigenvalues in the first row, and the eigenvectors in the columns below: both results of `eigh`."""
    with named("eigh"):
        values, vectors = np.linalg.eigh(symmetric("eigh", a), UPLO)
    return np.concatenate([values[..., None, :], vectors], axis=-2)


@eigensystem.vjp("a")
def _(g: Array, out: Array) -> Array:
    # A = V diag(w) V^T. With dP = V^T dA V, differentiating gives dw_j = dP_jj and dV = V (F * dP), where * is
    # elementwise and F_ij = 1/(w_j - w_i) off the diagonal. So <G_w, dw> + <G_V, dV> = <diag(G_w) + F * V^T G_V, dP>
    # and <M, dP> = <V M V^T, dA>, of which the symmetric part counts. F is antisymmetric, so with K = V^T G_V that part
    # of F * K is F * (K - K^T)/2.
    w, v, gw, gv = out[..., 0, :], out[..., 1:, :], g[..., 0, :], g[..., 1:, :]
    inner = _diagonal(gw)
    if _reached(gv):
        k = transposed(v) @ gv
        inner = inner + _inverse_gaps("eigh", "eigen", w, w, _used(gv)) * (k - transposed(k)) / 2
    return v @ inner @ transposed(v)


EighResult: Any = type(np.linalg.eigh(np.eye(1)))
"""NumPy's named pair of results."""


@twin("linalg.eigh")
def eigh(a: Array, UPLO: str = "L") -> Any:
    """Eigenvalues and orthonormal eigenvectors of symmetric matrices.

    Parameters
    ----------
    a : array of shape (..., n, n)
        Symmetric matrices. The results are those of (A + A^T)/2, so the gradient is symmetric.
    UPLO : {"L", "U"}
        Which triangle is read, in upper or lower case. Both hold the same numbers, but by it the signs of the
        eigenvectors may differ.

    Returns
    -------
    eigenvalues : array of shape (..., n)
        In ascending order.
    eigenvectors : array of shape (..., n, n)
        One in each column.

    Raises
    ------
    ValueError
        If a matrix is far from symmetric, or `UPLO` is something else. In the backward pass, if a gradient reaches the
        vectors of a repeated eigenvalue. Second derivatives of eigenvalues take those of the vectors too.
    numpy.linalg.LinAlgError
        If the matrices are not square, or the computation does not converge.

    Notes
    -----
    For a repeated eigenvalue, the gradient is right for functions that treat its copies alike, such as sums.

    References
    ----------
    M. Giles, "An extended collection of matrix derivative results for forward and reverse mode algorithmic
    differentiation", Oxford University Computing Laboratory report NA-08/01, 2008, section 3.1.

    Examples
    --------
    >>> import autodiff as ad
    >>> import autodiff.functional as F
    >>> a = ad.Tensor([[2.0, 1.0], [1.0, 2.0]], requires_grad=True)
    >>> values, vectors = F.eigh(a)
    >>> values.tolist()
    [1.0, 3.0]
    >>> values[1].backward()
    >>> a.grad
    array([[0.5, 0.5],
           [0.5, 0.5]])
    """
    triangle = str(UPLO).upper()
    if triangle not in ("L", "U"):
        raise ValueError(f"eigh: UPLO must be 'L' or 'U', got {UPLO!r}")
    both = eigensystem(a) if triangle == "L" else eigensystem(a, UPLO="U")
    return EighResult(both[..., 0, :], both[..., 1:, :])


@twin("linalg.eigvalsh")
def eigvalsh(a: Array, UPLO: str = "L") -> Array:
    """Eigenvalues of symmetric matrices, in ascending order; see `eigh`.

    Examples
    --------
    >>> import numpy as np
    >>> import autodiff.functional as F
    >>> F.eigvalsh(np.array([[2.0, 1.0], [1.0, 2.0]]))
    array([1., 3.])
    """
    return eigh(a, UPLO).eigenvalues


# --- singular values ---


def _of_all_shapes(rng: np.random.Generator) -> list[Any]:
    shapes = ((4, 2), (2, 3), (2, 3, 2), (3, 1), (1, 3), (0, 3), (3, 0), *SHAPES)
    return [(with_gaps(rng, *shape), {"columns": min(shape[-2:])}) for shape in shapes]


@op(samples=_of_all_shapes)
def singular_system(a: Array, *, columns: int) -> Array:
    """Singular values in the first row, the columns of U below, then those of V: all results of `svd`.

    So many columns are kept. Where there are no singular values or vectors, they are zero.
    """
    m, n = a.shape[-2:]
    with named("svd"):
        u, s, v = np.linalg.svd(a, full_matrices=columns > min(m, n))
    out = np.zeros((*a.shape[:-2], 1 + m + n, columns), s.dtype)
    out[..., 0, : s.shape[-1]] = s
    out[..., 1 : 1 + m, : u.shape[-1]] = u
    out[..., 1 + m :, : v.shape[-2]] = np.swapaxes(v, -1, -2)
    return save(out, rows=m)


@singular_system.vjp("a")
def _(g: Array, out: Array, rows: int, columns: int) -> Array:
    # A = U S V^T. With dP = U^T dA V and the antisymmetric X = U^T dU, Y = V^T dV, dP = X S + dS + S Y^T. Its diagonal
    # is dS; off it, ij combined with ji gives X = F * (dP S + S dP^T) and Y = F * (S dP + dP^T S), with F_ij =
    # 1/(s_j^2 - s_i^2). With K = U^T G_U, L = V^T G_V, the adjoint of these is
    #   M = diag(G_s) + (F * (K - K^T)) S + S (F * (L - L^T))   and   dL/dA = U M V^T.
    # If A is tall, dU also has a part outside of the span of U, (1 - U U^T) dA V S^-1; if A is wide, so has dV.
    m, n = rows, out.shape[-2] - 1 - rows
    k = min(m, n)
    if np.any(to_array(g[..., k:]) != 0):
        raise ValueError(
            "svd: a gradient reaches singular vectors without a singular value, which are any basis of a null space "
            "and have no derivative; compute with full_matrices=False"
        )
    s, u, v = out[..., 0, :k], out[..., 1 : 1 + m, :k], out[..., 1 + m :, :k]
    gs, gu, gv = g[..., 0, :k], g[..., 1 : 1 + m, :k], g[..., 1 + m :, :k]
    zero = to_array(s) == 0
    inner = _diagonal(np.where(zero, 0.0, gs))  # a singular value has a kink at 0, like an absolute value
    if not (_reached(gu) or _reached(gv)):
        return u @ inner @ transposed(v)
    used = _used(gu) | _used(gv)
    if np.any(zero & used):
        raise ValueError(
            "svd: a gradient reaches the singular vectors of a singular value that is zero, where they have no "
            "derivative; use the singular values alone, or perturb the matrix"
        )
    # s_j^2 - s_i^2 = (s_j - s_i)(s_j + s_i), which is as exact as the gap; F S is 1/c of that of S/c, which is in range
    c = np.expand_dims(np.max(to_array(s), axis=-1, keepdims=True, initial=0.0), -1)
    c = np.where(c == 0, s.dtype.type(1), c)
    scaled = s / c[..., 0]
    row, column = np.expand_dims(scaled, -2), np.expand_dims(scaled, -1)
    both = row + column
    gaps = _inverse_gaps("svd", "singular ", s, scaled, used) / np.where(to_array(both) == 0, 1.0, both)
    ku, kv = transposed(u) @ gu, transposed(v) @ gv
    inner = inner + (gaps * (ku - transposed(ku)) * row + column * (gaps * (kv - transposed(kv)))) / c
    da = u @ inner @ transposed(v)
    row = np.expand_dims(np.where(zero, 1.0, s), -2)
    if m > k:
        da = da + ((gu - u @ ku) / row) @ transposed(v)
    if n > k:
        da = da + u @ transposed((gv - v @ kv) / row)
    return da


SVDResult: Any = type(np.linalg.svd(np.eye(1)))
"""NumPy's named triple of results."""


@twin("linalg.svd")
def svd(a: Array, full_matrices: bool = True, compute_uv: bool = True) -> Any:
    """Singular value decomposition: A = U diag(s) V^T, with orthonormal columns in U and V.

    Parameters
    ----------
    a : array of shape (..., m, n)
        The matrices.
    full_matrices : bool
        Whether U and V are square. The columns in excess of the smaller one of m and n, k, have no gradient.
    compute_uv : bool
        Whether to return U and V too, and not only s.

    Returns
    -------
    U : array of shape (..., m, m) or (..., m, k)
    S : array of shape (..., k)
        In descending order.
    Vh : array of shape (..., n, n) or (..., k, n)
        The transpose of V.

    Raises
    ------
    ValueError
        In the backward pass, if a gradient reaches the vectors of a repeated singular value, of one that is zero, or of
        none (the excess columns). Second derivatives of singular values take those of the vectors too.
    numpy.linalg.LinAlgError
        If the computation does not converge.

    Notes
    -----
    A singular value has a kink at 0, like an absolute value; its gradient there is 0. For a repeated one, the gradient
    is right for functions that treat its copies alike.

    References
    ----------
    M. Giles, "An extended collection of matrix derivative results for forward and reverse mode algorithmic
    differentiation", Oxford University Computing Laboratory report NA-08/01, 2008, section 3.2.

    Examples
    --------
    >>> import autodiff as ad
    >>> import autodiff.functional as F
    >>> a = ad.Tensor([[3.0, 0.0], [0.0, -2.0]], requires_grad=True)
    >>> u, s, vh = F.svd(a)
    >>> s.tolist()
    [3.0, 2.0]
    >>> s.sum().backward()
    >>> a.grad
    array([[ 1.,  0.],
           [ 0., -1.]])
    """
    a = operand(a)
    if a.ndim < 2:
        raise np.linalg.LinAlgError(f"svd: a must have at least two axes, its shape is {a.shape}")
    m, n = a.shape[-2:]
    full = full_matrices and compute_uv
    system = singular_system(a, columns=max(m, n) if full else min(m, n))
    s = system[..., 0, : min(m, n)]
    if not compute_uv:
        return s
    u, v = system[..., 1 : 1 + m, :], system[..., 1 + m :, :]
    return SVDResult(u[..., :m], s, transposed(v[..., :n]))


@twin("linalg.svdvals")
def svdvals(x: Array, /) -> Array:
    """Singular values, in descending order; see `svd`.

    Examples
    --------
    >>> import numpy as np
    >>> import autodiff.functional as F
    >>> F.svdvals(np.array([[3.0, 0.0], [0.0, -2.0]]))
    array([3., 2.])
    """
    return svd(x, compute_uv=False)


# --- orthogonal and triangular factors ---


@op(samples=lambda rng: [(with_gaps(rng, *shape),) for shape in ((4, 2), (2, 3, 2), (3, 1), (3, 0), (0, 0), *SHAPES)])
def qr_factors(a: Array) -> Array:
    """Both factors of `qr` of matrices that have no more columns than rows: R below Q."""
    with named("qr"):
        return save(np.concatenate(np.linalg.qr(a), axis=-2), rows=a.shape[-2])


@qr_factors.vjp("a")
def _(g: Array, out: Array, rows: int) -> Array:
    # A = Q R. With the antisymmetric X = Q^T dQ and the upper triangular Y = dR R^-1, Q^T dA R^-1 = X + Y: X is the
    # strictly lower triangle minus its transpose, Y the rest. Their adjoints, with M = R G_R^T - G_Q^T Q, add up to
    #   dL/dA = (G_Q + Q (tril(M) + tril(M, -1)^T)) R^-T.
    q, r, gq, gr = out[..., :rows, :], out[..., rows:, :], g[..., :rows, :], g[..., rows:, :]
    sizes = np.abs(np.diagonal(to_array(r), axis1=-2, axis2=-1))
    limit = rows * np.finfo(sizes.dtype).eps * np.max(np.abs(to_array(r)), axis=(-2, -1), initial=0.0)
    if np.any(sizes <= np.expand_dims(limit, -1)):
        raise np.linalg.LinAlgError(
            "qr: the leading columns of a are linearly dependent, so its factors have no derivative; perturb the matrix"
        )
    m = r @ transposed(gr) - transposed(gq) @ q
    b = gq + q @ (np.tril(m) + transposed(np.tril(m, -1)))
    return transposed(solve_columns(r, transposed(b)))


QRResult: Any = type(np.linalg.qr(np.eye(1)))
"""NumPy's named pair of results."""


@twin("linalg.qr")
def qr(a: Array, mode: str = "reduced") -> Any:
    """Factors A = Q R: orthonormal columns, and an upper triangle.

    Parameters
    ----------
    a : array of shape (..., m, n)
        The matrices.
    mode : {"reduced", "r", "complete"}
        "r" returns only R. "complete" makes Q square; with a gradient that is only possible if m <= n.

    Returns
    -------
    Q : array of shape (..., m, k), where k is the smaller one of m and n
    R : array of shape (..., k, n)

    Raises
    ------
    ValueError
        For another mode, or the complete one if m > n.
    numpy.linalg.LinAlgError
        In the backward pass, if the leading k columns are linearly dependent.

    References
    ----------
    H.-J. Liao, J.-G. Liu, L. Wang and T. Xiang, "Differentiable programming tensor networks", Physical Review X 9
    (2019), 031041, appendix A: https://arxiv.org/abs/1903.09650

    Examples
    --------
    >>> import autodiff as ad
    >>> import autodiff.functional as F
    >>> a = ad.Tensor([[3.0], [4.0]], requires_grad=True)
    >>> q, r = F.qr(a)
    >>> r.sum().backward()
    >>> a.grad
    array([[-0.6],
           [-0.8]])
    """
    a = operand(a)
    if a.ndim < 2:
        raise np.linalg.LinAlgError(f"qr: a must have at least two axes, its shape is {a.shape}")
    m, n = a.shape[-2:]
    if mode not in ("reduced", "r", "complete") or (mode == "complete" and m > n):
        raise ValueError(f"qr: mode {mode!r} is not supported for the shape {a.shape}; use 'reduced' or 'r'")
    both: Array = qr_factors(a if m >= n else a[..., :m])
    q, r = both[..., :m, :], both[..., m:, :]
    if m < n:  # the other columns of A are Q times those of R
        r = np.concatenate([r, transposed(q) @ a[..., m:]], axis=-1)
    return r if mode == "r" else QRResult(q, r)


# --- what the rules share ---


def _diagonal(x: Array) -> Array:
    """Diagonal matrices with these numbers."""
    return np.expand_dims(x, -1) * np.eye(x.shape[-1], dtype=x.dtype)


def _used(g: Array) -> NDArray[np.bool_]:
    """Which columns of a cotangent are not zero."""
    used: NDArray[np.bool_] = np.any(to_array(g) != 0, axis=-2)
    return used


def _reached(g: Array) -> bool:
    """Whether a gradient reaches the vectors; where the backward pass is recorded, its own derivative may."""
    return isinstance(g, NumPyProtocols) or bool(np.any(g))


def _inverse_gaps(name: str, kind: str, values: Array, of: Array, used: NDArray[np.bool_]) -> Array:
    """Return 1/(x_j - x_i) for all pairs but equal values, where it is zero; refuse those whose vectors are used."""
    sizes = to_array(values)
    n = sizes.shape[-1]
    gaps = np.abs(sizes[..., None, :] - sizes[..., :, None])
    limit = n * np.finfo(sizes.dtype).eps * np.max(np.abs(sizes), axis=-1, initial=0.0)[..., None, None]
    equal = gaps <= limit
    wrong = np.argwhere(equal & ~np.eye(n, dtype=bool) & used[..., None, :])
    if len(wrong):
        *batch, i, j = (int(index) for index in wrong[0])
        where = f" of matrix {tuple(batch)}" if batch else ""
        raise ValueError(
            f"{name}: the {kind}values {min(i, j)} and {max(i, j)}{where} are equal (gap {gaps[*batch, i, j]:.3g}), "
            f"and a gradient reaches their vectors, which have no derivative. Use functions of the {kind}values alone "
            f"(to first order), or perturb the matrix so that the values differ"
        )
    difference = np.expand_dims(of, -2) - np.expand_dims(of, -1)
    return np.where(equal, 0.0, 1 / np.where(equal, 1.0, difference))
