"""The ops of a user's file, or of a module."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from ..node import OPS
from ..op import Op
from ..signature import nearest
from .console import CallError

__all__ = ["Loaded", "load"]


class Loaded(NamedTuple):
    """What was named on the command line, and the ops that it registers, by name."""

    target: str
    module: ModuleType
    ops: dict[str, Op[..., Any]]

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
        own = sys.modules.get(op.__module__, self.module)
        if getattr(own, op.name, None) is op:
            get = f"from {own.__name__} import {op.name}"
        else:
            get = f"import {name}; from autodiff.node import OPS; {op.name} = OPS[{op.name!r}]"
        return f"import numpy as np; from autodiff.testing import *; {get}"


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
    before, modules, folders = dict(OPS), set(sys.modules), list(sys.path)
    is_file = path.suffix == ".py" or path.is_file()
    sys.path.insert(0, str(path.resolve().parent) if is_file else os.getcwd())
    try:
        if is_file:
            module = _import_file(path)
            found = {name: op for name, op in OPS.items() if op is not before.get(name) and _is_made_by(op, module)}
        else:
            module = _import_module(target)
            inside = (target, target + ".")
            found = {n: op for n, op in OPS.items() if op.__module__ == target or op.__module__.startswith(inside[1])}
        yield Loaded(target, module, found)
    finally:
        sys.path[:] = folders
        if is_file:
            for name in set(sys.modules) - modules:
                if getattr(sys.modules[name], "__file__", None) == str(path.resolve()):
                    del sys.modules[name]


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
        said = f"{type(error).__name__}: {getattr(error, 'msg', error)}"
        raise CallError(f"{what} cannot be imported: {said} (at {where})") from error
