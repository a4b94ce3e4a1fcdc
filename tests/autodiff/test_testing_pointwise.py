"""Elementwise ops are checked beyond the shapes and numbers of their samples."""

import numpy as np
import pytest

import autodiff as ad
from autodiff.testing import VJPError, check_op

X = np.array([0.3, -0.7, 1.2])


def made(forward, rules, samples):
    op = ad.op(elementwise=True, samples=samples)(forward)
    for name, rule in rules.items():
        op.vjp(name)(rule)
    return op


def bend(x):
    return np.tanh(x)


def with_tanh(factor):
    """A rule of tanh that is off by a factor, which depends on the output."""
    return made(bend, {"x": lambda g, out: g * (1 - out * out) * factor(out)}, [(X,), (X.reshape(1, 3),)])


@pytest.mark.parametrize(
    "factor",
    [
        lambda out: 1 + (out.ndim > 2),
        lambda out: 1 + (out.ndim == 3 and out.shape[-1] == 1),
        lambda out: 1 + (out.ndim == 3 and out.shape[0] == 2),
        lambda out: 1 + (out.size > 1000),
        lambda out: np.where(np.arange(out.size).reshape(out.shape) == 1000, out, 1),
        lambda out: np.where(out.size > 512, out, 1),
    ],
)
def test_a_rule_that_depends_on_shape_or_place_is_refused(factor):
    with pytest.raises(VJPError, match="no sample has an array of shape") as info:
        check_op(with_tanh(factor))
    assert info.value.kind == "pointwise"


def parabola(x):
    return x * x + x


@pytest.mark.parametrize(
    "rule",
    [
        lambda g, x: g * np.where(np.abs(x) > 20, 1, 2 * x + 1),
        lambda g, x: g * np.where(np.abs(x) < 1e-4, 0, 2 * x + 1),
        lambda g, x: g * np.where(x == 0, 0, 2 * x + 1),
        lambda g, x: g * np.where((np.abs(x) > 3) & (np.abs(x) < 20), 2 * x, 2 * x + 1),
    ],
)
def test_a_rule_that_is_wrong_at_numbers_without_a_sample_is_refused(rule):
    with np.errstate(all="ignore"), pytest.raises(VJPError, match="no sample has x = ") as info:
        check_op(made(parabola, {"x": rule}, [(X,)]))
    assert info.value.kind == "value"


@pytest.mark.parametrize(
    ("forward", "rule", "sample"),
    [
        (parabola, lambda g, x: g * np.where(x < -20, np.nan, 2 * x + 1), X),
        (parabola, lambda g, x: g * (2 * x * x + x) / x, X),
        (parabola, lambda g, x: g * np.where(x > 20, np.inf, 2 * x + 1), X),
        (lambda x: np.tanh(x), lambda g, x: g * 4 / (np.exp(x) + np.exp(-x)) ** 2 + 0 * np.exp(x**2), X),
    ],
)
def test_a_gradient_that_is_not_finite_there_is_said_to_be_none(forward, rule, sample):
    message = r"the gradient is (nan|inf|-inf) at x\[0\] = .*, where the derivative is finite: numeric [-\d]"
    with np.errstate(all="ignore"), pytest.raises(VJPError, match=message) as info:
        check_op(made(lambda x: forward(x), {"x": rule}, [(sample,)]))
    assert info.value.kind == "nonfinite"
    assert not np.isfinite(info.value.analytic)
    assert np.isfinite(info.value.numeric)


def test_a_power_is_not_finite_for_the_base_zero():
    rules = {"x": lambda g, x, p: g * p * x ** (p - 1), "p": lambda g, x, out: g * out * np.log(x)}
    with np.errstate(all="ignore"), pytest.raises(VJPError, match=r"the gradient is nan at p\[0\]") as info:
        check_op(made(lambda x, p: x**p, rules, [(np.abs(X), 1 + np.abs(X))]))
    assert (info.value.kind, info.value.numeric) == ("nonfinite", 0.0)


def product(x, y, *, scale=1.0):
    return x * y * scale


def test_points_are_tried_for_each_argument_and_setting():
    right = {"x": lambda g, y, scale: g * y * scale, "y": lambda g, x, scale: g * x * scale}
    samples = [(X, X + 1), (X[:, None], X, {"scale": 3.0})]
    check_op(made(product, right, samples))
    wrong = {
        "x": lambda g, y, scale: g * np.where(np.abs(y) > 29, 0.0, y) * scale,
        "y": lambda g, x, scale: g * np.where((np.abs(x) > 29) & (scale == 3.0), 0.0, x) * scale,
    }
    for name, other in (("x", "y"), ("y", "x")):
        with pytest.raises(VJPError, match=f"no sample has {other} = ") as info:
            check_op(made(product, {**right, name: wrong[name]}, samples))
        assert info.value.kind == "value"


def clipped_log(x):
    if np.any(x <= 0):
        raise ValueError("x must be positive")
    return np.log(x)


