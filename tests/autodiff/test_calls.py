"""Calls with arguments left out: accepted and refused as NumPy does."""

import numpy as np
import pytest

from autodiff import Tensor

ARRAYS = [np.array(2.0), np.array([1.0]), np.array([0.0, 2.0]), np.array([[1.0, 0.0], [3.0, 4.0]])]

CALLS = {
    "t.reshape()": lambda a: a.reshape(),
    "t.reshape(())": lambda a: a.reshape(()),
    "t.reshape(order=)": lambda a: a.reshape(order="C"),
    "t.transpose()": lambda a: a.transpose(),
    "t.ravel(None)": lambda a: a.ravel(None),
    "t.flatten(None)": lambda a: a.flatten(None),
    "np.ravel(t, None)": lambda a: np.ravel(a, None),
    "t.astype(None)": lambda a: a.astype(None),
    "t.astype()": lambda a: a.astype(),
    "t.clip(1)": lambda a: a.clip(1),
    "t.take()": lambda a: a.take(),
    "t.take([])": lambda a: a.take([]),
    "t.repeat()": lambda a: a.repeat(),
    "t.dot()": lambda a: a.dot(),
    "t.swapaxes(0)": lambda a: a.swapaxes(0),
    "np.where(t)": lambda a: np.where(np.atleast_1d(a)),
    "np.where(t > 1)": lambda a: np.where(np.atleast_1d(a > 1)),
    "np.where(t, t)": lambda a: np.where(a, a),
    "np.clip(t, 1)": lambda a: np.clip(a, 1),
    "np.clip(t, a_max=)": lambda a: np.clip(a, a_max=1),
    "np.clip(t, None, 1)": lambda a: np.clip(a, None, 1),
    "np.full_like(t, 2, int)": lambda a: np.full_like(a, 2, int),
    "np.full_like(t)": lambda a: np.full_like(a),
    "np.float_power(t)": lambda a: np.float_power(a),
    "np.float_power(t, None)": lambda a: np.float_power(a, None),
    "np.diff(t, 0)": lambda a: np.diff(a, 0),
    "np.gradient(t, 1)": lambda a: np.gradient(a, 1),
    "np.convolve(t, 2)": lambda a: np.convolve(a, 2.0),
    "np.take(t)": lambda a: np.take(a),
    "np.stack(t)": np.stack,
    "np.concatenate()": lambda a: np.concatenate(),
    "np.tile(t)": lambda a: np.tile(a),
    "np.interp(t)": lambda a: np.interp(a),
    "np.arctan2(t)": lambda a: np.arctan2(a),
}
if hasattr(np, "vecmat"):  # with NumPy 2.1 and 2.2
    CALLS |= {"np.cumulative_sum(t)": np.cumulative_sum, "np.cumulative_prod(t)": np.cumulative_prod}
    CALLS |= {"np.matvec(t, t)": lambda a: np.matvec(a, a), "np.vecmat(t, t)": lambda a: np.vecmat(a, a)}


def result(call, array):
    try:
        return call(array)
    except (TypeError, ValueError) as error:
        return type(error)


@pytest.mark.parametrize("array", ARRAYS, ids=np.shape)
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_call_is_taken_or_refused_as_by_numpy(call, array):
    expected, found = result(call, array), result(call, Tensor(array, requires_grad=True))
    if isinstance(expected, type):
        assert found is expected
        return
    for ours, theirs in zip(*(r if isinstance(r, (tuple, list)) else (r,) for r in (found, expected)), strict=True):
        np.testing.assert_array_equal(getattr(ours, "data", ours), theirs)
        assert ours.dtype == theirs.dtype


def test_places_carry_no_gradient_and_are_plain():
    rows, columns = np.where(Tensor([[0.0, 1.0], [2.0, 0.0]], requires_grad=True))
    assert type(rows) is np.ndarray
    assert (rows.tolist(), columns.tolist()) == ([0, 1], [1, 0])


@pytest.mark.parametrize("mode", ["wrap", "clip"])
@pytest.mark.parametrize("axis", [None, 0, -1])
def test_take_counts_on_or_stops_at_the_ends(mode, axis):
    array, places = np.arange(6.0).reshape(2, 3), np.array([[-7, 1], [8, 2]])
    x = Tensor(array, requires_grad=True)
    y = np.take(x, Tensor(places), axis, mode=mode)
    np.testing.assert_array_equal(y.data, np.take(array, places, axis, mode=mode))
    np.testing.assert_array_equal(x.take(places, axis, None, mode).data, y.data)
    y.sum().backward()
    expected = np.zeros(6)
    np.add.at(expected, np.take(array, places, axis, mode=mode).astype(int), 1)
    np.testing.assert_array_equal(x.grad.ravel(), expected)


def test_take_refuses_other_modes_and_places_that_do_not_exist():
    x = Tensor([1.0, 2.0], requires_grad=True)
    with pytest.raises(ValueError, match="mode 'nearest' is not one of"):
        np.take(x, [0], mode="nearest")
    with pytest.raises(IndexError):
        np.take(x, [2])
    with pytest.raises(TypeError, match="with a mask write"):
        np.take(x, [True, False], mode="wrap")


@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.einsum("i,ij->j", [1.0, 2.0], x), lambda x: np.einsum([1.0, 2.0], [0], x, [0, 1], [1]),
        lambda x: np.einsum("ij,j->i", x, (1, 2, 3)), lambda x: np.reshape(x, (3, 2), copy=True),
        lambda x: np.reshape(x, (3, 2), order="F", copy=None),
    ],
)  # fmt: skip
def test_lists_and_settings_as_numpy_takes_them(f):
    a = np.arange(6.0).reshape(2, 3)
    try:
        right = f(a)
    except TypeError:
        pytest.skip("NumPy 2.0 has no setting copy")
    np.testing.assert_array_equal(f(Tensor(a, requires_grad=True)).data, right)


@pytest.mark.parametrize("f", [np.sum, np.prod, np.max, np.min])
def test_an_initial_value_is_one_number(f):
    for initial in ([1.0], np.ones(3), np.ones((1, 1))):
        with pytest.raises(ValueError, match="initial must be one number"):
            f(Tensor(np.ones((2, 3)), requires_grad=True), initial=initial)


@pytest.mark.parametrize(("num", "endpoint"), [(1, True), (0, True), (0, False), (1, False), (3, True)])
def test_the_step_of_linspace_has_numpys_shape(num, endpoint):
    ends = np.arange(5.0), 7.0
    right = np.linspace(*ends, num, endpoint, retstep=True)[1]
    step = np.linspace(Tensor(ends[0], requires_grad=True), ends[1], num, endpoint, retstep=True)[1]
    assert np.shape(step) == np.shape(right)
    np.testing.assert_array_equal(np.asarray(getattr(step, "data", step)), right)


def test_what_goes_through_a_tensor_element_by_element_is_told_of_its_data():
    x = Tensor(1.0, requires_grad=True)
    for call in (len, iter, list):
        with pytest.raises(TypeError, match=r"a tensor of shape \(\).* for another library, take t\.data"):
            call(x)


def test_a_polynomial_object_is_told_of_its_coefficients():
    p, x = np.poly1d([1.0, 2.0]), Tensor([1.0, 2.0], requires_grad=True)
    for call in (lambda: p + x, lambda: p - x, lambda: p * x, lambda: np.poly1d(x)):
        with pytest.raises(TypeError, match=r"of a poly1d p, p\.coeffs"):
            call()
