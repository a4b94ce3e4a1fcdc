"""Second derivatives of every primitive on its own samples, against differences of the first."""

import numpy as np
import pytest

import autodiff as ad
import autodiff.functional  # registers the ops
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
