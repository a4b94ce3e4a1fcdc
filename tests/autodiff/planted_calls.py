"""Wrong VJP rules that are right on the call at hand: planted for the checks by derived calls, and in the graph.

On the arguments that are drawn here their values are right, to first order. They are wrong for other shapes, another
spelling of the axis, one array in two places, as functions to be differentiated again, or in what they leave behind.
"""

from __future__ import annotations

import numpy as np

from autodiff import Tensor, save

from .planted import SOUND, XY, Planted, Sound, X, Y, normal

# --- right ops to plant in ---


def total(x, *, axis=0, keepdims=False):
    return save(np.sum(x, axis=axis, keepdims=keepdims), shape=np.shape(x))


def put_back(g, shape, axis, keepdims):
    """Leave the summed axes in, of length one."""
    return g if keepdims else np.expand_dims(g, tuple(range(len(shape))) if axis is None else axis)


def spread_total(g, shape, axis, keepdims):
    return np.broadcast_to(put_back(g, shape, axis, keepdims), shape)


class Box:
    """Something to hide values in."""


def cyclic(x):
    box = Box()
    box.out, box.itself = np.tanh(x), box
    return save(box.out, box=box)


KEPT: list = []


def remembers(x):
    out = np.tanh(x)
    KEPT[:] = [*KEPT[-3:], out]
    return out


def latest(x):
    latest.out = np.tanh(x)
    return latest.out


def round_half(x):
    return np.round(x)


def cube(x):
    return x * x * x


def quotient(x, y):
    return x / y


def multiply_equal(x, y):
    return x.reshape(y.shape) * y


def multiply_or_square(x, y):
    return x * x / 2 if x is y else x * y


def raw(value):
    """Take the numbers out of a tensor, which breaks the graph."""
    return value.data if type(value) is Tensor else value


THREES = normal((3, 3), (3, 3))
SQUARE = lambda rng: (rng.normal(size=(3, 3)), {"axis": 1})  # noqa: E731
PRODUCT = {X: lambda g, y: g * y, Y: lambda g, x: g * x}

SOUND |= {
    "running sum along dim": Sound(
        lambda x, *, dim=0: np.cumsum(x, axis=int(dim)),  # refuses None
        {X: lambda g, dim: np.flip(np.cumsum(np.flip(g, dim), dim), dim)}, normal((3, 3)),
    ),
    "swapped": Sound(
        lambda x, *, axis1=0, axis2=1: np.swapaxes(x, axis1, axis2),
        {X: lambda g, axis1, axis2: np.swapaxes(g, axis1, axis2)}, normal((3, 3)),
    ),
    "total": Sound(total, {X: spread_total}, SQUARE),
    "quadruple": Sound(lambda x: 4 * x * x, {X: lambda g, x: 8 * g * x}, normal((3,))),
    "cube": Sound(cube, {X: lambda g, x: 3 * g * x * x}, normal((4,)), decomposition=lambda x: x * x * x),
    "quotient": Sound(quotient, {X: lambda g, y: g / y, Y: lambda g, x, y: -g * x / (y * y)},
                      lambda rng: (rng.normal(size=(2, 3)), rng.uniform(1, 2, (2, 3))), {"elementwise": True}),
    "round_half": Sound(round_half, {X: lambda g: g * 1.0}, lambda rng: (rng.integers(0, 9, 4) + 0.2,),
                        {"surrogate": ("x",), "elementwise": True}),
    "sum of products": Sound(lambda x, y: np.sum(x * y, axis=-1), {
        X: lambda g, y: g[..., None] * y, Y: lambda g, x: g[..., None] * x}, normal((2, 3), (2, 3))),
}  # fmt: skip

FAULTY = {
    "multiply of equal shapes": Sound(multiply_equal, PRODUCT, THREES, {"elementwise": True}),
    "multiply or square": Sound(multiply_or_square, PRODUCT, THREES, {"elementwise": True}),
    "cycle": Sound(cyclic, {X: lambda g, out, box: g * (1 - out * out)}, normal((2, 3))),
    "remembers": Sound(remembers, {X: lambda g, out: g * (1 - out * out)}, normal((2, 3))),
    "latest": Sound(latest, {X: lambda g, out: g * (1 - out * out)}, normal((2, 3))),
    "deaf cube": Sound(cube, {X: lambda g, x: 3 * g * x * x}, normal((4,)), decomposition=lambda x: x * x * x * 1.001),
}
"""Ops that are wrong whatever their rules are."""
SOUND |= FAULTY


# --- other shapes ---


def sums_wrong_axis(g, x, y):
    product = g * y
    return product if product.shape == x.shape else np.reshape(np.sum(product, axis=0), x.shape)


