"""The page for those who come from elsewhere: what it says is typed here runs, and gives what the other side gives.

A row of a table is run in names made anew: the page's own examples on our side, the same numbers in the other library's
arrays on theirs. Where that library is installed, both columns run, and what they return, and what they leave in the
named tensors, is compared. Code spans joined by "or" mean the same, so they are compared, too.
"""

import ast
import doctest
import functools
import re
import shlex
import warnings
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

import autodiff as ad
import autodiff.functional as F
from autodiff import Tensor, nn
from gpt.__main__ import _parser
from gpt.options import ELSEWHERE, parse

TEXT = (Path(__file__).resolve().parents[1] / "docs" / "coming-from.md").read_text(encoding="utf-8")

# The names of the page, in arrays of the other libraries. `given` holds our arrays.
THEIRS = {
    "micrograd": """
        import random
        from micrograd.engine import Value
        from micrograd.nn import MLP, Layer, Neuron
        draw_dot = str  # it stands in micrograd's notebook, not in the package
        a, b, net = Value(2.0), Value(-3.0), MLP(3, [4, 4, 1])
    """,
    "PyTorch": """
        import torch, torch.utils.checkpoint
        import torch.nn.functional as F
        from torch import nn, optim
        t, u, x, v, ids, mask, targets = (torch.tensor(given[name]) for name in "t u x v ids mask targets".split())
        t.requires_grad = True
        y, array, device = (t * t * t).sum(), given["array"], "cpu"
        f = lambda x: torch.sum(torch.tanh(x) ** 2)
        h = lambda x: torch.exp(x) * x[0]
        make_dot = str  # torchviz is a package of its own
        model = nn.Linear(3, 2).double()
        model.weight.data = torch.tensor(given["weight"].T)
        model.bias.data = torch.tensor(given["bias"])
        loss = F.cross_entropy(model(u), targets)
        optimizer = optim.AdamW(model.parameters(), lr=1e-3)
    """,
    "JAX": """
        import jax
        import jax.numpy as jnp
        from jax import lax
        from jax.test_util import check_grads
        jax.config.update("jax_enable_x64", True)
        x, v, ids, targets = (jnp.asarray(given[name]) for name in "x v ids targets".split())
        f = lambda x: jnp.sum(jnp.tanh(x) ** 2)
        h = lambda x: jnp.exp(x) * x[0]
        key = jax.random.key(0)
        cube = jax.custom_vjp(lambda x: x**3)
        forward = lambda x: (x**3, x)
        backward = lambda x, g: (3 * g * x**2,)
    """,
    "autograd": """
        import autograd.numpy as np
        from autograd import *
        from autograd.differential_operators import make_jvp
        from autograd.extend import defvjp, primitive
        from autograd.misc.optimizers import sgd
        from autograd.numpy.numpy_vjps import unbroadcast
        from autograd.test_util import check_grads
        x, v = given["x"], given["v"]
        f = lambda x: np.sum(np.tanh(x) ** 2)
        h = lambda x: np.exp(x) * x[0]
        cube, tanh = primitive(lambda x: x**3), primitive(lambda x: np.tanh(x))
    """,
    "MyGrad": """
        import mygrad as mg
        import numpy as np
        t = mg.tensor(given["t"])
        y = (t * t * t).sum()
    """,
}
PACKAGE = {"micrograd": "micrograd", "PyTorch": "torch", "JAX": "jax", "autograd": "autograd", "MyGrad": "mygrad"}
RANDOM = re.compile(r"\brng\b")  # drawn anew: only shapes can agree


# --- reading the page ---


class Cell(NamedTuple):
    """Code spans of a cell: the pieces in order, each with those that mean the same."""

    pieces: tuple[tuple[str, ...], ...]

    @classmethod
    def read(cls, text):
        pieces = []
        parts = text.split("`")
        for before, code in zip(parts[::2], parts[1::2], strict=False):
            if pieces and re.search(r"\bor\b", before):
                pieces[-1] += (code,)
            else:
                pieces.append((code,))
        return cls(tuple(pieces))

    @property
    def codes(self):
        return [code for piece in self.pieces for code in piece]


class Row(NamedTuple):
    library: str
    there: Cell
    here: Cell
    text: str


def read_page(text):
    """Return the rows of all tables, and for each library the examples of its section."""
    rows, examples = [], {}
    parser = doctest.DocTestParser()
    preamble, *sections = re.split(r"^## ", text, flags=re.MULTILINE)
    for section in sections:
        library = None
        for line in section.splitlines():
            if not line.startswith("|") or set(line) <= set("|- "):
                continue
            there, here = line.strip("| ").split(" | ")
            if here == "here":
                library = there
            else:
                rows.append(Row(library, Cell.read(there), Cell.read(here), f"{library}: {there}"))
        found = parser.get_examples(preamble) + parser.get_examples(section)
        examples[library] = [example.source for example in found if example.exc_msg is None]
    return rows, examples


ROWS, EXAMPLES = read_page(TEXT)


