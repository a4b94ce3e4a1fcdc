"""The checks of what a rule computes that need no differences.

It is linear in its cotangent; it depends on the numbers alone, not on how they lie in memory; it agrees with itself in
single precision, and with the decomposition of its op; and it keeps nothing in vain.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import modes
from ..trees import leaves
from .examination import Examination, in_precision
from .state import flatten
from .trial import Trial

__all__ = [
    "check_decomposition", "check_float32", "check_layout", "check_linear", "check_linearity", "check_needs",
    "check_saved", "check_zero",
]  # fmt: skip

ROUNDING = 1e-12
"""Two ways to add up the same numbers in double precision, relative to the largest result."""

CANCELLED = 1e-14
"""What is left where numbers as large as the cotangent cancel exactly; relative to the cotangent."""

CANCELLED_SINGLE = 1e-6
"""The same in single precision."""


def check_zero(e: Examination) -> None:
    """A zero cotangent gives exact zeros: a linear map has no additive term."""
    zeros = [np.zeros_like(g)[()] for g in e.cotangents[0]]
    with np.errstate(all="ignore"):  # 0 times an infinite derivative is NaN, and no concern here
        gradients = e.pull(e.trial, zeros)
    for i, gradient, other in zip(e.wrt, gradients, e.gradients[0], strict=True):
        wrong = (gradient != 0) & np.isfinite(other)
        if wrong.any():
            worst = float(gradient.flat[int(np.argmax(wrong))])
            ignored = "the rule gives the same for other cotangents: is g ignored?"
            raise e.subject.wrong(
                "zero", i, f"a cotangent of zeros gives {worst:.6g} instead of 0",
                suspect=ignored if np.array_equal(gradient, other) else None,
            )  # fmt: skip


def check_linearity(e: Examination) -> None:
    """The rule is linear in its cotangent, which squares, absolute values and clipping are not.

    It treats no cotangent in a way of its own: neither a constant one, nor one that is zero but for an element, nor
    large or small ones, where a power of two changes nothing but exponents.
    """
    if not any(np.size(g) for g in e.cotangents[0]):
        return
    a, b = -2.5, 0.75
    mixed = [np.asarray(a * u + b * v + 1.5 + h)[()] for u, v, h in zip(*e.cotangents, e.one_hot, strict=True)]
    with np.errstate(all="ignore"):  # as in check_zero
        from_one = e.pull(e.trial, e.one_hot)
    parts = zip(*e.gradients, e.from_constant, from_one, strict=True)
    terms = [(a * u, b * v, c, h) for u, v, c, h in parts]
    _add_up(e, mixed, terms, f"{a} u + {b} v + c + h, c being 1.5 everywhere and h 1 at one element")
    for power in (30, -30):
        scaled = [np.asarray(2.0**power * u)[()] for u in e.cotangents[0]]
        _add_up(e, scaled, [(2.0**power * u,) for u in e.gradients[0]], f"2**{power} u")
    _add_outputs(e)


def _add_outputs(e: Examination) -> None:
    """Of several outputs, compare what each gives alone, the others not being used, and what all but it give."""
    u = e.cotangents[0]
    if len(u) < 2:
        return
    for k in range(len(u)):
        one, rest = (
            [g if (j == k) is alone else np.zeros_like(g)[()] for j, g in enumerate(u)] for alone in (True, False)
        )
        with np.errstate(all="ignore"):  # as in check_zero
            parts = zip(e.pull(e.trial, one), e.pull(e.trial, rest), strict=True)
        _add_up(e, u, list(parts), f"all outputs' cotangents, of which output {k}'s and the others' were given apart")


def _add_up(e: Examination, cotangents: list[Any], terms: list[tuple[Any, ...]], what: str) -> None:
    """Compare the gradients for a combination of cotangents with the combination of the gradients."""
    for i, got, parts in zip(e.wrt, e.pull(e.trial, cotangents), terms, strict=True):
        with np.errstate(invalid="ignore"):
            want, scale = sum(parts), sum(map(np.abs, parts))
            error = np.abs(got - want)
        finite = np.isfinite(scale)
        largest = float(np.max(scale, initial=0.0, where=finite))
        if (error[finite] > 1e-9 * largest + CANCELLED * e.reach(cotangents)).any():
            index = tuple(map(int, np.unravel_index(int(np.argmax(np.where(finite, error, 0.0))), error.shape)))
            raise e.subject.wrong(
                "linearity", i,
                f"the rule is not linear in g: at {e.subject.element(i, index)} it gives {float(got[index]):.12g} for "
                f"{what}, where the combination of its results is {float(want[index]):.12g}",
            )  # fmt: skip


def check_layout(e: Examination) -> None:
    """The result depends on the numbers, not on the strides they lie in: of the cotangent, inputs, and settings."""
    u = e.cotangents[0]
    for name in _LAYOUTS:
        laid = [_lay_out(g, name) for g in u]
        if any(one is not None for one in laid):
            given = [g if one is None else one for g, one in zip(u, laid, strict=True)]
            _same_gradient(e, f"cotangent layout={name}", e.trial, given, e.gradients[0])
    spread = [np.broadcast_to(np.asarray(1.5, np.asarray(g).dtype), np.shape(g)) for g in u]
    _same_gradient(e, "cotangent layout=stride-0", e.trial, spread, e.from_constant)
    for name in _LAYOUTS:
        values, settings = [_moved(value, name) for value in e.values], e.settings
        moves = any(value is not old for value, old in zip(values, e.values, strict=True))
        if any(isinstance(value, np.ndarray) for value in settings.values()):
            settings = {key: _moved(value, name) for key, value in settings.items()}
            moves |= any(settings[key] is not old for key, old in e.settings.items())
        if moves:
            with e.rules("layout"):
                trial = e.record(values, settings=settings)
            _same_values(e, f"inputs layout={name}", trial)
            _same_gradient(e, f"inputs layout={name}", trial, u, e.gradients[0])


_LAYOUTS = ("F", "stride-2", "reversed", "last axes exchanged", "0-d array")


def _moved(value: Any, layout: str) -> Any:
    """Lay an array out in another way, whatever it holds; what has no other layout is returned itself."""
    laid = _lay_out(value, layout) if isinstance(value, (np.ndarray, np.floating)) else None
    return value if laid is None else laid


def _lay_out(value: Any, layout: str) -> Any:
    """Copy an array into another layout, read-only; None where there is no other."""
    array = np.asarray(value)
    if array.ndim < _AXES[layout] or (array.ndim == 0) != (layout == "0-d array"):
        return None
    if layout == "0-d array":
        laid = np.array(array)
    elif layout == "F":
        laid = np.array(array, order="C" if array.flags.f_contiguous else "F")
    elif layout == "stride-2":
        laid = np.repeat(array, 2, axis=-1)[..., ::2]
    elif layout == "reversed":
        backwards = (slice(None, None, -1),) * array.ndim
        laid = np.array(array[backwards], order="C")[backwards]
    else:  # of three or more axes, so neither C nor F
        laid = np.array(np.swapaxes(array, -1, -2), order="C").swapaxes(-1, -2)
    laid.flags.writeable = False
    return laid


_AXES = {"F": 2, "stride-2": 1, "reversed": 1, "last axes exchanged": 3, "0-d array": 0}
"""How many axes it takes."""


def _same_gradient(e: Examination, what: str, trial: Trial, cotangents: list[Any], want: list[Any]) -> None:
    got = e.pull(trial, cotangents, "layout")
    for k, (i, a, b) in enumerate(zip(e.wrt, got, want, strict=True)):
        if not e.agree(a, b, ROUNDING, CANCELLED * e.reach(cotangents), e.wobble_of_gradients, k):
            worst = float(np.max(np.abs(a - b))) if a.shape == b.shape else np.nan
            raise e.subject.wrong(
                "layout", i, f"{what} gives another gradient, different by up to {worst:.3g}", suspect=_ORDER
            )


def _same_values(e: Examination, what: str, trial: Trial) -> None:
    for k, (a, b) in enumerate(zip(trial.values, e.trial.values, strict=True)):
        if not e.agree(a, b, ROUNDING, 0.0, e.wobble_of_values, k):
            raise e.subject.wrong("layout", None, f"{what} gives other values of the forward", suspect=_ORDER)


_ORDER = "the order of elements in memory is taken for their order in the array"


def check_needs(e: Examination) -> None:
    """An argument's gradient is the same when it is the only one that is asked for, or one of fewer."""
    if len(e.wrt) < 2:
        return
    subsets: list[tuple[int, ...]] = [(i,) for i in e.wrt]
    if len(e.wrt) > 2:
        subsets += [tuple(i for i in e.wrt if i != left_out) for left_out in e.wrt]
    for subset in subsets:
        for i, got in zip(subset, e.pull(e.record(e.values, subset), e.cotangents[0], "needs"), strict=True):
            k = e.wrt.index(i)
            room = CANCELLED * e.reach(e.cotangents[0])
            if not e.agree(got, e.gradients[0][k], ROUNDING, room, e.wobble_of_gradients, k):
                others = [e.subject.arguments[j] for j in e.wrt if j not in subset]
                raise e.subject.wrong("needs", i, f"the gradient is another one when {', '.join(others)} need none")


