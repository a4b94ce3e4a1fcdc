"""Optimisers, SGD and AdamW, and what belongs to a training step: clipping, decay groups, learning-rate schedules."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .arguments import is_number, plain, real
from .changes import note_writes
from .hints import absent, answering
from .module import Module
from .optimizer import Group, Optimizer, Parameters
from .schedules import warmup_cosine, warmup_linear
from .tensor import Tensor

__all__ = ["SGD", "AdamW", "Optimizer", "clip_grad_norm", "decay_groups", "warmup_cosine", "warmup_linear"]


class SGD(Optimizer):
    """Gradient descent, optionally with momentum: ``b <- momentum * b + g``, ``w <- w - lr * b``.

    Parameters
    ----------
    params : iterable of Tensor, or of dict
        The parameters, or groups of them: dictionaries with ``"params"`` and settings of their own.
    lr : float
        Learning rate.
    momentum : float
        Share of the previous direction that is kept.
    weight_decay : float
        This multiple of w is added to the gradient first (an L2 penalty).
    nesterov : bool
        Step along ``g + momentum * b`` instead of b: the gradient as if momentum had already been applied. With
        momentum only.

    Raises
    ------
    ValueError
        For a setting out of range, or a parameter given twice.
    TypeError
        For what is not a leaf tensor of floating dtype.

    References
    ----------
    Sutskever et al., On the importance of initialization and momentum in deep learning, 2013; in the form that PyTorch
    uses, in which the learning rate does not enter the momentum.

    Examples
    --------
    >>> from autodiff import Tensor, optim
    >>> w = Tensor([1.0, 2.0], requires_grad=True)
    >>> optimizer = optim.SGD([w], lr=0.1)
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> w.data
    array([0.8, 1.6])
    """

    moments = ("momentum_buffer",)

    @answering
    def __init__(
        self, params: Parameters, lr: float, momentum: float = 0.0, weight_decay: float = 0.0, nesterov: bool = False
    ) -> None:
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay, "nesterov": nesterov})

    def _check(self, group: Mapping[str, Any]) -> Group:
        made = super()._check(group)
        if made.get("nesterov") and not made.get("momentum", True):
            raise ValueError("nesterov=True steps ahead along the momentum: momentum must be greater than 0, it is 0")
        return made

    def _update(
        self, values: NDArray[Any], g: NDArray[Any], moments: Sequence[NDArray[Any]], scratch: NDArray[Any],
        group: Group, count: int,
    ) -> None:  # fmt: skip
        lr, momentum, decay = group["lr"], group["momentum"], group["weight_decay"]
        np.multiply(values, decay, out=scratch)
        scratch += g
        if momentum:
            (buffer,) = moments
            buffer *= momentum
            buffer += scratch
            if group["nesterov"]:
                scratch += momentum * buffer
            else:
                scratch[...] = buffer
        scratch *= lr
        values -= scratch


class AdamW(Optimizer):
    """Adam with decoupled weight decay.

    With g the gradient, in step t::

        w <- w (1 - lr * weight_decay)
        m <- beta1 m + (1 - beta1) g               running mean of g
        v <- beta2 v + (1 - beta2) g^2             and of its square
        w <- w - lr * mhat / (sqrt(vhat) + eps)    mhat = m / (1 - beta1^t), vhat = v / (1 - beta2^t)

    Parameters
    ----------
    params : iterable of Tensor, or of dict
        The parameters, or groups of them: dictionaries with ``"params"`` and settings of their own (`decay_groups`).
    lr : float
        Learning rate.
    betas : (float, float)
        Decay rates of the two running means, in [0, 1).
    eps : float
        Keeps the division finite.
    weight_decay : float
        Share of w, times the learning rate, that each step takes off.

    Raises
    ------
    ValueError
        For a setting out of range, or a parameter given twice.
    TypeError
        For what is not a leaf tensor of floating dtype.

    References
    ----------
    Kingma and Ba, Adam: A Method for Stochastic Optimization, 2015, algorithm 1. Loshchilov and Hutter, Decoupled
    Weight Decay Regularization, 2019, algorithm 2; the decay is scaled by the learning rate, as PyTorch does.

    Examples
    --------
    >>> from autodiff import Tensor, optim
    >>> w = Tensor([1.0, 2.0], requires_grad=True)
    >>> optimizer = optim.AdamW([w], lr=0.1, weight_decay=0.0)
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> w.data.round(6)
    array([0.9, 1.9])
    """

    moments = ("exp_avg", "exp_avg_sq")

    @answering
    def __init__(
        self, params: Parameters, lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
        weight_decay: float = 0.01,
    ) -> None:  # fmt: skip
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay})

    def _update(
        self, values: NDArray[Any], g: NDArray[Any], moments: Sequence[NDArray[Any]], scratch: NDArray[Any],
        group: Group, count: int,
    ) -> None:  # fmt: skip
        lr, eps, decay, (beta1, beta2) = group["lr"], group["eps"], group["weight_decay"], group["betas"]
        m, v = moments
        values *= 1 - lr * decay
        np.subtract(g, m, out=scratch)  # m + (1 - beta1) (g - m): one rounding less than with two products
        scratch *= 1 - beta1
        m += scratch
        np.multiply(g, g, out=scratch)
        scratch *= 1 - beta2
        v *= beta2
        v += scratch
        np.sqrt(v, out=scratch)
        scratch *= 1 / math.sqrt(1 - beta2**count)
        scratch += eps
        np.divide(m, scratch, out=scratch)
        scratch *= lr / (1 - beta1**count)
        values -= scratch


def decay_groups(module: Module, weight_decay: float) -> list[Group]:
    """Group a module's parameters for weight decay: matrices and tables decay, gains and biases do not.

    Parameters
    ----------
    module : Module
        Its parameters are grouped by their number of axes: two or more, or fewer. A shared one is in one group once.
    weight_decay : float
        Of the first group; the second has 0.

    Returns
    -------
    list of dict
        For ``AdamW(decay_groups(model, 0.1), lr=...)``. Without an empty group.

    Examples
    --------
    >>> from autodiff import nn, optim
    >>> [(len(group["params"]), group["weight_decay"]) for group in optim.decay_groups(nn.Linear(2, 2, rng=0), 0.1)]
    [(1, 0.1), (1, 0.0)]
    """
    weight_decay, parameters = real("weight_decay", weight_decay), list(module.parameters())
    groups = [
        {"params": [p for p in parameters if p.ndim >= 2], "weight_decay": weight_decay},
        {"params": [p for p in parameters if p.ndim < 2], "weight_decay": 0.0},
    ]
    return [group for group in groups if group["params"]]


def clip_grad_norm(parameters: Iterable[Tensor] | Tensor, max_norm: float) -> float:
    """Scale all gradients so that their global L2 norm is at most a bound.

    Parameters
    ----------
    parameters : iterable of Tensor
        Those without a gradient are passed over, and those that do not require one.
    max_norm : float
        The bound, greater than 0; infinity only measures.

    Returns
    -------
    float
        The norm before scaling. If it is infinite or NaN, the gradients are left as they are: there is no scaling that
        mends them, and a caller that sees the value can skip the step.

    Raises
    ------
    ValueError
        If `max_norm` is not greater than 0.

    References
    ----------
    Pascanu et al., On the difficulty of training recurrent neural networks, 2013, algorithm 1. The factor is PyTorch's,
    ``min(1, max_norm / (norm + 1e-6))``.

    Examples
    --------
    >>> from autodiff import Tensor, optim
    >>> w = Tensor([0.0, 0.0], requires_grad=True)
    >>> w.grad = [3.0, 4.0]
    >>> optim.clip_grad_norm([w], 1.0)
    5.0
    >>> w.grad.round(4)
    array([0.6, 0.8])
    """
    limit = plain(max_norm)
    if not is_number(limit) or not limit > 0:
        raise ValueError(f"max_norm={max_norm!r} must be a number greater than 0; to clip nothing, leave the call out")
    if not isinstance(parameters, (list, Tensor, Iterable)):
        raise TypeError(
            f"parameters must be tensors, not a {type(parameters).__name__}; of a module pass module.parameters()"
        )
    tensors = [parameters] if type(parameters) is Tensor else list(parameters)
    if {*map(type, tensors)} - {Tensor}:
        raise TypeError("parameters must be tensors, whose .grad is clipped; of a module pass module.parameters()")
    learning = [tensor for tensor in tensors if (node := tensor.node) is not None and node.requires_grad]
    gradients = [gradient for tensor in learning if (gradient := tensor._grad) is not None]
    norm = _global_norm(gradients)
    bound = float(min(limit, sys.float_info.max))
    factor = bound / (norm + 1e-6) if limit < math.inf else math.inf
    if math.isfinite(norm) and factor < 1:
        try:
            for gradient in gradients:
                if factor < 1e-4 and factor < np.finfo(gradient.dtype).tiny:  # it would be rounded there, even to 0
                    gradient[...] = gradient / np.float64(norm + 1e-6) * bound
                else:
                    gradient *= factor
        finally:  # where NumPy's warnings are errors, some may have been scaled
            note_writes((gradient, None) for gradient in gradients)
    return norm


def _global_norm(gradients: Sequence[NDArray[Any]]) -> float:
    """Return the L2 norm of all elements together; right also where their squares leave the range of the dtype."""
    # half precision loses small squares
    flat = [(g.astype(np.float32) if g.dtype.char == "e" else g).reshape(-1) for g in gradients]
    with np.errstate(all="ignore"):
        total = math.fsum(float(g @ g) for g in flat)
        if 1e-30 < total < math.inf:  # float32 squares add up well inside of this
            return math.sqrt(total)
        largest = max((float(np.abs(g).max(initial=0)) for g in flat), default=0.0)
        if not 0 < largest < math.inf:
            return largest
        scaled = [g.astype(np.float64) / largest for g in flat]
        return largest * math.sqrt(math.fsum(float(g @ g) for g in scaled))


if not TYPE_CHECKING:  # to a type checker it would say that every name is there

    def __getattr__(name: str) -> Any:
        """Answer names that this module does not have, such as those of other libraries."""
        raise absent(__name__, name, __all__)
