"""Which ops are measured, at the shapes of a step of `nano`, and how any library times them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["CASES", "FUSED", "PRIMITIVE", "Bind", "tasks"]

STREAM, HIDDEN, HEADS, SCORES, LOGITS = (12, 64, 128), (12, 64, 512), (12, 4, 64, 32), (12, 4, 64, 64), (12, 64, 65)


class Case(NamedTuple):
    """Arguments of an op: shapes of float32 arrays, and of ids below 65."""

    shapes: Sequence[tuple[int, ...]]
    ids: tuple[int, ...] | None = None


FUSED: Mapping[str, Case] = {
    "softmax": Case([SCORES]),
    "log_softmax": Case([LOGITS]),
    "cross_entropy": Case([LOGITS], LOGITS[:-1]),
    "layer_norm": Case([STREAM, STREAM[-1:]]),
    "rms_norm": Case([STREAM, STREAM[-1:]]),
    "gelu": Case([HIDDEN]),
    "silu": Case([HIDDEN]),
    "swiglu": Case([HIDDEN, HIDDEN]),
    "relu": Case([HIDDEN]),
    "rope": Case([HEADS]),
    "scaled_dot_product_attention": Case([HEADS, HEADS, HEADS]),
    "embedding": Case([(65, 128)], STREAM[:-1]),
    "linear": Case([STREAM, (128, 512)]),
    "dropout": Case([STREAM]),
}
PRIMITIVE: Mapping[str, Case] = {
    **dict.fromkeys(["add", "subtract", "multiply", "divide"], Case([STREAM, STREAM])),
    **dict.fromkeys(["exp", "log", "tanh", "sum", "max"], Case([STREAM])),
    "matmul": Case([HEADS, (12, 4, 32, 64)]),
}
"""`sum` and `max` go along the last axis."""
CASES: Mapping[str, Case] = {**FUSED, **PRIMITIVE}

Bind = Callable[[Callable[..., Any], list[NDArray[Any]]], tuple[Callable[[], Any], Callable[[], Any]]]
"""How a library records a function of arrays: calls that run it forward, recording, and what was recorded backward."""


def tasks(functions: Mapping[str, Callable[..., Any]], bind: Bind) -> dict[str, Callable[[], None]]:
    """Return what to time: ``"gelu forward"``, ``"gelu backward"`` and so on, for the functions that a library has.

    Examples
    --------
    >>> def bind(function, floats):
    ...     return lambda: function(*floats), lambda: None
    >>> list(tasks({"exp": np.exp}, bind))
    ['exp forward', 'exp backward']
    """
    made: dict[str, Callable[[], None]] = {}
    for name, function in functions.items():
        bound = cache(partial(_bound, function, CASES[name], bind))
        made[f"{name} forward"], made[f"{name} backward"] = partial(_call, bound, 0), partial(_call, bound, 1)
    return made


def _bound(function: Callable[..., Any], case: Case, bind: Bind) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """Record a function of a case's arrays; made at its first use, as some libraries compile it then."""
    floats, ids = _draw(case)
    return bind(lambda *arrays: function(*arrays, *ids), floats)


def _call(bound: Callable[[], tuple[Callable[[], Any], Callable[[], Any]]], part: int) -> None:
    bound()[part]()


def _draw(case: Case) -> tuple[list[NDArray[Any]], list[NDArray[Any]]]:
    """Draw arguments, from 0.5 to 1.5, so that there is a logarithm."""
    rng = np.random.default_rng(0)
    floats = [rng.uniform(0.5, 1.5, shape).astype(np.float32) for shape in case.shapes]
    return floats, [] if case.ids is None else [rng.integers(0, 65, case.ids)]
