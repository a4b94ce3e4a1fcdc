"""Random compositions of ops: gradient, Jacobian-vector and Hessian-vector products agree with PyTorch's.

And functions in which the argument feeds every input of a fused op, to the third order.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import autodiff as ad
import autodiff.functional as F

torch = pytest.importorskip("torch", reason="the comparison is with PyTorch")

SHAPE = (3, 4)
LEAVES = ["x", "y", "constant"]
UNARY = {
    "tanh": (np.tanh, torch.tanh),
    "sin": (np.sin, torch.sin),
    "exp": (lambda a: np.exp(np.tanh(a)), lambda a: torch.exp(torch.tanh(a))),
    "log": (lambda a: np.log(1.5 + np.cos(a)), lambda a: torch.log(1.5 + torch.cos(a))),
    "sqrt": (lambda a: np.sqrt(1 + a * a), lambda a: torch.sqrt(1 + a * a)),
    "power": (lambda a: (1 + a**2) ** -1.5, lambda a: (1 + a**2) ** -1.5),
    "sigmoid": (F.sigmoid, torch.sigmoid),
    "gelu": (F.gelu, lambda a: torch.nn.functional.gelu(a, approximate="tanh")),
    "silu": (F.silu, torch.nn.functional.silu),
    "softplus": (F.softplus, torch.nn.functional.softplus),
    "softmax": (F.softmax, lambda a: torch.softmax(a, -1)),
    "log_softmax": (lambda a: F.log_softmax(a, axis=0), lambda a: torch.log_softmax(a, 0)),
    "layer_norm": (
        lambda a: F.layer_norm(a, eps=0.1),
        lambda a: torch.nn.functional.layer_norm(a, (a.shape[-1],), eps=0.1),
    ),
    "cumsum": (lambda a: np.cumsum(a, axis=1), lambda a: torch.cumsum(a, 1)),
    "mean": (lambda a: a - np.mean(a, axis=0, keepdims=True), lambda a: a - torch.mean(a, 0, keepdim=True)),
    "slices": (lambda a: np.concatenate([a[1:], a[:1]]), lambda a: torch.cat([a[1:], a[:1]])),
}
BINARY = {
    "add": (np.add, torch.add),
    "multiply": (np.multiply, torch.mul),
    "divide": (lambda a, b: a / (2 + np.sin(b)), lambda a, b: a / (2 + torch.sin(b))),
    "where": (lambda a, b: np.where(a > 0.123, a, b), lambda a, b: torch.where(a > 0.123, a, b)),
    "matmul": (lambda a, b: a @ np.tanh(b).T @ b, lambda a, b: a @ torch.tanh(b).T @ b),
}

expressions = st.recursive(
    st.sampled_from(LEAVES),
    lambda parts: st.one_of(
        st.tuples(st.sampled_from(sorted(UNARY)), parts), st.tuples(st.sampled_from(sorted(BINARY)), parts, parts)
    ),
    max_leaves=8,
).filter(lambda expression: type(expression) is tuple)


def value_of(expression, values, ours):
    """Compute an expression with our functions or with PyTorch's."""
    if type(expression) is str:
        return values[expression]
    name, *parts = expression
    function = (UNARY | BINARY)[name][0 if ours else 1]
    return function(*(value_of(part, values, ours) for part in parts))


def close(ours, theirs):
    theirs = theirs.detach().numpy()
    assert np.shape(ours) == theirs.shape
    return np.abs(ours - theirs).max(initial=0) <= 1e-9 * max(1.0, np.abs(theirs).max(initial=0))


@settings(max_examples=30)
@given(expressions, st.integers(0, 2**32 - 1))
def test_random_compositions(expression, seed):
    rng = np.random.default_rng(seed)
    x, y, dx, dy, c, weights = (rng.normal(size=SHAPE) for _ in range(6))

    def vector(x, y):
        return value_of(expression, {"x": x, "y": y, "constant": c}, ours=True)

    def scalar(x, y):
        return np.sum(vector(x, y) * weights)

    def torch_vector(x, y):
        return value_of(expression, {"x": x, "y": y, "constant": torch.tensor(c)}, ours=False)

    def torch_scalar(x, y):
        return (torch_vector(x, y) * torch.tensor(weights)).sum() + 0 * (x.sum() + y.sum())

    at, along = (torch.tensor(x), torch.tensor(y)), (torch.tensor(dx), torch.tensor(dy))
    value, gradient = ad.value_and_grad(scalar, argnums=(0, 1))(x, y)
    assert close(value, torch_scalar(*at))
    assert all(map(close, gradient, torch.autograd.functional.vjp(torch_scalar, at)[1]))
    out, tangent = ad.jvp(vector, (x, y), (dx, dy))
    expected = torch.autograd.functional.jvp(torch_vector, at, along)
    assert close(out, expected[0])
    assert close(tangent, expected[1])
    product = ad.hvp(lambda both: scalar(*both), ((x, y),), ((dx, dy),))
    assert all(map(close, product, torch.autograd.functional.hvp(torch_scalar, at, along)[1]))
    rows = ad.hvp(scalar, (x, y), (dx, dy))
    assert close(rows, torch.autograd.functional.hvp(torch_scalar, at, along)[1][0])
    pushed = ad.jvp(ad.grad(scalar), (x, y), (dx, dy))[1]  # what hvp is defined to be
    np.testing.assert_allclose(pushed, rows, rtol=1e-9, atol=1e-9 * max(1.0, np.abs(rows).max()))


