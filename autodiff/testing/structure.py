"""The checks of what a rule returns and touches. Cheap, and first, so that the first message is the true cause."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..binding import ShapeError, check_broadcast, own
from ..walking import is_whole, walk
from .contents import Picture, arrays_in
from .examination import Examination, declared_of, in_precision
from .numeric import element_line, flat, noise_of, settle, step_for
from .precision import promotion
from .report import CheckError
from .value import element_derivative, not_finite

__all__ = [
    "check_alias", "check_arity", "check_dtype", "check_forward", "check_nondeterminism", "check_nondifferentiable",
    "check_none", "check_nonfinite", "check_shape", "check_type", "check_writes", "note_slopes",
]  # fmt: skip


def check_forward(e: Examination) -> None:
    """The forward gives the same bits twice: no mask is drawn anew, no global state is read."""
    result = e.op(*e.values, **e.settings)
    plain = flat(result if type(result) in (tuple, list) else (result,))
    recorded = flat(tuple(e.trial.values))
    if plain.tobytes() != recorded.tobytes():
        raise e.subject.wrong(
            "forward-nondet", None, "two calls of the forward on the same arguments differ",
            suspect=_why_it_differs(e, plain, recorded),
        )  # fmt: skip


def _why_it_differs(e: Examination, one: Any, other: Any) -> str:
    """Guess what changes from call to call."""
    before = repr(np.random.get_state())  # noqa: NPY002  # what is asked is whether others use it
    e.op(*e.values, **e.settings)
    if repr(np.random.get_state()) != before:  # noqa: NPY002
        return (
            "it draws from NumPy's global random numbers, by itself or inside a library: pass a seed as a setting, and "
            "draw from np.random.default_rng(seed); of a library's function give random_state=, rng=, v0= or x0="
        )
    if one.shape == other.shape and e.close(one, other, 1e-3, 0.0):
        return (
            "they differ by little, as where a library's solver starts at random, or stops early: give it a fixed "
            "start (v0=, x0=, rng=, random_state=) and a tight tolerance"
        )
    return (
        "random numbers, drawn by the forward or inside a library: pass a seed as a setting, not a generator, and give "
        "the library's function a fixed start (v0=, x0=, rng=, random_state=); or something that changes is read"
    )


def check_writes(e: Examination) -> None:
    """Rules write neither into the cotangent, nor into inputs, saved values or settings; a forward not into settings.

    As a rule they are read-only, so that NumPy raises at the guilty line; where the memory is writable, the bytes tell.
    A rule can ask whether it may write, so another call is made in which it may.
    """
    _nothing_changed(e, e.settings_given.changed(), "the forward")
    saved = {f"the saved value {e.readable(name)!r}": value for name, value in e.trial.saved().items()}
    settings = {f"the setting {name!r}": value for name, value in (e.trial.node.settings or {}).items()}
    before, recorded = Picture(saved, arrays_only=True), Picture(settings)
    given = Picture({"its cotangent g": tuple(map(np.asarray, e.cotangents[0]))})
    e.trial.protect(e.settings)
    _ = e.answers
    _nothing_changed(e, e.settings_given.changed() or recorded.changed() or before.written() or given.written())
    for dtype in (np.float64, np.float32):
        _check_writable(e, dtype)


def _check_writable(e: Examination, dtype: Any) -> None:
    """Run the forward and its rules on arrays that they could write into, and compare these afterwards."""
    values = [_writable(value, dtype) for value in e.values]
    settings = {name: own(value) for name, value in e.settings.items()}
    for array in arrays_in(settings):
        array.flags.writeable = True
    mine = {f"its argument {name!r}": value for name, value in zip(e.subject.arguments, values, strict=True)}
    mine |= {f"the setting {name!r}": value for name, value in settings.items()}
    before = Picture(mine)
    try:
        with np.errstate(all="ignore"):
            trial = e.record(values, settings=settings)
    except CheckError:
        raise
    except Exception:
        if dtype is np.float64:
            raise
        return  # that single precision is refused is not for this check to judge
    _nothing_changed(e, before.changed(), "where it may, the forward")
    several = len(trial.values) > 1
    pairs = zip(e.cotangents[0], trial.values, strict=True)
    given = [_writable(np.asarray(g), out.dtype, scalar=False) for g, out in pairs]
    mine |= {f"its cotangent g[{i}]" if several else "its cotangent g": g for i, g in enumerate(given)}
    mine |= {f"the saved value {e.readable(name)!r}": value for name, value in trial.saved().items()}
    mine |= {f"the output{f' {i}' if several else ''}": out for i, out in enumerate(trial.values)}
    mine |= {f"the setting {name!r}": value for name, value in (trial.node.settings or {}).items()}
    before = Picture(mine, arrays_only=True)
    with e.rules(), np.errstate(all="ignore"):
        list(trial.raw(given))
    _nothing_changed(e, before.written(), "where it may, a VJP rule")


def _nothing_changed(e: Examination, changed: str | None, who: str = "a VJP rule") -> None:
    if changed:
        raise e.subject.wrong("writes", None, f"{who} changed {changed}")


def _writable(value: Any, dtype: Any, scalar: bool = True) -> Any:
    """Copy an array so that it may be written into, in another precision if it floats."""
    if not isinstance(value, (np.ndarray, np.generic)):
        return value
    with np.errstate(over="ignore"):  # numbers that single precision does not hold
        copy = np.array(value, dtype if value.dtype.kind == "f" else None, order="K")
    return copy[()] if scalar else copy


def check_arity(e: Examination) -> None:
    """A rule for several arguments gives a tuple, one entry for each."""
    for rule, needs, answer in e.answers:
        if rule.several and (type(answer) is not tuple or len(answer) != len(needs)):
            given = f"a tuple of {len(answer)}" if type(answer) is tuple else f"a {type(answer).__name__}"
            names = ", ".join(e.op.signature.arguments[i] for i in rule.arguments)
            raise e.subject.wrong(
                "arity", None, f"the rule for {names} returned {given} instead of a tuple of {len(needs)} cotangents"
            )


def check_nondifferentiable(e: Examination) -> None:
    """An argument that cannot vary has no cotangent, not even zeros: that would say that it can."""
    for i, part in e.by_position(e.answers):
        value = e.values[i]
        declared = declared_of(e.op, i) in e.op.nondifferentiable
        whole = isinstance(value, (np.ndarray, np.generic)) and value.dtype.kind in "iub"
        if part is not None and i not in e.wrt and (declared or whole):
            why = "is declared nondiff" if declared else f"holds {value.dtype}"
            raise e.subject.wrong(
                "nondiff", i, f"the rule returned a cotangent for an argument that {why}: return None for it"
            )


def note_slopes(e: Examination) -> None:
    """Measure what depends on floating arguments that are declared without gradient, unless the declaration says so."""
    for i, value in enumerate(e.values):
        declared = declared_of(e.op, i) in e.op.nondifferentiable - e.op.varying
        if declared and i not in e.wrt and _is_floating(value):
            try:
                slopes = list(_slopes(e, i))
            except Exception:  # the forward refuses what is beside this argument
                continue
            largest = max(slopes, key=abs, default=0.0)
            if largest:
                e.report.slopes[e.subject.arguments[i]] = largest


def _is_floating(value: Any) -> bool:
    return isinstance(value, (float, np.floating)) or (isinstance(value, np.ndarray) and value.dtype.kind == "f")


def _slopes(e: Examination, i: int) -> Iterator[float]:
    """Yield the largest derivative of an output by each of an argument's first elements, where it stands out."""
    with np.errstate(all="ignore"):
        at = e.forward(e.values)
        for j in range(min(np.size(e.values[i]), MOST_ELEMENTS)):
            h = step_for(float(np.asarray(e.values[i]).flat[j]))
            found = settle(element_line(e.forward, e.values, i, j), at, h, e.rtol)
            central = found.slopes.central
            clear = np.isfinite(central) & (np.abs(central) > noise_of(np.maximum(np.abs(at), 1.0), found.slopes.step))
            if found.verdict == "smooth" and clear.any():
                yield float(central[np.argmax(np.where(clear, np.abs(central), 0.0))])


