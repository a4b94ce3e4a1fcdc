"""Numbers whose squares, sums or counts leave the range of their dtype: lengths, spreads and means stay right."""

import contextlib

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


@pytest.mark.parametrize("dtype", [HALF, SINGLE, DOUBLE])
@pytest.mark.parametrize("p", [40, 200, 3000, -200, -3000])
def test_lengths_of_high_orders(p, dtype):
    y, dx = value_and_grad(lambda x: np.linalg.norm(x, p), [0.5, -0.5, 0.75 if p < 0 else 0.25], dtype)
    np.testing.assert_allclose(y, 0.5 * 2 ** (1 / p), rtol=1e-3 if dtype == HALF else 1e-6)
    share = 0.5 * 2 ** (1 / p)  # the two share the slope of the largest, or smallest, size
    np.testing.assert_allclose(dx, [share, -share, 0], rtol=2e-3, atol=1e-6)


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


@pytest.mark.parametrize("size", [1e200, 1e-200])
def test_correlations_do_not_depend_on_units(size):
    x, y = np.array([1.0, 2.0, 4.0]), np.array([2.0, 1.0, 5.0])
    r, dx = value_and_grad(lambda x: np.corrcoef(x, y)[0, 1], x * size)
    expected, slope = value_and_grad(lambda x: np.corrcoef(x, y)[0, 1], x)
    np.testing.assert_allclose(r, expected, rtol=1e-14)
    np.testing.assert_allclose(dx * size, slope, rtol=1e-12)


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


# --- cotangents near the ends of the range ---


@pytest.mark.parametrize(("size", "g"), [(1e100, 1e-250), (1e-140, 1e200), (1e200, 1e-200), (1e-200, 1e250)])
@pytest.mark.parametrize("f", LENGTHS.values(), ids=LENGTHS)
def test_gradients_of_lengths_for_cotangents_of_any_size(f, size, g):
    x = size * X
    dx = ad.grad(lambda x: np.sum(f(x)) * g)(x)
    np.testing.assert_allclose(dx / g, ad.grad(lambda x: np.sum(f(x)))(X), rtol=1e-12)


RECIPROCALS = {
    "reciprocal": np.reciprocal,
    "power": lambda x: x**-1,
    "power, float": lambda x: np.power(x, -1.0),
    "quotient": lambda x: 1 / x,
}


@pytest.mark.parametrize(("x", "g"), [(1e200, 1e200), (-1e-200, 1e-200), (1e-160, 1e-300), (1e250, 1e250)])
@pytest.mark.parametrize("f", RECIPROCALS.values(), ids=RECIPROCALS)
def test_gradients_of_reciprocals_for_cotangents_of_any_size(f, x, g):
    np.testing.assert_allclose(ad.grad(lambda x: g * f(x))(x), -(g / x) / x, rtol=1e-14)


@pytest.mark.parametrize(("size", "g"), [(1e200, 1e250), (1e-200, 1e-250), (1e160, 1e-30), (0.5, 1e307), (2.0, 1e307)])
def test_gradients_of_angles_for_cotangents_of_any_size(size, g):
    for x in ([3.0, 4.0], [1.0, 0.0], [-1e-90, 1.0]):
        x = np.array(x)
        dx = ad.grad(lambda x: g * np.arctan2(x[0], x[1]))(size * x)
        right = g / size * (np.array([x[1], -x[0]]) / np.hypot(*x) ** 2)
        np.testing.assert_allclose(dx, right, rtol=1e-12)


def test_gradients_of_negative_powers_for_cotangents_of_any_size():
    np.testing.assert_allclose(ad.grad(lambda x: 1e200 * x**-2)(np.array(1e120)), -2e-160, rtol=1e-14)
    np.testing.assert_allclose(ad.grad(lambda x: 1e-200 * x**-2)(np.array(-1e-120)), 2e160, rtol=1e-14)
    np.testing.assert_allclose(ad.grad(lambda x: 1e-160 * x**-2.5)(np.array(1e-100)), -2.5e190, rtol=1e-14)


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


# --- normalised rows ---


@pytest.mark.parametrize("recorded", [contextlib.nullcontext, ad.decompose], ids=["fused", "decomposed"])
@pytest.mark.parametrize(
    ("size", "eps", "dtype"),
    [(1e4, 1e-5, HALF), (1e30, 1e-5, SINGLE), (3e38, 1e-5, SINGLE), (1e200, 0, DOUBLE), (1e-30, 0, SINGLE)],
)
@pytest.mark.parametrize("f", [F.layer_norm, F.rms_norm])
def test_normalised_rows_where_squares_leave_the_range(f, size, eps, dtype, recorded):
    rng = np.random.default_rng(0)
    x, g = rng.uniform(0.5, 1.0, (3, 4)) * [1, -1, 1, 1], rng.normal(size=4)
    with recorded():
        y, dx = value_and_grad(lambda x: f(x, eps=eps) * g.astype(dtype), (size * x).astype(dtype), dtype)
    expected, slope = value_and_grad(lambda x: f(x, eps=0.0) * g, x)  # f(c x) = f(x), so its slope is that over c
    rtol = 2e-2 if dtype == HALF else 2e-5 if dtype == SINGLE else 1e-12
    np.testing.assert_allclose(y, expected, rtol=rtol)
    np.testing.assert_allclose(dx.astype(float) * size, slope, rtol=rtol, atol=rtol)