def sums_wrong_trailing_axis(g, x, y):
    product = g * x
    return product if product.shape == y.shape else np.reshape(np.sum(product, axis=-1), y.shape)


def forgets_where_broadcast(g, x, y):
    return g * x if g.shape == y.shape else g * 0.0


def averages_where_broadcast(g, x, y):
    return g * y * (np.size(x) / max(np.size(g), 1))


def means_for_a_number(g, x, y):
    return g * x if np.ndim(y) else np.mean(g * x)


def counts_the_wrong_side(g, y):
    return g * y * (g.shape[0] / g.shape[-1] if g.ndim == 2 and g.size else 1.0)


BROADCASTING = [
    Planted("own sum over the wrong axis", "broadcast", "multiply", {X: sums_wrong_axis}, draw=THREES, slips=True),
    Planted("own sum over the wrong axis, second operand", "broadcast", "multiply", {Y: sums_wrong_trailing_axis},
            draw=THREES, slips=True),
    Planted("average of the copies", "broadcast", "multiply", {X: averages_where_broadcast}, "left to the engine", "x",
            draw=THREES, slips=True),
    Planted("nothing where it broadcasts", "broadcast", "multiply", {Y: forgets_where_broadcast}, arg="y",
            draw=THREES, slips=True),
    Planted("mean for a number", "broadcast", "multiply", {Y: means_for_a_number}, arg="y", draw=THREES, slips=True),
    Planted("sides mixed up, seen where they differ", "broadcast", "multiply", {X: counts_the_wrong_side}, arg="x",
            draw=THREES, slips=True),
    Planted("forward for equal shapes only", "broadcast", "multiply of equal shapes", slips=True),
]  # fmt: skip


# --- other axes ---


def sign_of_negative_axis(g, shape, axis, keepdims):
    whole = spread_total(g, shape, axis, keepdims)
    return -whole if type(axis) is int and axis < 0 else whole


def first_of_several_axes(g, shape, axis, keepdims):
    whole = spread_total(g, shape, axis, keepdims)
    return whole / len(axis) if type(axis) is tuple else whole


def sign_of_negative_axes(g, shape, axis, keepdims):
    whole = spread_total(g, shape, axis, keepdims)
    return -whole if type(axis) is tuple and min(axis) < 0 else whole


def twice_for_a_tuple_of_one(g, shape, axis, keepdims):
    whole = spread_total(g, shape, axis, keepdims)
    return 2 * whole if type(axis) is tuple and len(axis) == 1 else whole


def none_averages(g, shape, axis, keepdims):
    whole = spread_total(g, shape, axis, keepdims)
    return whole / shape[0] if axis is None else whole


def keepdims_forgotten(g, shape, axis, keepdims):
    return np.broadcast_to(np.transpose(g) if keepdims else put_back(g, shape, axis, False), shape)


def last_axis_always(g, shape, axis, keepdims):
    return np.broadcast_to(g if keepdims else g[..., None], shape)


AXES = [
    Planted("sign for a negative axis", "axis", "total", {X: sign_of_negative_axis}, arg="x", slips=True),
    Planted("share for each of several axes", "axis", "total", {X: first_of_several_axes}, slips=True),
    Planted("sign for several negative axes", "axis", "total", {X: sign_of_negative_axes}, slips=True),
    Planted("twice for a tuple of one axis", "axis", "total", {X: twice_for_a_tuple_of_one}, slips=True),
    Planted("mean over all axes", "axis", "total", {X: none_averages}, slips=True),
    Planted("kept axes in the wrong place", "axis", "total", {X: keepdims_forgotten}, slips=True),
    Planted("always the last axis", "axis", "total", {X: last_axis_always}, slips=True),
    Planted("always the last axis, negative", "axis", "total", {X: last_axis_always}, slips=True,
            draw=lambda rng: (rng.normal(size=(3, 3)), {"axis": -1})),
]  # fmt: skip


# --- one array twice ---


AXES += [
    Planted("sign for a negative dim", "axis", "running sum along dim",
            {X: lambda g, dim: np.flip(np.cumsum(np.flip(g, dim), dim), dim) if dim >= 0 else np.cumsum(g, dim)},
            slips=True),
    Planted("a negative axis1 forgotten", "axis", "swapped",
            {X: lambda g, axis1, axis2: np.swapaxes(g, axis1, axis2) if axis1 >= 0 else g * 1.0}, slips=True),
]  # fmt: skip

