"""What a tensor has because an ndarray has it: attributes and methods.

Each looks its op up by name, so this file knows no op and no rule.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, Self, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from .hints import answering, refuse_settings
from .node import OPS, TWINS
from .operators import ArrayOperators
from .protocols import refuse_out, to_array, to_index

__all__ = ["ArrayMethods"]

T = TypeVar("T")
Axis: TypeAlias = int | tuple[int, ...] | None


class ArrayMethods(ArrayOperators):
    """Attributes and methods of an array, recorded; its ``_values`` is the array."""

    __slots__ = ()

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

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return int(self._values.itemsize)

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return int(self._values.nbytes)

    def item(self, *index: Any) -> Any:
        """Return the one element as a Python number, or the one at an index."""
        if not index and self._values.size != 1:
            raise ValueError(f"item() needs one element; the shape is {self.shape}: write t.tolist(), or t.item(index)")
        return self._values.item(*index)

    def __format__(self, spec: str) -> str:
        if spec and self._values.size == 1:
            return format(self.item(), spec)
        try:
            return format(repr(self), spec)
        except ValueError:
            raise ValueError(
                f"the format {spec!r} needs one element; the tensor has the shape {self.shape}: take one, t[i], or "
                f"write np.array2string(t.data, precision=2)"
            ) from None

    def numpy(self) -> NDArray[Any]:
        """Return a copy of the values."""
        return np.array(self._values)

    def tolist(self) -> Any:
        """Return the values as nested lists of Python numbers."""
        return self._values.tolist()

    def __len__(self) -> int:
        if not self._values.shape:
            raise TypeError("len() of a tensor of shape (); for another library, take t.data")
        return int(self._values.shape[0])

    def __iter__(self) -> Iterator[Self]:
        if not self._values.shape:
            raise TypeError("iteration over a tensor of shape (); for another library, take t.data")
        return (self[i] for i in range(len(self)))

    def __neg__(self) -> Self:
        return _call(self, "negative")

    def __pos__(self) -> Self:
        return self

    def __abs__(self) -> Self:
        return _call(self, "abs")

    def __round__(self, ndigits: int | None = None) -> Self:
        return self.round(ndigits or 0)

    def __getitem__(self, index: Any) -> Self:
        return _call(self, "getitem", index=to_index(index))

    def __delitem__(self, index: Any) -> None:
        raise TypeError("elements of a tensor cannot be deleted: write t = np.delete(t, index, axis)")


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

    def reshape(self, *shape: Any, order: str = "C", copy: bool | None = None) -> Self:
        """Same elements in a new shape, given as one tuple or as several lengths; `copy` makes no difference."""
        if not shape:
            raise TypeError("reshape() takes the new shape: a tuple, or lengths; of a number it is reshape(())")
        if order == "C":
            return _call(self, "reshape", shape=_lengths(shape))
        return _numpy(self, np.reshape, _lengths(shape), order)

    def transpose(self, *axes: Any) -> Self:
        """Axes in a new order, given as one tuple or as several numbers; reversed if none is given."""
        return _call(self, "transpose", axes=_lengths(axes) if axes and axes != (None,) else None)

    def swapaxes(self, axis1: int, axis2: int) -> Self:
        """Two axes exchanged."""
        return _call(self, "swapaxes", axis1=axis1, axis2=axis2)

    @answering
    def squeeze(self, axis: int | tuple[int, ...] | None = None) -> Self:
        """Axes of length one removed."""
        return _call(self, "squeeze", axis=axis)

    def ravel(self, order: str | None = "C") -> Self:
        """All elements along one axis."""
        return self.reshape(-1, order=order or "C")

    flatten = ravel

    @answering
    def diagonal(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Self:
        """Diagonal of a matrix, or of every matrix in a stack."""
        return _numpy(self, np.diagonal, offset, axis1, axis2)

    def astype(
        self, dtype: Any, order: str = "K", casting: Any = "unsafe", subok: bool = True, copy: bool = True
    ) -> Self:
        """Return the values in another floating type; the gradient comes back in this one's.

        Results are never written to, so whether this one is a copy, and its layout, make no difference.
        """
        wanted = np.dtype(dtype)  # of None, float64
        if not np.can_cast(self.dtype, wanted, casting):
            raise TypeError(f"a tensor of dtype {self.dtype} cannot be cast to {wanted} with {casting=}")
        return _call(self, "astype", dtype=wanted)

    def copy(self, order: str = "C") -> Self:
        """Return a copy, recorded; `numpy` copies the values, `detach` gives a constant."""
        return _call(self, "copy")

    def conj(self) -> Self:
        """Return the tensor itself: it is real."""
        return self

    conjugate = conj

    @property
    def real(self) -> Self:
        """The tensor itself: it is real."""
        return self

    @answering
    def clip(self, min: Any = None, max: Any = None, out: Any = None) -> Self:
        """Values limited to [min, max]; the gradient passes where they lie inside, bounds included."""
        refuse_out("t.clip", out)
        return _call(self, "clip", min, max)

    @answering
    def take(self, indices: Any, axis: int | None = None, out: Any = None, mode: str = "raise") -> Self:
        """Elements at integer indices along an axis."""
        return _numpy(self, np.take, indices, axis, out, mode)

    @answering
    def repeat(self, repeats: Any, axis: int | None = None) -> Self:
        """Each element repeated."""
        return _call(self, "repeat", repeats=repeats, axis=axis)

    @answering
    def compress(self, condition: Any, axis: int | None = None, out: Any = None) -> Self:
        """Slices along an axis, or elements in order, for which a condition holds."""
        refuse_out("t.compress", out)
        result: Self = TWINS[np.compress](condition, self, axis)
        return result

    @answering
    def choose(self, choices: Any, out: Any = None, mode: str = "raise") -> Self:
        """Elements of several arrays; this tensor, of integers, tells from which one each."""
        return _numpy(self, np.choose, choices, out, mode)

    @answering
    def round(self, decimals: int = 0, out: Any = None) -> Self:
        """Values rounded; their gradient is 0."""
        return _numpy(self, np.round, decimals, out)

    def dot(self, b: Any, out: Any = None) -> Self:
        """Sums of products over the last axis and the last but one of the other. See `dot`."""
        return _numpy(self, np.dot, b, out)

    @answering
    def trace(self, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None, out: Any = None) -> Self:
        """Sum along a diagonal of a matrix, or of every matrix in a stack."""
        return _numpy(self, np.trace, offset, axis1, axis2, dtype, out)

    # --- plain results, without a gradient ---

    @answering
    def argmax(self, axis: int | None = None, out: Any = None, *, keepdims: bool = False) -> Any:
        """Index of the largest element, among all in order or along an axis."""
        return np.argmax(self._values, axis, out, keepdims=keepdims)

    @answering
    def argmin(self, axis: int | None = None, out: Any = None, *, keepdims: bool = False) -> Any:
        """Index of the smallest element, among all in order or along an axis."""
        return np.argmin(self._values, axis, out, keepdims=keepdims)

    @answering
    def argsort(self, axis: int | None = -1, kind: Any = None, order: Any = None, *, stable: Any = None) -> Any:
        """Indices that sort along an axis; `np.sort` records the sorted values."""
        return np.argsort(self._values, axis, kind, order, stable=stable)

    @answering
    def argpartition(
        self, kth: Any, axis: int | None = -1, kind: Literal["introselect"] = "introselect", order: Any = None
    ) -> Any:
        """Indices that put the k-th smallest element in its place along an axis."""
        return np.argpartition(self._values, kth, axis, kind, order)

    def searchsorted(self, v: Any, side: Literal["left", "right"] = "left", sorter: Any = None) -> Any:
        """Where numbers belong among these, which are sorted."""
        return np.searchsorted(self._values, to_array(v), side, sorter)

    def nonzero(self) -> tuple[NDArray[Any], ...]:
        """Indices of the elements that are not 0, an array for each axis."""
        return np.nonzero(self._values)

    @answering
    def all(self, axis: Axis = None, out: Any = None, keepdims: bool = False, *, where: Any = True) -> Any:
        """Whether no element is 0, over the axes given or over all."""
        return np.all(self._values, axis, out, keepdims, where=to_array(where))

    @answering
    def any(self, axis: Axis = None, out: Any = None, keepdims: bool = False, *, where: Any = True) -> Any:
        """Whether an element is not 0, over the axes given or over all."""
        return np.any(self._values, axis, out, keepdims, where=to_array(where))

    # --- reductions and scans; `others` are the rest of NumPy's settings: initial, where, mean, correction ---

    @answering
    def cumsum(self, axis: int | None = None, dtype: Any = None, out: Any = None) -> Self:
        """Running sum along an axis, or over all elements in order."""
        return _reduce(self, "cumsum", {"dtype": dtype, "out": out}, axis=axis)

    @answering
    def cumprod(self, axis: int | None = None, dtype: Any = None, out: Any = None) -> Self:
        """Running product along an axis, or over all elements in order."""
        return _reduce(self, "cumprod", {"dtype": dtype, "out": out}, axis=axis)

    def sum(
        self, axis: Axis = None, dtype: Any = None, out: Any = None, keepdims: bool = False, **others: Any
    ) -> Self:
        """Sum over the axes given, or over all."""
        return _reduce(self, "sum", {"dtype": dtype, "out": out, **others}, axis=axis, keepdims=keepdims)

    def mean(
        self, axis: Axis = None, dtype: Any = None, out: Any = None, keepdims: bool = False, **others: Any
    ) -> Self:
        """Arithmetic mean over the axes given, or over all."""
        return _reduce(self, "mean", {"dtype": dtype, "out": out, **others}, axis=axis, keepdims=keepdims)

    def prod(
        self, axis: Axis = None, dtype: Any = None, out: Any = None, keepdims: bool = False, **others: Any
    ) -> Self:
        """Product over the axes given, or over all."""
        return _reduce(self, "prod", {"dtype": dtype, "out": out, **others}, axis=axis, keepdims=keepdims)

    def max(self, axis: Axis = None, out: Any = None, keepdims: bool = False, **others: Any) -> Self:
        """Largest element; tied ones share the gradient evenly over the axes given, or over all."""
        return _reduce(self, "max", {"out": out, **others}, axis=axis, keepdims=keepdims)

    def min(self, axis: Axis = None, out: Any = None, keepdims: bool = False, **others: Any) -> Self:
        """Smallest element; tied ones share the gradient evenly over the axes given, or over all."""
        return _reduce(self, "min", {"out": out, **others}, axis=axis, keepdims=keepdims)

    def var(
        self, axis: Axis = None, dtype: Any = None, out: Any = None, ddof: float = 0, keepdims: bool = False,
        **others: Any,
    ) -> Self:  # fmt: skip
        """Variance over the axes given, or over all; the divisor is the count minus ddof."""
        settings = {"axis": axis, "ddof": ddof, "keepdims": keepdims}
        return _reduce(self, "var", {"dtype": dtype, "out": out, **others}, **settings)

    def std(
        self, axis: Axis = None, dtype: Any = None, out: Any = None, ddof: float = 0, keepdims: bool = False,
        **others: Any,
    ) -> Self:  # fmt: skip
        """Standard deviation over the axes given, or over all; the divisor is the count minus ddof."""
        settings = {"axis": axis, "ddof": ddof, "keepdims": keepdims}
        return _reduce(self, "std", {"dtype": dtype, "out": out, **others}, **settings)


def _lengths(arguments: tuple[Any, ...]) -> Any:
    return arguments[0] if len(arguments) == 1 else arguments


def _reduce(first: T, name: str, others: dict[str, Any], **settings: Any) -> T:
    """Reduce; with others of NumPy's settings (dtype, where, initial and so on), as NumPy's function does."""
    others = {key: value for key, value in others.items() if value is not None}
    if not others:
        return _call(first, name, **settings)
    refuse_settings(f"{name}()", others, (*settings, "dtype", "out", "where", "initial", "mean", "correction"))
    result: T = TWINS[getattr(np, name)](first, **settings, **others)
    return result


def _numpy(first: T, function: Any, *arguments: Any, **settings: Any) -> T:
    """Record NumPy's function."""
    result: T = TWINS[function](first, *arguments, **settings)
    return result


def _call(first: T, name: str, *arguments: Any, **settings: Any) -> T:
    result: T = OPS[name].call(first, *arguments, **settings)
    return result
