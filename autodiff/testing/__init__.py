"""Checks for authors of ops: whether the vector-Jacobian products are right.

`check_vjp` checks one call of an op, `check_op` all its registered samples, `check_grads` any function of tensors. An
error says which argument and element is wrong, both numbers, what mistake would give them, and how to see it again.
"""

from .cases import Case, check_op, missing_samples, missing_settings, op_cases, samples
from .grads import check_grads
from .numeric import numerical_jvp, numerical_vjp
from .report import InconclusiveError, VacuousCheckError, VJPError, VJPReport
from .vjp import check_vjp

__all__ = [
    "Case", "InconclusiveError", "VJPError", "VJPReport", "VacuousCheckError", "check_grads",
    "check_op", "check_vjp", "missing_samples", "missing_settings", "numerical_jvp", "numerical_vjp", "op_cases",
    "samples",
]  # fmt: skip
