"""The pieces of the command line that several commands share, and their checks."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterable
from pathlib import Path

from gpt.config import BATCH_SIZES, preset
from gpt.machine import usable_cores

from .peers import OURS, PEERS, installed, peers_of
from .sizes import Size

__all__ = ["add_config", "add_json", "add_peers", "add_rounds", "add_threads", "at_least_one", "named_size", "writable"]

EXTRA = "autodiff-gpt[bench]"


def at_least_one(text: str) -> int:
    """Read a whole number of at least 1."""
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} must be a whole number of at least 1")
    return number


def writable(text: str) -> Path:
    """Read the path of a file to be written, and refuse at once what could not be: measuring takes long."""
    path = Path(text)
    if not text or path.is_dir() or (path.exists() and not path.is_file()):
        raise argparse.ArgumentTypeError(f"{text!r} is not the name of a file")
    if not path.parent.is_dir():
        raise argparse.ArgumentTypeError(f"there is no folder {str(path.parent)!r}; make it first")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise argparse.ArgumentTypeError(f"{text!r} cannot be written: permission denied")
    return path


def named_size(name: str) -> Size:
    """Return the shapes of a benchmark preset."""
    config = preset(name)
    return Size(BATCH_SIZES[name], config.block_size, config.vocab_size, config.n_embd, config.n_head, config.n_layer)


def add_config(parser: argparse.ArgumentParser) -> None:
    """Add ``--config``."""
    parser.add_argument(
        "--config", choices=list(BATCH_SIZES), default="nano", help="size of model and batch (default: nano)"
    )


def add_threads(parser: argparse.ArgumentParser, best: bool = False) -> None:
    """Add ``--threads``; its value is the list of numbers of threads to measure."""

    def counts(text: str) -> list[int]:
        if best and text == "best":
            return list(range(1, usable_cores() + 1))
        try:
            return [at_least_one(text)]
        except argparse.ArgumentTypeError as error:
            raise argparse.ArgumentTypeError(f"{error}, or 'best'" if best else str(error)) from None

    also = "; best: every library on 1 to all cores, and its best is quoted" if best else ""
    parser.add_argument(
        "--threads", type=counts, default=[1], metavar="N|best" if best else "N",
        help=f"threads of each library (default: 1){also}",
    )  # fmt: skip


def add_peers(parser: argparse.ArgumentParser, command: str, default: str) -> None:
    """Add ``--peers``; its value is the list of those to measure beside ours."""
    known = peers_of(command)
    about = "; ".join(f"{name}: {PEERS[name].about}" for name in known)
    parser.add_argument(
        "--peers", type=_peers(known), default=default, metavar="A,B",
        help=f"comma-separated, 'all' that are installed, or '' for none (default: {default!r}). {about}",
    )  # fmt: skip


def _peers(known: Iterable[str]) -> Callable[[str], list[str]]:
    def read(text: str) -> list[str]:
        if text == "all":
            return [name for name in known if installed(name)]
        names = list(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
        for name in names:
            if name == OURS:
                raise argparse.ArgumentTypeError(f"{OURS} is always measured; name those to measure beside it")
            if name not in known:
                raise argparse.ArgumentTypeError(f"unknown peer {name!r}; choose from {', '.join(known)}")
            if not installed(name):
                raise argparse.ArgumentTypeError(
                    f"{name} needs the package {PEERS[name].package}, which is not installed: "
                    f'pip install "{EXTRA}", or leave it out (--peers "" measures ours alone)'
                )
        return names

    return read


def add_rounds(parser: argparse.ArgumentParser, default: int, what: str = "turns of each library") -> None:
    """Add ``--rounds``."""
    parser.add_argument(
        "--rounds", type=at_least_one, default=default, metavar="N", help=f"{what} (default: {default})"
    )


def add_json(parser: argparse.ArgumentParser) -> None:
    """Add ``--json``."""
    parser.add_argument(
        "--json", metavar="FILE", type=writable, help="write all that was measured, every time included"
    )
