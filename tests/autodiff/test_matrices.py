"""Determinants at matrices of every rank, powers and chains of matrices."""

from __future__ import annotations

import functools
import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import autodiff as ad
from autodiff import Tensor
from autodiff.testing import check_grads


def leaf(data):
    return Tensor(np.asarray(data, float), requires_grad=True)


def leibniz(a):
    """Determinant as the sum over all permutations: a polynomial, in primitives."""
    n = a.shape[-1]
    total = 0.0
    for order in itertools.permutations(range(n)):
        swaps = sum(order[i] > order[j] for i in range(n) for j in range(i + 1, n))
        total = total + (-1) ** swaps * functools.reduce(lambda x, y: x * y, (a[i, order[i]] for i in range(n)))
    return total


def of_rank(rank, n, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, rank)) @ rng.normal(size=(rank, n))


# --- determinant ---


@pytest.mark.parametrize("rank", range(5))
@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_first_two_derivatives_of_det_at_every_rank(rank, n):
    x, y = leaf(of_rank(min(rank, n), n)), leaf(of_rank(min(rank, n), n))
    first, expected = (ad.gradients(f(t), t, create_graph=True) for f, t in ((np.linalg.det, x), (leibniz, y)))
    np.testing.assert_allclose(first.data, expected.data, atol=1e-13)
    v = np.random.default_rng(1).normal(size=(n, n))
    second = ad.gradients(first, x, v)
    np.testing.assert_allclose(second.data, ad.gradients(expected, y, v).data, atol=1e-13)


def test_gradient_of_a_singular_determinant_is_the_cofactors():
    a = leaf([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]])  # of rank 2
    np.linalg.det(a).backward()
    np.testing.assert_allclose(a.grad, [[-3, 6, -3], [6, -12, 6], [-3, 6, -3]], atol=1e-13)
    b = leaf(np.outer([1.0, 2.0, 3.0], [1.0, 1.0, 2.0]))  # of rank 1: all its minors vanish
    np.linalg.det(b).backward()
    np.testing.assert_allclose(b.grad, np.zeros((3, 3)), atol=1e-14)


def test_third_derivatives_of_det():
    a = np.random.default_rng(0).normal(size=(4, 4)) + 2 * np.eye(4)
    v, w = np.random.default_rng(1).normal(size=(2, 4, 4))
    thirds = []
    for f in (np.linalg.det, leibniz):
        x = leaf(a)
        second = ad.gradients(ad.gradients(f(x), x, create_graph=True), x, v, create_graph=True)
        thirds.append(ad.gradients(second, x, w, create_graph=True))
        thirds.append(ad.gradients(thirds[-1], x, v))
    np.testing.assert_allclose(thirds[0].data, thirds[2].data, rtol=1e-11)
    np.testing.assert_allclose(thirds[1].data, thirds[3].data, rtol=1e-11)


@pytest.mark.parametrize("a", [np.zeros((3, 3)), np.diag([1.0, 1.0, 0.0]), of_rank(2, 3), np.diag([1.0, 1.0, 1e-7])])
def test_third_derivatives_of_det_near_singular_matrices_raise(a):
    x = leaf(a)
    first = ad.gradients(np.linalg.det(x), x, create_graph=True)
    second = ad.gradients(first, x, np.ones((3, 3)), create_graph=True)
    with pytest.raises(np.linalg.LinAlgError, match="det: its third derivatives"):
        ad.gradients(second, x, np.ones((3, 3)))


@given(st.lists(st.integers(0, 2), max_size=2), st.integers(0, 4), st.integers(0, 1000))
def test_determinants_agree_with_torch(batch, n, seed):
    torch = pytest.importorskip("torch", reason="compares with PyTorch")
    a = np.random.default_rng(seed).normal(size=(*batch, n, n))
    for ours, theirs in (
        (np.linalg.det, torch.linalg.det),
        (lambda x: np.linalg.slogdet(x).logabsdet, lambda t: torch.linalg.slogdet(t).logabsdet),
    ):
        x, t = leaf(a), torch.tensor(a, requires_grad=True)
        y, other = ours(x), theirs(t)
        np.testing.assert_allclose(y.data, other.detach().numpy(), rtol=1e-9, atol=1e-12)
        weights = np.random.default_rng(1).normal(size=y.shape)
        y.backward(weights)
        other.backward(torch.tensor(weights))
        np.testing.assert_allclose(x.grad, t.grad.numpy(), rtol=1e-7, atol=1e-9)


