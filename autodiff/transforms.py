"""Transforms: from a function to its derivatives. Names, argument order and returns are JAX's.

The functions are written in plain NumPy, or with tensors: they receive tensors where they are differentiated. Arguments
and results may be nested tuples, lists and dictionaries of arrays. Transforms can be nested to any depth. One that is
called from outside of all others returns arrays; inside another, or given a recorded tensor (one with
``requires_grad``), it returns recorded tensors where its results depend on what is recorded there. No transform writes
to ``.grad`` of anything, and each records what it differentiates, also below ``no_grad()``.

Where a derivative is differentiated again (`jvp`, `hvp`, `hessian`, any transform inside another) the function runs
under ``decompose()``; otherwise the fused ops are used.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from . import modes
from .calls import Call, check_function, check_pairs, recorded_among
from .functional import stack
from .hints import answering
from .node import Leaf, clock
from .tensor import Tensor, wrap
from .trees import rebuild

__all__ = ["grad", "hessian", "hvp", "jacobian", "jvp", "value_and_grad", "vjp"]


@answering
def grad(f: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False) -> Callable[..., Any]:
    """Make the function that computes the gradient of a scalar function.

    Parameters
    ----------
    f : callable
        Returns a scalar: a floating tensor, array or number of shape (). Its arguments may be trees of arrays.
    argnums : int or sequence of int
        The positional arguments to differentiate; negative ones count from the end.
    has_aux : bool
        Whether `f` returns a pair ``(scalar, aux)``. What `aux` holds is not differentiated.

    Returns
    -------
    callable
        Takes the arguments of `f` and returns the gradient: a tree like the argument, of its shapes and dtypes; for
        several argnums, a tuple of them. With ``has_aux``, the pair (gradient, aux). Arrays are ndarrays, also those of
        shape ().

    Raises
    ------
    TypeError
        When called: if a differentiated argument or the result is not floating (write 3.0 for 3; a bool or int has no
        derivative), or the result is not one number.
    ValueError
        When called: if the result is not a scalar, or `argnums` names no argument.

    Notes
    -----
    What the function closes over, such as a module's parameters, is a constant for the caller: an array that is
    returned leads nowhere. For a gradient that is differentiated with respect to them use
    ``ad.gradients(..., create_graph=True)`` as in the last example, or pass them as arguments.

    Examples
    --------
    >>> import numpy as np
    >>> import autodiff as ad
    >>> ad.grad(lambda x: np.sum(x**3))(np.array([1.0, 2.0]))
    array([ 3., 12.])
    >>> third = ad.grad(ad.grad(ad.grad(np.sin)))
    >>> third(0.0)
    array(-1.)
    >>> ad.grad(lambda p: p["w"] * p["b"] ** 2)({"w": 3.0, "b": 2.0})
    {'w': array(4.), 'b': array(12.)}

    A penalty on the slope of a model, to be minimised over its parameters:

    >>> from autodiff import nn
    >>> model = nn.Linear(2, 1, rng=0)
    >>> x = ad.Tensor([[1.0, 2.0]], requires_grad=True)
    >>> with ad.decompose():
    ...     out = np.sum(model(x))
    >>> slope = ad.gradients(out, x, create_graph=True)
    >>> np.sum(slope**2).backward()
    >>> np.allclose(model.weight.grad, 2 * model.weight.data)
    True
    """
    check_function("grad", f, argnums)
    evaluate = value_and_grad(f, argnums, has_aux)

    @_named(f)
    def gradient(*args: Any, **kwargs: Any) -> Any:
        value, derivative = evaluate(*args, **kwargs)
        return (derivative, value[1]) if has_aux else derivative

    return gradient


@answering
def value_and_grad(
    f: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """Make the function that computes a scalar function and its gradient, in one pass.

    ``scipy.optimize.minimize(ad.value_and_grad(f), x0, jac=True)`` takes it as it is.

    Parameters
    ----------
    f, argnums, has_aux
        As of `grad`.

    Returns
    -------
    callable
        Takes the arguments of `f` and returns (value, gradient); with ``has_aux``, ((value, aux), gradient).

    Raises
    ------
    TypeError, ValueError
        As of `grad`.

    Notes
    -----
    What the function closes over, such as a module's parameters, is a constant for the caller, as with `grad`; there
    stands what to do instead.

    Examples
    --------
    >>> import numpy as np
    >>> import autodiff as ad
    >>> value, gradient = ad.value_and_grad(lambda x, y: np.sum(x * y), argnums=(0, 1))(np.ones(2), np.arange(2.0))
    >>> value
    array(1.)
    >>> gradient
    (array([0., 1.]), array([1., 1.]))
    """
    check_function("value_and_grad", f, argnums)

    @_named(f)
    def evaluated(*args: Any, **kwargs: Any) -> Any:
        call = Call(f, args, kwargs, argnums, has_aux=has_aux)
        end = call.scalar()
        derivatives = call.pull([end], [None], record=call.tied, retain=call.tied)
        value, *gradients = call.close([end, *derivatives])
        return (value, call.close_aux()) if has_aux else value, call.per_argument(gradients)

    return evaluated


@answering
def vjp(f: Callable[..., Any], *primals: Any, has_aux: bool = False) -> tuple[Any, ...]:
    """Compute a function, and the function that pulls cotangents of its output back to its arguments.

    Parameters
    ----------
    f : callable
        Takes the primals. Its output may be a tree of floating arrays of any shapes.
    *primals : trees of arrays
        Where to evaluate it.
    has_aux : bool
        Whether `f` returns a pair ``(out, aux)``.

    Returns
    -------
    out : tree of arrays
    vjp_fn : callable
        Takes a cotangent (a tree like `out`) and returns a tuple with one entry for each primal. It may be called any
        number of times. To differentiate what it returns with respect to the cotangent, call `vjp` inside the other
        transform, or under ``decompose()``.
    aux
        With ``has_aux`` only.

    Raises
    ------
    TypeError, ValueError
        If a primal or output is not floating; from `vjp_fn`, if the cotangent does not have the form of the output.

    Examples
    --------
    >>> import numpy as np
    >>> import autodiff as ad
    >>> out, vjp_fn = ad.vjp(lambda a, x: a @ x, np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([1.0, 1.0]))
    >>> out
    array([3., 7.])
    >>> vjp_fn(np.array([1.0, 0.0]))
    (array([[1., 1.],
           [0., 0.]]), array([1., 2.]))
    """
    check_function("vjp", f)
    call = Call(f, primals, {}, tuple(range(len(primals))), has_aux=has_aux)

    def vjp_fn(cotangent: Any, *surplus: Any) -> tuple[Any, ...]:
        if surplus:
            raise TypeError(
                f"vjp_fn takes one cotangent, a tree like the output of {call.name}, and was given "
                f"{1 + len(surplus)}; for several outputs pass them in a tuple, vjp_fn((g, ...))"
            )
        since = clock()
        record = recorded_among(cotangent) or (call.tied and modes.current().record)
        cotangents = call.given(call.out, cotangent, "the cotangent", call.ends)
        pulled = call.pull(call.ends, cotangents, record=record)
        arguments: tuple[Any, ...] = call.per_argument(call.close(pulled, since))
        return arguments

    out = rebuild(call.out, iter(call.close(call.ends)))
    return (out, vjp_fn, call.close_aux()) if has_aux else (out, vjp_fn)


@answering
def jvp(
    f: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any], has_aux: bool = False
) -> tuple[Any, ...]:
    """Compute a function and its directional derivative, the Jacobian-vector product.

    Parameters
    ----------
    f : callable
        Takes the primals. Its output may be a tree of floating arrays of any shapes.
    primals : tuple or list
        The arguments; each a tree of floating arrays.
    tangents : tuple or list
        The directions: one for each primal, of its form and shapes.
    has_aux : bool
        Whether `f` returns a pair ``(out, aux)``.

    Returns
    -------
    out, tangent_out : trees of arrays
        Of the same form; with ``has_aux``, a third value `aux`.

    Raises
    ------
    TypeError, ValueError
        If a primal or output is not floating, or the tangents do not have the form of the primals.

    Notes
    -----
    There are no rules for the forward mode. The cotangent that is pulled back, u -> u J, is linear in u; pulling the
    tangent v back through *that* function gives J v. See J. Townsend, "A new trick for calculating Jacobian vector
    products", 2017. It costs as much as a gradient of a gradient.

    Examples
    --------
    >>> import numpy as np
    >>> import autodiff as ad
    >>> ad.jvp(np.sin, (0.0,), (2.0,))
    (array(0.), array(2.))
    """
    check_pairs("jvp", f, primals, tangents)
    call = _call_at(f, primals, tangents, has_aux)
    directions = call.given(tuple(primals), tuple(tangents), "tangents", call.variables)
    ends = [end for end in call.ends if type(end) is Tensor and end.requires_grad]
    duals = [wrap(np.ones(end.shape, end.dtype)[()], Leaf(end.shape, end.dtype, True)) for end in ends]
    pulled = call.pull(ends, duals, record=True)
    pushed = iter(call.pull_on(pulled, duals, directions))
    tangent = [
        next(pushed) if type(end) is Tensor and end.requires_grad else np.zeros(np.shape(end), end.dtype)
        for end in call.ends
    ]
    closed = call.close([*call.ends, *tangent])
    out, tangent_out = (rebuild(call.out, iter(part)) for part in (closed[: len(tangent)], closed[len(tangent) :]))
    return (out, tangent_out, call.close_aux()) if has_aux else (out, tangent_out)


@answering
def hvp(f: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    """Compute the product of a scalar function's Hessian with a vector, without the Hessian.

    Parameters
    ----------
    f : callable
        Takes the primals and returns a scalar.
    primals : tuple or list
        The arguments; each a tree of floating arrays.
    tangents : tuple or list
        The directions: one for each primal, of its form and shapes.

    Returns
    -------
    tree of arrays
        ``jvp(grad(f), primals, tangents)[1]``: how the gradient with respect to the first primal changes in the
        direction of the tangents. For the change of the whole gradient make the primals parts of one tree, as in the
        second example.

    Raises
    ------
    TypeError, ValueError
        As of `grad` and `jvp`.

    Notes
    -----
    The Hessian is symmetric, so the product is the gradient of the directional derivative ``<grad f, v>``: two passes
    backward, whatever the number of arguments. See B. A. Pearlmutter, "Fast exact multiplication by the Hessian", 1994.

    Examples
    --------
    >>> import numpy as np
    >>> import autodiff as ad
    >>> ad.hvp(lambda x: np.sum(x**3), (np.array([1.0, 2.0]),), (np.array([1.0, 10.0]),))
    array([  6., 120.])
    >>> ad.hvp(lambda p: p[0] * p[0] * p[1], ([3.0, 5.0],), ([1.0, 0.0],))
    [array(10.), array(6.)]
    """
    check_pairs("hvp", f, primals, tangents)
    call = _call_at(f, primals, tangents)
    directions = call.given(tuple(primals), tuple(tangents), "tangents", call.variables)
    gradients = call.pull([call.scalar()], [None], record=True)
    changes = call.pull_on(gradients, call.variables, directions)
    return call.per_argument(call.close(changes))[0]


@answering
def jacobian(f: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False) -> Callable[..., Any]:
    """Make the function that computes the Jacobian of a function, in reverse mode.

    Parameters
    ----------
    f : callable
        Its output and arguments may be trees of floating arrays.
    argnums : int or sequence of int
        The positional arguments to differentiate.
    has_aux : bool
        Whether `f` returns a pair ``(out, aux)``. What `aux` holds is not differentiated.

    Returns
    -------
    callable
        Takes the arguments of `f` and returns a tree like its output. In place of each array of shape S stands a tree
        like the argument (for several argnums, a tuple of them), with a block of shape S + T for each array of shape T.
        With ``has_aux``, the pair (tree, aux).

    Raises
    ------
    TypeError, ValueError
        When called: if an argument or output is not floating, or `argnums` names no argument.

    Notes
    -----
    One pass backward for each number that `f` returns.

    Examples
    --------
    >>> import numpy as np
    >>> import autodiff as ad
    >>> ad.jacobian(lambda x: x[1:] * x[:-1])(np.array([1.0, 2.0, 3.0]))
    array([[2., 1., 0.],
           [0., 3., 2.]])
    >>> ad.jacobian(lambda x: (x[1:] * x[:-1], x.size), has_aux=True)(np.array([1.0, 2.0]))
    (array([[2., 1.]]), 2)
    """
    check_function("jacobian", f, argnums)

    @_named(f)
    def matrix(*args: Any, **kwargs: Any) -> Any:
        call = Call(f, args, kwargs, argnums, has_aux=has_aux)
        blocks = iter(call.close([block for end in call.ends for block in _blocks(call, end)]))
        count = len(call.variables)
        tree = rebuild(call.out, iter([call.per_argument([next(blocks) for _ in range(count)]) for _ in call.ends]))
        return (tree, call.close_aux()) if has_aux else tree

    return matrix


@answering
def hessian(f: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False) -> Callable[..., Any]:
    """Make the function that computes the Hessian of a function: the Jacobian of its Jacobian.

    ``scipy.optimize.minimize(..., hess=ad.hessian(f))`` takes it as it is.

    Parameters
    ----------
    f : callable
        Usually returns a scalar; a tree of floating arrays is allowed.
    argnums : int or sequence of int
        The positional arguments to differentiate.
    has_aux : bool
        As of `jacobian`.

    Returns
    -------
    callable
        Takes the arguments of `f`. For a scalar function of one array of shape T it returns an array of shape T + T;
        otherwise the Jacobian's tree, with a tree in place of each block.

    Raises
    ------
    TypeError, ValueError
        As of `jacobian`.

    Notes
    -----
    One pass backward for each number in the arguments; for a product with a vector use `hvp`, which needs two.

    Examples
    --------
    >>> import numpy as np
    >>> import autodiff as ad
    >>> ad.hessian(lambda x: x[0] ** 2 * x[1])(np.array([1.0, 2.0]))
    array([[4., 2.],
           [2., 0.]])
    """
    check_function("hessian", f, argnums)
    return jacobian(jacobian(f, argnums, has_aux), argnums, has_aux)


# --- what they share ---


def _named(f: Callable[..., Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give a derivative the name and signature of its function; not its attributes, which may be those of a module."""
    return functools.wraps(f, updated=())


def _call_at(f: Callable[..., Any], primals: Any, tangents: Any, has_aux: bool = False) -> Call:
    """Call a function that will be differentiated twice."""
    positions = tuple(range(len(primals)))
    return Call(f, tuple(primals), {}, positions, has_aux=has_aux, twice=True, also=tangents)


def _blocks(call: Call, end: Any) -> list[Any]:
    """Compute the Jacobian of one output, a block for each variable: a pass backward for each of its elements."""
    shape, rows = np.shape(end), []
    if type(end) is Tensor and end.requires_grad:
        for index in np.ndindex(shape):
            unit = np.zeros(shape, end.dtype)
            unit[index] = 1
            rows.append(call.pull([end], [unit], record=call.tied))
    if not rows:
        return [np.zeros(shape + x.shape, x.dtype) for x in call.variables]
    return [np.reshape(stack(parts), shape + x.shape) for x, *parts in zip(call.variables, *rows, strict=True)]
