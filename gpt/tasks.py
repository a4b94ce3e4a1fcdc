"""Sequence tasks with exact answers: sort, add, copy. They show whether a model learns a rule or only its examples.

A sequence is the question's symbols followed by the answer's. The model reads it like text, but only the answer's
symbols are targets: those of the question cannot be predicted. The set-up of sort and add is minGPT's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gpt.config import nearest, whole
from gpt.streams import stream
from gpt.tokenizer import CharTokenizer
from gpt.windows import Batch

__all__ = ["TASKS", "Task", "TaskData"]

Symbols = npt.NDArray[np.int64]  # [n, length], each from 0 to the number of symbols - 1

ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyz"
HELD_OUT_PART = 4  # every fourth question is held out
MAX_QUESTIONS = 10**7  # they are listed, to be split once and for all; a longer task has more than training can visit


@dataclass(frozen=True)
class Task:
    """A rule that maps questions to answers, and its usual size."""

    summary: str
    length: int
    symbols: int
    operands: int  # the question has this many times `length` symbols
    answer: Callable[[Symbols, int], Symbols]  # of questions [n, operands * length] and the number of symbols


def _digits(numbers: Symbols, places: int, base: int) -> Symbols:
    """Write numbers [n] in a base, most significant digit first: [n, places]."""
    powers = base ** np.arange(places - 1, -1, -1, dtype=np.int64)
    return numbers[:, None] // powers % base


def _sorted(questions: Symbols, symbols: int) -> Symbols:
    """Return the same symbols in ascending order."""
    return np.sort(questions, axis=1)


def _copied(questions: Symbols, symbols: int) -> Symbols:
    """Return the same symbols."""
    return questions.copy()


def _added(questions: Symbols, symbols: int) -> Symbols:
    """Return the sum of both halves, read as numbers; least significant digit first, as carries run that way."""
    length = questions.shape[1] // 2
    powers = symbols ** np.arange(length - 1, -1, -1, dtype=np.int64)
    total = questions[:, :length] @ powers + questions[:, length:] @ powers
    return _digits(total, length + 1, symbols)[:, ::-1]


TASKS = {
    "sort": Task("the same symbols in ascending order", length=6, symbols=3, operands=1, answer=_sorted),
    "add": Task("the sum of two numbers, last digit first", length=2, symbols=10, operands=2, answer=_added),
    "copy": Task("the same symbols again", length=6, symbols=4, operands=1, answer=_copied),
}


def _mix(numbers: Symbols) -> npt.NDArray[np.uint64]:
    """Return a well mixed 64-bit hash of each number (the finaliser of SplitMix64; Steele, Lea and Flood, 2014)."""
    z = numbers.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


class TaskData:
    """Questions of a task, a quarter of them held out.

    Whether a question is held out is decided by a hash of the question alone, so the parts are disjoint and the same
    for every seed.

    Parameters
    ----------
    name : {"sort", "add", "copy"}
    seed : int
        Of the batches, at least 0.
    length : int, optional
        Symbols of the sequence to sort or copy, or digits of each number to add; by default 6, 2, 6.
    symbols : int, optional
        Number of symbols, 2 to 36, which is the vocabulary size; by default 3, 10, 4. Addition takes it as the base.

    Attributes
    ----------
    question_length, answer_length : int
        Symbols in a question and in an answer.
    recipe : dict
        ``{"task": name, "length": ..., "symbols": ...}``, JSON-safe.
    vocab_size, block_size : int
        Number of symbols, and ``question_length + answer_length - 1``: the last symbol is a target only.

    Raises
    ------
    ValueError
        For an unknown task or an impossible size.

    Examples
    --------
    >>> data = TaskData.named("sort")
    >>> data.describe()["example"]
    '222022 -> 022222'
    >>> x, y = next(data.eval_batches(1))
    >>> data.tokenizer.decode(x[0]), y[0].tolist()
    ('22202202222', [-1, -1, -1, -1, -1, 0, 2, 2, 2, 2, 2])
    """

    def __init__(self, name: str, *, seed: int = 0, length: int | None = None, symbols: int | None = None) -> None:
        if name not in TASKS:
            raise ValueError(f"unknown task {name!r}; {nearest(name, TASKS)}")
        self.name, self.task = name, TASKS[name]
        length = whole("length", self.task.length if length is None else length, 1, 64)
        symbols = whole("symbols", self.task.symbols if symbols is None else symbols, 2, len(ALPHABET))
        self.seed = whole("seed", seed, 0)
        self.source = f"task {name}"
        self.recipe: dict[str, Any] = {"task": name, "length": length, "symbols": symbols}
        self.vocab_size = symbols
        self.tokenizer = CharTokenizer(ALPHABET[:symbols])
        self.question_length = self.task.operands * length
        total = symbols**self.question_length
        if total > MAX_QUESTIONS:
            raise ValueError(
                f"task {name} with length={length} and symbols={symbols} has {total:,} questions; "
                f"reduce length or symbols, at most {MAX_QUESTIONS:,} are allowed"
            )
        numbers = np.arange(total, dtype=np.int64)
        mixed = _mix(numbers)
        held_out = mixed % HELD_OUT_PART == 0
        self._train = numbers[~held_out]
        self._held_out = numbers[held_out][np.argsort(mixed[held_out])]  # mixed, so that the first few are typical
        if not self._train.size or not self._held_out.size:
            raise ValueError(f"task {name} has only {total} questions; increase length={length} or symbols={symbols}")
        self.answer_length = self._solve(self._held_out[:1])[1].shape[1]
        self.block_size = self.question_length + self.answer_length - 1

    @classmethod
    def named(cls, name: str, *, seed: int = 0, length: int | None = None, symbols: int | None = None) -> TaskData:
        """Return the data of the task of this name; parameters as for the class."""
        return cls(name, seed=seed, length=length, symbols=symbols)

    def _solve(self, numbers: Symbols) -> tuple[Symbols, Symbols]:
        """Return the questions of these numbers and their answers."""
        questions = _digits(numbers, self.question_length, self.vocab_size)
        return questions, self.task.answer(questions, self.vocab_size)

    def _batch(self, numbers: Symbols) -> Batch:
        """Return inputs and targets; only the answer's symbols are targets."""
        sequence = np.concatenate(self._solve(numbers), axis=1)
        x, y = sequence[:, :-1].copy(), sequence[:, 1:].copy()
        y[:, : self.question_length - 1] = -1
        return x, y

    def batch(self, step: int, batch_size: int) -> Batch:
        """Return random questions of the training part with their answers: a pure function of (seed, step).

        Returns
        -------
        x, y : ndarray of int64, shape [batch_size, block_size]
            Inputs, and targets shifted by one; -1, to be ignored, where the target belongs to the question.
        """
        chosen = stream(self.seed, "batch", step).integers(0, len(self._train), size=batch_size)
        return self._batch(self._train[chosen])

    @property
    def has_validation(self) -> bool:
        """True: there are always held-out questions."""
        return True

    def eval_batches(self, batch_size: int, count: int | None = None) -> Iterator[Batch]:
        """Yield held-out questions with answers, always the same ones, each once; the last batch may be smaller."""
        total = len(self._held_out) if count is None else min(len(self._held_out), batch_size * count)
        for first in range(0, total, batch_size):
            yield self._batch(self._held_out[first : min(first + batch_size, total)])

    def held_out(self, count: int | None = None) -> tuple[Symbols, Symbols]:
        """Return the first `count` (None: all) held-out questions and their answers, each [n, length]."""
        return self._solve(self._held_out[:count])

    def exact_match(self, predict: Callable[[Symbols, int], npt.ArrayLike], count: int | None = None) -> float:
        """Return the share of held-out questions that are answered without any error.

        Parameters
        ----------
        predict : callable
            Given questions, int64 [n, question_length], and the answer length m, returns answers [n, m]. For a model:
            ``lambda q, m: model.generate(q, m, temperature=0)[:, -m:]``.
        count : int, optional
            How many held-out questions to ask; None asks all.

        Raises
        ------
        ValueError
            If `predict` returns another shape.

        Examples
        --------
        >>> data = TaskData.named("copy", length=3)
        >>> data.exact_match(lambda q, m: q[:, :m])
        1.0
        """
        questions, answers = self.held_out(count)
        given = np.asarray(predict(questions, self.answer_length))
        if given.shape != answers.shape:
            raise ValueError(f"predict returned shape {given.shape}; the answers have shape {answers.shape}")
        return float((given == answers).all(axis=1).mean())

    def baselines(self) -> dict[str, float]:
        """Return ``{"uniform": ln V}``, the loss in nats a token of guessing."""
        return {"uniform": math.log(self.vocab_size)}

    def bytes_per_token(self) -> None:
        """Return None: symbols of a task are no text."""

    def describe(self) -> dict[str, Any]:
        """Return task, sizes and an example, JSON-safe, in the order to print them."""
        question, answer = (self.tokenizer.decode(row[0]) for row in self.held_out(1))
        return {
            "source": self.source,
            "rule": self.task.summary,
            "example": f"{question} -> {answer}",
            "train_questions": len(self._train),
            "held_out_questions": len(self._held_out),
            "vocab_size": self.vocab_size,
            "block_size": self.block_size,
            "notes": [],
        }
