"""layer_norm and rms_norm: worked numbers, the geometry of their gradients, rows at the edge, and what is refused."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

import autodiff as ad
import autodiff.functional as F
from autodiff import Tensor

RTOL = 1e-12


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


@st.composite
def calls(draw):
    """An op, the arrays that it is called with, and its eps."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    shape = draw(npst.array_shapes(max_dims=3, max_side=5))
    x = rng.normal(loc=draw(st.sampled_from([0.0, 3.0])), scale=draw(st.sampled_from([0.1, 1.0, 30.0])), size=shape)
    name = draw(st.sampled_from(["layer_norm", "rms_norm"]))
    present = draw(st.tuples(st.booleans(), *([st.booleans()] if name == "layer_norm" else [])))
    parameters = [rng.normal(size=shape[-1]) if there else None for there in present]
    eps = draw(st.sampled_from([1e-5, 1e-3, 0.5]))

    def f(x, *given):
        rest = iter(given)
        return getattr(F, name)(x, *[None if p is None else next(rest) for p in parameters], eps=eps)

    return name, f, [x, *[p for p in parameters if p is not None]], parameters, eps


def formula(name, x, parameters, eps):
    centred = x - x.mean(-1, keepdims=True) if name == "layer_norm" else x
    y = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + eps)
    y = y if parameters[0] is None else y * parameters[0]
    return y if len(parameters) == 1 or parameters[1] is None else y + parameters[1]


@given(calls())
def test_value_decomposition_and_layouts(call):
    name, f, arrays, parameters, eps = call
    ours = value_and_grads(f, *arrays)
    np.testing.assert_allclose(ours[0], formula(name, arrays[0], parameters, eps), rtol=1e-10, atol=1e-10)
    if arrays[0].shape[-1] > 1:
        assert_close(ours, decomposed(f, *arrays))
    for other in layouts(arrays[0]):
        assert_close(value_and_grads(f, other, *arrays[1:]), ours)


@settings(max_examples=30)
@given(calls())
def test_as_in_pytorch(call):
    torch = pytest.importorskip("torch", reason="compared with PyTorch where it is installed")
    name, f, arrays, parameters, eps = call
    leaves = [torch.tensor(array, requires_grad=True) for array in arrays]
    rest = iter(leaves[1:])
    given = [None if p is None else next(rest) for p in parameters]
    y = getattr(torch.nn.functional, name)(leaves[0], arrays[0].shape[-1:], *given, eps=eps)
    y.backward(torch.tensor(np.random.default_rng(0).normal(size=y.shape)))
    theirs = [y.detach().numpy(), *(x.grad.numpy() for x in leaves)]
    ours = value_and_grads(f, *arrays)
    if arrays[0].shape[-1] == 1 and name == "layer_norm":  # PyTorch's gradient of a row of one element is rounding
        theirs[1] = np.zeros_like(theirs[1])
    assert_close(ours, theirs)


# --- worked numbers, and where the gradient points ---


@pytest.mark.parametrize("mode", [value_and_grads, decomposed])
def test_layer_norm_of_the_worked_example(mode):
    y, dx = mode(F.layer_norm, [1.0, 2.0, 3.0, 4.0], cotangent=[1.0, 0.0, 0.0, 0.0])
    np.testing.assert_allclose(y, [-1.341635, -0.447212, 0.447212, 1.341635], atol=5e-7)
    np.testing.assert_allclose(dx, [0.268330, -0.357768, -0.089443, 0.178882], atol=5e-7)
    np.testing.assert_allclose(dx.sum(), 0, atol=1e-15)
    np.testing.assert_allclose(dx @ y, -9.6e-6, rtol=0.01)  # not 0: of the order of eps


@pytest.mark.parametrize("mode", [value_and_grads, decomposed])
def test_rms_norm_of_the_worked_example(mode):
    x = np.array([1.0, 2.0, 3.0, 4.0])
    y, dx = mode(F.rms_norm, x, cotangent=[1.0, 0.0, 0.0, 0.0])
    np.testing.assert_allclose(y, [0.365148, 0.730296, 1.095444, 1.460593], atol=5e-7)
    np.testing.assert_allclose(dx, [0.352977, -0.024343, -0.036515, -0.048686], atol=5e-7)
    np.testing.assert_allclose(dx @ x, 4.9e-7, rtol=0.01)


