"""What `explain` says of an op."""

import inspect
import re

import numpy as np
import pytest

import autodiff as ad
import autodiff.functional as F
from autodiff.node import OPS
from autodiff.op import Op

REGISTERED = dict(OPS)


def table(text):
    """The rows of the table of special values."""
    lines = text.partition("Values at special points")[2].splitlines()[2:]
    return [re.findall(r"\[[^]]*\]|\S+", line) for line in lines]


@pytest.mark.parametrize("name", REGISTERED)
def test_every_op_is_explained(name):
    op = REGISTERED[name]
    text = ad.explain(name)
    assert text.startswith(name + "(")
    assert inspect.getdoc(op).partition("\n")[0] in text
    assert text.count("\nVJP rule for ") == len(op.rules)
    assert ("\nDecomposition" in text) == (op.decomposed is not None)
    assert "not to be had" not in text
    assert text.count("\nForward\n") == 1
    for function in (op.forward, *(rule.function for rule in op.rules)):
        assert inspect.getsource(function).strip().splitlines()[-1].strip() in text
    if op.__doc__:
        assert text.count(op.__doc__.strip().partition("\n")[0]) == 1  # the docstring is not shown again


@pytest.mark.parametrize("name", [n for n, f in vars(F).items() if inspect.isfunction(f) and not n.startswith("_")])
def test_composed_functions_are_explained(name):
    assert "composed of ops" in ad.explain(name)


def test_asked_for_in_every_way():
    text = ad.explain("tanh")
    for way in (F.tanh, np.tanh, "np.tanh", "F.tanh"):
        assert ad.explain(way) == text
    assert repr(text) == str(text) == text
    assert "np.tanh, primitive, elementwise" in text
    assert "keeps out" in text
    assert ad.explain(np.roll) == ad.explain("roll") == ad.explain(F.roll)


@pytest.mark.parametrize("thing", [np.ones(3), ([],), 3, None])
def test_what_is_no_function_is_refused(thing):
    with pytest.raises(TypeError, match=rf"takes an op, its name, or a NumPy function, not .*{type(thing).__name__}"):
        ad.explain(thing)


def test_functions_that_no_op_records():
    with pytest.raises(ValueError, match="no op records lexsort"):
        ad.explain(np.lexsort)
    with pytest.raises(ValueError, match=r"no op records np\.lexsort\. `python"):
        ad.explain("np.lexsort")
    with pytest.raises(ValueError, match=r"NumPy has no np\.nosuch\. `python"):
        ad.explain("np.nosuch")
    with pytest.raises(ValueError, match=r"NumPy has no np\.tanhh\. Did you mean 'tanh'\? `python"):
        ad.explain("np.tanhh")


def test_values_at_kinks_and_ties_are_those_of_the_op():
    maximum = {tuple(row[:2]): row[2:] for row in table(ad.explain("maximum"))[1:]}
    assert maximum["0", "0"] == ["0", "0.5", "0.5"]
    assert maximum["1", "0"] == ["1", "1", "0"]
    clip = {row[0]: row[3:5] for row in table(ad.explain("clip"))[1:]}
    assert (clip["1"], clip["-1"], clip["2"]) == (["1", "1"], ["-1", "1"], ["1", "0"])
    assert dict(zip(*np.array(table(ad.explain("abs"))[1:])[:, [0, 2]].T, strict=True))["0"] == "0"
    assert ["[1, 1]", "1", "[0.5, 0.5]"] in table(ad.explain("max"))
    assert ["[-inf, -inf]", "-inf", "[0, 0]"] in table(ad.explain("logsumexp"))


def test_what_is_kept_by_name():
    text = ad.explain("layer_norm")
    assert re.search(r"VJP rule for x, gamma, beta, keeps .*xhat", text) or "keeps" in text
    assert "VJP rule for x1, keeps nothing" in ad.explain("add")
    assert "No gradient: condition" in ad.explain("where")


def test_an_op_that_was_typed_in():
    namespace = {}
    made = Op(eval("lambda x: x * 2", namespace))
    made.vjp("x")(eval("lambda g: g * 2", namespace))
    assert "it was typed in" in ad.explain(made)


@pytest.mark.parametrize(
    ("asked", "said"),
    [("tahnh", "Did you mean 'tan"), (np.busday_count, "no op records busday_count")],
)
def test_what_there_is_not(asked, said):
    with pytest.raises(ValueError, match=re.escape(said)):
        ad.explain(asked)
