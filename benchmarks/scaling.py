"""What a step costs as one dimension is doubled four times, beside its floating-point operations."""

from __future__ import annotations

import argparse
import dataclasses
import statistics
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any

from .gemm import GEMM
from .options import add_peers, add_rounds, add_threads
from .peers import OURS
from .report import note, table
from .sizes import Size, step_flops
from .step import rate
from .timing import Entry, alternate, exponent, ratio, summary
from .workers import Worker, start

__all__ = ["DIMENSIONS", "arguments", "cliffs", "measure", "run"]

HEAD = 32  # the width of a head, whatever the width of the model
JUMP = 1.5
NANO = Size(batch=12, length=64, vocab=65, width=128, heads=4, layers=4)
DOUBLINGS = [2**power for power in range(5)]

#: Sizes by dimension, each from the smallest to sixteen times that; what is not named is as in `nano`.
DIMENSIONS: Mapping[str, list[Size]] = {
    "T": [dataclasses.replace(NANO, batch=4, length=64 * factor) for factor in DOUBLINGS],
    "width": [dataclasses.replace(NANO, width=64 * factor, heads=64 * factor // HEAD) for factor in DOUBLINGS],
    "layers": [dataclasses.replace(NANO, layers=factor) for factor in DOUBLINGS],
    "batch": [dataclasses.replace(NANO, batch=2 * factor) for factor in DOUBLINGS],
}
FIELDS = {"T": "length", "width": "width", "layers": "layers", "batch": "batch"}


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument(
        "--against", choices=list(DIMENSIONS), action="append", metavar="DIMENSION",
        help=f"only this one of {', '.join(DIMENSIONS)}; may be given again (default: all). All other sizes are "
        f"those of nano, except a batch of 4 against T, and heads of {HEAD} against width",
    )  # fmt: skip
    add_threads(parser)
    add_peers(parser, "step", default="")
    add_rounds(parser, 5, "how often all sizes take turns")


def run(given: argparse.Namespace) -> dict[str, Any]:
    """Measure every dimension; print tables; return the figures."""
    found = {}
    for dimension in given.against or DIMENSIONS:
        sizes = DIMENSIONS[dimension]
        found[dimension] = measure(dimension, sizes, given.threads[0], given.peers, given.rounds)
        _print(dimension, found[dimension])
    return found


def measure(dimension: str, sizes: Sequence[Size], threads: int, peers: Sequence[str], rounds: int) -> dict[str, Any]:
    """Measure steps of several sizes in turns.

    Returns
    -------
    dict
        ``values`` of the dimension, ``flops`` at each, and for each library ``points`` (figures at each size) with the
        fitted ``exponent`` and the values at which there is a cliff.
    """
    values = [getattr(size, FIELDS[dimension]) for size in sizes]
    with ExitStack() as stack:
        gemm = stack.enter_context(Worker(GEMM, "benchmarks.gemm:gemm", threads))
        entries = {GEMM: Entry(gemm, GEMM)}
        for value, size in zip(values, sizes, strict=True):
            for name in (OURS, *peers):
                worker = stack.enter_context(start(name, "step", threads, size=size))
                entries[f"{name} {dimension}={value}"] = Entry(worker, "step")
        times, failed = alternate(entries, rounds, needed=[GEMM])
    flops = [step_flops(size) for size in sizes]
    libraries = {}
    for name in (OURS, *peers):
        keys = [f"{name} {dimension}={value}" for value in values]
        points = [
            {**summary(times[key]), **rate(count, times[key], times[GEMM]),
             "ratio": ratio(times[key.replace(name, OURS, 1)], times[key])}
            for key, count in zip(keys, flops, strict=True) if key in times
        ]  # fmt: skip
        if len(points) < len(values):
            note(f"{name} against {dimension} is left out")
            continue
        medians = [point["median_ms"] for point in points]
        libraries[name] = {
            "points": points,
            "exponent": exponent(values, medians),
            "cliffs": [values[i] for i in cliffs(flops, medians)],
        }
    return {
        "values": values, "flops": flops, "flop_exponent": exponent(values, flops), "libraries": libraries,
        "gemm": summary(times[GEMM]), "left_out": failed,
    }  # fmt: skip


def cliffs(flops: Sequence[float], costs: Sequence[float]) -> list[int]:
    """Return where the cost of an operation jumps: to more than `JUMP` times what it is at the size before.

    Examples
    --------
    >>> cliffs([1, 2, 4, 8], [1, 2, 7, 14])
    [2]
    """
    each = [cost / count for cost, count in zip(costs, flops, strict=True)]
    return [i for i in range(1, len(each)) if each[i] > JUMP * each[i - 1]]


def _print(dimension: str, found: Mapping[str, Any]) -> None:
    for name, library in found["libraries"].items():
        rows = []
        for value, flops, point in zip(found["values"], found["flops"], library["points"], strict=True):
            rows.append([
                str(value), f"{flops / 1e9:.3g}", f"{point['median_ms']:.2f}", f"{point['min_ms']:.2f}",
                f"{point['gflops']:.1f}", f"{point['share']:.0%}", f"{point['ratio']:.3f}",
                "cliff" if value in library["cliffs"] else "",
            ])  # fmt: skip
        print(f"{name} against {dimension}")
        table([dimension, "GFLOP", "median ms", "min ms", "GFLOP/s", "of GEMM", "autodiff / it", ""], rows)
        shares = statistics.mean(point["share"] for point in library["points"])
        print(
            f"  exponent {library['exponent']:.2f}; of the FLOP count {found['flop_exponent']:.2f}; "
            f"mean share of GEMM {shares:.0%}\n"
        )
