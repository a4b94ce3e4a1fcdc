"""How large the measured model is, its initial weights, and the arithmetic of one of its training steps.

The model is the same in every library: pre-norm, learned positions, tanh-GELU, layer norms with a gain and no bias, no
other biases, the head tied to the embedding. Nothing but NumPy is imported here, so that the process of another library
holds nothing of ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Size", "Weights", "batch", "initial_weights", "of_block", "step_flops"]

Weights = Mapping[str, NDArray[Any]]

STD = 0.02
CLIP, RATE, DECAY, BETAS, EPS = 1.0, 1e-3, 0.01, (0.9, 0.999), 1e-8
"""Of a training step: bound of the gradient's norm, and AdamW's settings, for all parameters alike."""


@dataclass(frozen=True)
class Size:
    """Shapes of a training step.

    Parameters
    ----------
    batch, length : int
        Sequences, and positions of each.
    vocab, width, heads, layers : int
        Of the model; the hidden width of the MLP is 4 `width`.
    """

    batch: int
    length: int
    vocab: int
    width: int
    heads: int
    layers: int

    @property
    def head_width(self) -> int:
        """Width of one attention head."""
        return self.width // self.heads


def initial_weights(size: Size, dtype: Any = np.float32) -> dict[str, NDArray[Any]]:
    """Return the weights that every library starts from, under the names of `gpt.GPT`; matrices are [in, out]."""
    rng = np.random.default_rng(0)
    d = size.width
    shapes: dict[str, tuple[int, ...]] = {"embedding.weight": (size.vocab, d), "positions.weight": (size.length, d)}
    for layer in range(size.layers):
        shapes |= {
            f"blocks.{layer}.norm1.gamma": (d,),
            f"blocks.{layer}.attn.qkv.weight": (d, 3 * d),
            f"blocks.{layer}.attn.proj.weight": (d, d),
            f"blocks.{layer}.norm2.gamma": (d,),
            f"blocks.{layer}.mlp.up.weight": (d, 4 * d),
            f"blocks.{layer}.mlp.down.weight": (4 * d, d),
        }
    shapes["final_norm.gamma"] = (d,)
    return {
        name: np.ones(shape, dtype) if len(shape) == 1 else rng.normal(0, STD, shape).astype(dtype)
        for name, shape in shapes.items()
    }


def of_block(weights: Mapping[str, Any], layer: int) -> dict[str, Any]:
    """Return the entries of one block, by what follows the block's name."""
    prefix = f"blocks.{layer}."
    return {name.removeprefix(prefix): value for name, value in weights.items() if name.startswith(prefix)}


def batch(size: Size) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the ids and targets [batch, length] that every library trains on, in every step the same."""
    ids, targets = np.random.default_rng(1).integers(0, size.vocab, (2, size.batch, size.length))
    return ids, targets


def step_flops(size: Size) -> int:
    """Count the floating-point operations of the matrix products of one step, an addition and a product as two.

    With N = B T positions, a forward pass multiplies the N rows by 12 d^2 weights in every block (qkv 3, proj 1, up 4,
    down 4) and by V d in the head; attention forms, for each pair of a query and a key that it may see, T (T + 1) / 2
    of them in a sequence, d products for the score and d for the mean of the values. A backward pass does twice that,
    one product for each of the two factors::

        3 (L (24 N d^2 + 2 B T (T + 1) d) + 2 N V d)

    (`gpt.shards.step_flops`, which is about the work as it is done, counts the whole square of attention.)

    Examples
    --------
    >>> step_flops(Size(batch=12, length=64, vocab=65, width=128, heads=4, layers=4))
    3815571456
    """
    positions, d = size.batch * size.length, size.width
    block = 24 * positions * d**2 + 2 * positions * (size.length + 1) * d
    return 3 * (size.layers * block + 2 * positions * size.vocab * d)
