"""Rotary positions: worked numbers, what a rotation must satisfy, layouts and dtypes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import autodiff as ad
import autodiff.functional as F
from autodiff import Tensor


@pytest.mark.parametrize(
    ("position", "expected"),
    [
        (0, [1.0, 2.0, 3.0, 4.0]),
        (1, [-1.142640, 1.922076, 2.959851, 4.029800]),
        (3, [-1.272233, -1.838865, 2.878668, 4.088187]),
    ],
)
def test_the_numbers_worked_by_hand(position, expected):
    x = np.array([[1.0, 2.0, 3.0, 4.0]])
    turned = F.rope(x, offset=position)
    np.testing.assert_allclose(turned, [expected], atol=5e-7)
    np.testing.assert_allclose(F.rope(np.tile(x, (4, 1)))[position], expected, atol=5e-7)
    np.testing.assert_allclose(F.rope(turned, offset=position, inverse=True), x, atol=1e-14)


def rotated_by_matrices(x, theta, offset):
    """The definition: a 2 x 2 rotation matrix for every position and pair."""
    out = np.empty_like(x)
    for t in range(x.shape[-2]):
        for r in range(x.shape[-1] // 2):
            angle = (offset + t) * theta ** (-2 * r / x.shape[-1])
            matrix = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
            out[..., t, 2 * r : 2 * r + 2] = x[..., t, 2 * r : 2 * r + 2] @ matrix.T
    return out


@given(
    lead=st.lists(st.integers(0, 3), max_size=2),
    length=st.integers(0, 4),
    pairs=st.integers(0, 3),
    offset=st.integers(-3, 1000),
    theta=st.sampled_from([10000.0, 100.0, 1.0, 5e5]),
    layout=st.sampled_from(["C", "F", "reversed", "strided", "heads", "shifted"]),
)
def test_every_shape_and_layout_agrees_with_rotation_matrices(lead, length, pairs, offset, theta, layout):
    rng = np.random.default_rng(length)
    x = rng.normal(size=(*lead, length, 2 * pairs))
    if layout == "F":
        x = np.asfortranarray(x)
    elif layout == "reversed":
        x = x[..., ::-1]
    elif layout == "strided":
        x = np.repeat(x, 3, axis=-1)[..., ::3]
    elif layout == "shifted":  # an odd number of elements from row to row
        x = np.concatenate([x, x[..., :1], x[..., :1], x[..., :1]], axis=-1)[..., : 2 * pairs]
    elif layout == "heads":
        x = np.ascontiguousarray(x.swapaxes(0, -2)).swapaxes(0, -2)
    before = x.copy()
    expected = rotated_by_matrices(x, theta, offset)
    settings = {"theta": theta, "offset": offset}
    np.testing.assert_allclose(F.rope(x, **settings), expected, atol=1e-12)
    np.testing.assert_array_equal(x, before)
    # the gradient, for a cotangent of the same layout: the inverse rotation, which is the transpose
    t = Tensor(np.zeros(x.shape), requires_grad=True)
    F.rope(t, **settings).backward(x)
    np.testing.assert_allclose(rotated_by_matrices(t.grad, theta, offset), x, atol=1e-12)


def test_scores_depend_on_the_distance_alone():
    rng = np.random.default_rng(0)
    q, k = rng.normal(size=(2, 1, 8))
    scores = [(F.rope(q, offset=m + 5) @ F.rope(k, offset=m).T).item() for m in (0, 1, 40, 1000)]
    np.testing.assert_allclose(scores, scores[0], rtol=1e-10)
    assert abs(scores[0] - (q @ k.T).item()) > 0.1


def test_an_offset_continues_where_the_rows_before_ended():
    x = np.random.default_rng(1).normal(size=(2, 6, 4))
    parts = [F.rope(x[:, :4]), F.rope(x[:, 4:], offset=4)]
    np.testing.assert_allclose(np.concatenate(parts, axis=1), F.rope(x), rtol=1e-13)


@pytest.mark.parametrize("inverse", [False, True])
def test_the_decomposition_means_the_same(inverse):
    rng = np.random.default_rng(2)
    data, g = rng.normal(size=(2, 2, 3, 5, 6))
    x, y = Tensor(data, requires_grad=True), Tensor(data, requires_grad=True)
    settings = {"offset": 7, "theta": 50.0, "inverse": inverse}
    fused = F.rope(x, **settings)
    with ad.decompose():
        parts = F.rope(y, **settings)
    assert parts.node.op.name != "rope"
    fused.backward(g)
    parts.backward(g)
    np.testing.assert_allclose(fused.data, parts.data, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(x.grad, y.grad, rtol=1e-12, atol=1e-14)


def test_a_second_derivative_through_the_decomposition():
    x = Tensor(np.arange(8.0).reshape(2, 4), requires_grad=True)
    with ad.decompose():
        y = (F.rope(x) ** 3).sum()
        first = ad.gradients(y, x, create_graph=True)
    turned = F.rope(x.data)
    second = ad.gradients(first.sum(), x)
    # y = sum (R x)^3: the gradient is R^T 3 (R x)^2, and its sum has the gradient R^T (6 (R x) * R 1)
    expected = F.rope(6 * turned * F.rope(np.ones((2, 4))), inverse=True)
    np.testing.assert_allclose(second.data, expected, rtol=1e-12, atol=1e-12)


def test_angles_are_exact_at_far_positions_in_float32():
    x = np.random.default_rng(3).normal(size=(1, 8))
    far = F.rope(x.astype(np.float32), offset=1_000_003)
    assert far.dtype == np.float32
    np.testing.assert_allclose(far, F.rope(x, offset=1_000_003), atol=1e-6)  # in float32 the angle would be off by 0.06


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_the_dtype_is_kept(dtype):
    x = Tensor(np.ones((3, 4), dtype), requires_grad=True)
    y = F.rope(x)
    y.sum().backward()
    assert y.dtype == x.grad.dtype == dtype
    np.testing.assert_allclose(y.data, F.rope(np.ones((3, 4))), atol=1e-3)


def test_integers_are_rotated_to_floats():
    np.testing.assert_array_equal(F.rope(np.arange(8).reshape(2, 4)), F.rope(np.arange(8.0).reshape(2, 4)))


def test_a_result_that_is_written_to_does_not_change_the_next():
    x = np.ones((3, 4))
    first = F.rope(x)
    expected = first.copy()
    first[...] = 0
    np.testing.assert_array_equal(F.rope(x), expected)


@pytest.mark.parametrize("shape", [(2, 3), (4,), ()])
def test_what_cannot_be_paired_is_refused(shape):
    with pytest.raises(ValueError, match=r"even d.*got"):
        F.rope(np.ones(shape))
    with ad.decompose(), pytest.raises(ValueError, match=r"even d"):
        F.rope(Tensor(np.ones(shape), requires_grad=True))


@pytest.mark.parametrize("theta", [0.0, -1.0, np.inf, np.nan])
def test_a_senseless_base_is_refused(theta):
    with pytest.raises(ValueError, match="theta must be positive"):
        F.rope(np.ones((2, 2)), theta=theta)
