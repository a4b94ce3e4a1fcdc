"""Declaring an op, and recording its calls.

An op is declared as a plain NumPy function and its rules::

    @op(numpy=np.tanh)
    def tanh(x):
        return np.tanh(x)

    @tanh.vjp("x")
    def _(g, out):                 # keeps the output, nothing else
        return g * (1 - out * out)

The parameter names of a rule say what is saved: arguments and settings of the op, ``out``, and values that the forward
gave to `save`. ``g`` is the cotangent of the output; ``needs`` tells which of several arguments need theirs.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, overload

import numpy as np
from numpy import ndarray
from numpy.typing import NDArray

from . import anomaly, binding, modes
from .backward import Pick
from .node import OPS, SCALARS, TWINS, Leaf, Node, Spec, Vertex, record
from .notes import annotate
from .protocols import as_numpy
from .saving import Saved, save
from .sharing import view_of
from .signature import parameters_of
from .tensor import Tensor, wrap

if TYPE_CHECKING:
    from .calling import Call
else:
    Call = Generic  # it has nothing that runs

__all__ = ["PICK", "Op", "op", "save", "zeros"]

P = ParamSpec("P")
R = TypeVar("R")
Rule = TypeVar("Rule", bound=Callable[..., Any])

_AS_THEY_ARE = frozenset({float, int, bool, np.float64, np.float32, type(None)})
"""Argument types that a forward takes unconverted. Python's numbers stay what they are: weak in NumPy's promotion."""


def zeros(g: Any) -> Any:
    """Give a constant's cotangent: the rule of what `Op.zero` declares."""
    return np.zeros_like(g)


