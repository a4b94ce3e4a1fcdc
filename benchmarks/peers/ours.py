"""The model of `gpt`, on `autodiff`, prepared and run as `gpt.train` does."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

import autodiff.functional as F
from autodiff import Tensor, optim
from gpt import GPT, GPTConfig
from gpt.shards import CutBatch, Pool

from .. import demo
from ..sizes import BETAS, CLIP, DECAY, EPS, RATE, Size, batch, initial_weights

__all__ = ["chain", "generate", "moons", "step"]


def _model(size: Size) -> GPT:
    """Build the model of a size, with the weights that every library starts from."""
    model = GPT(
        GPTConfig(
            vocab_size=size.vocab, block_size=size.length, n_layer=size.layers, n_head=size.heads, n_embd=size.width
        )
    )
    model.load_state_dict(initial_weights(size))
    return model


def step(size: Size, threads: int) -> dict[str, Callable[[], float]]:
    """Prepare a training step: forward, backward, clip, AdamW."""
    model = _model(size)
    parameters = list(model.parameters())
    optimizer = optim.AdamW(parameters, lr=RATE, betas=BETAS, eps=EPS, weight_decay=DECAY)
    ids, targets = batch(size)
    cut = CutBatch(ids, targets, part=size.batch, shards=threads)
    pool = Pool(min(threads, size.batch)).__enter__()  # its threads end with the process

    def run() -> float:
        loss = cut.accumulate(model, parameters, pool)
        optim.clip_grad_norm(parameters, CLIP)
        optimizer.step()
        optimizer.zero_grad()
        return loss

    return {"step": run}


def generate(size: Size, threads: int, rows: int) -> dict[str, Callable[[], float]]:
    """Prepare generating one window from one token, greedily or not; each returns the sum of the ids."""
    model = _model(size)
    prompt = np.zeros((rows, 1), np.int64)

    def run(temperature: float) -> float:
        return float(model.generate(prompt, size.length - 1, temperature=temperature, rng=0).sum())

    return {"sampled": lambda: run(1.0), "greedy": lambda: run(0.0)}


def chain() -> dict[str, Callable[[], float]]:
    """Prepare the chain of scalars; each returns the derivative by its factor, or its end."""
    start, factor, term = (Tensor(value, requires_grad=True) for value in (demo.START, demo.FACTOR, demo.TERM))

    def forward() -> Tensor:
        y = start
        for _ in range(demo.CHAIN):
            y = y * factor + term
        return y

    def both() -> float:
        start.grad = factor.grad = term.grad = None
        forward().backward()
        return float(_gradient(factor).item())

    return {"forward": lambda: float(forward().item()), "both": both}


def _gradient(tensor: Tensor) -> NDArray[Any]:
    assert tensor.grad is not None
    return tensor.grad


def moons() -> dict[str, Callable[[], float]]:
    """Prepare the demo: each step is a few operations on all points; returns the last loss."""
    points, labels = demo.moons()

    def run() -> float:
        layers = [[Tensor(value, requires_grad=True) for value in layer] for layer in demo.initial_layers()]
        parameters = [value for layer in layers for value in layer]
        loss = Tensor(math.nan)
        for number in range(demo.STEPS):
            x: Any = points
            for weight, bias in layers[:-1]:
                x = F.relu(x @ weight + bias)
            weight, bias = layers[-1]
            scores = (x @ weight + bias)[:, 0]
            margins = F.relu(1 - labels * scores).mean()
            loss = margins + demo.ALPHA * sum((p * p).sum() for p in parameters)
            for p in parameters:
                p.grad = None
            loss.backward()
            for p in parameters:
                p.data -= demo.learning_rate(number) * _gradient(p)
        return float(loss.item())

    return {"moons": run}
