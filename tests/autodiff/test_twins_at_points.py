"""Composed functions at the points where libraries have gone wrong, and against PyTorch."""

from __future__ import annotations

import math

import numpy as np
import pytest

import autodiff as ad
import autodiff.functional as F
from autodiff import Tensor
from autodiff.testing import check_grads


def leaf(data):
    return Tensor(np.asarray(data, float), requires_grad=True)


def test_the_norm_of_the_zero_vector_has_gradient_zero():
    x = leaf([0.0, 0.0, 0.0])
    np.linalg.norm(x).backward()
    np.testing.assert_array_equal(x.grad, [0.0, 0.0, 0.0])
    x.grad = None
    (np.linalg.norm(x) ** 2).backward()
    np.testing.assert_array_equal(x.grad, [0.0, 0.0, 0.0])


def test_a_zero_row_does_not_reach_the_others():
    x = leaf([[0.0, 0.0], [3.0, 4.0]])
    np.linalg.norm(x, axis=-1).sum().backward()
    np.testing.assert_allclose(x.grad, [[0.0, 0.0], [0.6, 0.8]], rtol=1e-15)


def test_sinc_at_and_near_zero():
    x = leaf([0.0, 0.049999, 0.050001, 1e-9])
    np.sinc(x).sum().backward()
    assert x.grad[0] == 0.0
    assert x.grad[1] == pytest.approx(x.grad[2], rel=1e-4)
    assert x.grad[3] == pytest.approx(-(math.pi**2) * 1e-9 / 3, rel=1e-12)
    zero = leaf(0.0)
    first = ad.gradients(np.sinc(zero), zero, create_graph=True)
    assert ad.gradients(first, zero).item() == pytest.approx(-(math.pi**2) / 3, rel=1e-12)


@pytest.mark.parametrize("n", [0, 1, 2, 3])
def test_diff_as_in_numpy(n):
    a = np.random.default_rng(n).normal(size=(3, 4))
    for axis in (0, 1, -1):
        y = np.diff(leaf(a), n, axis=axis)
        np.testing.assert_array_equal(y.data, np.diff(a, n, axis=axis))
    check_grads(lambda x: F.diff(x, n), a)


def test_the_difference_of_one_element():
    x = leaf([3.0])
    y = np.diff(x)
    assert y.shape == (0,)
    y.backward(np.zeros(0))
    np.testing.assert_array_equal(x.grad, [0.0])
    with pytest.raises(ValueError, match="n=-1"):
        np.diff(x, -1)


@pytest.mark.parametrize("shape", [(4, 2), (2, 4), (3, 3), (2, 3, 4)])
@pytest.mark.parametrize("offset", [0, 1, -1, 5, -5])
def test_trace_as_in_numpy(shape, offset):
    a = np.random.default_rng(0).normal(size=shape)
    x = leaf(a)
    y = np.trace(x, offset)
    np.testing.assert_allclose(y.data, np.trace(a, offset))
    y.sum().backward()
    ones = np.eye(*shape[:2], k=offset).reshape(*shape[:2], *[1] * (len(shape) - 2))
    np.testing.assert_array_equal(x.grad, np.broadcast_to(ones, shape))


def test_trace_over_other_axes():
    a = np.random.default_rng(0).normal(size=(2, 3, 4))
    np.testing.assert_allclose(np.trace(leaf(a), axis1=-1, axis2=1).data, np.trace(a, axis1=-1, axis2=1))


# --- norms at zero, ties and infinity ---


@pytest.mark.parametrize("ord", [None, 1, 2, 3, 1.5, 0.5, np.inf, -np.inf])
def test_norms_of_the_zero_vector_have_gradient_zero(ord):
    x = leaf([0.0, 0.0])
    y = np.linalg.norm(x, ord)
    y.backward()
    assert y.item() == 0.0
    np.testing.assert_array_equal(x.grad, [0.0, 0.0])


@pytest.mark.parametrize("ord", [1, 3, 1.5, 0.5, 4])
def test_an_element_of_zero_has_gradient_zero(ord):
    x = leaf([0.0, 3.0, -4.0])
    np.linalg.norm(x, ord).backward()
    expected = leaf([3.0, -4.0])
    np.linalg.norm(expected, ord).backward()
    np.testing.assert_allclose(x.grad, [0.0, *expected.grad], rtol=1e-14)


