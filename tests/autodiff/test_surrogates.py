"""An op names the arguments whose rule is not the derivative; all others are checked."""

import numpy as np
import pytest

import autodiff as ad
from autodiff.op import Op
from autodiff.testing import check_op, check_vjp

from .checking import caught

X, S = np.array([0.4, -1.3, 2.2]), np.array([1.5, -0.5, 2.0])


def gated(rule_for_s, surrogate=("x",), **declared):
    made = Op(lambda x, s: np.sign(x) * s, surrogate=surrogate, **declared)
    made.vjp("x")(lambda g, s: g * s)
    made.vjp("s")(rule_for_s)
    return made


@pytest.mark.parametrize("declared", [{}, {"elementwise": True}])
def test_the_other_arguments_are_checked(declared):
    report = check_vjp(gated(lambda g, x: g * np.sign(x), **declared), X, S)
    assert "value" in report.passed
    assert report.compared == 3
    error = caught(check_vjp, gated(lambda g, x: g * x, **declared), X, S)
    assert (error.kind, error.arg) == ("value", "s")
    assert (caught(check_vjp, gated(lambda g, x: g * x, ["s"]), X, S)).arg == "x"


@pytest.mark.parametrize("declared", [{}, {"elementwise": True}])
def test_a_reference_stands_for_the_surrogates_alone(declared):
    def reference(x, s):
        return x * s

    report = check_vjp(gated(lambda g, x: g * np.sign(x), **declared), X, S, reference=reference)
    assert report.compared == 6
    error = caught(check_vjp, gated(lambda g, x: g * x, **declared), X, S, reference=reference)
    assert (error.kind, error.arg) == ("value", "s")
    error = caught(check_vjp, gated(lambda g, x: g * np.sign(x), **declared), X, S, reference=lambda x, s: 2 * x * s)
    assert (error.kind, error.arg) == ("value", "x")


def test_an_argument_without_influence_is_found_beside_a_surrogate():
    made = Op(lambda x, s: np.sign(x) + 0 * s, surrogate=("x",), samples=[(X, S)])
    made.vjp("x", "s")(lambda g: (g, 0 * g))
    with pytest.raises(AssertionError, match="depends on s"):
        check_op(made)


def test_other_axes_are_checked_for_the_other_arguments():
    def weighted(x, s, *, axis=0):
        return np.sum(np.sign(x) * s, axis=int(axis))

    def made(rule):
        op = Op(weighted, surrogate=("x",))
        op.vjp("x")(lambda g, s, axis: np.expand_dims(g, axis) * s)
        op.vjp("s")(rule)
        return op

    x, s = np.arange(1.0, 5.0).reshape(2, 2), np.arange(2.0, 6.0).reshape(2, 2)
    right = made(lambda g, x, axis: np.expand_dims(g, axis) * np.sign(x))
    check_vjp(right, x - 2.5, s)
    check_vjp(right, x - 2.5, s, reference=lambda x, s, *, axis=0: np.sum(x * s, axis=int(axis)))
    assert caught(check_vjp, made(lambda g, x: g * np.sign(x)), x - 2.5, s).arg == "s"


def test_all_arrays_of_a_variadic_op():
    made = Op(lambda *arrays: np.round(np.concatenate(arrays)), surrogate=("arrays",))
    made.vjp("arrays")(lambda g, needs: tuple(np.split(g, len(needs))))
    assert "surrogate" in check_vjp(made, X, S).skipped["value"]


@pytest.mark.parametrize("given", [True, 1, "x", ("x", 1), object()])
def test_it_is_said_what_to_write(given):
    with pytest.raises(TypeError, match=r"must name arguments: write surrogate=\('x',\)"):
        ad.op(surrogate=given)(lambda x, s: x * s)


def test_unknown_names_are_refused_with_the_nearest():
    with pytest.raises(TypeError, match=r"no argument 'scal'.*'scale'"):
        ad.op(surrogate=("scal",))(lambda x, scale: x * scale)
    with pytest.raises(TypeError, match="no argument 'axis'"):
        ad.op(surrogate=("axis",))(lambda x, *, axis=0: x)


def test_none_are_named_by_default():
    assert Op(lambda x: x).surrogate == Op(lambda x: x, surrogate=()).surrogate == ()


def test_explain_names_them():
    @ad.op(surrogate=("x",))
    def straight_through(x, s):
        return np.round(x) * s

    straight_through.vjp("x", "s")(lambda g, x, s: (g * s, g * np.round(x)))
    assert "surrogate for x" in str(ad.explain(straight_through))
