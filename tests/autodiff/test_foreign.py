"""Operands that compute by rules of their own, as arrays with units or labels do: they decide what comes out."""

import operator

import numpy as np
import pytest

import autodiff as ad
import autodiff.functional as F
from autodiff import Tensor, as_tensor

OPERATORS = "add sub mul truediv floordiv mod divmod pow matmul lt le gt ge eq ne".split()
MIRRORED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "eq": "eq", "ne": "ne"}


def answering(name):
    return lambda self, other: (name, type(other))


METHODS = {f"__{r}{name}__": answering(r + name) for name in OPERATORS for r in ("", "r")}
METHODS |= {"__hash__": object.__hash__, "__array__": lambda self, dtype=None, copy=None: np.ones(2)}


def made(*bases, **attributes):
    return type("Other", bases, {**METHODS, **attributes})


def decide(self, ufunc, method, *args, **settings):
    return ufunc.__name__, [type(arg) for arg in args]


FOREIGN = {
    "no ufuncs": made(__array_ufunc__=None)(),
    "own ufuncs": made(__array_ufunc__=decide)(),
    "priority": made(__array_priority__=20.0)(),
    "priority of an instance": made(__array_priority__=property(lambda self: 1))(),
    "array with own ufuncs": np.ones(2).view(made(np.ndarray, __array_ufunc__=decide)),
    "array with priority": np.ones(2).view(made(np.ndarray, __array_priority__=20.0)),
}


@pytest.mark.parametrize("recorded", [True, False])
@pytest.mark.parametrize("other", FOREIGN.values(), ids=FOREIGN)
@pytest.mark.parametrize("name", OPERATORS)
def test_the_other_decides(name, other, recorded):
    apply = divmod if name == "divmod" else getattr(operator, name)
    for data in ([1.0, 2.0], 3.0):
        x = Tensor(data, requires_grad=recorded)
        assert apply(other, x) == (name, Tensor)
        assert apply(x, other) == (MIRRORED.get(name, "r" + name), Tensor)
    x += other
    assert x == ("radd", Tensor)


def test_what_has_no_rules_of_its_own_is_an_array():
    x = Tensor([1.0, 2.0], requires_grad=True)
    for other in (made()(), made(__array_priority__=-1.0)(), made(__array_priority__="high")()):
        assert (x * other).tolist() == [1.0, 2.0]
        assert (x > other).tolist() == [False, True]


def test_an_array_by_priority_alone_is_recorded():
    x = Tensor([1.0, 2.0], requires_grad=True)
    other = np.full(2, 3.0).view(type("Prior", (np.ndarray,), {"__array_priority__": 20.0}))
    for y in (x * other, other * x, np.multiply(x, other), np.multiply(x, other, where=[True, True])):
        assert type(y) is Tensor
        assert y.tolist() == [3.0, 6.0]
        assert y.requires_grad


def test_ufuncs_and_functions_leave_the_result_to_it_too():
    other = type("Quantity", (), {"__array_ufunc__": decide, "__array_function__": lambda *args: "function"})()
    x = Tensor([1.0, 2.0], requires_grad=True)
    for call in (np.multiply(x, other), np.multiply(other, x), np.multiply(x, other, where=np.array([True, False]))):
        assert call[0] == "multiply"
        assert Tensor in call[1]
    assert np.concatenate([x, other]) == np.allclose(x, other) == "function"


def test_what_does_not_answer_is_a_type_error():
    silent = type("Silent", (), {"__array_ufunc__": lambda *args, **settings: NotImplemented})()
    x = Tensor([1.0, 2.0], requires_grad=True)
    for call in (lambda: x * silent, lambda: silent @ x, lambda: np.multiply(x, silent), lambda: x < silent):
        with pytest.raises(TypeError):
            call()
    with pytest.raises(TypeError, match=r"multiply\(\) takes arrays; a Silent computes by rules of its own"):
        F.multiply(x, silent)


class Quantity:
    """Numbers with a unit: NumPy's functions leave to it what they do."""

    def __init__(self, values):
        self.values = np.asarray(values, float)

    def __array__(self, dtype=None, copy=None):
        return self.values

    def __array_function__(self, *call):
        return "function"

    __array_ufunc__ = decide


X = Tensor([1.0, 2.0], requires_grad=True)
Q, UNIT = Quantity([1.0, 2.0]), Quantity(1.0)


@pytest.mark.parametrize(
    "call",
    [
        lambda: Tensor(Q), lambda: as_tensor(Q), lambda: Tensor([Q, Q]), lambda: X.sum().backward(UNIT),
        lambda: setattr(X, "grad", Q), lambda: setattr(X, "data", Q), lambda: ad.grad(np.sum)(Q),
        lambda: F.exp(Q), lambda: F.sum(Q), lambda: F.add(X, Q), lambda: F.where(True, X, Q),
        lambda: F.concatenate([X, Q]), lambda: F.stack([X, Q]), lambda: F.einsum("i,i", X, Q), lambda: F.dot(X, Q),
        lambda: F.interp(Q, X, X), lambda: F.set_at(X, 0, UNIT), lambda: X.clip(UNIT, UNIT),
        lambda: X.sum(initial=UNIT),
    ],
)  # fmt: skip
def test_no_unit_is_dropped(call):
    with pytest.raises(TypeError, match="Quantity"):
        call()


@pytest.mark.parametrize("ufunc", [np.float_power, np.vecdot, np.copysign, np.logaddexp2, np.divmod])
def test_composed_ufuncs_leave_the_result_to_it_too(ufunc):
    for x in (X, Tensor([1.0, 2.0])):
        assert ufunc(x, Q) == (ufunc.__name__, [Tensor, Quantity])
        assert ufunc(Q, x) == (ufunc.__name__, [Quantity, Tensor])


@pytest.mark.parametrize("compare", [operator.eq, operator.ne])
def test_what_does_not_compare_itself_is_no_other_object(compare):
    silent = type("Silent", (), {"__array_ufunc__": None})()
    for pair in ((X, silent), (silent, X)):
        with pytest.raises(TypeError, match="not compared with what is of type Silent"):
            compare(*pair)


def test_labels_are_dropped_where_numpys_functions_drop_them():
    series = made(__array_ufunc__=decide, __array_priority__=1000)()
    assert F.exp(series).tolist() == np.exp([1.0, 1.0]).tolist()
    assert Tensor(series).tolist() == [1.0, 1.0]
    assert F.concatenate([X, series]).tolist() == [1.0, 2.0, 1.0, 1.0]
