"""Nested containers: taking apart, putting together, comparing."""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autodiff.trees import is_leaf, leaves, matching, rebuild


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
