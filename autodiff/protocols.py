"""How NumPy's own functions and conversions meet a tensor: they record, give plain results, or say why not.

Each call looks its op up in the tables, by the NumPy function, so this file knows no op and no rule.
"""

from __future__ import annotations

import functools
import inspect
import operator
import re
import sys
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import modes
from .arguments import ForeignError, arraylike
from .hints import ATTRIBUTES, in_place, instead
from .node import OPS, TWINS, Spec

__all__ = [
    "LATE", "METHODS", "PLAIN", "ForeignError", "NumPyProtocols", "as_numpy", "full_name", "is_foreign", "refuse_out",
    "signature_of", "to_array", "to_index", "to_mask",
]  # fmt: skip

PLAIN: frozenset[Any] = frozenset({
    # shapes, dtypes, memory, text
    np.zeros_like, np.ones_like, np.empty_like, np.shape, np.ndim, np.size, np.result_type, np.can_cast,
    np.min_scalar_type, np.common_type, np.iscomplexobj, np.isrealobj, np.shares_memory, np.may_share_memory,
    np.broadcast_shapes, np.einsum_path, np.array_repr, np.array_str, np.array2string, np.imag,
    # true or false
    np.isnan, np.isinf, np.isfinite, np.isposinf, np.isneginf, np.isreal, np.iscomplex, np.signbit, np.isin,
    np.any, np.all, np.allclose, np.isclose, np.array_equal, np.array_equiv,
    np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal,
    np.logical_and, np.logical_or, np.logical_xor, np.logical_not,
    # positions and counts
    np.nonzero, np.flatnonzero, np.argwhere, np.count_nonzero, np.argmax, np.argmin, np.nanargmax, np.nanargmin,
    np.argsort, np.argpartition, np.lexsort, np.searchsorted, np.digitize, np.diag_indices_from,
    np.tril_indices_from, np.triu_indices_from, np.unravel_index, np.ravel_multi_index,
    np.linalg.matrix_rank,
})  # fmt: skip
"""NumPy functions whose results carry no gradient: called on the data, with plain results."""

LATE: dict[str, Any] = {}
"""What records a ufunc of a module that may not be imported yet, by its full name, such as "scipy.special.erf"."""

METHODS: dict[tuple[np.ufunc, str], Callable[..., Any]] = {}
"""What records the methods of ufuncs on tensors: ``np.add.reduce(t)`` is that of ``(np.add, "reduce")``."""

_AS_USUAL: dict[str, Any] = {"casting": "same_kind", "order": "K", "subok": True, "signature": None, "sig": None}
"""Settings of a ufunc's call that change nothing as long as they are given so."""


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
                f".item(), to plot: t.data; to go on computing with a gradient use NumPy's functions or "
                f"autodiff.functional (F.stack joins tensors; F.set_at(array, index, t) stands for array[index] = t)"
            )
        return self._values

    def _number(self, kind: str) -> Any:
        """Return the data for a conversion to one number."""
        values = self._leave(f"{kind}()")
        if np.ndim(values):
            raise TypeError(
                f"{kind}() needs a tensor of shape (), not {np.shape(values)}: take one element, t[i], or all, "
                f"t.tolist()"
            )
        return values

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.array(self._leave("the conversion to an array"), dtype, copy=copy)

    def __float__(self) -> float:
        return float(self._number("float"))

    def __int__(self) -> int:
        return int(self._number("int"))

    def __complex__(self) -> complex:
        return complex(self._number("complex"))

    def __index__(self) -> int:
        return operator.index(self._leave("use as an index"))

    def __bool__(self) -> bool:
        if np.size(self._values) != 1:
            shape = np.shape(self._values)
            raise ValueError(f"the truth value of a tensor of shape {shape} is ambiguous; use .data.any()")
        return bool(self._values)

    def __contains__(self, value: Any) -> bool:
        return to_array(value) in np.asarray(self._values)

    def __getattr__(self, name: str) -> Any:  # only called for what is not there; NumPy asks for many of its own names
        raise AttributeError(f"a Tensor has no {name!r}{'' if name.startswith('_') else _spelled(name)}")

    # --- NumPy's protocols ---

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *args: Any, **settings: Any) -> Any:
        try:
            if method == "__call__" and not settings and ufunc in TWINS:
                twin = TWINS[ufunc]
                if not isinstance(twin, Spec) and any(map(is_foreign, args)):
                    raise ForeignError(f"{full_name(ufunc)}: another operand computes by rules of its own")
                return twin(*args)
            return _ufunc(ufunc, method, args, settings)
        except ForeignError:
            if any(_has_own(type(arg), "__array_ufunc__") for arg in args):
                return NotImplemented
            if not any(map(is_foreign, args)):  # it is inside of one
                raise
            arrays = [np.asarray(arg) if is_foreign(arg) else arg for arg in args]  # they decide by operators alone
            return self.__array_ufunc__(ufunc, method, *arrays, **settings)

    def __array_function__(self, function: Any, types: Any, args: Any, settings: Any) -> Any:
        if len(types) > 1 and any(_has_own(kind, "__array_function__") for kind in types):
            return NotImplemented
        if function in TWINS:
            return TWINS[function](*args, **settings)
        if function in PLAIN:
            _refuse_tensor_out(function, args, settings)
            return function(*_plain(args), **_plain(settings))
        if function is np.copyto:
            return _copyto(*args, **settings)
        raise _uncovered(full_name(function))


