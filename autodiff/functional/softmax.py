"""Softmax, its logarithm, and the cross-entropy that trains a classifier: three nodes around one derivation.

With p = softmax(z), whose Jacobian is ``dp_i/dz_j = p_i (delta_ij - p_j)``::

    softmax         dz = p * (g - sum(g p))
    log_softmax     dz = g - p sum(g)
    cross_entropy   dz = p - y

All are computed from ``z - max(z)``, which changes none of them (e^-c cancels in the quotient) and cannot overflow.
"""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..node import Array
from ..op import op, save
from ..protocols import to_array
from ._blocks import any_outside, blocks, floating, rows, unboxed
from ._scaling import narrow, wide

__all__ = ["cross_entropy", "log_softmax", "softmax"]


def _samples(rng: np.random.Generator) -> list[Any]:
    return [
        *((2 * rng.normal(size=size),) for size in ((), (1,), (4,), (3, 3), (0, 3), (3, 0), (2, 3, 2))),
        *((2 * rng.normal(size=(2, 3, 3)), {"axis": axis}) for axis in (0, 1, -2, (0, -1), None)),
    ]


_ERROR_SAMPLES = [((np.ones((2, 3)), {"axis": 2}), ValueError)]


# --- softmax ---


@op(samples=_samples, error_samples=_ERROR_SAMPLES)
def softmax(x: Array, *, axis: int | tuple[int, ...] | None = -1) -> Array:
    """Exponentials along an axis, divided by their sum: ``exp(x) / sum(exp(x))``.

    Parameters
    ----------
    x : array of any shape
        Scores. -inf gives exactly 0, with gradient 0.
    axis : int, tuple of int, or None
        The axes that sum to 1; None for all.

    Returns
    -------
    array of the same shape

    Notes
    -----
    Where all scores are -inf, the quotient is 0/0. This gives zeros there, with a gradient of zero: a query that may
    attend to nothing takes nothing, and no NaN reaches the other rows.

    Examples
    --------
    >>> import autodiff as ad
    >>> import autodiff.functional as F
    >>> x = ad.Tensor([1.0, 2.0, 3.0], requires_grad=True)
    >>> p = F.softmax(x)
    >>> p.data.round(4)
    array([0.09  , 0.2447, 0.6652])
    >>> p.backward([1.0, 0.0, 0.0])
    >>> x.grad.round(4)
    array([ 0.0819, -0.022 , -0.0599])
    """
    x = floating(x)
    p = np.asarray(wide(x) - _largest(x, axis))
    np.exp(p, out=p)
    total = p.sum(axis=axis, keepdims=True)
    p /= np.where(total == 0, 1.0, total)
    return unboxed(narrow(p, x.dtype))


@softmax.vjp("x")
def _(g: Array, out: Array, axis: Any) -> Array:
    # With p = out: dp_i/dx_j = p_i (delta_ij - p_j), so dx_j = sum_i g_i dp_i/dx_j = p_j (g_j - sum_i g_i p_i).
    # The Jacobian diag(p) - p p^T is never built. Each row of dx sums to 0: adding a constant to x changes nothing.
    dx = g - (g * out).sum(axis=axis, keepdims=True)
    dx *= out
    return dx


@softmax.decomposition
def _(x: Array, *, axis: int | tuple[int, ...] | None = -1) -> Array:
    e = np.exp(wide(x) - _largest(x, axis))
    total = np.sum(e, axis=axis, keepdims=True)
    if np.any(total == 0):
        total = np.where(total == 0, 1.0, total)
    return narrow(e / total, _dtype(x))


# --- log softmax ---


@op(samples=_samples, error_samples=_ERROR_SAMPLES)
def log_softmax(x: Array, *, axis: int | tuple[int, ...] | None = -1) -> Array:
    """Logarithm of softmax, ``x - log(sum(exp(x)))``, also where the softmax itself underflows.

    Parameters
    ----------
    x : array of any shape
    axis : int, tuple of int, or None
        The axes along which the exponentials sum to 1; None for all.

    Returns
    -------
    array of the same shape
        Where all scores are -inf, so is the result, with a gradient of zero.

    Examples
    --------
    >>> import autodiff as ad
    >>> import autodiff.functional as F
    >>> x = ad.Tensor([1000.0, 0.0], requires_grad=True)
    >>> y = F.log_softmax(x)
    >>> y.tolist()
    [0.0, -1000.0]
    >>> y[1].backward()
    >>> x.grad
    array([-1.,  1.])
    """
    x = floating(x)
    y = np.asarray(wide(x) - _largest(x, axis))
    total = np.exp(y).sum(axis=axis, keepdims=True)
    masked = total == 0
    y -= np.log(np.where(masked, 1.0, total))
    return save(unboxed(narrow(y, x.dtype)), masked=masked)


