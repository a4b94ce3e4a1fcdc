"""What is said beside an error as it passes through calls within calls."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

__all__ = ["annotate"]


def annotate(error: BaseException, where: str, more: str = "", arguments: Iterable[Any] = ()) -> None:
    """Note where an error came by, with the shapes of the arguments there, unless it was there before.

    Of a function that calls itself the innermost call says it all. At the limit of recursion there may be no room for
    this; then an outer call adds the note.
    """
    try:
        if not any(note.startswith(where) for note in getattr(error, "__notes__", ())):
            shapes = ", ".join([str(np.shape(value)) for value in arguments if value is not None])
            error.add_note(f"{where}{more}{shapes}")
    except RecursionError:
        pass
