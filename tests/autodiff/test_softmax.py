"""softmax, log_softmax and cross_entropy: worked numbers, masked rows, targets of every kind, and what is refused."""

import math
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

import autodiff as ad
import autodiff.functional as F
from autodiff import Tensor

RTOL = 1e-12


def leaf(data, dtype=float):
    return Tensor(np.array(data, dtype), requires_grad=True)


def value_and_grads(f, *arrays, cotangent=None):
    """Value of f and its gradients, one for each array that f takes, as leaves of their own."""
    leaves = [Tensor(array, requires_grad=True) for array in arrays]
    y = f(*leaves)
    g = np.random.default_rng(0).normal(size=y.shape) if cotangent is None else cotangent
    y.backward(np.asarray(g, y.dtype))
    return y.data, *(x.grad for x in leaves)


def assert_close(ours, theirs, rtol=RTOL):
    """Compare to a relative tolerance of the largest value; of 1 at least, since small results come of differences."""
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol * np.max(np.abs(b), initial=1))


def decomposed(f, *arrays, cotangent=None):
    with ad.decompose():
        return value_and_grads(f, *arrays, cotangent=cotangent)


def layouts(array):
    """Return an array's values in other places of memory: column by column, with gaps, from the end."""
    gaps = np.zeros((*array.shape[:-1], 2 * array.shape[-1]), array.dtype)
    gaps[..., ::2] = array
    return [np.asfortranarray(array), gaps[..., ::2], np.ascontiguousarray(array[..., ::-1])[..., ::-1]]


scores = npst.arrays(
    np.float64, npst.array_shapes(max_dims=3, max_side=4), elements=st.floats(-50, 50, allow_subnormal=False)
)


# --- softmax ---


def test_softmax_of_the_worked_example():
    p, dz = value_and_grads(F.softmax, [1.0, 2.0, 3.0], cotangent=[1.0, 0.0, 0.0])
    np.testing.assert_allclose(p, [0.090031, 0.244728, 0.665241], atol=5e-7)
    np.testing.assert_allclose(dz, p[0] * (np.array([1.0, 0.0, 0.0]) - p), rtol=RTOL)


@pytest.mark.parametrize("mask", [False, True])
def test_attention_weights_and_the_gradient_of_the_scores(mask):
    s = np.array([[math.sqrt(0.5), -np.inf if mask else 0.0], [0.0, math.sqrt(0.5)]])
    a, ds = value_and_grads(F.softmax, s, cotangent=[[1.0, 3.0], [2.0, 4.0]])
    first = [[1.0, 0.0], [0.0, 0.0]] if mask else [[0.669762, 0.330238], [-0.442362, 0.442362]]
    np.testing.assert_allclose(a, [first[0], [0.330238, 0.669762]], atol=5e-7)
    np.testing.assert_allclose(ds, [first[1], [-0.442362, 0.442362]], atol=5e-7)


@given(scores, st.data())
def test_softmax_properties(x, data):
    axis = data.draw(st.integers(-x.ndim, x.ndim - 1))
    p, dx = value_and_grads(lambda x: F.softmax(x, axis=axis), x)
    np.testing.assert_allclose(p.sum(axis=axis), 1, rtol=RTOL)
    np.testing.assert_allclose(dx.sum(axis=axis), 0, atol=1e-12)  # the gradient has no part along a shift of the scores
    np.testing.assert_allclose(F.softmax(x + 100, axis=axis), p, rtol=1e-11)
    np.testing.assert_allclose(np.exp(F.log_softmax(x, axis=axis)), p, rtol=1e-11)
    for f in (F.softmax, F.log_softmax):
        ours = value_and_grads(lambda x, f=f: f(x, axis=axis), x)
        assert_close(ours, decomposed(lambda x, f=f: f(x, axis=axis), x))
        for other in layouts(x):
            assert_close(value_and_grads(lambda x, f=f: f(x, axis=axis), other), ours)


