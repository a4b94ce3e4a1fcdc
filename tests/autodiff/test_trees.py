"""Nested containers: taking apart, putting together, comparing."""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import autodiff as ad
from autodiff import Tensor
from autodiff.op import Op
from autodiff.trees import is_leaf, leaves, matching, rebuild


class Frozen(dict):
    """A dictionary that cannot be changed."""

    __slots__ = ()

    def __setitem__(self, key, value):
        raise TypeError("frozen")

    def update(self, *args):
        raise TypeError("frozen")


class Adding(OrderedDict):
    """A dictionary that adds what is assigned to what was there, and knows its unit."""

    unit = "none"

    def __setitem__(self, key, value):
        super().__setitem__(key, self[key] + value if key in self else value)

    def update(self, other):
        for key, value in dict(other).items():
            self[key] = value


class Halves(dict):
    """A dictionary that halves what is assigned."""

    def __setitem__(self, key, value):
        super().__setitem__(key, value / 2)

    def update(self, other):
        for key, value in dict(other).items():
            self[key] = value


class Growing(list):
    """A list that cannot be assigned to, and is made of a length."""

    def __init__(self, length):
        super().__init__([np.ones(2)] * length)

    def __setitem__(self, index, value):
        raise TypeError("growing")


class Point(NamedTuple):
    x: object
    y: object


leaf = st.integers(0, 9)
trees = st.recursive(
    leaf | st.none(),
    lambda parts: st.one_of(
        st.lists(parts, max_size=3),
        st.lists(parts, max_size=3).map(tuple),
        st.dictionaries(st.sampled_from("cab"), parts),
        st.tuples(parts, parts).map(lambda pair: Point(*pair)),
    ),
    max_leaves=8,
)


def values(tree):
    return [value for _, value in leaves(tree)]


@given(trees)
def test_rebuilt_from_its_own_leaves_a_tree_is_equal(tree):
    again = rebuild(tree, iter(values(tree)))
    assert again == tree
    assert type(again) is type(tree)


@given(trees)
def test_a_tree_matches_itself(tree):
    assert [value for _, value in matching(tree, tree, "t")] == values(tree)


def test_leaves_have_places():
    tree = {"w": [1, (2, None)], "p": Point(3, 4)}
    assert list(leaves(tree, "argument 0")) == [
        ("argument 0['w'][0]", 1), ("argument 0['w'][1][0]", 2), ("argument 0['p'].x", 3), ("argument 0['p'].y", 4),
    ]  # fmt: skip


def test_containers_keep_their_type():
    made = rebuild([OrderedDict(b=1, a=2), defaultdict(list, c=3), Point(4, 5)], iter([10, 20, 30, 40, 50]))
    assert made == [OrderedDict(b=10, a=20), {"c": 30}, Point(40, 50)]
    assert type(made[0]) is OrderedDict
    assert made[1]["new"] == []
    assert type(made[2]) is Point


def test_dictionaries_match_by_key_in_the_order_of_the_model():
    assert [value for _, value in matching({"b": 0, "a": 0}, {"a": 1, "b": 2}, "t")] == [2, 1]


def test_what_stands_for_a_leaf_may_be_anything():
    assert list(matching((0, 0), (1, [2, 3]), "t")) == [("t[0]", 1), ("t[1]", [2, 3])]


@pytest.mark.parametrize(
    ("model", "tree", "message"),
    [
        ((0, 0), (0,), r"t must be a tuple with \[0\], \[1\]; it is a tuple with \[0\]"),
        ({"a": [0]}, {"a": 0}, r"t\['a'\] must be a list with \[0\]; it is a int"),
        ({"a": 0}, {"b": 0}, r"t must be a dict with \['a'\]; it is a dict with \['b'\]"),
        (None, 0, "t must be None; it is a int"),
        ((), None, "t must be a tuple with nothing in it; it is None"),
    ],
)
def test_trees_that_differ(model, tree, message):
    with pytest.raises(TypeError, match=message):
        list(matching(model, tree, "t"))


def test_arrays_and_strings_are_leaves_and_none_is_not():
    assert all(map(is_leaf, (np.ones(2), "text", 1.0, {1}, range(3))))
    assert not any(map(is_leaf, (None, [], (), {})))


def filled(kind):
    """Make a container with the parts u and v."""
    u, v = np.array([1.0, 2.0]), np.array([3.0, 4.0])
    if issubclass(kind, list):
        made = kind(2)
        list.__setitem__(made, slice(None), [u, v])
        return made
    return kind({"v": v, "u": u})


CONTAINERS = [Counter, Frozen, Adding, Halves, Growing]


def product(p):
    u, v = p if isinstance(p, list) else (p["u"], p["v"])
    return (u * v**2).sum()


@pytest.mark.parametrize("kind", CONTAINERS)
def test_containers_that_reckon_with_what_is_assigned_are_rebuilt(kind):
    given = filled(kind)
    plain = list(given) if kind is Growing else dict(given)
    expected = ad.grad(product)(plain)
    found = ad.grad(product)(given)
    assert type(found) is kind
    _, pull = ad.vjp(product, given)
    for tree in (found, pull(1.0)[0]):
        for place in (0, 1) if kind is Growing else "uv":
            np.testing.assert_array_equal(tree[place], expected[place])
    assert ad.jvp(product, (given,), (given,))[1] == ad.jvp(product, (plain,), (plain,))[1]
    if kind is not Growing:
        assert list(found) == list(given)


@pytest.mark.parametrize("kind", CONTAINERS)
def test_containers_that_reckon_with_what_is_assigned_come_out_of_recompute(kind):
    x = Tensor([1.0, 2.0], requires_grad=True)

    def f(x):
        made = filled(kind)
        put = list.__setitem__ if kind is Growing else dict.__setitem__
        put(made, 0 if kind is Growing else "u", x * x)
        return made

    out = ad.recompute(f)(x)
    assert type(out) is kind
    out[0 if kind is Growing else "u"].sum().backward()
    np.testing.assert_array_equal(x.grad, [2.0, 4.0])


@pytest.mark.parametrize("kind", CONTAINERS)
def test_containers_that_reckon_with_what_is_assigned_are_copied_as_settings(kind):
    op = Op(lambda x, *, parts: x * product(parts))
    op.vjp("x")(lambda g, parts: g * product(parts))
    x, given = Tensor(1.0, requires_grad=True), filled(kind)
    expected = product(given)
    y = op(x, parts=given)
    for part in given if kind is Growing else given.values():
        part[...] = 0.0
    y.backward()
    assert y == expected == x.grad
