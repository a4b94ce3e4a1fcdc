"""What the checker makes of settings that name axes: whose they are, how else they are written, and what is no axis."""

from __future__ import annotations

import operator
import sys

import numpy as np
import pytest

from autodiff.op import Op, save
from autodiff.testing import check_vjp

from .checking import caught

RNG = np.random.default_rng(0)
W, SQUARE, WIDE = RNG.normal(size=3), RNG.normal(size=(3, 3)), RNG.normal(size=(3, 4))
CUBE = RNG.normal(size=(2, 2, 2))


def made(forward, **rules):
    op = Op(forward)
    for argument, rule in rules.items():
        op.vjp(argument)(rule)
    return op


# --- right ops ---


def weighted(**wrong):
    """Sum along an axis of the second argument, with weights that come first."""
    return made(
        lambda w, x, *, axis=0: np.tensordot(w, x, (0, axis)),
        **{"w": lambda g, x, axis: np.tensordot(np.moveaxis(x, axis, 0), g, np.ndim(g)),
           "x": lambda g, w, axis: np.moveaxis(np.multiply.outer(w, g), 0, axis)} | wrong,
    )  # fmt: skip


def picked(**wrong):
    """Rows picked by an integer argument that comes first."""

    def forward(index, x, *, axis=0):
        return save(np.take(x, index, operator.index(axis)), shape=x.shape)

    def rule(g, index, shape, axis):
        out = np.zeros(shape, g.dtype)
        np.add.at(np.moveaxis(out, axis, 0), index, np.moveaxis(g, axis, 0))
        return out

    return made(forward, **{"x": rule} | wrong).nondiff("index")


def inserted(**wrong):
    """A new axis, which is one of the output."""
    return made(
        lambda x, *, axis=0: 2 * np.expand_dims(x, axis), **{"x": lambda g, axis: 2 * np.squeeze(g, axis)} | wrong
    )


def permuted(**wrong):
    return made(
        lambda x, *, axes: 2 * np.transpose(x, axes),
        **{"x": lambda g, axes: 2 * np.transpose(g, np.argsort(np.arange(g.ndim)[list(axes)]))} | wrong,
    )


def contracted():
    """A product over a number of axes."""
    return made(
        lambda a, b, *, axes=2: np.tensordot(a, b, axes), a=from_the_right, b=from_the_left
    )


def from_the_right(g, a, b, axes):
    n = max(axes, 0)
    return np.tensordot(g, b, (range(a.ndim - n, np.ndim(g)), range(n, b.ndim)))


def from_the_left(g, a, b, axes):
    n = max(axes, 0)
    return np.tensordot(a, g, (range(a.ndim - n), range(a.ndim - n)))


def paired():
    """A product over one axis of each argument."""
    def left(g, a, b, dims):
        i, j = dims[0] % a.ndim, dims[1] % b.ndim
        rest = [k for k in range(b.ndim) if k != j]
        return np.moveaxis(np.tensordot(g, b, (range(a.ndim - 1, np.ndim(g)), rest)), -1, i)

    def right(g, a, b, dims):
        i, j = dims[0] % a.ndim, dims[1] % b.ndim
        rest = [k for k in range(a.ndim) if k != i]
        return np.moveaxis(np.tensordot(a, g, (rest, range(a.ndim - 1))), 0, j)

    return made(lambda a, b, *, dims: np.tensordot(a, b, dims), a=left, b=right)


def rotated(choose):
    """Points in space, turned about one of its three axes: no axis of the array."""
    def matrix(axis, like):
        i, j = choose(axis)
        m = np.eye(3, dtype=like.dtype)
        m[i, i], m[i, j], m[j, i], m[j, j] = 0.6, -0.8, 0.8, 0.6
        return m

    return made(lambda x, *, axis=2: x @ matrix(axis, x), x=lambda g, axis: g @ matrix(axis, g).T)


def by_table(axis):
    return [(1, 2), (0, 2), (0, 1)][axis]


def by_exclusion(axis):
    i, j = (k for k in range(3) if k != axis)
    return i, j


def by_branches(axis):
    return (1, 2) if axis == 0 else (0, 2) if axis == 1 else (0, 1)


def by_two(axis):
    """A table of two, shorter than the array has axes."""
    return [(0, 1), (1, 2)][axis]


def flagged():
    return made(lambda x, *, axis=0: x * (3.0 if axis else 2.0), x=lambda g, axis: g * (3.0 if axis else 2.0))


def scaled_along(rule):
    """Scales that come first, one for each place along an axis of the other argument."""

    def along(v, x, axis):
        return v.reshape([-1 if k == operator.index(axis) % x.ndim else 1 for k in range(x.ndim)])

    return made(
        lambda v, x, *, axis=1: along(v, x, axis) * x, v=rule, x=lambda g, v, axis: g * along(v, g, axis)
    )


