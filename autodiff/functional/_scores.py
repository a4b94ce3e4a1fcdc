"""The scores of attention, made in blocks that fit in the cache.

A block is some heads of some rows, and for these, consecutive queries with all keys that they may see: under a causal
mask the keys up to the last query's own, so that most of the forbidden half is never computed. What a block takes does
not grow with the batch, and one block after another uses the same memory.

Scores lie transposed, keys before queries: maximum and sum then run along the queries, which NumPy vectorises. The
heads are on two axes here, (..., Hkv, group, T, d): a group of query heads shares a key head.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ..node import Array
from ._blocks import BLOCK

__all__ = ["Block", "Scores", "part", "scale_of", "softmax_over_keys"]

Index: TypeAlias = tuple[slice, ...]

FEWEST, MOST = 32, 128
"""Queries of a block: half of all, within these bounds. Few compute less of the forbidden half, but make thin matrices,
whose products are slower."""

BYTES = 2 * BLOCK
"""What the scores of a block take, unless those of a single key head take more."""

_ALL = slice(None)


class Block(NamedTuple):
    """Where a block lies: indices into arrays whose heads are on two axes."""

    q: Index
    """Its queries, in an array of shape (..., Hkv, group, Tq, n)."""
    k: Index
    """Its keys, in an array of shape (..., Hkv, 1, Tk, n)."""
    s: Index
    """Its scores, in an array of shape (..., Hkv, group, Tk, Tq)."""
    shape: tuple[int, ...]
    """That of its scores."""
    first: bool
    """Whether no other block of its heads came before. Its queries are the last ones, so its keys are all."""

    def within(self, scratch: NDArray[Any]) -> NDArray[Any]:
        """Return scratch memory in the shape of the block's scores."""
        return scratch[: math.prod(self.shape)].reshape(self.shape)


