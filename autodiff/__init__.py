"""Reverse-mode automatic differentiation on NumPy.

Build tensors, compute with operators and NumPy's functions, call ``backward()``::

    >>> import numpy as np
    >>> from autodiff import Tensor
    >>> x = Tensor([0.5, 1.0], requires_grad=True)
    >>> np.tanh(x).sum().backward()
    >>> x.grad.round(4)
    array([0.7864, 0.42  ])
"""

import importlib
from typing import TYPE_CHECKING, Any

from . import functional, viz
from .anomaly import AnomalyError, detect_anomaly
from .differentiate import gradients
from .explanation import explain
from .hints import absent
from .modes import decompose, no_grad, scope
from .op import op
from .recompute import recompute
from .saving import save
from .tensor import Tensor, as_tensor
from .transforms import grad, hessian, hvp, jacobian, jvp, value_and_grad, vjp

if TYPE_CHECKING:  # else `__getattr__` imports them when they are first asked for
    from . import nn, optim, testing

__version__ = "0.1.0"

__all__ = [
    "AnomalyError", "Tensor", "as_tensor", "decompose", "detect_anomaly", "explain", "functional", "grad", "gradients",
    "hessian", "hvp", "jacobian", "jvp", "nn", "no_grad", "op", "optim", "recompute", "save", "scope", "testing",
    "value_and_grad", "viz", "vjp",
]  # fmt: skip

if not TYPE_CHECKING:  # to a type checker it would say that every name is there

    def __dir__() -> list[str]:
        """Return all names, also of what is not imported yet."""
        return sorted({*globals(), *__all__})

    def __getattr__(name: str) -> Any:
        """Import what is not needed by all programs; answer names of other libraries."""
        if name in {"nn", "optim", "testing"}:
            return importlib.import_module(f".{name}", __name__)
        raise absent(__name__, name, __all__)
