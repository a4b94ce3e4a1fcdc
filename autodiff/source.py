"""The source of functions: as text, as a syntax tree, and functions made anew of a changed tree.

A function is made anew by compiling the statement that it stands in and taking its code object out of the result,
which is never run itself.
"""

from __future__ import annotations
import __future__

import ast
import copy
import dis
import functools
import inspect
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import CellType, CodeType, FunctionType
from typing import Any, NamedTuple, TypeAlias

__all__ = ["Source", "SourceError", "pieces", "remade", "text_of"]

Definition: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda

FUTURES = sum(getattr(__future__, name).compiler_flag for name in __future__.all_feature_names)
"""Flags of ``from __future__ import ...``, by which a code object tells how it was compiled."""


class SourceError(Exception):
    """A function's source is not to be had, or is no longer that of the function."""


def text_of(function: Any) -> str | None:
    """Return a function's source with the comment above it, dedented; None where it has none, as in some consoles."""
    try:
        text = textwrap.dedent(inspect.getsource(function))
        return f"{inspect.getcomments(function) or ''}{text}"
    except (OSError, TypeError):
        return None


class Source(NamedTuple):
    """Where a function is defined."""

    file: str
    lines: list[str]
    module: ast.Module
    """The imports, and the statement that the definition is or lies in: what its code depends on."""
    definition: Definition
    code: CodeType

    @classmethod
    def of(cls, function: FunctionType) -> Source:
        """Find it.

        Raises
        ------
        SourceError
            If there is none, or the file has changed since the function was made.
        """
        code, name = function.__code__, function.__qualname__
        try:
            lines, _ = inspect.findsource(function)
            module = _parsed("".join(lines))
        except (OSError, TypeError, SyntaxError):
            raise SourceError(f"the source of {name} is not to be had: define it in a file") from None
        for statement in module.body:
            if _start(statement) <= code.co_firstlineno <= (statement.end_lineno or 0):
                imports = [one for one in module.body if isinstance(one, (ast.Import, ast.ImportFrom))]
                own = copy.deepcopy(statement)  # its tree may be changed
                found = cls(code.co_filename, lines, ast.Module([*imports, own], []), _definition(own, code), code)
                if found.compiled() == code:
                    return found
        raise SourceError(f"the source of {name} has changed since {Path(code.co_filename).name} was imported")

    def compiled(self) -> CodeType | None:
        """Compile the tree as it is now; return the function's code, None where there is none any more."""
        try:
            whole = compile(self.module, self.file, "exec", flags=self.code.co_flags & FUTURES, dont_inherit=True)
        except (SyntaxError, ValueError):
            return None
        alike = (code for code in _codes(whole) if _key(code) == _key(self.code))
        return next((code for code in alike if _within(code, self.definition)), None)


@functools.lru_cache(maxsize=8)
def _parsed(text: str) -> ast.Module:
    return ast.parse(text)


def _start(node: Any) -> int:
    """First line of a statement or definition, its decorators included, as code objects count."""
    decorators = getattr(node, "decorator_list", None) or [node]
    return int(min(node.lineno, decorators[0].lineno))


def _codes(code: CodeType) -> Iterator[CodeType]:
    """Walk a code object and those inside it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _key(code: CodeType) -> tuple[str, int]:
    return code.co_qualname, code.co_firstlineno


def _within(code: CodeType, node: Definition) -> bool:
    """Whether all instructions stand inside a definition; lambdas may share a line, and the functions' names."""
    start = (_start(node), node.col_offset if isinstance(node, ast.Lambda) else 0)
    end = (node.end_lineno or 0, node.end_col_offset or 0)
    for line, _, column, end_column in code.co_positions():
        if line is not None and column is not None and column != end_column and not start <= (line, column) <= end:
            return False
    return True


def _definition(statement: ast.stmt, code: CodeType) -> Definition:
    """Find the innermost definition that a code object can be of."""
    kinds = (ast.Lambda,) if code.co_name == "<lambda>" else (ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = (node for node in ast.walk(statement) if isinstance(node, kinds))
    found = [node for node in nodes if _start(node) == code.co_firstlineno and _within(code, node)]
    if not found:
        raise SourceError(f"at line {code.co_firstlineno} of {code.co_filename} no {code.co_name} is defined any more")
    return max(found, key=lambda node: (node.lineno, node.col_offset))


# --- functions and the helpers that they call ---


def pieces(function: FunctionType) -> list[FunctionType]:
    """Return a function and the plain functions of its module that it calls, directly or through one another."""
    found = [function]
    for piece in found:  # it grows meanwhile
        cells = dict(zip(piece.__code__.co_freevars, piece.__closure__ or (), strict=True))
        steps = (step for code in _codes(piece.__code__) for step in dis.get_instructions(code))
        names = {step.argval for step in steps if "GLOBAL" in step.opname}
        called = [piece.__globals__.get(name) for name in sorted(names)] + [_content(cell) for cell in cells.values()]
        found += dict.fromkeys(
            one for one in called
            if type(one) is FunctionType and one.__globals__ is function.__globals__ and one not in found
        )  # fmt: skip
    return found


def _content(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not yet filled
        return None


def remade(
    function: FunctionType, old: CodeType, new: CodeType, names: Mapping[str, Any] | None = None
) -> FunctionType:
    """Make a function anew, with one code object replaced: its own, or that of a helper that it calls.

    It runs in a copy of its module's names, with more of them on request, in which the helpers are made anew too; the
    module stays as it is.
    """
    namespace = {**function.__globals__, **(names or {})}
    made: dict[FunctionType, FunctionType] = {}
    cells: dict[FunctionType, tuple[CellType, ...]] = {}
    for piece in pieces(function):
        code = new if piece.__code__ is old else piece.__code__
        before = dict(zip(piece.__code__.co_freevars, piece.__closure__ or (), strict=True))
        cells[piece] = tuple(CellType(_content(before[name])) for name in code.co_freevars)
        made[piece] = FunctionType(code, namespace, piece.__name__, piece.__defaults__, cells[piece])
        made[piece].__kwdefaults__ = piece.__kwdefaults__
    for name, value in namespace.items():
        if type(value) is FunctionType and value in made:
            namespace[name] = made[value]
    for own in cells.values():
        for cell in own:
            content = _content(cell)
            if type(content) is FunctionType and content in made:
                cell.cell_contents = made[content]
    return made[function]
