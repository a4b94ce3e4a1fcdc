"""SciPy's minimisers take the transforms as they are."""

from __future__ import annotations

import numpy as np
import pytest

import autodiff as ad

optimize = pytest.importorskip("scipy.optimize", reason="minimises with SciPy")

METHODS = [("BFGS", False), ("L-BFGS-B", False), ("Newton-CG", True), ("trust-exact", True)]


def rosenbrock(x):
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


def logistic_regression():
    rng = np.random.default_rng(0)
    features = rng.normal(size=(60, 4))
    labels = np.sign(features @ np.array([1.0, -2.0, 0.5, 0.0]) + rng.logistic(size=60))

    def loss(w):
        return np.mean(np.log1p(np.exp(-labels * (features @ w[:4] + w[4])))) + 0.01 * np.sum(w**2)

    return loss, features, labels


def minimize(f, x0, method, second):
    hess = {"hess": ad.hessian(f)} if second else {}
    return optimize.minimize(ad.value_and_grad(f), x0, jac=True, method=method, **hess)


@pytest.mark.parametrize(("method", "second"), METHODS)
def test_rosenbrock(method, second):
    found = minimize(rosenbrock, np.array([1.3, 0.7, 0.8, 1.9, 1.2]), method, second)
    assert found.success
    np.testing.assert_allclose(found.x, np.ones(5), atol=1e-3)


def test_derivatives_of_rosenbrock_are_those_of_scipy():
    x = np.array([-1.2, 1.0, 0.5, 2.0])
    np.testing.assert_allclose(ad.grad(rosenbrock)(x), optimize.rosen_der(x), rtol=1e-13)
    np.testing.assert_allclose(ad.hessian(rosenbrock)(x), optimize.rosen_hess(x), rtol=1e-13, atol=1e-12)
    product = ad.hvp(rosenbrock, (x,), (x,))
    np.testing.assert_allclose(product, optimize.rosen_hess_prod(x, x), rtol=1e-13)


@pytest.mark.parametrize(("method", "second"), METHODS)
def test_logistic_regression(method, second):
    loss, features, labels = logistic_regression()
    found = minimize(loss, np.zeros(5), method, second)
    assert found.success
    margins = -labels * (features @ found.x[:4] + found.x[4])
    pull = -labels / (1 + np.exp(-margins)) / 60  # the stationarity condition, by hand
    by_hand = np.append(features.T @ pull, pull.sum()) + 0.02 * found.x
    np.testing.assert_allclose(by_hand, np.zeros(5), atol=1e-4)


def test_products_with_the_hessian():
    found = optimize.minimize(
        ad.value_and_grad(rosenbrock), np.zeros(20), jac=True, method="trust-ncg",
        hessp=lambda x, v: ad.hvp(rosenbrock, (x,), (v,)), options={"maxiter": 1000},
    )  # fmt: skip
    assert found.success
    np.testing.assert_allclose(found.x, np.ones(20), atol=1e-3)
