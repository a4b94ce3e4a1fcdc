"""relu, gelu, silu, swiglu, erf: worked numbers, the kink, large arguments, layouts, and pieces of any size."""

import contextlib
import importlib.util
import math
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

import autodiff as ad
import autodiff.functional as F
from autodiff import Tensor
from autodiff.functional import _blocks

RTOL = 1e-12

needs_scipy = pytest.mark.skipif(importlib.util.find_spec("scipy") is None, reason="the exact GELU needs SciPy")


def exact_gelu(x):
    return F.gelu(x, approximate="none")


ONE = [F.relu, F.silu, F.gelu, pytest.param(exact_gelu, marks=needs_scipy)]
ALL = [*ONE, F.swiglu]


def value_and_grads(f, *arrays, cotangent=None):
    """Value of f and its gradients, one for each array that f takes, as leaves of their own."""
    leaves = [Tensor(array, requires_grad=True) for array in arrays]
    y = f(*leaves)
    g = np.random.default_rng(0).normal(size=y.shape) if cotangent is None else cotangent
    y.backward(np.asarray(g, y.dtype))
    return y.data, *(x.grad for x in leaves)


def decomposed(f, *arrays, cotangent=None):
    with ad.decompose():
        return value_and_grads(f, *arrays, cotangent=cotangent)


def assert_close(ours, theirs, rtol=RTOL):
    """Compare to a relative tolerance of the largest value; of 1 at least, since small results come of differences."""
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol * np.max(np.abs(b), initial=1))


def layouts(array):
    """Return an array's values in other places of memory: column by column, with gaps, from the end."""
    gaps = np.zeros((*array.shape[:-1], 2 * array.shape[-1]), array.dtype)
    gaps[..., ::2] = array
    return [np.asfortranarray(array), gaps[..., ::2], np.ascontiguousarray(array[..., ::-1])[..., ::-1]]


# --- worked numbers ---


@pytest.mark.parametrize("mode", [value_and_grads, decomposed])
def test_silu_of_the_worked_example(mode):
    y, dx = mode(F.silu, [-2.0, -1.0, 0.0, 1.0, 2.0], cotangent=np.ones(5))
    np.testing.assert_allclose(y, [-0.238406, -0.268941, 0, 0.731059, 1.761594], atol=5e-7)
    np.testing.assert_allclose(dx, [-0.090784, 0.072329, 0.5, 0.927671, 1.090784], atol=5e-7)


def test_silu_of_known_data():
    x = np.array([[0.2352, 0.9259, 0.5189, 0.4725, 0.9730], [0.7581, 0.9692, 0.2129, 0.9345, 0.0149]])
    expected = [[0.131366, 0.663169, 0.325293, 0.291048, 0.706123], [0.516221, 0.702631, 0.117739, 0.670959, 0.007506]]
    np.testing.assert_allclose(F.silu(x), expected, atol=1e-6)


@pytest.mark.parametrize("mode", [value_and_grads, decomposed])
def test_gelu_is_gpt2s_unless_asked_otherwise(mode):
    y, _ = mode(F.gelu, [-2.0, -1.0, 1.0, 2.0])
    np.testing.assert_allclose(y, [-0.045402, -0.158808, 0.841192, 1.954598], atol=5e-7)


@needs_scipy
def test_exact_gelu():
    assert round(float(F.gelu(1.0, approximate="none")), 6) == 0.841345
    x = np.linspace(-6, 6, 12001)
    difference = np.abs(F.gelu(x) - F.gelu(x, approximate="none"))
    np.testing.assert_allclose(difference.max(), 4.73e-4, rtol=1e-3)
    np.testing.assert_allclose(abs(x[difference.argmax()]), 2.70, atol=0.01)
    expected = [0.5 * t * math.erfc(-t / math.sqrt(2)) for t in x]
    np.testing.assert_allclose(F.gelu(x, approximate="none"), expected, rtol=1e-12)  # also where 1 + erf(x) cancels


