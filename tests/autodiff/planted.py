"""Wrong VJP rules, planted beside right ones: what the checker has to find, each under its right name.

Every op here stands alone: none is registered, so nothing else sees them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from autodiff import Tensor, save
from autodiff.op import Op
from autodiff.testing import check_op, check_vjp

Rules = dict[tuple[str, ...], Callable[..., Any]]


@dataclass(frozen=True)
class Sound:
    """An op with right rules, and how to draw arguments for it."""

    forward: Callable[..., Any]
    rules: Rules
    draw: Callable[[np.random.Generator], tuple[Any, ...]]
    declared: dict[str, Any] = field(default_factory=dict)
    decomposition: Callable[..., Any] | None = None

    def op(self, replaced: Rules | None = None) -> Op[..., Any]:
        """Make the op anew, with some rules replaced."""
        made: Op[..., Any] = Op(self.forward, **self.declared)
        for arguments, rule in {**self.rules, **(replaced or {})}.items():
            made.vjp(*arguments)(rule)
        if self.decomposition is not None:
            made.decomposition(self.decomposition)
        return made


@dataclass(frozen=True)
class Planted:
    """A mistake in one rule of a sound op."""

    name: str
    kind: str
    sound: str
    rules: Rules = field(default_factory=dict)
    suspect: str | None = None  # part of what the message shall suspect
    arg: str | None = None
    draw: Callable[[np.random.Generator], tuple[Any, ...]] | None = None
    slips: bool = False  # whether nothing else finds it when the check of its kind is off

    def case(self, seed: int) -> tuple[Op[..., Any], tuple[Any, ...]]:
        """Make the op, and draw arguments."""
        sound = SOUND[self.sound]
        return sound.op(self.rules), (self.draw or sound.draw)(np.random.default_rng(seed))

    def check(self, seed: int) -> None:
        """Check the op at the arguments; what is judged over all samples, with these as the only sample."""
        made, args = self.case(seed)
        if self.kind == "saved-in-vain":
            made.samples = [args]
            check_op(made)
        else:
            check_vjp(made, *args, rng=seed)


def normal(*shapes):
    return lambda rng: tuple(rng.normal(size=shape) for shape in shapes)


# --- forwards ---


def tanh(x):
    return np.tanh(x)


def square(x):
    return x * x


def multiply(x, y):
    return x * y


def scaled_sum(x, y, k):
    return (x + 2.0 * y) * k


def matmul(a, b):
    return a @ b


def transpose(x):
    return x.T


def rows(x):
    return save(x.sum(axis=1), width=x.shape[1])


def mean(x):
    return save(x.mean(axis=-1), n=x.shape[-1])


def spread(x):
    return np.broadcast_to(x, (4, 3)) * 1.0


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def layer_norm(x):
    centred = x - x.mean(axis=-1, keepdims=True)
    rstd = 1 / np.sqrt((centred * centred).mean(axis=-1, keepdims=True) + 1e-5)
    return save(centred * rstd, rstd=rstd)


def gather(x, index):
    return save(x[index], n=len(x))


def cumsum(x):
    return np.cumsum(x, axis=-1)


def many(x):
    return np.tanh(x)


def relu(x):
    return np.maximum(x, 0.0)


def largest(x):
    return save(x.max(), where=x == x.max())


def sigmoid(x):
    with np.errstate(over="ignore"):
        return 1 / (1 + np.exp(-x))


def weighted(x):
    weight = np.linspace(0.1, 1.0, x.size).reshape(x.shape).astype(x.dtype)
    return save(x * weight, weight=weight)


def listed(x):
    return save(np.tanh(x), kept=[1 - np.tanh(x) ** 2])


def halves(x):
    return x[:2] * 2.0, x[2:] * x[2:]


def joined(*arrays):
    return save(np.concatenate(arrays), lengths=[len(array) for array in arrays])


def constant(x):
    return save(np.full(2, 3.0, x.dtype) + 0.0 * x.sum(), shape=x.shape)


def stairs(x):
    return save(np.floor(x), zeros=np.zeros_like(x))


def drifts():
    rng = np.random.default_rng(0)

    def unsteady(x):
        return np.tanh(x) * (1 + 1e-15 * rng.integers(0, 9, x.shape)).astype(x.dtype)

    return unsteady


def upcast(x):
    return x * x.astype(np.float64)


def overwrites(x):
    x *= 2.0
    return np.tanh(x)


def scatter_rows(g, index, n):
    out = np.zeros((n, *g.shape[1:]), g.dtype)
    np.add.at(out, index, g)
    return out


def pull_layer_norm(g, out, rstd):
    return rstd * (g - g.mean(-1, keepdims=True) - out * (g * out).mean(-1, keepdims=True))


def pull_joined(g, lengths):
    return tuple(g[end - length : end] for length, end in zip(lengths, np.cumsum(lengths), strict=True))


def draw_gather(rng):
    return rng.normal(size=(5, 2)), np.array([0, 3, 0, 3, 3])


X, Y, XY = ("x",), ("y",), ("x", "y")

SOUND = {
    "tanh": Sound(tanh, {X: lambda g, out: g * (1 - out * out)}, normal((2, 3)), {"elementwise": True}),
    "tanh of a number": Sound(tanh, {X: lambda g, out: g * (1 - out * out)}, normal(()), {"elementwise": True}),
    "square": Sound(square, {X: lambda g, x: 2 * g * x}, normal((3,)), {"elementwise": True}),
    "multiply": Sound(
        multiply, {X: lambda g, y: g * y, Y: lambda g, x: g * x}, normal((3, 1), (3, 3)), {"elementwise": True}
    ),
    "scaled_sum": Sound(
        scaled_sum, {("x", "y", "k"): lambda g, k, needs: (g * k, 2.0 * g * k, None)},
        lambda rng: (*normal((3,), (3,))(rng), np.array([1, 2, 3], np.int8)),
    ),
    "products": Sound(
        lambda x, y, z: x * y * z,
        {("x", "y", "z"): lambda g, x, y, z: (g * y * z, g * x * z, g * x * y)}, normal((3,), (3,), (3,)),
    ),
    "tiny": Sound(lambda x: 1e-5 * np.sin(x), {X: lambda g, x: 1e-5 * g * np.cos(x)}, normal((3,))),
    "matmul": Sound(matmul, {("a",): lambda g, b: g @ b.T, ("b",): lambda g, a: a.T @ g}, normal((3, 3), (3, 3))),
    "transpose": Sound(transpose, {X: lambda g: g.T}, normal((3, 3)), {"linear": True}),
    "rows": Sound(rows, {X: lambda g, width: np.repeat(g[:, None], width, 1)}, normal((3, 3)), {"linear": True}),
    "mean": Sound(mean, {X: lambda g, n: np.repeat(g[..., None], n, -1) / n}, normal((2, 4)), {"linear": True}),
    "spread": Sound(spread, {X: lambda g: g.sum(axis=0)}, normal((3,)), {"linear": True}),
    "softmax": Sound(softmax, {X: lambda g, out: out * (g - (g * out).sum(-1, keepdims=True))}, normal((2, 4))),
    "layer_norm": Sound(layer_norm, {X: pull_layer_norm}, normal((2, 4))),
    "gather": Sound(gather, {X: scatter_rows}, draw_gather),
    "cumsum": Sound(cumsum, {X: lambda g: np.cumsum(g[..., ::-1], -1)[..., ::-1]}, normal((2, 3)), {"linear": True}),
    "many": Sound(many, {X: lambda g, out: g * (1 - out * out)}, normal((100, 100)), {"elementwise": True}),
    "relu": Sound(relu, {X: lambda g, x: g * (x > 0)}, lambda rng: (rng.uniform(0.1, 1, 4) * [1, -1, 1, -1],),
                  {"elementwise": True}),
    "largest": Sound(largest, {X: lambda g, where: g * where}, lambda rng: (rng.permutation(5) + rng.random(5) / 10,)),
    "sigmoid": Sound(sigmoid, {X: lambda g, out: g * out * (1 - out)}, lambda rng: (rng.normal(0, 2, 3),),
                     {"elementwise": True}),
    "weighted": Sound(weighted, {X: lambda g, weight: g * weight}, normal((2, 3))),
    "listed": Sound(listed, {X: lambda g, kept: g * kept[0]}, normal((2, 3))),
    "halves": Sound(halves, {X: lambda g, x: np.concatenate([2.0 * g[0], 2 * x[2:] * g[1]])}, normal((5,))),
    "joined": Sound(joined, {("arrays",): pull_joined}, normal((2, 3), (1, 3), (0, 3)), {"linear": True}),
}  # fmt: skip

def sorted_in_place(values):
    values.sort()
    return values


def draw_by_settings(rng):
    return rng.normal(size=3), {"by": np.array([3.0, 1.0, 2.0]), "order": [3, 1, 2]}


UNUSUAL = {
    "by_settings": Sound(
        lambda x, *, by, order: x * float(np.sum(by)), {X: lambda g, by, order: g * float(np.sum(by))}, draw_by_settings
    ),
    "sorts a setting": Sound(
        lambda x, *, by, order: x * float(np.sum(sorted_in_place(by))), {X: lambda g, by, order: g * float(np.sum(by))},
        draw_by_settings,
    ),
    "sorts a list": Sound(
        lambda x, *, by, order: x * float(np.sum(sorted_in_place(order))),
        {X: lambda g, by, order: g * float(np.sum(order))}, draw_by_settings,
    ),
    "constant": Sound(constant, {X: lambda g, shape: np.zeros(shape, g.dtype)}, normal((3,))),
    "unsteady": Sound(drifts(), {X: lambda g, x: g * (1 - np.tanh(x) ** 2)}, normal((2, 3))),
    "upcast": Sound(upcast, {X: lambda g, x: 2 * g.astype(x.dtype) * x}, normal((3,))),
    "overwrites": Sound(overwrites, {X: lambda g, out: 2 * g * (1 - out * out)}, normal((2, 3))),
    "stairs": Sound(stairs, {X: lambda g: np.zeros_like(g)}, lambda rng: (rng.integers(0, 9, 3) + 0.5,)),
}
"""Functions that are no use, or have no derivative to compare; their rules are right."""
SOUND |= UNUSUAL


# --- wrong values ---


def scaled_by(factor):
    return {X: lambda g, out: factor * g * (1 - out * out)}


def one_wrong_element(g, out):
    result = np.array(g * (1 - out * out))
    if result.size > 1000:
        result[17, 40] *= 1.01
    return result


def assigned(g, index, n):
    out = np.zeros((n, *g.shape[1:]), g.dtype)
    out[index] = g
    return out


def clipped_by_norm(g, x):
    return 2 * g * x * (np.minimum(1, 1000 / np.linalg.norm(g)) if g.any() else 1.0)


SPECIAL = {
    "clipped at 100": lambda g, x: np.clip(g, -100, 100) * 2 * x,
    "clipped by norm": clipped_by_norm,
    "dropped where small": lambda g, x: np.where(np.abs(g) < 1e-6, 0, g) * 2 * x,
    "special if constant": lambda g, x: (2 if (g == g.flat[0]).all() else 1) * g * 2 * x,
    "special at one element": lambda g, x: (2 if np.count_nonzero(g) == 1 else 1) * g * 2 * x,
}
"""Right for cotangents of the usual size and pattern."""

VALUES = [
    Planted("sign", "value", "tanh", scaled_by(-1), "sign"),
    Planted("factor two", "value", "tanh", scaled_by(2), "factor 2 too much"),
    Planted("factor one half", "value", "tanh", scaled_by(0.5), "factor 2 is missing"),
    Planted("factor three", "value", "tanh of a number", scaled_by(3), "constant factor"),
    Planted("off by 1e-4", "value", "tanh", scaled_by(1 + 1e-4)),
    Planted("off by 1e-5", "value", "tanh", scaled_by(1 + 1e-5)),
    Planted("off by 1e-5, of the input", "value", "square", {X: lambda g, x: 2.00002 * g * x}, slips=True),
    Planted("cotangent ignored", "zero", "tanh", {X: lambda g, out: 1 - out * out}, "is g ignored"),
    Planted("cotangent reversed", "value", "tanh", {X: lambda g, out: g[:, ::-1] * (1 - out * out)}),
    Planted("cotangent squared", "linearity", "tanh", {X: lambda g, out: g**2 * (1 - out * out)}),
    Planted("cotangent's magnitude", "linearity", "tanh", {X: lambda g, out: abs(g) * (1 - out * out)}),
    Planted("cotangent clipped", "linearity", "tanh", {X: lambda g, out: np.clip(g, -1, 1) * (1 - out * out)}),
    *(Planted(f"cotangent {name}", "linearity", "square", {X: rule}, slips=True) for name, rule in SPECIAL.items()),
    Planted("cotangent averaged", "value", "tanh", {X: lambda g, out: g.mean() * (1 - out * out)}, "reduced too early"),
    Planted("cotangent rounded to float32", "linearity", "tanh",
            {X: lambda g, out: np.asarray(g, np.float32) * (1 - out * out)}, slips=True),
    Planted("additive term", "zero", "tanh", {X: lambda g, out: (g + 1e-3) * (1 - out * out)}),
    Planted("zeros for an operand", "value", "multiply", {Y: lambda g: np.zeros_like(g)}, "forgotten", "y"),
    Planted("operands swapped", "value", "multiply", {X: lambda g, x: g * x, Y: lambda g, y: g * y}, arg="x"),
    Planted("operands swapped, equal shapes", "value", "multiply", {X: lambda g, x: g * x, Y: lambda g, y: g * y},
            "gradient of y: are the operands swapped", "x", draw=normal((2, 3), (2, 3))),
    Planted("product without transpose", "value", "matmul", {("a",): lambda g, b: g @ b}, arg="a"),
    Planted("transpose not transposed", "value", "transpose", {X: lambda g: np.array(g)}, "transposed"),
    Planted("sum along the wrong axis", "value", "rows", {X: lambda g, width: np.repeat(g[None], width, 0)},
            "transposed"),
    Planted("sum without keepdims", "value", "rows", {X: lambda g, width: g * np.ones((width, width), g.dtype)}),
    Planted("mean of a broadcast axis", "value", "spread", {X: lambda g: g.mean(axis=0)}, "mean where a sum"),
    Planted("mean without 1/n", "value", "mean", {X: lambda g, n: np.repeat(g[..., None], n, -1)}, "1/n is missing"),
    Planted("softmax, diagonal alone", "value", "softmax", {X: lambda g, out: g * out * (1 - out)}),
    Planted("softmax, zeros", "value", "softmax", {X: lambda g: np.zeros_like(g)}, "zeros"),
    Planted("softmax, reduced along the wrong axis", "value", "softmax",
            {X: lambda g, out: out * (g - (g * out).sum(0, keepdims=True))}, draw=normal((4, 4))),
    Planted("layer norm without the mean term", "value", "layer_norm",
            {X: lambda g, out, rstd: rstd * (g - out * (g * out).mean(-1, keepdims=True))},
            "mean (or sum) term over axis -1"),
    Planted("layer norm without the variance term", "value", "layer_norm",
            {X: lambda g, rstd: rstd * (g - g.mean(-1, keepdims=True))}),
    Planted("repeated index assigned", "value", "gather", {X: assigned}, "assigned, not added"),
    Planted("product, one path", "value", "square", {X: lambda g, x: g * x}, "factor 2 is missing"),
    Planted("running sum not reversed", "value", "cumsum", {X: lambda g: np.cumsum(g, -1)}),
    Planted("running sum reversed after", "value", "cumsum", {X: lambda g: np.cumsum(g[..., ::-1], -1)}, "reversed"),
    Planted("shifted", "value", "transpose", {X: lambda g: np.roll(g.T, 1, 0)}, "shifted by 1"),
    Planted("input for output", "value", "tanh", {X: lambda g, x: g * (1 - x * x)}),
    Planted("one element of 10,000", "value", "many", {X: one_wrong_element}),
    Planted("one output of two", "value", "halves", {X: lambda g, x: np.concatenate([g[0], 2 * x[2:] * g[1]])}),
    Planted("order of joined arrays", "value", "joined",
            {("arrays",): lambda g, lengths: pull_joined(g, lengths[::-1])[::-1]}, draw=normal((2, 2), (1, 2))),
]  # fmt: skip


# --- wrong structure ---


def writes_cotangent(g, out):
    g *= 1 - out * out
    return g


def writes_saved(g, weight):
    np.clip(weight, 0.0, 1.0, out=weight)  # changes nothing, here
    return g * weight


def assumes_c_order(g, out):
    return np.frombuffer(g.tobytes("A"), g.dtype).reshape(g.shape) * (1 - out * out)


def assumes_strides(g, out):
    return g * (1 - out * out) if g.strides[-1] > 0 else -g * (1 - out * out)


def writes_broadcast_cotangent(g, out):
    if 0 in g.strides:
        g[...] = g * (1 - out * out)
        return g
    return g * (1 - out * out)


def reuses_a_workspace():
    space = {}

    def rule(g, out):
        kept = space.setdefault((g.shape, g.dtype), np.empty(g.shape, g.dtype))
        return np.multiply(g, 1 - out * out, out=kept if type(g) is not Tensor and type(out) is not Tensor else None)

    return rule


def jitters(g, out):
    return g * (1 - out * out) * (1 + 1e-14 * np.random.default_rng().normal(size=g.shape)).astype(g.dtype)


def overflows(g, x):
    with np.errstate(all="ignore"):
        e = np.exp(-x)
        return g * e / (1 + e) ** 2


def normalises(g, out):
    size = np.vdot(g, g)
    with np.errstate(invalid="ignore"):
        return g * (1 - out * out) * (size / size)


def few_digits(g, out):
    if g.dtype == np.float32:
        out = out.round(1)
    return g * (1 - out * out)


def works_only_together(g, x, y, needs):
    return (g * y if needs[1] else 2 * g * y), g * x


def scatter_as_in_memory(g, index, n):
    out = np.zeros((n, *g.shape[index.ndim :]), g.dtype)
    np.add.at(out, np.ravel(index, order="K"), g.reshape(index.size, *g.shape[index.ndim :]))
    return out


def products_without_the_first(g, x, y, z, needs):
    return g * y * z, g * x * z * (1 if needs[0] or not needs[2] else 2), g * x * y


STRUCTURE = [
    Planted("forward with random numbers", "forward-nondet", "unsteady", slips=True),
    Planted("forward writes into its argument", "writes", "overwrites"),
    Planted("forward upcasts float32", "dtype", "upcast", slips=True),
    Planted("writes into its cotangent", "writes", "tanh", {X: writes_cotangent}),
    Planted("writes into a saved value", "writes", "weighted", {X: writes_saved}, slips=True),
    Planted("writes into a stride-0 cotangent", "writes", "tanh", {X: writes_broadcast_cotangent}),
    Planted("list instead of tuple", "arity", "scaled_sum",
            {("x", "y", "k"): lambda g, k: [g * k, 2.0 * g * k, None]}),
    Planted("too few entries", "arity", "scaled_sum", {("x", "y", "k"): lambda g, k: (g * k, 2.0 * g * k)}),
    Planted("one array for several", "arity", "scaled_sum", {("x", "y", "k"): lambda g, k: g * k}),
    Planted("None for a float argument", "none", "scaled_sum", {("x", "y", "k"): lambda g, k: (g * k, None, None)},
            arg="y"),
    Planted("zeros for an integer argument", "nondiff", "scaled_sum",
            {("x", "y", "k"): lambda g, k: (g * k, 2.0 * g * k, np.zeros(3))}, arg="k", slips=True),
    Planted("missing sum over a broadcast axis", "shape", "spread", {X: lambda g: np.array(g)}, "axes (0,)"),
    Planted("reduced too far", "shape", "rows", {X: lambda g: g}),
    Planted("returns a workspace", "alias", "tanh", {X: reuses_a_workspace()}, slips=True),
    Planted("writes into a setting", "writes", "by_settings",
            {X: lambda g, by, order: g * float(np.sum(sorted_in_place(by)))}, slips=True),
    Planted("writes into a list of settings", "writes", "by_settings",
            {X: lambda g, by, order: g * float(np.sum(by)) * min(1, sorted_in_place(order)[0])}, slips=True),
    Planted("forward writes into a setting", "writes", "sorts a setting"),
    Planted("forward writes into a list of settings", "writes", "sorts a list", slips=True),
    Planted("returns its input", "alias", "square", {X: lambda g, x: x}),
    Planted("returns a saved value", "alias", "stairs", {X: lambda g, zeros: zeros}, slips=True),
    Planted("a Python float", "type", "tanh of a number", {X: lambda g, out: float(g * (1 - out * out))}),
    Planted("a Python float in double precision", "type", "tanh of a number",
            {X: lambda g, out: float(g * (1 - out * out)) if g.dtype == np.float64 else g * (1 - out * out)},
            slips=True),
    Planted("a list", "type", "tanh", {X: lambda g, out: (g * (1 - out * out)).tolist()}),
    Planted("upcast of float32", "dtype", "tanh", {X: lambda g, out: g * (np.float64(1.0) - out * out)}, slips=True),
    Planted("downcast", "dtype", "tanh", {X: lambda g, out: (g * (1 - out * out)).astype(np.float32)}),
    Planted("NaN at large inputs", "nonfinite", "sigmoid", {X: overflows},
            draw=lambda rng: (np.array([-800.0, 0.5]),)),
    Planted("a saved value popped", "nondet", "listed", {X: lambda g, kept: g * kept.pop()}),
    Planted("random numbers in a rule", "nondet", "tanh", {X: jitters}, slips=True),
    Planted("NaN for a zero cotangent", "zero", "tanh", {X: normalises}, slips=True),
    Planted("C order assumed", "layout", "tanh", {X: assumes_c_order}, slips=True),
    Planted("positive strides assumed", "layout", "tanh", {X: assumes_strides}, slips=True),
    Planted("order of an integer array in memory", "layout", "gather", {X: scatter_as_in_memory},
            draw=lambda rng: (rng.normal(size=5), np.array([[0, 1, 2], [3, 4, 0]])), slips=True),
    Planted("last axes exchanged in memory", "layout", "square",
            {X: lambda g, x: g * (3 * x if x.strides[-1] > x.strides[-2] and x.strides[0] > x.strides[1] else 2 * x)},
            draw=normal((2, 3, 4)), slips=True),
    Planted("other than without the first", "needs", "products",
            {("x", "y", "z"): products_without_the_first}, slips=True),
    Planted("zeros in float32, of a tiny function", "float32", "tiny",
            {X: lambda g, x: 1e-5 * g * np.cos(x) * (x.dtype == np.float64)}, slips=True),
    Planted("other than alone", "needs", "multiply", {XY: works_only_together}, draw=normal((3,), (3,)), slips=True),
    Planted("few digits in float32", "float32", "tanh", {X: few_digits}, slips=True),
    Planted("raises", "raises", "tanh", {X: lambda g, out: g[5]}),
    Planted("tested at a kink", "kink", "relu", draw=lambda rng: (np.array([1.0, 0.0]),)),
    Planted("tested at a tie", "kink", "largest", draw=lambda rng: (np.array([1.0, 2.0, 2.0]),)),
    Planted("function constant in its argument", "vacuous", "constant"),
    Planted("kept for nothing", "saved-in-vain", "weighted",
            {X: lambda g, weight, x: g * weight}, slips=True),
    Planted("kept for its shape", "saved-in-vain", "transpose", {X: lambda g, x: g.T.reshape(x.shape)}, slips=True),
]  # fmt: skip
