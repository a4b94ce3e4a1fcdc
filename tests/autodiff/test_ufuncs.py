"""Trigonometric, hyperbolic, rounding and other functions: exact points, large numbers, PyTorch's derivatives."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import autodiff as ad
import autodiff.functional as F
from autodiff import Tensor

inf, nan, pi = math.inf, math.nan, math.pi


def leaf(data, dtype=float):
    return Tensor(np.array(data, dtype), requires_grad=True)


def grads(f, *arrays):
    """Gradients of sum(f), one for each array."""
    leaves = [leaf(array) for array in arrays]
    y = f(*leaves)
    y.backward(np.ones(y.shape))
    return tuple(x.grad.tolist() for x in leaves)


def derivatives(f, at, order):
    """Derivatives of a function of one number, from the first up."""
    x = leaf(at)
    y, found = f(x), []
    for _ in range(order):
        y = ad.gradients(y, x, create_graph=True)
        found.append(y.item())
    return found


# --- PyTorch ---

NUMBERS, UNIT, ABOVE, PROBABLE = [-2.3, -0.4, 0.3, 1.7], [-0.8, -0.1, 0.5, 0.9], [1.1, 1.9, 30.0], [0.2, 0.7, 2.9]
ONE = [
    ("tan", NUMBERS), ("arcsin", UNIT), ("arccos", UNIT), ("arctan", NUMBERS), ("sinh", NUMBERS), ("cosh", NUMBERS),
    ("tanh", NUMBERS), ("arcsinh", NUMBERS), ("arccosh", ABOVE), ("arctanh", UNIT), ("exp2", NUMBERS),
    ("log2", PROBABLE), ("log10", PROBABLE), ("sinc", NUMBERS), ("deg2rad", NUMBERS), ("rad2deg", UNIT),
    ("positive", NUMBERS), ("nan_to_num", NUMBERS),
]  # fmt: skip
TWO = ["arctan2", "hypot", "logaddexp", "logaddexp2", "fmax", "fmin", "remainder", "fmod", "copysign", "float_power"]


def up_to_third(ours, theirs, arrays):
    """Compare derivatives of sum(sin(f)) with PyTorch's, orders 1 to 3, with random weights at every order."""
    torch = pytest.importorskip("torch", reason="compares with PyTorch")
    rng = np.random.default_rng(0)
    leaves = [leaf(x) for x in arrays]
    tensors = [torch.tensor(x, dtype=torch.float64, requires_grad=True) for x in arrays]
    y, z = np.sin(ours(*leaves)).sum(), torch.sin(theirs(torch, *tensors)).sum()
    for _ in range(3):
        gs = ad.gradients(y, leaves, create_graph=True)
        hs = torch.autograd.grad(z, tensors, create_graph=True)
        for g, h in zip(gs, hs, strict=True):
            h = h.detach().numpy()
            np.testing.assert_allclose(g.data, h, rtol=1e-9, atol=1e-12 * np.max(np.abs(h), initial=1))
        weights = [rng.normal(size=g.shape) for g in gs]
        y = sum((g * w).sum() for g, w in zip(gs, weights, strict=True))
        z = sum((h * torch.tensor(w)).sum() for h, w in zip(hs, weights, strict=True))


@pytest.mark.parametrize(("name", "at"), ONE, ids=[name for name, _ in ONE])
def test_functions_of_one_array_have_pytorchs_derivatives(name, at):
    def theirs(torch, x):
        return torch.log10(x) if name == "log10" else getattr(torch, name)(x)

    up_to_third(getattr(np, name), theirs, [np.array(at)])


@pytest.mark.parametrize("shapes", [((2, 3), (2, 3)), ((3, 1), (3,)), ((), (2, 3))], ids=str)
@pytest.mark.parametrize("name", TWO)
def test_functions_of_two_arrays_have_pytorchs_derivatives(name, shapes):
    rng = np.random.default_rng(1)

    def theirs(torch, x, y):
        if name == "logaddexp2":
            return torch.logaddexp2(x, y)
        return getattr(torch, name)(x, y)

    up_to_third(getattr(np, name), theirs, [rng.uniform(0.5, 2.5, shape) for shape in shapes])


