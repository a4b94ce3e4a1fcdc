"""NumPy functions that are composed of ops: values, signatures, first and second derivatives."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import autodiff as ad
import autodiff.functional as F
from autodiff import Tensor
from autodiff.functional import (
    arranging,
    convolution,
    covariances,
    diagonals,
    differences,
    lengths,
    picking,
    polynomials,
    products,
    scans,
    spaces,
    stacking,
    statistics,
)  # fmt: skip
from autodiff.functional._twins import twin
from autodiff.node import TWINS
from autodiff.protocols import full_name
from autodiff.testing import check_grads

A = np.random.default_rng(0).permutation(24).reshape(2, 3, 4) * 0.25 - 2.6
A = A + 0.01 * np.sin(A * A)  # distinct, of both signs, none of them 0; sums of absolute values differ too
M, V, W = A[0], A[0, 0], A[1, 1]  # (3, 4), (4,), (4,)
S = A[0, :3, :3]
T1, T3, T23 = V[:1], V[:3], A[:, :, 0]
LOW = np.abs(M) < 1.0  # in every row and column there are others
ROWS = [[0, 1], [2, 0]]

CASES = {
    # reductions
    "ptp": (lambda x: np.ptp(x), lambda x: np.ptp(x, axis=-1), lambda x: np.ptp(x, (0, 1), keepdims=True)),
    "average": (
        lambda x: np.average(x), lambda x: np.average(x, 0), lambda x: np.average(x, axis=1, weights=[1, 2, 4.0, 3]),
        lambda x: np.average(x, axis=-1, keepdims=True), lambda x: np.average(x, weights=np.cosh(M)),
        lambda x: np.average(x, axis=(1, 0), weights=np.cosh(M.T)),
    ),
    "trace": (lambda x: np.trace(x), lambda x: np.trace(x, -1), lambda x: np.trace(x, 1, 1, 0)),
    "diagonal": (
        lambda x: np.diagonal(x), lambda x: np.diagonal(x, 2), lambda x: np.diagonal(x, -1, axis1=-1, axis2=0),
    ),
    "diag": (lambda x: np.diag(x), lambda x: np.diag(x, -2), lambda x: np.diag(x[0], 1), lambda x: np.diag(x[:, 0])),
    "diagflat": (lambda x: np.diagflat(x), lambda x: np.diagflat(x[0], -1)),
    "vander": (lambda x: np.vander(x[0]), lambda x: np.vander(x[0], 2), lambda x: np.vander(x[0], 5, increasing=True)),
    "nansum": (lambda x: np.nansum(x), lambda x: np.nansum(x, axis=0), lambda x: np.nansum(x, 1, keepdims=True)),
    "nan": tuple(
        lambda x, f=f, given=given: f(np.where(LOW, np.nan, x), **given)
        for f in (np.nansum, np.nanprod, np.nanmean, np.nanvar, np.nanstd, np.nanmax, np.nanmin)
        for given in ({}, {"axis": 0}, {"axis": -1, "keepdims": True})
    ),
    "nan running": tuple(
        lambda x, f=f, axis=axis: f(np.where(LOW, np.nan, x), axis)
        for f in (np.nancumsum, np.nancumprod) for axis in (None, 0, -1)
    ),
    "nan settings": (
        lambda x: np.nanvar(np.where(LOW, np.nan, x), ddof=1), lambda x: np.nanstd(np.where(LOW, np.nan, x), 1, ddof=1),
        lambda x: np.nanmean(x, dtype=np.float64),
    ),
    # differences
    "diff": (
        lambda x: np.diff(x), lambda x: np.diff(x, 2, 0), lambda x: np.diff(x, 5), lambda x: np.diff(x, prepend=1.0),
        lambda x: np.diff(x, axis=0, append=x[:1] * x[1:2]), lambda x: np.diff(x, 2, prepend=x[:, :2], append=0.0),
    ),
    "ediff1d": (lambda x: np.ediff1d(x), lambda x: np.ediff1d(x, 2.0, x[0]), lambda x: np.ediff1d(x[0, :1])),
    "gradient": (
        lambda x: np.gradient(x)[0], lambda x: np.gradient(x)[1], lambda x: np.gradient(x, axis=-1),
        lambda x: np.gradient(x, 0.5, axis=0), lambda x: np.gradient(x, 2.0, [0, 1, 3, 3.5])[1],
        lambda x: np.gradient(x, [0, 1, 3], axis=0, edge_order=2), lambda x: np.gradient(x, 0.5, axis=1, edge_order=2),
        lambda x: np.gradient(x[:2], axis=0), lambda x: np.gradient(x, axis=(1, 0))[0],
    ),
    "trapezoid": (
        lambda x: np.trapezoid(x), lambda x: np.trapezoid(x, axis=0, dx=0.5), lambda x: np.trapezoid(x, [0, 1, 3, 3.5]),
        lambda x: np.trapezoid(x, x * x, axis=0), lambda x: np.trapezoid(x, x=x[:, 0], axis=-2),
    ),
    # shape
    "ravel": (lambda x: np.ravel(x), lambda x: np.ravel(x, "F"), lambda x: np.reshape(x, (2, -1), order="F")),
    "atleast": (
        lambda x: np.atleast_1d(x[0, 0]), lambda x: np.atleast_2d(x[0, 0]), lambda x: np.atleast_2d(x[0]),
        lambda x: np.atleast_3d(x[0, 0]), lambda x: np.atleast_3d(x[0]), lambda x: np.atleast_3d(x),
        lambda x: np.atleast_2d(x, 1.0)[0],
    ),
    "roll": (
        lambda x: np.roll(x, 2), lambda x: np.roll(x, -5), lambda x: np.roll(x, 1, 0), lambda x: np.roll(x, 9, axis=-1),
        lambda x: np.roll(x, (1, 2), (0, 1)), lambda x: np.roll(x, (1, 1), axis=(0, 0)),
        lambda x: np.roll(x, 1, (0, 1)),
        lambda x: np.roll(x, 0, 1),
    ),
    "rollaxis": (lambda x: np.rollaxis(x, 1), lambda x: np.rollaxis(x, 0, 2), lambda x: np.rollaxis(x, -1, -2)),
    "rot90": tuple(lambda x, k=k: np.rot90(x, k) for k in range(-2, 5)),
    "flips": (
        lambda x: np.rot90(x, axes=(1, 0)), lambda x: np.fliplr(x), lambda x: np.flipud(x),
        lambda x: np.matrix_transpose(x)),
    "resize": (lambda x: np.resize(x, (2, 3)), lambda x: np.resize(x, 30), lambda x: np.resize(x[:0], (2, 2))),
    "copy": (lambda x: np.copy(x), lambda x: np.copy(x, order="F")),
    "broadcast_arrays": (lambda x: np.broadcast_arrays(x[:1], np.ones((3, 1)))[0],),
    "meshgrid": (
        lambda x: np.meshgrid(x[0], x[:, 0])[0], lambda x: np.meshgrid(x[0], x[:, 0], x[1])[1],
        lambda x: np.meshgrid(x[0], x[:, 0], indexing="ij")[0], lambda x: np.meshgrid(x[0], x[1], sparse=True)[1],
        lambda x: np.meshgrid(x[0])[0],
    ),
    # joining and splitting
    "stacking": (
        lambda x: np.hstack([x, x]), lambda x: np.hstack([x[0], x[1, :2], 3.0]), lambda x: np.vstack((x[0], x)),
        lambda x: np.vstack(x), lambda x: np.hstack(x), lambda x: np.dstack([x, 2 * x]),
        lambda x: np.dstack([x[0], x[1]]),
        lambda x: np.column_stack([x[:, 0], x]), lambda x: np.column_stack(x), lambda x: np.append(x, 2.0),
        lambda x: np.append(x, x[:1], axis=0), lambda x: np.concat([x, x], axis=-1),
    ),
    "block": (
        lambda x: np.block([[x, x[:, :1]], [x[:1], 7.0]]), lambda x: np.block([x, x]), lambda x: np.block(x),
        lambda x: np.block([x[0], 1.0]), lambda x: np.block([[[x]], [[2 * x]]]),
    ),
    "splitting": (
        lambda x: np.array_split(x, 3, 1)[0], lambda x: np.array_split(x, 3, -1)[2],
        lambda x: np.array_split(x, [1, 2])[1],
        lambda x: np.array_split(x, 5)[1], lambda x: np.hsplit(x, 2)[1], lambda x: np.hsplit(x[0], [1])[1],
        lambda x: np.vsplit(x, 3)[2], lambda x: np.dsplit(x[None], 2)[1],
    ),
    # picking
    "picking": (
        lambda x: np.compress([True, False, True], x, axis=0), lambda x: np.compress([False, True, True], x),
        lambda x: np.extract(M > 0, x), lambda x: np.choose(ROWS, [x[0, 0], x[:2, :2], x[1:, 1:3]]),
        lambda x: np.choose(np.array([0, 3, -1, 1]), x[:2], mode="clip"),
        lambda x: np.choose(np.array([0, 3, -1, 1]), x[:2], mode="wrap"),
    ),
    "delete": (
        lambda x: np.delete(x, 1), lambda x: np.delete(x, -1, 0), lambda x: np.delete(x, [0, 2, 0], axis=1),
        lambda x: np.delete(x, slice(None, None, 2), 1), lambda x: np.delete(x, np.array([True, False, True]), 0),
    ),
    "insert": (
        lambda x: np.insert(x, 2, 5.0), lambda x: np.insert(x, [1, 1, 5], x[0, :3]),
        lambda x: np.insert(x, 1, x[0], axis=0),
        lambda x: np.insert(x, -1, x[:, 0] ** 2, axis=1), lambda x: np.insert(x, [3], x[:, :2], axis=1),
        lambda x: np.insert(x, [3, 0], x[:, :2], axis=1), lambda x: np.insert(x, slice(0, 2), 1.0, axis=0),
    ),
    # products
    "dot": (
        lambda x: np.dot(x, x.T), lambda x: np.dot(x[0], x[1]), lambda x: np.dot(x, x[0]), lambda x: np.dot(x[:, 0], x),
        lambda x: np.dot(x, 2.0), lambda x: np.dot(x[0, 0], x), lambda x: np.dot(x, A.swapaxes(1, 2)),
        lambda x: np.dot(A, x.T), lambda x: np.dot(x[0], A.swapaxes(1, 2)),
    ),
    "products": (
        lambda x: np.inner(x, x), lambda x: np.inner(x[0], A), lambda x: np.inner(x, 3.0), lambda x: np.vdot(x, x * x),
        lambda x: np.outer(x, x[0]), lambda x: np.outer(2.0, x), lambda x: np.linalg.outer(x[0], x[:, 0]),
        lambda x: np.linalg.matmul(x, x.T), lambda x: np.vecdot(x, x[0]), lambda x: np.linalg.vecdot(x, x * x, axis=0),
        lambda x: np.linalg.matrix_transpose(x), lambda x: np.linalg.trace(x[None], offset=1),
        lambda x: np.linalg.diagonal(x[None], offset=-1),
    ),
    "tensordot": (
        lambda x: np.tensordot(x, x.T, 1), lambda x: np.tensordot(x, x), lambda x: np.tensordot(x, x[:2], 0),
        lambda x: np.tensordot(A, x, axes=([1, 2], [0, 1])), lambda x: np.tensordot(x, A, axes=(-1, -1)),
        lambda x: np.tensordot(A, x, ((-1, 1), (1, 0))), lambda x: np.linalg.tensordot(x, x, axes=[0, 0]),
    ),
    "kron": (
        lambda x: np.kron(x, x[:2, :2]), lambda x: np.kron(x[0], x), lambda x: np.kron(A, x[0]),
        lambda x: np.kron(2, x),
    ),
    "cross": (
        lambda x: np.cross(x[:, :3], x[:, 1:]), lambda x: np.cross(x, x[:, :1] * x, axis=0),
        lambda x: np.cross(x[0, :3], x.T), lambda x: np.cross(x, x.T[::-1] ** 2, axisa=0, axisb=1, axisc=0),
        lambda x: np.linalg.cross(x, x * x, axis=0),
    ),
    "convolve": tuple(
        lambda x, f=f, mode=mode, n=n, m=m: f(x[0, :n], x.T[0, :m], mode)
        for f in (np.convolve, np.correlate) for mode in ("full", "same", "valid")
        for n, m in ((4, 3), (2, 3), (1, 2), (3, 3), (4, 2), (4, 1))
    ),
    "correlate": (lambda x: np.convolve(x[0], [1, 2]), lambda x: np.correlate([1.0, 2.0], x[0])),
    # lengths
    "norm": tuple(
        lambda x, ord=ord, keepdims=keepdims, axis=axis: np.linalg.norm(x, ord, axis, keepdims)
        for ord in (None, 1, 2, 3, 1.5, 0.5, -1, -2.0, np.inf, -np.inf) for axis, keepdims in ((0, False), (-1, True))
    ),
    "matrix norm": tuple(
        lambda x, ord=ord, axis=axis: np.linalg.norm(x, ord, axis, True) for axis in (None, (1, 0), (0, -1))
        for ord in (None, "fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf)
    ),
    "norms": (
        lambda x: np.linalg.norm(x), lambda x: np.linalg.norm(x[0, 0]), lambda x: np.linalg.norm(A * x),
        lambda x: np.linalg.vector_norm(x, ord=3), lambda x: np.linalg.vector_norm(x[None], axis=(0, 2), ord=1),
        lambda x: np.linalg.matrix_norm(x[None]), lambda x: np.linalg.matrix_norm(x, ord=np.inf, keepdims=True),
    ),
}  # fmt: skip
for name in ("cumulative_sum", "cumulative_prod"):
    if f := getattr(np, name, None):
        CASES[name] = (
            lambda x, f=f: f(x[0]), lambda x, f=f: f(x, axis=-2), lambda x, f=f: f(x, axis=1, include_initial=True),
        )  # fmt: skip
if hasattr(np, "matvec"):
    CASES["matvec"] = (
        lambda x: np.matvec(x, x[0]), lambda x: np.vecmat(x[:, 0], x), lambda x: np.matvec(A, x[0]),
        lambda x: np.vecmat(x[0], A.swapaxes(1, 2)),
    )  # fmt: skip
if hasattr(np, "unstack"):
    CASES["unstack"] = (lambda x: np.unstack(x)[1], lambda x: np.unstack(x, axis=-1)[0])

CALLS = [pytest.param(call, id=f"{name}{i}") for name, calls in CASES.items() for i, call in enumerate(calls)]


def leaf(data, dtype=float):
    return Tensor(np.array(data, dtype), requires_grad=True)


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_values_and_dtypes_are_numpys(call, dtype):
    expected = call(M.astype(dtype))
    y = call(leaf(M, dtype))
    assert type(y) is Tensor
    assert y.requires_grad or 0 in y.shape
    assert y.dtype == expected.dtype
    np.testing.assert_allclose(y.data, expected, rtol=1e-12 if dtype is np.float64 else 2e-5, strict=True)


@pytest.mark.parametrize("call", CALLS)
def test_first_and_second_derivatives_are_right(call):
    check_grads(lambda x: call(x) + 0.0, M, expect_zero=True, rtol=1e-5)


@pytest.mark.parametrize("call", CALLS)
def test_gradients_of_float32_are_float32(call):
    x = leaf(M, np.float32)
    y = call(x)
    y.backward(np.ones(y.shape))
    assert x.grad.dtype == np.float32


# --- how they are registered ---

HERE = (
    arranging, convolution, covariances, diagonals, differences, lengths, picking, polynomials, products, scans, spaces,
    stacking, statistics,
)  # fmt: skip
MODULES = {module.__name__ for module in HERE}
COMPOSED = {f: made for f, made in TWINS.items() if hasattr(made, "__wrapped__") and made.__module__ in MODULES}
LEFT_OUT = {"out", "order", "subok", "casting", "device", "initial", "where", "mean", "correction", "dtype", "like"}


def signature(f):
    """Return a function's signature, or None for one written in C that has none."""
    try:
        return None if isinstance(f, np.ufunc) else inspect.signature(f)
    except ValueError:
        return None