def power():
    return made(lambda r, *, dim=3: r**dim, r=lambda g, r, dim: g * dim * r ** (dim - 1))


def normalised():
    """What the guide tells: an axis that is taken modulo the number of axes."""
    return made(
        lambda x, *, axis=0: save(np.cumsum(x, axis % np.ndim(x)), n=np.ndim(x)),
        x=lambda g, n, axis: np.flip(np.cumsum(np.flip(g, axis % n), axis % n), axis % n),
    )


def by_word(kind):
    """Sums along rows or columns, named by anything."""
    return made(
        lambda x, *, axis: save(x.sum(0 if axis is kind else 1, keepdims=True), shape=x.shape),
        x=lambda g, shape: np.broadcast_to(g, shape),
    )


ONES = np.ones((2, 2))
RIGHT = {
    "weights first": (weighted, W, SQUARE),
    "weights first, the other axis": (weighted, W, SQUARE, {"axis": 1}),
    "weights first, a negative axis": (weighted, W, SQUARE, {"axis": -2}),
    "weights first, unequal sides": (weighted, W, WIDE),
    "index first": (picked, np.array([2, 0, 2]), SQUARE),
    "index first, three axes": (picked, np.array([1, 0, 1]), CUBE, {"axis": 1}),
    "axis of the output": (inserted, SQUARE),
    "axis of the output, the last": (inserted, SQUARE, {"axis": 2}),
    "scales first": (lambda: scaled_along(
        lambda g, x, axis: np.sum(g * x, tuple(k for k in range(x.ndim) if k != axis % x.ndim))), W, SQUARE),
    "permutation": (permuted, WIDE, {"axes": (1, 0)}),
    "permutation, a list": (permuted, CUBE, {"axes": [1, 2, 0]}),
    "number of axes": (contracted, CUBE, CUBE),
    "number of axes, one": (contracted, CUBE, SQUARE[:2], {"axes": 1}),
    "number of axes, none": (contracted, SQUARE, SQUARE, {"axes": 0}),
    "axis of each": (paired, SQUARE[:2, :2], CUBE, {"dims": (1, 0)}),
    "axis of each, the other": (paired, CUBE, SQUARE[:2, :2], {"dims": [2, 1]}),
    "turned, by a table": (lambda: rotated(by_table), SQUARE),
    "turned, by a table, in range": (lambda: rotated(by_table), SQUARE, {"axis": 0}),
    "turned, by exclusion": (lambda: rotated(by_exclusion), W),
    "turned, by exclusion, in range": (lambda: rotated(by_exclusion), W, {"axis": 0}),
    "turned, by branches": (lambda: rotated(by_branches), SQUARE, {"axis": 1}),
    "turned, by a shorter table": (lambda: rotated(by_two), RNG.normal(size=(2, 2, 3)), {"axis": 1}),
    "a flag": (flagged, SQUARE),
    "a flag, in range": (flagged, SQUARE, {"axis": 1}),
    "power": (power, np.array([1.0, 2.0])),
    "power, in range": (power, np.array([[1.5, 2.0], [3.0, 0.5], [1.0, 0.25]]), {"dim": 1}),
    "power of ones": (power, ONES, {"dim": 1}),
    "modulo": (normalised, CUBE, {"axis": 1}),
}  # fmt: skip


@pytest.mark.parametrize("case", RIGHT)
def test_right_ops_pass_whatever_their_axes_are_axes_of(case):
    op, *args = RIGHT[case]
    assert check_vjp(op(), *args).compared


ODD = ["rows", 1.5, True, np.True_, np.array([0, 1]), np.array(1), slice(1), range(2), {0, 1}, (0, "a"), ((0, 1),),
       (None,), object(), Ellipsis, np.sum, 10**30, -(10**30), 7, (0, 7), float("nan"), b"0"]  # fmt: skip


@pytest.mark.parametrize("name", ["axis", "axes", "dim", "dims"])
def test_settings_that_are_no_axes_are_left_alone(name):
    for kind in ODD:
        space = {}
        source = f"lambda x, *, {name}: 2 * x"
        op = made(eval(source, space), x=lambda g: 2 * g)
        report = check_vjp(op, WIDE, kwargs={name: kind})
        assert name in report.skipped["axis"]


@pytest.mark.parametrize("kind", ["rows", ("rows",), object()])
def test_a_right_op_whose_axis_is_a_word_passes(kind):
    assert check_vjp(by_word(kind), WIDE, kwargs={"axis": kind}).compared


# --- wrong ops ---


def first_always(g, w, axis):
    return np.moveaxis(np.multiply.outer(w, g), 0, 0)


def wrong_if_negative(right):
    def rule(g, w, axis):
        return (1 if axis >= 0 else -1) * right(g, w, axis)

    return rule


