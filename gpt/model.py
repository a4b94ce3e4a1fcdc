"""The model: a decoder-only Transformer, from token ids to logits, in the order in which one reads a textbook.

Shapes are written with B rows (sequences), T positions, d the width of the residual stream, H query heads, G key/value
heads, D = d / H the width of a head, f the hidden width of the MLP and V tokens. There is no gradient code here: it is
all in the operations.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

import autodiff.functional as F
from autodiff import Tensor, nn, no_grad, scope
from autodiff.arguments import generator
from gpt.config import GPTConfig, whole
from gpt.sample import check_sampling, next_token
from gpt.tokenizer import Tokenizer

__all__ = ["GPT", "MLP", "Attention", "Block", "Cache"]

STD = 0.02
"""Standard deviation of GPT-2's initial weights."""


class Attention(nn.Module):
    """Causal self-attention with H query heads, whose keys and values may be shared by groups of heads.

    Parameters
    ----------
    config : GPTConfig
    rng : Generator
        Source of the initial values.

    Attributes
    ----------
    qkv : Linear d -> (H + 2 G) D
        Queries, keys and values side by side, in this order.
    proj : Linear d -> d
        From the joined heads back into the residual stream.

    References
    ----------
    Vaswani et al., Attention Is All You Need, 2017, section 3.2. Ainslie et al., GQA, 2023 (grouped heads).
    """

    def __init__(self, config: GPTConfig, rng: np.random.Generator) -> None:
        self.config = config
        heads = config.n_head + 2 * config.n_kv_head
        self.qkv = _linear(config, config.n_embd, heads * config.head_dim, STD, rng)
        self.proj = _linear(config, config.n_embd, config.n_embd, _residual_std(config), rng)
        self.dropout = nn.Dropout(config.dropout, rng=rng)

    def forward(self, x: Tensor, memory: npt.NDArray[np.floating] | None = None, offset: int = 0) -> Tensor:
        """Attend from every position of x [B, T, d] to itself and those before it.

        Parameters
        ----------
        x : Tensor [B, T, d]
        memory : ndarray [2, B, G, block_size, D], optional
            Keys and values of earlier positions; those of x are written behind them.
        offset : int
            Number of earlier positions.
        """
        c = self.config
        q, k, v = F.split_heads(self.qkv(x), counts=(c.n_head, c.n_kv_head, c.n_kv_head))
        if c.pos == "rope":
            q, k = F.rope(q, theta=c.rope_theta, offset=offset), F.rope(k, theta=c.rope_theta, offset=offset)
        if memory is not None:
            if k.requires_grad:
                raise RuntimeError("a cache holds values without gradients: call the model under autodiff.no_grad()")
            end = offset + x.shape[1]
            for kept, new in zip(memory, (k, v), strict=True):
                kept[:, :, offset:end] = new.data
            k, v = memory[:, :, :, :end]
        y = F.scaled_dot_product_attention(
            q, k, v, causal=True, dropout=self.dropout.rate, rng=self.dropout.stream() if self.dropout.rate else None
        )
        out: Tensor = self.proj(F.merge_heads(y))
        return out


class MLP(nn.Module):
    """The position-wise network: up to the hidden width, a nonlinearity, and down again.

    Parameters
    ----------
    config : GPTConfig
    rng : Generator
        Source of the initial values.

    Attributes
    ----------
    up, down : Linear d -> f -> d
        With ``mlp="relu"`` or ``"gelu"``: ``act(x up) down``.
    w1, w3, w2 : Linear
        With ``mlp="swiglu"``: ``(SiLU(x w1) * x w3) w2``.

    References
    ----------
    Shazeer, GLU Variants Improve Transformer, 2020, equation 6 (SwiGLU).
    """

    def __init__(self, config: GPTConfig, rng: np.random.Generator) -> None:
        self.kind = config.mlp
        d, f = config.n_embd, config.d_ff
        if self.kind == "swiglu":
            self.w1 = _linear(config, d, f, STD, rng)
            self.w3 = _linear(config, d, f, STD, rng)
            self.w2 = _linear(config, f, d, _residual_std(config), rng)
        else:
            self.up = _linear(config, d, f, STD, rng)
            self.down = _linear(config, f, d, _residual_std(config), rng)

    def forward(self, x: Tensor) -> Tensor:
        """Map every position of x [B, T, d] by itself."""
        out: Tensor
        if self.kind == "swiglu":
            out = self.w2(F.swiglu(self.w1(x), self.w3(x)))
        else:
            out = self.down(F.relu(self.up(x)) if self.kind == "relu" else F.gelu(self.up(x)))
        return out


