"""The VJP of broadcasting, for every op that broadcasts: an element receives the sum over its copies."""

from __future__ import annotations

import numpy as np

from .node import Array, Spec

__all__ = ["SUMMED_IN", "may_sum", "sum_to"]

SUMMED_IN = {np.dtype(np.float16): np.dtype(np.float32)}
"""The ``dtype=`` of a sum of numbers of a dtype, if not their own.

Along any axis but the last, NumPy adds one number after another: in half precision 2048 ones are the last that count.
A rule may return such a sum as it is; the sweep rounds it, once.
"""


def may_sum(op: Spec, shape: tuple[int, ...], to: tuple[int, ...], out: tuple[int, ...]) -> bool:
    """Whether a result has the axes of the output, of which the op broadcasts those that an argument lacks."""
    return shape == out if op.elementwise else op.batched and len(to) >= 2 and shape[-2:] == to[-2:]


def sum_to(g: Array, shape: tuple[int, ...]) -> Array:
    """Sum over the axes along which an argument of this shape was stretched."""
    lead = len(g.shape) - len(shape)
    axes = (*range(lead), *(lead + i for i, side in enumerate(shape) if side == 1 and g.shape[lead + i] != 1))
    if lead < 0 or any(side not in (1, g.shape[lead + axis]) for axis, side in enumerate(shape)):
        raise ValueError(f"a cotangent of shape {g.shape} cannot be summed to the shape {shape} of the argument")
    return np.reshape(np.add.reduce(g, axes, SUMMED_IN.get(g.dtype), keepdims=True), shape)
