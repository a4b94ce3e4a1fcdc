"""Arithmetic, powers, exponentials, selection: exact points, dtypes, and PyTorch's derivatives up to the third."""

import functools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

import autodiff as ad
import autodiff.functional as F
from autodiff import Tensor
from autodiff.node import TWINS


def leaf(data, dtype=float):
    return Tensor(np.array(data, dtype), requires_grad=True)


def grads(f, *arrays):
    """Gradients of sum(f), one for each array."""
    leaves = [leaf(array) for array in arrays]
    f(*leaves).sum().backward()
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

NUMBERS = [-2.3, -1.1, -0.4, 0.3, 0.9, 1.7]
PROBABLE = [0.2, 0.7, 1.3, 2.9]

UNARY = [
    ("negative", NUMBERS), ("abs", NUMBERS), ("exp", NUMBERS), ("expm1", NUMBERS), ("log", PROBABLE),
    ("log1p", PROBABLE), ("sqrt", PROBABLE), ("square", NUMBERS), ("reciprocal", NUMBERS), ("sin", NUMBERS),
    ("cos", NUMBERS), ("tanh", NUMBERS), ("sigmoid", NUMBERS), ("softplus", NUMBERS),
]  # fmt: skip

SHAPES = [((2, 3), (2, 3)), ((3, 1), (1, 3)), ((3,), (3, 3)), ((), (2, 3)), ((0, 3), (1, 3))]


def scalar(f, module, weights, arrays):
    """Sum of the weighted sines of f: nonlinear in f, so that no derivative of it ends early."""
    return (weights * module.sin(f(*arrays))).sum()


def up_to_third(f, theirs, arrays):
    """Compare our derivatives of f with PyTorch's, orders 1 to 3, with random weights at every order."""
    torch = pytest.importorskip("torch", reason="compares with PyTorch")
    rng = np.random.default_rng(0)
    ours, tensors = [leaf(a) for a in arrays], [torch.tensor(np.array(a), requires_grad=True) for a in arrays]
    weights = rng.normal(size=np.broadcast_shapes(*(np.shape(a) for a in arrays)))
    y = scalar(f, np, weights, ours)
    z = scalar(functools.partial(theirs, torch), torch, torch.tensor(weights), tensors)
    np.testing.assert_allclose(y.data, z.detach().numpy(), rtol=1e-12)
    for _ in range(3):
        gs = ad.gradients(y, ours, create_graph=True)
        hs = torch.autograd.grad(z, tensors, create_graph=True)
        for g, h in zip(gs, hs, strict=True):
            h = h.detach().numpy()
            np.testing.assert_allclose(g.data, h, rtol=1e-10, atol=1e-12 * np.max(np.abs(h), initial=1))
        directions = [rng.normal(size=g.shape) for g in gs]
        y = sum((g * v).sum() for g, v in zip(gs, directions, strict=True))
        z = sum((h * torch.tensor(v)).sum() for h, v in zip(hs, directions, strict=True))


@pytest.mark.parametrize(("name", "at"), UNARY, ids=[name for name, _ in UNARY])
def test_functions_of_one_array_have_pytorchs_derivatives(name, at):
    def theirs(torch, x):
        return torch.nn.functional.softplus(x, threshold=1e9) if name == "softplus" else getattr(torch, name)(x)

    up_to_third(getattr(F, name), theirs, [np.array(at)])


@pytest.mark.parametrize("shapes", SHAPES, ids=str)
@pytest.mark.parametrize("name", ["add", "subtract", "multiply", "divide", "power", "maximum", "minimum"])
def test_functions_of_two_arrays_have_pytorchs_derivatives(name, shapes):
    rng = np.random.default_rng(1)
    up_to_third(getattr(F, name), lambda torch, x, y: getattr(torch, "pow" if name == "power" else name)(x, y),
                [rng.uniform(0.5, 2.0, shape) for shape in shapes])  # fmt: skip


