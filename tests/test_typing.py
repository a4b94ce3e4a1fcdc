"""A user's program passes a strict type checker: tensors stay tensors, arrays arrays, and the packages are found."""

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
