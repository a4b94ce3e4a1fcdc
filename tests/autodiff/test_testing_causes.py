"""Messages of the checker name the likely cause, where the rule is not to blame."""

from __future__ import annotations

import numpy as np
import pytest

from autodiff.op import Op, save
from autodiff.testing import InconclusiveError, check_vjp

from .checking import caught

X = np.random.default_rng(0).normal(size=(3, 4))


def made(forward, rule, **declared):
    op = Op(forward, **declared)
    op.vjp("x")(rule)
    return op


# --- single precision that is lost ---


def spread(g, shape):
    return np.broadcast_to(g, shape)


TABLE = np.array([0.5, 1.0, 2.0, 4.0])
PROMOTING = {
    "x * np.arange(4)": (lambda x: x * np.arange(4), lambda g: g * np.arange(4), ["multiply", "int64, shape (4,)"]),
    "table[None] + x": (lambda x: TABLE[None] + x, lambda g: 1 * g, ["add", "float64, shape (1, 4)"]),
    "x * [...]": (lambda x: x * [1, 2, 3, 4], lambda g: g * np.arange(1, 5), ["multiply", "int64, shape (4,)"]),
    "x @ ones": (lambda x: x @ np.ones((4, 2)), lambda g: g @ np.ones((2, 4)), ["matmul", "float64, shape (4, 2)"]),
    "where": (lambda x: np.where(TABLE > 1, x, TABLE), lambda g: g * (TABLE > 1), ["where", "float64, shape (4,)"]),
    "np.float64": (lambda x: np.float64(2) * x, lambda g: 2 * g, ["multiply", "NumPy float64 number", "Python number"]),
    "np.int64": (lambda x: x / np.int64(2), lambda g: g / 2, ["divide", "NumPy int64 number"]),
    "x.sum(dtype=)": (
        lambda x: save(x.sum(dtype=np.float64), shape=x.shape), spread, ["add.reduce is asked for dtype=float64"]),
    "np.mean(dtype=)": (
        lambda x: save(np.mean(x, dtype=float), n=x.size, shape=x.shape), lambda g, n, shape: spread(g / n, shape),
        ["asked for dtype=float64"]),
    "astype": (lambda x: np.exp(x).astype(float), lambda g, out: g * out, ["astype is asked for dtype=float64"]),
    "in the rule": (
        lambda x: x * np.arange(4, dtype=x.dtype), lambda g: g * np.arange(4),
        ["the rule returned", "int64, shape (4,)"]),
    "square root": (lambda x: x / np.sqrt(x.size), lambda g: g / 12**0.5, ["divide", "NumPy float64 number"]),
    "accumulated": (lambda x: np.zeros(4) + x, lambda g: 1 * g, ["add", "float64, shape (4,)"]),
    "out of sight": (lambda x: np.array(x.tolist()), lambda g: 1 * g, ["array of integers or of float64"]),
}  # fmt: skip


@pytest.mark.parametrize("case", PROMOTING)
def test_what_promotes_is_named_with_its_line(case):
    forward, rule, said = PROMOTING[case]
    error = caught(check_vjp, made(forward, rule), X)
    assert error.kind == "dtype"
    for words in said:
        assert words in str(error)
    assert case == "out of sight" or "test_testing_causes.py:" in str(error)


# --- a forward that differs from call to call ---


class Solver:
    """A library's, which keeps a generator of its own."""

    rng = np.random.default_rng()

    @classmethod
    def largest_eigenvalue(cls, m):
        v = cls.rng.normal(size=len(m))
        for _ in range(20):
            v = m @ v / np.linalg.norm(m @ v)
        return v @ m @ v


UNSTEADY = {
    "a global stream": (lambda x: x * np.random.rand(), "NumPy's global random numbers"),  # noqa: NPY002
    "a solver": (lambda x: Solver.largest_eigenvalue(x.T @ x), "a library's solver starts at random"),
    "a library": (lambda x: x * Solver.rng.normal(), "drawn by the forward or inside a library"),
}


@pytest.mark.parametrize("case", UNSTEADY)
def test_random_numbers_may_be_a_librarys(case):
    forward, said = UNSTEADY[case]
    error = caught(check_vjp, made(forward, lambda g, x: g * x), X)
    assert error.kind == "forward-nondet"
    assert said in error.suspect
    assert "v0=" in error.suspect


