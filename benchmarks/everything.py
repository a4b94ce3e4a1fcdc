"""All measurements that docs/performance.md quotes, one after the other, into one JSON file."""

from __future__ import annotations

import argparse
import json
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gpt.machine import usable_cores

from .machine import machine
from .menu import measure, parser
from .options import at_least_one, writable
from .peers import installed, peers_of
from .report import note, write

__all__ = ["main", "plan"]


def plan() -> list[list[str]]:
    """Return the command lines: those of the table of figures first, then what explains them.

    The slow peers are measured where a step of theirs is short, so that the whole takes about an hour.
    """
    all_cores = str(min(2, usable_cores()))
    pytorch = _present("step", "torch")
    small, middle = _present("step", *peers_of("step")), _present("step", "torch", "torch-fused", "jax", "hand")
    lines = [
        ["step", "--config", config, "--threads", threads, "--peers", peers]
        for config, threads, peers in (
            ("tiny", "best", middle), ("tiny", "1", small), ("nano", "1", small), ("nano", all_cores, small),
            ("mid", "1", middle), ("mid", all_cores, middle), ("long", "1", middle), ("long", all_cores, middle),
        )
    ]  # fmt: skip
    lines += [
        ["memory", "--config", config, "--threads", all_cores, "--peers", pytorch] for config in ("nano", "mid", "long")
    ]
    lines += [
        ["scalar", "--peers", _present("chain", "micrograd")],
        ["start", "--peers", pytorch],
        ["generate", "--peers", _present("generate", "torch")],
        ["generate", "--rows", "12", "--peers", _present("generate", "torch")],
        ["ops", "--peers", _present("ops", *peers_of("ops"))],
        ["scaling", "--peers", pytorch],
        ["scaling", "--peers", pytorch, "--threads", all_cores],
    ]
    return lines


def _kept(path: Path, here: dict[str, str]) -> list[dict[str, Any]]:
    """Return what a file has; refuse one that is not ours, or was measured on another machine."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        there, runs = found["machine"], found["runs"]
        for run in runs:
            run["line"], run["results"]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path} does not hold what this command writes; name another file") from error
    if there != here:
        names = [name for name in {**there, **here} if there.get(name) != here.get(name)]
        raise ValueError(f"{path} was measured elsewhere ({', '.join(names)} differ); name another file")
    kept: list[dict[str, Any]] = runs
    return kept


def _present(command: str, *names: str) -> str:
    """Return those of the peers that the command measures and that are installed, as the command line has them."""
    return ",".join(name for name in names if name in peers_of(command) and installed(name))


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, writing after each command, so that an interrupted run can go on; return the exit status."""
    options = argparse.ArgumentParser(prog="python -m benchmarks everything", description=__doc__)
    options.add_argument("--json", type=writable, metavar="FILE", help="where to write; what it has is kept")
    options.add_argument("--rounds", type=at_least_one, metavar="N", help="of every command, instead of its own")
    options.add_argument("--only", metavar="COMMAND", help="only the lines of this command, such as step")
    options.add_argument("--list", action="store_true", help="print the command lines, and measure nothing")
    given = options.parse_args(argv)
    lines = [line for line in plan() if given.only in (None, line[0])]
    if not lines:
        options.error(f"--only: {given.only!r} is no command of {', '.join(dict.fromkeys(line[0] for line in plan()))}")
    rounds = [] if given.rounds is None else ["--rounds", str(given.rounds)]
    if given.list:
        print("\n".join(shlex.join(["python", "-m", "benchmarks", *line, *rounds]) for line in lines))
        return 0
    if given.json is None:
        options.error("--json FILE is needed: where to write the figures")
    found: dict[str, Any] = {"machine": machine(), "runs": []}
    if given.json.exists():
        try:
            found["runs"] = _kept(given.json, found["machine"])
        except ValueError as error:
            options.error(f"--json: {error}")
    done = [run["line"] for run in found["runs"]]
    for number, short in enumerate(lines, 1):
        line = [*short, *rounds]
        if line in done:
            note(f"{shlex.join(line)} is in {given.json}")
            continue
        print(f"[{number}/{len(lines)}] {shlex.join(line)}", flush=True)
        found["runs"].append({"line": line, **measure(parser().parse_args(line))})
        write(given.json, found)
    return 0
