"""The forms in which arguments broadcast against each other, and which of them an op's samples leave out."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from ..op import Op
from .cases import Case

__all__ = ["missing_forms"]

Shape: TypeAlias = tuple[int, ...]

OUTER, FEWER, SCALAR, ONE = "(3, 1) x (1, 3)", "argument of fewer axes", "0-d argument", "axis of length 1 to stretch"
"""Both arguments are stretched, each along an axis of its own; and how one may be smaller than the other."""

TABLE = (2, 3)
"""The output of calls with the shapes in `SMALLER`, if the op broadcasts; no product of matrices gives it for all."""

SMALLER = (((2, 1), (1, 3)), ((2, 3), (3,)))


def missing_forms(op: Op[..., Any], cases: Sequence[Case]) -> str:
    """Say which forms of broadcasting no sample has; empty if none is missing, or the op does not broadcast.

    Parameters
    ----------
    op : Op
        The op.
    cases : sequence of Case
        Its samples.

    Examples
    --------
    >>> import numpy as np
    >>> from autodiff.op import Op
    >>> from autodiff.testing.cases import Case
    >>> product = Op(lambda x, y: x * y, elementwise=True)
    >>> print(missing_forms(product, [Case(product, 0, (np.ones(3), np.ones(3)))]))
    equal shapes only: no (3, 1) x (1, 3), no argument of fewer axes, no 0-d argument, no axis of length 1 to stretch
    """
    shaped = [shapes for case in cases if len(shapes := _shapes(op, case)) > 1]
    if not shaped or not (op.elementwise or op.batched or _broadcasts(op, cases)):
        return ""
    found = {form for shapes in shaped for form in _forms(shapes)}
    forms = {OUTER: OUTER, FEWER: FEWER, SCALAR: "single matrix" if op.batched else SCALAR, ONE: ONE}
    missing = ", ".join(f"no {words}" for form, words in forms.items() if form not in found)
    return missing if found or not missing else f"equal shapes only: {missing}"


def _shapes(op: Op[..., Any], case: Case) -> list[Shape]:
    """Shapes of the arrays and numbers of a call; of products of matrices, those of the stacks that they lie in."""
    given = [np.shape(x) for x in case.arrays if isinstance(x, (np.ndarray, np.generic, int, float))]
    return [shape[:-2] for shape in given if len(shape) > 1] if op.batched else given


def _forms(shapes: Sequence[Shape]) -> set[str]:
    """Name the forms that a call has."""
    try:
        full = np.broadcast_shapes(*shapes)
    except ValueError:  # an argument that is none of those which broadcast
        return set()
    padded = [(-1,) * (len(full) - len(shape)) + shape for shape in shapes]  # -1: an axis that it does not have
    stretched = [{k for k, n in enumerate(shape) if n != full[k]} for shape in padded]
    found = {
        OUTER: any(a - b and b - a for a, b in itertools.combinations(stretched, 2)),
        FEWER: any(0 < len(shape) < len(full) for shape in shapes),
        SCALAR: () in shapes and full != (),
        ONE: any(shape[k] != full[k] for shape in shapes for k in range(-len(shape), 0)),
    }
    return {form for form, has in found.items() if has}


def _broadcasts(op: Op[..., Any], cases: Sequence[Case]) -> bool:
    """Whether an op that does not say so broadcasts its arrays of floats."""
    for case in cases:
        places = [i for i, x in enumerate(case.arrays) if isinstance(x, np.ndarray) and x.size and x.dtype.kind == "f"]
        if len(places) > 1:
            return all(_gives_a_table(op, case, dict(zip(places, itertools.cycle(two)))) for two in SMALLER)
    return False


def _gives_a_table(op: Op[..., Any], case: Case, shapes: dict[int, Shape]) -> bool:
    arrays = [np.resize(x, shapes[i]) if i in shapes else x for i, x in enumerate(case.arrays)]
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return bool(np.shape(op(*arrays, **case.settings)) == TABLE)
        except (Exception, SystemExit):  # it takes no such shapes
            return False