MOST_ELEMENTS = 16
"""So many elements of an argument are varied: one slope is enough for a remark."""


def check_none(e: Examination) -> None:
    """An argument that requires a gradient gets one: None would be a silent zero."""
    for i in e.wrt:
        if e.parts.get(i) is None:
            raise e.subject.wrong(
                "none", i, f"the rule returned None for a floating argument; if it has no gradient, declare it with "
                f"{e.op.name}.nondiff({e.subject.arguments[i]!r})",
            )  # fmt: skip


def check_elementwise(e: Examination) -> None:
    """The output of an elementwise op has the broadcast shape; the engine looks at it in the first call of a kind."""
    try:
        outputs = e.trial.outputs
        if e.op.elementwise:
            check_broadcast(e.op, e.values, [out._values for out in outputs])
    except ShapeError as error:
        raise e.subject.wrong("shape", None, str(error)) from error


def check_shape(e: Examination) -> None:
    """What the engine makes of a cotangent has the argument's shape: it sums what an elementwise op broadcasts."""
    for i in e.wrt:
        shape, want = np.shape(e.parts[i]), np.shape(e.values[i])
        if shape == want:
            continue
        try:
            _ = e.trial.pull(e.cotangents[0])
        except ValueError as error:
            lead = len(shape) - len(want)
            missing = [
                axis for axis in range(len(shape)) if axis < lead or (want[axis - lead] == 1 and shape[axis] != 1)
            ]
            fits = lead >= 0 and all(n in (1, m) for n, m in zip(want, shape[lead:], strict=True))
            raise e.subject.wrong(
                "shape", i, f"the rule returned the shape {shape} instead of {want}",
                suspect=f"not summed over the broadcast axes {tuple(missing)}" if fits and missing else None,
            ) from error  # fmt: skip


