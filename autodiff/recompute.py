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
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from types import MethodType
from typing import Any, Generic, ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray

from . import modes
from .anomaly import arrays_in
from .calls import check_function, follows, in_use, used
from .functional.dropout import Draws
from .node import Node, Plan, Spec, Vertex, clock, record
from .notes import annotate
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
        In the backward pass: if a parameter or other leaf was written to or frozen since, or if `f` computes with other
        numbers than the first time, or exchanges tensors, also where its results are the same.

    Notes
    -----
    Dropout in the thread that calls `f` draws the same masks again, whatever they come from; other random numbers must
    come from a seed that is fixed inside `f`. The second run sees the modes and other context variables of the first.
    Where a gradient is itself differentiated, fused ops are recorded as their decompositions. A tensor that was made
    inside and carried out in another way than by returning it (an attribute) keeps its own graph, so it saves no
    memory, and gradients of the results with respect to it are zero. A leaf that the first call makes and later ones
    find (a parameter whose shape the first input tells) is a parameter like any other.

    Examples
    --------
    >>> import numpy as np
    >>> import autodiff as ad
    >>> x = ad.Tensor([0.5, 1.0], requires_grad=True)
    >>> y = ad.recompute(lambda x: np.tanh(np.exp(x)))(x)
    >>> y.sum().backward()
    >>> x.grad.round(4)
    array([0.2268, 0.0469])

    A Transformer keeps the input of each block, and one block's activations at a time in the backward pass. A deep copy
    of the model runs the copies of its blocks:

    >>> from gpt import GPT
    >>> from gpt.config import preset
    >>> model = GPT(preset("toy"), rng=0)
    >>> for block in model.blocks:
    ...     block.forward = ad.recompute(block.forward)
    >>> model([[1, 2, 3]]).sum().backward()
    """
    check_function("recompute", f)
    return _Recomputed(f)


class _Recomputed(Generic[P, R]):
    """What `recompute` returns: an object, for a copy of it to call the copy of what it was made of."""

    def __init__(self, f: Callable[P, R]) -> None:
        self.f = f
        functools.update_wrapper(self, f, updated=())  # not its attributes, which may be those of a module

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else MethodType(self, instance)

    def __getstate__(self) -> Any:
        # a method by its parts: by name, it would be looked up where this object may stand in its place
        return (self.f.__func__, self.f.__self__) if isinstance(self.f, MethodType) else (self.f,)

    def __setstate__(self, state: Any) -> None:
        self.__init__(MethodType(*state) if len(state) == 2 else state[0])  # type: ignore[misc]

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        f = self.f
        if not modes.current().record:
            return f(*args, **kwargs)
        context, draws, begin = contextvars.copy_context(), Draws(), clock()
        with draws.noted():
            out = f(*args, **kwargs)
        values = [value for _, value in leaves(out)]
        places: dict[Vertex, int] = {}  # of the results that have a graph of their own, each once
        for i, value in enumerate(values):
            if follows(value) and type(value.node) is Node and value.node.number > begin:
                places.setdefault(value.node, i)
        if not places:
            return out
        results = [values[i] for i in places.values()]
        nodes, ends = _behind(list(places), begin)
        seals = [*map(_seal, results), _trace(nodes, begin)]
        replay = _Replay(functools.partial(f, *args, **kwargs), context, draws, list(places.values()), seals, begin)
        del nodes
        made = dict(zip(places, _outputs(replay, results, ends), strict=True))
        kept = [made.get(value.node, value) if follows(value) else value for value in values]
        whole: R = rebuild(out, iter(kept))
        return whole


class _Replay:
    """What is kept of a call: how to make it again, and by what to recognise what it computed."""

    __slots__ = ("begin", "call", "context", "decomposed", "draws", "name", "places", "seals", "used")

    def __init__(
        self, call: functools.partial[Any], context: contextvars.Context, draws: Draws, places: list[int],
        seals: list[Any], begin: int,
    ) -> None:  # fmt: skip
        self.call, self.context, self.draws, self.places = call, context, draws, places
        self.seals, self.begin = seals, begin
        self.name = getattr(call.func, "__qualname__", type(call.func).__name__)
        self.decomposed = modes.current().decompose
        self.used = used()  # by what transforms around differentiate: one inside, in another thread, asks for it

    def __call__(self, node: Node, recorded: bool) -> list[Vertex]:
        """Make the call again; return the vertices of its results, whose graph ends at the parents of the node."""
        if not recorded or self.decomposed:
            return self._compared(node)
        self._compared(node)  # decompositions round differently, so compare what they stand for
        now = clock()
        vertices = self._vertices(self._again(modes.decompose()))
        if not _older(_behind(vertices, self.begin)[1], now) <= set(node.parents):
            raise self._differs("uses other tensors")
        return vertices

    def _compared(self, node: Node) -> list[Vertex]:
        """Make the call as it was made first; return the vertices of its results if everything is as it was.

        What the first run has made and kept for later ones (a layer's parameters, made when the first input tells their
        shape) is part of that call in this run too: both graphs are followed back to the time before the first.
        """
        now = clock()
        results = self._again(contextlib.nullcontext())
        vertices = self._vertices(results)
        nodes, ends = _behind(vertices, self.begin)
        if not _older(node.parents, self.begin) <= _older(ends, now) <= set(node.parents):
            raise self._differs("uses other tensors")
        seals = list(map(_seal, results))
        if seals != self.seals[:-1]:
            raise self._differs("gives other results")
        if _trace(nodes, self.begin) != self.seals[-1]:
            raise self._differs("computes with other numbers")
        before, after = ([v for v in found if v is not None and v.requires_grad] for found in (node.parents, ends))
        for one, other in zip(before, after, strict=True):
            if one is not other and (one.number <= self.begin or other.number <= now):  # each run may make its own
                raise self._differs("uses its tensors in other places")
        return vertices

    def _vertices(self, results: list[Any]) -> list[Vertex]:
        vertices = [result.node for result in results if follows(result)]
        if len(vertices) != len(self.places):
            raise self._differs("gives results that depend on other tensors")
        return vertices

    def _again(self, mode: AbstractContextManager[Any]) -> list[Any]:
        """Run the function once more where it ran before; return the results that had a graph."""
        try:
            out = self.context.copy().run(self._run, mode)
        except Exception as error:
            annotate(error, f"while {self.name!r} was recomputed for the backward pass")
            raise
        values = [value for _, value in leaves(out)]
        return [values[i] for i in self.places if i < len(values)]

    def _run(self, mode: AbstractContextManager[Any]) -> Any:
        with mode, self.draws.repeated(), in_use(self.used):
            return self.call()

    def _differs(self, how: str) -> RuntimeError:
        return RuntimeError(
            f"recomputed for the backward pass, {self.name!r} {how} than the first time, so its gradients would be "
            f"wrong. Inside, draw random numbers from a fixed seed, or by F.dropout in the thread that calls it, and "
            f"change nothing that it reads before backward has run"
        )


def _seal(result: Any) -> tuple[Any, ...]:
    """Shape, dtype and a checksum of the bits: by these a result is recognised without keeping it."""
    values = np.asarray(to_array(result))
    return values.shape, values.dtype, zlib.crc32(np.ascontiguousarray(values).data)


def _behind(vertices: Sequence[Vertex], begin: int) -> tuple[list[Node], list[Vertex]]:
    """Collect the graph behind some vertices, back to a point of time; and where it ends: older nodes, and leaves.

    Constants are among the ends, for the sweep to notice when their data have changed. The order depends on nothing but
    how the nodes hang together.
    """
    seen = set(vertices)
    stack = list(vertices)
    nodes: list[Node] = []
    ends: list[Vertex] = []
    while stack:
        vertex = stack.pop()
        if type(vertex) is not Node or vertex.number <= begin:
            ends.append(vertex)
            continue
        nodes.append(vertex)
        for parent in vertex.parents:
            if parent is not None and parent not in seen:
                seen.add(parent)
                stack.append(parent)
    return nodes, ends


def _older(ends: Iterable[Vertex | None], begin: int) -> set[Vertex | None]:
    """Choose the ends that lead on to something differentiable that was there at a point of time."""
    return {vertex for vertex in ends if vertex is not None and vertex.requires_grad and vertex.number <= begin}


def _trace(nodes: list[Node], begin: int) -> int:
    """Make a checksum of the ops that were called, of how they hang together, and of what they saved.

    Results alone do not tell: of ``x + b * noise`` with b = 0, they are the same whatever the noise, and the gradient
    of b is not. Results are left out where they were there before, since they do not change. Leaves never are: one may
    have been made in the first run for all later ones, and constants come into the graph when they are first used.
    """
    checksum = 0
    known: dict[int, tuple[NDArray[Any], bytes]] = {}  # one array may be saved many times; kept, so that its id is
    numbers: dict[Vertex, int] = {}  # of what is differentiable, in the order in which it is met
    for node in nodes:
        places = [p is not None and p.requires_grad and numbers.setdefault(p, len(numbers)) for p in node.parents]
        checksum = zlib.crc32(f"{node.op.name} {node.shape} {places}".encode(), checksum)
        if node.plan.op is _SPEC and node.extra is not None:
            checksum = zlib.crc32(repr(node.extra["replay"].seals).encode(), checksum)
        pairs = zip(node.inputs or (), node.parents, strict=False)  # no inputs where none are kept
        fresh = [value for value, parent in pairs if type(parent) is not Node or parent.number > begin]
        for array in arrays_in([fresh, node.out, node.extra or {}, dict(node.settings)]):
            if not array.dtype.hasobject:
                if id(array) not in known:
                    known[id(array)] = array, _folded(array)
                checksum = zlib.crc32(known[id(array)][1], checksum)
    return checksum


_WIDTH = 1021  # words; a prime, so that the rows of a matrix do not fall on each other


def _folded(array: NDArray[Any]) -> bytes:
    """Shorten the bits of an array for a checksum: its words, added up in rows. It is three times as fast as a CRC."""
    if array.nbytes < 8 * _WIDTH:
        return array.tobytes()
    in_memory = array.transpose(sorted(range(array.ndim), key=lambda axis: -abs(array.strides[axis])))  # not a copy
    bits = in_memory.reshape(-1).view(np.uint8)
    whole = len(bits) // (8 * _WIDTH) * 8 * _WIDTH
    words = bits[:whole].view(np.uint64).reshape(-1, _WIDTH)
    rows: NDArray[Any] = np.add.reduce(words, axis=0)
    return rows.tobytes() + bits[whole:].tobytes()


def call_again(*tensors: Any) -> Any:
    """A function of tensors that will be called again in the backward pass."""
    return tensors


_SPEC = Spec(call_again, elementwise=False, batched=False, linear=False)
_SPEC.name = recompute.__name__  # in pictures and messages


def _outputs(replay: _Replay, results: list[Tensor], parents: list[Vertex]) -> list[Tensor]:
    """Make the node that stands for a call, and its results as outputs of that."""
    plan = Plan(_SPEC, (), (True,) * len(parents))  # no rules: the sweep asks for the replay
    shapes, dtypes, scope = [x.shape for x in results], [x.dtype for x in results], modes.current().scope
    node = record(plan, tuple(parents), None, None, {"replay": replay}, {}, shapes, dtypes, scope, None)
    outputs = []
    for i, result in enumerate(results):
        settings = {"index": i, "count": len(results)}
        root = result.node.root if result.node is not None else None
        pick = record(PICK, (node,), None, None, None, settings, result.shape, result.dtype, scope, root)
        outputs.append(wrap(result._values, pick))
    return outputs
