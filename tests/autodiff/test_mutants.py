"""Mistakes planted in rules: which there are, whether they do what they say, and who notices them."""

import ast
import functools

import numpy as np
import pytest

from autodiff import save
from autodiff.op import Op
from autodiff.source import Source, SourceError, pieces, remade
from autodiff.testing.cases import Case
from autodiff.testing.faults import Bound, faults
from autodiff.testing.mutants import survey


def made(forward, *rules, samples, **declared):
    op = Op(forward, samples=samples, **declared)
    for arguments, rule in rules:
        op.vjp(*arguments)(rule)
    return op


def surveyed(*ops):
    return list(survey(Case(op, i, sample) for op in ops for i, sample in enumerate(op.samples)))


def texts(function, exchangeable=()):
    """The function's mistakes, each as the text of what is put in place."""
    definition = Source.of(function).definition
    return {(fault.kind, ast.unparse(fault.replacement)) for fault in faults(definition, exchangeable)}


# --- functions made anew ---


def test_a_function_made_of_its_own_source_is_the_same():
    for function in (texts, surveyed, made, lambda x: x + 1):
        source = Source.of(function)
        assert source.compiled() == function.__code__


def test_lambdas_on_one_line_are_told_apart():
    pair = lambda x: x + 1, lambda x: x + 2
    found = [ast.unparse(Source.of(function).definition) for function in pair]
    assert found == ["lambda x: x + 1", "lambda x: x + 2"]


def test_closures_defaults_and_helpers_come_along():
    scale, shift = 3.0, 5.0

    def inner(x):
        return x * scale

    def outer(x, by=2.0, *, plus=1.0):
        return inner(x) * by + plus + shift

    assert [piece.__name__ for piece in pieces(outer)] == ["outer", "inner"]
    source = Source.of(inner)
    fault = next(f for f in faults(source.definition) if ast.unparse(f.replacement) == "x / scale")
    fault.site.put(fault.replacement)
    changed = remade(outer, inner.__code__, source.compiled())
    assert changed(6.0) == 2.0 * 2 + 1 + 5
    assert outer(6.0) == 18.0 * 2 + 1 + 5


