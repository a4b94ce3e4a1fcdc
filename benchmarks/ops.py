"""Every fused op and the ten commonest primitives, forward (recorded) and backward, at the shapes of a `nano` step."""

from __future__ import annotations

import argparse
from contextlib import ExitStack
from typing import Any

from .opcases import CASES
from .options import add_peers, add_rounds, add_threads
from .peers import OURS
from .report import table
from .timing import Entry, alternate, ratio, summary
from .workers import start

__all__ = ["arguments", "run"]

PARTS = ("forward", "backward")
CALLS = 20


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument(
        "--ops", type=_names, default=list(CASES), metavar="A,B",
        help=f"comma-separated; only these of {', '.join(CASES)}",
    )  # fmt: skip
    add_threads(parser)
    add_peers(parser, "ops", default="torch")
    add_rounds(parser, 7)


def _names(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in CASES:
            raise argparse.ArgumentTypeError(f"unknown op {name!r}; choose from {', '.join(CASES)}")
    if not names:
        raise argparse.ArgumentTypeError(f"name an op: {', '.join(CASES)}")
    return names


def run(given: argparse.Namespace) -> dict[str, Any]:
    """Measure; print a table; return the figures."""
    names, threads = [OURS, *given.peers], given.threads[0]
    found: dict[str, Any] = {}
    with ExitStack() as stack:
        workers = {name: stack.enter_context(start(name, "ops", threads)) for name in names}
        has = {name: set(worker.functions()) for name, worker in workers.items()}
        for op in given.ops:
            entries = {
                f"{name} {part}": Entry(worker, f"{op} {part}")
                for name, worker in workers.items() for part in PARTS if f"{op} {part}" in has[name]
            }  # fmt: skip
            times, _ = alternate(entries, given.rounds, CALLS, needed=list(entries))
            found[op] = {
                name: {
                    part: {**summary(times[f"{name} {part}"]),
                           "ratio": ratio(times[f"{OURS} {part}"], times[f"{name} {part}"])}
                    for part in PARTS
                }
                for name in names if f"{name} forward" in times
            }  # fmt: skip
    print(f"shapes of nano, {threads} thread(s), {given.rounds} rounds of {CALLS} calls: median ms, forward + backward")
    head = ["", *names, *(f"autodiff / {name}" for name in given.peers)]
    table(head, [[op, *_cells(rows, names)] for op, rows in found.items()])
    return found


def _cells(rows: dict[str, Any], names: list[str]) -> list[str]:
    """Return the cells of one op: times of every library, then ratios to ours; a blank where it has no such op."""

    def both(name: str, figure: str, between: str, digits: int) -> str:
        return between.join(f"{rows[name][part][figure]:.{digits}f}" for part in PARTS) if name in rows else ""

    return [both(name, "median_ms", " + ", 3) for name in names] + [both(name, "ratio", ", ", 2) for name in names[1:]]
