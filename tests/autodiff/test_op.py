"""Declaring ops: what a signature may be, which rules run, what is refused and when."""

from __future__ import annotations

import functools
import inspect

import numpy as np
import pytest

import autodiff as ad
import autodiff.functional as F
from autodiff import Tensor, op, save
from autodiff.node import OPS, TWINS
from autodiff.op import Op
from autodiff.signature import parameters_of


@pytest.fixture(autouse=True)
def _registry_left_as_it_was():
    ops, twins = dict(OPS), dict(TWINS)
    yield
    for table, before in ((OPS, ops), (TWINS, twins)):
        table.clear()
        table.update(before)


def leaf(data):
    return Tensor(np.asarray(data, float), requires_grad=True)


def scaled(x, y=None, *, factor=2.0, mode="plain"):
    """Multiply by a factor and by y."""
    return x * factor * (1.0 if y is None else y)


def wrapped(function):
    return functools.wraps(function)(lambda *args, **settings: function(*args, **settings))


def of_many_kinds(a, b=None, /, c=None, *rest, d, e=3, **more):
    return a


class Power:
    def __call__(self, x, *, power=2):
        return x**power


@pytest.mark.parametrize(
    "function",
    [
        scaled, wrapped(scaled), of_many_kinds, wrapped(of_many_kinds), Power(), Power().__call__,
        functools.partial(scaled, factor=3.0), np.linspace,
        lambda g: g, lambda *, a, b=1: b, lambda *x, y: x, lambda **z: z, lambda: 0,
    ],
)  # fmt: skip
def test_parameters_are_those_of_inspect(function):
    theirs = [(p.name, p.kind, p.default) for p in inspect.signature(function).parameters.values()]
    assert [tuple(p) for p in parameters_of(function)] == theirs


def test_it_looks_like_the_function():
    made = op(scaled)
    assert inspect.signature(made) == inspect.signature(scaled)
    assert made.__name__ == "scaled"
    assert made.__doc__ == scaled.__doc__
    assert repr(made) == "<op scaled(x, y=None, *, factor=2.0, mode='plain')>"
    assert OPS["scaled"] is made


def test_plain_arrays_give_plain_arrays():
    result = op(scaled)(np.ones(2), factor=3.0)
    assert type(result) is np.ndarray
    np.testing.assert_array_equal(result, [3.0, 3.0])
    assert op(lambda_like := scaled)([1.0, 2.0]) is not lambda_like


def test_defaults_are_bound_before_a_rule_sees_them():
    made = op(scaled)
    seen = {}

    @made.vjp("x")
    def _(g, y, factor, mode):
        seen.update(y=y, factor=factor, mode=mode)
        return g * factor

    x = leaf(1.0)
    made(x, mode="other").backward()
    assert seen == {"y": None, "factor": 2.0, "mode": "other"}


def test_arrays_can_be_given_by_keyword():
    made = op(scaled)
    made.vjp("x")(lambda g, y, factor: g * factor * y)
    made.vjp("y")(lambda g, x, factor: g * factor * x)
    x, y = leaf(3.0), leaf(5.0)
    made(y=y, x=x, factor=1.0).backward()
    assert (x.grad, y.grad) == (5.0, 3.0)


def test_settings_can_be_given_by_position_as_in_numpy():
    assert op(scaled)(3.0, None, 5.0) == 15.0
    np.testing.assert_array_equal(OPS["sum"](leaf(np.ones((2, 3))), 0).data, [2.0, 2.0, 2.0])


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda f, x: f(), "missing a required argument: 'x'"),
        (lambda f, x: f(x, 1.0, 2.0, "plain", 5), "too many positional"),
        (lambda f, x: f(x, 1.0, x), r"'factor' is not differentiable.*\.item\(\)"),
        (lambda f, x: f(x, factr=1.0), r"no setting 'factr'.*Did you mean 'factor'"),
        (lambda f, x: f(x, x=x), "multiple values"),
        (lambda f, x: f("abc"), "real numbers"),
        (lambda f, x: f([x, x]), r"F\.stack|lose the gradient"),
    ],
)
def test_wrong_calls(call, match):
    made = op(scaled)
    made.vjp("x")(lambda g: g)
    with pytest.raises(TypeError, match=match):
        call(made, leaf(1.0))


