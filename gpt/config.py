"""The configuration of a model: one description for the GPT-2 and the Llama family, checked before arrays exist.

Field names are nanoGPT's where it has one. A `GPTConfig` that was constructed is valid; later modules rely on it.
"""

from __future__ import annotations

import dataclasses
import difflib
import math
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, cast

import numpy as np

__all__ = ["BATCH_SIZES", "PRESETS", "GPTConfig", "nearest", "preset", "whole"]

CHOICES = {
    "norm": ("layernorm", "rmsnorm"),
    "pos": ("learned", "sinusoidal", "rope", "none"),
    "mlp": ("relu", "gelu", "swiglu"),
    "dtype": ("float32", "float64"),
}
SIZES = ("vocab_size", "block_size", "n_layer", "n_head", "n_kv_head", "n_embd", "d_ff")
SWITCHES = ("norm_gain", "embed_norm", "final_norm", "bias", "tied")

# Limits that no model for a laptop meets; beyond them construction would exhaust memory before it could fail politely.
MAX_ELEMENTS = 2**31  # of all parameters together, and of a table of positions [block_size, n_embd]
MAX_BLOCK = 2**17  # attention compares every position with every other: block_size**2 scores a head
MAX_LAYERS = 10_000  # each layer is a tree of Python objects


def nearest(name: object, known: Iterable[str]) -> str:
    """Return a hint for an unknown name: the nearest known one, or else all of them.

    Parameters
    ----------
    name : object
        What the user wrote.
    known : iterable of str
        The names that exist.

    Returns
    -------
    str
        ``"did you mean 'n_layer'?"``, or ``"choose from a, b, c"`` when none is near.

    Examples
    --------
    >>> nearest("n_layers", ["n_layer", "n_head"])
    "did you mean 'n_layer'?"
    >>> nearest("width", ["n_layer", "n_head"])
    'choose from n_layer, n_head'
    """
    names = list(known)
    close = difflib.get_close_matches(str(name).lower(), names, n=1)
    return f"did you mean {close[0]!r}?" if close else f"choose from {', '.join(names)}"


def whole(name: str, value: Any, low: int, high: int | None = None) -> int:
    """Return a whole number as an int; a bool, a float and a numeral are none.

    Parameters
    ----------
    name : str
        Of the argument, for the message.
    value : int or NumPy integer
    low, high : int
        Bounds, both included; None means no upper bound.

    Raises
    ------
    ValueError
        If `value` is not an integer or out of bounds.

    Examples
    --------
    >>> whole("seed", -1, 0)
    Traceback (most recent call last):
        ...
    ValueError: seed=-1 must be an integer of at least 0
    """
    integer = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if not integer or value < low or (high is not None and value > high):
        allowed = f"of at least {low}" if high is None else f"from {low} to {high}"
        found = "" if integer else f", not {type(value).__name__}"
        raise ValueError(f"{name}={value!r} must be an integer {allowed}{found}")
    return int(value)


