"""Arrays that the library hands out and writes to itself: data and gradients, as plain operands of what is recorded."""

from __future__ import annotations

import array
import threading

import numpy as np
import pytest

import autodiff as ad
from autodiff import Tensor, changes, nn, optim
from autodiff.op import Op


def leaf(data):
    return Tensor(np.asarray(data, np.float64), requires_grad=True)


# --- gradients ---


def again(x):
    (x * x).sum().backward()


def thrice(x):
    for _ in range(3):
        again(x)


def set_to_none(x):
    x.grad = None
    again(x)


def assign_gradient(x):
    x.grad = [7.0, 7.0]


@pytest.mark.parametrize("change", [again, thrice, set_to_none, assign_gradient])
@pytest.mark.parametrize("part", [lambda g: g, lambda g: g[:1], lambda g: g.reshape(1, 2).T[:, 0]])
def test_a_gradient_that_was_saved_is_not_written_to(part, change):
    x, w = leaf([1.0, 2.0]), leaf([1.0])
    (x * x).sum().backward()
    saved = part(x.grad)
    expected = saved.sum()
    y = (w * saved).sum()
    change(x)
    y.backward()
    np.testing.assert_array_equal(w.grad, [expected])


def test_a_retained_gradient_that_was_saved_is_not_written_to():
    x, w = leaf([1.0, 2.0]), leaf([1.0, 1.0])
    z = x * x
    z.retain_grad()
    (z * 3.0).sum().backward(retain_graph=True)
    y = (w * z.grad).sum()
    (z * 4.0).sum().backward(retain_graph=True)
    y.backward()
    np.testing.assert_array_equal(w.grad, [3.0, 3.0])
    np.testing.assert_array_equal(z.grad, [7.0, 7.0])


def test_a_saved_gradient_that_is_clipped_is_noticed():
    x, w = leaf([3.0, 4.0]), leaf([1.0, 1.0])
    (x * x).sum().backward()
    y = (w * x.grad).sum()
    optim.clip_grad_norm([x], 1.0)
    with pytest.raises(RuntimeError, match=r"argument '.*' of 'multiply'.*changed after"):
        y.backward()


def triple(x):
    x.grad *= 3.0


def average(x):
    x.grad /= 4.0


def write_whole(x):
    gradient = x.grad
    gradient[...] = 7.0
    x.grad = gradient


@pytest.mark.parametrize("change", [triple, average, write_whole])
@pytest.mark.parametrize("part", [lambda g: g, lambda g: g[1:], lambda g: g.reshape(1, 2).T[:, 0]])
def test_a_saved_gradient_that_is_written_to_and_assigned_again_is_noticed(part, change):
    x, w = leaf([1.0, 2.0]), leaf([1.0])
    (x * x).sum().backward()
    y = (w * part(x.grad)).sum()
    change(x)
    with pytest.raises(RuntimeError, match=r"argument '.*' of 'multiply'.*changed after"):
        y.backward()


def test_a_gradient_may_be_scaled_in_place():
    x = leaf([1.0, 2.0])
    again(x)
    x.grad *= 3.0
    np.testing.assert_array_equal(x.grad, [6.0, 12.0])
    again(x)
    np.testing.assert_array_equal(x.grad, [8.0, 16.0])


class SlowInThreads:
    """NumPy, of which one function waits in other threads than the main one."""

    def __init__(self):
        self.waiting, self.go_on = threading.Event(), threading.Event()

    def __getattr__(self, name):
        return getattr(np, name)

    def array(self, *args, **settings):
        if threading.current_thread() is not threading.main_thread():
            self.waiting.set()
            self.go_on.wait(0.05)  # with a sum in hand while the main thread adds; or that waits for this one
        return np.array(*args, **settings)


@pytest.mark.parametrize("before", [None, 5.0])
@pytest.mark.parametrize("retained", [False, True])
def test_no_contribution_of_a_thread_is_lost(retained, before, monkeypatch):
    x = leaf(1.0)
    if retained:
        x = x * 1.0
        x.retain_grad()
    x.grad = before
    slow = SlowInThreads()
    monkeypatch.setattr("autodiff.tensor.np", slow)
    thread = threading.Thread(target=lambda: (x * 2.0).backward(retain_graph=True))
    thread.start()
    slow.waiting.wait(0.5)
    (x * 3.0).backward(retain_graph=True)
    slow.go_on.set()
    thread.join()
    assert x.grad == 5.0 + (before or 0.0)


