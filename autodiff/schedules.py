"""Learning rates as functions of the step: a linear warm-up, then a decay to a floor.

Pure functions, so that a resumed run needs nothing but its step. Assign the result before each step of the optimiser:
``optimizer.lr = warmup_cosine(step, lr=3e-4, min_lr=3e-5, warmup=100, total=2000)``.
"""

from __future__ import annotations

import math

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
    progress = _progress(step, lr, min_lr, warmup, total)
    if progress < 0:
        return lr * (step + 1) / (warmup + 1)
    return min_lr + (lr - min_lr) * 0.5 * (1 + math.cos(math.pi * progress))


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
    progress = _progress(step, lr, min_lr, warmup, total)
    if progress < 0:
        return lr * (step + 1) / (warmup + 1)
    return lr + (min_lr - lr) * progress


def _progress(step: int, lr: float, min_lr: float, warmup: int, total: int) -> float:
    """Return how far the decay is, from 0 to 1; negative during the warm-up."""
    for name, count in (("step", step), ("warmup", warmup), ("total", total)):
        whole(name, count, 0)
    for name, rate in (("lr", lr), ("min_lr", min_lr)):
        real(name, rate)
    if min_lr > lr:
        raise ValueError(f"min_lr={min_lr!r} must not be greater than lr={lr!r}")
    if step >= total:  # first: it also covers a schedule that is nothing but warm-up
        return 1.0
    return -1.0 if step < warmup else (step - warmup) / (total - warmup)
