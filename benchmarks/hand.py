"""A training step written by hand in NumPy, without an engine: the least that an engine on NumPy could cost.

The kernels are those that our ops use. What is not there is recording, dispatch, checks, and any array that a careful
author can do without.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpt.machine import keep_freed_memory

from . import kernels as K
from .adamw import AdamW, flat_views
from .hand_attention import Heads, attention, attention_back
from .sizes import Size, Weights, batch, initial_weights, of_block

__all__ = ["loss_and_gradient", "step"]

Array = NDArray[Any]


def step(size: Size, threads: int) -> dict[str, Callable[[], float]]:
    """Prepare the step. The batch is split on threads, each with gradients of its own, added up in order."""
    keep_freed_memory()
    weights = initial_weights(size)
    shapes = {name: value.shape for name, value in weights.items()}
    values, parameters = flat_views(shapes, np.float32)
    for name, value in weights.items():
        parameters[name][...] = value
    shards = min(threads, size.batch)
    gradients = [flat_views(shapes, np.float32) for _ in range(shards)]
    parts = list(zip(*(np.array_split(array, shards) for array in batch(size)), strict=True))
    pool, optimizer = ThreadPoolExecutor(shards), AdamW(values)

    def share(number: int) -> float:
        ids, targets = parts[number]
        return loss_and_gradient(parameters, gradients[number][1], ids, targets, size)

    def run() -> float:
        loss = share(0) if shards == 1 else sum(pool.map(share, range(shards)))
        total = gradients[0][0]
        for other, _ in gradients[1:]:
            total += other
        optimizer.step(total)
        return loss

    return {"step": run}


def loss_and_gradient(weights: Weights, gradient: Mapping[str, Array], ids: Array, targets: Array, size: Size) -> float:
    """Write the gradient of these sequences' part of the mean loss over the whole batch; return that part."""
    rows, length = ids.shape
    heads = Heads(rows, length, size.heads, size.head_width)
    table = weights["embedding.weight"]
    x = (table[ids] + weights["positions.weight"][:length]).reshape(rows * length, size.width)
    kept = [_block(of_block(weights, layer), x, heads) for layer in range(size.layers)]
    y, xhat, rstd = K.layer_norm(x, weights["final_norm.gamma"])
    loss, dlogits = K.cross_entropy(y @ table.T, targets.reshape(-1), size.batch * length)

    dtable, dpositions = gradient["embedding.weight"], gradient["positions.weight"]
    np.matmul(dlogits.T, y, out=dtable)
    g, gradient["final_norm.gamma"][...] = K.layer_norm_back(dlogits @ table, weights["final_norm.gamma"], xhat, rstd)
    for layer in reversed(range(size.layers)):
        _block_back(of_block(weights, layer), of_block(gradient, layer), g, kept.pop(), heads)
    K.embedding_back(g, ids.reshape(-1), dtable)
    np.sum(g.reshape(rows, length, -1), axis=0, out=dpositions[:length])
    return loss


def _block(w: Weights, x: Array, heads: Heads) -> tuple[Any, ...]:
    """Add one block to the residual stream x [N, d], in place; return what its backward needs."""
    norm1 = K.layer_norm(x, w["norm1.gamma"])
    qkv = norm1[0] @ w["attn.qkv.weight"]
    attended = attention(qkv, heads)
    x += attended[0] @ w["attn.proj.weight"]
    norm2 = K.layer_norm(x, w["norm2.gamma"])
    hidden = K.gelu(norm2[0] @ w["mlp.up.weight"])
    x += hidden[0] @ w["mlp.down.weight"]
    return norm1, qkv, attended, norm2, hidden


def _block_back(w: Weights, dw: Weights, g: Array, kept: tuple[Any, ...], heads: Heads) -> None:
    """Take the cotangent g [N, d] of the residual stream back through one block, in place; write its gradients."""
    (y1, xhat1, rstd1), qkv, (mixed, statistics), (y2, xhat2, rstd2), (hidden, slope) = kept
    np.matmul(hidden.T, g, out=dw["mlp.down.weight"])
    slope *= g @ w["mlp.down.weight"].T
    np.matmul(y2.T, slope, out=dw["mlp.up.weight"])
    back, dw["norm2.gamma"][...] = K.layer_norm_back(slope @ w["mlp.up.weight"].T, w["norm2.gamma"], xhat2, rstd2)
    g += back
    np.matmul(mixed.T, g, out=dw["attn.proj.weight"])
    dqkv = attention_back(g @ w["attn.proj.weight"].T, qkv, mixed, statistics, heads)
    np.matmul(y1.T, dqkv, out=dw["attn.qkv.weight"])
    back, dw["norm1.gamma"][...] = K.layer_norm_back(dqkv @ w["attn.qkv.weight"].T, w["norm1.gamma"], xhat1, rstd1)
    g += back