def test_a_missing_setting_is_named():
    @op
    def needs_axis(x, *, axis):
        return x

    with pytest.raises(TypeError, match="needs the setting axis"):
        needs_axis(leaf(1.0))


def test_an_error_in_the_forward_says_in_which_op():
    with pytest.raises(ValueError, match="broadcast") as caught:
        leaf(np.ones(2)) + leaf(np.ones(3))
    assert caught.value.__notes__ == ["in the op 'add', on arguments of shapes (2,), (3,)"]


@pytest.mark.parametrize(
    ("forward", "match"),
    [
        (lambda g: g, "'g' is reserved"),
        (lambda out: out, "'out' is reserved"),
        (lambda x, *, needs=1: x, "'needs' is reserved"),
        (lambda x, **kw: x, r"\*\*kw"),
        (lambda x, *arrays: x, r"\*arrays must be its only"),
        (lambda x, k=2: x, "'k' has the default 2"),
        (lambda *, k: k, "no positional parameter"),
    ],
)
def test_signatures_that_an_op_cannot_have(forward, match):
    with pytest.raises(TypeError, match=match):
        op(forward)


@pytest.mark.parametrize(
    ("names", "rule", "match"),
    [
        (("z",), lambda g: g, r"no argument 'z'"),
        (("facto",), lambda g: g, r"no argument 'facto'"),
        ((), lambda g: g, "name the arguments"),
        (("x", "x"), lambda g: g, "each once"),
        (("x",), lambda x: x, "cotangent 'g'"),
        (("x",), lambda *g: g, "plain parameters"),
        (("x",), lambda g, *, y: g, "plain parameters"),
    ],
)
def test_rules_that_are_refused_at_once(names, rule, match):
    with pytest.raises(TypeError, match=match):
        op(scaled).vjp(*names)(rule)


def test_a_rule_needs_the_names_of_its_arguments():
    with pytest.raises(TypeError, match=r"@scaled\.vjp\('x'\)"):
        op(scaled).vjp(lambda g: g)


def test_an_unknown_rule_parameter_fails_at_the_first_recorded_call():
    made = op(scaled)
    made.vjp("x")(lambda g, factr: g * factr)
    with pytest.raises(TypeError, match=r"asks for 'factr'.*Did you mean 'factor'"):
        made(leaf(1.0))
    assert made(1.0) == 2.0


@pytest.mark.parametrize("name", ["x", "factor", "out", "g", "needs"])
def test_save_refuses_a_name_that_is_taken(name):
    def doubled(x, *, factor=2.0):
        return save(x * factor, **{name: 1.0})

    made = Op(doubled)
    made.vjp("x")(lambda g: g)
    with pytest.raises(TypeError, match=rf"save\({name}=\.\.\.\) hides"):
        made(leaf(1.0))


def test_save_of_what_it_returned_is_refused():
    made = Op(lambda x: save(save(2 * x, a=1), b=2))
    for x in (1.0, leaf(1.0)):
        with pytest.raises(TypeError, match="give all values to one call"):
            made(x)


def test_saved_values_that_no_rule_asks_for_are_dropped():
    def doubled(x):
        return save(2 * x, wanted=1, unwanted=np.ones(1000))

    made = Op(doubled)
    made.vjp("x")(lambda g, wanted: 2 * g)
    assert made(leaf(1.0)).node.extra == {"wanted": 1}
    assert made(1.0) == 2.0


def test_a_missing_rule_raises_when_its_gradient_is_asked_for():
    made = op(scaled)
    made.vjp("x")(lambda g: g)
    x, y = leaf(1.0), leaf(2.0)
    assert made(x, 3.0).requires_grad
    with pytest.raises(TypeError, match=r"'scaled' has no VJP rule for its argument 'y'.*nondiff.*detach"):
        made(x, y)
    made.nondiff("y")
    z = made(x, y)
    z.backward()
    assert y.grad is None
    assert not made(1.0, y).requires_grad


