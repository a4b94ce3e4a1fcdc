"""Scaled dot-product attention, forward and backward without a Jacobian.

For one head, with queries Q (Tq, d), keys K (Tk, d), values V (Tk, dv) and a mask M that is 0 where query i may attend
to key j and minus infinity elsewhere (or any other numbers)::

    S = s Q K^T + M        scores, s = 1 / sqrt(d)
    P = softmax(S)         each row over its keys
    O = P V

The rules, for a scalar L with dO = dL/dO:

- O_ic = sum_j P_ij V_jc is a product of two matrices, so dV = P^T dO and dP = dO V^T.
- The softmax of one row p has the Jacobian dp_j/ds_k = p_j (delta_jk - p_k) = diag(p) - p p^T. It is symmetric, and it
  need not be built: ds_k = sum_j dp_j p_j (delta_jk - p_k) = p_k (dp_k - sum_j dp_j p_j). Hence
  dS = P * (dP - rowsum(dP * P)), whose rows sum to zero, as adding a constant to a row of S changes nothing.
- S is linear in Q, K and M: dQ = s dS K, dK = s dS^T Q, dM = dS.

Where P is exactly zero so is dS: a masked key receives nothing, and gives nothing.

Inside, scores lie transposed, keys before queries: NumPy's maximum and sum over the last axis but one are vectorised
across queries, which over a short last axis they are not (a factor of four).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..node import Array
from ..op import op, save
from ..protocols import to_array
from .dropout import Rng, draw_kept, scale_kept
from .dropout import dropout as drop
from .softmax import softmax

__all__ = ["scaled_dot_product_attention"]


def _samples(rng: np.random.Generator) -> list[tuple[Any, ...]]:
    def qkv(*lead: int, queries: int, keys: int, width: int, heads: int = 0, values: int = 0) -> tuple[Any, ...]:
        shared = (*lead[:-1], heads or lead[-1]) if lead else ()
        return (
            rng.normal(size=(*lead, queries, width)),
            rng.normal(size=(*shared, keys, width)),
            rng.normal(size=(*shared, keys, values or width)),
        )

    some = np.array([[True, False, True], [False, False, False], [True, True, False]])  # the second row sees nothing
    return [
        qkv(queries=3, keys=3, width=3),
        (*qkv(2, 2, queries=3, keys=3, width=2), {"causal": True}),
        (*qkv(1, 2, queries=2, keys=4, width=3, values=2), {"causal": True, "scale": 0.3}),
        (*qkv(2, queries=4, keys=2, width=2), {"causal": True}),
        (*qkv(2, 2, queries=3, keys=3, width=2), some),
        (*qkv(2, 2, queries=3, keys=3, width=2), rng.normal(size=(2, 3, 3))),
        (*qkv(2, 2, queries=3, keys=3, width=2), rng.normal(size=(2, 1, 1, 3)), {"causal": True}),
        (*qkv(2, 4, queries=3, keys=2, width=2, heads=2), rng.normal(size=(4, 3, 2))),
        (*qkv(3, queries=2, keys=2, width=4, heads=1), {"causal": True}),
        (*qkv(2, 2, queries=3, keys=3, width=2), {"dropout": 0.4, "rng": 7, "causal": True}),
        qkv(1, 1, queries=1, keys=1, width=1),
        qkv(queries=2, keys=3, width=1),
        qkv(queries=2, keys=3, width=0, values=2),
        qkv(2, queries=0, keys=3, width=2),
        qkv(2, queries=3, keys=0, width=2),
    ]


@op(
    samples=_samples,
    error_samples=[
        ((np.ones((2, 3)), np.ones((2, 4)), np.ones((2, 3))), ValueError),
        ((np.ones((2, 3)), np.ones((2, 3)), np.ones((4, 3))), ValueError),
        ((np.ones((3, 2, 3)), np.ones((2, 2, 3)), np.ones((2, 2, 3))), ValueError),
        ((np.ones((2, 1, 2, 3)), np.ones((1, 1, 2, 3)), np.ones((1, 1, 2, 3))), ValueError),
        ((np.ones(3), np.ones(3), np.ones(3)), ValueError),
        ((np.ones((2, 3)), np.ones((2, 3)), np.ones((2, 3)), np.ones((3, 2), bool)), ValueError),
        ((np.ones((2, 3)), np.ones((2, 3)), np.ones((2, 3)), np.ones((1, 2, 2), bool)), ValueError),
        ((np.ones((2, 3)), np.ones((2, 3)), np.ones((2, 3)), np.ones((2, 2), int)), TypeError),
        ((np.ones((2, 3)), np.ones((2, 3)), np.ones((2, 3)), {"dropout": 1.0}), ValueError),
    ],
)
def scaled_dot_product_attention(
    q: Array, k: Array, v: Array, mask: Array = None, *,
    causal: bool = False, scale: float | None = None, dropout: float = 0.0, rng: Rng = None,
) -> Array:  # fmt: skip
    """Attention: for each query, the mean of the values, weighted by how well their keys match it.

    Parameters
    ----------
    q : array of shape (..., H, Tq, d)
        Queries. The axes before Tq may be missing.
    k : array of shape (..., Hkv, Tk, d)
        Keys. Hkv must divide H: query head h uses key head ``h // (H / Hkv)`` (grouped-query attention).
    v : array of shape (..., Hkv, Tk, dv)
        Values.
    mask : array, optional
        Must broadcast to (..., H, Tq, Tk). Boolean: True where the query may attend to the key. Floating: added to the
        scaled scores, minus infinity forbids; it may require a gradient, like a learned bias of relative positions.
    causal : bool
        Let query i attend to the keys j <= i + Tk - Tq only: the last query to all keys, so that queries may follow
        keys from a cache. Combines with `mask`.
    scale : float, optional
        Factor of the dot products, by default ``1 / sqrt(d)``.
    dropout : float
        Probability that a weight is dropped, in [0, 1); the others are scaled up by ``1 / (1 - dropout)``.
    rng : int, numpy.random.Generator or RowStream, optional
        Where the dropped weights are drawn from, as in `dropout`; in the shape (..., H, Tq, Tk).

    Returns
    -------
    array of shape (..., H, Tq, dv)
        Its axes lie in memory in the order of those of q. So heads that were split off the features by a view are
        merged again without a copy.

    Raises
    ------
    ValueError
        If shapes do not fit, or `dropout` is outside [0, 1).
    TypeError
        If the mask is of integers: whether 0 forbids or adds nothing would be a guess.

    Notes
    -----
    Vaswani et al., "Attention is all you need", 2017, equation 1. Grouped heads: Ainslie et al., "GQA", 2023.

    A forbidden key has a weight and a gradient of exactly zero, and the result for a query is the same to the last bit
    whatever finite numbers stand at the keys forbidden to it. A query that may attend to no key gives zeros and gets
    zeros as its gradient.

    Examples
    --------
    >>> import numpy as np
    >>> import autodiff.functional as F
    >>> F.scaled_dot_product_attention(np.eye(2), np.eye(2), np.array([[1.0, 2.0], [3.0, 4.0]]), causal=True).round(6)
    array([[1.      , 2.      ],
           [2.339523, 3.339523]])
    """
    group = _check(q, k, v, mask)
    scaled = np.multiply(q.mT, _scale(q, scale), order="C")  # turned in passing; the product is faster so
    scores = np.matmul(_shared(k, group), _grouped(scaled, group))  # (..., Hkv, group, Tk, Tq)
    scores = scores.reshape(*q.shape[:-2], k.shape[-2], q.shape[-2])
    weights = _softmax_over_keys(_masked(scores, mask, causal))
    keep = draw_kept(weights.mT.shape, dropout, rng)
    keep = None if keep is None else np.ascontiguousarray(keep.mT)
    dropped = _drop(weights, keep, dropout)
    out = np.empty_like(q, np.result_type(dropped, v), shape=(*q.shape[:-1], v.shape[-1]))
    np.matmul(_grouped(dropped, group).mT, _shared(v, group), out=_grouped(out, group))
    return save(out, weights=weights, keep=keep, group=group, mask_shape=np.shape(mask))


@scaled_dot_product_attention.vjp("v")
def _(g: Array, weights: Array, keep: Array, group: int, dropout: float) -> Array:
    return _to_shared(_drop(weights, keep, dropout), g, group)  # dV = P^T dO


@scaled_dot_product_attention.vjp("q", "k", "mask")
def _(
    g: Array, q: Array, k: Array, v: Array, out: Array, weights: Array, keep: Array, group: int,
    mask_shape: tuple[int, ...], scale: float | None, dropout: float, needs: tuple[bool, ...],
) -> tuple[Array, ...]:  # fmt: skip
    factor = _scale(q, scale)
    # dP = dO V^T, where weights were kept; dS = P * (dP - rowsum(dO * O)); scores are transposed, keys before queries
    ds = np.matmul(_shared(v, group), _grouped(np.ascontiguousarray(g.mT), group)).reshape(weights.shape)
    ds = _drop(ds, keep, dropout)
    ds -= np.einsum("...qc,...qc->...q", g, out)[..., None, :]
    ds *= weights
    dq = dk = dm = None
    if needs[0]:  # dQ = s dS K
        dq = np.empty_like(q, ds.dtype)
        np.matmul(_grouped(ds, group).mT, _shared(k, group), out=_grouped(dq, group))
        dq *= factor
    if needs[1]:  # dK = s dS^T Q
        dk = _to_shared(ds, q, group)
        dk *= factor
    if needs[2]:  # dM = dS, summed over the axes along which the mask was broadcast
        dm = ds.mT.sum(axis=tuple(range(ds.ndim - len(mask_shape))))
        dm = dm.sum(axis=tuple(i for i, side in enumerate(mask_shape) if side == 1), keepdims=True)
    return dq, dk, dm


@scaled_dot_product_attention.decomposition
def _(
    q: Array, k: Array, v: Array, mask: Array = None, *,
    causal: bool = False, scale: float | None = None, dropout: float = 0.0, rng: Rng = None,
) -> Array:  # fmt: skip
    group = _check(q, k, v, mask)
    if group > 1:
        k, v = np.repeat(k, group, axis=-3), np.repeat(v, group, axis=-3)
    scores = np.matmul(q * _scale(q, scale), np.swapaxes(k, -1, -2))
    if causal:
        scores = np.where(_causal(*scores.shape[-2:]), scores, -math.inf)
    if mask is not None:
        scores = np.where(to_array(mask), scores, -math.inf) if mask.dtype == bool else scores + mask
    return np.matmul(drop(softmax(scores, axis=-1), p=dropout, rng=rng), v)


# --- pieces of the forward ---


def _scale(q: Array, scale: float | None) -> float:
    return 1 / math.sqrt(max(q.shape[-1], 1)) if scale is None else scale


def _causal(queries: int, keys: int) -> NDArray[np.bool_]:
    """Where query i may attend to key j: j <= i + keys - queries."""
    return np.tri(queries, keys, keys - queries, dtype=bool)


def _masked(scores: Array, mask: Array, causal: bool) -> Array:
    """Transposed scores with minus infinity where attending is forbidden; fresh ones are overwritten."""
    if causal:
        _forbid(scores, _causal(*scores.mT.shape[-2:]))
    if mask is None:
        return scores
    if mask.dtype == bool:
        _forbid(scores, mask)
        return scores
    return scores + np.atleast_2d(mask).mT


def _forbid(scores: Array, allowed: NDArray[np.bool_]) -> None:
    """Lower scores to minus infinity in place. Unlike a sum with it, fmin does so also to infinite scores and NaN."""
    limits = np.where(np.atleast_2d(allowed).mT, math.inf, -math.inf)
    np.fmin(scores, np.ascontiguousarray(limits, scores.dtype), out=scores)


def _softmax_over_keys(scores: Array) -> Array:
    """Softmax over the last axis but one, in place; zeros where every score is minus infinity."""
    # The maximum is taken over what is allowed, as all else is minus infinity. It starts from the lowest finite number:
    # without any key this makes exp(-inf - lowest) = 0 of every score, instead of exp(-inf + inf).
    scores -= scores.max(axis=-2, keepdims=True, initial=np.finfo(scores.dtype).min)
    np.exp(scores, out=scores)
    # the largest term is exp(0) = 1, so a sum below 1 is the 0 of a query without any key, and stays 0 / 1
    scores /= np.maximum(scores.sum(axis=-2, keepdims=True), 1)
    return scores


def _drop(weights: Array, keep: Array, p: float) -> Array:
    """Drop what the mask does not keep."""
    return weights if keep is None else weights * scale_kept(keep, p, weights.dtype)


# --- grouped heads: (..., H, m, n) seen as (..., Hkv, group, m, n), beside one that its group shares ---


def _group(q: Array, k: Array) -> int:
    """How many query heads share one key head."""
    return q.shape[-3] // k.shape[-3] if q.ndim > 2 and k.shape[-3] else 1


def _grouped(x: Array, group: int) -> Array:
    return x if group == 1 else x.reshape(*x.shape[:-3], x.shape[-3] // group, group, *x.shape[-2:])


def _shared(x: Array, group: int) -> Array:
    return x if group == 1 else x[..., None, :, :]


def _to_shared(transposed: Array, x: Array, group: int) -> Array:
    """Pull back to keys or values: a product, added up over the heads that share them; in memory, it lies as x does."""
    shape = (*x.shape[:-3], *(side // group for side in x.shape[-3:-2]), transposed.shape[-2], x.shape[-1])
    result = np.empty_like(x, np.result_type(transposed, x), shape=shape)
    if group == 1:
        return np.matmul(transposed, x, out=result)
    return np.matmul(_grouped(transposed, group), _grouped(x, group)).sum(axis=-3, out=result)


def _check(q: Array, k: Array, v: Array, mask: Array) -> int:
    """Refuse shapes that do not fit; return the size of a group of heads."""
    shapes = f"got q {q.shape}, k {k.shape}, v {v.shape}"
    if not 2 <= q.ndim == k.ndim == v.ndim:
        raise ValueError(f"q, k and v must have the same number of axes, at least two; {shapes}")
    if q.shape[-1] != k.shape[-1] or k.shape[:-1] != v.shape[:-1] or q.shape[:-3] != k.shape[:-3]:
        raise ValueError(
            f"attention takes q of shape (..., H, Tq, d), k of (..., Hkv, Tk, d) and v of (..., Hkv, Tk, dv); {shapes}"
        )
    group = _group(q, k)
    if q.ndim > 2 and group * k.shape[-3] != q.shape[-3]:
        raise ValueError(f"the {k.shape[-3]} key heads must divide the {q.shape[-3]} query heads; {shapes}")
    if mask is not None:
        _check_mask(mask, (*q.shape[:-1], k.shape[-2]))
    return group


def _check_mask(mask: Array, full: tuple[int, ...]) -> None:
    if mask.dtype.kind not in "bf":
        raise TypeError(f"the mask must be boolean (True: may attend) or floating (added to scores); got {mask.dtype}")
    sides = zip(mask.shape[::-1], full[::-1], strict=False)
    if len(mask.shape) > len(full) or any(mine not in (1, side) for mine, side in sides):
        raise ValueError(f"the mask must broadcast to (..., H, Tq, Tk), here {full}; its shape is {mask.shape}")
