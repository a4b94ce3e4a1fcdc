"""Names of parameters: how they are written, and what a walk through a tree of modules has come by."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from .tensor import Tensor

__all__ = ["Names", "Walk", "dotted", "indexed"]


class Names(NamedTuple):
    """What a state and a module do not have in common."""

    missing_keys: list[str]
    unexpected_keys: list[str]


class Walk:
    """What a walk through a tree of modules has come by, and how it writes the names."""

    __slots__ = ("found", "modules", "others", "write")

    def __init__(self, write: Callable[[str, Any], str]) -> None:
        self.write = write
        self.found: list[tuple[str, Tensor]] = []  # leaf tensors
        self.modules: list[Any] = []  # each as often as it is held
        self.others: list[tuple[Any, str, Any]] = []  # attributes that are neither


def dotted(above: str, step: Any) -> str:
    """Name an attribute, or what a collection has under an index or key."""
    return f"{above}.{step}" if above else step


def indexed(above: str, step: Any) -> str:
    """Likewise as one writes it in Python, where no two places look alike."""
    return f"{above}[{step!r}]" if above else step if step.isidentifier() else repr(step)
