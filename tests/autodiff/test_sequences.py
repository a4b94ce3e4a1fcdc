"""Spaces, polynomials, covariances, shifts and einsum's axis lists: NumPy's values and dtypes, and gradients."""

import numpy as np
import pytest

import autodiff as ad
import autodiff.functional as F
from autodiff import Tensor
from autodiff.testing import check_grads

A = np.array([[1.5, -0.25, 2.0, 0.75], [0.5, 1.25, -1.0, 2.5], [2.25, 0.125, 1.75, -0.5]])
B = np.array([[2.0, 1.0, 0.5, 4.0], [1.0, 3.0, 2.0, 0.25]])

CALLS = {
    "linspace": [
        lambda x: np.linspace(x[0], x[1], 5), lambda x: np.linspace(x[0, 0], 3, 4), lambda x: np.linspace(1, x, 3),
        lambda x: np.linspace(x[0], 2.0, 4, endpoint=False), lambda x: np.linspace(x[0], x[1], 3, axis=-1),
        lambda x: np.linspace(x[0], x[1], 1), lambda x: np.linspace(x[0], x[1], 0), lambda x: np.linspace(x, x, 4),
        lambda x: np.linspace(x[0], x[1], 4, retstep=True)[1], lambda x: np.linspace(x[0], x[1], 4, retstep=True)[0],
        lambda x: np.linspace([0, 1, 2, 3], x, 3, dtype=np.float32), lambda x: np.linspace(x[0, 0], x[1, 1], 1, False),
    ],
    "logspace": [
        lambda x: np.logspace(x[0], x[1], 4), lambda x: np.logspace(0, x[0, 0], 5, base=2),
        lambda x: np.logspace(x[0], 1.0, 3, endpoint=False, axis=1), lambda x: np.logspace(0.0, 2.0, 3, base=x[0] ** 2),
        lambda x: np.logspace(x[0, 0], x[1, 1], 3, base=x[0] ** 2),
    ],
    "geomspace": [
        lambda x: np.geomspace(x[0] ** 2, x[1] ** 2, 4), lambda x: np.geomspace(1, x[0, 0], 3),
        lambda x: np.geomspace(-(x[0] ** 2), -3.0, 3, axis=-1), lambda x: np.geomspace(x[0] ** 2, 3, 3, endpoint=False),
        lambda x: np.geomspace(x[0] ** 2, 2.0, 1), lambda x: np.geomspace(x[0] ** 2, 2.0, 4, dtype=np.float32),
    ],
    "polynomials": [
        lambda x: np.polyval(x[0], x), lambda x: np.polyval([1, 2, 3], x), lambda x: np.polyval(x[0], 2.0),
        lambda x: np.polyval(x[0, :1], x[1]), lambda x: np.polyadd(x[0], x[1, :2]), lambda x: np.polyadd(x[0], 2.0),
        lambda x: np.polysub(x[0, :3], [1.0] * 4), lambda x: np.polymul(x[0], x[1, :2]),
        lambda x: np.polymul([0.0, 0.0, 2.0], x[0]), lambda x: np.polymul(x[0], [0.0, 0.0]),
        lambda x: np.polyder(x[0]), lambda x: np.polyder(x[0], 2),
        lambda x: np.polyint(x[0]), lambda x: np.polyint(x[0], 2, k=3.0), lambda x: np.polyint(x[0], 2, x[1, :2]),
        lambda x: np.poly(x[0]), lambda x: np.polyder(x[0], 0), lambda x: np.polyint(x[0], 0),
        lambda x: np.polyder(x[0], 4),
    ],
    "cov": [
        lambda x: np.cov(x), lambda x: np.cov(x[0]), lambda x: np.cov(x[0], x[1]), lambda x: np.cov(x, x[0] ** 2),
        lambda x: np.cov(x, rowvar=False), lambda x: np.cov(x, bias=True), lambda x: np.cov(x, ddof=2),
        lambda x: np.cov(x, fweights=[1, 3, 2, 1]), lambda x: np.cov(x, aweights=[1.0, 0.5, 2.0, 4.0]),
        lambda x: np.cov(x, aweights=x[0] ** 2),
        lambda x: np.cov(x, fweights=[1, 0, 2, 1], aweights=[1, 2, 1, 1], ddof=0),
        lambda x: np.cov(x, fweights=[1, 2, 2, 1], aweights=[1, 2, 1, 1]), lambda x: np.cov(x, x, rowvar=False),
    ],
    "corrcoef": [
        lambda x: np.corrcoef(x), lambda x: np.corrcoef(x, rowvar=False), lambda x: np.corrcoef(x[0], x[1] ** 2),
    ],
    "shifts": [
        lambda x: np.fft.fftshift(x), lambda x: np.fft.ifftshift(x), lambda x: np.fft.fftshift(x, 0),
        lambda x: np.fft.ifftshift(x, axes=(0, 1)), lambda x: np.fft.ifftshift(x, [0]),
        lambda x: np.fft.fftshift(x[:, :3]),
    ],
    "einsum": [
        lambda x: np.einsum(x, [0, 1], B, [2, 1]), lambda x: np.einsum(x, [0, 1], B, [2, 1], [2, 0]),
        lambda x: np.einsum(x, [0, 1], [1]), lambda x: np.einsum(x[:, :3], [0, 0]), lambda x: np.einsum(x, [30, 2]),
        lambda x: np.einsum(x, [..., 0], B[0], [0], [...]), lambda x: np.einsum(x, [1, 0], x, [1, 0], []),
        lambda x: np.einsum(x, (0, 1), B.T, (np.int64(1), 2), optimize=True), lambda x: np.einsum(x, [0, 51], [51, 0]),
    ],
}  # fmt: skip
CASES = [pytest.param(call, id=f"{name}{i}") for name, calls in CALLS.items() for i, call in enumerate(calls)]
FIRST = {CALLS["linspace"][0], CALLS["cov"][0]}
DERIVED = [
    case if case.values[0] in FIRST else pytest.param(*case.values, id=case.id, marks=pytest.mark.slow)
    for case in CASES
]