def rows_where(condition):
    return pytest.mark.parametrize("row", [pytest.param(row, id=row.text) for row in ROWS if condition(row)])


def is_command(code):
    return code.startswith(("python ", "--"))


def is_flag(cell):
    return any(code.startswith("--") for code in cell.codes)


def is_python(row):
    return not any(is_command(code) for code in row.there.codes + row.here.codes)


def run(code, names):
    """Run a piece of code as an example is run. Return the value of an expression, else None."""
    if "\n" not in code:  # a decorator, or the first line of a block, stands for the whole
        code = code.removeprefix("@") + (" pass" if code.endswith(":") else "")
    try:
        ast.parse(code, mode="eval")
        source, names["_value"] = f"_value = ({code})", None
    except SyntaxError:
        source, names["_value"] = code, None
    example = doctest.Example(source, want="")
    test = doctest.DocTest([example], {}, code, "coming-from.md", 0, None)
    test.globs = names
    try:
        doctest.DebugRunner(verbose=False).run(test, clear_globs=False, out=lambda printed: None)
    except doctest.UnexpectedException as error:
        raise AssertionError(f"{code.strip()[:200]} raises {error.exc_info[1]!r}") from error.exc_info[1]
    return names["_value"]


def our_names(library):
    names = {"__name__": "__main__"}  # as the examples of a page have it
    for source in EXAMPLES[library]:
        run(source, names)
    return names


def their_names(library):
    ours = our_names(library)
    given = {name: value.data if isinstance(value, Tensor) else value for name, value in ours.items()}
    names = {"given": given | ours["model"].state_dict()}
    run("if True:" + THEIRS[library], names)
    return names


# --- comparing ---


def numbers(value):
    """Return the numbers, names or truth values of an array, whoever made it; None for what is no array."""
    library = type(value).__module__.partition(".")[0]
    if library in ("micrograd", "mygrad", "torch") or isinstance(value, Tensor):
        value = getattr(value, "data", None)  # also of what is recorded
    elif library not in ("builtins", "jax", "jaxlib", "numpy"):
        return None
    array = np.asarray(value)
    return array if array.dtype.kind in "biufU" else None


def assert_same(mine, other, random=False):
    """Compare two values, or lists of such; return how many arrays there were to compare."""
    lists = [isinstance(value, list | tuple) for value in (mine, other)]
    if all(lists):
        assert len(mine) == len(other)
        return sum(assert_same(a, b, random) for a, b in zip(mine, other, strict=True))
    if any(lists):
        assert numbers(mine if lists[1] else other) is None
        return 0
    mine, other = numbers(mine), numbers(other)
    if mine is None or other is None:
        return 0
    assert mine.shape == other.shape
    if "U" in (mine.dtype.kind, other.dtype.kind):
        assert mine.tolist() == other.tolist()
    elif not random:
        single = np.float32 in (mine.dtype, other.dtype)
        np.testing.assert_allclose(mine, other, rtol=1e-6 if single else 1e-9, atol=1e-12)
    return 1


def outcomes(cell, names):
    """Run a cell; return the value of each piece, after comparing those that mean the same."""
    found = []
    for piece in cell.pieces:
        values = [run(code, names) for code in piece]
        for value in values[1:]:
            assert_same(values[0], value, any(RANDOM.search(code) for code in piece))
        found.append(values[0])
    return found


@functools.cache
def compared(row):
    """Run both columns of a row; return how many arrays were compared."""
    ours, theirs = our_names(row.library), their_names(row.library)
    mine = outcomes(row.here, ours)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what they warn of is not for us to mend
        other = outcomes(row.there, theirs)
    random = any(RANDOM.search(code) for code in row.here.codes)
    count = 0
    if len(mine) == len(other):
        count = sum(assert_same(a, b, random) for a, b in zip(mine, other, strict=True))
        for pair in zip(mine, other, strict=True):
            if all(hasattr(value, "step") and hasattr(value, "zero_grad") for value in pair):
                for names, optimizer in zip((ours, theirs), pair, strict=True):
                    names["loss"].backward()
                    optimizer.step()
                count += 1  # the step is compared below, by what it made of the bias
    for names in (ours, theirs):
        if "model" in names:
            names["bias"] = names["model"].bias
    for name in ("a", "b", "t", "y", "s", "loss", "bias"):
        if isinstance(ours.get(name), Tensor) and name in theirs:
            assert_same(ours[name], theirs[name])
    for name in ("a", "b", "t", "bias"):
        if name in theirs and ours[name].grad is not None and theirs[name].grad is not None:
            count += assert_same(ours[name].grad, theirs[name].grad)
    return count


# --- the tests ---


def test_page_is_read_whole():
    assert {row.library for row in ROWS} == {*THEIRS, "nanoGPT"}
    assert len(ROWS) == sum(line.startswith("| ") for line in TEXT.splitlines()) - 8  # less the headings
    cell = Cell.read("`a` or `b`, `c` (d), and `e`")
    assert cell.pieces == (("a", "b"), ("c",), ("e",))


