"""Recomputed functions: the same results and gradients to the last bit, less memory, and what is noticed."""

from __future__ import annotations

import contextlib
import gc
import itertools
import tracemalloc
import weakref
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar

import numpy as np
import pytest

import autodiff as ad
import autodiff.functional as F
from autodiff import Tensor, nn
from autodiff.op import Op


def leaf(data, dtype=np.float32):
    return Tensor(np.asarray(data, dtype), requires_grad=True)


class Block(nn.Module):
    """Layers whose parameters other blocks may share."""

    def __init__(self, width, rng, shared=None):
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 2 * width, rng=rng)
        self.down = nn.Linear(2 * width, width, rng=rng)
        self.dropout = nn.Dropout(0.3, rng=rng)
        if shared is not None:
            self.up.weight = shared

    def forward(self, x):
        return x + self.dropout(self.down(F.gelu(self.up(self.norm(x)))))


class Stack(nn.Module):
    """Three blocks, of which two share a weight."""

    def __init__(self, width=8, seed=0):
        rng = np.random.default_rng(seed)
        first = Block(width, rng)
        self.blocks = [first, Block(width, rng, first.up.weight), Block(width, rng)]

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x


def recomputing(model):
    for block in model.blocks:
        block.forward = ad.recompute(block.forward)
    return model


def bits(array):
    return np.shape(array), array.dtype, np.ascontiguousarray(array).tobytes()


def same(a, b):
    return all(bits(x) == bits(y) for x, y in zip(a, b, strict=True))


X = np.random.default_rng(1).normal(size=(5, 8)).astype(np.float32)


def gradients_of(model, stream, steps=2):
    """Losses and gradients of a few steps; a new argument in each."""
    found = []
    for step in range(steps):
        x = leaf(X + step)
        with nn.dropout_stream(3, step) if stream else contextlib.nullcontext():
            loss = np.sum(model(x) ** 2 * X)
        loss.backward()
        found += [loss.data, x.grad, *(p.grad.copy() for p in model.parameters())]
    return found


@pytest.mark.parametrize("stream", [True, False], ids=["dropout_stream", "generators"])
def test_gradients_of_a_model_with_dropout_and_shared_weights_are_equal_to_the_last_bit(stream):
    plain = gradients_of(Stack(), stream)
    assert same(plain, gradients_of(recomputing(Stack()), stream))
    assert not same(plain, gradients_of(recomputing(Stack(seed=1)), stream))


@pytest.mark.parametrize("stream", [True, False], ids=["dropout_stream", "generators"])
def test_a_part_within_a_part(stream):
    plain = gradients_of(Stack(), stream)
    model = recomputing(Stack())
    for block in model.blocks:
        block.up.forward = ad.recompute(block.up.forward)
        block.dropout.forward = ad.recompute(block.dropout.forward)
    assert same(plain, gradients_of(model, stream))
    whole = recomputing(Stack())
    whole.forward = ad.recompute(whole.forward)
    assert same(plain, gradients_of(whole, stream))


def test_a_module_can_be_given_itself():
    model, x = Stack(), leaf(X)
    with nn.dropout_stream(0, 0):
        np.sum(ad.recompute(model)(x) * X).backward()
    expected, x2 = Stack(), leaf(X)
    with nn.dropout_stream(0, 0):
        np.sum(expected(x2) * X).backward()
    assert same([p.grad for p in model.parameters()], [p.grad for p in expected.parameters()])
    assert bits(x.grad) == bits(x2.grad)


@pytest.mark.parametrize("stream", [True, False], ids=["dropout_stream", "generators"])
def test_masks_are_replayed_as_often_as_backward_runs(stream):
    model, x = recomputing(Stack()), leaf(X)
    with nn.dropout_stream(3, 0) if stream else contextlib.nullcontext():
        loss = np.sum(model(x) ** 2)
    grads = [ad.gradients(loss, x).data for _ in range(3)]
    assert same(grads[:2], grads[1:])


