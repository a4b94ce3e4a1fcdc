"""JSON without surprises: what is written can be read back exactly, and what is read cannot be larger than it looks."""

from __future__ import annotations

import json
import math
import reprlib
from typing import Any, NoReturn

__all__ = ["check_json", "parse_json", "shown"]

NESTING_LIMIT = 32
INTEGER_BITS = 128  # the state of NumPy's PCG64 generator is that wide
INTEGER_DIGITS = 40  # of such an integer, with its sign

Path = tuple[str | int, ...]


def shown(value: object) -> str:
    """Return a short `repr` for a message, whatever size a hostile file gave the value.

    Examples
    --------
    >>> shown("x" * 1000)
    "'xxxxxxxxxxxxxxxxxxxxxxxxxxxx...xxxxxxxxxxxxxxxxxxxxxxxxxxxxx'"
    """
    short = reprlib.Repr()
    short.maxstring = short.maxother = short.maxlong = 62
    return short.repr(value)


def parse_json(text: str) -> dict[str, Any]:
    """Parse a JSON object.

    Parameters
    ----------
    text : str

    Returns
    -------
    dict

    Raises
    ------
    ValueError
        If the text is no JSON object, has a key twice, NaN, an infinite number, an integer of more than 128 bits, or is
        nested more than 32 deep.

    Examples
    --------
    >>> parse_json('{"lr": 1e-3, "lr": 1e-4}')
    Traceback (most recent call last):
        ...
    ValueError: the key 'lr' occurs twice
    """
    try:
        value = json.loads(text, object_pairs_hook=_unique, parse_constant=_refuse_constant, parse_int=_integer)
    except json.JSONDecodeError as error:
        raise ValueError(f"no valid JSON: {error}") from None
    except RecursionError:
        raise ValueError(f"nested more than {NESTING_LIMIT} deep") from None
    if not isinstance(value, dict):
        raise ValueError(f"a JSON object was expected, not {shown(value)}")
    check_json(value)
    return value


def check_json(value: Any, path: Path = ()) -> None:
    """Raise unless JSON holds a value exactly: dict with str keys, list, str, finite float, int, bool or None.

    Parameters
    ----------
    value : object
    path : tuple of str and int
        Keys and places that lead to the value, for the message.

    Raises
    ------
    ValueError
        That names the place.

    Examples
    --------
    >>> check_json({"best": {"loss": float("inf")}})
    Traceback (most recent call last):
        ...
    ValueError: best.loss is inf; numbers must be finite, write None for a missing one
    """
    if len(path) > NESTING_LIMIT:
        raise ValueError(f"nested more than {NESTING_LIMIT} deep")
    if isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                raise ValueError(f"{_place(path)} has the key {shown(key)}; keys must be strings")
            check_json(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            check_json(item, (*path, index))
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"{_place(path)} is {value}; numbers must be finite, write None for a missing one")
    elif isinstance(value, int):
        if value.bit_length() > INTEGER_BITS:
            raise ValueError(f"{_place(path)} is an integer of more than {INTEGER_BITS} bits")
    elif not (value is None or isinstance(value, str)):
        kind = type(value).__name__
        raise ValueError(f"{_place(path)} is of type {kind}; use dict, list, str, int, float, bool or None")


def _place(path: Path) -> str:
    """Write a path as people do: best.losses[3]."""
    steps = (f"[{step}]" if isinstance(step, int) else f".{shown(step)[1:-1]}" for step in path)
    return "".join(steps).removeprefix(".") or "the top level"


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Refuse an object that has a key twice; the json module would keep the last."""
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"the key {shown(key)} occurs twice")
        found[key] = value
    return found


def _refuse_constant(word: str) -> NoReturn:
    """Refuse NaN and Infinity, which the json module reads although they are no JSON."""
    raise ValueError(f"{word} is no JSON")


def _integer(text: str) -> int:
    """Refuse a huge integer before it is converted, which takes quadratic time."""
    if len(text) > INTEGER_DIGITS:
        raise ValueError(f"an integer of {len(text)} digits; at most {INTEGER_BITS} bits are allowed")
    return int(text)
