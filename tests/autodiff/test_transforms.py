"""The transforms of functions: forms of arguments and results, nesting, what is refused, and what is left alone."""

from __future__ import annotations

import gc
import threading
import weakref
from collections import namedtuple
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import autodiff as ad
import autodiff.functional as F
from autodiff import Tensor, modes, nn

Line = namedtuple("Line", "slope intercept")
VECTOR = np.array([1.0, 2.0, 3.0])


def leaf(data):
    return Tensor(data, requires_grad=True)


# --- values ---


def test_functions_are_written_in_plain_numpy():
    def f(x):
        total = 0.0
        for row in x:
            total = total + np.prod(row[1:]) * np.exp(-row[0])
        return total

    x = np.arange(6.0).reshape(2, 3)
    expected = [[-2.0, 2.0, 1.0], [-20 * np.exp(-3), 5 * np.exp(-3), 4 * np.exp(-3)]]
    np.testing.assert_allclose(ad.grad(f)(x), expected, rtol=1e-15)


def test_derivatives_are_arrays_of_the_arguments_shape_and_dtype():
    value, gradient = ad.value_and_grad(lambda x: np.sum(x * x))(np.ones((2, 3), np.float32))
    assert type(value) is type(gradient) is np.ndarray
    assert (value.shape, value.dtype) == ((), np.float32)
    assert (gradient.shape, gradient.dtype) == ((2, 3), np.float32)
    assert gradient.flags.writeable
    assert type(ad.grad(np.sin)(1.0)) is np.ndarray
    assert f"{ad.grad(np.sin)(0.0):.2f}" == "1.00"


@pytest.mark.parametrize("argument", [3.0, np.float64(3.0), np.array(3.0), Tensor(3.0), np.float32(3)])
def test_what_may_be_an_argument(argument):
    assert ad.grad(lambda x: x**2)(argument) == 6.0


def test_argnums():
    def f(x, y, z):
        return x * y + z

    assert ad.grad(f)(2.0, 3.0, 4) == 3.0  # what is not differentiated may be an integer
    assert ad.grad(f, 1)(2, 3.0, 4) == 2.0
    assert ad.grad(f, -1)(2.0, 3.0, 4.0) == 1.0
    assert ad.grad(f, (1, 0))(2.0, 3.0, 4.0) == (2.0, 3.0)
    assert ad.grad(f, (1,))(2.0, 3.0, 4.0) == (2.0,)
    assert ad.grad(f, [0, 1])(2.0, 3.0, z=4.0) == (3.0, 2.0)


def test_arguments_that_are_not_differentiated_arrive_as_they_are():
    seen = []

    def f(x, table, *, mode):
        seen.extend([table, mode])
        return x * len(table)

    table = {"a": "text"}
    assert ad.grad(f)(2.0, table, mode=None) == 1.0
    assert seen[0] is table
    assert seen[1] is None


def test_trees_in():
    def f(p, q):
        return p["line"].slope * q[0] + p["line"].intercept + np.sum(p["list"][1]) * q[1][0]

    p = {"line": Line(2.0, np.float32(3.0)), "list": [None, np.ones(2)]}
    gp, gq = ad.grad(f, (0, 1))(p, (5.0, [7.0]))
    assert type(gp["line"]) is Line
    assert gp["line"] == Line(5.0, 1.0)
    assert gp["line"].intercept.dtype == np.float32
    assert gp["list"][0] is None
    np.testing.assert_array_equal(gp["list"][1], [7.0, 7.0])
    assert gq == (2.0, [2.0])


def test_trees_out():
    def f(x):
        return {"square": x * x, "pair": (np.sum(x), None, [3.0])}

    out, vjp_fn = ad.vjp(f, VECTOR)
    np.testing.assert_array_equal(out["square"], [1.0, 4.0, 9.0])
    assert out["pair"] == (6.0, None, [3.0])
    (g,) = vjp_fn({"square": [1.0, 0.0, 0.0], "pair": (10.0, None, [5.0])})
    np.testing.assert_array_equal(g, [12.0, 10.0, 10.0])
    _, tangent = ad.jvp(f, (VECTOR,), (np.array([1.0, 0.0, 0.0]),))
    np.testing.assert_array_equal(tangent["square"], [2.0, 0.0, 0.0])
    assert tangent["pair"] == (1.0, None, [0.0])
    blocks = ad.jacobian(f)(VECTOR)
    np.testing.assert_array_equal(blocks["square"], np.diag([2.0, 4.0, 6.0]))
    np.testing.assert_array_equal(blocks["pair"][0], np.ones(3))
    np.testing.assert_array_equal(blocks["pair"][2][0], np.zeros(3))


