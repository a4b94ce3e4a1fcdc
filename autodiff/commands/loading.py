"""The ops of a user's file, or of a module."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import keyword
import os
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from ..node import OPS, TWINS
from ..op import Op
from ..signature import nearest
from .console import CallError

__all__ = ["Loaded", "load"]


PREAMBLE = "import numpy as np; from autodiff.testing import *"
"""What the checker's rerun lines take for granted, the op apart."""


class Loaded(NamedTuple):
    """What was named on the command line, and the ops that it registers, by name."""

    target: str
    module: ModuleType
    ops: dict[str, Op[..., Any]]
    is_file: bool

    def named(self, name: str | None) -> dict[str, Op[..., Any]]:
        """Choose one op, or all of them; what is not there is a wrong call."""
        if not self.ops:
            raise CallError(f"{self.target} registers no op; an op is a function under @autodiff.op")
        if name is None:
            return self.ops
        if name not in self.ops:
            raise CallError(
                f"{self.target} registers no op {name!r}.{nearest(name, self.ops)} It has {', '.join(self.ops)}"
            )
        return {name: self.ops[name]}

    def preamble(self, op: Op[..., Any]) -> str:
        """Write the Python that makes the checker's rerun line run, in the file's folder."""
        name = self.module.__name__
        home = self.module if op.__module__ == name else sys.modules.get(op.__module__, self.module)
        file = Path(self.module.__file__ or "")
        if self.is_file and (name != file.stem or not name.isidentifier() or keyword.iskeyword(name)):
            get = f"import runpy; runpy.run_path({str(file)!r})"  # no import statement finds it
        elif getattr(home, op.name, None) is op:
            return f"{PREAMBLE}; from {home.__name__} import {op.name}"
        else:
            get = f"import {name}"
        return f"{PREAMBLE}; {get}; from autodiff.node import OPS; {op.name} = OPS[{op.name!r}]"


@contextlib.contextmanager
def load(target: str) -> Iterator[Loaded]:
    """Import a file, as ``python FILE`` would find its neighbours, or a module by its dotted name.

    Parameters
    ----------
    target : str
        The path of a file, or the name of a module or package.

    Yields
    ------
    Loaded
        Its ops: those that the file makes, also in place of others; for a package all of its modules'.

    Raises
    ------
    CallError
        If there is none, or it cannot be imported.
    """
    path = Path(target)
    ops, twins, modules, folders = dict(OPS), dict(TWINS), set(sys.modules), list(sys.path)
    is_file = path.suffix == ".py" or path.is_file()
    found: dict[str, Op[..., Any]] = {}
    sys.path.insert(0, str(path.resolve().parent) if is_file else os.getcwd())
    try:
        if is_file:
            module = _import_file(path)
            found = {name: op for name, op in OPS.items() if op is not ops.get(name) and _is_made_by(op, module)}
        else:
            module = _import_module(target)
            inside = (target, target + ".")
            found = {n: op for n, op in OPS.items() if op.__module__ == target or op.__module__.startswith(inside[1])}
        yield Loaded(target, module, found, is_file)
    finally:
        sys.path[:] = folders
        if is_file:
            _forget(str(path.resolve()), found, modules, ops, twins)


def _forget(
    file: str, found: dict[str, Op[..., Any]], modules: set[str], ops: dict[str, Any], twins: dict[Any, Any]
) -> None:
    """Take out a file's module and ops, so that another file may be loaded; what it has imported stays, with its ops.

    Parameters
    ----------
    file : str
        Its path.
    found : dict
        Its ops, as far as it got.
    modules, ops, twins : set and dicts
        What there was before.
    """
    own = {name for name in set(sys.modules) - modules if getattr(sys.modules[name], "__file__", None) == file}
    for name, op in list(OPS.items()):
        if op is not ops.get(name) and (found.get(name) is op or op.__module__ in own):
            _restore(OPS, name, ops)
            _restore(TWINS, op.twin, twins)
    for name in own:
        del sys.modules[name]


def _restore(table: dict[Any, Any], key: Any, before: dict[Any, Any]) -> None:
    """Give one entry of a table the value that it had; none, if it had none."""
    if key in before:
        table[key] = before[key]
    else:
        table.pop(key, None)


def _is_made_by(op: Op[..., Any], module: ModuleType) -> bool:
    """Whether a file made an op: of a function of its own, or of one from elsewhere."""
    if op.__module__ == module.__name__:
        return True
    home = sys.modules.get(op.__module__)
    return any(value is op for value in vars(module).values()) and all(
        value is not op for value in vars(home or ModuleType("")).values()
    )


def _import_file(path: Path) -> ModuleType:
    if not path.exists():
        near = nearest(path.name, [other.name for other in path.parent.glob("*.py")] if path.parent.is_dir() else [])
        raise CallError(f"there is no file {path}.{near}")
    name = path.stem if path.stem not in sys.modules else f"{path.stem}_file"
    spec = importlib.util.spec_from_file_location(name, path.resolve())
    if spec is None or spec.loader is None or not path.is_file():
        raise CallError(f"{path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    with _explained(str(path)):
        spec.loader.exec_module(module)
    return module


def _import_module(name: str) -> ModuleType:
    try:
        found = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        found = None
    if found is None:
        raise CallError(f"{name!r} is neither a file nor a module that can be imported")
    with _explained(name):
        return importlib.import_module(name)


@contextlib.contextmanager
def _explained(what: str) -> Iterator[None]:
    """Say in one line why an import failed, and where."""
    try:
        yield
    except (Exception, SystemExit) as error:
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename != __file__]
        inner = [frame for frame in frames if "importlib" not in frame.filename]
        if isinstance(error, SyntaxError) and error.filename:
            where = f"{error.filename}:{error.lineno}"
        else:
            where = f"{inner[-1].filename}:{inner[-1].lineno}" if inner else what
        said = f"{type(error).__name__}: {getattr(error, 'msg', error)}{_dotted(what) if _is_relative(error) else ''}"
        raise CallError(f"{what} cannot be imported: {said} (at {where})") from error


def _is_relative(error: BaseException) -> bool:
    """Whether a file asked for its neighbours as only a module of a package may."""
    return isinstance(error, ImportError) and "relative import" in str(error)


def _dotted(file: str) -> str:
    """Write how a file of a package is asked for instead; empty for any other file."""
    path = Path(file).resolve()
    names, folder = [path.stem], path.parent
    while (folder / "__init__.py").is_file():
        names, folder = [folder.name, *names], folder.parent
    return f"; it is part of a package: in {folder}, check {'.'.join(names)}" if len(names) > 1 else ""