def test_ties_for_the_largest_are_split():
    x = leaf([3.0, -3.0, 1.0])
    np.linalg.norm(x, np.inf).backward()
    np.testing.assert_array_equal(x.grad, [0.5, -0.5, 0.0])
    x = leaf([2.0, 2.0, 1.0, 1.0])
    np.ptp(x).backward()
    np.testing.assert_array_equal(x.grad, [0.5, 0.5, -0.5, -0.5])


def test_order_zero_counts():
    x = leaf([[0.0, 3.0, -4.0], [0.0, 0.0, 1.0]])
    y = np.linalg.norm(x, 0, axis=1)
    assert y.tolist() == [2.0, 1.0]
    y.sum().backward()
    assert not np.any(x.grad)


def test_large_and_small_lengths_do_not_spoil_the_direction():
    for scale in (1e-90, 1e90):
        x = leaf([3 * scale, 4 * scale])
        np.linalg.norm(x, 3).backward()
        np.testing.assert_allclose(x.grad, np.array([9.0, 16.0]) / 91 ** (2 / 3), rtol=1e-13)


def test_integers_have_floating_lengths():
    assert F.norm([3, 4]) == 5.0
    assert F.vector_norm(np.array([3, -4]), ord=1).dtype == np.float64
    assert np.linalg.norm(Tensor([[3, 4]]), 1).dtype == np.float64


# --- what is not a number ---


def test_nothing_but_nan():
    x = leaf([[np.nan, np.nan], [1.0, np.nan]])
    for f in (np.nanmean, np.nanmax, np.nanmin, np.nanvar, np.nanstd):
        x.grad = None
        y = f(x, axis=1)
        assert np.isnan(y.data[0])
        assert not np.isnan(y.data[1])
        y.backward([0.0, 1.0])
        assert np.isfinite(x.grad).all()
        np.testing.assert_array_equal(x.grad, [[0.0, 0.0], [0.0 if f in (np.nanvar, np.nanstd) else 1.0, 0.0]])


@pytest.mark.parametrize("values", [[0.1, 0.1, 0.1, np.nan], [5.0, np.nan]])
def test_standard_deviation_of_equal_numbers(values):
    x = leaf(values)
    np.nanstd(x).backward()
    assert not x.grad.any()


def test_infinities_stay():
    x = leaf([np.inf, np.nan, 1.0])
    y = np.nansum(x)
    y.backward()
    assert y.item() == np.inf
    np.testing.assert_array_equal(x.grad, [1.0, 0.0, 1.0])


# --- indexing by composition: every copy counts ---


def test_elements_used_twice_get_the_sum():
    x = leaf([1.0, 2.0])
    np.resize(x, 5).backward([1.0, 2.0, 4.0, 8.0, 16.0])
    np.testing.assert_array_equal(x.grad, [21.0, 10.0])
    x = leaf([1.0])
    np.hstack([x[0], x]).sum().backward()
    np.testing.assert_array_equal(x.grad, [2.0])
    x = leaf([1.0, 2.0, 3.0])
    np.choose([0, 0, 0], [x[::-1], x]).backward([1.0, 10.0, 100.0])
    np.testing.assert_array_equal(x.grad, [100.0, 10.0, 1.0])


def test_a_nested_list_of_elements_is_loud():
    x = leaf([1.0])
    with pytest.raises(TypeError, match=r"F\.stack"):
        np.concatenate([[x[0]]])


@pytest.mark.parametrize(("rows", "columns"), [(4, 2), (2, 2), (2, 4)])
def test_trace_puts_ones_on_the_diagonal_only(rows, columns):
    x = leaf(np.ones((rows, columns)))
    np.linalg.trace(x).backward()
    np.testing.assert_array_equal(x.grad, np.eye(rows, columns))