class Block(nn.Module):
    """One layer: attention, then MLP, each behind a norm and added to the residual stream.

    Parameters
    ----------
    config : GPTConfig
    rng : Generator
        Source of the initial values.

    References
    ----------
    Xiong et al., On Layer Normalization in the Transformer Architecture, 2020 (pre-norm).
    """

    def __init__(self, config: GPTConfig, rng: np.random.Generator) -> None:
        self.norm1 = _norm(config)
        self.attn = Attention(config, rng)
        self.dropout1 = nn.Dropout(config.dropout, rng=rng)
        self.norm2 = _norm(config)
        self.mlp = MLP(config, rng)
        self.dropout2 = nn.Dropout(config.dropout, rng=rng)

    def forward(self, x: Tensor, memory: npt.NDArray[np.floating] | None = None, offset: int = 0) -> Tensor:
        """Map x [B, T, d] to the same shape; for the other arguments see `Attention.forward`."""
        x = x + self.dropout1(self.attn(self.norm1(x), memory, offset))
        x = x + self.dropout2(self.mlp(self.norm2(x)))
        return x


class Cache:
    """Keys and values of the positions that a model has seen, so that generation need not compute them again.

    Parameters
    ----------
    config : GPTConfig
        Of the model that the cache is for.
    rows : int
        Number of sequences B.

    Attributes
    ----------
    memory : ndarray [n_layer, 2, B, G, block_size, D]
        Keys and values of every block; beyond `length`, undefined.
    length : int
        Number of positions held.
    """

    def __init__(self, config: GPTConfig, rows: int) -> None:
        shape = (config.n_layer, 2, rows, config.n_kv_head, config.block_size, config.head_dim)
        self.memory: npt.NDArray[np.floating] = np.empty(shape, config.dtype)
        self.length = 0


