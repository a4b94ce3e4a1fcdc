"""What the checks of one call share: the call, its cotangents, and what the rules returned."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np

from ..op import Op
from .numeric import Vector, flat
from .report import CheckError, Subject, VJPReport
from .trial import Trial
from .value import Problem

__all__ = ["Examination", "declared_of", "in_precision"]


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
    kinks: Literal["error", "subgradient"] = "error"
    linear: bool = False
    reference: Callable[..., Any] | None = None
    generator: np.random.Generator = field(init=False)

    def __post_init__(self) -> None:
        self.generator = np.random.default_rng(self.subject.seed)

    # --- computed once, on first use ---

    @cached_property
    def trial(self) -> Trial:
        """The recorded call."""
        return self.record(self.values)

    @cached_property
    def cotangents(self) -> tuple[list[Any], list[Any]]:
        """Two cotangents, each a list with one for every floating output."""
        return self.trial.cotangents(self.generator), self.trial.cotangents(self.generator)

    @cached_property
    def gradients(self) -> tuple[list[Any], list[Any]]:
        """The engine's gradients for the two cotangents: what the rules gave, summed and cast."""
        return self.pull(self.trial, self.cotangents[0]), self.pull(self.trial, self.cotangents[1])

    @cached_property
    def parts(self) -> dict[int, Any]:
        """What the rules return for the first cotangent, by position of the argument."""
        with self.rules():
            return self.parts_of(self.trial, self.cotangents[0])

    @cached_property
    def single(self) -> Trial:
        """The call with float32 arguments."""
        return self.record([in_precision(value, np.float32) for value in self.values])

    @cached_property
    def promotes_float32(self) -> bool:
        """Whether NumPy itself computes in float64, because a float32 argument meets an array of large integers."""
        arrays = [v for v in self.values if isinstance(v, (np.ndarray, np.generic)) and v.dtype.kind != "b"]
        return bool(np.result_type(*(in_precision(v, np.float32) for v in arrays)) != np.float32)

    @cached_property
    def problem(self) -> Problem:
        """What the differences are compared with."""
        rows = np.stack([np.asarray(flat(tuple(g)), float) for g in self.cotangents])
        claimed = {
            i: np.stack([np.asarray(gradients[k], float).reshape(-1) for gradients in self.gradients])
            for k, i in enumerate(self.wrt)
        }
        return Problem(
            self.subject, self.forward, self.values, self.wrt, rows, claimed, self.rtol, self.atol, self.scheme,
            self.kinks,
        )  # fmt: skip

    # --- running things ---

    def forward(self, values: Sequence[Any]) -> Vector:
        """Compute the floating outputs of the op (or of the reference) as one vector."""
        function: Callable[..., Any] = self.op if self.reference is None else self.reference
        return flat(function(*values, **self.settings))

    def record(self, values: Sequence[Any], wrt: Sequence[int] | None = None) -> Trial:
        """Record another call with the same settings."""
        return Trial(self.op, values, self.settings, self.wrt if wrt is None else wrt)

    def pull(self, trial: Trial, cotangents: Sequence[Any], kind: str = "raises") -> list[Any]:
        """Run the engine's sweep; an error in a rule is the rule's."""
        with self.rules(kind):
            return trial.pull(cotangents)

    def cast_cotangents(self, cotangents: Sequence[Any]) -> list[Any]:
        """Give cotangents the dtypes of the outputs for float32 arguments."""
        return [np.asarray(g, out.dtype)[()] for g, out in zip(cotangents, self.single.values, strict=True)]

    def parts_of(self, trial: Trial, cotangents: Sequence[Any]) -> dict[int, Any]:
        """Run the rules; return what they gave for the arguments in question, as it is."""
        found = {}
        for rule, needs, answer in trial.raw(cotangents):
            if not rule.several:
                found[rule.arguments[0]] = answer
                continue
            self.check_arity(rule.arguments, len(needs), answer)
            positions = range(len(needs)) if self.op.signature.variadic else rule.arguments
            for i, part in zip(positions, answer, strict=True):
                if i in trial.wrt:
                    found[i] = part
                elif part is not None:
                    self.check_not_differentiable(i)
        return found

    def check_arity(self, arguments: tuple[int, ...], count: int, answer: Any) -> None:
        """A rule for several arguments returns a tuple with one cotangent for each."""
        if type(answer) is not tuple or len(answer) != count:
            given = f"a tuple of {len(answer)}" if type(answer) is tuple else f"a {type(answer).__name__}"
            names = ", ".join(self.op.signature.arguments[i] for i in arguments)
            raise self.subject.wrong(
                "arity", None, f"the rule for {names} returned {given} instead of a tuple of {count} cotangents"
            )

    def check_not_differentiable(self, i: int) -> None:
        """An argument that cannot vary has no cotangent, not even zeros: that would say that it can."""
        value = self.values[i]
        declared = declared_of(self.op, i) in self.op.nondifferentiable
        whole = isinstance(value, (np.ndarray, np.generic)) and value.dtype.kind in "iub"
        if declared or whole:
            why = "is declared nondiff" if declared else f"holds {value.dtype}"
            raise self.subject.wrong(
                "nondiff", i, f"the rule returned a cotangent for an argument that {why}: return None for it"
            )

    @contextmanager
    def rules(self, kind: str = "raises") -> Iterator[None]:
        """Report what is raised inside as an error of a VJP rule, with the line where it happened."""
        try:
            yield
        except CheckError:
            raise
        except Exception as error:
            frame = traceback.extract_tb(error.__traceback__)[-1]
            read_only = isinstance(error, ValueError) and "read-only" in str(error)
            what = "writes into its cotangent, an input or a saved value" if read_only else "raised"
            raise self.subject.wrong(
                "writes" if read_only else kind, None, f"a VJP rule {what}: {type(error).__name__}: {error}",
                f"at {frame.filename}:{frame.lineno}: {frame.line}",
            ) from error  # fmt: skip

    def close(self, got: Any, want: Any, relative: float, absolute: float) -> bool:
        """Compare two arrays by their largest difference, relative to the largest entry of the one that is right."""
        got, want = np.asarray(got), np.asarray(want)
        if got.shape != want.shape:
            return False
        with np.errstate(invalid="ignore"):
            same = (got == want) | (np.isnan(got) & np.isnan(want))
            off = np.abs(np.where(same, 0.0, got - want))
        largest = float(np.max(np.abs(want), initial=0.0, where=np.isfinite(want)))
        return bool(np.all(off <= relative * largest + absolute))

    def reach(self, cotangents: Sequence[Any]) -> float:
        """Largest magnitude in a cotangent."""
        return max((float(np.max(np.abs(g), initial=0.0)) for g in cotangents), default=0.0)


def declared_of(op: Op[..., Any], i: int) -> int:
    """Return the declared argument that the one at a position belongs to: the arrays of a variadic op are one."""
    return 0 if op.signature.variadic else i


def in_precision(value: Any, dtype: Any) -> Any:
    """Cast a floating array or NumPy scalar; leave the rest as it is, Python's numbers being weak."""
    if isinstance(value, (np.ndarray, np.generic)) and value.dtype.kind == "f":
        cast = np.array(value, dtype, order="K")
        cast.flags.writeable = False
        return cast[()]
    return value
