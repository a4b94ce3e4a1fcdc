"""What a call keeps of its settings: what the forward has read, whatever becomes of it later."""

from __future__ import annotations

import io
import itertools

import numpy as np
import pytest

import autodiff as ad
import autodiff.functional as F
from autodiff import Tensor, nn
from autodiff.node import OPS
from autodiff.op import Op


def leaf(data):
    return Tensor(np.asarray(data, np.float64), requires_grad=True)


def of_a_user(x, *, weights):
    return x * np.array(list(weights))


weighted = Op(of_a_user)
weighted.vjp("x")(lambda g, weights: g * np.array(list(weights)))


@pytest.mark.parametrize(
    "once",
    [iter, lambda values: (i for i in values), lambda values: map(int, values), lambda values: itertools.chain(values)],
    ids=["iterator", "generator", "map", "chain"],
)
@pytest.mark.parametrize(
    "call",
    [
        lambda x, once: np.flip(x, once((0, 1))),
        lambda x, once: np.moveaxis(x, once((0, 1)), once((1, 0))),
        lambda x, once: weighted(x, weights=once((2, 3))),
    ],
    ids=["flip", "moveaxis", "an op of a user"],
)
def test_settings_that_can_be_gone_through_once_are_kept_for_the_rules(call, once):
    cotangent = np.arange(4.0).reshape(2, 2)
    x, expected = leaf(np.ones((2, 2))), leaf(np.ones((2, 2)))
    call(x, once).backward(cotangent)
    call(expected, tuple).backward(cotangent)
    np.testing.assert_array_equal(x.grad, expected.grad)


def test_an_iterator_without_end_is_refused(monkeypatch):
    monkeypatch.setattr("autodiff.binding._MANY", 100)
    with pytest.raises(TypeError, match=r"of_a_user\(\): weights= takes no iterator that goes on without end"):
        weighted(leaf([1.0, 2.0]), weights=itertools.count())


def test_a_file_stays_a_file():
    def scaled(x, *, file):
        return x * float(file.read())

    op = Op(scaled)
    op.vjp("x")(lambda g, file: g * float(file.getvalue()))
    x = leaf([1.0, 2.0])
    op(x, file=io.StringIO("3")).sum().backward()
    np.testing.assert_array_equal(x.grad, [3.0, 3.0])


# --- axes ---


class Number:
    """An object that NumPy takes for an axis."""

    def __init__(self, number):
        self.number = number

    def __index__(self):
        return self.number


CALLS = {
    "sum": lambda x, i: np.sum(x, axis=i(1)),
    "sum, two": lambda x, i: np.sum(x, axis=(i(-1), i(0))),
    "max": lambda x, i: np.max(x, axis=i(0)),
    "std": lambda x, i: np.std(x, axis=i(-1)),
    "concatenate": lambda x, i: np.concatenate([x, x], axis=i(1)),
    "stack": lambda x, i: np.stack([x, x], axis=i(1)),
    "take": lambda x, i: np.take(x, [1, 0], axis=i(1)),
    "repeat": lambda x, i: np.repeat(x, 2, axis=i(0)),
    "norm": lambda x, i: np.linalg.norm(x, axis=i(1)),
    "transpose": lambda x, i: np.transpose(x, (i(1), i(0))),
    "reduce": lambda x, i: np.add.reduce(x, axis=i(1)),
    "average": lambda x, i: np.average(x, axis=i(1)),
    "diag": lambda x, i: np.diag(x, i(1)),
    "diag of a row": lambda x, i: np.diag(x[0], i(1)),
    "diagonal": lambda x, i: np.diagonal(x, i(1), i(0), i(1)),
    "trace": lambda x, i: np.trace(x, i(0)),
    "softmax": lambda x, i: F.softmax(x, axis=i(0)),
}


@pytest.mark.parametrize("kind", [Number, np.uint64, np.int8, np.array], ids=["object", "uint64", "int8", "array"])
@pytest.mark.parametrize("call", CALLS)
def test_axes_are_what_numpy_takes_for_one(call, kind):
    def number(i):
        return kind(i % 2 if kind is np.uint64 else i)

    values = np.array([[1.5, 2.0], [3.0, 0.5]])
    x, expected = leaf(values), leaf(values)
    y, right = CALLS[call](x, number), CALLS[call](expected, int)
    np.testing.assert_array_equal(y.data, right.data)
    cotangent = 1.0 + np.arange(right.size).reshape(right.shape)
    y.backward(cotangent)
    right.backward(cotangent)
    np.testing.assert_array_equal(x.grad, expected.grad)


@pytest.mark.parametrize("subscripts", [b"ij,jk->ik", np.bytes_(b"ij,jk"), np.str_("ij,kj->ik")])
def test_subscripts_of_any_kind_of_text(subscripts):
    x, c = leaf([[1.0, 2.0], [3.0, 4.0]]), np.array([[1.0, 0.5], [2.0, 3.0]])
    y = np.einsum(subscripts, x, c)
    np.testing.assert_array_equal(y.data, np.einsum(subscripts, x.data, c))
    y.sum().backward()
    assert x.grad.shape == (2, 2)


# --- flags ---


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda x: x.sum().backward(retain_graph="no"), "retain_graph='no'"),
        (lambda x: ad.gradients(x.sum(), x, create_graph="False"), "create_graph='False'"),
        (lambda x: Tensor([1.0], "no"), "requires_grad='no'"),
        (lambda x: nn.Dropout(0.5).train("False"), "mode='False'"),
        (lambda x: F.scaled_dot_product_attention(x, x, x, causal="no"), r"scaled_dot_\w*\(\): causal='no'"),
        (lambda x: F.sum(x, keepdims="no"), r"sum\(\): keepdims='no'"),
    ],
)
def test_text_is_no_flag(call, name):
    with pytest.raises(TypeError, match=f"^{name} must be True or False, not text"):
        call(leaf([[1.0, 2.0], [3.0, 4.0]]))


@pytest.mark.parametrize("draw", [lambda x: F.dropout(x, p=0.5, rng=True), lambda x: nn.Linear(2, 2, rng=True)])
def test_a_flag_is_no_seed(draw):
    with pytest.raises(TypeError, match="rng"):
        draw(leaf([[1.0, 2.0]]))


def test_what_settings_of_other_peoples_ops_mean_is_theirs():
    seen = []

    @ad.op
    def theirs(x, *, normalize=True, w=None, axis=None):
        seen.append((normalize, w, axis))
        return x * 2.0

    @theirs.vjp("x")
    def _(g):
        return g * 2.0

    class Axis:
        def __index__(self):
            return 0

    axis = Axis()
    theirs(Tensor([1.0], requires_grad=True), normalize="ortho", w=1 + 2j, axis=axis)
    ((normalize, w, given),) = seen
    assert (normalize, w, type(given)) == ("ortho", 1 + 2j, Axis)
    OPS.pop("theirs")