def test_cube_root():
    # x^(1/3), x^(-2/3)/3, -2 x^(-5/3)/9, at -8.
    assert derivatives(np.cbrt, -8.0, 2) == pytest.approx([1 / 12, 2 / 288], rel=1e-14)
    with np.errstate(divide="ignore"):
        assert derivatives(np.cbrt, 0.0, 1) == [inf]
    assert grads(np.cbrt, [1e-300, 1e300]) == (pytest.approx([1e200 / 3, 1e-200 / 3], rel=1e-14, abs=0),)


# --- exact points ---


def test_lengths_and_angles_at_the_origin():
    gx, gy = grads(np.hypot, [0.0, 3.0, inf, -inf], [0.0, 4.0, 1.0, 2.0])
    assert (gx, gy) == (pytest.approx([0.0, 0.6, 1.0, -1.0]), pytest.approx([0.0, 0.8, 0.0, 0.0]))
    assert grads(np.arctan2, [inf, 1.0, inf], [1.0, -inf, inf]) == ([0.0, 0.0, 0.0], [0.0, 0.0, 0.0])
    assert np.allclose(grads(np.arctan2, [0.0, 1.0], [0.0, 1.0]), [[0.0, 0.5], [0.0, -0.5]], rtol=1e-15)
    for f in (np.hypot, np.arctan2):
        x, y = leaf(0.0), leaf(0.0)
        first = ad.gradients(f(x, y), [x, y], create_graph=True)
        assert np.isfinite([g.item() for g in ad.gradients(first[0] + first[1], [x, y])]).all()
    assert grads(np.arctan2, [0.0], [-1.0]) == ([-1.0], [-0.0])


def test_sinc_and_absolute_values_at_zero():
    assert derivatives(np.sinc, 0.0, 4) == pytest.approx([0.0, -(pi**2) / 3, 0.0, pi**4 / 5], rel=1e-12)
    assert grads(np.fabs, [-2.0, 0.0, 3.0]) == ([-1.0, 0.0, 1.0],)
    assert grads(lambda x: np.copysign(x, [1.0, -1.0, -0.0]), [-2.0, 0.0, 3.0]) == ([-1.0, 0.0, -1.0],)
    assert grads(lambda v: np.heaviside([-1.0, 0.0, 1.0], v), [5.0, 6.0, 7.0]) == ([0.0, 1.0, 0.0],)


@pytest.mark.parametrize("f", [np.fmax, np.fmin])
def test_nan_counts_as_missing(f):
    assert grads(f, [1.0, nan, nan, 2.0], [nan, 1.0, nan, 2.0]) == ([1.0, 0.0, 0.5, 0.5], [0.0, 1.0, 0.5, 0.5])
    assert f(leaf([nan, 1.0]), 0.5).tolist() == f([nan, 1.0], 0.5).tolist()


def test_what_is_replaced_gets_no_gradient():
    x = leaf([1.0, nan, inf, -inf])
    y = np.nan_to_num(x, nan=7.0)
    y.backward([1.0, nan, inf, nan])
    assert x.grad.tolist() == [1.0, 0.0, 0.0, 0.0]
    assert y.tolist() == np.nan_to_num(x.data, nan=7.0).tolist()
    np.testing.assert_array_equal(np.nan_to_num(leaf([-inf, nan]), posinf=1, neginf=-2).data, [-2.0, 0.0])


def test_logaddexp_of_infinite_numbers():
    # Both minus infinity: 0. Both plus infinity: they share it. One of them: all to the larger.
    x, y = [-inf, inf, -inf, 1.0, inf, 1000.0, -1000.0], [-inf, inf, 1.0, -inf, 1.0, -1000.0, -1000.0]
    for f in (np.logaddexp, np.logaddexp2):
        gx, gy = grads(f, x, y)
        assert gx == [0.0, 0.5, 0.0, 1.0, 1.0, 1.0, 0.5]
        assert gy == [0.0, 0.5, 1.0, 0.0, 0.0, 0.0, 0.5]
    assert grads(np.logaddexp, 0.0, -40.0)[1] == pytest.approx(math.exp(-40), rel=1e-14)
    np.testing.assert_allclose(derivatives(lambda t: np.logaddexp(t, 0.0), 0.0, 3), [0.5, 0.25, 0.0], atol=1e-16)


