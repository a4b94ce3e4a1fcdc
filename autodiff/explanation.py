"""What an op is, as text: signature, formula, source of the rules and the decomposition, values at special points."""

from __future__ import annotations

import ast
import inspect
import itertools
import sys
import textwrap
import warnings
from collections.abc import Hashable, Iterator, Sequence
from typing import Any

import numpy as np

from . import functional
from .node import OPS, TWINS
from .op import Op
from .rules import Rule
from .signature import nearest
from .source import text_of
from .tensor import Tensor

__all__ = ["Explanation", "explain", "kind_of", "plain_signature", "twin_of"]

LISTED = "`python -m autodiff ops` lists the ops"
"""Where to look when there is no such op."""

HOMES = ("numpy", "numpy.linalg", "scipy.special")
"""Where functions with twins are found."""

POINTS = (-np.inf, -2.0, -1.0, 0.0, 1.0, 2.0, np.inf, np.nan)
"""Where elementwise functions of one argument have kinks, poles, bounds and limits."""

PAIRS = (*itertools.product((-1.0, 0.0, 1.0, 2.0), (-1.0, 0.0, 1.0, 2.0)), (np.inf, np.inf), (-np.inf, -np.inf))
"""Ties, zeros and limits, for functions of two."""

VECTORS = ([0.0, 0.0], [1.0, 1.0], [0.0, 2.0], [-np.inf, 0.0], [-np.inf, -np.inf], [np.inf, 0.0])
"""The same for functions of a whole array."""


