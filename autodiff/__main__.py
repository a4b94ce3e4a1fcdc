"""The command line: ``python -m autodiff check``, ``ops``.

Results go to standard output, errors in one line to standard error. The exit code is 0, or 1 where an op is wrong or
the output cannot be written, 2 for a wrong call, 130 after an interrupt.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from autodiff.commands.check import check
from autodiff.commands.console import CallError, Parser, abandon_output, complain, prepare_output, printable
from autodiff.commands.ops import show

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Parameters
    ----------
    argv : sequence of str, optional
        The words after ``python -m autodiff``; by default those of this process.

    Returns
    -------
    int
        The exit code.
    """
    prepare_output()
    try:
        try:
            return _run(argv)
        finally:
            sys.stdout.flush()
    except BrokenPipeError:  # the reader of our output has left, and needs no word
        abandon_output()
        return 1
    except OSError as error:  # those of a user's files have been answered
        abandon_output()
        complain(f"python -m autodiff: the output cannot be written: {error.strerror or error}")
        return 1


def _run(argv: Sequence[str] | None) -> int:
    """Run one command; answer what is wrong with the call."""
    given = _parser().parse_args(argv)
    try:
        code: int = given.run(given)
        return code
    except KeyboardInterrupt:
        if given.debug:
            raise
        return 130
    except CallError as error:
        if given.debug:
            raise
        sys.stdout.flush()
        complain(f"{given.parser.prog}: {printable(' '.join(str(error).split()))}")
        return 2


def _parser() -> Parser:
    """Build the command line. Each command is a parser and a function of what was given."""
    main = Parser(
        prog="python -m autodiff",
        description="Ops and their VJP rules: check those that you write, list and explain those that there are.",
    )
    commands = main.add_subparsers(required=True, metavar="COMMAND", parser_class=Parser)

    one = commands.add_parser(
        "check",
        help="whether the VJP rules of a file's ops are right",
        description=(
            "Import a file, and check every op that it registers on its samples: values against differences, shapes,\n"
            "dtypes, memory layouts, linearity, writes, second derivatives and more. Prints a table, then each\n"
            "failure in full with the line that shows it again."
        ),
        epilog=(
            "verdicts: passed; passed, once (second derivatives raise); passed, surrogate; passed, constant;\n"
            "passed, never varied: SETTINGS (they have one value in all samples); passed, nondiff: ARGUMENT has slope\n"
            "S (it is declared without gradient); passed, kinks: N elements (without second derivatives);\n"
            "no samples; skipped (a package is not installed); or the kind of failure, such as value, shape, kink,\n"
            "inconclusive, vacuous, saved-in-vain.\n\n"
            "exit code: 0 all passed, 1 an op failed or the output cannot be written, 2 a wrong call. Survivors of\n"
            "--mutate are advice: whether one makes a difference at all, only its author can tell; they leave the\n"
            "code as it is.\n\n"
            "examples:\n"
            "  python -m autodiff check my_ops.py              all ops of my_ops.py\n"
            "  python -m autodiff check my_ops.py cube         one of them\n"
            "  python -m autodiff check my_ops.py --mutate     are the samples good enough?\n"
            "  python -m autodiff check autodiff.functional    the ops of a module or package, by its dotted name"
        ),
    )
    one.add_argument("target", metavar="FILE.py", help="the file; or the dotted name of a module or package")
    one.add_argument("op", metavar="OP", nargs="?", help="name of one op (default: all that the file registers)")
    one.add_argument(
        "--mutate", action="store_true", help="plant mistakes in the rules of ops that pass; tell which go unnoticed"
    )
    one.add_argument("--rng", type=_seed, default=0, metavar="N", help="seed of samples and cotangents (default: 0)")
    one.set_defaults(run=lambda given: check(given.target, given.op, mutate=given.mutate, rng=given.rng))

    one = commands.add_parser(
        "ops",
        help="list the ops, or explain one",
        description="List all ops of the library by family; with a NAME explain one: formula, rules, what they keep.",
        epilog=(
            "examples:\n"
            "  python -m autodiff ops                what there is\n"
            "  python -m autodiff ops tanh           signature, rule source, values at special points\n"
            "  python -m autodiff ops np.maximum     the op behind a NumPy function"
        ),
    )
    one.add_argument("name", metavar="NAME", nargs="?", help="of an op or of a NumPy function")
    one.set_defaults(run=lambda given: show(given.name))

    for command in commands.choices.values():
        command.add_argument("--debug", action="store_true", help="show where in the program an error arose")
        command.set_defaults(parser=command)
    return main


def _seed(text: str) -> int:
    """Read a seed."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number, 0 or more")
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
