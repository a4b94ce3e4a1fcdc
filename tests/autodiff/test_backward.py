"""The sweep: order, accumulation, release, broadcasting, checks of what rules return, changed data."""

from __future__ import annotations

import gc
import tracemalloc
import weakref

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import mutually_broadcastable_shapes

import autodiff as ad
import autodiff.functional as F
from autodiff import Tensor
from autodiff.op import Op


def leaf(data, dtype=np.float64):
    return Tensor(np.asarray(data, dtype), requires_grad=True)


# --- the shape of the graph, and the order of the sweep ---


@pytest.mark.parametrize(
    ("f", "at", "expected"),
    [
        (lambda x: x + x, 3.0, 2.0),
        (lambda x: x * x, 3.0, 6.0),
        (lambda x: x * x * x, 2.0, 12.0),
        (lambda x: x - x, 2.0, 0.0),
        (lambda x: x / x, 2.0, 0.0),
        (lambda x: np.maximum(x, x), 2.0, 1.0),
    ],
)
def test_an_argument_used_twice_gets_both_contributions(f, at, expected):
    x = leaf(at)
    f(x).backward()
    assert x.grad == expected


def test_a_diamond_adds_all_its_branches():
    x = leaf(2.0)
    y = 3.0 * x
    (2.0 * y + 5.0 * y).backward()
    assert x.grad == 21.0


def test_doubling_forty_times_visits_each_node_once():
    x = y = leaf(1.0)
    for _ in range(40):
        y = y + y
    y.backward()
    assert x.grad == 2.0**40


def test_long_and_short_paths_meet_in_order():
    x = leaf(1.5)
    short = x * 2.0
    long = x
    for _ in range(10):
        long = long * 1.0
    (short * long * x).backward()  # 2 x^3
    assert x.grad == pytest.approx(6 * 1.5**2, rel=1e-15)


def test_a_chain_of_a_hundred_thousand_ops():
    x = y = leaf(0.0)
    for _ in range(100_000):
        y = y + 1.0
    assert len(repr(y)) < 100
    y.backward(retain_graph=True)
    assert x.grad == 1.0
    died = weakref.ref(y)
    del y
    assert died() is None


def test_a_fresh_chain_dies_before_any_backward():
    y = leaf(0.0)
    for _ in range(100_000):
        y = y * 1.0
    died = weakref.ref(y)
    del y
    assert died() is None


# --- calling backward ---


def test_gradients_accumulate_over_backward_passes():
    a, b, d = leaf(3.0), leaf(2.0), leaf(1.0)
    e = (a + b) * d
    e.backward(retain_graph=True)
    assert (a.grad, b.grad, d.grad) == (1.0, 1.0, 5.0)
    e.backward()
    assert (a.grad, b.grad, d.grad) == (2.0, 2.0, 10.0)


def test_a_second_backward_names_retain_graph():
    x = leaf(2.0)
    y = x * x
    y.backward()
    with pytest.raises(RuntimeError, match=r"second time through 'multiply'.*retain_graph=True.*detach"):
        y.backward()
    assert x.grad == 4.0


def test_a_second_backward_is_refused_also_where_nothing_was_saved():
    x = leaf(2.0)
    y = x + 1.0
    y.backward()
    with pytest.raises(RuntimeError, match="second time"):
        y.backward()
    assert x.grad == 1.0


def test_backward_needs_a_cotangent_for_more_than_one_element():
    x = leaf([1.0, 2.0, 3.0])
    y = x**2
    with pytest.raises(ValueError, match=r"shape \(3,\) needs a cotangent"):
        y.backward()
    y.backward(np.ones(3))
    np.testing.assert_array_equal(x.grad, [2.0, 4.0, 6.0])


@pytest.mark.parametrize("shape", [(), (1,), (1, 1)])
def test_one_element_of_any_rank_needs_no_cotangent(shape):
    x = leaf(np.full(shape, 3.0))
    (x * x).backward()
    assert x.grad.shape == shape
    assert x.grad.item() == 6.0


@pytest.mark.parametrize("cotangent", [np.ones(2), np.ones((3, 1)), 1.0])
def test_a_cotangent_of_another_shape_is_refused(cotangent):
    with pytest.raises(ValueError, match="cotangent has shape"):
        (leaf([1.0, 2.0, 3.0]) * 2.0).backward(cotangent)