def test_only_the_row_out_of_range_is_scaled():
    x = np.array([[1.0, 2.0, 4.0], [1e200, 2e200, 4e200], [0.0, 0.0, 0.0]])
    for f in (F.layer_norm, F.rms_norm):
        y, dx = value_and_grad(lambda x, f=f: f(x) * [1.0, 0.5, 0.0], x)
        ordinary, slope = value_and_grad(lambda x, f=f: f(x) * [1.0, 0.5, 0.0], x[::2])
        assert y[::2].tobytes() == ordinary.tobytes()
        assert dx[::2].tobytes() == slope.tobytes()
        np.testing.assert_allclose(y[1], y[0], rtol=1e-4)


# --- counts and sums that half precision does not hold ---

MANY = 70_000
WEIGHTS = np.ones(MANY, HALF)
PART = np.arange(MANY) < 66_000

MEANS = {
    "mean": np.mean,
    "nanmean": np.nanmean,
    "average": lambda x: np.average(x, weights=WEIGHTS),
    "average by weights that have gradients": lambda x: np.average(x, weights=Tensor(WEIGHTS)),
    "mean of a part": lambda x: np.mean(x, where=PART),
    "logsumexp": F.logsumexp,
    "max": np.max,
    "min": np.min,
    "softmax": lambda x: F.softmax(x)[0],
    "log_softmax": lambda x: -F.log_softmax(x)[-1],
    "attention": lambda x: F.scaled_dot_product_attention(np.zeros((1, 1), x.dtype), 0 * x[:, None], x[:, None]),
    "cross_entropy": lambda x: F.cross_entropy(x, MANY - 1),
    "cross_entropy, mean": lambda x: F.cross_entropy(np.stack([x, -x], -1), np.ones(MANY, int)),
}


@pytest.mark.parametrize("recorded", [contextlib.nullcontext, ad.decompose], ids=["fused", "decomposed"])
@pytest.mark.parametrize("f", MEANS.values(), ids=MEANS)
def test_means_of_many_numbers_in_half_precision(f, recorded):
    x = np.full(MANY, 0.5, HALF)
    with recorded():
        y, dx = value_and_grad(f, x, HALF)
    y64, dx64 = value_and_grad(f, x)
    np.testing.assert_allclose(y, y64, rtol=2e-3)
    np.testing.assert_allclose(dx[1], dx64[1], rtol=1e-2, atol=1e-7)


@pytest.mark.parametrize("f", [np.var, np.std, np.nanvar, np.nanstd, np.linalg.norm, lambda x: np.linalg.norm(x, 3)])
def test_spreads_and_lengths_of_many_numbers_in_half_precision(f):
    x = np.linspace(0.25, 0.75, MANY).astype(HALF)
    y, dx = value_and_grad(f, x, HALF)
    y64, dx64 = value_and_grad(f, x)
    np.testing.assert_allclose(y, y64, rtol=1e-3)
    np.testing.assert_allclose(dx[::7000], dx64[::7000], rtol=1e-2, atol=1e-7)


def test_wide_rows_in_half_precision():
    x = np.linspace(0.25, 0.75, MANY).astype(HALF)
    for f in (F.layer_norm, F.rms_norm):
        _, dx = value_and_grad(lambda x, f=f: f(x)[0] * 64, x, HALF)
        _, dx64 = value_and_grad(lambda x, f=f: f(x)[0] * 64, x)
        np.testing.assert_allclose(dx[::7000], dx64[::7000], rtol=1e-2)


@pytest.mark.parametrize(("dtype", "size"), [(np.float32, 1e20), (np.float32, 2.0**120), (np.float64, 1e160)])
@pytest.mark.parametrize("beside", [False, True])
def test_constant_rows_of_any_size_are_normalised_to_zeros(dtype, size, beside):
    rows = np.full((2, 3), size, dtype)
    if beside:
        rows[1] = [1.0, 2.0, 4.0]
    x = Tensor(rows, requires_grad=True)
    y = F.layer_norm(x)
    y.backward(np.asarray([[1.0, 2.0, 4.0]] * 2, dtype))
    assert y.data[0].tolist() == [0, 0, 0]
    np.testing.assert_allclose(x.grad[0], (np.array([1, 2, 4]) - 7 / 3) / 1e-5**0.5, rtol=1e-5)
    if beside:
        np.testing.assert_allclose(y.data[1], F.layer_norm(rows[1]), rtol=1e-6)


@pytest.mark.parametrize("wide", ["mask", "q", "v", "all"])
def test_attention_of_large_numbers_in_half_precision_beside_single(wide):
    rng = np.random.default_rng(0)
    q, k, v = (rng.normal(0, 300, (2, 4, 8)).astype(np.float16) for _ in range(3))
    given = [x.astype(np.float32) if wide in (name, "all") else x for name, x in (("q", q), ("k", k), ("v", v))]
    mask = np.zeros((4, 4), np.float32) if wide == "mask" else None
    leaves = [Tensor(x, requires_grad=True) for x in given]
    y = F.scaled_dot_product_attention(*leaves, mask=mask)
    right = F.scaled_dot_product_attention(*(x.astype(np.float64) for x in (q, k, v)))
    np.testing.assert_allclose(y.data, right, rtol=1e-3, atol=1e-2)
    y.sum().backward()
    assert all(np.isfinite(x.grad).all() for x in leaves)
