"""Second derivatives of every primitive on its own samples, against differences of the first."""

import numpy as np
import pytest

import autodiff as ad
import autodiff.functional as F
from autodiff import Tensor
from autodiff.node import OPS
from autodiff.testing import op_cases

PRIMITIVES = [
    name
    for name, op in sorted(OPS.items())
    if op.decomposed is None and op.__module__.startswith("autodiff.functional")
]
CASES = op_cases()


def samples_of(op):
    for sample in [case.arguments for case in CASES if case.op is op]:  # those that can be made here
        yield (sample[:-1], sample[-1]) if isinstance(sample[-1], dict) else (sample, {})


def differentiated(op, args):
    """Places of the arguments that have a gradient."""
    barred = set() if op.signature.variadic else op.nondifferentiable
    return [i for i, arg in enumerate(args) if getattr(arg, "dtype", None) == np.float64 and i not in barred]


class Slope:
    """The slope of sum(sin(f)) in a fixed direction: a scalar made of first derivatives, linear in none of them."""

    def __init__(self, op, args, settings, rng):
        self.op, self.args, self.settings = op, args, settings
        self.places = differentiated(op, args)
        self.start = [np.array(args[i]) for i in self.places]
        self.direction = [rng.normal(size=x.shape) for x in self.start]
        self.weights = None
        self.rng = rng

    def first(self, arrays):
        """Return leaves and the recorded slope at them; None where the outputs are constants."""
        leaves = [Tensor(x, requires_grad=True) for x in arrays]
        args = list(self.args)
        for i, x in zip(self.places, leaves, strict=True):
            args[i] = x
        outputs = self.op(*args, **self.settings)
        outputs = [y for y in (outputs if isinstance(outputs, tuple) else (outputs,)) if y.requires_grad]
        if not outputs:
            return leaves, None
        if self.weights is None:
            self.weights = [self.rng.normal(size=y.shape) for y in outputs]
        total = sum((np.sin(y) * w).sum() for y, w in zip(outputs, self.weights, strict=True))
        gradients = ad.gradients(total, leaves, create_graph=True)
        return leaves, sum((g * u).sum() for g, u in zip(gradients, self.direction, strict=True))


def difference(slope, along):
    """Central difference of the slope, of fourth order."""

    def at(t):
        return slope.first([x + t * u for x, u in zip(slope.start, along, strict=True)])[1].item()

    h = 2e-4
    return (8 * (at(h) - at(-h)) - (at(2 * h) - at(-2 * h))) / (12 * h)


@pytest.mark.parametrize("name", PRIMITIVES)
def test_second_derivatives(name):
    op, rng = OPS[name], np.random.default_rng(1)
    compared = 0
    for args, settings in samples_of(op):
        slope = Slope(op, args, settings, rng)
        if not slope.places:
            continue
        leaves, first = slope.first(slope.start)
        if first is None:
            assert op.nondifferentiable, "only an op that says so may give constants"
            continue
        second = ad.gradients(first, leaves)
        along = [rng.normal(size=x.shape) for x in slope.start]
        exact = [g.data * u for g, u in zip(second, along, strict=True)]
        scale = sum(np.sum(np.abs(part)) for part in exact)
        assert sum(map(np.sum, exact)) == pytest.approx(difference(slope, along), abs=1e-7 * (1 + scale)), (
            args,
            settings,
        )
        compared += sum(x.size > 0 for x in slope.start)
    assert compared or op.nondifferentiable == set(range(len(op.signature.arguments)))


def test_primitives_are_found():
    assert {"add", "power", "where", "std", "prod", "logsumexp", "reshape", "getitem", "matmul"} <= set(PRIMITIVES)


# --- where a factor is infinite ---


