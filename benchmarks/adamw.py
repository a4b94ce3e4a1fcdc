"""Clipping and AdamW on one flat array, in NumPy: the optimiser of every NumPy step that has none of its own."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .sizes import BETAS, CLIP, DECAY, EPS, RATE

__all__ = ["AdamW", "flat_views"]

BLOCK = 1 << 16
"""Elements updated at a time, so that the five arrays of an update stay in the second-level cache."""


def flat_views(shapes: Mapping[str, tuple[int, ...]], dtype: Any) -> tuple[NDArray[Any], dict[str, NDArray[Any]]]:
    """Return a flat array of zeros, and views of its parts in the given shapes."""
    bounds = np.cumsum([0, *(math.prod(shape) for shape in shapes.values())]).tolist()
    flat = np.zeros(bounds[-1], dtype)
    parts = zip(shapes.items(), bounds[:-1], bounds[1:], strict=True)
    return flat, {name: flat[start:stop].reshape(shape) for (name, shape), start, stop in parts}


class AdamW:
    """Decoupled weight decay after clipping by the global norm (Loshchilov and Hutter, 2019, algorithm 2).

    Parameters
    ----------
    values : ndarray [n]
        All parameters; updated in place.
    """

    def __init__(self, values: NDArray[Any]) -> None:
        self.values = values
        self.mean, self.square = np.zeros_like(values), np.zeros_like(values)
        self.scratch = np.empty_like(values[:BLOCK])
        self.count = 0

    def step(self, gradient: NDArray[Any]) -> None:
        """Take one step along a gradient [n], which clipping changes in place."""
        norm = math.sqrt(float(gradient @ gradient))
        if norm > CLIP:
            gradient *= CLIP / (norm + 1e-6)
        self.count += 1
        for start in range(0, len(gradient), BLOCK):
            part = slice(start, start + BLOCK)
            self._update(self.values[part], gradient[part], self.mean[part], self.square[part])

    def _update(self, w: NDArray[Any], g: NDArray[Any], m: NDArray[Any], v: NDArray[Any]) -> None:
        scratch = self.scratch[: len(w)]
        w *= 1 - RATE * DECAY
        np.subtract(g, m, out=scratch)
        scratch *= 1 - BETAS[0]
        m += scratch
        np.multiply(g, g, out=scratch)
        scratch *= 1 - BETAS[1]
        v *= BETAS[1]
        v += scratch
        np.sqrt(v, out=scratch)
        scratch *= 1 / math.sqrt(1 - BETAS[1] ** self.count)
        scratch += EPS
        np.divide(m, scratch, out=scratch)
        scratch *= RATE / (1 - BETAS[0] ** self.count)
        w -= scratch