@pytest.mark.parametrize("axis", [None, (0, 2), (-1, 1), -2])
@pytest.mark.parametrize("f", [F.softmax, F.log_softmax])
def test_several_axes_are_one_long_axis(f, axis):
    x = np.random.default_rng(1).normal(size=(2, 3, 4))
    total = np.exp(x).sum(axis=axis, keepdims=True)
    expected = np.exp(x) / total if f is F.softmax else x - np.log(total)
    np.testing.assert_allclose(f(x, axis=axis), expected, rtol=RTOL, atol=RTOL)


@pytest.mark.parametrize("f", [F.softmax, F.log_softmax])
@pytest.mark.parametrize("mode", [value_and_grads, decomposed])
def test_a_fully_masked_row_gets_no_weight_and_no_gradient(f, mode):
    x = np.random.default_rng(2).normal(size=(3, 4))
    x[0, 1] = -np.inf
    alone = mode(f, x[[0, 2]], cotangent=[[1.0, 2.0, 3.0, 4.0], [4.0, 1.0, 1.0, 0.0]])
    x[1] = -np.inf
    y, dx = mode(f, x, cotangent=[[1.0, 2.0, 3.0, 4.0], [1.0, 1.0, 2.0, 2.0], [4.0, 1.0, 1.0, 0.0]])
    np.testing.assert_array_equal(y[1], 0.0 if f is F.softmax else -np.inf)
    np.testing.assert_array_equal(dx[1], 0)
    np.testing.assert_array_equal(y[[0, 2]], alone[0])
    np.testing.assert_array_equal(dx[[0, 2]], alone[1])
    assert np.isfinite(dx).all()


@pytest.mark.parametrize("f", [F.softmax, F.log_softmax])
def test_a_nan_stays_in_its_row(f):
    y, dx = value_and_grads(f, [[np.nan, 1.0], [1.0, 2.0]])
    np.testing.assert_array_equal(np.isnan(y), [[True, True], [False, False]])
    np.testing.assert_array_equal(np.isnan(dx), [[True, True], [False, False]])


@pytest.mark.parametrize("mode", [value_and_grads, decomposed])
def test_log_softmax_where_the_probability_underflows(mode):
    y, dx = mode(lambda x: F.log_softmax(x)[1], [1000.0, 0.0], cotangent=1.0)
    assert y == -1000
    np.testing.assert_array_equal(dx, [-1.0, 1.0])


@pytest.mark.parametrize("f", [F.softmax, F.log_softmax])
def test_scalars_integers_and_empty_axes(f):
    one = math.exp(0) if f is F.softmax else 0.0
    assert f(3.0) == one
    assert isinstance(f(np.float32(3.0)), np.float32)
    assert f(leaf(3.0)).item() == one
    np.testing.assert_array_equal(f([1, 1]), f(np.array([1.0, 1.0])))
    y, dx = value_and_grads(f, np.zeros((2, 0)))
    assert y.shape == dx.shape == (2, 0)


@pytest.mark.parametrize("f", [F.softmax, F.log_softmax])
def test_large_scores_stay_finite(f):
    x = np.array([[1e4, -1e4, 0.0], [1e4, 1e4, 1e4], [-1e4, -1e4, -1e4]], np.float32)
    y, dx = value_and_grads(f, x)
    assert y.dtype == dx.dtype == np.float32
    assert np.isfinite(y).all()
    assert np.isfinite(dx).all()


# --- cross-entropy: values and gradients ---

