"""Picking elements and its adjoint, for every kind of index that NumPy has."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays, basic_indices

import autodiff as ad
import autodiff.functional as F
from autodiff import Tensor

SHAPES = array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)


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


@st.composite
def mixed_indices(draw, shape):
    """Numbers, slices, new axes, an ellipsis, and integer and boolean arrays that broadcast against each other."""
    count = draw(st.sampled_from([1, 2, 3]))
    picked = st.sampled_from([(count,), (1,), (2, count)])
    parts, axis = [], 0
    while axis < len(shape):
        side = shape[axis]
        kinds = ["slice", "new", "end"] + ["number", "numbers", "mask"] * (side > 0)
        kind = draw(st.sampled_from(kinds))
        if kind == "end":
            break
        if kind == "number":
            parts.append(draw(st.one_of(st.integers(-side, side - 1), st.just(np.int64(side - 1)))))
        elif kind == "numbers":
            parts.append(draw(arrays(np.intp, picked, elements=st.integers(-side, side - 1))))
        elif kind == "mask":
            mask = np.zeros(side, bool)
            mask[draw(st.lists(st.integers(0, side - 1), min_size=min(count, side), max_size=side, unique=True))] = True
            parts.append(mask)
        elif kind == "slice":
            parts.append(draw(st.slices(side)))
        else:
            parts.append(None)
        axis += kind != "new"
    if draw(st.booleans()):
        parts.insert(draw(st.integers(0, len(parts))), ...)
        # What stands behind the ellipsis indexes the last axes, which may be shorter.
    return tuple(parts)


def picks(shape, index):
    try:
        np.zeros(shape)[index]
    except IndexError:
        return False
    return True


@given(st.data(), SHAPES)
def test_basic_indices(data, shape):
    index = data.draw(basic_indices(shape, allow_newaxis=True))
    check_adjoint(lambda x: x[index], shape)


@given(st.data(), SHAPES)
def test_mixed_indices(data, shape):
    index = data.draw(mixed_indices(shape).filter(lambda index: picks(shape, index)))
    check_adjoint(lambda x: x[index], shape)
    values = whole(np.random.default_rng(1), np.zeros(shape)[index].shape)
    expected = np.zeros(shape)
    np.add.at(expected, index, values)
    np.testing.assert_array_equal(F.scatter_add(values, index=index, shape=shape), expected)


@given(st.data(), array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=3))
def test_masks_of_several_axes(data, shape):
    axes = data.draw(st.integers(1, len(shape)))
    mask = data.draw(arrays(bool, shape[:axes]))
    check_adjoint(lambda x: x[mask], shape)
    check_adjoint(lambda x: x[..., mask], shape[::-1][axes:] + shape[:axes])


@pytest.mark.parametrize(
    ("shape", "index"),
    [
        ((3, 4), (True, 0)),
        ((3, 4), np.array(True)),
        ((3, 4), False),
        ((3, 4), []),
        ((3, 4), ([], slice(None))),
        ((3, 4), np.array(2)),
        ((3, 4), ((0, 2), 1)),
        ((3, 4, 2), (0, slice(None), [1, 1])),
        ((3, 4, 2), ([0, 0], ..., [1, 1])),
        ((3, 4), ([0, 2], ..., [1, 1])),
        ((3, 4), (np.array([True, False, True]), np.array([True, False, False, True]))),
        ((3, 4), (np.array([True, False, True]), [1])),
        ((3, 4), (np.array([False, True, False]), [1, 1, 1])),
        ((3, 4), (np.array([True, False, True]), np.array([False, False, True, False]))),
        ((3, 4), (None, [2, 2], None)),
        ((2, 3, 4), (..., [1, 1])),
        ((2, 3, 4, 2), ([0, 0], ..., [1, 1])),
        ((3, 2, 4), (np.ones((3, 2), bool), [2])),
        ((2, 2, 4), (np.array([[True, False], [True, False]]), [3, 3])),
        ((3, 4), np.array([2, 0, 2], np.uint8)),
    ],
)
def test_odd_indices(shape, index):
    check_adjoint(lambda x: x[index], shape)


def test_an_element_picked_twice_gets_both_cotangents():
    x = leaf([1.0])
    x[[0, 0]].sum().backward()
    np.testing.assert_array_equal(x.grad, [2.0])


def test_rows_of_a_table():
    table = leaf(np.zeros((3, 2)))
    table[[0, 2, 0]].backward(np.ones((3, 2)))
    np.testing.assert_array_equal(table.grad, [[2, 2], [0, 0], [1, 1]])


def test_a_slice_passes_its_gradient_on():
    x = leaf([1.0, 2.0, 3.0])
    y = x[1:]
    (y * y).sum().backward()
    np.testing.assert_array_equal(x.grad, [0.0, 4.0, 6.0])


def test_tensors_as_indices():
    x = leaf([[1.0, 2.0], [3.0, 4.0]])
    assert x[Tensor([1, 0]), Tensor(1)].tolist() == [4.0, 2.0]
    assert x[Tensor(x.data > 1.5)].tolist() == [2.0, 3.0, 4.0]
    with pytest.raises(IndexError):
        x[leaf([0.0])]


def test_iteration_and_unpacking():
    x = leaf([[1.0, 2.0], [3.0, 4.0]])
    first, second = x
    (first * 10.0 + second).backward([1.0, 2.0])
    np.testing.assert_array_equal(x.grad, [[10.0, 20.0], [1.0, 2.0]])


def test_basic_indexing_is_a_view_that_cannot_be_written_to():
    x = leaf([1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match="read-only"):
        x[1:].data[0] = 5.0
    x[[1]].data[0] = 5.0  # a copy
    assert x.tolist() == [1.0, 2.0, 3.0]


def test_scatter_add_differentiates_to_picking():
    v = leaf([1.0, 2.0, 3.0])
    y = F.scatter_add(v, index=[0, 2, 0], shape=(4,))
    assert y.tolist() == [4.0, 0.0, 2.0, 0.0]
    y.backward([1.0, 2.0, 3.0, 4.0])
    np.testing.assert_array_equal(v.grad, [1.0, 3.0, 1.0])


def test_scatter_add_takes_values_of_the_picked_shape_only():
    for index in ([0, 1], slice(2), (np.array([True, True, False]),)):
        with pytest.raises(ValueError, match=r"values of shape \(1,\), but this index picks the shape \(2,\)"):
            F.scatter_add(np.ones(1), index=index, shape=(3,))


@given(st.data(), array_shapes(min_dims=0, max_dims=3, min_side=1, max_side=3))
def test_take(data, shape):
    axis = data.draw(st.sampled_from([None, *range(-len(shape), len(shape))]))
    side = int(np.prod(shape)) if axis is None else shape[axis]
    picked = data.draw(
        arrays(np.intp, array_shapes(min_dims=0, max_dims=2, max_side=3), elements=st.integers(-side, side - 1))
    )
    check_adjoint(lambda x: np.take(x, picked, axis), shape)
    check_adjoint(lambda x: F.take(x, Tensor(picked), axis=axis), shape)


def test_take_of_one_number():
    check_adjoint(lambda x: np.take(x, 1, 0), (3, 2))
    check_adjoint(lambda x: np.take(x, [0, 0], 0), ())


def test_take_refuses_a_mask():
    with pytest.raises(TypeError, match=r"with a mask write x\[mask\]"):
        leaf([1.0, 2.0]).take([True, False])


@given(st.data(), array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=3))
def test_take_along_axis(data, shape):
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    given_shape = [data.draw(st.sampled_from([1, side])) for side in shape]
    given_shape[axis] = data.draw(st.integers(0, 3))
    picked = data.draw(arrays(np.intp, tuple(given_shape), elements=st.integers(-shape[axis], shape[axis] - 1)))
    check_adjoint(lambda x: np.take_along_axis(x, picked, axis), shape)
    single = tuple(side if i == axis % len(shape) else 1 for i, side in enumerate(shape))
    check_adjoint(lambda x: np.take_along_axis(x, picked, axis), single)
    flat = picked.ravel() % shape[axis]
    check_adjoint(lambda x: np.take_along_axis(x, flat, None), shape)


def test_sorting_by_argsort():
    x = leaf([[3.0, 1.0, 2.0], [5.0, 6.0, 4.0]])
    y = np.take_along_axis(x, np.argsort(x, axis=1), axis=1)
    assert y.tolist() == [[1, 2, 3], [4, 5, 6]]
    y.backward([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    np.testing.assert_array_equal(x.grad, [[3, 1, 2], [5, 6, 4]])


@pytest.mark.parametrize(
    "f",
    [lambda x: x[[0, 0]], lambda x: x[1:], lambda x: x[x.data > 0], lambda x: np.take(x, [1, 1]), lambda x: x[1]],
)
def test_float32_stays(f):
    x = Tensor(np.ones(2, np.float32), requires_grad=True)
    y = f(x)
    assert y.dtype == np.float32
    (rule, needs), *_ = y.node.plan.rules
    assert rule.run(y.node, np.ones(y.shape, np.float32)[()], needs).dtype == np.float32


class Number:
    """A number that is read as an index, and can change."""

    def __init__(self, number):
        self.number = number

    def __index__(self):
        return self.number

    def __setitem__(self, _, number):
        self.number = number


def set_number(bound, number):
    if isinstance(bound, Tensor):
        bound.data = number
    else:
        bound[...] = number


@pytest.mark.parametrize("made", [np.array, Tensor, Number], ids=["array", "tensor", "object"])
@pytest.mark.parametrize(
    "pick",
    [
        lambda x, part: x[part],
        lambda x, part: x[..., part],
        lambda x, part: 2.0 * F.set_at(x, part, 0.0) + x,
        lambda x, part: F.scatter_add(x[:2], index=part, shape=(4,)) * [1.0, 2.0, 3.0, 4.0],
        lambda x, part: F.scatter_add(x[:2], index=(part,), shape=(4,)) * [1.0, 2.0, 3.0, 4.0],
    ],
    ids=["alone", "in a tuple", "set_at", "scatter_add", "scatter_add, in a tuple"],
)
def test_bounds_of_a_slice_that_change_later_change_no_gradient(pick, made):
    x, expected = leaf(np.arange(4.0)), leaf(np.arange(4.0))
    pick(expected, slice(0, 2, 1)).sum().backward()
    bounds = [made(0), made(2), made(1)]
    y = pick(x, slice(*bounds))
    for bound in bounds:
        set_number(bound, 3)
    y.sum().backward()
    np.testing.assert_array_equal(x.grad, expected.grad)
