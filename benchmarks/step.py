"""Whole training steps (forward, backward, clip, AdamW) of one model in each library."""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

from .gemm import FLOPS, GEMM
from .options import add_config, add_peers, add_rounds, add_threads, at_least_one, named_size
from .peers import OURS, label
from .report import table
from .sizes import Size, step_flops
from .timing import Entry, Times, alternate, ratio, summary
from .workers import Worker, start

__all__ = ["arguments", "measure", "run"]


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    add_config(parser)
    add_threads(parser, best=True)
    add_peers(parser, "step", default="torch")
    add_rounds(parser, 15)
    parser.add_argument(
        "--steps", type=at_least_one, metavar="N", help="steps of each in a round (default: as many as take 0.3 s)"
    )


def run(given: argparse.Namespace) -> dict[str, Any]:
    """Measure; print a table; return the figures."""
    size = named_size(given.config)
    found = measure(size, given.threads, given.peers, given.rounds, given.steps)
    print(
        f"{given.config}, {' or '.join(map(str, given.threads))} thread(s), {given.rounds} rounds; "
        f"{found['flops'] / 1e9:.3g} GFLOP in a step's matrix products, 3 (L (24 N d^2 + 2 B T (T + 1) d) + 2 N V d)"
    )
    rows = [
        [label(name), str(row["threads"]), f"{row['median_ms']:.2f}",
         f"{row['min_ms']:.2f}", f"{row['gflops']:.1f}", f"{row['share']:.0%}", f"{row['ratio']:.3f}"]
        for name, row in found["libraries"].items()
    ]  # fmt: skip
    table(["", "threads", "median ms", "min ms", "GFLOP/s", "of GEMM", "autodiff / it"], rows)
    for count, gflops in found["gemm_gflops"].items():
        print(f"  GEMM on {count} thread(s): {gflops:.1f} GFLOP/s")
    for name, why in found["left_out"].items():
        print(f"  left out: {name} ({why})")
    print()
    return found


def measure(
    size: Size, counts: Sequence[int], peers: Sequence[str], rounds: int, calls: int | None = None
) -> dict[str, Any]:
    """Measure libraries in turns, each on every number of threads, and the rate of a large matrix product.

    Returns
    -------
    dict
        ``libraries``: for each the figures of its best number of threads; ``ratio`` is our time over its. ``seconds``
        holds every time, by number of threads.
    """
    names = [OURS, *peers]
    with ExitStack() as stack:
        entries = {}
        for count in counts:
            gemm = Worker(GEMM, "benchmarks.gemm:gemm", count)
            entries[f"{GEMM}@{count}"] = Entry(stack.enter_context(gemm), GEMM)
            for name in names:
                worker = stack.enter_context(start(name, "step", count, size=size))
                entries[f"{name}@{count}"] = Entry(worker, "step")
        needed = [f"{name}@{count}" for name in (GEMM, OURS) for count in counts]
        times, failed = alternate(entries, rounds, calls, needed)
    flops, best = step_flops(size), {}
    for name in names:
        found = {count: times[f"{name}@{count}"] for count in counts if f"{name}@{count}" in times}
        if found:
            best[name] = min(found, key=lambda count: summary(found[count])["median_ms"])
    chosen = {name: times[f"{name}@{count}"] for name, count in best.items()}
    gemms = {count: times[f"{GEMM}@{count}"] for count in counts}
    return {
        "flops": flops,
        "libraries": {
            name: {
                **summary(chosen[name]), "threads": count, "ratio": ratio(chosen[OURS], chosen[name]),
                **rate(flops, chosen[name], gemms[count]),
            }
            for name, count in best.items()
        },
        "gemm_gflops": {str(count): FLOPS / summary(found)["median_ms"] / 1e6 for count, found in gemms.items()},
        "left_out": failed,
        "seconds": times,
    }  # fmt: skip


def rate(flops: int, times: Times, gemm: Times) -> dict[str, float]:
    """Return the rate of steps, and its share of that of a large product, the median over the rounds."""
    medians = [(statistics.median(step), statistics.median(product)) for step, product in zip(times, gemm, strict=True)]
    return {
        "gflops": statistics.median(flops / step for step, _ in medians) / 1e9,
        "share": statistics.median((flops / step) / (FLOPS / product) for step, product in medians),
    }
