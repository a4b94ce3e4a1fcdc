"""What `autodiff.recompute` saves: ``python -m benchmarks recompute --config nano --dropout 0.1``.

The same training step (forward, backward, clip, AdamW), plain and with every block recomputed: the peak of the arrays
that the step makes, as NumPy reports them to tracemalloc, and the time of a step without tracemalloc. The gradients of
the two are compared bit for bit.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
import tracemalloc
from collections.abc import Callable, Sequence

import numpy as np

import autodiff as ad
import autodiff.functional as F
from autodiff import nn, optim
from gpt import GPT
from gpt.config import BATCH_SIZES, GPTConfig, preset

__all__ = ["main", "measure"]

STEPS = 7


def stepper(config: GPTConfig, batch: int, recomputed: bool) -> Callable[[int], list[bytes]]:
    """Return the training step, which returns the bits of its gradients the first time."""
    model = GPT(config, rng=0)
    if recomputed:
        for block in model.blocks:
            block.forward = ad.recompute(block.forward)  # type: ignore[method-assign]
    parameters = list(model.parameters())
    optimizer = optim.AdamW(parameters, lr=1e-3)
    x, y = np.random.default_rng(0).integers(0, config.vocab_size, (2, batch, config.block_size))

    def step(number: int) -> list[bytes]:
        with nn.dropout_stream(0, number):
            loss = F.cross_entropy(model(x), y)
        loss.backward()
        del loss
        optim.clip_grad_norm(parameters, 1.0)
        optimizer.step()
        bits = [] if number else [p.grad.tobytes() for p in parameters if p.grad is not None]
        optimizer.zero_grad()
        return bits

    return step


def measure(config: GPTConfig, batch: int, recomputed: bool) -> tuple[list[bytes], float, float]:
    """Return the bits of the first step's gradients, the peak of a later step in MiB, and its time in milliseconds."""
    step = stepper(config, batch, recomputed)
    bits = step(0)
    times = []
    for number in range(1, STEPS + 1):
        start = time.perf_counter()
        step(number)
        times.append(time.perf_counter() - start)
    tracemalloc.start()
    step(STEPS + 1)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return bits, peak / 2**20, statistics.median(times) * 1e3


def main(argv: Sequence[str] | None = None) -> int:
    """Measure both; print; fail if the gradients differ."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks recompute", description=__doc__)
    parser.add_argument("--config", default="nano", choices=list(BATCH_SIZES), help="size of the model (default nano)")
    parser.add_argument("--dropout", type=float, default=0.1, help="probability (default 0.1)")
    args = parser.parse_args(argv)
    config = preset(args.config, dropout=args.dropout)
    found = [measure(config, BATCH_SIZES[args.config], recomputed) for recomputed in (False, True)]
    for name, (_, peak, milliseconds) in zip(("plain", "recomputed"), found, strict=True):
        print(f"{args.config}, dropout {args.dropout}, {name:10}  peak {peak:8.2f} MiB  step {milliseconds:8.1f} ms")
    print(f"peak x {found[1][1] / found[0][1]:.2f}, time x {found[1][2] / found[0][2]:.2f}")
    equal = found[0][0] == found[1][0]
    print("gradients are equal bit for bit" if equal else "gradients DIFFER")
    return int(not equal)


if __name__ == "__main__":
    sys.exit(main())
