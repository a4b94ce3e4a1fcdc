"""Recomputed functions that make something on first use: it makes no difference to the second run."""

from __future__ import annotations

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