def check_float32(e: Examination) -> None:
    """Single precision gives the same gradient, to single precision, as double precision for the same numbers.

    2e-4 leaves a few hundred roundings of 6e-8 to sums and to exponentials of large arguments; comparing with the
    double-precision rule is still stricter than differences in single precision could be.
    """
    if e.single_refused:
        e.report.skipped["float32"] = e.single_refused
        return
    with np.errstate(all="ignore"):
        given = e.cast_cotangents(e.cotangents[0])
        got = e.pull(e.single, given)
        want = e.pull(e.double, [np.asarray(g, np.float64)[()] for g in given])
        if not all(map(_fits_single, (*e.double.values, *want))):
            e.report.skipped["float32"] = "the values overflow single precision"
            return
        for k, (i, a, b) in enumerate(zip(e.wrt, got, want, strict=True)):
            largest = float(np.max(np.abs(b), initial=0.0))
            room = max(2e-4 * min(1.0, largest), CANCELLED_SINGLE * e.reach(given))
            if not e.agree(a, b, 2e-4, room, e.wobble_of_single, k):
                off = f"{float(np.max(np.abs(a - b))):.3g}, the largest entry being {largest:.3g}"
                line = f"the float32 gradient differs from the float64 one by {off}"
                if not np.isfinite(a).all():
                    raise e.subject.wrong(
                        "float32", i, "the float32 gradient is not finite where the float64 one is, and small enough",
                        suspect="a number on the way overflows: take another form, as tanh' = 1 - tanh^2",
                    )  # fmt: skip
                lost = _lost_by_the_forward(e) if largest else 0.0
                if lost > max(1e-5, 0.1 * float(np.max(np.abs(a - b))) / largest):
                    raise e.subject.unclear(
                        "inconclusive", i, line,
                        f"but so do the outputs, by {lost:.1e} of their size: it is not the rule but the problem, "
                        f"which is ill-conditioned here, or inexact in single precision: use better samples",
                    )  # fmt: skip
                raise e.subject.wrong("float32", i, line)


