"""Tasks in processes of their own, so that no library's threads or memory touch another's.

A child prepares one task: named functions to time. The parent writes a line of JSON, which function to call and how
often, and the child answers with a line: the seconds that each call took, and what the last one returned.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from .peers import PEERS
from .sizes import Size
from .targets import function_of

__all__ = ["Answer", "Worker", "WorkerError", "blas_threads", "environment", "start"]

ROOT = Path(__file__).resolve().parents[1]
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS", "NPROC")
"""By these each library's BLAS is told its number of threads; the last is XLA's."""


class WorkerError(RuntimeError):
    """A child process failed; the message is that of its error."""


@dataclass(frozen=True)
class Answer:
    """What a child measured.

    Attributes
    ----------
    seconds : list of float
        Of each call.
    value : float or None
        What the last call returned.
    """

    seconds: list[float]
    value: float | None


def environment(threads: int) -> dict[str, str]:
    """Return the environment of a child whose BLAS may use so many threads."""
    return {**os.environ, **dict.fromkeys(THREADS, str(threads))}


class Worker:
    """A child process that holds one task.

    Parameters
    ----------
    name : str
        What to call it in messages.
    target : str
        The task, ``package.module:function``.
    blas_threads : int
        How many threads its BLAS may use.
    **arguments
        Of the function: numbers, strings, and a `Size`.
    """

    def __init__(self, name: str, target: str, blas_threads: int, **arguments: Any) -> None:
        self.name = name
        plain = {key: asdict(value) if isinstance(value, Size) else value for key, value in arguments.items()}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.workers", target, json.dumps(plain)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8", cwd=ROOT,
            env=environment(blas_threads),
        )  # fmt: skip

    def run(self, function: str, repeats: int = 1) -> Answer:
        """Call a function of the task; raise `WorkerError` if it fails there."""
        answer = self._ask(function, repeats)
        return Answer(answer["seconds"], answer["value"])

    def functions(self) -> list[str]:
        """Return the names of the task's functions."""
        names: list[str] = self._ask("", 0)["functions"]
        return names

    def _ask(self, function: str, repeats: int) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps([function, repeats]) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            raise WorkerError(f"the process of {self.name} ended with exit code {self._process.wait()}")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise WorkerError(f"{self.name}: {answer['error']}")
        return answer

    def __enter__(self) -> Worker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is not None:
            self._process.kill()
        self._process.communicate()


def start(name: str, command: str, threads: int, **arguments: Any) -> Worker:
    """Start the process in which a command measures a library on so many threads."""
    peer = PEERS[name]
    return Worker(name, peer.tasks[command], blas_threads(name, command, threads), threads=threads, **arguments)


def blas_threads(name: str, command: str, threads: int) -> int:
    """Return how many threads a library's BLAS may use in a task, if the library may use so many."""
    return 1 if command == "step" and PEERS[name].shards else threads


def main(target: str, arguments: str) -> None:
    """Prepare a task and serve calls until the input ends."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what a library prints must not be taken for an answer
    functions: dict[str, Callable[[], float | None]] = {}
    for line in sys.stdin:
        function, repeats = json.loads(line)
        try:
            functions = functions or _prepare(target, json.loads(arguments))
            answer = _timed(functions[function], repeats) if function else {"functions": list(functions)}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"}
        print(json.dumps(answer), file=answers, flush=True)


def _prepare(target: str, arguments: dict[str, Any]) -> dict[str, Callable[[], float | None]]:
    if "size" in arguments:
        arguments["size"] = Size(**arguments["size"])
    made: dict[str, Callable[[], float | None]] = function_of(target)(**arguments)
    return made


def _timed(call: Callable[[], float | None], repeats: int) -> dict[str, Any]:
    seconds, value = [], None
    for _ in range(repeats):
        start = time.perf_counter()
        value = call()
        seconds.append(time.perf_counter() - start)
    return {"seconds": seconds, "value": value}


if __name__ == "__main__":
    main(*sys.argv[1:])
