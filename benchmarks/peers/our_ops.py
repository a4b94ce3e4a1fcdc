"""The ops of `autodiff`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

import autodiff as ad
import autodiff.functional as F
from gpt.machine import keep_freed_memory

from ..opcases import tasks

__all__ = ["functions", "ops"]

NAMES = [
    "softmax", "log_softmax", "cross_entropy", "layer_norm", "rms_norm", "gelu", "silu", "swiglu", "relu", "rope",
    "embedding", "linear", "add", "subtract", "multiply", "divide", "exp", "log", "tanh", "matmul",
]  # fmt: skip


def ops(threads: int) -> dict[str, Callable[[], None]]:
    """Prepare the ops, forward and backward."""
    keep_freed_memory()
    return tasks(functions(), _bind)


def functions() -> dict[str, Callable[..., Any]]:
    """Return the ops by name."""
    found: dict[str, Callable[..., Any]] = {name: getattr(F, name) for name in NAMES}
    found |= {
        "sum": partial(F.sum, axis=-1),
        "max": partial(F.max, axis=-1),
        "scaled_dot_product_attention": partial(F.scaled_dot_product_attention, causal=True),
        "dropout": partial(F.dropout, p=0.1, rng=np.random.default_rng(0)),
    }
    return found


def _bind(function: Callable[..., Any], floats: list[NDArray[Any]]) -> tuple[Callable[[], Any], Callable[[], Any]]:
    inputs = [ad.Tensor(array, requires_grad=True) for array in floats]
    out = function(*inputs)
    cotangent = np.ones_like(out.data)
    return lambda: function(*inputs), lambda: ad.gradients(out, inputs, cotangent)