def test_integer_arguments_are_never_differentiated():
    def pick_row(table, index):
        return table[index]

    made = Op(pick_row)
    made.vjp("table")(lambda g, table, index: np.eye(3)[index] * g)
    t = leaf([1.0, 2.0, 3.0])
    made(t, Tensor(2)).backward()
    np.testing.assert_array_equal(t.grad, [0.0, 0.0, 1.0])


def test_integer_results_are_constants():
    made = Op(lambda x: x > 1.5)
    made.vjp("x")(lambda g: g)
    y = made(leaf([1.0, 2.0]))
    assert not y.requires_grad
    assert y.data.tolist() == [False, True]


def test_complex_results_are_refused():
    made = Op(lambda x: x * 1j)
    made.vjp("x")(lambda g: g)
    with pytest.raises(TypeError, match="complex128"):
        made(leaf(1.0))


def test_a_rule_for_several_arguments_sees_which_are_needed():
    asked = []

    def product(x, y, z):
        return x * y * z

    made = Op(product, elementwise=True)

    @made.vjp("x", "y")
    def _(g, needs, x, y, z):
        asked.append(needs)
        return (g * y * z if needs[0] else None), (g * x * z if needs[1] else None)

    made.vjp("z")(lambda g, x, y: g * x * y)
    x, y, z = leaf(2.0), leaf(3.0), leaf(5.0)
    made(x, y, z).backward()
    assert (x.grad, y.grad, z.grad) == (15.0, 10.0, 6.0)
    made(2.0, y, 5.0).backward()
    ad.gradients(made(x, y, z), [x, z])
    assert asked == [(True, True), (False, True), (True, False)]


def test_variadic_ops_take_arrays_or_one_list():
    def total(*arrays):
        return sum(arrays[1:], arrays[0])

    made = op(total)

    @made.vjp("arrays")
    def _(g, arrays):
        return tuple(g for _ in arrays)

    x, y = leaf(1.0), leaf(2.0)
    for result in (made(x, y, 3.0), made([x, y, 3.0])):
        assert result.item() == 6.0
        result.backward()
    assert (x.grad, y.grad) == (2.0, 2.0)
    with pytest.raises(TypeError, match="at least one"):
        made()


def test_a_decomposition_takes_what_the_op_takes():
    made = op(scaled)
    with pytest.raises(TypeError, match="must be the same"):
        made.decomposition(lambda x, *, factor: x)


def test_a_decomposition_runs_under_decompose():
    made = Op(scaled)

    @made.decomposition
    def _(x, y=None, *, factor=2.0, mode="plain"):
        return x * factor

    made.vjp("x")(lambda g, factor: g * factor)
    x = leaf(3.0)
    assert made(x).node.op is made
    with ad.decompose():
        y = made(x, factor=4.0)
    assert y.node.op.name == "multiply"
    assert y.item() == 12.0


def test_ufunc_twins_record():
    ufunc = np.frompyfunc(lambda x: x * x * x, 1, 1)

    @op(numpy=ufunc)
    def cubed(x):
        return x * x * x

    cubed.vjp("x")(lambda g, x: g * (3 * x * x))
    x = leaf([1.0, 2.0])
    ufunc(x).sum().backward()
    np.testing.assert_allclose(x.grad, [3.0, 12.0])
    assert cubed.elementwise


@pytest.mark.parametrize("twin", [np.exp, np.reshape])
def test_twin_of_another_op_is_refused(twin):
    def usurper(x):
        return x

    before = TWINS[twin]
    with pytest.raises(ValueError, match=rf"np\.{twin.__name__} already records .*override=True"):
        op(numpy=twin)(usurper)
    assert TWINS[twin] is before
    assert "usurper" not in OPS


def test_defining_an_op_again_replaces_it():
    first = op(scaled)
    second = op(scaled)
    assert OPS["scaled"] is second is not first


def test_another_modules_name_is_refused():
    def exp(x):
        return x

    with pytest.raises(ValueError, match=r"'exp' exists in autodiff\.functional.*override=True"):
        op(exp)
    assert op(override=True)(exp) is OPS["exp"]


