"""Gradients as a function, and as something that can be differentiated again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, overload

import numpy as np

from . import modes
from .anomaly import sweep
from .arguments import flag
from .hints import answering
from .node import Array, Leaf, Node
from .protocols import to_array
from .tensor import Tensor, start, wrap

__all__ = ["gradients", "pull"]


class _Lifted:
    """A node's saved values as recorded tensors: what its rules see when the backward pass is recorded."""

    __slots__ = ("extra", "inputs", "out", "settings")

    def __init__(self, node: Node) -> None:
        op = node.op
        derived = [name for name in node.plan.values if node.extra and not _is_constant(node.extra[name])]
        if op.decomposed is not None:
            raise RuntimeError(
                f"{op.name!r} is a fused op, whose rule cannot be differentiated again: compute the function under "
                f"`with ad.decompose():` to record its primitives"
            )
        if derived or isinstance(node.out, tuple):
            what = f"saved {derived}, which may depend on its inputs" if derived else "several outputs"
            raise RuntimeError(
                f"{op.name!r} is once-differentiable: its rule uses {what}, whose own derivative is not recorded. Give "
                f"it a decomposition and compute under `with ad.decompose():`"
            )
        self.extra, self.settings = node.extra, node.settings
        self.out = None if node.out is None else wrap(node.out, node)
        self.inputs = node.inputs and tuple(
            wrap(value, parent) if parent is not None and parent.requires_grad and value is not None else value
            for value, parent in zip(node.inputs, node.parents, strict=True)
        )


def _is_constant(value: Any) -> bool:
    """Whether a saved value surely has no derivative: counts, masks, names and collections of these.

    Anything else, such as a function or an object of another class, may hold what depends on the inputs.
    """
    if isinstance(value, (tuple, list, set, frozenset)):
        return all(map(_is_constant, value))
    if isinstance(value, dict):
        return all(map(_is_constant, (*value.keys(), *value.values())))
    if isinstance(value, (np.ndarray, np.generic)):
        return value.dtype.kind in "biu"
    return value is None or value is Ellipsis or isinstance(value, (int, str, slice, range, np.dtype))


def pull(
    outputs: Sequence[Tensor], inputs: Sequence[Tensor], cotangents: Sequence[Any], *, record: bool,
    retain: bool = True, since: int = 0,
) -> list[Array]:  # fmt: skip
    """Pull the cotangents of outputs back to inputs, zeros where none arrives; what arrives may share memory."""
    roots = [start(end, g, record) for end, g in zip(outputs, cotangents, strict=True)]
    targets = {tensor.node for tensor in inputs if tensor.node is not None}
    if record:
        with modes.recording():
            found = sweep(roots, targets, retain_graph=True, since=since, lift=_Lifted)
    else:
        found = sweep(roots, targets, retain_graph=retain, since=since)
    arrived = [None if tensor.node is None else found.get(tensor.node) for tensor in inputs]
    return [np.zeros(x.shape, x.dtype) if g is None else g for x, g in zip(inputs, arrived, strict=True)]


def _tensors(what: str, given: Any) -> list[Tensor]:
    """Return the tensors that were given as one or as several; refuse anything else, by its name."""
    if type(given) is Tensor:
        return [given]
    write = "a tensor or a list of tensors"
    if callable(given) and not hasattr(given, "parameters"):
        hint = "for functions: ad.grad(f)(x)"
    elif hasattr(given, "parameters"):
        hint = "of a module take list(module.parameters())"
    elif isinstance(given, Mapping):
        hint = "of a dictionary take list(d.values()), and the gradients will be in this order"
    else:
        hint = "a leaf is made by Tensor(data, requires_grad=True), results are computed from it"
    if isinstance(given, (Mapping, str, np.ndarray, np.generic)) or not isinstance(given, Iterable):
        raise TypeError(f"{what} must be {write}, not a {type(given).__name__}; {hint}")
    tensors = list(given)
    for position, tensor in enumerate(tensors):
        if type(tensor) is not Tensor:
            raise TypeError(f"{what} must be {write}; {what}[{position}] is a {type(tensor).__name__}; {hint}")
    return tensors


