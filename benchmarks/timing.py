"""Alternating measurements, and the figures that are drawn from them."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from .report import note, progress
from .workers import Worker, WorkerError

__all__ = ["Entry", "Times", "alternate", "ratio", "summary"]

WARM_UP, LONG = 3, 1.0
"""Calls before anything counts; one that takes so many seconds needs no more than the first, in which it compiles."""
VISIT, MOST = 0.3, 500
"""Seconds that a library gets in each round, unless a number of calls is asked for, and the most calls."""

Times = list[list[float]]
"""Seconds of every call, round by round."""


class Entry(NamedTuple):
    """One thing to measure: a function of a worker."""

    worker: Worker
    function: str


def alternate(
    entries: Mapping[str, Entry], rounds: int, calls: int | None = None, needed: Sequence[str] = ()
) -> tuple[dict[str, Times], dict[str, str]]:
    """Measure in turns, so that a machine whose speed drifts does so for everyone.

    Parameters
    ----------
    entries : dict of str to Entry
        What to measure, by name.
    rounds : int
        How often each gets its turn.
    calls : int, optional
        How many calls make a turn. None: as many as take about `VISIT` seconds, at least one.
    needed : sequence of str
        Entries that must not fail.

    Returns
    -------
    times : dict of str to list of list of float
        Of those that could be measured.
    failed : dict of str to str
        Of the others, why not.
    """
    failed: dict[str, str] = {}
    counts: dict[str, int] = {}
    for name, (worker, function) in entries.items():
        progress(f"warming up {name}")
        try:
            counts[name] = _warm_up(worker, function, calls)
        except WorkerError as error:
            if name in needed:
                raise
            failed[name] = str(error)
            note(f"{name} is left out: {error}")
    times: dict[str, Times] = {name: [] for name in counts}
    for done in range(rounds):
        for name in list(times):
            progress(f"round {done + 1} of {rounds}: {name}")
            worker, function = entries[name]
            try:
                times[name].append(worker.run(function, counts[name]).seconds)
            except WorkerError as error:
                if name in needed:
                    raise
                del times[name]
                failed[name] = str(error)
                note(f"{name} is left out from round {done + 1} on: {error}")
    progress("")
    return times, failed


def _warm_up(worker: Worker, function: str, calls: int | None) -> int:
    """Call until nothing is left to compile; return how many calls make a turn."""
    worker.run(function)
    second = worker.run(function).seconds[0]
    if second < LONG:
        worker.run(function, WARM_UP - 2)
        second = min(worker.run(function, 2).seconds)
    return calls or max(1, min(MOST, round(VISIT / max(second, 1e-9))))


def summary(times: Times) -> dict[str, Any]:
    """Return median and minimum in milliseconds, the number of calls, and every raw time in seconds, by rounds."""
    every = list(itertools.chain(*times))
    return {
        "median_ms": 1e3 * statistics.median(every), "min_ms": 1e3 * min(every), "calls": len(every), "seconds": times,
    }  # fmt: skip


def ratio(ours: Times, theirs: Times) -> float:
    """Return the median over the rounds of the ratios of the medians within a round: the machine's drift cancels."""
    pairs = zip(ours, theirs, strict=True)
    return statistics.median(statistics.median(a) / statistics.median(b) for a, b in pairs)


def exponent(sizes: Sequence[float], costs: Sequence[float]) -> float:
    """Fit ``cost = c size^k`` by least squares in logarithms; return k.

    Examples
    --------
    >>> round(exponent([1, 2, 4], [3, 12, 48]), 6)
    2.0
    """
    x, y = ([math.log(value) for value in values] for values in (sizes, costs))
    return statistics.linear_regression(x, y).slope
