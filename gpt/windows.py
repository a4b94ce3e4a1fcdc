"""Functions of one row of token ids: checking it, cutting it into windows, and what mere counting predicts."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from gpt.corpus import DataError
from gpt.streams import stream

__all__ = ["Batch", "Tokens", "batch", "bigram_baseline", "check_ids", "unigram_baseline", "windows"]

Tokens = npt.NDArray[np.integer[Any]]
Batch = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]  # inputs and targets, each [B, T]


def check_ids(tokens: npt.ArrayLike, vocab_size: int, source: str = "tokens") -> Tokens:
    """Return token ids as an array if a vocabulary contains them all.

    NumPy would take id -1 for the last row of the embedding without complaint; this is where it is stopped.

    Parameters
    ----------
    tokens : array_like of int, shape [n]
    vocab_size : int
        V; valid ids are 0 to V - 1.
    source : str
        Where the tokens are from, for the message.

    Raises
    ------
    DataError
        If the tokens are not one row of integers, or for the first id outside the vocabulary.

    Examples
    --------
    >>> check_ids([3, 5, -1], 65, "corpus.txt")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    gpt.corpus.DataError: corpus.txt: token id -1 at position 2 is outside the vocabulary of 65 (ids 0 to 64); ...
    """
    array = np.asarray(tokens)
    if array.ndim != 1 or (array.size and not np.issubdtype(array.dtype, np.integer)):
        raise DataError(f"{source}: tokens must be one row of integers, not {array.dtype} of shape {array.shape}")
    if array.size and (array.min() < 0 or array.max() >= vocab_size):
        position = int(np.flatnonzero((array < 0) | (array >= vocab_size))[0])
        raise DataError(
            f"{source}: token id {array[position]} at position {position} is outside the vocabulary of {vocab_size} "
            f"(ids 0 to {vocab_size - 1}); encode the text with the model's own tokenizer, or enlarge vocab_size"
        )
    return array


def windows(tokens: Tokens, starts: npt.NDArray[np.integer[Any]], block_size: int) -> Batch:
    """Return the windows that begin at `starts`: inputs x, and as targets y the tokens one place further on.

    ``x[b, t] = tokens[starts[b] + t]`` and ``y[b, t] = tokens[starts[b] + t + 1]``: position t learns to predict its
    successor, so a window takes `block_size` + 1 tokens.

    Examples
    --------
    >>> x, y = windows(np.arange(10), np.array([0, 5]), 3)
    >>> x.tolist(), y.tolist()
    ([[0, 1, 2], [5, 6, 7]], [[1, 2, 3], [6, 7, 8]])
    """
    places = starts[:, None] + np.arange(block_size)
    return tokens[places].astype(np.int64), tokens[places + 1].astype(np.int64)


def batch(tokens: Tokens, batch_size: int, block_size: int, seed: int, step: int) -> Batch:
    """Return the random windows of a training step: a pure function of (seed, step).

    Parameters
    ----------
    tokens : ndarray of int, shape [n]
        Needs n >= `block_size` + 1. Window starts are uniform over 0 to n - `block_size` - 1, both included.
    batch_size, block_size : int
        B and T.
    seed, step : int
        Seed of the run and number of the step, at least 0.

    Returns
    -------
    x, y : ndarray of int64, shape [B, T]
        Inputs, and targets shifted by one.

    Examples
    --------
    >>> x, y = batch(np.arange(100), batch_size=4, block_size=7, seed=0, step=12)
    >>> x.shape, bool((y == x + 1).all())
    ((4, 7), True)
    """
    starts = stream(seed, "batch", step).integers(0, len(tokens) - block_size, size=batch_size)
    return windows(tokens, starts, block_size)


def unigram_baseline(train: Tokens, val: Tokens, vocab_size: int, smoothing: float = 0.1) -> float:
    """Return the cross-entropy of token frequencies, in nats a token.

    ``p(b) = (count(b) + s) / (n + s V)``, counted in `train`, judged on the targets of `val` (all but its first token,
    the same that a bigram is judged on).

    Parameters
    ----------
    train, val : ndarray of int, shape [n], [m]
        With m >= 2.
    vocab_size : int
        V.
    smoothing : float
        s > 0, added to every count, so that what was not seen is not impossible.

    Examples
    --------
    >>> loss = unigram_baseline(np.array([0, 0, 0, 1]), np.array([0, 0]), 2, smoothing=1)
    >>> round(float(np.exp(-loss)), 6)  # (3 + 1) / (4 + 2)
    0.666667
    """
    counts = np.bincount(train, minlength=vocab_size) + smoothing
    return float(-np.log(counts[val[1:]] / counts.sum()).mean())


def bigram_baseline(train: Tokens, val: Tokens, vocab_size: int, smoothing: float = 0.1) -> float:
    """Return the cross-entropy of a table of neighbours, in nats a token; a model should do better.

    ``p(b | a) = (count(a, b) + s) / (count(a) + s V)``, counted in `train` (where something follows a), judged on the
    neighbours within `val`. Parameters as for `unigram_baseline`.

    Examples
    --------
    >>> loss = bigram_baseline(np.array([0, 1, 0, 1, 0]), np.array([0, 1]), 2, smoothing=1)
    >>> round(float(np.exp(-loss)), 6)  # (2 + 1) / (2 + 2)
    0.75
    """
    # A pair is the number a V + b. Only pairs that occur are counted: V^2 counts of a large vocabulary are too many.
    seen, counts = np.unique(_pairs(train, vocab_size), return_counts=True)
    asked = _pairs(val, vocab_size)
    place = np.searchsorted(seen, asked).clip(max=len(seen) - 1)
    pair_counts = np.where(seen[place] == asked, counts[place], 0)
    first_counts = np.bincount(train[:-1], minlength=vocab_size)[val[:-1]]
    return float(-np.log((pair_counts + smoothing) / (first_counts + smoothing * vocab_size)).mean())


def _pairs(tokens: Tokens, vocab_size: int) -> npt.NDArray[np.int64]:
    """Return each pair of neighbours as one number."""
    return tokens[:-1].astype(np.int64) * vocab_size + tokens[1:]
