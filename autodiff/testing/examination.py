"""What the checks of one call share: the call, its cotangents, and what the rules returned."""

from __future__ import annotations

import functools
import os
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .. import modes
from ..op import Op
from ..rules import Rule
from ..saving import Saved
from .contents import Picture
from .numeric import Vector, flat
from .report import CheckError, Subject, VJPReport
from .trial import OWN_RULE, Recording, Trial
from .value import Problem

__all__ = ["Examination", "declared_of", "in_precision"]

Answer: TypeAlias = tuple[Rule, tuple[bool, ...], Any]
"""A rule, which of its arguments needed a cotangent, and what it returned."""


@dataclass
class Examination:
    """A call of an op under examination, and the wishes of whoever asked."""

    op: Op[..., Any]
    subject: Subject
    values: list[Any]
    settings: dict[str, Any]
    wrt: tuple[int, ...]
    report: VJPReport
    rtol: float = 1e-6
    atol: float = 1e-9
    scheme: Literal["central5", "complex"] = "central5"
    kinks: Literal["error", "subgradient", "leave out"] = "error"
    linear: bool = False
    reference: Callable[..., Any] | None = None
    generator: np.random.Generator = field(init=False)
    settings_given: Picture = field(init=False)
    pictures: list[tuple[Picture, str, str]] = field(init=False, default_factory=list)
    """Of what nothing may change until the end, with the kind of error that it is, and what it means."""

    def __post_init__(self) -> None:
        self.generator = np.random.default_rng(self.subject.seed)
        self.settings_given = Picture({f"the setting {name!r}": value for name, value in self.bound.items()})

    @property
    def bound(self) -> dict[str, Any]:
        """The settings of the call, with the defaults of the others."""
        return {**self.op.signature.settings, **self.settings}

    @property
    def surrogates(self) -> tuple[int, ...]:
        """The arguments whose rule is not the derivative of the op, on purpose."""
        named = set(map(self.op.argument, self.op.surrogate))
        return tuple(i for i in self.wrt if declared_of(self.op, i) in named)

    @property
    def sources(self) -> list[tuple[Callable[..., Any], tuple[int, ...]]]:
        """The functions whose derivatives the gradients shall be, each with the arguments for which it stands.

        Beside surrogates a reference stands for these alone: all other rules are those of the op itself.
        """
        if self.reference is not None and not self.op.surrogate:
            return [(self.reference, self.wrt)]
        pairs: list[tuple[Callable[..., Any], tuple[int, ...]]] = [
            (self.op, tuple(i for i in self.wrt if i not in self.surrogates))
        ]
        if self.reference is not None:
            pairs.append((self.reference, self.surrogates))
        return [(function, wrt) for function, wrt in pairs if wrt]

    @property
    def judged(self) -> tuple[int, ...]:
        """The arguments whose gradients are compared with differences."""
        return tuple(i for i in self.wrt if any(i in wrt for _, wrt in self.sources))

    # --- computed once, on first use ---

    @functools.cached_property
    def settings_or_defaults(self) -> dict[str, Any]:
        """All settings, those with their default too."""
        return {**self.op.signature.settings, **self.settings}

    @functools.cached_property
    def trial(self) -> Trial:
        """The recorded call."""
        return self.record(self.values)

    @functools.cached_property
    def cotangents(self) -> tuple[list[Any], list[Any]]:
        """Two cotangents, each a list with one for every floating output."""
        return self.trial.cotangents(self.generator), self.trial.cotangents(self.generator)

    @functools.cached_property
    def gradients(self) -> tuple[list[Any], list[Any]]:
        """The engine's gradients for the two cotangents: what the rules gave, summed and cast."""
        return self.pull(self.trial, self.cotangents[0]), self.pull(self.trial, self.cotangents[1])

    @functools.cached_property
    def answers(self) -> list[Answer]:
        """What each rule returns for the first cotangent, as it is."""
        with self.rules():
            answers = list(self.trial.raw(self.cotangents[0]))
        returned = {"what a VJP rule returned": [answer for _, _, answer in answers]}
        self.pictures.append((Picture(returned), "alias", "is overwritten by a later run of the rule"))
        return answers

    @functools.cached_property
    def parts(self) -> dict[int, Any]:
        """What the rules returned for the arguments in question, by position."""
        return {i: part for i, part in self.by_position(self.answers) if i in self.wrt}

    @functools.cached_property
    def recording(self) -> Recording | str:
        """The backward pass for the first cotangent, recorded; or why there is none, since it must raise then.

        Higher derivatives of a fused op are those of its decomposition.
        """
        mode = OWN_RULE if self.op.decomposed is None else modes.recording()
        try:
            with np.errstate(all="ignore"):
                return Recording(Trial(self.op, self.values, self.settings, self.wrt, mode), self.cotangents[0])
        except Exception as error:
            return f"the rule cannot be differentiated, and raises ({type(error).__name__}: {_first_line(error)})"

    @functools.cached_property
    def single(self) -> Trial:
        """The call with float32 arguments."""
        return self.record([in_precision(value, np.float32) for value in self.values])

    @functools.cached_property
    def double(self) -> Trial:
        """The call in double precision with the numbers that single precision rounds the arguments to."""
        return self.record([in_precision(in_precision(v, np.float32), np.float64) for v in self.values])

    @functools.cached_property
    def single_refused(self) -> str:
        """Why there is no call in single precision, where an op with a setting dtype does not take it; else empty."""
        if "dtype" not in self.settings:
            return ""
        try:
            _ = self.single
        except Exception as error:
            return f"with these settings the op refuses float32 ({type(error).__name__}: {_first_line(error)})"
        return ""

    @functools.cached_property
    def one_hot(self) -> list[Any]:
        """A cotangent that is zero but for one element, in the middle of the first output that has any."""
        zeros = [np.zeros(np.shape(g), np.asarray(g).dtype) for g in self.cotangents[0]]
        for array in zeros:
            if array.size:
                array.flat[array.size // 2] = 1.0
                break
        return [_read_only(array) for array in zeros]

    @functools.cached_property
    def from_constant(self) -> list[Any]:
        """The gradients for a cotangent of 1.5 everywhere."""
        dense = [np.full(np.shape(g), 1.5, np.asarray(g).dtype) for g in self.cotangents[0]]
        return self.pull(self.trial, [_read_only(array) for array in dense])

    @functools.cached_property
    def promotes_float32(self) -> bool:
        """Whether NumPy itself computes in float64, because a float32 argument meets an array of large integers."""
        arrays = [v for v in self.values if isinstance(v, (np.ndarray, np.generic)) and v.dtype.kind != "b"]
        return bool(np.result_type(*(in_precision(v, np.float32) for v in arrays)) != np.float32)

    @functools.cached_property
    def problem(self) -> Problem:
        """What the differences of the op itself are compared with."""
        rows = np.stack([np.asarray(flat(tuple(g)), float) for g in self.cotangents])
        return Problem(
            self.subject, self.forward, self.values, [out.shape for out in self.trial.values], self.wrt, rows,
            self.claims(self.gradients), self.rtol, self.atol, self.scheme, self.kinks,
        )  # fmt: skip

    @functools.cached_property
    def problems(self) -> list[Problem]:
        """What the differences of each function are compared with, for the arguments for which it stands."""
        return [
            self.problem._replace(
                wrt=wrt,
                forward=self.forward if function is self.op else functools.partial(self.forward, function=function),
            )
            for function, wrt in self.sources
        ]

    def claims(self, gradients: Sequence[Sequence[Any]]) -> dict[int, Any]:
        """Arrange gradients for several cotangents as a problem takes them: for each argument, a row for each."""
        return {
            i: np.stack([np.asarray(row[k], float).reshape(-1) for row in gradients]) for k, i in enumerate(self.wrt)
        }

    # --- running things ---

    def forward(self, values: Sequence[Any], function: Callable[..., Any] | None = None) -> Vector:
        """Compute the floating outputs of the op, or of a function in its place, as one vector.

        A complex step calls the op's function itself: the op takes no complex numbers.
        """
        own = self.op.forward if self.scheme == "complex" else self.op
        out = (function or own)(*values, **self.settings)
        return flat(out[0] if type(out) is Saved else out)

    def record(
        self, values: Sequence[Any], wrt: Sequence[int] | None = None, settings: dict[str, Any] | None = None
    ) -> Trial:
        """Record another call, by default with the same settings."""
        try:
            return Trial(
                self.op, values, self.settings if settings is None else settings, self.wrt if wrt is None else wrt
            )
        except ValueError as error:
            if "read-only" not in str(error):
                raise
            what = "the forward writes into an argument or a setting"
            raise self.subject.wrong("writes", None, what, _place(error)) from error

    def pull(self, trial: Trial, cotangents: Sequence[Any], kind: str = "raises") -> list[Any]:
        """Run the engine's sweep. An error in it is a rule's; one that its first run did not make has its own kind."""
        try:
            return trial.pull(cotangents)
        except Exception:
            if trial is self.trial and not self._runs_again():
                kind = "nondet"
            with self.rules(kind):
                raise

    def _runs_again(self) -> bool:
        """Whether the rules still take the first cotangent, as they did at first."""
        _ = self.answers
        try:
            return bool(list(self.trial.raw(self.cotangents[0])))
        except Exception:  # what it is has been caught already
            return False

    def cast_cotangents(self, cotangents: Sequence[Any]) -> list[Any]:
        """Give cotangents the dtypes of the outputs for float32 arguments."""
        return [np.asarray(g, out.dtype)[()] for g, out in zip(cotangents, self.single.values, strict=True)]

    def by_position(self, answers: Iterable[Answer]) -> Iterator[tuple[int, Any]]:
        """Take what rules returned apart, by position of the argument."""
        for rule, needs, answer in answers:
            if rule.several:
                yield from zip(self.positions(rule, needs), answer, strict=False)
            else:
                yield rule.arguments[0], answer

    def positions(self, rule: Rule, needs: tuple[bool, ...]) -> Sequence[int]:
        """Positions of the arguments that a rule is for."""
        return range(len(needs)) if self.op.signature.variadic else rule.arguments

    def readable(self, saved: str) -> str:
        """Name a saved value as a rule's parameters do."""
        return self.subject.arguments[int(saved.split()[1])] if saved.startswith("input ") else saved

    @contextmanager
    def rules(self, kind: str = "raises", subject: Subject | None = None) -> Iterator[None]:
        """Report what is raised inside as an error of a VJP rule, with the line where it happened."""
        try:
            yield
        except CheckError:
            raise
        except Exception as error:
            read_only = isinstance(error, ValueError) and "read-only" in str(error)
            what = "raised, where its first run did not" if kind == "nondet" else "raised"
            if read_only:
                kind, what = "writes", "writes into its cotangent, an input, a saved value or a setting"
            line = f"a VJP rule {what}: {type(error).__name__}: {error}"
            raise (subject or self.subject).wrong(kind, None, line, _place(error)) from error

    def close(self, got: Any, want: Any, relative: float, absolute: float) -> bool:
        """Compare two arrays by their largest difference, relative to the largest entry of the one that is right."""
        got, want = np.asarray(got), np.asarray(want)
        if got.shape != want.shape:
            return False
        if (got == want).all():  # as a rule
            return True
        with np.errstate(invalid="ignore"):
            same = (got == want) | (np.isnan(got) & np.isnan(want))
            off = np.abs(np.where(same, 0.0, got - want))
        largest = float(np.max(np.abs(want), initial=0.0, where=np.isfinite(want)))
        return bool(np.all(off <= relative * largest + absolute))

    def agree(
        self, got: Any, want: Any, relative: float, absolute: float, wobble: Callable[[], list[float]], k: int
    ) -> bool:
        """Compare as `close` does; what fails that may still differ by as much as roundings make the k-th wobble."""
        if self.close(got, want, relative, absolute):
            return True
        return np.shape(got) == np.shape(want) and self.close(got, want, relative, absolute + wobble()[k])

    def wobble(self, values: Sequence[Any], compute: Callable[[list[Any]], Sequence[Any]]) -> list[float]:
        """How much results change if the arguments do in their last place, a few times over.

        That is what their rounding does, and it shows what roundings inside the computation do: both are alike in size.
        """
        rng = np.random.default_rng(self.subject.seed)
        with np.errstate(all="ignore"):
            base = [np.array(result) for result in compute(list(values))]
            worst = [0.0] * len(base)
            for _ in range(8):
                try:
                    moved = compute([_nudged(value, rng) for value in values])
                except Exception:  # outside the domain, at whose edge the call is
                    continue
                changes = [np.abs(a - b) for a, b in zip(moved, base, strict=True)]
                largest = [float(np.max(change, initial=0.0, where=np.isfinite(change))) for change in changes]
                worst = list(map(max, worst, largest))
        return [8 * w for w in worst]

    def wobble_of_gradients(self) -> list[float]:
        """How much each gradient wobbles."""
        return self.wobble(self.values, lambda moved: self.pull(self.record(moved), self.cotangents[0]))

    def wobble_of_values(self) -> list[float]:
        """How much each floating output wobbles."""
        return self.wobble(self.values, lambda moved: self.record(moved).values)

    def wobble_of_single(self) -> list[float]:
        """How much each gradient wobbles in single precision."""
        given = self.cast_cotangents(self.cotangents[0])
        values = [in_precision(value, np.float32) for value in self.values]
        return self.wobble(values, lambda moved: self.pull(self.record(moved), given))

    def reach(self, cotangents: Sequence[Any]) -> float:
        """Largest magnitude in a cotangent."""
        return max((float(np.max(np.abs(g), initial=0.0)) for g in cotangents), default=0.0)


def declared_of(op: Op[..., Any], i: int) -> int:
    """Return the declared argument that the one at a position belongs to: the arrays of a variadic op are one."""
    return 0 if op.signature.variadic else i


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]


