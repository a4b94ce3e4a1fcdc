"""No position sees what comes after it, and the next token is what is predicted: what a falling loss cannot show."""

import itertools

import numpy as np
import pytest

import autodiff as ad
import autodiff.functional as F
from autodiff import Tensor, optim
from gpt.config import CHOICES, GPTConfig
from gpt.model import GPT, Attention, Cache

COMBINATIONS = list(itertools.product(CHOICES["pos"], CHOICES["norm"], CHOICES["mlp"]))
LENGTH, VOCAB = 8, 11


def make(pos="learned", norm="layernorm", mlp="gelu", **changes):
    fields = {
        "vocab_size": VOCAB, "block_size": LENGTH, "n_layer": 2, "n_head": 4, "n_embd": 16, "dtype": "float64",
        "bias": True, "tied": norm == "layernorm", "n_kv_head": 2 if mlp == "swiglu" else 4,
        "embed_norm": mlp == "relu",
    }  # fmt: skip
    model = GPT(GPTConfig(**{**fields, "pos": pos, "norm": norm, "mlp": mlp, **changes}), rng=1)
    rng = np.random.default_rng(2)
    for p in model.parameters():  # far from the start, where everything is nearly linear and biases are zero
        p.data += rng.normal(size=p.shape) * 0.3
    return model


@pytest.mark.parametrize(("pos", "norm", "mlp"), COMBINATIONS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_last_three_inputs_leave_earlier_logits_bitwise_equal(pos, norm, mlp, dtype):
    model = make(pos, norm, mlp, dtype=dtype).eval()
    rng = np.random.default_rng(3)
    tokens = rng.integers(0, VOCAB, (2, LENGTH))
    changed = tokens.copy()
    changed[:, -3:] = (changed[:, -3:] + rng.integers(1, VOCAB, (2, 3))) % VOCAB
    before, after = model(tokens).data, model(changed).data
    assert np.array_equal(before[:, :-3], after[:, :-3])
    assert not np.isclose(before[:, -3:], after[:, -3:]).all(axis=-1).any()  # the change arrives where it may


@pytest.mark.parametrize(("pos", "norm", "mlp"), COMBINATIONS)
def test_the_gradient_to_later_positions_is_exactly_zero(pos, norm, mlp):
    model = make(pos, norm, mlp, tied=False)
    model.embedding.weight.data[...] = np.random.default_rng(4).normal(size=(VOCAB, 16))
    tokens = np.arange(LENGTH)[None]  # each token once, so that a row of the table stands for a position
    logits = model(tokens)
    for i in (0, 3, LENGTH - 2):
        (gradient,) = ad.gradients([logits[0, i].sum()], [model.embedding.weight])
        assert not gradient.data[i + 1 :].any()
        assert all(row.any() for row in gradient.data[: i + 1])


@pytest.mark.parametrize("pos", CHOICES["pos"])
def test_positions_are_told_apart(pos):
    model = make(pos, n_layer=1)  # further layers see which tokens an earlier one could see: the mask tells positions
    logits = model([[5, 5, 5, 5]]).data
    same = np.isclose(logits[0, 1:], logits[0, 0]).all(axis=-1)
    # equal tokens see the same where nothing is added to them; RoPE turns queries and keys, not values
    assert same.all() if pos in ("none", "rope") else not same.any()
    last, swapped = model([[1, 2, 3]]).data[0, -1], model([[2, 1, 3]]).data[0, -1]
    assert np.allclose(last, swapped) == (pos == "none")


@pytest.mark.parametrize("pos", CHOICES["pos"])
def test_rows_of_a_batch_do_not_see_each_other(pos):
    model = make(pos)
    tokens = np.random.default_rng(5).integers(0, VOCAB, (3, LENGTH))
    together = model(tokens).data
    for row, alone in zip(tokens, together, strict=True):
        np.testing.assert_allclose(model(row).data, alone, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(("pos", "norm", "mlp"), COMBINATIONS)
def test_cached_logits_are_the_uncached_ones(pos, norm, mlp):
    model = make(pos, norm, mlp).eval()
    tokens = np.random.default_rng(6).integers(0, VOCAB, (2, LENGTH))
    with ad.no_grad():
        whole = model(tokens).data
        for cuts in ([1] * LENGTH, [5, 1, 1, 1], [3, 4, 1], [LENGTH]):  # one at a time, a prompt first, several, all
            cache = Cache(model.config, 2)
            parts, start = [], 0
            for cut in cuts:
                parts.append(model(tokens[:, start : start + cut], cache=cache).data)
                start += cut
            assert cache.length == LENGTH
            np.testing.assert_allclose(np.concatenate(parts, axis=1), whole, rtol=0, atol=1e-10)


# --- heads ---


def test_reshaping_to_heads_at_once_mixes_positions():
    x = np.arange(80).reshape(2, 5, 8)
    right = x.reshape(2, 5, 2, 4).swapaxes(1, 2)
    assert (right == x.reshape(2, 2, 5, 4)).sum() == 16  # of 80 entries: the shapes agree, little else does


def test_attention_is_a_loop_over_heads():
    config = GPTConfig(
        vocab_size=3, block_size=5, n_layer=1, n_head=4, n_kv_head=2, n_embd=8, pos="none", dtype="float64", bias=True
    )
    attention = Attention(config, np.random.default_rng(0))
    for p in attention.parameters():
        p.data[...] = np.random.default_rng(p.size).normal(size=p.shape)
    x = np.arange(80).reshape(2, 5, 8) / 40 - 1
    w, b = attention.qkv.weight.data, attention.qkv.bias.data
    expected = np.empty((2, 5, 8))
    for row, t, head in itertools.product(range(2), range(5), range(4)):
        query, key, value = (slice(2 * n, 2 * n + 2) for n in (head, 4 + head // 2, 6 + head // 2))
        q = x[row, t] @ w[:, query] + b[query]
        scores = np.array([q @ (x[row, s] @ w[:, key] + b[key]) for s in range(t + 1)]) / 2**0.5
        weights = np.exp(scores) / np.exp(scores).sum()
        expected[row, t, 2 * head : 2 * head + 2] = sum(
            a * (x[row, s] @ w[:, value] + b[value]) for s, a in enumerate(weights)
        )
    expected = expected @ attention.proj.weight.data + attention.proj.bias.data
    np.testing.assert_allclose(attention(Tensor(x)).data, expected, rtol=1e-12, atol=1e-13)


# --- targets ---


def train(model, text, shift, steps=120):
    """Fit windows of a text, with targets that lie `shift` positions ahead; return the final loss."""
    optimizer = optim.AdamW(model.parameters(), lr=0.02, weight_decay=0.0)
    starts = np.arange(0, len(text) - LENGTH - 2, 3)
    windows = starts[:, None] + np.arange(LENGTH)
    for _ in range(steps):
        loss = F.cross_entropy(model(text[windows]), text[windows + shift])
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return loss.item()


def test_a_random_text_can_only_be_copied_not_predicted():
    text = np.random.default_rng(7).integers(0, 4, 120)
    fields = {"vocab_size": 4, "n_layer": 1, "n_embd": 8, "n_head": 2, "n_kv_head": 2, "embed_norm": False}
    assert train(make("none", **fields), text, shift=0) < 0.05  # the diagonal is visible: target = input is a leak
    assert train(make("none", **fields), text, shift=1) > 0.6  # the next one is not, only what 40 windows let one learn
    alternating = np.arange(120) % 2
    assert train(make("none", **fields), alternating, shift=1) < 0.05  # where there is something to predict, it is
