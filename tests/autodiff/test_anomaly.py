"""Anomaly mode: planted faults are named with op, line, argument and element; what is right raises nothing."""

import linecache

import numpy as np
import pytest

import autodiff as ad
import autodiff.functional as F
from autodiff import AnomalyError, Tensor, save
from autodiff.op import Op
from autodiff.testing import op_cases


def leaf(*values, dtype=np.float64):
    return Tensor(np.array(values, dtype), requires_grad=True)


def spoiled_tanh():
    op = Op(lambda x: np.tanh(x), elementwise=True)
    op.name = "spoiled_tanh"
    op.vjp("x")(lambda g, out: g / (1 - np.abs(np.sign(out))))
    return op


def keeper():
    kept = np.array([1.0, 2.0])
    op = Op(lambda x: save(x * kept, kept=kept), elementwise=True)
    op.name = "keeper"
    op.vjp("x")(lambda g, kept: g * kept)
    return op, kept


# --- forward: (op, element) of what each function makes first; the line is marked ---


def log_of_zero():
    return np.log(leaf(1, 0, 0))  # here


def root_of_negative():
    return np.sqrt(leaf(1, 4, -1))  # here


def zero_by_zero():
    x = leaf(0)
    return x / x  # here


def one_by_zero():
    return 1 / leaf([1, 2], [0, 4])  # here


def exponential():
    return np.exp(leaf(1, 710))  # here


def power_of_negative():
    return leaf(-8, 8) ** (1 / 3)  # here


def product_of_matrices():
    x = leaf([1e30, 1], [1, 1], dtype=np.float32)
    y = x + 1
    return y @ y  # here


def infinity_minus_infinity():
    x = leaf(1, np.inf)
    return x - x  # here


def sum_in_single_precision():
    return np.sum(leaf(3e38, 3e38, dtype=np.float32))  # here


def layer_in_a_model():
    with ad.scope("block"), ad.scope("down"):
        return F.linear(leaf([1e30], dtype=np.float32), leaf([1e30], dtype=np.float32))  # here


def inside_a_decomposition():
    with ad.decompose():
        return F.layer_norm(leaf(1, 1, 1), eps=0.0)  # here


def recorded_by_no_one():
    with ad.no_grad():
        return np.log(leaf(0))  # here


def one_output_of_several():
    x = leaf(1, 1)
    first, second = np.split(x * 1e308, 2)
    return first + second * 10  # here


FORWARD = {
    log_of_zero: ("log", (1,)),
    root_of_negative: ("sqrt", (2,)),
    zero_by_zero: ("divide", (0,)),
    one_by_zero: ("divide", (1, 0)),
    exponential: ("exp", (1,)),
    power_of_negative: ("power", (0,)),
    product_of_matrices: ("matmul", (0, 0)),
    infinity_minus_infinity: ("subtract", (1,)),
    sum_in_single_precision: ("sum", ()),
    layer_in_a_model: ("linear", (0, 0)),
    inside_a_decomposition: ("divide", (0,)),
    recorded_by_no_one: ("log", (0,)),
    one_output_of_several: ("multiply", (0,)),
}


def marked_line(function):
    """Find the line of a function that is marked."""
    code = function.__code__
    lines = range(code.co_firstlineno, code.co_firstlineno + 12)
    number = next(n for n in lines if linecache.getline(code.co_filename, n).rstrip().endswith("# here"))
    return f"{code.co_filename}:{number}"


@pytest.mark.parametrize("function", FORWARD, ids=lambda f: f.__name__)
def test_forward(function):
    with pytest.raises(AnomalyError, match="the forward of") as caught, ad.detect_anomaly():
        function()
    op, index = FORWARD[function]
    error = caught.value
    assert (error.op, error.phase, error.index, error.line) == (op, "forward", index, marked_line(function))
    assert error.line in str(error)
    assert "# here" in str(error)  # the text of the line


