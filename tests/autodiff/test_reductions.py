"""Reductions and scans: exact points, ties, zeros, empty axes, and PyTorch's derivatives up to the third."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

import autodiff as ad
import autodiff.functional as F
from autodiff import Tensor

REDUCTIONS = ["sum", "mean", "prod", "var", "std", "max", "min", "logsumexp"]
NAN = math.nan


def leaf(data, dtype=float):
    return Tensor(np.array(data, dtype), requires_grad=True)


def grad(f, x, dtype=float):
    """Gradient of sum(f) at x."""
    x = leaf(x, dtype)
    y = f(x)
    y.backward(np.ones(y.shape))
    return x.grad


def hessian(f, x):
    """Second derivatives of a function to a scalar, as rows: from a recorded gradient, element by element."""
    x = leaf(x)
    first = ad.gradients(f(x), x, create_graph=True)
    return [ad.gradients(part, x).tolist() for part in np.reshape(first, -1)]


# --- PyTorch ---


def theirs(torch, name, x, axis, keepdims):
    dim = tuple(range(x.ndim)) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    if name in ("var", "std"):
        return getattr(torch, name)(x, dim=dim, keepdim=keepdims, correction=0)
    if name in ("max", "min"):
        return getattr(torch, "a" + name)(x, dim=dim, keepdim=keepdims)
    if name == "prod":
        for i in sorted((i % x.ndim for i in dim), reverse=True):
            x = torch.prod(x, dim=i, keepdim=keepdims)
        return x
    return getattr(torch, name)(x, dim=dim, keepdim=keepdims)


def up_to_third(f, g, x):
    """Compare derivatives of our f with those of PyTorch's g, orders 1 to 3, with random weights at every order."""
    torch = pytest.importorskip("torch", reason="compares with PyTorch")
    rng = np.random.default_rng(0)
    ours, tensor = leaf(x), torch.tensor(x, requires_grad=True)
    y, z = f(ours), g(tensor)
    np.testing.assert_allclose(y.data, z.detach().numpy(), rtol=1e-12)
    weights = rng.normal(size=y.shape)
    y, z = (np.sin(y) * weights).sum(), (torch.sin(z) * torch.tensor(weights)).sum()  # so that none ends early
    for _ in range(3):
        p = ad.gradients(y, ours, create_graph=True)
        (q,) = torch.autograd.grad(z, tensor, create_graph=True)
        expected = q.detach().numpy()
        np.testing.assert_allclose(p.data, expected, rtol=1e-9, atol=1e-11 * np.max(np.abs(expected), initial=1))
        weights = rng.normal(size=x.shape)
        y, z = (p * weights).sum(), (q * torch.tensor(weights)).sum()


@pytest.mark.parametrize(
    ("shape", "axis", "keepdims"),
    [((4,), None, False), ((3, 3), 0, False), ((3, 3), -1, True), ((2, 3, 4), (0, 2), False),
     ((3, 3, 3), (-1, 0), True), ((2, 3, 2), None, True)],
)  # fmt: skip
@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions_have_pytorchs_derivatives(name, shape, axis, keepdims):
    torch = pytest.importorskip("torch", reason="compares with PyTorch")
    x = np.random.default_rng(3).normal(size=shape)
    up_to_third(
        lambda t: getattr(F, name)(t, axis=axis, keepdims=keepdims),
        lambda t: theirs(torch, name, t, axis, keepdims),
        x,
    )


@pytest.mark.parametrize("ddof", [0, 1, 2])
@pytest.mark.parametrize("name", ["var", "std"])
def test_degrees_of_freedom(name, ddof):
    torch = pytest.importorskip("torch", reason="compares with PyTorch")
    x = np.random.default_rng(4).normal(size=(3, 4))
    up_to_third(
        lambda t: getattr(F, name)(t, axis=1, ddof=ddof),
        lambda t: getattr(torch, name)(t, dim=1, correction=ddof),
        x,
    )


