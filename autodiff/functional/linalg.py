"""Matrices: products, sums of products over named axes, and triangles."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from ..hints import refuse_settings
from ..node import TWINS, Array
from ..op import op, save
from ..protocols import refuse_out
from ._subscripts import from_lists
from .indexing import scatter_add

__all__ = ["einsum", "matmul", "tril", "triu"]

Optimize: TypeAlias = bool | str | Sequence[Any] | None


@op(
    numpy=np.matmul,
    samples=lambda rng: [
        (rng.normal(size=(2, 3)), rng.normal(size=(3, 4))),
        (rng.normal(size=(3, 3)), rng.normal(size=(3, 3))),
        (rng.normal(size=3), rng.normal(size=3)),
        (rng.normal(size=3), rng.normal(size=(3, 2))),
        (rng.normal(size=(2, 3)), rng.normal(size=3)),
        (rng.normal(size=3), rng.normal(size=(2, 3, 4))),
        (rng.normal(size=(2, 2, 3)), rng.normal(size=3)),
        (rng.normal(size=(2, 3, 4)), rng.normal(size=(2, 4, 2))),
        (rng.normal(size=(2, 2, 2, 3)), rng.normal(size=(3, 2))),
        (rng.normal(size=(2, 3)), rng.normal(size=(2, 2, 3, 2))),
        (rng.normal(size=(2, 1, 2, 3)), rng.normal(size=(3, 3, 2))),
        (rng.normal(size=(3, 1, 2, 2)), rng.normal(size=(1, 3, 2, 2))),
        (rng.normal(size=(1, 2, 3)), rng.normal(size=(3, 1))),
        (rng.normal(size=1), rng.normal(size=1)),
        (rng.normal(size=(1, 1)), rng.normal(size=(1, 1))),
        (rng.normal(size=(4, 2)).T, rng.normal(size=(3, 4)).T),
        (rng.normal(size=(0, 3)), rng.normal(size=(3, 2))),
        (rng.normal(size=(2, 0)), rng.normal(size=(0, 3))),
        (rng.normal(size=(0, 2, 3)), rng.normal(size=(3, 2))),
        (rng.normal(size=(2, 3)), np.arange(6).reshape(3, 2)),
    ],
    error_samples=[
        ((np.ones((2, 3)), np.ones((2, 3))), ValueError),
        ((np.ones(3), np.ones(2)), ValueError),
        ((np.ones((2, 3)), np.array(2.0)), ValueError),
        ((np.ones((2, 2, 3)), np.ones((3, 3, 2))), ValueError),
    ],
)
def matmul(a: Array, b: Array) -> Array:
    """Matrix product, ``a @ b``.

    Parameters
    ----------
    a : array of shape (..., n, k) or (k,)
        Matrices in the last two axes, whose other axes broadcast; or one row vector.
    b : array of shape (..., k, m) or (k,)
        Likewise; or one column vector.

    Returns
    -------
    array of shape (..., n, m)
        Without n if `a` is a vector, without m if `b` is one.

    Raises
    ------
    ValueError
        If the shapes do not fit.

    Examples
    --------
    >>> import autodiff as ad
    >>> a = ad.Tensor([1.0, 2.0], requires_grad=True)
    >>> b = ad.Tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], requires_grad=True)
    >>> (a @ b).sum().backward()
    >>> a.grad
    array([ 6., 15.])
    >>> b.grad
    array([[1., 1., 1.],
           [2., 2., 2.]])
    """
    return save(np.matmul(a, b), ranks=(np.ndim(a), np.ndim(b)))


# For matrices, y_ij = sum_k a_ik b_kj. With g_ij = dL/dy_ij,
#
#   dL/da_ik = sum_j g_ij b_kj     dA = G B^T
#   dL/db_kj = sum_i a_ik g_ij     dB = A^T G     (the shapes alone fix the order of the factors)
#
# A vector is a matrix of one row, on the left, or of one column, on the right. In a batch, every pair of matrices has
# such products, and the engine sums over the axes that were broadcast. But a factor without batch axes of its own, as a
# weight has none, is used by every pair, and the sum over them is done inside of one product, with all rows below each
# other, or all columns beside each other: sum_n A_n^T G_n = A_rows^T G_rows, sum_n G_n B_n^T = G_columns B_columns^T.


@matmul.vjp("a")
def _(g: Array, b: Array, ranks: tuple[int, int]) -> Array:
    g, b = _as_matrices(g, ranks), (b if ranks[1] > 1 else np.expand_dims(b, -1))
    if ranks[0] <= 2 and b.ndim > 2:
        g, b = _columns(g), _columns(b)
    da = np.matmul(g, np.swapaxes(b, -1, -2))
    return da if ranks[0] > 1 else np.squeeze(da, -2)


@matmul.vjp("b")
def _(g: Array, a: Array, ranks: tuple[int, int]) -> Array:
    g, a = _as_matrices(g, ranks), (a if ranks[0] > 1 else np.expand_dims(a, -2))
    if ranks[1] <= 2 and a.ndim > 2:
        g, a = _rows(g), _rows(a)
    db = np.matmul(np.swapaxes(a, -1, -2), g)
    return db if ranks[1] > 1 else np.squeeze(db, -1)


def _as_matrices(g: Array, ranks: tuple[int, int]) -> Array:
    """Give the cotangent the axes of length one that it lacks because a factor was a vector."""
    if ranks[0] == 1:
        g = np.expand_dims(g, -1 if ranks[1] == 1 else -2)
    return np.expand_dims(g, -1) if ranks[1] == 1 else g


def _rows(x: Array) -> Array:
    """All rows of a batch of matrices as one matrix."""
    return np.reshape(x, (math.prod(x.shape[:-1]), x.shape[-1]))


def _columns(x: Array) -> Array:
    """All columns of a batch of matrices as one matrix."""
    return np.reshape(np.moveaxis(x, -2, 0), (x.shape[-2], math.prod(x.shape[:-2]) * x.shape[-1]))


# --- sums of products over named axes ---


def einsum(subscripts: str, *operands: Array, optimize: Optimize = None) -> Array:
    """Sum of products over named axes (Einstein's convention).

    Parameters
    ----------
    subscripts : str
        A letter for each axis of each operand, separated by commas, then ``->`` and those of the result. Axes of the
        same letter run together, and the sum is over those that the result does not have. Without an arrow, the result
        has the letters that occur once, in alphabetical order. An ellipsis stands for axes that broadcast. In place of
        the string, a list of axis numbers may follow each operand: ``einsum(a, [0, 1], b, [1, 2], [0, 2])``.
    *operands : array
        As many as there are terms. Where axes share a letter, one of length 1 is repeated.
    optimize : bool, str or sequence, optional
        Whether, and how, NumPy plans in which order to multiply. It does by default if there is much to do.

    Returns
    -------
    array

    Raises
    ------
    ValueError
        If the subscripts are malformed, or do not fit the operands.
    TypeError
        If there are neither a string nor lists of numbers.

    Notes
    -----
    The operation is linear in every operand, and its adjoint is the same operation with the cotangent and the operand
    in each other's place: for ``ij,jk->ik``, that of the first is ``ik,jk->ij``.

    Examples
    --------
    >>> import autodiff as ad
    >>> import autodiff.functional as F
    >>> x = ad.Tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    >>> F.einsum("ij,j->i", x, [1.0, 10.0]).tolist()
    [21.0, 43.0]
    >>> F.einsum("ii->", x).backward()
    >>> x.grad
    array([[1., 0.],
           [0., 1.]])
    """
    if isinstance(subscripts, bytes):
        subscripts = subscripts.decode("ascii")
    if not isinstance(subscripts, str):
        subscripts, operands = from_lists((subscripts, *operands))
    operands = tuple([np.asarray(x) if isinstance(x, (list, tuple)) else x for x in operands])
    if len(operands) == 1:
        return einsum_one(operands[0], subscripts=subscripts)
    return einsum_many(*operands, subscripts=subscripts, optimize=optimize)


def _numpy_einsum(*operands: Any, out: Any = None, optimize: Optimize = None, **settings: Any) -> Array:
    """``np.einsum`` of a tensor, with settings that it takes only as they are by default."""
    refuse_out("np.einsum", out)
    refuse_settings("np.einsum", settings, ("dtype", "order", "casting"))
    for name, default in {"dtype": None, "order": "K", "casting": "safe"}.items():
        if settings.get(name, default) != default:
            raise TypeError(
                f"np.einsum on a tensor takes {name}={default!r} only, got {settings[name]!r}; cast with astype"
            )
    return einsum(*operands, optimize=optimize)


TWINS[np.einsum] = _numpy_einsum


@op(
    linear=True,
    samples=lambda rng: [
        (rng.normal(size=(2, 3)), {"subscripts": "ij->ji"}),
        (rng.normal(size=(3, 3)), {"subscripts": "ba"}),
        (rng.normal(size=(3, 3)), {"subscripts": "ii"}),
        (rng.normal(size=(3, 3)), {"subscripts": "ii->i"}),
        (rng.normal(size=(2, 3)), {"subscripts": "ij->j"}),
        (rng.normal(size=(2, 3, 2)), {"subscripts": "iji->ji"}),
        (rng.normal(size=(2, 2, 3)), {"subscripts": "ii...->...i"}),
        (rng.normal(size=(3, 2, 2)), {"subscripts": "... i j -> j ..."}),
        (rng.normal(size=()), {"subscripts": "->"}),
        (rng.normal(size=(1, 1)), {"subscripts": "ii->i"}),
        (rng.normal(size=(0, 2)), {"subscripts": "ij->i"}),
    ],
    error_samples=[
        ((np.ones((4, 2)), {"subscripts": "ii->"}), ValueError),
        ((np.ones((2, 2)), {"subscripts": "ijk"}), ValueError),
        ((np.ones((2, 2)), {"subscripts": "ij->k"}), ValueError),
        ((np.ones((2, 2)), {"subscripts": "ij,jk"}), ValueError),
    ],
)
def einsum_one(x: Array, *, subscripts: str) -> Array:
    """Diagonals, sums and transposes of one array: `einsum` with one operand."""
    return save(np.einsum(subscripts, x), shape=np.shape(x))


@einsum_one.vjp("x")
def _(g: Array, subscripts: str, shape: tuple[int, ...]) -> Array:
    (labels,), output = _labels(subscripts, (len(shape),))
    return _exchange([(output, g)], labels, shape)


@op(
    samples=lambda rng: [
        (rng.normal(size=(2, 3)), rng.normal(size=(3, 4)), {"subscripts": "ij,jk->ik"}),
        (rng.normal(size=(3, 3)), rng.normal(size=(3, 3)), {"subscripts": "ij,kj"}),
        (rng.normal(size=(2, 3)), rng.normal(size=(2, 3)), {"subscripts": "ij,ij->"}),
        (rng.normal(size=(2, 3)), rng.normal(size=4), {"subscripts": "ij,k->k"}),
        (rng.normal(size=(3, 3)), rng.normal(size=3), {"subscripts": "ii,i->i"}),
        (rng.normal(size=(3, 2, 3)), rng.normal(size=(2, 2)), {"subscripts": "iji,jj->j"}),
        (rng.normal(size=(2, 2, 3)), rng.normal(size=(3, 2)), {"subscripts": "...ij,jk->...ik"}),
        (rng.normal(size=(2, 1, 2, 3)), rng.normal(size=(3, 3, 2)), {"subscripts": "...ij,...jk"}),
        (rng.normal(size=(2, 3)), rng.normal(size=(2, 2, 2, 3)), {"subscripts": "...j,i...j->i..."}),
        (rng.normal(size=(1, 3)), rng.normal(size=(2, 3)), {"subscripts": "ij,ij->ij"}),
        (rng.normal(size=(3, 3)), rng.normal(size=(1, 3)), {"subscripts": "ij,ij->j"}),
        (rng.normal(size=5), rng.normal(size=1), {"subscripts": "i,i->"}),
        (rng.normal(size=()), rng.normal(size=3), {"subscripts": ",i->i"}),
        (rng.normal(size=1), rng.normal(size=1), {"subscripts": "a,b->ba"}),
        (rng.normal(size=(0, 3)), rng.normal(size=3), {"subscripts": "ij,j->i"}),
        (rng.normal(size=(2, 0)), rng.normal(size=(0, 3)), {"subscripts": "ij,jk->ik"}),
        (rng.normal(size=(2, 3)), rng.normal(size=(3, 2)), rng.normal(size=(2, 4)), {"subscripts": "ij,jk,kl->il"}),
        (rng.normal(size=2), rng.normal(size=2), rng.normal(size=2), {"subscripts": "i,i,i->i", "optimize": True}),
        (rng.normal(size=(2, 3)), np.array([1, 0, 2]), {"subscripts": "ij,j->i"}),
    ],
    error_samples=[
        ((np.ones((2, 3)), np.ones((4, 2)), {"subscripts": "ij,jk->ik"}), ValueError),
        ((np.ones((2, 3)), np.ones(3), {"subscripts": "ij,j->z"}), ValueError),
        ((np.ones((2, 3)), np.ones(3), {"subscripts": "ij,j,k->i"}), ValueError),
        ((np.ones((2, 3)), np.ones(3), {"subscripts": "...,j->j"}), ValueError),
    ],
)
def einsum_many(*operands: Array, subscripts: str, optimize: Optimize = None) -> Array:
    """Sums of products of two arrays or more: `einsum` with several operands."""
    if optimize is None:
        inputs, _ = _labels(subscripts, tuple(map(np.ndim, operands)))
        sides: dict[str, int] = {}
        for labels, operand in zip(inputs, operands, strict=False):  # what does not fit, NumPy will report
            for label, side in zip(labels, np.shape(operand), strict=False):
                sides[label] = max(side, sides.get(label, 1))
        optimize = math.prod(sides.values()) > 1 << 16  # products; planning costs about as much time
    return np.einsum(subscripts, *operands, optimize=optimize)


@einsum_many.vjp("operands")
def _(g: Array, operands: tuple[Array, ...], needs: tuple[bool, ...], subscripts: str) -> tuple[Array, ...]:
    inputs, output = _labels(subscripts, tuple(map(np.ndim, operands)))
    terms = list(zip(inputs, operands, strict=True))
    return tuple(
        _exchange([(output, g), *terms[:i], *terms[i + 1 :]], labels, np.shape(x)) if needed else None
        for i, (needed, (labels, x)) in enumerate(zip(needs, terms, strict=True))
    )


def _exchange(terms: Sequence[tuple[str, Array]], labels: str, shape: tuple[int, ...]) -> Array:
    """Cotangent of an operand with these labels and this shape, from the terms g and all other operands.

    For y_o = sum over all labels but o of a_p b_q ..., dL/da_p = sum over all labels but p of g_o b_q ...: an einsum
    again, in which g and the operand have exchanged their places. Three kinds of labels need more:

    - one that only this operand has: y was a sum over it, so every element gets the same;
    - an axis of length 1 that was repeated: its copies are summed, and it comes back with length 1;
    - one that occurs twice, as in ``ii``: only the diagonal was used, the rest gets zero.
    """
    sides = dict(zip(labels, shape, strict=True))
    known = set().union(*(own for own, _ in terms))
    kept = "".join(label for label, side in sides.items() if label in known and side != 1)
    result = einsum(f"{','.join(own for own, _ in terms)}->{kept}", *(x for _, x in terms))
    new = tuple(i for i, label in enumerate(sides) if label not in kept)
    result = np.expand_dims(result, new) if new else result
    if result.shape != (full := tuple(sides.values())):
        result = np.broadcast_to(result, full)
    if len(sides) == len(labels):
        return result
    positions = dict(zip(sides, np.indices(full, sparse=True), strict=True))
    return scatter_add(result, index=tuple(positions[label] for label in labels), shape=shape)


@functools.lru_cache(maxsize=256)
def _labels(subscripts: str, ranks: tuple[int, ...]) -> tuple[list[str], str]:
    """Labels of every operand and of the result, with letters in place of an ellipsis, and the result written out.

    Axes behind an ellipsis are aligned at the right, as broadcasting does: operands with fewer have the last letters.
    """
    left, arrow, output = subscripts.replace(" ", "").partition("->")
    terms = left.split(",")
    behind = [max(rank + 3 - len(term), 0) if "..." in term else 0 for rank, term in zip(ranks, terms, strict=False)]
    alphabet = filter(str.isalpha, map(chr, range(ord("A"), ord("z") + 1)))
    unused = [letter for letter in alphabet if letter not in subscripts]
    letters = "".join(unused[: max(behind, default=0)])
    if not arrow:
        output = "..." + "".join(sorted(letter for letter in {*left} - {*".,"} if left.count(letter) == 1))
    inputs = [term.replace("...", letters[len(letters) - n :]) for term, n in zip(terms, behind, strict=False)]
    return inputs, output.replace("...", letters)


# --- triangles ---


@op(
    numpy=np.tril,
    linear=True,
    samples=lambda rng: [
        (rng.normal(size=(3, 3)),),
        (rng.normal(size=(2, 3, 4)), {"k": 1}),
        (rng.normal(size=(4, 3)), {"k": -1}),
        (rng.normal(size=(1, 1)),),
        (rng.normal(size=(2, 0)),),
    ],
    error_samples=[((np.ones(3),), ValueError), ((np.array(1.0),), ValueError)],
)
def tril(m: Array, *, k: int = 0) -> Array:
    """Lower triangle: zeros above a diagonal of the last two axes.

    Parameters
    ----------
    m : array of shape (..., rows, columns)
        The matrices.
    k : int
        The diagonal: 0 the main one, positive above it.

    Returns
    -------
    array of the shape of m

    Raises
    ------
    ValueError
        If `m` has fewer than two axes.

    Examples
    --------
    >>> import numpy as np
    >>> import autodiff.functional as F
    >>> F.tril(np.ones((2, 3)))
    array([[1., 0., 0.],
           [1., 1., 0.]])
    """
    _check_matrices("tril", m)
    return np.tril(m, k)


@tril.vjp("m")
def _(g: Array, k: int) -> Array:
    # y = mask * m: the entries set to zero pass nothing on
    return np.tril(g, k)


@op(
    numpy=np.triu,
    linear=True,
    samples=lambda rng: [
        (rng.normal(size=(3, 3)),),
        (rng.normal(size=(2, 3, 4)), {"k": 1}),
        (rng.normal(size=(4, 3)), {"k": -1}),
        (rng.normal(size=(1, 1)),),
        (rng.normal(size=(2, 0)),),
    ],
    error_samples=[((np.ones(3),), ValueError), ((np.array(1.0),), ValueError)],
)
def triu(m: Array, *, k: int = 0) -> Array:
    """Upper triangle: zeros below a diagonal of the last two axes.

    Parameters
    ----------
    m : array of shape (..., rows, columns)
        The matrices.
    k : int
        The diagonal: 0 the main one, positive above it.

    Returns
    -------
    array of the shape of m

    Raises
    ------
    ValueError
        If `m` has fewer than two axes.

    Examples
    --------
    >>> import numpy as np
    >>> import autodiff.functional as F
    >>> F.triu(np.ones((2, 3)), k=1)
    array([[0., 1., 1.],
           [0., 0., 1.]])
    """
    _check_matrices("triu", m)
    return np.triu(m, k)


@triu.vjp("m")
def _(g: Array, k: int) -> Array:
    # as for tril
    return np.triu(g, k)


def _check_matrices(name: str, m: Array) -> None:
    if np.ndim(m) < 2:  # NumPy would make a matrix of copies of a vector
        raise ValueError(f"{name} works on the last two axes, so m needs at least two; its shape is {np.shape(m)}")
