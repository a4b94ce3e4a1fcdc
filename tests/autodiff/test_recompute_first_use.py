"""Recomputed functions that make something on first use: it makes no difference to the second run."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import autodiff as ad
from autodiff import Tensor, nn


def leaf(data):
    return Tensor(np.asarray(data, np.float64), requires_grad=True)


def with_a_constant(w, made):
    return ad.recompute(lambda c: w * c), Tensor([1.0, 2.0])


def with_a_module(w, made):
    return ad.recompute(nn.Linear(2, 2, rng=0)), Tensor([[1.0, 2.0]])


def with_shared_memory(w, made):
    return ad.recompute(lambda c: w * c * c), ad.as_tensor(np.array([1.0, 2.0]))


def with_a_closure(w, made):
    constant = Tensor(3.0)

    def f(x):
        y = x * constant * constant
        assert constant.data.shape == ()  # from here on, an array
        return y

    return ad.recompute(f), w


def with_unrecorded_results(w, made):
    with ad.no_grad():
        result, view, cut = w * 2.0, w[:], (w * 3.0).detach()
    return ad.recompute(lambda x: x * result * view * cut), w


def with_a_constant_made_at_first(w, made):
    return ad.recompute(lambda x: x * x * made.setdefault("c", Tensor([1.0, 2.0]))), w


def with_a_parameter_made_at_first(w, made):
    return ad.recompute(lambda x: x * x * made.setdefault("w", leaf([1.0, 2.0]))), w


def with_parts_within(w, made):
    inner = ad.recompute(lambda x: with_a_parameter_made_at_first(w, made)[0](x) * made.setdefault("c", Tensor(2.0)))
    return ad.recompute(lambda x: inner(x) * 2.0), w


def with_a_result_made_at_first(w, made):
    return ad.recompute(lambda x: np.exp(x) * (made["y"] if "y" in made else made.setdefault("y", np.sin(w)))), w


@pytest.mark.parametrize(
    "case",
    [
        with_a_constant, with_a_module, with_shared_memory, with_a_closure, with_unrecorded_results,
        with_a_constant_made_at_first, with_a_parameter_made_at_first, with_parts_within, with_a_result_made_at_first,
    ],
)  # fmt: skip
@pytest.mark.parametrize("calls", [1, 2])
def test_what_is_made_on_first_use_is_the_same_in_the_second_run(case, calls):
    found = []
    for wrap in (lambda f: f, lambda f: f.__wrapped__):
        w, made = leaf([3.0, 4.0]), {}
        f, x = case(w, made)
        np.sum(sum(wrap(f)(x) for _ in range(calls))).backward()
        leaves = [w, made.get("w"), *(f.__wrapped__.parameters() if case is with_a_module else ())]
        found.append([t.grad for t in leaves if t is not None and t.grad is not None])
    assert found[0]
    for a, b in zip(*found, strict=True):
        np.testing.assert_array_equal(a, b)


# --- the same tensors, at other places ---


def biases(x, a, b):
    return (x + a) * 3.0 + b


def layers(x, a, b):
    return np.tanh(np.tanh(x * a) * b)


def outputs(x, a, b):
    return np.stack([x * a, x * b]) * [[1.0], [2.0]]


def between(x, a, b):
    return np.exp(a + 0.0) * 2.0 * x + np.exp(b * 1.0)


def within(x, a, b):
    return ad.recompute(lambda x: (x + a) * 3.0)(x) + b


@pytest.mark.parametrize("f", [biases, layers, outputs, between, within])
@pytest.mark.parametrize("create_graph", [False, True])
def test_tensors_of_equal_values_that_are_exchanged_are_noticed(f, create_graph):
    x, a, b = (Tensor([1.0, 1.0], requires_grad=True) for _ in range(3))
    runs = itertools.count()
    y = ad.recompute(lambda x: f(x, a, b) if next(runs) % 2 == 0 else f(x, b, a))(x)
    with pytest.raises(RuntimeError, match=r"than the first time.*before backward has run"):
        ad.gradients(y.sum(), a, create_graph=create_graph)
    same = ad.recompute(lambda x: f(x, a, b))(x).sum()
    np.testing.assert_array_equal(ad.gradients(same, a).data, ad.gradients(f(x, a, b).sum(), a).data)


def test_results_of_equal_values_that_are_exchanged_are_noticed():
    x, a, b = (Tensor([1.0, 1.0], requires_grad=True) for _ in range(3))
    runs = itertools.count()
    first, second = ad.recompute(lambda x: (x * a, x * b)[:: 1 if next(runs) % 2 == 0 else -1])(x)
    with pytest.raises(RuntimeError, match=r"uses its tensors in other places than the first time"):
        (first * 2.0 + second).sum().backward()


def test_leaves_that_each_run_makes_anew_are_fine():
    x = Tensor([1.0, 2.0], requires_grad=True)
    ad.recompute(lambda x: x * Tensor([3.0, 4.0], requires_grad=True))(x).sum().backward()
    np.testing.assert_array_equal(x.grad, [3.0, 4.0])