def test_a_complex_cotangent_is_refused():
    with pytest.raises(TypeError, match="real numbers"):
        (leaf([1.0]) * 2.0).backward(np.array([1j]))


def test_backward_where_nothing_requires_grad():
    with pytest.raises(RuntimeError, match="requires_grad=True"):
        (Tensor(2.0) * 3.0).backward()
    with ad.no_grad():
        y = leaf(2.0) * 3.0
    with pytest.raises(RuntimeError, match=r"no_grad\(\)"):
        y.backward()


def test_the_seed_is_not_written_to_and_not_kept():
    x, seed = leaf([1.0, 2.0]), np.array([1.0, 1.0])
    y = x + x
    (y + y).backward(seed)
    np.testing.assert_array_equal(seed, [1.0, 1.0])
    seed[:] = 7.0
    np.testing.assert_array_equal(x.grad, [4.0, 4.0])


def test_a_leaf_is_its_own_output():
    x = leaf([1.0, 2.0])
    x.backward([3.0, 4.0])
    np.testing.assert_array_equal(x.grad, [3.0, 4.0])


def test_what_the_output_does_not_depend_on():
    x, y = leaf(1.0), leaf(2.0)
    (y * y).backward()
    assert x.grad is None
    assert ad.gradients(y * y, x).item() == 0.0


# --- gradients never share memory ---


def test_gradients_of_two_arguments_are_independent():
    x, y = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    (x + y).sum().backward()
    x.grad *= 0
    np.testing.assert_array_equal(y.grad, [1.0, 1.0])


def test_gradients_are_owned_writable_arrays():
    x, s = leaf(np.ones((3, 2))), leaf(2.0)
    (np.broadcast_to(x, (4, 3, 2)) * s).T.sum().backward()
    for t in (x, s):
        assert type(t.grad) is np.ndarray
        assert t.grad.flags.owndata
        assert t.grad.flags.writeable
        assert t.grad.shape == t.shape
        assert not np.shares_memory(t.grad, t.data)
    s.grad += 1.0
    assert s.grad == 25.0


def test_gradients_are_independent_also_where_rules_hand_on_what_they_were_given():
    def same(x):
        return x.copy()

    def turned(x):
        return x[::-1].copy()

    def twice(x, y):
        return 2 * x + 2 * y

    def several(x):
        return x.copy(), x.copy()

    same, turned, twice, several = map(Op, (same, turned, twice, several))
    same.vjp("x")(lambda g: g)
    turned.vjp("x")(lambda g: g[::-1])
    twice.vjp("x", "y")(lambda g: (2 * g,) * 2)  # one array for both
    several.vjp("x")(lambda g: g[0])  # the cotangent of one output
    leaves = [leaf([1.0, 2.0]) for _ in range(7)]
    a, b, c, d, e, f, h = leaves
    total = 1.0 * (same(a) + same(b) + turned(c) + twice(d, e) + several(f)[0] + several(h)[0])
    total.retain_grad()
    seed = np.array([1.0, 3.0])
    total.backward(seed)
    gradients = [t.grad for t in (*leaves, total)]
    for i, one in enumerate(gradients):
        assert not any(np.shares_memory(one, other) for other in (seed, *gradients[:i]))
    expected = [[1, 3], [1, 3], [3, 1], [2, 6], [2, 6], [1, 3], [1, 3], [1, 3]]
    np.testing.assert_array_equal(gradients, expected)


def test_accumulating_does_not_change_a_sibling():
    x, y = leaf([1.0, 1.0]), leaf([1.0, 1.0])
    z = x + y
    z.backward([1.0, 2.0], retain_graph=True)
    z.backward([1.0, 2.0])
    np.testing.assert_array_equal(x.grad, [2.0, 4.0])
    np.testing.assert_array_equal(y.grad, [2.0, 4.0])


# --- broadcasting is summed back in one place ---


def test_broadcasting_a_single_element():
    a, b = leaf([1.0]), leaf(2.0 * np.ones((5, 4)))
    (a * b).sum().backward()
    np.testing.assert_array_equal(a.grad, [40.0])