def test_beside_other_users_of_what_goes_in():
    def f(a):
        return np.tanh(a) * a

    grads = []
    for function in (f, ad.recompute(f)):
        x = leaf(X)
        a = np.exp(x)
        before = np.sin(a)
        loss = np.sum(function(a) * before * np.cos(a))
        loss.backward()
        grads.append(x.grad)
    assert bits(grads[0]) == bits(grads[1])


def test_generators_advance_once():
    plain, again = Stack(), recomputing(Stack())
    gradients_of(plain, False), gradients_of(again, False)
    assert np.array_equal(plain(X).data, again(X).data)


def test_unseeded_dropout_is_replayed():
    x = leaf(np.ones(100))
    y = ad.recompute(lambda x: F.dropout(x, p=0.5))(x)
    y.backward(np.ones(100))
    np.testing.assert_array_equal(x.grad, y.data)


def test_any_source_of_masks_is_replayed():
    class Source:
        seed = 0

        def random(self, shape, dtype):
            self.seed += 1
            return np.random.default_rng(self.seed).random(shape, dtype=dtype)

    source, x = Source(), leaf(np.ones(100))
    y = ad.recompute(lambda x: F.dropout(F.dropout(x, p=0.5, rng=source), p=0.5, rng=source))(x)
    y.backward(np.ones(100))
    np.testing.assert_array_equal(x.grad, y.data)
    assert source.seed == 2


# --- forms ---


def several(x, *, factor):
    y = np.exp(x)
    return {"y": y, "again": y, "pair": (y * factor, x, None), "text": "t", "constant": Tensor([1.0])}


def loss_of(out, x):
    return np.sum(out["y"] * out["again"]) + np.sum(out["pair"][0] * np.sin(out["y"])) + np.sum(out["pair"][1] * x)


def test_several_results():
    grads = []
    for f in (several, ad.recompute(several)):
        start, factor = leaf(X), leaf(np.float32(1.5))
        x = start * 1.0
        out = f(x, factor=factor)
        assert out["again"] is out["y"]
        assert out["pair"][1] is x
        assert (out["pair"][2], out["text"], out["constant"].requires_grad) == (None, "t", False)
        loss_of(out, x).backward()
        grads.append((start.grad, factor.grad))
    assert same(*grads)


def test_results_that_are_not_used_have_no_part_in_it():
    def f(x):
        return np.sqrt(x), x * 2.0  # the root's derivative is infinite at 0: 0 x inf would be nan

    x = leaf([0.0, 1.0])
    ad.recompute(f)(x)[1].sum().backward()
    np.testing.assert_array_equal(x.grad, [2.0, 2.0])


def test_as_a_decorator_of_functions_and_methods():
    class Model:
        weight = leaf(2.0)

        @ad.recompute
        def __call__(self, x):
            """Scale."""
            return self.weight * x * x

    x = leaf(3.0)
    Model()(x).backward()
    assert x.grad == 12.0
    assert Model.weight.grad == 9.0
    assert Model.__call__.__doc__ == "Scale."


def test_without_anything_to_record_it_just_runs():
    f = ad.recompute(lambda x: x * 2.0)
    assert type(f(np.ones(2))) is np.ndarray
    x = leaf(1.0)
    with ad.no_grad():
        assert not f(x).requires_grad
    assert not f(Tensor(1.0)).requires_grad


def test_views_and_operations_with_several_outputs():
    def f(x):
        first, second = F.split(x.reshape(8, 5), indices_or_sections=2, axis=0)
        return first * second.T.reshape(4, 5)

    grads = []
    for function in (f, ad.recompute(f)):
        x = leaf(X)
        np.sum(function(x) ** 2).backward()
        grads.append(x.grad)
    assert bits(grads[0]) == bits(grads[1])


# --- other ways to differentiate ---


def test_gradients_with_respect_to_some_inputs_only():
    model, x = recomputing(Stack()), leaf(X)
    with nn.dropout_stream(3, 0):
        y = model(x)
        loss = np.sum(y**2)
    weight = model.blocks[1].down.weight
    found = ad.gradients(loss, [x, weight, y])
    with nn.dropout_stream(3, 0):
        plain = Stack()
        x2 = leaf(X)
        y2 = plain(x2)
        expected = ad.gradients(np.sum(y2**2), [x2, plain.blocks[1].down.weight, y2])
    assert same([g.data for g in found], [g.data for g in expected])
    assert weight.grad is None
    (g,) = ad.gradients(loss, [weight])
    assert bits(g.data) == bits(expected[1].data)


