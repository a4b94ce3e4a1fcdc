"""micrograd's world: a chain of 4,000 scalar operations, and the whole run of its demo on two moons."""

from __future__ import annotations

import argparse
from contextlib import ExitStack
from typing import Any

from .demo import CHAIN, STEPS
from .options import add_peers, add_rounds, at_least_one
from .peers import OURS, PEERS
from .report import note, progress, table
from .timing import Entry, alternate, ratio, summary
from .workers import Worker

__all__ = ["arguments", "run"]

WARM_UP, RUNS = 2, 5


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    add_peers(parser, "chain", default="micrograd")
    add_rounds(parser, 15, "turns of the chain")
    parser.add_argument(
        "--moons", type=at_least_one, default=1, metavar="N",
        help="whole runs of the demo in each library, one of which takes micrograd minutes (default: 1)",
    )  # fmt: skip


def run(given: argparse.Namespace) -> dict[str, Any]:
    """Measure; print tables; return the figures."""
    names = [OURS, *given.peers]
    chain = _chain(names, given.rounds)
    print(f"chain of {2 * CHAIN:,} additions and multiplications of scalars, {given.rounds} rounds")
    _print(chain)
    demo = _moons(names, given.moons)
    print(f"micrograd's demo: {STEPS} steps of a network of 337 parameters on 100 points, {given.moons} whole run(s)")
    _print(demo)
    for name, row in demo.items():
        print(f"  last loss, {name}: {row['loss']:.6f}")
    print()
    return {"chain": chain, "moons": demo}


def _chain(names: list[str], rounds: int) -> dict[str, Any]:
    with ExitStack() as stack:
        workers = {name: stack.enter_context(_worker(name, "chain")) for name in names}
        entries = {
            f"{name} {part}": Entry(worker, part) for name, worker in workers.items() for part in ("forward", "both")
        }
        times, _ = alternate(entries, rounds, needed=list(entries))
    labels = {"forward": "forward", "both": "forward and backward"}
    return {
        f"{name}, {label}": {**summary(times[f"{name} {part}"]), "ratio": ratio(times[f"{OURS} {part}"], taken)}
        for part, label in labels.items()
        for name in names
        for taken in [times[f"{name} {part}"]]
    }


def _moons(names: list[str], runs: int) -> dict[str, Any]:
    """Run the demo whole. Ours, which takes a moment, warms up first and is run several times in each turn."""
    times: dict[str, list[list[float]]] = {name: [] for name in names}
    losses: dict[str, float | None] = {}
    with ExitStack() as stack:
        workers = {name: stack.enter_context(_worker(name, "moons")) for name in names}
        workers[OURS].run("moons", WARM_UP)
        for done in range(runs):
            for name, worker in workers.items():
                progress(f"round {done + 1} of {runs}: the demo in {name}")
                answer = worker.run("moons", RUNS if name == OURS else 1)
                times[name].append(answer.seconds)
                losses[name] = answer.value
    progress("")
    for name, loss in losses.items():
        if loss is None or abs(loss - (losses[OURS] or 0.0)) > 1e-6:
            note(f"the demo ends with the loss {loss} in {name}, and with {losses[OURS]} here")
    return {
        name: {**summary(taken), "ratio": ratio(times[OURS], taken), "loss": losses[name]}
        for name, taken in times.items()
    }


def _worker(name: str, command: str) -> Worker:
    return Worker(name, PEERS[name].tasks[command], 1)


def _print(found: dict[str, Any]) -> None:
    rows = [
        [name, f"{row['median_ms']:.2f}", f"{row['min_ms']:.2f}", f"{row['ratio']:.4f}"] for name, row in found.items()
    ]
    table(["", "median ms", "min ms", "autodiff / it"], rows)
