"""Masked arrays and matrices are refused wherever an array comes in: as one, they would lose their mask or product."""

import numpy as np
import pytest

import autodiff as ad
import autodiff.functional as F
from autodiff import Tensor, nn, op, testing

MASKED = np.ma.masked_array([1.0, 2.0], mask=[False, True])


def matrix():
    with pytest.warns(PendingDeprecationWarning):
        return np.matrix([[1.0, 2.0]])


def leaf(like):
    return Tensor(np.ones(np.shape(like)), requires_grad=True)


def ruled(answer):
    made = op(lambda x: 2 * x, override=True)
    made.vjp("x")(lambda g: answer)
    return made(leaf(answer)).backward(np.ones(answer.shape))


def computed(answer, requires_grad):
    made = op(lambda x: answer, override=True)
    made.zero("x")
    return made(Tensor(np.ones(2), requires_grad=requires_grad))


CALLS = {
    "Tensor": Tensor,
    "in a list": lambda m: Tensor([[1.0, 2.0], m]),
    "as_tensor": ad.as_tensor,
    "data": lambda m: setattr(leaf(m), "data", m),
    "grad": lambda m: setattr(leaf(m), "grad", m),
    "elements": lambda m: Tensor(np.ones(m.shape)).__setitem__(..., m),
    "state": lambda m: nn.Linear(2, 1).load_state_dict({"weight": m, "bias": np.ones(1)}),
    "grad of": lambda m: ad.grad(np.sum)(m),
    "grad of a tree": lambda m: ad.grad(lambda tree: np.sum(tree["w"]))({"w": m}),
    "vjp of": lambda m: ad.vjp(np.sin, m),
    "jacobian of": lambda m: ad.jacobian(np.sin)(m),
    "function's result": lambda m: ad.vjp(lambda x: m, np.ones(2)),
    "vjp's cotangent": lambda m: ad.vjp(np.sin, np.ones(m.shape))[1](m),
    "tangent": lambda m: ad.jvp(np.sin, (np.ones(m.shape),), (m,)),
    "backward": lambda m: (2 * leaf(m)).backward(m),
    "gradients": lambda m: ad.gradients(2 * (x := leaf(m)), x, m),
    "operand": lambda m: leaf(m) * m,
    "set_at": lambda m: F.set_at(leaf(np.ones((3, *m.shape))), ..., m),
    "safe_where": lambda m: F.safe_where(m > 1, np.sqrt, leaf(m), 0.0),
    "index": lambda m: leaf(m)[m > 1],
    "where=": lambda m: np.sum(leaf(m), where=m > 1),
    "append": lambda m: np.append(leaf(m), m),
    "select": lambda m: np.select([m > 1], [leaf(m)]),
    "choose": lambda m: np.choose(0 * m.astype(int), [leaf(m), leaf(m)]),
    "plain operand": F.sigmoid,
    "rule's result": ruled,
    "forward's result": lambda m: computed(m, True),
    "unrecorded result": lambda m: computed(m, False),
    "check_vjp": lambda m: testing.check_vjp("sin", m),
    "check_grads": lambda m: testing.check_grads(np.sum, m),
    "numerical_vjp": lambda m: testing.numerical_vjp(np.sin, [m], np.ones(m.shape)),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_arrays_that_would_lose_something_are_refused(call):
    with pytest.raises(TypeError, match=r"without a mask: pass m\.filled"):
        call(MASKED)
    with pytest.raises(TypeError, match=r"a matrix multiplies by rules of its own: pass np\.asarray"):
        call(matrix())
