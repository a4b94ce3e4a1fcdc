"""Numbers whose squares, sums or counts leave the range of their dtype: lengths, spreads and means stay right."""

import numpy as np
import pytest

import autodiff as ad
import autodiff.functional as F
from autodiff import Tensor

HALF, SINGLE, DOUBLE = np.float16, np.float32, np.float64


def value_and_grad(f, x, dtype=DOUBLE):
    leaf = Tensor(np.asarray(x, dtype), requires_grad=True)
    y = f(leaf)
    y.sum().backward()
    assert y.dtype == leaf.grad.dtype == dtype
    return y.data, leaf.grad


# --- lengths and spreads ---

X = np.array([1.0, -1.0, 1.0])
THREE = np.array([True] * 3)

LENGTHS = {
    "norm": np.linalg.norm,
    "norm of order 3": lambda x: np.linalg.norm(x, 3),
    "norm of order 1.5": lambda x: np.linalg.norm(x, 1.5, axis=0, keepdims=True),
    "norm of order -2": lambda x: np.linalg.norm(x, -2),
    "Frobenius": lambda x: np.linalg.norm(np.reshape(x, (1, 3)), "fro"),
    "matrix_norm": lambda x: F.matrix_norm(np.reshape(x, (3, 1))),
    "vector_norm": lambda x: F.vector_norm(np.stack([x, 2 * x]), axis=1),
    "hypot": lambda x: np.hypot(x[0], np.hypot(x[1], x[2])),
    "std": np.std,
    "method": lambda x: x.std(ddof=1, keepdims=True),
    "std of a part": lambda x: np.std(x, where=THREE),
    "nanstd": lambda x: np.nanstd(x, ddof=1),
}


@pytest.mark.parametrize(
    ("size", "dtype"), [(1e4, HALF), (1e-5, HALF), (1e30, SINGLE), (1e-30, SINGLE), (1e200, DOUBLE), (1e-200, DOUBLE)]
)
@pytest.mark.parametrize("f", LENGTHS.values(), ids=LENGTHS)
def test_lengths_where_squares_leave_the_range(f, size, dtype):
    x = (size * X).astype(dtype)
    y, dx = value_and_grad(f, x, dtype)
    unit = float(abs(x[0]))
    expected, slope = value_and_grad(f, X)  # f(c x) = c f(x), with the same gradient
    rtol = 4e-3 if dtype == HALF else 1e-6 if dtype == SINGLE else 1e-13
    np.testing.assert_allclose(y.astype(float) / unit, expected, rtol=2e-2 if size == 1e-5 else rtol)
    np.testing.assert_allclose(dx, slope, rtol=rtol)


@pytest.mark.parametrize(
    "f", [np.linalg.norm, lambda x: np.linalg.norm(x, 2.5), lambda x: np.hypot(x[0], x[1])], ids=("2", "2.5", "hypot")
)
def test_a_length_that_is_infinite_has_a_direction(f):
    with np.errstate(over="ignore"):
        y, dx = value_and_grad(f, [1.2e308, 1.6e308])
    assert np.isinf(y)
    np.testing.assert_allclose(dx, value_and_grad(f, [1.2, 1.6])[1])


def test_groups_of_all_sizes_beside_each_other():
    x = np.array([[3.0, 4.0], [3e200, 4e200], [0.0, 0.0], [3e-200, 4e-200], [np.nan, 1.0]])
    y, dx = value_and_grad(lambda x: np.linalg.norm(x, axis=1), x)
    np.testing.assert_allclose(y, [5, 5e200, 0, 5e-200, np.nan])
    np.testing.assert_allclose(dx[:4], [[0.6, 0.8], [0.6, 0.8], [0, 0], [0.6, 0.8]], rtol=1e-15)
    assert np.isnan(dx[4]).all()
    y, dx = value_and_grad(lambda x: np.std(x, axis=1), x)
    np.testing.assert_allclose(y, [0.5, 5e199, 0, 5e-201, np.nan])
    np.testing.assert_allclose(dx[:4], [[-0.5, 0.5], [-0.5, 0.5], [0, 0], [-0.5, 0.5]], rtol=1e-15)


@pytest.mark.parametrize("size", [1e200, 1e-200])
@pytest.mark.parametrize("f", [np.linalg.norm, np.std, lambda x: np.linalg.norm(x, 3), lambda x: np.hypot(x[0], x[1])])
def test_second_derivatives_where_squares_leave_the_range(f, size):
    x = np.array([3.0, -4.0])
    np.testing.assert_allclose(ad.hessian(f)(size * x) * size, ad.hessian(f)(x), rtol=1e-12, atol=1e-15)


def test_variances_of_large_numbers():
    y, dx = value_and_grad(np.var, [200.0, -200.0, 200.0], HALF)
    assert y == np.float16(200**2 * 8 / 9)
    np.testing.assert_allclose(dx, [88.9, -177.8, 88.9], rtol=1e-3)
    assert value_and_grad(np.nanvar, [200.0, -200.0, 200.0], HALF)[0] == y
    y, _ = value_and_grad(np.var, [1.5e19, -1.5e19, 1.5e19], SINGLE)  # their sum of squares is infinite, y is not
    np.testing.assert_allclose(y, 2e38, rtol=1e-6)


def test_an_infinite_cotangent_is_not_lost_at_the_kink():
    x = Tensor([0.0, 0.0], requires_grad=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        np.sqrt(np.linalg.norm(x)).backward()
    assert np.isnan(x.grad).all()


# --- no degrees of freedom ---

ONE = np.array([True, False])
SPREADS = {
    "std": lambda x: np.std(x, ddof=1),
    "F.std": lambda x: F.std(x, ddof=1, keepdims=True),
    "method": lambda x: x.std(ddof=1),
    "var": lambda x: np.var(x, axis=0, ddof=1),
    "correction": lambda x: np.std(x, correction=1),
    "axis": lambda x: np.std(np.reshape(x, (1, 1)), axis=1, ddof=1, keepdims=True),
    "std of a part": lambda x: np.std(np.stack([x[0], x[0]]), where=ONE, ddof=1),
    "var of a part": lambda x: np.var(np.stack([x[0], x[0]]), where=ONE, ddof=1),
    "nanstd": lambda x: np.nanstd(x, ddof=1),
    "nanstd of a part": lambda x: np.nanstd(np.stack([x[0], np.array(np.nan)]), ddof=1),
    "nanvar": lambda x: np.nanvar(x, axis=0, ddof=1),
}


@pytest.mark.parametrize("f", SPREADS.values(), ids=SPREADS)
@pytest.mark.filterwarnings("ignore:Degrees of freedom")
def test_a_spread_without_degrees_of_freedom_is_no_stationary_point(f):
    with np.errstate(divide="ignore", invalid="ignore"):
        y, dx = value_and_grad(f, [5.0])
        assert np.isnan(y).all()
        assert np.isnan(dx).all()
        assert np.isnan(ad.hessian(lambda x: np.sum(f(x)))(np.array([5.0]))).all()


def test_only_the_row_without_degrees_of_freedom_is_nan():
    x = np.array([[1.0, 3.0], [1.0, np.nan]])
    for f in (np.nanstd, np.nanvar):
        _, dx = value_and_grad(lambda x, f=f: f(x, axis=1, ddof=1), x)
        assert np.isnan(dx).tolist() == [[False, False], [True, False]]
