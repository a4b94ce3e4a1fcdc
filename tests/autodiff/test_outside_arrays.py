"""Masked arrays and matrices are refused also inside of sequences and objects of other classes, where NumPy looks."""

from __future__ import annotations

from array import array
from collections import UserList, deque

import numpy as np
import pytest

import autodiff as ad
from autodiff import Tensor, nn
from autodiff.op import Op


def leaf(data):
    return Tensor(np.asarray(data, np.float64), requires_grad=True)


class Sequence:
    """A sequence by its methods alone."""

    def __init__(self, parts):
        self.parts = parts

    def __len__(self):
        return len(self.parts)

    def __getitem__(self, i):
        return self.parts[i]


class Column:
    """An object that has an array, such as a column of a table."""

    def __init__(self, values):
        self.values, self.asked = values, 0

    def __array__(self, dtype=None, copy=None):
        self.asked += 1
        return self.values


def loaded(value):
    module = nn.Module()
    module.w = leaf(np.ones((1, 3)))
    module.load_state_dict({"w": value})


def set_attribute(name):
    return lambda value: setattr(leaf(np.ones((1, 3))), name, value)


MASKED = np.ma.masked_array([1.0, 2.0, 3.0], mask=[False, True, False])
with pytest.warns(PendingDeprecationWarning):
    MATRIX = np.matrix([[1.0, 2.0]])
HOLDERS = {
    "deque": lambda part: deque([part]),
    "UserList": lambda part: UserList([part]),
    "sequence": lambda part: Sequence([part]),
    "list of a deque": lambda part: [deque([part])],
    "object": Column,
    "list of an object": lambda part: [Column(part)],
}
USES = {
    "Tensor": Tensor,
    "as_tensor": ad.as_tensor,
    "operand": lambda value: leaf(np.ones(3)) * value,
    "function": lambda value: np.add(leaf(np.ones(3)), value),
    "variable": lambda value: ad.grad(np.sum)(value),
    "cotangent": lambda value: (leaf(np.ones((1, 3))) * 2.0).backward(value),
    "data": set_attribute("data"),
    "grad": set_attribute("grad"),
    "item": lambda value: Tensor(np.ones((1, 3))).__setitem__(..., value),
    "state": loaded,
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("holder", HOLDERS)
def test_what_has_a_mask_is_refused_wherever_it_is(holder, use):
    with pytest.raises((TypeError, ValueError), match="without a mask"):
        USES[use](HOLDERS[holder](MASKED))


@pytest.mark.parametrize("holder", HOLDERS)
def test_a_matrix_is_refused_wherever_it_is(holder):
    with pytest.raises(TypeError, match="multiplies by rules of its own"):
        Tensor(HOLDERS[holder](MATRIX))


@pytest.mark.parametrize("index", [np.ma.masked_array([True, True, False], mask=[False, True, False]), (MATRIX > 1,)])
def test_an_index_with_a_mask_or_a_matrix_is_refused_in_an_assignment(index):
    c = Tensor(np.zeros(3))
    with pytest.raises(TypeError, match=r"t\[index\] takes arrays"):
        c[index] = 1.0
    assert not c.data.any()


@pytest.mark.parametrize("holder", HOLDERS)
def test_what_has_no_mask_is_taken(holder):
    values = HOLDERS[holder](np.array([1.0, 2.0, 3.0]))
    x = leaf(np.ones(3))
    np.sum(x * values).backward()
    np.testing.assert_array_equal(x.grad, [1.0, 2.0, 3.0])
    assert Tensor(values).data.sum() == 6.0


def test_an_array_of_an_object_is_made_once():
    column = Column(np.array([1.0, 2.0]))
    Tensor(column)
    leaf([1.0, 2.0]) * column
    assert column.asked == 2


def test_other_buffers_and_settings_are_not_gone_through():
    np.testing.assert_array_equal(Tensor(memoryview(array("d", [1.0, 2.0]))).data, [1.0, 2.0])

    class Table(Sequence):
        def __getitem__(self, i):
            raise AssertionError("read")

    op = Op(lambda x, *, table: x * len(table))
    op.vjp("x")(lambda g, table: g * len(table))
    x = leaf(1.0)
    op(x, table=Table([1, 2])).backward()
    assert x.grad == 2.0


def test_iterators_over_an_array_are_not_used_up():
    assert Tensor(np.nditer(np.arange(3.0))).tolist() == [0, 1, 2]
    assert Tensor(np.arange(4.0).reshape(2, 2).flat).tolist() == [0, 1, 2, 3]