def check_type(e: Examination) -> None:
    """A cotangent is an ndarray or a NumPy scalar; a Python float has no dtype of its own."""
    for i in e.wrt:
        if not isinstance(e.parts[i], (np.ndarray, np.generic)):
            raise e.subject.wrong(
                "type", i, f"the rule returned a {type(e.parts[i]).__name__} instead of an array or a NumPy scalar"
            )


def check_dtype(e: Examination) -> None:
    """A cotangent has the argument's dtype, also in float32: an upcast would double memory unseen."""
    for i in e.wrt:
        given = np.asarray(e.parts[i]).dtype
        if given != np.float64:
            raise e.subject.wrong("dtype", i, f"the rule returned {given} for a float64 argument")
    if "dtype" in e.op.signature.full.parameters:
        return  # changing the dtype is what the op is for, and the sweep changes it back
    with np.errstate(all="ignore"):  # single precision may overflow where double does not
        single = e.single
        promoted = e.promotes_float32
        for out in single.values:
            if out.dtype != np.float32 and not promoted:
                raise e.subject.wrong(
                    "dtype", None, f"float32 arguments give a {out.dtype} output",
                    *(_promotion_in_forward(e) or [_STRONG]),
                )  # fmt: skip
        with e.rules():
            answers = [] if promoted else list(single.raw(e.cast_cotangents(e.cotangents[0])))
    for i, part in e.by_position(answers):
        if i not in e.wrt:
            continue
        given = np.asarray(part).dtype
        if given != np.float32:
            raise e.subject.wrong(
                "dtype", i, f"the rule returned {given} for a float32 argument", *_promotion_in_rules(e)
            )


_STRONG = (
    "does it make an array of integers or of float64 (np.arange, np.zeros and their like take dtype=x.dtype), or use a "
    "NumPy float64? A Python float would not promote"
)


def _promotion_in_forward(e: Examination) -> tuple[str, ...]:
    """Find the line of the forward that leaves single precision."""
    values = [in_precision(value, np.float32) for value in e.values]
    return promotion(lambda watched: e.op.forward(*map(watched, values), **e.settings))


def _promotion_in_rules(e: Examination) -> tuple[str, ...]:
    """Find the line of a rule that leaves single precision."""
    given = e.cast_cotangents(e.cotangents[0])
    return promotion(lambda watched: list(e.single.raw(list(map(watched, given)))))


def check_nonfinite(e: Examination) -> None:
    """Where the derivative is finite, so is the gradient."""
    for k, i in enumerate(e.wrt):
        problem = next((problem for problem in e.problems if i in problem.wrt), e.problem)
        gradient = np.asarray(e.gradients[0][k])
        for j in np.flatnonzero(~np.isfinite(gradient))[:16]:
            found = element_derivative(problem, i, int(j), problem.forward(e.values))
            slopes = [found.slopes.central, found.slopes.left, found.slopes.right]
            if found.verdict == "unsettled" or not all(np.isfinite(slope).all() for slope in slopes):
                continue
            raise not_finite(problem, i, 0, int(j))


