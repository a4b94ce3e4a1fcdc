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


NAMES = ("nansum", "nanprod", "nancumsum", "nancumprod", "cumulative_sum", "cumulative_prod")
SUMS = [name for name in NAMES if hasattr(np, name)]
WEIGHTS = np.array([1, 2])


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        *((name, dtype) for name in SUMS for dtype in (bool, np.int8, np.uint8, np.int64, np.float16, np.float32)),
        *((name, dtype) for name in ("cov", "corrcoef") for dtype in (np.float16, np.float32)),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_a_dtype_that_is_asked_for(name, dtype):
    function = getattr(np, name)
    for x in (np.array([3.0, 1.0, 2.0]), np.array([100, 100, 3], np.int16), np.array([True, True, False])):
        ours, theirs = function(Tensor(x), dtype=dtype), function(x, dtype=dtype)
        assert ours.dtype == theirs.dtype == dtype
        np.testing.assert_allclose(ours.data, theirs, rtol=2e-3)


@pytest.mark.skipif(not hasattr(np, "cumulative_sum"), reason="this NumPy has no running sums by that name")
def test_running_sums_in_a_dtype_begin_in_it():
    x = np.array([100, 100])
    y = np.cumulative_sum(Tensor(x), dtype=np.int8, include_initial=True)
    assert (y.dtype, y.tolist()) == (np.int8, np.cumulative_sum(x, dtype=np.int8, include_initial=True).tolist())


def test_what_is_not_a_number_is_left_out_before_a_cast_to_integers():
    x = np.array([np.nan, 3.0, 2.0])
    for function in (np.nansum, np.nanprod, np.nancumsum, np.nancumprod):
        assert function(Tensor(x), dtype=np.int32).tolist() == function(x, dtype=np.int32).tolist()


@pytest.mark.parametrize("settings", [{"aweights": WEIGHTS.astype(np.float32)}, {"fweights": WEIGHTS}, {"ddof": 0}])
def test_covariances_in_a_dtype(settings):
    x = np.array([[1, 2], [2, 0]], np.float32)
    for dtype in (np.float32, None):
        ours, theirs = np.cov(Tensor(x), dtype=dtype, **settings), np.cov(x, dtype=dtype, **settings)
        assert ours.dtype == theirs.dtype
        np.testing.assert_allclose(ours.data, theirs, rtol=1e-6)


def test_numbers_among_choices_take_the_type_of_the_arrays():
    for dtype in (np.float16, np.float32, np.int8):
        x = np.array([1, 2], dtype)
        for choices in ((x, 2.5), (3, x), (x, 2, 1.5), (x, np.float64(2.5))):
            ours = np.choose([0, 1], [Tensor(part) if part is x else part for part in choices])
            assert ours.dtype == np.choose([0, 1], list(choices)).dtype
            assert ours.tolist() == np.choose([0, 1], list(choices)).tolist()
