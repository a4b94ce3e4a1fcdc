"""The pieces of a hand-written training step: each forward with the backward that belongs to it, in NumPy alone.

Rows [N, d] are all positions of all sequences, N = B T. A backward may overwrite the cotangent it is given and what its
forward has kept: both are at their last use. The dtype is that of the arrays.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["cross_entropy", "embedding_back", "gelu", "layer_norm", "layer_norm_back"]

Array = NDArray[Any]

PIECE = 1 << 18
"""Bytes of an array in one piece of an elementwise chain: several pieces fit in a core's second-level cache."""
NORM_EPS = 1e-5
SCALE, CUBIC = math.sqrt(2 / math.pi), 0.044715


# --- layer norm: y = gain xhat, xhat = (x - mean) rstd ---


def layer_norm(x: Array, gain: Array) -> tuple[Array, Array, Array]:
    """Return y, and for the backward xhat and rstd."""
    ones = np.full((x.shape[1], 1), 1 / x.shape[1], x.dtype)  # a product with ones is a faster sum over a short axis
    xhat = x - x @ ones
    y = xhat * xhat
    rstd = y @ ones
    rstd += NORM_EPS
    np.sqrt(rstd, out=rstd)
    np.divide(1, rstd, out=rstd)
    xhat *= rstd
    np.multiply(xhat, gain, out=y)
    return y, xhat, rstd


def layer_norm_back(g: Array, gain: Array, xhat: Array, rstd: Array) -> tuple[Array, Array]:
    """Return dx = rstd (h - mean(h) - xhat mean(h xhat)) with h = gain g, and dgain."""
    column = (gain / len(gain))[:, None]
    product = g * xhat
    dgain = np.ones(len(g), g.dtype) @ product
    xhat *= product @ column
    xhat += g @ column
    g *= gain
    g -= xhat
    g *= rstd
    return g, dgain


# --- GELU: y = x phi, phi = (1 + tanh(c (x + a x^3))) / 2 = 1 / (1 + exp(-2 c (x + a x^3))) ---


def gelu(x: Array) -> tuple[Array, Array]:
    """Return y and dy/dx = phi + x phi', both while a piece of x is in the cache: backward is one product."""
    y, slope = np.empty_like(x), np.empty_like(x)
    rows = max(1, PIECE // (x.shape[1] * x.itemsize))
    room = np.empty_like(x[:rows])
    with np.errstate(over="ignore"):  # the reciprocal of an infinite exponential is the limit, 0
        for start in range(0, len(x), rows):
            x_, phi, slope_ = (array[start : start + rows] for array in (x, y, slope))
            square = np.multiply(x_, x_, out=room[: len(x_)])
            np.multiply(square, -2 * SCALE * CUBIC, out=phi)
            phi -= 2 * SCALE
            phi *= x_
            np.exp(phi, out=phi)
            phi += 1
            np.reciprocal(phi, out=phi)
            square *= 6 * SCALE * CUBIC  # phi' = phi (1 - phi) 2 c (1 + 3 a x^2)
            square += 2 * SCALE
            square *= x_
            np.subtract(1, phi, out=slope_)
            slope_ *= square
            slope_ += 1
            slope_ *= phi
            phi *= x_
    return y, slope


# --- the ends: loss and embedding ---


def cross_entropy(logits: Array, targets: Array, count: int) -> tuple[float, Array]:
    """Return the sum of the rows' losses over `count`, and its gradient (softmax - one-hot) / count, in place."""
    rows = np.arange(len(logits))
    logits -= logits.max(axis=1, keepdims=True)
    scores = logits[rows, targets]
    np.exp(logits, out=logits)
    totals = logits @ np.ones(logits.shape[1], logits.dtype)
    loss = float((np.log(totals) - scores).sum()) / count
    logits *= (1 / (totals * count))[:, None]
    logits[rows, targets] -= 1 / count
    return loss, logits


def embedding_back(g: Array, ids: Array, table: Array) -> None:
    """Add the rows of g to the rows of `table` that `ids` names: sorting makes one sum of each run of equal ids."""
    order = np.argsort(ids, kind="stable")
    ranked = ids[order]
    starts = np.flatnonzero(np.concatenate(([True], ranked[1:] != ranked[:-1])))
    table[ranked[starts]] += np.add.reduceat(g[order], starts, axis=0)