@pytest.mark.parametrize("axis", [0, 1, -2])
@pytest.mark.parametrize("name", ["cumsum", "cumprod"])
@pytest.mark.parametrize("zeros", [(), ((1, 2),), ((0, 1), (0, 3), (2, 1))], ids=len)
def test_scans_have_pytorchs_derivatives(name, axis, zeros):
    torch = pytest.importorskip("torch", reason="compares with PyTorch")
    x = np.random.default_rng(5).normal(size=(3, 5))
    for index in zeros:
        x[index] = 0.0
    up_to_third(lambda t: getattr(F, name)(t, axis=axis), lambda t: getattr(torch, name)(t, axis), x)


# --- sum and mean ---


def test_mean_over_two_axes():
    np.testing.assert_array_equal(grad(lambda x: x.mean(axis=(1, 2)), np.ones((2, 3, 4))), np.full((2, 3, 4), 1 / 12))


def test_sum_over_an_empty_axis():
    x = leaf(np.zeros((0, 3)))
    y = x.sum(axis=0)
    assert y.tolist() == [0, 0, 0]
    y.backward([1.0, 2.0, 3.0])
    assert x.grad.shape == (0, 3)


@pytest.mark.parametrize("name", ["mean", "var", "std"])
def test_mean_of_nothing_is_numpys(name):
    x = leaf(np.zeros((0, 3)))
    with pytest.warns(RuntimeWarning), np.errstate(invalid="ignore"):
        y = getattr(np, name)(x, axis=0)
    assert np.isnan(y.data).all()
    y.backward(np.ones(3))  # says nothing: there is nothing to differentiate by
    assert x.grad.shape == (0, 3)


def test_float16_means_of_many():
    x = np.ones(70_000)
    np.testing.assert_array_equal(grad(F.mean, x, np.float16), np.full(70_000, np.float16(1 / 70_000)))


# --- variance and standard deviation ---


@pytest.mark.parametrize("x", [[1.0, 1.0], [5.0], [0.1, 0.1, 0.1]], ids=repr)
def test_standard_deviation_of_equal_numbers(x):
    assert grad(F.std, x).tolist() == [0.0] * len(x)
    assert hessian(F.std, x) == [[0.0] * len(x)] * len(x)
    both = grad(lambda t: F.std(t, axis=1), [x, np.arange(len(x)) * 2.0])
    assert both[0].tolist() == [0.0] * len(x)
    assert len(x) == 1 or both[1].any()


def test_standard_deviation_of_a_scalar():
    assert grad(F.std, 3.0) == 0.0
    assert grad(F.var, 3.0) == 0.0


def test_standard_deviation_next_to_equal_numbers_is_right():
    np.testing.assert_allclose(grad(F.std, [1.0, 1.0 + 1e-9]), [-0.5, 0.5], rtol=1e-6)


def test_too_few_degrees_of_freedom():
    x = leaf([[3.0, 4.0]])
    for f, expected in ((F.var, [NAN, NAN]), (F.std, [NAN, NAN])):
        with pytest.warns(RuntimeWarning, match="Degrees of freedom"), np.errstate(divide="ignore"):
            y = f(x, ddof=2)
        np.testing.assert_array_equal(ad.gradients(y, x).data, [expected])


# --- largest and smallest ---


@pytest.mark.parametrize("name", ["max", "min"])
def test_ties_share_evenly(name):
    f = getattr(F, name)
    assert grad(f, [1.0, 1.0]).tolist() == [0.5, 0.5]
    assert grad(f, np.full((2, 2), 3.0)).tolist() == [[0.25, 0.25]] * 2
    sign = 1 if name == "max" else -1
    x = sign * np.array([[1.0, 2.0, 2.0], [5.0, 5.0, 5.0]])
    third = pytest.approx(1 / 3)
    assert grad(lambda t: f(t, axis=1), x).tolist() == [[0, 0.5, 0.5], [third, third, third]]
    assert grad(lambda t: f(t, axis=0, keepdims=True), x).tolist() == ([[0, 0, 0], [1, 1, 1]])
    assert grad(f, [math.inf * sign, 0.0, math.inf * sign]).tolist() == [0.5, 0, 0.5]
    assert hessian(lambda t: f(t) * f(t), [sign * 3.0, sign * 3.0, 0.0]) == [[0.5, 0.5, 0], [0.5, 0.5, 0], [0, 0, 0]]


