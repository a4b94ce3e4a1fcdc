"""Training, one step at a time, and the losses by which it is judged.

Everything random is a pure function of (seed, step): batches and dropout masks. So a run that was stopped and resumed
takes exactly the steps that an uninterrupted one takes, and evaluating more often changes nothing.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import time
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

import autodiff
import autodiff.functional as F
from autodiff import AnomalyError, Tensor, detect_anomaly, nn, no_grad, optim
from gpt.checkpoint import CheckpointError, check_tensors
from gpt.data import Data, TaskData, TextData
from gpt.model import GPT
from gpt.run import RunError, State
from gpt.settings import Settings

__all__ = ["NonFiniteError", "Trainer", "check_architecture", "check_data", "evaluate", "exact_match", "fingerprint"]

IGNORED = -1  # targets that are not to be predicted


class NonFiniteError(ArithmeticError):
    """A loss, gradient or weight is NaN or infinite; the message names the step, and what was the first to be so."""


class Trainer:
    """A model, its optimiser and its data, advanced one step at a time.

    Parameters
    ----------
    model : GPT
    data : Data
        Its vocabulary must be the model's, its windows must fit the model.
    settings : Settings

    Attributes
    ----------
    done : int
        Steps taken so far.
    best : float or None
        Lowest validation loss so far, nats per token.

    Raises
    ------
    ValueError
        If model and data do not fit.
    """

    def __init__(self, model: GPT, data: Data, settings: Settings) -> None:
        config = model.config
        if data.vocab_size != config.vocab_size:
            raise ValueError(
                f"{data.source} has {data.vocab_size} different tokens, the model has vocab_size={config.vocab_size}; "
                f"make the model with vocab_size={data.vocab_size}, or the data with the model's tokenizer"
            )
        if data.block_size > config.block_size:
            raise ValueError(
                f"windows of {data.block_size} tokens of {data.source} do not fit the model's "
                f"block_size={config.block_size}; make the model with block_size={data.block_size}"
            )
        self.model, self.data, self.settings = model, data, settings
        groups = optim.decay_groups(model, settings.weight_decay)
        self.optimizer = optim.AdamW(groups, lr=settings.lr, betas=(settings.beta1, settings.beta2))
        names = {id(parameter): name for name, parameter in model.named_parameters()}
        self._names = [names[id(parameter)] for group in self.optimizer.param_groups for parameter in group["params"]]
        self._fingerprint = fingerprint(data)
        self.done = 0
        self.best: float | None = None

    def step(self) -> dict[str, Any]:
        """Take one optimiser step.

        Returns
        -------
        dict
            ``step`` (counted from 1), ``loss`` (nats per token), ``lr``, ``grad_norm`` (before clipping),
            ``tokens_per_s``.

        Raises
        ------
        NonFiniteError
            If the loss or the gradient is not finite. The weights are as they were before the step.
        """
        s, start = self.settings, time.perf_counter()
        x, y = self.data.batch(self.done, s.batch_size * s.accumulate)
        with np.errstate(all="ignore"):  # overflow is no news where it is judged by what comes of it
            loss = self._accumulate(x, y)
            norm = optim.clip_grad_norm(self.model.parameters(), s.clip or math.inf)
            if not math.isfinite(norm):
                gradients = {name: p.grad for name, p in self.model.named_parameters() if p.grad is not None}
                self.optimizer.zero_grad()
                raise NonFiniteError(f"the gradient of {_first_bad(gradients)} {self._when(norm)}: {self._blame(x, y)}")
            lr = optim.warmup_cosine(self.done, lr=s.lr, min_lr=s.min_lr, warmup=s.warmup, total=s.max_steps)
            self.optimizer.lr = lr
            self.optimizer.step()
        self.optimizer.zero_grad()
        self.done += 1
        rate = round(y.size / (time.perf_counter() - start), 1)
        return {"step": self.done, "loss": loss, "lr": lr, "grad_norm": norm, "tokens_per_s": rate}

    def _accumulate(self, x: NDArray[Any], y: NDArray[Any]) -> float:
        """Add up the gradient of the mean loss over all targets, part by part; return that loss."""
        loss = 0.0
        for share in self._shares(x, y):
            if not math.isfinite(share.item()):
                self.optimizer.zero_grad()
                raise NonFiniteError(f"the loss {self._when(share.item())}: {self._blame(x, y)}")
            share.backward()
            loss += share.item()
        return loss

    def _shares(self, x: NDArray[Any], y: NDArray[Any]) -> Iterator[Tensor]:
        """Compute, part by part, what each part of the batch adds to the mean loss."""
        s = self.settings
        count = max(np.count_nonzero(y != IGNORED), 1)
        self.model.train()
        for first in range(0, len(x), s.batch_size):
            part = slice(first, first + s.batch_size)
            with nn.dropout_stream(s.seed, self.done, first_row=first):
                share = _summed_loss(self.model, x[part], y[part]) / count
            yield share

    def _when(self, value: float) -> str:
        return f"became {value} in step {self.done + 1}"

    def _blame(self, x: NDArray[Any], y: NDArray[Any]) -> str:
        """Name what was the first to be not finite, by taking the step again in anomaly mode: it is the same step."""
        name = _first_bad({name: parameter.data for name, parameter in self.model.named_parameters()})
        if name is not None:
            return f"the parameter {name} is not finite since the step before"
        try:
            with detect_anomaly():
                for share in self._shares(x, y):
                    share.backward()
        except AnomalyError as error:
            return str(error).partition("\n")[0]
        finally:
            self.optimizer.zero_grad()
        return "only in the sum, as every op before it was finite"

    # --- state ---

    def description(self) -> dict[str, Any]:
        """Return what is trained, how and on what; JSON-safe."""
        return {
            "config": self.model.config.to_dict(),
            "settings": dataclasses.asdict(self.settings),
            "data": {**self.data.describe(), "recipe": self.data.recipe, "fingerprint": self._fingerprint},
        }

    def state(self) -> State:
        """Return a copy of everything that the next steps depend on, and what describes it.

        Raises
        ------
        NonFiniteError
            If a weight or a moment is not finite: such a state is not worth keeping.
        """
        weights = self.model.state_dict()
        moments, steps = {}, {}
        for number, entry in self.optimizer.state_dict()["state"].items():
            steps[self._names[number]] = entry.pop("step")
            moments.update({f"{moment}.{self._names[number]}": array for moment, array in entry.items()})
        name = _first_bad({**weights, **moments})
        if name is not None:
            raise NonFiniteError(f"{name} became non-finite in step {self.done}")
        manifest = {
            "step": self.done,
            "best": self.best,
            **self.description(),
            "tokenizer": None if self.data.tokenizer is None else self.data.tokenizer.to_dict(),
            "optimizer": {"name": "AdamW", "steps": steps},
            "versions": {"autodiff-gpt": autodiff.__version__, "numpy": np.__version__},
        }
        return State(weights, moments, manifest)

    def restore(self, state: State) -> None:
        """Go on from a saved state.

        Raises
        ------
        RunError
            If it is that of another architecture, or of other data. Nothing is changed then.
        CheckpointError
            If it does not hold what it should.
        """
        manifest = state.manifest
        check_architecture(manifest["config"], self.model.config.to_dict())
        check_data(manifest["data"], self.data)
        check_tensors(state.weights, self.model.state_dict())
        if manifest["step"] and not state.moments:
            raise CheckpointError("the checkpoint holds no optimiser state; it can be sampled from, but not resumed")
        numbers = {name: number for number, name in enumerate(self._names)}
        try:
            entries = {numbers[name]: {"step": step} for name, step in manifest["optimizer"]["steps"].items()}
            for key, array in state.moments.items():
                moment, name = key.split(".", 1)
                entries[numbers[name]][moment] = array
            # The groups are ours: a changed weight decay is to hold from here on.
            groups = self.optimizer.state_dict()["param_groups"]
            self.optimizer.load_state_dict({"state": entries, "param_groups": groups})
        except (KeyError, ValueError) as error:
            raise CheckpointError(f"the optimiser's state does not fit the model: {error}") from error
        self.model.load_state_dict(state.weights)
        self.done, self.best = manifest["step"], manifest["best"]


def check_architecture(saved: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    """Raise `RunError`, with both values, where a config differs from the one a run was begun with.

    Dropout may change on the way: it is no part of what the weights mean.
    """
    names = [name for name, value in given.items() if name != "dropout" and saved.get(name) != value]
    if names:
        differences = "; ".join(f"{name}={saved.get(name)!r} in the run, {given[name]!r} now" for name in names)
        raise RunError(f"the architecture differs ({differences}), and a run keeps the one it has; begin a new run")


def check_data(saved: Mapping[str, Any], data: Data) -> None:
    """Raise `RunError` where data are not those that a run was begun with, as it describes them."""
    if saved.get("fingerprint") != fingerprint(data):
        raise RunError(
            f"the run was trained on other data ({saved.get('source')}) than {data.source}; name the same, unchanged "
            f"files, or leave --data out"
        )


def fingerprint(data: Data) -> str:
    """Return a digest by which data are known again."""
    tokenizer = None if data.tokenizer is None else data.tokenizer.to_dict()
    # The tokens are what counts of a text, wherever it lies now; a task is what its recipe says.
    about = [data.block_size, data.vocab_size, tokenizer, None if isinstance(data, TextData) else data.recipe]
    digest = hashlib.sha256(json.dumps(about).encode())
    if isinstance(data, TextData):
        for part in (data.train, data.val):
            digest.update(len(part).to_bytes(8, "little"))
            digest.update(np.asarray(part, dtype="<i4").tobytes())
    return digest.hexdigest()


# --- losses ---


def _first_bad(arrays: Mapping[str, NDArray[Any]]) -> str | None:
    """Return the name of the first array with a NaN or infinite element, None if there is none."""
    return next((name for name, array in arrays.items() if not np.isfinite(array).all()), None)


def _summed_loss(model: GPT, x: NDArray[Any], y: NDArray[Any]) -> Tensor:
    loss: Tensor = F.cross_entropy(model(x), y, ignore_index=IGNORED, reduction="sum")
    return loss


@no_grad()
def evaluate(model: GPT, data: Data, batch_size: int, batches: int | None = None) -> float | None:
    """Return the validation loss in nats per token, without dropout.

    Parameters
    ----------
    model : GPT
    data : Data
    batch_size : int
        Windows to compute at a time.
    batches : int, optional
        How many batches to take, spread over the validation data; None takes everything.

    Returns
    -------
    float or None
        None where there are no validation data. May be NaN or infinite.
    """
    if not data.has_validation:
        return None
    total = count = 0.0
    with model.evaluating(), np.errstate(all="ignore"):
        for x, y in data.eval_batches(batch_size, batches):
            total += _summed_loss(model, x, y).item()
            count += np.count_nonzero(y != IGNORED)
    return total / count


def exact_match(model: GPT, data: TaskData, count: int | None = None) -> float:
    """Return the share of held-out questions of a task that a model answers without any error, choosing greedily."""
    return data.exact_match(lambda questions, m: model.generate(questions, m, temperature=0)[:, -m:], count)
