"""Shapes and numbers that the samples of many ops share."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["PAIRS", "REDUCTIONS", "SHAPES", "away", "distinct", "pairs"]

SHAPES = ((), (1,), (4,), (2, 3), (0, 3))

PAIRS = (
    ((), ()), ((1,), (1,)), ((2, 3), (2, 3)), ((3, 1), (1, 4)), ((3, 1), (3, 3)), ((3,), (3, 3)), ((1, 3), (3, 1)),
    ((), (2, 3)), ((2, 3), ()), ((2, 3), (1,)), ((0, 3), (1, 3)), ((1, 3), (0, 3)),
)  # fmt: skip
"""Shapes that broadcast. A sum over the wrong axis keeps a legal shape on squares only; a missing one, on no others."""

REDUCTIONS: tuple[tuple[tuple[int, ...], dict[str, Any]], ...] = (
    ((), {}),
    ((), {"keepdims": True}),
    ((1,), {"axis": 0}),
    ((2, 3), {}),
    ((2, 3), {"keepdims": True}),
    ((3, 3), {"axis": 0}),
    ((3, 3), {"axis": -1}),
    ((3, 3), {"axis": 1, "keepdims": True}),
    ((2, 3, 4), {"axis": (0, 2)}),
    ((3, 3, 3), {"axis": (-1, 0)}),
    ((2, 3, 4), {"axis": (1, -1), "keepdims": True}),
    ((2, 3), {"axis": ()}),
    ((0, 3), {"axis": 1}),
    ((0, 3), {"axis": -1, "keepdims": True}),
)
"""Shapes with settings, none of which reduces an empty axis."""


def away(rng: np.random.Generator, shape: tuple[int, ...], low: float = 0.3, high: float = 2.0) -> NDArray[Any]:
    """Numbers of both signs, at least `low` away from 0."""
    return np.asarray(rng.uniform(low, high, shape) * np.where(rng.random(shape) < 0.5, -1.0, 1.0))


def distinct(rng: np.random.Generator, *shapes: tuple[int, ...]) -> tuple[NDArray[Any], ...]:
    """Arrays whose numbers all differ, by at least 0.4, and none of which is 0."""
    ends = np.cumsum([int(np.prod(shape)) for shape in shapes])
    numbers = (rng.permutation(int(ends[-1])) - ends[-1] // 2 + 0.25) * 0.4
    return tuple(part.reshape(shape) for part, shape in zip(np.split(numbers, ends[:-1]), shapes, strict=True))


def pairs(rng: np.random.Generator, low: float = 0.3) -> list[tuple[NDArray[Any], NDArray[Any]]]:
    """Two arrays away from 0 for each of the shapes that broadcast."""
    return [(away(rng, a, low), away(rng, b, low)) for a, b in PAIRS]
