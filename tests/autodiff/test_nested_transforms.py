"""Transforms inside transforms: whose variable is whose, other threads, and what is not recorded for nothing."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext

import numpy as np
import pytest

import autodiff as ad
import autodiff.functional as F
from autodiff import Tensor
from autodiff.op import Op

VECTOR = np.array([1.0, 2.0, 3.0])


def leaf(data):
    return Tensor(data, requires_grad=True)


def test_inner_derivatives_are_with_respect_to_the_inner_variable_only():
    assert ad.grad(lambda x: x * ad.grad(lambda y: x * y * y)(2.0))(3.0) == 24.0  # d/dx 4 x^2
    assert ad.grad(lambda x: ad.grad(lambda y: x * y)(x))(3.0) == 1.0
    assert ad.grad(lambda x: x * ad.grad(lambda y: x + y)(1.0))(1.0) == 1.0
    assert ad.grad(lambda x: ad.grad(lambda y: x * x)(x))(3.0) == 0.0
    assert ad.grad(lambda x: ad.jvp(lambda y: x * y * y, (x,), (x,))[1])(2.0) == 24.0  # d/dx 2 x^3
    assert ad.jvp(lambda x: ad.jvp(lambda y: x * y, (x,), (1.0,))[1], (3.0,), (1.0,)) == (3.0, 1.0)
    assert ad.grad(lambda x: ad.vjp(lambda y: x * y * y, x)[1](x)[0])(2.0) == 24.0
    assert ad.grad(lambda x: ad.hvp(lambda y: x * y**3, (x,), (1.0,)))(2.0) == 24.0  # d/dx 6 x^2


def test_derivatives_of_any_order():
    f, found = (lambda x: np.exp(-(x**2))), []
    for _ in range(4):
        f = ad.grad(f)
        found.append(float(f(0.0)))
    assert found == [0.0, -2.0, 0.0, 12.0]


def test_three_levels_that_all_share_the_variables():
    # f = x y z with each level closing over the others: d/dx (x * d/dy (x y * d/dz (x y z^2)(y))(x)) at 2
    def f(x):
        return x * ad.grad(lambda y: x * y * ad.grad(lambda z: x * y * z * z)(y))(x)

    # d/dz = 2 x y z -> at z=y: 2 x y^2; times x y: 2 x^2 y^3; d/dy: 6 x^2 y^2; at y=x, times x: 6 x^5
    assert ad.grad(f)(2.0) == 30 * 2.0**4


def test_fused_ops_inside_are_recorded_where_it_is_needed_only():
    names = []

    def f(x):
        y = F.softmax(x)
        names.append(y.node.op.name)
        return y[0]

    ad.grad(f)(VECTOR)
    ad.vjp(f, VECTOR)[1](1.0)
    ad.jacobian(f)(VECTOR)
    assert set(names) == {"softmax"}
    names.clear()
    ad.grad(lambda x: ad.grad(f)(x)[1])(VECTOR)
    ad.jvp(f, (VECTOR,), (VECTOR,))
    ad.hvp(f, (VECTOR,), (VECTOR,))
    ad.hessian(f)(VECTOR)
    assert "softmax" not in names


def test_cotangents_of_an_outer_vjp_can_be_differentiated_under_decompose():
    with ad.decompose():
        _, vjp_fn = ad.vjp(lambda x: np.exp(x) * F.softmax(x)[0], VECTOR)
    first = ad.jacobian(lambda u: vjp_fn(u)[0])(np.ones(3))
    np.testing.assert_allclose(first, ad.jacobian(lambda x: np.exp(x) * F.softmax(x)[0])(VECTOR).T, rtol=1e-13)
    _, fused = ad.vjp(lambda x: F.softmax(x), VECTOR)
    with pytest.raises(RuntimeError, match="decompose"):
        ad.grad(lambda u: fused(u)[0][0])(np.ones(3))


def test_what_depends_on_nothing_outside_is_an_array_inside_too():
    kinds = []

    def f(x):
        kinds.append(type(ad.grad(np.sin)(0.0)))
        kinds.append(type(ad.grad(lambda y: x * y)(0.0)))
        (value, aux), slope = ad.value_and_grad(lambda y: (y * y, (y, x * y)), has_aux=True)(3.0)
        kinds.extend(map(type, (value, aux[0], aux[1], slope)))
        return x * float(slope)

    assert ad.grad(f)(2.0) == 6.0
    assert kinds == [np.ndarray, Tensor, np.ndarray, np.ndarray, Tensor, np.ndarray]


def test_the_auxiliary_output_of_an_inner_transform_is_followed_by_the_outer():
    assert ad.grad(lambda x: ad.grad(lambda y: (y, y * y), has_aux=True)(x)[1])(3.0) == 6.0


# --- other threads ---


def in_a_thread(f, *args):
    """Call a function in a thread that knows nothing of its caller's."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(f, *args).result()


