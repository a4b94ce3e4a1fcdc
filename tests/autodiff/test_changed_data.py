"""Data that were written to after a rule had saved them are noticed, however they are reached."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import autodiff as ad
from autodiff import Tensor
from autodiff.node import clock


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