INPUTS = np.array(
    [
        [
            [0.1088, 0.1060, 0.6683, 0.5131, 0.0645],
            [0.4538, 0.6852, 0.2520, 0.3792, 0.2675],
            [0.4578, 0.3357, 0.6384, 0.0481, 0.5612],
            [0.9639, 0.8864, 0.1585, 0.3038, 0.0350],
        ],
        [
            [0.3356, 0.9013, 0.7052, 0.8294, 0.8334],
            [0.6333, 0.4434, 0.1428, 0.5739, 0.3810],
            [0.9476, 0.5917, 0.7037, 0.2987, 0.6208],
            [0.8541, 0.1803, 0.2054, 0.4775, 0.8199],
        ],
    ]
)
TARGETS = np.array([[1, 0, 2, 2], [4, 1, 4, 0]])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("factor", "expected"), [(1, 1.609473), (1000, 272.9625)])
def test_cross_entropy_of_known_data_also_a_thousandfold(dtype, factor, expected):
    loss, dz = value_and_grads(lambda z: F.cross_entropy(z, TARGETS), (factor * INPUTS).astype(dtype), cotangent=1.0)
    assert loss.dtype == dz.dtype == dtype
    np.testing.assert_allclose(loss, expected, rtol=1e-6)
    assert np.isfinite(dz).all()


def test_the_output_layer_of_the_worked_example():
    h, w = leaf([[1.0, 2.0]]), leaf([[1.0, 0.0, 1.0], [0.0, 1.0, 1.0]])
    z = F.linear(h, w)
    z.retain_grad()
    loss = F.cross_entropy(z, [2])
    loss.backward()
    np.testing.assert_allclose(loss.data, 0.407606, atol=5e-7)
    np.testing.assert_allclose(z.grad, [[0.090031, 0.244728, -0.334759]], atol=5e-7)
    np.testing.assert_allclose(w.grad, [[0.090031, 0.244728, -0.334759], [0.180061, 0.489457, -0.669518]], atol=1e-6)
    np.testing.assert_allclose(h.grad, [[-0.244728, -0.090031]], atol=5e-7)


@st.composite
def classified(draw):
    """Logits, ids, and the settings of a call."""
    z = draw(scores)
    ids = draw(npst.arrays(np.int64, z.shape[:-1], elements=st.integers(0, z.shape[-1] - 1)))
    settings = {"reduction": draw(st.sampled_from(["mean", "sum", "none"]))}
    if draw(st.booleans()):
        settings["ignore_index"] = draw(st.sampled_from([-100, -1, 0]))
        ids = np.where(draw(npst.arrays(bool, ids.shape)), settings["ignore_index"], ids)
    return z, ids, settings


@given(classified())
def test_cross_entropy_with_ids(case):
    z, ids, settings = case
    kept = ids != settings.get("ignore_index")
    log_p = F.log_softmax(z)
    losses = np.where(kept, -np.take_along_axis(log_p, np.where(kept, ids, 0)[..., None], -1)[..., 0], 0.0)
    y = np.where(kept[..., None], np.eye(z.shape[-1])[np.where(kept, ids, 0)], 0.0)
    weight = 1 / max(kept.sum(), 1) if settings["reduction"] == "mean" else 1.0
    expected = losses if settings["reduction"] == "none" else losses.sum() * weight
    g = np.ones(np.shape(expected))
    ours = value_and_grads(lambda z: F.cross_entropy(z, ids, **settings), z, cotangent=g)
    assert_close(ours, [expected, weight * np.where(kept[..., None], np.exp(log_p) - y, 0)], rtol=1e-11)
    assert_close(ours, decomposed(lambda z: F.cross_entropy(z, ids, **settings), z, cotangent=g))
    for other in layouts(z):
        assert_close(value_and_grads(lambda z: F.cross_entropy(z, ids, **settings), other, cotangent=g), ours)


