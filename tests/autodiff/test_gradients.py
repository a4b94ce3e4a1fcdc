"""`gradients`: several outputs and inputs, results as inputs, and derivatives of any order."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

import autodiff as ad
import autodiff.functional as F
from autodiff import Tensor
from autodiff.op import Op


def leaf(data, dtype=np.float64):
    return Tensor(np.asarray(data, dtype), requires_grad=True)


def test_gradients_write_nothing_and_keep_the_graph():
    x = leaf(3.0)
    y = x * x
    assert ad.gradients(y, x).item() == 6.0
    assert ad.gradients(y, x).item() == 6.0
    assert x.grad is None
    y.backward()
    assert x.grad == 6.0


def test_gradients_may_release_the_graph():
    x, w = leaf([3.0, 4.0]), leaf([1.0, 2.0])
    y = x * x
    z = (y * w).sum()
    np.testing.assert_array_equal(ad.gradients(z, w, retain_graph=False).data, [9.0, 16.0])
    np.testing.assert_array_equal(ad.gradients(y.sum(), x).data, [6.0, 8.0])  # not on the way to w, so it is kept
    with pytest.raises(RuntimeError, match="backward a second time through"):
        ad.gradients(z, w)


def test_a_result_that_is_the_target_keeps_what_leads_on_from_it():
    x = leaf([3.0, 4.0])
    y = x * x
    z = (y * y).sum()
    g = ad.gradients(z, y, retain_graph=False)
    np.testing.assert_array_equal(g.data, [18.0, 32.0])
    y.backward(g.data)
    np.testing.assert_array_equal(x.grad, [108.0, 256.0])


def test_a_recorded_backward_pass_keeps_the_graph():
    x = leaf(3.0)
    y = x * x * x
    first = ad.gradients(y, x, create_graph=True, retain_graph=False)
    assert ad.gradients(first, x).item() == 18.0
    assert ad.gradients(y, x).item() == 27.0


def test_gradients_with_respect_to_a_result():
    x = leaf(3.0)
    y = x * x
    z = y * x
    dx, dy = ad.gradients(z, [x, y])
    assert (dx.item(), dy.item()) == (27.0, 3.0)


def test_gradients_of_several_outputs_add_up():
    x = leaf([1.0, 2.0])
    g = ad.gradients([x * 2.0, x * x], x, [np.ones(2), np.array([1.0, 10.0])])
    np.testing.assert_array_equal(g.data, [4.0, 42.0])


def test_gradients_refuse_what_they_cannot_use():
    x, y = leaf(1.0), leaf(2.0)
    with pytest.raises(RuntimeError, match="input 1 requires no gradient"):
        ad.gradients(x * y, [x, Tensor(1.0)])
    with pytest.raises(ValueError, match="1 outputs need as many cotangents, not 2"):
        ad.gradients([x * y], x, [1.0, 2.0])


def test_results_of_gradients_are_independent():
    x, y = leaf([1.0]), leaf([2.0])
    dx, dy = ad.gradients(x + y, [x, y])
    dx.data[0] = 5.0
    assert dy.item() == 1.0
    dx, again = ad.gradients(x * y, [x, x])
    dx.data[0] = 5.0
    assert again.item() == 2.0
    u, v = x * 2.0, y * 3.0
    du, dv = ad.gradients(u + v, [u, v])
    du.data[0] = 5.0
    assert dv.item() == 1.0
    cotangent = np.array([3.0])
    ad.gradients(x, x, cotangent).data[0] = 5.0
    assert cotangent == 3.0


def nth_derivative(f, x, n):
    y = f(x)
    for _ in range(n):
        y = ad.gradients(y, x, create_graph=True)
    return y.item()


def test_derivatives_of_a_gaussian_at_zero():
    values = [nth_derivative(lambda x: np.exp(-(x**2)), leaf(0.0), n) for n in range(1, 5)]
    assert values == [0.0, -2.0, 0.0, 12.0]


def test_gradient_of_a_gradient():
    assert nth_derivative(lambda x: x**2, leaf(5.0), 2) == 2.0


def test_higher_order_through_a_fused_op_names_decompose():
    x = leaf([1.0, 2.0, 4.0])
    with pytest.raises(RuntimeError, match=r"'softmax' is a fused op.*ad\.decompose\(\)"):
        ad.gradients(F.softmax(x)[0], x, create_graph=True)
    with ad.decompose():
        first = ad.gradients(F.softmax(x)[0], x, create_graph=True)
    p = np.exp(x.data) / np.exp(x.data).sum()
    second = ad.gradients(first[0], x)
    expected = p[0] * ((1 - 2 * p[0]) * ((np.arange(3) == 0) - p))
    np.testing.assert_allclose(second.data, expected, rtol=1e-12, atol=1e-15)


def test_a_value_derived_in_the_forward_makes_an_op_once_differentiable():
    def four_squares(x):
        return ad.save(4 * x * x, twice=2 * x)

    op = Op(four_squares)
    op.vjp("x")(lambda g, twice: g * 4 * twice)
    x = leaf(3.0)
    assert ad.gradients(op(x), x).item() == 24.0
    with pytest.raises(RuntimeError, match=r"'four_squares' is once-differentiable.*'twice'"):
        ad.gradients(op(x), x, create_graph=True)


def test_a_rule_in_plain_numpy_is_differentiable_again():
    def four_squares(x):
        return 4 * x * x

    op = Op(four_squares)
    op.vjp("x")(lambda g, x: g * 8 * x)
    assert nth_derivative(op, leaf(3.0), 1) == 24.0
    assert nth_derivative(op, leaf(3.0), 2) == 8.0
    assert nth_derivative(op, leaf(3.0), 3) == 0.0


def test_a_recorded_cotangent_is_differentiated_too():
    x, v = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    g = ad.gradients(x * x, x, v, create_graph=True)
    np.testing.assert_array_equal(ad.gradients(g.sum(), v).data, [2.0, 4.0])


def test_create_graph_records_below_no_grad():
    x = leaf(3.0)
    y = x**3
    with ad.no_grad():
        first = ad.gradients(y, x, create_graph=True)
    assert ad.gradients(first, x).item() == 18.0


@dataclass
class Factor:
    value: object


@pytest.mark.parametrize(
    "wrap",
    [
        lambda v: (v,), lambda v: {"a": v}, lambda v: [[v]], lambda v: v.astype(complex), lambda v: {v.item(): 1},
        Factor, lambda v: lambda g: g * v, lambda v: v.tobytes(), lambda v: np.array([Factor(v)]), memoryview,
        lambda v: v.view("V8"),
    ],
)  # fmt: skip
def test_derived_values_are_found_whatever_they_are_wrapped_in(wrap):
    def four_squares(x):
        return ad.save(4 * x * x, derived=wrap(8 * x))

    op = Op(four_squares)
    op.vjp("x")(lambda g, derived: g)
    x = leaf([3.0])
    with pytest.raises(RuntimeError, match="once-differentiable"):
        ad.gradients(op(x), x, create_graph=True)


def test_saved_shapes_masks_and_names_leave_an_op_differentiable():
    def squares_where_positive(x):
        known = {"shape": x.shape, "index": (slice(1), ..., None), "dtype": x.dtype, "text": "ij", "n": np.int64(2)}
        return ad.save(np.where(x > 0, x * x, 0.0), positive=x > 0, known=known)

    op = Op(squares_where_positive)
    op.vjp("x")(lambda g, x, positive, known: g * known["n"] * x * positive)
    x = leaf([3.0, -1.0])
    first = ad.gradients(op(x).sum(), x, create_graph=True)
    np.testing.assert_array_equal(ad.gradients(first.sum(), x).data, [2.0, 0.0])


def test_constant_derivatives_are_zero_behind_a_view_too():
    x = leaf([1.0, 2.0])
    first = ad.gradients(np.abs(x.reshape(1, 2)).sum(), x, create_graph=True)
    np.testing.assert_array_equal(ad.gradients(first.sum(), x).data, [0.0, 0.0])


def test_recorded_gradients_are_independent():
    a, b, seed = leaf([1.0, 2.0]), leaf([1.0, 2.0]), leaf([1.0, 1.0])
    first, second = ad.gradients(np.abs(a + b), [a, b], seed, create_graph=True)
    assert first is not second
    assert not np.shares_memory(first.data, second.data)
    assert not np.shares_memory(first.data, seed.data)


def test_a_cotangent_that_requires_a_gradient_needs_create_graph():
    x, v = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    y = x * x
    with pytest.raises(TypeError, match="would lose the gradient"):
        y.backward(v)
    with pytest.raises(TypeError, match="would lose the gradient"):
        ad.gradients(y, x, v)
    y.backward(v.detach())
    np.testing.assert_array_equal(x.grad, [6.0, 16.0])
