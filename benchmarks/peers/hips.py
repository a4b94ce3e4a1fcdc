"""HIPS autograd."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import autograd.numpy as anp
import numpy as np
from autograd import make_vjp, value_and_grad
from autograd.scipy.special import logsumexp

from ..opcases import tasks
from ..sizes import Size
from .transformer import Dialect, mean_loss, norm, tanh_gelu, trained

__all__ = ["functions", "ops", "step"]


def _softmax(x: Any) -> Any:
    return anp.exp(x - logsumexp(x, axis=-1, keepdims=True))


def _cross_entropy(logits: Any, targets: Any) -> Any:
    scores = logits[np.arange(len(targets)), targets]
    return anp.mean(logsumexp(logits, axis=-1) - scores)


DIALECT = Dialect(anp, _softmax, lambda x: tanh_gelu(anp, x), _cross_entropy)


def step(size: Size, threads: int) -> dict[str, Callable[[], float]]:
    """Prepare a training step; autograd has no optimiser for dictionaries, so it is the NumPy one."""
    loss_and_gradient = value_and_grad(lambda weights, ids, targets: mean_loss(DIALECT, weights, ids, targets, size))

    def gradient(weights: dict[str, Any], ids: Any, targets: Any) -> tuple[float, dict[str, Any]]:
        loss, found = loss_and_gradient(weights, ids, targets)
        return float(loss), found

    return {"step": trained(size, gradient)}


def ops(threads: int) -> dict[str, Callable[[], None]]:
    """Prepare the ops that autograd has, or its users write in a line, forward and backward."""
    return tasks(functions(), _bind)


def functions() -> dict[str, Callable[..., Any]]:
    """Return the ops by name."""
    names = ("add", "subtract", "multiply", "divide", "exp", "log", "tanh", "matmul")
    found: dict[str, Callable[..., Any]] = {name: getattr(anp, name) for name in names}
    found |= {
        "softmax": _softmax,
        "log_softmax": lambda x: x - logsumexp(x, axis=-1, keepdims=True),
        "cross_entropy": lambda x, ids: _cross_entropy(anp.reshape(x, (-1, x.shape[-1])), ids.reshape(-1)),
        "layer_norm": partial(norm, anp),
        "gelu": DIALECT.gelu,
        "relu": partial(anp.maximum, 0),
        "embedding": lambda table, ids: table[ids],
        "linear": anp.matmul,
        "sum": partial(anp.sum, axis=-1),
        "max": partial(anp.max, axis=-1),
    }
    return found


def _bind(function: Callable[..., Any], floats: list[Any]) -> tuple[Callable[[], Any], Callable[[], Any]]:
    record = make_vjp(lambda arguments: function(*arguments))
    pull, out = record(tuple(floats))
    cotangent = anp.ones_like(out)
    return lambda: record(tuple(floats)), lambda: pull(cotangent)
