"""How a command talks: its options, its errors in one line, and text that every console can show."""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import sys
from typing import Any, NoReturn

__all__ = ["CallError", "Parser", "abandon_output", "complain", "prepare_output", "printable"]

ESCAPES = {
    code: f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
    for code in (*range(0x20), *range(0x7F, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A))
    if code not in (0x09, 0x0A)
}
"""Characters that act on a terminal: controls, and those that reorder what follows. Line ends and tabs may."""


class CallError(Exception):
    """A command was called wrongly, or with a file that cannot be used."""


class Parser(argparse.ArgumentParser):
    """Reports an error in one line and exits with 2. Options are not to be abbreviated: new ones may change meaning."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(allow_abbrev=False, formatter_class=argparse.RawDescriptionHelpFormatter, **settings)

    def print_help(self, file: Any = None) -> None:
        """Print the help; that it cannot be written is not passed over, as argparse does."""
        print(self.format_help(), end="", file=file)

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        """Leave with a last word, whether or not that can be written."""
        if message:
            complain(message.removesuffix("\n"))
        sys.exit(status)

    def error(self, message: str) -> NoReturn:
        """Print what is wrong, and where help is."""
        self.exit(2, f"{self.prog}: {printable(message)} (help: {self.prog} --help)\n")


def printable(text: str) -> str:
    r"""Return a text whose control characters, line ends and tabs apart, are shown instead of acted upon.

    Examples
    --------
    >>> print(printable("a\x1b[31mb"))
    a\x1b[31mb
    """
    return text.translate(ESCAPES)


def complain(line: str) -> None:
    """Print a line to standard error, if that can be written."""
    with contextlib.suppress(OSError):
        print(line, file=sys.stderr, flush=True)


def abandon_output() -> None:
    """Let what standard output still holds go nowhere: Python writes it on its way out, and would complain again."""
    with contextlib.suppress(OSError):  # a stream without a descriptor
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def prepare_output() -> None:
    """Let a console that cannot show a character show its number, and a stream that is closed take all: no failures."""
    sys.stdout = sys.stdout or open(os.devnull, "w", encoding="utf-8")  # until the process ends
    sys.stderr = sys.stderr or open(os.devnull, "w", encoding="utf-8")
    for output in (sys.stdout, sys.stderr):
        if isinstance(output, io.TextIOWrapper):
            output.reconfigure(errors="backslashreplace")
