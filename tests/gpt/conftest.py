"""Fixtures of the tests of the command line."""

from pathlib import Path

import pytest

from gpt.__main__ import main

from .commands import SMALL, TEXT


@pytest.fixture
def here(request, tmp_path, monkeypatch):
    """Work in a folder with a text in it."""
    monkeypatch.chdir(tmp_path)
    Path("wood.txt").write_text(TEXT, encoding="utf-8")
    if "reports" not in request.fixturenames:  # they take longer than all the rest of a small run
        monkeypatch.setattr("gpt.__main__.write_report", lambda *arguments: None)


@pytest.fixture
def reports():
    """For tests of runs that leave a report."""


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A folder with a run in it, for commands that only read."""
    folder = tmp_path_factory.mktemp("trained")
    (folder / "wood.txt").write_text(TEXT, encoding="utf-8")
    words = ["train", *SMALL, "--data", str(folder / "wood.txt"), "--max-steps=60", "--out", str(folder / "run")]
    assert main(words) == 0
    return str(folder / "run")