@given(scores, st.sampled_from(["mean", "sum", "none"]), st.data())
def test_cross_entropy_with_probabilities(z, reduction, data):
    y = data.draw(npst.arrays(np.float64, z.shape, elements=st.floats(0, 1, allow_subnormal=False)))
    ours = value_and_grads(lambda z, y: F.cross_entropy(z, y, reduction=reduction), z, y)
    assert_close(ours, decomposed(lambda z, y: F.cross_entropy(z, y, reduction=reduction), z, y))
    losses = -np.sum(y * F.log_softmax(z), axis=-1)
    assert_close(ours[:1], [{"mean": losses.mean(), "sum": losses.sum(), "none": losses}[reduction]], rtol=1e-11)
    for other in layouts(y):
        assert_close(value_and_grads(lambda z, y: F.cross_entropy(z, y, reduction=reduction), z, other), ours)


def test_ids_and_their_one_hot_rows_are_the_same():
    ids = value_and_grads(lambda z: F.cross_entropy(z, TARGETS), INPUTS)
    rows = value_and_grads(lambda z: F.cross_entropy(z, np.eye(5)[TARGETS]), INPUTS)
    assert_close(ids, rows)


def test_only_the_probabilities_may_need_a_gradient():
    y = leaf([[0.25, 0.75]])
    F.cross_entropy([[1.0, 3.0]], y).backward()
    np.testing.assert_allclose(y.grad, -F.log_softmax(np.array([[1.0, 3.0]])), rtol=RTOL)


@pytest.mark.parametrize("mode", [value_and_grads, decomposed])
def test_zero_times_log_zero_is_zero(mode):
    z, y = np.array([[0.5, -np.inf, 1.0]]), np.array([[0.25, 0.0, 0.75]])
    loss, dz, dy = mode(F.cross_entropy, z, y, cotangent=1.0)
    expected = value_and_grads(F.cross_entropy, z[:, ::2], y[:, ::2], cotangent=1.0)
    assert_close([loss, dz[:, ::2], dy[:, ::2]], expected)
    assert dz[0, 1] == dy[0, 1] == 0


def test_a_probability_of_an_impossible_class_has_an_infinite_gradient():
    y = leaf([[0.25, 0.5, 0.25]])
    F.cross_entropy(np.array([[0.0, -np.inf, 0.0]]), y).backward()
    np.testing.assert_allclose(y.grad, [[math.log(2), np.inf, math.log(2)]])


@pytest.mark.parametrize("mode", [value_and_grads, decomposed])
def test_an_impossible_target_has_an_infinite_loss_and_finite_gradients(mode):
    z = np.array([[-np.inf, 0.0], [1.0, 1.0], [-np.inf, -np.inf]])
    losses, dz = mode(lambda z: F.cross_entropy(z, [0, 1, 1], reduction="none"), z, cotangent=np.ones(3))
    np.testing.assert_array_equal(losses, [np.inf, math.log(2), np.inf])
    np.testing.assert_array_equal(dz, [[-1.0, 1.0], [0.5, -0.5], [0.0, 0.0]])


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint32, np.int64, np.uint64, ">i4"])
@pytest.mark.parametrize("ignore_index", [None, -1, 1])
def test_ids_of_every_integer_type(dtype, ignore_index):
    ours = F.cross_entropy(INPUTS, TARGETS.astype(dtype), ignore_index=ignore_index)
    assert ours == F.cross_entropy(INPUTS, TARGETS, ignore_index=ignore_index)


def test_one_row_of_logits_and_one_id():
    z = leaf([1.0, 2.0, 3.0])
    for target in (2, np.int32(2), np.array(2), Tensor(2)):
        loss = F.cross_entropy(z, target)
        assert loss.shape == ()
        np.testing.assert_allclose(loss.item(), 0.407606, atol=5e-7)
        assert F.cross_entropy(z, target, reduction="none").shape == ()
    assert F.cross_entropy(z.data, 2) == loss.item()


# --- targets that are left out ---


@pytest.mark.parametrize("mode", [value_and_grads, decomposed])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_all_targets_ignored_give_zero(mode, reduction):
    settings = {"ignore_index": -1, "reduction": reduction}
    loss, dz = mode(lambda z: F.cross_entropy(z, -np.ones((2, 4), int), **settings), INPUTS)
    np.testing.assert_array_equal(loss, 0)
    np.testing.assert_array_equal(dz, 0)


