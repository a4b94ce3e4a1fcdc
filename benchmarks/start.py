"""How long a user waits: the import, and from the shell to the end of the first training step."""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from .options import add_config, add_peers, add_rounds, add_threads, named_size
from .peers import OURS, PEERS
from .report import progress, table
from .timing import ratio, summary
from .workers import ROOT, blas_threads, environment

__all__ = ["arguments", "run"]


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    add_config(parser)
    add_threads(parser)
    add_peers(parser, "step", default="torch")
    add_rounds(parser, 11, "processes of each kind, alternating")


def run(given: argparse.Namespace) -> dict[str, Any]:
    """Measure; print a table; return the figures."""
    size, threads = json.dumps(asdict(named_size(given.config))), given.threads[0]
    packages = dict.fromkeys(["numpy", OURS, *(PEERS[name].package for name in given.peers)])
    commands = {f"import {package}": (["-c", f"import {package}"], 1) for package in packages}
    for name in (OURS, *given.peers):
        task = PEERS[name].tasks["step"]
        step = ["-m", "benchmarks.begin", task, size, str(threads)]
        commands[f"first step, {name}"] = (step, blas_threads(name, "step", threads))
    for line, count in commands.values():
        _seconds(line, count)  # files are read from disk, and modules compiled, before anything counts
    times: dict[str, list[list[float]]] = {name: [] for name in commands}
    for done in range(given.rounds):
        for name, (line, count) in commands.items():
            progress(f"round {done + 1} of {given.rounds}: {name}")
            times[name].append([_seconds(line, count)])
    progress("")
    pairs = zip(times[f"import {OURS}"], times["import numpy"], strict=True)
    difference = 1e3 * statistics.median(with_ours[0] - numpy[0] for with_ours, numpy in pairs)
    ours = {"import": times[f"import {OURS}"], "first": times[f"first step, {OURS}"]}
    figures = {
        name: {**summary(found), "ratio": ratio(ours[name.split()[0]], found)} for name, found in times.items()
    }  # fmt: skip
    print(f"{given.config}, {threads} thread(s), {given.rounds} fresh processes of each, from start to end")
    table(
        ["", "median ms", "min ms", "autodiff / it"],
        [
            [name, f"{row['median_ms']:.1f}", f"{row['min_ms']:.1f}", f"{row['ratio']:.3f}"]
            for name, row in figures.items()
        ],
    )
    print(f"  import {OURS} above import numpy: {difference:.1f} ms\n")
    return {"processes": figures, "import_above_numpy_ms": difference}


def _seconds(arguments: Sequence[str], threads: int) -> float:
    """Return how long a fresh interpreter takes, from its start to its end."""
    variables = environment(threads)
    variables.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed package is compiled once, not at each import
    start = time.perf_counter()
    done = subprocess.run([sys.executable, *arguments], cwd=ROOT, env=variables, capture_output=True, text=True)
    seconds = time.perf_counter() - start
    if done.returncode:
        raise RuntimeError(f"python {' '.join(arguments)} failed: {done.stderr.strip().splitlines()[-1]}")
    return seconds