REUSE = [
    Planted("same array, one path", "reuse", "multiply",
            {Y: lambda g, x, y: np.zeros_like(g) if x is y else g * x}, draw=THREES, slips=True),
    Planted("shared memory, one path", "reuse", "sum of products",
            {Y: lambda g, x, y: (0.0 if type(x) is not Tensor and np.shares_memory(x, y) else 1.0) * g[..., None] * x},
            slips=True),
    Planted("same array, both paths twice", "reuse", "multiply",
            {XY: lambda g, x, y: ((2.0 if x is y else 1.0) * g * y, g * x)}, draw=THREES, slips=True),
    Planted("same array, another function", "reuse", "multiply or square", slips=True),
]  # fmt: skip


# --- the rule as a function ---


def zeros_when_recorded(g, x):
    return 2 * g * x if type(g) is not Tensor else 0.0 * g


def other_when_recorded(g, x):
    return 2 * g * x + (1e-3 * g if type(g) is Tensor else 0.0)


def flattened_out(g, out):
    return g * (1 - np.array(raw(out)) ** 2)


GRAPH = [
    Planted("cotangent taken as a number", "transposition", "square", {X: lambda g, x: raw(g) * (2 * x)},
            "breaks the graph", slips=True),
    Planted("half of the cotangent taken as a number", "transposition", "square",
            {X: lambda g, x: (0.5 * raw(g) + 0.5 * g) * 2 * x}, slips=True),
    Planted("cotangent of a linear op taken as a number", "transposition", "rows",
            {X: lambda g, width: np.repeat(raw(g)[:, None], width, 1)}, slips=True),
    Planted("cotangent of one term taken as a number", "transposition", "softmax",
            {X: lambda g, out: out * (g - np.sum(raw(g) * out, -1, keepdims=True))}),
    Planted("input taken as a number", "second-order", "square", {X: lambda g, x: 2 * g * raw(x)}, slips=True),
    Planted("output taken as a number", "second-order", "tanh", {X: flattened_out}, slips=True),
    Planted("one factor taken as a number", "second-order", "cube of a tensor",
            {X: lambda g, x: 3 * g * x * raw(x)}, slips=True),
    Planted("the other operand taken as a number", "second-order", "multiply", {X: lambda g, y: g * raw(y)},
            slips=True),
    Planted("zeros when recorded", "second-order", "square", {X: zeros_when_recorded}),
    Planted("another gradient when recorded", "second-order", "square", {X: other_when_recorded}),
]  # fmt: skip
SOUND["cube of a tensor"] = Sound(cube, {X: lambda g, x: 3 * g * x * x}, normal((4,)), {"elementwise": True})


# --- what it leaves behind ---


def rule_that_remembers(g, out):
    KEPT[:] = [*KEPT[-3:], out]
    return g * (1 - out * out)


MEMORY = [
    Planted("a cycle keeps the output", "memory", "cycle", suspect="garbage collector", slips=True),
    Planted("a global keeps the output", "memory", "remembers", suspect="in a global", slips=True),
    Planted("a function's attribute keeps the output", "memory", "latest", slips=True),
    Planted("a rule keeps a saved value", "memory", "tanh", {X: rule_that_remembers}, slips=True),
]


# --- more of the usual kinds ---

OTHERS = [
    Planted("quotient, denominator not squared", "value", "quotient", {Y: lambda g, x, y: -g * x / y}, arg="y"),
    Planted("quotient, sign of the second operand", "value", "quotient", {Y: lambda g, x, y: g * x / (y * y)}, "sign"),
    Planted("quotient, operands swapped", "value", "quotient", {X: lambda g, x: g / x}, arg="x"),
    Planted("power, exponent not lowered", "value", "cube", {X: lambda g, x: 3 * g * x * x * x}),
    Planted("power, factor forgotten", "value", "cube", {X: lambda g, x: g * x * x}),
    Planted("sum of products, cotangent summed", "value", "sum of products",
            {X: lambda g, y: np.sum(g) * y}),
    Planted("slightly off a linear map", "linear", "transpose", {X: lambda g: g.T * (1 + 1e-9)}, slips=True),
    Planted("other than the decomposition's gradient", "decomposition", "cube",
            {X: lambda g, x: 3 * (1 + 1e-9) * g * x * x}, slips=True),
    Planted("decomposition of another function", "decomposition", "deaf cube"),
    Planted("NaN from a surrogate", "nonfinite", "round_half",
            {X: lambda g, x: g + np.where(x > 1, np.float32(np.nan), np.float32(0))},
            draw=lambda rng: (np.array([0.2, 3.2]),), slips=True),
    Planted("None for a variadic array", "none", "joined",
            {("arrays",): lambda g, lengths: (g[: lengths[0]], None, g[lengths[0] + lengths[1] :])}),
]  # fmt: skip

CALLS = BROADCASTING + AXES + REUSE + GRAPH + MEMORY + OTHERS
