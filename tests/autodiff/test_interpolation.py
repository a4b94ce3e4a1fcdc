"""Choices among arrays, and interpolation: NumPy's values, slopes inside, at and beyond the points."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import autodiff as ad
from autodiff import Tensor
from autodiff.testing import check_grads

KNOTS = np.array([-1.0, 0.5, 1.0, 3.0])
VALUES = np.array([2.0, -1.0, 4.0, 0.5])


def leaf(data):
    return Tensor(np.asarray(data, float), requires_grad=True)


# --- select ---


def test_select_takes_the_first_condition_that_holds():
    a = np.array([-2.0, -0.5, 0.5, 2.0])
    x, y = leaf(a), leaf([[10.0], [20.0]])

    def choose(x, y):
        return np.select([a > 1, a > 0, a < -1], [x**2, x * y, 7.0], default=y)

    result = choose(x, y)
    np.testing.assert_array_equal(result.data, choose(a, y.data))
    check_grads(choose, a, y.data)
    result.sum().backward()
    np.testing.assert_array_equal(x.grad, [0.0, 0.0, 30.0, 8.0])
    np.testing.assert_array_equal(y.grad, [[1.5], [1.5]])


def test_select_without_a_default_and_with_weak_numbers():
    x = Tensor(np.float32([1, 2]), requires_grad=True)
    y = np.select([x > 1, np.array([False, True])], [x, 2.0])
    assert (y.dtype, y.tolist()) == (np.float32, [0.0, 2.0])


def test_what_select_refuses():
    x = leaf([1.0, 2.0])
    with pytest.raises(ValueError, match=r"as many arrays as conditions.*got 1 for 2"):
        np.select([x > 1, x > 0], [x])
    with pytest.raises(TypeError, match=r"condlist\[1\] must be boolean, not float64"):
        np.select([x > 1, x], [x, x])


# --- interp ---


@given(
    st.lists(st.floats(-3, 5), max_size=6),
    st.sampled_from([{}, {"left": 9.0}, {"right": -9.0}, {"left": 1.0, "right": 2.0}, {"period": 3.0}]),
)
def test_values_are_those_of_numpy(points, settings):
    expected = np.interp(points, KNOTS, VALUES, **settings)
    y = np.interp(leaf(points), KNOTS, VALUES, **settings)
    np.testing.assert_allclose(y.data, expected, rtol=1e-12, atol=1e-12)
    if not settings:
        assert np.interp(leaf(3.0), KNOTS, VALUES).item() == 0.5


@pytest.mark.parametrize("settings", [{}, {"left": 1.0, "right": 2.0}, {"period": 4.3}, {"period": -4.3}])
def test_gradients_of_all_arguments(settings):
    x = np.array([[-2.0, -0.3, 0.7], [1.9, 2.6, 4.1]])
    check_grads(lambda x, xp, fp: np.interp(x, xp, fp, **settings), x, KNOTS, VALUES)


def test_gradients_of_the_values_beyond():
    x = np.array([-2.0, 0.7, 4.1])
    check_grads(lambda x, a, b: np.interp(x, KNOTS, VALUES, left=a, right=b), x, np.array(1.5), np.array(2.5))


def test_slopes_at_the_points():
    x = leaf(KNOTS)
    np.interp(x, KNOTS, VALUES).sum().backward()
    np.testing.assert_allclose(x.grad, [-2.0, 10.0, -1.75, -1.75])  # of the line behind; at the last, before
    beyond = leaf([-np.inf, -5.0, 5.0, np.inf])
    fp = leaf(VALUES)
    y = np.interp(beyond, KNOTS, fp)
    np.testing.assert_array_equal(y.data, [2.0, 2.0, 0.5, 0.5])
    y.sum().backward()
    np.testing.assert_array_equal(beyond.grad, np.zeros(4))
    np.testing.assert_array_equal(fp.grad, [2.0, 0.0, 0.0, 2.0])


def test_interpolation_between_few_points():
    assert np.interp(leaf([0.0, 1.0, 2.0]), [1.0], [5.0], left=3.0).tolist() == [3.0, 5.0, 5.0]
    steps = ([0.0, 1.0, 1.0, 2.0, 2.0], [0.0, 1.0, 5.0, 6.0, 8.0])
    x = np.array([0.5, 1.0, 1.5, 2.0, 3.0])
    np.testing.assert_allclose(np.interp(leaf(x), *steps).data, np.interp(x, *steps))
    assert np.interp(leaf(1.0), [0.0, 1.0], [1e20, 1.0]).item() == 1.0


def test_single_precision_stays():
    x, xp, fp = (Tensor(np.asarray(a, np.float32), requires_grad=True) for a in ([0.7, 1.2], KNOTS, VALUES))
    y = np.interp(x, xp, fp)
    assert y.dtype == np.float32
    assert ad.gradients(y.sum(), x).dtype == np.float32
    assert np.interp(Tensor([1, 2]), [0, 4], [0, 8]).tolist() == [2.0, 4.0]


def test_what_interp_refuses():
    with pytest.raises(ValueError, match=r"equal lengths n > 0, not \(2,\) and \(3,\)"):
        np.interp(leaf(1.0), [1.0, 2.0], [1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match="period must not be 0"):
        np.interp(leaf(1.0), [1.0, 2.0], [1.0, 2.0], period=0)