@log_softmax.vjp("x")
def _(g: Array, out: Array, masked: Array, axis: Any) -> Array:
    # d log p_i / dx_j = delta_ij - p_j, so dx_j = g_j - p_j sum_i g_i
    dx = narrow(g - np.exp(out) * wide(g).sum(axis=axis, keepdims=True), g.dtype)
    return np.where(masked, 0.0, dx) if np.any(masked) else dx


@log_softmax.decomposition
def _(x: Array, *, axis: int | tuple[int, ...] | None = -1) -> Array:
    y = wide(x) - _largest(x, axis)
    total = np.sum(np.exp(y), axis=axis, keepdims=True)
    masked = total == 0
    if np.any(masked):
        return narrow(np.where(masked, -np.inf, y - np.log(np.where(masked, 1.0, total))), _dtype(x))
    return narrow(y - np.log(total), _dtype(x))


def _dtype(x: Array) -> Any:
    return getattr(x, "dtype", None)


def _largest(x: Array, axis: Any) -> Any:
    """Return the maximum along an axis, as a constant: no result depends on what is subtracted from the scores.

    It is 0 where all scores are -inf, so that their difference is -inf and not NaN.
    """
    largest = np.max(floating(to_array(x)), axis=axis, keepdims=True, initial=-np.inf)
    return np.where(largest == -np.inf, 0.0, largest)


# --- cross-entropy ---


def _cross_entropy_samples(rng: np.random.Generator) -> list[Any]:
    z = rng.normal(size=(2, 3, 4))
    ids = np.array([[0, 3, 2], [1, 1, 0]])
    p = rng.uniform(0.1, 1.0, size=(3, 4))
    return [
        (rng.normal(size=4), np.array(2)),
        (rng.normal(size=4), 1),
        (rng.normal(size=(1, 1)), np.array([0], np.uint8)),
        (rng.normal(size=(0, 3)), np.zeros(0, int)),
        *((z, ids, {"reduction": reduction}) for reduction in ("mean", "sum", "none")),
        *((z, ids, {"reduction": reduction, "ignore_index": 1}) for reduction in ("mean", "sum", "none")),
        (rng.normal(size=(3, 3)), np.array([-1, 2, -1]), {"ignore_index": -1}),
        (rng.normal(size=4), rng.uniform(0.1, 1.0, size=4)),
        (rng.normal(size=(0, 3)), np.zeros((0, 3))),
        *((rng.normal(size=(3, 4)), p, {"reduction": reduction}) for reduction in ("mean", "sum", "none")),
        (rng.normal(size=(3, 3)), np.eye(3)[[0, 2, 2]]),
    ]