def test_without_eps_the_gradient_is_a_projection():
    x = np.random.default_rng(3).normal(size=(4, 5))
    xhat, dx = value_and_grads(lambda x: F.layer_norm(x, eps=0.0), x)
    np.testing.assert_allclose(dx.sum(-1), 0, atol=1e-14)
    np.testing.assert_allclose((dx * xhat).sum(-1), 0, atol=1e-14)
    y, dx = value_and_grads(lambda x: F.rms_norm(x, eps=0.0), x)
    np.testing.assert_allclose((dx * y).sum(-1), 0, atol=1e-14)


def test_gain_and_bias_get_sums_over_all_rows():
    x, g = np.random.default_rng(4).normal(size=(2, 2, 3, 4))
    _, _, dgamma, dbeta = value_and_grads(F.layer_norm, x, np.full(4, 2.0), np.ones(4), cotangent=g)
    xhat = F.layer_norm(x)
    np.testing.assert_allclose(dgamma, (g * xhat).sum((0, 1)), rtol=RTOL)
    np.testing.assert_allclose(dbeta, g.sum((0, 1)), rtol=RTOL)


@pytest.mark.parametrize(
    "wanted", [(True, False, False), (False, True, False), (False, False, True), (True, False, True)]
)
def test_arguments_that_need_no_gradient_change_nothing_for_the_others(wanted):
    arrays = np.random.default_rng(5).normal(size=(3, 3, 3))
    arrays = [arrays[0], arrays[1, 0], arrays[2, 0]]
    every = value_and_grads(F.layer_norm, *arrays, cotangent=np.eye(3))[1:]
    leaves = [Tensor(array, requires_grad=need) for array, need in zip(arrays, wanted, strict=True)]
    F.layer_norm(*leaves).backward(np.eye(3))
    for leaf, need, expected in zip(leaves, wanted, every, strict=True):
        assert (leaf.grad is not None) == need
        if need:
            np.testing.assert_array_equal(leaf.grad, expected)


# --- rows at the edge, dtypes, mistakes ---


@pytest.mark.parametrize("f", [F.layer_norm, F.rms_norm])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_constant_rows_large_values_and_rows_of_one_are_finite(f, dtype):
    rows = np.array([[1e4] * 4, [-1e4] * 4, [0.0] * 4, [1e4, -1e4, 1e4, -1e4], [1e4, 0, 0, 0], [1e-4] * 4], dtype)
    for x in (rows, rows[:, :1]):
        gamma = np.full(x.shape[-1], 0.5, dtype)
        for mode in (value_and_grads, decomposed):
            results = mode(f, x, gamma)
            assert all(np.isfinite(result).all() and result.dtype == dtype for result in results)
    np.testing.assert_array_equal(F.layer_norm(rows)[:3], 0)
    np.testing.assert_array_equal(F.rms_norm(rows)[2], 0)
    np.testing.assert_allclose(F.rms_norm(rows)[0], 1, rtol=1e-6)


def test_a_constant_row_gives_the_bias():
    np.testing.assert_array_equal(F.layer_norm(np.full((2, 3), 7.0), None, np.array([1.0, 2.0, 3.0])), [[1, 2, 3]] * 2)


@pytest.mark.parametrize("eps", [1e-5, np.float64(1e-5), 1])
def test_float32_stays_float32(eps):
    x, gamma, beta = (np.ones(shape, np.float32) for shape in ((2, 3), 3, 3))
    for mode in (value_and_grads, decomposed):
        assert {a.dtype for a in mode(lambda *a: F.layer_norm(*a, eps=eps), x, gamma, beta)} == {np.dtype(np.float32)}
        assert {a.dtype for a in mode(lambda *a: F.rms_norm(*a, eps=eps), x, gamma)} == {np.dtype(np.float32)}


