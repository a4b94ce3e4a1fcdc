"""Complex numbers: no op takes any, so that no imaginary part is dropped on the way."""

import numpy as np
import pytest

import autodiff.functional as F
from autodiff import Tensor
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