def test_where_and_clip_have_pytorchs_derivatives():
    rng = np.random.default_rng(2)
    x, y, low, high = rng.normal(size=(3, 3)), rng.normal(size=(3, 1)), rng.normal(size=3) - 1, rng.normal(size=(3, 1))
    mask = x > 0.1
    up_to_third(lambda a, b: F.where(mask, a, b), lambda torch, a, b: torch.where(torch.tensor(mask), a, b), [x, y])
    up_to_third(F.clip, lambda torch, *args: torch.clamp(*args), [2 * x, low, high])
    up_to_third(lambda a: F.clip(a, -0.5), lambda torch, a: torch.clamp(a, -0.5), [x])
    up_to_third(lambda a: F.clip(a, max=0.5), lambda torch, a: torch.clamp(a, max=0.5), [x])


@pytest.mark.parametrize("exponent", [0, 1, 2, 3, -2, 2.0, np.array([0, 1, 3]), np.float32(3)], ids=repr)
def test_constant_powers_have_pytorchs_derivatives(exponent):
    def theirs(torch, x):
        return torch.pow(x, torch.tensor(exponent))

    up_to_third(lambda x: x**exponent, theirs, [np.array([[-1.5, 0.7, -0.4]])])


# --- powers at zero ---


def test_bell_curve_has_all_its_derivatives_at_its_top():
    assert derivatives(lambda x: F.exp(-(x**2)), 0.0, 6) == [0.0, -2.0, 0.0, 12.0, 0.0, -120.0]


@pytest.mark.parametrize("kind", [int, float, np.float64, np.float32, lambda p: np.array(p, float), np.uint8])
@pytest.mark.parametrize(
    ("exponent", "expected"), [(0, [0, 0, 0]), (1, [1, 0, 0]), (2, [0, 2, 0]), (3, [0, 0, 6])], ids=str
)
def test_powers_at_zero(kind, exponent, expected):
    assert derivatives(lambda x: x ** kind(exponent), 0.0, 3) == expected


def test_powers_of_an_array_at_zero():
    x = leaf([0.0, 0.0, 0.0, 0.0])
    first = ad.gradients((x ** np.array([0, 1, 2, 3])).sum(), x, create_graph=True)
    second = ad.gradients(first.sum(), x, create_graph=True)
    assert (first.tolist(), second.tolist()) == ([0, 1, 0, 0], [0, 0, 2, 0])


def test_constant_exponent_of_a_negative_base():
    assert grads(lambda x: x**3, -2.0) == (12.0,)
    assert grads(lambda x: x**3.0, [-2.0, 0.0]) == ([12.0, 0.0],)
    x = leaf(-2.0)
    y = x ** Tensor(3.0)
    assert len(y.node.plan.rules) == 1
    y.backward()
    assert x.grad == 12.0


def test_exponents_gradient_at_base_zero():
    assert grads(lambda p: F.power(0.0, p), [0.5, 1.0, 3.0]) == ([0.0, 0.0, 0.0],)
    assert grads(F.power, [0.0, 2.0], [2.0, 2.0]) == ([0.0, 4.0], [0.0, 4 * math.log(2)])
    with np.errstate(divide="ignore"):  # 0**p falls from 1 to 0 behind p = 0, and is infinite before it
        assert grads(lambda p: F.power(0.0, p), [0.0, -0.5]) == ([-math.inf, -math.inf],)
    p = leaf(2.0)
    first = ad.gradients(0.0**p, p, create_graph=True)
    assert ad.gradients(first, p).item() == 0.0


def test_mixed_derivative_of_a_power_with_exponent_zero():
    # d²(x^p)/dx dp = x^(p-1) (1 + p log x), which is 1/x at p = 0.
    x, p = leaf(4.0), leaf(0.0)
    first = ad.gradients(x**p, x, create_graph=True)
    assert ad.gradients(first, p).item() == 0.25


def test_infinite_slopes_are_honest():
    with np.errstate(divide="ignore"):
        assert grads(np.sqrt, [0.0, 4.0]) == ([math.inf, 0.25],)
        assert grads(lambda x: x**0.5, [0.0]) == ([math.inf],)
        assert grads(np.log, [0.0]) == ([math.inf],)


def test_powers_avoid_zero_times_infinity():
    assert grads(lambda x: x**1.5, [0.0]) == ([0.0],)
    with np.errstate(divide="ignore"):
        assert grads(lambda x: x * x**0.5, [0.0]) == ([0.0],)
        assert grads(lambda x: x**2 * np.power(x, -0.5), [4.0]) == ([3.0],)