@pytest.mark.parametrize("f", [f for f in COMPOSED if signature(f)], ids=full_name)
def test_signatures_are_numpys(f):
    """Names, order and defaults; settings may be left out, if only at the end or by keyword."""
    theirs = signature(f).parameters
    ours = inspect.signature(COMPOSED[f].__wrapped__).parameters
    ignored = {"bias", "ddof"} if f is np.corrcoef else set()  # NumPy had them until 2.3, without effect
    ignored |= {p.name for p in theirs.values() if p.kind is p.POSITIONAL_ONLY}
    assert set(theirs) - set(ours) <= LEFT_OUT | ignored
    shared = [name for name in theirs if name in ours]
    assert shared == [name for name in ours if name in theirs]
    for name in shared:
        pair = [None if p.default is np._NoValue else p.default for p in (theirs[name], ours[name])]
        assert pair[0] == pair[1] or pair == [None, False], name  # keepdims


def test_most_are_public():
    names = [full_name(f).removeprefix("np.") for f in COMPOSED]
    assert [name for name in names if "." not in name and not hasattr(F, name)] == []


def test_settings_that_are_not_taken():
    x = leaf(M)
    with pytest.raises(TypeError, match=r"np\.nansum on a tensor does not take where=\.\.\.; it is nansum\(a"):
        np.nansum(x, where=M > 0)
    with pytest.raises(TypeError, match=r"np\.trace cannot write a tensor's result into out="):
        np.trace(x, out=np.zeros(()))
    assert np.vstack([x, x], casting="same_kind").shape == (6, 4)
    assert np.nansum(x, 0, None, None, True).shape == (1, 4)
    assert np.nansum(x, 0, np.float32, keepdims=True).dtype == np.float32


