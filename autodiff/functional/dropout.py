"""Dropout, and where its masks come from."""

from __future__ import annotations

import contextlib
import copy
import math
import operator
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ..node import Array
from ..op import op, save

__all__ = ["RowStream", "dropout"]


class RandomSource(Protocol):
    """What masks are drawn from: a NumPy Generator, a `RowStream`, or anything with this method."""

    def random(self, shape: Any, /, dtype: Any = ...) -> Any:
        """Return numbers uniform on [0, 1) of this shape and floating dtype."""


Rng: TypeAlias = int | RandomSource | None


class RowStream:
    """Random numbers of which every row is a function of a key and the row's number.

    A batch that is split into shards draws the same numbers as the whole one, if each shard says which row is its
    first. The stream has no state: it gives the same numbers whenever it is asked, so a dropout mask that is keyed by
    seed, step and site can be drawn again when activations are recomputed.

    Parameters
    ----------
    key : tuple of int
        What the stream is for. Streams of different keys are independent.
    first_row : int
        Number of the first row, at least 0.

    Raises
    ------
    TypeError, ValueError
        If the key is not a sequence of integers, or the first row is negative.

    Notes
    -----
    The Philox block cipher [1]_, keyed with a hash of the key, encrypts the row's number. The 256 bits that it gives
    are the state from which a faster generator, PCG64DXSM, draws the row.

    References
    ----------
    .. [1] Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011.

    Examples
    --------
    >>> import numpy as np
    >>> from autodiff.functional import RowStream
    >>> whole = RowStream((1, 20, 3)).random((4, 2))
    >>> part = RowStream((1, 20, 3), first_row=2).random((2, 2))
    >>> np.array_equal(whole[2:], part)
    True
    """

    __slots__ = ("first_row", "key")

    def __init__(self, key: Sequence[int], first_row: int = 0) -> None:
        self.key, self.first_row = tuple(map(operator.index, key)), operator.index(first_row)
        if self.first_row < 0:
            raise ValueError(f"first_row must be at least 0, got {first_row}")

    def __repr__(self) -> str:
        return f"RowStream({self.key}, first_row={self.first_row})"

    def random(self, shape: int | Sequence[int], dtype: DTypeLike = np.float64) -> NDArray[Any]:
        """Return the numbers of consecutive rows, uniform on [0, 1).

        Parameters
        ----------
        shape : int or tuple of int
            The first axis counts the rows.
        dtype : dtype
            float64 or float32.

        Returns
        -------
        ndarray

        Raises
        ------
        ValueError
            If the shape is ``()``: a stream of rows has at least one axis.
        """
        import hashlib  # it loads a cryptographic library, which only those who drop something should wait for

        out: NDArray[Any] = np.empty(shape, dtype)
        if not out.ndim:
            raise ValueError("a RowStream draws rows, so the shape needs at least one axis; got ()")
        # repr writes every tuple differently, and a cryptographic hash makes related keys unrelated
        cipher = np.random.Philox(
            key=int.from_bytes(hashlib.blake2b(repr(self.key).encode(), digest_size=16).digest(), "little"),
            counter=self.first_row,
        )
        blocks = cipher.random_raw(4 * len(out)).reshape(-1, 4).tolist()  # a block of four words for each number
        bits = np.random.PCG64DXSM(0)
        generator, state = np.random.Generator(bits), bits.state
        for i, (a, b, c, d) in enumerate(blocks):
            state["state"] = {"state": a << 64 | b, "inc": c << 64 | d | 1}  # the increment of a PCG is odd
            bits.state = state
            out[i] = generator.random(out.shape[1:], dtype=out.dtype)
        return out


class Draws:
    """What the masks inside a function were drawn from, as it was before each draw, so that they can be drawn again."""

    __slots__ = ("_before",)

    def __init__(self) -> None:
        self._before: list[RandomSource] = []

    @contextlib.contextmanager
    def noted(self) -> Iterator[None]:
        """Note every draw made inside."""
        outer = _tap.get()

        def note(source: RandomSource) -> RandomSource:
            source = source if outer is None else outer(source)
            self._before.append(copy.deepcopy(source))
            return source

        token = _tap.set(note)
        try:
            yield
        finally:
            _tap.reset(token)

    @contextlib.contextmanager
    def repeated(self) -> Iterator[None]:
        """Draw inside what was noted, in the same order; the generators that are asked do not advance."""
        before = iter(self._before)
        token = _tap.set(lambda source: copy.deepcopy(next(before, source)))
        try:
            yield
        finally:
            _tap.reset(token)