def test_single_precision_stays():
    x = Tensor(np.array([[2.0, 0.5], [0.5, 1.0]], np.float32), requires_grad=True)
    for f in (np.linalg.det, lambda a: np.linalg.slogdet(a)[1], lambda a: np.linalg.matrix_power(a, -3)):
        y = f(x)
        first = ad.gradients(y.sum(), x, create_graph=True)
        second = ad.gradients(first.sum(), x, create_graph=True)
        third = ad.gradients(second.sum(), x)
        assert {y.dtype, first.dtype, second.dtype, third.dtype} == {np.dtype(np.float32)}


# --- sign and logarithm ---


def test_slogdet_returns_what_numpy_returns():
    a = np.array([[[1.0, 2.0], [3.0, 4.0]], [[2.0, 0.0], [0.0, 3.0]]])
    result = np.linalg.slogdet(leaf(a))
    assert type(result) is type(np.linalg.slogdet(a))
    sign, logabsdet = result
    assert sign is result.sign
    assert not sign.requires_grad
    np.testing.assert_array_equal(sign.data, [-1.0, 1.0])
    np.testing.assert_allclose(logabsdet.data, [math.log(2), math.log(6)])


def test_slogdet_of_a_singular_matrix():
    x = leaf([[1.0, 2.0], [2.0, 4.0]])
    sign, logabsdet = np.linalg.slogdet(x)
    assert (sign.item(), logabsdet.item()) == (0.0, -math.inf)
    with pytest.raises(np.linalg.LinAlgError, match=r"slogdet.*has no gradient.*Singular"):
        logabsdet.backward()


def test_slogdet_neither_overflows_nor_underflows():
    for factor in (1e-30, 1e30):
        x = leaf(factor * np.eye(20))
        y = np.linalg.slogdet(x).logabsdet
        y.backward()
        np.testing.assert_allclose(y.item(), 20 * math.log(factor))
        np.testing.assert_allclose(x.grad, np.eye(20) / factor)


# --- powers and chains ---


@pytest.mark.parametrize("n", [-3, -1, 0, 1, 2, 3, 5])
@pytest.mark.parametrize("shape", [(2, 2), (2, 3, 3), (0, 0)])
def test_matrix_power(n, shape):
    a = np.random.default_rng(0).normal(size=shape) + 2 * np.eye(shape[-1])
    np.testing.assert_allclose(np.linalg.matrix_power(leaf(a), n).data, np.linalg.matrix_power(a, n), rtol=1e-12)
    check_grads(lambda a: np.linalg.matrix_power(a, n), a, expect_zero=n == 0)


def test_what_matrix_power_refuses():
    with pytest.raises(TypeError, match="integer"):
        np.linalg.matrix_power(leaf(np.eye(2)), 0.5)
    with pytest.raises(np.linalg.LinAlgError, match=r"matrix_power.*square"):
        np.linalg.matrix_power(leaf(np.ones((2, 3))), 2)
    with pytest.raises(np.linalg.LinAlgError, match="Singular"):
        np.linalg.matrix_power(leaf(np.ones((2, 2))), -1)
    np.testing.assert_array_equal(np.linalg.matrix_power(leaf(np.ones((2, 2))), 2).data, [[2, 2], [2, 2]])


@given(st.lists(st.integers(1, 4), min_size=3, max_size=6), st.booleans(), st.booleans(), st.integers(0, 1000))
def test_multi_dot_of_all_shapes(sides, row, column, seed):
    rng = np.random.default_rng(seed)
    factors = [rng.normal(size=shape) for shape in itertools.pairwise(sides)]
    factors[0] = factors[0][0] if row else factors[0]
    factors[-1] = factors[-1][:, 0] if column else factors[-1]
    expected = np.linalg.multi_dot(factors)
    tensors = [leaf(x) for x in factors]
    y = np.linalg.multi_dot(tensors)
    np.testing.assert_allclose(y.data, expected, rtol=1e-12, atol=1e-12)
    v = rng.normal(size=y.shape)
    for x, g in zip(tensors, ad.gradients(y, tensors, v), strict=True):  # linear in each factor
        np.testing.assert_allclose(np.sum(g.data * x.data), np.sum(v * y.data), rtol=1e-10, atol=1e-10)


