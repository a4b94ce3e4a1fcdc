"""Dtypes of results: NumPy's, for tensors of every dtype, integers and booleans too."""

import warnings

import numpy as np
import pytest

from autodiff import Tensor
from autodiff.node import TWINS
from autodiff.protocols import METHODS, full_name

DTYPES = (bool, np.int8, np.float32)
OTHERS = (np.uint8, np.int32, np.int64, np.float16, np.float64)
ARRAYS = (np.array([1, 0, 1]), np.array([[1, 1], [0, 1]]))
KEPT = {np.interp}  # in the precision of its arguments, as its documentation says


def parts(result):
    return result if isinstance(result, (tuple, list)) else [result]


def calls(function, x, mask):
    if isinstance(function, np.ufunc):
        return [[x] * function.nin, [x, 2][: function.nin], [x, 0.5][: function.nin], [x, np.int8(3)][: function.nin]]
    return (
        [x], [x, x], [[x, x]], [x, 1], [x, 2], [x, 0.5], [x, x, x], [x, np.float32(0.5)], [x, np.array([1, 0])],
        ["i,i", x, x], [mask, x, x], [mask, x, 1.5], [[mask], [x]], [x, 0, x],
    )  # fmt: skip


@pytest.mark.parametrize("dtypes", [DTYPES, pytest.param(OTHERS, marks=pytest.mark.slow)], ids=["common", "others"])
@pytest.mark.parametrize("function", TWINS, ids=full_name)
@pytest.mark.filterwarnings("ignore")
def test_dtypes_of_twins(function, dtypes):
    for dtype in dtypes:
        for x in (array.astype(dtype) for array in ARRAYS):
            for ours, theirs in zip(calls(function, Tensor(x), x > 0), calls(function, x, x > 0), strict=True):
                try:
                    expected = [part.dtype for part in parts(function(*theirs))]
                    found = [part.dtype for part in parts(function(*ours))]
                except (TypeError, ValueError, IndexError, AttributeError, ArithmeticError, np.linalg.LinAlgError):
                    continue  # no call of this function
                assert found == expected or function in KEPT, (dtype, ours)


@pytest.mark.parametrize("dtype", DTYPES + OTHERS)
@pytest.mark.filterwarnings("ignore")
def test_dtypes_of_methods_and_settings(dtype):
    x = ARRAYS[1].astype(dtype)
    t = Tensor(x)
    named = {f"{full_name(ufunc)}.{name}": getattr(ufunc, name) for ufunc, name in METHODS}
    named |= {name: getattr(np, name) for name in ("sum", "prod", "mean", "cumsum", "cumprod", "trace", "max")}
    for name, function in named.items():
        for settings in ({}, {"axis": 0}, {"dtype": np.int32}, {"dtype": np.float32}):
            try:
                expected = function(x, **settings)
            except TypeError:
                continue
            assert function(t, **settings).dtype == expected.dtype, (name, settings)
    assert (t**2).dtype == (x**2).dtype
    assert np.linalg.matrix_power(t, 0).dtype == x.dtype


def test_values_of_integers():
    x = np.array([[1, 2], [3, 4]])
    np.testing.assert_array_equal(np.vecdot(Tensor(x), Tensor(x)), np.vecdot(x, x)) if hasattr(np, "vecdot") else None
    fraction, whole = np.modf(Tensor([3, -2]))
    assert (fraction.tolist(), whole.tolist()) == ([0.0, -0.0], [3.0, -2.0])
    assert np.sum(Tensor([100, 100]), dtype=np.int8).item() == np.sum([100, 100], dtype=np.int8)
    assert np.quantile(Tensor([3, 1, 2]), [0, 1]).tolist() == [1, 3]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        slopes = np.gradient(Tensor([1.0, 2.0, 4.0]), np.array([3, 2, 0], np.uint8))
    np.testing.assert_allclose(slopes.data, [-1.0, -1.0, -1.0])


def test_gradients_of_what_integers_have_changed():
    x, y = (Tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True) for _ in range(2))
    (np.linalg.vecdot(x, y) * np.array([1.0, 10.0])).sum().backward()
    assert x.grad.tolist() == [[1.0, 2.0], [30.0, 40.0]]
    z = Tensor([3.0, 1.0, 2.0], requires_grad=True)
    np.quantile(z, np.array([0, 1])).backward([1.0, 10.0])
    assert z.grad.tolist() == [10.0, 1.0, 0.0]