def check_alias(e: Examination) -> None:
    """A cotangent shares no memory with inputs or saved values. It may be g itself: the engine copies what it keeps."""
    _check_workspace(e)
    kept = {f"the argument {name!r}": value for name, value in zip(e.subject.arguments, e.values, strict=True)}
    kept |= {f"the saved value {e.readable(name)!r}": value for name, value in e.trial.saved().items()}
    for i, part in e.parts.items():
        for what, value in kept.items():
            for array in arrays_in(value):
                if isinstance(part, np.ndarray) and np.may_share_memory(part, array) and np.shares_memory(part, array):
                    raise e.subject.wrong(
                        "alias", i, f"the rule returned an array that shares memory with {what}: return a copy"
                    )


    _check_watched(e)


def _check_watched(e: Examination) -> None:
    """Where the data of an argument are written to after the call, the engine refuses to run rules that read them.

    It finds saved arrays wherever it can look; so only what it cannot look into is tried.
    """
    saved = {name: value for name, value in (e.trial.node.extra or {}).items() if _is_opaque(value)}
    for i in e.wrt if saved else ():
        kept, written = (e.record([_writable(value, np.float64) for value in e.values]) for _ in range(2))
        leaf = written.leaves[i]
        leaf.data = 0.5 - 2.0 * leaf.data
        try:
            with np.errstate(all="ignore"):
                steady = [g.tobytes() for g in kept.pull(e.cotangents[0])]
                moved = [g.tobytes() for g in written.pull(e.cotangents[0])]
        except Exception:  # it refuses, as it should
            continue
        if moved != steady and steady == [np.asarray(g).tobytes() for g in e.gradients[0]]:
            names = ", ".join(map(repr, saved))
            raise e.subject.wrong(
                "alias", i, f"the saved value {names} holds the memory of this argument where the engine does not see "
                f"it: written to before the backward pass, the gradient is silently wrong instead of refused",
                suspect="save the array itself, ad.save(out, name=x), or a copy of it, and let the rule make the rest",
            )  # fmt: skip


def _is_opaque(value: Any) -> bool:
    """Whether a value holds something else than arrays, numbers and texts in common containers."""
    return any(not is_whole(part) and type(part) not in (tuple, list, dict) for _, part in walk(value))


RUNS = 8
"""Runs of a rule: more than the buffers that it is likely to return in turn."""


def _check_workspace(e: Examination) -> None:
    """Later runs leave the first one's result alone: a rule returns no array that it will write into again."""
    first = Picture({str(i): part for i, part in e.parts.items()})
    for _ in range(RUNS):
        with e.rules("nondet"):
            later = dict(e.by_position(list(e.trial.raw(e.cotangents[1]))))
        for i, part in e.parts.items():
            again = later.get(i)
            reused = isinstance(part, np.ndarray) and isinstance(again, np.ndarray) and np.may_share_memory(part, again)
            if first.changed() or (reused and np.shares_memory(part, again)):
                raise e.subject.wrong(
                    "alias", i, "the rule returns the same memory each time it runs, or one of a few in turn, so that "
                    "a later run overwrites the first one's gradient: return a fresh array",
                )  # fmt: skip


def check_nondeterminism(e: Examination) -> None:
    """The same rule gives the same bits again, and so does another recorded call."""
    first, again = e.gradients[0], e.pull(e.trial, e.cotangents[0], "nondet")
    fresh = e.pull(e.record(e.values), e.cotangents[0], "nondet")
    for what, other in (("a second run of the rules", again), ("the rules of another recorded call", fresh)):
        for i, a, b in zip(e.wrt, first, other, strict=True):
            if a.tobytes() != b.tobytes():
                raise e.subject.wrong(
                    "nondet", i, f"{what}, on the same values and cotangent, gives something else",
                    suspect="random numbers, drawn by the rule or inside a library (give its function a fixed start: "
                    "v0=, x0=, rng=, random_state=); or what was saved is used up",
                )  # fmt: skip
