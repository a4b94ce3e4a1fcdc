"""Composed functions on drawn shapes (of 0 axes to 3, lengths from 0), and what they refuse."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

import autodiff as ad
from autodiff import Tensor

SHAPES = npst.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)
ANY = {
    "ptp": np.ptp, "average": np.average, "nansum": np.nansum, "nanmean": np.nanmean, "nanprod": np.nanprod,
    "nanmax": np.nanmax, "nanmin": np.nanmin, "nanvar": np.nanvar, "nanstd": np.nanstd, "nancumsum": np.nancumsum,
    "nancumprod": np.nancumprod, "trace": np.trace, "diagonal": np.diagonal, "diag": np.diag, "diagflat": np.diagflat,
    "diff": np.diff, "ediff1d": np.ediff1d, "gradient": np.gradient, "trapezoid": np.trapezoid, "ravel": np.ravel,
    "ravel F": lambda x: np.ravel(x, "F"), "atleast_1d": np.atleast_1d, "atleast_2d": np.atleast_2d,
    "atleast_3d": np.atleast_3d, "roll": lambda x: np.roll(x, 2), "roll 0": lambda x: np.roll(x, -1, 0),
    "roll all": lambda x: np.roll(x, 5, tuple(range(x.ndim)) or None), "rot90": np.rot90, "fliplr": np.fliplr,
    "flipud": np.flipud, "matrix_transpose": np.matrix_transpose, "resize": lambda x: np.resize(x, (2, 3)),
    "copy": np.copy, "hstack": lambda x: np.hstack([x, x]), "vstack": lambda x: np.vstack([x, x]),
    "dstack": lambda x: np.dstack([x, x]), "column_stack": lambda x: np.column_stack([x, x]),
    "append": lambda x: np.append(x, x), "block": lambda x: np.block([[x, x], [x, x]]),
    "array_split": lambda x: np.array_split(x, 3), "hsplit": lambda x: np.hsplit(x, [1]),
    "vsplit": lambda x: np.vsplit(x, [1]), "dsplit": lambda x: np.dsplit(x, [1]), "vdot": lambda x: np.vdot(x, x),
    "dot": lambda x: np.dot(x, x.T), "dot self": lambda x: np.dot(x, x), "inner": lambda x: np.inner(x, x),
    "outer": lambda x: np.outer(x, x), "kron": lambda x: np.kron(x, x), "tensordot": lambda x: np.tensordot(x, x, 1),
    "vecdot": lambda x: np.vecdot(x, x), "norm": np.linalg.norm, "norm 3": lambda x: np.linalg.norm(x, 3),
    "norm 1": lambda x: np.linalg.norm(x, 1), "norm -1": lambda x: np.linalg.norm(x, 1, axis=-1),
    "vector_norm": np.linalg.vector_norm, "matrix_norm": np.linalg.matrix_norm,
    "compress": lambda x: np.compress([True], x, axis=0), "delete": lambda x: np.delete(x, [0]),
    "delete 0": lambda x: np.delete(x, 0, 0), "insert": lambda x: np.insert(x, 0, 1.0),
    "insert 0": lambda x: np.insert(x, [0], 1.0, axis=-1), "meshgrid": lambda x: np.meshgrid(x, x),
}  # fmt: skip


def leaf(data, dtype=float):
    return Tensor(np.array(data, dtype), requires_grad=True)


def outcome(call, x):
    """Return a call's results as a list, or that it raised."""
    try:
        with np.errstate(all="ignore"):
            results = call(x)
    except Exception as error:  # every error of NumPy's is to be one of ours
        return type(error)
    return list(results) if isinstance(results, (tuple, list)) else [results]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of means of nothing
@pytest.mark.parametrize("name", ANY)
@settings(max_examples=25)
@given(shape=SHAPES)
def test_any_shape_as_numpy(name, shape):
    a = np.cos(np.arange(np.prod(shape, dtype=int)).reshape(shape) + 1.0)
    theirs, ours = outcome(ANY[name], a), outcome(ANY[name], leaf(a))
    if isinstance(theirs, type):
        assert isinstance(ours, type), (theirs, ours)
        assert issubclass(ours, (ValueError, IndexError, TypeError, ZeroDivisionError))
        return
    assert not isinstance(ours, type), ours
    assert len(ours) == len(theirs)
    for y, expected in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(y.data, expected, rtol=1e-12, atol=1e-14, strict=True)


@pytest.mark.parametrize("name", sorted(ANY.keys() - {"nanmean", "nanvar", "nanstd", "average"}))
@settings(max_examples=25)
@given(shape=SHAPES)
def test_gradients_are_along_any_direction(name, shape):
    """The gradient times a direction is the slope in it, also where there are no elements, or one."""
    a = np.cos(np.arange(np.prod(shape, dtype=int)).reshape(shape) + 1.0)
    if isinstance(outcome(ANY[name], a), type):
        return
    x = leaf(a)
    ys = [y for y in outcome(ANY[name], x) if y.requires_grad]
    if not ys:
        return
    weights = [np.sin(np.arange(y.size).reshape(y.shape)) + 0.3 for y in ys]
    gradient = ad.gradients(ys, x, weights)
    assert gradient.shape == shape
    direction, h = np.sin(a * 7.0), 1e-6

    def value(t):
        return sum(np.sum(w * y) for w, y in zip(weights, outcome(ANY[name], t), strict=True))

    slope = (value(a + h * direction) - value(a - h * direction)) / (2 * h)
    assert np.sum(gradient.data * direction) == pytest.approx(slope, rel=1e-5, abs=1e-7)


