"""Where single precision is lost: a forward or a rule is run on arrays that watch what is done with them."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

__all__ = ["promotion"]


def promotion(call: Callable[[Callable[[Any], Any]], object]) -> tuple[str, ...]:
    """Find what turns float32 into another dtype; empty if it is not seen.

    Parameters
    ----------
    call : callable
        Runs what is to be watched. It is given a function that makes an array watchful, for its arguments.

    Returns
    -------
    tuple of str
        What it was and what to write instead; and the line where it happened.
    """
    seen: list[tuple[str, ...]] = []

    class Watchful(_Watchful):
        notes = seen

    def watched(value: Any) -> Any:
        is_single = isinstance(value, (np.ndarray, np.generic)) and value.dtype == np.float32
        return np.asarray(value).view(Watchful) if is_single else value

    try:
        with np.errstate(all="ignore"):
            call(watched)
    except Exception:  # it takes no arrays of another class: then nothing more is known
        pass
    return seen[0] if seen else ()


class _Watchful(np.ndarray):
    """An array that notes the first operation that takes single precision only from it, and gives another."""

    notes: list[tuple[str, ...]]

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **settings: Any) -> Any:
        plain = [_plain(x) for x in inputs]
        if "out" in settings:
            settings["out"] = tuple(map(_plain, settings["out"]))
        result = getattr(ufunc, method)(*plain, **settings)
        given = [np.asarray(x) if isinstance(x, (tuple, list)) else x for x in inputs]
        self._note(ufunc.__name__ if method == "__call__" else f"{ufunc.__name__}.{method}", given, settings, result)
        return self._wrap(result)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        result = super().__array_function__(function, types, args, kwargs)
        given = [*_arrays(args), *_arrays(kwargs.values())]
        self._note(function.__name__, given, kwargs, result)
        return self._wrap(result)

    def astype(self, dtype: Any, *args: Any, **settings: Any) -> Any:
        """Note that another dtype is asked for."""
        result = _plain(self).astype(dtype, *args, **settings)
        self._note("astype", [self], {"dtype": dtype}, result)
        return self._wrap(result)

    def _wrap(self, result: Any) -> Any:
        if isinstance(result, tuple):
            return tuple(map(self._wrap, result))
        floats = isinstance(result, (np.ndarray, np.generic)) and result.dtype.kind == "f"
        return np.asarray(result).view(type(self)) if floats else result

    def _note(self, name: str, given: Iterable[Any], settings: dict[str, Any], result: Any) -> None:
        """Note an operation that promotes, by what promotes in it."""
        results = [x for x in _arrays([result]) if x.dtype.kind == "f"]
        if self.notes or not results or all(x.dtype == np.float32 for x in results):
            return
        others = [x for x in given if isinstance(x, (np.ndarray, np.generic)) and x.dtype != np.float32]
        cause = next((cause for other in others if (cause := _cause(other)) is not None), None)
        if settings.get("dtype") is not None:
            cause = f"{name} is asked for dtype={results[0].dtype}: leave that out, or ask for the argument's dtype"
        elif cause is not None:
            cause = f"{name} meets {cause}"
        if cause is not None:
            self.notes.append((cause, *_line()))


def _cause(other: Any) -> str | None:
    """Describe an operand that promotes float32, and what to write instead."""
    kind = {"i": "integer", "u": "integer", "f": "float"}.get(other.dtype.kind)
    if kind is None or (other.dtype.kind == "f" and other.dtype.itemsize < 8) or np.result_type(
        other.dtype, np.float32
    ) == np.float32:  # fmt: skip
        return None
    if np.ndim(other) == 0:
        return f"a NumPy {other.dtype} number: make it a Python number, which does not promote"
    made = "np.arange(n, dtype=x.dtype)" if kind == "integer" else "np.ones(n, x.dtype)"
    return (
        f"an array of {other.dtype}, shape {other.shape}, which promotes float32: give it the argument's dtype, by "
        f".astype(x.dtype) or as in {made}"
    )


def _plain(value: Any) -> Any:
    return value.view(np.ndarray)[()] if isinstance(value, _Watchful) else value


def _arrays(values: Iterable[Any]) -> Iterator[Any]:
    """Find arrays, also inside of tuples and lists."""
    for value in values:
        if isinstance(value, (tuple, list)):
            yield from _arrays(value)
        elif isinstance(value, (np.ndarray, np.generic)):
            yield value


def _line() -> tuple[str, ...]:
    """Write the innermost line that is neither NumPy's nor of this file."""
    numpy = os.path.dirname(np.__file__)
    frames = [f for f in traceback.extract_stack() if f.filename != __file__ and not f.filename.startswith(numpy)]
    return (f"at {frames[-1].filename}:{frames[-1].lineno}: {frames[-1].line}",) if frames else ()
