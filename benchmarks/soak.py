"""Does memory stay flat? Ten thousand training steps of the preset ``toy``: ``python -m benchmarks soak``.

Resident memory is read from Linux's /proc every thousand steps; growth counts from the end of the warm-up.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

import autodiff.functional as F
from autodiff import optim
from gpt import GPT
from gpt.config import preset

__all__ = ["main", "resident"]

STEPS, WARM_UP, BATCH = 10_000, 1_000, 4


def resident() -> int:
    """Return the bytes of this process that lie in memory."""
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")


def main(argv: Sequence[str] | None = None) -> int:
    """Train; print resident memory; fail if it grew by a MiB or more."""
    argparse.ArgumentParser(prog="python -m benchmarks soak", description=__doc__).parse_args(argv)
    config = preset("toy")
    model = GPT(config, rng=0)
    parameters = list(model.parameters())
    optimizer = optim.AdamW(parameters, lr=1e-3)
    rng = np.random.default_rng(0)
    base = 0
    for step in range(1, STEPS + 1):
        x, y = rng.integers(0, config.vocab_size, (2, BATCH, config.block_size))
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optim.clip_grad_norm(parameters, 1.0)
        optimizer.step()
        optimizer.zero_grad()
        if step == WARM_UP:
            base = resident()
        if step % 1_000 == 0:
            print(f"step {step:6,}  loss {loss.item():.4f}  {(resident() - base) / 2**20:+.3f} MiB", flush=True)
    grown = resident() - base
    print(f"{STEPS - WARM_UP:,} steps after the warm-up: {grown / 2**20:+.3f} MiB")
    return int(grown >= 2**20)


if __name__ == "__main__":
    sys.exit(main())
