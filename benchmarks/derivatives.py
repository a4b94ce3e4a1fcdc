"""Do the transforms agree with JAX's? ``python -m benchmarks derivatives``, where JAX is installed.

Functions in which the argument feeds every input of a fused op, differentiated three times, and the transforms of
NumPy-style functions, in float64. Prints the largest difference, relative to the largest element; fails above 1e-9.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import autodiff as ad
import autodiff.functional as F

__all__ = ["main"]

LIMIT = 1e-9


def ours() -> dict[str, Callable[[Any], Any]]:
    """The functions, on our ops."""

    def attend(q: Any, k: Any, v: Any) -> Any:
        return F.scaled_dot_product_attention(q[None, None], k[None, None], v[None, None], causal=True)[0, 0]

    return {
        "x * layer_norm(x, 2x, x*x)": lambda x: x * F.layer_norm(x, (2 * x)[0], (x * x)[1]),
        "x * rms_norm(x, 2x)": lambda x: x * F.rms_norm(x, (2 * x)[0]),
        "x * softmax(x*x)": lambda x: x * F.softmax(x * x),
        "x * log_softmax(x*x)": lambda x: x * F.log_softmax(x * x),
        "x * gelu(x*x)": lambda x: x * F.gelu(x * x),
        "swiglu(x, x*x)": lambda x: F.swiglu(x, x * x),
        "attention(x, 2x, x*x)": lambda x: attend(x, 2 * x, x * x),
        "x * cross_entropy(x*x)": lambda x: x * F.cross_entropy(x * x, np.array([0, 3, 1])),
        "exp(tanh(x)) / (2 + sin(x x^T x))": lambda x: np.exp(np.tanh(x)) / (2 + np.sin(x @ x.T @ x)),
    }


def theirs(jax: Any) -> dict[str, Callable[[Any], Any]]:
    """The same functions, in JAX's primitives."""
    jnp = jax.numpy

    def layer_norm(x: Any, gamma: Any, beta: Any) -> Any:
        centred = x - x.mean(-1, keepdims=True)
        return centred / jnp.sqrt((centred * centred).mean(-1, keepdims=True) + 1e-5) * gamma + beta

    def attend(q: Any, k: Any, v: Any) -> Any:
        scores = q @ k.T / np.sqrt(q.shape[-1])
        return jax.nn.softmax(jnp.where(np.tri(len(scores), dtype=bool), scores, -jnp.inf), -1) @ v

    def cross_entropy(x: Any) -> Any:
        return -jax.nn.log_softmax(x, -1)[np.arange(3), np.array([0, 3, 1])].mean()

    return {
        "x * layer_norm(x, 2x, x*x)": lambda x: x * layer_norm(x, (2 * x)[0], (x * x)[1]),
        "x * rms_norm(x, 2x)": lambda x: x * x / jnp.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * (2 * x)[0],
        "x * softmax(x*x)": lambda x: x * jax.nn.softmax(x * x, -1),
        "x * log_softmax(x*x)": lambda x: x * jax.nn.log_softmax(x * x, -1),
        "x * gelu(x*x)": lambda x: x * jax.nn.gelu(x * x, approximate=True),
        "swiglu(x, x*x)": lambda x: jax.nn.silu(x) * x * x,
        "attention(x, 2x, x*x)": lambda x: attend(x, 2 * x, x * x),
        "x * cross_entropy(x*x)": lambda x: x * cross_entropy(x * x),
        "exp(tanh(x)) / (2 + sin(x x^T x))": lambda x: jnp.exp(jnp.tanh(x)) / (2 + jnp.sin(x @ x.T @ x)),
    }


def derivatives(library: Any, f: Callable[[Any], Any], jacobian: Any, given: list[Any]) -> dict[str, Any]:
    """Everything to compare, by the names that both libraries have."""
    x, u, v, w = given

    def scalar(x: Any) -> Any:
        return (f(x) * u).sum()

    first = library.grad(scalar)
    second = library.grad(lambda x: (first(x) * v).sum())
    return {
        "value": f(x),
        "grad": first(x),
        "vjp": library.vjp(f, x)[1](u)[0],
        "jvp": library.jvp(f, (x,), (v,))[1],
        "jacobian": jacobian(f)(x),
        "hvp": library.jvp(first, (x,), (v,))[1],
        "hessian": library.hessian(scalar)(x),
        "third": library.grad(lambda x: (second(x) * w).sum())(x),
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Compare; print a row for each function."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks derivatives", description=__doc__)
    parser.parse_args(argv)
    try:
        import jax
    except ImportError:
        parser.error('JAX is not installed: pip install "autodiff-gpt[bench]"')

    jax.config.update("jax_enable_x64", True)
    rng = np.random.default_rng(0)
    given = [rng.normal(size=(3, 4)) for _ in range(4)]
    x, _, v, _ = given
    worst = 0.0
    peers = theirs(jax)
    for name, f in ours().items():
        found = derivatives(ad, f, ad.jacobian, given)
        expected = derivatives(jax, peers[name], jax.jacrev, list(map(jax.numpy.asarray, given)))
        errors = {key: _difference(value, expected[key]) for key, value in found.items()}
        product = ad.hvp(lambda x, f=f: (f(x) * given[1]).sum(), (x,), (v,))
        errors["hvp"] = max(errors["hvp"], _difference(product, expected["hvp"]))
        worst = max(worst, *errors.values())
        print(f"{name:34}", "  ".join(f"{key} {error:.0e}" for key, error in errors.items()))
    print(f"largest relative difference {worst:.1e}")
    return int(not worst <= LIMIT)


def _difference(a: Any, b: Any) -> float:
    a, b = np.asarray(a), np.asarray(b)
    if a.shape != b.shape:
        raise ValueError(f"shapes {a.shape} and {b.shape}")
    return float(np.abs(a - b).max() / np.abs(b).max())


if __name__ == "__main__":
    sys.exit(main())
