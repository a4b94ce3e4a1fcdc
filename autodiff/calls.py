"""One call of a function under a transform: its variables, its outputs, and what becomes of the results.

A transform must answer three questions that ``backward`` need not. *With respect to what?* Every call has variables of
its own, also where an argument is already recorded: a variable is then a new vertex behind it, so that the derivative
stops there, and one by an outer transform goes on. *Will the result be differentiated again?* It may be where another
transform is running its function, or where an argument is a recorded tensor. Only then is the backward pass recorded,
and only if what the function returned depends on something outside of the call. *Does the result leave?* It is an array
unless it depends on something outside of the call that is being differentiated.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from . import modes
from .arguments import arraylike
from .differentiate import pull
from .node import Array, Leaf, Node, Vertex, clock
from .protocols import to_array
from .tensor import Tensor, wrap
from .trees import is_leaf, leaves, matching, rebuild

__all__ = ["Call", "check_function", "check_pairs", "follows", "in_use", "recorded_among", "used"]


class Call:
    """Calls a function with variables in place of some arguments, and pulls cotangents back to them.

    Parameters
    ----------
    function : callable
        Takes the arguments.
    args, kwargs
        The arguments, as they were given.
    argnums : int or sequence of int
        Which of `args` to differentiate.
    has_aux : bool
        Whether the function returns a pair, whose second part is handed through.
    twice : bool
        Whether the transform itself needs the derivative of a derivative.
    also : tree
        What else the transform was given: the tangents.

    Attributes
    ----------
    variables : list of Tensor
        One for each leaf of the differentiated arguments.
    out, aux : tree
        What the function returned.
    ends : list
        The leaves of `out`: floating tensors, and arrays or numbers where nothing was recorded.
    recorded : bool
        Whether results may be differentiated again.
    tied : bool
        Whether they may, and the outputs depend on something outside of this call, as then the derivatives do.
    """

    def __init__(
        self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], argnums: int | Sequence[int],
        *, has_aux: bool = False, twice: bool = False, also: Any = None,
    ) -> None:  # fmt: skip
        self.name = getattr(function, "__qualname__", type(function).__name__)
        self.recorded = recorded_among((args, kwargs, also)) or (modes.current().record and modes.current().nested)
        self.begin = clock()
        self.single = isinstance(argnums, (int, np.integer))
        self.trees = {i: args[i] for i in _positions(argnums, len(args), self.name, kwargs)}
        places = [place for i, tree in self.trees.items() for place in leaves(tree, f"argument {i}")]
        self.variables = [self._variable(*place) for place in places]
        fresh = iter(self.variables)
        inside = {i: rebuild(tree, fresh) for i, tree in self.trees.items()}
        vertices = {x.node for x in self.variables if x.node is not None}
        with modes.transforming(decompose=twice or self.recorded), in_use(vertices):
            out = function(*(inside.get(i, arg) for i, arg in enumerate(args)), **kwargs)
        self.end = clock()
        self.aux: Any = None
        self.tied = False
        if has_aux:
            if not isinstance(out, tuple) or len(out) != 2:
                raise TypeError(f"with has_aux=True {self.name} must return (out, aux); it returned {_kind(out)}")
            out, self.aux = out
        self.out = out
        self.ends = [_end(self.name + place, leaf) for place, leaf in leaves(out)]
        self._look_outside()

    def _look_outside(self) -> None:
        """Decide whether derivatives are recorded: by what lies outside of the call, where someone may ask for it."""
        if not self.recorded and not (_used and modes.current().record):
            return
        ends = self._outside(self.ends)
        if not self.recorded:  # called in another thread than the transform that is running, perhaps
            self.recorded = _lead_to(used(), ends | self._outside(leaf for _, leaf in leaves(self.aux)))
        self.tied = self.recorded and bool(ends)

    def _outside(self, values: Iterable[Any]) -> set[Vertex]:
        """Find where some values depend on what the call did not make."""
        tied = _tied([value.node for value in values if follows(value)], self._is_inside)
        return {vertex for vertex in tied if not self._is_inside(vertex)}

    def _is_inside(self, vertex: Vertex) -> bool:
        """Whether the call made a vertex; a leaf with a tensor is the user's."""
        return vertex.number > self.begin and (type(vertex) is Node or vertex.tensor is None)

    def _variable(self, place: str, value: Any) -> Tensor:
        """Make the tensor that stands for an argument in this call."""
        if self.recorded and type(value) is Tensor and value.requires_grad:
            return value.reshape(value.shape)
        array = np.array(arraylike(f"{place} of {self.name}", to_array(value)))
        if array.dtype.kind != "f":
            what = f"has dtype {array.dtype}" if array.dtype.kind in "iubc" else f"is a {type(value).__name__}"
            hint = "write a floating number (3.0 for 3), convert with .astype(float)"
            if hasattr(value, "parameters"):
                hint = "for the gradients of a module's loss write ad.gradients(loss, list(module.parameters()))"
            raise TypeError(
                f"{place} of {self.name} {what}, which has no derivative: {hint}, or choose other arguments with "
                f"argnums"
            )
        array.flags.writeable = False  # graphs rely on it, and nothing could be written back to the caller's
        return wrap(array if array.ndim else array[()], Leaf(array.shape, array.dtype, True))

    def scalar(self) -> Any:
        """Return the output that a gradient is of."""
        if not is_leaf(self.out):
            raise TypeError(
                f"{self.name} returned {_kind(self.out)}; a gradient is that of one scalar. For more outputs use "
                f"jacobian or vjp; with has_aux=True return (scalar, anything)"
            )
        if np.shape(self.ends[0]) != ():
            shape = np.shape(self.ends[0])
            raise ValueError(
                f"{self.name} returned the shape {shape}; a gradient is that of a scalar, of shape (): reduce it, such "
                f"as with .sum(), or use jacobian"
            )
        return self.ends[0]

    # --- derivatives ---

    def pull(self, ends: Sequence[Any], cotangents: Sequence[Any], *, record: bool, retain: bool = True) -> list[Array]:
        """Pull cotangents of some ends back to the variables; those that were there before the call give nothing."""
        given = zip(ends, cotangents, strict=True)
        pairs = [(end, g) for end, g in given if follows(end) and end.node.number > self.begin]
        outputs, arriving = [end for end, _ in pairs], [g for _, g in pairs]
        return pull(outputs, self.variables, arriving, record=record, retain=retain, since=self.begin)

    def pull_on(self, pulled: Sequence[Any], inputs: Sequence[Tensor], directions: Sequence[Any]) -> list[Array]:
        """Pull directions back through what was pulled and recorded; constants give nothing."""
        pairs = [(y, v) for y, v in zip(pulled, directions, strict=True) if follows(y)]
        outputs, arriving = [y for y, _ in pairs], [v for _, v in pairs]
        return pull(outputs, inputs, arriving, record=self.recorded, retain=self.recorded, since=self.begin)

    def given(self, model: Any, tree: Any, what: str, like: Sequence[Any]) -> list[Any]:
        """Check a tree of cotangents or tangents, against a tree of outputs or arguments and its leaves."""
        pairs = zip(matching(model, tree, what), like, strict=True)
        return [_same_shape(place, value, np.shape(leaf)) for (place, value), leaf in pairs]

    # --- results ---

    def close(self, values: Sequence[Any], since: int | None = None) -> list[Any]:
        """Make arrays of results; leave those recorded that depend on what lies outside of this call.

        What has been made after the clock showed `since` belongs to the call too; by default, all since it began.
        """

        def inside(vertex: Vertex) -> bool:
            return self._is_inside(vertex) and (since is None or not self.end < vertex.number <= since)

        tied: set[Vertex] = set()
        if self.recorded or since is not None:
            tied = _tied([value.node for value in values if follows(value)], inside)
        return [_copy(value, value.node if follows(value) and value.node in tied else None) for value in values]

    def close_aux(self) -> Any:
        """Return the auxiliary output, with its tensors closed."""
        values = [leaf for _, leaf in leaves(self.aux)]
        closed = iter(self.close([value for value in values if type(value) is Tensor]))
        return rebuild(self.aux, iter([next(closed) if type(value) is Tensor else value for value in values]))

    def per_argument(self, values: Sequence[Any]) -> Any:
        """Arrange one value for each variable as the differentiated arguments are: one tree, or a tuple of them."""
        rest = iter(values)
        trees = [rebuild(tree, rest) for tree in self.trees.values()]
        return trees[0] if self.single else tuple(trees)