def test_division_survives_where_the_square_would_not():
    ((gx,), (gy,)) = grads(lambda x, y: x / y, [1e-200], [1e-180])
    assert (gx, gy) == (pytest.approx(1e180), pytest.approx(-1e160))


# --- kinks and ties ---


def test_absolute_value():
    assert grads(abs, [-2.0, 0.0, -0.0, 3.0]) == ([-1.0, 0.0, 0.0, 1.0],)


def test_sign_has_the_gradient_0():
    x = leaf([-2.0, 0.0, 3.0])
    y = np.sign(x)
    assert y.tolist() == [-1, 0, 1]
    assert grads(np.sign, [-2.0, 0.0, 3.0]) == ([0.0, 0.0, 0.0],)
    assert grads(np.heaviside, [-2.0, 0.0], 0.5) == ([0.0, 0.0], 1.0)
    assert grads(np.copysign, [-2.0, 1.0], [0.0, -3.0]) == ([-1.0, -1.0], [0.0, 0.0])
    assert grads(lambda x: x * np.sign(x), [-2.0, 3.0]) == ([-1.0, 1.0],)


@pytest.mark.parametrize("f", [np.maximum, np.minimum])
def test_ties_are_split_evenly(f):
    assert grads(f, [1.0, 1.0], [1.0, 1.0]) == ([0.5, 0.5], [0.5, 0.5])
    assert grads(lambda x: f(x, 0.0), 0.0) == (0.5,)
    assert grads(lambda x: f(x, x), [1.0, 2.0]) == ([1.0, 1.0],)


def test_larger_and_smaller_of_two():
    assert grads(np.maximum, [1.0, 5.0], [2.0, 4.0]) == ([0.0, 1.0], [1.0, 0.0])
    assert grads(np.minimum, [1.0, 5.0], [2.0, 4.0]) == ([1.0, 0.0], [0.0, 1.0])
    assert grads(lambda x: np.maximum(x, [[1], [3]]), [2.0, 4.0]) == ([1.0, 2.0],)
    assert grads(np.maximum, [-math.inf, math.inf], [0.0, 0.0]) == ([0.0, 1.0], [1.0, 0.0])


def test_clip_passes_the_gradient_at_its_limits():
    assert grads(lambda x: np.clip(x, 1, 4), range(6)) == ([0, 1, 1, 1, 1, 0],)
    assert grads(lambda x: x.clip(1), range(4)) == ([0, 1, 1, 1],)
    assert grads(lambda x: F.clip(x, max=1), range(4)) == ([1, 1, 0, 0],)
    assert grads(F.clip, [0.0, 7.0]) == ([1.0, 1.0],)
    assert grads(lambda x: F.clip(x, 2.0, 2.0), [1.0, 2.0, 3.0]) == ([0, 1, 0],)


def test_clips_limits_get_the_gradient_where_they_are_the_result():
    a, low, high = grads(lambda a, low, high: F.clip(a, low, high), range(6), 1.0, 4.0)
    assert (a, low, high) == ([0, 1, 1, 1, 1, 0], 1.0, 1.0)
    assert F.clip(np.arange(4.0), 3.0, 1.0).tolist() == [1, 1, 1, 1]
    assert grads(F.clip, range(5), 3.0, 1.0) == ([0, 0, 0, 0, 0], 0.0, 5.0)


@given(*[npst.arrays(np.float64, 4, elements=st.sampled_from([-1.0, 0.0, 1.0, 2.0])) for _ in range(3)])
def test_clips_weights_add_up_to_one(a, low, high):
    np.testing.assert_array_equal(F.clip(a, low, high), np.clip(a, low, high))
    assert np.sum(grads(F.clip, a, low, high), axis=0).tolist() == [1, 1, 1, 1]


def test_numpys_names_of_the_limits():
    x = np.arange(6.0)
    for settings in [
        {"min": 1},
        {"max": 4},
        {"min": 1, "max": 4},
        {"a_min": 1, "a_max": 4},
        {"a_min": None, "a_max": 4},
    ]:
        expected = np.clip(x, settings.get("min", settings.get("a_min")), settings.get("max", settings.get("a_max")))
        np.testing.assert_array_equal(TWINS[np.clip](leaf(x), **settings).data, expected)
    with pytest.raises(TypeError, match="each limit once"):
        TWINS[np.clip](leaf(x), 1, min=2)  # NumPy has these names since 2.1


