"""Joining and splitting: every array gets back what stands where it stood."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import autodiff as ad
import autodiff.functional as F
from autodiff import Tensor


def leaf(data):
    return Tensor(np.asarray(data, float), requires_grad=True)


def whole(rng, shape):
    return rng.integers(-9, 10, size=shape).astype(float)


def check_adjoint(f, xs):
    """<v, f(u)> = sum over the arrays of <g, u>, exactly; and f again from differentiating g."""
    rng = np.random.default_rng(0)
    us = [whole(rng, x.shape) for x in xs]
    y = f(xs)
    v = leaf(whole(rng, y.shape))
    gs = ad.gradients(y, xs, v, create_graph=True)
    assert np.sum(v.data * f(us)) == sum(np.sum(g.data * u) for g, u in zip(gs, us, strict=True))
    np.testing.assert_array_equal(ad.gradients(gs, v, us).data, f(us))


@given(st.lists(st.integers(0, 3), min_size=1, max_size=4), st.integers(-3, 2))
def test_concatenate_along_any_axis(lengths, axis):
    shape = [2, 3, 2]
    shapes = []
    for length in lengths:
        shape[axis] = length
        shapes.append(tuple(shape))
    xs = [leaf(whole(np.random.default_rng(i), shape)) for i, shape in enumerate(shapes)]
    check_adjoint(lambda arrays: np.concatenate(arrays, axis), xs)
    check_adjoint(lambda arrays: F.concatenate(*arrays, axis=axis), xs)


def test_concatenate_flat():
    check_adjoint(lambda xs: np.concatenate(xs, axis=None), [leaf(np.ones((2, 3))), leaf(2.0), leaf(np.ones((0, 2)))])


def test_the_last_axis_is_cut_where_the_widths_say():
    x, y = leaf(np.zeros((2, 1))), leaf(np.zeros((2, 3)))
    c = np.arange(8.0).reshape(2, 4)
    F.concatenate(x, y, axis=-1).backward(c)
    np.testing.assert_array_equal(x.grad, c[:, 0:1])
    np.testing.assert_array_equal(y.grad, c[:, 1:4])


def test_the_same_array_twice():
    x = leaf([1.0, 2.0])
    F.concatenate([x, x]).backward([1.0, 2.0, 30.0, 40.0])
    np.testing.assert_array_equal(x.grad, [31.0, 42.0])


def test_nested_lists_of_tensors_are_refused():
    x = leaf([1.0, 2.0])
    for call in (lambda: F.concatenate([[x[0]]]), lambda: np.concatenate([[x[0]]]), lambda: F.stack([[x[0]], [x[1]]])):
        with pytest.raises(TypeError, match=r"would lose the gradient.*F\.stack"):
            call()


def test_numpy_takes_one_array_for_the_list_of_its_rows():
    x = leaf([[1.0, 2.0], [3.0, 4.0]])
    y = np.concatenate(x)
    assert y.tolist() == [1.0, 2.0, 3.0, 4.0]
    y.backward([1.0, 2.0, 3.0, 4.0])
    np.testing.assert_array_equal(x.grad, [[1.0, 2.0], [3.0, 4.0]])
    assert np.stack(x, axis=1).tolist() == [[1.0, 3.0], [2.0, 4.0]]
    assert np.stack(arrays=[x, x]).shape == (2, 2, 2)
    with pytest.raises(TypeError, match="cannot write"):
        np.concatenate([x], 0, np.zeros((2, 2)))


@pytest.mark.parametrize("join", [np.concatenate, np.stack, np.hstack, np.vstack])
def test_casting_is_as_in_numpy(join):
    x = leaf([1.0, 2.0])
    y = join([x, x], dtype=np.float32)
    assert y.dtype == np.float32
    y.sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]
    assert x.grad.dtype == np.float64
    with pytest.raises(TypeError, match="same_kind"):
        join([x, x], dtype=int)
    with pytest.raises(TypeError, match="safe"):
        join([x, x], dtype=np.float32, casting="safe")
    with pytest.raises(TypeError, match="'no'"):
        join([x, np.array([1, 2])], casting="no")
    whole = join([x, x], dtype=int, casting="unsafe")  # asked for in so many words
    assert whole.dtype == int
    assert not whole.requires_grad


def test_numbers_and_arrays_may_stand_between_tensors():
    x = Tensor(np.ones(2, np.float32), requires_grad=True)
    y = F.concatenate(np.zeros(1, np.float32), x, [5.0])
    assert y.tolist() == [0.0, 1.0, 1.0, 5.0]
    y.backward(np.arange(4.0))
    np.testing.assert_array_equal(x.grad, np.array([1, 2], np.float32))
    assert x.grad.dtype == np.float32


@pytest.mark.parametrize("axis", [0, 1, 2, -1, -2, -3])
@pytest.mark.parametrize("shape", [(2, 3), (3, 3), (0, 3)])
def test_stack_along_any_axis(shape, axis):
    xs = [leaf(whole(np.random.default_rng(i), shape)) for i in range(3)]
    check_adjoint(lambda arrays: np.stack(arrays, axis), xs)


def test_stack_of_scalars():
    check_adjoint(F.stack, [leaf(1.0), leaf(2.0)])


@given(st.integers(0, 6), st.lists(st.integers(0, 7), max_size=4).map(sorted), st.sampled_from([0, 1, -1, -2]))
def test_split_and_put_together_again(length, cuts, axis):
    shape = [2, 3]
    shape[axis] = length
    x = leaf(whole(np.random.default_rng(0), shape))
    pieces = np.split(x, cuts, axis)
    assert [piece.shape for piece in pieces] == [piece.shape for piece in np.split(x.data, cuts, axis)]
    check_adjoint(lambda xs: F.concatenate(*F.split(xs[0], indices_or_sections=cuts, axis=axis)[::-1], axis=axis), [x])


def test_pieces_that_are_not_used_give_zeros():
    x = leaf(np.arange(6.0))
    first, _, last = F.split(x, indices_or_sections=3)
    first.backward([1.0, 2.0], retain_graph=True)
    np.testing.assert_array_equal(x.grad, [1, 2, 0, 0, 0, 0])
    last.backward([1.0, 1.0])
    np.testing.assert_array_equal(x.grad, [1, 2, 0, 0, 1, 1])


def test_pieces_are_views_that_cannot_be_written_to():
    piece, _ = F.split(leaf(np.arange(4.0)), indices_or_sections=2)
    with pytest.raises(ValueError, match="read-only"):
        piece.data[0] = 1.0


def test_pieces_must_not_overlap():
    with pytest.raises(ValueError, match=r"must not decrease, got \[3, 1\]"):
        F.split(leaf(np.ones(5)), indices_or_sections=[3, 1])
    with pytest.raises(ValueError, match="equal division"):
        F.split(leaf(np.ones(5)), indices_or_sections=2)