def test_forward_message_shows_what_came_in():
    with pytest.raises(AnomalyError) as caught, ad.detect_anomaly():
        leaf([1, 2, 3]) / leaf([4], [0])
    lines = str(caught.value).splitlines()
    assert lines[0] == "the forward of 'divide' made inf at out[1, 0]; out has the shape (2, 3)"
    assert lines[1:3] == ["  x1: shape (1, 3), float64, x1[0, 0] = 1", "  x2: shape (2, 1), float64, x2[1, 0] = 0"]
    assert "F.safe_where" in lines[-1]


def test_scope_is_named():
    with pytest.raises(AnomalyError, match=r"'linear' in block\.down made inf"), ad.detect_anomaly():
        layer_in_a_model()


# --- backward: (op, argument, element) ---


def root_at_zero():
    return np.sqrt(leaf(4, 0)).sum()  # here


def root_below_where():
    x = leaf(4, 0)
    y = np.sqrt(x)  # here
    return np.where(x > 0, y, 0.0).sum()


def root_masked_by_zero():
    x = leaf(0, 4)
    y = np.sqrt(x)  # here
    return (y * np.array([0.0, 1.0])).sum()


def fractional_power_at_zero():
    return (leaf(1, 0) ** 0.5).sum()  # here


def reciprocal_of_little():
    return np.reciprocal(leaf(1, 1e-200)).sum()  # here


def broadcast_argument():
    x, y = leaf([1, 1]), leaf([1e-160], [1.0])
    return (x / y).sum()  # here


def rule_of_a_user():
    return spoiled_tanh()(leaf(0, 3)).sum()  # here


def sum_of_cotangents():
    x = leaf(1, 2, dtype=np.float32)
    y = x * np.float32(1e-30)  # both products give 2e38 to y
    a = y * np.float32(2e38)
    b = y * np.float32(2e38)  # here
    return (a + b).sum()


def in_a_model():
    with ad.scope("norm"):
        return np.sqrt(leaf(0)).sum()  # here


BACKWARD = {
    root_at_zero: ("sqrt", "x", (1,)),
    root_below_where: ("sqrt", "x", (1,)),
    root_masked_by_zero: ("sqrt", "x", (0,)),
    fractional_power_at_zero: ("power", "x1", (1,)),
    reciprocal_of_little: ("reciprocal", "x", (1,)),
    broadcast_argument: ("divide", "x2", (0, 0)),
    rule_of_a_user: ("spoiled_tanh", "x", (1,)),
    in_a_model: ("sqrt", "x", (0,)),
}


@pytest.mark.parametrize("function", BACKWARD, ids=lambda f: f.__name__)
def test_backward(function):
    with pytest.raises(AnomalyError, match="the VJP rule of") as caught, ad.detect_anomaly():
        function().backward()
    op, argument, index = BACKWARD[function]
    error = caught.value
    assert (error.op, error.phase, error.argument, error.index) == (op, "backward", argument, index)
    assert error.line == marked_line(function)
    assert error.line in str(error)


def test_sum_of_finite_cotangents_that_is_not():
    with pytest.raises(AnomalyError, match="their sum is inf") as caught, ad.detect_anomaly():
        sum_of_cotangents().backward()
    assert (caught.value.op, caught.value.argument, caught.value.index) == ("multiply", "x1", (0,))


def test_zero_times_infinity_below_a_where_is_recognised():
    with pytest.raises(AnomalyError, match=r"np\.where discards this element.* 0 x inf is nan.*F\.safe_where"):
        with ad.detect_anomaly():
            root_below_where().backward()
    with pytest.raises(AnomalyError, match=r"it is not used.* 0 x inf is nan"), ad.detect_anomaly():
        root_masked_by_zero().backward()
    with pytest.raises(AnomalyError) as caught, ad.detect_anomaly():
        root_at_zero().backward()
    assert "safe_where" not in str(caught.value)
    with ad.detect_anomaly():  # and what is suggested works
        x = leaf(4, 0)
        F.safe_where(x.data > 0, np.sqrt, x, 0.0).sum().backward()
    assert x.grad.tolist() == [0.25, 0.0]