def test_clip_without_limits_is_a_copy():
    x = np.arange(3.0)
    assert not np.shares_memory(F.clip(x), x)


def test_where_gives_exactly_zero_to_what_was_not_taken():
    x, y = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    F.where([True, False], x, y).backward([math.inf, math.nan])
    assert x.grad.tolist() == [math.inf, 0.0]
    assert y.grad[0] == 0.0
    assert np.isnan(y.grad[1])


def test_where_has_no_gradient_for_its_condition():
    c, x = leaf([1.0, 0.0]), leaf([5.0, 6.0])
    y = np.where(c, x, 0.0)
    y.sum().backward()
    assert (c.grad, x.grad.tolist()) == (None, [1.0, 0.0])


def test_where_does_not_undo_what_was_computed_behind_it():
    with np.errstate(invalid="ignore"):
        (g,) = grads(lambda x: np.where(x > 0, np.sqrt(x), x), [-1.0, 4.0])
    assert np.isnan(g[0])
    assert g[1] == 0.25


# --- large and small numbers ---


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("f", [F.sigmoid, F.softplus, np.tanh], ids=["sigmoid", "softplus", "tanh"])
def test_saturation_is_quiet(f, dtype):
    limits = {F.sigmoid: ([0, 1], [0, 0]), F.softplus: ([0, 800], [0, 1]), np.tanh: ([-1, 1], [0, 0])}
    for scale in (1.0, math.inf):
        x = leaf(np.multiply([-800.0, 800.0], scale), dtype)
        y = f(x)
        y.sum().backward()
        expected = limits[f][0] if scale == 1.0 or f is not F.softplus else [0, math.inf]
        assert (y.tolist(), x.grad.tolist()) == (expected, limits[f][1])
        assert {y.dtype, x.grad.dtype} == {np.dtype(dtype)}


def test_softplus_of_100_in_float32():
    x = leaf(100.0, np.float32)
    y = F.softplus(x)
    y.backward()
    assert (y.item(), x.grad.item()) == (100.0, 1.0)


def test_small_results_keep_their_digits():
    small = pytest.approx(math.exp(-40), rel=1e-15, abs=0)
    assert F.sigmoid(-40.0) == small
    assert F.softplus(-40.0) == small
    assert grads(F.softplus, -40.0) == (small,)
    assert grads(np.expm1, -40.0) == (small,)
    assert F.sigmoid(np.array([3], np.uint8)) == pytest.approx(1 / (1 + math.exp(-3)), rel=1e-15)


# --- dtypes, scalars, protocols ---

BY_ONE = ["negative", "abs", "exp", "expm1", "log", "log1p", "sqrt", "square", "reciprocal", "sin", "cos", "tanh",
          "sigmoid", "softplus", "sign", "clip"]  # fmt: skip


@pytest.mark.parametrize("shape", [(), (3,), (0, 2)], ids=str)
@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@pytest.mark.parametrize("name", BY_ONE)
def test_dtype_stays(name, dtype, shape):
    x = leaf(np.full(shape, 0.7), dtype)
    y = getattr(F, name)(x)
    assert (y.dtype, y.shape) == (dtype, shape)
    g = ad.gradients(y, x, np.ones(shape), create_graph=True)
    assert (g.dtype, g.shape) == (dtype, shape)


@pytest.mark.parametrize("other", [2, 2.0, True, np.float32(2)], ids=repr)
@pytest.mark.parametrize("name", ["add", "subtract", "multiply", "divide", "power", "maximum", "minimum"])
def test_weak_numbers_do_not_widen(name, other):
    op = getattr(F, name)
    for order in (lambda x: op(x, other), lambda x: op(other, x), lambda x: F.where([True], x, other)):
        x = leaf([0.5, 1.5, 2.5], np.float32)
        y = order(x)
        assert y.dtype == np.float32
        rule, needs = y.node.plan.rules[0]
        assert rule.run(y.node, np.ones(3, np.float32), needs).dtype == np.float32  # before the sweep casts anything


def test_strong_numbers_widen():
    x = leaf([0.5], np.float32)
    y = x * np.float64(2)
    y.backward()
    assert (y.dtype, x.grad.dtype, x.grad.tolist()) == (np.float64, np.float32, [2.0])


