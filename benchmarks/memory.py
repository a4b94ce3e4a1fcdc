"""Peak memory of training steps above what the process holds once its library is imported."""

from __future__ import annotations

import argparse
import os
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .options import add_config, add_peers, add_rounds, add_threads, named_size
from .peers import OURS, PEERS, label
from .report import note, progress, table
from .sizes import Size
from .targets import function_of
from .workers import Worker, WorkerError, blas_threads

__all__ = ["arguments", "resettable", "run", "stages"]

STEPS = 5
STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")
MIB = 2**20


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    add_config(parser)
    add_threads(parser)
    add_peers(parser, "step", default="torch")
    add_rounds(parser, 3, "processes of each library, alternating")


def run(given: argparse.Namespace) -> dict[str, Any]:
    """Measure; print a table; return the figures."""
    size, names = named_size(given.config), [OURS, *given.peers]
    found: dict[str, list[dict[str, float]]] = {name: [] for name in names}
    left_out: dict[str, str] = {}
    for done in range(given.rounds):
        for name in [name for name in names if name not in left_out]:
            progress(f"round {done + 1} of {given.rounds}: {name}")
            try:
                found[name].append(_process(name, size, given.threads[0]))
            except WorkerError as error:
                if name == OURS:
                    raise
                left_out[name] = str(error)
                note(f"{name} is left out: {error}")
    progress("")
    how = "VmHWM, reset after the import" if resettable() else "ru_maxrss, which cannot be reset: an upper bound"
    print(f"{given.config}, {given.threads[0]} thread(s), MiB, {STEPS} steps; resident memory ({how})")
    libraries = {}
    for name in [name for name in names if name not in left_out]:
        figures = {stage: statistics.median(one[stage] for one in found[name]) for stage in found[name][0]}
        pairs = zip(found[OURS], found[name], strict=True)
        libraries[name] = {
            **figures, "processes": found[name],
            "ratio": statistics.median(our["peak_above_import"] / its["peak_above_import"] for our, its in pairs),
        }  # fmt: skip
    table(
        ["", "imported", "+ model", "+ steps", "above import", "autodiff / it"],
        [
            [label(name), f"{row['imported']:.1f}", f"{row['built_above_import']:.1f}",
             f"{row['peak_above_built']:.1f}",
             f"{row['peak_above_import']:.1f}", f"{row['ratio']:.3f}"]
            for name, row in libraries.items()
        ],
    )  # fmt: skip
    return {"how": how, "libraries": libraries, "left_out": left_out}


def _process(name: str, size: Size, threads: int) -> dict[str, float]:
    """Run one process through its stages; return MiB."""
    target = "benchmarks.memory:stages"
    task = PEERS[name].tasks["step"]
    with Worker(name, target, blas_threads(name, "step", threads), task=task, size=size, threads=threads) as worker:
        imported, built, peak = (worker.run(stage).value or 0.0 for stage in ("imported", "built", "peak"))
    return {
        "imported": imported,
        "built_above_import": built - imported,
        "peak_above_import": peak - imported,
        "peak_above_built": peak - built,
    }


def stages(task: str, size: Size, threads: int) -> dict[str, Callable[[], float]]:
    """Prepare three calls, to be made in this order, that return resident memory in MiB.

    ``imported`` imports the library, ``built`` makes the model, its optimiser and the batch, ``peak`` takes steps and
    returns the highest that there was at any time since the import.
    """
    made: dict[str, Callable[[], float]] = {}

    def imported() -> float:
        function_of(task)
        if resettable():
            CLEAR.write_text("5", encoding="ascii")  # the mark becomes what is resident now
        return _resident("VmRSS")

    def built() -> float:
        made.update(function_of(task)(size=size, threads=threads))
        return _resident("VmRSS")

    def peak() -> float:
        for _ in range(STEPS):
            made["step"]()
        return _resident("VmHWM")

    return {"imported": imported, "built": built, "peak": peak}


def resettable() -> bool:
    """Tell whether the high-water mark of resident memory can be set back, which Linux offers."""
    return STATUS.exists() and os.access(CLEAR, os.W_OK)


def _resident(what: str) -> float:
    """Return an entry of Linux's account of this process in MiB, or elsewhere the peak since its start."""
    if resettable():
        lines = STATUS.read_text(encoding="ascii").splitlines()
        return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(f"{what}:"))
    if sys.platform == "win32":
        raise OSError("memory: this system does not tell a process its peak of resident memory; use Linux or macOS")
    import resource  # of Unix only

    largest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return largest / MIB if sys.platform == "darwin" else largest / 1024  # bytes there, KiB elsewhere
