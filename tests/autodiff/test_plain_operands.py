"""Integer and boolean operands are kept as they were at the call, whatever the op."""

from __future__ import annotations

import numpy as np
import pytest

import autodiff.functional as F
from autodiff import Tensor, as_tensor
from autodiff.op import Op

X = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
MASK = np.array([[True, False, True], [False, True, True]])
IDS = np.array([0, 1, 0])
ROWS = np.array([[0, 2, 1], [1, 1, 0]])


def picked(x, index):
    """An op of a user's, whose positions are an argument."""
    return x[index]


pick = Op(picked).nondiff("index")


@pick.vjp("x")
def _(g, x, index):
    dx = np.zeros_like(x)
    np.add.at(dx, index, g)
    return dx


CALLS = {
    "getitem": (lambda x, i: x[i], IDS),
    "getitem, mask": (lambda x, m: x[m], MASK),
    "take": (lambda x, i: np.take(x, i), IDS),
    "take, axis": (lambda x, i: np.take(x, i, axis=1), IDS),
    "take_along_axis": (lambda x, i: np.take_along_axis(x, i, axis=1), ROWS),
    "where": (lambda x, m: np.where(m, x, 2.0 * x), MASK),
    "where, numbers": (lambda x, m: np.where(m, x, 2.0 * x), MASK.astype(int)),
    "select": (lambda x, m: np.select([m, ~m], [x, 2.0 * x]), MASK),
    "choose": (lambda x, i: np.choose(i, [x[0], 2.0 * x[0]]), IDS),
    "compress": (lambda x, m: np.compress(m, x, axis=1), MASK[0]),
    "extract": (lambda x, m: np.extract(m, x), MASK),
    "repeat": (lambda x, n: np.repeat(x, n, axis=1), IDS),
    "set_at": (lambda x, i: F.set_at(x, i, 9.0), IDS[:2]),
    "scatter_add": (lambda x, i: F.scatter_add(x[0], index=i, shape=(4,)), IDS),
    "embedding": (lambda x, i: F.embedding(x, i), IDS),
    "cross_entropy": (lambda x, i: F.cross_entropy(x, i), IDS[:2]),
    "multiply": (lambda x, n: x * n, ROWS),
    "multiply, mask": (lambda x, m: m * x, MASK),
    "matmul": (lambda x, n: x @ n, ROWS.T),
    "power": (lambda x, n: x**n, ROWS),
    "linear": (lambda x, n: F.linear(x, n), ROWS.T),
    "sum, where": (lambda x, m: np.sum(x, where=m), MASK),
    "an op of one's own": (lambda x, i: pick(x, i), IDS % 2),
}


@pytest.mark.parametrize("tensor", [False, True])
@pytest.mark.parametrize("name", CALLS)
def test_operands_may_be_written_anew_before_backward(name, tensor):
    call, operand = CALLS[name]
    found = []
    for change in (False, True):
        x, given = Tensor(X, requires_grad=True), operand.copy()
        if tensor and name in {"select", "extract", "sum, where", "set_at", "scatter_add", "repeat"}:
            return
        y = call(x, as_tensor(given) if tensor else given)
        if change:
            given[...] = ~given if given.dtype == bool else 1 - given.clip(0, 1)
        np.sum(y * np.cos(np.arange(y.size)).reshape(y.shape)).backward()
        found.append(x.grad)
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize("name", ["take", "where, numbers", "embedding", "multiply"])
def test_constants_of_integers_may_be_assigned_to_before_backward(name):
    call, operand = CALLS[name]
    found = []
    for change in (False, True):
        x, given = Tensor(X, requires_grad=True), Tensor(operand)
        for _ in range(2):  # at the second call the constant has its place in the graph
            y = call(x, given)
        if change:
            given.data = 1 - operand.clip(0, 1)
        np.sum(y * np.cos(np.arange(y.size)).reshape(y.shape)).backward()
        found.append(x.grad)
    np.testing.assert_array_equal(*found)
