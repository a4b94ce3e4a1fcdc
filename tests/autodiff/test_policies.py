"""The table of decisions in docs/policies.md, row by row, each at the exact point.

Every row of the table has a test here, and every test a row.
"""

import re
import warnings
from pathlib import Path

import numpy as np
import pytest

import autodiff as ad
import autodiff.functional as F
from autodiff import Tensor

TABLE = Path(__file__).parents[2] / "docs" / "policies.md"
TESTS = {}


def row(where):
    """Make a function the test of the row that begins with these words."""

    def register(function):
        assert where not in TESTS
        TESTS[where] = function
        return function

    return register


def rows():
    lines = TABLE.read_text(encoding="utf-8").splitlines()
    cells = [re.match(r"\| (.+?) \| (.+) \|$", line) for line in lines]
    return [match.group(1) for match in cells if match and match.group(1) not in ("where", "---")]


def grad(f, *at):
    leaves = [Tensor(x, requires_grad=True) for x in at]
    out = f(*leaves)
    found = ad.gradients(out, leaves, np.ones(out.shape))
    return [g.tolist() for g in found] if len(at) > 1 else found[0].tolist()


@pytest.mark.parametrize("where", rows())
def test_row(where):
    TESTS[where]()


def test_every_test_has_a_row():
    assert set(TESTS) == set(rows())


# --- kinks and ties ---


@row("`abs`, `relu` at 0; `std` and `norm` at 0")
def _():
    assert grad(np.abs, [0.0, -0.0]) == [0, 0]
    assert grad(F.relu, [0.0, -0.0]) == [0, 0]
    assert grad(np.std, [1.0, 1.0]) == [0, 0]
    assert grad(np.std, [3.0]) == [0]
    assert grad(np.linalg.norm, [0.0, 0.0, 0.0]) == [0, 0, 0]
    assert grad(lambda x: np.linalg.norm(x) ** 2, [0.0, 0.0]) == [0, 0]


@row("`maximum`, `minimum`, `max`, `min` at ties")
def _():
    for f in (np.maximum, np.minimum):
        assert grad(f, 0.0, 0.0) == [0.5, 0.5]
    for f in (np.max, np.min):
        assert grad(f, [1.0, 1.0]) == [0.5, 0.5]
        assert grad(lambda x, f=f: f(x, axis=1).sum(), [[2.0, 2.0, 2.0, 2.0]]) == [[0.25] * 4]
    # the number of ties is counted in a wide type: 3000 of them do not fit a half's 2048 consecutive integers
    x = Tensor(np.zeros(3000, np.float16), requires_grad=True)
    np.max(x).backward()
    assert x.grad.dtype == np.float16
    assert set(x.grad.tolist()) == {float(np.float16(1 / 3000))}


@row("`hypot`, `arctan2` at (0, 0); `fabs`, `copysign` at 0")
def _():
    for f in (np.hypot, np.arctan2):
        assert grad(f, 0.0, 0.0) == [0, 0]
    assert grad(np.fabs, [0.0, -0.0]) == [0, 0]
    assert grad(lambda x: np.copysign(x, -1.0), [0.0, 2.0]) == [0, -1]


@row("`std`, `var` of no more numbers than `ddof`")
def _():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of NumPy, on the values
        assert np.isnan(grad(lambda x: np.std(x, ddof=1), [3.0])).all()
        assert np.isnan(grad(lambda x: np.var(x, ddof=2), [3.0, 4.0])).all()


@row("lengths and spreads of numbers whose squares leave the range")
def _():
    for size in (1e-200, 1e200):
        np.testing.assert_allclose(grad(np.linalg.norm, [3 * size, 4 * size]), [0.6, 0.8], rtol=1e-15)
        np.testing.assert_allclose(grad(np.std, [3 * size, 4 * size]), [-0.5, 0.5], rtol=1e-15)
    with np.errstate(over="ignore"):
        np.testing.assert_allclose(grad(np.linalg.norm, [1.2e308, 1.6e308]), [0.6, 0.8], rtol=1e-15)


