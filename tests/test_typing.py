"""A strict type checker passes a user's program and refuses its mistakes: a setting misspelt, an argument left out.

Mistakes stand with ``type: ignore``, which ``--strict`` reports where there is nothing to ignore.
"""

import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

PROGRAM = '''
"""Train a small network with an op of its own, and a Transformer beside it."""

from collections.abc import Iterator
from functools import partial
from typing import Any, assert_type

import numpy as np
from numpy.typing import NDArray

import autodiff as ad
import autodiff.functional as F
from autodiff import Tensor, nn, optim
from autodiff.testing import VJPReport, check_vjp
from gpt import GPT, GPTConfig

Floats = NDArray[np.float64]


@ad.op(elementwise=True)
def cube(x: Floats, *, scale: float = 1.0) -> Floats:
    """Third power."""
    return scale * x**3


@cube.vjp("x")
def _(g: Floats, x: Floats, scale: float) -> Floats:
    return g * 3 * scale * x**2


@ad.op
def blend(x: Floats, y: Floats, w: Floats | None = None, *, sharp: bool = False) -> Floats:
    """Mean, weighted."""
    return (x + y) / 2 if w is None else w * x + (1 - w) * y


@ad.op
def halves(x: Floats, *, shift: int = 0) -> tuple[Floats, Floats]:
    """Two outputs."""
    half = len(x) // 2 + shift
    return x[:half].copy(), x[half:].copy()


@ad.op
def level(x: Floats, *, power: int) -> np.float64:
    """A scalar of NumPy's."""
    return np.float64(np.sum(x**power))


@ad.op
def joined(*parts: Floats, axis: int = 0) -> Floats:
    """Any number of arrays."""
    return np.concatenate(parts, axis)


@ad.op
def loose(x: Floats, *, scale: float = 1.0) -> Any:
    """One output, of any type."""
    return x * scale


class Net(nn.Module):
    """Two layers."""

    def __init__(self, width: int) -> None:
        self.first, self.second = nn.Linear(2, width, rng=0), nn.Linear(width, 1, rng=1)

    def forward(self, x: Floats) -> Tensor:
        hidden: Tensor = self.first(x)
        out: Tensor = self.second(F.tanh(cube(hidden, scale=0.5)))
        return out


def batches(count: int) -> Iterator[tuple[Floats, Floats]]:
    rng = np.random.default_rng(0)
    for _ in range(count):
        x = rng.normal(size=(8, 2))
        yield x, x.sum(axis=1, keepdims=True)


def train(net: Net, steps: int) -> list[float]:
    optimizer = optim.AdamW(net.parameters(), lr=1e-2)
    losses = []
    for x, y in batches(steps):
        loss = F.mean(F.square(net.forward(x) - y))
        assert_type(loss, Tensor)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


x = Tensor([0.5, -1.0], requires_grad=True, name="x")
assert_type(cube(x), Tensor)
assert_type(cube(np.ones(2)), Floats)
assert_type(F.softmax(x * 2.0), Tensor)
assert_type(F.multiply(np.ones(2), x), Tensor)
assert_type(partial(cube, scale=2.0)(x), Tensor)
plain: Floats = np.ones(2)
t = Tensor(plain)
assert_type(blend(t, 2.0), Tensor)
assert_type(blend(plain, t, sharp=True), Tensor)
assert_type(blend(plain, plain, t), Tensor)
assert_type(blend(t, t, None, sharp=True), Tensor)
assert_type(blend(plain, plain, sharp=True), Floats)
assert_type(halves(t, shift=0), tuple[Tensor, ...])
assert_type(halves(plain), tuple[Floats, Floats])
assert_type(level(t, power=2), Tensor)
assert_type(level(plain, power=2), np.float64)
assert_type(joined(plain, plain, plain, t, t, axis=0), Tensor)
assert_type(joined(t, plain, axis=0), Tensor)
assert_type(joined([plain, t], axis=0), Tensor)
assert_type(joined(plain, plain, plain, plain, axis=0), Floats)
assert_type(loose(t), Tensor)
assert_type(F.layer_norm(t, plain, eps=1e-3), Tensor)
assert_type(F.scaled_dot_product_attention(F.reshape(t, shape=(2, 1)), np.ones((2, 1)), np.ones((2, 1))), Tensor)


def mistakes() -> None:
    """Each is refused."""
    cube(t, scal=1.0)  # type: ignore[call-overload]
    cube(t, scale="2")  # type: ignore[call-overload]
    blend(t)  # type: ignore[call-overload]
    blend(t, t, sharpen=True)  # type: ignore[call-overload]
    blend(plain, plain, t, sharpen=True)  # type: ignore[call-overload]
    halves(t, shifts=1)  # type: ignore[call-overload]
    level(t)  # type: ignore[call-overload]
    loose(t, scal=2.0)  # type: ignore[call-overload]
    F.softmax(t, axes=0)  # type: ignore[call-overload]
    F.layer_norm(t, t, t, epsilon=1e-3)  # type: ignore[call-overload]
    F.where(t, t)  # type: ignore[call-overload]


report: VJPReport = check_vjp(cube, np.array([0.5, -1.0]))
slope: Any = ad.grad(lambda v: F.sum(F.tanh(v)))(np.ones(2))
losses = train(Net(4), 3)
model = GPT(GPTConfig(vocab_size=5, block_size=4, n_layer=1, n_head=1, n_embd=4), rng=0)
logits: Tensor = model(np.array([[1, 2, 3]]))
print(len(losses), logits.shape, np.shape(slope))
'''


def run(folder, *command):
    environment = {**os.environ, "MYPYPATH": str(ROOT), "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, cwd=folder, check=False, env=environment
    )


@pytest.mark.slow
def test_a_users_program_is_strictly_typed(tmp_path):
    pytest.importorskip("mypy", reason="mypy is not installed: it is what checks the types")
    (tmp_path / "program.py").write_text(PROGRAM, encoding="utf-8")
    done = run(tmp_path, "-m", "mypy", "--strict", "--config-file=", "program.py")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_the_same_program_runs(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM, encoding="utf-8")
    done = run(tmp_path, "program.py")
    assert (done.returncode, done.stdout) == (0, "3 (1, 3, 5) (2,)\n"), done.stderr


def test_an_editable_install_is_a_path_that_tools_can_follow():
    try:
        files = metadata.distribution("autodiff-gpt").files or []
    except metadata.PackageNotFoundError:
        pytest.skip("autodiff-gpt is not installed: the packages are found by the path")
    assert not [file.name for file in files if "finder" in file.name]
