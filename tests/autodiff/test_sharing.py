"""Results that share memory with an argument are views of it: read-only, and known to be so."""

from __future__ import annotations

import numpy as np
import pytest

import autodiff as ad
from autodiff.op import Op


@pytest.mark.parametrize(
    "view",
    [
        lambda a: a.reshape(3, 2),
        lambda a: a[::-1, 1:],
        lambda a: np.lib.stride_tricks.sliding_window_view(a, 2, axis=1),
        lambda a: np.frombuffer(memoryview(a), a.dtype),
        lambda a: np.asarray(memoryview(a)),
    ],
)
@pytest.mark.parametrize("owner", [lambda a: a, lambda a: np.concatenate([a, a])[:2], lambda a: a[None].T[..., 0].T])
def test_whatever_shares_an_arguments_memory_is_a_read_only_view_of_it(view, owner):
    x = ad.as_tensor(owner(np.arange(6.0).reshape(2, 3)))
    x.requires_grad = True
    look = Op(lambda a: view(a), linear=True)
    look.vjp("a")(lambda g, a: a)
    y = look(x)
    assert y.node.root is x.node
    assert not y.data.flags.writeable


def test_a_result_beside_its_argument_in_one_buffer_is_not_a_view():
    buffer = np.zeros((2, 3))
    x = ad.as_tensor(buffer[0])
    x.requires_grad = True

    def beside(a):
        buffer[1] = a
        return buffer[1]

    y = Op(beside).zero("a")(x)
    assert y.node.root is None
    assert y.data.flags.writeable