def test_data_that_came_in_not_finite():
    data, w = np.array([[1.0, 2.0], [np.nan, 4.0]]), leaf(1, 2)
    with pytest.raises(AnomalyError, match=r"x1\[1\] was nan before: .* it came in with the data"), ad.detect_anomaly():
        ((data @ w - 1.0) ** 2).mean().backward()


def test_gradients_and_second_order_are_watched():
    x = leaf(1, 0)
    with pytest.raises(AnomalyError) as caught, ad.detect_anomaly():
        ad.gradients((x**0.5).sum(), x)
    assert caught.value.phase == "backward"
    with ad.detect_anomaly():
        first = ad.gradients((x**1.5).sum(), x, create_graph=True)
    with pytest.raises(AnomalyError) as caught, ad.detect_anomaly():
        ad.gradients(first.sum(), x)
    assert (caught.value.op, caught.value.index) == ("power", (1,))
    assert caught.value.line.startswith(__file__)


def test_recorded_backward_pass_names_the_op_of_the_forward():
    def loss(x):
        root = np.sqrt(x)  # here
        return np.sum(np.where(x > 0, root, 0.0))

    for transform in (ad.hessian(loss), ad.grad(lambda x: np.sum(ad.grad(loss)(x)))):
        with pytest.raises(AnomalyError, match=r"0 x inf is nan") as caught, ad.detect_anomaly():
            transform(np.array([0.0, 4.0]))
        error = caught.value
        assert (error.op, error.phase, error.argument, error.index) == ("sqrt", "backward", "x", (0,))
        assert error.line == marked_line(loss)


def test_new_values_are_told_apart_element_by_element():
    for f, values in ((np.sqrt, (np.nan, -1)), (np.exp, (-np.inf, 1000)), (np.log, (np.inf, 0))):
        with pytest.raises(AnomalyError) as caught, ad.detect_anomaly():
            f(leaf(*values))
        assert caught.value.index == (1,)


def test_cotangent_that_is_passed_in():
    with pytest.raises(AnomalyError, match=r"the cotangent passed to backward is nan at g\[1\]"), ad.detect_anomaly():
        (leaf(1, 2) * 2).backward([1.0, np.nan])


def test_forward_outside_of_the_mode():
    loss = root_at_zero()
    with pytest.raises(AnomalyError, match="recorded while anomaly mode was off") as caught, ad.detect_anomaly():
        loss.backward()
    assert (caught.value.op, caught.value.line) == ("sqrt", None)


# --- saved arrays that changed: (op, name of the saved value) ---


def leaf_written_into():
    x = leaf(1, 2)
    y = x * x  # here
    x.data[0] = 7
    return y.sum()


def operand_of_the_user():
    x, a = leaf(1, 2), np.array([3.0, 4.0])
    y = a * x  # here
    a *= 2
    return y.sum()


def data_of_a_parameter_as_operand():
    x, p = leaf(1, 2), leaf(3, 4)
    y = x * p.data  # here
    p.data -= 1.0
    return y.sum()


def output_written_into():
    y = np.tanh(leaf(1, 2))  # here
    y.data[1] = 0
    return y.sum()


def view_of_a_leaf():
    x = leaf(1, 2, 3)
    y = np.exp(x[1:] * 1.0) * x[1:]  # here
    x.data[2] = 0
    return y.sum()


def value_of_the_forward():
    op, kept = keeper()
    y = op(leaf(1, 2))  # here
    kept[0] = 5
    return y.sum()


SAVED = {
    leaf_written_into: ("multiply", "x1"),
    operand_of_the_user: ("multiply", "x1"),
    data_of_a_parameter_as_operand: ("multiply", "x2"),
    output_written_into: ("tanh", "out"),
    view_of_a_leaf: ("multiply", "x2"),
    value_of_the_forward: ("keeper", "kept"),
}


@pytest.mark.parametrize("function", SAVED, ids=lambda f: f.__name__)
def test_saved_array_that_changed(function):
    with pytest.raises(AnomalyError, match="was changed in place") as caught, ad.detect_anomaly():
        function().backward()
    op, name = SAVED[function]
    error = caught.value
    assert (error.op, error.phase, error.argument) == (op, "saved", name)
    assert error.line == marked_line(function)