@row("`gelu`, `silu`, `swiglu` at infinity")
def _():
    for f in (F.gelu, F.silu, lambda x: F.swiglu(x, 1.0)):
        assert f(np.array([-np.inf, np.inf])).tolist() == [0, np.inf]
        assert np.signbit(f(-np.inf))
        assert grad(f, [-np.inf, np.inf]) == [0, 1]


@row("second derivatives of `abs`, `norm`, `std`, `hypot` at these points")
def _():
    squares = {
        lambda x: np.sum(np.abs(x)) ** 2: np.zeros(2),
        lambda x: np.linalg.norm(x) ** 2: np.zeros(2),
        lambda x: np.linalg.norm(x, 3) ** 2: np.zeros(2),
        lambda x: np.std(x) ** 2: np.ones(2),
        lambda x: np.hypot(x[0], x[1]) ** 2: np.zeros(2),
    }
    for f, at in squares.items():
        assert ad.hessian(f)(at).tolist() == [[0, 0], [0, 0]]
    assert ad.hessian(lambda x: np.sum(x * x))(np.zeros(2)).tolist() == [[2, 0], [0, 2]]
    assert ad.hessian(np.var)(np.ones(2)).tolist() == [[0.5, -0.5], [-0.5, 0.5]]


@row("`fmax`, `fmin` next to NaN")
def _():
    for f in (np.fmax, np.fmin):
        assert f(Tensor([np.nan]), 2.0).tolist() == [2.0]
        assert grad(f, [np.nan, 1.0], [2.0, np.nan]) == [[0, 1], [1, 0]]


@row("`floor`, `ceil`, `trunc`, `rint`, `round`, `sign`, `floor_divide`")
def _():
    x = Tensor([0.5, 2.0], requires_grad=True)
    for f in (np.floor, np.ceil, np.trunc, np.rint, np.round, np.sign, lambda x: np.floor_divide(x, 2.0)):
        assert f(x).requires_grad
        assert grad(f, [0.5, 2.0, -3.7]) == [0, 0, 0]
        assert grad(lambda x, f=f: x * f(x), 0.7) == f(0.7)


@row("`remainder`, `fmod` where the quotient is an integer")
def _():
    assert grad(np.remainder, [6.0, -6.0], [2.0, 2.0]) == [[1, 1], [-3, 3]]
    assert grad(np.fmod, [6.0, -6.0], [2.0, 2.0]) == [[1, 1], [-3, 3]]


@row("`nan_to_num` where it replaces; `where=` where it is false")
def _():
    assert grad(np.nan_to_num, [np.nan, np.inf, 1.0]) == [0, 0, 1]
    x, mask = [-1.0, 4.0], [False, True]
    assert np.sqrt(Tensor(x), where=mask).tolist() == [0, 2]
    assert grad(lambda x: np.sqrt(x, where=mask), x) == [0, 0.25]
    assert grad(lambda x: np.sum(x, where=mask), [np.nan, 0.0]) == [0, 1]


@row("`max`, `min`, `maximum`, `minimum`, `median`, `quantile`, `clip`, `relu` of NaN")
def _():
    nan = np.nan
    for f in (np.max, np.min, np.median, lambda x: np.quantile(x, 0.3), lambda x: np.max(x, axis=0, keepdims=True)):
        assert grad(f, [1.0, nan, 2.0]) == [0, 1, 0]
    for f in (np.max, np.min):
        assert grad(f, [nan, 1.0, nan]) == [0.5, 0, 0.5]
        assert grad(lambda x, f=f: f(x, axis=1), [[nan, 1.0], [2.0, 2.0]]) == [[1, 0], [0.5, 0.5]]
    for f in (np.maximum, np.minimum):
        assert grad(f, [nan, 1.0, nan], [1.0, nan, nan]) == [[1, 0, 0.5], [0, 1, 0.5]]
        assert grad(lambda x, f=f: f(x, 0.0), nan) == 1
    assert grad(lambda x: np.clip(x, 0.0, 1.0), [nan, 0.5, 2.0]) == [1, 1, 0]
    assert grad(F.relu, [nan, -1.0, 2.0]) == [1, 0, 1]