def _fits_single(values: Any) -> bool:
    """Tell whether numbers are finite in single precision: NaN there comes from the rule, not from their size."""
    return bool(np.isfinite(np.asarray(values, np.float32)).all())


def _lost_by_the_forward(e: Examination) -> float:
    """How far the outputs in single precision are from those in double precision, relative to the largest."""
    worst = 0.0
    for single, double in zip(e.single.values, e.double.values, strict=True):
        size = float(np.max(np.abs(double), initial=0.0))
        worst = max(worst, float(np.max(np.abs(single - double), initial=0.0)) / size if size else 0.0)
    return worst


def check_linear(e: Examination) -> None:
    """For an op that is linear in its arguments, <v, f(u)> = <vjp(v), u> to rounding: no step, no truncation."""
    if not e.linear:
        e.report.skipped["linear"] = "the op is not declared linear"
        return
    v = np.concatenate([np.ravel(g) for g in e.cotangents[0]])
    u = {i: np.asarray(e.generator.normal(size=np.shape(e.values[i]))) for i in e.wrt}
    image, origin = (
        e.forward([(scale * u[i])[()] if i in u else value for i, value in enumerate(e.values)], e.reference)
        for scale in (1.0, 0.0)
    )
    constants = [x for i, x in enumerate(e.values) if i not in u and isinstance(x, (np.ndarray, np.generic))]
    if origin.any() and all(x.dtype.kind == "b" for x in constants):
        raise e.subject.wrong("linear", None, "the op is declared linear, but is not zero for zeros")
    left = v * (image - origin)  # what constant arrays contribute is not linear
    right = np.concatenate([np.ravel(g * u[i]) for i, g in zip(e.wrt, e.gradients[0], strict=True)])
    error = abs(float(left.sum()) - float(right.sum()))
    if error > 1e-13 * float(np.abs(left).sum() + np.abs(right).sum()):
        raise e.subject.wrong(
            "linear", None,
            f"the op is declared linear, but <v, f(u)> = {float(left.sum()):.12g} and <vjp(v), u> = "
            f"{float(right.sum()):.12g}",
        )  # fmt: skip


def check_decomposition(e: Examination) -> None:
    """A fused op and its decomposition agree in values and gradients, as exactly as two orders of summation can."""
    if e.op.decomposed is None:
        e.report.skipped["decomposition"] = "the op is a primitive"
        return
    cotangents = e.cotangents[0]
    _compare_with_decomposition(e, e.trial, e.values, cotangents, ROUNDING, CANCELLED)
    if e.single_refused:
        return
    # Single precision rounds at 6e-8, and the decomposition rounds after every primitive where a kernel may not: some
    # hundred roundings of relative size, and as many of the cotangent's size where terms cancel.
    values = [in_precision(value, np.float32) for value in e.values]
    with np.errstate(all="ignore"):
        _compare_with_decomposition(e, e.single, values, e.cast_cotangents(cotangents), 1e-5, CANCELLED_SINGLE)


