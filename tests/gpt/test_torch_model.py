"""The same model in PyTorch, written with nothing but matrix products and its own functions: all figures agree."""

import math

import numpy as np
import pytest

import autodiff.functional as F
from autodiff import optim
from gpt.config import preset
from gpt.model import GPT

torch = pytest.importorskip("torch", reason="compares with PyTorch, which is not installed")


@pytest.fixture(autouse=True)
def _one_thread():
    """More threads than work only wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


SMALL = {"vocab_size": 13, "block_size": 8, "n_layer": 2, "n_embd": 16, "n_head": 4, "d_ff": 24, "dtype": "float64"}
FAMILIES = {
    "toy": preset("toy", **SMALL),
    "classic": preset("classic", **SMALL),
    "gpt2": preset("gpt2", **SMALL),
    "micro": preset("micro", **SMALL),
    "llama-toy": preset("llama-toy", **SMALL | {"n_kv_head": 2}),
}


def norm(config, w, name, x):
    gamma, beta = w.get(f"{name}.gamma"), w.get(f"{name}.beta")
    if config.norm == "layernorm":
        return torch.nn.functional.layer_norm(x, x.shape[-1:], gamma, beta, config.norm_eps)
    return torch.nn.functional.rms_norm(x, x.shape[-1:], gamma, config.norm_eps)


def linear(w, name, x):
    y = x @ w[f"{name}.weight"]
    return y + w[f"{name}.bias"] if f"{name}.bias" in w else y


def rotate(x, theta):
    """Multiply the pair (2r, 2r+1) at position m, as a complex number, by exp(i m theta^(-2r/D))."""
    length, width = x.shape[-2:]
    angle = torch.arange(length)[:, None] * theta ** (-torch.arange(0, width, 2, dtype=x.dtype) / width)
    turned = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2)) * torch.polar(torch.ones_like(angle), angle)
    return torch.view_as_real(turned).reshape(x.shape)


def attention(config, w, name, x):
    rows, length, d = x.shape
    width, kv = d // config.n_head, config.n_kv_head
    q, k, v = linear(w, f"{name}.qkv", x).split([d, kv * width, kv * width], dim=-1)
    q, k, v = (part.unflatten(-1, (-1, width)).transpose(1, 2) for part in (q, k, v))
    if config.pos == "rope":
        q, k = rotate(q, config.rope_theta), rotate(k, config.rope_theta)
    k, v = (part.repeat_interleave(config.n_head // kv, dim=1) for part in (k, v))
    scores = q @ k.transpose(-1, -2) / math.sqrt(width)
    scores = scores.masked_fill(torch.ones(length, length, dtype=torch.bool).triu(1), -math.inf)
    y = scores.softmax(-1) @ v
    return linear(w, f"{name}.proj", y.transpose(1, 2).reshape(rows, length, d))


def mlp(config, w, name, x):
    if config.mlp == "swiglu":
        gate = torch.nn.functional.silu(linear(w, f"{name}.w1", x))
        return linear(w, f"{name}.w2", gate * linear(w, f"{name}.w3", x))
    h = linear(w, f"{name}.up", x)
    h = h.relu() if config.mlp == "relu" else torch.nn.functional.gelu(h, approximate="tanh")
    return linear(w, f"{name}.down", h)


def forward(config, w, tokens):
    x = w["embedding.weight"][tokens]
    length, d = x.shape[1:]
    if config.pos == "learned":
        x = x + w["positions.weight"][:length]
    if config.pos == "sinusoidal":
        angle = torch.arange(length)[:, None] / 10_000 ** (torch.arange(0, d, 2, dtype=x.dtype) / d)
        x = x + torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)
    if config.embed_norm:
        x = norm(config, w, "embed_norm", x)
    for i in range(config.n_layer):
        x = x + attention(config, w, f"blocks.{i}.attn", norm(config, w, f"blocks.{i}.norm1", x))
        x = x + mlp(config, w, f"blocks.{i}.mlp", norm(config, w, f"blocks.{i}.norm2", x))
    if config.final_norm:
        x = norm(config, w, "final_norm", x)
    return x @ w["embedding.weight"].T if config.tied else linear(w, "head", x)


def pair(name):
    """Both models with the same parameters, away from the initial zeros and ones."""
    model = GPT(FAMILIES[name], rng=0)
    rng = np.random.default_rng(1)
    for p in model.parameters():
        p.data += rng.normal(size=p.shape) * 0.2
    return model, {name: torch.tensor(p.numpy(), requires_grad=True) for name, p in model.named_parameters()}


def batch(step, config):
    windows = np.random.default_rng((2, step)).integers(0, config.vocab_size, (3, config.block_size + 1))
    return windows[:, :-1], windows[:, 1:]


def torch_loss(config, w, tokens, targets):
    logits = forward(config, w, torch.tensor(tokens))
    return logits, torch.nn.functional.cross_entropy(logits.flatten(0, 1), torch.tensor(targets).flatten())


def close(ours, theirs, tolerance):
    """Agreement relative to the largest entry of the tensor."""
    theirs = theirs.detach().numpy()
    assert ours.shape == theirs.shape
    assert np.abs(ours - theirs).max() <= tolerance * np.abs(theirs).max()


@pytest.mark.parametrize("name", FAMILIES)
def test_logits_loss_and_every_gradient_agree(name):
    model, w = pair(name)
    tokens, targets = batch(0, model.config)
    logits = model(tokens)
    loss = F.cross_entropy(logits, targets)
    loss.backward()
    their_logits, their_loss = torch_loss(model.config, w, tokens, targets)
    their_loss.backward()
    close(logits.data, their_logits, 1e-10)
    assert loss.item() == pytest.approx(their_loss.item(), rel=1e-10)
    for key, p in model.named_parameters():
        close(p.grad, w[key].grad, 1e-10)


@pytest.mark.parametrize("name", FAMILIES)
def test_ten_steps_of_training_follow_each_other(name):
    model, w = pair(name)
    groups = optim.decay_groups(model, 0.1)
    optimizer = optim.AdamW(groups, lr=0.01, betas=(0.9, 0.95))
    theirs = torch.optim.AdamW(
        [
            {"params": [t for t in w.values() if t.ndim >= 2], "weight_decay": 0.1},
            {"params": [t for t in w.values() if t.ndim < 2], "weight_decay": 0.0},
        ][: len(groups)],
        lr=0.01, betas=(0.9, 0.95),
    )  # fmt: skip
    clipped = 0
    for step in range(10):
        tokens, targets = batch(step, model.config)
        lr = optim.warmup_cosine(step, lr=0.01, min_lr=0.001, warmup=3, total=10)
        optimizer.lr = lr
        for group in theirs.param_groups:
            group["lr"] = lr
        loss = F.cross_entropy(model(tokens), targets)
        _, their_loss = torch_loss(model.config, w, tokens, targets)
        assert loss.item() == pytest.approx(their_loss.item(), abs=1e-8)
        loss.backward()
        their_loss.backward()
        norm = optim.clip_grad_norm(model.parameters(), 1.0)
        assert norm == pytest.approx(torch.nn.utils.clip_grad_norm_(w.values(), 1.0).item(), rel=1e-8)
        clipped += norm > 1
        optimizer.step()
        theirs.step()
        optimizer.zero_grad()
        theirs.zero_grad()
    assert clipped > 0
    for key, p in model.named_parameters():
        close(p.data, w[key], 1e-8)
