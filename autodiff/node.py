"""The graph's vertices, what an op is, and the table of all ops. Nothing here knows of tensors.

An op is one thing in one place: its forward, its vector-Jacobian product (VJP) rules and, if it is fused, its
decomposition into primitives. A node is one recorded call of an op. It points to the nodes that its arguments came
from and keeps what the rules will ask for; it never points to its own output, so graphs hold no reference cycles and
die by reference count alone.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Final, TypeAlias
from weakref import ReferenceType

import numpy as np

from .rules import Rule
from .signature import RESERVED, Signature, nearest

__all__ = ["OPS", "SCALARS", "TWINS", "Array", "Leaf", "Node", "Plan", "Spec", "Vertex", "clock", "record"]

Array: TypeAlias = Any
"""What a rule computes with: an ndarray or NumPy scalar; a Tensor where the backward pass is itself recorded."""

SCALARS: Final[dict[type, np.dtype[Any]]] = {kind: np.dtype(kind) for kind in (np.float64, np.float32)}
"""The dtypes of NumPy's scalars, by type: to look one up costs a third of asking the scalar."""

clock: Callable[[], int] = itertools.count(1).__next__
"""The creation counter: every node's number, and the stamp of every write to a leaf's data, in one order."""


class Leaf:
    """Where the graph begins: a tensor that no op made.

    Its identity is its own: two leaves with equal data are two leaves. ``number`` is the time of its creation or of the
    last write to its data, by which the backward pass notices that a saved array has changed since. A constant
    (``requires_grad`` false) is kept as a parent for that reason alone.
    """

    __slots__ = ("dtype", "number", "requires_grad", "shape", "source", "tensor")
    written: ClassVar[int] = 0
    """When data were last written to, of any leaf: what was saved later cannot have changed."""

    def __init__(
        self, shape: tuple[int, ...], dtype: np.dtype[Any], requires_grad: bool,
        tensor: ReferenceType[Any] | None = None, source: Leaf | None = None,
    ) -> None:  # fmt: skip
        self.shape, self.dtype, self.requires_grad, self.tensor = shape, dtype, requires_grad, tensor
        self.source = source  # the leaf whose data it shares, for an unrecorded view; never itself (no cycles)
        self.number = clock()

    @property
    def root(self) -> Leaf:
        """The leaf that owns the data."""
        return self.source or self


class Node:
    """One recorded call of an op.

    Attributes
    ----------
    plan : Plan
        The op, and which of its rules run for this call.
    parents : tuple of Node, Leaf or None
        One entry per argument, order and duplicates kept; None for a plain array or number.
    inputs : sequence or None
        The saved arguments, None where no rule asks for one. The backward pass puts `RELEASED` here.
    out : array or None
        The output, if a rule asks for it.
    extra : dict or None
        Values of the forward that `save` gave and a rule asks for.
    settings : dict
        The call's settings, defaults bound.
    shape, dtype
        Those of the output (lists of them for an op with several outputs).
    number : int
        Creation number: parents have lower ones, so sorting by it is a topological order.
    scope : str
        Where in the model the call was made.
    root : Leaf or None
        The leaf whose memory the output is a view of.
    tensor : weak reference or None
        The output tensor, where `retain_grad` asked for its gradient.
    origin : object or None
        What anomaly mode noted when the call was recorded.
    """

    __slots__ = (
        "dtype", "extra", "inputs", "number", "origin", "out", "parents", "plan", "root", "scope", "settings", "shape",
        "tensor",
    )  # fmt: skip
    requires_grad: Final = True  # a call is only recorded if one of its arguments does
    plan: Plan
    parents: tuple[Vertex | None, ...]
    inputs: Sequence[Any] | None
    out: Any
    extra: dict[str, Any] | None
    settings: Mapping[str, Any]
    shape: Any
    dtype: Any
    scope: str
    root: Leaf | None
    tensor: ReferenceType[Any] | None
    origin: Any
    number: int

    @property
    def op(self) -> Spec:
        """The op that was called."""
        return self.plan.op

    def __repr__(self) -> str:
        return f"<Node {self.number}: {self.op.name} -> {self.shape} {self.dtype}>"


def record(
    plan: Plan, parents: tuple[Vertex | None, ...], values: Any, out: Any, extra: dict[str, Any] | None,
    settings: Mapping[str, Any], shape: Any, dtype: Any, scope: str, root: Leaf | None,
) -> Node:  # fmt: skip
    """Make the node of a call; it keeps what the rules that will run ask for, and nothing else.

    It is a function because every call comes here, and an ``__init__`` would take half as long again.
    """
    for i in plan.drop:
        values[i] = None
    node = Node()
    node.plan = plan
    node.parents = parents
    node.inputs = None if plan.keep is None else values
    node.out = out if plan.keep_out else None
    node.extra = extra
    node.settings = settings
    node.shape = shape
    node.dtype = dtype
    node.scope = scope
    node.root = root
    node.tensor = node.origin = None
    node.number = clock()
    return node


Vertex: TypeAlias = Node | Leaf

RELEASED: Final[tuple[Any, ...]] = ("released",)
"""Stands for the saved arguments of a node that a backward pass has consumed."""


