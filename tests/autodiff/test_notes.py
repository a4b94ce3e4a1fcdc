"""What an error says beside its message: once, and by the op's name."""

from __future__ import annotations

import numpy as np
import pytest

import autodiff as ad
from autodiff import Tensor
from autodiff.op import Op


def leaf(data):
    return Tensor(np.asarray(data, np.float64), requires_grad=True)


def itself():
    op = Op(lambda x: op(x))
    op(leaf([1.0, 2.0]))


def by_another():
    first, second = Op(lambda x: second(np.tanh(x))), Op(lambda x: first(x))
    first(leaf([1.0, 2.0]))


def with_other_shapes():
    op = Op(lambda x: op(np.append(x, x[:1])))
    op(leaf([1.0, 2.0]))


def in_a_rule():
    op, x = Op(lambda x: 2.0 * x), leaf([1.0, 2.0])
    op.vjp("x")(lambda g: ad.gradients(op(x), x, g).data)
    op(x).backward([1.0, 1.0])


def recomputed():
    runs = []

    @ad.recompute
    def f(x):
        runs.append(1)
        return x * x if len(runs) == 1 else ad.gradients(f(x).sum(), x)

    f(leaf([1.0, 2.0])).sum().backward()


@pytest.mark.parametrize("without_end", [itself, by_another, with_other_shapes, in_a_rule, recomputed])
def test_recursion_without_end_is_noted_once(without_end):
    with pytest.raises(RecursionError) as caught:
        without_end()
    notes = getattr(caught.value, "__notes__", [])
    assert len(notes) <= 2
    assert len({note.split(" (")[0] for note in notes}) == len(notes)


def test_ops_within_each_other_are_all_named():
    inner = Op(lambda y: 1 / 0)
    outer = Op(lambda x: inner(x[:1]))
    inner.name, outer.name = "inner", "outer"
    with pytest.raises(ZeroDivisionError) as caught:
        outer(leaf([1.0, 2.0]))
    assert caught.value.__notes__ == [
        "in the op 'inner', on arguments of shapes (1,)", "in the op 'outer', on arguments of shapes (2,)",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "join",
    [
        np.concatenate,
        lambda parts: np.stack(parts),
        lambda parts: np.einsum(",".join(["i"] * 400), *parts),
        lambda parts: Op(lambda *parts: np.add(*parts[1:3]))(*parts),
    ],
    ids=["concatenate", "stack", "einsum", "an op of a user"],
)
def test_of_many_arguments_the_first_shapes_and_the_count_are_noted(join):
    with pytest.raises(ValueError, match=r".") as caught:
        join([leaf(np.ones((2, i + 1)) if join is np.concatenate else np.ones(i + 1)) for i in range(400)])
    notes = getattr(caught.value, "__notes__", [])
    assert sum(map(len, notes)) < 300
    assert all(note.endswith(", and 392 more") for note in notes)


class NoNotes(Exception):
    def add_note(self, note):
        raise OSError("full")


def test_an_exception_that_refuses_notes_is_raised_as_it_is():
    def fail(x):
        raise NoNotes("as it is")

    op = Op(lambda x: x * 1.0)
    op.vjp("x")(lambda g: fail(g))
    recomputed = ad.recompute(lambda x, runs=[]: runs.append(1) or (x * 1.0 if len(runs) == 1 else fail(x)))
    for call in (
        lambda x: Op(fail)(x),
        lambda x: op(x).backward([1.0, 1.0]),
        lambda x: recomputed(x).backward([1.0, 1.0]),
    ):
        with pytest.raises(NoNotes, match="as it is"):
            call(leaf([1.0, 2.0]))


@pytest.mark.parametrize(
    "forward",
    [
        lambda x, y: x @ y,
        lambda x, y: np.sum(x * y),
        lambda x, y: x * y[:1, None],
        lambda x, y: (x * y)[:1],
        lambda x, y: np.append(x, y),
        lambda x, y: (x * y, np.sum(x)),
        lambda x, y: np.concatenate([x, y[:1]]),
    ],
)
def test_an_op_that_is_not_elementwise_as_declared_is_refused_at_its_first_call(forward):
    op = Op(forward, elementwise=True)
    op.vjp("x", "y")(lambda g, x, y: (g * y, g * x))
    for _ in range(2):
        with pytest.raises(ValueError, match=r"op '<lambda>' is declared elementwise.*not the broadcast shape"):
            op(leaf([1.0, 2.0]), leaf([3.0, 4.0]))


def test_elementwise_ops_broadcast():
    op = Op(lambda x, y: x * y, elementwise=True)
    op.vjp("x")(lambda g, y: g * y)
    op.vjp("y")(lambda g, x: g * x)
    for shapes in (((), ()), ((2,), ()), ((2, 1), (3,)), ((0, 1), (4,))):
        x, y = (leaf(np.ones(shape)) for shape in shapes)
        op(x, y).sum().backward()
        assert (x.grad.shape, y.grad.shape) == shapes