@pytest.mark.parametrize(("dtype", "count"), [(np.float16, 5000), (np.float16, 70_000), (np.float32, 2**24 + 3)])
def test_ties_are_counted_in_wide_numbers(dtype, count):
    x = leaf(np.ones(count), dtype)
    y = F.max(x)
    g = ad.gradients(y, x).data
    assert (g.dtype, g[0], g[-1]) == (dtype, dtype(1 / count), dtype(1 / count))


@given(npst.arrays(np.float64, npst.array_shapes(max_dims=3, max_side=3), elements=st.sampled_from([0.0, 1.0, 2.0])))
def test_shares_of_a_maximum_add_up_to_one(x):
    for axis in (None, *range(-x.ndim, x.ndim)):
        for f in (F.max, F.min):
            shares = grad(lambda t, f=f, axis=axis: f(t, axis=axis), x)
            np.testing.assert_allclose(np.sum(shares, axis=axis), 1, rtol=1e-15)
            assert (shares[x != f(x, axis=axis, keepdims=True)] == 0).all()


def test_infinite_cotangents_reach_the_largest_only():
    x = leaf([1.0, 2.0])
    x.max().backward(math.inf)
    assert x.grad.tolist() == [0, math.inf]


def test_integers_and_empty_arrays():
    assert F.max(Tensor([1, 7, 3])).item() == 7
    assert F.min(np.array([[1, 7], [0, 3]]), axis=1).tolist() == [1, 0]
    with pytest.raises(ValueError, match="zero-size array"):
        F.max(leaf(np.zeros((0, 3))), axis=0)
    assert grad(lambda x: F.max(x, axis=1), np.zeros((0, 3))).shape == (0, 3)


# --- products ---


@pytest.mark.parametrize(
    ("x", "axis", "expected"),
    [
        ([0.0, 2.0, 3.0], None, [6, 0, 0]),
        ([0.0, 0.0, 3.0], None, [0, 0, 0]),
        ([0.0], None, [1]),
        (0.0, None, 1),
        ([[1.0, 2.0], [3.0, 4.0]], -1, [[2, 1], [4, 3]]),
        ([[[0.0, 2.0], [3.0, 4.0]], [[5.0, 0.0], [0.0, 6.0]]], (0, 2), [[[0, 0], [0, 0]], [[0, 0], [72, 0]]]),
        ([[[0.0, 2.0], [3.0, 4.0]], [[5.0, 7.0], [8.0, 6.0]]], (-1, 0), [[[70, 0], [192, 144]], [[0, 0], [72, 96]]]),
        (np.zeros((0, 2)), 0, np.zeros((0, 2))),
        (np.zeros((0, 2)), None, np.zeros((0, 2))),
    ],
    ids=str,
)
def test_gradient_of_a_product_is_that_of_the_others(x, axis, expected):
    for keepdims in (False, True):
        g = grad(lambda t, keepdims=keepdims: F.prod(t, axis=axis, keepdims=keepdims), x)
        np.testing.assert_array_equal(g, expected)
        assert g.shape == np.shape(x)


def test_second_derivative_of_a_product_with_zeros():
    assert hessian(F.prod, [0.0, 0.0, 3.0]) == [[0, 3, 0], [3, 0, 0], [0, 0, 0]]
    assert hessian(F.prod, [0.0, 2.0, 3.0]) == [[0, 3, 2], [3, 0, 0], [2, 0, 0]]
    assert hessian(F.prod, [0.0, 0.0, 0.0]) == [[0, 0, 0]] * 3