class Plan:
    """What one pattern of differentiated arguments makes an op keep, and the rules that will run for it."""

    __slots__ = ("drop", "found", "keep", "keep_out", "kept", "op", "rules", "saves", "values")

    def __init__(
        self, op: Spec, rules: tuple[tuple[Rule, tuple[bool, ...]], ...], keep: tuple[bool, ...] | None,
        keep_out: bool = False, values: tuple[str, ...] = (),
    ) -> None:  # fmt: skip
        self.op, self.keep_out, self.values = op, keep_out, values
        self.rules = rules  # each with the `needs` of its arguments
        self.keep = keep  # which arguments are saved; None for none
        self.saves = keep is not None or keep_out or bool(values)
        self.drop, self.kept = ([i for i, kept in enumerate(keep or ()) if kept is which] for which in (False, True))
        self.found: set[tuple[str, ...]] = set()  # names of the forward's saved values that were found to be right


class Spec:
    """What an op is: forward, signature, rules, decomposition, and how its plans are made."""

    def __init__(self, forward: Callable[..., Any], *, elementwise: bool, batched: bool, linear: bool) -> None:
        self.forward = forward
        self.name: str = forward.__name__
        self.signature = Signature(forward)
        self.elementwise, self.batched, self.linear = elementwise, batched, linear
        self.rules: list[Rule] = []
        self.nondifferentiable: set[int] = set()
        self.varying: set[int] = set()  # those among them that the output depends on, as their declaration says
        self.decomposed: Callable[..., Any] | None = None
        self.plans: dict[int, Plan] = {}  # by bit mask of the arguments to differentiate, under a bit for their count

    def argument(self, name: str) -> int:
        """Position of an argument, by name."""
        arguments = self.signature.arguments
        if name not in arguments:
            raise TypeError(f"op {self.name!r} has no argument {name!r}, only {arguments}.{nearest(name, arguments)}")
        return arguments.index(name)

    def argument_name(self, i: int) -> str:
        """Name of the argument at a position; those of a variadic op are numbered."""
        arguments = self.signature.arguments
        return f"{arguments[0]}[{i}]" if self.signature.variadic else arguments[i]

    def add_rule(self, names: Sequence[str], function: Callable[..., Any]) -> None:
        """Register a rule for some arguments, in place of earlier ones for the same."""
        arguments = tuple(self.argument(name) for name in names)
        if not arguments or len(set(arguments)) != len(arguments):
            raise TypeError(f"op {self.name!r}: name the arguments of the rule, each once; got {tuple(names)}")
        rule = Rule(self.name, self.signature, names, arguments, function)
        self.rules = [r for r in self.rules if not set(r.arguments) & set(arguments)] + [rule]
        self.plans.clear()

    def plan(self, mask: int, count: int) -> Plan:
        """Choose the rules for the arguments in a bit mask, and what they need kept; remembered in `plans`."""
        variadic = self.signature.variadic
        wanted = [bool(mask >> i & 1) for i in range(count)]
        rules: list[tuple[Rule, tuple[bool, ...]]] = []
        covered: set[int] = set()
        for rule in self.rules:
            needs = tuple(wanted) if variadic else tuple(wanted[i] for i in rule.arguments)
            if any(needs):
                rules.append((rule, needs))
                covered.update(rule.arguments)
        for i in range(count):
            argument = 0 if variadic else i
            if wanted[i] and argument not in covered | self.nondifferentiable:
                name = self.signature.arguments[argument]
                raise TypeError(
                    f"op {self.name!r} has no VJP rule for its argument {name!r}, which requires a gradient: add one "
                    f"with .vjp({name!r}), declare it with .nondiff({name!r}), or pass {name}.detach()"
                )
        kept = frozenset[int]().union(*(rule.inputs for rule, _ in rules))
        keep = (bool(kept),) * count if variadic else tuple(i in kept for i in range(count))
        values = tuple(dict.fromkeys(name for rule, _ in rules for name in rule.values))
        keep_out = any(rule.out for rule, _ in rules)
        plan = Plan(self, tuple(rules), keep if any(keep) else None, keep_out, values)
        self.plans[mask | 1 << count] = plan
        return plan

    def select(self, plan: Plan, extra: dict[str, Any]) -> dict[str, Any]:
        """Select the values that the rules of a plan ask for from those that `save` gave."""
        names = (*extra,)
        if names not in plan.found:
            self._check_saved(plan, names)
            plan.found.add(names)
        return extra if len(names) == len(plan.values) else {name: extra[name] for name in plan.values}

    def _check_saved(self, plan: Plan, names: tuple[str, ...]) -> None:
        """Refuse names of saved values that an argument or setting has, or that a rule asks for and no one gave."""
        parameters = (*RESERVED, *self.signature.full.parameters)
        for name in set(names).intersection(parameters):
            raise TypeError(f"op {self.name!r}: save({name}=...) hides a parameter of that name; rename the value")
        for name in set(plan.values).difference(names):
            known = [*parameters, *names]
            raise TypeError(
                f"op {self.name!r}: a VJP rule asks for {name!r}, which is neither an argument, a setting nor a saved "
                f"value; known are {', '.join(known)}.{nearest(name, known)} To have a value of the forward, write "
                f"there: return ad.save(out, {name}=...)"
            )


OPS: dict[str, Any] = {}
"""Every op by name."""

TWINS: dict[Any, Any] = {}
"""The op that records a call of a NumPy function or ufunc on a tensor, by that function."""
