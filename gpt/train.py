"""Training a model and keeping a run's folder."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gpt.data import Data, TaskData
from gpt.model import GPT
from gpt.run import BEST, CHECKPOINT, Run, RunError
from gpt.settings import Settings
from gpt.trainer import NonFiniteError, Trainer, evaluate, exact_match

__all__ = ["Result", "train"]

QUESTIONS = 1000  # of a task, to be answered at an evaluation; at the end all are


@dataclass(frozen=True)
class Result:
    """What a training run came to.

    Attributes
    ----------
    run : Run
        Its folder.
    steps : int
        Steps taken in all, resumed ones included.
    loss : float or None
        Of the last step, nats per token; None if none was taken.
    val_loss : float or None
        On all validation data, at the end; None without such data, or if `should_stop` ended the run.
    exact : float or None
        Share of held-out questions answered without error, at the end of training on a task.
    seconds : float
        Of this call, evaluations included.
    stopped : str or None
        Why it ended before ``max_steps``.
    """

    run: Run
    steps: int
    loss: float | None
    val_loss: float | None
    exact: float | None
    seconds: float
    stopped: str | None


def train(
    model: GPT, data: Data, settings: Settings | None = None, *, out: str | os.PathLike[str] | None = None,
    resume: bool = False, watch: Callable[[dict[str, Any]], None] | None = None,
    should_stop: Callable[[], str | None] | None = None,
) -> Result:  # fmt: skip
    """Train a model and keep a run's folder.

    Parameters
    ----------
    model : GPT
        Trained in place. Its ``tokenizer`` becomes that of the data.
    data : Data
        `gpt.data.TextData` or `gpt.data.TaskData`.
    settings : Settings, optional
        How; by default ``Settings()``.
    out : path, optional
        The folder; by default a new one under ``runs/``.
    resume : bool
        Go on with the run that `out` holds. Its architecture and data must be the same; the settings may differ.
    watch : callable, optional
        Called after every step with its line of ``metrics.jsonl``.
    should_stop : callable, optional
        Asked after every step. A string that it returns is the reason to end the run at once: the state is saved, but
        not evaluated.

    Returns
    -------
    Result

    Raises
    ------
    RunError, CheckpointError
        If the folder exists (without `resume`), or does not hold a run that fits (with it).
    NonFiniteError
        If a loss, gradient or weight stops being finite. What was saved before is kept.
    ValueError
        If model and data do not fit.
    OSError
        If the folder cannot be written.

    Examples
    --------
    >>> import tempfile, gpt
    >>> from gpt.data import TextData
    >>> data = TextData.from_text("to be or not to be, " * 20, block_size=8)
    >>> model = gpt.GPT(gpt.GPTConfig(vocab_size=data.vocab_size, block_size=8, n_layer=1, n_head=2, n_embd=8), rng=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     result = gpt.train(model, data, gpt.Settings(max_steps=3, batch_size=2), out=folder + "/run")
    >>> result.steps
    3
    """
    settings = Settings() if settings is None else settings
    trainer = Trainer(model, data, settings)
    model.tokenizer = data.tokenizer
    old = None
    if resume:
        if out is None:
            raise RunError("resume=True needs the folder of the run: name it as out")
        old = Run(out)
        trainer.restore(old.restore())
    with trainer.pool:  # before a folder is made or changed: there may not be so many threads
        if old is not None:
            run = old
            run.forget_after(trainer.done)
        else:
            run = Run.create(out)
            try:  # at once: it shows whether the folder can be written
                run.save(CHECKPOINT, trainer.state())
            except OSError:
                run.path.rmdir()  # so that the same command can be given again
                raise
        run.write_config(trainer.description())
        return _loop(trainer, run, watch, should_stop)


def _loop(
    trainer: Trainer, run: Run, watch: Callable[[dict[str, Any]], None] | None,
    should_stop: Callable[[], str | None] | None,
) -> Result:  # fmt: skip
    """Step, evaluate, save and report until the end or a reason to stop."""
    s, start = trainer.settings, time.perf_counter()
    record: dict[str, Any] = {}
    saved, stopped = trainer.done, None
    try:
        while trainer.done < s.last_step and stopped is None:
            record = trainer.step()
            asked = should_stop() if should_stop is not None else None
            late = s.minutes is not None and time.perf_counter() - start >= 60 * s.minutes
            stopped = asked or (f"minutes={s.minutes:g}" if late else None)
            last = stopped is not None or trainer.done == s.last_step
            if asked is None and (last or trainer.done % s.eval_interval == 0):
                record |= _judge(trainer, run, everything=last)
            run.append(record)
            if last or (s.save_interval and trainer.done % s.save_interval == 0):
                run.save(CHECKPOINT, trainer.state())
                saved = trainer.done
            if watch is not None:
                watch(record)
        if not record:  # nothing was left to do
            record = _judge(trainer, run, everything=True)
    except NonFiniteError as error:
        raise NonFiniteError(f"{error}; {run.path} keeps the state of step {saved}; try a lower lr") from error
    if stopped is None and trainer.done < s.max_steps:
        stopped = f"stop_at={s.stop_at}"
    loss, val_loss, exact = (record.get(name) for name in ("loss", "val_loss", "exact"))
    return Result(run, trainer.done, loss, val_loss, exact, time.perf_counter() - start, stopped)


def _judge(trainer: Trainer, run: Run, *, everything: bool) -> dict[str, float]:
    """Compute the scores of a validation, of a part of the data or of everything; keep the best weights."""
    s, found = trainer.settings, {}
    loss = evaluate(trainer.model, trainer.data, s.batch_size, None if everything else s.eval_batches, trainer.pool)
    if loss is not None:
        if not math.isfinite(loss):
            raise NonFiniteError(f"the validation loss became {loss} after step {trainer.done}")
        found["val_loss"] = loss
        if trainer.best is None or loss < trainer.best:
            trainer.best = loss
            run.save(BEST, trainer.state()._replace(moments={}))
    if isinstance(trainer.data, TaskData):
        found["exact"] = exact_match(trainer.model, trainer.data, None if everything else QUESTIONS)
    return found
