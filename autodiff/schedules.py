"""Learning rates as functions of the step: a linear warm-up, then a decay to a floor.

Pure functions, so that a resumed run needs nothing but its step. Assign the result before each step of the optimiser:
``optimizer.lr = warmup_cosine(step, lr=3e-4, min_lr=3e-5, warmup=100, total=2000)``, or to each group its own:
``optimizer.param_groups[1]["lr"] = warmup_linear(step, ...)``.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from .arguments import real, whole

__all__ = ["warmup_cosine", "warmup_linear"]


def warmup_cosine(step: int, *, lr: float, min_lr: float, warmup: int, total: int) -> float:
    """Warm up linearly, then decay along half a cosine.

    Parameters
    ----------
    step : int
        Number of steps already done, so the first one is 0.
    lr : float
        The rate at the end of the warm-up.
    min_lr : float
        The rate at step `total` and for ever after.
    warmup : int
        Steps of the warm-up. The rate of step s is ``lr * (s + 1) / (warmup + 1)``: already the first step learns, and
        the full rate is that of step `warmup`. May be 0, or as long as the whole schedule.
    total : int
        Length of the whole schedule, the warm-up included.

    Returns
    -------
    float
        The learning rate.

    Raises
    ------
    ValueError
        If an argument is negative, or `min_lr` greater than `lr`.

    References
    ----------
    Loshchilov and Hutter, SGDR: Stochastic Gradient Descent with Warm Restarts, 2017, equation 5, without restarts.

    Examples
    --------
    >>> [round(warmup_cosine(s, lr=1.0, min_lr=0.1, warmup=3, total=7), 4) for s in range(9)]
    [0.25, 0.5, 0.75, 1.0, 0.8682, 0.55, 0.2318, 0.1, 0.1]
    """
    return _rate(step, lr, min_lr, warmup, total, lambda progress: 0.5 * (1 + math.cos(math.pi * progress)))


def warmup_linear(step: int, *, lr: float, min_lr: float, warmup: int, total: int) -> float:
    """Warm up linearly, then decay along a straight line.

    Parameters
    ----------
    step, lr, min_lr, warmup, total
        As of `warmup_cosine`.

    Returns
    -------
    float
        The learning rate.

    Raises
    ------
    ValueError
        If an argument is negative, or `min_lr` greater than `lr`.

    Examples
    --------
    >>> [round(warmup_linear(s, lr=1.0, min_lr=0.1, warmup=3, total=6), 4) for s in range(8)]
    [0.25, 0.5, 0.75, 1.0, 0.7, 0.4, 0.1, 0.1]
    """
    return _rate(step, lr, min_lr, warmup, total, lambda progress: 1 - progress)


def _rate(step: int, lr: float, min_lr: float, warmup: int, total: int, share: Callable[[float], float]) -> float:
    """Return the rate of a step; of the decay, `share` tells what is left of it, from 1 to 0 on the way from 0 to 1."""
    step, warmup, total = (whole(n, v, 0) for n, v in (("step", step), ("warmup", warmup), ("total", total)))
    lr, min_lr = real("lr", lr), real("min_lr", min_lr)
    if min_lr > lr:
        raise ValueError(f"min_lr={min_lr!r} must not be greater than lr={lr!r}")
    if step >= total:  # first: it also covers a schedule that is nothing but warm-up
        return min_lr
    if step < warmup:
        return lr * (step + 1) / (warmup + 1)
    if step == warmup:  # exactly, as at the other end
        return lr
    return min_lr + (lr - min_lr) * share((step - warmup) / (total - warmup))
