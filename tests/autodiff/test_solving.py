"""Linear systems, inverses, Cholesky factors and pseudoinverses, against PyTorch, worked numbers and differences."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import autodiff as ad
from autodiff import Tensor
from autodiff.testing import check_grads


def leaf(data):
    return Tensor(np.asarray(data, float), requires_grad=True)


def regular(rng, *shape):
    return rng.normal(size=shape) * 0.5 + 2.0 * np.eye(shape[-1])


def definite(rng, *shape):
    x = rng.normal(size=shape)
    return x @ np.swapaxes(x, -1, -2) + np.eye(shape[-1])


def agree_with_torch(ours, theirs, *arrays):
    """Values and gradients of a weighted sum of all results, in float64."""
    torch = pytest.importorskip("torch", reason="compares with PyTorch")
    xs = [leaf(x) for x in arrays]
    ts = [torch.tensor(x, requires_grad=True) for x in arrays]
    y, t = ours(*xs), theirs(torch, *ts)
    np.testing.assert_allclose(y.data, t.detach().numpy(), rtol=1e-10, atol=1e-12)
    weights = np.random.default_rng(1).normal(size=y.shape)
    y.backward(weights)
    t.backward(torch.tensor(weights))
    for x, other in zip(xs, ts, strict=True):
        np.testing.assert_allclose(x.grad, other.grad.numpy(), rtol=1e-9, atol=1e-11)


# --- inverse and systems ---


@given(st.lists(st.integers(0, 2), max_size=2), st.integers(0, 3), st.integers(0, 1000))
def test_inverse_agrees_with_torch(batch, n, seed):
    a = regular(np.random.default_rng(seed), *batch, n, n)
    agree_with_torch(np.linalg.inv, lambda torch, a: torch.linalg.inv(a), a)


@given(st.data())
def test_solve_agrees_with_torch_for_all_shapes(data):
    n = data.draw(st.integers(1, 3))
    rng = np.random.default_rng(data.draw(st.integers(0, 1000)))
    batch = data.draw(st.sampled_from([((), ()), ((2,), (2,)), ((1,), (2,)), ((2,), (1,)), ((2, 1), (3,)), ((), (2,))]))
    a = regular(rng, *batch[0], n, n)
    b = rng.normal(size=(*batch[1], n, data.draw(st.integers(0, 2))))
    agree_with_torch(np.linalg.solve, lambda torch, a, b: torch.linalg.solve(a, b), a, b)


def test_a_vector_on_the_right_has_one_axis():
    rng = np.random.default_rng(0)
    b = rng.normal(size=3)
    agree_with_torch(np.linalg.solve, lambda torch, a, b: torch.linalg.solve(a, b), regular(rng, 3, 3), b)
    a = regular(rng, 2, 3, 3)
    x = np.linalg.solve(leaf(a), b)
    np.testing.assert_allclose(x.data, np.linalg.solve(a, b))
    check_grads(np.linalg.solve, a, b)
    stack = rng.normal(size=(3, 3))
    np.testing.assert_allclose(np.linalg.solve(leaf(a), stack).data, np.linalg.solve(a, stack))  # a matrix, not vectors


def test_solve_takes_a_tensor_on_either_side_only():
    a, b = [[2.0, 0.0], [0.0, 4.0]], [1.0, 2.0]
    x = leaf(a)
    np.linalg.solve(x, b).sum().backward()
    np.testing.assert_allclose(x.grad, [[-0.25, -0.25], [-0.125, -0.125]])
    y = leaf(b)
    np.linalg.solve(np.array(a), y).sum().backward()
    np.testing.assert_allclose(y.grad, [0.5, 0.25])


@pytest.mark.parametrize("name", ["inv", "solve"])
def test_singular_matrices_raise_and_name_the_function(name):
    a = leaf([[1.0, 2.0], [2.0, 4.0]])
    with pytest.raises(np.linalg.LinAlgError, match=f"{name}: Singular matrix.*pinv"):
        np.linalg.inv(a) if name == "inv" else np.linalg.solve(a, np.ones(2))


def test_shapes_that_do_not_fit_raise_as_numpy_does():
    with pytest.raises(np.linalg.LinAlgError, match="square"):
        np.linalg.solve(leaf(np.ones((2, 3))), np.ones(2))
    with pytest.raises(ValueError, match="solve"):
        np.linalg.solve(leaf(np.eye(2)), np.ones((3, 1)))


@pytest.mark.parametrize("f", [np.linalg.inv, np.linalg.cholesky, np.linalg.pinv, lambda a: np.linalg.solve(a, a[0])])
def test_single_precision_stays(f):
    x = Tensor(np.array([[2.0, 0.5], [0.5, 1.0]], np.float32), requires_grad=True)
    y = f(x)
    assert y.dtype == np.float32
    (first,) = ad.gradients(y.sum(), [x], create_graph=True)
    assert first.dtype == np.float32
    assert ad.gradients(first.sum(), x).dtype == np.float32


def test_integer_matrices_are_constants():
    a = np.array([[2, 1], [1, 3]])
    b = leaf([1.0, 2.0])
    np.linalg.solve(a, b).sum().backward()
    np.testing.assert_allclose(b.grad, [0.4, 0.2])


# --- Cholesky ---


@given(st.lists(st.integers(0, 2), max_size=1), st.integers(0, 4), st.booleans(), st.integers(0, 1000))
def test_cholesky_agrees_with_torch_whose_gradient_is_symmetric_too(batch, n, upper, seed):
    a = definite(np.random.default_rng(seed), *batch, n, n)
    agree_with_torch(
        lambda a: np.linalg.cholesky(a, upper=upper), lambda torch, a: torch.linalg.cholesky(a, upper=upper), a
    )
    x = leaf(a)
    np.linalg.cholesky(x, upper=upper).sum().backward()
    np.testing.assert_array_equal(x.grad, np.swapaxes(x.grad, -1, -2))


def test_cholesky_through_a_parametrization():
    check_grads(lambda x: np.linalg.cholesky(x @ x.T + np.eye(3)), np.random.default_rng(0).normal(size=(3, 2)))


def test_cholesky_is_that_of_the_symmetric_part():
    a = np.array([[4.0, 2.1], [1.9, 5.0]])
    np.testing.assert_allclose(np.linalg.cholesky(leaf(a)).data, np.linalg.cholesky((a + a.T) / 2), rtol=1e-15)
    with pytest.raises(ValueError, match=r"cholesky takes symmetric matrices.*differ by up to 3.*np\.tril"):
        np.linalg.cholesky(leaf([[4.0, 0.0], [3.0, 5.0]]))


def test_cholesky_of_an_indefinite_matrix_raises():
    with pytest.raises(np.linalg.LinAlgError, match="cholesky: Matrix is not positive definite"):
        np.linalg.cholesky(leaf([[1.0, 2.0], [2.0, 1.0]]))


# --- pseudoinverse ---


@pytest.mark.parametrize("shape", [(3, 3), (4, 2), (2, 4), (2, 3, 2), (1, 1), (0, 3), (3, 0)])
def test_pseudoinverse_agrees_with_torch(shape):
    a = np.random.default_rng(0).normal(size=shape)
    agree_with_torch(np.linalg.pinv, lambda torch, a: torch.linalg.pinv(a), a)


def test_pseudoinverse_along_matrices_of_one_rank():
    x, y = np.random.default_rng(0).normal(size=(2, 3))
    check_grads(lambda x, y: np.linalg.pinv(np.expand_dims(x, 1) * y), x, y)


def test_cutoff_of_the_pseudoinverse():
    a = np.diag([1.0, 1e-3])
    for settings in ({"rcond": 0.01}, {"rtol": 0.01}, {"rtol": None}, {}):
        x = leaf(a)
        y = np.linalg.pinv(x, **settings)
        np.testing.assert_allclose(y.data, np.linalg.pinv(a, **settings))
    with pytest.raises(TypeError, match="hermitian"):
        np.linalg.pinv(x, hermitian=True)
    with pytest.raises(TypeError, match="once"):
        np.linalg.pinv(x, 0.1, rtol=0.1)


# What is cut off turns with the rest when the matrix changes: central differences see that.


@pytest.mark.parametrize("shape", [(2, 2), (3, 2), (2, 3), (4, 4)])
@pytest.mark.parametrize("cutoff", ["rcond", "rtol"])
def test_the_pseudoinverse_of_what_is_not_cut_off(shape, cutoff):
    a = np.array([[1.0, 0.5, 0.1, 0.0], [0.0, 0.2, 0.0, 0.3], [0.1, 0.0, 0.15, 0.0], [0.0, 0.1, 0.0, 2.0]])
    a = a[: shape[0], : shape[1]]
    assert 0.1 < np.min(np.linalg.svdvals(a)) / np.max(np.linalg.svdvals(a)) < 0.3 or shape == (4, 4)
    weights = np.cos(np.arange(a.size)).reshape(a.T.shape)

    def f(x):
        return np.sum(weights * np.linalg.pinv(x, **{cutoff: 0.3}))

    step = 1e-5
    numeric = [(f(a + step * e) - f(a - step * e)) / (2 * step) for e in np.eye(a.size).reshape(-1, *a.shape)]
    np.testing.assert_allclose(ad.grad(f)(a).reshape(-1), numeric, rtol=1e-7, atol=1e-8)
    slope = ad.grad(f)
    turned = [(slope(a + step * e) - slope(a - step * e)) / (2 * step) for e in np.eye(a.size).reshape(-1, *a.shape)]
    np.testing.assert_allclose(ad.hessian(f)(a).reshape(a.size, *a.shape), turned, rtol=1e-6, atol=1e-6)


def test_equal_singular_values_that_are_kept_need_no_gap():
    def f(x):
        return np.linalg.pinv(x, 0.5)[0, 0]

    a = np.diag([1.0, 1.0, 0.2])
    np.testing.assert_allclose(ad.grad(f)(a), -np.diag([1.0, 0, 0]), atol=1e-15)
