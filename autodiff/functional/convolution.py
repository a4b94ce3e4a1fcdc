"""Convolution and correlation of two sequences."""

from __future__ import annotations

from typing import Literal, TypeAlias

import numpy as np

from ..node import Array
from ..op import op, save
from ._twins import operand, twin

__all__ = ["convolve", "correlate"]

Mode: TypeAlias = Literal["full", "same", "valid"]


@op(
    samples=lambda rng: [
        (rng.normal(size=4), rng.normal(size=3)),
        (rng.normal(size=2), rng.normal(size=5)),
        (rng.normal(size=3), rng.normal(size=3)),
        (rng.normal(size=1), rng.normal(size=1)),
        (rng.normal(size=4), np.array([1, -2])),
    ],
    error_samples=[
        ((np.ones((2, 2)), np.ones(2)), ValueError), ((np.ones(2), np.array(1.0)), ValueError),
        ((np.ones(0), np.ones(2)), ValueError),
    ],
)  # fmt: skip
def convolve_fully(a: Array, v: Array) -> Array:
    """Convolution at every position where the sequences overlap: `convolve` in the mode "full"."""
    if np.ndim(a) != 1 or np.ndim(v) != 1 or not np.size(a) or not np.size(v):
        raise ValueError(f"convolve is of two sequences that are not empty, not of {np.shape(a)} and {np.shape(v)}")
    return save(np.convolve(a, v), lengths=(len(a), len(v)))


# y_n = sum_k a_(n-k) v_k, so dL/da_i = sum_n g_n v_(n-i), and dL/dv_k = sum_n g_n a_(n-k): correlations of g with the
# other sequence, wherever that one lies inside of g.


@convolve_fully.vjp("a")
def _(g: Array, v: Array, lengths: tuple[int, int]) -> Array:
    return np.correlate(g, v.astype(g.dtype), "valid")


@convolve_fully.vjp("v")
def _(g: Array, a: Array, lengths: tuple[int, int]) -> Array:
    return np.correlate(g, a.astype(g.dtype), "valid")


@twin("convolve")
def convolve(a: Array, v: Array, mode: Mode = "full") -> Array:
    """Convolution of two sequences: ``y[n] = sum(a[n - k] * v[k])`` over k.

    Parameters
    ----------
    a, v : array of one axis
        Not empty.
    mode : {"full", "same", "valid"}
        Which n: all where they overlap; as many as the longer one has elements, from the middle; only those where they
        overlap completely.

    Returns
    -------
    array of one axis

    Raises
    ------
    ValueError
        For another mode, or other shapes.

    Examples
    --------
    >>> import autodiff as ad
    >>> import autodiff.functional as F
    >>> x = ad.Tensor([1.0, 2.0, 3.0], requires_grad=True)
    >>> y = F.convolve(x, [0.5, 0.5], mode="valid")
    >>> y.sum().backward()
    >>> y.tolist(), x.grad
    ([1.5, 2.5], array([0.5, 1. , 0.5]))
    """
    a, v = np.atleast_1d(operand(a), operand(v))
    return _window(convolve_fully(a, v), mode, *sorted((np.size(a), np.size(v))))


@twin("correlate")
def correlate(a: Array, v: Array, mode: Mode = "valid") -> Array:
    """Cross-correlation of two sequences: ``y[n] = sum(a[n + k] * v[k])`` over k.

    Parameters
    ----------
    a, v : array of one axis
        Not empty.
    mode : {"valid", "same", "full"}
        As for `convolve`.

    Returns
    -------
    array of one axis

    Raises
    ------
    ValueError
        For another mode, or other shapes.

    Examples
    --------
    >>> import numpy as np
    >>> import autodiff.functional as F
    >>> F.correlate(np.array([1.0, 2.0, 3.0]), np.array([0.0, 1.0]))
    array([2., 3.])
    """
    full = convolve_fully(a, np.flip(operand(v)))
    if np.size(a) < np.size(v):  # NumPy exchanges the sequences, and reverses the result: the middle is the other one
        return np.flip(_window(np.flip(full), mode, np.size(a), np.size(v)))
    return _window(full, mode, np.size(v), np.size(a))


def _window(full: Array, mode: Mode, short: int, long: int) -> Array:
    """Cut the positions of a mode out of all of them."""
    if mode not in ("full", "same", "valid"):
        raise ValueError(f"mode {mode!r} is not one of 'full', 'same', 'valid'")
    if mode == "full":
        return full
    start = short - 1 if mode == "valid" else (short - 1) // 2
    return full[start : start + (long - short + 1 if mode == "valid" else long)]
