"""What a model is trained and judged on: text cut into windows (`TextData`), or a small sequence task (`TaskData`).

Both offer the members of `Data`, so that training does not ask which it has. Batches are a pure function of (seed,
step): nothing is stored between steps, so a resumed run sees exactly the batches that the uninterrupted one would see.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from gpt.config import whole
from gpt.corpus import DataError, builtin_text, read_text
from gpt.tasks import TaskData
from gpt.tokenizer import CharTokenizer, Tokenizer
from gpt.windows import Batch, batch, bigram_baseline, check_ids, unigram_baseline, windows

__all__ = ["Data", "DataError", "TaskData", "TextData", "batch", "check_ids", "open_data"]


class Data(Protocol):
    """What training needs of its data. Targets of -1 are to be ignored by the loss; they occur in tasks only."""

    @property
    def source(self) -> str:
        """Where the data are from, for people."""

    @property
    def vocab_size(self) -> int:
        """Number of token ids V."""

    @property
    def block_size(self) -> int:
        """Window length T: the context that a model of these data needs."""

    @property
    def tokenizer(self) -> Tokenizer | None:
        """What turns text into these token ids."""

    @property
    def recipe(self) -> dict[str, Any]:
        """How the data were made, JSON-safe, so that a run can be resumed or judged without naming them again."""

    def batch(self, step: int, batch_size: int) -> Batch:
        """Return inputs and targets of a training step, each int64 of shape [batch_size, T], T <= `block_size`."""

    @property
    def has_validation(self) -> bool:
        """Whether `eval_batches` yields anything."""

    def eval_batches(self, batch_size: int, count: int | None = None) -> Iterator[Batch]:
        """Yield at most `count` batches of held-out data, always the same ones."""

    def baselines(self) -> dict[str, float]:
        """Return validation losses, in nats a token, of predictors that need no model."""

    def bytes_per_token(self) -> float | None:
        """Return the mean UTF-8 bytes of a token, or None where that means nothing."""

    def describe(self) -> dict[str, Any]:
        """Return what the model will see, JSON-safe, in the order to print it."""


class TextData:
    """A text as tokens, split into a first part to train on and a last part (a tenth) to validate on.

    The parts are contiguous: a random split would let validation windows overlap training windows. The training part
    is never shorter than one window. In a text of fewer than ``10 * (block_size + 1)`` tokens the last tenth may be
    shorter than a window; then validation uses one window of what is left, shorter than `block_size`, or there is no
    validation if fewer than two tokens are left. `notes` says so.

    Parameters
    ----------
    tokens : array_like of int, shape [n]
    vocab_size : int
        V.
    block_size : int
        Window length T; n >= T + 1 is needed.
    seed : int
        Of the batches, at least 0.
    source : str
        Where the tokens are from, for messages.
    tokenizer : Tokenizer, optional
        That made the tokens.

    Attributes
    ----------
    train, val : ndarray of int
        The two parts.
    notes : list of str
        What the user should know about the split; usually empty.
    recipe : dict
        ``{"files": absolute paths, "encoding": str or None}``, ``{"builtin": True}``, or empty for text and tokens that
        came from elsewhere.

    Raises
    ------
    DataError
        If there are too few tokens or ids outside the vocabulary.

    Examples
    --------
    >>> data = TextData.from_text("to be or not to be, " * 50, block_size=8)
    >>> data.vocab_size, len(data.train), len(data.val)
    (8, 900, 100)
    >>> x, y = data.batch(step=0, batch_size=2)
    >>> x.shape, bool((x[:, 1:] == y[:, :-1]).all())
    ((2, 8), True)
    """

    def __init__(
        self,
        tokens: npt.ArrayLike,
        *,
        vocab_size: int,
        block_size: int,
        seed: int = 0,
        source: str = "tokens",
        tokenizer: Tokenizer | None = None,
    ) -> None:
        self.source, self.tokenizer = source, tokenizer
        self.vocab_size = whole("vocab_size", vocab_size, 1)
        self.block_size = whole("block_size", block_size, 1)
        self.seed = whole("seed", seed, 0)
        tokens = check_ids(tokens, vocab_size, source)
        window = block_size + 1
        if len(tokens) < window:
            shorter = f", or --block-size {len(tokens) - 1} or less" if len(tokens) > 1 else ""
            raise DataError(
                f"{source}: {len(tokens)} token(s) are too few for block_size={block_size}, which needs "
                f"block_size + 1 = {window}; use a longer text{shorter}"
            )
        split = max(len(tokens) * 9 // 10, window)
        self.train, self.val = tokens[:split], tokens[split:]
        self.notes = self._notes(len(tokens))
        self.recipe: dict[str, Any] = {}

    @classmethod
    def from_text(
        cls, text: str, *, block_size: int, seed: int = 0, source: str = "text", tokenizer: Tokenizer | None = None
    ) -> TextData:
        """Encode a text, by default with a `CharTokenizer` of its own characters; parameters as for the class."""
        if not text:
            raise DataError(f"{source} is empty; there is nothing to train on")
        tokenizer = CharTokenizer(text) if tokenizer is None else tokenizer
        try:
            tokens = tokenizer.encode(text)
        except ValueError as error:
            raise DataError(f"{source}: {error}") from error
        size = tokenizer.vocab_size
        return cls(tokens, vocab_size=size, block_size=block_size, seed=seed, source=source, tokenizer=tokenizer)

    @classmethod
    def from_files(
        cls,
        paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
        encoding: str | None = None,
        *,
        block_size: int,
        seed: int = 0,
        tokenizer: Tokenizer | None = None,
    ) -> TextData:
        """Read and encode text files (see `gpt.corpus.read_text`); parameters as for the class."""
        text = read_text(paths, encoding)
        names = [paths] if isinstance(paths, (str, os.PathLike)) else paths
        source = " + ".join(os.fspath(name) for name in names)
        data = cls.from_text(text, block_size=block_size, seed=seed, source=source, tokenizer=tokenizer)
        data.recipe = {"files": [os.path.abspath(name) for name in names], "encoding": encoding}
        return data

    @classmethod
    def builtin(cls, *, block_size: int, seed: int = 0, tokenizer: Tokenizer | None = None) -> TextData:
        """Encode the built-in text (see `gpt.corpus.builtin_text`); parameters as for the class."""
        source = "built-in text (Python's help topics)"
        data = cls.from_text(builtin_text(), block_size=block_size, seed=seed, source=source, tokenizer=tokenizer)
        data.recipe = {"builtin": True}
        return data

    def batch(self, step: int, batch_size: int) -> Batch:
        """Return the random windows of a training step; see the function `batch`."""
        return batch(self.train, batch_size, self.block_size, self.seed, step)

    @property
    def has_validation(self) -> bool:
        """Whether the validation part holds at least one pair of neighbours."""
        return len(self.val) >= 2

    def eval_batches(self, batch_size: int, count: int | None = None) -> Iterator[Batch]:
        """Yield evenly spaced windows over the whole validation part, always the same ones.

        Parameters
        ----------
        batch_size : int
            Windows in a batch; the last batch may hold fewer, so weight batches by their number of targets.
        count : int, optional
            Most batches to yield. None, or more than are needed, means every token is a target at least once.

        Yields
        ------
        x, y : ndarray of int64, shape [B, T]
            T is `block_size`, or less where the validation part is shorter than a window.
        """
        if not self.has_validation:
            return
        last = len(self.val) - 1  # the last token is a target only
        width = min(self.block_size, last)
        total = math.ceil(last / width)
        if count is not None:
            total = min(total, batch_size * count)
        starts = np.arange(total) * (last - width) // max(total - 1, 1)  # whole numbers: no gap by rounding
        for first in range(0, total, batch_size):
            yield windows(self.val, starts[first : first + batch_size], width)

    def baselines(self) -> dict[str, float]:
        """Return cross-entropies on the validation part, in nats a token, of predictors that only count.

        ``uniform`` is ln V, what an untrained model should score; ``unigram`` and ``bigram`` (absent without
        validation) are what is reached without a model; see the functions of that name.
        """
        found = {"uniform": math.log(self.vocab_size)}
        if self.has_validation:
            found["unigram"] = unigram_baseline(self.train, self.val, self.vocab_size)
            found["bigram"] = bigram_baseline(self.train, self.val, self.vocab_size)
        return found

    def bytes_per_token(self) -> float | None:
        """Return the mean UTF-8 bytes of a validation token, or None without a tokenizer or validation.

        Bits per byte are ``loss / ln 2 / bytes_per_token``: unlike nats a token they compare between tokenizers.
        """
        if self.tokenizer is None or not self.has_validation:
            return None
        return len(self.tokenizer.decode(self.val).encode("utf-8", "surrogatepass")) / len(self.val)

    def describe(self) -> dict[str, Any]:
        """Return source, sizes and notes, JSON-safe, in the order to print them."""
        return {
            "source": self.source,
            "tokens": len(self.train) + len(self.val),
            "train_tokens": len(self.train),
            "val_tokens": len(self.val),
            "vocab_size": self.vocab_size,
            "block_size": self.block_size,
            "notes": list(self.notes),
        }

    def _notes(self, total: int) -> list[str]:
        """Say how a short text was split."""
        window, left = self.block_size + 1, len(self.val)
        if left >= window:
            return []
        need = f"{10 * window} tokens would give both parts whole windows"
        if not self.has_validation:
            return [f"no validation: {total} tokens hold little more than one window of {window}; {need}"]
        return [f"validation is one window of {left} tokens, shorter than block_size + 1 = {window}; {need}"]


def open_data(recipe: Mapping[str, Any], *, block_size: int, seed: int = 0, tokenizer: Tokenizer | None = None) -> Data:
    """Make the data that a recipe describes.

    Parameters
    ----------
    recipe : mapping
        ``{"task": NAME}``, ``{"files": [PATH, ...], "encoding": NAME or None}``, or ``{"builtin": True}``.
    block_size : int
        Window length of a text; a task has its own.
    seed : int
        Of the batches.
    tokenizer : Tokenizer, optional
        For a text; by default one made from it.

    Raises
    ------
    DataError
        If the data cannot be read, or the recipe is none of these.

    Examples
    --------
    >>> open_data({"task": "sort"}, block_size=64).block_size
    11
    """
    if "task" in recipe:
        return TaskData.named(recipe["task"], seed=seed, length=recipe.get("length"), symbols=recipe.get("symbols"))
    if recipe.get("files"):
        return TextData.from_files(
            recipe["files"], recipe.get("encoding"), block_size=block_size, seed=seed, tokenizer=tokenizer
        )
    if recipe.get("builtin"):
        return TextData.builtin(block_size=block_size, seed=seed, tokenizer=tokenizer)
    raise DataError("these data were not read from files, so they cannot be read again; name some with --data")
