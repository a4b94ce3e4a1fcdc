"""A tree of named parameters: what layers and models are made of.

Nothing is registered. A module is an ordinary object, and its attributes say what it consists of: a leaf tensor is a
parameter, another module (or a list, tuple or dictionary of modules) a part.
"""

from __future__ import annotations

import contextlib
import copy
import reprlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import modes
from .arguments import arraylike, flag
from .binding import slots
from .hidden import PLAIN, is_running, refuse_closures, refuse_wrapped, warn_of_lost
from .hints import answering, no_attribute
from .names import Names, Walk, dotted, indexed
from .node import Node
from .overview import table, tree
from .sharing import overlapping
from .tensor import Tensor

__all__ = ["Module"]


class Module:
    """Base of layers and models: finds its parameters, names them, copies them in and out.

    A subclass assigns its parameters (tensors with ``requires_grad=True``) and parts (other modules) as attributes, and
    defines ``forward``. A call of a part runs in the scope of the name under which its parent first held it, so every
    node of the graph knows where in the model it was made.

    Attributes
    ----------
    training : bool
        Whether layers such as `Dropout` act as in training; set by `train` and `eval` for the whole tree.

    Examples
    --------
    >>> from autodiff import Tensor, nn
    >>> class Line(nn.Module):
    ...     def __init__(self):
    ...         self.slope, self.intercept = Tensor([2.0], requires_grad=True), Tensor([1.0], requires_grad=True)
    ...     def forward(self, x):
    ...         return x * self.slope + self.intercept
    >>> line = Line()
    >>> line(Tensor([3.0])).data
    array([7.])
    >>> [name for name, _ in line.named_parameters()]
    ['slope', 'intercept']
    """

    if not TYPE_CHECKING:  # to a type checker it would say that every attribute is there
        __getattr__ = no_attribute
    training: bool = True
    forward: Callable[..., Any]
    _scope: modes.Switch | None = None  # entered by a call; None until a parent holds the module
    _containers: tuple[str, ...] = ()  # attributes whose list or dictionary of parts may grow
    _kept: tuple[str, ...] = ()  # attributes with results of the module's own calls, such as activations to look at

    def __setattr__(self, name: str, value: Any) -> None:
        adopted = self._adopt(name, value)
        if type(value) is Tensor and type(value.node) is Node and name not in self._kept and is_running(self, Module):
            object.__setattr__(self, "_kept", (*self._kept, name))
        object.__setattr__(self, name, value)
        if isinstance(value, (list, dict)) and (adopted or not value) and name not in self._containers:
            object.__setattr__(self, "_containers", (*self._containers, name))

    def _adopt(self, name: str, value: Any) -> bool:
        """Give the parts under an attribute their scope, unless an earlier parent has; tell whether there are any."""
        if type(value) is list and value and all([isinstance(part, Module) and part._scope for part in value]):
            return True  # as in every call but the first
        parts = [(key, part) for key, part in _entries(name, value) if isinstance(part, Module)]
        for key, part in parts:
            if part._scope is None:
                object.__setattr__(part, "_scope", modes.scope(key))
        return bool(parts)

    def __call__(self, *args: Any, **settings: Any) -> Any:
        """Run ``forward`` in the module's scope."""
        for name in self._containers:  # `self.layers = []`, and later `.append(...)`
            self._adopt(name, getattr(self, name, None))
        if self._scope is None:
            return self.forward(*args, **settings)
        with self._scope:
            return self.forward(*args, **settings)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Copy the whole tree; bound methods, partials and recomputed functions in it become those of the copies."""
        walk = self._walk()
        refuse_closures(walk.modules, [tensor for _, tensor in walk.found], Module)
        made = copy.copy(self)
        memo[id(self)] = made
        for name, value in [*made._attributes()]:
            object.__setattr__(made, name, copy.deepcopy(value, memo))
        return made

    # --- the tree ---

    def children(self) -> Iterator[tuple[str, Module]]:
        """Yield the parts that this module holds itself, with their names, in the order of definition."""
        for attribute, value in self._attributes():
            for key, part in _entries(attribute, value):
                if isinstance(part, Module):
                    yield key, part

    def _attributes(self) -> Iterable[tuple[str, Any]]:
        """Names and values of what an instance holds, in slots too (such as those of a dataclass)."""
        named = slots(type(self))
        if not named:
            return vars(self).items()
        return [*((name, getattr(self, name)) for name in named if hasattr(self, name)), *vars(self).items()]

    def modules(self) -> Iterator[Module]:
        """Yield this module and all parts below, each once, parents first."""
        return (module for _, module in self.named_modules())

    def named_modules(self) -> Iterator[tuple[str, Module]]:
        """Yield this module, named ``""``, and all parts below, each once by its first path, parents first.

        Yields
        ------
        name : str
            Attribute path, such as ``"blocks.0.attn"``.
        module : Module

        Examples
        --------
        >>> from autodiff import nn
        >>> model = nn.Module()
        >>> model.layers = [nn.Linear(2, 3, rng=0), nn.Dropout(0.1)]
        >>> [name for name, _ in model.named_modules()]
        ['', 'layers.0', 'layers.1']
        """
        seen: set[int] = set()
        stack: list[tuple[str, Module]] = [("", self)]
        while stack:
            path, module = stack.pop()
            if id(module) not in seen:
                seen.add(id(module))
                yield path, module
                stack.extend(reversed([(f"{path}.{name}" if path else name, part) for name, part in module.children()]))

    def apply(self, function: Callable[[Module], Any]) -> Self:
        """Call a function with every part below and with this module, each once, parts first; return the module.

        Parameters
        ----------
        function : callable
            Takes a module, for instance to set initial values; what it returns is not used.

        Examples
        --------
        >>> from autodiff import nn
        >>> def without_bias(module):
        ...     if isinstance(module, nn.Linear):
        ...         module.bias.data = [0.0, 0.0]
        >>> nn.Linear(3, 2, rng=0).apply(without_bias).bias
        Tensor([0., 0.], requires_grad=True)
        """
        seen: set[int] = set()
        stack: list[tuple[Module, bool]] = [(self, False)]
        while stack:
            module, parts_done = stack.pop()
            if parts_done:
                function(module)
            elif id(module) not in seen:
                seen.add(id(module))
                stack.append((module, True))
                stack.extend(reversed([(part, False) for _, part in module.children()]))
        return self

    def _names(self) -> list[tuple[str, Tensor]]:
        """List every leaf tensor under every name it has, in the order of definition."""
        return self._walk().found

    def _walk(self) -> Walk:
        """Go through this tree; refuse two leaf tensors that have one name."""
        walk = Walk(dotted)
        self._collect(walk, "", ())
        tensors: dict[str, Tensor] = {}
        for name, tensor in walk.found:
            if tensors.setdefault(name, tensor) is not tensor:
                placed = Walk(indexed)
                self._collect(placed, "", ())
                pairs = zip(walk.found, placed.found, strict=True)
                places = [place for (other, _), (place, _) in pairs if other == name]
                raise ValueError(
                    f"{' and '.join(places)} of this {type(self).__name__} have one name, {name!r}, under which only "
                    f"one could be trained and saved: rename an attribute or a key"
                )
        return walk

    def _collect(self, walk: Walk, prefix: str, above: tuple[int, ...]) -> None:
        """Add what is in this tree. A part that holds a module above itself adds nothing there."""
        above = (*above, id(self))
        walk.modules.append(self)
        for attribute, value in self._attributes():
            if value is None or type(value) in PLAIN:
                continue
            if type(value) is not Tensor and not isinstance(value, Module):
                walk.others.append((self, attribute, value))
            for key, part in _entries(walk.write("", attribute), value, walk.write):
                if isinstance(part, Module):
                    if id(part) not in above:
                        part._collect(walk, f"{prefix}{key}.", above)
                elif type(part.node) is not Node:
                    walk.found.append((prefix + key, part))
                elif part is value:
                    walk.others.append((self, attribute, value))

    def _leaves(self, warn: bool = False) -> dict[str, Tensor]:
        """Every distinct leaf tensor under its first name; if asked, with a warning of those that are not found."""
        walk = self._walk()
        first: dict[int, tuple[str, Tensor]] = {}
        for name, tensor in walk.found:
            first.setdefault(id(tensor), (name, tensor))
        leaves = dict(first.values())
        if warn:
            warn_of_lost(walk.modules, leaves.values(), walk.others, Module)
        return leaves

    def named_parameters(self) -> Iterator[tuple[str, Tensor]]:
        """Yield name and tensor of every parameter, in the order of definition; a shared one once, by its first name.

        Yields
        ------
        name : str
            Attribute path, such as ``"blocks.0.attn.qkv.weight"``.
        parameter : Tensor
            A leaf that requires a gradient.

        Raises
        ------
        ValueError
            If two parameters have one name, such as those under the keys 1 and "1" of a dictionary.

        Warns
        -----
        UserWarning
            If an attribute holds a parameter or module where none is looked for: in a set, a function or another
            object; or a result where a leaf was meant, as in ``self.w = Tensor(..., requires_grad=True) * 0.1``.
        """
        leaves = self._leaves(warn=True)
        return ((name, tensor) for name, tensor in leaves.items() if tensor.requires_grad)

    def parameters(self) -> Iterator[Tensor]:
        """Yield every parameter once, in the order of `named_parameters`."""
        return (tensor for _, tensor in self.named_parameters())

    def parameter_count(self) -> int:
        """Return the number of learned scalars; a shared parameter counts once."""
        return sum(tensor.size for tensor in self.parameters())

    def shared_parameters(self) -> list[tuple[str, ...]]:
        """Find parameters that are one and the same under several names, or lie in the same memory.

        Sharing on purpose (a tied embedding) is fine. By accident, one array given to several layers makes them learn
        as one, and a gradient check cannot tell, since the gradient is right for what was built.

        Returns
        -------
        list of tuple of str
            One tuple of names for each shared parameter, in the order of definition.

        Examples
        --------
        >>> from autodiff import nn
        >>> model = nn.Module()
        >>> model.first, model.second = nn.Linear(2, 2, rng=0), nn.Linear(2, 2, rng=1)
        >>> model.shared_parameters()
        []
        >>> model.second.weight = model.first.weight
        >>> model.shared_parameters()
        [('first.weight', 'second.weight')]
        """
        names = self._names()
        groups = overlapping([tensor.data for _, tensor in names])
        return [tuple(names[i][0] for i in group) for group in groups]

    # --- training ---

    def train(self, mode: bool = True) -> Self:
        """Put the whole tree into training mode; returns the module itself."""
        for module in self.modules():
            object.__setattr__(module, "training", flag("mode", mode))  # also of a frozen dataclass
        return self

    def eval(self) -> Self:
        """Put the whole tree into evaluation mode, in which dropout does nothing; returns the module itself."""
        return self.train(False)

    @contextlib.contextmanager
    def evaluating(self) -> Iterator[Self]:
        """Evaluation mode inside a ``with`` block; afterwards every module has its own flag back.

        Examples
        --------
        >>> from autodiff import nn
        >>> dropout = nn.Dropout(0.5)
        >>> with dropout.evaluating():
        ...     dropout.training
        False
        >>> dropout.training
        True
        """
        flags = [(module, module.training) for module in self.modules()]
        self.eval()
        try:
            yield self
        finally:
            for module, flag in flags:
                object.__setattr__(module, "training", flag)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Let every floating leaf tensor of the tree require a gradient, or none (frozen); returns the module itself.

        Constants that share read-only memory, as ``x.detach()`` does, stay constants. An optimiser passes over frozen
        parameters; it goes on with them when they require a gradient again.

        Examples
        --------
        >>> from autodiff import nn
        >>> layer = nn.Linear(3, 2, rng=0).requires_grad_(False)
        >>> layer.parameter_count(), layer.requires_grad_().parameter_count()
        (0, 8)
        """
        if not isinstance(requires_grad, (bool, np.bool_)):
            raise TypeError(f"requires_grad={requires_grad!r} must be True or False")
        for tensor in self._leaves().values():
            if tensor.dtype.kind == "f" and tensor.data.flags.writeable:
                tensor.requires_grad = bool(requires_grad)
        return self

    @answering
    def zero_grad(self) -> None:
        """Set the gradient of every leaf tensor to None, also of frozen ones: theirs is from before."""
        for tensor in self._leaves().values():
            tensor.grad = None

    # --- values out and in ---

    def state_dict(self) -> dict[str, NDArray[Any]]:
        """Copy the values out.

        Returns
        -------
        dict of str to ndarray
            All leaf tensors by their first name: the parameters, and those that require no gradient (frozen ones).
        """
        return {name: tensor.numpy() for name, tensor in self._leaves(warn=True).items()}

    def load_state_dict(self, state: Mapping[str, ArrayLike], strict: bool = True) -> Names:
        """Copy values in: all that the module has, and nothing else.

        Parameters
        ----------
        state : mapping of str to array_like
            What `state_dict` returns: every name, with its shape and dtype.
        strict : bool
            Whether all names must be the same. With False those that both have are loaded.

        Returns
        -------
        missing_keys, unexpected_keys : list of str
            A named tuple: the names that only the module has, and only the state; empty if strict.

        Raises
        ------
        ValueError
            If a name is missing or unknown, or a shape or dtype differs. The message lists all of these, and nothing
            is loaded.
        """
        if not isinstance(state, Mapping):
            raise TypeError(f"state must be a mapping of names to arrays, as state_dict() gives, not {state!r:.60}")
        leaves = self._leaves()
        arrays = {name: value.data if type(value) is Tensor else value for name, value in state.items()}
        values = {name: np.array(arraylike(name, array)) for name, array in arrays.items()}
        rest = Names([name for name in leaves if name not in values], [name for name in values if name not in leaves])
        problems = []
        if strict:
            problems = [f"missing: {name} {leaves[name].shape}" for name in rest.missing_keys]
            problems += [f"unexpected: {name} {values[name].shape}" for name in rest.unexpected_keys]
        leaves = {name: tensor for name, tensor in leaves.items() if name in values}
        for name, tensor in leaves.items():
            if values[name].shape != tensor.shape:
                problems.append(f"wrong shape: {name} is {tensor.shape}, given {values[name].shape}")
            if values[name].dtype != tensor.dtype:
                problems.append(f"wrong dtype: {name} is {tensor.dtype}, given {values[name].dtype}")
        problems += [f"read-only: {name}" for name, tensor in leaves.items() if not tensor.data.flags.writeable]
        if problems:
            raise ValueError("\n  ".join([f"state does not fit {type(self).__name__}, nothing was loaded:", *problems]))
        for name, tensor in leaves.items():
            tensor.data = values[name]
        return rest

    # --- for people ---

    def describe(self) -> str:
        """Return what stands in the brackets of the repr: sizes and settings. For subclasses to define."""
        return ""

    @reprlib.recursive_repr()
    def __repr__(self) -> str:
        return tree(f"{type(self).__name__}({self.describe()}", [(name, repr(part)) for name, part in self.children()])

    def summary(self) -> str:
        """Return a table of the parameters: name, shape, number of scalars, and their total.

        Examples
        --------
        >>> from autodiff import nn
        >>> print(nn.Linear(3, 2, rng=0).summary())
        parameter  shape  count
        weight     3 x 2      6
        bias           2      2
        total                 8
        """
        rows = [("parameter", "shape", "count")]
        first: dict[int, str] = {}
        for name, tensor in self._names():
            shape = " x ".join(map(str, tensor.shape)) or "scalar"
            if id(tensor) in first:
                rows.append((name, shape, f"= {first[id(tensor)]}"))
                continue
            first[id(tensor)] = name
            rows.append((name, shape, f"{tensor.size:,}" if tensor.requires_grad else "frozen"))
        rows.append(("total", "", f"{self.parameter_count():,}"))
        return table(rows)


def _entries(name: str, value: Any, write: Callable[[str, Any], str] = dotted) -> Iterable[tuple[str, Any]]:
    """Return the tensors and modules that an attribute holds, itself or as a collection, with their names."""
    if isinstance(value, (Tensor, Module)):
        return ((name, value),)
    refuse_wrapped(name, value, Module)
    if isinstance(value, (list, tuple, dict)):
        items = list(value.items() if isinstance(value, dict) else enumerate(value))
        for key, part in items:
            refuse_wrapped(write(name, key), part, Module)
        kinds = (Tensor, Module, list, tuple, dict)  # collections may hold collections
        parts = [(write(name, key), part) for key, part in items if isinstance(part, kinds)]
        return [entry for place, part in parts for entry in _entries(place, part, write)]
    return ()