@rows_where(is_python)
def test_what_is_typed_here_runs(row, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    outcomes(row.here, our_names(row.library))


@pytest.mark.parametrize("code", ["ad.no_such_name", "np.unique(t)", "raise ValueError", "with ad.nothing():"])
def test_code_that_fails_is_noticed(code):
    with pytest.raises(AssertionError, match="raises"):
        run(code, our_names("PyTorch"))


@rows_where(lambda row: row.library in THEIRS)
def test_both_columns_agree(row, tmp_path, monkeypatch):
    pytest.importorskip(PACKAGE[row.library], reason=f"{row.library} is not installed to compare with")
    monkeypatch.chdir(tmp_path)
    compared(row)


@pytest.mark.parametrize(
    ("library", "least"), [("micrograd", 5), ("PyTorch", 95), ("JAX", 28), ("autograd", 15), ("MyGrad", 4)]
)
def test_most_rows_are_compared(library, least, tmp_path, monkeypatch):
    pytest.importorskip(PACKAGE[library], reason=f"{library} is not installed to compare with")
    monkeypatch.chdir(tmp_path)
    assert sum(compared(row) for row in ROWS if row.library == library) >= least


@pytest.mark.parametrize("value", [1.5, "name", [1.0, 3.0], (1.0, [2.0, np.ones(2)])])
def test_values_that_differ_are_noticed(value):
    assert assert_same(value, value) >= 1
    for other in (2.5, [1.0, 2.0], ["name", "other"], (1.0, [2.0, np.zeros(2)]), (1.0,)):
        with pytest.raises(AssertionError):
            assert_same(value, other)


def commands(cell):
    """Return the command lines of a cell; flags alone are those of `train`."""
    lines = [shlex.split(code) for code in cell.codes if is_command(code)]
    return [words[3:] if words[0] == "python" else ["train", *words] for words in lines]


@rows_where(lambda row: any(is_command(code) for code in row.here.codes))
def test_commands_are_ours(row, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_config.toml").write_text("n_layer = 2\n", encoding="utf-8")
    for words in commands(row.here):
        parse(words, _parser())


@rows_where(lambda row: is_flag(row.there) and "python -m gpt eval" not in row.here.codes)
def test_flags_of_nanogpt_mean_that_or_are_answered_so(row, capsys):
    expected = [vars(parse(words, _parser())) for words in commands(row.here)]
    flags = [word for words in commands(row.here) for word in words if word.startswith("--")] or ["none, as"]
    for _, flag in commands(row.there):
        try:
            given = vars(parse(["train", flag], _parser()))
        except SystemExit:
            answer = capsys.readouterr().err
            assert any(f"here it is {ours}" in answer for ours in flags), answer
        else:
            name = flag.removeprefix("--").partition("=")[0]
            assert given[name] in [ours[name] for ours in expected]


def test_nanogpts_names_that_are_answered_stand_on_the_page():
    nanogpts = {name for name in ELSEWHERE if f"--{name.replace('-', '_')}=" in TEXT}
    assert {"max-iters", "learning-rate", "grad-clip", "dataset", "device", "compile"} <= nanogpts


# --- what the page says in words ---


def test_a_tensor_is_saved_and_an_array_is_not():
    model = nn.Module()
    model.array, model.tensor = np.ones(2), Tensor(np.ones(2))
    assert list(model.state_dict()) == ["tensor"]
    assert not list(model.parameters())


def test_a_frozen_parameter_is_saved_and_not_listed():
    model = nn.Linear(2, 3, rng=0)
    model.weight.requires_grad = False
    assert [name for name, _ in model.named_parameters()] == ["bias"]
    assert list(model.state_dict()) == ["weight", "bias"]


def test_defaults_that_differ():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed to compare with")
    x = np.array([[1e-3, -2e-3, 5e-4]])
    norms = [torch.nn.RMSNorm(3, eps=eps, dtype=torch.float64) for eps in (1e-5, None)]
    theirs = [norm(torch.tensor(x)).detach().numpy() for norm in norms]
    np.testing.assert_allclose(nn.RMSNorm(3)(x).data, theirs[0], rtol=1e-12)
    assert np.abs(theirs[1]).max() > 1.2 * np.abs(theirs[0]).max()
    exact = torch.nn.functional.gelu(torch.tensor(x * 1e3)).numpy()
    np.testing.assert_allclose(F.gelu(x * 1e3, approximate="none"), exact, rtol=1e-12)
    assert np.abs(F.gelu(x * 1e3) - exact).max() > 1e-5


def test_nan_among_the_inputs_passes_anomaly_mode():
    with ad.detect_anomaly():
        y = (Tensor([np.nan, 1.0], requires_grad=True) * 2.0).sum()
        y.backward()
        with pytest.raises(ad.AnomalyError, match="log"):
            np.log(Tensor([-1.0], requires_grad=True))
    assert np.isnan(y.item())