@overload
def gradients(
    outputs: Tensor | Sequence[Tensor], inputs: Tensor, cotangents: Any = None, create_graph: bool = False,
    retain_graph: bool = True,
) -> Tensor: ...  # fmt: skip
@overload
def gradients(
    outputs: Tensor | Sequence[Tensor], inputs: Sequence[Tensor], cotangents: Any = None, create_graph: bool = False,
    retain_graph: bool = True,
) -> tuple[Tensor, ...]: ...  # fmt: skip
@answering
def gradients(
    outputs: Tensor | Sequence[Tensor],
    inputs: Tensor | Sequence[Tensor],
    cotangents: Any = None,
    create_graph: bool = False,
    retain_graph: bool = True,
) -> Tensor | tuple[Tensor, ...]:
    """Compute the gradients of outputs with respect to inputs; write nothing to any tensor.

    Parameters
    ----------
    outputs : Tensor or sequence of Tensor
        What to differentiate. The gradients of several are added up.
    inputs : Tensor or sequence of Tensor
        With respect to what: leaves or results. Only the part of the graph between the two is visited.
    cotangents : array_like or Tensor, or sequence of them, optional
        One for each output, of its shape; may be left out for outputs of one element.
    create_graph : bool
        Record this computation too, so that its results can be differentiated. The fused ops on the way must have been
        recorded under ``decompose()``.
    retain_graph : bool
        Keep the saved values, so that the graph can be run through again. Without it each is released as soon as it
        has been used, as ``backward`` does. What ``create_graph`` records depends on them, so there they are kept.

    Returns
    -------
    Tensor or tuple of Tensor
        One for each input, of its shape and dtype; zeros for one that the outputs do not depend on.

    Raises
    ------
    TypeError
        If an output or input is no tensor.
    RuntimeError
        If an output or input requires no gradient, or the graph was released; under ``create_graph``, at a node whose
        rule cannot be differentiated.
    ValueError
        If a cotangent is missing or has the wrong shape.

    Examples
    --------
    >>> import autodiff as ad
    >>> x = ad.Tensor(3.0, requires_grad=True)
    >>> first = ad.gradients(x**3, x, create_graph=True)
    >>> first.item(), ad.gradients(first, x).item()
    (27.0, 18.0)
    """
    ends, starts = _tensors("outputs", outputs), _tensors("inputs", inputs)
    given = [cotangents] if type(outputs) is Tensor or cotangents is None else list(cotangents)
    if cotangents is None:
        given *= len(ends)
    if len(given) != len(ends):
        raise ValueError(f"{len(ends)} outputs need as many cotangents, not {len(given)}")
    for position, tensor in enumerate(starts):
        if not tensor.requires_grad:
            raise RuntimeError(f"input {position} requires no gradient: make it with Tensor(data, requires_grad=True)")
    record, retain = flag("create_graph", create_graph), flag("retain_graph", retain_graph)
    found = pull(ends, starts, given, record=record, retain=retain)
    results, seen = [], set()
    for tensor, g in zip(starts, found, strict=True):
        # An array of its own: the sweep's for a leaf is, unless it was given twice; that of a result may be shared.
        own = type(g) is np.ndarray and type(tensor.node) is Leaf and tensor.node not in seen
        array = g if own else np.array(to_array(g), tensor.dtype)
        result = wrap(array, g.node if type(g) is Tensor and g.requires_grad else None)
        seen.add(tensor.node)
        if create_graph and result.node is None:  # a constant: its own derivatives are zero, not an error
            result.requires_grad = True
        results.append(result)
    return results[0] if type(inputs) is Tensor else tuple(results)
