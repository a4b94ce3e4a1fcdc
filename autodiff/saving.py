"""What a forward hands to its rules beside its output."""

from __future__ import annotations

from typing import Any, TypeVar

__all__ = ["Saved", "save"]

R = TypeVar("R")


class Saved(tuple[Any, dict[str, Any]]):
    """An output together with values of the forward for the rules."""

    __slots__ = ()


def save(out: R, /, **values: Any) -> R:
    """Return an op's output together with values that its rules ask for by name.

    To be used in the ``return`` of a forward. Where nothing is recorded, the values are dropped at once.

    Parameters
    ----------
    out : ndarray or tuple of ndarray
        What the op returns to its caller.
    **values
        Anything computed in the forward. The names must differ from the op's parameters.

    Examples
    --------
    >>> import numpy as np
    >>> from autodiff import op, save
    >>> @op
    ... def rms(x):
    ...     y = np.sqrt(np.mean(x * x))
    ...     return save(y, n=x.size)
    >>> @rms.vjp("x")
    ... def _(g, x, out, n):
    ...     return g * x / (n * out)
    """
    if type(out) is Saved:
        raise TypeError("save() was given what save() had returned: give all values to one call")
    return Saved((out, values))  # type: ignore[return-value]  # taken apart by the recording call, so never seen outside
