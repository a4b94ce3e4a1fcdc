"""Methods of a tensor: an ndarray's names, orders of arguments, and results."""

from __future__ import annotations

import numpy as np
import pytest

from autodiff import Tensor

A = np.random.default_rng(0).permutation(12).reshape(3, 4) * 0.5 - 2.2


def leaf(data, dtype=float):
    return Tensor(np.array(data, dtype), requires_grad=True)


@pytest.mark.parametrize(
    "call",
    [
        lambda t: t.sum(0, np.float32), lambda t: t.sum(-1, keepdims=True), lambda t: t.sum(0, None, None, True),
        lambda t: t.sum(where=A > 0), lambda t: t.sum(initial=3.0), lambda t: t.mean(1, np.float32),
        lambda t: t.mean(0, where=A > -2), lambda t: t.prod((0, 1)), lambda t: t.prod(0, None, None, True),
        lambda t: t.max(0, None, True), lambda t: t.min(1, keepdims=True), lambda t: t.max(where=A < 2, initial=-9.0),
        lambda t: t.var(0, None, None, 1), lambda t: t.var(ddof=1, keepdims=True), lambda t: t.var(1, ddof=2),
        lambda t: t.std(1, np.float32, None, 1, True), lambda t: t.std(0, where=A > -2),
        lambda t: t.cumsum(0), lambda t: t.cumsum(1, np.float32), lambda t: t.cumprod(), lambda t: t.cumprod(-1),
        lambda t: t.reshape(2, -1, order="F"), lambda t: t.reshape((4, 3)), lambda t: t.ravel("F"),
        lambda t: t.flatten(), lambda t: t.ravel(order="C"), lambda t: t.astype(np.float32, copy=False),
        lambda t: t.copy(), lambda t: t.copy(order="F"), lambda t: t.conj(), lambda t: t.conjugate(), lambda t: t.real,
        lambda t: t.diagonal(), lambda t: t.diagonal(1, 1, 0), lambda t: t.trace(), lambda t: t.trace(offset=-1),
        lambda t: t.trace(0, 0, 1, np.float32), lambda t: t.dot(t.T), lambda t: t[0].dot(t[1]), lambda t: t.dot(A.T),
        lambda t: t.compress([True, False, True]), lambda t: t.compress([True, False, True], axis=0),
        lambda t: t.swapaxes(0, 1), lambda t: t.clip(-1, 1), lambda t: t.repeat(2), lambda t: t.take([0, -1]),
        lambda t: t.astype(np.float32, "K", "same_kind", True, False), lambda t: t.flatten("F"),
        lambda t: t.take([0, 2], axis=1, mode="raise"), lambda t: t.take([0, 2], 1, None, "raise"),
        lambda t: t.clip(-1, 1, None), lambda t: t.compress([True, False, True], 0, None), lambda t: t.round(1, None),
        lambda t: t.dot(A.T, None), lambda t: t.trace(0, 0, 1, None, None),
        lambda t: divmod(t, 2.0)[0], lambda t: divmod(9.0, t)[1],
    ],
)  # fmt: skip
def test_recorded_methods_are_an_arrays(call):
    x = leaf(A)
    y, expected = call(x), call(A)
    assert y.requires_grad
    assert y.dtype == expected.dtype
    np.testing.assert_allclose(y.data, expected, rtol=1e-6 if y.dtype == np.float32 else 1e-14, strict=True)
    y.backward(np.ones(y.shape))
    assert np.isfinite(x.grad).all()


@pytest.mark.parametrize(
    "call",
    [
        lambda t: t.argmax(), lambda t: t.argmin(0), lambda t: t.argmax(-1, keepdims=True), lambda t: t.argsort(),
        lambda t: t.argsort(0), lambda t: t.argsort(axis=None, stable=True), lambda t: t.argpartition(1)[:, 1],
        lambda t: t[0].searchsorted(0.0), lambda t: t[1].searchsorted([0.0, 9.0], "right", np.argsort(A[1])),
        lambda t: t.argmax(1, None), lambda t: t.argsort(0, "stable"), lambda t: t.argsort(0, kind="stable"),
        lambda t: t.argpartition(1, 1, "introselect")[:, 1], lambda t: t.any(1, None, keepdims=True),
        lambda t: t.all(0, where=A > -9), lambda t: np.float64(t.item(3)), lambda t: np.float64(t.item(1, 2)),
        lambda t: t.any(), lambda t: t.all(0), lambda t: t.any(1, keepdims=True), lambda t: np.stack(t.nonzero()),
    ],
)  # fmt: skip
def test_plain_methods_are_an_arrays(call):
    result, expected = call(leaf(A)), call(A)
    assert isinstance(result, (np.ndarray, np.generic))
    np.testing.assert_array_equal(result, expected, strict=True)


