"""Which forms of broadcasting an op's samples leave out, as `--mutate` says it."""

import numpy as np
import pytest

from autodiff.node import OPS
from autodiff.op import Op
from autodiff.testing import op_cases
from autodiff.testing.cases import Case
from autodiff.testing.forms import missing_forms
from autodiff.testing.mutants import survey

from .test_main import here, run, write  # noqa: F401  # a fixture

OUTER, FEWER, SCALAR, ONE = (
    "no (3, 1) x (1, 3)", "no argument of fewer axes", "no 0-d argument", "no axis of length 1 to stretch"
)  # fmt: skip
ALL = f"{OUTER}, {FEWER}, {SCALAR}, {ONE}"


def said(forward, *shapes, **declared):
    """What is said of an op with samples of these shapes."""
    op = Op(forward, **declared)
    calls = [tuple(np.ones(shape) if type(shape) is tuple else shape for shape in given) for given in shapes]
    return missing_forms(op, [Case(op, i, call) for i, call in enumerate(calls)])


def product(x, y):
    return x * y


SAMPLES = {
    "equal": ([((3,), (3,)), ((2, 3), (2, 3)), ((), ())], f"equal shapes only: {ALL}"),
    "equal, of length one": ([((1,), (1,)), ((3, 1), (3, 1))], f"equal shapes only: {ALL}"),
    "a row": ([((2, 3), (1, 3))], f"{OUTER}, {FEWER}, {SCALAR}"),
    "fewer": ([((2, 3), (3,))], f"{OUTER}, {SCALAR}, {ONE}"),
    "fewer, of length one": ([((2, 3), (1,))], f"{OUTER}, {SCALAR}"),
    "a number": ([((2, 3), ())], f"{OUTER}, {FEWER}, {ONE}"),
    "a number of Python's": ([((2, 3), 2.0)], f"{OUTER}, {FEWER}, {ONE}"),
    "a column and a row": ([((3, 1), (1, 3))], f"{FEWER}, {SCALAR}"),
    "a column and a vector": ([((3, 1), (3,))], f"{SCALAR}"),
    "all": ([((3, 1), (3,)), ((), (2,))], ""),
    "one argument": ([((3,), None)], ""),
    "none": ([], ""),
}


@pytest.mark.parametrize("case", SAMPLES)
@pytest.mark.parametrize("declared", [{"elementwise": True}, {}])
def test_forms_that_no_sample_has_are_named(case, declared):
    shapes, expected = SAMPLES[case]
    if case in ("a number of Python's",) and not declared:
        return  # nothing shows that it would broadcast
    assert said(product, *shapes, **declared) == expected


def test_three_arguments():
    def clip(x, low, high):
        return np.clip(x, low, high)

    assert said(clip, ((3,), (3,), (3,)), elementwise=True) == f"equal shapes only: {ALL}"
    assert said(clip, ((3, 2), (3, 1), (2,)), ((2,), 0.0, 1.0), elementwise=True) == ""


def test_of_products_of_matrices_the_stacks_broadcast():
    def matmul(a, b):
        return a @ b

    one, two = ((2, 3), (3, 2)), ((4, 2, 3), (4, 3, 2))
    matrices = f"equal shapes only: {ALL}".replace("0-d argument", "single matrix")
    assert said(matmul, one, two, numpy=np.matmul) == matrices
    assert said(matmul, one, ((2, 1, 2, 3), (4, 3, 2)), numpy=np.matmul) == "no single matrix"
    assert said(matmul, ((2, 1, 2, 3), (4, 3, 2)), ((2, 2, 3), (3, 2)), numpy=np.matmul) == ""


@pytest.mark.parametrize(
    "forward", [np.matmul, np.outer, lambda x, y: np.concatenate([x, y]), lambda x, y: x.reshape(y.shape) * y]
)
def test_nothing_is_said_of_what_does_not_broadcast(forward):
    assert said(lambda x, y: forward(x, y), ((3, 3), (3, 3))) == ""


@pytest.mark.slow  # all of them
def test_samples_of_ours_leave_no_form_out():
    cases = op_cases()
    missing = {op.name: missing_forms(op, [case for case in cases if case.op is op]) for op in {c.op for c in cases}}
    assert {name: forms for name, forms in missing.items() if forms and name in OPS} == {}


def test_a_survey_says_so():
    op = Op(product, elementwise=True)
    op.vjp("x")(lambda g, y: g * y)
    op.vjp("y")(lambda g, x: g * x)
    (found,) = survey([Case(op, 0, (np.array([1.5, -2.0]), np.array([0.5, 3.0])))])
    assert found.forms == f"equal shapes only: {ALL}"


SOURCE = """
import numpy as np
import autodiff as ad

@ad.op(DECLARED samples=[(np.array([[1.0, 2.5], [3.0, -2.0]]), np.array([[4.0, 2.0], [-1.0, 0.3]]))])
def product(x, y): return x * y

@product.vjp("x")
def _(g, y): return g * y

@product.vjp("y")
def _(g, x): return g * x
"""


@pytest.mark.parametrize("declared", ["elementwise=True,", ""])
def test_the_command_says_so_below_its_table(capsys, declared):
    write(SOURCE.replace("DECLARED", declared))
    out = run(capsys, "check", "my_ops.py", "--mutate")
    assert f"\nproduct broadcasts; its samples have\n  equal shapes only: {ALL}\n" in out
    assert "14 of 14" in out
    assert max(map(len, out.splitlines())) <= 120
    more = ", (np.ones((3, 1)), np.array([1.0, 2.0])), (np.array(2.0), np.array([1.0, 2.0]))])\ndef"
    write(SOURCE.replace("DECLARED", "elementwise=True,").replace("])\ndef", more))
    assert "broadcasts" not in run(capsys, "check", "my_ops.py", "--mutate")