@op(
    samples=_cross_entropy_samples,
    error_samples=[
        ((np.ones((2, 3)), np.array([0, 3])), ValueError),
        ((np.ones((2, 3)), np.array([0, -1])), ValueError),
        ((np.ones((2, 3)), np.array([0, -2]), {"ignore_index": -1}), ValueError),
        ((np.ones((2, 3)), np.array([0, 1, 2])), ValueError),
        ((np.ones((2, 3)), np.ones((2, 3), int)), ValueError),
        ((np.ones((2, 3)), np.ones(2)), ValueError),
        ((np.ones((2, 3)), np.ones((2, 3)), {"ignore_index": -1}), ValueError),
        ((np.ones((2, 3)), np.array([True, False])), TypeError),
        ((np.ones((2, 3)), np.array([0, 1]), {"ignore_index": 1.5}), TypeError),
        ((np.ones((2, 3)), np.array([0, 1]), {"reduction": "average"}), ValueError),
        ((1.0, 0), ValueError),
    ],
)
def cross_entropy(logits: Array, targets: Array, *, ignore_index: int | None = None, reduction: str = "mean") -> Array:
    """Cross-entropy of the softmax of logits against targets, in nats: ``-log softmax(logits)[target]``.

    Parameters
    ----------
    logits : array of shape (..., V)
        Unnormalised log-probabilities of V classes.
    targets : integer array of shape (...), or floating array of shape (..., V)
        The id of the right class, from 0 to V - 1; or the probability y of every class, which gives
        ``-sum(y * log softmax(logits))`` and is differentiable in y, too. The probabilities are taken as they are: they
        need not be one-hot, nor sum to 1. Where one is 0, its class may have the logit -inf: 0 log 0 = 0.
    ignore_index : int, optional
        Targets with this id, which may lie outside of 0 to V - 1, have loss 0 and gradient 0. Only for ids.
    reduction : {"mean", "sum", "none"}
        "mean" is over the targets that are not ignored, and 0 with gradient 0 if all are; "none" gives each target's
        own loss, of shape (...).

    Returns
    -------
    array of shape (), or (...) without reduction

    Raises
    ------
    ValueError
        If shapes do not fit, an id is out of range (also a negative one: ids never count from the end), or a setting
        has another value.
    TypeError
        If the targets are neither integers nor floating.

    Notes
    -----
    The backward pass takes the probabilities from the logits again, so that nothing else of their size is kept. Logits
    that are all -inf have the loss inf and, as for softmax, the gradient 0.

    Examples
    --------
    >>> import autodiff as ad
    >>> import autodiff.functional as F
    >>> z = ad.Tensor([[1.0, 2.0, 3.0]], requires_grad=True)
    >>> loss = F.cross_entropy(z, [2])
    >>> round(loss.item(), 6)
    0.407606
    >>> loss.backward()
    >>> z.grad.round(6)  # softmax(z) - [0, 0, 1]
    array([[ 0.090031,  0.244728, -0.334759]])
    """
    ids, ignored = _read(logits, targets, ignore_index, reduction)
    logits = floating(logits)
    z = rows(wide(logits))
    # NumPy sets out anew for each row; where rows are short, it is quicker along columns.
    shift = (np.ascontiguousarray(z.T) if z.shape[-1] < _SHORT else z.T).max(axis=0, initial=-np.inf)
    skipped = shift == -np.inf  # rows without a gradient
    masked = np.count_nonzero(skipped)
    if masked:
        shift[skipped] = 0
    total, ones = np.empty_like(shift), np.ones(z.shape[-1], z.dtype)  # a product with ones is a sum, but faster
    if ids is None:
        y = rows(wide(targets))
        scores = np.empty(len(z), np.result_type(z, y))  # sum of y (z - shift)
        for z_, y_, shift_, total_, scores_ in blocks(z, y, shift, total, scores):
            shifted = z_ - shift_[:, None]
            np.matmul(np.exp(shifted), ones, out=total_)
            shifted[y_ == 0] = 0  # 0 log 0 = 0
            np.einsum("nv,nv->n", y_, shifted, out=scores_)
    else:
        scores = z[np.arange(len(z)), ids.reshape(-1)] - shift
        for z_, shift_, total_ in blocks(z, shift, total):
            shifted = z_ - shift_[:, None]
            np.matmul(np.exp(shifted, out=shifted), ones, out=total_)
    if masked:
        total[skipped] = 1
    losses = (np.log(total) if ids is not None else y.sum(axis=-1) * np.log(total)) - scores
    count = len(z)
    if ignored is not None:
        losses[ignored.reshape(-1)] = 0
        count, skipped = count - int(np.count_nonzero(ignored)), skipped | ignored.reshape(-1)
    loss = _reduce(losses.reshape(np.shape(logits)[:-1]), reduction, count)
    loss = narrow(loss, logits.dtype if ids is not None else np.result_type(logits, targets))
    return save(loss, ids=ids, shift=shift, total=total, skipped=skipped, count=count)


_SHORT = 48
"""Columns of a matrix whose largest elements are found in less time in a transposed copy."""


@cross_entropy.vjp("logits")
def _(
    g: Array, logits: Array, targets: Array, reduction: str, ids: Any, shift: Array, total: Array, skipped: Array,
    count: int,
) -> Array:  # fmt: skip
    # For one target of probabilities y: L = -sum_k y_k log p_k with p = softmax(z), d log p_k / dz_i = delta_ki - p_i.
    #
    #   dL/dz_i = -sum_k y_k (delta_ki - p_i) = p_i sum_k y_k - y_i
    #
    # which is p - y where y sums to 1; for an id, y is 1 there and 0 elsewhere. Exponential and logarithm have
    # cancelled: nothing is divided by a small p. Here p = exp(z - shift) / total, as in the forward.
    z = rows(wide(logits))
    weight = _weights(wide(g), reduction, count)
    dz = z - shift[:, None]
    np.exp(dz, out=dz)
    if ids is None:
        y = rows(wide(targets))
        dz *= (weight * y.sum(axis=-1) / total)[:, None]
        dz -= weight[:, None] * y
    else:
        dz *= (weight / total)[:, None]
        dz[np.arange(len(z)), ids.reshape(-1)] -= weight
    if np.count_nonzero(skipped):
        dz[skipped] = 0
    return narrow(dz.reshape(logits.shape), logits.dtype)