# --- data ---


def assign(x):
    x.data = [9.0, 9.0]


def decrement(x):
    x.data -= 1.0


def step(x):
    x.grad = [1.0, 1.0]
    optim.SGD([x], lr=1.0).step()


def load(x):
    holder = nn.Module()
    holder.x = x
    holder.load_state_dict({"x": np.array([9.0, 9.0])})


@pytest.mark.parametrize("change", [assign, decrement, step, load])
@pytest.mark.parametrize("part", [lambda a: a, lambda a: a[:1], lambda a: a[::-1], lambda a: a[None].T])
@pytest.mark.parametrize("learns", [True, False])
def test_data_that_were_saved_as_a_plain_array_and_changed_are_noticed(learns, part, change):
    if change is step and not learns:
        return
    x, w = Tensor([1.0, 2.0], requires_grad=learns), leaf([1.0])
    y = (w * part(x.data)).sum()
    change(x)
    with pytest.raises(RuntimeError, match=r"argument '.*' of 'multiply'.*changed after"):
        y.backward()


@pytest.mark.parametrize("size", [2, 5000, 70_000], ids=["small", "of its own", "of several blocks"])
@pytest.mark.parametrize("optimizer", [lambda p: optim.SGD(p, lr=0.5, momentum=0.9), lambda p: optim.AdamW(p, lr=0.5)])
def test_a_step_that_fails_on_its_way_is_noticed_and_counted_where_it_came(optimizer, size):
    x, bad, rest, w = leaf(np.ones(size)), leaf(np.ones(5000)), leaf(np.ones(5000)), leaf(np.ones(size))
    step = optimizer([x, bad, rest])
    before, beyond = (w * x).sum(), (w[0] * rest).sum()
    x.grad, bad.grad, rest.grad = np.ones(size), np.full(5000, 1.7e308), np.ones(5000)
    bad.data = np.full(5000, -1.7e308)
    with np.errstate(all="raise"), pytest.raises(FloatingPointError):
        step.step()
    assert x.data[0] < 1.0
    assert rest.data[0] == 1.0
    assert [step.state_dict()["state"][i]["step"] for i in range(2)] == [1, 1]
    assert 2 not in step.state_dict()["state"]
    beyond.backward()
    with pytest.raises(RuntimeError, match="changed after"):
        before.backward()


def test_clipping_that_fails_on_its_way_is_noticed():
    x, bad, w = leaf([1.0, 2.0]), leaf([1.0]), leaf([1.0, 1.0])
    x.grad, bad.grad = [3e5, 4e5], [1e-307]
    y = (w * x.grad).sum()
    with np.errstate(under="raise"), pytest.raises(FloatingPointError):
        optim.clip_grad_norm([x, bad], 1.0)
    assert x.grad[0] < 1.0
    with pytest.raises(RuntimeError, match="changed after"):
        y.backward()


def test_item_assignment_into_a_constant_whose_data_were_saved_is_noticed():
    c, w = Tensor([1.0, 2.0]), leaf([1.0, 1.0])
    y = (w * c.data).sum()
    c[0] = 9.0
    with pytest.raises(RuntimeError, match="changed after"):
        y.backward()


def test_data_of_a_tensor_that_is_gone_are_noticed():
    x, w = leaf([1.0, 2.0]), leaf([1.0, 1.0])
    y = (w * x.data).sum()
    x.data = [9.0, 9.0]
    del x
    with pytest.raises(RuntimeError, match="changed after"):
        y.backward()


@pytest.mark.parametrize(
    "view", [lambda c: c[:], lambda c: c[::-1][:1], lambda c: c.reshape(1, 2).T, lambda c: c.detach()[:]]
)
@pytest.mark.parametrize("learns", [True, False])
def test_a_change_is_noticed_through_views_of_another_tensor_of_the_same_memory(learns, view):
    x, w = leaf([1.0, 2.0]), leaf([1.0])
    c = ad.as_tensor(x.data)
    c.requires_grad = learns
    y = (w * view(c)).sum()
    x.data = [9.0, 9.0]
    with pytest.raises(RuntimeError, match=r"argument '.*' of 'multiply'.*changed after"):
        y.backward()


