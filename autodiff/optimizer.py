"""What optimisers share: groups of parameters, blocks of them, and saving.

An optimiser writes to its parameters where they are: arrays and tensors that share their memory see every step. The
moments of a group lie in buffers, one behind the other, in the order of the parameters. The update runs over blocks
that stay in the processor's cache; parameters that are small are copied together into one, and back, however many.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from operator import is_
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from .broadcasting import SUMMED_IN
from .changes import note_writes
from .groups import CHECKS, Fixed, Group, Parameters, as_groups, checked, differences, numbers
from .hints import answering, meant
from .sharing import overlapping
from .tensor import Tensor

__all__ = ["Group", "Optimizer", "Parameters"]

BLOCK = 1 << 16  # elements; the arrays of one block (values, gradient, moments, scratch) fit in a second-level cache
SMALL = 1 << 12  # elements; below, a block of its own costs more calls than copying costs


class _Flat:
    """Parameters of one group and one dtype: moments in buffers, one behind the other, and a step count for each.

    Those in half precision are updated, and have their moments, in single: a gradient's square, or eps, may be 0 in
    half. The new values are rounded, once.
    """

    def __init__(self, parameters: Sequence[Tensor], moments: tuple[str, ...]) -> None:
        dtype = SUMMED_IN.get(parameters[0].dtype, parameters[0].dtype)
        self.widened = dtype != parameters[0].dtype
        self.parameters = parameters
        self.bounds = np.cumsum([0, *(p.size for p in parameters)]).tolist()
        self.moments = {name: np.zeros(self.bounds[-1], dtype) for name in moments}
        self.steps = [0] * len(parameters)
        self.scratch = np.empty(min(BLOCK, self.bounds[-1]), dtype)
        self.places: dict[tuple[int, int], list[tuple[NDArray[Any], ...]]] = {}  # of small parameters in a block
        tied = {i for places in overlapping([p.data for p in parameters]) for i in places}
        self.joins = [p.size <= SMALL and i not in tied for i, p in enumerate(parameters)]
        small = sum(p.size for p, joins in zip(parameters, self.joins, strict=True) if joins)
        self.joined = np.empty((2, min(BLOCK, small)), dtype)  # values and gradient of a block of small parameters

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "places": {}}  # a copy's would be no views any more

    @property
    def dtype(self) -> Any:
        """That of every moment; as a rule also of the parameters."""
        return self.scratch.dtype

    def part(self, buffer: NDArray[Any], i: int, start: int = 0) -> NDArray[Any]:
        """Return a parameter's part of a buffer that begins at a bound, in its shape."""
        return buffer[self.bounds[i] - start : self.bounds[i + 1] - start].reshape(self.parameters[i].shape)

    def runs(self) -> Iterator[tuple[int, int]]:
        """Yield ranges of neighbours that are to be updated and have equal step counts: usually one, of all of them."""
        counts = [
            count if parameter._grad is not None and (node := parameter.node) is not None and node.requires_grad else -1
            for parameter, count in zip(self.parameters, self.steps, strict=True)
        ]
        first = 0
        for count, run in groupby(counts):
            last = first + len([*run])
            if count >= 0:
                yield first, last
            first = last

    def blocks(self, first: int, last: int) -> Iterator[tuple[int, int, NDArray[Any], NDArray[Any]]]:
        """Cut a run into blocks: bounds in the buffers, the values, which are to be updated, and the gradient."""
        i = first
        while i < last:
            j, start = i, self.bounds[i]
            while j < last and self.joins[j] and self.bounds[j + 1] - start <= BLOCK:
                j += 1
            if j > i + 1:
                yield self._joined(i, j)
                self._spread(i, j)
                i = j
                continue
            parameter, size = self.parameters[i], self.bounds[i + 1] - start
            values, gradient = parameter.data.reshape(-1), _gradient(parameter)
            if self.widened:
                values, gradient = values.astype(self.dtype), gradient.astype(self.dtype)
            for a in range(0, size, BLOCK):
                b = min(a + BLOCK, size)
                yield start + a, start + b, values[a:b], gradient[a:b]
            if self.widened or not parameter.data.flags.c_contiguous:  # the values are a copy
                parameter.data[...] = values.reshape(parameter.shape)
            i += 1

    def _joined(self, first: int, last: int) -> tuple[int, int, NDArray[Any], NDArray[Any]]:
        """Copy small parameters and their gradients together."""
        for parameter, (values, gradient) in self._places(first, last):
            values[...] = parameter._values
            gradient[...] = parameter._grad
        start, stop = self.bounds[first], self.bounds[last]
        return start, stop, self.joined[0, : stop - start], self.joined[1, : stop - start]

    def _spread(self, first: int, last: int) -> None:
        """Copy the new values of small parameters back."""
        for parameter, (values, _) in self._places(first, last):
            parameter.data[...] = values

    def _places(self, first: int, last: int) -> Iterator[tuple[Tensor, tuple[NDArray[Any], ...]]]:
        """Walk small parameters with the places of their values and their gradients in a block, in their shapes."""
        places = self.places.get((first, last))
        if places is None:
            start = self.bounds[first]
            places = [tuple([self.part(row, i, start) for row in self.joined]) for i in range(first, last)]
            self.places[first, last] = places
        return zip(self.parameters[first:last], places, strict=True)


