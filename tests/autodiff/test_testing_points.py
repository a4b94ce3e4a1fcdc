"""Right rules at unfriendly points: where rounding is magnified, the checker allows for it, and for no more."""

from __future__ import annotations

import numpy as np
import pytest

import autodiff as ad
from autodiff.op import Op
from autodiff.testing import (
    InconclusiveError,
    VacuousCheckError,
    VJPError,
    check_grads,
    check_vjp,
    numerical_jvp,
    numerical_vjp,
)
from autodiff.testing.vjp import examine

from .checking import caught, elementwise
from .planted import SOUND, X

SEEDS = range(5)


def normal(seed, *shape):
    return np.random.default_rng(seed).normal(size=shape)


@pytest.mark.slow
@pytest.mark.parametrize("shift", [1e2, 1e4])
@pytest.mark.parametrize("name", ["layer_norm", "softmax"])
def test_far_from_zero(name, shift):
    """Sums of strided arrays round in another order, which the difference from the mean magnifies."""
    for seed in SEEDS:
        check_vjp(name, normal(seed, 3, 5) + shift, rng=seed)


@pytest.mark.parametrize(
    ("name", "low", "high"), [("sin", 1e4, 2e4), ("arctanh", 0.999, 0.99999), ("sigmoid", -50, 50)]
)
def test_single_precision_is_compared_at_the_numbers_it_rounds_to(name, low, high):
    for seed in SEEDS:
        check_vjp(name, np.random.default_rng(seed).uniform(low, high, 5), rng=seed)


def with_decomposition(forward, rule, decomposition, **declared):
    made = Op(forward, **declared)
    made.vjp("x")(rule)
    made.decomposition(decomposition)
    return made


def variance_of(scale):
    """As a difference of large numbers, and with a relative error if the scale is not one."""
    return with_decomposition(
        lambda x: np.var(x), lambda g, x: g * 2 * (x - np.mean(x)) / x.size,
        lambda x: (np.mean(x * x) - np.mean(x) ** 2) * scale,
    )  # fmt: skip


def test_a_decomposition_may_be_less_exact_than_its_op():
    quotient = with_decomposition(
        lambda x: np.expm1(x) / x, lambda g, x: g * (np.exp(x) * x - np.expm1(x)) / x**2,
        lambda x: (np.exp(x) - 1) / x, elementwise=True,
    )  # fmt: skip
    for seed in SEEDS:
        check_vjp(variance_of(1.0), normal(seed, 6) + 10, rng=seed)
        check_vjp(quotient, np.random.default_rng(seed).uniform(0.05, 0.2, 6), rng=seed)


def test_what_rounding_does_not_explain_is_found_there_too():
    assert caught(check_vjp, variance_of(1 + 1e-8), normal(0, 6) + 10).kind == "decomposition"
    wrong_in_memory = SOUND["layer_norm"].op({X: lambda g, x, out, rstd: pull(g, out, rstd) * sign(x)})
    with pytest.raises(VJPError, match="layout"):
        check_vjp(wrong_in_memory, normal(0, 3, 5) + 100)


def pull(g, out, rstd):
    return rstd * (g - g.mean(-1, keepdims=True) - out * (g * out).mean(-1, keepdims=True))


def sign(x):
    return 1 if type(x) is not np.ndarray or x.flags.c_contiguous else 1 + 1e-6


def test_saturated_outputs_leave_rounding_alone():
    """In the products of a saturated softmax all but one term cancel."""
    for seed in SEEDS:
        examine(SOUND["softmax"].op(), (50 * normal(seed, 3, 5),), None, None, seed, without={"value"})


def test_axes_taken_modulo_the_number_of_axes():
    made = Op(lambda x, *, axis=-1: np.cumsum(x, axis=axis % x.ndim))

    @made.vjp("x")
    def _(g, axis):
        return np.flip(np.cumsum(np.flip(g, axis % g.ndim), axis % g.ndim), axis % g.ndim)

    assert "axis" in check_vjp(made, normal(0, 2, 3)).passed


def test_settings_that_refuse_single_precision():
    made = Op(lambda x, *, dtype=None: x * 2 if dtype is None or x.dtype == dtype else x.astype("no such"))
    made.vjp("x")(lambda g: 2 * g)
    assert "refuses float32" in check_vjp(made, np.ones(2), kwargs={"dtype": np.float64}).skipped["float32"]
    both = elementwise(lambda x: 2 * x if x.dtype == np.float64 else x.astype("no such"))(lambda g: 2 * g)
    with pytest.raises(TypeError, match="no such"):
        check_vjp(both, np.ones(2))


