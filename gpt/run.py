"""A run's folder: what training leaves behind, and how it is found and read again.

===========================  ===================================================================================
``checkpoint.safetensors``   the last state: weights, moments of the optimiser, and what they mean in the manifest
``best.safetensors``         the weights with the lowest validation loss so far
``metrics.jsonl``            one line a step: step, loss, lr, grad_norm, tokens_per_s; at evaluations also val_loss
``config.json``              what is trained, how, and on what
``loss.svg``                 the losses as a picture
``report.html``              all of it on one page
===========================  ===================================================================================
"""

from __future__ import annotations

import datetime
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpt.checkpoint import CheckpointError, check_tensors, load_checkpoint, save_checkpoint
from gpt.config import GPTConfig
from gpt.files import atomic_write
from gpt.model import GPT
from gpt.settings import Settings
from gpt.strictjson import shown
from gpt.tokenizer import Tokenizer, tokenizer_from_dict

__all__ = ["BEST", "CHECKPOINT", "RUNS", "Run", "RunError", "State", "checkpoint_of", "load", "newest", "read_state"]

RUNS = Path("runs")
CHECKPOINT, BEST, METRICS, CONFIG = "checkpoint.safetensors", "best.safetensors", "metrics.jsonl", "config.json"
WEIGHTS, MOMENTS = "model.", "optimizer."  # how names begin in a checkpoint

MANIFEST: dict[str, tuple[type, ...]] = {
    "step": (int,), "best": (float, int, type(None)), "config": (dict,), "settings": (dict,), "data": (dict,),
    "tokenizer": (dict, type(None)), "optimizer": (dict,),
}  # fmt: skip
"""What a manifest holds."""


class RunError(ValueError):
    """A run's folder is not what it should be; the message says which, why, and what to do."""


class State(NamedTuple):
    """What a checkpoint holds: weights and the optimiser's moments by name, and the manifest."""

    weights: dict[str, NDArray[Any]]
    moments: dict[str, NDArray[Any]]
    manifest: dict[str, Any]

    def tokenizer(self) -> Tokenizer | None:
        """Return the tokenizer of the text that the run was trained on.

        Raises
        ------
        CheckpointError
            If the manifest does not hold a valid one.
        """
        described = self.manifest["tokenizer"]
        try:
            return None if described is None else tokenizer_from_dict(described)
        except ValueError as error:
            raise CheckpointError(f"the manifest's tokenizer is not valid: {error}") from error

    def settings(self) -> Settings:
        """Return the settings that the run was trained with.

        Raises
        ------
        CheckpointError
            If the manifest does not hold valid ones.
        """
        try:
            return Settings(**self.manifest["settings"])
        except (TypeError, ValueError) as error:
            raise CheckpointError(f"the manifest's settings are not valid: {error}") from error