def test_blocks_have_the_shape_of_the_output_then_of_the_argument():
    def f(a, p):
        return (a @ p["b"], a[0] * p["c"])

    a, p = np.arange(6.0).reshape(2, 3), {"b": np.ones((3, 4)), "c": 2.0}
    blocks = ad.jacobian(f, (0, 1))(a, p)
    assert [blocks[i][0].shape for i in (0, 1)] == [(2, 4, 2, 3), (3, 2, 3)]
    assert [(blocks[i][1]["b"].shape, blocks[i][1]["c"].shape) for i in (0, 1)] == [
        ((2, 4, 3, 4), (2, 4)),
        ((3, 3, 4), (3,)),
    ]
    np.testing.assert_array_equal(blocks[0][1]["b"], np.einsum("ik,jl->ijkl", a, np.eye(4)))
    np.testing.assert_array_equal(blocks[1][1]["c"], a[0])


def test_blocks_of_a_hessian():
    h = ad.hessian(lambda p: p["a"] * np.sum(p["b"] ** 2), 0)({"a": 3.0, "b": np.array([1.0, 2.0])})
    assert h["a"]["a"] == 0.0
    np.testing.assert_array_equal(h["a"]["b"], [2.0, 4.0])
    np.testing.assert_array_equal(h["b"]["a"], [2.0, 4.0])
    np.testing.assert_array_equal(h["b"]["b"], 6 * np.eye(2))
    both = ad.hessian(lambda x, y: x * x * y, (0, 1))(2.0, 3.0)
    assert both == ((6.0, 4.0), (4.0, 0.0))
    np.testing.assert_array_equal(ad.hessian(lambda x: 3 * x.sum())(VECTOR), np.zeros((3, 3)))
    assert ad.jacobian(lambda x: x[:0])(VECTOR).shape == (0, 3)


def test_auxiliary_outputs():
    def f(x):
        return x * x, {"twice": 2 * x, "name": "f"}

    assert ad.grad(f, has_aux=True)(3.0) == (6.0, {"twice": 6.0, "name": "f"})
    (value, aux), gradient = ad.value_and_grad(f, has_aux=True)(3.0)
    assert (value, aux["twice"], gradient) == (9.0, 6.0, 6.0)
    assert type(aux["twice"]) is np.ndarray
    out, vjp_fn, aux = ad.vjp(f, 3.0, has_aux=True)
    assert (out, vjp_fn(1.0), aux["name"]) == (9.0, (6.0,), "f")
    assert ad.jvp(f, (3.0,), (1.0,), has_aux=True)[:2] == (9.0, 6.0)


def test_constant_results_have_derivative_zero():
    assert ad.grad(lambda x: 0.0)(1.0) == 0.0
    assert ad.value_and_grad(lambda x: 2.5)(1.0) == (2.5, 0.0)
    assert ad.grad(lambda x, y: y, (0, 1))(1.0, 2.0) == (0.0, 1.0)
    np.testing.assert_array_equal(ad.vjp(lambda x: np.ones(2), VECTOR)[1](np.ones(2))[0], np.zeros(3))
    np.testing.assert_array_equal(ad.jvp(lambda x: np.ones(2), (VECTOR,), (VECTOR,))[1], np.zeros(2))
    np.testing.assert_array_equal(ad.hvp(lambda x: 1.0, (VECTOR,), (VECTOR,)), np.zeros(3))
    np.testing.assert_array_equal(ad.jacobian(lambda x: np.ones(2))(VECTOR), np.zeros((2, 3)))


def test_vjp_functions_can_be_called_again():
    out, vjp_fn = ad.vjp(lambda a, b: a @ b, np.eye(2), np.array([1.0, 2.0]))
    np.testing.assert_array_equal(out, [1.0, 2.0])
    for _ in range(2):
        da, db = vjp_fn(np.array([1.0, 10.0]))
        np.testing.assert_array_equal(da, [[1.0, 2.0], [10.0, 20.0]])
        np.testing.assert_array_equal(db, [1.0, 10.0])