def is_foreign(value: Any) -> bool:
    """Whether an operand computes by rules of its own, so that NumPy's operators leave the result to it."""
    if isinstance(value, (np.generic, NumPyProtocols)) or type(value) is np.ndarray:
        return False
    priority = getattr(value, "__array_priority__", 0)
    return _has_own(type(value), "__array_ufunc__") or (isinstance(priority, (int, float)) and priority > 0)


def _has_own(kind: type, protocol: str) -> bool:
    """Whether a type answers one of NumPy's protocols in a way of its own."""
    theirs = getattr(kind, protocol, getattr(np.ndarray, protocol))
    return theirs is not getattr(np.ndarray, protocol) and not issubclass(kind, NumPyProtocols)


def to_array(value: Any) -> Any:
    """Return a tensor's data, and anything else as it is."""
    return value._values if isinstance(value, NumPyProtocols) else value


def to_index(index: Any) -> Any:
    """Return an index with the tensors in it (integer or boolean ones) replaced by copies of their data."""
    if isinstance(index, tuple):
        return index if _NO_TENSORS.issuperset(map(type, index)) else tuple(map(to_index, index))
    return np.array(index._values) if isinstance(index, NumPyProtocols) else index


_NO_TENSORS = frozenset({int, slice, type(None), type(...), np.ndarray})
"""Types of the usual parts of an index; what a call keeps of them is copied there."""


def _full_like(a: Any, fill_value: Any, *args: Any, **settings: Any) -> Any:
    """Plain as its siblings are, but for a value whose gradient would be lost."""
    fill = fill_value._leave("np.full_like") if isinstance(fill_value, NumPyProtocols) else fill_value
    return np.full_like(to_array(a), arraylike("np.full_like", fill), *args, **settings)


TWINS[np.full_like] = _full_like


def _copyto(dst: Any, src: Any, *args: Any, **settings: Any) -> None:
    """Write a constant's value into an array, as np.full_like and np.nan_to_num do with what they are given."""
    if isinstance(dst, NumPyProtocols) or (getattr(src, "requires_grad", False) and modes.current().record):
        more = " (np.full_like and np.nan_to_num of an array do this; write t * np.ones_like(a), np.where(mask, t, a).)"
        raise _uncovered("np.copyto", more)
    np.copyto(dst, to_array(src), *_plain(args), **_plain(settings))


def _plain(value: Any) -> Any:
    """Replace tensors by their data, also inside collections."""
    if isinstance(value, (list, tuple)):
        return (tuple if isinstance(value, tuple) else list)(map(_plain, value))
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    return to_array(value)


# --- the calls and methods of ufuncs ---


def _ufunc(ufunc: np.ufunc, method: str, args: Any, settings: dict[str, Any]) -> Any:
    """Record a call of a ufunc or of one of its methods, or say why not."""
    if "out" in settings:
        refuse_out(full_name(ufunc), settings.pop("out"))
    if method in ("reduce", "accumulate", "reduceat"):
        settings.pop("array", None)  # NumPy hands it on twice, as the first argument too
    if ufunc in PLAIN and method != "at":
        args, settings = _plain(args), _plain(settings)
        partial = method == "__call__" and settings.get("where", True) is not True
        return _call(ufunc, ufunc, args, settings) if partial else getattr(ufunc, method)(*args, **settings)
    if any(_has_own(type(arg), "__array_ufunc__") for arg in args):
        return NotImplemented
    twin = TWINS.get(ufunc) or _late(ufunc)
    if method == "__call__" and twin is not None:
        return _call(ufunc, twin, args, settings)
    if method == "outer" and twin is not None:
        return _call(ufunc, twin, _outer(*args), settings)
    if (ufunc, method) in METHODS:
        return METHODS[ufunc, method](*args, **settings)
    if method == "__call__":
        raise _uncovered(full_name(ufunc))
    covered = sorted(f"{full_name(known)}.{name}" for known, name in METHODS if name == method)
    raise _uncovered(f"{full_name(ufunc)}.{method}", f" Covered are {', '.join(covered)}." if covered else "")


