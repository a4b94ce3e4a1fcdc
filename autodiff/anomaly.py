"""Anomaly mode: which op, where in the program, made the first value that is not finite, or saved what has changed.

While the mode is on, every op's output is looked at as it is made, and every contribution of the backward pass as it
arrives; a node remembers the line that recorded it and a checksum of each array that it saved. While it is off, a call
costs one look at the mode.
"""

from __future__ import annotations

import linecache
import os
import sys
import zlib
from collections.abc import Callable, Collection, Iterator, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from . import backward, modes
from .modes import Switch
from .node import Array, Node, Spec, Vertex
from .trees import leaves

__all__ = ["AnomalyError", "arrays_in", "check_forward", "detect_anomaly", "origin_of", "quiet", "sweep"]


class AnomalyError(RuntimeError):
    """A value that is not finite, or a saved array that has changed, found under `detect_anomaly`.

    Attributes
    ----------
    op : str
        Name of the op at fault.
    phase : {"forward", "backward", "saved"}
        Whether its forward made the value, its VJP rule did, or a value that it saved has changed.
    argument : str or None
        The argument whose cotangent it is, or whose data have changed.
    index : tuple of int or None
        First element concerned, of the output or of the cotangent.
    line : str or None
        "file:line" where the op was called; None if it was recorded while the mode was off.
    """

    __module__ = "autodiff"

    def __init__(
        self, message: str, *, op: str, phase: str, argument: str | None = None, index: tuple[int, ...] | None = None,
        line: str | None = None,
    ) -> None:  # fmt: skip
        super().__init__(message)
        self.op, self.phase, self.argument, self.index, self.line = op, phase, argument, index, line


def detect_anomaly() -> Switch:
    """Raise an `AnomalyError` at the first op, forward or backward, that makes a value which is not finite.

    NaN counts where no argument holds NaN, infinity where all arguments are finite (element by element, for ops that
    work so): a mask of ``-inf`` that you pass in is yours. In the backward pass a saved array that was written to since
    the forward is named as well. Use it for both passes, so that errors of the second know the line of the first; it
    takes several times as long as without.

    Returns
    -------
    Switch
        A context manager that is also a decorator.

    Raises
    ------
    AnomalyError
        Inside, from an op or from ``backward`` and ``gradients``.

    Examples
    --------
    >>> import numpy as np
    >>> import autodiff as ad
    >>> x = ad.Tensor([4.0, 0.0], requires_grad=True)
    >>> with ad.detect_anomaly():
    ...     y = np.where(x > 0, np.sqrt(x), 0.0)
    ...     y.sum().backward()
    Traceback (most recent call last):
        ...
    autodiff.AnomalyError: the VJP rule of 'sqrt' made nan for argument 'x' at x[1]: ...
    """
    return Switch(anomaly=True)


class Origin(NamedTuple):
    """What a node remembers of its making: the line in the caller's file, and what its saved arrays held."""

    line: str
    text: str
    sums: list[int]

    def __str__(self) -> str:
        return f"called at {self.line}" + (f": {self.text}" if self.text else "")


quiet: Callable[..., Any] = np.errstate(all="ignore")
"""Decorates what runs under the mode: where NumPy would warn, an error of ours says more."""


# --- forward ---


def check_forward(op: Spec, values: Sequence[Any], out: Any) -> None:
    """Refuse an output with a new kind of number: NaN where no argument holds one, infinity where all are finite."""
    if _sweeping.get():  # ops that a rule calls: what counts is the contribution that it makes of them
        return
    given = [array for value in values for array in arrays_in(value) if array.dtype.kind == "f"]
    for part in arrays_in(out):
        new = _new(op, given, part)
        if new.any():
            index, value = _first(part, new)
            line, text = _caller()
            lines = [_given(op.argument_name(i), x, part.shape, index) for i, x in enumerate(values) if x is not None]
            lines.append(str(Origin(line, text, [])))
            if op.elementwise:
                lines.append(
                    "Should np.where discard this element later, its gradient may still be lost (0 x inf is nan): "
                    "F.safe_where(condition, f, x, otherwise) calls f only where the condition holds"
                )
            raise AnomalyError(
                f"the forward of {op.name!r}{_within(modes.current().scope)} made {value} at {_element('out', index)}; "
                f"out has the shape {part.shape}\n  " + "\n  ".join(lines),
                op=op.name, phase="forward", index=index, line=line,
            )  # fmt: skip