def _compare_with_decomposition(
    e: Examination, fused: Trial, values: list[Any], cotangents: list[Any], relative: float, absolute: float
) -> None:
    """Compare; a decomposition may be less exact than the op, which is why there is one.

    How exact it is, its own wobble tells.
    """
    def decomposed(values: list[Any]) -> Trial:
        with e.rules("decomposition"):
            return Trial(e.op, values, e.settings, e.wrt, modes.recording())

    def pulled(trial: Trial) -> list[Any]:
        with e.rules("decomposition"):
            return trial.pull(cotangents)

    primitive = decomposed(values)
    for k, (a, b) in enumerate(zip(fused.values, primitive.values, strict=True)):
        if a.dtype != b.dtype or not e.agree(
            a, b, relative, absolute, lambda: e.wobble(values, lambda moved: decomposed(moved).values), k
        ):  # fmt: skip
            by = float(np.max(np.abs(a - b), initial=0.0)) if a.shape == b.shape else np.nan
            raise e.subject.wrong(
                "decomposition", None,
                f"the forward, {a.dtype} of shape {a.shape}, and the decomposition, {b.dtype} of shape {b.shape}, "
                f"differ by up to {by:.3g}",
            )  # fmt: skip
    for k, (i, a, b) in enumerate(zip(e.wrt, fused.pull(cotangents), pulled(primitive), strict=True)):
        if not e.agree(
            a, b, relative, absolute * e.reach(cotangents),
            lambda: e.wobble(values, lambda moved: pulled(decomposed(moved))), k,
        ):  # fmt: skip
            raise e.subject.wrong(
                "decomposition", i,
                f"the fused rule and the decomposition's gradient differ in {a.dtype} by up to "
                f"{float(np.max(np.abs(a - b))):.3g}, the largest entry being {float(np.max(np.abs(b))):.3g}",
            )  # fmt: skip


def check_saved(e: Examination) -> None:
    """Every saved floating array matters: filled with NaN, or with other numbers, it changes some gradient."""
    if not any(np.size(g) for g in e.cotangents[0]):
        e.report.skipped["saved-in-vain"] = "the outputs are empty"
        return
    saved = e.trial.saved()
    names = [name for name, value in saved.items() if _has_floats(value)]
    with np.errstate(all="ignore"):
        unused = [name for name in names if not _matters(e, name, saved)]
    e.report.saved, e.report.saved_in_vain = tuple(map(e.readable, names)), tuple(map(e.readable, unused))


def _has_floats(value: Any) -> bool:
    parts = (part for _, part in leaves(value))  # not those in objects, which `_filled` leaves alone
    return isinstance(value, np.floating) or any(
        isinstance(part, np.ndarray) and part.dtype.kind == "f" and part.size for part in parts
    )


FILLS = (np.nan, -0.5, 0.0, 0.5, 2.0, -np.inf)
"""What a saved value is filled with. NaN alone would not do: it fails comparisons as -1 fails x > 0."""


def _matters(e: Examination, name: str, saved: dict[str, Any]) -> bool:
    """Whether some replacement changes what the rules do: here, or in another branch of them.

    What leads there is not known; so all other saved values are replaced too, masks as well as numbers.
    """
    g = e.cotangents[0]
    here = _outcome(e, {}, g)
    if any(_outcome(e, {name: _filled(saved[name], fill)}, g) != here for fill in FILLS):
        return True
    zero = [np.zeros_like(part)[()] for part in g]
    for fill in FILLS[1:5]:
        state = {other: _filled(value, fill, fill > 0) for other, value in saved.items() if other != name}
        for cotangent in (g, zero):
            if len({_outcome(e, {**state, name: _filled(saved[name], own)}, cotangent) for own in FILLS}) > 1:
                return True
    return False


def _outcome(e: Examination, saved: dict[str, Any], cotangents: list[Any]) -> tuple[bytes, ...] | None:
    """Run the rules with some saved values replaced; return the bits that they give, None where they raise."""
    try:
        return tuple(array.tobytes() for array in flatten(e.trial.raw_with(saved, cotangents)))
    except Exception:  # the rule could not work with these values
        return None


def _filled(value: Any, fill: float, truth: bool | None = None) -> Any:
    """Replace the floating arrays in a saved value, and the boolean ones where a truth value is given."""
    if isinstance(value, (np.ndarray, np.generic)):
        if value.dtype.kind == "b" and truth is not None:
            return np.full_like(value, truth)[()]
        return np.full_like(value, fill)[()] if value.dtype.kind == "f" else value
    if isinstance(value, (tuple, list)):
        return type(value)([_filled(part, fill, truth) for part in value])
    if isinstance(value, dict):
        return {key: _filled(part, fill, truth) for key, part in value.items()}
    return value