def test_dot_of_a_vector_and_a_matrix():
    a, b = leaf([1.0, 2.0]), leaf([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    np.dot(a, b).sum().backward()
    np.testing.assert_array_equal(a.grad, [6.0, 15.0])
    np.testing.assert_array_equal(b.grad, [[1.0, 1.0, 1.0], [2.0, 2.0, 2.0]])
    a, b = leaf([[1.0, 2.0], [3.0, 4.0]]), leaf([5.0, 6.0])
    np.dot(a, b).sum().backward()
    np.testing.assert_array_equal(a.grad, [[5.0, 6.0], [5.0, 6.0]])
    np.testing.assert_array_equal(b.grad, [4.0, 6.0])


def test_vectors_in_the_plane():
    x, y = leaf([1.0, 2.0]), leaf([[3.0, 5.0], [7.0, 11.0]])
    z = F.cross(x, y)
    assert z.tolist() == [-1.0, -3.0]
    z.backward([1.0, 10.0])
    np.testing.assert_array_equal(x.grad, [115.0, -73.0])
    mixed = F.cross(leaf([1.0, 2.0]), leaf([3.0, 5.0, 7.0]))
    assert mixed.tolist() == [14.0, -7.0, -1.0]


# --- PyTorch ---

A = np.random.default_rng(1).normal(size=(3, 4))


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (lambda x: np.diff(x, 2, axis=0), lambda t, x: t.diff(x, 2, dim=0)),
        (lambda x: np.gradient(x, axis=1), lambda t, x: t.gradient(x, dim=1)[0]),
        (lambda x: np.gradient(x, [0.0, 1.0, 3.0, 3.5], axis=1, edge_order=2),
         lambda t, x: t.gradient(x, spacing=(t.tensor([0, 1, 3, 3.5], dtype=t.float64),), dim=1, edge_order=2)[0]),
        (lambda x: np.trapezoid(x, dx=0.5), lambda t, x: t.trapezoid(x, dx=0.5)),
        (lambda x: np.nansum(x, 0), lambda t, x: t.nansum(x, 0)),
        (lambda x: np.nanmean(x, 0), lambda t, x: t.nanmean(x, 0)),
        (lambda x: np.roll(x, (1, 2), (0, 1)), lambda t, x: t.roll(x, (1, 2), (0, 1))),
        (lambda x: np.rot90(x, 3), lambda t, x: t.rot90(x, 3)),
        (lambda x: np.diag(x[0], 1), lambda t, x: t.diag(x[0], 1)),
        (lambda x: np.vander(np.ravel(x), 4), lambda t, x: x.ravel()[:, None] ** t.arange(3, -1, -1)),
        (lambda x: np.kron(x, x.T), lambda t, x: t.kron(x, x.T.contiguous())),
        (lambda x: np.cross(x[:, :3], x[:, 1:]), lambda t, x: t.linalg.cross(x[:, :3], x[:, 1:])),
        (lambda x: np.tensordot(x, x, ([0, 1], [0, 1])), lambda t, x: t.tensordot(x, x, ([0, 1], [0, 1]))),
        (lambda x: np.inner(x, x), lambda t, x: t.inner(x, x)),
        (lambda x: np.column_stack([x[0], x[1]]), lambda t, x: t.column_stack([x[0], x[1]])),
        (lambda x: np.linalg.norm(x, 3, axis=1), lambda t, x: t.linalg.vector_norm(x, 3, dim=1)),
        (lambda x: np.linalg.norm(x, -np.inf, axis=1), lambda t, x: t.linalg.vector_norm(x, -np.inf, dim=1)),
        (lambda x: np.linalg.norm(x, 1), lambda t, x: t.linalg.matrix_norm(x, 1)),
        (lambda x: np.linalg.norm(x, "nuc"), lambda t, x: t.linalg.matrix_norm(x, "nuc")),
        (lambda x: np.cumprod(x, 1), lambda t, x: t.cumprod(x, 1)),
        (lambda x: np.array_split(x, 3, 1)[0], lambda t, x: t.tensor_split(x, 3, 1)[0]),
        (lambda x: np.convolve(x[0], x[1, :3]),
         lambda t, x: t.nn.functional.conv1d(x[None, :1], x[1:2, :3].flip(-1)[None], padding=2)[0, 0]),
    ],
)  # fmt: skip
def test_pytorchs_gradients(ours, theirs):
    torch = pytest.importorskip("torch", reason="compares with PyTorch")
    x, tensor = leaf(A), torch.tensor(A, requires_grad=True)
    y, z = ours(x), theirs(torch, tensor)
    np.testing.assert_allclose(y.data, z.detach().numpy(), rtol=1e-12, atol=1e-14)
    weights = np.random.default_rng(2).normal(size=y.shape)
    y.backward(weights)
    z.backward(torch.tensor(weights))
    np.testing.assert_allclose(x.grad, tensor.grad.numpy(), rtol=1e-11, atol=1e-13)