@pytest.mark.parametrize("call", CASES)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_values_and_dtypes_are_numpys(call, dtype):
    x = A.astype(dtype)
    expected = call(x)
    y = call(Tensor(x, requires_grad=True))
    assert type(y) is Tensor
    assert y.dtype == expected.dtype
    np.testing.assert_allclose(y.data, expected, rtol=1e-12 if dtype is np.float64 else 2e-5, atol=1e-6, strict=True)
    assert y.requires_grad or not y.size or not y.data.any()


@pytest.mark.parametrize("call", DERIVED)
def test_derivatives_are_right(call):
    if call(A).size and call(A).dtype == float:
        check_grads(lambda x: call(x) * 1.0, A, expect_zero=True, rtol=1e-5)


def test_ends_are_exact_and_have_the_gradients():
    start, stop = Tensor(0.1, requires_grad=True), Tensor(0.7, requires_grad=True)
    for space in (np.linspace, np.geomspace):
        y = space(start, stop, 7)
        assert (y[0].item(), y[-1].item()) == (0.1, 0.7)
        assert ad.gradients(y[-1], [start, stop])[0].item() == 0.0
        assert [g.item() for g in ad.gradients(y[0], [start, stop])] == [1.0, 0.0]
    assert np.linspace(start, stop, 3, dtype=int).dtype == int


def test_functions_of_plain_arrays():
    np.testing.assert_array_equal(F.linspace(0, 1, 5), np.linspace(0, 1, 5))
    np.testing.assert_array_equal(F.einsum(A, [0, 1], [1, 0]), A.T)
    np.testing.assert_allclose(F.corrcoef(A), np.corrcoef(A))
    assert F.linspace(1, 2, 3).dtype == np.linspace(1, 2, 3).dtype
    assert np.linspace(Tensor([1, 2]), 5, 3).tolist() == [[1.0, 2.0], [3.0, 3.5], [5.0, 5.0]]
    assert np.polyval(Tensor([1, 2]), 3).item() == 5


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda x: np.linspace(x, 1, -1), ValueError), (lambda x: np.linspace(x, 1, 2.5), TypeError),
        (lambda x: np.geomspace(x, 0.0), ValueError), (lambda x: np.geomspace(x[0, 0], -1.0), ValueError),
        (lambda x: np.polyder(x[0], -1), ValueError), (lambda x: np.polyint(x[0], 3, [1, 2]), ValueError),
        (lambda x: np.polyval(x[0], np.poly1d([1, 2])), TypeError), (lambda x: np.cov(x[None]), ValueError),
        (lambda x: np.cov(x, fweights=[1, 2]), RuntimeError), (lambda x: np.cov(x, fweights=[0.5] * 4), TypeError),
        (lambda x: np.cov(x, aweights=[-1.0] * 4), ValueError), (lambda x: np.cov(x, ddof=1.5), ValueError),
        (lambda x: np.einsum(x, [0, 52]), ValueError), (lambda x: np.einsum(x, [0, 1], [2]), ValueError),
        (lambda x: np.poly(x[:, :3]), ValueError), (lambda x: np.einsum(x, 0), TypeError),
        (lambda x: np.einsum(x, [0, -1]), ValueError),
        (lambda x: np.cov(x, ddof=4), RuntimeWarning),
    ],
)  # fmt: skip
def test_refusals(call, error):
    with pytest.raises(error):
        call(Tensor(A, requires_grad=True))
