"""What optimisers share: flat buffers, groups of parameters, checks, and saving.

An optimiser keeps the parameters of a group as views of one flat buffer, in the order given, and its moments in buffers
of the same layout. The update then runs over blocks that stay in the processor's cache, however many small parameters
there are.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .arguments import real
from .module import Module
from .node import Node
from .signature import nearest
from .tensor import Tensor

__all__ = ["Group", "Optimizer", "Parameters"]

BLOCK = 1 << 16  # elements; the arrays of one block (values, gradient, moments, scratch) fit in a second-level cache

Group: TypeAlias = dict[str, Any]
Parameters: TypeAlias = Iterable[Tensor] | Iterable[Mapping[str, Any]]


class _Flat:
    """Parameters of one group and one dtype: views of one buffer, moments laid out alike, a step count for each."""

    def __init__(self, parameters: list[Tensor], moments: tuple[str, ...]) -> None:
        dtype = parameters[0].dtype
        self.parameters = parameters
        self.bounds = np.cumsum([0, *(p.size for p in parameters)]).tolist()
        self.values = np.empty(self.bounds[-1], dtype)
        self.moments = {name: np.zeros(self.bounds[-1], dtype) for name in moments}
        self.steps = [0] * len(parameters)
        self.views: list[Any] = [None] * len(parameters)
        self.scratch = np.empty((2, min(BLOCK, self.bounds[-1])), dtype)
        self.adopt(range(len(parameters)))

    def part(self, buffer: NDArray[Any], i: int) -> NDArray[Any]:
        """Return a parameter's part of a buffer, in its shape."""
        return buffer[self.bounds[i] : self.bounds[i + 1]].reshape(self.parameters[i].shape)

    def adopt(self, indices: Iterable[int]) -> None:
        """Move parameters into the buffer: at first, and if another optimiser has moved them into its own."""
        for i in indices:
            parameter = self.parameters[i]
            if parameter._values is not self.views[i]:
                view = self.views[i] = self.part(self.values, i)
                view[...] = parameter._values
                parameter._values = view

    def runs(self) -> Iterator[tuple[int, int]]:
        """Yield ranges of neighbours that have a gradient and equal step counts: usually one, of all of them."""
        first = 0
        for i, parameter in enumerate(self.parameters):
            if parameter._grad is None:
                if first < i:
                    yield first, i
                first = i + 1
            elif first < i and self.steps[i] != self.steps[first]:
                yield first, i
                first = i
        if first < len(self.parameters):
            yield first, len(self.parameters)

    def blocks(self, first: int, last: int) -> Iterator[tuple[int, int, NDArray[Any]]]:
        """Cut a run into blocks: bounds in the buffer, and the gradient there. Small parameters share a block."""
        i = first
        while i < last:
            start, stop = self.bounds[i], self.bounds[i + 1]
            if stop - start > BLOCK:
                gradient = self._gradient(i)
                for a in range(start, stop, BLOCK):
                    b = min(a + BLOCK, stop)
                    yield a, b, gradient[a - start : b - start]
                i += 1
                continue
            j = i + 1
            while j < last and self.bounds[j + 1] - start <= BLOCK:
                j += 1
            stop = self.bounds[j]
            joined = self.scratch[0, : stop - start]
            np.concatenate([self._gradient(k) for k in range(i, j)], out=joined)
            yield start, stop, joined
            i = j

    def _gradient(self, i: int) -> NDArray[Any]:
        gradient = self.parameters[i]._grad
        assert gradient is not None
        return gradient.reshape(-1)


