"""Numerical derivatives by hand, and the check of functions of tensors."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import autodiff as ad
import autodiff.functional as F
from autodiff import Tensor
from autodiff.op import Op, save
from autodiff.testing import (
    InconclusiveError,
    VacuousCheckError,
    VJPError,
    check_grads,
    numerical_jvp,
    numerical_vjp,
)

# --- numerical derivatives ---


@pytest.mark.parametrize(
    ("f", "slope", "low", "high"),
    [
        (np.exp, np.exp, -3.0, 3.0),
        (np.tanh, lambda x: 1 / np.cosh(x) ** 2, -3.0, 3.0),
        (lambda x: x**-0.5, lambda x: -0.5 * x**-1.5, 0.05, 5.0),
        (np.square, lambda x: 2 * x, 9e3, 1.1e4),
        (lambda x: np.exp(x) + 1e3, np.exp, 0.0, 3.0),
        (np.log, lambda x: 1 / x, 1e-6, 1.0),
    ],
)
@given(data=st.data())
def test_differences_are_right_to_a_millionth(f, slope, low, high, data):
    x = data.draw(st.floats(low, high))
    assert numerical_vjp(f, [x], 1.0) == pytest.approx(slope(x), rel=1e-6)
    assert numerical_jvp(f, [x], 1.0) == pytest.approx(slope(x), rel=1e-6)


def test_known_products():
    a, b = np.arange(6.0).reshape(2, 3), np.arange(3.0, 9.0).reshape(3, 2)
    v, u = np.array([[1.0, -2.0], [0.5, 3.0]]), np.ones((2, 3))
    np.testing.assert_allclose(numerical_vjp(np.matmul, [a, b], v), v @ b.T, rtol=1e-8)
    np.testing.assert_allclose(numerical_vjp(np.matmul, [a, b], v, argnum=1), a.T @ v, rtol=1e-8)
    np.testing.assert_allclose(numerical_jvp(np.matmul, [a, b], u), u @ b, rtol=1e-8)


def test_views_integers_and_empty_arrays():
    # both samples of a view would move together, were the outputs not copied
    np.testing.assert_allclose(numerical_vjp(np.transpose, [np.ones((2, 3))], np.full((3, 2), 5.0)), np.full((2, 3), 5))
    np.testing.assert_allclose(numerical_vjp(np.square, [[1, 2]], [1.0, 1.0]), [2, 4])
    assert numerical_vjp(np.sin, [np.zeros((0, 3))], np.zeros((0, 3))).shape == (0, 3)
    assert numerical_jvp(np.sin, [0.0], 0.0).shape == ()


def test_several_outputs():
    def halves(x):
        return x[:1] * 3, x[1:] ** 2

    np.testing.assert_allclose(numerical_vjp(halves, [[1.0, 2.0]], ([10.0], [1.0])), [30, 4])


def test_no_derivative_is_nan():
    np.testing.assert_array_equal(np.isnan(numerical_vjp(np.abs, [[1.0, 0.0]], [1.0, 1.0])), [False, True])
    assert np.isnan(numerical_jvp(np.sqrt, [0.0], 1.0))


def test_shapes_are_checked():
    with pytest.raises(ValueError, match=r"cotangent has the shape \[\(3,\)\]"):
        numerical_vjp(np.sin, [[1.0, 2.0]], np.ones(3))
    with pytest.raises(ValueError, match=r"tangent has the shape \(3,\)"):
        numerical_jvp(np.sin, [[1.0, 2.0]], np.ones(3))


# --- functions of tensors ---


def operation(forward, rule):
    made = Op(forward, elementwise=True)
    made.vjp("x")(rule)
    return made


def raw(x):
    return x.data if type(x) is Tensor else x


RIGHT = operation(lambda x: x * x, lambda g, x: 2.0 * g * x)
WRONG = operation(lambda x: x * x, lambda g, x: 3.0 * g * x)
ONCE_ONLY = operation(lambda x: x * x, lambda g, x: 2.0 * g * raw(x))


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize(
    "f",
    [
        lambda x, y: (x * y).sum(),
        lambda x, y: np.tanh(x) @ np.exp(y),
        lambda x, y: F.softmax(x * y),
        lambda x, y: (x * x, np.exp(y)),
        lambda x, y: (x + 3.0 * y, x > y)[0],
        lambda x, y: RIGHT(x) + y,
    ],
)
def test_right_gradients_pass(f, order):
    rng = np.random.default_rng(2)
    report = check_grads(f, rng.normal(size=3), rng.normal(size=3), order=order)
    assert report.passed == ("value", "second-order")[:order]
    assert report.compared == 6 * order


def test_wrong_gradients_do_not():
    x = np.array([0.5, -1.0])
    with pytest.raises(VJPError) as info:
        check_grads(lambda x: WRONG(x).sum(), x)
    assert (info.value.kind, info.value.arg) == ("value", "args[0]")
    assert "check_grads(<lambda>, np.array([0.5, -1.0]), rng=0)" in str(info.value)


def test_second_order_is_right_or_an_error():
    x = np.array([0.5, -1.0])
    check_grads(ONCE_ONLY, x, order=1)
    with pytest.raises(VJPError) as info:
        check_grads(ONCE_ONLY, x)
    assert info.value.kind == "second-order"
    stashing = Op(lambda x: save(x * x, twice=2 * x))
    stashing.vjp("x")(lambda g, twice: g * twice)
    check_grads(stashing, x, order=1)
    with pytest.raises(RuntimeError, match="once-differentiable"):
        check_grads(stashing, x)


@pytest.mark.parametrize("order", [3, 4])
def test_any_order(order):
    report = check_grads(lambda x, y: np.sin(x) * np.exp(y * x), [0.3, -0.8], 0.5, order=order)
    assert report.passed == ("value", "second-order", "order-3", "order-4")[:order]
    assert report.compared == 3 * order

    with pytest.raises(VJPError) as info:
        check_grads(wrong_cube, [0.5, -1.5], order=order)
    assert info.value.kind == "order-3"


def wrong_cube(x):
    """Return x^3 with a second derivative of 6 x in which x is a number, so that the third is lost."""
    slope = operation(lambda x: 3.0 * x * x, lambda g, x: 6.0 * g * raw(x))
    return operation(lambda x: x**3, lambda g, x: g * slope(x))(x)


def test_results_may_be_nested():
    report = check_grads(lambda x: {"a": [x * x, (np.sin(x),)], "b": (x > 0).sum() * x}, [0.5, 1.0])
    assert report.compared == 4
    with pytest.raises(VJPError):
        check_grads(lambda x: {"a": [x, (WRONG(x),)]}, [0.5, 1.0])


def test_tensors_are_taken_for_their_data():
    x = ad.Tensor([0.5, 1.0], requires_grad=True)
    assert check_grads(lambda x: x * x, x, order=1).compared == 2
    assert x.grad is None


def test_a_rule_that_ignores_its_cotangent_is_suspected():
    ignoring = operation(lambda x: x * x, lambda g, x: 2.0 * x)
    with pytest.raises(VJPError) as info:
        check_grads(ignoring, [0.5, 1.0, -0.3], order=1)
    assert "cotangent of ones" in info.value.suspect


def test_wide_functions_are_checked_along_random_directions():
    rng = np.random.default_rng(3)
    w = rng.normal(size=(30, 20))
    assert check_grads(lambda x: np.tanh(x) @ w, rng.normal(size=(20, 30)), order=1).compared == 8

    def one_wrong(g, x):
        result = 2.0 * g * x
        if result.shape == (600,):
            result[123] = 0.0
        return result

    with pytest.raises(VJPError) as info:
        check_grads(operation(lambda x: x * x, one_wrong), rng.normal(size=600), order=1)
    assert info.value.index == (123,)
    zeros = operation(lambda x: 0.0 * x, lambda g, x: 0.0 * g * x)
    with pytest.raises(VacuousCheckError):
        check_grads(zeros, rng.normal(size=600), order=1)
    with pytest.raises(InconclusiveError, match="random direction"):
        check_grads(lambda x: np.abs(x), np.zeros(600), order=1)


def test_kinks_and_zeros():
    with pytest.raises(VJPError, match=r"^VJPError\[kink\]"):
        check_grads(lambda x: np.maximum(x, 0.0), [0.0, 1.0], order=1)
    check_grads(lambda x: np.maximum(x, 0.0), [0.0, 1.0], order=1, kinks="subgradient")
    with pytest.raises(VacuousCheckError, match=r"args\[1\]"):
        check_grads(lambda x, y: x * x, [1.0], [2.0])
    report = check_grads(lambda x, y: x * x, [1.0], [2.0], expect_zero=True)
    assert report.vacuous == ("args[1]",)


def test_only_floats_are_differentiated():
    report = check_grads(lambda x, i, flag: x[i] * x[i] if flag else x, [1.0, 2.0], np.array([0, 0]), True)
    assert report.nonzero == 2  # the element that is used, to either order
    assert check_grads(lambda x: x * x, 1.5).compared == 2


@pytest.mark.parametrize(
    ("f", "args", "settings", "error", "match"),
    [
        (lambda x: x, (1.0,), {"order": 0}, ValueError, "order=0"),
        (lambda x: x, (1.0,), {"order": 1.5}, ValueError, "order=1.5"),
        (lambda x: x, (1,), {}, ValueError, "floats"),
        (lambda x: x.data, (1.0,), {}, TypeError, "shall return tensors; the result is of type ndarray"),
        (lambda x: {"y": (x, 1)}, (1.0,), {}, TypeError, r"the result\['y'\]\[1\] is of type int"),
    ],
)
def test_what_cannot_be_checked(f, args, settings, error, match):
    with pytest.raises(error, match=match):
        check_grads(f, *args, **settings)


def test_fused_ops_are_decomposed_for_second_order_only():
    seen = set()

    def f(x):
        y = F.softmax(x)
        if y.requires_grad:
            seen.add(y.node.op.name)
        return y

    check_grads(f, np.array([0.1, 0.2]), order=1)
    assert seen == {"softmax"}
    check_grads(f, np.array([0.1, 0.2]), order=2)
    assert len(seen) > 1
    assert ad.Tensor([1.0]).grad is None