def test_a_bend_beside_the_point_is_no_kink():
    absolute = elementwise(lambda x: np.abs(x))(lambda g, x: g * np.sign(x))
    assert check_vjp(absolute, np.array([2e-5, -1e-5])).nonzero == 2
    assert caught(check_vjp, absolute, np.array([2e-5, 0.0])).kind == "kink"
    shifted = elementwise(lambda x: np.abs(x - 1.5))(lambda g, x: g * np.sign(x - 1.5))
    assert caught(check_vjp, shifted, np.array([1.5])).kind == "kink"
    for seed in SEEDS:
        x, y = np.random.default_rng(seed).uniform(1e-6, 1e-5, (2, 5))
        check_vjp("hypot", x, y)


def test_a_slope_that_vanishes_is_no_kink():
    parabolas = elementwise(lambda x: x * np.abs(x))(lambda g, x: 2 * g * np.abs(x))
    with pytest.raises(InconclusiveError):
        check_vjp(parabolas, np.array([5e-10, -1e-9]))


def test_numerical_derivatives_of_several_outputs_for_integer_cotangents():
    found = numerical_vjp(lambda x: (2 * x, x * x, np.argsort(x)), [[1.0, 3.0]], ([1, 0], [0, 1], [0, 0]))
    np.testing.assert_allclose(found, [2, 6])


def test_numerical_derivatives_along_a_direction_of_numbers_of_every_size():
    found = numerical_jvp(lambda x: x * x, [[1e150, 2.0, 1e-3]], [1.0, 1.0, 1.0])
    np.testing.assert_allclose(found, [2e150, 4.0, 2e-3], rtol=1e-9)


@pytest.mark.parametrize("function", [lambda x: (), lambda x: ad.Tensor([1, 2]), lambda x: ad.Tensor([1.0, 2.0])])
def test_a_function_without_outputs_that_vary_is_no_pass(function):
    with pytest.raises(VacuousCheckError):
        check_grads(function, np.ones(2))


@pytest.mark.parametrize("check", [check_vjp, check_grads])
@pytest.mark.parametrize("kinks", ["foo", "leave out", None])
def test_an_unknown_choice_is_refused(check, kinks):
    with pytest.raises(ValueError, match=f"kinks={kinks!r} must be 'error' or 'subgradient'"):
        check(np.tanh, np.ones(2), kinks=kinks)


def test_an_unknown_scheme_is_refused():
    with pytest.raises(ValueError, match="scheme='central3' must be 'central5' or 'complex'"):
        check_vjp("tanh", np.ones(2), scheme="central3")


@pytest.mark.parametrize("x", [[np.inf], [-np.inf, np.inf], np.float64(np.inf)])
def test_infinite_numbers_do_not_vary(x):
    with pytest.raises(VacuousCheckError, match="x holds nothing but infinite numbers"):
        check_vjp("tanh", x)


@pytest.mark.parametrize("x", [[1e300, 2.0], [-1e39], [3e38, -1e200]])
def test_numbers_that_single_precision_does_not_hold_give_no_warning(x):
    report = check_vjp("arctan", np.array(x), expect_zero=True)
    assert "value" in report.passed


FLAT_AT_ZERO = {
    "|x|^1.5": (lambda x: np.abs(x) ** 1.5, lambda g, x: g * 1.5 * np.sqrt(np.abs(x)) * np.sign(x)),
    "|x|^1.2": (lambda x: np.abs(x) ** 1.2, lambda g, x: g * 1.2 * np.abs(x) ** 0.2 * np.sign(x)),
    "cbrt(x)^5": (lambda x: np.cbrt(x) ** 5, lambda g, x: g * 5 * np.cbrt(x) ** 2 / 3),
    "cbrt(x)^4": (lambda x: np.cbrt(x) ** 4, lambda g, x: g * 4 * np.cbrt(x) / 3),
    "max(x, 0)^1.5": (lambda x: np.maximum(x, 0) ** 1.5, lambda g, x: g * 1.5 * np.sqrt(np.maximum(x, 0))),
}


@pytest.mark.parametrize("x", [[0.0, 0.7], [-0.4, 0.0, 2.0]])
@pytest.mark.parametrize("name", FLAT_AT_ZERO)
def test_slopes_that_vanish_more_slowly_than_the_step_have_a_limit(name, x):
    forward, rule = FLAT_AT_ZERO[name]
    check_vjp(elementwise(forward)(rule), np.array(x))
    error = caught(check_vjp, elementwise(forward)(lambda g, x: rule(g, x) + g * (x == 0) * x.dtype.type(1e-3)), x)
    assert (error.kind, error.numeric) == ("value", 0.0)
