"""How a type checker reads the calls of an op. Nothing here runs: only a checker imports this file.

Python's types cannot say "the forward's parameters, each of them also as a tensor". They can say this, for up to three
arrays: one is a tensor, the others are anything, and behind them comes what the forward takes beside so many arrays,
which is its settings. With more arrays, or any number of them, the settings are not checked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Concatenate, Generic, Never, ParamSpec, Protocol, TypeAlias, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from .tensor import Tensor

__all__ = ["Call"]

P = ParamSpec("P")
S = ParamSpec("S")  # the settings, and arrays that may be left out
R = TypeVar("R", covariant=True)
One: TypeAlias = NDArray[Any] | np.generic | float
Several: TypeAlias = Sequence[One]


class _Variadic(Protocol[R]):
    """Takes any number of arrays, ``*arrays``."""

    def __call__(self, *arrays: Never) -> R: ...


class _OfMany(Protocol[R]):
    """An op with such a forward."""

    @property
    def __wrapped__(self) -> _Variadic[R]: ...


class Call(Generic[P, R]):
    """For arrays what the forward gives, ``R``; for tensors a tensor, or a tuple of them where ``R`` has several."""

    __wrapped__: Callable[P, R]
    """The forward, as `functools` keeps it."""

    @overload
    def __call__(self: Call[Concatenate[Any, S], One], x: Tensor, /, *rest: S.args, **settings: S.kwargs) -> Tensor: ...
    @overload
    def __call__(
        self: Call[Concatenate[Any, Any, S], One], x: Tensor, y: Any, /, *rest: S.args, **settings: S.kwargs
    ) -> Tensor: ...
    @overload
    def __call__(
        self: Call[Concatenate[Any, Any, S], One], x: Any, y: Tensor, /, *rest: S.args, **settings: S.kwargs
    ) -> Tensor: ...
    @overload
    def __call__(
        self: Call[Concatenate[Any, Any, Any, S], One], x: Tensor, y: Any, z: Any, /,
        *rest: S.args, **settings: S.kwargs,
    ) -> Tensor: ...  # fmt: skip
    @overload
    def __call__(
        self: Call[Concatenate[Any, Any, Any, S], One], x: Any, y: Tensor, z: Any, /,
        *rest: S.args, **settings: S.kwargs,
    ) -> Tensor: ...  # fmt: skip
    @overload
    def __call__(
        self: Call[Concatenate[Any, Any, Any, S], One], x: Any, y: Any, z: Tensor, /,
        *rest: S.args, **settings: S.kwargs,
    ) -> Tensor: ...  # fmt: skip
    @overload
    def __call__(
        self: Call[Concatenate[Any, S], Several], x: Tensor, /, *rest: S.args, **settings: S.kwargs
    ) -> tuple[Tensor, ...]: ...
    @overload
    def __call__(
        self: Call[Concatenate[Any, Any, S], Several], x: Tensor, y: Any, /, *rest: S.args, **settings: S.kwargs
    ) -> tuple[Tensor, ...]: ...
    @overload
    def __call__(
        self: Call[Concatenate[Any, Any, S], Several], x: Any, y: Tensor, /, *rest: S.args, **settings: S.kwargs
    ) -> tuple[Tensor, ...]: ...
    @overload
    def __call__(
        self: Call[Concatenate[Any, Any, Any, S], Several], x: Tensor, y: Any, z: Any, /,
        *rest: S.args, **settings: S.kwargs,
    ) -> tuple[Tensor, ...]: ...  # fmt: skip
    @overload
    def __call__(
        self: Call[Concatenate[Any, Any, Any, S], Several], x: Any, y: Tensor, z: Any, /,
        *rest: S.args, **settings: S.kwargs,
    ) -> tuple[Tensor, ...]: ...  # fmt: skip
    @overload
    def __call__(
        self: Call[Concatenate[Any, Any, Any, S], Several], x: Any, y: Any, z: Tensor, /,
        *rest: S.args, **settings: S.kwargs,
    ) -> tuple[Tensor, ...]: ...  # fmt: skip
    @overload
    def __call__(self, *args: P.args, **settings: P.kwargs) -> R: ...  # type: ignore[overload-overlap]  # arrays only
    @overload
    def __call__(self: Call[P, One], w: Any, x: Any, y: Any, z: Any, /, *rest: Any, **settings: Any) -> Tensor: ...
    @overload
    def __call__(
        self: Call[P, Several], w: Any, x: Any, y: Any, z: Any, /, *rest: Any, **settings: Any
    ) -> tuple[Tensor, ...]: ...
    @overload
    def __call__(self: _OfMany[One], *arrays: Any, **settings: Any) -> Tensor: ...
    @overload
    def __call__(self: _OfMany[Several], *arrays: Any, **settings: Any) -> tuple[Tensor, ...]: ...
    def __call__(self, *args: Any, **settings: Any) -> Any:  # type: ignore[misc]  # takes them all, by ``Any``
        """Compute, and record where an argument is a tensor that requires a gradient."""