def test_nothing_of_an_ignored_row_counts():
    z, ids = INPUTS.copy(), TARGETS.copy()
    z[0, 1], z[1, 2] = np.nan, -np.inf
    ids[0, 1] = ids[1, 2] = -1
    loss, dz = value_and_grads(lambda z: F.cross_entropy(z, ids, ignore_index=-1), z, cotangent=1.0)
    kept = ids >= 0
    expected = value_and_grads(lambda z: F.cross_entropy(z, ids[kept]), INPUTS[kept], cotangent=1.0)
    np.testing.assert_allclose(loss, expected[0], rtol=RTOL)
    np.testing.assert_allclose(dz[kept], expected[1], rtol=RTOL)
    np.testing.assert_array_equal(dz[~kept], 0)


def test_no_rows_at_all():
    for targets in (np.zeros(0, int), np.zeros((0, 3))):
        loss, dz = value_and_grads(lambda z, targets=targets: F.cross_entropy(z, targets), np.zeros((0, 3)))
        assert loss == 0
        assert dz.shape == (0, 3)


# --- what is refused ---


@pytest.mark.parametrize(
    ("logits", "targets", "settings", "error", "words"),
    [
        (np.ones((2, 3)), [0, 3], {}, ValueError, ["target 3", "position (1,)", "V = 3", "0 to 2"]),
        (np.ones((2, 3)), [0, -1], {}, ValueError, ["target -1", "position (1,)", "ignore_index"]),
        (np.ones((2, 3)), [-2, -1], {"ignore_index": -1}, ValueError, ["target -2", "position (0,)"]),
        (np.ones((2, 2, 3)), [[0, 1], [300, 2]], {}, ValueError, ["target 300", "position (1, 0)"]),
        (np.ones((2, 3)), np.array([0, 255], np.uint8), {}, ValueError, ["target 255"]),
        (np.ones((2, 256)), np.array([0, -100], np.int8), {}, ValueError, ["target -100"]),  # 156 if read as unsigned
        (np.ones((2, 256)), np.array([-1, -2], np.int8), {"ignore_index": -1}, ValueError, ["target -2"]),
        (np.ones(3), 3, {}, ValueError, ["target 3 is", "V = 3"]),
        (np.ones((1, 0)), [0], {}, ValueError, ["target 0", "V = 0"]),
        (np.ones((2, 3)), [0, 1, 2], {}, ValueError, ["(2, 3)", "(3,)"]),
        (np.ones((2, 3)), np.ones((2, 3), int), {}, ValueError, ["integer ids", "(2, 3), int"]),
        (np.ones((2, 3)), [0.0, 1.0], {}, ValueError, ["(2, 3)", "(2,)", "probabilities", "float64"]),
        (np.ones((2, 3)), np.ones((3, 2)), {}, ValueError, ["(2, 3)", "(3, 2)"]),
        (1.0, 0, {}, ValueError, ["()", "(..., V)"]),
        (np.ones((2, 3)), [True, False], {}, TypeError, ["bool"]),
        (np.ones(3), True, {}, TypeError, ["bool"]),
        (np.ones((2, 3)), np.ones((2, 3)), {"ignore_index": -1}, ValueError, ["ignore_index=-1", "probabilities"]),
        (np.ones((2, 3)), [0, 1], {"ignore_index": 0.5}, TypeError, ["ignore_index"]),
        (np.ones((2, 3)), [0, 1], {"reduction": "average"}, ValueError, ["'mean', 'sum' or 'none'", "'average'"]),
    ],
)
def test_bad_calls_are_refused_in_words(logits, targets, settings, error, words):
    for mode in (ad.no_grad(), ad.decompose()):
        with mode, pytest.raises(error) as caught:
            F.cross_entropy(leaf(logits), targets, **settings)
        assert not [word for word in words if word not in str(caught.value)], caught.value


