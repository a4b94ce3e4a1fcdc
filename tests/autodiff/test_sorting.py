"""Sorting, partitions, medians, quantiles and running extremes: NumPy's values, and who gets the gradient."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes

import autodiff as ad
import autodiff.functional as F
from autodiff import Tensor
from autodiff.testing import check_grads


def leaf(data):
    return Tensor(np.asarray(data, float), requires_grad=True)


def distinct(shape, seed=0):
    return np.random.default_rng(seed).permutation(int(np.prod(shape))).reshape(shape) * 0.5 - 1.0


def gradient(f, data, g=None):
    x = leaf(data)
    f(x).backward(g)
    return x.grad.tolist()


# --- sort and partition ---


@given(array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=4), st.data())
def test_sort_of_all_shapes(shape, data):
    axis = data.draw(st.one_of(st.none(), st.integers(-len(shape), len(shape) - 1)))
    a = np.random.default_rng(0).integers(-3, 3, shape).astype(float)
    x = leaf(a)
    y = np.sort(x, axis)
    np.testing.assert_array_equal(y.data, np.sort(a, axis))
    g = np.random.default_rng(1).normal(size=y.shape)
    given = ad.gradients(y, x, g).data
    order = np.argsort(a, axis, kind="stable")  # equal elements keep their order
    np.testing.assert_array_equal(np.take_along_axis(given, order, axis), g)


def test_ties_keep_their_order():
    assert gradient(np.sort, [2.0, 1.0, 2.0, 1.0], [1.0, 2.0, 3.0, 4.0]) == [3.0, 1.0, 4.0, 2.0]


def test_sort_with_nan_and_infinities():
    a = np.array([np.nan, np.inf, 1.0, -np.inf])
    np.testing.assert_array_equal(np.sort(leaf(a)).data, np.sort(a))
    assert gradient(np.sort, a, [1.0, 2.0, 3.0, 4.0]) == [4.0, 3.0, 2.0, 1.0]


def test_forms_of_a_sort():
    x = leaf([3.0, 1.0, 2.0])
    for settings in ({"kind": "heapsort"}, {"stable": True}, {"kind": "stable", "axis": 0}, {"axis": None}):
        assert np.sort(x, **settings).tolist() == [1.0, 2.0, 3.0]
    with pytest.raises(ValueError, match="kind='stable', stable=True"):
        np.sort(x, kind="stable", stable=True)
    with pytest.raises(ValueError, match="kind='bogus'"):
        np.sort(x, kind="bogus")
    with pytest.raises(np.exceptions.AxisError):
        np.sort(x, 1)
    with pytest.raises(np.exceptions.AxisError):
        np.sort(leaf(1.0))
    assert np.sort(Tensor(np.float32([2, 1]), requires_grad=True)).dtype == np.float32


@pytest.mark.parametrize(
    ("shape", "kth", "axis"), [((5,), 2, -1), ((3, 4), (0, 2), 1), ((3, 4), -1, 0), ((2, 3), 4, None)]
)
def test_partition(shape, kth, axis):
    a = distinct(shape)
    y, expected = np.partition(leaf(a), kth, axis), np.sort(a, axis)
    along = 0 if axis is None else axis
    np.testing.assert_array_equal(np.take(y.data, kth, along), np.take(expected, kth, along))
    np.testing.assert_array_equal(np.sort(y.data, along), expected)
    check_grads(lambda a: np.partition(a, kth, axis), a)


def test_what_partition_refuses():
    with pytest.raises(ValueError, match="kth"):
        np.partition(leaf(np.ones(3)), 3)
    with pytest.raises(ValueError, match="kind='heap'"):
        np.partition(leaf(np.ones(3)), 1, kind="heap")


# --- medians and quantiles ---

REDUCED = [((5,), None), ((4,), None), ((), None), ((1,), 0), ((3, 4), 1), ((3, 4), 0), ((2, 3, 4), (0, 2)),
           ((2, 3, 3), (-1, 0)), ((2, 3), ()), ((0, 3), 1)]  # fmt: skip


@pytest.mark.parametrize(("shape", "axis"), REDUCED)
@pytest.mark.parametrize("keepdims", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_median_and_quantiles(shape, axis, keepdims):
    a = distinct(shape)
    y = np.median(leaf(a), axis=axis, keepdims=keepdims)
    expected = np.median(a, axis=axis, keepdims=keepdims)
    np.testing.assert_array_equal(y.data, expected)
    assert y.shape == expected.shape
    if a.size:
        check_grads(lambda a: np.median(a, axis=axis, keepdims=keepdims), a)
    for q in (0, 0.3, 1.0, np.array(0.7), [0.0, 0.5, 0.9], [[0.25, 1.0]], []):
        y = np.quantile(leaf(a), q, axis=axis, keepdims=keepdims)
        expected = np.quantile(a, q, axis=axis, keepdims=keepdims)
        np.testing.assert_allclose(y.data, expected, rtol=1e-15)
        assert y.shape == expected.shape
        if a.size:
            check_grads(lambda a, q=q: np.quantile(a, q, axis=axis, keepdims=keepdims), a, expect_zero=True)


@given(st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=7), st.floats(0, 1))
def test_quantiles_of_all_sizes(numbers, q):
    x = leaf(numbers)
    y = np.quantile(x, q)
    np.testing.assert_array_equal(y.data, np.quantile(numbers, q))
    y.backward()
    np.testing.assert_allclose(x.grad.sum(), 1.0)
    assert x.grad.min() >= 0
    np.testing.assert_array_equal(np.percentile(x, 100 * q).data, np.percentile(numbers, 100 * q))


def test_quantile_agrees_with_torch():
    torch = pytest.importorskip("torch", reason="compares with PyTorch")
    a, q = distinct((4, 5)), [0.1, 0.5, 0.77]
    x, t = leaf(a), torch.tensor(a, requires_grad=True)
    (np.quantile(x, q, axis=1) ** 2).sum().backward()
    (torch.quantile(t, torch.tensor(q, dtype=torch.float64), dim=1) ** 2).sum().backward()
    np.testing.assert_allclose(x.grad, t.grad.numpy(), rtol=1e-12, atol=1e-15)


def test_where_the_gradient_of_a_median_goes():
    assert gradient(np.median, [3.0, 1.0, 2.0]) == [0.0, 0.0, 1.0]
    assert gradient(np.median, [3.0, 1.0, 2.0, 7.0]) == [0.5, 0.0, 0.5, 0.0]
    assert gradient(np.median, [2.0, 1.0, 2.0, 2.0]) == [0.5, 0.0, 0.5, 0.0]  # in the order of the array
    assert gradient(np.median, [2.0, 2.0, 2.0]) == [0.0, 1.0, 0.0]


def test_not_a_number_is_contagious():
    a = np.array([[1.0, np.nan, 0.0], [1.0, 2.0, 4.0]])
    for f in (np.median, lambda a, axis: np.quantile(a, 0.1, axis), lambda a, axis: np.percentile(a, [1, 9], axis)):
        np.testing.assert_allclose(f(leaf(a), axis=1).data, f(a, axis=1))


def test_median_of_nothing():
    with pytest.warns(RuntimeWarning):
        y = np.median(leaf(np.zeros((2, 0))), axis=1)
    np.testing.assert_array_equal(y.data, [np.nan, np.nan])
    assert np.median(leaf(np.zeros((2, 0))), axis=0).shape == (0,)


def test_dtypes_of_quantiles():
    a = np.array([1, 2, 4], np.float32)
    x = Tensor(a, requires_grad=True)
    assert np.median(x).dtype == np.median(a).dtype == np.float32
    for f, q in ((np.quantile, 0.3), (np.percentile, 30), (np.percentile, 30.0), (np.quantile, [0.3])):
        assert f(x, q).dtype == f(a, q).dtype
    assert np.median(Tensor([1, 2])).item() == 1.5


def test_what_quantiles_refuse():
    x = leaf([1.0, 2.0])
    with pytest.raises(ValueError, match=r"q must lie in the range \[0, 1\].*got 2"):
        np.quantile(x, 2)
    with pytest.raises(ValueError, match="range"):
        np.percentile(x, np.nan)
    with pytest.raises(ValueError, match="method 'nearest'"):
        np.quantile(x, 0.5, method="nearest")
    with pytest.raises(ValueError, match="no elements"):
        np.quantile(leaf([]), 0.5)
    with pytest.raises(TypeError, match="q is not differentiable"):
        np.percentile(x, leaf(0.5))
    with pytest.raises(TypeError, match="weights"):
        np.quantile(x, 0.5, weights=np.ones(2))
    with pytest.raises(TypeError, match="overwrite_input"):
        np.median(x, overwrite_input=True)
    assert np.quantile(x, Tensor(0.5)).item() == 1.5


# --- running extremes ---


@given(array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=4), st.data())
def test_running_extremes_of_all_shapes(shape, data):
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    a = np.random.default_rng(0).integers(-3, 3, shape).astype(float)
    a[np.random.default_rng(1).random(shape) < 0.1] = np.nan
    for ours, theirs in ((F.cummax, np.maximum), (F.cummin, np.minimum)):
        np.testing.assert_array_equal(ours(leaf(a), axis).data, theirs.accumulate(a, axis))
        np.testing.assert_array_equal(ours(a).data, theirs.accumulate(a.ravel()))


def test_gradients_of_running_extremes():
    for f in (F.cummax, F.cummin):
        check_grads(lambda a, f=f: f(a, 1), distinct((3, 4)))
        assert gradient(lambda x, f=f: f(x).sum(), [1.0, 1.0, 1.0]) == [1.0, 1.0, 1.0]  # the last of the tied