# --- samples out of scale, problems out of condition ---

TINY = {
    "log": (np.log, lambda g, x: g / x), "square": (lambda x: x * x, lambda g, x: 2 * g * x),
    "root": (np.sqrt, lambda g, out: g / 2 / out), "reciprocal": (lambda x: 1 / x, lambda g, out: -g * out * out),
    "cube": (lambda x: x**3, lambda g, x: 3 * g * x * x),
}  # fmt: skip


@pytest.mark.parametrize("size", [1e-300, 1e-40])
@pytest.mark.parametrize("name", TINY)
def test_samples_too_small_for_any_step_are_to_be_rescaled(name, size):
    forward, rule = TINY[name]
    op = made(lambda x: forward(x), rule, elementwise=True)
    with np.errstate(all="ignore"), pytest.raises(InconclusiveError, match="rescale the samples"):
        check_vjp(op, np.array([size, 2 * size]))


def test_a_kink_that_is_nearer_than_any_step():
    op = made(lambda x: np.maximum(x, 0), lambda g, x: g * (x > 0), elementwise=True)
    assert "rescale the samples" in str(caught(check_vjp, op, np.array([1e-300])))
    assert "rescale" not in str(caught(check_vjp, op, np.array([0.0])))


def test_random_numbers_in_a_rule_may_be_a_librarys():
    op = made(lambda x: x @ x, lambda g, x: g * 2 * x * (1 + 1e-12 * Solver.rng.normal()))
    assert "inside a library" in caught(check_vjp, op, np.array([1.0, 2.0])).suspect


def hilbert(n, dtype):
    return (1 / (np.arange(n)[:, None] + np.arange(n) + 1)).astype(dtype)


@pytest.mark.parametrize("n", [5, 6, 8])
def test_an_ill_conditioned_problem_is_not_blamed_on_the_rule(n):
    solve = made(
        lambda x: np.linalg.solve(hilbert(n, x.dtype), x), lambda g: np.linalg.solve(hilbert(n, g.dtype).T, g)
    )
    with pytest.raises(InconclusiveError, match="ill-conditioned") as info:
        check_vjp(solve, np.ones(n))
    assert "it is not the rule" in str(info.value)


def test_nor_are_roundings_blamed_on_the_graph():
    solve = Op(lambda a, b: np.linalg.solve(a, b))
    solve.vjp("a")(lambda g, a, out: -np.outer(np.linalg.solve(a.T, g), out))
    solve.vjp("b")(lambda g, a: np.linalg.solve(a.T, g))
    with pytest.raises(InconclusiveError, match="ill-conditioned"):
        check_vjp(solve, hilbert(10, float), np.ones(10), wrt="b")


# --- ops that are not elementwise ---


def back(g):
    return np.flip(np.cumsum(np.flip(g, -1), -1), -1)


COMBINING = {
    "cumsum": (lambda x: np.cumsum(x, -1), back),
    "cumsum from the end": (back, lambda g: np.cumsum(g, -1)),
    "softmax": (lambda x: np.exp(x) / np.exp(x).sum(), lambda g, out: out * (g - (g * out).sum())),
    "centred": (lambda x: x - x.mean(), lambda g: g - g.mean()),
    "flip": (lambda x: 2 * np.flip(x), lambda g: 2 * np.flip(g)),
}


@pytest.mark.parametrize("shape", [(2,), (2, 3)])
@pytest.mark.parametrize("case", COMBINING)
def test_ops_that_combine_elements_are_not_elementwise(case, shape):
    forward, rule = COMBINING[case]
    x = np.random.default_rng(1).normal(size=shape)
    error = caught(check_vjp, made(lambda x: forward(x), rule, elementwise=True), x)
    assert error.kind == "broadcast"
    assert "not elementwise: the output at [" in str(error)
    assert "elementwise=True" in error.suspect
    check_vjp(made(lambda x: forward(x), rule), x)


def test_a_product_that_is_summed_on_is_not_elementwise():
    op = Op(lambda x, y: np.cumsum(x * y, -1), elementwise=True)
    op.vjp("x")(lambda g, y: back(g) * y)
    op.vjp("y")(lambda g, x: back(g) * x)
    assert "not elementwise" in str(caught(check_vjp, op, X, X + 1))
