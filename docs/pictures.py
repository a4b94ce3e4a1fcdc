"""Draw the pictures of the documentation: ``python docs/pictures.py`` (needs the extra [viz] and Graphviz's dot)."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from autodiff import Tensor, viz

HERE = Path(__file__).parent


def graph() -> None:
    """Draw the graph of a gate, u * sigmoid(u) * v, with all gradients kept."""
    u = Tensor(1.5, requires_grad=True, name="u")
    v = Tensor(-2.0, requires_grad=True, name="v")
    opposite = -u
    exponential = np.exp(opposite)
    divisor = exponential + 1
    silu = u / divisor
    gate = silu * v
    for result in (opposite, exponential, divisor, silu, gate):
        result.retain_grad()
    gate.name = "gate"
    gate.backward(retain_graph=True)
    picture = viz.draw_dot(gate)
    picture.render(outfile=HERE / "graph.svg", cleanup=True)


if __name__ == "__main__":
    graph()
