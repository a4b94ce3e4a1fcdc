"""Layers: modules that own the parameters of one operation, and initialise them.

The operations themselves are in `autodiff.functional`; nothing here knows of gradients.
"""

from __future__ import annotations

import contextlib
import math
import zlib
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from . import functional as F
from . import modes
from .arguments import generator, real, whole
from .functional.dropout import RowStream
from .hints import absent, answering
from .module import Module
from .node import Array
from .tensor import Tensor, as_tensor

__all__ = ["Dropout", "Embedding", "LayerNorm", "Linear", "Module", "RMSNorm", "dropout_stream"]

Rng: TypeAlias = int | np.random.Generator | None
"""A source of random numbers: a seed, a generator, or None for an unseeded one."""


def _parameter(values: ArrayLike, dtype: DTypeLike) -> Tensor:
    """Make a parameter. Values are drawn in float64 and cast, so a seed means the same in every dtype."""
    array: np.ndarray[Any, Any] = np.asarray(values).astype(dtype, copy=False)
    tensor = as_tensor(array)
    tensor.requires_grad = True
    return tensor


class Linear(Module):
    """An affine map of the last axis, ``y = x W + b``.

    Parameters
    ----------
    d_in, d_out : int
        Lengths of the last axis of input and output.
    bias : bool
        Whether there is a b.
    std : float, optional
        Draw W from N(0, std**2) and set b to zero. By default both are uniform in ±1/sqrt(d_in), which keeps the
        variance of the input up to a factor of 1/3.
    rng : int or Generator, optional
        Seed or source of the initial values.
    dtype : dtype
        Of the parameters.

    Attributes
    ----------
    weight : Tensor [d_in, d_out]
        Laid out as in the formula.
    bias : Tensor [d_out] or None

    Examples
    --------
    >>> import numpy as np
    >>> from autodiff import nn
    >>> nn.Linear(3, 2, rng=0)(np.ones((5, 3))).shape
    (5, 2)
    """

    @answering
    def __init__(
        self, d_in: int, d_out: int, *, bias: bool = True, std: float | None = None, rng: Rng = None,
        dtype: DTypeLike = np.float64,
    ) -> None:  # fmt: skip
        rng = generator(rng)
        shape = d_in, d_out = (whole("d_in", d_in, 1), whole("d_out", d_out, 1))
        bound, std = 1 / math.sqrt(d_in), None if std is None else real("std", std)
        self.weight = _parameter(rng.uniform(-bound, bound, shape) if std is None else rng.normal(0, std, shape), dtype)
        self.bias: Tensor | None = None
        if bias:
            self.bias = _parameter(rng.uniform(-bound, bound, d_out) if std is None else np.zeros(d_out), dtype)

    def forward(self, x: Array) -> Array:
        """Map the last axis."""
        return F.linear(x, self.weight, self.bias)

    def describe(self) -> str:
        """Return sizes and settings for the repr."""
        d_in, d_out = self.weight.shape
        return f"{d_in}, {d_out}" + ("" if self.bias is not None else ", bias=False")


class Embedding(Module):
    """A table of vectors, looked up by integer ids.

    Parameters
    ----------
    count : int
        Number of rows; ids are from 0 to count - 1.
    d : int
        Length of a row.
    std : float
        Rows are drawn from N(0, std**2).
    rng : int or Generator, optional
        Seed or source of the initial values.
    dtype : dtype
        Of the table.

    Attributes
    ----------
    weight : Tensor [count, d]

    Examples
    --------
    >>> from autodiff import nn
    >>> nn.Embedding(10, 4, rng=0)([[1, 2, 3]]).shape
    (1, 3, 4)
    """

    @answering
    def __init__(self, count: int, d: int, *, std: float = 1.0, rng: Rng = None, dtype: DTypeLike = np.float64) -> None:
        shape = (whole("count", count, 1), whole("d", d, 1))
        self.weight = _parameter(generator(rng).normal(0, real("std", std), shape), dtype)

    def forward(self, ids: Array) -> Array:
        """Look up the rows."""
        return F.embedding(self.weight, ids)

    def describe(self) -> str:
        """Return sizes and settings for the repr."""
        return ", ".join(map(str, self.weight.shape))


class LayerNorm(Module):
    """Normalisation of the last axis to mean 0 and variance 1, then a learned gain and bias.

    Parameters
    ----------
    d : int
        Length of the last axis.
    eps : float
        Added to the variance inside the root.
    gain, bias : bool
        Whether there is a gamma (initially 1) and a beta (initially 0). A bias goes with a gain only.
    dtype : dtype
        Of the parameters.

    Attributes
    ----------
    gamma, beta : Tensor [d] or None

    Examples
    --------
    >>> import numpy as np
    >>> from autodiff import nn
    >>> nn.LayerNorm(4)(np.array([1.0, 2.0, 3.0, 4.0])).data.round(6)
    array([-1.341635, -0.447212,  0.447212,  1.341635])
    """

    @answering
    def __init__(
        self, d: int, *, eps: float = 1e-5, gain: bool = True, bias: bool = True, dtype: DTypeLike = np.float64
    ) -> None:
        self.d, self.eps = whole("d", d, 1), real("eps", eps)
        self.gamma = _parameter(np.ones(self.d), dtype) if gain else None
        self.beta = _parameter(np.zeros(self.d), dtype) if gain and bias else None

    def forward(self, x: Array) -> Array:
        """Normalise the last axis."""
        return F.layer_norm(x, self.gamma, self.beta, eps=self.eps)

    def describe(self) -> str:
        """Return sizes and settings for the repr."""
        missing = ", gain=False" if self.gamma is None else ", bias=False" if self.beta is None else ""
        return f"{self.d}{missing}"