# --- dtypes and sizes at the edge ---


def test_a_median_of_half_precision_does_not_overflow():
    x = Tensor(np.array([40000, 50000, 60000, 30000], np.float16), requires_grad=True)
    y = np.median(x)
    assert y.dtype == np.float16
    assert y.item() == np.float16(45000)
    y.backward()
    assert x.grad.tolist() == [0.5, 0.5, 0.0, 0.0]


def test_norms_of_empty_matrices_are_zero():
    assert np.linalg.norm(leaf(np.zeros((0, 3))), 2).item() == 0.0
    assert np.linalg.matrix_norm(leaf(np.zeros((2, 3, 0))), ord=2).tolist() == [0.0, 0.0]
    assert np.linalg.norm(leaf(np.zeros((2, 0, 3))), 2, axis=(1, 2), keepdims=True).tolist() == [[[0.0]], [[0.0]]]
    with pytest.raises(ValueError, match="zero-size"):
        np.linalg.norm(leaf(np.zeros((0, 3))), -2)


@pytest.mark.parametrize("f", [np.square, np.conj, np.real, np.real_if_close, np.nanmin, np.nanmax, np.diff])
def test_booleans_are_taken_as_in_numpy(f):
    data = np.array([True, False, False, True])
    ours, theirs = f(Tensor(data)), f(data)
    assert ours.dtype == theirs.dtype
    assert ours.tolist() == theirs.tolist()


def test_the_smallest_unsigned_number():
    assert np.nanmin(Tensor(np.array([5, 0], np.uint8))).item() == 0


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i4", "?"])
@pytest.mark.parametrize("weights", [None, [1.0, 2.0], np.array([1, 2]), np.array([1, 2], "f4")])
def test_an_average_and_its_weights_have_numpys_dtype(dtype, weights):
    data = np.array([1, 3], dtype)
    ours, theirs = (np.average(x, weights=weights, returned=True) for x in (Tensor(data), data))
    assert [part.dtype for part in ours] == [part.dtype for part in theirs]
    assert [part.item() for part in ours] == [part.item() for part in theirs]


def test_running_products_are_not_spoilt_by_factors_that_are_not_used():
    x = leaf([1.0, np.nan])
    assert ad.gradients(np.cumprod(x)[0], x).tolist() == [1.0, 0.0]
    with np.errstate(all="raise"):
        x = leaf([[1.0, 2.0, np.inf], [3.0, 0.0, 5.0]])
        y = np.cumprod(x, axis=1)[:, :2]
        assert ad.gradients(y.sum(), x).tolist() == [[3.0, 1.0, 0.0], [1.0, 3.0, 0.0]]


def test_the_logits_slope_far_out_does_not_overflow():
    pytest.importorskip("scipy", reason="logit needs SciPy")
    for data in (np.array([1e200, -1e200]), np.array([1000.0, -1000.0], np.float16)):
        x = Tensor(data, requires_grad=True)
        slope = ad.gradients(F.logit(x), x, np.ones(2, data.dtype))
        assert np.all(np.abs(slope) < 2e-6)


def test_dot_products_along_an_axis():
    x = leaf([[1.0, 2.0], [3.0, 4.0]])
    y = np.vecdot(x, x, axis=0)
    assert y.tolist() == [10.0, 20.0]
    with pytest.raises(TypeError, match="axis="):
        np.matmul(x, x, axis=0)


def test_a_tensor_fills_an_array_if_it_is_constant():
    assert np.full_like(np.ones(2), Tensor(3.0)).tolist() == [3.0, 3.0]
    assert np.nan_to_num(np.array([1.0, np.nan]), nan=Tensor(3.0)).tolist() == [1.0, 3.0]
    for fill in (lambda t: np.full_like(np.ones(2), t), lambda t: np.nan_to_num(np.array([np.nan]), nan=t)):
        with pytest.raises(TypeError, match=r"np\.full_like .* t \* np\.ones_like\(a\), np\.where"):
            fill(leaf(3.0))
        with ad.no_grad():
            fill(leaf(3.0))
