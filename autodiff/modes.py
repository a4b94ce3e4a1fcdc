"""How calls are recorded right now: one context variable holding one immutable mode.

Every switch (`no_grad`, `decompose`, `scope`) replaces the mode on entry and puts the outer one back on exit, also when
an exception leaves the block. Context variables are local to a thread and to an asynchronous task, so no switch leaks
into somebody else's computation.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Generator
from contextvars import ContextVar
from typing import Any, NamedTuple, ParamSpec, TypeVar, cast

__all__ = ["Mode", "current", "decompose", "no_grad", "recording", "scope", "transforming"]

P = ParamSpec("P")
R = TypeVar("R")


class Mode(NamedTuple):
    """What recording does at the moment.

    Attributes
    ----------
    record : bool
        Whether calls on tensors that require a gradient add nodes to the graph.
    decompose : bool
        Whether a fused op is recorded as its decomposition into primitives.
    anomaly : bool
        Whether every value is checked as it is made.
    nested : bool
        Whether a transform such as `grad` is running its function: one inside must give results that are recorded.
    scope : str
        Dotted path of the enclosing scopes, kept by every node made inside.
    outer : Mode or None
        The mode that the innermost switch replaced, and to which its exit returns.
    """

    record: bool = True
    decompose: bool = False
    anomaly: bool = False
    nested: bool = False
    scope: str = ""
    outer: Mode | None = None


_mode: ContextVar[Mode] = ContextVar("autodiff_mode", default=Mode())  # noqa: B039  # immutable

current = _mode.get
"""Return the mode in force (a bare function call, since every recorded op makes it)."""


class Switch:
    """A change of mode, as a context manager and as a decorator.

    The mode that a switch replaced hangs on the mode it set, not on the switch. So one instance can be entered again
    while it is active, and used by several threads at once. It remembers only the last mode it made: a layer of a model
    is entered from the same mode in every step, and modes are immutable.
    """

    __slots__ = ("_anomaly", "_decompose", "_made", "_name", "_nested", "_record")

    def __init__(
        self, record: bool | None = None, decompose: bool | None = None, name: str | None = None, anomaly: bool = False,
        nested: bool = False,
    ) -> None:  # fmt: skip
        self._record, self._decompose, self._name = record, decompose, name
        self._anomaly, self._nested = anomaly, nested
        self._made = Mode()

    def __enter__(self) -> None:
        outer, made = _mode.get(), self._made
        if made.outer is not outer:
            made = self._made = self._inside(outer)
        _mode.set(made)

    def _inside(self, outer: Mode) -> Mode:
        """Make the mode that replaces another one."""
        record = outer.record if self._record is None else self._record
        decompose = outer.decompose if self._decompose is None else self._decompose
        path = outer.scope
        if self._name is not None:
            path = f"{path}.{self._name}" if path else self._name
        anomaly, nested = outer.anomaly or self._anomaly, outer.nested or self._nested
        return Mode(record, decompose, anomaly, nested, path, outer)

    def __exit__(self, *error: object) -> None:
        _mode.set(_mode.get().outer)  # type: ignore[arg-type]  # `__enter__` has set a mode that has one

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        if inspect.isgeneratorfunction(function):
            return cast(Callable[P, R], self._around_generator(function))
        if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
            raise TypeError(f"{function.__qualname__} is asynchronous: use the context manager inside it instead")

        @functools.wraps(function)
        def switched(*args: P.args, **kwargs: P.kwargs) -> R:
            with self:
                return function(*args, **kwargs)

        return switched

    def _around_generator(self, function: Callable[..., Generator[Any, Any, Any]]) -> Callable[..., Any]:
        """Switch at each resumption only: between two items the mode is the caller's own."""

        @functools.wraps(function)
        def switched(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
            generator = function(*args, **kwargs)
            resume: Callable[[], Any] = functools.partial(next, generator)
            try:
                while True:
                    with self:
                        try:
                            item = resume()
                        except StopIteration as stop:
                            return stop.value
                    try:
                        sent = yield item
                        resume = functools.partial(generator.send, sent)
                    except GeneratorExit:
                        raise
                    except BaseException as error:  # it is thrown into the generator, which decides
                        resume = functools.partial(generator.throw, error)
            finally:
                with self:
                    generator.close()

        return switched


def no_grad() -> Switch:
    """Record nothing inside: results do not require a gradient.

    Returns
    -------
    Switch
        A context manager that is also a decorator. A decorated generator switches at each resumption and never
        touches the mode of its caller.

    Examples
    --------
    >>> import autodiff as ad
    >>> x = ad.Tensor(2.0, requires_grad=True)
    >>> with ad.no_grad():
    ...     y = x * x
    >>> y.requires_grad
    False
    """
    return Switch(record=False)


def recording() -> Switch:
    """Record inside, even below `no_grad`, fused ops as their decompositions: how a backward pass records itself."""
    return Switch(record=True, decompose=True)


def transforming(decompose: bool) -> Switch:
    """Record what a transform differentiates, also below `no_grad`; as decompositions where this is done twice."""
    return Switch(record=True, decompose=decompose or None, nested=True)


def decompose() -> Switch:
    """Record every fused op inside as its decomposition into primitives.

    Returns
    -------
    Switch
        A context manager that is also a decorator.

    Examples
    --------
    >>> import autodiff as ad
    >>> import autodiff.functional as F
    >>> x = ad.Tensor([1.0, 2.0], requires_grad=True)
    >>> F.softmax(x).node.op.name
    'softmax'
    >>> with ad.decompose():
    ...     F.softmax(x).node.op.name
    'divide'
    """
    return Switch(decompose=True)


def scope(name: str) -> Switch:
    """Name the part of a model that the nodes made inside belong to.

    Parameters
    ----------
    name : str
        One step of the path; nested scopes are joined by dots.

    Returns
    -------
    Switch
        A context manager that is also a decorator.

    Examples
    --------
    >>> import autodiff as ad
    >>> x = ad.Tensor(2.0, requires_grad=True)
    >>> with ad.scope("block"), ad.scope("mlp"):
    ...     y = x * x
    >>> y.node.scope
    'block.mlp'
    """
    if not isinstance(name, str):
        raise TypeError(f"scope takes a name, as in scope('block'), not {name!r:.60}")
    return Switch(name=name)
