"""``python -m autodiff ops``: what ops there are, and what one of them is."""

from __future__ import annotations

import inspect
import sys
from typing import Any

from .. import functional
from ..explanation import explain, kind_of, plain_signature, twin_of
from ..node import OPS
from .console import CallError, printable

__all__ = ["show"]


def show(name: str | None) -> int:
    """Print the explanation of an op, or a list of all.

    Parameters
    ----------
    name : str or None
        Of an op, or of a NumPy function such as "np.maximum".

    Returns
    -------
    int
        The exit code, 0.
    """
    if name is None:
        print("\n".join(printable(line) for line in _listing()))
        return 0
    try:
        print(printable(str(explain(name))))
    except ValueError as error:
        raise CallError(str(error)) from None
    return 0


def _listing() -> list[str]:
    """Write all ops and the public functions composed of them, by family, in the order of their files."""
    families: dict[str, dict[str, Any]] = {}
    public = {n: f for n, f in vars(functional).items() if inspect.isfunction(f) and not n.startswith("_")}
    composed = {n: f for n, f in public.items() if f.__module__.startswith(functional.__name__)}
    for name, function in sorted({**composed, **OPS}.items()):
        families.setdefault(function.__module__, {})[name] = function
    lines: list[str] = []
    for module, members in sorted(families.items()):
        lines += [*([""] if lines else []), f"{module.rpartition('.')[2]}: {_summary(sys.modules.get(module))}"]
        for name, function in members.items():
            twin = twin_of(function)
            words = ", ".join([*([twin] if twin else []), *kind_of(function)])
            lines += [f"  {_called(name, function)}  [{words}]", f"      {_summary(function)}".rstrip()]
    return [line for i, line in enumerate(lines) if line or not i or lines[i - 1]]


def _called(name: str, function: Any) -> str:
    """Write a call as in NumPy's reference: the name, the arguments, the names of the settings."""
    return f"{name}{plain_signature(function, defaults=False)}"


def _summary(thing: Any) -> str:
    return (inspect.getdoc(thing) or "").partition("\n")[0]
