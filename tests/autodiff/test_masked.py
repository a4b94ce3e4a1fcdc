"""Reductions with where=, initial= and dtype=: NumPy's values, and nothing leaks from what is left out."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

import autodiff as ad
import autodiff.functional as F
from autodiff import Tensor
from autodiff.testing import check_grads

ALL = [np.sum, np.prod, np.max, np.min, np.amax, np.amin, np.mean, np.var, np.std]
AXES = [None, 0, -1, (0, 1)]
WITH_INITIAL = (np.max, np.min, np.amax, np.amin)


def leaf(data, dtype=float):
    return Tensor(np.array(data, dtype), requires_grad=True)


def grad(f, x):
    x = leaf(x)
    f(x).sum().backward()
    return x.grad.tolist()


def settings_of(f, x):
    mask = np.array([[True, False, True], [False, True, True]])
    return {"where": mask, **({"initial": 0.1} if f in WITH_INITIAL else {})}


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("axis", AXES, ids=str)
@pytest.mark.parametrize("f", ALL, ids=lambda f: f.__name__)
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
def test_values_are_numpys(f, axis, keepdims, dtype):
    x = np.random.default_rng(0).normal(size=(2, 3)).astype(dtype)
    settings = {"axis": axis, "keepdims": keepdims, **settings_of(f, x)}
    y = f(leaf(x, dtype), **settings)
    expected = f(x, **settings)
    np.testing.assert_allclose(y.data, expected, rtol=8 * np.finfo(dtype).eps)
    assert (y.dtype, y.shape) == (expected.dtype, expected.shape)
    assert y.requires_grad


@pytest.mark.parametrize("axis", AXES, ids=str)
@pytest.mark.parametrize("f", ALL, ids=lambda f: f.__name__)
def test_gradients_are_right_to_second_order(f, axis):
    x = np.random.default_rng(1).normal(size=(2, 3))
    settings = settings_of(f, x)
    check_grads(lambda t: f(t, axis=axis, **settings), x, order=2, expect_zero=True)
    check_grads(lambda t: f(t, axis=axis, keepdims=True, **settings), x, order=1, expect_zero=True)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("f", ALL, ids=lambda f: f.__name__)
def test_nothing_leaks_from_what_is_left_out(f, bad):
    mask = np.array([True, False, True, True])
    extra = {"initial": -9.0 if f in (np.max, np.amax) else 9.0} if f in WITH_INITIAL else {}
    clean, dirty = np.array([1.0, 5.0, 2.0, 4.0]), np.array([1.0, bad, 2.0, 4.0])
    found = grad(lambda t: f(t, where=mask, **extra), dirty)
    assert found == grad(lambda t: f(t, where=mask, **extra), clean)
    assert found[1] == 0.0
    np.testing.assert_allclose(np.delete(found, 1), grad(lambda t: f(t, **extra), clean[mask]), rtol=1e-14)
    np.testing.assert_allclose(f(leaf(dirty), where=mask, **extra).data, f(clean[mask], **extra), rtol=1e-15)


@given(st.data())
def test_any_mask(data):
    shape = data.draw(npst.array_shapes(max_dims=3, max_side=3))
    x = data.draw(npst.arrays(float, shape, elements=st.integers(-3, 3).map(float)))
    mask = data.draw(npst.arrays(bool, data.draw(npst.broadcastable_shapes(shape, max_dims=len(shape), max_side=1))))
    axis = data.draw(st.none() | st.integers(0, len(shape) - 1))
    for f, extra in ((np.sum, {}), (np.prod, {}), (np.max, {"initial": -5.0}), (np.min, {"initial": 2.0})):
        t = leaf(x)
        y = f(t, axis=axis, where=mask, **extra)
        np.testing.assert_array_equal(y.data, f(x, axis=axis, where=mask, **extra))
        y.sum().backward()
        assert not t.grad[~np.broadcast_to(mask, shape)].any()
        if f is np.sum:
            np.testing.assert_array_equal(t.grad, np.broadcast_to(mask, shape).astype(float))
        if f in (np.max, np.min):
            assert t.grad.sum() <= y.size


def test_initial_value():
    x = leaf([1.0, 2.0])
    assert np.sum(x, initial=3.0).item() == 6.0
    assert np.prod(x, initial=3.0).item() == 6.0
    assert np.max(x, initial=3.0).item() == 3.0
    assert grad(lambda t: np.max(t, initial=3.0), [1.0, 2.0]) == [0.0, 0.0]
    assert grad(lambda t: np.max(t, initial=2.0), [1.0, 2.0]) == [0.0, 0.5]  # a tie: half stays with the initial value
    assert grad(lambda t: np.max(t, initial=2.0, where=[True, False, True]), [2.0, 9.0, 1.0]) == [0.5, 0.0, 0.0]
    assert np.max(Tensor([5, 7]), initial=6, where=[True, False]).tolist() == 6
    start = leaf(3.0)
    (np.sum(x, initial=start) + np.prod(x, initial=start)).backward()
    assert start.grad == 3.0
    assert np.sum(leaf([1.0], np.float32), initial=np.float64(2.0)).dtype == np.float32


def test_reductions_of_nothing():
    assert np.max(leaf(np.zeros((0, 3))), axis=0, initial=-1.0).tolist() == [-1.0, -1.0, -1.0]
    assert np.min(leaf(np.zeros((0, 3))), initial=4.0, keepdims=True).tolist() == [[4.0]]
    x = leaf([1.0, 2.0])
    y = np.sum(x, where=False) + np.max(x, where=[False, False], initial=7.0) + np.prod(x, where=[False, False])
    y.backward()
    assert (y.item(), x.grad.tolist()) == (8.0, [0.0, 0.0])
    with pytest.raises(ValueError, match=r"np\.max with where=.*initial="):
        np.max(x, where=[True, False])
    with pytest.warns(RuntimeWarning, match="invalid value"):
        assert np.isnan(np.mean(x, where=[False, False]).item())


def test_masked_standard_deviation_of_equal_numbers():
    mask = [True, False, True, True]
    assert grad(lambda t: np.std(t, where=mask), [0.1, 9.0, 0.1, 0.1]) == [0.0, 0.0, 0.0, 0.0]
    assert np.std(leaf([0.1, 9.0, 0.1, 0.1]), where=mask).item() == 0.0


def test_mean_that_is_given():
    x = np.random.default_rng(2).normal(size=(2, 3))
    mean = x.mean(axis=1, keepdims=True)
    for f in (np.var, np.std):
        y = f(leaf(x), axis=1, mean=mean, ddof=1)
        np.testing.assert_allclose(y.data, f(x, axis=1, ddof=1), rtol=1e-14)
        np.testing.assert_allclose(f(leaf(x), axis=1, correction=1).data, f(x, axis=1, ddof=1), rtol=1e-14)
        center = leaf(mean)
        g = ad.gradients(np.var(leaf(x), axis=1, mean=center), center, np.ones(2))
        np.testing.assert_allclose(g.data, 0, atol=1e-15)
        with pytest.raises(ValueError, match="not both"):
            f(leaf(x), ddof=1, correction=1)


@pytest.mark.parametrize(
    "f", [np.sum, np.prod, np.mean, np.var, np.std, np.cumsum, np.cumprod], ids=lambda f: f.__name__
)
def test_dtype_casts_first(f):
    x = np.random.default_rng(3).normal(size=5).astype(np.float32)
    y = f(leaf(x, np.float32), dtype=np.float64)
    np.testing.assert_allclose(y.data, f(x, dtype=np.float64), rtol=1e-14)
    assert y.dtype == np.float64
    y.sum().backward()
    t = leaf(x, np.float32)
    f(t, dtype=np.float64).sum().backward()
    np.testing.assert_allclose(t.grad, grad(f, x), rtol=1e-6, atol=1e-7)
    assert t.grad.dtype == np.float32
    assert f(leaf(x), dtype=np.float32).dtype == np.float32
    assert not f(Tensor([1, 2]), dtype=float).requires_grad


def test_methods_of_tensors_take_the_same_settings():
    x, mask = np.array([[1.0, 2.0], [3.0, 5.0]]), np.array([True, False])
    for name in ("sum", "prod", "mean", "var", "std"):
        y = getattr(leaf(x), name)(axis=1, where=mask, dtype=np.float32)
        np.testing.assert_allclose(y.data, getattr(x, name)(axis=1, where=mask, dtype=np.float32))
    assert leaf(x).max(where=mask, initial=-1.0).item() == 3.0
    assert leaf(x).min(axis=0, initial=2.0).tolist() == [1.0, 2.0]


def test_logarithm_of_a_masked_sum():
    x = np.array([1.0, np.nan, 2.0])
    y = np.logaddexp.reduce(leaf(x), where=[True, False, True])
    assert y.item() == pytest.approx(np.logaddexp(1.0, 2.0))
    assert grad(lambda t: np.logaddexp.reduce(t, where=[True, False, True]), x)[1] == 0.0
    assert np.logaddexp.reduce(leaf([1.0]), initial=2.0).item() == pytest.approx(np.logaddexp(1.0, 2.0))


def test_masks_are_boolean_and_fit():
    x = leaf([1.0, 2.0])
    with pytest.raises(TypeError, match="booleans"):
        np.sum(x, where=[1, 0])
    with pytest.raises(ValueError, match=r"where= of shape \(2, 2\) does not broadcast to the array.* \(2,\)"):
        np.sum(x, where=np.ones((2, 2), bool))
    assert np.sum(x, where=F.where([True, False], True, False)).item() == 1.0


# --- dtypes, and what is empty ---


def test_a_mean_of_integers_is_an_integer_if_asked_for():
    for t in (leaf([1.0, 2.0]), leaf([1.9, 2.9])):
        y = np.mean(t, dtype=int)
        assert (y.dtype, y.item()) == (int, np.mean(t.data, dtype=int))
    assert np.mean(leaf([1.0, 2.0]), dtype=int, where=[True, True]).item() == 1
    for f in (np.var, np.std):
        with pytest.raises(TypeError, match="floating dtype"):
            f(leaf([1.0, 2.0]), dtype=int)


@pytest.mark.parametrize("f", [np.max, np.min])
def test_the_initial_value_of_nothing_is_a_tensor(f):
    x = leaf(np.zeros((0, 3)))
    assert f(x, initial=1.5).item() == 1.5
    y = f(x, axis=0, initial=2.0, keepdims=True)
    assert isinstance(y, Tensor)
    assert y.tolist() == [[2.0, 2.0, 2.0]]
    start = leaf(4.0)
    y = f(x, axis=0, initial=start)
    y.sum().backward()
    assert start.grad == 3.0
    assert f(Tensor(np.zeros(0, bool)), initial=True).dtype == bool
