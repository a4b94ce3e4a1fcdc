"""The command line: ``python -m gpt train``, ``sample``, ``eval``, ``info``.

Results go to standard output, progress and errors to standard error. An error is one line; the exit code is 2 for a
wrong call, 1 for wrong data or a failed run, 130 or 143 for one that a signal ended after its last step was saved.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import importlib.util
import json
import math
import os
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from autodiff.commands.console import prepare_output, printable
from gpt.checkpoint import CheckpointError
from gpt.config import BATCH_SIZES, PRESETS, GPTConfig
from gpt.console import catch_signals, note, show_progress
from gpt.data import Data, DataError, TaskData, TextData, open_data
from gpt.defaults import MODEL, PRESET_SETTINGS, TASK_MODEL, TASK_SETTINGS
from gpt.machine import blas, one_blas_thread
from gpt.model import GPT
from gpt.options import Parser, add_common, add_config, add_data, add_run, add_sampling, add_settings, parse
from gpt.report import write_report
from gpt.run import RunError, State, checkpoint_of, load, newest, read_state
from gpt.settings import Settings
from gpt.shards import Pool, choose_threads
from gpt.streams import stream
from gpt.train import Result, train
from gpt.trainer import NonFiniteError, check_architecture, check_data, evaluate, exact_match

__all__ = ["main"]

FAILURES = (DataError, RunError, CheckpointError, NonFiniteError, OSError, MemoryError)
"""What can be wrong with files, data, runs and the machine; everything else wrong is the call itself."""

EXTRAS = {"tqdm": "a progress bar", "matplotlib": "a picture of the losses", "threadpoolctl": "one BLAS thread"}
"""Packages that training can do without, and what they are for."""

SAMPLE_LENGTH = 400  # tokens of the sample at the end of training


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Parameters
    ----------
    argv : sequence of str, optional
        The words after ``python -m gpt``; by default those of this process.

    Returns
    -------
    int
        The exit code.
    """
    prepare_output()
    given = parse(argv, _parser())
    try:
        with _warnings_as_notes(), one_blas_thread():
            code: int = given.run(given)
        sys.stdout.flush()
        return code
    except BrokenPipeError:  # the reader of our output has left; Python would complain of it once more on its way out
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        if given.debug:
            raise
        return 130
    except (*FAILURES, ValueError, ImportError) as error:
        if given.debug:
            raise
        message = printable(" ".join(str(error).split())) or type(error).__name__
        print(f"{given.parser.prog}: {message}", file=sys.stderr)
        return 1 if isinstance(error, FAILURES) else 2


@contextlib.contextmanager
def _warnings_as_notes() -> Iterator[None]:
    """Show what our code warns of in a line, without the place in the code."""
    with warnings.catch_warnings():
        warnings.simplefilter("default", UserWarning)
        warnings.showwarning = lambda message, *place: note(str(message))
        yield


def _parser() -> Parser:
    """Build the command line."""
    main = Parser(prog="python -m gpt", description="A GPT in NumPy: train one on a text, and let it write.")
    commands = main.add_subparsers(required=True, metavar="COMMAND", parser_class=Parser)

    one = commands.add_parser("train", help="train; without options on a text that Python itself carries")
    one.add_argument("--out", metavar="DIR", type=Path, help="folder of the run (default: a new one under runs/)")
    one.add_argument("--resume", action="store_true", help="go on with the run in --out (default: the newest)")
    one.add_argument("--log-json", action="store_true", help="print nothing but a line of JSON for each step")
    add_data(one, default="a text that Python itself carries")
    add_config(one)
    add_settings(one)
    one.set_defaults(run=_train)

    one = commands.add_parser("sample", help="let a trained model write")
    add_run(one)
    add_sampling(one)
    one.set_defaults(run=_sample)

    one = commands.add_parser("eval", help="validation loss of a run, beside the baselines")
    add_run(one)
    add_data(one, default="those of the run")
    one.set_defaults(run=_eval)

    one = commands.add_parser("info", help="what a run's checkpoint says of itself")
    add_run(one)
    one.set_defaults(run=_info)

    for command in commands.choices.values():
        add_common(command)
    return main


# --- train ---


def _train(given: argparse.Namespace) -> int:
    saved = None
    if given.resume:
        given.out = given.out or newest()
        saved = read_state(checkpoint_of(given.out))
    settings, fields = _settings(given, saved), _fields(given, saved)
    data = _data(given, fields.get("block_size", GPTConfig.block_size), settings.seed, saved)
    if saved is not None:
        check_data(saved.manifest["data"], data)
    model = GPT(_config(given, fields, data), rng=stream(settings.seed, "weights"))
    say = sys.stderr if given.log_json else sys.stdout
    settings, threads = _threads(settings, given.threads, model, data)
    baselines = data.baselines()
    _introduce(model, data, settings, threads, baselines, say)
    first = 0 if saved is None else saved.manifest["step"]
    with catch_signals() as stop, show_progress(first, settings.last_step, log_json=given.log_json) as watch:
        result = train(
            model, data, settings, out=given.out, resume=given.resume, watch=watch, should_stop=stop.reason
        )
    if stop.code:
        note(f"{result.stopped or 'done'}; step {result.steps} is saved, go on with --resume --out {result.run.path}")
        return stop.code
    _conclude(model, data, settings, result, baselines, say)
    return 0