@needs_scipy
def test_erf_and_its_derivatives():
    x = Tensor([-0.5, 0.0, 1.5], requires_grad=True)
    y = F.erf(x)
    np.testing.assert_allclose(y.data, [math.erf(t) for t in (-0.5, 0.0, 1.5)], rtol=RTOL)
    first = ad.gradients(y.sum(), x, create_graph=True)
    slope = 2 / math.sqrt(math.pi) * np.exp(-(x.data**2))
    np.testing.assert_allclose(first.data, slope, rtol=RTOL)
    np.testing.assert_allclose(ad.gradients(first.sum(), x).data, -2 * x.data * slope, rtol=RTOL)


@pytest.mark.parametrize("mode", [value_and_grads, decomposed])
def test_relu_has_slope_zero_at_the_kink(mode):
    y, dx = mode(F.relu, [-1.0, -0.0, 0.0, 1e-300, 2.0], cotangent=np.full(5, 3.0))
    np.testing.assert_array_equal(y, [0.0, 0.0, 0.0, 1e-300, 2.0])
    np.testing.assert_array_equal(dx, [0.0, 0.0, 0.0, 3.0, 3.0])


@pytest.mark.parametrize("mode", [value_and_grads, decomposed])
def test_swiglu_is_the_product_of_silu_and_the_second(mode):
    u, v, g = np.random.default_rng(0).normal(size=(3, 4, 5))
    y, du, dv = mode(F.swiglu, u, v, cotangent=g)
    np.testing.assert_allclose(y, F.silu(u) * v, rtol=RTOL)
    np.testing.assert_allclose(dv, g * F.silu(u), rtol=RTOL)
    np.testing.assert_allclose(du, value_and_grads(F.silu, u, cotangent=g * v)[1], rtol=RTOL)


# --- any shape, any place in memory, any size of the pieces ---

arguments = npst.arrays(
    np.float64, npst.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=5),
    elements=st.floats(-30, 30, allow_subnormal=False),
)  # fmt: skip


@pytest.mark.parametrize("f", ONE)
@settings(max_examples=50)
@given(x=arguments)
def test_decomposition_layouts_and_pieces(f, x):
    ours = value_and_grads(f, x)
    assert ours[0].shape == ours[1].shape == x.shape
    assert_close(ours, decomposed(f, x))
    for other in layouts(x):
        assert_close(value_and_grads(f, other), ours, rtol=0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_blocks, "BLOCK", 24)  # three elements
        assert_close(value_and_grads(f, x), ours)


@given(npst.mutually_broadcastable_shapes(num_shapes=2, max_dims=3, max_side=4), st.integers(0, 99))
def test_swiglu_broadcasts(shapes, seed):
    rng = np.random.default_rng(seed)
    u, v = (3 * rng.normal(size=shape) for shape in shapes.input_shapes)
    ours = value_and_grads(F.swiglu, u, v)
    assert ours[0].shape == shapes.result_shape
    assert_close(ours, decomposed(F.swiglu, u, v))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_blocks, "BLOCK", 24)
        assert_close(value_and_grads(F.swiglu, u, v), ours)
    if u.ndim and v.ndim:
        for other_u, other_v in zip(layouts(u), layouts(v), strict=True):
            assert_close(value_and_grads(F.swiglu, other_u, other_v), ours)


def test_swiglu_where_only_one_argument_needs_a_gradient():
    u, v, g = np.random.default_rng(0).normal(size=(3, 2, 3))
    _, du, dv = value_and_grads(F.swiglu, u, v, cotangent=g)
    first, second = Tensor(u, requires_grad=True), Tensor(v, requires_grad=True)
    F.swiglu(first, v).backward(g)
    F.swiglu(u, second).backward(g)
    np.testing.assert_array_equal(first.grad, du)
    np.testing.assert_array_equal(second.grad, dv)