def test_multi_dot_multiplies_in_the_cheapest_order():
    a, b, c = leaf(np.ones((5, 50))), leaf(np.ones((50, 5))), leaf(np.ones((5, 60)))
    y = np.linalg.multi_dot([a, b, c])  # (a b) c takes 2,750 multiplications, a (b c) 30,000
    assert y.node.parents[0].shape == (5, 5)
    y = np.linalg.multi_dot([c.T, b.T, a.T])
    assert y.node.parents[1].shape == (5, 5)


def test_what_multi_dot_refuses():
    x = leaf(np.ones((2, 2)))
    with pytest.raises(ValueError, match="at least two"):
        np.linalg.multi_dot([x])
    with pytest.raises(np.linalg.LinAlgError, match=r"arrays\[1\] has 1 axes"):
        np.linalg.multi_dot([x, x[0], x])
    with pytest.raises(ValueError, match="mismatch"):
        np.linalg.multi_dot([x, np.ones((3, 2))])


# --- at the ends of the range ---


@pytest.mark.parametrize(
    ("diagonal", "wanted"),
    [
        ([1e200, 1e-200, 1e200, 1e-200], [1e-200, 1e200, 1e-200, 1e200]),
        ([1e160, 1e160, 1e-160], [1.0, 1.0, np.inf]),
        ([1e-160, 1e-160, 1e160], [1.0, 1.0, 1e-320]),
        (np.ones(40), np.ones(40)),
    ],
)
def test_cofactors_are_in_range_where_products_on_the_way_are_not(diagonal, wanted):
    a = Tensor(np.diag(diagonal), requires_grad=True)
    with np.errstate(over="ignore"):
        g = ad.gradients(np.linalg.det(a), a)
    assert not np.any(np.isnan(g))
    np.testing.assert_allclose(np.diag(g), wanted, rtol=1e-9, atol=1e-322)


def test_the_second_derivative_of_det_is_in_range_too():
    a = Tensor(np.diag([1e200, 1e-200, 1e200, 1e-200]), requires_grad=True)
    (first,) = ad.gradients(np.linalg.det(a), [a], create_graph=True)
    second = ad.gradients(first[0, 0], a)
    np.testing.assert_allclose(np.diag(second), [0, 1, 0, 1], rtol=1e-9)


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_a_matrix_that_is_not_finite_has_no_determinant_and_spoils_no_other(wrong):
    data = np.stack([np.diag([1.0, 2.0, 3.0])] * 2)
    data[1, 0, 1] = wrong
    a = Tensor(data, requires_grad=True)
    with np.errstate(invalid="ignore"):
        g = ad.gradients(np.linalg.det(a), a, np.ones(2))
    np.testing.assert_allclose(g[0], np.diag([6.0, 3.0, 2.0]), rtol=1e-12)
    assert np.all(np.isnan(g[1]))


def test_slogdet_leaves_out_singular_matrices_that_are_not_used():
    a = Tensor(np.stack([np.diag([2.0, 4.0]), np.zeros((2, 2))]), requires_grad=True)
    logs = np.linalg.slogdet(a).logabsdet
    assert ad.gradients(logs, a, [1.0, 0.0]).tolist() == [[[0.5, 0], [0, 0.25]], [[0, 0], [0, 0]]]
    kept = np.where(np.isfinite(logs), logs, 0.0)
    (g,) = ad.gradients(kept.sum(), [a], create_graph=True)
    assert ad.gradients(g[0, 0, 0], a).tolist() == [[[-0.25, 0], [0, 0]], [[0, 0], [0, 0]]]
    with pytest.raises(np.linalg.LinAlgError, match="slogdet"):
        ad.gradients(np.linalg.slogdet(a).logabsdet, a, [0.0, 1.0])
