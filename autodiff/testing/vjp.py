"""`check_vjp`: whether the VJP rules of an op are right."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from ..arguments import arraylike
from ..binding import own, repeatable
from ..node import OPS
from ..op import Op, zeros
from ..protocols import to_array
from ..signature import nearest
from . import axes, behaviour, derived, graph, state, structure
from .contents import arrays_in
from .examination import Examination, declared_of
from .numeric import too_small
from .report import CheckError, Subject, VJPReport, one_of, options_of
from .value import compare

__all__ = ["CHECKS", "check_vjp", "examine", "find_op", "usable"]


def check_value(e: Examination) -> None:
    """The gradients are those that differences give."""
    if not e.judged:
        e.report.skipped["value"] = "the rule is a surrogate: it is not the derivative, on purpose"
        e.report.skipped["vacuous"] = e.report.skipped["value"]
        return
    declared = {i for rule in e.op.rules if rule.function is zeros for i in rule.arguments}
    vacuous = {i for problem in e.problems for i in compare(problem, e.report)} - declared
    for i in vacuous:
        if advice := too_small(float(np.max(np.abs(e.values[i]), initial=0.0))):
            raise e.subject.unclear("inconclusive", i, f"no output seems to depend on it: {advice}")
    e.report.vacuous = tuple(e.subject.arguments[i] for i in sorted(vacuous))
    if any(out.size for out in e.trial.values):
        varied = [i for i in e.judged if np.size(e.values[i]) and declared_of(e.op, i) not in declared]
        e.report.varied = tuple(e.subject.arguments[i] for i in varied)
        state.check_elsewhere(e)


CHECKS: tuple[tuple[str, Callable[[Examination], None]], ...] = (
    ("forward-nondet", structure.check_forward),
    ("state", state.check_state),
    ("writes", structure.check_writes),
    ("arity", structure.check_arity),
    ("nondiff", structure.check_nondifferentiable),
    ("none", structure.check_none),
    ("shape", structure.check_shape),
    ("type", structure.check_type),
    ("dtype", structure.check_dtype),
    ("nonfinite", structure.check_nonfinite),
    ("alias", structure.check_alias),
    ("nondet", structure.check_nondeterminism),
    ("zero", behaviour.check_zero),
    ("linearity", behaviour.check_linearity),
    ("layout", behaviour.check_layout),
    ("needs", behaviour.check_needs),
    ("value", check_value),
    ("float32", behaviour.check_float32),
    ("broadcast", derived.check_broadcast),
    ("axis", axes.check_axis),
    ("reuse", derived.check_reuse),
    ("linear", behaviour.check_linear),
    ("decomposition", behaviour.check_decomposition),
    ("second-order", graph.check_second_order),
    ("transposition", graph.check_transposition),
    ("memory", graph.check_memory),
    ("saved-in-vain", behaviour.check_saved),
)
"""In this order: what is cheap and structural first, so that the first message is the true cause."""


def check_vjp(
    op: Op[..., Any] | Callable[..., Any] | str,
    *args: Any,
    kwargs: dict[str, Any] | None = None,
    wrt: Sequence[str | int] | str | int | None = None,
    rng: int | np.random.Generator = 0,
    rtol: float | None = None,
    atol: float = 1e-9,
    scheme: Literal["central5", "complex"] = "central5",
    kinks: Literal["error", "subgradient"] = "error",
    linear: bool = False,
    reference: Callable[..., Any] | None = None,
    expect_zero: bool = False,
    **unknown: Any,
) -> VJPReport:
    """Check the VJP rules of an op at one point.

    The rules run as the engine runs them, on what the forward has saved. First comes what they return and touch (kinds
    "forward-nondet", "state", "writes", "arity", "none", "nondiff", "shape", "type", "dtype", "nonfinite", "alias",
    "nondet"), then how they depend on the cotangent ("zero", "linearity", "layout", "needs"), then the values against
    central differences ("kink", "value") and in single precision ("float32"). Other calls are derived from this one:
    other shapes of arguments that broadcast ("broadcast"), other spellings and other choices of settings that name axes
    (``axis``, ``axes``, ``dim``, ``dims``: "axis"), one argument in two places ("reuse"). Then follows what else the op
    declares ("linear", "decomposition"), the derivatives of the rule itself ("second-order", "transposition"; a rule
    that has none may raise, and they are skipped), and what it keeps: longer than the result ("memory"), or for nothing
    ("saved-in-vain": only reported, since another branch may need it; `check_op` judges it over all samples). A rule
    that raises has the kind "raises".

    Parameters
    ----------
    op : Op, NumPy function or str
        The op, or the NumPy function or the name of a registered one.
    *args : array_like
        Its positional arguments; of tensors, the data. Arrays of floats are differentiated (in float64, whatever their
        dtype); Python numbers are constants unless `wrt` names them. A dict at the end holds settings, as in registered
        samples.
    kwargs : dict, optional
        Settings of the call.
    wrt : str or int, or sequence of them, optional
        Names or positions of the arguments to check; by default every floating array not declared ``nondiff``.
    rng : int or Generator
        Seed of the random cotangents.
    rtol : float, optional
        Tolerance relative to an element's scale: the sum of the magnitudes |v| |df/dx| that it is made of. By default
        1e-6, and 1e-12 for the complex step.
    atol : float
        Absolute tolerance of differences where gradients are of order one or larger; it shrinks with smaller ones.
    scheme : {"central5", "complex"}
        Five-point central differences, right to 3e-7; or the complex step, right to rounding, for forwards that are
        analytic and take complex arrays.
    kinks : {"error", "subgradient"}
        What to do where the slopes on both sides differ: raise, or accept every value between them. (At ties of a
        maximum each element by itself may then get 1, which together is wrong: test such conventions by themselves.)
    linear : bool
        The op is linear in its arguments together; ``@op(linear=True)`` says so too. Then it is tested exactly.
    reference : callable, optional
        Plain function with the op's parameters, to be differentiated instead of the forward: what the rule of a
        surrogate is the derivative of. Where the op names surrogates, it stands for these arguments alone.
    expect_zero : bool
        All derivatives are zero here, and shall be.

    Returns
    -------
    VJPReport
        What was compared.

    Raises
    ------
    VJPError
        The rule is wrong; ``.kind`` says how, ``.arg``, ``.index``, ``.analytic`` and ``.numeric`` where,
        ``.suspect`` why.
    InconclusiveError
        Differences do not settle at this point.
    VacuousCheckError
        No output depends on an argument here, so that zeros would pass.
    ValueError, TypeError
        For arguments that cannot be checked.

    Examples
    --------
    >>> import numpy as np
    >>> from autodiff.op import Op
    >>> from autodiff.testing import check_vjp
    >>> cube = Op(lambda x: x**3, elementwise=True)
    >>> rule = cube.vjp("x")(lambda g, x: g * 2 * x**2)
    >>> check_vjp(cube, np.array([1.0, 2.0]))
    Traceback (most recent call last):
        ...
    autodiff.testing.VJPError: VJPError[value]: d <lambda> / d x (argument 0 of 1, shape (2,), float64)
    ...
    >>> rule = cube.vjp("x")(lambda g, x: g * 3 * x**2)
    >>> check_vjp(cube, np.array([1.0, 2.0])).compared
    2
    """
    if unknown:
        name = next(iter(unknown))
        raise TypeError(
            f"check_vjp() has no parameter {name!r}. The op's settings go into kwargs={{{name!r}: {unknown[name]!r}}}."
            f"{nearest(name, inspect.signature(check_vjp).parameters)}"
        )
    one_of("scheme", scheme, ("central5", "complex"))
    one_of("kinks", kinks, ("error", "subgradient"))
    report, subject = examine(
        find_op(op), args, kwargs, wrt, rng, rtol=rtol, atol=atol, scheme=scheme, kinks=kinks, linear=linear,
        reference=reference, options=options_of(
            check_vjp, wrt=wrt, rtol=rtol, atol=atol, scheme=scheme, kinks=kinks, linear=linear, reference=reference,
            expect_zero=expect_zero,
        ),
    )  # fmt: skip
    if not report.passed and not report.vacuous:
        raise ValueError(
            f"{subject.name}: there is no floating array to differentiate among the arguments. Pass arrays, or name "
            f"Python numbers in wrt"
        )
    if report.vacuous and not expect_zero:
        names = ", ".join(report.vacuous)
        pairs = zip(subject.arguments, subject.values, strict=True)
        infinite = [name for name, x in pairs if name in report.vacuous and np.size(x) and np.isinf(x).all()]
        if infinite:
            raise subject.unclear(
                "vacuous", None, f"{', '.join(infinite)} holds nothing but infinite numbers, which do not vary, so "
                f"that nothing can be compared: use finite inputs",
            )  # fmt: skip
        raise subject.unclear(
            "vacuous", None, f"no output depends on {names} here, so that a rule which returns zeros would pass: use "
            f"other inputs; or, if that is what shall be checked, expect_zero=True",
        )  # fmt: skip
    return report


def find_op(op: Any) -> Op[..., Any]:
    """Return an op, by itself, by name, or by the NumPy function that records it."""
    if isinstance(op, str):
        if op not in OPS:
            raise ValueError(f"no op named {op!r} is registered; there are {', '.join(sorted(OPS))}")
        found: Op[..., Any] = OPS[op]
        return found
    if not isinstance(op, Op):
        twins = [known for known in OPS.values() if known.twin is not None and known.twin is op]
        if twins:
            return find_op(twins[0])
        raise TypeError(
            f"this checks an op, or a registered one by its name, not a {type(op).__name__}; for a function of tensors "
            f"write check_grads(f, *args)"
        )
    return op


def examine(
    op: Op[..., Any], args: Sequence[Any], kwargs: dict[str, Any] | None, wrt: Any, rng: int | np.random.Generator,
    *, sample: int | None = None, without: Collection[str] = (), options: Mapping[str, Any] | None = None,
    **wishes: Any,
) -> tuple[VJPReport, Subject]:  # fmt: skip
    """Make every check but those `without`; return what they found about the call as a whole."""
    settings = dict(kwargs or {})
    if kwargs is None and args and isinstance(args[-1], dict):
        args, settings = args[:-1], dict(args[-1])
    settings = {name: repeatable(f"{op.name}(): {name}=", value) for name, value in settings.items()}
    given = [to_array(value) for value in _arguments(op, args, settings)]
    names = tuple(op.argument_name(i) for i in range(len(given)))
    positions = _positions(op, names, given, wrt)
    values = [usable(name, value, i in positions) for i, (name, value) in enumerate(zip(names, given, strict=True))]
    seed = int(rng.integers(2**31)) if isinstance(rng, np.random.Generator) else int(rng)
    subject = Subject(op.name, names, values, settings, seed, sample, options=options or {})
    report = VJPReport(op.name, seed)
    settings = {name: _own(value) for name, value in settings.items()}
    wishes["linear"] = wishes.get("linear", False) or op.linear
    if wishes.get("rtol") is None:
        wishes["rtol"] = 1e-12 if wishes.get("scheme") == "complex" else 1e-6
    e = Examination(op, subject, values, settings, positions, report, **wishes)
    structure.note_slopes(e)
    if not _has_rules(e):
        return report, subject
    for kind, check in CHECKS:
        if kind not in without:
            try:
                check(e)
            except CheckError as error:
                state.check_until_the_end(e, {*without, error.kind})  # which may be why
                raise
    state.check_until_the_end(e, without)
    done = [kind for kind, _ in CHECKS if kind not in without and kind not in report.skipped]
    report.passed = ("inputs", *done)
    defaults = {name for name, value in op.signature.settings.items() if repr(settings.get(name, value)) == repr(value)}
    report.never_varied = tuple(name for name in op.signature.order if name in defaults - set(report.turned))
    return report, subject


def _arguments(op: Op[..., Any], args: Sequence[Any], settings: dict[str, Any]) -> list[Any]:
    """Bring all arguments into their places, those named in the settings too; None for an absent optional one."""
    if op.signature.variadic:
        return list(args[0] if len(args) == 1 and isinstance(args[0], (list, tuple)) else args)
    named = {name: settings.pop(name) for name in op.signature.arguments if name in settings}
    try:
        bound = op.signature.full.bind(*args, **named, **settings)
    except TypeError as error:
        raise TypeError(f"{op.name}{op.signature.full}: {error}") from None
    return [bound.arguments.get(name) for name in op.signature.arguments]


def _positions(op: Op[..., Any], names: tuple[str, ...], values: list[Any], wrt: Any) -> tuple[int, ...]:
    """Find the arguments to differentiate."""
    if wrt is None:
        floating = [isinstance(v, (np.ndarray, np.generic, list)) and np.asarray(v).dtype.kind == "f" for v in values]
        differentiable = [declared_of(op, i) not in op.nondifferentiable for i in range(len(values))]
        return tuple(i for i in range(len(values)) if floating[i] and differentiable[i])
    found = []
    for one in [wrt] if isinstance(wrt, (str, int)) else wrt:
        if (one not in names) if isinstance(one, str) else not 0 <= one < len(values):
            raise ValueError(f"wrt={one!r}: the arguments of this call of {op.name} are {', '.join(names)}")
        found.append(names.index(one) if isinstance(one, str) else one)
    return tuple(sorted(set(found)))


def usable(name: str, value: Any, differentiated: bool) -> Any:
    """Copy an array: in double precision if it floats, so that views and overlapping strides do no harm."""
    value = arraylike(f"the argument {name!r}", to_array(value))
    if not differentiated and not isinstance(value, (np.ndarray, np.generic, list)):
        return value
    array = np.array(value, order="K")
    if differentiated and array.dtype.kind not in "fiu":
        raise TypeError(f"the argument {name!r} of dtype {array.dtype} cannot be differentiated; give floats")
    if array.dtype.kind == "f" or differentiated:
        array = array.astype(np.float64)
    if differentiated and np.isnan(array).any():
        raise ValueError(f"the argument {name!r} holds NaN, where nothing can be compared")
    array.flags.writeable = False
    return array[()]


def _own(setting: Any) -> Any:
    """Copy a setting that could be written into, with its arrays read-only."""
    copy = np.array(setting, order="K") if isinstance(setting, np.ndarray) else own(setting)
    for array in arrays_in(copy):
        array.flags.writeable = False
    return copy


def _has_rules(e: Examination) -> bool:
    """Whether the call is differentiated at all; an argument without a rule is an error of the op."""
    op = e.op
    covered = {i for rule in op.rules for i in rule.arguments} | op.nondifferentiable
    for i in e.wrt:
        if declared_of(op, i) not in covered:
            name = e.subject.arguments[i]
            raise e.subject.wrong(
                "none", i, f"there is no VJP rule for it: add one with .vjp({name!r}), or declare .nondiff({name!r})"
            )
    reason = None
    if e.wrt:
        structure.check_elementwise(e)
    if not e.wrt:
        reason = "no argument is a floating array to differentiate"
    elif not e.trial.recorded:
        e.report.vacuous = tuple(e.subject.arguments[i] for i in e.wrt)
        reason = "no output is a floating array"
    if reason:
        e.report.skipped.update((kind, reason) for kind, _ in CHECKS)
    return reason is None
