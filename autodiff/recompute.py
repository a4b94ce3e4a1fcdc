"""`recompute`: keep what goes into a part of a model instead of what it saves, and run that part again in backward.

The first run is recorded as any other, and its graph is then dropped: one node takes its place, whose parents are the
vertices at which that graph ended. When the backward pass arrives there, the function runs again, and the pass goes on
through the graph that this makes. So cotangents are added up in the order in which they would have been without, and
the gradients are the same to the last bit. See Chen et al., "Training deep nets with sublinear memory cost", 2016.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
import zlib
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, ParamSpec, TypeVar

import numpy as np

from . import modes
from .functional.dropout import Draws
from .node import Node, Plan, Spec, Vertex, clock
from .op import PICK
from .protocols import to_array
from .tensor import Tensor, wrap
from .trees import leaves, rebuild

__all__ = ["recompute"]

P = ParamSpec("P")
R = TypeVar("R")


def recompute(f: Callable[P, R]) -> Callable[P, R]:
    """Drop what a function saves for the backward pass, and compute it again there: less memory, more time.

    Parameters
    ----------
    f : callable
        A function, method or module of tensors, whose results may be nested tuples, lists and dictionaries. It may use
        any tensors besides its arguments, such as a module's parameters. The same inputs must give the same results.

    Returns
    -------
    callable
        Called like `f`; also useful as a decorator. Results and gradients equal those of `f` bit for bit. Until the
        backward pass only arguments and results are kept.

    Raises
    ------
    RuntimeError
        In the backward pass: if a parameter or other leaf was written to since, or if `f` gives other results than the
        first time.

    Notes
    -----
    Dropout draws the same masks again, whatever they come from; other random numbers must come from a seed that is
    fixed inside `f`. The second run sees the modes and other context variables of the first. Where a gradient is itself
    differentiated, fused ops are recorded as their decompositions. A tensor that was made inside and carried out in
    another way than by returning it (an attribute) keeps its own graph, so it saves no memory, and gradients of the
    results with respect to it are zero.

    Examples
    --------
    >>> import numpy as np
    >>> import autodiff as ad
    >>> x = ad.Tensor([0.5, 1.0], requires_grad=True)
    >>> y = ad.recompute(lambda x: np.tanh(np.exp(x)))(x)
    >>> y.sum().backward()
    >>> x.grad.round(4)
    array([0.2268, 0.0469])

    A Transformer keeps the input of each block, and one block's activations at a time in the backward pass:

    >>> from gpt import GPT
    >>> from gpt.config import preset
    >>> model = GPT(preset("toy"), rng=0)
    >>> for block in model.blocks:
    ...     block.forward = ad.recompute(block.forward)
    >>> model([[1, 2, 3]]).sum().backward()
    """

    @functools.wraps(f, updated=())  # not its attributes, which may be those of a module
    def recomputed(*args: P.args, **kwargs: P.kwargs) -> R:
        if not modes.current().record:
            return f(*args, **kwargs)
        context, draws, begin = contextvars.copy_context(), Draws(), clock()
        with draws.noted():
            out = f(*args, **kwargs)
        values = [value for _, value in leaves(out)]
        places: dict[Vertex, int] = {}  # of the results that have a graph of their own, each once
        for i, value in enumerate(values):
            if _follows(value) and type(value.node) is Node and value.node.number > begin:
                places.setdefault(value.node, i)
        if not places:
            return out
        results = [values[i] for i in places.values()]
        replay = _Replay(functools.partial(f, *args, **kwargs), context, draws, list(places.values()), results)
        made = dict(zip(places, _outputs(replay, results, _ends(list(places), begin)), strict=True))
        kept = [made.get(value.node, value) if _follows(value) else value for value in values]
        whole: R = rebuild(out, iter(kept))
        return whole

    return recomputed


class _Replay:
    """What is kept of a call: how to make it again, and by what to recognise its results."""

    __slots__ = ("call", "context", "decomposed", "draws", "name", "places", "seals")

    def __init__(
        self, call: functools.partial[Any], context: contextvars.Context, draws: Draws, places: list[int],
        results: list[Tensor],
    ) -> None:  # fmt: skip
        self.call, self.context, self.draws, self.places = call, context, draws, places
        self.name = getattr(call.func, "__qualname__", type(call.func).__name__)
        self.decomposed = modes.current().decompose
        self.seals = list(map(_seal, results))

    def __call__(self, node: Node, recorded: bool) -> list[Vertex]:
        """Make the call again; return the vertices of its results, whose graph ends at the parents of the node."""
        begin = clock()
        if recorded and not self.decomposed:  # decompositions round differently, so compare what they stand for
            self._compare(self._again(modes.no_grad()))
            results = self._again(modes.decompose())
        else:
            results = self._again(contextlib.nullcontext())
            self._compare(results)
        vertices = [result.node for result in results if _follows(result)]
        known = set(node.parents)
        for vertex in _ends(vertices, begin):
            if vertex.requires_grad and vertex.number <= begin and vertex not in known:
                raise self._differs("uses other tensors")
        return vertices

    def _again(self, mode: AbstractContextManager[Any]) -> list[Any]:
        """Run the function once more where it ran before; return the results that had a graph."""
        try:
            out = self.context.copy().run(self._run, mode)
        except Exception as error:
            error.add_note(f"while {self.name!r} was recomputed for the backward pass")
            raise
        values = [value for _, value in leaves(out)]
        return [values[i] for i in self.places if i < len(values)]

    def _run(self, mode: AbstractContextManager[Any]) -> Any:
        with mode, self.draws.repeated():
            return self.call()

    def _compare(self, results: list[Any]) -> None:
        if [_seal(result) for result in results] != self.seals:
            raise self._differs("gives other results")

    def _differs(self, how: str) -> RuntimeError:
        return RuntimeError(
            f"recomputed for the backward pass, {self.name!r} {how} than the first time, so its gradients would be "
            f"wrong. Inside, draw random numbers from a fixed seed or by F.dropout, and change nothing that it reads "
            f"before backward has run"
        )


def _follows(value: Any) -> bool:
    """Whether a value is a tensor that something differentiable leads to."""
    return type(value) is Tensor and value.requires_grad


def _seal(result: Any) -> tuple[Any, ...]:
    """Shape, dtype and a checksum of the bits: by these a result is recognised without keeping it."""
    values = np.asarray(to_array(result))
    return values.shape, values.dtype, zlib.crc32(np.ascontiguousarray(values).data)


def _ends(vertices: Sequence[Vertex], begin: int) -> list[Vertex]:
    """Find where the graph behind some vertices ends, going back to a point of time: older nodes, and leaves.

    Constants are among them, for the sweep to notice when their data have changed.
    """
    seen = set(vertices)
    stack = list(vertices)
    ends: list[Vertex] = []
    while stack:
        vertex = stack.pop()
        if type(vertex) is not Node or vertex.number <= begin:
            ends.append(vertex)
            continue
        for parent in vertex.parents:
            if parent is not None and parent not in seen:
                seen.add(parent)
                stack.append(parent)
    return ends


def call_again(*tensors: Any) -> Any:
    """A function of tensors that will be called again in the backward pass."""
    return tensors


_SPEC = Spec(call_again, elementwise=False, batched=False, linear=False)
_SPEC.name = recompute.__name__  # in pictures and messages


def _outputs(replay: _Replay, results: list[Tensor], parents: list[Vertex]) -> list[Tensor]:
    """Make the node that stands for a call, and its results as outputs of that."""
    plan = Plan(_SPEC, (), (True,) * len(parents), True, False, ())  # no rules: the sweep asks for the replay
    shapes, dtypes, scope = [x.shape for x in results], [x.dtype for x in results], modes.current().scope
    node = Node(plan, tuple(parents), None, None, {"replay": replay}, {}, shapes, dtypes, scope, None)
    outputs = []
    for i, result in enumerate(results):
        settings = {"index": i, "count": len(results)}
        root = result.node.root if result.node is not None else None
        pick = Node(PICK, (node,), None, None, None, settings, result.shape, result.dtype, scope, root)
        outputs.append(wrap(result._values, pick))
    return outputs