class GPT(nn.Module):
    """A decoder-only Transformer that predicts the next token.

    Parameters
    ----------
    config : GPTConfig
        The architecture.
    rng : int or Generator
        Seed or source of the initial values: weights from N(0, 0.02), those that lead back into the residual stream
        from N(0, 0.02 / sqrt(2 n_layer)), since 2 n_layer of them add up there; biases 0, gains 1.

    Attributes
    ----------
    config : GPTConfig
    tokenizer : Tokenizer or None
        That of the text it was trained on; None until it is trained on one.

    References
    ----------
    Radford et al., Language Models are Unsupervised Multitask Learners, 2019 (GPT-2). Touvron et al., LLaMA, 2023.

    Examples
    --------
    >>> from gpt.config import preset
    >>> from gpt.model import GPT
    >>> import autodiff.functional as F
    >>> model = GPT(preset("toy"), rng=0)
    >>> tokens, targets = [[1, 2, 3]], [[2, 3, 4]]
    >>> logits = model(tokens)
    >>> logits.shape
    (1, 3, 28)
    >>> loss = F.cross_entropy(logits, targets)
    >>> loss.backward()
    >>> model.parameter_count()
    12128
    """

    def __init__(self, config: GPTConfig, rng: int | np.random.Generator = 0) -> None:
        if not isinstance(config, GPTConfig):
            raise TypeError(f"config must be a GPTConfig, not {type(config).__name__}; a preset's is preset(name)")
        rng = generator(rng)
        d, dtype = config.n_embd, config.dtype
        self.config = config
        self.tokenizer: Tokenizer | None = None
        self.embedding = nn.Embedding(config.vocab_size, d, std=STD, rng=rng, dtype=dtype)
        self.positions = None
        if config.pos == "learned":
            self.positions = nn.Embedding(config.block_size, d, std=STD, rng=rng, dtype=dtype)
        self.sinusoids = _sinusoids(config.block_size, d).astype(dtype) if config.pos == "sinusoidal" else None
        self.embed_norm = _norm(config) if config.embed_norm else None
        self.dropout = nn.Dropout(config.dropout, rng=rng)
        self.blocks = [Block(config, rng) for _ in range(config.n_layer)]
        self.final_norm = _norm(config) if config.final_norm else None
        self.head = None
        if not config.tied:
            self.head = nn.Linear(d, config.vocab_size, bias=False, std=STD, rng=rng, dtype=dtype)

    def forward(self, tokens: npt.ArrayLike | Tensor, cache: Cache | None = None) -> Tensor:
        """Return the logits of the token that follows each position.

        Parameters
        ----------
        tokens : integer array_like or Tensor [B, T] or [T]
            Ids from 0 to V - 1; T is at most `block_size`.
        cache : Cache, optional
            What the model has seen before these tokens; they are added to it. Only under ``autodiff.no_grad()``.

        Returns
        -------
        Tensor [B, T, V] or [T, V]
            Those of position t depend on the tokens up to t alone.

        Raises
        ------
        TypeError
            If the tokens are not integers, or targets are given.
        ValueError
            If there are none or too many, or an id is out of range.
        """
        if cache is not None and not isinstance(cache, Cache):
            raise TypeError("a GPT takes tokens only; the loss is F.cross_entropy(model(tokens), targets)")
        ids = np.asarray(tokens.data if isinstance(tokens, Tensor) else tokens)
        if ids.ndim == 1:
            return self.logits(self.hidden(ids[None], cache))[0]
        return self.logits(self.hidden(ids, cache))

    def hidden(self, ids: npt.NDArray[np.integer], cache: Cache | None = None) -> Tensor:
        """Return the residual stream [B, T, d] after the last block and the final norm, for ids [B, T]."""
        offset = 0 if cache is None else cache.length
        length = self._check_shape(ids, offset)
        if cache is not None and cache.memory.shape[2] != len(ids):
            raise ValueError(f"the cache is for {cache.memory.shape[2]} rows, given {len(ids)}")
        x = self.embedding(ids)
        if self.positions is not None:
            x = x + self.positions(np.arange(offset, offset + length))
        if self.sinusoids is not None:
            x = x + self.sinusoids[offset : offset + length]
        if self.embed_norm is not None:
            x = self.embed_norm(x)
        x = self.dropout(x)
        for layer, block in enumerate(self.blocks):
            x = block(x, None if cache is None else cache.memory[layer], offset)
        if cache is not None:
            cache.length += length
        if self.final_norm is not None:
            x = self.final_norm(x)
        out: Tensor = x
        return out

    def logits(self, x: Tensor) -> Tensor:
        """Return the logits [..., V] of hidden states [..., d]: their products with a column per token."""
        if self.head is None:
            with scope("head"):
                out: Tensor = F.linear(x, self.embedding.weight.T)
        else:
            out = self.head(x)
        return out

    def _check_shape(self, ids: npt.NDArray[np.integer], offset: int) -> int:
        """Refuse tokens that do not fit the window; return their number."""
        if ids.ndim != 2 or not ids.size:
            raise ValueError(f"tokens must have the shape [B, T] or [T] with at least one token, not {ids.shape}")
        if ids.dtype.kind not in "iu":
            raise TypeError(f"tokens must be integers, not {ids.dtype}")
        length, block_size = int(ids.shape[1]), self.config.block_size
        if offset + length > block_size:
            before = f" after the {offset} in the cache" if offset else ""
            raise ValueError(
                f"{length} tokens{before} are more than block_size={block_size}; "
                f"keep the last ones, tokens[:, -{block_size}:] (generate does so itself)"
            )
        return length

    def named_parameters(self) -> Iterator[tuple[str, Tensor]]:
        """Yield name and tensor of every parameter, in the order of definition; warn where blocks share one.

        Sharing between embedding and head is declared by ``tied`` and has no second name. Any other is most likely an
        accident, which no gradient check and no falling loss reveals.
        """
        for names in self.shared_parameters():
            warnings.warn(
                f"{' and '.join(names)} are one and the same parameter, so these layers learn as one; give each an "
                f"array of its own (Tensor(array, requires_grad=True) copies)",
                stacklevel=2,
            )
        return super().named_parameters()

    def generate(
        self, ids: npt.ArrayLike | Tensor, max_new_tokens: int, temperature: float = 1.0, top_k: int | None = None,
        top_p: float | None = None, rng: int | np.random.Generator | None = None,
    ) -> npt.NDArray[np.int64]:  # fmt: skip
        """Continue a prompt, token by token.

        Parameters
        ----------
        ids : integer array_like [T] or [B, T]
            The prompt, or several of the same length. The model sees the last `block_size` tokens.
        max_new_tokens : int
            How many to add; the text may become longer than `block_size`.
        temperature, top_k, top_p
            As of `gpt.sample.distribution`: 0 is greedy, None is off.
        rng : int or Generator, optional
            Seed or source. Every row has a stream of its own, spawned from it, so what one row becomes does not depend
            on the others.

        Returns
        -------
        ndarray of int64 [T + max_new_tokens] or [B, T + max_new_tokens]
            The whole prompt and the new tokens.

        Raises
        ------
        ValueError
            For an empty prompt, an id out of range, a setting out of range, or logits that are not finite.
        TypeError
            If the ids are not integers.

        Warns
        -----
        UserWarning
            If the prompt is longer than `block_size`.

        Examples
        --------
        >>> from gpt.config import preset
        >>> from gpt.model import GPT
        >>> model = GPT(preset("toy"), rng=0)
        >>> model.generate([1, 2, 3], 5, temperature=0).shape
        (8,)
        """
        check_sampling(temperature, top_k, top_p)
        count, block = whole("max_new_tokens", max_new_tokens, 0), self.config.block_size
        prompt = _prompt(ids, block)
        single = prompt.ndim == 1
        rows, length = (1, *prompt.shape) if single else prompt.shape
        tokens = np.empty((rows, length + count), np.int64)
        tokens[:, :length] = prompt
        streams = np.random.default_rng(rng).spawn(rows)
        cache = Cache(self.config, rows)
        with no_grad(), self.evaluating():
            for end in range(length, length + count):
                if end > length and cache.length < block:
                    x = self.hidden(tokens[:, end - 1 : end], cache)
                else:  # the prompt; and once the window is full, every position shifts with each new token
                    x = self.hidden(tokens[:, max(0, end - block) : end], cache if end == length else None)
                for row, logits in enumerate(self.logits(x[:, -1]).data):
                    tokens[row, end] = next_token(
                        logits, temperature=temperature, top_k=top_k, top_p=top_p, rng=streams[row]
                    )
        return tokens[0] if single else tokens

    def describe(self) -> str:
        """Return for the repr what the parts do not show."""
        c = self.config
        return f"vocab_size={c.vocab_size}, block_size={c.block_size}, pos={c.pos!r}, tied={c.tied}"


