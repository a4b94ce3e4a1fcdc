"""Mutants: typical mistakes planted in an op's own rules, to see whether its samples notice them.

A rule that passes on poor samples may still be wrong. So each mistake that an author might have made is made, one at a
time, in a copy of the op, and the copy is checked on the samples. What they do not refuse is a survivor: either the
change makes no difference, or a sample is missing.
"""

from __future__ import annotations

import ast
import functools
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import CodeType, FunctionType
from typing import Any

import numpy as np

from ..node import Node
from ..op import Op
from ..source import Source, SourceError, pieces, remade
from ..tensor import Tensor
from .cases import Case, judge
from .contents import arrays_in
from .exact import Values, exact_nodes
from .faults import ADVICE, Bound, Fault, faults, place
from .forms import missing_forms
from .report import CheckError
from .vjp import examine

__all__ = ["Mutant", "Survey", "survey"]

COSTLY = (
    "state", "transposition", "second-order", "memory", "broadcast", "axis", "reuse", "decomposition", "saved-in-vain",
)  # fmt: skip
"""Checks that are made only of mutants which the others let through."""

ROUNDS = 10_000
"""After so many rounds of a ``while`` a mutant is taken to be one that never ends."""


@dataclass(frozen=True)
class Mutant:
    """A mistake in the source of a rule.

    Attributes
    ----------
    kind : str
        What sort of mistake.
    file : str
        The file.
    line : int
        Line in it.
    before, after : str
        The source there, as it is and as it would be.
    reached : bool
        Whether any sample computes the changed expression.
    """

    kind: str
    file: str
    line: int
    before: str
    after: str
    reached: bool = True

    @property
    def advice(self) -> str:
        """What sample would notice it."""
        return ADVICE[self.kind] if self.reached else "no sample gets here: a sample that does"


@dataclass
class Survey:
    """What became of the mutants of one op.

    Attributes
    ----------
    op : Op
        The op.
    planted, refused : int
        How many there were, and how many its samples noticed.
    left_out : int
        How many were not planted since they only matter at exact points (floats that are equal, infinite or NaN) where
        no sample lies: the values chosen there have tests of their own.
    survivors : list of Mutant
        The others.
    unplanted : list of str
        Rules in which nothing could be planted, with the reason.
    forms : str
        Which forms of broadcasting no sample has; empty where that is nothing to wish for.
    """

    op: Op[..., Any]
    planted: int = 0
    refused: int = 0
    left_out: int = 0
    survivors: list[Mutant] = field(default_factory=list)
    unplanted: list[str] = field(default_factory=list)
    forms: str = ""


def survey(cases: Iterable[Case]) -> Iterator[Survey]:
    """Plant mistakes in the rules of ops, in copies of them, and check these on samples.

    Planted is in the rules and in the functions of the same module that they call; where several ops share one, it is
    counted with the first and judged on the samples of all.

    Parameters
    ----------
    cases : iterable of Case
        Samples of ops whose rules have passed on them.

    Yields
    ------
    Survey
        One for each op, in order.

    Examples
    --------
    >>> from autodiff.testing import op_cases
    >>> from autodiff.testing.mutants import survey
    >>> [found] = survey(case for case in op_cases() if case.op.name == "tanh")
    >>> found.planted == found.refused > 10, found.survivors
    (True, [])
    """
    grouped: dict[int, list[Case]] = {}
    for case in cases:
        grouped.setdefault(id(case.op), []).append(case)
    benches = [_Bench(group) for group in grouped.values()]
    first: dict[CodeType, str] = {}
    for bench in benches:
        odd = [rule.function for rule in bench.op.rules if type(rule.function) is not FunctionType]
        unplanted = [f"no plain function, so nothing is planted in it: {rule}" for rule in odd]
        result = Survey(bench.op, unplanted=unplanted, forms=missing_forms(bench.op, bench.cases))
        known = [first[code] for code in dict.fromkeys(f.__code__ for f in bench.functions) if code in first]
        if known and all(function.__code__ in first for function in bench.functions):
            shared = " and ".join(dict.fromkeys(known))
            result.unplanted.append(f"its rules are those of {shared}, where the mistakes in them are counted")
        for function in bench.functions:
            code = function.__code__
            if code not in first:
                first[code] = bench.op.name
                users = [other for other in benches if any(f.__code__ is code for f in other.functions)]
                with warnings.catch_warnings(), np.errstate(all="ignore"):
                    warnings.simplefilter("ignore")  # what a mutant warns of is not the author's concern
                    _plant(function, users, result)
        yield result