class Scores:
    """The masked and scaled products of queries and keys, ``S = s Q K^T + M``, block by block.

    Parameters
    ----------
    q, k, mask, causal, scale
        Those of the attention.

    Attributes
    ----------
    q, k : array of shape (..., Hkv, group, Tq, d), (..., Hkv, 1, Tk, d)
        Views of the arguments.
    mask : array or None
        What is added, or the upper limits that a boolean mask stands for, transposed. Its axes are those of the scores;
        where the mask is broadcast, their length is 1.
    scale : float
    dtype : dtype
        That of the scores.
    shape : tuple of int
        That of all scores together, (..., Hkv, group, Tk, Tq).
    """

    def __init__(self, q: Array, k: Array, mask: Array, causal: bool, scale: float | None) -> None:
        self._heads = k.shape[-3] if k.ndim > 2 else 1
        self.q, self.k = self.by_group(q), self.by_group(k)
        self.shape = (*self.q.shape[:-2], k.shape[-2], q.shape[-2])
        self.scale = scale_of(q, scale)
        self.mask, self._boolean = None, mask is not None and mask.dtype == bool
        self.dtype = np.result_type(q, k, 1.0 if mask is None or self._boolean else mask)
        if mask is not None:
            turned = self.by_group(mask.reshape((1,) * (len(self.shape) - 1 - mask.ndim) + mask.shape)).mT
            self.mask = _limits(turned, self.dtype) if self._boolean else turned
        self._causal = causal
        *lead, group, keys, queries = self.shape
        self._step = min(max(-(-queries // 2), FEWEST), MOST)
        matrix = group * keys * min(queries, self._step)  # scores of the queries of a block and one key head
        self._count = max(BYTES // max(self.dtype.itemsize * matrix, 1), 1)
        self._room = min(self._count, math.prod(lead)) * matrix

    def by_group(self, x: Array) -> Array:
        """View (..., H, m, n) as (..., Hkv, group, m, n). A missing axis of heads, or one of length 1, is one head."""
        if x.ndim == 2:
            x = x[None]
        count = x.shape[-3]
        if count in (self._heads, 1):  # a group is a single head
            return x[..., None, :, :]
        return x.reshape(*x.shape[:-3], self._heads, count // self._heads, *x.shape[-2:])

    def blocks(self) -> Iterator[Block]:
        """Walk all blocks; for each part of the heads there is one at least."""
        *leading, group, keys, queries = self.shape
        for heads in _cut(tuple(leading), self._count):
            lead = self.k[heads].shape[:-3]
            for start in reversed(range(0, max(queries, 1), self._step)):
                stop = min(start + self._step, queries)
                end = max(stop + keys - queries, 0) if self._causal else keys
                own, seen = slice(start, stop), slice(0, end)
                yield Block(
                    (*heads, _ALL, own), (*heads, _ALL, seen), (*heads, _ALL, seen, own),
                    (*lead, group, end, stop - start), stop == queries,
                )  # fmt: skip

    def scratch(self, dtype: DTypeLike) -> NDArray[Any]:
        """Return memory that suffices for the scores of any block."""
        return np.empty(self._room, dtype)

    def fill(self, scores: NDArray[Any], block: Block) -> None:
        """Write the scores of a block: minus infinity where attending is forbidden."""
        queries = np.multiply(self.q[block.q], self.scale, order="C")  # s Q takes fewer products than s (Q K^T)
        np.matmul(self.k[block.k], queries.mT, out=scores)
        if self.mask is not None:
            mask = part(self.mask, block.s)
            if self._boolean:
                _forbid(scores, mask)
            else:
                scores += mask
        if self._causal and scores.shape[-1] > 1:
            # The block ends at the last query's own key, and all see what lies before the first one's. That key is
            # missing if there are more queries than keys: then the block begins some places behind the diagonal.
            first = block.q[-1].start + self.shape[-2] - self.shape[-1]
            corner = scores[..., max(first, 0) :, :]
            behind = MOST + max(min(first, 0), -MOST)
            _forbid(corner, _diagonal(self.dtype)[: corner.shape[-2], behind : behind + corner.shape[-1]])


def softmax_over_keys(scores: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Take the softmax over the last axis but one, in place; zeros where every score is minus infinity.

    Returns
    -------
    largest, total : arrays of shape (..., 1, Tq)
        The statistics of each row, which give the weights from the scores once more: ``exp(scores - largest) / total``.
    """
    # The maximum is taken over what is allowed, as all else is minus infinity. It starts from the lowest finite number:
    # without any key this makes exp(-inf - lowest) = 0 of every score, instead of exp(-inf + inf).
    lowest = np.finfo(scores.dtype).min
    *lead, keys, queries = scores.shape
    largest = scores
    if queries > 1:  # first over every eighth key: NumPy's maximum is the faster, the longer the rows it goes down
        stride = math.gcd(keys, 8)
        largest = scores.reshape(*lead, keys // stride, stride * queries).max(axis=-2, initial=lowest)
        largest = largest.reshape(*lead, stride, queries)
    largest = largest.max(axis=-2, keepdims=True, initial=lowest)
    scores -= largest
    np.exp(scores, out=scores)
    # The largest term is exp(0) = 1, so a sum below 1 is the 0 of a query without any key, and stays 0 / 1. The product
    # with a row of ones is a faster sum.
    total = np.maximum(np.matmul(np.ones((1, keys), scores.dtype), scores), 1)
    scores /= total
    return largest, total


def scale_of(q: Array, scale: float | None) -> float:
    """Return the factor of the dot products."""
    return 1 / math.sqrt(max(q.shape[-1], 1)) if scale is None else float(scale)  # a NumPy scalar would promote


def part(x: NDArray[Any], where: Index) -> NDArray[Any]:
    """View a part of an array that is broadcast: its axes of length 1 stay."""
    return x[tuple([_ALL if side == 1 else along for along, side in zip(where, x.shape, strict=True)])]


def _limits(allowed: NDArray[np.bool_], dtype: DTypeLike) -> NDArray[Any]:
    return np.ascontiguousarray(np.where(allowed, math.inf, -math.inf), dtype)


@functools.lru_cache
def _diagonal(dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return limits of scores. Row r, column c: that of a key r - c + MOST places behind the query's own."""
    limits = _limits(np.tri(2 * MOST, MOST, -MOST, bool).T, dtype)
    limits.flags.writeable = False  # it serves all calls
    return limits


def _forbid(scores: NDArray[Any], limits: NDArray[Any]) -> None:
    """Lower scores to minus infinity in place. Unlike a sum with it, fmin does so also to infinite scores and NaN."""
    np.fmin(scores, limits, out=scores)


def _cut(shape: tuple[int, ...], count: int) -> Iterator[Index]:
    """Walk all entries of some axes, at most `count` at a time: of as many last axes as fit, all; of others, one."""
    inner = 1
    for axis in reversed(range(len(shape))):
        if inner * shape[axis] > count:
            step, rest = count // inner, (_ALL,) * (len(shape) - axis - 1)
            for outer in np.ndindex(shape[:axis]):
                for start in range(0, shape[axis], step):
                    yield (*[slice(i, i + 1) for i in outer], slice(start, start + step), *rest)
            return
        inner *= shape[axis]
    yield (_ALL,) * len(shape)
