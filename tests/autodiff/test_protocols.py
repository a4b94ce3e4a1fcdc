"""NumPy's functions on tensors: each is recorded rightly, gives NumPy's plain result, or says what to write instead."""

import copy
import itertools
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

import autodiff as ad
import autodiff.functional as F
from autodiff import Tensor
from autodiff.node import OPS, TWINS
from autodiff.protocols import LATE, METHODS, PLAIN, NumPyProtocols, full_name


def leaf(data, dtype=float):
    return Tensor(np.array(data, dtype), requires_grad=True)


def grad(f, x):
    """Gradient of sum(f) at an array."""
    x = leaf(x)
    f(x).sum().backward()
    return x.grad


def parts_of(result):
    return list(result) if isinstance(result, (tuple, list)) else [result]


def same(ours, theirs):
    """Whether a result has NumPy's values, dtypes and shapes."""
    for a, b in zip(parts_of(ours), parts_of(theirs), strict=True):
        a = a.data if isinstance(a, Tensor) else a
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-14)
        assert np.asarray(a).dtype == np.asarray(b).dtype
        assert np.shape(a) == np.shape(b)


# --- every ufunc ---

UFUNCS = sorted({f for f in vars(np).values() if isinstance(f, np.ufunc)}, key=full_name)
ELEMENTWISE = [f for f in UFUNCS if f.signature is None]
CONSTANT = {np.sign, np.floor, np.ceil, np.trunc, np.rint, np.floor_divide}
FIRST, SECOND = np.array([1.3, 0.6, 1.7]), np.array([0.7, 1.9, -0.4])


def domain(ufunc):
    """Arguments at which a ufunc is defined and smooth."""
    first = FIRST - 0.9 if ufunc in {np.arcsin, np.arccos, np.arctanh} else FIRST + (ufunc is np.arccosh)
    if ufunc is np.ldexp:
        return [first, np.array([2, -1, 0])]
    return [first, np.abs(SECOND) if ufunc in {np.power, np.float_power} else SECOND][: ufunc.nin]


def differences(ufunc, args, i, output):
    """Derivatives by one argument, from central differences."""
    h = 1e-6
    sides = []
    for step in (h, -h):
        moved = list(args)
        moved[i] = args[i] + step
        sides.append(np.asarray(parts_of(ufunc(*moved))[output], float))
    return (sides[0] - sides[1]) / (2 * h)