@row("`cumprod` with NaN or infinity behind the last product that is used")
def _():
    assert grad(lambda x: np.cumprod(x)[0], [1.0, np.nan]) == [1, 0]
    assert grad(lambda x: np.cumprod(x)[:2], [1.0, 2.0, np.inf]) == [3, 1, 0]


@row("`det` of a matrix that is not finite")
def _():
    with np.errstate(invalid="ignore"):  # NumPy's warning of the determinant itself
        finite, wrong = grad(np.linalg.det, [[[1.0, 2.0], [3.0, 4.0]], [[np.nan, 2.0], [3.0, 4.0]]])
    np.testing.assert_allclose(finite, [[4, -3], [-2, 1]], rtol=1e-12)
    assert np.all(np.isnan(wrong))


@row("`clip` at its bounds")
def _():
    assert grad(lambda x: np.clip(x, 1, 4), [0.0, 1, 2, 3, 4, 5]) == [0, 1, 1, 1, 1, 0]


# --- zeros ---


@row("`x**0` at 0; `x**1` at 0")
def _():
    assert grad(lambda x: x**0, 0.0) == 0
    assert grad(lambda x: x**1, 0.0) == 1
    assert grad(lambda x: x ** np.array([0.0, 1.0, 2.0]), [0.0, 0.0, 0.0]) == [0, 1, 0]
    assert grad(lambda x: x**3, -2.0) == 12  # the logarithm of a negative base is never taken: no warning


@row("gradient of the exponent at base 0")
def _():
    assert grad(lambda y: 0.0**y, 2.0) == 0
    assert grad(np.power, [0.0], [3.0]) == [[0], [0]]


@row("mixed second derivative of `x**y` at x = 0")
def _():
    with np.errstate(divide="ignore"):
        assert ad.hessian(lambda v: v[0] ** v[1])(np.array([0.0, 1.5])).tolist() == [[np.inf, 0], [0, 0]]
        assert ad.hessian(lambda v: np.sum(v**1.5))(np.array([0.0, 4.0])).tolist() == [[np.inf, 0], [0, 0.375]]


@row("`prod` with zeros")
def _():
    assert grad(np.prod, [0.0, 2, 3]) == [6, 0, 0]
    assert grad(np.prod, [0.0, 0, 3]) == [0, 0, 0]
    assert grad(np.prod, [0.0]) == [1]
    assert grad(np.cumprod, [2.0, 0, 3]) == [1, 8, 0]


# --- matrices ---


@row("`det` of a singular matrix")
def _():
    assert np.allclose(grad(np.linalg.det, [[1.0, 2.0], [2.0, 4.0]]), [[4, -2], [-2, 1]])
    assert np.allclose(grad(np.linalg.det, [[0.0, 0.0], [0.0, 0.0]]), 0)


@row("`slogdet` of a singular matrix")
def _():
    a = Tensor([[1.0, 2.0], [2.0, 4.0]], requires_grad=True)
    sign, logabsdet = np.linalg.slogdet(a)
    assert (sign.item(), logabsdet.item()) == (0, -np.inf)
    with pytest.raises(np.linalg.LinAlgError, match="slogdet"):
        logabsdet.backward()


@row("equal eigenvalues or singular values")
def _():
    assert np.allclose(grad(lambda a: np.linalg.eigvalsh(a).sum(), np.eye(3)), np.eye(3))
    assert np.allclose(grad(lambda a: np.linalg.svdvals(a).sum(), np.eye(3)), np.eye(3))
    for vectors in (lambda a: np.linalg.eigh(a).eigenvectors, lambda a: np.linalg.svd(a).U):
        with pytest.raises(ValueError, match=r"equal|repeated|gap|differ"):
            grad(lambda a, vectors=vectors: vectors(a)[0, 1], np.eye(3))


