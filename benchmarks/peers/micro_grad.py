"""micrograd: a graph of Python numbers."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import Any

from micrograd.engine import Value
from micrograd.nn import MLP

from .. import demo

__all__ = ["chain", "moons"]


def chain() -> dict[str, Callable[[], float]]:
    """Prepare the chain of scalars; each returns the derivative by its factor, or its end."""
    sys.setrecursionlimit(20 * demo.CHAIN)  # micrograd walks its graph recursively

    def forward() -> tuple[Any, Any]:
        y, factor, term = Value(demo.START), Value(demo.FACTOR), Value(demo.TERM)
        for _ in range(demo.CHAIN):
            y = y * factor + term
        return y, factor

    def both() -> float:
        y, factor = forward()
        y.backward()
        return float(factor.grad)

    return {"forward": lambda: float(forward()[0].data), "both": both}


def moons() -> dict[str, Callable[[], float]]:
    """Prepare the demo, as micrograd's notebook has it; returns the last loss."""
    sys.setrecursionlimit(20 * demo.CHAIN)
    points, labels = (array.tolist() for array in demo.moons())

    def run() -> float:
        model = _model()
        loss = Value(math.nan)
        for number in range(demo.STEPS):
            scores = [model(list(map(Value, point))) for point in points]
            margins = [(1 + -label * score).relu() for label, score in zip(labels, scores, strict=True)]
            loss = sum(margins) * (1.0 / len(margins)) + demo.ALPHA * sum(p * p for p in model.parameters())
            model.zero_grad()
            loss.backward()
            for p in model.parameters():
                p.data -= demo.learning_rate(number) * p.grad
        return float(loss.data)

    return {"moons": run}


def _model() -> Any:
    """Build micrograd's own network, with the weights that both start from."""
    model = MLP(demo.SIZES[0], list(demo.SIZES[1:]))
    for layer, (weight, _) in zip(model.layers, demo.initial_layers(), strict=True):
        for neuron, column in zip(layer.neurons, weight.T.tolist(), strict=True):
            for parameter, value in zip(neuron.w, column, strict=True):
                parameter.data = value
    return model