def _given(given: argparse.Namespace, of: type[Any]) -> dict[str, Any]:
    """Return the fields of a dataclass that flags were given for."""
    values = {field.name: getattr(given, field.name) for field in dataclasses.fields(of)}
    return {name: value for name, value in values.items() if value is not None}


def _fields(given: argparse.Namespace, saved: State | None) -> dict[str, Any]:
    """Gather the config: flags win over a preset, that over the run to resume, that over the default model."""
    fields = _given(given, GPTConfig)
    if given.preset is not None:
        follow = ("vocab_size", "block_size") if given.task else ("vocab_size",)  # from the data, not from the preset
        fields = {**{name: value for name, value in PRESETS[given.preset].items() if name not in follow}, **fields}
    if saved is not None:
        check_architecture(saved.manifest["config"], fields)
        return {**saved.manifest["config"], **fields}
    if given.preset is not None:
        return fields
    default = dict(TASK_MODEL if given.task else MODEL)
    if "n_embd" in fields:
        default.pop("d_ff", None)  # it goes with the width
    return {**default, **fields}


def _settings(given: argparse.Namespace, saved: State | None) -> Settings:
    """Gather the settings: flags win over those of the run to resume, these over the defaults for model and task."""
    chosen = _given(given, Settings)
    if saved is None:
        base: dict[str, Any] = dict(PRESET_SETTINGS) if given.preset else {}
        if given.preset in BATCH_SIZES:
            base["batch_size"] = BATCH_SIZES[given.preset]
        if given.task:
            base |= TASK_SETTINGS
        return Settings(**{**base, **chosen})
    before = saved.settings()
    base = {**dataclasses.asdict(before), "stop_at": None, "minutes": None}  # these hold for one call
    if chosen.get("lr", before.lr) != before.lr:
        base["min_lr"] = None  # it goes with lr
    settings = Settings(**{**base, **chosen})
    for name, value in dataclasses.asdict(settings).items():
        if name not in ("stop_at", "minutes", "threads") and value != getattr(before, name):
            note(f"{name} changes from {getattr(before, name):g} to {value:g}")
    return settings


def _data(given: argparse.Namespace, block_size: int, seed: int, saved: State | None) -> Data:
    """Make the data that were asked for; where none were, those of the run, or else the built-in text."""
    if given.data and given.task:
        given.parser.error("--data and --task exclude each other; give one")
    if given.encoding and not given.data:
        given.parser.error("--encoding is that of the files of --data; name some")
    recipe = {"builtin": True} if saved is None else saved.manifest["data"].get("recipe", {})
    if given.data:
        recipe = {"files": given.data, "encoding": given.encoding}
    elif given.task:
        recipe = {"task": given.task}
    tokenizer = None if saved is None else saved.tokenizer()
    return open_data(recipe, block_size=block_size, seed=seed, tokenizer=tokenizer)


def _config(given: argparse.Namespace, fields: Mapping[str, Any], data: Data) -> GPTConfig:
    """Put the model's config together; the vocabulary, and for a task the context, follow from the data."""
    if given.vocab_size not in (None, data.vocab_size):
        given.parser.error(f"--vocab-size {given.vocab_size}: {data.source} has {data.vocab_size} tokens; leave it out")
    return GPTConfig(**{"block_size": data.block_size, **fields, "vocab_size": data.vocab_size})


def _threads(settings: Settings, asked: int | None, model: GPT, data: Data) -> tuple[Settings, str]:
    """Settle the number of threads, and say why it is that."""
    if settings.threads is None:
        number, why = choose_threads(model, *data.batch(0, settings.batch_size))
    else:
        number, why = settings.threads, "as asked for" if asked else "as before"
    name, limited = blas()
    limit = "on one thread each" if limited else "cannot be limited to one thread each"
    return dataclasses.replace(settings, threads=number), f"{number}, {why}; BLAS ({name}) {limit}"


def _introduce(
    model: GPT, data: Data, settings: Settings, threads: str, baselines: Mapping[str, float], file: Any
) -> None:
    """Say what the model will see, and what it has to beat."""
    for name, reason in EXTRAS.items():
        if importlib.util.find_spec(name) is None:
            note(f"without {name}, not {reason}: pip install 'autodiff-gpt[train]'")
    facts, c = data.describe(), model.config
    notes = facts.pop("notes")
    facts["model"] = f"{c.n_layer} layers, {c.n_head} heads, width {c.n_embd}, {c.norm}, {c.pos}, {c.mlp}"
    facts["parameters"] = c.parameter_count()
    windows = settings.batch_size * settings.accumulate
    facts["steps"] = f"{settings.max_steps:,} of {windows} windows, lr {settings.lr:g}, seed {settings.seed}"
    facts["threads"] = threads
    compared = ", ".join(f"{_called(name)} {value:.4f}" for name, value in baselines.items())
    facts["baselines"] = f"{compared} nats per token"
    _show(facts, file)
    for text in notes:
        note(text)


