"""The first op that is not finite: found by replaying the graph."""

import numpy as np
import pytest

import autodiff.functional as F
from autodiff import Tensor, scope
from gpt.blame import first_bad_array, first_bad_node

quiet = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def leaf(*values):
    return Tensor(np.array(values, np.float32), requires_grad=True)


def test_first_bad_array():
    fine, none = np.ones(3), np.zeros(0)
    assert first_bad_array({"a": fine, "b": none, "c": np.array([1, 2])}) is None
    assert first_bad_array({"a": fine, "b": np.array([0, np.inf]), "c": np.array(np.nan)}) == "b"


def test_finite_graph_has_none():
    x = leaf(1, 2)
    assert first_bad_node((x * 2 + np.arange(2)).sum()) is None
    assert first_bad_node(x) is None
    assert first_bad_node(Tensor(1.0)) is None


@quiet
def test_op_whose_output_nobody_keeps():
    # The product overflows; the sums after it save nothing, and the norm that does is far behind.
    x = leaf(1e30, 1e30)
    with scope("early"):
        product = F.linear(x[None], leaf(1e30, 1e30)[:, None])
    loss = F.layer_norm(product + 1.0 + x).sum()
    found = first_bad_node(loss)
    assert (found.op.name, found.scope) == ("linear", "early")


@quiet
def test_earliest_of_several():
    x = leaf(0, 1)
    second, first = F.exp(leaf(1000, 0)), np.log(x)
    assert first_bad_node((first + second).sum()).op.name == "exp"


@quiet
def test_through_one_of_several_outputs():
    x = leaf(1, 2, 3, 1e38)
    parts = F.split(x, 2)
    assert first_bad_node((parts[1] * 10 + parts[0]).sum()).op.name == "multiply"


@quiet
def test_forgotten_constant_is_judged_by_what_comes_after():
    # A sum keeps none of its arguments; the constant is gone, but the square saves what came of it.
    x = leaf(1, 2)
    assert first_bad_node(np.square(x + np.array([np.inf, 0])).sum()).op.name == "square"


def test_variadic_op_is_replayed():
    assert first_bad_node(F.concatenate([leaf(1), leaf(2)]).sum()) is None


@quiet
def test_deep_graph():
    x = y = leaf(2.0)
    for _ in range(5000):
        y = y * 1.05
    assert np.isinf(y.data).all()
    assert first_bad_node(y + x).op.name == "multiply"