_tap: ContextVar[Callable[[RandomSource], RandomSource] | None] = ContextVar("autodiff_draws", default=None)
"""Sees every source before it is drawn from, and says what to draw from instead."""


@op(
    linear=True,
    samples=lambda rng: [
        (rng.normal(size=(3, 4)), {"p": 0.5, "rng": 1}),
        (rng.normal(size=(2, 3, 4)), {"p": 0.1, "rng": 2}),
        (rng.normal(size=(3, 3)), {"p": 0.0}),
        (rng.normal(size=()), {"p": 0.25, "rng": 3}),
        (rng.normal(size=1), {"p": 0.5, "rng": 5}),
        (rng.normal(size=(0, 3)), {"p": 0.5, "rng": 0}),
        (rng.normal(size=(4, 5)), {"p": 0.5, "rng": RowStream((1, 2, 3))}),
    ],
    error_samples=[
        ((np.ones(3), {"p": 1.0}), ValueError),
        ((np.ones(3), {"p": -0.1}), ValueError),
        ((np.ones(3), {"p": math.nan}), ValueError),
        ((np.ones(3), {"p": 0.5, "rng": 0.5}), TypeError),
    ],
)
def dropout(x: Array, *, p: float, rng: Rng = None) -> Array:
    """Zeros in random places, and the rest scaled up by 1 / (1 - p), so that the mean stays.

    This always drops: whether a model is training is for its caller to know (`autodiff.nn.Dropout` does).

    Parameters
    ----------
    x : array
        Of any shape.
    p : float
        Probability that an entry is dropped, in [0, 1). With 0 the result is `x`.
    rng : int, numpy.random.Generator or RowStream, optional
        Where the mask comes from: a seed; a generator, which advances; or any object whose ``random(shape, dtype=...)``
        returns numbers uniform on [0, 1). By default a new generator that the operating system seeds. NumPy's global
        state is never used.

    Returns
    -------
    array of the shape of x

    Raises
    ------
    ValueError
        If `p` is outside [0, 1).
    TypeError
        If `rng` is none of these.

    Notes
    -----
    Srivastava et al., "Dropout: a simple way to prevent neural networks from overfitting", JMLR 15 (2014); scaled while
    training instead of afterwards ("inverted dropout"). The mask does not depend on the dtype of x.

    Examples
    --------
    >>> import autodiff as ad
    >>> import autodiff.functional as F
    >>> x = ad.Tensor([1.0, 2.0, 3.0, 4.0], requires_grad=True)
    >>> y = F.dropout(x, p=0.5, rng=1)
    >>> y.tolist()
    [0.0, 4.0, 6.0, 8.0]
    >>> y.sum().backward()
    >>> x.grad
    array([0., 2., 2., 2.])
    """
    keep = draw_kept(np.shape(x), p, rng)
    return save(x if keep is None else x * scale_kept(keep, p, np.result_type(x, 1.0)), keep=keep)


@dropout.vjp("x")
def _(g: Array, p: float, keep: NDArray[np.bool_] | None) -> Array:
    # y = m * x with the mask m drawn once, in the forward: linear, so dx = m * g with the same m
    return g if keep is None else g * scale_kept(keep, p, g.dtype)


@dropout.decomposition
def _(x: Array, *, p: float, rng: Rng = None) -> Array:
    keep = draw_kept(np.shape(x), p, rng)
    return x if keep is None else x * scale_kept(keep, p, np.result_type(x.dtype, 1.0))


def draw_kept(shape: tuple[int, ...], p: float, rng: Rng) -> NDArray[np.bool_] | None:
    """Draw which entries are kept; None for all. A byte for each is what the rule saves."""
    if not 0 <= p < 1:
        raise ValueError(f"the probability of dropping an entry must be in [0, 1); got {p}")
    if not p:
        return None
    if rng is None or (isinstance(rng, (int, np.integer)) and not isinstance(rng, bool)):
        source: RandomSource = np.random.default_rng(rng)
    elif hasattr(rng, "random"):
        source = rng
    else:
        raise TypeError(f"rng must be an int seed, a numpy Generator or a RowStream; got a {type(rng).__name__}")
    tap = _tap.get()
    if tap is not None:
        source = tap(source)
    kept: NDArray[np.bool_] = source.random(shape, dtype=np.float32) >= p
    return kept


def scale_kept(keep: NDArray[np.bool_], p: float, dtype: DTypeLike) -> NDArray[Any]:
    """Turn the drawn mask into the factors 0 and 1 / (1 - p)."""
    return np.multiply(keep, 1 / (1 - p), dtype=dtype)
