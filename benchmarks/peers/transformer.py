"""The model once, for every library whose arrays follow NumPy; and a training step for those without an optimiser.

What such a library offers beyond NumPy's functions, its users use: its own softmax, GELU and cross-entropy are passed
in, where it has them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..adamw import AdamW, flat_views
from ..sizes import Size, batch, initial_weights, of_block

__all__ = ["Dialect", "mean_loss", "norm", "tanh_gelu", "trained"]

FORBIDDEN = np.float32(-1e9)
"""Added to a score that causality forbids: large enough that its exponential is zero, and no NaN comes of it."""


@dataclass(frozen=True)
class Dialect:
    """How a library says what the model needs.

    Attributes
    ----------
    numpy : module
        Its functions under NumPy's names.
    softmax : callable
        Of the last axis.
    gelu : callable
        The tanh form.
    cross_entropy : callable
        Mean loss from logits [N, V] and targets [N].
    """

    numpy: Any
    softmax: Callable[[Any], Any]
    gelu: Callable[[Any], Any]
    cross_entropy: Callable[[Any, Any], Any]


def tanh_gelu(xp: Any, x: Any) -> Any:
    """GELU in primitives. The numbers are float32 so that nothing is promoted."""
    scale, cubic, half, one = map(np.float32, (math.sqrt(2 / math.pi), 0.044715, 0.5, 1))
    return half * x * (one + xp.tanh(scale * (x + cubic * x * x * x)))


def mean_loss(dialect: Dialect, weights: Mapping[str, Any], ids: Any, targets: Any, size: Size) -> Any:
    """Return the mean loss of the model."""
    xp = dialect.numpy
    rows = (size.batch * size.length, size.width)
    forbidden = np.triu(np.full((size.length, size.length), FORBIDDEN), 1)
    x = xp.reshape(weights["embedding.weight"][ids] + weights["positions.weight"], rows)
    for layer in range(size.layers):
        w = of_block(weights, layer)
        qkv = xp.matmul(norm(xp, x, w["norm1.gamma"]), w["attn.qkv.weight"])
        qkv = xp.reshape(qkv, (size.batch, size.length, 3, size.heads, size.head_width))
        q, k, v = (xp.transpose(qkv[:, :, part], (0, 2, 1, 3)) for part in range(3))
        scores = xp.matmul(q, xp.swapaxes(k, -1, -2)) * np.float32(1 / math.sqrt(size.head_width)) + forbidden
        mixed = xp.matmul(dialect.softmax(scores), v)
        mixed = xp.reshape(xp.transpose(mixed, (0, 2, 1, 3)), rows)
        x = x + xp.matmul(mixed, w["attn.proj.weight"])
        hidden = dialect.gelu(xp.matmul(norm(xp, x, w["norm2.gamma"]), w["mlp.up.weight"]))
        x = x + xp.matmul(hidden, w["mlp.down.weight"])
    x = norm(xp, x, weights["final_norm.gamma"])
    return dialect.cross_entropy(xp.matmul(x, xp.transpose(weights["embedding.weight"])), targets.reshape(-1))


def norm(xp: Any, x: Any, gain: Any) -> Any:
    """Layer norm in primitives, without a bias."""
    centred = x - xp.mean(x, axis=-1, keepdims=True)
    variance = xp.mean(centred * centred, axis=-1, keepdims=True)
    return centred / xp.sqrt(variance + np.float32(1e-5)) * gain


Gradient = Callable[[dict[str, Any], Any, Any], tuple[float, Mapping[str, Any]]]


def trained(size: Size, gradient: Gradient, wrap: Callable[[Any], Any] = lambda array: array) -> Callable[[], float]:
    """Return a training step, its gradient from the library and its optimiser a flat one in NumPy.

    Parameters
    ----------
    size : Size
    gradient : callable
        From parameters, ids and targets to the loss and the gradient of each parameter.
    wrap : callable
        Makes a parameter of an array, sharing its memory.
    """
    weights = initial_weights(size)
    shapes = {name: value.shape for name, value in weights.items()}
    values, parts = flat_views(shapes, np.float32)
    total, shares = flat_views(shapes, np.float32)
    for name, value in weights.items():
        parts[name][...] = value
    parameters = {name: wrap(part) for name, part in parts.items()}
    optimizer = AdamW(values)
    ids, targets = batch(size)

    def run() -> float:
        loss, found = gradient(parameters, ids, targets)
        for name, share in shares.items():
            share[...] = found[name]
        optimizer.step(total)
        return loss

    return run
