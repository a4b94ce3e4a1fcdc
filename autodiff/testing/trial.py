"""One recorded call of an op: what its rules return, what the engine makes of that, and its backward pass, recorded."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import modes
from ..backward import sweep
from ..differentiate import gradients
from ..node import Array, Leaf, Node
from ..op import Op
from ..rules import Rule
from ..tensor import Tensor, wrap
from .contents import arrays_in

__all__ = ["OWN_RULE", "Recording", "Trial", "split"]

OWN_RULE = modes.Switch(record=True, decompose=False)
"""Whatever mode the caller is in, it is the op's own rule that is checked."""


class Trial:
    """A call of an op, recorded for some of its arguments.

    The tensors are made around the arrays as they are, layout and write protection included, since these are what a
    rule may get wrong.
    """

    def __init__(
        self, op: Op[..., Any], values: Sequence[Any], settings: dict[str, Any], wrt: Sequence[int],
        mode: modes.Switch = OWN_RULE, shared: Sequence[int] = (),
    ) -> None:  # fmt: skip
        self.op, self.wrt = op, tuple(wrt)
        self.leaves = {i: _leaf(values[i]) for i in self.wrt}
        self.leaves |= {i: self.leaves[shared[0]] for i in shared}  # one tensor for several arguments
        with mode:
            result = op(*[self.leaves.get(i, value) for i, value in enumerate(values)], **settings)
        self.several = type(result) is tuple or type(result) is list
        self.outputs: list[Tensor] = [
            out if type(out) is Tensor else wrap(np.asarray(out)) for out in (result if self.several else [result])
        ]
        self.recorded = [out for out in self.outputs if out.requires_grad]
        self.originals: dict[str, Any] | None = None  # the saved values themselves, where rules see views of them

    @property
    def node(self) -> Node:
        """The call's node: of several outputs, what they were picked from."""
        vertex: Any = self.recorded[0].node
        return vertex.parents[0] if self.several else vertex  # type: ignore[no-any-return]

    @property
    def values(self) -> list[Any]:
        """The floating outputs, those that have cotangents."""
        return [out._values for out in self.outputs if out.dtype.kind == "f"]

    def cotangents(self, rng: np.random.Generator) -> list[Any]:
        """Draw a cotangent for each floating output: signed, and wide enough to leave [-1, 1]. They are read-only."""
        return [_frozen(np.asarray(rng.normal(0.0, 3.0, out.shape), out.dtype)) for out in self.values]

    def raw(self, cotangents: Sequence[Array]) -> Iterator[tuple[Rule, tuple[bool, ...], Any]]:
        """Run each rule as the sweep does, and give what it returns before anything is mended."""
        node = self.node
        g: Any = cotangents[0] if not self.several else self._one_for_each_output(cotangents)
        for rule, needs in node.plan.rules:
            yield rule, needs, rule.run(node, g, needs)

    def raw_with(self, saved: dict[str, Any], cotangents: Sequence[Array]) -> list[Any]:
        """Run the rules with some of the saved values replaced, by the names that `saved` has given."""
        node = self.node
        inputs = None if node.inputs is None else [saved.get(f"input {i}", x) for i, x in enumerate(node.inputs)]
        extra = None if node.extra is None else {name: saved.get(name, value) for name, value in node.extra.items()}
        view = SimpleNamespace(
            inputs=None if inputs is None else tuple(inputs), out=saved.get("out", node.out), extra=extra,
            settings=node.settings,
        )  # fmt: skip
        g: Any = cotangents[0] if not self.several else self._one_for_each_output(cotangents)
        return [rule.run(view, g, needs) for rule, needs in node.plan.rules]

    def saved(self) -> dict[str, Any]:
        """All saved values by name; inputs as "input 0"."""
        node = self.node
        found = {f"input {i}": value for i, value in enumerate(node.inputs or ()) if value is not None}
        if node.out is not None:
            found["out"] = node.out
        return {**found, **(node.extra or {})}

    def protect(self, own: Collection[str]) -> None:
        """Let the rules see saved arrays through views that are read-only, and the settings that are `own` likewise.

        The forward may go on writing into an array that it has saved, if it wants to.
        """
        node = self.node
        self.originals = self.saved()
        node.out = _protected(node.out)
        node.extra = None if node.extra is None else {name: _protected(value) for name, value in node.extra.items()}
        for array in arrays_in([value for name, value in (node.settings or {}).items() if name in own]):
            array.flags.writeable = False  # it is a copy

    def pull(self, cotangents: Sequence[Array]) -> list[NDArray[Any]]:
        """Run the engine's sweep: one gradient for each argument in `wrt`."""
        floating = [out for out in self.outputs if out.dtype.kind == "f"]
        roots: list[Any] = [
            (out.node, g) for out, g in zip(floating, cotangents, strict=True) if out.requires_grad
        ]
        found = sweep(roots, {leaf.node for leaf in self.leaves.values() if leaf.node}, retain_graph=True)
        gradients = []
        for i in self.wrt:
            vertex: Any = self.leaves[i].node
            g = found.get(vertex)
            gradients.append(np.zeros(vertex.shape, vertex.dtype) if g is None else np.array(g))
        return gradients

    def _one_for_each_output(self, cotangents: Sequence[Array]) -> list[Any]:
        """Give the outputs without a derivative the zeros that the sweep gives them."""
        given = iter(cotangents)
        return [next(given) if out.dtype.kind == "f" else np.zeros(out.shape, out.dtype) for out in self.outputs]


class Recording:
    """The backward pass of a call as a function of its arguments and cotangents, recorded to be differentiated.

    Raises what the engine or a rule raises where that is not possible.
    """

    def __init__(self, trial: Trial, cotangents: Sequence[Array]) -> None:
        floating = [out for out in trial.outputs if out.dtype.kind == "f"]
        self.arguments = [trial.leaves[i] for i in trial.wrt]
        self.cotangents = [_leaf(g) for g in cotangents]
        live = [(out, g) for out, g in zip(floating, self.cotangents, strict=True) if out.requires_grad]
        outs, given = zip(*live, strict=True)
        self.gradients = gradients(outs, self.arguments, given, create_graph=True)

    def pull(self, directions: Sequence[Array]) -> tuple[list[NDArray[Any]], list[NDArray[Any]]]:
        """Differentiate <vjp(g), directions> with respect to the arguments, and to the cotangents g."""
        found = gradients(self.gradients, [*self.arguments, *self.cotangents], directions)
        arrays = [gradient.data for gradient in found]
        return arrays[: len(self.arguments)], arrays[len(self.arguments) :]


def _leaf(value: Any) -> Tensor:
    array = np.asarray(value)
    return wrap(value, Leaf(array.shape, array.dtype, True))


def _protected(value: Any) -> Any:
    if not isinstance(value, np.ndarray):
        return value
    view = value.view()
    view.flags.writeable = False
    return view


def _frozen(array: NDArray[Any]) -> Any:
    array.flags.writeable = False
    return array[()]


def split(vector: NDArray[Any], outputs: Sequence[Any]) -> list[Any]:
    """Cut a flat vector into arrays shaped like some outputs, scalars for shape ()."""
    parts, start = [], 0
    for out in outputs:
        size = int(np.size(out))
        parts.append(_frozen(np.array(vector[start : start + size]).reshape(np.shape(out))))
        start += size
    return parts
