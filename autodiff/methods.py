"""What a tensor has because NumPy has it: operators, methods, and calls of NumPy's own functions.

Each looks its op up in the tables, by name or by the NumPy function, so this file knows no op and no rule.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Self, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from . import modes
from .node import OPS, TWINS
from .signature import nearest

__all__ = ["ArrayMethods", "as_numpy", "to_array", "to_index"]

T = TypeVar("T")
Axis: TypeAlias = int | tuple[int, ...] | None


PLAIN: frozenset[Any] = frozenset({
    np.zeros_like, np.ones_like, np.empty_like, np.shape, np.ndim, np.size,
    np.isnan, np.isinf, np.isfinite, np.signbit, np.any, np.all, np.allclose, np.isclose, np.array_equal,
    np.nonzero, np.count_nonzero, np.argmax, np.argmin, np.argsort, np.searchsorted, np.array_repr, np.array_str,
    np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal,
    np.logical_and, np.logical_or, np.logical_xor, np.logical_not,
    np.shares_memory, np.may_share_memory, np.result_type, np.broadcast_shapes,
})  # fmt: skip
"""NumPy functions whose results carry no gradient: called on the data, with plain results."""


class ArrayMethods:
    """Operators and methods of an array, recorded; its ``_values`` is the array."""

    __slots__ = ()
    _values: Any
    requires_grad: bool

    @property
    def shape(self) -> tuple[int, ...]:
        """Lengths of the axes."""
        shape: tuple[int, ...] = self._values.shape
        return shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the elements."""
        dtype: np.dtype[Any] = self._values.dtype
        return dtype

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self._values.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return int(self._values.size)

    def item(self) -> Any:
        """Return the one element as a Python number."""
        return self._values.item()

    def numpy(self) -> NDArray[Any]:
        """Return a copy of the values."""
        return np.array(self._values)

    def tolist(self) -> Any:
        """Return the values as nested lists of Python numbers."""
        return self._values.tolist()

    def __len__(self) -> int:
        if not self._values.shape:
            raise TypeError("len() of a tensor of shape ()")
        return int(self._values.shape[0])

    def __iter__(self) -> Iterator[Self]:
        if not self._values.shape:
            raise TypeError("iteration over a tensor of shape ()")
        return (self[i] for i in range(len(self)))

    def __add__(self, other: Any) -> Self:
        result: Self = OPS["add"](self, other)
        return result

    def __radd__(self, other: Any) -> Self:
        result: Self = OPS["add"](other, self)
        return result

    def __sub__(self, other: Any) -> Self:
        result: Self = OPS["subtract"](self, other)
        return result

    def __rsub__(self, other: Any) -> Self:
        result: Self = OPS["subtract"](other, self)
        return result

    def __mul__(self, other: Any) -> Self:
        result: Self = OPS["multiply"](self, other)
        return result

    def __rmul__(self, other: Any) -> Self:
        result: Self = OPS["multiply"](other, self)
        return result

    def __truediv__(self, other: Any) -> Self:
        result: Self = OPS["divide"](self, other)
        return result

    def __rtruediv__(self, other: Any) -> Self:
        result: Self = OPS["divide"](other, self)
        return result

    def __pow__(self, other: Any) -> Self:
        result: Self = OPS["power"](self, other)
        return result

    def __rpow__(self, other: Any) -> Self:
        result: Self = OPS["power"](other, self)
        return result

    def __matmul__(self, other: Any) -> Self:
        result: Self = OPS["matmul"](self, other)
        return result

    def __rmatmul__(self, other: Any) -> Self:
        result: Self = OPS["matmul"](other, self)
        return result

    def __neg__(self) -> Self:
        return _call(self, "negative")

    def __pos__(self) -> Self:
        return self

    def __abs__(self) -> Self:
        return _call(self, "abs")

    def __getitem__(self, index: Any) -> Self:
        return _call(self, "getitem", index=to_index(index))

    def __eq__(self, other: object) -> Any:
        return np.equal(self._values, to_array(other))

    def __ne__(self, other: object) -> Any:
        return np.not_equal(self._values, to_array(other))

    def __lt__(self, other: Any) -> Any:
        return np.less(self._values, to_array(other))

    def __le__(self, other: Any) -> Any:
        return np.less_equal(self._values, to_array(other))

    def __gt__(self, other: Any) -> Any:
        return np.greater(self._values, to_array(other))

    def __ge__(self, other: Any) -> Any:
        return np.greater_equal(self._values, to_array(other))

    __hash__ = object.__hash__

    # --- methods, as an ndarray has them ---

    @property
    def T(self) -> Self:
        """The tensor with all its axes reversed."""
        return _call(self, "transpose")

    @property
    def mT(self) -> Self:
        """The tensor with its last two axes swapped."""
        if len(self._values.shape) < 2:
            raise ValueError(f".mT needs at least two axes, the shape is {self._values.shape}")
        return _call(self, "swapaxes", axis1=-1, axis2=-2)

    def reshape(self, *shape: Any) -> Self:
        """Same elements in a new shape, given as one tuple or as several lengths."""
        return _call(self, "reshape", shape=_lengths(shape))

    def transpose(self, *axes: Any) -> Self:
        """Axes in a new order, given as one tuple or as several numbers; reversed if none is given."""
        return _call(self, "transpose", axes=_lengths(axes) if axes and axes != (None,) else None)

    def swapaxes(self, axis1: int, axis2: int) -> Self:
        """Two axes exchanged."""
        return _call(self, "swapaxes", axis1=axis1, axis2=axis2)

    def squeeze(self, axis: int | tuple[int, ...] | None = None) -> Self:
        """Axes of length one removed."""
        return _call(self, "squeeze", axis=axis)

    def ravel(self) -> Self:
        """All elements along one axis."""
        return _call(self, "reshape", shape=(-1,))

    flatten = ravel

    def astype(self, dtype: Any) -> Self:
        """Return the values in another floating type; the gradient comes back in this one's."""
        return _call(self, "astype", dtype=np.dtype(dtype))

    def clip(self, min: Any = None, max: Any = None) -> Self:
        """Values limited to [min, max]; the gradient passes where they lie inside, bounds included."""
        return _call(self, "clip", min, max)

    def take(self, indices: Any, axis: int | None = None) -> Self:
        """Elements at integer indices along an axis."""
        return _call(self, "take", indices, axis=axis)

    def repeat(self, repeats: Any, axis: int | None = None) -> Self:
        """Each element repeated."""
        return _call(self, "repeat", repeats=repeats, axis=axis)

    def cumsum(self, axis: int | None = None) -> Self:
        """Running sum along an axis, or over all elements in order."""
        return _call(self, "cumsum", axis=axis)

    def argmax(self, axis: int | None = None) -> Any:
        """Index of the largest element: plain integers, without a gradient."""
        return self._values.argmax(axis)

    def argmin(self, axis: int | None = None) -> Any:
        """Index of the smallest element: plain integers, without a gradient."""
        return self._values.argmin(axis)

    def sum(self, axis: Axis = None, keepdims: bool = False) -> Self:
        """Sum over the axes given, or over all."""
        return _call(self, "sum", axis=axis, keepdims=keepdims)

    def mean(self, axis: Axis = None, keepdims: bool = False) -> Self:
        """Arithmetic mean over the axes given, or over all."""
        return _call(self, "mean", axis=axis, keepdims=keepdims)

    def prod(self, axis: Axis = None, keepdims: bool = False) -> Self:
        """Product over the axes given, or over all."""
        return _call(self, "prod", axis=axis, keepdims=keepdims)

    def max(self, axis: Axis = None, keepdims: bool = False) -> Self:
        """Largest element; tied ones share the gradient evenly over the axes given, or over all."""
        return _call(self, "max", axis=axis, keepdims=keepdims)

    def min(self, axis: Axis = None, keepdims: bool = False) -> Self:
        """Smallest element; tied ones share the gradient evenly over the axes given, or over all."""
        return _call(self, "min", axis=axis, keepdims=keepdims)

    def var(self, axis: Axis = None, ddof: int = 0, keepdims: bool = False) -> Self:
        """Variance over the axes given, or over all; the divisor is the count minus ddof."""
        return _call(self, "var", axis=axis, ddof=ddof, keepdims=keepdims)

    def std(self, axis: Axis = None, ddof: int = 0, keepdims: bool = False) -> Self:
        """Standard deviation over the axes given, or over all; the divisor is the count minus ddof."""
        return _call(self, "std", axis=axis, ddof=ddof, keepdims=keepdims)

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
        if self.size != 1:
            raise ValueError(f"the truth value of a tensor of shape {self.shape} is ambiguous; use .data.any()")
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
    return value._values if isinstance(value, ArrayMethods) else value


def to_index(index: Any) -> Any:
    """Return an index with the tensors in it (integer or boolean ones) replaced by copies of their data."""
    if type(index) is tuple:
        return tuple(map(to_index, index))
    return np.array(index._values) if isinstance(index, ArrayMethods) else index


def _full_like(a: Any, fill_value: Any, **settings: Any) -> Any:
    """Plain as its siblings are, but for a value whose gradient would be lost."""
    fill = fill_value._leave("np.full_like") if isinstance(fill_value, ArrayMethods) else fill_value
    return np.full_like(to_array(a), fill, **settings)


TWINS[np.full_like] = _full_like


def _lengths(arguments: tuple[Any, ...]) -> Any:
    return arguments[0] if len(arguments) == 1 else arguments


def _call(first: T, name: str, *arguments: Any, **settings: Any) -> T:
    result: T = OPS[name](first, *arguments, **settings)
    return result


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
