"""The command line's options: their names, types and help, and answers to names that are not ours.

Every field of `GPTConfig` and of `Settings` is a flag. ``--n-layer 6`` and ``--n_layer=6`` are the same. A wrong name
is answered with the right one, also where it is nanoGPT's.
"""

from __future__ import annotations

import argparse
import dataclasses
import difflib
import math
import sys
import tomllib
import typing
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from autodiff.commands import console
from gpt.config import CHOICES, PRESETS, GPTConfig
from gpt.defaults import MODEL, PRESET_SETTINGS, TASK_SETTINGS
from gpt.settings import Settings
from gpt.tasks import TASKS

__all__ = ["Parser", "add_common", "add_config", "add_data", "add_run", "add_sampling", "add_settings", "parse"]

ELSEWHERE = {
    "max-iters": "--max-steps", "lr-decay-iters": "--max-steps", "epochs": "--max-steps", "steps": "--max-steps",
    "learning-rate": "--lr", "warmup-iters": "--warmup", "grad-clip": "--clip", "eval-iters": "--eval-batches",
    "gradient-accumulation-steps": "--accumulate", "batch": "--batch-size", "out-dir": "--out", "dataset": "--data",
    "input": "--data", "init-from": "--resume", "start": "--prompt", "temp": "--temperature", "context": "--block-size",
    "n-ctx": "--block-size", "hidden-size": "--n-embd", "decay-lr": "--min-lr (the same as --lr for a constant rate)",
    "device": "none, as everything runs on the CPU", "compile": "none, as there is nothing to compile",
    "log-interval": "none, as every step is logged", "always-save-checkpoint": "--save-interval",
}  # fmt: skip
"""What other programs call it, and what it is here."""

HELP = {
    "max_steps": "optimiser steps, and the horizon of the learning rate's schedule",
    "batch_size": "windows in a step, or in a part of one",
    "accumulate": "parts of a step, to save memory; the gradient is that of batch size x parts",
    "lr": "highest learning rate",
    "min_lr": "learning rate at the end of the cosine; default: a tenth of lr",
    "warmup": "steps in which the learning rate rises; default: a twentieth of all, at most 100",
    "weight_decay": "AdamW's, for matrices only",
    "beta1": "AdamW's decay of the mean gradient",
    "beta2": "AdamW's decay of the mean squared gradient",
    "clip": "largest global gradient norm; 0 is off",
    "eval_interval": "steps between evaluations",
    "eval_batches": "validation batches in an evaluation",
    "save_interval": "steps between checkpoints; 0: only at the end",
    "seed": "of weights, batches, dropout and samples",
    "stop_at": "end after this step, with the schedule as it is",
    "minutes": "end after this time, with the schedule as it is",
    "threads": "threads to train on; default: by the work in a step and the cores there are",
    "vocab_size": "tokens; follows from the data",
    "block_size": "context length, in tokens",
    "n_layer": "Transformer blocks",
    "n_head": "attention heads",
    "n_kv_head": "key/value heads, if fewer (grouped-query attention)",
    "n_embd": "width of the residual stream",
    "d_ff": "hidden width of the MLP; 4 n_embd where that is given",
    "norm": "normalisation",
    "norm_eps": "added inside the norm's root",
    "norm_gain": "norms have learned gains",
    "embed_norm": "a norm on the embedding",
    "final_norm": "a norm before the head",
    "pos": "how positions enter",
    "rope_theta": "base of the rotation angles",
    "mlp": "the other half of a block",
    "bias": "biases in linear layers and layer norms",
    "tied": "the head is the token embedding, transposed",
    "dropout": "probability, in training only",
    "dtype": "of parameters and activations",
}
DATA = ("data", "encoding", "task", "tokenizer", "preset")  # what else a file of flags may hold


class Parser(console.Parser):
    """Knows which file of flags it is reading, and the names of other programs."""

    where = ""  # the file of flags that is being read, for messages

    def error(self, message: str) -> NoReturn:
        """Print what is wrong, and where help is."""
        super().error(f"{self.where}{message}")

    def unknown(self, word: str) -> NoReturn:
        """Answer what is no option of this command with the one that is probably meant."""
        name = _dashed(word).split("=", 1)[0].lstrip("-")
        if not word.startswith("-"):
            self.error(f"unexpected argument {word!r}; a text with blanks needs quotes")
        ours = [option[2:] for option in self._option_string_actions if option.startswith("--")]
        hint = ""
        for near in difflib.get_close_matches(name, [*ours, *ELSEWHERE], n=1, cutoff=0.7):
            hint = f"; here it is {ELSEWHERE[near]}" if near in ELSEWHERE else f"; did you mean --{near}?"
        self.error(f"unknown option {word.split('=', 1)[0]}{hint}")


def parse(argv: Sequence[str] | None, main: Parser) -> argparse.Namespace:
    """Parse a command line, and the file of flags that it names; flags of the command line win."""
    words = sys.argv[1:] if argv is None else argv
    given, unknown = main.parse_known_args([_dashed(word) for word in words])
    command: Parser = given.parser
    if unknown:
        command.unknown(unknown[0])
    if getattr(given, "config", None) is not None:
        command.where = f"--config {given.config}: "
        found, unknown = command.parse_known_args(list(_flags(given.config, command)))
        if unknown:
            command.unknown(unknown[0])
        command.where = ""
        for name, value in vars(found).items():
            if getattr(given, name) is None:
                setattr(given, name, value)
    return given