def _prompt(ids: npt.ArrayLike | Tensor, block_size: int) -> npt.NDArray[np.integer]:
    """Return a prompt as an array [T] or [B, T]; refuse an empty one, warn of one that is longer than the window."""
    prompt = np.asarray(ids.data if isinstance(ids, Tensor) else ids)
    if prompt.ndim not in (1, 2):
        raise ValueError(f"ids must have the shape [T] or [B, T], not {prompt.shape}")
    if not prompt.size:
        raise ValueError("the prompt is empty; give at least one token id to begin with, such as that of a line break")
    if prompt.dtype.kind not in "iu":
        raise TypeError(f"ids must be integers, not {prompt.dtype}")
    if prompt.shape[-1] > block_size:
        warnings.warn(
            f"the prompt has {prompt.shape[-1]} tokens, the model sees only the last block_size={block_size} of them",
            stacklevel=3,
        )
    return prompt


def _linear(config: GPTConfig, d_in: int, d_out: int, std: float, rng: np.random.Generator) -> nn.Linear:
    return nn.Linear(d_in, d_out, bias=config.bias, std=std, rng=rng, dtype=config.dtype)


def _residual_std(config: GPTConfig) -> float:
    """Of the weights that lead into the residual stream: its variance then does not grow with the number of layers."""
    return STD / math.sqrt(2 * config.n_layer)


def _norm(config: GPTConfig) -> nn.LayerNorm | nn.RMSNorm:
    d, eps, gain, dtype = config.n_embd, config.norm_eps, config.norm_gain, config.dtype
    if config.norm == "layernorm":
        return nn.LayerNorm(d, eps=eps, gain=gain, bias=config.bias, dtype=dtype)
    return nn.RMSNorm(d, eps=eps, gain=gain, dtype=dtype)


def _sinusoids(length: int, d: int) -> npt.NDArray[np.float64]:
    """Table of fixed positions: PE[pos, 2i] = sin(pos / 10000^(2i/d)), PE[pos, 2i+1] = cos of the same."""
    angles = np.arange(length)[:, None] / 10_000.0 ** (np.arange(0, d, 2) / d)
    return np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(length, d)
