"""The ops of PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional as F

from ..opcases import tasks

__all__ = ["functions", "ops"]


def ops(threads: int) -> dict[str, Callable[[], None]]:
    """Prepare the ops, forward and backward."""
    torch.set_num_threads(threads)
    return tasks(functions(), _bind)


def functions() -> dict[str, Callable[..., Any]]:
    """Return the ops by name."""
    found: dict[str, Callable[..., Any]] = {
        name: getattr(torch, name) for name in ("add", "subtract", "multiply", "divide", "exp", "log", "tanh", "matmul")
    }
    found |= {
        "softmax": lambda x: F.softmax(x, -1),
        "log_softmax": lambda x: F.log_softmax(x, -1),
        "cross_entropy": lambda x, ids: F.cross_entropy(x.view(-1, x.shape[-1]), torch.from_numpy(ids).view(-1)),
        "layer_norm": lambda x, gain: F.layer_norm(x, gain.shape, gain),
        "rms_norm": lambda x, gain: F.rms_norm(x, gain.shape, gain, 1e-5),
        "gelu": lambda x: F.gelu(x, approximate="tanh"),
        "silu": F.silu,
        "swiglu": lambda u, v: F.silu(u) * v,
        "relu": F.relu,
        "rope": _rope(32),
        "scaled_dot_product_attention": lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
        "embedding": lambda table, ids: F.embedding(torch.from_numpy(ids), table),
        "linear": lambda x, weight: F.linear(x, weight.T),
        "dropout": lambda x: F.dropout(x, 0.1),
        "sum": lambda x: x.sum(-1),
        "max": lambda x: x.amax(-1),
    }
    return found


def _bind(function: Callable[..., Any], floats: list[NDArray[Any]]) -> tuple[Callable[[], Any], Callable[[], Any]]:
    inputs = [torch.from_numpy(array).requires_grad_() for array in floats]
    out = function(*inputs)
    cotangent = torch.ones_like(out)
    return lambda: function(*inputs), lambda: torch.autograd.grad(out, inputs, cotangent, retain_graph=True)


def _rope(width: int) -> Callable[[Any], Any]:
    """Rotate adjacent pairs; PyTorch has no such op, and this is how its users write it, angles computed once."""
    angles = np.outer(np.arange(64), 10_000.0 ** (-np.arange(0, width, 2) / width))
    turns = torch.from_numpy(np.exp(1j * angles).astype(np.complex64))

    def rope(x: Any) -> Any:
        pairs = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2))
        return torch.view_as_real(pairs * turns).reshape(x.shape)

    return rope