def test_a_new_rule_replaces_the_old_one():
    made = op(scaled)
    made.vjp("x")(lambda g: g)
    x = leaf(1.0)
    made(x).backward()
    made.vjp("x", "y")(lambda g: (2 * g, g))
    made(x).backward()
    assert x.grad == 3.0
    assert len(made.rules) == 1


def test_a_list_of_arrays_may_be_followed_by_settings():
    x = leaf([1.0, 2.0])
    stack = OPS["stack"]
    assert stack([x, x], 1).shape == (2, 2)
    np.testing.assert_array_equal(stack([x, 2 * x], 1).data, [[1.0, 2.0], [2.0, 4.0]])
    for surplus in (lambda: stack([x, x], 0, None, "same_kind", 1), lambda: stack([x, x], 0, axis=1)):
        with pytest.raises(TypeError, match="a list of arrays, then, once, axis"):
            surplus()


def test_arrays_that_compute_by_other_rules_are_refused(tmp_path):
    x = leaf([[1.0, 2.0], [3.0, 4.0]])
    with pytest.warns(PendingDeprecationWarning):
        matrix = np.matrix([[1.0, 2.0], [0.0, 3.0]])
    masked = np.ma.masked_array([[1.0, 2.0], [3.0, 4.0]], mask=[[0, 1], [0, 0]])
    for other, word in ((matrix, "np.asarray"), (masked, "filled")):
        for call in (lambda o: x * o, lambda o: np.multiply(x, o), lambda o: x @ o, lambda o: np.stack([x, o])):
            with pytest.raises(TypeError, match=word):
                call(other)
    mapped = np.memmap(tmp_path / "m", float, "w+", shape=(2, 2))
    mapped[...] = 2.0
    y = x * mapped
    y.backward(np.ones((2, 2)))
    assert type(y.data) is np.ndarray
    assert x.grad.tolist() == [[2, 2], [2, 2]]


def test_what_is_no_number_is_named_plainly():
    with pytest.raises(TypeError, match=r"multiply\(\) works on real numbers; got a dict of dtype object$"):
        leaf(1.0) * {}
    with pytest.raises(TypeError, match=r"F\.stack joins tensors"):
        np.add(leaf(1.0), [leaf([1.0]), None])


def passing(forward):
    made = Op(forward)
    made.vjp("x")(lambda g: g)
    return made


def test_forward_without_return_is_named():
    def absent(x):
        np.exp(x)

    with pytest.raises(TypeError, match=r"the forward of 'absent' returned None: does it lack a return\?"):
        passing(absent)(leaf(1.0))

    def text(x):
        return "a"

    with pytest.raises(TypeError, match="the forward of 'text' returned str of dtype"):
        passing(text)(leaf(1.0))


OBJECTS = np.array([1, 2], object)
NOT_NUMBERS = {
    "x @ objects": lambda x: x @ OBJECTS,
    "objects @ x": lambda x: OBJECTS @ x,
    "F.dot": lambda x: F.dot(x, OBJECTS),
    "of one element": lambda x: x[0] * np.array(2, object),
    "added": lambda x: np.add(x[0], np.array(2, object)),
    "F.outer": lambda x: F.outer(x, OBJECTS),
    "strings": lambda x: np.where([True, False], x, np.array(["a", "b"])),
    "dates": lambda x: F.stack([x, np.array(["2020-01-01"] * 2, "M8[D]")]),
}


@pytest.mark.parametrize("call", NOT_NUMBERS.values(), ids=NOT_NUMBERS)
def test_arrays_of_what_is_no_number_are_refused_at_the_call(call):
    for recorded in (True, False):
        with pytest.raises(TypeError, match=r"works on real numbers; got a ndarray of dtype"):
            call(Tensor([1.0, 2.0], requires_grad=recorded))


@pytest.mark.parametrize("condition", [True, False, [True, False]])
def test_where_takes_no_none(condition):
    x = leaf(1.0) if np.ndim(condition) == 0 else leaf([1.0, 2.0])
    for args in ((x, None), (None, x)):
        for f in (np.where, F.where):
            with pytest.raises(TypeError, match=r"where\(\) takes an array or a number for both x and y, not None"):
                f(condition, *args)