def _call(ufunc: np.ufunc, twin: Callable[..., Any], args: Any, settings: dict[str, Any]) -> Any:
    """Record a call of a ufunc with ``where=``, ``dtype=`` and, for products of vectors, ``axis=``."""
    along = {"axis": settings.pop("axis")} if ufunc.signature == "(n),(n)->()" and "axis" in settings else {}
    where, dtype = settings.pop("where", True), settings.pop("dtype", None)
    for name, value in settings.items():
        if name not in _AS_USUAL:
            raise TypeError(f"{full_name(ufunc)} on a tensor does not take {name}=...")
        if value != _AS_USUAL[name]:
            raise TypeError(f"{full_name(ufunc)} on a tensor takes {name}={_AS_USUAL[name]!r} only, got {value!r}")
    if dtype is not None:
        args = _cast(ufunc, args, dtype)
    if where is True:
        return twin(*args, **along)
    if ufunc.signature is not None:
        raise TypeError(f"{full_name(ufunc)} does not take where=...: it does not work element by element")
    return _only_where(twin, args, where)


def _cast(ufunc: np.ufunc, args: Any, dtype: Any) -> list[Any]:
    """Cast the arguments to those of the loop that has this dtype of the result; NumPy refuses what loses too much."""
    given = tuple(type(arg) if type(arg) in (int, float) else np.asarray(to_array(arg)).dtype for arg in args)
    signature = (None,) * ufunc.nin + (np.dtype(dtype),) * ufunc.nout
    wanted = ufunc.resolve_dtypes((*given, *(None,) * ufunc.nout), signature=signature)
    pairs = list(zip(args, wanted, strict=False))
    return [arg if type(arg) in (int, float) else OPS["astype"](arg, dtype=to) for arg, to in pairs]


def _only_where(twin: Callable[..., Any], args: Any, mask: Any) -> Any:
    """Compute where a mask holds, and nowhere else, so that nothing leaks from there: 0, and no gradient.

    (NumPy leaves the rest of the result undefined.)
    """
    mask = to_mask(mask)
    shape = np.broadcast_shapes(mask.shape, *(np.shape(to_array(arg)) for arg in args))
    index = np.broadcast_to(mask, shape)
    picked = [
        arg if isinstance(arg, (int, float)) else OPS["getitem"](OPS["broadcast_to"](arg, shape=shape), index=index)
        for arg in args
    ]
    results = twin(*picked)
    if type(results) is tuple:
        return tuple([OPS["scatter_add"](result, index=index, shape=shape) for result in results])
    return OPS["scatter_add"](results, index=index, shape=shape)


def to_mask(where: Any) -> NDArray[np.bool_]:
    """Return ``where=`` as an array of booleans; NumPy takes nothing else for it."""
    mask = np.asarray(arraylike("where=", to_array(where)))
    if mask.dtype != bool:
        raise TypeError(f"where= takes booleans, got the dtype {mask.dtype}")
    return mask


def _outer(a: Any, b: Any) -> tuple[Any, Any]:
    """Give the first array an axis of length one for each of the second's, so that the two broadcast to all pairs."""
    ones = (1,) * np.ndim(to_array(b))
    return (OPS["reshape"](a, shape=np.shape(to_array(a)) + ones) if ones else a), b


def _late(ufunc: np.ufunc) -> Any:
    """Find the twin of a ufunc whose module was imported after this one; remember it."""
    for name, twin in LATE.items():
        module, _, own = name.rpartition(".")
        if getattr(sys.modules.get(module), own, None) is ufunc:
            return TWINS.setdefault(ufunc, twin)
    return None


# --- what is refused ---


def refuse_out(name: str, out: Any) -> None:
    """Refuse ``out=``: the result is recorded, so it has to be an array of its own."""
    if out is not None and not (isinstance(out, tuple) and all(part is None for part in out)):
        raise TypeError(
            f"{name} cannot write a tensor's result into out=...: assign the result; for an array on the left of +=, "
            f"write a = a + t"
        )


def _refuse_tensor_out(function: Any, args: Any, settings: Any) -> None:
    """Refuse to write a plain result into a tensor, in whatever form ``out`` was given."""
    signature = signature_of(function)
    if signature is None or "out" not in signature.parameters:
        return
    out = signature.bind(*args, **settings).arguments.get("out")
    if any(isinstance(part, NumPyProtocols) for part in (out if isinstance(out, (tuple, list)) else (out,))):
        raise TypeError(
            f"{full_name(function)} cannot write into the tensor in out=..., whose values a graph may have saved: "
            f"assign the result; a leaf's values are set by t.data = ..."
        )


