"""Numbers whose squares, sums or counts leave the range of their dtype.

Half precision is computed in single precision, whose range holds them. In single and double precision the plain
computation comes first. Only where its result lies near the ends of the range is it done again, on numbers divided by
a power of 2. That division is exact, so whatever was right before stays the same to the last bit.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from ..node import Array
from ..protocols import to_array

__all__ = ["exponents", "extreme", "is_moderate", "narrow", "scaled", "wide"]

Axis: TypeAlias = int | tuple[int, ...] | None


def wide(x: Array) -> Array:
    """Return numbers in a dtype in which they can be counted, squared and summed: half precision ends at 65504."""
    # a Python number has no dtype
    return x.astype(np.float32) if getattr(x, "dtype", None) == _HALF else x


def narrow(result: Array, dtype: Any) -> Array:
    """Return a result of `wide` numbers in the dtype that they had."""
    return result.astype(np.float16) if dtype == _HALF and result.dtype != _HALF else result


_HALF = np.dtype(np.float16)


def is_moderate(lengths: Array) -> bool:
    """Tell whether squares of all these numbers, and quotients by them, stay well inside the range of the dtype."""
    values = np.asarray(to_array(lengths))
    info = np.finfo(values.dtype)
    low = (info.tiny / info.eps) ** 0.5
    return bool(np.all((values > low) & (values < 1 / low)))


def extreme(x: Array, axis: Axis, smallest: bool = False) -> Any:
    """Return the largest (or smallest) size of each group along axes, which stay in with length one."""
    sizes = np.abs(to_array(x))
    if smallest:
        return np.min(sizes, axis=axis, keepdims=True, initial=np.inf)
    return np.max(sizes, axis=axis, keepdims=True, initial=0)


def exponents(x: Array, axis: Axis, smallest: bool = False) -> Any:
    """Return the exponent of the power of 2 just above each group's `extreme`; 0 where that is not finite."""
    size = extreme(x, axis, smallest)
    return np.where(np.isfinite(size), np.frexp(size)[1], 0)


def scaled(x: Array, powers: Any) -> Array:
    """Multiply by powers of 2. What overflows then is so far from the rest that it counts as infinite."""
    with np.errstate(over="ignore"):
        return np.ldexp(x, powers)
