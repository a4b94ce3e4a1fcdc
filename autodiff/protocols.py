"""How NumPy's own functions and conversions meet a tensor: they record, give plain results, or say why not.

Each call looks its op up in the tables, by the NumPy function, so this file knows no op and no rule.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import modes
from .node import OPS, TWINS
from .signature import nearest

__all__ = ["NumPyProtocols", "as_numpy", "to_array", "to_index"]

PLAIN: frozenset[Any] = frozenset({
    np.zeros_like, np.ones_like, np.empty_like, np.shape, np.ndim, np.size,
    np.isnan, np.isinf, np.isfinite, np.signbit, np.any, np.all, np.allclose, np.isclose, np.array_equal,
    np.nonzero, np.count_nonzero, np.argmax, np.argmin, np.argsort, np.searchsorted, np.array_repr, np.array_str,
    np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal,
    np.logical_and, np.logical_or, np.logical_xor, np.logical_not,
    np.shares_memory, np.may_share_memory, np.result_type, np.broadcast_shapes,
})  # fmt: skip
"""NumPy functions whose results carry no gradient: called on the data, with plain results."""


class NumPyProtocols:
    """An array that NumPy's functions take as one of their own; its ``_values`` holds the data."""

    __slots__ = ()
    _values: Any
    requires_grad: bool

    # --- no gradient is lost silently ---

    def _leave(self, how: str) -> Any:
        """Return the data for a conversion that records nothing; refuse it where a gradient would be lost."""
        if self.requires_grad and modes.current().record:
            raise TypeError(
                f"{how} of a tensor that requires a gradient would lose the gradient. For the values use .data or "
                f".item(); to go on computing with a gradient use NumPy's functions or autodiff.functional (F.stack "
                f"joins tensors, F.set_at assigns)"
            )
        return self._values

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.array(self._leave("the conversion to an array"), dtype, copy=copy)

    def __float__(self) -> float:
        return float(self._leave("float()"))

    def __int__(self) -> int:
        return int(self._leave("int()"))

    def __complex__(self) -> complex:
        return complex(self._leave("complex()"))

    def __index__(self) -> int:
        data = self._leave("use as an index")
        return int(data.__index__())

    def __bool__(self) -> bool:
        if np.size(self._values) != 1:
            shape = np.shape(self._values)
            raise ValueError(f"the truth value of a tensor of shape {shape} is ambiguous; use .data.any()")
        return bool(self._values)

    def __contains__(self, value: Any) -> bool:
        return to_array(value) in np.asarray(self._values)

    def __getattr__(self, name: str) -> Any:  # only called for what is not there; NumPy asks for many of its own names
        hint = f"; write F.{name}(t), as in autodiff.functional" if name in OPS and not name.startswith("_") else ""
        raise AttributeError(f"a Tensor has no {name!r}{hint}")

    # --- NumPy's protocols ---

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *args: Any, **settings: Any) -> Any:
        if settings.pop("out", None) is not None:
            raise TypeError(
                f"np.{ufunc.__name__} cannot write a tensor's result into out=...: assign the result; for an array on "
                f"the left of +=, write a = a + t"
            )
        if method == "__call__":
            if ufunc in PLAIN:
                return ufunc(*map(to_array, args), **settings)
            if ufunc in TWINS:
                return TWINS[ufunc](*args, **settings)
        raise _uncovered(ufunc.__name__ if method == "__call__" else f"{ufunc.__name__}.{method}")

    def __array_function__(self, function: Any, types: Any, args: Any, settings: Any) -> Any:
        if function in TWINS:
            return TWINS[function](*args, **settings)
        if function in PLAIN:
            return function(*map(_plain, args), **{name: _plain(value) for name, value in settings.items()})
        raise _uncovered(function.__name__)


def to_array(value: Any) -> Any:
    """Return a tensor's data, and anything else as it is."""
    return value._values if isinstance(value, NumPyProtocols) else value


def to_index(index: Any) -> Any:
    """Return an index with the tensors in it (integer or boolean ones) replaced by copies of their data."""
    if type(index) is tuple:
        return tuple(map(to_index, index))
    return np.array(index._values) if isinstance(index, NumPyProtocols) else index


def _full_like(a: Any, fill_value: Any, **settings: Any) -> Any:
    """Plain as its siblings are, but for a value whose gradient would be lost."""
    fill = fill_value._leave("np.full_like") if isinstance(fill_value, NumPyProtocols) else fill_value
    return np.full_like(to_array(a), fill, **settings)


TWINS[np.full_like] = _full_like


def _plain(value: Any) -> Any:
    """Replace tensors by their data, also inside lists and tuples."""
    if type(value) in (list, tuple):
        return type(value)(map(_plain, value))
    return to_array(value)


def _uncovered(name: str) -> TypeError:
    covered = [function.__name__ for function in TWINS]
    return TypeError(
        f"np.{name} has no VJP rule, so it cannot be recorded for a tensor.{nearest(name, covered)} For a result "
        f"without a gradient, call it on t.data; to add a rule, see autodiff.op"
    )


def as_numpy(function: Callable[..., Any], made: Any) -> Callable[..., Any]:
    """Let an op be called with the arguments of its NumPy twin: arrays first, settings by NumPy's names and order."""

    @functools.cache
    def parameters() -> inspect.Signature | None:
        try:
            return inspect.signature(function)
        except ValueError:  # written in C, without a signature
            return None

    count = len(made.signature.arguments)

    def call(*args: Any, **settings: Any) -> Any:
        signature = parameters()
        if signature is None or made.signature.variadic:
            names = [*made.signature.arguments, *made.signature.order]
            given: Iterable[tuple[str, Any]] = [*zip(names, args, strict=False), *settings.items()]
            if len(args) > len(names):
                raise TypeError(f"np.{function.__name__} on a tensor takes at most {len(names)} arguments")
        else:
            given = signature.bind(*args, **settings).arguments.items()
        order = list(signature.parameters)[:count] if signature is not None else list(made.signature.arguments)
        arrays: list[Any] = []
        rest: dict[str, Any] = {}
        for i, (name, value) in enumerate(given):
            if i < count and (name in order or made.signature.variadic):
                arrays.append(value)
            elif value is not None or name in made.signature.order:
                rest[name] = value
        unknown = [name for name in rest if name not in made.signature.order]
        if unknown:
            raise TypeError(
                f"np.{function.__name__} on a tensor does not take {unknown[0]}=...; it is "
                f"{made.name}{made.signature.full}"
            )
        return made(*arrays, **rest)

    return call