class Run:
    """The folder of one run.

    Parameters
    ----------
    path : path
        An existing folder; `create` makes a new one.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    @classmethod
    def create(cls, path: str | os.PathLike[str] | None = None) -> Run:
        """Make a new folder: the one named, or one under ``runs/`` with today's date and a number.

        Raises
        ------
        RunError
            If something stands there already, or the folder cannot be made. Making it is the lock: of two runs that
            try at the same time, one succeeds.
        """
        if path is not None:
            try:
                return cls._make(Path(path))
            except FileExistsError:
                holds_run = (Path(path) / CHECKPOINT).exists()
                remedy = "already holds a run; go on with it by --resume, or" if holds_run else "already exists;"
                raise RunError(f"{path} {remedy} choose another --out") from None
        today = datetime.date.today().isoformat()
        for number in range(1, 10_000):
            try:
                return cls._make(RUNS / f"{today}-{number}")
            except FileExistsError:
                continue
        raise RunError(f"{RUNS} is full of today's runs; name a folder with --out")

    @classmethod
    def _make(cls, path: Path) -> Run:
        """Make one folder, and those above it."""
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except FileExistsError:
            raise RunError(f"{path} cannot be made: {path.parent} is not a folder; choose another --out") from None
        except OSError as error:
            raise RunError(f"{path} cannot be made: {error.strerror or error}; choose another --out") from error
        try:
            path.mkdir()
        except FileExistsError:
            raise
        except OSError as error:
            raise RunError(f"{path} cannot be made: {error.strerror or error}; choose another --out") from error
        return cls(path)

    def save(self, name: str, state: State) -> None:
        """Write a checkpoint, whole or not at all."""
        tensors = {WEIGHTS + key: value for key, value in state.weights.items()}
        tensors |= {MOMENTS + key: value for key, value in state.moments.items()}
        save_checkpoint(self.path / name, tensors, state.manifest)

    def restore(self) -> State:
        """Read the last state."""
        return read_state(checkpoint_of(self.path))

    def write_config(self, content: Mapping[str, Any]) -> None:
        """Write ``config.json``."""
        atomic_write(self.path / CONFIG, (json.dumps(content, indent=2) + "\n").encode())

    def config(self) -> dict[str, Any]:
        """Read ``config.json``."""
        content: dict[str, Any] = json.loads((self.path / CONFIG).read_text(encoding="utf-8"))
        return content

    def append(self, record: Mapping[str, Any]) -> None:
        """Add a line to ``metrics.jsonl``."""
        path = self.path / METRICS
        try:
            with open(path, "a", encoding="utf-8", newline="\n") as file:
                file.write(json.dumps(record, allow_nan=False) + "\n")
        except OSError as error:
            raise OSError(error.errno, f"cannot write: {error.strerror or error}", str(path)) from error

    def metrics(self) -> list[dict[str, Any]]:
        """Read the lines of ``metrics.jsonl``, up to the first that is damaged: a crash may cut the last one short."""
        path = self.path / METRICS
        records: list[dict[str, Any]] = []
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines() if path.exists() else ():
            try:
                record = json.loads(line)
            except ValueError:
                break
            if not isinstance(record, dict) or type(record.get("step")) is not int or "loss" not in record:
                break
            records.append(record)
        return records

    def forget_after(self, step: int) -> None:
        """Drop the metrics of steps that no checkpoint has kept: they are about to be taken again."""
        kept = [json.dumps(record) + "\n" for record in self.metrics() if record["step"] <= step]
        atomic_write(self.path / METRICS, "".join(kept).encode())


def newest(root: Path = RUNS) -> Path:
    """Return the folder under ``runs/`` whose checkpoint is the newest.

    Raises
    ------
    RunError
        If there is none.
    """
    found = sorted(root.glob(f"*/{CHECKPOINT}"), key=lambda path: path.stat().st_mtime_ns)
    if not found:
        raise RunError(f"there is no run under {root}{os.sep}; train one first, or name its folder")
    return found[-1].parent


def checkpoint_of(path: str | os.PathLike[str]) -> Path:
    """Return the checkpoint that is meant by a run's folder, or by a file.

    Raises
    ------
    RunError
        If there is none.
    """
    path = Path(path)
    if path.is_dir():
        if not (path / CHECKPOINT).exists():
            raise RunError(f"{path} holds no {CHECKPOINT}; name the folder of a run")
        return path / CHECKPOINT
    if not path.exists():
        raise RunError(f"{path} does not exist; name the folder of a run, or a checkpoint in it")
    return path


def read_state(path: Path) -> State:
    """Read a checkpoint file that a run has written.

    Raises
    ------
    CheckpointError
        If it is damaged, or its manifest is not that of a run.
    """
    tensors, manifest = load_checkpoint(path)
    for name, kinds in MANIFEST.items():
        if name not in manifest or not isinstance(manifest[name], kinds):
            found = shown(manifest[name]) if name in manifest else "missing"
            raise CheckpointError(f"{path}: the manifest's {name!r} is {found}, so this is not a checkpoint of a run")

    def named(start: str) -> dict[str, NDArray[Any]]:
        return {key.removeprefix(start): array for key, array in tensors.items() if key.startswith(start)}

    state = State(named(WEIGHTS), named(MOMENTS), manifest)
    try:
        state.settings()
        state.tokenizer()
    except CheckpointError as error:
        raise CheckpointError(f"{path}: {error}") from error
    return state


def load(path: str | os.PathLike[str]) -> GPT:
    """Load a trained model.

    Parameters
    ----------
    path : path
        A run's folder (its last checkpoint is taken), or a checkpoint file such as ``best.safetensors``.

    Returns
    -------
    GPT
        In evaluation mode. Its ``tokenizer`` is the one it was trained with, None for a model of bare ids.

    Raises
    ------
    RunError, CheckpointError
        If there is no checkpoint, or it is damaged, or does not describe a model.

    Examples
    --------
    >>> import tempfile, gpt
    >>> from gpt.data import TextData
    >>> data = TextData.from_text("to be or not to be, " * 20, block_size=8)
    >>> model = gpt.GPT(gpt.GPTConfig(vocab_size=data.vocab_size, block_size=8, n_layer=1, n_head=2, n_embd=8), rng=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     result = gpt.train(model, data, gpt.Settings(max_steps=2, batch_size=2), out=folder + "/run")
    ...     again = gpt.load(folder + "/run")
    >>> again.tokenizer.decode(again.generate(again.tokenizer.encode("to "), 5, rng=0)).startswith("to ")
    True
    """
    file = checkpoint_of(path)
    return _build(read_state(file), str(file))


def _build(state: State, source: str) -> GPT:
    """Make the model that a state describes."""
    tokenizer = state.tokenizer()
    try:
        config = GPTConfig.from_dict(state.manifest["config"])
    except ValueError as error:
        raise CheckpointError(f"{source}: the manifest's config is not valid: {error}") from error
    if tokenizer is not None and tokenizer.vocab_size != config.vocab_size:
        raise CheckpointError(
            f"{source}: the tokenizer has {tokenizer.vocab_size} tokens, the model vocab_size={config.vocab_size}"
        )
    model = GPT(config, rng=np.random.default_rng(0))
    check_tensors(state.weights, model.state_dict(), source=source)
    model.load_state_dict(state.weights)
    model.tokenizer = tokenizer
    return model.eval()