@row("a singular value of 0")
def _():
    assert grad(lambda a: np.linalg.svdvals(a).sum(), np.zeros((2, 2))) == [[0, 0], [0, 0]]


@row("`cholesky`, `eigh`")
def _():
    for f in (np.linalg.cholesky, np.linalg.eigvalsh):
        g = np.array(grad(lambda a, f=f: f(a)[..., -1].sum(), [[4.0, 2.0], [2.0, 3.0]]))
        assert np.allclose(g, g.T)
        assert g[0, 1] != 0


# --- order ---


@row("`sort`, `median` at ties; `np.maximum.accumulate` at ties")
def _():
    assert grad(lambda x: np.sort(x)[0], [1.0, 1.0, 2.0]) == [1, 0, 0]
    assert grad(np.median, [1.0, 1.0, 1.0]) == [0, 1, 0]
    assert grad(lambda x: np.maximum.accumulate(x)[2], [1.0, 1.0, 0.0]) == [0, 1, 0]


@row("`interp` at a knot")
def _():
    xp, fp = np.array([0.0, 1.0, 2.0]), np.array([0.0, 10.0, 13.0])
    assert grad(lambda x: np.interp(x, xp, fp), [0.0, 1.0, 2.0]) == [10, 3, 3]


# --- masks ---


@row("`logsumexp` of all `-inf`")
def _():
    x = Tensor([-np.inf, -np.inf], requires_grad=True)
    y = F.logsumexp(x)
    y.backward()
    assert y.item() == -np.inf
    assert x.grad.tolist() == [0, 0]
    assert grad(F.logsumexp, [-np.inf, 1.0]) == [0, 1]


@row("`logaddexp` of infinite numbers")
def _():
    inf = np.inf
    for f in (np.logaddexp, np.logaddexp2):
        assert grad(f, [-inf, inf, inf, 0.0], [-inf, inf, 0.0, -inf]) == [[0, 0.5, 1, 1], [0, 0.5, 0, 0]]


@row("`xlogy` at (0, 0)")
def _():
    pytest.importorskip("scipy", reason="SciPy computes xlogy")
    with np.errstate(divide="ignore"):
        assert grad(F.xlogy, 0.0, 0.0) == [-np.inf, 0]


@row("a fully masked row of `softmax` or attention")
def _():
    x = Tensor([[-np.inf, -np.inf], [0.0, 0.0]], requires_grad=True)
    y = F.softmax(x)
    y.backward([[1.0, 2.0], [1.0, 0.0]])
    assert y.tolist() == [[0, 0], [0.5, 0.5]]
    assert x.grad.tolist() == [[0, 0], [0.25, -0.25]]
    q, k, v = (Tensor(np.ones((2, 3)), requires_grad=True) for _ in range(3))
    out = F.scaled_dot_product_attention(q, k, v, mask=np.array([[False, False], [True, True]]))
    out.sum().backward()
    assert out.tolist() == [[0, 0, 0], [1, 1, 1]]
    assert v.grad.tolist() == [[0.5] * 3] * 2
    assert not q.grad.any()
    assert not k.grad.any()


@row("`cross_entropy` with all targets ignored")
def _():
    x = Tensor(np.ones((2, 3)), requires_grad=True)
    loss = F.cross_entropy(x, np.array([-1, -1]), ignore_index=-1)
    loss.backward()
    assert loss.item() == 0
    assert not x.grad.any()


@row("`np.where(x > 0, np.sqrt(x), x)` at x < 0")
def _():
    with np.errstate(invalid="ignore"):
        assert np.isnan(grad(lambda x: np.where(x > 0, np.sqrt(x), x), [-1.0, -4.0])).all()
    assert grad(lambda x: F.safe_where(x > 0, np.sqrt, x, x), [-1.0, -4.0]) == [1, 1]


# --- what is an error ---