_used: list[set[Vertex]] = []
"""The variables of each transform that is running its function, in any thread."""


@contextlib.contextmanager
def in_use(vertices: set[Vertex]) -> Iterator[None]:
    """Let other threads know that a transform differentiates with respect to some vertices."""
    _used.append(vertices)
    try:
        yield
    finally:
        _used.remove(vertices)  # or an equal one


def used() -> set[Vertex]:
    """Return the variables of all transforms that are running their functions."""
    return set[Vertex]().union(*_used)


def recorded_among(tree: Any) -> bool:
    """Tell whether what is computed from a tree of arguments here may be differentiated by someone else."""
    return modes.current().record and any(follows(leaf) for _, leaf in leaves(tree))


def follows(value: Any) -> bool:
    """Whether a value is a tensor that something differentiable leads to."""
    return type(value) is Tensor and value.requires_grad


def check_function(transform: str, f: Any, argnums: Any = 0) -> None:
    """Refuse what is no function to differentiate, and what does not number its arguments."""
    if not callable(f):
        raise TypeError(
            f"{transform} takes a function, and f is {_kind(f)}: write a function of what to differentiate, "
            f"ad.{transform}(lambda x: ...); for results that have been computed: ad.gradients(y, x) or y.backward()"
        )
    several = isinstance(argnums, Sequence) and not isinstance(argnums, str)
    for i, number in enumerate(argnums if several else [argnums]):
        if not isinstance(number, (int, np.integer)) or isinstance(number, bool):
            raise TypeError(
                f"argnums must be an int or a sequence of ints, the positions of the arguments to differentiate; "
                f"argnums{f'[{i}]' * several} is {_kind(number)}. The arguments themselves are given to what "
                f"{transform} returns: ad.{transform}(f)(x)"
            )


