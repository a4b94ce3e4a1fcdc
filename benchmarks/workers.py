"""A stepper in a process of its own, so that no library's threads or memory touch another's.

The parent writes a number of steps on a line; the child runs them and answers with a line of JSON.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from types import TracebackType
from typing import Any

__all__ = ["Worker"]

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")


class Worker:
    """A child process that holds one stepper.

    Parameters
    ----------
    name, size : str
        Keys of `STEPPERS` and `BATCH_SIZES`.
    threads : int
        How many threads its BLAS (and its library) may use.
    """

    def __init__(self, name: str, size: str, threads: int) -> None:
        self.name = name
        environment = {**os.environ, **dict.fromkeys(THREADS, str(threads))}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.workers", name, size, str(threads)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8", env=environment,
        )  # fmt: skip

    def run(self, steps: int) -> dict[str, Any]:
        """Run some steps; return their seconds and the last loss."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{steps}\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError(f"the process of {self.name!r} ended with exit code {self._process.wait()}")
        result: dict[str, Any] = json.loads(answer)
        return result

    def __enter__(self) -> Worker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(timeout=60)


def main(name: str, size: str, threads: str) -> None:
    """Serve steps until the input ends."""
    from gpt.config import BATCH_SIZES, preset

    from .steppers import STEPPERS

    step = STEPPERS[name](preset(size), BATCH_SIZES[size], int(threads))
    for line in sys.stdin:
        seconds = []
        loss = float("nan")
        for _ in range(int(line)):
            start = time.perf_counter()
            loss = step()
            seconds.append(time.perf_counter() - start)
        print(json.dumps({"seconds": seconds, "loss": loss}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