def test_jvp_agrees_with_differences_where_a_constant_takes_turns_with_the_argument():
    x, v = np.array([-1.0, 0.5, 2.0]), np.array([1.0, 2.0, 3.0])
    out, tangent = ad.jvp(lambda x: np.where(x > 0, 7.0, x), (x,), (v,))
    np.testing.assert_array_equal(out, [-1.0, 7.0, 7.0])
    np.testing.assert_array_equal(tangent, [1.0, 0.0, 0.0])
    np.testing.assert_array_equal(ad.jvp(lambda x: np.where(x > 0, x, 7.0), (x,), (v,))[1], [0.0, 2.0, 3.0])


def test_jvp_of_the_identity_and_of_a_repeated_argument():
    assert ad.jvp(lambda x: x, (2.0,), (5.0,)) == (2.0, 5.0)
    assert ad.jvp(lambda x, y: (y, x, x), (2.0, 3.0), (5.0, 7.0)) == ((3.0, 2.0, 2.0), (7.0, 5.0, 5.0))


def test_hvp_of_several_arguments_is_the_first_row_of_blocks():
    def f(x, y):
        return x**2 * y**3

    # d/dx = 2 x y^3; its change along (v, w) is 2 y^3 v + 6 x y^2 w
    assert ad.hvp(f, (2.0, 3.0), (1.0, 10.0)) == 2 * 27 + 6 * 2 * 9 * 10
    assert ad.hvp(f, (2.0, 3.0), (1.0, 10.0)) == ad.jvp(ad.grad(f), (2.0, 3.0), (1.0, 10.0))[1]


# --- beside tensors that are recorded otherwise ---


def test_given_a_recorded_tensor_results_are_recorded():
    x = leaf(3.0)
    g = ad.grad(lambda x: x**3)(x)
    assert type(g) is Tensor
    assert g.item() == 27.0
    g.backward()
    assert x.grad == 18.0
    with ad.no_grad():
        assert type(ad.grad(lambda x: x**3)(x)) is np.ndarray
    y = x * x
    assert ad.gradients(ad.grad(lambda t, u: t * u * u, 0)(2.0, y), y).item() == 18.0


def test_pulling_back_from_a_recorded_tensor_is_recorded():
    x = leaf(3.0)
    _, vjp_fn = ad.vjp(lambda x: x**3, x)
    vjp_fn(1.0)[0].backward()
    assert x.grad == 18.0


def test_a_leaf_that_is_written_to_inside_is_outside_all_the_same():
    x, w = leaf(3.0), leaf(5.0)

    def f(t):
        w.data = 2.0
        return t * w

    g = ad.grad(f)(x)
    assert g.item() == 2.0
    g.backward()
    assert w.grad == 1.0


def test_switches_of_mode_do_not_hide_the_outer_transform():
    def f(x):
        with ad.scope("inside"), ad.decompose():
            return x * ad.grad(lambda y: x * y * y)(2.0)

    assert ad.grad(f)(3.0) == 24.0


def test_closed_over_leaves_are_constants_and_get_no_gradient():
    w, x = leaf(2.0), leaf(5.0)
    assert ad.grad(lambda x: w * x * x)(3.0) == 12.0
    ad.grad(lambda y: y * x)(w)
    assert w.grad is None
    assert x.grad is None


def test_recording_goes_on_below_no_grad_and_is_off_again_afterwards():
    with ad.no_grad():
        assert ad.grad(lambda x: x * x)(3.0) == 6.0
        assert ad.grad(ad.grad(lambda x: x**3))(3.0) == 18.0
        assert not (leaf(1.0) * 2.0).requires_grad

    def f(x):
        with ad.no_grad():
            constant = x * x
            slope = ad.grad(lambda y: y * y * x)(x)
        assert type(slope) is np.ndarray
        return x * constant * slope

    assert ad.grad(f)(2.0) == 4.0 * 8.0


def test_an_error_inside_leaves_no_trace():
    before = modes.current()

    def f(x):
        return ad.grad(lambda y: 1 / 0 * y)(x)

    for transform in (ad.grad, ad.jacobian, ad.hessian):
        with pytest.raises(ZeroDivisionError):
            transform(f)(1.0)
    with pytest.raises(ZeroDivisionError):
        ad.jvp(f, (1.0,), (1.0,))
    assert modes.current() is before
    assert type(ad.grad(np.sin)(0.0)) is np.ndarray