def test_a_source_that_is_gone_or_changed_is_noticed(tmp_path, monkeypatch):
    with pytest.raises(SourceError, match="not to be had"):
        Source.of(eval("lambda x: x"))
    file = tmp_path / "changing.py"
    file.write_text("def f(x):\n    return x + 1\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    import changing

    assert Source.of(changing.f).compiled() == changing.f.__code__
    file.write_text("def f(x):\n    return x + 12345\n", encoding="utf-8")
    with pytest.raises(SourceError, match="has changed"):
        Source.of(changing.f)


def test_endless_loops_end():
    def count(n):
        i = 0
        while i < n:
            if i == 7:
                break
            i += 1
        return i

    source = Source.of(count)
    Bound(100).visit(source.definition)
    bounded = remade(count, count.__code__, source.compiled())
    assert [bounded(n) for n in (0, 5, 50)] == [0, 5, 7]
    fault = next(f for f in faults(source.definition) if ast.unparse(f.replacement) == "i -= 1")
    fault.site.put(fault.replacement)
    with pytest.raises(RuntimeError):
        remade(count, count.__code__, source.compiled())(5)


# --- which mistakes there are ---


def test_mistakes_of_each_kind():
    def rule(g, x, axis, keepdims):
        if keepdims:
            x = x - np.sum(g * 2.5, axis=axis, keepdims=keepdims)
        y = np.swapaxes(g, 0, 1) if axis > 1 else x.T[1:]
        y *= np.matmul(g, x)
        return g / x, np.maximum(y, x)

    found = texts(rule, ("g", "x"))
    for expected in [
        ("sign", "x + np.sum(g * 2.5, axis=axis, keepdims=keepdims)"),
        ("swapped", "np.sum(g * 2.5, axis=axis, keepdims=keepdims) - x"),
        ("dropped", "x"), ("sum", "g * 2.5"), ("sum", "np.mean(g * 2.5, axis=axis, keepdims=keepdims)"),
        ("factor", "5.0"), ("constant", "3.5"), ("factor", "g / 2.5"), ("constant", "2"), ("constant", "0"),
        ("axis", "np.sum(g * 2.5, keepdims=keepdims, axis=0)"), ("axis", "np.sum(g * 2.5, keepdims=keepdims)"),
        ("keepdims", "np.sum(g * 2.5, axis=axis)"), ("condition", "not keepdims"), ("condition", "axis <= 1"),
        ("transposition", "g"), ("transposition", "x"), ("swapped", "np.matmul(x, g)"),
        ("factor", "y /= np.matmul(g, x)"),
        ("dropped", "pass"), ("swapped", "x / g"), ("name", "g"), ("name", "x"), ("sign", "-(g / x)"),
        ("factor", "2 * (g / x)"), ("function", "np.minimum(y, x)"),
    ]:  # fmt: skip
        assert expected in found, expected


def test_what_cannot_matter_is_not_proposed():
    module = ast.parse('''
def rule(g: Array, out: Array, scale=2.0):
    """About 1."""
    assert g.ndim == 1, f"not {g.ndim + 1}"
    if g.ndim:
        raise ValueError("bad" + 1)
    kept = np.empty_like(g, dtype=g.dtype)
    np.multiply(g, g, out=kept)
    return np.reshape(np.abs(kept - g), (-1,)) + (g - kept) ** 2
''')
    found = [(fault.kind, ast.unparse(fault.site.node), ast.unparse(fault.replacement)) for fault in
             faults(module.body[0], ("g", "out"))]  # fmt: skip
    changed = {before for _, before, _ in found}
    assert {"np.multiply(g, g, out=kept)", "np.abs(kept - g)", "kept - g", "g.ndim", "2"} <= changed
    assert not {"-1", "(-1,)", "2.0", "g.ndim + 1", "'bad' + 1", "kept", "np.empty_like(g, dtype=g.dtype)"} & changed
    assert not [after for _, before, after in found if {before, after} == {"g - kept", "kept - g"}]
    assert ("name", "g", "out") in found
    assert not any(kind == "name" and "ndim" in before for kind, before, _ in found)


def test_an_answer_that_is_not_needed_may_be_given():
    def rule(g, a, b, needs):
        return g * b if needs[0] else None, None if not needs[1] else g * a

    product = made(lambda a, b: a * b, (("a", "b"), rule), samples=[(np.array([1.5, -2.0]), np.array([0.5, 3.0]))])
    (found,) = surveyed(product)
    assert found.planted > 10
    assert not found.survivors
    assert ("condition", "None") in texts(rule)


# --- who notices ---


def test_poor_samples_let_mistakes_through_and_good_ones_do_not():
    rules = [(("a",), lambda g, b: g @ b.T), (("b",), lambda g, a: a.T @ g)]
    symmetric = np.array([[2.0, 1.0], [1.0, 3.0]])
    poor = made(lambda a, b: a @ b, *rules, samples=[(symmetric, symmetric)])
    (found,) = surveyed(poor)
    assert {mutant.kind for mutant in found.survivors} >= {"transposition"}
    assert all(mutant.reached for mutant in found.survivors)
    rng = np.random.default_rng(0)
    good = made(lambda a, b: a @ b, *rules, samples=[(rng.normal(size=(2, 3)), rng.normal(size=(3, 4)))])
    (found,) = surveyed(good)
    assert (found.planted, found.survivors) == (found.refused, [])
    assert found.planted > 5


def test_squares_hide_a_wrong_axis():
    def forward(x, *, axis):
        return save(np.sum(x, axis=axis, keepdims=True), shape=x.shape)

    rule = (("x",), lambda g, shape, axis: np.repeat(g, shape[axis], axis=axis))
    square = made(forward, rule, samples=[(np.arange(1.0, 5.0).reshape(2, 2), {"axis": 0})])
    oblong = made(forward, rule, samples=[(np.arange(1.0, 7.0).reshape(2, 3), {"axis": a}) for a in (0, 1)])
    assert surveyed(oblong)[0].survivors == []
    assert surveyed(square)[0].planted == surveyed(oblong)[0].planted


def test_a_place_that_no_sample_reaches_is_told():
    def rule(g, x):
        if x.size > 3:
            return g * 2 * 1.0
        return 2 * g + 0 * x

    (found,) = surveyed(made(lambda x: 2 * x + 0 * x, (("x",), rule), samples=[(np.ones(2),)]))
    unreached = [mutant for mutant in found.survivors if not mutant.reached]
    assert unreached
    assert all("g * 2 * 1.0" in mutant.before for mutant in unreached)
    assert unreached[0].advice.startswith("no sample gets here")


def test_survivors_name_line_and_both_texts():
    rule = lambda g, x: g * (x + x * 0)  # noqa: E731
    (found,) = surveyed(made(lambda x: x * x / 2, (("x",), rule), samples=[(np.array([1.0, 2.0]),)]))
    changed = {mutant.after.partition(": ")[2] for mutant in found.survivors}
    assert "g * (x) # noqa: E731" in changed
    assert {mutant.line for mutant in found.survivors} == {rule.__code__.co_firstlineno}
    assert {mutant.file for mutant in found.survivors} == {__file__}


def _doubled(g):
    return g + g


def test_a_helper_of_two_ops_is_planted_in_once():
    first = made(lambda x: 2 * x, (("x",), lambda g: _doubled(g)), samples=[(np.zeros((0, 3)),)])
    second = made(lambda x: 2 * x, (("x",), lambda g: _doubled(g)), samples=[(np.ones(3),)])
    a, b = surveyed(first, second)
    assert a.planted > b.planted > 0
    lines = [mutant.line for mutant in a.survivors]
    assert _doubled.__code__.co_firstlineno + 1 not in lines  # the second op's sample notices, where the first's do not


def test_ops_of_one_factory_are_told_to_share_their_rules():
    def factory(scale):
        def forward(x):
            return scale * x

        forward.__name__ = f"by_{scale}"
        return made(forward, (("x",), lambda g: scale * g), samples=[(np.ones(3),)])

    first, second = surveyed(factory(2), factory(3))
    assert first.planted > 0 == second.planted
    assert not first.unplanted
    assert second.unplanted == ["its rules are those of by_2, where the mistakes in them are counted"]


def test_a_statement_dropped_on_the_line_of_its_condition_is_shown():
    def rule(g, x):
        if x.ndim > 5: g.sort()  # noqa: E701
        return 2 * g * x

    (found,) = surveyed(made(lambda x: x * x, (("x",), rule), samples=[(np.array([1.0, 3.0]),)]))
    assert any(mutant.after.startswith("if x.ndim > 5: pass") for mutant in found.survivors)


def test_mutants_leave_the_op_as_it_was():
    op = made(lambda x: x * x, (("x",), lambda g, x: 2 * g * x), samples=[(np.array([1.0, 3.0]),)])
    rules = list(op.rules)
    (found,) = surveyed(op)
    assert found.refused == found.planted > 0
    assert op.rules == rules


def test_rules_without_source_are_told():
    op = made(lambda x: 2 * x, (("x",), eval("lambda g: 2 * g")), samples=[(np.ones(2),)])
    (found,) = surveyed(op)
    assert (found.planted, len(found.unplanted)) == (0, 1)
    assert "not to be had" in found.unplanted[0]
    op = made(lambda x: -x, (("x",), functools.partial(lambda g: -g)), samples=[(np.ones(2),)])
    (found,) = surveyed(op)
    assert "no plain function" in found.unplanted[0]


def test_what_matters_at_exact_points_alone_is_left_out():
    def rule(g, x):
        origin, endless = np.equal(x, 0), np.isinf(x)
        safe = np.where(origin | endless, 1.0, x)
        return np.where(x == 0, 0.5, 3 * g * safe * safe)

    (found,) = surveyed(made(lambda x: x**3, (("x",), rule), samples=[(np.array([1.5, -2.0]),)]))
    assert found.left_out > 8
    assert found.survivors == []
    assert found.planted > 8


@pytest.mark.parametrize("ids", [np.array([0, 1]), np.array([1, 1])])
def test_equal_integers_are_not_left_out(ids):
    def rule(g, ids):
        return np.where(ids == 0, 3.0, 2.0) * g

    samples = [(np.array([0.5, 1.5]), ids)]
    op = made(lambda x, ids: np.where(ids == 0, 3.0, 2.0) * x, (("x",), rule), samples=samples)
    op.nondiff("ids")
    (found,) = surveyed(op)
    assert found.left_out == 0
    assert bool(found.survivors) == (0 not in ids)


def test_an_array_without_elements_cannot_be_wrong():
    def rule(g, x):
        if x.size == 0:
            return 0 * x
        return 2 * g * x

    (found,) = surveyed(made(lambda x: x * x, (("x",), rule), samples=[(np.zeros((0, 3)),), (np.array([0.5, 2.0]),)]))
    assert not [mutant for mutant in found.survivors if "0 * x" in mutant.before]