def _show(facts: Mapping[str, Any], file: Any = None) -> None:
    """Print names and values as two columns."""
    for name, value in facts.items():
        print(f"{name.replace('_', ' '):<20} {printable(value) if isinstance(value, str) else f'{value:,}'}", file=file)
    (file or sys.stdout).flush()


def _called(baseline: str) -> str:
    return "uniform (ln V)" if baseline == "uniform" else baseline


def _conclude(
    model: GPT, data: Data, settings: Settings, result: Result, baselines: Mapping[str, float], file: Any
) -> None:
    """Say what came of it; write picture and page."""
    ended = f" (ended by {result.stopped})" if result.stopped else ""
    summary = {"steps": f"{result.steps:,}{ended}", "time": f"{result.seconds:.1f} s"}
    summary |= _scores(result.val_loss, result.exact, data, baselines)
    sample = ""
    if isinstance(data, TextData) and data.tokenizer is not None:
        ids = model.generate(data.train[:1], SAMPLE_LENGTH, temperature=0.8, rng=stream(settings.seed, "sample"))
        sample = data.tokenizer.decode(ids)
    missing = write_report(result.run, summary, baselines, sample)
    if sample:
        print(f"\n--- sample ---\n{printable(sample)}\n--------------\n", file=file)
    _show({**summary, "run": str(result.run.path)}, file)
    if missing is not None and importlib.util.find_spec("matplotlib") is not None:
        note(missing)


def _scores(
    loss: float | None, exact: float | None, data: Data, baselines: Mapping[str, float]
) -> dict[str, str]:
    """Set a validation loss beside its baselines."""
    scores = {}
    if loss is not None:
        scores["validation loss"] = _units(loss, data)
        for name, value in baselines.items():
            side = "below" if loss < value else "above"
            scores[_called(name)] = f"{_units(value, data)}; the model is {abs(value - loss):.4f} {side}"
    if exact is not None:
        scores["exact"] = f"{100 * exact:.2f} % of the held-out questions"
    return scores


def _units(loss: float, data: Data) -> str:
    """Write a loss in nats, and in bits per byte, which compare between tokenizers."""
    size = data.bytes_per_token()
    return f"{loss:.4f} nats per token" + ("" if size is None else f", {loss / math.log(2) / size:.4f} bits per byte")


# --- sample, eval, info ---


def _sample(given: argparse.Namespace) -> int:
    model = load(given.path or newest())
    if model.tokenizer is None:
        raise RunError("this model was trained on bare token ids; it has no tokenizer to read a prompt with")
    if given.prompt == "":
        given.parser.error("--prompt is empty; give at least one character to go on from")
    try:
        ids = model.tokenizer.encode("\n" if given.prompt is None else given.prompt)
    except ValueError as error:
        if given.prompt is not None:
            given.parser.error(f"--prompt: {error}")
        ids = np.zeros(1, np.int32)  # its text had no line end
    if given.num_samples < 1:
        given.parser.error(f"--num-samples {given.num_samples}: at least 1 is needed")
    seed = int(np.random.default_rng().integers(2**32)) if given.seed is None else given.seed
    rows = model.generate(
        np.tile(ids, (given.num_samples, 1)), given.max_new_tokens, temperature=given.temperature, top_k=given.top_k,
        top_p=given.top_p, rng=stream(seed, "sample"),
    )  # fmt: skip
    texts = map(model.tokenizer.decode, rows)
    _print("\n---\n".join(texts))
    return 0


def _print(text: str) -> None:
    """Print text as it is into a file or a pipe, and harmless on a terminal."""
    print(printable(text) if sys.stdout.isatty() else text)


def _eval(given: argparse.Namespace) -> int:
    path = checkpoint_of(given.path or newest())
    state, model = read_state(path), load(path)
    settings = state.settings()
    data = _data(given, model.config.block_size, settings.seed, state)
    if model.tokenizer is None or data.tokenizer is None or data.tokenizer.to_dict() != model.tokenizer.to_dict():
        raise DataError(f"{data.source} has other tokens than the run's {state.manifest['data']['source']}")
    with Pool(min(settings.threads or 1, settings.batch_size)) as pool:  # as many as training used
        loss = evaluate(model, data, settings.batch_size, pool=pool)
    exact = exact_match(model, data) if isinstance(data, TaskData) else None
    if loss is None:
        raise DataError(f"{data.source} is too short to validate on")
    _show({"source": data.source, **_scores(loss, exact, data, data.baselines()), "checkpoint": str(path)})
    return 0


def _info(given: argparse.Namespace) -> int:
    path = checkpoint_of(given.path or newest())
    facts = {"file": str(path), **read_state(path).manifest}
    lines = (f"  {json.dumps(name)}: {json.dumps(value, ensure_ascii=False)}" for name, value in facts.items())
    _print("{\n" + ",\n".join(lines) + "\n}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