ROUNDED = [np.floor, np.ceil, np.trunc, np.rint, np.round, np.around, np.fix]


@pytest.mark.parametrize("f", ROUNDED, ids=lambda f: f.__name__)
def test_rounded_numbers_have_the_gradient_0(f):
    x = np.array([-1.5, -0.2, 0.0, 0.5, 2.5, inf])
    y = f(leaf(x))
    np.testing.assert_array_equal(y.data, f(x))
    assert type(y) is Tensor
    y.sum().backward()
    assert grads(f, [1.7, -0.5, 3.0]) == ([0.0, 0.0, 0.0],)
    assert grads(lambda t: t * f(t), [1.7]) == ([float(f(1.7))],)
    assert ad.hessian(lambda t: t * f(t))(1.7) == 0.0
    np.testing.assert_array_equal(np.round(leaf([12.345]), 1).data, [12.3])
    np.testing.assert_array_equal(np.round(leaf([12.345]), decimals=-1).data, [10.0])


@given(st.floats(-50, 50), st.floats(0.1, 5) | st.floats(-5, -0.1))
def test_division_with_remainder(a, b):
    """The quotient is an integer q with a = q b + r, so the gradients are 1 and -q, also where a is a multiple of b."""
    for f, divide in ((np.remainder, np.floor_divide), (np.fmod, None)):
        ga, gb = grads(f, a, b)
        rest = f(a, b)
        assert ga == 1.0
        assert gb == round(gb)
        assert rest == pytest.approx(a + gb * b, abs=1e-12 * (1 + abs(a)))
        if divide is not None:
            assert gb == -divide(a, b)