class Op(Spec, Call[P, R]):
    """A differentiable operation; made by `op`. Calling it on tensors records; on plain arrays it just computes."""

    def __init__(
        self, forward: Callable[P, R], *, numpy: Any = None, elementwise: bool = False, linear: bool = False,
        surrogate: Sequence[str] = (), samples: Any = (), error_samples: Any = (),
    ) -> None:  # fmt: skip
        ufunc = isinstance(numpy, np.ufunc)
        batched = ufunc and numpy.signature is not None  # a generalized ufunc broadcasts all but the last axes
        super().__init__(forward, elementwise=elementwise or (ufunc and not batched), batched=batched, linear=linear)
        functools.update_wrapper(self, forward)
        self.arity = -1 if self.signature.variadic else len(self.signature.arguments)
        self.defaults = None if self.signature.required else self.signature.settings
        self.twin, self.surrogate = numpy, binding.named_arguments(self, "surrogate", surrogate)
        self.samples, self.error_samples = samples, error_samples

    def __repr__(self) -> str:
        return f"<op {self.name}{self.signature}>"

    def __reduce__(self) -> str:
        return self.forward.__qualname__  # copied and saved as functions are: by name

    # --- declaring ---

    def vjp(self, *arguments: str) -> Callable[[Rule], Rule]:
        """Register the decorated function as the VJP rule for one argument, or for several that share work.

        A rule for one argument returns its cotangent, one for several a tuple in their order; so does the rule of a
        variadic argument, with one entry for each array.
        """
        if callable(arguments[0] if arguments else None):
            raise TypeError(f"name the arguments of the rule: @{self.name}.vjp({self.signature.arguments[0]!r})")

        def register(rule: Rule) -> Rule:
            self.add_rule(arguments, rule)
            return rule

        return register

    def decomposition(self, function: Rule) -> Rule:
        """Register the decorated function as the op's meaning in primitives. It takes what the op takes."""
        read = [[(p.name, repr(p.default)) for p in parameters_of(f)] for f in (self.forward, function)]
        if read[0] != read[1]:
            ours, theirs = (", ".join(map(str, inspect.signature(f).parameters.values())) for f in (self, function))
            raise TypeError(
                f"op {self.name!r} takes {ours}; its decomposition takes {theirs}; they must be the same, defaults "
                f"included"
            )
        self.decomposed = function
        return function

    def nondiff(self, *arguments: str, varies: bool = False) -> Op[P, R]:
        """Declare arguments that have no gradient, although they may be floating arrays.

        Where the output depends on one, the checker remarks on it. ``varies=True`` says that this is meant.
        """
        positions = set(map(self.argument, arguments))
        self.nondifferentiable |= positions
        self.varying = self.varying | positions if varies else self.varying - positions
        self.plans.clear()
        return self

    def zero(self, *arguments: str) -> Op[P, R]:
        """Declare arguments in which the op is constant wherever it is differentiable: their gradient is zero."""
        for name in arguments:
            self.add_rule([name], zeros)
        return self

    # --- calling ---

    def call(self, *args: Any, **settings: Any) -> Any:
        """Compute, and record where an argument is a tensor that requires a gradient."""
        if len(args) != self.arity:
            args = binding.arrange(self, args, settings)
        bound = self.defaults if not settings and self.defaults is not None else binding.bind(self, settings)
        recorded, decompose, anomalies, _, scope, _ = modes.current()
        values: list[Any] = []
        parents: list[Vertex | None] = []
        mask, bit, tensors, loose = 0, 1, False, False
        for arg in args:
            if type(arg) is Tensor:
                tensors = True
                vertex = arg.node
                if vertex is not None and (type(vertex) is Node or vertex.requires_grad):
                    mask += bit
                else:
                    loose = True
                values.append(arg._values)
                parents.append(vertex)
            else:
                if type(arg) not in _AS_THEY_ARE:
                    arg, loose = binding.convert(self, arg, args), True
                values.append(arg)
                parents.append(None)
            bit += bit
        if decompose and tensors and self.decomposed is not None:
            return self._in_primitives(args, values, settings)
        forward = anomaly.quiet(self.forward) if anomalies else self.forward
        try:
            out = forward(*values, **settings) if settings else forward(*values)
        except Exception as error:
            annotate(error, f"in the op {self.name!r}", ", on arguments of shapes ", values)
            raise
        extra, kind = None, type(out)
        if kind is Saved:
            out, extra = out
            kind = type(out)
        if not tensors:
            return out
        if anomalies:
            anomaly.check_forward(self, values, out)
        if not (mask and recorded):
            return self._constants(out, args)
        plan = self.plans.get(mask + bit) or binding.first_plan(self, mask, values, out)
        if not plan.rules:  # all arguments to differentiate are declared to have no gradient
            return self._constants(out, args)
        root = None
        if kind in SCALARS:
            shape, dtype = (), SCALARS[kind]
        elif kind is ndarray:
            if out.base is not None or id(out) in map(id, values):
                out, root = view_of(out, args)
            shape, dtype = out.shape, out.dtype
            if dtype.kind != "f":
                return self._constants(out, args)
        else:
            out, shape, dtype = binding.result(self, out)
            kind = type(out)
            if kind is not tuple and dtype.kind != "f":
                return self._constants(out, args)
        if loose:
            binding.settle(plan, args, values, parents)
        if extra is not None or plan.values:
            extra = self.select(plan, extra or {})
        node = record(plan, (*parents,), values, out, extra, bound, shape, dtype, scope, root)
        if anomalies:
            node.origin = anomaly.origin_of(node)
        if kind is tuple:
            return tuple(_pick(node, i, part, args) for i, part in enumerate(out))
        return wrap(out, node)

    if not TYPE_CHECKING:  # to a checker it is what `Call` says
        __call__ = call

    def _in_primitives(self, args: Sequence[Any], values: Sequence[Any], settings: dict[str, Any]) -> Any:
        """Run the decomposition in a scope of the op's name."""
        assert self.decomposed is not None
        with modes.scope(self.name):
            given = [arg if type(arg) is Tensor else value for arg, value in zip(args, values, strict=True)]
            return self.decomposed(*given, **settings)

    def _constants(self, out: Any, args: Sequence[Any]) -> Any:
        """Wrap a result that is not recorded. A view of a leaf remembers it, so that changed data are noticed."""
        if isinstance(out, (tuple, list)):
            return tuple(self._constants(part, args) for part in binding.outputs(self, out))
        out, root = view_of(binding.output(self, out), args)
        return wrap(out, None if root is None else Leaf(out.shape, out.dtype, False, None, root))


