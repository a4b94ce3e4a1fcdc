"""What the checker derives from one call: other calls, the rule as a function, and memory."""

from __future__ import annotations

import gc
from types import SimpleNamespace

import numpy as np
import pytest

from autodiff.op import Op, save
from autodiff.testing import check_vjp

from .checking import caught, elementwise
from .planted import X
from .planted_calls import SOUND

# --- derived calls ---


def test_derived_calls_are_made_where_they_mean_something():
    def skipped(name, *args, **settings):
        report = check_vjp(name, *args, kwargs=settings)
        return {kind for kind in ("broadcast", "axis", "reuse") if kind in report.skipped}

    x = np.array([[0.1, 0.7, -0.4], [1.3, -0.6, 0.9]])
    assert skipped("multiply", x, x + 1) == {"axis"}
    assert skipped("multiply", x, x[:, :1]) == {"axis", "reuse"}
    assert skipped("multiply", x, 2.0) == {"broadcast", "axis", "reuse"}
    assert skipped("matmul", x[None], x.T) == {"axis", "reuse"}
    assert skipped("matmul", x, x[0]) == {"broadcast", "axis", "reuse"}
    assert skipped("sum", x) == {"broadcast", "reuse"}
    assert skipped("stack", x, x) == {"broadcast"}


def test_shapes_that_broadcast_are_found_wrong_by_element():
    made = SOUND["multiply"].op({X: lambda g, x, y: g * y * (np.size(x) / max(np.size(g), 1))})
    error = caught(check_vjp, made, np.ones((2, 2)), np.full((2, 2), 3.0))
    assert error.analytic == pytest.approx(error.numeric / 3)
    assert "(3, 1) x (1, 3)" in str(error)
    assert "check_vjp(multiply, np.array([[1.0], [1.0], [1.0]]), np.array([[3.0, 3.0, 3.0]]), rng=0)" in str(error)


def test_the_call_with_another_axis_can_be_rerun():
    made = SOUND["total"].op({X: lambda g, shape, keepdims: np.broadcast_to(g if keepdims else g[..., None], shape)})
    error = caught(check_vjp, made, np.eye(2), kwargs={"axis": 1})
    assert (error.kind, error.arg) == ("axis", "x")
    assert "kwargs={'axis': 0}" in str(error)
    assert caught(check_vjp, made, np.eye(2), kwargs={"axis": 0}).kind == "value"


def test_axes_that_an_op_refuses_are_no_failure():
    def last_only(x, *, axis=-1):
        if axis != -1:
            raise ValueError("only the last axis")
        return np.flip(x, axis)

    made = Op(last_only)
    made.vjp("x")(lambda g: np.flip(g, -1))
    assert "axis" in check_vjp(made, np.ones((2, 3))).passed


def test_a_rule_that_raises_for_another_axis_can_be_rerun():
    made = Op(lambda x, *, axis=0: np.cumsum(x, axis))
    made.vjp("x")(lambda g, axis: np.flip(np.cumsum(np.flip(g, axis), axis), axis))
    error = caught(check_vjp, made, np.ones((2, 2)))
    assert error.kind == "axis"
    assert "kwargs={'axis': None}" in str(error)


def test_surrogates_are_respelt_but_not_compared_with_differences():
    def steps(x, *, axis=0):
        return np.sign(np.cumsum(x, int(axis)))  # refuses None

    made = Op(steps, surrogate=("x",))
    made.vjp("x")(lambda g, axis: np.flip(np.cumsum(np.flip(g, axis), axis), axis))
    assert "axis" in check_vjp(made, np.array([[1.0, 2.0], [-4.0, 3.0]])).passed


# --- what is left in the graph ---


@pytest.mark.parametrize("enabled", [True, False])
def test_the_collector_is_left_as_it_was(enabled):
    before = gc.isenabled()
    try:
        (gc.enable if enabled else gc.disable)()
        check_vjp("sin", np.ones(2))
        assert gc.isenabled() is enabled
    finally:
        (gc.enable if before else gc.disable)()


def test_the_collector_cannot_hide_a_cycle():
    enabled = set()

    def forward(x):
        enabled.add(gc.isenabled())
        return np.tanh(x)

    made = Op(forward, elementwise=True)
    made.vjp("x")(lambda g, out: g * (1 - out * out))
    check_vjp(made, np.ones(2))
    assert enabled == {True, False}


def test_tables_that_are_computed_once_may_live_on():
    table = np.array([1.0, 2.0], np.float32)
    made = Op(lambda x: save(x * table, table=table))
    made.vjp("x")(lambda g, table: g * table)
    assert "memory" in check_vjp(made, np.ones(2)).passed


@pytest.mark.parametrize(
    "hide", [lambda slope: slope, lambda slope: lambda: slope, lambda slope: SimpleNamespace(slope=slope)]
)
def test_rules_that_cannot_be_recorded_may_raise(hide):
    made = Op(lambda x: save(np.tanh(x), slope=hide(1 - np.tanh(x) ** 2)))
    made.vjp("x")(lambda g, slope: g * (slope() if callable(slope) else getattr(slope, "slope", slope)))
    skipped = check_vjp(made, np.ones(2)).skipped
    assert "once-differentiable" in skipped["second-order"]
    assert "once-differentiable" in skipped["transposition"]
    assert "fused" in check_vjp("softmax", np.array([0.5, 1.0])).skipped["transposition"]


def test_kinks_of_the_rule_are_no_failure():
    made = elementwise(lambda x: x + x * np.maximum(x, 0))(
        lambda g, x: g * (1 + 2 * np.where(x > 0, x, np.zeros_like(x)))
    )
    report = check_vjp(made, np.array([0.0, 1.0]))
    assert "second-order" in report.passed
    assert report.left_out == 1
    assert check_vjp(made, np.array([0.0])).skipped["second-order"] == "every element lies at a kink"
