"""Eigenvalues, singular values and orthogonal factors: against PyTorch, at degenerate points, and twice."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import autodiff as ad
from autodiff import Tensor
from autodiff.functional._matrices import with_gaps
from autodiff.testing import check_grads


def leaf(data):
    return Tensor(np.asarray(data, float), requires_grad=True)


def with_values(rng, values, shape=None, symmetric=False):
    """A matrix with these singular values or eigenvalues."""
    m, n = (len(values),) * 2 if shape is None else shape
    left = np.linalg.qr(rng.normal(size=(m, m))).Q[:, : len(values)]
    right = left if symmetric else np.linalg.qr(rng.normal(size=(n, n))).Q[:, : len(values)]
    return left * values @ right.T


def agree_with_torch(ours, theirs, a):
    torch = pytest.importorskip("torch", reason="compares with PyTorch")
    x, t = leaf(a), torch.tensor(a, requires_grad=True)
    y, other = ours(x), theirs(torch, t)
    np.testing.assert_allclose(y.data, other.detach().numpy(), rtol=1e-9, atol=1e-11)
    y.backward()
    other.backward()
    np.testing.assert_allclose(x.grad, t.grad.numpy(), rtol=1e-8, atol=1e-10)


# --- eigenvalues ---


@given(st.lists(st.integers(1, 2), max_size=2), st.integers(1, 4), st.integers(0, 1000))
def test_eigh_agrees_with_torch(batch, n, seed):
    rng = np.random.default_rng(seed)
    a = rng.normal(size=(*batch, n, n))
    a = a + np.swapaxes(a, -1, -2) + np.diag(10.0 * np.arange(n))
    weights = rng.normal(size=(n, n))
    agree_with_torch(
        lambda a: ((r := np.linalg.eigh(a)).eigenvectors ** 2 * weights).sum() + (r.eigenvalues**2).sum(),
        lambda torch, a: ((r := torch.linalg.eigh(a))[1] ** 2 * torch.tensor(weights)).sum() + (r[0] ** 2).sum(),
        a,
    )


def test_eigh_returns_what_numpy_returns():
    a = with_values(np.random.default_rng(0), [1.0, 2.0, 4.0], symmetric=True)
    for settings in ({}, {"UPLO": "U"}):
        result, expected = np.linalg.eigh(leaf(a), **settings), np.linalg.eigh((a + a.T) / 2, **settings)
        assert type(result) is type(expected)
        for ours, theirs in zip(result, expected, strict=True):
            np.testing.assert_array_equal(ours.data, theirs)
    np.testing.assert_array_equal(np.linalg.eigvalsh(leaf(a), "U").data, expected.eigenvalues)
    assert [part.shape for part in np.linalg.eigh(leaf(np.zeros((2, 0, 0))))] == [(2, 0), (2, 0, 0)]


@pytest.mark.parametrize("triangle", ["L", "U", "l", "u"])
@pytest.mark.parametrize("shape", [(3, 3), (7, 7), (2, 4, 4)])
def test_eigh_reads_the_triangle_that_numpy_reads(shape, triangle):
    a = with_gaps(np.random.default_rng(sum(shape)), *shape, symmetric=True)
    a = np.tril(a) + np.swapaxes(np.tril(a, -1), -1, -2)  # symmetric to the last bit
    x, expected = leaf(a), np.linalg.eigh(a, triangle)
    found = np.linalg.eigh(x, triangle)
    np.testing.assert_array_equal(found.eigenvectors.data, expected.eigenvectors)
    np.testing.assert_array_equal(found.eigenvalues.data, expected.eigenvalues)
    np.testing.assert_allclose(np.linalg.eigvalsh(x, triangle).data, np.linalg.eigvalsh(a, triangle), rtol=1e-13)
    weights = np.arange(1.0, shape[-1] + 1)

    def squares(y, *uplo):
        return ((y := np.linalg.eigh(y, *uplo)).eigenvectors ** 2 * weights).sum() + (y.eigenvalues**3).sum()

    gradient = ad.grad(lambda y: squares(y, triangle))(a)
    np.testing.assert_allclose(gradient, ad.grad(squares)(a), rtol=1e-9, atol=1e-9)  # the signs do not matter to these
    check_grads(lambda y: np.linalg.eigh(y, UPLO=triangle).eigenvectors, a, order=1)


@pytest.mark.parametrize("dtype", [bool, np.uint8, np.int64])
def test_eigh_and_cholesky_of_integers(dtype):
    a = np.array([[1, 0, 1], [0, 1, 0], [1, 0, 1]]).astype(dtype)
    for found, expected in zip(np.linalg.eigh(Tensor(a), "U"), np.linalg.eigh(a, "U"), strict=True):
        np.testing.assert_array_equal(found.data, expected)
    b = np.array([[2, 1], [1, 2]]).astype(dtype) if dtype is not bool else np.eye(2, dtype=bool)
    for settings in ({}, {"upper": True}):
        np.testing.assert_array_equal(np.linalg.cholesky(Tensor(b), **settings).data, np.linalg.cholesky(b, **settings))


def test_what_eigh_refuses():
    with pytest.raises(ValueError, match="UPLO must be 'L' or 'U', got 'X'"):
        np.linalg.eigh(leaf(np.eye(2)), "X")
    with pytest.raises(ValueError, match="eigh takes symmetric matrices"):
        np.linalg.eigvalsh(leaf([[1.0, 5.0], [0.0, 1.0]]))
    with pytest.raises(np.linalg.LinAlgError, match=r"eigh: .*square"):
        np.linalg.eigh(leaf(np.ones((2, 3))))


def test_functions_of_repeated_eigenvalues_alone():
    a = with_values(np.random.default_rng(0), [1.0, 2.0, 2.0], symmetric=True)
    x = leaf(a)
    (np.linalg.eigvalsh(x) ** 2).sum().backward()  # the sum of squares of a
    np.testing.assert_allclose(x.grad, 2 * a, atol=1e-13)
    y = leaf(np.eye(3))
    np.linalg.eigvalsh(y).sum().backward()  # the trace
    np.testing.assert_allclose(y.grad, np.eye(3), atol=1e-15)


def test_vectors_of_repeated_eigenvalues_have_no_gradient():
    rng = np.random.default_rng(0)
    a = np.stack([with_values(rng, values, symmetric=True) for values in ([1.0, 3.0, 4.0], [1.0, 2.0, 2.0])])
    vectors = np.linalg.eigh(leaf(a)).eigenvectors
    message = r"eigh: the eigenvalues 1 and 2 of matrix \(1,\) are equal .*a gradient reaches their vectors"
    with pytest.raises(ValueError, match=message):
        vectors.sum().backward()
    x = leaf(a)
    np.linalg.eigh(x).eigenvectors[0].sum().backward()  # the other matrix is regular
    y = leaf(a[0])
    np.linalg.eigh(y).eigenvectors.sum().backward()
    np.testing.assert_array_equal(x.grad, [y.grad, np.zeros((3, 3))])
    check_grads(lambda a: np.linalg.eigh(a).eigenvectors[..., 0] ** 2, a, order=1)  # of a simple one


def test_second_derivatives_at_repeated_eigenvalues_raise():
    x = leaf(np.eye(2))
    first = ad.gradients((np.linalg.eigvalsh(x) ** 2).sum(), x, create_graph=True)
    np.testing.assert_allclose(first.data, 2 * np.eye(2))
    with pytest.raises(ValueError, match="eigenvalues 0 and 1 are equal"):
        ad.gradients(first, x, [[0.0, 1.0], [1.0, 0.0]])


def test_spectral_function_of_a_matrix_twice():
    def exponential(a):
        w, v = np.linalg.eigh(a)
        return v * np.exp(w) @ v.T

    check_grads(exponential, with_values(np.random.default_rng(0), [-0.5, 0.2, 1.0], symmetric=True))


# --- singular values ---


@given(st.integers(1, 4), st.integers(1, 4), st.booleans(), st.integers(0, 1000))
def test_svd_agrees_with_torch(m, n, full, seed):
    rng = np.random.default_rng(seed)
    k = min(m, n)
    a = with_values(rng, np.arange(1.0, k + 1), (m, n))
    wu, wv = rng.normal(size=(m, k)), rng.normal(size=(k, n))

    def ours(a):
        u, s, v = np.linalg.svd(a, full_matrices=full)
        return (u[:, :k] ** 2 * wu).sum() + (v[:k] ** 2 * wv).sum() + (s**3).sum()

    def theirs(torch, a):
        u, s, v = torch.linalg.svd(a, full_matrices=False)
        return (u**2 * torch.tensor(wu)).sum() + (v**2 * torch.tensor(wv)).sum() + (s**3).sum()

    agree_with_torch(ours, theirs, a)


@pytest.mark.parametrize("shape", [(3, 2), (2, 3), (3, 3), (2, 4, 2), (0, 3), (3, 0), (0, 2, 2)])
@pytest.mark.parametrize("full", [False, True])
def test_svd_returns_what_numpy_returns(shape, full):
    a = np.random.default_rng(0).normal(size=shape)
    result, expected = np.linalg.svd(leaf(a), full), np.linalg.svd(a, full)
    assert type(result) is type(expected)
    for ours, theirs in zip(result, expected, strict=True):
        np.testing.assert_array_equal(ours.data, theirs)
    np.testing.assert_allclose(np.linalg.svd(leaf(a), compute_uv=False).data, expected.S)
    np.testing.assert_allclose(np.linalg.svdvals(leaf(a)).data, expected.S)


def test_vectors_without_a_singular_value_have_no_gradient():
    x = leaf(np.random.default_rng(0).normal(size=(3, 2)))
    u, _, _ = np.linalg.svd(x)
    with pytest.raises(ValueError, match=r"svd: .*without a singular value.*full_matrices=False"):
        u[:, 2].sum().backward(retain_graph=True)
    u[:, 1].sum().backward()
    assert np.any(x.grad)
    with pytest.raises(TypeError, match="hermitian"):
        np.linalg.svd(x, hermitian=True)


def test_functions_of_repeated_or_zero_singular_values_alone():
    a = with_values(np.random.default_rng(0), [2.0, 2.0, 1.0])
    x = leaf(a)
    (np.linalg.svdvals(x) ** 2).sum().backward()
    np.testing.assert_allclose(x.grad, 2 * a, atol=1e-13)
    zero = leaf(np.zeros((2, 3)))
    np.linalg.svdvals(zero).sum().backward()  # the tip of a cone
    np.testing.assert_array_equal(zero.grad, np.zeros((2, 3)))


@pytest.mark.parametrize(
    ("a", "message"),
    [
        (np.diag([2.0, 2.0, 1.0]), "singular values 0 and 1 are equal"),
        (np.diag([2.0, 0.0]), "singular value that is zero"),
        (np.array([[2.0, 0.0], [0.0, 0.0], [0.0, 0.0]]), "singular value that is zero"),
    ],
)
def test_vectors_of_repeated_or_zero_singular_values_have_no_gradient(a, message):
    u, _, v = np.linalg.svd(leaf(a), full_matrices=False)
    with pytest.raises(ValueError, match=f"svd: .*{message}"):
        u.sum().backward()
    with pytest.raises(ValueError, match=f"svd: .*{message}"):
        v.sum().backward()


def test_second_derivatives_of_nuclear_and_spectral_norm():
    a = with_values(np.random.default_rng(0), [3.0, 1.0], (2, 3))
    check_grads(lambda a: np.linalg.svdvals(a).sum(), a)
    check_grads(lambda a: np.linalg.svd(a, compute_uv=False)[0], a)
    x = leaf(np.diag([1.0, 1.0]))
    first = ad.gradients(np.linalg.svdvals(x).sum(), x, create_graph=True)
    with pytest.raises(ValueError, match="singular values 0 and 1 are equal"):
        ad.gradients(first, x, [[0.0, 1.0], [0.0, 0.0]])


def test_low_rank_approximation_twice():
    def nearest(a):
        u, s, v = np.linalg.svd(a, full_matrices=False)
        return s[0] * u[:, :1] @ v[:1]

    check_grads(nearest, with_values(np.random.default_rng(0), [3.0, 1.0], (3, 2)))


# --- orthogonal and triangular factors ---


@pytest.mark.parametrize("shape", [(3, 3), (4, 2), (2, 4), (2, 3, 2), (2, 2, 3), (1, 1), (0, 2), (2, 0)])
@pytest.mark.parametrize("mode", ["reduced", "r"])
def test_qr(shape, mode):
    a = np.random.default_rng(0).normal(size=shape)
    result, expected = np.linalg.qr(leaf(a), mode), np.linalg.qr(a, mode)
    assert type(result) is (Tensor if mode == "r" else type(expected))
    for ours, theirs in zip(result, expected, strict=True) if mode == "reduced" else [(result, expected)]:
        np.testing.assert_allclose(ours.data, theirs, rtol=1e-12, atol=1e-14)
    check_grads(lambda a: tuple(np.linalg.qr(a, mode)) if mode == "reduced" else np.linalg.qr(a, mode), a)


def test_qr_agrees_with_torch():
    a = np.random.default_rng(0).normal(size=(4, 3))
    agree_with_torch(
        lambda a: ((r := np.linalg.qr(a)).Q ** 3).sum() + (r.R**2).sum(),
        lambda torch, a: ((r := torch.linalg.qr(a)).Q ** 3).sum() + (r.R**2).sum(),
        a,
    )


def test_what_qr_refuses():
    with pytest.raises(ValueError, match=r"qr: mode 'complete' is not supported for the shape \(3, 2\)"):
        np.linalg.qr(leaf(np.ones((3, 2))), "complete")
    assert np.linalg.qr(leaf(np.eye(2)), "complete").Q.shape == (2, 2)
    with pytest.raises(np.linalg.LinAlgError, match="qr: the leading columns of a are linearly dependent"):
        np.linalg.qr(leaf(np.outer([1.0, 2.0, 4.0], [1.0, 3.0]))).Q.sum().backward()


@pytest.mark.parametrize(
    "f",
    [np.linalg.eigvalsh, lambda a: np.linalg.eigh(a)[1], lambda a: np.linalg.svd(a)[0], lambda a: np.linalg.qr(a)[1]],
)
def test_single_precision_stays(f):
    x = Tensor(np.array([[2.0, 0.5], [0.5, 1.0]], np.float32), requires_grad=True)
    y = f(x)
    first = ad.gradients(y.sum(), x, create_graph=True)
    second = ad.gradients(first.sum(), x)
    assert {y.dtype, first.dtype, second.dtype} == {np.dtype(np.float32)}


@pytest.mark.parametrize(
    ("dtype", "scale"), [("f4", 1e20), ("f4", 1e-24), ("f8", 1e170), ("f8", 1e-170), ("f8", 1e-300), ("f8", 1.0)]
)
@pytest.mark.parametrize("shape", [(3, 3), (4, 2), (2, 4)])
def test_gradients_of_singular_vectors_at_all_scales(dtype, scale, shape):
    data = with_gaps(np.random.default_rng(0), *shape)
    weights = np.random.default_rng(1).normal(size=(shape[0], min(shape)))

    def slope(scale, dtype):
        x = Tensor((data * scale).astype(dtype), requires_grad=True)
        u, _, vh = np.linalg.svd(x, full_matrices=False)
        y = np.sum(u**2 * weights.astype(dtype)) + np.sum(vh[0] ** 2 * np.arange(shape[1], dtype=dtype))
        return ad.gradients(y, x).astype(float) * scale

    np.testing.assert_allclose(slope(scale, dtype), slope(1.0, "f8"), rtol=1e-3 if dtype == "f4" else 1e-10, atol=1e-5)


def test_vectors_of_one_singular_value_have_a_gradient_where_others_are_zero():
    a = Tensor(np.diag([2.0, 0.0, 0.0]), requires_grad=True)
    u, _, vh = np.linalg.svd(a)
    (u[1, 0] * vh[0, 0]).backward()  # u v^T turns by dA v / s
    np.testing.assert_allclose(a.grad, [[0, 0, 0], [0.5, 0, 0], [0, 0, 0]], atol=1e-15)