# --- what settings hold, and integers and booleans among the arguments, is copied when it is recorded ---


def cust():
    op = Op(lambda x, *, w=None: x * w, elementwise=True)
    op.vjp("x")(lambda g, w: g * w)
    return op


SETTINGS = {
    "index": (np.array([0, 1, 0]), lambda x, i: x[i]),
    "index of two axes": (np.array([0, 1, 0]), lambda x, i: x.reshape(2, 1)[i, i * 0]),
    "index in a list": ([0, 1, 0], lambda x, i: x[i]),
    "mask": (np.array([True, False]), lambda x, i: x[i]),
    "repeats": (np.array([1, 2]), lambda x, i: np.repeat(x, i)),
    "widths": (np.array([1, 2]), lambda x, i: np.pad(x, i)),
    "set_at": (np.array([0]), lambda x, i: F.set_at(x, i, 5.0)),
    "positions": (np.array([0, 1]), lambda x, i: np.take(x, i)),
    "of a user": (np.array([2.0, 3.0]), lambda x, i: cust()(x, w=i)),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_settings_that_change_later_do_not_matter(name):
    setting, f = SETTINGS[name]
    want, got = leaf(1, 2), leaf(1, 2)
    f(want, setting).sum().backward()
    given = setting.copy()
    out = f(got, given)
    given[:] = [not value if name == "mask" else 1 - value for value in given]
    out.sum().backward()
    assert got.grad.tolist() == want.grad.tolist()


# --- no false alarms ---


@pytest.mark.parametrize("decomposed", [False, True])
@pytest.mark.parametrize("case", op_cases(), ids=str)
def test_right_ops_raise_nothing(case, decomposed):
    floating = [isinstance(x, (np.ndarray, np.generic)) and x.dtype.kind == "f" for x in case.arrays]
    arrays = [Tensor(x, requires_grad=True) if f else x for x, f in zip(case.arrays, floating, strict=True)]
    with ad.detect_anomaly():
        if decomposed:
            with ad.decompose():
                out = case.op(*arrays, **case.settings)
        else:
            out = case.op(*arrays, **case.settings)
        parts = [part for part in (out if isinstance(out, tuple) else [out]) if isinstance(part, Tensor)]
        parts = [part for part in parts if part.requires_grad and part.dtype.kind == "f"]
        if parts and not case.op.surrogate:
            ad.gradients(parts, [x for x in arrays if isinstance(x, Tensor)], [np.ones(part.shape) for part in parts])


def test_infinities_of_the_user_are_theirs():
    x = leaf(1, 2, 3)
    mask = np.array([True, False, True])
    with ad.detect_anomaly():
        F.softmax(np.where(mask, x, -np.inf)).sum().backward()
        F.logsumexp(np.where(False, x, -np.inf)).backward()
        np.where(np.isnan(leaf(1, np.nan, 3)), 0.0, x).sum().backward()
        F.softmax(np.where(False, x, -np.inf)).sum().backward()
        (x + np.array([0.0, np.inf, np.nan])).sum().backward()
        np.maximum(x, -np.inf).sum().backward()


def test_mode_ends_with_its_block():
    with ad.detect_anomaly(), ad.no_grad(), ad.scope("inner"):
        pass
    with np.errstate(divide="ignore"):
        assert np.log(leaf(0)).tolist() == [-np.inf]

    @ad.detect_anomaly()
    def watched():
        return np.log(leaf(0))

    with pytest.raises(AnomalyError):
        watched()


def test_nodes_note_nothing_while_the_mode_is_off():
    assert (leaf(1) * 2).node.origin is None


def test_warnings_become_the_error():
    # The suite turns warnings into errors: were NumPy's "divide by zero" to come first, this would fail.
    with pytest.raises(AnomalyError), ad.detect_anomaly():
        leaf(1) / 0
