"""Causal attention for the hand-written step: forward and backward, in blocks whose scores stay in the cache.

A block is some heads of some sequences and a run of their queries, with the keys that the last of these may see; what
lies beyond is never computed. Scores are transposed, keys before queries, so that maxima and sums over the keys go
along whole rows. Long sequences keep no weights for the backward, which would be the largest arrays of a step: two
numbers for each query give them again.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Heads", "attention", "attention_back"]

Array = NDArray[Any]

SCORES = 1 << 17
"""Scores in one block, unless a single head has more."""
SHORTEST, LONGEST = 32, 128
"""Queries in one block: half of them, within these bounds."""


class Heads(NamedTuple):
    """How rows [N, d] split into heads: [B, T, H, D]."""

    batch: int
    length: int
    heads: int
    width: int

    @property
    def keeps_weights(self) -> bool:
        """Whether the weights, T x T for a head, are no larger than queries, keys, values and result together."""
        return self.length <= 4 * self.width

    def blocks(self) -> Iterator[tuple[slice, slice, int, int]]:
        """Yield sequences, heads, and the bounds of the queries; the last queries of each head come first."""
        run = min(max(math.ceil(self.length / 2), SHORTEST), LONGEST, self.length)
        fitting = max(1, SCORES // (self.length * run))
        heads = min(self.heads, fitting)
        sequences = max(1, fitting // self.heads)
        for b in range(0, self.batch, sequences):
            for h in range(0, self.heads, heads):
                for start in reversed(range(0, self.length, run)):
                    yield slice(b, b + sequences), slice(h, h + heads), start, min(start + run, self.length)


def attention(qkv: Array, heads: Heads) -> tuple[Array, list[Any]]:
    """Return the mixed values [N, d] of queries, keys and values side by side [N, 3 d], and what backward needs."""
    q, k, v = _split(qkv, heads)
    mixed, kept = np.empty(heads, qkv.dtype), []
    result = mixed.swapaxes(1, 2)
    for b, h, start, stop in heads.blocks():
        weights = _scores(q[b, h, start:stop], k[b, h, :stop], start, heads)
        largest = _largest(weights)
        weights -= largest
        np.exp(weights, out=weights)
        total = np.ones((1, stop), qkv.dtype) @ weights
        weights /= total
        np.matmul(weights.mT, v[b, h, :stop], out=result[b, h, start:stop])
        kept.append(weights if heads.keeps_weights else (largest, total))
    return mixed.reshape(len(qkv), -1), kept


def attention_back(g: Array, qkv: Array, mixed: Array, kept: list[Any], heads: Heads) -> Array:
    """Return the gradient of `qkv`: dV = P^T dO, dS = P (dO V^T - rowsum(dO O)), dQ = s dS K, dK = s dS^T Q."""
    q, k, v = _split(qkv, heads)
    gradient = np.empty_like(qkv)
    dq, dk, dv = _split(gradient, heads)
    g, mixed = (array.reshape(heads).swapaxes(1, 2) for array in (g, mixed))
    for (b, h, start, stop), found in zip(heads.blocks(), kept, strict=True):
        queries, do = q[b, h, start:stop], g[b, h, start:stop]
        weights = found if heads.keeps_weights else _again(queries, k[b, h, :stop], start, heads, *found)
        scores = v[b, h, :stop] @ do.mT
        scores -= np.einsum("bhqc,bhqc->bhq", do, mixed[b, h, start:stop])[:, :, None]
        scores *= weights
        np.matmul(scores.mT, k[b, h, :stop], out=dq[b, h, start:stop])
        for total, left, right in ((dv[b, h, :stop], weights, do), (dk[b, h, :stop], scores, queries)):
            if stop == heads.length:  # these queries come first, and see all keys
                np.matmul(left, right, out=total)
            else:
                total += left @ right
    dq *= _scale(heads)
    dk *= _scale(heads)
    return gradient


def _split(qkv: Array, heads: Heads) -> Array:
    """See [N, 3 d] as [3, B, H, T, D]."""
    return qkv.reshape(heads.batch, heads.length, 3, heads.heads, heads.width).transpose(2, 0, 3, 1, 4)


def _scale(heads: Heads) -> float:
    return 1 / math.sqrt(heads.width)


def _scores(queries: Array, keys: Array, start: int, heads: Heads) -> Array:
    """Return scaled scores [.., keys, queries], minus infinity where a key comes after its query."""
    scores: Array = keys @ np.multiply(queries, _scale(heads), order="C").mT
    count = queries.shape[-2]
    scores[..., start:, :] += np.tril(np.full((count, count), -np.inf, scores.dtype), -1)
    return scores


def _again(queries: Array, keys: Array, start: int, heads: Heads, largest: Array, total: Array) -> Array:
    """Return the weights once more, from the statistics of their rows."""
    weights = _scores(queries, keys, start, heads)
    weights -= largest
    np.exp(weights, out=weights)
    weights /= total
    return weights


def _largest(scores: Array) -> Array:
    """Maxima over the keys; first over every eighth, as NumPy goes down long rows faster."""
    *lead, keys, queries = scores.shape
    stride = math.gcd(keys, 8)
    some = scores.reshape(*lead, keys // stride, stride * queries).max(axis=-2)
    largest: Array = some.reshape(*lead, stride, queries).max(axis=-2, keepdims=True)
    return largest
