"""Draw the figure of docs/performance.md from what ``python -m benchmarks everything`` has measured."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from .peers import OURS, label

__all__ = ["draw", "main"]

CONFIGS = ("tiny", "nano", "mid", "long")
PEER = "torch"
COLOURS = {OURS: "#1b6ca8", PEER: "#d1495b", "flops": "#888888"}


def main(argv: Sequence[str] | None = None) -> int:
    """Read, draw, write."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks plot", description=__doc__)
    parser.add_argument("file", type=Path, help="the JSON file of 'everything'")
    parser.add_argument(
        "-o", "--output", type=Path, required=True, metavar="FILE", help="the figure: .svg, .png or .pdf"
    )
    given = parser.parse_args(argv)
    try:
        runs = json.loads(given.file.read_text(encoding="utf-8"))["runs"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        parser.error(f"{given.file} is not a file that 'everything' has written: {error!r}")
    if not list(_bars(runs)) and not _scaling(runs):
        parser.error(f"{given.file} has neither steps beside {label(PEER)} nor scaling, and nothing else is drawn")
    try:
        draw(runs, given.output)
    except ImportError:
        parser.error('matplotlib is not installed: pip install "autodiff-gpt[bench]"')
    return 0


def draw(runs: Sequence[Mapping[str, Any]], output: Path) -> None:
    """Draw the ratios to PyTorch by config, and the scaling of a step against each dimension."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    scaling = _scaling(runs)
    with mpl.rc_context({"svg.hashsalt": "benchmarks", "svg.fonttype": "path", "font.size": 9}):
        figure: Any = Figure(figsize=(3 * max(2, len(scaling)), 6.5), layout="constrained")
        above, below = figure.subfigures(2, 1)
        _ratios(above.subplots(), runs)
        panels = below.subplots(1, max(1, len(scaling)), squeeze=False)[0]
        for axes, (dimension, found) in zip(panels, scaling.items(), strict=False):
            _curve(axes, dimension, found)
        figure.savefig(output, metadata={"Date": None} if output.suffix == ".svg" else None)


def _ratios(axes: Any, runs: Sequence[Mapping[str, Any]]) -> None:
    """Draw a bar for each config and number of threads."""
    bars = list(_bars(runs))
    heights = [ratio for _, ratio in bars]
    axes.bar(range(len(bars)), heights, color=COLOURS[OURS])
    for place, height in enumerate(heights):
        axes.annotate(f"{height:.2f}", (place, height), ha="center", va="bottom")
    axes.axhline(1, color="black", linewidth=0.8)
    axes.set_xticks(range(len(bars)), [name for name, _ in bars])
    axes.set_ylabel(f"time of a step / {label(PEER)}")
    axes.margins(y=0.15)


def _bars(runs: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, float]]:
    steps = [run for run in runs if run["command"] == "step" and PEER in run["results"]["libraries"]]
    for config in CONFIGS:
        for run in steps:
            if run["options"]["config"] == config:
                threads = run["options"]["threads"]
                count = f"{threads[0]} thread{'s' * (threads[0] > 1)}" if len(threads) == 1 else "best threads"
                yield f"{config}\n{count}", run["results"]["libraries"][PEER]["ratio"]


def _scaling(runs: Sequence[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """Return what was measured on one thread against each dimension."""
    found: dict[str, Mapping[str, Any]] = {}
    for run in runs:
        if run["command"] == "scaling" and run["options"]["threads"] == [1]:
            found |= run["results"]
    return found


def _curve(axes: Any, dimension: str, found: Mapping[str, Any]) -> None:
    """Draw times against a dimension, and what the count of operations alone would make of the last one."""
    values = found["values"]
    for name, library in found["libraries"].items():
        times = [point["median_ms"] for point in library["points"]]
        text = f"{label(name)}, ^{library['exponent']:.2f}"
        axes.loglog(values, times, "o-", markersize=3, color=COLOURS.get(name), label=text)
    last = found["libraries"][OURS]["points"][-1]["median_ms"]
    ideal = [last * count / found["flops"][-1] for count in found["flops"]]
    axes.loglog(values, ideal, "--", color=COLOURS["flops"], label=f"FLOPs, ^{found['flop_exponent']:.2f}")
    axes.set_xticks(values, [str(value) for value in values])
    axes.minorticks_off()
    axes.set_xlabel(dimension)
    axes.set_ylabel("ms a step")
    axes.legend(fontsize=7)
