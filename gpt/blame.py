"""Finding where a value stopped being finite: in a parameter, or in which op."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autodiff import Tensor
from autodiff.node import Leaf, Node
from autodiff.op import Op

__all__ = ["first_bad_array", "first_bad_node"]


def first_bad_array(arrays: Mapping[str, NDArray[Any]]) -> str | None:
    """Return the name of the first array with a NaN or infinite element, None if there is none."""
    return next((name for name, array in arrays.items() if not _is_finite(array)), None)


def first_bad_node(root: Tensor) -> Node | None:
    """Return the earliest node of a recorded graph whose output has a NaN or infinite element.

    The graph does not keep every output, so it is replayed from its leaves, in the order in which it was recorded. What
    cannot be computed again (a constant argument is forgotten if no rule needs it) is judged by what the node saved.

    Parameters
    ----------
    root : Tensor
        Before a backward pass, which releases what the graph has saved.

    Returns
    -------
    Node or None
        None if all that can be judged is finite.

    Examples
    --------
    >>> import numpy as np
    >>> from autodiff import Tensor
    >>> x = Tensor([0.0, 4.0], requires_grad=True)
    >>> with np.errstate(divide="ignore"):
    ...     loss = (np.log(x) + 1.0).sum()
    >>> loss.item(), first_bad_node(loss).op.name
    (-inf, 'log')
    """
    outputs: dict[Node, Any] = {}
    for node in _nodes(root):
        outputs[node] = _output(node, outputs)
        if not all(map(_is_finite, (outputs[node], node.out, *(node.extra or {}).values()))):
            return node
    return None


def _nodes(root: Tensor) -> list[Node]:
    """List the nodes of a graph in the order of their creation."""
    stack = [root.node] if isinstance(root.node, Node) else []
    seen = set(stack)
    while stack:
        fresh = {parent for parent in stack.pop().parents if isinstance(parent, Node)} - seen
        seen |= fresh
        stack.extend(fresh)
    return sorted(seen, key=lambda node: node.number)


def _output(node: Node, outputs: Mapping[Node, Any]) -> Any:
    """Compute the output of a node again, None where an argument is not known any more."""
    parameters = list(node.op.signature.full.parameters.values())
    values = []
    for i, parent in enumerate(node.parents):
        value = None if node.inputs is None else node.inputs[i]
        if value is None and isinstance(parent, Node):
            value = outputs[parent]
        elif value is None and isinstance(parent, Leaf) and parent.tensor is not None:
            tensor = parent.tensor()
            value = None if tensor is None else tensor.data
        left_out = not node.op.signature.variadic and parameters[i].default is None
        if value is None and not left_out:
            return None
        values.append(value)
    compute = node.op if isinstance(node.op, Op) else node.op.forward  # one of several outputs is taken by a bare Spec
    with np.errstate(all="ignore"):
        return compute(*values, **node.settings)


def _is_finite(value: Any) -> bool:
    """Tell whether an array, or each of several, is finite; what is unknown or not floating is."""
    if isinstance(value, tuple):
        return all(map(_is_finite, value))
    array = np.asarray(value)
    return array.dtype.kind != "f" or bool(np.isfinite(array).all())
