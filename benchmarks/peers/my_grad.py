"""MyGrad."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mygrad as mg
from mygrad.nnet import softmax, softmax_crossentropy

from ..sizes import Size
from .transformer import Dialect, mean_loss, tanh_gelu, trained

__all__ = ["step"]

DIALECT = Dialect(mg, lambda x: softmax(x, axis=-1), lambda x: tanh_gelu(mg, x), softmax_crossentropy)


def step(size: Size, threads: int) -> dict[str, Callable[[], float]]:
    """Prepare a training step; MyGrad has no optimiser, so it is the NumPy one."""

    def gradient(weights: dict[str, Any], ids: Any, targets: Any) -> tuple[float, dict[str, Any]]:
        loss = mean_loss(DIALECT, weights, ids, targets, size)
        loss.backward()
        return float(loss.item()), {name: weight.grad for name, weight in weights.items()}

    return {"step": trained(size, gradient, lambda array: mg.tensor(array, copy=False))}
