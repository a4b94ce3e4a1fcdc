"""Tokens per second that a model generates, keys and values of earlier positions cached."""

from __future__ import annotations

import argparse
from contextlib import ExitStack
from typing import Any

from .options import add_config, add_peers, add_rounds, add_threads, at_least_one, named_size
from .peers import OURS, label
from .report import table
from .timing import Entry, alternate, ratio, summary
from .workers import start

__all__ = ["arguments", "run"]


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    add_config(parser)
    add_threads(parser)
    add_peers(parser, "generate", default="torch")
    add_rounds(parser, 15)
    parser.add_argument(
        "--rows", type=at_least_one, default=1, metavar="N", help="texts generated side by side (default: 1)"
    )


def run(given: argparse.Namespace) -> dict[str, Any]:
    """Measure; print a table; return the figures."""
    size, names = named_size(given.config), [OURS, *given.peers]
    with ExitStack() as stack:
        workers = {name: start(name, "generate", given.threads[0], size=size, rows=given.rows) for name in names}
        entries = {name: Entry(stack.enter_context(worker), "sampled") for name, worker in workers.items()}
        times, failed = alternate(entries, given.rounds, needed=[OURS])
    tokens = given.rows * (size.length - 1)
    found = {
        name: {
            **summary(taken), "tokens_per_s": 1e3 * tokens / summary(taken)["median_ms"],
            "ratio": ratio(times[OURS], taken),
        }
        for name, taken in times.items()
    }  # fmt: skip
    about = f"{given.rows} row(s), {size.length - 1} tokens after a first one"
    print(f"{given.config}, {given.threads[0]} thread(s), {about}")
    rows = [
        [label(name), f"{row['tokens_per_s']:,.0f}", f"{row['median_ms']:.2f}",
         f"{row['min_ms']:.2f}", f"{row['ratio']:.3f}"]
        for name, row in found.items()
    ]  # fmt: skip
    table(["", "tokens/s", "median ms", "min ms", "time autodiff / it"], rows)
    return {"tokens": tokens, "libraries": found, "left_out": failed}