def attend(a, b, c):
    return F.scaled_dot_product_attention(a[None, None], b[None, None], c[None, None], causal=True)[0, 0]


def torch_attend(a, b, c):
    weights = a @ b.T / 2.0  # the width is 4
    later = torch.triu(torch.ones(weights.shape, dtype=torch.bool), 1)
    return torch.softmax(weights.masked_fill(later, float("-inf")), -1) @ c


def torch_layer_norm(x, gamma, beta):
    """Primitives: the third derivatives of PyTorch's layer_norm (2.13) contradict finite differences of its second."""
    centred = x - x.mean(-1, keepdim=True)
    return centred / torch.sqrt((centred * centred).mean(-1, keepdim=True) + 1e-5) * gamma + beta


ENTANGLED = {
    "layer_norm": (
        lambda x: x * F.layer_norm(x, (2 * x)[0], (x * x)[1]),
        lambda x: x * torch_layer_norm(x, (2 * x)[0], (x * x)[1]),
    ),
    "rms_norm": (
        lambda x: x * F.rms_norm(x, (2 * x)[0]),
        lambda x: x * torch.nn.functional.rms_norm(x, (4,), (2 * x)[0], eps=1e-5),
    ),
    "softmax": (lambda x: x * F.softmax(x * x), lambda x: x * torch.softmax(x * x, -1)),
    "log_softmax": (lambda x: x * F.log_softmax(x * x), lambda x: x * torch.log_softmax(x * x, -1)),
    "gelu": (lambda x: x * F.gelu(x * x), lambda x: x * torch.nn.functional.gelu(x * x, approximate="tanh")),
    "swiglu": (lambda x: F.swiglu(x, x * x), lambda x: torch.nn.functional.silu(x) * x * x),
    "linear": (lambda x: F.linear(x, x.T @ x, x[0]), lambda x: x @ (x.T @ x) + x[0]),
    "attention": (lambda x: attend(x, 2 * x, x * x), lambda x: torch_attend(x, 2 * x, x * x)),
    "cross_entropy": (
        lambda x: F.cross_entropy(x * x, np.array([0, 3, 1])) * x,
        lambda x: torch.nn.functional.cross_entropy(x * x, torch.tensor([0, 3, 1])) * x,
    ),
}


@pytest.mark.parametrize("name", ENTANGLED)
def test_third_order_where_every_input_depends_on_the_argument(name):
    ours, theirs = ENTANGLED[name]
    rng = np.random.default_rng(5)
    x, v, w, weights = (rng.normal(size=SHAPE) for _ in range(4))

    def first(x):
        return ad.grad(lambda x: np.sum(ours(x) * weights))(x)

    def second(x):
        return ad.grad(lambda x: np.sum(first(x) * v))(x)

    def third(x):
        return ad.grad(lambda x: np.sum(second(x) * w))(x)

    leaf = torch.tensor(x, requires_grad=True)
    expected = torch.autograd.grad((theirs(leaf) * torch.tensor(weights)).sum(), leaf, create_graph=True)[0]
    assert close(first(x), expected)
    expected = torch.autograd.grad((expected * torch.tensor(v)).sum(), leaf, create_graph=True)[0]
    assert close(second(x), expected)
    assert close(ad.hvp(lambda x: np.sum(ours(x) * weights), (x,), (v,)), expected)
    expected = torch.autograd.grad((expected * torch.tensor(w)).sum(), leaf)[0]
    assert close(third(x), expected)
    assert close(ad.jvp(lambda x: ad.jvp(first, (x,), (v,))[1], (x,), (w,))[1], expected)
