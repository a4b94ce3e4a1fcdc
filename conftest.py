"""Where examples run, and what they find there; what tests and examples register is gone after each."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from autodiff.node import OPS, TWINS

FILE = re.compile(r"^```python\n# (\w+\.py)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture(autouse=True)
def _examples_write_elsewhere(request: pytest.FixtureRequest) -> Iterator[None]:
    """Run each file's examples in a folder of its own: readers may save files, the checkout stays clean.

    The files that a page shows (a block of Python that begins with a name, as in ``# cube.py``) lie in that folder.
    """
    if not isinstance(request.node, pytest.DoctestItem):
        yield
        return
    folder, monkeypatch = request.getfixturevalue("tmp_path"), request.getfixturevalue("monkeypatch")
    monkeypatch.chdir(folder)
    if request.node.path.suffix == ".md":
        monkeypatch.syspath_prepend(folder)
        for name, code in FILE.findall(request.node.path.read_text(encoding="utf-8")):
            Path(name).write_text(code, encoding="utf-8")
    yield
    for file in folder.glob("*.py"):
        sys.modules.pop(file.stem, None)


@pytest.fixture(autouse=True)
def _registry_as_it_was() -> Iterator[None]:
    """Take ops out of the table again: two examples may use one name."""
    before = [(table, dict(table)) for table in (OPS, TWINS)]
    yield
    for table, entries in before:
        if table != entries:
            table.clear()
            table.update(entries)