@pytest.mark.parametrize("view", [lambda a: a, lambda a: a[1:], lambda a: a.reshape(1, 2)])
def test_a_change_is_noticed_through_an_op_that_returns_a_view_of_a_plain_operand(view):
    op = Op(lambda x, a: view(a))
    op.zero("x").nondiff("a")
    x, w = leaf([1.0, 2.0]), leaf([1.0])
    y = (w * op(leaf([0.0, 0.0]), x.data)).sum()
    x.data = [9.0, 9.0]
    with pytest.raises(RuntimeError, match=r"argument '.*' of 'multiply'.*changed after"):
        y.backward()


@pytest.mark.parametrize("part", [np.s_[1:], np.s_[::2], np.s_[1:2]])
@pytest.mark.parametrize(
    "memory",
    [
        lambda: np.arange(4.0),
        lambda: np.arange(8.0).reshape(4, 2).T[0],
        lambda: np.frombuffer(array.array("d", range(4))),
        lambda: np.asarray(memoryview(np.arange(4.0))),
    ],
    ids=["an array", "a view", "a buffer", "a view of memory"],
)
def test_a_change_is_noticed_as_long_as_the_memory_lives(memory, part):
    buffer, w = memory(), leaf([1.0])
    x = ad.as_tensor(buffer[part])
    y, beside = (w * buffer[part]).sum(), (w * x.numpy()).sum()
    x.data = np.full(x.shape, 9.0)
    del x
    beside.backward()
    with pytest.raises(RuntimeError, match="changed after"):
        y.backward()


def test_writes_to_many_parts_of_memory_are_noticed_and_forgotten_with_it(monkeypatch):
    monkeypatch.setattr(changes, "_PARTS", 64)
    known, buffer, w = set(changes._writes), np.zeros(400), leaf([1.0])
    y, beside = (w * buffer[398:]).sum(), (w * buffer[:2]).sum()
    for i in range(2, 400):
        ad.as_tensor(buffer[i : i + 1]).data = [9.0]
    (note,) = [changes._writes[key] for key in set(changes._writes) - known]
    assert len(note[2]) < 100
    beside.backward()
    with pytest.raises(RuntimeError, match="changed after"):
        y.backward()
    del buffer, y, beside
    assert set(changes._writes) <= known


@pytest.mark.parametrize("step", [1, 2])
def test_many_parts_of_memory_are_told_apart(step):
    flat = np.zeros(800)
    parts = [ad.as_tensor(flat[i : i + 8 * step : step]) for i in range(0, 800, 8 * step)]
    for part in parts:
        part.requires_grad = True
    one, other = parts[::2], parts[1::2]
    loss, spoiled = sum((part * part).sum() for part in one), (other[0] * other[1] * other[1]).sum()
    for _ in range(2):
        sum(part.sum() for part in other).backward()
        optim.SGD(other, lr=0.1).step()
    loss.backward()
    with pytest.raises(RuntimeError, match="changed after"):
        spoiled.backward()


def test_tensors_that_share_memory_notice_each_others_changes():
    array = np.array([1.0, 2.0])
    x, c, w = ad.as_tensor(array), ad.as_tensor(array), leaf([1.0, 1.0])
    for operand in (c, array):
        y = (w * operand).sum()
        x.data = [9.0, 9.0]
        with pytest.raises(RuntimeError, match="changed after"):
            y.backward()


@pytest.mark.parametrize("by_name", [False, True])
def test_a_saved_view_of_an_argument_that_changed_is_noticed(by_name):
    def doubled(x):
        return ad.save(2.0 * x, part=x[..., :]) if by_name else x[..., :]

    op = Op(doubled)
    op.vjp("x")((lambda g, part: g * part) if by_name else (lambda g, out: g * out))
    x = leaf([1.0, 2.0])
    y = op(x)
    x.data = x.data * 10.0
    with pytest.raises(RuntimeError, match=f"saved value '{'part' if by_name else 'out'}' of 'doubled'.*changed after"):
        y.backward([1.0, 1.0])


def test_changes_beside_what_was_saved_or_before_or_of_copies_are_fine():
    buffer = np.arange(8.0).reshape(4, 2)
    x, w = ad.as_tensor(buffer[:, 0]), leaf(np.ones(4))
    x.data = [5.0, 6.0, 7.0, 8.0]
    y = (w * buffer[:, 1]).sum() + (w * x.numpy()).sum() + (w + x.data).sum()
    x.data = [0.0, 0.0, 0.0, 0.0]
    y.backward()
    np.testing.assert_array_equal(w.grad, [7.0, 10.0, 13.0, 16.0])
