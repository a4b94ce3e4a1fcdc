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

The sum over keys is one over columns: sum_j dP_ij P_ij = sum_jc dO_ic V_jc P_ij = sum_c dO_ic O_ic = rowsum(dO * O), a
number for each query that takes neither P nor dP. With dropout, whose factors Z are 0 or 1 / (1 - p), the output is
O = (Z * P) V; then dP = Z * (dO V^T) and dV = (Z * P)^T dO, and sum_j dP_ij P_ij = sum_jc dO_ic V_jc Z_ij P_ij is again
rowsum(dO * O).

P and dP are therefore needed for a few queries at a time only. Both passes walk in blocks that fit in the cache, and a
causal mask leaves out the keys behind a block (see `_scores`). Short rows keep their weights for the backward pass.
Where these would take more memory than q, k, v and O together, which is kept anyway, that is from about Tk = 4 d, only
two numbers for each query are kept, the largest score m and the sum of exponentials; from these the backward pass
computes P = exp(S - m) / sum once more. So memory grows as T, not as T^2. This is FlashAttention (Dao et al., 2022),
but for one thing: m and the sum are not joined to m + log(sum), which loses the sum beside a large m.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from ..node import Array
from ..op import op, save
from ..protocols import to_array
from ._scaling import narrow, wide
from ._scores import Block, Scores, part, scale_of, softmax_over_keys
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
        # weights that take more than what is kept anyway; more queries than a block has
        (*qkv(2, queries=5, keys=6, width=1), {"causal": True}),
        (*qkv(queries=33, keys=3, width=1), {"causal": True}),
        qkv(2, queries=33, keys=2, width=1, heads=1),
        (*qkv(queries=6, keys=5, width=1), np.tri(6, 5, -1, bool), {"dropout": 0.3, "rng": 5}),
        (*qkv(4, queries=3, keys=9, width=1, heads=2), rng.normal(size=(2 * 2, 1, 9)), {"scale": 2.0}),
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

    Neither pass takes memory for all weights at once, unless there are few of them; with dropout, one byte for each.

    Examples
    --------
    >>> import numpy as np
    >>> import autodiff.functional as F
    >>> F.scaled_dot_product_attention(np.eye(2), np.eye(2), np.array([[1.0, 2.0], [3.0, 4.0]]), causal=True).round(6)
    array([[1.      , 2.      ],
           [2.339523, 3.339523]])
    """
    _check(q, k, v, mask)
    dtype = np.result_type(q, k, v, *([] if mask is None or mask.dtype == bool else [mask]))
    if "e" in q.dtype.char + k.dtype.char + v.dtype.char:  # half precision
        q, k, v = map(wide, (q, k, v))
    scores = Scores(q, k, mask, causal, scale)
    keep = draw_kept((*q.shape[:-1], k.shape[-2]), dropout, rng)
    keep = None if keep is None else np.ascontiguousarray(scores.by_group(keep).mT)
    out = np.empty_like(q, np.result_type(scores.dtype, v), shape=(*q.shape[:-1], v.shape[-1]))
    values, result = scores.by_group(v), scores.by_group(out)
    # where weights take no more than what is kept anyway, they are kept, too
    few = math.prod(scores.shape) <= q.size + k.size + v.size + out.size
    weights: list[Array] | None = [] if few else None
    rows = None if few else np.empty((2, *scores.shape[:-2], 1, scores.shape[-1]), scores.dtype)
    scratch = None if few else scores.scratch(scores.dtype)
    for block in scores.blocks():
        p = np.empty(block.shape, scores.dtype) if scratch is None else block.within(scratch)
        scores.fill(p, block)
        largest, total = softmax_over_keys(p)
        if weights is not None:
            weights.append(p)
        if rows is not None:
            part(rows[0], block.s)[...], part(rows[1], block.s)[...] = largest, total
        dropped = p if keep is None else p * scale_kept(keep[block.s], dropout, p.dtype)
        np.matmul(dropped.mT, values[block.k], out=result[block.q])
    return save(narrow(out, dtype), weights=weights, rows=rows, keep=keep)


@scaled_dot_product_attention.vjp("q", "k", "v", "mask")
def _(
    g: Array, q: Array, k: Array, v: Array, mask: Array, out: Array, weights: list[Array] | None, rows: Array,
    keep: Array, causal: bool, scale: float | None, dropout: float, needs: tuple[bool, ...],
) -> tuple[Array, ...]:  # fmt: skip
    dtype = out.dtype
    if "e" in g.dtype.char + q.dtype.char + k.dtype.char + v.dtype.char:
        g, q, k, v, out = map(wide, (g, q, k, v, out))
    scores = Scores(q, k, mask, causal, scale)
    values, result, cotangents = map(scores.by_group, (v, out, g))
    # they lie in memory as q, k and v do, so that heads which are views of features hand them back as views
    gradients = [np.empty_like(x, out.dtype) if need else None for x, need in zip((q, k, v), needs, strict=False)]
    dq, dk, dv = (None if x is None else scores.by_group(x) for x in gradients)
    dm = None if scores.mask is None or not needs[3] else np.zeros(scores.mask.shape, out.dtype)
    known = _again(scores, rows) if weights is None else iter(weights)
    scratch = scores.scratch(out.dtype)
    for block, p in zip(scores.blocks(), known, strict=True):
        do = cotangents[block.q]
        z = None if keep is None else scale_kept(keep[block.s], dropout, p.dtype)
        if dv is not None:  # dV = (Z * P)^T dO
            _collect(dv, block, p if z is None else p * z, do)
        if not (needs[0] or needs[1] or needs[3]):
            continue
        ds = np.matmul(values[block.k], do.mT, out=block.within(scratch))
        if z is not None:  # dP = Z * dO V^T
            ds *= z
        ds -= np.einsum("...qc,...qc->...q", do, result[block.q])[..., None, :]
        ds *= p  # dS = P * (dP - rowsum(dO * O))
        if dq is not None:  # dQ = s dS K
            np.matmul(ds.mT, scores.k[block.k], out=dq[block.q])
        if dk is not None:  # dK = s dS^T Q
            _collect(dk, block, ds, scores.q[block.q])
        if dm is not None:  # dM = dS, summed over the axes along which the mask was broadcast
            spread = tuple([axis for axis, side in enumerate(dm.shape) if side == 1])
            part(dm, block.s)[...] += ds.sum(axis=spread, keepdims=True)
    for product in (dq, dk):
        if product is not None:
            product *= scores.scale
    gradients.append(None if dm is None else dm.mT.reshape(mask.shape))
    return tuple(gradients if out.dtype == dtype else [None if x is None else narrow(x, dtype) for x in gradients])


def _collect(total: Array, block: Block, left: Array, right: Array) -> None:
    """Add a product to the gradient of keys or values. The first block of their heads reaches all keys, and writes."""
    here, shared = total[block.k], left.shape[-3] > 1
    if block.first and not shared:
        np.matmul(left, right, out=here)
        return
    product = np.matmul(left, right)
    if shared:  # by the query heads of a group
        product = product.sum(axis=-3, keepdims=True)
    np.add(0 if block.first else here, product, out=here)


def _again(scores: Scores, rows: Array) -> Iterator[Array]:
    """Compute the weights of one block after another once more, from the scores and the statistics of their rows."""
    scratch = scores.scratch(scores.dtype)
    for block in scores.blocks():
        p = block.within(scratch)
        scores.fill(p, block)
        p -= part(rows[0], block.s)
        np.exp(p, out=p)
        p /= part(rows[1], block.s)
        yield p


@scaled_dot_product_attention.decomposition
def _(
    q: Array, k: Array, v: Array, mask: Array = None, *,
    causal: bool = False, scale: float | None = None, dropout: float = 0.0, rng: Rng = None,
) -> Array:  # fmt: skip
    _check(q, k, v, mask)
    group = q.shape[-3] // max(k.shape[-3], 1) if q.ndim > 2 else 1
    if group > 1:
        k, v = np.repeat(k, group, axis=-3), np.repeat(v, group, axis=-3)
    scores = np.matmul(q * scale_of(q, scale), np.swapaxes(k, -1, -2))
    if mask is not None:
        scores = np.where(to_array(mask), scores, -math.inf) if mask.dtype == bool else scores + mask
    if causal:  # query i may attend to key j <= i + Tk - Tq
        queries, keys = scores.shape[-2:]
        scores = np.where(np.tri(queries, keys, keys - queries, dtype=bool), scores, -math.inf)
    return np.matmul(drop(softmax(scores, axis=-1), p=dropout, rng=rng), v)


def _check(q: Array, k: Array, v: Array, mask: Array) -> None:
    """Refuse shapes that do not fit."""
    shapes = f"got q {q.shape}, k {k.shape}, v {v.shape}"
    if not 2 <= q.ndim == k.ndim == v.ndim:
        raise ValueError(f"q, k and v must have the same number of axes, at least two; {shapes}")
    if q.shape[-1] != k.shape[-1] or k.shape[:-1] != v.shape[:-1] or q.shape[:-3] != k.shape[:-3]:
        raise ValueError(
            f"attention takes q of shape (..., H, Tq, d), k of (..., Hkv, Tk, d) and v of (..., Hkv, Tk, dv); {shapes}"
        )
    if q.ndim > 2 and (q.shape[-3] % k.shape[-3] if k.shape[-3] else q.shape[-3]):
        raise ValueError(f"the {k.shape[-3]} key heads must divide the {q.shape[-3]} query heads; {shapes}")
    if mask is not None:
        _check_mask(mask, (*q.shape[:-1], k.shape[-2]))


def _check_mask(mask: Array, full: tuple[int, ...]) -> None:
    if mask.dtype.kind not in "bf":
        raise TypeError(f"the mask must be boolean (True: may attend) or floating (added to scores); got {mask.dtype}")
    sides = zip(mask.shape[::-1], full[::-1], strict=False)
    if len(mask.shape) > len(full) or any(mine not in (1, side) for mine, side in sides):
        raise ValueError(f"the mask must broadcast to (..., H, Tq, Tk), here {full}; its shape is {mask.shape}")