def test_each_backward_of_a_kept_graph_makes_it_again():
    runs, x = [], leaf(X)

    @ad.recompute
    def f(x):
        runs.append(1)
        return np.exp(x) * x

    y = f(x)
    y.backward(X, retain_graph=True)
    first = x.grad.copy()
    y.backward(X)
    np.testing.assert_array_equal(x.grad, 2 * first)
    assert len(runs) == 3
    with pytest.raises(RuntimeError, match=r"a second time through .*retain_graph=True"):
        y.backward(X)


@pytest.mark.parametrize("decompose", [False, True])
def test_higher_derivatives(decompose):
    weight = leaf(X[:4, :4], np.float64)

    def f(x):
        return F.softmax(x @ weight) * np.exp(x)

    x = leaf(X[:3, :4], np.float64)
    with ad.decompose() if decompose else contextlib.nullcontext():
        loss = np.sum(ad.recompute(f)(x) ** 2)
    with ad.decompose():
        expected_loss = np.sum(f(x) ** 2)
    found, expected = [], []
    for end, results in ((loss, found), (expected_loss, expected)):
        first = ad.gradients(end, [x, weight], create_graph=True)
        second = ad.gradients(np.sum(first[0] ** 2) + np.sum(first[1] ** 2), [x, weight], create_graph=True)
        third = ad.gradients(np.sum(second[0] * second[0]), [x, weight])
        results += [g.data for g in (*first, *second, *third)]
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-12)


def test_inside_transforms_and_around_them():
    weight = np.linspace(-1.0, 1.0, 16).reshape(4, 4)

    def f(x):
        return np.sum(F.softmax(x @ weight) * np.exp(x))

    x, v = np.array([0.1, 0.2, -0.3, 0.4]), np.array([1.0, -1.0, 0.5, 2.0])
    for transform in (ad.grad, ad.hessian, lambda f: lambda x: ad.hvp(f, (x,), (v,)), lambda f: ad.grad(f)):
        np.testing.assert_allclose(transform(ad.recompute(f))(x), transform(f)(x), rtol=1e-12, atol=1e-14)
    _, vjp_fn = ad.vjp(ad.recompute(f), x)
    assert same(vjp_fn(1.0), vjp_fn(1.0))

    def slope(x):
        return np.sum(ad.grad(f)(x) * v)

    np.testing.assert_allclose(ad.grad(ad.recompute(slope))(x), ad.grad(slope)(x), rtol=1e-12)


def test_the_second_run_sees_the_modes_of_the_first():
    scopes, x = [], leaf(1.0)

    @ad.recompute
    def f(x):
        y = F.softplus(x)
        scopes.append((y.node.scope, y.node.op.name))
        with ad.no_grad():
            constant = x * 2.0
        return y * constant

    with ad.scope("outer"):
        y = f(x)
    with ad.decompose(), ad.no_grad(), ad.scope("elsewhere"):
        y.backward()
    assert scopes == [("outer", "softplus")] * 2
    assert y.node.scope == "outer"
    np.testing.assert_allclose(x.grad, 2 / (1 + np.exp(-1.0)), rtol=1e-6)


def test_every_further_run_finds_the_context_variables_of_the_first():
    count, x = ContextVar("count", default=1), leaf(2.0)

    @ad.recompute
    def f(x):
        count.set(count.get() * 3)
        return x * x * float(count.get())

    y = f(x)
    for _ in range(2):
        assert ad.gradients(y, x).item() == 12.0
    assert count.get() == 3


def test_a_gradient_that_is_retained_inside_and_one_of_a_result():
    kept, x = [], leaf(2.0)

    @ad.recompute
    def f(x):
        y = x * x
        y.retain_grad()
        kept.append(y)
        return y * 3.0

    z = f(x)
    z.retain_grad()
    z.backward()
    assert (x.grad, z.grad, kept[1].grad) == (12.0, 1.0, 3.0)


