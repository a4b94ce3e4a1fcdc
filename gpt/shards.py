"""A batch on several threads: cut into shards, whose gradients are added up in a fixed order.

NumPy lets other threads run while it computes, so shards of a batch run side by side, each with a graph of its own and
one thread of the BLAS. The loss is a sum over rows, so its gradient is the sum of the shards' gradients. That sum is
always taken in the order of the shards, whichever is ready first: the same number of shards gives the same bits.
Another number rounds differently, and means the same.
"""

from __future__ import annotations

import contextvars
import math
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack
from dataclasses import dataclass
from threading import Barrier
from typing import Any, NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

import autodiff.functional as F
from autodiff import Tensor, gradients, nn
from gpt.config import GPTConfig, whole
from gpt.machine import blas, keep_freed_memory, one_blas_thread, usable_cores
from gpt.model import GPT

__all__ = ["IGNORED", "CutBatch", "Pool", "Threads", "choose_threads", "step_flops", "summed_loss"]

R = TypeVar("R")

IGNORED = -1  # targets that are not to be predicted

TURN = 100e6
"""Floating-point operations that a core does in the time that Python takes for a layer, forward and backward."""


class Pool:
    """Threads that work side by side with the caller's, while it is entered; BLAS then keeps to one thread in each.

    While it is not, the caller's thread does everything, one after the other, with the same results.

    Parameters
    ----------
    threads : int
        The caller's included.

    Raises
    ------
    OSError
        On entry, if the system does not start so many. None is left then.

    Examples
    --------
    >>> with Pool(2) as pool:
    ...     pool.map(lambda i: i * i, 3)
    [0, 1, 4]
    """

    def __init__(self, threads: int) -> None:
        self.threads = whole("threads", threads, 1)
        self._executor: ThreadPoolExecutor | None = None
        self._held = ExitStack()

    def __enter__(self) -> Self:
        if self._executor is not None:
            raise RuntimeError("these threads are at work already: a pool can be entered again once it is left")
        with ExitStack() as stack:
            stack.enter_context(one_blas_thread())
            keep_freed_memory()
            others = self.threads - 1
            if others:
                executor = stack.enter_context(ThreadPoolExecutor(others, "shard"))  # its exit waits for their end
                all_here = Barrier(others)
                try:
                    prepared = [executor.submit(_prepare, all_here) for _ in range(others)]
                except RuntimeError as error:
                    all_here.abort()  # those that have started would wait for ever for the rest
                    raise OSError(
                        f"{self.threads} threads could not be started ({error}); give fewer (--threads)"
                    ) from error
                for ready in prepared:
                    ready.result()
                self._executor = executor
            self._held = stack.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._executor = None
        self._held.close()

    def map(self, function: Callable[[int], R], count: int) -> list[R]:
        """Return ``[function(0), ..., function(count - 1)]``.

        The caller's thread computes the first, the others the rest, each in a copy of the caller's context: with its
        modes of recording, dropout stream and error state.

        Raises
        ------
        BaseException
            That of the first call that raised one, once all have ended.
        """
        if self._executor is None:
            return [function(i) for i in range(count)]
        rest = [self._executor.submit(contextvars.copy_context().run, function, i) for i in range(1, count)]
        try:
            first = [function(i) for i in range(min(count, 1))]
        finally:
            wait(rest)
        return first + [future.result() for future in rest]


def _prepare(all_here: Barrier) -> None:
    """Limit BLAS in a thread of ours too: some builds count threads for each thread that calls them."""
    try:
        one_blas_thread().__enter__()
    finally:
        all_here.wait()  # so that every thread gets one such call, and nobody computes yet


# --- the gradient of a batch ---


