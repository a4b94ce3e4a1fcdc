"""What the operations of linear algebra share: transposes, symmetric matrices, named errors, and samples."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..node import Array

__all__ = ["ASYMMETRY", "named", "regular", "symmetric", "transposed", "with_gaps"]

ASYMMETRY = 0.1
"""Mirrored elements that differ by more, relative to the largest element, are no rounding errors."""


def transposed(x: Array) -> Array:
    """Every matrix transposed: the last two axes swapped."""
    return np.swapaxes(x, -1, -2)


@contextlib.contextmanager
def named(name: str, hint: str = "") -> Iterator[None]:
    """Let LAPACK's error say in which function it happened, and what to do."""
    try:
        yield
    except np.linalg.LinAlgError as error:
        raise np.linalg.LinAlgError(f"{name}: {error}{hint}") from None


def symmetric(name: str, a: NDArray[Any]) -> NDArray[Any]:
    """Return (A + A^T)/2 of square matrices; refuse those that are far from symmetric, and leave other shapes alone."""
    if np.ndim(a) < 2 or a.shape[-1] != a.shape[-2]:
        return a  # NumPy's own error says what is wrong
    if a.dtype.kind != "f":  # differences of booleans and of unsigned numbers are something else
        a = a.astype(np.float64)
    flipped = np.swapaxes(a, -1, -2)
    apart = np.max(np.abs(a - flipped), axis=(-1, -2), initial=0.0)
    if np.any(apart > ASYMMETRY * np.max(np.abs(a), axis=(-1, -2), initial=0.0)):
        raise ValueError(
            f"{name} takes symmetric matrices, but mirrored elements of a differ by up to {np.max(apart):.3g}. NumPy "
            f"would read one triangle only; to do the same write np.tril(a) + np.swapaxes(np.tril(a, -1), -1, -2), or "
            f"average with (a + np.swapaxes(a, -1, -2)) / 2"
        )
    return 0.5 * a + 0.5 * flipped


# --- samples ---


def regular(rng: np.random.Generator, *shape: int) -> NDArray[Any]:
    """Square matrices far from singular, and far from symmetric."""
    return rng.normal(size=shape) * 0.5 + 2.0 * np.eye(shape[-1])


def with_gaps(rng: np.random.Generator, *shape: int, symmetric: bool = False) -> NDArray[Any]:
    """Matrices whose singular values are about 1, 2, 3, ...; their eigenvalues too, if they shall be symmetric."""
    *batch, rows, columns = shape
    count = min(rows, columns)
    out = np.empty(shape)
    for i in np.ndindex(*batch):
        left = np.linalg.qr(rng.normal(size=(rows, rows))).Q
        right = left if symmetric else np.linalg.qr(rng.normal(size=(columns, columns))).Q
        sizes = np.arange(1.0, count + 1) * rng.uniform(0.9, 1.1)
        out[i] = left[:, :count] * sizes @ right[:, :count].T
    return out if math.prod(shape) else np.zeros(shape)
