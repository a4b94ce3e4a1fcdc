"""Tokenizers: text to token ids and back.

A tokenizer is anything with the four members of `Tokenizer`. Its dictionary form goes into the checkpoint, so that a
model is never separated from its vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from gpt.config import nearest

__all__ = ["CharTokenizer", "Tokenizer", "tokenizer_from_dict"]

IntArray = npt.NDArray[np.integer[Any]]

CODE_POINTS = 0x110000  # Unicode ends here, so a table over all code points is small enough to look characters up in
CHUNK = 1 << 20  # characters translated at a time: bounds the temporary memory of a large corpus
LISTED = 50  # unknown characters named in one message


class Tokenizer(Protocol):
    """What training, sampling and the checkpoint need of a tokenizer."""

    @property
    def vocab_size(self) -> int:
        """Number of tokens V; ids are 0 to V - 1."""

    def encode(self, text: str) -> IntArray:
        """Return the token ids of a text, shape [n]."""

    def decode(self, ids: npt.ArrayLike) -> str:
        """Return the text of token ids, shape [n]."""

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-safe description whose `type` tells `tokenizer_from_dict` how to rebuild the tokenizer."""


class CharTokenizer:
    """One token per character (Unicode code point).

    The vocabulary is the sorted distinct characters of a text; a character's id is its place there.

    Parameters
    ----------
    text : str
        Any text that contains every character wanted, in any order and number.

    Raises
    ------
    ValueError
        If `text` is empty.

    Examples
    --------
    >>> tokenizer = CharTokenizer("hello")
    >>> tokenizer.chars, tokenizer.vocab_size
    ('ehlo', 4)
    >>> tokenizer.encode("hole")
    array([1, 3, 2, 0], dtype=int32)
    >>> tokenizer.decode([1, 3, 2, 0])
    'hole'
    """

    def __init__(self, text: str) -> None:
        if not isinstance(text, str):
            raise TypeError(f"text must be a str, not {type(text).__name__}")
        if not text:
            raise ValueError("text is empty; a vocabulary needs at least one character")
        self.chars = "".join(sorted(set(text)))
        self._codes = _code_points(self.chars)
        self._ids = np.full(CODE_POINTS, -1, dtype=np.int32)
        self._ids[self._codes] = np.arange(len(self.chars), dtype=np.int32)

    @property
    def vocab_size(self) -> int:
        """Number of distinct characters V."""
        return len(self.chars)

    def encode(self, text: str) -> npt.NDArray[np.int32]:
        """Return the ids of the characters of a text.

        Parameters
        ----------
        text : str
            May be empty.

        Returns
        -------
        ndarray of int32, shape [len(text)]

        Raises
        ------
        ValueError
            If characters are not in the vocabulary; each distinct one is listed with its first position (from 0).

        Examples
        --------
        >>> CharTokenizer("a-z").encode("a+z+?")
        Traceback (most recent call last):
            ...
        ValueError: characters outside the vocabulary: '+' (U+002B) at position 1, '?' (U+003F) at position 4
        """
        ids = np.empty(len(text), dtype=np.int32)
        for start in range(0, len(text), CHUNK):
            part = _code_points(text[start : start + CHUNK])
            ids[start : start + CHUNK] = self._ids[part]
        if ids.size and ids.min() < 0:
            raise ValueError(_unknown(text, np.flatnonzero(ids < 0)))
        return ids

    def decode(self, ids: npt.ArrayLike) -> str:
        """Return the text of ids; the inverse of `encode`.

        Parameters
        ----------
        ids : array_like of int, shape [n]
            Each from 0 to V - 1; n may be 0.

        Raises
        ------
        TypeError
            If `ids` are not integers.
        ValueError
            If `ids` is not one-dimensional, or ids lie outside the vocabulary, which are named.
        """
        array = np.asarray(ids)
        if array.ndim != 1:
            raise ValueError(f"ids have shape {array.shape}; decode one row, shape [n], at a time")
        if array.size == 0:
            return ""
        if not np.issubdtype(array.dtype, np.integer):
            raise TypeError(f"ids must be integers, not {array.dtype}")
        outside = np.unique(array[(array < 0) | (array >= self.vocab_size)])
        if outside.size:
            named = _enumerate([str(i) for i in outside[:LISTED]], outside.size)
            raise ValueError(f"ids outside the vocabulary of {self.vocab_size} (0 to {self.vocab_size - 1}): {named}")
        return bytes(self._codes[array]).decode("utf-32-le", "surrogatepass")

    def to_dict(self) -> dict[str, Any]:
        """Return ``{"type": "char", "chars": [...]}``, one string per character in the order of the ids."""
        return {"type": "char", "chars": list(self.chars)}  # a list: JSON would fuse two neighbouring surrogates

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> CharTokenizer:
        """Rebuild the tokenizer that `to_dict` described.

        Raises
        ------
        ValueError
            If `fields` is anything but such a description.
        """
        chars = fields.get("chars")
        if set(fields) != {"type", "chars"} or fields["type"] != "char":
            found = ", ".join(sorted(map(str, fields)))
            raise ValueError(f"a char tokenizer has the fields 'type' (= 'char') and 'chars'; found {found}")
        if not isinstance(chars, list) or not chars or not all(isinstance(c, str) and len(c) == 1 for c in chars):
            raise ValueError("the field 'chars' of a char tokenizer must be a non-empty list of single characters")
        if any(a >= b for a, b in pairwise(chars)):
            raise ValueError("the field 'chars' of a char tokenizer must be sorted and without repetition")
        return cls("".join(chars))

    def __repr__(self) -> str:
        return f"CharTokenizer({self.chars!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CharTokenizer) and self.chars == other.chars

    def __hash__(self) -> int:
        return hash(self.chars)


READERS: dict[str, Callable[[Mapping[str, Any]], Tokenizer]] = {"char": CharTokenizer.from_dict}


def tokenizer_from_dict(fields: object) -> Tokenizer:
    """Rebuild a tokenizer of any type from its dictionary form.

    Parameters
    ----------
    fields : mapping
        What a tokenizer's `to_dict` returned.

    Raises
    ------
    ValueError
        For an unknown type or an invalid description.

    Examples
    --------
    >>> tokenizer_from_dict(CharTokenizer("abba").to_dict())
    CharTokenizer('ab')
    """
    if not isinstance(fields, Mapping) or "type" not in fields:
        raise ValueError("a tokenizer is described by a dictionary with the field 'type'")
    kind = fields["type"]
    if not isinstance(kind, str) or kind not in READERS:
        raise ValueError(f"unknown tokenizer type {kind!r}; {nearest(kind, READERS)}")
    return READERS[kind](fields)


def _code_points(text: str) -> npt.NDArray[np.uint32]:
    """Return the code points; lone surrogates count as characters like any other."""
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4")


def _unknown(text: str, positions: npt.NDArray[np.intp]) -> str:
    """Say which characters are unknown, each once, in order of appearance."""
    first: dict[str, int] = {}
    for position in positions:
        first.setdefault(text[position], int(position))
    named = [f"{c!r} (U+{ord(c):04X}) at position {i}" for c, i in list(first.items())[:LISTED]]
    return f"characters outside the vocabulary: {_enumerate(named, len(first))}"


def _enumerate(named: list[str], total: int) -> str:
    """Join names, and say how many more there are."""
    more = f", and {total - len(named)} more" if total > len(named) else ""
    return ", ".join(named) + more
