"""What lasts of a tensor: its name, and what a copy, a file or another process has of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np

from .node import Node, Vertex

__all__ = ["Lasting"]


class Lasting:
    """A tensor's name, and its copies: they have its values, gradient and name, and are leaves as it is."""

    __slots__ = ()
    _values: Any
    _grad: Any
    _name: Any
    node: Vertex | None

    @property
    def name(self) -> str | None:
        """What it is called in pictures and messages."""
        name: str | None = self._name
        return name

    @name.setter
    def name(self, name: str | None) -> None:
        if name is not None and not isinstance(name, str):
            raise TypeError(f"name={name!r:.60} must be a string or None, not a {type(name).__name__}")
        self._name = name

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Self:
        if type(self.node) is Node:
            raise RuntimeError(
                "only leaves can be copied; copy a result with x.detach() or Tensor(x.data); to plot it: x.data"
            )
        copy: Self = _leaf(*self._parts())
        return copy

    __copy__ = __deepcopy__  # two tensors cannot be one leaf

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        if type(self.node) is Node:
            raise TypeError(
                f"a result (of {self.node.op.name!r}) has a graph, which can be neither saved nor sent to another "
                f"process; take its values: x.detach(), or the array x.data"
            )
        return _leaf, self._parts()

    def _parts(self) -> tuple[Any, ...]:
        requires_grad = self.node is not None and self.node.requires_grad
        return type(self), self._values, requires_grad, self._name, self._grad


def _leaf(kind: Any, values: Any, requires_grad: bool, name: str | None, grad: Any) -> Any:
    """Make a leaf with values and a gradient of its own."""
    tensor = kind(values, requires_grad, name)
    tensor._grad = None if grad is None else np.array(grad)
    return tensor
