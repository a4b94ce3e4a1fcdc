"""The tensor: making one, its data and gradient, and that no gradient is lost silently."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest

import autodiff as ad
import autodiff.functional as F
from autodiff import Tensor
from autodiff.op import Op


def leaf(data, dtype=np.float64):
    return Tensor(np.asarray(data, dtype), requires_grad=True)


# --- making one ---


@pytest.mark.parametrize(
    ("data", "dtype", "shape"),
    [
        (2.0, np.float64, ()),
        (2, np.int64, ()),
        (True, np.bool_, ()),
        ([1, 2], np.int64, (2,)),
        ([[1.0], [2.0]], np.float64, (2, 1)),
        (np.float32(2), np.float32, ()),
        (np.ones((0, 3), np.float16), np.float16, (0, 3)),
        ([], np.float64, (0,)),
    ],
)
def test_dtype_and_shape_are_numpys(data, dtype, shape):
    t = Tensor(data)
    assert t.dtype == dtype
    assert t.shape == shape
    assert (t.ndim, t.size) == (len(shape), math.prod(shape))
    assert type(t.data) is np.ndarray
    assert t.data.shape == shape


def test_a_tensor_copies_and_as_tensor_shares():
    a = np.ones(2)
    copied, shared = Tensor(a, requires_grad=True), ad.as_tensor(a)
    y = (copied * copied).sum()
    a[:] = 3.0
    y.backward()
    np.testing.assert_array_equal(copied.grad, [2.0, 2.0])
    np.testing.assert_array_equal(shared.data, [3.0, 3.0])
    assert ad.as_tensor(shared) is shared
    assert not shared.requires_grad


@pytest.mark.parametrize("data", [[1, 2], 3, True, np.arange(3, dtype=np.int8)])
def test_integers_cannot_require_a_gradient(data):
    with pytest.raises(TypeError, match=r"only floating ones have derivatives.*\[1\.0, 2\.0\]"):
        Tensor(data, requires_grad=True)
    t = Tensor(data)
    with pytest.raises(TypeError, match="cannot require a gradient"):
        t.requires_grad = True


@pytest.mark.parametrize(("data", "match"), [(1j, "real and imaginary"), (["a"], "real numbers"), ([None], "stack")])
def test_only_real_numbers(data, match):
    with pytest.raises(TypeError, match=match):
        Tensor(data)
    with pytest.raises(TypeError, match=match):
        ad.as_tensor(data)


def test_a_tensor_of_a_recorded_tensor_is_refused():
    x = leaf([1.0])
    for t in (x, x * 2.0):
        with pytest.raises(TypeError, match=r"Tensor\(\) of a tensor that requires a gradient would lose"):
            Tensor(t)
    assert Tensor(x.detach()).tolist() == [1.0]
    assert Tensor(Tensor(2.0)).item() == 2.0


def test_a_list_of_recorded_tensors_is_refused():
    x = leaf(1.0)
    with pytest.raises(TypeError, match=r"F\.stack"):
        Tensor([x, x])


# --- data ---


def test_assigning_data_copies_into_the_array_that_is_there():
    x = leaf([1.0, 2.0])
    alias = x.data
    x.data = [5.0, 6.0]
    np.testing.assert_array_equal(alias, [5.0, 6.0])
    x.data -= 1.0
    np.testing.assert_array_equal(alias, [4.0, 5.0])
    assert x.data is alias


def test_a_scalars_data_can_be_written_in_place():
    x = leaf(1.0)
    x.data[...] = 5.0
    assert (x * 2.0).item() == 10.0
    x.data = 7.0
    assert x.item() == 7.0
    x.data -= 1.0
    assert x.item() == 6.0


@pytest.mark.parametrize("values", [[1.0], [[1.0, 2.0]], 1.0, [1.0, 2.0, 3.0]])
def test_assigned_data_must_have_the_shape(values):
    x = leaf([1.0, 2.0])
    with pytest.raises(ValueError, match=r"assigned to a tensor of shape \(2,\)"):
        x.data = values
    np.testing.assert_array_equal(x.data, [1.0, 2.0])


def test_the_data_of_a_result_cannot_be_assigned():
    y = leaf([1.0]) * 2.0
    with pytest.raises(RuntimeError, match=r"result \(of 'multiply'\) cannot be assigned"):
        y.data = [5.0]


def test_views_of_a_leaf_are_read_only():
    x = leaf([1.0, 2.0, 3.0])
    for view in (x[1:], x.reshape(3, 1), x.T, x.detach()):
        assert np.shares_memory(view.data, x.data)
        with pytest.raises(ValueError, match="read-only"):
            view.data[...] = 0.0
    x.data[0] = 7.0
    assert x.detach().data[0] == 7.0


def test_an_op_that_returns_its_input_gives_a_read_only_view():
    same = Op(lambda x: x)
    x = Tensor([1.0, 2.0])
    y = same(x)
    with pytest.raises(ValueError, match="read-only"):
        y.data[0] = 5.0
    x.data[0] = 3.0
    assert x.data.flags.writeable


def test_detach_cuts_the_graph():
    x = leaf([2.0])
    y = x * x
    constant = y.detach()
    assert not constant.requires_grad
    assert constant.node is None or not constant.node.requires_grad
    (y * constant).backward()
    np.testing.assert_array_equal(x.grad, [16.0])
    assert leaf(3.0).detach().item() == 3.0


# --- gradient ---


def test_the_gradient_can_be_assigned_and_is_copied():
    x, g = leaf([1.0, 2.0]), np.array([3.0, 4.0])
    x.grad = g
    g[:] = 0
    np.testing.assert_array_equal(x.grad, [3.0, 4.0])
    x.grad *= 0.5
    np.testing.assert_array_equal(x.grad, [1.5, 2.0])
    x.grad = None
    assert x.grad is None
    with pytest.raises(ValueError, match="gradient of shape"):
        x.grad = [1.0]


def test_the_gradient_of_a_result_is_none_with_one_warning():
    x = leaf([1.0])
    y = x * 2.0
    with pytest.warns(UserWarning, match=r"result \(of 'multiply'\).*retain_grad\(\)") as caught:
        assert y.grad is None
    assert len(caught) == 1
    assert caught[0].filename == __file__


def test_retain_grad_keeps_and_accumulates():
    x = leaf([1.0, 2.0])
    y = x * 2.0
    y.retain_grad()
    assert y.grad is None
    (y * y).sum().backward(retain_graph=True)
    np.testing.assert_array_equal(y.grad, [4.0, 8.0])
    (y * 1.0).sum().backward()
    np.testing.assert_array_equal(y.grad, [5.0, 9.0])
    with pytest.raises(RuntimeError, match="does not require"):
        Tensor(1.0).retain_grad()


def test_requires_grad_can_be_switched_on_leaves():
    x = Tensor([1.0])
    x.requires_grad = True
    (x * x).sum().backward()
    assert x.grad == 2.0
    x.requires_grad = False
    assert not (x * x).requires_grad
    with pytest.raises(RuntimeError, match="leaves"):
        (leaf(1.0) * 2.0).requires_grad = False


# --- no gradient is lost silently ---


@pytest.mark.parametrize(
    "convert",
    [
        float,
        int,
        complex,
        np.asarray,
        np.array,
        math.exp,
        lambda t: np.array([t, t]),
        lambda t: [1, 2][t],
    ],
)
@pytest.mark.parametrize("make", [lambda: leaf(0.5), lambda: leaf(0.5) * 2.0], ids=["leaf", "result"])
def test_conversions_of_a_recorded_tensor_tell(convert, make):
    with pytest.raises(TypeError, match=r"\.data or \.item\(\)"):
        convert(make())


def test_assigning_a_recorded_tensor_to_an_array_tells():
    with pytest.raises(ValueError, match="setting an array element") as caught:
        np.zeros(1)[0] = leaf(0.5)
    assert ".data or .item()" in str(caught.value.__cause__)


def test_conversions_of_a_constant_work():
    t = Tensor(2.5)
    assert (float(t), int(t), complex(t), math.exp(t)) == (2.5, 2, 2.5 + 0j, math.exp(2.5))
    np.testing.assert_array_equal(np.asarray(Tensor([1.0, 2.0])), [1.0, 2.0])
    assert np.asarray(Tensor([1.0]), dtype=np.float32).dtype == np.float32
    assert ["a", "b"][Tensor(1)] == "b"


def test_conversions_work_where_nothing_is_recorded():
    with ad.no_grad():
        assert float(leaf(2.5)) == 2.5


def test_values_leave_by_name():
    x = leaf([[1.0, 2.0]])
    assert x.tolist() == [[1.0, 2.0]]
    assert leaf(2.5).item() == 2.5
    values = x.numpy()
    values[...] = 0
    assert x.tolist() == [[1.0, 2.0]]


def test_item_assignment_names_the_alternatives():
    x = leaf([1.0, 2.0])
    for target, value in ((x, 1.0), (x * 2.0, 1.0), (Tensor([1.0]), x[0])):
        with pytest.raises(TypeError, match=r"F\.set_at.*np\.where"):
            target[0] = value
    t = Tensor([1.0, 2.0])
    t[Tensor(0)] = Tensor(5.0)
    assert t.tolist() == [5.0, 2.0]


# --- identity, truth, iteration, text ---


def test_equality_is_elementwise_and_hash_is_identity():
    a, b = leaf([1.0, 2.0]), leaf([1.0, 3.0])
    assert (a == b).tolist() == [True, False]
    assert (a != b).tolist() == [False, True]
    assert type(a == b) is np.ndarray
    assert {a: "a", b: "b"}[a] == "a"
    assert len({a, b, a}) == 2
    assert a in [a, b]
    for compare, expected in ((a < b, [False, True]), (a <= 1.0, [True, False]), (2.0 > b, [True, False])):
        assert compare.tolist() == expected
    assert (a >= b).tolist() == [True, False]
    assert 2.0 in a
    assert 5.0 not in a


def test_truth_needs_one_element():
    assert Tensor(1.0)
    assert not Tensor([[0.0]])
    with pytest.raises(ValueError, match=r"shape \(2,\) is ambiguous"):
        bool(leaf([1.0, 2.0]))
    with pytest.raises(ValueError, match="ambiguous"):
        bool(Tensor([]))


def test_iteration_runs_over_the_first_axis():
    x = leaf([[1.0, 2.0], [3.0, 4.0]])
    first, second = x
    (first * second).sum().backward()
    np.testing.assert_array_equal(x.grad, [[3.0, 4.0], [1.0, 2.0]])
    assert len(x) == 2
    for f in (iter, len):
        with pytest.raises(TypeError, match=r"shape \(\)"):
            f(leaf(1.0))


@pytest.mark.parametrize(
    ("t", "text"),
    [
        (Tensor(2.0), "Tensor(2.)"),
        (Tensor([1, 2]), "Tensor([1, 2])"),
        (Tensor([1.0], requires_grad=True, name="w"), "Tensor([1.], requires_grad=True, name='w')"),
        (Tensor(np.float32(2)) * 3, "Tensor(6., dtype=float32)"),
        (leaf(2.0) * 3.0, "Tensor(6., op='multiply')"),
        (Tensor(np.ones((0, 3))), "Tensor([], shape=(0, 3))"),
    ],
)
def test_repr(t, text):
    assert repr(t) == text


def test_repr_of_a_large_tensor_is_short():
    assert len(repr(Tensor(np.zeros((1000, 1000))))) < 400


def test_format():
    assert f"{leaf(2.0) * 2.0:.3f}" == "4.000"
    assert f"{leaf([2.0]):.1f}" == "2.0"
    assert f"{Tensor(2.0)}" == "Tensor(2.)"


def test_deepcopy_of_a_leaf():
    x = leaf([1.0, 2.0])
    x.grad = [3.0, 4.0]
    x.name = "x"
    twin = copy.deepcopy({"a": x, "b": x})
    assert twin["a"] is twin["b"]
    twin = twin["a"]
    (twin * 2.0).sum().backward()
    np.testing.assert_array_equal(twin.grad, [5.0, 6.0])
    np.testing.assert_array_equal(x.grad, [3.0, 4.0])
    assert twin.name == "x"
    assert not np.shares_memory(x.data, twin.data)
    with pytest.raises(RuntimeError, match="leaves"):
        copy.deepcopy(x * 2.0)


def test_a_copy_is_a_leaf_of_its_own():
    x = leaf([1.0, 2.0])
    twin = copy.copy(x)
    (twin * twin).sum().backward()
    assert x.grad is None
    np.testing.assert_array_equal(twin.grad, [2.0, 4.0])
    x.data = [5.0, 5.0]
    assert twin.tolist() == [1.0, 2.0]


@pytest.mark.parametrize(
    "f",
    [
        lambda t: np.ma.array([1.0, 2.0]) * t,
        lambda t: np.ma.exp(t),
        lambda t: np.full_like(np.ones(2), t[0]),
        lambda t: np.full_like(t, t[0]),
    ],
)
def test_numpys_other_ways_in_tell(f):
    with pytest.raises(TypeError, match=r"would lose the gradient|has no VJP rule"):
        f(leaf([1.0, 2.0]))


def test_full_like_is_plain_for_plain_values():
    assert np.full_like(leaf([1.0, 2.0]), 3.0).tolist() == [3.0, 3.0]


# --- NumPy's promotion is ours ---


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("shape", [(), (2,), (2, 3)])
@pytest.mark.parametrize(
    "other", [2.0, 2, True, np.float64(2.0), np.float32(2.0), np.ones(3, np.float32), np.arange(3)]
)
@pytest.mark.parametrize("left", [True, False])
def test_dtypes_are_those_that_numpy_gives(dtype, shape, other, left):
    a = np.ones(shape, dtype) if shape else dtype(1)
    if isinstance(other, np.ndarray) and shape == (2,):
        other = other[:2]
    t = Tensor(a, requires_grad=True)
    y, expected = (other * t + other, other * a + other) if left else (t * other - other, a * other - other)
    assert type(y) is Tensor
    assert y.requires_grad
    assert y.dtype == np.asarray(expected).dtype
    y.sum().backward()
    assert t.grad.dtype == dtype
    assert t.grad.shape == shape


def test_float32_stays_float32():
    x = leaf([1.0, 2.0], np.float32)
    y = (2.0 * x + 1).mean()
    assert y.dtype == np.float32
    assert type(y.data) is np.ndarray
    y.backward()
    assert x.grad.dtype == np.float32


@pytest.mark.parametrize(
    "f",
    [
        lambda t: np.float64(2) * t,
        lambda t: np.ones(3) * t,
        lambda t: np.array(2.0) + t,
        lambda t: np.ones(3) @ t,
        lambda t: [1.0, 2.0, 3.0] * t,
        lambda t: 2 - t,
        lambda t: 2 / t,
        lambda t: 2.0**t,
        lambda t: np.float32(3) ** t,
    ],
)
def test_arrays_and_numbers_on_the_left(f):
    x = leaf([1.0, 2.0, 3.0])
    y = f(x)
    assert type(y) is Tensor
    assert y.requires_grad
    np.testing.assert_allclose(y.data, f(x.data))


@pytest.mark.parametrize("other", ["a", None, object(), 1j, np.array(["a"])])
def test_foreign_operands_are_refused(other):
    with pytest.raises(TypeError):
        leaf([1.0]) + other
    with pytest.raises(TypeError):
        other * leaf([1.0])


def test_tensors_cannot_be_subclassed():
    with pytest.raises(TypeError, match="hold one"):
        type("Parameter", (Tensor,), {})


# --- methods and NumPy's functions ---


@pytest.mark.parametrize(
    ("method", "function"),
    [
        (lambda t: t.sum(0), lambda t: np.sum(t, 0)),
        (lambda t: t.mean(axis=-1, keepdims=True), lambda t: np.mean(t, axis=-1, keepdims=True)),
        (lambda t: t.prod(), np.prod),
        (lambda t: t.var(1, ddof=1), lambda t: np.var(t, 1, ddof=1)),
        (lambda t: t.std((0, 1)), lambda t: np.std(t, axis=(0, 1))),
        (lambda t: t.max(1), lambda t: np.max(t, 1)),
        (lambda t: t.min(), lambda t: np.amin(t)),
        (lambda t: t.cumsum(1), lambda t: np.cumsum(t, axis=1)),
        (lambda t: t.reshape(3, 2), lambda t: np.reshape(t, (3, 2))),
        (lambda t: t.reshape(-1), np.ravel if False else lambda t: np.reshape(t, -1)),
        (lambda t: t.ravel(), lambda t: t.flatten()),
        (lambda t: t.transpose(), np.transpose),
        (lambda t: t.transpose(1, 0), lambda t: np.transpose(t, (1, 0))),
        (lambda t: t.T, lambda t: t.transpose((1, 0))),
        (lambda t: t.mT, lambda t: np.swapaxes(t, -1, -2)),
        (lambda t: t.swapaxes(0, 1), lambda t: np.swapaxes(t, 0, 1)),
        (lambda t: t[None].squeeze(0), lambda t: np.squeeze(np.expand_dims(t, 0), axis=0)),
        (lambda t: t.clip(0.2, 0.8), lambda t: np.clip(t, 0.2, 0.8)),
        (lambda t: t.take([0, 0], 1), lambda t: np.take(t, [0, 0], axis=1)),
        (lambda t: t.repeat(2, 0), lambda t: np.repeat(t, 2, axis=0)),
        (lambda t: -abs(+t), lambda t: np.negative(np.absolute(t))),
        (lambda t: t @ t.T, lambda t: np.matmul(t, np.transpose(t))),
        (lambda t: t**2 / 3 - 1, lambda t: np.subtract(np.true_divide(np.power(t, 2), 3), 1)),
        (lambda t: F.where(t > 0.5, t, 0.0), lambda t: np.where(t > 0.5, t, 0.0)),
        (lambda t: F.stack([t, t], axis=1), lambda t: np.stack([t, t], axis=1)),
        (lambda t: F.concatenate((t, 2 * t), axis=-1), lambda t: np.concatenate((t, 2 * t), axis=-1)),
        (lambda t: F.einsum("ij,kj->ik", t, t), lambda t: np.einsum("ij,kj->ik", t, t)),
    ],
)
def test_methods_functional_and_numpy_agree(method, function):
    data = np.random.default_rng(0).uniform(0.1, 0.9, (2, 3))
    results = []
    for f in (method, function):
        x = leaf(data)
        y = f(x)
        assert type(y) is Tensor
        y.backward(np.cos(np.arange(y.size)).reshape(y.shape))
        results.append((y, x.grad))
    assert results[0][0].node.op is results[1][0].node.op
    np.testing.assert_array_equal(results[0][0].data, results[1][0].data)
    np.testing.assert_array_equal(results[0][1], results[1][1])
    np.testing.assert_allclose(results[0][0].data, function(data) if "flatten" not in str(function) else data.ravel())


@pytest.mark.parametrize(
    ("name", "hint"),
    [("tanh", r"write np\.tanh\(t\)"), ("softmax", r"F\.softmax\(t\)"), ("zzz", "has no 'zzz'$")],
)
def test_a_missing_method_names_what_to_write(name, hint):
    with pytest.raises(AttributeError, match=hint):
        getattr(leaf([1.0]), name)
    assert not hasattr(leaf([1.0]), name)


def test_mT_needs_two_axes():
    with pytest.raises(ValueError, match="at least two axes"):
        leaf([1.0]).mT  # noqa: B018


@pytest.mark.parametrize(
    ("f", "name", "hint"),
    [
        (np.nextafter, "nextafter", ""),
        (lambda a, b: np.subtract.reduce(a), r"subtract\.reduce", r"np\.add\.reduce"),
        (lambda a, b: np.polyfit(a, b, 1), "polyfit", r"np\.linalg\.solve"),
        (lambda a, b: np.fft.fft(a), r"fft\.fft", "complex"),
        (lambda a, b: np.polydiv(a, b), "polydiv", r"np\.polymul"),
    ],
)
def test_what_has_no_rule_raises_and_names_the_nearest(f, name, hint):
    x = leaf([1.0, 2.0])
    with pytest.raises(TypeError, match=rf"np\.{name} has no VJP rule.*{hint}"):
        f(x, x)


def test_out_is_refused():
    x, a = leaf([1.0]), np.ones(1)
    with pytest.raises(TypeError, match=r"out=.*a = a \+ t"):
        a += x
    with pytest.raises(TypeError, match="out="):
        np.exp(x, out=a)
    np.testing.assert_array_equal(a, 1.0)


def test_unknown_settings_are_refused():
    with pytest.raises(TypeError, match=r"np\.nan_to_num on a tensor does not take copy="):
        np.nan_to_num(leaf([1.0]), copy=False)
    with pytest.raises(TypeError, match=r"np\.exp.*casting='same_kind' only"):
        np.exp(leaf([1.0]), casting="no")


def test_functions_without_a_gradient_give_plain_results():
    x = leaf([3.0, 1.0, np.inf])
    assert np.argmax(x) == 2
    assert np.argsort(x).tolist() == [1, 0, 2]
    assert x.argmax() == 2
    assert x.argmin() == 1
    assert np.isinf(x).tolist() == [False, False, True]
    assert np.greater(x, 2.0).tolist() == [True, False, True]
    assert np.allclose(x, [3.0, 1.0, np.inf])
    assert (np.shape(x), np.ndim(x), np.size(x)) == ((3,), 1, 3)
    assert type(np.zeros_like(x)) is np.ndarray
    assert np.array_equal(x, x)
    assert np.result_type(x, np.float32) == np.float64


def test_constants_stay_unrecorded():
    y = np.exp(Tensor([1.0])) * 2.0
    assert type(y) is Tensor
    assert y.node is None
    assert not y.requires_grad
