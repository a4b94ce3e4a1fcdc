"""What a call keeps of its settings: what the forward has read, whatever becomes of it later."""

from __future__ import annotations

import io
import itertools

import numpy as np
import pytest

from autodiff import Tensor
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
