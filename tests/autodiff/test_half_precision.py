"""Half precision: cotangents are summed, multiplied and scaled where that does not lose them."""

import numpy as np
import pytest

import autodiff as ad
import autodiff.functional as F
from autodiff import Tensor, optim

HALF = np.float16
MANY = 5000  # ones added one by one in half precision end at 2048
ONES, COLUMN, ZEROS = np.ones((MANY, 2), HALF), np.ones(MANY, HALF), np.zeros(MANY, int)


def grad(f, x, dtype, g=1.0):
    leaf = Tensor(np.asarray(x, dtype), requires_grad=True)
    y = f(leaf)
    y.backward(np.full(y.shape, g, y.dtype))
    assert leaf.grad.dtype == dtype
    return leaf.grad.astype(float)


SUMS = {
    "sum and broadcasting": lambda x: ONES.astype(x.dtype) + x,
    "product and broadcasting": lambda x: x * ONES.astype(x.dtype),
    "broadcast_to": lambda x: np.broadcast_to(x, (MANY, 2)),
    "bias": lambda x: F.linear(ONES.astype(x.dtype), np.eye(2, dtype=x.dtype), x),
    "index": lambda x: x[ZEROS],
    "indices of several axes": lambda x: x[None][ZEROS, ZEROS],
    "take": lambda x: np.take(x, ZEROS),
    "take_along_axis": lambda x: np.take_along_axis(x, ZEROS, 0),
    "embedding": lambda x: F.embedding(x[None], ZEROS),
    "tile": lambda x: np.tile(x, (MANY, 1)),
    "repeat": lambda x: np.repeat(x, [MANY, 3]),
    "pad": lambda x: np.pad(x, MANY, mode="edge"),
    "resize": lambda x: np.resize(x, (MANY, 2)),
    "kron": lambda x: np.kron(COLUMN.astype(x.dtype), x),
    "meshgrid": lambda x: np.meshgrid(x, COLUMN)[0],
    "interp": lambda x: np.interp(COLUMN.astype(x.dtype) / 4, np.array([0, 1], x.dtype), x),
    "cumsum": lambda x: np.cumsum(np.concatenate([x, COLUMN.astype(x.dtype)])),
    "cumulative_sum": lambda x: F.cumulative_sum(np.concatenate([x, COLUMN.astype(x.dtype)])),
    "nancumsum": lambda x: np.nancumsum(np.concatenate([x, COLUMN.astype(x.dtype)])),
    "maximum.accumulate": lambda x: np.maximum.accumulate(np.concatenate([x, COLUMN.astype(x.dtype)])),
    "scatter_add, forward": lambda x: x * F.scatter_add(COLUMN.astype(x.dtype), index=ZEROS, shape=(2,)),
}


@pytest.mark.parametrize("f", SUMS.values(), ids=SUMS)
def test_cotangents_of_many_uses_are_added_up(f):
    right = grad(f, [2.0, 3.0], float)
    assert right.max() > 2500
    np.testing.assert_allclose(grad(f, [2.0, 3.0], HALF), right, rtol=1e-3)


def test_a_mean_over_rows_reaches_a_bias():
    np.testing.assert_allclose(grad(lambda b: np.mean(ONES + b), [0.0, 0.0], HALF), [0.5, 0.5], rtol=1e-3)


def test_second_derivatives_of_many_uses():
    h = ad.hessian(lambda b: np.sum((ONES + b) ** 2))(np.zeros(2, HALF))
    np.testing.assert_allclose(h, 2 * MANY * np.eye(2), rtol=1e-3)


# --- activations ---

ACTIVATIONS = {
    "silu": F.silu,
    "gelu": F.gelu,
    "swiglu": lambda x: F.swiglu(x, x),
    "swiglu of constants": lambda x: F.swiglu(x, np.full(x.shape, 20, x.dtype)),
}


@pytest.mark.parametrize("g", [1, 1024])
@pytest.mark.parametrize("f", ACTIVATIONS.values(), ids=ACTIVATIONS)
def test_decomposed_activations_of_large_numbers(f, g):
    x = [20, -20, 39, 40, -40, 41, 90, -110, 200, -200, 3, -3]
    with ad.decompose(), np.errstate(over="ignore"):
        found, right = grad(f, x, HALF, g), grad(f, x, float, g)
    right = np.where(np.abs(right) > 65504, np.inf, right)
    np.testing.assert_allclose(found, right, rtol=2e-3, atol=1e-3)


# --- products ---

PRODUCTS = {
    "prod": np.prod,
    "prod of columns": lambda x: np.prod(np.reshape(x, (2, 2)), axis=(1, 0), keepdims=True),
    "cumprod": lambda x: np.cumprod(x)[-1],
    "cumulative_prod": lambda x: F.cumulative_prod(x)[-1],
    "nanprod": np.nanprod,
    "multiply.reduce": np.multiply.reduce,
}


@pytest.mark.parametrize("x", [[300, 300, 0.003, 0.003], [0.003, 0.003, 300, 300], [300, 0.003, 300, 0.003]])
@pytest.mark.parametrize("f", PRODUCTS.values(), ids=PRODUCTS)
def test_products_of_the_others_may_leave_the_range_on_the_way(f, x):
    with np.errstate(over="ignore"):  # of the product itself
        found = grad(f, x, HALF)
    np.testing.assert_allclose(found, grad(f, np.asarray(x, HALF), float), rtol=2e-3)


# --- optimisers ---

PARAMETERS = {
    "one": lambda dtype: [np.ones(2, dtype)],
    "joined": lambda dtype: [np.ones(2, dtype), np.ones((1, 3), dtype)],
    "large": lambda dtype: [np.ones(5000, dtype)],
    "in Fortran's order": lambda dtype: [np.ones((70, 80), dtype, order="F")],
}
OPTIMISERS = {
    "AdamW": lambda leaves: optim.AdamW(leaves, lr=0.01, weight_decay=0.1),
    "SGD": lambda leaves: optim.SGD(leaves, lr=1e-5, momentum=0.9),
}


@pytest.mark.parametrize("g", [1e-4, 2e-5, 300.0, 6e4])
@pytest.mark.parametrize("make", PARAMETERS.values(), ids=PARAMETERS)
@pytest.mark.parametrize("optimiser", OPTIMISERS.values(), ids=OPTIMISERS)
def test_steps_are_those_of_wide_parameters_rounded(optimiser, make, g):
    def run(dtype):
        leaves = [Tensor(array, requires_grad=True) for array in make(dtype)]
        made = optimiser(leaves)
        for sign in (1, 1, -0.5):
            for leaf in leaves:
                leaf.grad = np.full(leaf.shape, sign * g, HALF)
            made.step()
        return leaves, made

    (leaves, made), (wide, _) = run(HALF), run(float)
    for leaf, right in zip(leaves, wide, strict=True):
        assert leaf.dtype == HALF
        assert leaf.grad.flat[0] == HALF(-0.5 * g)  # read only
        np.testing.assert_allclose(leaf.data, right.data, rtol=2e-3)
    state = made.state_dict()
    assert {m.dtype for entry in state["state"].values() for m in entry.values() if np.ndim(m)} == {np.dtype("f4")}
    made.load_state_dict(state)
