"""How a command talks: its options, its errors in one line, and text that every console can show."""

from __future__ import annotations

import argparse
import io
import sys
from typing import Any, NoReturn

__all__ = ["CallError", "Parser", "prepare_output", "printable"]

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


def prepare_output() -> None:
    """Let a console that cannot show a character show its number: no reason to fail."""
    for output in (sys.stdout, sys.stderr):
        if isinstance(output, io.TextIOWrapper):
            output.reconfigure(errors="backslashreplace")