def test_quotients_that_division_rounds_up():
    assert grads(lambda d: np.fmod(1.0, d), [0.1]) == ([-9.0],)
    assert grads(lambda d: np.remainder(1.0, d), [0.1]) == ([-9.0],)
    quotient, rest = np.divmod(leaf([7.0]), 2.0)
    assert (quotient.tolist(), rest.tolist()) == ([3.0], [1.0])
    assert np.floor_divide(leaf([7.0]), 2.0).tolist() == [3.0]
    assert grads(lambda a, b: a // b, [7.0, 8.0], 2.0) == ([0.0, 0.0], 0.0)


def test_parts_of_numbers():
    x = np.array([-2.75, 0.5, 3.0, inf, -inf, -0.0])
    for f in (np.modf, np.frexp):
        for ours, theirs in zip(f(leaf(x)), f(x), strict=True):
            np.testing.assert_array_equal(getattr(ours, "data", ours), theirs)
            np.testing.assert_array_equal(np.signbit(ours), np.signbit(theirs))
    assert grads(lambda t: np.modf(t)[0], [-2.75, 0.5]) == ([1.0, 1.0],)
    assert grads(lambda t: np.frexp(t)[0], [6.0, 0.3]) == ([0.125, 2.0],)
    assert grads(lambda t: np.ldexp(t, [3, -1]), [1.0, 1.0]) == ([8.0, 0.5],)


def test_functions_that_change_nothing_real():
    x = np.array([1.5, -2.0])
    for f in (np.positive, np.conjugate, np.conj, np.real, np.real_if_close):
        y = f(leaf(x))
        np.testing.assert_array_equal(y.data, x)
        assert y.requires_grad
    assert np.imag(leaf(x)).tolist() == [0.0, 0.0]


def test_power_in_double_precision():
    x = leaf([2.0, 3.0], np.float32)
    y = np.float_power(x, 2)
    y.sum().backward()
    assert (y.dtype, x.grad.dtype, x.grad.tolist()) == (np.float64, np.float32, [4.0, 6.0])
    assert np.float_power(leaf([2.0]), np.array([3])).tolist() == [8.0]


# --- large and small numbers: no warning, no NaN, where the gradient is finite ---

LARGE = [
    (np.arctan, 1e200, 0.0), (np.arctan, 1e8, 1e-16), (np.arctan, inf, 0.0), (np.arctan, 1e154, 1e-308),
    (np.arcsinh, 1e200, 1e-200), (np.arcsinh, -1e200, 1e-200), (np.arccosh, 1e200, 1e-200), (np.tanh, 1e200, 0.0),
    (np.log2, 1e-300, 1e300 / math.log(2)), (np.log10, 1.7e308, 1 / 1.7e308 / math.log(10)),
    (np.exp2, -2000.0, 0.0), (np.tan, 1.5707963, 1 + math.tan(1.5707963) ** 2), (np.sinh, -700.0, math.cosh(700.0)),
    (np.arcsin, 1 - 1e-15, 1 / math.sqrt((1 - (1 - 1e-15)) * (2 - 1e-15))),
    (np.arctanh, 1 - 1e-15, 1 / ((1 - (1 - 1e-15)) * (2 - 1e-15))), (np.sinc, 1e8, 1e-8), (np.cbrt, 1e-200, None),
]  # fmt: skip


@pytest.mark.parametrize(("f", "at", "slope"), LARGE, ids=[f"{f.__name__}-{at}" for f, at, _ in LARGE])
def test_slopes_far_out(f, at, slope):
    (found,) = derivatives(f, at, 1)
    assert found == pytest.approx(slope, rel=1e-14 if f is not np.sinc else 1e-6, abs=0) if slope is not None else found
    if f not in (np.log2, np.cbrt):  # whose second derivatives overflow there
        assert np.isfinite(derivatives(f, at, 2)[1])


def test_hypotenuses_and_angles_far_out_and_close_by():
    for scale in (1e200, 1e-200, 5e-324):
        assert grads(np.hypot, 3 * scale, 0.0) == (1.0, 0.0)
    for scale in (1e200, 1e-200):
        gy, gx = grads(np.arctan2, 3 * scale, 4 * scale)
        assert (gy, gx) == (
            pytest.approx(4 / 25 / scale, rel=1e-12, abs=0),
            pytest.approx(-3 / 25 / scale, rel=1e-12, abs=0),
        )
    assert grads(np.hypot, 3e200, 4e200) == (pytest.approx(0.6), pytest.approx(0.8))
    assert grads(np.arctan2, 1e-200, 1e200)[1] == pytest.approx(0.0)


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@pytest.mark.parametrize("f", [np.arctan, np.arcsinh, np.tanh, lambda t: np.hypot(t, t), lambda t: np.logaddexp(t, -t)])
def test_half_and_single_precision_at_their_ends(f, dtype):
    x = leaf([np.finfo(dtype).max / 2, 0.5], dtype)
    y = f(x)
    y.sum().backward()
    assert y.dtype == x.grad.dtype == dtype
    assert np.isfinite(x.grad).all()


@given(st.floats(-30, 30))
def test_inverses_have_reciprocal_slopes(x):
    pairs = ((np.sinh, np.arcsinh), (np.tan, np.arctan), (np.exp2, np.log2), (lambda t: t**3, np.cbrt))
    for f, inverse in pairs:
        (there,) = grads(f, x)
        if not 1e-6 < abs(there) < 1e12:
            continue
        (back,) = grads(inverse, float(f(x)))
        assert there * back == pytest.approx(1.0, rel=1e-8)


@given(st.floats(-1000, 1000), st.floats(-1000, 1000))
def test_shares_of_a_logarithm_add_up_to_one(x, y):
    for f in (np.logaddexp, np.logaddexp2):
        gx, gy = grads(f, x, y)
        assert gx + gy == pytest.approx(1.0, rel=1e-14)
        assert min(gx, gy) >= 0


def test_names_are_ops_and_functions():
    for name in (
        "tan arcsin arccos arctan arctan2 sinh cosh arcsinh arccosh arctanh hypot logaddexp logaddexp2 exp2 log2 log10 "
        "positive fabs floor ceil rint trunc remainder fmod fmax fmin nan_to_num deg2rad rad2deg copysign cbrt ldexp "
        "heaviside floor_divide round"
    ).split():
        op = getattr(F, name)
        assert op.twin is getattr(np, name), name
    assert np.mod is np.remainder
    assert np.degrees(leaf(pi)).item() == 180.0
    assert np.radians(leaf(180.0)).item() == pi


def test_second_derivative_of_a_length_along_a_leg_of_zero():
    np.testing.assert_allclose(derivatives(lambda x: np.hypot(x, 2.0), 0.0, 2), [0.0, 0.5])
