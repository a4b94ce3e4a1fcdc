"""Complex numbers: no op takes any, so that no imaginary part is dropped on the way."""

import numpy as np
import pytest

import autodiff.functional as F
from autodiff import Tensor, optim
from autodiff.node import OPS
from autodiff.testing import samples

OURS = [op for op in OPS.values() if op.__module__.startswith("autodiff.")]
Z = np.array([0.25 + 1j, 0.5])


@pytest.mark.parametrize("op", OURS, ids=lambda op: op.name)
def test_no_op_takes_complex_arrays(op):
    sample = samples(op)[0]
    *arrays, settings = sample if isinstance(sample[-1], dict) else (*sample, {})
    places = [i for i, array in enumerate(arrays) if np.asarray(array).dtype.kind == "f"]
    for i in places:
        args = [array + 0.5j if j == i else array for j, array in enumerate(arrays)]
        recorded = [Tensor(a, requires_grad=True) if j in places and j != i else a for j, a in enumerate(args)]
        for call in (args, recorded):
            with pytest.raises(TypeError, match=rf"{op.name}\(\) works on real numbers; got a .*complex128"):
                op(*call, **settings)
    assert places


@pytest.mark.parametrize(
    "call",
    [
        lambda x: F.median(Z), lambda x: F.quantile(Z, 0.5), lambda x: F.vector_norm(Z, ord=2), lambda x: F.gradient(Z),
        lambda x: F.nanstd(Z), lambda x: np.interp(x, x.data, Z), lambda x: np.ediff1d(x, Z), lambda x: np.append(x, Z),
        lambda x: np.gradient(Z, x), lambda x: x * Z, lambda x: Z - x, lambda x: np.where(x > 0, x, Z),
        lambda x: F.swiglu(x, Z), lambda x: F.layer_norm(x, Z, Z), lambda x: F.softmax(Z.astype(np.complex64)),
    ],
)  # fmt: skip
def test_compositions_and_operands_neither(call):
    with pytest.raises(TypeError, match=r"works on real numbers; got a .*complex"):
        call(Tensor([0.5, 0.75], requires_grad=True))


def assigned(name, value):
    t = Tensor([1.0, 2.0], requires_grad=True)
    setattr(t, name, value)


@pytest.mark.parametrize("value", [Z, Z.astype(np.complex64), [1j, 2.0], (1.0, np.complex64(2)), [np.array(1j), 2.0]])
def test_no_values_or_gradients_are_made_of_them(value):
    for call in (lambda: assigned("data", value), lambda: assigned("grad", value)):
        with pytest.raises(TypeError, match=r"t\.(data|grad) = \.\.\. works on real numbers; got a .*complex"):
            call()
    t = Tensor([1.0, 2.0])
    with pytest.raises(TypeError, match=r"t\[index\] = \.\.\. works on real numbers"):
        t[:] = value
    assert t.tolist() == [1.0, 2.0]


EYE = np.eye(2)


@pytest.mark.parametrize("kind", [complex, np.complex128, np.complex64, np.array])
@pytest.mark.parametrize(
    "call",
    [
        lambda x, z: F.layer_norm(x, eps=z), lambda x, z: F.rms_norm(x, eps=z), lambda x, z: np.linalg.norm(x, z),
        lambda x, z: F.scaled_dot_product_attention(EYE, EYE, EYE, scale=z), lambda x, z: F.norm(x, z),
        lambda x, z: np.std(x, ddof=z), lambda x, z: np.nanstd(x, ddof=z), lambda x, z: F.rope(EYE * x, offset=z),
        lambda x, z: F.rope(EYE * x, theta=z), lambda x, z: np.interp(x, x.data, x, period=z),
        lambda x, z: F.interp(x, x, x, period=z), lambda x, z: np.pad(x, 1, constant_values=z),
        lambda x, z: np.pad(x, 1, constant_values=(0, z)), lambda x, z: np.roll(x, z), lambda x, z: F.roll(x, (z,), 0),
        lambda x, z: F.dropout(x, p=z, rng=0), lambda x, z: np.quantile(x, z),
    ],
)  # fmt: skip
def test_no_setting_is_one(call, kind):
    with pytest.raises(TypeError, match=r"works on real numbers; got a .*complex"):
        call(Tensor([0.5, 0.75], requires_grad=True), kind(1 + 1j))


def test_no_saved_moment_holds_them():
    w = Tensor([1.0, 2.0], requires_grad=True)
    optimizer = optim.AdamW([w])
    w.grad = [1.0, 1.0]
    optimizer.step()
    state = optimizer.state_dict()
    state["state"][0]["exp_avg"] = state["state"][0]["exp_avg"] + 1j
    with pytest.raises(ValueError, match="exp_avg has dtype complex128"):
        optimizer.load_state_dict(state)
