"""The models that are timed: sizes and batches. All have the architecture of the preset ``nano``."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["SIZES", "Size"]


class Size(NamedTuple):
    """A model and the batch of one training step."""

    batch: int
    block: int
    vocab: int
    width: int
    heads: int
    layers: int


SIZES = {
    "tiny": Size(16, 16, 28, 32, 2, 1),
    "nano": Size(12, 64, 65, 128, 4, 4),
    "mid": Size(8, 128, 256, 256, 8, 6),
    "long": Size(2, 1024, 256, 256, 8, 4),
}
