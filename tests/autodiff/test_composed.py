"""Norm, sinc, differences and traces, at the points where libraries have gone wrong."""

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
