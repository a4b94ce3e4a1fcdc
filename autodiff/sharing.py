"""Which arrays share their memory: results with an argument, parameters with each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .node import Leaf
from .tensor import Tensor

__all__ = ["overlapping", "view_of"]


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


def overlapping(arrays: Sequence[NDArray[Any]]) -> list[list[int]]:
    """Group the positions of arrays whose extents in memory overlap, in order; arrays that lie alone are left out."""
    extents = []
    for i, array in enumerate(arrays):
        if array.flags.c_contiguous:
            low = array.__array_interface__["data"][0]
            high = low + array.nbytes
        else:
            low, high = np.lib.array_utils.byte_bounds(array)
        if low < high:
            extents.append((low, high, i))
    groups: list[list[int]] = []
    end = -1
    for low, high, i in sorted(extents):  # overlapping extents are neighbours
        if low >= end:
            groups.append([])
        groups[-1].append(i)
        end = max(end, high)
    return [group for group in sorted(map(sorted, groups)) if len(group) > 1]