def test_numbers_of_one_element_have_the_methods_too():
    x = leaf(-3.0)
    assert (x.nbytes, x.itemsize, x.argmax(), x.any(), x.all()) == (8, 8, 0, True, True)
    calls = (lambda t: t.copy(), lambda t: t.ravel(), lambda t: t.sum(0), lambda t: t.dot(2.0), lambda t: t.cumsum())
    for call in calls:
        np.testing.assert_array_equal(call(x).data, call(np.array(-3.0)))


def test_reshape_takes_the_copy_that_arrays_have_since_numpy_2_1():
    assert leaf(A).reshape((4, 3), copy=True).tolist() == A.reshape(4, 3).tolist()


def test_sizes_in_bytes():
    x = leaf(A, np.float32)
    assert (x.nbytes, x.itemsize, x.size) == (48, 4, 12)


def test_rounding_has_the_gradient_0():
    x = leaf([1.25, -2.5])
    y = x.round(1)
    assert y.tolist() == [1.2, -2.5]
    y.sum().backward()
    assert x.grad.tolist() == [0.0, 0.0]


def test_round_is_a_builtin_too():
    x = leaf([1.25, -2.5])
    assert round(x, 1).tolist() == [1.2, -2.5]
    assert round(x).tolist() == [1.0, -2.0]
    assert round(leaf(2.6)).item() == 3.0


def test_a_tensor_of_integers_chooses():
    x = leaf([1.0, 2.0])
    y = Tensor([1, 0]).choose([x, 10 * x])
    y.backward([1.0, 1.0])
    assert y.tolist() == [10.0, 2.0]
    np.testing.assert_array_equal(x.grad, [10.0, 1.0])


def test_a_copy_is_independent():
    x = leaf([1.0, 2.0])
    y = x.copy()
    assert not np.shares_memory(y.data, x.data)
    x.data[0] = 5.0
    assert y.tolist() == [1.0, 2.0]


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda t: t.sum(0, True), "data type"), (lambda t: t.max(0, np.zeros(4)), "out="),
        (lambda t: t.cumsum(out=np.zeros(12)), "out="), (lambda t: t.mean(dim=0), "axis="),
        (lambda t: t.sum(keepdim=True), "keepdims"), (lambda t: t.argmax(dim=0), r"argmax\(\) .*'dim'.*axis="),
        (lambda t: t.cumsum(dim=0), "axis="), (lambda t: t.squeeze(dim=0), "axis="), (lambda t: t.all(dim=0), "axis="),
        (lambda t: t.std(unbiased=False), r"ddof=0"), (lambda t: t.diagonal(dim1=0), "axis1="),
        (lambda t: t.backward(gradient=A), "cotangent="), (lambda t: t.backward(create_graph=True), r"ad\.gradients"),
        (lambda t: t.argsort(descending=True), "::-1"), (lambda t: t.clip(0, 1, out=A), "out="),
        (lambda t: t.astype(np.float32, casting="safe"), "casting="),
        (lambda t: t.compress([True], out=A), "out="), (lambda t: t.__delitem__(0), r"np\.delete"),
    ],
)  # fmt: skip
def test_refusals(call, says):
    with pytest.raises(TypeError, match=says):
        call(leaf(A))


@pytest.mark.parametrize(
    ("name", "hint"),
    [("sort", r"np\.sort\(t\)"), ("partition", r"np\.partition"), ("resize", r"np\.resize"), ("put", r"F\.set_at"),
     ("fill", r"np\.full_like"), ("flat", r"t\.ravel\(\)"), ("strides", r"t\.data\.strides"), ("imag", "real")],
)  # fmt: skip
def test_what_an_array_does_in_place_names_what_to_write(name, hint):
    with pytest.raises(AttributeError, match=hint):
        getattr(leaf(A), name)
