"""The backward sweep: from the outputs' cotangents to those of the leaves, in one pass over the graph.

Nodes are collected in a list that grows while it is walked, sorted by creation number and visited from the youngest to
the oldest, so every node is visited once, after all its consumers; nothing is recursive. Cotangents live in a table of
this one call.

What rules may rely on stands here and only here: results are checked, cast to the argument's dtype, summed back over
broadcast axes, and added up. A contribution is borrowed as it arrives (a rule may return its own ``g`` for two
arguments); the second one makes a sum that the table owns, later ones are added to it in place.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from operator import attrgetter
from typing import Any, TypeAlias

import numpy as np
from numpy import ndarray

from .arguments import arraylike
from .broadcasting import may_sum, sum_to
from .changes import check_unchanged
from .node import RELEASED, SCALARS, Array, Leaf, Node, Vertex
from .notes import annotate
from .rules import Rule

__all__ = ["Watch", "sweep"]

Watch: TypeAlias = Callable[[Node, str, Array, Array], None]
"""Called with (node, argument, contribution, sum so far) for every contribution that a rule makes."""

Lift: TypeAlias = Callable[[Node], Any]


def sweep(
    roots: Sequence[tuple[Vertex, Array]],
    targets: Collection[Vertex] | None = None,
    *,
    retain_graph: bool = False,
    since: int = 0,
    lift: Lift | None = None,
    watch: Watch | None = None,
) -> dict[Vertex, Array]:
    """Pull cotangents back from some outputs.

    Parameters
    ----------
    roots : sequence of (vertex, cotangent)
        The outputs. Cotangents have the vertex's shape and dtype, and are never written to.
    targets : collection of vertices, optional
        Visit only what lies between the roots and these. By default, all leaves that require a gradient.
    retain_graph : bool
        Keep the saved values; otherwise each node's are released as soon as its rules have run.
    since : int
        Nothing numbered up to this leads to a target, so it is not looked at.
    lift : callable, optional
        Turns a node into a view of it whose saved values are recorded tensors: the sweep is then recorded itself.
    watch : callable, optional
        Sees every contribution.

    Returns
    -------
    dict
        Cotangents of the leaves or targets that were reached, and of nodes whose gradient is retained. A leaf's array
        is its own; a node's may be shared with others and with saved values, so copy it before keeping it.

    Raises
    ------
    RuntimeError
        Where a node's saved values are released, or changed since they were saved.
    ValueError, TypeError
        Where a rule returns what it must not.
    """
    table: dict[Vertex, Array] = {}
    owned: set[Vertex] = set()
    dtype_of = SCALARS.get
    results: dict[Vertex, Array] = {}
    nodes, wanted = _order([vertex for vertex, _ in roots], targets, since=since)
    for vertex, cotangent in roots:
        _add(table, owned, vertex, cotangent)

    while nodes:
        node = nodes.pop()
        g = table.pop(node, None)
        if g is None:  # all its consumers had declared that argument to have no gradient
            continue
        if node.tensor is not None or (targets is not None and node in targets):
            results[node] = g
        plan = node.plan
        if plan.saves and node.number < Leaf.written:
            check_unchanged(node, compared=watch is not None and node.origin is not None)
        if type(g) is list:
            if plan.rules:
                g = _fill_missing(g, node)
            else:  # a function to be recomputed: its nodes are made again, and swept in its place
                nodes += _replay(node, g, table, owned, wanted, lift is not None)
        view: Any = node if lift is None else lift(node)
        rules = plan.rules if wanted is None else _narrow(node, wanted)
        for rule, needs in rules:
            only = rule.only
            try:
                if only is None:
                    answer = rule.run(view, g, needs)
                else:  # the two commonest forms, without a detour
                    answer = rule.function(g) if only < 0 else rule.function(g, view.inputs[only])
            except Exception as error:
                annotate(error, f"in the VJP rule of {node.op.name!r} ", _describe(node, rule))
                raise
            for i, contribution in _parts(rule, node, answer, needs) if rule.several else ((rule.first, answer),):
                parent: Any = node.parents[i]  # not None: what needs a gradient has a place in the graph
                kind = type(contribution)
                if kind is ndarray:
                    fits = contribution.shape == parent.shape and contribution.dtype is parent.dtype
                else:
                    fits = parent.dtype is dtype_of(kind) and not parent.shape
                if not fits:
                    if kind is Pick:
                        _add_pick(table, parent, contribution)
                        continue
                    contribution = _fit(contribution, parent, node, i, g)
                before = table.get(parent)
                if before is None and type(parent) is Node:
                    table[parent] = contribution
                elif type(before) is kind and kind is not ndarray:  # scalars, recorded tensors
                    table[parent] = before + contribution
                else:
                    _add(table, owned, parent, contribution)
                if watch is not None:
                    watch(node, node.op.argument_name(i), contribution, table[parent])
        if not retain_graph and (rules or not plan.rules):  # of a target's own rules none may have run
            node.inputs, node.out, node.extra = RELEASED, None, None

    results.update(table)  # what is left are leaves
    return results


class Pick(tuple[int, int, Any]):
    """The cotangent of one output among several: (index, count, cotangent), on its way to the node that made them."""

    __slots__ = ()


def _order(
    roots: list[Vertex], targets: Collection[Vertex] | None, end: Iterable[Vertex | None] = (), since: int = 0
) -> tuple[list[Node], set[Vertex] | None]:
    """Return the nodes to visit, oldest first, and, if there are targets, the vertices that lead to one."""
    nodes: list[Node] = [vertex for vertex in dict.fromkeys(roots) if type(vertex) is Node]
    seen: set[Vertex | None] = {*roots, *end}
    for node in nodes:  # it grows on the way
        if node.inputs is RELEASED:
            raise RuntimeError(
                f"backward a second time through {node.op.name!r} (node {node.number}): its saved values were released "
                f"by the first. Pass retain_graph=True to that one; if a value is carried on, cut it off with .detach()"
            )
        for parent in node.parents:
            if type(parent) is Node and parent not in seen and parent.number > since:
                seen.add(parent)
                nodes.append(parent)
    nodes.sort(key=attrgetter("number"))
    if targets is None:
        return nodes, None
    wanted = set(targets)
    for node in nodes:
        if not wanted.isdisjoint(node.parents):  # None is in no set of vertices
            wanted.add(node)
    return [node for node in nodes if node in wanted], wanted


def _add(table: dict[Vertex, Array], owned: set[Vertex], vertex: Vertex, contribution: Array) -> None:
    """Add a contribution to a vertex's cotangent, in place only where the table owns the sum."""
    before = table.get(vertex)
    if before is None:
        if type(vertex) is Leaf and type(contribution) is ndarray:  # it stays, so the table's own from the start
            contribution = np.array(contribution, order="C")
            owned.add(vertex)
        table[vertex] = contribution
    elif vertex in owned and type(contribution) is ndarray:
        before += contribution
    else:
        total = table[vertex] = before + contribution
        if type(total) is ndarray:  # scalars are immutable, and a recorded sum must not be changed
            owned.add(vertex)
        else:
            owned.discard(vertex)  # where the sweep is recorded, a tensor may follow on plain arrays


