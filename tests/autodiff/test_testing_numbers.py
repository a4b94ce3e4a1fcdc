"""Differences see through grids, waves and kinks; each output, precision and order of derivative is looked at."""

import numpy as np
import pytest

import autodiff as ad
from autodiff.op import Op
from autodiff.testing import VJPError, check_vjp, numerical_vjp

POINTS = np.array([0.1257, -0.1321, 0.6404, 1.1049])


def elementwise(forward, rule, **declared):
    made = Op(lambda x: forward(x), elementwise=True, **declared)
    made.vjp("x")(rule)
    return made


def refused(kind, made, *args, match=None):
    for seed in range(3):
        with pytest.raises(VJPError, match=match) as info:
            check_vjp(made, *args, rng=seed)
        assert info.value.kind == kind


# --- steps ---


def grid(cells):
    return lambda x: np.round(x * cells) / cells


@pytest.mark.parametrize("cells", [2**4, 2**8, 2**12, 2**16, 2**20, 10, 1000, 10**5, 2**16 + 1])
def test_a_grid_has_no_slope(cells):
    refused("value", elementwise(grid(cells), lambda g: g), POINTS)
    right = Op(lambda x: grid(cells)(x), elementwise=True)
    right.zero("x")
    assert check_vjp(right, POINTS, expect_zero=True).compared == POINTS.size


@pytest.mark.parametrize("function", [np.floor, np.ceil, np.trunc])
def test_steps_of_other_roundings_have_no_slope(function):
    refused("value", elementwise(lambda x: function(x * 2**16) / 2**16, lambda g: g), POINTS)


def wave(period):
    return lambda x: 0.001 * x + np.sin(2 * np.pi * x / period)


@pytest.mark.parametrize("period", [1.0, 0.5, 0.25, 0.1])
@pytest.mark.parametrize("size", [2e4, *(pytest.param(size, marks=pytest.mark.slow) for size in (1e3, 3e5))])
def test_a_whole_number_of_periods_is_no_slope(period, size):
    x = size * (1 + np.abs(POINTS)) + 0.3 * POINTS
    refused("value", elementwise(wave(period), lambda g: 0.001 * g), x)
    slope = 2 * np.pi / period
    right = elementwise(wave(period), lambda g, x: g * (0.001 + slope * np.cos(slope * x)))
    if size < 1e5:  # beyond, rounding of the argument hides the derivative
        check_vjp(right, x)


SMOOTH_ENOUGH = {
    "x |x|": (lambda x: x * np.abs(x), lambda g, x: g * 2 * np.abs(x)),
    "relu squared": (lambda x: np.maximum(x, 0) ** 2, lambda g, x: g * 2 * np.maximum(x, 0)),
    "|x| cubed": (lambda x: np.abs(x) ** 3, lambda g, x: g * 3 * x * np.abs(x)),
    "huber": (
        lambda x: np.where(np.abs(x) < 1, 0.5 * x * x, np.abs(x) - 0.5),
        lambda g, x: g * np.where(np.abs(x) < 1, x, np.sign(x)),
    ),
    "elu": (
        lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))),
        lambda g, x: g * np.where(x > 0, 1, np.exp(np.minimum(x, 0))),
    ),
}


@pytest.mark.parametrize("name", SMOOTH_ENOUGH)
def test_a_function_is_differentiable_where_both_slopes_are_equal(name):
    forward, rule = SMOOTH_ENOUGH[name]
    x = np.array([0.0, 1.0, -1.0, 0.5, -2.0])
    report = check_vjp(elementwise(forward, rule), x)
    assert report.compared == 5
    assert np.allclose(numerical_vjp(forward, [x], np.ones(5)), rule(1.0, x), atol=1e-6)
    refused("value", elementwise(forward, lambda g, x: rule(g, x) + g * 1e-3 * (x == 0)), x)
    refused("value", elementwise(forward, lambda g, x: rule(g, x) + g * 1e-3 * (x == 1)), x)


@pytest.mark.parametrize("forward", [np.abs, lambda x: np.maximum(x, 0), lambda x: np.abs(x) + x * np.abs(x)])
def test_a_kink_is_one_still(forward):
    refused("kink", elementwise(forward, lambda g, x: g * np.sign(x)), np.array([0.0, 1.0]))