def test_other_threads_and_generators_are_outside():
    kinds = []

    def f(x):
        thread = threading.Thread(target=lambda: kinds.append(modes.current().nested))
        thread.start()
        thread.join()
        kinds.append(modes.current().nested)
        return x

    def outputs():
        yield modes.current().nested
        ad.grad(lambda x: x)(1.0)
        yield modes.current().nested

    ad.grad(f)(1.0)
    assert kinds == [False, True]
    assert list(outputs()) == [False, False]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(ad.grad(ad.grad(lambda x: x**3)), [1.0, 2.0, 3.0, 4.0])) == [6.0, 12.0, 18.0, 24.0]


def test_arguments_are_neither_changed_nor_shared():
    x = np.array([1.0, 2.0])
    out, vjp_fn = ad.vjp(lambda x: x * x, x)
    x[:] = 5.0
    np.testing.assert_array_equal(vjp_fn(np.ones(2))[0], [2.0, 4.0])
    out, _ = ad.vjp(lambda x: x, x)
    assert not np.shares_memory(out, x)
    constant = np.ones(2)
    value, _ = ad.vjp(lambda x: constant, x)
    assert not np.shares_memory(value, constant)

    def writes(x):
        x.data[0] = 1.0

    with pytest.raises(ValueError, match="read-only"):
        ad.grad(writes)(x)
    g = np.ones(2)
    _, vjp_fn = ad.vjp(lambda x, y: x + y, x, x)
    a, b = vjp_fn(g)
    assert not any(np.shares_memory(*pair) for pair in ((a, b), (a, g), (b, g)))


def test_graphs_are_freed_with_the_results():
    middles = []

    def f(x):
        y = np.exp(x)
        middles.append(weakref.ref(y))
        return np.sum(y * y)

    gc.disable()
    try:
        ad.grad(f)(VECTOR)
        ad.hvp(f, (VECTOR,), (VECTOR,))
        ad.hessian(f)(VECTOR)
        nodes = []
        _, vjp_fn = ad.vjp(lambda x: [nodes.append(weakref.ref(x)), np.exp(x)][1], VECTOR)
        assert nodes[0]() is not None
        del vjp_fn, _
        assert nodes[0]() is None
        assert not any(middle() for middle in middles)
    finally:
        gc.enable()


def test_names_and_signatures_are_those_of_the_function():
    def model(x, scale=1.0):
        """Scale."""
        return x * scale

    assert ad.grad(model).__name__ == "model"
    assert ad.grad(model)(2.0, scale=3.0) == 3.0
    assert ad.grad(F.sigmoid)(0.0) == 0.25
    assert ad.jacobian(nn.Linear(2, 2, rng=0))(np.ones(2)).shape == (2, 2)


# --- what is refused ---


@pytest.mark.parametrize("argument", [3, np.arange(3), True, Tensor([1, 2])])
def test_integer_arguments(argument):
    with pytest.raises(TypeError, match=r"argument 0 of .*has dtype (int|bool).*write a floating number"):
        ad.grad(lambda x: x)(argument)


def test_other_arguments():
    with pytest.raises(TypeError, match=r"argument 0\['a'\]\[1\] .*is a str"):
        ad.grad(lambda x: x)({"a": [1.0, "b"]})
    with pytest.raises(TypeError, match="complex"):
        ad.grad(lambda x: x)(1j)
    for wrong in (1, -2, (0, 0), (0, -1)):
        with pytest.raises(ValueError, match="argnums="):
            ad.grad(lambda x: x, wrong)(1.0)


def test_results_that_have_no_gradient():
    with pytest.raises(ValueError, match=r"shape \(3,\).*scalar"):
        ad.grad(lambda x: x * 2)(VECTOR)
    with pytest.raises(TypeError, match=r"returned a tuple.*has_aux=True"):
        ad.grad(lambda x: (x, x))(1.0)
    with pytest.raises(TypeError, match="returned None"):
        ad.grad(lambda x: None)(1.0)
    with pytest.raises(TypeError, match="must return"):
        ad.grad(lambda x: x, has_aux=True)(1.0)
    with pytest.raises(TypeError, match=r"returned a int64, which has no derivative"):
        ad.grad(lambda x: np.argmax(x))(VECTOR)
    with pytest.raises(TypeError, match=r"\[1\] returned a str"):
        ad.vjp(lambda x: (x, "text"), 1.0)