@dataclass(frozen=True, eq=False)
class CutBatch:
    """A batch, and how it is cut.

    It is computed in parts, one after the other, to save memory, and each part in shards, side by side. Rows are
    counted through the whole batch, so dropout masks do not depend on how it is cut.

    Attributes
    ----------
    x, y : ndarray of int, shape [B, T]
        Inputs and targets. Targets of -1 are ignored.
    part : int
        Rows of a part.
    shards : int
        Into how many a part is cut; into its rows, if it has fewer.
    seed, step : int
        What dropout masks are a function of.
    """

    x: NDArray[Any]
    y: NDArray[Any]
    part: int
    shards: int = 1
    seed: int = 0
    step: int = 0

    def accumulate(self, model: GPT, parameters: Sequence[Tensor], pool: Pool) -> float:
        """Add the gradient of the mean loss over all targets to the ``grad`` of parameters; return that loss.

        Parameters
        ----------
        model : GPT
        parameters : sequence of Tensor
            All that the model has.
        pool : Pool

        Returns
        -------
        float
            Nats per token. If it is not finite, the gradient is not complete.
        """
        learning = [parameter for parameter in parameters if parameter.requires_grad]
        shards = min(self.shards, self.part, len(self.x))  # none without a row
        found = pool.map(lambda shard: self._shard(model, learning, shard), shards)
        loss = sum(share for share, _ in found)
        if math.isfinite(loss):
            for _, shard_gradients in found[1:]:
                _add(learning, shard_gradients)
        return loss

    def _shard(self, model: GPT, parameters: Sequence[Tensor], shard: int) -> tuple[float, list[NDArray[Any]]]:
        """Compute a shard's share of the loss and of the gradient; the first one's is left in the parameters."""
        loss = 0.0
        total: list[NDArray[Any]] = []
        for share in self.shares(model, shard):
            loss += share.item()
            if not math.isfinite(loss):
                break
            if shard == 0:
                share.backward()
                continue
            part = [g.data for g in gradients(share, parameters, retain_graph=False)]
            if total:
                for sum_, g in zip(total, part, strict=True):
                    sum_ += g
            else:
                total = part
        return loss, total

    def shares(self, model: GPT, shard: int) -> Iterator[Tensor]:
        """Compute, part by part, what a shard adds to the mean loss."""
        count = max(np.count_nonzero(self.y != IGNORED), 1)
        for start in range(0, len(self.x), self.part):
            rows = min(self.part, len(self.x) - start)
            shards = min(self.shards, rows)
            if shard < shards:
                first, end = (start + rows * i // shards for i in (shard, shard + 1))
                with nn.dropout_stream(self.seed, self.step, first_row=first):
                    share = summed_loss(model, self.x[first:end], self.y[first:end]) / count
                yield share


def summed_loss(model: GPT, x: NDArray[Any], y: NDArray[Any]) -> Tensor:
    """Return the sum of the losses of all targets, in nats."""
    loss: Tensor = F.cross_entropy(model(x), y, ignore_index=IGNORED, reduction="sum")
    return loss


def _add(parameters: Sequence[Tensor], others: Sequence[NDArray[Any]]) -> None:
    """Add a shard's gradient to what is there."""
    for parameter, g in zip(parameters, others, strict=True):
        total = parameter.grad
        if total is not None:
            total += g
        elif g.any():  # no row of the shards before came by this parameter; zeros say so of this one
            parameter.grad = g


# --- how many ---


class Threads(NamedTuple):
    """How many threads to train on, and why as many."""

    number: int
    why: str


def step_flops(config: GPTConfig, rows: int, length: int) -> int:
    """Return the floating-point operations of the matrix products in forward and backward of a batch [rows, length].

    A weight takes part in one multiplication and one addition for each token. So does each pair of query and key, and
    of weight and value, of the whole square. The backward pass has two products for each one of the forward.

    Examples
    --------
    >>> from gpt.config import preset
    >>> step_flops(preset("nano"), 12, 64) / 1e9
    4.0
    """
    d, tokens = config.n_embd, rows * length
    tables = config.vocab_size * d * (not config.tied) + config.block_size * d * (config.pos == "learned")
    weights = config.parameter_count() - tables
    return 6 * tokens * (weights + 2 * config.n_layer * length * d)


def choose_threads(model: GPT, x: NDArray[Any], y: NDArray[Any]) -> Threads:
    """Choose into how many shards to cut batches like this one: by its work and the machine's cores.

    N threads divide the time c of the products among them. But Python's own part of a shard, p, takes as long for few
    rows as for many, and only one thread at a time can run Python. So a step takes about ``c / N + N p``, where the
    largest shard counts for c / N, and the N is chosen for which this is least.

    Where BLAS cannot be limited to one thread, its threads and ours may be in each other's way. Then a few gradients
    are computed both with one thread and with as many as would be chosen otherwise, and the faster is taken.
    """
    (rows, length), cores = x.shape, usable_cores()
    flops = step_flops(model.config, rows, length)
    products, python = flops / TURN, model.config.n_layer + 1  # embedding and loss are as long as a layer
    candidates = range(1, min(rows, cores) + 1)
    count = min(candidates, key=lambda n: products * math.ceil(rows / n) / rows + python * n)
    if count == 1:
        why = "there is one core" if cores < 2 else "a step is one window" if rows < 2 else "a step is too little work"
        return Threads(1, f"{why} for more: {flops / 1e6:,.0f} MFLOP")
    if blas()[1]:
        return Threads(count, f"of {cores} cores")
    one, several = (_seconds(model, CutBatch(x, y, rows, shards)) for shards in (1, count))
    why = f"by timing: {1e3 * one:.0f} ms on 1 against {1e3 * several:.0f} ms on {count}"
    return Threads(count if several < one else 1, why)


def _seconds(model: GPT, batch: CutBatch, rounds: int = 3) -> float:
    """Return how long a gradient takes at best."""
    times, parameters = [], list(model.parameters())
    with Pool(batch.shards) as pool, np.errstate(all="ignore"):
        for _ in range(rounds):
            start = time.perf_counter()
            batch.accumulate(model, parameters, pool)
            times.append(time.perf_counter() - start)
    model.zero_grad()
    return min(times)