# --- what is kept ---


def test_nothing_of_the_size_of_the_logits_is_kept_beside_them():
    z = leaf(np.random.default_rng(0).normal(size=(512, 1024)))
    ids = np.arange(512)
    tracemalloc.start()
    loss = F.cross_entropy(z, ids)
    kept, peak = tracemalloc.get_traced_memory()
    loss.backward()
    backward = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert kept < 0.05 * z.data.nbytes
    assert peak < 0.25 * z.data.nbytes
    assert backward < 2.1 * z.data.nbytes  # the gradient, and the copy of it that the leaf owns


@pytest.mark.parametrize("f", [F.softmax, F.log_softmax, lambda z: F.cross_entropy(z, [0, 1])])
def test_float32_stays_float32(f):
    for mode in (value_and_grads, decomposed):
        y, dz = mode(f, np.ones((2, 3), np.float32))
        assert y.dtype == dz.dtype == np.float32
    assert type(F.cross_entropy(np.ones((2, 3), np.float32), [0, 1], ignore_index=1)) is np.float32


def test_the_second_derivative_is_the_jacobian_of_softmax():
    z = leaf([1.0, 2.0, 3.0])
    with ad.decompose():
        first = ad.gradients(F.cross_entropy(z, 2), z, create_graph=True)
    p = F.softmax(z.data)
    for row, e in zip(np.diag(p) - np.outer(p, p), np.eye(3), strict=True):
        np.testing.assert_allclose(ad.gradients(first, z, e).data, row, rtol=1e-11, atol=1e-14)


# --- what PyTorch gives ---


@settings(max_examples=30)
@given(classified())
def test_cross_entropy_as_in_pytorch(case):
    torch = pytest.importorskip("torch", reason="compared with PyTorch where it is installed")
    z, ids, options = case
    options.setdefault("ignore_index", -100)
    x = torch.tensor(z, requires_grad=True)
    y = torch.nn.functional.cross_entropy(x.reshape(-1, z.shape[-1]), torch.tensor(ids).reshape(-1), **options)
    y = y.reshape(ids.shape) if options["reduction"] == "none" else y
    if options["reduction"] == "mean" and (ids == options["ignore_index"]).all():
        return  # PyTorch's mean of nothing is NaN, ours is 0
    g = np.random.default_rng(0).normal(size=y.shape)
    y.backward(torch.tensor(g))
    ours = value_and_grads(lambda z: F.cross_entropy(z, ids, **options), z, cotangent=g)
    assert_close(ours, [y.detach().numpy(), x.grad.numpy()])


@settings(max_examples=30)
@given(scores, st.data())
def test_softmax_and_probabilities_as_in_pytorch(z, data):
    torch = pytest.importorskip("torch", reason="compared with PyTorch where it is installed")
    axis = data.draw(st.integers(-z.ndim, z.ndim - 1))
    p = F.softmax(np.random.default_rng(1).normal(size=z.shape))
    # PyTorch takes one row of probabilities, or the classes on the second axis
    flat = (math.prod(z.shape[:-1]), z.shape[-1])
    pairs = [
        (lambda z: F.softmax(z, axis=axis), lambda z: torch.softmax(z, axis)),
        (lambda z: F.log_softmax(z, axis=axis), lambda z: torch.log_softmax(z, axis)),
        (
            lambda z: F.cross_entropy(z, p),
            lambda z: torch.nn.functional.cross_entropy(z.reshape(flat), torch.tensor(p).reshape(flat)),
        ),
    ]
    for ours, theirs in pairs:
        x = torch.tensor(z, requires_grad=True)
        y = theirs(x)
        g = np.random.default_rng(0).normal(size=y.shape)
        y.backward(torch.tensor(g))
        assert_close(value_and_grads(ours, z, cotangent=g), [y.detach().numpy(), x.grad.numpy()])
