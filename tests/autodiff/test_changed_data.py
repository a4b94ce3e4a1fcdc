"""Data that were written to after a rule had saved them are noticed, however they are reached."""

from __future__ import annotations

import copy
import threading
import weakref
from collections import deque
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest

import autodiff as ad
from autodiff import Tensor
from autodiff.node import clock
from autodiff.op import Op
from autodiff.testing import VJPError, check_vjp


def leaf(data, dtype=np.float64):
    return Tensor(np.asarray(data, dtype), requires_grad=True)


def assign(x):
    x.data = x.data + 2.0


def decrement(x):
    x.data -= 1.0


def set_item(x):
    x.data = np.where(np.arange(x.size) == 0, 9.0, x.data)


@pytest.mark.parametrize("change", [assign, decrement, set_item])
@pytest.mark.parametrize(
    "f",
    [
        lambda x: x * x,
        lambda x: x[0:] * x[0:],
        lambda x: x.reshape(1, 1)[0] * 2.0 * x,
        lambda x: np.log(x),
        lambda x: x.T.detach() * x,
    ],
    ids=["itself", "a view", "a view of a view", "unary", "a detached view"],
)
def test_changed_data_are_noticed(f, change):
    x = leaf([3.0])
    y = f(x)
    change(x)
    with pytest.raises(RuntimeError, match=r"changed after they had been saved"):
        y.backward(np.ones(y.shape))
    assert x.grad is None


def test_changed_constants_are_noticed():
    x, c = leaf([3.0]), Tensor([2.0])
    y = x * c
    c.data = [5.0]
    with pytest.raises(RuntimeError, match=r"of 'multiply'.*changed after"):
        y.backward()


def test_changed_data_behind_an_unrecorded_view_are_noticed():
    x, w = leaf([3.0, 4.0]), leaf([1.0])
    with ad.no_grad():
        view = x[1:]
    y = view * w
    x.data -= 1.0
    with pytest.raises(RuntimeError, match="changed after"):
        y.backward()


def test_changes_that_no_rule_can_see_are_fine():
    x = leaf([3.0])
    y = x + 1.0
    x.data -= 1.0
    y.backward()
    assert x.grad == 1.0


def test_a_step_between_two_graphs_is_fine():
    x = leaf([3.0])
    for expected in (6.0, 4.0):
        x.grad = None
        (x * x).backward()
        assert x.grad == expected
        x.data -= 1.0


def test_a_changed_constant_is_noticed_through_its_views():
    x, c = leaf([1.0, 2.0]), Tensor([3.0, 4.0])
    for view in (c[:], c.detach(), c.reshape(1, 2)[0]):
        y = x * view
        c.data += 1.0
        with pytest.raises(RuntimeError, match="changed after"):
            y.backward(np.ones(2))


def test_switching_requires_grad_hides_no_change():
    x, w = Tensor([3.0]), leaf([1.0])
    y = x * w
    x.requires_grad = True
    x.data = [4.0]
    with pytest.raises(RuntimeError, match="changed after"):
        y.backward()


def test_an_index_is_kept_as_it_was():
    x, i = leaf([1.0, 2.0, 3.0]), Tensor([0, 0])
    y = x[i].sum()
    i.data = [2, 2]
    y.backward()
    np.testing.assert_array_equal(x.grad, [2.0, 0.0, 0.0])


def test_writes_of_two_threads_leave_the_later_time(monkeypatch):
    mine, other = leaf([1.0]), leaf([2.0])
    number, waiting, go_on = clock, threading.Event(), threading.Event()

    def slow():
        now = number()
        if threading.current_thread() is not threading.main_thread():
            waiting.set()
            go_on.wait(0.2)  # holding an early time while this thread writes; or this one waits until it is done
        return now

    monkeypatch.setattr("autodiff.changes.clock", slow)
    thread = threading.Thread(target=lambda: setattr(other, "data", [3.0]))
    thread.start()
    waiting.wait()
    y = mine * mine
    mine.data = [5.0]
    go_on.set()
    thread.join()
    with pytest.raises(RuntimeError, match="changed after"):
        y.backward()


class Slotted:
    __slots__ = ("a",)

    def __init__(self, a):
        self.a = a


@dataclass(frozen=True)
class Frozen:
    a: object


SAVED = {
    "a closure": (lambda x: lambda: x, lambda p: p()),
    "a default": (lambda x: lambda a=x: a, lambda p: p()),
    "a partial function": (lambda x: partial(np.add, x), lambda p: p(0)),
    "a method": (lambda x: Slotted(x).__getattribute__, lambda p: p("a")),
    "a method of the array": (lambda x: x.copy, lambda p: p()),
    "an object": (lambda x: SimpleNamespace(a=x[:]), lambda p: p.a),
    "an object with slots": (Slotted, lambda p: p.a),
    "a frozen dataclass": (Frozen, lambda p: p.a),
    "a double-ended queue": (lambda x: deque([x]), lambda p: p[0]),
    "a memoryview": (memoryview, np.asarray),
    "an array of objects": (lambda x: np.array([x, None], object), lambda p: p[0]),
    "its flat iterator": (lambda x: x.flat, np.array),
    "a masked array": (np.ma.masked_array, np.asarray),
    "an object in a list": (lambda x: [{"p": Slotted(x)}], lambda p: p[0]["p"].a),
}


def saving(hold, take, **declared):
    op = Op(lambda x: ad.save(np.sum(x**3), p=hold(x)), **declared)
    op.vjp("x")(lambda g, p: 3 * g * take(p) ** 2)
    return op


@pytest.mark.parametrize("name", SAVED)
def test_changed_data_are_noticed_in_whatever_holds_them(name):
    x = leaf([1.0, 2.0, 3.0])
    y = saving(*SAVED[name])(x)
    x.data *= 10
    with pytest.raises(RuntimeError, match=r"saved value 'p'.*changed after"):
        y.backward()
    y = saving(*SAVED[name])(x)
    y.backward()
    np.testing.assert_allclose(x.grad, 3 * x.data**2)


@pytest.mark.parametrize("name", SAVED)
def test_the_checker_lets_them_pass(name):
    check_vjp(saving(*SAVED[name]), np.array([0.3, -1.2]))


@pytest.mark.parametrize(
    ("hold", "take"),
    [
        (lambda x: iter([x]), lambda p: next(copy.copy(p))),
        (lambda x: {"x": x}.values(), lambda p: next(iter(p))),
        (lambda x: [{"x": x}.items()], lambda p: next(iter(p[0]))[1]),
        (np.nditer, lambda p: p.operands[0]),
        (weakref.ref, lambda p: p()),
    ],
)
def test_the_checker_refuses_what_the_engine_cannot_look_into(hold, take):
    with pytest.raises(VJPError, match="the saved value 'p' holds the memory of this argument") as info:
        check_vjp(saving(hold, take), np.array([0.3, -1.2]))
    assert (info.value.kind, info.value.arg) == ("alias", "x")
