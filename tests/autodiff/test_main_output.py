"""Commands whose output cannot be written: a full disk, a closed stream, a reader that has left."""

import contextlib
import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from autodiff.__main__ import main

from .test_main import RIGHT, ROOT, WRONG, here, write  # noqa: F401  # a fixture

FULL = Path("/dev/full")
FULL_DISK = OSError(28, "No space left on device")
WORDS = {
    "list": ["ops"], "one": ["ops", "tanh"], "help": ["--help"], "help of one": ["check", "--help"],
    "right": ["check", "my_ops.py"], "wrong": ["check", "wrong.py"], "mutate": ["check", "my_ops.py", "--mutate"],
}  # fmt: skip
CALLS = {"no call": [], "no op": ["ops", "tanhh"], "no file": ["check", "nothing.py"]}


@pytest.fixture(autouse=True)
def _files(here):  # noqa: F811
    write(RIGHT)
    write(WRONG, "wrong.py")


class Full(io.RawIOBase):
    """A stream that takes nothing."""

    def __init__(self, error):
        self.error = error

    def writable(self):
        return True

    def write(self, data):
        if self.error is not None:
            raise self.error
        return len(data)


@contextlib.contextmanager
def replaced(monkeypatch, name, error, buffered=True):
    """Put a stream that cannot be written in the place of another."""
    raw = Full(error)
    stream = io.TextIOWrapper(io.BufferedWriter(raw) if buffered else raw, "utf-8", write_through=not buffered)
    monkeypatch.setattr(sys, name, stream)
    yield
    raw.error = None  # what is left in it may go
    stream.close()


def status(words):
    try:
        return main(words)
    except SystemExit as leaving:
        return leaving.code


@pytest.mark.parametrize("buffered", [True, False])
@pytest.mark.parametrize("name", WORDS)
def test_a_full_disk_is_told_in_one_line(monkeypatch, name, buffered):
    told = io.StringIO()
    monkeypatch.setattr(sys, "stderr", told)
    with replaced(monkeypatch, "stdout", FULL_DISK, buffered):
        assert status(WORDS[name]) == 1
    assert told.getvalue() == "python -m autodiff: the output cannot be written: No space left on device\n"


@pytest.mark.parametrize("name", WORDS)
def test_a_reader_that_has_left_is_told_nothing(monkeypatch, name):
    told = io.StringIO()
    monkeypatch.setattr(sys, "stderr", told)
    with replaced(monkeypatch, "stdout", BrokenPipeError(32, "Broken pipe")):
        assert status(WORDS[name]) == 1
    assert told.getvalue() == ""


@pytest.mark.parametrize("name", [*WORDS, *CALLS])
def test_closed_streams_take_all(monkeypatch, name):
    monkeypatch.setattr(sys, "stdout", None)
    monkeypatch.setattr(sys, "stderr", None)
    assert status((WORDS | CALLS)[name]) == (2 if name in CALLS else int(name == "wrong"))
    for opened in (sys.stdout, sys.stderr):
        opened.close()


@pytest.mark.parametrize("name", CALLS)
def test_a_wrong_call_is_one_whoever_hears_of_it(monkeypatch, name):
    with replaced(monkeypatch, "stderr", FULL_DISK):
        assert status(CALLS[name]) == 2


@pytest.mark.slow  # a process
@pytest.mark.skipif(not FULL.exists(), reason="there is no /dev/full")
def test_a_process_says_nothing_more_on_its_way_out():
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": ""}
    with FULL.open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "autodiff", "ops"], env=environment, stdout=full, stderr=subprocess.PIPE, check=False
        )
    assert done.returncode == 1
    assert done.stderr.splitlines() == [b"python -m autodiff: the output cannot be written: No space left on device"]