class _Bench:
    """An op with its samples, recorded once, on which its mutants are tried."""

    def __init__(self, cases: Sequence[Case]) -> None:
        self.op: Op[..., Any] = cases[0].op
        self.cases = sorted(cases, key=lambda case: sum(int(np.size(x)) for x in case.arrays if x is not None))
        own = [rule.function for rule in self.op.rules if type(rule.function) is FunctionType]
        self.functions = list(dict.fromkeys(piece for function in own for piece in pieces(function)))
        self._calls: list[tuple[Case, Node, Any, list[Any]]] | None = None

    def exchangeable(self, function: FunctionType) -> tuple[str, ...]:
        """Parameters that may be taken for each other: of a rule the arrays."""
        names = function.__code__.co_varnames[: function.__code__.co_argcount]
        if any(rule.function is function for rule in self.op.rules):
            return tuple(name for name in names if name not in ("needs", *self.op.signature.order))
        return names

    def mutated(self, old: CodeType, new: CodeType, names: Mapping[str, Any] | None = None) -> Op[..., Any]:
        """Copy the op, with a changed function in its rules."""
        twin: Op[..., Any] = Op.__new__(Op)  # copy.copy would give the op itself, as of functions
        vars(twin).update(vars(self.op), rules=[], plans={})
        for rule in self.op.rules:
            function = rule.function
            if type(function) is FunctionType:
                function = remade(function, old, new, names)
            twin.add_rule([self.op.signature.arguments[i] for i in rule.arguments], function)
        return twin

    def changes(self, twin: Op[..., Any]) -> Iterator[Case | None]:
        """Find samples on which a mutant's rules return something else; None where they raise."""
        for case, node, g, want in self.calls:
            try:
                if _bits(_answers(twin, node, g)) != want:
                    yield case
            except (Exception, SystemExit):  # whatever it is, the engine would hand it on to the user
                yield None

    def refuses(self, twin: Op[..., Any]) -> bool:
        """Whether the samples notice a mutant: the quick checks on samples that it changes, then all checks on all."""
        for case in self.changes(twin):
            if case is None or self._fails(case, twin, COSTLY):
                return True
        reports = [self._fails(case, twin, ()) for case in self.cases]
        if True in reports:
            return True
        try:
            judge(twin, [report for report in reports if not isinstance(report, bool)])
        except CheckError:
            return True
        return False

    def _fails(self, case: Case, twin: Op[..., Any], without: Sequence[str]) -> Any:
        """Return True where a check fails, else its report."""
        try:
            return examine(twin, case.arguments, None, None, 0, sample=case.number, without=without)[0]
        except (Exception, SystemExit):  # the samples have passed, so it is the mutant's
            return True

    @property
    def calls(self) -> list[tuple[Case, Node, Any, list[Any]]]:
        """The recorded samples, each with a cotangent and what the rules return for it."""
        if self._calls is None:
            rng = np.random.default_rng(0)
            self._calls = [call for case in self.cases if (call := self._record(case, rng)) is not None]
        return self._calls

    def _record(self, case: Case, rng: np.random.Generator) -> tuple[Case, Node, Any, list[Any]] | None:
        op, constant = self.op, self.op.nondifferentiable
        arrays = [
            x if constant & {0 if op.signature.variadic else i} else _tensor(x) for i, x in enumerate(case.arrays)
        ]
        result: Any = op(*arrays, **case.settings)
        several = type(result) is tuple
        first = next((out for out in (result if several else [result]) if out.requires_grad), None)
        if first is None:
            return None
        node = first.node.parents[0] if several else first.node
        g: Any = [_cotangent(out, rng) for out in result] if several else _cotangent(result, rng)
        for array in arrays_in([node.inputs, node.out, node.extra, g]):
            array.flags.writeable = False  # or a mutant could spoil them for the next
        return case, node, g, _bits(_answers(op, node, g))


def _tensor(x: Any) -> Any:
    floats = isinstance(x, (np.ndarray, np.generic)) and x.dtype.kind == "f"
    return Tensor(x, requires_grad=True) if floats else x


