"""How the packages hang together: what imports what, what an import does, how large things are, what is not used."""

import ast
import configparser
import functools
import graphlib
import io
import itertools
import json
import re
import subprocess
import sys
import tokenize
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("autodiff", "gpt")

# Each part of autodiff uses those before it, none after it. What is not listed stands wherever that holds.
ORDER = (
    *("modes", "node", "backward", "tensor", "op"),
    *("functional", "transforms", "nn", "optim", "testing", "viz", "__main__"),
)
CORE = ORDER[:5]

# Code from data, pickled objects, and the network: none of it has a place here.
FORBIDDEN_MODULES = {
    *("cloudpickle", "dill", "joblib", "marshal", "pickle", "shelve"),
    *("ftplib", "http.client", "http.server", "requests", "smtplib", "socket", "urllib.request"),
}
FORBIDDEN_CALLS = {"eval", "exec", "__import__", "os.system", "os.popen"}


# --- reading the source ---


def sources(*folders):
    return [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]


def name_of(path):
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def part_of(path):
    """Name the part of its package that a file is, or lies in; empty for the package itself."""
    return name_of(path).partition(".")[2].split(".")[0]


def tree_of(path):
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def parameters(paths):
    return pytest.mark.parametrize("path", [pytest.param(path, id=name_of(path)) for path in paths])