def test_a_wider_gain_widens_the_result_and_each_gradient_keeps_its_type():
    y, dx, dgamma = value_and_grads(F.layer_norm, np.eye(3, dtype=np.float32), np.ones(3))
    assert (y.dtype, dx.dtype, dgamma.dtype) == (np.float64, np.float32, np.float64)


def test_integers_and_lists_are_taken():
    np.testing.assert_array_equal(F.layer_norm([1, 2, 3]), F.layer_norm(np.array([1.0, 2.0, 3.0])))
    for mode in (value_and_grads, decomposed):
        _, dgamma = mode(lambda gamma: F.rms_norm([1, 2, 3], gamma), np.ones(3), cotangent=np.ones(3))
        np.testing.assert_allclose(dgamma, F.rms_norm([1, 2, 3]), rtol=RTOL)
        _, dgamma = mode(lambda gamma: F.layer_norm([1, 2, 3], gamma), np.ones(3), cotangent=np.ones(3))
        np.testing.assert_allclose(dgamma, F.layer_norm([1, 2, 3]), rtol=RTOL)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: F.layer_norm(Tensor(1.0)), ["layer_norm", "last axis", "()"]),
        (lambda: F.rms_norm(Tensor(np.ones((2, 0)))), ["rms_norm", "at least one", "(2, 0)"]),
        (lambda: F.layer_norm(Tensor(np.ones((2, 3))), np.ones(2)), ["gamma", "(3,)", "(2,)"]),
        (lambda: F.layer_norm(Tensor(np.ones((2, 3))), np.ones((2, 3))), ["gamma", "(3,)", "(2, 3)"]),
        (lambda: F.layer_norm(Tensor(np.ones((2, 3))), np.ones(3), 0.0), ["beta", "(3,)", "()"]),
        (lambda: F.rms_norm(Tensor(np.ones((2, 3))), np.ones((1, 3))), ["rms_norm", "gamma", "(3,)", "(1, 3)"]),
    ],
)
def test_wrong_shapes_are_named(call, words):
    for mode in (ad.no_grad(), ad.decompose()):
        with mode, pytest.raises(ValueError, match="shape") as caught:
            call()
        assert not [word for word in words if word not in str(caught.value)], caught.value


@pytest.mark.parametrize("norm", [F.layer_norm, F.rms_norm])
@pytest.mark.parametrize("dtype", [np.float16, ">f2"])
def test_half_precision_sums_in_single_precision(norm, dtype):
    a = (1000 + 100 * np.random.default_rng(0).normal(size=(2, 64))).astype(dtype)
    x = ad.Tensor(a, requires_grad=True)
    y = norm(x)
    assert y.dtype == np.float16
    np.testing.assert_allclose(y.data, norm(a.astype(np.float64)), rtol=2e-3, atol=2e-3)  # 11 bits of significand
    y.sum().backward()
    assert x.grad.dtype == np.dtype(dtype)
    assert np.isfinite(x.grad).all()


@pytest.mark.parametrize("norm", [F.layer_norm, F.rms_norm])
@pytest.mark.parametrize("shape", [(3, 4), (2, 3, 4), (4,), (1, 4)])
def test_any_layout_gives_the_same_numbers(norm, shape):
    a = np.random.default_rng(0).normal(size=shape)
    turned = np.asfortranarray(a)
    np.testing.assert_array_equal(norm(turned, np.arange(4.0)), norm(a, np.arange(4.0)))
    if len(shape) == 2:  # the result lies as the argument does, so no pass walks across memory
        assert norm(turned).flags.f_contiguous


def test_norms_of_order_p_at_exact_points():
    def gradient(x, p):
        leaf = Tensor(x, requires_grad=True)
        np.linalg.norm(leaf, p).backward()
        return leaf.grad.tolist()

    assert gradient([1.0, 0.0], 3) == [1, 0]  # of length 1
    assert gradient([0.0, 1.0], 0.5) == [0, 1]  # the middle of a cusp
    assert gradient([1e-200, 0.0], 4) == [1, 0]  # the power of it underflows