@dataclass(frozen=True)
class GPTConfig:
    """Everything that determines the architecture of a model.

    Parameters
    ----------
    vocab_size : int
        Number of tokens V; the length of a row of logits.
    block_size : int
        Longest context T, in tokens.
    n_layer : int
        Number of Transformer blocks.
    n_head : int
        Number of query heads; divides `n_embd`.
    n_kv_head : int, optional
        Number of key/value heads; divides `n_head`. Fewer than `n_head` is grouped-query attention, 1 is multi-query
        attention. None means `n_head`.
    n_embd : int
        Width d of the residual stream.
    d_ff : int, optional
        Hidden width f of the MLP. None means ``4 * n_embd``.
    norm : {"layernorm", "rmsnorm"}
        Normalisation before attention and MLP (pre-norm).
    norm_eps : float
        Added to the variance (or mean square) inside the root.
    norm_gain : bool
        Whether a norm has a learned gain. A layer norm also has a learned bias if `norm_gain` and `bias` both hold.
    embed_norm : bool
        A norm on the embedding, before the first block.
    final_norm : bool
        A norm after the last block, before the head.
    pos : {"learned", "sinusoidal", "rope", "none"}
        How positions enter: an added learned table, an added fixed table, rotated queries and keys, or not at all.
    rope_theta : float
        Base of the rotation angles; used by ``pos="rope"`` only.
    mlp : {"relu", "gelu", "swiglu"}
        Two matrices around a ReLU or a GELU, or the gated three-matrix SwiGLU.
    bias : bool
        Whether linear layers (except the head) and layer norms have biases.
    tied : bool
        Whether the head is the transposed token embedding.
    dropout : float
        Probability, in [0, 1), that training drops an element.
    dtype : {"float32", "float64"}
        Of parameters and activations. A NumPy type is accepted and stored as its name.

    Raises
    ------
    ValueError
        If a field is of the wrong kind or out of range, fields do not fit together, or the sizes are absurd.

    Examples
    --------
    >>> config = GPTConfig(vocab_size=65, n_embd=96, n_head=3)
    >>> config.d_ff, config.n_kv_head, config.head_dim
    (384, 3, 32)
    >>> GPTConfig(vocab_size=65, n_embd=10, n_head=4)
    Traceback (most recent call last):
        ...
    ValueError: n_embd=10 is not divisible by n_head=4; make n_embd a multiple of n_head, for example 12
    """

    vocab_size: int
    block_size: int = 64
    n_layer: int = 4
    n_head: int = 4
    n_kv_head: int = cast(int, None)  # typed as what it is once constructed: None is resolved below
    n_embd: int = 128
    d_ff: int = cast(int, None)
    norm: str = "layernorm"
    norm_eps: float = 1e-5
    norm_gain: bool = True
    embed_norm: bool = False
    final_norm: bool = True
    pos: str = "learned"
    rope_theta: float = 10_000.0
    mlp: str = "gelu"
    bias: bool = False
    tied: bool = True
    dropout: float = 0.0
    dtype: str = "float32"

    def __post_init__(self) -> None:
        for field in SIZES:
            value = getattr(self, field)
            if value is None and field == "n_kv_head":
                value = self.n_head
            elif value is None and field == "d_ff":
                value = 4 * self.n_embd
            self._set(field, whole(field, value, 1))
        for field in SWITCHES:
            self._set(field, _switch(field, getattr(self, field)))
        for field, allowed in CHOICES.items():
            self._set(field, _choice(field, getattr(self, field), allowed))
        self._set("norm_eps", _real("norm_eps", self.norm_eps, "greater than 0 and less than 1", lambda v: 0 < v < 1))
        self._set("rope_theta", _real("rope_theta", self.rope_theta, "greater than 0", lambda v: v > 0))
        self._set("dropout", _real("dropout", self.dropout, "at least 0 and less than 1", lambda v: 0 <= v < 1))
        self._check_magnitude()
        self._check_fit()

    def _set(self, field: str, value: object) -> None:
        """Store a normalised value; the dataclass is frozen for everybody else."""
        object.__setattr__(self, field, value)

    def _check_magnitude(self) -> None:
        """Refuse sizes whose arrays no machine of our users could hold (Python integers cannot overflow here)."""
        for field, limit in (("block_size", MAX_BLOCK), ("n_layer", MAX_LAYERS)):
            if getattr(self, field) > limit:
                raise ValueError(f"{field}={getattr(self, field)} is too large; at most {limit} is allowed")
        sizes = ", ".join(f"{field}={getattr(self, field)}" for field in SIZES)
        for what, elements in (
            ("parameters", self.parameter_count()),
            ("entries in a table of positions", self.block_size * self.n_embd),
        ):
            if elements > MAX_ELEMENTS:
                raise ValueError(f"{sizes} make {elements:,} {what}; reduce a size, at most {MAX_ELEMENTS:,} fit")

    def _check_fit(self) -> None:
        """Refuse fields that contradict each other."""
        if self.n_embd % self.n_head:
            multiple = self.n_head * math.ceil(self.n_embd / self.n_head)
            raise ValueError(
                f"n_embd={self.n_embd} is not divisible by n_head={self.n_head}; "
                f"make n_embd a multiple of n_head, for example {multiple}"
            )
        if self.n_head % self.n_kv_head:
            divisors = [k for k in range(1, self.n_head + 1) if self.n_head % k == 0]
            raise ValueError(
                f"n_kv_head={self.n_kv_head} does not divide n_head={self.n_head}; "
                f"choose one of {', '.join(map(str, divisors))}"
            )
        if self.pos == "rope" and self.head_dim % 2:
            raise ValueError(
                f"the head width n_embd / n_head = {self.n_embd} / {self.n_head} = {self.head_dim} must be even with "
                f"pos='rope', which rotates pairs; change n_embd or n_head, or choose another pos"
            )
        if self.pos == "sinusoidal" and self.n_embd % 2:
            raise ValueError(
                f"n_embd={self.n_embd} must be even with pos='sinusoidal', which pairs each sine with a cosine; "
                f"use {self.n_embd + 1}, or choose another pos"
            )

    @property
    def head_dim(self) -> int:
        """Width of one attention head."""
        return self.n_embd // self.n_head

    def parameter_count(self) -> int:
        """Return the number of learned scalars, by the closed formula; a tied matrix counts once.

        For the founding model (RMSNorm, RoPE, SwiGLU, no bias, untied) it reduces to
        ``2 V d + L (4 d^2 + 3 d f) + 2 L d + d``.

        Examples
        --------
        >>> preset("toy").parameter_count()
        12128
        >>> preset("gpt2").parameter_count()
        124439808
        """
        d, f, kv = self.n_embd, self.d_ff, self.n_kv_head * self.head_dim
        norm = d * (1 + (self.norm == "layernorm" and self.bias)) if self.norm_gain else 0
        attention = 2 * d * d + 2 * d * kv + (2 * d + 2 * kv if self.bias else 0)
        inward = 2 if self.mlp == "swiglu" else 1  # matrices d x f; one f x d leads out
        mlp = (inward + 1) * d * f + (inward * f + d if self.bias else 0)
        embedding = self.vocab_size * d * (1 if self.tied else 2)
        positions = self.block_size * d if self.pos == "learned" else 0
        return embedding + positions + self.n_layer * (attention + mlp + 2 * norm) + (
            self.embed_norm + self.final_norm
        ) * norm

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as a JSON-safe dictionary, `n_kv_head` and `d_ff` resolved."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> GPTConfig:
        """Build a config from a dictionary such as `to_dict` returns.

        Parameters
        ----------
        fields : mapping of str to value
            `vocab_size` is needed; the others have defaults.

        Raises
        ------
        ValueError
            For an unknown or missing field, or an invalid value.

        Examples
        --------
        >>> GPTConfig.from_dict({"vocab_size": 65, "n_layers": 2})
        Traceback (most recent call last):
            ...
        ValueError: unknown config field 'n_layers'; did you mean 'n_layer'?
        """
        if not isinstance(fields, Mapping):
            raise ValueError(f"a config is a dictionary of fields, not {type(fields).__name__}")
        names = [field.name for field in dataclasses.fields(cls)]
        for name in fields:
            if name not in names:
                raise ValueError(f"unknown config field {name!r}; {nearest(name, names)}")
        if "vocab_size" not in fields:
            raise ValueError("the config lacks vocab_size; give the number of tokens in the vocabulary")
        return cls(**fields)