_sweeping: ContextVar[bool] = ContextVar("autodiff_sweeping", default=False)


def _new(op: Spec, given: list[NDArray[Any]], part: NDArray[Any]) -> NDArray[np.bool_]:
    """Mark the elements that are NaN or infinite and cannot have it from an argument, as far as can be told."""
    marked: NDArray[np.bool_] = np.zeros(part.shape, bool)
    if part.dtype.kind != "f" or np.isfinite(part).all():
        return marked
    nan_given: Any = False
    bad_given: Any = False
    for array in given:
        nan, bad = np.isnan(array), ~np.isfinite(array)
        nan_given = nan_given | (nan if op.elementwise else nan.any())
        bad_given = bad_given | (bad if op.elementwise else bad.any())
    return np.asarray((np.isnan(part) & ~nan_given) | (np.isinf(part) & ~bad_given))


def origin_of(node: Node) -> Origin:
    """Note where a node is being recorded, and what its saved arrays hold."""
    return Origin(*_caller(), [_checksum(array) for _, array in _saved(node)])


_BELOW = tuple(f"{Path(package.__file__).parent}{os.sep}" for package in (modes, np) if package.__file__)


def _caller() -> tuple[str, str]:
    """Find the innermost line that is neither ours nor NumPy's."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_BELOW):
        frame = frame.f_back
    name, number = frame.f_code.co_filename, frame.f_lineno
    return f"{name}:{number}", linecache.getline(name, number, frame.f_globals).strip()


def _saved(node: Node) -> Iterator[tuple[str, NDArray[Any]]]:
    """Give each array that a node saved, with the name by which a rule asks for it."""
    for i, value in enumerate(node.inputs or ()):
        for array in arrays_in(value):
            yield node.op.argument_name(i), array
    for name, value in {"out": node.out, **(node.extra or {})}.items():
        for array in arrays_in(value):
            yield name, array


def arrays_in(value: Any) -> Iterator[NDArray[Any]]:
    """Find the arrays and numbers in a value, through tuples, lists and dicts, as arrays."""
    for _, leaf in leaves(value):
        if isinstance(leaf, (np.ndarray, np.generic, float, int)):
            yield np.asarray(leaf)


def _checksum(array: NDArray[Any]) -> int:
    return zlib.crc32(array.tobytes())


# --- backward ---


def sweep(
    roots: Sequence[tuple[Vertex, Array]], targets: Collection[Vertex] | None = None, **how: Any
) -> dict[Vertex, Array]:
    """Make the backward sweep, watched where the mode is on."""
    if not modes.current().anomaly:
        return backward.sweep(roots, targets, **how)
    token = _sweeping.set(True)
    try:
        watched: dict[Vertex, Array] = quiet(backward.sweep)(roots, targets, watch=_Watcher(roots), **how)
    finally:
        _sweeping.reset(token)
    return watched


class _Watcher:
    """Looks at every contribution of one sweep."""

    def __init__(self, roots: Sequence[tuple[Vertex, Array]]) -> None:
        self.cotangents: dict[Vertex, Array] = dict(roots)
        self.consumers: dict[Vertex, set[str]] = {}
        self.node: Node | None = None
        for vertex, g in roots:
            _look(vertex, g)

    def __call__(self, node: Node, argument: str, contribution: Array, total: Array) -> None:
        if node is not self.node:
            _check_saved(node)
            self.node = node
        i = [node.op.argument_name(i) for i in range(len(node.parents))].index(argument)
        parent = node.parents[i]
        assert parent is not None  # a constant gets no contribution
        value = _plain(contribution)
        if not np.isfinite(value).all():
            raise self._error(node, argument, value)
        if not np.isfinite(_plain(total)).all():
            index, bad = _first(_plain(total), ~np.isfinite(_plain(total)))
            raise AnomalyError(
                f"the cotangents that arrive at argument {argument!r} of {node.op.name!r} are finite, their sum is "
                f"{bad} at {_element(argument, index)}\n  {_origin(node)}",
                op=node.op.name, phase="backward", argument=argument, index=index, line=_line(node),
            )  # fmt: skip
        self.cotangents[parent] = total
        self.consumers.setdefault(parent, set()).add(node.op.name)

    def _error(self, node: Node, argument: str, contribution: NDArray[Any]) -> AnomalyError:
        index, bad = _first(contribution, ~np.isfinite(contribution))
        lines = [
            f"the VJP rule of {node.op.name!r}{_within(node.scope)} made {bad} for argument {argument!r} at "
            f"{_element(argument, index)}: the argument has the shape {contribution.shape}, the output {node.shape}"
        ]
        lines += [_given(name, value, contribution.shape, index) for name, value in _saved(node) if value.dtype != bool]
        lines.append(_origin(node))
        for name, value in _saved(node):
            if value.dtype.kind == "f" and not np.isfinite(value).all():
                at, held = _first(value, ~np.isfinite(value))
                lines.append(
                    f"{_element(name, at)} was {held} before: if no op was named when it was made, it came in with the "
                    f"data"
                )
        g = self.cotangents.get(node)
        if type(g) is not list and g is not None and contribution.shape == np.shape(g) and _plain(g)[index] == 0:
            below_where = "where" in self.consumers.get(node, ())
            discarded = "np.where discards this element" if below_where else "it is not used"
            lines.append(
                f"The cotangent is 0 there ({discarded}), and the derivative is infinite: 0 x inf is nan. Compute "
                f"{node.op.name!r} only where it is used: F.safe_where(condition, f, x, otherwise)"
            )
        return AnomalyError(
            "\n  ".join(lines), op=node.op.name, phase="backward", argument=argument, index=index, line=_line(node)
        )


def _look(vertex: Vertex, g: Array) -> None:
    """Refuse a cotangent that is not finite before it spoils everything below."""
    if not np.isfinite(_plain(g)).all():
        index, bad = _first(_plain(g), ~np.isfinite(_plain(g)))
        name = vertex.op.name if type(vertex) is Node else "leaf"
        raise AnomalyError(
            f"the cotangent passed to backward is {bad} at {_element('g', index)}",
            op=name, phase="backward", index=index,
        )  # fmt: skip


def _check_saved(node: Node) -> None:
    """Refuse saved arrays that do not hold what they held when the node was recorded."""
    if node.origin is None:
        return
    for (name, array), before in zip(_saved(node), node.origin.sums, strict=True):
        if _checksum(array) != before:
            raise AnomalyError(
                f"{name!r}, an array of shape {array.shape} that {node.op.name!r} saved for its VJP rule, was changed "
                f"in place before the backward pass\n  {_origin(node)}\n  Write into a copy, or call backward first",
                op=node.op.name, phase="saved", argument=name, line=_line(node),
            )  # fmt: skip


# --- words ---


def _plain(value: Array) -> NDArray[Any]:
    """Return the data: where the sweep itself is recorded, contributions are tensors."""
    return np.asarray(getattr(value, "_values", value))


def _first(array: NDArray[Any], where: NDArray[np.bool_]) -> tuple[tuple[int, ...], float]:
    """Find the first element that is marked."""
    index = tuple(map(int, np.unravel_index(int(np.argmax(where)), array.shape)))
    return index, float(array[index])


def _given(name: str, value: Any, shape: tuple[int, ...], index: tuple[int, ...]) -> str:
    """Describe a value: its shape, and the element that goes with one of an array that it broadcasts to, if it does."""
    array = np.asarray(value)
    described = f"{name}: shape {array.shape}, {array.dtype}"
    lead = len(shape) - array.ndim
    if lead < 0 or any(side not in (1, length) for side, length in zip(array.shape, shape[lead:], strict=True)):
        return described
    there = tuple(0 if side == 1 else i for side, i in zip(array.shape, index[lead:], strict=True))
    return f"{described}, {_element(name, there)} = {array[there]:.6g}"


def _element(name: str, index: tuple[int, ...]) -> str:
    return f"{name}[{', '.join(map(str, index))}]" if index else name


def _within(scope: str) -> str:
    return f" in {scope}" if scope else ""


def _origin(node: Node) -> str:
    return str(node.origin or "recorded while anomaly mode was off, so the line is not known")


def _line(node: Node) -> str | None:
    return None if node.origin is None else node.origin.line
