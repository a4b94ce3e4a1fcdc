"""How to train: one description of a run's course, checked before it begins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from autodiff.arguments import is_number, real
from gpt.config import whole

__all__ = ["Settings"]

LIMIT = 2**31 - 1  # of counts; beyond it arrays and schedules would fail later and less clearly
MOST_THREADS = 1024  # more would only be refused by the system, later

COUNTS = {
    "max_steps": 1, "batch_size": 1, "accumulate": 1, "warmup": 0, "eval_interval": 1, "eval_batches": 1,
    "save_interval": 0,
}  # fmt: skip
"""The settings that are whole numbers, and the least that each may be."""


@dataclass(frozen=True)
class Settings:
    """How to train. Lengths are in optimiser steps.

    Parameters
    ----------
    max_steps : int
        Steps in all, and the horizon of the learning rate's schedule.
    batch_size : int
        Windows in a part of a step.
    accumulate : int
        Parts of a step. The gradient is that of one batch of ``batch_size * accumulate`` windows.
    lr : float
        Highest learning rate.
    min_lr : float, optional
        Learning rate at the end of the cosine. None means a tenth of `lr`.
    warmup : int, optional
        Steps in which the learning rate rises to `lr`. None means a twentieth of `max_steps`, at most 100.
    weight_decay, beta1, beta2 : float
        Of AdamW. Only tensors of two or more axes decay.
    clip : float
        Largest global norm of the gradient; 0 is off.
    eval_interval, eval_batches : int
        How often, and on how many batches, to compute the validation loss. At the end it is computed on everything.
    save_interval : int
        How often to write a checkpoint, which is written at the start and at the end in any case; 0 means only then.
    seed : int
        Of dropout and samples; data and model have seeds of their own.
    stop_at : int, optional
        End after this step, with the schedule as it is.
    minutes : float, optional
        End after this time, with the schedule as it is.
    threads : int, optional
        Into how many shards a batch is cut, to be computed side by side. The same number gives the same bits; another
        one rounds differently. None means what a resumed run had, or else by the work in a step and the cores there
        are (`gpt.shards.choose_threads`).

    Raises
    ------
    ValueError
        If a value is of the wrong kind or out of range.

    Examples
    --------
    >>> settings = Settings(max_steps=200, lr=1e-3)
    >>> settings.min_lr, settings.warmup
    (0.0001, 10)
    """

    max_steps: int = 1500
    batch_size: int = 12
    accumulate: int = 1
    lr: float = 3e-3
    min_lr: float = cast(float, None)  # typed as what it is once constructed: None is resolved below
    warmup: int = cast(int, None)
    weight_decay: float = 0.1
    beta1: float = 0.9
    beta2: float = 0.99
    clip: float = 1.0
    eval_interval: int = 250
    eval_batches: int = 20
    save_interval: int = 250
    seed: int = 0
    stop_at: int | None = None
    minutes: float | None = None
    threads: int | None = None

    def __post_init__(self) -> None:
        for name, low in COUNTS.items():
            if name != "warmup" or self.warmup is not None:
                whole(name, getattr(self, name), low, LIMIT)
        whole("seed", self.seed, 0)
        for name in ("lr", "weight_decay", "clip"):
            real(name, getattr(self, name))
        for name in ("beta1", "beta2"):
            real(name, getattr(self, name), below=1)
        if self.warmup is None:
            object.__setattr__(self, "warmup", min(self.max_steps // 20, 100))
        if self.min_lr is None:
            object.__setattr__(self, "min_lr", self.lr / 10)
        if real("min_lr", self.min_lr) > self.lr:
            raise ValueError(f"min_lr={self.min_lr} is above lr={self.lr}; lower it, or leave it out for a tenth of lr")
        if self.stop_at is not None:
            whole("stop_at", self.stop_at, 1, LIMIT)
        if self.threads is not None:
            whole("threads", self.threads, 1, MOST_THREADS)
        if self.minutes is not None and not (is_number(self.minutes) and 0 < self.minutes < float("inf")):
            raise ValueError(f"minutes={self.minutes!r} must be a number greater than 0")

    @property
    def last_step(self) -> int:
        """The step after which the run ends, unless time or the user ends it earlier."""
        return self.max_steps if self.stop_at is None else min(self.stop_at, self.max_steps)