@row("`set_at` with a repeated index")
def _():
    with pytest.raises(ValueError, match="set_at"):
        F.set_at(Tensor([1.0, 2.0], requires_grad=True), np.array([0, 0]), np.array([3.0, 4.0]))


@row("an integer tensor that shall require a gradient; complex data")
def _():
    with pytest.raises(TypeError, match=r"float"):
        Tensor([1, 2], requires_grad=True)
    with pytest.raises(TypeError, match="real and imaginary parts"):
        Tensor([1j])


@row("complex arrays into an op; masked arrays and matrices wherever an array comes in")
def _():
    with pytest.raises(TypeError, match="real numbers"):
        F.softmax(np.array([1j, 0.0]))
    with pytest.raises(TypeError, match=r"m\.filled"):
        Tensor(np.ma.masked_array([1.0, 2.0], mask=[0, 1]))


@row("`out=` that is a tensor")
def _():
    x = Tensor([5.0, 6.0], requires_grad=True)
    with pytest.raises(TypeError, match="cannot write into the tensor"):
        np.any(np.zeros((2, 2)), axis=0, out=x)
    assert x.tolist() == [5.0, 6.0]


@row("an operand with rules of its own (`__array_ufunc__`, or a higher `__array_priority__`)")
def _():
    x = Tensor([5.0, 6.0], requires_grad=True)
    for own in ({"__array_ufunc__": None}, {"__array_priority__": 1}):
        other = type("Other", (), {**own, "__rmul__": lambda self, left: left})()
        assert x * other is x


@row("an integer or a boolean, Python's too, out of a function that is differentiated")
def _():
    for f in (len, lambda x: np.allclose(x, x)):
        with pytest.raises(TypeError, match="has_aux=True"):
            ad.grad(f)(np.array([1.0, 2.0]))


@row("`backward` from more than one element without a cotangent")
def _():
    x = Tensor([1.0, 2.0, 3.0], requires_grad=True)
    with pytest.raises(ValueError, match=r"shape \(3,\)"):
        (x**2).backward()
    (x**2).backward(np.ones(3))
    assert x.grad.tolist() == [2, 4, 6]


@row("`backward` where nothing requires a gradient")
def _():
    with pytest.raises(RuntimeError, match="requires_grad=True"):
        (Tensor(1.0) * 2).backward()


@row("item assignment into a recorded tensor")
def _():
    x = Tensor([1.0, 2.0], requires_grad=True)
    for tensor, value in ((x, 3.0), (x * 2, 3.0), (Tensor([1.0, 2.0]), x[0])):
        with pytest.raises(TypeError, match=r"F\.set_at.*np\.where"):
            tensor[0] = value


@row("`.grad` of a result")
def _():
    x = Tensor(1.0, requires_grad=True)
    y = x * 2
    y.backward()
    with pytest.warns(UserWarning, match=r"retain_grad\(\)"):
        assert y.grad is None


@row("`==`")
def _():
    x, y = Tensor([1.0, 2.0]), Tensor([1.0, 3.0])
    assert type(x == y) is np.ndarray
    assert (x == y).tolist() == [True, False]
    assert len({x: 0, Tensor([1.0, 2.0]): 1}) == 2
    with pytest.raises(ValueError, match="ambiguous"):
        bool(x)
    assert bool(Tensor(2.0))


@row("an input of `gradients` that the outputs do not depend on")
def _():
    x, y = Tensor([1.0, 2.0], requires_grad=True), Tensor(3.0, requires_grad=True)
    assert ad.gradients(y * 2, x).tolist() == [0, 0]


@row("an array with an `__array_function__` of its own, such as one with units")
def _():
    unit = type("Unit", (), {"__array_function__": lambda *call: None, "__array__": lambda *how: np.ones(2)})()
    x = Tensor([1.0, 2.0], requires_grad=True)
    for call in (lambda: Tensor(unit), lambda: F.exp(unit), lambda: x.clip(unit), lambda: (x * 2).backward(unit)):
        with pytest.raises(TypeError, match=r"np\.asarray"):
            call()
