"""PyTorch: training steps, eager and compiled, and generation with a cache of keys and values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from ..sizes import BETAS, CLIP, DECAY, EPS, RATE, Size, batch, initial_weights

__all__ = ["Model", "compiled_step", "fused_step", "generate", "step"]


class Block(nn.Module):  # type: ignore[misc]
    """One layer: attention, then MLP, each behind a norm and added to the residual stream."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        width = self.width = size.width
        self.heads = (size.heads, size.head_width)
        self.norm1, self.norm2 = nn.LayerNorm(width, bias=False), nn.LayerNorm(width, bias=False)
        self.attn = nn.ModuleDict({"qkv": _linear(width, 3 * width), "proj": _linear(width, width)})
        self.mlp = nn.ModuleDict({"up": _linear(width, 4 * width), "down": _linear(4 * width, width)})

    def forward(self, x: Any, memory: Any = None, offset: int = 0) -> Any:
        """Map x [B, T, d]; with `memory` [2, B, H, length, D], behind `offset` earlier positions."""
        rows, length, width = x.shape
        parts = self.attn["qkv"](self.norm1(x)).split(width, dim=2)
        q, k, v = (part.view(rows, length, *self.heads).transpose(1, 2) for part in parts)
        if memory is not None:
            memory[0, :, :, offset : offset + length] = k
            memory[1, :, :, offset : offset + length] = v
            k, v = memory[:, :, :, : offset + length]
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=length > 1)
        x = x + self.attn["proj"](mixed.transpose(1, 2).reshape(rows, length, width))
        return x + self.mlp["down"](F.gelu(self.mlp["up"](self.norm2(x)), approximate="tanh"))


class Model(nn.Module):  # type: ignore[misc]
    """The model, under the names of `initial_weights` except that a norm's gain is its weight."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.embedding = nn.Embedding(size.vocab, size.width)
        self.positions = nn.Embedding(size.length, size.width)
        self.blocks = nn.ModuleList(Block(size) for _ in range(size.layers))
        self.final_norm = nn.LayerNorm(size.width, bias=False)
        self.load_state_dict(
            {
                name.replace("gamma", "weight"): torch.from_numpy(
                    value.T if ".attn." in name or ".mlp." in name else value
                )
                for name, value in initial_weights(size).items()
            }
        )

    def forward(self, ids: Any, memory: Any = None, offset: int = 0) -> Any:
        """Return the logits [B, T, V]; `memory` has a first axis for the blocks."""
        x = self.embedding(ids) + self.positions(torch.arange(offset, offset + ids.shape[1]))
        for layer, block in enumerate(self.blocks):
            x = block(x) if memory is None else block(x, memory[layer], offset)
        return F.linear(self.final_norm(x), self.embedding.weight)


def _linear(inputs: int, outputs: int) -> Any:
    return nn.Linear(inputs, outputs, bias=False)


def step(size: Size, threads: int) -> dict[str, Callable[[], float]]:
    """Prepare a training step: forward, backward, clip, AdamW."""
    model = Model(size)
    return _step(model, model, size, threads)


def fused_step(size: Size, threads: int) -> dict[str, Callable[[], float]]:
    """Prepare a training step whose optimiser is one kernel, which PyTorch offers but does not choose by itself."""
    model = Model(size)
    return _step(model, model, size, threads, fused=True)


def compiled_step(size: Size, threads: int) -> dict[str, Callable[[], float]]:
    """Prepare a training step of the compiled model, which needs a C++ compiler."""
    model = Model(size)
    return _step(model, torch.compile(model), size, threads)


def _step(model: Any, forward: Any, size: Size, threads: int, fused: bool = False) -> dict[str, Callable[[], float]]:
    torch.set_num_threads(threads)
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=RATE, betas=BETAS, eps=EPS, weight_decay=DECAY, fused=fused or None
    )
    ids, targets = map(torch.from_numpy, batch(size))

    def run() -> float:
        loss = F.cross_entropy(forward(ids).view(-1, size.vocab), targets.view(-1))
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return float(loss.item())

    return {"step": run}


def generate(size: Size, threads: int, rows: int) -> dict[str, Callable[[], float]]:
    """Prepare generating one window from one token, greedily or not; each returns the sum of the ids."""
    torch.set_num_threads(threads)
    model = Model(size)
    memory = torch.empty(size.layers, 2, rows, size.heads, size.length, size.head_width)

    @torch.inference_mode()  # type: ignore[untyped-decorator]
    def run(greedy: bool) -> float:
        tokens = torch.zeros((rows, size.length), dtype=torch.int64)
        for end in range(1, size.length):
            logits = model(tokens[:, end - 1 : end], memory, end - 1)[:, -1]
            if greedy:
                tokens[:, end] = logits.argmax(-1)
            else:
                tokens[:, end] = torch.multinomial(torch.softmax(logits, -1), 1)[:, 0]
        return float(tokens.sum())

    return {"sampled": lambda: run(False), "greedy": lambda: run(True)}