def test_names_that_this_numpy_lacks_are_passed_over():
    before = dict(TWINS)

    @twin("no_such_function", "linalg.no_such_function")
    def f(x):
        return x

    assert before == TWINS
    assert f(3) == 3


def test_on_arrays_they_give_arrays():
    for name in ("diff", "roll", "nansum", "ravel", "trace", "ptp", "fliplr", "norm"):
        given = (2,) if name == "roll" else ()
        result = getattr(F, name)(M.tolist(), *given)
        assert isinstance(result, (np.ndarray, np.generic))
        np.testing.assert_array_equal(result, getattr(np, name, np.linalg.norm)(M, *given))


def test_constants_stay_unrecorded():
    for y in (np.roll(Tensor(M), 1), np.dot(Tensor(M), V), np.diag(Tensor(V)), np.nanmean(Tensor(M))):
        assert type(y) is Tensor
        assert not y.requires_grad


def test_gradients_flow_to_every_argument():
    for call in (np.dot, np.inner, np.outer, np.vdot, np.kron, np.convolve, np.correlate):
        check_grads(call, V, W[:4])
    check_grads(np.cross, T3, W[:3])
    check_grads(lambda x, w: np.average(x, weights=np.exp(w)), V, W)
    check_grads(lambda x, w: np.average(x, axis=1, weights=w, returned=True), M, np.cosh(V))
    check_grads(lambda f, h: np.gradient(f, h), V, 0.7)
    check_grads(lambda f, x: np.gradient(f, np.cumsum(np.exp(x)), edge_order=2), V, W)
    check_grads(lambda y, x: np.trapezoid(y, x), V, W)
    check_grads(lambda x, v: np.insert(x, 1, v), V, 2.0)
    check_grads(lambda x, e: np.diff(x, append=e), V, 2.0)


def test_third_derivatives():
    x = leaf(2.0)
    y = np.dot(np.hstack([x, x * x]), np.roll(np.vstack([x, x * x * x]).ravel(), 1))  # x^4 + x^3
    for expected in (8 * 4 + 3 * 4, 12 * 4 + 6 * 2, 24 * 2 + 6):
        y = ad.gradients(y, x, create_graph=True)
        assert y.item() == pytest.approx(expected)