def test_broadcasting_a_row_against_a_column():
    a, b = leaf(np.ones((4, 1))), leaf([[1.0, 2.0, 3.0, 4.0]])
    (a * b).sum().backward()
    np.testing.assert_array_equal(a.grad, np.full((4, 1), 10.0))
    np.testing.assert_array_equal(b.grad, np.full((1, 4), 4.0))


def test_a_scalar_gradient_is_an_array():
    s = leaf(2.0)
    (s * np.ones(3)).sum().backward()
    assert type(s.grad) is np.ndarray
    assert s.grad.ndim == 0
    assert s.grad == 3.0


def test_broadcasting_against_size_zero():
    a, b = leaf(np.ones((4, 0))), leaf(np.ones((4, 1)))
    (a + b).sum().backward()
    np.testing.assert_array_equal(b.grad, np.zeros((4, 1)))
    assert a.grad.shape == (4, 0)


def test_augmented_assignment_that_grows():
    x = leaf(np.ones((3, 3)))
    y = x
    y += np.ones((3, 3, 3))
    (y**2).backward(np.ones((3, 3, 3)))
    np.testing.assert_array_equal(x.grad, np.full((3, 3), 12.0))


@given(mutually_broadcastable_shapes(num_shapes=2, max_dims=4, max_side=3, min_side=0), st.integers(0, 99))
def test_broadcasting_equals_the_transposed_broadcast(shapes, seed):
    """d sum(c * (a * b)) / da is the sum of c * b over every index that a was repeated along."""
    rng = np.random.default_rng(seed)
    a, b = (leaf(rng.normal(size=shape)) for shape in shapes.input_shapes)
    c = rng.normal(size=shapes.result_shape)
    (a * b).backward(c)
    for t, other in ((a, b), (b, a)):
        full = c * np.broadcast_to(other.data, c.shape)
        expected = np.zeros(t.shape)
        where = np.broadcast_to(np.arange(t.size).reshape(t.shape), c.shape)
        np.add.at(expected.reshape(-1), where.reshape(-1), full.reshape(-1))
        np.testing.assert_allclose(t.grad, expected, rtol=1e-12, atol=1e-12)


# --- what a rule returns is checked at that op ---


def wrong(answer, *, names=("x",), elementwise=False):
    def faulty(x, y):
        return x + np.sum(y)

    op = Op(faulty, elementwise=elementwise)
    op.vjp(*names)(lambda g: answer)
    return op.nondiff(*({"x", "y"} - set(names)))


@pytest.mark.parametrize(
    ("answer", "error", "match"),
    [
        (np.ones(3), ValueError, r"'faulty' for argument 'x' returned the shape \(3,\).* the shape \(2,\)"),
        (None, TypeError, r"'faulty' for argument 'x' returned None.*nondiff"),
        (np.ones(2) * 1j, TypeError, r"'faulty' for argument 'x' returned the dtype complex128"),
    ],
)
def test_a_wrong_answer_names_op_argument_and_both_shapes(answer, error, match):
    x = leaf([1.0, 2.0])
    with pytest.raises(error, match=match):
        wrong(answer)(x, 1.0).backward(np.ones(2))
    assert x.grad is None


@pytest.mark.parametrize("answer", [[np.ones(2), np.ones(2)], (np.ones(2),), np.ones((2, 2)), None])
def test_a_rule_for_two_arguments_returns_a_tuple_of_two(answer):
    x, y = leaf([1.0, 2.0]), leaf([1.0, 2.0])
    with pytest.raises(TypeError, match="tuple of 2 cotangents"):
        wrong(answer, names=("x", "y"))(x, y).backward(np.ones(2))


def test_an_exception_in_a_rule_says_where():
    def boom(x):
        return x * 1.0

    op = Op(boom)
    op.vjp("x")(lambda g: 1 / 0)
    with pytest.raises(ZeroDivisionError) as caught, ad.scope("model"):
        op(leaf(1.0)).backward()
    assert "'boom' for 'x'" in caught.value.__notes__[0]
    assert "in model" in caught.value.__notes__[0]


