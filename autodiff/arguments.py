"""Checks of plain arguments: numbers that come from a user's hand, a flag or a file."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

__all__ = ["is_number", "real", "whole"]


def whole(name: str, value: Any, low: int) -> int:
    """Return a whole number of at least `low` as an int; refuse anything else, a bool too."""
    if not isinstance(value, (int, np.integer)) or isinstance(value, bool) or value < low:
        raise ValueError(f"{name}={value!r} must be an integer of at least {low}")
    return int(value)


def real(name: str, value: Any, below: float = math.inf) -> float:
    """Return a number of at least 0 and less than `below` as a float; refuse anything else, NaN and a bool too."""
    if not is_number(value) or not 0 <= value < below:
        bound = (
            "a finite number of at least 0" if below == math.inf else f"a number of at least 0 and less than {below:g}"
        )
        raise ValueError(f"{name}={value!r} must be {bound}")
    return float(value)


def is_number(value: Any) -> bool:
    """Tell whether a value is a real number; a bool is none."""
    return isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
