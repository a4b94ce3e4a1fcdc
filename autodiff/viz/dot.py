"""The computation graph behind a tensor, drawn from left to right: values in boxes, ops in ellipses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..node import RELEASED, Leaf, Node, Vertex
from ..tensor import Tensor

if TYPE_CHECKING:
    import graphviz

__all__ = ["draw_dot"]

_SHOWN = 6  # a longer array is shown by its shape alone
_RESULT = {"shape": "box", "style": "filled", "fillcolor": "#EEF3FB", "color": "#5B7DB1"}
_PARAMETER = {"shape": "box", "style": "filled", "fillcolor": "#EAF6EA", "color": "#5A9A5A"}
_CONSTANT = {"shape": "box", "style": "dashed", "color": "#888888"}
_OP = {"shape": "ellipse", "style": "filled", "fillcolor": "#FFF6DC", "color": "#B08D2E"}


def draw_dot(root: Tensor) -> graphviz.Digraph:
    """Draw the graph that a tensor was computed by, with data, shapes and gradients.

    Every value is a box, every op an ellipse with one edge for each of its arguments, labelled with the argument's
    name. Call it after ``backward()`` to see the gradients of the leaves (and of results that ``retain_grad()`` was
    called on). The data of a result are shown where a rule has them saved, so draw before ``backward()``, or after
    ``backward(retain_graph=True)``, to see the most.

    Parameters
    ----------
    root : Tensor
        The last result, for instance a loss.

    Returns
    -------
    graphviz.Digraph
        Shown by a notebook as it is; ``.source`` is the DOT text, ``.render("graph", format="svg")`` writes a file
        (that needs the program ``dot``). Equal graphs give equal text.

    Raises
    ------
    ImportError
        If the graphviz package is missing.

    Examples
    --------
    >>> from autodiff import Tensor, viz
    >>> x = Tensor(3.0, requires_grad=True, name="x")
    >>> y = x * x
    >>> y.backward()
    >>> print(viz.draw_dot(y).source)  # doctest: +ELLIPSIS
    digraph {
    ...x...data 3...grad 6...
    """
    if type(root) is not Tensor:
        raise TypeError(f"draw_dot draws the graph of one tensor, not of a {type(root).__name__}")
    try:
        import graphviz
    except ImportError as error:
        raise ImportError("pictures need the graphviz package: pip install 'autodiff-gpt[viz]'") from error

    font = {"fontname": "Helvetica", "fontsize": "11"}
    picture = graphviz.Digraph(graph_attr={"rankdir": "LR"}, node_attr=font, edge_attr=font)
    nodes, leaves, data = _collect(root)
    if not nodes and not leaves:
        picture.node("value0", _text(*_facts(root.shape, root.dtype, root.data, root)), **_CONSTANT)
    vertices: list[Vertex] = [*leaves, *nodes]
    names = {vertex: f"value{i}" for i, vertex in enumerate(vertices)}
    for vertex, name in names.items():
        tensor = root if vertex is root.node else None if vertex.tensor is None else vertex.tensor()
        values = data.get(vertex) if tensor is None else tensor.data
        style = _RESULT if type(vertex) is Node else _PARAMETER if vertex.requires_grad else _CONSTANT
        picture.node(name, _text(*_facts(vertex.shape, vertex.dtype, values, tensor)), **style)
    for i, node in enumerate(nodes):
        picture.node(f"op{i}", _text(*filter(None, (node.op.name, node.scope))), **_OP)
        for j, (parent, value) in enumerate(_arguments(node)):
            label = _text(node.op.argument_name(j))
            if parent is not None:
                picture.edge(names[parent], f"op{i}", label=label)
            elif value is not None:  # a number or plain array that a rule has saved
                array, constant = np.asarray(value), f"constant{i}_{j}"
                picture.node(constant, _text(*_facts(array.shape, array.dtype, array, None)), **_CONSTANT)
                picture.edge(constant, f"op{i}", label=label)
        picture.edge(f"op{i}", names[node])
    return picture


def _collect(root: Tensor) -> tuple[list[Node], list[Leaf], dict[Vertex, Any]]:
    """Gather the nodes and leaves behind a tensor, oldest first, and the data that rules have saved of them."""
    seen: set[Vertex] = set() if root.node is None else {root.node}
    stack = list(seen)
    data: dict[Vertex, Any] = {}
    while stack:
        vertex = stack.pop()
        if type(vertex) is not Node:
            continue
        if vertex.out is not None:
            data[vertex] = vertex.out
        for parent, value in _arguments(vertex):
            if parent is None:
                continue
            if value is not None:
                data[parent] = value
            if parent not in seen:
                seen.add(parent)
                stack.append(parent)
    ordered = sorted(seen, key=lambda vertex: vertex.number)
    return [v for v in ordered if type(v) is Node], [v for v in ordered if type(v) is Leaf], data


def _arguments(node: Node) -> list[tuple[Vertex | None, Any]]:
    """Pair each argument's vertex with its data, where a rule has them saved."""
    saved = node.inputs
    if saved is None or saved is RELEASED:
        saved = (None,) * len(node.parents)
    return list(zip(node.parents, saved, strict=True))


def _facts(shape: Any, dtype: Any, data: Any, tensor: Tensor | None) -> list[str]:
    """Say what is known of a value: name, data, shape and dtype, gradient; a line each."""
    if type(shape) is list:
        return [f"{len(shape)} outputs"]
    facts = [] if tensor is None or tensor.name is None else [tensor.name]
    if data is not None and _shown(data):
        facts.append(f"data {_shown(data)}")
    facts.append(f"shape {shape} {dtype}")
    if tensor is not None and tensor.requires_grad and tensor.node is not None and tensor.node.tensor is not None:
        gradient = tensor.grad
        facts.append("no gradient yet" if gradient is None else f"grad {_shown(gradient) or gradient.shape}")
    return facts


def _shown(data: Any) -> str:
    """Write a number, or a few; nothing for a larger array."""
    array = np.asarray(data)
    if array.size > _SHOWN:
        return ""
    if array.ndim == 0:
        return f"{array.item():.4g}"
    return np.array2string(array, precision=4, separator=", ").replace("\n", "")


def _text(*lines: str) -> str:
    """Join lines to a DOT label that shows them as they are, whatever characters they hold."""
    import graphviz

    # an ampersand would begin an HTML entity, in any label
    return str(graphviz.nohtml("\\n".join(graphviz.escape(_printable(line)).replace("&", "&amp;") for line in lines)))


def _printable(line: str) -> str:
    """Show control characters as their pictures; replace what no text holds (lone surrogates), or no XML (SVG is)."""
    pictured = "".join(chr(0x2400 + ord(c)) if ord(c) < 32 else "\u2421" if c == "\x7f" else c for c in line)
    fit = pictured.replace("\ufffe", "\ufffd").replace("\uffff", "\ufffd")
    return fit.encode("utf-8", "replace").decode("utf-8")