def check_pairs(transform: str, f: Any, primals: Any, tangents: Any) -> None:
    """Refuse what is no function, and primals and tangents that are not a tuple each, with as many entries."""
    check_function(transform, f)
    for what, given in (("primals", primals), ("tangents", tangents)):
        if not isinstance(given, (tuple, list)):
            raise TypeError(
                f"{what} must be a tuple with one entry for each argument, not {_kind(given)}; for one argument write "
                f"ad.{transform}(f, (x,), (v,))"
            )
    if len(primals) != len(tangents):
        few, many = (f"{len(given)} {what}{'s' * (len(given) != 1)}"
                     for what, given in (("primal", primals), ("tangent", tangents)))
        raise TypeError(
            f"{transform} takes as many tangents as primals, and was given {few}, {many}; the tangent of an argument "
            f"that stays as it is: np.zeros_like(x)"
        )


def _positions(argnums: int | Sequence[int], count: int, name: str, kwargs: dict[str, Any]) -> list[int]:
    """Return the positions of the differentiated arguments, counted from the front."""
    given = [int(argnums)] if isinstance(argnums, (int, np.integer)) else list(argnums)
    positions = [i + count * (i < 0) for i in given]
    if any(not 0 <= i < count for i in positions) or len(set(positions)) != len(positions):
        named = kwargs and any(not 0 <= i < count for i in positions)
        how = f"; pass differentiated arguments by position, not as {', '.join(kwargs)}=..." if named else ""
        raise ValueError(
            f"argnums={argnums} must name positional arguments of {name}, each once; it was called with {count}{how}"
        )
    return positions


def _end(place: str, value: Any) -> Any:
    """Check a leaf of an output: floating. Of Python's numbers, an int or a bool is none, as NumPy's are none."""
    known = isinstance(value, (Tensor, np.ndarray, np.generic, float))
    array = np.asarray(arraylike(place, to_array(value))) if known else np.array(None)
    if array.dtype.kind != "f":
        raise TypeError(
            f"{place} returned {_kind(value)}, which has no derivative: compute with floats, or return it as aux, with "
            f"has_aux=True"
        )
    return value if type(value) is Tensor else array


def _same_shape(place: str, value: Any, shape: tuple[int, ...]) -> Any:
    """Check one cotangent or tangent; a recorded tensor stays one."""
    array = np.asarray(arraylike(place, to_array(value)))
    if array.dtype.kind not in "fiub":
        raise TypeError(f"{place} must hold real numbers; it is {_kind(value)}")
    if array.shape != shape:
        raise ValueError(f"{place} has the shape {array.shape}, but must have {shape}")
    return value if follows(value) and modes.current().record else array


def _kind(value: Any) -> str:
    if value is None:
        return "None"
    dtype = f" of dtype {value.dtype}" if isinstance(value, (Tensor, np.ndarray)) else ""
    return f"a {type(value).__name__}{dtype}"


def _lead_to(targets: set[Vertex], vertices: Iterable[Vertex]) -> bool:
    """Tell whether some vertices depend on a target."""
    seen = set(vertices)
    stack = list(seen)
    while stack:
        vertex = stack.pop()
        if vertex in targets:
            return True
        if type(vertex) is Node:
            fresh = {p for p in vertex.parents if p is not None and p.requires_grad} - seen
            seen |= fresh
            stack.extend(fresh)
    return False


def _tied(vertices: Sequence[Vertex], inside: Callable[[Vertex], bool]) -> set[Vertex]:
    """Find those vertices behind some, and among them, that depend on one that is not inside."""
    seen = set(vertices)
    stack = list(seen)
    nodes: list[Node] = []
    tied: set[Vertex] = set()
    while stack:
        vertex = stack.pop()
        if not inside(vertex):
            tied.add(vertex)
        elif type(vertex) is Node:
            nodes.append(vertex)
            fresh = {p for p in vertex.parents if p is not None and p.requires_grad} - seen
            seen |= fresh
            stack.extend(fresh)
    for node in sorted(nodes, key=lambda node: node.number):  # parents first
        if any(parent in tied for parent in node.parents):
            tied.add(node)
    return tied


def _copy(value: Any, node: Vertex | None) -> Any:
    """Copy a result into an array, or into a tensor at its place in the graph."""
    array = np.array(to_array(value))
    return array if node is None else wrap(array if array.ndim else array[()], node)
