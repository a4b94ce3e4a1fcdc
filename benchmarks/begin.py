"""The first training step of a fresh process: ``python -m benchmarks.begin TASK SIZE THREADS``, run by `start`."""

from __future__ import annotations

import json
import sys

from .sizes import Size
from .targets import function_of

__all__ = ["main"]


def main(task: str, size: str, threads: str) -> None:
    """Import a library, build the model, take one step, print its loss."""
    made = function_of(task)(size=Size(**json.loads(size)), threads=int(threads))
    print(made["step"]())


if __name__ == "__main__":
    main(*sys.argv[1:])
