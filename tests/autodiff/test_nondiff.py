"""A floating argument that is declared without gradient, though outputs depend on it, is remarked on."""

import numpy as np
import pytest

from autodiff.node import OPS
from autodiff.op import Op
from autodiff.testing import check_op, check_vjp, op_cases

X = np.array([0.4, -1.3, 2.2])


def scaled(x, s):
    return x * s


def clipped(x, low, high):
    return np.clip(x, low, high)


def shifted(x, s):
    return x + np.sum(s * s)


def rounded(x, s):
    return x * np.round(s)


def chosen(x, s):
    return np.where(s > 0, x, 2 * x)


def made(forward, rule, *names, **declared):
    op = Op(forward)
    op.vjp("x")(rule)
    return op.nondiff(*names, **declared)


def test_the_slope_is_measured_and_said():
    report = check_vjp(made(scaled, lambda g, s: g * s, "s"), X, np.array([1.5, 2.0, -1.0]))
    assert report.slopes == {"s": pytest.approx(2.2)}
    assert "declared without gradient: s, with slope 2.2" in repr(report)


def test_each_argument_has_its_own():
    rule = lambda g, x, low, high: g * ((x >= low) & (x <= high))  # noqa: E731
    bounds = np.float64(-1.0), np.float64(2.0)
    assert check_vjp(made(clipped, rule, "low", "high"), X, *bounds).slopes == {
        "low": pytest.approx(1.0), "high": pytest.approx(1.0),
    }  # fmt: skip
    one = made(clipped, rule, "low", "high")
    one.nondiff("low", varies=True)
    assert list(check_vjp(one, X, *bounds).slopes) == ["high"]


@pytest.mark.parametrize(
    "s", [np.float64(0.7), np.float32(2.5), [0.7, 3.0], np.array([1.0, -2.0]), np.array([[3.0]])]
)
def test_slopes_of_any_shape(s):
    report = check_vjp(made(shifted, lambda g: g, "s"), X, s)
    assert report.slopes == {"s": pytest.approx(2 * max(np.ravel(s), key=abs))}


def test_samples_with_a_number_show_it_too():
    op = Op(scaled, samples=[(X, 2.5), (X, {"s": 0.5}), (X, -1.0)])
    op.vjp("x")(lambda g, s: g * s)
    op.nondiff("s")
    assert [list(report.slopes) for report in check_op(op)] == [["s"]] * 3


@pytest.mark.parametrize(
    ("forward", "rule"),
    [(rounded, lambda g, s: g * np.round(s)), (chosen, lambda g, s: np.where(s > 0, g, 2 * g))],
)
def test_what_does_not_vary_is_not_remarked_on(forward, rule):
    assert check_vjp(made(forward, rule, "s"), X, np.array([0.7, -1.2, 3.3])).slopes == {}


def test_a_declaration_confirms_it():
    assert check_vjp(made(scaled, lambda g, s: g * s, "s", varies=True), X, X + 1).slopes == {}


def test_integers_have_no_slope():
    assert check_vjp(made(scaled, lambda g, s: g * s, "s"), X, np.array([1, 2, 3])).slopes == {}


def test_an_op_without_any_gradient_is_measured_too():
    op = Op(scaled).nondiff("x", "s")
    assert set(check_slopes(op)) == {"x", "s"}


def check_slopes(op):
    from autodiff.testing.vjp import examine

    return examine(op, (X, X + 1), None, None, 0)[0].slopes


def test_none_of_our_own_has_one():
    declared = [case for case in op_cases() if OPS[case.op.name].nondifferentiable]
    assert len({case.op for case in declared}) >= 4
    assert {case.op.name: case.check().slopes for case in declared if case.check().slopes} == {}