def _switch(field: str, value: Any) -> bool:
    """Return a bool; 0 and 1 are refused, as they are more often a width in the wrong place."""
    if not isinstance(value, (bool, np.bool_)):
        raise ValueError(f"{field}={value!r} must be True or False, not {type(value).__name__}")
    return bool(value)


def _real(field: str, value: Any, allowed: str, holds: Callable[[float], bool]) -> float:
    """Return a finite float in range; an int such as 0 or 1 is a number too."""
    number = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    if not number or not abs(value) <= sys.float_info.max or not holds(value):  # NaN fails every comparison
        raise ValueError(f"{field}={value!r} must be a number {allowed}")
    return float(value)


def _choice(field: str, value: Any, allowed: tuple[str, ...]) -> str:
    """Return one of the allowed words."""
    if field == "dtype" and isinstance(value, (type, np.dtype)):
        value = np.dtype(value).name  # np.float64 is what NumPy users write
    if not isinstance(value, str) or value not in allowed:
        hint = nearest(value, allowed) if isinstance(value, str) else f"choose from {', '.join(allowed)}"
        raise ValueError(f"{field}={value!r} must be one of {', '.join(map(repr, allowed))}; {hint}")
    return value


_NANO = {"norm": "layernorm", "pos": "learned", "mlp": "gelu", "bias": False, "tied": True, "dropout": 0.0}
_LLAMA = {"norm": "rmsnorm", "pos": "rope", "mlp": "swiglu", "bias": False, "tied": False, "dropout": 0.0}


