"""Every registered op on every sample: each check of its rules, its second derivatives, what it refuses."""

from __future__ import annotations

import functools

import numpy as np
import pytest

from autodiff import Tensor
from autodiff.node import OPS
from autodiff.testing import check_grads, missing_samples, missing_settings, op_cases
from autodiff.testing.cases import judge
from autodiff.testing.pointwise import check_pointwise
from autodiff.testing.trial import arrays_in
from autodiff.testing.vjp import CHECKS

REGISTERED = dict(OPS)  # by the package: tests and examples register more while they run
CASES = op_cases()
SMALL = [case for case in CASES if sum(np.size(x) for x in case.arrays if x is not None) <= 12]


@functools.cache
def report(case):
    return case.check()


def derived_floats(op):
    """Whether rules of an op ask for floats that its forward computed besides its output; these have no derivative."""
    asked = {name for rule in op.rules for name in rule.values}
    outs = (op.forward(*case.arrays, **case.settings) for case in CASES if case.op is op)
    values = [value for out in outs for name, value in getattr(out, "values", {}).items() if name in asked]
    return any(isinstance(value, float) for value in values) or any(
        array.dtype.kind == "f" for value in values for array in arrays_in(value)
    )


ONCE_DIFFERENTIABLE = [op for op in REGISTERED.values() if op.decomposed is None and derived_floats(op)]
TWICE = [case for case in SMALL if not case.op.surrogate and case.op not in ONCE_DIFFERENTIABLE]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_rules_are_right(case):
    """All checks, those by calls derived from the sample too; one that is not made says why."""
    found = report(case)
    assert {kind for kind, _ in CHECKS} <= {*found.passed, *found.skipped}
    assert all(found.skipped.values())


def test_every_check_is_made_on_many_ops():
    made = {kind: {case.op for case in CASES if kind in report(case).passed} for kind, _ in CHECKS}
    assert {kind: len(ops) for kind, ops in made.items() if len(ops) < 10} == {}


@pytest.mark.parametrize("name", REGISTERED)
def test_samples_use_every_argument_and_every_saved_value(name):
    cases = [case for case in CASES if case.op is REGISTERED[name]]
    judge(REGISTERED[name], [report(case) for case in cases])


@pytest.mark.parametrize("name", [name for name, op in REGISTERED.items() if op.elementwise])
def test_elementwise_ops_are_right_beyond_their_samples(name):
    check_pointwise(REGISTERED[name], [(case.arrays, case.settings) for case in CASES if case.op is REGISTERED[name]])


def test_every_op_has_samples():
    assert not REGISTERED.keys() & set(missing_samples())


def test_samples_set_every_setting():
    unset = {name: missing_settings(op) for name, op in REGISTERED.items()}
    assert {name: settings for name, settings in unset.items() if settings} == {}


def test_every_op_has_samples_small_enough_for_second_derivatives():
    few = {op for op in REGISTERED.values() if not op.surrogate} - {case.op for case in TWICE}
    assert few == set(ONCE_DIFFERENTIABLE)


@pytest.mark.parametrize("name", [name for name, op in REGISTERED.items() if op.decomposed is None])
def test_rules_of_primitives_are_differentiated_or_raise(name):
    """Their own check is made on some sample; where none can be, the reason is that recording the rule raises."""
    op = REGISTERED[name]
    reports = [report(case) for case in CASES if case.op is op]
    if op in ONCE_DIFFERENTIABLE:
        reasons = [found.skipped.get("second-order", "") for found in reports if found.nonzero]
        assert reasons
        assert all("once-differentiable" in reason for reason in reasons)
    elif any(found.nonzero for found in reports):
        assert any({"second-order", "transposition"} <= set(found.passed) for found in reports if found.nonzero)


@pytest.mark.slow  # test_rules_are_right holds the second derivatives of every op against differences too
@pytest.mark.parametrize("case", TWICE, ids=str)
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