# --- what is noticed ---


def test_a_parameter_that_is_written_to_before_backward():
    model, x = recomputing(Stack()), leaf(X)
    loss = np.sum(model(x))
    model.blocks[2].down.bias.data -= 0.5
    with pytest.raises(RuntimeError, match=r"'recompute'.*were changed"):
        loss.backward()
    weight = leaf(X)
    y = ad.recompute(lambda w: w.reshape(-1))(weight)  # a view
    loss = np.sum(y * y)
    weight.data += 1.0
    with pytest.raises(RuntimeError, match=r"'multiply'.*were changed"):
        ad.gradients(loss, y)
    factor = Tensor(2.0)  # a constant
    y = ad.recompute(lambda x: x * factor)(x)
    factor.data = 3.0
    with pytest.raises(RuntimeError, match=r"'recompute'.*were changed"):
        np.sum(y).backward()


def test_other_results_than_the_first_time():
    x, rng, counter = leaf(np.ones(3)), np.random.default_rng(0), itertools.count()
    y = ad.recompute(lambda x: x * rng.normal(size=3))(x)
    with pytest.raises(RuntimeError, match=r"<lambda>' gives other results than the first time.*fixed seed"):
        np.sum(y).backward()
    plain = np.ones(3, np.float32)
    y = ad.recompute(lambda x: x * plain)(x)
    plain[0] = 2.0
    with pytest.raises(RuntimeError, match="gives other results"):
        np.sum(y).backward()
    y = ad.recompute(lambda x: F.softmax(x) * rng.normal())(x)
    with pytest.raises(RuntimeError, match="gives other results"):
        ad.gradients(y[0], x, create_graph=True)
    leaves = [leaf(1.0), leaf(1.0)]
    y = ad.recompute(lambda x: x * leaves[next(counter)])(x)
    with pytest.raises(RuntimeError, match="uses other tensors"):
        np.sum(y).backward()


def noise_as_it_is(x, b, noise):
    return x + b * noise


def noise_in_an_intermediate_result(x, b, noise):
    return x + b * (x + noise)


def noise_in_a_constant(x, b, noise):
    return x + b * np.exp(Tensor(noise))


def other_rows(x, b, noise):
    return np.sum(x[np.argsort(noise)]) * 0.0 + x + b


def fused_with_noise(x, b, noise):
    return x + b * F.softmax(x + noise)


def a_part_within_with_noise(x, b, noise):
    return x + b * ad.recompute(lambda x: x * noise)(x)


@pytest.mark.parametrize(
    "f",
    [
        noise_as_it_is, noise_in_an_intermediate_result, noise_in_a_constant, other_rows, fused_with_noise,
        a_part_within_with_noise,
    ],
)  # fmt: skip
@pytest.mark.parametrize("create_graph", [False, True])
def test_other_numbers_that_do_not_show_in_the_results(f, create_graph):
    x, b = leaf(np.zeros(5)), leaf(0.0)
    fixed = ad.recompute(lambda x: f(x, b, np.random.default_rng(0).normal(size=5).astype(np.float32)))(x)
    ad.gradients(np.sum(fixed), b, create_graph=create_graph)
    rng = np.random.default_rng(0)
    y = ad.recompute(lambda x: f(x, b, rng.normal(size=5).astype(np.float32)))(x)
    assert y.tolist() == x.tolist()
    with pytest.raises(RuntimeError, match=r"computes with other numbers than the first time.*fixed seed"):
        ad.gradients(np.sum(y), b, create_graph=create_graph)


@pytest.mark.parametrize("change", [lambda n: n[::-1], lambda n: np.roll(n, 1), lambda n: np.append(n[:-1], n[-1] + 1)])
@pytest.mark.parametrize("size", [3, 2042, 5000, 102_100])
def test_a_single_number_or_the_order_of_large_arrays(size, change):
    noise = np.arange(size, dtype=np.float32)
    given, b = iter([noise, change(noise)]), leaf(0.0)
    y = ad.recompute(lambda: b * (np.zeros(size, np.float32) + b + next(given)))()
    with pytest.raises(RuntimeError, match="computes with other numbers"):
        np.sum(y).backward()