# --- single precision ---


@pytest.mark.parametrize(
    ("forward", "rule", "x"),
    [
        (np.tanh, lambda g, x: g * 4 * np.exp(2 * x) / (1 + np.exp(2 * x)) ** 2, [50.0, 60.0, 1.0]),
        (lambda x: np.logaddexp(0, x), lambda g, x: g * np.exp(x) / (1 + np.exp(x)), [100.0, 1.0]),
        (lambda x: np.hypot(x, 1), lambda g, x: g * x / np.sqrt(x * x + 1) / (x * x / (x * x)), [1e25, 2e25]),
    ],
)  # fmt: skip
def test_nan_of_a_rule_in_single_precision_is_no_overflow_of_values(forward, rule, x):
    refused("float32", elementwise(forward, rule), np.array(x), match="not finite")


@pytest.mark.parametrize(("forward", "rule"), [(np.exp, lambda g, out: g * out), (np.square, lambda g, x: 2 * g * x)])
def test_values_that_overflow_single_precision_are_left_out(forward, rule):
    report = check_vjp(elementwise(forward, rule), np.array([100.0, 1.0] if forward is np.exp else [1e20, 2e20]))
    assert report.skipped["float32"] == "the values overflow single precision"


# --- several outputs ---


def outputs(rule, count=2):
    functions = (np.sin, np.cos, np.exp)[:count]
    made = Op(lambda x: tuple(f(x) for f in functions))
    made.vjp("x")(rule)
    return made


def slopes(g, x):
    return sum(part * f(x) for part, f in zip(g, (np.cos, lambda x: -np.sin(x), np.exp), strict=False))


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("silent", [0, 1, 2])
def test_each_output_is_tried_alone(count, silent):
    check_vjp(outputs(slopes, count), POINTS)
    if silent < count:
        refused("linearity", outputs(lambda g, x: slopes(g, x) * np.any(g[silent]), count), POINTS)
        refused("linearity", outputs(lambda g, x: np.where(g[silent] != 0, slopes(g, x), 0.0), count), POINTS)


def test_every_two_outputs_are_tried_together():
    refused("linearity", outputs(lambda g, x: slopes(g, x) * (np.any(g[1]) or not np.any(g[2])), 3), POINTS)


# --- second order ---


def plain(x):
    """Take the numbers of an argument, out of the graph: what a rule must not do."""
    return x.data if isinstance(x, ad.Tensor) else x


@pytest.mark.parametrize("name", ["elu", "huber", "relu squared"])
def test_second_order_is_compared_beside_kinks(name):
    forward, rule = SMOOTH_ENOUGH[name]
    x = np.array([0.0, 1.0, 0.5, -0.7])
    report = check_vjp(elementwise(forward, rule), x)
    assert "second-order" in report.passed
    if name != "relu squared":  # whose second derivative at 0 is the mean of both sides, as that of differences
        assert report.left_out == 1
        assert "left out 1 elements" in repr(report)
    refused("second-order", elementwise(forward, lambda g, x: g * rule(1.0, plain(x))), x)


def fused(decomposition):
    made = Op(lambda x: x**3, elementwise=True)
    made.vjp("x")(lambda g, x: g * 3 * x * x)
    made.decomposition(decomposition)
    return made


def tangent(x):
    c = ad.as_tensor(x).detach()
    return 3 * x * c * c - 2 * c**3


def half_detached(x):
    return x * x * ad.as_tensor(x).detach() * 1.5 - 0.5 * ad.as_tensor(x).detach() ** 3


@pytest.mark.parametrize("decomposition", [lambda x: tangent(x), lambda x: half_detached(x)])
def test_second_order_of_a_decomposition_is_checked(decomposition):
    refused("second-order", fused(decomposition), POINTS)


def test_a_right_decomposition_has_a_second_order():
    assert "second-order" in check_vjp(fused(lambda x: x * x * x), POINTS).passed
    assert "second-order" in check_vjp("layer_norm", POINTS[None]).passed