def _add_pick(table: dict[Vertex, Array], parent: Vertex, pick: Pick) -> None:
    index, count, cotangent = pick
    cotangents = table.setdefault(parent, [None] * count)
    cotangents[index] = cotangent if cotangents[index] is None else cotangents[index] + cotangent


def _fill_missing(cotangents: list[Array | None], node: Node) -> list[Array]:
    """Give the outputs that no one used a cotangent of zeros."""
    kinds = zip(cotangents, node.shape, node.dtype, strict=True)
    return [np.zeros(shape, dtype) if g is None else g for g, shape, dtype in kinds]


def _replay(
    node: Node, cotangents: list[Array | None], table: dict[Vertex, Array], owned: set[Vertex],
    wanted: set[Vertex] | None, recorded: bool,
) -> list[Node]:  # fmt: skip
    """Make the nodes behind a recomputed function's outputs again, pass the cotangents on to those; oldest first.

    They are younger than all nodes that are left, and end where the first run ended: at the parents of this node.
    """
    assert node.extra is not None  # where the function is kept
    vertices = node.extra["replay"](node, recorded)
    reached = [(vertex, g) for vertex, g in zip(vertices, cotangents, strict=True) if g is not None]
    for vertex, g in reached:
        _add(table, owned, vertex, g)
    nodes, more = _order([vertex for vertex, _ in reached], wanted, node.parents)
    if wanted is not None and more is not None:
        wanted |= more
    return nodes


def _narrow(node: Node, wanted: set[Vertex]) -> Sequence[tuple[Rule, tuple[bool, ...]]]:
    """Leave only the rules, and in `needs` only the arguments, on the way to a target."""
    if all([parent is None or parent in wanted or not parent.requires_grad for parent in node.parents]):
        return node.plan.rules
    narrowed = []
    for rule, needs in node.plan.rules:
        arguments = range(len(needs)) if node.op.signature.variadic else rule.arguments
        needs = tuple(need and node.parents[i] in wanted for i, need in zip(arguments, needs, strict=True))
        if any(needs):
            narrowed.append((rule, needs))
    return narrowed


def _parts(rule: Rule, node: Node, answer: Any, needs: tuple[bool, ...]) -> list[tuple[int, Array]]:
    """Take apart the answer of a rule for several arguments: those that are needed, with their positions."""
    if type(answer) is not tuple or len(answer) != len(needs):
        given = f"a tuple of {len(answer)}" if type(answer) is tuple else f"a {type(answer).__name__}"
        raise TypeError(
            f"the VJP rule of {node.op.name!r} {_describe(node, rule)} returned {given}, instead of a tuple of "
            f"{len(needs)} cotangents"
        )
    arguments = rule.arguments if len(rule.arguments) == len(needs) else range(len(needs))  # of a variadic op, all
    return [(i, part) for i, part, needed in zip(arguments, answer, needs) if needed]  # noqa: B905  # as checked above


def _fit(contribution: Array, parent: Vertex, node: Node, i: int, g: Array) -> Array:
    """Check a rule's result, sum it back to the argument's shape where the op broadcasts, and cast its dtype."""
    where = f"the VJP rule of {node.op.name!r} for argument {node.op.argument_name(i)!r}"
    if contribution is None:
        raise TypeError(
            f"{where} returned None, but the argument requires a gradient; declare an argument that has none "
            f"with {node.op.name}.nondiff(...)"
        )
    if not hasattr(arraylike(f"{where}, as its result,", contribution), "dtype"):
        contribution = np.asarray(contribution)
    shape: tuple[int, ...] = contribution.shape
    if shape != parent.shape:
        if not may_sum(node.op, shape, parent.shape, np.shape(g)):
            raise ValueError(f"{where} returned the shape {shape}, but the argument has the shape {parent.shape}")
        contribution = sum_to(contribution, parent.shape)
    if contribution.dtype != parent.dtype:
        if contribution.dtype.kind not in "fiub":
            raise TypeError(f"{where} returned the dtype {contribution.dtype}, the argument has {parent.dtype}")
        contribution = contribution.astype(parent.dtype)
    return contribution


def _describe(node: Node, rule: Rule) -> str:
    names = ", ".join(repr(node.op.signature.arguments[i]) for i in rule.arguments)
    return f"for {names} (node {node.number}{', in ' + node.scope if node.scope else ''})"