def imports(tree, module, is_package, known):
    """Modules that a module names in an import, wherever it stands: in a function, or for type checkers only."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            package = module.split(".") if is_package else module.split(".")[:-1]
            parents = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*parents, *([node.module] if node.module else [])])
            for alias in node.names:  # `from . import modes` names a module, `from .modes import scope` something in it
                yield f"{base}.{alias.name}" if f"{base}.{alias.name}" in known else base
        elif isinstance(node, ast.Call) and dotted(node.func) in {"importlib.import_module", "import_module"}:
            yield from (argument.value for argument in node.args[:1] if isinstance(argument, ast.Constant))


def import_graph(files):
    """For each module of our packages those of them that it imports; the packages that contain it do not count."""
    known = {module for module, _, _ in files}
    graph = {}
    for module, is_package, tree in files:
        named = imports(tree, module, is_package, known)
        graph[module] = {target for target in named if target in known and target != module}
    return graph


def reachable(graph, start):
    found, rest = set(), [start]
    while rest:
        new = graph[rest.pop()] - found
        found |= new
        rest.extend(new)
    return found


def dotted(node):
    """Write `a.b.c` as in the source; empty for anything else."""
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def docstrings(tree):
    """Line numbers of strings that stand alone: docstrings of modules, classes, functions and values."""
    alone = (node for node in ast.walk(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
    texts = (node for node in alone if isinstance(node.value.value, str))
    return set(itertools.chain.from_iterable(range(node.lineno, node.end_lineno + 1) for node in texts))


def code_lines(path):
    """Line numbers that hold code: not blank, no comment, no docstring."""
    ignored = {
        tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER,
    }  # fmt: skip
    text = path.read_text(encoding="utf-8")
    tokens = [token for token in tokenize.generate_tokens(io.StringIO(text).readline) if token.type not in ignored]
    lines = itertools.chain.from_iterable(range(token.start[0], token.end[0] + 1) for token in tokens)
    return set(lines) - docstrings(ast.parse(text))


@pytest.fixture(scope="module")
def graph():
    files = [(name_of(path), path.name == "__init__.py", tree_of(path)) for path in sources(*PACKAGES)]
    return import_graph(files)


# --- what imports what ---


def test_import_graph_sees_every_form_of_import():
    source = """
        from . import node
        from .op import op
        from .. import other
        import p.a.leaf as leaf, numpy
        if TYPE_CHECKING:
            from p.checked import T
        def f():
            from p import late
            importlib.import_module("p.named")
    """
    names = ["p", "p.a", "p.a.node", "p.a.op", "p.a.leaf", "p.other", "p.checked", "p.late", "p.named", "p.unused"]
    files = [(name, name in {"p", "p.a"}, ast.parse("")) for name in names]
    tree = ast.parse("if True:\n" + source.strip("\n"))
    expected = set(names) - {"p", "p.a", "p.unused"}
    assert import_graph([*files, ("p.a.user", False, tree)])["p.a.user"] == expected - {"p.a.user"}
    inside = ast.parse("from . import node, nothing\nfrom .op import op\nfrom ..other import f")
    assert import_graph([*files[:1], *files[2:], ("p.a", True, inside)])["p.a"] == {"p.a.node", "p.a.op", "p.other"}


def test_imports_have_no_circle(graph):
    try:
        order = list(graphlib.TopologicalSorter(graph).static_order())
    except graphlib.CycleError as error:
        pytest.fail("imports in a circle: " + " <- ".join(error.args[1]))
    assert {"autodiff", "gpt"} < set(order)


def test_autodiff_never_imports_gpt(graph):
    edges = {(module, target) for module, targets in graph.items() for target in targets}
    assert not {edge for edge in edges if [name.split(".")[0] for name in edge] == ["autodiff", "gpt"]}


@parameters(path for path in sources("autodiff") if part_of(path) in ORDER)
def test_autodiff_imports_only_what_stands_above(graph, path):
    below = ORDER[ORDER.index(part_of(path)) + 1 :]
    uses = reachable(graph, name_of(path))
    assert not {module for module in uses if module == "autodiff" or module.split(".")[1] in below}


# --- what an import does ---


def fresh_interpreter(script):
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_import_needs_nothing_but_numpy():
    script = """
        import json, sys, numpy
        before = set(sys.modules)
        import autodiff
        print(json.dumps(sorted(set(sys.modules) - before)))
    """
    loaded = fresh_interpreter("if True:" + script)
    roots = {module.split(".")[0] for module in loaded}
    assert "autodiff" in roots
    assert roots <= {"autodiff", "numpy", *sys.stdlib_module_names}


def test_import_changes_no_global_state():
    script = """
        import json, locale, os, random, sys, threading, warnings
        import numpy as np

        def state():
            return {
                "random": random.getstate(),
                "numpy.random": {key: str(value) for key, value in np.random.get_state(legacy=False).items()},
                "errors": np.geterr(),
                "printing": {key: str(value) for key, value in np.get_printoptions().items()},
                "warnings": [str(entry) for entry in warnings.filters],
                "environment": dict(os.environ),
                "recursion": sys.getrecursionlimit(),
                "locale": locale.setlocale(locale.LC_ALL),
                "threads": threading.active_count(),
                "folder": os.getcwd(),
            }

        before = state()
        import autodiff, gpt
        after = state()
        print(json.dumps([key for key in before if before[key] != after[key]]))
    """
    assert fresh_interpreter("if True:" + script) == []


# --- how large things are ---


@parameters(sources(*PACKAGES, "benchmarks"))
def test_file_fits_in_a_head(path):
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 450
    assert len(code_lines(path)) <= 400


@parameters(sources("tests"))
def test_test_file_fits_in_a_head(path):
    assert len(code_lines(path)) <= 450


@parameters(sources(*PACKAGES, "benchmarks"))
def test_function_fits_on_a_screen(path):
    tree = tree_of(path)
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    texts = docstrings(tree)
    lengths = [(len(set(range(node.lineno, node.end_lineno + 1)) - texts), node.name) for node in functions]
    assert max(lengths, default=(0, "")) <= (70, "~")


def test_code_lines_counts_code_only(tmp_path):
    file = tmp_path / "a.py"
    start = '"""Doc.\n\nMore."""\n\n# comment\nX = (\n    1,  # one\n)\n"""About X."""\n\n\n'
    file.write_text(start + 'def f():\n    """Do."""\n    return """a\nb"""\n', encoding="utf-8")
    assert code_lines(file) == {6, 7, 8, 12, 14, 15}


def test_core_of_the_engine_is_small():
    lines = {part: len(code_lines(ROOT / "autodiff" / f"{part}.py")) for part in CORE}
    assert sum(lines.values()) <= 800, lines


# --- what is not used ---


def violations(tree):
    for node in ast.walk(tree):
        modules = []
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            modules = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Call):
            if dotted(node.func) in FORBIDDEN_CALLS:
                yield node.lineno, dotted(node.func)
            for keyword in node.keywords:
                on = not (isinstance(keyword.value, ast.Constant) and not keyword.value.value)
                if keyword.arg in {"shell", "allow_pickle"} and on:
                    yield node.lineno, keyword.arg
        yield from ((node.lineno, name) for name in modules if name in FORBIDDEN_MODULES)


@parameters(sources(*PACKAGES))
def test_no_pickle_eval_shell_or_network(path):
    assert not list(violations(tree_of(path)))


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("import pickle", ["pickle"]),
        ("from urllib import request", ["urllib.request"]),
        ("from socket import socket", ["socket"]),
        ("x = eval('1')", ["eval"]),
        ("exec(code)", ["exec"]),
        ("os.system('ls')", ["os.system"]),
        ("subprocess.run('ls', shell=True)", ["shell"]),
        ("np.load(file, allow_pickle=flag)", ["allow_pickle"]),
        ("model.eval(); np.load(file, allow_pickle=False); from .pickle import dill; import urllib.parse", []),
    ],
)
def test_violations_are_found(code, found):
    assert [name for _, name in violations(ast.parse(code))] == found


# --- one place for each setting ---


@functools.cache
def setup_cfg():
    parser = configparser.ConfigParser(interpolation=None)
    parser.read(ROOT / "setup.cfg", encoding="utf-8")
    return parser


@functools.cache
def pyproject():
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def test_tool_settings_stand_once():
    assert set(pyproject()) == {"build-system", "tool"}
    assert set(pyproject()["tool"]) == {"ruff"}
    assert {"metadata", "options", "tool:pytest", "mypy", "coverage:run"} <= set(setup_cfg().sections())
    tools = ("pytest.ini", "pytest.toml", "mypy.ini", "ruff.toml", "coveragerc", "flake8", "tox.ini", "setup.py")
    assert not [name for name in tools for file in (name, f".{name}") if (ROOT / file).exists()]


def test_linter_and_metadata_name_the_same_oldest_python():
    target = re.fullmatch(r"py(\d)(\d+)", pyproject()["tool"]["ruff"]["target-version"])
    assert setup_cfg()["options"]["python_requires"] == f">={target[1]}.{target[2]}"


def test_requirements_have_lower_bounds_only():
    extras = dict(setup_cfg()["options.extras_require"])
    texts = (setup_cfg()["options"]["install_requires"], *extras.values())
    lines = [line for text in texts for line in text.split("\n")]
    requirement = re.compile(r"autodiff-gpt\[[a-z,]+\]|[A-Za-z0-9-]+(>=[0-9.]+)?")
    assert not [line for line in lines if line and not requirement.fullmatch(line)]


def test_messages_and_docs_name_extras_that_exist():
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *sources(*PACKAGES, "benchmarks"), ROOT / "setup.cfg"]
    named = {}
    for page in pages:
        for group in re.findall(r"autodiff-gpt\[([a-z0-9_,-]+)\]", page.read_text(encoding="utf-8")):
            named.update(dict.fromkeys(group.split(","), page.name))
    assert named.keys() <= set(setup_cfg()["options.extras_require"]), named
    assert {"viz", "train"} <= named.keys()