def full_name(function: Any) -> str:
    """Return a function's name as users write it, such as "np.linalg.norm"."""
    name: str = function.__name__
    if isinstance(function, np.ufunc):
        modules = {"np": np, "scipy.special": sys.modules.get("scipy.special")}
        found = [known for known, module in modules.items() if getattr(module, name, None) is function]
        return f"{found[0]}.{name}" if found else name
    module: str = function.__module__
    return re.sub(r"^numpy\b", "np", f"{module}.{name}")


def _uncovered(name: str, more: str = "") -> TypeError:
    covered = {full_name(function) for function in TWINS}
    return TypeError(
        f"{name} has no VJP rule, so it cannot be recorded for a tensor.{more}{instead(name, sorted(covered))} For a "
        f"result without a gradient, call it on t.data; to add a rule, see autodiff.op"
    )


def _spelled(name: str) -> str:
    """Return a hint how to write what is an attribute elsewhere."""
    if known := ATTRIBUTES.get(name) or in_place(name):
        return f": {known}"
    function = getattr(np, name, None)
    if callable(function) and (function in TWINS or function in PLAIN):
        return f": write np.{name}({_required(function)})"
    return f": write F.{name}({_required(OPS[name].forward)}), as in autodiff.functional" if name in OPS else ""


def _required(function: Any) -> str:
    """Write the arguments of a call with a tensor as the first."""
    signature = signature_of(function)
    if isinstance(function, np.ufunc):
        names = [f"x{i}" for i in range(1, function.nin + 1)]
    else:
        parameters = {} if signature is None else signature.parameters
        names = [name for name, parameter in parameters.items() if parameter.default is parameter.empty]
    return ", ".join(["t", *names[1:]])


# --- the arguments of NumPy's functions ---


_IN_C: dict[Any, Callable[..., None]] = {
    np.concatenate: lambda arrays, /, axis=0, out=None, *, dtype=None, casting="same_kind": None,
    np.dot: lambda a, b, out=None: None,
    np.inner: lambda a, b, /: None,
    np.vdot: lambda a, b, /: None,
    np.where: lambda condition, x=None, y=None, /: None,
}
"""The parameters of functions that are written in C: before 2.4, NumPy does not tell them."""


@functools.cache
def signature_of(function: Any) -> inspect.Signature | None:
    """Return the signature of a function; None for a ufunc, and for one in C that does not tell it."""
    try:
        return None if isinstance(function, np.ufunc) else inspect.signature(_IN_C.get(function, function))
    except ValueError:
        return None


def as_numpy(function: Callable[..., Any], made: Any) -> Callable[..., Any]:
    """Let an op be called with the arguments of its NumPy twin: arrays first, settings by NumPy's names and order."""
    count = len(made.signature.arguments)

    def call(*args: Any, **settings: Any) -> Any:
        signature = signature_of(function)
        defaults: dict[str, Any] = {}
        if signature is None or made.signature.variadic:
            names = [*made.signature.arguments, *made.signature.order]
            given: Iterable[tuple[str, Any]] = [*zip(names, args, strict=False), *settings.items()]
            if len(args) > len(names):
                raise TypeError(f"{full_name(function)} on a tensor takes at most {len(names)} arguments")
        else:
            given = signature.bind(*args, **settings).arguments.items()
            defaults = {name: parameter.default for name, parameter in signature.parameters.items()}
        order = list(signature.parameters)[:count] if signature is not None else list(made.signature.arguments)
        arrays: list[Any] = []
        rest: dict[str, Any] = {}
        for i, (name, value) in enumerate(given):
            if i < count and (name in order or made.signature.variadic):
                arrays.append(value)
            elif name == "out":
                refuse_out(full_name(function), value)
            elif value is np._NoValue or (name not in made.signature.order and _is_default(value, defaults.get(name))):
                continue
            else:
                rest[name] = value
        unknown = [name for name in rest if name not in made.signature.order]
        if unknown:
            raise TypeError(
                f"{full_name(function)} on a tensor does not take {unknown[0]}={rest[unknown[0]]!r}; it is "
                f"{made.name}{made.signature}"
            )
        return made(*arrays, **rest)

    return call


def _is_default(value: Any, default: Any) -> bool:
    """Whether a setting that an op lacks is given as NumPy's default, and so changes nothing."""
    return value is None or value is default or (type(value) in (str, bool, int) and value == default)