@pytest.mark.parametrize(
    ("inner", "second"),
    [
        (lambda x: ad.grad(lambda y: x * y * y)(2.0), 8.0),
        (lambda x: ad.grad(lambda y: x * x * y * y / x)(2.0), 8.0),
        (lambda x: ad.jacobian(lambda y: x * y * y)(2.0), 8.0),
        (lambda x: ad.vjp(lambda y: x * y * y, 2.0)[1](1.0)[0], 8.0),
        (lambda x: ad.jvp(lambda y: x * y * y, (2.0,), (1.0,))[1], 8.0),
        (lambda x: ad.hvp(lambda y: x * y * y, (2.0,), (1.0,)), 4.0),
        (lambda x: ad.value_and_grad(lambda y: x * y * y)(2.0)[0], 8.0),
        (lambda x: ad.grad(lambda y: (y, 2 * x * y), has_aux=True)(2.0)[1], 8.0),
        (lambda x: ad.grad(lambda z: ad.grad(lambda y: x * y * y * z)(2.0))(1.0), 8.0),
    ],
)
def test_an_inner_transform_in_another_thread_is_followed_by_the_outer(inner, second):
    # the inner result is c x, so the derivative of x * (c x) is 2 c x
    assert ad.grad(lambda x: x * in_a_thread(lambda: inner(x)))(3.0) == 3.0 * second
    x = leaf(3.0)  # where the outer transform's variable is itself a result
    ad.grad(lambda x: x * in_a_thread(lambda: inner(x)))(x).backward()
    assert x.grad == second


def test_fused_ops_of_another_thread_name_the_way_out():
    def f(x, mode):
        with mode:
            return ad.grad(lambda y: x[0] * F.softmax(y * x)[0])(VECTOR[0])

    with pytest.raises(RuntimeError, match=r"ad\.decompose\(\)"):
        ad.grad(lambda x: in_a_thread(lambda: f(x, nullcontext())))(VECTOR)
    found = ad.grad(lambda x: in_a_thread(lambda: f(x, ad.decompose())))(VECTOR)
    np.testing.assert_allclose(found, ad.grad(lambda x: f(x, nullcontext()))(VECTOR), rtol=1e-14)


def test_the_variable_of_a_transform_that_has_ended_is_a_constant():
    kept = []
    ad.grad(lambda x: [kept.append(x * x), x][1])(3.0)
    assert type(ad.grad(lambda y: kept[0] * y)(2.0)) is np.ndarray
    kinds = []
    ad.grad(lambda x: [kinds.append(type(in_a_thread(lambda: ad.grad(lambda y: kept[0] * y)(2.0)))), x][1])(1.0)
    assert kinds == [np.ndarray]


# --- recorded only where it is differentiated again ---


def rms(x):
    length = np.sqrt(np.mean(x * x))
    return ad.save(length, length=length)


@pytest.mark.parametrize(
    "slope",
    [
        lambda f: ad.grad(f)(VECTOR)[0],
        lambda f: ad.value_and_grad(f)(VECTOR)[1][0],
        lambda f: ad.vjp(f, VECTOR)[1](1.0)[0][0],
        lambda f: ad.jacobian(f)(VECTOR)[0],
        lambda f: ad.grad(lambda y: (f(y), y * 2.0), has_aux=True)(VECTOR)[0][0],
    ],
)
def test_a_derivative_that_depends_on_nothing_outside_is_not_recorded(slope):
    f = Op(rms)
    f.vjp("x")(lambda g, x, length: g * x / (x.size * length))
    expected = 1 / (3 * np.sqrt(14 / 3))
    assert ad.grad(lambda x: x * slope(f))(2.0) == pytest.approx(expected, rel=1e-15)
    assert type(ad.grad(lambda x: x * slope(lambda y: f(y) + 0.0 * x.data))(2.0)) is np.ndarray
    with pytest.raises(RuntimeError, match="once-differentiable"):
        ad.grad(lambda x: x * slope(lambda y: f(y * x)))(2.0)


def test_an_auxiliary_output_depends_on_the_outside_without_the_derivative():
    f = Op(rms)
    f.vjp("x")(lambda g, x, length: g * x / (x.size * length))
    assert ad.grad(lambda x: ad.grad(lambda y: (f(y), x * x), has_aux=True)(VECTOR)[1])(2.0) == 4.0


@pytest.mark.parametrize(
    "f",
    [
        lambda x: in_a_thread(ad.grad(lambda z: z * z * x), x),
        lambda x: in_a_thread(ad.grad(lambda z: z * z * x), 0.7),
        lambda x: sum(in_a_thread(ad.value_and_grad(lambda z: np.tanh(z * x) * z), 0.7)) * x,
        lambda x: in_a_thread(ad.grad(lambda z: F.softplus(z * x)), 0.7),
        lambda x: in_a_thread(lambda: ad.hvp(lambda z: z**3 * x, (0.7,), (1.0,))),
        lambda x: np.sum(in_a_thread(ad.jacobian(lambda z: z**3 * x), np.array([0.7, 0.2]))),
        lambda x: in_a_thread(lambda: in_a_thread(ad.grad(lambda z: z * z * x), 0.7) * x),
    ],
)
@pytest.mark.parametrize("outer", [ad.grad, lambda f: ad.grad(ad.grad(f)), ad.hessian])
def test_a_derivative_in_another_thread_is_recomputed_as_it_was(outer, f):
    expected = outer(f)(np.float64(0.7))
    for recomputed in (ad.recompute(f), ad.recompute(lambda x: ad.recompute(f)(x))):
        np.testing.assert_allclose(outer(recomputed)(np.float64(0.7)), expected, rtol=1e-12)
