"""Copies of elements: the cotangents of all copies are summed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, broadcastable_shapes

import autodiff as ad
import autodiff.functional as F
from autodiff import Tensor

SHAPES = array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3)


def leaf(data):
    return Tensor(np.asarray(data, float), requires_grad=True)


def whole(rng, shape):
    return rng.integers(-9, 10, size=shape).astype(float)


def check_adjoint(f, shape):
    """<v, f(u)> = <J^T v, u>, exactly, and the gradient of the gradient is f again."""
    rng = np.random.default_rng(0)
    x, u = leaf(whole(rng, shape)), whole(rng, shape)
    y = f(x)
    v = leaf(whole(rng, y.shape))
    g = ad.gradients(y, x, v, create_graph=True)
    assert g.shape == shape
    assert np.sum(v.data * f(u)) == np.sum(g.data * u)
    np.testing.assert_array_equal(ad.gradients(g, v, u).data, f(u))


@given(st.data(), SHAPES)
def test_broadcast_to(data, shape):
    wide = data.draw(broadcastable_shapes(shape, min_dims=len(shape), max_dims=4, min_side=0, max_side=3))
    wide = np.broadcast_shapes(shape, wide)
    check_adjoint(lambda x: np.broadcast_to(x, wide), shape)


def test_every_copy_of_a_broadcast_row_contributes():
    x = leaf([1.0, 2.0, 3.0])
    np.broadcast_to(x, (4, 3)).sum().backward()
    np.testing.assert_array_equal(x.grad, [4.0, 4.0, 4.0])


def test_a_broadcast_to_nothing_has_the_gradient_zero():
    x = leaf(np.ones((4, 1)))
    np.broadcast_to(x, (4, 0)).sum().backward()
    np.testing.assert_array_equal(x.grad, np.zeros((4, 1)))


@given(SHAPES, st.one_of(st.integers(0, 3), st.lists(st.integers(0, 3), max_size=4).map(tuple)))
def test_tile(shape, reps):
    check_adjoint(lambda x: np.tile(x, reps), shape)


@given(st.data(), SHAPES)
def test_repeat(data, shape):
    axis = data.draw(st.sampled_from([None, *range(-len(shape), len(shape))]))
    length = int(np.prod(shape)) if axis is None else shape[axis]
    counts = st.lists(st.integers(0, 3), min_size=length, max_size=length)
    repeats = data.draw(st.one_of(st.integers(0, 3), counts, counts.map(lambda c: np.array(c, int))))
    check_adjoint(lambda x: np.repeat(x, repeats, axis), shape)


@pytest.mark.parametrize("axis", [None, 0, -1])
def test_repeat_of_one_number(axis):
    check_adjoint(lambda x: np.repeat(x, 3, axis), ())


def test_repeat_by_method():
    x = leaf([[1.0, 2.0], [3.0, 4.0]])
    assert x.repeat(2, axis=1).tolist() == [[1, 1, 2, 2], [3, 3, 4, 4]]
    assert x.repeat([0, 2], axis=0).tolist() == [[3, 4], [3, 4]]


def test_repeat_by_a_fraction_is_refused():
    with pytest.raises(TypeError, match=r"repeats must be integers, got 1\.5"):
        F.repeat(leaf([1.0]), repeats=1.5)


@given(st.data(), SHAPES)
def test_pad_with_zeros(data, shape):
    widths = data.draw(st.tuples(*[st.tuples(st.integers(0, 3), st.integers(0, 3)) for _ in shape]))
    check_adjoint(lambda x: np.pad(x, widths or 2), shape)


@given(st.data(), array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=3))
def test_pad_with_copies(data, shape):
    mode = data.draw(st.sampled_from(["edge", "reflect", "symmetric", "wrap"]))
    widths = data.draw(st.tuples(*[st.tuples(st.integers(0, 7), st.integers(0, 7)) for _ in shape]))
    check_adjoint(lambda x: np.pad(x, widths, mode), shape)


@pytest.mark.parametrize("pad_width", [1, (1, 2), [(1, 2)], ((1, 2), (0, 3)), ((1,), (2,)), np.array([[0, 1], [2, 0]])])
def test_pad_takes_widths_in_all_of_numpys_forms(pad_width):
    check_adjoint(lambda x: F.pad(x, pad_width=pad_width), (2, 3))
    check_adjoint(lambda x: F.pad(x, pad_width=pad_width, mode="edge"), (2, 3))


def test_pad_with_constants():
    x = leaf([[1.0, 2.0]])
    y = np.pad(x, ((0, 1), (1, 0)), constant_values=((0, 7), (8, 0)))
    assert y.tolist() == np.pad(x.data, ((0, 1), (1, 0)), constant_values=((0, 7), (8, 0))).tolist()
    y.backward([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    np.testing.assert_array_equal(x.grad, [[2.0, 3.0]])


def test_pad_in_another_mode_names_the_modes():
    with pytest.raises(ValueError, match="'mean' is not one of constant, edge, reflect, symmetric, wrap"):
        np.pad(leaf([1.0]), 1, "mean")
    with pytest.raises(ValueError, match="constant_values"):
        F.pad(leaf([1.0]), pad_width=1, mode="edge", constant_values=0.0)
    with pytest.raises(TypeError, match=r"pad_width must be integers.*got 1\.5"):
        F.pad(leaf([1.0]), pad_width=1.5)


def test_a_constant_with_a_gradient_is_refused():
    with pytest.raises(TypeError, match="'constant_values' is not differentiable"):
        np.pad(leaf([1.0]), 1, constant_values=leaf(2.0))


@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.tile(x, 2), lambda x: np.repeat(x, [1, 2]), lambda x: np.pad(x, 1, "wrap"), lambda x: np.pad(x, 1),
        lambda x: np.broadcast_to(x, (3, 2)),
    ],
)  # fmt: skip
def test_float32_stays(f):
    x = Tensor(np.ones(2, np.float32), requires_grad=True)
    y = f(x)
    assert y.dtype == np.float32
    (rule, needs), *_ = y.node.plan.rules
    assert rule.run(y.node, np.ones(y.shape, np.float32), needs).dtype == np.float32
