"""What the tests of the command line share: a text, a small model, and how a command is called."""

import os
import subprocess
import sys
from pathlib import Path

from gpt.__main__ import main

ROOT = Path(__file__).resolve().parents[2]
TEXT = "how much wood would a woodchuck chuck if a woodchuck could chuck wood? as much as it could.\n" * 8
SMALL = ["--n-layer=1", "--n-head=2", "--n-embd=8", "--block-size=8", "--batch-size=4", "--lr=0.01"]


def gpt(capsys, *words, code=0):
    """Run a command; return what it wrote. An expected failure must be one line, and nothing of Python's."""
    try:
        assert main(words) == code
    except SystemExit as wrong_call:
        assert wrong_call.code == code  # noqa: PT017  # both ways out are right
    out, err = capsys.readouterr()
    if code in {1, 2}:
        assert err.count("\n") == 1, err
        assert err.startswith("python -m gpt")
        assert "Traceback" not in err
    return out, err


def train(capsys, *words, code=0):
    data = () if {"--data", "--task", "--resume"} & set(words) else ("--data", "wood.txt")
    small = [word for word in SMALL if "--task" not in words or "block" not in word]  # a task has its own context
    return gpt(capsys, "train", *small, *data, *words, code=code)


def process(*words, **settings):
    """Start a command in a process of its own."""
    # Whoever runs the tests in the background has the child born with interrupts ignored.
    script = "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); import gpt.__main__ as gpt"
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **settings}
    return subprocess.Popen(
        [sys.executable, "-c", f"{script}; sys.exit(gpt.main())", *words], env=environment, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