def test_values_of_any_kind_may_be_saved():
    def doubled(x):
        kinds = [np.zeros((0, 3)), np.array("2020", "M8[D]"), np.array([object()]), np.eye(3)[:, ::2], 2**80, "a"]
        return ad.save(2 * x, kinds=kinds)

    op = Op(doubled)
    op.vjp("x")(lambda g, kinds: 2 * g)
    x = leaf([[1.0]])
    ad.recompute(lambda x: op(op(x)))(x).backward()
    assert x.grad == 4.0


def test_parameters_that_are_frozen_before_backward_or_no_longer():
    x, first, second = leaf(2.0), leaf(3.0), leaf(5.0)
    with_others, alone = ad.recompute(lambda: x * first)(), ad.recompute(lambda: first * 2.0)()
    first.requires_grad = False
    with pytest.raises(RuntimeError, match=r"uses other tensors than the first time.*before backward has run"):
        with_others.backward()
    with pytest.raises(RuntimeError, match=r"depend on other tensors than the first time.*before backward has run"):
        alone.backward()
    second.requires_grad = False
    y = ad.recompute(lambda: x * second)()
    second.requires_grad = True
    with pytest.raises(RuntimeError, match=r"uses other tensors than the first time.*before backward has run"):
        y.backward()


def test_dropout_in_another_thread_is_not_replayed_and_says_so():
    def f(x):
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(lambda: F.dropout(x, p=0.5)).result()

    y = ad.recompute(f)(leaf(np.ones(100)))
    with pytest.raises(RuntimeError, match=r"F\.dropout in the thread that calls it"):
        np.sum(y).backward()


@pytest.mark.parametrize("decompose", [False, True])
def test_a_derivative_inside_is_differentiated_again(decompose):
    def f(x):
        return ad.gradients(np.sum(x**3), x, create_graph=True) * x

    x = leaf([2.0, 3.0], np.float64)
    with ad.decompose() if decompose else contextlib.nullcontext():
        y = np.sum(ad.recompute(f)(x))
    first = ad.gradients(y, x, create_graph=True)  # of 3 x^3
    second = ad.gradients(np.sum(first), x, create_graph=True)
    np.testing.assert_array_equal(first.data, 9 * x.data**2)
    np.testing.assert_array_equal(second.data, 18 * x.data)


def test_errors_inside():
    x, runs = leaf(1.0), []

    @ad.recompute
    def f(x):
        runs.append(1)
        if len(runs) == 2:
            raise KeyError("lost")
        return x * x

    y = f(x)
    with pytest.raises(KeyError, match="lost") as caught:
        y.backward()
    assert "recomputed for the backward pass" in caught.value.__notes__[0]
    with pytest.raises(ZeroDivisionError):
        ad.recompute(lambda x: 1 / 0)(x)


# --- memory ---


def test_what_is_made_inside_is_dropped_and_made_one_part_at_a_time():
    made, alive_before = [], []

    @ad.recompute
    def f(x):
        alive_before.append(sum(values() is not None for values in made))
        y = np.sin(x)
        made.append(weakref.ref(y.data))
        return np.tanh(y) * y

    gc.disable()
    try:
        y = x = leaf(X)
        for _ in range(5):
            y = f(y)
        np.sum(y).backward()
        assert x.grad is not None
        assert alive_before == [0] * 10
        assert len(made) == 10
        assert not any(values() is not None for values in made)
    finally:
        gc.enable()


def peak_of(model, x):
    loss = np.sum(model(x))
    loss.backward()  # optimiser-free warm-up: gradients exist
    tracemalloc.start()
    loss = np.sum(model(x))
    loss.backward()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def test_the_peak_of_a_step_falls():
    x = np.zeros((512, 8), np.float32)
    assert peak_of(recomputing(Stack()), x) < 0.6 * peak_of(Stack(), x)


def test_long_chains():
    f, x = ad.recompute(lambda x: x * 1.0), leaf(1.0)
    y = x
    for _ in range(5_000):
        y = f(y)
    y.backward()
    assert x.grad == 1.0
    del y