def _dashed(word: str) -> str:
    """Write an option with dashes, ``--n_layer=6`` as ``--n-layer=6``; its value stays as it is."""
    name, equals, value = word.partition("=")
    return name.replace("_", "-") + equals + value if word.startswith("--") else word


def _flags(path: Path, command: Parser) -> Iterator[str]:
    """Read a TOML file as flags; tables in it only group them."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        command.error(f"cannot be read: {error.strerror or error}")
    except ValueError as error:  # of the encoding or of TOML
        command.error(f"no valid TOML: {error}")
    fields: dict[str, Any] = {}
    for name, value in content.items():
        fields.update(value if isinstance(value, dict) else {name: value})
    allowed = [field.name for of in (GPTConfig, Settings) for field in dataclasses.fields(of)] + list(DATA)
    for name, value in fields.items():
        flag = "--" + name.replace("_", "-")
        if flag not in command._option_string_actions:
            command.unknown(flag)
        if name.replace("-", "_") not in allowed:
            command.error(f"{name!r} cannot stand in a file; give {flag} on the command line")
        if isinstance(value, list):
            yield from (flag, *map(str, value))
        else:
            yield f"{flag}={value}"


# --- groups of options ---


def add_common(command: argparse.ArgumentParser) -> None:
    """Add what every command has."""
    command.add_argument("--debug", action="store_true", help="show where in the program an error arose")
    command.set_defaults(parser=command)


def add_run(command: argparse.ArgumentParser) -> None:
    """Add the run that a command is about."""
    command.add_argument(
        "path", metavar="RUN", nargs="?", type=Path, help="its folder, or a checkpoint in it (default: the newest)"
    )


def add_data(command: argparse.ArgumentParser, default: str) -> None:
    """Add what chooses the data."""
    group = command.add_argument_group("data")
    add = group.add_argument
    add("--data", metavar="FILE", nargs="+", help=f"text files, joined in this order (default: {default})")
    add("--encoding", help="of the files, such as gb18030 (default: UTF-8, or what a byte order mark says)")
    add("--task", choices=sorted(TASKS), help="a sequence task instead of a text")


def add_config(command: argparse.ArgumentParser) -> None:
    """Add every field of the model's config."""
    group = command.add_argument_group("model", "Defaults are those of a text; a preset and a task have others.")
    group.add_argument("--preset", choices=list(PRESETS), help="a named model, which the flags below change")
    group.add_argument("--config", metavar="FILE.toml", type=Path, help="more flags, a line `name = value` each")
    group.add_argument("--tokenizer", choices=["char"], help="what a token of a text is (default: char, a character)")
    _add_fields(group, GPTConfig, MODEL)


def add_settings(command: argparse.ArgumentParser) -> None:
    """Add every field of the training settings."""
    others = f"A task has {_listed(TASK_SETTINGS)}; a preset has {_listed(PRESET_SETTINGS)}."
    _add_fields(command.add_argument_group("training", others), Settings, {})


def _listed(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in values.items())


def add_sampling(command: argparse.ArgumentParser) -> None:
    """Add how to write."""
    add = command.add_argument
    add("--prompt", help="what to go on from (default: a line end)")
    add("--max-new-tokens", type=_whole, default=500, metavar="N", help="length (default: 500)")
    add("--num-samples", "-n", type=_whole, default=1, metavar="N", help="how many (default: 1)")
    add("--temperature", type=_number, default=0.8, metavar="X", help="0 takes the likeliest always (default: 0.8)")
    add("--top-k", type=_whole, metavar="N", help="choose from the N likeliest; 0 is off (default)")
    add("--top-p", type=_number, metavar="X", help="choose from the likeliest with X of 1 together; 1 is off (default)")
    add("--seed", type=_whole, metavar="N", help="of the choices (default: another one each time)")


def _add_fields(group: argparse._ArgumentGroup, of: type[Any], defaults: Mapping[str, Any]) -> None:
    """Make a flag of each field of a dataclass; an absent flag is None, so that presets and files can fill it."""
    hints = typing.get_type_hints(of)
    for field in dataclasses.fields(of):
        name, kind = field.name.replace("_", "-"), hints[field.name]
        flag = f"--{name}"
        default = defaults.get(field.name, field.default)
        text = HELP[field.name] + ("" if default in (None, dataclasses.MISSING) else f" (default: {default})")
        if kind is bool:
            group.add_argument(flag, type=_switch, nargs="?", const=True, metavar="true|false", help=text)
            group.add_argument(f"--no-{name}", dest=field.name, action="store_const", const=False, help="the opposite")
        elif field.name in CHOICES:
            group.add_argument(flag, choices=CHOICES[field.name], help=text)
        else:
            whole = kind in (int, int | None)
            group.add_argument(flag, type=_whole if whole else _number, metavar="N" if whole else "X", help=text)


def _switch(text: str) -> bool:
    """Read true or false."""
    words = {"true": True, "1": True, "yes": True, "on": True, "false": False, "0": False, "no": False, "off": False}
    if text.lower() not in words:
        raise argparse.ArgumentTypeError(f"{text!r} is not true or false")
    return words[text.lower()]


def _whole(text: str) -> int:
    """Read an integer."""
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None


def _number(text: str) -> float:
    """Read a finite number."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number, or not a finite one")
    return value