@pytest.mark.parametrize(
    "f",
    [
        len, lambda x: np.allclose(x, 2 * x), lambda x: bool(x[0] > 0), lambda x: x.size, lambda x: True,
        lambda x: int(np.argmax(x.data)), lambda x: np.bool_(True), lambda x: np.int64(1), lambda x: np.sum(x > 0),
    ],
)  # fmt: skip
def test_integers_and_booleans_have_no_derivative_pythons_neither(f):
    calls = (
        lambda: ad.grad(f)(VECTOR), lambda: ad.value_and_grad(f)(VECTOR), lambda: ad.vjp(f, VECTOR),
        lambda: ad.jvp(f, (VECTOR,), (VECTOR,)), lambda: ad.hvp(f, (VECTOR,), (VECTOR,)),
        lambda: ad.jacobian(f)(VECTOR), lambda: ad.hessian(f)(VECTOR), lambda: ad.vjp(lambda x: {"n": f(x)}, VECTOR),
        lambda: ad.grad(lambda x: (f(x), x), has_aux=True)(VECTOR),
    )  # fmt: skip
    for call in calls:
        with pytest.raises(TypeError, match=r"returned a (int|bool).*, which has no derivative.*has_aux=True"):
            call()
    assert ad.grad(lambda x: (np.sum(x), f(x)), has_aux=True)(VECTOR)[0].tolist() == [1.0] * 3


def test_cotangents_and_tangents_of_another_form():
    _, vjp_fn = ad.vjp(lambda x: {"a": x, "b": x * 2}, VECTOR)
    with pytest.raises(TypeError, match=r"the cotangent must be a dict with \['a'\], \['b'\]"):
        vjp_fn({"a": VECTOR})
    with pytest.raises(ValueError, match=r"the cotangent\['b'\] has the shape \(2,\), but must have \(3,\)"):
        vjp_fn({"a": VECTOR, "b": np.ones(2)})
    with pytest.raises(TypeError, match="real numbers"):
        vjp_fn({"a": VECTOR, "b": None})
    with pytest.raises(TypeError, match="tangents must be a tuple"):
        ad.jvp(np.sin, (1.0,), 1.0)
    with pytest.raises(TypeError, match="primals must be a tuple"):
        ad.hvp(np.sin, 1.0, (1.0,))
    with pytest.raises(TypeError, match="tangents"):
        ad.jvp(np.add, (1.0, 2.0), (1.0,))
    with pytest.raises(ValueError, match=r"tangents\[0\] has the shape"):
        ad.jvp(np.sin, (VECTOR,), (1.0,))


def test_products_with_a_hessian_cost_a_few_passes_backward(monkeypatch):
    swept = []
    from autodiff import differentiate

    sweep = differentiate.sweep
    monkeypatch.setattr(differentiate, "sweep", lambda *args, **how: swept.append(1) or sweep(*args, **how))
    x = np.linspace(0.0, 1.0, 50)
    ad.hvp(lambda x: np.sum(np.exp(x) * np.roll(x.data, 1)), (x,), (x,))
    assert len(swept) == 2
    swept.clear()
    ad.jvp(lambda x: np.exp(x), (x,), (x,))
    assert len(swept) == 2


def test_only_what_the_call_made_is_looked_at(monkeypatch):
    from autodiff import backward

    looked_at = []  # how many nodes by each sweep, before those that lead to no target are left out
    order = backward._order

    def counting(roots, targets, **how):
        looked_at.append(len(order(roots, None, **how)[0]))
        return order(roots, targets, **how)

    monkeypatch.setattr(backward, "_order", counting)

    def f(x):  # an inner minimisation that is differentiated as a whole
        y = x
        for _ in range(30):
            y = y - 0.1 * ad.grad(lambda y: (y - x) ** 2)(y * 1.5)
        return y

    ad.grad(f)(1.0)
    *inner, outer = looked_at
    assert max(inner) < 10
    assert outer > 100


def test_a_graph_that_is_closed_over_may_be_spent():
    w = leaf(2.0)
    y = w * w
    y.backward()
    assert ad.grad(lambda x: y * x)(3.0) == 4.0
    assert ad.value_and_grad(lambda x: y)(3.0) == (4.0, 0.0)
    assert ad.jvp(lambda x: (y, x), (3.0,), (1.0,)) == ((4.0, 3.0), (0.0, 1.0))
    assert ad.jacobian(lambda x: y)(3.0) == 0.0
    assert ad.vjp(lambda x: (y, x), 3.0)[1]((5.0, 7.0)) == (7.0,)
    assert ad.grad(lambda x: x * ad.grad(lambda z: y)(x))(3.0) == 0.0