class Optimizer(ABC):
    """What optimisers share: groups, buffers, and saving. Use `SGD` or `AdamW`.

    Attributes
    ----------
    param_groups : list of dict
        For each group its ``"params"`` and settings. Settings may be changed between steps, parameters may not.
    """

    moments: ClassVar[tuple[str, ...]] = ()

    def __init__(self, params: Parameters, settings: Group) -> None:
        self.settings = settings  # of a group that has none of its own
        self.param_groups: list[Group] = []
        self._flats: list[list[_Flat]] = []
        self._places: list[tuple[_Flat, int]] = []  # where each parameter is, in the order given
        seen: set[int] = set()
        for group in _as_groups(params):
            made = {**settings, **group, "params": _checked(group["params"], seen)}
            self._check(made)
            self.param_groups.append(made)
            by_dtype: dict[Any, list[Tensor]] = {}
            for parameter in made["params"]:
                by_dtype.setdefault(parameter.dtype, []).append(parameter)
            flats = {dtype: _Flat(parameters, self.moments) for dtype, parameters in by_dtype.items()}
            self._flats.append(list(flats.values()))
            position = dict.fromkeys(by_dtype, 0)
            for parameter in made["params"]:
                self._places.append((flats[parameter.dtype], position[parameter.dtype]))
                position[parameter.dtype] += 1

    def _check(self, group: Group) -> None:
        """Refuse unknown and impossible settings. Called in each step too, as a schedule may have gone wrong."""
        for name, value in group.items():
            if name == "params":
                continue
            if name not in self.settings:
                raise ValueError(f"{type(self).__name__} has no setting {name!r}.{nearest(name, self.settings)}")
            _CHECKS[name](name, value)

    @property
    def lr(self) -> float:
        """The learning rate: reading gives the first group's, assigning sets every group's."""
        return float(self.param_groups[0]["lr"])

    @lr.setter
    def lr(self, value: float) -> None:
        for group in self.param_groups:
            self._check({"lr": value})
            group["lr"] = value

    def step(self) -> None:
        """Update every parameter that has a gradient. The others keep their values, moments and step counts."""
        for group in self.param_groups:
            self._check(group)
        for group, flats in zip(self.param_groups, self._flats, strict=True):
            for flat in flats:
                for first, last in flat.runs():
                    flat.adopt(range(first, last))
                    count = flat.steps[first] + 1
                    for a, b, gradient in flat.blocks(first, last):
                        moments = [moment[a:b] for moment in flat.moments.values()]
                        self._update(flat.values[a:b], gradient, moments, flat.scratch[1, : b - a], group, count)
                    for i in range(first, last):
                        flat.steps[i] = count
                        flat.parameters[i].stamp()

    @abstractmethod
    def _update(
        self, values: NDArray[Any], g: NDArray[Any], moments: Sequence[NDArray[Any]], scratch: NDArray[Any],
        group: Group, count: int,
    ) -> None:  # fmt: skip
        """Do the ``count``-th step of one block, in place; `g` is read only."""

    def zero_grad(self) -> None:
        """Set the gradient of every parameter to None."""
        for flat, i in self._places:
            flat.parameters[i].grad = None

    def state_dict(self) -> dict[str, Any]:
        """Copy the state out, for an exact continuation.

        Returns
        -------
        dict
            ``"state"``: for the number of each parameter that has been updated, its ``"step"`` count and its moments
            (arrays of the parameter's shape). ``"param_groups"``: the settings of each group, ``"params"`` as numbers.
            Parameters are numbered in the order given.
        """
        state = {}
        for number, (flat, i) in enumerate(self._places):
            if flat.steps[i]:
                moments = {name: flat.part(buffer, i).copy() for name, buffer in flat.moments.items()}
                state[number] = {"step": flat.steps[i], **moments}
        groups, number = [], 0
        for group in self.param_groups:
            numbers = list(range(number, number + len(group["params"])))
            groups.append({**group, "params": numbers})
            number += len(numbers)
        return {"state": state, "param_groups": groups}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Copy a state in, that an optimiser of this kind over such parameters gave.

        Parameters
        ----------
        state : mapping
            What `state_dict` returns.

        Raises
        ------
        ValueError
            If groups, parameters, shapes or dtypes differ. The message lists all differences, and nothing is loaded.
        """
        entries, groups = state["state"], state["param_groups"]
        ours = self.state_dict()["param_groups"]
        problems = []
        if [group["params"] for group in groups] != [group["params"] for group in ours]:
            mine, theirs = ([len(group["params"]) for group in either] for either in (ours, groups))
            problems.append(f"groups of {mine} parameters, given groups of {theirs}")
        for group in groups:
            try:
                self._check(group)
            except ValueError as error:
                problems.append(str(error))
        for number, entry in entries.items():
            if number not in range(len(self._places)):
                problems.append(f"unexpected: state of parameter {number}")
                continue
            flat, i = self._places[number]
            problems += [f"parameter {number}: {problem}" for problem in _differences(entry, flat, i)]
        if problems:
            raise ValueError(
                f"state does not fit this {type(self).__name__}, nothing was loaded:\n  " + "\n  ".join(problems)
            )
        for group, given in zip(self.param_groups, groups, strict=True):
            group.update({name: value for name, value in given.items() if name != "params"})
        for number, (flat, i) in enumerate(self._places):
            entry = entries.get(number)
            flat.steps[i] = 0 if entry is None else int(entry["step"])
            for name, buffer in flat.moments.items():
                flat.part(buffer, i)[...] = 0 if entry is None else entry[name]

    def __repr__(self) -> str:
        lines = []
        for group in self.param_groups:
            settings = ", ".join(f"{name}={value!r}" for name, value in group.items() if name != "params")
            lines.append(f"{len(group['params'])} parameters: {settings}")
        return f"{type(self).__name__}(\n  " + "\n  ".join(lines) + "\n)"


def _rates(name: str, value: Any) -> None:
    if not isinstance(value, (tuple, list)) or len(value) != 2:
        raise ValueError(f"{name}={value!r} must be two numbers")
    for position, rate in enumerate(value):
        real(f"{name}[{position}]", rate, below=1)


def _switch(name: str, value: Any) -> None:
    if not isinstance(value, bool):
        raise ValueError(f"{name}={value!r} must be True or False")


_CHECKS: dict[str, Callable[[str, Any], object]] = {
    "lr": real, "momentum": real, "weight_decay": real, "eps": real, "betas": _rates, "nesterov": _switch,
}  # fmt: skip


def _as_groups(params: Parameters) -> list[Mapping[str, Any]]:
    """Bring parameters, or groups of them, into the form of groups."""
    if isinstance(params, (Module, Tensor, Mapping)):
        hint = "module.parameters()" if isinstance(params, Module) else "a list"
        raise TypeError(
            f"params must be an iterable of tensors or of groups, not a {type(params).__name__}; pass {hint}"
        )
    given: list[Any] = list(params)
    if not given:
        raise ValueError("params is empty: an optimiser needs at least one parameter (is anything requires_grad=True?)")
    if all(isinstance(group, Mapping) for group in given):
        for position, group in enumerate(given):
            if "params" not in group:
                raise ValueError(f"group {position} has no 'params', only {sorted(group)}")
        return given
    return [{"params": given}]


def _checked(params: Any, seen: set[int]) -> list[Tensor]:
    """Return a group's parameters as a list, each fit to be optimised and none twice."""
    parameters = [params] if type(params) is Tensor else list(params)
    for parameter in parameters:
        if type(parameter) is not Tensor:
            raise TypeError(f"params holds a {type(parameter).__name__}; only tensors can be optimised")
        if type(parameter.node) is Node or parameter.dtype.kind != "f":
            what = f"a result (of {parameter.node.op.name!r})" if type(parameter.node) is Node else "not floating"
            raise TypeError(
                f"params holds a tensor of shape {parameter.shape} that is {what}; only leaves can be optimised"
            )
        if id(parameter) in seen:
            raise ValueError(f"params holds the same tensor (shape {parameter.shape}, name {parameter.name!r}) twice")
        seen.add(id(parameter))
    return parameters


def _differences(entry: Mapping[str, Any], flat: _Flat, i: int) -> Iterator[str]:
    """Say what keeps a saved entry from being loaded into a parameter's place."""
    shape, dtype = flat.parameters[i].shape, flat.values.dtype
    if set(entry) != {"step", *flat.moments}:
        yield f"has {sorted(entry)}, not {sorted(['step', *flat.moments])}"
        return
    for name in flat.moments:
        if np.shape(entry[name]) != shape:
            yield f"{name} has shape {np.shape(entry[name])}, not {shape}"
        if np.asarray(entry[name]).dtype != dtype:
            yield f"{name} has dtype {np.asarray(entry[name]).dtype}, not {dtype}"