@cross_entropy.vjp("targets")
def _(g: Array, logits: Array, targets: Array, reduction: str, shift: Array, total: Array, count: int) -> Array:
    # L = -sum_k y_k log p_k is linear in y: dL/dy_k = -log p_k; 0 where y_k = 0 and p_k = 0, as L has it
    z, y = rows(wide(floating(logits))), rows(targets)
    dy = np.log(total)[:, None] - (z - shift[:, None])
    dy[(y == 0) & (z == -np.inf)] = 0
    dy *= _weights(wide(g), reduction, count)[:, None]
    return narrow(dy.reshape(targets.shape), targets.dtype)


@cross_entropy.decomposition
def _(logits: Array, targets: Array, *, ignore_index: int | None = None, reduction: str = "mean") -> Array:
    ids, ignored = _read(logits, targets, ignore_index, reduction)
    log_p: Array = log_softmax(logits)
    if ids is not None:
        losses = -np.take_along_axis(log_p, ids[..., None], axis=-1)[..., 0]
    else:
        absent = np.equal(targets, 0) & np.isneginf(to_array(log_p))
        losses = -np.sum(np.multiply(targets, np.where(absent, 0.0, log_p) if np.any(absent) else log_p), axis=-1)
    if ignored is None:
        return _reduce(losses, reduction, math.prod(np.shape(losses)))
    return _reduce(np.where(ignored, 0.0, losses), reduction, ignored.size - int(np.count_nonzero(ignored)))


def _reduce(losses: Array, reduction: str, count: int) -> Array:
    if reduction == "none":
        return losses
    total = np.sum(wide(losses))
    return narrow(total / max(count, 1) if reduction == "mean" else total, losses.dtype)


def _weights(g: Array, reduction: str, count: int) -> Array:
    """Pull the cotangent back through the reduction: that of each target's own loss, or the one of all."""
    return np.reshape(g / max(count, 1) if reduction == "mean" else g, -1)


def _read(
    logits: Array, targets: Array, ignore_index: int | None, reduction: str
) -> tuple[NDArray[np.intp] | None, NDArray[np.bool_] | None]:
    """Check the arguments. Return the ids, with 0 for ignored ones, and which are ignored; None for probabilities."""
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"cross_entropy: reduction must be 'mean', 'sum' or 'none', got {reduction!r}")
    shape, given = np.shape(logits), np.asarray(to_array(targets))
    kind = given.dtype.kind
    if kind not in "iuf":
        raise TypeError(f"cross_entropy: targets must be integers or floating, got dtype {given.dtype}")
    if not shape or given.shape != (shape if kind == "f" else shape[:-1]):
        raise ValueError(
            f"cross_entropy takes logits of shape (..., V) with integer ids of shape (...), or with floating "
            f"probabilities of shape (..., V); got logits of shape {shape} and targets of shape {given.shape}, "
            f"{given.dtype}"
        )
    if kind == "f":
        if ignore_index is not None:
            raise ValueError(f"cross_entropy: ignore_index={ignore_index} is for ids; the targets are probabilities")
        return None, None
    if ignore_index is not None and not hasattr(ignore_index, "__index__"):
        raise TypeError(f"cross_entropy: ignore_index must be an integer or None, got {ignore_index!r}")
    ignored = None if ignore_index is None else given == operator.index(ignore_index)
    if ignored is not None and np.count_nonzero(ignored):
        given = np.where(ignored, 0, given)
    else:
        ignored = None
    if any_outside(given, shape[-1]):
        wrong = (given < 0) | (given >= shape[-1])
        where = tuple(np.argwhere(wrong)[0].tolist())
        raise ValueError(
            f"cross_entropy: the target {given[where]}{f' at position {where}' if where else ''} is not one of V = "
            f"{shape[-1]} classes: ids go from 0 to {shape[-1] - 1}"
            + ("" if ignore_index is not None else "; targets to leave out need ignore_index=")
        )
    # A copy, since a caller may write the next targets there.
    return given.astype(np.intp, copy=ignored is None), ignored
