"""The measurements beside other libraries, and how one is taken from its command line."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any, Protocol

from . import generate, memory, ops, scalar, scaling, start, step
from .machine import machine
from .options import add_json
from .report import write

__all__ = ["measure", "parser"]


class Measurement(Protocol):
    """A module that measures something: its docstring says what."""

    __doc__: str | None

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the options."""

    def run(self, given: argparse.Namespace) -> dict[str, Any]:
        """Measure; print tables; return the figures, JSON-safe."""


MEASUREMENTS: Mapping[str, Measurement] = {
    "step": step, "ops": ops, "scalar": scalar, "scaling": scaling, "memory": memory, "start": start,
    "generate": generate,
}  # fmt: skip


def parser(others: Mapping[str, str] | None = None) -> argparse.ArgumentParser:
    """Build the command line.

    Parameters
    ----------
    others : dict of str to str, optional
        Further commands to list, and what each is about.
    """
    top = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Measurements beside other libraries, each in a process of its own, taking turns. Times depend on "
        "the machine and on what else it does: quote the ratios.",
    )
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, module in MEASUREMENTS.items():
        about = (module.__doc__ or "").strip()
        one = commands.add_parser(name, help=about[0].lower() + about[1:].rstrip("."), description=about)
        module.arguments(one)
        add_json(one)
    for name, about in (others or {}).items():
        commands.add_parser(name, help=about, add_help=False)
    return top


def measure(given: argparse.Namespace) -> dict[str, Any]:
    """Take the measurement of a parsed command line, print its tables, write its file, return what was measured."""
    results = MEASUREMENTS[given.command].run(given)
    options = {name: value for name, value in vars(given).items() if name not in ("command", "json")}
    found = {"command": given.command, "options": options, "results": results}
    if given.json:
        write(given.json, {"machine": machine(), **found})
    return found