def _cotangent(out: Tensor, rng: np.random.Generator) -> Any:
    return np.asarray(rng.normal(0.0, 3.0, out.shape) * (out.dtype.kind == "f"), out.dtype)[()]


def _answers(op: Op[..., Any], node: Node, g: Any) -> list[Any]:
    """Run the rules of an op, or of a mutant of it, for a recorded call."""
    places = [node.op.rules.index(rule) for rule, _ in node.plan.rules]
    return [op.rules[k].run(node, g, needs) for k, (_, needs) in zip(places, node.plan.rules, strict=True)]


def _bits(answer: Any) -> list[Any]:
    """Take an answer apart, into what two answers must have in common."""
    if isinstance(answer, (tuple, list)):
        return [type(answer), *(_bits(part) for part in answer)]
    if answer is None:
        return [None]
    array = np.asarray(answer)
    return [type(answer), array.shape, array.dtype, array.tobytes()]


# --- planting ---


def _plant(function: FunctionType, users: Sequence[_Bench], result: Survey) -> None:
    """Plant all mistakes in one function, and note what became of them."""
    try:
        source = Source.of(function)
    except SourceError as error:
        result.unplanted.append(str(error))
        return
    Bound(ROUNDS).visit(source.definition)
    code = source.compiled()
    if code is None or any(None in user.changes(user.mutated(source.code, code)) for user in users):
        result.unplanted.append(f"{function.__qualname__}: a loop of it takes more than {ROUNDS} rounds")
        return
    values = Values(source, functools.partial(_run, users, source.code))
    exact = exact_nodes(source.definition, values)
    for fault in faults(source.definition, users[0].exchangeable(function)):
        mutant = _changed(source, fault.site, fault.replacement)
        if mutant is None:
            continue
        if id(fault.site.node) in exact:
            result.left_out += 1
            continue
        result.planted += 1
        if any(user.refuses(user.mutated(source.code, mutant)) for user in users):
            result.refused += 1
        elif values.is_empty(fault.site.node) or values.is_empty(fault.site.parent):
            result.planted -= 1  # an array without elements has no numbers to get wrong
        else:
            result.survivors.append(_described(source, fault, _is_reached(source, fault, users)))


def _run(users: Sequence[_Bench], old: CodeType, probed: Source, names: Mapping[str, Any]) -> None:
    """Run the rules of all users on all samples, with a changed function."""
    code = probed.compiled()
    for user in users:
        assert code is not None, "the function only got calls around its expressions"
        twin = user.mutated(old, code, names)
        for _, node, g, _ in user.calls:
            _answers(twin, node, g)


def _changed(source: Source, site: Any, replacement: ast.AST) -> CodeType | None:
    """Compile the function with something else at one place; None if that is no other function."""
    site.put(replacement)
    try:
        code = source.compiled()
    finally:
        site.put(site.node)
    same = code is None or (code.co_code, code.co_consts) == (source.code.co_code, source.code.co_consts)
    return None if same and (code is None or code.co_names == source.code.co_names) else code


def _is_reached(source: Source, fault: Fault, users: Sequence[_Bench]) -> bool:
    """Whether any sample comes by the place: there, a mutant raises."""
    bomb: Any = ast.Attribute(ast.Constant(0), "no_sample_gets_here", ast.Load())
    if isinstance(fault.site.node, ast.stmt):
        bomb = ast.Expr(bomb)
    place(bomb, fault.site.node)
    code = _changed(source, fault.site, bomb)
    return code is None or any(None in user.changes(user.mutated(source.code, code)) for user in users)


def _described(source: Source, fault: Fault, reached: bool) -> Mutant:
    """Write a mutant as a reader of the source would see it."""
    node: Any = fault.site.node
    lines = [line.encode() for line in source.lines[node.lineno - 1 : node.end_lineno]]
    text = ast.unparse(fault.replacement)
    if isinstance(fault.replacement, (ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.IfExp)):
        text = f"({text})"
    end = lines[-1][node.end_col_offset :]
    after = lines[0][: node.col_offset] + text.encode() + end
    before = b"".join(lines)
    return Mutant(fault.kind, source.file, node.lineno, _joined(before), _joined(after), reached)


def _joined(line: bytes) -> str:
    """Write lines of source as one, without the comment at their end."""
    return " ".join(line.decode().split())
