"""JAX, each step compiled as one function whose parameters and moments are given away to it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from ..opcases import tasks
from ..sizes import BETAS, CLIP, DECAY, EPS, RATE, Size, batch, initial_weights
from .transformer import Dialect, mean_loss, norm

__all__ = ["functions", "ops", "step"]


def _cross_entropy(logits: Any, targets: Any) -> Any:
    return -jnp.take_along_axis(jax.nn.log_softmax(logits), targets[:, None], axis=-1).mean()


DIALECT = Dialect(jnp, jax.nn.softmax, partial(jax.nn.gelu, approximate=True), _cross_entropy)


def step(size: Size, threads: int) -> dict[str, Callable[[], float]]:
    """Prepare a training step; its threads are those of the environment variable NPROC."""
    weights = {name: jnp.asarray(value) for name, value in initial_weights(size).items()}
    state = (weights, jax.tree.map(jnp.zeros_like, weights), jax.tree.map(jnp.zeros_like, weights), jnp.asarray(0.0))
    ids, targets = map(jnp.asarray, batch(size))
    update = jax.jit(partial(_update, size), donate_argnums=0)

    def run() -> float:
        nonlocal state
        loss, state = update(state, ids, targets)
        return float(jax.block_until_ready((loss, state))[0])

    return {"step": run}


def _update(size: Size, state: Any, ids: Any, targets: Any) -> Any:
    """Forward, backward, clip, AdamW."""
    weights, mean, square, count = state
    loss, g = jax.value_and_grad(lambda w: mean_loss(DIALECT, w, ids, targets, size))(weights)
    norm = jnp.sqrt(sum(jnp.vdot(leaf, leaf) for leaf in jax.tree.leaves(g)))
    g = jax.tree.map(lambda leaf: leaf * jnp.minimum(1, CLIP / (norm + 1e-6)), g)
    count = count + 1
    mean = jax.tree.map(lambda m, leaf: BETAS[0] * m + (1 - BETAS[0]) * leaf, mean, g)
    square = jax.tree.map(lambda v, leaf: BETAS[1] * v + (1 - BETAS[1]) * leaf * leaf, square, g)

    def moved(w: Any, m: Any, v: Any) -> Any:
        unbiased = m / (1 - BETAS[0] ** count), v / (1 - BETAS[1] ** count)
        return w * (1 - RATE * DECAY) - RATE * unbiased[0] / (jnp.sqrt(unbiased[1]) + EPS)

    return loss, (jax.tree.map(moved, weights, mean, square), mean, square, count)


def ops(threads: int) -> dict[str, Callable[[], None]]:
    """Prepare the ops, forward and backward, each compiled by itself."""
    return tasks(functions(), _bind)


def functions() -> dict[str, Callable[..., Any]]:
    """Return the ops by name."""
    names = ("add", "subtract", "multiply", "divide", "exp", "log", "tanh", "matmul")
    found: dict[str, Callable[..., Any]] = {name: getattr(jnp, name) for name in names}
    found |= {
        "softmax": jax.nn.softmax,
        "log_softmax": jax.nn.log_softmax,
        "cross_entropy": lambda x, ids: _cross_entropy(x.reshape(-1, x.shape[-1]), ids.reshape(-1)),
        "layer_norm": partial(norm, jnp),
        "gelu": DIALECT.gelu,
        "silu": jax.nn.silu,
        "swiglu": lambda u, v: jax.nn.silu(u) * v,
        "relu": jax.nn.relu,
        "embedding": lambda table, ids: table[ids],
        "linear": jnp.matmul,
        "sum": partial(jnp.sum, axis=-1),
        "max": partial(jnp.max, axis=-1),
    }
    return found


def _bind(function: Callable[..., Any], floats: list[Any]) -> tuple[Callable[[], Any], Callable[[], Any]]:
    inputs = [jnp.asarray(array) for array in floats]
    record = jax.jit(lambda *arguments: jax.vjp(function, *arguments))
    pull = jax.jit(lambda recorded, cotangent: recorded(cotangent))
    out, recorded = record(*inputs)
    cotangent = jnp.ones_like(out)
    return lambda: jax.block_until_ready(record(*inputs)), lambda: jax.block_until_ready(pull(recorded, cotangent))
