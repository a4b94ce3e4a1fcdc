"""What the user sees: progress on standard error, tables on standard output, and JSON."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gpt.files import atomic_write

__all__ = ["note", "progress", "table", "write"]

WIDTH = 78
PAUSE = 10.0
"""Seconds between two lines of progress, at least, where they do not overwrite each other."""


class _Progress:
    last = -PAUSE


def progress(text: str) -> None:
    """Overwrite the line of progress; an empty text takes it away. Not on a terminal, write a line now and then."""
    if sys.stderr.isatty():
        print(f"\r{text[:WIDTH]:{WIDTH}}\r", end="", file=sys.stderr, flush=True)
    elif text and time.monotonic() - _Progress.last >= PAUSE:
        _Progress.last = time.monotonic()
        print(text, file=sys.stderr, flush=True)


def note(text: str) -> None:
    """Say something in passing, on a line of its own."""
    progress("")
    print(f"note: {text}", file=sys.stderr, flush=True)


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows in columns: the first aligned to the left, the others to the right."""
    lines = [list(head), *map(list, rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    for first, *others in lines:
        cells = [f"{cell:>{width}}" for cell, width in zip(others, widths[1:], strict=True)]
        print("  ".join([f"  {first:<{widths[0]}}", *cells]).rstrip())
    print(flush=True)


def write(path: Path, found: Mapping[str, Any]) -> None:
    """Write what was measured as JSON, whole or not at all."""
    atomic_write(path, (json.dumps(found, indent=1) + "\n").encode())