class Explanation(str):
    """A text that shows itself as it is, so that a console and a notebook print it too."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def explain(op: Any) -> Explanation:
    """Explain an op: what it computes, what its VJP rules are and keep, and what it gives at special points.

    Parameters
    ----------
    op : Op, str or NumPy function
        The op; its name; or a NumPy function that records it. Also a function
        of `autodiff.functional` that is composed of ops.

    Returns
    -------
    Explanation
        The text, a `str`.

    Raises
    ------
    ValueError
        If there is no such op.
    TypeError
        If it is neither a function nor a name.

    Examples
    --------
    >>> import autodiff as ad
    >>> print(ad.explain("negative"))  # doctest: +ELLIPSIS
    negative(x)
      np.negative, primitive, elementwise, linear
    ...
    VJP rule for x, keeps nothing
    <BLANKLINE>
        @negative.vjp("x")
        def _(g: Array) -> Array:
            return -g
    ...
    """
    found = _find(op)
    parts = _parts(found) if isinstance(found, Op) else _composition(found)
    return Explanation("\n".join(parts))


def _find(op: Any) -> Any:
    """Find an op, or a function composed of ops."""
    if isinstance(op, Op):
        return op
    if isinstance(op, str):
        name = op.rpartition(".")[2]
        by_twin = {twin.__name__: of for twin, of in _twins().items()}
        public = {n: f for n, f in vars(functional).items() if inspect.isfunction(f) and not n.startswith("_")}
        for table in (OPS, public, by_twin):
            if name in table:
                return table[name]
        raise ValueError(_nothing(op, [*OPS, *public, *by_twin]))
    if not callable(op) or not isinstance(op, Hashable):
        raise TypeError(f"explain() takes an op, its name, or a NumPy function, not {type(op).__name__}")
    if op in _twins():
        return _twins()[op]
    if getattr(functional, getattr(op, "__name__", ""), None) is op:
        return op
    raise ValueError(f"no op records {getattr(op, '__name__', repr(op))}. {LISTED}")


def _nothing(name: str, known: Sequence[str]) -> str:
    """Say what is wrong with a name that no op goes by."""
    home, *path = name.split(".")
    said, found = f"there is no op {name!r}", None
    if home in ("np", "numpy"):
        found = _attribute(np, path)
        said = f"NumPy has no {name}" if found is None else f"no op records {name}"
    hint = nearest(path[-1] if path else name, known, cutoff=0.7) if found is None else ""
    return f"{said}.{hint} {LISTED}"


def _attribute(home: Any, path: Sequence[str]) -> Any:
    """Follow a dotted name; None where it leads nowhere."""
    for part in path:
        home = getattr(home, part, None)
    return home


def _twins() -> dict[Any, Any]:
    """The op, or the composed function, behind each NumPy function."""
    ops = {op.twin: op for op in OPS.values() if op.twin is not None}
    return {function: ops.get(function, record) for function, record in TWINS.items()}


# --- the facts in a line ---


def plain_signature(function: Any, defaults: bool = True) -> inspect.Signature:
    """Return a signature without its types, which say "array" of every argument; on request without the defaults."""
    empty = inspect.Parameter.empty
    signature = inspect.signature(function)
    parameters = [
        parameter.replace(annotation=empty, default=parameter.default if defaults else empty)
        for parameter in signature.parameters.values()
    ]
    return signature.replace(parameters=parameters, return_annotation=empty)


def twin_of(function: Any) -> str:
    """Name the NumPy function that records an op, or calls a composed function; empty without one."""
    for twin, of in _twins().items():
        if of is function or getattr(of, "__wrapped__", None) is function:
            homes = (home for home in HOMES if getattr(sys.modules.get(home), twin.__name__, None) is twin)
            return f"{next(homes, 'ufunc')}.{twin.__name__}".replace("numpy.", "np.", 1)
    return ""


def kind_of(function: Any) -> list[str]:
    """Return what sort of op it is, in words."""
    if not isinstance(function, Op):
        return ["composed"]
    words = ["primitive" if function.decomposed is None else "fused"]
    flags = (("elementwise", function.elementwise), ("linear", function.linear))
    words += [word for word, holds in flags if holds]
    return [*words, f"surrogate for {', '.join(function.surrogate)}"] if function.surrogate else words


# --- the text ---


def _parts(op: Op[..., Any]) -> Iterator[str]:
    """Write all that an op is."""
    yield f"{op.name}{plain_signature(op)}"
    twin = twin_of(op)
    yield f"  {', '.join([*([twin] if twin else []), *kind_of(op)])}"
    yield f"  in {op.__module__}, checked on {_samples(op)}"
    if op.__doc__:
        yield f"\n{inspect.cleandoc(op.__doc__)}"
    yield f"\nForward\n\n{_forward(op.forward)}"
    for rule in op.rules:
        names = ", ".join(op.signature.arguments[i] for i in rule.arguments)
        yield f"\nVJP rule for {names}, keeps {_kept(op, rule)}"
        yield _source(rule.function)
    if op.nondifferentiable:
        yield f"\nNo gradient: {', '.join(op.signature.arguments[i] for i in sorted(op.nondifferentiable))}"
    if op.decomposed is not None:
        yield "\nDecomposition: its meaning in primitives, recorded under autodiff.decompose()"
        yield _source(op.decomposed)
    table = _special_values(op)
    if table:
        yield f"\n{table}"


def _samples(op: Op[..., Any]) -> str:
    """Count the samples; without the package that they need, say which it is."""
    try:
        drawn = op.samples(np.random.default_rng(0)) if callable(op.samples) else op.samples
    except ImportError as error:
        return f"samples that cannot be made here: {error}"
    return f"{len(drawn)} samples"


def _composition(function: Any) -> Iterator[str]:
    """Write what a function composed of ops is."""
    yield f"{function.__name__}{plain_signature(function)}"
    twin = twin_of(function)
    yield f"  {twin + ', ' if twin else ''}composed of ops: it has no rule of its own"
    yield f"  in {function.__module__}"
    yield f"\n{inspect.cleandoc(function.__doc__ or '')}"


def _kept(op: Op[..., Any], rule: Rule) -> str:
    """Name what a rule keeps of a call: arguments, the output, values that the forward has saved."""
    arguments = [op.signature.arguments[i] for i in sorted(rule.inputs) if i < len(op.signature.arguments)]
    kept = [*arguments, *(["out"] if rule.out else []), *rule.values]
    return ", ".join(kept) if kept else "nothing"


def _forward(function: Any) -> str:
    """Write the source of a forward without its decorators and docstring, which have been shown."""
    text = text_of(function)
    definition = None if text is None else ast.parse(text).body[0]
    if text is None or not isinstance(definition, ast.FunctionDef):
        return _source(function).removeprefix("\n")
    lines = text.splitlines()
    shown = set(range(definition.lineno, len(lines) + 1))
    if ast.get_docstring(definition) is not None:
        shown -= set(range(definition.body[0].lineno, (definition.body[0].end_lineno or 0) + 1))
    return textwrap.indent("\n".join(lines[i - 1] for i in sorted(shown)).rstrip(), "    ")


def _source(function: Any) -> str:
    text = text_of(function)
    if text is None:
        return "\n    (its source is not to be had: it was typed in)"
    return "\n" + textwrap.indent(text.rstrip(), "    ")


# --- values at special points, computed ---


def _special_values(op: Op[..., Any]) -> str:
    """Tabulate the op and its gradients where formulas have kinks, ties and limits; empty if it takes no such call."""
    signature = op.signature
    count = len(signature.arguments) - signature.optional
    if signature.required or signature.variadic or len(op.rules) == 0:
        return ""
    count = len(signature.arguments) if op.elementwise else count
    names = signature.arguments[:count]
    if not op.elementwise:
        calls: Sequence[Any] = [[vector] for vector in VECTORS] if count == 1 else []
    elif count == 1:
        calls = [[x] for x in POINTS]
    elif count == 2:
        calls = PAIRS
    else:  # the first varies, the others stay, as bounds do
        calls = [[x, *np.linspace(-1.0, 1.0, count - 1)] for x in POINTS]
    rows = [row for call in calls if (row := _row(op, call)) is not None]
    if not rows:
        return ""
    varied = [name for i, name in enumerate(names) if i not in op.nondifferentiable]
    head = [*names, op.name, *(f"d/d{name}" for name in varied)]
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    lines = ["  ".join(f"{word:>{width}}" for word, width in zip(row, widths, strict=True)) for row in (head, *rows)]
    table = textwrap.indent("\n".join(lines), "    ")
    return f"Values at special points, and gradients (for the cotangent 1; [1, 2] of a vector)\n\n{table}"


def _row(op: Op[..., Any], call: Sequence[Any]) -> list[str] | None:
    """Compute one line of the table; None where the op refuses the call, or a package is missing."""
    tensors = [Tensor(x, requires_grad=i not in op.nondifferentiable) for i, x in enumerate(call)]
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            out: Any = op(*tensors)
        except (TypeError, ValueError, IndexError, np.linalg.LinAlgError, ImportError):
            return None
        if type(out) is not Tensor:
            return None
        if out.requires_grad:
            out.backward(np.arange(1.0, out.size + 1).reshape(out.shape))
    gradients = [_number(tensor.grad) for tensor in tensors if tensor.requires_grad]
    return [*map(_number, call), _number(out.data), *gradients]


def _number(value: Any) -> str:
    """Write a number, or a few, in four digits."""
    array = np.asarray(0.0 if value is None else value, float) + 0.0  # no negative zeros
    if array.ndim:
        return "[" + ", ".join(_number(x) for x in array.reshape(-1)[:8]) + "]"
    return f"{array:.4g}"
