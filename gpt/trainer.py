"""Training, one step at a time, and the losses by which it is judged.

Everything random is a pure function of (seed, step): batches and dropout masks. So a run that was stopped and resumed
takes exactly the steps that an uninterrupted one takes, and evaluating more often changes nothing. A run keeps the
number of its threads for the same reason: sums over shards of a batch round by it (see `gpt.shards`).
"""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import json
import math
import time
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

import autodiff
from autodiff import AnomalyError, detect_anomaly, no_grad, optim
from gpt.checkpoint import CheckpointError, check_tensors
from gpt.data import Data, TaskData, TextData
from gpt.model import GPT
from gpt.run import RunError, State
from gpt.settings import Settings
from gpt.shards import IGNORED, CutBatch, Pool, choose_threads, summed_loss

__all__ = ["NonFiniteError", "Trainer", "check_architecture", "check_data", "evaluate", "exact_match", "fingerprint"]


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
    settings : Settings
        With the number of threads that was chosen, if none was given.
    pool : Pool
        Its threads. They work while it is entered: ``with trainer.pool:``. The results are the same without.
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
        self.model, self.data = model, data
        self._free = settings.threads is None  # to take the number of the run that is resumed
        threads = settings.threads or choose_threads(model, *data.batch(0, settings.batch_size)).number
        self._use(settings, threads)
        groups = optim.decay_groups(model, settings.weight_decay)
        self.optimizer = optim.AdamW(groups, lr=settings.lr, betas=(settings.beta1, settings.beta2))
        names = {id(parameter): name for name, parameter in model.named_parameters()}
        self._parameters = [parameter for group in self.optimizer.param_groups for parameter in group["params"]]
        self._names = [names[id(parameter)] for parameter in self._parameters]
        self._fingerprint = fingerprint(data)
        self.done = 0
        self.best: float | None = None

    def _use(self, settings: Settings, threads: int) -> None:
        self.settings = dataclasses.replace(settings, threads=threads)
        self.pool = Pool(min(threads, settings.batch_size))

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
        batch = CutBatch(x, y, s.batch_size, self.pool.threads, s.seed, self.done)
        self.model.train()
        with np.errstate(all="ignore"):  # overflow is no news where it is judged by what comes of it
            loss = batch.accumulate(self.model, self._parameters, self.pool)
            if not math.isfinite(loss):
                self.optimizer.zero_grad()
                raise NonFiniteError(f"the loss {self._when(loss)}: {self._blame(batch)}")
            norm = optim.clip_grad_norm(self._parameters, s.clip or math.inf)
            if not math.isfinite(norm):
                gradients = {name: p.grad for name, p in self.model.named_parameters() if p.grad is not None}
                self.optimizer.zero_grad()
                bad = f"the gradient of {_first_bad(gradients)} {self._when(norm)}"
                raise NonFiniteError(f"{bad}: {self._blame(batch)}")
            lr = optim.warmup_cosine(self.done, lr=s.lr, min_lr=s.min_lr, warmup=s.warmup, total=s.max_steps)
            self.optimizer.lr = lr
            self.optimizer.step()
        self.optimizer.zero_grad()
        self.done += 1
        rate = round(y.size / (time.perf_counter() - start), 1)
        return {"step": self.done, "loss": loss, "lr": lr, "grad_norm": norm, "tokens_per_s": rate}

    def _when(self, value: float) -> str:
        return f"became {value} in step {self.done + 1}"

    def _blame(self, batch: CutBatch) -> str:
        """Name what was the first to be not finite, by taking the step again in anomaly mode: it is the same step."""
        name = _first_bad({name: parameter.data for name, parameter in self.model.named_parameters()})
        if name is not None:
            return f"the parameter {name} is not finite since the step before"
        try:
            with detect_anomaly():
                for shard in range(batch.shards):
                    for share in batch.shares(self.model, shard):
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
        if self._free:
            self._use(self.settings, state.settings().threads or self.pool.threads)


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


@no_grad()
def evaluate(
    model: GPT, data: Data, batch_size: int, batches: int | None = None, pool: Pool | None = None
) -> float | None:
    """Return the validation loss in nats per token, without dropout.

    Parameters
    ----------
    model : GPT
    data : Data
    batch_size : int
        Windows to compute at a time.
    batches : int, optional
        How many batches to take, spread over the validation data; None takes everything.
    pool : Pool, optional
        Threads among which to divide the batches. The loss is the same bit for bit, however many there are.

    Returns
    -------
    float or None
        None where there are no validation data. May be NaN or infinite.
    """
    if not data.has_validation:
        return None
    pool = Pool(1) if pool is None else pool

    def every(first: int) -> list[tuple[float, int]]:
        """Compute every `threads`-th batch: summed losses, and numbers of targets."""
        chosen = itertools.islice(data.eval_batches(batch_size, batches), first, None, pool.threads)
        return [(float(summed_loss(model, x, y).item()), int(np.count_nonzero(y != IGNORED))) for x, y in chosen]

    with model.evaluating(), np.errstate(all="ignore"):
        found = pool.map(every, pool.threads)
    in_order = itertools.chain.from_iterable(itertools.zip_longest(*found, fillvalue=(0.0, 0)))
    losses, counts = zip(*in_order, strict=True)
    loss: float = sum(losses) / sum(counts)
    return loss


def exact_match(model: GPT, data: TaskData, count: int | None = None) -> float:
    """Return the share of held-out questions of a task that a model answers without any error, choosing greedily."""
    return data.exact_match(lambda questions, m: model.generate(questions, m, temperature=0)[:, -m:], count)