@pytest.mark.parametrize("ufunc", ELEMENTWISE, ids=full_name)
def test_every_ufunc_is_recorded_plain_or_refused(ufunc):
    args = domain(ufunc)
    leaves = [leaf(x) if x.dtype == float else x for x in args]
    if ufunc not in TWINS and ufunc not in PLAIN:
        with pytest.raises(TypeError, match=rf"np\.{ufunc.__name__} .*Instead: "):
            ufunc(*leaves)
        return
    found, expected = ufunc(*leaves), ufunc(*args)
    same(found, expected)
    if ufunc in PLAIN:
        assert not any(isinstance(part, Tensor) for part in parts_of(found))
        return
    for output, part in enumerate(parts_of(found)):
        if ufunc in CONSTANT or not isinstance(part, Tensor) or not part.requires_grad:
            for i in range(ufunc.nin):
                assert ufunc is np.ldexp or not differences(ufunc, args, i, output).any()
            continue
        for i, x in enumerate(leaves):
            if isinstance(x, Tensor):
                g = ad.gradients(part, x, np.ones(part.shape))
                np.testing.assert_allclose(g.data, differences(ufunc, args, i, output), rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("ufunc", [f for f in ELEMENTWISE if f in TWINS], ids=full_name)
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_dtypes_are_numpys(ufunc, dtype):
    args = [x.astype(dtype) if x.dtype == float else x for x in domain(ufunc)]
    if ufunc is np.float_power:
        dtype = np.float64
    for call in (args, [args[0], *(2 for _ in args[1:])]):  # also with a Python number, which is weak
        leaves = [Tensor(x, requires_grad=True) if np.asarray(x).dtype.kind == "f" else x for x in call]
        for ours, theirs in zip(parts_of(ufunc(*leaves)), parts_of(ufunc(*call)), strict=True):
            assert np.asarray(theirs).dtype == ours.dtype
            assert getattr(ours, "requires_grad", False) <= (ours.dtype == dtype)
            if getattr(ours, "requires_grad", False):
                rules = ours.node.plan.rules
                assert rules
                g = ad.gradients(ours, leaves[0], np.ones(ours.shape), create_graph=True)
                assert g.dtype == args[0].dtype


@pytest.mark.parametrize("ufunc", [f for f in UFUNCS if f.signature is not None], ids=full_name)
def test_generalised_ufuncs(ufunc):
    x = np.array([[1.0, 2.0], [3.0, 4.0]])
    y = ufunc(leaf(x), x)
    same(y, ufunc(x, x))
    assert y.requires_grad
    same(ufunc(leaf(x, np.float32), x.astype(np.float32), dtype=float), ufunc(x, x))
    with pytest.raises(TypeError, match="where"):
        ufunc(leaf(x), x, where=x > 1)


# --- every function ---

MODULES = {"np": np, "np.linalg": np.linalg, "np.fft": np.fft}
FUNCTIONS = {
    full_name(f): f
    for module in MODULES.values()
    for name, f in sorted(vars(module).items())
    if callable(f) and hasattr(f, "_implementation") and not name.startswith("_")
}
VECTOR, MATRIX = np.array([0.4, 1.3, 0.9]), np.array([[2.0, 0.3], [0.3, 1.5]])
CUBE, PLACES, SQUARE = np.arange(1.0, 9.0).reshape(2, 2, 2), np.array([0, 1, 0]), np.zeros((2, 2), int)


def calls():
    """Ways to call a function of which nothing is known: tensors in the places of the arrays, among all else."""
    for x in (VECTOR, MATRIX, CUBE):
        t = leaf(x)
        for a in (t, x):
            yield from (
                [a], [a, a], [[a, a]], [a, 1], [a, 2], [a, 0.5], [a, float], [a, x.shape], [a, np.sum], [a, x > 1],
                [x > 1, a], [a, a, a], [a, 0, 1], [a, 0, a], [a, a, 1], [a, [1], a], [np.sum, 0, a], ["i,i", a, a],
                [[x > 1], [a]], [a, [x > 1], [1.0]], ["name", a], [PLACES, a], [SQUARE, a], [a, SQUARE, 0],
                [a, SQUARE, a, 0], [a, PLACES, 0], [SQUARE, [a, a]],
            )  # fmt: skip


def pairs():
    """The same calls with tensors and with arrays."""
    found = list(calls())
    per_array = len(found) // 6
    for start in range(0, len(found), 2 * per_array):
        yield from zip(found[start : start + per_array], found[start + per_array : start + 2 * per_array], strict=True)


FAILURES = (TypeError, ValueError, IndexError, AttributeError, ZeroDivisionError, np.linalg.LinAlgError)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_function_is_recorded_plain_or_refused(name, tmp_path, monkeypatch):
    """No function makes an array of a tensor in silence, and none gives other values than NumPy does."""
    function, asked = FUNCTIONS[name], []
    protocol = Tensor.__array_function__
    monkeypatch.setattr(NumPyProtocols, "__array_function__", lambda *args: asked.append(1) or protocol(*args))
    monkeypatch.chdir(tmp_path)  # np.save of a name
    refused, agreed = 0, 0
    for ours, theirs in pairs():
        asked.clear()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                result = function(*copy.deepcopy(ours))
            except FAILURES as error:
                refused += "cannot be recorded for a tensor" in str(error)
                continue
            try:
                expected = function(*copy.deepcopy(theirs))
            except FAILURES:  # ours takes what NumPy's does not: nothing to compare
                continue
        objects = any(isinstance(part, np.ndarray) and part.dtype.kind == "O" for part in parts_of(expected))
        if not asked or objects:  # it took np.sum for an array, or the tensor for a number or a truth value
            continue
        assert function in TWINS or function in PLAIN
        for a, b in zip(parts_of(result), parts_of(expected), strict=True):
            if isinstance(a, Tensor):
                assert function in TWINS
                np.testing.assert_allclose(a.data, b, rtol=1e-9, atol=1e-12)
            elif isinstance(a, (np.ndarray, np.generic)) and function is not np.empty_like:
                np.testing.assert_array_equal(a, b)
                assert a.dtype == np.asarray(b).dtype
            elif function is not np.empty_like:
                assert repr(a) == repr(b)
        tensors = [part for part in parts_of(result) if isinstance(part, Tensor)]
        floats = [part for part in parts_of(result) if getattr(part, "dtype", int) in (np.float64, object)]
        assert tensors or not floats or function in PLAIN or function is np.full_like
        agreed += 1
    if function in TWINS or function in PLAIN:
        assert agreed or name in INTEGERS_ONLY
        assert not refused or function is np.full_like
    else:
        assert refused


INTEGERS_ONLY = {"np.unravel_index", "np.ravel_multi_index"}


@pytest.mark.parametrize("function", [np.unravel_index, lambda x, shape: np.ravel_multi_index((x, x), shape)])
def test_functions_of_integers(function):
    x = np.array([1, 0, 2])
    same(function(Tensor(x), (3, 3)), function(x, (3, 3)))


@pytest.mark.parametrize(
    "call",
    [
        lambda t: np.array([t, t]), lambda t: np.asarray(t), lambda t: np.vectorize(lambda x: x)(t),
        lambda t: np.fromiter(t, float), lambda t: np.full(3, t[0]), lambda t: np.frompyfunc(abs, 1, 1)(t),
        lambda t: np.arange(3.0).__setitem__(0, t[0]), lambda t: np.random.default_rng(0).normal(t),
        lambda t: np.array(np.zeros(3), like=t), lambda t: np.polynomial.Polynomial([1.0, 2.0])(np.asarray(t)),
        lambda t: np.float64(t[0]), lambda t: np.array2string(np.array(t)), lambda t: np.ix_(t),
    ],
)  # fmt: skip
def test_ways_around_the_protocols_are_closed_too(call):
    with pytest.raises((TypeError, ValueError)):
        call(leaf(VECTOR))


def test_functions_without_a_gradient_are_plain():
    for name in (
        "zeros_like ones_like empty_like shape ndim size isnan isinf isfinite any all allclose array_equal nonzero "
        "count_nonzero argmax argmin argsort searchsorted equal less greater_equal logical_and logical_not argwhere "
        "flatnonzero nanargmax isclose array_equiv may_share_memory result_type can_cast iscomplexobj isrealobj "
        "signbit digitize isposinf isin argpartition lexsort"
    ).split():
        assert getattr(np, name) in PLAIN, name
    assert not PLAIN & TWINS.keys()
    x = leaf([3.0, np.nan, 1.0])
    assert np.isnan(x, where=[True, False, True]).tolist()[0] is False
    assert np.any(x, axis=0, keepdims=True).shape == (1,)
    assert np.searchsorted([0.0, 2.0], x).tolist() == [2, 2, 1]
    assert np.logical_and.reduce(x > 0) == np.False_
    assert np.greater.outer(x, [2.0]).tolist() == [[True], [False], [False]]
    assert type(np.zeros_like(x)) is np.ndarray


# --- where= and dtype= of ufuncs ---


def test_where_computes_where_the_mask_holds_and_nowhere_else():
    x = leaf([4.0, -1.0, 9.0])
    y = np.sqrt(x, where=x > 0)  # no warning: the root of -1 is not taken
    assert y.tolist() == [2.0, 0.0, 3.0]
    y.sum().backward()
    assert x.grad.tolist() == [0.25, 0.0, 1 / 6]


@given(st.data())
def test_where_broadcasts(data):
    shapes = data.draw(npst.mutually_broadcastable_shapes(num_shapes=3, max_dims=3, max_side=3))
    numbers = st.floats(0.5, 2.0)
    a, b = (data.draw(npst.arrays(float, shape, elements=numbers)) for shape in shapes.input_shapes[:2])
    mask = data.draw(npst.arrays(bool, shapes.input_shapes[2]))
    x, y = leaf(a), leaf(b)
    z = np.divide(x, y, where=mask)
    expected = np.where(mask, a / b, 0)
    np.testing.assert_array_equal(z.data, np.broadcast_to(expected, shapes.result_shape))
    gx, gy = ad.gradients(z, [x, y], np.ones(z.shape))
    ones = leaf(a), leaf(b)
    hx, hy = ad.gradients(np.where(mask, ones[0] / ones[1], 0.0), ones, np.ones(z.shape))
    np.testing.assert_allclose(gx.data, hx.data, rtol=1e-12)
    np.testing.assert_allclose(gy.data, hy.data, rtol=1e-12)


def test_where_of_two_outputs_and_weak_numbers():
    x = leaf([5.0, 7.0], np.float32)
    quotient, rest = np.divmod(x, 4, where=np.array([False, True]))
    assert (quotient.tolist(), rest.tolist(), rest.dtype) == ([0.0, 1.0], [0.0, 3.0], np.float32)
    assert np.exp(leaf(0.0), where=False).tolist() == 0.0
    assert np.exp(x, where=True).tolist() == np.exp(x.data).tolist()
    with pytest.raises(TypeError, match="booleans"):
        np.exp(x, where=[1, 0])


def test_dtype_chooses_the_loop():
    x = leaf([0.1, 0.7], np.float32)
    y = np.add(x, 1, dtype=np.float64)
    same(y, np.add(x.data, 1, dtype=np.float64))
    y.sum().backward()
    assert (x.grad.dtype, x.grad.tolist()) == (np.float32, [1.0, 1.0])
    z = np.multiply(leaf([0.1]), [3.0], dtype=np.float32)
    same(z, np.multiply([0.1], [3.0], dtype=np.float32))
    assert z.requires_grad
    with pytest.raises(TypeError):  # NumPy's own: no loop
        np.add(x, 1, dtype=int)


def test_usual_settings_change_nothing():
    x = leaf([1.0, 2.0])
    y = np.exp(x, out=None, where=True, dtype=None, casting="same_kind", order="K", subok=True)
    same(y, np.exp(x.data))
    for name, value in [("casting", "no"), ("order", "F"), ("subok", False)]:
        with pytest.raises(TypeError, match=rf"np\.exp on a tensor takes {name}="):
            np.exp(x, **{name: value})
    same(np.sum(x, axis=None, dtype=None, out=None, keepdims=np._NoValue, initial=np._NoValue, where=True), 3.0)
    same(np.nan_to_num(x, copy=True, nan=0.0), x.data)
    same(np.reshape(x, (2, 1), order="C"), x.data[:, None])
    same(np.round(x, out=None), x.data)


@pytest.mark.parametrize(
    "call",
    [
        lambda x, a: np.exp(x, out=a), lambda x, a: np.add(a, x, out=(a,)), lambda x, a: np.sum(x, axis=0, out=a),
        lambda x, a: np.mean(x, out=a), lambda x, a: np.max(x, out=a), lambda x, a: np.std(x, out=a),
        lambda x, a: np.cumsum(x, out=a), lambda x, a: np.add.reduce(x, out=a), lambda x, a: np.round(x, out=a),
        lambda x, a: np.exp(a, out=x), lambda x, a: x.sum(out=a), lambda x, a: np.isnan(a, out=x),
    ],
)  # fmt: skip
def test_out_is_refused(call):
    with pytest.raises(TypeError, match=r"np\.\w+.* cannot write a tensor's result into out="):
        call(leaf([1.0, 2.0]), np.ones(2))


# --- methods of ufuncs ---

AXES = [{}, {"axis": 1}, {"axis": -1}, {"axis": None}, {"axis": (0, 1)}, {"axis": 0, "keepdims": True}]


@pytest.mark.parametrize("settings", AXES, ids=str)
@pytest.mark.parametrize("ufunc", [f for f, method in METHODS if method == "reduce"], ids=full_name)
def test_reduce(ufunc, settings):
    x = np.random.default_rng(0).normal(size=(2, 3))
    if ufunc is np.logaddexp and type(settings.get("axis", 0)) is not int:
        return  # NumPy reduces several axes at once only where the order does not matter
    y = ufunc.reduce(leaf(x), **settings)
    same(y, ufunc.reduce(x, **settings))
    assert y.requires_grad
    same(ufunc.reduce(leaf(x), where=x > -9, initial=-0.5), ufunc.reduce(x, where=x > -9, initial=-0.5))
    same(ufunc.reduce(leaf(x), dtype=np.float32), ufunc.reduce(x, dtype=np.float32)) if ufunc is np.add else None


@pytest.mark.parametrize("ufunc", [f for f, method in METHODS if method == "accumulate"], ids=full_name)
def test_accumulate(ufunc):
    x = np.random.default_rng(1).normal(size=(2, 3))
    for settings in ({}, {"axis": 1}):
        y = ufunc.accumulate(leaf(x), **settings)
        same(y, ufunc.accumulate(x, **settings))
        assert y.requires_grad
    with pytest.raises(TypeError, match="scalar"):
        ufunc.accumulate(leaf(1.0))


def test_methods_have_the_gradients_of_the_functions():
    x = np.array([[1.0, 2.0], [3.0, 4.0]])
    np.testing.assert_array_equal(grad(lambda t: np.multiply.reduce(t), x), [[3.0, 4.0], [1.0, 2.0]])
    np.testing.assert_array_equal(grad(lambda t: np.maximum.reduce(t), x), [[0.0, 0.0], [1.0, 1.0]])
    np.testing.assert_array_equal(grad(lambda t: np.add.accumulate(t), x), [[2.0, 2.0], [1.0, 1.0]])
    np.testing.assert_allclose(grad(lambda t: np.logaddexp.reduce(t, axis=1), x)[0], F.softmax(x[0]), rtol=1e-14)
    for ufunc in (np.add, np.multiply, np.maximum, np.logaddexp):
        assert ufunc.reduce(leaf(3.0)).item() == pytest.approx(3.0)


@pytest.mark.parametrize("shapes", list(itertools.product([(), (2,), (2, 3)], repeat=2)), ids=str)
@pytest.mark.parametrize("ufunc", [np.add, np.multiply, np.arctan2, np.maximum], ids=full_name)
def test_outer(ufunc, shapes):
    rng = np.random.default_rng(2)
    a, b = (rng.normal(size=shape) for shape in shapes)
    x, y = leaf(a), leaf(b)
    z = ufunc.outer(x, y)
    same(z, ufunc.outer(a, b))
    g = ad.gradients(z, x, np.ones(z.shape))
    assert g.shape == x.shape
    same(ufunc.outer(x, 2.0), ufunc.outer(a, 2.0))
    same(ufunc.outer([1.0, 2.0], y), ufunc.outer([1.0, 2.0], b))


@pytest.mark.parametrize(
    ("call", "hint"),
    [
        (lambda t: np.add.at(np.zeros(3), [0], t), r"np\.add\.at .*F\.scatter_add"),
        (lambda t: np.add.reduceat(t, [0]), r"np\.add\.reduceat .*F\.scatter_add"),
        (lambda t: np.subtract.reduce(t), r"np\.subtract\.reduce .*np\.add\.reduce"),
        (lambda t: np.divide.accumulate(t), r"np\.divide\.accumulate .*np\.add\.accumulate"),
        (lambda t: np.bitwise_and.outer(t, t), r"np\.bitwise_and\.outer has no VJP rule"),
        (lambda t: np.less.at(t, [0], 1.0), r"np\.less\.at has no VJP rule"),
    ],
)
def test_other_methods_are_refused(call, hint):
    with pytest.raises(TypeError, match=hint):
        call(leaf(VECTOR))


# --- settings, operators ---


def test_defaults_that_ops_lack_may_be_given():
    x = np.array([[1.0, 2.0], [3.0, 4.0]])
    same(np.einsum("ij->ji", leaf(x), out=None, order="K", casting="safe", dtype=None), x.T)
    same(np.take(leaf(x), [0], mode="raise"), np.take(x, [0]))
    same(np.clip(leaf(x), 2, 3, None), np.clip(x, 2, 3))
    same(np.nan_to_num(leaf(x), copy=True), x)
    same(np.average(leaf(x), axis=[0, 1]), np.average(x, axis=[0, 1]))
    same(np.average(leaf(x), axis=[1], weights=[1.0, 3.0]), np.average(x, axis=(1,), weights=[1.0, 3.0]))


def test_reductions_of_ufuncs_by_keyword_and_without_elements():
    x = np.array([[1.0, 2.0], [3.0, 4.0]])
    same(np.add.reduce(array=leaf(x), axis=1), np.add.reduce(x, axis=1))
    same(np.add.accumulate(array=leaf(x)), np.add.accumulate(x))
    same(np.add.reduce(leaf(x), initial=None), np.add.reduce(x, initial=None))
    same(np.multiply.reduce(leaf(np.zeros((0, 2)))), np.ones(2))
    same(np.add.reduce(leaf(np.zeros((0, 2))), axis=1, initial=None), np.zeros(0))
    for call in (
        lambda a: np.add.reduce(a[:0], initial=None), lambda a: np.multiply.reduce(a[:0], initial=None),
        lambda a: np.add.accumulate(a, axis=None), lambda a: np.add.accumulate(a, axis=(0, 1)),
    ):  # fmt: skip
        for a in (x, leaf(x)):
            with pytest.raises(ValueError, match=r"accumulate|without a value|zero-size"):
                call(a)


def test_comparing_with_what_is_no_number():
    x = np.array([1.0, 2.0])
    for other in ("a", None, "1.0", [1.0, 3.0], x, 1.0):
        assert np.array_equal(leaf(x) == other, x == other)
        assert np.array_equal(leaf(x) != other, x != other)
    assert (leaf(x) == leaf(x)).tolist() == [True, True]
    assert not leaf(1.0) == "a"


def test_remainders_as_operators():
    x = leaf([-7.0, 7.0])
    same(x % 2, np.array([1.0, 1.0]))
    same(x // 2, np.array([-4.0, 3.0]))
    same(9 % x, 9 % x.data)
    same(9 // x, 9 // x.data)
    assert grad(lambda t: t % 2.0, [5.0]).tolist() == [1.0]


# --- SciPy ---


def test_what_to_write_for_scipys_ufuncs_is_equal_to_them():
    special = pytest.importorskip("scipy.special", reason="compares with SciPy")
    t, x, y = np.array([0.2, 0.7]), np.array([0.3, 2.0]), np.array([1.5, 0.4])
    same(-F.xlogy(t, t), special.entr(t))
    same(F.xlogy(x, x / y), special.rel_entr(x, y))
    same(F.xlogy(x, x / y) - x + y, special.kl_div(x, y))
    same(np.deg2rad(x + y / 60 + t / 3600), special.radian(x, y, t))
    same(10**t, special.exp10(t))
    same(np.expm1(t) / t, special.exprel(t))
    same(-2 * np.sin(t / 2) ** 2, special.cosm1(t))
    same(np.expm1(y * np.log(x)), special.powm1(x, y))
    same(np.expm1(y * np.log(x)) / y, special.boxcox(x, y))
    same(special.gammaln(x) + special.gammaln(y) - special.gammaln(x + y), special.betaln(x, y))
    same(special.erfinv(1 - t), special.erfcinv(t))
    same(np.sqrt(2) * special.erfinv(2 * t - 1), special.ndtri(t))
    same(np.where(np.abs(x) <= y, x * x / 2, y * (np.abs(x) - y / 2)), special.huber(y, x))
    same(y**2 * (np.sqrt(1 + (x / y) ** 2) - 1), special.pseudo_huber(y, x))
    with pytest.raises(TypeError, match=r"scipy\.special\.entr has no VJP rule.*Instead: -F\.xlogy\(t, t\)"):
        special.entr(leaf(t))


def test_scipys_ufuncs_are_found_by_identity(monkeypatch):
    special = pytest.importorskip("scipy.special", reason="compares with SciPy")
    x = np.array([0.2, 0.6, 0.7])
    for name in LATE:
        ufunc = getattr(special, name.rpartition(".")[2])
        args = (x, x + 0.1)[: ufunc.nin]
        y = ufunc(*map(leaf, args))
        same(y, ufunc(*args))
        assert y.requires_grad
        assert TWINS[ufunc] is LATE[name]
    same(special.digamma(leaf(x)), special.digamma(x))
    with pytest.raises(TypeError, match=r"scipy\.special\.j0 has no VJP rule"):
        special.j0(leaf(x))
    assert OPS["erf"] is LATE["scipy.special.erf"]
    erf = special.erf
    monkeypatch.setattr(special, "erf", None)  # now it is another ufunc that has this name by chance
    monkeypatch.delitem(TWINS, erf)
    with pytest.raises(TypeError, match="erf has no VJP rule"):
        erf(leaf(x))
