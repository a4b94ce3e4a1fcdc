"""What the machine can do: a large product of matrices, by whose rate a step is judged."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

__all__ = ["FLOPS", "GEMM", "gemm"]

GEMM = "gemm"
SIDE = 1024
FLOPS = 2 * SIDE**3
"""Floating-point operations of the product, an addition and a product as two."""


def gemm() -> dict[str, Callable[[], None]]:
    """Prepare a product of two square float32 matrices by NumPy's BLAS."""
    a, b = np.random.default_rng(0).normal(size=(2, SIDE, SIDE)).astype(np.float32)
    out = np.empty_like(a)

    def product() -> None:
        np.matmul(a, b, out=out)

    return {GEMM: product}