def _gradient(parameter: Tensor) -> NDArray[Any]:
    gradient = parameter._grad
    assert gradient is not None
    return gradient.reshape(-1)


class Optimizer(ABC):
    """What optimisers share: groups, moments, and saving. Use `SGD` or `AdamW`.

    Attributes
    ----------
    param_groups : tuple of dict
        For each group its ``"params"`` and settings. Settings may be changed between steps, such as the learning rate
        of one group by a schedule of its own; parameters are added by `add_param_group`.
    """

    moments: ClassVar[tuple[str, ...]] = ()

    def __init__(self, params: Parameters, settings: Group) -> None:
        self.settings = settings  # of a group that has none of its own
        self.settings = self._check(settings)
        self._groups: list[Group] = []
        self._held: list[tuple[Tensor, ...]] = []  # the parameters of each group
        self._checked: list[list[Any]] = []  # the values that each group had when it was last found right
        self._flats: list[list[_Flat]] = []
        self._places: list[tuple[_Flat, int]] = []  # where each parameter is, in the order given
        held: dict[int, int] = {}
        for group in [self._made(group, held, number) for number, group in enumerate(as_groups(params))]:
            self._add(group)

    @property
    def param_groups(self) -> tuple[Group, ...]:
        """The groups: settings to be read and changed, parameters to be read."""
        return Fixed(self._groups)

    def add_param_group(self, group: Mapping[str, Any]) -> None:
        """Add parameters with settings of their own, such as those of a layer that is unfrozen later.

        Parameters
        ----------
        group : mapping
            ``"params"``, and settings that differ from those that the optimiser was made with.

        Raises
        ------
        ValueError, TypeError
            As when an optimiser is made; nothing is added then.

        Examples
        --------
        >>> from autodiff import Tensor, optim
        >>> first, second = Tensor([1.0], requires_grad=True), Tensor([2.0], requires_grad=True)
        >>> optimizer = optim.SGD([first], lr=0.1)
        >>> optimizer.add_param_group({"params": [second], "lr": 0.01})
        >>> [group["lr"] for group in optimizer.param_groups]
        [0.1, 0.01]
        """
        if not isinstance(group, Mapping):
            raise TypeError(f"group must be a mapping with 'params', such as {{'params': [w]}}, not {group!r:.60}")
        (given,) = as_groups([group])
        held = {id(parameter): number for number, members in enumerate(self._held) for parameter in members}
        self._add(self._made(given, held, len(self._held)))

    def _made(self, group: Mapping[str, Any], held: dict[int, int], number: int) -> Group:
        """Check a group and complete its settings."""
        parameters = Fixed(checked(group["params"], held, number))
        return {**self._check({**self.settings, **group}), "params": parameters}

    def _add(self, group: Group) -> None:
        parameters: tuple[Tensor, ...] = group["params"]
        by_dtype: dict[Any, list[Tensor]] = {}
        for parameter in parameters:
            by_dtype.setdefault(parameter.dtype, []).append(parameter)
        flats = {dtype: _Flat(members, self.moments) for dtype, members in by_dtype.items()}
        position = dict.fromkeys(by_dtype, 0)
        for parameter in parameters:
            self._places.append((flats[parameter.dtype], position[parameter.dtype]))
            position[parameter.dtype] += 1
        self._flats.append(list(flats.values()))
        self._groups.append(group)
        self._held.append(parameters)
        self._checked.append([None])

    def _check(self, group: Mapping[str, Any]) -> Group:
        """Refuse unknown and impossible settings; return them as plain numbers."""
        made: Group = {}
        for name, value in group.items():
            if name == "params":
                continue
            if name not in self.settings:
                raise ValueError(f"{type(self).__name__} has no setting {name!r}.{meant(str(name), self.settings)}")
            made[name] = CHECKS[name](name, value)
        return made

    def _is_right(self, i: int) -> bool:
        """Tell whether a group is as it was when it was last checked."""
        values, checked = self._groups[i].values(), self._checked[i]
        return len(values) == len(checked) and all(map(is_, values, checked))

    def _settle(self) -> None:
        """Check the groups whose settings have changed: a schedule may have gone wrong."""
        for i, group in enumerate(self._groups):
            if self._is_right(i):
                continue
            if group.get("params") is not self._held[i]:
                raise ValueError(
                    f"the parameters of group {i} were exchanged, which an optimiser cannot follow: add some with "
                    f"optimizer.add_param_group({{...}}), or make an optimiser of the new ones"
                )
            missing = self.settings.keys() - group.keys()
            if missing:
                raise ValueError(f"group {i} lacks {', '.join(sorted(missing))}")
            group.update(self._check(group))
            self._checked[i] = [*group.values()]

    @property
    def lr(self) -> float:
        """The learning rate: reading gives the first group's, assigning sets every group's."""
        return float(self._groups[0]["lr"])

    @lr.setter
    def lr(self, value: float) -> None:
        rate = self._check({"lr": value})["lr"]
        for i, group in enumerate(self._groups):
            right = self._is_right(i)
            group["lr"] = rate
            if right:
                self._checked[i] = [*group.values()]

    @answering
    def step(self) -> None:
        """Update every parameter that requires a gradient and has one; the others keep values, moments, step counts."""
        self._settle()
        for group, flats in zip(self._groups, self._flats, strict=True):
            for flat in flats:
                for first, last in flat.runs():
                    count, b = flat.steps[first] + 1, flat.bounds[first]
                    try:
                        for a, b, values, gradient in flat.blocks(first, last):
                            moments = [moment[a:b] for moment in flat.moments.values()]
                            self._update(values, gradient, moments, flat.scratch[: b - a], group, count)
                    except BaseException:
                        last = max(first, bisect_left(flat.bounds, b))  # up to here something was updated
                        raise
                    finally:
                        flat.steps[first:last] = [count] * (last - first)
                        note_writes([(parameter._values, parameter.node) for parameter in flat.parameters[first:last]])

    @abstractmethod
    def _update(
        self, values: NDArray[Any], g: NDArray[Any], moments: Sequence[NDArray[Any]], scratch: NDArray[Any],
        group: Group, count: int,
    ) -> None:  # fmt: skip
        """Do the ``count``-th step of one block, in place; `g` is read only."""

    @answering
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
            (arrays of the parameter's shape and dtype; in single precision for half). ``"param_groups"``: the settings
            of each group, ``"params"`` as numbers. Parameters are numbered in the order given.
        """
        self._settle()
        state = {}
        for number, (flat, i) in enumerate(self._places):
            if flat.steps[i]:
                moments = {name: flat.part(buffer, i).copy() for name, buffer in flat.moments.items()}
                state[number] = {"step": flat.steps[i], **moments}
        groups, number = [], 0
        for group in self._groups:
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
            If groups, settings, parameters, shapes or dtypes differ, or something is missing. The message lists all
            differences, and nothing is loaded.
        """
        ours = self.state_dict()["param_groups"]
        problems = []
        if not isinstance(state, Mapping):
            state, problems = {}, [f"not a mapping, as state_dict() returns it, but a {type(state).__name__}"]
        entries, groups = state.get("state"), state.get("param_groups")
        if not isinstance(entries, Mapping):
            problems.append(f"'state' must be a mapping, not {entries!r:.60}")
            entries = {}
        if not isinstance(groups, (list, tuple)) or not all(isinstance(group, Mapping) for group in groups):
            problems.append(f"'param_groups' must be a list of mappings, not {groups!r:.60}")
            groups = ours
        for i, group in enumerate(groups):
            problems += [f"group {i}: {problem}" for problem in self._problems(group)]
        mine, theirs = ([numbers(group.get("params")) for group in either] for either in (ours, groups))
        if mine != theirs:
            counts = ([len(numbers) for numbers in either] for either in (mine, theirs))
            problems.append("groups of {} parameters, given groups of {}".format(*counts))
        for number, entry in entries.items():
            if (
                isinstance(number, bool)
                or not isinstance(number, (int, np.integer))
                or not 0 <= number < len(self._places)
            ):
                problems.append(f"unexpected: state of parameter {number!r}")
                continue
            flat, i = self._places[number]
            parameter = flat.parameters[i]  # moments may be in its dtype: in single precision they are the same
            found = differences(entry, parameter.shape, (flat.dtype, parameter.dtype), flat.moments)
            problems += [f"parameter {number}: {problem}" for problem in found]
        if problems:
            raise ValueError(
                f"state does not fit this {type(self).__name__}, nothing was loaded:\n  " + "\n  ".join(problems)
            )
        for group, given in zip(self._groups, groups, strict=True):
            group.update(self._check(given))
        for number, (flat, i) in enumerate(self._places):
            entry = entries.get(number)
            flat.steps[i] = 0 if entry is None else int(entry["step"])
            for name, buffer in flat.moments.items():
                flat.part(buffer, i)[...] = 0 if entry is None else entry[name]

    def _problems(self, group: Mapping[str, Any]) -> Iterator[str]:
        """Say what is wrong with the settings of a saved group."""
        missing = (self.settings.keys() | {"params"}) - group.keys()
        if missing:
            yield f"lacks {', '.join(map(repr, sorted(missing)))}"
        found = []
        for part in (*({name: value} for name, value in group.items()), group):  # each, then whether they go together
            try:
                self._check(part)
            except ValueError as error:
                found.append(str(error))
        yield from dict.fromkeys(found)

    def __repr__(self) -> str:
        lines = []
        for group in self._groups:
            settings = ", ".join(f"{name}={value!r}" for name, value in group.items() if name != "params")
            lines.append(f"{len(group['params'])} parameters: {settings}")
        return f"{type(self).__name__}(\n  " + "\n  ".join(lines) + "\n)"