def test_a_large_array_is_walked_to_its_end():
    x = np.random.default_rng(0).normal(size=(301, 257)).astype(np.float32)
    y, dx = value_and_grads(F.gelu, x, cotangent=np.ones(x.shape))
    some = np.s_[::30, ::31]
    expected = value_and_grads(F.gelu, x[some], cotangent=np.ones(x[some].shape))
    assert_close([y[some], dx[some]], expected, rtol=1e-6)
    assert_close([y[-1], dx[-1]], value_and_grads(F.gelu, x[-1], cotangent=np.ones(257)), rtol=1e-6)


# --- large arguments, dtypes ---


@pytest.mark.parametrize("f", ALL)
@pytest.mark.parametrize("large", [1e4, 1e30])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_large_arguments_are_the_identity_or_nothing(f, large, dtype):
    x = np.array([large, -large, 0.0], dtype)
    arrays = [x, np.ones(3, dtype)][: 2 if f is F.swiglu else 1]
    y, dx, *rest = value_and_grads(f, *arrays, cotangent=np.ones(3))
    assert {a.dtype for a in (y, dx, *rest)} == {np.dtype(dtype)}
    np.testing.assert_array_equal(y, [x[0], 0, 0])
    np.testing.assert_array_equal(dx, [1, 0, 0 if f is F.relu else 0.5])


@pytest.mark.parametrize("f", ONE)
def test_infinity_is_passed_on_quietly(f):  # whatever the derivative is there
    assert f(np.inf) == f(Tensor(np.inf, requires_grad=True)).item() == np.inf


@pytest.mark.parametrize("f", ALL)
def test_float32_stays_float32(f):
    arrays = [np.linspace(-1, 1, 3, dtype=np.float32)] * (2 if f is F.swiglu else 1)
    for mode in (value_and_grads, decomposed):
        assert {a.dtype for a in mode(f, *arrays)} == {np.dtype(np.float32)}
    assert type(f(*[np.float32(0.5) for _ in arrays])) is np.float32


def test_swiglu_promotes_as_numpy_does():
    single, double = np.ones(2, np.float32), np.ones(2)
    assert F.swiglu(single, 2.0).dtype == np.float32
    assert F.swiglu(single, double).dtype == np.float64
    _, du, dv = value_and_grads(F.swiglu, single, double)
    assert (du.dtype, dv.dtype) == (np.float32, np.float64)


@pytest.mark.parametrize("f", ONE)
def test_numbers_lists_and_nan(f):
    one = f(np.array([1.0, -1.0]))
    np.testing.assert_array_equal(f([1, -1]), one)
    assert f(1.0) == f(Tensor(1.0)).item() == one[0]
    assert np.isnan(f(np.nan))
    assert f(Tensor(1.0, requires_grad=True)).shape == ()


# --- mistakes ---


@pytest.mark.parametrize("approximate", ["erf", "Tanh", True, None])
def test_gelu_knows_two_forms(approximate):
    for mode in (ad.no_grad(), ad.decompose()):
        with mode, pytest.raises(ValueError, match="'tanh'.*'none'.*" + repr(approximate)):
            F.gelu(Tensor(1.0), approximate=approximate)


def test_exact_gelu_without_scipy_names_the_command(monkeypatch):
    monkeypatch.setitem(sys.modules, "scipy.special", None)
    monkeypatch.setitem(sys.modules, "scipy", None)
    for call in (lambda: F.gelu(1.0, approximate="none"), lambda: F.erf(1.0)):
        with pytest.raises(ImportError, match="pip install scipy"):
            call()
    assert F.gelu(0.0) == 0


def test_swiglu_of_shapes_that_do_not_broadcast():
    with pytest.raises(ValueError, match="broadcast"):
        F.swiglu(Tensor(np.ones((2, 3))), np.ones(4))


# --- what PyTorch gives ---


