"""out= that is a tensor: no function of NumPy writes there."""

import copy
import inspect

import numpy as np
import pytest

from autodiff import Tensor
from autodiff.protocols import full_name, signature_of

MODULES = (np, np.linalg, np.fft)
KNOWN = {f for module in MODULES for f in vars(module).values() if callable(f) and hasattr(f, "_implementation")}
TOLD = {f: signature.parameters for f in KNOWN if (signature := signature_of(f)) is not None}
FUNCTIONS = sorted((f for f, parameters in TOLD.items() if "out" in parameters), key=full_name)
UFUNCS = sorted({f for f in vars(np).values() if isinstance(f, np.ufunc)}, key=full_name)

MATRIX, ROWS = np.array([[0.5, 0.25], [0.125, 1.0]]), [np.array([0.5, 0.25]), np.array([0.125, 1.0])]
CALLS = (
    [MATRIX], [MATRIX, 0], [MATRIX, 50, 0], [MATRIX, 0.5, 0], [MATRIX, MATRIX], [MATRIX, 0.0, 1.0], [ROWS], [ROWS, 0],
    [[True, False], MATRIX, 0], [np.array([0, 1]), ROWS], ["ij->j", MATRIX], [MATRIX, [0, 1], 0], [MATRIX[0]],
)  # fmt: skip


def targets():
    """Tensors of the dtypes and shapes that a result may have."""
    yield Tensor([7.0, 7.0], requires_grad=True)
    yield Tensor([7, 7])
    yield Tensor([[7.0, 7.0], [7.0, 7.0]], requires_grad=True)


def refuses(call, target):
    with pytest.raises(TypeError):
        call()
    assert (target.data == 7).all()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("function", FUNCTIONS, ids=full_name)
def test_no_function_writes_into_a_tensor(function):
    parameters = TOLD[function]
    place, tried = list(parameters).index("out"), 0
    for args in copy.deepcopy(CALLS):
        first = Tensor(args[0]) if isinstance(args[0], np.ndarray) else args[0]
        try:
            function(*args)
        except (TypeError, ValueError, IndexError):  # no call of this function
            continue
        for target in targets():
            refuses(lambda: function(*args, out=target), target)  # noqa: B023  # it is called at once
            if first is not args[0]:
                refuses(lambda: function(first, *args[1:], out=(target,)), target)  # noqa: B023
            between = [p.default for p in parameters.values()][len(args) : place]
            if parameters["out"].kind is inspect.Parameter.POSITIONAL_OR_KEYWORD:
                refuses(lambda: function(*args, *between, target), target)  # noqa: B023
        tried += 1
    assert tried or "day" in function.__name__  # those of dates


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("ufunc", UFUNCS, ids=full_name)
def test_no_ufunc_writes_into_a_tensor(ufunc):
    for target in targets():
        same = [MATRIX.astype(target.dtype)] * ufunc.nin
        for out in (target, (target,) * ufunc.nout):
            refuses(lambda: ufunc(*same, out=out), target)  # noqa: B023
        refuses(lambda: ufunc(*same, *(target,) * ufunc.nout), target)  # noqa: B023
        if ufunc.nout == 1:
            refuses(lambda: ufunc.at(target, ([0],) * target.ndim, *same[1:]), target)  # noqa: B023
        if (ufunc.nin, ufunc.nout, ufunc.signature) == (2, 1, None):
            for method, *more in (("reduce",), ("accumulate",), ("reduceat", [0, 1]), ("outer", same[0])):
                refuses(lambda: getattr(ufunc, method)(same[0], *more, out=target), target)  # noqa: B023
                refuses(lambda: getattr(ufunc, method)(Tensor(same[0]), *more, out=[target]), target)  # noqa: B023


@pytest.mark.parametrize("method", ["any", "all", "argmax", "argmin"])
def test_no_method_writes_into_a_tensor(method):
    for target in targets():
        refuses(lambda: getattr(Tensor(MATRIX), method)(axis=0, out=target), target)  # noqa: B023
        refuses(lambda: getattr(MATRIX, method)(axis=0, out=target), target)  # noqa: B023


def test_plain_results_go_into_plain_arrays():
    out = np.zeros(2, int)
    assert np.argmax(Tensor(MATRIX), axis=0, out=out) is out
    assert out.tolist() == [0, 1]
