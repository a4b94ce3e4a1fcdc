"""micrograd's world: a long chain of scalars, and its demo, a small network that learns to tell two moons apart."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["ALPHA", "CHAIN", "FACTOR", "START", "STEPS", "TERM", "initial_layers", "learning_rate", "moons"]

CHAIN, START, FACTOR, TERM = 2_000, 0.5, 0.9995, 0.0005
"""Of the chain: links ``y <- y * w + c``, each a multiplication and an addition, and its numbers y, w and c."""

POINTS, NOISE = 100, 0.1
STEPS, ALPHA = 100, 1e-4
"""Steps of gradient descent, and the factor of the sum of squares of all parameters in the loss."""
SIZES = (2, 16, 16, 1)


def moons() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return points [100, 2] on two interleaved half circles, and their labels, -1 and 1."""
    rng = np.random.default_rng(0)
    angles = np.linspace(0, math.pi, POINTS // 2)
    upper = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    lower = np.stack([1 - np.cos(angles), 0.5 - np.sin(angles)], axis=1)
    points = np.concatenate([upper, lower]) + rng.normal(0, NOISE, (POINTS, 2))
    return points, np.repeat([-1.0, 1.0], POINTS // 2)


def initial_layers() -> list[tuple[NDArray[Any], NDArray[Any]]]:
    """Return weights [in, out], uniform between -1 and 1, and biases [out], zero, of each layer."""
    rng = np.random.default_rng(1)
    return [(rng.uniform(-1, 1, (a, b)), np.zeros(b)) for a, b in itertools.pairwise(SIZES)]


def learning_rate(step: int) -> float:
    """Return the rate of a step, which falls from 1 to 0.1."""
    return 1.0 - 0.9 * step / STEPS
