"""How modules are shown to people: as a tree of their parts, and as a table of their parameters."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence

__all__ = ["table", "tree"]


def tree(head: str, parts: Iterable[tuple[str, str]]) -> str:
    """Write parts with their names below a head; neighbours in a collection that look alike are written once."""
    runs: list[tuple[str, str, str]] = []  # first name, last name, text
    for name, text in parts:
        if runs and runs[-1][2] == text and runs[-1][0].rpartition(".")[0] == name.rpartition(".")[0] != "":
            runs[-1] = (runs[-1][0], name, text)
        else:
            runs.append((name, name, text))
    if not runs:
        return head + ")"
    lines = [f"{first if first == last else f'{first} to {last}'}: {text}" for first, last, text in runs]
    return head + "\n" + textwrap.indent("\n".join(lines), "  ") + "\n)"


def table(rows: Sequence[tuple[str, str, str]]) -> str:
    """Write rows of three texts in columns."""
    name_width, shape_width, count_width = (max(len(row[column]) for row in rows) for column in range(3))
    return "\n".join(f"{a:<{name_width}}  {b:>{shape_width}}  {c:>{count_width}}" for a, b, c in rows)
