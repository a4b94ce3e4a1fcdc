"""`check_grads`: whether the gradients of a function of tensors are right, to any order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np

from .. import modes
from ..arguments import whole
from ..differentiate import gradients
from ..node import Leaf
from ..protocols import to_array
from ..tensor import Tensor, as_tensor, wrap
from ..trees import leaves
from .numeric import Vector, flat
from .report import Subject, VJPReport, one_of, options_of
from .trial import split
from .value import Problem, compare
from .vjp import usable

__all__ = ["check_grads"]

Function = Callable[..., Any]


def check_grads(
    f: Function, *args: Any, order: int = 2, rng: int | np.random.Generator = 0, rtol: float = 1e-6,
    atol: float = 1e-9, kinks: Literal["error", "subgradient"] = "error", expect_zero: bool = False,
) -> VJPReport:  # fmt: skip
    """Check the gradients of a function of tensors against central differences.

    Parameters
    ----------
    f : callable
        Takes tensors, returns a tensor, or tuples, lists and dicts of them, nested as you like. It is called with
        ``requires_grad`` set on every floating argument, and without where only its values are needed.
    *args : array_like
        Where to check. Tensors, arrays and lists of floats, and floats, are differentiated in float64; the rest is
        passed on.
    order : int
        1 or more. 2 also differentiates the gradient, that is, the VJP of the VJP; 3 the VJP of that, and so on. The
        function then runs under ``autodiff.decompose()``, as higher derivatives do.
    rng : int or Generator
        Seed of the random cotangents.
    rtol, atol : float
        As in `check_vjp`.
    kinks : {"error", "subgradient"}
        As in `check_vjp`.
    expect_zero : bool
        The first derivatives may all be zero here.

    Returns
    -------
    VJPReport
        Of all orders together.

    Raises
    ------
    VJPError
        If a gradient is wrong: kind "value", or "second-order", "order-3", ...
    InconclusiveError, VacuousCheckError
        If the check says nothing: differences do not settle, or the first derivatives are all zero.
    RuntimeError
        If a rule on the way cannot be differentiated again.

    Examples
    --------
    >>> import numpy as np
    >>> from autodiff.testing import check_grads
    >>> check_grads(lambda x, y: (x * y).sum(), np.ones(3), np.arange(3.0)).compared
    12
    """
    whole("order", order, 1)
    one_of("kinks", kinks, ("error", "subgradient"))
    args = tuple(map(to_array, args))
    names = tuple(f"args[{i}]" for i in range(len(args)))
    wrt = tuple(i for i, arg in enumerate(args) if _floats(arg))
    if not wrt:
        raise ValueError("no argument of the function is an array of floats to differentiate")
    values = [usable(name, arg, i in wrt) for i, (name, arg) in enumerate(zip(names, args, strict=True))]
    seed = int(rng.integers(2**31)) if isinstance(rng, np.random.Generator) else int(rng)
    name = getattr(f, "__name__", type(f).__name__)
    options = options_of(check_grads, order=order, rtol=rtol, atol=atol, kinks=kinks, expect_zero=expect_zero)
    subject = Subject(name, names, values, {}, seed, check="check_grads", options=options)
    generator = np.random.default_rng(seed)
    report = VJPReport(name, seed)

    vacuous = _check(f, subject, wrt, generator, report, (rtol, atol, kinks), "value")
    report.vacuous = tuple(names[i] for i in vacuous)
    if vacuous and not expect_zero:
        raise subject.unclear("vacuous", None, f"no output depends on {', '.join(report.vacuous)}: use other inputs")
    report.passed = ("value",)
    for n in range(2, order + 1):
        kind = "second-order" if n == 2 else f"order-{n}"
        with modes.decompose():
            f = _pullback(f, values, wrt, generator)
            _check(f, subject, wrt, generator, report, (rtol, atol, kinks), kind)
        report.passed += (kind,)
    return report


def _floats(arg: Any) -> bool:
    return isinstance(arg, (np.ndarray, np.generic, float, list, tuple)) and np.asarray(arg).dtype.kind == "f"


def _check(
    f: Function, subject: Subject, wrt: tuple[int, ...], generator: np.random.Generator, report: VJPReport,
    wishes: tuple[float, float, Literal["error", "subgradient"]], kind: str,
) -> tuple[int, ...]:  # fmt: skip
    """Compare the engine's gradients of a function with differences of its values."""
    values = subject.values
    starts = {i: _leaf(values[i]) for i in wrt}
    outputs = _tensors(f(*[starts.get(i, value) for i, value in enumerate(values)]))
    if not any(out.size for out in outputs) and any(np.size(values[i]) for i in wrt):
        return wrt
    shapes = [out.data for out in outputs]
    cotangents = generator.normal(0.0, 3.0, size=(2, sum(out.size for out in outputs)))
    rows = [_gradients(outputs, list(starts.values()), split(row, shapes), False) for row in cotangents]
    claimed = {i: np.stack([row[k].data.reshape(-1) for row in rows]) for k, i in enumerate(wrt)}

    def forward(moved: Sequence[Any]) -> Vector:
        plain = _tensors(f(*[as_tensor(value) if i in wrt else value for i, value in enumerate(moved)]))
        return flat(tuple(out.data for out in plain))

    rtol, atol, kinks = wishes
    problem = Problem(
        subject, forward, values, [out.shape for out in shapes], wrt, cotangents, claimed, rtol, atol, "central5",
        kinks, kind,
    )  # fmt: skip
    return compare(problem, report)


def _pullback(f: Function, values: Sequence[Any], wrt: tuple[int, ...], generator: np.random.Generator) -> Function:
    """Return the map from the arguments to the gradients of f for one fixed cotangent."""
    with modes.no_grad():
        shapes = [out.data for out in _tensors(f(*[as_tensor(v) if i in wrt else v for i, v in enumerate(values)]))]
    v = split(generator.normal(0.0, 3.0, size=sum(out.size for out in shapes)), shapes)

    def pullback(*args: Any) -> tuple[Tensor, ...]:
        given = [arg if i not in wrt or arg.requires_grad else _leaf(arg.data[()]) for i, arg in enumerate(args)]
        return _gradients(_tensors(f(*given)), [given[i] for i in wrt], v, True)

    return pullback


def _gradients(
    outputs: list[Tensor], inputs: list[Tensor], cotangents: list[Any], create_graph: bool
) -> tuple[Tensor, ...]:
    """Compute gradients of those outputs that have any: what does not depend on the inputs is a constant."""
    live = [(out, g) for out, g in zip(outputs, cotangents, strict=True) if out.requires_grad]
    if not live:
        return tuple(as_tensor(np.zeros(x.shape)) for x in inputs)
    return gradients([out for out, _ in live], inputs, [g for _, g in live], create_graph)


def _leaf(value: Any) -> Tensor:
    return wrap(value, Leaf(np.shape(value), np.asarray(value).dtype, True))


def _tensors(result: Any) -> list[Tensor]:
    """Return the floating outputs of a function as a list, in whatever containers they are."""
    outputs = list(leaves(result, "the result"))
    for place, out in outputs:
        if type(out) is not Tensor:
            raise TypeError(f"the function shall return tensors; {place} is of type {type(out).__name__}")
    return [out for _, out in outputs if out.dtype.kind == "f"]
