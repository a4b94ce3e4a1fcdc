"""Rearranging axes: every rule is the way back, tested as an exact adjoint on integer-valued floats."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes

import autodiff as ad
import autodiff.functional as F
from autodiff import Tensor

SHAPES = array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=3)
LAYOUTS = st.sampled_from(["C", "F", "reversed", "strided"])


def whole(rng, shape):
    """Floats with integer values: their sums are exact in any order."""
    return rng.integers(-9, 10, size=shape).astype(float)


def laid_out(values, layout):
    """The same values in another memory layout."""
    if layout == "F" and values.ndim:
        return np.asfortranarray(values)
    if layout == "reversed" and values.ndim:
        return values[::-1].copy()[::-1]
    if layout == "strided" and values.ndim:
        return np.repeat(values, 2, axis=-1)[..., ::2]
    return values


def check_adjoint(f, shape, layout="C"):
    """<v, f(u)> = <J^T v, u>, and the gradient of the gradient is f again."""
    rng = np.random.default_rng(0)
    x, u = Tensor(whole(rng, shape), requires_grad=True), whole(rng, shape)
    y = f(x)
    np.testing.assert_array_equal(y.data, f(x.data))
    v = Tensor(laid_out(whole(rng, y.shape), layout), requires_grad=True)
    g = ad.gradients(y, x, v, create_graph=True)
    assert g.shape == shape
    assert np.sum(v.data * f(u)) == np.sum(g.data * u)
    np.testing.assert_array_equal(ad.gradients(g, v, u).data, f(u))


def permutations(ndim):
    """Orders of the axes, each axis counted from either end."""
    return st.permutations(range(ndim)).flatmap(
        lambda order: st.tuples(*[st.sampled_from([axis, axis - ndim]) for axis in order])
    )


def axes_of(shape, **limits):
    ndim = len(shape)
    choice = st.lists(st.integers(0, ndim - 1), unique=True, **limits) if ndim else st.just([])
    return choice.flatmap(lambda axes: st.tuples(*[st.sampled_from([axis, axis - ndim]) for axis in axes]))


@given(st.data(), SHAPES, LAYOUTS)
def test_transpose(data, shape, layout):
    axes = data.draw(permutations(len(shape)))
    check_adjoint(lambda x: np.transpose(x, axes), shape, layout)
    check_adjoint(np.transpose, shape, layout)


@pytest.mark.parametrize("axes", list(itertools.permutations(range(3))))
def test_transpose_of_a_cube_goes_back_by_the_inverse(axes):
    # Equal sides hide a permutation applied instead of its inverse from every check of shapes.
    check_adjoint(lambda x: F.transpose(x, axes=axes), (3, 3, 3))


def test_gradient_of_a_transpose_has_the_inverse_order():
    x = Tensor(np.zeros((2, 3, 4)), requires_grad=True)
    c = np.arange(24.0).reshape(3, 4, 2)
    x.transpose(1, 2, 0).backward(c)
    np.testing.assert_array_equal(x.grad, np.transpose(c, (2, 0, 1)))


@pytest.mark.parametrize(("axes", "inverse"), [((0, -1, 1), (0, 2, 1)), ((-1, 0, -2), (1, 2, 0))])
def test_negative_axes_are_counted_from_the_front_before_they_are_inverted(axes, inverse):
    x = Tensor(np.zeros((2, 3, 4)), requires_grad=True)
    y = x.transpose(axes)
    c = np.arange(24.0).reshape(y.shape)
    y.backward(c)
    np.testing.assert_array_equal(x.grad, np.transpose(c, inverse))


@pytest.mark.parametrize("axes", [0, -1, (0,), [0], np.array([0])])
def test_transpose_of_a_vector(axes):
    check_adjoint(lambda x: np.transpose(x, axes), (3,))


@given(st.data(), SHAPES, LAYOUTS)
def test_reshape(data, shape, layout):
    size = int(np.prod(shape))
    sides = [side for side in range(1, size + 1) if size % side == 0] or [3]
    first = data.draw(st.sampled_from(sides))
    new = data.draw(st.sampled_from([(first, size // first), (first, 1, -1), (-1,), shape]))
    if size == 0 and -1 in new:
        new = (0, first)
    check_adjoint(lambda x: np.reshape(x, new), shape, layout)


@given(st.data(), SHAPES.filter(bool), LAYOUTS)
def test_swapaxes_and_moveaxis(data, shape, layout):
    axis = st.integers(-len(shape), len(shape) - 1)
    one, two = data.draw(axis), data.draw(axis)
    check_adjoint(lambda x: np.swapaxes(x, one, two), shape, layout)
    check_adjoint(lambda x: np.moveaxis(x, one, two), shape, layout)
    source = data.draw(axes_of(shape))
    destination = data.draw(axes_of(shape, min_size=len(source), max_size=len(source)))
    check_adjoint(lambda x: np.moveaxis(x, source, destination), shape, layout)


@given(st.data(), SHAPES, LAYOUTS)
def test_expand_dims_and_squeeze(data, shape, layout):
    count = data.draw(st.integers(0, 2))
    new = data.draw(axes_of((*shape, *[1] * count), min_size=count, max_size=count))
    expanded = np.expand_dims(np.zeros(shape), new).shape
    check_adjoint(lambda x: np.expand_dims(x, new), shape, layout)
    check_adjoint(lambda x: np.squeeze(x, new), expanded, layout)
    check_adjoint(np.squeeze, expanded, layout)


@given(st.data(), SHAPES, LAYOUTS)
def test_flip(data, shape, layout):
    axis = data.draw(axes_of(shape))
    check_adjoint(lambda x: np.flip(x, axis), shape, layout)
    check_adjoint(np.flip, shape, layout)


def test_methods_and_properties_record_the_same_ops():
    x = Tensor(np.arange(6.0).reshape(1, 2, 3), requires_grad=True)
    calls = [
        (x.reshape(3, 2), "reshape", (3, 2)), (x.reshape((6,)), "reshape", (6,)), (x.reshape(-1), "reshape", (6,)),
        (x.ravel(), "reshape", (6,)), (x.transpose(), "transpose", (3, 2, 1)), (x.T, "transpose", (3, 2, 1)),
        (x.transpose(2, 0, 1), "transpose", (3, 1, 2)), (x.mT, "swapaxes", (1, 3, 2)),
        (x.swapaxes(0, -1), "swapaxes", (3, 2, 1)), (x.squeeze(), "squeeze", (2, 3)), (x.squeeze(0), "squeeze", (2, 3)),
    ]  # fmt: skip
    assert [(y.node.op.name, y.shape) for y, _, _ in calls] == [(name, shape) for _, name, shape in calls]


@pytest.mark.parametrize(
    "f",
    [lambda x: x.reshape(6), lambda x: x.T, lambda x: x.mT, np.flip, lambda x: x.reshape(2, 3), lambda x: x[None]],
)
def test_views_cannot_be_written_to(f):
    x = Tensor(np.arange(6.0).reshape(2, 3), requires_grad=True)
    with pytest.raises(ValueError, match="read-only"):
        f(x).data[...] = 0
    x.data[...] = 1.0  # the leaf itself can


def test_a_size_that_does_not_fit_names_the_op():
    with pytest.raises(ValueError, match="cannot reshape") as error:
        F.reshape(Tensor(np.ones((2, 3)), requires_grad=True), shape=(4, 2))
    assert "in the op 'reshape', on arguments of shapes (2, 3)" in error.value.__notes__


@pytest.mark.parametrize("shape", [(3, 2), (6,), -1, (-1, 3), (1, 6, 1)])
def test_orders_of_reshape(shape):
    a = np.arange(6.0).reshape(2, 3)
    for order in ("C", "F"):
        x = Tensor(a, requires_grad=True)
        y = np.reshape(x, shape, order)
        np.testing.assert_array_equal(y.data, np.reshape(a, shape, order))
        y.backward(y.data)  # the way back leads every element to its place
        np.testing.assert_array_equal(x.grad, a)
    with pytest.raises(ValueError, match="order='C' or 'F': 'A' depends on the layout"):
        np.reshape(Tensor(a), shape, "A")