def test_an_elementwise_rule_must_have_an_outputs_shape():
    x = leaf(np.ones((3, 1)))
    with pytest.raises(ValueError, match=r"shape \(1, 3\)"):
        wrong(np.ones((1, 3)), elementwise=True)(x, 1.0).backward(np.ones((3, 1)))


def test_a_float64_answer_is_cast_to_the_arguments_dtype():
    x = leaf([1.0, 2.0], np.float32)
    wrong(np.array([1.0, 2.0]))(x, 1.0).backward(np.ones(2))
    assert x.grad.dtype == np.float32


def test_a_failed_pass_leaves_the_gradients_alone():
    x, y = leaf([1.0, 2.0]), leaf([1.0, 2.0])
    z = wrong(np.ones(3))(x * 1.0, 1.0) + y
    with pytest.raises(ValueError, match="returned the shape"):
        z.backward(np.ones(2))
    assert x.grad is None
    assert y.grad is None


# --- only what is needed runs, and is kept ---


def test_rules_of_arguments_without_gradient_never_run():
    ran = []

    def product(x, y):
        return x * y

    op = Op(product, elementwise=True)
    op.vjp("x")(lambda g, y: ran.append("x") or g * y)
    op.vjp("y")(lambda g, x: ran.append("y") or g * x)
    x, y = leaf(2.0), leaf(3.0)
    op(x, Tensor(3.0)).backward()
    op(x, 3.0).backward()
    assert ran == ["x", "x"]
    ran.clear()
    ad.gradients(op(x, y), y)
    assert ran == ["y"]


def test_only_what_a_running_rule_asks_for_is_saved():
    x, w = leaf(np.ones((2, 3))), Tensor(np.ones((3, 4)))
    node = (x @ w).node
    assert node.inputs[0] is None  # the constant's gradient would need it
    assert node.inputs[1] is w.data
    assert (x + w.data.sum()).node.inputs is None


def test_saved_arrays_are_released_as_the_sweep_goes():
    n, side = 30, 100
    w = [leaf(np.eye(side)) for _ in range(n)]
    y = leaf(np.ones((side, side)))
    for each in w:
        y = y @ each
    total = y.sum()
    del y, each
    tracemalloc.start()
    total.backward()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # n gradients must exist at the end; the cotangents must not all exist beside them
    assert peak < (n + 6) * side * side * 8


def test_a_graph_dies_by_reference_count():
    gc.collect()
    gc.disable()
    try:
        x = leaf(np.ones(5))
        middle = np.tanh(x)
        y = F.softmax(middle * 2.0).sum() + (middle[1:] * middle[:-1]).sum()
        first, second = F.split(middle, [2])
        y = y + first.sum() * second.sum()
        watched = [weakref.ref(t) for t in (middle, y, first)]
        data = weakref.ref(middle.data)
        del middle, first, second
        assert data() is not None
        y.backward()
        del y
        assert [w() for w in (*watched, data)] == [None] * 4
    finally:
        gc.enable()


def test_training_steps_leave_no_garbage_behind():
    x = leaf(np.ones(5))
    gc.collect()
    gc.disable()
    try:
        for _ in range(3):
            F.layer_norm(x).sum().backward()
        assert gc.collect() == 0
    finally:
        gc.enable()


# --- several outputs ---


def test_outputs_that_no_one_uses_get_zeros():
    x = leaf(np.arange(6.0))
    _, middle, _ = F.split(x, 3)
    (middle * middle).sum().backward()
    np.testing.assert_array_equal(x.grad, [0, 0, 4, 6, 0, 0])


def test_one_output_used_twice():
    x = leaf(np.arange(4.0))
    first, second = F.split(x, 2)
    (first * second + first).sum().backward()
    np.testing.assert_array_equal(x.grad, [3.0, 4.0, 0.0, 1.0])


def test_watch_sees_every_contribution():
    from autodiff.backward import sweep

    x = leaf(3.0)
    y = x * x
    seen = []
    sweep([(y.node, np.float64(1.0))], watch=lambda node, argument, part, total: seen.append((argument, part, total)))
    assert [name for name, _, _ in seen] == list(y.node.op.signature.arguments)
    assert [numbers for _, *numbers in seen] == [[3.0, 3.0], [3.0, 6.0]]
