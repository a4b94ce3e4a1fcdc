"""Functional assignment, and branches whose other side must not be touched."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, basic_indices

import autodiff as ad
import autodiff.functional as F
from autodiff import Tensor


def leaf(data):
    return Tensor(np.asarray(data, float), requires_grad=True)


def whole(rng, shape):
    return rng.integers(-9, 10, size=shape).astype(float)


# --- set_at ---


def check_linear(shape, index, value_shape):
    """<v, set_at(u, w)> = <g_x, u> + <g_value, w>, exactly, and set_at again from differentiating these."""
    rng = np.random.default_rng(0)
    x, value, u, w = leaf(whole(rng, shape)), leaf(whole(rng, value_shape)), whole(rng, shape), whole(rng, value_shape)
    y = F.set_at(x, index, value)
    expected = x.data.copy()
    expected[index] = value.data
    np.testing.assert_array_equal(y.data, expected)
    v = leaf(whole(rng, shape))
    gx, gv = ad.gradients(y, [x, value], v, create_graph=True)
    assert (gx.shape, gv.shape) == (shape, value_shape)
    result = F.set_at(u, index, w)
    assert np.sum(v.data * result) == np.sum(gx.data * u) + np.sum(gv.data * w)
    np.testing.assert_array_equal(ad.gradients([gx, gv], v, [u, w]).data, result)


@given(st.data(), array_shapes(min_dims=0, max_dims=3, min_side=1, max_side=3))
def test_set_at_basic_indices(data, shape):
    index = data.draw(basic_indices(shape, allow_newaxis=True))
    picked = np.zeros(shape)[index].shape
    narrow = tuple(data.draw(st.sampled_from([1, side])) for side in picked)[data.draw(st.integers(0, len(picked))) :]
    check_linear(shape, index, narrow)


@pytest.mark.parametrize(
    ("index", "value_shape"),
    [
        ([2, 0], (2, 4)), ([2, 0], ()), ([2, 0], (2, 1)), (([0, 1, 0], [1, 1, -1]), (3,)),
        ((slice(None), [3, 0]), (1, 2)), ((1, [0, 2]), (2,)),
        (np.arange(12).reshape(3, 4) % 3 == 0, (4,)), (np.array([True, False, True]), (4,)),
        (([0], ..., [1]), (1,)), ((..., None, 1), (3, 1)),
    ],
)  # fmt: skip
def test_set_at_arrays(index, value_shape):
    check_linear((3, 4), index, value_shape)


def test_set_at_takes_tensors_as_index_and_leaves_x_as_it_was():
    x = leaf([1.0, 2.0, 3.0])
    assert F.set_at(x, Tensor([2]), 9.0).tolist() == [1.0, 2.0, 9.0]
    assert x.tolist() == [1.0, 2.0, 3.0]
    assert type(F.set_at(np.ones(2), 0, 5.0)) is np.ndarray


@pytest.mark.parametrize(
    ("shape", "index", "place"),
    [
        ((4,), [3, 1, 0, 1, 3], "x[1]"),
        ((4,), [0, 2, -4], "x[0]"),
        ((3, 4), ([0, 1, 2, 1], [2, 3, 0, -1]), "x[1, 3]"),
        ((3, 4), [2, 2], "x[2]"),
        ((2, 3), (slice(None), [1, 0, 1]), "x[0, 1]"),
        ((2, 3), (np.array([False, True]), [1, 1]), "x[1, 1]"),
        ((2, 2, 2), ([0, 0], slice(None), [1, 1]), "x[0, 0, 1]"),
    ],
)
def test_set_at_names_the_first_repeated_position(shape, index, place):
    with pytest.raises(ValueError, match="more than once") as error:
        F.set_at(leaf(np.zeros(shape)), index, 1.0)
    assert f"the index names {place} more than once" in str(error.value)


def test_set_at_refuses_what_does_not_fit():
    x = leaf(np.zeros((2, 3)))
    with pytest.raises(ValueError, match=r"value of shape \(2,\) does not fit x\[index\], of shape \(3,\)"):
        F.set_at(x, 0, np.ones(2))
    with pytest.raises(ValueError, match=r"value of shape \(1, 3\) does not fit"):
        F.set_at(x, 0, np.ones((1, 3)))
    with pytest.raises(IndexError):
        F.set_at(x, 2, 0.0)


def test_set_at_never_drops_a_gradient_into_integers():
    with pytest.raises(TypeError, match="x of dtype int64 cannot hold a value of dtype float64; convert x first"):
        F.set_at(Tensor(np.arange(3, dtype=np.int64)), 0, leaf(1.5))
    assert F.set_at(np.arange(3), 0, 7).tolist() == [7, 1, 2]
    assert F.set_at(leaf([0.0, 0.0]), 0, 7).tolist() == [7.0, 0.0]


def test_set_at_keeps_the_dtype_of_x():
    x = Tensor(np.zeros(3, np.float32), requires_grad=True)
    value = leaf([1.0, 2.0])
    y = F.set_at(x, slice(2), value)
    assert y.dtype == np.float32
    assert F.set_at(x, 0, 0.5).dtype == np.float32
    y.backward(np.ones(3, np.float32))
    assert (x.grad.dtype, value.grad.dtype) == (np.float32, np.float64)
    np.testing.assert_array_equal(x.grad, [0, 0, 1])


def test_item_assignment_points_here():
    x = leaf([1.0, 2.0])
    with pytest.raises(TypeError, match=r"F\.set_at\(x, index, value\)"):
        x[0] = 5.0


# --- safe_where ---


def test_safe_where_gives_the_gradient_that_where_cannot():
    x = leaf([-1.0, -4.0])
    with np.errstate(invalid="ignore"):
        np.where(x > 0, np.sqrt(x), x).sum().backward()
    assert np.isnan(x.grad).all()
    x.grad = None
    F.safe_where(x > 0, np.sqrt, x, x).sum().backward()
    np.testing.assert_array_equal(x.grad, [1.0, 1.0])


def test_safe_where_to_any_order():
    x = leaf([-4.0, 4.0, 0.0])
    y = F.safe_where(x > 0, np.sqrt, x, x * x)
    np.testing.assert_array_equal(y.data, [16.0, 2.0, 0.0])
    first = ad.gradients(y.sum(), x, create_graph=True)
    np.testing.assert_array_equal(first.data, [-8.0, 0.25, 0.0])
    np.testing.assert_array_equal(ad.gradients(first.sum(), x).data, [2.0, -1 / 32, 2.0])


def test_f_is_evaluated_where_it_is_allowed_only():
    seen = []

    def f(x):
        seen.append(x)
        return np.log(x)

    x = np.array([-1.0, 5.0, 0.0, 2.0])
    result = F.safe_where(x > 0, f, x, 0.0)
    np.testing.assert_array_equal(result, [0.0, np.log(5.0), 0.0, np.log(2.0)])
    np.testing.assert_array_equal(seen[0], [5.0, 5.0, 5.0, 2.0])


def test_other_tensors_inside_f_are_not_poisoned():
    x, scale = leaf([-1.0, 4.0]), leaf(1.0)
    F.safe_where(x > 0, lambda x: np.sqrt(x * scale), x, 0.0).sum().backward()
    np.testing.assert_array_equal(scale.grad, 1.0)


def test_safe_where_with_no_place_at_all():
    x = leaf([-1.0, -2.0])
    y = F.safe_where(x > 0, np.log, x, leaf(3.0))
    assert y.tolist() == [3.0, 3.0]
    y.sum().backward()
    np.testing.assert_array_equal(x.grad, [0.0, 0.0])


def test_safe_where_broadcasts_and_keeps_float32():
    x = Tensor(np.array([[4.0, -1.0, 9.0]], np.float32), requires_grad=True)
    y = F.safe_where(np.array([[True], [False]]) & (x.data > 0), np.sqrt, x, 0.0)
    assert y.dtype == np.float32
    assert y.tolist() == [[2.0, 0.0, 3.0], [0.0, 0.0, 0.0]]
    y.sum().backward()
    np.testing.assert_allclose(x.grad, [[0.25, 0.0, 1 / 6]], rtol=1e-6)


def test_safe_where_of_a_scalar_and_of_nothing():
    x = leaf(-2.0)
    F.safe_where(x > 0, np.log, x, x).backward()
    assert x.grad == 1.0
    empty = leaf([])
    assert F.safe_where(empty > 0, np.log, empty, empty).shape == (0,)


def test_f_must_keep_the_shape():
    x = leaf([1.0, 2.0])
    with pytest.raises(ValueError, match=r"f must keep the shape; it turned \(2,\) into \(\)"):
        F.safe_where(x > 0, np.sum, x, 0.0)