@pytest.mark.parametrize("name", ["relu", "silu", "gelu", "exact_gelu", "swiglu"])
@settings(max_examples=30)
@given(x=arguments)
def test_as_in_pytorch(name, x):
    torch = pytest.importorskip("torch", reason="compared with PyTorch where it is installed")
    nn = torch.nn.functional
    if name == "exact_gelu":
        pytest.importorskip("scipy", reason="the exact GELU needs SciPy")
    ours, theirs = {
        "relu": (F.relu, nn.relu),
        "silu": (F.silu, nn.silu),
        "gelu": (F.gelu, lambda x: nn.gelu(x, approximate="tanh")),
        "exact_gelu": (exact_gelu, nn.gelu),
        "swiglu": (F.swiglu, lambda u, v: nn.silu(u) * v),
    }[name]
    arrays = [x, x[::-1] + 0.5] if name == "swiglu" else [x]
    leaves = [torch.tensor(np.ascontiguousarray(a), requires_grad=True) for a in arrays]
    y = theirs(*leaves)
    y.backward(torch.tensor(np.random.default_rng(0).normal(size=y.shape)))
    assert_close(value_and_grads(ours, *arrays), [y.detach().numpy(), *(leaf.grad.numpy() for leaf in leaves)])


def test_erf_of_large_numbers_has_gradient_zero():
    pytest.importorskip("scipy", reason="the error function needs SciPy, which is not installed")
    x = Tensor([1e200, -1e200], requires_grad=True)
    F.erf(x).sum().backward()
    assert x.grad.tolist() == [0.0, 0.0]


@pytest.mark.parametrize("recorded", [contextlib.nullcontext, ad.decompose], ids=["fused", "decomposed"])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize(
    "f",
    [
        F.relu, F.silu, F.gelu, lambda x: F.swiglu(x, np.ones_like(x.data)),
        pytest.param(lambda x: F.gelu(x, approximate="none"), marks=needs_scipy),
    ],
    ids=["relu", "silu", "gelu", "swiglu", "exact gelu"],
)  # fmt: skip
def test_limits_at_infinite_and_huge_numbers(f, dtype, recorded):
    large = np.array([1e3, float(np.finfo(dtype).max) / 4, np.inf], dtype)
    x = np.concatenate([-large, large, [0, 1]]).astype(dtype)
    leaf = Tensor(x, requires_grad=True)
    with recorded():
        y = f(leaf)
        y.backward(np.ones_like(x))
    assert y.data[:6].tolist() == [0, 0, 0, *large.tolist()]
    assert leaf.grad[:6].tolist() == [0, 0, 0, 1, 1, 1]
    ordinary = Tensor(x[6:], requires_grad=True)
    f(ordinary).sum().backward()
    np.testing.assert_allclose(leaf.grad[6:], ordinary.grad, rtol=1e-3 if dtype == np.float16 else 1e-6)


def test_gated_units_and_second_derivatives_at_infinity():
    u, v = Tensor([-np.inf, np.inf], requires_grad=True), Tensor([2.0, 3.0], requires_grad=True)
    F.swiglu(u, v).backward(np.ones(2))
    assert u.grad.tolist() == [0, 3]
    assert v.grad.tolist() == [0, np.inf]
    for f in (F.silu, F.gelu):
        assert [ad.grad(ad.grad(f))(x) for x in (-np.inf, -1e30, 1e30, np.inf)] == [0, 0, 0, 0]


def test_nan_and_its_gradient_stay_nan():
    for f in (F.silu, F.gelu):
        x = Tensor([np.nan, -np.inf], requires_grad=True)
        y = f(x)
        y.backward(np.ones(2))
        assert np.isnan(y.data).tolist() == np.isnan(x.grad).tolist() == [True, False]


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("recorded", [contextlib.nullcontext, ad.decompose], ids=["fused", "decomposed"])
def test_relu_passes_nan_on_in_both_directions(recorded, dtype):
    x = Tensor(np.array([np.nan, -np.inf, -1, 0, 2, np.inf], dtype), requires_grad=True)
    with recorded():
        y = F.relu(x)
        y.backward(np.arange(1, 7).astype(dtype))
    np.testing.assert_array_equal(y.data, [np.nan, 0, 0, 0, 2, np.inf])
    np.testing.assert_array_equal(x.grad, [1, 0, 0, 0, 5, 6])
