"""What is said beside an error as it passes through calls within calls."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import Any

import numpy as np

__all__ = ["annotate"]


def annotate(error: BaseException, where: str, more: str = "", arguments: Iterable[Any] = ()) -> None:
    """Note where an error came by, with the shapes of the arguments there, unless it was there before.

    Of a function that calls itself the innermost call says it all. At the limit of recursion there may be no room for
    this; then an outer call adds the note. An exception may also refuse notes: it is more than what would be said here.
    """
    with contextlib.suppress(Exception):
        if not any(note.startswith(where) for note in getattr(error, "__notes__", ())):
            given = [value for value in arguments if value is not None]
            shapes = [str(np.shape(value)) for value in given[:_SHOWN]]
            if len(given) > _SHOWN:
                shapes.append(f"and {len(given) - _SHOWN} more")
            error.add_note(f"{where}{more}{', '.join(shapes)}")


_SHOWN = 8  # shapes