def test_astype_casts_the_gradient_back():
    x = leaf([0.1, 0.2], np.float32)
    y = x.astype(np.float64)
    (y * y).sum().backward()
    assert (y.dtype, x.grad.dtype) == (np.float64, np.float32)
    np.testing.assert_array_equal(x.grad, 2 * x.data)
    z = leaf([0.1]).astype("f4")
    assert (z.dtype, z.requires_grad) == (np.float32, True)
    assert not leaf([1.7]).astype(int).requires_grad


def test_astype_is_recorded_twice():
    x = leaf([0.5, 2.0])
    y = x.astype(np.float32)
    first = ad.gradients((y * y * y).sum(), x, create_graph=True)
    second = ad.gradients(first.sum(), x)
    assert (first.dtype, second.dtype, second.tolist()) == (np.float64, np.float64, [3.0, 12.0])


@pytest.mark.parametrize("name", ["add", "multiply", "exp", "sigmoid", "where", "maximum", "clip", "astype"])
def test_scalars_stay_numpys_scalars(name):
    arguments = {"add": (1.0,), "multiply": (2.0,), "where": (True, 0.0), "maximum": (0.0,), "clip": (0.0, 1.0)}
    settings = {"dtype": np.float32} if name == "astype" else {}
    x, rest = leaf(0.5), arguments.get(name, ())
    y = F.where(rest[0], x, rest[1]) if name == "where" else getattr(F, name)(x, *rest, **settings)
    assert isinstance(y._values, np.generic)
    y.backward()
    assert type(x.grad) is np.ndarray


@pytest.mark.parametrize(
    "ufunc",
    [np.add, np.subtract, np.multiply, np.divide, np.true_divide, np.power, np.negative, np.absolute, np.abs, np.exp,
     np.expm1, np.log, np.log1p, np.sqrt, np.square, np.reciprocal, np.sin, np.cos, np.tanh, np.maximum, np.minimum],
)  # fmt: skip
def test_numpys_functions_record(ufunc):
    x = np.array([0.5, 1.5])
    arguments = (x, x + 1)[: ufunc.nin]
    y = ufunc(leaf(x), *arguments[1:])
    np.testing.assert_array_equal(y.data, ufunc(*arguments))
    assert y.requires_grad
    assert F.__dict__[y.node.op.name] is y.node.op


@pytest.mark.parametrize("name", ["add", "subtract", "multiply", "divide", "power", "maximum", "minimum"])
def test_same_tensor_twice(name):
    # f(x, x) has the sum of both partial derivatives.
    op = getattr(F, name)
    x = np.array([0.7, 1.9])
    parts = grads(op, x, x)
    np.testing.assert_allclose(grads(lambda x: op(x, x), x)[0], np.add(*parts), rtol=1e-15)


finite = st.floats(-50, 50, allow_subnormal=False)


@given(npst.arrays(np.float64, npst.array_shapes(max_dims=2, max_side=3), elements=finite))
def test_sigmoid_and_softplus_belong_together(x):
    np.testing.assert_allclose(F.sigmoid(x) + F.sigmoid(-x), 1, rtol=1e-14)
    np.testing.assert_allclose(F.softplus(x) - F.softplus(-x), x, rtol=1e-14, atol=1e-14)
    np.testing.assert_allclose(F.sigmoid(x), (1 + np.tanh(x / 2)) / 2, rtol=1e-9, atol=1e-15)
    np.testing.assert_array_equal(grads(F.softplus, x)[0], F.sigmoid(x))


@given(st.data())
def test_sums_over_broadcast_axes(data):
    shapes = data.draw(npst.mutually_broadcastable_shapes(num_shapes=2, max_dims=3, max_side=3))
    x, y = (data.draw(npst.arrays(np.float64, shape, elements=finite)) for shape in shapes.input_shapes)
    ones = np.ones(shapes.result_shape)
    gx, gy = (np.asarray(g) for g in grads(F.multiply, x, y))
    for g, other, shape in ((gx, y, x.shape), (gy, x, y.shape)):
        full = ones * other
        lead = full.ndim - len(shape)
        axes = tuple(i for i in range(full.ndim) if i < lead or shape[i - lead] == 1)
        np.testing.assert_allclose(g.reshape(shape), full.sum(axis=axes).reshape(shape), rtol=1e-12, atol=1e-9)
