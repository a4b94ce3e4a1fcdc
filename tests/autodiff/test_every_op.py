"""Every registered op on every sample: its VJP rules, its decomposition, its second derivatives, what it refuses."""

from __future__ import annotations

import functools

import numpy as np
import pytest

from autodiff import Tensor
from autodiff.node import OPS
from autodiff.testing import check_grads, missing_samples, op_cases
from autodiff.testing.cases import judge

REGISTERED = dict(OPS)  # by the package: tests and examples register more while they run
CASES = op_cases()
SMALL = [case for case in CASES if sum(np.size(x) for x in case.arrays if x is not None) <= 12]


@functools.cache
def report(case):
    return case.check()


@pytest.mark.parametrize("case", CASES, ids=str)
def test_rules_are_right(case):
    """Also: fused rules agree with their decompositions, and gradients of float32 arguments are float32."""
    report(case)


@pytest.mark.parametrize("name", REGISTERED)
def test_samples_use_every_argument_and_every_saved_value(name):
    cases = [case for case in CASES if case.op is REGISTERED[name]]
    judge(REGISTERED[name], [report(case) for case in cases])


def test_every_op_has_samples():
    assert not REGISTERED.keys() & set(missing_samples())


@pytest.mark.parametrize("case", [case for case in SMALL if not case.op.surrogate], ids=str)
def test_second_derivatives_are_right(case):
    def call(*tensors):
        given = iter(tensors)
        return case.op(*[x if type(x) is float else next(given) for x in case.arrays], **case.settings)

    arrays = [x for x in case.arrays if type(x) is not float]  # Python's numbers are constants
    check_grads(call, *arrays, order=2, expect_zero=True)


def refusals():
    for op in REGISTERED.values():
        declared = op.error_samples
        pairs = declared(np.random.default_rng(0)) if callable(declared) else declared
        for i, (sample, error) in enumerate(pairs):
            yield pytest.param(op, sample, error, id=f"{op.name}#{i}-{error.__name__}")


@pytest.mark.parametrize(("op", "sample", "error"), list(refusals()))
def test_bad_input_is_refused(op, sample, error):
    *args, settings = sample if isinstance(sample[-1], dict) else (*sample, {})
    with pytest.raises(error):
        op(*args, **settings)
    recorded = [
        Tensor(x, requires_grad=True) if isinstance(x, np.ndarray) and x.dtype.kind == "f" else x for x in args
    ]
    with pytest.raises(error):
        op(*recorded, **settings)
