"""The form of `einsum` whose axes are numbered: a list of numbers behind each operand, and one for the result."""

from __future__ import annotations

import operator
import string
from collections.abc import Sequence
from typing import Any

from ..node import Array

__all__ = ["from_lists"]

LETTERS = string.ascii_uppercase + string.ascii_lowercase
"""In the order of the numbers that they stand for, by which the axes of a result are sorted where none are given."""


def from_lists(given: Sequence[Any]) -> tuple[str, list[Array]]:
    """Write the lists of axis numbers as one string; return it with the operands."""
    if len(given) < 2:
        raise TypeError(
            "einsum takes its subscripts first, as a string like 'ij,jk->ik', or a list of axis numbers behind each "
            "operand, as in einsum(a, [0, 1], b, [1, 2], [0, 2])"
        )
    count = len(given) // 2
    operands, lists = given[0 : 2 * count : 2], given[1 : 2 * count : 2]
    subscripts = ",".join(map(_term, lists))
    if len(given) % 2:
        subscripts += "->" + _term(given[-1])
    return subscripts, list(operands)


def _term(axes: Any) -> str:
    """Write one list of axis numbers."""
    try:
        numbers = [axis if axis is Ellipsis else operator.index(axis) for axis in axes]
    except TypeError:
        raise TypeError(
            f"einsum without a string takes a list of axis numbers behind each operand, got {axes!r}"
        ) from None
    wrong = [number for number in numbers if number is not Ellipsis and not 0 <= number < len(LETTERS)]
    if wrong:
        raise ValueError(f"einsum: axis numbers lie between 0 and {len(LETTERS) - 1}, got {wrong[0]}")
    return "".join("..." if number is Ellipsis else LETTERS[number] for number in numbers)