def _preset(family: Mapping[str, Any], **fields: Any) -> Mapping[str, Any]:
    """Return a read-only set of fields: a family and what is special."""
    return MappingProxyType({**family, **fields})


#: Fields by preset name. Unresolved (no `n_kv_head` or `d_ff` unless the preset fixes them), so that changing `n_embd`
#: changes the widths that follow from it.
PRESETS: Mapping[str, Mapping[str, Any]] = MappingProxyType({
    "toy": _preset(_LLAMA, vocab_size=28, block_size=32, n_layer=1, n_head=2, n_embd=32, d_ff=64),
    "classic": _preset(
        _NANO, vocab_size=65, block_size=64, n_layer=2, n_head=4, n_embd=64, pos="sinusoidal", bias=True
    ),
    "micro": _preset(
        _LLAMA, vocab_size=27, block_size=16, n_layer=1, n_head=4, n_embd=16, pos="learned", mlp="relu",
        norm_gain=False, embed_norm=True, final_norm=False,
    ),
    "gpt2": _preset(_NANO, vocab_size=50_257, block_size=1024, n_layer=12, n_head=12, n_embd=768, bias=True),
    "llama-toy": _preset(
        _LLAMA, vocab_size=256, block_size=128, n_layer=4, n_head=8, n_kv_head=2, n_embd=128, d_ff=352
    ),
    "tiny": _preset(_NANO, vocab_size=28, block_size=16, n_layer=1, n_head=2, n_embd=32),
    "nano": _preset(_NANO, vocab_size=65, block_size=64, n_layer=4, n_head=4, n_embd=128),
    "mid": _preset(_NANO, vocab_size=256, block_size=128, n_layer=6, n_head=8, n_embd=256),
    "long": _preset(_NANO, vocab_size=256, block_size=1024, n_layer=4, n_head=8, n_embd=256),
})

#: Batch sizes that belong to the benchmark presets: a step of `nano` means this many windows.
BATCH_SIZES: Mapping[str, int] = MappingProxyType({"tiny": 16, "nano": 12, "mid": 8, "long": 2})


def preset(name: str, **changes: Any) -> GPTConfig:
    """Return the config of a preset, with changes.

    Parameters
    ----------
    name : str
        A key of `PRESETS`.
    **changes
        Fields of `GPTConfig` that replace those of the preset.

    Raises
    ------
    ValueError
        For an unknown preset or field, answered with the nearest, or an invalid value.

    Examples
    --------
    >>> preset("nano", n_embd=96).d_ff
    384
    >>> preset("nanno")
    Traceback (most recent call last):
        ...
    ValueError: unknown preset 'nanno'; did you mean 'nano'?
    """
    if name not in PRESETS:
        raise ValueError(f"unknown preset {name!r}; {nearest(name, PRESETS)}")
    return GPTConfig.from_dict({**PRESETS[name], **changes})
