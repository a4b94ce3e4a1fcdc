"""Groups of an optimiser's parameters: the forms in which they are given, and what is wrong with some."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from .arguments import arraylike, real, whole
from .module import Module
from .node import Node
from .tensor import Tensor

__all__ = ["CHECKS", "Fixed", "Group", "Parameters", "as_groups", "checked", "differences", "numbers"]

Group: TypeAlias = dict[str, Any]
Parameters: TypeAlias = Iterable[Tensor] | Iterable[Mapping[str, Any]]


class Fixed(tuple[Any, ...]):
    """What an optimiser hands out of what it holds, to be read."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        hint = "; parameters are added with optimizer.add_param_group({...})" if hasattr(list, name) else ""
        raise AttributeError(f"what an optimiser holds is fixed and has no {name!r}{hint}")


def _rates(name: str, value: Any) -> tuple[float, ...]:
    value = value.tolist() if isinstance(value, np.ndarray) else value
    if not isinstance(value, (tuple, list)) or len(value) != 2:
        raise ValueError(f"{name}={value!r} must be two numbers")
    return tuple([real(f"{name}[{position}]", rate, below=1) for position, rate in enumerate(value)])


def _switch(name: str, value: Any) -> bool:
    if not isinstance(value, (bool, np.bool_)):
        raise ValueError(f"{name}={value!r} must be True or False")
    return bool(value)


CHECKS: dict[str, Callable[[str, Any], object]] = {
    "lr": real, "momentum": real, "weight_decay": real, "eps": real, "betas": _rates, "nesterov": _switch,
}  # fmt: skip


def as_groups(params: Parameters) -> list[Mapping[str, Any]]:
    """Bring parameters, or groups of them, into the form of groups."""
    if isinstance(params, (Module, Tensor, Mapping)) or not isinstance(params, Iterable):
        other: Any = params
        hint = "module.parameters()" if callable(other) else "a list"
        raise TypeError(
            f"params must be an iterable of tensors or of groups, not a {type(other).__name__}; pass {hint}"
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


def checked(params: Any, held: dict[int, int], number: int) -> list[Tensor]:
    """Return a group's parameters as a list, each fit to be optimised and none twice; note the group that holds it."""
    if isinstance(params, (Module, Mapping)) or not isinstance(params, Iterable):
        raise TypeError(f"params of a group must be tensors in a list, not {params!r:.60}")
    parameters = [params] if type(params) is Tensor else list(params)
    for parameter in parameters:
        if type(parameter) is not Tensor:
            raise TypeError(f"params holds a {type(parameter).__name__}; only tensors can be optimised")
        if type(parameter.node) is Node or parameter.dtype.kind != "f":
            what = f"a result (of {parameter.node.op.name!r})" if type(parameter.node) is Node else "not floating"
            raise TypeError(
                f"params holds a tensor of shape {parameter.shape} that is {what}; only leaves can be optimised"
            )
        if id(parameter) in held:
            other = held[id(parameter)]
            raise ValueError(
                f"params holds the same tensor (shape {parameter.shape}, name {parameter.name!r}) twice, in "
                f"{f'group {number}' if other == number else f'groups {other} and {number}'}: give it once"
            )
        if not parameter.data.flags.writeable:
            raise ValueError(
                f"params holds a tensor (shape {parameter.shape}, name {parameter.name!r}) whose array is read-only, "
                f"as that of x.detach() or of a file opened for reading: no step can be written to it. Copy it: "
                f"Tensor(x.data, requires_grad=True)"
            )
        held[id(parameter)] = number
    return parameters


def numbers(params: Any) -> list[Any]:
    """Bring the numbers of a saved group's parameters into the form of a list."""
    return list(params) if isinstance(params, (list, tuple)) else []


def differences(entry: Any, shape: tuple[int, ...], dtypes: Sequence[Any], moments: Collection[str]) -> Iterator[str]:
    """Say what keeps a saved entry from being loaded into a parameter's place, of this shape and one of the dtypes."""
    wanted = {"step", *moments}
    if not isinstance(entry, Mapping) or set(entry) != wanted:
        given = sorted(map(str, entry)) if isinstance(entry, Mapping) else repr(entry)
        yield (
            f"has {given:.60}, not {sorted(wanted)}" if isinstance(given, str) else f"has {given}, not {sorted(wanted)}"
        )
        return
    try:
        if whole("step", entry["step"], 1) > 2**53:
            yield f"step={entry['step']!r:.60} is more than any training takes"
    except ValueError as error:
        yield str(error)
    for name in moments:
        try:
            moment = np.asarray(arraylike(name, entry[name]))
        except TypeError as error:
            yield str(error)
            continue
        except ValueError:  # lists of unequal lengths
            yield f"{name} is no array"
            continue
        if moment.shape != shape:
            yield f"{name} has shape {moment.shape}, not {shape}"
        if moment.dtype not in dtypes:
            yield f"{name} has dtype {moment.dtype}, not {dtypes[0]}"