def _pick(node: Node, i: int, out: NDArray[Any], args: Sequence[Any]) -> Tensor:
    """Make one output of several: its node hands the cotangent on to the call's, with its place."""
    out, root = view_of(out, args)
    settings = {"index": i, "count": len(node.shape)}
    pick = record(PICK, (node,), None, None, None, settings, out.shape, out.dtype, node.scope, root)
    return wrap(out, pick if out.dtype.kind == "f" else None)


def pick(outputs: Any, *, index: int, count: int) -> Any:
    """One of the outputs of an op that has several."""
    return outputs[index]


_PICK_SPEC = Spec(pick, elementwise=False, batched=False, linear=True)
_PICK_SPEC.add_rule(["outputs"], lambda g, index, count: Pick((index, count, g)))
PICK = _PICK_SPEC.plan(1, 1)


# --- registration ---


@overload
def op(forward: Callable[P, R], /) -> Op[P, R]: ...
@overload
def op(
    *, numpy: Any = None, elementwise: bool = False, linear: bool = False, surrogate: Sequence[str] = (),
    samples: Any = (), error_samples: Any = (), override: bool = False,
) -> Callable[[Callable[P, R]], Op[P, R]]: ...  # fmt: skip
def op(forward: Any = None, /, *, override: bool = False, **declared: Any) -> Any:
    """Make a differentiable operation of a NumPy function.

    Positional parameters are arrays (``*arrays`` is allowed, and a default of None for an optional one), keyword-only
    ones are settings. Add a rule for every differentiable argument with ``@f.vjp(...)``, or declare it with
    ``f.nondiff(...)``.

    Parameters
    ----------
    forward : callable
        Takes and returns plain arrays.
    numpy : ufunc or NumPy function, optional
        Its calls on tensors record this op. A ufunc makes the op elementwise.
    elementwise : bool
        The arguments broadcast, the output has their broadcast shape, and the engine sums cotangents back over the
        broadcast axes. The first recorded call with another shape raises a ValueError.
    linear : bool
        The op is linear in its arguments together, so it can be tested exactly.
    surrogate : sequence of str
        The arguments whose rule is not the derivative, on purpose, such as ``("x",)`` (a straight-through estimator).
    samples : sequence, or callable taking a Generator
        Calls to test with: tuples of arguments, settings as a dict at the end.
    error_samples : sequence, or callable taking a Generator
        Likewise, of calls that must raise: pairs of such a tuple and an exception type.
    override : bool
        Replace an op of the same name from another module. Defining an op of the same module again replaces it anyway.

    Returns
    -------
    Op
        Called like the function. On tensors it records, on plain arrays it returns plain arrays.

    Raises
    ------
    TypeError
        For parameters that an op cannot have.
    ValueError
        If another module has an op of this name, or another op has the NumPy function.

    Examples
    --------
    >>> import numpy as np
    >>> import autodiff as ad
    >>> @ad.op(elementwise=True)
    ... def cube(x):
    ...     return x**3
    >>> @cube.vjp("x")
    ... def _(g, x):
    ...     return g * 3 * x**2
    >>> x = ad.Tensor(2.0, requires_grad=True)
    >>> cube(x).backward()
    >>> x.grad
    array(12.)
    """
    if forward is None:
        return functools.partial(_register, override=override, **declared)
    return _register(forward, override=override, **declared)


def _register(forward: Callable[P, R], *, override: bool, **declared: Any) -> Op[P, R]:
    if not callable(forward):
        raise TypeError(f"op decorates a function, as in @op or @op(elementwise=True), not {forward!r:.60}")
    made: Op[P, R] = Op(forward, **declared)
    before = OPS.get(made.name, forward)
    if (before.__module__, before.__qualname__) != (forward.__module__, forward.__qualname__) and not override:
        raise ValueError(
            f"an op named {made.name!r} exists in {before.__module__}; choose another name, or replace it with "
            f"@op(override=True)"
        )
    if made.twin in TWINS and getattr(before, "twin", None) is not made.twin and not override:
        raise ValueError(f"np.{made.twin.__name__} already records another op; replace that with @op(override=True)")
    OPS[made.name] = made
    if made.twin is not None:
        TWINS[made.twin] = made if isinstance(made.twin, np.ufunc) else as_numpy(made.twin, made)
    return made
