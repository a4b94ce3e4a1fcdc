"""Command line: ``python -m benchmarks step --config nano --threads 2 --peers torch,jax``."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping, Sequence

from .machine import described
from .menu import measure, parser
from .workers import WorkerError

__all__ = ["main"]

OTHERS: Mapping[str, str] = {
    "everything": "all that docs/performance.md quotes, into one file",
    "plot": "draw the figure of docs/performance.md from that file",
    "baseline": "what all ops and presets compute, bit for bit, to compare later",
    "derivatives": "do the transforms agree with JAX's?",
    "false_alarms": "is the checker ever wrong about a right rule?",
    "recompute": "what autodiff.recompute saves",
    "soak": "does memory stay flat over ten thousand steps?",
}
"""Commands whose module has a command line of its own."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; return the exit status."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        if arguments and arguments[0] in OTHERS:
            status: int = importlib.import_module(f".{arguments[0]}", __package__).main(arguments[1:])
            return status
        given = parser(OTHERS).parse_args(arguments)
        print(described() + "\n", flush=True)
        measure(given)
    except WorkerError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