@given(
    shape=npst.array_shapes(min_dims=1, max_dims=3, max_side=4), data=st.data(), keepdims=st.booleans(),
    name=st.sampled_from(["nansum", "nanprod", "nanmean", "nanvar", "nanstd", "nanmax", "nanmin"]),
)  # fmt: skip
def test_leaving_out_nan(shape, data, keepdims, name):
    """Gradients are those of the numbers that are left, and 0 elsewhere."""
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    a = rng.permutation(np.prod(shape)).reshape(shape) * 0.3 - 1.1
    a[rng.random(shape) < 0.3] = np.nan
    a.reshape(-1)[0] = 0.5
    f, x = getattr(np, name), leaf(a)
    y = f(x, axis=None, keepdims=keepdims)
    np.testing.assert_allclose(y.data, f(a, keepdims=keepdims), rtol=1e-12)
    y.backward(np.ones(y.shape))
    present = leaf(a[~np.isnan(a)])
    getattr(np, name.removeprefix("nan"))(present).backward()
    np.testing.assert_allclose(x.grad[~np.isnan(a)], present.grad, rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(x.grad[np.isnan(a)], 0.0)


# --- what is refused ---


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (lambda x: np.average(x, weights=[1.0, -1.0], axis=1), ZeroDivisionError, "add up to 0"),
        (lambda x: np.average(x, weights=[1.0, 2.0, 3.0], axis=1), ValueError, r"weights of shape \(3,\)"),
        (lambda x: np.average(x, weights=[1.0, 2.0]), ValueError, "axis=None"),
        (lambda x: np.gradient(x, 1.0, 1.0, 1.0), TypeError, "2"),
        (lambda x: np.gradient(x, edge_order=3), ValueError, "edge_order"),
        (lambda x: np.gradient(x, edge_order=2), ValueError, "needs 3"),
        (lambda x: np.gradient(x, [1.0, 2.0, 3.0], axis=0), ValueError, r"positions of shape \(3,\)"),
        (lambda x: np.diff(x, axis=2), ValueError, "axis 2"),
        (lambda x: np.ravel(x, "K"), ValueError, "depends on the layout"),
        (lambda x: np.roll(x, 1, 2), ValueError, "axis 2"),
        (lambda x: np.rot90(x, axes=(0, -2)), ValueError, "two different axes"),
        (lambda x: np.rollaxis(x, 0, 4), ValueError, "start"),
        (lambda x: np.resize(x, (-1, 2)), ValueError, "negative"),
        (lambda x: np.meshgrid(x[0], indexing="yx"), ValueError, "'xy' or 'ij'"),
        (lambda x: np.block([[x], x]), ValueError, "deeper"),
        (lambda x: np.block([x, []]), ValueError, "empty"),
        (lambda x: np.block([(x, x), x]), TypeError, "tuples"),
        (lambda x: np.array_split(x, 0), ValueError, "positive"),
        (lambda x: np.compress([[True]], x), ValueError, "one axis"),
        (lambda x: np.compress([False] * 9 + [True], x), IndexError, "out of bounds"),
        (lambda x: np.choose(np.array([2]), [x, x]), ValueError, "between 0 and 1"),
        (lambda x: np.choose(np.array([2]), [x, x], mode="w"), ValueError, "mode 'w'"),
        (lambda x: np.delete(x, 9), IndexError, "9"),
        (lambda x: np.insert(x, 9, 0.0), IndexError, "9"),
        (lambda x: np.insert(x, [0, 1], [1.0, 2.0, 3.0]), ValueError, "broadcast"),
        (lambda x: np.tensordot(x, x, 3), ValueError, "axes=3"),
        (lambda x: np.tensordot(x, np.ones(3), 1), ValueError, "do not fit"),
        (lambda x: np.cross(x, np.ones(4)), ValueError, "two components or three"),
        (lambda x: np.linalg.cross(x, x), ValueError, "three components"),
        (lambda x: np.linalg.outer(x, x[0]), ValueError, "two vectors"),
        (lambda x: np.linalg.vecdot(x, np.ones(1)), ValueError, "components"),
        (lambda x: np.convolve(x, [1.0]), ValueError, "two sequences"),
        (lambda x: np.convolve(x[0], [1.0], "some"), ValueError, "'full', 'same', 'valid'"),
        (lambda x: np.vander(x), ValueError, "of a vector"),
        (lambda x: np.diag(x[None]), ValueError, "vector or a matrix"),
        (lambda x: np.linalg.norm(x, "nuk"), ValueError, "'nuk'"),
        (lambda x: np.linalg.norm(x, 3), ValueError, "order 3"),
        (lambda x: np.linalg.norm(x[0], "fro"), ValueError, "'fro'"),
        (lambda x: np.linalg.norm(x[None], 2), ValueError, "one axis or two"),
        (lambda x: np.linalg.norm(x, axis=2), ValueError, "axis 2"),
    ],
)
def test_refusals(call, error, says):
    with pytest.raises(error, match=says):
        call(leaf([[1.0, 2.0], [3.0, 5.0]]))


@pytest.mark.parametrize(
    "call",
    [
        lambda x: np.fill_diagonal(x, 0.0), lambda x: np.put(x, [0], 1.0), lambda x: np.place(x, x > 0, 1.0),
        lambda x: np.copyto(x, 1.0), lambda x: np.putmask(x, x.data > 0, 1.0), lambda x: np.copyto(np.ones((2, 2)), x),
        lambda x: np.put_along_axis(x, np.zeros((2, 1), int), 1.0, 1),
    ],
)  # fmt: skip
def test_writing_in_place_is_refused(call):
    x = leaf([[1.0, 2.0], [3.0, 5.0]])
    with pytest.raises(TypeError, match=r"F\.set_at\(t, index, value\) or np\.where"):
        call(x)
    np.testing.assert_array_equal(x.data, [[1.0, 2.0], [3.0, 5.0]])