@pytest.mark.parametrize(
    ("x", "expected"), [([2.0, 0.0, 3.0], [1, 8, 0]), ([0.0], [1]), ([0.0, 0.0, 5.0], [1, 0, 0]), ([2.0, 3.0], [4, 2])]
)
def test_cumulative_products_with_zeros(x, expected):
    assert grad(F.cumprod, x).tolist() == expected


@given(npst.arrays(np.float64, st.integers(1, 9), elements=st.sampled_from([-2.0, -1.0, 0.0, 1.0, 3.0])))
def test_products_of_small_integers_are_exact(x):
    others = [math.prod(np.delete(x, i)) for i in range(len(x))]
    np.testing.assert_array_equal(grad(F.prod, x), others)
    expected = [sum(math.prod(np.delete(x[: i + 1], j)) for i in range(j, len(x))) for j in range(len(x))]
    np.testing.assert_array_equal(grad(F.cumprod, x), expected)


# --- sums along an axis ---


def test_cumulative_sum():
    assert grad(F.cumsum, [5.0, 6.0, 7.0]).tolist() == [3, 2, 1]
    assert grad(F.cumsum, [[5.0, 6.0], [7.0, 8.0]]).tolist() == [[4, 3], [2, 1]]
    assert grad(lambda x: x.cumsum(axis=-1), [[5.0, 6.0], [7.0, 8.0]]).tolist() == [[2, 1], [2, 1]]
    assert grad(lambda x: F.cumsum(x, axis=0), 3.0) == 1.0


@pytest.mark.parametrize("f", [F.cumsum, F.cumprod])
@pytest.mark.parametrize("axis", [0, 1, -1, None])
def test_scans_over_nothing(f, axis):
    x = leaf(np.zeros((2, 0)))
    y = f(x, axis=axis)
    y.backward(np.zeros(y.shape))
    assert y.shape == ((0,) if axis is None else (2, 0))
    assert x.grad.shape == (2, 0)


# --- logarithm of a sum of exponentials ---


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("x", "value", "expected"),
    [
        ([-math.inf, -math.inf], -math.inf, [0, 0]),
        ([-math.inf, 1.0], 1.0, [0, 1]),
        ([math.inf, 1000.0, -math.inf], math.inf, [1, 0, 0]),
        ([math.inf, 3.0, math.inf], math.inf, [0.5, 0, 0.5]),
        ([1000.0, 1000.0], 1000 + math.log(2), [0.5, 0.5]),
        ([-1000.0, -1000.0], math.log(2) - 1000, [0.5, 0.5]),
        ([-1e38, 3e38], 3e38, [0, 1]),
        (5.0, 5.0, 1),
        (-math.inf, -math.inf, 0),
        ([], -math.inf, []),
    ],
    ids=str,
)
def test_logsumexp_at_its_ends(x, value, expected, dtype):
    for keepdims in (False, True):
        t = leaf(x, dtype)
        y = F.logsumexp(t, keepdims=keepdims)
        assert y.dtype == dtype
        np.testing.assert_allclose(y.data.reshape(()), dtype(value), rtol=1e-6)
        y.sum().backward()
        assert t.grad.tolist() == expected


def test_rows_of_logsumexp_do_not_disturb_each_other():
    x = [[-math.inf, -math.inf], [0.0, 0.0], [math.inf, 5.0], [-math.inf, 2.0]]
    assert F.logsumexp(x, axis=1).tolist() == [-math.inf, math.log(2), math.inf, 2.0]
    np.testing.assert_array_equal(grad(lambda t: F.logsumexp(t, axis=1), x), [[0, 0], [0.5, 0.5], [1, 0], [0, 1]])
    t = leaf(x)
    first = ad.gradients(F.logsumexp(t, axis=1), t, np.ones(4), create_graph=True)
    second = ad.gradients((first * [1.0, 0.0]).sum(), t)  # p(1 - p), -p(1 - p)
    assert second.tolist() == [[0, 0], [0.25, -0.25], [0, 0], [0, 0]]


