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
    base = out.base  # of a view of a view, NumPy names the array that owns the memory; then most are told at a glance
    owned = type(base) is np.ndarray and base.base is None
    for arg in args:
        value = arg._values if type(arg) is Tensor else arg
        if out is not value:
            if base is None or type(value) is not np.ndarray:
                continue
            if owned and base is not value and base is not value.base:
                continue
            if not np.may_share_memory(out, value):
                continue
        view = out.view() if out is value else out
        view.flags.writeable = False
        return view, arg.vertex().root if type(arg) is Tensor else None
    return out, None
