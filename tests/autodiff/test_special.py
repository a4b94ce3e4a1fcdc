"""SciPy's special functions: their derivatives, exact points, and that nothing needs SciPy before the first call."""

import json
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import autodiff as ad
import autodiff.functional as F
from autodiff import Tensor

special = pytest.importorskip("scipy.special", reason="SciPy computes them")


def leaf(data, dtype=float):
    return Tensor(np.array(data, dtype), requires_grad=True)


def grads(f, *arrays):
    leaves = [leaf(array) for array in arrays]
    f(*leaves).sum().backward()
    return tuple(x.grad.tolist() for x in leaves)


NUMBERS, UNIT, POSITIVE = [-2.3, -0.4, 0.3, 1.7], [0.1, 0.45, 0.8], [0.4, 1.3, 2.9]
SLOPES = [
    ("erf", NUMBERS, lambda x: 2 / math.sqrt(math.pi) * np.exp(-(x**2))),
    ("erfc", NUMBERS, lambda x: -2 / math.sqrt(math.pi) * np.exp(-(x**2))),
    ("erfinv", UNIT, lambda x: math.sqrt(math.pi) / 2 * np.exp(special.erfinv(x) ** 2)),
    ("ndtr", NUMBERS, lambda x: np.exp(-(x**2) / 2) / math.sqrt(2 * math.pi)),
    ("expit", NUMBERS, lambda x: special.expit(x) * special.expit(-x)),
    ("log_expit", NUMBERS, lambda x: special.expit(-x)),
    ("logit", UNIT, lambda x: 1 / x + 1 / (1 - x)),
    ("gamma", POSITIVE, lambda x: special.gamma(x) * special.psi(x)),
    ("gammaln", [*POSITIVE, -0.5], special.psi),
    ("psi", [*POSITIVE, -0.5], lambda x: special.polygamma(1, x)),
]


@pytest.mark.parametrize(("name", "at", "slope"), SLOPES, ids=[name for name, _, _ in SLOPES])
def test_slopes(name, at, slope):
    x = np.array(at)
    y = getattr(special, name)(leaf(x))
    np.testing.assert_allclose(y.data, getattr(special, name)(x), rtol=1e-14)
    np.testing.assert_allclose(grads(getattr(special, name), x)[0], slope(x), rtol=1e-13)


@pytest.mark.parametrize(
    "name", ["erf", "erfc", "erfinv", "expit", "logit", "gammaln", "psi", "xlogy", "xlog1py", "ndtr"]
)
def test_derivatives_are_pytorchs_to_third_order(name):
    torch = pytest.importorskip("torch", reason="compares with PyTorch")
    theirs = {"psi": torch.special.digamma}.get(name) or getattr(torch.special, name)
    args = [np.array(UNIT), np.array(POSITIVE)][: 2 if name.startswith("xlog") else 1]
    leaves = [leaf(x) for x in args]
    tensors = [torch.tensor(x, requires_grad=True) for x in args]
    y, z = np.sin(getattr(special, name)(*leaves)).sum(), torch.sin(theirs(*tensors)).sum()
    for _ in range(3):
        gs = ad.gradients(y, leaves, create_graph=True)
        hs = torch.autograd.grad(z, tensors, create_graph=True)
        for g, h in zip(gs, hs, strict=True):
            np.testing.assert_allclose(g.data, h.detach().numpy(), rtol=1e-8)
        y, z = sum(g.sum() for g in gs), sum(h.sum() for h in hs)


def test_every_derivative_of_the_digamma_function():
    x = leaf(1.3)
    y = special.gammaln(x)
    for n in range(5):
        y = ad.gradients(y, x, create_graph=True)
        assert y.item() == pytest.approx(special.polygamma(n, 1.3), rel=1e-12)
    orders = np.array([[0], [1], [2]])
    np.testing.assert_allclose(F.polygamma(orders, leaf([1.0, 2.0])).data, special.polygamma(orders, [1.0, 2.0]))


def test_products_with_logarithms_at_zero():
    with np.errstate(divide="ignore"):
        assert grads(special.xlogy, [0.0, 0.0, 2.0], [0.0, 2.0, 4.0]) == (
            [-math.inf, math.log(2), math.log(4)],
            [0.0, 0.0, 0.5],
        )
    assert grads(lambda y: special.xlogy(0.0, y), [0.0, 1.0]) == ([0.0, 0.0],)
    assert grads(lambda y: special.xlog1py([0.0, 3.0], y), [-1.0, 0.0]) == ([0.0, 3.0],)
    with np.errstate(divide="ignore"):
        assert grads(lambda y: special.xlogy([2.0, 0.0], y), [0.0, 0.0]) == ([math.inf, 0.0],)
        assert grads(lambda y: special.xlog1py([2.0, 0.0], y), [-1.0, -1.0]) == ([math.inf, 0.0],)
    assert grads(lambda x: special.xlogy(x, 2.0), [0.0]) == ([math.log(2)],)
    for f, at in ((special.xlogy, 2.0), (special.xlog1py, 1.0)):
        x, y = leaf(0.0), leaf(at)
        mixed = ad.gradients(ad.gradients(f(x, y), y, create_graph=True), x)
        assert mixed.item() == 0.5


def test_far_out():
    for f in (special.erf, special.erfc, special.ndtr, special.expit):
        assert grads(f, [-1e200, 1e200, -1000.0, 1000.0]) == ([0.0, 0.0, 0.0, 0.0],)
    assert grads(special.log_expit, [-1000.0, 1000.0]) == ([1.0, 0.0],)
    assert grads(special.gammaln, 1e200) == (pytest.approx(math.log(1e200)),)
    assert special.erfc(leaf(20.0)).item() == special.erfc(20.0)


@pytest.mark.parametrize("shape", [(), (2,)], ids=str)
@pytest.mark.parametrize("name", ["erf", "erfc", "expit", "logit", "gammaln", "psi", "ndtr", "log_expit"])
def test_single_precision_stays(name, shape):
    x = leaf(np.full(shape, 0.7), np.float32)
    y = getattr(special, name)(x)
    g = ad.gradients(y, x, np.ones(shape), create_graph=True)
    h = ad.gradients(g, x, np.ones(shape))
    assert {y.dtype, g.dtype, h.dtype} == {np.dtype(np.float32)}
    assert special.xlogy(x, 2.0).dtype == special.xlogy(2.0, x).dtype == F.polygamma(1, x).dtype == np.float32


def test_scipy_is_imported_by_the_first_call_alone():
    script = """if True:
        import json, sys
        import autodiff as ad, autodiff.functional as F
        before = "scipy" in sys.modules
        x = ad.Tensor([0.5], requires_grad=True)
        F.erf(x)
        import scipy.special
        y = scipy.special.gammaln(x)  # SciPy came after the package
        print(json.dumps([before, "scipy.special" in sys.modules, y.requires_grad]))
    """
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=root, check=True)
    assert json.loads(done.stdout) == [False, True, True]


@pytest.mark.parametrize("name", ["erf", "gammaln", "xlogy", "polygamma"])
def test_without_scipy_the_error_names_the_command(name, monkeypatch):
    monkeypatch.setitem(sys.modules, "scipy.special", None)
    args = (leaf(0.5), leaf(0.5))[: 2 if name == "xlogy" else 1]
    with pytest.raises(ImportError, match=r"pip install scipy"):
        getattr(F, name)(*((1, *args) if name == "polygamma" else args))
