"""Which results share their memory with an argument."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .node import Leaf
from .tensor import Tensor

__all__ = ["view_of"]


def view_of(out: NDArray[Any], args: Sequence[Any]) -> tuple[NDArray[Any], Leaf | None]:
    """Find the leaf whose memory an output shares. A view is read-only, else writing to it would change its source."""
    base = out.base  # of a view of a view, NumPy names the array that owns the memory
    for arg in args:
        value = arg._values if type(arg) is Tensor else arg
        if out is value or (base is not None and type(value) is np.ndarray and _may_share(out, base, value)):
            out = out.view() if out is value else out
            out.flags.writeable = False
            return out, arg.vertex().root if type(arg) is Tensor else None
    return out, None


def _may_share(view: NDArray[Any], base: Any, array: NDArray[Any]) -> bool:
    """Whether a view may overlap an array. If its base is an array that owns its memory, most do not, at a glance."""
    if type(base) is np.ndarray and base.base is None and base is not array and base is not array.base:
        return False
    return np.may_share_memory(view, array)