@given(npst.arrays(np.float64, npst.array_shapes(max_dims=2, max_side=4), elements=st.floats(-1e300, 1e300)))
def test_logsumexp_lies_between_the_largest_and_a_bound(x):
    y = F.logsumexp(x, axis=-1)
    assert (y >= x.max(axis=-1)).all()
    assert (y <= x.max(axis=-1) + math.log(x.shape[-1]) + 1e-12 * np.abs(y)).all()
    p = grad(lambda t: F.logsumexp(t, axis=-1), x)
    assert (p >= 0).all()
    # exp(x - y) is as exact as x - y: one unit in the last place of y is a relative error of p.
    np.testing.assert_allclose(p.sum(axis=-1)[np.abs(y) < 1e3], 1, rtol=1e-12)


def test_logsumexp_of_integers():
    assert F.logsumexp(np.array([0, 0])) == pytest.approx(math.log(2), rel=1e-15)
    assert F.logsumexp(2) == 2.0


# --- dtypes and protocols ---


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@pytest.mark.parametrize("name", [*REDUCTIONS, "cumsum", "cumprod"])
def test_dtype_stays(name, dtype):
    for x in (np.array([[0.5, 1.5], [2.5, 1.0]], dtype), np.array(0.5, dtype), np.zeros((2, 0), dtype)):
        axis = 0 if x.ndim else None
        t = Tensor(x, requires_grad=True)
        y = getattr(F, name)(t, axis=axis)
        assert y.dtype == dtype
        ((rule, needs),) = y.node.plan.rules
        assert rule.run(y.node, np.ones(y.shape, dtype)[()], needs).dtype == dtype  # before the sweep casts anything
        g = ad.gradients(y, t, np.ones(y.shape), create_graph=True)
        assert (g.dtype, g.shape) == (dtype, x.shape)


@pytest.mark.parametrize(
    "f",
    [np.sum, np.mean, np.prod, np.var, np.std, np.max, np.min, np.amax, np.amin, np.cumsum, np.cumprod],
    ids=lambda f: f.__name__,
)
@pytest.mark.parametrize("axis", [0, -1, None])
def test_numpys_functions_record(f, axis):
    x = np.random.default_rng(6).normal(size=(2, 3))
    for y in (f(leaf(x), axis), f(leaf(x), axis=axis)):
        np.testing.assert_array_equal(y.data, f(x, axis))
        assert F.__dict__[y.node.op.name] is y.node.op
    method = getattr(Tensor, f.__name__.removeprefix("a"), None)
    if method is not None:
        np.testing.assert_array_equal(method(leaf(x), axis).data, f(x, axis))


@pytest.mark.parametrize("f", [np.var, np.std])
def test_numpys_settings(f):
    x = np.random.default_rng(7).normal(size=(2, 3))
    np.testing.assert_array_equal(f(leaf(x), 1, ddof=1, keepdims=True).data, f(x, 1, ddof=1, keepdims=True))
    np.testing.assert_array_equal(f(leaf(x), correction=1).data, f(x, ddof=1))


@pytest.mark.parametrize("name", ["sum", "prod", "max", "min"])
def test_axis_of_a_scalar(name):
    # NumPy lets 0 and -1 pass for a scalar's axes.
    for axis in (0, -1, ()):
        assert grad(lambda x, axis=axis: getattr(F, name)(x, axis=axis), 3.0) == 1.0


def test_inner_reductions_of_a_chain_stay_numpys_scalars():
    x = leaf([1.0, 2.0])
    for name in REDUCTIONS:
        assert isinstance(getattr(F, name)(x)._values, np.generic)
