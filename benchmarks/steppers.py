"""One whole training step of the same model, as each library's users write it: forward, backward, clip, AdamW."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gpt.config import GPTConfig

__all__ = ["STEPPERS"]

CLIP, RATE, DECAY = 1.0, 1e-3, 0.01


def _batch(config: GPTConfig, batch: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, config.vocab_size, (2, batch, config.block_size))
    return x, y


def autodiff(config: GPTConfig, batch: int, threads: int) -> Callable[[], float]:
    """The model of `gpt`, on `autodiff`, prepared as `gpt.train` does."""
    import autodiff.functional as F
    from autodiff import optim
    from gpt import GPT
    from gpt.machine import keep_freed_memory

    keep_freed_memory()
    model = GPT(config, rng=0)
    parameters = list(model.parameters())
    optimizer = optim.AdamW(parameters, lr=RATE, weight_decay=DECAY)
    x, y = _batch(config, batch)

    def step() -> float:
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optim.clip_grad_norm(parameters, CLIP)
        optimizer.step()
        optimizer.zero_grad()
        return float(loss.item())

    return step


def torch(config: GPTConfig, batch: int, threads: int) -> Callable[[], float]:
    """PyTorch, eager."""
    import torch as pt
    from torch import nn

    pt.set_num_threads(threads)
    pt.manual_seed(0)
    width = config.n_embd

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.ln1, self.ln2 = nn.LayerNorm(width, bias=False), nn.LayerNorm(width, bias=False)
            self.qkv, self.proj = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
            self.up, self.down = nn.Linear(width, 4 * width, bias=False), nn.Linear(4 * width, width, bias=False)

        def forward(self, x: Any) -> Any:
            b, t, c = x.shape
            heads = (b, t, config.n_head, c // config.n_head)
            q, k, v = (part.view(heads).transpose(1, 2) for part in self.qkv(self.ln1(x)).split(c, dim=2))
            mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.proj(mixed.transpose(1, 2).reshape(b, t, c))
            return x + self.down(nn.functional.gelu(self.up(self.ln2(x)), approximate="tanh"))

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.tokens, self.positions = nn.Embedding(config.vocab_size, width), nn.Embedding(config.block_size, width)
            self.blocks = nn.ModuleList(Block() for _ in range(config.n_layer))
            self.norm = nn.LayerNorm(width, bias=False)
            for p in self.parameters():
                if p.dim() > 1:
                    nn.init.normal_(p, std=0.02)

        def forward(self, ids: Any) -> Any:
            x = self.tokens(ids) + self.positions(pt.arange(ids.shape[1]))
            for block in self.blocks:
                x = block(x)
            return self.norm(x) @ self.tokens.weight.T

    model = Model()
    optimizer = pt.optim.AdamW(model.parameters(), lr=RATE, weight_decay=DECAY)
    x, y = (pt.from_numpy(a) for a in _batch(config, batch))

    def step() -> float:
        logits = model(x)
        loss = nn.functional.cross_entropy(logits.view(-1, config.vocab_size), y.view(-1))
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return float(loss.item())

    return step


STEPPERS: dict[str, Callable[[GPTConfig, int, int], Callable[[], float]]] = {"autodiff": autodiff, "torch": torch}