RIGHT = {
    "outside its domain NaN": (lambda x: np.log(x), lambda g, x: g / x, np.abs(X)),
    "outside its domain an error": (clipped_log, lambda g, x: g / x, np.abs(X)),
    "a kink at 0": (lambda x: np.maximum(x, 0), lambda g, x: g * (x > 0), X),
    "a jump at 0": (lambda x: np.floor(x) + x, lambda g: g, X),
    "a pole at 0": (lambda x: 1 / x, lambda g, out: -g * out * out, X),
    "an infinite slope at 0": (lambda x: np.cbrt(x), lambda g, out: g / (3 * out * out), X),
    "flat at 30": (lambda x: 1 / (1 + np.exp(-x)), lambda g, out: g * out * (1 - out), X),
    "large at 30": (lambda x: np.exp(x * x / 30), lambda g, x, out: g * out * x / 15, X),
    "another value for each place": (lambda x: x + np.arange(x.size, dtype=x.dtype).reshape(x.shape), lambda g: g, X),
}


@pytest.mark.parametrize("name", RIGHT)
def test_right_ops_pass(name):
    forward, rule, sample = RIGHT[name]

    def right(x):
        return forward(x)

    with np.errstate(all="ignore"):
        check_op(made(right, {"x": rule}, [(sample,)]))


ONE = (np.array(0.7), np.array([-1.2]), np.array([[0.4]]))

NOT_ELEMENTWISE = {
    "a norm": (lambda x: x / np.sqrt(1 + np.sum(x * x)), lambda g, x: g / (1 + x * x) ** 1.5, ONE[:1]),
    "a sum": (lambda x: x * np.sum(x), lambda g, x: 2 * g * x, ONE),
    "a maximum": (lambda x: x * np.max(np.abs(x)), lambda g, x: 2 * g * np.abs(x), ONE),
    "a running sum": (lambda x: np.cumsum(x, -1) if np.ndim(x) else x * 1, lambda g: g * 1, ONE),
    "a sort": (lambda x: np.sort(x, axis=None).reshape(np.shape(x)) * 2, lambda g: 2 * g, ONE),
    "a reversal": (lambda x: np.flip(x) * 2, lambda g: 2 * g, ONE),
    "neighbours": (lambda x: np.roll(x, 1) * x, lambda g, x: 2 * g * x, ONE[1:2]),
    "the number of elements": (lambda x: x * x.size, lambda g: g, ONE),
    "a sum along rows of one": (
        lambda x: x * np.sum(x, axis=-1, keepdims=True), lambda g, x: 2 * g * x, [X.reshape(3, 1)],
    ),
    "a mean in more axes": (lambda x: x - np.mean(x, 0) if x.ndim > 1 else x * 1, lambda g: g * 1, [X]),
    "a reversal of the first of more axes": (lambda x: np.flip(x, 0) if x.ndim > 1 else x * 1, lambda g: g * 1, [X]),
}  # fmt: skip


@pytest.mark.parametrize("name", NOT_ELEMENTWISE)
def test_an_op_that_is_not_elementwise_is_refused_however_small_its_samples(name):
    forward, rule, samples = NOT_ELEMENTWISE[name]
    with pytest.raises(VJPError, match="is declared elementwise, but") as info:
        check_op(made(lambda x: forward(x), {"x": rule}, [(x,) for x in samples]))
    assert info.value.kind == "pointwise"


def test_one_of_two_arguments_may_not_be_summed():
    rules = {"x": lambda g, y: g * y, "y": lambda g, x: g * x}
    with pytest.raises(VJPError, match="leave out elementwise=True"):
        check_op(made(lambda x, y: x * np.sum(y), rules, [(np.array(0.3), np.array(0.8))]))


def masked(x, *, seed=0):
    return np.where(np.random.default_rng(seed).random(x.shape) < 0.7, x, 0 * x)


@pytest.mark.parametrize("sample", [np.array(0.3), X, X.reshape(3, 1)])
def test_a_random_mask_depends_on_the_place_alone(sample):
    def right(g, seed):
        return masked(g, seed=seed)

    check_op(made(masked, {"x": right}, [(sample,)]))
    with pytest.raises(VJPError, match="no sample has an array of shape"):
        check_op(made(masked, {"x": lambda g, seed: right(g, seed) if g.size < 6 else g * 0.7}, [(sample,)]))


def test_a_rule_that_averages_is_found_with_one_number():
    with pytest.raises(VJPError, match="than for the same numbers alone") as info:
        check_op(made(lambda x: x * x, {"x": lambda g, x: 2 * np.mean(x) * g}, [(np.array([0.7]),)]))
    assert info.value.kind == "pointwise"


@pytest.mark.parametrize(
    ("rule", "kind"),
    [
        (lambda g, x: 2 * g * x if g.size else np.zeros(3, x.dtype), "shape"),
        (lambda g, x: 2 * g * x if g.size else np.zeros((), x.dtype), "shape"),
        (lambda g, x: 2 * g * x if g.size else np.zeros((0, 4), x.dtype), "shape"),
        (lambda g, x: 2 * g * x if np.max(np.abs(g)) > 0 else 0 * x, "raises"),
    ],
)
def test_a_rule_is_tried_without_any_elements(rule, kind):
    with pytest.raises(VJPError, match="no sample has an array of shape") as info:
        check_op(made(lambda x: x * x, {"x": rule}, [(X,)]))
    assert info.value.kind == kind
