"""Command line: ``python -m benchmarks step --config nano --threads 1 --peers torch``."""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import json
import platform
import statistics
import sys
from contextlib import ExitStack
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from gpt.config import BATCH_SIZES

from .steppers import STEPPERS
from .workers import Worker

WARM_UP = 5


def machine() -> dict[str, str]:
    """Describe what the figures were measured on."""
    blas = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
    found = {"python": platform.python_version(), "platform": platform.platform(), "processor": _processor()}
    found["blas"] = f"{blas['name']} {blas['version']}"
    for package in ("numpy", "torch"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def step(config: str, threads: int, peers: list[str], rounds: int, steps: int) -> dict[str, Any]:
    """Time whole training steps, the libraries taking turns within each round.

    Returns
    -------
    dict
        For each library: milliseconds (median, minimum); the ratio of ours to it, as the median over the rounds of the
        ratios of medians within a round, so that a drifting machine cancels.
    """
    names = ["autodiff", *peers]
    times: dict[str, list[list[float]]] = {name: [] for name in names}
    with ExitStack() as stack:
        workers = [stack.enter_context(Worker(name, config, threads)) for name in names]
        for worker in workers:
            worker.run(WARM_UP)
        for done in range(rounds):
            for worker in workers:
                times[worker.name].append(worker.run(steps)["seconds"])
            print(f"\rround {done + 1} of {rounds}", end="", file=sys.stderr, flush=True)
        print(file=sys.stderr)
    medians = {name: [statistics.median(part) for part in parts] for name, parts in times.items()}
    return {
        name: {
            "median_ms": 1e3 * statistics.median(itertools.chain(*times[name])),
            "min_ms": 1e3 * min(itertools.chain(*times[name])),
            "ratio": statistics.median(a / b for a, b in zip(medians["autodiff"], medians[name], strict=True)),
        }
        for name in names
    }


def parser() -> argparse.ArgumentParser:
    """Build the command line."""
    main = argparse.ArgumentParser(prog="python -m benchmarks", description="Measurements beside other libraries.")
    commands = main.add_subparsers(dest="command", required=True)
    one = commands.add_parser("step", help="whole training steps: forward, backward, clip, AdamW")
    one.add_argument("--config", choices=list(BATCH_SIZES), default="nano", help="size of the model (default: nano)")
    one.add_argument("--threads", type=int, default=1, help="threads for each library (default: 1)")
    one.add_argument(
        "--peers", default="torch", help=f"comma-separated, of {', '.join(n for n in STEPPERS if n != 'autodiff')}"
    )
    one.add_argument("--rounds", type=int, default=15, help="how often the libraries take turns (default: 15)")
    one.add_argument("--steps", type=int, default=10, help="steps of each in a round (default: 10)")
    one.add_argument("--json", metavar="FILE", type=Path, help="write the figures there, too")
    return main


def main() -> int:
    """Run a benchmark and print its figures."""
    commands = parser()
    given = commands.parse_args()
    peers = [name for name in given.peers.split(",") if name]
    unknown = [name for name in peers if name not in STEPPERS or name == "autodiff"]
    if unknown:
        commands.error(f"--peers: unknown {unknown[0]!r}; choose from {', '.join(set(STEPPERS) - {'autodiff'})}")
    missing = [name for name in peers if importlib.util.find_spec(name) is None]
    if missing:
        commands.error(f"--peers: {missing[0]} is not installed; install it, or leave it out (--peers '' times ours)")
    for name in ("threads", "rounds", "steps"):
        if getattr(given, name) < 1:
            commands.error(f"--{name} must be at least 1")
    described = machine()
    print("  ".join(f"{key}: {value}" for key, value in described.items()))
    figures = step(given.config, given.threads, peers, given.rounds, given.steps)
    print(f"{given.config}, {given.threads} thread(s), {given.rounds} rounds of {given.steps} steps")
    for name, row in figures.items():
        ratio = "" if name == "autodiff" else f"   autodiff / {name}: {row['ratio']:.3f}"
        print(f"  {name:10} median {row['median_ms']:8.2f} ms   min {row['min_ms']:8.2f} ms{ratio}")
    if given.json:
        given.json.write_text(json.dumps({"machine": described, "config": given.config, "figures": figures}, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
