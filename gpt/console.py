"""What a user sees while training, and how they stop it: progress and signals."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

from autodiff.commands.console import printable

__all__ = ["Stop", "catch_signals", "note", "show_progress"]

Watch = Callable[[dict[str, Any]], None]

PAUSE = 10.0  # seconds between lines of progress at most, where there is no bar


def note(text: str) -> None:
    """Tell the user something in passing, in one line, apart from the results."""
    print(f"note: {printable(text)}", file=sys.stderr, flush=True)


# --- stopping ---


class Stop:
    """Whether a signal has asked to stop, and which."""

    number = 0

    def reason(self) -> str | None:
        """Return why to stop, once a signal has come."""
        return f"signal {signal.Signals(self.number).name}" if self.number else None

    @property
    def code(self) -> int:
        """The exit code of a process that a signal ended, by the convention of shells; 0 without one."""
        return 128 + self.number if self.number else 0


@contextlib.contextmanager
def catch_signals() -> Iterator[Stop]:
    """Note SIGINT and SIGTERM instead of being ended by them; a second one acts as it would have before.

    Only the main thread may install handlers, and a signal that the parent has chosen to ignore stays ignored.
    """
    stop = Stop()
    before: dict[signal.Signals, Any] = {}

    def handle(number: int, frame: FrameType | None) -> None:
        stop.number = number
        signal.signal(number, before[signal.Signals(number)])
        # Not print: the signal may have come in the middle of one, and buffers do not bear being entered twice.
        with contextlib.suppress(OSError):
            os.write(2, b"\nfinishing the step and saving; once more to stop at once\n")

    if threading.current_thread() is threading.main_thread():
        for caught in (signal.SIGINT, signal.SIGTERM):
            before[caught] = signal.getsignal(caught) or signal.SIG_DFL
            if before[caught] != signal.SIG_IGN:
                signal.signal(caught, handle)
    try:
        yield stop
    finally:
        for caught, handler in before.items():
            signal.signal(caught, handler)


# --- progress ---


@contextlib.contextmanager
def show_progress(first: int, last: int, *, log_json: bool = False) -> Iterator[Watch]:
    """Show steps as they are taken: a bar on a terminal, a line now and then elsewhere, a line of JSON each on request.

    Parameters
    ----------
    first, last : int
        Steps taken before, and when all is done.
    log_json : bool
        Write each step's record to standard output; the other forms go to standard error.

    Yields
    ------
    callable
        To be called with each step's record.
    """
    if log_json:
        yield lambda record: print(json.dumps(record), flush=True)
        return
    bar = _bar(first, last) if sys.stderr.isatty() else None
    if bar is None:
        yield _Lines(first, last)
        return
    with bar:
        newest: dict[str, Any] = {}

        def watch(record: dict[str, Any]) -> None:
            newest.update(record)  # a validation stays in view until the next
            if "val_loss" in record:  # and a line of it for good
                bar.write(f"step {record['step']}/{last}  {_line(record)}", file=sys.stderr)
            bar.set_postfix(_scores(newest, 3), refresh=False)
            bar.update(record["step"] - bar.n)

        yield watch


def _bar(first: int, last: int) -> Any:
    """Return a progress bar, or None where tqdm is not installed."""
    try:
        from tqdm import tqdm
    except ImportError:
        return None
    shape = "{percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt} [{remaining} left{postfix}]"  # fits 80 columns
    return tqdm(initial=first, total=last, bar_format=shape, dynamic_ncols=True, file=sys.stderr)


def _scores(record: dict[str, Any], digits: int) -> dict[str, str]:
    """Return what to show of a record, by name."""
    shown = {"loss": f"{record['loss']:.{digits}f}"}
    if "val_loss" in record:
        shown["val"] = f"{record['val_loss']:.{digits}f}"
    if "exact" in record:
        shown["exact"] = f"{100 * record['exact']:.1f}%"
    shown["tok/s"] = f"{record['tokens_per_s']:,.0f}"
    return shown


def _line(record: dict[str, Any]) -> str:
    return "  ".join(f"{name} {value}" for name, value in _scores(record, 4).items())


class _Lines:
    """Progress as lines, for a file or a pipe: at evaluations, at the end, and else every few seconds."""

    def __init__(self, first: int, last: int) -> None:
        self.first, self.last = first, last
        self.start = self.written = time.monotonic()

    def __call__(self, record: dict[str, Any]) -> None:
        now, step = time.monotonic(), record["step"]
        if "val_loss" not in record and now - self.written < PAUSE and step < self.last:
            return
        self.written = now
        left = (now - self.start) / (step - self.first) * (self.last - step)
        print(f"step {step}/{self.last}  {_line(record)}  {left:.0f} s left", file=sys.stderr, flush=True)