class RMSNorm(Module):
    """Division of the last axis by its root mean square, then a learned gain.

    Parameters
    ----------
    d : int
        Length of the last axis.
    eps : float
        Added to the mean square inside the root.
    gain : bool
        Whether there is a gamma (initially 1).
    dtype : dtype
        Of the gain.

    Attributes
    ----------
    gamma : Tensor [d] or None

    Examples
    --------
    >>> import numpy as np
    >>> from autodiff import nn
    >>> nn.RMSNorm(4)(np.array([1.0, 2.0, 3.0, 4.0])).data.round(6)
    array([0.365148, 0.730296, 1.095444, 1.460593])
    """

    @answering
    def __init__(self, d: int, *, eps: float = 1e-5, gain: bool = True, dtype: DTypeLike = np.float64) -> None:
        self.d, self.eps = whole("d", d, 1), real("eps", eps)
        self.gamma = _parameter(np.ones(self.d), dtype) if gain else None

    def forward(self, x: Array) -> Array:
        """Normalise the last axis."""
        return F.rms_norm(x, self.gamma, eps=self.eps)

    def describe(self) -> str:
        """Return sizes and settings for the repr."""
        return f"{self.d}" + ("" if self.gamma is not None else ", gain=False")


class Dropout(Module):
    """In training, sets each element to zero with probability p and divides the others by 1 - p.

    Parameters
    ----------
    p : float
        Probability in [0, 1]. With 1 everything is dropped, and no gradient passes.
    rng : int or Generator, optional
        Source of the masks outside of `dropout_stream`.

    Raises
    ------
    ValueError
        If `p` is out of range.

    Examples
    --------
    >>> import numpy as np
    >>> from autodiff import nn
    >>> dropout = nn.Dropout(0.5, rng=0)
    >>> sorted(set(dropout(np.ones(100)).tolist()))
    [0.0, 2.0]
    >>> dropout.eval()(np.ones(3)).tolist()
    [1.0, 1.0, 1.0]
    """

    @answering
    def __init__(self, p: float, *, rng: Rng = None) -> None:
        self.p = real("p", p, upto=1)
        self._rng = generator(rng)

    @property
    def rate(self) -> float:
        """The probability in force: p in training, 0 in evaluation."""
        return self.p if self.training else 0.0

    def stream(self) -> RowStream | np.random.Generator:
        """Return what the next mask is to be drawn from, for an op that applies dropout itself (attention)."""
        drawn = _dropout.get()
        return self._rng if drawn is None else drawn.next()

    def forward(self, x: Array) -> Array:
        """Drop elements in training."""
        rate = self.rate
        if not rate:
            return x
        if rate == 1:  # the others cannot be scaled: there are none
            return np.where(False, x, 0.0)
        return F.dropout(x, p=rate, rng=self.stream())

    def describe(self) -> str:
        """Return sizes and settings for the repr."""
        return f"{self.p:g}"


class _Stream(NamedTuple):
    """What masks are a function of. Drawing one replaces it, so a copy of the context replays the same masks."""

    seed: int
    step: int
    first_row: int
    drawn: Mapping[str, int] = MappingProxyType({})  # how often, by scope

    def next(self) -> RowStream:
        """Return the stream of the next mask in this scope."""
        site = modes.current().scope
        number = self.drawn.get(site, 0)
        _dropout.set(self._replace(drawn={**self.drawn, site: number + 1}))
        # crc32 rather than hash(): Python salts the hashes of strings anew in every process
        return RowStream((self.seed, self.step, zlib.crc32(site.encode()), number), self.first_row)


_dropout: ContextVar[_Stream | None] = ContextVar("autodiff_dropout", default=None)


@contextlib.contextmanager
def dropout_stream(seed: int, step: int, first_row: int = 0) -> Iterator[None]:
    """Make all dropout masks inside a function of (seed, step, site, row).

    The site is the scope that the mask is drawn in, and the how-manieth it is there. A row is an entry of the first
    axis. So the masks of a training step do not depend on what was drawn before it, nor on how its batch is cut into
    parts that are computed one after the other or side by side.

    Parameters
    ----------
    seed : int
        The seed of the run, at least 0.
    step : int
        The training step, at least 0.
    first_row : int
        Position in the whole batch of the first row that is computed inside.

    Raises
    ------
    ValueError
        If an argument is not an integer of at least 0.

    Examples
    --------
    >>> import numpy as np
    >>> from autodiff import nn
    >>> dropout, x = nn.Dropout(0.5), np.ones((4, 3))
    >>> with nn.dropout_stream(seed=1, step=7):
    ...     whole = dropout(x)
    >>> with nn.dropout_stream(seed=1, step=7, first_row=2):
    ...     half = dropout(x[2:])
    >>> bool((whole[2:] == half).all())
    True
    """
    token = _dropout.set(_Stream(whole("seed", seed, 0), whole("step", step, 0), whole("first_row", first_row, 0)))
    try:
        yield
    finally:
        _dropout.reset(token)


if not TYPE_CHECKING:  # to a type checker it would say that every name is there

    def __getattr__(name: str) -> Any:
        """Answer names that this module does not have, such as those of other libraries."""
        raise absent(__name__, name, __all__)