@pytest.mark.parametrize("f", [lambda x, y: x**y, np.float_power, np.power], ids=("**", "float_power", "power"))
@pytest.mark.parametrize(
    ("point", "expected"),
    [
        ((0.0, 1.5), [[np.inf, 0], [0, 0]]),
        ((0.0, 1.0001), [[np.inf, 0], [0, 0]]),
        ((0.0, 2.0), [[2, 0], [0, 0]]),
        ((0.0, 3.0), [[0, 0], [0, 0]]),
        ((1.0, 2.0), [[2, 1], [1, 0]]),
    ],
)
def test_power_of_two_variables_at_base_zero(f, point, expected):
    with np.errstate(divide="ignore"):
        assert ad.hessian(lambda v: f(v[0], v[1]))(np.array(point)).tolist() == expected
        x, y = (np.array([p, p]) for p in point)  # arrays, whose elements share a pass
        mixed = ad.grad(lambda x, y: np.sum(ad.grad(lambda x, y: np.sum(f(x, y)), 1)(x, y)))(x, y)
    assert mixed.tolist() == [expected[1][0]] * 2


def test_power_of_two_variables_has_a_derivative_by_a_cotangent_of_zero():
    x = Tensor([0.0, 4.0], requires_grad=True)
    y = Tensor([0.5, 0.5], requires_grad=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        (x**y).backward([0.0, 1.0])
    assert x.grad.tolist() == [0, 0.25]
    assert y.grad.tolist() == [0, 2 * np.log(4.0)]


ENDS = {
    "arcsin": (np.arcsin, 1.0, np.inf),
    "arccos": (np.arccos, -1.0, np.inf),
    "arccosh": (np.arccosh, 1.0, -np.inf),
    "arctanh": (np.arctanh, -1.0, -np.inf),
    "sqrt": (np.sqrt, 0.0, -np.inf),
    "log": (np.log, 0.0, -np.inf),
    "log1p": (np.log1p, -1.0, -np.inf),
    "power": (lambda x: x**1.5, 0.0, np.inf),
    "power of an array": (lambda x: x ** np.array(1.5), 0.0, np.inf),
    "reciprocal": (np.reciprocal, 0.0, np.inf),
    "arccosh far out": (np.arccosh, np.inf, 0.0),
}


@pytest.mark.parametrize(("f", "x", "second"), ENDS.values(), ids=ENDS)
def test_second_derivative_at_the_end_of_the_domain(f, x, second):
    with np.errstate(divide="ignore"):
        assert float(ad.grad(ad.grad(f))(x)) == second


@pytest.mark.parametrize("name", ["erf", "erfc", "ndtr", "logit"])
def test_second_derivative_of_special_functions_at_the_end_of_the_domain(name):
    pytest.importorskip("scipy")
    x, second = (0.0, -np.inf) if name == "logit" else (np.inf, 0.0)
    with np.errstate(divide="ignore"):
        assert float(ad.grad(ad.grad(getattr(F, name)))(x)) == second


CORNERS = {
    "v**1.5": (lambda v: np.sum(v**1.5), [0.0, 4.0], [np.inf, 0.375]),
    "v**1.2": (lambda v: np.sum(v**1.2), [1.0, 0.0], [0.24, np.inf]),
    "power": (lambda v: np.sum(np.power(v, 1.5)), [0.0, 4.0], [np.inf, 0.375]),
    "float_power": (lambda v: np.sum(np.float_power(v, 1.5)), [0.0, 4.0], [np.inf, 0.375]),
    "elements apart": (lambda v: v[0] ** 1.5 + v[1] ** 2, [0.0, 4.0], [np.inf, 2.0]),
    "third": (lambda v: np.sum(ad.grad(lambda u: np.sum(u**2.5))(v)), [0.0, 4.0], [np.inf, 0.9375]),
    "v**-1": (lambda v: np.sum(v**-1), [1e-110, 1.0], [np.inf, 2.0]),
    "v**-2": (lambda v: np.sum(v**-2), [1e-80, 1.0], [np.inf, 6.0]),
}


@pytest.mark.parametrize(("f", "at", "diagonal"), CORNERS.values(), ids=CORNERS)
def test_an_infinite_second_derivative_of_one_element_leaves_the_others_right(f, at, diagonal):
    with np.errstate(divide="ignore", over="ignore"):
        h = ad.hessian(f)(np.array(at))
    np.testing.assert_allclose(h, np.where(np.eye(2, dtype=bool), diagonal, 0.0), rtol=1e-14)
