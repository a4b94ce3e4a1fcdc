"""Named tuples and other subclasses of tuple, list and dict are what the plain ones are, wherever one is given."""

from collections import OrderedDict, namedtuple

import numpy as np
import pytest

import autodiff as ad
import autodiff.functional as F
from autodiff import Tensor, op

Pair = namedtuple("Pair", "i j")
MATRIX = np.arange(1.0, 7.0).reshape(2, 3)
MASK = np.array([[True, False, True], [False, True, False]])


class Own(tuple):
    """A tuple whose constructor takes its parts one by one."""

    __slots__ = ()

    def __new__(cls, *parts):
        return super().__new__(cls, parts)


class Rows(list):
    """A list by another name."""


def leaf(data):
    return Tensor(np.array(data, float), requires_grad=True)


@pytest.mark.parametrize("kind", [Pair, Own])
@pytest.mark.parametrize(
    "call",
    [
        lambda x, pair: x[pair(0, 1)], lambda x, pair: x[pair([0, 0], 1)], lambda x, pair: x[pair(..., None)],
        lambda x, pair: x[pair(MASK, None)], lambda x, pair: x[pair(Tensor([0, 0]), 1)],
        lambda x, pair: F.getitem(x, index=pair([0, 0], slice(1, None))),
        lambda x, pair: F.scatter_add(x[0], index=pair([0, 0, 1], 1), shape=pair(2, 3)),
        lambda x, pair: F.set_at(x, pair([0, 1], 1), 2 * x[1, 1:]),
        lambda x, pair: x.reshape(pair(3, 2)), lambda x, pair: np.broadcast_to(x[0, 0], pair(3, 2)),
        lambda x, pair: x.sum(pair(0, 1)), lambda x, pair: np.std(x, axis=pair(0, 1)),
        lambda x, pair: np.nanmax(x, axis=pair(0, 1)), lambda x, pair: x.transpose(pair(1, 0)),
        lambda x, pair: np.roll(x, pair(1, 2), pair(0, 1)), lambda x, pair: np.pad(x, pair(pair(1, 2), pair(0, 1))),
        lambda x, pair: np.linalg.norm(x, axis=pair(0, 1)), lambda x, pair: F.softmax(x, axis=pair(0, 1)),
        lambda x, pair: np.tensordot(x, x, pair(pair(0, 1), pair(0, 1))), lambda x, pair: np.stack(pair(x, 2 * x)),
        lambda x, pair: F.concatenate(pair(x, 2 * x), axis=1), lambda x, pair: np.linalg.multi_dot(pair(x, x.T)),
        lambda x, pair: np.lexsort(pair(x, 2 * x)), lambda x, pair: np.where(*pair(*np.nonzero(MASK))[:1], x[0, 0], 0),
        lambda x, pair: np.split(x, pair(1, 2), axis=1)[1], lambda x, pair: np.take(x, pair(1, 1)),
    ],
)  # fmt: skip
def test_tuples_of_other_classes(call, kind):
    x, y = leaf(MATRIX), leaf(MATRIX)
    found, expected = call(x, kind), call(y, lambda *parts: parts)
    np.testing.assert_array_equal(getattr(found, "data", found), getattr(expected, "data", expected))
    if isinstance(found, Tensor):
        found.backward(np.ones(found.shape))
        expected.backward(np.ones(found.shape))
        np.testing.assert_array_equal(x.grad, y.grad)


def test_lists_of_other_classes():
    x = leaf(MATRIX)
    assert x[Rows([0, 0])].tolist() == MATRIX[[0, 0]].tolist()
    assert np.stack(Rows([x, x])).tolist() == [MATRIX.tolist()] * 2
    assert np.isin(x, Rows([Tensor(1.0), 2.0])).sum() == 2


def test_an_index_of_another_class_is_copied_too():
    x, rows = leaf(MATRIX), np.array([0, 0])
    y = F.getitem(x, index=Pair(rows, 1))
    rows[:] = 1
    y.sum().backward()
    assert x.grad.tolist() == [[0.0, 2.0, 0.0], [0.0, 0.0, 0.0]]


def test_a_rule_sees_the_names_of_a_setting():
    @op
    def scaled(x, *, factors):
        return x * factors.i

    @scaled.vjp("x")
    def _(g, factors):
        return g * factors.i

    x = leaf([1.0, 2.0])
    scaled(x, factors=Pair(np.array([3.0, 4.0]), "j")).sum().backward()
    assert x.grad.tolist() == [3.0, 4.0]


@pytest.mark.parametrize("tree", [Pair(2.0, 3.0), Own(2.0, 3.0), Rows([2.0, 3.0]), OrderedDict(b=2.0, a=3.0)], ids=repr)
def test_transforms_give_back_containers_of_the_same_class(tree):
    def product(tree):
        first, second = tree.values() if isinstance(tree, dict) else tree
        return first * second

    gradient = ad.grad(product)(tree)
    out, vjp_fn = ad.vjp(lambda tree: tree, tree)
    for found in (gradient, out, *vjp_fn(out), ad.jacobian(lambda tree: tree)(tree)):
        assert type(found) is type(tree)
    assert gradient == type(tree)(**{"b": 3.0, "a": 2.0}) if isinstance(tree, dict) else list(gradient) == [3.0, 2.0]


@pytest.mark.parametrize("recorded", [True, False])
@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (lambda y: Pair(y, y), "returned a Pair: to return several outputs, make it a plain tuple"),
        (lambda y: Rows([y, y]), "returned a Rows: to return several outputs"),
        (lambda y: (y, None), "returned None as output 1"),
        (lambda y: (y, (y, y)), "returned tuple of dtype object as output 1"),
        (lambda y: [y, "text"], "returned str of dtype <U4 as output 1"),
        (lambda y: np.linalg.eigh(y[:, :2]), "returned a EighResult"),
    ],
)
def test_outputs_that_are_no_arrays_are_refused_by_name(answer, says, recorded):
    @op
    def several(x):
        return answer(x)

    several.zero("x")
    with pytest.raises(TypeError, match=f"the forward of 'several' {says}"):
        several(Tensor(MATRIX, requires_grad=recorded))
