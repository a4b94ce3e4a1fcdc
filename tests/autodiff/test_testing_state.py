"""The checker: what an op keeps from call to call, and where it writes if it may."""

from __future__ import annotations

import array
import contextlib
import random
from collections import OrderedDict

import numpy as np
import pytest

import autodiff as ad
from autodiff.op import Op
from autodiff.testing import check_vjp

from .checking import caught
from .planted_state import HOLDERS, RIGHT, STATE, WRITES, X, constant_table, weights_in


@pytest.mark.parametrize("name", STATE)
def test_what_is_kept_from_call_to_call_is_found(name):
    make, kind, message = STATE[name]
    error = caught(check_vjp, make(), X)
    assert error.kind == kind
    assert message in str(error)


@pytest.mark.parametrize("name", WRITES)
def test_writing_where_it_is_allowed_is_found(name):
    make, settings, message = WRITES[name]
    error = caught(check_vjp, make(), X, kwargs=settings)
    assert error.kind == "writes"
    assert message in str(error)


@pytest.mark.parametrize("who", ["the forward", "a rule"])
@pytest.mark.parametrize("name", HOLDERS)
def test_writing_into_an_array_inside_of_a_setting_is_found(name, who):
    hold, take = HOLDERS[name]
    weights = hold(np.array([1.0, 2.0]))
    error = caught(check_vjp, weights_in(take, who == "the forward")(), X, kwargs={"weights": weights})
    assert error.kind == "writes"
    assert "setting" in str(error)
    assert take(weights)[0].tolist() == [1.0, 2.0]
    assert take(weights)[0].flags.writeable


@pytest.mark.parametrize("make", RIGHT)
def test_right_ops_that_look_alike_pass(make):
    check_vjp(make(), X)


def reading(take):
    return lambda g, weights: g * np.sum(take(weights)[0])


def test_an_array_in_a_setting_is_read_as_it_was():
    for hold, take in HOLDERS.values():
        weight = np.array([1.0, 2.0])
        op = weights_in(take, forward_writes=False)()
        op.vjp("x")(reading(take))
        x = ad.Tensor(X, requires_grad=True)
        y = op(x, weights=hold(weight))
        weight *= 10
        y.backward(np.ones(3))
        assert x.grad.tolist() == [3.0, 3.0, 3.0]


def test_a_saved_table_can_be_written_to_afterwards():
    op = constant_table()
    check_vjp(op, X)
    (table,) = (cell.cell_contents for cell in op.forward.__closure__)
    assert table.flags.writeable


def both(forward):
    op = Op(forward, elementwise=True)
    op.vjp("x")(lambda g, x: g * np.cos(x))
    return op


@pytest.mark.parametrize(
    "forward",
    [
        lambda x: x @ x if np.ndim(x) else x * x,
        lambda x: np.sum(np.sin(x)),
        lambda x: np.outer(x, x),
        lambda x: np.sin(x)[None],
        lambda x: (np.sin(x), np.sum(x)),
    ],
)
@pytest.mark.parametrize("first", [None, 0.5])
def test_an_elementwise_op_has_the_broadcast_shape(forward, first):
    op = both(forward)
    if first is not None:  # a number, for which nothing is amiss
        with contextlib.suppress(ValueError, IndexError, TypeError):
            op(ad.Tensor(first, requires_grad=True))
    error = caught(check_vjp, op, X)
    assert error.kind == "shape"
    assert "declared elementwise" in str(error)
    assert "not the broadcast shape of its arguments, (3,)" in str(error)


class Key:
    n = 0


def touch(key):
    key.n += 1


def count(function):
    function.n = getattr(function, "n", 0) + 1


TOUCHED = {
    "a bytearray": (lambda: bytearray(b"ab"), lambda w: w.append(1)),
    "a byte of a bytearray": (lambda: [bytearray(b"ab")], lambda w: w[0].reverse()),
    "an array of numbers": (lambda: array.array("d", [1, 2]), lambda w: w.reverse()),
    "a memoryview": (lambda: memoryview(bytearray(b"ab")), lambda w: w.__setitem__(0, w[0] + 1)),
    "a memoryview of an array": (lambda: {"w": memoryview(np.ones(2))}, lambda w: w["w"].__setitem__(0, w["w"][0] + 1)),
    "a random generator": (lambda: np.random.default_rng(0), lambda w: w.random()),
    "random numbers of the old kind": (lambda: np.random.RandomState(0), lambda w: w.random()),
    "random numbers of the library": (lambda: random.Random(0), lambda w: w.random()),
    "a list in an array of objects": (lambda: np.array([[1], None], object), lambda w: w[0].append(1)),
    "the order of a dictionary": (lambda: OrderedDict(a=1, b=2), lambda w: w.move_to_end(next(iter(w)))),
    "a key of a dictionary": (lambda: {Key(): 1}, lambda w: touch(*w)),
    "an iterator in a list": (lambda: [iter([1] * 1000)], lambda w: next(w[0])),
    "an attribute of a function": (lambda: lambda: 0, count),
}


@pytest.mark.parametrize("name", TOUCHED)
def test_writing_into_what_else_a_setting_may_be_is_found(name):
    make, change = TOUCHED[name]

    def forward(x, *, w):
        change(w)
        return x * 2

    op = Op(forward)
    op.vjp("x")(lambda g: g * 2)
    error = caught(check_vjp, op, X, kwargs={"w": make()})
    assert error.kind == "writes"
    assert "setting 'w'" in str(error)


@pytest.mark.parametrize("name", TOUCHED)
def test_reading_what_else_a_setting_may_be_passes(name):
    op = Op(lambda x, *, w: x * 2)
    op.vjp("x")(lambda g: g * 2)
    check_vjp(op, X, kwargs={"w": TOUCHED[name][0]()})


@pytest.mark.parametrize("make", [lambda: iter([1.0, 2.0]), lambda: (i for i in (1.0, 2.0)), lambda: map(float, "12")])
def test_an_iterator_is_the_tuple_that_the_op_sees(make):
    op = Op(lambda x, *, w: x * sum(w))
    op.vjp("x")(lambda g, w: g * sum(w))
    assert check_vjp(op, X, kwargs={"w": make()}).nonzero == X.size
    wrong = Op(lambda x, *, w: x * sum(w))
    wrong.vjp("x")(lambda g, w: g * w[0])
    assert caught(check_vjp, wrong, X, kwargs={"w": make()}).kind == "value"