def assigned(g, index, shape, axis):
    out = np.zeros(shape, g.dtype)
    np.add.at(out, index, g)
    return out


WRONG = {
    "weights first": (lambda: weighted(x=first_always), W, SQUARE),
    "weights first, the other argument": (
        lambda: weighted(w=lambda g, x: np.tensordot(x, g, np.ndim(g))), W, SQUARE),
    "weights first, a negative axis": (
        lambda: weighted(x=lambda g, w, axis: (1 if axis >= 0 else -1) * np.moveaxis(np.multiply.outer(w, g), 0, axis)),
        W, SQUARE),
    "index first": (lambda: picked(x=assigned), np.array([2, 0, 2]), SQUARE),
    "axis of the output": (lambda: inserted(x=lambda g, axis: 2 * np.squeeze(g, axis) * (-1) ** (axis < 0)), SQUARE),
    "axis of the output, the last": (
        lambda: inserted(x=lambda g, axis: (1 + (axis < 2)) * np.squeeze(g, axis)), SQUARE),
    "scales first": (lambda: scaled_along(lambda g, x: np.sum(g * x, 0)), W, SQUARE),
    "permutation": (lambda: permuted(x=lambda g, axes: 2 * np.transpose(g, np.argsort(axes)) if min(axes) >= 0 else
                                     2 * np.transpose(g, axes)), CUBE, {"axes": (1, 2, 0)}),
    "permutation, the other way": (lambda: permuted(x=lambda g, axes: 2 * np.transpose(g, axes)), CUBE,
                                   {"axes": (2, 1, 0)}),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_rules_that_are_wrong_for_another_axis_are_refused(case):
    op, *args = WRONG[case]
    assert caught(check_vjp, op(), *args).kind == "axis"


def test_a_forward_that_takes_a_negative_axis_for_another_is_refused():
    op = made(lambda x, *, axis=1: 2 * np.swapaxes(x, 0, abs(axis)), x=lambda g, axis: 2 * np.swapaxes(g, 0, abs(axis)))
    assert "with axis=-2 the op gives something else than with axis=1" in str(caught(check_vjp, op, CUBE))


# --- what to do ---


def running_sum(index):
    return made(
        lambda x, *, axis=0: np.cumsum(x, index(axis)),
        x=lambda g, axis: np.flip(np.cumsum(np.flip(g, axis), axis), axis),
    )


def reversed_in_order(refuse):
    return made(
        lambda x, *, axis=1: np.flip(refuse(axis) * x, axis),
        x=lambda g, axis: g[(slice(None),) * (axis % g.ndim) + (slice(None, None, -1),)],
    )


def flattened(refuse):
    return made(lambda x, *, axis=0: np.logaddexp.reduce(refuse(x, axis), axis), x=lambda g, x, out, axis: np.exp(
        x - np.expand_dims(out, axis % x.ndim)) * np.expand_dims(g, axis % x.ndim))


def one_only(x, axis):
    operator.index(axis)
    return x


TAKES_ONE = {
    "None": (running_sum, lambda axis: axis, operator.index, "axis=None"),
    "a tuple of one": (reversed_in_order, lambda axis: 1, lambda axis: operator.index(axis) ** 0, "axis=(1,)"),
    "a tuple": (flattened, lambda x, axis: x, one_only, "axis=(0,)"),
}


@pytest.mark.parametrize("case", TAKES_ONE)
def test_it_is_said_how_an_op_refuses_axes_that_it_is_not_meant_to_take(case):
    op, takes_all, takes_one, said = TAKES_ONE[case]
    error = caught(check_vjp, op(takes_all), SQUARE)
    assert error.kind == "axis"
    axis = said.partition("=")[2]
    assert f"if the op is not meant to take {said}: let the forward raise TypeError" in str(error)
    assert f"error_samples=[((x, {{'axis': {axis}}}), TypeError)]" in str(error)
    assert "axis" in check_vjp(op(takes_one), SQUARE).passed


def test_nothing_is_said_of_axes_of_the_form_that_is_sampled():
    assert "not meant" not in str(caught(check_vjp, weighted(x=first_always), W, SQUARE))


# --- odd calls ---


def split(*, refuse):
    """Another number of outputs for another axis; or other dtypes, or nothing."""
    def forward(x, *, axis=0):
        refuse(axis)
        return tuple(np.moveaxis(x, axis, 0) * 2)

    return made(forward, x=lambda g, axis: np.moveaxis(np.stack(g) * 2, 0, axis))


def leaves(axis):
    if axis != 0:
        sys.exit("only the first axis")


@pytest.mark.parametrize("refuse", [lambda axis: None, operator.index, leaves])
def test_calls_that_give_another_number_of_outputs_or_leave_are_no_trouble(refuse):
    assert check_vjp(split(refuse=refuse), WIDE).compared
