"""The operators of a tensor between it and something else.

Each looks its op up by name, so this file knows no op and no rule. Where the other operand computes by rules of its own
(an array with units or labels, another library's tensor), the operator returns NotImplemented, as an ndarray's does:
Python then asks the other one.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from .arguments import ForeignError
from .node import OPS, TWINS
from .protocols import NumPyProtocols, is_foreign, to_array

__all__ = ["ArrayOperators"]


class ArrayOperators(NumPyProtocols):
    """Operators of an array with two operands; its ``_values`` is the array."""

    __slots__ = ()

    def __add__(self, other: Any) -> Self:
        try:
            result: Self = OPS["add"].call(self, other)
        except ForeignError:
            return NotImplemented
        return result

    def __radd__(self, other: Any) -> Self:
        try:
            result: Self = OPS["add"].call(other, self)
        except ForeignError:
            return NotImplemented
        return result

    def __sub__(self, other: Any) -> Self:
        try:
            result: Self = OPS["subtract"].call(self, other)
        except ForeignError:
            return NotImplemented
        return result

    def __rsub__(self, other: Any) -> Self:
        try:
            result: Self = OPS["subtract"].call(other, self)
        except ForeignError:
            return NotImplemented
        return result

    def __mul__(self, other: Any) -> Self:
        try:
            result: Self = OPS["multiply"].call(self, other)
        except ForeignError:
            return NotImplemented
        return result

    def __rmul__(self, other: Any) -> Self:
        try:
            result: Self = OPS["multiply"].call(other, self)
        except ForeignError:
            return NotImplemented
        return result

    def __truediv__(self, other: Any) -> Self:
        try:
            result: Self = OPS["divide"].call(self, other)
        except ForeignError:
            return NotImplemented
        return result

    def __rtruediv__(self, other: Any) -> Self:
        try:
            result: Self = OPS["divide"].call(other, self)
        except ForeignError:
            return NotImplemented
        return result

    def __floordiv__(self, other: Any) -> Self:
        try:
            result: Self = OPS["floor_divide"].call(self, other)
        except ForeignError:
            return NotImplemented
        return result

    def __rfloordiv__(self, other: Any) -> Self:
        try:
            result: Self = OPS["floor_divide"].call(other, self)
        except ForeignError:
            return NotImplemented
        return result

    def __mod__(self, other: Any) -> Self:
        try:
            result: Self = OPS["remainder"].call(self, other)
        except ForeignError:
            return NotImplemented
        return result

    def __rmod__(self, other: Any) -> Self:
        try:
            result: Self = OPS["remainder"].call(other, self)
        except ForeignError:
            return NotImplemented
        return result

    def __divmod__(self, other: Any) -> tuple[Self, Self]:
        try:
            result: tuple[Self, Self] = TWINS[np.divmod](self, other)
        except ForeignError:
            return NotImplemented
        return result

    def __rdivmod__(self, other: Any) -> tuple[Self, Self]:
        try:
            result: tuple[Self, Self] = TWINS[np.divmod](other, self)
        except ForeignError:
            return NotImplemented  # type: ignore[no-any-return]  # mypy knows that of the other operators
        return result

    def __pow__(self, other: Any) -> Self:
        try:
            result: Self = OPS["power"].call(self, other)
        except ForeignError:
            return NotImplemented
        return result

    def __rpow__(self, other: Any) -> Self:
        try:
            result: Self = OPS["power"].call(other, self)
        except ForeignError:
            return NotImplemented
        return result

    def __matmul__(self, other: Any) -> Self:
        try:
            result: Self = OPS["matmul"].call(self, other)
        except ForeignError:
            return NotImplemented
        return result

    def __rmatmul__(self, other: Any) -> Self:
        try:
            result: Self = OPS["matmul"].call(other, self)
        except ForeignError:
            return NotImplemented
        return result

    def __lt__(self, other: Any) -> Any:
        return NotImplemented if is_foreign(other) else np.less(self._values, to_array(other))

    def __le__(self, other: Any) -> Any:
        return NotImplemented if is_foreign(other) else np.less_equal(self._values, to_array(other))

    def __gt__(self, other: Any) -> Any:
        return NotImplemented if is_foreign(other) else np.greater(self._values, to_array(other))

    def __ge__(self, other: Any) -> Any:
        return NotImplemented if is_foreign(other) else np.greater_equal(self._values, to_array(other))

    def __eq__(self, other: object) -> Any:
        if is_foreign(other):
            return _asked(other, "__eq__", self)
        return self._values == to_array(other)  # np.equal would raise for what is no number

    def __ne__(self, other: object) -> Any:
        if is_foreign(other):
            return _asked(other, "__ne__", self)
        return self._values != to_array(other)

    __hash__ = object.__hash__


def _asked(other: Any, comparison: str, tensor: Any) -> Any:
    """Return how another operand compares itself. If it does not, Python would tell whether they are one object."""
    answer = getattr(other, comparison)(tensor)
    if answer is NotImplemented:
        kind = type(other).__name__
        raise TypeError(f"a tensor is not compared with what is of type {kind}: compare t.data with np.asarray(...)")
    return answer