def _place(error: Exception) -> str:
    """Write the innermost line that raised it outside of NumPy."""
    frames = traceback.extract_tb(error.__traceback__)
    library = os.path.dirname(np.__file__)
    frame = next((frame for frame in reversed(frames) if not frame.filename.startswith(library)), frames[-1])
    return f"at {frame.filename}:{frame.lineno}: {frame.line}"


def in_precision(value: Any, dtype: Any) -> Any:
    """Cast a floating array or NumPy scalar; leave the rest as it is, Python's numbers being weak."""
    if isinstance(value, (np.ndarray, np.generic)) and value.dtype.kind == "f":
        cast = np.array(value, dtype, order="K")
        cast.flags.writeable = False
        return cast[()]
    return value


def _nudged(value: Any, rng: np.random.Generator) -> Any:
    """Move each floating number up or down by one or two units in its last place."""
    if not isinstance(value, (np.ndarray, np.generic)) or value.dtype.kind != "f":
        return value
    step = np.spacing(np.abs(value)) * rng.choice([-2, -1, 1, 2], np.shape(value)).astype(value.dtype)
    return _read_only(np.asarray(np.where(np.isfinite(value), value + step, value)))


def _read_only(array: NDArray[Any]) -> Any:
    array.flags.writeable = False
    return array[()]
